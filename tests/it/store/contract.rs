//! Every arrow of the state machine, on every store.

use std::sync::Arc;

use oncegate::idempotency::State;

use super::*;

mount! { contract:
    a_claim_on_an_empty_cell_is_made_and_kept,
    a_second_claim_meets_the_first,
    a_repeated_claim_meets_itself,
    an_answer_is_kept_to_the_last_byte,
    a_repeated_completion_changes_nothing,
    only_the_claimant_changes_a_live_claim,
    a_release_frees_the_cell,
    a_completed_cell_is_emptied_by_an_operator_only,
    a_doubt_is_kept_with_what_the_upstream_said,
    a_renewal_does_not_revive_an_unknown,
    a_late_answer_heals_an_unknown,
    an_unknown_is_taken_over_and_its_old_claimant_fenced_out,
    a_doubt_is_not_covered_by_a_reader,
    what_the_store_forgot_is_written_again,
    nothing_but_a_claim_or_its_claimant_fills_an_empty_cell,
    cells_are_independent,
    records_of_every_kind_come_back_as_they_were,
    a_store_that_can_be_asked_says_so,
}

type Subject = Arc<dyn Store>;

async fn swap(store: &Subject, claim: &Claim, expect: Expect, write: Write) -> Result<Swapped, StoreError> {
    store.swap(&claim.key, expect, write).await
}

async fn state(store: &Subject, claim: &Claim) -> Option<State> {
    store.read(&claim.key).await.unwrap().map(|occupant| occupant.record.state)
}

async fn hold(store: &Subject, claim: &Claim) {
    done(swap(store, claim, Expect::Absent, claim.hold()).await);
}

/// Holds the cell and puts a doubt down.
async fn unknown(store: &Subject, claim: &Claim) {
    hold(store, claim).await;
    done(swap(store, claim, Expect::HeldBy(claim.token), doubt(claim)).await);
}

pub(super) async fn a_claim_on_an_empty_cell_is_made_and_kept(store: Subject) {
    let mine = claim(1, 1);
    assert_eq!(store.read(&mine.key).await.unwrap(), None);
    hold(&store, &mine).await;
    let occupant = store.read(&mine.key).await.unwrap().unwrap();
    assert_eq!(occupant.record, mine.record(State::Claimed));
    assert!(occupant.idle < Duration::from_secs(60), "{:?}", occupant.idle);
    assert!(!occupant.is_doubtful());
}

pub(super) async fn a_second_claim_meets_the_first(store: Subject) {
    let (first, second) = (claim(1, 1), claim(1, 2));
    hold(&store, &first).await;
    let there = refused(swap(&store, &second, Expect::Absent, second.hold()).await).unwrap();
    assert_eq!(there.record, first.record(State::Claimed));
    assert!(there.idle < Duration::from_secs(60));
    done(swap(&store, &first, Expect::HeldBy(first.token), complete(&first, "paid")).await);
    let there = refused(swap(&store, &second, Expect::Absent, second.hold()).await).unwrap();
    assert_eq!(there.record, first.record(State::Completed(answer("paid"))));
}

pub(super) async fn a_repeated_claim_meets_itself(store: Subject) {
    let mine = claim(1, 1);
    hold(&store, &mine).await;
    let there = refused(swap(&store, &mine, Expect::Absent, mine.hold()).await).unwrap();
    assert_eq!(there.record, mine.record(State::Claimed));
}

pub(super) async fn an_answer_is_kept_to_the_last_byte(store: Subject) {
    // Below and above the size that goes over the connection for bodies, with every byte there is.
    for (number, length) in [(1, 0), (2, 1), (3, 4096), (4, 16 << 10), (5, 1 << 20)] {
        let mine = claim(number, 1);
        let body: Vec<u8> = (0..=255).cycle().take(length).collect();
        hold(&store, &mine).await;
        done(swap(&store, &mine, Expect::HeldBy(mine.token), complete(&mine, body.clone())).await);
        let there = refused(swap(&store, &claim(number, 2), Expect::Absent, claim(number, 2).hold()).await).unwrap();
        assert!(there.record == mine.record(State::Completed(answer(body))), "an answer of {length} bytes");
    }
}

pub(super) async fn a_repeated_completion_changes_nothing(store: Subject) {
    let mine = claim(1, 1);
    hold(&store, &mine).await;
    done(swap(&store, &mine, Expect::HeldBy(mine.token), complete(&mine, "first")).await);
    done(swap(&store, &mine, Expect::HeldBy(mine.token), complete(&mine, "second")).await);
    assert_eq!(state(&store, &mine).await, Some(State::Completed(answer("first"))));
    // Nor does anything else that its claimant may still have under way.
    for late in [mine.renew(), doubt(&mine), Write::Clear] {
        let there = refused(swap(&store, &mine, Expect::HeldBy(mine.token), late).await).unwrap();
        assert_eq!(there.record.state, State::Completed(answer("first")));
    }
}

