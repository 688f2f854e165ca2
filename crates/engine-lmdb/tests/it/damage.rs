//! A damaged data file is refused or read with errors; it never ends the process. (A signal would end this test.)

use std::path::Path;

use arbor_base::TreeId;
use arbor_engine::{Batch, Engine, Error, Op, TreeOptions};
use arbor_engine_contract::Scratch;
use arbor_engine_lmdb::{LmdbEngine, LmdbOptions, verify};

fn options() -> LmdbOptions {
    LmdbOptions { map_bytes: 1 << 30, readers_max: 4096, background: false, ..LmdbOptions::default() }
}

/// An engine's files with branch pages, overflow pages and a list of free pages.
fn make(dir: &Path) -> Vec<u8> {
    let engine = LmdbEngine::open(dir, options()).unwrap();
    let apply = |ops: Vec<Op>| engine.apply(&[Batch { position: engine.applied().next(), ops }]).unwrap();
    let put = |n: u32, bytes: usize| Op::Put { tree: TreeId(1), key: n.to_be_bytes().to_vec(), value: vec![7; bytes] };
    apply(vec![Op::CreateTree { tree: TreeId(1), options: TreeOptions::default() }]);
    apply((0..4000).map(|n| put(n, if n % 100 == 0 { 9000 } else { 60 })).collect());
    engine.checkpoint().unwrap();
    apply(vec![Op::DeleteRange { tree: TreeId(1), from: vec![0, 0, 4], to: Some(vec![0, 0, 12]) }]);
    engine.checkpoint().unwrap();
    drop(engine);
    std::fs::read(dir.join("data.mdb")).unwrap()
}

/// Opens, reads everything, writes a little; errors are fine.
fn use_it(dir: &Path) -> Result<(), Error> {
    let engine = LmdbEngine::open(dir, options())?;
    let snapshot = engine.snapshot()?;
    let mut cursor = snapshot.cursor(TreeId(1))?;
    let mut more = cursor.first()?;
    for _ in 0..10_000 {
        if !more {
            break;
        }
        std::hint::black_box(cursor.value().iter().fold(0u8, |sum, byte| sum ^ byte));
        more = cursor.next()?;
    }
    for n in 0..4000u32 {
        let ops = vec![Op::Delete { tree: TreeId(1), key: n.to_be_bytes().to_vec() }];
        if n % 50 == 0 {
            engine.apply(&[Batch { position: engine.applied().next(), ops }])?;
        }
    }
    engine.checkpoint().map(drop)
}

#[test]
fn what_is_whole_is_verified() {
    let scratch = Scratch::in_memory();
    make(scratch.path());
    assert!(verify(scratch.path()).unwrap() > 20);
    use_it(scratch.path()).unwrap();
    verify(scratch.path()).unwrap();
}

#[test]
fn damaged_pages_never_end_the_process() {
    let scratch = Scratch::in_memory();
    let good = make(scratch.path());
    let meta = std::fs::read(scratch.path().join("checkpoint.meta")).unwrap();
    let (pages, mut random, mut refused) = (good.len() / 4096, 0x9e37_79b9_7f4a_7c15u64, 0);
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as usize
    };
    for round in 0..600 {
        let mut bytes = good.clone();
        let page = (2 + next() % (pages - 2)) * 4096;
        match round % 6 {
            0 => bytes[page + next() % 16] ^= 1 << (next() % 8),
            1 => bytes[page + 16 + next() % 64] ^= 1 << (next() % 8),
            2 => bytes[page + next() % 4096] = next() as u8,
            3 => bytes[page..page + 4096].fill(0),
            4 => bytes[page..page + 4096].iter_mut().for_each(|byte| *byte = next() as u8),
            _ => bytes.truncate(page + next() % 4096),
        }
        std::fs::write(scratch.path().join("data.mdb"), &bytes).unwrap();
        std::fs::write(scratch.path().join("checkpoint.meta"), &meta).unwrap();
        let found = verify(scratch.path()).is_err();
        let used = use_it(scratch.path());
        assert!(!found || used.is_err(), "round {round}: {used:?}");
        refused += usize::from(found);
    }
    assert!(refused > 200, "only {refused} damages were found");
}
