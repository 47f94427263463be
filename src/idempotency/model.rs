//! The exhaustive model: gates, tries of clients and one cell, under every order of events there is.
//!
//! It drives the core's own functions (`Cell::swap`, `arbitrate`, `settle`, the writes of `Claim`) through lost and
//! late store commands, crashes, lapsed leases, late and lost answers, timeouts, take-overs, an operator and expiry.
//! Pauses are no step of their own: every step may be delayed for as long as the budget of time allows. What it
//! assumes: a store keeps what it acknowledged, and a request that was sent is executed at most once.

mod gate;
mod mutants;
mod properties;
#[cfg(test)]
mod tests;
mod world;

use std::{collections::BTreeSet, time::Duration};

use http::StatusCode;
use stateright::{Model, Property};

use self::{
    mutants::Mutant,
    world::{
        BIDS, Budget, Command, Errand, Event, Fate, HALF_GONE, LAPSED, LEASE, Phase, RETENTION, Token, Try, World,
    },
};
use super::{
    CallerTag, Claim, ClaimToken, Doubt, Fingerprint, Outcome, Policy,
    policy::{InFlight, OnUnknown},
    samples,
};

/// Who asks, at which gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Visitor {
    gate: u8,
    kind: Kind,
}

/// What a try has in common with the others under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The same request of the same caller.
    Retry,
    /// Another request (another fingerprint).
    OtherRequest,
    /// The same request with another credential of the subject.
    OtherCredential,
}

/// One configuration of the model.
#[derive(Clone, Debug)]
struct Protocol {
    unknown: OnUnknown,
    visitors: Vec<Visitor>,
    budget: Budget,
    mutant: Option<Mutant>,
    /// By token.
    claims: Vec<Claim>,
    policy: Policy,
}

impl Protocol {
    fn new(unknown: OnUnknown, in_flight: InFlight, visitors: &[Visitor], budget: Budget) -> Self {
        let seconds = |age: u8| Duration::from_secs(age.into());
        let policy =
            Policy { unknown, in_flight, lease: seconds(LEASE), retention: seconds(RETENTION), ..samples::policy() };
        let tokens = 0..BIDS * u8::try_from(visitors.len()).expect("few visitors");
        let claims = tokens
            .map(|token| {
                let kind = visitors[usize::from(token / BIDS)].kind;
                Claim {
                    token: ClaimToken([token; 16]),
                    fingerprint: Fingerprint([u8::from(kind == Kind::OtherRequest); 32]),
                    caller: CallerTag([u8::from(kind == Kind::OtherCredential); 32]),
                    ..samples::claim(token, &policy)
                }
            })
            .collect();
        Self { unknown, visitors: visitors.to_vec(), budget, mutant: None, claims, policy }
    }

    fn mutated(self, mutant: Mutant) -> Self {
        Self { policy: gate::bend(self.policy, Some(mutant)), mutant: Some(mutant), ..self }
    }

    fn tries(&self) -> impl Iterator<Item = u8> + use<> {
        0..u8::try_from(self.visitors.len()).expect("few visitors")
    }

    /// Tries that differ in nothing arrive in order: their names mean nothing.
    fn may_arrive(&self, world: &World, of: u8) -> bool {
        let me = self.visitors[usize::from(of)];
        let mut earlier = self.visitors.iter().zip(&world.tries).take(usize::from(of));
        !earlier.any(|(visitor, attempt)| *visitor == me && attempt.phase == Phase::Idle)
    }
}

/// One step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Arrive(u8),
    /// A command reaches the store, and its reply the sender if it still waits.
    Land(Command),
    /// No reply to a command comes in time. It may still land.
    Delay(Command),
    AskAgain(u8),
    GiveUp(u8),
    Send(u8),
    BidAgain(u8),
    Renew(u8),
    Answer(u8),
    LoseAnswer(u8),
    /// The upstream's own gateway says 502: that proves nothing.
    BadGateway(u8),
    ProveUnsent(u8),
    /// The upstream says 429: by its word not executed.
    Decline(u8),
    ResponseTimeout(u8),
    Wake(u8),
    LosePatience(u8),
    Crash(u8),
    HalfLeaseGone,
    LeaseLapses,
    RetentionEnds,
    /// An operator finds out about a doubtful record that its request was not executed and will not be. Where a
    /// gate still waits for the answer nobody can know that.
    OperatorLooks,
    OperatorReleases(Token),
}

