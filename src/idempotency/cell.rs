//! `Cell::swap`: the one way to change a cell, and thereby the specification of every store.
//!
//! The memory and the embedded store call it; the Redis script is tested against it. It knows nothing of
//! policy: who may execute and what a client is told is `decide`'s business.

use super::record::{ClaimToken, Occupant, Record, State, StoreTime};

/// What the writer believes is in the cell. A write is refused when it is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expect {
    /// Nothing, or a record whose retention has ended.
    Absent,
    /// A record with that token: the claimant renews, completes, doubts, releases.
    HeldBy(ClaimToken),
    /// That token, *and* doubtful at the moment of the swap: take-over, declaring doubt, resolving.
    Doubtful(ClaimToken),
    /// That token in any state, completed included: an operator's release, nothing else.
    Occupied(ClaimToken),
}

/// What to put into the cell. Always the whole record, its state included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Claim the cell: under `Absent`, or under `Doubtful` as a take-over.
    Hold(Record),
    /// Keep a claim alive: under `HeldBy`, and only while it is not doubtful.
    Renew(Record),
    /// Put the answer down: under `HeldBy` (also late), or under `Doubtful` as a resolution.
    Complete(Record),
    /// Put down that the outcome is unknown: under `HeldBy`, or under `Doubtful` for a lapsed claim.
    Doubt(Record),
    /// Empty the cell: under `HeldBy` on proof that nothing was sent, under `Doubtful` and `Occupied` by an
    /// operator. Never empties a completed cell under `HeldBy`.
    Clear,
}

impl Write {
    /// The record to be written, if any.
    #[must_use]
    pub fn record(&self) -> Option<&Record> {
        match self {
            Self::Hold(record) | Self::Renew(record) | Self::Complete(record) | Self::Doubt(record) => Some(record),
            Self::Clear => None,
        }
    }
}

/// What became of a swap.
#[expect(
    clippy::large_enum_variant,
    reason = "returned once a round trip to a store; a box would cost more than the move"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swapped {
    /// The cell now holds what was written. Also when it already did (a repeated completion).
    Done,
    /// The cell was empty although a claimant wrote under `HeldBy`: the store forgot, the claimant did not, and
    /// its record was written anew.
    Recreated,
    /// Nothing was changed.
    Refused {
        /// What is there instead.
        occupant: Option<Occupant>,
    },
}

/// One cell: at most one record, and when it was last written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    inside: Option<(Record, StoreTime)>,
}

/// The verdict on one swap, before it is carried out.
enum Verdict {
    /// Write what was asked for (or empty the cell).
    Put,
    /// As `Put`, into a cell that should not have been empty.
    Recreate,
    /// The cell already says what was to be written.
    Keep,
    /// The belief was wrong, or the state does not allow it.
    Refuse,
}

impl Cell {
    /// A cell that holds `record`, last written at `touched`: how a store rebuilds one from its disk.
    #[must_use]
    pub fn holding(record: Record, touched: StoreTime) -> Self {
        Self { inside: Some((record, touched)) }
    }

    /// What is in the cell at `now`, a record past its retention not counted.
    #[must_use]
    pub fn occupant(&self, now: StoreTime) -> Option<Occupant> {
        let (record, touched) = self.inside.as_ref()?;
        let idle = now.since(*touched);
        (idle < record.retention).then(|| Occupant { record: record.clone(), idle })
    }

    /// The record and when it was last written, whether or not its retention has ended.
    #[must_use]
    pub fn inside(&self) -> Option<(&Record, StoreTime)> {
        self.inside.as_ref().map(|(record, touched)| (record, *touched))
    }

    /// Whether the cell holds nothing that still counts at `now`, so that a store may forget it.
    #[must_use]
    pub fn is_vacant(&self, now: StoreTime) -> bool {
        self.inside.as_ref().is_none_or(|(record, touched)| now.since(*touched) >= record.retention)
    }

    /// Changes the cell if what is in it at `now` is what the writer `expect`s, and says what became of it.
    ///
    /// Every write renews the record's retention. `now` must not go back between two calls on one store.
    pub fn swap(&mut self, expect: Expect, write: Write, now: StoreTime) -> Swapped {
        let occupant = self.occupant(now);
        match judge(expect, &write, occupant.as_ref()) {
            Verdict::Put => {
                self.put(write, now);
                Swapped::Done
            }
            Verdict::Recreate => {
                self.put(write, now);
                Swapped::Recreated
            }
            Verdict::Keep => Swapped::Done,
            Verdict::Refuse => Swapped::Refused { occupant },
        }
    }

    fn put(&mut self, write: Write, now: StoreTime) {
        self.inside = match write {
            Write::Hold(record) | Write::Renew(record) | Write::Complete(record) | Write::Doubt(record) => {
                Some((record, now))
            }
            Write::Clear => None,
        };
    }
}

/// The whole table of transitions: who may write what over what.
fn judge(expect: Expect, write: &Write, occupant: Option<&Occupant>) -> Verdict {
    let Some(occupant) = occupant else {
        return match (expect, write) {
            (Expect::Absent, Write::Hold(_)) => Verdict::Put,
            (Expect::HeldBy(_), Write::Renew(_) | Write::Complete(_) | Write::Doubt(_)) => Verdict::Recreate,
            (Expect::Absent | Expect::HeldBy(_) | Expect::Doubtful(_) | Expect::Occupied(_), _) => Verdict::Refuse,
        };
    };
    let held_by = |token: ClaimToken| occupant.record.token == token;
    let doubtful = occupant.is_doubtful();
    let completed = matches!(occupant.record.state, State::Completed(_));
    let unknown = matches!(occupant.record.state, State::Unknown { .. });
    match (expect, write) {
        (Expect::HeldBy(token), Write::Renew(_)) if held_by(token) && !completed && !doubtful => Verdict::Put,
        // An answer that is down stays as it is: a repeated completion changes nothing, its retention included.
        (Expect::HeldBy(token), Write::Complete(_)) if held_by(token) && completed => Verdict::Keep,
        (Expect::HeldBy(token), Write::Complete(_) | Write::Doubt(_) | Write::Clear)
            if held_by(token) && !completed =>
        {
            Verdict::Put
        }
        // A doubt that is down may hold the upstream's answer for the operator: a later reader's must not cover it.
        (Expect::Doubtful(token), Write::Doubt(_)) if held_by(token) && doubtful && !unknown => Verdict::Put,
        (Expect::Doubtful(token), Write::Hold(_) | Write::Complete(_) | Write::Clear) if held_by(token) && doubtful => {
            Verdict::Put
        }
        (Expect::Occupied(token), Write::Clear) if held_by(token) => Verdict::Put,
        (Expect::Absent | Expect::HeldBy(_) | Expect::Doubtful(_) | Expect::Occupied(_), _) => Verdict::Refuse,
    }
}

#[cfg(test)]
mod tests;
