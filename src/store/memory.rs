//! `memory:`: cells in this process. For tests, the demo and a first try; everything is forgotten at its end.
//!
//! The thinnest shell around [`Cell::swap`], and thereby the specification in motion.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use super::{Reply, Store};
use crate::idempotency::{Cell, Expect, Occupant, RecordKey, StoreTime, Swapped, Write};

/// Independent locks, so that gates with many cores do not queue for one.
const SHARDS: usize = 16;

/// Expired cells removed per operation: twice what one operation can add, so that garbage cannot pile up.
const SWEPT_PER_SWAP: usize = 2;

/// Cells in this process.
#[derive(Debug)]
pub struct MemoryStore {
    start: Instant,
    shards: [Mutex<Shard>; SHARDS],
}

/// Some of the cells, and when each of them can be forgotten.
#[derive(Debug, Default)]
struct Shard {
    cells: HashMap<RecordKey, Cell>,
    /// Exactly one entry per cell.
    ends: BTreeSet<(StoreTime, RecordKey)>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// A store without cells, whose clock starts now.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now(), shards: Default::default() }
    }

    /// How many cells are kept, expired ones that are not swept yet included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).cells.len()).sum()
    }

    /// Whether there is no cell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The shard of a cell, locked, and the time: read under the lock, so that it never goes back for a cell.
    fn enter(&self, key: &RecordKey) -> (MutexGuard<'_, Shard>, StoreTime) {
        let shard = lock(&self.shards[usize::from(key.0[0]) % SHARDS]);
        (shard, StoreTime(self.start.elapsed()))
    }
}

/// A shard is whole between two statements of `swap`, none of which can panic halfway: poison means nothing.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    fn swap(&mut self, key: &RecordKey, expect: Expect, write: Write, now: StoreTime) -> Swapped {
        self.sweep(now);
        let mut cell = self.cells.remove(key).unwrap_or_default();
        if let Some(end) = end_of(&cell) {
            self.ends.remove(&(end, *key));
        }
        let swapped = cell.swap(expect, write, now);
        if let Some(end) = end_of(&cell).filter(|_| !cell.is_vacant(now)) {
            self.ends.insert((end, *key));
            self.cells.insert(*key, cell);
        }
        swapped
    }

    fn sweep(&mut self, now: StoreTime) {
        for _ in 0..SWEPT_PER_SWAP {
            match self.ends.first() {
                Some(&(end, key)) if end <= now => {
                    self.ends.pop_first();
                    self.cells.remove(&key);
                }
                Some(_) | None => return,
            }
        }
    }
}

/// When the retention of what is in the cell ends.
fn end_of(cell: &Cell) -> Option<StoreTime> {
    cell.inside().map(|(record, touched)| StoreTime(touched.0.saturating_add(record.retention)))
}

impl Store for MemoryStore {
    fn swap<'a>(&'a self, key: &'a RecordKey, expect: Expect, write: Write) -> Reply<'a, Swapped> {
        Box::pin(async move {
            let (mut shard, now) = self.enter(key);
            Ok(shard.swap(key, expect, write, now))
        })
    }

    fn read<'a>(&'a self, key: &'a RecordKey) -> Reply<'a, Option<Occupant>> {
        Box::pin(async move {
            let (shard, now) = self.enter(key);
            Ok(shard.cells.get(key).and_then(|cell| cell.occupant(now)))
        })
    }

    fn ping(&self) -> Reply<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

#[cfg(test)]
mod tests;
