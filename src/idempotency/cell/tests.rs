//! Tests of `Cell::swap`: the arrows of the diagram in `idempotency/mod.rs`, the whole table of transitions, the
//! clock, and what no sequence of writes can do.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use proptest::prelude::*;

use super::*;
use crate::idempotency::{Claim, Doubt, Policy, Settlement, StoredBody, StoredResponse, samples};

const LEASE: Duration = Duration::from_secs(30);
const RETENTION: Duration = Duration::from_secs(24 * 3600);
const TICK: Duration = Duration::from_nanos(1);
const MINE: u8 = 1;
const OTHERS: u8 = 2;

fn claim(of: u8) -> Claim {
    samples::claim(of, &Policy { lease: LEASE, retention: RETENTION, ..samples::policy() })
}

fn token(of: u8) -> ClaimToken {
    claim(of).token
}

/// An answer that names its claimant, so that two answers are told apart.
fn answer(of: u8) -> StoredResponse {
    StoredResponse {
        status: Some(StatusCode::CREATED),
        headers: Vec::new(),
        body: StoredBody::Whole { bytes: Bytes::from(vec![of]), trailers: Vec::new() },
    }
}

fn hold(of: u8) -> Write {
    claim(of).hold()
}

fn renew(of: u8) -> Write {
    claim(of).renew()
}

fn complete(of: u8) -> Write {
    claim(of).settle(Settlement::Complete(answer(of)))
}

fn doubt(of: u8) -> Write {
    claim(of).settle(Settlement::Doubt { doubt: Doubt::AnswerLost, kept: None })
}

/// When the cell of a test was first written; not the store's epoch, so that arithmetic on zero proves nothing.
const START: StoreTime = StoreTime(Duration::from_secs(1_000));

fn after(idle: Duration) -> StoreTime {
    StoreTime(START.0 + idle)
}

fn cell_with(write: &Write) -> Cell {
    Cell::holding(write.record().expect("a write with a record").clone(), START)
}

fn claimed(of: u8) -> Cell {
    cell_with(&hold(of))
}

fn completed(of: u8) -> Cell {
    cell_with(&complete(of))
}

fn unknown(of: u8) -> Cell {
    cell_with(&doubt(of))
}

fn state(cell: &Cell) -> Option<State> {
    cell.inside().map(|(record, _)| record.state.clone())
}

fn touched(cell: &Cell) -> StoreTime {
    cell.inside().expect("a record").1
}

// The arrows of the diagram ------------------------------------------------------------------------------------

#[test]
fn an_absent_cell_is_claimed_by_hold() {
    let mut cell = Cell::default();
    assert_eq!(cell.swap(Expect::Absent, hold(MINE), START), Swapped::Done);
    assert_eq!(cell, Cell::holding(claim(MINE).record(State::Claimed), START));
}

#[test]
fn a_live_claim_is_renewed_by_its_claimant() {
    let mut cell = claimed(MINE);
    let now = after(LEASE / 3);
    assert_eq!(cell.swap(Expect::HeldBy(token(MINE)), renew(MINE), now), Swapped::Done);
    assert_eq!(cell, Cell::holding(claim(MINE).record(State::Claimed), now));
}

#[test]
fn a_claim_proved_unsent_is_cleared_by_its_claimant() {
    let mut cell = claimed(MINE);
    let write = claim(MINE).settle(Settlement::Release);
    assert_eq!(cell.swap(Expect::HeldBy(token(MINE)), write, START), Swapped::Done);
    assert_eq!(cell, Cell::default());
}

#[test]
fn a_claim_is_completed_by_its_claimant() {
    let mut cell = claimed(MINE);
    let now = after(TICK);
    assert_eq!(cell.swap(Expect::HeldBy(token(MINE)), complete(MINE), now), Swapped::Done);
    assert_eq!(cell, Cell::holding(claim(MINE).record(State::Completed(answer(MINE))), now));
}

