//! Is it valid HTTP for a gateway? What hyper lets through and a proxy must not (CONTRACT §8, RFC 9110, 9112, 9113).
//!
//! Pure: looks at a request's head and the connection's facts. Not here: keys, callers and routes.

use http::{HeaderMap, HeaderValue, Method, Uri, Version, header, request::Parts, uri::Authority};

/// What a valid head says beyond its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Intake {
    /// The effective authority; empty for HTTP/1.0 without `Host`.
    pub(super) authority: String,
    /// Whether `Max-Forwards` ends here (RFC 9110 §7.6.2). The upstream room counts it down otherwise.
    pub(super) is_final_recipient: bool,
}

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// 400.
    Invalid(&'static str),
    /// 400, and the framing is in doubt: the connection closes.
    Framing(&'static str),
    /// 405 for CONNECT (which also closes the connection, RFC 9931) and TRACE.
    Method { close: bool },
    /// 501: a transfer coding that we do not know.
    Coding,
    /// 508: our own name is in `Via`.
    Loop,
}

/// Judges a request's head. `pseudonym` is how this process names itself in `Via`.
///
/// # Errors
/// The first flaw.
pub(super) fn judge(parts: &Parts, pseudonym: &str) -> Result<Intake, Flaw> {
    if parts.method == Method::CONNECT {
        return Err(Flaw::Method { close: true });
    }
    coding(&parts.headers)?;
    if parts.method == Method::TRACE {
        return Err(Flaw::Method { close: false });
    }
    let authority = authority(parts)?;
    target(parts)?;
    if names_us(&parts.headers, pseudonym) {
        return Err(Flaw::Loop);
    }
    Ok(Intake { authority, is_final_recipient: is_final_recipient(parts)? })
}

/// hyper looks at the last coding only, and we drop the field: anything but one `chunked` would reach the upstream
/// decoded by half.
fn coding(headers: &HeaderMap) -> Result<(), Flaw> {
    let mut lines = headers.get_all(header::TRANSFER_ENCODING).iter();
    let Some(line) = lines.next() else { return Ok(()) };
    if lines.next().is_some() || !line.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") {
        return Err(Flaw::Coding);
    }
    Ok(())
}

/// The effective authority (RFC 9112 §3.2, RFC 9113 §8.3.1).
fn authority(parts: &Parts) -> Result<String, Flaw> {
    let mut lines = parts.headers.get_all(header::HOST).iter();
    let host = match (lines.next(), lines.next()) {
        (None, _) => None,
        (Some(line), None) => Some(parse_host(line)?),
        (Some(_), Some(_)) => return Err(Flaw::Framing("more than one Host line")),
    };
    let named = match parts.uri.authority() {
        Some(authority) => Some(parse_authority(authority)?),
        None => None,
    };
    if parts.version == Version::HTTP_2 {
        return match (named, host) {
            (Some(named), Some(host)) if !named.eq_ignore_ascii_case(&host) => {
                Err(Flaw::Invalid("Host differs from :authority"))
            }
            (Some(named), _) => Ok(named),
            (None, Some(host)) => Ok(host),
            (None, None) => Err(Flaw::Invalid("neither :authority nor Host")),
        };
    }
    match (named, host) {
        (_, None) if parts.version == Version::HTTP_11 => Err(Flaw::Framing("HTTP/1.1 without Host")),
        // An absolute target replaces Host (RFC 9112 §3.2.2).
        (Some(named), _) => Ok(named),
        (None, Some(host)) => Ok(host),
        (None, None) => Ok(String::new()),
    }
}

fn parse_host(line: &HeaderValue) -> Result<String, Flaw> {
    const WRONG: Flaw = Flaw::Framing("Host is not a host");
    let text = line.to_str().map_err(|_| WRONG)?.trim_matches([' ', '\t']);
    // An empty Host is valid for targets without an authority; there is no such target here, but old clients send it.
    if text.is_empty() {
        return Ok(String::new());
    }
    parse_authority(&text.parse::<Authority>().map_err(|_| WRONG)?)
}

fn parse_authority(authority: &Authority) -> Result<String, Flaw> {
    const WRONG: Flaw = Flaw::Framing("the authority is not HOST[:PORT]");
    let text = authority.as_str();
    let host = authority.host();
    let bracketed = host.starts_with('[') && host.ends_with(']');
    let plain = !host.is_empty() && host.bytes().all(is_host_byte);
    if text.contains('@') || !(bracketed || plain) {
        return Err(WRONG);
    }
    match text[host.len()..].strip_prefix(':') {
        None if text.len() == host.len() => {}
        Some(port) if port.is_empty() || (port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok()) => {}
        None | Some(_) => return Err(WRONG),
    }
    Ok(text.to_owned())
}

/// RFC 3986 reg-name without sub-delims that would read as a list or a path somewhere behind us.
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'%' | b'!' | b'$' | b'&' | b'+' | b'=')
}

fn target(parts: &Parts) -> Result<(), Flaw> {
    let uri: &Uri = &parts.uri;
    if let Some(scheme) = uri.scheme_str()
        && !scheme.eq_ignore_ascii_case("http")
        && !scheme.eq_ignore_ascii_case("https")
    {
        return Err(Flaw::Invalid("the target's scheme is neither http nor https"));
    }
    let Some(target) = uri.path_and_query() else {
        return Err(Flaw::Invalid("an authority is no target for this method"));
    };
    // `http::Uri` gives an authority-form target the path "": only CONNECT may have one.
    if uri.scheme().is_none() && uri.authority().is_some() && parts.version != Version::HTTP_2 {
        return Err(Flaw::Invalid("an authority is no target for this method"));
    }
    if target.path() == "*" && parts.method != Method::OPTIONS {
        return Err(Flaw::Invalid("* is a target of OPTIONS only"));
    }
    if target.path() != "*" && !target.path().starts_with('/') && !target.path().is_empty() {
        return Err(Flaw::Invalid("the target is not a path"));
    }
    Ok(())
}

fn names_us(headers: &HeaderMap, pseudonym: &str) -> bool {
    headers.get_all(header::VIA).iter().any(|line| {
        line.as_bytes().split(|&byte| byte == b',').any(|hop| {
            let mut words = hop.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            words.nth(1).is_some_and(|received_by| received_by.eq_ignore_ascii_case(pseudonym.as_bytes()))
        })
    })
}

fn is_final_recipient(parts: &Parts) -> Result<bool, Flaw> {
    if parts.method != Method::OPTIONS {
        return Ok(false);
    }
    let mut lines = parts.headers.get_all(header::MAX_FORWARDS).iter();
    let Some(line) = lines.next() else { return Ok(false) };
    if lines.next().is_some() {
        return Err(Flaw::Invalid("more than one Max-Forwards line"));
    }
    let digits = line.as_bytes().trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Flaw::Invalid("Max-Forwards is not a number"));
    }
    Ok(digits.iter().all(|&digit| digit == b'0'))
}

#[cfg(test)]
mod tests;
