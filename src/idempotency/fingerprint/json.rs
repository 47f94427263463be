//! JSON in a canonical form (RFC 8259): member order, white space and the spelling of strings do not count, number
//! tokens count byte for byte.
//!
//! Not a JSON library: no values, no numbers, no lossy step. What is not JSON beyond doubt (a member that occurs
//! twice, text behind the value, a byte order mark, too deep a nest) has no canonical form and is compared raw.

/// The deepest nest of arrays and objects that is read; the recursion below goes no deeper.
const MAX_DEPTH: usize = 128;

/// The canonical form of `body` without the values at the JSON Pointers `ignore`, `None` where there is none.
///
/// An ignored member counts neither by its value nor by its presence; an ignored array element is as if it had not
/// been listed. What is ignored must still be JSON. A text in `ignore` that is not a pointer ignores nothing.
///
/// The form is for hashing. Each value begins with a tag, `#` numbers, `"` strings, and ends by itself: strings by
/// 0xFF, which neither UTF-8 nor a lone surrogate contains; numbers by the next tag, which no number contains.
pub(super) fn canonical(body: &[u8], ignore: &[String]) -> Option<Vec<u8>> {
    std::str::from_utf8(body).ok()?;
    let pointers: Vec<Pointer> = ignore.iter().filter_map(|text| Pointer::parse(text)).collect();
    let mut reader = Reader { rest: body, form: Vec::with_capacity(body.len() + 1), pointers: &pointers };
    let all: Vec<usize> = (0..pointers.len()).collect();
    reader.value(0, &all)?;
    if pointers.iter().any(|pointer| pointer.0.is_empty()) {
        reader.form.clear();
    }
    reader.skip_space();
    reader.rest.is_empty().then_some(reader.form)
}

/// A JSON Pointer (RFC 6901), as its reference tokens.
struct Pointer(Vec<Token>);

/// One reference token: a member name, and an array index where it has that form.
struct Token {
    name: Vec<u8>,
    index: Option<usize>,
}

impl Pointer {
    /// Parses the text form of a pointer: empty, or each token after a `/`, with `~1` for `/` and `~0` for `~`.
    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self(Vec::new()));
        }
        text.strip_prefix('/')?.split('/').map(Token::parse).collect::<Option<_>>().map(Self)
    }
}

impl Token {
    fn parse(text: &str) -> Option<Self> {
        let mut name = Vec::with_capacity(text.len());
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            name.push(match byte {
                b'~' => match bytes.next()? {
                    b'0' => b'~',
                    b'1' => b'/',
                    _ => return None,
                },
                byte => byte,
            });
        }
        // An index has no sign and no leading zero (RFC 6901 §4); `007` is a member name and nothing else.
        let index = text.parse().ok().filter(|index: &usize| index.to_string() == text);
        Some(Self { name, index })
    }
}

/// Reads JSON and writes its canonical form.
struct Reader<'a> {
    rest: &'a [u8],
    form: Vec<u8>,
    pointers: &'a [Pointer],
}

/// A member in the canonical form of an object that is being read: where its name and its value are.
struct Member {
    start: usize,
    value: usize,
    end: usize,
    ignored: bool,
}

