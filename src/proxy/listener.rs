//! Accepts connections, tells HTTP/1.1 from h2c, and runs each until it ends or the gate stops.

use std::{io, os::unix::fs::FileTypeExt, path::PathBuf, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use hyper::{
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, UnixListener},
    sync::Semaphore,
};

use super::{
    Listen, Proxy, Settings,
    attend::{Attended, Clock, ClockedIo, Ended},
    client::{Client, Socket, SocketIo},
    service,
};
use crate::shutdown::Phase;

/// A bound listener.
#[derive(Debug)]
pub struct Bound {
    acceptor: Acceptor,
    local: String,
    /// Goes with the listener.
    _file: Option<SocketFile>,
}

#[derive(Debug)]
enum Acceptor {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Removes the socket's file when the listener is gone.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Nothing to do about a file that is gone already.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Bound {
    /// Binds `listen`. A socket file that a dead process left behind is replaced; a living one is not.
    ///
    /// # Errors
    /// What the system says: the address is in use, not ours, or not allowed.
    pub async fn bind(listen: &Listen) -> io::Result<Self> {
        match listen {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address.as_str()).await?;
                let local = listener.local_addr()?.to_string();
                Ok(Self { acceptor: Acceptor::Tcp(listener), local, _file: None })
            }
            Listen::Unix(path) => {
                let left_behind = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
                if left_behind && tokio::net::UnixStream::connect(path).await.is_err() {
                    std::fs::remove_file(path)?;
                }
                let listener = UnixListener::bind(path)?;
                let local = format!("unix:{}", path.display());
                Ok(Self { acceptor: Acceptor::Unix(listener), local, _file: Some(SocketFile(path.clone())) })
            }
        }
    }

    /// Where it is bound: `127.0.0.1:8080`, or `unix:/path`.
    #[must_use]
    pub fn local(&self) -> &str {
        &self.local
    }

    async fn accept(&self) -> io::Result<Socket> {
        match &self.acceptor {
            Acceptor::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Without it a small answer waits for the client's acknowledgement of the one before.
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }
            Acceptor::Unix(listener) => Ok(Socket::Unix(listener.accept().await?.0)),
        }
    }
}

/// How long the last doubts may take to be written once the grace is over; the process ends within a second of it.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// How long answers about them may take to leave.
const LAST_ANSWERS: Duration = Duration::from_millis(100);

/// Serves until the gate has stopped; see [`Proxy::serve`].
pub(super) async fn serve(proxy: Arc<Proxy>, listener: Bound) {
    accept_all(&proxy, &listener).await;
    drop(listener);
    for tracker in [&proxy.running, &proxy.owed, &proxy.connections] {
        tracker.close();
    }
    let all_has_left = async {
        proxy.running.wait().await;
        proxy.owed.wait().await;
        proxy.quiet.cancel();
        proxy.connections.wait().await;
    };
    tokio::select! {
        () = all_has_left => return,
        () = proxy.shutdown.reached(Phase::Over) => {}
    }
    // Flights write down what they do not know, and say so; everything else is cut off.
    if tokio::time::timeout(LAST_WORDS, proxy.owed.wait()).await.is_err() {
        tracing::error!(
            claims = proxy.owed.len(),
            "the gate ends before everything was written down: these claims lapse, and then read as unknown"
        );
    }
    let last_answers = async {
        proxy.running.wait().await;
        proxy.quiet.cancel();
        proxy.connections.wait().await;
    };
    if tokio::time::timeout(LAST_ANSWERS, last_answers).await.is_err() {
        tracing::warn!(exchanges = proxy.running.len(), "exchanges were cut off at the end of the grace");
    }
}

