//! The control plane, on its own listener: health and drain.
//!
//! Shares no limit with the data plane, so that a gate under full load can still be asked and told. Open to
//! everyone: `/livez`, `/readyz`, `/metrics`. Everything else needs the token, and with none configured there
//! is nothing else.

mod answer;
mod health;
mod server;
mod token;

use std::{fmt, net::SocketAddr, sync::Arc};

use arc_swap::ArcSwapOption;
use http::{HeaderMap, Method, StatusCode};
use tokio::{net::TcpListener, sync::Notify};

pub use self::answer::Answer;
use self::{health::Health, token::Token};
use crate::{
    shutdown::{Phase, Shutdown},
    store::Store,
};

/// The admin listener (`[admin]`).
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where it is; `None` is `"off"`.
    pub listen: Option<String>,
    /// The bearer token; `None` where it is empty.
    pub token: Option<String>,
}

impl fmt::Debug for Settings {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "***");
        f.debug_struct("Settings").field("listen", &self.listen).field("token", &token).finish()
    }
}

/// What the control plane knows and can do.
#[derive(Debug)]
pub struct Admin {
    token: ArcSwapOption<Token>,
    health: Health,
    shutdown: Shutdown,
    drain: Arc<Notify>,
}

impl Admin {
    /// A control plane over `store`. `drain` is notified when someone asks for it (`POST /drain`).
    pub fn new(settings: &Settings, store: Arc<dyn Store>, shutdown: Shutdown, drain: Arc<Notify>) -> Arc<Self> {
        let health = Health::new(store, shutdown.clone());
        let admin = Self { token: ArcSwapOption::empty(), health, shutdown, drain };
        admin.reload(settings);
        Arc::new(admin)
    }

    /// Takes over a new token. The listener stays where it is.
    pub fn reload(&self, settings: &Settings) {
        self.token.store(settings.token.as_deref().map(|token| Arc::new(Token::new(token))));
    }

    /// Serves until `stop` completes, and then until the answers that are on their way are written.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, stop: impl Future<Output = ()>) {
        server::serve(self, listener, stop).await;
    }

    /// Answers one request.
    pub async fn answer(&self, peer: SocketAddr, method: &Method, path: &str, headers: &HeaderMap) -> Answer {
        match path {
            "/livez" => reading(method, || Answer::text(StatusCode::OK, "ok\n")),
            "/readyz" => {
                let readiness = self.health.readiness().await;
                reading(method, || readiness.answer())
            }
            // Open, and not there yet: the same for everyone.
            "/metrics" => not_found(),
            _ => match self.authorize(headers) {
                Ok(()) => self.act(peer, method, path),
                Err(answer) => answer,
            },
        }
    }

    fn act(&self, peer: SocketAddr, method: &Method, path: &str) -> Answer {
        match path {
            "/drain" if method == Method::POST => {
                tracing::info!(%peer, "drain requested");
                // The phase moves on here, so that whoever reads the 202 finds the gate not ready.
                self.shutdown.advance(Phase::Leaving);
                self.drain.notify_one();
                Answer::json(StatusCode::ACCEPTED, &serde_json::json!({ "draining": true }))
            }
            "/drain" => not_allowed("POST"),
            _ => not_found(),
        }
    }

    fn authorize(&self, headers: &HeaderMap) -> Result<(), Answer> {
        let token = self.token.load();
        let Some(token) = token.as_deref() else {
            return Err(Answer::problem(
                StatusCode::FORBIDDEN,
                "No admin token is configured (`admin.token`): only /livez and /readyz are served.",
            ));
        };
        if token.is_presented_in(headers) {
            return Ok(());
        }
        let detail = "This needs `Authorization: Bearer TOKEN` with the token of `admin.token`.";
        Err(Answer::problem(StatusCode::UNAUTHORIZED, detail).with("WWW-Authenticate", "Bearer realm=\"oncegate\""))
    }
}

fn reading(method: &Method, answer: impl FnOnce() -> Answer) -> Answer {
    if matches!(*method, Method::GET | Method::HEAD) { answer() } else { not_allowed("GET, HEAD") }
}

fn not_allowed(allow: &'static str) -> Answer {
    let detail = "This path does not know the method; see `Allow`.";
    Answer::problem(StatusCode::METHOD_NOT_ALLOWED, detail).with("Allow", allow)
}

fn not_found() -> Answer {
    Answer::problem(StatusCode::NOT_FOUND, "There is nothing at this path.")
}

#[cfg(test)]
mod tests;
