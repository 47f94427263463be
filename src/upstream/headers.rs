//! What a request and a response may carry across the gate: pure functions on heads.
//!
//! Fields of one connection stay on it (RFC 9110 §7.6.1), the rest keeps its order and letters; lines of one name stand
//! together, where the first of them stood. Heads are rebuilt rather than edited, because removing from a `HeaderMap`
//! disturbs the order. Values are bytes: nothing is skipped because it is not text.
//! Not here: which requests are refused for their fields (the proxy), the framing lines (`framing.rs`).

use std::net::IpAddr;

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version,
    header::{self, GetAll},
    request, response,
};

use super::{
    HostPolicy, Settings, Target,
    forwarded::{self, Edit},
};

/// How a request came to us.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    /// Who sent it; `None` on a unix socket.
    pub peer: Option<IpAddr>,
    /// Whether the peer's forwarding fields are believed (`server.trusted_proxies`).
    pub trusted: bool,
    /// `http` or `https`.
    pub scheme: &'a str,
    /// The effective authority: the target's, `:authority`, or `Host`. Empty if there was none (HTTP/1.0).
    pub authority: &'a str,
    /// Our name in `Via`.
    pub pseudonym: &'a str,
    /// As received.
    pub version: Version,
}

/// What a request is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sent under a claim, with a body that has been read: no `Upgrade`, no `Expect`, no trailers.
    Protected,
    /// Passed through.
    Streamed {
        /// It may leave HTTP (`Upgrade`), for anything but `h2c`.
        upgrade: bool,
    },
}

/// A head that cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutboundError {
    /// More fields than a `HeaderMap` holds.
    #[error("too many header fields")]
    TooManyFields,
    /// The authority is not a field value.
    #[error("the authority is not a valid Host")]
    Authority,
}

impl From<header::MaxSizeReached> for OutboundError {
    fn from(_: header::MaxSizeReached) -> Self {
        Self::TooManyFields
    }
}

/// The fields that the `Connection` lines of a head name, lower case. [`outbound`] leaves them in the extensions, so that
/// the trailers are spared them too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nominated(Vec<Box<[u8]>>);

/// Fields of one connection, whether `Connection` names them or not.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "proxy-connection",
    "keep-alive",
    "te",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    "proxy-authorization",
];

/// Fields that decide how a message is read: never taken out because `Connection` names them, never taken from trailers.
const FRAMING: [&str; 3] = ["host", "content-length", "transfer-encoding"];

/// Fields that mean something only in a head. An upstream that merges trailers into the headers would take them for what
/// the gate has checked there.
const HEAD_ONLY: [&str; 22] = [
    "authorization",
    "cookie",
    "set-cookie",
    "x-api-key",
    "x-auth-token",
    "idempotency-key",
    "x-idempotency-key",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "content-encoding",
    "content-range",
    "content-type",
    "cache-control",
    "expect",
    "max-forwards",
    "range",
    "if-match",
    "if-none-match",
    "trailer",
    "via",
    "origin",
];

