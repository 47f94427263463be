//! Reloading: everything is read and resolved first, then swapped at once. A broken file changes nothing.

use std::{sync::Arc, time::Duration};

use super::{App, Source};
use crate::{
    config::{Loaded, Problems, Settings},
    proxy::Live,
    telemetry::log::Log,
    upstream::Upstream,
};

impl App {
    /// Reads `source` again and takes over what can be changed while running. What happened is logged.
    pub(super) async fn reload(&mut self, source: &Source, log: &Log) {
        let Source::File(path) = source else {
            tracing::warn!("nothing to reload: the gate runs without a configuration file");
            return;
        };
        let path = path.display().to_string();
        let loaded = match read(source.clone()).await {
            Ok(loaded) => loaded,
            Err(why) => {
                tracing::error!(file = path, "not reloaded: {why}, nothing has changed");
                return;
            }
        };
        match loaded {
            Ok(loaded) => {
                super::log_problems(&loaded.warnings);
                let kept = self.take_over(loaded.settings);
                log.reload(self.settings.log);
                if !kept.is_empty() {
                    let keys = kept.join(", ");
                    tracing::warn!(keys, "changed, but only a restart changes them: the old values stay");
                }
                tracing::info!(file = path, routes = self.settings.routes.routes.len(), "reloaded");
            }
            Err(problems) => {
                super::log_problems(&problems.0);
                tracing::error!(file = path, "not reloaded: the file is not valid, nothing has changed");
            }
        }
    }

    /// Swaps in `new`, but for what needs a restart; returns the keys of that.
    pub(super) fn take_over(&mut self, mut new: Settings) -> Vec<&'static str> {
        let kept = self.settings.needs_restart(&new);
        // All of [store] stays, and with it what the data plane knows of it: a new namespace over the old store
        // would be new names for old operations.
        new.store = self.settings.store.clone();
        new.proxy.namespace.clone_from(&self.settings.proxy.namespace);
        new.proxy.store_timeout = self.settings.proxy.store_timeout;
        new.proxy.listen = self.settings.proxy.listen.clone();
        new.admin.listen = self.settings.admin.listen.clone();

        // A pool is kept for as long as its settings are: its connections are warm.
        if new.upstream != self.settings.upstream {
            self.upstream = Arc::new(Upstream::new(new.upstream.clone()));
        }
        self.proxy.reload(Live {
            settings: new.proxy.clone(),
            routes: new.routes.clone(),
            upstream: Arc::clone(&self.upstream),
        });
        self.admin.reload(&new.admin);
        self.settings = new;
        kept
    }
}

/// How long the files may take: a share that hangs must not keep the signals from being heard.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reads files, so off the runtime's threads.
async fn read(source: Source) -> Result<Result<Loaded, Problems>, &'static str> {
    let reading = tokio::task::spawn_blocking(move || source.load());
    match tokio::time::timeout(PATIENCE, reading).await {
        Ok(Ok(loaded)) => Ok(loaded),
        Ok(Err(_)) => Err("reading it failed"),
        Err(_) => Err("reading it takes too long"),
    }
}
