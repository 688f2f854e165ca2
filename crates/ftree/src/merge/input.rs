//! Inputs of a job.

use std::sync::Arc;

use super::Source;
use super::message_merge::Rows;
use super::rewrite::{Input, Messages};
use crate::block::Block;
use crate::io::Io;
use crate::memtable::MemCursor;
use crate::table::{Reading, StoredBlock, Table, TableCursor};
use crate::{Entry, Result};

/// Messages of one input, or of several runs that follow each other in key order.
pub(super) enum Stream<'a> {
    Memtable(MemCursor<'a>),
    Runs(Box<RunChain<'a>>),
}

impl<'a> Stream<'a> {
    /// Requires: `seek` before anything else. `inputs` are one memtable, or runs as [`follows`] says, the last in key order first.
    pub(super) fn new(inputs: &'a [Input], io: &'a Io) -> Option<Stream<'a>> {
        let (last, before) = inputs.split_last()?;
        Some(match &last.messages {
            Messages::Memtable(part) => Stream::Memtable(part.cursor()),
            Messages::Run(run) => {
                let cursor = TableCursor::new(run.clone(), io, Reading::Sequential);
                Stream::Runs(Box::new(RunChain { io, cursor, current: run, later: before }))
            }
        })
    }
}

/// Returns true if the newer of two neighbouring inputs is wholly after the other, within the same bounds: one cursor does for
/// both. The runs that a large part of a memtable was cut into do.
pub(super) fn follows(newer: &Input, older: &Input) -> bool {
    match (&newer.messages, &older.messages) {
        (Messages::Run(newer_run), Messages::Run(older_run)) => {
            let rows = newer_run.meta.rows > 0 && older_run.meta.rows > 0;
            let same = newer.from == older.from && newer.to == older.to;
            rows && same && older_run.meta.last_key < newer_run.meta.first_key
        }
        _ => false,
    }
}

/// Runs that follow each other in key order, of which one is open.
pub(super) struct RunChain<'a> {
    io: &'a Io,
    cursor: TableCursor<'a>,
    current: &'a Arc<Table>,
    /// The next one last.
    later: &'a [Input],
}

impl RunChain<'_> {
    /// Returns true if there was one.
    fn next_run(&mut self) -> bool {
        while let Some((next, later)) = self.later.split_last() {
            self.later = later;
            if let Messages::Run(run) = &next.messages {
                self.current = run;
                self.cursor = TableCursor::new(run.clone(), self.io, Reading::Sequential);
                return true;
            }
        }
        false
    }

    /// Continues where a run ended.
    #[cold]
    fn next_input(&mut self) -> Result<()> {
        while self.cursor.block().is_none() && self.next_run() {
            self.cursor.first()?;
        }
        Ok(())
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        self.cursor.next()?;
        if self.cursor.block().is_none() { self.next_input() } else { Ok(()) }
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        while self.current.meta.last_key.as_slice() < key && self.next_run() {}
        self.cursor.seek(key)?;
        self.next_input()
    }
}

impl Source for Stream<'_> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        match self {
            Stream::Memtable(cursor) => cursor.entry(),
            Stream::Runs(chain) => chain.cursor.entry(),
        }
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        match self {
            Stream::Memtable(cursor) => cursor.entry().map(|entry| entry.key),
            Stream::Runs(chain) => chain.cursor.block().map(|(block, row)| block.key(row)),
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        match self {
            Stream::Memtable(cursor) => {
                cursor.next();
                Ok(())
            }
            Stream::Runs(chain) => chain.advance(),
        }
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        match self {
            Stream::Memtable(cursor) => {
                cursor.seek(key);
                Ok(())
            }
            Stream::Runs(chain) => chain.seek(key),
        }
    }
}

/// Rows of leaves that follow each other in key order.
pub(super) struct LeafRows<'a> {
    io: &'a Io,
    current: Option<TableCursor<'a>>,
    later: &'a [Arc<Table>],
}

impl<'a> LeafRows<'a> {
    pub(super) fn new(leaves: &'a [Arc<Table>], io: &'a Io) -> Result<LeafRows<'a>> {
        let follow = |one: &Arc<Table>, next: &Arc<Table>| one.meta.last_key <= next.meta.first_key;
        debug_assert!(leaves.is_sorted_by(follow), "neighbouring leaves come in key order");
        let mut rows = LeafRows { io, current: None, later: leaves };
        rows.next_leaf()?;
        Ok(rows)
    }

    fn next_leaf(&mut self) -> Result<()> {
        self.current = None;
        while let Some((leaf, later)) = self.later.split_first() {
            self.later = later;
            let mut cursor = TableCursor::new(leaf.clone(), self.io, Reading::Sequential);
            cursor.first()?;
            if cursor.block().is_some() {
                self.current = Some(cursor);
                break;
            }
        }
        Ok(())
    }
}

impl Rows for LeafRows<'_> {
    #[inline]
    fn block(&self) -> Option<(&Block, usize)> {
        self.current.as_ref()?.block()
    }

    fn stored(&self) -> Option<StoredBlock<'_>> {
        self.current.as_ref()?.stored()
    }

    fn pass_to(&mut self, row: usize) -> Result<()> {
        if let Some(cursor) = &mut self.current {
            cursor.skip_to(row)?;
            if cursor.block().is_none() {
                self.next_leaf()?;
            }
        }
        Ok(())
    }
}
