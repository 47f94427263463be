//! Whose key is it: the caller, and the name of the cell (CONTRACT §3.4).
//!
//! A caller is named by every scope source that is present. Nothing here is verified: a credential is a secret that
//! only its owner can present, and whoever presents another one is another caller.

mod jwt;

use std::{borrow::Cow, fmt};

use http::{HeaderMap, HeaderName, header};

use self::jwt::{Issuer, Jwt};
use super::{
    digest::Digest,
    field::trim_ows,
    key::IdempotencyKey,
    policy::{Anonymous, ScopeRules, ScopeSource},
    record::CallerTag,
};

/// Who owns a key: a digest over the scope sources that are present, and the tag of the credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Digest of the identity: of the credentials, or of `iss` and `sub` where one is a JWT.
    identity: Identity,
    /// Hash of the whole credentials: of a JWT the token, of any other its value as sent.
    tag: CallerTag,
    /// Whether an unverified JWT named the caller.
    by_unverified_jwt: bool,
}

/// Why a request has no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerError {
    /// None of the sources is there.
    Unknown,
    /// One source is there twice.
    Twice,
}

impl Caller {
    /// The caller of a request under `rules`.
    ///
    /// The order in which the configuration lists the sources does not count, nor does white space around a value
    /// (RFC 9110 §5.5). An empty value, or the scheme `Bearer` or `Basic` with nothing behind it, names nobody and is
    /// as good as absent; twice is twice even then. Several `Cookie` lines are one list of cookies (RFC 9113 §8.2.3).
    ///
    /// # Errors
    /// Why there is none.
    pub fn of(rules: &ScopeRules, headers: &HeaderMap) -> Result<Self, CallerError> {
        if rules.sources.is_empty() {
            return Ok(Self::fixed("everyone"));
        }
        let mut sources: Vec<&ScopeSource> = rules.sources.iter().collect();
        sources.sort_unstable_by_key(|source| (source.kind(), source.name()));
        sources.dedup();
        let mut present = Vec::with_capacity(sources.len());
        for source in sources {
            if let Some(credential) = credential(source, headers)? {
                present.push((source, credential));
            }
        }
        if present.is_empty() {
            return match rules.anonymous {
                // A cookie that is no scope source may be a session: two users who are logged in are not one caller.
                Anonymous::Share if !headers.contains_key(header::COOKIE) => Ok(Self::fixed("anonymous")),
                Anonymous::Share | Anonymous::Reject => Err(CallerError::Unknown),
            };
        }
        Ok(Self::with(&present))
    }

    /// The caller that every request without a credential is, for one reason or another.
    fn fixed(reason: &str) -> Self {
        let digest = |domain| {
            let mut digest = Digest::new(domain);
            digest.part(reason.as_bytes());
            digest.finish()
        };
        Self { identity: Identity(digest(IDENTITY)), tag: CallerTag(digest(CREDENTIAL)), by_unverified_jwt: false }
    }

    /// The caller that these credentials name.
    fn with(present: &[(&ScopeSource, Cow<'_, [u8]>)]) -> Self {
        let (mut identity, mut tag) = (Digest::new(IDENTITY), Digest::new(CREDENTIAL));
        let mut by_unverified_jwt = false;
        identity.part(b"sources").number(present.len());
        tag.part(b"sources").number(present.len());
        for (source, credential) in present {
            for digest in [&mut identity, &mut tag] {
                digest.part(source.kind().as_bytes()).part(source.name().as_bytes());
            }
            match is_authorization(source).then(|| jwt::read(credential)).flatten() {
                Some(Jwt { issuer, subject, token }) => {
                    by_unverified_jwt = true;
                    match &issuer {
                        Issuer::Text(text) => identity.part(b"jwt").part(text.as_bytes()),
                        Issuer::Other(json) => identity.part(b"jwt of an issuer in JSON").part(json.as_bytes()),
                    };
                    identity.part(subject.as_bytes());
                    // How the scheme is spelled and what stands between it and the token makes no other credential.
                    tag.part(b"jwt").part(token);
                }
                None => {
                    identity.part(b"as sent").part(credential);
                    tag.part(b"as sent").part(credential);
                }
            }
        }
        Self { identity: Identity(identity.finish()), tag: CallerTag(tag.finish()), by_unverified_jwt }
    }

    /// See [`CallerTag`].
    #[must_use]
    pub fn tag(&self) -> CallerTag {
        self.tag
    }

    /// Whether an unverified JWT named the caller: worth one warning per process (CONTRACT §6).
    #[must_use]
    pub fn is_by_unverified_jwt(&self) -> bool {
        self.by_unverified_jwt
    }
}

/// The domains of what is hashed here.
const IDENTITY: &str = "oncegate/caller/v1";
const CREDENTIAL: &str = "oncegate/credential/v1";
const CELL: &str = "oncegate/cell/v1";

/// The digest that names a caller.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity([u8; 32]);

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(…)")
    }
}

