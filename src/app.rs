//! Wiring: open the store, bind, serve, reload, drain. The only room that knows all the others.
//!
//! Not here: what a request meets (`proxy`), where settings are written (`config`), exit codes (`cli`).

mod descriptors;
mod reload;
mod signals;
pub mod source;
mod start;

use std::{
    fmt,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::Notify, task::JoinHandle};

use self::signals::{Ask, Signals};
pub use self::{source::Source, start::Failure};
pub use crate::telemetry::log;
use crate::{
    admin::Admin,
    config::{Loaded, Problem, Settings, Severity},
    proxy::Proxy,
    shutdown::{Phase, Shutdown},
    store::Store,
    telemetry::log::Log,
    upstream::Upstream,
};

/// How long what is over may take to be written down, beyond `server.shutdown_grace`. The process is promised to end
/// within a second of that; the admin, the store's file and the log take their share of it after this one.
const FAREWELL: Duration = Duration::from_millis(450);

/// A gate that runs. Dropping it does not stop it; [`App::stop`] does.
pub struct App {
    settings: Settings,
    store: Arc<dyn Store>,
    upstream: Arc<Upstream>,
    proxy: Arc<Proxy>,
    admin: Arc<Admin>,
    shutdown: Shutdown,
    /// Somebody asked for a drain at the admin listener.
    drain: Arc<Notify>,
    /// The data plane is gone: the admin, which goes last, may go too.
    gone: Arc<Notify>,
    serving: JoinHandle<()>,
    admin_serving: Option<JoinHandle<()>>,
    address: String,
    admin_address: Option<SocketAddr>,
}

impl App {
    /// Opens the store, binds the listeners and serves.
    ///
    /// # Errors
    /// What prevents it; then nothing is left behind.
    pub async fn start(settings: Settings) -> Result<Self, Failure> {
        start::start(settings).await
    }

    /// Where clients connect, as bound: `127.0.0.1:8080` or `unix:/path`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where the admin listener is, as bound.
    #[must_use]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// Stops without delay: what runs gets `grace` to finish and is written down as unknown after it.
    ///
    /// # Errors
    /// The data plane failed.
    pub async fn stop(mut self, grace: Duration) -> Result<(), Failure> {
        self.leave(Duration::ZERO, grace);
        let result = self.ended().await;
        self.farewell().await;
        result
    }

    /// Begins to leave. Returns at once.
    fn leave(&self, delay: Duration, grace: Duration) {
        let shutdown = self.shutdown.clone();
        tokio::spawn(async move { shutdown.run(delay, grace).await });
    }

    /// Waits for the data plane to end, however long that takes; but not longer than [`FAREWELL`] once the grace
    /// is over. Cancel-safe; not to be called again after it returned.
    async fn ended(&mut self) -> Result<(), Failure> {
        let shutdown = self.shutdown.clone();
        let overdue = async {
            shutdown.reached(Phase::Over).await;
            tokio::time::sleep(FAREWELL).await;
        };
        tokio::select! {
            biased;
            ended = &mut self.serving => match ended {
                Ok(()) if self.shutdown.phase() == Phase::Running => {
                    Err(Failure::Internal("the data plane ended by itself".to_owned()))
                }
                ended => ended.map_err(Failure::task),
            },
            () = overdue => {
                // It says itself what it could not write down; this is for a data plane that does not even end.
                tracing::error!("the data plane does not end: what it has not written down lapses to unknown");
                Ok(())
            }
        }
    }

    /// Ends the admin, once the data plane is gone.
    async fn farewell(mut self) {
        self.shutdown.advance(Phase::Over);
        self.gone.notify_one();
        if let Some(admin) = self.admin_serving.take() {
            let _ = admin.await;
        }
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("address", &self.address)
            .field("admin", &self.admin_address)
            .finish_non_exhaustive()
    }
}

/// Runs a gate until a signal, or the admin, ends it.
///
/// # Errors
/// Why it cannot run, or ceased to.
pub async fn run(source: Source, loaded: Loaded, log: Log) -> Result<(), Failure> {
    let mut signals = Signals::take().map_err(|error| Failure::Internal(format!("signals: {error}")))?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "oncegate starts");
    log_problems(&loaded.warnings);
    if matches!(source, Source::Quick(_)) {
        tracing::info!(
            "without a configuration file anonymous = \"share\": all requests without a credential (and without a cookie) \
             are one caller"
        );
    }
    descriptors::provide(&loaded.settings);
    let mut app = tokio::select! {
        started = App::start(loaded.settings) => started?,
        // Nothing is served yet: there is nothing to drain.
        () = stop_asked(&mut signals) => return Ok(()),
    };
    app.announce();

    let drain = Arc::clone(&app.drain);
    let mut leaving = None;
    let mut signalled = false;
    let result = loop {
        let ask = tokio::select! {
            ask = signals.next() => ask,
            () = drain.notified() => Ask::Drain,
            result = app.ended() => break result,
        };
        match ask {
            Ask::Reload if leaving.is_some() => tracing::warn!("not reloaded: the gate is draining"),
            Ask::Reload => app.reload(&source, &log).await,
            // Only a second *signal* hurries: an orchestrator asks the admin first and signals later.
            Ask::Stop if signalled => {
                tracing::warn!("second signal: what still runs is written down as unknown");
                app.shutdown.advance(Phase::Over);
            }
            Ask::Stop | Ask::Drain => {
                signalled |= ask == Ask::Stop;
                if leaving.is_none() {
                    leaving = Some(Instant::now());
                    let (delay, grace) = (app.settings.proxy.shutdown_delay, app.settings.proxy.shutdown_grace);
                    tracing::info!(delay = delay.as_secs_f64(), grace = grace.as_secs_f64(), "draining");
                    app.leave(delay, grace);
                }
            }
        }
    };
    app.farewell().await;
    tracing::info!(seconds = leaving.map(|since| since.elapsed().as_secs_f64()), "oncegate ended");
    result
}

async fn stop_asked(signals: &mut Signals) {
    while signals.next().await == Ask::Reload {}
}

/// Logs what there is to say about a configuration.
fn log_problems(problems: &[Problem]) {
    for problem in problems {
        let (file, line, column) = (&problem.file, problem.line, problem.column);
        let hint = problem.hint.as_deref();
        match problem.severity {
            Severity::Note => tracing::info!(file, line, column, hint, "{}", problem.message),
            Severity::Warning => tracing::warn!(file, line, column, hint, "{}", problem.message),
            Severity::Error => tracing::error!(file, line, column, hint, "{}", problem.message),
        }
    }
}

#[cfg(test)]
mod tests;
