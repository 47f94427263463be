//! The corpus of broken files, and properties of loading as a whole.

use std::{collections::BTreeSet, path::Path, time::Duration};

use proptest::prelude::*;

use super::*;
use crate::{
    idempotency::policy::{self, Anonymous, InFlight, StatusClass},
    proxy::Listen,
    store::{Location, RedisEndpoint},
};

fn no_env(_: &str) -> Option<String> {
    None
}

fn env(name: &str) -> Option<String> {
    let value = match name {
        "LISTEN" => "top-secret",
        "MANY" => "top-secret",
        "NUMBER" => "12",
        "STORE" => "redis://:top-secret@/x",
        "YES" => "yes",
        "TRUE" => "true",
        _ => return None,
    };
    Some(value.to_owned())
}

fn load_text(text: &str) -> Result<Loaded, Problems> {
    parse(text, "test.toml", Path::new("/etc/oncegate"), &no_env)
}

fn settings(text: &str) -> Settings {
    load_text(text).unwrap_or_else(|problems| panic!("{problems}")).settings
}

fn messages(text: &str) -> Vec<String> {
    load_text(text)
        .map_or_else(|problems| problems.0, |loaded| loaded.warnings)
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// `tests/fixtures/config/NAME.toml` renders as `NAME.txt`. `ONCEGATE_BLESS=1` writes the latter anew.
#[test]
fn every_file_of_the_corpus_is_reported_word_for_word() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/config");
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        names.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
    }
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        let file = folder.join(format!("{name}.toml"));
        let problems = load(&file, &env).map_or_else(|problems| problems.0, |loaded| loaded.warnings);
        let rendered = render(&problems, false).replace(&format!("{}/", folder.display()), "");
        assert!(!rendered.contains("top-secret"), "{name} shows a secret:\n{rendered}");
        let expected = folder.join(format!("{name}.txt"));
        if std::env::var_os("ONCEGATE_BLESS").is_some() {
            std::fs::write(&expected, &rendered).unwrap();
        }
        assert_eq!(rendered, std::fs::read_to_string(&expected).unwrap(), "{name}");
    }
}

const UPSTREAM: &str = "[upstream]\nurl = \"http://127.0.0.1:9000\"\n";

fn with(rest: &str) -> String {
    format!("{UPSTREAM}{rest}")
}

