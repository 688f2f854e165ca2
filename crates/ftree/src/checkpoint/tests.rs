//! States through the disk and back, without a forest around them.

use std::path::PathBuf;
use std::sync::Arc;

use arbor_base::{Position, TreeId};
use arbor_disk::{Fault, FaultyDisk};

use super::*;
use crate::check::verify::verify_trees;
use crate::io::DATA_FILE;
use crate::space::DATA_BEGIN;
use crate::tree::{Child, Inner};
use crate::{Error, Seq, TreeSettings, bulk};

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn dir() -> PathBuf {
    PathBuf::from("/data")
}

fn options(disk: &FaultyDisk) -> Options {
    Options::new(Arc::new(disk.clone()), 4 << 20)
}

fn open_on(disk: &FaultyDisk) -> Result<Opened> {
    open(&options(disk), &dir())
}

fn refusal(disk: &FaultyDisk) -> String {
    open_on(disk).map(|_| ()).expect_err("it does not open").to_string()
}

fn rows(count: u32, salt: u8) -> Rows {
    let value = |n: u32| vec![n as u8 ^ salt; if n % 50 == 7 { 900 } else { 20 }];
    (0..count).map(|n| (format!("key{n:06}").into_bytes(), value(n))).collect()
}

fn settings() -> TreeSettings {
    TreeSettings { block_bytes: 256, leaf_bytes: 1000, fanout: 4, blob_bytes: 800, ..TreeSettings::default() }
}

fn tree_of(io: &Io, id: u64, rows: &Rows) -> CapturedTree {
    let settings = settings();
    let loaded = bulk::load(io, TreeId(id), &settings, &mut rows.iter().cloned()).unwrap();
    assert_eq!(loaded.rows, rows.len() as u64);
    CapturedTree {
        id: TreeId(id),
        created: Seq(id),
        settings,
        root: loaded.root,
        rows: loaded.rows,
        bytes: loaded.bytes,
    }
}

fn checkpoint(opened: &Opened, position: u64, trees: Vec<CapturedTree>) -> Result<Seq> {
    let captured = Captured { applied: Seq::of(Position(position)), trees };
    opened.recovered.checkpoints.run(|| Ok(Some(captured)))
}

/// Collects the rows of a tree without runs.
fn rows_of(io: &Io, node: &Inner, into: &mut Rows) {
    for slot in &node.slots {
        match &slot.child {
            Child::Empty => {}
            Child::Inner(inner) => rows_of(io, inner, into),
            Child::Leaf(leaf) => {
                let body = leaf.body(io).unwrap();
                for block in (0..body.block_count()).map(|at| body.block(at, io).unwrap()) {
                    let value = |at| match block.kind(at) {
                        crate::Kind::PutBlob => crate::blob::load(io, block.value(at)).unwrap(),
                        _ => block.value(at).to_vec(),
                    };
                    into.extend((0..block.len()).map(|at| (block.key(at).to_vec(), value(at))));
                }
            }
        }
    }
}

fn check(opened: &Opened, position: u64, expect: &[(u64, &Rows)]) {
    assert_eq!(opened.recovered.applied, Seq::of(Position(position)));
    assert_eq!(opened.recovered.checkpoints.durable(), opened.recovered.applied);
    assert_eq!(opened.recovered.trees.len(), expect.len());
    for (tree, (id, rows)) in opened.recovered.trees.iter().zip(expect) {
        let mut found = Rows::new();
        rows_of(&opened.io, &tree.root, &mut found);
        assert!((tree.id.0, tree.created.0, tree.rows) == (*id, *id, rows.len() as u64) && tree.settings == settings());
        assert!(found == **rows, "tree {id}: {} rows instead of {}", found.len(), rows.len());
    }
    let report = verify_trees(&opened.io, &opened.recovered.trees);
    assert_eq!(report.findings, []);
    let catalog = if expect.is_empty() { 0 } else { 2 * 4096 };
    assert_eq!(report.bytes + catalog, opened.io.space.used_bytes(), "all that is in use is reached, and nothing else");
}

