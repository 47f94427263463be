//! Heads and bodies as they cross a gate: bytes in at one raw end, bytes out at the other.

use std::sync::Arc;

use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;

use super::*;
use crate::upstream::headers::{Hop, Kind, inbound, outbound};

/// The least that a gate does with a request.
async fn cross(request: Request<Incoming>, upstream: &Upstream, kind: Kind) -> http::Response<AnswerBody> {
    let authority = request.headers().get("host").map(|host| host.to_str().unwrap().to_owned()).unwrap_or_default();
    let hop = Hop {
        peer: Some("192.0.2.1".parse().unwrap()),
        trusted: false,
        scheme: "http",
        authority: &authority,
        pseudonym: "gate",
        version: request.version(),
    };
    let (parts, body) = request.into_parts();
    let parts = outbound(parts, &hop, kind, upstream.settings()).unwrap();
    let body = match kind {
        Kind::Protected => whole(body.collect().await.unwrap().to_bytes()),
        Kind::Streamed { .. } => body.map_err(BoxError::from).boxed_unsync(),
    };
    let connection = upstream.checkout(Freshness::Any).await.unwrap();
    let answer = connection.send(Request::from_parts(parts, body)).await.unwrap();
    let (parts, body) = answer.into_parts();
    http::Response::from_parts(inbound(parts), body)
}

/// A gate on both ends of which the test sits.
async fn gate(stage: Stage, kind: Kind) -> (Peer<DuplexStream>, Arc<Stage>) {
    let (client, server) = tokio::io::duplex(1 << 20);
    let stage = Arc::new(stage);
    let serving = Arc::clone(&stage);
    tokio::spawn(async move {
        let service = service_fn(|request| {
            let serving = Arc::clone(&serving);
            async move { Ok::<_, std::convert::Infallible>(cross(request, &serving.upstream, kind).await) }
        });
        let _ = http1::Builder::new().preserve_header_case(true).serve_connection(TokioIo::new(server), service).await;
    });
    (Peer::new(client), stage)
}

const STREAMED: Kind = Kind::Streamed { upgrade: false };

/// What the upstream sees of `request`: its head.
async fn seen(kind: Kind, request: &str) -> String {
    let (mut client, stage) = gate(Stage::new().await, kind).await;
    client.say(request).await;
    stage.accept().await.head().await
}

/// What the client sees of `answer`, up to `end`.
async fn given(request: &str, answer: &str, end: &str) -> String {
    let (mut client, stage) = gate(Stage::new().await, STREAMED).await;
    client.say(request).await;
    let mut peer = stage.accept().await;
    peer.head().await;
    peer.say(answer).await;
    client.until(end).await
}

#[tokio::test]
async fn order_and_letters_of_a_head_are_kept() {
    assert_eq!(
        seen(
            STREAMED,
            "GET /a//b/%2e%2E?x=%7e& HTTP/1.1\r\nX-First: 1\r\nHOST: api.test\r\nx-TWICE: a\r\nAccept: */*\r\nX-Twice: b\r\nX-Empty:\r\n\r\n"
        )
        .await,
        "GET /a//b/%2e%2E?x=%7e& HTTP/1.1\r\nX-First: 1\r\nHOST: api.test\r\nx-TWICE: a\r\nX-Twice: b\r\nAccept: */*\r\nX-Empty:\r\nvia: 1.1 gate\r\n\r\n"
    );
}

#[tokio::test]
async fn fields_of_the_connection_stay_on_it() {
    assert_eq!(
        seen(
            STREAMED,
            "GET / HTTP/1.1\r\nHost: api.test\r\nConnection: keep-alive, X-Hop\r\nConnection: \u{e9}, x-other\r\nX-HOP: 1\r\nX-Other: 2\r\nKeep-Alive: timeout=5\r\n\
             Proxy-Connection: keep-alive\r\nTE: gzip\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\nProxy-Authorization: Basic eA==\r\nX-Kept: 3\r\n\r\n"
        )
        .await,
        "GET / HTTP/1.1\r\nHost: api.test\r\nX-Kept: 3\r\nvia: 1.1 gate\r\n\r\n"
    );
}

