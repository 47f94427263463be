//! The core: what one `Idempotency-Key` means, as pure data and pure functions.
//!
//! ```text
//!                       Hold                          Complete
//!         ┌────────┐ ───────────▶ ┌─────────────────┐ ─────────▶ ┌───────────────────────┐
//!         │ absent │              │ Claimed(token)  │            │ Completed(response)   │──▶ replay
//!         └────────┘ ◀─────────── │ lease           │            └───────────────────────┘
//!              ▲        Clear     └─────────────────┘                      ▲
//!              │   (proved unsent)  │ ▲          │ Doubt                   │ Complete (late, same token;
//!              │                    └─┘          ▼ (lost answer, lapse)    │           or an operator)
//!              │                 Renew    ┌─────────────────┐              │
//!              └───────────────────────── │ Unknown(token)  │ ─────────────┘
//!                Clear (proved unsent,    └─────────────────┘
//!                       or an operator)
//!    every record also disappears when its retention ends (the store's clock)
//!    a lapsed Claimed or an Unknown passes to a new token only where the route says `unknown = "retry"`
//! ```
//!
//! Vocabulary: a *cell* is the place in the store for one (namespace, caller, key); a *record* is what it
//! holds; a *claim* is the right to execute, known by its *token* and kept alive as a *lease*; a record that is
//! `Unknown`, or `Claimed` with a lapsed lease, is *doubtful*.
//!
//! Not here: clocks, randomness, sockets, tasks. Time and tokens come in as arguments (see the lint wall in
//! the crate root).

pub mod cell;
pub mod codec;
pub mod decide;
mod digest;
mod field;
pub mod fingerprint;
pub mod key;
pub mod policy;
pub mod record;
pub mod refusal;
pub mod response;
pub mod scope;
pub mod status;

#[cfg(test)]
mod model;
#[cfg(test)]
mod samples;

pub use cell::{Cell, Expect, Swapped, Write};
pub use decide::{Admission, BypassReason, Decision, Degraded, Outcome, Settlement, StoreFailure};
pub use fingerprint::Fingerprint;
pub use key::IdempotencyKey;
pub use policy::Policy;
pub use record::{CallerTag, Claim, ClaimToken, Doubt, Occupant, Record, RouteName, State, StoreTime, WallMillis};
pub use refusal::Refusal;
pub use response::{HeaderList, NotKept, StoredBody, StoredResponse};
pub use scope::{Caller, RecordKey};

use http::{HeaderMap, Method};

/// What the core looks at in a request: borrowed from the message, nothing parsed beyond what HTTP requires.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The request method, as sent.
    pub method: &'a Method,
    /// The effective authority (RFC 9110 §7.1): from the absolute target, `:authority` or `Host`. Empty for
    /// an HTTP/1.0 request without `Host`.
    pub authority: &'a str,
    /// Path and query, byte for byte as forwarded.
    pub target: &'a str,
    /// The request's header fields.
    pub headers: &'a HeaderMap,
}
