//! Trees put together by hand from one history, read at every registered number and held against a replay of the history.
//!
//! The history is cut at sequence numbers: the oldest part is folded into leaves, the next ones are in runs above them, in
//! runs of the root, in a frozen and in the active memtable part. Several versions of one tree share their leaves but differ
//! in these cuts, as versions do between which a memtable was absorbed or runs were pushed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

use arbor_base::{Prefetch, Random, TreeId};
use arbor_engine::{Cursor, UpdateFunction};

use super::path::{Path, Place};
use super::{Got, Reader, TreeCursor, estimate, get, prefetch};
use crate::counters::Counter;
use crate::filter::hash;
use crate::io::Io;
use crate::memtable::{MemTree, Memtable};
use crate::merge::{Fold, Versions};
use crate::snapshots::{Registered, Snapshots};
use crate::table::{Table, TableWriter};
use crate::tree::node::Placed;
use crate::tree::{Child, Inner, Run, Slot, Tree, TreeVersion};
use crate::{Codec, Entry, Error, Kind, RangeTombstone, Seq, TreeSettings, blob, update};

const TREE: TreeId = TreeId(7);
const KEYS: u64 = 400;

/// Rows are text: an update appends to it, or deletes it.
struct Append;

impl UpdateFunction for Append {
    fn apply(&self, _: &[u8], row: Option<&[u8]>, update: &[u8]) -> Option<Vec<u8>> {
        (update != b"-").then(|| [row.unwrap_or_default(), update].concat())
    }
}

#[derive(Clone, Debug)]
enum Change {
    Entry(Vec<u8>, Kind, Vec<u8>),
    Range(Vec<u8>, Option<Vec<u8>>),
}

type History = Vec<(Seq, Change)>;

fn key(n: u64) -> Vec<u8> {
    match n % 7 {
        0 => format!("k{n:05}-with-a-longer-tail").into_bytes(),
        _ => format!("k{n:05}").into_bytes(),
    }
}

