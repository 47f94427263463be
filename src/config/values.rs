//! The values that are not particular to one room: numbers, units, choices, names of header fields and methods.

use std::{ops::RangeInclusive, time::Duration};

use http::{HeaderName, Method};
use toml::de::DeValue;

use super::{
    read::{Complaint, Filled, Found, Reader, Text, Value},
    schema::{Shape, closest},
    units,
};
use crate::{
    idempotency::policy::{Anonymous, BodyForm, Mode, OnStoreDown, OnUnknown, StatusPattern},
    telemetry::log::Format,
    upstream::{ForwardedStyle, HostPolicy},
};

impl Value for bool {
    fn shape() -> Shape {
        Shape::Boolean
    }

    fn read(found: &Found<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        scalar(found, reader, "true or false", |value| match value {
            DeValue::Boolean(value) => Some(Ok(*value)),
            DeValue::String(text) => Some(text.parse().map_err(|_| Complaint::new("not a boolean"))),
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
                None
            }
        })
    }
}

/// A whole number between `MIN` and `MAX`, both included.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Whole<const MIN: u64, const MAX: u64>(pub(super) u64);

impl<const MIN: u64, const MAX: u64> Whole<MIN, MAX> {
    /// The number where it counts things in memory.
    pub(super) fn count(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<const MIN: u64, const MAX: u64> Value for Whole<MIN, MAX> {
    fn shape() -> Shape {
        Shape::Whole { min: MIN, max: MAX }
    }

    fn read(found: &Found<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        scalar(found, reader, "a whole number", |value| number(value, MIN..=MAX)).map(Self)
    }
}

/// Reads a number or a boolean, which may also come from a string that was filled in. `read` returns `None` where
/// the type is not one of these at all.
fn scalar<T>(
    found: &Found<'_>,
    reader: &mut Reader<'_>,
    expected: &str,
    read: impl Fn(&DeValue<'_>) -> Option<Result<T, Complaint>>,
) -> Option<T> {
    let (value, span) = (found.get_ref(), found.span());
    let filled = reader.filled(&span).cloned();
    let complaint = match (filled, value) {
        (Some(Filled::Failed), _) => return None,
        (Some(Filled::From(expression)), _) => match read(value) {
            Some(Ok(value)) => return Some(value),
            Some(Err(_)) | None => Complaint::new(format!("what `{expression}` gives here is not {expected}")),
        },
        (None, DeValue::String(_)) => return reader.wrong_type(expected, value, span),
        (None, _) => match read(value) {
            Some(Ok(value)) => return Some(value),
            Some(Err(complaint)) => complaint,
            None => return reader.wrong_type(expected, value, span),
        },
    };
    reader.error(span, complaint.message, complaint.hint);
    None
}

/// A number within `range`, from an integer or from a string of digits.
fn number(value: &DeValue<'_>, range: RangeInclusive<u64>) -> Option<Result<u64, Complaint>> {
    let (parsed, shown) = match value {
        DeValue::Integer(number) => (i128::from_str_radix(number.as_str(), number.radix()).ok(), number.to_string()),
        DeValue::String(text) => (text.parse().ok(), String::new()),
        DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
            return None;
        }
    };
    let (min, max) = (range.start(), range.end());
    let outside = || {
        let complaint = Complaint::new(format!("{shown} is out of range"));
        Err(if *max == u64::MAX {
            complaint.hint(format!("at least {min}"))
        } else {
            complaint.hint(format!("{min} to {max}"))
        })
    };
    let within = parsed.and_then(|number| u64::try_from(number).ok()).filter(|number| range.contains(number));
    Some(within.map_or_else(outside, Ok))
}

/// A duration of at least `MIN` milliseconds, and at most ten years.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Span<const MIN: u64>(pub(super) Duration);

impl<const MIN: u64> Text for Span<MIN> {
    const EXPECTED: &'static str = "a duration like \"250ms\"";
    const PATTERN: &'static str = "^[0-9]+(ms|s|m|h|d)$";

    fn parse(text: &str) -> Result<Self, Complaint> {
        let (duration, least) = (units::duration(text)?, Duration::from_millis(MIN));
        if duration < least {
            let least = units::show_duration(least);
            return Err(Complaint::new(format!("`{text}` is too short")).hint(format!("at least {least}")));
        }
        Ok(Self(duration))
    }
}

/// A size between `MIN` and `MAX` bytes, both included.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Size<const MIN: u64, const MAX: u64>(pub(super) u64);

impl<const MIN: u64, const MAX: u64> Text for Size<MIN, MAX> {
    const EXPECTED: &'static str = "a size like \"1MiB\"";
    const PATTERN: &'static str = "^[0-9]+(B|KiB|MiB|GiB)$";

    fn parse(text: &str) -> Result<Self, Complaint> {
        let bytes = units::size(text)?;
        if (MIN..=MAX).contains(&bytes) {
            return Ok(Self(bytes));
        }
        let range = format!("{} to {}", units::show_size(MIN), units::show_size(MAX));
        Err(Complaint::new(format!("`{text}` is out of range")).hint(range))
    }
}

/// Makes an enum a choice between strings. `later` lists those of later versions, refused with a better hint.
macro_rules! choice {
    ($choice:ty { $first:literal => $first_value:expr, $( $text:literal => $value:expr, )* $(later { $( $later:literal => $what:literal, )* })? }) => {
        impl Text for $choice {
            const EXPECTED: &'static str = concat!("one of `", $first, "`" $(, ", `", $text, "`")*);
            const CHOICES: &'static [&'static str] = &[$first $(, $text)*];

            fn parse(text: &str) -> Result<Self, Complaint> {
                match text {
                    $first => Ok($first_value),
                    $( $text => Ok($value), )*
                    $($( $later => Err(Complaint::new(format!("`{text}` is not supported by this version"))
                        .hint(format!("{} comes later; here it is {}", $what, Self::EXPECTED))), )*)?
                    _ => Err(not_among(text, Self::CHOICES)),
                }
            }
        }
    };
}

/// The complaint about a text that is none of `choices`.
pub(super) fn not_among(text: &str, choices: &[&str]) -> Complaint {
    let listed = choices.iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>().join(", ");
    let hint = match closest(text, choices.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("one of {listed}"),
    };
    Complaint::new(format!("unknown value `{text}`")).hint(hint)
}

choice!(Mode { "enforce" => Self::Enforce, "off" => Self::Off, later { "shadow" => "counting without protecting", } });
choice!(Anonymous { "reject" => Self::Reject, "share" => Self::Share, });
choice!(BodyForm {
    "raw" => Self::Raw,
    "json" => Self::Json,
    "form" => Self::Form,
    "multipart" => Self::Multipart,
    "none" => Self::None,
});
choice!(OnUnknown { "hold" => Self::Hold, "retry" => Self::Retry, later { "probe" => "asking the upstream", } });
choice!(OnStoreDown { "reject" => Self::Reject, "bypass" => Self::Bypass, });
choice!(HostPolicy { "preserve" => Self::Preserve, "upstream" => Self::Upstream, });
choice!(ForwardedStyle {
    "x-forwarded" => Self::XForwarded,
    "forwarded" => Self::Forwarded,
    "both" => Self::Both,
    "none" => Self::None,
});
choice!(Format { "auto" => Self::Auto, "text" => Self::Text, "json" => Self::Json, });
choice!(tracing::Level {
    "error" => Self::ERROR,
    "warn" => Self::WARN,
    "info" => Self::INFO,
    "debug" => Self::DEBUG,
    "trace" => Self::TRACE,
});

/// Whether a duplicate waits; how long is another key's business.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenInFlight {
    Reject,
    Wait,
}

