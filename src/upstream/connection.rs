//! One connection and one exchange on it.
//!
//! ```text
//!   Link (idle in the pool) ──checkout──▶ Connection ──send──▶ AnswerBody ──clean end──▶ Link (idle again)
//!                                             │                    │
//!                                             ▼ no answer          ▼ broken, dropped early, not reusable
//!                                         evidence              closed
//! ```
//!
//! Whoever holds a `Link` holds the connection: dropping it closes the socket, whatever is in flight.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, Version, header, response};
use hyper::{body::Incoming, client::conn::http1::SendRequest};
use tokio::{task::JoinHandle, time::timeout};

use super::{
    AnswerBody, BoxError, Evidence, RequestBody, SendError,
    body::TrackedBody,
    framing,
    headers::{self, Nominated},
    pool::{IDLE_CAP, Pool},
    wire::Wire,
};

/// How long a failed connection may take to end by itself before it is cut off.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// How long a connection may take to become ready for the next request after an exchange has ended.
const SETTLE_PATIENCE: Duration = Duration::from_secs(1);

/// An open connection: the sending half, the task that drives it, and its wire.
#[derive(Debug)]
pub(super) struct Link {
    sender: SendRequest<TrackedBody>,
    /// `None` once the connection has been given away (an upgrade) or has ended.
    task: Option<JoinHandle<()>>,
    wire: Arc<Wire>,
    /// How long the upstream keeps it when it is idle, with a margin (`Keep-Alive: timeout=`).
    keep_alive: Duration,
}

/// A connection for one exchange.
#[derive(Debug)]
pub struct Connection {
    pub(super) link: Link,
    pool: Weak<Pool>,
    reused: bool,
}

/// What decides whether a response answers the request.
struct Asked {
    method: Method,
    /// The protocols of `Upgrade`, lower case.
    upgrade: Vec<Vec<u8>>,
    /// The credentials are for the connection, not for the request.
    binds: bool,
}

impl Connection {
    pub(super) fn new(link: Link, pool: &Arc<Pool>) -> Self {
        Self { link, pool: Arc::downgrade(pool), reused: false }
    }

    pub(super) fn reused(link: Link, pool: &Arc<Pool>) -> Self {
        Self { link, pool: Arc::downgrade(pool), reused: true }
    }

    /// Whether it has carried an exchange before.
    #[must_use]
    pub fn is_reused(&self) -> bool {
        self.reused
    }

    /// Sends a request as [`headers::outbound`] made it, and waits for the head of the final response; interim (1xx)
    /// responses are swallowed. There is no timeout inside. Dropping the future closes the connection.
    ///
    /// The framing fields are written here, from what the body knows of its length. Fields that a trailer section must
    /// not carry are taken out of the trailers.
    ///
    /// # Errors
    /// With the evidence of what the upstream can have seen. A response that cannot be the answer (101 without a fitting
    /// `Upgrade`, a transfer coding other than `chunked`) is [`Evidence::Lost`].
    pub async fn send(mut self, mut request: Request<RequestBody>) -> Result<Response<AnswerBody>, SendError> {
        // Time may have passed since the checkout. A peer that has closed, or has spoken unasked, is not sent anything: its
        // words would be taken for the answer.
        if self.link.is_closed() || !self.link.wire.is_quiet() {
            return Err(unsent(request, "the upstream closed the connection, or spoke on it, before the request"));
        }
        if framing::frame(&mut request).is_err() {
            return Err(unsent(request, "too many header fields"));
        }
        let asked = Asked::of(&request);
        let nominated = request.extensions().get::<Nominated>().cloned().unwrap_or_default();
        self.link.wire.begin(http_body::Body::is_end_stream(request.body()));
        let request = request.map(|body| TrackedBody::new(body, Arc::clone(&self.link.wire), nominated));
        match self.link.sender.try_send_request(request).await {
            Ok(response) => self.accept(response, &asked).await,
            Err(mut error) => match error.take_message() {
                Some(request) => Err(SendError {
                    evidence: Evidence::NeverWritten,
                    request: Some(request.map(TrackedBody::into_inner)),
                    source: error.into_error().into(),
                }),
                None => Err(self.conclude(error.into_error().into(), END_PATIENCE).await),
            },
        }
    }

    async fn accept(self, response: Response<Incoming>, asked: &Asked) -> Result<Response<AnswerBody>, SendError> {
        if self.link.wire.evidence() == Evidence::NeverWritten {
            // It was under way before the request: never its answer.
            drop(response);
            return Err(self.conclude("the upstream spoke before it was asked".into(), Duration::ZERO).await);
        }
        let (head, body) = response.into_parts();
        if let Err(reason) = asked.is_answered_by(&head) {
            return Err(SendError { evidence: Evidence::Lost, request: None, source: reason.into() });
        }
        let Self { mut link, pool, reused: _ } = self;
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            link.release();
            return Ok(Response::from_parts(head, AnswerBody::detached(body)));
        }
        // An answer that overtakes its request may mean that the rest of it is never read.
        let reusable = link.wire.is_sent()
            && is_persistent(&head)
            && !asked.binds
            && !binds_connection(&head.headers, &header::WWW_AUTHENTICATE);
        let pool = if reusable { pool } else { Weak::new() };
        link.keep_alive = keep_alive(&head.headers).unwrap_or(IDLE_CAP);
        let nominated = headers::nominated(&head.headers);
        Ok(Response::from_parts(head, AnswerBody::new(body, link, pool, nominated)))
    }

    /// What the failure proves, once nothing can be written any more: a connection that has failed may still flush.
    async fn conclude(mut self, source: BoxError, patience: Duration) -> SendError {
        self.link.end(patience).await;
        SendError { evidence: self.link.wire.evidence(), request: None, source }
    }
}

