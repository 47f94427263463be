//! A configuration as it is written: every key there is, with its type, default and documentation.
//!
//! The one source of all of these: the reader, the hints, the JSON Schema and the tests of the shipped files use
//! what is declared here. Not here: rules between keys (`resolve`) and advice (`advice`).

use http::{HeaderName, Method};
use ipnet::IpNet;
use toml::de::DeTable;

use super::{
    outcome::Outcome,
    places::{AdminListen, AnyHost, Named, Namespace, Pattern, Plain, ProblemBase, Token},
    read::{At, Needed, Reader, Span as Place, Table, table},
    schema::{Field, Shape},
    values::{MismatchStatus, Size, Span, WhenInFlight, Whole},
};
use crate::{
    idempotency::policy::{Anonymous, BodyForm, Mode, OnStoreDown, OnUnknown, ScopeSource},
    proxy::Listen,
    routes::PathTemplate,
    store::Location,
    telemetry::log::Format,
    upstream::{ForwardedStyle, HostPolicy, Target},
};

/// A list of values, each with its place.
pub(super) type List<T> = At<Vec<At<T>>>;

/// The most that is held of one body: it is in memory, and a record must fit into any store.
const LARGEST_BODY: u64 = 256 << 20;

table! {
    /// The whole file but its routes.
    Document {
        /// How clients are served.
        server: Server;
        /// The API that the gate stands before.
        upstream: Upstream;
        /// Where records are kept.
        store: Store;
        /// What holds where a route says nothing else, and where no route matches.
        defaults: Rules;
        /// The listener for operators.
        admin: Admin;
        /// What the gate may use of this machine.
        limits: Limits;
        /// What the gate says about itself.
        log: Log;
    }
}

table! {
    /// `[server]`
    Server {
        /// Where clients connect: `HOST:PORT` or `unix:PATH`.
        listen: At<Listen> = "\"127.0.0.1:8080\"";
        /// Networks whose `Forwarded` and `X-Forwarded-*` fields are believed. From anyone else they are removed.
        trusted_proxies: List<IpNet> = "[]";
        /// Client connections at one time; more wait to be accepted.
        max_connections: At<Whole<1, 1_000_000>> = "10000";
        /// Request line and header fields together; more is refused with 431 or 414.
        max_header_bytes: At<Size<1024, { 16 << 20 }>> = "\"64KiB\"";
        /// For a request head, from its first byte.
        header_timeout: At<Span<1>> = "\"10s\"";
        /// For a whole protected upload.
        body_timeout: At<Span<1>> = "\"60s\"";
        /// For a kept connection without a request.
        idle_timeout: At<Span<1>> = "\"75s\"";
        /// At shutdown: not ready any more, requests are still served.
        shutdown_delay: At<Span<0>> = "\"0s\"";
        /// At shutdown, after the delay: the listener is closed, running requests may end.
        /// What still runs at the end is written down as unknown.
        shutdown_grace: At<Span<0>> = "\"60s\"";
        /// What the `type` of every problem document begins with.
        problem_base: At<ProblemBase> = "\"urn:oncegate:problem:\"";
    }
}

table! {
    /// `[upstream]`
    Upstream {
        /// Where it is: `http://HOST:PORT` or `unix:PATH`. Paths are not rewritten.
        url: Needed<Target>;
        /// For a connection to be made. Also how long a protected request queues for one.
        connect_timeout: At<Span<1>> = "\"2s\"";
        /// Until the head of the answer. Then the client is told that nobody knows yet; the exchange goes on.
        response_timeout: At<Span<1>> = "\"60s\"";
        /// How long a protected exchange goes on in all. Less than every retention.
        max_execution: At<Span<1>> = "\"15m\"";
        /// A pooled connection that was idle for longer is not used for a protected request.
        idle_reuse: At<Span<0>> = "\"2s\"";
        /// Protected exchanges at one time. More queue for at most `connect_timeout`, then get 503.
        max_connections: At<Whole<1, 1_000_000>> = "256";
        /// Which `Host` the upstream sees: `preserve` (the client's) or `upstream` (its own).
        host: At<HostPolicy> = "\"preserve\"";
        /// Which forwarding fields are added: `x-forwarded`, `forwarded`, `both` or `none`.
        forwarded: At<ForwardedStyle> = "\"x-forwarded\"";
    }
}

