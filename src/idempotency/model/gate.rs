//! What a gate does with a verdict of the store and with the end of an exchange: the driver of the product, step by
//! step, around the core's own functions. Every write is checked against the laws of the cell as it lands.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;

use super::{
    Kind, Mutant, Protocol,
    world::{BIDS, Command, Errand, Event, Fate, HALF_GONE, LEASE, Law, Phase, Slot, Stage, Token, World},
};
use crate::idempotency::{
    Cell, Claim, Decision, Doubt, Expect, Occupant, Outcome, Policy, Record, Refusal, Settlement, State, StoreTime,
    StoredBody, StoredResponse, Swapped, Write, decide, policy::OnUnknown,
};

/// The store's clock. Ages are counted back from it: it need not move.
const NOW: StoreTime = StoreTime(Duration::from_secs(1_000));

impl Protocol {
    // The world as the core sees it ------------------------------------------------------------------------------

    pub(super) fn claim(&self, token: Token) -> &Claim {
        &self.claims[usize::from(token)]
    }

    pub(super) fn kind(&self, token: Token) -> Kind {
        self.visitors[usize::from(token / BIDS)].kind
    }

    fn cell(&self, world: &World) -> Cell {
        world.cell.map_or_else(Cell::default, |slot| {
            let state = match slot.stage {
                Stage::Claimed => State::Claimed,
                Stage::Completed(answer) => State::Completed(answer_of(answer)),
                Stage::Unknown => State::Unknown { doubt: Doubt::AnswerLost, kept: None },
            };
            let record = self.written(self.claim(slot.token).record(state));
            Cell::holding(record, StoreTime(NOW.0 - Duration::from_secs(slot.idle.into())))
        })
    }

    pub(super) fn occupant(&self, world: &World) -> Option<Occupant> {
        self.cell(world).occupant(NOW)
    }

    fn written(&self, record: Record) -> Record {
        match self.mutant {
            Some(mutant) => mutant.written(record),
            None => record,
        }
    }

    // The store --------------------------------------------------------------------------------------------------

    /// Lands `command` on the cell.
    pub(super) fn land(&self, world: &mut World, command: Command) -> Swapped {
        let claim = self.claim(command.token);
        let mine = Expect::HeldBy(claim.token);
        let (expect, write) = match command.errand {
            Errand::Hold { from: None } => (Expect::Absent, claim.hold()),
            Errand::Hold { from: Some(from) } => (Expect::Doubtful(self.claim(from).token), claim.hold()),
            Errand::Renew { .. } => (mine, claim.renew()),
            Errand::Complete => (mine, claim.settle(Settlement::Complete(answer_of(command.token)))),
            Errand::Doubt => (mine, claim.settle(Settlement::Doubt { doubt: Doubt::AnswerLost, kept: None })),
            Errand::Clear => (mine, claim.settle(Settlement::Release)),
            Errand::Declare { from } => {
                let lapsed = self.claim(from).record(State::Claimed).lapsed();
                (Expect::Doubtful(lapsed.token), Write::Doubt(lapsed))
            }
        };
        let before = self.occupant(world);
        let swapped = self.swap(world, expect, write);
        self.note(world, command, before.as_ref(), &swapped);
        self.judge(world, expect, before.as_ref());
        swapped
    }

    /// The operator empties the cell, if it is as doubtful as when they looked.
    pub(super) fn operator_releases(&self, world: &mut World, token: Token) {
        let expect = Expect::Doubtful(self.claim(token).token);
        let before = self.occupant(world);
        if self.swap(world, expect, Write::Clear) == Swapped::Done {
            world.event = Event::OperatorReleased;
        }
        self.judge(world, expect, before.as_ref());
    }

    fn swap(&self, world: &mut World, expect: Expect, write: Write) -> Swapped {
        let mut cell = self.cell(world);
        let write = match write {
            Write::Hold(record) => Write::Hold(self.written(record)),
            Write::Renew(record) => Write::Renew(self.written(record)),
            write @ (Write::Complete(_) | Write::Doubt(_) | Write::Clear) => write,
        };
        let swapped = match self.mutant {
            Some(mutant) => mutant.swap(&mut cell, expect, write, NOW),
            None => cell.swap(expect, write, NOW),
        };
        world.cell = cell.inside().map(|(record, touched)| Slot {
            token: record.token.0[0],
            stage: match &record.state {
                State::Claimed => Stage::Claimed,
                State::Completed(answer) => Stage::Completed(answer_in(answer)),
                State::Unknown { .. } => Stage::Unknown,
            },
            idle: u8::try_from(NOW.since(touched).as_secs()).expect("ages are small"),
        });
        swapped
    }

