//! Where things are: listeners, the upstream, hosts, paths, and who is asked or believed there.
//!
//! Not here: where the store is (`store_url`).

use std::path::PathBuf;

use http::HeaderName;
use ipnet::IpNet;

use super::{
    read::{Complaint, Text},
    values::field_name,
};
use crate::{
    idempotency::policy::{HeaderNameOrd, KeyPattern, ScopeSource},
    proxy::Listen,
    routes::{HostPattern, PathTemplate},
    upstream::Target,
};

impl Text for Listen {
    const EXPECTED: &'static str = "an address like \"127.0.0.1:8080\" or \"unix:/run/oncegate.sock\"";

    fn parse(text: &str) -> Result<Self, Complaint> {
        match text.strip_prefix("unix:") {
            Some(path) => socket_path(path).map(Self::Unix),
            None => host_and_port(text, None).map(|(host, port)| Self::Tcp(join(&host, port))),
        }
    }
}

/// Where the admin listener is; `None` is `"off"`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct AdminListen(pub(super) Option<String>);

impl Text for AdminListen {
    const EXPECTED: &'static str = "an address like \"127.0.0.1:9180\", or \"off\"";

    fn parse(text: &str) -> Result<Self, Complaint> {
        if text == "off" {
            return Ok(Self(None));
        }
        if text.starts_with("unix:") {
            return Err(Complaint::new("the admin listener is not on a unix socket").hint("HOST:PORT, or `off`"));
        }
        host_and_port(text, None).map(|(host, port)| Self(Some(join(&host, port))))
    }
}

fn join(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Takes `HOST:PORT` apart; a host in brackets is an IPv6 address and comes without them.
pub(super) fn host_and_port(text: &str, default_port: Option<u16>) -> Result<(String, u16), Complaint> {
    let (host, port) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((address, rest)) => {
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(Complaint::new(format!("`{address}` is not an IPv6 address")));
            }
            match rest.strip_prefix(':') {
                Some(port) => (address, Some(port)),
                None if rest.is_empty() => (address, None),
                None => return Err(Complaint::new(format!("`{text}` has something after the bracket"))),
            }
        }
        None => match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') => (host, Some(port)),
            Some(_) => {
                let hint = "an IPv6 address stands in brackets: `[::1]:8080`";
                return Err(Complaint::new(format!("`{text}` is not HOST:PORT")).hint(hint));
            }
            None => (text, None),
        },
    };
    let port = match (port, default_port) {
        (Some(port), _) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            port.parse().map_err(|_| Complaint::new(format!("`{port}` is not a port")).hint("0 to 65535"))?
        }
        (None, Some(port)) => port,
        (None, None) if !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_digit()) => {
            let hint = format!("did you mean `127.0.0.1:{host}`?");
            return Err(Complaint::new(format!("`{text}` has no host")).hint(hint));
        }
        (None, None) => return Err(Complaint::new(format!("`{text}` has no port")).hint("HOST:PORT")),
        (Some(port), _) => {
            return Err(Complaint::new(format!("`{port}` is not a port")).hint("0 to 65535"));
        }
    };
    if host.is_empty() {
        let hint = format!("`0.0.0.0:{port}` is every address, `127.0.0.1:{port}` this machine only");
        return Err(Complaint::new(format!("`{text}` has no host")).hint(hint));
    }
    let proper = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':');
    if !host.bytes().all(proper) {
        return Err(Complaint::new(format!("`{host}` is not a host name")));
    }
    Ok((host.to_owned(), port))
}

/// The path of a unix socket, with or without the two slashes of a URL before it.
pub(super) fn socket_path(text: &str) -> Result<PathBuf, Complaint> {
    // Systems cut a longer path off, or refuse it; the terminating zero is counted.
    const LONGEST: usize = 107;
    let path = text.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(text);
    if path.is_empty() {
        return Err(Complaint::new("there is no path after `unix:`").hint("such as `unix:/run/app.sock`"));
    }
    if path.len() > LONGEST {
        return Err(Complaint::new(format!("the path of a unix socket has at most {LONGEST} bytes")));
    }
    if path.contains('\0') {
        return Err(Complaint::new("a path has no zero bytes"));
    }
    Ok(path.into())
}

impl Text for Target {
    const EXPECTED: &'static str = "a URL like \"http://127.0.0.1:9000\" or \"unix:/run/app.sock\"";

