//! All the rules there are: `admit`, `arbitrate`, `settle`, `degrade`. Pure; the shell matches what they return.

use http::{HeaderMap, Method, StatusCode, header};

use super::{
    cell::Expect,
    fingerprint::is_method_override,
    key::IdempotencyKey,
    policy::{InFlight, Mode, OnStoreDown, OnUnknown, Policy, ScopeSource, StatusClass},
    record::{Claim, ClaimToken, Doubt, Occupant, State},
    refusal::{InvalidRequest, Refusal},
    response::{NotKept, StoredBody, StoredResponse},
};

/// What is done with a request, judged by its head alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Forwarded unprotected; nothing is added or removed.
    Bypass(BypassReason),
    /// Protected under this key.
    Guard(IdempotencyKey),
    /// Refused.
    Refuse(Refusal),
}

/// Why a request is not protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BypassReason {
    /// `mode = "off"`.
    Off,
    /// The method is not listed.
    Method,
    /// A CORS preflight (Fetch §3.2.2), which a browser sends without credentials and headers.
    Preflight,
    /// `application/grpc*`: its outcome is in the trailers, its body streams.
    Grpc,
    /// There is no key, and none is required.
    NoKey,
}

/// Decides by its head whether a request is protected (CONTRACT §3.2).
#[must_use]
pub fn admit(policy: &Policy, method: &Method, headers: &HeaderMap) -> Admission {
    match policy.mode {
        Mode::Off => return Admission::Bypass(BypassReason::Off),
        Mode::Enforce => {}
    }
    if !policy.methods.contains(method) {
        return Admission::Bypass(BypassReason::Method);
    }
    if is_preflight(method, headers) {
        return Admission::Bypass(BypassReason::Preflight);
    }
    // Before the content type is looked at: the gate must not judge by a field that the upstream will not see.
    if connection_names(headers, |name| is_identifying(policy, name)) {
        return Admission::Refuse(Refusal::RequestInvalid(InvalidRequest::HopByHopAbuse));
    }
    // An upstream may go by either line; what one of them means for the key is anyone's guess.
    if headers.get_all(header::CONTENT_TYPE).iter().count() > 1
        && (policy.key.required || headers.contains_key(&policy.key.header))
    {
        return Admission::Refuse(Refusal::RequestInvalid(InvalidRequest::Http("more than one Content-Type line")));
    }
    if is_grpc(headers) {
        return if policy.key.required {
            Admission::Refuse(Refusal::RequestInvalid(InvalidRequest::Grpc))
        } else {
            Admission::Bypass(BypassReason::Grpc)
        };
    }
    match IdempotencyKey::find(headers, &policy.key) {
        Ok(Some(key)) => Admission::Guard(key),
        Ok(None) if policy.key.required => Admission::Refuse(Refusal::KeyMissing),
        Ok(None) => Admission::Bypass(BypassReason::NoKey),
        Err(error) => Admission::Refuse(Refusal::KeyInvalid(error)),
    }
}

fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Whether the content is gRPC (`application/grpc`, `application/grpc+proto`, `application/grpc-web`, …), beyond doubt:
/// the only line says so, and it is not a list, which is what an intermediary makes of several lines (RFC 9110 §5.3).
#[must_use]
pub fn is_grpc(headers: &HeaderMap) -> bool {
    const PREFIX: &[u8] = b"application/grpc";
    let mut lines = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(value), None) = (lines.next(), lines.next()) else { return false };
    let value = value.as_bytes().trim_ascii_start();
    value.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX)) && !value.contains(&b',')
}

/// Whether any `Connection` line names a field for which `which` holds. The name is given in lower case.
///
/// Works on bytes, so that a stray non-ASCII byte does not hide the rest of the line.
pub fn connection_names(headers: &HeaderMap, which: impl Fn(&str) -> bool) -> bool {
    headers.get_all(header::CONNECTION).iter().any(|line| {
        line.as_bytes()
            .split(|&byte| byte == b',')
            .any(|name| which(&String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase()))
    })
}

/// Whether the gate depends on the field `name`: a client that has it removed as hop-by-hop hides the key, the
/// caller, which request it is, or where it goes and ends.
fn is_identifying(policy: &Policy, name: &str) -> bool {
    const ALWAYS: [&str; 5] = ["host", "content-length", "transfer-encoding", "content-type", "content-encoding"];
    name == policy.key.header.as_str()
        || ALWAYS.contains(&name)
        || is_method_override(name)
        || policy.fingerprint.headers.iter().any(|listed| listed.as_str() == name)
        || policy.scope.sources.iter().any(|source| match source {
            ScopeSource::Header(header) => header.0.as_str() == name,
            ScopeSource::Cookie(_) => name == "cookie",
        })
}

/// What a bidder does after a look at the occupant of its cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The earlier bid did land; its reply was lost.
    Own,
    /// Gone meanwhile, or doubtful and re-executable: bid again, expecting this.
    Bid(Expect),
    /// In flight elsewhere, and the route has patience.
    Wait,
    /// The answer is known.
    Replay(StoredResponse),
    /// No.
    Refuse(Refusal),
    /// Lapsed and not re-executable: write the doubt down under this token, then refuse.
    Declare {
        /// Whose claim lapsed.
        from: ClaimToken,
    },
}

