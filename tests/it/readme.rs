//! The README is a promise: its commands exist, its configurations are valid, its tables are those of the program,
//! and the demo prints what it shows.

use std::{collections::BTreeSet, path::Path};

use oncegate::config::{self, Severity};

use crate::{
    harness::gate::{run_cli, run_cli_in},
    packaging::{commands, root, text},
};

/// The fenced blocks of the README in this language, each with the line it begins on.
fn blocks(language: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, &str, String)> = None;
    let readme = text("README.md");
    for (index, line) in readme.lines().enumerate() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(name)) => open = Some((index + 2, name, String::new())),
            (Some(_), Some(_)) => {
                let (start, name, body) = open.take().unwrap();
                if name == language {
                    found.push((start, body));
                }
            }
            (Some((_, _, body)), None) => {
                body.push_str(line);
                body.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    found
}

/// The rows of the table under `heading`, without its head; each a list of trimmed cells.
fn table(heading: &str) -> Vec<Vec<String>> {
    let readme = text("README.md");
    let start = readme.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no heading {heading}"));
    let lines = readme[start..].lines().skip_while(|line| !line.starts_with('|'));
    let rows: Vec<Vec<String>> = lines
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect();
    assert!(!rows.is_empty(), "no table under {heading}");
    rows
}

/// What stands between back ticks.
fn ticked(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_configuration_in_the_readme_is_valid() {
    let blocks = blocks("toml");
    assert!(blocks.len() >= 5, "{}", blocks.len());
    for (line, block) in blocks {
        // An excerpt stands for a file that says where the upstream is.
        let excerpt = !block.contains("[upstream]");
        let text = if excerpt { format!("{block}\n[upstream]\nurl = \"http://127.0.0.1:9000\"\n") } else { block };
        let name = format!("README.md, block at line {line}");
        let env = |name: &str| (name == "ONCEGATE_ADMIN_TOKEN").then(|| "token".to_owned());
        let loaded = config::parse(&text, &name, Path::new(""), &env)
            .unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        let warnings: Vec<_> =
            loaded.warnings.into_iter().filter(|problem| problem.severity != Severity::Note).collect();
        // What the text around a block warns about is warned about.
        let expected = usize::from(text.contains("# check warns"));
        assert_eq!(warnings.len(), expected, "{}", config::render(&warnings, false));
    }
}

#[test]
fn every_command_in_the_readme_exists() {
    let commands = commands();
    let readme = text("README.md");
    let mut seen = BTreeSet::new();
    let code = blocks("sh").into_iter().map(|(_, block)| block).collect::<String>();
    let sessions = blocks("text").into_iter().map(|(_, block)| block).collect::<String>();
    let typed = sessions.lines().filter(|line| line.starts_with("$ "));
    let lines = code.lines().chain(typed).chain(ticked(&readme).filter(|code| !code.contains('\n')));
    for line in lines {
        let line = line.trim_start_matches("$ ");
        let Some(rest) = line.strip_prefix("oncegate ").or_else(|| line.strip_prefix("cargo run --release -- ")) else {
            continue;
        };
        let mut words = rest.split_whitespace();
        let command = words.next().unwrap();
        if command.starts_with('-') {
            continue;
        }
        assert!(commands.contains(&command.to_owned()), "`oncegate {rest}`: there is no `{command}`");
        let help = run_cli(&[command, "--help"]).stdout;
        for flag in words.filter(|word| word.starts_with("--")) {
            assert!(help.contains(flag.split('=').next().unwrap()), "`oncegate {rest}`: there is no `{flag}`");
        }
        seen.insert(command.to_owned());
    }
    for command in commands.iter().filter(|command| *command != "help") {
        assert!(seen.contains(command), "the README does not show `oncegate {command}`");
    }
}

#[test]
fn every_file_that_the_readme_names_exists() {
    let readme = text("README.md");
    let links = readme.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let links = links.filter(|link| !link.contains("://") && !link.starts_with('#'));
    let folders = ["config/", "docker/", "src/", "tests/", ".ci/"];
    let code = ticked(&readme).filter_map(|code| code.split_whitespace().next());
    let code = code.filter(|code| folders.iter().any(|folder| code.starts_with(folder)));
    let mut count = 0;
    for path in links.chain(code) {
        assert!(root().join(path).exists(), "{path}");
        count += 1;
    }
    assert!(count > 10, "{count}");
}

#[test]
fn the_headings_that_the_readme_links_to_exist() {
    let readme = text("README.md");
    let anchors: BTreeSet<String> = readme
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect();
    for link in readme.split("](#").skip(1).filter_map(|rest| rest.split(')').next()) {
        assert!(anchors.contains(link), "#{link}");
    }
}

#[test]
fn the_exit_codes_of_the_readme_are_those_of_the_program() {
    let help = run_cli(&["--help"]).stdout;
    let list = help.split("Exit codes:").nth(1).unwrap().split("Signals").next().unwrap();
    let program: Vec<String> = list
        .lines()
        .filter_map(|line| line.split_whitespace().next().filter(|word| word.parse::<u8>().is_ok()).map(str::to_owned))
        .collect();
    let readme: Vec<String> =
        table("### Exit codes").into_iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
    assert_eq!(readme, program);
}

#[test]
fn every_problem_a_client_can_get_is_explained_in_the_readme_and_no_other() {
    let source = text("src/proxy/problem.rs");
    // Each is made as `StatusCode::X, "slug", …` or `policy.mismatch_status, "slug", …`.
    let made = source.match_indices("Self::new(").filter_map(|(at, _)| {
        let mut arguments = source[at..].splitn(3, ',');
        let slug = arguments.nth(1)?.trim();
        Some(slug.strip_prefix('"')?.strip_suffix('"')?.to_owned())
    });
    let made: BTreeSet<String> = made.collect();
    assert!(made.len() > 15, "{made:?}");
    let explained: BTreeSet<String> =
        table("### Problems").iter().flat_map(|row| ticked(&row[1]).map(str::to_owned).collect::<Vec<_>>()).collect();
    assert_eq!(explained, made);
}

#[test]
fn every_word_of_the_status_field_is_explained_in_the_readme_and_no_other() {
    let source = text("src/proxy/answer.rs");
    let made: BTreeSet<String> = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Self::")?.split_once(" => \"")?.1.strip_suffix("\","))
        .map(str::to_owned)
        .collect();
    assert_eq!(made.len(), 9, "{made:?}");
    let explained: BTreeSet<String> =
        table("### Headers").iter().flat_map(|row| ticked(&row[0]).map(str::to_owned).collect::<Vec<_>>()).collect();
    assert_eq!(explained, made);
}

