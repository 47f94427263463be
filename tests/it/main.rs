//! The integration tests, one binary: the real gate before a real upstream, seen from the wire.
//!
//! One behaviour, one file. Tests wait for events, count executions at the upstream and never look inside.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in the helpers that tests share")]
#![allow(dead_code, unused_macros, unused_imports, reason = "the harness lands before the tests that use it")]

mod examples;
mod harness;
