//! Runs random crash images through the log: `log_crash_images [RUNS [FIRST_SEED]]`, 10,000 runs from a seed taken from
//! the clock by default. A failure prints its seed; `log_crash_images 1 SEED` repeats it.

#[path = "../tests/it/crash_run.rs"]
mod crash_run;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let (Some(Ok(runs)), Some(Ok(first))) =
        (arguments.next().or(Some(Ok(10_000))), arguments.next().or(Some(Ok(clock_seed()))))
    else {
        eprintln!("usage: log_crash_images [RUNS [FIRST_SEED]]");
        return ExitCode::from(2);
    };
    println!("{runs} runs, seeds {first}..{}", first.wrapping_add(runs));
    let mut coverage = crash_run::Coverage::default();
    for seed in (0..runs).map(|n| first.wrapping_add(n)) {
        match std::panic::catch_unwind(|| crash_run::run(seed)) {
            Ok(run) => coverage.add(run),
            Err(_) => {
                eprintln!("seed {seed} failed; repeat with: log_crash_images 1 {seed}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("all held: {coverage:?}");
    ExitCode::SUCCESS
}

fn clock_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