fn history(random: &mut Random, changes: u64, ranges: bool) -> History {
    let mut history = History::new();
    // Blocks do not ripen under updates.
    let updates = random.one_in(2);
    for n in 1..=changes {
        let (at, to) = (random.below(KEYS), random.below(KEYS));
        let change = match random.below(100) {
            80..98 if !updates => Change::Entry(key(at), Kind::Put, format!("={n}").into_bytes()),
            0..60 => Change::Entry(key(at), Kind::Put, vec![b'a' + (n % 26) as u8; random.below(90) as usize]),
            60..80 => Change::Entry(key(at), Kind::Delete, Vec::new()),
            80..98 => {
                let update = if random.one_in(6) { b"-".to_vec() } else { format!("+{n}").into_bytes() };
                Change::Entry(key(at), Kind::Update, update::chain_of(&update))
            }
            _ if !ranges => continue,
            98 => Change::Range(key(at), Some(key(at + to % 60))),
            _ => Change::Range(key(at.min(to)), (!random.one_in(4)).then(|| key(at.max(to)))),
        };
        history.push((Seq(n * 256), change));
    }
    history
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn replay(history: &History, at: Seq) -> Rows {
    let mut rows = Rows::new();
    for (_, change) in history.iter().filter(|(seq, _)| *seq <= at) {
        match change {
            Change::Entry(key, Kind::Put | Kind::PutBlob, value) => drop(rows.insert(key.clone(), value.clone())),
            Change::Entry(key, Kind::Delete, _) => drop(rows.remove(key)),
            Change::Entry(key, Kind::Update, chain) => {
                let row = rows.remove(key);
                let row = update::apply_chain(&Append, key, row.as_deref(), chain).unwrap();
                rows.extend(row.map(|row| (key.clone(), row)));
            }
            Change::Range(from, to) => {
                let tombstone = RangeTombstone { from: from.clone(), to: to.clone(), seq: at };
                rows.retain(|key, _| !tombstone.covers(key));
            }
        }
    }
    rows
}

fn settings() -> TreeSettings {
    TreeSettings { codec: Codec::Lz4, block_bytes: 700, blob_bytes: 1 << 20, ..TreeSettings::default() }
}

struct Workshop {
    io: Arc<Io>,
    snapshots: Snapshots,
    visible: AtomicU64,
    history: History,
}

impl Workshop {
    fn new(history: History) -> Workshop {
        let (io, snapshots) = (Io::scratch(64 << 20), Snapshots::new());
        Workshop { io, snapshots, visible: AtomicU64::new(0), history }
    }

    fn register(&self, at: Seq) -> Registered {
        let now = self.visible.swap(at.0, Ordering::SeqCst);
        let registered = self.snapshots.register(&self.visible);
        self.visible.store(now, Ordering::SeqCst);
        assert_eq!(registered.seq(), at);
        registered
    }

    fn reader(&self, at: Seq) -> Reader<'_> {
        let Workshop { io, snapshots, visible, .. } = self;
        Reader { io, updates: Some(&Append), at, snapshots, visible }
    }

    /// Changes with `above < seq <= to` of keys with `low <= key < high`, in the order E1, and the range tombstones.
    fn part(&self, above: Seq, to: Seq, low: &[u8], high: Option<&[u8]>) -> (Vec<Entry<'_>>, Vec<RangeTombstone>) {
        let (mut entries, mut tombstones) = (Vec::new(), Vec::new());
        for (seq, change) in self.history.iter().filter(|(seq, _)| above < *seq && *seq <= to) {
            match change {
                Change::Entry(key, kind, value) => entries.push(Entry { key, seq: *seq, kind: *kind, value }),
                Change::Range(from, to) => {
                    tombstones.push(RangeTombstone { from: from.clone(), to: to.clone(), seq: *seq })
                }
            }
        }
        entries.retain(|entry| low <= entry.key && high.is_none_or(|high| entry.key < high));
        entries.sort_by_key(|entry| (entry.key, std::cmp::Reverse(entry.seq)));
        (entries, tombstones)
    }

    fn run(&self, above: Seq, to: Seq, low: &[u8], high: Option<&[u8]>) -> Option<Run> {
        let (entries, tombstones) = self.part(above, to, low, high);
        let mut writer = TableWriter::new(&self.io, TREE, 1, &settings(), false);
        entries.iter().for_each(|entry| writer.push(*entry, None));
        tombstones.into_iter().for_each(|tombstone| writer.tombstone(tombstone));
        Some(Run { table: writer.finish(to).unwrap()?, bytes: 1 })
    }

    fn leaf(&self, to: Seq, low: &[u8], high: Option<&[u8]>) -> Option<Arc<Table>> {
        let (entries, tombstones) = self.part(Seq::ZERO, to, low, high);
        let stripes = self.snapshots.list();
        let load_blob = |value: &[u8]| blob::load(&self.io, value);
        let fold = Fold { stripes: &stripes, bottom: true, updates: Some(&Append), load_blob: &load_blob };
        let mut writer = TableWriter::new(&self.io, TREE, 0, &settings(), false);
        let (mut versions, mut kept) = (Versions::default(), Vec::new());
        for same in entries.chunk_by(|a, b| a.key == b.key) {
            versions.begin(same[0].key);
            same.iter().for_each(|entry| versions.push(*entry));
            let covering = tombstones.iter().filter(|tombstone| tombstone.covers(same[0].key));
            versions.push_tombstones(&covering.map(|tombstone| tombstone.seq).collect::<Vec<_>>());
            fold.fold(&versions, &mut kept).unwrap();
            kept.iter().for_each(|kept| writer.push(kept.entry(&versions), None));
        }
        writer.finish(to).unwrap()
    }

    fn memtable(&self, above: Seq, to: Seq) -> Arc<MemTree> {
        let part = Memtable::new(1 << 20).part(TREE);
        for (seq, change) in self.history.iter().filter(|(seq, _)| above < *seq && *seq <= to) {
            match change {
                Change::Entry(key, kind, value) => part.insert(Entry { key, seq: *seq, kind: *kind, value }, hash(key)),
                Change::Range(from, to) => {
                    part.delete_range(RangeTombstone { from: from.clone(), to: to.clone(), seq: *seq });
                }
            }
        }
        part
    }
}

/// Points at which a history is cut; the leaves end at the first.
type Cuts = [u64; 6];

/// The slots of a tree of two levels: lower bounds of the leaves, and how many of them are under one slot of the root.
struct Shape {
    bounds: Vec<Vec<u8>>,
    leaves: Vec<Option<Arc<Table>>>,
    together: usize,
}

