//! A configuration without a file: `run --upstream URL …`. The command line is the text, so problems show it.

use std::{path::Path, sync::Arc};

use http::Method;

use super::{
    Env, Loaded, Problems, advice, finish,
    places::Named,
    raw::{Document, File, Head, Route},
    read::{At, Complaint, Needed, Reader, Span, Table, Text},
    resolve,
    source::Source,
};
use crate::{idempotency::policy::Anonymous, routes::PathTemplate};

/// The settings of `run --upstream URL [--listen ADDR] [--admin ADDR|off] [--store URL] [--require 'POST /path']…`.
///
/// Every POST and PATCH that carries a key is protected, `anonymous = "share"`, in the embedded store
/// `oncegate.redb` of the working directory unless `store` says otherwise. Each of `require` is a route whose key
/// is required.
///
/// # Errors
/// Everything that is wrong with the flags.
pub fn quick(
    upstream: &str,
    listen: Option<&str>,
    admin: Option<&str>,
    store: Option<&str>,
    require: &[String],
    env: Env<'_>,
) -> Result<Loaded, Problems> {
    let mut line = Line::default();
    let upstream = line.flag("--upstream", upstream);
    let listen = listen.map(|value| line.flag("--listen", value));
    let admin = admin.map(|value| line.flag("--admin", value));
    let store = store.map(|value| line.flag("--store", value));
    let require: Vec<_> = require.iter().map(|value| line.flag("--require", value)).collect();

    let source = Arc::new(Source::new("command line", &line.text));
    let mut reader = Reader::new(&source);
    let mut document = Document::initial();
    document.upstream.url = match line.parse(upstream, &mut reader) {
        Some(url) => Needed::Given(url),
        None => Needed::Wrong,
    };
    line.parse_into(listen, &mut document.server.listen, &mut reader);
    line.parse_into(admin, &mut document.admin.listen, &mut reader);
    line.parse_into(store, &mut document.store.url, &mut reader);
    document.defaults.anonymous.value = Anonymous::Share;
    let mut routes = Vec::with_capacity(require.len());
    for span in require {
        if let Some(required) = line.parse::<Required>(span.clone(), &mut reader) {
            let Required { method, path } = required.value;
            let name = Named(format!("{method} {path}"));
            let mut head = Head::initial();
            head.name = Needed::Given(At::given(name, span.clone()));
            head.path = Needed::Given(At::given(path, span.clone()));
            let mut rules = document.defaults.clone();
            rules.methods = At::given(vec![At::given(method, span.clone())], span.clone());
            rules.key.required = At::given(true, span.clone());
            routes.push(Route { head, rules, place: span });
        }
    }
    let file = File { document, routes, upstream: None };
    // Relative paths are relative to the working directory.
    let settings = resolve::resolve(&file, Path::new(""), &mut reader);
    if let Some(settings) = &settings {
        advice::advise(&file, settings, env, &mut reader);
    }
    finish(settings, reader)
}

/// The flags as a text of one flag a line.
#[derive(Default)]
struct Line {
    text: String,
}

impl Line {
    /// Adds a flag and returns the place of its value.
    fn flag(&mut self, name: &str, value: &str) -> Span {
        self.text.push_str(name);
        self.text.push(' ');
        let start = self.text.len();
        // A newline would end the line that a problem shows; no value has one in it and is right.
        self.text.extend(value.chars().map(|c| if c == '\n' { '␊' } else { c }));
        let span = start..self.text.len();
        self.text.push('\n');
        span
    }

    fn parse<T: Text>(&self, span: Span, reader: &mut Reader<'_>) -> Option<At<T>> {
        reader.parse(&self.text[span.clone()], span.clone()).map(|value| At::given(value, span))
    }

    fn parse_into<T: Text>(&self, span: Option<Span>, into: &mut At<T>, reader: &mut Reader<'_>) {
        if let Some(value) = span.and_then(|span| self.parse(span, reader)) {
            *into = value;
        }
    }
}

/// `POST /path`
#[derive(Clone, PartialEq)]
struct Required {
    method: Method,
    path: PathTemplate,
}

impl Text for Required {
    const EXPECTED: &'static str = "a method and a path like \"POST /payments\"";

    fn parse(text: &str) -> Result<Self, Complaint> {
        let Some((method, path)) = text.trim().split_once(' ') else {
            let complaint = Complaint::new(format!("`{text}` is not a method and a path"));
            return Err(complaint.hint("such as --require 'POST /payments'"));
        };
        Ok(Self { method: Text::parse(method)?, path: Text::parse(path.trim_start())? })
    }
}

#[cfg(test)]
mod tests;
