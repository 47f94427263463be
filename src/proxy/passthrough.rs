//! Everything that is not protected: streamed both ways, never buffered, cancelled when its client leaves.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header, request::Parts};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::{body::Incoming, upgrade::OnUpgrade};
use hyper_util::rt::TokioIo;
use tokio::time::Instant;

use super::{
    access::Access,
    body::{self, Body, BoxError},
    client::Client,
    intake::Flaw,
    problem::Problem,
    service::{Received, Upload},
};
use crate::{
    idempotency::decide::connection_names,
    shutdown::Phase,
    upstream::{AnswerBody, Evidence, Freshness, RequestBody, SendError, headers},
};

/// A protocol change that the client asked for and that may pass (WebSocket and others, never h2c).
pub(super) struct Upgrade {
    client: OnUpgrade,
}

impl Upgrade {
    /// Takes the client's side of the upgrade, if there is one. Nothing is tunnelled until the upstream has
    /// answered 101.
    pub(super) fn asked_for(request: &mut Request<Incoming>) -> Option<Self> {
        let asked = request.version() == Version::HTTP_11
            && connection_names(request.headers(), |name| name == "upgrade")
            && request.headers().get_all(header::UPGRADE).iter().any(names_more_than_h2c);
        asked.then(|| Self { client: hyper::upgrade::on(request) })
    }
}

/// `h2c` never passes (the upstream room takes it out of a list): it would smuggle requests past the gate.
fn names_more_than_h2c(protocols: &HeaderValue) -> bool {
    let mut protocols = protocols.as_bytes().split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    protocols.any(|protocol| !protocol.is_empty() && !protocol.eq_ignore_ascii_case(b"h2c"))
}

/// Forwards an unprotected request.
pub(super) async fn forward(
    received: Received,
    upload: Upload,
    upgrade: Option<Upgrade>,
    access: &Access,
) -> Response<Body> {
    let kind = headers::Kind::Streamed { upgrade: upgrade.is_some() };
    let head = match received.outbound(kind) {
        Ok(head) => head,
        Err(flaw) => return Problem::flaw(flaw).into_response(&received.live.settings.problem_base),
    };
    let body = upload.boxed_unsync();
    let mut response = exchange(&received, head, body, false).await;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS
        && let Some(upgrade) = upgrade
    {
        tunnel(&received, upgrade, hyper::upgrade::on(&mut response));
    }
    access.log(response.status(), "unprotected");
    response
}

