//! Who waits, who is turned away, who is woken.

use std::time::Duration;

use tokio::time::Instant;

use super::*;

const KEY: RecordKey = RecordKey([1; 32]);
const OTHER: RecordKey = RecordKey([2; 32]);

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

#[tokio::test(start_paused = true)]
async fn a_landing_flight_wakes_a_waiter_that_does_not_listen_yet() {
    let waiters = Waiters::default();
    let flight = waiters.take_off(KEY);
    let mut waiter = waiters.enlist(KEY, 1, 1).unwrap();
    drop(flight);
    let before = Instant::now();
    assert!(waiter.changed(soon(), 0).await);
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_runs_here_is_not_polled() {
    let waiters = Waiters::default();
    let _flight = waiters.take_off(KEY);
    let mut waiter = waiters.enlist(KEY, 1, 1).unwrap();
    let before = Instant::now();
    assert!(waiter.changed(soon(), 0).await);
    assert_eq!(before.elapsed().as_secs(), 5, "it slept until its deadline");
    assert!(!waiter.changed(before, 0).await);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_runs_elsewhere_is_looked_at_ever_more_rarely() {
    let waiters = Waiters::default();
    let mut waiter = waiters.enlist(KEY, 1, 1).unwrap();
    let mut looks = Vec::new();
    for round in 0..6 {
        let before = Instant::now();
        assert!(waiter.changed(soon(), round).await);
        looks.push(before.elapsed().as_millis());
    }
    assert_eq!(looks, [50, 100, 200, 400, 800, 800]);
}

#[test]
fn the_surplus_is_turned_away_and_places_are_given_back() {
    let waiters = Waiters::default();
    let first = waiters.enlist(KEY, 2, 3).unwrap();
    let _second = waiters.enlist(KEY, 2, 3).unwrap();
    assert!(waiters.enlist(KEY, 2, 3).is_none(), "two per key");
    let _third = waiters.enlist(OTHER, 2, 3).unwrap();
    assert!(waiters.enlist(OTHER, 2, 3).is_none(), "three in all");
    drop(first);
    assert!(waiters.enlist(OTHER, 2, 3).is_some());
}

#[test]
fn nothing_is_remembered_of_keys_that_nobody_waits_for() {
    let waiters = Waiters::default();
    drop(waiters.take_off(KEY));
    drop(waiters.enlist(KEY, 1, 1));
    assert!(waiters.enlist(KEY, 0, 1).is_none());
    assert!(waiters.keys.lock().unwrap().is_empty());
}
