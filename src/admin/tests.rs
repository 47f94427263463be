//! Tests of `admin`.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use http::{HeaderValue, header};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::*;
use crate::{
    idempotency::{Expect, Occupant, RecordKey, Swapped, Write},
    store::{Reply, StoreError},
};

/// A store that is only ever asked how it is.
#[derive(Default)]
struct Patient {
    ill: std::sync::Mutex<Option<fn() -> StoreError>>,
    looks: AtomicUsize,
}

impl Store for Patient {
    fn swap<'a>(&'a self, _: &'a RecordKey, _: Expect, _: Write) -> Reply<'a, Swapped> {
        unreachable!("the admin never writes")
    }

    fn read<'a>(&'a self, _: &'a RecordKey) -> Reply<'a, Option<Occupant>> {
        unreachable!("the admin never reads")
    }

    fn ping(&self) -> Reply<'_, ()> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        let ill = *self.ill.lock().expect("no panic under the lock");
        Box::pin(async move { ill.map_or(Ok(()), |error| Err(error())) })
    }
}

struct Room {
    admin: Arc<Admin>,
    store: Arc<Patient>,
    shutdown: Shutdown,
    drain: Arc<Notify>,
}

fn room(token: Option<&str>) -> Room {
    let store = Arc::new(Patient::default());
    let (shutdown, drain) = (Shutdown::new(), Arc::new(Notify::new()));
    let settings = Settings { listen: None, token: token.map(str::to_owned) };
    let admin = Admin::new(&settings, Arc::clone(&store) as Arc<dyn Store>, shutdown.clone(), Arc::clone(&drain));
    Room { admin, store, shutdown, drain }
}

impl Room {
    async fn ask(&self, method: Method, path: &str, authorization: &[&str]) -> Answer {
        let mut headers = HeaderMap::new();
        for line in authorization {
            headers.append(header::AUTHORIZATION, HeaderValue::from_str(line).expect("a value"));
        }
        self.admin.answer(([127, 0, 0, 1], 1).into(), &method, path, &headers).await
    }
}

#[tokio::test]
async fn health_is_open_and_says_why_a_gate_is_not_ready() {
    let room = room(None);
    assert_eq!(room.ask(Method::GET, "/livez", &[]).await.body, "ok\n");
    let ready = room.ask(Method::GET, "/readyz", &[]).await;
    assert_eq!((ready.status, ready.body.as_str()), (StatusCode::OK, "{\"ready\":true,\"reasons\":[]}\n"));
    room.shutdown.advance(Phase::Leaving);
    let ready = room.ask(Method::GET, "/readyz", &[]).await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ready.body, "{\"ready\":false,\"reasons\":[\"draining\"]}\n");
    assert_eq!(room.ask(Method::GET, "/livez", &[]).await.status, StatusCode::OK);
}

#[tokio::test]
async fn readiness_shows_nothing_of_what_the_store_said() {
    let cases = [
        ((|| StoreError::NotSent("redis://:hunter2@db:6379".into())) as fn() -> StoreError, "store: unreachable"),
        (|| StoreError::Refused("WRONGPASS hunter2".to_owned()), "store: refused"),
        (|| StoreError::InDoubt("hunter2".into()), "store: no answer"),
    ];
    for (error, reason) in cases {
        let room = room(None);
        *room.store.ill.lock().expect("no panic under the lock") = Some(error);
        let answer = room.ask(Method::GET, "/readyz", &[]).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.body, format!("{{\"ready\":false,\"reasons\":[\"{reason}\"]}}\n"));
    }
}