#[tokio::test]
async fn a_body_of_unknown_length_is_chunked_whatever_the_method() {
    for method in ["GET", "HEAD", "DELETE", "POST"] {
        let (mut client, stage) = gate(Stage::new().await, STREAMED).await;
        let head = format!("{method} / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX-Last: 1\r\n\r\n");
        client.say(&format!("{head}5\r\nhello\r\n0\r\n\r\n")).await;
        let mut peer = stage.accept().await;
        assert_eq!(peer.head().await, head.replace("X-Last: 1\r\n", "X-Last: 1\r\nvia: 1.1 gate\r\n"));
        assert_eq!(peer.until("0\r\n\r\n").await, "5\r\nhello\r\n0\r\n\r\n");
    }
}

#[tokio::test]
async fn a_body_that_has_been_read_gets_its_length_in_place_of_the_chunks() {
    let (mut client, stage) = gate(Stage::new().await, Kind::Protected).await;
    client
        .say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\nExpect: 100-continue\r\nX-Last: 1\r\n\r\n5\r\nhello\r\n0\r\nX-T: t\r\n\r\n")
        .await;
    let mut peer = stage.accept().await;
    assert_eq!(
        peer.until("hello").await,
        "POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 5\r\nX-Last: 1\r\nvia: 1.1 gate\r\n\r\nhello"
    );
}

#[tokio::test]
async fn request_trailers_go_on_without_what_belongs_into_a_head() {
    let (mut client, stage) = gate(Stage::new().await, STREAMED).await;
    client
        .say(
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: X-Hop\r\nTrailer: X-Sum, X-Hop, Idempotency-Key, X-Forwarded-For, X_Forwarded_For\r\n\
             Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 7\r\nX-Hop: 1\r\nIdempotency-Key: k\r\nX-Forwarded-For: 1.1.1.1\r\nX_Forwarded_For: 1.1.1.1\r\n\r\n",
        )
        .await;
    let mut peer = stage.accept().await;
    peer.head().await;
    assert_eq!(peer.until("\r\n\r\n").await, "2\r\nhi\r\n0\r\nx-sum: 7\r\n\r\n");
}

#[tokio::test]
async fn answer_trailers_go_to_a_client_that_asks_for_them() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n";
    assert_eq!(
        seen(STREAMED, request).await,
        "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\nvia: 1.1 gate\r\n\r\n"
    );
    let answer = "HTTP/1.1 200 OK\r\nDate: now\r\nConnection: X-Hop\r\nTrailer: X-Sum, X-Hop\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 7\r\nX-Hop: 1\r\n\r\n";
    assert_eq!(
        given(request, answer, "x-sum: 7\r\n\r\n").await,
        "HTTP/1.1 200 OK\r\nDate: now\r\nTrailer: X-Sum, X-Hop\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-sum: 7\r\n\r\n"
    );
}

#[tokio::test]
async fn the_head_of_an_answer_keeps_order_letters_and_reason() {
    let answer = "HTTP/1.1 200 Fine\r\nServer: x\r\nSET-Cookie: a\r\nDate: now\r\nConnection: X-Hop, \u{e9}\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nSet-cookie: b\r\nUpgrade: h2\r\nVia: 1.0 in\r\nContent-Length: 2\r\n\r\nok";
    assert_eq!(
        given("GET / HTTP/1.1\r\nHost: a\r\n\r\n", answer, "\r\n\r\nok").await,
        "HTTP/1.1 200 Fine\r\nServer: x\r\nSET-Cookie: a\r\nSet-cookie: b\r\nDate: now\r\nVia: 1.0 in\r\nContent-Length: 2\r\n\r\nok"
    );
}

#[tokio::test]
async fn chunks_win_over_a_length_in_an_answer() {
    let answer = "HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 2\r\nTransfer-Encoding: Chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n";
    assert_eq!(
        given("GET / HTTP/1.1\r\nHost: a\r\n\r\n", answer, "0\r\n\r\n").await,
        "HTTP/1.1 200 OK\r\nDate: now\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n"
    );
}

