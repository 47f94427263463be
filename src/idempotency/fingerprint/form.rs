//! `application/x-www-form-urlencoded` as pairs of bytes (WHATWG URL §5.1, without its lossy step to text).

use std::borrow::Cow;

/// One field, decoded.
pub(super) struct Pair<'a> {
    /// Its name.
    pub(super) name: Cow<'a, [u8]>,
    /// Its value; `None` where there is no `=`, which some frameworks tell from an empty value.
    pub(super) value: Option<Cow<'a, [u8]>>,
}

/// The fields of `body` but for those whose name is in `ignore`, sorted by name; those of one name stay in order.
/// `None` where an escape is malformed: decoders differ over what it means. Empty fields (`a=1&&b=2`) do not count.
pub(super) fn pairs<'a>(body: &'a [u8], ignore: &[String]) -> Option<Vec<Pair<'a>>> {
    let mut pairs = Vec::new();
    for field in body.split(|&byte| byte == b'&').filter(|field| !field.is_empty()) {
        let mut halves = field.splitn(2, |&byte| byte == b'=');
        let name = decode(halves.next()?)?;
        let value = halves.next().map(|value| decode(value).ok_or(())).transpose().ok()?;
        if !ignore.iter().any(|ignored| ignored.as_bytes() == &*name) {
            pairs.push(Pair { name, value });
        }
    }
    pairs.sort_by(|one, other| one.name.cmp(&other.name));
    Some(pairs)
}

/// `text` with `+` and `%XX` decoded, `None` where an escape is malformed.
fn decode(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some(plain) = text.iter().position(|byte| matches!(byte, b'+' | b'%')) else {
        return Some(Cow::Borrowed(text));
    };
    let (plain, coded) = text.split_at(plain);
    let mut decoded = Vec::with_capacity(text.len());
    decoded.extend_from_slice(plain);
    let mut bytes = coded.iter();
    while let Some(&byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => hex(*bytes.next()?)? << 4 | hex(*bytes.next()?)?,
            byte => byte,
        });
    }
    Some(Cow::Owned(decoded))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests;
