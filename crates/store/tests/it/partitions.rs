//! Partitioned collections: the same documents in the same order as in one tree, drops that take whole trees, and what a crash leaves.

use std::sync::Arc;

use arbor_base::Random;
use arbor_bson::{DocBuf, Value, ValueRef};
use arbor_store::{
    BuildSettings, Collection, Error, IndexCursor, IndexSelection, Namespace, OpenTransaction, PartitionsDropped,
    RecordCursor, id_key,
};
use arbor_txn::trees_of;

use crate::support::{Rig, array, key, rig, spec};

fn partitioned() -> Rig {
    let rig = rig();
    rig.store.create_collection(&rig.ns, &DocBuf::new().with("partitioned", true)).unwrap();
    rig
}

fn row(id: i32, n: i32) -> DocBuf {
    DocBuf::new().with("_id", id).with("n", n).with("pad", "x".repeat(id.unsigned_abs() as usize % 50).as_str())
}

/// The store after power was lost, with all that was committed.
fn crashed(rig: &Rig, seed: u64) -> Rig {
    let log = rig.store.transactions().log();
    log.wait_durable(log.appended()).unwrap();
    rig.crash(seed)
}

fn add(rig: &Rig, max: Option<i32>) -> Result<(), Error> {
    rig.store.add_partition(&rig.ns, max.map(ValueRef::Int32), None)
}

fn trees(rig: &Rig) -> usize {
    trees_of(&**rig.store.transactions().engine()).unwrap().len()
}

/// `id: maximum (documents)` of each partition.
fn partitions(rig: &Rig) -> Vec<String> {
    let view = rig.store.transactions().read().unwrap();
    let described = |own: &Arc<arbor_store::Partition>| {
        let max = own.max.as_ref().map_or("open".to_owned(), |max| crate::support::shown(max.doc.as_doc()));
        format!("{}: {max} ({})", own.id, arbor_store::counted(&view, own.tree).unwrap().0)
    };
    rig.collection().partitions.iter().map(described).collect()
}

fn refused(result: Result<(), Error>, part: &str) {
    match result {
        Err(Error::IllegalOperation(text)) => assert!(text.contains(part), "{text}"),
        other => panic!("{part}: {other:?}"),
    }
}

#[test]
fn a_range_ends_where_new_max_says_or_at_the_last_document() {
    let rig = partitioned();
    refused(add(&rig, None), "empty");
    for id in [3, 1, 7] {
        rig.insert(&row(id, 0)).unwrap();
    }
    refused(add(&rig, Some(6)), "greatest _id");
    add(&rig, None).unwrap();
    refused(add(&rig, None), "empty");
    refused(add(&rig, Some(7)), "partition before");
    add(&rig, Some(20)).unwrap();
    for id in [5, 8, 20, 21] {
        rig.insert(&row(id, 0)).unwrap();
    }
    assert_eq!(partitions(&rig), ["0: { _id: 7 } (4)", "1: { _id: 20 } (2)", "2: open (1)"]);
    assert!(matches!(rig.insert(&row(20, 1)), Err(Error::DuplicateKey { .. })));
    rig.check_valid();
    let all: Vec<String> = [1, 3, 5, 7, 8, 20, 21].map(|id| crate::support::shown(row(id, 0).as_doc())).into();
    assert_eq!(rig.docs(), all);
}

