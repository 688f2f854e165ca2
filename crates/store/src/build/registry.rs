//! The running index builds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arbor_base::TreeId;
use arbor_bson::DocBuf;
use parking_lot::{Condvar, Mutex};
use uuid::Uuid;

use super::Build;
use crate::follow::{Phase, Watch};
use crate::{Collection, Error, Index, Result, Store};

/// Interval at which a thread that waits for a build checks whether it was interrupted.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The running builds of all collections.
#[derive(Default)]
pub(crate) struct Builds {
    running: Mutex<Vec<Arc<Running>>>,
    ended: Condvar,
    begun: AtomicU64,
    failed: AtomicU64,
    pub begun_again: AtomicU64,
}

/// A running build.
pub(crate) struct Running {
    pub uuid: Uuid,
    collection: Uuid,
    pub indexes: Vec<Arc<Index>>,
    /// The trees that are dropped when it fails.
    pub trees: Vec<TreeId>,
    /// It replaces an existing index.
    pub replaces: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The reason to end it, if there is one.
    aborted: Option<&'static str>,
    phase: Option<Phase>,
}

/// One build, until this is dropped.
pub(crate) struct Registered<'s> {
    builds: &'s Builds,
    pub running: Arc<Running>,
}

/// A running build, as commands show it.
#[derive(Clone, Debug)]
pub struct IndexBuild {
    pub uuid: Uuid,
    pub specs: Vec<DocBuf>,
    /// It was dropped.
    pub is_ending: bool,
}

/// Builds since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexBuildCounts {
    /// Without those of small collections.
    pub begun: u64,
    /// Those among them that began again after the process had ended.
    pub begun_again: u64,
    pub failed: u64,
    /// Now at work.
    pub scanning: u64,
    pub loading: u64,
    pub catching_up: u64,
}

impl Builds {
    pub(crate) fn register(&self, running: Running) -> Registered<'_> {
        let running = Arc::new(running);
        self.begun.fetch_add(1, Ordering::Relaxed);
        let mut all = self.running.lock();
        assert!(all.iter().all(|other| other.uuid != running.uuid), "build {} runs once", running.uuid);
        all.push(running.clone());
        drop(all);
        Registered { builds: self, running }
    }

    /// Returns the running builds of a collection.
    pub(crate) fn of(&self, collection: &Collection) -> Vec<Arc<Running>> {
        self.running.lock().iter().filter(|build| build.collection == collection.uuid).cloned().collect()
    }

    /// Refuses changes that a running build would miss. Requires the collection's latch held exclusively, under which builds begin.
    ///
    /// Errors: `IndexBuildRunning`.
    pub(crate) fn refuse(&self, collection: &Collection) -> Result<()> {
        debug_assert!(collection.latch.is_held_exclusively(), "no build of {} begins now", collection.namespace);
        match self.of(collection).is_empty() {
            true => Ok(()),
            false => Err(Error::IndexBuildRunning { collection: collection.uuid }),
        }
    }

    /// Asks all builds of a collection to end.
    pub(crate) fn break_off(&self, collection: &Collection, reason: &'static str) {
        self.of(collection).iter().for_each(|build| build.break_off(reason));
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.running.lock().is_empty()
    }

    /// Errors: `Interrupted`.
    pub(crate) fn wait_for(&self, build: &Running, watch: &dyn Watch) -> Result<()> {
        let mut running = self.running.lock();
        while running.iter().any(|own| own.uuid == build.uuid) {
            if watch.is_stopped() {
                return Err(Error::Interrupted);
            }
            self.ended.wait_for(&mut running, CHECK_INTERVAL);
        }
        Ok(())
    }
}

impl Running {
    pub(crate) fn new(build: &Build<'_>, indexes: Vec<Arc<Index>>, trees: Vec<TreeId>) -> Running {
        assert!(indexes.iter().all(|index| trees.contains(&index.tree)), "a build that fails drops all of its trees");
        let replaces = build.replaced.is_some();
        let state = Mutex::default();
        Running { uuid: build.uuid, collection: build.collection.uuid, indexes, trees, replaces, state }
    }

    pub(crate) fn break_off(&self, reason: &'static str) {
        self.state.lock().aborted.get_or_insert(reason);
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.state.lock().aborted.is_some()
    }

    /// The error of a build, which is another one when it was asked to end.
    pub(crate) fn aborted(&self, error: Error) -> Error {
        match (self.state.lock().aborted, error) {
            (Some(reason), Error::Interrupted | Error::NamespaceNotFound(_)) => {
                Error::IndexBuildAborted { build: self.uuid, reason }
            }
            (_, error) => error,
        }
    }
}

impl Registered<'_> {
    pub(crate) fn failed(&self) {
        self.builds.failed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let mut running = self.builds.running.lock();
        let before = running.len();
        running.retain(|own| own.uuid != self.running.uuid);
        debug_assert!(running.len() + 1 == before, "a build ends once");
        drop(running);
        self.builds.ended.notify_all();
    }
}

/// The watch of a build, combined with the state of the build itself.
pub(super) struct Progress<'w> {
    pub running: &'w Running,
    pub watch: &'w dyn Watch,
}

impl Watch for Progress<'_> {
    fn is_stopped(&self) -> bool {
        self.running.is_aborted() || self.watch.is_stopped()
    }

    fn is_closing(&self) -> bool {
        self.watch.is_closing()
    }

    fn progress(&self, phase: Phase, done: u64, total: u64) {
        self.running.state.lock().phase = Some(phase);
        self.watch.progress(phase, done, total);
    }
}

impl Store {
    /// Running builds of new indexes of a collection.
    pub fn index_builds(&self, collection: &Collection) -> Vec<IndexBuild> {
        let shown = |build: &Arc<Running>| IndexBuild {
            uuid: build.uuid,
            specs: build.indexes.iter().map(|index| index.spec.doc.clone()).collect(),
            is_ending: build.is_aborted(),
        };
        self.builds.of(collection).iter().filter(|build| !build.replaces).map(shown).collect()
    }

    /// Asks all builds to end, when another member takes over and continues them.
    pub fn break_off_builds(&self) {
        let running = self.builds.running.lock().clone();
        running.iter().for_each(|build| build.break_off("this member is no longer primary"));
    }

    /// Waits until no build runs.
    pub fn wait_for_builds(&self) {
        let mut running = self.builds.running.lock();
        while !running.is_empty() {
            self.builds.ended.wait(&mut running);
        }
    }

    pub fn index_build_counts(&self) -> IndexBuildCounts {
        let builds = &self.builds;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let phases: Vec<Option<Phase>> = builds.running.lock().iter().map(|own| own.state.lock().phase).collect();
        let of = |phase| phases.iter().filter(|own| **own == Some(phase)).count() as u64;
        IndexBuildCounts {
            begun: count(&builds.begun),
            begun_again: count(&builds.begun_again),
            failed: count(&builds.failed),
            scanning: of(Phase::Scanning),
            loading: of(Phase::Loading),
            catching_up: of(Phase::CatchingUp),
        }
    }
}
