//! When a connection is used again, and when never.

use super::*;

/// One exchange on a connection of the given freshness; the peer answers with `answer`. Returns whether it was reused.
async fn exchange(stage: &Stage, peer: &mut Peer<TcpStream>, answer: &str) -> String {
    let connection = stage.upstream.checkout(Freshness::Any).await.unwrap();
    assert!(connection.is_reused());
    let (got, ()) = soon(async {
        tokio::join!(connection.send(get("/again")), async {
            peer.head().await;
            peer.say(answer).await;
        })
    })
    .await;
    text(got.unwrap()).await
}

/// After `answer` and the reading of its body, whether the connection was kept.
async fn is_kept_after(request: Request<RequestBody>, answer: &str) -> bool {
    let stage = Stage::new().await;
    let (connection, mut peer) = stage.connect().await;
    let (got, ()) = soon(async {
        tokio::join!(connection.send(request), async {
            peer.head().await;
            peer.say(answer).await;
        })
    })
    .await;
    let _ = soon(got.unwrap().into_body().collect()).await;
    // Either end of the story can be awaited.
    soon(async {
        tokio::select! {
            () = peer.closed() => false,
            () = idle(&stage.upstream, 1) => stage.upstream.checkout(Freshness::Any).await.unwrap().is_reused(),
        }
    })
    .await
}

#[tokio::test]
async fn one_connection_serves_many_exchanges_in_turn() {
    let stage = Stage::new().await;
    let mut peer = stage.pooled().await;
    for round in 0..20 {
        let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{round:02}\r\n0\r\n\r\n");
        assert_eq!(exchange(&stage, &mut peer, &answer).await, format!("{round:02}"));
        idle(&stage.upstream, 1).await;
    }
    // No second connection was ever made.
    let second = timeout(Duration::from_millis(20), stage.listener.accept()).await;
    assert!(second.is_err());
}

