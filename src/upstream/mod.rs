//! Where requests go: one HTTP/1.1 upstream, and proof of what it saw.
//!
//! [`Upstream::checkout`] gives a [`Connection`] that is used for one exchange; [`Connection::send`] consumes it and ends
//! in a response head or in [`SendError::evidence`]: what the upstream can have seen of the request. What a request
//! and a response may carry across the gate is decided in [`headers`]. No retries, no timeouts after the connection is
//! made, no policy: those are the proxy's.

mod body;
mod connect;
mod connection;
mod forwarded;
mod framing;
pub mod headers;
mod pool;
mod wire;

use std::{
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Request;
use http_body_util::combinators::UnsyncBoxBody;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

pub use self::{body::AnswerBody, connection::Connection};

/// Any error, boxed.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request to the upstream. Its `size_hint` and `is_end_stream` decide the framing.
pub type RequestBody = UnsyncBoxBody<Bytes, BoxError>;

/// The upstream and how it is used (`[upstream]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where it is.
    pub target: Target,
    /// For a connection to be made, name resolution included; also how long an exchange queues for a slot.
    pub connect_timeout: Duration,
    /// Until the response head; and for a body that stalls while it is held back.
    pub response_timeout: Duration,
    /// How long a protected exchange goes on after the client has been told that nobody knows yet.
    pub max_execution: Duration,
    /// A pooled connection idle longer is not used for a protected request.
    pub idle_reuse: Duration,
    /// Protected exchanges at one time.
    pub max_connections: usize,
    /// Which `Host` the upstream sees.
    pub host: HostPolicy,
    /// Which forwarding fields are added.
    pub forwarded: ForwardedStyle,
}

/// Where the upstream is (`upstream.url`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `http://host:port`; the name is resolved at each connection.
    Tcp {
        /// Name or address, without brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// `unix:PATH`
    Unix(PathBuf),
}

/// Which `Host` the upstream sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPolicy {
    /// The client's.
    Preserve,
    /// The upstream's own authority.
    Upstream,
}

/// Which forwarding fields are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedStyle {
    /// `X-Forwarded-For`, `-Host`, `-Proto`.
    XForwarded,
    /// `Forwarded` (RFC 7239).
    Forwarded,
    /// Both.
    Both,
    /// Neither; what an untrusted peer sent is still removed.
    None,
}

/// The upstream of a configuration: its settings, its idle connections and its slots. Shared in an `Arc`.
#[derive(Debug)]
pub struct Upstream {
    settings: Settings,
    pool: Arc<pool::Pool>,
    slots: Arc<Semaphore>,
}

/// The right to one protected exchange (`upstream.max_connections`); given back when dropped.
#[derive(Debug)]
pub struct Slot {
    _permit: OwnedSemaphorePermit,
}

/// Which connection will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Any idle one, else a new one.
    Any,
    /// One that has been idle for at most `idle_reuse`, else a new one.
    Young,
    /// A new one.
    New,
}

/// What the upstream can have seen of a request that got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Not one byte was given to the socket. May be sent again on a fresh connection.
    NeverWritten,
    /// Some bytes, but not the whole head: nothing can have been executed. Not to be sent again by the gate (RFC 9110
    /// §9.2.2).
    HeadIncomplete,
    /// The whole head at least: nobody knows.
    Lost,
}

/// A request that got no answer.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", .evidence.label())]
pub struct SendError {
    /// What the upstream can have seen.
    pub evidence: Evidence,
    /// The request, if it never left our hands. `None` does not mean that it was written: see `evidence`.
    pub request: Option<Request<RequestBody>>,
    /// What happened.
    pub source: BoxError,
}

/// No connection: nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum SendFailure {
    /// The name was not resolved.
    #[error("cannot resolve the upstream: {0}")]
    Resolve(#[source] io::Error),
    /// Refused, unreachable, or no socket to be had.
    #[error("cannot connect to the upstream: {0}")]
    Connect(#[source] io::Error),
    /// `connect_timeout` is over.
    #[error("no connection to the upstream in time")]
    ConnectTimeout,
    /// The connection could not be prepared for HTTP.
    #[error("cannot speak HTTP to the upstream: {0}")]
    Handshake(#[source] hyper::Error),
}

impl Evidence {
    /// For logs.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::NeverWritten => "request never written",
            Self::HeadIncomplete => "request head not completely written",
            Self::Lost => "answer lost",
        }
    }
}

impl Upstream {
    /// An upstream without connections.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let permits = settings.max_connections.min(Semaphore::MAX_PERMITS);
        Self { settings, pool: Arc::default(), slots: Arc::new(Semaphore::new(permits)) }
    }

    /// How it is used.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A slot for a protected exchange. Queues for at most `connect_timeout`; `None` is overload.
    pub async fn slot(&self) -> Option<Slot> {
        let permit = timeout(self.settings.connect_timeout, Arc::clone(&self.slots).acquire_owned()).await;
        // The semaphore is never closed.
        permit.ok()?.ok().map(|permit| Slot { _permit: permit })
    }

    /// A connection that is ready for one request: idle until now, or made within `connect_timeout`.
    pub async fn checkout(&self, freshness: Freshness) -> Result<Connection, SendFailure> {
        let idle = match freshness {
            Freshness::Any => self.pool.take(Instant::now(), pool::IDLE_CAP),
            Freshness::Young => self.pool.take(Instant::now(), self.settings.idle_reuse),
            Freshness::New => None,
        };
        match idle {
            Some(link) => Ok(Connection::reused(link, &self.pool)),
            None => {
                let link = connect::link(&self.settings).await?;
                Ok(Connection::new(link, &self.pool))
            }
        }
    }
}

#[cfg(test)]
mod tests;
