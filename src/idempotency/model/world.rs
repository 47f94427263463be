//! What the model remembers: one cell, the tries of clients, commands under way, the upstream's deeds. Small on
//! purpose, so that every reachable world can be looked at; turned into the core's own types for each decision.

/// Names one bid of one try, and thereby its `ClaimToken`: `try * BIDS + bid`.
pub(super) type Token = u8;

/// How often one try may bid; each bid has a token of its own. Beyond, it is turned away.
pub(super) const BIDS: u8 = 3;

/// Time that passed since something happened, in the model's seconds: only the steps `HalfLeaseGone`,
/// `LeaseLapses` and `RetentionEnds` add to it.
pub(super) type Age = u8;

pub(super) const LEASE: Age = 4;
pub(super) const RETENTION: Age = 100;

/// More than half a lease, and less than a lease.
pub(super) const HALF_GONE: Age = 3;
/// More than a lease; older than that makes no difference until the retention ends.
pub(super) const LAPSED: Age = 5;

/// Adds `passes` to `age`, within the ages that make a difference.
pub(super) fn older(age: Age, passes: Age) -> Age {
    let sum = age.saturating_add(passes);
    if sum >= RETENTION { RETENTION } else { sum.min(LAPSED) }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) cell: Option<Slot>,
    pub(super) tries: Vec<Try>,
    /// Store commands under way: a sorted multiset. Each may land at any time, in any order, also after its
    /// sender died.
    pub(super) network: Vec<Command>,
    /// What became of the request of each token.
    pub(super) upstream: Vec<Fate>,
    /// An operator has found out that the request of this token was not executed and is not on its way.
    pub(super) operator: Option<Token>,
    /// Retention periods that are over.
    pub(super) period: u8,
    /// Take-overs in each period.
    pub(super) takeovers: [u8; 2],
    /// The answer that was put down in each period.
    pub(super) answers: [Option<Token>; 2],
    pub(super) left: Budget,
    /// What the last step did that is worth a property.
    pub(super) event: Event,
}

/// A record, and the time since it was last written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Slot {
    pub(super) token: Token,
    pub(super) stage: Stage,
    pub(super) idle: Age,
}

/// `State`, without what no rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Claimed,
    /// With the answer that the upstream gave to this token's request.
    Completed(Token),
    Unknown,
}

/// One request of a client, at one gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Try {
    /// How many tokens it has used up.
    pub(super) bid: u8,
    pub(super) phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// The client has not sent it yet.
    Idle,
    /// Waits for the verdict on the `Hold` it sent first `age` ago.
    Bidding { age: Age },
    /// No reply to its `Hold` came in time.
    Unheard { from: Option<Token>, age: Age },
    /// Waits for the verdict on a declaration of doubt.
    Declaring,
    /// Waits for the end of the first request (`in_flight = "wait"`).
    Waiting,
    /// Holds the cell, as asked for `age` ago and confirmed, and has sent nothing.
    Won { age: Age },
    /// Waits for the upstream; `told` is whether the client has had its 504.
    Flying { told: bool },
    /// Waits for the verdict on what it wrote down at the end.
    Settling,
    /// The client has an answer and the gate is done with it, or the gate died.
    Done,
}

/// What became of the request of one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fate {
    /// It has not left its gate; or it is certain that it was not executed and will not be.
    Unsent,
    /// It was sent in the period `since`. When the upstream executes it, at once or long after its gate is dead,
    /// makes no difference to any law: it counts as executed from here on, unless it is proved not to be.
    Sent { since: u8 },
}

/// One command to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Command {
    pub(super) token: Token,
    pub(super) errand: Errand,
    /// Whether its try still waits for the reply.
    pub(super) awaited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Errand {
    /// `Claim::hold`, under `Absent` or as a take-over from a doubtful token.
    Hold { from: Option<Token> },
    /// `Claim::renew`, sent `age` ago.
    Renew { age: Age },
    /// `Claim::settle` of a completion, with the answer that came.
    Complete,
    /// `Claim::settle` of a doubt.
    Doubt,
    /// `Claim::settle` of a release, or the withdrawal of a bid.
    Clear,
    /// `Record::lapsed`, written down under the token of the lapsed claim.
    Declare { from: Token },
}

