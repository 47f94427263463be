//! `oncegate man`: the manual page, made from the help texts.

use clap::CommandFactory;
use clap_mangen::Man;

use super::{Cli, Exit, output};

/// Print the manual page
///
/// All commands in one page, in roff. For example: oncegate man > /usr/share/man/man1/oncegate.1, or to read it
/// here: oncegate man | man -l -
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn execute(_: &Args) -> Exit {
    match page() {
        Ok(page) => {
            output::print(&page);
            Exit::Ok
        }
        Err(error) => {
            output::complain(&format!("error: the manual page cannot be made: {error}\n"));
            Exit::Failed
        }
    }
}

/// The page of the program, then a section for each command with its options.
fn page() -> std::io::Result<String> {
    let mut command = Cli::command();
    command.build();
    let mut page = Vec::new();
    let main = Man::new(command.clone());
    main.render_title(&mut page)?;
    main.render_name_section(&mut page)?;
    main.render_synopsis_section(&mut page)?;
    main.render_description_section(&mut page)?;
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        // The heading of the section, as roff: the sub-command's own sections become its paragraphs.
        page.extend_from_slice(format!(".SH \"ONCEGATE {}\"\n", sub.get_name().to_uppercase()).as_bytes());
        let man = Man::new(sub.clone());
        let mut section = Vec::new();
        man.render_synopsis_section(&mut section)?;
        man.render_description_section(&mut section)?;
        if sub.get_arguments().next().is_some() {
            man.render_options_section(&mut section)?;
        }
        page.extend_from_slice(String::from_utf8_lossy(&section).replace(".SH ", ".SS ").as_bytes());
    }
    main.render_extra_section(&mut page)?;
    main.render_version_section(&mut page)?;
    Ok(in_ascii(&String::from_utf8_lossy(&page)))
}

/// The page as every roff reads it: not all of them take UTF-8, but all know the escapes.
fn in_ascii(page: &str) -> String {
    let mut ascii = String::with_capacity(page.len());
    for character in page.chars() {
        if character.is_ascii() {
            ascii.push(character);
        } else {
            ascii += &format!("\\[u{:04X}]", u32::from(character));
        }
    }
    ascii
}

#[cfg(test)]
mod tests;
