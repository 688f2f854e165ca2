//! Loom's model of publishing: leaves of two entries, so that four inserts fill, split and append.
//! `RUSTFLAGS="--cfg loom" cargo test -p arbor-ftree --release --lib loom_`

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};

use super::skip_list::{Place, SkipList};
use crate::{Entry, Kind, Seq};

fn keys_seen(list: &SkipList, mut place: Place, step: impl Fn(&SkipList, Place) -> Place, visible: u64) -> Vec<u8> {
    let mut keys = Vec::new();
    while let Some(entry) = list.entry(place) {
        if entry.seq.0 <= visible {
            keys.push(entry.key[0]);
        }
        place = step(list, place);
    }
    keys
}

/// The first `before` keys are there when the reader starts; the others are inserted meanwhile.
fn check(keys: &'static [u8], before: usize, read: impl Fn(&SkipList, u64) -> Vec<u8> + Send + Sync + Copy + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let list = Arc::new(SkipList::new());
        let visible = Arc::new(AtomicU64::new(0));
        let insert = |list: &SkipList, visible: &AtomicU64, i: usize| {
            list.insert(&Entry { key: &keys[i..=i], seq: Seq(i as u64 + 1), kind: Kind::Put, value: b"" });
            visible.store(i as u64 + 1, Ordering::Release);
        };
        (0..before).for_each(|i| insert(&list, &visible, i));
        let reader = loom::thread::spawn({
            let (list, visible) = (list.clone(), visible.clone());
            move || {
                let seen = visible.load(Ordering::Acquire);
                let mut expected = keys[..seen as usize].to_vec();
                expected.sort();
                assert_eq!(read(&list, seen), expected);
            }
        });
        (before..keys.len()).for_each(|i| insert(&list, &visible, i));
        reader.join().unwrap();
    });
}

fn forward(list: &SkipList, seen: u64) -> Vec<u8> {
    keys_seen(list, list.seek(b"", Seq(0)), SkipList::next, seen)
}

fn backward(list: &SkipList, seen: u64) -> Vec<u8> {
    let mut keys = keys_seen(list, list.seek_last(), SkipList::prev, seen);
    keys.reverse();
    keys
}

#[test]
fn loom_the_first_leaf() {
    check(b"ba", 0, forward);
    check(b"ba", 0, backward);
}

#[test]
fn loom_a_split_of_the_first_leaf() {
    check(b"acb", 2, forward);
    check(b"acb", 2, backward);
}

#[test]
fn loom_a_leaf_appended() {
    check(b"abcd", 2, forward);
    check(b"abcd", 2, backward);
}

#[test]
fn loom_a_split_between_others() {
    check(b"acegfd", 4, forward);
    check(b"acegfd", 4, backward);
}