table! {
    /// `[store]`
    Store {
        /// `file:PATH` (embedded, durable), `memory:` (forgets), `redis://[USER:PASS@]HOST:PORT/DB` or
        /// `redis+unix:PATH`. Paths are relative to this file.
        url: At<Location> = "\"file:oncegate.redb\"";
        /// Part of every cell's name. Gates that share a store and a namespace share their keys.
        namespace: At<Namespace> = "\"oncegate\"";
        /// For one command. A claim gives up after four of them.
        timeout: At<Span<1>> = "\"250ms\"";
        /// Accept a Redis that may evict keys. It forgets claims, and a forgotten claim is executed again.
        allow_eviction: At<bool> = "false";
    }
}

table! {
    /// `[defaults]`, and the same keys of a `[[route]]`
    Rules {
        /// `enforce`, or `off`: nothing is protected, added or removed.
        mode: At<Mode> = "\"enforce\"";
        /// The methods that are protected. A route is no match for any other.
        methods: List<Method> = "[\"POST\", \"PATCH\"]";
        /// What a key is.
        key: Key;
        /// Whose key it is: every source that is present counts, and each must be a credential.
        /// `header:NAME` or `cookie:NAME`; an empty list is one scope for all.
        scope: List<ScopeSource> = "[\"header:Authorization\", \"header:X-API-Key\"]";
        /// A keyed request with none of the sources: `reject` (400), or `share` (all such are one caller).
        anonymous: At<Anonymous> = "\"reject\"";
        /// What makes two requests the same request.
        fingerprint: Fingerprint;
        /// What a duplicate meets while the first request runs: `reject` (409 at once) or `wait`.
        in_flight: At<WhenInFlight> = "\"reject\"";
        /// How long a duplicate waits, at most.
        wait_timeout: At<Span<1>> = "\"10s\"";
        /// How long a claim holds without renewal: what a retry waits for after a gate died.
        /// At least 1s and four times `store.timeout`.
        lease: At<Span<1000>> = "\"30s\"";
        /// How long a key is remembered.
        retention: At<Span<1>> = "\"24h\"";
        /// What a retry meets when nobody knows the outcome: `hold` (409), or `retry` (executed again).
        unknown: At<OnUnknown> = "\"hold\"";
        /// What the status of an answer proves. A table of lists, or a preset: `stripe`, `success-only`.
        outcome: Outcome;
        /// The status for a key that came with another request: 422, or 409 if the API documented that.
        mismatch_status: At<MismatchStatus> = "422";
        /// The largest protected request body; more is refused with 413.
        max_request_body: At<Size<0, LARGEST_BODY>> = "\"1MiB\"";
        /// The largest answer that is kept for replay. A larger one is passed on, and its retries get 409.
        max_response_body: At<Size<0, LARGEST_BODY>> = "\"1MiB\"";
        /// Which header fields a replay repeats.
        replay: Replay;
        /// When the store cannot be asked: `reject` (503), or `bypass` (forwarded unprotected).
        store_down: At<OnStoreDown> = "\"reject\"";
    }
}

table! {
    /// `key`
    Key {
        /// The header field that carries it.
        header: At<HeaderName> = "\"Idempotency-Key\"";
        /// Refuse requests without a key.
        required: At<bool> = "false";
        /// The longest key, in bytes.
        max_length: At<Whole<1, 4096>> = "255";
        /// A regular expression that the whole key must match; empty for none.
        pattern: At<Pattern> = "\"\"";
    }
}

table! {
    /// `fingerprint`
    Fingerprint {
        /// How bodies are compared: `raw`, `json`, `form`, `multipart` or `none`.
        body: At<BodyForm> = "\"raw\"";
        /// Parts of the body that do not count: JSON Pointers for `json`, field names for `form`.
        ignore: List<Plain> = "[]";
        /// Header fields that count, besides `Content-Type` and `Content-Encoding`.
        headers: List<HeaderName> = "[]";
    }
}

table! {
    /// `replay`
    Replay {
        /// Fields that a replay does not repeat, besides those that speak of one exchange only.
        drop_headers: List<HeaderName> = "[]";
        /// Fields that a replay repeats although they speak of one exchange only, such as `Set-Cookie`.
        keep_headers: List<HeaderName> = "[]";
    }
}

table! {
    /// `[admin]`
    Admin {
        /// Where `/livez`, `/readyz` and the rest are: `HOST:PORT`, or `off`.
        listen: At<AdminListen> = "\"127.0.0.1:9180\"";
        /// The Bearer token for everything but the health checks. Empty: all that is refused.
        token: At<Token> = "\"\"";
    }
}