    /// Checks one write against the laws: `before` is what counted in the cell, `world` is already changed.
    fn judge(&self, world: &mut World, expect: Expect, before: Option<&Occupant>) {
        let after = self.occupant(world);
        if let Some(Occupant { record: Record { state: State::Completed(answer), .. }, .. }) = &after {
            let answer = answer_in(answer);
            let executed = matches!(world.fate(answer), Fate::Sent { .. });
            let first = *world.answers[usize::from(world.period)].get_or_insert(answer);
            if first != answer || !executed {
                world.event = Event::Broken(Law::OneAnswer);
            }
        }
        let Some(before) = before else { return };
        let doubtful = before.is_doubtful();
        let was = &before.record;
        if after.as_ref().is_some_and(|after| after.record == *was) {
            return;
        }
        let allowed = match expect {
            Expect::Absent => false,
            Expect::HeldBy(token) | Expect::Occupied(token) => token == was.token,
            Expect::Doubtful(token) => token == was.token && doubtful,
        };
        if !allowed {
            world.event = Event::Broken(Law::Fenced);
        }
        if matches!(was.state, State::Completed(_)) {
            world.event = Event::Broken(Law::OneAnswer);
        }
        match &after {
            None => match world.fate(was.token.0[0]) {
                Fate::Unsent => {}
                Fate::Sent { .. } => world.event = Event::Broken(Law::ReleasedOnlyWhenUnsent),
            },
            Some(after) if doubtful && !after.is_doubtful() && after.record.token == was.token => {
                match after.record.state {
                    State::Claimed => world.event = Event::Broken(Law::DoubtIsNotRenewedAway),
                    State::Completed(_) | State::Unknown { .. } => {}
                }
            }
            Some(_) => {}
        }
    }

    /// Takes note of what is worth a `sometimes` property.
    fn note(&self, world: &mut World, command: Command, before: Option<&Occupant>, swapped: &Swapped) {
        let was_unknown = before.is_some_and(|before| matches!(before.record.state, State::Unknown { .. }));
        let was_doubtful = before.is_some_and(Occupant::is_doubtful);
        let withdrawn = !command.awaited
            && world.phase(command.token / BIDS) == Phase::Done
            && !world.network.iter().any(|other| other.token == command.token && other.errand == Errand::Clear);
        let done = *swapped == Swapped::Done;
        match command.errand {
            Errand::Hold { from: Some(_) } if done => {
                world.takeovers[usize::from(world.period)] += 1;
                world.event = Event::TakenOver;
            }
            Errand::Hold { from: None } if done && withdrawn => world.event = Event::ClaimLandsAfterItsWithdrawal,
            Errand::Complete if done && was_unknown => world.event = Event::LateAnswerCompletesUnknown,
            Errand::Complete if done && was_doubtful => world.event = Event::LateAnswerCompletesLapsedClaim,
            Errand::Complete if matches!(swapped, Swapped::Refused { .. }) => {
                world.event = Event::LateAnswerIsFencedOff;
            }
            Errand::Clear if done && !command.awaited => {
                world.event = Event::WithdrawalEmptiesTheCell;
            }
            Errand::Declare { .. } if done => world.event = Event::LapseDeclared,
            Errand::Renew { .. } | Errand::Complete | Errand::Doubt if *swapped == Swapped::Recreated => {
                world.event = Event::Recreated;
            }
            Errand::Hold { .. }
            | Errand::Renew { .. }
            | Errand::Complete
            | Errand::Doubt
            | Errand::Clear
            | Errand::Declare { .. } => {}
        }
    }

    // The gate ---------------------------------------------------------------------------------------------------

    /// A client's request arrives, or has waited: the gate bids.
    pub(super) fn bid(world: &mut World, of: u8, from: Option<Token>) {
        let attempt = &mut world.tries[usize::from(of)];
        if attempt.phase != Phase::Idle {
            attempt.bid += 1;
        }
        if attempt.bid == BIDS {
            // The cell keeps changing, or the claim keeps growing stale: 503.
            return world.enter(of, Phase::Done);
        }
        world.enter(of, Phase::Bidding { age: 0 });
        world.send(Command { token: world.token(of), errand: Errand::Hold { from }, awaited: true });
    }

