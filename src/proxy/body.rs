//! Bodies: the one type that answers have, collecting with a cap, and the memory that all held bodies share.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Version};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use tokio::time::Instant;

use crate::idempotency::{
    HeaderList, Refusal,
    refusal::{InvalidRequest, Overload},
};

/// Any error, as hyper wants it of a body.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What every answer's body is.
pub(super) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A body that is there as a whole.
pub(super) fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// A body that is there as a whole, with trailers behind it.
///
/// It does not say how long it is: hyper would frame it by its length over HTTP/1.1, and leave the trailers out.
pub(super) fn with_trailers(bytes: Bytes, trailers: &HeaderList) -> Body {
    let mut fields = HeaderMap::new();
    for (name, value) in trailers {
        // Beyond the map's limit (tens of thousands of fields) the rest is left out rather than the gate brought down.
        let _ = fields.try_append(name.clone(), value.clone());
    }
    let frames = [Ok(Frame::data(bytes)), Ok(Frame::trailers(fields))];
    StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync()
}

/// The memory for all bodies that are held at one time (`limits.body_memory`).
#[derive(Debug)]
pub(super) struct Memory {
    account: Arc<Account>,
}

#[derive(Debug)]
struct Account {
    limit: AtomicU64,
    used: AtomicU64,
}

/// A part of the memory. Given back when dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    account: Arc<Account>,
    bytes: u64,
}

impl Memory {
    pub(super) fn new(limit: u64) -> Self {
        Self { account: Arc::new(Account { limit: AtomicU64::new(limit), used: AtomicU64::new(0) }) }
    }

    /// Changes the limit. What is held stays held.
    pub(super) fn resize(&self, limit: u64) {
        self.account.limit.store(limit, Relaxed);
    }

    /// A reservation of nothing yet.
    pub(super) fn reserve(&self) -> Reservation {
        Reservation { account: Arc::clone(&self.account), bytes: 0 }
    }
}

impl Reservation {
    /// Takes `more` bytes, or nothing if they are not to be had.
    #[must_use]
    pub(super) fn grow(&mut self, more: usize) -> bool {
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        let limit = self.account.limit.load(Relaxed);
        let taken =
            self.account.used.fetch_update(Relaxed, Relaxed, |used| used.checked_add(more).filter(|&sum| sum <= limit));
        if taken.is_ok() {
            self.bytes += more;
        }
        taken.is_ok()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.account.used.fetch_sub(self.bytes, Relaxed);
    }
}

/// A client's body, known to be whole at its end.
///
/// hyper reports an HTTP/2 stream that is reset with `NO_ERROR` in mid-body as a clean end; the stream itself knows
/// better. Without this a cut request would look complete.
#[derive(Debug)]
pub(super) struct Intact<B> {
    body: B,
    h2: bool,
    ended: bool,
    /// The last bytes of an announced length, until the stream has really ended: whoever has them takes the body
    /// for whole.
    last: Option<Bytes>,
}

/// The client gave up in mid-body.
#[derive(Debug, thiserror::Error)]
#[error("the request body ended before its end")]
struct CutShort;

impl<B> Intact<B> {
    pub(super) fn new(body: B, version: Version) -> Self {
        Self { body, h2: version == Version::HTTP_2, ended: false, last: None }
    }
}

