use arbor_base::TreeId;
use proptest::prelude::*;

use super::*;
use crate::block::BlockBuilder;
use crate::space::UNIT;
use crate::{Codec, Entry, Kind, RangeTombstone, Seq, TreeSettings, blob, filter};

/// Key, sequence number, kind, value; in the order E1.
type Row = (Vec<u8>, u64, Kind, Vec<u8>);

fn entry(row: &Row) -> Entry<'_> {
    Entry { key: &row.0, seq: Seq(row.1), kind: row.2, value: &row.3 }
}

fn settings(codec: Codec, block_bytes: u32) -> TreeSettings {
    TreeSettings { codec, block_bytes, ..TreeSettings::default() }
}

fn write(io: &Io, rows: &[Row], settings: &TreeSettings, level: u8, keep_cached: bool) -> Arc<Table> {
    let mut writer = TableWriter::new(io, TreeId(7), level, settings, keep_cached);
    rows.iter().for_each(|row| writer.push(entry(row), None));
    writer.finish(Seq(5)).unwrap().unwrap()
}

fn plain_rows(count: u64) -> Vec<Row> {
    (0..count).map(|n| ((n * 3).to_be_bytes().to_vec(), 0, Kind::Put, vec![n as u8; 20])).collect()
}

fn forward(cursor: &mut TableCursor<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    while let Some(Entry { key, seq, kind, value }) = cursor.entry() {
        rows.push((key.to_vec(), seq.0, kind, value.to_vec()));
        cursor.next().unwrap();
    }
    rows
}

fn backward(cursor: &mut TableCursor<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    while let Some(Entry { key, seq, kind, value }) = cursor.entry() {
        rows.push((key.to_vec(), seq.0, kind, value.to_vec()));
        cursor.prev().unwrap();
    }
    rows.reverse();
    rows
}

fn check(io: &Io, table: &Arc<Table>, rows: &[Row], probes: &[Vec<u8>]) {
    let body = table.body(io).unwrap();
    assert_eq!((0..body.block_count()).map(|at| body.rows_of(at)).sum::<u64>(), rows.len() as u64);
    for reading in [Reading::Point, Reading::Sequential] {
        let mut cursor = TableCursor::new(table.clone(), io, reading);
        cursor.first().unwrap();
        assert_eq!(forward(&mut cursor), rows);
        cursor.last().unwrap();
        assert_eq!(backward(&mut cursor), rows);
        for probe in probes.iter().chain(rows.iter().map(|row| &row.0)) {
            let less = rows.iter().take_while(|row| row.0 < *probe).count();
            cursor.seek(probe).unwrap();
            assert_eq!(cursor.entry(), rows.get(less).map(entry), "seek {probe:?}");
            cursor.seek_before(probe).unwrap();
            let before = less.checked_sub(1).map(|before| entry(&rows[before]));
            assert_eq!(cursor.entry(), before, "seek before {probe:?}");
        }
    }
    for row in rows {
        assert!(body.may_contain(filter::hash(&row.0)));
        let block = body.block(body.block_of(&row.0), io).unwrap();
        assert_eq!(block.key(block.lower_bound(&row.0)), row.0, "T1: the newest version is in that block");
        let (first, next) = body.block_bounds(body.block_of(&row.0));
        assert!(first <= row.0.as_slice() && next.is_none_or(|next| row.0.as_slice() < next));
    }
}