    /// The reply to an awaited command is heard.
    pub(super) fn hear(&self, world: &mut World, command: Command, swapped: Swapped) {
        let of = command.token / BIDS;
        match (command.errand, swapped) {
            (Errand::Hold { .. }, Swapped::Done | Swapped::Recreated) => {
                if let Phase::Bidding { age } = world.phase(of) {
                    world.enter(of, Phase::Won { age });
                }
            }
            (Errand::Hold { .. }, Swapped::Refused { occupant }) => self.arbitrate(world, of, occupant.as_ref()),
            (Errand::Declare { .. }, Swapped::Refused { occupant: None }) => self.find_nothing(world, of),
            (Errand::Declare { .. }, Swapped::Refused { occupant: Some(_) }) => Self::bid(world, of, None),
            (Errand::Declare { .. }, Swapped::Done | Swapped::Recreated)
            | (Errand::Renew { .. } | Errand::Complete | Errand::Doubt | Errand::Clear, _) => {
                world.enter(of, Phase::Done);
            }
        }
    }

    fn arbitrate(&self, world: &mut World, of: u8, occupant: Option<&Occupant>) {
        let token = world.token(of);
        let Phase::Bidding { age } = world.phase(of) else { return };
        if self.mutant == Some(Mutant::LoserRuns) {
            return world.enter(of, Phase::Won { age });
        }
        let mut claim = self.claim(token).clone();
        if let (Some(Mutant::NoFingerprint), Some(occupant)) = (self.mutant, occupant) {
            claim.fingerprint = occupant.record.fingerprint;
        }
        let decision = decide::arbitrate(&self.policy, &claim, occupant);
        self.judge_mismatch(world, token, occupant, &decision);
        match decision {
            Decision::Own => {
                world.event = Event::LostReplyEndsInOwn;
                world.enter(of, Phase::Won { age });
            }
            Decision::Bid(Expect::Absent) => self.find_nothing(world, of),
            Decision::Bid(Expect::Doubtful(from) | Expect::HeldBy(from) | Expect::Occupied(from)) => {
                Self::bid(world, of, Some(from.0[0]));
            }
            Decision::Wait => world.enter(of, Phase::Waiting),
            Decision::Declare { from } => {
                world.enter(of, Phase::Declaring);
                world.send(Command { token, errand: Errand::Declare { from: from.0[0] }, awaited: true });
            }
            Decision::Replay(answer) => {
                let answer = answer_in(&answer);
                let faithful = world.answers[usize::from(world.period)] == Some(answer)
                    && matches!(world.fate(answer), Fate::Sent { .. })
                    && self.kind(answer) == self.kind(token);
                world.event = if faithful { Event::Replayed } else { Event::Broken(Law::FaithfulReplay) };
                world.enter(of, Phase::Done);
            }
            Decision::Refuse(_) => world.enter(of, Phase::Done),
        }
    }

    /// The record vanished between two looks: bid again, never run unclaimed.
    fn find_nothing(&self, world: &mut World, of: u8) {
        world.event = Event::VanishedMeanwhile;
        if self.mutant == Some(Mutant::RunsUnclaimed) {
            world.enter(of, Phase::Won { age: 0 });
        } else {
            Self::bid(world, of, None);
        }
    }

    /// Another credential and another request meet their refusal and nothing else, whatever the state.
    fn judge_mismatch(&self, world: &mut World, token: Token, occupant: Option<&Occupant>, decision: &Decision) {
        let Some(occupant) = occupant else { return };
        let (owner, mine) = (self.kind(occupant.record.token.0[0]), self.kind(token));
        if owner == mine {
            return;
        }
        let (expected, event) = if owner == Kind::OtherCredential || mine == Kind::OtherCredential {
            (Refusal::CallerChanged, Event::OtherCredentialRefused)
        } else {
            (Refusal::KeyReused, Event::MismatchRefused)
        };
        world.event = if *decision == Decision::Refuse(expected) { event } else { Event::Broken(Law::Mismatch) };
    }

