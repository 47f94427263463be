//! `enter`: bids for the cell until it is won, or until it is clear that it will not be.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    Live, Proxy,
    bid::{self, Bid, BootTime},
    client::Client,
    ledger::{self, Verdict},
};
use crate::{
    idempotency::{
        Claim, Decision, Degraded, Expect, Occupant, Refusal, StoreFailure, StoredResponse, Swapped, Write, decide,
    },
    routes::Route,
};

/// How a request leaves the gate.
pub(super) enum Entry {
    /// The cell is ours: execute.
    Won(Box<Won>),
    /// The answer is known.
    Replay(StoredResponse),
    /// No.
    Refuse(Refusal),
    /// The store is down, and the route would rather forward unprotected.
    Bypass,
    /// The client has left while it waited; nothing is claimed.
    Left,
}

/// A claim that holds its cell.
pub(super) struct Won {
    pub(super) claim: Claim,
    /// When the hold was asked for: earlier than the store granted it.
    pub(super) asked: BootTime,
    /// Whether an attempt of this bid may still land after the claim was emptied.
    pub(super) straggler: bool,
}

/// A bound against a store that answers nonsense: a bid that loses is decided by what won, and each further bid needs
/// somebody else's change in between.
const MAX_BIDS: u32 = 32;

/// Bids for the cell of `claim` under the rules of `route`. Each bid has a token of its own.
pub(super) async fn enter(proxy: &Arc<Proxy>, live: &Live, route: &Route, client: &Client, mut claim: Claim) -> Entry {
    let policy = &route.policy;
    let patience = Instant::now() + policy.in_flight.patience();
    let mut expect = Expect::Absent;
    let mut place = None;
    let mut looks = 0;
    let mut losses = 0;
    while losses < MAX_BIDS {
        claim.token = bid::draw_token();
        let asked = BootTime::now();
        let (occupant, straggler) = match place_bid(proxy, live, &claim, expect).await {
            Ok(Verdict { swapped: Swapped::Done | Swapped::Recreated, straggler }) => {
                return Entry::Won(Box::new(Won { claim, asked, straggler }));
            }
            Ok(Verdict { swapped: Swapped::Refused { occupant }, straggler }) => (occupant, straggler),
            Err(failure) => {
                return match decide::degrade(policy, failure) {
                    Degraded::Refuse(refusal) => Entry::Refuse(refusal),
                    Degraded::Bypass => Entry::Bypass,
                };
            }
        };
        match decide::arbitrate(policy, &claim, occupant.as_ref()) {
            Decision::Own => return Entry::Won(Box::new(Won { claim, asked, straggler })),
            Decision::Replay(stored) => return Entry::Replay(stored),
            Decision::Refuse(refusal) => return Entry::Refuse(refusal),
            Decision::Bid(next) => {
                losses += 1;
                expect = next;
            }
            Decision::Declare { .. } => {
                losses += 1;
                let Some(occupant) = occupant else { continue };
                if let Some(refusal) = declare(proxy, live, &claim, &occupant).await {
                    return Entry::Refuse(refusal);
                }
                expect = Expect::Absent;
            }
            Decision::Wait => {
                expect = Expect::Absent;
                let began = occupant.map_or(claim.began, |occupant| occupant.record.began);
                let in_progress = Entry::Refuse(Refusal::InProgress { began });
                let Some(waiter) = &mut place else {
                    let settings = &live.settings;
                    place = proxy.waiters.enlist(claim.key, settings.waiters_per_key, settings.waiters);
                    if place.is_none() {
                        return in_progress;
                    }
                    // What settled before we were listed woke nobody: bid once more before waiting.
                    continue;
                };
                let changed = tokio::select! {
                    changed = waiter.changed(patience, looks) => changed,
                    () = client.left() => return Entry::Left,
                };
                if !changed {
                    return in_progress;
                }
                looks += 1;
            }
        }
    }
    tracing::error!(cell = %claim.key, "a cell keeps changing; the request is turned away");
    Entry::Refuse(Refusal::StoreUnavailable)
}

/// One bid, repeated with the same token until the store has a verdict. Withdrawn if there is none, or if the caller
/// stops waiting for it.
async fn place_bid(proxy: &Arc<Proxy>, live: &Live, claim: &Claim, expect: Expect) -> Result<Verdict, StoreFailure> {
    let bid = Bid::new(proxy, claim.clone());
    match ledger::insist(&*proxy.store, &claim.key, expect, &claim.hold(), live.settings.store_timeout).await {
        Ok(verdict) => {
            let ours = match &verdict.swapped {
                Swapped::Done | Swapped::Recreated => true,
                Swapped::Refused { occupant } => {
                    occupant.as_ref().is_some_and(|occupant| occupant.record.token == claim.token)
                }
            };
            // A bid that lost, and was sent more than once, may still win behind our back: then nobody would use it.
            if ours || !verdict.straggler {
                bid.decided();
            }
            Ok(verdict)
        }
        Err(error) => {
            let failure = error.failure();
            tracing::warn!(cell = %claim.key, %error, "a claim has no verdict");
            match failure {
                // Dropped: withdrawn in the background.
                StoreFailure::InDoubt => drop(bid),
                StoreFailure::NotApplied | StoreFailure::Unreadable => bid.decided(),
            }
            Err(failure)
        }
    }
}

/// Writes down that a lapsed claim's outcome is unknown. `None` if it is not any more: look again.
async fn declare(proxy: &Proxy, live: &Live, claim: &Claim, lapsed: &Occupant) -> Option<Refusal> {
    let record = &lapsed.record;
    let write = Write::Doubt(record.lapsed());
    let expect = Expect::Doubtful(record.token);
    let unknown = Refusal::OutcomeUnknown { since: Some(record.began) };
    match ledger::insist(&*proxy.store, &claim.key, expect, &write, live.settings.store_timeout).await {
        Ok(Verdict { swapped: Swapped::Done | Swapped::Recreated, .. }) => {
            tracing::warn!(cell = %claim.key, route = %record.route, "a claim has lapsed: its outcome is unknown");
            Some(unknown)
        }
        // Someone was faster: to the same conclusion, with a renewal, or with the late answer.
        Ok(Verdict { swapped: Swapped::Refused { .. }, .. }) => None,
        // It was seen lapsed: that nobody could write it down changes nothing.
        Err(_) => Some(unknown),
    }
}
