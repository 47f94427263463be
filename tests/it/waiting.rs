//! `in_flight = "wait"`: duplicates wait for the first and get its answer.

use std::time::{Duration, Instant};

use crate::harness::{
    backend::{Backend, each_store},
    client::{Req, parallel},
    gate::{Gate, GateBuilder},
    redis::RedisServer,
    sync::Latch,
    upstream::{Script, Upstream},
};

each_store! {
    waiting_duplicates_get_the_answer_of_the_first => woken;
    a_waiter_gets_what_a_retry_would_get_when_the_first_fails => woken_by_failure;
}

fn waiting(builder: GateBuilder) -> GateBuilder {
    builder.defaults("in_flight = \"wait\"").defaults("wait_timeout = \"10s\"")
}

fn held_upstream() -> (Upstream, Latch) {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        held.wait();
        exchange.pay();
    }));
    (upstream, latch)
}

fn woken(backend: &Backend) {
    let (upstream, latch) = held_upstream();
    let gate = waiting(backend.gate(&upstream)).start();
    let mut first = Req::pay("k1").begin(gate.address());
    upstream.wait_requests(1);
    let mut waiters: Vec<_> = (0..10).map(|_| Req::pay("k1").begin(gate.address())).collect();
    for waiter in &mut waiters {
        assert!(waiter.is_silent_for(Duration::from_millis(10)), "a duplicate waits");
    }
    latch.open();
    first.response().expect(201, "", "executed");
    let began = Instant::now();
    for waiter in &mut waiters {
        let answer = waiter.response();
        answer.expect(201, "", "replayed");
        assert_eq!(answer.text(), "{\"paid\":1}");
    }
    assert!(began.elapsed() < Duration::from_millis(900), "woken, not polling: {:?}", began.elapsed());
    assert_eq!(upstream.executions("k1"), 1);
}

fn woken_by_failure(backend: &Backend) {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        exchange.execute();
        held.wait();
        exchange.close();
    }));
    let gate = waiting(backend.gate(&upstream)).start();
    let mut first = Req::pay("k1").begin(gate.address());
    upstream.wait_executions(1);
    let mut waiter = Req::pay("k1").begin(gate.address());
    assert!(waiter.is_silent_for(Duration::from_millis(30)));
    latch.open();
    first.response().expect(502, "outcome-unknown", "unknown");
    waiter.response().expect(409, "outcome-unknown", "unknown");
    assert_eq!(upstream.executions("k1"), 1);

    // A release lets exactly one of the waiters execute.
    let latch = Latch::new();
    let held = latch.clone();
    upstream.set(Script::on_request(move |exchange| {
        if exchange.execute() == 1 {
            held.wait();
            exchange.answer(429, &[], b"");
        } else {
            exchange.answer(201, &[], b"paid");
        }
    }));
    let mut first = Req::pay("k2").begin(gate.address());
    upstream.wait_executions(2);
    let mut waiters: Vec<_> = (0..5).map(|_| Req::pay("k2").begin(gate.address())).collect();
    assert!(waiters[4].is_silent_for(Duration::from_millis(30)));
    latch.open();
    first.response().expect(429, "", "released");
    let mut verdicts: Vec<_> = waiters.iter_mut().map(|waiter| waiter.response().verdict().2).collect();
    verdicts.sort();
    assert_eq!(verdicts, ["executed", "replayed", "replayed", "replayed", "replayed"]);
    assert_eq!(upstream.executions("k2"), 2);
}

#[test]
fn a_waiter_out_of_patience_is_told_that_the_first_still_runs() {
    let (upstream, latch) = held_upstream();
    let gate = waiting(Gate::before(&upstream)).defaults("wait_timeout = \"200ms\"").start();
    let mut first = Req::pay("k1").begin(gate.address());
    upstream.wait_requests(1);
    let began = Instant::now();
    gate.send(&Req::pay("k1")).expect(409, "in-progress", "in-progress");
    assert!(began.elapsed() >= Duration::from_millis(200));
    latch.open();
    first.response().expect(201, "", "executed");
}

