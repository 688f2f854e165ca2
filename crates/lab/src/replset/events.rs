//! Time without service, as clients see it: failovers by a kill of the primary and by a hand-over, and secondaries that end or hang.

use std::time::{Duration, Instant};

use arbor_bson::DocBuf;
use serde_json::{Value, json};

use super::history::{Gap, History, Times, median_of};
use super::outcome::Outcome;
use super::service::{self, Running};
use crate::report::{Axis, Chart, ChartGroup, Mark, Series, Shape, Table};
use crate::run::Interrupt;
use crate::target::managed::Setup;
use crate::target::replica_set::ReplicaSet;
use crate::{Error, Result};

/// Inserting clients.
pub(super) const CLIENTS: u32 = 4;
/// A slice of the charts.
const SLICE: f64 = 0.1;
/// Undisturbed time before an event, to compare it with, and after it.
const QUIET: Duration = Duration::from_secs(2);
/// A member that is hung is no member in sync after a second; it hangs for longer.
const HUNG: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    KillPrimary,
    StepDown,
    KillSecondary,
    HangSecondary,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::KillPrimary => "kill -9 of the primary",
            Kind::StepDown => "stepDown",
            Kind::KillSecondary => "kill -9 of a secondary",
            Kind::HangSecondary => "a secondary hangs",
        }
    }

    fn id(self) -> &'static str {
        match self {
            Kind::KillPrimary => "kill-primary",
            Kind::StepDown => "step-down",
            Kind::KillSecondary => "kill-secondary",
            Kind::HangSecondary => "hang-secondary",
        }
    }
}

/// An event, in seconds since its load began: what came before `from` is undisturbed, what came until `to` is of the event.
#[derive(Clone, Copy, Debug)]
struct Event {
    from: f64,
    at: f64,
    to: f64,
}

/// An event as clients saw it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    event: Event,
    /// Without an acknowledgement.
    gap: Gap,
    /// Milliseconds of the longest insert.
    longest: f64,
    /// Milliseconds of the longest gap and the longest insert of the undisturbed time before.
    quiet_gap: f64,
    quiet_longest: f64,
}

pub(super) struct Events<'a> {
    pub setup: &'a Setup,
    pub engine: &'a str,
    pub members: u16,
    pub count: u32,
    pub interrupt: &'a Interrupt,
}

