//! Recovery after kill -9: a random load with the log, killed without notice, and the opening after it.

use super::PhaseStatistics;
use super::measure::{Clock, Tally};
use super::session::Session;
use crate::Result;

impl Session<'_> {
    /// Loads with the log; the parent process then kills this one.
    pub(super) fn kill_load(&mut self) -> Result<PhaseStatistics> {
        self.open = Some(self.open_in("rows", true)?);
        self.open()?.create()?;
        self.load_random(self.options.kill_rows, self.options.load_seconds)
    }

    /// Opens what the load left, and applies what the engine had not made durable.
    pub(super) fn kill_reopen(&mut self) -> Result<PhaseStatistics> {
        let clock = Clock::start()?;
        let mut tally = Tally::new(clock.begun);
        let mut replayed = 0;
        let mut opened = None;
        tally.call(|| {
            let open = self.open_in("rows", true)?;
            if let Some(journal) = &open.journal {
                replayed = journal.replay(&*open.engine)?;
            }
            opened = Some(open);
            Ok(1)
        })?;
        self.open = opened;
        let mut statistics = self.finish(clock, tally, "rows", self.options.kill_rows)?;
        statistics.note = format!("{} rows were logged, {replayed} operations replayed", self.options.kill_rows);
        Ok(statistics)
    }
}
