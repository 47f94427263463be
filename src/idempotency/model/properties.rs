//! What must hold in every world (`always`), in the end of every history (`eventually`), and what must be reachable
//! for the rest to mean anything (`sometimes`).

use stateright::Property;

use super::{
    Kind, Protocol, Step,
    world::{Event, Law, Phase, World},
};
use crate::idempotency::policy::{InFlight, OnUnknown};

pub(super) const AT_MOST_ONCE: &str = "I1 hold: at most one execution in a retention period";
pub(super) const TAKE_OVERS_ONLY: &str = "I2 retry: no more executions than one and the take-overs";
pub(super) const ONE_ANSWER: &str = "I3 one answer in a retention period, given by the upstream, never replaced";
pub(super) const FAITHFUL_REPLAY: &str = "I3 a replay is the recorded answer to the same request";
pub(super) const FENCED: &str = "I4 a token never changes a record that is not its own";
pub(super) const NOBODY_IS_STUCK: &str = "I5 every client can still get an answer";
pub(super) const EVERYBODY_IS_ANSWERED: &str = "I5 every client gets an answer";
pub(super) const NEVER_REVIVED: &str = "I6 doubt is never renewed away";
pub(super) const RELEASED_ONLY_UNSENT: &str = "a cell is emptied only when its request was not sent";
pub(super) const NEVER_FORGOTTEN: &str = "hold: within the retention an execution leaves a record";
pub(super) const MISMATCH: &str = "another request or credential meets its refusal in every state";

fn broken(world: &World, law: Law) -> bool {
    world.event == Event::Broken(law)
}

/// The properties of one configuration. A `sometimes` is asked for where the configuration can show it.
pub(super) fn of(protocol: &Protocol) -> Vec<Property<Protocol>> {
    let mut all = vec![
        Property::always(ONE_ANSWER, |_, world: &World| !broken(world, Law::OneAnswer)),
        Property::always(FAITHFUL_REPLAY, |_, world: &World| !broken(world, Law::FaithfulReplay)),
        Property::always(FENCED, |_, world: &World| !broken(world, Law::Fenced)),
        Property::always(NEVER_REVIVED, |_, world: &World| !broken(world, Law::DoubtIsNotRenewedAway)),
        Property::always(RELEASED_ONLY_UNSENT, |_, world: &World| !broken(world, Law::ReleasedOnlyWhenUnsent)),
        Property::always(MISMATCH, |_, world: &World| !broken(world, Law::Mismatch)),
        Property::always(NOBODY_IS_STUCK, nobody_is_stuck),
        Property::eventually(EVERYBODY_IS_ANSWERED, |_, world: &World| {
            world.tries.iter().all(|attempt| attempt.phase == Phase::Done)
        }),
        Property::sometimes("a client gets a replay", |_, world: &World| world.event == Event::Replayed),
    ];
    match protocol.unknown {
        OnUnknown::Hold => all.extend([
            Property::always(AT_MOST_ONCE, |_, world: &World| (0..2).all(|period| world.executions(period) <= 1)),
            Property::always(NEVER_FORGOTTEN, never_forgotten),
        ]),
        OnUnknown::Retry => all.push(Property::always(TAKE_OVERS_ONLY, |_, world: &World| {
            (0_u8..).zip(world.takeovers).all(|(period, taken)| world.executions(period) <= 1 + usize::from(taken))
        })),
    }
    all.extend(reachable(protocol));
    all
}

