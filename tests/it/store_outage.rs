//! The store is away, slow, or loses a reply: nothing runs unclaimed, nothing runs twice.

use std::time::{Duration, Instant};

use crate::harness::{
    chaos::Chaos,
    client::Req,
    gate::{Gate, GateBuilder},
    redis::RedisServer,
    sync::Latch,
    upstream::{Script, Upstream},
};

fn through(upstream: &Upstream, chaos: &Chaos) -> GateBuilder {
    Gate::before(upstream).store(&format!("redis://{}/0", chaos.address()))
}

#[test]
fn a_store_that_is_down_means_503_and_nothing_executed() {
    let mut redis = RedisServer::start();
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).store(&redis.url()).start();
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    redis.kill();
    let answer = gate.send(&Req::pay("k2"));
    answer.expect(503, "store-unavailable", "not-executed");
    assert!(answer.has("retry-after"));
    // No replay either: the gate cannot know.
    gate.send(&Req::pay("k1")).expect(503, "store-unavailable", "not-executed");
    // What needs no store is served.
    gate.send(&Req::get("/x")).expect(201, "", "");
    gate.wait_not_ready();
    assert_eq!(gate.admin_get("/livez").status, 200);
    redis.restart();
    gate.wait_ready();
    gate.send(&Req::pay("k1")).expect(201, "", "replayed");
    gate.send(&Req::pay("k2")).expect(201, "", "executed");
    assert_eq!((upstream.executions("k1"), upstream.executions("k2")), (1, 1));
}

#[test]
fn a_right_that_redis_takes_away_stops_executions_until_it_is_back() {
    let redis = RedisServer::start();
    let upstream = Upstream::paying();
    let acl = |rights: &str| {
        let words: Vec<&str> = "ACL SETUSER gate on >secret ~oncegate:*".split(' ').chain(rights.split(' ')).collect();
        assert_eq!(redis.command(&words), "+OK\r\n");
    };
    acl("resetchannels -@all +ping +info +select +get +getrange +set +del +pttl +eval +evalsha");
    let gate = Gate::before(&upstream).store(&redis.url().replace("://", "://gate:secret@")).start();
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    acl("-eval -evalsha");
    // Claimed before anyone could know; what it did cannot be written down.
    gate.send(&Req::pay("k2")).expect(201, "", "unrecorded");
    for key in ["k3", "k4", "k5"] {
        gate.send(&Req::pay(key)).expect(503, "store-unavailable", "not-executed");
        assert_eq!(upstream.executions(key), 0);
    }
    gate.wait_not_ready();
    let said = gate.wait_log("the lost right", |event| {
        event["level"] == "ERROR" && event.to_string().contains("the store cannot be used")
    });
    assert!(said.to_string().contains("eval") && said.to_string().contains("ACL SETUSER"), "{said}");
    acl("+eval +evalsha");
    gate.wait_ready();
    gate.send(&Req::pay("k3")).expect(201, "", "executed");
    gate.send_until_settled(&Req::pay("k2")).expect(201, "", "replayed");
    assert_eq!((upstream.executions("k2"), upstream.executions("k3")), (1, 1));
}

#[test]
fn a_route_that_bypasses_says_unprotected() {
    let mut redis = RedisServer::start();
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).store(&redis.url()).defaults("store_down = \"bypass\"").start();
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    redis.kill();
    gate.wait_not_ready();
    gate.send(&Req::pay("k2")).expect(201, "", "unprotected");
    assert_eq!(upstream.executions("k2"), 1);
    redis.restart();
    gate.wait_ready();
    gate.send(&Req::pay("k1")).expect(201, "", "replayed");
}

