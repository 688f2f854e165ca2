//! One secondary index, as the planner and the writer see it.

pub(crate) mod conflict;
pub(crate) mod geo_keys;
pub(crate) mod key_pattern;
pub(crate) mod keys;
pub(crate) mod partial;
pub(crate) mod parts;
pub(crate) mod refusal;
pub(crate) mod spec;
pub(crate) mod text_keys;
pub(crate) mod usage;
pub(crate) mod wildcard;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arbor_base::TreeId;

use self::parts::IndexPart;
use crate::{IndexSpec, Usage};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Ascending,
    Descending,
}

/// The component of the key for a field.
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

/// An index: its specification (dereferenced), engine and tree. The `_id` index is not one of these: it is
/// the collection's own tree.
///
/// Shared by all versions of its collection; everything but the multikey flags is fixed.
#[derive(Clone, Debug)]
pub struct Index {
    pub spec: IndexSpec,
    /// Name of the engine of the tree.
    pub engine: Arc<str>,
    pub tree: TreeId,
    /// Those of a partitioned collection, in the order of its partitions, see [`parts`].
    pub(crate) parts: Arc<[IndexPart]>,
    pub usage: Arc<Usage>,
    pub(crate) multikey: Multikey,
}

impl Deref for Index {
    type Target = IndexSpec;

    fn deref(&self) -> &IndexSpec {
        &self.spec
    }
}

/// Per field of the pattern: bit `n` is set once some document had an array at component `n` of the path (the last bit
/// covers all further ones). Bits are never cleared.
#[derive(Debug, Default)]
pub(crate) struct Multikey {
    /// Flags that readers must expect; set before the commit that makes them true.
    expected: Vec<AtomicU64>,
    /// Flags that are known to be in the catalogue.
    stored: Vec<AtomicU64>,
}

/// Copies the flags for an index of the same tree. Expected flags need not be stored: the transaction may have
/// been aborted.
impl Clone for Multikey {
    fn clone(&self) -> Multikey {
        let copy =
            |flags: &[AtomicU64]| flags.iter().map(|mask| AtomicU64::new(mask.load(Ordering::Acquire))).collect();
        Multikey { expected: copy(&self.expected), stored: copy(&self.stored) }
    }
}

impl Multikey {
    pub(crate) fn new(masks: &[u64]) -> Multikey {
        let atomics = || masks.iter().map(|mask| AtomicU64::new(*mask)).collect();
        Multikey { expected: atomics(), stored: atomics() }
    }

    pub(crate) fn expected(&self) -> Vec<u64> {
        self.expected.iter().map(|mask| mask.load(Ordering::Acquire)).collect()
    }

    pub(crate) fn stored(&self) -> Vec<u64> {
        self.stored.iter().map(|mask| mask.load(Ordering::Acquire)).collect()
    }

    pub(crate) fn expect(&self, masks: &[u64]) {
        assert!(masks.len() == self.expected.len(), "{} flags of {} fields", masks.len(), self.expected.len());
        for (own, mask) in self.expected.iter().zip(masks) {
            if own.load(Ordering::Relaxed) & mask != *mask {
                own.fetch_or(*mask, Ordering::AcqRel);
            }
        }
    }

    /// Returns true if readers expect these arrays.
    pub(crate) fn expects(&self, masks: &[u64]) -> bool {
        self.expected.iter().zip(masks).all(|(own, mask)| own.load(Ordering::Acquire) & mask == *mask)
    }

    pub(crate) fn is_stored(&self, masks: &[u64]) -> bool {
        self.stored.iter().zip(masks).all(|(own, mask)| own.load(Ordering::Relaxed) & mask == *mask)
    }

    pub(crate) fn set_stored(&self, masks: &[u64]) {
        assert!(masks.len() == self.stored.len(), "{} flags of {} fields", masks.len(), self.stored.len());
        for (own, mask) in self.stored.iter().zip(masks) {
            own.fetch_or(*mask, Ordering::Relaxed);
        }
    }
}

impl Index {
    /// Returns true if some document may have several keys. To be called after taking the snapshot that is going to be read.
    pub fn is_multikey(&self) -> bool {
        self.multikey.expected.iter().any(|mask| mask.load(Ordering::Acquire) != 0)
    }

    /// Returns the components of the `field`-th path at which there may be arrays, as bits. To be called after taking the snapshot.
    pub fn multikey_components(&self, field: usize) -> u64 {
        self.multikey.expected.get(field).map_or(0, |mask| mask.load(Ordering::Acquire))
    }

    /// Returns the flags that `push` of a KeyString builder needs, one per component of a key.
    pub fn descending(&self) -> Vec<bool> {
        self.generator.descending(&self.key_pattern)
    }
}
