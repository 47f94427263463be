//! The data plane: one request, from socket to answer.

use std::{path::PathBuf, time::Duration};

/// How clients are served (`[server]` and `[limits]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where clients connect.
    pub listen: Listen,
    /// Peers whose forwarding fields are believed.
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// Client connections at one time; more wait to be accepted.
    pub max_connections: usize,
    /// Request line and header fields together, in bytes; also the h2 header list.
    pub max_header_bytes: usize,
    /// For a request head, from its first byte.
    pub header_timeout: Duration,
    /// For a whole protected upload.
    pub body_timeout: Duration,
    /// For a kept connection without a request.
    pub idle_timeout: Duration,
    /// Readiness fails, requests are still served.
    pub shutdown_delay: Duration,
    /// The listener is closed, running exchanges finish.
    pub shutdown_grace: Duration,
    /// Prefix of every problem `type`.
    pub problem_base: String,
    /// Part of every cell's name (`store.namespace`).
    pub namespace: String,
    /// Bodies held at one time, in bytes.
    pub body_memory: u64,
    /// Waiting duplicates at one time.
    pub waiters: usize,
    /// Waiting duplicates of one key.
    pub waiters_per_key: usize,
    /// `store.timeout`: a claim gives up after four of them.
    pub store_timeout: Duration,
}

/// Where a listener is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// `HOST:PORT`; port 0 is a free one.
    Tcp(String),
    /// `unix:PATH`
    Unix(PathBuf),
}
