//! `arbor salvage`: carries what can be read of a damaged directory over into a new one.
//!
//! The rows that the engines can still read go into the fractal tree of a new directory, as batches of a new log; then the
//! records of the old log follow, as far as they can be read. The old directory is only read: the fractal tree's files are
//! read as they are; other engines are opened on a copy, by a process of its own ([`engine_rows`]), and of a tree come the
//! rows up to one that cannot be read. Of an engine that does not open comes what the log still holds. Of a tree that is
//! whole only the records after its state are taken: a log that lost its end would turn rows back to what they were.
//!
//! Data that the catalogue does not list any more is not restored as a collection. `arbor check` on the new directory reports
//! what is missing.

pub(crate) mod engine_rows;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arbor_base::{Position, TreeId};
use arbor_disk::RealDisk;
use arbor_engine::{Batch, Engine, Error, Op, TreeOptions};
use arbor_ftree::check::{Report, Salvaged, salvage};
use arbor_log::{Log, LogOptions};
use arbor_txn::chain::{Assembler, Part};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::directory::Directory;
use crate::engine_copy::{copy_files, engines_in};
use crate::engines::{EngineChoice, USUAL, ftree_options};
use crate::failure::{BAD_OPTIONS, Failure};
use crate::salvage::engine_rows::Found;

/// Bytes of rows per batch.
const BATCH_BYTES: usize = 1 << 20;

pub(crate) fn command() -> Command {
    let directory =
        |name: &'static str, help| Arg::new(name).long(name).value_name("DIRECTORY").required(true).help(help);
    Command::new("salvage")
        .about("Carries what can be read of a damaged directory over into a new directory of the fractal tree")
        .arg(directory("dbpath", "The damaged directory; it is only read"))
        .arg(directory("into", "An empty directory"))
        .arg(
            Arg::new("without")
                .long("without")
                .value_name("ENGINE")
                .action(ArgAction::Append)
                .help("An engine whose files are not read: of its rows come those that the log holds"),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let path = |name| PathBuf::from(matches.get_one::<String>(name).map_or("", String::as_str));
    let (from, into) = (path("dbpath"), path("into"));
    require_empty(&into)?;
    let target = Directory::open(&into, USUAL)?;
    let mut rows = Target::open(&target).map_err(Failure::cannot_start)?;
    if from.join(USUAL).is_dir() {
        let report = rows.take_rows(&from.join(USUAL)).map_err(Failure::cannot_start)?;
        print_report(&report);
    }
    let without: Vec<&String> = matches.get_many("without").into_iter().flatten().collect();
    for name in engines_in(&from).iter().filter(|name| *name != USUAL && !without.contains(name)) {
        rows.take_engine(name, &from.join(name), &target.scratch()).map_err(Failure::cannot_start)?;
        if name == "lmdb" {
            println!("pages of lmdb have no checksums: a value that was damaged in place is carried over as it is");
        }
    }
    rows.create_known_trees().map_err(Failure::cannot_start)?;
    println!("{} rows of {} trees were carried over", rows.rows, rows.trees.len());
    match rows.take_log(&from.join("log"), &target.scratch()) {
        Ok(records) => println!("{records} records of the log were carried over"),
        Err(error) => println!("the log was carried over up to where it cannot be read: {error}"),
    }
    rows.finish().map_err(Failure::cannot_start)?;
    println!("run 'arbor check --dbpath {}' next", into.display());
    Ok(())
}

fn require_empty(directory: &Path) -> Result<(), Failure> {
    let mut entries = std::fs::read_dir(directory)
        .map_err(|error| Failure::new(BAD_OPTIONS, format!("--into {}: {error}", directory.display())))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => {
            Err(Failure::new(BAD_OPTIONS, format!("--into {}: the directory is not empty", directory.display())))
        }
    }
}

fn print_report(report: &Report) {
    report.findings.iter().for_each(|finding| println!("{finding}"));
}

type Result<T, E = Error> = std::result::Result<T, E>;

fn log_error(error: arbor_log::Error) -> Error {
    Error::Other(error.to_string())
}

fn size_of_op(op: &Op) -> usize {
    match op {
        Op::Put { key, value, .. } => key.len() + value.len(),
        Op::Update { key, update, .. } => key.len() + update.len(),
        Op::Delete { key, .. } => key.len(),
        Op::DeleteRange { from, to, .. } => from.len() + to.as_ref().map_or(0, Vec::len),
        Op::CreateTree { .. } | Op::DropTree { .. } => 0,
    }
}

/// The new directory's log and engine, and what was put there.
struct Target {
    log: Log,
    engine: Arc<dyn Engine>,
    trees: BTreeSet<TreeId>,
    /// Trees that came whole, with the last record of the log that they have.
    complete: BTreeMap<TreeId, Position>,
    rows: u64,
    ops: Vec<Op>,
    bytes: usize,
}

