//! The story of a request. Never fails: every error is an answer.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version, header, request::Parts};
use http_body::Body as _;
use hyper::body::Incoming;

use super::{
    Live, Proxy,
    access::Access,
    answer::{self, Mark},
    attend::Exchange,
    bid,
    body::{self, Body, Guarded, Intact, Reservation},
    client::Client,
    exchange::Outgoing,
    flight::{self, Delivery, Flight},
    gate::{self, Entry},
    intake::{self, Flaw, Intake},
    passthrough,
    problem::Problem,
};
use crate::{
    idempotency::{
        Admission, Caller, Claim, Fingerprint, IdempotencyKey, RecordKey, Refusal, RequestHead, decide, fingerprint,
        refusal::{InvalidRequest, Overload},
        scope::CallerError,
    },
    routes::Route,
    shutdown::Phase,
    upstream::headers::{self, Hop, Kind, OutboundError},
};

/// A request's body, known to be whole at its end.
pub(super) type Upload = Intact<Incoming>;

/// Everything that is known of one request once its head is judged.
pub(super) struct Received {
    pub(super) proxy: Arc<Proxy>,
    pub(super) live: Arc<Live>,
    pub(super) client: Client,
    pub(super) parts: Parts,
    pub(super) intake: Intake,
}

impl Received {
    /// The message's way, for the fields that tell of it.
    pub(super) fn hop(&self) -> Hop<'_> {
        let trusted = self
            .client
            .peer
            .is_none_or(|peer| self.live.settings.trusted_proxies.iter().any(|network| network.contains(&peer)));
        Hop {
            peer: self.client.peer,
            trusted,
            scheme: "http",
            authority: &self.intake.authority,
            pseudonym: &self.proxy.pseudonym,
            version: self.parts.version,
        }
    }

    /// The head as the upstream sees it.
    pub(super) fn outbound(&self, kind: Kind) -> Result<Parts, Flaw> {
        headers::outbound(self.parts.clone(), &self.hop(), kind, self.live.upstream.settings()).map_err(|error| {
            match error {
                OutboundError::TooManyFields => Flaw::Invalid("there are too many header fields"),
                OutboundError::Authority => Flaw::Invalid("the authority cannot be forwarded"),
            }
        })
    }

    /// Path and query, byte for byte.
    pub(super) fn target(&self) -> &str {
        self.parts.uri.path_and_query().map_or("/", |target| target.as_str())
    }
}

/// Answers one request.
pub(super) async fn handle(
    proxy: Arc<Proxy>,
    client: Client,
    exchange: Exchange,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    // What a drain waits for, and the connection's clock: both until the last byte of the answer is out.
    let guard = (exchange, proxy.running.token());
    let draining = proxy.shutdown.phase() >= Phase::Draining;
    let version = request.version();
    let mut response = answer(proxy, client, request).await;
    // HTTP/1.0 has no chunks: an answer of unknown length ends with the connection, and must say so (RFC 9112 §9.3).
    let endless = version == Version::HTTP_10
        && response.body().size_hint().exact().is_none()
        && !response.headers().contains_key(header::CONTENT_LENGTH);
    if (draining && version != Version::HTTP_2) || endless {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response.map(|body| Guarded::boxed(body, guard)))
}

async fn answer(proxy: Arc<Proxy>, client: Client, mut request: Request<Incoming>) -> Response<Body> {
    let live = proxy.live.load_full();
    let mut access = Access::new(request.method());
    let upgrade = passthrough::Upgrade::asked_for(&mut request);
    let (parts, incoming) = request.into_parts();
    let upload = Intact::new(incoming, parts.version);
    let intake = match intake::judge(&parts, &proxy.pseudonym) {
        Ok(intake) => intake,
        Err(flaw) => {
            let mark = is_keyed(&live, &parts).then_some(Mark::NotExecuted);
            return turn_away(&live, &access, &parts, upload, Problem::flaw(flaw), mark).await;
        }
    };
    if intake.is_final_recipient {
        return final_recipient();
    }
    let received = Received { proxy, live, client, parts, intake };

    let live = Arc::clone(&received.live);
    let (method, authority) = (&received.parts.method, &received.intake.authority);
    let path = received.parts.uri.path();
    let route = Arc::clone(live.routes.find(method, authority, path));
    access.route = Some(route.name.clone());
    let policy = &route.policy;
    match decide::admit(policy, method, &received.parts.headers) {
        Admission::Bypass(_) if overrides_into_required(&received) => {
            let refusal = Refusal::RequestInvalid(InvalidRequest::MethodOverride);
            refuse(&received, &route, &access, upload, &refusal).await
        }
        Admission::Bypass(_) if received.proxy.shutdown.phase() >= Phase::Draining => {
            let problem = Problem::refusal(&Refusal::Draining, policy, bid::wall_now());
            turn_away(&live, &access, &received.parts, upload, problem, None).await
        }
        Admission::Bypass(_) => passthrough::forward(received, upload, upgrade, &access).await,
        Admission::Refuse(refusal) => refuse(&received, &route, &access, upload, &refusal).await,
        Admission::Guard(_) if received.proxy.shutdown.phase() >= Phase::Draining => {
            refuse(&received, &route, &access, upload, &Refusal::Draining).await
        }
        Admission::Guard(key) => protect(received, route, key, upload, access).await,
    }
}

