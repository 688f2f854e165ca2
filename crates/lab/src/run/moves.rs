//! Cost of the chunk moves of a step's script: loss of throughput, times of the moves by the cluster's own log, documents and
//! index entries on the shards before and after.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Context, Script, Step};
use crate::Result;
use crate::results::EventKind;
use crate::target::{ChunkMove, Failure, Session, Stored, Target};
use crate::workload::{Collection, Workload};

/// Longest wait for the deletion of moved documents on their donors.
const DELETION_MAX: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(200);
/// Windows in which the worst loss is looked for, as in founding text 003 and at a finer grain.
const WINDOWS: [(&str, f64); 2] = [("worst_1s_percent", 1.0), ("worst_10s_percent", 10.0)];

/// The state of the sharded collection before a step that moves chunks.
#[derive(Debug)]
pub struct BeforeMoves {
    collection: Collection,
    stored: Stored,
    /// Number of moves in the cluster's log.
    moves: usize,
}

/// Reads the state before a step. `None`: its script moves no chunks of a sharded collection.
pub fn before_moves(target: &dyn Target, workload: &dyn Workload, script: &Script) -> Result<Option<BeforeMoves>> {
    let has_moves = script.iter().any(|scripted| scripted.kind == EventKind::MoveChunk);
    let sharded = workload.collections().into_iter().find(|collection| collection.sharding.is_some());
    let Some(collection) = sharded.filter(|_| has_moves) else { return Ok(None) };
    let mut session = target.connect()?;
    let failed = super::load::failed(target);
    let moves = session.moves(&collection).map_err(&failed)?.len();
    Ok(Some(BeforeMoves { stored: session.validate(&collection).map_err(&failed)?, moves, collection }))
}

impl BeforeMoves {
    /// Returns the metrics of the moves, after the step.
    pub fn measure(
        &self,
        target: &dyn Target,
        step: &Step,
        context: &mut Context<'_>,
    ) -> Result<BTreeMap<String, f64>> {
        let failed = super::load::failed(target);
        let mut metrics = losses(step);
        let mut session = target.connect()?;
        let waited = self.wait_for_deletion(&mut *session, context).map_err(&failed)?;
        let after = session.validate(&self.collection).map_err(&failed)?;
        let all = session.moves(&self.collection).map_err(&failed)?;
        let moves = all.get(self.moves..).unwrap_or_default();
        metrics.extend(of_moves(moves));
        let last_end = step.scripted.iter().map(|span| span.end_s).fold(f64::NEG_INFINITY, f64::max);
        let counts = [
            ("documents_moves_before", self.stored.documents as f64),
            ("documents_moves_after", after.documents as f64),
            ("index_entries_before", self.stored.index_entries as f64),
            ("index_entries_after", after.index_entries as f64),
        ];
        metrics.extend(counts.map(|(name, value)| (name.to_owned(), value)));
        if waited && last_end.is_finite() {
            metrics.insert("deleted_after_s".to_owned(), (context.now() - last_end).max(0.0));
        }
        for (span, own) in step.scripted.iter().zip(moves) {
            let documents = own.documents.map_or(String::new(), |count| format!(", {count:.0} documents"));
            let critical = own.critical_ms.map_or(String::new(), |ms| format!(", writers waited {ms:.1} ms at most"));
            let text = format!("{}: {:.3} s{documents}{critical}", span.text, span.end_s - span.begin_s);
            context.report(EventKind::Note, &text);
        }
        Ok(metrics)
    }

    /// Waits until the donors have deleted what has moved; returns true if that was seen to happen after the step's end.
    fn wait_for_deletion(
        &self,
        session: &mut dyn Session,
        context: &Context<'_>,
    ) -> std::result::Result<bool, Failure> {
        let begun = Instant::now();
        let mut waited = false;
        while session.stored(&self.collection)? > self.stored.documents {
            if begun.elapsed() > DELETION_MAX || context.interrupt.is_set() {
                return Ok(false);
            }
            waited = true;
            context.interrupt.sleep_until(Instant::now() + POLL);
        }
        Ok(waited)
    }
}

