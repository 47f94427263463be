//! Tests of `config::interpolate`.

use std::io::Write;

use super::*;

fn expand_with(text: &str, base_dir: &Path) -> Result<String, (String, String)> {
    let env = |name: &str| match name {
        "A" => Some("one".to_owned()),
        "_B2" => Some("two".to_owned()),
        "EMPTY" => Some(String::new()),
        "DOLLAR" => Some("${A}".to_owned()),
        _ => None,
    };
    let values = Values { env: &env, base_dir };
    expand(text, &values).map(|expanded| expanded.text).map_err(|(place, complaint)| (place, complaint.message))
}

fn expanded(text: &str) -> String {
    expand_with(text, Path::new("/nowhere")).unwrap()
}

fn refused(text: &str) -> (String, String) {
    expand_with(text, Path::new("/nowhere")).unwrap_err()
}

#[test]
fn variables_are_filled_in_wherever_they_stand() {
    assert_eq!(expanded("${A}"), "one");
    assert_eq!(expanded("a ${A}${_B2} b ${A}"), "a onetwo b one");
    assert_eq!(expanded("${EMPTY}|"), "|");
}

#[test]
fn a_default_stands_in_for_what_is_unset_or_empty() {
    assert_eq!(expanded("${NONE:-x:y-z}"), "x:y-z");
    assert_eq!(expanded("${NONE:-}"), "");
    assert_eq!(expanded("${EMPTY:-x}"), "x");
    assert_eq!(expanded("${A:-x}"), "one");
}

#[test]
fn a_dollar_sign_is_one_unless_a_brace_follows() {
    assert_eq!(expanded("^[a-z]+$"), "^[a-z]+$");
    assert_eq!(expanded("$A $$ {A}"), "$A $$ {A}");
    assert_eq!(expanded("$${A}"), "${A}");
    assert_eq!(expanded("$$${A}"), "$${A}");
    assert_eq!(expanded("$${A} ${A}"), "${A} one");
}

#[test]
fn what_is_filled_in_is_not_looked_at_again() {
    assert_eq!(expanded("${DOLLAR}"), "${A}");
}

#[test]
fn what_cannot_be_filled_in_is_named() {
    let unset = |name: &str| format!("the environment variable `{name}` is not set");
    assert_eq!(refused("${A} ${NONE}"), ("${NONE}".to_owned(), unset("NONE")));
    assert_eq!(refused("x ${A"), ("${A".to_owned(), "`${` has no closing brace".to_owned()));
    for name in ["", " A", "1A", "A B", "A-B", "A:B", "é"] {
        let place = format!("${{{name}}}");
        assert_eq!(refused(&place), (place, format!("`{name}` is not the name of a variable")));
    }
    assert_eq!(refused("${A:-${B}}").1, "the default of `A` cannot itself hold `${`");
}

#[test]
fn files_are_read_without_the_newline_at_their_end() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| {
        std::fs::File::create(dir.path().join(name)).unwrap().write_all(content).unwrap();
        format!("${{file:{name}}}")
    };
    let read = |expression: &str| expand_with(expression, dir.path());
    assert_eq!(read(&write("unix", b"s3cret\n")).unwrap(), "s3cret");
    assert_eq!(read(&write("dos", b"s3cret\r\n")).unwrap(), "s3cret");
    assert_eq!(read(&write("more", b" a\nb\n\n")).unwrap(), " a\nb\n");
    assert_eq!(read(&write("empty", b"")).unwrap(), "");
    assert_eq!(read(&format!("${{file:{}}}", dir.path().join("unix").display())).unwrap(), "s3cret");
}

#[test]
fn a_file_that_is_no_secret_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bytes"), b"\xff\xfe").unwrap();
    std::fs::write(dir.path().join("large"), vec![b'a'; 65_537]).unwrap();
    let why = |name: &str| {
        let (_, message) = expand_with(&format!("${{file:{name}}}"), dir.path()).unwrap_err();
        message.replace(&format!("{}/", dir.path().display()), "")
    };
    assert_eq!(why("bytes"), "cannot read the file bytes: it is not UTF-8");
    assert_eq!(why("large"), "cannot read the file large: it is larger than 64 KiB");
    assert_eq!(why("absent"), "cannot read the file absent: No such file or directory (os error 2)");
    assert_eq!(why("/dev/zero"), "cannot read the file /dev/zero: it is larger than 64 KiB");
    assert_eq!(refused("${file:}").1, "`${file:}` names no file");
}

#[test]
fn the_source_of_a_value_is_named_without_its_default() {
    let values = Values { env: &|_| None, base_dir: Path::new("") };
    let first = |text: &str| expand(text, &values).map_err(|(place, _)| place).unwrap().first;
    assert_eq!(first("${A:-hunter2} ${B:-x}").as_deref(), Some("${A}"));
    assert_eq!(first("$${A}"), None);
}