choice!(WhenInFlight { "reject" => Self::Reject, "wait" => Self::Wait, });

/// A named set of status classes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Preset {
    Stripe,
    SuccessOnly,
}

choice!(Preset { "stripe" => Self::Stripe, "success-only" => Self::SuccessOnly, });

impl Text for Method {
    const EXPECTED: &'static str = "a method like \"POST\"";
    const PATTERN: &'static str = "^[A-Z][A-Z0-9-]*$";

    fn parse(text: &str) -> Result<Self, Complaint> {
        let method = Self::from_bytes(text.as_bytes())
            .map_err(|_| Complaint::new(format!("`{text}` is not a method")).hint("letters, such as `POST`"))?;
        let upper = text.to_ascii_uppercase();
        if upper != text {
            let complaint = Complaint::new(format!("`{text}` never comes: methods are written in capitals"));
            return Err(complaint.hint(format!("did you mean `{upper}`?")));
        }
        if matches!(method, Self::CONNECT | Self::TRACE) {
            return Err(Complaint::new(format!("`{text}` is never forwarded, so there is nothing to protect")));
        }
        Ok(method)
    }
}

/// Fields that frame a message or belong to one connection (RFC 9110 §7.6.1): never part of what a message means.
const FRAMING: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// The name of a header field that is not framing.
pub(super) fn field_name(text: &str) -> Result<HeaderName, Complaint> {
    let name = HeaderName::from_bytes(text.as_bytes())
        .map_err(|_| Complaint::new(format!("`{text}` is not the name of a header field")))?;
    if FRAMING.contains(&name.as_str()) {
        let hint = "it belongs to the message's framing or to one connection";
        return Err(Complaint::new(format!("`{text}` cannot be used here")).hint(hint));
    }
    Ok(name)
}

