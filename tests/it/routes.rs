//! Which route a request belongs to: method, host and path together, the most specific first.

use crate::harness::{client::Req, gate::Gate, upstream::Upstream};

#[test]
fn the_routes_of_a_file_decide_by_method_host_and_path() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream)
        .defaults("mode = \"off\"")
        .route("name = \"files\"\npath = \"/files/{*rest}\"\nmethods = [\"POST\"]\nmode = \"enforce\"")
        .route("name = \"public\"\npath = \"/files/public/{name}\"\nmethods = [\"POST\"]")
        .route("name = \"transfers\"\npath = \"/accounts/{id}/transfers\"\nmode = \"enforce\"")
        .route("name = \"tenant\"\npath = \"/t\"\nhost = \"*.example.com\"\nmode = \"enforce\"")
        .route("name = \"exact\"\npath = \"/t\"\nhost = \"api.example.org\"\nmode = \"enforce\"")
        .start();
    let status = |request: &Req| {
        gate.send(request);
        gate.send(request).idempotency().to_owned()
    };
    let post = |path: &str, key: &str| Req::post(path).auth("a").key(key);
    assert_eq!(status(&post("/files/a/b", "1")), "replayed");
    assert_eq!(status(&post("/files/public/b", "2")), "", "the most specific route wins");
    assert_eq!(status(&post("/accounts/7/transfers", "3")), "replayed");
    assert_eq!(status(&post("/accounts/7/8/transfers", "4")), "");
    assert_eq!(status(&post("/accounts//transfers", "5")), "");
    assert_eq!(status(&post("/t", "6")), "");
    assert_eq!(status(&post("/t", "7").host("a.example.com")), "replayed");
    assert_eq!(status(&post("/t", "8").host("A.EXAMPLE.COM:8080")), "replayed");
    assert_eq!(status(&post("/t", "9").host("example.com")), "");
    assert_eq!(status(&post("/t", "10").host("api.example.org")), "replayed");
    assert_eq!(status(&post("/t", "11").host("x.api.example.org")), "");
}

#[test]
fn a_method_that_a_route_does_not_list_is_no_match() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream)
        .defaults("methods = [\"POST\", \"PATCH\"]")
        .route("name = \"put\"\npath = \"/x\"\nmethods = [\"PUT\"]\nkey = { required = true }")
        .start();
    gate.send(&Req::new("PUT", "/x").auth("a").body("x")).expect(400, "key-missing", "not-executed");
    // `[defaults]` decides about the others.
    gate.send(&Req::post("/x").auth("a")).expect(201, "", "");
    gate.send(&Req::post("/x").auth("a").key("k1")).expect(201, "", "executed");
    gate.send(&Req::new("DELETE", "/x").auth("a").key("k2")).expect(201, "", "");
}

#[test]
fn of_equally_specific_routes_the_first_in_the_file_wins() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream)
        .route("name = \"first\"\npath = \"/{a}/x\"\nmismatch_status = 409")
        .route("name = \"second\"\npath = \"/{b}/x\"")
        .start();
    gate.send(&Req::post("/1/x").auth("a").key("k1")).expect(201, "", "executed");
    gate.send(&Req::post("/2/x").auth("a").key("k1")).expect(409, "key-reused", "mismatch");
}

#[test]
fn a_route_overrides_single_fields_of_the_defaults() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream)
        .defaults("key = { header = \"X-Key\", max_length = 4 }")
        .route("name = \"r\"\npath = \"/r\"\nkey = { required = true }")
        .start();
    gate.send(&Req::post("/r").auth("a").key("k1")).expect(400, "key-missing", "not-executed");
    gate.send(&Req::post("/r").auth("a").header("X-Key", "12345")).expect(400, "key-invalid", "not-executed");
    gate.send(&Req::post("/r").auth("a").header("X-Key", "1234")).expect(201, "", "executed");
}

#[test]
fn one_key_is_one_operation_across_routes() {
    let upstream = Upstream::paying();
    let gate =
        Gate::before(&upstream).route("name = \"a\"\npath = \"/a\"").route("name = \"b\"\npath = \"/b\"").start();
    gate.send(&Req::post("/a").auth("a").key("k1")).expect(201, "", "executed");
    gate.send(&Req::post("/b").auth("a").key("k1")).expect(422, "key-reused", "mismatch");
    assert_eq!(upstream.executions("k1"), 1);
}
