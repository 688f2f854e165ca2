//! Costs of an acknowledgement: latency and throughput by write concern of a set, against a set of one member and a standalone server.

use std::time::Duration;

use serde_json::json;

use super::history::Times;
use super::load::{self, Load, LoadStatistics};
use super::outcome::Outcome;
use super::work::{Acknowledged, Work};
use crate::report::{Axis, Chart, ChartGroup, Series, Shape, Table};
use crate::run::Interrupt;
use crate::target::managed::{Managed, Setup};
use crate::target::replica_set::ReplicaSet;
use crate::{Error, Result};

const WORKS: [Work; 2] = [Work::Insert(1), Work::Insert(100)];
/// A machine without time to spare may change the primary in the middle of a round, which is then repeated.
const ATTEMPTS_MAX: u32 = 3;

pub(super) struct Concerns<'a> {
    pub setup: &'a Setup,
    pub engine: &'a str,
    pub members: u16,
    pub clients: &'a [u32],
    pub time: Duration,
    pub repeats: u32,
    pub interrupt: &'a Interrupt,
}

/// One cell of the matrix on one system: the rates of its rounds, and the times of all of them.
struct Cell {
    system: usize,
    work: Work,
    acknowledged: Acknowledged,
    clients: u32,
    rounds: Vec<LoadStatistics>,
}

impl Cell {
    fn per_second(&self) -> f64 {
        Times::of(self.rounds.iter().map(LoadStatistics::per_second)).map_or(f64::NAN, |times| times.median)
    }

    /// Milliseconds.
    fn at(&self, quantile: f64) -> f64 {
        let mut times = load::histogram();
        for round in &self.rounds {
            times += &round.times;
        }
        if quantile < 1.0 { times.value_at_quantile(quantile) as f64 / 1e6 } else { times.max() as f64 / 1e6 }
    }
}

