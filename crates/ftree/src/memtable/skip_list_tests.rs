//! The list against a sorted vector (under Miri as well), and with readers concurrent with the writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::skip_list::{Place, SkipList};
use crate::{Entry, Kind, Seq};

type Row = (Vec<u8>, u64, Vec<u8>);

fn put<'a>(key: &'a [u8], seq: u64, value: &'a [u8]) -> Entry<'a> {
    Entry { key, seq: Seq(seq), kind: Kind::Put, value }
}

fn rows_from(list: &SkipList, mut place: Place, step: impl Fn(&SkipList, Place) -> Place) -> Vec<Row> {
    let mut rows = Vec::new();
    while let Some(entry) = list.entry(place) {
        rows.push((entry.key.to_vec(), entry.seq.0, entry.value.to_vec()));
        place = step(list, place);
    }
    rows
}

/// Order E1: a later insertion of the same key and number comes first.
fn insert_into_model(model: &mut Vec<Row>, row: Row) {
    let at = model.partition_point(|(key, seq, _)| *key < row.0 || (*key == row.0 && *seq > row.1));
    model.insert(at, row);
}

fn check(rows: impl IntoIterator<Item = (Vec<u8>, u64)>) {
    let (list, mut model) = (SkipList::new(), Vec::new());
    for (i, (key, seq)) in rows.into_iter().enumerate() {
        let value = i.to_le_bytes().to_vec();
        list.insert(&put(&key, seq, &value));
        insert_into_model(&mut model, (key, seq, value));
    }
    assert_eq!(rows_from(&list, list.seek_first(), SkipList::next), model);
    let backward: Vec<Row> = model.iter().rev().cloned().collect();
    assert_eq!(rows_from(&list, list.seek_last(), SkipList::prev), backward);
    for (key, seq, _) in model.iter().step_by(1 + model.len() / if cfg!(miri) { 5 } else { 50 }) {
        for (key, seq) in
            [(key.clone(), *seq), (key.clone(), u64::MAX), (key.clone(), seq + 1), ([key, &b"\0"[..]].concat(), 0)]
        {
            let at = model.partition_point(|row| row.0 < key || (row.0 == key && row.1 > seq));
            let found = |place| rows_from(&list, place, |_, _| Place::NONE).pop();
            assert_eq!(found(list.seek(&key, Seq(seq))).as_ref(), model.get(at));
            assert_eq!(
                found(list.seek_before(&key, Seq(seq))).as_ref(),
                at.checked_sub(1).and_then(|at| model.get(at))
            );
        }
    }
}

/// A number without a pattern from `i`.
fn scattered(i: u64) -> u64 {
    (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

const ROWS: u64 = if cfg!(miri) { 70 } else { 5_000 };

#[test]
fn an_empty_list_has_no_entry() {
    check([]);
    let list = SkipList::new();
    assert!(list.entry(list.seek(b"", Seq(0))).is_none() && list.entry(list.next(Place::NONE)).is_none());
}

#[test]
fn ascending_descending_and_scattered_keys() {
    let key = |i: u64| i.to_be_bytes().to_vec();
    check((0..ROWS).map(|i| (key(i), i)));
    check((0..ROWS).map(|i| (key(ROWS - i), i)));
    check((0..ROWS).map(|i| (key(scattered(i)), i)));
}

#[test]
fn runs_that_ascend_between_other_keys() {
    check((0..ROWS).map(|i| ([&(i % 7).to_be_bytes()[..], &i.to_be_bytes()].concat(), i)));
}

#[test]
fn many_versions_of_few_keys_and_equal_numbers() {
    check((0..ROWS).map(|i| (vec![b'k'; (scattered(i) % 3) as usize], i)));
    check((0..ROWS).map(|i| (vec![b'k'; (scattered(i) % 3) as usize], 5)));
    check((0..ROWS).map(|i| (b"common prefix of all".to_vec(), scattered(i) % 10)));
}

#[test]
fn keys_that_differ_in_length_or_behind_their_heads() {
    check((0..ROWS).map(|i| (vec![0; (scattered(i) % 20) as usize], i)));
    check((0..ROWS).map(|i| (format!("the same head {}", scattered(i) % 1000).into_bytes(), i)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 100 }, failure_persistence: None, ..Default::default() })]
    #[test]
    fn agrees_with_a_sorted_vector(rows in prop::collection::vec((prop::collection::vec(0u8..3, 0..11), 0u64..20), 0..if cfg!(miri) { 60 } else { 300 })) {
        check(rows);
    }
}

/// A reader that read `seen` from `visible` must find each of the first `seen` entries, once, in order, both ways.
fn check_reader(list: &SkipList, seen: u64, probe: u64) {
    let visible = |row: &Row| row.1 <= seen;
    let mut forward = rows_from(list, list.seek_first(), SkipList::next);
    let mut backward = rows_from(list, list.seek_last(), SkipList::prev);
    forward.retain(visible);
    backward.retain(visible);
    assert_eq!(forward.len() as u64, seen);
    assert!(forward.is_sorted_by(|a, b| a.0 < b.0));
    assert!(backward.iter().rev().eq(forward.iter()));
    let Some(seq) = probe.checked_rem(seen).map(|i| i + 1) else { return };
    let found = list.entry(list.seek(&key_of(seq), Seq(seen))).expect("visible, so it is found");
    assert_eq!((found.key, found.seq), (&key_of(seq)[..], Seq(seq)));
}

/// Scattered, with ascending runs between.
fn key_of(seq: u64) -> [u8; 16] {
    let prefix = if seq.is_multiple_of(4) { 77 } else { scattered(seq) };
    let mut key = [0; 16];
    key[..8].copy_from_slice(&prefix.to_be_bytes());
    key[8..].copy_from_slice(&seq.to_be_bytes());
    key
}

#[test]
fn readers_see_all_that_is_visible_while_the_writer_continues() {
    let rows = if cfg!(miri) { 40 } else { 4_000 };
    let (list, visible) = (Arc::new(SkipList::new()), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let (list, visible) = (&list, &visible);
            scope.spawn(move || {
                for round in 0.. {
                    let seen = visible.load(Ordering::Acquire);
                    check_reader(list, seen, scattered(round + reader));
                    if seen == rows {
                        break;
                    }
                    std::thread::yield_now();
                }
            });
        }
        for seq in 1..=rows {
            list.insert(&put(&key_of(seq), seq, &seq.to_le_bytes()));
            visible.store(seq, Ordering::Release);
        }
    });
}
