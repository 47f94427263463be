//! What a failed exchange proves.

use super::*;

/// Sends while the peer plays its part.
async fn failure<S>(
    connection: Connection,
    request: Request<RequestBody>,
    peer: Peer<S>,
    script: impl AsyncFnOnce(Peer<S>),
) -> SendError {
    let (answer, ()) = soon(async { tokio::join!(connection.send(request), script(peer)) }).await;
    answer.expect_err("no answer")
}

#[tokio::test]
async fn a_peer_that_reads_the_request_and_closes_leaves_doubt() {
    let stage = Stage::new().await;
    let (connection, peer) = stage.connect().await;
    let error = failure(connection, post("/pay", "body"), peer, async |mut peer| {
        peer.until("body").await;
    })
    .await;
    assert_eq!(error.evidence, Evidence::Lost);
    assert!(error.request.is_none());
}

#[tokio::test]
async fn a_peer_that_closes_after_the_head_leaves_doubt() {
    let stage = Stage::new().await;
    let (connection, peer) = stage.connect().await;
    let (body, request) = streamed();
    let request = Request::post("/pay").body(request).unwrap();
    let error = failure(connection, request, peer, async |mut peer| {
        peer.head().await;
    })
    .await;
    assert_eq!(error.evidence, Evidence::Lost);
    drop(body);
}

#[tokio::test]
async fn a_reset_after_the_request_leaves_doubt() {
    let stage = Stage::new().await;
    let (connection, peer) = stage.connect().await;
    let error = failure(connection, post("/pay", "body"), peer, async |mut peer| {
        peer.until("body").await;
        peer.stream.set_zero_linger().unwrap();
    })
    .await;
    assert_eq!(error.evidence, Evidence::Lost);
}

#[tokio::test]
async fn garbage_instead_of_an_answer_leaves_doubt() {
    for garbage in [
        "SSH-2.0-OpenSSH_9.2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nfolded: a\r\n b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nspaced : a\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        let stage = Stage::new().await;
        let (connection, peer) = stage.connect().await;
        let error = failure(connection, post("/pay", "body"), peer, async |mut peer| {
            peer.until("body").await;
            peer.say(garbage).await;
        })
        .await;
        assert_eq!(error.evidence, Evidence::Lost, "{garbage:?}");
    }
}

