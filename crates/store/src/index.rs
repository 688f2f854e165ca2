//! One secondary index, as the planner and the writer see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arbor_base::TreeId;
use arbor_bson::DocBuf;
use arbor_lang::Collation;

use crate::{KeyGenerator, PartialFilter, Usage};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Ascending,
    Descending,
}

/// What stands in the key for a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Its value.
    Plain,
    /// The hash of its value ([`crate::hash_of`]) as an int64.
    Hashed,
    /// A term, see [`crate::TextKeys`].
    Text,
    /// Cells of the sphere, `2dsphere`.
    Sphere,
    /// A square of a grid, `2d`.
    Plane,
}

impl FieldKind {
    /// The key holds a place.
    pub fn is_geo(self) -> bool {
        matches!(self, FieldKind::Sphere | FieldKind::Plane)
    }

    /// The word for it in a key pattern.
    pub fn word(self) -> Option<&'static str> {
        match self {
            FieldKind::Plain => None,
            FieldKind::Hashed => Some("hashed"),
            FieldKind::Text => Some("text"),
            FieldKind::Sphere => Some("2dsphere"),
            FieldKind::Plane => Some("2d"),
        }
    }
}

/// One field of a key pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyField {
    /// Dotted path.
    pub path: String,
    pub kind: FieldKind,
    pub direction: Direction,
}

/// The `_id` index is not one of these: it is the collection's own tree.
///
/// Shared by all versions of its collection; everything but the multikey flags is fixed.
#[derive(Clone, Debug)]
pub struct Index {
    pub name: String,
    pub key_pattern: Vec<KeyField>,
    pub unique: bool,
    /// Not unique yet, but refuses new duplicates.
    pub prepare_unique: bool,
    pub sparse: bool,
    pub hidden: bool,
    /// Its entries hold the whole documents.
    pub clustering: bool,
    /// Makes the keys of documents.
    pub generator: KeyGenerator,
    /// How strings compare in it: their keys stand in its entries.
    pub collation: Collation,
    /// Which documents have entries; `None`: all.
    pub partial: Option<Arc<PartialFilter>>,
    /// `expireAfterSeconds`, when the specification has it.
    pub expire_after_seconds: Option<i64>,
    /// Name of the engine that the tree lives on.
    pub engine: Arc<str>,
    pub tree: TreeId,
    /// The specification as `listIndexes` shows it: `v`, `key`, `name`, then the options.
    pub spec: DocBuf,
    pub usage: Arc<Usage>,
    pub(crate) multikey: Multikey,
}

/// Per field of the pattern: bit `n` is set once some document had an array at component `n` of the path (the last bit
/// stands for all further ones). Bits are never cleared.
#[derive(Debug, Default)]
pub(crate) struct Multikey {
    /// What readers must expect; set before the commit that makes it so.
    expected: Vec<AtomicU64>,
    /// What is known to stand in the catalogue.
    stored: Vec<AtomicU64>,
}

/// The same flags for an index of the same tree. What is expected need not be stored: the transaction may have been
/// given up.
impl Clone for Multikey {
    fn clone(&self) -> Multikey {
        let copy =
            |flags: &[AtomicU64]| flags.iter().map(|mask| AtomicU64::new(mask.load(Ordering::Acquire))).collect();
        Multikey { expected: copy(&self.expected), stored: copy(&self.stored) }
    }
}

impl Multikey {
    pub fn new(masks: &[u64]) -> Multikey {
        let atomics = || masks.iter().map(|mask| AtomicU64::new(*mask)).collect();
        Multikey { expected: atomics(), stored: atomics() }
    }

    pub fn expected(&self) -> Vec<u64> {
        self.expected.iter().map(|mask| mask.load(Ordering::Acquire)).collect()
    }

    pub fn expect(&self, masks: &[u64]) {
        for (own, mask) in self.expected.iter().zip(masks) {
            if own.load(Ordering::Relaxed) & mask != *mask {
                own.fetch_or(*mask, Ordering::AcqRel);
            }
        }
    }

    pub fn is_stored(&self, masks: &[u64]) -> bool {
        self.stored.iter().zip(masks).all(|(own, mask)| own.load(Ordering::Relaxed) & mask == *mask)
    }

    pub fn set_stored(&self, masks: &[u64]) {
        for (own, mask) in self.stored.iter().zip(masks) {
            own.fetch_or(*mask, Ordering::Relaxed);
        }
    }
}

impl Index {
    /// Whether some document may have several keys. Ask after taking the snapshot that is going to be read.
    pub fn is_multikey(&self) -> bool {
        self.multikey.expected.iter().any(|mask| mask.load(Ordering::Acquire) != 0)
    }

    /// The components of the `field`-th path at which arrays may stand, as bits. Ask after taking the snapshot.
    pub fn multikey_components(&self, field: usize) -> u64 {
        self.multikey.expected.get(field).map_or(0, |mask| mask.load(Ordering::Acquire))
    }

    /// The flags `push` of a KeyString builder wants, one per component of a key.
    pub fn descending(&self) -> Vec<bool> {
        self.generator.descending(&self.key_pattern)
    }

    /// The key pattern as a document, as the user wrote it.
    pub fn key_document(&self) -> DocBuf {
        match self.spec.get("key") {
            Some(arbor_bson::ValueRef::Document(key)) => key.to_buf(),
            _ => DocBuf::new(),
        }
    }
}
