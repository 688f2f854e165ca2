//! Folding against a model that replays history.
//!
//! A history of puts, deletes, updates and range deletes on a few keys is spread over levels, for each key newest on top.
//! Then neighbouring levels are folded in random order while snapshots come and go. After each step every registered
//! snapshot must read what a replay of the history up to it gives.

use std::collections::BTreeMap;
use std::ops::Range;

use arbor_engine::UpdateFunction;
use proptest::prelude::*;

use super::message_merge::NoRows;
use super::*;
use crate::block::Block;
use crate::{Error, Kind, RangeTombstone, Seq, update};

const KEYS: u8 = 5;
const LEVELS: usize = 4;

type Row = Option<Vec<u8>>;
type Rows = BTreeMap<u8, Vec<u8>>;

/// `+x` appends, `-` deletes a row, `0` deletes it when it is long; two `+` combine.
struct Text;

impl UpdateFunction for Text {
    fn apply(&self, _: &[u8], row: Option<&[u8]>, update: &[u8]) -> Row {
        match update.split_first() {
            Some((b'+', more)) => Some([row.unwrap_or(b"?"), more].concat()),
            Some((b'0', _)) => row.filter(|row| row.len() < 3).map(<[u8]>::to_vec),
            _ => None,
        }
    }

    fn combine(&self, older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let (Some(b'+'), Some(b'+')) = (older.first(), newer.first()) else { return None };
        Some([older, newer.get(1..)?].concat())
    }
}

#[derive(Clone, Debug)]
enum Change {
    Put(u8, u8),
    PutBlob(u8, u8),
    Delete(u8),
    Update(u8, &'static str),
    DeleteRange(u8, Option<u8>),
}

fn change() -> impl Strategy<Value = Change> {
    let key = 0..KEYS;
    prop_oneof![
        3 => (key.clone(), b'a'..=b'z').prop_map(|(key, value)| Change::Put(key, value)),
        1 => (key.clone(), b'a'..=b'z').prop_map(|(key, value)| Change::PutBlob(key, value)),
        2 => key.clone().prop_map(Change::Delete),
        4 => (key.clone(), prop::sample::select(vec!["+x", "+y", "-", "0"])).prop_map(|(key, up)| Change::Update(key, up)),
        2 => (key.clone(), prop::option::of(0..=KEYS)).prop_map(|(from, to)| Change::DeleteRange(from, to)),
    ]
}

/// Changes of a batch at some sequence number. Range deletes come first: they spare their own batch.
fn batch() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec(change(), 1..4).prop_map(|mut batch| {
        batch.sort_by_key(|change| !matches!(change, Change::DeleteRange(..)));
        batch
    })
}

#[derive(Clone, Debug)]
struct Step {
    /// Levels `top..=last` become one.
    top: usize,
    last: usize,
    /// Index of the snapshot to be released first, if there are that many.
    release: Option<usize>,
}

fn step() -> impl Strategy<Value = Step> {
    (0..LEVELS, 0..LEVELS, prop::option::of(0usize..4)).prop_map(|(a, b, release)| Step {
        top: a.min(b),
        last: a.max(b),
        release,
    })
}

#[derive(Clone, Debug)]
struct Case {
    /// Batch `i` has the sequence number `i + 1`.
    history: Vec<Vec<Change>>,
    snapshots: Vec<u64>,
    /// Per key: above which sequence number the levels begin; descending.
    cuts: Vec<Vec<u64>>,
    steps: Vec<Step>,
    with_combine: bool,
}

fn case() -> impl Strategy<Value = Case> {
    prop::collection::vec(batch(), 1..14).prop_flat_map(|history| {
        let end = history.len() as u64;
        let cuts = prop::collection::vec(0..=end, LEVELS - 1).prop_map(|mut cuts| {
            cuts.sort_unstable_by(|a, b| b.cmp(a));
            cuts
        });
        (
            Just(history),
            prop::collection::vec(0..=end, 0..5),
            prop::collection::vec(cuts, usize::from(KEYS)),
            prop::collection::vec(step(), 1..6),
            any::<bool>(),
        )
            .prop_map(|(history, snapshots, cuts, steps, with_combine)| Case {
                history,
                snapshots,
                cuts,
                steps,
                with_combine,
            })
    })
}

