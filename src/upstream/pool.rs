//! Idle connections, youngest first.
//!
//! Bounded, and swept when it is used: no timer and no task of its own. A connection comes back only after a clean
//! exchange; one that its peer has closed, or has spoken on, is never handed out.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::connection::Link;

/// No connection is used after it has been idle for longer.
pub(super) const IDLE_CAP: Duration = Duration::from_secs(60);

/// Idle connections kept; a further one displaces the one that has been idle longest.
const IDLE_MAX: usize = 256;

/// Idle connections in the order in which they became idle.
#[derive(Debug, Default)]
pub(super) struct Pool {
    idle: Mutex<VecDeque<Idle>>,
}

#[derive(Debug)]
struct Idle {
    link: Link,
    since: Instant,
}

impl Pool {
    /// The connection that became idle last, if that is at most `patience` ago and its peer still listens.
    pub(super) fn take(&self, now: Instant, patience: Duration) -> Option<Link> {
        let mut idle = self.lock();
        let mut dropped = sweep(&mut idle, now);
        let mut found = None;
        while let Some(candidate) = idle.pop_back() {
            let age = candidate.age(now);
            if age > candidate.link.keep_alive() || !candidate.link.is_usable() {
                dropped.push(candidate);
            } else if age > patience {
                // Everything below has been idle for longer still.
                idle.push_back(candidate);
                break;
            } else {
                found = Some(candidate.link);
                break;
            }
        }
        drop(idle);
        drop(dropped);
        found
    }

    /// Keeps a connection that has become idle.
    pub(super) fn put(&self, link: Link, now: Instant) {
        let mut idle = self.lock();
        let mut dropped = sweep(&mut idle, now);
        idle.push_back(Idle { link, since: now });
        if idle.len() > IDLE_MAX {
            dropped.extend(idle.pop_front());
        }
        drop(idle);
        drop(dropped);
    }

    /// How many connections are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes out what is too old or closed, from the oldest on. What it returns is dropped outside the lock.
fn sweep(idle: &mut VecDeque<Idle>, now: Instant) -> Vec<Idle> {
    let stale = idle.iter().take_while(|entry| entry.age(now) > IDLE_CAP || entry.link.is_closed()).count();
    idle.drain(..stale).collect()
}

impl Idle {
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }
}