    fn parse(text: &str) -> Result<Self, Complaint> {
        if let Some(path) = text.strip_prefix("unix:") {
            return socket_path(path).map(Self::Unix);
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            let complaint = Complaint::new("the URL has no scheme");
            return Err(match host_and_port(text, Some(80)) {
                Ok(_) => complaint.hint(format!("did you mean `http://{text}`?")),
                Err(_) => complaint.hint("such as `http://127.0.0.1:9000` or `unix:/run/app.sock`"),
            });
        };
        match scheme.to_ascii_lowercase().as_str() {
            "http" => {}
            "https" => {
                let hint = "TLS to the upstream comes later; this version knows `http://` and `unix:`";
                return Err(Complaint::new("`https` is not supported by this version").hint(hint));
            }
            _ => {
                let complaint = Complaint::new("the scheme of the URL is not known here");
                return Err(complaint.hint("`http://HOST:PORT` or `unix:PATH`"));
            }
        }
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if authority.contains('@') {
            let hint = "requests carry their own credentials; the gate adds none";
            return Err(Complaint::new("a URL with a user or password is not accepted here").hint(hint));
        }
        if !matches!(path, "" | "/") {
            let hint = format!("`http://{authority}` is where the upstream is; requests keep their paths");
            return Err(Complaint::new("paths are not rewritten: the URL ends after host and port").hint(hint));
        }
        match host_and_port(authority, Some(80))? {
            (_, 0) => Err(Complaint::new("nothing listens on port 0")),
            (host, port) => Ok(Self::Tcp { host, port }),
        }
    }
}

/// A network whose peers are believed: `10.0.0.0/8`, or one address.
impl Text for IpNet {
    const EXPECTED: &'static str = "a network like \"10.0.0.0/8\", or an address";

    fn parse(text: &str) -> Result<Self, Complaint> {
        let address = text.parse::<std::net::IpAddr>().map(Self::from);
        address.or_else(|_| text.parse()).map_err(|_| {
            Complaint::new(format!("`{text}` is not a network")).hint("such as `10.0.0.0/8`, `fd00::/8` or `10.1.2.3`")
        })
    }
}

/// The host of a route; `None` is any.
#[derive(Clone, PartialEq)]
pub(super) struct AnyHost(pub(super) Option<HostPattern>);

impl Text for AnyHost {
    const EXPECTED: &'static str = "a host like \"api.example.com\" or \"*.example.com\"";

    fn parse(text: &str) -> Result<Self, Complaint> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        HostPattern::parse(text).map(|pattern| Self(Some(pattern))).map_err(|error| Complaint::new(error.to_string()))
    }
}

impl Text for PathTemplate {
    const EXPECTED: &'static str = "a path template like \"/accounts/{id}/transfers\"";
    const PATTERN: &'static str = "^/";

    fn parse(text: &str) -> Result<Self, Complaint> {
        Self::parse(text).map_err(|error| {
            let complaint = Complaint::new(error.to_string());
            let slash = !text.starts_with('/') && Self::parse(&format!("/{text}")).is_ok();
            if slash { complaint.hint(format!("did you mean `/{text}`?")) } else { complaint }
        })
    }
}

/// Where a caller's credential may be.
impl Text for ScopeSource {
    const EXPECTED: &'static str = "a source like \"header:Authorization\" or \"cookie:session\"";
    const PATTERN: &'static str = "^(header|cookie):.+$";

    fn parse(text: &str) -> Result<Self, Complaint> {
        let (kind, name) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "header" | "cookie" if name.is_empty() => {
                Err(Complaint::new(format!("`{text}` names nothing")).hint(format!("such as `{kind}:NAME`")))
            }
            "header" => {
                let name = field_name(name)?;
                if name == http::header::COOKIE {
                    let hint = "name the cookie that holds the session: `cookie:NAME`";
                    return Err(Complaint::new("the whole `Cookie` field changes with every cookie").hint(hint));
                }
                Ok(Self::Header(HeaderNameOrd(name)))
            }
            // The name is a token (RFC 6265 §4.1.1), as the name of a field is; its case counts.
            "cookie" if HeaderName::from_bytes(name.as_bytes()).is_ok() => Ok(Self::Cookie(name.to_owned())),
            "cookie" => Err(Complaint::new(format!("`{name}` is not the name of a cookie"))),
            "jwt" | "client-cert" | "trusted-header" => {
                let hint = "it comes later; this version knows `header:NAME` and `cookie:NAME`";
                Err(Complaint::new(format!("`{kind}` is not supported by this version")).hint(hint))
            }
            _ => {
                let hint = if HeaderName::from_bytes(text.as_bytes()).is_ok() {
                    format!("did you mean `header:{text}`?")
                } else {
                    "`header:NAME` or `cookie:NAME`".to_owned()
                };
                Err(Complaint::new(format!("`{text}` is not a source of identity")).hint(hint))
            }
        }
    }
}

