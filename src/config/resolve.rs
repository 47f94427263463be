//! From what is written to the `Settings` of every room: rules between keys, and paths made absolute.

use std::{collections::HashSet, path::Path, sync::Arc};

use http::HeaderName;

use super::{
    Settings,
    raw::{self, File, List, Rules},
    read::{At, Reader, Span},
    units::show_duration,
    values::WhenInFlight,
};
use crate::{
    admin,
    idempotency::{
        Policy, RouteName,
        policy::{BodyForm, FingerprintRules, InFlight, KeyRules, ReplayRules, ScopeRules, ScopeSource},
    },
    proxy::{self, Listen},
    routes::{Matcher, Route, RouteTable},
    store::{self, Location, RedisEndpoint},
    telemetry::log,
    upstream::{self, Target},
};

/// The settings of `file`; what is wrong with it is reported to `reader`. `None`: something that must be given is
/// not.
pub(super) fn resolve(file: &File, base_dir: &Path, reader: &mut Reader<'_>) -> Option<Settings> {
    let raw::Document { server, upstream, store, defaults, admin, limits, log } = &file.document;
    let upstream = resolve_upstream(upstream, base_dir, reader);
    let defaults_policy = policy(defaults, &file.document, reader);
    let defaults_route =
        Route { name: RouteName::from(RouteName::DEFAULTS), matcher: Matcher::any(), policy: defaults_policy };
    let routes = resolve_routes(file, reader);
    let settings = Settings {
        proxy: proxy::Settings {
            listen: listen(&server.listen.value, base_dir),
            trusted_proxies: server.trusted_proxies.value.iter().map(|network| network.value).collect(),
            max_connections: server.max_connections.value.count(),
            max_header_bytes: usize::try_from(server.max_header_bytes.value.0).unwrap_or(usize::MAX),
            header_timeout: server.header_timeout.value.0,
            body_timeout: server.body_timeout.value.0,
            idle_timeout: server.idle_timeout.value.0,
            shutdown_delay: server.shutdown_delay.value.0,
            shutdown_grace: server.shutdown_grace.value.0,
            problem_base: server.problem_base.value.0.clone(),
            namespace: store.namespace.value.0.clone(),
            body_memory: limits.body_memory.value.0,
            waiters: limits.waiters.value.count(),
            waiters_per_key: limits.waiters_per_key.value.count(),
            store_timeout: store.timeout.value.0,
        },
        upstream: upstream?,
        store: store::Settings {
            location: location(&store.url.value, base_dir),
            namespace: store.namespace.value.0.clone(),
            timeout: store.timeout.value.0,
            allow_eviction: store.allow_eviction.value,
        },
        routes: RouteTable { routes: routes?.into_iter().map(Arc::new).collect(), defaults: Arc::new(defaults_route) },
        admin: admin::Settings { listen: admin.listen.value.0.clone(), token: admin.token.value.0.clone() },
        log: log::Settings { level: log.level.value, format: log.format.value },
    };
    check_addresses(&settings, file, reader);
    Some(settings)
}

fn listen(listen: &Listen, base_dir: &Path) -> Listen {
    match listen {
        Listen::Tcp(address) => Listen::Tcp(address.clone()),
        Listen::Unix(path) => Listen::Unix(base_dir.join(path)),
    }
}

fn location(location: &Location, base_dir: &Path) -> Location {
    match location {
        Location::Memory => Location::Memory,
        Location::File(path) => Location::File(base_dir.join(path)),
        Location::Redis(address) => {
            let mut address = address.clone();
            if let RedisEndpoint::Unix(path) = &address.endpoint {
                address.endpoint = RedisEndpoint::Unix(base_dir.join(path));
            }
            Location::Redis(address)
        }
    }
}

fn resolve_upstream(raw: &raw::Upstream, base_dir: &Path, reader: &mut Reader<'_>) -> Option<upstream::Settings> {
    if raw.response_timeout.value.0 > raw.max_execution.value.0 {
        let message = format!(
            "`response_timeout` ({}) is longer than `max_execution` ({})",
            show_duration(raw.response_timeout.value.0),
            show_duration(raw.max_execution.value.0)
        );
        let place = raw.response_timeout.span.clone().or_else(|| raw.max_execution.span.clone());
        reader.error(place, message, Some("an exchange that has ended cannot answer any more".to_owned()));
    }
    let target = match &raw.url.given()?.value {
        Target::Tcp { host, port } => Target::Tcp { host: host.clone(), port: *port },
        Target::Unix(path) => Target::Unix(base_dir.join(path)),
    };
    Some(upstream::Settings {
        target,
        connect_timeout: raw.connect_timeout.value.0,
        response_timeout: raw.response_timeout.value.0,
        max_execution: raw.max_execution.value.0,
        idle_reuse: raw.idle_reuse.value.0,
        max_connections: raw.max_connections.value.count(),
        host: raw.host.value,
        forwarded: raw.forwarded.value,
    })
}

