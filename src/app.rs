//! Wiring: open the store, bind, serve, reload, drain. The only room that knows all the others.

pub mod source;

pub use self::source::Source;
