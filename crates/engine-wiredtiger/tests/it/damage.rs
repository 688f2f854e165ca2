//! Random damage of any file: whatever is read afterwards is right or an error, and nothing ends the process.

use std::fs;
use std::path::Path;

use arbor_base::{Position, Random, TreeId};
use arbor_engine::{Batch, Engine, Op, Result, TreeOptions};
use arbor_engine_wiredtiger::{WiredTigerEngine, WiredTigerOptions};

const TREES: u64 = 3;
const ROWS: u64 = 400;

fn key(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

fn value(tree: u64, n: u64) -> Vec<u8> {
    format!("{tree} {n} ").repeat(20).into_bytes()
}

fn open(dir: &Path) -> Result<WiredTigerEngine> {
    WiredTigerEngine::open(dir, WiredTigerOptions { cache_bytes: 64 << 20, ..WiredTigerOptions::default() })
}

fn prepare(dir: &Path) {
    let engine = open(dir).unwrap();
    for tree in 1..=TREES {
        let create = Op::CreateTree { tree: TreeId(tree), options: TreeOptions::default() };
        let puts = (0..ROWS).map(|n| Op::Put { tree: TreeId(tree), key: key(n), value: value(tree, n) });
        let ops = [create].into_iter().chain(puts).collect();
        engine.apply(&[Batch { position: Position(tree), ops }]).unwrap();
        engine.checkpoint().unwrap();
    }
}

fn copy(from: &Path, to: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        fs::copy(from.join(&name), to.join(&name)).unwrap();
        names.push(name);
    }
    names.sort();
    names
}

/// Flips bits, zeroes a piece, cuts the file, fills it with another's bytes, or removes it.
fn damage(random: &mut Random, dir: &Path, name: &str) -> String {
    let path = dir.join(name);
    let mut bytes = fs::read(&path).unwrap();
    let length = bytes.len().max(1);
    let (at, span) = (random.below(length as u64) as usize, 1 + random.below(600) as usize);
    let end = (at + span).min(bytes.len());
    let kind = random.below(5);
    match kind {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at.min(end)..end].fill(0),
        2 => bytes.truncate(at),
        3 => bytes[at.min(end)..end].iter_mut().for_each(|byte| *byte = random.next_u64() as u8),
        _ => {
            fs::remove_file(&path).unwrap();
            return format!("{name} removed");
        }
    }
    fs::write(&path, bytes).unwrap();
    format!("{name}: kind {kind} at {at}, {span} bytes")
}

/// Reads and writes what it can. Errors: the first that says anything.
fn use_it(dir: &Path) -> Result<()> {
    let engine = open(dir)?;
    let snapshot = engine.snapshot()?;
    // An older checkpoint can show less, never other rows.
    assert!(snapshot.position() <= Position(TREES));
    for tree in engine.trees()? {
        let mut cursor = snapshot.cursor(tree)?;
        let mut more = cursor.first()?;
        let mut rows = 0;
        while more {
            assert_eq!((cursor.key(), cursor.value()), (key(rows).as_slice(), value(tree.0, rows).as_slice()));
            rows += 1;
            more = cursor.next()?;
        }
        assert_eq!(rows, ROWS, "{tree:?}");
    }
    let next = engine.applied().next();
    let ops = engine.trees()?.into_iter().map(|tree| Op::Put { tree, key: key(ROWS), value: value(0, 0) }).collect();
    engine.apply(&[Batch { position: next, ops }])?;
    engine.checkpoint()?;
    drop(snapshot);
    Ok(())
}

#[test]
fn any_damage_is_answered_or_harmless() {
    let sound = tempfile::tempdir().unwrap();
    prepare(sound.path());
    let (mut answered, mut harmless) = (0, 0);
    let rounds = std::env::var("ARBOR_DAMAGES").map_or(40, |rounds| rounds.parse().unwrap());
    for seed in 0..rounds {
        let scratch = tempfile::tempdir().unwrap();
        let names = copy(sound.path(), scratch.path());
        let mut random = Random::new(seed);
        let name = random.pick(&names).clone();
        let what = damage(&mut random, scratch.path(), &name);
        println!("seed {seed}: {what}");
        match use_it(scratch.path()) {
            Ok(()) => harmless += 1,
            Err(error) => {
                println!("    {error}");
                answered += 1;
            }
        }
    }
    assert!(answered > 5 && harmless > 0, "{answered} answered, {harmless} harmless");
}
