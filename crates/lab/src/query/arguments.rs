//! The command line of `arbor lab run query`.

use std::path::Path;
use std::time::{Duration, Instant};

use arbor_bson::DocBuf;
use arbor_client::Client;
use clap::ArgMatches;
use serde_json::Value;

use super::dataset::{self, DATABASE};
use super::measure::{Pace, measure};
use super::page;
use super::shape::Shape;
use super::table::{self, Measured};
use crate::cli::{number, out, setup, text, texts};
use crate::experiment::{check_room, environment};
use crate::kv::KvEngine;
use crate::report::{heading_of, heading_text};
use crate::results::Ending;
use crate::run::Interrupt;
use crate::target::Target;
use crate::target::managed::{Managed, Setup};
use crate::target::mongodb::MongoDb;
use crate::{Error, Result};

const DOCUMENTS: u64 = 1_000_000;
const SECONDS: f64 = 2.0;
/// Maximum bytes of a document on disk with its indexes.
const DOCUMENT_BYTES: u64 = 2500;

/// Returns what `arbor lab describe query` prints: the data set, and a line per shape.
pub(crate) fn describe() -> Result<String> {
    let mut text = format!(
        "query: shapes of queries over one data set: time, plan, share of planning, engine\n\
         data set: {DOCUMENTS} documents (--documents), at most {} MB with indexes, in the database {DATABASE}\n\
         each shape runs alone for {SECONDS} s (--seconds), by one client; --shape selects by a part of the name\n\
         shapes:\n",
        DOCUMENTS * DOCUMENT_BYTES / 1_000_000
    );
    for shape in Shape::all(DOCUMENTS)? {
        let scans = if shape.scans { " (no index: scans the collection)" } else { "" };
        text += &format!("  {:32} {:?}{scans}\n", shape.name, shape.command);
    }
    Ok(text)
}

/// Measures all shapes on every server. Complete if all could be run, and no plan scans a collection that has an index for the
/// query. An interrupt ends the run
/// after the current shape; what was measured is kept.
pub(crate) fn run(matches: &ArgMatches, built_in: &[KvEngine]) -> Result<Ending> {
    let documents = number(matches, "documents")?.unwrap_or(DOCUMENTS);
    if !(10_000..=100_000_000).contains(&documents) {
        return Err(Error::Usage("--documents takes numbers from 10000 to 100000000".to_owned()));
    }
    let selected = texts(matches, "shape");
    let mut shapes = Shape::all(documents)?;
    shapes.retain(|shape| selected.is_empty() || selected.iter().any(|part| shape.name.contains(part.as_str())));
    let seconds = number(matches, "seconds")?.unwrap_or(SECONDS);
    let measured =
        Duration::try_from_secs_f64(seconds).map_err(|_| Error::Usage(format!("--seconds: invalid time {seconds}")))?;
    let (profiled, drop, interrupt) = (matches.get_flag("profile"), matches.get_flag("drop"), Interrupt::by_signals()?);
    let run = Run { shapes, documents, measured, profiled, drop, interrupt };
    let (mut engines, targets) = (texts(matches, "engine"), texts(matches, "target"));
    if engines.is_empty() && targets.is_empty() {
        engines.push("ftree".to_owned());
    }
    // Another binary may have other engines; it refuses what it has not.
    if text(matches, "binary").is_none() {
        let known = KvEngine::all_asked(built_in, "engine", &engines)?;
        engines = known.into_iter().map(|engine| engine.name.to_owned()).collect();
    }
    targets.iter().try_for_each(|target| crate::target::check(target))?;
    let directory = out(matches, "query")?;
    let mut setup = setup(matches)?;
    let environment = environment(&setup.root);
    let started = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    setup.arguments = texts(matches, "server-arg");
    setup.keep = matches.get_flag("keep");
    let managed = engines.iter().map(|engine| run.managed(engine, &setup));
    let running = targets.iter().map(|target| run.on(&MongoDb::parse(target)?.discover()?));
    let (mut all, mut failed) = (Vec::new(), false);
    for outcome in managed.chain(running) {
        match outcome {
            Ok(measured) => all.push(measured),
            Err(_) if run.interrupt.is_set() => {}
            Err(error) => {
                eprintln!("arbor lab: {error}");
                failed = true;
            }
        }
        if run.interrupt.is_set() {
            break;
        }
    }
    if !all.is_empty() {
        write(&directory, &all, &environment, &started)?;
    }
    let well = |measured: &Measured| measured.shapes.iter().all(|(_, one)| one.failure.is_none() && !one.scans);
    Ok(match run.interrupt.is_set() {
        true => Ending::Interrupted,
        false if failed || !all.iter().all(well) => Ending::Partial,
        false => Ending::Complete,
    })
}

