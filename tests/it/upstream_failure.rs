//! The table of outcomes, row by row: what the first caller gets, what a retry meets, and how often it ran.
//!
//! Each row runs on every store on which it can happen; the README's failure table must name the same rows.

use std::time::Duration;

use crate::harness::{
    backend::Backend,
    chaos::Chaos,
    client::{Client, Req, Response},
    gate::{Gate, GateBuilder},
    redis::RedisServer,
    sync::Latch,
    upstream::{BlackHole, Exchange, Script, Upstream},
};

/// Declares the rows: a name as the README's table has it, the stores it can happen on, and its test.
macro_rules! rows {
    ($($row:ident: $name:literal on [$($store:ident),+];)+) => {
        /// The first column of the failure table.
        const ROWS: &[&str] = &[$($name),+];
        $(mod $row {$(
            #[test]
            fn $store() {
                super::$row(&crate::harness::backend::Backend::$store());
            }
        )+})+
    };
}

rows! {
    never_sent: "never sent" on [memory, embedded, redis];
    status_in_store: "complete answer, status in `outcome.store`" on [memory, embedded, redis];
    status_in_release: "complete answer, status in `outcome.release`" on [memory, embedded, redis];
    status_in_unknown: "complete answer, status in `outcome.unknown`" on [memory, embedded, redis];
    connection_lost: "request written, connection lost" on [memory, embedded, redis];
    no_head_in_time: "no head within `response_timeout`" on [memory, embedded, redis];
    body_broken_off: "head, body broken off" on [memory, embedded, redis];
    not_kept: "answer too large, or `text/event-stream`" on [memory, embedded, redis];
    client_gone: "client gone" on [memory, embedded, redis];
    gate_killed: "gate killed" on [memory, embedded, redis];
    cell_vanished: "cell vanished" on [redis];
    completion_cannot_be_written: "completion cannot be written" on [redis];
}

#[test]
fn the_readme_names_the_same_rows() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let table = readme
        .split_once("<!-- outcomes -->")
        .and_then(|(_, rest)| rest.split_once("<!-- /outcomes -->"))
        .expect("README.md has its failure table between <!-- outcomes --> and <!-- /outcomes -->")
        .0;
    let rows = table.lines().map(str::trim).filter(|line| line.starts_with('|')).skip(2);
    let mut named: Vec<&str> = rows.map(|row| row.trim_start_matches('|').split('|').next().unwrap().trim()).collect();
    let mut tested = ROWS.to_vec();
    named.sort_unstable();
    tested.sort_unstable();
    assert_eq!(named, tested);
}

/// Sends the request of this key twice and compares both answers and the number of executions.
#[track_caller]
fn twice(gate: &Gate, upstream: &Upstream, key: &str, first: Verdict, retry: Verdict, executions: usize) {
    let request = Req::pay(key);
    gate.send(&request).expect(first.0, first.1, first.2);
    gate.send(&request).expect(retry.0, retry.1, retry.2);
    assert_eq!(upstream.executions(key), executions, "executions under {key}");
}

/// Status, problem slug (empty for an upstream's answer), `Idempotency-Status`.
type Verdict = (u16, &'static str, &'static str);

const HELD: Verdict = (409, "outcome-unknown", "unknown");
const LOST: Verdict = (502, "outcome-unknown", "unknown");
const UNREACHABLE: Verdict = (502, "upstream-unreachable", "not-executed");

fn never_sent(backend: &Backend) {
    let upstream = Upstream::paying();
    let gate = backend.gate(&upstream).start();

    // Refused, and back again.
    upstream.stop();
    let request = Req::pay("refused");
    gate.send(&request).expect(502, "upstream-unreachable", "not-executed");
    gate.send(&request).expect(502, "upstream-unreachable", "not-executed");
    upstream.restart();
    gate.send(&request).expect(201, "", "executed");
    assert!(gate.send(&request).is_replay());
    assert_eq!(upstream.executions("refused"), 1);

    // A kept connection that ended while it was idle: a fresh one is used, and nobody notices.
    upstream.close_idle();
    gate.send(&Req::pay("stale")).expect(201, "", "executed");
    assert_eq!(upstream.executions("stale"), 1);

    // No connection in time, and no such name.
    let hole = BlackHole::open();
    for (key, url) in [("timeout", hole.url()), ("dns", "http://upstream.invalid:80".to_owned())] {
        let gate = GateBuilder::new(&url).set("upstream", "connect_timeout = \"300ms\"").start();
        twice(&gate, &upstream, key, UNREACHABLE, UNREACHABLE, 0);
    }
}

