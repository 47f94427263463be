//! As much of Rust's surface as the tidy checks need: code without comments and literals, and the paths in it. Not a
//! parser: it takes text, never fails, and errs towards finding too much.

/// `text` with the content of comments and of string and character literals blanked out. Lines stay where they are.
pub(super) fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = skipped(&chars, at);
        if end > at {
            out.extend(chars[at..end].iter().map(|&char| if char == '\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out
}

/// Where the comment or literal ends that begins at `at`; `at` itself if none begins there.
fn skipped(chars: &[char], at: usize) -> usize {
    let rest = &chars[at..];
    let after_word = at > 0 && is_word(chars[at - 1]);
    match rest {
        ['/', '/', ..] => at + rest.iter().position(|&char| char == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => at + block_comment(rest),
        ['"', ..] => at + string(rest),
        ['r' | 'b' | 'c', ..] if !after_word => at + prefixed(rest),
        ['\'', '\\', ..] => at + 3 + rest[3..].iter().position(|&char| char == '\'').map_or(0, |end| end + 1),
        ['\'', _, '\'', ..] => at + 3,
        _ => at,
    }
}

fn block_comment(rest: &[char]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => {
                depth += 1;
                at += 2;
            }
            ['*', '/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

/// The length of a literal in plain quotes.
fn string(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of `b"…"`, `c"…"`, `r"…"`, `br#"…"#` and their like; zero if it is something else.
fn prefixed(rest: &[char]) -> usize {
    let letters = rest.iter().take_while(|char| matches!(char, 'r' | 'b' | 'c')).count();
    let hashes = rest[letters..].iter().take_while(|&&char| char == '#').count();
    let open = letters + hashes;
    if letters > 2 || rest.get(open) != Some(&'"') {
        return 0;
    }
    if !rest[..letters].contains(&'r') {
        return if hashes == 0 { letters + string(&rest[letters..]) } else { 0 };
    }
    let mut at = open + 1;
    while at < rest.len() {
        if rest[at] == '"' && rest[at + 1..].iter().take_while(|&&char| char == '#').count() >= hashes {
            return at + 1 + hashes;
        }
        at += 1;
    }
    rest.len()
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// Every path of two segments or more in `code`, the groups of `use` taken apart: `a::{b, c::d}` is `a::b` and
/// `a::c::d`.
pub(super) fn paths(code: &str) -> Vec<String> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_start = is_name(&tokens[at]) && tokens.get(at + 1).is_some_and(|next| next == "::");
        if is_start {
            at = path(&tokens, at, String::new(), &mut found);
        } else {
            at += 1;
        }
    }
    found
}

/// Reads the path that begins at `at` below `prefix`, and returns where it ends.
fn path(tokens: &[String], mut at: usize, mut prefix: String, found: &mut Vec<String>) -> usize {
    loop {
        match tokens.get(at).map(String::as_str) {
            Some("{") => return group(tokens, at + 1, &prefix, found),
            Some(name) if is_name(name) || name == "*" => {
                if !prefix.is_empty() {
                    prefix.push_str("::");
                }
                prefix.push_str(name);
                at += 1;
            }
            // A turbofish, an attribute's end: the path ends here.
            Some(_) | None => {
                found.push(prefix);
                return at;
            }
        }
        if tokens.get(at).is_none_or(|next| next != "::") {
            found.push(prefix);
            let renamed = tokens.get(at).is_some_and(|next| next == "as");
            return if renamed { at + 2 } else { at };
        }
        at += 1;
    }
}

fn group(tokens: &[String], mut at: usize, prefix: &str, found: &mut Vec<String>) -> usize {
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "}" => return at + 1,
            name if is_name(name) || name == "*" || name == "{" => {
                at = path(tokens, at, prefix.to_owned(), found);
            }
            _ => at += 1,
        }
    }
    at
}

fn is_name(token: &str) -> bool {
    token.starts_with(|char: char| char.is_alphabetic() || char == '_') && token != "as"
}

/// Words, `::` and single signs.
fn tokens(code: &str) -> Vec<String> {
    let chars: Vec<char> = code.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let word = chars[at..].iter().take_while(|&&char| is_word(char)).count();
        if word > 0 {
            tokens.push(chars[at..at + word].iter().collect());
            at += word;
        } else if chars[at..].starts_with(&[':', ':']) {
            tokens.push("::".to_owned());
            at += 2;
        } else {
            if !chars[at].is_whitespace() {
                tokens.push(chars[at].to_string());
            }
            at += 1;
        }
    }
    tokens
}

/// Whether `word` stands in `code` with no letter, digit or underscore beside it.
pub(super) fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back().is_some_and(is_word);
        let after = code[at + word.len()..].chars().next().is_some_and(is_word);
        !before && !after
    })
}

#[test]
fn comments_and_literals_are_no_code_and_everything_else_is() {
    for (text, expected) in [
        ("a // b\nc", "a     \nc"),
        ("a /* b /* c */ d */ e", "a                   e"),
        ("f(\"x // \\\" y\") + g", "f(           ) + g"),
        ("r\"\\\" + 1", "     + 1"),
        ("br#\"a\"b\"# + c", "          + c"),
        ("'a' 'x: &'b str, '\\'' '\\u{1F}' c", "    'x: &'b str,               c"),
        ("bar\"x\"", "bar   "),
    ] {
        assert_eq!(code(text), expected, "{text}");
    }
}

#[test]
fn paths_are_found_in_use_groups_and_in_line() {
    for (text, expected) in [
        ("use a::b;", &["a::b"][..]),
        ("use a::{b, c::{d, e as f}, *};", &["a::b", "a::c::d", "a::c::e", "a::*"]),
        ("use {a::b, c::d};", &["a::b", "c::d"]),
        ("let x: Vec<u8> = a::b::c::<T>::d(e);", &["a::b::c", "T"]),
        ("pub(in crate::a) fn f()", &["crate::a"]),
        ("crate::a::run(|x| crate::b)", &["crate::a::run", "crate::b"]),
    ] {
        let found: Vec<_> = paths(text);
        let expected: Vec<_> = expected.iter().filter(|path| path.contains("::")).collect();
        assert_eq!(found.iter().filter(|path| path.contains("::")).collect::<Vec<_>>(), expected, "{text}");
    }
}

#[test]
fn a_word_is_found_whole_only() {
    assert!(has_word("a.await;", "await"));
    assert!(!has_word("awaited", "await"));
    assert!(!has_word("re_await", "await"));
}
