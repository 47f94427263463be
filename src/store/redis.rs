//! `redis://`: cells on a Redis that several gates share. A claim is one native `SET … NX GET PX`, every other
//! change one script, and every time that decides is Redis' own.
//!
//! A cell's name is `<namespace>:` and the hex of its [`RecordKey`]; its TTL is its retention, so that
//! `retention − PTTL` is the time since the last write. `link` is a pair of connections, `supervisor` keeps one
//! alive, `fitness` says what a Redis must be, `script` speaks the two scripts, `errors` sorts the failures.
//! Not here: repeating. One call is one attempt; the caller knows whether to ask again with the same token.

mod errors;
mod fitness;
mod link;
mod script;
mod supervisor;

use std::time::Duration;

use bytes::Bytes;
use redis::cmd;
use tokio::time::{Instant, timeout_at};

use self::{
    errors::failure,
    link::Link,
    script::{Found, LOOK, SWAP, Sending},
    supervisor::Supervised,
};
use super::{OpenError, RedisAddress, Reply, Settings, Store, StoreError};
use crate::idempotency::{
    Expect, Occupant, RecordKey, State, Swapped, Write,
    codec::{self, DecodeError},
};

/// A write longer than this goes over the connection for bodies, so that claims do not queue behind it.
const LARGE: usize = 16 << 10;

/// Cells on a Redis.
#[derive(Debug)]
pub struct RedisStore {
    link: Supervised,
    namespace: String,
    timeout: Duration,
}

/// Whether an operation may go to a Redis that has just refused another for want of a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// Not before it was looked at again: a claim is won only where its outcome can be written down.
    Needed,
    /// At once: it executes nothing.
    Needless,
}

impl RedisStore {
    /// Connects to the Redis at `address`.
    ///
    /// # Errors
    /// [`OpenError::Unfit`]: it answers, and must not be used. One that does not answer is no error.
    pub(super) async fn open(settings: &Settings, address: &RedisAddress) -> Result<Self, OpenError> {
        let requirements =
            fitness::Requirements { namespace: settings.namespace.clone(), allow_eviction: settings.allow_eviction };
        let link =
            Supervised::start(address.clone(), requirements, settings.timeout).await.map_err(OpenError::Unfit)?;
        Ok(Self { link, namespace: settings.namespace.clone(), timeout: settings.timeout })
    }

    fn name(&self, key: &RecordKey) -> String {
        name(&self.namespace, key)
    }

    /// Runs `operation` on a live link; finding one and the answer take at most `timeout` together.
    async fn attempt<T>(
        &self,
        trust: Trust,
        operation: impl AsyncFnOnce(&Link) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let deadline = Instant::now() + self.timeout;
        let link = match trust {
            Trust::Needed => self.link.get_trusted(deadline).await?,
            Trust::Needless => self.link.get(deadline).await?,
        };
        match timeout_at(deadline, operation(&link)).await {
            Ok(result) => {
                if let Err(StoreError::Refused(text)) = &result {
                    self.link.doubt(text);
                }
                result
            }
            Err(_) => Err(StoreError::InDoubt(format!("no answer within {:?}", self.timeout).into())),
        }
    }

    /// `swap(Absent, Hold)` without a script: the reply is nil, or what was there before.
    async fn claim(&self, link: &Link, key: &RecordKey, write: &Write) -> Result<Swapped, StoreError> {
        let Some(record) = write.record() else { return Ok(Swapped::Refused { occupant: None }) };
        let bytes = codec::encode(key, record);
        let name = self.name(key);
        let mut command = cmd("SET");
        command.arg(&name).arg(&bytes).arg("NX").arg("GET").arg("PX").arg(codec::millis(record.retention));
        let mut connection = link.lane(bytes.len() > LARGE);
        let before: Option<Vec<u8>> = match command.query_async(&mut connection).await {
            Ok(before) => before,
            Err(error) => return self.claim_refused(link, key, failure(error)).await,
        };
        let Some(before) = before else { return Ok(Swapped::Done) };
        let record = codec::decode(key, &Bytes::from(before)).map_err(StoreError::Corrupt)?;
        match record.state {
            // Final: how long ago it was written does not matter.
            State::Completed(_) => Ok(Swapped::Refused { occupant: Some(Occupant { record, idle: Duration::ZERO }) }),
            State::Claimed | State::Unknown { .. } => Ok(Swapped::Refused { occupant: look(link, key, &name).await? }),
        }
    }

