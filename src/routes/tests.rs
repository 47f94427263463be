//! Tests of `routes`.

use std::time::Duration;

use http::StatusCode;

use super::*;
use crate::idempotency::policy::{
    Anonymous, BodyForm, FingerprintRules, InFlight, KeyRules, OnStoreDown, OnUnknown, ReplayRules, ScopeRules,
    StatusClasses,
};

fn policy(methods: &[Method], required: bool) -> Policy {
    Policy {
        mode: Mode::Enforce,
        methods: methods.to_vec(),
        key: KeyRules {
            header: http::HeaderName::from_static("idempotency-key"),
            required,
            max_length: 255,
            pattern: None,
        },
        scope: ScopeRules { sources: Vec::new(), anonymous: Anonymous::Reject },
        fingerprint: FingerprintRules { body: BodyForm::Raw, ignore: Vec::new(), headers: Vec::new() },
        in_flight: InFlight::Reject,
        lease: Duration::from_secs(30),
        retention: Duration::from_secs(60),
        unknown: OnUnknown::Hold,
        outcome: StatusClasses::default(),
        mismatch_status: StatusCode::UNPROCESSABLE_ENTITY,
        max_request_body: 1024,
        max_response_body: 1024,
        replay: ReplayRules::default(),
        store_down: OnStoreDown::Reject,
    }
}

fn route(name: &str, path: &str, methods: &[Method]) -> Route {
    let matcher = Matcher { path: PathTemplate::parse(path).unwrap(), host: None, ignore_case: false };
    Route { name: name.into(), matcher, policy: policy(methods, false) }
}

impl Route {
    fn at(mut self, host: &str) -> Self {
        self.matcher.host = Some(HostPattern::parse(host).unwrap());
        self
    }

    fn in_any_case(mut self) -> Self {
        self.matcher.ignore_case = true;
        self
    }

    fn required(mut self) -> Self {
        self.policy.key.required = true;
        self
    }
}

fn table(routes: Vec<Route>) -> RouteTable {
    let defaults = Route {
        name: RouteName::DEFAULTS.into(),
        matcher: Matcher::any(),
        policy: policy(&[Method::POST, Method::PATCH], false),
    };
    RouteTable { routes: routes.into_iter().map(Arc::new).collect(), defaults: Arc::new(defaults) }
}

fn found(table: &RouteTable, method: &Method, host: &str, path: &str) -> String {
    table.find(method, host, path).name.to_string()
}

const POST: &[Method] = &[Method::POST];

#[test]
fn the_most_specific_template_wins_whatever_the_order() {
    let routes = || {
        vec![
            route("rest", "/payments/{*rest}", POST),
            route("any", "/payments/{id}", POST),
            route("text", "/payments/refunds", POST),
        ]
    };
    let mut reversed = routes();
    reversed.reverse();
    for table in [table(routes()), table(reversed)] {
        assert_eq!(found(&table, &Method::POST, "a", "/payments/refunds"), "text");
        assert_eq!(found(&table, &Method::POST, "a", "/payments/42"), "any");
        assert_eq!(found(&table, &Method::POST, "a", "/payments/42/lines"), "rest");
        assert_eq!(found(&table, &Method::POST, "a", "/payments"), "rest");
        assert_eq!(found(&table, &Method::POST, "a", "/payment"), "_defaults");
    }
}

#[test]
fn the_order_of_the_file_decides_between_equals() {
    let table = table(vec![
        route("first", "/a/{x}", POST).at("*.example.com"),
        route("second", "/a/{y}", POST).at("api.example.com"),
        route("third", "/a/{z}", POST),
    ]);
    assert_eq!(found(&table, &Method::POST, "api.example.com", "/a/1"), "first");
    assert_eq!(found(&table, &Method::POST, "example.org", "/a/1"), "third");
}

#[test]
fn a_method_that_a_route_does_not_list_is_no_match() {
    let table = table(vec![route("post", "/payments/{id}", POST), route("put", "/payments/{*rest}", &[Method::PUT])]);
    assert_eq!(found(&table, &Method::PUT, "a", "/payments/1"), "put");
    assert_eq!(found(&table, &Method::POST, "a", "/payments/1"), "post");
    assert_eq!(found(&table, &Method::DELETE, "a", "/payments/1"), "_defaults");
}

#[test]
fn no_look_alike_walks_around_a_route() {
    let table = table(vec![route("pay", "/api/payments", POST).required()]);
    for path in [
        "/api//payments",
        "/api/%70ayments",
        "/api/payments/",
        "/api;x/payments;y",
        "/api%2Fpayments",
        "/z/../api/./payments",
        "/api/payments?x",
    ] {
        assert_eq!(found(&table, &Method::POST, "a", path), "pay", "{path}");
    }
    for path in ["/API/payments", "/api/payments.json", "/api/payments%20", "/api/%2570ayments"] {
        assert_eq!(found(&table, &Method::POST, "a", path), "_defaults", "{path}");
    }
}

