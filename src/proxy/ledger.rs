//! Writing into the store with patience: a swap is repeated, with the same token, until it has a verdict or the
//! time for it is over; and what must not be lost is written in the background for as long as the process lives.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::Proxy;
use crate::{
    idempotency::{Claim, Expect, RecordKey, Swapped, Write},
    shutdown::Phase,
    store::{Store, StoreError},
};

/// How many store timeouts a write may take before it is given up (CONTRACT §6: "a claim gives up after four").
const TIMEOUTS: u32 = 4;

/// A verdict, and what is left of the way to it.
pub(super) struct Verdict {
    /// What the store says.
    pub(super) swapped: Swapped,
    /// Whether an earlier attempt had no answer: it may still be on its way, and land when nobody expects it.
    pub(super) straggler: bool,
}

/// Repeats an operation that is idempotent by its token until there is a verdict, for four store timeouts at most.
///
/// # Errors
/// The last error, but `InDoubt` if any attempt was: an attempt that is refused later says nothing about one before.
pub(super) async fn insist(
    store: &dyn Store,
    key: &RecordKey,
    expect: Expect,
    write: &Write,
    timeout: Duration,
) -> Result<Verdict, StoreError> {
    let deadline = Instant::now() + timeout * TIMEOUTS;
    let mut doubt = None;
    loop {
        let error = match store.swap(key, expect, write.clone()).await {
            Ok(swapped) => return Ok(Verdict { swapped, straggler: doubt.is_some() }),
            Err(error @ StoreError::Corrupt(_)) => return Err(error),
            // Certainly not applied: waiting longer would only queue requests before a store that is down.
            Err(error @ (StoreError::NotSent(_) | StoreError::Refused(_))) if doubt.is_none() => return Err(error),
            Err(StoreError::NotSent(_) | StoreError::Refused(_)) => None,
            Err(error @ StoreError::InDoubt(_)) => Some(error),
        };
        doubt = error.or(doubt);
        if Instant::now() >= deadline
            && let Some(error) = doubt
        {
            return Err(error);
        }
        // An operation that failed at once must not be repeated in a busy loop.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Writes the end of an execution down in the background, until the store has a verdict or the process ends. In
/// between the claim is kept alive as far as the store lets us, so that retries meet `in-progress`.
pub(super) fn keep_trying(proxy: &Arc<Proxy>, claim: Claim, write: Write, held: impl Send + 'static) {
    let proxy = Arc::clone(proxy);
    let tracker = proxy.owed.clone();
    tokio::spawn(tracker.track_future(async move {
        tokio::select! {
            () = write_down(&*proxy.store, &claim, write) => {}
            () = proxy.shutdown.reached(Phase::Over) => {
                tracing::error!(
                    cell = %claim.key, route = %claim.route,
                    "the gate ends before the store came back: this outcome is not written down and reads as unknown"
                );
            }
        }
        drop(held);
    }));
}

async fn write_down(store: &dyn Store, claim: &Claim, write: Write) {
    let holder = Expect::HeldBy(claim.token);
    let longest = (claim.lease / 3).min(Duration::from_secs(5));
    let mut pause = Duration::from_millis(50);
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(longest);
        match store.swap(&claim.key, holder, write.clone()).await {
            Ok(Swapped::Done) => return tracing::info!(cell = %claim.key, "an outcome was written down late"),
            Ok(Swapped::Recreated) => {
                return tracing::error!(cell = %claim.key, "the store had forgotten a claim; its outcome is written anew");
            }
            Ok(Swapped::Refused { .. }) => {
                return tracing::error!(
                    cell = %claim.key, route = %claim.route,
                    "the cell was taken over before its outcome could be written: the operation may have run twice"
                );
            }
            // A store too full for an answer may still have room for a renewal.
            Err(StoreError::Refused(_)) => drop(store.swap(&claim.key, holder, claim.renew()).await),
            Err(StoreError::NotSent(_) | StoreError::InDoubt(_) | StoreError::Corrupt(_)) => {}
        }
    }
}
