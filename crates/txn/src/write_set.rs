//! The writes of one transaction, ordered per tree so that cursors can merge them with a snapshot ([`Written`]), with what
//! undoes them and with the notes.
//!
//! Notes record for readers of the history what happened, in order. The value of a note is stored in the record once, as
//! the operation that writes it, unless the transaction writes it again: then the note keeps the old value.

use std::collections::BTreeMap;
use std::sync::Arc;

use arbor_base::TreeId;
use arbor_base::memory::{self, Class, Reservation};
use arbor_engine::{Op, TreeOptions, UpdateFunction};

use crate::ledger;
use crate::record::{self, NoteValue, Place};
use crate::scratch::{SPILLED_BYTES_MIN, Scratch, ScratchDirectory, Value};
use crate::written::{CounterChange, Entry, KeyRange, Presence, TreeWrites, Written};
use crate::{CounterId, Result};

/// Memory of one entry in addition to its key and value (map node, two allocations).
const ENTRY_OVERHEAD: usize = 48;

/// The reversal of one change.
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
        before: Option<Arc<TreeWrites>>,
    },
    Counter {
        id: CounterId,
        before: Option<CounterChange>,
    },
    Logical {
        before: Vec<u8>,
    },
    /// The last note.
    Note,
}

/// A note before it is encoded in a record. Only the record says which operation it refers to.
#[derive(Debug)]
struct Note {
    tree: TreeId,
    about: Value,
    /// Its value, when the entry has another value by now.
    value: Option<Value>,
}

#[derive(Debug)]
pub(crate) struct WriteSet {
    written: Written,
    logical: Vec<u8>,
    places: BTreeMap<TreeId, Vec<u8>>,
    notes: Vec<Note>,
    loads: Vec<record::Load>,
    bytes: usize,
    /// Bytes of values and of what notes say that were taken into memory, also of those that were replaced since.
    memory_bytes: usize,
    /// Memory of all of it that is not in a file.
    reservation: Reservation,
    /// Kept from the first savepoint on.
    undo: Option<Vec<Undo>>,
}

/// The write set taken apart for the commit path.
pub(crate) struct Changes {
    pub ops: Vec<Op>,
    pub counters: Vec<(CounterId, CounterChange)>,
    pub logical: Vec<u8>,
    pub places: Vec<Place>,
    pub notes: Vec<record::Note>,
    pub loads: Vec<record::Load>,
}

fn cost(key: &[u8], entry: &Entry) -> usize {
    ENTRY_OVERHEAD + key.len() + entry.value_bytes()
}

impl Default for WriteSet {
    fn default() -> WriteSet {
        WriteSet {
            written: Written::default(),
            logical: Vec::new(),
            places: BTreeMap::new(),
            notes: Vec::new(),
            loads: Vec::new(),
            bytes: 0,
            memory_bytes: 0,
            reservation: memory::process().reservation(Class::Transaction),
            undo: None,
        }
    }
}

impl WriteSet {
    /// Contents of the write set, for the code that takes it apart.
    pub(crate) fn take_reservation(&mut self) -> Reservation {
        std::mem::replace(&mut self.reservation, memory::process().reservation(Class::Transaction))
    }

