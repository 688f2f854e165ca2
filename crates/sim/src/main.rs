//! `arbor-sim [--steps N] [--seed S] [--log-steps N] [--txn-steps N] [--mutant-steps N] [--one] [--store-steps N]
//! [--data model|log|txn|store] [--mutant NAME]`: `make simulate`.
//!
//! Runs seeds from S on until N steps are done, and fewer on the real log, on the real commit path and on real collections, then looks for each defect that is
//! built in on purpose, in the model, on the real commit path and on collections. `--one` runs one seed and shows its last events if it has a finding.

use std::process::ExitCode;
use std::time::Instant;

use arbor_repl::isr::Mutant;
use arbor_sim::Defect;
use arbor_sim::campaign::{Run, Totals};
use arbor_sim::campaign::{campaign, find, run, run_on_log, run_on_store, run_on_txn};

const USAGE: &str = "usage: arbor-sim [--steps N] [--seed S] [--log-steps N] [--txn-steps N] [--mutant-steps N] [--store-steps N] [--one] \
                     [--data model|log|txn|store] [--mutant NAME]";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Model,
    Log,
    Txn,
    Store,
}

impl Kind {
    fn run(self, seed: u64, defect: Option<Defect>, traced: bool) -> Run {
        match self {
            Kind::Model => run(seed, defect, traced),
            Kind::Log => run_on_log(seed, traced),
            Kind::Txn => run_on_txn(seed, defect, traced),
            Kind::Store => run_on_store(seed, defect, traced),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Model => "model",
            Kind::Log => "log",
            Kind::Txn => "txn",
            Kind::Store => "store",
        }
    }
}