impl Reader<'_> {
    /// Reads one value, `depth` containers deep. `active` are the pointers that lead here or beyond.
    fn value(&mut self, depth: usize, active: &[usize]) -> Option<()> {
        self.skip_space();
        match self.rest.first()? {
            b'{' if depth < MAX_DEPTH => self.object(depth, active),
            b'[' if depth < MAX_DEPTH => self.array(depth, active),
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            _ => None,
        }
    }

    fn object(&mut self, depth: usize, active: &[usize]) -> Option<()> {
        self.expect(b'{')?;
        self.form.push(b'{');
        let start = self.form.len();
        let mut members = Vec::new();
        if !self.accept(b'}') {
            loop {
                members.push(self.member(depth, active)?);
                if !self.accept(b',') {
                    break;
                }
            }
            self.expect(b'}')?;
        }
        self.sort(start, members)?;
        self.form.push(b'}');
        Some(())
    }

    /// Reads a name and a value. The value of an ignored member is read, but not left in the form.
    fn member(&mut self, depth: usize, active: &[usize]) -> Option<Member> {
        let start = self.form.len();
        self.skip_space();
        self.string()?;
        let value = self.form.len();
        // Without the tag and the end mark.
        let name = self.form.get(start + 1..value - 1)?;
        let (ignored, beyond) = follow(self.pointers, depth, active, |token| token.name == name);
        self.expect(b':')?;
        self.value(depth + 1, &beyond)?;
        Some(Member { start, value, end: self.form.len(), ignored })
    }

    /// Brings the members of the object at `start` into the order of their names, without the ignored ones. `None`
    /// where a name occurs twice, ignored or not.
    fn sort(&mut self, start: usize, mut members: Vec<Member>) -> Option<()> {
        let form = &self.form;
        let name = |member: &Member| form.get(member.start..member.value);
        let in_order = members.iter().all(|member| !member.ignored) && members.is_sorted_by(|a, b| name(a) < name(b));
        if in_order {
            return Some(());
        }
        members.sort_unstable_by(|a, b| name(a).cmp(&name(b)));
        if members.windows(2).any(|pair| matches!(pair, [a, b] if name(a) == name(b))) {
            return None;
        }
        let mut sorted = Vec::with_capacity(form.len() - start);
        for member in members.iter().filter(|member| !member.ignored) {
            sorted.extend_from_slice(form.get(member.start..member.end)?);
        }
        self.form.truncate(start);
        self.form.append(&mut sorted);
        Some(())
    }

    fn array(&mut self, depth: usize, active: &[usize]) -> Option<()> {
        self.expect(b'[')?;
        self.form.push(b'[');
        if !self.accept(b']') {
            let mut index = 0;
            loop {
                let start = self.form.len();
                let (ignored, beyond) = follow(self.pointers, depth, active, |token| token.index == Some(index));
                self.value(depth + 1, &beyond)?;
                if ignored {
                    self.form.truncate(start);
                }
                if !self.accept(b',') {
                    break;
                }
                index += 1;
            }
            self.expect(b']')?;
        }
        self.form.push(b']');
        Some(())
    }

    /// Reads a string and writes its text. A lone surrogate, which JSON can spell and UTF-8 cannot, is written as the
    /// three bytes that UTF-8 reserves and never uses: it equals itself only, not U+FFFD.
    fn string(&mut self) -> Option<()> {
        self.rest = self.rest.strip_prefix(b"\"")?;
        self.form.push(b'"');
        loop {
            let plain = self.rest.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < b' ')?;
            let (text, rest) = self.rest.split_at(plain);
            self.form.extend_from_slice(text);
            let (&mark, rest) = rest.split_first()?;
            self.rest = rest;
            match mark {
                b'"' => break,
                b'\\' => self.escape()?,
                _ => return None,
            }
        }
        self.form.push(0xFF);
        Some(())
    }

    /// Reads what follows a backslash.
    fn escape(&mut self) -> Option<()> {
        let (&mark, rest) = self.rest.split_first()?;
        self.rest = rest;
        let byte = match mark {
            b'"' | b'\\' | b'/' => mark,
            b'b' => 0x08,
            b'f' => 0x0C,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let code = self.code_unit()?;
                let code = match code {
                    0xD800..=0xDBFF => {
                        self.low_surrogate().map_or(code, |low| 0x1_0000 + ((code - 0xD800) << 10) + low)
                    }
                    _ => code,
                };
                write_code_point(&mut self.form, code);
                return Some(());
            }
            _ => return None,
        };
        self.form.push(byte);
        Some(())
    }

    /// The ten bits of a low surrogate that follows, if one follows; otherwise nothing is read.
    fn low_surrogate(&mut self) -> Option<u32> {
        let before = self.rest;
        let low = self.rest.strip_prefix(b"\\u").and_then(|rest| {
            self.rest = rest;
            self.code_unit().filter(|code| (0xDC00..=0xDFFF).contains(code))
        });
        if low.is_none() {
            self.rest = before;
        }
        low.map(|low| low - 0xDC00)
    }

    /// Four hexadecimal digits.
    fn code_unit(&mut self) -> Option<u32> {
        let (digits, rest) = self.rest.split_at_checked(4)?;
        self.rest = rest;
        digits.iter().try_fold(0, |code, &digit| Some(code << 4 | char::from(digit).to_digit(16)?))
    }

    /// Reads a number and writes its token as it stands: `1`, `1.0` and `1e0` are three numbers.
    fn number(&mut self) -> Option<()> {
        let length = number_length(self.rest)?;
        let (token, rest) = self.rest.split_at_checked(length)?;
        self.form.push(b'#');
        self.form.extend_from_slice(token);
        self.rest = rest;
        Some(())
    }

    fn literal(&mut self, word: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(word)?;
        self.form.push(*word.first()?);
        Some(())
    }

    fn skip_space(&mut self) {
        while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// Reads `byte`, if it is what comes next.
    fn accept(&mut self, byte: u8) -> bool {
        self.skip_space();
        match self.rest.split_first() {
            Some((&next, rest)) if next == byte => {
                self.rest = rest;
                true
            }
            Some(_) | None => false,
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.accept(byte).then_some(())
    }
}

/// Whether one of the `active` pointers ends with the next step, and which of them go on beyond it.
fn follow(
    pointers: &[Pointer],
    depth: usize,
    active: &[usize],
    is_step: impl Fn(&Token) -> bool,
) -> (bool, Vec<usize>) {
    let (mut ends, mut beyond) = (false, Vec::new());
    for &at in active {
        let Some(Pointer(tokens)) = pointers.get(at) else { continue };
        if tokens.get(depth).is_some_and(&is_step) {
            if tokens.len() == depth + 1 {
                ends = true;
            } else {
                beyond.push(at);
            }
        }
    }
    (ends, beyond)
}

/// The length of the number at the start of `text` (RFC 8259 §6).
fn number_length(text: &[u8]) -> Option<usize> {
    let digits =
        |from: usize| text.get(from..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = usize::from(text.first() == Some(&b'-'));
    at += match text.get(at)? {
        b'0' => 1,
        b'1'..=b'9' => digits(at),
        _ => return None,
    };
    if text.get(at) == Some(&b'.') {
        at += match digits(at + 1) {
            0 => return None,
            fraction => 1 + fraction,
        };
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        at += match digits(at + 1 + sign) {
            0 => return None,
            exponent => 1 + sign + exponent,
        };
    }
    Some(at)
}

/// Writes a code point, a surrogate included, in the way of UTF-8.
fn write_code_point(form: &mut Vec<u8>, code: u32) {
    match char::from_u32(code) {
        Some(text) => form.extend_from_slice(text.encode_utf8(&mut [0; 4]).as_bytes()),
        None => form
            .extend([0xE0 | code >> 12, 0x80 | code >> 6 & 0x3F, 0x80 | code & 0x3F].map(|byte| byte.to_le_bytes()[0])),
    }
}

#[cfg(test)]
mod tests;
