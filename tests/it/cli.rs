//! The command line: what it prints, and above all how it ends.

use std::{net::TcpListener, time::Instant};

use crate::harness::{
    client::Req,
    gate::{Gate, GateBuilder, run_cli, run_cli_in},
    upstream::{Upstream, refused_port},
};

#[test]
fn usage_errors_end_with_2() {
    let cases: &[&[&str]] = &[
        &[],
        &["nonsense"],
        &["run", "--nonsense"],
        &["run", "--config", "x.toml", "--upstream", "http://127.0.0.1:1"],
        &["check"],
        &["explain", "--config"],
        &["healthcheck", "--nonsense"],
        &["completions", "nonsense"],
    ];
    for args in cases {
        let output = run_cli(args);
        assert_eq!(output.code, 2, "{args:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{args:?}: {output:?}");
    }
    for args in [&["--help"][..], &["--version"], &["run", "--help"], &["help"]] {
        let output = run_cli(args);
        assert_eq!(output.code, 0, "{args:?}: {output:?}");
        assert!(!output.stdout.is_empty());
    }
}

#[test]
fn configuration_errors_end_with_78_and_name_their_place() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bad.toml");
    std::fs::write(
        &file,
        "[upstream]\nurl = \"http://127.0.0.1:9000\"\n\n[defaults]\nretension = \"24h\"\nlease = \"30x\"\n\n[server]\nlisten = 7\n",
    )
    .unwrap();
    for args in [
        &["check", "bad.toml"][..],
        &["run", "--config", "bad.toml"],
        &["explain", "--config", "bad.toml", "POST", "/"],
    ] {
        let output = run_cli_in(dir.path(), args);
        assert_eq!(output.code, 78, "{args:?}: {output:?}");
        let text = format!("{}{}", output.stdout, output.stderr);
        // All of them at once, each at its line and column, the misspelt one with a hint.
        for place in ["bad.toml:5:1", "bad.toml:6:9", "bad.toml:9:10"] {
            assert!(text.contains(place), "{args:?}: {place} in {text}");
        }
        assert!(text.contains("retention"), "{text}");
        assert!(text.contains('^'), "{text}");
    }
    let missing = run_cli_in(dir.path(), &["run", "--config", "missing.toml"]);
    assert_eq!(missing.code, 78, "{missing:?}");
    assert!(missing.stderr.contains("missing.toml"));
}

#[test]
fn check_accepts_a_valid_file_and_warns_about_unwise_ones() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("good.toml"), "[upstream]\nurl = \"http://127.0.0.1:9000\"\n").unwrap();
    let output = run_cli_in(dir.path(), &["check", "good.toml"]);
    assert_eq!(output.code, 0, "{output:?}");
    std::fs::write(
        dir.path().join("unwise.toml"),
        "[upstream]\nurl = \"http://127.0.0.1:9000\"\n[defaults]\nunknown = \"retry\"\n",
    )
    .unwrap();
    let output = run_cli_in(dir.path(), &["check", "unwise.toml"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stderr.contains("unwise.toml:4:"), "{output:?}");
    let output = run_cli_in(dir.path(), &["check", "--format", "json", "good.toml", "unwise.toml"]);
    assert_eq!(output.code, 0, "{output:?}");
    let problems: Vec<serde_json::Value> = serde_json::from_str(&output.stdout).unwrap();
    let problem = problems.iter().find(|problem| problem["line"] == 4).expect("the warning is there");
    for member in ["file", "line", "column", "severity", "message", "hint"] {
        assert!(problem.get(member).is_some(), "{member} in {problem}");
    }
    assert_eq!(problem["severity"], "warning");
    std::fs::write(dir.path().join("bad.toml"), "[nonsense]\n").unwrap();
    let output = run_cli_in(dir.path(), &["check", "--format", "json", "bad.toml", "good.toml"]);
    assert_eq!(output.code, 78, "{output:?}");
    let problems: Vec<serde_json::Value> = serde_json::from_str(&output.stdout).unwrap();
    assert!(problems.iter().any(|problem| problem["severity"] == "error"));
}

#[test]
fn what_comes_later_is_refused_as_unknown_and_never_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let later = [
        "[defaults]\nmode = \"shadow\"",
        "[defaults]\nunknown = \"probe\"",
        "[defaults]\nscope = [\"jwt:sub\"]",
        "[defaults]\nscope = [\"client-cert\"]",
        "[defaults]\nscope = [\"trusted-header:X-User\"]",
        "[defaults]\nreplay = { authorize = \"GET /me\" }",
        "[defaults]\nmax_executions = 1",
        "[limits]\nnew_keys_per_caller = 1",
        "[store]\nurl = \"rediss://h:1/0\"",
        "[store]\nurl = \"redis+sentinel://h:1/m/0\"",
        "[store]\nurl = \"redis+cluster://h:1\"",
        "[store]\nwait_replicas = 1",
        "[store]\nmax_size = \"1GiB\"",
        "[store]\nencryption_key = \"x\"",
        "[server]\ntls = { cert = \"a\", key = \"b\" }",
        "[telemetry]\notlp_endpoint = \"http://x\"",
        "[jwt]\njwks = \"file:x\"",
    ];
    for (index, lines) in later.iter().enumerate() {
        let name = format!("{index}.toml");
        std::fs::write(dir.path().join(&name), format!("{lines}\n[upstream]\nurl = \"http://127.0.0.1:9000\"\n"))
            .unwrap();
        let output = run_cli_in(dir.path(), &["check", &name]);
        assert_eq!(output.code, 78, "{lines}: {output:?}");
    }
    for command in ["keys", "report", "top", "doctor", "init"] {
        assert_eq!(run_cli(&[command]).code, 2, "{command}");
    }
}

