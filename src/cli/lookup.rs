//! Where the configuration file is: the flag, else `$ONCEGATE_CONFIG`, else the system's place.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// The variable that names the file.
pub(super) const VARIABLE: &str = "ONCEGATE_CONFIG";
/// Where the file is if nothing names it.
pub(super) const SYSTEM: &str = "/etc/oncegate/oncegate.toml";

/// Where the configuration is, and who said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Named by flag or variable: it must be there.
    Named(PathBuf),
    /// The system's place, where it is.
    System(PathBuf),
    /// Nothing is named, and nothing is in the system's place.
    Nowhere,
}

/// Finds the file of this process.
pub(super) fn place(flag: Option<&Path>) -> Place {
    find(flag, std::env::var_os(VARIABLE), Path::new(SYSTEM))
}

fn find(flag: Option<&Path>, variable: Option<OsString>, system: &Path) -> Place {
    if let Some(file) = flag {
        return Place::Named(file.to_owned());
    }
    // An empty variable is how a compose file or a unit says "none".
    if let Some(file) = variable.filter(|file| !file.is_empty()) {
        return Place::Named(file.into());
    }
    // Only what is certainly absent counts as absent: a file that may not be read must be complained about.
    match system.try_exists() {
        Ok(false) => Place::Nowhere,
        Ok(true) | Err(_) => Place::System(system.to_owned()),
    }
}

#[cfg(test)]
mod tests;