#[test]
fn behind_a_block_that_does_not_compress_some_are_not_tried() {
    let io = Io::scratch(1 << 24);
    let mut noise = 1u64;
    let mut random = || {
        noise = noise.wrapping_mul(6364136223846793005).wrapping_add(1);
        (noise >> 56) as u8
    };
    // one row for each block; two of them are noise
    let mut row = |n: u64| {
        let value = (0..400).map(|_| if n == 0 || n == 40 { random() } else { 7 }).collect();
        (n.to_be_bytes().to_vec(), 0, Kind::Put, value)
    };
    let rows: Vec<Row> = (0..60).map(&mut row).collect();
    let raw = |codec| {
        let table = write(&io, &rows, &settings(codec, 512), 0, false);
        check(&io, &table, &rows, &[]);
        let body = table.body(&io).unwrap();
        assert_eq!(body.block_count(), rows.len());
        let is_raw = |at: &usize| body.stored_bytes_of(*at) > body.raw_bytes_of(*at);
        (0..body.block_count()).filter(is_raw).collect::<Vec<_>>()
    };
    let not_tried: Vec<usize> = (0..=15).chain(40..=55).collect();
    assert_eq!((raw(Codec::Auto), raw(Codec::Zstd(1))), (not_tried, vec![0, 40]));
}

/// Returns the number of blocks, of units that reading each of them alone takes, and of units that their bytes have at least.
fn units(table: &Arc<Table>, io: &Io) -> (u64, u64, u64) {
    let body = table.body(io).unwrap();
    let spans = (0..body.block_count()).map(|at| body.span(at, at + 1));
    let read = spans.clone().map(|(offset, bytes)| (offset % UNIT + bytes as u64).div_ceil(UNIT)).sum();
    (spans.len() as u64, read, spans.map(|(_, bytes)| (bytes as u64).div_ceil(UNIT)).sum())
}

#[test]
fn blocks_of_a_leaf_are_in_as_few_units_as_they_can_be() {
    let io = Io::scratch(1 << 24);
    let mut noise = 1u64;
    let mut half_noise = |bytes: usize| -> Vec<u8> {
        let mut value = vec![7; bytes];
        for byte in value.iter_mut().take(bytes / 2) {
            noise = noise.wrapping_mul(6364136223846793005).wrapping_add(1);
            *byte = (noise >> 56) as u8;
        }
        value
    };
    for (codec, value_bytes, units_max) in [(Codec::Zstd(1), 120, 1), (Codec::Auto, 120, 1), (Codec::None, 120, 2)] {
        let row = |n: u64| (n.to_be_bytes().to_vec(), 0, Kind::Put, half_noise(value_bytes));
        let rows: Vec<Row> = (0..3000).map(row).collect();
        let settings = settings(codec, 8192);
        let table = write(&io, &rows, &settings, 0, false);
        let (blocks, read, least) = units(&table, &io);
        assert!(least <= units_max * blocks + 1 && read <= least + 1, "{blocks} blocks, {least} and {read} units");
        assert!(table.extent_bytes() <= (blocks * units_max + 2) * UNIT, "{blocks} blocks");
        // runs have no padding
        let run = write(&io, &rows, &settings, 1, false);
        let (blocks, read, least) = units(&run, &io);
        assert!(read > least + blocks / 4, "{blocks} blocks, {least} and {read} units");

        // what is stored is taken over, and padded again
        let mut writer = TableWriter::new(&io, TreeId(7), 0, &settings, false);
        let mut cursor = TableCursor::new(table.clone(), &io, Reading::Sequential);
        cursor.first().unwrap();
        while let Some((block, _)) = cursor.block() {
            writer.push_block(block, cursor.stored().unwrap(), &table);
            let end = block.len();
            cursor.skip_to(end).unwrap();
        }
        let copy = writer.finish(Seq(5)).unwrap().unwrap();
        check(&io, &copy, &rows, &[]);
        assert_eq!(units(&copy, &io), units(&table, &io));
    }
}