struct Arguments {
    steps: u64,
    seed: u64,
    log_steps: Option<u64>,
    txn_steps: Option<u64>,
    store_steps: Option<u64>,
    mutant_steps: u64,
    one: bool,
    kind: Kind,
    defect: Option<Defect>,
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(text) => {
            eprintln!("{text}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    // Assertions of rules are findings, which are reported below.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some(defect) = arguments.defect.filter(|_| !arguments.one) {
        let mut totals = Totals::default();
        while totals.steps < arguments.steps && totals.findings.is_empty() {
            totals.add(&arguments.kind.run(arguments.seed + totals.seeds, Some(defect), false));
        }
        println!("{defect:?}: {:?} {:?}", totals.counts, totals.findings);
        return ExitCode::SUCCESS;
    }
    if arguments.one { one(&arguments) } else { all(&arguments) }
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments {
        steps: 1_000_000,
        seed: 1,
        log_steps: None,
        txn_steps: None,
        store_steps: None,
        mutant_steps: 5_000_000,
        one: false,
        kind: Kind::Model,
        defect: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || {
            let text = words.next().ok_or_else(|| format!("{word} needs a number"))?;
            text.replace('_', "").parse().map_err(|_| format!("{text} is no number"))
        };
        match word.as_str() {
            "--steps" => arguments.steps = number()?,
            "--seed" => arguments.seed = number()?,
            "--data" => {
                let name = words.next().unwrap_or_default();
                let kind =
                    [Kind::Model, Kind::Log, Kind::Txn, Kind::Store].into_iter().find(|kind| kind.name() == name);
                arguments.kind = kind.ok_or_else(|| format!("no data are called {name}"))?;
            }
            "--txn-steps" => arguments.txn_steps = Some(number()?),
            "--store-steps" => arguments.store_steps = Some(number()?),
            "--log-steps" => arguments.log_steps = Some(number()?),
            "--mutant-steps" => arguments.mutant_steps = number()?,
            "--mutant" => {
                let name = words.next().unwrap_or_default();
                let named =
                    |defect: &Defect| format!("{defect:?}").trim_start_matches("Member(").trim_end_matches(')') == name;
                let defect = Defect::of_store().into_iter().find(named);
                arguments.defect = Some(defect.ok_or_else(|| format!("no mutant is called {name}"))?);
            }
            "--one" => arguments.one = true,
            _ => return Err(format!("unknown argument {word}")),
        }
    }
    Ok(arguments)
}

fn one(arguments: &Arguments) -> ExitCode {
    let run = arguments.kind.run(arguments.seed, arguments.defect, true);
    match run.finding {
        None => {
            println!("seed {}: {} steps, no violation; {:?}", run.seed, run.steps, run.counts);
            ExitCode::SUCCESS
        }
        Some(finding) => {
            run.trace.iter().for_each(|line| println!("{line}"));
            println!("seed {}, step {}: {finding}", run.seed, run.steps);
            ExitCode::FAILURE
        }
    }
}

fn all(arguments: &Arguments) -> ExitCode {
    let start = Instant::now();
    let shares = [
        (Kind::Model, arguments.steps),
        (Kind::Log, arguments.log_steps.unwrap_or(arguments.steps / 20)),
        (Kind::Txn, arguments.txn_steps.unwrap_or(arguments.steps / 50)),
        (Kind::Store, arguments.store_steps.unwrap_or(arguments.steps / 20)),
    ];
    let totals = shares.map(|(kind, steps)| report(kind, arguments.seed, steps));
    let sum = |part: fn(&Totals) -> u64| totals.iter().map(part).sum::<u64>();
    let (steps, seeds) = (sum(|totals| totals.steps), sum(|totals| totals.seeds));
    let violations = sum(|totals| totals.findings.len() as u64);
    let seconds = start.elapsed().as_secs_f64();
    let kinds = [(Kind::Model, Defect::of_model()), (Kind::Txn, Defect::of_txn()), (Kind::Store, Defect::of_store())];
    let kinds =
        kinds.map(|(kind, defects)| if arguments.mutant_steps > 0 { (kind, defects) } else { (kind, Vec::new()) });
    let all: usize = kinds.iter().map(|(_, defects)| defects.len()).sum();
    let found = kinds.iter().map(|(kind, defects)| search(arguments, *kind, defects)).sum::<usize>();
    println!(
        "{steps} steps, {seeds} seeds, {violations} violations, {found} of {all} mutants found, {:.0} steps per second",
        steps as f64 / seconds
    );
    if violations == 0 && found == all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Looks for defects; returns how many were found.
fn search(arguments: &Arguments, kind: Kind, defects: &[Defect]) -> usize {
    let mut found = 0;
    for defect in defects {
        let run = |seed, defect| kind.run(seed, Some(defect), false);
        // `txn` leads with an empty record or not at all
        let only_stops = match defect {
            Defect::Member(Mutant::StoreIgnored) => true,
            Defect::Member(Mutant::NoEmptyRecord) => kind != Kind::Model,
            _ => false,
        };
        match find((*defect, only_stops), arguments.seed, arguments.mutant_steps, run) {
            Some((seed, steps, finding)) => {
                found += 1;
                let finding: String = finding.chars().take(110).collect();
                println!("{}, mutant {defect:?}: found after {steps} steps (seed {seed}): {finding}", kind.name());
            }
            None => println!("{}, mutant {defect:?}: NOT FOUND in {} steps", kind.name(), arguments.mutant_steps),
        }
    }
    found
}

/// Runs seeds, and prints what they gave.
fn report(kind: Kind, seed: u64, steps: u64) -> Totals {
    let start = Instant::now();
    let totals = campaign(seed, steps, |seed| kind.run(seed, None, false));
    let rate = totals.steps as f64 / start.elapsed().as_secs_f64();
    let name = kind.name();
    println!("{name}: {} steps, {rate:.0} per second, {} seeds; {:?}", totals.steps, totals.seeds, totals.counts);
    for (seed, finding) in &totals.findings {
        println!(
            "{name}, seed {seed}: {finding}\n  again, with its events: arbor-sim --one --data {name} --seed {seed}"
        );
    }
    totals
}