pub(super) async fn only_the_claimant_changes_a_live_claim(store: Subject) {
    let (mine, other) = (claim(1, 1), claim(1, 2));
    hold(&store, &mine).await;
    for expect in [Expect::HeldBy(other.token), Expect::Doubtful(other.token), Expect::Occupied(other.token)] {
        for write in [other.hold(), other.renew(), complete(&other, "x"), doubt(&other), Write::Clear] {
            let there = refused(swap(&store, &other, expect, write.clone()).await).unwrap();
            assert_eq!(there.record, mine.record(State::Claimed), "{expect:?} {write:?}");
        }
    }
    // It is not doubtful, whoever says so.
    for write in [other.hold(), complete(&other, "x"), doubt(&other), Write::Clear] {
        refused(swap(&store, &other, Expect::Doubtful(mine.token), write).await).unwrap();
    }
    done(swap(&store, &mine, Expect::HeldBy(mine.token), mine.renew()).await);
    assert_eq!(state(&store, &mine).await, Some(State::Claimed));
}

pub(super) async fn a_release_frees_the_cell(store: Subject) {
    let (mine, next) = (claim(1, 1), claim(1, 2));
    hold(&store, &mine).await;
    done(swap(&store, &mine, Expect::HeldBy(mine.token), Write::Clear).await);
    assert_eq!(state(&store, &mine).await, None);
    // Repeating it is refused by an empty cell, and does not touch who came next.
    assert_eq!(refused(swap(&store, &mine, Expect::HeldBy(mine.token), Write::Clear).await), None);
    hold(&store, &next).await;
    let there = refused(swap(&store, &mine, Expect::HeldBy(mine.token), Write::Clear).await).unwrap();
    assert_eq!(there.record.token, next.token);
}

pub(super) async fn a_completed_cell_is_emptied_by_an_operator_only(store: Subject) {
    let mine = claim(1, 1);
    hold(&store, &mine).await;
    done(swap(&store, &mine, Expect::HeldBy(mine.token), complete(&mine, "paid")).await);
    refused(swap(&store, &mine, Expect::HeldBy(mine.token), Write::Clear).await).unwrap();
    refused(swap(&store, &mine, Expect::Doubtful(mine.token), Write::Clear).await).unwrap();
    refused(swap(&store, &mine, Expect::Occupied(token(9)), Write::Clear).await).unwrap();
    for write in [mine.hold(), mine.renew(), complete(&mine, "x"), doubt(&mine)] {
        refused(swap(&store, &mine, Expect::Occupied(mine.token), write).await).unwrap();
    }
    done(swap(&store, &mine, Expect::Occupied(mine.token), Write::Clear).await);
    assert_eq!(state(&store, &mine).await, None);
}

pub(super) async fn a_doubt_is_kept_with_what_the_upstream_said(store: Subject) {
    let mine = claim(1, 1);
    hold(&store, &mine).await;
    let kept = StoredResponse { status: Some(StatusCode::BAD_GATEWAY), ..answer("upstream trouble") };
    let doubt = Doubt::UpstreamSaid(StatusCode::BAD_GATEWAY);
    let write = mine.settle(Settlement::Doubt { doubt, kept: Some(kept.clone()) });
    done(swap(&store, &mine, Expect::HeldBy(mine.token), write).await);
    let there = refused(swap(&store, &claim(1, 2), Expect::Absent, claim(1, 2).hold()).await).unwrap();
    assert_eq!(there.record, mine.record(State::Unknown { doubt, kept: Some(kept) }));
    assert!(there.is_doubtful());
}

pub(super) async fn a_renewal_does_not_revive_an_unknown(store: Subject) {
    let mine = claim(1, 1);
    unknown(&store, &mine).await;
    refused(swap(&store, &mine, Expect::HeldBy(mine.token), mine.renew()).await).unwrap();
    assert_eq!(state(&store, &mine).await, Some(State::Unknown { doubt: Doubt::AnswerLost, kept: None }));
}

pub(super) async fn a_late_answer_heals_an_unknown(store: Subject) {
    let mine = claim(1, 1);
    unknown(&store, &mine).await;
    done(swap(&store, &mine, Expect::HeldBy(mine.token), complete(&mine, "late")).await);
    assert_eq!(state(&store, &mine).await, Some(State::Completed(answer("late"))));
}