#[tokio::test]
async fn bodyless_answers_leave_the_connection_usable() {
    assert!(is_kept_after(get("/"), "HTTP/1.1 204 No Content\r\n\r\n").await);
    assert!(is_kept_after(get("/"), "HTTP/1.1 304 Not Modified\r\nContent-Length: 123\r\n\r\n").await);
    let head = Request::head("/").body(empty()).unwrap();
    assert!(is_kept_after(head, "HTTP/1.1 200 OK\r\nContent-Length: 123\r\n\r\n").await);
    let head = Request::head("/").body(empty()).unwrap();
    assert!(is_kept_after(head, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n").await);
    assert!(
        is_kept_after(get("/"), "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await
    );
}

#[tokio::test]
async fn a_connection_that_may_not_persist_is_closed() {
    for answer in [
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nConnection: x-hop, Close\r\nContent-Length: 2\r\n\r\nok",
        // Broken chunks.
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        // More than the answer.
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\nx",
    ] {
        assert!(!is_kept_after(get("/"), answer).await, "{answer:?}");
    }
}

#[tokio::test]
async fn a_connection_that_authenticates_is_never_shared() {
    for scheme in ["NTLM TlRMTVNTUAAB", "negotiate YII="] {
        let mut request = get("/");
        request.headers_mut().insert("authorization", scheme.parse().unwrap());
        assert!(!is_kept_after(request, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await, "{scheme}");
    }
    let challenge = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic, NTLM\r\nContent-Length: 2\r\n\r\nno";
    assert!(!is_kept_after(get("/"), challenge).await);
    let mut request = get("/");
    request.headers_mut().insert("authorization", "Basic eA==".parse().unwrap());
    assert!(is_kept_after(request, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await);
}

#[tokio::test]
async fn a_request_body_that_is_not_asked_for_its_end_leaves_the_connection_usable() {
    // The channel does not know that it has ended; hyper stops at the announced length.
    struct Sized(RequestBody);
    impl http_body::Body for Sized {
        type Data = Bytes;
        type Error = BoxError;
        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, BoxError>>> {
            std::pin::Pin::new(&mut self.0).poll_frame(cx)
        }
        fn size_hint(&self) -> http_body::SizeHint {
            http_body::SizeHint::with_exact(4)
        }
    }
    let (sender, body) = streamed();
    sender.send(http_body::Frame::data(Bytes::from_static(b"body"))).await.unwrap();
    let request = Request::post("/").body(Sized(body).boxed_unsync()).unwrap();
    let stage = Stage::new().await;
    let (connection, mut peer) = stage.connect().await;
    let (answer, ()) = tokio::join!(connection.send(request), async {
        peer.until("body").await;
        peer.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    });
    assert_eq!(text(answer.unwrap()).await, "ok");
    idle(&stage.upstream, 1).await;
    drop(sender);
}

#[tokio::test]
async fn a_close_delimited_body_ends_with_its_connection() {
    let stage = Stage::new().await;
    let (connection, mut peer) = stage.connect().await;
    let (answer, ()) = tokio::join!(connection.send(get("/")), async {
        peer.head().await;
        peer.say("HTTP/1.1 200 OK\r\n\r\nall of it").await;
    });
    drop(peer);
    assert_eq!(text(answer.unwrap()).await, "all of it");
    assert_eq!(stage.upstream.pool.len(), 0);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_an_error_and_never_an_end() {
    for (head, body) in [("Content-Length: 10", "half"), ("Transfer-Encoding: chunked", "4\r\nhalf\r\n")] {
        let stage = Stage::new().await;
        let (connection, mut peer) = stage.connect().await;
        let (answer, ()) = tokio::join!(connection.send(get("/")), async {
            peer.head().await;
            peer.say(&format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}")).await;
        });
        drop(peer);
        let mut body = answer.unwrap().into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "half");
        assert!(body.frame().await.unwrap().is_err(), "{head}");
        assert_eq!(stage.upstream.pool.len(), 0);
    }
}

#[tokio::test]
async fn a_body_that_is_not_read_to_its_end_closes_the_connection() {
    let stage = Stage::new().await;
    let (connection, mut peer) = stage.connect().await;
    let (answer, ()) = tokio::join!(connection.send(get("/")), async {
        peer.head().await;
        peer.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab").await;
    });
    drop(answer);
    peer.closed().await;
    assert_eq!(stage.upstream.pool.len(), 0);
}

#[tokio::test]
async fn an_answer_that_overtakes_its_request_closes_the_connection() {
    let stage = Stage::new().await;
    let (connection, mut peer) = stage.connect().await;
    let (body, request) = streamed();
    let request = Request::post("/upload").body(request).unwrap();
    let (answer, ()) = tokio::join!(connection.send(request), async {
        peer.head().await;
        peer.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    });
    assert_eq!(text(answer.unwrap()).await, "ok");
    peer.closed().await;
    assert_eq!(stage.upstream.pool.len(), 0);
    drop(body);
}

#[tokio::test]
async fn a_pooled_connection_that_the_peer_has_closed_is_replaced_unnoticed() {
    let stage = Stage::new().await;
    let peer = stage.pooled().await;
    drop(peer);
    let (connection, mut peer) = tokio::join!(stage.upstream.checkout(Freshness::Any), stage.accept());
    let connection = connection.unwrap();
    assert!(!connection.is_reused());
    let (answer, ()) = tokio::join!(connection.send(post("/pay", "body")), async {
        peer.until("body").await;
        peer.say("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n").await;
    });
    assert_eq!(answer.unwrap().status(), 201);
}

#[tokio::test]
async fn words_on_an_idle_connection_close_it_and_are_never_an_answer() {
    let stage = Stage::new().await;
    let mut peer = stage.pooled().await;
    peer.say("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n").await;
    let connection = stage.upstream.checkout(Freshness::Any).await.unwrap();
    assert!(!connection.is_reused());
    peer.closed().await;
    assert_eq!(latin1(&peer.seen), "");
}

#[tokio::test]
async fn a_young_connection_is_one_that_was_idle_for_a_short_time_only() {
    let stage = Stage::with(|settings| settings.idle_reuse = Duration::from_millis(50)).await;
    let _peer = stage.pooled().await;
    // Elapsed time is the input here: nothing happens that could be awaited.
    tokio::time::sleep(Duration::from_millis(80)).await;
    assert!(!stage.upstream.checkout(Freshness::Young).await.unwrap().is_reused());
    assert!(stage.upstream.checkout(Freshness::Any).await.unwrap().is_reused(), "it was left where it was");
}

#[tokio::test]
async fn the_idle_time_that_the_upstream_announces_is_honoured() {
    let stage = Stage::new().await;
    let mut peer = stage.pooled().await;
    let answer = "HTTP/1.1 200 OK\r\nKeep-Alive: max=10, timeout=0\r\nContent-Length: 2\r\n\r\nok";
    assert_eq!(exchange(&stage, &mut peer, answer).await, "ok");
    idle(&stage.upstream, 1).await;
    assert!(!stage.upstream.checkout(Freshness::Any).await.unwrap().is_reused());
    peer.closed().await;
}

#[tokio::test]
async fn a_new_connection_is_new() {
    let stage = Stage::new().await;
    let _peer = stage.pooled().await;
    let connection = stage.upstream.checkout(Freshness::New).await.unwrap();
    assert!(!connection.is_reused());
    assert_eq!(stage.upstream.pool.len(), 1);
}

#[tokio::test]
async fn the_connection_that_became_idle_last_is_used_first() {
    let stage = Stage::new().await;
    let mut first = stage.pooled().await;
    let mut second = {
        let (connection, mut peer) = stage.connect().await;
        let (answer, ()) = tokio::join!(connection.send(get("/second")), async {
            peer.head().await;
            peer.say("HTTP/1.1 204 No Content\r\n\r\n").await;
        });
        answer.unwrap();
        peer
    };
    idle(&stage.upstream, 2).await;
    assert_eq!(exchange(&stage, &mut second, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2").await, "2");
    idle(&stage.upstream, 2).await;
    assert_eq!(exchange(&stage, &mut second, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2").await, "2");
    drop(second);
    idle(&stage.upstream, 1).await;
    assert_eq!(exchange(&stage, &mut first, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1").await, "1");
}

#[tokio::test]
async fn connections_close_with_their_upstream() {
    let stage = Stage::new().await;
    let mut idle_peer = stage.pooled().await;
    let (connection, mut busy_peer) = stage.connect().await;
    let Stage { upstream, listener: _listener } = stage;
    let (answer, ()) = tokio::join!(connection.send(get("/")), async {
        busy_peer.head().await;
        drop(upstream);
        busy_peer.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    });
    idle_peer.closed().await;
    assert_eq!(text(answer.unwrap()).await, "ok", "what runs is finished");
    busy_peer.closed().await;
}
