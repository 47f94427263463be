//! The exchange of a won claim with the upstream: sent at most once, waited for until `max_execution`.
//!
//! Ends in what is known, a [`Landing`]. Not here: what that means for the record (`decide::settle`) and for the
//! client (`flight`).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, request, response};
use http_body_util::{BodyExt, Full};
use tokio::time::Instant;

use super::{
    Live, Proxy, answer,
    body::{self, Capture, Reservation},
    lease::Lease,
};
use crate::{
    idempotency::{Doubt, HeaderList, NotKept, decide},
    shutdown::Phase,
    upstream::{AnswerBody, Connection, Evidence, Freshness, SendError, headers},
};

/// A request on its way: complete, and to be sent as often as it takes until a byte of it is written.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// The head as the upstream sees it.
    pub(super) head: request::Parts,
    /// The whole body.
    pub(super) body: Bytes,
}

impl Outgoing {
    fn request(&self) -> Request<crate::upstream::RequestBody> {
        let body = Full::new(self.body.clone()).map_err(|never| match never {}).boxed_unsync();
        Request::from_parts(self.head.clone(), body)
    }
}

/// How an exchange ended: all that is known.
pub(super) enum Landing {
    /// Certainly not sent.
    NotSent(NotSent),
    /// Sent, wholly or in part, and no final head came.
    Lost(Doubt),
    /// A complete answer.
    Whole { head: response::Parts, bytes: Bytes, trailers: HeaderList, held: Reservation },
    /// An answer that is not held back until its end: it streams, or is too large.
    Open { head: response::Parts, start: Bytes, rest: AnswerBody, why: NotKept, held: Reservation },
    /// A head, and a body that broke off.
    Broken { head: response::Parts },
}

/// Why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotSent {
    /// There is no connection, or it died before a whole head was on it.
    Unreachable,
    /// No slot became free in time.
    Overloaded,
    /// The claim had grown too old to be relied on.
    Stale,
}

/// One exchange.
pub(super) struct Journey<'a> {
    pub(super) proxy: &'a Proxy,
    pub(super) live: &'a Arc<Live>,
    pub(super) lease: &'a Lease<'a>,
    pub(super) outgoing: &'a Outgoing,
    pub(super) max_response_body: u64,
    /// Set from the first send: when the execution is given up.
    pub(super) give_up: Option<Instant>,
}

