//! Keeps a claim alive while the upstream works, and knows how long ago it was certainly held.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use super::{bid::BootTime, gate::Won};
use crate::{
    idempotency::{Claim, Expect, Swapped},
    store::{Store, StoreError},
};

/// The lease on one claim.
pub(super) struct Lease<'a> {
    store: &'a dyn Store,
    claim: &'a Claim,
    /// When the last confirmed hold was asked for, in boot milliseconds: earlier than the store granted it.
    confirmed: AtomicU64,
    /// Whether a write of this claim is out, or one ended without a verdict, so that it may land later.
    straggler: AtomicBool,
}

impl<'a> Lease<'a> {
    pub(super) fn new(store: &'a dyn Store, won: &'a Won) -> Self {
        Self {
            store,
            claim: &won.claim,
            confirmed: AtomicU64::new(won.asked.as_millis()),
            straggler: AtomicBool::new(won.straggler),
        }
    }

    /// Whether less than half the lease has gone since the last confirmed hold, so that what is sent now is sent
    /// under a claim that is still ours (the process may have been stopped in between).
    pub(super) fn is_fresh(&self) -> bool {
        BootTime::from_millis(self.confirmed.load(Relaxed)).elapsed() < self.claim.lease / 2
    }

    /// Whether a bid or a renewal may still land after the claim was emptied.
    pub(super) fn may_have_straggler(&self) -> bool {
        self.straggler.load(Relaxed)
    }

    /// Renews three times a lease, for ever; to be run beside the exchange and dropped with its end.
    pub(super) async fn keep(&self) -> Infallible {
        let usual = self.claim.lease / 3;
        let mut pause = usual;
        loop {
            tokio::time::sleep(pause).await;
            pause = match self.renew().await {
                Renewal::Held => usual,
                Renewal::NoVerdict => (usual / 4).max(Duration::from_millis(50)),
                // A doubtful claim is not revived; its own claimant may still complete it.
                Renewal::Lost => std::future::pending().await,
            };
        }
    }

    async fn renew(&self) -> Renewal {
        let asked = BootTime::now();
        let before = self.straggler.swap(true, Relaxed);
        let renewed = self.store.swap(&self.claim.key, Expect::HeldBy(self.claim.token), self.claim.renew()).await;
        if !matches!(renewed, Err(StoreError::InDoubt(_))) {
            self.straggler.store(before, Relaxed);
        }
        match renewed {
            Ok(Swapped::Done) => {
                self.confirmed.store(asked.as_millis(), Relaxed);
                Renewal::Held
            }
            Ok(Swapped::Recreated) => {
                self.confirmed.store(asked.as_millis(), Relaxed);
                tracing::error!(
                    cell = %self.claim.key, route = %self.claim.route,
                    "the store had forgotten a running claim; it is written anew. Other keys may be forgotten, too"
                );
                Renewal::Held
            }
            Ok(Swapped::Refused { .. }) => {
                tracing::warn!(
                    cell = %self.claim.key, route = %self.claim.route,
                    "a claim lapsed while its execution runs; retries read it as unknown until the answer comes"
                );
                Renewal::Lost
            }
            Err(error) => {
                tracing::warn!(cell = %self.claim.key, %error, "a claim could not be renewed");
                Renewal::NoVerdict
            }
        }
    }
}

enum Renewal {
    Held,
    NoVerdict,
    Lost,
}

#[cfg(test)]
mod tests;
