//! `arbor lab kv`: the storage engines alone, behind their common trait. No protocol, no planner, no log: what one engine
//! costs more than another here is the engine's own.
//!
//! Every engine runs the same phases on a new folder, one after another, and prints a row per phase:
//!
//! | phase | what one operation is |
//! |---|---|
//! | load-seq, load-rand | put of a new key, ascending or in random order, in batches |
//! | overwrite | put of an existing random key, in batches |
//! | rmw | get and put of an existing random key, in batches |
//! | get | get of an existing random key, a snapshot each, per thread count |
//! | get-missing | get of a key that is not there |
//! | scan-100 | seek to a random key and read 100 rows; counted in rows |
//! | scan-full | reads the whole tree; counted in rows |
//! | delete-range | one range delete of a tenth of the rows |
//! | checkpoint | makes everything durable |
//! | reopen | opens the folder again |
//!
//! Latencies are per call: a batch, a get, a scan. A checkpoint thread runs beside the writing phases, as under a server.

pub(crate) mod arguments;
mod measure;
mod phase;
mod rows;

use std::path::Path;
use std::sync::Arc;

use arbor_engine::Engine;

pub use measure::Measured;

use crate::report::Table;
use crate::{Error, Result};

/// How an engine is opened; crate `arbor` knows which there are.
#[derive(Clone, Copy)]
pub struct KvEngine {
    pub name: &'static str,
    pub open: fn(&Path) -> std::result::Result<Arc<dyn Engine>, String>,
}

#[derive(Clone, Debug)]
pub struct KvOptions {
    pub rows: u64,
    pub value_bytes: usize,
    /// Puts per batch.
    pub batch: u64,
    /// Calls of the phases that read single keys or ranges.
    pub reads: u64,
    pub threads: Vec<usize>,
    pub seed: u64,
}

/// Runs all phases on each engine in turn, below `folder`, and answers a table per engine.
pub fn run(options: &KvOptions, engines: &[KvEngine], folder: &Path) -> Result<Vec<Table>> {
    engines.iter().map(|engine| run_engine(options, *engine, folder)).collect()
}

fn run_engine(options: &KvOptions, engine: KvEngine, folder: &Path) -> Result<Table> {
    let path = folder.join(format!("arbor-kv-{}-{}", engine.name, std::process::id()));
    std::fs::create_dir_all(&path).map_err(Error::file(&path))?;
    let columns = Measured::COLUMNS.map(str::to_owned);
    let mut table = Table::new(&format!("{}: {}", engine.name, phase::heading(options)), "phase", columns);
    let outcome = phase::run_all(options, engine, &path, &mut |name, measured| {
        eprintln!("{} {name}: {:.0}/s", engine.name, measured.rate());
        table.row(measured.cells(), name);
    });
    std::fs::remove_dir_all(&path).map_err(Error::file(&path))?;
    outcome.map(|()| table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_has_a_row() {
        let model = KvEngine { name: "model", open: |_| Ok(Arc::new(arbor_engine::model::ModelEngine::new())) };
        let options = KvOptions { rows: 500, value_bytes: 40, batch: 50, reads: 60, threads: vec![1, 2], seed: 3 };
        let folder = tempfile::tempdir().unwrap();
        let tables = run(&options, &[model], folder.path()).unwrap();
        let phases: Vec<&str> = tables[0].rows.iter().map(|(_, name)| name.as_str()).collect();
        let expected = "load-seq load-rand overwrite rmw get x1 get x2 get-missing scan-100 scan-full delete-range \
                        checkpoint reopen";
        assert_eq!(phases.join(" "), expected);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "the data is removed");
    }
}
