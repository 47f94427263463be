//! Logs: one line per event on standard error, as text or JSON, level and format changeable while running.
//!
//! Lines are written by a thread of their own: a log collector that stops reading must never stop the tasks
//! that renew leases. What does not fit in the queue is dropped and counted, and the count is logged.
//!
//! Only oncegate's own events follow the configured level. Libraries are heard from `warn` on: below it they
//! print header fields, and a credential is never logged.

mod line;
mod queue;

use std::{
    io::{IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tracing::{Event, Level, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{
    Registry,
    filter::Targets,
    layer::{Context, Layer, SubscriberExt},
    reload,
    util::SubscriberInitExt,
};

use self::{line::Style, queue::Queue};

/// How the gate logs (`[log]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The least severe level that is written.
    pub level: Level,
    /// How it is written.
    pub format: Format,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// One line of text.
    Text,
    /// One JSON object a line.
    Json,
}

/// The running log: for changing it and for writing out the rest at the end. Clones share it.
#[derive(Clone, Debug)]
pub struct Log {
    filter: reload::Handle<Targets, Registry>,
    json: Arc<AtomicBool>,
    queue: Queue,
}

/// Another log is installed in this process already.
#[derive(Debug, thiserror::Error)]
#[error("the log is set up already")]
pub struct AlreadyInstalled;

/// Starts logging to standard error, for the whole process, panics included.
///
/// # Errors
/// Only the first call of a process succeeds.
pub fn install(settings: Settings) -> Result<Log, AlreadyInstalled> {
    let queue = Queue::start(|bytes| {
        // A broken standard error is no reason to stop serving; there is nobody to tell.
        let _ = std::io::stderr().write_all(bytes);
    });
    let (filter, handle) = reload::Layer::new(targets(settings.level));
    let json = Arc::new(AtomicBool::new(is_json(settings.format)));
    let lines = Lines { json: Arc::clone(&json), colour: wants_colour(), queue: queue.clone() };
    tracing_subscriber::registry().with(filter).with(lines).try_init().map_err(|_| AlreadyInstalled)?;
    log_panics();
    Ok(Log { filter: handle, json, queue })
}

impl Log {
    /// Changes level and format from the next event on.
    pub fn reload(&self, settings: Settings) {
        self.json.store(is_json(settings.format), Ordering::Relaxed);
        // Fails only where the subscriber is gone, and then nobody logs.
        let _ = self.filter.reload(targets(settings.level));
    }

    /// Waits until all lines are written, for at most a quarter of a second. Blocks: for the end of the process.
    pub fn flush(&self) {
        self.queue.flush();
    }
}

fn targets(level: Level) -> Targets {
    let own = LevelFilter::from_level(level);
    Targets::new().with_default(own.min(LevelFilter::WARN)).with_target(env!("CARGO_CRATE_NAME"), own)
}

fn is_json(format: Format) -> bool {
    match format {
        Format::Auto => !std::io::stderr().is_terminal(),
        Format::Text => false,
        Format::Json => true,
    }
}

fn wants_colour() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Logs where a task panicked. The text only if it is a literal: a formatted one may hold a client's data.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload().downcast_ref::<&'static str>().copied();
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let backtrace = std::backtrace::Backtrace::capture();
        let asked_for = backtrace.status() == std::backtrace::BacktraceStatus::Captured;
        let backtrace = asked_for.then(|| tracing::field::display(&backtrace));
        tracing::error!(place, reason = message, backtrace, "a task panicked");
    }));
}

/// Turns events into lines.
struct Lines {
    json: Arc<AtomicBool>,
    colour: bool,
    queue: Queue,
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let style = match (self.json.load(Ordering::Relaxed), self.colour) {
            (true, _) => Style::Json,
            (false, colour) => Style::Text { colour },
        };
        self.queue.write(line::render(event, style, super::timestamp::now()));
    }
}

#[cfg(test)]
mod tests;