impl Journey<'_> {
    /// Sends the request and waits for the answer. `late` is called once, if no head came within
    /// `response_timeout`.
    pub(super) async fn run(&mut self, late: impl FnOnce()) -> Landing {
        let upstream = &self.live.upstream;
        let _slot = tokio::select! {
            slot = upstream.slot() => match slot {
                Some(slot) => slot,
                None => return Landing::NotSent(NotSent::Overloaded),
            },
            () = self.proxy.shutdown.reached(Phase::Over) => return Landing::NotSent(NotSent::Unreachable),
        };
        let mut late = Some(late);
        match self.send(Freshness::Young, &mut late).await {
            Sent::Answered(answer) => self.receive(*answer).await,
            Sent::Never { again: false } => Landing::NotSent(NotSent::Unreachable),
            Sent::Stale => Landing::NotSent(NotSent::Stale),
            Sent::Lost(doubt) => Landing::Lost(doubt),
            // Not one byte was written: this attempt never was. One more, on a connection that nobody has closed yet.
            Sent::Never { again: true } => match self.send(Freshness::New, &mut late).await {
                Sent::Answered(answer) => self.receive(*answer).await,
                Sent::Never { .. } => Landing::NotSent(NotSent::Unreachable),
                Sent::Stale => Landing::NotSent(NotSent::Stale),
                Sent::Lost(doubt) => Landing::Lost(doubt),
            },
        }
    }

    async fn send(&mut self, freshness: Freshness, late: &mut Option<impl FnOnce()>) -> Sent {
        let checkout = tokio::select! {
            checkout = self.live.upstream.checkout(freshness) => checkout,
            // Nothing is sent yet: better a key that is free than a doubt.
            () = self.proxy.shutdown.reached(Phase::Over) => return Sent::Never { again: false },
        };
        let connection = match checkout {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(%error, "the upstream cannot be reached");
                return Sent::Never { again: false };
            }
        };
        // The last look before the first byte: behind it, whoever may take this claim over finds it held.
        if !self.lease.is_fresh() {
            return Sent::Stale;
        }
        match self.head(connection, late).await {
            Waited::Answered(Ok(answer)) => Sent::Answered(answer),
            Waited::Answered(Err(error)) => {
                tracing::warn!(%error, evidence = error.evidence.label(), "the upstream did not answer");
                match error.evidence {
                    Evidence::NeverWritten => Sent::Never { again: true },
                    Evidence::HeadIncomplete => Sent::Never { again: false },
                    Evidence::Lost => Sent::Lost(Doubt::AnswerLost),
                }
            }
            Waited::GaveUp(doubt) => Sent::Lost(doubt),
        }
    }

    async fn head(&mut self, connection: Connection, late: &mut Option<impl FnOnce()>) -> Waited {
        let settings = self.live.upstream.settings();
        let began = Instant::now();
        let give_up = *self.give_up.get_or_insert(began + settings.max_execution);
        let mut patience = std::pin::pin!(tokio::time::sleep(settings.response_timeout));
        let mut sending = std::pin::pin!(connection.send(self.outgoing.request()));
        let mut end = std::pin::pin!(self.end(give_up));
        loop {
            tokio::select! {
                // An answer that is there counts, whatever else is due.
                biased;
                answered = &mut sending => return Waited::Answered(answered.map(Box::new).map_err(Box::new)),
                doubt = &mut end => return Waited::GaveUp(doubt),
                () = &mut patience, if late.is_some() => {
                    if let Some(late) = late.take() {
                        late();
                    }
                }
            }
        }
    }

    /// Waits until the execution is to be given up.
    async fn end(&self, give_up: Instant) -> Doubt {
        tokio::select! {
            () = tokio::time::sleep_until(give_up) => Doubt::UpstreamTimedOut,
            () = self.proxy.shutdown.reached(Phase::Over) => Doubt::Shutdown,
        }
    }

    /// Takes the body, as far as it is to be held back.
    async fn receive(&self, answer: Response<AnswerBody>) -> Landing {
        let (head, body) = answer.into_parts();
        let mut head = headers::inbound(head);
        head.headers = answer::without_markers(head.headers);
        if let Some(why) = decide::streams(&head.headers) {
            return Landing::Open { head, start: Bytes::new(), rest: body, why, held: self.proxy.memory.reserve() };
        }
        let stall: Duration = self.live.upstream.settings().response_timeout;
        let capturing = body::capture(body, self.max_response_body, stall, &self.proxy.memory);
        let give_up = self.give_up.unwrap_or_else(Instant::now);
        let captured = tokio::select! {
            biased;
            captured = capturing => captured,
            _ = self.end(give_up) => Capture::Broken,
        };
        match captured {
            Capture::Whole { bytes, mut trailers, held } => {
                trailers.retain(|(name, _)| !answer::is_marker(name.as_str()));
                Landing::Whole { head, bytes, trailers, held }
            }
            Capture::TooLarge { start, rest, held } => {
                Landing::Open { head, start, rest, why: NotKept::TooLarge, held }
            }
            Capture::Broken => Landing::Broken { head },
        }
    }
}

/// How one attempt to send ended.
enum Sent {
    Answered(Box<Response<AnswerBody>>),
    /// The upstream never saw a whole head. `again`: not even one byte.
    Never {
        again: bool,
    },
    Stale,
    Lost(Doubt),
}

enum Waited {
    Answered(Result<Box<Response<AnswerBody>>, Box<SendError>>),
    GaveUp(Doubt),
}
