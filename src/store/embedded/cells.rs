//! What the database holds: cells, and the two orders in which they must be found. Every function is one step of
//! a transaction that the caller commits.
//!
//! ```text
//!   cells    name → time of the last write (ns), record
//!   ends     (second in which the retention is over, name)      one entry per cell; swept from its front
//!   claimed  name                                               what a next process finds without a claimant
//!   meta     "format", "clock"
//! ```
//! Not here: when to commit, and what a record means (`Cell::swap` says who may write).

use std::time::Duration;

use bytes::Bytes;
use redb::{
    ReadTransaction, ReadableDatabase, ReadableTable, StorageError, Table, TableDefinition, TableError,
    TransactionError, WriteTransaction,
};

use crate::idempotency::{
    Cell, Expect, RecordKey, State, StoreTime, Swapped, Write,
    codec::{self, DecodeError},
};

type Name = &'static [u8; 32];

const CELLS: TableDefinition<'static, Name, &'static [u8]> = TableDefinition::new("cells");
const ENDS: TableDefinition<'static, (u64, Name), ()> = TableDefinition::new("ends");
const CLAIMED: TableDefinition<'static, Name, ()> = TableDefinition::new("claimed");
const META: TableDefinition<'static, &'static str, u64> = TableDefinition::new("meta");

/// The layout above.
const FORMAT: u64 = 1;

/// Length of the time before each record.
const TIME_LEN: usize = 8;

/// Claims of a previous process that are looked at together.
const RECOVERED_AT_ONCE: usize = 1024;

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CellError {
    /// This one cell cannot be read; the transaction is as good as before.
    #[error(transparent)]
    Unreadable(#[from] DecodeError),
    /// The database failed; the transaction must be dropped.
    #[error(transparent)]
    Database(Box<redb::Error>),
}

macro_rules! database_errors {
    ($($error:ty),*) => {$(
        impl From<$error> for CellError {
            fn from(error: $error) -> Self {
                Self::Database(Box::new(error.into()))
            }
        }
    )*};
}
database_errors!(StorageError, TableError, TransactionError);

/// A look at the committed cells.
pub(super) struct Snapshot {
    transaction: ReadTransaction,
}

impl Snapshot {
    pub(super) fn new(database: &impl ReadableDatabase) -> Result<Self, CellError> {
        Ok(Self { transaction: database.begin_read()? })
    }

    pub(super) fn cell(&self, key: &RecordKey) -> Result<Cell, CellError> {
        load(&self.transaction.open_table(CELLS)?, key)
    }

    /// When the first cell can be swept, if there is one.
    pub(super) fn first_end(&self) -> Result<Option<StoreTime>, CellError> {
        first_end(&self.transaction.open_table(ENDS)?)
    }
}

/// The tables in a transaction that changes them.
pub(super) struct Tables<'t> {
    cells: Table<'t, Name, &'static [u8]>,
    ends: Table<'t, (u64, Name), ()>,
    claimed: Table<'t, Name, ()>,
    meta: Table<'t, &'static str, u64>,
}