    pub(crate) fn written(&self) -> &Written {
        &self.written
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.written.is_empty() && self.logical.is_empty() && self.notes.is_empty() && self.loads.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if bytes go to a file: many do once values in memory take more than the limit, or than the process has for them.
    pub(crate) fn spills(&mut self, bytes: usize, limit: usize) -> bool {
        let held = self.memory_bytes + bytes;
        bytes >= SPILLED_BYTES_MIN && (held > limit || !self.reservation.try_cover(held))
    }

    /// The bytes as a value in memory.
    pub(crate) fn kept(&mut self, bytes: Vec<u8>) -> Value {
        self.memory_bytes += bytes.len();
        self.reservation.cover(self.memory_bytes);
        Value::Memory(bytes)
    }

    /// The bytes as a value in the transaction's file, which is created when there is none.
    pub(crate) fn spilled(&mut self, bytes: Vec<u8>, directory: &ScratchDirectory) -> Value {
        if self.written.scratch.is_none() {
            self.written.scratch = Scratch::create(directory).ok().map(Arc::new);
        }
        let value = match &self.written.scratch {
            Some(scratch) => Value::spilled(scratch, bytes),
            None => Value::Memory(bytes),
        };
        self.memory_bytes += value.memory_bytes();
        value
    }

    /// Like `set`, but with a note that refers to the value.
    pub(crate) fn set_noted(&mut self, tree: TreeId, key: Vec<u8>, value: Value, about: Value) {
        let note = Some(self.notes.len() as u32);
        self.put_entry(tree, key, Entry { value: Some(value), note, is_update: false });
        self.note(tree, about);
    }

    /// Returns false, and does nothing, where U1 forbids a message.
    pub(crate) fn update(
        &mut self,
        tree: TreeId,
        key: Vec<u8>,
        message: Value,
        function: &Arc<dyn UpdateFunction>,
    ) -> bool {
        let own = self.written.tree(tree);
        if own.is_some_and(|own| {
            own.presence != Presence::Unchanged || own.entries.contains_key(&key) || own.range_over(&key).is_some()
        }) {
            return false;
        }
        self.written.updates.get_or_insert_with(|| function.clone());
        self.put_entry(tree, key, Entry { value: Some(message), note: None, is_update: true });
        true
    }

    pub(crate) fn note(&mut self, tree: TreeId, about: Value) {
        self.bytes += ENTRY_OVERHEAD + about.len();
        self.notes.push(Note { tree, value: None, about });
        if let Some(undo) = &mut self.undo {
            undo.push(Undo::Note);
        }
    }

    /// The record refers to a load. That is not undone.
    pub(crate) fn refer_to(&mut self, load: record::Load) {
        assert!(self.loads.iter().all(|before| before.tree != load.tree), "{} is loaded once", load.tree);
        self.bytes += ENTRY_OVERHEAD;
        self.loads.push(load);
    }

    /// Describes a tree, unless it is described already. That is no change, and is not undone.
    pub(crate) fn describe(&mut self, tree: TreeId, place: impl FnOnce() -> Vec<u8>) {
        self.places.entry(tree).or_insert_with(place);
    }

    /// Moves the value of an entry that is overwritten or removed into the note that refers to it.
    fn part(&mut self, entry: &Entry) {
        if let Some(note) = entry.note {
            self.bytes += entry.value_bytes();
            self.note_mut(note).value = entry.value.clone();
        }
    }

    fn note_mut(&mut self, note: u32) -> &mut Note {
        self.notes.get_mut(note as usize).expect("an entry's note is there")
    }

    /// The entry is the transaction's again.
    fn rejoin(&mut self, entry: &Entry) {
        if let Some(note) = entry.note {
            self.bytes -= entry.value_bytes();
            self.note_mut(note).value = None;
        }
    }

    pub(crate) fn set(&mut self, tree: TreeId, key: Vec<u8>, value: Option<Value>) {
        self.put_entry(tree, key, Entry::of(value));
    }

    fn put_entry(&mut self, tree: TreeId, key: Vec<u8>, entry: Entry) {
        self.bytes += cost(&key, &entry);
        let undo_key = self.undo.is_some().then(|| key.clone());
        let key_len = key.len();
        let before = self.written.tree_mut(tree).entries.insert(key, entry);
        if let Some(before) = &before {
            self.bytes -= ENTRY_OVERHEAD + key_len + before.value_bytes();
            self.part(before);
        }
        if let (Some(undo), Some(key)) = (&mut self.undo, undo_key) {
            undo.push(Undo::Entry { tree, key, before });
        }
    }

    pub(crate) fn delete_range(&mut self, tree: TreeId, range: KeyRange) {
        if range.to.as_ref().is_some_and(|to| *to <= range.from) {
            return;
        }
        let writes = self.written.tree_mut(tree);
        let removed = writes.cut(&range);
        self.bytes += ENTRY_OVERHEAD + range.from.len();
        writes.ranges.push(range);
        for (key, entry) in &removed {
            self.bytes -= cost(key, entry);
            self.part(entry);
        }
        if let Some(undo) = &mut self.undo {
            undo.push(Undo::Range { tree, removed });
        }
    }

    pub(crate) fn create_tree(&mut self, tree: TreeId, options: TreeOptions) {
        self.replace_tree(tree, Presence::Created(options));
    }

    pub(crate) fn drop_tree(&mut self, tree: TreeId) {
        self.replace_tree(tree, Presence::Dropped);
    }

    fn replace_tree(&mut self, tree: TreeId, presence: Presence) {
        let writes = TreeWrites { presence, ..TreeWrites::default() };
        self.bytes += ENTRY_OVERHEAD;
        let before = self.written.trees.insert(tree, Arc::new(writes));
        before.iter().flat_map(|before| before.entries.values()).for_each(|entry| self.part(entry));
        if let Some(undo) = &mut self.undo {
            undo.push(Undo::Tree { tree, before });
        }
    }

    pub(crate) fn add_counter(&mut self, id: CounterId, delta: i64) {
        let before = self.written.counters.get(&id).copied();
        let after = match before {
            None => CounterChange::Add(delta),
            Some(CounterChange::Add(sum)) => CounterChange::Add(sum.wrapping_add(delta)),
            Some(CounterChange::Drop) => return,
        };
        self.change_counter(id, before, after);
    }

    pub(crate) fn drop_counter(&mut self, id: CounterId) {
        self.change_counter(id, self.written.counters.get(&id).copied(), CounterChange::Drop);
    }

    fn change_counter(&mut self, id: CounterId, before: Option<CounterChange>, after: CounterChange) {
        self.written.counters.insert(id, after);
        if let Some(undo) = &mut self.undo {
            undo.push(Undo::Counter { id, before });
        }
    }

    pub(crate) fn set_logical(&mut self, logical: Vec<u8>) {
        let before = std::mem::replace(&mut self.logical, logical);
        if let Some(undo) = &mut self.undo {
            undo.push(Undo::Logical { before });
        }
    }

    /// Number of changes that `rollback_to` keeps.
    pub(crate) fn savepoint(&mut self) -> usize {
        self.undo.get_or_insert_default().len()
    }

    pub(crate) fn rollback_to(&mut self, savepoint: usize) {
        while self.undo.as_ref().is_some_and(|undo| undo.len() > savepoint) {
            if let Some(change) = self.undo.as_mut().and_then(Vec::pop) {
                self.undo_change(change);
            }
        }
    }

    fn undo_change(&mut self, change: Undo) {
        match change {
            Undo::Entry { tree, key, before } => {
                let writes = self.written.tree_mut(tree);
                if let Some(entry) = writes.entries.remove(&key) {
                    self.bytes -= cost(&key, &entry);
                }
                if let Some(entry) = before {
                    self.bytes += cost(&key, &entry);
                    self.rejoin(&entry);
                    self.written.tree_mut(tree).entries.insert(key, entry);
                }
                self.forget_if_unchanged(tree);
            }
            Undo::Range { tree, removed } => {
                for (key, entry) in &removed {
                    self.bytes += cost(key, entry);
                    self.rejoin(entry);
                }
                let writes = self.written.tree_mut(tree);
                if let Some(range) = writes.ranges.pop() {
                    self.bytes -= ENTRY_OVERHEAD + range.from.len();
                }
                writes.entries.extend(removed);
                self.forget_if_unchanged(tree);
            }
            Undo::Tree { tree, before } => {
                self.bytes -= ENTRY_OVERHEAD;
                before.iter().flat_map(|before| before.entries.values()).for_each(|entry| self.rejoin(entry));
                match before {
                    Some(writes) => self.written.trees.insert(tree, writes),
                    None => self.written.trees.remove(&tree),
                };
            }
            Undo::Counter { id, before } => {
                match before {
                    Some(change) => self.written.counters.insert(id, change),
                    None => self.written.counters.remove(&id),
                };
            }
            Undo::Logical { before } => self.logical = before,
            Undo::Note => self.bytes -= self.notes.pop().map_or(0, |note| ENTRY_OVERHEAD + note.about.len()),
        }
    }

    fn forget_if_unchanged(&mut self, tree: TreeId) {
        if self.written.tree(tree).is_some_and(TreeWrites::is_unchanged) {
            self.written.trees.remove(&tree);
        }
    }

    /// Operations in replay order: created trees, ranges, entries, dropped trees. What was spilled is read back.
    pub(crate) fn into_changes(self) -> Result<Changes> {
        let WriteSet { written, logical, places, notes, loads, .. } = self;
        let Written { trees, counters, scratch, .. } = written;
        let scratch = scratch.as_deref();
        let mut recorded: Vec<record::Note> = Vec::with_capacity(notes.len());
        for Note { tree, about, value } in notes {
            let value = value.map(|value| value.into_bytes(scratch)).transpose()?;
            let value = value.map_or(NoteValue::Nothing, NoteValue::Inline);
            recorded.push(record::Note { tree, about: about.into_bytes(scratch)?, value });
        }
        let mut ops = Vec::with_capacity(trees.values().map(|w| w.entries.len() + w.ranges.len() + 2).sum());
        let mut dropped = Vec::new();
        for (tree, writes) in trees {
            let writes = Arc::unwrap_or_clone(writes);
            match writes.presence {
                Presence::Unchanged => {}
                Presence::Created(options) => {
                    let row = ledger::put_tree(tree, &options);
                    ops.push(Op::CreateTree { tree, options });
                    ops.push(row);
                }
                Presence::Dropped => {
                    dropped.push(tree);
                    continue;
                }
            }
            ops.extend(writes.ranges.into_iter().map(|r| Op::DeleteRange { tree, from: r.from, to: r.to }));
            for (key, Entry { value, note, is_update }) in writes.entries {
                assert!(!is_update || note.is_none(), "the history has no value of a row that was not read");
                if let Some(note) = note {
                    let recorded = recorded.get_mut(note as usize).expect("an entry's note is there");
                    recorded.value = NoteValue::Op(ops.len());
                }
                ops.push(match value {
                    Some(message) if is_update => Op::Update { tree, key, update: message.into_bytes(scratch)? },
                    Some(value) => Op::Put { tree, key, value: value.into_bytes(scratch)? },
                    None => Op::Delete { tree, key },
                });
            }
        }
        for tree in dropped {
            ops.push(Op::DropTree { tree });
            ops.push(ledger::delete_tree(tree));
        }
        let (counters, places) = (counters.into_iter().collect(), places.into_iter().collect());
        Ok(Changes { ops, counters, logical, places, notes: recorded, loads })
    }
}
