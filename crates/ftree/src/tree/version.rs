//! The version that readers of one tree load.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arbor_base::TreeId;
use arbor_base::memory::values::Pin;
use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

use super::node::Inner;
use crate::cache::{Cache, Charge};
use crate::memtable::MemTree;
use crate::{Seq, TreeSettings};

/// One incarnation of a tree: from its creation to its drop.
pub struct Tree {
    pub id: TreeId,
    /// Number within this process; distinguishes incarnations of one id.
    pub serial: u64,
    pub created: Seq,
    /// Sequence number of the drop; `u64::MAX` while the tree lives.
    pub dropped: AtomicU64,
    pub settings: ArcSwap<TreeSettings>,
    pub version: ArcSwap<TreeVersion>,
    /// The number of the memtable generation that the active part belongs to. Only the writer looks.
    pub(crate) generation: AtomicU64,
    /// Held while a new version is made from the current one.
    install: Mutex<()>,
    cache: Cache,
    /// For what a tree takes without nodes.
    _charge: Charge,
}

/// A tree takes about this: itself, its settings, a version and the one before, its places in maps and lists.
const TREE_BYTES: u64 = 1024;

/// The content of a tree, newest part first: active, frozen from the back, root. Snapshots read it by sequence number.
#[derive(Clone)]
pub struct TreeVersion {
    pub active: Arc<MemTree>,
    /// Oldest first.
    pub frozen: Vec<Arc<MemTree>>,
    pub root: Arc<Inner>,
}

impl TreeVersion {
    /// Returns true if each part is newer than those below it (I1).
    pub fn is_ordered(&self) -> bool {
        let parts = self.frozen.iter().chain([&self.active]).filter(|part| !part.is_empty());
        let mut newest = self.root.totals().newest;
        parts.into_iter().all(|part| {
            newest < part.min_seq() && {
                newest = part.max_seq();
                true
            }
        })
    }
}

impl Tree {
    /// `active`: a part without entries, which is used until something is applied.
    pub fn new(
        id: TreeId,
        created: Seq,
        settings: TreeSettings,
        root: Arc<Inner>,
        active: Arc<MemTree>,
        cache: &Cache,
    ) -> Tree {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        root.charge(cache);
        Tree {
            id,
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            created,
            dropped: AtomicU64::new(u64::MAX),
            settings: ArcSwap::from_pointee(settings),
            version: ArcSwap::from_pointee(TreeVersion { active, frozen: Vec::new(), root }),
            generation: AtomicU64::new(0),
            install: Mutex::new(()),
            cache: cache.clone(),
            _charge: cache.charge_resident(TREE_BYTES),
        }
    }

    /// Returns true if a reader at `at` sees this incarnation.
    pub fn exists_at(&self, at: Seq) -> bool {
        self.created <= at && at < self.dropped()
    }

    pub fn dropped(&self) -> Seq {
        Seq(self.dropped.load(Ordering::Acquire))
    }

    pub fn is_alive(&self) -> bool {
        self.dropped() == Seq(u64::MAX)
    }

    /// Publishes what `change` makes of the current version; `None` leaves it. Returns true if it was changed. What was
    /// replaced is dropped after the lock is free.
    pub fn install(&self, change: impl FnOnce(&TreeVersion) -> Option<TreeVersion>) -> bool {
        let guard = self.install.lock();
        let current = self.version.load_full();
        let Some(next) = change(&current) else { return false };
        debug_assert!(next.is_ordered(), "I1: parts of tree {} are newer than its root", self.id);
        let root = next.root.clone();
        self.version.store(Arc::new(next));
        drop(guard);
        drop(current);
        root.charge(&self.cache);
        true
    }

    /// As [`Tree::install`], for changes of the root only.
    pub fn install_root(&self, change: impl FnOnce(&Arc<Inner>) -> Option<Arc<Inner>>) -> bool {
        self.install(|current| change(&current.root).map(|root| TreeVersion { root, ..current.clone() }))
    }

    pub fn root(&self) -> Arc<Inner> {
        self.version.load().root.clone()
    }

    /// Returns the version for one read, within which the thread does not wait for memory: a flush frees memtables when no version has them.
    #[inline]
    pub fn version_to_read(&self) -> VersionToRead {
        VersionToRead { version: self.version.load(), _pin: Pin::new() }
    }
}

/// A version of a tree that a read uses.
pub struct VersionToRead {
    version: Guard<Arc<TreeVersion>>,
    _pin: Pin,
}

impl Deref for VersionToRead {
    type Target = TreeVersion;

    #[inline]
    fn deref(&self) -> &TreeVersion {
        &self.version
    }
}