impl Model for Protocol {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            cell: None,
            tries: vec![Try { bid: 0, phase: Phase::Idle }; self.visitors.len()],
            network: Vec::new(),
            upstream: vec![Fate::Unsent; self.claims.len()],
            operator: None,
            period: 0,
            takeovers: [0; 2],
            answers: [None; 2],
            left: self.budget,
            event: Event::Nothing,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        for of in self.tries() {
            self.steps_of(world, of, steps);
        }
        self.steps_of_the_store(world, steps);
        self.steps_of_the_world(world, steps);
    }

    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        let mut world = World { event: Event::Nothing, ..last.clone() };
        match step {
            Step::Arrive(of) => Self::bid(&mut world, of, None),
            Step::Land(command) => {
                world.take(command);
                let swapped = self.land(&mut world, command);
                Self::renewed(&mut world, command, &swapped);
                let broken = matches!(world.event, Event::Broken(_));
                if command.awaited && !broken {
                    self.hear(&mut world, command, swapped);
                }
            }
            Step::Delay(command) => {
                world.left.store_faults -= 1;
                Self::delay(&mut world, command);
            }
            Step::AskAgain(of) => self.ask_again(&mut world, of),
            Step::GiveUp(of) => Self::give_up(&mut world, of),
            Step::Send(of) => {
                world.befalls(world.token(of), Fate::Sent { since: world.period });
                world.enter(of, Phase::Flying { told: false });
            }
            Step::BidAgain(of) => Self::bid_again(&mut world, of),
            Step::Renew(of) => {
                world.left.renewals -= 1;
                world.send(Command { token: world.token(of), errand: Errand::Renew { age: 0 }, awaited: false });
            }
            Step::Answer(of) => {
                self.settle(&mut world, of, Self::answered(last.token(of), StatusCode::CREATED));
            }
            Step::LoseAnswer(of) => self.settle(&mut world, of, Outcome::Lost(Doubt::AnswerLost)),
            Step::BadGateway(of) => {
                self.settle(&mut world, of, Self::answered(last.token(of), StatusCode::BAD_GATEWAY));
            }
            Step::ProveUnsent(of) => {
                world.befalls(world.token(of), Fate::Unsent);
                self.settle(&mut world, of, Outcome::NotSent);
            }
            Step::Decline(of) => {
                world.befalls(world.token(of), Fate::Unsent);
                self.settle(&mut world, of, Self::answered(last.token(of), StatusCode::TOO_MANY_REQUESTS));
            }
            Step::ResponseTimeout(of) => {
                world.left.response_timeouts -= 1;
                if self.mutant == Some(Mutant::ReleaseOnTimeout) {
                    world.send(Command { token: world.token(of), errand: Errand::Clear, awaited: true });
                    world.enter(of, Phase::Settling);
                } else {
                    world.enter(of, Phase::Flying { told: true });
                }
            }
            Step::Wake(of) => {
                world.left.wakes -= 1;
                Self::bid(&mut world, of, None);
            }
            Step::LosePatience(of) => world.enter(of, Phase::Done),
            Step::Crash(gate) => self.crash(&mut world, gate),
            Step::HalfLeaseGone => {
                world.left.half_leases -= 1;
                world.pass(HALF_GONE);
            }
            Step::LeaseLapses => {
                world.left.lapses -= 1;
                world.pass(LAPSED);
            }
            Step::RetentionEnds => {
                world.left.retentions -= 1;
                world.period += 1;
                world.operator = None;
                world.pass(RETENTION);
            }
            Step::OperatorLooks => {
                world.left.operators -= 1;
                world.operator = world.cell.map(|slot| slot.token);
                if let Some(token) = world.operator {
                    world.befalls(token, Fate::Unsent);
                }
            }
            Step::OperatorReleases(token) => {
                world.operator = None;
                self.operator_releases(&mut world, token);
            }
        }
        world.forget_idle_clears();
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(self)
    }
}

