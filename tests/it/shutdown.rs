//! Leaving: what runs is finished and stored, what comes is told so, and the process ends in time.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{
    backend::{Backend, each_durable_store, each_store},
    client::{Client, Req},
    gate::{ADMIN_TOKEN, Gate},
    sync::Latch,
    upstream::{Script, Upstream},
};

each_store! {
    sigterm_finishes_what_runs_and_refuses_what_comes => drains;
}

each_durable_store! {
    what_still_runs_at_the_end_of_the_grace_is_written_down_as_unknown => grace_ends;
}

/// An upstream that executes and answers when the latch opens.
fn held_upstream() -> (Upstream, Latch) {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        let count = exchange.execute();
        held.wait();
        exchange.answer(201, &[], format!("paid {count}").as_bytes());
    }));
    (upstream, latch)
}

/// Waits until the gate has closed its listener: the first visible sign of draining.
fn wait_listener_closed(gate: &Gate) {
    gate.wait_until("the listener is closed", || gate.address().connect().is_err());
}

fn drains(backend: &Backend) {
    let (upstream, latch) = held_upstream();
    let mut gate = backend.gate(&upstream).start();
    // A connection that is kept, and one whose request runs.
    let mut kept = gate.connect();
    kept.send(&Req::new("TRACE", "/").bytes());
    assert_eq!(kept.response().status, 405);
    let mut other_kept = gate.connect();
    other_kept.send(&Req::new("TRACE", "/").bytes());
    assert_eq!(other_kept.response().status, 405);
    let mut running = Req::pay("k1").begin(gate.address());
    upstream.wait_executions(1);
    gate.sigterm();
    wait_listener_closed(&gate);
    kept.send(&Req::pay("k2").bytes());
    let refused = kept.try_response_to("POST");
    let refused = refused.expect("a kept connection gets an answer, not a broken pipe");
    refused.expect(503, "draining", "not-executed");
    assert!(refused.has("retry-after"));
    assert_eq!(refused.header("connection"), Some("close"));
    kept.expect_closed();
    other_kept.send(&Req::get("/x").bytes());
    let refused = other_kept.try_response_to("GET").expect("an unprotected request is answered too");
    assert_eq!((refused.status, refused.slug().as_str()), (503, "draining"));
    assert!(gate.is_running());
    latch.open();
    let answer = running.response();
    answer.expect(201, "", "executed");
    assert_eq!(answer.text(), "paid 1");
    assert_eq!(gate.wait_exit(Duration::from_secs(10)), 0);
    assert_eq!(upstream.executions_total(), 1);
    if !matches!(backend, Backend::Memory) {
        gate.restart();
        gate.send(&Req::pay("k1")).expect(201, "", "replayed");
        gate.send(&Req::pay("k2")).expect(201, "", "executed");
    }
}

fn grace_ends(backend: &Backend) {
    let (upstream, latch) = held_upstream();
    let mut gate = backend.gate(&upstream).set("server", "shutdown_grace = \"300ms\"").start();
    let mut running = Req::pay("k1").begin(gate.address());
    upstream.wait_executions(1);
    let began = Instant::now();
    gate.sigterm();
    let answer = running.response();
    answer.expect(504, "outcome-unknown", "unknown");
    assert!(!answer.has("retry-after"));
    assert_eq!(gate.wait_exit(Duration::from_secs(5)), 0);
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(290) && took < Duration::from_millis(2500), "{took:?}");
    gate.restart();
    // Written down, not left to lapse: no lease has to run out first.
    gate.send(&Req::pay("k1")).expect(409, "outcome-unknown", "unknown");
    latch.open();
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn an_execution_whose_client_left_is_drained_as_well() {
    let (upstream, latch) = held_upstream();
    let mut gate = Gate::before(&upstream).store("file:cells.redb").start();
    let client = Req::pay("k1").begin(gate.address());
    upstream.wait_executions(1);
    client.reset();
    gate.sigterm();
    wait_listener_closed(&gate);
    assert!(gate.is_running());
    latch.open();
    assert_eq!(gate.wait_exit(Duration::from_secs(10)), 0);
    gate.restart();
    gate.send(&Req::pay("k1")).expect(201, "", "replayed");
}

