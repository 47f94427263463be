//! The form of a JWT (RFC 7519 §7.2) in an `Authorization` value, read without any verification.
//!
//! What it says is used to find the caller's own earlier operations again, never to give anything away: a record
//! remembers the whole credential, and another one of the same subject gets 409 `caller-changed`.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::Deserialize;

/// Whom an unverified token names. Repeated members are an error of the derived code: a token that says two things
/// has not this form.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Subject {
    /// The issuer; empty where the token names none. `null` is not "none".
    #[serde(default)]
    pub(super) iss: String,
    /// The subject, not empty.
    pub(super) sub: String,
}

/// The header of a token: any object will do.
#[derive(Deserialize)]
struct AnyObject {}

/// The subject of a Bearer token in the form of a JWT: three base64url parts, the first two JSON objects, `sub` a
/// non-empty string, `iss` absent or a string. `None` where `authorization` is anything else.
pub(super) fn subject(authorization: &[u8]) -> Option<Subject> {
    let space = authorization.iter().position(|&byte| byte == b' ')?;
    let (scheme, rest) = authorization.split_at(space);
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return None;
    }
    let mut parts = rest.trim_ascii_start().split(|&byte| byte == b'.');
    let (header, payload, signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || !is_base64url(signature) {
        return None;
    }
    let AnyObject {} = object(header)?;
    object(payload).filter(|subject: &Subject| !subject.sub.is_empty())
}

/// The JSON object that `part` encodes.
fn object<T: for<'de> Deserialize<'de>>(part: &[u8]) -> Option<T> {
    let json = BASE64URL.decode(part).ok()?;
    let json = std::str::from_utf8(&json).ok()?;
    // A struct may be read from an array too; the form asks for an object.
    json.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('{').then_some(())?;
    serde_json::from_str(json).ok()
}

/// Whether `part` is base64url of something. The signature itself is of no interest; it is empty in a token that is
/// not signed.
fn is_base64url(part: &[u8]) -> bool {
    part.len() % 4 != 1 && part.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// No padding (RFC 7515 §2). Surplus bits in the last character are let pass, as most verifiers do: such a token
/// must not become a caller of its own.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);
