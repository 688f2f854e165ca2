//! Loads on their way to other members: a primary waits until they have them, and they fetch them.

use std::time::Duration;

use arbor_base::{Position, TreeId};

use super::ahead::Fetched;
use super::loads::{Loads, Offered};
use super::rows::FetchedRows;
use super::source::{Begun, Peer, PeerError};
use crate::commit_rule::CommitRule;
use crate::record::Load;
use crate::{Durability, Error, Result, Transaction, Transactions};

/// Interval at which a primary that waits for others asks whether it is to stop.
const ASK_INTERVAL: Duration = Duration::from_millis(20);

impl Transactions {
    pub fn loads(&self) -> &Loads {
        self.path.loads()
    }

    /// Makes loads part of the log: returns once the members that are waited for have them, and a record refers to them. Until then no
    /// record may change the trees.
    ///
    /// Requires that the rows are durable here. Errors: `NotLeading`; `Refused` when `is_stopped` said so.
    pub fn publish_loads(&self, loads: &[Load], is_stopped: &dyn Fn() -> bool) -> Result<Position> {
        if loads.is_empty() {
            return Ok(self.path.published());
        }
        let own = self.loads();
        own.open_all(loads);
        let published = self.wait_everywhere(loads, is_stopped).and_then(|()| {
            let refer = |txn: &mut Transaction| -> Result<()> {
                loads.iter().for_each(|load| txn.refer_to(*load));
                Ok(())
            };
            self.retry(Durability::Applied, refer).map(|((), position)| position)
        });
        own.close_all(loads);
        published
    }

    fn wait_everywhere(&self, loads: &[Load], is_stopped: &dyn Fn() -> bool) -> Result<()> {
        let own = self.loads();
        loop {
            if !self.is_leading() {
                return Err(Error::NotLeading);
            }
            self.path.check_open()?;
            if self.rule() == CommitRule::Own {
                return Ok(());
            }
            let mut state = own.lock();
            if loads.iter().all(|load| state.open.get(&load.tree) == Some(&true)) {
                return Ok(());
            }
            own.changed.wait_for(&mut state, ASK_INTERVAL);
            drop(state);
            if is_stopped() {
                return Err(Error::Refused { reason: "it was stopped".into() });
            }
        }
    }

    /// Fetches loads that the primary offers, as far as their trees exist here. Returns the number of those that came.
    pub fn fetch_offered(&self, offered: &[u64], peer: &dyn Peer, is_stopped: &dyn Fn() -> bool) -> Result<usize> {
        let mut count = 0;
        for tree in offered.iter().map(|load| TreeId(*load)) {
            let is_known = self.loads().lock().own.contains_key(&tree);
            match self.rows_of(tree)? {
                _ if is_known => {}
                None => {}
                // It was fetched before a restart: until a record refers to it, its rows are those of the load.
                Some(true) => {
                    self.checkpoint_now()?;
                    self.loads().lock().own.insert(tree, None);
                    count += 1;
                }
                Some(false) => count += usize::from(self.fetch_load(tree, None, peer, is_stopped)?),
            }
        }
        Ok(count)
    }

    /// Fetches the loads that records of the log refer to and that are not here, and continues to apply. Returns the number of those that
    /// came. A load whose tree does not exist here yet is fetched by a later call: the records before it come first.
    pub fn fetch_missing(&self, peer: &dyn Peer, is_stopped: &dyn Fn() -> bool) -> Result<usize> {
        let missing: Vec<(Position, Load)> = {
            let state = self.loads().lock();
            state.missing.iter().flat_map(|(at, loads)| loads.iter().map(|load| (*at, *load))).collect()
        };
        let mut count = 0;
        let mut failed = Ok(());
        for (position, load) in missing {
            // Its record may have come while it was being fetched.
            let fetched = match self.loads().has(&**self.engine(), &load)? {
                true => self.checkpoint_now().map(|_| true),
                false if self.rows_of(load.tree)?.is_none() => Ok(false),
                false => self.fetch_load(load.tree, Some(position), peer, is_stopped),
            };
            match fetched {
                Ok(came) => count += usize::from(came),
                Err(error) => {
                    failed = Err(error);
                    break;
                }
            }
        }
        if count > 0 {
            self.settle_missing()?;
        }
        failed.map(|()| count)
    }

