//! What time does to a cell: lapse, expiry, and what keeps it up.

use std::sync::Arc;

use oncegate::idempotency::State;

use super::*;

mount! { expiry:
    a_lapsed_claim_is_doubtful_and_not_free,
    a_lapsed_claim_is_still_completed_by_its_claimant,
    a_lapsed_claim_is_not_renewed,
    a_renewed_claim_does_not_lapse,
    a_claim_that_lapsed_is_written_down_as_unknown_once,
    a_record_is_gone_when_its_retention_ends,
    a_look_at_a_record_does_not_keep_it,
    a_repeated_completion_does_not_keep_a_record,
    a_completion_begins_its_own_retention,
}

type Subject = Arc<dyn Store>;

/// Lapses before a test can look twice.
fn brief(number: u64, by: u8) -> Claim {
    Claim { lease: Duration::from_millis(1), ..claim(number, by) }
}

/// Waits until the claim is seen to have lapsed.
async fn lapse(store: &Subject, claim: &Claim) {
    until(async || store.read(&claim.key).await.unwrap().filter(Occupant::is_doubtful)).await;
}

pub(super) async fn a_lapsed_claim_is_doubtful_and_not_free(store: Subject) {
    let (old, new) = (brief(1, 1), claim(1, 2));
    done(store.swap(&old.key, Expect::Absent, old.hold()).await);
    lapse(&store, &old).await;
    let there = refused(store.swap(&new.key, Expect::Absent, new.hold()).await).unwrap();
    assert_eq!(there.record, old.record(State::Claimed));
    assert!(there.is_doubtful());
    done(store.swap(&new.key, Expect::Doubtful(old.token), new.hold()).await);
    refused(store.swap(&old.key, Expect::HeldBy(old.token), complete(&old, "late")).await).unwrap();
}

pub(super) async fn a_lapsed_claim_is_still_completed_by_its_claimant(store: Subject) {
    let mine = brief(1, 1);
    done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
    lapse(&store, &mine).await;
    done(store.swap(&mine.key, Expect::HeldBy(mine.token), complete(&mine, "late")).await);
    let there = store.read(&mine.key).await.unwrap().unwrap();
    assert_eq!(there.record.state, State::Completed(answer("late")));
    assert!(!there.is_doubtful());
}

pub(super) async fn a_lapsed_claim_is_not_renewed(store: Subject) {
    let mine = brief(1, 1);
    done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
    lapse(&store, &mine).await;
    assert!(refused(store.swap(&mine.key, Expect::HeldBy(mine.token), mine.renew()).await).unwrap().is_doubtful());
}

pub(super) async fn a_renewed_claim_does_not_lapse(store: Subject) {
    // Each renewal comes well within the lease; together they are far longer than it.
    let lease = Duration::from_millis(400);
    let mine = Claim { lease, ..claim(1, 1) };
    done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
    let began = std::time::Instant::now();
    while began.elapsed() < 2 * lease {
        tokio::time::sleep(lease / 20).await;
        done(store.swap(&mine.key, Expect::HeldBy(mine.token), mine.renew()).await);
    }
    assert!(!store.read(&mine.key).await.unwrap().unwrap().is_doubtful());
}

pub(super) async fn a_claim_that_lapsed_is_written_down_as_unknown_once(store: Subject) {
    let mine = brief(1, 1);
    done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
    lapse(&store, &mine).await;
    let declare = || Write::Doubt(mine.record(State::Claimed).lapsed());
    done(store.swap(&mine.key, Expect::Doubtful(mine.token), declare()).await);
    let there = refused(store.swap(&mine.key, Expect::Doubtful(mine.token), declare()).await).unwrap();
    assert_eq!(there.record.state, State::Unknown { doubt: Doubt::ClaimLapsed, kept: None });
}

pub(super) async fn a_record_is_gone_when_its_retention_ends(store: Subject) {
    for number in 1..=3 {
        let mine = Claim { retention: Duration::from_millis(500), ..claim(number, 1) };
        done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
        // On a machine that stands still for so long, the claim is gone already, and is created again.
        let in_time = |swapped| assert!(matches!(swapped, Ok(Swapped::Done | Swapped::Recreated)), "{swapped:?}");
        match number {
            1 => {}
            2 => in_time(store.swap(&mine.key, Expect::HeldBy(mine.token), complete(&mine, "paid")).await),
            _ => in_time(store.swap(&mine.key, Expect::HeldBy(mine.token), doubt(&mine)).await),
        }
        until(async || store.read(&mine.key).await.unwrap().is_none().then_some(())).await;
        let next = claim(number, 2);
        done(store.swap(&next.key, Expect::Absent, next.hold()).await);
        assert_eq!(store.read(&next.key).await.unwrap().unwrap().record, next.record(State::Claimed));
    }
}

/// Claims and completes with a retention, then asks for it over and over, by a swap: it must end all the same.
///
/// `ask` says whether it still met the record. If it did not, the machine stood still for too long to tell anything,
/// and the next attempt takes more time.
async fn is_not_kept_by(store: Subject, ask: impl AsyncFn(&Subject, &Claim) -> bool) {
    'attempts: for number in 0..8 {
        let retention = Duration::from_millis(150 << number);
        let mine = Claim { retention, ..claim(number, 1) };
        done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
        if store.swap(&mine.key, Expect::HeldBy(mine.token), complete(&mine, "paid")).await.unwrap() != Swapped::Done {
            continue;
        }
        let completed = tokio::time::Instant::now();
        while completed.elapsed() < retention / 2 {
            if !ask(&store, &mine).await {
                continue 'attempts;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Had the last look kept it, it would be there for half a retention more.
        tokio::time::sleep_until(completed + retention + Duration::from_millis(20)).await;
        assert_eq!(store.read(&mine.key).await.unwrap(), None);
        return;
    }
    panic!("the machine is too slow for this test");
}

pub(super) async fn a_look_at_a_record_does_not_keep_it(store: Subject) {
    is_not_kept_by(store, async |store, mine| {
        let other = Claim { key: mine.key, ..claim(99, 2) };
        matches!(store.swap(&mine.key, Expect::Absent, other.hold()).await, Ok(Swapped::Refused { occupant: Some(_) }))
    })
    .await;
}

pub(super) async fn a_repeated_completion_does_not_keep_a_record(store: Subject) {
    is_not_kept_by(store, async |store, mine| {
        let again = store.swap(&mine.key, Expect::HeldBy(mine.token), complete(mine, "paid")).await;
        again.unwrap() == Swapped::Done
    })
    .await;
}

pub(super) async fn a_completion_begins_its_own_retention(store: Subject) {
    let brief = Claim { retention: Duration::from_millis(200), ..claim(1, 1) };
    let long = claim(1, 1);
    done(store.swap(&brief.key, Expect::Absent, brief.hold()).await);
    let began = std::time::Instant::now();
    // If the machine stood still for so long that the claim is gone, the completion has created it again.
    let swapped = store.swap(&long.key, Expect::HeldBy(long.token), complete(&long, "paid")).await.unwrap();
    assert!(matches!(swapped, Swapped::Done | Swapped::Recreated));
    while began.elapsed() < Duration::from_millis(300) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let there = store.read(&long.key).await.unwrap().unwrap();
    assert_eq!(there.record.state, State::Completed(answer("paid")));
}