impl Text for HeaderName {
    const EXPECTED: &'static str = "the name of a header field";

    fn parse(text: &str) -> Result<Self, Complaint> {
        field_name(text)
    }
}

/// The status of a refusal for a reused key: 422 or 409.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct MismatchStatus(pub(super) http::StatusCode);

impl Value for MismatchStatus {
    fn shape() -> Shape {
        Shape::Numbers(&[422, 409])
    }

    fn read(found: &Found<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        scalar(found, reader, "422 or 409", |value| {
            let status = match number(value, 0..=u64::MAX)? {
                Ok(422) => http::StatusCode::UNPROCESSABLE_ENTITY,
                Ok(409) => http::StatusCode::CONFLICT,
                Ok(_) | Err(_) => return Some(Err(Complaint::new("`mismatch_status` is 422 or 409"))),
            };
            Some(Ok(Self(status)))
        })
    }
}

impl Value for StatusPattern {
    fn shape() -> Shape {
        let text =
            Shape::Text { expected: EXPECTED_STATUS, choices: &[], pattern: "^([2-9]xx|[2-9][0-9]{2}-[2-9][0-9]{2})$" };
        Shape::Either(Box::new(Shape::Whole { min: 200, max: 999 }), Box::new(text))
    }

    fn read(found: &Found<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        if let Some(text) = found.get_ref().as_str() {
            return reader.parse::<StatusText>(text, found.span()).map(|text| text.0);
        }
        let status = scalar(found, reader, EXPECTED_STATUS, |value| number(value, 200..=999))?;
        u16::try_from(status).ok().map(Self::Exact)
    }
}

const EXPECTED_STATUS: &str = "a status like 404, \"4xx\" or \"411-415\"";

/// A status pattern that is written as a string.
#[derive(Clone, PartialEq)]
struct StatusText(StatusPattern);

impl Text for StatusText {
    const EXPECTED: &'static str = EXPECTED_STATUS;

    fn parse(text: &str) -> Result<Self, Complaint> {
        let wrong = || Complaint::new(format!("`{text}` is not a status")).hint("such as 404, \"4xx\" or \"411-415\"");
        let status = |text: &str| {
            let digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
            let status = digits.then(|| text.parse::<u16>().ok()).flatten().ok_or_else(wrong)?;
            if status < 200 {
                return Err(Complaint::new(format!("{status} is out of range")).hint("a final status is 200 to 999"));
            }
            Ok(status)
        };
        if let Some((first, last)) = text.split_once('-') {
            let (first, last) = (status(first)?, status(last)?);
            if first > last {
                let complaint = Complaint::new(format!("`{text}` is empty: it ends before it begins"));
                return Err(complaint.hint(format!("did you mean \"{last}-{first}\"?")));
            }
            return Ok(Self(StatusPattern::Range(first, last)));
        }
        match text.as_bytes() {
            [digit @ b'2'..=b'9', b'x' | b'X', b'x' | b'X'] => Ok(Self(StatusPattern::Class(digit - b'0'))),
            [b'1', b'x' | b'X', b'x' | b'X'] => Err(wrong().hint("a final status is 200 to 999")),
            _ => status(text).map(|status| Self(StatusPattern::Exact(status))),
        }
    }
}

#[cfg(test)]
mod tests;
