//! Random transactions, crashes at random calls of the disk, recovery, comparison with the acknowledged list.
//!
//! Properties:
//! 1. what was acknowledged as journaled is there, and everything that was committed before it;
//! 2. what is there is the state after some first part of the commits, trees, rows and counters together;
//! 3. a killed process loses nothing that was acknowledged;
//! 4. what was refused or taken back is not there;
//! 5. a crash during the recovery changes none of this.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Sums, with_updates};
use arbor_base::{Random, TreeId};
use arbor_disk::{Fault, FaultyDisk};
use arbor_engine::model::ModelEngine;
use arbor_engine::{Engine, UpdateFunction};
use arbor_log::{Log, LogOptions};
use arbor_txn::{CounterId, Durability, Error, Options, Transaction, Transactions, TreeOptions, View};

const COUNTERS: [CounterId; 3] = [CounterId(1), CounterId(2), CounterId(3)];
const SEGMENT_BYTES: u64 = 1500;

fn open(disk: &FaultyDisk, engine: &Arc<ModelEngine>) -> Result<Arc<Transactions>, Error> {
    open_with(disk, engine, Options::default().record_bytes_max)
}

fn open_with(
    disk: &FaultyDisk,
    engine: &Arc<ModelEngine>,
    record_bytes_max: usize,
) -> Result<Arc<Transactions>, Error> {
    let options = LogOptions { segment_bytes: SEGMENT_BYTES, commit_interval: Duration::MAX, ..LogOptions::default() };
    let log = Log::open(Arc::new(disk.clone()), Path::new("/log"), options).map_err(Error::Log)?;
    Transactions::open(log, engine.clone(), Options { record_bytes_max, ..with_updates() })
}

/// Everything a client can see.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    trees: BTreeMap<TreeId, BTreeMap<Vec<u8>, Vec<u8>>>,
    counters: [i64; COUNTERS.len()],
}

impl State {
    /// `known`: ids of all trees that were ever created; those that are not there are left out.
    fn read(view: &impl View, known: &BTreeSet<TreeId>) -> State {
        let mut state = State::default();
        for tree in known {
            let mut cursor = match view.cursor(*tree) {
                Ok(cursor) => cursor,
                Err(Error::UnknownTree(_)) => continue,
                Err(error) => panic!("{error}"),
            };
            let rows = state.trees.entry(*tree).or_default();
            let mut valid = cursor.first().unwrap();
            while valid {
                rows.insert(cursor.key().to_vec(), cursor.value().to_vec());
                valid = cursor.next().unwrap();
            }
        }
        state.counters = COUNTERS.map(|id| view.counter(id).unwrap());
        state
    }
}

struct Run {
    seed: u64,
    record_bytes_max: usize,
    random: Random,
    disk: FaultyDisk,
    engine: Arc<ModelEngine>,
    /// The state after each commit that may be there, in order; the first is the empty one.
    history: Vec<State>,
    /// Index in `history` up to which everything must be there after a power failure, and after a kill.
    journaled: usize,
    acknowledged: usize,
    known: BTreeSet<TreeId>,
    lost: usize,
    unknown: usize,
}

fn run(seed: u64) -> (usize, usize) {
    let (random, disk, engine) =
        (Random::new(seed), FaultyDisk::new(), Arc::new(ModelEngine::with_updates(Arc::new(Sums))));
    let (history, known) = (vec![State::default()], BTreeSet::new());
    // Every other run has chains, of up to some ten links.
    let record_bytes_max = if seed.is_multiple_of(2) { Options::default().record_bytes_max } else { 100 };
    let (journaled, acknowledged, lost, unknown) = (0, 0, 0, 0);
    let mut run =
        Run { seed, record_bytes_max, random, disk, engine, history, journaled, acknowledged, known, lost, unknown };
    for _ in 0..1 + run.random.below(5) {
        run.arm();
        let transactions = run.open().ok();
        if let Some(transactions) = &transactions {
            run.work(transactions);
            if transactions.poisoned().is_none() {
                transactions.validate();
            }
        }
        drop(transactions);
        run.crash();
    }
    (run.lost, run.unknown)
}

impl Run {
    fn open(&self) -> Result<Arc<Transactions>, Error> {
        open_with(&self.disk, &self.engine, self.record_bytes_max)
    }

