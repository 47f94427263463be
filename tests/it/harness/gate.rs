//! The real binary: configured, started, watched, killed and started again.
//!
//! A gate listens on free ports and says in its log which ones. The log is read as it is written; tests wait for
//! its lines, and a failed test prints it.

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{
    client::{Client, Req, Response},
    sync::Watched,
    upstream::Upstream,
    wire::{Address, DEADLINE},
};

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_oncegate");

/// The admin token of every test gate.
pub(crate) const ADMIN_TOKEN: &str = "admin-token-of-the-tests";

/// A configuration in the making.
#[derive(Clone, Debug)]
pub(crate) struct GateBuilder {
    sections: Vec<(String, Vec<String>)>,
    routes: Vec<String>,
    dir: Arc<TempDir>,
    wait_ready: bool,
}

impl GateBuilder {
    /// A gate before this upstream, on the memory store, on free ports.
    pub(crate) fn new(upstream_url: &str) -> Self {
        let dir = Arc::new(tempfile::Builder::new().prefix("oncegate-it-").tempdir().unwrap());
        let builder = Self { sections: Vec::new(), routes: Vec::new(), dir, wait_ready: true };
        builder
            .set("server", "listen = \"127.0.0.1:0\"")
            .set("admin", "listen = \"127.0.0.1:0\"")
            .set("admin", &format!("token = {ADMIN_TOKEN:?}"))
            .set("upstream", &format!("url = {upstream_url:?}"))
            .set("store", "url = \"memory:\"")
    }

    /// Sets one `key = value` of a section; an earlier value of the same key is replaced.
    pub(crate) fn set(mut self, section: &str, line: &str) -> Self {
        let key = |line: &str| line.split('=').next().unwrap_or_default().trim().to_owned();
        let index = match self.sections.iter().position(|(name, _)| name == section) {
            Some(index) => index,
            None => {
                self.sections.push((section.to_owned(), Vec::new()));
                self.sections.len() - 1
            }
        };
        let lines = &mut self.sections[index].1;
        lines.retain(|old| key(old) != key(line));
        lines.push(line.to_owned());
        self
    }

    pub(crate) fn store(self, url: &str) -> Self {
        self.set("store", &format!("url = {url:?}"))
    }

    /// Sets one key of `[defaults]`.
    pub(crate) fn defaults(self, line: &str) -> Self {
        self.set("defaults", line)
    }

    /// Adds a `[[route]]`.
    pub(crate) fn route(mut self, lines: &str) -> Self {
        self.routes.push(lines.to_owned());
        self
    }

    /// Starts without waiting until `/readyz` says so.
    pub(crate) fn unready(mut self) -> Self {
        self.wait_ready = false;
        self
    }

    /// The directory of the configuration file, which relative store paths start from.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join("oncegate.toml")
    }

    pub(crate) fn toml(&self) -> String {
        let mut toml = String::new();
        for (name, lines) in &self.sections {
            toml += &format!("[{name}]\n{}\n\n", lines.join("\n"));
        }
        for route in &self.routes {
            toml += &format!("[[route]]\n{route}\n\n");
        }
        toml
    }

    pub(crate) fn write(&self) {
        std::fs::write(self.file(), self.toml()).unwrap();
    }

    /// Starts the gate and waits until it listens.
    pub(crate) fn start(&self) -> Gate {
        self.write();
        let mut gate = Gate::spawn(self.clone());
        gate.find_listeners();
        if self.wait_ready {
            gate.wait_ready();
        }
        gate
    }

    /// Starts a gate that is expected to end by itself; returns its exit code and its log.
    pub(crate) fn start_expecting_exit(&self) -> (i32, String) {
        self.write();
        let mut gate = Gate::spawn(self.clone());
        let code = gate.wait_exit(DEADLINE);
        (code, gate.log_text())
    }
}

/// A running gate. Dropping it kills it.
pub(crate) struct Gate {
    pub(crate) config: GateBuilder,
    child: Child,
    log: Arc<Watched<Log>>,
    address: Address,
    admin: Address,
}

#[derive(Debug, Default)]
struct Log {
    lines: Vec<String>,
    ended: bool,
}

impl Gate {
    /// A gate on the memory store before this upstream.
    pub(crate) fn before(upstream: &Upstream) -> GateBuilder {
        GateBuilder::new(&upstream.url())
    }

    fn spawn(config: GateBuilder) -> Self {
        let mut command = Command::new(BINARY);
        command.arg("run").arg("--config").arg(config.file()).current_dir(config.dir());
        Self::spawn_command(config, command)
    }

