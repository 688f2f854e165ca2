//! A power loss leaves the last checkpoint. `examples/lmdb_crash_images.rs` runs many more of these.

use std::fs;

use arbor_engine::{Engine, Error};
use arbor_engine_contract::Scratch;
use arbor_engine_lmdb::{LmdbEngine, LmdbOptions};

use crate::images;

#[test]
fn images_open_at_the_last_checkpoint() {
    let mut checked = images::Checked::default();
    (0..8).for_each(|seed| checked += images::run(seed, 10));
    assert!(checked.images >= 50 && checked.on_full_disk >= 5, "{checked:?}");
}

fn error_of(dir: &std::path::Path) -> Error {
    LmdbEngine::open(dir, LmdbOptions::default()).err().unwrap()
}

#[test]
fn an_unfinished_creation_begins_again() {
    let scratch = Scratch::new();
    for name in ["CREATING", "data.mdb", "checkpoint.meta"] {
        fs::write(scratch.path().join(name), "half").unwrap();
    }
    let engine = LmdbEngine::open(scratch.path(), LmdbOptions::default()).unwrap();
    assert_eq!(engine.applied().0, 0);
    assert!(!scratch.path().join("CREATING").exists());
}

#[test]
fn directories_that_cannot_be_opened() {
    let scratch = Scratch::new();
    let dir = scratch.path();
    let engine = LmdbEngine::open(dir, LmdbOptions::default()).unwrap();
    let text = error_of(dir).to_string();
    assert_eq!(text, format!("cannot open {}: in use by another engine or process", dir.display()));
    drop(engine);

    let saved = fs::read(dir.join("checkpoint.meta")).unwrap();
    let mut newer = saved.clone();
    newer[8] = 9;
    fs::write(dir.join("checkpoint.meta"), newer).unwrap();
    assert!(error_of(dir).to_string().contains("written by a newer format (9;"));
    let mut torn = saved.clone();
    torn[40] ^= 1;
    fs::write(dir.join("checkpoint.meta"), torn).unwrap();
    assert!(matches!(error_of(dir), Error::Corrupt { .. }));
    fs::remove_file(dir.join("checkpoint.meta")).unwrap();
    assert!(error_of(dir).to_string().contains("checkpoint.meta is missing"));
    fs::write(dir.join("checkpoint.meta"), saved).unwrap();
    drop(LmdbEngine::open(dir, LmdbOptions::default()).unwrap());
    fs::remove_file(dir.join("data.mdb")).unwrap();
    assert!(error_of(dir).to_string().contains("data.mdb is missing"));
    let file = dir.join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(error_of(&file), Error::CannotOpen { .. }));
}