    fn arm(&mut self) {
        let calls = [15, 60, 200][self.random.below(3) as usize];
        self.disk.stop_after(self.random.below(calls));
        if self.random.chance(1, 2) {
            let fault = [Fault::Io, Fault::OutOfSpace, Fault::ShortWrite][self.random.below(3) as usize];
            self.disk.fail_nth(self.random.below(calls), fault);
        }
    }

    fn work(&mut self, transactions: &Transactions) {
        for _ in 0..120 {
            match self.random.below(20) {
                0 => {
                    if transactions.checkpoint_now().is_ok() {
                        self.journaled = self.acknowledged;
                    }
                }
                1 => {
                    let shown = State::read(&transactions.read().unwrap(), &self.known);
                    assert_eq!(shown, self.history[self.acknowledged], "seed {}", self.seed);
                }
                // An engine may make its state durable when it likes; it waits for the log first.
                2 => {
                    if self.engine.checkpoint().is_ok() {
                        self.journaled = self.acknowledged;
                    }
                }
                _ => {
                    if !self.commit_one(transactions) {
                        return;
                    }
                }
            }
        }
        if transactions.close().is_ok() {
            self.journaled = self.acknowledged;
        }
    }

    /// One transaction; false when writes are refused from now on.
    fn commit_one(&mut self, transactions: &Transactions) -> bool {
        let mut state = self.history[self.acknowledged].clone();
        let mut txn = transactions.begin().unwrap();
        for _ in 0..1 + self.random.below(6) {
            self.change(&mut txn, &mut state);
        }
        if self.random.chance(1, 8) {
            return true;
        }
        let durability = if self.random.chance(1, 2) { Durability::Journaled } else { Durability::Applied };
        match txn.commit(durability) {
            Ok(_) => {
                self.history.push(state);
                self.acknowledged = self.history.len() - 1;
                if durability == Durability::Journaled {
                    self.journaled = self.acknowledged;
                }
                true
            }
            Err(Error::OutOfSpace { .. } | Error::Refused { .. } | Error::Log(_)) => true,
            Err(Error::Poisoned { .. }) => {
                self.history.push(state);
                self.unknown += 1;
                false
            }
            Err(error) => panic!("seed {}: {error}", self.seed),
        }
    }

    fn change(&mut self, txn: &mut Transaction, state: &mut State) {
        let number = self.random.below(state.trees.len() as u64 + 1) as usize;
        let Some(tree) = state.trees.keys().nth(number).copied() else {
            let tree = txn.create_tree(TreeOptions::default());
            state.trees.insert(tree, BTreeMap::new());
            self.known.insert(tree);
            return;
        };
        let rows = state.trees.get_mut(&tree).unwrap();
        let key = vec![b'k', self.random.below(12) as u8];
        match self.random.below(14) {
            12 | 13 => {
                let message = [self.random.below(200) as u8];
                if txn.update(tree, key.clone(), message) {
                    let row = rows.remove(&key);
                    rows.extend(Sums.apply(&key, row.as_deref(), &message).map(|row| (key, row)));
                }
            }
            0..7 => {
                let length = self.random.below(60) as usize;
                let value = self.random.bytes(length);
                txn.put(tree, key.clone(), value.clone());
                rows.insert(key, value);
            }
            7 | 8 => {
                txn.delete(tree, key.clone());
                rows.remove(&key);
            }
            9 => {
                let to = vec![b'k', key[1] + 4];
                txn.delete_range(tree, key.clone(), Some(to.clone()));
                rows.retain(|row, _| *row < key || *row >= to);
            }
            10 => {
                let (counter, delta) = (self.random.below(3) as usize, self.random.below(100) as i64 - 50);
                txn.add_counter(COUNTERS[counter], delta);
                state.counters[counter] += delta;
            }
            _ => {
                txn.drop_tree(tree);
                state.trees.remove(&tree);
            }
        }
    }