#[test]
fn an_address_in_use_ends_with_71() {
    let upstream = Upstream::paying();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    for section in ["server", "admin"] {
        let (code, log) =
            Gate::before(&upstream).set(section, &format!("listen = \"{address}\"")).start_expecting_exit();
        assert_eq!(code, 71, "{section}: {log}");
        assert!(log.contains(&address.to_string()), "{log}");
    }
}

#[test]
fn a_gate_without_a_file_protects_what_carries_a_key() {
    let upstream = Upstream::paying();
    let config = GateBuilder::new(&upstream.url());
    let url = upstream.url();
    let args =
        ["run", "--upstream", &url, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--require", "POST /required"];
    let mut gate = Gate::spawn_with(&config, &args);
    // Anonymous callers share, which it says.
    gate.wait_log_text("anonymous");
    let request = Req::post("/pay").key("k1");
    gate.send(&request).expect(201, "", "executed");
    gate.send(&request).expect(201, "", "replayed");
    gate.send(&Req::post("/required")).expect(400, "key-missing", "not-executed");
    gate.send(&Req::get("/required")).expect(201, "", "");
    // The store is the embedded one, in the working directory.
    assert!(config.dir().join("oncegate.redb").exists());
    gate.kill_9();
    let gate = Gate::spawn_with(&config, &args);
    gate.send(&request).expect(201, "", "replayed");
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn the_store_and_the_admin_listener_are_flags_too() {
    let upstream = Upstream::paying();
    let config = GateBuilder::new(&upstream.url());
    let url = upstream.url();
    let gate = Gate::spawn_with(
        &config,
        &["run", "--upstream", &url, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "memory:"],
    );
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    assert!(!config.dir().join("oncegate.redb").exists());
}

#[test]
fn explain_tells_route_caller_and_cell_and_sends_nothing() {
    let upstream = Upstream::paying();
    let builder = Gate::before(&upstream).route("name = \"create-payment\"\npath = \"/pay\"\nretention = \"7d\"");
    builder.write();
    let file = builder.file();
    let file = file.to_str().unwrap();
    let explain = |key: &str, body: &str| {
        let output = run_cli(&[
            "explain",
            "--config",
            file,
            "POST",
            "/pay",
            "-H",
            "Host: api.test",
            "-H",
            "Authorization: Bearer canary",
            "-H",
            &format!("Idempotency-Key: {key}"),
            "-d",
            body,
        ]);
        assert_eq!(output.code, 0, "{output:?}");
        assert!(output.stdout.contains("create-payment"), "{}", output.stdout);
        output.stdout
    };
    assert_eq!(explain("k1", "{}"), explain("\"k1\"", "{}"));
    assert_ne!(explain("k1", "{}"), explain("k2", "{}"));
    assert_ne!(explain("k1", "{}"), explain("k1", "{ }"));
    assert_eq!(upstream.connections(), 0);
}

#[test]
fn healthcheck_ends_with_0_1_or_69() {
    let upstream = Upstream::paying();
    let builder = Gate::before(&upstream).set("store", &format!("url = \"redis://127.0.0.1:{}/0\"", refused_port()));
    let gate = builder.unready().start();
    let admin = gate.admin().tcp().to_string();
    assert_eq!(run_cli(&["healthcheck", "--admin", &admin]).code, 0);
    assert_eq!(run_cli(&["healthcheck", "--admin", &admin, "--ready"]).code, 1);
    let nobody = format!("127.0.0.1:{}", refused_port());
    assert_eq!(run_cli(&["healthcheck", "--admin", &nobody]).code, 69);
    let ready = Gate::before(&upstream).start();
    let admin = ready.admin().tcp().to_string();
    assert_eq!(run_cli(&["healthcheck", "--admin", &admin, "--ready"]).code, 0);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("c.toml"),
        format!("[upstream]\nurl = \"http://127.0.0.1:1\"\n[admin]\nlisten = \"{admin}\"\n"),
    )
    .unwrap();
    assert_eq!(run_cli_in(dir.path(), &["healthcheck", "--config", "c.toml", "--ready"]).code, 0);
}

#[test]
fn the_demo_pays_once_and_ends_in_time() {
    let began = Instant::now();
    let output = run_cli(&["demo"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stdout.contains("paid once"), "{}", output.stdout);
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}

#[test]
fn schema_completions_and_man_pages_are_printed() {
    let schema = run_cli(&["schema"]);
    assert_eq!(schema.code, 0);
    let schema: serde_json::Value = serde_json::from_str(&schema.stdout).unwrap();
    for section in ["server", "upstream", "store", "defaults", "route", "admin", "limits", "log"] {
        assert!(schema["properties"].get(section).is_some(), "{section}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let output = run_cli(&["completions", shell]);
        assert_eq!(output.code, 0);
        assert!(output.stdout.contains("oncegate"));
    }
    let man = run_cli(&["man"]);
    assert_eq!(man.code, 0);
    assert!(man.stdout.contains(".TH"));
}

#[test]
fn the_file_is_found_by_the_environment() {
    let upstream = Upstream::paying();
    let builder = Gate::before(&upstream).set("server", "listen = \"nonsense\"");
    builder.write();
    let output = std::process::Command::new(crate::harness::gate::BINARY)
        .arg("run")
        .env("ONCEGATE_CONFIG", builder.file())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(78));
    assert!(String::from_utf8_lossy(&output.stderr).contains("oncegate.toml:2:"), "{output:?}");
}
