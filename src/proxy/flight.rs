//! The journey of a winner, in a task of its own: exchange under lease, settle, answer. Once launched, no client,
//! timeout or reload cancels it, and it always settles.

use std::{panic::AssertUnwindSafe, sync::Arc};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Method, header, response};
use http_body::Frame;
use http_body_util::{BodyExt, channel};
use tokio::{sync::oneshot, time::Instant};

use super::{
    Live, Proxy,
    answer::{self, Mark},
    bid,
    body::{Body, BoxError, Guarded, Reservation},
    exchange::{Journey, Landing, NotSent, Outgoing},
    gate::Won,
    lease::Lease,
    ledger::{self, Verdict},
    problem::Problem,
};
use crate::{
    idempotency::{
        Doubt, Expect, NotKept, Outcome, Settlement, StoredBody, StoredResponse, Swapped, Write, decide,
        refusal::retry_after,
        response::{repeats, replayable},
    },
    routes::Route,
    shutdown::Phase,
    upstream::AnswerBody,
};

/// A won claim, ready to go.
pub(super) struct Flight {
    pub(super) proxy: Arc<Proxy>,
    pub(super) live: Arc<Live>,
    pub(super) route: Arc<Route>,
    pub(super) won: Won,
    pub(super) outgoing: Arc<Outgoing>,
    /// Whether the client takes trailers.
    pub(super) wants_trailers: bool,
    pub(super) method: Method,
    /// The memory of the request body.
    pub(super) held: Arc<Reservation>,
}

/// What a flight has for its client.
pub(super) enum Delivery {
    /// An answer, or a part of one that streams on.
    Answer(Box<response::Response<Body>>, Mark),
    /// A problem instead.
    Problem(Box<Problem>),
    /// The claim was given back: bid again.
    Stale,
    /// The claim was given back: no slot to the upstream.
    Overloaded,
}

/// Tells the client, once.
struct Speaker(Option<oneshot::Sender<Delivery>>);

impl Speaker {
    fn say(&mut self, delivery: Delivery) {
        if let Some(client) = self.0.take() {
            // A client that has left does not matter to the flight.
            let _ = client.send(delivery);
        }
    }
}

/// Starts the flight. What it has for the client comes through the returned receiver, which may be dropped.
pub(super) fn launch(flight: Flight) -> oneshot::Receiver<Delivery> {
    let (client, delivery) = oneshot::channel();
    let tracker = flight.proxy.owed.clone();
    tokio::spawn(tracker.track_future(async move {
        let proxy = Arc::clone(&flight.proxy);
        let claim = flight.won.claim.clone();
        // A bug in this flight must not leave its claim to lapse in silence, nor bring others down.
        if AssertUnwindSafe(flight.fly(Speaker(Some(client)))).catch_unwind().await.is_err() {
            let doubt = claim.settle(Settlement::Doubt { doubt: Doubt::GateFailed, kept: None });
            ledger::keep_trying(&proxy, claim, doubt, ());
        }
    }));
    delivery
}

impl Flight {
    async fn fly(self, mut client: Speaker) {
        let proxy = Arc::clone(&self.proxy);
        let airborne = proxy.waiters.take_off(self.won.claim.key);
        let lease = Lease::new(&*proxy.store, &self.won);
        let mut journey = Journey {
            proxy: &proxy,
            live: &self.live,
            lease: &lease,
            outgoing: &self.outgoing,
            max_response_body: self.route.policy.max_response_body,
            give_up: None,
        };
        let age = retry_after(self.live.upstream.settings().response_timeout);
        let landing = tokio::select! {
            landing = journey.run(|| client.say(Delivery::Problem(Box::new(Problem::still_running(age))))) => landing,
            never = lease.keep() => match never {},
        };
        let give_up = journey.give_up.unwrap_or_else(Instant::now);
        let settlement = decide::settle(&self.route.policy, self.outcome(&landing));
        let straggler = lease.may_have_straggler();
        let mark = self.put_down(settlement, straggler).await;
        drop(airborne);
        if client.0.is_none() && mark == Mark::Executed {
            tracing::info!(cell = %self.won.claim.key, route = %self.won.claim.route, "a late answer came, and is on record");
        }
        self.deliver(landing, mark, give_up, &mut client).await;
    }

