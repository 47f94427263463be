//! The house rules that neither compiler nor clippy knows: who may import whom, what must not get into the core, how
//! a file begins and how long it is. Each check takes text, so that the tests below can show it failing.

mod scan;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use toml::de::{DeTable, DeValue};

use self::scan::{code, has_word, paths};

/// The table of `src/lib.rs`: the room, what its row says under "may import", and which rooms that is.
const TABLE: [(&str, &str, &[&str]); 11] = [
    ("idempotency", "nothing of ours", &[]),
    ("shutdown", "nothing of ours", &[]),
    ("routes", "`idempotency`", &["idempotency"]),
    ("telemetry", "`idempotency`", &["idempotency"]),
    ("store", "`idempotency`, `telemetry`", &["idempotency", "telemetry"]),
    ("upstream", "`idempotency`, `telemetry`", &["idempotency", "telemetry"]),
    ("proxy", "all above", &["idempotency", "shutdown", "routes", "telemetry", "store", "upstream"]),
    ("admin", "all above but `proxy`", &["idempotency", "shutdown", "routes", "telemetry", "store", "upstream"]),
    ("config", "every `Settings`", &["idempotency", "routes", "telemetry", "store", "upstream", "proxy", "admin"]),
    (
        "app",
        "all above",
        &["idempotency", "shutdown", "routes", "telemetry", "store", "upstream", "proxy", "admin", "config"],
    ),
    ("cli", "`app`, `config`, pure rooms", &["app", "config", "idempotency", "routes"]),
];

/// The rooms that decide, and do nothing: neither IO nor time, tasks, threads or chance.
const PURE: [&str; 2] = ["idempotency", "routes"];

const LONGEST: usize = 500;
const LONGEST_HEAD: usize = 10;

/// Heads that are allowed to be long: the map of the house, and the diagram.
const LONG_HEADS: [&str; 2] = ["src/lib.rs", "src/idempotency/mod.rs"];

// The checks --------------------------------------------------------------------------------------------------------

/// The room of a file below `src`, by its path; `None` for `lib.rs` and `main.rs`.
fn room(file: &str) -> Option<&str> {
    let below = file.strip_prefix("src/")?;
    let name = below.split('/').next()?.trim_end_matches(".rs");
    (!["lib", "main"].contains(&name)).then_some(name)
}

/// How many modules a file is below the crate root.
fn depth(file: &str) -> usize {
    let below = file.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    below.split('/').count()
}

/// What `file` imports against the table.
fn forbidden_imports(file: &str, text: &str) -> BTreeSet<String> {
    let Some(room) = room(file) else { return BTreeSet::new() };
    let Some((_, _, allowed)) = TABLE.iter().find(|(name, ..)| *name == room) else {
        return BTreeSet::from([format!("{room} is not in the table")]);
    };
    let mut wrong = BTreeSet::new();
    for path in paths(&code(text)) {
        let mut segments = path.split("::").peekable();
        let mut climbed = 0;
        while segments.next_if_eq(&"super").is_some() {
            climbed += 1;
        }
        let from_root =
            climbed >= depth(file) || segments.next_if(|name| ["crate", "oncegate"].contains(name)).is_some();
        let Some(target) = segments.next().filter(|_| from_root) else { continue };
        let known = TABLE.iter().any(|(name, ..)| *name == target);
        if target == "*" || (known && target != room && !allowed.contains(&target)) {
            wrong.insert(path.clone());
        }
    }
    wrong
}

/// What in `text` does not belong into a pure room.
fn impurities(text: &str) -> BTreeSet<String> {
    const WORDS: [&str; 10] =
        ["async", "await", "tokio", "Instant", "SystemTime", "getrandom", "rand", "rustix", "hyper", "unsafe"];
    const MODULES: [&str; 7] = ["std::net", "std::fs", "std::env", "std::thread", "std::process", "std::io", "std::os"];
    let code = code(text);
    let paths = paths(&code);
    let words = WORDS.into_iter().filter(|word| has_word(&code, word)).map(str::to_owned);
    let roots =
        ["redis", "redb"].into_iter().filter(|root| paths.iter().any(|path| path.split("::").next() == Some(*root)));
    // An address is data.
    let is_data = |path: &str| ["std::net::IpAddr", "std::net::Ipv4Addr", "std::net::Ipv6Addr"].contains(&path);
    let modules = MODULES.into_iter().filter(|module| {
        let inside = format!("{module}::");
        paths.iter().any(|path| path == module || (path.starts_with(&inside) && !is_data(path)))
    });
    words.chain(roots.chain(modules).map(str::to_owned)).collect()
}

