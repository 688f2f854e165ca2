//! Which versions of a key are kept by a merge, and as what.
//!
//! The one place that knows what a registered snapshot needs. With `s1 < s2 < ...` the registered snapshots, the sequence
//! numbers fall into *stripes* `..=s1`, `s1+1..=s2`, ..., `sn+1..`: no snapshot can distinguish two versions of one stripe but
//! by the newer. Hence:
//!
//! - (F1) At most one entry is kept of each stripe.
//! - (F2) Versions under a put or a delete in the same stripe go.
//! - (F3) An update resolves against a put or a delete under it in the same stripe, and joins an update under it.
//! - (F4) A range tombstone is a delete of each key it covers, older than all entries of its own sequence number. It is not
//!   kept as an entry: the tombstone itself moves on.
//! - (F5) At the bottom nothing is below: every update resolves, deletes with no older version kept above them go, a range
//!   tombstone is kept as an entry where an older version is, and what all snapshots see gets the sequence number zero.
//! - (F6) An update that has to resolve and cannot, because no function is registered, is an error.
//!
//! Requires: a snapshot that is registered later is at least as new as every version that is folded now.

use std::ops::Range;

use arbor_base::sometimes;
use arbor_engine::UpdateFunction;

use crate::{Entry, Error, Kind, Result, Seq, update};

/// The number of the stripe: how many snapshots do not see this sequence number.
#[inline]
pub fn stripe(stripes: &[Seq], seq: Seq) -> usize {
    stripes.partition_point(|snapshot| *snapshot < seq)
}

/// Folds versions of one key after another.
#[derive(Clone, Copy)]
pub struct Fold<'a> {
    /// Registered snapshots, ascending.
    pub stripes: &'a [Seq],
    /// Nothing older than the versions at hand exists.
    pub bottom: bool,
    pub updates: Option<&'a dyn UpdateFunction>,
    /// Loads the value of a put whose value is in an extent of its own.
    pub load_blob: &'a dyn Fn(&[u8]) -> Result<Vec<u8>>,
}

/// The versions of one key, newest first, copied from their sources. Meant to be filled again and again.
#[derive(Default)]
pub struct Versions {
    key: Vec<u8>,
    list: Vec<Version>,
    values: Vec<u8>,
}

#[derive(Clone)]
struct Version {
    seq: Seq,
    kind: Kind,
    /// A range tombstone, which is not an entry of this key.
    of_range: bool,
    value: Range<usize>,
}

/// A version that is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RetainedVersion {
    pub seq: Seq,
    pub kind: Kind,
    of_range: bool,
    value: RetainedValue,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum RetainedValue {
    Stored(Range<usize>),
    Made(Vec<u8>),
}

impl Versions {
    /// Forgets all and begins with another key.
    pub fn begin(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.list.clear();
        self.values.clear();
    }

    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Adds an entry of the key that is older than those added before.
    pub fn push(&mut self, entry: Entry<'_>) {
        debug_assert!(entry.key == self.key);
        debug_assert!(self.list.last().is_none_or(|newer| newer.seq >= entry.seq), "I1: higher versions are newer");
        let from = self.values.len();
        self.values.extend_from_slice(entry.value);
        let value = from..self.values.len();
        self.list.push(Version { seq: entry.seq, kind: entry.kind, of_range: false, value });
    }

    /// Adds range tombstones that cover the key. Requires: all entries were added.
    pub fn push_tombstones(&mut self, seqs: &[Seq]) {
        for seq in seqs {
            let place = self.list.partition_point(|version| version.seq >= *seq);
            self.list.insert(place, Version { seq: *seq, kind: Kind::Delete, of_range: true, value: 0..0 });
        }
    }

    fn value(&self, range: &Range<usize>) -> &[u8] {
        self.values.get(range.clone()).unwrap_or_default()
    }
}

impl RetainedVersion {
    /// `versions`: what this was folded from.
    pub fn entry<'v>(&'v self, versions: &'v Versions) -> Entry<'v> {
        let value = self.value(versions);
        Entry { key: &versions.key, seq: self.seq, kind: self.kind, value }
    }

    fn value<'v>(&'v self, versions: &'v Versions) -> &'v [u8] {
        match &self.value {
            RetainedValue::Stored(range) => versions.value(range),
            RetainedValue::Made(value) => value,
        }
    }

    fn made(seq: Seq, row: Option<Vec<u8>>, of_range: bool) -> RetainedVersion {
        let kind = if row.is_some() { Kind::Put } else { Kind::Delete };
        RetainedVersion { seq, kind, of_range, value: RetainedValue::Made(row.unwrap_or_default()) }
    }
}

impl From<&Version> for RetainedVersion {
    fn from(version: &Version) -> RetainedVersion {
        let value = RetainedValue::Stored(version.value.clone());
        RetainedVersion { seq: version.seq, kind: version.kind, of_range: version.of_range, value }
    }
}