#[test]
fn a_leaf_and_what_its_meta_says() {
    let io = Io::scratch(1 << 24);
    let rows = plain_rows(1000);
    for keep_cached in [true, false] {
        let table = write(&io, &rows, &settings(Codec::Zstd(1), 512), 0, keep_cached);
        let meta = &table.meta;
        assert_eq!((meta.rows, meta.level, meta.tree, meta.has_tombstones), (1000, 0, TreeId(7), false));
        assert_eq!((meta.min_seq, meta.max_seq), (Seq(0), Seq(5)));
        assert_eq!((&meta.first_key, &meta.last_key), (&rows[0].0, &rows[999].0));
        assert_eq!(meta.bytes % 4096, 0);
        let body = table.body(&io).unwrap();
        assert!((45..=70).contains(&body.block_count()), "{}", body.block_count());
        assert_eq!(body.cached(0).is_some(), keep_cached);
        assert!(body.block(3, &io).unwrap().is_plain());
        assert!(body.cached(3).is_some());
        check(&io, &table, &rows, &[vec![], vec![0xff; 9]]);

        let mut stored = Vec::new();
        meta.encode(&mut stored);
        assert_eq!(TableMeta::decode(&stored).as_ref(), Some(meta));
        for cut in 0..stored.len() {
            assert_eq!(TableMeta::decode(&stored[..cut]), None);
        }
        let header = io.file.read(meta.offset, HEADER_BYTES as u64).unwrap();
        let found = TableMeta::from_header(meta.offset, &header).unwrap();
        assert_eq!((found.tree, found.index_checksum, found.max_seq), (meta.tree, meta.index_checksum, meta.max_seq));
        assert_eq!(TableMeta::from_header(meta.offset, &header[1..]), None);
    }
}

#[test]
fn a_run_with_range_tombstones_only() {
    let io = Io::scratch(1 << 24);
    let mut writer = TableWriter::new(&io, TreeId(1), 1, &TreeSettings::default(), false);
    assert!(writer.is_empty());
    let tombstones =
        [(b"a".to_vec(), Some(b"c".to_vec()), 9), (b"x".to_vec(), None, 8), (b"y".to_vec(), Some(vec![]), 7)];
    let tombstones = tombstones.map(|(from, to, seq)| RangeTombstone { from, to, seq: Seq(seq) });
    tombstones.iter().for_each(|tombstone| writer.tombstone(tombstone.clone()));
    let table = writer.finish(Seq(8)).unwrap().unwrap();
    assert_eq!((table.meta.rows, table.meta.min_seq, table.meta.max_seq), (0, Seq(7), Seq(9)));
    assert!(table.meta.has_tombstones);
    assert_eq!(table.body(&io).unwrap().tombstones(), tombstones);
    check(&io, &table, &[], &[b"b".to_vec()]);
    let nothing = TableWriter::new(&io, TreeId(1), 1, &TreeSettings::default(), false).finish(Seq(8)).unwrap();
    assert!(nothing.is_none());
}

#[test]
fn blobs_are_held_by_every_table_that_points_to_them() {
    let io = Io::scratch(1 << 24);
    let value = vec![3; 100_000];
    let (pointer, extent) = blob::write(&io, &value).unwrap();
    let held = Arc::downgrade(&extent);
    let mut writer = TableWriter::new(&io, TreeId(1), 1, &TreeSettings::default(), true);
    writer.push(Entry { key: b"a", seq: Seq(1), kind: Kind::Put, value: b"small" }, None);
    writer.push(Entry { key: b"b", seq: Seq(1), kind: Kind::PutBlob, value: &pointer.encode() }, Some(extent));
    let first = writer.finish(Seq(1)).unwrap().unwrap();
    let mut writer = TableWriter::new(&io, TreeId(1), 0, &TreeSettings::default(), false);
    let block = first.body(&io).unwrap().block(0, &io).unwrap();
    writer.push_rows(&block, 1..2, &first);
    let second = writer.finish(Seq(1)).unwrap().unwrap();
    assert_eq!(second.meta.blobs, first.meta.blobs);
    drop((block, first));
    assert!(second.blob(&pointer.encode()).is_some());
    assert_eq!(blob::load(&io, &pointer.encode()).unwrap(), value);
    let damaged = blob::BlobPointer { checksum: 1, ..pointer };
    assert!(matches!(blob::read(&io, &damaged), Err(Error::Corrupt { .. })));
    assert!(blob::load(&io, b"short").is_err());
    drop(second);
    assert!(held.upgrade().is_none());
}

