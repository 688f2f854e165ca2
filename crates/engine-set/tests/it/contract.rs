//! The engine contract on sets: of one member, and of several with the trees spread over them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::support::{Models, Records, Spread, ftree, lmdb};
use arbor_engine::{Engine, TreeOptions};
use arbor_engine_contract::{self as contract, Factory};
use arbor_engine_set::{EngineSet, Kind};

struct Alone(&'static str);

impl Factory for Alone {
    fn open(&self, dir: &Path) -> Box<dyn Engine> {
        Box::new(EngineSet::open(dir, vec![ftree(), lmdb()], self.0, self.0).unwrap())
    }
}

/// The first name is the home's.
struct Several {
    names: Vec<&'static str>,
    models: Models,
    records: Mutex<HashMap<PathBuf, Records>>,
}

impl Several {
    fn of(names: &[&'static str]) -> Several {
        Several { names: names.to_vec(), models: Models::default(), records: Mutex::default() }
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![ftree(), lmdb(), self.models.kind("model"), self.models.kind("second"), self.models.kind("third")]
    }
}

impl Factory for Several {
    fn open(&self, dir: &Path) -> Box<dyn Engine> {
        let set = EngineSet::open(dir, self.kinds(), self.names[0], self.names[1]).unwrap();
        for name in &self.names {
            set.check_options(&TreeOptions::default().with_engine(name)).unwrap();
        }
        let records = self.records.lock().unwrap().entry(dir.to_owned()).or_default().clone();
        Box::new(Spread::open(set, self.names.clone(), records))
    }
}

#[test]
fn one_member() {
    contract::run(&Alone("lmdb"), 4);
    contract::run_histories(&Alone("ftree"), 2);
}

#[test]
fn trees_over_three_models() {
    contract::run(&Several::of(&["model", "second", "third"]), 40);
}

#[test]
fn trees_over_ftree_and_lmdb() {
    contract::run(&Several::of(&["ftree", "lmdb"]), 4);
}

#[test]
fn trees_over_lmdb_ftree_and_a_model() {
    contract::run_histories(&Several::of(&["lmdb", "ftree", "model"]), 4);
}
