//! Many seeds, and the search for defects that are built in on purpose.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::plan::Defect;
use crate::rows::Rows;
use crate::world::{Counts, Outcome, World};
use crate::{Collections, Data, LogData, ModelData, Plain, TxnData};

/// Steps with faults of a run on the real commit path.
const TXN_STEPS: u64 = 8_000;

/// Result of a seed.
pub struct Run {
    pub seed: u64,
    pub steps: u64,
    pub counts: Counts,
    pub finding: Option<String>,
    pub trace: Vec<String>,
}

/// Runs a seed on the model of data.
pub fn run(seed: u64, defect: Option<Defect>, traced: bool) -> Run {
    let mut world = World::new(seed, defect, ModelData::new);
    world.plan.favour(defect);
    finish(seed, if traced { world.traced() } else { world })
}

/// Runs a seed on the real log.
pub fn run_on_log(seed: u64, traced: bool) -> Run {
    let world = World::new(seed, None, LogData::new);
    finish(seed, if traced { world.traced() } else { world })
}

/// Runs a seed on the real commit path: every third on the fractal tree, the others on the reference engine.
pub fn run_on_txn(seed: u64, defect: Option<Defect>, traced: bool) -> Run {
    run_on_txn_favouring(defect, seed, defect, traced)
}

/// Runs a seed with the faults that show a defect, with that defect built in or without it.
pub fn run_on_txn_favouring(favoured: Option<Defect>, seed: u64, defect: Option<Defect>, traced: bool) -> Run {
    run_on::<Plain>(favoured, seed, defect, traced)
}

/// Like [`run_on_txn`], with collections, indexes and a catalogue that changes.
pub fn run_on_store(seed: u64, defect: Option<Defect>, traced: bool) -> Run {
    run_on::<Collections>(defect, seed, defect, traced)
}

fn run_on<R: Rows>(favoured: Option<Defect>, seed: u64, defect: Option<Defect>, traced: bool) -> Run {
    let make = if seed.is_multiple_of(3) { TxnData::<R>::on_ftree } else { TxnData::<R>::on_model };
    let mut world = World::new(seed, defect, make);
    world.plan.steps = TXN_STEPS;
    world.plan.favour(favoured);
    finish(seed, if traced { world.traced() } else { world })
}

/// A panic is a finding too: an assertion of a rule.
fn finish<D: Data>(seed: u64, mut world: World<D>) -> Run {
    let outcome = catch_unwind(AssertUnwindSafe(|| world.run()));
    let finding = match outcome {
        Ok(Outcome::Clean) => None,
        Ok(Outcome::Found(finding)) => Some(finding),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(format!("panic: {}", text.unwrap_or_default()))
        }
    };
    let trace = world.trace().cloned().collect();
    Run { seed, steps: world.steps, counts: world.counts, finding, trace }
}

/// Sums over the seeds of a campaign.
#[derive(Default)]
pub struct Totals {
    pub seeds: u64,
    pub steps: u64,
    pub counts: Counts,
    pub findings: Vec<(u64, String)>,
}

impl Totals {
    pub fn add(&mut self, run: &Run) {
        self.seeds += 1;
        self.steps += run.steps;
        let (to, from) = (&mut self.counts, run.counts);
        to.faults += from.faults;
        to.crashes += from.crashes;
        to.wipes += from.wipes;
        to.epochs += from.epochs;
        to.acknowledged += from.acknowledged;
        to.reads += from.reads;
        to.late_reads += from.late_reads;
        to.unknown += from.unknown;
        to.changes += from.changes;
        to.retries += from.retries;
        to.relayed += from.relayed;
        to.catalogue += from.catalogue;
        if let Some(finding) = &run.finding {
            self.findings.push((run.seed, finding.clone()));
        }
    }
}

/// Runs seeds until there were this many steps, or a finding.
pub fn campaign(first_seed: u64, steps: u64, run: impl Fn(u64) -> Run) -> Totals {
    let mut totals = Totals::default();
    let mut seed = first_seed;
    while totals.steps < steps && totals.findings.is_empty() {
        totals.add(&run(seed));
        seed += 1;
    }
    totals
}

/// Returns the first finding of a defect, with its seed and the steps until then. A set that does not heal is a finding
/// only of a defect that does nothing worse (`only_stops`).
pub fn find(
    (defect, only_stops): (Defect, bool),
    first_seed: u64,
    steps_max: u64,
    run: impl Fn(u64, Defect) -> Run,
) -> Option<(u64, u64, String)> {
    let (mut steps, mut seed) = (0, first_seed);
    while steps < steps_max {
        let run = run(seed, defect);
        steps += run.steps;
        if let Some(finding) = run.finding.filter(|finding| only_stops || !finding.starts_with("O7")) {
            return Some((seed, steps, finding));
        }
        seed += 1;
    }
    None
}
