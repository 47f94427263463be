//! The form of a JWT (RFC 7519 §7.2) in an `Authorization` value, read without any verification.
//!
//! What it says is used to find the caller's own earlier operations again, never to give anything away: a record
//! remembers the whole credential, and another one of the same subject gets 409 `caller-changed`.

use std::fmt;

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::Value;

/// A token, and whom it names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Jwt<'a> {
    /// Who issued it.
    pub(super) issuer: Issuer,
    /// The subject, not empty.
    pub(super) subject: String,
    /// The token as sent, without its scheme.
    pub(super) token: &'a [u8],
}

/// The issuer that a token names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Issuer {
    /// A text; empty where the token names none, or `null`.
    Text(String),
    /// What must not be an issuer (RFC 7519 §4.1.1) and is one all the same: JSON, its members sorted by name. A token
    /// that were opaque for it would be executed again after each refresh.
    Other(String),
}

/// The token of a Bearer credential in the form of a JWT, and whom it names: three base64url parts, the first two JSON
/// objects, `sub` a non-empty string, `iss` whatever it is. `None` where `authorization` is anything else.
///
/// Of repeated members the last one counts, as most parsers have it. Who is mistaken for another here has another
/// token than the record, and gets a 409.
pub(super) fn read(authorization: &[u8]) -> Option<Jwt<'_>> {
    let space = authorization.iter().position(|&byte| byte == b' ')?;
    let (scheme, rest) = authorization.split_at(space);
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return None;
    }
    let token = rest.trim_ascii_start();
    let mut parts = token.split(|&byte| byte == b'.');
    let (header, payload, signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || !is_base64url(signature) {
        return None;
    }
    let AnyObject {} = object(header)?;
    let Claims { iss, sub: Value::String(subject) } = object(payload)? else { return None };
    let issuer = match iss {
        Value::String(text) => Issuer::Text(text),
        Value::Null => Issuer::Text(String::new()),
        mut other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            other.sort_all_objects();
            Issuer::Other(other.to_string())
        }
    };
    (!subject.is_empty()).then_some(Jwt { issuer, subject, token })
}

/// The header of a token: any object will do.
#[derive(Deserialize)]
struct AnyObject {}

/// What is read of a payload; `null` where it is not there. Not derived: a member may be repeated.
struct Claims {
    iss: Value,
    sub: Value,
}

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ClaimsVisitor)
    }
}

struct ClaimsVisitor;

impl<'de> Visitor<'de> for ClaimsVisitor {
    type Value = Claims;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Claims, A::Error> {
        let mut claims = Claims { iss: Value::Null, sub: Value::Null };
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "iss" => claims.iss = map.next_value()?,
                "sub" => claims.sub = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(claims)
    }
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