impl Shape {
    fn new(workshop: &Workshop, random: &mut Random, to: Seq) -> Shape {
        let mut bounds: Vec<Vec<u8>> = (0..random.below(8)).map(|_| key(random.below(KEYS))).collect();
        bounds.push(Vec::new());
        bounds.sort();
        bounds.dedup();
        let high = |at: usize| bounds.get(at + 1).map(Vec::as_slice);
        let leaves = (0..bounds.len()).map(|at| workshop.leaf(to, &bounds[at], high(at)));
        Shape { leaves: leaves.collect(), together: 1 + random.below(4) as usize, bounds }
    }

    fn high(&self, at: usize) -> Option<&[u8]> {
        self.bounds.get(at).map(Vec::as_slice)
    }

    fn version(&self, workshop: &Workshop, cuts: Cuts) -> TreeVersion {
        let [leaves, old, newer, root, frozen, active] = cuts.map(|n| Seq(n * 256));
        let mut slots = Vec::new();
        for (first, leaves_here) in self.leaves.chunks(self.together).enumerate() {
            let first = first * self.together;
            let mut inner = Vec::new();
            for (at, leaf) in leaves_here.iter().enumerate() {
                let (low, high) = (&self.bounds[first + at], self.high(first + at + 1));
                let runs = [workshop.run(leaves, old, low, high), workshop.run(old, newer, low, high)];
                let child = leaf.clone().map_or(Child::Empty, Child::Leaf);
                let slot = Slot::new(runs.into_iter().flatten().collect(), child);
                inner.push(Placed { from: low.clone(), slot: Arc::new(slot) });
            }
            let (low, high) = (&self.bounds[first], self.high(first + leaves_here.len()));
            let runs = workshop.run(newer, root, low, high).into_iter().collect();
            let slot = Slot::new(runs, Child::Inner(Inner::new(1, inner)));
            slots.push(Placed { from: low.clone(), slot: Arc::new(slot) });
        }
        TreeVersion {
            active: workshop.memtable(frozen, active),
            frozen: vec![workshop.memtable(root, frozen)],
            root: Inner::new(2, slots),
        }
    }
}

fn tree(workshop: &Workshop, version: TreeVersion) -> Arc<Tree> {
    let active = workshop.memtable(Seq::ZERO, Seq::ZERO);
    let tree = Tree::new(TREE, Seq::ZERO, settings(), Inner::empty(), active, &workshop.io.cache);
    tree.version.store(Arc::new(version));
    Arc::new(tree)
}

fn row(got: Got) -> Option<Vec<u8>> {
    match got {
        Got::Row(row) => row,
        Got::TooLarge(bytes) => panic!("{bytes} bytes, and no statement"),
    }
}

fn check_gets(reader: &Reader<'_>, tree: &Tree, rows: &Rows) {
    for n in 0..KEYS + 3 {
        let found = get(&tree.version.load(), reader, &key(n)).unwrap();
        assert_eq!(row(found).as_ref(), rows.get(&key(n)), "key {n} at {:?}", reader.at);
    }
}

fn check_scans(reader: &Reader<'_>, tree: &Arc<Tree>, rows: &Rows) {
    let mut cursor = TreeCursor::new(*reader, tree.clone());
    let mut more = cursor.first().unwrap();
    for (key, value) in rows {
        assert!(more && cursor.key() == key && cursor.value() == value, "forward at {:?}: {key:?}", reader.at);
        more = cursor.next().unwrap();
    }
    assert!(!more, "forward at {:?}", reader.at);
    more = cursor.last().unwrap();
    for (key, value) in rows.iter().rev() {
        assert!(more && cursor.key() == key && cursor.value() == value, "backward at {:?}: {key:?}", reader.at);
        more = cursor.prev().unwrap();
    }
    assert!(!more, "backward at {:?}", reader.at);
}

fn check_walk(reader: &Reader<'_>, tree: &Arc<Tree>, rows: &Rows, random: &mut Random) {
    let rows: Vec<_> = rows.iter().collect();
    let mut cursor = TreeCursor::new(*reader, tree.clone());
    let mut place: Option<usize> = None;
    for _ in 0..60 {
        let target = if random.one_in(20) { vec![b'z'] } else { key(random.below(KEYS)) };
        let below = rows.partition_point(|(key, _)| **key < target);
        if random.one_in(4) {
            // rows do not depend on a hint, whatever it says
            cursor.expect_rows(random.below(2 * KEYS), &key(random.below(KEYS)));
        }
        let (moved, expected) = match random.below(12) {
            0 => (cursor.seek(&target), Some(below)),
            1 => (cursor.seek_before(&target), below.checked_sub(1)),
            2 => (cursor.first(), Some(0)),
            3 => (cursor.last(), rows.len().checked_sub(1)),
            4..8 => (cursor.next(), place.map(|at| at + 1)),
            _ => (cursor.prev(), place.and_then(|at| at.checked_sub(1))),
        };
        place = expected.filter(|at| *at < rows.len());
        assert_eq!(moved.unwrap(), place.is_some());
        if let Some(at) = place {
            assert!(cursor.key() == rows[at].0 && cursor.value() == rows[at].1);
        }
    }
}

