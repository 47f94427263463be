//! The admin listener: small limits, one request a connection, and when it is full, whoever has been sending its
//! request for the longest time makes way, so that no idle client can keep a probe out.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http_body_util::{BodyExt, Limited};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, Semaphore},
    time::{sleep, timeout},
};
use tokio_util::task::TaskTracker;

use super::Admin;

/// Connections at one time; for more, unfinished requests make way, oldest first.
const CONNECTIONS: usize = 64;
/// For a request head.
const HEAD: Duration = Duration::from_secs(2);
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
    let arrivals = Arc::new(Arrivals::default());
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                if places.available_permits() == 0 {
                    arrivals.close_oldest();
                }
                let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
                let admin = Arc::clone(&admin);
                let arriving = Arrivals::begin(&arrivals);
                tracker.spawn(async move {
                    let closed = Arc::clone(&arriving.closed);
                    tokio::select! {
                        _ = timeout(CONNECTION, connection(admin, stream, peer, &arriving)) => {}
                        () = closed.notified() => tracing::debug!(%peer, "an unfinished admin request made way"),
                    }
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

/// The connections whose requests have not arrived in full.
#[derive(Debug, Default)]
struct Arrivals(Mutex<Queue>);

/// Numbers grow, so that the first is the oldest.
#[derive(Debug, Default)]
struct Queue {
    next: u64,
    waiting: BTreeMap<u64, Arc<Notify>>,
}

impl Arrivals {
    fn begin(arrivals: &Arc<Self>) -> Arriving {
        let closed = Arc::new(Notify::new());
        let mut queue = arrivals.queue();
        let number = queue.next;
        queue.next += 1;
        queue.waiting.insert(number, Arc::clone(&closed));
        drop(queue);
        Arriving { arrivals: Arc::clone(arrivals), number, closed }
    }

    /// Ends the connection that has been at it for the longest time. With none, all places answer, and soon end.
    fn close_oldest(&self) {
        if let Some((_, closed)) = self.queue().waiting.pop_first() {
            closed.notify_one();
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing under the lock leaves a queue half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection whose request may not have arrived in full.
struct Arriving {
    arrivals: Arc<Arrivals>,
    number: u64,
    closed: Arc<Notify>,
}

impl Arriving {
    /// The request is here: from now on its connection stays until it is answered.
    fn finish(&self) {
        self.arrivals.queue().waiting.remove(&self.number);
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.finish();
    }
}

async fn connection(admin: Arc<Admin>, stream: TcpStream, peer: SocketAddr, arriving: &Arriving) {
    let service = service_fn(move |request: Request<Incoming>| {
        let admin = Arc::clone(&admin);
        async move {
            let (head, body) = request.into_parts();
            // Read, so that closing the connection does not reset it under the answer.
            let _ = Limited::new(body, BODY_BYTES).collect().await;
            arriving.finish();
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
