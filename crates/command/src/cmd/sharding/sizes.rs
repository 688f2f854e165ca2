//! Sizes that the balancer asks shards for.
//!
//! Ranges that are on their way or wait for their deletion are not the shard's own (`moves`): they are counted by walking an index and
//! taken off the exact size of the collection. The sizes of chunks are estimates of the engine, scaled to that size.

use arbor_bson::{ArrayBuf, Doc, ValueRef};
use arbor_lang::{shard_key_of, shard_key_values};
use arbor_store::{Collection, IndexCursor, Namespace, RecordCursor, count, data_size, record};
use arbor_txn::View;

use crate::call::Call;
use crate::moves::{Order, bytes_of, is_hidden, key_of, order_of};
use crate::{Commands, Result};

/// Entries of a range that are counted one by one; a longer range is estimated.
const COUNTED_MAX: u64 = 1_000_000;

/// Documents, and their bytes, that the shard owns of a collection.
#[derive(Clone, Copy, Debug, Default)]
struct Owned {
    documents: u64,
    bytes: u64,
}

impl Owned {
    fn bytes_of(self, documents: u64) -> u64 {
        self.bytes.checked_div(self.documents).map_or(0, |each| each * documents)
    }
}

/// `_shardsvrDataSizes`: the bytes that the shard owns of each of some collections.
pub(crate) fn data_sizes(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let mut sizes = ArrayBuf::new();
    for value in call.field(call.info.name).array(call.target())?.iter() {
        let name = call.field(call.info.name).string(value)?;
        let owned = match call.server.database.store.snapshot(&Namespace::parse(name)?)? {
            Some((collection, view)) => call.server.owned(&view, &collection, name)?,
            None => Owned::default(),
        };
        sizes.push(owned.bytes as i64);
    }
    call.reply.append("sizes", &sizes);
    Ok(())
}

/// `_shardsvrRangeSizes`: the bytes of ranges of the shard key, whose bounds are given one after another.
pub(crate) fn range_sizes(call: &mut Call<'_>) -> Result<()> {
    call.only(&["key", "bounds"])?;
    let name = call.field(call.info.name).string(call.target())?;
    let key = call.field("key").document(call.required("key")?)?;
    let bounds = call.field("bounds").array(call.required("bounds")?)?;
    let bounds: Vec<&[u8]> =
        bounds.iter().map(|value| if let ValueRef::Binary { bytes, .. } = value { bytes } else { &[] }).collect();
    let mut estimates = vec![0u64; bounds.len() / 2];
    let mut owned = Owned::default();
    if let Some((collection, view)) = call.server.database.store.snapshot(&Namespace::parse(name)?)? {
        owned = call.server.owned(&view, &collection, name)?;
        for (estimate, pair) in estimates.iter_mut().zip(bounds.chunks_exact(2)) {
            call.interrupt.check()?;
            if let [low, high] = pair {
                *estimate = self::estimate(&view, &collection, key, low, high)?;
            }
        }
    }
    let all: u128 = estimates.iter().map(|estimate| u128::from(*estimate)).sum();
    let scaled = |estimate: &u64| (u128::from(owned.bytes) * u128::from(*estimate)).checked_div(all).unwrap_or(0);
    call.reply.append("sizes", &estimates.iter().map(|estimate| scaled(estimate) as i64).collect::<ArrayBuf>());
    Ok(())
}

/// `_shardsvrSplitPoint`: the first shard key behind a number of bytes of a range, as `at`, and the `bytes` before it. Without `at`: the
/// range has no more.
pub(crate) fn split_point(call: &mut Call<'_>) -> Result<()> {
    call.only(&["key", "low", "high", "bytes"])?;
    let name = call.field(call.info.name).string(call.target())?;
    let key = call.field("key").document(call.required("key")?)?;
    let (low, high) = (bytes_of(call.body, "low"), bytes_of(call.body, "high"));
    let bytes = match call.required("bytes")? {
        ValueRef::Int64(bytes) => bytes.max(1) as u64,
        other => return Err(call.field("bytes").wrong_type(other, "long").into()),
    };
    let Some((collection, view)) = call.server.database.store.snapshot(&Namespace::parse(name)?)? else {
        return Ok(());
    };
    let owned = call.server.owned(&view, &collection, name)?;
    let each = owned.bytes_of(1).max(1);
    let requested = bytes.div_ceil(each);
    let mut walk = Walk::begin(&view, &collection, key, &low)?;
    let mut passed = 0u64;
    // KeyString of the last document that belongs to the part: those that begin with it have the same shard key
    let mut last: Option<Vec<u8>> = None;
    while let Some(own) = walk.key().filter(|own| *own < high.as_slice()) {
        if passed.is_multiple_of(1024) {
            call.interrupt.check()?;
        }
        if passed >= requested && last.as_deref().is_some_and(|last| !own.starts_with(last)) {
            if let Some(doc) = record(&view, &collection, walk.id_key())? {
                call.reply.append("at", &shard_key_values(key, Doc::trusted(&doc)));
            }
            break;
        }
        passed += 1;
        if passed == requested
            && let Some(doc) = record(&view, &collection, walk.id_key())?
        {
            last = Some(shard_key_of(key, Doc::trusted(&doc)));
        }
        walk.next()?;
    }
    call.reply.append("bytes", (passed * each) as i64);
    Ok(())
}