    /// Forgets which loads were missing and are here by now, and applies what waited for them.
    fn settle_missing(&self) -> Result<()> {
        let (own, engine) = (self.loads(), self.engine());
        let waiting: Vec<(Position, Vec<Load>)> =
            own.lock().missing.iter().map(|(position, loads)| (*position, loads.clone())).collect();
        for (position, loads) in waiting {
            let mut all = true;
            for load in &loads {
                all &= own.has(&**engine, load)?;
            }
            if all {
                own.lock().missing.remove(&position);
            }
        }
        let mut committed = self.path.lock();
        self.path.apply_committed(&mut committed)
    }

    /// Returns true if the tree has rows; `None`: it does not exist here.
    fn rows_of(&self, tree: TreeId) -> Result<Option<bool>> {
        match self.engine().snapshot()?.cursor(tree) {
            Ok(mut cursor) => Ok(Some(cursor.first()?)),
            Err(arbor_engine::Error::UnknownTree(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// `referred`: a record there refers to it, so the peer's tree may have changed since. Returns false if another thread fetches it, or
    /// it is gone.
    fn fetch_load(
        &self,
        tree: TreeId,
        referred: Option<Position>,
        peer: &dyn Peer,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<bool> {
        if !self.loads().lock().fetching.insert(tree) {
            return Ok(false);
        }
        let fetched = self.fetch_tree(tree, referred, peer, is_stopped);
        self.loads().lock().fetching.remove(&tree);
        fetched
    }

    fn fetch_tree(
        &self,
        tree: TreeId,
        referred: Option<Position>,
        peer: &dyn Peer,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let begun = peer.begin().map_err(peer_failed)?;
        let mut rows = FetchedRows::new(peer, begun.snapshot, tree, is_stopped);
        if referred.is_some() {
            // Before its rows are there: operations on it up to that state must not come after them.
            self.loads().lock().ahead.insert(tree, begun.position);
        }
        let note = |has_ended| {
            let fetched = Fetched { until: begun.position, has_ended };
            self.loads().store_ahead(self.path.options().sync_marker.as_ref(), tree, fetched)
        };
        let noted = note(false);
        let loaded = noted.and_then(|()| self.bulk_load(tree, &mut rows));
        peer.end(begun.snapshot);
        let (offered, error) = (Offered { rows: rows.checksum, of: begun.position }, rows.error.take());
        let outcome = match (error, loaded) {
            // A peer that has restarted may be before the record that creates the tree.
            (Some(PeerError::NoTree(_)), _) if referred.is_some_and(|record| begun.position < record) => {
                let reason =
                    format!("it has no tree {tree} at {}, before the record that refers to it", begun.position);
                Err(Error::Peer { reason })
            }
            // It was dropped since: what refers to it is passed over until then.
            (Some(PeerError::NoTree(_)), _) if referred.is_some() => Ok(true),
            (Some(PeerError::NoTree(_)), _) => Ok(false),
            (Some(error), _) => Err(peer_failed(error)),
            (None, Err(Error::UnknownTree(_))) => Ok(false),
            (None, loaded) => loaded.map(|()| true),
        };
        if !matches!(outcome, Ok(true)) {
            self.loads().lock().ahead.remove(&tree);
            return outcome;
        }
        if let Err(error) = self.checkpoint_now().and_then(|_| note(true)) {
            // The rows are here, and nothing else says of which state.
            self.loads().lock().ahead.insert(tree, begun.position);
            return Err(error);
        }
        self.loads().lock().own.insert(tree, referred.is_none().then_some(offered));
        Ok(true)
    }
}

pub(super) fn peer_failed(error: PeerError) -> Error {
    Error::Peer { reason: error.to_string() }
}

/// The trees of a begun snapshot, for a message.
pub(super) fn described(begun: &Begun) -> String {
    format!("{} trees at {}", begun.trees.len(), begun.position)
}
