//! The admin listener: who may ask what.

use crate::harness::{
    client::Req,
    gate::{ADMIN_TOKEN, Gate},
    upstream::Upstream,
};

#[test]
fn health_is_open_to_everyone() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    for path in ["/livez", "/readyz"] {
        assert_eq!(gate.admin_get(path).status, 200, "{path}");
        assert_eq!(Req::new("HEAD", path).send(gate.admin()).status, 200, "{path}");
        let refused = Req::new("POST", path).send(gate.admin());
        assert_eq!(refused.status, 405);
        assert!(refused.has("allow"));
    }
}

#[test]
fn everything_else_needs_the_token() {
    let upstream = Upstream::paying();
    let mut gate = Gate::before(&upstream).start();
    for path in ["/drain", "/records", "/nothing", "/", "/livez/x"] {
        for request in [
            Req::new("POST", path),
            Req::new("POST", path).auth("wrong"),
            Req::new("POST", path).auth(""),
            Req::new("POST", path).header("Authorization", &format!("Basic {ADMIN_TOKEN}")),
            Req::new("POST", path).auth(&ADMIN_TOKEN[1..]),
            Req::new("POST", path).auth(ADMIN_TOKEN).header("Authorization", "Bearer x"),
            Req::new("POST", &format!("{path}?token={ADMIN_TOKEN}")),
        ] {
            let answer = request.send(gate.admin());
            assert_eq!(answer.status, 401, "{path}: {answer:?}");
            assert!(answer.header("www-authenticate").unwrap().starts_with("Bearer"));
        }
    }
    assert!(gate.is_running());
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    let answer = Req::get("/nothing").auth(ADMIN_TOKEN).send(gate.admin());
    assert_eq!(answer.status, 404);
    let answer = Req::get("/drain").auth(ADMIN_TOKEN).send(gate.admin());
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
}

#[test]
fn without_a_configured_token_everything_else_is_forbidden() {
    let upstream = Upstream::paying();
    let mut gate = Gate::before(&upstream).set("admin", "token = \"\"").start();
    assert_eq!(gate.admin_get("/livez").status, 200);
    for request in
        [Req::new("POST", "/drain"), Req::new("POST", "/drain").auth(""), Req::new("POST", "/drain").auth("x")]
    {
        assert_eq!(request.send(gate.admin()).status, 403);
    }
    assert!(gate.is_running());
}

#[test]
fn the_token_can_come_from_the_environment_or_a_file() {
    let upstream = Upstream::paying();
    let builder = Gate::before(&upstream);
    let secret = builder.dir().join("admin.token");
    std::fs::write(&secret, "from-a-file\n").unwrap();
    let gate = builder.set("admin", &format!("token = \"${{file:{}}}\"", secret.display())).start();
    assert_eq!(Req::get("/nothing").auth("from-a-file").send(gate.admin()).status, 404);
    assert_eq!(Req::get("/nothing").auth("other").send(gate.admin()).status, 401);
}

#[test]
fn the_data_plane_serves_no_admin_paths() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    for path in ["/livez", "/readyz", "/metrics", "/drain"] {
        gate.send(&Req::get(path)).expect(201, "", "");
    }
    assert_eq!(upstream.requests().len(), 4);
}

#[test]
fn it_can_be_off() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).set("admin", "token = \"\"").set("admin", "listen = \"off\"").unready().start();
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    assert_eq!(gate.log_count("admin listening"), 0);
}
