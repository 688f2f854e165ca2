//! Sources of merges.

use crate::{Entry, Result};

/// Entries in the order E1, read forwards.
pub trait Source {
    /// The current entry; `None` at the end.
    fn entry(&self) -> Option<Entry<'_>>;

    /// The key of that entry.
    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.entry().map(|entry| entry.key)
    }

    /// Goes to the next entry. Does nothing at the end.
    fn advance(&mut self) -> Result<()>;

    /// Goes to the first entry with this key or a greater one. Requires: no entry that was passed is looked for.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn entry(&self) -> Option<Entry<'_>> {
        (**self).entry()
    }

    fn key(&self) -> Option<&[u8]> {
        (**self).key()
    }

    fn advance(&mut self) -> Result<()> {
        (**self).advance()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        (**self).seek(key)
    }
}

/// The part of a source with `from <= key < to`.
pub struct Clipped<S> {
    source: S,
    to: Option<Vec<u8>>,
    /// The source is on an entry below `to`.
    inside: bool,
}

impl<S: Source> Clipped<S> {
    /// Seeks `from`; an empty key is below all.
    pub fn new(mut source: S, from: &[u8], to: Option<&[u8]>) -> Result<Clipped<S>> {
        source.seek(from)?;
        let mut clipped = Clipped { source, to: to.map(<[u8]>::to_vec), inside: false };
        clipped.look();
        Ok(clipped)
    }

    #[inline]
    fn look(&mut self) {
        self.inside = match (self.source.key(), &self.to) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(key), Some(to)) => key < to.as_slice(),
        };
    }
}

impl<S: Source> Source for Clipped<S> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        if self.inside { self.source.entry() } else { None }
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        if self.inside { self.source.key() } else { None }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        if self.inside {
            self.source.advance()?;
            self.look();
        }
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        if self.inside {
            self.source.seek(key)?;
            self.look();
        }
        Ok(())
    }
}

/// Entries of a slice, for tests and for messages that were gathered in memory.
pub struct Slice<'a> {
    entries: &'a [Entry<'a>],
}

impl<'a> Slice<'a> {
    pub fn new(entries: &'a [Entry<'a>]) -> Slice<'a> {
        Slice { entries }
    }
}

impl Source for Slice<'_> {
    fn entry(&self) -> Option<Entry<'_>> {
        self.entries.first().copied()
    }

    fn advance(&mut self) -> Result<()> {
        self.entries = self.entries.get(1..).unwrap_or_default();
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let passed = self.entries.partition_point(|entry| entry.key < key);
        self.entries = self.entries.get(passed..).unwrap_or_default();
        Ok(())
    }
}
