//! The rows of a peer's tree, block by block.

use std::collections::VecDeque;

use arbor_base::TreeId;

use super::block::{self, Row, RowsChecksum};
use super::source::{Peer, PeerError};

/// Attempts for a block that does not arrive as it was sent.
const TRIES: u32 = 3;

/// An error is kept and ends the rows. Behind others the end is a key out of order, so that the engine takes none of them: a part of a
/// tree would count as the tree.
pub(super) struct FetchedRows<'p> {
    peer: &'p dyn Peer,
    snapshot: u64,
    tree: TreeId,
    ahead: VecDeque<Row>,
    last_key: Option<Vec<u8>>,
    is_last: bool,
    pub checksum: RowsChecksum,
    pub bytes: u64,
    pub error: Option<PeerError>,
    /// The last key again, after an error.
    refused: Option<Vec<u8>>,
    /// Asked before each block.
    is_stopped: &'p dyn Fn() -> bool,
}

impl<'p> FetchedRows<'p> {
    pub(super) fn new(
        peer: &'p dyn Peer,
        snapshot: u64,
        tree: TreeId,
        is_stopped: &'p dyn Fn() -> bool,
    ) -> FetchedRows<'p> {
        FetchedRows {
            peer,
            snapshot,
            tree,
            ahead: VecDeque::new(),
            last_key: None,
            is_last: false,
            checksum: RowsChecksum::default(),
            bytes: 0,
            error: None,
            refused: None,
            is_stopped,
        }
    }

    fn fetch(&mut self) -> Result<(), PeerError> {
        if (self.is_stopped)() {
            return Err(PeerError::Failed("the fetch of a tree was stopped".into()));
        }
        for attempt in 1.. {
            let block = self.peer.block(self.snapshot, self.tree, self.last_key.as_deref())?;
            match block::decode(&block) {
                Ok((rows, is_last)) => {
                    (self.ahead, self.is_last) = (rows.into(), is_last);
                    break;
                }
                Err(reason) if attempt == TRIES => {
                    return Err(PeerError::Failed(format!("tree {}: {reason}", self.tree)));
                }
                Err(_) => {}
            }
        }
        let last = self.ahead.back().map(|(key, _)| key.clone());
        if last.is_none() && !self.is_last {
            return Err(PeerError::Failed(format!("tree {}: a block without rows is not the last", self.tree)));
        }
        self.last_key = last.or(self.last_key.take());
        Ok(())
    }
}

impl Iterator for FetchedRows<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        while self.ahead.is_empty() && !self.is_last && self.error.is_none() {
            self.error = self.fetch().err();
            if self.error.is_some() {
                self.refused = self.last_key.clone();
            }
        }
        if self.error.is_some() {
            return self.refused.take().map(|key| (key, Vec::new()));
        }
        let row = self.ahead.pop_front()?;
        self.checksum.add(&row.0, &row.1);
        self.bytes += (row.0.len() + row.1.len()) as u64;
        Some(row)
    }
}
