//! The data plane: one request, from socket to answer.
//!
//! In order of travel: `listener` accepts, `attend` watches a connection's clock, `intake` judges the message as
//! HTTP, `service` tells the story of a request. An unprotected one goes through `passthrough`; a protected one is
//! collected (`body`), bids for its cell (`gate`, `bid`, `waiters`) and, if it wins, flies (`flight`, `exchange`,
//! `lease`, `ledger`). `answer` and `problem` are what comes back.

use std::{path::PathBuf, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{routes::RouteTable, shutdown::Shutdown, store::Store, upstream::Upstream};

mod access;
mod answer;
mod attend;
mod bid;
mod body;
mod client;
mod exchange;
mod flight;
mod gate;
mod intake;
mod lease;
mod ledger;
pub mod listener;
mod passthrough;
mod problem;
mod service;
mod waiters;

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

/// What a reload replaces, as one: a request sees the old or the new, never a mixture.
#[derive(Debug)]
pub struct Live {
    /// `[server]` and `[limits]`
    pub settings: Settings,
    /// `[[route]]` and `[defaults]`
    pub routes: RouteTable,
    /// `[upstream]`, with its connections.
    pub upstream: Arc<Upstream>,
}

/// One gate: everything a request needs, shared by all connections.
pub struct Proxy {
    live: ArcSwap<Live>,
    store: Arc<dyn Store>,
    shutdown: Shutdown,
    waiters: waiters::Waiters,
    memory: body::Memory,
    /// Every exchange with a client that still runs: a drain waits for them, and cuts them off at its end.
    running: TaskTracker,
    /// Everything that has an outcome to write down: a drain waits for them, too, and at its end for their last words.
    owed: TaskTracker,
    /// Every connection: a drain lets the last answers leave before it ends.
    connections: TaskTracker,
    /// Set when nothing runs any more: connections end once their last answer has left.
    quiet: CancellationToken,
    /// How this process names itself in `Via`: drawn at random, so that a loop is told from a neighbour.
    pseudonym: String,
}

impl Proxy {
    /// A gate over `store`, not yet serving.
    #[must_use]
    pub fn new(live: Live, store: Arc<dyn Store>, shutdown: Shutdown) -> Arc<Self> {
        let memory = body::Memory::new(live.settings.body_memory);
        Arc::new(Self {
            live: ArcSwap::from_pointee(live),
            store,
            shutdown,
            waiters: waiters::Waiters::default(),
            memory,
            running: TaskTracker::new(),
            owed: TaskTracker::new(),
            connections: TaskTracker::new(),
            quiet: CancellationToken::new(),
            pseudonym: bid::pseudonym(),
        })
    }

    /// Replaces routes, settings and upstream for all requests that begin from now on. What runs is not touched.
    pub fn reload(&self, live: Live) {
        self.memory.resize(live.settings.body_memory);
        self.live.store(Arc::new(live));
    }

    /// Serves `listener` until the gate is told to stop and nothing runs any more, or its grace is over and what
    /// still ran is written down.
    pub async fn serve(self: Arc<Self>, listener: listener::Bound) {
        listener::serve(self, listener).await;
    }
}