impl<'t> Tables<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Self, CellError> {
        Ok(Self {
            cells: transaction.open_table(CELLS)?,
            ends: transaction.open_table(ENDS)?,
            claimed: transaction.open_table(CLAIMED)?,
            meta: transaction.open_table(META)?,
        })
    }

    /// Whether the file is ours: writes the mark into a new one, and returns another layout's number.
    pub(super) fn check_format(&mut self) -> Result<Option<u64>, CellError> {
        let found = self.meta.get("format")?.map(|format| format.value());
        match found {
            Some(FORMAT) => Ok(None),
            Some(other) => Ok(Some(other)),
            None => {
                self.meta.insert("format", FORMAT)?;
                Ok(None)
            }
        }
    }

    /// The latest time that was written down.
    pub(super) fn clock(&self) -> Result<StoreTime, CellError> {
        let nanos = self.meta.get("clock")?.map_or(0, |nanos| nanos.value());
        Ok(StoreTime(Duration::from_nanos(nanos)))
    }

    /// Writes down that it is at least `now`.
    pub(super) fn set_clock(&mut self, now: StoreTime) -> Result<(), CellError> {
        self.meta.insert("clock", nanos(now))?;
        Ok(())
    }

    /// Carries a swap out, and says whether it changed anything.
    pub(super) fn swap(
        &mut self,
        key: &RecordKey,
        expect: Expect,
        write: Write,
        now: StoreTime,
    ) -> Result<(Swapped, bool), CellError> {
        let before = load(&self.cells, key)?;
        let mut cell = before.clone();
        let swapped = cell.swap(expect, write, now);
        let changed = cell != before;
        if changed {
            self.put(key, &before, &cell)?;
        }
        Ok((swapped, changed))
    }

    /// Removes up to `limit` cells whose retention is over at `now`; returns how many entries were looked at.
    pub(super) fn sweep(&mut self, now: StoreTime, limit: usize) -> Result<usize, CellError> {
        for looked_at in 0..limit {
            if first_end(&self.ends)?.is_none_or(|end| end > now) {
                return Ok(looked_at);
            }
            let Some(name) = self.ends.pop_first()?.map(|(entry, _)| *entry.value().1) else {
                return Ok(looked_at);
            };
            let key = RecordKey(name);
            match load(&self.cells, &key) {
                // The entry was out of date; it is not expected to be, and a cell is not lost over it.
                Ok(cell) if !cell.is_vacant(now) => self.index(&key, &cell)?,
                // What cannot be read is forgotten at its time like everything else.
                Ok(_) | Err(CellError::Unreadable(_)) => {
                    self.cells.remove(&key.0)?;
                    self.claimed.remove(&key.0)?;
                }
                Err(error @ CellError::Database(_)) => return Err(error),
            }
        }
        Ok(limit)
    }

    /// Writes down every claim of a previous process as unknown: its claimant is gone. Returns how many.
    pub(super) fn recover(&mut self, now: StoreTime) -> Result<u64, CellError> {
        let mut recovered = 0;
        loop {
            let mut names = Vec::with_capacity(RECOVERED_AT_ONCE);
            for entry in self.claimed.iter()?.take(RECOVERED_AT_ONCE) {
                names.push(*entry?.0.value());
            }
            if names.is_empty() {
                return Ok(recovered);
            }
            for name in names {
                let key = RecordKey(name);
                match load(&self.cells, &key) {
                    Ok(before) => {
                        if let Some(occupant) = before.occupant(now)
                            && matches!(occupant.record.state, State::Claimed)
                        {
                            self.put(&key, &before, &Cell::holding(occupant.record.lapsed(), now))?;
                            recovered += 1;
                        }
                    }
                    // It stays, is refused to everyone, and is swept at its end.
                    Err(CellError::Unreadable(_)) => {}
                    Err(error @ CellError::Database(_)) => return Err(error),
                }
                self.claimed.remove(&key.0)?;
            }
        }
    }

    /// Replaces what is in a cell, in all tables.
    fn put(&mut self, key: &RecordKey, before: &Cell, after: &Cell) -> Result<(), CellError> {
        if let Some(end) = end_of(before).filter(|end| end_of(after) != Some(*end)) {
            self.ends.remove((end, &key.0))?;
        }
        let Some((record, touched)) = after.inside() else {
            self.cells.remove(&key.0)?;
            self.claimed.remove(&key.0)?;
            return Ok(());
        };
        let bytes = codec::encode(key, record);
        let mut value = self.cells.insert_reserve(&key.0, TIME_LEN + bytes.len())?;
        let (time, rest) = value.as_mut().split_at_mut(TIME_LEN);
        time.copy_from_slice(&nanos(touched).to_be_bytes());
        rest.copy_from_slice(&bytes);
        drop(value);
        match record.state {
            State::Claimed => self.claimed.insert(&key.0, ())?,
            State::Completed(_) | State::Unknown { .. } => self.claimed.remove(&key.0)?,
        };
        if end_of(before) != end_of(after) {
            self.index(key, after)?;
        }
        Ok(())
    }

    fn index(&mut self, key: &RecordKey, cell: &Cell) -> Result<(), CellError> {
        if let Some(end) = end_of(cell) {
            self.ends.insert((end, &key.0), ())?;
        }
        Ok(())
    }
}

/// What is in a cell, expired or not.
fn load(cells: &impl ReadableTable<Name, &'static [u8]>, key: &RecordKey) -> Result<Cell, CellError> {
    let Some(value) = cells.get(&key.0)? else { return Ok(Cell::default()) };
    let Some((time, record)) = value.value().split_first_chunk::<TIME_LEN>() else {
        return Err(DecodeError::Damaged("it is too short for a time").into());
    };
    let touched = StoreTime(Duration::from_nanos(u64::from_be_bytes(*time)));
    Ok(Cell::holding(codec::decode(key, &Bytes::copy_from_slice(record))?, touched))
}

fn first_end(ends: &impl ReadableTable<(u64, Name), ()>) -> Result<Option<StoreTime>, CellError> {
    Ok(ends.first()?.map(|(entry, _)| StoreTime(Duration::from_secs(entry.value().0))))
}

/// The second in which the retention of what is in the cell is over. Whole seconds, so that a claim and its
/// completion mostly share an entry.
fn end_of(cell: &Cell) -> Option<u64> {
    let (record, touched) = cell.inside()?;
    let end =
        Duration::from_nanos(nanos(touched)).saturating_add(Duration::from_millis(codec::millis(record.retention)));
    Some(end.as_secs().saturating_add(u64::from(end.subsec_nanos() > 0)))
}

/// Nanoseconds since the epoch, as the file holds them: until the year 2554.
fn nanos(time: StoreTime) -> u64 {
    u64::try_from(time.0.as_nanos()).unwrap_or(u64::MAX)
}
