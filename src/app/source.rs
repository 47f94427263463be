//! Where the settings of a gate come from: a file, which can be read again, or the flags of `run`.

use std::path::PathBuf;

use crate::config::{self, Loaded, Problems};

/// Where settings come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A configuration file.
    File(PathBuf),
    /// No file: `run --upstream …`.
    Quick(Quick),
}

/// The flags of `run` without a file; `None` leaves a default.
#[derive(Clone, Debug, Default)]
pub struct Quick {
    /// `upstream.url`
    pub upstream: String,
    /// `server.listen`
    pub listen: Option<String>,
    /// `admin.listen`
    pub admin: Option<String>,
    /// `store.url`
    pub store: Option<String>,
    /// `POST /path`, each a route that requires a key.
    pub require: Vec<String>,
}

impl Source {
    /// Reads and resolves everything; touches no port and no store.
    ///
    /// # Errors
    /// Every problem there is, at once.
    pub fn load(&self) -> Result<Loaded, Problems> {
        let env = |name: &str| std::env::var(name).ok();
        match self {
            Self::File(path) => config::load(path, &env),
            Self::Quick(quick) => config::quick(
                &quick.upstream,
                quick.listen.as_deref(),
                quick.admin.as_deref(),
                quick.store.as_deref(),
                &quick.require,
                &env,
            ),
        }
    }
}
