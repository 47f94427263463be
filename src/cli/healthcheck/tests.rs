//! Tests of `cli::healthcheck`.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;

/// Answers one connection with `bytes`, then closes it.
async fn someone(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut head = [0; 1024];
        let _ = stream.read(&mut head).await;
        let _ = stream.write_all(bytes).await;
    });
    address
}

#[tokio::test]
async fn only_200_is_healthy() {
    let address = someone(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n").await;
    assert_eq!(ask(&address, "/livez").await, Verdict::Healthy("ok\n".to_owned()));
    let address = someone(b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n{\"ready\":false}\n").await;
    let verdict = ask(&address, "/readyz").await;
    assert_eq!(verdict, Verdict::Unhealthy("503 Service Unavailable {\"ready\":false}".to_owned()));
}

#[tokio::test]
async fn garbage_and_silence_are_not_healthy_and_an_empty_port_is_nobody() {
    for bytes in [&b"SSH-2.0-hello\r\n"[..], b""] {
        let address = someone(bytes).await;
        assert!(matches!(ask(&address, "/livez").await, Verdict::Unhealthy(_)));
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    drop(listener);
    assert!(matches!(ask(&address, "/livez").await, Verdict::Nobody(_)));
}

#[tokio::test(start_paused = true)]
async fn who_accepts_and_never_answers_is_not_healthy() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    assert_eq!(ask(&address, "/livez").await, Verdict::Unhealthy("no answer in time".to_owned()));
    drop(listener);
}

#[test]
fn a_wildcard_listener_is_asked_at_its_loopback() {
    for (listen, ask) in [
        ("0.0.0.0:9180", "127.0.0.1:9180"),
        ("[::]:9180", "[::1]:9180"),
        ("10.1.2.3:80", "10.1.2.3:80"),
        ("admin.local:80", "admin.local:80"),
    ] {
        assert_eq!(reachable(listen), ask);
    }
}
