//! `oncegate healthcheck`: asks a gate on this machine how it is. For images without a shell.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};

use super::{
    Exit,
    lookup::{self, Place},
    output,
};
use crate::{app::Source, config};

/// Where an admin listener is if nobody says otherwise.
const DEFAULT: &str = "127.0.0.1:9180";
/// For the connection, and again for the answer: a probe must say no before its caller loses patience.
const PATIENCE: Duration = Duration::from_millis(1400);
/// What is read of an answer.
const ANSWER: usize = 64 * 1024;

/// Ask a running gate whether it is healthy
///
/// Ends with 0 if so, 1 if not, 69 if nobody is there. For the HEALTHCHECK of an image and for exec probes. Without
/// a flag the configuration is looked for as `run` does it; where there is none, or a broken one, 127.0.0.1:9180 is
/// asked.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The gate's configuration file; its admin.listen is asked
    #[arg(long, short, value_name = "FILE", conflicts_with = "admin")]
    config: Option<PathBuf>,

    /// The gate's admin listener, HOST:PORT
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,

    /// Ask whether it should get requests (/readyz) instead of whether it lives (/livez)
    #[arg(long)]
    ready: bool,
}

pub(super) fn execute(args: &Args) -> Exit {
    let address = match address(args) {
        Ok(address) => address,
        Err(exit) => return exit,
    };
    let path = if args.ready { "/readyz" } else { "/livez" };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::complain(&format!("error: the runtime cannot be started: {error}\n"));
            return Exit::Failed;
        }
    };
    let verdict = runtime.block_on(ask(&address, path));
    // A name that is still being resolved must not hold the verdict back.
    runtime.shutdown_background();
    match verdict {
        Verdict::Healthy(body) => {
            output::print(&body);
            Exit::Ok
        }
        Verdict::Unhealthy(why) => {
            output::complain(&format!("not healthy: {why}\n"));
            Exit::Failed
        }
        Verdict::Nobody(why) => {
            output::complain(&format!("nobody answers at {address}: {why}\n"));
            Exit::Unavailable
        }
    }
}

fn address(args: &Args) -> Result<String, Exit> {
    if let Some(address) = &args.admin {
        return Ok(reachable(address));
    }
    let file = match lookup::place(args.config.as_deref()) {
        Place::Named(file) | Place::System(file) => file,
        Place::Nowhere => return Ok(DEFAULT.to_owned()),
    };
    match Source::File(file).load() {
        Ok(loaded) => match loaded.settings.admin.listen {
            Some(address) => Ok(reachable(&address)),
            None => {
                output::complain("error: admin.listen is \"off\": there is nobody to ask\n");
                Err(Exit::Unavailable)
            }
        },
        Err(problems) => {
            output::complain(&config::render(&problems.0, output::stderr_colour()));
            if args.config.is_some() {
                return Err(Exit::Config);
            }
            // The gate runs on with what it read before: a file that was broken since must not make a supervisor
            // restart it, which could only end it.
            output::complain(&format!("the file is not valid: asking {DEFAULT}\n"));
            Ok(DEFAULT.to_owned())
        }
    }
}

/// Where to connect to for a listener at `address`: a wildcard is not a place, its loopback is.
fn reachable(address: &str) -> String {
    let Some((host, port)) = address.rsplit_once(':') else { return address.to_owned() };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) if ip.is_unspecified() => format!("127.0.0.1:{port}"),
        Ok(IpAddr::V6(ip)) if ip.is_unspecified() => format!("[::1]:{port}"),
        Ok(_) | Err(_) => address.to_owned(),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Healthy(String),
    Unhealthy(String),
    Nobody(String),
}

async fn ask(address: &str, path: &str) -> Verdict {
    let stream = match timeout(PATIENCE, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Verdict::Nobody(error.to_string()),
        Err(_) => return Verdict::Nobody("no connection in time".to_owned()),
    };
    match timeout(PATIENCE, get(stream, address, path)).await {
        Ok(Ok((StatusCode::OK, body))) => Verdict::Healthy(body),
        Ok(Ok((status, body))) => Verdict::Unhealthy(format!("{status} {}", body.trim_end())),
        Ok(Err(error)) => Verdict::Unhealthy(error.to_string()),
        Err(_) => Verdict::Unhealthy("no answer in time".to_owned()),
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

async fn get(stream: TcpStream, address: &str, path: &str) -> Result<(StatusCode, String), BoxError> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(path).header(header::HOST, address).body(Empty::<Bytes>::new())?;
    let exchange = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, ANSWER).collect().await?.to_bytes();
        let text: String = String::from_utf8_lossy(&body).chars().filter(|&c| c == '\n' || !c.is_control()).collect();
        Ok((head.status, text))
    };
    tokio::pin!(exchange, connection);
    tokio::select! {
        biased;
        answer = &mut exchange => answer,
        // The connection may end before the answer has been looked at; then it is there, or never will be.
        ended = &mut connection => match ended {
            Ok(()) => exchange.await,
            Err(error) => Err(error.into()),
        },
    }
}

#[cfg(test)]
mod tests;
