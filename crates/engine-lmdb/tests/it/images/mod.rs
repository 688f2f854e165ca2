//! Images of the directory as a power loss may leave it.
//!
//! After every step of a random history the data file is copied. An image takes each 512-byte sector from any of the copies
//! since the last sync, and any length between: writes that were lost, torn and reordered. The other files are those of
//! the last checkpoint, which syncs each. The engine must open the image in the state of that checkpoint, and work on.
//!
//! In every second history the disk is full now and then ([`full_disk`]). What does not fit is done again once there is space; an
//! engine that a short write has stopped is opened again and gets the batches after its checkpoint, as in recovery. Images are
//! made of those moments as well ([`watched`]).

mod full_disk;
mod watched;

use std::fs;
use std::ops::AddAssign;
use std::path::Path;

use arbor_base::Random;
use arbor_engine::Engine;
use arbor_engine::model::ModelEngine;
use arbor_engine_contract::{History, Scratch};

use watched::{Image, Watched, open};

const SECTOR_BYTES: usize = 512;
const STEPS: u64 = 60;
const VALUE_BYTES_MAX: u64 = 3000;

/// Images that were checked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checked {
    pub images: u64,
    /// Those of a moment at which the disk was full.
    pub on_full_disk: u64,
}

impl AddAssign for Checked {
    fn add_assign(&mut self, more: Checked) {
        self.images += more.images;
        self.on_full_disk += more.on_full_disk;
    }
}

/// Plays one history and checks images of it.
pub(crate) fn run(seed: u64, images_max: u64) -> Checked {
    let scratch = Scratch::in_memory();
    let mut random = Random::new(!seed);
    let watched = Watched::new(scratch.path(), random.next_u64());
    let mut history = History::with_values(seed, VALUE_BYTES_MAX);
    let fills = random.one_in(2);
    let mut checked = Checked::default();
    for _ in 0..STEPS {
        if fills && random.one_in(4) {
            full_disk::leave_free(*random.pick(&[0, 4096, 20_000, 100_000]), random.one_in(4));
        }
        let before = history.model.crash();
        step(&mut history, &mut random, &watched);
        let after = history.model.crash();
        let on_full_disk = watched.take_images_on_full_disk().into_iter();
        let images = on_full_disk.map(|image| (image, true));
        let at_the_end = random.one_in(4).then(|| (watched.image(), false));
        for (image, is_full) in images.chain(at_the_end) {
            if checked.images == images_max {
                break;
            }
            // The step may have ended with a checkpoint, behind the image.
            let expected = if image.checkpoint == watched.checkpoint_file() { &after } else { &before };
            full_disk::without_limit(|| check(&history, expected, &mut random, scratch.path(), &image));
            checked += Checked { images: 1, on_full_disk: u64::from(is_full) };
        }
    }
    full_disk::free_all();
    checked
}

fn step(history: &mut History, random: &mut Random, watched: &Watched) {
    match random.below(20) {
        0..15 => history.apply(watched),
        15 => watched.sweep(),
        16 => history.bulk_load(watched),
        17 => {
            // The history continues from the checkpoint: pages written since then are garbage in the file.
            watched.crash();
            history.recovered(watched);
        }
        _ => history.checkpoint(watched),
    }
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

/// The image opens at its checkpoint and carries on, over one more checkpoint and crash.
fn check(history: &History, expected: &ModelEngine, random: &mut Random, from: &Path, image: &Image) {
    let scratch = Scratch::in_memory();
    let dir = scratch.path();
    fs::copy(from.join("LOCK"), dir.join("LOCK")).unwrap();
    fs::write(dir.join("data.mdb"), &image.data).unwrap();
    fs::write(dir.join("checkpoint.meta"), &image.checkpoint).unwrap();
    for name in ["lock.mdb", "checkpoint.new"] {
        // What is in these must not matter.
        let garbage: Vec<u8> = (0..random.below(9000)).map(|n| n as u8).collect();
        fs::write(dir.join(name), garbage).unwrap();
    }
    let engine = open(dir).unwrap();
    assert!(engine.durable() == engine.applied());
    assert_eq!(engine.applied(), expected.applied());
    history.assert_same(expected, &engine);
    let mut onward = History::with_values(random.next_u64(), VALUE_BYTES_MAX);
    onward.model = expected.crash();
    for _ in 0..3 {
        onward.apply(&engine);
    }
    engine.sweep().unwrap();
    onward.checkpoint(&engine);
    onward.apply(&engine);
    drop(engine);
    let engine = open(dir).unwrap();
    onward.check_recovered(&engine);
}