#[tokio::test]
async fn a_body_that_would_be_half_decoded_leaves_doubt() {
    for codings in ["gzip, chunked", "chunked, chunked", "gzip", "identity"] {
        let stage = Stage::new().await;
        let (connection, peer) = stage.connect().await;
        let error = failure(connection, post("/pay", "body"), peer, async |mut peer| {
            peer.until("body").await;
            peer.say(&format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {codings}\r\n\r\n0\r\n\r\n")).await;
            peer.closed().await;
        })
        .await;
        assert_eq!(error.evidence, Evidence::Lost, "{codings:?}");
    }
}

#[tokio::test]
async fn a_switch_of_protocols_that_was_not_asked_for_leaves_doubt_and_closes() {
    for (asked, switched) in [(None, "websocket"), (Some("websocket"), "h2c"), (Some("websocket"), "")] {
        let stage = Stage::new().await;
        let (connection, peer) = stage.connect().await;
        let mut request = get("/ws");
        if let Some(protocol) = asked {
            request.headers_mut().insert("upgrade", protocol.parse().unwrap());
        }
        let error = failure(connection, request, peer, async |mut peer| {
            peer.head().await;
            peer.say(&format!("HTTP/1.1 101 Switching Protocols\r\nUpgrade: {switched}\r\n\r\n")).await;
            peer.closed().await;
        })
        .await;
        assert_eq!(error.evidence, Evidence::Lost, "{switched:?}");
    }
}

#[tokio::test]
async fn a_new_connection_that_was_closed_before_the_request_never_saw_it() {
    let stage = Stage::new().await;
    let (connection, peer) = stage.connect().await;
    drop(peer);
    let error = soon(connection.send(post("/pay", "body"))).await.unwrap_err();
    assert_eq!(error.evidence, Evidence::NeverWritten);
    let request = error.request.expect("handed back");
    assert_eq!(request.uri(), "/pay");
    assert_eq!(request.into_body().collect().await.unwrap().to_bytes(), "body");
}

#[tokio::test]
async fn an_idle_connection_that_is_closed_between_checkout_and_request_never_saw_it() {
    let stage = Stage::new().await;
    let peer = stage.pooled().await;
    let connection = stage.upstream.checkout(Freshness::Any).await.unwrap();
    assert!(connection.is_reused());
    drop(peer);
    let error = soon(connection.send(post("/pay", "body"))).await.unwrap_err();
    assert_eq!(error.evidence, Evidence::NeverWritten);
    let request = error.request.expect("handed back");
    assert!(!request.headers().contains_key("content-length"), "as it came");
}

#[tokio::test]
async fn a_head_of_which_a_part_was_written_is_not_executed() {
    let stage = UnixStage::new();
    let (connection, peer) = stage.connect().await;
    let mut request = get("/pay");
    // More than the buffers of the socket take.
    request.headers_mut().insert("x-large", "a".repeat(4 << 20).parse().unwrap());
    let error = failure(connection, request, peer, async |mut peer| {
        assert!(peer.more().await > 0);
    })
    .await;
    assert_eq!(error.evidence, Evidence::HeadIncomplete);
}

#[tokio::test]
async fn a_body_of_which_a_part_was_written_leaves_doubt() {
    let stage = UnixStage::new();
    let (connection, peer) = stage.connect().await;
    let error = failure(connection, post("/pay", vec![b'a'; 4 << 20]), peer, async |mut peer| {
        peer.head().await;
    })
    .await;
    assert_eq!(error.evidence, Evidence::Lost);
}

#[tokio::test]
async fn a_request_body_that_fails_never_ends_properly_upstream() {
    let stage = Stage::new().await;
    let (connection, peer) = stage.connect().await;
    let body = StreamBody::new(futures_util::stream::iter([
        Ok(http_body::Frame::data(Bytes::from_static(b"half"))),
        Err(BoxError::from("the client left")),
    ]));
    let request = Request::post("/upload").body(body.boxed_unsync()).unwrap();
    let mut seen = String::new();
    let error = failure(connection, request, peer, async |mut peer| {
        peer.closed().await;
        seen = latin1(&peer.seen);
    })
    .await;
    assert_ne!(error.evidence, Evidence::HeadIncomplete);
    assert!(!seen.ends_with("0\r\n\r\n"), "{seen:?}");
}

const TOO_LARGE: &str = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig";

/// Refuses an upload and hangs up with most of it unread.
async fn refuse<S: AsyncRead + AsyncWrite + Unpin>(mut peer: Peer<S>) {
    peer.head().await;
    peer.say(TOO_LARGE).await;
}

async fn is_refused<S: AsyncRead + AsyncWrite + Unpin>(connection: Connection, peer: Peer<S>) {
    let request = post("/upload", vec![b'a'; 16 << 20]);
    let (answer, ()) = soon(async { tokio::join!(connection.send(request), refuse(peer)) }).await;
    let answer = answer.unwrap();
    assert_eq!(answer.status(), 413);
    assert_eq!(text(answer).await, "big");
}

#[tokio::test]
async fn an_answer_before_the_end_of_the_request_is_an_answer_although_writing_fails() {
    let stage = UnixStage::new();
    let (connection, peer) = stage.connect().await;
    is_refused(connection, peer).await;
    assert_eq!(stage.upstream.pool.len(), 0);
    let stage = Stage::new().await;
    let (connection, peer) = stage.connect().await;
    is_refused(connection, peer).await;
    assert_eq!(stage.upstream.pool.len(), 0);
}

#[tokio::test]
async fn words_that_came_before_the_request_are_not_its_answer() {
    let stage = Stage::new().await;
    let (connection, mut peer) = stage.connect().await;
    peer.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let error = soon(connection.send(post("/pay", "body"))).await.unwrap_err();
    assert_eq!(error.evidence, Evidence::NeverWritten);
}

#[tokio::test]
async fn a_dropped_exchange_closes_the_connection() {
    let stage = Stage::new().await;
    let (connection, mut peer) = stage.connect().await;
    {
        let exchange = connection.send(post("/pay", "body"));
        tokio::pin!(exchange);
        tokio::select! {
            _ = &mut exchange => panic!("no answer was given"),
            _ = peer.until("body") => {}
        }
    }
    peer.closed().await;
}

/// Answers every request with its own path, and closes after a few without a word; notes every request it has seen.
async fn moody(stream: TcpStream, answers: usize, seen: Arc<std::sync::Mutex<Vec<String>>>) {
    let mut peer = Peer::new(stream);
    for _ in 0..answers {
        while !peer.seen.ends_with(b"\r\n\r\n") {
            if !matches!(peer.stream.read_buf(&mut peer.seen).await, Ok(1..)) {
                return;
            }
        }
        let head = peer.head().await;
        let path = head.split(' ').nth(1).unwrap().to_owned();
        seen.lock().unwrap().push(path.clone());
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len());
        if peer.stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_written_is_never_seen_whenever_the_peer_closes() {
    let Stage { listener, upstream } = Stage::new().await;
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let server = tokio::spawn(async move {
        for answers in (1..=4).cycle() {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(moody(stream, answers, Arc::clone(&noted)));
        }
    });
    let upstream = Arc::new(upstream);
    let clients: Vec<_> = (0..8)
        .map(|client| {
            let upstream = Arc::clone(&upstream);
            tokio::spawn(async move {
                let mut outcomes = Vec::new();
                for round in 0..150 {
                    let path = format!("/{client}/{round}");
                    let connection = upstream.checkout(Freshness::Any).await.unwrap();
                    let outcome = match connection.send(get(&path)).await {
                        Ok(answer) => {
                            assert_eq!(text(answer).await, path, "somebody else's answer");
                            None
                        }
                        Err(error) => Some(error.evidence),
                    };
                    outcomes.push((path, outcome));
                }
                outcomes
            })
        })
        .collect();
    for client in clients {
        for (path, outcome) in soon(client).await.unwrap() {
            let times = seen.lock().unwrap().iter().filter(|seen| **seen == path).count();
            match outcome {
                None => assert_eq!(times, 1, "{path}"),
                Some(Evidence::NeverWritten | Evidence::HeadIncomplete) => assert_eq!(times, 0, "{path}"),
                Some(Evidence::Lost) => assert!(times <= 1, "{path}"),
            }
        }
    }
    server.abort();
}