/// What keys must match; `None` where it is empty.
#[derive(Clone, PartialEq)]
pub(super) struct Pattern(pub(super) Option<KeyPattern>);

impl Text for Pattern {
    const EXPECTED: &'static str = "a regular expression";

    fn parse(text: &str) -> Result<Self, Complaint> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        KeyPattern::new(text).map(|pattern| Self(Some(pattern))).map_err(|error| {
            // The last line of a syntax error says what it is; those before it draw the pattern.
            let shown = error.to_string();
            let reason = shown.lines().next_back().unwrap_or_default();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason).to_owned();
            Complaint::new(format!("the regular expression is not valid: {reason}"))
        })
    }
}

/// The admin token; `None` where it is empty. Never shown.
#[derive(Clone, PartialEq)]
pub(super) struct Token(pub(super) Option<String>);

impl Text for Token {
    const EXPECTED: &'static str = "a token";
    const DISCREET: bool = true;

    fn parse(text: &str) -> Result<Self, Complaint> {
        // RFC 6750 allows fewer characters; these are what a field value can carry without doubt.
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let hint = "printable ASCII without spaces: such as `openssl rand -hex 32` gives";
            return Err(Complaint::new("the token has characters that a Bearer token cannot have").hint(hint));
        }
        Ok(Self((!text.is_empty()).then(|| text.to_owned())))
    }
}

/// The name of a route: in logs, in problems of configuration, in records.
#[derive(Clone, PartialEq)]
pub(super) struct Named(pub(super) String);

impl Text for Named {
    const EXPECTED: &'static str = "a name like \"create-payment\"";
    const DISCREET: bool = true;

    fn parse(text: &str) -> Result<Self, Complaint> {
        const LONGEST: usize = 100;
        let proper = text.bytes().all(|byte| (0x20..0x7F).contains(&byte)) && text.trim() == text;
        if text.is_empty() || text.len() > LONGEST || !proper {
            let hint = format!("1 to {LONGEST} printable ASCII characters");
            return Err(Complaint::new("this cannot be the name of a route").hint(hint));
        }
        if text == crate::idempotency::RouteName::DEFAULTS {
            return Err(Complaint::new(format!("`{text}` is what `[defaults]` is called in logs and records")));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The namespace of a store: part of its key names.
#[derive(Clone, PartialEq)]
pub(super) struct Namespace(pub(super) String);

impl Text for Namespace {
    const EXPECTED: &'static str = "a name like \"oncegate\"";
    const DISCREET: bool = true;
    const PATTERN: &'static str = "^[A-Za-z0-9._-]{1,64}$";

    fn parse(text: &str) -> Result<Self, Complaint> {
        let proper = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if text.is_empty() || text.len() > 64 || !text.bytes().all(proper) {
            let complaint = Complaint::new("this cannot be a namespace");
            return Err(complaint.hint("1 to 64 letters, digits, `.`, `_` and `-`"));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The prefix of every problem's `type`.
#[derive(Clone, PartialEq)]
pub(super) struct ProblemBase(pub(super) String);

impl Text for ProblemBase {
    const EXPECTED: &'static str = "a URI prefix like \"urn:oncegate:problem:\"";
    const DISCREET: bool = true;

    fn parse(text: &str) -> Result<Self, Complaint> {
        let proper = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'<' | b'>');
        if text.is_empty() || !text.bytes().all(proper) {
            let complaint = Complaint::new("this cannot be the beginning of a URI");
            return Err(complaint.hint("such as `urn:oncegate:problem:` or `https://api.example.com/problems/`"));
        }
        Ok(Self(text.to_owned()))
    }
}

/// A text of any kind, judged elsewhere.
#[derive(Clone, PartialEq)]
pub(super) struct Plain(pub(super) String);

impl Text for Plain {
    const EXPECTED: &'static str = "a string";

    fn parse(text: &str) -> Result<Self, Complaint> {
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests;