impl Events<'_> {
    pub(super) fn measure(&self, title: &str, kinds: &[Kind], outcome: &mut Outcome) -> Result<()> {
        let mut set = ReplicaSet::start(self.engine, self.setup, self.members, self.members.into(), &[])?;
        outcome.heading(title);
        let columns =
            ["events", "p50 ms", "p99 ms", "longest ms", "longest insert ms", "quiet gap ms", "quiet insert ms"];
        let name = format!("{}: time without an acknowledged insert, {CLIENTS} clients", self.engine);
        let mut table = Table::new(&name, "event", columns.map(str::to_owned));
        let mut first = 1;
        for kind in kinds {
            if self.interrupt.is_set() {
                break;
            }
            let load = |set: &mut ReplicaSet, running: &Running| self.events(*kind, set, running);
            let (history, events) = service::during(&mut set, CLIENTS, first, load)?;
            first += CLIENTS;
            let seen: Vec<Seen> = events.iter().filter_map(|event| seen(&history, *event)).collect();
            if seen.len() != events.len() {
                let reason =
                    format!("{}: no insert was acknowledged after one of {} events", kind.name(), events.len());
                return Err(Error::Server { server: set.name().to_owned(), reason });
            }
            self.report(*kind, &history, &seen, &mut table, outcome);
        }
        outcome.table(table);
        Ok(())
    }

    /// One event after the other, each of a set that is complete.
    fn events(&self, kind: Kind, set: &mut ReplicaSet, running: &Running) -> Result<Vec<Event>> {
        let (mut events, members) = (Vec::new(), usize::from(self.members));
        for number in 0..self.count {
            set.settle(members)?;
            if !self.interrupt.sleep_until(Instant::now() + QUIET) {
                break;
            }
            eprintln!("{}: {}, {} of {}", self.engine, kind.name(), number + 1, self.count);
            let at = running.seconds();
            self.cause(kind, number as usize, set, running)?;
            self.interrupt.sleep_until(Instant::now() + QUIET);
            events.push(Event { from: at - QUIET.as_secs_f64(), at, to: running.seconds() });
            for number in 0..members {
                if !set.is_running(number) {
                    set.start_member(number)?;
                }
            }
        }
        Ok(events)
    }

    /// Returns when the set serves again.
    fn cause(&self, kind: Kind, turn: usize, set: &mut ReplicaSet, running: &Running) -> Result<()> {
        match kind {
            Kind::KillPrimary => {
                set.kill(set.primary()?)?;
                self.serves_again(set, running)
            }
            Kind::StepDown => {
                let before = set.primary()?;
                let step_down = DocBuf::new().with("replSetStepDown", 10);
                set.client(before)?
                    .command("admin", &step_down)
                    .map_err(|source| Error::Client { server: set.name().to_owned(), source })?;
                set.wait_every(POLL, "another primary", || set.primary().ok().filter(|now| *now != before))?;
                self.serves_again(set, running)
            }
            Kind::KillSecondary => set.kill(set.secondary(turn)?),
            Kind::HangSecondary => {
                set.hang(set.secondary(turn)?, HUNG);
                Ok(())
            }
        }
    }

    /// Waits until each client can have had an insert acknowledged since now.
    fn serves_again(&self, set: &ReplicaSet, running: &Running) -> Result<()> {
        // Inserts that were acknowledged before the event are counted a moment later.
        let _ = set.primary()?;
        let seen = running.acknowledged();
        let enough = || (running.acknowledged() > seen + u64::from(CLIENTS)).then_some(());
        set.wait_every(POLL, "an acknowledged insert", enough)
    }

    fn report(&self, kind: Kind, history: &History, seen: &[Seen], table: &mut Table, outcome: &mut Outcome) {
        let of = |value: &dyn Fn(&Seen) -> f64| Times::of(seen.iter().map(value));
        let Some(gaps) = of(&|seen| seen.gap.millis()) else { return };
        let longest = |value: &dyn Fn(&Seen) -> f64| of(value).map_or(f64::NAN, |times| times.longest);
        let ms = |value: f64| format!("{value:.0}");
        let row = [
            seen.len().to_string(),
            ms(gaps.median),
            ms(gaps.p99),
            ms(gaps.longest),
            ms(longest(&|seen| seen.longest)),
            ms(longest(&|seen| seen.quiet_gap)),
            ms(longest(&|seen| seen.quiet_longest)),
        ];
        table.row(row, kind.name());
        let slices = history.slices(SLICE);
        outcome.slices(self.engine, kind.id(), &slices);
        let events: Vec<Value> = seen
            .iter()
            .map(|seen| {
                json!({
                    "at_s": seen.event.at, "gap_begin_s": seen.gap.begin, "gap_end_s": seen.gap.end, "gap_ms": seen.gap.millis(),
                    "longest_insert_ms": seen.longest, "quiet_gap_ms": seen.quiet_gap, "quiet_longest_insert_ms": seen.quiet_longest,
                })
            })
            .collect();
        let numbers = json!({
            "event": kind.id(), "clients": CLIENTS, "acknowledged": history.count(), "events": events,
            "p50_ms": gaps.median, "p99_ms": gaps.p99, "longest_ms": gaps.longest,
        });
        outcome.measure("events", self.engine, &numbers);
        outcome.chart(self.charts(kind, &slices, seen));
    }

    /// The event whose gap is the median, and the whole load.
    fn charts(&self, kind: Kind, slices: &[(f64, u64)], seen: &[Seen]) -> Option<ChartGroup> {
        let system = self.engine;
        let mark = |seen: &Seen, zero: f64| {
            let text = format!("{}: {:.0} ms without an acknowledged insert", kind.name(), seen.gap.millis());
            let mark = |begin: f64, end: Option<f64>, text: String| Mark {
                begin: begin - zero,
                end: end.map(|end| end - zero),
                kind: "event",
                system: system.to_owned(),
                text,
            };
            [mark(seen.event.at, None, text.clone()), mark(seen.gap.begin, Some(seen.gap.end), text)]
        };
        let chart = |label: &str, zero: f64, from: f64, to: f64, shown: &[Seen]| {
            let y = Axis::of(&format!("inserts acknowledged in {:.0} ms", SLICE * 1e3));
            let mut chart = Chart::new(Shape::Lines, label, Axis::of("seconds"), y);
            let inside = slices.iter().filter(|(begin, _)| *begin >= from && *begin + SLICE <= to);
            let points = inside.map(|(begin, count)| (begin + SLICE / 2.0 - zero, *count as f64));
            chart.series.push(Series::of(system, points));
            chart.marks.extend(shown.iter().flat_map(|seen| mark(seen, zero)));
            chart
        };
        let gaps: Vec<f64> = seen.iter().map(|seen| seen.gap.millis()).collect();
        let median = median_of(&gaps).and_then(|number| seen.get(number));
        let mut charts: Vec<Chart> = median
            .map(|seen| chart("around the median event", seen.event.at, seen.event.from, seen.event.to, &[*seen]))
            .into_iter()
            .collect();
        charts.push(chart("all events", 0.0, 0.0, f64::INFINITY, seen));
        let title = format!("{}: service over time, {}", self.engine, kind.name());
        let caption = "The mark is the event, the area the longest time without an acknowledged insert.";
        ChartGroup::of(&format!("{}-{}", self.engine, kind.id()), &title, caption, "time", charts)
            .map(ChartGroup::first_chosen)
    }
}

/// Returns what clients saw of an event; `None`: nothing was acknowledged after it.
fn seen(history: &History, event: Event) -> Option<Seen> {
    let quiet_gap = history.longest_gap(event.from, event.at).map_or(0.0, Gap::millis);
    Some(Seen {
        event,
        gap: history.longest_gap(event.at, event.to)?,
        longest: history.longest_operation(event.at, event.to)?,
        quiet_gap,
        quiet_longest: history.longest_operation(event.from, event.at).unwrap_or(0.0),
    })
}
