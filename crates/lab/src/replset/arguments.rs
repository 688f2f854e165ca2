//! The command line of `arbor lab replset`, and the order of what is measured.

use std::str::FromStr;
use std::time::Duration;

use clap::{ArgMatches, Command};

use super::concerns::Concerns;
use super::delivery::{self, Delivery};
use super::events::{Events, Kind};
use super::following::Following;
use super::load::{self, Load, LoadStatistics};
use super::outcome::Outcome;
use super::set;
use super::work::{Acknowledged, Work};
use crate::cli::{list, number, option, out, servers, setup, switch, text, texts};
use crate::experiment::environment;
use crate::kv::KvEngine;
use crate::report::{Table, heading_text};
use crate::results::Ending;
use crate::run::Interrupt;
use crate::target::managed::{Managed, Setup};
use crate::{Error, Result};

const SECONDS: f64 = 5.0;
const REPEATS: u32 = 3;
const RATE: f64 = 5000.0;
const EVENTS: u32 = 5;
const FILL_MB: u64 = 256;

const ABOUT: &str = "Costs of a replica set: transactions, history and change streams of one member; write concerns, failovers, and members that \
                     follow, of several";

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

/// One kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Transactions,
    History,
    Delivery,
    WriteConcerns,
    Failover,
    Stall,
    CatchUp,
    InitialSync,
}

/// Parts with their names in the order in which they run: first those of a set of one member.
const PARTS: [(&str, Part); 8] = [
    ("transactions", Part::Transactions),
    ("history", Part::History),
    ("delivery", Part::Delivery),
    ("write-concerns", Part::WriteConcerns),
    ("failover", Part::Failover),
    ("stall", Part::Stall),
    ("catch-up", Part::CatchUp),
    ("initial-sync", Part::InitialSync),
];

impl Part {
    fn is_of_one_member(self) -> bool {
        matches!(self, Part::Transactions | Part::History | Part::Delivery)
    }
}

pub(crate) fn arguments() -> Command {
    let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
    let command = Command::new("replset")
        .alias("set")
        .about(
            "Measure what a replica set costs: of one member its transactions, oplog and change streams; of several write concerns, \
             failovers, lost secondaries, members that catch up and initial sync",
        )
        .arg(list("engine", "E[,E]", "Storage engines; servers are started for each (ftree)"))
        .arg(list("members", "N[,N]", "Sizes of the sets: 1, and 3 to 7, which need etcd (1)"))
        .arg(list("part", "P[,P]", "Only these measurements: those of --members 1 and those of several members").value_parser(names))
        .arg(list("clients", "N[,N]", "Client counts (1, 16)"))
        .arg(option("seconds", "S", "Measured seconds of each number (5)"))
        .arg(option("repeats", "N", "Rounds of comparisons of servers (3)"))
        .arg(option("rate", "R", "Writes per second while events are timed (5000)"))
        .arg(option("events", "N", "Failovers of each kind, and lost secondaries (5)"))
        .arg(option("fill-mb", "MB", "Data that a member lacks which catches up or is empty (256)"))
        .arg(option("out", "DIR", "Directory for the results (lab-results/NAME-TIME)"))
        .arg(switch("keep", "Keep the data directories of the servers"));
    servers(command)
}

struct Run {
    setup: Setup,
    members: Vec<u16>,
    parts: Vec<Part>,
    clients: Vec<u32>,
    time: Duration,
    repeats: u32,
    rate: f64,
    events: u32,
    fill_mb: u64,
    /// Checked between two measurements.
    interrupt: Interrupt,
}

pub(crate) fn run(matches: &ArgMatches, built_in: &[KvEngine]) -> Result<Ending> {
    let run = Run::of(matches)?;
    let mut engines = texts(matches, "engine");
    if engines.is_empty() {
        engines.push("ftree".to_owned());
    }
    if text(matches, "binary").is_none() {
        let known = KvEngine::all_asked(built_in, "engine", &engines)?;
        engines = known.into_iter().map(|engine| engine.name.to_owned()).collect();
    }
    let started = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let environment = environment(&run.setup.root);
    println!("{}", heading_text(&environment));
    let directory = out(matches, "replset")?;
    let mut outcome = Outcome::default();
    let measured = engines.iter().try_for_each(|engine| run.measure(engine, &mut outcome));
    // What was measured before a failure is kept.
    if !outcome.is_empty() {
        outcome.write(&directory, ABOUT, &environment, &started)?;
    }
    match measured {
        // A server that was killed for an interrupt has not failed.
        _ if run.interrupt.is_set() => Ok(Ending::Interrupted),
        Ok(()) => Ok(Ending::Complete),
        Err(error) => Err(error),
    }
}

