//! Merging during flushes.
//!
//! - [`Merge`]: several sources as one, in the order E1
//! - [`Fold`]: which versions of a key are kept, and as what. All visibility rules of the engine are there.
//! - [`Fragments`]: the range tombstones of a merge
//! - [`MessageMerge`]: merges messages with the rows below them, through both
//! - `rewrite`: a whole job: tables in, tables out

pub mod fold;
pub mod fragments;
mod heap;
mod input;
mod large_values;
mod leaves;
pub mod message_merge;
pub mod rewrite;
mod runs;
pub mod source;

#[cfg(test)]
mod fold_tests;
#[cfg(test)]
mod rewrite_tests;

pub use fold::{Fold, FoldResult, RetainedVersion, Versions};
pub use fragments::{Fragment, Fragments};
pub use message_merge::{MessageMerge, Sink};
pub use rewrite::{Input, LargeValuePolicy, Messages, Output, Rewrite, Target, rewrite};
pub use runs::RUN_MAX;
pub use source::{Clipped, Slice, Source};

use heap::Heap;

use crate::{Entry, Result};

/// Several sources as one. Requires: sources newest first, i.e. of one key all that an earlier source holds is newer than
/// what a later one holds (I1 of the tree gives that). Of equal keys those of the earlier source come first.
pub struct Merge<S> {
    sources: Vec<S>,
    heap: Heap,
    key: Vec<u8>,
}

impl<S: Source> Merge<S> {
    /// `common`: this many first bytes are the same in all keys of all sources; 0 is always right.
    pub fn new(sources: Vec<S>, common: usize) -> Merge<S> {
        debug_assert!(
            sources.iter().filter_map(Source::key).all(|key| key.len() >= common),
            "they share {common} bytes"
        );
        let heap = Heap::new(&sources, common);
        Merge { sources, heap, key: Vec::new() }
    }

    /// Passes all entries of the current key.
    pub fn pass_key(&mut self) -> Result<()> {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.extend_from_slice(self.key().unwrap_or_default());
        let mut passed = Ok(());
        while passed.is_ok() && self.key() == Some(&key) {
            passed = self.advance();
        }
        self.key = key;
        passed
    }
}

impl<S: Source> Source for Merge<S> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.sources.get(self.heap.top()?)?.entry()
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.sources.get(self.heap.top()?)?.key()
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        if let Some(top) = self.heap.top().and_then(|top| self.sources.get_mut(top)) {
            top.advance()?;
            self.heap.top_moved(&self.sources);
        }
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        while self.key().is_some_and(|current| current < key) {
            let top =
                self.heap.top().and_then(|top| self.sources.get_mut(top)).expect("a merge that has an entry has a top");
            top.seek(key)?;
            self.heap.top_moved(&self.sources);
        }
        Ok(())
    }
}
