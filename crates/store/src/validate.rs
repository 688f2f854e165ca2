//! The proof that a collection and its indexes agree, at one snapshot.
//!
//! Every key of every document has its entry, which leads back to the document; there are as many entries as keys, so
//! no entry is without its document. A full check also goes the other way and names the entries that are wrong, and
//! checks the bytes of every document.

use std::collections::BTreeMap;

use arbor_base::TreeId;
use arbor_bson::{Doc, Limits, keystring};
use arbor_lang::stop;
use arbor_txn::{ReadView, View};

use crate::collection::{bytes_counter, count_counter, unread_counter};
use crate::read::entry;
use crate::write::entry_of;
use crate::write::unread::SizeFound;
use crate::{Collection, Error, Index, Namespace, RecordCursor, Result, Store, record};

/// Findings beyond this number are counted and not described.
const PROBLEMS_MAX: usize = 100;

/// Statistics and findings; clean when `problems` is empty.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub records: u64,
    pub data_bytes: u64,
    /// Records whose bytes are no valid document, or are stored under a wrong key.
    pub corrupt_records: u64,
    /// `_id_` first.
    pub indexes: Vec<IndexReport>,
    pub problems: Vec<String>,
    /// Findings that `problems` has no room for.
    pub further_problems: u64,
    /// The counted size, where it need not be that of the documents.
    pub(crate) sizes: Vec<SizeFound>,
}

#[derive(Clone, Debug, Default)]
pub struct IndexReport {
    pub name: String,
    pub keys: u64,
    pub is_valid: bool,
}

impl Report {
    pub fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }

    fn found(&mut self, problem: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        } else {
            self.further_problems += 1;
        }
    }
}

impl Store {
    /// Checks the collection at a snapshot; writers continue meanwhile. Ends when the statement is to stop.
    pub fn validate(&self, namespace: &Namespace, full: bool) -> Result<Report> {
        let (collection, view) =
            self.snapshot(namespace)?.ok_or_else(|| Error::NamespaceNotFound(namespace.clone()))?;
        let mut check = Check { view: &view, collection: &collection, full, last: None, report: Report::default() };
        let expected = check.records()?;
        let keys = check.report.records;
        check.report.indexes.push(IndexReport { name: "_id_".into(), keys, is_valid: check.report.is_valid() });
        for (index, expected) in collection.indexes.iter().zip(expected) {
            check.index(index, expected)?;
        }
        Ok(check.report)
    }
}

struct Check<'a> {
    view: &'a ReadView,
    collection: &'a Collection,
    full: bool,
    /// The document that an entry led to last.
    last: Option<OwnKeys>,
    report: Report,
}

/// Keys of a document in one index.
struct OwnKeys {
    id_key: Vec<u8>,
    /// Sorted. `None`: they cannot be made.
    keys: Option<Vec<Vec<u8>>>,
}

impl OwnKeys {
    fn of(index: &Index, id_key: &[u8], doc: Doc<'_>) -> Result<OwnKeys> {
        let keys = index.keys_of(doc).ok().map(|keys| {
            let mut keys: Vec<Vec<u8>> = keys.keys.into_iter().map(|key| key.bytes).collect();
            keys.sort_unstable();
            keys
        });
        stop::ended()?;
        Ok(OwnKeys { id_key: id_key.to_vec(), keys })
    }

    fn hold(&self, key: &[u8]) -> bool {
        self.keys.as_ref().is_some_and(|keys| keys.binary_search_by(|own| own.as_slice().cmp(key)).is_ok())
    }
}