/// A gate before an upstream that executes and answers `/status/NNN` with that status.
fn by_status(backend: &Backend) -> (Upstream, Gate) {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        let (status, retry_after) = status_of(exchange);
        let lines: &[(&str, &str)] = if retry_after { &[("Retry-After", "1")] } else { &[] };
        let body = format!("answer {status}");
        exchange.answer(status, lines, body.as_bytes());
    }));
    let gate = backend.gate(&upstream).start();
    (upstream, gate)
}

fn status_of(exchange: &Exchange) -> (u16, bool) {
    let target = exchange.request.target.strip_prefix("/status/").unwrap();
    let (status, option) = target.split_once('?').unwrap_or((target, ""));
    (status.parse().unwrap(), option == "retry-after")
}

/// POSTs to `/status/NNN` twice and returns both answers with the number of executions.
fn status_twice(upstream: &Upstream, gate: &Gate, target: &str) -> (Response, Response, usize) {
    let request = Req::post(&format!("/status/{target}")).auth("a").key(target);
    (gate.send(&request), gate.send(&request), upstream.executions(target))
}

fn status_in_store(backend: &Backend) {
    let (upstream, gate) = by_status(backend);
    for status in [
        200, 201, 202, 203, 204, 206, 299, 300, 301, 302, 303, 304, 305, 399, 400, 402, 404, 405, 406, 410, 416, 418,
        422, 424, 451, 499, 500, 501, 505, 507, 508, 511, 527, 599,
    ] {
        let (first, retry, executions) = status_twice(&upstream, &gate, &status.to_string());
        first.expect(status, "", "executed");
        retry.expect(status, "", "replayed");
        assert_eq!(retry.body, first.body);
        assert_eq!(executions, 1, "status {status}");
    }
}

fn status_in_release(backend: &Backend) {
    let (upstream, gate) = by_status(backend);
    let statuses = [
        307, 308, 401, 403, 407, 408, 409, 411, 412, 413, 414, 415, 417, 421, 423, 425, 426, 428, 429, 431, 521, 523,
        525, 526,
    ];
    for target in statuses.map(|status| status.to_string()).into_iter().chain(["503?retry-after".to_owned()]) {
        let status = target[..3].parse().unwrap();
        let (first, retry, executions) = status_twice(&upstream, &gate, &target);
        for answer in [&first, &retry] {
            answer.expect(status, "", "released");
            assert_eq!(answer.text(), format!("answer {status}"));
        }
        assert_eq!(executions, 2, "status {target}");
    }
}

fn status_in_unknown(backend: &Backend) {
    let (upstream, gate) = by_status(backend);
    for status in [502, 503, 504, 520, 522, 524, 530, 600, 999] {
        let (first, retry, executions) = status_twice(&upstream, &gate, &status.to_string());
        first.expect(status, "", "unknown");
        assert_eq!(first.text(), format!("answer {status}"));
        retry.expect(409, "outcome-unknown", "unknown");
        assert_eq!(executions, 1, "status {status}");
    }
}

