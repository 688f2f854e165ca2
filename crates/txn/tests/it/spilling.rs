//! Write sets whose values are in a file: they read, roll back and commit as those in memory do.

use std::path::PathBuf;
use std::sync::Arc;

use crate::support::{Rig, rig, rows};
use arbor_base::{Position, Random};
use arbor_disk::{Disk, Fault, FaultyDisk};
use arbor_txn::testing::InMemory;
use arbor_txn::{Durability::Applied, Options, ScratchDirectory, View};

fn spilling(disk: &FaultyDisk, memory_max: usize) -> Rig {
    let scratch = Some(ScratchDirectory { disk: Arc::new(disk.clone()), directory: PathBuf::from("/scratch") });
    let options = Options { scratch, write_set_memory_max: memory_max, record_bytes_max: 2000, ..Options::default() };
    Rig::over(InMemory::new(options).unwrap())
}

/// Returns the notes of all records with their values.
fn shown_notes(rig: &Rig) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    rig.transactions.log().wait_durable(rig.transactions.log().appended()).unwrap();
    let mut history = rig.transactions.history(Position::ZERO);
    let mut all = Vec::new();
    while let Some((_, record)) = history.read().unwrap() {
        let note = |note| record.value_of(note).map(<[u8]>::to_vec);
        all.extend(record.notes.iter().map(|entry| (entry.about.clone(), note(entry))));
    }
    all
}

/// Runs the same random transactions with and without a file.
#[test]
fn a_file_changes_nothing() {
    let disk = FaultyDisk::new();
    for seed in 0..40 {
        let pair = [spilling(&disk, 1000), rig()];
        let trees = [0, 1].map(|at| pair[at].tree());
        for round in 0..4 {
            let mut txns = [0, 1].map(|at| pair[at].transactions.begin_open().unwrap());
            let mut random = Random::new(seed * 10 + round);
            let (mut views, mut savepoint) = (Vec::new(), None);
            for _ in 0..60 {
                let key = format!("{:02}", random.below(20));
                let length = random.below(400) as usize;
                let value = vec![b'a' + random.below(26) as u8; length];
                match random.below(12) {
                    0 => (0..2).for_each(|at| txns[at].delete(trees[at], key.clone())),
                    1 => (0..2).for_each(|at| txns[at].delete_range(trees[at], key.clone(), None)),
                    2 => savepoint = Some([0, 1].map(|at| txns[at].savepoint())),
                    3 => {
                        if let Some(points) = savepoint.take() {
                            (0..2).for_each(|at| txns[at].rollback_to(points[at]));
                        }
                    }
                    4 => views.push([0, 1].map(|at| (txns[at].view(), rows(&txns[at], trees[at])))),
                    5 => (0..2).for_each(|at| txns[at].note(trees[at], value.clone())),
                    6..8 => (0..2).for_each(|at| txns[at].put(trees[at], key.clone(), value.clone())),
                    _ => (0..2).for_each(|at| txns[at].put_noted(trees[at], key.clone(), value.clone(), value.clone())),
                }
                assert_eq!(txns[0].size_bytes(), txns[1].size_bytes());
                let got = [0, 1].map(|at| txns[at].get(trees[at], key.as_bytes()).unwrap().map(|row| row.into_owned()));
                assert_eq!(got[0], got[1], "seed {seed}");
            }
            assert_eq!(rows(&txns[0], trees[0]), rows(&txns[1], trees[1]), "seed {seed}");
            for view in &views {
                (0..2).for_each(|at| assert_eq!(rows(&view[at].0, trees[at]), view[at].1, "seed {seed}"));
            }
            for txn in txns {
                txn.commit(Applied).unwrap();
            }
            assert_eq!(pair[0].rows(trees[0]), pair[1].rows(trees[1]), "seed {seed}");
        }
        assert_eq!(shown_notes(&pair[0]), shown_notes(&pair[1]), "seed {seed}");
    }
    assert_eq!(disk.list("/scratch".as_ref()).unwrap(), Vec::<String>::new(), "no file has a name");
}

#[test]
fn a_full_disk_leaves_values_in_memory() {
    for nth in 0.. {
        let disk = FaultyDisk::new();
        let rig = spilling(&disk, 500);
        let tree = rig.tree();
        disk.fail_nth(nth, Fault::OutOfSpace);
        let mut txn = rig.begin();
        (0..10).for_each(|n| txn.put(tree, n.to_string(), vec![b'x'; 200]));
        if !disk.fault_triggered() {
            assert!(nth > 8, "{nth}");
            break;
        }
        assert_eq!(rows(&txn, tree).len(), 10);
        txn.commit(Applied).unwrap();
        assert_eq!(rig.rows(tree).len(), 10, "nth {nth}");
    }
}

#[test]
fn what_cannot_be_read_back_is_not_committed() {
    let disk = FaultyDisk::new();
    let rig = spilling(&disk, 500);
    let tree = rig.tree();
    let mut txn = rig.begin();
    (0..10).for_each(|n| txn.put(tree, n.to_string(), vec![b'x'; 200]));
    disk.stop_after(0);
    assert_eq!(txn.get(tree, b"0").unwrap().map(|row| row.len()), Some(200), "it is in memory");
    assert!(txn.get(tree, b"9").is_err());
    let view = txn.view();
    let mut cursor = view.cursor(tree).unwrap();
    assert!(cursor.first().unwrap() && cursor.last().is_err());
    drop(cursor);
    assert!(txn.commit(Applied).is_err());
    assert_eq!(rig.rows(tree), [""; 0]);
    rig.put(tree, "a", "1");
    assert_eq!(rig.rows(tree), ["a=1"]);
}