/// One history, several versions over the same leaves, readers at several numbers: all agree with the replay, again and
/// again while blocks ripen.
fn check_history(seed: u64) {
    let mut random = Random::new(seed);
    let ranges = !random.one_in(3);
    let workshop = Workshop::new(history(&mut random, 1500, ranges));
    let at = |n: u64| Seq(n * 256 + n % 3);
    let mut held: Vec<Registered> = (0..random.below(5)).map(|_| workshop.register(at(random.below(1500)))).collect();
    workshop.visible.store(1500 * 256, Ordering::SeqCst);
    let leaves = if random.one_in(6) { 0 } else { random.below(1000) };
    let shape = Shape::new(&workshop, &mut random, Seq(leaves * 256));
    let mut cuts = || {
        let mut cuts = [0u64; 4].map(|_| leaves + random.below(1501 - leaves));
        cuts.sort();
        if random.one_in(2) {
            // No memtables: pages are shown as the ripened blocks are.
            cuts[2..].fill(1500);
        }
        [leaves, cuts[0], cuts[1], cuts[2], cuts[3], 1500]
    };
    let versions = [cuts(), cuts(), cuts()].map(|cuts| tree(&workshop, shape.version(&workshop, cuts)));
    held.push(workshop.register(Seq(1500 * 256)));
    for round in 0..3 {
        for tree in &versions {
            for registered in &held {
                let reader = workshop.reader(registered.seq());
                let rows = replay(&workshop.history, reader.at);
                check_gets(&reader, tree, &rows);
                check_walk(&reader, tree, &rows, &mut random);
                check_scans(&reader, tree, &rows);
            }
        }
        if round == 1 && held.len() > 1 {
            held.remove(0);
        }
    }
}

#[test]
fn readers_see_what_a_replay_shows() {
    for seed in 0..12 {
        let failed = std::panic::catch_unwind(|| check_history(seed));
        assert!(failed.is_ok(), "history of seed {seed}");
    }
}

/// A tree whose rows are in leaves, with one run above them.
fn simple(changes: u64, run_from: u64) -> (Workshop, Arc<Tree>) {
    let mut random = Random::new(5);
    let workshop = Workshop::new(history(&mut random, changes, false));
    workshop.visible.store(changes * 256, Ordering::SeqCst);
    let shape =
        Shape { bounds: vec![Vec::new()], leaves: vec![workshop.leaf(Seq(run_from * 256), &[], None)], together: 1 };
    let version = shape.version(&workshop, [run_from, changes, changes, changes, changes, changes]);
    let tree = tree(&workshop, version);
    (workshop, tree)
}

#[test]
fn the_second_scan_ripens_and_the_third_merges_nothing() {
    let (workshop, tree) = simple(2000, 1800);
    let registered = workshop.register(Seq(2000 * 256));
    let reader = workshop.reader(registered.seq());
    let ripened = || workshop.io.counters.get(Counter::BlocksRipened);
    let scan = || check_scans(&reader, &tree, &replay(&workshop.history, reader.at));
    let mut cursor = TreeCursor::new(reader, tree.clone());
    let mut more = cursor.first().unwrap();
    while more {
        more = cursor.next().unwrap();
    }
    assert_eq!(ripened(), 0, "blocks that are read for the first time");
    scan();
    let blocks = ripened();
    assert!(blocks > 3);
    scan();
    assert_eq!(ripened(), blocks);
    check_gets(&reader, &tree, &replay(&workshop.history, reader.at));
}

