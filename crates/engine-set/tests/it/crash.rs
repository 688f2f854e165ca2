//! Crashes of a server over several members: each keeps another first part of the log, and the replay brings them
//! together again. Random transactions over trees in different members, crashes at random calls of either disk.
//!
//! Properties: what is there afterwards is the state after some first part of the commits, in all members together; it
//! holds everything that was acknowledged as journaled.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::Models;
use arbor_base::{Random, TreeId};
use arbor_disk::FaultyDisk;
use arbor_engine::Engine;
use arbor_engine_contract::Scratch;
use arbor_engine_set::{EngineSet, Kind};
use arbor_ftree::{Forest, Options};
use arbor_log::{Log, LogOptions};
use arbor_txn::{Durability, Error, Transactions, TreeOptions, View};

const NAMES: [&str; 3] = ["ftree", "model", "second"];

type State = BTreeMap<TreeId, BTreeMap<Vec<u8>, Vec<u8>>>;

struct Run {
    seed: u64,
    random: Random,
    scratch: Scratch,
    log: FaultyDisk,
    ftree: Arc<Mutex<FaultyDisk>>,
    models: Models,
    home: &'static str,
    /// The state after each commit that may be there; the first is the empty one.
    history: Vec<State>,
    journaled: usize,
    known: Vec<TreeId>,
    lost: usize,
}

fn run(seed: u64) -> usize {
    let mut random = Random::new(seed);
    let home = NAMES[random.below(2) as usize];
    let mut run = Run {
        seed,
        random,
        scratch: Scratch::in_memory(),
        log: FaultyDisk::new(),
        ftree: Arc::default(),
        models: Models::default(),
        home,
        history: vec![State::new()],
        journaled: 0,
        known: Vec::new(),
        lost: 0,
    };
    for _ in 0..5 {
        if run.random.chance(1, 2) {
            run.log.stop_after(run.random.below(150));
        }
        if run.random.chance(1, 2) {
            run.ftree.lock().unwrap().stop_after(run.random.below(150));
        }
        let opened = run.open();
        if let Ok((set, transactions)) = &opened {
            run.work(set, transactions);
        }
        drop(opened);
        run.crash();
    }
    run.lost
}

impl Run {
    fn open(&self) -> Result<(Arc<EngineSet>, Arc<Transactions>), Error> {
        let disk = self.ftree.clone();
        let ftree = Kind::new("ftree", move |directory| {
            std::fs::create_dir_all(directory).unwrap();
            let mut options = Options::new(Arc::new(disk.lock().unwrap().clone()), 32 << 20);
            options.threads = 0;
            options.checkpoint_interval_ms = 0;
            Ok(Arc::new(Forest::open(Path::new("/ftree"), options)?))
        });
        let kinds = vec![ftree, self.models.kind("model"), self.models.kind("second")];
        let default = if self.home == "ftree" { "model" } else { "ftree" };
        let set = Arc::new(EngineSet::open(self.scratch.path(), kinds, self.home, default)?);
        let options = LogOptions { segment_bytes: 1500, commit_interval: Duration::MAX, ..LogOptions::default() };
        let log = Log::open(Arc::new(self.log.clone()), Path::new("/log"), options).map_err(Error::Log)?;
        // Every other run has transactions that are chains of records.
        let record_bytes_max =
            if self.seed.is_multiple_of(2) { arbor_txn::Options::default().record_bytes_max } else { 100 };
        let options = arbor_txn::Options { record_bytes_max, ..arbor_txn::Options::default() };
        Ok((set.clone(), Transactions::open(log, set, options)?))
    }

    fn work(&mut self, set: &EngineSet, transactions: &Transactions) {
        for _ in 0..self.random.below(120) {
            match self.random.below(20) {
                0 if transactions.checkpoint_now().is_ok() => self.journaled = self.history.len() - 1,
                // A member makes what it has durable when it likes.
                1 | 2 => {
                    let name = NAMES[1 + self.random.below(2) as usize];
                    if self.scratch.path().join(name).exists() {
                        let _ = self.models.last(&self.scratch.path().join(name)).checkpoint();
                    }
                }
                3 => {
                    // A member may be missed in this life, and with it what lives there.
                    let shown = transactions.read().ok().and_then(|view| self.read(&view));
                    if let Some(shown) = shown {
                        assert_eq!(shown, self.history[self.history.len() - 1], "seed {}", self.seed);
                    }
                }
                _ if !self.commit(transactions) => return,
                _ => {}
            }
        }
        let _ = set.snapshot().map(drop);
    }

