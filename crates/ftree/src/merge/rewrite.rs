//! A whole job: messages move down into tables of the next level.
//!
//! - [`Rewrite`]: inputs and target; [`rewrite`]: the job
//! - [`Leaves`]: cuts leaves of even sizes; [`Runs`]: cuts runs at slot bounds
//!
//! Nothing that exists is changed: the caller installs the outputs, and until then they are merely extents without another
//! owner. An error leaves nothing behind.

use std::sync::Arc;

use arbor_base::TreeId;
use arbor_engine::UpdateFunction;

use super::input::{self, LeafRows, Stream};
use super::leaves::Leaves;
use super::message_merge::NoRows;
use super::runs::{RUN_MAX, Runs};
use super::{Clipped, Fold, Fragments, Merge, MessageMerge, Source, fragments};
use crate::io::Io;
use crate::key_index::{KeyIndex, common_prefix};
use crate::memtable::MemTree;
use crate::table::{Table, block_bytes_max, read_bytes};
use crate::{RangeTombstone, Result, Seq, TreeSettings, blob};

#[derive(Clone)]
pub enum Messages {
    Memtable(Arc<MemTree>),
    Run(Arc<Table>),
}

/// The messages with `from <= key < to`.
#[derive(Clone)]
pub struct Input {
    pub messages: Messages,
    pub from: Vec<u8>,
    pub to: Option<Vec<u8>>,
    /// Approximate bytes within.
    pub bytes: u64,
}

/// Treatment of large values that rows point to already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LargeValuePolicy {
    Stay,
    /// They are written again, as the settings of today say.
    AreRewritten,
    /// Those at this offset in the file or after it move to free space before, where there is some.
    MoveFrom(u64),
}

/// Destination of messages.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    /// To the leaves of one slot or of neighbouring ones, which are in key order; none: the slots were empty. Implies that
    /// nothing older exists.
    Leaves(&'a [Arc<Table>]),
    /// To the slots of a node on `level`. Messages keep their sequence numbers and deletes stay even where nothing is below:
    /// readers see by the number what is in a leaf already (R1), and a leaf may come to be there meanwhile.
    Runs { level: u8, pivots: &'a KeyIndex },
}

pub struct Rewrite<'a> {
    pub io: &'a Io,
    pub tree: TreeId,
    pub settings: &'a TreeSettings,
    /// Newest first: of one key, all that an earlier input holds is newer than what later ones hold.
    pub inputs: &'a [Input],
    pub target: Target<'a>,
    /// Bounds of the job: inputs and leaves lie within. An empty `from` is below all keys.
    pub from: &'a [u8],
    pub to: Option<&'a [u8]>,
    /// Registered snapshots, ascending. Requires: one that is registered later is not older than any message.
    pub stripes: &'a [Seq],
    pub updates: Option<&'a dyn UpdateFunction>,
    /// The blocks that are written are in the cache afterwards.
    pub keep_cached: bool,
    pub large_values: LargeValuePolicy,
}

impl<'a> Rewrite<'a> {
    /// Maximum memory of the job in addition to what it merges, large values aside: a read ahead and a block of each
    /// input that is open at a time, and an output with its blocks to be kept.
    pub fn memory_bytes(&self) -> u64 {
        let open = self.inputs.chunk_by(input::follows).count() as u64 + u64::from(!self.leaves().is_empty());
        let reading = open * (read_bytes(self.io) as u64 + 2 * block_bytes_max(self.settings.block_bytes));
        let output = match self.target {
            Target::Leaves(_) => u64::from(self.settings.leaf_bytes) * 3 / 2,
            Target::Runs { .. } => u64::from(self.settings.run_bytes) * RUN_MAX,
        };
        reading + output * if self.keep_cached { 2 } else { 1 }
    }

    pub(super) fn leaves(&self) -> &'a [Arc<Table>] {
        match self.target {
            Target::Leaves(leaves) => leaves,
            Target::Runs { .. } => &[],
        }
    }

    /// Up to which number the outputs have everything merged in.
    pub(super) fn as_of(&self) -> Seq {
        let inputs = self.inputs.iter().map(|input| match &input.messages {
            Messages::Memtable(part) => part.max_seq(),
            Messages::Run(run) => run.meta.max_seq,
        });
        inputs.chain(self.leaves().iter().map(|leaf| leaf.meta.max_seq)).max().unwrap_or_default()
    }
}

