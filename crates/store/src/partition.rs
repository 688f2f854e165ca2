//! Partitioned collections (TokuMX): the records are cut by ranges of `_id`, each in a tree of its own, so that dropping a range drops
//! a tree: it deletes no document, and the space returns at once.
//!
//! P1: partitions are in the order of their maxima, which are inclusive; the last one has none. Every key has one partition.
//! P2: a record is in the tree of its partition, so no `_id` is in two trees.
//! P3: an index has a tree for each partition ([parts](crate::index::parts)), which goes with it.
//! P4: partitions change under the exclusive latch of the collection; open transactions that used it fail at their commit.

use std::sync::Arc;

use arbor_base::TreeId;
use arbor_bson::{Array, Doc, DocBuf, ValueRef};
use arbor_txn::{Cursor, View};

use crate::catalogue::encode_collection;
use crate::{Collection, Error, IndexSpec, Result};

/// Most partitions of one collection, and most bytes of its row, which has them all.
pub const PARTITIONS_MAX: usize = 4096;
pub(crate) const ROW_BYTES_MAX: usize = 4 << 20;

/// Bytes of the number of a tree in that row.
const TREE_BYTES: usize = 16;

/// Most bytes of the document that `addPartition` may be given.
pub(crate) const INFO_BYTES_MAX: usize = 16 << 10;

const GENERIC_SUBTYPE: u8 = 0;

/// One range of a partitioned collection.
#[derive(Clone, Debug)]
pub struct Partition {
    /// Ascends with the range and is never used again while partitions after it exist.
    pub id: i64,
    pub tree: TreeId,
    /// The last `_id` of the range. `None`: the range has no end.
    pub max: Option<PartitionMax>,
    pub created_ms: i64,
    /// The document that `addPartition` was given.
    pub info: Option<DocBuf>,
}

#[derive(Clone, Debug)]
pub struct PartitionMax {
    /// `{_id: value}`.
    pub doc: DocBuf,
    pub key: Vec<u8>,
}

/// The partitions that `dropPartition` names.
#[derive(Clone, Copy, Debug)]
pub enum PartitionsDropped<'v> {
    Id(i64),
    /// All that end at or before this `_id`.
    Through(ValueRef<'v>),
}

/// Returns true if `options` are those of a partitioned collection.
pub(crate) fn is_partitioned(options: Doc<'_>) -> bool {
    matches!(options.get("partitioned"), Some(ValueRef::Bool(true)))
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}

impl Partition {
    pub(crate) fn first(tree: TreeId) -> Partition {
        Partition { id: 0, tree, max: None, created_ms: now_ms(), info: None }
    }

    /// A partition without an end, after this one.
    pub(crate) fn next(&self, tree: TreeId, info: Option<DocBuf>) -> Partition {
        Partition { id: self.id + 1, info, ..Partition::first(tree) }
    }

    pub(crate) fn ends_before(&self, key: &[u8]) -> bool {
        self.max.as_ref().is_some_and(|max| max.key.as_slice() < key)
    }

    pub(crate) fn encode(&self) -> DocBuf {
        let mut doc = DocBuf::new().with("id", self.id).with("tree", self.tree.0 as i64);
        doc.append("created", ValueRef::DateTime(self.created_ms));
        if let Some(info) = &self.info {
            doc.append("info", info);
        }
        if let Some(max) = &self.max {
            doc.append("max", &max.doc);
            doc.append("key", ValueRef::Binary { subtype: GENERIC_SUBTYPE, bytes: &max.key });
        }
        doc
    }