#[test]
fn a_mismatch_does_not_wait() {
    let (upstream, latch) = held_upstream();
    let gate = waiting(Gate::before(&upstream)).start();
    let mut first = Req::pay("k1").begin(gate.address());
    upstream.wait_requests(1);
    gate.send(&Req::pay("k1").body("{}")).expect(422, "key-reused", "mismatch");
    latch.open();
    first.response().expect(201, "", "executed");
}

#[test]
fn the_surplus_of_one_key_is_refused_at_once() {
    let (upstream, latch) = held_upstream();
    let gate = waiting(Gate::before(&upstream)).set("limits", "waiters_per_key = 3").start();
    surplus(&gate, &upstream, &latch, 3);
}

#[test]
fn the_surplus_of_the_gate_is_refused_at_once() {
    let (upstream, latch) = held_upstream();
    let gate = waiting(Gate::before(&upstream)).set("limits", "waiters = 4").start();
    surplus(&gate, &upstream, &latch, 4);
}

fn surplus(gate: &Gate, upstream: &Upstream, latch: &Latch, places: usize) {
    let mut first = Req::pay("k1").begin(gate.address());
    upstream.wait_requests(1);
    // All but `places` of them are answered while the first still runs.
    let mut waiting: Vec<_> = (0..places + 5).map(|_| Req::pay("k1").begin(gate.address())).collect();
    let mut refused = 0;
    gate.wait_until("the surplus is refused", || {
        waiting.retain_mut(|client| {
            let silent = client.is_silent_for(Duration::from_millis(5));
            if !silent {
                client.response().expect(409, "in-progress", "in-progress");
                refused += 1;
            }
            silent
        });
        refused >= 5
    });
    assert!(waiting[0].is_silent_for(Duration::from_millis(100)), "the others wait");
    assert_eq!((waiting.len(), refused), (places, 5));
    latch.open();
    first.response().expect(201, "", "executed");
    for client in &mut waiting {
        client.response().expect(201, "", "replayed");
    }
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn a_waiter_that_leaves_gives_its_place_back() {
    let (upstream, latch) = held_upstream();
    let gate = waiting(Gate::before(&upstream)).set("limits", "waiters_per_key = 1").start();
    let mut first = Req::pay("k1").begin(gate.address());
    upstream.wait_requests(1);
    let mut leaving = Req::pay("k1").begin(gate.address());
    assert!(leaving.is_silent_for(Duration::from_millis(50)), "it waits");
    gate.send(&Req::pay("k1")).expect(409, "in-progress", "in-progress");
    leaving.reset();
    let mut waiter = Req::pay("k1").begin(gate.address());
    gate.wait_until("the place is free", || {
        if waiter.is_silent_for(Duration::from_millis(50)) {
            return true;
        }
        waiter = Req::pay("k1").begin(gate.address());
        false
    });
    latch.open();
    first.response().expect(201, "", "executed");
    waiter.response().expect(201, "", "replayed");
}

#[test]
fn a_waiter_at_another_gate_gets_the_answer_too() {
    let redis = RedisServer::start();
    let (upstream, latch) = held_upstream();
    let gates = [0, 1].map(|_| waiting(Gate::before(&upstream).store(&redis.url())).start());
    let mut first = Req::pay("k1").begin(gates[0].address());
    upstream.wait_requests(1);
    let mut waiter = Req::pay("k1").begin(gates[1].address());
    assert!(waiter.is_silent_for(Duration::from_millis(50)));
    latch.open();
    first.response().expect(201, "", "executed");
    waiter.response().expect(201, "", "replayed");
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn fifty_at_once_all_get_the_one_answer() {
    let (upstream, latch) = held_upstream();
    latch.open();
    let gate = waiting(Gate::before(&upstream)).set("limits", "waiters_per_key = 64").start();
    let answers = parallel(50, |_| gate.send(&Req::pay("k1")));
    let executed = answers.iter().filter(|answer| answer.idempotency() == "executed").count();
    let replayed = answers.iter().filter(|answer| answer.idempotency() == "replayed").count();
    assert_eq!((executed, replayed), (1, 49));
    assert!(answers.iter().all(|answer| answer.text() == "{\"paid\":1}"));
}
