//! Record ⇄ bytes: a version byte, a fixed header that the Redis script can read, total decode.
//!
//! ```text
//!   0  version (1)          18  lease, ms u64       50  fingerprint (32)     122  route: length, UTF-8
//!   1  state, I | C | U     26  retention, ms u64   82  caller tag (32)           C: answer
//!   2  token (16)           34  cell tag (16)      114  began, ms u64            U: doubt, 0 | 1 answer
//! ```
//! An answer is its status (u16, 0: none), its header lines, the kind of its body, and for a whole body its bytes and trailer
//! lines. Fixed integers are big-endian, lengths and counts LEB128. Each record has exactly one encoding.
//! Not here: sealing (encryption), and when a record was last written, which is the store's to know.

use std::time::Duration;

use bytes::{Buf, Bytes};
use http::{HeaderName, HeaderValue, StatusCode};

use super::{
    fingerprint::Fingerprint,
    record::{CallerTag, ClaimToken, Doubt, Record, RouteName, State, WallMillis},
    response::{HeaderList, NotKept, StoredBody, StoredResponse},
    scope::RecordKey,
};

/// The first byte of every record written by this version.
pub const VERSION: u8 = 1;

/// Length of the fixed part, which a store may read without decoding the rest.
pub const HEADER_LEN: usize = 122;

/// Length of the part of a cell's name that a record carries, so that it is not taken for another cell's.
pub const CELL_TAG_LEN: usize = 16;

/// The longest lease and retention that can be written, about 8,900 years: exact in a Lua number, and far from
/// where adding it to a clock overflows. Longer ones are written as this.
pub const MAX_MILLIS: u64 = 1 << 48;

/// Why bytes are not a record of this cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Written by another version of the format.
    #[error("record format {0} is not known to this version of oncegate")]
    Version(u8),
    /// The bytes end too early, go on too long or hold values out of range.
    #[error("the record is damaged: {0}")]
    Damaged(&'static str),
    /// A record of another cell.
    #[error("the record belongs to another cell")]
    Foreign,
}

/// What a record under `key` carries of its name.
#[must_use]
pub fn cell_tag(key: &RecordKey) -> &[u8] {
    &key.0[..CELL_TAG_LEN]
}

/// A duration as a record holds it: whole milliseconds, rounded up, at least one, at most [`MAX_MILLIS`].
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    let up = duration.as_nanos().div_ceil(1_000_000);
    u64::try_from(up).unwrap_or(MAX_MILLIS).clamp(1, MAX_MILLIS)
}

/// The bytes of `record` in the cell `key`.
#[must_use]
pub fn encode(key: &RecordKey, record: &Record) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_LEN + 64 + payload_size(&record.state));
    out.push(VERSION);
    out.push(match record.state {
        State::Claimed => STATE_CLAIMED,
        State::Completed(_) => STATE_COMPLETED,
        State::Unknown { .. } => STATE_UNKNOWN,
    });
    out.extend_from_slice(&record.token.0);
    out.extend_from_slice(&millis(record.lease).to_be_bytes());
    out.extend_from_slice(&millis(record.retention).to_be_bytes());
    out.extend_from_slice(cell_tag(key));
    out.extend_from_slice(&record.fingerprint.0);
    out.extend_from_slice(&record.caller.0);
    out.extend_from_slice(&record.began.0.to_be_bytes());
    put_bytes(&mut out, record.route.0.as_bytes());
    match &record.state {
        State::Claimed => {}
        State::Completed(response) => put_response(&mut out, response),
        State::Unknown { doubt, kept } => {
            put_doubt(&mut out, *doubt);
            out.push(u8::from(kept.is_some()));
            if let Some(response) = kept {
                put_response(&mut out, response);
            }
        }
    }
    out
}