impl Target {
    fn open(directory: &Directory) -> Result<Target> {
        let log = Log::open(Arc::new(RealDisk), &directory.log(), LogOptions::default()).map_err(log_error)?;
        let choice = EngineChoice::named(USUAL).ok_or_else(|| Error::no_updates(USUAL))?;
        let engine = choice.open(&directory.engine(USUAL))?;
        Ok(Target {
            log,
            engine,
            trees: BTreeSet::new(),
            complete: BTreeMap::new(),
            rows: 0,
            ops: Vec::new(),
            bytes: 0,
        })
    }

    fn take_rows(&mut self, from: &Path) -> Result<Report> {
        let mut failure = None;
        let Salvaged { report, applied, whole } = salvage(from, &ftree_options(), &mut |tree, key, value| {
            if failure.is_none() {
                failure = self.put(tree, key.to_vec(), value.to_vec()).err();
            }
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        for tree in whole {
            // Also without rows.
            self.create(tree);
            self.complete.insert(tree, applied);
        }
        self.flush().map(|()| report)
    }

    /// Takes another engine's rows, from a copy. What cannot be read is printed.
    fn take_engine(&mut self, name: &str, from: &Path, scratch: &Path) -> Result<()> {
        let copy = scratch.join(format!("copy-of-{name}"));
        if from.is_dir() {
            copy_files(from, &copy)
                .map_err(|source| Error::Io { context: format!("copying {}", from.display()), source })?;
        }
        let read = self.take_copy(name, &copy);
        // What is left goes with the scratch directory at the next start.
        let _ = std::fs::remove_dir_all(&copy);
        match read {
            Err(error @ (Error::Corrupt { .. } | Error::Unavailable { .. })) => {
                println!("the rows in the engine '{name}' come only as far as the log holds them: {error}");
            }
            read => read?,
        }
        self.flush()
    }

    fn take_copy(&mut self, name: &str, copy: &Path) -> Result<()> {
        let (mut applied, mut tree) = (Position::ZERO, None);
        engine_rows::read(name, copy, |found| {
            match (found, tree) {
                (Found::Applied(position), _) => applied = position,
                // The fractal tree's, should both have it: its files were read without opening them.
                (Found::Tree(id), _) => tree = (!self.trees.contains(&id)).then_some(id),
                (_, None) => {}
                (Found::Row(key, value), Some(tree)) => self.put(tree, key, value)?,
                (Found::Whole, Some(tree)) => {
                    self.create(tree);
                    self.complete.insert(tree, applied);
                }
                (Found::Broken(reason), Some(tree)) => {
                    self.create(tree);
                    println!("tree {tree} in the engine '{name}' is not whole: {reason}");
                }
            }
            Ok(())
        })
    }

    fn put(&mut self, tree: TreeId, key: Vec<u8>, value: Vec<u8>) -> Result<()> {
        self.create(tree);
        self.rows += 1;
        self.bytes += key.len() + value.len();
        self.ops.push(Op::Put { tree, key, value });
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
        let position = self.log.append(&[&arbor_txn::record::of_ops(&ops)]).map_err(log_error)?;
        self.engine.apply(&[Batch { position, ops }])
    }

    /// Reads a copy, since opening a log may change it. Returns the number of records.
    fn take_log(&mut self, from: &Path, scratch: &Path) -> Result<u64> {
        let copy = scratch.join("salvaged-log");
        copy_files(from, &copy)
            .map_err(|source| Error::Io { context: format!("copying {}", from.display()), source })?;
        let taken = self.take_records(&copy);
        let removed = std::fs::remove_dir_all(&copy);
        removed.map_err(|source| Error::Io { context: format!("removing {}", copy.display()), source })?;
        taken
    }

    fn take_records(&mut self, directory: &Path) -> Result<u64> {
        let old = Log::open(Arc::new(RealDisk), directory, LogOptions::default()).map_err(log_error)?;
        let mut reader = old.read(old.first());
        let mut records = 0;
        let mut assembler = Assembler::default();
        while let Some(entry) = reader.next_borrowed() {
            let (position, payload) = entry.map_err(log_error)?;
            let part = assembler.take(payload).map_err(|reason| Error::Corrupt {
                place: format!("log record {position}"),
                context: reason.to_owned(),
            })?;
            let Part::Record(record) = part else { continue };
            for op in self.known(record.ops, position) {
                self.bytes += size_of_op(&op);
                self.ops.push(op);
                if self.bytes >= BATCH_BYTES {
                    self.flush()?;
                }
            }
            self.flush()?;
            records += 1;
        }
        Ok(records)
    }

    /// Without the changes of trees that are not there (they were dropped later, or are lost), and without those that the
    /// rows of a whole tree have already.
    fn known(&mut self, ops: Vec<Op>, position: Position) -> Vec<Op> {
        let known = |op: &Op| match op {
            op if self.complete.get(&op.tree()).is_some_and(|applied| position <= *applied) => false,
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
