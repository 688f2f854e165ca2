//! Rows that are put together from the tables over some keys, as far as their blocks can be read.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use arbor_engine::UpdateFunction;

use super::Report;
use crate::blob;
use crate::block::Block;
use crate::io::Io;
use crate::merge::{Fold, Versions};
use crate::table::Table;
use crate::tree::Bounds;
use crate::{Entry, Kind, RangeTombstone, Result, Seq};

/// Everything found of the keys within bounds. Tables are added newest first.
pub(super) struct Rows {
    bounds: Bounds,
    versions: BTreeMap<Vec<u8>, Vec<Version>>,
    /// With how many of `settled` are newer.
    tombstones: Vec<(RangeTombstone, usize)>,
    /// Key ranges of leaves: what is older and in there was merged into them.
    settled: Vec<(Vec<u8>, Vec<u8>)>,
}

struct Version {
    seq: Seq,
    kind: Kind,
    value: Vec<u8>,
}

impl Rows {
    pub(super) fn new(bounds: Bounds) -> Rows {
        Rows { bounds, versions: BTreeMap::new(), tombstones: Vec::new(), settled: Vec::new() }
    }

    /// Adds what can be read of a table that is older than those before. Damage goes to the report.
    pub(super) fn add(&mut self, io: &Io, table: &Arc<Table>, report: &mut Report) {
        let place = format!("{} at {}", io.file.path().display(), table.meta.offset);
        let body = match table.body(io) {
            Ok(body) => body,
            Err(error) => return report.find_error(place, &error),
        };
        for number in 0..body.block_count() {
            let (from, to) = body.block_bounds(number);
            let before = to.is_some_and(|to| to <= self.bounds.from.as_slice());
            let behind = self.bounds.to.as_deref().is_some_and(|end| end <= from);
            if before || behind {
                continue;
            }
            report.blocks += 1;
            match body.read(number, io) {
                Ok(block) => self.add_block(&block),
                Err(error) => report.find_error(&place, &error),
            }
        }
        let newer = self.settled.len();
        self.tombstones.extend(body.tombstones().iter().map(|tombstone| (tombstone.clone(), newer)));
        if table.meta.level == 0 && body.block_count() > 0 {
            self.settled.push((body.block_bounds(0).0.to_vec(), body.last_key().to_vec()));
        }
    }

    fn add_block(&mut self, block: &Block) {
        for entry in (0..block.len()).map(|at| block.entry(at)) {
            if self.is_settled(entry.key, self.settled.len()) || !self.bounds.contains(entry.key) {
                continue;
            }
            let version = Version { seq: entry.seq, kind: entry.kind, value: entry.value.to_vec() };
            self.versions.entry(entry.key.to_vec()).or_default().push(version);
        }
    }

    fn is_settled(&self, key: &[u8], newer: usize) -> bool {
        let mut leaves = self.settled.iter().take(newer);
        leaves.any(|(from, to)| from.as_slice() <= key && key <= to.as_slice())
    }

    /// Hands out the newest state of each key.
    pub(super) fn resolve(
        mut self,
        io: &Io,
        updates: Option<&dyn UpdateFunction>,
        report: &mut Report,
        out: &mut dyn FnMut(&[u8], &[u8]),
    ) {
        self.tombstones.sort_by_key(|(tombstone, _)| Reverse(tombstone.seq));
        for (key, mut versions) in std::mem::take(&mut self.versions) {
            versions.sort_by_key(|version| Reverse(version.seq));
            let counts = |(tombstone, newer): &&(RangeTombstone, usize)| {
                tombstone.covers(&key) && !self.is_settled(&key, *newer)
            };
            let covering: Vec<Seq> =
                self.tombstones.iter().filter(counts).map(|(tombstone, _)| tombstone.seq).collect();
            match newest(io, updates, &key, &versions, &covering) {
                Ok(Some(value)) => {
                    report.entries += 1;
                    out(&key, &value);
                }
                Ok(None) => {}
                Err(error) => report.find_error(format!("key {}", key.escape_ascii()), &error),
            }
        }
    }
}

fn newest(
    io: &Io,
    updates: Option<&dyn UpdateFunction>,
    key: &[u8],
    found: &[Version],
    tombstones: &[Seq],
) -> Result<Option<Vec<u8>>> {
    let load_blob = |value: &[u8]| blob::load(io, value);
    let fold = Fold { stripes: &[], bottom: true, updates, load_blob: &load_blob };
    let (mut versions, mut kept) = (Versions::default(), Vec::new());
    versions.begin(key);
    for Version { seq, kind, value } in found {
        versions.push(Entry { key, seq: *seq, kind: *kind, value });
    }
    versions.push_tombstones(tombstones);
    fold.fold(&versions, &mut kept)?;
    let Some(entry) = kept.first().map(|kept| kept.entry(&versions)) else { return Ok(None) };
    match entry.kind {
        Kind::Put => Ok(Some(entry.value.to_vec())),
        Kind::PutBlob => blob::load(io, entry.value).map(Some),
        Kind::Delete | Kind::Update => Ok(None),
    }
}