#[test]
fn the_least_file_has_every_default_of_the_contract() {
    let settings = settings(UPSTREAM);
    let proxy = &settings.proxy;
    assert_eq!(proxy.listen, Listen::Tcp("127.0.0.1:8080".to_owned()));
    assert_eq!(proxy.trusted_proxies, []);
    assert_eq!((proxy.max_connections, proxy.max_header_bytes), (10_000, 65_536));
    let seconds = Duration::from_secs;
    assert_eq!(
        [proxy.header_timeout, proxy.body_timeout, proxy.idle_timeout, proxy.shutdown_delay, proxy.shutdown_grace],
        [seconds(10), seconds(60), seconds(75), seconds(0), seconds(60)]
    );
    assert_eq!((proxy.problem_base.as_str(), proxy.namespace.as_str()), ("urn:oncegate:problem:", "oncegate"));
    assert_eq!((proxy.body_memory, proxy.waiters, proxy.waiters_per_key), (256 << 20, 1024, 32));
    assert_eq!(proxy.store_timeout, Duration::from_millis(250));

    let upstream = &settings.upstream;
    assert_eq!(upstream.target, upstream::Target::Tcp { host: "127.0.0.1".to_owned(), port: 9000 });
    assert_eq!(
        [upstream.connect_timeout, upstream.response_timeout, upstream.max_execution, upstream.idle_reuse],
        [seconds(2), seconds(60), seconds(900), seconds(2)]
    );
    assert_eq!(upstream.max_connections, 256);
    assert_eq!(upstream.host, upstream::HostPolicy::Preserve);
    assert_eq!(upstream.forwarded, upstream::ForwardedStyle::XForwarded);

    assert_eq!(settings.store.location, Location::File("/etc/oncegate/oncegate.redb".into()));
    assert_eq!((settings.store.namespace.as_str(), settings.store.allow_eviction), ("oncegate", false));
    assert_eq!(settings.store.timeout, Duration::from_millis(250));
    assert_eq!((settings.admin.listen.as_deref(), settings.admin.token), (Some("127.0.0.1:9180"), None));
    assert_eq!(settings.log, log::Settings { level: tracing::Level::INFO, format: log::Format::Auto });

    assert!(settings.routes.routes.is_empty());
    let defaults = &settings.routes.defaults;
    assert_eq!(defaults.name.to_string(), "_defaults");
    let policy = &defaults.policy;
    assert_eq!(policy.mode, policy::Mode::Enforce);
    assert_eq!(policy.methods, [http::Method::POST, http::Method::PATCH]);
    assert_eq!(
        (policy.key.header.as_str(), policy.key.required, policy.key.max_length),
        ("idempotency-key", false, 255)
    );
    assert_eq!(policy.key.pattern, None);
    let sources: Vec<_> = policy.scope.sources.iter().map(ToString::to_string).collect();
    assert_eq!(sources, ["header:authorization", "header:x-api-key"]);
    assert_eq!(policy.scope.anonymous, Anonymous::Reject);
    assert_eq!(policy.fingerprint.body, policy::BodyForm::Raw);
    assert!(policy.fingerprint.ignore.is_empty() && policy.fingerprint.headers.is_empty());
    assert_eq!(policy.in_flight, InFlight::Reject);
    assert_eq!((policy.lease, policy.retention), (seconds(30), seconds(86_400)));
    assert_eq!((policy.unknown, policy.store_down), (policy::OnUnknown::Hold, policy::OnStoreDown::Reject));
    assert_eq!(policy.outcome, policy::StatusClasses::default());
    assert_eq!(policy.mismatch_status, http::StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!((policy.max_request_body, policy.max_response_body), (1 << 20, 1 << 20));
    assert!(policy.replay.drop_headers.is_empty() && policy.replay.keep_headers.is_empty());
}

/// The settings of the shipped file with every key are those of the least file, but for its one route.
#[test]
fn the_commented_file_shows_the_defaults() {
    let shown = load_text(include_str!("../../config/oncegate.toml")).unwrap().settings;
    let least = settings(UPSTREAM);
    assert_eq!(shown.needs_restart(&least), Vec::<&str>::new());
    assert_eq!((&shown.proxy, &shown.upstream), (&least.proxy, &least.upstream));
    assert_eq!((&shown.store, &shown.admin, &shown.log), (&least.store, &least.admin, &least.log));
    assert_eq!(shown.routes.defaults.policy, least.routes.defaults.policy);
    let [route] = shown.routes.routes.as_slice() else { panic!("one route") };
    assert_eq!(route.matcher.host, None);
    assert!(!route.matcher.ignore_case);
}

#[test]
fn a_route_overrides_single_fields_also_within_tables() {
    let settings = settings(&with(
        r#"
[defaults]
retention = "2d"
in_flight = "wait"
wait_timeout = "3s"
key = { required = true, max_length = 64 }
fingerprint = { body = "json", ignore = ["/a"] }
outcome = { store = [404], release = [500] }
replay = { drop_headers = ["X-A"], keep_headers = ["Set-Cookie"] }

[[route]]
name = "a"
path = "/a"
host = "*.example.com"
ignore_case = true
lease = "10s"
key = { max_length = 10 }
fingerprint = { headers = ["X-B"] }
outcome = { release = [501] }
replay = { keep_headers = [] }

[[route]]
name = "b"
path = "/b"
methods = ["POST", "POST", "PUT"]
fingerprint = { body = "raw", ignore = [] }
outcome = "stripe"
"#,
    ));
    let [a, b] = settings.routes.routes.as_slice() else { panic!("two routes") };
    assert_eq!((a.name.to_string(), a.matcher.path.as_str()), ("a".to_owned(), "/a"));
    assert_eq!(a.matcher.host.as_ref().map(ToString::to_string), Some("*.example.com".to_owned()));
    assert!(a.matcher.ignore_case);
    let policy = &a.policy;
    assert_eq!((policy.lease, policy.retention), (Duration::from_secs(10), Duration::from_secs(172_800)));
    assert_eq!(policy.in_flight, InFlight::Wait { at_most: Duration::from_secs(3) });
    assert_eq!((policy.key.required, policy.key.max_length), (true, 10));
    assert_eq!(policy.fingerprint.body, policy::BodyForm::Json);
    assert_eq!(
        (policy.fingerprint.ignore.as_slice(), policy.fingerprint.headers.len()),
        (["/a".to_owned()].as_slice(), 1)
    );
    assert_eq!((policy.replay.drop_headers.len(), policy.replay.keep_headers.len()), (1, 0));
    let class = |status| policy.outcome.class(http::StatusCode::from_u16(status).unwrap(), false);
    assert_eq!(class(404), StatusClass::Store, "taken over");
    assert_eq!(class(501), StatusClass::Release, "its own");
    assert_eq!(class(500), StatusClass::Store, "a list is replaced as a whole");
    assert_eq!(b.policy.outcome, policy::StatusClasses::stripe());
    assert_eq!(b.policy.methods, [http::Method::POST, http::Method::PUT]);
    assert_eq!(b.policy.fingerprint.body, policy::BodyForm::Raw);
}

#[test]
fn a_preset_over_a_table_replaces_it_and_a_table_over_a_preset_is_an_error() {
    let route = "[[route]]\nname = \"a\"\npath = \"/a\"\n";
    let settings = settings(&with(&format!("[defaults]\noutcome = {{ store = [401] }}\n{route}outcome = \"stripe\"")));
    assert_eq!(settings.routes.routes[0].policy.outcome, policy::StatusClasses::stripe());
    let text = with(&format!("[defaults]\noutcome = \"success-only\"\n{route}"));
    assert_eq!(self::settings(&text).routes.routes[0].policy.outcome, policy::StatusClasses::success_only());
    assert_eq!(
        messages(&format!("{text}outcome = {{ store = [401] }}")),
        ["test.toml:8:11: a table of statuses over a preset (a preset is complete: name presets in the routes that \
          want them, not in `[defaults]`)"]
    );
}

#[test]
fn strings_are_filled_in_and_may_then_be_numbers() {
    let env = |name: &str| match name {
        "PORT" => Some("9001".to_owned()),
        "MANY" => Some("7".to_owned()),
        "YES" => Some("true".to_owned()),
        _ => None,
    };
    let text = r#"
[server]
max_connections = "${MANY}"
[upstream]
url = "http://${API_HOST:-localhost}:${PORT}"
[store]
allow_eviction = "${YES}"
[defaults]
key = { pattern = "^[a-z]+$" }
mismatch_status = "${STATUS:-409}"
outcome = { store = ["${S:-404}"] }
"#;
    let settings = parse(text, "a", Path::new(""), &env).unwrap().settings;
    assert_eq!(settings.proxy.max_connections, 7);
    assert_eq!(settings.upstream.target, upstream::Target::Tcp { host: "localhost".to_owned(), port: 9001 });
    assert!(settings.store.allow_eviction);
    let policy = &settings.routes.defaults.policy;
    assert_eq!(policy.key.pattern.as_ref().unwrap().source(), "^[a-z]+$");
    assert_eq!(policy.mismatch_status, http::StatusCode::CONFLICT);
    // A string that was not filled in is no number.
    assert_eq!(messages(&with("max_connections = \"7\"")), ["test.toml:3:19: expected a whole number, found string"]);
}

#[test]
fn relative_paths_are_relative_to_the_folder_of_the_file() {
    let text = r#"
[server]
listen = "unix:gate.sock"
[upstream]
url = "unix:../app.sock"
[store]
url = "redis+unix:redis.sock"
"#;
    let settings = settings(text);
    assert_eq!(settings.proxy.listen, Listen::Unix("/etc/oncegate/gate.sock".into()));
    assert_eq!(settings.upstream.target, upstream::Target::Unix("/etc/oncegate/../app.sock".into()));
    let Location::Redis(address) = settings.store.location else { panic!("Redis") };
    assert_eq!(address.endpoint, RedisEndpoint::Unix("/etc/oncegate/redis.sock".into()));
    let absolute = self::settings(&with("[store]\nurl = \"file:/var/lib/a.redb\""));
    assert_eq!(absolute.store.location, Location::File("/var/lib/a.redb".into()));
}

#[test]
fn secrets_print_as_stars() {
    let text = with("[admin]\ntoken = \"hunter2\"\n[store]\nurl = \"redis://:hunter3@redis\"");
    let loaded = load_text(&text).unwrap();
    let shown = format!("{loaded:?}");
    assert!(shown.contains("***"), "{shown}");
    assert!(!shown.contains("hunter"), "{shown}");
    assert_eq!(loaded.settings.admin.token.as_deref(), Some("hunter2"));
    let problems = load_text(&(text + "x")).unwrap_err();
    assert!(!format!("{problems:?} {problems} {}", problems.render(false)).contains("hunter"));
}

#[test]
fn only_listeners_and_the_store_need_a_restart() {
    let old = settings(UPSTREAM);
    let new = |rest: &str| settings(&with(rest));
    assert_eq!(old.needs_restart(&new("[server]\nlisten = \"127.0.0.1:1\"")), ["server.listen"]);
    assert_eq!(old.needs_restart(&new("[admin]\nlisten = \"off\"")), ["admin.listen"]);
    for store in ["url = \"memory:\"", "namespace = \"x\"", "timeout = \"1s\"", "allow_eviction = true"] {
        assert_eq!(old.needs_restart(&new(&format!("[store]\n{store}"))), ["[store]"], "{store}");
    }
    let all = "[server]\nlisten = \"unix:a\"\n[admin]\nlisten = \"off\"\n[store]\nurl = \"memory:\"";
    assert_eq!(old.needs_restart(&new(all)), ["server.listen", "admin.listen", "[store]"]);
    let rest =
        "[server]\nmax_connections = 1\n[admin]\ntoken = \"x\"\n[log]\nlevel = \"debug\"\n[defaults]\nmode = \"off\"";
    assert_eq!(old.needs_restart(&new(rest)), Vec::<&str>::new());
}

#[test]
fn a_file_that_is_none_is_a_problem_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |path: &Path| {
        let problems = load(path, &no_env).unwrap_err();
        assert_eq!(problems.0.len(), 1);
        assert_eq!(problems.0[0].span, None);
        problems.to_string().replace(&dir.path().display().to_string(), "DIR")
    };
    assert_eq!(
        refused(&dir.path().join("absent.toml")),
        "DIR/absent.toml: cannot read the file: No such file or directory (os error 2)"
    );
    assert_eq!(refused(dir.path()), "DIR: this is a folder, not a configuration file");
    std::fs::write(dir.path().join("oncegate.toml"), UPSTREAM).unwrap();
    assert_eq!(
        refused(dir.path()),
        "DIR: this is a folder, not a configuration file (did you mean DIR/oncegate.toml?)"
    );
    assert!(load(&dir.path().join("oncegate.toml"), &no_env).is_ok());
}

