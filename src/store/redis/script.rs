//! The two scripts, and what they answer. Sent by their hash; where Redis does not know it, in full.
//!
//! No `SCRIPT LOAD`: an `EVAL` loads as well, needs one right less, and works after a restart or a flush at any
//! moment.

use std::sync::LazyLock;

use bytes::Bytes;
use redis::{Cmd, Value, aio::MultiplexedConnection, cmd};

use super::errors::{self, failure};
use crate::store::StoreError;

/// All changes but the plain claim.
pub(super) static SWAP: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("swap.lua")));
/// A look at a cell and its age.
pub(super) static LOOK: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("look.lua")));

/// A script on one key.
pub(super) struct Script {
    text: &'static str,
    hash: String,
}

/// How a script gets to Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// By its hash, and in full where Redis does not know it.
    ByHash,
    /// In full: to see whether that is allowed, although Redis may know it.
    InFull,
}

/// What a script found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It has written, or it was written already.
    Done,
    /// It has written into a cell that should not have been empty.
    Recreated,
    /// Nothing, where something was expected.
    Nothing,
    /// A record, and the milliseconds left of its life.
    There {
        /// Its bytes.
        record: Bytes,
        /// `PTTL`.
        pttl: i64,
    },
    /// Something that is no record, or does not end.
    Unreadable {
        /// Its bytes.
        record: Bytes,
        /// `PTTL`.
        pttl: i64,
    },
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().to_owned() }
    }

    /// Runs it. `arguments` adds the key and everything after it.
    pub(super) async fn run(
        &self,
        connection: &mut MultiplexedConnection,
        sending: Sending,
        arguments: impl Fn(&mut Cmd),
    ) -> Result<Found, StoreError> {
        let call = |verb, script: &str| {
            let mut command = cmd(verb);
            command.arg(script).arg(1);
            arguments(&mut command);
            command
        };
        if sending == Sending::ByHash {
            match call("EVALSHA", &self.hash).query_async::<Value>(connection).await {
                Err(error) if errors::is_unknown_script(&error) => {}
                reply => return parse(reply.map_err(failure)?),
            }
        }
        parse(call("EVAL", self.text).query_async::<Value>(connection).await.map_err(failure)?)
    }
}

/// What an answer says. Something else answered in Redis' place if it cannot be understood: nobody knows what it did.
fn parse(reply: Value) -> Result<Found, StoreError> {
    let strange = || StoreError::InDoubt("an answer that is not the script's".into());
    let Value::Array(items) = reply else { return Err(strange()) };
    let mut items = items.into_iter();
    match (items.next(), items.next(), items.next(), items.next()) {
        (None, ..) => Ok(Found::Nothing),
        (Some(Value::BulkString(word)), None, ..) => match word.as_slice() {
            b"done" => Ok(Found::Done),
            b"recreated" => Ok(Found::Recreated),
            b"refused" => Ok(Found::Nothing),
            _ => Err(strange()),
        },
        (Some(Value::BulkString(record)), Some(Value::Int(pttl)), None, _) => {
            Ok(Found::There { record: record.into(), pttl })
        }
        (Some(Value::BulkString(word)), Some(Value::BulkString(record)), Some(Value::Int(pttl)), None) => {
            match word.as_slice() {
                b"refused" => Ok(Found::There { record: record.into(), pttl }),
                b"unreadable" => Ok(Found::Unreadable { record: record.into(), pttl }),
                _ => Err(strange()),
            }
        }
        _ => Err(strange()),
    }
}

#[cfg(test)]
mod tests;