table! {
    /// `[limits]`
    Limits {
        /// Bodies held in memory at one time, all requests together; beyond it 503.
        body_memory: At<Size<1024, { 1 << 50 }>> = "\"256MiB\"";
        /// Duplicates that wait at one time; more get their 409 at once.
        waiters: At<Whole<1, 1_000_000>> = "1024";
        /// Duplicates of one key that wait at one time.
        waiters_per_key: At<Whole<1, 1_000_000>> = "32";
    }
}

table! {
    /// `[log]`
    Log {
        /// The least severe level that is written: `error`, `warn`, `info`, `debug` or `trace`.
        level: At<tracing::Level> = "\"info\"";
        /// `text`, `json`, or `auto`: text on a terminal, JSON otherwise.
        format: At<Format> = "\"auto\"";
    }
}

table! {
    /// What a `[[route]]` has besides its rules
    Head {
        /// Its name in logs, records and problems; unique.
        name: Needed<Named>;
        /// Which paths it is for: `/payments`, `/accounts/{id}/transfers`, `/files/{*rest}`.
        path: Needed<PathTemplate>;
        /// Which host it is for: exact, or `*.example.com`; empty for any.
        host: At<AnyHost> = "\"\"";
        /// For an upstream that takes `/Payments` and `/payments` for the same.
        ignore_case: At<bool> = "false";
    }
}

/// What `[[route]]` is, for editors.
pub(super) const ROUTE_DOC: &str = "Rules for some requests: the most specific path wins, then the order of the file. What a route does not say is as in [defaults].";

/// One `[[route]]`.
#[derive(Clone, PartialEq)]
pub(super) struct Route {
    pub(super) head: Head,
    pub(super) rules: Rules,
    /// Where it is.
    pub(super) place: Place,
}

/// A whole file.
#[derive(Clone, PartialEq)]
pub(super) struct File {
    pub(super) document: Document,
    pub(super) routes: Vec<Route>,
    /// Where `[upstream]` is, if it is there.
    pub(super) upstream: Option<Place>,
}

impl File {
    /// Reads a file's tree. What is wrong is reported to `reader`, and is as the built-in defaults are.
    pub(super) fn read(found: &DeTable<'_>, reader: &mut Reader<'_>) -> Self {
        let mut fields = Document::fields();
        let shape = Shape::Table(Vec::new());
        fields.push(Field { name: "route", doc: ROUTE_DOC, default: None, required: false, shape });
        reader.refuse_unknown(found, &fields);
        let document = Document::read_fields(found, &Document::initial(), reader);
        let routes = reader.within("route", |reader| read_routes(found, &document.defaults, reader));
        Self { document, routes, upstream: found.get("upstream").map(toml::Spanned::span) }
    }

    /// Reports what must be given and is not.
    pub(super) fn require(&self, reader: &mut Reader<'_>) {
        if self.document.upstream.url.is_missing() {
            let hint = "`url = \"http://127.0.0.1:9000\"` below `[upstream]` says where the API is";
            reader.error(self.upstream.clone(), "`upstream.url` is missing", Some(hint.to_owned()));
        }
        for Route { head, place, .. } in &self.routes {
            if head.name.is_missing() {
                let hint = "`name = \"create-payment\"` is what logs and records call it";
                reader.error(place.clone(), "this route has no `name`", Some(hint.to_owned()));
            }
            if head.path.is_missing() {
                let hint = "`path = \"/payments\"`; `\"/{*rest}\"` is every path";
                reader.error(place.clone(), "this route has no `path`", Some(hint.to_owned()));
            }
        }
    }
}

fn read_routes(found: &DeTable<'_>, defaults: &Rules, reader: &mut Reader<'_>) -> Vec<Route> {
    use toml::de::DeValue;
    let Some(routes) = found.get("route") else { return Vec::new() };
    let DeValue::Array(routes) = routes.get_ref() else {
        if let DeValue::Table(_) = routes.get_ref() {
            let hint = "two brackets: `[[route]]` begins one of several";
            reader.error(routes.span(), "a route is written as `[[route]]`", Some(hint.to_owned()));
        } else {
            reader.wrong_type::<()>("`[[route]]` tables", routes.get_ref(), routes.span());
        }
        return Vec::new();
    };
    let known: Vec<_> = Head::fields().into_iter().chain(Rules::fields()).collect();
    let mut read = Vec::with_capacity(routes.len());
    for route in routes {
        let DeValue::Table(table) = route.get_ref() else {
            reader.wrong_type::<()>("a table", route.get_ref(), route.span());
            continue;
        };
        reader.refuse_unknown(table, &known);
        let head = Head::read_fields(table, &Head::initial(), reader);
        let rules = Rules::read_fields(table, defaults, reader);
        read.push(Route { head, rules, place: route.span() });
    }
    read
}
