//! The snapshots that transactions still write against: conflict entries before the oldest of them are forgotten.
//!
//! I1: a ticket's position is read under its shard's lock *before* the transaction takes its snapshot, so it is never
//! after the snapshot. The commit leader is the only one that raises the published position and that asks for the
//! oldest; a ticket it does not see yet will therefore carry at least the position that it published last.

use std::collections::BTreeMap;
use std::sync::Arc;

use arbor_base::Position;
use parking_lot::{Mutex, MutexGuard};

const SHARDS: usize = 16;

#[derive(Default)]
pub(crate) struct ActiveTransactions {
    shards: [Shard; SHARDS],
}

#[derive(Default)]
#[repr(align(64))]
struct Shard(Mutex<BTreeMap<Position, usize>>);

/// Registration of one transaction; ends when dropped.
pub(crate) struct Ticket {
    active: Arc<ActiveTransactions>,
    shard: usize,
    position: Position,
}

impl ActiveTransactions {
    pub(crate) fn register(self: &Arc<Self>, published: impl FnOnce() -> Position) -> Ticket {
        let shard = arbor_base::thread_number() % SHARDS;
        let mut positions = self.lock(shard);
        let position = published();
        *positions.entry(position).or_default() += 1;
        drop(positions);
        Ticket { active: self.clone(), shard, position }
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, BTreeMap<Position, usize>> {
        self.shards.get(shard).expect("a number below SHARDS").0.lock()
    }

    /// The oldest position that an active transaction may read at; `published` when there is none.
    pub(crate) fn oldest(&self, published: Position) -> Position {
        let oldest_of = |shard: &Shard| shard.0.lock().first_key_value().map(|(position, _)| *position);
        self.shards.iter().filter_map(oldest_of).min().unwrap_or(published).min(published)
    }
}

impl Ticket {
    pub(crate) fn position(&self) -> Position {
        self.position
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut positions = self.active.lock(self.shard);
        let count = positions.get_mut(&self.position).expect("I1: a ticket is counted until it is dropped");
        *count -= 1;
        if *count == 0 {
            positions.remove(&self.position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_ticket_counts_until_it_is_dropped() {
        let active = Arc::new(ActiveTransactions::default());
        let old = active.register(|| Position(3));
        let same = active.register(|| Position(3));
        let young = active.register(|| Position(9));
        let oldest = || active.oldest(Position(10)).0;
        assert_eq!(oldest(), 3);
        drop(old);
        assert_eq!(oldest(), 3);
        drop(same);
        assert_eq!(oldest(), 9);
        drop(young);
        assert_eq!(oldest(), 10);
    }
}