/// The request as the upstream sees it: an origin-form target byte for byte (`*` for a server-wide `OPTIONS`), HTTP/1.1,
/// `Host` by policy, and only the fields that may cross. `Content-Length` and `Transfer-Encoding` are left as received;
/// they are rewritten when the request is sent. `Max-Forwards` of an `OPTIONS` is counted down. The extensions, in which
/// the letters of the names are kept, stay.
///
/// # Errors
/// When the head cannot be made; nothing was sent.
pub fn outbound(
    mut parts: request::Parts,
    hop: &Hop<'_>,
    kind: Kind,
    settings: &Settings,
) -> Result<request::Parts, OutboundError> {
    let received = std::mem::take(&mut parts.headers);
    let nominated = nominated(&received);
    let upgrade = upgrade(&received, hop, kind);
    let trailers = accepts_trailers(&received);
    let mut connection = connection(trailers, upgrade.is_some());
    let mut upgrade = upgrade;
    let mut host = Some(host(hop, settings)?);
    let mut via = true;

    let mut sent = HeaderMap::try_with_capacity(received.keys_len() + 8)?;
    if !received.contains_key(header::HOST)
        && let Some(host) = host.take()
    {
        sent.try_append(header::HOST, host)?;
    }
    for name in received.keys() {
        let values = received.get_all(name);
        match *name {
            header::HOST => put(&mut sent, name, host.take())?,
            header::CONNECTION => put(&mut sent, name, connection.take())?,
            header::TE => put(&mut sent, name, trailers.then(|| HeaderValue::from_static("trailers")))?,
            header::UPGRADE => put(&mut sent, name, upgrade.take())?,
            header::CONTENT_LENGTH | header::TRANSFER_ENCODING => pass(&mut sent, name, &values, hop)?,
            header::EXPECT | header::TRAILER if kind == Kind::Protected => {}
            _ if is_hop_by_hop(name) || nominated.contains(name) => {}
            header::VIA => {
                via = false;
                put(&mut sent, name, Some(joined(&values, ", ", Some(&forwarded::via(hop)))?))?;
            }
            header::COOKIE if hop.version == Version::HTTP_2 => {
                put(&mut sent, name, Some(joined(&values, "; ", None)?))?;
            }
            header::MAX_FORWARDS if parts.method == Method::OPTIONS => {
                put(&mut sent, name, values.iter().next().map(one_less))?;
            }
            _ if forwarded::is_forwarding(name) => match forwarded::edit(name, &values, hop, settings.forwarded)? {
                Edit::Drop => {}
                Edit::Keep => pass(&mut sent, name, &values, hop)?,
                Edit::Set(value) => put(&mut sent, name, Some(value))?,
            },
            _ => pass(&mut sent, name, &values, hop)?,
        }
    }
    put(&mut sent, &header::CONNECTION, connection.take())?;
    if via {
        put(&mut sent, &header::VIA, Some(field_value(forwarded::via(hop).into_bytes())?))?;
    }
    for (name, value) in forwarded::fresh(hop, settings.forwarded)? {
        if !sent.contains_key(&name) {
            put(&mut sent, &name, Some(value))?;
        }
    }

    parts.headers = sent;
    parts.uri = target(&parts);
    parts.version = Version::HTTP_11;
    parts.extensions.insert(nominated);
    Ok(parts)
}

/// The response as the client may see it: without the fields of the upstream's connection, and without a length that
/// `Transfer-Encoding` overrides (RFC 9112 §6.3). A `101` keeps its `Upgrade`. `Trailer`, the reason phrase and the letters
/// of the names stay; no `Via` is added.
#[must_use]
pub fn inbound(mut parts: response::Parts) -> response::Parts {
    let received = std::mem::take(&mut parts.headers);
    let nominated = nominated(&received);
    let switching = parts.status == StatusCode::SWITCHING_PROTOCOLS;
    let chunked = received.contains_key(header::TRANSFER_ENCODING);
    let mut given = HeaderMap::with_capacity(received.keys_len());
    for name in received.keys() {
        let values = received.get_all(name);
        match *name {
            header::CONNECTION if switching => {
                given.append(name, HeaderValue::from_static("Upgrade"));
            }
            header::UPGRADE if switching => {
                values.iter().for_each(|value| {
                    given.append(name, value.clone());
                });
            }
            header::CONTENT_LENGTH if chunked => {}
            header::CONTENT_LENGTH => {
                // Repeated lengths are equal, or there would be no response: one is enough.
                if let Some(length) = values.iter().flat_map(members).next()
                    && let Ok(length) = HeaderValue::from_bytes(length)
                {
                    given.append(name, length);
                }
            }
            _ if is_hop_by_hop(name) || nominated.contains(name) => {}
            _ => values.iter().for_each(|value| {
                given.append(name, value.clone());
            }),
        }
    }
    parts.headers = given;
    parts
}

