//! Signals, as what they ask for.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal, or the admin, asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// SIGTERM, SIGINT
    Stop,
    /// `POST /drain`; never a signal.
    Drain,
    /// SIGHUP
    Reload,
}

/// The signals of this process, from the moment it was made.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Takes the signals over: from now on none of them ends the process by itself.
    pub(super) fn take() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next one. Cancel-safe.
    pub(super) async fn next(&mut self) -> Ask {
        // `recv` returns `None` only when the runtime is gone, and then nobody polls this.
        tokio::select! {
            _ = self.terminate.recv() => Ask::Stop,
            _ = self.interrupt.recv() => Ask::Stop,
            _ = self.hangup.recv() => Ask::Reload,
        }
    }
}
