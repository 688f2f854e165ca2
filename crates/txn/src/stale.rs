//! Conflicts of transactions that have been open for long: what the conflict table has forgotten, the rows themselves say.
//!
//! A key whose row is the same in the transaction's snapshot and in the present one counts as not written: what the
//! transaction does to it is right for the present row as well. From the present snapshot on the table knows everything.

use arbor_base::{Position, TreeId};
use arbor_engine::Snapshot;

use crate::claims::OwnClaims;
use crate::commit::CommitPath;
use crate::conflict::hash_of;
use crate::write_set::WriteSet;
use crate::written::{Presence, Written};
use crate::{Error, Result};

impl CommitPath {
    /// Claims a key for an open transaction.
    pub(crate) fn claim(
        &self,
        own: &mut OwnClaims,
        (snapshot, compares): (&dyn Snapshot, bool),
        tree: TreeId,
        key: &[u8],
    ) -> Result<()> {
        let hash = hash_of(self.hasher(), tree, key);
        // Claimed first: by now the table has the writes of any earlier owner.
        if !own.claim(hash) {
            return Err(Error::Conflict);
        }
        let since = match snapshot.position() >= self.conflict_floor() && !compares {
            true => snapshot.position(),
            false => {
                self.require_same_term(snapshot)?;
                let now = self.engine().snapshot()?;
                require_same(snapshot, &*now, tree, key)?;
                now.position()
            }
        };
        let committed = self.lock();
        let conflicts = self.prepared().has_key(hash)
            || since < committed.conflicts.floor()
            || committed.conflicts.conflicts_with_key(since, hash, tree, key);
        if conflicts { Err(Error::Conflict) } else { Ok(()) }
    }

    /// Errors: it began before this member took over, and what it allotted may be in use.
    fn require_same_term(&self, snapshot: &dyn Snapshot) -> Result<()> {
        if snapshot.position() < self.term_floor() { Err(Error::Conflict) } else { Ok(()) }
    }

    /// The position from which on the conflict table is to be asked for these writes. `compares`: it may have forgotten what came after the
    /// snapshot.
    pub(crate) fn caught_up(&self, snapshot: &dyn Snapshot, writes: &WriteSet, compares: bool) -> Result<Position> {
        let is_known = snapshot.position() >= self.conflict_floor() && !compares;
        if is_known || writes.is_empty() {
            return Ok(snapshot.position());
        }
        self.require_same_term(snapshot)?;
        let now = self.engine().snapshot()?;
        require_all_same(snapshot, &*now, writes.written())?;
        Ok(now.position())
    }
}

fn require_all_same(then: &dyn Snapshot, now: &dyn Snapshot, written: &Written) -> Result<()> {
    for (tree, writes) in &written.trees {
        // No other transaction writes to trees created here; of a dropped one no row is written.
        if writes.presence != Presence::Unchanged {
            continue;
        }
        if !writes.ranges.is_empty() {
            return Err(Error::Conflict);
        }
        for key in writes.entries.keys() {
            require_same(then, now, *tree, key)?;
        }
    }
    Ok(())
}

fn require_same(then: &dyn Snapshot, now: &dyn Snapshot, tree: TreeId, key: &[u8]) -> Result<()> {
    let same = match (then.get(tree, key), now.get(tree, key)) {
        (Ok(then), Ok(now)) => then == now,
        // It was created or dropped in between, or is the transaction's own.
        (Err(arbor_engine::Error::UnknownTree(_)), Err(arbor_engine::Error::UnknownTree(_))) => true,
        (Err(arbor_engine::Error::UnknownTree(_)), Ok(_)) | (Ok(_), Err(arbor_engine::Error::UnknownTree(_))) => false,
        (Err(error), _) | (_, Err(error)) => return Err(error.into()),
    };
    if same { Ok(()) } else { Err(Error::Conflict) }
}
