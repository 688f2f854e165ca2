//! Commands sent to the server at set times of a step: chunks moved, an engine switched, a checkpoint requested.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Interrupt;
use crate::results::EventKind;
use crate::target::Target;

/// Things to do, one after the other, each not before its time.
pub type Script = Vec<Scripted>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scripted {
    /// Time since the measured part began.
    pub at: Duration,
    pub kind: EventKind,
    pub text: String,
    /// Names and values in their order; the first is the command's own.
    pub command: Vec<(String, serde_json::Value)>,
    pub database: String,
}

/// Result of one command: times and failure.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub scripted: Scripted,
    pub begun: Instant,
    pub ended: Instant,
    pub failure: Option<String>,
}

/// Carries a script out over a connection of its own, from `start` on, until `stopped`.
pub(super) fn perform(
    script: &Script,
    target: &dyn Target,
    start: Instant,
    stopped: impl Fn() -> bool,
    interrupt: &Interrupt,
    report: impl Fn(Done),
) {
    for scripted in script {
        let due = start + scripted.at;
        while Instant::now() < due && !stopped() {
            interrupt.sleep_until(due.min(Instant::now() + Duration::from_millis(100)));
        }
        if stopped() {
            return;
        }
        let begun = Instant::now();
        let outcome = target.connect().map_err(|error| error.to_string()).and_then(|mut session| {
            session.command(&scripted.database, &scripted.command).map_err(|failure| failure.to_string())
        });
        report(Done { scripted: scripted.clone(), begun, ended: Instant::now(), failure: outcome.err() });
    }
}
