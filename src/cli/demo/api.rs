//! A toy payment API, as many a legacy API is: it books what it is told, every time it is told, and knows no keys.

use std::{io, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// What the API does after it has booked a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// It answers.
    Prompt,
    /// It keeps the answer to itself until it is prompt again: longer than any client waits.
    Stall,
    /// It dies: the connection is gone, and the answer with it.
    Die,
}

/// The running API; stops when dropped.
#[derive(Debug)]
pub(super) struct Api {
    address: SocketAddr,
    bank: Arc<Bank>,
    listening: JoinHandle<()>,
}

#[derive(Debug)]
struct Bank {
    /// The amount of every payment ever booked.
    ledger: watch::Sender<Vec<u64>>,
    manner: watch::Sender<Manner>,
}

impl Api {
    /// Starts it on a free port.
    pub(super) async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let bank = Arc::new(Bank { ledger: watch::Sender::default(), manner: watch::Sender::new(Manner::Prompt) });
        let listening = tokio::spawn(listen(listener, Arc::clone(&bank)));
        Ok(Self { address, bank, listening })
    }

    /// Where it is.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many payments it has booked so far: what the checks are made against.
    pub(super) fn booked(&self) -> usize {
        self.bank.ledger.borrow().len()
    }

    /// Waits until it has booked as many as that.
    pub(super) async fn has_booked(&self, payments: usize) {
        // The sender lives as long as the bank: waiting cannot fail.
        let _ = self.bank.ledger.subscribe().wait_for(|ledger| ledger.len() >= payments).await;
    }

    /// Changes what happens after a payment is booked. Who is stalled goes on as soon as it is no longer `Stall`.
    pub(super) fn behave(&self, manner: Manner) {
        self.bank.manner.send_replace(manner);
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(listener: TcpListener, bank: Arc<Bank>) {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connection(stream, Arc::clone(&bank)));
        } else {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

async fn connection(stream: TcpStream, bank: Arc<Bank>) {
    let service = service_fn(move |request| answer(request, Arc::clone(&bank)));
    // Ends with an error where the API dies or the client leaves: that is the play.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// The API dies. hyper closes the connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("killed")]
struct Killed;

async fn answer(request: Request<Incoming>, bank: Arc<Bank>) -> Result<Response<Full<Bytes>>, Killed> {
    match (request.method(), request.uri().path()) {
        (&Method::POST, "/payments") => pay(request, &bank).await,
        (&Method::GET, "/payments") => {
            let ledger = bank.ledger.borrow().clone();
            Ok(reply(StatusCode::OK, &json!({ "payments": ledger })))
        }
        _ => Ok(reply(StatusCode::NOT_FOUND, &json!({ "error": "POST or GET /payments" }))),
    }
}

async fn pay(request: Request<Incoming>, bank: &Bank) -> Result<Response<Full<Bytes>>, Killed> {
    let body = Limited::new(request.into_body(), 4096).collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let order: Value = serde_json::from_slice(&body).unwrap_or_default();
    let Some(amount) = order["amount"].as_u64() else {
        return Ok(reply(StatusCode::BAD_REQUEST, &json!({ "error": "send {\"amount\": 4200}" })));
    };
    let manner = *bank.manner.borrow();
    let mut number = 0;
    bank.ledger.send_modify(|ledger| {
        ledger.push(amount);
        number = ledger.len();
    });
    match manner {
        Manner::Prompt => {}
        // The sender lives as long as the bank: waiting cannot fail.
        Manner::Stall => drop(bank.manner.subscribe().wait_for(|manner| *manner != Manner::Stall).await),
        Manner::Die => return Err(Killed),
    }
    Ok(reply(StatusCode::CREATED, &json!({ "payment": number, "amount": amount, "status": "paid" })))
}

fn reply(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{body}\n"))));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
