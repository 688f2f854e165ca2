//! Points of a history at which its level changes: the split of a series that separates it best, then the splits of both parts.

use std::collections::BTreeMap;

use serde::Serialize;

use super::entry::{Entry, RunFacts};
use crate::compare::{Difference, difference};

/// A smaller change of level is not reported.
const CHANGE_MIN: f64 = 0.05;
/// Standard deviations by which the levels differ at least: the best of many splits differs by more than one of them would.
const EFFECT_MIN: f64 = 2.0;

/// A change of one system's rate at one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Change {
    pub experiment: String,
    pub machine: String,
    pub system: String,
    pub step: String,
    /// The first run with the new level.
    pub run: usize,
    /// Part of the level before.
    pub relative: f64,
}

/// Properties by which runs are comparable over time: the experiment, its scale, the machine; then system and step.
type Key<'a> = [&'a str; 5];

/// Returns all changes, in the order of time.
pub(super) fn changes(entries: &[Entry], facts: &[RunFacts]) -> Vec<Change> {
    let mut histories: BTreeMap<Key<'_>, Vec<(usize, f64)>> = BTreeMap::new();
    for entry in entries {
        if let (Some(rate), Some(facts)) = (entry.rate, facts.get(entry.run)) {
            let key = [facts.experiment.as_str(), &facts.scale, &facts.machine, &entry.system, &entry.step];
            histories.entry(key).or_default().push((entry.run, rate));
        }
    }
    let mut all = Vec::new();
    for ([experiment, _, machine, system, step], history) in &histories {
        let values: Vec<f64> = history.iter().map(|(_, rate)| *rate).collect();
        for (at, difference) in points(&values) {
            let Some((run, _)) = history.get(at) else { continue };
            all.push(Change {
                experiment: (*experiment).to_owned(),
                machine: (*machine).to_owned(),
                system: (*system).to_owned(),
                step: (*step).to_owned(),
                run: *run,
                relative: difference.relative,
            });
        }
    }
    all.sort_by_key(|change| change.run);
    all
}

/// Returns the places at which another level begins. Each level has at least as many values as a comparison needs.
fn points(values: &[f64]) -> Vec<(usize, Difference)> {
    let split = |at: usize| {
        let (before, after) = values.split_at_checked(at)?;
        let difference = difference(before, after)?;
        let is_certain = difference.interval.0 > 0.0 || difference.interval.1 < 0.0;
        let is_large = difference.relative.abs() >= CHANGE_MIN && difference.effect.abs() >= EFFECT_MIN;
        (is_certain && is_large).then_some((at, difference))
    };
    let best = (1..values.len()).filter_map(split).max_by(|a, b| a.1.effect.abs().total_cmp(&b.1.effect.abs()));
    let Some((at, difference)) = best else { return Vec::new() };
    let (before, after) = values.split_at(at);
    let later = points(after).into_iter().map(|(place, difference)| (place + at, difference));
    points(before).into_iter().chain([(at, difference)]).chain(later).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values about levels, spread by two percent.
    fn history(levels: &[(usize, f64)]) -> Vec<f64> {
        let noise = [-1.0, 0.7, -0.3, 0.9, 0.2, -0.8, 0.5];
        let values = levels.iter().flat_map(|(count, level)| std::iter::repeat_n(*level, *count));
        values.enumerate().map(|(n, level)| level * (1.0 + 0.02 * noise[n % noise.len()])).collect()
    }

    #[test]
    fn levels_are_separated_where_they_change() {
        let places = |levels: &[(usize, f64)]| points(&history(levels)).iter().map(|(at, _)| *at).collect::<Vec<_>>();
        assert_eq!(places(&[(20, 100.0)]), [0; 0]);
        assert_eq!(places(&[(10, 100.0), (10, 80.0)]), [10]);
        assert_eq!(places(&[(8, 100.0), (9, 150.0), (7, 120.0)]), [8, 17]);
        assert_eq!(places(&[(10, 100.0), (10, 102.0)]), [0; 0]);
        // too few to say
        assert_eq!(places(&[(4, 100.0), (4, 50.0)]), [0; 0]);
    }
}
