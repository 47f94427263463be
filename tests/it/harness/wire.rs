//! HTTP/1.1 as bytes: what the scripted upstream and the raw client have in common.
//!
//! Deliberately not the parser under test, and deliberately simple: it keeps what it reads exactly as it came
//! (order, letter case, repeated lines) and panics on nothing but a deadline.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

/// How long anything in a test may take before the test is called broken.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Where a listener is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    pub(crate) fn connect(&self) -> io::Result<Socket> {
        let socket = match self {
            Self::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, DEADLINE)?;
                stream.set_nodelay(true)?;
                Socket::Tcp(stream)
            }
            Self::Unix(path) => Socket::Unix(UnixStream::connect(path)?),
        };
        socket.set_read_timeout(Some(DEADLINE));
        Ok(socket)
    }

    /// The address of a TCP listener.
    pub(crate) fn tcp(&self) -> SocketAddr {
        match self {
            Self::Tcp(address) => *address,
            Self::Unix(path) => panic!("{} is a unix socket", path.display()),
        }
    }
}

/// A connected socket of either family.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    pub(crate) fn try_clone(&self) -> Self {
        match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone().unwrap()),
            Self::Unix(stream) => Self::Unix(stream.try_clone().unwrap()),
        }
    }

    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(timeout).unwrap(),
            Self::Unix(stream) => stream.set_read_timeout(timeout).unwrap(),
        }
    }

    pub(crate) fn set_write_timeout(&self, timeout: Option<Duration>) {
        match self {
            Self::Tcp(stream) => stream.set_write_timeout(timeout).unwrap(),
            Self::Unix(stream) => stream.set_write_timeout(timeout).unwrap(),
        }
    }

    /// Closes one or both directions. A peer that is gone already is no error.
    pub(crate) fn shutdown(&self, how: Shutdown) {
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
        };
    }

    /// Makes the last close of this socket send a reset instead of an end.
    pub(crate) fn reset_on_close(&self) {
        rustix::net::sockopt::set_socket_linger(self.fd(), Some(Duration::ZERO)).unwrap();
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buf),
            Self::Unix(stream) => stream.read(buf),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(buf),
            Self::Unix(stream) => stream.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Header or trailer lines in order, names in the letters they came in.
pub(crate) type Lines = Vec<(String, String)>;

/// All values of `name`, in order.
pub(crate) fn values<'a>(lines: &'a Lines, name: &str) -> Vec<&'a str> {
    lines.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str()).collect()
}

/// A start line and header lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) start: String,
    pub(crate) lines: Lines,
    /// Every byte of it, with the empty line.
    pub(crate) raw: Vec<u8>,
}

impl Head {
    fn parse(raw: Vec<u8>) -> Self {
        let text = latin1(&raw);
        let mut lines = text.split("\r\n");
        let start = lines.next().unwrap_or_default().to_owned();
        let lines = lines
            .filter(|line| !line.is_empty())
            .map(|line| {
                let (name, value) = line.split_once(':').unwrap_or((line, ""));
                (name.to_owned(), value.trim_matches([' ', '\t']).to_owned())
            })
            .collect();
        Self { start, lines, raw }
    }

    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        values(&self.lines, name)
    }

    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.values(name).first().copied()
    }

    pub(crate) fn has_chunked(&self) -> bool {
        self.values("transfer-encoding").iter().any(|v| v.to_ascii_lowercase().ends_with("chunked"))
    }
}

/// One char per byte, so that nothing is lost.
pub(crate) fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// How much of a body there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    UntilEnd,
}

/// A body as far as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadBody {
    pub(crate) bytes: Vec<u8>,
    pub(crate) trailers: Lines,
    /// Whether it ended as its framing demands.
    pub(crate) complete: bool,
}

/// Reads messages from a socket and remembers every byte.
#[derive(Debug)]
pub(crate) struct MessageReader {
    socket: Socket,
    buffer: Vec<u8>,
    /// Everything that was ever read, unless `forget` is set.
    seen: Arc<Mutex<Vec<u8>>>,
    pub(crate) forget: bool,
    ended: bool,
}

