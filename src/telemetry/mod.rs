//! What the gate says about itself: logs, and the one way a moment is written for people.
//!
//! Not here: what is worth saying. Each room logs its own events, with fields, once, where they are handled.

pub mod log;
pub mod timestamp;