fn connection_lost(backend: &Backend) {
    let answers: &[(&str, &[u8])] = &[
        ("garbage", b"\x16\x03\x01\x02\x00garbage\r\n\r\n"),
        ("half a head", b"HTTP/1.1 201 Created\r\nContent-"),
        ("an unasked 101", b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
        ("only an interim answer", b"HTTP/1.1 102 Processing\r\n\r\n"),
        ("a length that is none", b"HTTP/1.1 201 Created\r\nContent-Length: abc\r\n\r\nabc"),
        ("two lengths", b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
        ("a folded line", b"HTTP/1.1 201 Created\r\nX-A: 1\r\n 2\r\nContent-Length: 0\r\n\r\n"),
        ("a space before the colon", b"HTTP/1.1 201 Created\r\nX-A : 1\r\nContent-Length: 0\r\n\r\n"),
        ("an unknown coding", b"HTTP/1.1 201 Created\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ];
    let upstream = Upstream::paying();
    let gate = backend.gate(&upstream).start();
    for (name, answer) in answers {
        upstream.set(Script::on_request(|exchange| {
            exchange.execute();
            exchange.send(answer);
            exchange.close();
        }));
        twice(&gate, &upstream, name, LOST, HELD, 1);
    }
    upstream.set(Script::on_request(|exchange| {
        exchange.execute();
        exchange.close();
    }));
    twice(&gate, &upstream, "an end", LOST, HELD, 1);
    upstream.set(Script::on_request(|exchange| {
        exchange.execute();
        exchange.reset();
    }));
    twice(&gate, &upstream, "a reset", LOST, HELD, 1);
    // Nothing was executed this time. Nobody can know.
    upstream.set(Script::on_request(|exchange| exchange.close()));
    twice(&gate, &upstream, "an end without execution", LOST, HELD, 0);
    // On a kept connection, which is where it happens most.
    upstream.set(Script::pay());
    gate.send(&Req::pay("warm")).expect(201, "", "executed");
    let connections = upstream.connections();
    upstream.set(Script::on_request(|exchange| {
        exchange.execute();
        exchange.close();
    }));
    twice(&gate, &upstream, "an end on a kept connection", LOST, HELD, 1);
    assert_eq!(upstream.connections(), connections, "the kept connection was used, and nothing was sent again");
    // Only part of the request arrived.
    upstream.set(Script::on_head(|exchange| {
        exchange.read_exactly(1000);
        exchange.reset();
    }));
    let large = Req::pay("partly").body(vec![b'x'; 900_000]);
    gate.send(&large).expect(502, "outcome-unknown", "unknown");
    gate.send(&large).expect(409, "outcome-unknown", "unknown");
    assert_eq!(upstream.executions("partly"), 0);
}

fn no_head_in_time(backend: &Backend) {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        exchange.execute();
        held.wait();
        exchange.answer(201, &[], b"late");
    }));
    let gate = backend.gate(&upstream).set("upstream", "response_timeout = \"200ms\"").start();
    let request = Req::pay("late");
    let first = gate.send(&request);
    first.expect(504, "outcome-unknown", "in-progress");
    assert_retry_after(&first);
    let retry = gate.send(&request);
    retry.expect(409, "in-progress", "in-progress");
    assert_retry_after(&retry);
    assert!(!upstream.is_closed(0), "the exchange goes on");
    latch.open();
    let late = gate.send_until_not(&request, "in-progress");
    late.expect(201, "", "replayed");
    assert_eq!(late.text(), "late");
    assert_eq!(upstream.executions("late"), 1);

    // No answer up to `max_execution`.
    upstream.set(Script::on_request(|exchange| {
        exchange.execute();
        exchange.read_to_end();
    }));
    let gate = backend
        .gate(&upstream)
        .set("upstream", "response_timeout = \"200ms\"")
        .set("upstream", "max_execution = \"2s\"")
        .start();
    let request = Req::pay("never");
    gate.send(&request).expect(504, "outcome-unknown", "in-progress");
    gate.send(&request).expect(409, "in-progress", "in-progress");
    gate.send_until_not(&request, "in-progress").expect(409, "outcome-unknown", "unknown");
    assert_eq!(upstream.executions("never"), 1);
}

#[track_caller]
fn assert_retry_after(answer: &Response) {
    let seconds: u32 = answer.header("retry-after").expect("there is a Retry-After").parse().unwrap();
    assert!((1..=30).contains(&seconds), "Retry-After: {seconds}");
}

fn body_broken_off(backend: &Backend) {
    let upstream = Upstream::paying();
    let gate = backend.gate(&upstream).defaults("max_response_body = \"1KiB\"").start();
    let broken = |status: u16| {
        Script::on_request(move |exchange| {
            exchange.execute();
            exchange.send(format!("HTTP/1.1 {status} X\r\nContent-Length: 10\r\n\r\nhalf").as_bytes());
            exchange.close();
        })
    };
    upstream.set(broken(201));
    let request = Req::pay("store");
    let first = gate.send(&request);
    first.expect(502, "answer-not-kept", "executed");
    assert_eq!(first.json()["original_status"], 201);
    let retry = gate.send(&request);
    retry.expect(409, "answer-not-kept", "executed");
    assert_eq!(retry.json()["original_status"], 201);
    assert_eq!(upstream.executions("store"), 1);

    upstream.set(broken(429));
    twice(&gate, &upstream, "release", (502, "answer-not-kept", "released"), (502, "answer-not-kept", "released"), 2);
    upstream.set(broken(503));
    twice(&gate, &upstream, "unknown", (502, "answer-not-kept", "unknown"), HELD, 1);

    // Chunked, without its last chunk; and by a reset.
    upstream.set(Script::on_request(|exchange| {
        exchange.execute();
        exchange.chunked(200, &[]);
        exchange.chunk(b"half");
        exchange.reset();
    }));
    let not_kept = (409, "answer-not-kept", "executed");
    twice(&gate, &upstream, "chunked", (502, "answer-not-kept", "executed"), not_kept, 1);

    // Too large to be held back: the client sees it break.
    let latch = Latch::new();
    let held = latch.clone();
    upstream.set(Script::on_request(move |exchange| {
        exchange.execute();
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
        exchange.send(&[b'x'; 5000]);
        held.wait();
        exchange.close();
    }));
    let request = Req::pay("streaming");
    let mut client = request.begin(gate.address());
    let (head, _) = client.final_head().unwrap();
    assert_eq!(head.value("idempotency-status"), Some("executed"));
    latch.open();
    let (rest, closed) = client.rest();
    assert!(closed && rest.len() < 100_000, "cut, never ended properly");
    gate.send(&request).expect(409, "answer-not-kept", "executed");
    assert_eq!(upstream.executions("streaming"), 1);
}

fn not_kept(backend: &Backend) {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        let size: usize = exchange.request.target.trim_start_matches('/').parse().unwrap();
        exchange.answer(201, &[], &vec![b'x'; size]);
    }));
    let gate = backend.gate(&upstream).defaults("max_response_body = \"1KiB\"").start();
    let fits = Req::post("/1024").auth("a").key("fits");
    gate.send(&fits).expect(201, "", "executed");
    let replay = gate.send(&fits);
    replay.expect(201, "", "replayed");
    assert_eq!(replay.body.len(), 1024);
    for (key, size) in [("one more", 1025), ("many more", 3_000_000)] {
        let request = Req::post(&format!("/{size}")).auth("a").key(key);
        let first = gate.send(&request);
        first.expect(201, "", "executed");
        assert_eq!((first.body.len(), first.complete), (size, true));
        let retry = gate.send(&request);
        retry.expect(409, "answer-not-kept", "executed");
        assert_eq!(retry.json()["original_status"], 201);
        assert_eq!(upstream.executions(key), 1);
    }

    // A stream of events is complete at its head, and its first event does not wait for the second.
    let latch = Latch::new();
    let held = latch.clone();
    upstream.set(Script::on_request(move |exchange| {
        exchange.execute();
        exchange.chunked(200, &[("Content-Type", "text/event-stream; charset=utf-8")]);
        exchange.chunk(b"data: 1\n\n");
        held.wait();
        exchange.chunk(b"data: 2\n\n");
        exchange.last_chunk(&[]);
    }));
    let request = Req::pay("events");
    let mut client = request.begin(gate.address());
    client.until(b"data: 1\n\n");
    gate.send(&request).expect(409, "answer-not-kept", "executed");
    latch.open();
    client.until(b"data: 2\n\n");
    gate.send(&request).expect(409, "answer-not-kept", "executed");
    assert_eq!(upstream.executions("events"), 1);
}

