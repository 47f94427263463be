//! The store contract: one set of tests, mounted on every store there is. `Cell::swap` is the oracle.
//!
//! Times are real here, because a Redis has no other: leases and retentions are either far longer than a test or
//! a few milliseconds that a test waits for.

mod contention;
mod contract;
mod embedded;
mod expiry;
mod oracle;
mod redis;

use std::{any::Any, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use oncegate::{
    idempotency::{
        CallerTag, Claim, ClaimToken, Doubt, Expect, Fingerprint, Occupant, RecordKey, RouteName, Settlement,
        StoredBody, StoredResponse, Swapped, WallMillis, Write,
    },
    store::{self, Location, OpenError, RedisAddress, RedisEndpoint, Settings, Store, StoreError},
};
use tempfile::TempDir;

use crate::harness::{redis::RedisServer, wire::Address};

/// A store under test, and what it stands on, kept until the end of the test.
pub(crate) struct Mounted {
    pub(crate) store: Arc<dyn Store>,
    _ground: Box<dyn Any>,
}

impl Mounted {
    async fn memory() -> Self {
        Self { store: open(Location::Memory).await.unwrap(), _ground: Box::new(()) }
    }

    async fn embedded() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open(Location::File(folder.path().join("store.redb"))).await.unwrap();
        Self { store, _ground: Box::new(folder) }
    }

    async fn redis() -> Self {
        let server = RedisServer::start_with(&[]);
        let store = open(Location::Redis(address_of(&server))).await.unwrap();
        Self { store, _ground: Box::new(server) }
    }
}

/// Long enough that a busy machine does not turn a verdict into a doubt.
const PATIENCE: Duration = Duration::from_secs(10);

fn settings(location: Location) -> Settings {
    Settings { location, namespace: "contract".to_owned(), timeout: PATIENCE, allow_eviction: false }
}

async fn open(location: Location) -> Result<Arc<dyn Store>, OpenError> {
    store::open(&settings(location)).await
}

fn address_of(server: &RedisServer) -> RedisAddress {
    let Address::Tcp(address) = server.address() else { panic!("not on TCP") };
    RedisAddress {
        endpoint: RedisEndpoint::Tcp(address.ip().to_string(), address.port()),
        username: None,
        password: None,
        database: 0,
    }
}

/// Mounts each test of a module on each store.
macro_rules! mount {
    ($module:ident: $($test:ident),* $(,)?) => {
        mod memory { $crate::store::mount!(@on memory $module: $($test),*); }
        mod embedded { $crate::store::mount!(@on embedded $module: $($test),*); }
        mod redis { $crate::store::mount!(@on redis $module: $($test),*); }
    };
    (@on $store:ident $module:ident: $($test:ident),*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let mounted = $crate::store::Mounted::$store().await;
                $crate::store::$module::$test(std::sync::Arc::clone(&mounted.store)).await;
            }
        )*
    };
}
pub(crate) use mount;

const HOUR: Duration = Duration::from_secs(3600);

fn token(number: u8) -> ClaimToken {
    ClaimToken([number; 16])
}

fn key(number: u64) -> RecordKey {
    let mut key = [0xC7; 32];
    key[..8].copy_from_slice(&number.to_be_bytes());
    RecordKey(key)
}

/// A claim on `key(number)` that neither lapses nor expires within a test.
fn claim(number: u64, by: u8) -> Claim {
    Claim {
        key: key(number),
        token: token(by),
        fingerprint: Fingerprint([by; 32]),
        caller: CallerTag([7; 32]),
        route: RouteName::from("create-payment"),
        began: WallMillis(1_796_000_000_000 + u64::from(by)),
        lease: HOUR,
        retention: 24 * HOUR,
    }
}

fn answer(body: impl Into<Bytes>) -> StoredResponse {
    StoredResponse {
        status: Some(StatusCode::CREATED),
        headers: vec![
            (HeaderName::from_static("content-type"), HeaderValue::from_static("application/json")),
            (HeaderName::from_static("link"), HeaderValue::from_static("</a>")),
            (HeaderName::from_static("link"), HeaderValue::from_static("</b>")),
        ],
        body: StoredBody::Whole { bytes: body.into(), trailers: Vec::new() },
    }
}

fn complete(claim: &Claim, body: impl Into<Bytes>) -> Write {
    claim.settle(Settlement::Complete(answer(body)))
}

fn doubt(claim: &Claim) -> Write {
    claim.settle(Settlement::Doubt { doubt: Doubt::AnswerLost, kept: None })
}

/// What was in the cell instead.
#[track_caller]
fn refused(swapped: Result<Swapped, StoreError>) -> Option<Occupant> {
    match swapped {
        Ok(Swapped::Refused { occupant }) => occupant,
        other => panic!("not refused: {other:?}"),
    }
}

#[track_caller]
fn done(swapped: Result<Swapped, StoreError>) {
    assert_eq!(swapped.unwrap(), Swapped::Done);
}

/// Asks until the store gives the wanted answer: for events that only time brings.
async fn until<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(found) = ask().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), asking).await.expect("it did not come")
}

/// Where the file of an embedded store is.
fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("store.redb")
}
