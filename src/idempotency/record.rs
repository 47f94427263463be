//! What a cell holds: the record, its three states, and the claim that leads to it.
//!
//! Not here: how a record may change (`cell`), what a change means for a client (`decide`), its bytes (`codec`).

use std::{fmt, sync::Arc, time::Duration};

use http::StatusCode;

use super::{cell::Write, decide::Settlement, fingerprint::Fingerprint, response::StoredResponse, scope::RecordKey};

/// A point in time as the store tells it, since an epoch of its own. The only clock that decides anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StoreTime(pub Duration);

impl StoreTime {
    /// The time that passed from `earlier` until `self`; zero if the store's clock went back.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Wall-clock time in milliseconds since the Unix epoch: for people (`since`, `Retry-After`), never for safety.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WallMillis(pub u64);

impl WallMillis {
    /// Milliseconds from `earlier` until `self`; zero if the clock went back.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Names one claimant. Whoever changes a held cell must present it. Drawn at random by the shell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimToken(pub [u8; 16]);

impl fmt::Debug for ClaimToken {
    /// The first four bytes in hex: enough to tell two claimants apart in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "token:{a:02x}{b:02x}{c:02x}{d:02x}")
    }
}

/// A hash of the caller's whole credential. Two credentials of one subject share a cell but not this tag.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallerTag(pub [u8; 32]);

impl fmt::Debug for CallerTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallerTag(…)")
    }
}

/// The name of the route that a request matched, as the configuration spells it. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RouteName(pub Arc<str>);

impl RouteName {
    /// What requests are called that no `[[route]]` matched: the `[defaults]` decided.
    pub const DEFAULTS: &'static str = "_defaults";
}

impl From<&str> for RouteName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for RouteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a cell holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Who claimed the cell. Kept in every state, so that a late completion can be told from a stranger's.
    pub token: ClaimToken,
    /// Which request it was.
    pub fingerprint: Fingerprint,
    /// Whose credential it was.
    pub caller: CallerTag,
    /// How long the claim holds without a renewal. What *this* record was written with; a reader's own
    /// settings do not count.
    pub lease: Duration,
    /// How long the record lives after its last write, likewise.
    pub retention: Duration,
    /// When the first claim was made, by the claimant's wall clock.
    pub began: WallMillis,
    /// Which route it was.
    pub route: RouteName,
    /// How far the operation got.
    pub state: State,
}

/// How far an operation got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Someone is on the way to the upstream and back, and answers for it while renewing.
    Claimed,
    /// The upstream answered; this is what it said.
    Completed(StoredResponse),
    /// The upstream may have acted. Only the claimant or an operator can tell.
    Unknown {
        /// Why nobody knows.
        doubt: Doubt,
        /// What the upstream did say, if it said something that proves nothing (a 502, say). For the operator.
        kept: Option<StoredResponse>,
    },
}

/// Why the outcome of an operation is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doubt {
    /// The request was written, wholly or in part, and no complete answer came back.
    AnswerLost,
    /// `max_execution` ended before the upstream answered.
    UpstreamTimedOut,
    /// The upstream answered with a status that proves nothing about the execution.
    UpstreamSaid(StatusCode),
    /// The claimant stopped renewing: it died, hangs, or cannot reach the store.
    ClaimLapsed,
    /// The gate was shut down before the upstream answered.
    Shutdown,
    /// The claimant's own task failed; a bug, recorded instead of guessed about.
    GateFailed,
}

impl Doubt {
    /// The word for logs and metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::AnswerLost => "answer-lost",
            Self::UpstreamTimedOut => "upstream-timed-out",
            Self::UpstreamSaid(_) => "upstream-said",
            Self::ClaimLapsed => "claim-lapsed",
            Self::Shutdown => "shutdown",
            Self::GateFailed => "gate-failed",
        }
    }
}

/// A record and the time since it was last written or renewed, by the store's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupant {
    /// The record.
    pub record: Record,
    /// Time since the last write or renewal.
    pub idle: Duration,
}

impl Occupant {
    /// Whether nobody can be counted on to settle this record: it is `Unknown`, or its claim has lapsed.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        self.record.is_doubtful_after(self.idle)
    }
}

impl Record {
    /// Whether the record is doubtful when it was last written `idle` ago. A claim lapses when *more* than
    /// its lease has passed.
    #[must_use]
    pub fn is_doubtful_after(&self, idle: Duration) -> bool {
        match self.state {
            State::Claimed => idle > self.lease,
            State::Completed(_) => false,
            State::Unknown { .. } => true,
        }
    }
}

/// One bid for a cell: made before bidding, kept until settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The cell.
    pub key: RecordKey,
    /// The bidder.
    pub token: ClaimToken,
    /// The request.
    pub fingerprint: Fingerprint,
    /// The credential.
    pub caller: CallerTag,
    /// The route, whose policy gave `lease` and `retention`.
    pub route: RouteName,
    /// When the request arrived.
    pub began: WallMillis,
    /// See [`Record::lease`].
    pub lease: Duration,
    /// See [`Record::retention`].
    pub retention: Duration,
}

impl Claim {
    /// The record of this claim in `state`.
    #[must_use]
    pub fn record(&self, state: State) -> Record {
        Record {
            token: self.token,
            fingerprint: self.fingerprint,
            caller: self.caller,
            lease: self.lease,
            retention: self.retention,
            began: self.began,
            route: self.route.clone(),
            state,
        }
    }

    /// The bid itself.
    #[must_use]
    pub fn hold(&self) -> Write {
        Write::Hold(self.record(State::Claimed))
    }

    /// The write that keeps a held claim alive.
    #[must_use]
    pub fn renew(&self) -> Write {
        Write::Renew(self.record(State::Claimed))
    }

    /// The write that puts `settlement` down.
    #[must_use]
    pub fn settle(&self, settlement: Settlement) -> Write {
        match settlement {
            Settlement::Complete(response) => Write::Complete(self.record(State::Completed(response))),
            Settlement::Release => Write::Clear,
            Settlement::Doubt { doubt, kept } => Write::Doubt(self.record(State::Unknown { doubt, kept })),
        }
    }
}

impl Record {
    /// The same record, its outcome written down as unknown because its claim lapsed.
    #[must_use]
    pub fn lapsed(&self) -> Self {
        Self { state: State::Unknown { doubt: Doubt::ClaimLapsed, kept: None }, ..self.clone() }
    }
}
