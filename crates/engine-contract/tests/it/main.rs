//! The suite against the model engine, to which it compares the others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arbor_engine::Engine;
use arbor_engine::model::ModelEngine;
use arbor_engine_contract::{Adder, Factory, run};
use parking_lot::Mutex;

/// Keeps the engines by directory: opening goes back to the checkpoint, as after a crash.
#[derive(Default)]
struct Models {
    by_directory: Mutex<BTreeMap<PathBuf, Arc<ModelEngine>>>,
}

impl Factory for Models {
    fn open(&self, dir: &Path) -> Box<dyn Engine> {
        let mut engines = self.by_directory.lock();
        let new = || ModelEngine::with_updates(Arc::new(Adder));
        let engine = Arc::new(engines.get(dir).map_or_else(new, |engine| engine.crash()));
        engines.insert(dir.to_owned(), engine.clone());
        Box::new(engine)
    }
}

#[test]
fn the_model_passes_its_own_suite() {
    run(&Models::default(), 40);
}
