//! Images of the directory as a power loss may leave it.
//!
//! After every step of a random history the data file is copied. An image takes each 512-byte sector from any of the copies
//! since the last sync, and any length between: writes that were lost, torn and reordered. The other files are those of
//! the last checkpoint, which syncs each. The engine must open the image in the state of that checkpoint, and work on.

use std::fs;
use std::path::Path;

use arbor_base::Random;
use arbor_engine::Engine;
use arbor_engine::contract::{History, Scratch};
use arbor_engine_lmdb::{LmdbEngine, LmdbOptions};

const SECTOR_BYTES: usize = 512;
const STEPS: u64 = 60;
const VALUE_BYTES_MAX: u64 = 3000;

/// Plays one history and checks images of it; returns their number.
pub fn run(seed: u64, images_max: u64) -> u64 {
    let (scratch, image) = (Scratch::in_memory(), Scratch::in_memory());
    let mut random = Random::new(!seed);
    let mut history = History::with_values(seed, VALUE_BYTES_MAX);
    let mut engine = open(scratch.path());
    let checkpoint = || fs::read(scratch.path().join("checkpoint.meta")).unwrap();
    let mut copies = vec![read(scratch.path())];
    let mut images = 0;
    for _ in 0..STEPS {
        let before = checkpoint();
        step(&mut history, &mut random, &mut engine, scratch.path());
        if checkpoint() != before {
            // The step ended with a checkpoint, which synced the file as it is.
            copies.clear();
        }
        copies.push(read(scratch.path()));
        if random.one_in(4) && images < images_max {
            make_image(&mut random, &copies, scratch.path(), image.path());
            check(&history, &mut random, image.path());
            images += 1;
        }
    }
    images
}

fn open(dir: &Path) -> LmdbEngine {
    let options = LmdbOptions { map_bytes: 1 << 30, readers_max: 64, background: false, ..LmdbOptions::default() };
    LmdbEngine::open(dir, options).unwrap()
}

fn read(dir: &Path) -> Vec<u8> {
    fs::read(dir.join("data.mdb")).unwrap()
}

fn step(history: &mut History, random: &mut Random, engine: &mut LmdbEngine, dir: &Path) {
    match random.below(20) {
        0..15 => history.apply(&*engine),
        15 => engine.sweep().unwrap(),
        16 => history.bulk_load(&*engine),
        17 => {
            // The history continues from the checkpoint: pages written since then are garbage in the file.
            reopen(engine, dir);
            history.recovered(&*engine);
        }
        _ => history.checkpoint(&*engine),
    }
}

fn reopen(engine: &mut LmdbEngine, dir: &Path) {
    let elsewhere = Scratch::in_memory();
    *engine = open(elsewhere.path());
    *engine = open(dir);
}

fn make_image(random: &mut Random, copies: &[Vec<u8>], from: &Path, to: &Path) {
    for name in ["checkpoint.meta", "LOCK"] {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
    for name in ["lock.mdb", "checkpoint.new"] {
        // What is in these must not matter.
        let garbage: Vec<u8> = (0..random.below(9000)).map(|n| n as u8).collect();
        fs::write(to.join(name), garbage).unwrap();
    }
    fs::write(to.join("data.mdb"), mix(random, copies)).unwrap();
}

fn mix(random: &mut Random, copies: &[Vec<u8>]) -> Vec<u8> {
    let synced = copies[0].len();
    let longest = copies.iter().map(Vec::len).max().unwrap_or(synced);
    let length = match random.below(3) {
        0 => synced,
        1 => longest,
        _ => synced + random.below((longest - synced) as u64 + 1) as usize,
    };
    let mut image = copies[0].clone();
    image.resize(length, 0);
    // Nearly nothing, half or nearly everything reached the device.
    let odds = *random.pick(&[1, 50, 99]);
    for (number, sector) in image.chunks_mut(SECTOR_BYTES).enumerate() {
        let copy = random.pick(copies);
        let begin = (number * SECTOR_BYTES).min(copy.len());
        let end = (begin + sector.len()).min(copy.len());
        if random.below(100) < odds {
            sector[..end - begin].copy_from_slice(&copy[begin..end]);
        }
    }
    image
}

/// The image opens at the checkpoint and carries on, over one more checkpoint and crash.
fn check(history: &History, random: &mut Random, dir: &Path) {
    let engine = open(dir);
    assert!(engine.durable() == engine.applied());
    let model = history.check_recovered(&engine);
    let mut onward = History::with_values(random.next_u64(), VALUE_BYTES_MAX);
    onward.model = model;
    onward.model.checkpoint().unwrap();
    for _ in 0..3 {
        onward.apply(&engine);
    }
    engine.sweep().unwrap();
    onward.checkpoint(&engine);
    onward.apply(&engine);
    drop(engine);
    let engine = open(dir);
    onward.check_recovered(&engine);
}
