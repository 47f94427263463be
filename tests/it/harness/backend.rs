//! The three stores as a parameter of a test.

use super::{
    gate::{Gate, GateBuilder},
    redis::RedisServer,
    upstream::Upstream,
};

/// One of the stores, with what it needs to run.
pub(crate) enum Backend {
    Memory,
    Embedded,
    Redis(RedisServer),
}

impl Backend {
    pub(crate) fn memory() -> Self {
        Self::Memory
    }

    pub(crate) fn embedded() -> Self {
        Self::Embedded
    }

    pub(crate) fn redis() -> Self {
        Self::Redis(RedisServer::start())
    }

    /// For `store.url`; the file is relative to the gate's own directory.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Memory => "memory:".to_owned(),
            Self::Embedded => "file:cells.redb".to_owned(),
            Self::Redis(server) => server.url(),
        }
    }

    /// A gate on this store before this upstream.
    pub(crate) fn gate(&self, upstream: &Upstream) -> GateBuilder {
        Gate::before(upstream).store(&self.url())
    }
}

/// Runs one test on every store: `each_store!(name => function)` makes `name::{memory, embedded, redis}` out of
/// `fn function(backend: &Backend)`.
macro_rules! each_store {
    ($($name:ident => $body:ident;)+) => {$(
        mod $name {
            #[test]
            fn memory() {
                super::$body(&$crate::harness::backend::Backend::memory());
            }

            #[test]
            fn embedded() {
                super::$body(&$crate::harness::backend::Backend::embedded());
            }

            #[test]
            fn redis() {
                super::$body(&$crate::harness::backend::Backend::redis());
            }
        }
    )+};
}

/// As `each_store!`, on the stores that outlive a gate.
macro_rules! each_durable_store {
    ($($name:ident => $body:ident;)+) => {$(
        mod $name {
            #[test]
            fn embedded() {
                super::$body(&$crate::harness::backend::Backend::embedded());
            }

            #[test]
            fn redis() {
                super::$body(&$crate::harness::backend::Backend::redis());
            }
        }
    )+};
}

pub(crate) use each_durable_store;
pub(crate) use each_store;
