//! What is said about a request: the same decisions the data plane makes, in its order, told instead of done.

use std::fmt::Write;

use super::request::Described;
use crate::{
    cli::output::{counted, duration, size},
    config::Settings,
    idempotency::{
        Admission, BypassReason, Caller, Fingerprint, IdempotencyKey, Policy, RecordKey, RequestHead, RouteName,
        decide, fingerprint,
        key::KeyError,
        policy::{Anonymous, BodyForm, InFlight, Mode, OnStoreDown, OnUnknown, ScopeRules},
        refusal::{InvalidRequest, Refusal},
        scope::CallerError,
    },
    routes::{HostPattern, Route},
};

/// The whole report.
pub(super) fn explain(settings: &Settings, request: &Described) -> String {
    let route = settings.routes.find(&request.method, &request.authority, request.path());
    let policy = &route.policy;
    let mut report = Report::default();
    report.line("request", format!("{} {}", request.method, request.target));
    report.line("host", if request.authority.is_empty() { "none given (-H 'Host: …')" } else { &request.authority });
    report.line("route", describe_route(route));
    report.policy(policy);

    match decide::admit(policy, &request.method, &request.headers) {
        Admission::Bypass(_) if overrides_into_required(settings, request) => {
            report.refused(&Refusal::RequestInvalid(InvalidRequest::MethodOverride));
        }
        Admission::Bypass(reason) => report.line("protected", format!("no: {}", bypass(reason, policy))),
        Admission::Refuse(refusal) => report.refused(&refusal),
        Admission::Guard(key) => report.guarded(settings, request, policy, &key),
    }
    report.0
}

/// Whether a method-override field asks for a method that requires a key here (CONTRACT §8).
fn overrides_into_required(settings: &Settings, request: &Described) -> bool {
    fingerprint::overriding_methods(&request.headers).any(|method| {
        method != request.method && settings.routes.override_hits_required(&request.authority, request.path(), &method)
    })
}

fn describe_route(route: &Route) -> String {
    if &*route.name.0 == RouteName::DEFAULTS {
        return "none of the [[route]]s matches: [defaults] decides".to_owned();
    }
    let host = route.matcher.host.as_ref().map(HostPattern::to_string).unwrap_or_default();
    format!("{} ({host}{})", route.name.0, route.matcher.path)
}

#[derive(Default)]
struct Report(String);

impl Report {
    fn line(&mut self, label: &str, text: impl AsRef<str>) {
        // Paths and hosts come from whoever asks; controls would steer the terminal of whoever reads.
        let text: String = text.as_ref().chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        let _ = writeln!(self.0, "{label:<12} {text}");
    }

    fn policy(&mut self, policy: &Policy) {
        let mode = match policy.mode {
            Mode::Enforce => "enforce",
            Mode::Off => "off",
        };
        let key = &policy.key;
        let required = if key.required { "required" } else { "optional" };
        self.line("policy", format!("mode {mode}, methods {}", list(&policy.methods)));
        self.line("", format!("key {} {required}, at most {} bytes", key.header, key.max_length));
        self.line("", format!("scope {}, anonymous {}", sources(&policy.scope), anonymous(policy.scope.anonymous)));
        let in_flight = match policy.in_flight {
            InFlight::Reject => "reject".to_owned(),
            InFlight::Wait { at_most } => format!("wait {}", duration(at_most)),
        };
        let unknown = match policy.unknown {
            OnUnknown::Hold => "hold",
            OnUnknown::Retry => "retry",
        };
        let store_down = match policy.store_down {
            OnStoreDown::Reject => "reject",
            OnStoreDown::Bypass => "bypass",
        };
        self.line("", format!("in_flight {in_flight}, unknown {unknown}, store_down {store_down}"));
        self.line("", format!("lease {}, retention {}", duration(policy.lease), duration(policy.retention)));
        let (request, response) = (size(policy.max_request_body), size(policy.max_response_body));
        self.line("", format!("max_request_body {request}, max_response_body {response}"));
    }

    fn guarded(&mut self, settings: &Settings, request: &Described, policy: &Policy, key: &IdempotencyKey) {
        let caller = match Caller::of(&policy.scope, &request.headers) {
            Ok(caller) => caller,
            Err(CallerError::Unknown) => return self.refused(&Refusal::CallerUnknown),
            Err(CallerError::Twice) => return self.refused(&Refusal::RequestInvalid(InvalidRequest::CallerTwice)),
        };
        let length = u64::try_from(request.body.len()).unwrap_or(u64::MAX);
        if length > policy.max_request_body {
            return self.refused(&Refusal::RequestTooLarge { limit: policy.max_request_body });
        }
        let bytes = counted(key.as_str().len(), "byte");
        self.line("protected", format!("yes: {} carries a key of {bytes}", policy.key.header));
        self.line("caller", name_caller(&policy.scope, &caller, request));
        let head = RequestHead {
            method: &request.method,
            authority: &request.authority,
            target: &request.target,
            headers: &request.headers,
        };
        let fingerprint = Fingerprint::of(&policy.fingerprint, &head, &request.body);
        self.line("fingerprint", hex(&fingerprint.0));
        self.line("", format!("over {}", covered(policy, request)));
        self.line("cell", RecordKey::derive(&settings.proxy.namespace, &caller, key).to_string());
    }