#[test]
fn an_execution_behind_a_504_is_drained_as_well() {
    let (upstream, latch) = held_upstream();
    let mut gate =
        Gate::before(&upstream).store("file:cells.redb").set("upstream", "response_timeout = \"100ms\"").start();
    gate.send(&Req::pay("k1")).expect(504, "outcome-unknown", "in-progress");
    gate.sigterm();
    wait_listener_closed(&gate);
    latch.open();
    assert_eq!(gate.wait_exit(Duration::from_secs(10)), 0);
    gate.restart();
    gate.send(&Req::pay("k1")).expect(201, "", "replayed");
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn idle_connections_do_not_hold_up_the_end() {
    let upstream = Upstream::paying();
    let mut gate = Gate::before(&upstream).start();
    let mut kept: Vec<Client> = (0..5).map(|_| gate.connect()).collect();
    for client in &mut kept[..3] {
        client.expect_usable(&Req::get("/"));
    }
    let began = Instant::now();
    gate.sigterm();
    assert_eq!(gate.wait_exit(Duration::from_secs(10)), 0);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    for client in &mut kept {
        client.expect_closed();
    }
}

#[test]
fn a_second_signal_hurries() {
    let (upstream, latch) = held_upstream();
    let mut gate = Gate::before(&upstream).store("file:cells.redb").start();
    let mut running = Req::pay("k1").begin(gate.address());
    upstream.wait_executions(1);
    gate.sigterm();
    wait_listener_closed(&gate);
    let began = Instant::now();
    gate.sigterm();
    running.response().expect(504, "outcome-unknown", "unknown");
    assert_eq!(gate.wait_exit(Duration::from_secs(5)), 0);
    assert!(began.elapsed() < Duration::from_secs(3));
    latch.open();
    gate.restart();
    gate.send(&Req::pay("k1")).expect(409, "outcome-unknown", "unknown");
}

#[test]
fn during_the_delay_it_is_not_ready_and_still_serves() {
    let upstream = Upstream::paying();
    let mut gate = Gate::before(&upstream).set("server", "shutdown_delay = \"3s\"").start();
    let began = Instant::now();
    gate.sigterm();
    gate.wait_not_ready();
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    gate.send(&Req::get("/")).expect(201, "", "");
    assert_eq!(gate.admin_get("/livez").status, 200);
    assert!(began.elapsed() < Duration::from_secs(3), "too slow to tell");
    assert_eq!(gate.wait_exit(Duration::from_secs(10)), 0);
    assert!(began.elapsed() >= Duration::from_millis(2950));
}

#[test]
fn sigint_and_the_admin_drain_are_sigterm() {
    let upstream = Upstream::paying();
    let mut gate = Gate::before(&upstream).start();
    gate.signal(Signal::INT);
    assert_eq!(gate.wait_exit(Duration::from_secs(10)), 0);
    let mut gate = Gate::before(&upstream).start();
    let answer = Req::new("POST", "/drain").auth(ADMIN_TOKEN).send(gate.admin());
    assert!((200..300).contains(&answer.status), "{answer:?}");
    assert_eq!(gate.wait_exit(Duration::from_secs(10)), 0);
}

#[test]
fn a_tunnel_does_not_outlive_the_grace() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        exchange.echo();
    }));
    let mut gate = Gate::before(&upstream).set("server", "shutdown_grace = \"300ms\"").start();
    let request = Req::get("/chat")
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
        .header("Sec-WebSocket-Version", "13");
    let mut client = request.begin(gate.address());
    client.next_head().unwrap();
    client.send(b"x");
    client.exactly(1);
    gate.sigterm();
    assert_eq!(gate.wait_exit(Duration::from_secs(5)), 0);
    client.expect_closed();
}

#[test]
fn a_waiting_duplicate_is_answered_when_the_gate_leaves() {
    let (upstream, latch) = held_upstream();
    let mut gate = Gate::before(&upstream).defaults("in_flight = \"wait\"").defaults("wait_timeout = \"30s\"").start();
    let mut running = Req::pay("k1").begin(gate.address());
    upstream.wait_executions(1);
    let mut waiting = Req::pay("k1").begin(gate.address());
    assert!(waiting.is_silent_for(Duration::from_millis(30)));
    gate.sigterm();
    wait_listener_closed(&gate);
    latch.open();
    running.response().expect(201, "", "executed");
    // Whether it still got the replay or was told that the gate leaves: not a broken connection.
    let answer = waiting.response();
    assert!(["replayed", "in-progress", "not-executed"].contains(&answer.idempotency()), "{answer:?}");
    assert_eq!(gate.wait_exit(Duration::from_secs(10)), 0);
}