/// The trailers of a request that may go on: without framing, credential, identity, forwarding and hop-by-hop fields, and
/// without those that its `Connection` named. [`super::Connection::send`] does it.
#[must_use]
pub fn outbound_trailers(trailers: HeaderMap, nominated: &Nominated) -> HeaderMap {
    kept(trailers, |name| {
        !is_hop_by_hop(name)
            && !nominated.contains(name)
            && !forwarded::is_forwarding(name)
            && !is_one_of(name, &FRAMING)
            && !is_one_of(name, &HEAD_ONLY)
    })
}

/// The trailers of a response that may go on: without framing and hop-by-hop fields, and without those that its
/// `Connection` named. [`super::AnswerBody`] does it.
#[must_use]
pub fn inbound_trailers(trailers: HeaderMap, nominated: &Nominated) -> HeaderMap {
    kept(trailers, |name| {
        !is_hop_by_hop(name)
            && !nominated.contains(name)
            && !is_one_of(name, &FRAMING)
            && !is_one_of(name, &["trailer", "content-encoding", "content-type", "content-range"])
    })
}

/// The fields that the `Connection` lines of a head name. Connection options and framing fields are not among them.
#[must_use]
pub fn nominated(headers: &HeaderMap) -> Nominated {
    let named = headers.get_all(header::CONNECTION);
    let mut names = Vec::new();
    for member in named.iter().flat_map(members) {
        let name = member.to_ascii_lowercase();
        let known = name == b"close" || HOP_BY_HOP.iter().chain(&FRAMING).any(|known| known.as_bytes() == name);
        if !known {
            names.push(name.into_boxed_slice());
        }
    }
    Nominated(names)
}

impl Nominated {
    fn contains(&self, name: &HeaderName) -> bool {
        self.0.iter().any(|nominated| **nominated == *name.as_str().as_bytes())
    }
}

/// The members of a list field's line, without white space and empty ones.
pub(super) fn members(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    value.as_bytes().split(|byte| *byte == b',').map(trimmed).filter(|member| !member.is_empty())
}

/// All lines of a field as one, and one more member.
pub(super) fn joined(
    values: &GetAll<'_, HeaderValue>,
    separator: &str,
    last: Option<&str>,
) -> Result<HeaderValue, OutboundError> {
    let lines: Vec<&[u8]> = values
        .iter()
        .map(|value| trimmed(value.as_bytes()))
        .chain(last.map(str::as_bytes))
        .filter(|line| !line.is_empty())
        .collect();
    field_value(lines.join(separator.as_bytes()))
}

/// A value made of parts that are values.
pub(super) fn field_value(bytes: Vec<u8>) -> Result<HeaderValue, OutboundError> {
    HeaderValue::from_maybe_shared(bytes::Bytes::from(bytes)).map_err(|_invalid| OutboundError::Authority)
}

fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

fn is_one_of(name: &HeaderName, names: &[&str]) -> bool {
    names.contains(&name.as_str())
}

fn is_hop_by_hop(name: &HeaderName) -> bool {
    is_one_of(name, &HOP_BY_HOP)
}

fn put(headers: &mut HeaderMap, name: &HeaderName, value: Option<HeaderValue>) -> Result<(), OutboundError> {
    if let Some(value) = value {
        headers.try_append(name, value)?;
    }
    Ok(())
}

fn pass(
    headers: &mut HeaderMap,
    name: &HeaderName,
    values: &GetAll<'_, HeaderValue>,
    hop: &Hop<'_>,
) -> Result<(), OutboundError> {
    for value in values {
        // HTTP/2 lets white space around a value through; on HTTP/1 it would be part of the syntax.
        let padded = hop.version == Version::HTTP_2 && trimmed(value.as_bytes()).len() != value.len();
        let value = if padded { field_value(trimmed(value.as_bytes()).to_vec())? } else { value.clone() };
        headers.try_append(name, value)?;
    }
    Ok(())
}