    fn refused(&mut self, refusal: &Refusal) {
        let status = if matches!(refusal, Refusal::RequestTooLarge { .. }) { 413 } else { 400 };
        self.line("protected", format!("refused: {status} {} ({})", refusal.label(), why(refusal)));
    }
}

/// The refusals that can be told from a request alone, in words.
fn why(refusal: &Refusal) -> String {
    match refusal {
        Refusal::KeyMissing => "the route has key.required = true, and there is no key".to_owned(),
        Refusal::KeyInvalid(error) => match error {
            KeyError::Twice => "the key header is there twice".to_owned(),
            KeyError::Malformed => "the key header is a list, has parameters or broken quotes".to_owned(),
            KeyError::Empty => "the key is empty".to_owned(),
            KeyError::TooLong { limit } => format!("the key is longer than {}", counted(*limit, "byte")),
            KeyError::Charset => "the key has bytes that are not printable ASCII".to_owned(),
            KeyError::Pattern => "the key does not match key.pattern".to_owned(),
        },
        Refusal::CallerUnknown => "none of the scope sources names the caller; see scope and anonymous".to_owned(),
        Refusal::RequestInvalid(invalid) => match invalid {
            InvalidRequest::HopByHopAbuse => "Connection names a field that must arrive".to_owned(),
            InvalidRequest::CallerTwice => "a scope source is there twice".to_owned(),
            InvalidRequest::MethodOverride => "a method override asks for a method that requires a key".to_owned(),
            InvalidRequest::Grpc => "gRPC cannot be protected, and a key is required".to_owned(),
            InvalidRequest::BodyBroken => "the body is broken".to_owned(),
            InvalidRequest::Http(what) => (*what).to_owned(),
        },
        Refusal::RequestTooLarge { limit } => format!("the body is larger than max_request_body = {}", size(*limit)),
        Refusal::CallerChanged
        | Refusal::RequestTimeout
        | Refusal::KeyReused
        | Refusal::InProgress { .. }
        | Refusal::OutcomeUnknown { .. }
        | Refusal::AnswerNotKept { .. }
        | Refusal::StoreUnavailable
        | Refusal::Overloaded(_)
        | Refusal::Draining => refusal.label().to_owned(),
    }
}

fn bypass(reason: BypassReason, policy: &Policy) -> String {
    match reason {
        BypassReason::Off => "mode = \"off\"".to_owned(),
        BypassReason::Method => format!("the method is not one of {}", list(&policy.methods)),
        BypassReason::Preflight => "a CORS preflight always passes".to_owned(),
        BypassReason::Grpc => "gRPC is never protected".to_owned(),
        BypassReason::NoKey => format!("it carries no {}, and none is required", policy.key.header),
    }
}

/// By what the caller is named; never its credential.
fn name_caller(rules: &ScopeRules, caller: &Caller, request: &Described) -> String {
    if rules.sources.is_empty() {
        return "everyone is one caller (scope = [])".to_owned();
    }
    // A source is there if it alone names a caller.
    let present: Vec<String> = rules
        .sources
        .iter()
        .filter(|source| {
            let alone = ScopeRules { sources: vec![(*source).clone()], anonymous: Anonymous::Reject };
            Caller::of(&alone, &request.headers).is_ok()
        })
        .map(ToString::to_string)
        .collect();
    if present.is_empty() {
        return "anonymous: all callers without a credential are one (anonymous = \"share\")".to_owned();
    }
    let jwt = if caller.is_by_unverified_jwt() { ", a JWT: by its iss and sub, unverified" } else { "" };
    format!("by {}{jwt}", present.join(" and "))
}

fn covered(policy: &Policy, request: &Described) -> String {
    let rules = &policy.fingerprint;
    let mut parts = vec!["method, host, path and query, Content-Type, Content-Encoding".to_owned()];
    if !rules.headers.is_empty() {
        parts.push(list(&rules.headers));
    }
    let bytes = counted(request.body.len(), "byte");
    let ignored = match rules.ignore.len() {
        0 => String::new(),
        _ => format!(" without {}", list(&rules.ignore)),
    };
    parts.push(match rules.body {
        BodyForm::Raw => format!("body ({bytes}, raw)"),
        BodyForm::Json => format!("body ({bytes}, as json{ignored}; raw if it is none)"),
        BodyForm::Form => format!("body ({bytes}, as form{ignored}; raw if it is none)"),
        BodyForm::Multipart => format!("body ({bytes}, as multipart; raw if it is none)"),
        BodyForm::None => "not the body".to_owned(),
    });
    parts.join(", ")
}

fn sources(rules: &ScopeRules) -> String {
    if rules.sources.is_empty() { "[]".to_owned() } else { list(&rules.sources) }
}

fn anonymous(anonymous: Anonymous) -> &'static str {
    match anonymous {
        Anonymous::Reject => "reject",
        Anonymous::Share => "share",
    }
}

fn list(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests;
