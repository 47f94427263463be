//! From settings to a gate that serves: store, listeners, tasks, in this order. What fails leaves nothing behind.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    net::TcpListener,
    sync::Notify,
    task::{JoinError, JoinHandle},
};

use super::App;
use crate::{
    admin::Admin,
    config::Settings,
    proxy::{Listen, Live, Proxy, listener::Bound},
    shutdown::{Phase, Shutdown},
    store::{self, Location, OpenError, RedisEndpoint, Store},
    upstream::Upstream,
};

/// Why a gate cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The store was reached and must not be used.
    #[error("{0}")]
    StoreUnfit(String),
    /// The store's file is in use or cannot be opened.
    #[error("{0}")]
    StoreFile(String),
    /// A listener cannot be bound.
    #[error("cannot listen on {address} ({key}): {source}. {}", remedy(source))]
    Bind {
        /// Which one, as the configuration calls it.
        key: &'static str,
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The process cannot do what it must, or a part of it failed.
    #[error("{0}")]
    Internal(String),
}

impl Failure {
    pub(super) fn task(error: JoinError) -> Self {
        Self::Internal(format!("the data plane failed: {error}"))
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::InUse(_) | OpenError::File { .. } => Self::StoreFile(error.to_string()),
            OpenError::Unfit(_) => Self::StoreUnfit(error.to_string()),
        }
    }
}

fn remedy(error: &io::Error) -> &'static str {
    let kind = error.kind();
    if kind == io::ErrorKind::AddrInUse {
        "Another process is there: stop it, or choose another address"
    } else if kind == io::ErrorKind::PermissionDenied {
        "The user may not: choose a port above 1023 or a folder that can be written, or grant CAP_NET_BIND_SERVICE"
    } else if kind == io::ErrorKind::AddrNotAvailable {
        "This machine has no such address: 0.0.0.0 or [::] means all it has"
    } else {
        "The form is HOST:PORT, or unix:PATH where a socket file is possible"
    }
}

/// See [`App::start`].
pub(super) async fn start(settings: Settings) -> Result<App, Failure> {
    let store = store::open(&settings.store).await?;
    let data = Bound::bind(&settings.proxy.listen).await.map_err(|source| Failure::Bind {
        key: "server.listen",
        address: written(&settings.proxy.listen),
        source,
    })?;
    let control = match &settings.admin.listen {
        Some(address) => Some(bind_admin(address).await?),
        None => None,
    };
    let admin_address = control.as_ref().and_then(|listener| listener.local_addr().ok());

    let shutdown = Shutdown::new();
    let drain = Arc::new(Notify::new());
    let gone = Arc::new(Notify::new());
    let admin = Admin::new(&settings.admin, Arc::clone(&store), shutdown.clone(), Arc::clone(&drain));
    let upstream = Arc::new(Upstream::new(settings.upstream.clone()));
    let live =
        Live { settings: settings.proxy.clone(), routes: settings.routes.clone(), upstream: Arc::clone(&upstream) };
    let proxy = Proxy::new(live, Arc::clone(&store), shutdown.clone());

    let address = data.local().to_owned();
    let serving = tokio::spawn(Arc::clone(&proxy).serve(data));
    let admin_serving = control.map(|listener| {
        let gone = Arc::clone(&gone);
        tokio::spawn(Arc::clone(&admin).serve(listener, async move { gone.notified().await }))
    });
    Ok(App {
        settings,
        store,
        upstream,
        proxy,
        admin,
        shutdown,
        drain,
        gone,
        serving,
        admin_serving,
        address,
        admin_address,
    })
}

async fn bind_admin(address: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|source| Failure::Bind {
        key: "admin.listen",
        address: address.to_owned(),
        source,
    })
}

fn written(listen: &Listen) -> String {
    match listen {
        Listen::Tcp(address) => address.clone(),
        Listen::Unix(path) => format!("unix:{}", path.display()),
    }
}

impl App {
    /// Says in the log what runs where; and, as soon as the store is fit, that the gate is ready.
    pub(super) fn announce(&self) {
        let (kind, place) = describe(&self.settings.store.location);
        tracing::info!(kind, place, "store");
        tracing::info!(address = self.address, "listening");
        match self.admin_address {
            Some(address) => tracing::info!(%address, "admin listening"),
            None => tracing::info!("no admin listener: health and drain cannot be asked for"),
        }
        if self.settings.admin.listen.is_some() && self.settings.admin.token.is_none() {
            tracing::info!("admin.token is empty: only /livez and /readyz are served there");
        }
        let routes = self.settings.routes.routes.len();
        drop(announce_ready(Arc::clone(&self.store), self.shutdown.clone(), routes));
    }
}

/// A store that is down at start is no reason not to start: requests get 503 until it is there.
fn announce_ready(store: Arc<dyn Store>, shutdown: Shutdown, routes: usize) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut said = false;
        while shutdown.phase() == Phase::Running {
            match store.ping().await {
                Ok(()) => {
                    tracing::info!(routes, "ready");
                    return;
                }
                Err(error) if !said => {
                    said = true;
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "not ready: keyed requests are answered 503 until the store is there");
                }
                Err(_) => {}
            }
            let _ = tokio::time::timeout(Duration::from_millis(500), shutdown.reached(Phase::Leaving)).await;
        }
    })
}

/// Kind and place of a store, without credentials.
fn describe(location: &Location) -> (&'static str, String) {
    match location {
        Location::Memory => ("memory", String::new()),
        Location::File(path) => ("file", path.display().to_string()),
        Location::Redis(redis) => {
            let place = match &redis.endpoint {
                RedisEndpoint::Tcp(host, port) => format!("{host}:{port}/{}", redis.database),
                RedisEndpoint::Unix(path) => format!("unix:{}/{}", path.display(), redis.database),
            };
            ("redis", place)
        }
    }
}
