//! Where cells live: the one trait, its errors, and how a store is opened.
//!
//! A store holds no policy. Not here: what a cell's content means (`idempotency`), what a client is told when
//! the store fails (`idempotency::decide::degrade`).

use std::{future::Future, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use crate::idempotency::{Expect, Occupant, RecordKey, Swapped, Write, codec::DecodeError, decide::StoreFailure};

pub mod embedded;
pub mod memory;
pub mod redis;

/// What a store operation returns: a boxed future, so that `dyn Store` works.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Any error, as a source.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Linearizable cells with expiry and a clock. Knows nothing of policy.
///
/// Each operation ends within the configured `store.timeout` (plus scheduling), whatever the backend does. A
/// dropped future may or may not have taken effect: the same as [`StoreError::InDoubt`].
pub trait Store: Send + Sync + 'static {
    /// Changes one cell, atomically, judged by the store's own clock: the semantics of
    /// [`Cell::swap`](crate::idempotency::Cell::swap). When it returns `Done` or `Recreated` the change is as
    /// durable as the store gets. One attempt; repeating with the same token is the caller's decision.
    fn swap<'a>(&'a self, key: &'a RecordKey, expect: Expect, write: Write) -> Reply<'a, Swapped>;

    /// What is in a cell.
    fn read<'a>(&'a self, key: &'a RecordKey) -> Reply<'a, Option<Occupant>>;

    /// Whether the store can be asked at all and is fit to keep claims. For readiness.
    fn ping(&self) -> Reply<'_, ()>;
}

/// Why a store operation has no verdict.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It never left this process: certainly not applied.
    #[error("the store cannot be reached")]
    NotSent(#[source] BoxError),
    /// The store answered with an error: certainly not applied.
    #[error("the store refused: {0}")]
    Refused(String),
    /// No answer: applied or not, nobody knows.
    #[error("the store did not answer")]
    InDoubt(#[source] BoxError),
    /// There is something in the cell that cannot be read.
    #[error("the record cannot be read")]
    Corrupt(#[source] DecodeError),
}

impl StoreError {
    /// What the failure means for a bid.
    #[must_use]
    pub fn failure(&self) -> StoreFailure {
        match self {
            Self::NotSent(_) | Self::Refused(_) => StoreFailure::NotApplied,
            Self::InDoubt(_) => StoreFailure::InDoubt,
            Self::Corrupt(_) => StoreFailure::Unreadable,
        }
    }
}

/// Which store, and how it is used (`[store]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where it is.
    pub location: Location,
    /// Prefix of every name in a shared store, and part of every cell's name.
    pub namespace: String,
    /// Deadline of one operation.
    pub timeout: Duration,
    /// Whether a Redis that evicts keys is accepted although it forgets claims.
    pub allow_eviction: bool,
}

/// Where a store is (`store.url`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// `memory:`
    Memory,
    /// `file:PATH`, already resolved against the configuration file's folder.
    File(PathBuf),
    /// `redis://…` or `redis+unix:PATH`
    Redis(RedisAddress),
}

/// Where a single Redis is.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisAddress {
    /// TCP or unix socket.
    pub endpoint: RedisEndpoint,
    /// ACL user; `None` is `default`.
    pub username: Option<String>,
    /// Password.
    pub password: Option<String>,
    /// Database number.
    pub database: u32,
}

/// How a Redis is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisEndpoint {
    /// Host and port.
    Tcp(String, u16),
    /// A unix socket.
    Unix(PathBuf),
}

impl std::fmt::Debug for RedisAddress {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisAddress")
            .field("endpoint", &self.endpoint)
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("database", &self.database)
            .finish()
    }
}

/// Why a store cannot be opened. Unreachable is not among them: such a store is opened and answers with errors.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses the file (exit code 73).
    #[error(
        "the store {} is in use by another process. Only one oncegate may use an embedded store: stop the other \
         process first, or use a shared Redis (store.url = \"redis://…\") for several gates", .0.display()
    )]
    InUse(PathBuf),
    /// The file cannot be opened or created, or is not a store (exit code 73).
    #[error("the store {} cannot be opened: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: BoxError,
    },
    /// Reachable, and unfit: evicting, too old, wrong role, wrong password (exit code 69).
    #[error("{0}")]
    Unfit(String),
}

/// Opens the store of `settings`.
///
/// A Redis that cannot be reached is no error: the store is returned, its operations fail and its `ping` with
/// them until it can be.
///
/// # Errors
/// The store must not be used: see [`OpenError`].
pub async fn open(settings: &Settings) -> Result<Arc<dyn Store>, OpenError> {
    match &settings.location {
        Location::Memory => Ok(Arc::new(memory::MemoryStore::new())),
        Location::File(path) => {
            let (path, timeout) = (path.clone(), settings.timeout);
            let opened = tokio::task::spawn_blocking({
                let path = path.clone();
                move || embedded::open(&path, timeout)
            });
            match opened.await {
                Ok(opened) => opened.map(|store| Arc::new(store) as Arc<dyn Store>),
                Err(error) => Err(OpenError::File { path, source: error.into() }),
            }
        }
        Location::Redis(address) => Ok(Arc::new(redis::RedisStore::open(settings, address).await?)),
    }
}
