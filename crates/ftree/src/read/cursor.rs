//! A cursor over one tree at one sequence number.

use std::cell::Cell;
use std::sync::Arc;

use arbor_base::memory::values;

use super::Reader;
use super::overlay::KEYS_MAX;
use super::page::Page;
use super::path::Place;
use super::read_ahead::ReadAhead;
use crate::tree::Tree;
use crate::{Kind, Result, blob};

/// Keys of each memtable and run in the first page after a seek: a read of a few rows does not gather hundreds. Each page that
/// follows may have this many times more.
const KEYS_FIRST: usize = 32;
const KEYS_GROWTH: usize = 4;

thread_local! {
    /// A page with its memory, which the next cursor of this thread takes.
    static SPARE: Cell<Option<Page>> = const { Cell::new(None) };
}

/// Borrows what the reader needs; keeps the tree's incarnation.
pub struct TreeCursor<'r> {
    reader: Reader<'r>,
    tree: Arc<Tree>,
    page: Page,
    /// Row of the page; `None`: nowhere.
    at: Option<usize>,
    /// The value of the row, if it is in an extent of its own.
    blob: Option<Vec<u8>>,
    ahead: ReadAhead,
    /// Memory for the key at which the next page begins.
    key: Vec<u8>,
    /// Keys of each memtable and run in the next page.
    keys_max: usize,
}

impl<'r> TreeCursor<'r> {
    /// Returns an unpositioned cursor.
    pub fn new(reader: Reader<'r>, tree: Arc<Tree>) -> TreeCursor<'r> {
        let (page, ahead) = (SPARE.take().unwrap_or_default(), ReadAhead::default());
        TreeCursor { reader, tree, page, at: None, blob: None, ahead, key: Vec::new(), keys_max: KEYS_FIRST }
    }

    fn load(&mut self, place: Place<'_>) -> Result<()> {
        self.blob = None;
        let version = self.tree.version_to_read();
        let loaded = self.page.load(&self.reader, &version, place, self.keys_max, &mut self.ahead);
        drop(version);
        // rows of memtables may be large; memory for their further copies
        values::before_value(self.page.overlay_bytes());
        self.keys_max = (self.keys_max * KEYS_GROWTH).min(KEYS_MAX);
        if loaded.is_err() {
            self.page.clear();
        }
        loaded
    }

    /// Goes to a place. The page at hand may show it.
    fn go(&mut self, place: Place<'_>) -> Result<bool> {
        self.at = None;
        if !self.page.shows(place) {
            self.ahead.begin();
            self.keys_max = KEYS_FIRST;
            self.load(place)?;
        }
        match place {
            Place::From(key) => {
                let at = self.page.lower_bound(key);
                if at < self.page.len() { self.land_forward(at) } else { self.forward() }
            }
            Place::Before(key) => match self.page.lower_bound(key).checked_sub(1) {
                Some(at) => self.land_backward(at),
                None => self.backward(),
            },
            Place::End => match self.page.len().checked_sub(1) {
                Some(at) => self.land_backward(at),
                None => self.backward(),
            },
        }
    }

    /// To the first row after the page.
    fn forward(&mut self) -> Result<bool> {
        self.at = None;
        let mut key = std::mem::take(&mut self.key);
        let mut found = Ok(None);
        while let (Ok(None), Some(high)) = (&found, self.page.high()) {
            key.clear();
            key.extend_from_slice(high);
            found = self.load(Place::From(&key)).map(|()| Some(self.page.lower_bound(&key)));
            found = found.map(|at| at.filter(|at| *at < self.page.len()));
        }
        self.key = key;
        found?.map_or(Ok(false), |at| self.land_forward(at))
    }

    /// To the last row before the page.
    fn backward(&mut self) -> Result<bool> {
        self.at = None;
        let mut key = std::mem::take(&mut self.key);
        let mut found = Ok(None);
        while matches!(found, Ok(None)) && !self.page.low().is_empty() {
            key.clear();
            key.extend_from_slice(self.page.low());
            found = self.load(Place::Before(&key)).map(|()| self.page.lower_bound(&key).checked_sub(1));
        }
        self.key = key;
        found?.map_or(Ok(false), |at| self.land_backward(at))
    }

    /// To a row of another page or place, behind which the page's other rows are read next.
    fn land_forward(&mut self, at: usize) -> Result<bool> {
        self.ahead.pass(self.page.len() - at);
        self.land(at)
    }

    /// To a row of another page or place, before which the page's other rows are read next.
    fn land_backward(&mut self, at: usize) -> Result<bool> {
        self.ahead.pass(at + 1);
        self.land(at)
    }

    #[inline]
    fn land(&mut self, at: usize) -> Result<bool> {
        if self.page.has_blobs {
            self.load_blob(at)?;
        }
        self.at = Some(at);
        Ok(true)
    }

    fn load_blob(&mut self, at: usize) -> Result<()> {
        self.at = None;
        self.blob = match self.page.kind(at) {
            Kind::PutBlob => {
                let pointer = self.page.value(at);
                values::before_value(blob::value_bytes(pointer)?);
                Some(blob::load(self.reader.io, pointer)?)
            }
            _ => None,
        };
        Ok(())
    }
}

impl Drop for TreeCursor<'_> {
    fn drop(&mut self) {
        let mut page = std::mem::take(&mut self.page);
        page.clear();
        // No error: at the end of a thread the page goes too.
        let _ = SPARE.try_with(|spare| spare.set(Some(page)));
    }
}

impl arbor_engine::Cursor for TreeCursor<'_> {
    fn seek(&mut self, target: &[u8]) -> Result<bool> {
        self.go(Place::From(target))
    }

    fn seek_before(&mut self, target: &[u8]) -> Result<bool> {
        self.go(Place::Before(target))
    }

    fn first(&mut self) -> Result<bool> {
        self.go(Place::From(&[]))
    }

    fn last(&mut self) -> Result<bool> {
        self.go(Place::End)
    }

    #[inline]
    fn next(&mut self) -> Result<bool> {
        match self.at {
            None => Ok(false),
            Some(at) if at + 1 < self.page.len() => self.land(at + 1),
            Some(_) => self.forward(),
        }
    }

    #[inline]
    fn prev(&mut self) -> Result<bool> {
        match self.at {
            None => Ok(false),
            Some(0) => self.backward(),
            Some(at) => self.land(at - 1),
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.at.map_or(&[], |at| self.page.key(at))
    }

    #[inline]
    fn value(&self) -> &[u8] {
        match (&self.blob, self.at) {
            (Some(blob), Some(_)) => blob,
            (None, Some(at)) => self.page.value(at),
            (_, None) => &[],
        }
    }

    fn expect_rows(&mut self, rows: u64, end: &[u8]) {
        self.ahead.expect_rows(rows, end);
    }
}