async fn accept_all(proxy: &Arc<Proxy>, listener: &Bound) {
    let limit = proxy.live.load().settings.max_connections;
    let seats = Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)));
    loop {
        let seat = tokio::select! {
            seat = Arc::clone(&seats).acquire_owned() => seat,
            () = proxy.shutdown.reached(Phase::Draining) => return,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = proxy.shutdown.reached(Phase::Draining) => return,
        };
        match accepted {
            Ok(socket) => {
                let conversation = converse(Arc::clone(proxy), socket);
                tokio::spawn(proxy.connections.track_future(async move {
                    conversation.await;
                    drop(seat);
                }));
            }
            Err(error) => {
                // Out of file descriptors, mostly: the next attempt would fail at once, so give others time to end.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

async fn converse(proxy: Arc<Proxy>, socket: Socket) {
    let live = proxy.live.load_full();
    let settings = &live.settings;
    let socket = Arc::new(socket);
    let client = Client::new(Arc::clone(&socket));
    let mut io = SocketIo(socket);
    let clock = Clock::start();
    let patience = settings.header_timeout.min(settings.idle_timeout);
    let sniffing = tokio::time::timeout(patience, sniff(&mut io));
    let sniffed = tokio::select! {
        sniffed = sniffing => match sniffed {
            Ok(Ok(sniffed)) => sniffed,
            Ok(Err(_)) | Err(_) => return,
        },
        // Nothing was asked yet on a silent connection.
        () = proxy.shutdown.reached(Phase::Draining) => return,
    };
    let h2 = sniffed == H2_PREFACE;
    let io = TokioIo::new(ClockedIo::new(sniffed, io, Arc::clone(&clock)));
    if h2 {
        clock.is_h2();
        run_h2(&proxy, settings, io, client, clock).await;
    } else {
        run_h1(&proxy, settings, io, client, clock).await;
    }
}

/// The first bytes of a connection: as many as it takes to tell the h2 preface from a request line.
async fn sniff(io: &mut SocketIo) -> io::Result<Bytes> {
    let mut first = BytesMut::with_capacity(H2_PREFACE.len());
    while H2_PREFACE.starts_with(&first) && first.len() < H2_PREFACE.len() {
        let mut limited = io.take(u64::try_from(H2_PREFACE.len() - first.len()).unwrap_or(0));
        if limited.read_buf(&mut first).await? == 0 {
            break;
        }
    }
    Ok(first.freeze())
}

type Io = TokioIo<ClockedIo<SocketIo>>;

async fn run_h1(proxy: &Arc<Proxy>, settings: &Settings, io: Io, client: Client, clock: Arc<Clock>) {
    let service = service_fn(|request| service::handle(Arc::clone(proxy), client.clone(), clock.exchange(), request));
    let connection = http1::Builder::new()
        .preserve_header_case(true)
        // A client that has closed its side still gets its answer; `client` notices one that left.
        .half_close(true)
        .max_headers(MAX_HEADER_LINES)
        // hyper's floor is 8 KiB.
        .max_buf_size(settings.max_header_bytes.max(8 * 1024))
        .max_header_size(settings.max_header_bytes)
        .serve_connection(io, service)
        .with_upgrades();
    let mut attended = Attended::new(connection, Arc::clone(&clock), settings.header_timeout, settings.idle_timeout);
    tokio::select! {
        // First, so that what can leave has left when the connection is asked whether something has not.
        biased;
        ended = &mut attended => {
            if let Ended::TimedOut = ended {
                tracing::debug!("a silent connection was closed");
            }
            return;
        }
        // Not when the drain begins: until nothing runs any more a kept connection is told `draining` if it asks
        // again, rather than being closed under a request that is on its way.
        () = proxy.quiet.cancelled() => {}
    }
    if clock.is_blocked() {
        attended.connection().graceful_shutdown();
        let _ = attended.await;
    }
}

/// A generous bound: it is `max_header_bytes` that limits a head.
const MAX_HEADER_LINES: usize = 1000;

async fn run_h2(proxy: &Arc<Proxy>, settings: &Settings, io: Io, client: Client, clock: Arc<Clock>) {
    let service = service_fn(|request| service::handle(Arc::clone(proxy), client.clone(), clock.exchange(), request));
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(settings.max_header_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(200)
        .serve_connection(io, service);
    let mut attended = Attended::new(connection, Arc::clone(&clock), settings.header_timeout, settings.idle_timeout);
    tokio::select! {
        _ = &mut attended => return,
        () = proxy.shutdown.reached(Phase::Draining) => {}
    }
    attended.connection().graceful_shutdown();
    tokio::select! {
        biased;
        _ = &mut attended => return,
        () = proxy.quiet.cancelled() => {}
    }
    if clock.is_blocked() {
        let _ = attended.await;
    }
}
