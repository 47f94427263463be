//! Making a connection: resolve, connect, prepare for HTTP. All of it within `connect_timeout`, none of it sends a byte
//! (no TCP Fast Open), so every failure here proves that nothing was executed.

use std::{io, time::Duration};

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpStream, UnixStream, lookup_host},
    time::{Instant, sleep, timeout_at},
};

use super::{
    SendFailure, Settings, Target,
    connection::Link,
    wire::{Socket, Wire},
};

/// Response header lines. More than hyper's 100: too many would be an error after the execution.
const MAX_HEADERS: usize = 500;

/// The largest response head, and what is read ahead of a slow reader.
const MAX_BUFFER: usize = 512 * 1024;

/// A unix socket whose backlog is full refuses at once instead of queueing: we queue ourselves.
const BACKLOG_PAUSE: Duration = Duration::from_millis(5);

/// When a peer is silent for so long the kernel asks whether it is still there; several times, then the connection is
/// broken. Exchanges may wait for many minutes, and devices in between forget silent connections.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// A new connection.
pub(super) async fn link(settings: &Settings) -> Result<Link, SendFailure> {
    let deadline = Instant::now() + settings.connect_timeout;
    let socket = match timeout_at(deadline, dial(&settings.target, deadline)).await {
        Ok(socket) => socket?,
        Err(_elapsed) => return Err(SendFailure::ConnectTimeout),
    };
    let (wire, counted) = Wire::new(socket);
    let (sender, connection) = http1::Builder::new()
        .preserve_header_case(true)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_BUFFER)
        .handshake(TokioIo::new(counted))
        .await
        .map_err(SendFailure::Handshake)?;
    let task = tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "upstream connection ended");
        }
    });
    Ok(Link::new(sender, task, wire))
}

async fn dial(target: &Target, deadline: Instant) -> Result<Socket, SendFailure> {
    match target {
        Target::Tcp { host, port } => {
            let addresses: Vec<_> = lookup_host((host.as_str(), *port)).await.map_err(SendFailure::Resolve)?.collect();
            let mut failure =
                SendFailure::Resolve(io::Error::new(io::ErrorKind::NotFound, "the name has no addresses"));
            for (tried, address) in addresses.iter().enumerate() {
                // An address that swallows packets must leave time for the others.
                let left = deadline.saturating_duration_since(Instant::now());
                let share = left / u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
                match timeout_at(Instant::now() + share, TcpStream::connect(address)).await {
                    Ok(Ok(stream)) => {
                        prepare(&stream);
                        return Ok(Socket::Tcp(stream));
                    }
                    Ok(Err(error)) => failure = SendFailure::Connect(error),
                    Err(_elapsed) => failure = SendFailure::ConnectTimeout,
                }
            }
            Err(failure)
        }
        Target::Unix(path) => loop {
            match UnixStream::connect(path).await {
                Ok(stream) => return Ok(Socket::Unix(stream)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(BACKLOG_PAUSE).await,
                Err(error) => return Err(SendFailure::Connect(error)),
            }
        },
    }
}

/// Options that make a connection better but not usable: a failure to set one is not worth a request.
fn prepare(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    if rustix::net::sockopt::set_socket_keepalive(stream, true).is_ok() {
        let _ = rustix::net::sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE);
        let _ = rustix::net::sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL);
    }
}
