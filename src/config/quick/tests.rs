//! Tests of `config::quick`.

use super::*;
use crate::{config::Severity, idempotency::policy::Mode, proxy::Listen, store::Location, upstream::Target};

fn load(upstream: &str, require: &[&str]) -> Result<Loaded, Problems> {
    let require: Vec<_> = require.iter().map(|&text| text.to_owned()).collect();
    quick(upstream, None, None, None, &require, &|_| None)
}

#[test]
fn one_url_protects_every_post_and_patch() {
    let Loaded { settings, warnings } = load("http://127.0.0.1:9000", &[]).unwrap();
    assert_eq!(settings.upstream.target, Target::Tcp { host: "127.0.0.1".to_owned(), port: 9000 });
    assert_eq!(settings.store.location, Location::File("oncegate.redb".into()));
    assert_eq!(settings.proxy.listen, Listen::Tcp("127.0.0.1:8080".to_owned()));
    let policy = &settings.routes.defaults.policy;
    assert_eq!((policy.mode, policy.scope.anonymous), (Mode::Enforce, Anonymous::Share));
    assert_eq!(policy.methods, [Method::POST, Method::PATCH]);
    assert!(warnings.iter().all(|problem| problem.severity == Severity::Note), "{warnings:?}");
}

#[test]
fn every_flag_has_its_place() {
    let Loaded { settings, .. } =
        quick("unix:/app.sock", Some("0.0.0.0:1"), Some("off"), Some("redis://redis/2"), &[], &|_| None).unwrap();
    assert_eq!(settings.upstream.target, Target::Unix("/app.sock".into()));
    assert_eq!(settings.proxy.listen, Listen::Tcp("0.0.0.0:1".to_owned()));
    assert_eq!(settings.admin.listen, None);
    assert!(matches!(settings.store.location, Location::Redis(address) if address.database == 2));
}

#[test]
fn a_required_path_is_a_route_with_that_method() {
    let Loaded { settings, .. } = load("http://a", &["POST /payments/{id}", "PUT  /b"]).unwrap();
    let [payments, put] = settings.routes.routes.as_slice() else { panic!("two routes") };
    assert_eq!(payments.name.to_string(), "POST /payments/{id}");
    assert_eq!(payments.policy.methods, [Method::POST]);
    assert!(payments.policy.key.required);
    assert_eq!(payments.policy.scope.anonymous, Anonymous::Share);
    assert_eq!((put.matcher.path.as_str(), put.policy.methods.as_slice()), ("/b", [Method::PUT].as_slice()));
    assert!(!settings.routes.defaults.policy.key.required);
    assert!(settings.routes.find(&Method::POST, "x", "/payments/1").policy.key.required);
}

#[test]
fn a_wrong_flag_is_shown_as_it_was_given() {
    let problems = quick(
        "https://a",
        Some("8080"),
        None,
        Some("redis://:hunter2@"),
        &["/a".to_owned(), "post /b".to_owned()],
        &|_| None,
    )
    .unwrap_err();
    let expected = "\
error: `https` is not supported by this version
 --> command line:1:12
  |
1 | --upstream https://a
  |            ^^^^^^^^^
  |
  = help: TLS to the upstream comes later; this version knows `http://` and `unix:`

error: `8080` has no host
 --> command line:2:10
  |
2 | --listen 8080
  |          ^^^^
  |
  = help: did you mean `127.0.0.1:8080`?

error: there is no HOST:PORT in the URL
 --> command line:3:9
  |
3 | --store redis://:*******@
  |         ^^^^^^^^^^^^^^^^^
  |
  = help: `redis://HOST:PORT/DB`

error: `/a` is not a method and a path
 --> command line:4:11
  |
4 | --require /a
  |           ^^
  |
  = help: such as --require 'POST /payments'

error: `post` never comes: methods are written in capitals
 --> command line:5:11
  |
5 | --require post /b
  |           ^^^^^^^
  |
  = help: did you mean `POST`?
";
    assert_eq!(problems.render(false), expected);
}

#[test]
fn the_same_requirement_twice_is_a_slip() {
    let problems = load("http://a", &["POST /a", "POST /a"]).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "command line:3:11: there are two routes named `POST /a`\n\
         command line:3:11: this route can never match (`POST /a` before it takes all its requests)"
    );
}