#[test]
fn an_encoded_slash_does_not_walk_around_a_parameter_of_a_route_that_requires_a_key() {
    let mut off = route("off", "/off/{id}/x", POST).required();
    off.policy.mode = Mode::Off;
    let table = table(vec![
        route("transfer", "/acc/{id}/transfers", POST).required(),
        route("loose", "/Loose/{id}/x", POST).required().in_any_case(),
        route("files", "/files/{*rest}", POST),
        route("file", "/files/{name}", POST).required(),
        route("free", "/free/{id}/x", POST),
        off,
    ]);
    for (path, name) in [
        ("/acc/1/transfers", "transfer"),
        ("/acc/1%2fx/transfers", "transfer"),
        ("/acc/1%2Fx/transfers/", "transfer"),
        ("/acc/%2f/transfers", "transfer"),
        ("/acc%2f1/transfers", "transfer"),
        ("/acc/1%2f../transfers", "transfer"),
        ("/acc/1%252fx/transfers", "transfer"),
        ("/loose/1%2fx/X", "loose"),
        // Of two routes that one path leads to, the one that requires a key.
        ("/files/a/b", "files"),
        ("/files/a%2fb", "file"),
        // Nothing is required: the canonical path decides alone.
        ("/free/1%2fx/x", "_defaults"),
        ("/off/1%2fx/x", "_defaults"),
        ("/acc/1/x/transfers", "_defaults"),
    ] {
        assert_eq!(found(&table, &Method::POST, "a", path), name, "{path}");
        assert_eq!(
            table.override_hits_required("a", path, &Method::POST),
            ["transfer", "loose", "file"].contains(&name),
            "{path}"
        );
    }
    assert_eq!(found(&table, &Method::PUT, "a", "/acc/1%2fx/transfers"), "_defaults");
    assert!(!table.override_hits_required("a", "/acc/1%2fx/transfers", &Method::PUT));
}

#[test]
fn an_encoded_slash_does_not_lead_away_from_defaults_that_require_a_key() {
    let mut table = table(vec![route("hooks", "/hooks/{*rest}", POST)]);
    table.defaults = Arc::new(Route { policy: policy(POST, true), ..route("_defaults", "/", POST) });
    assert_eq!(found(&table, &Method::POST, "a", "/hooks/1"), "hooks");
    assert_eq!(found(&table, &Method::POST, "a", "/hooks/1%2f2"), "hooks");
    assert_eq!(found(&table, &Method::POST, "a", "/hooks%2f1"), "_defaults");
}

#[test]
fn letter_case_is_ignored_where_the_route_says_so() {
    let table = table(vec![route("exact", "/pay", POST), route("loose", "/PAY", POST).in_any_case()]);
    assert_eq!(found(&table, &Method::POST, "a", "/pay"), "exact");
    assert_eq!(found(&table, &Method::POST, "a", "/Pay"), "loose");
}

#[test]
fn the_host_is_part_of_the_match() {
    let table = table(vec![route("api", "/pay", POST).at("api.example.com")]);
    assert_eq!(found(&table, &Method::POST, "API.example.com:8080", "/pay"), "api");
    assert_eq!(found(&table, &Method::POST, "example.com", "/pay"), "_defaults");
    assert_eq!(found(&table, &Method::POST, "", "/pay"), "_defaults");
}

#[test]
fn the_asterisk_form_belongs_to_the_defaults() {
    let table = table(vec![route("all", "/{*rest}", &[Method::OPTIONS])]);
    assert_eq!(found(&table, &Method::OPTIONS, "a", "*"), "_defaults");
    assert_eq!(found(&table, &Method::OPTIONS, "a", "/"), "all");
}

#[test]
fn an_override_hits_what_the_overridden_method_would_have_hit() {
    let mut off = route("off", "/off", POST).required();
    off.policy.mode = Mode::Off;
    let table = table(vec![
        route("pay", "/pay", POST).required(),
        route("free", "/pay/free", POST),
        route("all", "/pay/{*rest}", POST).required(),
        off,
    ]);
    assert!(table.override_hits_required("a", "/pay", &Method::POST));
    assert!(table.override_hits_required("a", "/%70ay/", &Method::POST));
    assert!(table.override_hits_required("a", "/pay/other", &Method::POST));
    assert!(!table.override_hits_required("a", "/pay/free", &Method::POST), "a plain POST needs no key there");
    assert!(!table.override_hits_required("a", "/pay", &Method::PUT));
    assert!(!table.override_hits_required("a", "/off", &Method::POST));
    assert!(!table.override_hits_required("a", "/elsewhere", &Method::POST));
}

#[test]
fn an_override_hits_defaults_that_require_a_key() {
    let mut table = table(vec![]);
    table.defaults = Arc::new(Route { policy: policy(&[Method::POST], true), ..route("_defaults", "/", POST) });
    assert!(table.override_hits_required("a", "/anything", &Method::POST));
    assert!(!table.override_hits_required("a", "/anything", &Method::PATCH));
}

#[test]
fn a_route_whose_requests_earlier_ones_take_is_unreachable() {
    let both = &[Method::POST, Method::PUT];
    let table = table(vec![
        route("post", "/a/{x}", POST),
        route("put", "/a/{y}/", &[Method::PUT]),
        route("both", "/a/{z}", both),
        route("third", "/a/{z}", &[Method::DELETE, Method::POST]),
        route("host", "/a/{x}", POST).at("a.example"),
        route("loose", "/a/{x}", POST).in_any_case(),
        route("text", "/a/b", POST),
        route("none", "/z", &[]),
        route("wild", "/w", POST).at("*.example"),
        route("exact", "/w", POST).at("a.example"),
    ]);
    let unreachable = table.unreachable();
    let named: Vec<_> = unreachable.iter().map(|dead| table.routes[dead.route].name.to_string()).collect();
    assert_eq!(named, ["both", "host", "none", "exact"].map(str::to_owned).to_vec());
    assert_eq!(unreachable[0].taken_by, [0, 1]);
    assert_eq!(unreachable[1].taken_by, [0, 2, 3]);
    assert_eq!(unreachable[2].taken_by, Vec::<usize>::new());
    assert_eq!(unreachable[3].taken_by, [8]);
}
