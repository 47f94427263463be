//! When a claim may still be relied on.

use std::{sync::Arc, time::Duration};

use super::*;
use crate::{
    idempotency::{CallerTag, ClaimToken, Fingerprint, RecordKey, RouteName, WallMillis},
    store::{self, Location, Settings},
};

const LEASE: Duration = Duration::from_secs(30);

fn won(asked: BootTime, straggler: bool) -> Won {
    let claim = Claim {
        key: RecordKey([1; 32]),
        token: ClaimToken([2; 16]),
        fingerprint: Fingerprint([3; 32]),
        caller: CallerTag([4; 32]),
        route: RouteName::from("r"),
        began: WallMillis(0),
        lease: LEASE,
        retention: 100 * LEASE,
    };
    Won { claim, asked, straggler }
}

async fn memory() -> Arc<dyn Store> {
    let settings = Settings {
        location: Location::Memory,
        namespace: "test".to_owned(),
        timeout: Duration::from_secs(5),
        allow_eviction: false,
    };
    store::open(&settings).await.unwrap()
}

/// The time that was `ago` before now.
fn before(ago: Duration) -> BootTime {
    BootTime::from_millis(BootTime::now().as_millis() - u64::try_from(ago.as_millis()).unwrap())
}

#[tokio::test]
async fn a_claim_is_relied_on_for_half_its_lease_and_not_longer() {
    let store = memory().await;
    let fresh = won(before(LEASE / 2 - Duration::from_secs(1)), false);
    assert!(Lease::new(&*store, &fresh).is_fresh());
    let stale = won(before(LEASE / 2), false);
    assert!(!Lease::new(&*store, &stale).is_fresh());
}

#[tokio::test]
async fn a_renewal_makes_a_claim_fresh_and_a_lost_one_does_not() {
    let store = memory().await;
    let stale = won(before(LEASE), false);
    store.swap(&stale.claim.key, Expect::Absent, stale.claim.hold()).await.unwrap();
    let lease = Lease::new(&*store, &stale);
    assert!(matches!(lease.renew().await, Renewal::Held));
    assert!(lease.is_fresh());

    let other = Won { claim: Claim { token: ClaimToken([9; 16]), ..stale.claim.clone() }, ..won(before(LEASE), false) };
    let lost = Lease::new(&*store, &other);
    assert!(matches!(lost.renew().await, Renewal::Lost));
    assert!(!lost.is_fresh());
}

#[tokio::test]
async fn an_unanswered_attempt_is_remembered_over_renewals() {
    let store = memory().await;
    let once = won(BootTime::now(), true);
    store.swap(&once.claim.key, Expect::Absent, once.claim.hold()).await.unwrap();
    let lease = Lease::new(&*store, &once);
    assert!(matches!(lease.renew().await, Renewal::Held));
    assert!(lease.may_have_straggler());
    assert!(!Lease::new(&*store, &won(BootTime::now(), false)).may_have_straggler());
}