/// Returns the metrics of the moves themselves.
fn of_moves(moves: &[ChunkMove]) -> Vec<(String, f64)> {
    let sum = |value: fn(&ChunkMove) -> Option<f64>| moves.iter().map(value).sum::<Option<f64>>();
    let mut critical: Vec<f64> = moves.iter().filter_map(|own| own.critical_ms).collect();
    critical.sort_by(f64::total_cmp);
    let metrics = [
        ("moves", Some(moves.len() as f64)),
        ("moved_documents", sum(|own| own.documents).filter(|_| !moves.is_empty())),
        ("throttled_ms", sum(|own| own.throttled_ms).filter(|_| !moves.is_empty())),
        ("critical_p50_ms", critical.get(critical.len().saturating_sub(1) / 2).copied()),
        ("critical_max_ms", critical.last().copied()),
    ];
    metrics.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Returns the throughput lost, in percent of the median before the first move, and the longest writes before and from then on.
fn losses(step: &Step) -> BTreeMap<String, f64> {
    let mut metrics = BTreeMap::new();
    let spans = || step.scripted.iter().filter(|span| span.kind == EventKind::MoveChunk);
    let (first, last) =
        spans().fold((f64::INFINITY, 0.0_f64), |(first, last), span| (first.min(span.begin_s), last.max(span.end_s)));
    let longest = spans().map(|span| span.end_s - span.begin_s).fold(0.0, f64::max);
    let failures = spans().filter(|span| span.failed).count();
    metrics.insert("moves_failed".to_owned(), failures as f64);
    metrics.insert("move_max_s".to_owned(), longest);
    // begin, end, rate, longest write
    let begins = std::iter::once(step.begin_s).chain(step.rates.iter().map(|(end, _)| *end));
    let intervals: Vec<(f64, f64, f64, f64)> = begins
        .zip(&step.rates)
        .zip(&step.write_max_ms)
        .map(|((begin, (end, rate)), write)| (begin, *end, *rate, *write))
        .collect();
    let (before, after): (Vec<_>, Vec<_>) = intervals.into_iter().partition(|(_, end, ..)| *end <= first);
    let longest_write = |some: &[(f64, f64, f64, f64)]| some.iter().map(|(.., write)| *write).fold(0.0, f64::max);
    metrics.insert("write_max_before_ms".to_owned(), longest_write(&before));
    metrics.insert("write_max_moves_ms".to_owned(), longest_write(&after));
    let mut rates: Vec<f64> = before.iter().map(|(_, _, rate, _)| *rate).collect();
    rates.sort_by(f64::total_cmp);
    let Some(median) = rates.get(rates.len() / 2).copied().filter(|median| *median > 0.0) else { return metrics };
    let lost = |units: f64, seconds: f64| (1.0 - units / seconds.max(1e-9) / median) * 100.0;
    let during = after.iter().filter(|(begin, ..)| *begin < last);
    let (units, seconds) = during.fold((0.0, 0.0), |(units, seconds), (begin, end, rate, _)| {
        (units + rate * (end - begin), seconds + end - begin)
    });
    if seconds > 0.0 {
        metrics.insert("mean_loss_percent".to_owned(), lost(units, seconds));
    }
    for (name, window) in WINDOWS {
        let worst = windows(&after, window)
            .map(|(units, seconds)| lost(units, seconds))
            .fold(None, |worst, lost| Some(worst.map_or(lost, |worst: f64| worst.max(lost))));
        metrics.extend(worst.map(|worst| (name.to_owned(), worst)));
    }
    metrics
}

/// Returns units and seconds of every run of intervals that is as long as the window.
fn windows(intervals: &[(f64, f64, f64, f64)], window: f64) -> impl Iterator<Item = (f64, f64)> {
    (0..intervals.len()).filter_map(move |from| {
        let (mut units, mut seconds) = (0.0, 0.0);
        for (begin, end, rate, _) in intervals.get(from..)? {
            units += rate * (end - begin);
            seconds += end - begin;
            // an interval may be a moment shorter than planned
            if seconds > window * 0.95 {
                return Some((units, seconds));
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::step::Span;

    fn step(rates: &[f64], write_max_ms: &[f64], moves: &[(f64, f64)]) -> Step {
        let rates = rates.iter().enumerate().map(|(n, rate)| (n as f64 + 1.0, *rate)).collect();
        let span = |(begin_s, end_s): &(f64, f64)| Span {
            kind: EventKind::MoveChunk,
            text: "m".to_owned(),
            begin_s: *begin_s,
            end_s: *end_s,
            failed: false,
        };
        let scripted = moves.iter().map(span).collect();
        Step { rates, write_max_ms: write_max_ms.to_vec(), scripted, ..crate::run::step::empty() }
    }

    #[test]
    fn losses_are_those_since_the_first_move() {
        let mut rates = vec![100.0; 30];
        // before the move: not its fault
        rates[2] = 10.0;
        rates[12] = 50.0;
        let mut writes = vec![1.0; 30];
        (writes[2], writes[12]) = (70.0, 30.0);
        let metrics = losses(&step(&rates, &writes, &[(12.5, 13.0), (13.0, 16.0)]));
        let expect = [
            ("mean_loss_percent", 12.5),
            ("worst_1s_percent", 50.0),
            ("worst_10s_percent", 5.0),
            ("write_max_before_ms", 70.0),
            ("write_max_moves_ms", 30.0),
            ("move_max_s", 3.0),
            ("moves_failed", 0.0),
        ];
        for (name, value) in expect {
            assert!((metrics[name] - value).abs() < 1e-9, "{name}: {metrics:?}");
        }
    }

    #[test]
    fn moves_that_say_nothing_have_no_metrics() {
        let own = |critical_ms| ChunkMove { critical_ms, documents: Some(10.0), throttled_ms: None };
        let metrics = |moves: &[ChunkMove]| of_moves(moves).into_iter().collect::<BTreeMap<String, f64>>();
        let all = metrics(&[own(Some(5.0)), own(Some(3.0)), own(Some(9.0))]);
        assert_eq!((all["critical_p50_ms"], all["critical_max_ms"], all["moved_documents"]), (5.0, 9.0, 30.0));
        assert!(!all.contains_key("throttled_ms"));
        assert_eq!(metrics(&[]), BTreeMap::from([("moves".to_owned(), 0.0)]));
    }
}
