//! Many at once: exactly one wins, whatever they race for.

use std::sync::Arc;

use oncegate::idempotency::State;
use tokio::{sync::Barrier, task::JoinSet};

use super::*;

mount! { contention:
    of_fifty_bids_exactly_one_wins,
    of_fifty_take_overs_exactly_one_wins,
    a_completion_and_a_take_over_do_not_both_win,
    many_cells_at_once_lose_nothing,
}

type Subject = Arc<dyn Store>;

const BIDDERS: u8 = 50;
const ROUNDS: u64 = 10;

/// Starts all swaps at one moment; the outcome of each, with its token's number.
async fn race(store: &Subject, swaps: Vec<(RecordKey, Expect, Write)>) -> Vec<Swapped> {
    let start = Arc::new(Barrier::new(swaps.len()));
    let mut racing = JoinSet::new();
    for (index, (key, expect, write)) in swaps.into_iter().enumerate() {
        let (store, start) = (Arc::clone(store), Arc::clone(&start));
        racing.spawn(async move {
            start.wait().await;
            (index, store.swap(&key, expect, write).await.unwrap())
        });
    }
    let mut outcomes = racing.join_all().await;
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, swapped)| swapped).collect()
}

/// The one that won; everyone else met its claim.
#[track_caller]
fn only_winner(number: u64, outcomes: &[Swapped]) -> Claim {
    let winners: Vec<usize> = (0..outcomes.len()).filter(|&index| outcomes[index] == Swapped::Done).collect();
    assert_eq!(winners.len(), 1, "{outcomes:?}");
    let winner = claim(number, u8::try_from(winners[0]).unwrap() + 1);
    for swapped in outcomes.iter().filter(|swapped| **swapped != Swapped::Done) {
        let Swapped::Refused { occupant: Some(occupant) } = swapped else { panic!("{swapped:?}") };
        assert_eq!(occupant.record, winner.record(State::Claimed));
    }
    winner
}

pub(super) async fn of_fifty_bids_exactly_one_wins(store: Subject) {
    for number in 0..ROUNDS {
        let bids = (1..=BIDDERS).map(|by| (key(number), Expect::Absent, claim(number, by).hold())).collect();
        let winner = only_winner(number, &race(&store, bids).await);
        assert_eq!(store.read(&key(number)).await.unwrap().unwrap().record, winner.record(State::Claimed));
    }
}

pub(super) async fn of_fifty_take_overs_exactly_one_wins(store: Subject) {
    for number in 0..ROUNDS {
        let old = claim(number, 200);
        done(store.swap(&old.key, Expect::Absent, old.hold()).await);
        done(store.swap(&old.key, Expect::HeldBy(old.token), doubt(&old)).await);
        let bids =
            (1..=BIDDERS).map(|by| (key(number), Expect::Doubtful(old.token), claim(number, by).hold())).collect();
        only_winner(number, &race(&store, bids).await);
    }
}

pub(super) async fn a_completion_and_a_take_over_do_not_both_win(store: Subject) {
    for number in 0..ROUNDS * 2 {
        let (old, new) = (claim(number, 1), claim(number, 2));
        done(store.swap(&old.key, Expect::Absent, old.hold()).await);
        done(store.swap(&old.key, Expect::HeldBy(old.token), doubt(&old)).await);
        let swaps = vec![
            (old.key, Expect::HeldBy(old.token), complete(&old, "late")),
            (old.key, Expect::Doubtful(old.token), new.hold()),
        ];
        let outcomes = race(&store, swaps).await;
        let there = store.read(&old.key).await.unwrap().unwrap().record;
        match (&outcomes[0], &outcomes[1]) {
            (Swapped::Done, Swapped::Refused { .. }) => assert_eq!(there.state, State::Completed(answer("late"))),
            (Swapped::Refused { .. }, Swapped::Done) => assert_eq!(there, new.record(State::Claimed)),
            both => panic!("{both:?}"),
        }
    }
}

pub(super) async fn many_cells_at_once_lose_nothing(store: Subject) {
    const CELLS: u64 = 600;
    let claims = (0..CELLS).map(|number| (key(number), Expect::Absent, claim(number, 1).hold())).collect();
    assert!(race(&store, claims).await.iter().all(|swapped| *swapped == Swapped::Done));
    let completions = (0..CELLS)
        .map(|number| {
            let mine = claim(number, 1);
            (key(number), Expect::HeldBy(mine.token), complete(&mine, number.to_string()))
        })
        .collect();
    assert!(race(&store, completions).await.iter().all(|swapped| *swapped == Swapped::Done));
    for number in 0..CELLS {
        let there = store.read(&key(number)).await.unwrap().unwrap();
        assert_eq!(there.record.state, State::Completed(answer(number.to_string())), "cell {number}");
    }
}
