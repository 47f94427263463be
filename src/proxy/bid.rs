//! A bid under way: what is drawn for it, and what happens to it when nobody waits for its verdict any more.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use rustix::time::{ClockId, clock_gettime};

use super::Proxy;
use crate::{
    idempotency::{Claim, ClaimToken, Expect, Swapped, WallMillis, Write},
    shutdown::Phase,
};

/// A token that nobody else will draw.
///
/// # Panics
/// If the system has no randomness to give: no token, no safe claim.
pub(super) fn draw_token() -> ClaimToken {
    let mut token = [0; 16];
    getrandom::fill(&mut token).expect("the system must provide randomness");
    ClaimToken(token)
}

/// The name of this process in `Via` (RFC 9110 §7.6.3).
pub(super) fn pseudonym() -> String {
    let [a, b, c, d, e, f, ..] = draw_token().0;
    format!("oncegate-{a:02x}{b:02x}{c:02x}{d:02x}{e:02x}{f:02x}")
}

/// The wall clock, for people.
pub(super) fn wall_now() -> WallMillis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    WallMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Time since boot, suspension included: a lease goes on while the machine sleeps, and `Instant` does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BootTime(Duration);

impl BootTime {
    pub(super) fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
        Self(Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanos))
    }

    pub(super) fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }

    pub(super) fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }
}

/// A bid whose verdict is awaited. Dropped before that (the client's stream was reset, say), it is withdrawn: the
/// claim may have landed, and nobody would ever settle it.
pub(super) struct Bid {
    proxy: Arc<Proxy>,
    claim: Option<Claim>,
}

impl Bid {
    pub(super) fn new(proxy: &Arc<Proxy>, claim: Claim) -> Self {
        Self { proxy: Arc::clone(proxy), claim: Some(claim) }
    }

    /// There is a verdict: it certainly lost, or its winner takes over.
    pub(super) fn decided(mut self) {
        self.claim = None;
    }
}

impl Drop for Bid {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            withdraw(&self.proxy, claim);
        }
    }
}

/// Takes a claim back, in the background, under which certainly nothing was sent, until the store has a verdict.
///
/// A drain waits for the first verdict only; a claim that lands after that reads as unknown once it has lapsed.
pub(super) fn withdraw(proxy: &Arc<Proxy>, claim: Claim) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let withdrawal = Withdrawal { proxy: Arc::clone(proxy), claim };
    let shutdown = proxy.shutdown.clone();
    let tracked = proxy.owed.clone();
    runtime.spawn(tracked.track_future(async move {
        tokio::select! {
            () = withdrawal.until_verdict() => {
                tokio::spawn(async move { withdrawal.straggler().await });
            }
            () = shutdown.reached(Phase::Over) => {}
        }
    }));
}

struct Withdrawal {
    proxy: Arc<Proxy>,
    claim: Claim,
}

impl Withdrawal {
    async fn until_verdict(&self) {
        let mut pause = Duration::from_millis(50);
        loop {
            let store = &self.proxy.store;
            match store.swap(&self.claim.key, Expect::HeldBy(self.claim.token), Write::Clear).await {
                Ok(Swapped::Done | Swapped::Recreated) => {
                    tracing::info!(cell = %self.claim.key, "an undecided claim was withdrawn");
                    return;
                }
                // It never landed, is still on its way, or found someone else there.
                Ok(Swapped::Refused { .. }) => return,
                Err(error) => tracing::debug!(cell = %self.claim.key, %error, "a withdrawal has no verdict yet"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }

    /// Asks once more, whatever the first verdict was, when everything that was still on its way must have landed or
    /// never will: a bid may have been sent more than once.
    async fn straggler(self) {
        tokio::time::sleep(self.claim.lease).await;
        self.until_verdict().await;
    }
}