fn reachable(protocol: &Protocol) -> Vec<Property<Protocol>> {
    let budget = protocol.budget;
    let mut all = Vec::new();
    if budget.lapses > 0 {
        all.extend([
            Property::sometimes("the dispatch guard sends nothing", |_, world: &World| {
                world.event == Event::GuardSendsNothing
            }),
            Property::sometimes("a late answer completes a lapsed claim", |_, world: &World| {
                world.event == Event::LateAnswerCompletesLapsedClaim
            }),
        ]);
        match protocol.unknown {
            OnUnknown::Hold => all.extend([
                Property::sometimes("a lapsed claim is declared unknown", |_, world: &World| {
                    world.event == Event::LapseDeclared
                }),
                Property::sometimes("a late answer completes an unknown", |_, world: &World| {
                    world.event == Event::LateAnswerCompletesUnknown
                }),
            ]),
            OnUnknown::Retry => all.extend([
                Property::sometimes("a doubtful claim is taken over", |_, world: &World| {
                    world.event == Event::TakenOver
                }),
                Property::sometimes("the answer of a superseded token is fenced off", |_, world: &World| {
                    world.event == Event::LateAnswerIsFencedOff
                }),
                Property::sometimes("a take-over executes again", |_, world: &World| {
                    world.executions(world.period) > 1
                }),
            ]),
        }
    }
    if budget.store_faults > 0 {
        all.extend([
            Property::sometimes("a claim whose reply was lost ends in Own", |_, world: &World| {
                world.event == Event::LostReplyEndsInOwn
            }),
            Property::sometimes("a withdrawal empties the cell", |_, world: &World| {
                world.event == Event::WithdrawalEmptiesTheCell
            }),
            Property::sometimes("a straggling claim lands after its withdrawal", |_, world: &World| {
                world.event == Event::ClaimLandsAfterItsWithdrawal
            }),
        ]);
    }
    if budget.retentions > 0 {
        all.extend([
            Property::sometimes("an expired key is a new operation", |_, world: &World| {
                world.executions(0) == 1 && world.executions(1) == 1
            }),
            Property::sometimes("what the store forgot is written anew", |_, world: &World| {
                world.event == Event::Recreated
            }),
        ]);
    }
    if budget.retentions > 0 && budget.lapses > 0 {
        all.push(Property::sometimes("a record vanishes between two looks", |_, world: &World| {
            world.event == Event::VanishedMeanwhile
        }));
    }
    if budget.crashes > 0 {
        all.push(Property::sometimes("a gate dies while the upstream works", |_, world: &World| {
            world.event == Event::CrashedInFlight
        }));
    }
    if budget.operators > 0 && budget.lapses > 0 {
        all.push(Property::sometimes("an operator frees a key, and it is executed then", |_, world: &World| {
            world.event == Event::OperatorReleased
        }));
    }
    if protocol.visitors.iter().any(|visitor| visitor.kind == Kind::OtherRequest) {
        all.push(Property::sometimes("another request is refused", |_, world: &World| {
            world.event == Event::MismatchRefused
        }));
    }
    if protocol.visitors.iter().any(|visitor| visitor.kind == Kind::OtherCredential) {
        all.push(Property::sometimes("another credential is refused", |_, world: &World| {
            world.event == Event::OtherCredentialRefused
        }));
    }
    match protocol.policy.in_flight {
        InFlight::Reject => {}
        InFlight::Wait { .. } => all.push(Property::sometimes("a duplicate waits", |_, world: &World| {
            world.tries.iter().any(|attempt| attempt.phase == Phase::Waiting)
        })),
    }
    all
}

/// Whether what was executed in this period is still in the cell, in some state.
fn never_forgotten(protocol: &Protocol, world: &World) -> bool {
    world.executions(world.period) == 0 || protocol.occupant(world).is_some()
}

/// Whether each try that is under way has a step that brings *it* forward.
fn nobody_is_stuck(protocol: &Protocol, world: &World) -> bool {
    let mut steps = Vec::new();
    protocol.tries().all(|of| match world.phase(of) {
        Phase::Done => true,
        Phase::Idle => {
            protocol.tries().any(|other| world.phase(other) == Phase::Idle && protocol.may_arrive(world, other))
        }
        Phase::Bidding { .. } | Phase::Declaring | Phase::Settling => {
            world.network.iter().any(|command| command.awaited && command.token == world.token(of))
        }
        Phase::Unheard { .. } | Phase::Won { .. } | Phase::Flying { .. } | Phase::Waiting => {
            steps.clear();
            protocol.steps_of(world, of, &mut steps);
            steps.iter().any(|step| {
                [Step::GiveUp(of), Step::Send(of), Step::BidAgain(of), Step::LoseAnswer(of), Step::LosePatience(of)]
                    .contains(step)
            })
        }
    })
}