/// The record in `bytes`, found in the cell `key`. Bodies and header values share the memory of `bytes`.
///
/// # Errors
/// Why the bytes are not a record of that cell. Never panics, whatever the bytes, and allocates no more than a
/// small multiple of their length.
pub fn decode(key: &RecordKey, bytes: &Bytes) -> Result<Record, DecodeError> {
    match bytes.first() {
        None => return Err(DecodeError::Damaged("it is empty")),
        Some(&VERSION) => {}
        Some(&other) => return Err(DecodeError::Version(other)),
    }
    let mut reader = Reader { rest: bytes.slice(1..) };
    let state = reader.byte()?;
    let token = ClaimToken(reader.array()?);
    let lease = reader.duration()?;
    let retention = reader.duration()?;
    if reader.array::<CELL_TAG_LEN>()? != cell_tag(key) {
        return Err(DecodeError::Foreign);
    }
    let fingerprint = Fingerprint(reader.array()?);
    let caller = CallerTag(reader.array()?);
    let began = WallMillis(u64::from_be_bytes(reader.array()?));
    let route = reader.bytes()?;
    let route = std::str::from_utf8(&route).map_err(|_| DecodeError::Damaged("the route's name is not UTF-8"))?;
    let route = RouteName::from(route);
    let state = match state {
        STATE_CLAIMED => State::Claimed,
        STATE_COMPLETED => State::Completed(reader.response()?),
        STATE_UNKNOWN => {
            let doubt = reader.doubt()?;
            let kept = match reader.byte()? {
                0 => None,
                1 => Some(reader.response()?),
                _ => return Err(DecodeError::Damaged("the flag of a kept answer is neither 0 nor 1")),
            };
            State::Unknown { doubt, kept }
        }
        _ => return Err(DecodeError::Damaged("the state is not known")),
    };
    if reader.rest.has_remaining() {
        return Err(DecodeError::Damaged("it goes on after its end"));
    }
    Ok(Record { token, fingerprint, caller, lease, retention, began, route, state })
}

const STATE_CLAIMED: u8 = b'I';
const STATE_COMPLETED: u8 = b'C';
const STATE_UNKNOWN: u8 = b'U';

const BODY_WHOLE: u8 = 0;
const BODY_TOO_LARGE: u8 = 1;
const BODY_STREAMED: u8 = 2;
const BODY_BROKEN: u8 = 3;
const BODY_RESOLVED: u8 = 4;

const DOUBT_ANSWER_LOST: u8 = 1;
const DOUBT_TIMED_OUT: u8 = 2;
const DOUBT_SAID: u8 = 3;
const DOUBT_LAPSED: u8 = 4;
const DOUBT_SHUTDOWN: u8 = 5;
const DOUBT_GATE_FAILED: u8 = 6;

/// Roughly the bytes that a state takes: enough that a body is not copied again while a buffer grows, and good
/// enough to weigh a write by.
#[must_use]
pub fn payload_size(state: &State) -> usize {
    let response = match state {
        State::Claimed => None,
        State::Completed(response) => Some(response),
        State::Unknown { kept, .. } => kept.as_ref(),
    };
    response.map_or(0, |response| {
        let lines = |list: &HeaderList| list.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        let headers: usize = lines(&response.headers);
        let body = match &response.body {
            StoredBody::Whole { bytes, trailers } => bytes.len() + lines(trailers) + 16,
            StoredBody::NotKept(_) => 1,
        };
        headers + body + 16
    })
}

fn put_doubt(out: &mut Vec<u8>, doubt: Doubt) {
    match doubt {
        Doubt::AnswerLost => out.push(DOUBT_ANSWER_LOST),
        Doubt::UpstreamTimedOut => out.push(DOUBT_TIMED_OUT),
        Doubt::UpstreamSaid(status) => {
            out.push(DOUBT_SAID);
            out.extend_from_slice(&status.as_u16().to_be_bytes());
        }
        Doubt::ClaimLapsed => out.push(DOUBT_LAPSED),
        Doubt::Shutdown => out.push(DOUBT_SHUTDOWN),
        Doubt::GateFailed => out.push(DOUBT_GATE_FAILED),
    }
}

fn put_response(out: &mut Vec<u8>, response: &StoredResponse) {
    out.extend_from_slice(&response.status.map_or(0, |status| status.as_u16()).to_be_bytes());
    put_lines(out, &response.headers);
    match &response.body {
        StoredBody::Whole { bytes, trailers } => {
            out.push(BODY_WHOLE);
            put_bytes(out, bytes);
            put_lines(out, trailers);
        }
        StoredBody::NotKept(NotKept::TooLarge) => out.push(BODY_TOO_LARGE),
        StoredBody::NotKept(NotKept::Streamed) => out.push(BODY_STREAMED),
        StoredBody::NotKept(NotKept::Broken) => out.push(BODY_BROKEN),
        StoredBody::NotKept(NotKept::Resolved) => out.push(BODY_RESOLVED),
    }
}