/// What is wrong with the head of a file.
fn head_fault(text: &str, may_be_long: bool) -> Option<String> {
    let lines = text.lines().take_while(|line| line.starts_with("//!")).count();
    if lines == 0 {
        return Some("does not begin with //!".to_owned());
    }
    (lines > LONGEST_HEAD && !may_be_long).then(|| format!("{lines} lines of //!"))
}

fn is_test(file: &str) -> bool {
    file.starts_with("tests/")
        || file.ends_with("/tests.rs")
        || file.contains("/tests/")
        || file.starts_with("src/idempotency/model")
}

/// Shortcuts that no file takes, and those that only a test may.
fn shortcuts(text: &str, test: bool) -> Vec<&'static str> {
    const NOWHERE: [&str; 6] = ["#[allow(", "#![allow(", "#[ignore", "#[should_panic", "todo!", "unimplemented!"];
    const IN_TESTS: [&str; 5] = [".unwrap()", "dbg!", "panic!(", "unreachable!(", "mod tests {"];
    let code = code(text);
    let banned = IN_TESTS.into_iter().filter(|_| !test);
    NOWHERE.into_iter().chain(banned).filter(|shortcut| code.contains(shortcut)).collect()
}

/// Words of the place where the code was written: they mean nothing to a reader. Put together here, so that this
/// file does not contain them.
fn foreign_words(text: &str) -> Vec<String> {
    let words = [
        ["/wor", "k/"],
        ["/roo", "t/"],
        ["/tmp/tar", "get"],
        ["clau", "de"],
        ["anthro", "pic"],
        ["open", "ai"],
        ["chat", "gpt"],
        ["language mo", "del"],
    ];
    let text = text.to_lowercase();
    words.map(|word| word.concat()).into_iter().filter(|word| text.contains(word.as_str())).collect()
}

// The house ---------------------------------------------------------------------------------------------------------

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files below `folder` whose names `wanted` likes, as paths from the root, with their text.
fn files(folder: &str, wanted: fn(&str) -> bool) -> Vec<(String, String)> {
    let mut folders = vec![root().join(folder)];
    let mut found: Vec<PathBuf> = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                if ![".git", "target", "corpus"].contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if wanted(&name) {
                found.push(path);
            }
        }
    }
    found.sort();
    let name = |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    found.into_iter().map(|path| (name(&path), lossy(&path))).collect()
}

/// Not every file that looks like text is: a wrong byte is no reason to look at nothing.
fn lossy(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
}

fn sources() -> Vec<(String, String)> {
    let sources = files("src", |name| name.ends_with(".rs"));
    assert!(sources.len() > 40, "only {} files below src", sources.len());
    sources
}

fn assert_none(rule: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{rule}:\n{}", faults.join("\n"));
}

#[test]
fn rooms_import_downwards_only() {
    let faults: Vec<_> = sources()
        .iter()
        .flat_map(|(file, text)| forbidden_imports(file, text).into_iter().map(move |path| format!("{file}: {path}")))
        .collect();
    assert_none("imports against the table in src/lib.rs", &faults);
}

#[test]
fn the_table_in_the_crate_documentation_is_the_one_that_is_checked() {
    let text = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let rows: Vec<(String, String)> = text
        .lines()
        .filter_map(|line| line.strip_prefix("//! | "))
        .map(|row| row.split(" | ").map(|cell| cell.trim_end_matches(" |").to_owned()).collect::<Vec<_>>())
        .filter(|cells| cells.len() == 4 && cells[1].starts_with("[`"))
        .map(|cells| (cells[1].trim_matches(['[', ']', '`']).to_owned(), cells[3].clone()))
        .collect();
    let expected: Vec<_> = TABLE.iter().map(|(room, may, _)| ((*room).to_owned(), (*may).to_owned())).collect();
    assert_eq!(rows, expected);
    let rooms: BTreeSet<_> = sources().iter().filter_map(|(file, _)| room(file).map(str::to_owned)).collect();
    assert_eq!(rooms, TABLE.iter().map(|(room, ..)| (*room).to_owned()).collect());
}

#[test]
fn pure_rooms_have_no_clock_no_chance_no_tasks_and_no_io() {
    let faults: Vec<_> = sources()
        .iter()
        .filter(|(file, _)| room(file).is_some_and(|room| PURE.contains(&room)))
        .flat_map(|(file, text)| impurities(text).into_iter().map(move |word| format!("{file}: {word}")))
        .collect();
    assert_none("not pure", &faults);
}

