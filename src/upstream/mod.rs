//! Where requests go: one HTTP/1.1 upstream, and proof of what it saw.

use std::{path::PathBuf, time::Duration};

/// The upstream and how it is used (`[upstream]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where it is.
    pub target: Target,
    /// For a connection to be made, name resolution included; also how long an exchange queues for a slot.
    pub connect_timeout: Duration,
    /// Until the response head; and for a body that stalls while it is held back.
    pub response_timeout: Duration,
    /// How long a protected exchange goes on after the client has been told that nobody knows yet.
    pub max_execution: Duration,
    /// A pooled connection idle longer is not used for a protected request.
    pub idle_reuse: Duration,
    /// Protected exchanges at one time.
    pub max_connections: usize,
    /// Which `Host` the upstream sees.
    pub host: HostPolicy,
    /// Which forwarding fields are added.
    pub forwarded: ForwardedStyle,
}

/// Where the upstream is (`upstream.url`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `http://host:port`; the name is resolved at each connection.
    Tcp {
        /// Name or address, without brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// `unix:PATH`
    Unix(PathBuf),
}

/// Which `Host` the upstream sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPolicy {
    /// The client's.
    Preserve,
    /// The upstream's own authority.
    Upstream,
}

/// Which forwarding fields are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedStyle {
    /// `X-Forwarded-For`, `-Host`, `-Proto`.
    XForwarded,
    /// `Forwarded` (RFC 7239).
    Forwarded,
    /// Both.
    Both,
    /// Neither; what an untrusted peer sent is still removed.
    None,
}
