//! SIGHUP: all of the new configuration or none of it, and nothing that runs is disturbed.

use crate::harness::{
    client::Req,
    gate::{Gate, GateBuilder},
    sync::Latch,
    upstream::{Script, Upstream},
};

/// Writes a configuration over the gate's own and asks it to reload.
fn reload(gate: &Gate, config: &str) {
    std::fs::write(gate.config.file(), config).unwrap();
    gate.sighup();
}

/// Reloads what the builder holds.
fn reload_with(gate: &Gate, builder: &GateBuilder) {
    reload(gate, &builder.toml());
}

fn mode(gate: &Gate, key: &str) -> String {
    let request = Req::pay(key);
    gate.send(&request);
    gate.send(&request).idempotency().to_owned()
}

#[test]
fn a_reload_changes_routes_and_defaults() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    assert_eq!(mode(&gate, "before"), "replayed");
    let changed = gate
        .config
        .clone()
        .defaults("mismatch_status = 409")
        .route("name = \"required\"\npath = \"/required\"\nkey = { required = true }");
    reload_with(&gate, &changed);
    gate.wait_until("the new route is there", || gate.send(&Req::post("/required").auth("a")).status == 400);
    gate.send(&Req::pay("before").body("{}")).expect(409, "key-reused", "mismatch");
    // The memory is the same.
    gate.send(&Req::pay("before")).expect(201, "", "replayed");
}

#[test]
fn a_broken_file_changes_nothing_and_is_reported() {
    let upstream = Upstream::paying();
    let mut gate = Gate::before(&upstream).start();
    let good = gate.config.toml();
    let broken = [
        "this is not toml".to_owned(),
        good.replace("[upstream]", "[upstream]\nunknown_key = 1"),
        format!(
            "{good}\n[[route]]\nname = \"x\"\npath = \"/required\"\nretention = \"1x\"\nkey = {{ required = true }}\n"
        ),
        String::new(),
    ];
    for (index, config) in broken.iter().enumerate() {
        let errors =
            || gate.log_lines().iter().filter(|line| line.to_lowercase().contains("\"level\":\"error\"")).count();
        let before = errors();
        reload(&gate, config);
        gate.wait_until("the error is reported", || errors() > before);
        assert_eq!(mode(&gate, &format!("k{index}")), "replayed");
        assert_eq!(gate.send(&Req::post("/required").auth("a")).status, 201, "no part of it took effect");
    }
    std::fs::remove_file(gate.config.file()).unwrap();
    gate.sighup();
    assert_eq!(mode(&gate, "gone"), "replayed");
    assert!(gate.is_running());
    // The next good file is taken again.
    let changed = gate.config.clone().defaults("mode = \"off\"");
    reload_with(&gate, &changed);
    gate.wait_until("it is off", || mode(&gate, &format!("off{}", upstream.executions_total())).is_empty());
}

#[test]
fn listeners_and_store_need_a_restart_and_say_so() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    let address = gate.address().clone();
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    let changed = gate
        .config
        .clone()
        .set("server", "listen = \"127.0.0.1:1\"")
        .set("store", "namespace = \"other\"")
        .defaults("mismatch_status = 409");
    reload_with(&gate, &changed);
    gate.wait_log_text("restart");
    assert_eq!(gate.address(), &address);
    gate.send(&Req::pay("k1")).expect(201, "", "replayed");
}

#[test]
fn what_runs_keeps_its_upstream_and_its_policy() {
    let latch = Latch::new();
    let held = latch.clone();
    let old = Upstream::start(Script::on_request(move |exchange| {
        if exchange.request.method == "GET" {
            return exchange.answer(404, &[], b"the old one");
        }
        exchange.execute();
        held.wait();
        exchange.answer(201, &[], b"from the old one");
    }));
    let new = Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        exchange.answer(200, &[], b"from the new one");
    }));
    let gate = Gate::before(&old).start();
    let mut running = Req::pay("k1").begin(gate.address());
    old.wait_executions(1);
    let changed = gate.config.clone().set("upstream", &format!("url = {:?}", new.url()));
    reload_with(&gate, &changed);
    gate.wait_until("the new upstream is used", || gate.send(&Req::get("/")).status == 200);
    gate.send(&Req::pay("k1")).expect(409, "in-progress", "in-progress");
    latch.open();
    assert_eq!(running.response().expect(201, "", "executed").text(), "from the old one");
    assert_eq!(gate.send(&Req::pay("k1")).text(), "from the old one");
    assert_eq!(gate.send(&Req::pay("k2")).text(), "from the new one");
}

#[test]
fn kept_connections_see_the_new_configuration() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    let mut client = gate.connect();
    client.expect_usable(&Req::post("/required").auth("a")).expect(201, "", "");
    let changed = gate.config.clone().route("name = \"required\"\npath = \"/required\"\nkey = { required = true }");
    reload_with(&gate, &changed);
    gate.wait_until("the new route is there", || gate.send(&Req::post("/required").auth("a")).status == 400);
    client.expect_usable(&Req::post("/required").auth("a")).expect(400, "key-missing", "not-executed");
}

#[test]
fn a_reload_under_traffic_loses_nothing() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    let address = gate.address().clone();
    let sending = crate::harness::client::beside(move || {
        crate::harness::client::parallel(4, |worker| {
            (0..100).all(|index| Req::pay(&format!("w{worker}-{index}")).send(&address).status == 201)
        })
    });
    for round in 0..10 {
        reload_with(&gate, &gate.config.clone().defaults(&format!("max_request_body = \"{}KiB\"", 100 + round)));
        upstream.wait_executions(upstream.executions_total().min(399) + 1);
    }
    assert_eq!(sending.join().unwrap(), [true; 4]);
    assert_eq!(upstream.executions_total(), 400);
}
