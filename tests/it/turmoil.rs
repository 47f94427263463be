//! Everything at once: two gates, one Redis, connections that break at moments a fixed sequence draws, gates that are
//! frozen, an upstream that loses answers, clients that retry. Whatever they see, no operation runs twice.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::harness::{
    chaos::Chaos,
    client::{Req, parallel},
    gate::{Gate, GateBuilder},
    redis::RedisServer,
    sync::Watched,
    upstream::{Script, Upstream},
    wire::DEADLINE,
};

const CLIENTS: usize = 6;
const KEYS: usize = 24;

/// xorshift64: the same sequence in every run, unless `ONCEGATE_TURMOIL_SEED` (a number) asks for another one.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        let chosen = std::env::var("ONCEGATE_TURMOIL_SEED").map_or(0, |seed| seed.parse::<u64>().unwrap());
        Self(seed ^ chosen.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below as u64).unwrap()
    }
}

/// Executes after a moment. Of twelve answers one is lost, and one says that nothing was done.
fn capricious() -> Script {
    let asked = AtomicUsize::new(0);
    Script::on_request(move |exchange| {
        let number = asked.fetch_add(1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis((number as u64 * 7) % 23));
        match number % 12 {
            3 => {
                exchange.execute();
                exchange.close();
            }
            7 => exchange.answer(429, &[("Retry-After", "1")], b""),
            _ => {
                exchange.execute();
                let body = format!("{} was request {number}", exchange.request.value("idempotency-key").unwrap());
                exchange.answer(201, &[], body.as_bytes());
            }
        }
    })
}

/// Breaks something, waits a moment, mends it; until told to stop.
fn gremlin(chaos: &[Chaos; 2], gates: &[Gate; 2], stop: &Watched<bool>) {
    let mut random = Random::new(0x2545_f491_4f6c_dd1d);
    let pause =
        |millis: usize| stop.wait_for(Duration::from_millis(millis as u64), |stop| stop.then_some(())).is_some();
    loop {
        let which = random.below(2);
        let network = &chaos[which];
        let ended = match random.below(7) {
            0 => {
                network.cut();
                pause(20 + random.below(150))
            }
            1 => {
                network.stall_replies();
                pause(20 + random.below(700))
            }
            2 => {
                network.stall_requests();
                pause(20 + random.below(700))
            }
            3 => {
                network.lose_reply_to(b"SET");
                pause(30)
            }
            4 => {
                network.lose_reply_to(b"EVAL");
                pause(30)
            }
            5 => {
                network.stall_replies();
                let ended = pause(60);
                network.cut();
                ended
            }
            _ => {
                gates[which].sigstop();
                let ended = pause([50, 300, 700, 1300][random.below(4)]);
                gates[which].sigcont();
                ended
            }
        };
        network.restore();
        if ended || pause(random.below(60)) {
            return;
        }
    }
}

/// Retries until the answer is there or nobody will ever know; `None` for the latter.
fn persist(gates: &[Gate; 2], key: &str, random: &mut Random) -> Option<String> {
    let request = Req::pay(key);
    let end = Instant::now() + DEADLINE;
    loop {
        let answer = gates[random.below(2)].send(&request);
        match (answer.status, answer.slug().as_str(), answer.idempotency()) {
            (201, "", "executed" | "replayed" | "unrecorded") => return Some(answer.text()),
            // To this client the outcome is unknown; the late truth may still be written.
            (409 | 502, "outcome-unknown", "unknown") => return None,
            (409, "in-progress", "in-progress") | (429, "", "released" | "unrecorded") => {}
            (503, "store-unavailable", "not-executed") => {}
            other => panic!("{key}: {other:?}"),
        }
        assert!(Instant::now() < end, "{key} is never settled; last {:?}", answer.verdict());
        thread::sleep(Duration::from_millis(5 + random.below(20) as u64));
    }
}

#[test]
fn in_all_the_turmoil_no_operation_runs_twice_and_all_answers_are_the_same() {
    let redis = RedisServer::start();
    let chaos = [0, 1].map(|_| Chaos::before(redis.address()));
    let upstream = Upstream::start(capricious());
    let gate = |chaos: &Chaos| -> GateBuilder {
        Gate::before(&upstream)
            .store(&format!("redis://{}/0", chaos.address()))
            .set("store", "timeout = \"100ms\"")
            .defaults("lease = \"1s\"")
    };
    let gates = [gate(&chaos[0]).start(), gate(&chaos[1]).start()];
    let stop = Watched::new(false);
    let seen: Vec<Vec<Option<String>>> = thread::scope(|scope| {
        let breaking = scope.spawn(|| gremlin(&chaos, &gates, &stop));
        let seen = parallel(CLIENTS, |client| {
            let mut random = Random::new(0x5851_f42d_4c95_7f2d ^ (client as u64 + 1));
            (0..KEYS).map(|key| persist(&gates, &format!("k{key}"), &mut random)).collect()
        });
        stop.update(|stop| *stop = true);
        breaking.join().unwrap();
        seen
    });
    let mut known = 0;
    for key in 0..KEYS {
        let name = format!("k{key}");
        assert!(upstream.executions(&name) <= 1, "{name} was executed {} times", upstream.executions(&name));
        let answers: HashSet<&String> = seen.iter().filter_map(|client| client[key].as_ref()).collect();
        assert!(answers.len() <= 1, "{name} has several answers: {answers:?}");
        known += answers.len();
        assert!(answers.is_empty() || upstream.executions(&name) == 1);
        // When all is quiet, both gates repeat it: what was given out unrecorded is recorded by then.
        if let Some(answer) = answers.iter().next() {
            for gate in &gates {
                gate.wait_until(&format!("{name} is replayed"), || gate.send(&Req::pay(&name)).text() == **answer);
            }
        }
    }
    assert!(known >= KEYS / 2, "only {known} of {KEYS} operations have a known answer: the test proves little");
}
