//! Tests of `telemetry::log`.

use std::sync::{Mutex, PoisonError};

use tracing::subscriber::with_default;

use super::*;
use crate::idempotency::WallMillis;

/// Collects what a closure logs, as lines of `style`.
fn logged(style: Style, act: impl FnOnce()) -> Vec<String> {
    struct Collect(Arc<Mutex<Vec<String>>>, Style);
    impl<S: Subscriber> Layer<S> for Collect {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let line = line::render(event, self.1, WallMillis(1_796_098_728_123));
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    }
    let lines = Arc::new(Mutex::new(Vec::new()));
    let layer = Collect(Arc::clone(&lines), style).with_filter(targets(Level::INFO));
    with_default(tracing_subscriber::registry().with(layer), act);
    let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut *lines)
}

const TEXT: Style = Style::Text { colour: false };

#[test]
fn a_json_line_has_flat_fields_with_their_types() {
    let lines = logged(Style::Json, || {
        tracing::info!(address = "127.0.0.1:8080", count = 3_u64, negative = -3_i64, ok = true, "listening");
    });
    assert_eq!(
        lines,
        [concat!(
            r#"{"timestamp":"2026-12-01T04:18:48.123Z","level":"INFO","target":"oncegate::telemetry::log::tests","#,
            r#""message":"listening","address":"127.0.0.1:8080","count":3,"negative":-3,"ok":true}"#,
            "\n"
        )]
    );
}

#[test]
fn a_text_line_shows_message_and_fields() {
    let lines = logged(TEXT, || tracing::warn!(route = "pay", reason = "two words", empty = "", "refused"));
    assert_eq!(lines, ["2026-12-01T04:18:48.123Z WARN  refused route=pay reason=\"two words\" empty=\"\"\n"]);
}

#[test]
fn no_field_or_message_can_forge_a_line_or_steer_a_terminal() {
    let nasty = "a\n{\"level\":\"info\"}\r\x1b[2J\u{9b}31m\u{7f}\0\u{202e}\u{2028}\"\\";
    for style in [TEXT, Style::Json] {
        let lines = logged(style, || tracing::info!(nasty, "{}", nasty));
        let [line] = lines.as_slice() else { panic!("one line") };
        let inner = line.strip_suffix('\n').expect("a line feed at the end");
        assert!(!inner.chars().any(char::is_control), "{inner:?}");
        assert!(!inner.contains(['\u{202e}', '\u{2028}']), "{inner:?}");
    }
    let lines = logged(Style::Json, || tracing::info!(nasty, "{}", nasty));
    let value: serde_json::Value = serde_json::from_str(&lines[0]).expect("valid JSON");
    assert_eq!(value["nasty"], nasty);
    assert_eq!(value["message"], nasty);
}

#[test]
fn an_error_is_written_with_its_sources() {
    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::io::Error);
    let error = Outer(std::io::Error::other("inner"));
    let lines = logged(TEXT, || tracing::error!(error = &error as &dyn std::error::Error, "failed"));
    assert_eq!(lines, ["2026-12-01T04:18:48.123Z ERROR failed error=\"outer: inner\"\n"]);
}

#[test]
fn a_field_named_like_a_member_of_the_line_does_not_repeat_it() {
    let lines = logged(Style::Json, || tracing::info!(level = "x", timestamp = 1, "m"));
    let value: serde_json::Value = serde_json::from_str(&lines[0]).expect("valid JSON");
    assert_eq!(value["level"], "INFO");
    assert_eq!(value["level_"], "x");
    assert_eq!(value["timestamp_"], 1);
}

#[test]
fn a_long_text_is_cut_between_two_characters() {
    let long = "é".repeat(5000);
    let lines = logged(Style::Json, || tracing::info!(path = long, "m"));
    let value: serde_json::Value = serde_json::from_str(&lines[0]).expect("valid JSON");
    assert_eq!(value["path"], format!("{}…", "é".repeat(1024)));
}

#[test]
fn libraries_are_not_heard_below_warn() {
    let lines = logged(TEXT, || {
        tracing::info!(target: "h2::hpack", "authorization: secret");
        tracing::warn!(target: "h2", "w");
        tracing::debug!("below the level");
        tracing::info!("ours");
    });
    let messages: Vec<_> = lines.iter().map(|line| line[25..].trim_end()).collect();
    assert_eq!(messages, ["WARN  w", "INFO  ours"]);
    assert!(!targets(Level::TRACE).would_enable("h2::hpack", &Level::INFO));
    assert!(!targets(Level::ERROR).would_enable("h2::hpack", &Level::WARN));
}

#[test]
fn a_writer_that_hangs_blocks_nobody_who_logs() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let written = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&written);
    let queue = Queue::start(move |line| {
        let _ = wait.recv();
        sink.lock().unwrap_or_else(PoisonError::into_inner).push(String::from_utf8_lossy(line).into_owned());
    });
    for number in 0..20_000 {
        queue.write(format!("{number}\n"));
    }
    drop(go);
    queue.flush();
    let written = written.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(written.len() >= 8192, "what was queued is written: {}", written.len());
    assert!(written.len() < 20_000, "what did not fit is dropped");
    assert_eq!(written[0], "0\n");
}
