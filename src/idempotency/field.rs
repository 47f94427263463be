//! Field values as bytes: optional white space, and a media type with its parameters (RFC 9110 §5.6).
//!
//! Values are bytes here and everywhere in the core. Code that asks a value for its text and skips it where that
//! fails would skip just the value that somebody made up.

/// `value` without optional white space (space and tab) at its ends. HTTP/1.1 parsers remove it, HTTP/2 lets it pass.
pub(crate) fn trim_ows(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Splits `value` at every `separator` that does not stand within a quoted string, and trims the pieces. `None` where
/// a quoted string has no end.
pub(crate) fn split_unquoted(value: &[u8], separator: u8) -> Option<Vec<&[u8]>> {
    let mut pieces = Vec::new();
    let (mut start, mut quoted, mut escaped) = (0, false, false);
    for (index, &byte) in value.iter().enumerate() {
        if escaped {
            escaped = false;
        } else if quoted {
            quoted = byte != b'"';
            escaped = byte == b'\\';
        } else if byte == b'"' {
            quoted = true;
        } else if byte == separator {
            pieces.push(trim_ows(value.get(start..index)?));
            start = index + 1;
        }
    }
    pieces.push(trim_ows(value.get(start..)?));
    (!quoted).then_some(pieces)
}

/// The value of one parameter: a quoted string unquoted, anything else as it is. `None` where the quoting is broken.
pub(crate) fn unquote(value: &[u8]) -> Option<Vec<u8>> {
    let Some(inside) = value.strip_prefix(b"\"") else {
        return (!value.contains(&b'"')).then(|| value.to_vec());
    };
    let mut bytes = inside.iter();
    let mut text = Vec::with_capacity(inside.len());
    loop {
        match bytes.next()? {
            b'"' => return bytes.as_slice().is_empty().then_some(text),
            b'\\' => text.push(*bytes.next()?),
            byte => text.push(*byte),
        }
    }
}

#[cfg(test)]
mod tests;
