//! What is left of a run: tables for people, run.json as the record, series.csv for charts.

pub mod arguments;
mod chart;
mod draw;
mod founding;
mod grid;
mod heading;
mod manifest;
mod measured;
mod page;
mod progress;
mod published;
mod series;
mod table;
mod tables;
mod text;

pub use draw::{HTML, INDEX, TEXT, draw, draw_index};
pub use manifest::manifest;
pub use page::{Entry, index, page};
pub use progress::Progress;
pub use published::Published;
pub use series::Series;
pub use tables::tables;
pub use text::text;

pub use crate::results::{Form, Row, Table};

use serde_json::Value;

use crate::observe::DiskUse;
use crate::run::{Loaded, Step};
use crate::target::Sizes;
use crate::workload::Kind;

/// All that was measured of one system.
#[derive(Clone, Debug)]
pub struct SystemResult {
    pub name: String,
    pub about: Value,
    pub load: Option<Loaded>,
    pub steps: Vec<Step>,
    /// After the last step.
    pub sizes: Option<Sizes>,
    pub disk: Option<DiskUse>,
    /// Why it ended before its plan.
    pub failure: Option<String>,
}

/// One experiment's outcome.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub experiment: String,
    pub unit: Kind,
    pub kinds: Vec<Kind>,
    /// Every parameter, as set for this run.
    pub parameters: Value,
    pub started: String,
    pub ended: String,
    pub systems: Vec<SystemResult>,
    pub interrupted: bool,
}
