//! `arbor inspect`: prints the shape of the fractal tree's trees as of the last checkpoint, and the trees of every engine.

use std::io::Write;
use std::path::{Path, PathBuf};

use arbor_engine::Engine;
use clap::{Arg, ArgMatches, Command};

use crate::directory::{self, Directory};
use crate::engine_copy::{engines_in, open};
use crate::engines::{USUAL, ftree_options};
use crate::failure::{BAD_OPTIONS, Failure};

pub(crate) fn command() -> Command {
    let dbpath = Arg::new("dbpath")
        .long("dbpath")
        .value_name("DIRECTORY")
        .default_value("/data/db")
        .help("Directory to inspect");
    Command::new("inspect")
        .about("Prints the trees of every engine in a directory, and the shape of the fractal tree, while no server runs on it")
        .arg(dbpath)
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let path = PathBuf::from(matches.get_one::<String>("dbpath").map_or("/data/db", String::as_str));
    let home = directory::engine_of(&path)
        .ok_or_else(|| Failure::new(BAD_OPTIONS, format!("{} is not a data directory of Arbor", path.display())))?;
    let _locked = Directory::open(&path, &home)?;
    let mut out = std::io::stdout().lock();
    for name in engines_in(&path) {
        // Its files are read as they are.
        if name == USUAL {
            writeln!(out, "engine {name}").map_err(Failure::cannot_start)?;
            arbor_ftree::check::inspect(&path.join(USUAL), &ftree_options(), &mut out)
                .map_err(Failure::cannot_start)?;
        } else {
            print_engine(&mut out, &name, &path.join(&name)).map_err(Failure::cannot_start)?;
        }
    }
    Ok(())
}

/// A line per tree. An engine that does not open is said so, and the others follow.
fn print_engine(out: &mut impl Write, name: &str, path: &Path) -> std::io::Result<()> {
    let engine = match open(name, path) {
        Ok(engine) => engine,
        Err(error) => return writeln!(out, "engine {name} does not open: {error}"),
    };
    let stats = engine.stats().unwrap_or_default();
    let (applied, disk) = (engine.applied(), stats.disk_bytes);
    writeln!(out, "engine {name} at position {applied}: {disk} bytes in files, {} of them free", stats.free_bytes)?;
    match engine.trees() {
        Ok(trees) => trees.into_iter().try_for_each(|tree| print_tree(out, &*engine, tree)),
        Err(error) => writeln!(out, "  its trees cannot be listed: {error}"),
    }
}

fn print_tree(out: &mut impl Write, engine: &dyn Engine, tree: arbor_base::TreeId) -> std::io::Result<()> {
    match engine.tree_stats(tree) {
        Ok(stats) => {
            let (rows, data, disk) = (stats.keys, stats.data_bytes, stats.disk_bytes);
            writeln!(out, "  tree {tree}: {rows} rows, {data} bytes of rows, {disk} bytes in files")
        }
        Err(error) => writeln!(out, "  tree {tree} cannot be read: {error}"),
    }
}