fn client_gone(backend: &Backend) {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        held.wait();
        exchange.pay();
    }));
    let gate = backend.gate(&upstream).start();
    let request = Req::pay("gone");
    let client = request.begin(gate.address());
    upstream.wait_requests(1);
    client.reset();
    let client: Client = request.begin(gate.address());
    drop(client);
    gate.send(&request).expect(409, "in-progress", "in-progress");
    latch.open();
    gate.send_until_not(&request, "in-progress").expect(201, "", "replayed");
    assert_eq!(upstream.executions("gone"), 1);
    assert_eq!(upstream.requests().len(), 1);
}

/// Settings under which a dead gate's claim lapses soon.
fn short_lease(builder: GateBuilder) -> GateBuilder {
    builder.defaults("lease = \"1s\"").set("store", "timeout = \"250ms\"")
}

fn gate_killed(backend: &Backend) {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        exchange.read_to_end();
    }));
    let mut gate = short_lease(backend.gate(&upstream)).start();
    let request = Req::pay("killed");
    let mut client = request.begin(gate.address());
    upstream.wait_executions(1);
    gate.kill_9();
    assert!(client.try_response_to("POST").is_none(), "the connection breaks");
    upstream.set(Script::pay());
    gate.restart();
    let retry = gate.send_until_not(&request, "in-progress");
    if matches!(backend, Backend::Memory) {
        // What it says on the tin: a memory store forgets with its gate.
        retry.expect(201, "", "executed");
        assert_eq!(upstream.executions("killed"), 2);
    } else {
        retry.expect(409, "outcome-unknown", "unknown");
        gate.send(&request).expect(409, "outcome-unknown", "unknown");
        assert_eq!(upstream.executions("killed"), 1);
    }
}

