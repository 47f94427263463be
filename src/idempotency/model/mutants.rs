//! Plausible mistakes, each a small switch in the driver or around `Cell::swap`. None is in the product; each must
//! be caught by the property that is there because of it.

use crate::idempotency::{Cell, Expect, Record, State, StoreTime, Swapped, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// The lease is the record's time to live: a lapsed claim reads as free.
    LeaseIsTimeToLive,
    /// `response_timeout` releases the claim, although the upstream may still work.
    ReleaseOnTimeout,
    /// A lost answer releases the claim.
    ReleaseOnLostAnswer,
    /// A `hold` route is arbitrated like a `retry` route.
    TakeOverOnHold,
    /// A completion is written whoever owns the cell.
    UnfencedCompletion,
    /// A bidder that did not win runs.
    LoserRuns,
    /// A record that vanished between two looks is taken for permission to run, instead of bidding again.
    RunsUnclaimed,
    /// A renewal under the right token makes a live claim of doubt.
    RenewalRevives,
    /// Whatever time has passed since the claim, it is used.
    NoDispatchGuard,
    /// The dispatch guard counts from the last repetition of a bid, although the first one may have landed.
    GuardTrustsRepetition,
    /// A withdrawal empties whatever is in the cell.
    UnfencedWithdrawal,
    /// A take-over does not look whether the record is (still) doubtful and the same.
    UnfencedTakeOver,
    /// Fingerprints are not compared.
    NoFingerprint,
    /// A declaration of doubt does not look whether the claim has been completed meanwhile.
    UnfencedDeclaration,
    /// A duplicate that waits is never given up on.
    WaitsForEver,
}

impl Mutant {
    /// `Cell::swap`, as a store with this mistake would do it.
    pub(super) fn swap(self, cell: &mut Cell, expect: Expect, write: Write, now: StoreTime) -> Swapped {
        let honest = cell.swap(expect, write.clone(), now);
        let Swapped::Refused { occupant: Some(occupant) } = &honest else { return honest };
        let held_by = |expect| match expect {
            Expect::HeldBy(token) | Expect::Doubtful(token) | Expect::Occupied(token) => occupant.record.token == token,
            Expect::Absent => false,
        };
        let force = match self {
            Self::UnfencedCompletion => matches!(write, Write::Complete(_)),
            Self::RenewalRevives => matches!(write, Write::Renew(_)) && held_by(expect) && occupant.is_doubtful(),
            Self::UnfencedWithdrawal => matches!((expect, &write), (Expect::HeldBy(_), Write::Clear)),
            Self::UnfencedTakeOver => matches!((expect, &write), (Expect::Doubtful(_), Write::Hold(_))),
            Self::UnfencedDeclaration => {
                matches!((expect, &write), (Expect::Doubtful(_), Write::Doubt(_))) && held_by(expect)
            }
            Self::LeaseIsTimeToLive
            | Self::ReleaseOnTimeout
            | Self::ReleaseOnLostAnswer
            | Self::TakeOverOnHold
            | Self::LoserRuns
            | Self::RunsUnclaimed
            | Self::NoDispatchGuard
            | Self::GuardTrustsRepetition
            | Self::NoFingerprint
            | Self::WaitsForEver => false,
        };
        if !force {
            return honest;
        }
        *cell = match write {
            Write::Hold(record) | Write::Renew(record) | Write::Complete(record) | Write::Doubt(record) => {
                Cell::holding(record, now)
            }
            Write::Clear => Cell::default(),
        };
        Swapped::Done
    }

    /// The record as this mistake would write it.
    pub(super) fn written(self, record: Record) -> Record {
        if self == Self::LeaseIsTimeToLive && record.state == State::Claimed {
            Record { retention: record.lease, ..record }
        } else {
            record
        }
    }
}
