//! What an error of Redis means: applied, not applied, or nobody knows; and what the operator can do about it.
//!
//! Redis checks before it acts, and the scripts write last: an error reply of a known class is a "no". Silence, and
//! what cannot be understood, is a "maybe".

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::{idempotency::codec::DecodeError, store::StoreError};

/// Error classes that prove that nothing was done, and their remedies.
const REFUSALS: [(&str, &str); 21] = [
    ("OOM", "Redis is full: raise its maxmemory, or give oncegate a Redis of its own"),
    ("MISCONF", "Redis cannot save to its disk: see its log, make room, check the rights of its dir"),
    ("READONLY", "this Redis is a replica: point store.url at the primary"),
    ("MASTERDOWN", "this Redis is a replica without its primary: point store.url at the primary"),
    ("LOADING", "Redis is still loading its data: it will answer when it is done"),
    ("NOREPLICAS", "fewer replicas are connected than min-replicas-to-write asks for"),
    ("BUSY", "another script has kept Redis busy for seconds: find who runs it"),
    ("NOAUTH", "Redis asks for a password: put it into store.url (redis://:PASSWORD@host)"),
    ("WRONGPASS", "Redis does not accept the user and password of store.url"),
    ("NOPERM", "the Redis user of store.url lacks a right: see the ACL line in the log at start"),
    ("NOSCRIPT", "Redis forgot a script twice in one moment"),
    ("CLUSTERDOWN", "the Redis cluster does not serve this key now"),
    ("MOVED", "this Redis is a cluster node: redis:// is for a single Redis"),
    ("ASK", "this Redis is a cluster node: redis:// is for a single Redis"),
    ("TRYAGAIN", "this Redis is a cluster node: redis:// is for a single Redis"),
    ("CROSSSLOT", "this Redis is a cluster node: redis:// is for a single Redis"),
    ("NOPROTO", "this Redis does not speak the protocol of Redis 7"),
    ("DENIED", "Redis runs in protected mode: set a password or bind it"),
    ("EXECABORT", "Redis gave up a transaction"),
    ("UNKILLABLE", "another script has kept Redis busy for seconds: find who runs it"),
    ("NOTBUSY", "Redis was asked to stop a script that does not run"),
];

/// Beginnings of plain `ERR` replies that prove the same. Any other may be of something between us and Redis.
const PLAIN_REFUSALS: [(&str, &str); 8] = [
    ("max number of clients", "raise maxclients of Redis, or find who holds its connections"),
    ("The user executing the script can't", "the Redis user of store.url lacks a right"),
    ("unknown command", "this Redis lacks a command: 7.0 or later is needed, with scripts allowed"),
    ("unknown subcommand", "this Redis lacks a command: 7.0 or later is needed"),
    ("syntax error", "this Redis lacks an option of SET: 7.0 or later is needed"),
    ("invalid expire time", "the clock of Redis is wrong"),
    ("invalid DB index", "store.url names a database that this Redis does not have"),
    ("DB index is out of range", "store.url names a database that this Redis does not have"),
];

/// What a failed command means.
pub(super) fn failure(error: RedisError) -> StoreError {
    if error.code() == Some("WRONGTYPE") {
        return StoreError::Corrupt(DecodeError::Damaged("its key holds another kind of value"));
    }
    match refusal(&error) {
        Some(text) => StoreError::Refused(text),
        None => StoreError::InDoubt(error.into()),
    }
}

/// The class, the words of Redis and the remedy, where the error proves that nothing was done.
pub(super) fn refusal(error: &RedisError) -> Option<String> {
    // The library answers in its own words here.
    let code = if error.kind() == ErrorKind::AuthenticationFailed { "WRONGPASS" } else { error.code()? };
    let detail = error.detail().unwrap_or_default();
    let remedy = match code {
        "ERR" => PLAIN_REFUSALS.iter().find(|(start, _)| detail.starts_with(start))?.1,
        _ => REFUSALS.iter().find(|(known, _)| *known == code)?.1,
    };
    Some(format!("{code}: {remedy} ({detail})"))
}

/// Whether the server is what it must be but for its configuration: waiting does not help, an operator must act.
pub(super) fn is_unfit(error: &RedisError) -> bool {
    match error.code() {
        Some("NOAUTH" | "WRONGPASS" | "NOPERM" | "DENIED" | "NOPROTO" | "READONLY" | "MOVED") => true,
        Some("ERR") => {
            error.detail().is_some_and(|detail| PLAIN_REFUSALS[1..].iter().any(|(start, _)| detail.starts_with(start)))
        }
        Some(_) | None => error.kind() == ErrorKind::AuthenticationFailed,
    }
}

/// Whether a refusal, in the words of [`refusal`], is one that an operator must lift: it meets every cell alike.
pub(super) fn is_about_rights(refusal: &str) -> bool {
    ["NOPERM:", "NOAUTH:", "ERR:"].iter().any(|code| refusal.starts_with(code))
}

/// Whether the script must be sent in full.
pub(super) fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

#[cfg(test)]
mod tests;
