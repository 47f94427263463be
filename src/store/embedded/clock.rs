//! The clock of an embedded store: wall time at the start, then a clock that only goes on.
//!
//! Retention must survive restarts, so time is counted since the Unix epoch; a lease must not be shortened by a
//! wall clock that is set, so within one process time is the machine's (suspension included). Not here: what
//! expires when.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

use crate::idempotency::StoreTime;

/// Tells the store's time. Never goes back within a process, nor from one to the next.
#[derive(Debug)]
pub(super) struct Clock {
    /// The store's time when this process began.
    base: Duration,
    /// The machine's time then.
    began: Duration,
}

impl Clock {
    /// A clock that starts at `wall` (since the epoch), but not before `seen`, the latest time in the file.
    pub(super) fn starting(wall: Duration, seen: StoreTime) -> Self {
        Self { base: wall.max(seen.0), began: machine() }
    }

    /// The time now.
    pub(super) fn now(&self) -> StoreTime {
        StoreTime(self.base.saturating_add(machine().saturating_sub(self.began)))
    }
}

/// The wall clock, since the epoch.
pub(super) fn wall() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Time since the machine was started. `CLOCK_BOOTTIME` never goes back and cannot be set.
fn machine() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or_default(), u32::try_from(now.tv_nsec).unwrap_or_default())
}
