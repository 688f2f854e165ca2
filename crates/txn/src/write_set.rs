//! The writes of one transaction, in memory, ordered per tree so that cursors can merge them with a snapshot.
//!
//! Within a tree, an entry is always newer than every deleted range: deleting a range removes the entries inside it, and
//! entries written later shadow the range. So `ranges` first and `entries` after them replays the transaction.
//!
//! Notes tell readers of the history what happened, in order. The value that one tells of stands in the record once, as
//! the operation that writes it, unless the transaction writes it again: then the note keeps what it was.

use std::collections::BTreeMap;

use arbor_base::TreeId;
use arbor_engine::{Op, TreeOptions};

use crate::CounterId;
use crate::ledger;
use crate::record::{Note, Place, Told};

/// `None` is a deletion.
pub(crate) type Entry = Option<Vec<u8>>;

/// Bytes that one entry costs beside its key and value (map node, two allocations).
const ENTRY_OVERHEAD: usize = 48;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub from: Vec<u8>,
    pub to: Option<Vec<u8>>,
}

impl KeyRange {
    pub fn contains(&self, key: &[u8]) -> bool {
        self.from.as_slice() <= key && self.to.as_deref().is_none_or(|to| key < to)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Presence {
    /// As in the snapshot.
    #[default]
    Unchanged,
    Created(TreeOptions),
    Dropped,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct TreeWrites {
    pub entries: BTreeMap<Vec<u8>, Entry>,
    pub ranges: Vec<KeyRange>,
    pub presence: Presence,
    /// Entries that a note tells of, with its number.
    noted: BTreeMap<Vec<u8>, usize>,
}

impl TreeWrites {
    /// The deleted range that hides `key` of the snapshot, if one does.
    pub fn range_over(&self, key: &[u8]) -> Option<&KeyRange> {
        self.ranges.iter().find(|range| range.contains(key))
    }

    fn cut(&mut self, range: &KeyRange) -> BTreeMap<Vec<u8>, Entry> {
        let mut inside = self.entries.split_off(&range.from);
        if let Some(to) = &range.to {
            let mut after = inside.split_off(to);
            self.entries.append(&mut after);
        }
        inside
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CounterChange {
    Add(i64),
    Drop,
}

/// What takes one change back.
#[derive(Debug)]
enum Undo {
    Entry {
        tree: TreeId,
        key: Vec<u8>,
        before: Option<Entry>,
    },
    Range {
        tree: TreeId,
        removed: BTreeMap<Vec<u8>, Entry>,
    },
    Tree {
        tree: TreeId,
        before: Option<TreeWrites>,
    },
    Counter {
        id: CounterId,
        before: Option<CounterChange>,
    },
    Logical {
        before: Vec<u8>,
    },
    /// The last note, and the entry that it tells of.
    Note {
        of: Option<(TreeId, Vec<u8>)>,
    },
    /// The note told of the entry, before the entry was written again.
    Parted {
        tree: TreeId,
        key: Vec<u8>,
        note: usize,
    },
}

#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    trees: BTreeMap<TreeId, TreeWrites>,
    counters: BTreeMap<CounterId, CounterChange>,
    logical: Vec<u8>,
    places: BTreeMap<TreeId, Vec<u8>>,
    /// One that tells of an entry says so only in `TreeWrites::noted`.
    notes: Vec<Note>,
    bytes: usize,
    /// Kept from the first savepoint on.
    undo: Option<Vec<Undo>>,
}

/// The write set taken apart for the commit path.
pub(crate) struct Changes {
    pub ops: Vec<Op>,
    pub counters: Vec<(CounterId, CounterChange)>,
    pub logical: Vec<u8>,
    pub places: Vec<Place>,
    pub notes: Vec<Note>,
}

fn cost(key: &[u8], entry: &Entry) -> usize {
    ENTRY_OVERHEAD + key.len() + entry.as_ref().map_or(0, Vec::len)
}

impl WriteSet {
    pub fn tree(&self, tree: TreeId) -> Option<&TreeWrites> {
        self.trees.get(&tree)
    }

    pub fn counter(&self, id: CounterId) -> Option<CounterChange> {
        self.counters.get(&id).copied()
    }

    pub fn is_empty(&self) -> bool {
        self.trees.is_empty() && self.counters.is_empty() && self.logical.is_empty() && self.notes.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// `set`, and a note that tells of the entry.
    pub fn set_noted(&mut self, tree: TreeId, key: Vec<u8>, value: Vec<u8>, about: Vec<u8>) {
        self.set(tree, key.clone(), Some(value));
        let number = self.notes.len();
        self.trees.entry(tree).or_default().noted.insert(key.clone(), number);
        self.add_note(tree, about, Some(key));
    }

    pub fn note(&mut self, tree: TreeId, about: Vec<u8>) {
        self.add_note(tree, about, None);
    }

    fn add_note(&mut self, tree: TreeId, about: Vec<u8>, key: Option<Vec<u8>>) {
        self.bytes += ENTRY_OVERHEAD + about.len();
        self.notes.push(Note { tree, told: Told::Nothing, about });
        if let Some(undo) = &mut self.undo {
            undo.push(Undo::Note { of: key.map(|key| (tree, key)) });
        }
    }

    /// Says what a tree holds, when it is not known yet. It is no change, and is not taken back.
    pub fn describe(&mut self, tree: TreeId, place: impl FnOnce() -> Vec<u8>) {
        self.places.entry(tree).or_insert_with(place);
    }

    /// The entry is about to change: a note that tells of it takes its value.
    fn part(&mut self, tree: TreeId, key: &[u8]) {
        let Some(writes) = self.trees.get_mut(&tree).filter(|writes| !writes.noted.is_empty()) else { return };
        let Some(note) = writes.noted.remove(key) else { return };
        if let Some(Some(value)) = writes.entries.get(key) {
            self.bytes += value.len();
            self.notes[note].told = Told::Value(value.clone());
        }
        if let Some(undo) = &mut self.undo {
            undo.push(Undo::Parted { tree, key: key.to_vec(), note });
        }
    }

    fn part_all(&mut self, tree: TreeId, range: &KeyRange) {
        let Some(writes) = self.trees.get(&tree).filter(|writes| !writes.noted.is_empty()) else { return };
        let keys: Vec<Vec<u8>> = writes.noted.keys().filter(|key| range.contains(key)).cloned().collect();
        keys.iter().for_each(|key| self.part(tree, key));
    }

    pub fn set(&mut self, tree: TreeId, key: Vec<u8>, entry: Entry) {
        self.part(tree, &key);
        self.bytes += cost(&key, &entry);
        let undo_key = self.undo.is_some().then(|| key.clone());
        let key_len = key.len();
        let before = self.trees.entry(tree).or_default().entries.insert(key, entry);
        if let Some(before) = &before {
            self.bytes -= ENTRY_OVERHEAD + key_len + before.as_ref().map_or(0, Vec::len);
        }
        if let (Some(undo), Some(key)) = (&mut self.undo, undo_key) {
            undo.push(Undo::Entry { tree, key, before });
        }
    }

    pub fn delete_range(&mut self, tree: TreeId, range: KeyRange) {
        if range.to.as_ref().is_some_and(|to| *to <= range.from) {
            return;
        }
        self.part_all(tree, &range);
        let writes = self.trees.entry(tree).or_default();
        let removed = writes.cut(&range);
        self.bytes -= removed.iter().map(|(key, entry)| cost(key, entry)).sum::<usize>();
        self.bytes += ENTRY_OVERHEAD + range.from.len();
        writes.ranges.push(range);
        if let Some(undo) = &mut self.undo {
            undo.push(Undo::Range { tree, removed });
        }
    }

    pub fn create_tree(&mut self, tree: TreeId, options: TreeOptions) {
        self.replace_tree(tree, Presence::Created(options));
    }

    pub fn drop_tree(&mut self, tree: TreeId) {
        self.replace_tree(tree, Presence::Dropped);
    }

    fn replace_tree(&mut self, tree: TreeId, presence: Presence) {
        self.part_all(tree, &KeyRange { from: Vec::new(), to: None });
        let writes = TreeWrites { presence, ..TreeWrites::default() };
        self.bytes += ENTRY_OVERHEAD;
        let before = self.trees.insert(tree, writes);
        if let Some(undo) = &mut self.undo {
            undo.push(Undo::Tree { tree, before });
        }
    }

    pub fn add_counter(&mut self, id: CounterId, delta: i64) {
        let before = self.counter(id);
        let after = match before {
            None => CounterChange::Add(delta),
            Some(CounterChange::Add(sum)) => CounterChange::Add(sum.wrapping_add(delta)),
            Some(CounterChange::Drop) => return,
        };
        self.change_counter(id, before, after);
    }

    pub fn drop_counter(&mut self, id: CounterId) {
        self.change_counter(id, self.counter(id), CounterChange::Drop);
    }

    fn change_counter(&mut self, id: CounterId, before: Option<CounterChange>, after: CounterChange) {
        self.counters.insert(id, after);
        if let Some(undo) = &mut self.undo {
            undo.push(Undo::Counter { id, before });
        }
    }

    pub fn set_logical(&mut self, logical: Vec<u8>) {
        let before = std::mem::replace(&mut self.logical, logical);
        if let Some(undo) = &mut self.undo {
            undo.push(Undo::Logical { before });
        }
    }

    /// Number of changes that `rollback_to` keeps.
    pub fn savepoint(&mut self) -> usize {
        self.undo.get_or_insert_default().len()
    }

    pub fn rollback_to(&mut self, savepoint: usize) {
        while self.undo.as_ref().is_some_and(|undo| undo.len() > savepoint) {
            if let Some(change) = self.undo.as_mut().and_then(Vec::pop) {
                self.take_back(change);
            }
        }
    }

    fn take_back(&mut self, change: Undo) {
        match change {
            Undo::Entry { tree, key, before } => {
                let writes = self.trees.entry(tree).or_default();
                if let Some(entry) = writes.entries.get(&key) {
                    self.bytes -= cost(&key, entry);
                }
                match before {
                    Some(entry) => {
                        self.bytes += cost(&key, &entry);
                        writes.entries.insert(key, entry);
                    }
                    None => {
                        writes.entries.remove(&key);
                    }
                }
                self.forget_if_unchanged(tree);
            }
            Undo::Range { tree, removed } => {
                let writes = self.trees.entry(tree).or_default();
                if let Some(range) = writes.ranges.pop() {
                    self.bytes -= ENTRY_OVERHEAD + range.from.len();
                }
                self.bytes += removed.iter().map(|(key, entry)| cost(key, entry)).sum::<usize>();
                writes.entries.extend(removed);
                self.forget_if_unchanged(tree);
            }
            Undo::Tree { tree, before } => {
                self.bytes -= ENTRY_OVERHEAD;
                match before {
                    Some(writes) => self.trees.insert(tree, writes),
                    None => self.trees.remove(&tree),
                };
            }
            Undo::Counter { id, before } => {
                match before {
                    Some(change) => self.counters.insert(id, change),
                    None => self.counters.remove(&id),
                };
            }
            Undo::Logical { before } => self.logical = before,
            Undo::Note { of } => {
                self.bytes -= self.notes.pop().map_or(0, |note| ENTRY_OVERHEAD + note.about.len());
                if let Some((tree, key)) = of
                    && let Some(writes) = self.trees.get_mut(&tree)
                {
                    writes.noted.remove(&key);
                }
            }
            Undo::Parted { tree, key, note } => {
                if let Told::Value(value) = std::mem::replace(&mut self.notes[note].told, Told::Nothing) {
                    self.bytes -= value.len();
                }
                self.trees.entry(tree).or_default().noted.insert(key, note);
            }
        }
    }

    fn forget_if_unchanged(&mut self, tree: TreeId) {
        let unchanged = self.trees.get(&tree).is_some_and(|writes| {
            writes.entries.is_empty() && writes.ranges.is_empty() && writes.presence == Presence::Unchanged
        });
        if unchanged {
            self.trees.remove(&tree);
        }
    }

    /// Operations in replay order: created trees, ranges, entries, dropped trees.
    pub fn into_changes(self) -> Changes {
        let WriteSet { trees, counters, logical, places, mut notes, .. } = self;
        let mut ops = Vec::with_capacity(trees.values().map(|w| w.entries.len() + w.ranges.len() + 2).sum());
        let mut dropped = Vec::new();
        for (tree, writes) in trees {
            match writes.presence {
                Presence::Unchanged => {}
                Presence::Created(options) => {
                    ops.push(Op::CreateTree { tree, options });
                    ops.push(ledger::put_tree(tree));
                }
                Presence::Dropped => {
                    dropped.push(tree);
                    continue;
                }
            }
            ops.extend(writes.ranges.into_iter().map(|r| Op::DeleteRange { tree, from: r.from, to: r.to }));
            let mut noted = writes.noted.into_iter().peekable();
            for (key, entry) in writes.entries {
                if let Some((_, note)) = noted.next_if(|(of, _)| *of == key) {
                    notes[note].told = Told::Op(ops.len());
                }
                ops.push(match entry {
                    Some(value) => Op::Put { tree, key, value },
                    None => Op::Delete { tree, key },
                });
            }
        }
        for tree in dropped {
            ops.push(Op::DropTree { tree });
            ops.push(ledger::delete_tree(tree));
        }
        let (counters, places) = (counters.into_iter().collect(), places.into_iter().collect());
        Changes { ops, counters, logical, places, notes }
    }
}