#[test]
fn every_file_says_what_it_is_in_ten_lines() {
    let tests = files("tests", |name| name.ends_with(".rs"));
    let faults: Vec<_> = sources()
        .into_iter()
        .chain(tests)
        .filter_map(|(file, text)| {
            let fault = head_fault(&text, LONG_HEADS.contains(&file.as_str()))?;
            Some(format!("{file}: {fault}"))
        })
        .collect();
    assert_none("heads", &faults);
}

#[test]
fn no_file_of_the_product_is_longer_than_it_can_be_read_at_once() {
    let faults: Vec<_> = sources()
        .into_iter()
        .filter(|(file, text)| !is_test(file) && text.lines().count() > LONGEST)
        .map(|(file, text)| format!("{file}: {} lines", text.lines().count()))
        .collect();
    assert_none("too long", &faults);
}

#[test]
fn nobody_takes_shortcuts() {
    let tests = files("tests", |name| name.ends_with(".rs"));
    let faults: Vec<_> = sources()
        .iter()
        .chain(&tests)
        .flat_map(|(file, text)| shortcuts(text, is_test(file)).into_iter().map(move |what| format!("{file}: {what}")))
        .collect();
    assert_none("shortcuts", &faults);
}

#[test]
fn the_repository_speaks_of_the_product_only() {
    let is_text = |name: &str| {
        let endings = [
            ".rs",
            ".toml",
            ".md",
            ".yaml",
            ".yml",
            ".json",
            ".lua",
            ".lock",
            ".py",
            ".sh",
            ".service",
            ".txt",
            "run",
            "Dockerfile",
            "LICENSE",
            "ignore",
        ];
        endings.iter().any(|ending| name.ends_with(ending))
    };
    let all = files(".", is_text);
    assert!(all.iter().any(|(file, _)| file == "Cargo.lock"));
    let faults: Vec<_> = all
        .iter()
        .flat_map(|(file, text)| foreign_words(text).into_iter().map(move |word| format!("{file}: {word}")))
        .collect();
    assert_none("words of another place", &faults);
}

#[test]
fn dependencies_come_from_the_public_registry() {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let sources: BTreeSet<_> = lock.lines().filter(|line| line.starts_with("source = ")).collect();
    assert_eq!(sources, BTreeSet::from(["source = \"registry+https://github.com/rust-lang/crates.io-index\""]));
}

#[test]
fn the_lint_wall_stands_around_the_pure_rooms() {
    let text = std::fs::read_to_string(root().join(".clippy.toml")).unwrap();
    let clippy = DeTable::parse(&text).unwrap();
    let listed = |list: &str| -> BTreeSet<String> {
        let entries = clippy.get_ref()[list].get_ref().as_array().unwrap();
        let entry = |entry: &DeValue<'_>, field: &str| entry[field].get_ref().as_str().unwrap().to_owned();
        assert!(entries.iter().all(|each| !entry(each.get_ref(), "reason").is_empty()), "{list} without reasons");
        entries.iter().map(|each| entry(each.get_ref(), "path")).collect()
    };
    let methods = listed("disallowed-methods");
    for method in [
        "std::time::Instant::now",
        "std::time::SystemTime::now",
        "tokio::time::Instant::now",
        "tokio::time::sleep",
        "tokio::spawn",
        "std::thread::spawn",
        "std::thread::sleep",
        "std::env::var",
        "std::fs::read",
        "std::fs::read_to_string",
        "std::fs::write",
        "getrandom::fill",
    ] {
        assert!(methods.contains(method), "{method} is not disallowed");
    }
    let types = listed("disallowed-types");
    for name in ["std::sync::Mutex", "std::sync::RwLock", "std::net::TcpStream", "std::fs::File"] {
        assert!(types.contains(name), "{name} is not disallowed");
    }
    let library = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
    for room in PURE {
        let wall = format!("#[deny(clippy::disallowed_methods, clippy::disallowed_types)]\npub mod {room};");
        assert!(library.contains(&wall), "{room} stands outside the wall");
    }
}

// The checks can fail -----------------------------------------------------------------------------------------------

