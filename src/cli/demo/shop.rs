//! The shop: a client with little patience that retries with the same key, as clients should.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};

use super::ShowError;

/// How long the shop waits where an answer must come.
const PATIENT: Duration = Duration::from_secs(10);

/// One payment, as often as it is sent.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// Where it is sent: API or gate.
    pub(super) address: String,
    /// Its `Idempotency-Key`, if the shop sends one.
    pub(super) key: Option<&'static str>,
    /// In cents.
    pub(super) amount: u64,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// `Idempotency-Status`; empty where there is none.
    pub(super) said: String,
    /// What the problem is, where the answer is the gate's own: `in-progress`, `key-reused`, …
    pub(super) slug: String,
    /// Whether it is marked as a replay.
    pub(super) replayed: bool,
    /// Seconds to wait before the next try.
    pub(super) retry_after: Option<u64>,
    pub(super) body: Bytes,
}

impl Order {
    /// Sends it on a connection of its own. `None`: the connection ended without an answer, or none came in time.
    pub(super) async fn send(&self) -> Result<Option<Answer>, ShowError> {
        timeout(PATIENT, self.exchange()).await.unwrap_or(Ok(None))
    }

    /// Sends it, and gives up at `enough`: `None`, and the connection is closed, as a client does whose patience ends.
    pub(super) async fn send_until(&self, enough: impl Future<Output = ()>) -> Result<Option<Answer>, ShowError> {
        tokio::select! {
            answer = self.exchange() => answer,
            () = enough => Ok(None),
        }
    }

    async fn exchange(&self) -> Result<Option<Answer>, ShowError> {
        let stream = TcpStream::connect(&self.address).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let mut request = Request::post("/payments")
            .header(header::HOST, &self.address)
            .header(header::AUTHORIZATION, "Bearer the-shop")
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(key) = self.key {
            request = request.header("Idempotency-Key", key);
        }
        let request = request.body(Full::new(Bytes::from(format!("{{\"amount\": {}}}", self.amount))))?;
        let exchange = async {
            let Ok(response) = sender.send_request(request).await else { return Ok(None) };
            let (head, body) = response.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok(Some(Answer::new(head.status, &head.headers, body)))
        };
        tokio::pin!(exchange, connection);
        tokio::select! {
            biased;
            answer = &mut exchange => answer,
            _ = &mut connection => exchange.await,
        }
    }
}

impl Answer {
    fn new(status: StatusCode, headers: &HeaderMap, body: Bytes) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Self {
            status,
            said: text("idempotency-status").to_owned(),
            slug: slug(&body),
            replayed: text("idempotent-replayed") == "true",
            retry_after: text("retry-after").parse().ok(),
            body,
        }
    }

    /// What it is, in a word or two: `201 replayed`, `422 key-reused`.
    pub(super) fn brief(&self) -> String {
        let word = if self.slug.is_empty() { &self.said } else { &self.slug };
        format!("{} {word}", self.status.as_u16()).trim_end().to_owned()
    }
}

/// The last part of a problem's `type`.
fn slug(body: &Bytes) -> String {
    let problem: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let kind = problem["type"].as_str().unwrap_or_default();
    kind.rsplit([':', '/']).next().unwrap_or_default().to_owned()
}