/// What the README shows under this command line, without empty lines and white space at ends.
fn session(command: &str) -> Vec<String> {
    let blocks = blocks("text");
    let (_, block) = blocks.iter().find(|(_, block)| block.starts_with(command)).unwrap();
    // The command itself may go on in further lines.
    plain(block.lines().skip_while(|line| line.ends_with('\\')).skip(1))
}

fn plain<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    lines.map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn check_and_explain_print_what_the_readme_shows() {
    let (_, file) = blocks("toml").remove(0);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("oncegate.toml"), &file).unwrap();
    let slips = file.replace("\"POST\"", "\"post\"").replace("retention", "retension");
    std::fs::write(dir.path().join("bad.toml"), slips).unwrap();

    let check = run_cli_in(dir.path(), &["check", "bad.toml"]);
    let errors = &check.stderr[check.stderr.find("error:").unwrap()..];
    assert_eq!(session("$ oncegate check bad.toml"), plain(errors.lines().chain(check.stdout.lines())));

    let explain = run_cli_in(
        dir.path(),
        &[
            "explain",
            "--config",
            "oncegate.toml",
            "POST",
            "/api/payments",
            "-H",
            "Host: shop.example",
            "-H",
            "Authorization: Bearer alice",
            "-H",
            "Idempotency-Key: order-1",
            "-d",
            "{\"amount\": 4200}",
        ],
    );
    assert_eq!(session("$ oncegate explain"), plain(explain.stdout.lines()));
}

#[test]
fn the_demo_prints_what_the_readme_shows() {
    let (_, shown) = blocks("text").into_iter().find(|(_, block)| block.contains("WITHOUT THE GATE")).unwrap();
    let demo = run_cli(&["demo"]);
    assert_eq!(demo.code, 0, "{demo:?}");
    let played = |text: &str| -> Vec<String> {
        let body = text.split("WITHOUT THE GATE").nth(1).unwrap();
        body.lines().filter(|line| line.contains('✓') || line.contains('✗')).map(without_numbers).collect()
    };
    let (shown, played) = (played(&shown), played(&demo.stdout));
    assert!(played.len() > 5, "{}", demo.stdout);
    assert_eq!(shown, played);
}

/// A line of the demo, with one space where there are more, and without the seconds that a loaded machine may
/// change.
fn without_numbers(line: &str) -> String {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    for index in 1..words.len() {
        if words[index - 1] == "after" {
            words[index] = "N";
        }
    }
    words.join(" ")
}
