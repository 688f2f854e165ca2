//! The engines alone: a row per phase, in which one operation is another thing than in the next; so phases are compared with those
//! of a peer, never with each other.

use super::chart::{Axis, Chart, ChartGroup, Series, Shape};
use super::grid::{Choice, Grid, Spread};
use super::repeats::Repeats;
use crate::results::{Clock, Phase, Record, StepRecord, Table};

/// Name of the setting by which the steps of `kv` differ.
pub(super) const PHASE: &str = "phase";
/// Metric of phases whose time is more informative than their rate.
pub(crate) const BY_TIME: &str = "by_time";

/// Returns the name of a phase on data that is N times as large as the cache.
pub(crate) fn phase_at(phase: &str, times: u64) -> String {
    format!("{phase} at {times}x")
}

/// Returns the power of ten below a value, where bars of a logarithmic axis begin.
pub(crate) fn decade_below(value: f64) -> f64 {
    10f64.powf((value.log10() - 0.01).floor())
}

/// Returns seconds with microseconds where there are few of them.
fn time(seconds: f64) -> String {
    if seconds < 0.01 { format!("{seconds:.6}") } else { format!("{seconds:.3}") }
}

/// Phases of a run and the system that the others are compared with.
pub(super) struct Phases<'a> {
    grid: Grid<'a>,
    record: &'a Record,
    peer: &'a str,
    names: Vec<String>,
}

