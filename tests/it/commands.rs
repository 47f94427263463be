//! What the commands say about a gate, against what the gate does; and what a gate bears from those who run it.

use std::{
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{
    client::Req,
    gate::{BINARY, Gate, run_cli},
    upstream::Upstream,
    wire::Address,
};

#[test]
fn explain_names_the_cell_that_the_gate_uses() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    let request = Req::pay("k1").host("api.test").body("{}");
    gate.send(&request).expect(201, "", "executed");
    let event = gate.wait_log("the request", |event| event["message"] == "request");
    let logged = event["cell"].as_str().unwrap().trim_start_matches("cell:").to_owned();
    assert!(logged.len() >= 8, "{event}");

    let file = gate.config.file();
    let mut arguments = vec!["explain".to_owned(), "--config".to_owned(), file.to_str().unwrap().to_owned()];
    arguments.extend(["POST".to_owned(), "/pay".to_owned(), "-d".to_owned(), "{}".to_owned()]);
    let head = String::from_utf8(request.head_bytes()).unwrap();
    for line in head.lines().skip(1).filter(|line| !line.is_empty()) {
        arguments.extend(["-H".to_owned(), line.to_owned()]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = run_cli(&arguments);
    assert_eq!(output.code, 0, "{output:?}");
    let cell = output.stdout.lines().find_map(|line| line.strip_prefix("cell ")).unwrap().trim().to_owned();
    assert_eq!(cell.len(), 64, "{cell}");
    assert!(cell.starts_with(&logged), "{cell} {logged}");
}

/// A child that is killed whatever becomes of the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_log_that_nobody_reads_stops_neither_requests_nor_the_end() {
    let upstream = Upstream::paying();
    let config = Gate::before(&upstream).set("server", "listen = \"unix:gate.sock\"").set("admin", "listen = \"off\"");
    config.write();
    let socket = config.dir().join("gate.sock");
    let text = config.toml().replace("unix:gate.sock", &format!("unix:{}", socket.display()));
    std::fs::write(config.file(), text).unwrap();
    // The pipe is open and never read: it holds 64 KiB, some three hundred lines.
    let mut gate = Started(
        Command::new(BINARY)
            .arg("run")
            .arg("--config")
            .arg(config.file())
            .current_dir(config.dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let began = Instant::now();
    while !socket.exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "the gate does not listen");
        thread::sleep(Duration::from_millis(5));
    }
    let address = Address::Unix(socket);
    for number in 0..1000 {
        Req::pay(&format!("k{number}")).send(&address).expect(201, "", "executed");
    }
    kill_process(Pid::from_child(&gate.0), Signal::TERM).unwrap();
    let began = Instant::now();
    let status = loop {
        if let Some(status) = gate.0.try_wait().unwrap() {
            break status;
        }
        assert!(began.elapsed() < Duration::from_secs(5), "the gate does not end");
        thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(0));
}