#[test]
fn a_lost_answer_turns_a_claim_into_doubt() {
    let mut cell = claimed(MINE);
    let now = after(TICK);
    assert_eq!(cell.swap(Expect::HeldBy(token(MINE)), doubt(MINE), now), Swapped::Done);
    assert_eq!(state(&cell), Some(State::Unknown { doubt: Doubt::AnswerLost, kept: None }));
    assert_eq!(touched(&cell), now);
}

#[test]
fn a_lapsed_claim_is_declared_unknown_by_anybody_under_its_own_token() {
    let mut cell = claimed(OTHERS);
    let now = after(LEASE + TICK);
    let occupant = cell.occupant(now).expect("the lapsed claim");
    assert_eq!(cell.swap(Expect::Doubtful(token(OTHERS)), Write::Doubt(occupant.record.lapsed()), now), Swapped::Done);
    let expected = claim(OTHERS).record(State::Unknown { doubt: Doubt::ClaimLapsed, kept: None });
    assert_eq!(cell, Cell::holding(expected, now));
}

#[test]
fn a_late_answer_of_the_same_token_completes_a_lapsed_claim() {
    let mut cell = claimed(MINE);
    assert_eq!(cell.swap(Expect::HeldBy(token(MINE)), complete(MINE), after(LEASE + TICK)), Swapped::Done);
    assert_eq!(state(&cell), Some(State::Completed(answer(MINE))));
}

#[test]
fn a_late_answer_of_the_same_token_completes_an_unknown() {
    let mut cell = unknown(MINE);
    assert_eq!(cell.swap(Expect::HeldBy(token(MINE)), complete(MINE), after(LEASE * 5)), Swapped::Done);
    assert_eq!(state(&cell), Some(State::Completed(answer(MINE))));
}

#[test]
fn an_operator_completes_an_unknown() {
    let mut cell = unknown(OTHERS);
    assert_eq!(cell.swap(Expect::Doubtful(token(OTHERS)), complete(OTHERS), START), Swapped::Done);
    assert_eq!(state(&cell), Some(State::Completed(answer(OTHERS))));
}

#[test]
fn an_unknown_is_cleared_by_its_claimant_who_proved_it_unsent_or_by_an_operator() {
    for expect in [Expect::HeldBy(token(MINE)), Expect::Doubtful(token(MINE)), Expect::Occupied(token(MINE))] {
        let mut cell = unknown(MINE);
        assert_eq!(cell.swap(expect, Write::Clear, START), Swapped::Done, "{expect:?}");
        assert_eq!(cell, Cell::default(), "{expect:?}");
    }
}

#[test]
fn a_lapsed_claim_and_an_unknown_pass_to_a_new_token_by_take_over() {
    for (mut cell, now) in [(claimed(OTHERS), after(LEASE + TICK)), (unknown(OTHERS), START)] {
        assert_eq!(cell.swap(Expect::Doubtful(token(OTHERS)), hold(MINE), now), Swapped::Done);
        assert_eq!(cell, Cell::holding(claim(MINE).record(State::Claimed), now));
    }
}

#[test]
fn of_two_take_overs_of_one_doubt_the_second_is_refused() {
    let mut cell = unknown(OTHERS);
    assert_eq!(cell.swap(Expect::Doubtful(token(OTHERS)), hold(MINE), START), Swapped::Done);
    let occupant = cell.occupant(START);
    assert_eq!(cell.swap(Expect::Doubtful(token(OTHERS)), hold(3), START), Swapped::Refused { occupant });
    assert_eq!(cell, claimed(MINE));
}

#[test]
fn a_completed_record_is_released_by_an_operator_alone() {
    let mut cell = completed(MINE);
    for expect in [Expect::Absent, Expect::HeldBy(token(MINE)), Expect::Doubtful(token(MINE))] {
        let occupant = cell.occupant(START);
        assert_eq!(cell.swap(expect, Write::Clear, START), Swapped::Refused { occupant }, "{expect:?}");
    }
    assert_eq!(cell.swap(Expect::Occupied(token(MINE)), Write::Clear, START), Swapped::Done);
    assert_eq!(cell, Cell::default());
}

