//! What request is it: SHA-256 over length-prefixed parts (CONTRACT §3.5).
//!
//! Two requests with the same fingerprint ask for the same thing. Where it is not certain that they do (a body that
//! does not parse, an ambiguous content type) bytes are compared: the worst of that is a 422 for an odd retry, the
//! worst of the opposite an answer to another question.

mod form;
mod json;
mod media;
mod multipart;

use std::{borrow::Cow, fmt};

use http::{HeaderMap, HeaderName, Method, header};

use self::media::ContentType;
use super::{
    RequestHead,
    digest::Digest,
    field::trim_ows,
    policy::{BodyForm, FingerprintRules},
};

/// Tells two requests under one key apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// The fingerprint of a complete request under `rules`.
    ///
    /// Counted are, in this order: the method; the three method-override fields, and in a hash of its own domain their
    /// twins with underscores where there are any; the authority in lower case without
    /// `:80`, `:443` or an empty port (whatever the scheme: a balancer may add either); path and query as forwarded;
    /// `Content-Type` as sent but for the boundary of a multipart type; `Content-Encoding`; the listed fields, whose
    /// order in the configuration does not matter; the body. Of a field all lines count, without white space at their
    /// ends, and a field that is absent is not one that is empty.
    ///
    /// The body is compared in the form of the rules only where it is of that form: a content coding other than
    /// `identity`, a syntax error, a repeated member, or (for `form`) another content type make it raw.
    #[must_use]
    pub fn of(rules: &FingerprintRules, head: &RequestHead<'_>, body: &[u8]) -> Self {
        let twins = override_twins(head.headers);
        let mut digest = Digest::new(if twins.is_empty() { DOMAIN } else { DOMAIN_WITH_TWINS });
        digest.part(head.method.as_str().as_bytes());
        for name in METHOD_OVERRIDES {
            lines(&mut digest, head.headers, name);
        }
        if !twins.is_empty() {
            digest.number(twins.len());
        }
        for name in twins {
            lines(&mut digest, head.headers, name);
        }
        digest.part(normal_authority(head.authority).as_bytes());
        let (path, query) = match head.target.split_once('?') {
            Some((path, query)) => (path, Some(query.as_bytes())),
            None => (head.target, None),
        };
        digest.part(path.as_bytes()).optional(query);
        let content_type = ContentType::of(head.headers);
        content_type.count(&mut digest);
        lines(&mut digest, head.headers, header::CONTENT_ENCODING.as_str());
        listed(&mut digest, head.headers, &rules.headers);
        count_body(&mut digest, rules, head.headers, &content_type, body);
        Self(digest.finish())
    }
}

/// The domain of the hash.
const DOMAIN: &str = "oncegate/fingerprint/v1";

/// The domain where the hash counts twins of method overrides, which hardly any request has.
const DOMAIN_WITH_TWINS: &str = "oncegate/fingerprint/v1/twins";

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(…)")
    }
}

/// The fields by which a client asks for another method than the one of its request line. In lower case.
pub const METHOD_OVERRIDES: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];

/// Whether the field `name` (in lower case) is a method override, or the twin of one with underscores for hyphens: CGI
/// and its heirs (WSGI, Rack, PHP) cannot tell them apart (RFC 3875 §4.1.18).
pub(super) fn is_method_override(name: &str) -> bool {
    METHOD_OVERRIDES.iter().any(|field| {
        let same = |(ours, theirs): (u8, u8)| ours == theirs || (ours == b'-' && theirs == b'_');
        field.len() == name.len() && field.bytes().zip(name.bytes()).all(same)
    })
}

/// The methods that a request asks for by override, in upper case: every member of every such field, for frameworks
/// take a list by its first member or by its last one. What cannot be a method is left out.
pub fn overriding_methods(headers: &HeaderMap) -> impl Iterator<Item = Method> + '_ {
    headers
        .iter()
        .filter(|(name, _)| is_method_override(name.as_str()))
        .flat_map(|(_, value)| value.as_bytes().split(|&byte| byte == b','))
        .filter_map(|member| Method::from_bytes(&member.trim_ascii().to_ascii_uppercase()).ok())
}

/// The method overrides of a request that are spelled with underscores, in the order of their names.
fn override_twins(headers: &HeaderMap) -> Vec<&str> {
    let is_twin = |name: &&str| name.contains('_') && is_method_override(name);
    let mut twins: Vec<&str> = headers.keys().map(HeaderName::as_str).filter(is_twin).collect();
    twins.sort_unstable();
    twins
}

/// `authority` in lower case, without a port that is the default of http or https, or empty.
fn normal_authority(authority: &str) -> Cow<'_, str> {
    let authority = match authority.rsplit_once(':') {
        Some((host, "80" | "443" | "")) => host,
        Some(_) | None => authority,
    };
    if authority.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(authority.to_ascii_lowercase())
    } else {
        Cow::Borrowed(authority)
    }
}

/// Counts the field `name` with all its lines.
fn lines(digest: &mut Digest, headers: &HeaderMap, name: &str) {
    let all = headers.get_all(name);
    digest.part(name.as_bytes()).number(all.iter().count());
    for line in all {
        digest.part(trim_ows(line.as_bytes()));
    }
}

/// Counts the fields that a route lists.
fn listed(digest: &mut Digest, headers: &HeaderMap, names: &[HeaderName]) {
    let mut names: Vec<&str> = names.iter().map(HeaderName::as_str).collect();
    names.sort_unstable();
    names.dedup();
    digest.number(names.len());
    for name in names {
        lines(digest, headers, name);
    }
}

/// Counts the body. What is hashed names its form, so that bytes compared raw never equal a canonical form.
fn count_body(
    digest: &mut Digest,
    rules: &FingerprintRules,
    headers: &HeaderMap,
    content_type: &ContentType<'_>,
    body: &[u8],
) {
    let parsed = match rules.body {
        BodyForm::None => {
            digest.part(b"none");
            return;
        }
        BodyForm::Raw => None,
        // What is coded has another form than what it codes for, and is not decoded here.
        BodyForm::Json | BodyForm::Form | BodyForm::Multipart if is_coded(headers) => None,
        BodyForm::Json => json::canonical(body, &rules.ignore).map(|canonical| {
            digest.part(b"json").part(&canonical);
        }),
        BodyForm::Form if !content_type.may_be_form() => None,
        BodyForm::Form => form::pairs(body, &rules.ignore).map(|pairs| {
            digest.part(b"form").number(pairs.len());
            for pair in &pairs {
                digest.part(&pair.name).optional(pair.value.as_deref());
            }
        }),
        BodyForm::Multipart => {
            content_type.boundary().and_then(|boundary| multipart::parse(body, boundary)).map(|it| {
                digest.part(b"multipart").optional(it.preamble).list(it.parts.iter().copied()).part(it.epilogue);
            })
        }
    };
    if parsed.is_none() {
        digest.part(b"raw");
        // Where the body has delimiters, the boundary says which of its lines they are.
        let boundary = content_type.boundary().filter(|boundary| multipart::mentions(body, boundary));
        digest.optional(boundary).hashed(body);
    }
}

/// Whether a content coding other than `identity` is named.
fn is_coded(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::CONTENT_ENCODING)
        .iter()
        .flat_map(|line| line.as_bytes().split(|&byte| byte == b','))
        .map(trim_ows)
        .any(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"))
}

#[cfg(test)]
mod tests;