impl Check<'_> {
    /// Goes over the records; answers the number of keys that each index must have.
    fn records(&mut self) -> Result<Vec<u64>> {
        let mut expected = vec![0; self.collection.indexes.len()];
        let mut cursor = RecordCursor::new(self.view, self.collection)?;
        let mut counted = BTreeMap::new();
        let mut last: Option<Vec<u8>> = None;
        let mut valid = cursor.first()?;
        while valid {
            stop::tick_for(cursor.doc().as_bytes().len())?;
            let (id_key, doc) = (cursor.id_key(), cursor.doc());
            self.report.records += 1;
            self.report.data_bytes += doc.as_bytes().len() as u64;
            if last.as_deref().is_some_and(|last| last >= id_key) {
                self.report.found(format!("records out of order at {}", hex(id_key)));
            }
            last = Some(id_key.to_vec());
            let tree = cursor.partition_tree().unwrap_or(self.collection.tree);
            if tree != self.collection.tree_of(id_key) {
                self.report.found(format!("the record at {} is in the partition of another range", hex(id_key)));
            }
            let (documents, bytes) = counted.entry(tree).or_default();
            (*documents, *bytes) = (*documents + 1, *bytes + doc.as_bytes().len() as u64);
            self.record(id_key, doc, &mut expected)?;
            valid = cursor.next()?;
        }
        for tree in self.collection.record_trees() {
            self.counters(tree, counted.remove(&tree).unwrap_or_default())?;
        }
        self.order()?;
        Ok(expected)
    }

    /// Every record of a capped collection has its place.
    fn order(&mut self) -> Result<()> {
        let found = crate::capped::places(self.view, self.collection)?;
        if let Some(problem) = found.problem(self.report.records) {
            self.report.found(problem);
        }
        Ok(())
    }

    fn counters(&mut self, tree: TreeId, (documents, bytes): (u64, u64)) -> Result<()> {
        let counted_bytes = self.view.counter(bytes_counter(tree))?;
        let updates = self.view.counter(unread_counter(tree))?;
        if updates > 0 {
            self.report.sizes.push(SizeFound { tree, updates, difference: bytes as i64 - counted_bytes });
        }
        let counted =
            [("documents", self.view.counter(count_counter(tree))?, documents), ("bytes", counted_bytes, bytes)];
        for (what, counter, found) in counted.into_iter().take(if updates > 0 { 1 } else { 2 }) {
            if counter != found as i64 {
                self.report.found(format!("the counter of {what} is {counter}, but there are {found}"));
            }
        }
        Ok(())
    }

    fn record(&mut self, id_key: &[u8], doc: Doc<'_>, expected: &mut [u64]) -> Result<()> {
        let sound = arbor_bson::validate(doc.as_bytes(), Limits::INPUT).is_ok();
        let placed = doc.get("_id").is_some_and(|id| self.collection.id_key(id) == id_key);
        if !sound || !placed {
            self.report.corrupt_records += 1;
            let what = if sound { "is stored under another _id" } else { "is no valid document" };
            self.report.found(format!("the record at {} {what}", hex(id_key)));
            return Ok(());
        }
        for (index, expected) in self.collection.indexes.iter().zip(expected) {
            let keys = match index.keys_of(doc) {
                Ok(keys) => keys,
                Err(error) => {
                    stop::ended()?;
                    self.report.found(format!("index {}: the record at {}: {error}", index.name, hex(id_key)));
                    continue;
                }
            };
            let known = index.multikey.expected();
            if known.iter().zip(&keys.multikey).any(|(known, own)| known & own != *own) {
                self.report.found(format!("index {}: the arrays at {} are not known", index.name, hex(id_key)));
            }
            *expected += keys.keys.len() as u64;
            for key in &keys.keys {
                stop::tick()?;
                let (at, value) = entry_of(index, key, id_key, doc);
                match self.view.get(index.tree_of(id_key), &at)? {
                    Some(stored) if *stored == value => {}
                    Some(_) => self.report.found(format!("index {}: wrong entry at {}", index.name, hex(&at))),
                    None => self.report.found(format!("index {}: no entry for {}", index.name, hex(id_key))),
                }
            }
        }
        Ok(())
    }

    fn index(&mut self, index: &Index, expected: u64) -> Result<()> {
        let problems_before = self.report.problems.len() as u64 + self.report.further_problems;
        self.last = None;
        let mut entries = 0;
        let mut cursor = index.cursor(self.view)?;
        let mut last: Option<Vec<u8>> = None;
        let mut valid = cursor.first()?;
        while valid {
            stop::tick()?;
            entries += 1;
            if last.as_deref().is_some_and(|last| last >= cursor.key()) {
                self.report.found(format!("index {}: out of order at {}", index.name, hex(cursor.key())));
            }
            if self.full {
                self.entry(index, cursor.key(), cursor.value())?;
            }
            last = Some(cursor.key().to_vec());
            valid = cursor.next()?;
        }
        if entries != expected {
            self.report.found(format!("index {}: {entries} entries for {expected} keys", index.name));
        }
        let problems = self.report.problems.len() as u64 + self.report.further_problems;
        let is_valid = problems == problems_before;
        self.report.indexes.push(IndexReport { name: index.name.clone(), keys: entries, is_valid });
        Ok(())
    }

    /// The entry leads to a document that has its key.
    fn entry(&mut self, index: &Index, key: &[u8], value: &[u8]) -> Result<()> {
        let Ok(parts) = entry::decode(index, key, value) else {
            self.report.found(format!("index {}: the entry at {} does not decode", index.name, hex(key)));
            return Ok(());
        };
        let type_bits = index.generator.type_bits(parts.type_bits);
        if keystring::decode(parts.values, type_bits, &index.descending()).is_err() {
            self.report.found(format!("index {}: the values at {} do not decode", index.name, hex(key)));
        }
        // a document with a hundred thousand keys has as many consecutive entries
        if self.last.as_ref().is_none_or(|last| last.id_key != parts.id_key) {
            let doc = record(self.view, self.collection, parts.id_key)?;
            self.last = doc.map(|doc| OwnKeys::of(index, parts.id_key, Doc::trusted(&doc))).transpose()?;
        }
        match &self.last {
            None => self.report.found(format!("index {}: the entry at {} has no document", index.name, hex(key))),
            Some(own) if !own.hold(parts.values) => {
                self.report.found(format!("index {}: the document of {} has not this key", index.name, hex(key)));
            }
            Some(_) => {}
        }
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(64).map(|byte| format!("{byte:02x}")).collect()
}
