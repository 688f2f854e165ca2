use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn build(rows: &[(&[u8], u64, Kind, &[u8])]) -> BlockBuilder {
    let mut builder = BlockBuilder::default();
    for &(key, seq, kind, value) in rows {
        builder.push(Entry { key, seq: Seq(seq), kind, value });
    }
    builder
}

/// Through the raw form, directly, and copied: all say the same.
fn check(rows: &[(&[u8], u64, Kind, &[u8])], plain: bool) {
    let mut builder = build(rows);
    let direct = builder.block();
    let decoded = Block::decode(&builder.finish()).unwrap();
    builder.push_rows(&decoded, 0..rows.len() / 2);
    builder.push_rows(&direct, rows.len() / 2..rows.len());
    let copied = builder.finish_block();
    for block in [direct, decoded, copied] {
        assert_eq!((block.len(), block.is_plain(), block.is_ordered()), (rows.len(), plain, true));
        for (at, &(key, seq, kind, value)) in rows.iter().enumerate() {
            assert_eq!(block.entry(at), Entry { key, seq: Seq(seq), kind, value });
            assert_eq!(block.lower_bound(key), rows.iter().filter(|row| row.0 < key).count());
            assert_eq!(block.upper_bound(key), rows.iter().filter(|row| row.0 <= key).count());
        }
        assert_eq!(block.max_seq().0, rows.iter().map(|row| row.1).max().unwrap_or(0));
    }
}

#[test]
fn rows_come_back() {
    use Kind::{Delete, Put, PutBlob, Update};
    check(&[], true);
    check(&[(b"", 0, Put, b"")], true);
    check(&[(b"a", 0, Put, b"1"), (b"b", 0, PutBlob, b"2")], true);
    check(&[(b"a", 0, Put, b"1"), (b"b", 0, Delete, b"")], false);
    check(&[(b"a", 9, Put, b"1"), (b"b", 9, Put, b"2")], false);
    check(&[(b"a", 9, Update, b"1"), (b"a", 0, Put, b"2")], false);
    check(&[(b"a", 0, Put, b"1"), (b"a", 0, Put, b"2")], false);
    check(&[(b"", 7, Put, b"x"), (b"a", 6, Put, b""), (b"abc", 300, Put, b"long value"), (b"b", 5, Put, b"")], false);
    check(&[(b"key1", 0, Put, b"v"), (b"key255", 0, Put, b"v"), (b"key3", 0, Put, b"v")], true);
    let long = [0x61; 40];
    check(&[(&long[..20], 0, Put, b"v"), (&long, 0, Put, b"w")], true);
}

#[test]
fn dense_keys_take_no_room() {
    let mut builder = BlockBuilder::default();
    for n in 1000u64..1064 {
        builder.push(Entry { key: &n.to_be_bytes(), seq: Seq(0), kind: Kind::Put, value: b"" });
    }
    let raw = builder.finish();
    assert_eq!(raw.iter().filter(|byte| **byte > 1).count(), 6, "{raw:?}");
    let block = Block::decode(&raw).unwrap();
    assert!((0..64).all(|at| block.key(at) == (1000 + at as u64).to_be_bytes()));
}

#[test]
fn damage_is_an_error_or_a_block() {
    let mut builder =
        build(&[(b"aa", 7, Kind::Put, b"x"), (b"ab", 6, Kind::Update, b"12"), (b"b", 300, Kind::Delete, b"")]);
    let raw = builder.finish();
    for cut in 0..raw.len() {
        assert!(Block::decode(&raw[..cut]).is_err());
    }
    for at in 0..raw.len() {
        for value in [0, 1, 4, 0x7f, 0xff] {
            let mut damaged = raw.clone();
            damaged[at] = value;
            if let Ok(block) = Block::decode(&damaged) {
                (0..block.len()).for_each(|at| assert_eq!(block.entry(at).key, block.key(at)));
                block.lower_bound(b"ab");
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_block_or_an_error(
        bytes in vec(any::<u8>(), 0..200), changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), len in 1usize..9, rows in 1usize..20,
    ) {
        let touch = |raw: &[u8]| {
            let Ok(block) = Block::decode(raw) else { return };
            (0..block.len()).for_each(|at| assert_eq!(block.entry(at).value, block.value(at)));
            assert!(block.lower_bound(b"k") <= block.len() && block.upper_bound(&[7; 30]) <= block.len());
            let mut copy = BlockBuilder::default();
            copy.push_rows(&block, 0..block.len());
            copy.block();
        };
        touch(&bytes);
        let mut builder = BlockBuilder::default();
        for at in 0..rows {
            builder.push(Entry { key: &std::iter::repeat_n(at as u8, len).collect::<Vec<u8>>(), seq: Seq(at as u64), kind: Kind::Put, value: &bytes });
        }
        let mut raw = builder.finish();
        for (at, byte) in changes {
            let at = at.index(raw.len().min(80));
            raw[at] = byte;
        }
        touch(&raw);
    }
}
