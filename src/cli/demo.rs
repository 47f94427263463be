//! `oncegate demo`: the reason for this program, played on one machine in a few seconds. Every line is checked.
//!
//! A toy payment API (`api`), a shop that calls it (`shop`), a real gate on a real store between them, real HTTP on
//! loopback. Not here: anything a gate does; the demo only starts one, as `run` does.

mod acts;
mod api;
mod folder;
mod shop;
mod stage;

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use self::{api::Api, folder::Folder, stage::Stage};
use super::{Exit, output};
use crate::{
    app::{App, Source, source::Quick},
    config,
};

/// The show must end, whatever hangs.
const LONGEST: Duration = Duration::from_secs(25);

/// Show what the gate does, with a toy payment API
///
/// Starts a payment API that loses answers, a shop that retries, and a gate between them, all on free ports of this
/// machine. Without the gate the shop pays twice, with it once. Every line is checked against the API's own ledger.
/// Ends with 0 only if all checks hold, and leaves nothing behind.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Keep API and gate running after the show, to be tried by hand, until Ctrl-C
    #[arg(long)]
    stay: bool,
}

pub(super) fn execute(args: &Args) -> Exit {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let outcome = runtime.block_on(show(args.stay));
    runtime.shutdown_timeout(Duration::from_secs(1));
    match outcome {
        Ok(true) => Exit::Ok,
        Ok(false) => Exit::Failed,
        Err(error) => failed(&*error),
    }
}

/// What went wrong with the show itself.
type ShowError = Box<dyn std::error::Error + Send + Sync>;

/// Plays all acts; returns whether every check held.
async fn show(stay: bool) -> Result<bool, ShowError> {
    let folder = Folder::create()?;
    let api = Api::start().await?;
    let gate = start_gate(&api, &folder).await?;
    let mut stage = Stage::new(output::stdout_colour());
    stage.open(api.address(), gate.address());
    tokio::select! {
        played = acts::play(&mut stage, &api, gate.address()) => played?,
        () = tokio::time::sleep(LONGEST) => return Err(format!("it took longer than {} s", LONGEST.as_secs()).into()),
        // Whichever way we leave, the folder is dropped: nothing is left behind.
        interrupted = interruption() => return interrupted.and(Err("interrupted".into())),
    }
    stage.close(stay.then_some((api.address(), gate.address())));
    if stay {
        interruption().await?;
    }
    gate.stop(Duration::from_secs(1)).await?;
    Ok(stage.all_held())
}

/// Somebody has seen enough.
async fn interruption() -> Result<(), ShowError> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    Ok(())
}

async fn start_gate(api: &Api, folder: &Folder) -> Result<App, ShowError> {
    let quick = Quick {
        upstream: format!("http://{}", api.address()),
        listen: Some("127.0.0.1:0".to_owned()),
        admin: Some("off".to_owned()),
        store: Some(format!("file:{}", folder.path().join("oncegate.redb").display())),
        require: vec!["POST /payments".to_owned()],
    };
    let loaded = Source::Quick(quick).load().map_err(|problems| config::render(&problems.0, false))?;
    Ok(App::start(loaded.settings).await?)
}

fn failed(error: &dyn std::fmt::Display) -> Exit {
    output::complain(&format!("error: the demo failed: {error}\n"));
    Exit::Failed
}

#[cfg(test)]
mod tests;
