//! `oncegate check`: every problem of configuration files, without starting anything.

use std::path::PathBuf;

use clap::ValueEnum;

use super::{Exit, output};
use crate::{
    app::Source,
    config::{self, Problem, Severity},
};

/// Check configuration files
///
/// Shows everything that is wrong with a file at once, each with its line and a hint; opens no store and no port.
/// `${VAR}` and `${file:…}` are filled in as `run` does it. Ends with 0 if all files are valid, with 78 if not.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// How problems are shown: text for people (on standard error), json for programs (an array of {file, line,
    /// column, severity, message, hint} on standard output)
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(super) fn execute(args: &Args) -> Exit {
    let mut all: Vec<Problem> = Vec::new();
    let mut exit = Exit::Ok;
    for file in &args.files {
        let (problems, routes) = match Source::File(file.clone()).load() {
            Ok(loaded) => (loaded.warnings, Some(loaded.settings.routes.routes.len())),
            Err(problems) => (problems.0, None),
        };
        if routes.is_none() {
            exit = Exit::Config;
        }
        match args.format {
            Format::Json => all.extend(problems),
            Format::Text => {
                output::complain(&config::render(&problems, output::stderr_colour()));
                output::print(&format!("{}: {}\n", file.display(), verdict(routes, &problems)));
            }
        }
    }
    match args.format {
        Format::Json => output::print(&format!("{:#}\n", config::to_json(&all))),
        Format::Text => {}
    }
    exit
}

fn verdict(routes: Option<usize>, problems: &[Problem]) -> String {
    let count = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let warnings = match warnings {
        0 => String::new(),
        _ => format!(", {}", output::counted(warnings, "warning")),
    };
    match routes {
        Some(routes) => format!("valid, {}{warnings}", output::counted(routes, "route")),
        None => format!("not valid, {}{warnings}", output::counted(errors, "error")),
    }
}