impl Asked {
    fn of(request: &Request<RequestBody>) -> Self {
        let upgrade = request.headers().get_all(header::UPGRADE);
        Self {
            method: request.method().clone(),
            upgrade: upgrade.iter().flat_map(headers::members).map(<[u8]>::to_ascii_lowercase).collect(),
            binds: binds_connection(request.headers(), &header::AUTHORIZATION),
        }
    }

    fn is_answered_by(&self, head: &response::Parts) -> Result<(), &'static str> {
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            let mut chosen = head.headers.get_all(header::UPGRADE).iter().flat_map(headers::members).peekable();
            let fits =
                chosen.peek().is_some() && chosen.all(|protocol| self.upgrade.contains(&protocol.to_ascii_lowercase()));
            return if fits { Ok(()) } else { Err("the upstream switched to a protocol that was not asked for") };
        }
        let bodyless = self.method == Method::HEAD
            || head.status == StatusCode::NO_CONTENT
            || head.status == StatusCode::NOT_MODIFIED;
        let codings = head.headers.get_all(header::TRANSFER_ENCODING);
        let mut codings = codings.iter().flat_map(headers::members);
        match (codings.next(), codings.next()) {
            (None, _) => Ok(()),
            (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Ok(()),
            _any if bodyless => Ok(()),
            _any => Err("the upstream used a transfer coding other than chunked"),
        }
    }
}

fn unsent(request: Request<RequestBody>, reason: &'static str) -> SendError {
    SendError { evidence: Evidence::NeverWritten, request: Some(request), source: reason.into() }
}

/// Whether the upstream may keep the connection after this response.
fn is_persistent(head: &response::Parts) -> bool {
    head.version == Version::HTTP_11
        && !head
            .headers
            .get_all(header::CONNECTION)
            .iter()
            .flat_map(headers::members)
            .any(|option| option.eq_ignore_ascii_case(b"close"))
}

/// Whether NTLM or Negotiate is spoken: these authenticate the connection, which must not serve anybody else then.
fn binds_connection(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.get_all(name).iter().flat_map(headers::members).any(|member| {
        let scheme = member.split(|byte| *byte == b' ').next().unwrap_or_default();
        scheme.eq_ignore_ascii_case(b"ntlm") || scheme.eq_ignore_ascii_case(b"negotiate")
    })
}

/// `Keep-Alive: timeout=5` means that the upstream closes after five idle seconds: one second earlier, at least after
/// half the time, the connection is not used any more.
fn keep_alive(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("keep-alive")?.to_str().ok()?;
    let seconds = value.split(',').find_map(|parameter| {
        let (name, value) = parameter.trim().split_once('=')?;
        name.trim().eq_ignore_ascii_case("timeout").then(|| value.trim().parse::<u32>().ok())?
    })?;
    let announced = Duration::from_secs(seconds.into());
    Some((announced - (announced / 2).min(Duration::from_secs(1))).min(IDLE_CAP))
}

impl Link {
    pub(super) fn new(sender: SendRequest<TrackedBody>, task: JoinHandle<()>, wire: Arc<Wire>) -> Self {
        Self { sender, task: Some(task), wire, keep_alive: IDLE_CAP }
    }

    pub(super) fn keep_alive(&self) -> Duration {
        self.keep_alive
    }

    /// Whether the driving task has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Whether a request can be sent now: ready, open, and nothing has arrived.
    pub(super) fn is_usable(&self) -> bool {
        self.sender.is_ready() && !self.sender.is_closed() && self.wire.is_quiet()
    }

    /// Gives it back to `pool` as soon as it is ready for another request. Closes it if that is not soon, or the pool is
    /// gone.
    pub(super) fn give_back(mut self, pool: Weak<Pool>) {
        if self.sender.is_ready() {
            if let Some(pool) = pool.upgrade() {
                pool.put(self, Instant::now());
            }
        } else if pool.strong_count() > 0 && !self.sender.is_closed() {
            // The end of a body can be seen a moment before the connection has noticed it.
            tokio::spawn(async move {
                if let (Ok(Ok(())), Some(pool)) = (timeout(SETTLE_PATIENCE, self.sender.ready()).await, pool.upgrade())
                {
                    pool.put(self, Instant::now());
                }
            });
        }
    }

    /// Lets the connection live without its holder: it was upgraded.
    fn release(&mut self) {
        self.task = None;
    }

    /// Waits until the connection has ended, cuts it off if that takes longer than `patience`.
    async fn end(&mut self, patience: Duration) {
        if let Some(mut task) = self.task.take() {
            // The guard closes the connection if this future is dropped while it waits.
            let guard = AbortOnDrop(task.abort_handle());
            if timeout(patience, &mut task).await.is_err() {
                task.abort();
                // An aborted task has dropped its socket when it is joined.
                let _ = task.await;
            }
            drop(guard);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
