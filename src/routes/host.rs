//! Host patterns: `api.example.com`, `*.example.com`. Ports, letter case and a trailing dot do not count.

use std::fmt;

/// An exact host, or every host below a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    /// In lower case, without a trailing dot; the part after the star where `below`.
    name: String,
    /// Whether it is `*.name`: one label or more before it.
    below: bool,
}

/// Why a text is not a host pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// `api.example.com:8080`
    #[error("a host pattern has no port: ports are not compared")]
    Port,
    /// `api.*.com`, `*`
    #[error("a star stands for whole labels at the beginning: `*.example.com`")]
    Star,
    /// Empty labels, or characters that cannot be in a host.
    #[error("`{0}` is not a host name")]
    Malformed(String),
    /// Outside ASCII.
    #[error("`{0}` is not ASCII: requests carry the `xn--` form of such a name")]
    NotAscii(String),
}

impl HostPattern {
    /// Parses `host` of a route.
    ///
    /// # Errors
    /// Why it is not a pattern.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if !text.is_ascii() {
            return Err(HostError::NotAscii(text.to_owned()));
        }
        let (name, below) = text.strip_prefix("*.").map_or((text, false), |name| (name, true));
        if name.contains('*') {
            return Err(HostError::Star);
        }
        let bare = of_authority(name);
        if name.strip_prefix(bare).is_some_and(|rest| rest.starts_with(':') || rest.starts_with(".:")) {
            return Err(HostError::Port);
        }
        let name = bare.to_ascii_lowercase();
        let label = |label: &str| {
            !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let valid = match literal {
            Some(address) => !below && address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => name.split('.').all(label),
        };
        if valid { Ok(Self { name, below }) } else { Err(HostError::Malformed(text.to_owned())) }
    }

    /// Whether `host` (as [`of_authority`] returns it) is one of these.
    pub(super) fn matches(&self, host: &str) -> bool {
        if !self.below {
            return host.eq_ignore_ascii_case(&self.name);
        }
        // Compared as bytes: what comes from a client may have any character anywhere.
        let (host, name) = (host.as_bytes(), self.name.as_bytes());
        let Some(dot) = host.len().checked_sub(name.len() + 1) else { return false };
        dot > 0 && host[dot] == b'.' && host[dot + 1..].eq_ignore_ascii_case(name)
    }

    /// Whether every host of `other` is one of these.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self.below, other.below) {
            (_, false) => self.matches(&other.name),
            (true, true) => self.name == other.name || self.matches(&other.name),
            (false, true) => false,
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.below {
            f.write_str("*.")?;
        }
        f.write_str(&self.name)
    }
}

/// The host of an authority: without the port and without the dot that ends a fully qualified name.
pub(super) fn of_authority(authority: &str) -> &str {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        Some(_) | None => authority,
    };
    host.strip_suffix('.').unwrap_or(host)
}

#[cfg(test)]
mod tests;