/// Without `combine`.
struct Plain;

impl UpdateFunction for Plain {
    fn apply(&self, key: &[u8], row: Option<&[u8]>, update: &[u8]) -> Row {
        Text.apply(key, row, update)
    }
}

/// The state that a reader at `at` sees.
fn replay(history: &[Vec<Change>], at: u64) -> Rows {
    let mut rows = Rows::new();
    for change in history.iter().take(at as usize).flatten() {
        match change {
            Change::Put(key, value) | Change::PutBlob(key, value) => {
                rows.insert(*key, vec![*value]);
            }
            Change::Delete(key) => {
                rows.remove(key);
            }
            Change::Update(key, up) => {
                let row = rows.remove(key);
                rows.extend(Text.apply(&[*key], row.as_deref(), up.as_bytes()).map(|row| (*key, row)));
            }
            Change::DeleteRange(from, to) => rows.retain(|key, _| key < from || to.is_some_and(|to| *key >= to)),
        }
    }
    rows
}

#[derive(Clone, Default, Debug)]
struct Level {
    /// In the order E1.
    entries: Vec<(Vec<u8>, Seq, Kind, Vec<u8>)>,
    tombstones: Vec<RangeTombstone>,
}

impl Level {
    fn entries(&self) -> Vec<Entry<'_>> {
        self.entries.iter().map(|(key, seq, kind, value)| Entry { key, seq: *seq, kind: *kind, value }).collect()
    }
}

/// A blob's pointer is its value with a `#` before it.
fn load_blob(pointer: &[u8]) -> Result<Vec<u8>> {
    match pointer.split_first() {
        Some((b'#', value)) => Ok(value.to_vec()),
        _ => Err(Error::Other("no pointer".into())),
    }
}

/// Spreads the history over the levels.
fn spread(case: &Case) -> Vec<Level> {
    let mut levels = vec![Level::default(); LEVELS];
    for (at, batch) in case.history.iter().enumerate() {
        let seq = at as u64 + 1;
        let level_of = |key: u8| case.cuts[usize::from(key)].iter().take_while(|cut| seq <= **cut).count();
        for change in batch {
            let (key, kind, value) = match change {
                Change::Put(key, value) => (*key, Kind::Put, vec![*value]),
                Change::PutBlob(key, value) => (*key, Kind::PutBlob, vec![b'#', *value]),
                Change::Delete(key) => (*key, Kind::Delete, Vec::new()),
                Change::Update(key, up) => (*key, Kind::Update, update::chain_of(up.as_bytes())),
                Change::DeleteRange(from, to) => {
                    for key in *from..to.unwrap_or(KEYS) {
                        let to = (key + 1 < KEYS || to.is_some()).then(|| vec![key + 1]);
                        levels[level_of(key)].tombstones.push(RangeTombstone { from: vec![key], to, seq: Seq(seq) });
                    }
                    continue;
                }
            };
            let entries = &mut levels[level_of(key)].entries;
            let place = entries.partition_point(|entry| entry.0[0] < key);
            entries.insert(place, (vec![key], Seq(seq), kind, value));
        }
    }
    levels
}

/// Rows of the levels as a reader at `at` finds them: naively, without fold or merge.
fn read(levels: &[Level], at: Seq) -> Rows {
    let mut rows = Rows::new();
    for key in 0..KEYS {
        let mut chains: Vec<&[u8]> = Vec::new();
        let mut deleted = None;
        let mut row: Row = None;
        'levels: for level in levels {
            let covering = level.tombstones.iter().filter(|tombstone| tombstone.seq <= at && tombstone.covers(&[key]));
            deleted = deleted.max(covering.map(|tombstone| tombstone.seq).max());
            for (_, seq, kind, value) in level.entries.iter().filter(|entry| entry.0 == [key] && entry.1 <= at) {
                if deleted.is_some_and(|deleted| *seq < deleted) {
                    break 'levels;
                }
                match kind {
                    Kind::Update => chains.push(value),
                    Kind::Put => row = Some(value.clone()),
                    Kind::PutBlob => row = Some(load_blob(value).unwrap()),
                    Kind::Delete => {}
                }
                if kind.is_final() {
                    break 'levels;
                }
            }
        }
        for chain in chains.iter().rev() {
            row = update::apply_chain(&Text, &[key], row.as_deref(), chain).unwrap();
        }
        rows.extend(row.map(|row| (key, row)));
    }
    rows
}