/// A table that was written, or a leaf that stays as it is.
pub struct Output {
    pub table: Arc<Table>,
    /// Lower bound; the upper one is that of the next output or of the job. Of the first output of a leaf job it is the job's.
    pub from: Vec<u8>,
    /// For runs: the receiving slots and the bytes that each gets. Empty for leaves.
    pub slots: Vec<(usize, u64)>,
}

impl Output {
    /// Returns true if all rows are before those of the other one.
    pub(super) fn precedes(&self, other: &Output) -> bool {
        let (own, others) = (&self.table.meta, &other.table.meta);
        own.rows == 0 || others.rows == 0 || own.last_key < others.first_key
    }
}

/// Outputs in key order. None: nothing is left.
pub fn rewrite(job: &Rewrite<'_>) -> Result<Vec<Output>> {
    debug_assert!(job.inputs.iter().all(|input| input.from.as_slice() >= job.from), "inputs are within the job");
    let load_blob = |value: &[u8]| blob::load(job.io, value);
    let bottom = matches!(job.target, Target::Leaves(_));
    let fold = Fold { stripes: job.stripes, bottom, updates: job.updates, load_blob: &load_blob };
    let fragments = fragments(job)?;
    let messages = merge(job)?;
    match job.target {
        Target::Leaves(leaves) => {
            let first = messages.key();
            let (mut sink, leaves) = Leaves::new(job, leaves, first, &fragments);
            let rows = LeafRows::new(leaves, job.io)?;
            let mut message_merge = MessageMerge::new(messages, rows, fold, &fragments);
            while message_merge.step(&mut sink)? {}
            sink.finish()
        }
        Target::Runs { level, pivots } => {
            let mut message_merge = MessageMerge::new(messages, NoRows, fold, &fragments);
            let mut sink = Runs::new(job, level, pivots, &fragments);
            while message_merge.step(&mut sink)? {}
            sink.finish()
        }
    }
}

fn merge<'a>(job: &'a Rewrite<'a>) -> Result<Merge<Clipped<Stream<'a>>>> {
    let mut sources = Vec::with_capacity(job.inputs.len());
    for inputs in job.inputs.chunk_by(input::follows) {
        let (Some(input), Some(stream)) = (inputs.first(), Stream::new(inputs, job.io)) else { continue };
        let last = match &input.messages {
            Messages::Memtable(_) => None,
            Messages::Run(run) => Some(run.meta.last_key.as_slice()),
        };
        // a run that ends within the bounds needs no check of the upper one for each entry
        let to = input.to.as_deref().filter(|to| last.is_none_or(|last| last >= *to));
        sources.push(Clipped::new(stream, &input.from, to)?);
    }
    Ok(Merge::new(sources, common(job)))
}

/// Returns the length of the common prefix of all messages: that of the least and the greatest key that may occur.
fn common(job: &Rewrite<'_>) -> usize {
    let mut bounds: Option<(&[u8], &[u8])> = None;
    for input in job.inputs {
        let (mut least, mut greatest) = (input.from.as_slice(), input.to.as_deref());
        if let Messages::Run(run) = &input.messages {
            least = least.max(&run.meta.first_key);
            let last = run.meta.last_key.as_slice();
            greatest = Some(greatest.map_or(last, |to| to.min(last)));
        }
        let Some(greatest) = greatest else { return 0 };
        bounds = bounds.map(|(from, to)| (from.min(least), to.max(greatest))).or(Some((least, greatest)));
    }
    bounds.map_or(0, |(from, to)| common_prefix(from, to))
}

/// The range tombstones of all inputs, each within its input's bounds.
fn fragments(job: &Rewrite<'_>) -> Result<Fragments> {
    let mut tombstones = Vec::new();
    for input in job.inputs {
        let mut take = |all: &[RangeTombstone]| {
            tombstones.extend(all.iter().filter_map(|one| fragments::clip(one, &input.from, input.to.as_deref())));
        };
        match &input.messages {
            Messages::Memtable(part) => take(&part.tombstones()),
            Messages::Run(run) if run.meta.has_tombstones => take(run.body(job.io)?.tombstones()),
            Messages::Run(_) => {}
        }
    }
    Ok(Fragments::new(&tombstones, job.stripes, job.from, job.to))
}