/// Two listeners at one place, or an upstream that is the gate itself.
fn check_addresses(settings: &Settings, file: &File, reader: &mut Reader<'_>) {
    let raw::Document { server, upstream, admin, .. } = &file.document;
    let Listen::Tcp(ours) = &settings.proxy.listen else {
        if let (Listen::Unix(ours), Target::Unix(theirs)) = (&settings.proxy.listen, &settings.upstream.target)
            && ours == theirs
        {
            report_loop(upstream, reader);
        }
        return;
    };
    if settings.admin.listen.as_ref() == Some(ours) && !ours.ends_with(":0") {
        let place = admin.listen.span.clone().or_else(|| server.listen.span.clone());
        reader.error(place, format!("`server.listen` and `admin.listen` are both {ours}"), None);
    }
    if let Target::Tcp { host, port } = &settings.upstream.target {
        let theirs = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        if theirs.eq_ignore_ascii_case(ours) {
            report_loop(upstream, reader);
        }
    }
}

fn report_loop(upstream: &raw::Upstream, reader: &mut Reader<'_>) {
    let place = upstream.url.given().and_then(|url| url.span.clone());
    reader.error(place, "the upstream is the gate itself: this is `server.listen`", None);
}

fn resolve_routes(file: &File, reader: &mut Reader<'_>) -> Option<Vec<Route>> {
    let mut names: HashSet<&str> = HashSet::new();
    let mut routes = Vec::with_capacity(file.routes.len());
    let mut complete = true;
    for route in &file.routes {
        let policy = policy(&route.rules, &file.document, reader);
        let (name, path) = (route.head.name.given(), route.head.path.given());
        if let Some(At { value, span }) = name
            && !names.insert(&value.0)
        {
            reader.error(span.clone(), format!("there are two routes named `{}`", value.0), None);
        }
        let (Some(name), Some(path)) = (name, path) else {
            complete = false;
            continue;
        };
        let matcher = Matcher {
            path: path.value.clone(),
            host: route.head.host.value.0.clone(),
            ignore_case: route.head.ignore_case.value,
        };
        routes.push(Route { name: RouteName::from(name.value.0.as_str()), matcher, policy });
    }
    complete.then_some(routes)
}

/// One route's rules. The rules of `[defaults]` that a route takes over are checked again: reports are deduplicated.
fn policy(rules: &Rules, document: &raw::Document, reader: &mut Reader<'_>) -> Policy {
    check_times(rules, document, reader);
    check_scope(rules, reader);
    check_ignore(rules, reader);
    check_replay(rules, reader);
    Policy {
        mode: rules.mode.value,
        methods: values(&rules.methods),
        key: KeyRules {
            header: rules.key.header.value.clone(),
            required: rules.key.required.value,
            max_length: rules.key.max_length.value.count(),
            pattern: rules.key.pattern.value.0.clone(),
        },
        scope: ScopeRules { sources: values(&rules.scope), anonymous: rules.anonymous.value },
        fingerprint: FingerprintRules {
            body: rules.fingerprint.body.value,
            ignore: values(&rules.fingerprint.ignore).into_iter().map(|text| text.0).collect(),
            headers: values(&rules.fingerprint.headers),
        },
        in_flight: match rules.in_flight.value {
            WhenInFlight::Reject => InFlight::Reject,
            WhenInFlight::Wait => InFlight::Wait { at_most: rules.wait_timeout.value.0 },
        },
        lease: rules.lease.value.0,
        retention: rules.retention.value.0,
        unknown: rules.unknown.value,
        outcome: rules.outcome.classes(reader),
        mismatch_status: rules.mismatch_status.value.0,
        max_request_body: rules.max_request_body.value.0,
        max_response_body: rules.max_response_body.value.0,
        replay: ReplayRules {
            drop_headers: values(&rules.replay.drop_headers),
            keep_headers: values(&rules.replay.keep_headers),
        },
        store_down: rules.store_down.value,
    }
}