#[test]
fn large_values_that_do_not_shrink_are_stored_as_they_are() {
    let io = Io::scratch(1 << 24);
    let noise = |bytes: usize| -> Vec<u8> {
        (0..bytes as u64).map(|at| (xxhash_rust::xxh3::xxh3_64(&at.to_le_bytes()) & 0xff) as u8).collect()
    };
    const MIB: usize = 1 << 20;
    let repeated = vec![b'r'; 3 * MIB];
    let half = [noise(2 * MIB), repeated.clone()].concat();
    for (value, is_raw) in
        [(noise(MIB - 1), true), (noise(MIB), true), (noise(3 * MIB + 5), true), (repeated, false), (half, false)]
    {
        let (pointer, extent) = blob::write(&io, &value).unwrap();
        let place = format!("{} bytes", value.len());
        assert_eq!(pointer.bytes as usize == value.len() + 1, is_raw, "{place}");
        assert!(blob::read(&io, &pointer).unwrap() == value, "{place}");
        assert!(extent.bytes() - u64::from(pointer.bytes) < crate::space::UNIT, "{place}");
    }
}

#[test]
fn a_large_value_moves_to_free_space_before_it() {
    let io = Io::scratch(1 << 24);
    let value = vec![5; 9000];
    let (_, first) = blob::write_with(&io, Codec::None, &value).unwrap();
    let (pointer, extent) = blob::write_with(&io, Codec::None, &value).unwrap();
    assert!(blob::move_down(&io, &pointer).unwrap().is_none(), "no space is free before");
    drop(first);
    let damaged = blob::BlobPointer { checksum: 1, ..pointer };
    assert!(matches!(blob::move_down(&io, &damaged), Err(Error::Corrupt { .. })), "damage is not copied");
    let (moved, its_extent) = blob::move_down(&io, &pointer).unwrap().unwrap();
    assert!(moved.offset < pointer.offset && its_extent.offset() == moved.offset);
    drop(extent);
    assert_eq!(blob::read(&io, &moved).unwrap(), value);
}

#[test]
fn ripe_blocks_are_read_but_not_moved() {
    let io = Io::scratch(1 << 24);
    let rows = plain_rows(10);
    let table = write(&io, &rows, &TreeSettings::default(), 0, true);
    let mut builder = BlockBuilder::default();
    builder.push(Entry { key: b"merged", seq: Seq(0), kind: Kind::Put, value: b"" });
    table.body(&io).unwrap().put_ripe(0, builder.finish_block().with_as_of(Seq(9)), &io);
    let mut cursor = TableCursor::new(table.clone(), &io, Reading::Point);
    cursor.first().unwrap();
    assert_eq!(cursor.entry().unwrap().key, b"merged");
    let mut cursor = TableCursor::new(table, &io, Reading::Sequential);
    cursor.first().unwrap();
    assert_eq!(forward(&mut cursor), rows);
}

#[test]
fn memory_stays_within_the_budget() {
    let io = Io::scratch(64 << 10);
    let rows = plain_rows(20_000);
    let table = write(&io, &rows, &settings(Codec::Lz4, 2048), 0, true);
    assert!(!io.cache.over());
    let mut cursor = TableCursor::new(table, &io, Reading::Point);
    cursor.first().unwrap();
    assert_eq!(forward(&mut cursor).len(), rows.len());
    drop(cursor);
    assert!(!io.cache.over());
}

