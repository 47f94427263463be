//! What is wrong with a configuration: one problem, its place, and how it is shown to people and to programs.

use std::{fmt, ops::Range, sync::Arc};

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::source::Source;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// It can, and probably should not.
    Warning,
    /// Something worth knowing about it.
    Note,
}

impl Severity {
    /// The word for it.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }

    fn level(self) -> Level<'static> {
        match self {
            Self::Error => Level::ERROR,
            Self::Warning => Level::WARNING,
            Self::Note => Level::NOTE,
        }
    }
}

/// One problem of a configuration. Never shows the value of a secret.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The file, as it was named.
    pub file: String,
    /// Line, from 1; 1 where the problem is with the file as a whole.
    pub line: usize,
    /// Column in characters, from 1; 1 where the problem is with the file as a whole.
    pub column: usize,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What may help.
    pub hint: Option<String>,
    /// The place in the file's text, in bytes; `None` where the problem is with the file as a whole.
    pub span: Option<Range<usize>>,
    source: Arc<Source>,
}

impl Problem {
    pub(super) fn new(
        source: &Arc<Source>,
        severity: Severity,
        span: Option<Range<usize>>,
        message: impl Into<String>,
        hint: Option<String>,
    ) -> Self {
        let (line, column) = span.as_ref().map_or((1, 1), |span| {
            let place = source.place(span.start);
            (place.line, place.column)
        });
        let source = Arc::clone(source);
        Self { file: source.name.clone(), line, column, severity, message: message.into(), hint, span, source }
    }

    /// For a terminal: the message, `file:line:col`, the line with a caret, the hint. Ends without a newline.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let title = self.severity.level().primary_title(self.message.as_str());
        let hint = self.hint.as_deref().map(|hint| Level::HELP.message(hint));
        let group = match &self.span {
            Some(span) => {
                let (line, within) = self.source.line(span);
                let snippet = Snippet::source(line).path(self.file.as_str()).line_start(self.line);
                title.element(snippet.annotation(AnnotationKind::Primary.span(within))).elements(hint)
            }
            None => {
                let origin = annotate_snippets::Origin::path(self.file.as_str());
                Group::with_title(title).element(origin).elements(hint)
            }
        };
        renderer.render(&[group])
    }

    /// For programs: `{file, line, column, severity, message, hint}`, `hint` null where there is none.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "severity": self.severity.label(),
            "message": self.message,
            "hint": self.hint,
        })
    }
}

impl fmt::Display for Problem {
    /// On one line, for logs: `file:line:col: message (hint)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if self.span.is_some() {
            write!(f, "{}:{}:", self.line, self.column)?;
        }
        write!(f, " {}", self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}

/// All problems of a configuration that cannot be used, its warnings included, in the order of the text.
#[derive(Clone, Debug)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// See [`render`].
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        render(&self.0, color)
    }

    /// See [`to_json`].
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        to_json(&self.0)
    }
}

impl fmt::Display for Problems {
    /// One problem a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Problems for a terminal, an empty line between two. Ends with a newline unless there are none.
#[must_use]
pub fn render(problems: &[Problem], color: bool) -> String {
    let rendered: Vec<_> = problems.iter().map(|problem| problem.render(color) + "\n").collect();
    rendered.join("\n")
}

/// Problems for programs: the array that `check --format json` prints.
#[must_use]
pub fn to_json(problems: &[Problem]) -> serde_json::Value {
    problems.iter().map(Problem::to_json).collect()
}

#[cfg(test)]
mod tests;
