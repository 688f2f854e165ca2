//! The block that a get of one key would wait for, read before it begins.
//!
//! A hint that follows [`get`](super::get) in outline: the first block on its way that is not in memory. A get that needs more, since that was
//! a false positive of a filter or an update of what is below, or whose block is evicted before it begins, reads for itself.

use std::sync::Arc;

use arbor_base::Prefetch;

use super::path::{Path, Place};
use crate::block::Block;
use crate::io::Io;
use crate::table::Table;
use crate::tree::{Child, TreeVersion};
use crate::{Kind, Seq, filter};

/// A block that a get waits for.
struct Missing {
    table: Arc<Table>,
    at: usize,
}

/// Starts to read the block that a get of `key` would wait for first.
pub fn prefetch(version: &TreeVersion, key: &[u8], io: &Arc<Io>) -> Prefetch {
    let hash = filter::hash(key);
    let mut parts = std::iter::once(&version.active).chain(&version.frozen);
    if parts.any(|part| !part.is_empty() && part.may_contain(hash)) {
        return Prefetch::InMemory;
    }
    let Some(missing) = missing_block(&Path::to(version, Place::From(key)), key, hash) else {
        return Prefetch::Unknown;
    };
    let Some(Missing { table, at }) = missing else { return Prefetch::InMemory };
    let reading = table.cached_body().and_then(|body| Some((body.stored_bytes_of(at), body.read_later(at, io)?)));
    let Some((bytes, later)) = reading else { return Prefetch::Unknown };
    let io = io.clone();
    let done = async move {
        if let (Some(stored), Some(body)) = (later.await, table.cached_body()) {
            // the get reads what is corrupt again, and reports it
            let _kept = body.keep_read(at, &stored, &io);
        }
    };
    Prefetch::Reading { bytes, done: Box::pin(done) }
}

/// Returns the first block that a get reads from the file; none if an index is not in memory.
fn missing_block(path: &Path<'_>, key: &[u8], hash: u64) -> Option<Option<Missing>> {
    let leaf = match path.child {
        Child::Leaf(leaf) => Some((leaf, leaf.cached_body()?)),
        Child::Empty | Child::Inner(_) => None,
    };
    let of_leaf = leaf.as_ref().map(|(_, body)| body.peek(body.block_of(key)));
    // a ripe block holds what the runs say
    let above = of_leaf.as_ref().and_then(Option::as_ref).map_or(Seq::ZERO, |block| block.as_of());
    for run in path.runs() {
        if run.table.meta.max_seq <= above || !run.table.meta.may_hold(key) {
            continue;
        }
        let body = run.table.cached_body()?;
        if body.block_count() == 0 || !body.may_contain(hash) {
            continue;
        }
        let at = body.block_of(key);
        match body.peek(at) {
            Some(block) if ends_search(&block, key) => return Some(None),
            Some(_) => {}
            None => return Some(Some(Missing { table: run.table.clone(), at })),
        }
    }
    let Some((leaf, body)) = leaf.filter(|(_, body)| body.block_count() > 0 && body.may_contain(hash)) else {
        return Some(None);
    };
    let is_cached = of_leaf.is_some_and(|block| block.is_some());
    Some((!is_cached).then(|| Missing { table: leaf.clone(), at: body.block_of(key) }))
}

/// Returns true if the newest entry of the key is a put or a delete.
fn ends_search(block: &Block, key: &[u8]) -> bool {
    let first = block.lower_bound(key);
    first < block.len() && block.key(first) == key && block.entry(first).kind != Kind::Update
}
