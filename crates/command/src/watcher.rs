//! Monitoring of long catalogue changes for an operation: `killOp`, `maxTimeMS` and shutdown abort them, `currentOp` shows their
//! progress.

use std::sync::atomic::Ordering;

use arbor_protocol::operation::Slot;
use arbor_query::Interrupt;
use arbor_store::{BuildSettings, Phase, Watch};

use crate::call::Call;
use crate::{Commands, Result};

pub(crate) struct Watcher<'c> {
    pub server: &'c Commands,
    pub interrupt: &'c Interrupt,
    pub slot: &'c Slot,
}

impl<'c> Watcher<'c> {
    pub(crate) fn of(call: &'c Call<'_>) -> Watcher<'c> {
        Watcher { server: call.server, interrupt: &call.interrupt, slot: &call.connection.slot }
    }

    /// Returns the settings for index builds.
    pub(crate) fn build_settings(&self) -> BuildSettings<'_> {
        let megabytes = self.server.parameters.int(MEMORY_PARAMETER).unwrap_or(200);
        let memory_bytes = (megabytes.clamp(MEGABYTES_MIN, MEGABYTES_MAX) as usize) << 20;
        BuildSettings { memory_bytes, watch: self }
    }

    /// Converts the error of a watched change: its abort may mean that the time limit has expired.
    pub(crate) fn explained<T>(&self, outcome: arbor_store::Result<T>) -> Result<T> {
        if let Err(arbor_store::Error::Interrupted) = outcome {
            self.interrupt.check()?;
        }
        Ok(outcome?)
    }
}

const MEMORY_PARAMETER: &str = "maxIndexBuildMemoryUsageMegabytes";
/// Less makes runs of a few thousand keys; more is no longer sorted faster.
const MEGABYTES_MIN: i64 = 1;
const MEGABYTES_MAX: i64 = 64 << 10;

impl Watch for Watcher<'_> {
    fn is_stopped(&self) -> bool {
        self.interrupt.check().is_err()
    }

    fn is_closing(&self) -> bool {
        self.server.stopping.load(Ordering::Relaxed)
    }

    fn progress(&self, phase: Phase, done: u64, total: u64) {
        let message = match phase {
            Phase::Copying => "Storage engine: copying rows",
            Phase::Scanning => "Index Build: scanning collection",
            Phase::Loading => "Index Build: inserting keys from external sorter into index",
            Phase::AwaitingMembers => "Index Build: waiting for the other members of the set",
            Phase::CatchingUp => "Index Build: draining writes received during build",
        };
        self.slot.set_progress(message, done, total);
    }
}
