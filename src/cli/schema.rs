//! `oncegate schema`: the JSON Schema of the configuration, for editors.

use super::{Exit, output};
use crate::config;

/// Print the JSON Schema of the configuration file
///
/// For completion and hover texts in an editor: save it and put `#:schema ./oncegate.schema.json` into the first
/// line of the configuration.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn execute(_: &Args) -> Exit {
    output::print(&format!("{:#}\n", config::schema()));
    Exit::Ok
}