impl Fold<'_> {
    /// Sets `kept` to what is kept, newest first.
    pub fn fold(&self, versions: &Versions, kept: &mut Vec<RetainedVersion>) -> Result<()> {
        debug_assert!(self.stripes.is_sorted_by(|one, next| one < next), "snapshots ascend: {:?}", self.stripes);
        kept.clear();
        let mut rest = versions.list.as_slice();
        while let Some(newest) = rest.first() {
            let stripe = stripe(self.stripes, newest.seq);
            let end = rest.partition_point(|version| self.is_in(stripe, version.seq));
            let (same, older) = rest.split_at(end);
            kept.push(self.fold_stripe(versions, newest.seq, same)?);
            rest = older;
        }
        let stripe_of = |kept: &RetainedVersion| stripe(self.stripes, kept.seq);
        debug_assert!(kept.is_sorted_by(|newer, older| stripe_of(newer) > stripe_of(older)), "F1: {kept:?}");
        if self.bottom {
            self.settle(versions, kept)
        } else {
            kept.retain(|kept| !kept.of_range);
            Ok(())
        }
    }

    /// Folds an entry that is independent of older versions of its key. `None`: others must be read.
    #[inline]
    pub fn alone(&self, entry: &Entry<'_>) -> Option<FoldResult> {
        if !entry.kind.is_final() || self.stripes.first().is_some_and(|oldest| *oldest < entry.seq) {
            return None;
        }
        match (self.bottom, entry.kind) {
            (true, Kind::Delete) => Some(FoldResult::Discard),
            (true, _) => Some(FoldResult::Keep(Seq::ZERO)),
            (false, _) => Some(FoldResult::Keep(entry.seq)),
        }
    }

    /// Returns true if the last of the versions hides an older one of its key from every snapshot (F2): that one need not be copied.
    #[inline]
    pub fn hides(&self, versions: &Versions, older: Seq) -> bool {
        let newer = versions.list.last();
        newer.is_some_and(|newer| newer.kind.is_final() && self.is_in(stripe(self.stripes, newer.seq), older))
    }

    /// Returns true if a range tombstone hides what is older from every snapshot.
    #[inline]
    pub fn is_total(&self, tombstone: Seq) -> bool {
        self.stripes.first().is_none_or(|oldest| *oldest >= tombstone)
    }

    fn is_in(&self, number: usize, seq: Seq) -> bool {
        stripe(self.stripes, seq) == number
    }

    /// F2, F3. `same`: all versions of one stripe, at least one.
    fn fold_stripe(&self, versions: &Versions, seq: Seq, same: &[Version]) -> Result<RetainedVersion> {
        debug_assert!(same.first().is_some_and(|newest| newest.seq == seq), "the newest of a stripe gives its number");
        let messages = same.iter().take_while(|version| version.kind == Kind::Update).count();
        let (messages, finals) = same.split_at(messages);
        match (messages, finals.first()) {
            ([], Some(newest)) => Ok(newest.into()),
            ([], None) => Ok(RetainedVersion::made(seq, None, true)),
            ([one], None) => Ok(one.into()),
            (several, None) => self.join(versions, seq, several),
            (several, Some(base)) => {
                let mut row = Row::of(base.kind, versions.value(&base.value));
                for message in several.iter().rev() {
                    row = self.apply(&versions.key, row, versions.value(&message.value))?;
                }
                let row = row.into_owned();
                let of_range = base.of_range && row.is_none();
                Ok(RetainedVersion::made(seq, row, of_range))
            }
        }
    }

    /// Several updates as one.
    fn join(&self, versions: &Versions, seq: Seq, messages: &[Version]) -> Result<RetainedVersion> {
        sometimes!("ftree: updates are joined");
        let chains = messages.iter().rev().map(|message| versions.value(&message.value));
        let chain = update::combine(self.updates, chains)?;
        Ok(RetainedVersion { seq, kind: Kind::Update, of_range: false, value: RetainedValue::Made(chain) })
    }

    /// F5. Goes from the oldest to the newest, so that the row under each update is known.
    fn settle(&self, versions: &Versions, kept: &mut Vec<RetainedVersion>) -> Result<()> {
        for place in (0..kept.len()).rev() {
            let (newer, older) = kept.split_at_mut(place + 1);
            let Some(current) = newer.last_mut() else { break };
            if current.kind == Kind::Update {
                let row = older.first().map_or(Row::None, |older| Row::of(older.kind, older.value(versions)));
                let row = self.apply(&versions.key, row, current.value(versions))?.into_owned();
                *current = RetainedVersion::made(current.seq, row, false);
            }
            if current.kind == Kind::Delete && older.is_empty() {
                kept.pop();
            }
        }
        debug_assert!(kept.iter().all(|kept| kept.kind != Kind::Update), "F5: every update resolves: {kept:?}");
        debug_assert!(kept.last().is_none_or(|kept| kept.kind != Kind::Delete), "F5: it deletes nothing: {kept:?}");
        if let Some(oldest) = kept.last_mut()
            && self.is_in(0, oldest.seq)
        {
            oldest.seq = Seq::ZERO;
        }
        Ok(())
    }

    fn apply<'v>(&self, key: &[u8], row: Row<'v>, chain: &[u8]) -> Result<Row<'v>> {
        let function = self.updates.ok_or_else(|| Error::Other("an update message needs an update function".into()))?;
        let loaded;
        let row = match &row {
            Row::None => None,
            Row::Stored(value) => Some(*value),
            Row::Made(value) => Some(value.as_slice()),
            Row::Blob(pointer) => {
                loaded = (self.load_blob)(pointer)?;
                Some(loaded.as_slice())
            }
        };
        Ok(update::apply_chain(function, key, row, chain)?.map_or(Row::None, Row::Made))
    }
}

/// Result of folding one entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FoldResult {
    Discard,
    /// With this sequence number.
    Keep(Seq),
}

/// The row that an update applies to.
enum Row<'v> {
    None,
    Stored(&'v [u8]),
    Blob(&'v [u8]),
    Made(Vec<u8>),
}

impl<'v> Row<'v> {
    fn of(kind: Kind, value: &'v [u8]) -> Row<'v> {
        match kind {
            Kind::Put => Row::Stored(value),
            Kind::PutBlob => Row::Blob(value),
            Kind::Delete | Kind::Update => Row::None,
        }
    }

    fn into_owned(self) -> Option<Vec<u8>> {
        match self {
            Row::None => None,
            Row::Stored(value) | Row::Blob(value) => Some(value.to_vec()),
            Row::Made(value) => Some(value),
        }
    }
}
