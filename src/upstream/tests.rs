//! Exchanges with scripted upstreams on real sockets. Here is the scaffolding; the rules are tested below it.

mod crossing;
mod evidence;
mod reuse;

use std::{path::PathBuf, time::Duration};

use http_body_util::{BodyExt, Empty, Full, StreamBody};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
};

use super::*;

/// Long enough for anything on this machine: it ends a test that would hang.
const HANG: Duration = Duration::from_secs(20);

pub(super) fn settings(target: Target) -> Settings {
    Settings {
        target,
        connect_timeout: Duration::from_secs(5),
        response_timeout: Duration::from_secs(5),
        max_execution: Duration::from_secs(5),
        idle_reuse: Duration::from_secs(2),
        max_connections: 4,
        host: HostPolicy::Preserve,
        forwarded: ForwardedStyle::None,
    }
}

fn loopback(port: u16) -> Target {
    Target::Tcp { host: "127.0.0.1".to_owned(), port }
}

/// An upstream that the test plays itself, on TCP.
struct Stage {
    listener: TcpListener,
    upstream: Upstream,
}

impl Stage {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(adjust: impl FnOnce(&mut Settings)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut settings = settings(loopback(listener.local_addr().unwrap().port()));
        adjust(&mut settings);
        Self { listener, upstream: Upstream::new(settings) }
    }

    async fn accept(&self) -> Peer<TcpStream> {
        let (stream, _) = soon(self.listener.accept()).await.unwrap();
        Peer::new(stream)
    }

    /// A new connection, and the other end of it.
    async fn connect(&self) -> (Connection, Peer<TcpStream>) {
        let (connection, peer) = tokio::join!(self.upstream.checkout(Freshness::New), self.accept());
        (connection.unwrap(), peer)
    }

    /// A pooled connection after one exchange, and the other end of it.
    async fn pooled(&self) -> Peer<TcpStream> {
        let (connection, mut peer) = self.connect().await;
        let (answer, ()) = tokio::join!(connection.send(get("/first")), async {
            peer.head().await;
            peer.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
        });
        assert_eq!(text(answer.unwrap()).await, "ok");
        idle(&self.upstream, 1).await;
        peer
    }
}

/// The same on a unix socket, whose buffers are small.
struct UnixStage {
    listener: UnixListener,
    upstream: Upstream,
    _directory: tempfile::TempDir,
}

impl UnixStage {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.sock");
        let listener = UnixListener::bind(&path).unwrap();
        Self { listener, upstream: Upstream::new(settings(Target::Unix(path))), _directory: directory }
    }

    async fn connect(&self) -> (Connection, Peer<UnixStream>) {
        let (connection, accepted) = tokio::join!(self.upstream.checkout(Freshness::New), self.listener.accept());
        (connection.unwrap(), Peer::new(accepted.unwrap().0))
    }
}

/// The other end of a connection.
struct Peer<S> {
    stream: S,
    seen: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    fn new(stream: S) -> Self {
        Self { stream, seen: Vec::new() }
    }

    /// Reads up to the end of a head and returns it; what came after it is kept.
    async fn head(&mut self) -> String {
        loop {
            if let Some(at) = self.seen.windows(4).position(|window| window == b"\r\n\r\n") {
                let rest = self.seen.split_off(at + 4);
                return latin1(&std::mem::replace(&mut self.seen, rest));
            }
            assert!(self.more().await > 0, "the connection ended within a head: {}", latin1(&self.seen));
        }
    }

    /// Reads up to and including `end`.
    async fn until(&mut self, end: &str) -> String {
        while !self.seen.ends_with(end.as_bytes()) {
            assert!(self.more().await > 0, "the connection ended before {end:?}: {}", latin1(&self.seen));
        }
        latin1(&std::mem::take(&mut self.seen))
    }

    async fn more(&mut self) -> usize {
        soon(self.stream.read_buf(&mut self.seen)).await.unwrap()
    }

