//! The experiments, and how one is carried out.
//!
//! | file | what |
//! |---|---|
//! | `definition`, `section` | an experiment as its YAML file says it; keys checked, errors named with their line |
//! | `own` | a user's own documents and statements in it |
//! | `catalog` | those that are built in (one file each in `experiments/`): list, describe |
//! | `parameters` | everything that decides what is sent to the servers: of a scale, and of a run |
//! | `plan`, `estimate` | one at a scale with overrides: stations, steps, how long, how much disk |
//! | `conduct` | system by system: start, load, steps, kill, sizes, stop |
//! | `threshold` | bounds that a run has to keep |
//! | `search` | the highest rate at which a bound is kept |
//! | `run_log`, `environment` | the record of it, written during the run |

mod catalog;
mod conduct;
mod definition;
mod environment;
mod estimate;
mod own;
mod parameters;
mod plan;
mod run_log;
mod search;
mod section;
mod threshold;

use std::path::PathBuf;

pub use catalog::{built_in, describe, find, list};
pub use conduct::{carry_out, echo_only};
pub use definition::{Experiment, KV, Scale, Size, TextSettings, read};
pub use environment::environment;
pub use estimate::Estimate;
pub(crate) use estimate::check_room;
pub use parameters::{DataDevice, Parameters, PhasePlan};
pub use plan::{ManagedPlan, Plan, Station, StepPlan};
pub use run_log::RunLog;
pub use threshold::{Judged, Threshold, judged};

/// Returns the default parent of managed servers' data directories.
pub fn default_root() -> PathBuf {
    std::env::temp_dir()
}
