//! An HTTP/2 client with prior knowledge, close enough to the frames to misbehave.

use bytes::Bytes;
use h2::{
    Reason, RecvStream, SendStream,
    client::{ResponseFuture, SendRequest},
};
use http::{HeaderMap, Request, StatusCode};
use tokio::{runtime::Runtime, time::timeout};

use super::wire::{Address, DEADLINE};

/// One HTTP/2 connection to the gate.
pub(crate) struct H2 {
    runtime: Runtime,
    sender: SendRequest<Bytes>,
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct H2Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: HeaderMap,
}

impl H2Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn slug(&self) -> String {
        let document: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        document["type"].as_str().unwrap_or_default().trim_start_matches("urn:oncegate:problem:").to_owned()
    }
}

/// A request whose body, and whose answer, are still to come.
pub(crate) struct H2Stream {
    response: ResponseFuture,
    pub(crate) body: SendStream<Bytes>,
}

impl H2 {
    pub(crate) fn connect(to: &Address) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let address = to.tcp();
        let sender = runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let (sender, connection) = h2::client::handshake(stream).await.unwrap();
            tokio::spawn(async {
                // How the connection ends shows in its streams.
                let _ = connection.await;
            });
            sender
        });
        Self { runtime, sender }
    }

    /// A request builder for `http://api.test{path}`.
    pub(crate) fn request(method: &str, path: &str) -> http::request::Builder {
        Request::builder().method(method).uri(format!("http://{}{path}", super::client::HOST))
    }

    /// The usual protected request: POST /pay by caller `a` under this key.
    pub(crate) fn pay(key: &str) -> http::request::Builder {
        Self::request("POST", "/pay")
            .header("content-type", "application/json")
            .header("authorization", "Bearer a")
            .header("idempotency-key", format!("\"{key}\""))
    }

    /// Opens a stream; with `end` the request has no body.
    pub(crate) fn start(&mut self, request: http::request::Builder, end: bool) -> H2Stream {
        self.try_start(request, end).unwrap()
    }

    fn try_start(&mut self, request: http::request::Builder, end: bool) -> Result<H2Stream, h2::Error> {
        let mut sender = self.runtime.block_on(self.sender.clone().ready())?;
        let (response, body) = sender.send_request(request.body(()).unwrap(), end)?;
        Ok(H2Stream { response, body })
    }

    /// Sends a whole request and reads the whole answer.
    pub(crate) fn send(&mut self, request: http::request::Builder, body: &'static [u8]) -> H2Response {
        self.try_send(request, body).unwrap()
    }

    pub(crate) fn try_send(
        &mut self,
        request: http::request::Builder,
        body: &'static [u8],
    ) -> Result<H2Response, h2::Error> {
        let mut stream = self.try_start(request, body.is_empty())?;
        if !body.is_empty() {
            stream.body.send_data(Bytes::from_static(body), true)?;
        }
        self.finish(stream)
    }

    /// Reads the whole answer.
    pub(crate) fn finish(&self, stream: H2Stream) -> Result<H2Response, h2::Error> {
        self.runtime.block_on(async {
            timeout(DEADLINE, async {
                let response = stream.response.await?;
                let (parts, mut body) = response.into_parts();
                let mut bytes = Vec::new();
                while let Some(chunk) = body.data().await {
                    let chunk = chunk?;
                    release(&mut body, chunk.len());
                    bytes.extend_from_slice(&chunk);
                }
                let trailers = body.trailers().await?.unwrap_or_default();
                Ok(H2Response { status: parts.status, headers: parts.headers, body: bytes, trailers })
            })
            .await
            .expect("an answer over HTTP/2 comes in time")
        })
    }

    /// Resets a stream in mid-body.
    pub(crate) fn reset(stream: &mut H2Stream, reason: Reason) {
        stream.body.send_reset(reason);
    }

    /// Sends a whole request and resets it at once.
    pub(crate) fn rapid_reset(
        &mut self,
        request: http::request::Builder,
        body: &'static [u8],
    ) -> Result<(), h2::Error> {
        let mut stream = self.try_start(request, false)?;
        stream.body.send_data(Bytes::from_static(body), true)?;
        Self::reset(&mut stream, Reason::CANCEL);
        Ok(())
    }

    /// Waits until everything sent so far has been read by the gate: a PING comes back behind it.
    pub(crate) fn settle(&mut self) {
        // A request that the gate answers itself travels behind all earlier frames of this connection.
        let answer = self.send(Self::request("TRACE", "/"), b"");
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
    }
}

fn release(body: &mut RecvStream, n: usize) {
    // A stream that is gone needs no window.
    let _ = body.flow_control().release_capacity(n);
}