fn redis_of(backend: &Backend) -> &RedisServer {
    match backend {
        Backend::Redis(server) => server,
        Backend::Memory | Backend::Embedded => panic!("this row happens on Redis only"),
    }
}

fn cell_vanished(backend: &Backend) {
    let redis = redis_of(backend);
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        exchange.execute();
        held.wait();
        exchange.answer(201, &[], b"kept");
    }));
    let gate = backend.gate(&upstream).start();
    let request = Req::pay("vanished");
    let mut client = request.begin(gate.address());
    upstream.wait_executions(1);
    redis.command(&["FLUSHALL"]);
    latch.open();
    client.response().expect(201, "", "executed");
    let retry = gate.send(&request);
    retry.expect(201, "", "replayed");
    assert_eq!(retry.text(), "kept");
    assert_eq!(upstream.executions("vanished"), 1);

    // A renewal creates it again as well: a retry after it does not run beside the first.
    let latch = Latch::new();
    let held = latch.clone();
    upstream.set(Script::on_request(move |exchange| {
        exchange.execute();
        held.wait();
        exchange.answer(201, &[], b"kept");
    }));
    let gate = short_lease(backend.gate(&upstream)).start();
    let request = Req::pay("renewed");
    let mut client = request.begin(gate.address());
    upstream.wait_executions(2);
    redis.command(&["FLUSHALL"]);
    gate.wait_until("the claim is there again", || redis.command(&["DBSIZE"]) != ":0\r\n");
    gate.send(&request).expect(409, "in-progress", "in-progress");
    latch.open();
    client.response().expect(201, "", "executed");
    assert_eq!(upstream.executions("renewed"), 1);
}