#[test]
fn a_drop_takes_the_trees_and_their_documents_also_after_a_crash() {
    let rig = partitioned();
    for part in 0..4 {
        for id in 0..10 {
            rig.insert(&row(part * 10 + id, 0)).unwrap();
        }
        add(&rig, None).unwrap();
    }
    let before = trees(&rig);
    let drop = |which| rig.store.drop_partitions(&rig.ns, which);
    assert_eq!(drop(PartitionsDropped::Id(1)).unwrap(), 1);
    assert_eq!(partitions(&rig), ["0: { _id: 9 } (10)", "2: { _id: 29 } (10)", "3: { _id: 39 } (10)", "4: open (0)"]);
    assert_eq!(trees(&rig), before - 1);
    refused(drop(PartitionsDropped::Id(1)).map(|_| ()), "no partition 1");
    // its range is the next partition's
    rig.insert(&row(15, 0)).unwrap();
    assert_eq!(drop(PartitionsDropped::Through(ValueRef::Int32(8))).unwrap(), 0);
    assert_eq!(drop(PartitionsDropped::Through(ValueRef::Int32(29))).unwrap(), 2);
    assert_eq!(partitions(&rig), ["3: { _id: 39 } (10)", "4: open (0)"]);
    // the last one leaves its range to the one before
    assert_eq!(drop(PartitionsDropped::Id(4)).unwrap(), 1);
    refused(drop(PartitionsDropped::Id(3)).map(|_| ()), "the only one");
    rig.insert(&row(100, 0)).unwrap();
    rig.insert(&row(-1, 0)).unwrap();
    assert_eq!(partitions(&rig), ["3: open (12)"]);
    rig.check_valid();
    let (docs, left) = (rig.docs(), trees(&rig));
    for seed in 0..5 {
        let again = crashed(&rig, seed);
        assert_eq!((again.docs(), trees(&again)), (docs.clone(), left));
        assert_eq!(partitions(&again), ["3: open (12)"]);
        again.check_valid();
    }
    assert_eq!(trees(&rig), before - 4);
    rig.store.drop_collection(&rig.ns).unwrap();
    assert_eq!(trees(&rig), left - 1);
}

/// The entries of the index on `n`, forward, and backward from a key.
fn entry_walks(rig: &Rig, from: i32) -> Vec<Vec<Vec<u8>>> {
    let view = rig.store.transactions().read().unwrap();
    let collection = rig.collection();
    let mut cursor = IndexCursor::new(&view, collection.index("n_1").unwrap()).unwrap();
    let mut all = vec![Vec::new(), Vec::new()];
    let mut valid = cursor.first().unwrap();
    while valid {
        all[0].push(cursor.position().to_vec());
        valid = cursor.next().unwrap();
    }
    let target = id_key(ValueRef::Int32(from % 20));
    valid = cursor.seek(&target).unwrap();
    while valid {
        all[1].push(cursor.position().to_vec());
        valid = cursor.prev().unwrap();
    }
    all
}

/// The positions of a walk, forward and backward from a key, and those of a whole walk.
fn walks(rig: &Rig, collection: &Collection, from: i32) -> Vec<Vec<Vec<u8>>> {
    let view = rig.store.transactions().read().unwrap();
    let mut cursor = RecordCursor::new(&view, collection).unwrap();
    let target = id_key(ValueRef::Int32(from));
    let mut all = Vec::new();
    for way in 0..4 {
        let mut valid = match way {
            0 => cursor.seek(&target),
            1 => cursor.seek_before(&target),
            2 => cursor.first(),
            _ => cursor.last(),
        }
        .unwrap();
        let mut walk = Vec::new();
        while valid {
            walk.push(cursor.id_key().to_vec());
            valid = if way % 2 == 0 { cursor.next() } else { cursor.prev() }.unwrap();
        }
        assert!(!cursor.next().unwrap() && !cursor.prev().unwrap(), "a cursor that ran off an end has no position");
        // turning round at each step
        if cursor.seek(&target).unwrap() {
            let at = cursor.id_key().to_vec();
            let back = cursor.prev().unwrap().then(|| cursor.id_key().to_vec());
            all.push(back.iter().cloned().collect());
            if back.is_some() {
                assert!(cursor.next().unwrap());
                assert_eq!(cursor.id_key(), at);
            }
        }
        all.push(walk);
    }
    all
}