    /// What is known, in the words of the core.
    fn outcome(&self, landing: &Landing) -> Outcome {
        let (head, body) = match landing {
            Landing::NotSent(_) => return Outcome::NotSent,
            Landing::Lost(doubt) => return Outcome::Lost(*doubt),
            Landing::Whole { head, bytes, trailers, .. } => {
                let rules = &self.route.policy.replay;
                let trailers = trailers.iter().filter(|(name, _)| repeats(name, rules)).cloned().collect();
                (head, StoredBody::Whole { bytes: bytes.clone(), trailers })
            }
            Landing::Open { head, why, .. } => (head, StoredBody::NotKept(*why)),
            Landing::Broken { head } => (head, StoredBody::NotKept(NotKept::Broken)),
        };
        let mut headers = replayable(&head.headers, &self.route.policy.replay);
        // The length of what a GET would have brought: the empty body of a HEAD does not show it.
        if self.method == Method::HEAD
            && let Some(length) = head.headers.get(header::CONTENT_LENGTH)
        {
            headers.push((header::CONTENT_LENGTH, length.clone()));
        }
        Outcome::Answered {
            status: head.status,
            retry_after: head.headers.contains_key(header::RETRY_AFTER),
            answer: StoredResponse { status: Some(head.status), headers, body },
        }
    }

    /// Writes the settlement down, before the client hears of it, and says what may be said of it.
    async fn put_down(&self, settlement: Settlement, straggler: bool) -> Mark {
        let meant = match settlement {
            Settlement::Complete(_) => Mark::Executed,
            Settlement::Release => Mark::Released,
            Settlement::Doubt { .. } => Mark::Unknown,
        };
        let write = self.won.claim.settle(settlement);
        let timeout = self.live.settings.store_timeout;
        let holder = Expect::HeldBy(self.won.claim.token);
        let written = ledger::insist(&*self.proxy.store, &self.won.claim.key, holder, &write, timeout).await;
        if straggler && matches!(write, Write::Clear) {
            // A bid or a renewal that lands behind the release would bring the claim back from the dead.
            bid::withdraw(&self.proxy, self.won.claim.clone());
        }
        match written.map(|Verdict { swapped, .. }| swapped) {
            Ok(Swapped::Done) => meant,
            Ok(Swapped::Recreated) => {
                tracing::error!(
                    cell = %self.won.claim.key, route = %self.won.claim.route,
                    "the store had forgotten a claim; its outcome is written anew. Other keys may be forgotten, too"
                );
                meant
            }
            // Nothing there to release: the key is free.
            Ok(Swapped::Refused { occupant: None }) if matches!(write, Write::Clear) => meant,
            Ok(Swapped::Refused { occupant }) => {
                tracing::error!(
                    cell = %self.won.claim.key, route = %self.won.claim.route,
                    by = ?occupant.map(|occupant| occupant.record.token),
                    "the claim was taken over before its outcome could be written: the operation may have run twice"
                );
                self.unwritten(meant)
            }
            Err(error) => {
                tracing::error!(
                    cell = %self.won.claim.key, route = %self.won.claim.route, %error,
                    "an outcome cannot be written; it is tried again in the background"
                );
                match write {
                    Write::Clear => bid::withdraw(&self.proxy, self.won.claim.clone()),
                    Write::Hold(_) | Write::Renew(_) | Write::Complete(_) | Write::Doubt(_) => {
                        ledger::keep_trying(&self.proxy, self.won.claim.clone(), write, Arc::clone(&self.held));
                    }
                }
                self.unwritten(meant)
            }
        }
    }