/// What `source` holds in a request, `None` where that names nobody.
fn credential<'a>(source: &ScopeSource, headers: &'a HeaderMap) -> Result<Option<Cow<'a, [u8]>>, CallerError> {
    let value = match source {
        ScopeSource::Header(name) if name.0 == header::COOKIE => all_cookies(headers),
        ScopeSource::Header(name) => only_line(headers, &name.0)?.map(Cow::Borrowed),
        ScopeSource::Cookie(name) => only_cookie(headers, name.as_bytes())?.map(Cow::Borrowed),
    };
    let names_nobody = |value: &[u8]| value.is_empty() || is_authorization(source) && is_lone_scheme(value);
    Ok(value.filter(|value| !names_nobody(value)))
}

fn is_authorization(source: &ScopeSource) -> bool {
    match source {
        ScopeSource::Header(name) => name.0 == header::AUTHORIZATION,
        ScopeSource::Cookie(_) => false,
    }
}

/// What a client sends that has lost its token. Other lone words may be keys of an API that needs no scheme.
fn is_lone_scheme(value: &[u8]) -> bool {
    value.eq_ignore_ascii_case(b"bearer") || value.eq_ignore_ascii_case(b"basic")
}

/// The value of a field that must not have two lines.
fn only_line<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a [u8]>, CallerError> {
    let mut lines = headers.get_all(name).iter();
    let first = lines.next();
    match lines.next() {
        Some(_) => Err(CallerError::Twice),
        None => Ok(first.map(|line| trim_ows(line.as_bytes()))),
    }
}

/// The value of a cookie that must not be there twice, on any `Cookie` line (RFC 6265 §4.2).
///
/// A name without `=` counts as that cookie with an empty value, and white space before `=` does not hide a name:
/// some servers read them so, and a second cookie must not get past.
fn only_cookie<'a>(headers: &'a HeaderMap, name: &[u8]) -> Result<Option<&'a [u8]>, CallerError> {
    let mut found = None;
    for pair in headers.get_all(header::COOKIE).iter().flat_map(|line| line.as_bytes().split(|&byte| byte == b';')) {
        let pair = trim_ows(pair);
        let equals = pair.iter().position(|&byte| byte == b'=').unwrap_or(pair.len());
        let (left, right) = pair.split_at(equals);
        if trim_ows(left) != name {
            continue;
        }
        if found.replace(right.get(1..).unwrap_or_default()).is_some() {
            return Err(CallerError::Twice);
        }
    }
    Ok(found)
}

/// All cookies as one line, for the source `header:Cookie`: HTTP/2 may cut that line into several.
fn all_cookies(headers: &HeaderMap) -> Option<Cow<'_, [u8]>> {
    let mut lines = headers.get_all(header::COOKIE).iter().map(|line| trim_ows(line.as_bytes()));
    let first = lines.next()?;
    Some(lines.fold(Cow::Borrowed(first), |joined, line| Cow::Owned([&joined, line].join(&b"; "[..]))))
}

/// The name of a cell: a digest of namespace, caller and key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey(pub [u8; 32]);

impl RecordKey {
    /// Names the cell of `key` under `caller`.
    #[must_use]
    pub fn derive(namespace: &str, caller: &Caller, key: &IdempotencyKey) -> Self {
        let mut digest = Digest::new(CELL);
        digest.part(namespace.as_bytes()).part(&caller.identity.0).part(key.as_str().as_bytes());
        Self(digest.finish())
    }
}

impl fmt::Display for RecordKey {
    /// All of it, in hex: how operators name a cell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RecordKey {
    /// The first four bytes in hex.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "cell:{a:02x}{b:02x}{c:02x}{d:02x}")
    }
}

#[cfg(test)]
mod tests;
