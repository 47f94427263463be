//! Logs: set-up and format.

/// How the gate logs (`[log]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The least severe level that is written.
    pub level: tracing::Level,
    /// How it is written.
    pub format: Format,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// One line of text.
    Text,
    /// One JSON object a line.
    Json,
}
