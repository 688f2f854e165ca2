//! `arbor check`: verifies a directory that no server works on. The log is replayed first, as at any start.

use std::path::Path;
use std::time::Duration;

use arbor_engine::MemberState;
use arbor_store::Store;
use clap::{Arg, ArgMatches, Command};

use crate::config::Settings;
use crate::directory::{self, Directory};
use crate::engines::{Engines, USUAL, ftree_options};
use crate::failure::{CANNOT_START, Failure};
use crate::memory::Sizes;
use crate::oplog;
use crate::storage::{Pace, Part, Storage};

pub(crate) fn command() -> Command {
    let dbpath =
        Arg::new("dbpath").long("dbpath").value_name("DIRECTORY").default_value("/data/db").help("Directory to verify");
    Command::new("check")
        .about("Verifies every collection and index of a directory while no server runs on it")
        .arg(dbpath)
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    verify(Path::new(matches.get_one::<String>("dbpath").map_or("/data/db", String::as_str)))
}

/// Errors: there are problems, which were printed; or the directory does not open.
pub(crate) fn verify(path: &Path) -> Result<(), Failure> {
    let pace = Pace {
        commit_interval: Duration::from_millis(100),
        log_compression: true,
        checkpoint_interval: Duration::from_secs(60),
        cache_bytes: Sizes::of(&Settings::default()).cache(),
        history: oplog::retention_of_directory(path),
    };
    // The directory knows its engine; if this build lacks it, opening as another says so.
    let written = directory::engine_of(path).unwrap_or_default();
    let engines = Engines::of_directory(Some(&written));
    check_file(&path.join(USUAL))?;
    check_pages(&path.join("lmdb"))?;
    let part = if arbor_repl::is_of_several(path) { Part::OfSeveral } else { Part::Own };
    let storage = Storage::open(Directory::open(path, engines.home)?, &engines, &pace, part)?;
    let bad = check_all(&storage.store)? + unavailable(&storage);
    storage.close()?;
    match bad {
        0 => Ok(()),
        bad => Err(Failure::new(CANNOT_START, format!("{bad} collections or engines have problems"))),
    }
}

/// Verifies the data file of the fractal tree, as its last checkpoint left it.
fn check_file(directory: &Path) -> Result<(), Failure> {
    if !directory.exists() {
        return Ok(());
    }
    let report = arbor_ftree::check::verify(directory, &ftree_options()).map_err(Failure::cannot_start)?;
    report.findings.iter().for_each(|finding| println!("PROBLEM   {finding}"));
    let (trees, nodes, tables) = (report.trees, report.nodes, report.tables);
    println!("data file: {trees} trees, {nodes} nodes, {tables} tables, {} bytes in use", report.bytes);
    if report.is_clean() {
        return Ok(());
    }
    Err(Failure::new(
        CANNOT_START,
        format!("{} problems in the data file; 'arbor salvage' carries over what can be read", report.findings.len()),
    ))
}

/// Verifies the pages of LMDB's file: LMDB itself would not survive damaged ones.
fn check_pages(directory: &Path) -> Result<(), Failure> {
    if !directory.join("checkpoint.meta").exists() {
        return Ok(());
    }
    match arbor_engine_lmdb::verify(directory) {
        Ok(pages) => println!("data.mdb: {pages} pages of trees"),
        Err(error) => {
            println!("PROBLEM   {error}");
            return Err(Failure::new(CANNOT_START, format!("{}: {error}", directory.display())));
        }
    }
    Ok(())
}

/// Prints the engines that do not open; answers how many.
fn unavailable(storage: &Storage) -> usize {
    let mut count = 0;
    for member in storage.transactions.engine().members() {
        if let MemberState::Unavailable { reason } = &member.state {
            println!("PROBLEM   the storage engine {} is not available: {reason}", member.name);
            count += 1;
        }
    }
    count
}

/// Prints a line per collection; answers how many have problems.
fn check_all(store: &Store) -> Result<usize, Failure> {
    let mut bad = 0;
    for db in store.list_databases() {
        for collection in store.list_collections(&db) {
            let report = store.validate(&collection.namespace, true).map_err(Failure::cannot_start)?;
            let verdict = if report.is_valid() { "ok" } else { "PROBLEMS" };
            let indexes = report.indexes.len();
            println!("{verdict:9} {} {} documents, {indexes} indexes", collection.namespace, report.records);
            report.problems.iter().for_each(|problem| println!("          {problem}"));
            bad += usize::from(!report.is_valid());
        }
    }
    Ok(bad)
}
