//! A gigabyte each way through a gate that keeps none of it, with a slow reader on the other side.

use std::{
    io::{Read, Write},
    sync::Arc,
};

use crate::harness::{
    client::Req,
    gate::Gate,
    sync::{Latch, Watched},
    upstream::{Script, Upstream},
    wire::DEADLINE,
};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// What the gate may need at its peak.
const PEAK: u64 = 64 * MIB;

/// Writes `total` bytes; false if the peer left.
fn pour(socket: &mut impl Write, total: u64) -> bool {
    let block = vec![b'x'; 256 * 1024];
    let mut left = total;
    while left > 0 {
        let n = usize::try_from(left.min(block.len() as u64)).unwrap();
        if socket.write_all(&block[..n]).is_err() {
            return false;
        }
        left -= n as u64;
    }
    true
}

/// Reads `total` bytes less what is there already; returns how many came.
fn swallow(socket: &mut impl Read, already: usize, total: u64) -> u64 {
    let mut buffer = vec![0; 256 * 1024];
    let mut read = already as u64;
    while read < total {
        match socket.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(n) => read += n as u64,
        }
    }
    read
}

#[test]
fn a_gigabyte_up_to_a_slow_upstream() {
    let slow = Latch::new();
    let waiting = slow.clone();
    let received = Arc::new(Watched::new(0));
    let counted = Arc::clone(&received);
    let upstream = Upstream::start(Script::on_head(move |exchange| {
        let length: u64 = exchange.request.value("content-length").unwrap().parse().unwrap();
        // Reads nothing until the client can write no more, then everything.
        waiting.wait();
        let (already, socket) = exchange.unlogged();
        let read = swallow(socket, already.len(), length);
        counted.update(|count| *count = read);
        exchange.answer(200, &[], b"thanks");
    }));
    let gate = Gate::before(&upstream).start();
    let mut client = gate.connect();
    client.send(&Req::new("PUT", "/up").header("Content-Length", &GIB.to_string()).head_bytes());
    let (_, socket) = client.unlogged();
    let written = fill_up(socket);
    assert!(written < 64 * MIB, "{written} bytes went into a gate whose upstream reads nothing");
    slow.open();
    assert!(pour(socket, GIB - written));
    assert_eq!(client.response().text(), "thanks");
    assert_eq!(*received.lock(), GIB);
    assert!(gate.peak_memory() < PEAK, "the gate's peak is {} MiB", gate.peak_memory() / MIB);
}

#[test]
fn a_gigabyte_down_to_a_slow_client() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {GIB}\r\n\r\n").as_bytes());
        let (_, socket) = exchange.unlogged();
        pour(socket, GIB);
    }));
    let gate = Gate::before(&upstream).start();
    let mut client = Req::get("/down").begin(gate.address());
    let (head, _) = client.final_head().unwrap();
    assert_eq!(head.value("content-length"), Some(GIB.to_string().as_str()));
    // The client reads nothing until everything in between is full; then it reads everything.
    let mut last = 0;
    gate.wait_until("the gate stops growing", || {
        let now = gate.peak_memory();
        let still = now == last;
        last = now;
        still
    });
    let (already, socket) = client.unlogged();
    assert_eq!(swallow(socket, already.len(), GIB), GIB);
    assert!(gate.peak_memory() < PEAK, "the gate's peak is {} MiB", gate.peak_memory() / MIB);
}

#[test]
fn a_large_answer_to_a_protected_request_is_not_held_in_memory_either() {
    const SIZE: u64 = 256 * MIB;
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        exchange.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").as_bytes());
        let (_, socket) = exchange.unlogged();
        pour(socket, SIZE);
    }));
    let gate = Gate::before(&upstream).start();
    let mut client = Req::pay("k1").begin(gate.address());
    let (head, _) = client.final_head().unwrap();
    assert_eq!(head.value("idempotency-status"), Some("executed"));
    let (already, socket) = client.unlogged();
    assert_eq!(swallow(socket, already.len(), SIZE), SIZE);
    gate.send(&Req::pay("k1")).expect(409, "answer-not-kept", "executed");
    assert_eq!(upstream.executions("k1"), 1);
    assert!(gate.peak_memory() < PEAK, "the gate's peak is {} MiB", gate.peak_memory() / MIB);
}

#[test]
fn a_slow_reader_does_not_hold_up_the_others() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        if exchange.request.target == "/large" {
            exchange.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 64 * MIB).as_bytes());
            let (_, socket) = exchange.unlogged();
            pour(socket, 64 * MIB);
        } else {
            exchange.pay();
        }
    }));
    let gate = Gate::before(&upstream).start();
    let mut slow = Req::get("/large").begin(gate.address());
    slow.final_head().unwrap();
    for index in 0..20 {
        gate.send(&Req::pay(&format!("k{index}"))).expect(201, "", "executed");
    }
    let (already, socket) = slow.unlogged();
    assert_eq!(swallow(socket, already.len(), 64 * MIB), 64 * MIB);
}

/// Writes until nothing more is taken for a while; returns how much was.
fn fill_up(socket: &mut crate::harness::wire::Socket) -> u64 {
    socket.set_write_timeout(Some(std::time::Duration::from_millis(300)));
    let block = vec![b'x'; 64 * 1024];
    let mut written = 0;
    while let Ok(n) = socket.write(&block) {
        written += n as u64;
    }
    socket.set_write_timeout(Some(DEADLINE));
    written
}
