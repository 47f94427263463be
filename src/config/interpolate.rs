//! `${VAR}`, `${VAR:-default}` and `${file:/path}` inside string values, filled in after parsing.
//!
//! So a value can never change the structure of a file, and an unset variable in a comment is no error. A dollar
//! sign that is not followed by a brace is a dollar sign; `$${` stands for a plain `${`. Keys are left alone, and
//! what is filled in is not looked at again.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use toml::de::{DeTable, DeValue};

use super::read::{Complaint, Filled, Reader};

/// The most that is read from a file: it holds a secret, not a document.
const LARGEST_FILE: u64 = 64 * 1024;

/// Where values come from.
pub(super) struct Values<'a> {
    pub(super) env: &'a dyn Fn(&str) -> Option<String>,
    /// What relative paths are relative to.
    pub(super) base_dir: &'a Path,
}

/// Fills in every string of `table`. What cannot be is reported, and its value is not looked at any more.
pub(super) fn fill(table: &mut DeTable<'_>, values: &Values<'_>, reader: &mut Reader<'_>) {
    for (_, value) in table.iter_mut() {
        fill_value(value, values, reader);
    }
}

fn fill_value(value: &mut toml::Spanned<DeValue<'_>>, values: &Values<'_>, reader: &mut Reader<'_>) {
    let span = value.span();
    match value.get_mut() {
        DeValue::String(text) if text.contains("${") => match expand(text, values) {
            Ok(Expanded { text: filled, first }) => {
                *text = filled.into();
                if let Some(first) = first {
                    reader.mark(span.start, Filled::From(first));
                }
            }
            Err((expression, complaint)) => {
                // The expression itself where it stands in the text as it is, else the whole value.
                let at = reader.source().slice(&span).find(&expression);
                let place = at.map_or(span.clone(), |at| span.start + at..span.start + at + expression.len());
                reader.error(place, complaint.message, complaint.hint);
                reader.mark(span.start, Filled::Failed);
            }
        },
        DeValue::Array(values_of) => values_of.iter_mut().for_each(|value| fill_value(value, values, reader)),
        DeValue::Table(table) => fill(table, values, reader),
        DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {}
    }
}

struct Expanded {
    text: String,
    /// The first expression in it; `None` where there were only escapes.
    first: Option<String>,
}

fn expand(text: &str, values: &Values<'_>) -> Result<Expanded, (String, Complaint)> {
    let mut expanded = Expanded { text: String::with_capacity(text.len()), first: None };
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        if let Some(before) = rest[..start].strip_suffix('$') {
            expanded.text.push_str(before);
            expanded.text.push_str("${");
            rest = &rest[start + 2..];
            continue;
        }
        expanded.text.push_str(&rest[..start]);
        let Some(end) = rest[start..].find('}').map(|end| start + end) else {
            let hint = "write `$${` for a plain `${`";
            return Err((rest[start..].to_owned(), Complaint::new("`${` has no closing brace").hint(hint)));
        };
        let expression = &rest[start..=end];
        let value = evaluate(&rest[start + 2..end], values).map_err(|complaint| (expression.to_owned(), complaint))?;
        expanded.text.push_str(&value);
        // Without the default: it may be as secret as what it stands in for.
        let source = expression.split(":-").next().unwrap_or_default().trim_end_matches('}');
        expanded.first.get_or_insert_with(|| format!("{source}}}"));
        rest = &rest[end + 1..];
    }
    expanded.text.push_str(rest);
    Ok(expanded)
}

/// The value of what stands between the braces.
fn evaluate(inner: &str, values: &Values<'_>) -> Result<String, Complaint> {
    if let Some(path) = inner.strip_prefix("file:") {
        return read_file(path, values.base_dir);
    }
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let mut bytes = name.bytes();
    let proper = bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !proper {
        let hint = "the forms are `${VAR}`, `${VAR:-default}` and `${file:/path}`; write `$${` for a plain `${`";
        return Err(Complaint::new(format!("`{name}` is not the name of a variable")).hint(hint));
    }
    if default.is_some_and(|default| default.contains("${")) {
        return Err(Complaint::new(format!("the default of `{name}` cannot itself hold `${{`")));
    }
    match ((values.env)(name), default) {
        (Some(value), None) => Ok(value),
        // As in a shell, an empty variable counts as unset where there is a default.
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => {
            let hint = format!("set it, or give a default: `${{{name}:-…}}`");
            Err(Complaint::new(format!("the environment variable `{name}` is not set")).hint(hint))
        }
    }
}

/// The content of a file, without the newline at its end.
fn read_file(path: &str, base_dir: &Path) -> Result<String, Complaint> {
    if path.is_empty() {
        return Err(Complaint::new("`${file:}` names no file"));
    }
    let path: PathBuf = base_dir.join(path);
    let cannot = |why: String| Complaint::new(format!("cannot read the file {}: {why}", path.display()));
    let file = std::fs::File::open(&path).map_err(|error| cannot(error.to_string()))?;
    let mut content = Vec::new();
    file.take(LARGEST_FILE + 1).read_to_end(&mut content).map_err(|error| cannot(error.to_string()))?;
    if u64::try_from(content.len()).is_ok_and(|length| length > LARGEST_FILE) {
        return Err(cannot(format!("it is larger than {} KiB", LARGEST_FILE / 1024)));
    }
    let mut content = String::from_utf8(content).map_err(|_| cannot("it is not UTF-8".to_owned()))?;
    if content.ends_with('\n') {
        content.pop();
        if content.ends_with('\r') {
            content.pop();
        }
    }
    Ok(content)
}

#[cfg(test)]
mod tests;