/// Reads of the file and blocks that were read by a scan of the first rows of a tree that is not in memory.
fn cost_of_scan(rows: usize, hint: Option<(u64, &[u8])>) -> (u64, u64) {
    let (workshop, tree) = simple(2000, 2000);
    let registered = workshop.register(Seq(2000 * 256));
    let file_reads =
        || workshop.io.file.statistics().snapshot().iter().find(|(name, _)| *name == "file reads").unwrap().1;
    let mut cursor = TreeCursor::new(workshop.reader(registered.seq()), tree.clone());
    if let Some((rows, end)) = hint {
        cursor.expect_rows(rows, end);
    }
    let before = file_reads();
    assert!(cursor.first().unwrap());
    assert!((1..rows).all(|_| cursor.next().unwrap()));
    (file_reads() - before, workshop.io.counters.get(Counter::LeafBlockMisses))
}

#[test]
fn a_scan_of_known_length_reads_at_once_and_no_more_than_it_needs() {
    const ROWS: usize = 200;
    let (reads, blocks) = cost_of_scan(ROWS, None);
    let (reads_known, blocks_known) = cost_of_scan(ROWS, Some((ROWS as u64, &[])));
    assert!(
        reads_known + 2 <= reads,
        "{reads_known} reads of {blocks_known} blocks, without a hint {reads} of {blocks}"
    );
    assert!(blocks_known <= blocks, "{blocks_known} blocks, without a hint {blocks}");
    // A limit is far from what its range has.
    let (_, of_few) = cost_of_scan(2, None);
    let (_, of_bounded) = cost_of_scan(2, Some((ROWS as u64, &key(1))));
    assert_eq!(of_bounded, of_few);
    let (_, of_unbounded) = cost_of_scan(2, Some((ROWS as u64, &[])));
    assert!(of_unbounded > of_few, "the hint is what makes the difference");
}

/// A tree of 3,000 changes: the first ones are in the leaf, the others in a run.
fn of_3000(in_leaf: u64) -> (Workshop, Arc<Tree>) {
    let put = |n: u64| Change::Entry(format!("{:05}", n * 7919 % 3001).into_bytes(), Kind::Put, vec![n as u8; 100]);
    let workshop = Workshop::new((1..=3000u64).map(|n| (Seq(n * 256), put(n))).collect());
    workshop.visible.store(3000 * 256, Ordering::SeqCst);
    let tree = tree(&workshop, version_of_3000(&workshop, in_leaf));
    (workshop, tree)
}

/// Returns how many reads a scan of `rows` rows starts in advance.
fn started_by_scan(rows: usize, forward: bool, hint: Option<u64>) -> u64 {
    let (workshop, tree) = of_3000(3000);
    let registered = workshop.register(Seq(3000 * 256));
    let mut cursor = TreeCursor::new(workshop.reader(registered.seq()), tree.clone());
    if let Some(rows) = hint {
        cursor.expect_rows(rows, &[]);
    }
    assert!(if forward { cursor.first() } else { cursor.last() }.unwrap());
    assert!((1..rows).all(|_| if forward { cursor.next() } else { cursor.prev() }.unwrap()));
    workshop.io.counters.get(Counter::ReadsStarted)
}

#[test]
fn the_next_read_of_a_long_scan_is_started_in_advance() {
    for forward in [true, false] {
        assert!(started_by_scan(3000, forward, None) > 3);
        assert_eq!(started_by_scan(50, forward, None), 0, "short");
        assert_eq!(started_by_scan(300, forward, Some(300)), 0, "one read has it all");
    }
}

#[test]
fn blocks_of_runs_are_read_while_the_leaf_is() {
    for (in_leaf, started) in [(2500, true), (3000, false)] {
        let (workshop, tree) = of_3000(in_leaf);
        let registered = workshop.register(Seq(3000 * 256));
        let mut cursor = TreeCursor::new(workshop.reader(registered.seq()), tree.clone());
        for key in [&b"00010"[..], b"00810", b"01610", b"02410"] {
            assert!(cursor.seek(key).unwrap());
        }
        assert_eq!(workshop.io.counters.get(Counter::ReadsStarted) > 0, started, "{in_leaf} in the leaf");
    }
}

/// A version of [`of_3000`] with this many changes in a leaf of its own.
fn version_of_3000(workshop: &Workshop, in_leaf: u64) -> TreeVersion {
    let leaf = workshop.leaf(Seq(in_leaf * 256), &[], None);
    let shape = Shape { bounds: vec![Vec::new()], leaves: vec![leaf], together: 1 };
    shape.version(workshop, [in_leaf, 3000, 3000, 3000, 3000, 3000])
}