impl Run {
    fn of(matches: &ArgMatches) -> Result<Run> {
        let seconds = number(matches, "seconds")?.unwrap_or(SECONDS);
        let time = Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|time| !time.is_zero())
            .ok_or_else(|| Error::Usage(format!("--seconds: {seconds}")))?;
        let members = numbers(matches, "members", &[1], "1, and 3 to 7", |count| matches!(count, 1 | 3..=7))?;
        let chosen = texts(matches, "part");
        let is_chosen = |name: &str| chosen.is_empty() || chosen.iter().any(|part| part == name);
        let parts: Vec<Part> = PARTS.iter().filter(|(name, _)| is_chosen(name)).map(|(_, part)| *part).collect();
        let can_run = |part: &Part| members.iter().any(|count| part.is_of_one_member() == (*count == 1));
        if !chosen.is_empty() && !parts.iter().all(can_run) {
            return Err(Error::Usage("--part: there is no set of that size, see --members".to_owned()));
        }
        let mut setup = setup(matches)?;
        setup.keep = matches.get_flag("keep");
        Ok(Run {
            setup,
            members,
            parts,
            clients: numbers(matches, "clients", &[1, 16], "numbers from 1 on", |count| count > 0)?,
            time,
            repeats: number(matches, "repeats")?.unwrap_or(REPEATS).max(1),
            rate: number(matches, "rate")?.unwrap_or(RATE),
            events: number(matches, "events")?.unwrap_or(EVENTS).max(1),
            fill_mb: number(matches, "fill-mb")?.unwrap_or(FILL_MB).max(1),
            interrupt: Interrupt::by_signals()?,
        })
    }

    fn measure(&self, engine: &str, outcome: &mut Outcome) -> Result<()> {
        for members in &self.members {
            let own = self.parts.iter().filter(|part| part.is_of_one_member() == (*members == 1));
            for part in own {
                if self.interrupt.is_set() {
                    return Ok(());
                }
                self.measure_part(*part, engine, *members, outcome)?;
            }
        }
        Ok(())
    }

    fn measure_part(&self, part: Part, engine: &str, members: u16, outcome: &mut Outcome) -> Result<()> {
        let Run { setup, clients, time, repeats, fill_mb, interrupt, .. } = self;
        let events = Events { setup, engine, members, count: self.events, interrupt };
        let following = Following { setup, engine, members, fill_mb: *fill_mb, time: *time, interrupt };
        match part {
            Part::Transactions => self.transactions(engine, outcome),
            Part::History => self.history(engine, outcome),
            Part::Delivery => self.delivery(engine, outcome),
            Part::WriteConcerns => {
                let concerns = Concerns { setup, engine, members, clients, time: *time, repeats: *repeats, interrupt };
                concerns.measure(outcome)
            }
            Part::Failover => events.measure("Failover", &[Kind::KillPrimary, Kind::StepDown], outcome),
            Part::Stall => events.measure("Lost secondaries", &[Kind::KillSecondary, Kind::HangSecondary], outcome),
            Part::CatchUp => following.catch_up(outcome),
            Part::InitialSync => following.initial_sync(outcome),
        }
    }
}

/// Returns the numbers of a list, all of which are allowed.
fn numbers<T: Copy + FromStr>(
    matches: &ArgMatches,
    name: &str,
    otherwise: &[T],
    allowed: &str,
    is_allowed: impl Fn(T) -> bool,
) -> Result<Vec<T>> {
    let given = texts(matches, name);
    let given = given.iter().map(|text| text.parse::<T>().ok().filter(|number| is_allowed(*number)));
    let given = given.collect::<Option<Vec<T>>>().ok_or_else(|| Error::Usage(format!("--{name} takes {allowed}")))?;
    Ok(if given.is_empty() { otherwise.to_vec() } else { given })
}

impl Run {
    fn transactions(&self, engine: &str, outcome: &mut Outcome) -> Result<()> {
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
            outcome.table(table);
        }
        Ok(())
    }

    /// Compares writes to a standalone server and to a set, in turns, both with `w: 1`.
    fn history(&self, engine: &str, outcome: &mut Outcome) -> Result<()> {
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
        outcome.table(table);
        Ok(())
    }

    fn delivery(&self, engine: &str, outcome: &mut Outcome) -> Result<()> {
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
        outcome.table(table);
        Ok(())
    }
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