    fn crash(&mut self) {
        let killed = self.random.chance(1, 6);
        self.disk = if killed { self.disk.kill_process() } else { self.disk.crash(self.random.next_u64()) };
        let keeps_all = killed && self.random.chance(1, 2);
        let crashed = |engine: &ModelEngine| if keeps_all { engine.kill_process() } else { engine.crash() };
        self.engine = Arc::new(crashed(&self.engine));
        let only_killed = !self.power_failed_while_recovering() && killed;
        let opened = self.open().unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        let shown = State::read(&opened.read().unwrap(), &self.known);
        let must_have = if only_killed { self.acknowledged } else { self.journaled };
        let found = (must_have..self.history.len()).rev().find(|at| self.history[*at] == shown);
        let Some(found) = found else {
            panic!("seed {}: not the state after any of the commits {must_have}..{}", self.seed, self.history.len())
        };
        self.lost += self.history.len() - 1 - found;
        self.history.truncate(found + 1);
        // What recovery shows is durable.
        (self.acknowledged, self.journaled) = (found, found);
    }

    /// Half the time a first try to open stops somewhere.
    fn power_failed_while_recovering(&mut self) -> bool {
        let failed = self.random.chance(1, 2);
        if failed {
            self.disk.stop_after(self.random.below(40));
            drop(self.open());
            self.disk = self.disk.crash(self.random.next_u64());
            self.engine = Arc::new(self.engine.crash());
        }
        failed
    }
}

#[test]
fn recovery_shows_a_first_part_of_the_commits_with_all_that_were_journaled() {
    let (mut lost, mut unknown) = (0, 0);
    for seed in 0..700 {
        let (run_lost, run_unknown) = run(seed);
        lost += run_lost;
        unknown += run_unknown;
    }
    assert!(lost > 100 && unknown > 100, "the runs exercise the rare cases: {lost} lost, {unknown} unknown");
}

/// Commits of one thread of `threads_commit_until_the_power_fails`, in order with their positions.
#[derive(Default)]
struct Ledger {
    positions: Vec<u64>,
    journaled: u64,
}

/// Each thread counts up a row of its own; every commit also counts up a shared counter.
fn count_up(transactions: &Transactions, tree: TreeId, thread: u64) -> Ledger {
    let mut ledger = Ledger::default();
    for number in 1_u64.. {
        let durability = if number % 3 == thread % 3 { Durability::Journaled } else { Durability::Applied };
        let mut txn = transactions.begin().unwrap();
        txn.put(tree, [thread as u8], number.to_le_bytes());
        txn.add_counter(COUNTERS[0], 1);
        match txn.commit(durability) {
            Ok(position) => ledger.positions.push(position.0),
            Err(_) => break,
        }
        if durability == Durability::Journaled {
            ledger.journaled = number;
        }
    }
    ledger
}

#[test]
fn threads_commit_until_the_power_fails() {
    const THREADS: u64 = 4;
    for seed in 0..40 {
        let (disk, engine) = (FaultyDisk::new(), Arc::new(ModelEngine::new()));
        let transactions = open(&disk, &engine).unwrap();
        let mut txn = transactions.begin().unwrap();
        let tree = txn.create_tree(TreeOptions::default());
        txn.commit(Durability::Journaled).unwrap();
        disk.stop_after(20 + Random::new(seed).below(200));
        let running = AtomicBool::new(true);
        let ledgers: Vec<Ledger> = std::thread::scope(|scope| {
            let (transactions, running) = (&transactions, &running);
            let counting = |thread| scope.spawn(move || count_up(transactions, tree, thread));
            let threads: Vec<_> = (0..THREADS).map(counting).collect();
            scope.spawn(move || {
                while running.load(Ordering::Relaxed) && transactions.checkpoint_now().is_ok() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let ledgers = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            running.store(false, Ordering::Relaxed);
            ledgers
        });
        drop(transactions);
        let after = open(&disk.crash(seed), &Arc::new(engine.crash())).unwrap();
        let view = after.read().unwrap();
        let last = view.position().0;
        let mut total = 0;
        for (thread, ledger) in ledgers.iter().enumerate() {
            let row = view.get(tree, &[thread as u8]).unwrap();
            let count = row.map_or(0, |bytes| u64::from_le_bytes(bytes.as_ref().try_into().unwrap()));
            let before_last = ledger.positions.partition_point(|position| *position <= last) as u64;
            assert!(count >= ledger.journaled, "seed {seed}: thread {thread} lost journaled commits");
            // One more may be there: the commit that returned an error.
            assert!(count == before_last || count == before_last + 1, "seed {seed}: {count} after {before_last}");
            assert!(count as usize <= ledger.positions.len() + 1);
            total += count as i64;
        }
        assert_eq!(view.counter(COUNTERS[0]).unwrap(), total, "seed {seed}: rows and counter disagree");
    }
}
