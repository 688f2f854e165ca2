//! `arbor salvage`: carries what can be read of a damaged folder over into a new one.
//!
//! The rows that the fractal tree can still read go into a new folder as batches of a new log, then the records of the old
//! log follow, as far as they can be read. The old folder is only read. What the catalogue does not know any more does not
//! come back as a collection; rows in other engines come only as far as the log holds them. `arbor check` on the new folder tells what is missing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arbor_base::TreeId;
use arbor_disk::RealDisk;
use arbor_engine::{Batch, Engine, Error, Op, TreeOptions};
use arbor_ftree::check::{Report, salvage};
use arbor_log::{Log, LogOptions};
use clap::{Arg, ArgMatches, Command};

use crate::engines::{EngineChoice, USUAL, ftree_options};
use crate::failure::{BAD_OPTIONS, Failure};
use crate::folder::Folder;
use crate::inspect::require_ftree;

/// Bytes of rows per batch.
const BATCH_BYTES: usize = 1 << 20;

pub fn command() -> Command {
    let folder = |name: &'static str, help| Arg::new(name).long(name).value_name("FOLDER").required(true).help(help);
    Command::new("salvage")
        .about("Carries what can be read of a damaged folder of the fractal tree over into a new folder")
        .arg(folder("dbpath", "The damaged folder; it is only read"))
        .arg(folder("into", "An empty folder"))
}

pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let path = |name| PathBuf::from(matches.get_one::<String>(name).map_or("", String::as_str));
    let (from, into) = (path("dbpath"), path("into"));
    require_ftree("salvage", &from)?;
    require_empty(&into)?;
    let target = Folder::open(&into, USUAL)?;
    let mut rows = Target::open(&target).map_err(Failure::cannot_start)?;
    let report = rows.take_rows(&from.join(USUAL)).map_err(Failure::cannot_start)?;
    print_report(&report);
    println!("{} rows of {} trees were carried over", rows.rows, rows.trees.len());
    print_left_out(&from);
    match rows.take_log(&from.join("log"), &target.scratch()) {
        Ok(records) => println!("{records} records of the log were carried over"),
        Err(error) => println!("the log was carried over up to where it cannot be read: {error}"),
    }
    rows.finish().map_err(Failure::cannot_start)?;
    println!("run 'arbor check --dbpath {}' next", into.display());
    Ok(())
}

fn require_empty(folder: &Path) -> Result<(), Failure> {
    let mut entries = std::fs::read_dir(folder)
        .map_err(|error| Failure::new(BAD_OPTIONS, format!("--into {}: {error}", folder.display())))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(Failure::new(BAD_OPTIONS, format!("--into {}: the folder is not empty", folder.display()))),
    }
}

fn print_report(report: &Report) {
    report.findings.iter().for_each(|finding| println!("{finding}"));
}

type Result<T, E = Error> = std::result::Result<T, E>;

fn log_error(error: arbor_log::Error) -> Error {
    Error::Other(error.to_string())
}

/// The new folder's log and engine, and what was put there.
struct Target {
    log: Log,
    engine: Arc<dyn Engine>,
    trees: BTreeSet<TreeId>,
    rows: u64,
    ops: Vec<Op>,
    bytes: usize,
}

impl Target {
    fn open(folder: &Folder) -> Result<Target> {
        let log = Log::open(Arc::new(RealDisk), &folder.log(), LogOptions::default()).map_err(log_error)?;
        let choice = EngineChoice::named(USUAL).ok_or_else(|| Error::no_updates(USUAL))?;
        let engine = choice.open(&folder.engine(USUAL))?;
        Ok(Target { log, engine, trees: BTreeSet::new(), rows: 0, ops: Vec::new(), bytes: 0 })
    }

    fn take_rows(&mut self, from: &Path) -> Result<Report> {
        let mut failure = None;
        let report = salvage(from, &ftree_options(), &mut |tree, key, value| {
            if failure.is_none() {
                failure = self.put(tree, key, value).err();
            }
        })?;
        match failure {
            Some(error) => Err(error),
            None => self.flush().and_then(|()| self.create_known_trees()).map(|()| report),
        }
    }