impl Commands {
    fn owned(&self, view: &(impl View + ?Sized), collection: &Collection, name: &str) -> Result<Owned> {
        let all = Owned { documents: count(view, collection)?, bytes: data_size(view, collection)? };
        let documents = all.documents.saturating_sub(self.orphans(view, collection, name)?);
        Ok(Owned { documents, bytes: all.bytes_of(documents) })
    }

    /// Returns the number of documents of ranges that are not the shard's own.
    pub(crate) fn orphans(&self, view: &(impl View + ?Sized), collection: &Collection, name: &str) -> Result<u64> {
        let mut documents = 0;
        if self.ownership.is_none() {
            return Ok(documents);
        }
        for row in self.range_rows(Some(name))?.iter().filter(|row| is_hidden(row.as_doc())) {
            let row = row.as_doc();
            documents +=
                count_range(view, collection, key_of(row).as_doc(), &bytes_of(row, "low"), &bytes_of(row, "high"))?;
        }
        Ok(documents)
    }
}

/// Rough number of keys of a range.
fn estimate(
    view: &(impl View + ?Sized),
    collection: &Collection,
    key: Doc<'_>,
    low: &[u8],
    high: &[u8],
) -> Result<u64> {
    Ok(match order_of(collection, key)? {
        Order::Records | Order::Insertion => arbor_store::estimate(view, collection, low, Some(high))?.keys,
        Order::Index(index) => index.estimate(view, low, Some(high))?.keys,
    })
}

fn count_range(
    view: &(impl View + ?Sized),
    collection: &Collection,
    key: Doc<'_>,
    low: &[u8],
    high: &[u8],
) -> Result<u64> {
    let mut walk = Walk::begin(view, collection, key, low)?;
    let mut passed = 0u64;
    while walk.key().is_some_and(|own| own < high) {
        passed += 1;
        if passed == COUNTED_MAX {
            return Ok(estimate(view, collection, key, low, high)?.max(passed));
        }
        walk.next()?;
    }
    Ok(passed)
}

/// Documents in the order of the shard key.
enum Walk<'v> {
    Records(RecordCursor<'v>, bool),
    Index(IndexCursor<'v>, bool),
}

impl<'v> Walk<'v> {
    fn begin(view: &'v (impl View + ?Sized), collection: &'v Collection, key: Doc<'_>, low: &[u8]) -> Result<Walk<'v>> {
        Ok(match order_of(collection, key)? {
            Order::Records | Order::Insertion => {
                let mut cursor = RecordCursor::new(view, collection)?;
                let found = cursor.seek(low)?;
                Walk::Records(cursor, found)
            }
            Order::Index(index) => {
                let mut cursor = IndexCursor::new(view, index)?;
                let found = cursor.seek(low)?;
                Walk::Index(cursor, found)
            }
        })
    }

    fn key(&self) -> Option<&[u8]> {
        match self {
            Walk::Records(cursor, found) => found.then(|| cursor.id_key()),
            Walk::Index(cursor, found) => found.then(|| cursor.key()),
        }
    }

    fn id_key(&self) -> &[u8] {
        match self {
            Walk::Records(cursor, _) => cursor.id_key(),
            Walk::Index(cursor, _) => cursor.id_key(),
        }
    }

    fn next(&mut self) -> Result<()> {
        match self {
            Walk::Records(cursor, found) => *found = cursor.next()?,
            Walk::Index(cursor, found) => *found = cursor.next()?,
        }
        Ok(())
    }
}
