//! `Content-Type` as the fingerprint sees it: as sent, but for the boundary of a multipart type (CONTRACT §3.5).

use http::{HeaderMap, header};

use crate::idempotency::{
    digest::Digest,
    field::{split_unquoted, trim_ows, unquote},
};

/// The content type of a request.
pub(super) struct ContentType<'a> {
    /// All lines, as sent.
    lines: Vec<&'a [u8]>,
    /// What the only line says, where it is a multipart type.
    multipart: Option<Multipart<'a>>,
}

/// A multipart type with exactly one boundary, and that one of the form of RFC 2046 §5.1.1.
struct Multipart<'a> {
    /// Type and parameters, without the boundary.
    rest: Vec<&'a [u8]>,
    /// The boundary, unquoted.
    boundary: Vec<u8>,
}

impl<'a> ContentType<'a> {
    /// Reads the content type of a request.
    pub(super) fn of(headers: &'a HeaderMap) -> Self {
        let lines: Vec<&[u8]> =
            headers.get_all(header::CONTENT_TYPE).iter().map(|line| trim_ows(line.as_bytes())).collect();
        let multipart = match lines.as_slice() {
            [line] => Multipart::read(line),
            [] | [_, _, ..] => None,
        };
        Self { lines, multipart }
    }

    /// Counts it. The type of a multipart body whose boundary is missing, repeated or malformed counts as sent.
    pub(super) fn count(&self, digest: &mut Digest) {
        match &self.multipart {
            Some(multipart) => digest.part(b"multipart").list(multipart.rest.iter().copied()),
            None => digest.part(b"as sent").list(self.lines.iter().copied()),
        };
    }

    /// The boundary of a multipart type.
    pub(super) fn boundary(&self) -> Option<&[u8]> {
        self.multipart.as_ref().map(|multipart| multipart.boundary.as_slice())
    }

    /// Whether the body may be `application/x-www-form-urlencoded`: it is said to be, or nothing is said.
    ///
    /// Read as a form, the JSON texts `"1+1"` and `"1 1"` would be the same; so nothing else is read as one.
    pub(super) fn may_be_form(&self) -> bool {
        match self.lines.as_slice() {
            [] => true,
            [line] => essence(line).eq_ignore_ascii_case(b"application/x-www-form-urlencoded"),
            [_, _, ..] => false,
        }
    }
}

impl<'a> Multipart<'a> {
    fn read(value: &'a [u8]) -> Option<Self> {
        const PREFIX: &[u8] = b"multipart/";
        if !essence(value).get(..PREFIX.len())?.eq_ignore_ascii_case(PREFIX) {
            return None;
        }
        let mut rest = split_unquoted(value, b';')?;
        let at = rest.iter().position(|piece| is_boundary(piece))?;
        let piece = rest.remove(at);
        if rest.iter().any(|piece| is_boundary(piece)) {
            return None;
        }
        // White space around `=` is not allowed, and who reads it in spite of that is anyone's guess.
        let equals = piece.iter().position(|&byte| byte == b'=')?;
        let (name, value) = (piece.get(..equals)?, piece.get(equals + 1..)?);
        let boundary = unquote(value)?;
        (name.len() == BOUNDARY.len() && is_valid(&boundary)).then_some(Self { rest, boundary })
    }
}

const BOUNDARY: &[u8] = b"boundary";

/// The media type without its parameters.
fn essence(value: &[u8]) -> &[u8] {
    trim_ows(value.split(|&byte| byte == b';').next().unwrap_or_default())
}

/// Whether a parameter is the boundary, or could be taken for it.
fn is_boundary(parameter: &[u8]) -> bool {
    trim_ows(parameter.split(|&byte| byte == b'=').next().unwrap_or_default()).eq_ignore_ascii_case(BOUNDARY)
}

/// Whether `boundary` is one: 1 to 70 of the permitted characters, the last one not a space.
fn is_valid(boundary: &[u8]) -> bool {
    (1..=70).contains(&boundary.len())
        && boundary.last() != Some(&b' ')
        && boundary.iter().all(|byte| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(byte))
}

#[cfg(test)]
mod tests;