impl Protocol {
    fn steps_of(&self, world: &World, of: u8, steps: &mut Vec<Step>) {
        let renewable = world.left.renewals > 0;
        match world.phase(of) {
            Phase::Idle if self.may_arrive(world, of) => steps.push(Step::Arrive(of)),
            Phase::Unheard { .. } => steps.extend([Step::AskAgain(of), Step::GiveUp(of)]),
            Phase::Waiting => {
                if world.left.wakes > 0 {
                    steps.push(Step::Wake(of));
                }
                if self.mutant != Some(Mutant::WaitsForEver) {
                    steps.push(Step::LosePatience(of));
                }
            }
            Phase::Won { age } => {
                steps.push(if self.may_send(age) { Step::Send(of) } else { Step::BidAgain(of) });
                if renewable {
                    steps.push(Step::Renew(of));
                }
            }
            Phase::Flying { told } => {
                steps.extend([Step::Answer(of), Step::LoseAnswer(of), Step::BadGateway(of)]);
                steps.extend([Step::ProveUnsent(of), Step::Decline(of)]);
                if !told && world.left.response_timeouts > 0 {
                    steps.push(Step::ResponseTimeout(of));
                }
                if renewable {
                    steps.push(Step::Renew(of));
                }
            }
            Phase::Idle | Phase::Bidding { .. } | Phase::Declaring | Phase::Settling | Phase::Done => {}
        }
    }

    fn steps_of_the_store(&self, world: &World, steps: &mut Vec<Step>) {
        let mut before = None;
        for &command in &world.network {
            if before.replace(command) == Some(command) {
                continue;
            }
            steps.push(Step::Land(command));
            if command.awaited && world.left.store_faults > 0 {
                steps.push(Step::Delay(command));
            }
        }
    }

    fn steps_of_the_world(&self, world: &World, steps: &mut Vec<Step>) {
        let ages = world.cell.is_some() || !world.network.is_empty();
        if ages && world.left.half_leases > 0 {
            steps.push(Step::HalfLeaseGone);
        }
        if ages && world.left.lapses > 0 {
            steps.push(Step::LeaseLapses);
        }
        if world.cell.is_some() && world.left.retentions > 0 {
            steps.push(Step::RetentionEnds);
        }
        if world.left.crashes > 0 {
            let gates: BTreeSet<u8> =
                self.tries().filter(|of| Self::is_at_work(world, *of)).map(|of| self.gate(of)).collect();
            steps.extend(gates.into_iter().map(Step::Crash));
        }
        if let Some(token) = world.operator {
            steps.push(Step::OperatorReleases(token));
        } else if world.left.operators > 0
            && let Some(occupant) = self.occupant(world)
            && occupant.is_doubtful()
            && self.may_be_proved_unsent(world, occupant.record.token.0[0])
        {
            steps.push(Step::OperatorLooks);
        }
    }

    fn gate(&self, of: u8) -> u8 {
        self.visitors[usize::from(of)].gate
    }

    /// Whether it can turn out that the request of `token` was not executed: no gate still waits for its answer, and
    /// no answer came.
    fn may_be_proved_unsent(&self, world: &World, token: Token) -> bool {
        let of = token / BIDS;
        let flies = matches!(world.phase(of), Phase::Flying { .. }) && world.token(of) == token;
        let answered = world.network.iter().any(|other| other.token == token && other.errand == Errand::Complete);
        !flies && !answered
    }

    fn is_at_work(world: &World, of: u8) -> bool {
        !matches!(world.phase(of), Phase::Idle | Phase::Done)
    }

    /// A gate dies: its tries vanish, its commands may still land, its requests may still be executed.
    fn crash(&self, world: &mut World, gate: u8) {
        world.left.crashes -= 1;
        for of in self.tries().filter(|of| self.gate(*of) == gate) {
            if Self::is_at_work(world, of) {
                if matches!(world.phase(of), Phase::Flying { .. }) {
                    world.event = Event::CrashedInFlight;
                }
                world.enter(of, Phase::Done);
            }
        }
        for command in &mut world.network {
            if self.gate(command.token / BIDS) == gate {
                command.awaited = false;
            }
        }
        world.network.sort_unstable();
    }
}
