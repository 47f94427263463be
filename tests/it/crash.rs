//! `kill -9` at every moment: never a second execution, never an answer that is forgotten.

use crate::harness::{
    backend::{Backend, each_durable_store},
    chaos::Chaos,
    client::{Req, parallel},
    gate::{Gate, GateBuilder},
    redis::RedisServer,
    sync::Latch,
    upstream::{Script, Upstream},
};

each_durable_store! {
    killed_while_the_upstream_works_the_retry_is_held => while_the_upstream_works;
    killed_while_an_upload_arrives_nothing_is_claimed => during_the_upload;
    many_kills_never_execute_twice => many_kills;
}

fn short_lease(builder: GateBuilder) -> GateBuilder {
    builder.defaults("lease = \"1s\"").set("store", "timeout = \"250ms\"")
}

fn while_the_upstream_works(backend: &Backend) {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        exchange.execute();
        held.wait();
        exchange.answer(201, &[], b"nobody hears this");
    }));
    let mut gate = short_lease(backend.gate(&upstream)).start();
    let request = Req::pay("k1");
    let mut client = request.begin(gate.address());
    upstream.wait_executions(1);
    gate.kill_9();
    assert!(client.try_response_to("POST").is_none());
    gate.restart();
    let retry = gate.send(&request);
    // Either the lease still runs (Redis) or every claim of the previous run is doubtful (a file has one owner).
    if retry.slug() != "outcome-unknown" {
        retry.expect(409, "in-progress", "in-progress");
    }
    gate.send_until_not(&request, "in-progress").expect(409, "outcome-unknown", "unknown");
    latch.open();
    gate.send(&request).expect(409, "outcome-unknown", "unknown");
    // Other keys are not held up by it.
    upstream.set(Script::pay());
    gate.send(&Req::pay("k2")).expect(201, "", "executed");
    gate.kill_9();
    gate.restart();
    gate.send(&request).expect(409, "outcome-unknown", "unknown");
    gate.send(&Req::pay("k2")).expect(201, "", "replayed");
    assert_eq!(upstream.executions("k1"), 1);
}

fn during_the_upload(backend: &Backend) {
    let upstream = Upstream::paying();
    let mut gate = short_lease(backend.gate(&upstream)).start();
    let request = Req::pay("k1").body(vec![b'x'; 100_000]);
    let mut client = gate.connect();
    client.send(&request.bytes()[..50_000]);
    // Another request shows that the gate has seen what came before it.
    gate.send(&Req::pay("other")).expect(201, "", "executed");
    gate.kill_9();
    gate.restart();
    gate.send(&request).expect(201, "", "executed");
    assert_eq!(upstream.executions("k1"), 1);
}

/// Clients retry through a gate that dies again and again at moments nobody chose.
fn many_kills(backend: &Backend) {
    const KEYS: usize = 6;
    let upstream = Upstream::paying();
    let mut gate = short_lease(backend.gate(&upstream)).start();
    for round in 0..4 {
        let address = gate.address().clone();
        let sending = crate::harness::client::beside(move || {
            parallel(KEYS, |index| {
                let Ok(socket) = address.connect() else { return };
                drop(socket);
                let mut client = Req::pay(&format!("r{round}-k{index}")).begin(&address);
                let _ = client.try_response_to("POST");
            })
        });
        // As soon as anything of this round was executed, whatever the others are doing.
        upstream.wait_executions(upstream.executions_total() + 1);
        gate.kill_9();
        let _ = sending.join();
        gate.restart();
    }
    for round in 0..4 {
        for index in 0..KEYS {
            let key = format!("r{round}-k{index}");
            let answer = gate.send_until_not(&Req::pay(&key), "in-progress");
            match answer.status {
                201 => assert_eq!(answer.text(), "{\"paid\":1}", "{key}"),
                409 => drop(answer.expect(409, "outcome-unknown", "unknown")),
                other => panic!("{key}: {other}"),
            }
            assert!(upstream.executions(&key) <= 1, "{key} was executed {} times", upstream.executions(&key));
        }
    }
}

#[test]
fn killed_before_the_completion_is_written_the_retry_is_held() {
    let redis = RedisServer::start();
    let chaos = Chaos::before(redis.address());
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        exchange.execute();
        held.wait();
        exchange.answer(201, &[], b"answered");
    }));
    let mut gate = short_lease(Gate::before(&upstream).store(&format!("redis://{}/0", chaos.address()))).start();
    let request = Req::pay("k1");
    let mut client = request.begin(gate.address());
    upstream.wait_executions(1);
    // The answer comes, the completion is on its way, and then the power goes.
    chaos.stall_requests();
    let before = chaos.requests();
    latch.open();
    gate.wait_until("a command is on its way", || chaos.requests() > before);
    gate.kill_9();
    assert!(client.try_response_to("POST").is_none(), "an unrecorded answer was not given out as recorded");
    chaos.cut();
    chaos.restore();
    gate.restart();
    gate.send_until_not(&request, "in-progress").expect(409, "outcome-unknown", "unknown");
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn a_second_gate_on_the_same_file_is_refused_with_the_remedy() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).store("file:cells.redb").start();
    let second = gate.config.clone();
    let (code, log) = second.start_expecting_exit();
    assert_eq!(code, 73, "{log}");
    assert!(log.contains("cells.redb"), "the message names the file: {log}");
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
}
