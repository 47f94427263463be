//! What the audience sees: a table that grows, a check mark on every line, and what to try next.

use std::{fmt::Write, net::SocketAddr};

use super::super::output;

/// One line of the play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// What the shop did.
    pub(super) what: &'static str,
    /// What it saw.
    pub(super) saw: String,
    /// Payments the API booked meanwhile, by its own ledger.
    pub(super) booked: usize,
    /// What makes it notable.
    pub(super) note: &'static str,
    /// Whether everything was as it must be.
    pub(super) held: bool,
}

/// Prints lines and remembers whether all held.
#[derive(Debug)]
pub(super) struct Stage {
    colour: bool,
    held: bool,
}

impl Stage {
    pub(super) fn new(colour: bool) -> Self {
        Self { colour, held: true }
    }

    /// Introduces the cast.
    pub(super) fn open(&mut self, api: SocketAddr, gate: &str) {
        output::print(&format!(
            "\n  {}\n\n  \
             the API    http://{api}   books every POST /payments it gets; knows no keys; may not be changed\n  \
             the gate   http://{gate}   oncegate in front of it, with its embedded store\n",
            self.paint(BOLD, "One shop, one payment API, and answers that get lost"),
        ));
    }

    /// Begins an act.
    pub(super) fn act(&mut self, title: &str) {
        let head = format!("{:<38} {:<44} booked", title, "the shop saw");
        output::print(&format!("\n  {}\n", self.paint(BOLD, &head)));
    }

    /// Shows one line with its check.
    pub(super) fn show(&mut self, line: &Line) {
        self.held &= line.held;
        let mark = if line.held { self.paint(GREEN, "✓") } else { self.paint(RED, "✗ NOT AS IT MUST BE") };
        let Line { what, saw, booked, note, .. } = line;
        let text = format!("  {what:<38} {saw:<44} {booked:>6}  {mark} {note}");
        output::print(&format!("{}\n", text.trim_end()));
    }

    /// Whether every line so far held.
    pub(super) fn all_held(&self) -> bool {
        self.held
    }

    /// The end, and what to try by hand; `running` is where API and gate still are.
    pub(super) fn close(&mut self, running: Option<(SocketAddr, &str)>) {
        let verdict = if self.held {
            self.paint(GREEN, "Every line was checked against the API's own ledger.")
        } else {
            self.paint(RED, "Something was not as it must be.")
        };
        output::print(&format!("\n  {verdict}\n\n{}", invitation(running)));
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colour { format!("{colour}{text}\x1b[0m") } else { text.to_owned() }
    }
}

const BOLD: &str = "\x1b[1m";
const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";

/// Three requests and how to get a gate for them.
fn invitation(running: Option<(SocketAddr, &str)>) -> String {
    let mut text = String::new();
    let gate = match running {
        Some((_, gate)) => {
            let _ = writeln!(text, "  Still running, until Ctrl-C. In another terminal:\n");
            gate
        }
        None => {
            let _ = writeln!(text, "  Before your own API (say it is on port 9000):\n");
            let _ = writeln!(text, "    oncegate run --upstream http://127.0.0.1:9000\n");
            let _ = writeln!(text, "  and in another terminal: executed, replayed, refused with 422\n");
            "127.0.0.1:8080"
        }
    };
    for amount in [4200, 4200, 9900] {
        let _ = writeln!(
            text,
            "    curl -i http://{gate}/payments -H 'Idempotency-Key: by-hand-1' -d '{{\"amount\": {amount}}}'"
        );
    }
    if let Some((api, gate)) = running {
        let _ = writeln!(text, "\n  The ledger, past the gate: curl http://{api}/payments");
        let _ = writeln!(text, "  Another gate like the one at {gate}: oncegate run --upstream http://{api}");
    } else {
        let _ = writeln!(text, "\n  Or with this toy API, kept running: oncegate demo --stay");
    }
    text.push('\n');
    text
}