pub(super) async fn an_unknown_is_taken_over_and_its_old_claimant_fenced_out(store: Subject) {
    let (old, new) = (claim(1, 1), claim(1, 2));
    unknown(&store, &old).await;
    done(swap(&store, &new, Expect::Doubtful(old.token), new.hold()).await);
    for late in [old.renew(), complete(&old, "late"), doubt(&old), Write::Clear] {
        let there = refused(swap(&store, &old, Expect::HeldBy(old.token), late).await).unwrap();
        assert_eq!(there.record, new.record(State::Claimed));
    }
    // The next one does not get it again.
    refused(swap(&store, &claim(1, 3), Expect::Doubtful(old.token), claim(1, 3).hold()).await).unwrap();
    done(swap(&store, &new, Expect::HeldBy(new.token), complete(&new, "second")).await);
    assert_eq!(state(&store, &new).await, Some(State::Completed(answer("second"))));
}

pub(super) async fn a_doubt_is_not_covered_by_a_reader(store: Subject) {
    let mine = claim(1, 1);
    unknown(&store, &mine).await;
    let lapsed = Write::Doubt(mine.record(State::Claimed).lapsed());
    let there = refused(swap(&store, &mine, Expect::Doubtful(mine.token), lapsed).await).unwrap();
    assert_eq!(there.record.state, State::Unknown { doubt: Doubt::AnswerLost, kept: None });
}

pub(super) async fn what_the_store_forgot_is_written_again(store: Subject) {
    for (number, write, expected) in [
        (1, claim(1, 1).renew(), State::Claimed),
        (2, complete(&claim(2, 1), "paid"), State::Completed(answer("paid"))),
        (3, doubt(&claim(3, 1)), State::Unknown { doubt: Doubt::AnswerLost, kept: None }),
    ] {
        let mine = claim(number, 1);
        assert_eq!(swap(&store, &mine, Expect::HeldBy(mine.token), write).await.unwrap(), Swapped::Recreated);
        assert_eq!(state(&store, &mine).await, Some(expected));
    }
}

pub(super) async fn nothing_but_a_claim_or_its_claimant_fills_an_empty_cell(store: Subject) {
    let mine = claim(1, 1);
    let writes = || [mine.hold(), mine.renew(), complete(&mine, "x"), doubt(&mine), Write::Clear];
    for expect in [Expect::Doubtful(mine.token), Expect::Occupied(mine.token)] {
        for write in writes() {
            assert_eq!(refused(swap(&store, &mine, expect, write).await), None);
        }
    }
    for write in writes().into_iter().skip(1) {
        assert_eq!(refused(swap(&store, &mine, Expect::Absent, write).await), None);
    }
    assert_eq!(refused(swap(&store, &mine, Expect::HeldBy(mine.token), mine.hold()).await), None);
    assert_eq!(state(&store, &mine).await, None);
}

pub(super) async fn cells_are_independent(store: Subject) {
    for number in 0..40 {
        hold(&store, &claim(number, 1)).await;
    }
    for number in (0..40).step_by(2) {
        done(swap(&store, &claim(number, 1), Expect::HeldBy(token(1)), Write::Clear).await);
    }
    for number in 0..40 {
        let expected = (number % 2 == 1).then_some(State::Claimed);
        assert_eq!(state(&store, &claim(number, 1)).await, expected, "cell {number}");
    }
}

pub(super) async fn records_of_every_kind_come_back_as_they_were(store: Subject) {
    use oncegate::idempotency::NotKept;
    let not_kept = |why| StoredResponse { status: None, headers: Vec::new(), body: StoredBody::NotKept(why) };
    let unknown = |doubt| State::Unknown { doubt, kept: None };
    let states = [
        State::Completed(not_kept(NotKept::TooLarge)),
        State::Completed(not_kept(NotKept::Streamed)),
        State::Completed(not_kept(NotKept::Broken)),
        State::Completed(not_kept(NotKept::Resolved)),
        unknown(Doubt::AnswerLost),
        unknown(Doubt::UpstreamTimedOut),
        unknown(Doubt::UpstreamSaid(StatusCode::GATEWAY_TIMEOUT)),
        unknown(Doubt::ClaimLapsed),
        unknown(Doubt::Shutdown),
        unknown(Doubt::GateFailed),
    ];
    for (number, expected) in (0..).zip(states) {
        let mine = claim(number, 1);
        hold(&store, &mine).await;
        let record = mine.record(expected.clone());
        let write = match expected {
            State::Completed(_) => Write::Complete(record.clone()),
            State::Claimed | State::Unknown { .. } => Write::Doubt(record.clone()),
        };
        done(swap(&store, &mine, Expect::HeldBy(mine.token), write).await);
        assert_eq!(store.read(&mine.key).await.unwrap().unwrap().record, record);
    }
}

pub(super) async fn a_store_that_can_be_asked_says_so(store: Subject) {
    store.ping().await.unwrap();
}
