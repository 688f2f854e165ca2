//! Jobs against the pure merge of what goes in.

use std::ops::Range;
use std::sync::Arc;

use arbor_base::TreeId;
use proptest::prelude::*;

use super::message_merge::NoRows;
use super::*;
use crate::block::Block;
use crate::io::Io;
use crate::key_index::KeyIndex;
use crate::memtable::Memtable;
use crate::table::{Reading, Table, TableCursor, TableWriter};
use crate::{Codec, Kind, RangeTombstone, Seq, TreeSettings, blob, filter};

const TREE: TreeId = TreeId(7);

type Owned = (Vec<u8>, Seq, Kind, Vec<u8>);

fn entry(owned: &Owned) -> Entry<'_> {
    Entry { key: &owned.0, seq: owned.1, kind: owned.2, value: &owned.3 }
}

fn settings() -> TreeSettings {
    TreeSettings {
        codec: Codec::Lz4,
        block_bytes: 128,
        leaf_bytes: 1000,
        blob_bytes: 64,
        run_bytes: 300,
        ..TreeSettings::default()
    }
}

#[derive(Clone, Debug, Default)]
struct Level {
    entries: Vec<Owned>,
    tombstones: Vec<RangeTombstone>,
}

fn key(number: u8) -> Vec<u8> {
    vec![b'k', number / 16, number % 16]
}

/// Entries and range tombstones with these sequence numbers; of one key with falling ones.
fn level(newest: u64, oldest: u64) -> impl Strategy<Value = Level> {
    let value = prop_oneof![3 => Just(None), 8 => (0usize..40).prop_map(Some), 1 => (65usize..300).prop_map(Some)];
    let versions = prop::collection::btree_map(oldest..=newest, value, 1..3);
    let tombstone = (any::<u8>(), prop::option::of(any::<u8>()), oldest..=newest);
    (prop::collection::btree_map(any::<u8>(), versions, 0..60), prop::collection::vec(tombstone, 0..2)).prop_map(
        |(keys, tombstones)| Level {
            entries: keys
                .into_iter()
                .flat_map(|(number, versions)| {
                    versions.into_iter().rev().map(move |(seq, value)| {
                        let kind = if value.is_some() { Kind::Put } else { Kind::Delete };
                        (key(number), Seq(seq), kind, vec![number; value.unwrap_or(0)])
                    })
                })
                .collect(),
            tombstones: tombstones
                .into_iter()
                .map(|(from, to, seq)| RangeTombstone { from: key(from), to: to.map(key), seq: Seq(seq) })
                .collect(),
        },
    )
}

fn input(messages: Messages, bytes: u64) -> Input {
    Input { messages, from: Vec::new(), to: None, bytes }
}

fn memtable(level: &Level) -> Input {
    let memtable = Memtable::new(1 << 20);
    let part = memtable.part(TREE);
    level.entries.iter().for_each(|owned| part.insert(entry(owned), filter::hash(&owned.0)));
    level.tombstones.iter().for_each(|tombstone| part.delete_range(tombstone.clone()));
    let bytes = part.bytes();
    input(Messages::Memtable(part), bytes)
}

fn run(io: &Io, level: &Level) -> Option<Input> {
    let mut writer = TableWriter::new(io, TREE, 1, &settings(), false);
    level.entries.iter().for_each(|owned| writer.push(entry(owned), None));
    level.tombstones.iter().for_each(|tombstone| writer.tombstone(tombstone.clone()));
    let table = writer.finish(Seq::ZERO).unwrap()?;
    let bytes = table.meta.raw_bytes;
    Some(input(Messages::Run(table), bytes))
}

/// All entries of tables that follow each other, large values among the others.
fn read(io: &Io, tables: &[Arc<Table>]) -> Vec<Owned> {
    let mut found = Vec::new();
    for table in tables {
        let mut cursor = TableCursor::new(table.clone(), io, Reading::Point);
        cursor.first().unwrap();
        while let Some(entry) = cursor.entry() {
            let (kind, value) = match entry.kind {
                Kind::PutBlob => {
                    assert!(table.blob(entry.value).is_some());
                    (Kind::Put, blob::load(io, entry.value).unwrap())
                }
                kind => (kind, entry.value.to_vec()),
            };
            assert_eq!(entry.kind == Kind::PutBlob, value.len() > 64 && table.meta.level == 0 || kind != entry.kind);
            found.push((entry.key.to_vec(), entry.seq, kind, value));
            cursor.next().unwrap();
        }
    }
    found
}