#[test]
fn every_flipped_bit_is_found() {
    let io = Io::scratch(1 << 24);
    let rows = plain_rows(60);
    let built = write(&io, &rows, &settings(Codec::Zstd(1), 256), 0, false);
    let whole = Vec::from(io.file.read(built.meta.offset, built.meta.bytes).unwrap());
    let end = (built.meta.index_offset - built.meta.offset) as usize + built.meta.index_bytes as usize;
    for at in HEADER_BYTES..end {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        io.file.write(built.meta.offset, &damaged).unwrap();
        let extent = io.space.allocate(4096).unwrap();
        let table = Table::adopt(built.meta.clone(), extent, Vec::new(), &io.cache);
        let mut cursor = TableCursor::new(table, &io, Reading::Sequential);
        let walk = || -> Result<()> {
            cursor.first()?;
            while cursor.entry().is_some() {
                cursor.next()?;
            }
            Ok(())
        };
        match { walk }() {
            Err(Error::Corrupt { place, .. }) => assert!(place.contains("ftree.data at "), "{place}"),
            other => panic!("byte {at}: {other:?}"),
        }
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![8 => Just(Kind::Put), 1 => Just(Kind::Delete), 1 => Just(Kind::Update)]
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let short = prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..5);
    let fixed = any::<u64>().prop_map(|n| n.to_be_bytes().to_vec());
    let dense = (0u64..300).prop_map(|n| n.to_be_bytes().to_vec());
    let long = (any::<[u8; 20]>(), 0usize..20).prop_map(|(bytes, cut)| [&[b'k'; 9], &bytes[cut..]].concat());
    let text = "[a-c]{1,20}".prop_map(String::into_bytes);
    let key = prop_oneof![short, text, long];
    let any_seq = prop_oneof![Just(0u64), 0u64..1000, any::<u64>()];
    let of = |key: BoxedStrategy<Vec<u8>>, seq: BoxedStrategy<u64>| {
        let row = (key, seq, kind(), prop::collection::vec(any::<u8>(), 0..40));
        prop::collection::vec(row, 1..200)
    };
    let seq = any_seq.boxed();
    let rows = prop_oneof![
        of(key.boxed(), seq.clone()),
        of(dense.clone().boxed(), seq.clone()),
        of(fixed.boxed(), seq),
        of(dense.boxed(), Just(0u64).boxed()),
    ];
    rows.prop_map(|mut rows| {
        rows.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        rows.dedup_by(|a, b| (&a.0, a.1) == (&b.0, b.1));
        rows
    })
}

fn codec() -> impl Strategy<Value = Codec> {
    prop_oneof![Just(Codec::None), Just(Codec::Lz4), Just(Codec::Zstd(1)), Just(Codec::Zstd(-3))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(
        rows in rows(), codec in codec(), block_bytes in 1u32..2000, level in 0u8..2, keep in any::<bool>(),
        probes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 0..20),
    ) {
        let io = Io::scratch(1 << 24);
        let settings = settings(codec, block_bytes);
        let table = write(&io, &rows, &settings, level, keep);
        check(&io, &table, &rows, &probes);
    }

    #[test]
    fn copied_rows_are_the_same(rows in rows(), from_bytes in 1u32..2000, to_bytes in 1u32..2000, cut in 1usize..50) {
        let io = Io::scratch(1 << 24);
        let table = write(&io, &rows, &settings(Codec::Lz4, from_bytes), 1, true);
        let mut writer = TableWriter::new(&io, TreeId(7), 0, &settings(Codec::Lz4, to_bytes), true);
        let mut cursor = TableCursor::new(table.clone(), &io, Reading::Sequential);
        cursor.first().unwrap();
        while let Some((block, row)) = cursor.block() {
            let end = (row + cut).min(block.len());
            writer.push_rows(block, row..end, &table);
            cursor.skip_to(end).unwrap();
        }
        prop_assert_eq!(writer.len(), rows.len() as u64);
        let copy = writer.finish(Seq(5)).unwrap().unwrap();
        check(&io, &copy, &rows, &[]);
        prop_assert_eq!(copy.meta.min_seq, table.meta.min_seq);
    }

    #[test]
    fn any_bytes_are_an_index_or_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let io = Io::scratch(1 << 24);
        let table = write(&io, &plain_rows(3), &TreeSettings::default(), 0, false);
        let _ = TableBody::decode(&bytes, &table);
        if let Some(first) = bytes.first_mut() {
            *first = 1;
        }
        let _ = TableBody::decode(&bytes, &table);
        let _ = TableMeta::decode(&bytes);
        let _ = blob::BlobPointer::decode(&bytes);
    }
}
