//! A claim whose owner is silent lapses into doubt, never into freedom; a late truth heals the doubt.

use crate::harness::{
    chaos::Chaos,
    client::{Client, Req},
    gate::{Gate, GateBuilder},
    redis::RedisServer,
    sync::Latch,
    upstream::{Script, Upstream},
};

fn short_lease(builder: GateBuilder) -> GateBuilder {
    builder.defaults("lease = \"1s\"").set("store", "timeout = \"250ms\"")
}

/// Two gates on one Redis; a request is at the upstream, executed, its answer held back; its gate is frozen.
struct Frozen {
    _redis: RedisServer,
    upstream: Upstream,
    latch: Latch,
    owner: Gate,
    other: Gate,
    client: Client,
}

fn frozen(policy: &str) -> Frozen {
    let redis = RedisServer::start();
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        exchange.execute();
        held.wait();
        exchange.answer(201, &[], b"late truth");
    }));
    let gate = || short_lease(Gate::before(&upstream).store(&redis.url())).defaults(policy).start();
    let (owner, other) = (gate(), gate());
    let client = Req::pay("k1").begin(owner.address());
    upstream.wait_executions(1);
    owner.sigstop();
    Frozen { _redis: redis, upstream, latch, owner, other, client }
}

#[test]
fn a_frozen_owner_reads_as_unknown_and_its_late_answer_is_replayed() {
    let mut frozen = frozen("unknown = \"hold\"");
    let request = Req::pay("k1");
    frozen.other.send_until_not(&request, "in-progress").expect(409, "outcome-unknown", "unknown");
    frozen.other.send(&request).expect(409, "outcome-unknown", "unknown");
    assert_eq!(frozen.upstream.executions("k1"), 1);
    frozen.latch.open();
    frozen.owner.sigcont();
    let first = frozen.client.response();
    first.expect(201, "", "executed");
    assert_eq!(first.text(), "late truth");
    for gate in [&frozen.owner, &frozen.other] {
        let replay = gate.send(&request);
        replay.expect(201, "", "replayed");
        assert_eq!(replay.text(), "late truth");
    }
    assert_eq!(frozen.upstream.executions("k1"), 1);
}

#[test]
fn a_frozen_owner_that_wakes_up_without_an_answer_stays_unknown_until_there_is_one() {
    let mut frozen = frozen("unknown = \"hold\"");
    let request = Req::pay("k1");
    frozen.other.send_until_not(&request, "in-progress").expect(409, "outcome-unknown", "unknown");
    // It renews its lease again: that must not revive the doubtful record.
    frozen.owner.sigcont();
    frozen.owner.send(&request).expect(409, "outcome-unknown", "unknown");
    frozen.other.send(&request).expect(409, "outcome-unknown", "unknown");
    frozen.latch.open();
    frozen.client.response().expect(201, "", "executed");
    frozen.other.send(&request).expect(201, "", "replayed");
    assert_eq!(frozen.upstream.executions("k1"), 1);
}