fn put_lines(out: &mut Vec<u8>, lines: &HeaderList) {
    put_length(out, lines.len());
    for (name, value) in lines {
        put_bytes(out, name.as_str().as_bytes());
        put_bytes(out, value.as_bytes());
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push((length & 0x7F) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// What is left of the bytes. Every step checks that there is enough.
struct Reader {
    rest: Bytes,
}

const SHORT: DecodeError = DecodeError::Damaged("it ends too early");

impl Reader {
    fn byte(&mut self) -> Result<u8, DecodeError> {
        self.array().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let array = *self.rest.first_chunk::<N>().ok_or(SHORT)?;
        self.rest.advance(N);
        Ok(array)
    }

    fn duration(&mut self) -> Result<Duration, DecodeError> {
        match u64::from_be_bytes(self.array()?) {
            millis @ 1..=MAX_MILLIS => Ok(Duration::from_millis(millis)),
            _ => Err(DecodeError::Damaged("a duration is out of range")),
        }
    }

    /// A length or a count. Only the shortest form is one.
    fn length(&mut self) -> Result<usize, DecodeError> {
        const BAD: DecodeError = DecodeError::Damaged("a length is not well-formed");
        let mut length: u64 = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if (bits << shift) >> shift != bits || (byte == 0 && shift > 0) {
                return Err(BAD);
            }
            length |= bits << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(length).map_err(|_| BAD);
            }
        }
        Err(BAD)
    }

    fn bytes(&mut self) -> Result<Bytes, DecodeError> {
        let length = self.length()?;
        if length > self.rest.len() {
            return Err(SHORT);
        }
        Ok(self.rest.split_to(length))
    }

    fn status(&mut self) -> Result<Option<StatusCode>, DecodeError> {
        match u16::from_be_bytes(self.array()?) {
            0 => Ok(None),
            code if code < 200 => Err(DecodeError::Damaged("a status is not a final one")),
            code => StatusCode::from_u16(code).map(Some).map_err(|_| DecodeError::Damaged("a status is out of range")),
        }
    }

    fn doubt(&mut self) -> Result<Doubt, DecodeError> {
        match self.byte()? {
            DOUBT_ANSWER_LOST => Ok(Doubt::AnswerLost),
            DOUBT_TIMED_OUT => Ok(Doubt::UpstreamTimedOut),
            DOUBT_SAID => self.status()?.map(Doubt::UpstreamSaid).ok_or(DecodeError::Damaged("a doubt has no status")),
            DOUBT_LAPSED => Ok(Doubt::ClaimLapsed),
            DOUBT_SHUTDOWN => Ok(Doubt::Shutdown),
            DOUBT_GATE_FAILED => Ok(Doubt::GateFailed),
            _ => Err(DecodeError::Damaged("the doubt is not known")),
        }
    }

    fn response(&mut self) -> Result<StoredResponse, DecodeError> {
        let status = self.status()?;
        let headers = self.lines()?;
        let body = match self.byte()? {
            BODY_WHOLE => StoredBody::Whole { bytes: self.bytes()?, trailers: self.lines()? },
            BODY_TOO_LARGE => StoredBody::NotKept(NotKept::TooLarge),
            BODY_STREAMED => StoredBody::NotKept(NotKept::Streamed),
            BODY_BROKEN => StoredBody::NotKept(NotKept::Broken),
            BODY_RESOLVED => StoredBody::NotKept(NotKept::Resolved),
            _ => return Err(DecodeError::Damaged("the kind of body is not known")),
        };
        Ok(StoredResponse { status, headers, body })
    }

    /// Header or trailer lines, each checked as if it came from the network: whoever can write to the store must
    /// not be able to put a line break into a replay.
    fn lines(&mut self) -> Result<HeaderList, DecodeError> {
        // A line takes at least three bytes, so that a count beyond that is a lie.
        let count = self.length()?;
        if count > self.rest.len() / 3 {
            return Err(SHORT);
        }
        let mut lines = Vec::with_capacity(count);
        for _ in 0..count {
            let name = HeaderName::from_lowercase(&self.bytes()?)
                .map_err(|_| DecodeError::Damaged("a header name is not one"))?;
            let value = HeaderValue::from_maybe_shared(self.bytes()?)
                .map_err(|_| DecodeError::Damaged("a header value is not one"))?;
            lines.push((name, value));
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests;
