//! A cursor over own writes and snapshot moves like a cursor over the merged rows.

use std::collections::BTreeMap;

use crate::support::{Sums, rig_with, with_updates};
use arbor_txn::{Cursor, Durability::Applied, View};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Change {
    Put(u8),
    Delete(u8),
    DeleteRange(u8, Option<u8>),
    Update(u8),
}

impl Change {
    fn writes(&self, key: u8) -> bool {
        match self {
            Change::Put(own) | Change::Delete(own) | Change::Update(own) => *own == key,
            Change::DeleteRange(from, to) => *from <= key && to.is_none_or(|to| key < to),
        }
    }
}

#[derive(Clone, Debug)]
enum Move {
    Seek(u8),
    SeekBefore(u8),
    First,
    Last,
    Next,
    Prev,
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        4 => (0..40u8).prop_map(Change::Put),
        3 => (0..40u8).prop_map(Change::Delete),
        4 => (0..40u8).prop_map(Change::Update),
        1 => (0..40u8, proptest::option::of(0..45u8)).prop_map(|(from, to)| Change::DeleteRange(from, to)),
    ];
    proptest::collection::vec(change, 0..25)
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let step = prop_oneof![
        1 => (0..45u8).prop_map(Move::Seek),
        1 => (0..45u8).prop_map(Move::SeekBefore),
        1 => Just(Move::First),
        1 => Just(Move::Last),
        4 => Just(Move::Next),
        4 => Just(Move::Prev),
    ];
    proptest::collection::vec(step, 1..60)
}

/// The plain meaning of every move, on a map.
fn expected(rows: &BTreeMap<u8, u8>, at: Option<u8>, step: &Move) -> Option<u8> {
    let mut keys = rows.keys().copied();
    match step {
        Move::Seek(key) => rows.range(key..).next().map(|(k, _)| *k),
        Move::SeekBefore(key) => rows.range(..key).next_back().map(|(k, _)| *k),
        Move::First => keys.next(),
        Move::Last => keys.next_back(),
        Move::Next => at.and_then(|at| rows.range(at + 1..).next().map(|(k, _)| *k)),
        Move::Prev => at.and_then(|at| rows.range(..at).next_back().map(|(k, _)| *k)),
    }
}

fn go(cursor: &mut dyn Cursor, step: &Move) -> bool {
    match step {
        Move::Seek(key) => cursor.seek(&[*key]),
        Move::SeekBefore(key) => cursor.seek_before(&[*key]),
        Move::First => cursor.first(),
        Move::Last => cursor.last(),
        Move::Next => cursor.next(),
        Move::Prev => cursor.prev(),
    }
    .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn moves_agree_with_the_merged_rows(base in proptest::collection::btree_set(0..40u8, 0..20), changes in changes(), moves in moves()) {
        let rig = rig_with(with_updates());
        let tree = rig.tree();
        let mut txn = rig.begin();
        base.iter().for_each(|key| txn.put(tree, [*key], [0]));
        txn.commit(Applied).unwrap();

        let mut rows: BTreeMap<u8, u8> = base.iter().map(|key| (*key, 0)).collect();
        let mut txn = rig.begin();
        for (i, change) in changes.iter().enumerate() {
            match change {
                Change::Put(key) => {
                    txn.put(tree, [*key], [i as u8 + 1]);
                    rows.insert(*key, i as u8 + 1);
                }
                Change::Delete(key) => {
                    txn.delete(tree, [*key]);
                    rows.remove(key);
                }
                Change::Update(key) => {
                    if txn.update(tree, [*key], [i as u8]) {
                        let row = rows.remove(key);
                        rows.extend(Sums::sum(row, i as u8).map(|sum| (*key, sum)));
                    } else {
                        let written = changes.iter().take(i).any(|before| before.writes(*key));
                        prop_assert!(written, "an update of {key} is refused");
                    }
                }
                Change::DeleteRange(from, to) => {
                    txn.delete_range(tree, [*from], to.map(|to| vec![to]));
                    rows.retain(|key, _| key < from || to.is_some_and(|to| *key >= to));
                }
            }
        }
        for key in 0..45u8 {
            prop_assert_eq!(txn.get(tree, &[key]).unwrap().map(|v| v[0]), rows.get(&key).copied());
        }
        {
            let mut cursor = txn.cursor(tree).unwrap();
            let mut at = None;
            for step in &moves {
                let expected_key = expected(&rows, at, step);
                // From nowhere only an absolute move leads anywhere.
                let valid = go(&mut *cursor, step);
                prop_assert_eq!(valid.then(|| cursor.key()[0]), expected_key, "{:?} from {:?}", step, at);
                if let Some(key) = expected_key {
                    prop_assert_eq!(cursor.value()[0], rows[&key]);
                }
                at = expected_key;
            }
        }
        txn.commit(Applied).unwrap();
        let stored: Vec<(u8, u8)> = {
            let view = rig.transactions.read().unwrap();
            let mut cursor = view.cursor(tree).unwrap();
            let mut stored = Vec::new();
            let mut valid = cursor.first().unwrap();
            while valid {
                stored.push((cursor.key()[0], cursor.value()[0]));
                valid = cursor.next().unwrap();
            }
            stored
        };
        prop_assert_eq!(stored, rows.into_iter().collect::<Vec<_>>());
    }
}