/// Sends a request that no claim guards, and hands its answer on as it streams. `keyed` says that a protected
/// route bypasses its store: such a request counts as one, and outlives its client.
pub(super) async fn exchange(received: &Received, head: Parts, body: RequestBody, keyed: bool) -> Response<Body> {
    let problem = |problem: Problem| problem.into_response(&received.live.settings.problem_base);
    let moved = Arc::new(Moved::now());
    let body = Moving { body, moved: Arc::clone(&moved) }.boxed_unsync();
    let sending = send(received, Request::from_parts(head, body));
    let silence = moved.silent_for(received.live.upstream.settings().response_timeout);
    let sent = tokio::select! {
        // An answer that is there goes out, even to a client that has closed its side.
        biased;
        sent = sending => sent,
        () = silence => return problem(Problem::upstream_timeout()),
        () = received.client.left(), if !keyed && received.parts.version != Version::HTTP_2 => {
            return problem(Problem::upstream_unreachable(false));
        }
    };
    match sent {
        // The upload broke off on the client's side, so the upstream never got a whole request to answer.
        Err(Unanswered) if moved.broken.load(Relaxed) => {
            let flaw = Flaw::Framing("the body ends before its end, or its framing is broken");
            let mut response = problem(Problem::flaw(flaw));
            if received.parts.version != Version::HTTP_2 {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            response
        }
        Err(Unanswered) => problem(Problem::upstream_unreachable(false)),
        Ok(answer) => {
            let (head, body) = answer.into_parts();
            let watch = (received.parts.version != Version::HTTP_2).then(|| received.client.clone());
            Response::from_parts(headers::inbound(head), Streamed { body, client: watch, leaving: None }.boxed_unsync())
        }
    }
}

/// Sends, and sends again where that cannot repeat anything: a request that never left, or a safe one without a
/// body whose pooled connection turned out to be dead (RFC 9110 §9.2.2).
async fn send(received: &Received, request: Request<RequestBody>) -> Result<Response<AnswerBody>, Unanswered> {
    let upstream = &received.live.upstream;
    let safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let copy = (safe && request.body().is_end_stream()).then(|| head_of(&request));
    // A request that must not be repeated is not put on a connection that is likely to be closed under it.
    let freshness = if safe { Freshness::Any } else { Freshness::Young };
    let connection = upstream.checkout(freshness).await.map_err(log_failure)?;
    let reused = connection.is_reused();
    let error = match connection.send(request).await {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    let again = match (error.evidence, error.request) {
        (Evidence::NeverWritten, Some(request)) => request,
        (Evidence::NeverWritten | Evidence::HeadIncomplete | Evidence::Lost, _) => match copy {
            Some(head) if reused => Request::from_parts(head, body::whole(Bytes::new())),
            Some(_) | None => return Err(log_failure(error.source)),
        },
    };
    let connection = upstream.checkout(Freshness::New).await.map_err(log_failure)?;
    connection.send(again).await.map_err(|SendError { source, .. }| log_failure(source))
}

fn head_of(request: &Request<RequestBody>) -> Parts {
    let mut copy = Request::new(());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    copy.into_parts().0
}

/// The upstream gave no answer; why is in the log.
struct Unanswered;

fn log_failure(error: impl std::fmt::Display) -> Unanswered {
    tracing::warn!(%error, "the upstream did not answer an unprotected request");
    Unanswered
}

/// Joins client and upstream once both have switched protocols. Counts as running until either side is done.
fn tunnel(received: &Received, upgrade: Upgrade, upstream: OnUpgrade) {
    let proxy = Arc::clone(&received.proxy);
    let tracker = proxy.running.clone();
    tokio::spawn(tracker.track_future(async move {
        let (client, upstream) = match tokio::try_join!(upgrade.client, upstream) {
            Ok(both) => both,
            Err(error) => return tracing::debug!(%error, "an upgrade did not come about"),
        };
        let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut client, &mut upstream) => {}
            () = proxy.shutdown.reached(Phase::Over) => {}
        }
    }));
}

/// When an upload last moved: `response_timeout` is for an upstream that says nothing, not for a long upload.
struct Moved {
    began: Instant,
    /// Milliseconds since then.
    last: AtomicU64,
    /// Whether it ended with an error.
    broken: AtomicBool,
}

impl Moved {
    fn now() -> Self {
        Self { began: Instant::now(), last: AtomicU64::new(0), broken: AtomicBool::new(false) }
    }

    fn again(&self) {
        self.last.store(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Waits until nothing has moved for `long`.
    async fn silent_for(&self, long: Duration) {
        loop {
            let due = self.began + Duration::from_millis(self.last.load(Relaxed)) + long;
            if due <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(due).await;
        }
    }
}

/// An upload that tells when it moves.
struct Moving {
    body: RequestBody,
    moved: Arc<Moved>,
}

impl http_body::Body for Moving {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if polled.is_ready() {
            self.moved.again();
        }
        if let Poll::Ready(Some(Err(_))) = &polled {
            self.moved.broken.store(true, Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A streamed answer. Ends with an error, which closes both sides, when its client has left while there was nothing
/// to send: a stream of rare events would otherwise be kept for nobody.
struct Streamed {
    body: AnswerBody,
    client: Option<Client>,
    leaving: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(frame) => {
                this.leaving = None;
                Poll::Ready(frame)
            }
            Poll::Pending => {
                let Some(client) = &this.client else { return Poll::Pending };
                let leaving = this.leaving.get_or_insert_with(|| {
                    let client = client.clone();
                    Box::pin(async move { client.left().await })
                });
                leaving.as_mut().poll(cx).map(|()| Some(Err("the client has left".into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