impl Concerns<'_> {
    pub(super) fn measure(&self, outcome: &mut Outcome) -> Result<()> {
        let alone = Managed::arbor(self.engine, self.setup)?;
        let one = super::set(self.engine, self.setup)?;
        let several = ReplicaSet::start(self.engine, self.setup, self.members, self.members.into(), &[])?;
        let names = ["alone".to_owned(), "set of 1".to_owned(), format!("set of {}", self.members)];
        let every = Acknowledged::Members(self.members);
        let concerns = [Acknowledged::Unjournaled, Acknowledged::Applied, Acknowledged::Durable, every];
        let (mut cells, mut first) = (Vec::new(), 1);
        for work in WORKS {
            for acknowledged in concerns {
                for clients in self.clients {
                    let systems = (0..names.len()).filter(|system| acknowledged != every || *system == 2);
                    let cell = |system| Cell { system, work, acknowledged, clients: *clients, rounds: Vec::new() };
                    let mut group: Vec<Cell> = systems.map(cell).collect();
                    for round in 0..self.repeats {
                        eprintln!(
                            "{}: {} by {clients}, {}, round {}",
                            self.engine,
                            work.name(),
                            acknowledged.name(),
                            round + 1
                        );
                        for cell in &mut group {
                            if self.interrupt.is_set() {
                                break;
                            }
                            let load = Load { work, acknowledged, clients: *clients, first, time: self.time };
                            let statistics = match cell.system {
                                0 => load::run(alone.mongodb(), load)?,
                                1 => load::run(one.mongodb(), load)?,
                                _ => on_primary(&several, load, &mut first)?,
                            };
                            cell.rounds.push(statistics);
                            first += clients;
                        }
                    }
                    group.retain(|cell| !cell.rounds.is_empty());
                    cells.extend(group);
                }
            }
        }
        self.report(&names, &cells, outcome);
        Ok(())
    }

    fn report(&self, names: &[String; 3], cells: &[Cell], outcome: &mut Outcome) {
        outcome.heading("Write concerns");
        let peer = |cell: &Cell, system: usize| {
            let of = |other: &&Cell| {
                other.system == system
                    && (other.work, other.acknowledged, other.clients) == (cell.work, cell.acknowledged, cell.clients)
            };
            cells.iter().find(of)
        };
        for work in WORKS {
            let columns =
                ["clients", "per s", "docs/s", "p50 ms", "p95 ms", "p99 ms", "max ms", "/ set of 1", "/ alone"]
                    .map(str::to_owned);
            let title = format!(
                "{}: {}, medians of {} rounds; rates as parts of the others'",
                self.engine,
                work.name(),
                self.repeats
            );
            let mut table = Table::new(&title, "write concern, system", columns);
            for cell in cells.iter().filter(|cell| cell.work == work) {
                let part = |system: usize| {
                    let other = peer(cell, system).filter(|_| system < cell.system);
                    other.map_or_else(
                        || "-".to_owned(),
                        |other| format!("{:.2}", cell.per_second() / other.per_second()),
                    )
                };
                let ms = |quantile: f64| format!("{:.2}", cell.at(quantile));
                let row = [
                    cell.clients.to_string(),
                    format!("{:.0}", cell.per_second()),
                    format!("{:.0}", cell.per_second() * work.documents() as f64),
                    ms(0.5),
                    ms(0.95),
                    ms(0.99),
                    ms(1.0),
                    part(1),
                    part(0),
                ];
                let name = names.get(cell.system).map_or("", String::as_str);
                table.row(row, &format!("{}, {name}", cell.acknowledged.name()));
                outcome.measure(
                    "write concern",
                    self.engine,
                    &json!({
                        "system": name, "work": work.name(), "write_concern": cell.acknowledged.name(), "clients": cell.clients,
                        "per_second": cell.per_second(), "p50_ms": cell.at(0.5), "p95_ms": cell.at(0.95), "p99_ms": cell.at(0.99),
                        "max_ms": cell.at(1.0),
                    }),
                );
            }
            outcome.table(table);
            let title = format!("{}: {} per second", self.engine, work.name());
            outcome.chart(self.chart(&title, "rate", work, names, cells, &Cell::per_second, Axis::of("per second")));
            let title =
                format!("{}: {}, 99th percentile of the time until it is acknowledged", self.engine, work.name());
            outcome.chart(self.chart(
                &title,
                "p99",
                work,
                names,
                cells,
                &|cell| cell.at(0.99),
                Axis::of("milliseconds"),
            ));
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one chart of many alike")]
    fn chart(
        &self,
        title: &str,
        id: &str,
        work: Work,
        names: &[String; 3],
        cells: &[Cell],
        value: &dyn Fn(&Cell) -> f64,
        axis: Axis,
    ) -> Option<ChartGroup> {
        let mut concerns: Vec<String> = cells.iter().map(|cell| cell.acknowledged.name()).collect();
        concerns.dedup();
        concerns.truncate(4);
        let of = |clients: &u32| {
            let x = Axis::categories("", &concerns);
            let mut chart = Chart::new(Shape::Bars, format!("{clients} clients"), x, axis.clone());
            for (system, name) in names.iter().enumerate() {
                let own =
                    cells.iter().filter(|cell| (cell.system, cell.work, cell.clients) == (system, work, *clients));
                let point = |cell: &Cell| {
                    let at = concerns.iter().position(|concern| *concern == cell.acknowledged.name())?;
                    Some((at as f64, value(cell)))
                };
                chart.series.push(Series::of(name, own.filter_map(point)));
            }
            chart
        };
        let id = format!("{}-{}-{id}", self.engine, work.documents());
        ChartGroup::of(&id, title, "", "clients", self.clients.iter().map(of).collect())
    }
}

/// Runs the load on the primary, and again on another one if it was one only at first.
fn on_primary(set: &ReplicaSet, mut load: Load, first: &mut u32) -> Result<LoadStatistics> {
    for _ in 1..ATTEMPTS_MAX {
        match load::run(&set.target(set.primary()?)?, load) {
            Err(Error::Client { server, source }) => eprintln!("{server}: {source}; the round is repeated"),
            other => return other,
        }
        *first += load.clients;
        load.first = *first;
    }
    load::run(&set.target(set.primary()?)?, load)
}
