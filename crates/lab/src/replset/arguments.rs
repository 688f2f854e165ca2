//! The command line of `arbor lab replset`, and the order of what is measured.

use std::time::Duration;

use clap::{ArgMatches, Command};

use super::delivery::{self, Delivery};
use super::load::{self, Load, LoadStatistics};
use super::work::{Acknowledged, Work};
use crate::cli::{list, number, option, servers, setup, text, texts};
use crate::experiment::environment;
use crate::kv::KvEngine;
use crate::report::{Table, heading_text};
use crate::results::Ending;
use crate::run::Interrupt;
use crate::target::Driver;
use crate::target::managed::{Flags, Managed, Setup};
use crate::{Error, Result};

const SECONDS: f64 = 5.0;
const REPEATS: u32 = 3;
const RATE: f64 = 5000.0;

/// Operations compared on a replica set.
const WORKS: [Work; 6] = [
    Work::Insert(1),
    Work::InsertTransaction(1),
    Work::Insert(10),
    Work::InsertTransaction(10),
    Work::Updates(10),
    Work::UpdateTransaction(10),
];

/// Operations compared between a standalone server and a replica set.
const LOGGED: [Work; 3] = [Work::Insert(1), Work::Insert(100), Work::Updates(1)];

pub(crate) fn arguments() -> Command {
    let command = Command::new("replset")
        .alias("set")
        .about("Measure what a replica set of one member costs: transactions, its oplog, its change streams")
        .arg(list("engine", "E[,E]", "Storage engines; servers are started for each (ftree)"))
        .arg(list("clients", "N[,N]", "Client counts (1, 16)"))
        .arg(option("seconds", "S", "Measured seconds of each number (5)"))
        .arg(option("repeats", "N", "Rounds of the comparison with a standalone server (3)"))
        .arg(option("rate", "R", "Writes per second while events are timed (5000)"));
    servers(command)
}

struct Run {
    setup: Setup,
    clients: Vec<u32>,
    time: Duration,
    repeats: u32,
    rate: f64,
    /// Checked between two measurements.
    interrupt: Interrupt,
}

pub(crate) fn run(matches: &ArgMatches, built_in: &[KvEngine]) -> Result<Ending> {
    let seconds = number(matches, "seconds")?.unwrap_or(SECONDS);
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| Error::Usage(format!("--seconds: {seconds}")))?;
    let counted = texts(matches, "clients").into_iter().map(|text| text.parse::<u32>().ok().filter(|count| *count > 0));
    let mut clients = counted
        .collect::<Option<Vec<u32>>>()
        .ok_or_else(|| Error::Usage("--clients takes numbers from 1 on".to_owned()))?;
    if clients.is_empty() {
        clients = vec![1, 16];
    }
    let run = Run {
        setup: setup(matches)?,
        clients,
        time,
        repeats: number(matches, "repeats")?.unwrap_or(REPEATS),
        rate: number(matches, "rate")?.unwrap_or(RATE),
        interrupt: Interrupt::by_signals()?,
    };
    let mut engines = texts(matches, "engine");
    if engines.is_empty() {
        engines.push("ftree".to_owned());
    }
    if text(matches, "binary").is_none() {
        let known = KvEngine::all_asked(built_in, "engine", &engines)?;
        engines = known.into_iter().map(|engine| engine.name.to_owned()).collect();
    }
    println!("{}", heading_text(&environment(&run.setup.root)));
    for engine in &engines {
        for measure in [Run::transactions, Run::history, Run::delivery] {
            if run.interrupt.is_set() {
                break;
            }
            match measure(&run, engine) {
                // A server that was killed for an interrupt has not failed.
                Err(_) if run.interrupt.is_set() => {}
                other => other?,
            }
        }
    }
    Ok(if run.interrupt.is_set() { Ending::Interrupted } else { Ending::Complete })
}