    /// Errors: what is wrong with the row.
    pub(crate) fn decode_all(list: Array<'_>) -> Result<Arc<[Arc<Partition>]>, &'static str> {
        let decode = |value| match value {
            ValueRef::Document(doc) => Partition::decode(doc).map(Arc::new),
            _ => None,
        };
        let all: Option<Vec<Arc<Partition>>> = list.iter().map(decode).collect();
        let all = all.filter(|all| !all.is_empty()).ok_or("a partition does not decode")?;
        if are_in_order(&all) { Ok(all.into()) } else { Err("partitions out of order") }
    }

    fn decode(doc: Doc<'_>) -> Option<Partition> {
        let number = |name| match doc.get(name) {
            Some(ValueRef::Int64(value)) => Some(value),
            _ => None,
        };
        let max = match (doc.get("max"), doc.get("key")) {
            (None, None) => None,
            (Some(ValueRef::Document(max)), Some(ValueRef::Binary { bytes, .. })) => {
                Some(PartitionMax { doc: max.to_buf(), key: bytes.to_vec() })
            }
            _ => return None,
        };
        let info = match doc.get("info") {
            None => None,
            Some(ValueRef::Document(info)) => Some(info.to_buf()),
            Some(_) => return None,
        };
        let Some(ValueRef::DateTime(created_ms)) = doc.get("created") else { return None };
        Some(Partition { id: number("id")?, tree: TreeId(number("tree")? as u64), max, created_ms, info })
    }
}

/// P1.
fn are_in_order(partitions: &[Arc<Partition>]) -> bool {
    let Some((last, others)) = partitions.split_last() else { return true };
    let key = |own: &Arc<Partition>| own.max.as_ref().map(|max| max.key.clone());
    last.max.is_none()
        && others.iter().all(|own| own.max.is_some())
        && others.is_sorted_by(|one, next| key(one) < key(next))
        && partitions.is_sorted_by(|one, next| one.id < next.id)
}

impl Collection {
    /// The tree of the record with this key.
    pub fn tree_of(&self, id_key: &[u8]) -> TreeId {
        self.partitions.get(self.partition_at(id_key)).map_or(self.tree, |own| own.tree)
    }

    /// The place of the partition of a key among all.
    fn partition_at(&self, id_key: &[u8]) -> usize {
        self.partitions.partition_point(|own| own.ends_before(id_key))
    }

    /// The trees of its records, in the order of their ranges.
    pub fn record_trees(&self) -> impl Iterator<Item = TreeId> + '_ {
        let only = self.partitions.is_empty().then_some(self.tree);
        only.into_iter().chain(self.partitions.iter().map(|own| own.tree))
    }

    /// The trees that may have records of `from <= key < to`.
    pub(crate) fn trees_between<'c>(&'c self, from: &[u8], to: Option<&[u8]>) -> impl Iterator<Item = TreeId> + 'c {
        let first = self.partition_at(from);
        let last = to.map_or(usize::MAX, |to| self.partition_at(to).max(first));
        let of_range = move |(at, tree): (usize, TreeId)| (first <= at && at <= last).then_some(tree);
        self.record_trees().enumerate().filter_map(of_range)
    }

    pub(crate) fn refuse_partitioned(&self, what: &str) -> Result<()> {
        match self.partitions.is_empty() {
            true => Ok(()),
            false => {
                let text = format!("{} is partitioned: a partitioned collection cannot {what}", self.namespace);
                Err(Error::IllegalOperation(text))
            }
        }
    }

    /// Refuses indexes for which the row of a partitioned collection has no room.
    pub(crate) fn check_room_for(&self, new: &[IndexSpec]) -> Result<()> {
        if self.partitions.is_empty() {
            return Ok(());
        }
        let of_index = |spec: &IndexSpec| spec.doc.as_bytes().len() + TREE_BYTES * (self.partitions.len() + 8);
        let bytes = encode_collection(self).as_bytes().len() + new.iter().map(of_index).sum::<usize>();
        match bytes <= ROW_BYTES_MAX {
            true => Ok(()),
            false => {
                let own = &self.namespace;
                let text = format!("the partitions of {own} and their indexes need more than {ROW_BYTES_MAX} bytes");
                Err(Error::IllegalOperation(text))
            }
        }
    }

    pub(crate) fn validate_partitions(&self) {
        let namespace = &self.namespace;
        assert!(are_in_order(&self.partitions), "P1: the partitions of {namespace} are in order");
        let is_partitioned = is_partitioned(self.options.as_doc());
        assert!(is_partitioned != self.partitions.is_empty(), "{namespace} has partitions if its options say so");
        let last = self.partitions.last();
        assert!(
            last.is_none_or(|last| last.tree == self.tree),
            "the tree of {namespace} is that of the last partition"
        );
        assert!(last.is_none() || self.order.is_none(), "{namespace} is cut whole");
        for index in &self.indexes {
            let of = index.parts.iter().map(|part| part.partition.id);
            assert!(of.eq(self.partitions.iter().map(|own| own.id)), "I1: index {} of {namespace}", index.name);
            assert!(
                last.is_none() || !(index.unique || index.prepare_unique),
                "I2: index {} of {namespace}",
                index.name
            );
        }
    }
}