impl<'a> Phases<'a> {
    /// None: the steps of this run are no phases. The peer is the one that was chosen, or the last system.
    pub(super) fn of(record: &'a Record) -> Option<Phases<'a>> {
        let grid = Grid::of(record, Phase::Run);
        let names = grid.dimensions().iter().find(|dimension| dimension.name == PHASE)?.values.clone();
        let chosen = record.parameters.get("peer").and_then(serde_json::Value::as_str);
        let systems: Vec<&str> = grid.systems().collect();
        let peer = chosen.and_then(|peer| systems.iter().find(|system| **system == peer)).or(systems.last())?;
        Some(Phases { record, peer, names, grid })
    }

    fn at(phase: &str) -> Choice {
        Choice::from([(PHASE.to_owned(), phase.to_owned())])
    }

    fn is_by_time(&self, phase: &str) -> bool {
        let at = Phases::at(phase);
        self.grid.systems().any(|system| self.grid.metric(system, &at, BY_TIME) == Some(1.0))
    }

    fn others(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.grid.systems().filter(|system| *system != self.peer)
    }

    /// Returns operations per second, or seconds.
    fn speed(&self, system: &str, phase: &str) -> Option<Spread> {
        let metric = if self.is_by_time(phase) { "seconds" } else { "per_second" };
        self.grid.spread(system, &Phases::at(phase), metric)
    }

    /// Returns the factor by which a system is better than the peer.
    fn ratio(&self, system: &str, phase: &str) -> Option<f64> {
        let (own, peer) = (self.speed(system, phase)?.median, self.speed(self.peer, phase)?.median);
        let ratio = if self.is_by_time(phase) { peer / own } else { own / peer };
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }

    pub(super) fn tables(&self) -> Vec<Table> {
        [self.side_by_side(), self.p99()].into_iter().filter(|table| !table.rows.is_empty()).collect()
    }

    /// Speeds, then ratios: one row per phase.
    fn side_by_side(&self) -> Table {
        let ratios = self.others().map(|system| format!("{system}/{}", self.peer));
        let columns = self.grid.systems().map(str::to_owned).chain(ratios);
        let title = format!("operations per second, or seconds (s); ratios above 1 are better than {}", self.peer);
        let mut table = Table::new(&title, PHASE, columns);
        for phase in &self.names {
            let seconds = self.is_by_time(phase);
            let show = |value: f64| if seconds { time(value) } else { super::founding::short(value) };
            let unit = if seconds { " s" } else { "" };
            let speed = |system| self.speed(system, phase).map_or("-".to_owned(), |speed| speed.shown(show) + unit);
            let ratio = |system| self.ratio(system, phase).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
            table.row(self.grid.systems().map(speed).chain(self.others().map(ratio)), phase);
        }
        table.about("rate")
    }

    fn p99(&self) -> Table {
        let systems = &self.record.systems;
        let mut table = Table::new(
            "p99 of a call in microseconds: a batch, a get, a scan",
            PHASE,
            systems.iter().map(|system| system.name.clone()),
        );
        let all: Vec<Vec<Repeats<'_>>> = systems.iter().map(Repeats::of).collect();
        for phase in self.names.iter().filter(|phase| !self.is_by_time(phase)) {
            let p99 = |step: &StepRecord| Some(step.latency(&step.unit, Clock::Service)?.p99);
            let is_here = |repeats: &&Repeats<'_>| {
                repeats.median.settings.get(PHASE).and_then(serde_json::Value::as_str) == Some(phase)
            };
            let cell = |of_system: &Vec<Repeats<'_>>| {
                let spread = of_system.iter().find(is_here).and_then(|repeats| repeats.spread(p99));
                spread.map_or("-".to_owned(), |spread| spread.shown(|micros| format!("{micros:.0}")))
            };
            table.row(all.iter().map(cell), phase);
        }
        table.about("p99")
    }

    /// Returns ratios on a logarithmic axis, and times in seconds.
    pub(super) fn charts(&self) -> Vec<ChartGroup> {
        let ratios = Chart::new(
            Shape::Bars,
            "",
            Axis::categories("", &self.names),
            Axis { start: Some(1.0), ..Axis::log(&format!("times as good as {}", self.peer)) },
        );
        let ratios = self.filled(ratios, &self.names, self.others(), |system, phase| self.ratio(system, phase));
        let caption = format!(
            "Bars up are better than {}, bars down are worse; each line of the axis is ten times the one before.",
            self.peer
        );
        let timed: Vec<String> = self.names.iter().filter(|phase| self.is_by_time(phase)).cloned().collect();
        let seconds = |system| timed.iter().filter_map(move |phase| self.speed(system, phase));
        let least = self.grid.systems().flat_map(seconds).map(|speed| speed.median).filter(|seconds| *seconds > 0.0);
        let start = least.min_by(f64::total_cmp).map(decade_below);
        let axis = Axis { start, ..Axis::log("seconds") };
        let times = Chart::new(Shape::Bars, "", Axis::categories("", &timed), axis);
        let times = self.filled(times, &timed, self.grid.systems(), |system, phase| {
            self.speed(system, phase).map(|speed| speed.median).filter(|seconds| *seconds > 0.0)
        });
        let title = format!("Each phase as a ratio to {}", self.peer);
        let by_size = "Operations per second by the size of the data, in multiples of the cache.";
        let groups = [
            ChartGroup::of("growth", "Growth", by_size, "", self.growth()),
            ChartGroup::of("ratios", &title, &caption, "", vec![ratios]),
            ChartGroup::of("times", "Times of phases that are one operation", "Less is better.", "", vec![times]),
        ];
        groups.into_iter().flatten().collect()
    }

    /// Returns a chart for each phase that ran on data of several sizes ([`phase_at`]).
    fn growth(&self) -> Vec<Chart> {
        let mut of_phases: Vec<(&str, Vec<String>)> = Vec::new();
        for name in self.names.iter().filter(|name| !self.is_by_time(name)) {
            let Some((phase, size)) = name.rsplit_once(" at ") else { continue };
            match of_phases.iter_mut().find(|(known, _)| *known == phase) {
                Some((_, sizes)) => sizes.push(size.to_owned()),
                None => of_phases.push((phase, vec![size.to_owned()])),
            }
        }
        let chart = |(phase, sizes): (&str, Vec<String>)| {
            let axis = Axis { start: Some(0.0), ..Axis::of("operations per second") };
            let chart = Chart::new(Shape::Lines, phase, Axis::categories("times the cache", &sizes), axis);
            self.filled(chart, &sizes, self.grid.systems(), |system, size| {
                self.speed(system, &format!("{phase} at {size}")).map(|speed| speed.median)
            })
        };
        of_phases.into_iter().map(chart).collect()
    }

    fn filled<'s>(
        &self,
        mut chart: Chart,
        phases: &[String],
        systems: impl Iterator<Item = &'s str>,
        value: impl Fn(&str, &str) -> Option<f64>,
    ) -> Chart {
        for system in systems {
            let points = phases.iter().enumerate().filter_map(|(n, phase)| Some((n as f64, value(system, phase)?)));
            chart.series.push(Series::of(system, points));
        }
        chart
    }
}
