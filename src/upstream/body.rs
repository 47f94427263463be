//! The two bodies of an exchange: the request's, which reports its end, and the answer's, which holds its connection.

use std::{
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::{
    BoxError, RequestBody,
    connection::Link,
    headers::{self, Nominated},
    pool::Pool,
    wire::Wire,
};

/// A request body on its way: tells the wire when it has ended, and filters its trailers.
#[derive(Debug)]
pub(super) struct TrackedBody {
    inner: RequestBody,
    end: End,
    nominated: Nominated,
}

/// Tells the wire that the body has ended: also when it is dropped, which hyper does, without asking for more, once it has
/// got the length that was announced.
#[derive(Debug)]
struct End(Arc<Wire>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.body_ended();
    }
}

impl TrackedBody {
    pub(super) fn new(inner: RequestBody, wire: Arc<Wire>, nominated: Nominated) -> Self {
        Self { inner, end: End(wire), nominated }
    }

    pub(super) fn into_inner(self) -> RequestBody {
        self.inner
    }
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        if frame.is_none() || self.inner.is_end_stream() {
            self.end.0.body_ended();
        }
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| match frame.into_trailers() {
                Ok(trailers) => {
                    self.end.0.body_ended();
                    Frame::trailers(headers::outbound_trailers(trailers, &self.nominated))
                }
                Err(data) => data,
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The body of an answer. Holds the connection; gives it back for reuse at a clean end, closes it when it is dropped
/// before. Hop-by-hop fields are taken out of the trailers.
#[derive(Debug)]
pub struct AnswerBody {
    inner: Incoming,
    /// Until the end of the body, or its failure.
    held: Option<Held>,
    nominated: Nominated,
}

#[derive(Debug)]
struct Held {
    link: Link,
    /// Where it goes afterwards; nowhere if it must not be used again.
    pool: Weak<Pool>,
}

impl AnswerBody {
    pub(super) fn new(inner: Incoming, link: Link, pool: Weak<Pool>, nominated: Nominated) -> Self {
        let mut body = Self { inner, held: Some(Held { link, pool }), nominated };
        if body.inner.is_end_stream() {
            body.finish();
        }
        body
    }

    /// The empty body of an answer whose connection is no longer ours.
    pub(super) fn detached(inner: Incoming) -> Self {
        Self { inner, held: None, nominated: Nominated::default() }
    }

    fn finish(&mut self) {
        if let Some(Held { link, pool }) = self.held.take() {
            link.give_back(pool);
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
            Some(Ok(frame)) => {
                // Whoever reads a body of known length need not ask again after its last byte.
                if self.inner.is_end_stream() {
                    self.finish();
                }
                Poll::Ready(Some(Ok(match frame.into_trailers() {
                    Ok(trailers) => Frame::trailers(headers::inbound_trailers(trailers, &self.nominated)),
                    Err(data) => data,
                })))
            }
            Some(Err(error)) => {
                self.held = None;
                Poll::Ready(Some(Err(error.into())))
            }
            None => {
                self.finish();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
