//! What the database writes to: the file, until a write fails; then a frozen file that can still be read.
//!
//! After a failed write or sync nobody knows what is on the disk, and asking again may be answered with a lie (the
//! kernel drops the pages it could not write). So the first failure ends all writing: from then on the file is
//! not touched any more, and what the database writes is kept in memory over it, so that it goes on reading what
//! it believes in. The writer looks at [`Disk::failure`] after every commit. Not here: what follows from it.

use std::{
    fmt, io,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use redb::{BackendError, StorageBackend};

/// A backend that survives its first failure, read-only. Clones share it.
pub(super) struct Disk<B> {
    shared: Arc<Shared<B>>,
}

struct Shared<B> {
    file: B,
    /// The first failure.
    failure: OnceLock<String>,
    frozen: Mutex<Frozen>,
}

/// What was written after the failure.
#[derive(Default)]
struct Frozen {
    /// The length the database believes in, once it has changed it.
    len: Option<u64>,
    /// The smallest of these: what the file has beyond it is cut off, and stays so if the length grows again.
    cut: Option<u64>,
    /// In the order of writing: a later one covers an earlier one. No more than one transaction's worth, since
    /// no further one is begun.
    writes: Vec<(u64, Vec<u8>)>,
}

impl Frozen {
    fn resize(&mut self, len: u64) {
        self.len = Some(len);
        self.cut = Some(self.cut.map_or(len, |cut| cut.min(len)));
        for (at, bytes) in &mut self.writes {
            bytes.truncate(usize::try_from(len.saturating_sub(*at)).unwrap_or(usize::MAX));
        }
    }
}

impl<B> Clone for Disk<B> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<B> fmt::Debug for Disk<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("failure", &self.shared.failure.get()).finish_non_exhaustive()
    }
}

impl<B: StorageBackend> Disk<B> {
    pub(super) fn new(file: B) -> Self {
        Self { shared: Arc::new(Shared { file, failure: OnceLock::new(), frozen: Mutex::default() }) }
    }

    /// Why nothing is written any more.
    pub(super) fn failure(&self) -> Option<&str> {
        self.shared.failure.get().map(String::as_str)
    }

    /// Ends all writing, for a reason found elsewhere.
    pub(super) fn freeze(&self, reason: String) {
        let _ = self.shared.failure.set(reason);
    }

    /// Carries a change out on the file, and freezes it if that fails. `None` where it is frozen.
    fn change(&self, what: &str, change: impl FnOnce(&B) -> io::Result<()>) -> Option<()> {
        if self.failure().is_some() {
            return None;
        }
        match change(&self.shared.file) {
            Ok(()) => Some(()),
            Err(error) => {
                self.freeze(format!("{what}: {error}"));
                None
            }
        }
    }

    fn frozen(&self) -> MutexGuard<'_, Frozen> {
        self.shared.frozen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: StorageBackend> StorageBackend for Disk<B> {
    fn len(&self) -> io::Result<u64> {
        if self.failure().is_some()
            && let Some(len) = self.frozen().len
        {
            return Ok(len);
        }
        self.shared.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if self.failure().is_none() {
            return self.shared.file.read(offset, out);
        }
        let frozen = self.frozen();
        // The file may end before what the database believes it has written.
        let end = self.shared.file.len()?.min(frozen.cut.unwrap_or(u64::MAX));
        let there = end.saturating_sub(offset).min(out.len() as u64) as usize;
        let (from_file, beyond) = out.split_at_mut(there);
        if !from_file.is_empty() {
            self.shared.file.read(offset, from_file)?;
        }
        beyond.fill(0);
        for (at, bytes) in &frozen.writes {
            cover(offset, out, *at, bytes);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.change("cannot resize the file", |file| file.set_len(len)).is_none() {
            self.frozen().resize(len);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change("cannot sync the file", B::sync_data);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.change("cannot write to the file", |file| file.write(offset, data)).is_none() {
            self.frozen().writes.push((offset, data.to_vec()));
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.shared.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.shared.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.shared.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.shared.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.shared.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.shared.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.shared.file.query_lock_range(start, end)
    }
}

/// Puts the part of `bytes` (which begin at `at`) into `out` (which begins at `offset`) that overlaps it.
fn cover(offset: u64, out: &mut [u8], at: u64, bytes: &[u8]) {
    let begin = at.max(offset);
    let end = at.saturating_add(bytes.len() as u64).min(offset.saturating_add(out.len() as u64));
    if begin >= end {
        return;
    }
    let length = (end - begin) as usize;
    let (from, to) = ((begin - at) as usize, (begin - offset) as usize);
    out[to..to + length].copy_from_slice(&bytes[from..from + length]);
}

#[cfg(test)]
mod tests;