struct Run {
    shapes: Vec<Shape>,
    documents: u64,
    measured: Duration,
    profiled: bool,
    drop: bool,
    interrupt: Interrupt,
}

impl Run {
    fn managed(&self, engine: &str, setup: &Setup) -> Result<Measured> {
        let what = format!("a data set of {} documents", self.documents);
        check_room(&setup.root, self.documents * DOCUMENT_BYTES, &what, "--documents")?;
        let mut managed = Managed::arbor(engine, setup)?;
        let outcome = self.on(managed.mongodb());
        managed.explained(outcome)
    }

    fn on(&self, target: &MongoDb) -> Result<Measured> {
        let mut client = target.client()?;
        let failed = |source| Error::Client { server: target.name().to_owned(), source };
        let (mut load_seconds, mut notes) = (None, Vec::new());
        if !self.is_there(&mut client).map_err(failed)? {
            let begun = Instant::now();
            let progress = |what: &str| eprintln!("{}: loading {what}", target.name());
            notes = dataset::load(&mut client, self.documents, progress).map_err(failed)?;
            load_seconds = Some(begun.elapsed().as_secs_f64());
        }
        let pace = Pace { measured: self.measured, process: target.process(), profiled: self.profiled };
        let mut shapes = Vec::new();
        for shape in &self.shapes {
            if self.interrupt.is_set() {
                notes.push("interrupted: the other shapes were not measured".to_owned());
                break;
            }
            eprintln!("{}: {}", target.name(), shape.name);
            shapes.push((shape.clone(), measure(&mut client, shape, pace)));
        }
        let measured =
            Measured { system: target.name().to_owned(), documents: self.documents, load_seconds, notes, shapes };
        println!("{}", table::text(&measured));
        Ok(measured)
    }

    /// Returns true if the data set is loaded. Errors: the database has other data and `--drop` was not given.
    fn is_there(&self, client: &mut Client) -> std::result::Result<bool, arbor_client::ClientError> {
        let mut count = |name: &str| {
            let reply = client.command(DATABASE, &DocBuf::new().with("count", name))?;
            Ok::<u64, arbor_client::ClientError>(reply.number("n").unwrap_or_default() as u64)
        };
        let (docs, small) = (count("docs")?, count("small")?);
        if docs == self.documents && small == self.documents {
            return Ok(true);
        }
        if docs + small > 0 && !self.drop {
            let text = format!("the database {DATABASE} holds {docs} documents; --drop replaces them");
            return Err(arbor_client::ClientError::Protocol(text));
        }
        Ok(false)
    }
}

fn write(directory: &Path, all: &[Measured], environment: &Value, started: &str) -> Result<()> {
    std::fs::create_dir_all(directory).map_err(Error::file(directory))?;
    let tables: Vec<String> = all.iter().map(table::text).collect();
    let (facts, warnings) = heading_of(environment, started);
    for (name, text) in [
        ("tables.txt", format!("{}\n{}", heading_text(environment), tables.join("\n"))),
        ("shapes.csv", table::csv(all)),
        ("run.json", format!("{:#}\n", table::manifest(all, environment))),
        ("report.html", page::page(all, facts, warnings)),
    ] {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(Error::file(&path))?;
    }
    println!("results: {}", directory.display());
    Ok(())
}