#[derive(Default)]
struct Collected(Vec<Owned>);

impl Sink for Collected {
    fn begin(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn push(&mut self, entry: Entry<'_>) -> Result<()> {
        self.0.push((entry.key.to_vec(), entry.seq, entry.kind, entry.value.to_vec()));
        Ok(())
    }

    fn push_rows(&mut self, _: &Block, _: Range<usize>) -> Result<()> {
        unreachable!("there are no rows")
    }
}

fn expected(levels: &[&Level], stripes: &[Seq], bottom: bool) -> Vec<Owned> {
    let load_blob = |_: &[u8]| unreachable!("there are no updates");
    let fold = Fold { stripes, bottom, updates: None, load_blob: &load_blob };
    let fragments = Fragments::new(levels.iter().flat_map(|level| &level.tombstones), stripes, &[], None);
    let entries: Vec<Vec<Entry<'_>>> = levels.iter().map(|level| level.entries.iter().map(entry).collect()).collect();
    let merge = Merge::new(entries.iter().map(|list| Slice::new(list)).collect(), 0);
    let mut message_merge = MessageMerge::new(merge, NoRows, fold, &fragments);
    let mut sink = Collected::default();
    while message_merge.step(&mut sink).unwrap() {}
    sink.0
}

fn job<'a>(io: &'a Io, settings: &'a TreeSettings, inputs: &'a [Input], target: Target<'a>) -> Rewrite<'a> {
    Rewrite {
        io,
        tree: TREE,
        settings,
        inputs,
        target,
        from: &[],
        to: None,
        stripes: &[],
        updates: None,
        keep_cached: false,
        large_values: LargeValuePolicy::Stay,
    }
}

fn tables(outputs: &[Output]) -> Vec<Arc<Table>> {
    outputs.iter().map(|output| output.table.clone()).collect()
}

/// Outputs say where they begin, and hold what is at or after it.
fn check_bounds(outputs: &[Output]) {
    for (at, output) in outputs.iter().enumerate() {
        let meta = &output.table.meta;
        assert!(meta.rows == 0 || output.from <= meta.first_key);
        let next = outputs.get(at + 1);
        assert!(next.is_none_or(|next| meta.last_key < next.from), "{:?} {:?}", meta.last_key, next.map(|n| &n.from));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 40 }))]

    #[test]
    fn a_leaf_job_keeps_what_the_merge_keeps(
        oldest in level(9, 1),
        older in level(19, 10),
        newer in level(24, 20),
        newest in level(30, 25),
        stripes in prop::collection::btree_set(0u64..31, 0..3),
    ) {
        let (io, settings) = (Io::scratch(1 << 20), settings());
        let stripes: Vec<Seq> = stripes.into_iter().map(Seq).collect();
        let rows = [memtable(&oldest)];
        let leaves = rewrite(&Rewrite { stripes: &stripes, ..job(&io, &settings, &rows, Target::Leaves(&[])) }).unwrap();
        check_bounds(&leaves);
        let leaves = tables(&leaves);
        prop_assert_eq!(read(&io, &leaves), expected(&[&oldest], &stripes, true));

        let inputs: Vec<Input> =
            [Some(memtable(&newest)), run(&io, &newer), run(&io, &older)].into_iter().flatten().collect();
        let target = Target::Leaves(&leaves);
        let outputs = rewrite(&Rewrite { stripes: &stripes, ..job(&io, &settings, &inputs, target) }).unwrap();
        drop((inputs, leaves));
        check_bounds(&outputs);
        let found = read(&io, &tables(&outputs));
        prop_assert_eq!(found, expected(&[&newest, &newer, &older, &oldest], &stripes, true));
        for output in &outputs {
            prop_assert!(output.table.meta.raw_bytes < 2000, "{}", output.table.meta.raw_bytes);
            prop_assert!(!output.table.meta.has_tombstones);
        }
    }

    /// Some slots get more than a run may hold.
    #[test]
    fn a_run_job_gives_each_slot_its_part(
        older in level(19, 10),
        newer in level(30, 20),
        stripes in prop::collection::btree_set(0u64..31, 0..3),
        pivots in prop::collection::btree_set(any::<u8>(), 0..9),
    ) {
        let (io, settings) = (Io::scratch(1 << 20), TreeSettings { run_bytes: 50, ..settings() });
        let stripes: Vec<Seq> = stripes.into_iter().map(Seq).collect();
        let inputs: Vec<Input> = [Some(memtable(&newer)), run(&io, &older)].into_iter().flatten().collect();
        let pivots: Vec<Vec<u8>> = pivots.into_iter().map(key).collect();
        let index = KeyIndex::new(pivots.iter().map(Vec::as_slice));
        let target = Target::Runs { level: 1, pivots: &index };
        let outputs = rewrite(&Rewrite { stripes: &stripes, ..job(&io, &settings, &inputs, target) }).unwrap();
        check_bounds(&outputs);
        prop_assert_eq!(read(&io, &tables(&outputs)), expected(&[&newer, &older], &stripes, false));

        let all = [&newer, &older];
        let fragments = Fragments::new(all.iter().flat_map(|level| &level.tombstones), &stripes, &[], None);
        let mut served = Vec::new();
        for (at, output) in outputs.iter().enumerate() {
            let body = output.table.body(&io).unwrap();
            let next = outputs.get(at + 1).map(|next| next.from.as_slice());
            // The last key may have several versions and large values.
            prop_assert!(output.table.meta.raw_bytes < 50 * 8 + 200, "{}", output.table.meta.raw_bytes);
            for tombstone in body.tombstones() {
                let ends = next.is_none_or(|next| tombstone.to.as_deref().is_some_and(|to| to <= next));
                prop_assert!(output.from <= tombstone.from && ends, "C1: {:?} {:?}", tombstone, next);
            }
            for (place, (slot, bytes)) in output.slots.iter().enumerate() {
                let from = slot.checked_sub(1).map_or(&[][..], |before| &pivots[before]);
                let to = pivots.get(*slot).map(Vec::as_slice);
                prop_assert!(*bytes > 0);
                prop_assert!(place > 0 || output.from.as_slice() >= from);
                served.push(*slot);
                // the part of the slot that this run has
                let from = from.max(&output.from);
                let to = [to, next].into_iter().flatten().min();
                let carried = Fragments::new(body.tombstones(), &stripes, from, to);
                let expect = fragments.within(from, to).collect::<Vec<_>>();
                let found = carried.within(&[], None).collect::<Vec<_>>();
                prop_assert_eq!(found, expect);
            }
            let before_last: u64 = output.slots.iter().rev().skip(1).map(|slot| slot.1).sum();
            prop_assert!(before_last < 50, "{:?}", output.slots);
        }
        let entries = read(&io, &tables(&outputs));
        let mut expect: Vec<usize> = entries.iter().map(|entry| index.upper_bound(&entry.0)).collect();
        for tombstone in fragments.within(&[], None) {
            let last = tombstone.to.as_ref().map_or(pivots.len(), |to| index.lower_bound(to));
            expect.extend(index.upper_bound(&tombstone.from)..=last);
        }
        expect.sort_unstable();
        expect.dedup();
        served.dedup();
        prop_assert_eq!(served, expect);
    }
}

