//! Ordered reading of records and index entries over any view.

use arbor_base::TreeId;
use arbor_base::memory::values;
use arbor_bson::Doc;
use arbor_txn::{Cursor, View};

use crate::partition::Rows;
use crate::read::entry::{self, Cuts};
use crate::{Collection, Index, Result};

macro_rules! movement {
    () => {
        /// Moves to the first entry with a key at or after `target`.
        pub fn seek(&mut self, target: &[u8]) -> Result<bool> {
            let valid = self.cursor.seek(target)?;
            self.moved(valid)
        }
        /// Moves to the last entry with a key before `target`.
        pub fn seek_before(&mut self, target: &[u8]) -> Result<bool> {
            let valid = self.cursor.seek_before(target)?;
            self.moved(valid)
        }
        pub fn first(&mut self) -> Result<bool> {
            let valid = self.cursor.first()?;
            self.moved(valid)
        }
        pub fn last(&mut self) -> Result<bool> {
            let valid = self.cursor.last()?;
            self.moved(valid)
        }
        #[expect(clippy::should_implement_trait, reason = "moves, and lends the row")]
        pub fn next(&mut self) -> Result<bool> {
            let valid = self.cursor.next()?;
            self.moved(valid)
        }
        pub fn prev(&mut self) -> Result<bool> {
            let valid = self.cursor.prev()?;
            self.moved(valid)
        }
        /// Hints which entries are likely read ([`Cursor::expect_rows`]).
        pub fn expect_rows(&mut self, rows: u64, end: &[u8]) {
            self.cursor.expect_rows(rows, end);
        }
    };
}

/// Records in `_id` order. Every move returns true if the cursor is at a record afterwards.
pub struct RecordCursor<'v> {
    cursor: Rows<'v>,
}

impl<'v> RecordCursor<'v> {
    pub fn new(view: &'v (impl View + ?Sized), collection: &Collection) -> Result<RecordCursor<'v>> {
        Ok(RecordCursor { cursor: Rows::of(view, collection)? })
    }

    movement!();

    fn moved(&mut self, valid: bool) -> Result<bool> {
        Ok(valid)
    }

    /// The tree of the record, if it is one of several.
    pub(crate) fn partition_tree(&self) -> Option<TreeId> {
        self.cursor.partition_tree()
    }

    pub fn id_key(&self) -> &[u8] {
        self.cursor.key()
    }

    pub fn doc(&self) -> Doc<'_> {
        let record = self.cursor.value();
        // where the engine did not know how large it is
        values::before_value(record.len());
        Doc::trusted(record)
    }
}

/// Entries of one index in key order, entries of equal values in `_id` order. Seek targets are KeyStrings of the values
/// or prefixes of them; the whole key of an entry ([`IndexCursor::position`]) finds it again.
pub struct IndexCursor<'v> {
    cursor: Box<dyn Cursor + 'v>,
    index: &'v Index,
    cuts: Cuts,
}

impl<'v> IndexCursor<'v> {
    pub fn new(view: &'v (impl View + ?Sized), index: &'v Index) -> Result<IndexCursor<'v>> {
        Ok(IndexCursor { cursor: index.cursor(view)?, index, cuts: Cuts::default() })
    }

    movement!();

    fn moved(&mut self, valid: bool) -> Result<bool> {
        if valid {
            let cuts = entry::cuts(self.index, self.cursor.key(), self.cursor.value());
            self.cuts = cuts.ok_or_else(|| entry::corrupt(self.index))?;
        }
        Ok(valid)
    }

    pub(crate) fn parts(&self) -> entry::Parts<'_> {
        self.cuts.parts(self.index, self.cursor.key(), self.cursor.value())
    }

    /// KeyString of the values.
    pub fn key(&self) -> &[u8] {
        self.parts().values
    }

    /// Key of the record.
    pub fn id_key(&self) -> &[u8] {
        self.parts().id_key
    }

    pub fn type_bits(&self) -> &[u8] {
        self.parts().type_bits
    }

    /// The document itself. None: the index is not clustering, the document has to be fetched.
    pub fn document(&self) -> Option<Doc<'_>> {
        self.index.clustering.then(|| Doc::trusted(self.parts().document))
    }

    /// The entry's whole key, to seek to it again.
    pub fn position(&self) -> &[u8] {
        self.cursor.key()
    }
}
