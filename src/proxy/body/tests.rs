//! Caps, clocks and accounts of bodies.

use std::collections::VecDeque;

use http::HeaderName;
use http_body_util::channel::Channel;

use super::*;

/// A body of scripted frames; `None` at the end of the script is the end, unless `stalls`.
struct Script {
    frames: VecDeque<Result<Frame<Bytes>, &'static str>>,
    stalls: bool,
    whole: bool,
}

fn script(frames: &[&'static str]) -> Script {
    let frames = frames.iter().map(|text| Ok(Frame::data(Bytes::from_static(text.as_bytes())))).collect();
    Script { frames, stalls: false, whole: true }
}

impl http_body::Body for Script {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.frames.pop_front() {
            Some(frame) => Poll::Ready(Some(frame.map_err(Into::into))),
            None if self.stalls => Poll::Pending,
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.whole && self.frames.is_empty()
    }
}

const SECOND: Duration = Duration::from_secs(1);

async fn collected(body: Script, limit: u64, memory: &Memory) -> Result<Bytes, Refusal> {
    collect(body, limit, SECOND, memory).await.map(|(bytes, _)| bytes)
}

#[tokio::test]
async fn a_body_is_collected_up_to_its_limit_and_not_beyond() {
    let memory = Memory::new(100);
    assert_eq!(collected(script(&[]), 0, &memory).await.unwrap(), "");
    assert_eq!(collected(script(&["ab", "", "c"]), 3, &memory).await.unwrap(), "abc");
    assert_eq!(collected(script(&["ab", "cd"]), 3, &memory).await, Err(Refusal::RequestTooLarge { limit: 3 }));
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_body() {
    let memory = Memory::new(100);
    let mut broken = script(&["ab"]);
    broken.frames.push_back(Err("reset"));
    assert_eq!(collected(broken, 9, &memory).await, Err(Refusal::RequestInvalid(InvalidRequest::BodyBroken)));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_is_timed_out() {
    let stalled = Script { stalls: true, ..script(&["ab"]) };
    assert_eq!(collected(stalled, 9, &Memory::new(100)).await, Err(Refusal::RequestTimeout));
}

#[tokio::test]
async fn memory_is_shared_bounded_and_given_back() {
    let memory = Memory::new(4);
    let (_, held) = collect(script(&["abc"]), 9, SECOND, &memory).await.unwrap();
    assert_eq!(collected(script(&["de"]), 9, &memory).await, Err(Refusal::Overloaded(Overload::BodyMemory)));
    drop(held);
    assert_eq!(collected(script(&["defg"]), 9, &memory).await.unwrap(), "defg");
    memory.resize(1);
    assert_eq!(collected(script(&["de"]), 9, &memory).await, Err(Refusal::Overloaded(Overload::BodyMemory)));
}

#[tokio::test]
async fn an_h2_stream_that_was_reset_in_mid_body_does_not_end_cleanly() {
    let reset = || Script { whole: false, ..script(&["ab"]) };
    let memory = Memory::new(100);
    let cut = Intact::new(reset(), Version::HTTP_2);
    let refused = collect(cut, 9, SECOND, &memory).await.map(|(bytes, _)| bytes);
    assert_eq!(refused, Err(Refusal::RequestInvalid(InvalidRequest::BodyBroken)));
    let chunked = Intact::new(reset(), Version::HTTP_11);
    assert_eq!(collect(chunked, 9, SECOND, &memory).await.unwrap().0, "ab");
}

#[tokio::test]
async fn the_last_bytes_of_an_announced_length_wait_for_the_end_of_the_h2_stream() {
    // `Script` has no length of its own; hyper's h2 bodies count theirs down.
    struct Announced(Script, u64);
    impl http_body::Body for Announced {
        type Data = Bytes;
        type Error = BoxError;
        fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            let polled = Pin::new(&mut self.0).poll_frame(cx);
            if let Poll::Ready(Some(Ok(frame))) = &polled {
                self.1 -= frame.data_ref().map_or(0, |data| data.len() as u64);
            }
            polled
        }
        fn is_end_stream(&self) -> bool {
            self.0.is_end_stream()
        }
        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.1)
        }
    }
    let mut cut = Intact::new(Announced(Script { whole: false, ..script(&["ab", "c"]) }, 3), Version::HTTP_2);
    assert_eq!(cut.frame().await.unwrap().unwrap().into_data().unwrap(), "ab");
    assert!(cut.frame().await.unwrap().is_err(), "the upstream must not see the third byte");
    let whole = Intact::new(Announced(script(&["ab", "c"]), 3), Version::HTTP_2);
    assert_eq!(whole.collect().await.unwrap().to_bytes(), "abc");
}

async fn captured(body: Script, limit: u64, memory: u64) -> String {
    match capture(body, limit, SECOND, &Memory::new(memory)).await {
        Capture::Whole { bytes, trailers, .. } => {
            format!("whole {} {}", String::from_utf8_lossy(&bytes), trailers.len())
        }
        Capture::TooLarge { start, rest, .. } => {
            let rest = rest.collect().await.unwrap().to_bytes();
            format!("too large {} + {}", String::from_utf8_lossy(&start), String::from_utf8_lossy(&rest))
        }
        Capture::Broken => "broken".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_whole_too_large_or_broken_and_no_byte_is_lost() {
    let mut with_trailers = script(&["ab", "c"]);
    let mut fields = HeaderMap::new();
    fields.append(HeaderName::from_static("x"), HeaderValue::from_static("1"));
    fields.append(HeaderName::from_static("x"), HeaderValue::from_static("2"));
    with_trailers.frames.push_back(Ok(Frame::trailers(fields)));
    assert_eq!(captured(with_trailers, 3, 100).await, "whole abc 2");
    assert_eq!(captured(script(&["ab", "cd", "ef"]), 3, 100).await, "too large abcd + ef");
    assert_eq!(captured(script(&["ab", "cd", "ef"]), 100, 3).await, "too large abcd + ef", "no memory");
    assert_eq!(captured(Script { stalls: true, ..script(&["ab"]) }, 3, 100).await, "broken");
    let mut broken = script(&["ab"]);
    broken.frames.push_back(Err("reset"));
    assert_eq!(captured(broken, 3, 100).await, "broken");
}

#[tokio::test(start_paused = true)]
async fn a_refused_body_is_drained_as_far_as_it_is_cheap() {
    assert!(drain(script(&["ab"])).await);
    assert!(!drain(Script { stalls: true, ..script(&["ab"]) }).await);
    let (mut sender, endless) = Channel::<Bytes, BoxError>::new(1);
    let pour = tokio::spawn(async move {
        let mut sent = 0_u32;
        while sender.send_data(Bytes::from(vec![0; 64 * 1024])).await.is_ok() {
            sent += 1;
        }
        sent
    });
    assert!(!drain(endless).await);
    assert!(pour.await.unwrap() <= 7, "a quarter of a mebibyte, and what was on its way");
}

#[test]
fn trailer_names_are_said_once() {
    let trailers: HeaderList = [("a", "1"), ("b", "2"), ("a", "3")]
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .to_vec();
    assert_eq!(trailer_names(&trailers).unwrap(), "a, b");
    assert!(trailer_names(&HeaderList::new()).is_none());
}