impl Sink for Level {
    fn begin(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn push(&mut self, entry: Entry<'_>) -> Result<()> {
        self.entries.push((entry.key.to_vec(), entry.seq, entry.kind, entry.value.to_vec()));
        Ok(())
    }

    fn push_rows(&mut self, block: &Block, rows: Range<usize>) -> Result<()> {
        rows.into_iter().try_for_each(|row| self.push(block.entry(row)))
    }
}

/// The levels as one, by the code under test.
fn fold_levels(levels: &[Level], fold: Fold<'_>) -> Level {
    let tombstones = levels.iter().flat_map(|level| &level.tombstones);
    let fragments = Fragments::new(tombstones, fold.stripes, &[], None);
    let entries: Vec<Vec<Entry<'_>>> = levels.iter().map(Level::entries).collect();
    let merge = Merge::new(entries.iter().map(|entries| Slice::new(entries)).collect(), 0);
    let mut message_merge = MessageMerge::new(merge, NoRows, fold, &fragments);
    let mut folded = Level::default();
    while message_merge.step(&mut folded).unwrap() {}
    if !fold.bottom {
        folded.tombstones = fragments.within(&[], None).collect();
    }
    folded
}

fn is_minimal(level: &Level, fold: Fold<'_>) -> bool {
    let mut stripes: Vec<_> =
        level.entries.iter().map(|entry| (&entry.0, fold::stripe(fold.stripes, entry.1))).collect();
    let entries = stripes.len();
    stripes.dedup();
    let oldest_is_row = level.entries.iter().enumerate().all(|(at, entry)| {
        let oldest = level.entries.get(at + 1).is_none_or(|next| next.0 != entry.0);
        let zero = (entry.1 == Seq::ZERO) == (fold::stripe(fold.stripes, entry.1) == 0);
        zero && entry.2 != Kind::Update && (!oldest || entry.2 != Kind::Delete)
    });
    entries == stripes.len() && (!fold.bottom || oldest_is_row)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 1500 }))]

    #[test]
    fn every_snapshot_reads_the_same_whatever_is_folded(case in case()) {
        let function: &dyn UpdateFunction = if case.with_combine { &Text } else { &Plain };
        let mut levels = spread(&case);
        let newest = case.history.len() as u64;
        let mut snapshots = case.snapshots.clone();
        for step in &case.steps {
            if let Some(place) = step.release.filter(|place| *place < snapshots.len()) {
                snapshots.remove(place);
            }
            let mut stripes: Vec<Seq> = snapshots.iter().map(|seq| Seq(*seq)).collect();
            stripes.sort_unstable();
            stripes.dedup();
            let bottom = step.last + 1 == LEVELS;
            let fold = Fold { stripes: &stripes, bottom, updates: Some(function), load_blob: &load_blob };
            let folded = fold_levels(&levels[step.top..=step.last], fold);
            prop_assert!(is_minimal(&folded, fold), "{folded:?} of {stripes:?}");
            levels[step.top..step.last].fill(Level::default());
            levels[step.last] = folded;
            for at in snapshots.iter().chain([&newest]) {
                prop_assert_eq!(read(&levels, Seq(*at)), replay(&case.history, *at), "at {} in {:?}", at, levels);
            }
        }
    }

    #[test]
    fn a_merge_is_a_stable_sort(
        lists in prop::collection::vec(prop::collection::vec((prop::collection::vec(0u8..3, 0..12), 0u64..3), 0..12), 0..6),
        common in 0usize..3,
        target in prop::collection::vec(0u8..3, 0..12),
    ) {
        let prefix = vec![7; common];
        let lists: Vec<Vec<(Vec<u8>, u64)>> = lists.into_iter().map(|list| {
            let mut list: Vec<_> = list.into_iter().map(|(key, seq)| ([prefix.clone(), key].concat(), seq)).collect();
            list.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
            list
        }).collect();
        let mut expect: Vec<(&[u8], u64)> = lists.iter().flatten().map(|(key, seq)| (key.as_slice(), *seq)).collect();
        expect.sort_by_key(|(key, _)| *key);
        let entries: Vec<Vec<Entry<'_>>> = lists.iter().map(|list| list.iter().map(|(key, seq)| {
            Entry { key, seq: Seq(*seq), kind: Kind::Put, value: &[] }
        }).collect()).collect();
        let merge = || Merge::new(entries.iter().map(|list| Slice::new(list)).collect(), common);
        let rest = |mut merge: Merge<Slice<'_>>| {
            let mut found = Vec::new();
            while let Some(entry) = merge.entry() {
                found.push((entry.key.to_vec(), entry.seq.0));
                merge.advance().unwrap();
            }
            found
        };
        let owned = |list: &[(&[u8], u64)]| list.iter().map(|(key, seq)| (key.to_vec(), *seq)).collect::<Vec<_>>();
        prop_assert_eq!(rest(merge()), owned(&expect));
        let target = [prefix, target].concat();
        let mut sought = merge();
        sought.seek(&target).unwrap();
        expect.retain(|(key, _)| *key >= target.as_slice());
        prop_assert_eq!(rest(sought), owned(&expect));
        let mut passed = merge();
        passed.seek(&target).unwrap();
        passed.pass_key().unwrap();
        let first = expect.first().map(|first| first.0);
        expect.retain(|(key, _)| Some(*key) != first);
        prop_assert_eq!(rest(passed), owned(&expect));
    }

    #[test]
    fn fragments_say_what_the_tombstones_said(
        tombstones in prop::collection::vec((0u8..8, prop::option::of(0u8..9), 1u64..9), 0..8),
        stripes in prop::collection::btree_set(0u64..9, 0..4),
        from in 0u8..4,
        to in prop::option::of(4u8..9),
    ) {
        let stripes: Vec<Seq> = stripes.into_iter().map(Seq).collect();
        let tombstones: Vec<RangeTombstone> = tombstones.into_iter().map(|(from, to, seq)| {
            RangeTombstone { from: vec![from], to: to.map(|to| vec![to]), seq: Seq(seq) }
        }).collect();
        let to = to.map(|to| vec![to]);
        let fragments = Fragments::new(&tombstones, &stripes, &[from], to.as_deref());
        let again: Vec<RangeTombstone> = fragments.within(&[], None).collect();
        let narrow: Vec<RangeTombstone> = fragments.within(&[2], Some(&[5])).collect();
        let mut place = 0;
        for key in 0..10u8 {
            let key = [key];
            let inside = key.as_slice() >= &[from] && to.as_ref().is_none_or(|to| key.as_slice() < to.as_slice());
            let mut expect: Vec<Seq> = tombstones.iter().filter(|one| inside && one.covers(&key)).map(|one| one.seq).collect();
            expect.sort_unstable_by(|a, b| b.cmp(a));
            expect.dedup_by_key(|seq| fold::stripe(&stripes, *seq));
            let found = fragments.covering(&mut place, &key).map(|fragment| fragment.seqs.clone());
            prop_assert_eq!(found.unwrap_or_default(), expect.clone());
            let of = |list: &[RangeTombstone]| {
                list.iter().filter(|one| one.covers(&key)).map(|one| one.seq).collect::<Vec<_>>()
            };
            prop_assert_eq!(of(&again), expect.clone());
            if (2..5).contains(&key[0]) {
                prop_assert_eq!(of(&narrow), expect);
            } else {
                prop_assert!(of(&narrow).is_empty());
            }
        }
    }
}

#[test]
fn an_update_that_has_to_resolve_needs_a_function() {
    let chain = update::chain_of(b"+x");
    let check = |bottom: bool, older: &[(Kind, &[u8])], ok: bool| {
        let mut versions = Versions::default();
        versions.begin(b"k");
        versions.push(Entry { key: b"k", seq: Seq(9), kind: Kind::Update, value: &chain });
        for (kind, value) in older {
            versions.push(Entry { key: b"k", seq: Seq(5), kind: *kind, value });
        }
        let fold = Fold { stripes: &[], bottom, updates: None, load_blob: &load_blob };
        assert_eq!(fold.fold(&versions, &mut Vec::new()).is_ok(), ok, "{bottom} {older:?}");
    };
    check(false, &[], true);
    check(false, &[(Kind::Update, &chain)], true);
    check(false, &[(Kind::Put, b"a")], false);
    check(false, &[(Kind::Delete, b"")], false);
    check(true, &[], false);
}