    /// Starts the binary with this command line instead of a file. `config` lends its directory.
    pub(crate) fn spawn_with(config: &GateBuilder, args: &[&str]) -> Self {
        let mut command = Command::new(BINARY);
        command.args(args).current_dir(config.dir());
        let mut gate = Self::spawn_command(config.clone(), command);
        gate.find_listeners();
        gate
    }

    fn spawn_command(config: GateBuilder, mut command: Command) -> Self {
        let mut child = command
            .env_remove("ONCEGATE_CONFIG")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {BINARY}: {error}"));
        let log = Arc::new(Watched::<Log>::default());
        let stderr = child.stderr.take().unwrap();
        let writing = Arc::clone(&log);
        thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n') {
                let Ok(line) = line else { break };
                let line = String::from_utf8_lossy(&line).into_owned();
                writing.update(|log| log.lines.push(line));
            }
            writing.update(|log| log.ended = true);
        });
        let stdout = child.stdout.take().unwrap();
        let writing = Arc::clone(&log);
        thread::spawn(move || {
            // Nothing belongs there; if something comes, the tests on secrets look at it too.
            for line in BufReader::new(stdout).split(b'\n') {
                let Ok(line) = line else { break };
                let line = format!("stdout: {}", String::from_utf8_lossy(&line));
                writing.update(|log| log.lines.push(line));
            }
        });
        let nowhere = Address::Unix(PathBuf::from("/nonexistent"));
        Self { config, child, log, address: nowhere.clone(), admin: nowhere }
    }

    fn find_listeners(&mut self) {
        self.address = address_of(&self.wait_event("listening"));
        if self.config.toml().contains("listen = \"off\"") {
            return;
        }
        self.admin = address_of(&self.wait_event("admin listening"));
    }

    /// Where clients connect.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn admin(&self) -> &Address {
        &self.admin
    }

    /// Sends a request on a connection of its own and reads the answer.
    pub(crate) fn send(&self, request: &Req) -> Response {
        request.send(&self.address)
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(&self.address)
    }

    /// Sends these bytes on a connection of its own and returns that.
    pub(crate) fn raw(&self, bytes: impl AsRef<[u8]>) -> Client {
        let mut client = self.connect();
        client.send(bytes.as_ref());
        client
    }

    /// Asks the admin listener without a token.
    pub(crate) fn admin_get(&self, path: &str) -> Response {
        Req::get(path).send(&self.admin)
    }

    /// Waits until `/readyz` answers 200.
    pub(crate) fn wait_ready(&self) {
        self.wait_until("the gate is ready", || self.admin_get("/readyz").status == 200);
    }

    /// Waits until `/readyz` answers anything but 200.
    pub(crate) fn wait_not_ready(&self) {
        self.wait_until("the gate is not ready", || self.admin_get("/readyz").status != 200);
    }

    /// Asks again and again: for what has no event a test could see.
    pub(crate) fn wait_until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let end = Instant::now() + DEADLINE;
        while !condition() {
            assert!(Instant::now() < end, "waited in vain until {what}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends `request` until the answer is no longer refused by `Idempotency-Status: status` with this slug.
    pub(crate) fn send_until_not(&self, request: &Req, slug: &str) -> Response {
        let mut answer = self.send(request);
        self.wait_until(&format!("{slug} is over"), || {
            if answer.slug() == slug {
                answer = self.send(request);
            }
            answer.slug() != slug
        });
        answer
    }

    /// Sends `request` until neither the store nor a former attempt stands in its way.
    pub(crate) fn send_until_settled(&self, request: &Req) -> Response {
        let mut answer = self.send(request);
        self.wait_until("the store and the first attempt are done", || {
            let settled = !["in-progress", "store-unavailable"].contains(&answer.slug().as_str());
            if !settled {
                answer = self.send(request);
            }
            settled
        });
        answer
    }

    pub(crate) fn log_lines(&self) -> Vec<String> {
        self.log.lock().lines.clone()
    }

    pub(crate) fn log_text(&self) -> String {
        self.log_lines().join("\n")
    }

    /// Waits for a JSON log line with exactly this message.
    pub(crate) fn wait_event(&self, message: &str) -> serde_json::Value {
        self.wait_log(&format!("message {message:?}"), |event| {
            field(event, "message").and_then(serde_json::Value::as_str) == Some(message)
        })
    }

    /// Waits for a JSON log line for which `wanted` holds.
    pub(crate) fn wait_log(&self, what: &str, wanted: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        let found = self.log.wait_for(DEADLINE, |log| {
            let line = log.lines.iter().find_map(|line| {
                let event = serde_json::from_str(line).ok()?;
                wanted(&event).then_some(event)
            });
            line.map(Some).or(log.ended.then_some(None))
        });
        found.flatten().unwrap_or_else(|| panic!("the gate did not log {what}; its log:\n{}", self.log_text()))
    }

    /// How many log lines contain `text`.
    pub(crate) fn log_count(&self, text: &str) -> usize {
        self.log_lines().iter().filter(|line| line.contains(text)).count()
    }

    /// Waits until a log line contains `text`.
    pub(crate) fn wait_log_text(&self, text: &str) {
        self.log
            .wait_for(DEADLINE, |log| log.lines.iter().any(|line| line.contains(text)).then_some(()))
            .unwrap_or_else(|| panic!("the gate did not log {text:?}; its log:\n{}", self.log_text()));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub(crate) fn sigterm(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn sighup(&self) {
        self.signal(Signal::HUP);
    }

    /// Stops the process where it stands, and waits until the kernel says that it has.
    pub(crate) fn sigstop(&self) {
        self.signal(Signal::STOP);
        self.wait_until("the process is stopped", || self.status_field("State").starts_with('T'));
    }

    pub(crate) fn sigcont(&self) {
        self.signal(Signal::CONT);
    }

    /// `kill -9`, and waits until it is dead.
    pub(crate) fn kill_9(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts the same configuration again; the former process must be dead.
    pub(crate) fn restart(&mut self) {
        assert!(self.exited().is_some(), "the gate still runs");
        let mut next = Self::spawn(self.config.clone());
        next.find_listeners();
        next.wait_ready();
        *self = next;
    }

    fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.exited().is_none()
    }

    /// Waits for the end of the process; a death by signal is `128 + signal`.
    pub(crate) fn wait_exit(&mut self, patience: Duration) -> i32 {
        let end = Instant::now() + patience;
        let status = loop {
            if let Some(status) = self.exited() {
                break status;
            }
            assert!(Instant::now() < end, "the gate does not end within {patience:?}; its log:\n{}", self.log_text());
            thread::sleep(Duration::from_millis(5));
        };
        // The pipe is read to its end, so that the log is whole.
        self.log.wait_for(DEADLINE, |log| log.ended.then_some(()));
        use std::os::unix::process::ExitStatusExt;
        status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap()
    }

    /// The peak of the resident set, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let peak = self.status_field("VmHWM");
        peak.trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
    }

    fn status_field(&self, name: &str) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let prefix = format!("{name}:");
        status.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap().trim().to_owned()
    }

    /// The data plane's port.
    pub(crate) fn port(&self) -> u16 {
        self.address.tcp().port()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Whatever a test is about: no request, file or store may make the gate panic.
        if !thread::panicking() {
            self.log.wait_for(DEADLINE, |log| log.ended.then_some(()));
            assert_eq!(self.log_count("a task panicked"), 0, "{}", self.log_text());
        }
        if thread::panicking() {
            eprintln!("---- log of the gate ----\n{}\n---- end of the log ----", self.log_text());
        }
    }
}

/// A field of a JSON log line, whether the fields are flattened or not.
pub(crate) fn field<'a>(event: &'a serde_json::Value, name: &str) -> Option<&'a serde_json::Value> {
    event.get(name).or_else(|| event.get("fields")?.get(name))
}

