//! A real redis-server as a child of the test: on a free port, in a directory of its own, without persistence
//! unless asked for.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::wire::{Address, DEADLINE};

/// A running redis-server. Dropping it kills it.
pub(crate) struct RedisServer {
    child: Child,
    port: u16,
    dir: TempDir,
    args: Vec<String>,
}

impl RedisServer {
    /// A server that keeps its data over `kill` and `restart` (append-only file, synced always).
    pub(crate) fn start() -> Self {
        Self::start_with(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    pub(crate) fn start_with(args: &[&str]) -> Self {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        // Between the choice of a free port and its use someone else may take it: then another one.
        for _ in 0..5 {
            let dir = tempfile::Builder::new().prefix("oncegate-redis-").tempdir().unwrap();
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
            let mut server = Self { child: spawn(port, &dir, &args), port, dir, args: args.clone() };
            if server.is_up() {
                return server;
            }
        }
        panic!("redis-server does not start; is it installed?");
    }

    pub(crate) fn address(&self) -> Address {
        Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)))
    }

    /// For `store.url`.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`, and waits until it is dead.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again on the same port with the same data.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.child = spawn(self.port, &self.dir, &self.args);
        assert!(self.is_up(), "redis-server does not start again");
    }

    /// Freezes the process.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Thaws it.
    pub(crate) fn cont(&self) {
        self.signal(Signal::CONT);
    }

    /// Runs one command with plain words and returns the raw reply.
    pub(crate) fn command(&self, words: &[&str]) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        stream.write_all(request.as_bytes()).unwrap();
        // QUIT ends the connection behind the reply, so that the reply can be read to its end.
        stream.write_all(b"*1\r\n$4\r\nQUIT\r\n").unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        let reply = String::from_utf8_lossy(&reply).into_owned();
        reply.strip_suffix("+OK\r\n").unwrap_or(&reply).to_owned()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap(), signal).unwrap();
    }

    /// Waits until it answers; false if it ended instead.
    fn is_up(&mut self) -> bool {
        let end = Instant::now() + DEADLINE;
        while Instant::now() < end {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            let ping = |server: &Self| server.command(&["PING"]);
            // One that wants a password is up as well.
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok()
                && ["PONG", "NOAUTH"].iter().any(|word| ping(self).contains(word))
            {
                return true;
            }
            thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(port: u16, dir: &TempDir, args: &[String]) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(dir.path())
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("redis-server cannot be started ({error}); install it to run these tests"))
}
