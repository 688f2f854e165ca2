//! Ordered movement over one tree: one LMDB cursor and the path of layers that it is in.
//!
//! In a tree without long keys the path stays empty and each move is one move of the LMDB cursor. Where a move ends on a
//! link it continues in the layer, at its first or last row by direction; where it leaves a layer it returns to the
//! link and continues from there.

use arbor_engine::Result;

use crate::keys::{CHUNK_BYTES, Chunk, Content, StoredKey};
use crate::raw::{Cursor, Entry, Move, Txn};
use crate::rows::layer_of;

/// Invariant C1: while `value` is `Some`, the LMDB cursor is positioned on the row, which is in the content `here()`.
pub(crate) struct LmdbCursor<'t> {
    cursor: Cursor<'t>,
    tree: Content,
    /// The layers entered, outermost first.
    path: Vec<Layer>,
    /// The row's key: in `short` when it is one stored key, else joined in `long`.
    short: &'t [u8],
    long: Vec<u8>,
    value: Option<&'t [u8]>,
}

struct Layer {
    content: Content,
    /// Stored key of its link.
    link: StoredKey,
    /// The link's chunk within `link`.
    chunk_at: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Forward,
    Backward,
}

impl<'t> LmdbCursor<'t> {
    pub(crate) fn new(txn: &'t Txn, tree: Content) -> Result<LmdbCursor<'t>> {
        let cursor = txn.cursor()?;
        Ok(LmdbCursor { cursor, tree, path: Vec::new(), short: &[], long: Vec::new(), value: None })
    }

    fn here(&self) -> Content {
        self.path.last().map_or(self.tree, |layer| layer.content)
    }

    /// Ends a move: the LMDB cursor is on `entry`, or ran off its end. Follows links and leaves layers until it is on a
    /// row of the tree or the tree is at its end.
    fn settle(&mut self, mut entry: Option<Entry<'t>>, direction: Direction) -> Result<bool> {
        loop {
            let rows = self.here().rows();
            let inside = entry.and_then(|(key, value)| Some((key.strip_prefix(rows.as_slice())?, value)));
            entry = match inside {
                Some((chunk, value)) => match Chunk::of(chunk) {
                    Chunk::Row(end) => {
                        self.place(end, value);
                        return Ok(true);
                    }
                    Chunk::Link(chunk) => {
                        self.enter(chunk, layer_of(value)?);
                        self.enter_at(direction)?
                    }
                },
                None => match self.path.pop() {
                    Some(layer) => {
                        self.cursor.go(Move::Seek(layer.link.as_slice()))?;
                        self.cursor.go(step(direction))?
                    }
                    None => {
                        self.value = None;
                        return Ok(false);
                    }
                },
            }
        }
    }

    fn place(&mut self, end: &'t [u8], value: &'t [u8]) {
        self.value = Some(value);
        self.short = end;
        self.long.clear();
        if !self.path.is_empty() {
            for layer in &self.path {
                let chunk = layer.link.as_slice().get(layer.chunk_at..layer.chunk_at + CHUNK_BYTES);
                self.long.extend_from_slice(chunk.expect("a link ends with a whole chunk"));
            }
            self.long.extend_from_slice(end);
        }
    }

    fn enter(&mut self, chunk: &[u8], content: Content) {
        let above = self.here();
        self.path.push(Layer { content, link: above.link(chunk), chunk_at: above.rows().as_slice().len() });
    }

    /// To the first or last stored row of the content it is in.
    fn enter_at(&mut self, direction: Direction) -> Result<Option<Entry<'t>>> {
        match direction {
            Direction::Forward => self.cursor.go(Move::Seek(self.here().rows().as_slice())),
            Direction::Backward => self.before(&self.here().fence()),
        }
    }

    /// To the last stored key before a place.
    fn before(&mut self, place: &StoredKey) -> Result<Option<Entry<'t>>> {
        match self.cursor.go(Move::Seek(place.as_slice()))? {
            Some(_) => self.cursor.go(Move::Prev),
            None => self.cursor.go(Move::Last),
        }
    }

    /// Follows the links that a long target goes through, as far as they exist. Returns the stored place of the rest:
    /// rows of the target's side begin there.
    fn descend(&mut self, mut target: &[u8]) -> Result<StoredKey> {
        self.path.clear();
        while let Some((chunk, rest)) = target.split_at_checked(CHUNK_BYTES).filter(|(_, rest)| !rest.is_empty()) {
            let place = self.here().link(chunk);
            match self.cursor.go(Move::Seek(place.as_slice()))? {
                Some((key, value)) if key == place.as_slice() => self.enter(chunk, layer_of(value)?),
                // No longer key begins with this chunk: everything from the link's place on is greater.
                _ => return Ok(place),
            }
            target = rest;
        }
        Ok(self.here().row(target))
    }

    fn step(&mut self, direction: Direction) -> Result<bool> {
        if self.value.is_none() {
            return Ok(false);
        }
        let entry = self.cursor.go(step(direction))?;
        self.settle(entry, direction)
    }

    fn end(&mut self, direction: Direction) -> Result<bool> {
        self.path.clear();
        let entry = self.enter_at(direction)?;
        self.settle(entry, direction)
    }
}

fn step(direction: Direction) -> Move<'static> {
    match direction {
        Direction::Forward => Move::Next,
        Direction::Backward => Move::Prev,
    }
}

impl arbor_engine::Cursor for LmdbCursor<'_> {
    fn seek(&mut self, target: &[u8]) -> Result<bool> {
        let place = self.descend(target)?;
        let entry = self.cursor.go(Move::Seek(place.as_slice()))?;
        self.settle(entry, Direction::Forward)
    }

    fn seek_before(&mut self, target: &[u8]) -> Result<bool> {
        let place = self.descend(target)?;
        let entry = self.before(&place)?;
        self.settle(entry, Direction::Backward)
    }

    fn first(&mut self) -> Result<bool> {
        self.end(Direction::Forward)
    }

    fn last(&mut self) -> Result<bool> {
        self.end(Direction::Backward)
    }

    fn next(&mut self) -> Result<bool> {
        self.step(Direction::Forward)
    }

    fn prev(&mut self) -> Result<bool> {
        self.step(Direction::Backward)
    }

    fn key(&self) -> &[u8] {
        assert!(self.value.is_some(), "cursor contract: key only while the cursor is on an entry");
        if self.path.is_empty() { self.short } else { &self.long }
    }

    fn value(&self) -> &[u8] {
        self.value.expect("cursor contract: value only while the cursor is on an entry")
    }
}
