//! File descriptors: as many as the system allows, and a word where that is not enough for the configuration.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Settings;

/// What is needed beside connections: the store, the log, the runtime, the admin listener with its own cap.
const RESERVE: u64 = 128;

/// Raises the soft limit to the hard one, and warns if the configured connections could still use it up: then the
/// health checks would not be answered either.
pub(super) fn provide(settings: &Settings) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let connections = [settings.proxy.max_connections, settings.upstream.max_connections, POOLED];
    let needed =
        connections.iter().fold(RESERVE, |sum, &count| sum.saturating_add(u64::try_from(count).unwrap_or(u64::MAX)));
    if let Some(allowed) = allowed
        && allowed < needed
    {
        tracing::warn!(
            allowed,
            needed,
            "there are fewer file descriptors than connections may be open: raise the limit (ulimit -n, LimitNOFILE) or \
             lower server.max_connections"
        );
    }
}

/// Idle connections to the upstream, at most; and about as many for what is not protected.
const POOLED: usize = 512;