fn completion_cannot_be_written(backend: &Backend) {
    let redis = redis_of(backend);
    let latch = Latch::new();
    let held = latch.clone();
    let script = move || {
        let held = held.clone();
        Script::on_request(move |exchange| {
            exchange.execute();
            held.wait();
            exchange.answer(201, &[], b"paid");
        })
    };
    // The store goes away while the upstream works.
    let upstream = Upstream::start(script());
    let chaos = Chaos::before(redis.address());
    let gate = Gate::before(&upstream).store(&format!("redis://{}/0", chaos.address())).start();
    let request = Req::pay("away");
    let mut client = request.begin(gate.address());
    upstream.wait_executions(1);
    chaos.cut();
    latch.pass_one();
    let first = client.response();
    first.expect(201, "", "unrecorded");
    assert_eq!(first.text(), "paid");
    gate.send(&request).expect(503, "store-unavailable", "not-executed");
    chaos.restore();
    let retry = gate.send_until_settled(&request);
    retry.expect(201, "", "replayed");
    assert_eq!(retry.text(), "paid");
    assert_eq!(upstream.executions("away"), 1);

    // The claim was taken over meanwhile: the new owner's answer stays.
    let slow = short_lease(backend.gate(&upstream).defaults("unknown = \"retry\"")).start();
    let other = short_lease(backend.gate(&upstream).defaults("unknown = \"retry\"")).start();
    let request = Req::pay("taken");
    let mut client = request.begin(slow.address());
    upstream.wait_executions(2);
    slow.sigstop();
    upstream.set(Script::on_request(|exchange| {
        exchange.execute();
        exchange.answer(201, &[], b"the new owner's");
    }));
    other.send_until_not(&request, "in-progress").expect(201, "", "executed");
    slow.sigcont();
    latch.pass_one();
    let first = client.response();
    first.expect(201, "", "unrecorded");
    assert_eq!(first.text(), "paid");
    for gate in [&slow, &other] {
        let retry = gate.send(&request);
        retry.expect(201, "", "replayed");
        assert_eq!(retry.text(), "the new owner's");
    }
    assert_eq!(upstream.executions("taken"), 2, "`retry` is for upstreams that tolerate it");
}

#[test]
fn a_connection_that_is_closed_at_once_is_never_executed_and_never_sent_twice() {
    let upstream = Upstream::start(Script::on_accept(|exchange| exchange.close()));
    let gate = Gate::before(&upstream).start();
    let first = gate.send(&Req::pay("closed"));
    assert_eq!(first.status, 502);
    assert!(upstream.connections() <= 2, "one retry at most");
    upstream.set(Script::pay());
    let retry = gate.send(&Req::pay("closed"));
    // Which of both it is depends on how much the kernel took before the end arrived; they must agree.
    match first.idempotency() {
        "not-executed" => retry.expect(201, "", "executed"),
        "unknown" => retry.expect(409, "outcome-unknown", "unknown"),
        other => panic!("{other}"),
    };
}

#[test]
fn an_unprotected_request_gets_plain_problems() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).set("upstream", "response_timeout = \"200ms\"").start();
    upstream.set(Script::on_request(|exchange| exchange.read_to_end()));
    gate.send(&Req::get("/slow")).expect(504, "upstream-timeout", "");
    // The exchange of an unprotected request is cancelled with its timeout.
    upstream.wait_closed(0);
    upstream.stop();
    gate.send(&Req::get("/refused")).expect(502, "upstream-unreachable", "");
    gate.send(&Req::post("/refused")).expect(502, "upstream-unreachable", "");
}

#[test]
fn an_answer_that_stalls_in_mid_body_counts_as_broken_off() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        exchange.send(b"HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\nhalf");
        exchange.read_to_end();
    }));
    let gate = Gate::before(&upstream).set("upstream", "response_timeout = \"200ms\"").start();
    twice(&gate, &upstream, "stalled", (502, "answer-not-kept", "executed"), (409, "answer-not-kept", "executed"), 1);
}

#[test]
fn a_long_answer_outlives_max_execution_once_it_is_recorded() {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        exchange.execute();
        exchange.chunked(200, &[("Content-Type", "text/event-stream")]);
        exchange.chunk(b"data: 1\n\n");
        held.wait();
        exchange.chunk(b"data: 2\n\n");
        exchange.last_chunk(&[]);
    }));
    let gate = Gate::before(&upstream)
        .set("upstream", "response_timeout = \"200ms\"")
        .set("upstream", "max_execution = \"400ms\"")
        .start();
    let mut client = Req::pay("long").begin(gate.address());
    client.until(b"data: 1\n\n");
    assert!(client.is_silent_for(Duration::from_millis(700)), "the stream is not cut at max_execution");
    latch.open();
    client.until(b"data: 2\n\n");
}