#[test]
fn a_state_comes_back() {
    let disk = FaultyDisk::new();
    let (small, large) = (rows(3, 0), rows(2000, 1));
    let opened = open_on(&disk).unwrap();
    check(&opened, 0, &[]);
    let trees =
        vec![tree_of(&opened.io, 1, &small), tree_of(&opened.io, 5, &Rows::new()), tree_of(&opened.io, 7, &large)];
    assert!(trees[2].root.level > 3);
    assert_eq!(checkpoint(&opened, 4, trees).unwrap(), Seq::of(Position(4)));
    assert_eq!(opened.recovered.checkpoints.durable(), Seq::of(Position(4)));
    drop(opened);
    for disk in [disk.kill_process(), disk.crash(1), disk.crash(2)] {
        check(&open_on(&disk).unwrap(), 4, &[(1, &small), (5, &Rows::new()), (7, &large)]);
    }
}

#[test]
fn nodes_are_written_once_and_old_states_go() {
    let disk = FaultyDisk::new();
    let opened = open_on(&disk).unwrap();
    let large = rows(2000, 1);
    let tree = tree_of(&opened.io, 7, &large);
    let root = tree.root.clone();
    let again = || CapturedTree {
        id: TreeId(7),
        created: Seq(7),
        settings: settings(),
        root: root.clone(),
        rows: 2000,
        bytes: 1,
    };
    checkpoint(&opened, 1, vec![tree]).unwrap();
    let (used, writes) = (opened.io.space.used_bytes(), disk.counts().writes);
    for position in 2..8 {
        checkpoint(&opened, position, vec![again()]).unwrap();
        assert_eq!(opened.io.space.used_bytes(), used);
    }
    // The catalogue and the superblock, twice each.
    assert_eq!(disk.counts().writes - writes, 4 * 6);
    drop(root);
    let small = rows(5, 0);
    let trees = vec![tree_of(&opened.io, 8, &small)];
    checkpoint(&opened, 8, trees).unwrap();
    assert!(opened.io.space.used_bytes() < 10 * 4096, "{} bytes used", opened.io.space.used_bytes());
    drop(opened);
    let opened = open_on(&disk).unwrap();
    check(&opened, 8, &[(8, &small)]);
    checkpoint(&opened, 9, Vec::new()).unwrap();
    // The recovered state still holds its roots.
    drop(opened);
    check(&open_on(&disk).unwrap(), 9, &[]);
}

#[test]
fn the_barrier_and_the_sync_come_before_the_superblock() {
    let disk = FaultyDisk::new();
    let opened = open_on(&disk).unwrap();
    let small = rows(3, 0);
    checkpoint(&opened, 1, vec![tree_of(&opened.io, 1, &small)]).unwrap();
    let used = opened.io.space.used_bytes();
    let refuse = |position: Position| match position.0 {
        0..=2 => Ok(()),
        _ => Err(Error::Other(format!("the log ends before {position}"))),
    };
    opened.recovered.checkpoints.set_barrier(Arc::new(refuse));
    let error = checkpoint(&opened, 3, vec![tree_of(&opened.io, 1, &rows(4, 9))]).unwrap_err();
    assert_eq!(error.to_string(), "the log ends before 3");
    assert_eq!(opened.recovered.checkpoints.durable(), Seq::of(Position(1)));
    assert_eq!(opened.io.space.used_bytes(), used, "what was written for the refused state is free again");
    let tree = tree_of(&opened.io, 1, &rows(4, 9));
    let before = disk.kill_process();
    // Node, catalogue and its copy, then the sync.
    disk.fail_nth(3, Fault::Io);
    assert!(matches!(checkpoint(&opened, 2, vec![tree]), Err(Error::Poisoned { .. })));
    assert!(matches!(checkpoint(&opened, 2, Vec::new()), Err(Error::Poisoned { .. })));
    drop(opened);
    for disk in [disk, before] {
        check(&open_on(&disk).unwrap(), 1, &[(1, &small)]);
    }
}