#[test]
fn a_doubtful_claim_is_503_even_where_the_route_bypasses() {
    let redis = RedisServer::start();
    let chaos = Chaos::before(redis.address());
    let upstream = Upstream::paying();
    let gate =
        through(&upstream, &chaos).set("store", "timeout = \"100ms\"").defaults("store_down = \"bypass\"").start();
    gate.send(&Req::pay("warm")).expect(201, "", "executed");
    chaos.stall_replies();
    let answer = gate.send(&Req::pay("k1"));
    answer.expect(503, "store-unavailable", "not-executed");
    assert_eq!(upstream.executions("k1"), 0);
    // The claim did land, and is withdrawn as soon as the store has a verdict.
    chaos.restore();
    let retry = gate.send_until_settled(&Req::pay("k1"));
    retry.expect(201, "", "executed");
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn a_claim_whose_reply_is_lost_executes_once() {
    let redis = RedisServer::start();
    let chaos = Chaos::before(redis.address());
    let upstream = Upstream::paying();
    let gate = through(&upstream, &chaos).start();
    gate.send(&Req::pay("warm")).expect(201, "", "executed");
    for round in 1..=5 {
        chaos.lose_reply_to(b"SET");
        let key = format!("k{round}");
        let first = gate.send(&Req::pay(&key));
        chaos.wait_lost_replies(round);
        // Asked again with the same token it is ours; given up it is 503 and nothing ran.
        match first.status {
            201 => drop(first.expect(201, "", "executed")),
            _ => drop(first.expect(503, "store-unavailable", "not-executed")),
        }
        let so_far = upstream.executions(&key);
        assert_eq!(so_far, usize::from(first.status == 201));
        let retry = gate.send_until_settled(&Req::pay(&key));
        assert_eq!(retry.status, 201, "{retry:?}");
        assert_eq!(upstream.executions(&key), 1);
    }
}

#[test]
fn a_completion_whose_reply_is_lost_is_asked_again() {
    let redis = RedisServer::start();
    let chaos = Chaos::before(redis.address());
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        held.wait();
        exchange.pay();
    }));
    let gate = through(&upstream, &chaos).start();
    let mut client = Req::pay("k1").begin(gate.address());
    upstream.wait_requests(1);
    chaos.lose_reply_to(b"EVAL");
    latch.open();
    let first = client.response();
    assert_eq!(first.status, 201);
    assert!(["executed", "unrecorded"].contains(&first.idempotency()), "{first:?}");
    chaos.wait_lost_replies(1);
    gate.send_until_not(&Req::pay("k1"), "in-progress").expect(201, "", "replayed");
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn an_answer_that_cannot_be_recorded_is_given_out_and_recorded_later() {
    let redis = RedisServer::start();
    let chaos = Chaos::before(redis.address());
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        held.wait();
        exchange.pay();
    }));
    let gate = through(&upstream, &chaos).start();
    let mut client = Req::pay("k1").begin(gate.address());
    upstream.wait_requests(1);
    chaos.cut();
    latch.open();
    let first = client.response();
    first.expect(201, "", "unrecorded");
    assert_eq!(first.text(), "{\"paid\":1}");
    gate.send(&Req::pay("k1")).expect(503, "store-unavailable", "not-executed");
    chaos.restore();
    gate.send_until_settled(&Req::pay("k1")).expect(201, "", "replayed");
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn renewals_that_fail_do_not_stop_the_execution() {
    let redis = RedisServer::start();
    let chaos = Chaos::before(redis.address());
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        held.wait();
        exchange.pay();
    }));
    let gate = through(&upstream, &chaos).defaults("lease = \"1s\"").start();
    let mut client = Req::pay("k1").begin(gate.address());
    upstream.wait_requests(1);
    chaos.cut();
    // Longer than the lease.
    assert!(client.is_silent_for(Duration::from_millis(1500)));
    chaos.restore();
    gate.wait_ready();
    gate.send(&Req::pay("k1")).expect(409, "outcome-unknown", "unknown");
    latch.open();
    client.response().expect(201, "", "executed");
    gate.send(&Req::pay("k1")).expect(201, "", "replayed");
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn a_frozen_store_is_503_after_four_timeouts() {
    let redis = RedisServer::start();
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).store(&redis.url()).set("store", "timeout = \"100ms\"").start();
    gate.send(&Req::pay("warm")).expect(201, "", "executed");
    redis.stop();
    let began = Instant::now();
    gate.send(&Req::pay("k1")).expect(503, "store-unavailable", "not-executed");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    redis.cont();
    gate.send_until_settled(&Req::pay("k1")).expect(201, "", "executed");
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn a_gate_whose_store_is_away_at_start_runs_and_is_not_ready() {
    let mut redis = RedisServer::start();
    let upstream = Upstream::paying();
    redis.kill();
    let gate = Gate::before(&upstream).store(&redis.url()).unready().start();
    gate.wait_not_ready();
    assert_eq!(gate.admin_get("/livez").status, 200);
    gate.send(&Req::pay("k1")).expect(503, "store-unavailable", "not-executed");
    gate.send(&Req::get("/x")).expect(201, "", "");
    redis.restart();
    gate.wait_ready();
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn an_evicting_redis_is_refused_at_start_unless_allowed() {
    let redis = RedisServer::start_with(&["--maxmemory-policy", "allkeys-lru"]);
    let upstream = Upstream::paying();
    let (code, log) = Gate::before(&upstream).store(&redis.url()).start_expecting_exit();
    assert_eq!(code, 69, "{log}");
    assert!(log.contains("maxmemory-policy") && log.contains("allow_eviction"), "{log}");
    let gate = Gate::before(&upstream).store(&redis.url()).set("store", "allow_eviction = true").start();
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
}

#[test]
fn a_wrong_password_is_refused_at_start() {
    let redis = RedisServer::start_with(&["--requirepass", "right"]);
    let upstream = Upstream::paying();
    let url = |password: &str| redis.url().replace("redis://", &format!("redis://:{password}@"));
    let (code, log) = Gate::before(&upstream).store(&url("wrong-canary")).start_expecting_exit();
    assert_eq!(code, 69, "{log}");
    assert!(!log.contains("wrong-canary"), "a password is never logged: {log}");
    let gate = Gate::before(&upstream).store(&url("right")).start();
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
}

#[test]
fn a_redis_that_begins_to_evict_is_never_an_exit() {
    let mut redis = RedisServer::start();
    let upstream = Upstream::paying();
    let mut gate = Gate::before(&upstream).store(&redis.url()).start();
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    redis.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    // Looked at on every new connection.
    redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    gate.wait_not_ready();
    gate.send(&Req::pay("k2")).expect(503, "store-unavailable", "not-executed");
    assert!(gate.is_running());
    redis.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    gate.wait_ready();
    gate.send(&Req::pay("k2")).expect(201, "", "executed");
    redis.kill();
}

#[test]
fn a_record_that_cannot_be_read_is_never_executed_over() {
    let redis = RedisServer::start();
    let upstream = Upstream::paying();
    for policy in ["unknown = \"hold\"", "unknown = \"retry\"", "store_down = \"bypass\""] {
        let gate = Gate::before(&upstream).store(&redis.url()).defaults(policy).start();
        redis.command(&["FLUSHALL"]);
        let executed = upstream.executions("k1");
        gate.send(&Req::pay("k1")).expect(201, "", "executed");
        let cell = cell_of(&redis);
        for garbage in ["", "x", "\u{1}\u{2}\u{3}", "{\"state\":\"completed\"}"] {
            redis.command(&["SET", &cell, garbage, "KEEPTTL"]);
            let answer = gate.send(&Req::pay("k1"));
            assert_eq!(
                answer.verdict(),
                (409, "outcome-unknown".to_owned(), "unknown".to_owned()),
                "{policy}, {garbage:?}"
            );
        }
        // Without an expiry it is no record of ours either.
        redis.command(&["SET", &cell, "x"]);
        gate.send(&Req::pay("k1")).expect(409, "outcome-unknown", "unknown");
        redis.command(&["DEL", &cell]);
        redis.command(&["RPUSH", &cell, "x"]);
        let answer = gate.send(&Req::pay("k1"));
        assert!([409, 503].contains(&answer.status), "a list where a record should be: {answer:?}");
        assert_eq!(upstream.executions("k1"), executed + 1);
    }
}

/// The name of the only cell there is.
fn cell_of(redis: &RedisServer) -> String {
    let reply = redis.command(&["KEYS", "*"]);
    let names: Vec<&str> = reply.split("\r\n").filter(|line| line.contains("oncegate")).collect();
    assert_eq!(names.len(), 1, "one cell in {reply:?}");
    names[0].to_owned()
}

#[test]
fn two_namespaces_are_two_worlds() {
    let redis = RedisServer::start();
    let upstream = Upstream::paying();
    let gate = |namespace: &str| {
        Gate::before(&upstream).store(&redis.url()).set("store", &format!("namespace = {namespace:?}")).start()
    };
    let (one, two) = (gate("one"), gate("two"));
    one.send(&Req::pay("k1")).expect(201, "", "executed");
    two.send(&Req::pay("k1")).expect(201, "", "executed");
    one.send(&Req::pay("k1")).expect(201, "", "replayed");
    assert_eq!(upstream.executions("k1"), 2);
}

#[test]
fn neither_keys_nor_credentials_nor_bodies_are_in_the_store() {
    let redis = RedisServer::start();
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).store(&redis.url()).start();
    let request = Req::post("/pay").auth("canary-credential").key("canary-key").body("canary-body");
    gate.send(&request).expect(201, "", "executed");
    let cell = cell_of(&redis);
    assert!(!cell.contains("canary"), "{cell}");
    let record = redis.command(&["GET", &cell]);
    assert!(record.len() > 20 && !record.contains("canary"), "{record}");
}

