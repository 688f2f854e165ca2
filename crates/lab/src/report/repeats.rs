//! The steps of a system with their repeats together: tables and charts show the repeat with the median rate, never the one
//! that happened to run last.

use super::grid::{self, Spread};
use crate::results::{Phase, Run, StepRecord, SystemRecord};

/// Steps of one system that differ by their repeat only; one step where nothing was repeated.
#[derive(Clone, Debug)]
pub(super) struct Repeats<'a> {
    pub system: &'a SystemRecord,
    /// The one with the median rate, of a recovery with the median time; of an even number the lower of the middle two.
    pub median: &'a StepRecord,
    /// By their rates.
    steps: Vec<&'a StepRecord>,
}

impl<'a> Repeats<'a> {
    /// Returns all of a system, in the order of the plan: the steps of a ladder that is repeated ran in a random order.
    pub(super) fn of(system: &'a SystemRecord) -> Vec<Repeats<'a>> {
        let mut groups: Vec<Vec<&StepRecord>> = Vec::new();
        for step in &system.steps {
            match groups.iter_mut().find(|group| group.first().is_some_and(|first| are_repeats(first, step))) {
                Some(group) => group.push(step),
                None => groups.push(vec![step]),
            }
        }
        if system.steps.iter().any(|step| step.repeat > 1) {
            in_order_of_ladders(&mut groups);
        }
        groups.into_iter().filter_map(|steps| Repeats::by_rate(system, steps)).collect()
    }

    fn by_rate(system: &'a SystemRecord, mut steps: Vec<&'a StepRecord>) -> Option<Repeats<'a>> {
        let rate = |step: &StepRecord| step.per_second().or(step.metric("serve_s")).unwrap_or_default();
        steps.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
        let median = *steps.get((steps.len() - 1) / 2)?;
        Some(Repeats { system, median, steps })
    }

    /// Returns the last measured step: the twelfth of twelve hours, the top of a ladder. None: nothing was measured.
    pub(super) fn last(system: &'a SystemRecord) -> Option<Repeats<'a>> {
        Repeats::of_phase(system, Phase::Run).pop()
    }

    pub(super) fn of_phase(system: &'a SystemRecord, phase: Phase) -> Vec<Repeats<'a>> {
        Repeats::of(system).into_iter().filter(|repeats| repeats.median.phase == phase).collect()
    }

    pub(super) fn spread(&self, value: impl Fn(&StepRecord) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.steps.iter().filter_map(|step| value(step)))
    }

    /// Returns the step's name without its repeat.
    pub(super) fn name(&self) -> &'a str {
        self.median.name.trim_end_matches(&format!("-r{}", self.median.repeat))
    }

    /// Returns a readable label of the step, the same for its repeats.
    pub(super) fn place(&self) -> String {
        let place = grid::label_of_step(&StepRecord { repeat: 1, ..self.median.clone() });
        match self.steps.len() {
            1 => place,
            repeats => format!("{place}, median of {repeats} repeats"),
        }
    }
}

/// A place in a system's plan, for pages over many runs.
pub(crate) struct StepPlace<'a> {
    pub name: String,
    pub label: String,
    pub phase: Phase,
    repeats: Repeats<'a>,
}

impl<'a> StepPlace<'a> {
    fn of(repeats: Repeats<'a>) -> StepPlace<'a> {
        let label = grid::label_of_step(&StepRecord { repeat: 1, ..repeats.median.clone() });
        StepPlace { name: repeats.name().to_owned(), label, phase: repeats.median.phase, repeats }
    }

    /// Returns the median over the repeats.
    pub(crate) fn median(&self, value: impl Fn(&StepRecord) -> Option<f64>) -> Option<f64> {
        Some(self.repeats.spread(value)?.median)
    }
}

/// Returns the places of a system in the order of its plan.
pub(crate) fn step_places(system: &SystemRecord) -> Vec<StepPlace<'_>> {
    Repeats::of(system).into_iter().map(StepPlace::of).collect()
}

/// Returns the last steps of all systems.
pub(super) fn last_steps(run: &Run) -> Vec<Repeats<'_>> {
    run.record.systems.iter().filter_map(Repeats::last).collect()
}

/// Returns the place of the last step of the system that came furthest.
pub(super) fn place_of(run: &Run, last: &[Repeats<'_>]) -> String {
    let steps = |system: &SystemRecord| system.steps.iter().filter(|step| step.phase == Phase::Run).count();
    let furthest = run.record.systems.iter().map(steps).max().unwrap_or_default();
    last.iter().find(|last| steps(last.system) == furthest).map(Repeats::place).unwrap_or_default()
}

fn are_repeats(a: &StepRecord, b: &StepRecord) -> bool {
    // a load that follows another one differs in its name only
    let same_load = a.phase != Phase::Load || a.name == b.name;
    same_load && (a.phase, a.clients, &a.settings) == (b.phase, b.clients, &b.settings)
}

/// Sorts the steps of one phase and equal settings by their clients; these ladders stay in the order in which they began.
fn in_order_of_ladders(groups: &mut [Vec<&StepRecord>]) {
    let key = |group: &Vec<&StepRecord>| group.first().map(|step| (step.phase, step.settings.clone()));
    let mut ladders = Vec::new();
    for group in groups.iter() {
        let key = key(group);
        if !ladders.contains(&key) {
            ladders.push(key);
        }
    }
    groups.sort_by_key(|group| {
        let ladder = ladders.iter().position(|known| *known == key(group));
        (ladder, group.first().map(|step| step.clients))
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn step(name: &str, clients: usize, repeat: u32, rate: f64) -> StepRecord {
        let metrics = BTreeMap::from([("per_second".to_owned(), rate)]);
        StepRecord { name: name.to_owned(), phase: Phase::Run, clients, repeat, metrics, ..StepRecord::default() }
    }

    #[test]
    fn repeats_are_represented_by_their_median_whatever_ran_last() {
        let steps = vec![
            StepRecord { phase: Phase::Load, ..step("load", 8, 1, 9.0) },
            step("c8-r2", 8, 2, 70.0),
            step("c1-r1", 1, 1, 10.0),
            step("c8-r1", 8, 1, 90.0),
            step("c8-r3", 8, 3, 80.0),
            step("c1-r2", 1, 2, 30.0),
        ];
        let system = SystemRecord { steps, ..SystemRecord::default() };
        let places: Vec<(String, &str, &str)> =
            Repeats::of(&system).iter().map(|one| (one.place(), one.median.name.as_str(), one.name())).collect();
        let expect = |place: &str, median, name| (place.to_owned(), median, name);
        assert_eq!(
            places,
            [
                expect("load, 8 clients", "load", "load"),
                expect("1 client, median of 2 repeats", "c1-r1", "c1"),
                expect("8 clients, median of 3 repeats", "c8-r3", "c8"),
            ]
        );
        let spread = Repeats::last(&system).unwrap().spread(StepRecord::per_second).unwrap();
        assert_eq!((spread.lowest, spread.median, spread.highest), (70.0, 80.0, 90.0));
    }

    #[test]
    fn loads_with_other_names_are_no_repeats() {
        let load = |name| StepRecord { phase: Phase::Load, ..step(name, 8, 1, 9.0) };
        let system = SystemRecord { steps: vec![load("load"), load("load-E")], ..SystemRecord::default() };
        assert_eq!(Repeats::of(&system).len(), 2);
    }
}