#[test]
fn a_route_that_retries_takes_over_exactly_once() {
    let mut frozen = frozen("unknown = \"retry\"");
    let request = Req::pay("k1");
    let held = Latch::new();
    let second = held.clone();
    frozen.upstream.set(Script::on_request(move |exchange| {
        exchange.execute();
        second.wait();
        exchange.answer(201, &[], b"second");
    }));
    // Many retries, one take-over: the others meet the new owner.
    let address = frozen.other.address().clone();
    let racing = crate::harness::client::beside(move || {
        crate::harness::client::parallel(10, |_| {
            loop {
                let answer = Req::pay("k1").send(&address);
                if answer.status != 409 {
                    return answer;
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        })
    });
    frozen.upstream.wait_executions(2);
    held.open();
    let answers = racing.join().unwrap();
    assert_eq!(answers.iter().filter(|answer| answer.idempotency() == "executed").count(), 1);
    assert!(answers.iter().all(|answer| answer.text() == "second"));
    frozen.latch.open();
    frozen.owner.sigcont();
    frozen.client.response().expect(201, "", "unrecorded");
    frozen.owner.send(&request).expect(201, "", "replayed");
    assert_eq!(frozen.upstream.executions("k1"), 2);
}

#[test]
fn an_unknown_outcome_runs_again_only_where_the_route_says_so() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        exchange.close();
    }));
    let gate = Gate::before(&upstream).route("name = \"retry\"\npath = \"/retry\"\nunknown = \"retry\"").start();
    gate.send(&Req::pay("hold")).expect(502, "outcome-unknown", "unknown");
    let retry = Req::post("/retry").auth("a").key("retry");
    gate.send(&retry).expect(502, "outcome-unknown", "unknown");
    upstream.set(Script::pay());
    gate.send(&Req::pay("hold")).expect(409, "outcome-unknown", "unknown");
    gate.send(&retry).expect(201, "", "executed");
    gate.send(&retry).expect(201, "", "replayed");
    assert_eq!((upstream.executions("hold"), upstream.executions("retry")), (1, 2));
}

#[test]
fn a_lease_is_renewed_as_long_as_the_upstream_works() {
    let redis = RedisServer::start();
    for url in ["memory:", "file:cells.redb", &redis.url()] {
        let latch = Latch::new();
        let held = latch.clone();
        let upstream = Upstream::start(Script::on_request(move |exchange| {
            exchange.execute();
            held.wait();
            exchange.answer(201, &[], b"slow");
        }));
        let gate = short_lease(Gate::before(&upstream).store(url)).start();
        let mut client = Req::pay("k1").begin(gate.address());
        upstream.wait_executions(1);
        // Two and a half leases: silence is the only event there is.
        assert!(client.is_silent_for(std::time::Duration::from_millis(2500)));
        gate.send(&Req::pay("k1")).expect(409, "in-progress", "in-progress");
        latch.open();
        client.response().expect(201, "", "executed");
        gate.send(&Req::pay("k1")).expect(201, "", "replayed");
        assert_eq!(upstream.executions("k1"), 1, "{url}");
    }
}

#[test]
fn a_doubtful_record_says_since_when() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        exchange.close();
    }));
    let gate = Gate::before(&upstream).start();
    gate.send(&Req::pay("k1"));
    let held = gate.send(&Req::pay("k1"));
    held.expect(409, "outcome-unknown", "unknown");
    let since = held.json()["since"].as_str().expect("there is a `since`").to_owned();
    assert!(since.len() >= 20 && since.contains('T') && since.ends_with('Z'), "{since} is RFC 3339 in UTC");
    assert!(!held.has("retry-after"), "waiting does not help");
}

#[test]
fn a_gate_that_was_frozen_between_claim_and_sending_sends_nothing() {
    let redis = RedisServer::start();
    let chaos = Chaos::before(redis.address());
    let upstream = Upstream::paying();
    let retrying = |builder: GateBuilder| short_lease(builder).defaults("unknown = \"retry\"").start();
    let owner = retrying(Gate::before(&upstream).store(&format!("redis://{}/0", chaos.address())));
    let other = retrying(Gate::before(&upstream).store(&redis.url()));
    // The claim lands; its reply is on the way while the gate is frozen, and there when it wakes up.
    chaos.stall_replies();
    let mut client = Req::pay("k1").begin(owner.address());
    owner.wait_until("the claim has landed", || redis.command(&["DBSIZE"]) != ":0\r\n");
    owner.sigstop();
    chaos.restore();
    other.send_until_not(&Req::pay("k1"), "in-progress").expect(201, "", "executed");
    owner.sigcont();
    let first = client.response();
    assert_eq!(upstream.executions("k1"), 1, "{first:?}");
    if first.status != 503 {
        first.expect(201, "", "replayed");
    }
}