fn rows(numbers: Range<u32>, seq: u64, bytes: usize) -> Level {
    let row = |number: u32| (number.to_be_bytes().to_vec(), Seq(seq), Kind::Put, vec![0; bytes]);
    Level { entries: numbers.map(row).collect(), tombstones: Vec::new() }
}

#[test]
fn a_slot_that_gets_much_gets_several_runs() {
    let (io, settings) = (Io::scratch(1 << 20), settings());
    let mut level = rows(0..1000, 20, 4);
    let key = |number: u32| number.to_be_bytes().to_vec();
    level.tombstones = vec![RangeTombstone { from: key(100), to: Some(key(900)), seq: Seq(10) }];
    let inputs = [run(&io, &level).unwrap()];
    let index = KeyIndex::new(std::iter::empty());
    let outputs = rewrite(&job(&io, &settings, &inputs, Target::Runs { level: 1, pivots: &index })).unwrap();
    check_bounds(&outputs);
    // a row counts for ten bytes, a run ends at 2400
    assert_eq!(outputs.iter().map(|output| output.table.meta.rows).collect::<Vec<_>>(), [240, 240, 240, 240, 40]);
    assert!(outputs.iter().all(|output| output.slots.len() == 1 && output.slots[0].0 == 0));
    assert_eq!(read(&io, &tables(&outputs)), level.entries);

    // They are read as one again.
    let again: Vec<Input> = outputs
        .iter()
        .rev()
        .map(|output| Input { messages: Messages::Run(output.table.clone()), ..inputs[0].clone() })
        .collect();
    assert_eq!(again.chunk_by(input::follows).count(), 1);
    for from in [0u32, 239, 240, 500, 999, 1000] {
        let clipped: Vec<Input> =
            again.iter().map(|input| Input { from: key(from), to: Some(key(990)), ..input.clone() }).collect();
        let leaves =
            rewrite(&Rewrite { from: &key(from), ..job(&io, &settings, &clipped, Target::Leaves(&[])) }).unwrap();
        let found = read(&io, &tables(&leaves)).len();
        assert_eq!(found, 990usize.saturating_sub(from as usize), "from {from}");
    }
}