#[test]
fn scans_of_more_than_the_cache_leave_a_part_there() {
    const PASSES: u64 = 32;
    let (workshop, tree) = of_3000(3000);
    let registered = workshop.register(Seq(3000 * 256));
    let (reader, rows) = (workshop.reader(registered.seq()), replay(&workshop.history, registered.seq()));
    let (cache, counters) = (&workshop.io.cache, &workshop.io.counters);
    let pass = |expected: u64| {
        let before = counters.get(Counter::LeafBlockMisses);
        let mut cursor = TreeCursor::new(reader, tree.clone());
        cursor.expect_rows(expected, &[]);
        let mut more = cursor.first().unwrap();
        for (key, value) in &rows {
            assert!(more && cursor.key() == key && cursor.value() == value, "{key:?}");
            more = cursor.next().unwrap();
        }
        assert!(!more);
        counters.get(Counter::LeafBlockMisses) - before
    };
    let blocks = pass(0);
    assert_eq!(pass(0), 0, "all of it is in memory");
    cache.set_limit(cache.used() / 2);
    let missing: Vec<u64> = (0..PASSES).map(|_| pass(3000)).collect();
    // a block that was read in advance into a cache of this size may be evicted before its use
    let is_once = |missing: &u64| (blocks / 4..=blocks + blocks / 50).contains(missing);
    assert!(missing.iter().all(is_once), "no block is read twice by one pass of {blocks}: {missing:?}");
    let read = missing.iter().skip(1).sum::<u64>();
    assert!(read < blocks * PASSES / 4 * 3, "of {blocks} blocks a half stays: {missing:?}");
    assert!(!cache.over(), "what a cursor had is not charged any more");
}

#[test]
fn blocks_that_a_cursor_has_are_of_the_leaf_that_it_read() {
    let (workshop, tree) = of_3000(3000);
    let registered = workshop.register(Seq(3000 * 256));
    let rows = replay(&workshop.history, registered.seq());
    workshop.io.cache.set_limit(64 << 10);
    // one read of eight is admitted
    for round in 0..4 {
        let mut cursor = TreeCursor::new(workshop.reader(registered.seq()), tree.clone());
        cursor.expect_rows(3000, &[]);
        let mut more = cursor.first().unwrap();
        for (at, (key, value)) in rows.iter().enumerate() {
            assert!(more && cursor.key() == key && cursor.value() == value, "round {round}: {key:?}");
            if at == 100 {
                tree.version.store(Arc::new(version_of_3000(&workshop, 2000 + round * 200)));
            }
            more = cursor.next().unwrap();
        }
        assert!(!more);
    }
}

/// Returns true if a prefetch of the key read something, and false if all was in memory. None: that is unknown.
fn prefetched(workshop: &Workshop, tree: &Tree, key: &[u8]) -> Option<bool> {
    match prefetch(&tree.version.load(), key, &workshop.io) {
        Prefetch::Unknown => None,
        Prefetch::InMemory => Some(false),
        Prefetch::Reading { bytes, mut done } => {
            let mut context = Context::from_waker(Waker::noop());
            assert!(bytes > 0 && done.as_mut().poll(&mut context).is_ready(), "the disk of tests reads at once");
            Some(true)
        }
    }
}

#[test]
fn a_get_reads_nothing_that_was_prefetched() {
    let file_reads = |workshop: &Workshop| workshop.io.file.statistics().reads.load(Ordering::Relaxed);
    for in_leaf in [1500, 3000] {
        let (workshop, tree) = of_3000(in_leaf);
        let registered = workshop.register(Seq(3000 * 256));
        let reader = workshop.reader(registered.seq());
        assert_eq!(prefetched(&workshop, &tree, b"00001"), None, "no index is in memory");
        get(&tree.version.load(), &reader, b"00001").unwrap();
        let rows = replay(&workshop.history, reader.at);
        let (mut read, mut unknown) = (0, 0);
        for (key, value) in &rows {
            let Some(has_read) = prefetched(&workshop, &tree, key) else {
                // the index of a run is not in memory
                get(&tree.version.load(), &reader, key).unwrap();
                unknown += 1;
                continue;
            };
            read += u64::from(has_read);
            assert_eq!(prefetched(&workshop, &tree, key), Some(false));
            let reads = file_reads(&workshop);
            assert_eq!(row(get(&tree.version.load(), &reader, key).unwrap()).as_ref(), Some(value));
            assert_eq!(file_reads(&workshop), reads, "{in_leaf} in the leaf: {key:?}");
        }
        assert!(read > 10 && unknown <= 2, "{in_leaf} in the leaf: blocks of {read} keys, {unknown} unknown");
    }
}

