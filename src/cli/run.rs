//! `oncegate run`: the gate itself. Settings are complete before anything is opened.

use std::{path::PathBuf, time::Duration};

use super::{
    Exit,
    lookup::{self, Place},
    output,
};
use crate::{
    app::{self, Source, log, source::Quick},
    config,
};

/// Run the gate
///
/// With a configuration file, or without any: `oncegate run --upstream http://127.0.0.1:9000` protects every POST
/// and PATCH that carries a key, with an embedded store in the working directory.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration file [default: $ONCEGATE_CONFIG, else /etc/oncegate/oncegate.toml]
    #[arg(long, short, value_name = "FILE", conflicts_with = "upstream")]
    config: Option<PathBuf>,

    /// Run without a file, in front of this API: http://HOST:PORT or unix:PATH (upstream.url)
    ///
    /// Requests without any credential share one scope (anonymous = "share"); with a configuration file the default
    /// is to refuse them.
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,

    /// Where clients connect: HOST:PORT or unix:PATH (server.listen) [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR", requires = "upstream", conflicts_with = "config")]
    listen: Option<String>,

    /// Where health and control are served: HOST:PORT, or "off" (admin.listen) [default: 127.0.0.1:9180]
    #[arg(long, value_name = "ADDR|off", requires = "upstream", conflicts_with = "config")]
    admin: Option<String>,

    /// Where answers are remembered: file:PATH, memory: or redis://HOST:PORT/DB (store.url) [default:
    /// file:oncegate.redb]
    #[arg(long, value_name = "URL", requires = "upstream", conflicts_with = "config")]
    store: Option<String>,

    /// Refuse requests without a key here, e.g. 'POST /payments'; can be repeated (key.required of a route)
    #[arg(long, value_name = "METHOD PATH", requires = "upstream", conflicts_with = "config")]
    require: Vec<String>,
}

/// How long tasks and the store's file may take to be closed.
const CLOSING: Duration = Duration::from_millis(250);

pub(super) fn execute(args: &Args) -> Exit {
    let Some(source) = source(args) else {
        output::complain(&format!(
            "error: there is no configuration: {} does not exist\n  \
             hint: name a file with --config FILE or ${}, or run without one: oncegate run --upstream \
             http://127.0.0.1:9000\n",
            lookup::SYSTEM,
            lookup::VARIABLE,
        ));
        return Exit::Config;
    };
    let loaded = match source.load() {
        Ok(loaded) => loaded,
        Err(problems) => {
            output::complain(&config::render(&problems.0, output::stderr_colour()));
            return Exit::Config;
        }
    };
    let log = match log::install(loaded.settings.log) {
        Ok(log) => log,
        Err(error) => return failed(&format!("logging: {error}")),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("oncegate").build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("the runtime cannot be started: {error}")),
    };
    let result = runtime.block_on(app::run(source, loaded, log.clone()));
    // Drops what is left, and with it the last handle of the store: its file is closed then. Whatever hangs longer is
    // not worth waiting for: what matters was settled, or has been written down.
    runtime.shutdown_timeout(CLOSING);
    let exit = match &result {
        Ok(()) => Exit::Ok,
        Err(failure) => {
            tracing::error!(error = failure as &dyn std::error::Error, "the gate cannot run");
            Exit::from(failure)
        }
    };
    log.flush();
    exit
}

fn source(args: &Args) -> Option<Source> {
    if let Some(upstream) = &args.upstream {
        return Some(Source::Quick(Quick {
            upstream: upstream.clone(),
            listen: args.listen.clone(),
            admin: args.admin.clone(),
            store: args.store.clone(),
            require: args.require.clone(),
        }));
    }
    match lookup::place(args.config.as_deref()) {
        Place::Named(file) | Place::System(file) => Some(Source::File(file)),
        Place::Nowhere => None,
    }
}

fn failed(why: &str) -> Exit {
    output::complain(&format!("error: {why}\n"));
    Exit::Failed
}
