//! `arbor lab compare A B...`: is B the same as A, better, worse, or are there too few data for a verdict?
//!
//! Each comparison is of one metric of steps of the same system and name: units per second, and p99 of the unit. A run's
//! samples are its repeats where there are at least five of them; otherwise the steady part of its intervals in ten
//! batches, since neighbouring intervals are not independent and means of batches nearly are (batch means, Law & Kelton).
//! The difference has a 95 % confidence interval by Welch's test, which does not require equal variances, and an effect size
//! (Hedges' g: the difference in standard deviations). Verdicts:
//!
//! | verdict | when |
//! |---|---|
//! | better, worse | the whole interval is beyond a difference of [`MARGIN`] |
//! | same | the whole interval is within a difference of [`SAME`] |
//! | too few data | anything else: the interval is too wide to say either |

mod page;
mod samples;
mod statistics;

use std::fmt::Write;

pub use page::page;
use samples::{Direction, samples};
pub use statistics::Difference;
pub(crate) use statistics::difference;

use crate::results::Run;
use crate::{Error, Result};

/// A smaller relative difference is not reported as better or worse.
const MARGIN: f64 = 0.01;
/// A difference within this part is none.
const SAME: f64 = 0.05;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Same,
    Better,
    Worse,
    TooFewData,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Same => "same",
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::TooFewData => "too few data",
        }
    }

    /// Judges a relative difference that is better when it points to `direction`.
    fn of(difference: &Difference, direction: Direction) -> Verdict {
        let (low, high) = difference.interval;
        let (low, high) = if direction == Direction::Up { (low, high) } else { (-high, -low) };
        match () {
            _ if low > MARGIN => Verdict::Better,
            _ if high < -MARGIN => Verdict::Worse,
            _ if low > -SAME && high < SAME => Verdict::Same,
            _ => Verdict::TooFewData,
        }
    }
}

/// One line of a comparison.
#[derive(Clone, Debug)]
pub struct Compared {
    pub system: String,
    pub step: String,
    pub metric: String,
    pub base: f64,
    pub other: f64,
    /// `None`: too few samples to say anything.
    pub difference: Option<Difference>,
    pub verdict: Verdict,
}

/// Compares one run with another, step by step. Steps that only one of them has are left out.
pub fn compare_two(base: &Run, other: &Run) -> Vec<Compared> {
    let mut all = Vec::new();
    let others = samples(other);
    for ours in samples(base) {
        let Some(theirs) = others.iter().find(|theirs| theirs.is_same_as(&ours)) else { continue };
        let difference = difference(&ours.values, &theirs.values);
        let verdict = difference.as_ref().map_or(Verdict::TooFewData, |it| Verdict::of(it, ours.direction));
        all.push(Compared {
            base: statistics::mean(&ours.values),
            other: statistics::mean(&theirs.values),
            system: ours.system,
            step: ours.step,
            metric: ours.metric,
            difference,
            verdict,
        });
    }
    all
}

/// The first run against each of the others, as text.
pub fn compare(runs: &[Run]) -> Result<String> {
    let Some((base, others)) = runs.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Err(Error::Usage("compare takes at least two directories".to_owned()));
    };
    let mut text = String::new();
    for other in others {
        let _ = writeln!(text, "{} against {}", other.directory.display(), base.directory.display());
        for note in notes(base, other) {
            let _ = writeln!(text, "  NOTE: {note}");
        }
        let compared = compare_two(base, other);
        if compared.is_empty() {
            let _ = writeln!(text, "they have no step in common");
        }
        for line in &compared {
            let _ = writeln!(text, "{}", line_of(line));
        }
        let count = |verdict| compared.iter().filter(|line| line.verdict == verdict).count();
        let _ = writeln!(
            text,
            "{} better, {} worse, {} same, {} with too few data\n",
            count(Verdict::Better),
            count(Verdict::Worse),
            count(Verdict::Same),
            count(Verdict::TooFewData)
        );
    }
    Ok(text)
}

fn line_of(line: &Compared) -> String {
    let place = format!("{} {} {}", line.system, line.step, line.metric);
    let numbers = match &line.difference {
        Some(difference) => format!(
            "{:+7.1} % [{:+.1}, {:+.1}], g {:+.1}",
            difference.relative * 100.0,
            difference.interval.0 * 100.0,
            difference.interval.1 * 100.0,
            difference.effect
        ),
        None => "        -".to_owned(),
    };
    format!("  {place:44} {:>12.1} {:>12.1} {numbers:40} {}", line.base, line.other, line.verdict.name())
}

/// Returns a note for each difference between the plans; runs of different plans can be compared, but the reader must know.
fn notes(base: &Run, other: &Run) -> Vec<String> {
    let (a, b) = (&base.record, &other.record);
    let mut notes = Vec::new();
    for (what, a, b) in [
        ("experiment", &a.experiment, &b.experiment),
        ("scale", &a.scale, &b.scale),
        ("mode", &a.mode, &b.mode),
        ("schedule", &a.schedule, &b.schedule),
        ("version", &a.arbor_version, &b.arbor_version),
    ] {
        if a != b {
            notes.push(format!("{what} differs: {a} and {b}"));
        }
    }
    for name in ["settings", "warm_s", "seconds", "interval_s", "seed"] {
        let (a, b) = (a.parameters.get(name), b.parameters.get(name));
        if let (Some(a), Some(b)) = (a, b)
            && a != b
        {
            notes.push(format!("{name} differs: {a} and {b}"));
        }
    }
    for name in ["processor", "processors", "kernel", "filesystem"] {
        let (a, b) = (base.environment.get(name), other.environment.get(name));
        if a != b {
            let show = |value: Option<&serde_json::Value>| value.map_or("unknown".to_owned(), ToString::to_string);
            notes.push(format!("another machine: {name} {} and {}", show(a), show(b)));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(base: &[f64], other: &[f64], direction: Direction) -> Verdict {
        difference(base, other).map_or(Verdict::TooFewData, |it| Verdict::of(&it, direction))
    }

    /// Ten values about `mean`, spread by a part of it.
    fn about(mean: f64, spread: f64) -> Vec<f64> {
        let steps = [-1.0, 0.7, -0.3, 0.1, 1.0, -0.6, 0.4, -0.1, 0.2, -0.4];
        steps.map(|step| mean * (1.0 + spread * step)).to_vec()
    }

    #[test]
    fn verdicts() {
        let up = Direction::Up;
        assert_eq!(verdict(&about(100.0, 0.02), &about(100.5, 0.02), up), Verdict::Same);
        assert_eq!(verdict(&about(100.0, 0.02), &about(120.0, 0.02), up), Verdict::Better);
        assert_eq!(verdict(&about(100.0, 0.02), &about(90.0, 0.02), up), Verdict::Worse);
        // Latency: less is better.
        assert_eq!(verdict(&about(100.0, 0.02), &about(90.0, 0.02), Direction::Down), Verdict::Better);
        assert_eq!(verdict(&about(100.0, 0.6), &about(108.0, 0.6), up), Verdict::TooFewData);
        assert_eq!(verdict(&[100.0], &about(300.0, 0.1), up), Verdict::TooFewData);
        assert_eq!(verdict(&[], &[], up), Verdict::TooFewData);
        // Nothing varies: the difference is what it is.
        assert_eq!(verdict(&[5.0; 6], &[5.0; 6], up), Verdict::Same);
        assert_eq!(verdict(&[0.0; 6], &[5.0; 6], up), Verdict::TooFewData);
    }
}