#[test]
fn what_the_store_forgot_its_claimant_writes_anew() {
    for write in [renew(MINE), complete(MINE), doubt(MINE)] {
        let mut cell = Cell::default();
        let expected = cell_with(&write);
        assert_eq!(cell.swap(Expect::HeldBy(token(MINE)), write, START), Swapped::Recreated);
        assert_eq!(cell, expected);
    }
}

// The whole table ------------------------------------------------------------------------------------------------

/// The occupants of the table: what is in the cell, and the time of the swap.
fn occupants() -> Vec<(&'static str, Cell, StoreTime)> {
    let mut all = vec![("absent", Cell::default(), START)];
    for (whose, of) in [("mine", MINE), ("other", OTHERS)] {
        for (name, cell, now) in [
            ("expired claim", claimed(of), after(RETENTION)),
            ("expired unknown", unknown(of), after(RETENTION)),
            ("expired completed", completed(of), after(RETENTION)),
            ("claimed alive", claimed(of), after(LEASE)),
            ("claimed lapsed", claimed(of), after(LEASE + TICK)),
            ("unknown", unknown(of), after(LEASE)),
            ("completed", completed(of), after(LEASE * 3)),
        ] {
            all.push((Box::leak(format!("{name}, {whose}").into_boxed_str()), cell, now));
        }
    }
    all
}

/// What each expectation (columns of five: Hold, Renew, Complete, Doubt, Clear) does to each occupant. All writes
/// and expectations are of the token `MINE`. `P` put, `R` recreated, `K` kept as it is, `.` refused.
#[rustfmt::skip]
const TABLE: [(&str, &str, &str, &str, &str); 15] = [
    //                           Absent   HeldBy   Doubtful Occupied
    //                           HRCDX    HRCDX    HRCDX    HRCDX
    ("absent",                   "P....", ".RRR.", ".....", "....."),
    ("expired claim, mine",      "P....", ".RRR.", ".....", "....."),
    ("expired unknown, mine",    "P....", ".RRR.", ".....", "....."),
    ("expired completed, mine",  "P....", ".RRR.", ".....", "....."),
    ("claimed alive, mine",      ".....", ".PPPP", ".....", "....P"),
    ("claimed lapsed, mine",     ".....", "..PPP", "P.PPP", "....P"),
    ("unknown, mine",            ".....", "..PPP", "P.P.P", "....P"),
    ("completed, mine",          ".....", "..K..", ".....", "....P"),
    ("expired claim, other",     "P....", ".RRR.", ".....", "....."),
    ("expired unknown, other",   "P....", ".RRR.", ".....", "....."),
    ("expired completed, other", "P....", ".RRR.", ".....", "....."),
    ("claimed alive, other",     ".....", ".....", ".....", "....."),
    ("claimed lapsed, other",    ".....", ".....", ".....", "....."),
    ("unknown, other",           ".....", ".....", ".....", "....."),
    ("completed, other",         ".....", ".....", ".....", "....."),
];

