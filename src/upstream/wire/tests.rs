//! The count.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

fn wire() -> (Arc<Wire>, Counted, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (wire, counted) = Wire::new(Socket::Unix(ours));
    wire.begin(true);
    (wire, counted, theirs)
}

#[tokio::test]
async fn the_end_of_a_head_is_found_however_it_is_cut() {
    let head = b"GET / HTTP/1.1\r\nHost: a\r\r\nX: y\n\r\n\r\n";
    for cut in 1..head.len() {
        let (wire, mut counted, _peer) = wire();
        assert_eq!(wire.evidence(), Evidence::NeverWritten);
        counted.write_all(&head[..cut]).await.unwrap();
        assert_eq!(wire.evidence(), Evidence::HeadIncomplete, "{cut}");
        counted.write_all(&head[cut..]).await.unwrap();
        assert_eq!(wire.evidence(), Evidence::Lost, "{cut}");
        counted.write_all(b"body").await.unwrap();
        assert_eq!(wire.evidence(), Evidence::Lost, "{cut}");
    }
}

#[tokio::test]
async fn a_vectored_write_counts_what_was_taken() {
    let (wire, mut counted, _peer) = wire();
    let taken =
        counted.write_vectored(&[IoSlice::new(b"GET / HTTP/1.1\r\n\r"), IoSlice::new(b"\nbody")]).await.unwrap();
    assert_eq!(taken, 22);
    assert_eq!(wire.evidence(), Evidence::Lost);
    assert_eq!(wire.written.load(Ordering::Acquire), 22);
}

#[tokio::test]
async fn every_request_is_counted_from_zero() {
    let (wire, mut counted, _peer) = wire();
    counted.write_all(b"\r\n\r\n").await.unwrap();
    wire.begin(true);
    assert_eq!(wire.evidence(), Evidence::NeverWritten);
    counted.write_all(b"\r\n").await.unwrap();
    assert_eq!(wire.evidence(), Evidence::HeadIncomplete);
}

#[tokio::test]
async fn a_request_is_sent_when_its_body_has_ended_and_nothing_waits() {
    let (wire, mut counted, _peer) = wire();
    wire.begin(false);
    counted.write_all(b"\r\n\r\n").await.unwrap();
    counted.flush().await.unwrap();
    assert!(!wire.is_sent(), "the body has not ended");
    wire.body_ended();
    assert!(!wire.is_sent(), "its last bytes may wait");
    counted.write_all(b"end").await.unwrap();
    counted.flush().await.unwrap();
    assert!(wire.is_sent());
}

#[tokio::test]
async fn a_peer_that_hangs_up_within_a_request_may_have_answered_it() {
    let (wire, mut counted, mut peer) = wire();
    counted.write_all(b"POST / HTTP/1.1\r\n").await.unwrap();
    peer.write_all(b"answer").await.unwrap();
    drop(peer);
    counted.write_all(b"\r\n").await.unwrap();
    counted.write_all(b"body").await.unwrap();
    counted.flush().await.unwrap();
    assert_eq!(wire.evidence(), Evidence::HeadIncomplete, "what went nowhere does not count");
    assert!(!wire.is_sent());
    let mut answer = [0; 6];
    counted.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"answer");
    // A unix socket tells that the peer left bytes unread, TCP that it was reset.
    assert!(matches!(counted.read(&mut answer).await, Ok(0) | Err(_)));
}

#[tokio::test]
async fn a_request_of_which_nothing_was_taken_fails_at_once() {
    let (wire, mut counted, peer) = wire();
    drop(peer);
    let error = counted.write_all(b"POST / HTTP/1.1\r\n").await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(wire.evidence(), Evidence::NeverWritten);
    assert!(!wire.is_sent());
}

#[tokio::test]
async fn an_idle_socket_is_quiet_until_its_peer_speaks_or_closes() {
    let (silent, _counted, _peer) = wire();
    assert!(silent.is_quiet());
    let (spoken, _counted, mut peer) = wire();
    peer.write_all(b"x").await.unwrap();
    assert!(!spoken.is_quiet());
    let (closed, _counted, peer) = wire();
    drop(peer);
    assert!(!closed.is_quiet());
    let (gone, counted, _peer) = wire();
    drop(counted);
    assert!(!gone.is_quiet());
}

#[tokio::test]
async fn the_socket_closes_with_its_driver() {
    let (_wire, counted, mut peer) = wire();
    drop(counted);
    assert_eq!(peer.read(&mut [0; 8]).await.unwrap(), 0);
}
