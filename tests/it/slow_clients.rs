//! Clients that take their time: an answer is not over before it has left.

use std::time::Duration;

use crate::harness::{
    client::Req,
    gate::Gate,
    upstream::{Script, Upstream},
};

/// More than the kernel takes off our hands for a client that does not read.
const LARGE: usize = 14 << 20;

fn verbose_upstream() -> Upstream {
    Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        exchange.answer(201, &[], &vec![b'x'; LARGE]);
    }))
}

fn gate_before(upstream: &Upstream) -> Gate {
    let gate = Gate::before(upstream).set("server", "idle_timeout = \"1s\"").set("server", "shutdown_grace = \"30s\"");
    gate.defaults("max_response_body = \"16MiB\"").start()
}

#[test]
fn an_answer_that_is_read_slowly_is_not_cut_by_the_idle_timeout() {
    let upstream = verbose_upstream();
    let gate = gate_before(&upstream);
    let mut slow = Req::pay("k1").begin(gate.address());
    gate.wait_log("the answer", |event| event["message"] == "request" && event["outcome"] == "executed");
    // A connection that falls idle later than the slow one would have: when it is closed, that one was spared.
    let mut idle = gate.connect();
    idle.send(&Req::new("TRACE", "/").bytes());
    assert_eq!(idle.response().status, 405);
    idle.expect_closed();
    let answer = slow.response();
    assert_eq!((answer.status, answer.body.len()), (201, LARGE));
}

#[test]
fn a_drain_lets_an_answer_leave_that_is_read_slowly() {
    let upstream = verbose_upstream();
    let mut gate = gate_before(&upstream);
    let mut slow = Req::pay("k1").begin(gate.address());
    gate.wait_log("the answer", |event| event["message"] == "request" && event["outcome"] == "executed");
    gate.sigterm();
    gate.wait_until("the listener is closed", || gate.address().connect().is_err());
    let answer = slow.response();
    assert_eq!((answer.status, answer.body.len()), (201, LARGE));
    assert_eq!(gate.wait_exit(Duration::from_secs(20)), 0);
}