    /// False when writes are refused from now on.
    fn commit(&mut self, transactions: &Transactions) -> bool {
        let mut state = self.history[self.history.len() - 1].clone();
        let Ok(mut txn) = transactions.begin() else { return false };
        for _ in 0..1 + self.random.below(5) {
            let number = self.random.below(state.len() as u64 + 1) as usize;
            let Some(tree) = state.keys().nth(number).copied() else {
                let name = NAMES[self.random.below(3) as usize];
                let tree = txn.create_tree(TreeOptions::default().with_engine(name));
                state.insert(tree, BTreeMap::new());
                self.known.push(tree);
                continue;
            };
            if self.random.chance(1, 25) {
                txn.drop_tree(tree);
                state.remove(&tree);
                continue;
            }
            let key = vec![b'k', self.random.below(9) as u8];
            let rows = state.get_mut(&tree).unwrap();
            if self.random.chance(1, 4) {
                txn.delete(tree, key.clone());
                rows.remove(&key);
            } else {
                let length = self.random.below(60) as usize;
                let value = self.random.bytes(length);
                txn.put(tree, key.clone(), value.clone());
                rows.insert(key, value);
            }
        }
        let durability = if self.random.chance(1, 2) { Durability::Journaled } else { Durability::Applied };
        match txn.commit(durability) {
            Ok(_) => {
                self.history.push(state);
                if durability == Durability::Journaled {
                    self.journaled = self.history.len() - 1;
                }
                true
            }
            // It may be there after the crash, or not.
            Err(Error::Poisoned { .. }) => {
                self.history.push(state);
                false
            }
            Err(_) => false,
        }
    }

    /// `None`: some tree lives in a member that did not open, or its disk has stopped.
    fn read(&self, view: &impl View) -> Option<State> {
        let mut state = State::new();
        for tree in &self.known {
            let mut cursor = match view.cursor(*tree) {
                Ok(cursor) => cursor,
                Err(Error::UnknownTree(_)) => continue,
                Err(_) => return None,
            };
            let rows = state.entry(*tree).or_default();
            let mut more = cursor.first().ok()?;
            while more {
                rows.insert(cursor.key().to_vec(), cursor.value().to_vec());
                more = cursor.next().ok()?;
            }
        }
        Some(state)
    }

    fn crash(&mut self) {
        self.log = self.log.crash(self.random.next_u64());
        let crashed = self.ftree.lock().unwrap().crash(self.random.next_u64());
        *self.ftree.lock().unwrap() = crashed;
        let (set, transactions) = self.open().unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        assert!(
            set.members().iter().all(|member| !matches!(member.state, arbor_engine::MemberState::Unavailable { .. }))
        );
        let shown = self.read(&transactions.read().unwrap()).expect("all members are open");
        let last = self.history.len() - 1;
        let at = (self.journaled..=last).rev().find(|at| self.history[*at] == shown);
        let at =
            at.unwrap_or_else(|| panic!("seed {}: no state from {} to {last}: {shown:?}", self.seed, self.journaled));
        self.lost += usize::from(at < last);
        // The replayed state is durable only as far as it was before; the next crash may not lose it all the same.
        transactions.checkpoint_now().unwrap();
        self.history.truncate(at + 1);
        self.journaled = at;
    }
}

#[test]
fn all_members_come_back_to_one_state() {
    let seed = std::env::var("ARBOR_SEED").ok().map(|seed| seed.parse().expect("the seed is a number"));
    let seeds = seed.map_or(0..20, |seed: u64| seed..seed + 1);
    let lost: usize = seeds.map(run).sum();
    assert!(seed.is_some() || lost > 2, "crashes that lose something: {lost}");
}
