//! Everything the integration tests stand on: the gate as a process, an upstream that misbehaves on command, a
//! client that speaks bytes, real Redis servers and a network that breaks.

pub(crate) mod backend;
pub(crate) mod chaos;
pub(crate) mod client;
pub(crate) mod gate;
pub(crate) mod h2c;
pub(crate) mod redis;
pub(crate) mod sync;
pub(crate) mod upstream;
pub(crate) mod wire;

mod selftest;
