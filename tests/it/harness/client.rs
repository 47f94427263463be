//! A raw HTTP/1.1 client: exact bytes out, every byte in, and a builder for the usual request.

use std::{
    io::Write,
    net::Shutdown,
    thread,
    time::{Duration, Instant},
};

use super::wire::{Address, DEADLINE, Framing, Head, Lines, MessageReader, ReadBody, Socket, values};

/// What every test request says unless told otherwise.
pub(crate) const HOST: &str = "api.test";

/// A request to be sent, as lines in order.
#[derive(Clone, Debug)]
pub(crate) struct Req {
    method: String,
    target: String,
    lines: Lines,
    body: Vec<u8>,
    chunked: bool,
}

impl Req {
    pub(crate) fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            lines: vec![("Host".to_owned(), HOST.to_owned())],
            body: Vec::new(),
            chunked: false,
        }
    }

    pub(crate) fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// A POST with a small JSON body.
    pub(crate) fn post(target: &str) -> Self {
        Self::new("POST", target).header("Content-Type", "application/json").body(r#"{"amount":1}"#)
    }

    /// The usual protected request: POST /pay by caller `a` under this key.
    pub(crate) fn pay(key: &str) -> Self {
        Self::post("/pay").auth("a").key(key)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.lines.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.lines.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self
    }

    pub(crate) fn host(self, host: &str) -> Self {
        self.without("host").header("Host", host)
    }

    /// The key as a structured-field string.
    pub(crate) fn key(self, key: &str) -> Self {
        self.header("Idempotency-Key", &format!("\"{key}\""))
    }

    pub(crate) fn auth(self, token: &str) -> Self {
        self.without("authorization").header("Authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends the body as one chunk without a length.
    pub(crate) fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }

    /// Only the head, with the framing fields of the body.
    pub(crate) fn head_bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        for (name, value) in &self.lines {
            head.extend_from_slice(format!("{name}: ").as_bytes());
            // Values are latin-1, as everything in this harness.
            head.extend(value.chars().map(|c| u8::try_from(u32::from(c)).unwrap()));
            head.extend_from_slice(b"\r\n");
        }
        let framed = self
            .lines
            .iter()
            .any(|(n, _)| n.eq_ignore_ascii_case("content-length") || n.eq_ignore_ascii_case("transfer-encoding"));
        if self.chunked {
            head.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        } else if !framed && (!self.body.is_empty() || self.method == "POST" || self.method == "PATCH") {
            head.extend_from_slice(format!("Content-Length: {}\r\n", self.body.len()).as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    /// The whole request.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head_bytes();
        if self.chunked {
            if !self.body.is_empty() {
                bytes.extend_from_slice(format!("{:x}\r\n", self.body.len()).as_bytes());
                bytes.extend_from_slice(&self.body);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
        } else {
            bytes.extend_from_slice(&self.body);
        }
        bytes
    }

    /// Sends it on a connection of its own and reads the answer.
    pub(crate) fn send(&self, to: &Address) -> Response {
        let mut client = Client::connect(to);
        client.send(&self.bytes());
        client.response_to(&self.method)
    }

    /// Sends it on a connection of its own and returns that, the answer unread.
    pub(crate) fn begin(&self, to: &Address) -> Client {
        let mut client = Client::connect(to);
        client.send(&self.bytes());
        client
    }
}

/// A final answer, every line of it.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Lines,
    /// Whether the body ended as its framing demands.
    pub(crate) complete: bool,
    /// Interim answers that came before.
    pub(crate) interim: Vec<Head>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.value(name)
    }

    pub(crate) fn headers(&self, name: &str) -> Vec<&str> {
        self.head.values(name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        !self.headers(name).is_empty()
    }

    /// `Idempotency-Status`; empty if there is none.
    pub(crate) fn idempotency(&self) -> &str {
        self.header("idempotency-status").unwrap_or_default()
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// The slug of a problem document; empty if the answer is none.
    pub(crate) fn slug(&self) -> String {
        if self.header("content-type") != Some("application/problem+json") {
            return String::new();
        }
        let kind = self.json()["type"].as_str().unwrap_or_default().to_owned();
        kind.strip_prefix("urn:oncegate:problem:").unwrap_or(&kind).to_owned()
    }

    /// Status, slug and `Idempotency-Status` at once: what most tests are about.
    pub(crate) fn verdict(&self) -> (u16, String, String) {
        (self.status, self.slug(), self.idempotency().to_owned())
    }

    /// Asserts status, problem slug (empty for an upstream's answer) and `Idempotency-Status`.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16, slug: &str, idempotency: &str) -> &Self {
        let expected = (status, slug.to_owned(), idempotency.to_owned());
        assert_eq!(self.verdict(), expected, "(status, problem, Idempotency-Status) of {self:#?}");
        self
    }
}

/// A connection to the gate.
#[derive(Debug)]
pub(crate) struct Client {
    reader: MessageReader,
}

impl Client {
    pub(crate) fn connect(to: &Address) -> Self {
        let socket = to.connect().unwrap_or_else(|error| panic!("cannot connect to {to:?}: {error}"));
        Self { reader: MessageReader::new(socket) }
    }

    /// Writes bytes. A gate that has closed already is no error: what it answered is what counts.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.reader.socket_mut().write_all(bytes).is_ok()
    }

    /// The answer to a request with a body in its answer (anything but HEAD).
    pub(crate) fn response(&mut self) -> Response {
        self.response_to("GET")
    }

    /// The answer to a request with this method.
    pub(crate) fn response_to(&mut self, method: &str) -> Response {
        self.try_response_to(method).unwrap_or_else(|| {
            let seen = self.reader.seen();
            let seen = super::wire::latin1(&seen.lock().unwrap());
            panic!("no answer came; bytes on this connection: {seen:?}")
        })
    }

    /// The next answer, or `None` when the connection ends without one.
    pub(crate) fn try_response_to(&mut self, method: &str) -> Option<Response> {
        let (head, interim) = self.final_head()?;
        let status = status_of(&head);
        let bodyless = method == "HEAD" || matches!(status, 101 | 204 | 304);
        let framing = if bodyless {
            Framing::Length(0)
        } else if head.has_chunked() {
            Framing::Chunked
        } else {
            match head.value("content-length") {
                Some(length) => Framing::Length(length.parse().unwrap()),
                None => Framing::UntilEnd,
            }
        };
        let ReadBody { bytes, trailers, complete } = self.reader.body(framing);
        Some(Response { status, head, body: bytes, trailers, complete, interim })
    }

    /// The head of the final answer and the interim answers before it.
    pub(crate) fn final_head(&mut self) -> Option<(Head, Vec<Head>)> {
        let mut interim = Vec::new();
        loop {
            let head = self.reader.head()?;
            match status_of(&head) {
                101 => return Some((head, interim)),
                100..=199 => interim.push(head),
                _ => return Some((head, interim)),
            }
        }
    }

    /// The next head, interim or final.
    pub(crate) fn next_head(&mut self) -> Option<Head> {
        self.reader.head()
    }

    /// Reads until `pattern` was seen and returns everything up to its end.
    pub(crate) fn until(&mut self, pattern: &[u8]) -> Vec<u8> {
        self.reader.until(pattern)
    }

    pub(crate) fn exactly(&mut self, n: usize) -> Vec<u8> {
        self.reader.exactly(n)
    }

    /// Everything until the gate closes, and whether it did within the deadline.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, bool) {
        while self.reader.fill() {}
        let rest = self.reader.take_buffered();
        (rest, self.reader.is_ended())
    }

    /// Asserts that the gate closes the connection and sends nothing more.
    #[track_caller]
    pub(crate) fn expect_closed(&mut self) {
        let (rest, closed) = self.rest();
        assert!(closed, "the gate keeps the connection open");
        assert!(rest.is_empty(), "after the answer came {:?}", super::wire::latin1(&rest));
    }

    /// Whether nothing comes and the connection stays open for `time`.
    pub(crate) fn is_silent_for(&mut self, time: Duration) -> bool {
        let end = Instant::now() + time;
        self.reader.socket().set_read_timeout(Some(time));
        let got = self.reader.fill();
        self.reader.socket().set_read_timeout(Some(DEADLINE));
        !got && !self.reader.is_ended() && Instant::now() >= end
    }

    /// Asserts that another request on this connection is served.
    #[track_caller]
    pub(crate) fn expect_usable(&mut self, request: &Req) -> Response {
        self.send(&request.bytes());
        self.response_to(&request.method)
    }

    /// Ends our direction; the other stays open.
    pub(crate) fn half_close(&self) {
        self.reader.socket().shutdown(Shutdown::Write);
    }

    /// Leaves with a reset.
    pub(crate) fn reset(self) {
        self.reader.socket().reset_on_close();
    }

    /// The bare socket, for bodies too large to be remembered. Bytes that were read ahead come first.
    pub(crate) fn unlogged(&mut self) -> (Vec<u8>, &mut Socket) {
        self.reader.forget = true;
        (self.reader.take_buffered(), self.reader.socket_mut())
    }
}

fn status_of(head: &Head) -> u16 {
    head.start
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or_else(|| panic!("not a status line: {:?}", head.start))
}

/// Runs `job` on `n` threads at once and returns what they return, in order.
pub(crate) fn parallel<T: Send>(n: usize, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = std::sync::Barrier::new(n);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..n)
            .map(|index| {
                let (job, start) = (&job, &start);
                scope.spawn(move || {
                    start.wait();
                    job(index)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Runs `job` beside the test; join it to have its answer.
pub(crate) fn beside<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    thread::spawn(job)
}

/// The values of one trailer.
pub(crate) fn trailer<'a>(response: &'a Response, name: &str) -> Vec<&'a str> {
    values(&response.trailers, name)
}
