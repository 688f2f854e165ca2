//! Measures commits of one document, and of one document per writer, with and without other members: `cargo run --profile quick
//! -p arbor-sim --example hot_document -- [--round-trip-us N] [--seconds N] [DIRECTORY]`.
//!
//! The other members are a thread that lets the commit point follow the log after the round trip. Without a directory the log is in memory,
//! where a sync costs nothing.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arbor_base::{Position, TreeId};
use arbor_disk::{Disk, FaultyDisk, RealDisk};
use arbor_ftree::{Forest, Options as ForestOptions};
use arbor_log::{Log, LogOptions};
use arbor_txn::{CommitRule, Durability, Error, Opening, Options, Transaction, Transactions, TreeOptions, View};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Appends that the other members are about to have, and when.
#[derive(Default)]
struct Shipped {
    queue: Mutex<VecDeque<(Instant, Position)>>,
    news: Condvar,
}

struct Arguments {
    round_trip: Duration,
    time: Duration,
    directory: Option<PathBuf>,
}

fn arguments() -> Result<Arguments, Failure> {
    let mut out = Arguments { round_trip: Duration::from_millis(1), time: Duration::from_secs(3), directory: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().ok_or("a number is missing")?.parse::<u64>().map_err(Failure::from);
        match word.as_str() {
            "--round-trip-us" => out.round_trip = Duration::from_micros(number()?),
            "--seconds" => out.time = Duration::from_secs(number()?),
            _ => out.directory = Some(word.into()),
        }
    }
    Ok(out)
}

fn main() -> Result<(), Failure> {
    let arguments = arguments()?;
    println!("| rule | writers | documents | commits per second | mean latency |\n|---|---|---|---|---|");
    for rule in [CommitRule::Own, CommitRule::Set] {
        for (writers, hot) in [(1, true), (8, true), (8, false)] {
            run(&arguments, rule, writers, hot)?;
        }
    }
    Ok(())
}

fn open(arguments: &Arguments) -> Result<Arc<Transactions>, Failure> {
    let disk: Arc<dyn Disk> = match &arguments.directory {
        Some(_) => Arc::new(RealDisk),
        None => Arc::new(FaultyDisk::new()),
    };
    let dir = arguments.directory.as_deref().unwrap_or(Path::new("memory"));
    if arguments.directory.is_some() && dir.exists() {
        std::fs::remove_dir_all(dir)?;
    }
    let forest = Forest::open(&dir.join("ftree"), ForestOptions::new(disk.clone(), 256 << 20))?;
    let log = Log::open(disk, &dir.join("log"), LogOptions::default())?;
    Ok(Transactions::open_as(Opening::Own, log, Arc::new(forest), Options::default())?)
}

fn run(arguments: &Arguments, rule: CommitRule, writers: u64, hot: bool) -> Result<(), Failure> {
    let transactions = open(arguments)?;
    let (tree, _) = transactions
        .retry::<TreeId, Error>(Durability::Journaled, |txn| Ok(txn.create_tree(TreeOptions::default())))?;
    let shipped = Arc::new(Shipped::default());
    let (sent, delay) = (shipped.clone(), arguments.round_trip);
    transactions.on_append(Box::new(move |position| {
        let mut queue = sent.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back((Instant::now() + delay, position));
        sent.news.notify_one();
    }));
    transactions.set_rule(rule)?;
    let (ends, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    let writer = |own: u64| -> Result<(), Error> {
        let key = if hot { 0 } else { own }.to_be_bytes();
        while start.elapsed() < arguments.time {
            transactions.retry(Durability::Applied, |txn| add_one(txn, tree, &key))?;
            commits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    std::thread::scope(|scope| -> Result<(), Failure> {
        let members = scope.spawn(|| follow(&transactions, &shipped, &ends));
        let writer = &writer;
        let threads: Vec<_> = (0..writers).map(|own| scope.spawn(move || writer(own))).collect();
        for thread in threads {
            thread.join().map_err(|_| "a writer panicked")??;
        }
        let seconds = start.elapsed().as_secs_f64();
        ends.store(true, Ordering::Relaxed);
        shipped.news.notify_all();
        members.join().map_err(|_| "the other members panicked")??;
        let commits = commits.load(Ordering::Relaxed) as f64;
        let latency_us = seconds * writers as f64 / commits * 1e6;
        let documents = if hot { 1 } else { writers };
        println!("| {rule:?} | {writers} | {documents} | {:.0} | {latency_us:.0} us |", commits / seconds);
        Ok(())
    })
}

fn add_one(txn: &mut Transaction, tree: TreeId, key: &[u8]) -> Result<(), Error> {
    let before = txn.get(tree, key)?.and_then(|value| Some(u64::from_be_bytes(value.as_ref().try_into().ok()?)));
    txn.put(tree, key, (before.unwrap_or(0) + 1).to_be_bytes());
    Ok(())
}

/// The commit point follows the log after the round trip, and once the own log has the records on its disk.
fn follow(transactions: &Transactions, shipped: &Shipped, ends: &AtomicBool) -> Result<(), Error> {
    while !ends.load(Ordering::Relaxed) {
        let (due, position) = {
            let mut queue = shipped.queue.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(next) = queue.pop_front() else {
                let waited = shipped.news.wait_timeout(queue, Duration::from_millis(50));
                drop(waited.unwrap_or_else(PoisonError::into_inner));
                continue;
            };
            // Those that are due by then go together
            let together = queue.iter().take_while(|(due, _)| *due <= Instant::now()).count();
            queue.drain(..together).next_back().unwrap_or(next)
        };
        while let Some(left) = due.checked_duration_since(Instant::now()) {
            match left > Duration::from_micros(200) {
                true => std::thread::sleep(left - Duration::from_micros(100)),
                false => std::hint::spin_loop(),
            }
        }
        transactions.make_durable(Some(position))?;
        transactions.set_commit_point(position)?;
    }
    Ok(())
}