    /// What a client hears whose outcome is not on record. That nobody knows stays true.
    fn unwritten(&self, meant: Mark) -> Mark {
        if meant == Mark::Unknown { Mark::Unknown } else { Mark::Unrecorded }
    }

    async fn deliver(&self, landing: Landing, mark: Mark, give_up: Instant, client: &mut Speaker) {
        match landing {
            Landing::NotSent(NotSent::Stale) => client.say(Delivery::Stale),
            Landing::NotSent(NotSent::Overloaded) => client.say(Delivery::Overloaded),
            Landing::NotSent(NotSent::Unreachable) => {
                client.say(Delivery::Problem(Box::new(Problem::upstream_unreachable(true))));
            }
            Landing::Lost(doubt) => {
                self.log_doubt(doubt);
                let problem = match doubt {
                    Doubt::UpstreamTimedOut | Doubt::Shutdown => Problem::given_up(),
                    Doubt::AnswerLost | Doubt::UpstreamSaid(_) | Doubt::ClaimLapsed | Doubt::GateFailed => {
                        Problem::answer_lost()
                    }
                };
                client.say(Delivery::Problem(Box::new(problem)));
            }
            Landing::Broken { head } => {
                tracing::warn!(
                    cell = %self.won.claim.key, route = %self.won.claim.route, status = head.status.as_u16(),
                    "the upstream's answer broke off"
                );
                client.say(Delivery::Problem(Box::new(Problem::broken_off(head.status, mark))));
            }
            Landing::Whole { head, bytes, trailers, held } => {
                let answer = answer::first(head, bytes, &trailers, self.wants_trailers, &self.method);
                let answer = answer.map(|body| Guarded::boxed(body, held));
                client.say(Delivery::Answer(Box::new(answer), mark));
            }
            Landing::Open { head, start, rest, held, .. } => {
                let (mut pipe, body) = channel::Channel::<Bytes, BoxError>::new(8);
                let mut answer = response::Response::from_parts(head, body.boxed_unsync());
                answer.extensions_mut().clear();
                client.say(Delivery::Answer(Box::new(answer), mark));
                if pour(&mut pipe, start).await {
                    drop(held);
                    self.stream(pipe, rest, give_up).await;
                } else {
                    drop(held);
                    drain(rest, give_up).await;
                }
            }
        }
    }

    /// Passes the rest of an answer on. Its record is written: neither the client's leaving nor `max_execution` cuts
    /// the upstream short, but an answer that nobody reads is not read for ever.
    async fn stream(&self, mut pipe: channel::Sender<Bytes, BoxError>, mut rest: AnswerBody, give_up: Instant) {
        loop {
            let frame = tokio::select! {
                frame = rest.frame() => frame,
                () = self.proxy.shutdown.reached(Phase::Over) => Some(Err("the gate is shutting down".into())),
            };
            match frame {
                None => return,
                Some(Err(error)) => return pipe.abort(error),
                Some(Ok(frame)) => {
                    let frame = match frame.into_trailers() {
                        Ok(trailers) => Frame::trailers(answer::without_markers(trailers)),
                        Err(frame) => frame,
                    };
                    if pipe.send(frame).await.is_err() {
                        return drain(rest, give_up).await;
                    }
                }
            }
        }
    }

    fn log_doubt(&self, doubt: Doubt) {
        tracing::warn!(
            cell = %self.won.claim.key, route = %self.won.claim.route, doubt = doubt.label(),
            "the outcome of an execution is unknown"
        );
    }
}

async fn pour(pipe: &mut channel::Sender<Bytes, BoxError>, start: Bytes) -> bool {
    start.is_empty() || pipe.send(Frame::data(start)).await.is_ok()
}

/// Reads an answer that nobody waits for, so that the upstream is not cut off while it works.
async fn drain(mut rest: AnswerBody, give_up: Instant) {
    let reading = async { while let Some(Ok(_)) = rest.frame().await {} };
    // Cut off at the end: the outcome is on record.
    let _ = tokio::time::timeout_at(give_up, reading).await;
}
