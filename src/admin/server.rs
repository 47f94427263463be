//! The admin listener: small limits, one request a connection, so that no idle client can keep a probe out.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use http_body_util::{BodyExt, Limited};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::task::TaskTracker;

use super::Admin;

/// Connections at one time; more wait to be accepted.
const CONNECTIONS: usize = 64;
/// For a request head.
const HEAD: Duration = Duration::from_secs(5);
/// For a connection, from accept to close.
const CONNECTION: Duration = Duration::from_secs(10);
/// For the answers that are on their way when the listener stops.
const FAREWELL: Duration = Duration::from_millis(150);
/// Request line and header fields; hyper's smallest.
const HEAD_BYTES: usize = 16 * 1024;
/// What a request may carry; nothing reads it yet.
const BODY_BYTES: usize = 64 * 1024;

/// See [`Admin::serve`].
pub(super) async fn serve(admin: Arc<Admin>, listener: TcpListener, stop: impl Future<Output = ()>) {
    let tracker = TaskTracker::new();
    tokio::select! {
        () = accept(admin, listener, &tracker) => {}
        () = stop => {}
    }
    tracker.close();
    let _ = timeout(FAREWELL, tracker.wait()).await;
}

async fn accept(admin: Arc<Admin>, listener: TcpListener, tracker: &TaskTracker) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let admin = Arc::clone(&admin);
                tracker.spawn(async move {
                    let _ = timeout(CONNECTION, connection(admin, stream, peer)).await;
                    drop(place);
                });
            }
            Err(error) => {
                // Out of descriptors, mostly: it passes, and asking again at once would only burn a core.
                tracing::warn!(error = &error as &dyn std::error::Error, "the admin listener cannot accept");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection(admin: Arc<Admin>, stream: TcpStream, peer: SocketAddr) {
    let service = service_fn(move |request: Request<Incoming>| {
        let admin = Arc::clone(&admin);
        async move {
            let (head, body) = request.into_parts();
            // Read, so that closing the connection does not reset it under the answer.
            let _ = Limited::new(body, BODY_BYTES).collect().await;
            let answer = admin.answer(peer, &head.method, head.uri.path(), &head.headers).await;
            Ok::<_, Infallible>(answer.into_response())
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%peer, error = &error as &dyn std::error::Error, "an admin connection failed");
    }
}
