//! The gate: what readers see of the members, and how a reader gets all of them at one position.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use arbor_base::Position;
use arbor_engine::{Engine, Result};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::routes::{Index, Routes};
use crate::snapshot::{MemberView, SetSnapshot};

/// Attempts of a reader while the gate lets writers through; then it makes them wait for it.
const TRIES: u32 = 8;

#[derive(Clone)]
pub(crate) struct MemberEngine {
    pub name: &'static str,
    pub engine: Arc<dyn Engine>,
}

impl MemberEngine {
    /// A member without a snapshot takes only its own trees from the reader.
    fn view(&self) -> MemberView {
        self.engine.snapshot().map_or_else(|error| MemberView::missing(self.name, &error), MemberView::Open)
    }
}

/// Changed only by the thread that holds the set's writer lock.
pub(crate) struct Members {
    /// The home is the first.
    pub list: Vec<MemberEngine>,
    pub routes: Arc<Routes>,
}

impl Members {
    pub(crate) fn index_of(&self, name: &str) -> Option<Index> {
        self.list.iter().position(|member| member.name == name)
    }

    pub(crate) fn member(&self, index: Index) -> &MemberEngine {
        self.list.get(index).expect("an index leads to a member")
    }
}

pub(crate) struct Gate {
    members: RwLock<Members>,
    /// The last batch of the set: everything up to here is applied.
    position: AtomicU64,
    /// Readers for which every group has to take the gate.
    waiting: AtomicU64,
}

impl Gate {
    pub(crate) fn new(members: Members, position: Position) -> Gate {
        assert!(!members.list.is_empty(), "the home is always open");
        Gate { members: RwLock::new(members), position: AtomicU64::new(position.0), waiting: AtomicU64::new(0) }
    }

    pub(crate) fn position(&self) -> Position {
        Position(self.position.load(Ordering::Acquire))
    }

    /// Requires the writer lock.
    pub(crate) fn set_position(&self, position: Position) {
        let before = self.position.swap(position.0, Ordering::AcqRel);
        assert!(before <= position.0, "the set goes back from {before} to {position}");
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Members> {
        self.members.read()
    }

    /// No reader takes a snapshot as long as this is held. Requires the writer lock.
    pub(crate) fn close(&self) -> RwLockWriteGuard<'_, Members> {
        self.members.write()
    }

    pub(crate) fn has_waiting_readers(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn snapshot(&self) -> Result<SetSnapshot> {
        for _ in 0..TRIES {
            if let Some(snapshot) = self.try_snapshot()? {
                return Ok(snapshot);
            }
        }
        let _waiting = Waiting::new(&self.waiting);
        loop {
            // Ends: from now on each group that begins waits for readers at the gate.
            if let Some(snapshot) = self.try_snapshot()? {
                return Ok(snapshot);
            }
        }
    }

    /// `None`: a group was applied meanwhile, and the members may be seen on both sides of it.
    fn try_snapshot(&self) -> Result<Option<SetSnapshot>> {
        let members = self.read();
        let before = self.position();
        let views: Vec<MemberView> = members.list.iter().map(MemberEngine::view).collect();
        fence(Ordering::Acquire);
        if self.position() != before {
            return Ok(None);
        }
        // At most one group was on its way, in one member, which shows it or not.
        let newest = views.iter().filter_map(MemberView::position).max().unwrap_or(before);
        let position = if members.routes.partial.is_some() { before } else { newest.max(before) };
        debug_assert!(position >= before, "a snapshot shows less than the set had applied");
        Ok(Some(SetSnapshot { position, routes: members.routes.clone(), members: views }))
    }
}

struct Waiting<'g>(&'g AtomicU64);

impl<'g> Waiting<'g> {
    fn new(count: &'g AtomicU64) -> Waiting<'g> {
        count.fetch_add(1, Ordering::SeqCst);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let before = self.0.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "a reader ends its wait twice");
    }
}
