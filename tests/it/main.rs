//! The integration tests, one binary: the real gate before a real upstream, seen from the wire.
//!
//! One behaviour, one file. Tests wait for events, count executions at the upstream and never look inside.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in the helpers that tests share")]
mod examples;
mod harness;

mod admin;
mod bypass;
mod cli;
mod commands;
mod concurrent;
mod cors;
mod crash;
mod disconnect;
mod fingerprint;
mod framing;
mod headers;
mod lapse;
mod large_bodies;
mod limits;
mod mismatch;
mod outcome_classes;
mod packaging;
mod problems;
mod readme;
mod reload;
mod replay;
mod required_key;
mod routes;
mod scope;
mod shutdown;
mod slow_clients;
mod store;
mod store_outage;
mod straggler;
mod streaming;
mod tidy;
mod turmoil;
mod upstream_failure;
mod waiting;