#[test]
fn an_import_against_the_table_is_seen_however_it_is_written() {
    for (file, text, wrong) in [
        ("src/store/redis.rs", "use crate::proxy::Settings;", "crate::proxy::Settings"),
        ("src/store/redis.rs", "use crate::{idempotency::Cell, proxy::{Settings}};", "crate::proxy::Settings"),
        ("src/store/redis.rs", "fn f() { crate::admin::run() }", "crate::admin::run"),
        ("src/store/redis.rs", "use super::super::proxy::Settings;", "super::super::proxy::Settings"),
        ("src/store/mod.rs", "use super::proxy::Settings;", "super::proxy::Settings"),
        ("src/idempotency/cell/tests.rs", "use crate::store::Store;", "crate::store::Store"),
        ("src/shutdown.rs", "use crate::idempotency;", "crate::idempotency"),
        ("src/admin/mod.rs", "use crate::proxy;", "crate::proxy"),
        ("src/routes.rs", "use crate::*;", "crate::*"),
        ("src/cellar.rs", "", "cellar is not in the table"),
    ] {
        assert_eq!(forbidden_imports(file, text), BTreeSet::from([wrong.to_owned()]), "{file}: {text}");
    }
    for (file, text) in [
        ("src/store/redis.rs", "use crate::{idempotency::Cell, store::Store, telemetry::log};"),
        ("src/store/redis.rs", "use super::proxy;"),
        ("src/store/redis.rs", "// crate::proxy\nlet x = \"crate::proxy\";"),
        ("src/app.rs", "use crate::{proxy, admin, config};"),
        ("src/main.rs", "use oncegate::cli::Cli;"),
    ] {
        assert_eq!(forbidden_imports(file, text), BTreeSet::new(), "{file}: {text}");
    }
}

#[test]
fn an_impurity_is_seen_however_it_is_written() {
    for (text, impure) in [
        ("async fn f() {}", "async"),
        ("x.await", "await"),
        ("use tokio::sync::watch;", "tokio"),
        ("use std::{fmt, net::{IpAddr, TcpStream}};", "std::net"),
        ("use std::net;", "std::net"),
        ("let t = std::fs::read(p);", "std::fs"),
        ("use std::time::{Duration, Instant};", "Instant"),
        ("use std::time::SystemTime as T;", "SystemTime"),
        ("redis::cmd(x)", "redis"),
        ("use std::thread;", "std::thread"),
    ] {
        assert_eq!(impurities(text), BTreeSet::from([impure.to_owned()]), "{text}");
    }
    for text in ["// async is not here", "/// An `Instant` of tokio.", "let asynchronous = \"tokio::spawn\";", "redis"]
    {
        assert_eq!(impurities(text), BTreeSet::new(), "{text}");
    }
}

#[test]
fn a_missing_and_a_long_head_are_seen() {
    let ten = "//! x\n".repeat(10);
    let eleven = "//! x\n".repeat(11);
    assert_eq!(head_fault("use a;\n//! x", false), Some("does not begin with //!".to_owned()));
    assert_eq!(head_fault("", true), Some("does not begin with //!".to_owned()));
    assert_eq!(head_fault(&ten, false), None);
    assert_eq!(head_fault(&eleven, false), Some("11 lines of //!".to_owned()));
    assert_eq!(head_fault(&eleven, true), None);
}

#[test]
fn shortcuts_are_seen_where_they_are_taken() {
    for (text, test, seen) in [
        ("#[allow(dead_code)]", true, &["#[allow("][..]),
        ("#![allow(dead_code)]", false, &["#![allow("]),
        ("#[ignore = \"slow\"]", true, &["#[ignore"]),
        ("todo!()", true, &["todo!"]),
        ("x.unwrap();", false, &[".unwrap()"]),
        ("x.unwrap();", true, &[]),
        ("#[cfg(test)]\nmod tests {", false, &["mod tests {"]),
        ("#[expect(dead_code, reason = \"…\")] // #[allow(x)] .unwrap()", false, &[]),
        ("x.expect(\"todo!\")", false, &[]),
    ] {
        assert_eq!(shortcuts(text, test), seen, "{text}");
    }
    for (file, test) in [
        ("src/store/redis.rs", false),
        ("src/idempotency/model.rs", true),
        ("src/store/tests.rs", true),
        ("src/upstream/tests/evidence.rs", true),
        ("src/store/contests.rs", false),
        ("tests/it/tidy.rs", true),
    ] {
        assert_eq!(is_test(file), test, "{file}");
    }
}

#[test]
fn foreign_words_are_seen() {
    assert_eq!(foreign_words(&["see /WOR", "K/notes"].concat()), [["/wor", "k/"].concat()]);
    assert_eq!(foreign_words("a framework/that works"), Vec::<String>::new());
}
