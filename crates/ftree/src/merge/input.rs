//! What a job reads.

use std::sync::Arc;

use super::Source;
use super::confluence::Rows;
use super::rewrite::{Input, Messages};
use crate::block::Block;
use crate::io::Io;
use crate::memtable::MemCursor;
use crate::table::{Reading, StoredBlock, Table, TableCursor};
use crate::{Entry, Result};

/// Messages of one input.
pub enum Stream<'a> {
    Memtable(MemCursor<'a>),
    Run(Box<TableCursor<'a>>),
}

impl<'a> Stream<'a> {
    /// Requires: `seek` before anything else.
    pub fn new(input: &'a Input, io: &'a Io) -> Stream<'a> {
        match &input.messages {
            Messages::Memtable(part) => Stream::Memtable(part.cursor()),
            Messages::Run(run) => Stream::Run(Box::new(TableCursor::new(run.clone(), io, Reading::Sequential))),
        }
    }
}

impl Source for Stream<'_> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        match self {
            Stream::Memtable(cursor) => cursor.entry(),
            Stream::Run(cursor) => cursor.entry(),
        }
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        match self {
            Stream::Memtable(cursor) => cursor.entry().map(|entry| entry.key),
            Stream::Run(cursor) => cursor.block().map(|(block, row)| block.key(row)),
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        match self {
            Stream::Memtable(cursor) => {
                cursor.next();
                Ok(())
            }
            Stream::Run(cursor) => cursor.next(),
        }
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        match self {
            Stream::Memtable(cursor) => {
                cursor.seek(key);
                Ok(())
            }
            Stream::Run(cursor) => cursor.seek(key),
        }
    }
}

/// Rows of leaves that follow each other in key order.
pub struct LeafRows<'a> {
    io: &'a Io,
    current: Option<TableCursor<'a>>,
    later: &'a [Arc<Table>],
}

impl<'a> LeafRows<'a> {
    pub fn new(leaves: &'a [Arc<Table>], io: &'a Io) -> Result<LeafRows<'a>> {
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
