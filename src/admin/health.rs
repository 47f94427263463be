//! Readiness: whether this gate should get new requests, and if not, why.
//!
//! Not here: liveness, which is the answer to `/livez` itself. A store that is down makes a gate unready, never
//! dead: restarting it would not bring the store back.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use http::StatusCode;
use serde_json::json;
use tokio::sync::Mutex;

use super::Answer;
use crate::{
    shutdown::{Phase, Shutdown},
    store::{Store, StoreError},
};

/// How long one look at the store counts: probes from many sides must not become load on it.
const FRESH: Duration = Duration::from_millis(250);

/// For one look, should the store's own deadline be a long one: probes give up after a second or three.
const PATIENCE: Duration = Duration::from_secs(1);

/// Looks at the store on demand.
pub(super) struct Health {
    store: Arc<dyn Store>,
    shutdown: Shutdown,
    /// The last look. Held while one is under way, so that there is one at a time.
    last: Mutex<Option<(Instant, Result<(), &'static str>)>>,
}

/// Why a gate is not ready; nothing where it is. The reasons are fixed words: no address, no server's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Readiness(pub(super) Vec<&'static str>);

impl Health {
    pub(super) fn new(store: Arc<dyn Store>, shutdown: Shutdown) -> Self {
        Self { store, shutdown, last: Mutex::new(None) }
    }

    /// Looks at everything that matters.
    pub(super) async fn readiness(&self) -> Readiness {
        let mut reasons = Vec::new();
        if self.shutdown.phase() > Phase::Running {
            reasons.push("draining");
        }
        if let Err(reason) = self.store().await {
            reasons.push(reason);
        }
        Readiness(reasons)
    }

    async fn store(&self) -> Result<(), &'static str> {
        let mut last = self.last.lock().await;
        if let Some((at, verdict)) = *last
            && at.elapsed() < FRESH
        {
            return verdict;
        }
        let before = last.map(|(_, verdict)| verdict);
        let verdict = match tokio::time::timeout(PATIENCE, self.store.ping()).await {
            Ok(Ok(())) => {
                if let Some(Err(reason)) = before {
                    tracing::info!(after = reason, "the store is fit again");
                }
                Ok(())
            }
            Ok(Err(error)) => {
                let reason = reason(&error);
                if before != Some(Err(reason)) {
                    tracing::warn!(error = &error as &dyn std::error::Error, "the store is not fit: not ready");
                }
                Err(reason)
            }
            Err(_) => {
                if before != Some(Err(SILENT)) {
                    tracing::warn!("the store does not answer in time: not ready");
                }
                Err(SILENT)
            }
        };
        *last = Some((Instant::now(), verdict));
        verdict
    }
}

const SILENT: &str = "store: no answer";

fn reason(error: &StoreError) -> &'static str {
    match error {
        StoreError::NotSent(_) => "store: unreachable",
        StoreError::Refused(_) => "store: refused",
        StoreError::InDoubt(_) => SILENT,
        StoreError::Corrupt(_) => "store: unreadable",
    }
}

impl Readiness {
    /// As an answer: 200 or 503.
    pub(super) fn answer(&self) -> Answer {
        let ready = self.0.is_empty();
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        Answer::json(status, &json!({ "ready": ready, "reasons": self.0 }))
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").field("shutdown", &self.shutdown).finish_non_exhaustive()
    }
}
