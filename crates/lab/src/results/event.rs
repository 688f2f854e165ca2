//! events.ndjson: what happened at a moment or over a time, on the run's clock.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{lines, text};
use crate::{Error, Result};

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Event {
    pub t_s: f64,
    /// `None`: a moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_s: Option<f64>,
    pub system: String,
    pub kind: EventKind,
    pub text: String,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A phase of the run began: start, load, warm-up, step.
    Phase,
    Checkpoint,
    /// kill -9 of the server.
    Kill,
    /// The server replies again.
    Serving,
    MoveChunk,
    EngineSwitch,
    /// Intervals far below the median: found, not announced.
    Stall,
    /// The server ended by itself, refused, or its connections broke.
    Failure,
    Note,
}

impl EventKind {
    /// Returns its name in the file.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Phase => "phase",
            EventKind::Checkpoint => "checkpoint",
            EventKind::Kill => "kill",
            EventKind::Serving => "serving",
            EventKind::MoveChunk => "move_chunk",
            EventKind::EngineSwitch => "engine_switch",
            EventKind::Stall => "stall",
            EventKind::Failure => "failure",
            EventKind::Note => "note",
        }
    }
}

pub(super) fn read(path: &Path) -> Result<Vec<Event>> {
    let text = text(path)?;
    lines(&text)
        .map(|(n, line)| serde_json::from_str(line).map_err(|error| Error::results(path, format!("line {n}: {error}"))))
        .collect()
}