#[test]
fn no_checkpoint_follows_one_that_panicked() {
    let disk = FaultyDisk::new();
    let opened = open_on(&disk).unwrap();
    let checkpoints = &opened.recovered.checkpoints;
    let panics = || checkpoints.run(|| panic!("as the test wants it"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    let error = checkpoints.run(|| Ok(None)).unwrap_err();
    assert!(matches!(&error, Error::Poisoned { context } if context == "a checkpoint panicked"), "{error}");
}

#[test]
fn a_superblock_in_doubt_keeps_both_states() {
    let disk = FaultyDisk::new();
    let opened = open_on(&disk).unwrap();
    let (first, second, third) = (rows(3, 0), rows(40, 1), rows(50, 2));
    checkpoint(&opened, 1, vec![tree_of(&opened.io, 1, &first)]).unwrap();
    let tree = tree_of(&opened.io, 1, &second);
    let nodes = count_nodes(&tree.root);
    // Each level's nodes in one write, the catalogue twice, the sync, a superblock, and then its twin.
    disk.fail_nth(nodes + 4, Fault::ShortWrite);
    assert!(matches!(checkpoint(&opened, 2, vec![tree]), Err(Error::OutOfSpace { .. })));
    // The space of neither state is used again.
    let tree = tree_of(&opened.io, 1, &third);
    for seed in 0..40 {
        let reopened = open_on(&disk.crash(seed)).unwrap();
        match reopened.recovered.applied.position().0 {
            1 => check(&reopened, 1, &[(1, &first)]),
            _ => check(&reopened, 2, &[(1, &second)]),
        }
    }
    checkpoint(&opened, 3, vec![tree]).unwrap();
    drop(opened);
    check(&open_on(&disk).unwrap(), 3, &[(1, &third)]);
}

/// Levels, as they are written with one call each here.
fn count_nodes(root: &Inner) -> u64 {
    u64::from(root.level)
}

/// The superblock of a process that was killed may be in the page cache alone.
#[test]
fn what_is_found_is_durable() {
    let disk = FaultyDisk::new();
    let opened = open_on(&disk).unwrap();
    let (first, second) = (rows(3, 0), rows(5, 1));
    checkpoint(&opened, 1, vec![tree_of(&opened.io, 1, &first)]).unwrap();
    let tree = tree_of(&opened.io, 1, &second);
    let levels = u64::from(tree.root.level);
    // Nodes, the catalogue twice, a sync, the superblock twice: the process dies before the last sync.
    disk.stop_after(levels + 2 + 1 + 2);
    assert!(checkpoint(&opened, 2, vec![tree]).is_err());
    let killed = disk.kill_process();
    check(&open_on(&killed).unwrap(), 2, &[(1, &second)]);
    for seed in 0..20 {
        check(&open_on(&killed.crash(seed)).unwrap(), 2, &[(1, &second)]);
    }
}

#[test]
fn files_that_are_not_opened() {
    let disk = FaultyDisk::new();
    let opened = open_on(&disk).unwrap();
    assert!(refusal(&disk).starts_with("cannot open /data: in use by another process"));
    let large = rows(2000, 1);
    checkpoint(&opened, 1, vec![tree_of(&opened.io, 1, &large)]).unwrap();
    drop(opened);
    let path = dir().join(DATA_FILE);
    let good = disk.contents(&path).unwrap();
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        disk.plant(&path, &bytes);
        let text = refusal(&disk);
        assert!(disk.contents(&path).unwrap() == bytes, "a refused file stays as it is");
        text
    };
    let text = refused(&|bytes| bytes[..DATA_BEGIN as usize].fill(7));
    assert!(
        text.starts_with("cannot open /data/ftree.data: no superblock of a fractal tree (at 0, 1048576,"),
        "{text}"
    );
    let text = refused(&|bytes| superblock::SLOT_OFFSETS.iter().for_each(|at| bytes[*at as usize + 30] ^= 1));
    assert!(text.starts_with("cannot open /data/ftree.data: all superblocks are damaged"), "{text}");
    let text = refused(&|bytes| bytes.clear());
    assert!(text.starts_with("cannot open /data/ftree.data: no superblock"), "{text}");
    let text = refused(&|bytes| bytes.truncate(DATA_BEGIN as usize + 8192));
    assert!(text.starts_with("cannot open /data/ftree.data: truncated: it ends at 2105344"), "{text}");
    disk.plant(&path, &good);
    check(&open_on(&disk).unwrap(), 1, &[(1, &large)]);
}

/// Flips bytes of each node: the forest opens, says so, and keeps what the node named.
#[test]
fn a_damaged_node_is_noticed_and_its_space_kept() {
    let disk = FaultyDisk::new();
    let opened = open_on(&disk).unwrap();
    let (large, small) = (rows(300, 1), rows(3, 0));
    let tree = tree_of(&opened.io, 1, &large);
    let root = tree.root.clone();
    checkpoint(&opened, 1, vec![tree, tree_of(&opened.io, 2, &small)]).unwrap();
    let mut places = Vec::new();
    node_places(&root, &mut places);
    drop((opened, root));
    let path = dir().join(DATA_FILE);
    for (offset, bytes) in places {
        for at in [0, 9, bytes / 2, bytes - 1] {
            let image = disk.kill_process();
            image.damage(&path, offset + at).unwrap();
            let opened = open_on(&image).unwrap();
            let damage: Vec<String> = opened.recovered.damage.iter().map(Error::to_string).collect();
            let expect = format!("corrupt data in {} at {offset}: an inner node of tree 1 is damaged", path.display());
            assert!(damage.len() == 1 && damage[0].starts_with(&expect), "{damage:?}");
            assert_eq!(opened.io.space.free_bytes(), 0);
            let mut found = Rows::new();
            rows_of(&opened.io, &opened.recovered.trees[1].root, &mut found);
            assert!(found == small);
            let report = verify_trees(&opened.io, &opened.recovered.trees);
            assert!(
                report.findings.iter().any(|finding| finding.place.ends_with(&format!("at {offset}"))),
                "{report:?}"
            );
        }
    }
}

fn node_places(node: &Inner, places: &mut Vec<(u64, u64)>) {
    let pointer = node.disk.get().unwrap().pointer;
    places.push((pointer.offset(), pointer.bytes.into()));
    for slot in &node.slots {
        if let Child::Inner(inner) = &slot.child {
            node_places(inner, places);
        }
    }
}

#[test]
fn a_new_directory_survives_a_crash_at_any_call() {
    for fault in [Fault::Io, Fault::OutOfSpace, Fault::ShortWrite] {
        arbor_disk::testkit::fail_at_each(fault, |disk| {
            let opened = open_on(disk);
            drop(opened);
            for image in [disk.crash(1), disk.crash(2), disk.crash(3), disk.kill_process()] {
                check(&open_on(&image).unwrap(), 0, &[]);
            }
        });
    }
}

#[test]
fn many_trees_open_fast() {
    let disk = FaultyDisk::new();
    let opened = open_on(&disk).unwrap();
    let one = rows(1, 0);
    let trees = (1..=2000).map(|id| tree_of(&opened.io, id, &one)).collect();
    checkpoint(&opened, 1, trees).unwrap();
    drop(opened);
    let reads = disk.counts().reads;
    let opened = open_on(&disk).unwrap();
    assert_eq!(opened.recovered.trees.len(), 2000);
    assert!(disk.counts().reads - reads < 40, "neighbouring nodes are read together");
}
