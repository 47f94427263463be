//! The access line: one per request, of facts only. Never a key, a credential, a query or a body.

use std::time::Instant;

use http::{Method, StatusCode};

use crate::idempotency::{RecordKey, RouteName};

/// What the line about one request will say.
#[derive(Debug)]
pub(super) struct Access {
    began: Instant,
    method: Method,
    pub(super) route: Option<RouteName>,
    pub(super) cell: Option<RecordKey>,
}

impl Access {
    pub(super) fn new(method: &Method) -> Self {
        Self { began: Instant::now(), method: method.clone(), route: None, cell: None }
    }

    /// Writes the line. `outcome` is an `Idempotency-Status`, a problem slug, or a word for what was not protected.
    pub(super) fn log(&self, status: StatusCode, outcome: &str) {
        let milliseconds = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let route = self.route.as_ref().map_or("-", |route| &route.0);
        match &self.cell {
            Some(cell) => tracing::info!(
                target: "oncegate::access", method = %self.method, route, status = status.as_u16(), outcome,
                milliseconds, %cell, "request"
            ),
            // What is not protected is the backend's own business; its log has it.
            None => tracing::debug!(
                target: "oncegate::access", method = %self.method, route, status = status.as_u16(), outcome,
                milliseconds, "request"
            ),
        }
    }
}