#[test]
fn an_answer_that_trickles_is_broken_off_at_max_execution() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        exchange.chunked(201, &[]);
        // Never silent for long, never done.
        while exchange.chunk(b".") {
            std::thread::sleep(Duration::from_millis(20));
        }
    }));
    let gate = Gate::before(&upstream)
        .set("upstream", "response_timeout = \"300ms\"")
        .set("upstream", "max_execution = \"600ms\"")
        .start();
    twice(&gate, &upstream, "trickle", (502, "answer-not-kept", "executed"), (409, "answer-not-kept", "executed"), 1);
}

#[test]
fn an_upstream_that_does_not_read_is_a_504_like_one_that_does_not_answer() {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_head(move |exchange| {
        held.wait();
        exchange.read_body();
        exchange.pay();
    }));
    // Larger than what the kernels buffer in between.
    let gate = Gate::before(&upstream)
        .set("upstream", "response_timeout = \"300ms\"")
        .defaults("max_request_body = \"32MiB\"")
        .start();
    let request = Req::pay("unread").body(vec![b'x'; 24 << 20]);
    gate.send(&request).expect(504, "outcome-unknown", "in-progress");
    gate.send(&request).expect(409, "in-progress", "in-progress");
    latch.open();
    gate.send_until_not(&request, "in-progress").expect(201, "", "replayed");
    assert_eq!(upstream.executions("unread"), 1);
}

#[test]
fn an_answer_that_comes_before_the_request_was_read_is_the_answer() {
    let upstream = Upstream::start(Script::on_head(|exchange| {
        exchange.execute();
        exchange.answer(422, &[("Connection", "close")], b"early");
        exchange.read_to_end();
    }));
    let gate = Gate::before(&upstream).defaults("max_request_body = \"32MiB\"").start();
    let request = Req::pay("early").body(vec![b'x'; 8 << 20]);
    for status in ["executed", "replayed"] {
        let answer = gate.send(&request);
        answer.expect(422, "", status);
        assert_eq!(answer.text(), "early");
    }
    assert_eq!(upstream.executions("early"), 1);
    // Its connection is not used again: the rest of the body would be read as a request.
    upstream.set(Script::pay());
    gate.send(&Req::pay("after")).expect(201, "", "executed");
    assert_eq!(upstream.executions("after"), 1);
}

#[test]
fn a_connection_idle_for_too_long_is_not_used_for_a_protected_request() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).set("upstream", "idle_reuse = \"200ms\"").start();
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    let mut client = gate.connect();
    assert!(client.is_silent_for(Duration::from_millis(400)));
    client.expect_usable(&Req::pay("k2")).expect(201, "", "executed");
    assert_eq!(upstream.requests()[1].connection, 1);
}

#[test]
fn answers_beyond_the_memory_are_passed_on_and_not_kept() {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        exchange.execute();
        held.wait();
        exchange.answer(201, &[], &vec![b'x'; 700_000]);
    }));
    let gate = Gate::before(&upstream).set("limits", "body_memory = \"1MiB\"").start();
    let mut clients: Vec<_> = (0..6).map(|index| Req::pay(&format!("k{index}")).begin(gate.address())).collect();
    upstream.wait_requests(6);
    latch.open();
    for client in &mut clients {
        let answer = client.response();
        answer.expect(201, "", "executed");
        assert_eq!((answer.body.len(), answer.complete), (700_000, true));
    }
    drop(clients);
    for index in 0..6 {
        let key = format!("k{index}");
        let retry = gate.send_until_not(&Req::pay(&key), "overloaded");
        match retry.status {
            201 => drop(retry.expect(201, "", "replayed")),
            _ => drop(retry.expect(409, "answer-not-kept", "executed")),
        }
        assert_eq!(upstream.executions(&key), 1);
    }
}