impl<B> http_body::Body for Intact<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        loop {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        let is_last = self.h2 && self.body.size_hint().exact() == Some(0);
                        if !is_last || self.body.is_end_stream() {
                            return Poll::Ready(Some(Ok(Frame::data(data))));
                        }
                        self.last = Some(data);
                    }
                    Err(trailers) => {
                        // Trailers are the end: the stream is complete, whatever is reset behind them. Those of a body
                        // of announced length have no place behind it.
                        self.ended = true;
                        let frame = self.last.take().map_or(trailers, Frame::data);
                        return Poll::Ready(Some(Ok(frame)));
                    }
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None if self.h2 && !self.body.is_end_stream() => return Poll::Ready(Some(Err(CutShort.into()))),
                None => {
                    self.ended = true;
                    return Poll::Ready(self.last.take().map(|data| Ok(Frame::data(data))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended || (self.last.is_none() && self.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.last {
            Some(data) => SizeHint::with_exact(u64::try_from(data.len()).unwrap_or(u64::MAX)),
            None => self.body.size_hint(),
        }
    }
}

/// Reads a protected request's body completely (CONTRACT §3.3). Its trailers are dropped.
///
/// # Errors
/// Why the request is refused; nothing was claimed for it.
pub(super) async fn collect<B>(
    body: B,
    limit: u64,
    timeout: Duration,
    memory: &Memory,
) -> Result<(Bytes, Reservation), Refusal>
where
    B: http_body::Body<Data = Bytes, Error = BoxError> + Unpin,
{
    let deadline = Instant::now() + timeout;
    let mut body = body;
    let mut held = memory.reserve();
    if body.size_hint().lower() > limit {
        return Err(Refusal::RequestTooLarge { limit });
    }
    let mut parts = Parts::default();
    loop {
        let frame = match tokio::time::timeout_at(deadline, body.frame()).await {
            Err(_) => return Err(Refusal::RequestTimeout),
            Ok(None) => return Ok((parts.join(), held)),
            Ok(Some(Err(_))) => return Err(Refusal::RequestInvalid(InvalidRequest::BodyBroken)),
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        if parts.length() + u64::try_from(data.len()).unwrap_or(u64::MAX) > limit {
            return Err(Refusal::RequestTooLarge { limit });
        }
        if !held.grow(data.len()) {
            return Err(Refusal::Overloaded(Overload::BodyMemory));
        }
        parts.push(data);
    }
}

/// Pieces of a body. A body of one piece is never copied.
#[derive(Debug, Default)]
struct Parts {
    only: Option<Bytes>,
    many: BytesMut,
}

impl Parts {
    fn length(&self) -> u64 {
        let length = self.only.as_ref().map_or(self.many.len(), Bytes::len);
        u64::try_from(length).unwrap_or(u64::MAX)
    }

    fn push(&mut self, piece: Bytes) {
        match self.only.take() {
            None if self.many.is_empty() => self.only = Some(piece),
            first => {
                self.many.extend_from_slice(&first.unwrap_or_default());
                self.many.extend_from_slice(&piece);
            }
        }
    }

    fn join(self) -> Bytes {
        self.only.unwrap_or_else(|| self.many.freeze())
    }
}

/// What became of an answer's body that was held back.
pub(super) enum Capture<B> {
    /// All of it is there.
    Whole { bytes: Bytes, trailers: HeaderList, held: Reservation },
    /// It is larger than is kept (or than there is memory for): this much came, and the rest is still to come.
    TooLarge { start: Bytes, rest: B, held: Reservation },
    /// It broke off, or stalled.
    Broken,
}

/// Holds an answer's body back until it is complete, while it is at most `limit` bytes. A pause of `stall` between
/// two pieces counts as broken off.
pub(super) async fn capture<B>(mut body: B, limit: u64, stall: Duration, memory: &Memory) -> Capture<B>
where
    B: http_body::Body<Data = Bytes, Error = BoxError> + Unpin,
{
    let mut held = memory.reserve();
    let mut parts = Parts::default();
    let mut trailers = HeaderList::new();
    if body.size_hint().lower() > limit {
        return Capture::TooLarge { start: Bytes::new(), rest: body, held };
    }
    loop {
        let frame = match tokio::time::timeout(stall, body.frame()).await {
            Err(_) | Ok(Some(Err(_))) => return Capture::Broken,
            Ok(None) => return Capture::Whole { bytes: parts.join(), trailers, held },
            Ok(Some(Ok(frame))) => frame,
        };
        match frame.into_data() {
            Ok(data) => {
                let length = parts.length() + u64::try_from(data.len()).unwrap_or(u64::MAX);
                let fits = length <= limit && held.grow(data.len());
                parts.push(data);
                if !fits {
                    return Capture::TooLarge { start: parts.join(), rest: body, held };
                }
            }
            Err(frame) => {
                if let Ok(fields) = frame.into_trailers() {
                    trailers.extend(fields.iter().map(|(name, value)| (name.clone(), value.clone())));
                }
            }
        }
    }
}

/// Reads what is left of a refused request's body, as far as it is cheap, so that closing the connection does not
/// take the answer with it (RFC 9112 §9.6). Says whether all of it was read: otherwise the connection must close.
pub(super) async fn drain<B>(mut body: B) -> bool
where
    B: http_body::Body<Data = Bytes, Error = BoxError> + Unpin,
{
    const MOST: usize = 256 * 1024;
    const LONGEST: Duration = Duration::from_secs(1);
    let reading = async {
        let mut read = 0;
        while read <= MOST {
            match body.frame().await {
                None => return true,
                Some(Err(_)) => return false,
                Some(Ok(frame)) => read += frame.data_ref().map_or(0, Bytes::len),
            }
        }
        false
    };
    tokio::time::timeout(LONGEST, reading).await.unwrap_or(false)
}

/// A body with things that must live, or be accounted for, until its last byte is out.
pub(super) struct Guarded<G> {
    body: Body,
    /// An error that waits until what came before it is written: hyper cuts the connection over it at once, and the
    /// client would not even see the head.
    cut: Option<BoxError>,
    _guard: G,
}

impl<G: Send + Unpin + 'static> Guarded<G> {
    pub(super) fn boxed(body: Body, guard: G) -> Body {
        Self { body, cut: None, _guard: guard }.boxed_unsync()
    }
}

impl<G: Unpin> http_body::Body for Guarded<G> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(error) = self.cut.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Err(error)) => {
                self.cut = Some(error);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            frame => Poll::Ready(frame),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.cut.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The names of trailer fields as a `Trailer` value: without it hyper writes no trailers over HTTP/1.1.
pub(super) fn trailer_names(trailers: &HeaderList) -> Option<HeaderValue> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in trailers {
        if !names.contains(&name.as_str()) {
            names.push(name.as_str());
        }
    }
    (!names.is_empty()).then(|| HeaderValue::from_str(&names.join(", ")).ok()).flatten()
}

#[cfg(test)]
mod tests;