#[test]
fn a_redis_that_forgot_its_scripts_is_taught_again() {
    let redis = RedisServer::start();
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        held.wait();
        exchange.pay();
    }));
    let gate = Gate::before(&upstream).store(&redis.url()).start();
    let mut client = Req::pay("k1").begin(gate.address());
    upstream.wait_requests(1);
    redis.command(&["SCRIPT", "FLUSH"]);
    latch.open();
    client.response().expect(201, "", "executed");
    redis.command(&["SCRIPT", "FLUSH"]);
    gate.send(&Req::pay("k1")).expect(201, "", "replayed");
    gate.send(&Req::pay("k2")).expect(201, "", "executed");
}

#[test]
fn a_redis_that_refuses_writes_is_503_or_bypassed() {
    let redis = RedisServer::start();
    let upstream = Upstream::paying();
    let reject = Gate::before(&upstream).store(&redis.url()).start();
    let bypass = Gate::before(&upstream).store(&redis.url()).defaults("store_down = \"bypass\"").start();
    reject.send(&Req::pay("k0")).expect(201, "", "executed");
    // Full.
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    reject.send(&Req::pay("k1")).expect(503, "store-unavailable", "not-executed");
    assert_eq!(upstream.executions("k1"), 0);
    bypass.send(&Req::pay("k1")).expect(201, "", "unprotected");
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    reject.send_until_settled(&Req::pay("k2")).expect(201, "", "executed");
    // Demoted to a replica.
    redis.command(&["REPLICAOF", "127.0.0.1", "1"]);
    reject.send(&Req::pay("k3")).expect(503, "store-unavailable", "not-executed");
    assert_eq!(upstream.executions("k3"), 0);
    redis.command(&["REPLICAOF", "NO", "ONE"]);
    reject.send_until_settled(&Req::pay("k3")).expect(201, "", "executed");
    assert_eq!(upstream.executions("k3"), 1);
}

#[test]
fn a_redis_on_a_unix_socket_is_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("redis.sock");
    let _redis = RedisServer::start_with(&["--unixsocket", socket.to_str().unwrap()]);
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).store(&format!("redis+unix:{}", socket.display())).start();
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    gate.send(&Req::pay("k1")).expect(201, "", "replayed");
}
