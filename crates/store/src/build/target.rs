//! One index being built.
//!
//! T1: a key of a unique index is stored either in the index's own tree, for one document, or in the contended tree, for each
//! document that has it. The contended tree has the layout of an index that is not unique; it goes when the build ends.

use std::sync::Arc;

use arbor_base::{TreeId, paranoid};
use arbor_bson::Doc;
use arbor_bson::keystring::Key;
use arbor_txn::{Transaction, View};

use crate::follow::GROUP_BYTES;
use crate::read::entry;
use crate::sort::sorter::Row;
use crate::write::{delete_entry, duplicate_key, put_entry};
use crate::{Collection, Index, IndexCursor, IndexSpec, Result};

/// Contended entries that one transaction checks.
const STEP_ENTRIES: usize = 10_000;

pub(super) struct Target {
    pub index: Arc<Index>,
    contended: Option<Contended>,
}

struct Contended {
    /// A copy of the index, not unique, in the contended tree.
    index: Index,
    /// The tree may have entries.
    any: bool,
}

/// Progress of [`Target::settle`].
pub(super) enum Settled {
    All,
    /// Entries before this one.
    UpTo(Vec<u8>),
}

impl Target {
    /// `contended`: the second tree of a unique index.
    pub(super) fn new(index: Arc<Index>, contended: Option<TreeId>) -> Target {
        assert!(index.unique == contended.is_some(), "T1: unique indexes, and no others, have a contended tree");
        assert!(contended.is_none() || index.parts.is_empty(), "I2: {} has one tree", index.name);
        let contended = contended.map(|tree| {
            let spec = IndexSpec { unique: false, prepare_unique: false, ..index.spec.clone() };
            let index = Index { spec, tree, ..Index::clone(&index) };
            Contended { index, any: false }
        });
        Target { index, contended }
    }

    pub(super) fn contended_tree(&self) -> Option<TreeId> {
        self.contended.as_ref().map(|contended| contended.index.tree)
    }

    pub(super) fn trees(&self) -> impl Iterator<Item = TreeId> {
        self.index.trees().chain(self.contended_tree())
    }

    /// Returns the row of the contended tree that corresponds to this one of the index's own.
    pub(super) fn contended_row(&self, (key, value): &Row) -> Result<Row> {
        let parts = entry::decode(&self.index, key, value)?;
        match &self.contended {
            Some(contended) => Ok(entry::encode(&contended.index, parts)),
            None => Err(entry::corrupt(&self.index)),
        }
    }

    pub(super) fn load_contended(&mut self, load: impl FnOnce(TreeId) -> Result<()>) -> Result<()> {
        let Some(contended) = &mut self.contended else { return Ok(()) };
        assert!(!contended.any, "the contended tree is loaded while it is empty");
        contended.any = true;
        load(contended.index.tree)
    }

    /// The document gets a key. It may have it already.
    pub(super) fn put(&mut self, txn: &mut Transaction, key: &Key, id_key: &[u8], doc: Doc<'_>) -> Result<()> {
        let Some(contended) = &mut self.contended else {
            put_entry(txn, &self.index, key, id_key, doc);
            return Ok(());
        };
        if contended.has(txn, &key.bytes)? {
            paranoid!(!matches!(txn.get(self.index.tree, &key.bytes), Ok(Some(_))), "T1: a key is in one of two trees");
            put_entry(txn, &contended.index, key, id_key, doc);
            return Ok(());
        }
        let other = match txn.get(self.index.tree, &key.bytes)? {
            None => None,
            Some(stored) => {
                let parts = entry::decode(&self.index, &key.bytes, &stored)?;
                (parts.id_key != id_key).then(|| entry::encode(&contended.index, parts))
            }
        };
        match other {
            None => put_entry(txn, &self.index, key, id_key, doc),
            Some((at, value)) => {
                txn.delete(self.index.tree, key.bytes.as_slice());
                txn.put(contended.index.tree, at, value);
                put_entry(txn, &contended.index, key, id_key, doc);
                contended.any = true;
            }
        }
        Ok(())
    }

    /// The document loses a key. It may have lost it already.
    pub(super) fn remove(&mut self, txn: &mut Transaction, key: &Key, id_key: &[u8]) -> Result<()> {
        let Some(contended) = &self.contended else {
            delete_entry(txn, &self.index, key, id_key);
            return Ok(());
        };
        let own = match txn.get(self.index.tree, &key.bytes)? {
            Some(stored) => entry::decode(&self.index, &key.bytes, &stored)?.id_key == id_key,
            None => false,
        };
        match own {
            true => delete_entry(txn, &self.index, key, id_key),
            false => delete_entry(txn, &contended.index, key, id_key),
        }
        Ok(())
    }

    /// Moves keys with one document out of the contended tree; a part of them from the entry `from` on. `of`: the collection
    /// in which no key may have several documents any more.
    ///
    /// Errors: `DuplicateKey`.
    pub(super) fn settle(&mut self, txn: &mut Transaction, from: &[u8], of: Option<&Collection>) -> Result<Settled> {
        let Some(contended) = self.contended.as_ref().filter(|contended| contended.any) else {
            return Ok(Settled::All);
        };
        let (mut moves, mut bytes, mut visited) = (Vec::new(), 0, 0);
        let mut settled = Settled::All;
        let mut cursor = IndexCursor::new(txn, &contended.index)?;
        let mut valid = cursor.seek(from)?;
        while valid {
            if of.is_none() && (bytes > GROUP_BYTES || visited > STEP_ENTRIES) {
                settled = Settled::UpTo(cursor.position().to_vec());
                break;
            }
            let key = Key { bytes: cursor.key().to_vec(), type_bits: cursor.type_bits().to_vec() };
            let row = (cursor.position().to_vec(), entry::encode(&self.index, cursor.parts()));
            debug_assert!(row.1.0 == key.bytes, "T1: in the index's own tree the key is the values");
            let mut owners = 0;
            while valid && cursor.key() == key.bytes {
                owners += 1;
                valid = cursor.next()?;
            }
            visited += owners;
            match of {
                _ if owners == 1 => {
                    bytes += row.0.len() + row.1.0.len() + row.1.1.len();
                    moves.push(row);
                }
                Some(collection) => return Err(duplicate_key(collection, &self.index, &key)),
                None => {}
            }
        }
        drop(cursor);
        for (at, (key, value)) in moves {
            txn.delete(contended.index.tree, at);
            txn.put(self.index.tree, key, value);
        }
        Ok(settled)
    }
}

impl Contended {
    fn has(&self, txn: &Transaction, values: &[u8]) -> Result<bool> {
        if !self.any {
            return Ok(false);
        }
        let mut cursor = IndexCursor::new(txn, &self.index)?;
        Ok(cursor.seek(values)? && cursor.key() == values)
    }
}
