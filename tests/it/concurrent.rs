//! Many at once: one executes, the others are told so.

use std::sync::Arc;

use crate::harness::{
    backend::{Backend, each_store},
    client::{Client, Req, parallel},
    gate::Gate,
    redis::RedisServer,
    sync::{Latch, Watched},
    upstream::{Script, Upstream},
    wire::DEADLINE,
};

each_store! {
    of_fifty_at_once_one_executes => fifty_at_once;
    different_keys_do_not_wait_for_each_other => different_keys;
}

fn fifty_at_once(backend: &Backend) {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        held.wait();
        exchange.pay();
    }));
    let gate = backend.gate(&upstream).start();
    let refused = Watched::new(0);
    let answers = parallel(51, |index| {
        if index == 50 {
            // Opens when all the others have been told that one of them is at work.
            let all = refused.wait_for(DEADLINE, |count| (*count == 49).then_some(()));
            latch.open();
            all.expect("49 are refused while one executes");
            return None;
        }
        let answer = gate.send(&Req::pay("k1"));
        refused.update(|count| *count += usize::from(answer.status == 409));
        Some(answer)
    });
    let answers: Vec<_> = answers.into_iter().flatten().collect();
    let winners: Vec<_> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert_eq!(winners.len(), 1);
    winners[0].expect(201, "", "executed");
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        answer.expect(409, "in-progress", "in-progress");
        let seconds: u32 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=30).contains(&seconds));
    }
    assert_eq!(upstream.executions("k1"), 1);
    gate.send(&Req::pay("k1")).expect(201, "", "replayed");
}

fn different_keys(backend: &Backend) {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        if exchange.request.value("idempotency-key") == Some("\"slow\"") {
            held.wait();
        }
        exchange.pay();
    }));
    let gate = backend.gate(&upstream).start();
    let mut slow = Req::pay("slow").begin(gate.address());
    upstream.wait_requests(1);
    let answers = parallel(20, |index| gate.send(&Req::pay(&format!("k{index}"))).verdict());
    assert!(answers.iter().all(|verdict| verdict == &(201, String::new(), "executed".to_owned())), "{answers:?}");
    latch.open();
    slow.response().expect(201, "", "executed");
    assert_eq!(upstream.executions_total(), 21);
}

/// 200 rounds of 50 identical requests over two gates on one Redis. The upstream answers only when 49 of the 50
/// have been refused: by then all 50 have reached a gate.
#[test]
fn two_hundred_rounds_of_fifty_over_two_gates_are_two_hundred_executions() {
    const ROUNDS: usize = 200;
    const CLIENTS: usize = 50;
    let redis = RedisServer::start();
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        held.wait();
        exchange.pay();
    }));
    let gates = [0, 1].map(|_| Gate::before(&upstream).store(&redis.url()).start());
    /// (executed, refused) of the round.
    type Round = (usize, usize);
    let rounds: Arc<Vec<Watched<Round>>> = Arc::new((0..ROUNDS).map(|_| Watched::default()).collect());
    let replays = parallel(CLIENTS + 1, |index| {
        if index == CLIENTS {
            for (number, round) in rounds.iter().enumerate() {
                let refused = round.wait_for(DEADLINE, |(_, refused)| (*refused == CLIENTS - 1).then_some(()));
                if refused.is_none() {
                    latch.open();
                    panic!("round {number}: {:?} (executed, refused)", *round.lock());
                }
                latch.pass_one();
            }
            return 0;
        }
        let mut client = Client::connect(gates[index % 2].address());
        let mut replays = 0;
        for (number, round) in rounds.iter().enumerate() {
            let request = Req::pay(&format!("round-{number}"));
            let answer = client.expect_usable(&request);
            match answer.status {
                201 => {
                    answer.expect(201, "", "executed");
                    round.update(|(executed, _)| *executed += 1);
                }
                409 => {
                    answer.expect(409, "in-progress", "in-progress");
                    round.update(|(_, refused)| *refused += 1);
                }
                other => panic!("round {number}: {other}"),
            }
            // The next round begins when this one is over for everyone.
            round.wait_for(DEADLINE, |&mut (executed, refused)| (executed + refused == CLIENTS).then_some(())).unwrap();
            if index == number % CLIENTS {
                client.expect_usable(&request).expect(201, "", "replayed");
                replays += 1;
            }
        }
        replays
    });
    assert_eq!(replays.iter().sum::<usize>(), ROUNDS);
    for round in rounds.iter() {
        assert_eq!(*round.lock(), (1, CLIENTS - 1));
    }
    assert_eq!(upstream.executions_total(), ROUNDS);
    for number in 0..ROUNDS {
        assert_eq!(upstream.executions(&format!("round-{number}")), 1);
    }
}