#[test]
fn random_writes_and_walks_are_those_of_one_tree() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let (cut, whole) = (partitioned(), rig());
        whole.store.create_collection(&whole.ns, &DocBuf::new()).unwrap();
        if seed % 3 == 0 {
            for rig in [&cut, &whole] {
                rig.create_index(spec(&[("n", 1)], &[])).unwrap();
            }
        }
        let mut known = std::collections::BTreeMap::<i32, i32>::new();
        for step in 0..400 {
            let id = (random.next_u64() % 200) as i32;
            match (random.next_u64() % 20, known.get(&id).copied()) {
                (0, _) => {
                    // refused where the last partition is empty or has more
                    let max = random.one_in(2).then_some(id);
                    let _may_be_refused = add(&cut, max);
                }
                (1, _) if step % 3 == 0 && cut.collection().partitions.len() > 1 => {
                    let all = cut.collection();
                    let at = random.next_u64() as usize % all.partitions.len();
                    let own = all.partitions[at].clone();
                    cut.store.drop_partitions(&cut.ns, PartitionsDropped::Id(own.id)).unwrap();
                    let gone: Vec<i32> = known
                        .keys()
                        .copied()
                        .filter(|id| all.tree_of(&id_key(ValueRef::Int32(*id))) == own.tree)
                        .collect();
                    for id in gone {
                        whole.delete(&row(id, known.remove(&id).unwrap())).unwrap();
                    }
                }
                (2..6, Some(n)) => {
                    for rig in [&cut, &whole] {
                        rig.delete(&row(id, n)).unwrap();
                    }
                    known.remove(&id);
                }
                (_, Some(n)) => {
                    for rig in [&cut, &whole] {
                        rig.update(&row(id, n), &row(id, n + 1)).unwrap();
                    }
                    known.insert(id, n + 1);
                }
                (_, None) => {
                    for rig in [&cut, &whole] {
                        rig.insert(&row(id, 0)).unwrap();
                    }
                    known.insert(id, 0);
                }
            }
            if step == 200 && seed % 3 == 1 {
                for rig in [&cut, &whole] {
                    rig.create_index(spec(&[("n", 1)], &[])).unwrap();
                }
            }
            if step % 20 == 0 && cut.collection().index("n_1").is_some() {
                let from = random.below(25) as i32;
                assert_eq!(entry_walks(&cut, from), entry_walks(&whole, from), "seed {seed}");
            }
            if step % 20 == 0 {
                let from = (random.next_u64() % 210) as i32;
                assert_eq!(
                    walks(&cut, &cut.collection(), from),
                    walks(&whole, &whole.collection(), from),
                    "seed {seed}"
                );
            }
        }
        assert_eq!(cut.docs(), whole.docs(), "seed {seed}");
        let (collection, view) = cut.store.snapshot(&cut.ns).unwrap().unwrap();
        let bytes = known.iter().map(|(id, n)| row(*id, *n).as_bytes().len() as u64).sum::<u64>();
        assert_eq!(arbor_store::data_size(&view, &collection).unwrap(), bytes);
        cut.check_valid();
        let again = crashed(&cut, seed);
        assert_eq!((again.docs(), partitions(&again)), (whole.docs(), partitions(&cut)));
        again.check_valid();
    }
}

#[test]
fn a_record_in_another_range_is_found_by_validation() {
    let rig = partitioned();
    rig.insert(&row(1, 0)).unwrap();
    add(&rig, Some(10)).unwrap();
    let last = rig.collection().tree;
    let doc = row(5, 0);
    rig.write(|txn, _| {
        txn.put(last, id_key(ValueRef::Int32(5)), doc.as_bytes());
        Ok(())
    })
    .unwrap();
    let report = rig.store.validate(&rig.ns, false).unwrap();
    assert!(report.problems.iter().any(|problem| problem.contains("partition of another range")), "{report:?}");
}

#[test]
fn indexes_have_a_tree_for_each_partition_which_goes_with_it() {
    let rig = partitioned();
    let unique = || spec(&[("u", 1)], &[("unique", Value::Bool(true))]);
    refused(rig.create_index(unique()), "unique indexes");
    for part in 0..3 {
        for id in 0..10 {
            rig.insert(&row(part * 10 + id, id)).unwrap();
        }
        add(&rig, None).unwrap();
    }
    let before = trees(&rig);
    rig.create_index(spec(&[("n", 1)], &[])).unwrap();
    assert_eq!(trees(&rig), before + 5, "one that names the index, and those of four partitions");
    let list = array(&[Value::Int32(1), Value::Int32(2)]);
    rig.insert(&DocBuf::new().with("_id", 50).with("n", &list)).unwrap();
    add(&rig, None).unwrap();
    assert_eq!((trees(&rig), rig.entries("n_1").len()), (before + 7, 32));
    rig.store.drop_partitions(&rig.ns, PartitionsDropped::Id(1)).unwrap();
    assert_eq!((trees(&rig), rig.entries("n_1").len()), (before + 5, 22));
    rig.check_valid();
    let again = crashed(&rig, 1);
    again.check_valid();
    assert_eq!((trees(&again), again.entries("n_1")), (before + 5, rig.entries("n_1")));
    let multikey = |rig: &Rig| rig.collection().index("n_1").unwrap().is_multikey();
    assert!(multikey(&rig) && multikey(&again), "there was an array");
    rig.store.rebuild_indexes(&rig.ns, BuildSettings::default()).unwrap();
    assert_eq!(trees(&rig), before + 5);
    rig.check_valid();
    rig.store.drop_indexes(&rig.ns, &IndexSelection::All).unwrap();
    assert_eq!(trees(&rig), before);
    rig.create_index(spec(&[("n", -1)], &[])).unwrap();
    rig.store.drop_collection(&rig.ns).unwrap();
    assert_eq!(trees(&rig), 2, "the ledger and the catalogue");
}