#[test]
fn every_write_under_every_expectation_over_every_occupant_does_what_the_table_says() {
    let occupants = occupants();
    assert_eq!(occupants.len(), TABLE.len());
    let mut checked = 0;
    for ((name, before, now), row) in occupants.into_iter().zip(TABLE) {
        assert_eq!(name, row.0);
        for (expect, verdicts) in [
            (Expect::Absent, row.1),
            (Expect::HeldBy(token(MINE)), row.2),
            (Expect::Doubtful(token(MINE)), row.3),
            (Expect::Occupied(token(MINE)), row.4),
        ] {
            let writes = [hold(MINE), renew(MINE), complete(MINE), doubt(MINE), Write::Clear];
            assert_eq!(verdicts.len(), writes.len());
            for (write, verdict) in writes.into_iter().zip(verdicts.chars()) {
                let case = format!("{write:?} under {expect:?} over {name}");
                let mut cell = before.clone();
                let written = write.record().map_or_else(Cell::default, |record| Cell::holding(record.clone(), now));
                let swapped = cell.swap(expect, write, now);
                let (told, left) = match verdict {
                    'P' => (Swapped::Done, written),
                    'R' => (Swapped::Recreated, written),
                    'K' => (Swapped::Done, before.clone()),
                    '.' => (Swapped::Refused { occupant: before.occupant(now) }, before.clone()),
                    other => panic!("{other} in the table"),
                };
                assert_eq!((swapped, cell), (told, left), "{case}");
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 15 * 4 * 5);
}

// The clock -----------------------------------------------------------------------------------------------------

#[test]
fn a_record_expires_at_exactly_its_retention() {
    let cell = completed(MINE);
    let last = after(RETENTION - TICK);
    assert_eq!(cell.occupant(last).map(|occupant| occupant.idle), Some(RETENTION - TICK));
    assert!(!cell.is_vacant(last));
    assert_eq!(cell.occupant(after(RETENTION)), None);
    assert!(cell.is_vacant(after(RETENTION)));
    assert!(cell.inside().is_some(), "what expired is still there until someone sweeps or writes");
    assert!(Cell::default().is_vacant(START));
}

#[test]
fn an_expired_record_of_any_state_is_claimed_like_an_absent_one() {
    for cell in [claimed(OTHERS), unknown(OTHERS), completed(OTHERS)] {
        for (now, expected) in [
            (after(RETENTION - TICK), Swapped::Refused { occupant: cell.occupant(after(RETENTION - TICK)) }),
            (after(RETENTION), Swapped::Done),
        ] {
            assert_eq!(cell.clone().swap(Expect::Absent, hold(MINE), now), expected);
        }
    }
}

#[test]
fn a_claim_lapses_after_and_not_at_exactly_its_lease() {
    let cell = claimed(OTHERS);
    assert!(!cell.occupant(after(LEASE)).expect("the claim").is_doubtful());
    assert!(cell.occupant(after(LEASE + TICK)).expect("the claim").is_doubtful());

    let take_over = |now| cell.clone().swap(Expect::Doubtful(token(OTHERS)), hold(MINE), now);
    assert_eq!(take_over(after(LEASE)), Swapped::Refused { occupant: cell.occupant(after(LEASE)) });
    assert_eq!(take_over(after(LEASE + TICK)), Swapped::Done);

    let renewal = |now| claimed(MINE).swap(Expect::HeldBy(token(MINE)), renew(MINE), now);
    assert_eq!(renewal(after(LEASE)), Swapped::Done);
    assert_eq!(
        renewal(after(LEASE + TICK)),
        Swapped::Refused { occupant: claimed(MINE).occupant(after(LEASE + TICK)) }
    );
}

#[test]
fn a_lapsed_lease_never_frees_a_cell() {
    for now in [after(LEASE + TICK), after(LEASE * 100), after(RETENTION - TICK)] {
        let mut cell = claimed(OTHERS);
        let occupant = cell.occupant(now);
        assert_eq!(cell.swap(Expect::Absent, hold(MINE), now), Swapped::Refused { occupant });
    }
}

#[test]
fn a_renewal_starts_lease_and_retention_anew() {
    let mut cell = claimed(MINE);
    let renewed = after(LEASE);
    assert_eq!(cell.swap(Expect::HeldBy(token(MINE)), renew(MINE), renewed), Swapped::Done);
    let lease_end = StoreTime(renewed.0 + LEASE);
    assert!(!cell.occupant(lease_end).expect("the claim").is_doubtful());
    assert!(cell.occupant(StoreTime(lease_end.0 + TICK)).expect("the claim").is_doubtful());
    assert!(cell.occupant(after(RETENTION)).is_some());
    assert_eq!(cell.occupant(StoreTime(renewed.0 + RETENTION)), None);
}

#[test]
fn a_change_of_state_starts_the_retention_anew() {
    let settled = after(RETENTION - TICK);
    for write in [complete(MINE), doubt(MINE)] {
        let mut cell = claimed(MINE);
        assert_eq!(cell.swap(Expect::HeldBy(token(MINE)), write, settled), Swapped::Done);
        assert!(cell.occupant(StoreTime(settled.0 + RETENTION - TICK)).is_some());
        assert_eq!(cell.occupant(StoreTime(settled.0 + RETENTION)), None);
    }
}

#[test]
fn replays_and_repeated_completions_do_not_keep_a_record_alive() {
    let mut cell = completed(MINE);
    let before = cell.clone();
    for minutes in 1..100 {
        let now = after(Duration::from_secs(60 * minutes));
        let occupant = cell.occupant(now);
        assert_eq!(occupant.as_ref().map(|occupant| occupant.idle), Some(Duration::from_secs(60 * minutes)));
        assert_eq!(cell.swap(Expect::Absent, hold(OTHERS), now), Swapped::Refused { occupant });
        assert_eq!(cell.swap(Expect::HeldBy(token(MINE)), complete(MINE), now), Swapped::Done);
    }
    assert_eq!(cell, before);
    assert_eq!(cell.occupant(after(RETENTION)), None);
}

#[test]
fn a_record_counts_by_the_lease_and_retention_it_was_written_with() {
    let long = Claim { lease: LEASE * 10, retention: RETENTION * 7, ..claim(OTHERS) };
    let cell = Cell::holding(long.record(State::Claimed), START);
    assert!(!cell.occupant(after(LEASE * 10)).expect("the claim").is_doubtful());
    assert!(cell.occupant(after(RETENTION)).is_some());
    assert_eq!(cell.occupant(after(RETENTION * 7)), None);
}

#[test]
fn a_store_clock_that_went_back_neither_frees_nor_doubts() {
    let cell = claimed(OTHERS);
    let occupant = cell.occupant(StoreTime(Duration::ZERO)).expect("the claim");
    assert_eq!(occupant.idle, Duration::ZERO);
    assert!(!occupant.is_doubtful());
}

#[test]
fn a_completion_is_never_overwritten_by_another_answer_of_the_same_token() {
    let mut cell = completed(MINE);
    let before = cell.clone();
    let other_answer = claim(MINE).settle(Settlement::Complete(answer(99)));
    assert_eq!(cell.swap(Expect::HeldBy(token(MINE)), other_answer, after(TICK)), Swapped::Done);
    assert_eq!(cell, before);
}

#[test]
fn a_claimant_may_replace_a_declared_lapse_by_what_it_knows_but_a_reader_may_not_cover_that() {
    let mut cell = cell_with(&Write::Doubt(claim(MINE).record(State::Claimed).lapsed()));
    let kept = Some(answer(MINE));
    let said = Doubt::UpstreamSaid(StatusCode::BAD_GATEWAY);
    let own = claim(MINE).settle(Settlement::Doubt { doubt: said, kept: kept.clone() });
    assert_eq!(cell.swap(Expect::HeldBy(token(MINE)), own, START), Swapped::Done);
    let occupant = cell.occupant(START);
    let declared = Write::Doubt(claim(MINE).record(State::Claimed).lapsed());
    assert_eq!(cell.swap(Expect::Doubtful(token(MINE)), declared, START), Swapped::Refused { occupant });
    assert_eq!(state(&cell), Some(State::Unknown { doubt: said, kept }));
}

// Any sequence of writes ------------------------------------------------------------------------------------------

/// One step of a random history: time passes, then someone writes.
#[derive(Clone, Debug)]
struct Step {
    passes: Duration,
    expect: Expect,
    write: Write,
}

fn any_expect() -> impl Strategy<Value = Expect> {
    (0..4_u8, 1..4_u8).prop_map(|(kind, of)| match kind {
        0 => Expect::Absent,
        1 => Expect::HeldBy(token(of)),
        2 => Expect::Doubtful(token(of)),
        _ => Expect::Occupied(token(of)),
    })
}

/// Writes that a claimant would send: the record is the expectation's own, but for take-overs.
fn any_step() -> impl Strategy<Value = Step> {
    let passes = prop_oneof![
        4 => Just(Duration::ZERO),
        3 => Just(LEASE / 3),
        2 => Just(LEASE),
        2 => Just(LEASE + TICK),
        1 => Just(RETENTION - TICK),
        1 => Just(RETENTION),
    ];
    (passes, any_expect(), 0..5_u8, 1..4_u8).prop_map(|(passes, expect, kind, of)| {
        let of = match (expect, kind) {
            (Expect::HeldBy(token) | Expect::Occupied(token), _) => token.0[0],
            (Expect::Doubtful(token), 1..) => token.0[0],
            (Expect::Doubtful(_), 0) | (Expect::Absent, _) => of,
        };
        let write = match kind {
            0 => hold(of),
            1 => renew(of),
            2 => complete(of),
            3 => doubt(of),
            _ => Write::Clear,
        };
        Step { passes, expect, write }
    })
}

fn clears_as_operator(step: &Step) -> bool {
    matches!((step.expect, &step.write), (Expect::Occupied(_), Write::Clear))
}

/// The token a step speaks for, where it speaks for a claimant.
fn speaker(step: &Step) -> Option<ClaimToken> {
    match step.expect {
        Expect::HeldBy(token) => Some(token),
        Expect::Absent => step.write.record().map(|record| record.token),
        Expect::Doubtful(_) | Expect::Occupied(_) => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_history_breaks_a_law_of_the_cell(steps in prop::collection::vec(any_step(), 1..40)) {
        let mut cell = Cell::default();
        let mut now = START;
        for step in steps {
            now = StoreTime(now.0 + step.passes);
            let before = cell.clone();
            let occupant = before.occupant(now);
            let swapped = cell.swap(step.expect, step.write.clone(), now);

            // A refusal, and only what was refused or already there, leaves the cell as it is.
            let kept = matches!(swapped, Swapped::Done) && cell == before && cell != Cell::default();
            match &swapped {
                Swapped::Refused { occupant: told } => {
                    prop_assert_eq!(&cell, &before);
                    prop_assert_eq!(told, &occupant);
                }
                Swapped::Recreated => prop_assert!(occupant.is_none()),
                Swapped::Done if kept => {}
                Swapped::Done => {
                    let written = step.write.record().map(|record| (record, now));
                    prop_assert_eq!(cell.inside(), written);
                }
            }
            let Some(occupant) = occupant else { continue };
            let was = &occupant.record;

            // A completed record ends by expiry or an operator's release, never otherwise.
            if matches!(was.state, State::Completed(_)) && !clears_as_operator(&step) {
                prop_assert_eq!(&cell, &before);
            }
            // A superseded (or never successful) token changes nothing that is another's.
            if speaker(&step).is_some_and(|speaker| speaker != was.token) {
                prop_assert_eq!(&cell, &before);
            }
            // A cell with a live claim is changed by its claimant, or emptied by an operator's force.
            if matches!(was.state, State::Claimed) && !occupant.is_doubtful() && cell != before {
                prop_assert!(step.expect == Expect::HeldBy(was.token) || clears_as_operator(&step));
            }
            // Doubt ends in an answer, in release or in another's hands: never in a live claim by renewal.
            if occupant.is_doubtful() && matches!(step.write, Write::Renew(_)) {
                prop_assert_eq!(&cell, &before);
            }
        }
    }
}
