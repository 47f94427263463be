//! Random sequences of swaps: every store answers as the pure cell does.
//!
//! Each step is a few milliseconds after the one before, and an hour later for the oracle. A lease or a retention is
//! either a millisecond, and over by the next step, or a thousand hours: so both clocks agree without being equal.

use std::{collections::HashMap, sync::Arc};

use oncegate::idempotency::{Cell, Record, State, StoreTime};

use super::*;

mount! { oracle:
    random_swaps_are_answered_as_the_cell_answers_them,
}

const STEPS: u32 = 300;
/// Real time between two steps: more than one millisecond by any clock with milliseconds.
const PACE: Duration = Duration::from_millis(3);

/// A small generator (xorshift64*): a failure is repeated by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    fn record(&mut self, number: u64, by: u8) -> Claim {
        let brief = Duration::from_millis(1);
        let mut claim = claim(number, by);
        claim.lease = if self.chance(3) { brief } else { 1000 * HOUR };
        claim.retention = if self.chance(12) { brief } else { 1000 * HOUR };
        claim
    }

    fn swap(&mut self, step: u32) -> (RecordKey, Expect, Write) {
        // Cells end up completed and stay so: once in a while there are new ones.
        let number = u64::from(step / 20) * 3 + self.below(3);
        let by = u8::try_from(self.below(3)).unwrap() + 1;
        let claim = self.record(number, by);
        // The token expected is mostly the writer's own, sometimes another's: both happen in life.
        let expected = if self.chance(3) { token(u8::try_from(self.below(3)).unwrap() + 1) } else { claim.token };
        let expect = match self.below(8) {
            0 | 1 => Expect::Absent,
            2..=4 => Expect::HeldBy(expected),
            5 | 6 => Expect::Doubtful(expected),
            _ => Expect::Occupied(expected),
        };
        let write = match self.below(10) {
            0..=3 => claim.hold(),
            4 | 5 => claim.renew(),
            6 => complete(&claim, self.below(1000).to_string()),
            7 | 8 => doubt(&claim),
            _ => Write::Clear,
        };
        (claim.key, expect, write)
    }
}

/// What two answers must agree in. How long ago something was is not among it.
fn gist(swapped: &Swapped) -> (&'static str, Option<(&Record, bool)>) {
    match swapped {
        Swapped::Done => ("done", None),
        Swapped::Recreated => ("recreated", None),
        Swapped::Refused { occupant } => {
            // A completed record is final, and a store need not say how old it is.
            ("refused", occupant.as_ref().map(|occupant| (&occupant.record, occupant.is_doubtful())))
        }
    }
}

pub(super) async fn random_swaps_are_answered_as_the_cell_answers_them(store: Arc<dyn Store>) {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
    println!("seed: {seed}");
    let mut random = Random(seed);
    let mut cells: HashMap<RecordKey, Cell> = HashMap::new();
    let mut seen = [0u32; 6];
    for step in 0..STEPS {
        let now = StoreTime(HOUR * (step + 1));
        let (key, expect, write) = random.swap(step);
        let expected = cells.entry(key).or_default().swap(expect, write.clone(), now);
        let found = store.swap(&key, expect, write.clone()).await.unwrap();
        assert_eq!(gist(&found), gist(&expected), "step {step} of seed {seed}: {expect:?} {write:?}");
        seen[match &expected {
            Swapped::Done => 0,
            Swapped::Recreated => 1,
            Swapped::Refused { occupant: None } => 2,
            Swapped::Refused { occupant: Some(occupant) } => match occupant.record.state {
                State::Claimed => 3,
                State::Completed(_) => 4,
                State::Unknown { .. } => 5,
            },
        }] += 1;
        tokio::time::sleep(PACE).await;
        let later = StoreTime(now.0 + HOUR / 2);
        let there = store.read(&key).await.unwrap();
        let expected = cells[&key].occupant(later);
        assert_eq!(
            there.as_ref().map(|there| (&there.record, there.is_doubtful())),
            expected.as_ref().map(|there| (&there.record, there.is_doubtful())),
            "after step {step} of seed {seed}: {expect:?} {write:?}"
        );
    }
    assert!(seen.iter().all(|&count| count > 0), "seed {seed} shows too little: {seen:?}");
}
