//! Estimates of a run's time and disk space, before it begins.

use std::path::Path;
use std::time::Duration;

use super::plan::Plan;
use super::search::TRIES;
use crate::target::managed::free_bytes;
use crate::{Error, Result};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Disk space of one system; systems run one at a time.
    pub disk_bytes: u64,
    /// Time of the steps of all systems.
    pub steps: Duration,
    /// With loads.
    pub total: Duration,
}

impl Plan {
    pub fn estimate(&self) -> Estimate {
        let parameters = &self.parameters;
        let size = self.experiment.size(self.scale);
        let stations = parameters.cache_mb.len().max(1) * parameters.syncdelay.len().max(1);
        let groups = self.phases().len() * parameters.rounds.max(1) as usize * parameters.repeats.max(1) as usize;
        let tries = if parameters.search_p99_ms.is_some() { TRIES as usize + 1 } else { 1 };
        let steps = stations * groups * parameters.clients.len() * tries;
        let step_s = parameters.warm_s + parameters.steady_s.unwrap_or(0.0) / 2.0 + parameters.seconds;
        let (systems, share) = (self.systems().max(1) as f64, self.share_of_default());
        let reloads = 1 + self.phases().iter().filter(|phase| phase.reload).count();
        let loads = systems * reloads as f64 * size.load_s * share;
        let measured = systems * steps as f64 * step_s;
        let kept = if self.setup.keep { systems } else { 1.0 };
        Estimate {
            disk_bytes: (size.disk_mb as f64 * share * kept * (1 << 20) as f64) as u64,
            steps: Duration::from_secs_f64(measured),
            total: Duration::from_secs_f64(measured + loads),
        }
    }

    /// Documents of this plan as a part of those of its scale as written.
    fn share_of_default(&self) -> f64 {
        let documents = |plan: &Plan| {
            let workload = plan.workload(&plan.phases().swap_remove(0)).ok()?;
            let collections = workload.collections();
            Some(collections.iter().map(|collection| *collection.documents.start() as f64).sum::<f64>())
        };
        let written = Plan::of(self.experiment.clone(), self.scale, self.setup.clone());
        match (documents(self), documents(&written)) {
            (Some(own), Some(written)) if written > 0.0 => own / written,
            _ => 1.0,
        }
    }

    /// Refuses to begin a load that will not fit. A tenth is left to others.
    pub fn check_disk(&self, root: &Path) -> Result<()> {
        if self.parameters.engines.is_empty() {
            return Ok(());
        }
        let what = format!("{} at scale {}", self.experiment.name, self.scale.name());
        check_room(root, self.estimate().disk_bytes, &what, "--scale small or --set")
    }
}

/// Refuses what needs more disk than there is; `options` name another size.
pub(crate) fn check_room(root: &Path, needed: u64, what: &str, options: &str) -> Result<()> {
    let free = free_bytes(root)?;
    if needed <= free / 10 * 9 {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{what} needs about {} MB of disk, and {} has {} MB free; --data names another directory, {options} another size",
        needed >> 20,
        root.display(),
        free >> 20,
    )))
}