fn kept(trailers: HeaderMap, may_go_on: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    if trailers.keys().all(&may_go_on) {
        return trailers;
    }
    let mut kept = HeaderMap::with_capacity(trailers.keys_len());
    for name in trailers.keys().filter(|name| may_go_on(name)) {
        for value in trailers.get_all(name) {
            kept.append(name, value.clone());
        }
    }
    kept
}

fn accepts_trailers(headers: &HeaderMap) -> bool {
    headers.get_all(header::TE).iter().flat_map(members).any(|coding| coding.eq_ignore_ascii_case(b"trailers"))
}

/// What may be offered to the upstream of the protocols that the client offers.
fn upgrade(headers: &HeaderMap, hop: &Hop<'_>, kind: Kind) -> Option<HeaderValue> {
    if kind != (Kind::Streamed { upgrade: true }) || hop.version != Version::HTTP_11 {
        return None;
    }
    let offered = headers.get_all(header::UPGRADE);
    let offered: Vec<&[u8]> =
        offered.iter().flat_map(members).filter(|protocol| !protocol.eq_ignore_ascii_case(b"h2c")).collect();
    if offered.is_empty() { None } else { HeaderValue::from_bytes(&offered.join(&b", "[..])).ok() }
}

fn connection(trailers: bool, upgrade: bool) -> Option<HeaderValue> {
    match (trailers, upgrade) {
        (false, false) => None,
        (true, false) => Some(HeaderValue::from_static("TE")),
        (false, true) => Some(HeaderValue::from_static("Upgrade")),
        (true, true) => Some(HeaderValue::from_static("TE, Upgrade")),
    }
}

fn host(hop: &Hop<'_>, settings: &Settings) -> Result<HeaderValue, OutboundError> {
    let authority = match settings.host {
        HostPolicy::Preserve if !hop.authority.is_empty() => hop.authority.to_owned(),
        HostPolicy::Preserve | HostPolicy::Upstream => settings.target.authority(),
    };
    field_value(authority.into_bytes())
}

impl Target {
    /// What the upstream calls itself: `host[:port]`, without the default port; `localhost` on a unix socket.
    #[must_use]
    pub fn authority(&self) -> String {
        match self {
            Self::Tcp { host, port } => {
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                if *port == 80 { host } else { format!("{host}:{port}") }
            }
            Self::Unix(_) => "localhost".to_owned(),
        }
    }
}

/// The target in origin-form or asterisk-form (RFC 9112 §3.2), with the path and query as they came.
fn target(parts: &request::Parts) -> Uri {
    match parts.uri.path_and_query() {
        Some(_) if is_about_the_server(parts) => Uri::from_static("*"),
        Some(path) => Uri::from(path.clone()),
        // Authority-form: refused before.
        None => Uri::from_static("/"),
    }
}

/// `OPTIONS http://host` without a path is about the server (RFC 9112 §3.2.4). The `http` crate reads it as if it had the
/// path `/`, so that `OPTIONS http://host/` is taken for it too, unless it is a preflight: those ask about a resource.
fn is_about_the_server(parts: &request::Parts) -> bool {
    parts.method == Method::OPTIONS
        && parts.version != Version::HTTP_2
        && parts.uri.scheme().is_some()
        && parts.uri.path_and_query().is_some_and(|path| path.as_str() == "/")
        && !parts.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// `Max-Forwards` for the next hop. What is not a number is passed on.
fn one_less(value: &HeaderValue) -> HeaderValue {
    let hops = value.to_str().ok().and_then(|value| value.trim().parse::<u32>().ok());
    hops.map_or_else(|| value.clone(), |hops| HeaderValue::from(hops.saturating_sub(1)))
}

#[cfg(test)]
mod tests;