#[test]
fn a_route_inherits_what_is_wrong_with_the_defaults_only_once() {
    let route = |name: &str| format!("[[route]]\nname = \"{name}\"\npath = \"/{name}\"\n");
    let text = with(&format!("[defaults]\nretention = \"1m\"\n{}{}", route("a"), route("b")));
    assert_eq!(messages(&text).len(), 1, "{:?}", messages(&text));
}

/// Texts near to configurations: whole lines of them, in any order, and mutilated.
fn nearly() -> impl Strategy<Value = String> {
    let lines: Vec<&'static str> = include_str!("../../config/oncegate.toml")
        .lines()
        .chain(include_str!("../../config/payments.toml").lines())
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .collect();
    let line =
        (prop::sample::select(lines), any::<prop::sample::Index>(), "[\"'\\[\\]{}=.,${}a-z0-9é\\\\ -]{0,3}", 0..4u8)
            .prop_map(|(line, at, insert, cut)| {
                let at = at.index(line.len() + 1);
                if !line.is_char_boundary(at) || cut == 0 {
                    return line.to_owned();
                }
                let rest = line.get(at + usize::from(cut) - 1..).unwrap_or_default();
                format!("{}{insert}{rest}", &line[..at])
            });
    prop::collection::vec(line, 0..25).prop_map(|lines| lines.join("\n"))
}