fn address_of(event: &serde_json::Value) -> Address {
    let text =
        field(event, "address").and_then(|value| value.as_str()).unwrap_or_else(|| panic!("no address in {event}"));
    match text.strip_prefix("unix:") {
        Some(path) => Address::Unix(PathBuf::from(path)),
        None => Address::Tcp(text.parse().unwrap_or_else(|error| panic!("{text:?} is no address: {error}"))),
    }
}

/// What a command printed and how it ended.
#[derive(Clone, Debug)]
pub(crate) struct CliOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the binary to its end in an empty directory.
pub(crate) fn run_cli(args: &[&str]) -> CliOutput {
    let dir = tempfile::tempdir().unwrap();
    run_cli_in(dir.path(), args)
}

/// Runs the binary to its end in this directory.
pub(crate) fn run_cli_in(dir: &Path, args: &[&str]) -> CliOutput {
    let mut child = Command::new(BINARY)
        .args(args)
        .current_dir(dir)
        .env_remove("ONCEGATE_CONFIG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let reading = thread::spawn(move || {
        let mut text = Vec::new();
        stdout.read_to_end(&mut text).unwrap();
        text
    });
    let mut errors = Vec::new();
    stderr.read_to_end(&mut errors).unwrap();
    let status = child.wait().unwrap();
    CliOutput {
        code: status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&reading.join().unwrap()).into_owned(),
        stderr: String::from_utf8_lossy(&errors).into_owned(),
    }
}