#[test]
fn what_a_prefetch_cannot_read_is_reported_by_the_get() {
    let (workshop, tree) = of_3000(3000);
    let registered = workshop.register(Seq(3000 * 256));
    let reader = workshop.reader(registered.seq());
    get(&tree.version.load(), &reader, b"00001").unwrap();
    let Child::Leaf(leaf) = Path::to(&tree.version.load(), Place::From(b"02000")).child.clone() else {
        panic!("a leaf")
    };
    let zeros = vec![0; leaf.extent_bytes() as usize];
    workshop.io.file.write(leaf.meta.offset, &zeros).unwrap();
    assert_eq!(prefetched(&workshop, &tree, b"02000"), Some(true));
    assert_eq!(workshop.io.counters.get(Counter::BlocksPrefetched), 0);
    assert!(matches!(get(&tree.version.load(), &reader, b"02000"), Err(Error::Corrupt { .. })));
}

#[test]
fn what_is_cut_off_is_on_the_next_page() {
    // Far more keys in a memtable than a page takes, over no leaf at all.
    let history: History = (1..=3000u64)
        .map(|n| {
            (Seq(n * 256), Change::Entry(format!("{:05}", n * 7919 % 3001).into_bytes(), Kind::Put, vec![n as u8; 3]))
        })
        .collect();
    let workshop = Workshop::new(history);
    let part = workshop.memtable(Seq::ZERO, Seq(u64::MAX));
    let tree = tree(&workshop, TreeVersion { active: part, frozen: Vec::new(), root: Inner::empty() });
    let reader = workshop.reader(Seq(2500 * 256));
    let rows = replay(&workshop.history, reader.at);
    assert_eq!(rows.len(), 2500);
    check_scans(&reader, &tree, &rows);
    let estimated = estimate(reader, &tree, b"", None).unwrap();
    assert!((2500..=3000).contains(&estimated.keys), "{estimated:?}");
    assert_eq!(estimate(reader, &tree, b"00010", Some(b"00010")).unwrap().keys, 0);
    let few = rows.range(b"00100".to_vec()..b"00150".to_vec()).count() as u64;
    assert_eq!(estimate(reader, &tree, b"00100", Some(b"00150")).unwrap().keys, few);
}

#[test]
fn a_ripened_block_says_nothing_of_keys_that_its_slot_was_given_later() {
    let mut random = Random::new(9);
    let mut changes = history(&mut random, 1200, false);
    // Leaves have rows in the middle only; what comes later reaches everywhere.
    let (low, high) = (key(100), key(200));
    changes.retain(|(_, change)| !matches!(change, Change::Entry(_, Kind::Update, ..)));
    changes.retain(|(seq, change)| {
        *seq > Seq(900 * 256) || matches!(change, Change::Entry(key, ..) if (&low..&high).contains(&key))
    });
    let workshop = Workshop::new(changes);
    workshop.visible.store(1200 * 256, Ordering::SeqCst);
    let registered = workshop.register(Seq(1200 * 256));
    let reader = workshop.reader(registered.seq());
    let rows = replay(&workshop.history, reader.at);
    let leaf = workshop.leaf(Seq(900 * 256), &[], None);
    let cuts = [900, 900, 900, 1200, 1200, 1200];
    let narrow = Shape {
        bounds: vec![Vec::new(), low.clone(), high.clone()],
        leaves: vec![None, leaf.clone(), None],
        together: 3,
    };
    let tree = tree(&workshop, narrow.version(&workshop, cuts));
    (0..3).for_each(|_| check_scans(&reader, &tree, &rows));
    assert!(workshop.io.counters.get(Counter::BlocksRipened) > 1);
    let wide = Shape { bounds: vec![Vec::new()], leaves: vec![leaf], together: 1 };
    tree.version.store(Arc::new(wide.version(&workshop, cuts)));
    for _ in 0..3 {
        check_gets(&reader, &tree, &rows);
        check_walk(&reader, &tree, &rows, &mut random);
        check_scans(&reader, &tree, &rows);
    }
}