fn never_panics(text: &str) -> Result<(), TestCaseError> {
    let problems = match load_text(text) {
        Ok(loaded) => loaded.warnings,
        Err(problems) => {
            prop_assert!(problems.0.iter().any(|problem| problem.severity == Severity::Error), "an error without one");
            problems.0
        }
    };
    for problem in &problems {
        prop_assert!(problem.line >= 1 && problem.column >= 1);
        if let Some(span) = &problem.span {
            prop_assert!(span.start <= span.end && span.end <= text.len());
            // The header of the rendering and the fields agree on the place.
            let place = format!("test.toml:{}:{}\n", problem.line, problem.column);
            let rendered = problem.render(false);
            prop_assert!(rendered.contains(&place), "{place:?} not in {rendered}");
        }
    }
    prop_assert_eq!(to_json(&problems).as_array().map(Vec::len), Some(problems.len()));
    Ok(())
}

proptest! {
    #[test]
    fn any_text_loads_or_is_refused(text in any::<String>()) {
        never_panics(&text)?;
    }

    #[test]
    fn any_text_of_toml_marks_loads_or_is_refused(text in "[\\[\\]{}=.,\"'#a\n\r\té0-9:$_-]{0,80}") {
        never_panics(&text)?;
    }

    #[test]
    fn any_text_near_to_a_configuration_loads_or_is_refused(text in nearly()) {
        never_panics(&text)?;
    }
}
