//! Record ⇄ bytes: a version byte, a fixed header that the Redis script can read, total decode.

use super::{record::Record, scope::RecordKey};

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

/// The bytes of `record` in the cell `key`.
#[must_use]
pub fn encode(key: &RecordKey, record: &Record) -> Vec<u8> {
    let _ = (key, record);
    Vec::new()
}

/// The record in `bytes`, found in the cell `key`.
///
/// # Errors
/// Why the bytes are not a record of that cell. Never panics, whatever the bytes.
pub fn decode(key: &RecordKey, bytes: &[u8]) -> Result<Record, DecodeError> {
    let _ = (key, bytes);
    Err(DecodeError::Damaged("not implemented"))
}
