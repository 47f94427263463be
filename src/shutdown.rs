//! The phases of stopping, as a handle that every room can watch. Signals are turned into calls by `app`.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

/// How far the gate is on its way out. Only ever advances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Serving.
    Running,
    /// Not ready any more, still serving (`server.shutdown_delay`).
    Leaving,
    /// The listener is closed; running exchanges finish, new requests get 503 (`server.shutdown_grace`).
    Draining,
    /// The grace is over: what still runs is written down as unknown.
    Over,
}

/// Watches, and advances, the phase of one gate. Clones share it.
#[derive(Clone, Debug)]
pub struct Shutdown {
    phase: Arc<watch::Sender<Phase>>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// A gate that runs.
    #[must_use]
    pub fn new() -> Self {
        Self { phase: Arc::new(watch::Sender::new(Phase::Running)) }
    }

    /// The phase now.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Moves on to `phase`; does nothing if the gate is that far already.
    pub fn advance(&self, phase: Phase) {
        self.phase.send_if_modified(|current| {
            let further = phase > *current;
            if further {
                *current = phase;
            }
            further
        });
    }

    /// Waits until the gate is at `phase` or further.
    pub async fn reached(&self, phase: Phase) {
        let mut watcher = self.phase.subscribe();
        // The sender lives as long as `self`: waiting cannot fail.
        let _ = watcher.wait_for(|current| *current >= phase).await;
    }

    /// Runs the phases from `Leaving` to `Over`. Ends early when someone else advances the phase.
    pub async fn run(&self, delay: Duration, grace: Duration) {
        self.advance(Phase::Leaving);
        let _ = tokio::time::timeout(delay, self.reached(Phase::Draining)).await;
        self.advance(Phase::Draining);
        let _ = tokio::time::timeout(grace, self.reached(Phase::Over)).await;
        self.advance(Phase::Over);
    }
}