impl MessageReader {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, buffer: Vec::new(), seen: Arc::default(), forget: false, ended: false }
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(crate) fn socket_mut(&mut self) -> &mut Socket {
        &mut self.socket
    }

    /// Everything that was read so far, seen live from other threads.
    pub(crate) fn seen(&self) -> Arc<Mutex<Vec<u8>>> {
        Arc::clone(&self.seen)
    }

    /// Reads once. False at the end, at a reset and when the peer is silent for the socket's timeout.
    pub(crate) fn fill(&mut self) -> bool {
        let mut chunk = [0; 64 * 1024];
        loop {
            match self.socket.read(&mut chunk) {
                Ok(0) => {
                    self.ended = true;
                    return false;
                }
                Ok(n) => {
                    self.buffer.extend_from_slice(&chunk[..n]);
                    if !self.forget {
                        self.seen.lock().unwrap().extend_from_slice(&chunk[..n]);
                    }
                    return true;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return false;
                }
                Err(_) => {
                    self.ended = true;
                    return false;
                }
            }
        }
    }

    /// Whether the peer has ended or reset the connection and nothing is left to read.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended && self.buffer.is_empty()
    }

    /// The next head; `None` when the connection ends before its empty line. Leading empty lines are skipped.
    pub(crate) fn head(&mut self) -> Option<Head> {
        loop {
            while self.buffer.starts_with(b"\r\n") {
                self.buffer.drain(..2);
            }
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                return Some(Head::parse(self.buffer.drain(..end + 4).collect()));
            }
            if !self.fill() {
                return None;
            }
        }
    }

    /// The body of a message; it is incomplete when the connection ended first.
    pub(crate) fn body(&mut self, framing: Framing) -> ReadBody {
        let mut body = ReadBody::default();
        match framing {
            Framing::Length(length) => {
                let length = usize::try_from(length).unwrap();
                while self.buffer.len() < length && self.fill() {}
                let there = length.min(self.buffer.len());
                body.bytes = self.buffer.drain(..there).collect();
                body.complete = there == length;
            }
            Framing::UntilEnd => {
                while self.fill() {}
                body.bytes = std::mem::take(&mut self.buffer);
                body.complete = self.ended;
            }
            Framing::Chunked => self.chunks(&mut body),
        }
        body
    }

    fn chunks(&mut self, body: &mut ReadBody) {
        loop {
            let Some(line) = self.line() else { return };
            let size = line.split(';').next().unwrap_or_default().trim().to_owned();
            let Ok(size) = usize::from_str_radix(&size, 16) else { return };
            if size == 0 {
                while let Some(line) = self.line() {
                    if line.is_empty() {
                        body.complete = true;
                        return;
                    }
                    let (name, value) = line.split_once(':').unwrap_or((&line, ""));
                    body.trailers.push((name.to_owned(), value.trim().to_owned()));
                }
                return;
            }
            while self.buffer.len() < size + 2 && self.fill() {}
            let there = size.min(self.buffer.len());
            body.bytes.extend(self.buffer.drain(..there));
            if there < size || self.buffer.len() < 2 {
                return;
            }
            self.buffer.drain(..2);
        }
    }

    /// The next line without its end.
    pub(crate) fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Some(latin1(&line[..end]));
            }
            if !self.fill() {
                return None;
            }
        }
    }

    /// Exactly `n` bytes, or as many as came.
    pub(crate) fn exactly(&mut self, n: usize) -> Vec<u8> {
        while self.buffer.len() < n && self.fill() {}
        let there = n.min(self.buffer.len());
        self.buffer.drain(..there).collect()
    }

    /// Reads until `pattern` was seen and returns everything up to its end.
    pub(crate) fn until(&mut self, pattern: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = find(&self.buffer, pattern) {
                return self.buffer.drain(..at + pattern.len()).collect();
            }
            if !self.fill() {
                let so_far = latin1(&self.buffer);
                panic!("the connection ended or fell silent before {:?}; so far: {so_far:?}", latin1(pattern));
            }
        }
    }

    /// What was read and not yet taken.
    pub(crate) fn take_buffered(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }
}

/// Where `needle` begins.
pub(crate) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
