//! `Via`, `Forwarded` and `X-Forwarded-*`: who passed a request on. Pure.
//!
//! What an untrusted peer says about others is removed, not appended to; so are the twins with underscores that some
//! servers cannot tell from the real names, whoever sent them.

use std::net::IpAddr;

use http::{HeaderName, HeaderValue, Version, header::GetAll};

use super::{
    ForwardedStyle,
    headers::{Hop, OutboundError, field_value, joined},
};

const FORWARDED: HeaderName = HeaderName::from_static("forwarded");
const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// What becomes of a forwarding field that was received.
pub(super) enum Edit {
    Drop,
    Keep,
    Set(HeaderValue),
}

/// Whether a field says where a request came from: `Forwarded`, every `X-Forwarded…`, `X-Real-IP`, with underscores too.
pub(super) fn is_forwarding(name: &HeaderName) -> bool {
    let folded = |prefix: &str| {
        let name = name.as_str().as_bytes();
        name.len() >= prefix.len()
            && name
                .iter()
                .zip(prefix.as_bytes())
                .all(|(byte, wanted)| byte == wanted || (*byte == b'_' && *wanted == b'-'))
    };
    folded("x-forwarded")
        || (folded("forwarded") && name.as_str().len() == "forwarded".len())
        || (folded("x-real-ip") && name.as_str().len() == "x-real-ip".len())
}

/// What to do with the lines of a forwarding field. Our own part is added to what a trusted peer said; what it said of the
/// original host and scheme stands.
pub(super) fn edit(
    name: &HeaderName,
    values: &GetAll<'_, HeaderValue>,
    hop: &Hop<'_>,
    style: ForwardedStyle,
) -> Result<Edit, OutboundError> {
    if !hop.trusted || name.as_str().contains('_') {
        return Ok(Edit::Drop);
    }
    let own = match style {
        ForwardedStyle::XForwarded | ForwardedStyle::Both if *name == FOR => hop.peer.map(plain),
        ForwardedStyle::Forwarded | ForwardedStyle::Both if *name == FORWARDED => Some(element(hop)),
        ForwardedStyle::XForwarded | ForwardedStyle::Forwarded | ForwardedStyle::Both | ForwardedStyle::None => None,
    };
    match own {
        Some(own) => Ok(Edit::Set(joined(values, ", ", Some(&own))?)),
        None => Ok(Edit::Keep),
    }
}

/// The fields that we add where there are none.
pub(super) fn fresh(hop: &Hop<'_>, style: ForwardedStyle) -> Result<Vec<(HeaderName, HeaderValue)>, OutboundError> {
    let mut fields = Vec::new();
    if matches!(style, ForwardedStyle::XForwarded | ForwardedStyle::Both) {
        if let Some(peer) = hop.peer {
            fields.push((FOR, field_value(plain(peer).into_bytes())?));
        }
        if !hop.authority.is_empty() {
            fields.push((HOST, field_value(hop.authority.as_bytes().to_vec())?));
        }
        fields.push((PROTO, field_value(hop.scheme.as_bytes().to_vec())?));
    }
    if matches!(style, ForwardedStyle::Forwarded | ForwardedStyle::Both) {
        fields.push((FORWARDED, field_value(element(hop).into_bytes())?));
    }
    Ok(fields)
}

/// Our member of `Via`: the version as received and our pseudonym (RFC 9110 §7.6.3).
pub(super) fn via(hop: &Hop<'_>) -> String {
    let version = match hop.version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2.0",
        _ => "1.1",
    };
    format!("{version} {}", hop.pseudonym)
}

/// Our element of `Forwarded` (RFC 7239 §4).
fn element(hop: &Hop<'_>) -> String {
    let client = match hop.peer.map(|peer| peer.to_canonical()) {
        Some(IpAddr::V4(address)) => address.to_string(),
        Some(IpAddr::V6(address)) => format!("\"[{address}]\""),
        None => "unknown".to_owned(),
    };
    let host = if hop.authority.is_empty() { String::new() } else { format!(";host={}", quoted(hop.authority)) };
    format!("for={client}{host};proto={}", hop.scheme)
}

fn plain(peer: IpAddr) -> String {
    peer.to_canonical().to_string()
}

/// A token as it is, anything else as a quoted string.
fn quoted(value: &str) -> String {
    let is_token = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
    if is_token { value.to_owned() } else { format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")) }
}