#[test]
fn leaves_are_cut_evenly_and_appended_ones_filled() {
    let (io, settings) = (Io::scratch(1 << 20), settings());
    // a row counts for ten bytes; this many rows are in the leaf and in the messages, which begin at some number
    let check = |present: u32, messages: Range<u32>, expect: &[u64]| {
        let first = [run(&io, &rows(0..present, 1, 4)).unwrap()];
        let one_leaf = TreeSettings { leaf_bytes: 1 << 20, ..settings.clone() };
        let leaf = tables(&rewrite(&job(&io, &one_leaf, &first, Target::Leaves(&[]))).unwrap());
        let inputs = [run(&io, &rows(messages.clone(), 2, 4)).unwrap()];
        let outputs = rewrite(&job(&io, &settings, &inputs, Target::Leaves(&leaf))).unwrap();
        check_bounds(&outputs);
        let found: Vec<u64> = outputs.iter().map(|output| output.table.meta.rows).collect();
        assert_eq!(found, expect, "{present} {messages:?}");
        let stays = outputs.first().is_some_and(|output| Arc::ptr_eq(&output.table, &leaf[0]));
        assert_eq!(stays, found.len() > 1 && found[0] == u64::from(present), "{present} {messages:?}");
    };
    check(10, 5..20, &[20]);
    check(100, 0..50, &[100]);
    check(100, 100..105, &[105]);
    check(100, 100..110, &[100, 10]);
    check(60, 60..180, &[100, 80]);
    check(60, 50..180, &[95, 85]);
    check(100, 100..400, &[100, 100, 100, 100]);
    check(400, 0..10, &[104, 104, 104, 88]);
}

#[test]
fn blocks_behind_a_message_stay_as_they_are() {
    let (io, settings) = (Io::scratch(1 << 20), TreeSettings { leaf_bytes: 1 << 20, ..settings() });
    let rows_of_blocks = |table: &Arc<Table>| {
        let body = table.body(&io).unwrap();
        (0..body.block_count()).map(|at| body.rows_of(at)).collect::<Vec<_>>()
    };
    let mut level = rows(0..400, 1, 4);
    level.entries.retain(|entry| entry.0 != 77u32.to_be_bytes());
    let inputs = [run(&io, &level).unwrap()];
    let leaf = tables(&rewrite(&job(&io, &settings, &inputs, Target::Leaves(&[]))).unwrap());
    let inputs = [run(&io, &rows(77..78, 2, 4)).unwrap()];
    let found = tables(&rewrite(&job(&io, &settings, &inputs, Target::Leaves(&leaf))).unwrap());
    assert_eq!(read(&io, &found).len(), 400);
    let (before, after) = (rows_of_blocks(&leaf[0]), rows_of_blocks(&found[0]));
    let same = before.iter().rev().zip(after.iter().rev()).take_while(|(before, after)| before == after).count();
    assert!(before.len() > 30 && same >= before.len() - 9, "{before:?} {after:?}");
}