    /// A Redis that may not write (full, read-only, its disk broken) still knows what it has: replays go on.
    async fn claim_refused(&self, link: &Link, key: &RecordKey, error: StoreError) -> Result<Swapped, StoreError> {
        if let StoreError::Refused(_) = &error
            && let Ok(Some(occupant)) = look(link, key, &self.name(key)).await
        {
            return Ok(Swapped::Refused { occupant: Some(occupant) });
        }
        Err(error)
    }
}

/// A cell's name in Redis.
fn name(namespace: &str, key: &RecordKey) -> String {
    format!("{namespace}:{key}")
}

/// Any swap, as a script.
async fn swap(
    link: &Link,
    key: &RecordKey,
    name: &str,
    expect: Expect,
    write: &Write,
    sending: Sending,
) -> Result<Swapped, StoreError> {
    let (expect, token) = match expect {
        Expect::Absent => ("a", [].as_slice()),
        Expect::HeldBy(ref token) => ("h", token.0.as_slice()),
        Expect::Doubtful(ref token) => ("d", token.0.as_slice()),
        Expect::Occupied(ref token) => ("o", token.0.as_slice()),
    };
    let kind = match write {
        Write::Hold(_) => "h",
        Write::Renew(_) => "r",
        Write::Complete(_) => "c",
        Write::Doubt(_) => "d",
        Write::Clear => "x",
    };
    let record = write.record().map(|record| codec::encode(key, record)).unwrap_or_default();
    let retention = write.record().map_or(1, |record| codec::millis(record.retention));
    let head = [&[codec::VERSION], codec::cell_tag(key)].concat();
    let mut connection = link.lane(record.len() > LARGE);
    let arguments = |command: &mut redis::Cmd| {
        command.arg(name).arg(expect).arg(token).arg(kind).arg(&record).arg(retention).arg(&head);
    };
    match SWAP.run(&mut connection, sending, arguments).await? {
        Found::Done => Ok(Swapped::Done),
        Found::Recreated => Ok(Swapped::Recreated),
        Found::Nothing => Ok(Swapped::Refused { occupant: None }),
        Found::There { record, pttl } => Ok(Swapped::Refused { occupant: Some(occupant(key, record, pttl)?) }),
        Found::Unreadable { record, pttl } => Err(match occupant(key, record, pttl) {
            Err(error) => error,
            Ok(_) => StoreError::Corrupt(DecodeError::Damaged("the script could not read it")),
        }),
    }
}

/// What is in a cell, with its time.
async fn look(link: &Link, key: &RecordKey, name: &str) -> Result<Option<Occupant>, StoreError> {
    let mut connection = link.lane(false);
    match LOOK
        .run(&mut connection, Sending::ByHash, |command| {
            command.arg(name);
        })
        .await?
    {
        Found::There { record, pttl } => occupant(key, record, pttl).map(Some),
        Found::Nothing => Ok(None),
        Found::Done | Found::Recreated | Found::Unreadable { .. } => {
            Err(StoreError::InDoubt("an answer to another question".into()))
        }
    }
}

/// A record as it was found with so much left of its life. Without an end it is not ours: never free, never run.
fn occupant(key: &RecordKey, record: Bytes, pttl: i64) -> Result<Occupant, StoreError> {
    let record = codec::decode(key, &record).map_err(StoreError::Corrupt)?;
    let Ok(left) = u64::try_from(pttl) else {
        return Err(StoreError::Corrupt(DecodeError::Damaged("its key has no expiry")));
    };
    let idle = record.retention.saturating_sub(Duration::from_millis(left));
    Ok(Occupant { record, idle })
}

impl Store for RedisStore {
    fn swap<'a>(&'a self, key: &'a RecordKey, expect: Expect, write: Write) -> Reply<'a, Swapped> {
        let trust = if matches!(write, Write::Hold(_)) { Trust::Needed } else { Trust::Needless };
        Box::pin(self.attempt(trust, async move |link: &Link| match (expect, &write) {
            (Expect::Absent, Write::Hold(_)) => self.claim(link, key, &write).await,
            (Expect::Absent | Expect::HeldBy(_) | Expect::Doubtful(_) | Expect::Occupied(_), _) => {
                swap(link, key, &self.name(key), expect, &write, Sending::ByHash).await
            }
        }))
    }

    fn read<'a>(&'a self, key: &'a RecordKey) -> Reply<'a, Option<Occupant>> {
        Box::pin(self.attempt(Trust::Needless, async move |link: &Link| look(link, key, &self.name(key)).await))
    }

    fn ping(&self) -> Reply<'_, ()> {
        Box::pin(self.attempt(Trust::Needed, async |link: &Link| link.ping().await))
    }
}