impl Run {
    fn transactions(&self, engine: &str) -> Result<()> {
        let managed = set(engine, &self.setup)?;
        let mut first = 1;
        for acknowledged in [Acknowledged::Applied, Acknowledged::Durable] {
            let columns = ["clients", "per s", "docs/s", "p50 us", "p99 us", "max us", "cpu us"].map(str::to_owned);
            let title = format!("{engine}: writes and transactions on a set, {}", acknowledged.name());
            let mut table = Table::new(&title, "work", columns);
            for clients in &self.clients {
                for work in WORKS {
                    if self.interrupt.is_set() {
                        break;
                    }
                    eprintln!("{engine}: {} by {clients}, {}", work.name(), acknowledged.name());
                    let load = Load { work, acknowledged, clients: *clients, first, time: self.time };
                    let statistics = load::run(managed.mongodb(), load)?;
                    first += clients;
                    table.row(cells(*clients, work, &statistics), &work.name());
                }
            }
            println!("{table}");
        }
        Ok(())
    }

    /// Compares writes to a standalone server and to a set, in turns, both with `w: 1`.
    fn history(&self, engine: &str) -> Result<()> {
        let columns = ["clients", "alone/s", "set/s", "set/alone", "cpu us alone", "cpu us set"].map(str::to_owned);
        let title = format!("{engine}: inserts and updates without and with a history, medians of {}", self.repeats);
        let mut table = Table::new(&title, "work", columns);
        let (alone, set) = (Managed::arbor(engine, &self.setup)?, set(engine, &self.setup)?);
        let mut first = 1;
        for clients in &self.clients {
            for work in LOGGED {
                let mut both = [Vec::new(), Vec::new()];
                for round in 0..self.repeats {
                    if self.interrupt.is_set() {
                        break;
                    }
                    eprintln!("{engine}: {} by {clients}, round {}", work.name(), round + 1);
                    for (of, managed) in both.iter_mut().zip([&alone, &set]) {
                        let acknowledged = Acknowledged::Applied;
                        let load = Load { work, acknowledged, clients: *clients, first, time: self.time };
                        of.push(load::run(managed.mongodb(), load)?);
                        first += clients;
                    }
                }
                let [rates_alone, rates_set] =
                    both.each_ref().map(|of| median(of.iter().map(LoadStatistics::per_second)));
                let [cpu_alone, cpu_set] =
                    both.each_ref().map(|of| median(of.iter().filter_map(LoadStatistics::cpu_micros)));
                let row = [
                    clients.to_string(),
                    format!("{rates_alone:.0}"),
                    format!("{rates_set:.0}"),
                    format!("{:.3}", rates_set / rates_alone),
                    format!("{cpu_alone:.1}"),
                    format!("{cpu_set:.1}"),
                ];
                table.row(row, &work.name());
            }
        }
        println!("{table}");
        Ok(())
    }

    fn delivery(&self, engine: &str) -> Result<()> {
        let managed = set(engine, &self.setup)?;
        eprintln!("{engine}: events");
        let Delivery { seconds, events, from_due, from_sent } =
            delivery::run(managed.mongodb(), self.rate, self.time * 2)?;
        let columns = ["p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms"].map(str::to_owned);
        let title = format!("{engine}: {events} writes in {seconds:.0} s, until the event is there");
        let mut table = Table::new(&title, "since", columns);
        for (name, times) in [("the write was due", from_due), ("the write was sent", from_sent)] {
            let ms = |quantile: f64| format!("{:.2}", times.value_at_quantile(quantile) as f64 / 1e6);
            table.row([ms(0.5), ms(0.9), ms(0.99), ms(0.999), format!("{:.2}", times.max() as f64 / 1e6)], name);
        }
        println!("{table}");
        Ok(())
    }
}

/// Starts a server that is the one member of a set.
fn set(engine: &str, setup: &Setup) -> Result<Managed> {
    Managed::start(engine, Driver::Lean, setup, &Flags { oplog: true, ..Flags::default() })
}

fn cells(clients: u32, work: Work, statistics: &LoadStatistics) -> [String; 7] {
    [
        clients.to_string(),
        format!("{:.0}", statistics.per_second()),
        format!("{:.0}", statistics.per_second() * work.documents() as f64),
        format!("{:.0}", statistics.micros_at(0.5)),
        format!("{:.0}", statistics.micros_at(0.99)),
        format!("{:.0}", statistics.times.max() as f64 / 1e3),
        statistics.cpu_micros().map_or_else(String::new, |micros| format!("{micros:.1}")),
    ]
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