#[tokio::test]
async fn the_length_of_an_answer_to_head_is_kept() {
    let answer = "HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 123\r\n\r\n";
    assert_eq!(given("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", answer, "\r\n\r\n").await, answer);
}

#[tokio::test]
async fn an_answer_without_a_body_is_not_given_a_length() {
    let head = "HTTP/1.1 200 OK\r\nDate: now\r\n";
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
    assert_eq!(given("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", &chunked, "\r\n\r\n").await, format!("{head}\r\n"));
    for status in ["204 No Content", "304 Not Modified"] {
        let answer = format!("HTTP/1.1 {status}\r\nDate: now\r\n\r\n");
        assert_eq!(given("GET / HTTP/1.1\r\nHost: a\r\n\r\n", &answer, "\r\n\r\n").await, answer);
    }
}

#[tokio::test]
async fn both_directions_flow_at_the_same_time() {
    let stage = Stage::new().await;
    let (connection, mut peer) = stage.connect().await;
    let (sender, body) = streamed();
    let request = Request::post("/chat").body(body).unwrap();
    let (answer, ()) = tokio::join!(connection.send(request), async {
        peer.head().await;
        peer.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    });
    let mut answer = answer.unwrap().into_body();
    for word in ["one", "two"] {
        sender.send(http_body::Frame::data(Bytes::from_static(word.as_bytes()))).await.unwrap();
        assert_eq!(peer.until(&format!("{word}\r\n")).await, format!("3\r\n{word}\r\n"));
        peer.say(&format!("3\r\n{word}\r\n")).await;
        assert_eq!(answer.frame().await.unwrap().unwrap().into_data().unwrap(), word);
    }
    drop(sender);
    assert_eq!(peer.until("0\r\n\r\n").await, "0\r\n\r\n");
    peer.say("0\r\n\r\n").await;
    assert!(answer.frame().await.is_none());
    peer.closed().await;
}

#[tokio::test]
async fn four_hundred_answer_fields_cross() {
    let mut answer = "HTTP/1.1 200 OK\r\nDate: now\r\n".to_owned();
    for number in 0..400 {
        answer.push_str(&format!("X-{number}: {number}\r\n"));
    }
    answer.push_str("Content-Length: 2\r\n\r\nok");
    assert_eq!(given("GET / HTTP/1.1\r\nHost: a\r\n\r\n", &answer, "\r\n\r\nok").await, answer);
}

#[tokio::test]
async fn an_upgrade_that_was_asked_for_opens_a_tunnel() {
    let stage = Stage::new().await;
    let mut request = get("/ws");
    request.headers_mut().insert("connection", "Upgrade".parse().unwrap());
    request.headers_mut().insert("upgrade", "websocket".parse().unwrap());
    let (connection, mut peer) = stage.connect().await;
    let (answer, ()) = tokio::join!(connection.send(request), async {
        peer.head().await;
        peer.say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\nearly").await;
    });
    let mut answer = answer.unwrap();
    let upgraded = soon(hyper::upgrade::on(&mut answer)).await.unwrap();
    let (parts, _body) = answer.into_parts();
    let head = inbound(parts);
    assert_eq!(head.status, 101);
    assert_eq!(head.headers["connection"], "Upgrade");
    assert_eq!(head.headers["upgrade"], "WebSocket");
    let mut tunnel = Peer::new(TokioIo::new(upgraded));
    assert_eq!(tunnel.until("early").await, "early");
    tunnel.say("ping").await;
    assert_eq!(peer.until("ping").await, "ping");
    drop(tunnel);
    peer.closed().await;
    assert_eq!(stage.upstream.pool.len(), 0);
}

#[tokio::test]
async fn an_upgrade_that_is_declined_is_an_ordinary_answer() {
    let stage = Stage::new().await;
    let mut request = get("/ws");
    request.headers_mut().insert("connection", "Upgrade".parse().unwrap());
    request.headers_mut().insert("upgrade", "websocket".parse().unwrap());
    let (connection, mut peer) = stage.connect().await;
    let (answer, ()) = tokio::join!(connection.send(request), async {
        peer.head().await;
        peer.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    });
    assert_eq!(text(answer.unwrap()).await, "ok");
    idle(&stage.upstream, 1).await;
}
