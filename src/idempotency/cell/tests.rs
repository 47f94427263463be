//! Tests of `Cell::swap`.