    /// No reply came in time: because the command is late, or (if it lands before anything else happens) because
    /// its reply was lost.
    pub(super) fn delay(world: &mut World, command: Command) {
        world.take(command);
        world.send(Command { awaited: false, ..command });
        match command.errand {
            Errand::Hold { from } => {
                if let Phase::Bidding { age } = world.phase(command.token / BIDS) {
                    world.enter(command.token / BIDS, Phase::Unheard { from, age });
                }
            }
            // What is known is repeated for as long as the process lives.
            Errand::Complete | Errand::Doubt | Errand::Clear => world.send(command),
            // A declaration is a courtesy to the next reader: 503.
            Errand::Declare { .. } | Errand::Renew { .. } => world.enter(command.token / BIDS, Phase::Done),
        }
    }

    /// The same bid again, with the same token.
    pub(super) fn ask_again(&self, world: &mut World, of: u8) {
        let Phase::Unheard { from, age } = world.phase(of) else { return };
        let age = if self.mutant == Some(Mutant::GuardTrustsRepetition) { 0 } else { age };
        world.enter(of, Phase::Bidding { age });
        world.send(Command { token: world.token(of), errand: Errand::Hold { from }, awaited: true });
    }

    /// Patience is over: 503, and the bid is withdrawn in the background.
    pub(super) fn give_up(world: &mut World, of: u8) {
        world.send(Command { token: world.token(of), errand: Errand::Clear, awaited: false });
        world.enter(of, Phase::Done);
    }

    /// Whether the dispatch guard lets a winner send.
    pub(super) fn may_send(&self, age: u8) -> bool {
        age * 2 <= LEASE || self.mutant == Some(Mutant::NoDispatchGuard)
    }

    /// The guard sends nothing: the hold is given back, and another bid is made with a fresh token.
    pub(super) fn bid_again(world: &mut World, of: u8) {
        world.event = Event::GuardSendsNothing;
        world.send(Command { token: world.token(of), errand: Errand::Clear, awaited: false });
        Self::bid(world, of, None);
    }

    /// The exchange is over: what is known is written down.
    pub(super) fn settle(&self, world: &mut World, of: u8, outcome: Outcome) {
        let lost = matches!(outcome, Outcome::Lost(_));
        let errand = match decide::settle(&self.policy, outcome) {
            Settlement::Doubt { .. } if lost && self.mutant == Some(Mutant::ReleaseOnLostAnswer) => Errand::Clear,
            Settlement::Complete(answer) => {
                assert_eq!(answer, answer_of(world.token(of)), "what came is what is written down");
                Errand::Complete
            }
            Settlement::Release => Errand::Clear,
            Settlement::Doubt { .. } => Errand::Doubt,
        };
        world.enter(of, Phase::Settling);
        world.send(Command { token: world.token(of), errand, awaited: true });
    }

    /// The answer to the request of `token`, with `status`.
    pub(super) fn answered(token: Token, status: StatusCode) -> Outcome {
        let answer = StoredResponse { status: Some(status), ..answer_of(token) };
        Outcome::Answered { status, retry_after: false, answer }
    }

    /// A renewal that the store confirmed counts as a fresh hold, as old as its request.
    pub(super) fn renewed(world: &mut World, command: Command, swapped: &Swapped) {
        let of = command.token / BIDS;
        let (Errand::Renew { age: sent }, Swapped::Done | Swapped::Recreated) = (command.errand, swapped) else {
            return;
        };
        if let Phase::Won { age } = world.phase(of)
            && world.token(of) == command.token
        {
            world.enter(of, Phase::Won { age: age.min(sent) });
        }
    }
}

/// The answer that the upstream gave to the request of `token`.
fn answer_of(token: Token) -> StoredResponse {
    StoredResponse {
        status: Some(StatusCode::CREATED),
        headers: Vec::new(),
        body: StoredBody::Whole { bytes: Bytes::copy_from_slice(&[token]), trailers: Vec::new() },
    }
}

/// Whose answer it is.
fn answer_in(answer: &StoredResponse) -> Token {
    match &answer.body {
        StoredBody::Whole { bytes, .. } => bytes[0],
        StoredBody::NotKept(why) => panic!("the model keeps every answer: {why:?}"),
    }
}

/// The rules of a route for arbitration, which one mutant bends.
pub(super) fn bend(policy: Policy, mutant: Option<Mutant>) -> Policy {
    match mutant {
        Some(Mutant::TakeOverOnHold) => Policy { unknown: OnUnknown::Retry, ..policy },
        Some(_) | None => policy,
    }
}

const _: () = assert!(HALF_GONE * 2 > LEASE && HALF_GONE < LEASE);