#[tokio::test]
async fn many_probes_are_one_look_at_the_store() {
    let room = room(None);
    for _ in 0..20 {
        room.ask(Method::GET, "/readyz", &[]).await;
    }
    assert_eq!(room.store.looks.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn without_a_configured_token_nothing_else_is_served() {
    let room = room(None);
    for path in ["/drain", "/records", "/nothing"] {
        let answer = room.ask(Method::POST, path, &["Bearer "]).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
        assert_eq!(answer.content_type, "application/problem+json");
    }
    assert_eq!(room.shutdown.phase(), Phase::Running);
}

#[tokio::test]
async fn only_the_exact_token_in_one_line_is_let_in() {
    let room = room(Some("s3cret"));
    for lines in [
        &[][..],
        &["Bearer wrong"],
        &["Bearer s3cre"],
        &["Bearer s3crett"],
        &["Basic s3cret"],
        &["s3cret"],
        &["Bearer"],
        &["Bearer s3cret", "Bearer s3cret"],
    ] {
        let answer = room.ask(Method::POST, "/drain", lines).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{lines:?}");
        assert_eq!(answer.headers, [("WWW-Authenticate", "Bearer realm=\"oncegate\"")]);
        assert_eq!(room.ask(Method::POST, "/nothing", lines).await.status, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(room.shutdown.phase(), Phase::Running);
    assert_eq!(room.ask(Method::POST, "/nothing", &["bearer s3cret"]).await.status, StatusCode::NOT_FOUND);
    let answer = room.ask(Method::POST, "/drain", &["Bearer  s3cret"]).await;
    assert_eq!((answer.status, answer.body.as_str()), (StatusCode::ACCEPTED, "{\"draining\":true}\n"));
    assert_eq!(room.shutdown.phase(), Phase::Leaving);
    room.drain.notified().await;
}

#[tokio::test]
async fn a_reload_changes_the_token_at_once() {
    let room = room(Some("old"));
    room.admin.reload(&Settings { listen: None, token: Some("new".to_owned()) });
    assert_eq!(room.ask(Method::POST, "/x", &["Bearer old"]).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(room.ask(Method::POST, "/x", &["Bearer new"]).await.status, StatusCode::NOT_FOUND);
    room.admin.reload(&Settings { listen: None, token: None });
    assert_eq!(room.ask(Method::POST, "/x", &["Bearer new"]).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_wrong_method_is_told_the_right_one() {
    let room = room(Some("t"));
    for (method, path, allow) in
        [(Method::POST, "/livez", "GET, HEAD"), (Method::PUT, "/readyz", "GET, HEAD"), (Method::GET, "/drain", "POST")]
    {
        let answer = room.ask(method, path, &["Bearer t"]).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(answer.headers, [("Allow", allow)]);
    }
    assert_eq!(room.ask(Method::GET, "/metrics", &[]).await.status, StatusCode::NOT_FOUND);
}

#[test]
fn the_settings_do_not_show_the_token() {
    let settings = Settings { listen: None, token: Some("s3cret".to_owned()) };
    assert!(!format!("{settings:?}").contains("s3cret"));
}

#[tokio::test]
async fn answers_on_their_way_are_written_before_the_listener_ends() {
    let room = room(Some("t"));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let drain = Arc::clone(&room.drain);
    let serving = tokio::spawn(Arc::clone(&room.admin).serve(listener, async move { drain.notified().await }));
    let mut client = TcpStream::connect(address).await.expect("a connection");
    client
        .write_all(b"POST /drain HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\nContent-Length: 2\r\n\r\n{}")
        .await
        .expect("written");
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.expect("an answer, and the end of the connection");
    assert!(answer.starts_with("HTTP/1.1 202 Accepted\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n{\"draining\":true}\n"), "{answer}");
    serving.await.expect("no panic");
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_shown_the_door() {
    let room = room(None);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(Arc::clone(&room.admin).serve(listener, std::future::pending()));
    let mut client = TcpStream::connect(address).await.expect("a connection");
    client.write_all(b"GET /livez HTTP/1.1\r\n").await.expect("written");
    let mut answer = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(3), client.read_to_end(&mut answer)).await;
    assert!(ended.is_ok(), "the connection ends within its time");
}

#[tokio::test]
async fn a_probe_gets_through_a_crowd_of_half_sent_requests() {
    let room = room(None);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(Arc::clone(&room.admin).serve(listener, std::future::pending()));
    for half in ["GET /livez HTTP/1.1\r\nHost:", "POST /drain HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", ""] {
        let mut crowd = Vec::new();
        for _ in 0..200 {
            let mut client = TcpStream::connect(address).await.expect("a connection");
            client.write_all(half.as_bytes()).await.expect("written");
            crowd.push(client);
        }
        let mut probe = TcpStream::connect(address).await.expect("a connection");
        probe.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("written");
        let mut answer = String::new();
        // Sooner than any limit of theirs ends.
        let read = tokio::time::timeout(Duration::from_millis(1500), probe.read_to_string(&mut answer)).await;
        read.expect("in time").expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        // The oldest made way; the newest are still listened to.
        let mut end = Vec::new();
        crowd[0].read_to_end(&mut end).await.ok();
        assert_eq!(end, b"");
        let newest = crowd.last_mut().expect("a crowd");
        assert!(tokio::time::timeout(Duration::ZERO, newest.read_u8()).await.is_err());
    }
}
