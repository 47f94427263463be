//! What the gate says about itself.

pub mod log;