/// Decides what a bid meets that did not win, in the order of CONTRACT §3.7.
#[must_use]
pub fn arbitrate(policy: &Policy, claim: &Claim, occupant: Option<&Occupant>) -> Decision {
    let Some(occupant) = occupant else {
        return Decision::Bid(Expect::Absent);
    };
    let record = &occupant.record;
    if record.token == claim.token {
        return Decision::Own;
    }
    if record.caller != claim.caller {
        return Decision::Refuse(Refusal::CallerChanged);
    }
    if record.fingerprint != claim.fingerprint {
        return Decision::Refuse(Refusal::KeyReused);
    }
    match &record.state {
        State::Completed(response) => match response.body {
            StoredBody::Whole { .. } if response.status.is_some() => Decision::Replay(response.clone()),
            StoredBody::Whole { .. } | StoredBody::NotKept(_) => {
                Decision::Refuse(Refusal::AnswerNotKept { original_status: response.status })
            }
        },
        State::Claimed if !occupant.is_doubtful() => match policy.in_flight {
            InFlight::Wait { .. } => Decision::Wait,
            InFlight::Reject => Decision::Refuse(Refusal::InProgress { began: record.began }),
        },
        State::Claimed => match policy.unknown {
            OnUnknown::Hold => Decision::Declare { from: record.token },
            OnUnknown::Retry => Decision::Bid(Expect::Doubtful(record.token)),
        },
        State::Unknown { .. } => match policy.unknown {
            OnUnknown::Hold => Decision::Refuse(Refusal::OutcomeUnknown { since: Some(record.began) }),
            OnUnknown::Retry => Decision::Bid(Expect::Doubtful(record.token)),
        },
    }
}

/// What is known at the end of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A final head came, and with it or without it a body.
    Answered {
        /// The status.
        status: StatusCode,
        /// Whether the head carries `Retry-After`.
        retry_after: bool,
        /// What there is to keep. Its `status` is the one above.
        answer: StoredResponse,
    },
    /// Proof that the upstream never saw the request.
    NotSent,
    /// The upstream may have acted, and no final head came.
    Lost(Doubt),
}

/// What is written down at the end of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Executed, with this answer.
    Complete(StoredResponse),
    /// Not executed; the key is free again.
    Release,
    /// Unknown.
    Doubt {
        /// Why.
        doubt: Doubt,
        /// What the upstream said, for the operator.
        kept: Option<StoredResponse>,
    },
}

/// Decides what is written down (CONTRACT §4). The status class comes first: size, streaming and completeness
/// matter only where the answer is to be stored.
#[must_use]
pub fn settle(policy: &Policy, outcome: Outcome) -> Settlement {
    match outcome {
        Outcome::NotSent => Settlement::Release,
        Outcome::Lost(doubt) => Settlement::Doubt { doubt, kept: None },
        Outcome::Answered { status, retry_after, answer } => match policy.outcome.class(status, retry_after) {
            StatusClass::Store => Settlement::Complete(answer),
            StatusClass::Release => Settlement::Release,
            StatusClass::Unknown => Settlement::Doubt { doubt: Doubt::UpstreamSaid(status), kept: Some(answer) },
        },
    }
}

/// Whether an answer must not be held back until it is complete: its stream has no end to wait for.
#[must_use]
pub fn streams(headers: &HeaderMap) -> Option<NotKept> {
    const EVENT_STREAM: &[u8] = b"text/event-stream";
    let value = headers.get(header::CONTENT_TYPE)?.as_bytes();
    let media_type = value.split(|&byte| byte == b';').next()?.trim_ascii();
    media_type.eq_ignore_ascii_case(EVENT_STREAM).then_some(NotKept::Streamed)
}

/// How a store failed, as far as it matters to a bid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFailure {
    /// The bid was refused by the store or never left the gate: certainly nothing was claimed.
    NotApplied,
    /// The bid may have landed.
    InDoubt,
    /// There is a record, and it cannot be read.
    Unreadable,
}

/// What a bidder does without a verdict of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Degraded {
    /// Refuse.
    Refuse(Refusal),
    /// Forward unprotected, and say so.
    Bypass,
}

/// Decides what a request meets whose claim could not be judged. Unreadable is never executed over.
#[must_use]
pub fn degrade(policy: &Policy, failure: StoreFailure) -> Degraded {
    match (failure, policy.store_down) {
        (StoreFailure::Unreadable, _) => Degraded::Refuse(Refusal::OutcomeUnknown { since: None }),
        (StoreFailure::NotApplied, OnStoreDown::Bypass) => Degraded::Bypass,
        (StoreFailure::NotApplied, OnStoreDown::Reject) | (StoreFailure::InDoubt, _) => {
            Degraded::Refuse(Refusal::StoreUnavailable)
        }
    }
}

#[cfg(test)]
mod tests;
