//! A multipart body without its boundary (RFC 2046 §5.1.1), which most clients draw anew for each try.
//!
//! Strict on purpose: what one parser takes for a delimiter and another for content is not taken apart here but
//! compared raw, boundary and all. So lines must end in CRLF, and the boundary must occur in delimiters only.

/// A multipart body, taken apart.
pub(super) struct Parsed<'a> {
    /// What stands before the first delimiter; `None` where the body begins with it.
    pub(super) preamble: Option<&'a [u8]>,
    /// Header lines and content of each part, byte for byte.
    pub(super) parts: Vec<&'a [u8]>,
    /// What stands behind the last delimiter, its line end included. It counts, as the preamble does.
    pub(super) epilogue: &'a [u8],
}

/// Takes `body` apart, `None` where `boundary` does not do that beyond doubt.
pub(super) fn parse<'a>(body: &'a [u8], boundary: &[u8]) -> Option<Parsed<'a>> {
    let delimiter = delimiter(boundary);
    let mut preamble = None;
    let mut parts = Vec::new();
    // What precedes the next delimiter begins here; the first such thing is the preamble.
    let mut start = 0;
    let mut inside = false;
    loop {
        let at = start + find(body.get(start..)?, &delimiter)?;
        let before = match at {
            0 => None,
            // The line end before a delimiter belongs to it, and is not the line end of the delimiter before.
            _ => Some(body.get(start..at)?.strip_suffix(b"\r\n")?),
        };
        match before {
            Some(part) if inside => parts.push(part),
            Some(_) | None => preamble = before,
        }
        inside = true;
        let after = body.get(at + delimiter.len()..)?;
        if after.starts_with(b"\r\n") {
            start = at + delimiter.len() + 2;
            continue;
        }
        let epilogue = after.strip_prefix(b"--")?;
        let is_proper = epilogue.is_empty() || epilogue.starts_with(b"\r\n");
        return (is_proper && find(epilogue, &delimiter).is_none()).then_some(Parsed { preamble, parts, epilogue });
    }
}

/// Whether `body` has the delimiter of `boundary` in it, at whatever place.
pub(super) fn mentions(body: &[u8], boundary: &[u8]) -> bool {
    find(body, &delimiter(boundary)).is_some()
}

fn delimiter(boundary: &[u8]) -> Vec<u8> {
    [b"--", boundary].concat()
}

/// Where `needle` begins in `haystack`.
fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window.first() == needle.first() && window == needle)
}

#[cfg(test)]
mod tests;