/// How often each misfortune may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Budget {
    pub(super) half_leases: u8,
    pub(super) lapses: u8,
    pub(super) retentions: u8,
    /// Lost replies and late commands, together.
    pub(super) store_faults: u8,
    pub(super) crashes: u8,
    pub(super) renewals: u8,
    pub(super) response_timeouts: u8,
    /// Wake-ups of a waiting duplicate.
    pub(super) wakes: u8,
    pub(super) operators: u8,
}

/// What a step did, for `sometimes` properties and for those laws that speak of steps, not of worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    Nothing,
    LateAnswerCompletesUnknown,
    LateAnswerCompletesLapsedClaim,
    LateAnswerIsFencedOff,
    TakenOver,
    LapseDeclared,
    LostReplyEndsInOwn,
    WithdrawalEmptiesTheCell,
    ClaimLandsAfterItsWithdrawal,
    GuardSendsNothing,
    VanishedMeanwhile,
    Recreated,
    Replayed,
    MismatchRefused,
    OtherCredentialRefused,
    OperatorReleased,
    CrashedInFlight,
    Broken(Law),
}

/// The laws that speak of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Law {
    /// A token changed a cell that holds another's record.
    Fenced,
    /// A cell was emptied although its request was sent, and may have been or was executed.
    ReleasedOnlyWhenUnsent,
    /// A second answer was put down, or an answer nobody gave.
    OneAnswer,
    /// A client got a replay that is not the recorded answer, or not of its own request.
    FaithfulReplay,
    /// A renewal made a live claim of doubt.
    DoubtIsNotRenewedAway,
    /// Another request, or another credential, met something else than its refusal.
    Mismatch,
}

impl World {
    pub(super) fn send(&mut self, command: Command) {
        let place = self.network.partition_point(|other| *other <= command);
        self.network.insert(place, command);
    }

    /// Takes one copy of `command` off the network.
    pub(super) fn take(&mut self, command: Command) {
        let place = self.network.binary_search(&command).expect("a command that lands is under way");
        self.network.remove(place);
    }

    /// Drops the clears that find nothing to clear any more, so that worlds that differ in them alone are one.
    pub(super) fn forget_idle_clears(&mut self) {
        let held = self.cell.map(|slot| slot.token);
        let network = std::mem::take(&mut self.network);
        let writes = |token| network.iter().any(|other| other.token == token && other.errand != Errand::Clear);
        self.network = network
            .iter()
            .filter(|command| {
                command.awaited
                    || command.errand != Errand::Clear
                    || held == Some(command.token)
                    || writes(command.token)
            })
            .copied()
            .collect();
    }

    /// Lets time pass for everything that remembers when it began.
    pub(super) fn pass(&mut self, time: Age) {
        if let Some(slot) = &mut self.cell {
            slot.idle = older(slot.idle, time);
        }
        for Try { phase, .. } in &mut self.tries {
            match phase {
                Phase::Bidding { age } | Phase::Unheard { age, .. } | Phase::Won { age } => *age = older(*age, time),
                Phase::Idle
                | Phase::Declaring
                | Phase::Waiting
                | Phase::Flying { .. }
                | Phase::Settling
                | Phase::Done => {}
            }
        }
        for command in &mut self.network {
            if let Errand::Renew { age } = &mut command.errand {
                *age = older(*age, time);
            }
        }
        self.network.sort_unstable();
    }

    /// How many requests of `period` were executed, or may be.
    pub(super) fn executions(&self, period: u8) -> usize {
        self.upstream.iter().filter(|fate| **fate == Fate::Sent { since: period }).count()
    }

    pub(super) fn phase(&self, of: u8) -> Phase {
        self.tries[usize::from(of)].phase
    }

    pub(super) fn enter(&mut self, of: u8, phase: Phase) {
        self.tries[usize::from(of)].phase = phase;
        if phase == Phase::Done {
            self.tries[usize::from(of)].bid = 0;
        }
    }

    pub(super) fn token(&self, of: u8) -> Token {
        of * BIDS + self.tries[usize::from(of)].bid
    }

    pub(super) fn fate(&self, token: Token) -> Fate {
        self.upstream[usize::from(token)]
    }

    pub(super) fn befalls(&mut self, token: Token, fate: Fate) {
        self.upstream[usize::from(token)] = fate;
    }
}