    async fn say(&mut self, words: &str) {
        self.stream.write_all(words.as_bytes()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Waits for the gate to close, orderly or not.
    async fn closed(&mut self) {
        loop {
            match soon(self.stream.read_buf(&mut self.seen)).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}

async fn soon<F: Future>(future: F) -> F::Output {
    timeout(HANG, future).await.expect("nothing happened")
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn empty() -> RequestBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

fn whole(bytes: impl Into<Bytes>) -> RequestBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A body of unknown length that the test feeds.
fn streamed() -> (tokio::sync::mpsc::Sender<http_body::Frame<Bytes>>, RequestBody) {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(4);
    let frames =
        futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx).map(|frame| frame.map(Ok::<_, BoxError>)));
    (sender, StreamBody::new(frames).boxed_unsync())
}

fn get(path: &str) -> Request<RequestBody> {
    Request::get(path).header("host", "api.test").body(empty()).unwrap()
}

fn post(path: &str, body: impl Into<Bytes>) -> Request<RequestBody> {
    Request::post(path).header("host", "api.test").body(whole(body)).unwrap()
}

async fn text(answer: http::Response<AnswerBody>) -> String {
    latin1(&soon(answer.into_body().collect()).await.unwrap().to_bytes())
}

/// Waits until the connection that was given back lies in the pool.
async fn idle(upstream: &Upstream, count: usize) {
    soon(async {
        while upstream.pool.len() < count {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_refused_connection_sends_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let upstream = Upstream::new(settings(loopback(port)));
    let failure = upstream.checkout(Freshness::Any).await.unwrap_err();
    assert!(matches!(&failure, SendFailure::Connect(error) if error.kind() == io::ErrorKind::ConnectionRefused));
    assert_eq!(failure.to_string(), "cannot connect to the upstream: Connection refused (os error 111)");
}

#[tokio::test]
async fn a_name_that_cannot_be_resolved_sends_nothing() {
    // An empty label is refused before anybody is asked.
    let upstream = Upstream::new(settings(Target::Tcp { host: "no..name".to_owned(), port: 80 }));
    assert!(matches!(upstream.checkout(Freshness::Any).await, Err(SendFailure::Resolve(_))));
}

#[tokio::test]
async fn a_missing_socket_file_sends_nothing() {
    let upstream = Upstream::new(settings(Target::Unix(PathBuf::from("/nonexistent/app.sock"))));
    let failure = upstream.checkout(Freshness::Any).await.unwrap_err();
    assert!(matches!(failure, SendFailure::Connect(error) if error.kind() == io::ErrorKind::NotFound));
}

#[tokio::test]
async fn a_connection_that_is_not_accepted_in_time_is_given_up() {
    // A listener that is never served: connections beyond its backlog wait for ever.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let mut settings = settings(loopback(listener.local_addr().unwrap().port()));
    settings.connect_timeout = Duration::from_millis(100);
    let upstream = Upstream::new(settings);
    let mut queued = Vec::new();
    let failure = loop {
        assert!(queued.len() < 64, "the backlog never fills");
        match upstream.checkout(Freshness::New).await {
            Ok(connection) => queued.push(connection),
            Err(failure) => break failure,
        }
    };
    assert!(matches!(failure, SendFailure::ConnectTimeout));
}

#[tokio::test]
async fn a_full_backlog_of_a_unix_socket_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.sock");
    let socket = tokio::net::UnixSocket::new_stream().unwrap();
    socket.bind(&path).unwrap();
    let listener = socket.listen(1).unwrap();
    let mut settings = settings(Target::Unix(path));
    settings.connect_timeout = Duration::from_millis(100);
    let hasty = Upstream::new(settings.clone());
    let mut queued = Vec::new();
    let failure = loop {
        assert!(queued.len() < 64, "the backlog never fills");
        match hasty.checkout(Freshness::New).await {
            Ok(connection) => queued.push(connection),
            Err(failure) => break failure,
        }
    };
    assert!(matches!(failure, SendFailure::ConnectTimeout));
    settings.connect_timeout = HANG;
    let patient = Upstream::new(settings);
    let (connection, accepted) = tokio::join!(patient.checkout(Freshness::New), listener.accept());
    accepted.unwrap();
    connection.unwrap();
}

#[tokio::test]
async fn slots_are_given_up_to_the_limit_and_come_back() {
    let mut settings = settings(loopback(1));
    settings.max_connections = 1;
    settings.connect_timeout = Duration::from_millis(30);
    let upstream = Upstream::new(settings);
    let slot = upstream.slot().await.unwrap();
    assert!(upstream.slot().await.is_none(), "overloaded");
    drop(slot);
    assert!(upstream.slot().await.is_some());
}
