//! One event as one line. Whatever a client sent: no byte of it can end the line or steer a terminal.

use std::{error::Error, fmt, fmt::Write as _};

use tracing::{
    Event, Level,
    field::{Field, Visit},
};

use crate::{idempotency::WallMillis, telemetry::timestamp::rfc3339};

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// `2026-12-01T04:18:48.123Z INFO listening address=127.0.0.1:8080`
    Text {
        /// Whether level and field names are coloured.
        colour: bool,
    },
    /// `{"timestamp":"…","level":"INFO","target":"oncegate::app","message":"listening","address":"127.0.0.1:8080"}`
    Json,
}

/// Renders an event, line feed included.
pub(super) fn render(event: &Event<'_>, style: Style, at: WallMillis) -> String {
    let mut fields = Fields { target: event.metadata().target().to_owned(), ..Fields::default() };
    event.record(&mut fields);
    let level = *event.metadata().level();
    match style {
        Style::Json => json(&fields, level, at),
        Style::Text { colour } => text(&fields, level, at, colour),
    }
}

/// The fields of an event in order.
#[derive(Default)]
struct Fields {
    target: String,
    message: String,
    rest: Vec<(&'static str, Value)>,
}

enum Value {
    Text(String),
    /// A number or a truth value, as JSON writes it.
    Literal(String),
}

/// The longest text in a field, in bytes. A request line may have 64 KiB, and thousands of lines may wait.
const LONGEST: usize = 2048;

impl Fields {
    fn text(&mut self, field: &Field, mut value: String) {
        // A backtrace is long, ours, and rare.
        if value.len() > LONGEST && field.name() != "backtrace" {
            value.truncate(value.floor_char_boundary(LONGEST));
            value.push('…');
        }
        match field.name() {
            "message" => self.message = value,
            // What the `log` crate's records look like when they come through tracing.
            "log.target" => self.target = value,
            "log.module_path" | "log.file" => {}
            name => self.rest.push((name, Value::Text(value))),
        }
    }

    fn literal(&mut self, field: &Field, value: String) {
        if field.name() != "log.line" {
            self.rest.push((field.name(), Value::Literal(value)));
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, format!("{value:?}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut chain = value.to_string();
        let mut source = value.source();
        while let Some(error) = source {
            let _ = write!(chain, ": {error}");
            source = error.source();
        }
        self.text(field, chain);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.literal(field, value.to_string());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.literal(field, value.to_string());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.literal(field, value.to_string());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        if value.is_finite() { self.literal(field, value.to_string()) } else { self.text(field, value.to_string()) }
    }
}

fn json(fields: &Fields, level: Level, at: WallMillis) -> String {
    let mut line = String::with_capacity(256);
    let _ = write!(line, "{{\"timestamp\":\"{}\",\"level\":\"{}\"", rfc3339(at), level.as_str());
    for (field, value) in [("target", &fields.target), ("message", &fields.message)] {
        let _ = write!(line, ",\"{field}\":");
        quote(&mut line, value);
    }
    for (field, value) in &fields.rest {
        line.push(',');
        // A member may occur once only: what an event calls like our own members gets a line under its name.
        match *field {
            "timestamp" | "level" | "target" => quote(&mut line, &format!("{field}_")),
            field => quote(&mut line, field),
        }
        line.push(':');
        match value {
            Value::Text(text) => quote(&mut line, text),
            Value::Literal(literal) => line.push_str(literal),
        }
    }
    line.push_str("}\n");
    line
}

fn text(fields: &Fields, level: Level, at: WallMillis, colour: bool) -> String {
    let paint = |code: &'static str| if colour { code } else { "" };
    let (dim, reset) = (paint("\x1b[2m"), paint("\x1b[0m"));
    let hue = paint(match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        _ => "\x1b[34m",
    });
    let mut line = String::with_capacity(160);
    let _ = write!(line, "{dim}{}{reset} {hue}{:<5}{reset} ", rfc3339(at), level.as_str());
    escape(&mut line, &fields.message);
    for (field, value) in &fields.rest {
        let _ = write!(line, " {dim}{field}={reset}");
        match value {
            Value::Text(text) if is_plain(text) => line.push_str(text),
            Value::Text(text) => quote(&mut line, text),
            Value::Literal(literal) => line.push_str(literal),
        }
    }
    line.push('\n');
    line
}

/// Whether a value can stand without quotes: it reads as one word.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "-_./:@+%*?&#~,[]".contains(c))
}

/// A JSON string, also understood as such in a text line.
fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c => push_harmless(out, c),
        }
    }
    out.push('"');
}

fn escape(out: &mut String, text: &str) {
    text.chars().for_each(|c| push_harmless(out, c));
}

/// Controls (C0, DEL, C1: a terminal obeys them), line separators and writing-direction overrides are escaped
/// as JSON does.
fn push_harmless(out: &mut String, c: char) {
    let harmful = c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if harmful => {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        }
        c => out.push(c),
    }
}
