//! oncegate: the memory of `Idempotency-Key` as a standalone reverse proxy.
//!
//! # Bird's eye
//!
//! A client sends `POST /payments` with an `Idempotency-Key`. The gate names a *cell* in the store for
//! (namespace, caller, key), claims it, forwards the request once, stores the answer and replays it on every
//! retry. What cannot be known (the answer was lost, a gate died) is recorded as *unknown* and never guessed.
//!
//! > A store is a set of cells. A cell can only be changed by someone who knows what is in it. Everything
//! > else is arithmetic on what is in the cell.
//!
//! So there is one mutating store operation ([`store::Store::swap`]), three pure decisions
//! ([`idempotency::decide`]: `admit`, `arbitrate`, `settle`) and one straight-line driver ([`proxy`]).
//!
//! # Map
//!
//! | level | room | what it is | may import |
//! |---|---|---|---|
//! | 0 | [`idempotency`] | the core: key, caller, fingerprint, record, cell, decisions, codec. Pure | nothing of ours |
//! | 0 | [`shutdown`] | phases of stopping, as a handle | nothing of ours |
//! | 1 | [`routes`] | method + host + canonical path → route and policy. Pure | `idempotency` |
//! | 1 | [`telemetry`] | logs | `idempotency` |
//! | 2 | [`store`] | where cells live: memory, embedded, Redis | `idempotency`, `telemetry` |
//! | 2 | [`upstream`] | where requests go: the connection pool, hop-by-hop rules, proof of "never sent" | `idempotency`, `telemetry` |
//! | 3 | [`proxy`] | the data plane: one request from socket to answer | all above |
//! | 3 | [`admin`] | the control plane: health, drain | all above but `proxy` |
//! | 4 | [`config`] | from TOML to every room's `Settings`; knows what users write | every `Settings` |
//! | 5 | [`app`] | wiring: open, bind, spawn, reload, drain | all above |
//! | 6 | [`cli`] | the command line | `app`, `config`, pure rooms |
//!
//! The table is checked by `tests/it/tidy.rs`. To know the product, read `idempotency/mod.rs`,
//! `idempotency/decide.rs`, `idempotency/cell.rs`, `proxy/service.rs`, `proxy/gate.rs`, `proxy/flight.rs`.
//!
//! # Invariants
//!
//! - Invariant: nothing is sent to the upstream under a key unless the cell holds *this* claim's token and the
//!   gate confirmed that less than half a lease ago.
//! - Invariant: a claim is emptied only on proof that the upstream never saw the request, by the upstream's own
//!   word (its status), or by an operator.
//! - Invariant: an exchange runs in its own task; dropping a client's future never cancels it.
//! - Invariant: the last byte of an answer leaves the gate after its record is written, or the answer says
//!   `unrecorded`.
//! - Invariant: time that decides anything is the store's, judged inside the swap.
//! - Absence: the core has no clock, no randomness, no IO, no `async`; a lint (below) and the tidy test say so.
//! - Absence: no key, credential or body is ever logged; answers are stored, never logged.

#[deny(clippy::disallowed_methods, clippy::disallowed_types)]
pub mod idempotency;

#[deny(clippy::disallowed_methods, clippy::disallowed_types)]
pub mod routes;

pub mod admin;
pub mod app;
pub mod cli;
pub mod config;
pub mod proxy;
pub mod shutdown;
pub mod store;
pub mod telemetry;
pub mod upstream;
