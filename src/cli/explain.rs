//! `oncegate explain`: what a gate would make of one request. Sends nothing, asks no store.

mod report;
mod request;

use std::path::PathBuf;

use self::request::Described;
use super::{
    Exit,
    lookup::{self, Place},
    output,
};
use crate::{app::Source, config};

/// Explain what the gate would do with a request
///
/// Prints the route it takes, that route's policy, whether it is protected and why, how the caller is named, the
/// fingerprint and what it covers, and the cell in the store. Sends nothing. Neither key nor credential is printed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration file [default: $ONCEGATE_CONFIG, else /etc/oncegate/oncegate.toml]
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The method, in capital letters as it is sent
    #[arg(value_name = "METHOD")]
    method: String,

    /// The path with its query, or a URL whose authority then stands for the Host field
    #[arg(value_name = "PATH")]
    target: String,

    /// A header line, 'Name: value'; can be repeated. Host counts in the fingerprint
    #[arg(short = 'H', long = "header", value_name = "LINE")]
    headers: Vec<String>,

    /// The body, or @FILE for what is in a file (@- for standard input)
    #[arg(short, long, value_name = "BODY|@FILE")]
    data: Option<String>,
}

pub(super) fn execute(args: &Args) -> Exit {
    let described = match Described::parse(&args.method, &args.target, &args.headers, args.data.as_deref()) {
        Ok(described) => described,
        Err(error) => {
            output::complain(&format!("error: {error}\n"));
            return if error.is_usage() { Exit::Usage } else { Exit::Failed };
        }
    };
    let (Place::Named(file) | Place::System(file)) = lookup::place(args.config.as_deref()) else {
        output::complain("error: there is no configuration to explain by: name a file with --config FILE\n");
        return Exit::Config;
    };
    match Source::File(file).load() {
        Ok(loaded) => {
            output::print(&report::explain(&loaded.settings, &described));
            Exit::Ok
        }
        Err(problems) => {
            output::complain(&config::render(&problems.0, output::stderr_colour()));
            Exit::Config
        }
    }
}