#[test]
fn a_plain_collection_becomes_a_partitioned_one_with_its_indexes_and_not_with_an_order() {
    let rig = rig();
    for id in 0..5 {
        rig.insert(&row(id, 0)).unwrap();
    }
    refused(add(&rig, None), "not partitioned");
    refused(rig.store.drop_partitions(&rig.ns, PartitionsDropped::Id(0)).map(|_| ()), "not partitioned");
    let unique = [("unique", Value::Bool(true))];
    rig.create_index(spec(&[("pad", 1)], &unique)).unwrap();
    refused(rig.store.convert_to_partitioned(&rig.ns), "unique index pad_1");
    rig.store.drop_indexes(&rig.ns, &IndexSelection::Key(key(&[("pad", 1)]))).unwrap();
    rig.create_index(spec(&[("n", 1)], &[])).unwrap();
    rig.insert(&DocBuf::new().with("_id", 9).with("n", &array(&[Value::Int32(7), Value::Int32(8)]))).unwrap();
    let (docs, entries, before) = (rig.docs(), rig.entries("n_1"), trees(&rig));
    rig.store.convert_to_partitioned(&rig.ns).unwrap();
    assert_eq!((rig.docs(), rig.entries("n_1")), (docs, entries), "no document has moved");
    assert_eq!(trees(&rig), before + 1, "one that names the index");
    assert!(crashed(&rig, 1).collection().index("n_1").unwrap().is_multikey());
    refused(rig.store.convert_to_partitioned(&rig.ns), "already");
    refused(rig.create_index(spec(&[("u", 1)], &unique)), "unique indexes");
    refused(rig.store.convert_to_capped(&rig.ns, 1 << 20), "capped");
    add(&rig, None).unwrap();
    let other = Namespace::new("test", "other").unwrap();
    rig.store.rename(&rig.ns, &other, false).unwrap();
    assert_eq!(rig.store.collection(&other).unwrap().partitions.len(), 2);
    let capped = DocBuf::new().with("capped", true).with("size", 4096i64);
    rig.store.create_collection(&rig.ns, &capped).unwrap();
    refused(rig.store.convert_to_partitioned(&rig.ns), "capped");
}

#[test]
fn an_open_transaction_fails_when_partitions_changed_under_it_and_reads_what_it_saw() {
    let rig = partitioned();
    for id in 0..5 {
        rig.insert(&row(id, 0)).unwrap();
    }
    add(&rig, None).unwrap();
    let (reader, writer) = (OpenTransaction::begin(&rig.store).unwrap(), OpenTransaction::begin(&rig.store).unwrap());
    let count = |open: &OpenTransaction| {
        let collection = open.collection(&rig.ns).unwrap().unwrap();
        arbor_store::count(&open.view(), &collection).unwrap()
    };
    let written = writer.collection_to_write(&rig.ns).unwrap().unwrap();
    writer.with(|txn| arbor_store::insert(txn, &written, row(9, 0).as_doc())).unwrap();
    assert_eq!((count(&reader), count(&writer)), (5, 6));
    rig.store.drop_partitions(&rig.ns, PartitionsDropped::Id(0)).unwrap();
    assert_eq!(count(&reader), 5, "its snapshot has the tree");
    assert!(writer.commit(arbor_txn::Durability::Applied).is_err(), "the collection is another one now");
    assert_eq!(rig.docs().len(), 0);
    rig.check_valid();
}
