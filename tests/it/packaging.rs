//! What ships beside the code: the image, the compose file, the scripts, the licences. Each is read as its tool
//! would read it, and every name, path and port in it must be one that exists.
//!
//! Not here: building the image or running the containers.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use oncegate::{
    config::{self, Loaded, Severity},
    proxy::Listen,
    store::{Location, RedisEndpoint},
    upstream::Target,
};
use serde_json::Value;

use crate::harness::gate::run_cli;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the repository, as text.
pub(crate) fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The sub-commands that `oncegate --help` lists.
pub(crate) fn commands() -> Vec<String> {
    let help = run_cli(&["--help"]).stdout;
    let list = help.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
    list.lines()
        .filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

fn sidecar(env: &BTreeMap<String, String>) -> Loaded {
    let file = root().join("config/sidecar.toml");
    config::load(&file, &|name| env.get(name).cloned()).unwrap_or_else(|problems| panic!("{}", problems.render(false)))
}

fn port(address: &str) -> u16 {
    address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or_else(|| panic!("no port in {address}"))
}

fn listen_port(loaded: &Loaded) -> u16 {
    match &loaded.settings.proxy.listen {
        Listen::Tcp(address) => port(address),
        Listen::Unix(path) => panic!("a sidecar on {}", path.display()),
    }
}

// ---- Dockerfile

/// One instruction: its stage, its word and its arguments, continuation lines joined.
#[derive(Debug)]
struct Instruction {
    stage: usize,
    word: String,
    rest: String,
}

fn dockerfile() -> Vec<Instruction> {
    let mut instructions: Vec<Instruction> = Vec::new();
    let mut stage = 0;
    let mut open: Option<String> = None;
    for line in text("Dockerfile").lines() {
        if line.trim_start().starts_with('#') || (line.trim().is_empty() && open.is_none()) {
            continue;
        }
        let line = open.take().unwrap_or_default() + line.trim();
        if let Some(line) = line.strip_suffix('\\') {
            open = Some(line.to_owned());
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap();
        stage += usize::from(word == "FROM");
        instructions.push(Instruction { stage, word: word.to_owned(), rest: rest.trim().to_owned() });
    }
    assert!(open.is_none(), "the last line continues");
    instructions
}

/// The arguments of all instructions of this kind in the image that is shipped, the last stage.
fn shipped(word: &str) -> Vec<String> {
    let all = dockerfile();
    let last = all.last().unwrap().stage;
    all.into_iter().filter(|one| one.stage == last && one.word == word).map(|one| one.rest).collect()
}

fn only(word: &str) -> String {
    let mut all = shipped(word);
    assert_eq!(all.len(), 1, "{word}");
    all.remove(0)
}

/// An argument in exec form: `["/oncegate", "run"]`.
fn exec(argument: &str) -> Vec<String> {
    let start = argument.find('[').unwrap_or_else(|| panic!("not in exec form: {argument}"));
    serde_json::from_str(&argument[start..]).unwrap()
}

/// Whether `.dockerignore` lets this path into the build context; the last pattern that matches decides.
fn in_context(path: &str) -> bool {
    let mut inside = true;
    for line in text(".dockerignore").lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (pattern, include) = line.strip_prefix('!').map_or((line, false), |pattern| (pattern, true));
        let covers = match pattern.strip_prefix("**/") {
            Some(name) => Path::new(path).iter().any(|part| part == name),
            None => pattern == "*" || Path::new(path).starts_with(pattern),
        };
        if covers {
            inside = include;
        }
    }
    inside
}

#[test]
fn the_image_copies_only_what_is_there() {
    let all = dockerfile();
    let stages: Vec<_> = all
        .iter()
        .filter(|one| one.word == "FROM")
        .map(|one| one.rest.rsplit_once(" AS ").unwrap_or_else(|| panic!("a stage without a name: {}", one.rest)).1)
        .collect();
    assert_eq!(stages, ["build", "runtime"]);
    let mut copied = Vec::new();
    for copy in all.iter().filter(|one| matches!(one.word.as_str(), "COPY" | "ADD")) {
        let (flags, mut paths): (Vec<_>, Vec<_>) =
            copy.rest.split_whitespace().partition(|word| word.starts_with("--"));
        paths.pop().expect("a destination");
        match flags.iter().find_map(|flag| flag.strip_prefix("--from=")) {
            Some(stage) => {
                let index = stages.iter().position(|name| *name == stage).unwrap_or_else(|| panic!("no stage {stage}"));
                assert!(index + 1 < copy.stage, "{stage} is built before it is copied from");
            }
            None => copied.extend(paths),
        }
    }
    for path in &copied {
        assert!(root().join(path).exists(), "COPY {path}");
        assert!(in_context(path), ".dockerignore leaves out {path}");
    }
    for needed in ["Cargo.toml", "Cargo.lock", "src", "LICENSE", "config/sidecar.toml"] {
        assert!(copied.contains(&needed), "{needed} is not copied");
    }
    for left_out in ["target", ".git", "tests", "src/routes/tests.rs", "config/oncegate.toml", "oncegate.redb"] {
        assert!(!in_context(left_out), "{left_out} is sent to the builder");
    }
}

#[test]
fn the_image_is_built_with_the_toolchain_of_the_manifest() {
    let version = env!("CARGO_PKG_RUST_VERSION");
    assert_eq!(dockerfile()[0].rest, format!("rust:{version}-bookworm AS build"));
}

#[test]
fn the_image_runs_real_commands_as_nobody_in_particular() {
    let commands = commands();
    let entrypoint = exec(&only("ENTRYPOINT"));
    assert_eq!(entrypoint, ["/oncegate"]);
    let health = exec(only("HEALTHCHECK").split_once("CMD ").unwrap().1);
    assert_eq!(health[0], entrypoint[0]);
    for command in [&health[1], &exec(&only("CMD"))[0]] {
        assert!(commands.contains(command), "`{command}` is not one of {commands:?}");
    }
    assert!(shipped("COPY").iter().any(|copy| copy.ends_with(" /oncegate")));
    let user = shipped("USER").pop().expect("a user");
    let ids: Vec<u32> = user.split(':').map(|id| id.parse().expect("a number, for runAsNonRoot")).collect();
    assert!(ids.iter().all(|id| *id != 0), "{user}");
    assert_eq!(only("STOPSIGNAL"), "SIGTERM");
    let labels = only("LABEL");
    for label in ["title", "description", "source", "licenses"] {
        assert!(labels.contains(&format!("org.opencontainers.image.{label}=")), "{label}");
    }
}

#[test]
fn the_image_and_its_configuration_agree() {
    let loaded = sidecar(&BTreeMap::new());
    let exposed: Vec<u16> = only("EXPOSE").split_whitespace().map(|port| port.parse().unwrap()).collect();
    let admin = loaded.settings.admin.listen.clone().unwrap();
    assert_eq!(exposed, [listen_port(&loaded), port(&admin)]);
    let volume = exec(&only("VOLUME")).remove(0);
    let Location::File(path) = &loaded.settings.store.location else { panic!("{:?}", loaded.settings.store) };
    assert_eq!(path.parent().unwrap(), Path::new(&volume));
    // Owned by the user that runs, or the store cannot be created.
    let user = shipped("USER").pop().unwrap();
    let owned = format!("--chown={user} ");
    assert!(shipped("COPY").iter().any(|copy| copy.contains(&owned) && copy.ends_with(&format!(" {volume}"))));
    // Where `run` and `healthcheck` look when nothing names a file.
    let help = run_cli(&["run", "--help"]).stdout;
    let place = "/etc/oncegate/oncegate.toml";
    assert!(help.contains(place), "{help}");
    assert!(shipped("COPY").contains(&format!("config/sidecar.toml {place}")));
}

// ---- docker/compose.yaml

fn compose() -> Value {
    serde_saphyr::from_str(&text("docker/compose.yaml")).unwrap_or_else(|error| panic!("{error}"))
}

fn words(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
}

fn environment(service: &Value) -> BTreeMap<String, String> {
    let pairs = service["environment"].as_object().unwrap();
    pairs.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
}

/// The service whose network the gate shares, by name.
fn neighbour(compose: &Value) -> &str {
    compose["services"]["oncegate"]["network_mode"].as_str().unwrap().strip_prefix("service:").unwrap()
}

#[test]
fn compose_names_only_services_volumes_and_files_that_are_there() {
    let compose = compose();
    let services = compose["services"].as_object().unwrap();
    let volumes = compose["volumes"].as_object().unwrap();
    let folder = root().join("docker");
    for (name, service) in services {
        for needed in service["depends_on"].as_object().map(|map| map.keys()).into_iter().flatten() {
            assert!(services.contains_key(needed), "{name} depends on {needed}");
            assert!(services[needed]["healthcheck"].is_object(), "{needed} never gets healthy");
        }
        for mount in service["volumes"].as_array().into_iter().flatten() {
            let source = mount.as_str().unwrap().split(':').next().unwrap();
            if source.starts_with('.') {
                assert!(folder.join(source).is_file(), "{name} mounts {source}");
            } else {
                assert!(volumes.contains_key(source), "{name} mounts {source}");
            }
        }
        if let Some(context) = service["build"]["context"].as_str() {
            assert!(folder.join(context).join("Dockerfile").is_file(), "{name} is built in {context}");
        }
    }
    assert!(services.contains_key(neighbour(&compose)));
}

#[test]
fn nothing_gets_around_the_gate_of_the_compose_file() {
    let compose = compose();
    let gate = &compose["services"]["oncegate"];
    let api = &compose["services"][neighbour(&compose)];
    let loaded = sidecar(&environment(gate));
    assert!(loaded.warnings.iter().all(|problem| problem.severity == Severity::Note), "{:?}", loaded.warnings);
    // The network's owner publishes the gate's port and no other.
    let listen = listen_port(&loaded);
    assert_eq!(words(&api["ports"]), [format!("{listen}:{listen}")]);
    assert!(gate["ports"].is_null(), "a container in another's network publishes nothing");
    let api_environment = environment(api);
    assert_eq!(api_environment["HOST"], "127.0.0.1", "the API is reachable from outside its pod");
    match &loaded.settings.upstream.target {
        Target::Tcp { host, port } => {
            assert_eq!((host, port.to_string()), (&api_environment["HOST"], api_environment["PORT"].clone()));
        }
        Target::Unix(path) => panic!("{}", path.display()),
    }
    for (name, service) in compose["services"].as_object().unwrap() {
        assert!(name == neighbour(&compose) || service["ports"].is_null(), "{name} publishes a port");
    }
}

#[test]
fn the_gate_of_the_compose_file_takes_only_variables_that_its_configuration_reads() {
    let (gate, configuration) = (&compose()["services"]["oncegate"], text("config/sidecar.toml"));
    for name in environment(gate).keys() {
        assert!(configuration.contains(&format!("${{{name}:-")), "{name}");
    }
}

#[test]
fn the_redis_of_the_compose_file_forgets_nothing() {
    let compose = compose();
    let loaded = sidecar(&environment(&compose["services"]["oncegate"]));
    let Location::Redis(address) = &loaded.settings.store.location else { panic!("{:?}", loaded.settings.store) };
    let RedisEndpoint::Tcp(host, port) = &address.endpoint else { panic!("{:?}", address.endpoint) };
    assert_eq!(*port, 6379);
    let redis = &compose["services"][host];
    let command = words(&redis["command"]);
    let setting = |name| command.iter().position(|word| *word == name).map(|index| command[index + 1]);
    assert_eq!(setting("--appendonly"), Some("yes"));
    assert_eq!(setting("--appendfsync"), Some("always"));
    assert_eq!(setting("--maxmemory-policy"), Some("noeviction"));
    assert!(setting("--maxmemory").is_some());
    assert!(words(&redis["volumes"]).iter().any(|mount| mount.ends_with(":/data")), "its data outlives it");
}

#[test]
fn the_gate_of_the_compose_file_is_probed_confined_and_given_time_to_drain() {
    let compose = compose();
    let gate = &compose["services"]["oncegate"];
    let probe = words(&gate["healthcheck"]["test"]);
    assert_eq!(probe[..2], ["CMD", "/oncegate"]);
    assert!(commands().contains(&probe[2].to_owned()), "{probe:?}");
    let help = run_cli(&[probe[2], "--help"]).stdout;
    for flag in &probe[3..] {
        assert!(help.contains(flag), "{probe:?}");
    }
    assert_eq!(gate["read_only"], true);
    assert_eq!(words(&gate["cap_drop"]), ["ALL"]);
    let grace = gate["stop_grace_period"].as_str().unwrap().strip_suffix('s').unwrap().parse().unwrap();
    let proxy = sidecar(&environment(gate)).settings.proxy;
    assert!(Duration::from_secs(grace) > proxy.shutdown_delay + proxy.shutdown_grace + Duration::from_secs(1));
}

// ---- scripts, licences, change log

#[test]
fn the_scripts_can_be_run_and_do_not_hide_failures() {
    for script in ["tests/run", ".ci/run"] {
        let mode = fs::metadata(root().join(script)).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{script} is not executable");
        let text = text(script);
        assert!(text.starts_with("#!/usr/bin/env bash\n"), "{script}");
        assert!(text.contains("\nset -euo pipefail\n"), "{script}");
        assert!(!text.contains("|| true\nstep"), "{script}");
    }
    let steps: Vec<_> = text(".ci/run").lines().filter(|line| line.starts_with("step ")).map(str::to_owned).collect();
    for part in ["cargo fmt --check", "cargo clippy --all-targets --locked -- -D warnings", "tests/run"] {
        assert!(steps.iter().any(|step| step.ends_with(part)), "{part}");
    }
}

#[test]
fn both_licences_of_the_manifest_are_there_in_full() {
    assert_eq!(env!("CARGO_PKG_LICENSE"), "MIT OR Apache-2.0");
    let licence = text("LICENSE");
    for part in [
        "MIT License",
        "THE SOFTWARE IS PROVIDED \"AS IS\"",
        "Apache License\n",
        "Version 2.0, January 2004",
        "9. Accepting Warranty or Additional Liability.",
        "END OF TERMS AND CONDITIONS",
    ] {
        assert!(licence.contains(part), "{part}");
    }
}

#[test]
fn the_change_log_knows_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    let log = text("CHANGELOG.md");
    let headings: Vec<_> = log.lines().filter(|line| line.starts_with("## ")).collect();
    assert!(headings.iter().any(|heading| heading.starts_with(&format!("## [{version}]"))), "{headings:?}");
    assert!(log.contains("### Added"));
    assert!(text("SECURITY.md").contains("## Reporting"));
}
