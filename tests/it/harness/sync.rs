//! Latches and watched values: how tests wait for events instead of sleeping.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use super::wire::DEADLINE;

/// A value that threads change and wait on.
#[derive(Debug, Default)]
pub(crate) struct Watched<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Watched<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Condvar::new() }
    }

    /// The value. A panic elsewhere in the test does not hide it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Changes the value and wakes whoever waits.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until `look` finds what it wants; `None` after `patience`.
    pub(crate) fn wait_for<R>(&self, patience: Duration, mut look: impl FnMut(&mut T) -> Option<R>) -> Option<R> {
        let end = Instant::now() + patience;
        let mut value = self.lock();
        loop {
            if let Some(found) = look(&mut value) {
                return Some(found);
            }
            let left = end.checked_duration_since(Instant::now())?;
            value = self.changed.wait_timeout(value, left).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }
}

/// Holds threads back until the test opens it, for good or for a number of passes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latch(Arc<Watched<LatchState>>);

#[derive(Debug, Default)]
struct LatchState {
    open: bool,
    passes: usize,
    waiting: usize,
}

impl Latch {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Waits until there is a pass. A deadline passes as well: the test then fails elsewhere, with a reason.
    pub(crate) fn wait(&self) {
        self.0.update(|state| state.waiting += 1);
        self.0.wait_for(DEADLINE * 3, |state| {
            if state.open {
                return Some(());
            }
            state.passes = state.passes.checked_sub(1)?;
            Some(())
        });
        self.0.update(|state| state.waiting -= 1);
    }

    /// Waits until `n` threads wait here.
    pub(crate) fn wait_for_waiting(&self, n: usize) {
        self.0
            .wait_for(DEADLINE, |state| (state.waiting >= n).then_some(()))
            .unwrap_or_else(|| panic!("{} of {n} arrived at the latch", self.0.lock().waiting));
    }

    /// Lets everyone pass from now on.
    pub(crate) fn open(&self) {
        self.0.update(|state| state.open = true);
    }

    /// Lets one pass.
    pub(crate) fn pass_one(&self) {
        self.0.update(|state| state.passes += 1);
    }
}