    fn put(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()> {
        self.create(tree);
        self.rows += 1;
        self.bytes += key.len() + value.len();
        self.ops.push(Op::Put { tree, key: key.to_vec(), value: value.to_vec() });
        if self.bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    fn create(&mut self, tree: TreeId) {
        if self.trees.insert(tree) {
            self.ops.push(Op::CreateTree { tree, options: TreeOptions::default() });
        }
    }

    /// Trees without rows are known by the ledger alone.
    fn create_known_trees(&mut self) -> Result<()> {
        for tree in arbor_txn::trees_of(&*self.engine)? {
            self.create(tree);
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        let ops = std::mem::take(&mut self.ops);
        self.bytes = 0;
        if ops.is_empty() { Ok(()) } else { self.apply(ops) }
    }

    fn apply(&mut self, ops: Vec<Op>) -> Result<()> {
        let position = self.log.append(&[&arbor_txn::record::encode(&ops, &[])]).map_err(log_error)?;
        self.engine.apply(&[Batch { position, ops }])
    }

    /// Reads a copy, since opening a log may change it. Answers the number of records.
    fn take_log(&mut self, from: &Path, scratch: &Path) -> Result<u64> {
        let copy = scratch.join("salvaged-log");
        copy_files(from, &copy)
            .map_err(|source| Error::Io { context: format!("copying {}", from.display()), source })?;
        let taken = self.take_records(&copy);
        let removed = std::fs::remove_dir_all(&copy);
        removed.map_err(|source| Error::Io { context: format!("removing {}", copy.display()), source })?;
        taken
    }

    fn take_records(&mut self, folder: &Path) -> Result<u64> {
        let old = Log::open(Arc::new(RealDisk), folder, LogOptions::default()).map_err(log_error)?;
        let mut reader = old.read(old.first());
        let mut records = 0;
        while let Some(entry) = reader.next_borrowed() {
            let (position, payload) = entry.map_err(log_error)?;
            let (ops, _) = arbor_txn::record::decode(payload).map_err(|reason| Error::Corrupt {
                place: format!("log record {position}"),
                context: reason.to_owned(),
            })?;
            let ops = self.known(ops);
            if !ops.is_empty() {
                self.apply(ops)?;
            }
            records += 1;
        }
        Ok(records)
    }

    /// Without the changes of trees that are not there: they were dropped later, or are lost.
    fn known(&mut self, ops: Vec<Op>) -> Vec<Op> {
        let known = |op: &Op| match op {
            Op::CreateTree { tree, .. } => {
                self.trees.insert(*tree);
                true
            }
            Op::DropTree { tree } => self.trees.remove(tree),
            Op::Put { tree, .. } | Op::Update { tree, .. } | Op::Delete { tree, .. } | Op::DeleteRange { tree, .. } => {
                self.trees.contains(tree)
            }
        };
        ops.into_iter().filter(known).map(into_ftree).collect()
    }

    fn finish(self) -> Result<()> {
        self.log.wait_durable(self.log.appended()).map_err(log_error)?;
        self.engine.checkpoint()?;
        self.log.close().map_err(log_error)
    }
}

/// All trees come into the fractal tree, whichever engine they lived in.
fn into_ftree(op: Op) -> Op {
    match op {
        Op::CreateTree { tree, options } => {
            let own = options.engine().is_none_or(|engine| engine == USUAL);
            let options = if own { options.without_engine() } else { TreeOptions::default() };
            Op::CreateTree { tree, options }
        }
        op => op,
    }
}

/// Says which engines of the folder this command does not read.
fn print_left_out(folder: &Path) {
    let listed = std::fs::read_to_string(folder.join("arbor.engines")).unwrap_or_default();
    for engine in listed.lines().filter(|engine| *engine != USUAL) {
        println!("the rows in the engine '{engine}' are not carried over, but for those that the log still holds");
    }
}

fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
