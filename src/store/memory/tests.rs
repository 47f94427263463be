//! What the contract suite cannot see: the sweep.

use std::time::Duration;

use super::*;
use crate::idempotency::{CallerTag, ClaimToken, Fingerprint, Record, RouteName, State, WallMillis};

fn at(millis: u64) -> StoreTime {
    StoreTime(Duration::from_millis(millis))
}

fn hold(retention: u64) -> Write {
    Write::Hold(Record {
        token: ClaimToken([1; 16]),
        fingerprint: Fingerprint([0; 32]),
        caller: CallerTag([0; 32]),
        lease: Duration::from_millis(10),
        retention: Duration::from_millis(retention),
        began: WallMillis(0),
        route: RouteName::from("r"),
        state: State::Claimed,
    })
}

fn key(number: u64) -> RecordKey {
    let mut key = [0; 32];
    key[24..].copy_from_slice(&number.to_be_bytes());
    RecordKey(key)
}

#[test]
fn expired_cells_are_forgotten_faster_than_new_ones_come() {
    let mut shard = Shard::default();
    for number in 0..100 {
        assert_eq!(shard.swap(&key(number), Expect::Absent, hold(100), at(0)), Swapped::Done);
    }
    for number in 100..150 {
        assert_eq!(shard.swap(&key(number), Expect::Absent, hold(100), at(100)), Swapped::Done);
    }
    assert_eq!(shard.cells.len(), 50);
    assert_eq!(shard.ends.len(), 50);
}

#[test]
fn a_cell_has_one_end_however_often_it_is_written() {
    let mut shard = Shard::default();
    let token = ClaimToken([1; 16]);
    assert_eq!(shard.swap(&key(1), Expect::Absent, hold(100), at(0)), Swapped::Done);
    let Write::Hold(record) = hold(50) else { panic!("not a hold") };
    assert_eq!(shard.swap(&key(1), Expect::HeldBy(token), Write::Renew(record), at(5)), Swapped::Done);
    assert_eq!(shard.ends.iter().collect::<Vec<_>>(), [&(at(55), key(1))]);
    assert!(matches!(shard.swap(&key(1), Expect::Absent, hold(100), at(6)), Swapped::Refused { occupant: Some(_) }));
    assert_eq!(shard.ends.len(), 1);
    assert_eq!(shard.swap(&key(1), Expect::HeldBy(token), Write::Clear, at(7)), Swapped::Done);
    assert!(shard.ends.is_empty() && shard.cells.is_empty());
}

#[test]
fn looking_at_a_cell_that_is_not_there_leaves_nothing_behind() {
    let mut shard = Shard::default();
    let token = ClaimToken([1; 16]);
    let refused = shard.swap(&key(1), Expect::HeldBy(token), Write::Clear, at(0));
    assert_eq!(refused, Swapped::Refused { occupant: None });
    assert!(shard.ends.is_empty() && shard.cells.is_empty());
}
