//! Duplicates that wait for the request that runs: woken when it settles in this process, bounded in number.
//!
//! What a waiter does when it is woken (it bids again) is `gate`'s business. A claim held by another gate wakes
//! nobody here; for those the waiter looks again by itself.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use crate::idempotency::RecordKey;

/// All waiting duplicates of a gate, and the keys that run in it.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    keys: Mutex<HashMap<RecordKey, Key>>,
    /// Waiters of all keys. Changed under the lock of `keys`.
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct Key {
    settled: watch::Sender<()>,
    /// Flights under this key in this process: 0 or 1, but for a take-over.
    flights: usize,
    waiting: usize,
}

/// A duplicate that waits. Gives its place back when dropped.
#[derive(Debug)]
pub(super) struct Waiter<'a> {
    waiters: &'a Waiters,
    key: RecordKey,
    settled: watch::Receiver<()>,
}

/// A flight of this process. Its end wakes all who wait for its key.
#[derive(Debug)]
pub(super) struct Airborne<'a> {
    waiters: &'a Waiters,
    key: RecordKey,
}

impl Waiters {
    /// A place among the waiters of `key`, unless `per_key` or `in_all` are taken.
    ///
    /// What settles after this call wakes the waiter, even if it does not listen yet.
    pub(super) fn enlist(&self, key: RecordKey, per_key: usize, in_all: usize) -> Option<Waiter<'_>> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if self.waiting.load(Relaxed) >= in_all {
            return None;
        }
        let entry = keys.entry(key).or_insert_with(Key::empty);
        if entry.waiting >= per_key {
            if entry.is_unused() {
                keys.remove(&key);
            }
            return None;
        }
        entry.waiting += 1;
        self.waiting.fetch_add(1, Relaxed);
        Some(Waiter { waiters: self, key, settled: entry.settled.subscribe() })
    }

    /// Says that `key` runs in this process until the returned value is dropped.
    pub(super) fn take_off(&self, key: RecordKey) -> Airborne<'_> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.entry(key).or_insert_with(Key::empty).flights += 1;
        Airborne { waiters: self, key }
    }

    fn runs_here(&self, key: &RecordKey) -> bool {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.get(key).is_some_and(|key| key.flights > 0)
    }

    fn leave(&self, key: RecordKey, change: impl FnOnce(&mut Key)) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut entry) = keys.entry(key) {
            change(entry.get_mut());
            if entry.get().is_unused() {
                entry.remove();
            }
        }
    }
}

impl Key {
    fn empty() -> Self {
        Self { settled: watch::Sender::new(()), flights: 0, waiting: 0 }
    }

    fn is_unused(&self) -> bool {
        self.flights == 0 && self.waiting == 0
    }
}

impl Waiter<'_> {
    /// Waits until the key has settled in this process, or until it is time to look what another gate did with it;
    /// `false` once `deadline` has passed. `round` counts the looks so far: they grow rarer.
    pub(super) async fn changed(&mut self, deadline: Instant, round: u32) -> bool {
        if Instant::now() >= deadline {
            return false;
        }
        let look = if self.waiters.runs_here(&self.key) {
            deadline
        } else {
            deadline.min(Instant::now() + Duration::from_millis(50 << round.min(4)))
        };
        // The sender lives in the map for as long as this waiter does.
        let _ = tokio::time::timeout_at(look, self.settled.changed()).await;
        true
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.waiters.leave(self.key, |key| {
            key.waiting -= 1;
            self.waiters.waiting.fetch_sub(1, Relaxed);
        });
    }
}

impl Drop for Airborne<'_> {
    fn drop(&mut self) {
        self.waiters.leave(self.key, |key| {
            key.flights -= 1;
            key.settled.send_replace(());
        });
    }
}

#[cfg(test)]
mod tests;
