//! From TOML to the `Settings` of every room.
//!
//! A text is parsed with every syntax error in it, `${…}` is filled in, the tree is read against one declaration
//! of all keys (`raw`), what is read is resolved (`resolve`), and what is legal but unwise is said (`advice`). All
//! problems of a text come at once, each with its place.

mod advice;
mod interpolate;
mod mask;
mod outcome;
mod places;
mod problem;
mod quick;
mod raw;
mod read;
mod resolve;
mod schema;
mod source;
mod store_url;
mod units;
mod values;

use std::{path::Path, sync::Arc};

use toml::de::DeTable;

use self::{interpolate::Values, raw::File, read::Reader, source::Source};
use crate::{admin, proxy, routes::RouteTable, store, telemetry::log, upstream};

pub use problem::{Problem, Problems, Severity, render, to_json};
pub use quick::quick;
pub use schema::schema;

/// Everything a gate is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `[server]`, `[limits]`
    pub proxy: proxy::Settings,
    /// `[upstream]`
    pub upstream: upstream::Settings,
    /// `[store]`
    pub store: store::Settings,
    /// `[[route]]`, `[defaults]`
    pub routes: RouteTable,
    /// `[admin]`
    pub admin: admin::Settings,
    /// `[log]`
    pub log: log::Settings,
}

impl Settings {
    /// What of `new` a running gate cannot take over by a reload, as configuration calls it (CONTRACT §6).
    #[must_use]
    pub fn needs_restart(&self, new: &Self) -> Vec<&'static str> {
        let mut changed = Vec::new();
        if self.proxy.listen != new.proxy.listen {
            changed.push("server.listen");
        }
        if self.admin.listen != new.admin.listen {
            changed.push("admin.listen");
        }
        if self.store != new.store {
            changed.push("[store]");
        }
        changed
    }
}

/// A configuration that can be used.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What it says.
    pub settings: Settings,
    /// What is unwise about it, and notes; in the order of the text.
    pub warnings: Vec<Problem>,
}

/// Where `${VAR}` comes from; usually the process's environment.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Loads the configuration file `path`. Relative paths in it are relative to its folder.
///
/// # Errors
/// Everything that is wrong with the file, warnings included.
pub fn load(path: &Path, env: Env<'_>) -> Result<Loaded, Problems> {
    let name = path.display().to_string();
    let whole = |message: String, hint: Option<String>| {
        let source = Arc::new(Source::new(name.as_str(), ""));
        Problems(vec![Problem::new(&source, Severity::Error, None, message, hint)])
    };
    if path.is_dir() {
        let hint = path.join("oncegate.toml");
        let hint = hint.is_file().then(|| format!("did you mean {}?", hint.display()));
        return Err(whole("this is a folder, not a configuration file".to_owned(), hint));
    }
    let bytes = std::fs::read(path).map_err(|error| whole(format!("cannot read the file: {error}"), None))?;
    let base_dir = path.parent().unwrap_or(Path::new(""));
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse(text, &name, base_dir, env),
        Err(error) => {
            let text = String::from_utf8_lossy(&bytes);
            let source = Arc::new(Source::new(name, &text));
            let at = error.valid_up_to();
            let place = Some(at..at + char::REPLACEMENT_CHARACTER.len_utf8());
            let hint = Some("save the file as UTF-8".to_owned());
            Err(Problems(vec![Problem::new(&source, Severity::Error, place, "the file is not UTF-8", hint)]))
        }
    }
}

/// Parses the configuration `text`, which messages call `name`. Relative paths in it are relative to `base_dir`.
///
/// # Errors
/// Everything that is wrong with the text, warnings included.
pub fn parse(text: &str, name: &str, base_dir: &Path, env: Env<'_>) -> Result<Loaded, Problems> {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let source = Arc::new(Source::new(name, text));
    let mut reader = Reader::new(&source);
    let (mut tree, errors) = DeTable::parse_recoverable(text);
    let broken: Vec<_> =
        errors.iter().map(|error| error.span().map_or(0, |span| source.place(span.start).line)).collect();
    for error in &errors {
        let (message, hint) = syntax_problem(error.message());
        reader.error(error.span(), message, hint.map(str::to_owned));
    }
    interpolate::fill(tree.get_mut(), &Values { env, base_dir }, &mut reader);
    let file = File::read(tree.get_ref(), &mut reader);
    if !errors.is_empty() {
        // What was guessed from a broken line is not judged, and neither is what may be missing because of it.
        let syntax = errors.len();
        let mut index = 0;
        reader.problems.retain(|problem| {
            index += 1;
            index <= syntax || !broken.contains(&problem.line)
        });
        return finish(None, reader);
    }
    file.require(&mut reader);
    let settings = resolve::resolve(&file, base_dir, &mut reader);
    if let Some(settings) = &settings {
        advice::advise(&file, settings, env, &mut reader);
    }
    finish(settings, reader)
}

/// Sorts what was found: usable settings with their warnings, or all problems.
fn finish(settings: Option<Settings>, reader: Reader<'_>) -> Result<Loaded, Problems> {
    let mut problems = reader.problems;
    problems.sort_by(|one, other| {
        let key = |problem: &Problem| (problem.span.as_ref().map(|span| span.start), problem.severity);
        key(one).cmp(&key(other)).then_with(|| one.message.cmp(&other.message))
    });
    problems.dedup_by(|one, other| one.span == other.span && one.message == other.message);
    let usable = problems.iter().all(|problem| problem.severity != Severity::Error);
    // Beside an error a note is only in the way.
    problems.retain(|problem| usable || problem.severity != Severity::Note);
    match settings.filter(|_| usable) {
        Some(settings) => Ok(Loaded { settings, warnings: problems }),
        None => Err(Problems(problems)),
    }
}

/// The parser's message as one of ours, and what may help. It comes without the text it is about.
fn syntax_problem(message: &str) -> (String, Option<&'static str>) {
    // "Expected nothing" is true of everything that is too much.
    let message = message.strip_suffix(", expected nothing").unwrap_or(message);
    let hint = if message.starts_with("string values must be quoted") || message.starts_with("invalid float") {
        Some("text, durations, sizes and addresses stand in quotes: \"60s\"")
    } else if message == "duplicate key" {
        Some("a key, and a table, is there once")
    } else {
        None
    };
    (format!("this is not TOML: {message}"), hint)
}

#[cfg(test)]
mod tests;