/// The rows of a collection's records in order.
pub(crate) enum Rows<'v> {
    Tree(Box<dyn Cursor + 'v>),
    Partitions(Chain<'v>),
}

/// One tree after the other. Cursors are opened when they are needed.
pub(crate) struct Chain<'v> {
    open: Box<dyn Fn(TreeId) -> arbor_txn::Result<Box<dyn Cursor + 'v>> + 'v>,
    partitions: Arc<[Arc<Partition>]>,
    /// The place among all of the open partition, with its cursor.
    current: Option<(usize, Box<dyn Cursor + 'v>)>,
}

/// Both kinds move alike.
macro_rules! forward {
    ($($name:ident($($argument:ident)?)),*) => {$(
        pub(crate) fn $name(&mut self $(, $argument: &[u8])?) -> Result<bool> {
            match self {
                Rows::Tree(cursor) => Ok(cursor.$name($($argument)?)?),
                Rows::Partitions(chain) => chain.$name($($argument)?),
            }
        }
    )*};
}

impl<'v> Rows<'v> {
    pub(crate) fn of(view: &'v (impl View + ?Sized), collection: &Collection) -> Result<Rows<'v>> {
        if collection.partitions.is_empty() {
            return Ok(Rows::Tree(view.cursor(collection.tree)?));
        }
        let open = Box::new(|tree| view.cursor(tree));
        Ok(Rows::Partitions(Chain { open, partitions: collection.partitions.clone(), current: None }))
    }

    forward!(seek(target), seek_before(target), first(), last(), next(), prev());

    /// Hints which rows are likely read ([`Cursor::expect_rows`]). Partitions do without.
    pub(crate) fn expect_rows(&mut self, rows: u64, end: &[u8]) {
        if let Rows::Tree(cursor) = self {
            cursor.expect_rows(rows, end);
        }
    }

    /// The tree of the row, if it is one of several.
    pub(crate) fn partition_tree(&self) -> Option<TreeId> {
        let Rows::Partitions(chain) = self else { return None };
        let (at, _) = chain.current.as_ref()?;
        chain.partitions.get(*at).map(|own| own.tree)
    }

    pub(crate) fn key(&self) -> &[u8] {
        match self {
            Rows::Tree(cursor) => cursor.key(),
            Rows::Partitions(chain) => chain.row().key(),
        }
    }

    pub(crate) fn value(&self) -> &[u8] {
        match self {
            Rows::Tree(cursor) => cursor.value(),
            Rows::Partitions(chain) => chain.row().value(),
        }
    }
}

impl<'v> Chain<'v> {
    fn row(&self) -> &(dyn Cursor + 'v) {
        let (_, cursor) = self.current.as_ref().expect("a cursor is read while it is at a record");
        &**cursor
    }

    /// Places the cursor of one partition, which stays open if it is the current one.
    fn place(&mut self, at: usize, place: impl FnOnce(&mut dyn Cursor) -> arbor_engine::Result<bool>) -> Result<bool> {
        let mut cursor = match self.current.take() {
            Some((open, cursor)) if open == at => cursor,
            _ => match self.partitions.get(at) {
                Some(own) => (self.open)(own.tree)?,
                None => return Ok(false),
            },
        };
        let valid = place(&mut *cursor)?;
        self.current = valid.then_some((at, cursor));
        Ok(valid)
    }

    /// To the first row of the partitions from `at` on.
    fn first_from(&mut self, at: usize) -> Result<bool> {
        for at in at..self.partitions.len() {
            if self.place(at, |cursor| cursor.first())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// To the last row of the partitions before `end`.
    fn last_before(&mut self, end: usize) -> Result<bool> {
        for at in (0..end).rev() {
            if self.place(at, |cursor| cursor.last())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn at(&self, target: &[u8]) -> usize {
        self.partitions.partition_point(|own| own.ends_before(target))
    }

    fn seek(&mut self, target: &[u8]) -> Result<bool> {
        let at = self.at(target);
        Ok(self.place(at, |cursor| cursor.seek(target))? || self.first_from(at + 1)?)
    }

    fn seek_before(&mut self, target: &[u8]) -> Result<bool> {
        let at = self.at(target);
        Ok(self.place(at, |cursor| cursor.seek_before(target))? || self.last_before(at)?)
    }

    fn first(&mut self) -> Result<bool> {
        self.first_from(0)
    }

    fn last(&mut self) -> Result<bool> {
        self.last_before(self.partitions.len())
    }

    fn next(&mut self) -> Result<bool> {
        let Some((at, _)) = self.current else { return Ok(false) };
        Ok(self.place(at, |cursor| cursor.next())? || self.first_from(at + 1)?)
    }

    fn prev(&mut self) -> Result<bool> {
        let Some((at, _)) = self.current else { return Ok(false) };
        Ok(self.place(at, |cursor| cursor.prev())? || self.last_before(at)?)
    }
}
