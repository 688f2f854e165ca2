//! `arbor lab kv ...`.

use std::path::Path;

use clap::{ArgMatches, Command};

use super::{KvEngine, KvOptions};
use crate::cli::{list, number, option, parse, text, texts};
use crate::experiment::default_root;
use crate::{Error, Result};

pub(crate) fn command() -> Command {
    Command::new("kv")
        .about("Measure the storage engines alone, side by side: loads, gets, scans, range deletes")
        .arg(list("engine", "E[,E]", "Engines (all of this build)"))
        .arg(option("rows", "N", "Rows per tree (1000000)"))
        .arg(option("value-bytes", "N", "Bytes of a value, half of them zeros (120)"))
        .arg(option("batch", "N", "Puts per batch (100)"))
        .arg(option("reads", "N", "Calls of each reading phase, puts of overwrite and rmw (rows / 5)"))
        .arg(list("threads", "N[,N]", "Thread counts of get (1,2,4)"))
        .arg(option("seed", "N", "Seed of the random numbers (1)"))
        .arg(option("data", "DIR", "Folder that the data folders are made in (the temporary folder)"))
}

pub(crate) fn run(matches: &ArgMatches, engines: &[KvEngine]) -> Result<()> {
    let rows = number(matches, "rows")?.unwrap_or(1_000_000).max(10);
    let threads = match texts(matches, "threads") {
        given if given.is_empty() => vec![1, 2, 4],
        given => given.iter().map(|text| parse("threads", text)).collect::<Result<_>>()?,
    };
    if threads.contains(&0) {
        return Err(Error::Usage("--threads: at least one".to_owned()));
    }
    let options = KvOptions {
        rows,
        value_bytes: number(matches, "value-bytes")?.unwrap_or(120),
        batch: number(matches, "batch")?.unwrap_or(100).max(1),
        reads: number(matches, "reads")?.unwrap_or(rows / 5),
        threads,
        seed: number(matches, "seed")?.unwrap_or(1),
    };
    let folder = text(matches, "data").map_or_else(default_root, |folder| Path::new(folder).to_owned());
    for table in super::run(&options, &chosen(matches, engines)?, &folder)? {
        println!("{table}");
    }
    Ok(())
}

fn chosen(matches: &ArgMatches, engines: &[KvEngine]) -> Result<Vec<KvEngine>> {
    let names = texts(matches, "engine");
    if names.is_empty() {
        return Ok(engines.to_vec());
    }
    let find = |name: &String| {
        let known = engines.iter().map(|engine| engine.name).collect::<Vec<_>>().join(", ");
        let found = engines.iter().find(|engine| engine.name == name);
        found
            .copied()
            .ok_or_else(|| Error::Usage(format!("--engine: {name:?} is not in this build; known are {known}")))
    };
    names.iter().map(find).collect()
}