/// The values of a list, each once.
fn values<T: Clone + PartialEq>(list: &List<T>) -> Vec<T> {
    let mut values: Vec<T> = Vec::with_capacity(list.value.len());
    for At { value, .. } in &list.value {
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    values
}

/// The later one of two places: what was written last is what broke the rule.
fn later(one: Option<&Span>, other: Option<&Span>) -> Option<Span> {
    one.into_iter().chain(other).max_by_key(|span| span.start).cloned()
}

fn check_times(rules: &Rules, document: &raw::Document, reader: &mut Reader<'_>) {
    let (lease, timeout) = (&rules.lease, &document.store.timeout);
    let least = timeout.value.0.saturating_mul(4);
    if lease.value.0 < least {
        let message = format!(
            "`lease` ({}) is shorter than four times `store.timeout` ({})",
            show_duration(lease.value.0),
            show_duration(timeout.value.0)
        );
        let place = lease.span.clone().or_else(|| timeout.span.clone());
        reader.error(
            place,
            message,
            Some(format!("a renewal must fit into a lease: at least {}", show_duration(least))),
        );
    }
    let (retention, execution) = (&rules.retention, &document.upstream.max_execution);
    if retention.value.0 <= execution.value.0 {
        let message = format!(
            "`retention` ({}) is not longer than `upstream.max_execution` ({})",
            show_duration(retention.value.0),
            show_duration(execution.value.0)
        );
        let hint = "a key that is forgotten while its request still runs would be executed again";
        let place = retention.span.clone().or_else(|| execution.span.clone());
        reader.error(place, message, Some(hint.to_owned()));
    }
}

/// The key cannot be the caller too: every key would be a caller of its own, and nobody's secret.
fn check_scope(rules: &Rules, reader: &mut Reader<'_>) {
    let header = &rules.key.header;
    let is_key =
        |source: &&At<ScopeSource>| matches!(&source.value, ScopeSource::Header(name) if name.0 == header.value);
    if let Some(source) = rules.scope.value.iter().find(is_key) {
        let place = later(source.span.as_ref(), header.span.as_ref());
        let message = format!("`{}` is the key's header and a source of `scope`", header.value);
        reader.error(place, message, Some("a scope source says who the caller is: a credential".to_owned()));
    }
    if matches!(header.value.as_str(), "authorization" | "cookie" | "set-cookie") {
        let message = format!("`{}` cannot carry the key", header.value);
        reader.error(header.span.clone(), message, Some("usually it is `Idempotency-Key`".to_owned()));
    }
}

fn check_ignore(rules: &Rules, reader: &mut Reader<'_>) {
    let raw::Fingerprint { body, ignore, .. } = &rules.fingerprint;
    let Some(first) = ignore.value.first() else { return };
    match body.value {
        BodyForm::Raw | BodyForm::Multipart | BodyForm::None => {
            let place = later(ignore.span.as_ref(), body.span.as_ref()).or_else(|| first.span.clone());
            let hint = "`ignore` goes with `body = \"json\"` and `body = \"form\"`; `ignore = []` takes it back";
            reader.error(place, "this form of body has no parts to ignore", Some(hint.to_owned()));
        }
        BodyForm::Json => {
            for pointer in &ignore.value {
                if let Err((message, hint)) = check_pointer(&pointer.value.0) {
                    reader.error(pointer.span.clone(), message, Some(hint));
                }
            }
        }
        BodyForm::Form => {
            for name in ignore.value.iter().filter(|name| name.value.0.is_empty()) {
                reader.error(name.span.clone(), "an empty name", Some("the name of a form field".to_owned()));
            }
        }
    }
}

/// Whether `text` is a JSON Pointer (RFC 6901 §3) to a part of a document.
fn check_pointer(text: &str) -> Result<(), (&'static str, String)> {
    if text.is_empty() {
        let hint = "`body = \"none\"` does not compare bodies";
        return Err(("the empty JSON Pointer is the whole body", hint.to_owned()));
    }
    if !text.starts_with('/') {
        let hint = "it begins with `/` and names each member on the way: `/metadata/sent_at`";
        return Err(("this is not a JSON Pointer", hint.to_owned()));
    }
    let proper = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    if !proper {
        return Err(("this is not a JSON Pointer", "`~` is written as `~0`, and `/` in a name as `~1`".to_owned()));
    }
    Ok(())
}

fn check_replay(rules: &Rules, reader: &mut Reader<'_>) {
    let raw::Replay { drop_headers, keep_headers } = &rules.replay;
    for kept in &keep_headers.value {
        let dropped = drop_headers.value.iter().find(|dropped| dropped.value == kept.value);
        if let Some(dropped) = dropped {
            let message = format!("`{}` is in `drop_headers` and in `keep_headers`", kept.value);
            reader.error(later(kept.span.as_ref(), dropped.span.as_ref()), message, None);
        }
        if is_own(&kept.value) {
            reader.error(kept.span.clone(), format!("`{}` is never repeated as it was", kept.value), None);
        }
    }
}

/// Fields of a replay that the gate makes itself.
fn is_own(name: &HeaderName) -> bool {
    matches!(name.as_str(), "date" | "idempotency-status" | "idempotent-replayed")
}