/// Whether a route would protect a message that is refused for being invalid, as far as that can be told.
fn is_keyed(live: &Live, parts: &Parts) -> bool {
    let named = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let authority = parts.uri.authority().map(|authority| authority.as_str()).or(named).unwrap_or_default();
    let route = live.routes.find(&parts.method, authority, parts.uri.path());
    matches!(decide::admit(&route.policy, &parts.method, &parts.headers), Admission::Guard(_) | Admission::Refuse(_))
}

/// `OPTIONS` with `Max-Forwards: 0`: the answer of the final recipient (RFC 9110 §7.6.2).
fn final_recipient() -> Response<Body> {
    let mut response = Response::new(body::whole(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// Whether a request that is not protected by its own method asks, by override, for a method that requires a key
/// here (CONTRACT §8).
fn overrides_into_required(received: &Received) -> bool {
    let (authority, path) = (&received.intake.authority, received.parts.uri.path());
    fingerprint::overriding_methods(&received.parts.headers).any(|method| {
        method != received.parts.method && received.live.routes.override_hits_required(authority, path, &method)
    })
}

/// CONTRACT §3.3 – 3.9.
async fn protect(
    received: Received,
    route: Arc<Route>,
    key: IdempotencyKey,
    upload: Upload,
    mut access: Access,
) -> Response<Body> {
    let policy = &route.policy;
    let settings = &received.live.settings;
    let caller = match Caller::of(&policy.scope, &received.parts.headers) {
        Ok(caller) => caller,
        Err(error) => {
            let refusal = match error {
                CallerError::Unknown => Refusal::CallerUnknown,
                CallerError::Twice => Refusal::RequestInvalid(InvalidRequest::CallerTwice),
            };
            return refuse(&received, &route, &access, upload, &refusal).await;
        }
    };
    warn_of_unverified(&caller);
    let cell = RecordKey::derive(&settings.namespace, &caller, &key);
    access.cell = Some(cell);

    let mut upload = upload;
    let collected =
        body::collect(&mut upload, policy.max_request_body, settings.body_timeout, &received.proxy.memory).await;
    let (bytes, held) = match collected {
        Ok(collected) => collected,
        Err(refusal) => return refuse(&received, &route, &access, upload, &refusal).await,
    };
    let head = RequestHead {
        method: &received.parts.method,
        authority: &received.intake.authority,
        target: received.target(),
        headers: &received.parts.headers,
    };
    let claim = Claim {
        key: cell,
        token: bid::draw_token(),
        fingerprint: Fingerprint::of(&policy.fingerprint, &head, &bytes),
        caller: caller.tag(),
        route: route.name.clone(),
        began: bid::wall_now(),
        lease: policy.lease,
        retention: policy.retention,
    };
    let outgoing = match received.outbound(Kind::Protected) {
        Ok(head) => Arc::new(Outgoing { head, body: bytes }),
        Err(flaw) => {
            return turn_away(
                &received.live,
                &access,
                &received.parts,
                upload,
                Problem::flaw(flaw),
                Some(Mark::NotExecuted),
            )
            .await;
        }
    };
    let (response, mark) = settle(&received, &route, claim, &outgoing, Arc::new(held)).await;
    finish(&received.parts, &access, response, mark)
}

/// A claim that grows stale before it can be used is given back; so often is it bid for again.
const STALE_CLAIMS: u32 = 3;

/// Bids, and lets the winner fly.
async fn settle(
    received: &Received,
    route: &Arc<Route>,
    claim: Claim,
    outgoing: &Arc<Outgoing>,
    held: Arc<Reservation>,
) -> (Response<Body>, Mark) {
    let Received { proxy, live, client, parts, .. } = received;
    let problem = |problem: Problem| (problem.mark, problem.into_response(&live.settings.problem_base));
    let refusal = |refusal: &Refusal| problem(Problem::refusal(refusal, &route.policy, bid::wall_now()));
    let wants_trailers = parts.version > Version::HTTP_10 && answer::wants_trailers(&parts.headers);
    for _ in 0..=STALE_CLAIMS {
        let (mark, response) = match gate::enter(proxy, live, route, client, claim.clone()).await {
            Entry::Replay(stored) => match answer::replay(stored, &route.policy.replay, wants_trailers) {
                Some(response) => (Mark::Replayed, response),
                None => refusal(&Refusal::AnswerNotKept { original_status: None }),
            },
            Entry::Refuse(why) => refusal(&why),
            Entry::Left => refusal(&Refusal::InProgress { began: claim.began }),
            Entry::Bypass => {
                let body = body::whole(outgoing.body.clone());
                let response = passthrough::exchange(received, outgoing.head.clone(), body, true).await;
                (Mark::Unprotected, response)
            }
            Entry::Won(won) => {
                let delivery = flight::launch(Flight {
                    proxy: Arc::clone(proxy),
                    live: Arc::clone(live),
                    route: Arc::clone(route),
                    won: *won,
                    outgoing: Arc::clone(outgoing),
                    wants_trailers,
                    method: parts.method.clone(),
                    held: Arc::clone(&held),
                });
                match delivery.await {
                    Ok(Delivery::Answer(response, mark)) => (mark, *response),
                    Ok(Delivery::Problem(what)) => problem(*what),
                    Ok(Delivery::Overloaded) => refusal(&Refusal::Overloaded(Overload::UpstreamConnections)),
                    Ok(Delivery::Stale) => continue,
                    // The flight failed; it has seen to its record.
                    Err(_) => problem(Problem::answer_lost()),
                }
            }
        };
        return (response, mark);
    }
    let (mark, response) = refusal(&Refusal::Overloaded(Overload::StaleClaims));
    (response, mark)
}

/// The last touch on every answer to a protected request.
fn finish(parts: &Parts, access: &Access, mut response: Response<Body>, mark: Mark) -> Response<Body> {
    answer::stamp(response.headers_mut(), mark, parts.headers.contains_key(header::ORIGIN));
    access.log(response.status(), mark.word());
    response
}

/// Refuses a request that a route protects, or would protect.
async fn refuse(
    received: &Received,
    route: &Route,
    access: &Access,
    upload: Upload,
    refusal: &Refusal,
) -> Response<Body> {
    let problem = Problem::refusal(refusal, &route.policy, bid::wall_now());
    let mark = problem.mark;
    turn_away(&received.live, access, &received.parts, upload, problem, Some(mark)).await
}

/// Answers with a problem before the body was read: what is left of it is consumed, or the connection closes.
async fn turn_away(
    live: &Live,
    access: &Access,
    parts: &Parts,
    upload: Upload,
    problem: Problem,
    mark: Option<Mark>,
) -> Response<Body> {
    let slug = problem.slug();
    // A client that waits for `100 Continue` has sent nothing: asking for the body now would be wrong.
    let waits = expects_continue(&parts.headers);
    // Nor is a client that was too slow given more time.
    let close = problem.close || waits || problem.is_timeout() || !body::drain(upload).await;
    let mut response = problem.into_response(&live.settings.problem_base);
    if close && parts.version != Version::HTTP_2 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if let Some(mark) = mark {
        answer::stamp(response.headers_mut(), mark, parts.headers.contains_key(header::ORIGIN));
    }
    access.log(response.status(), slug);
    response
}

fn expects_continue(headers: &HeaderMap) -> bool {
    headers.get_all(header::EXPECT).iter().any(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Says once in a process that a token is taken at its word to recognise its subject (CONTRACT §6).
fn warn_of_unverified(caller: &Caller) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if caller.is_by_unverified_jwt() && !SAID.swap(true, Relaxed) {
        tracing::warn!(
            "callers send JWTs, which are not verified here: a refreshed token of the same subject gets 409 \
             caller-changed instead of the replay. The cure, scope = [\"jwt:sub\"], needs a version that verifies \
             tokens; until then keep a token for all tries of one operation"
        );
    }
}
