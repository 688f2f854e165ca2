//! Updates that do not read the document (`fastUpdates`, as TokuMX has them): the statement names one document by its `_id`,
//! and its operators become an update message (see [`arbor_store::update_unread`]). The reply counts one document as matched
//! and modified, whether there is one or not.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use arbor_base::ShardedCounter;
use arbor_bson::{Doc, ValueRef};
use arbor_store::update_unread;
use arbor_txn::Transaction;

use super::validated::Validated;
use crate::{Result, Scope, UpdateStatement};

/// Updates of one document after which it is read and written, so that a read has few messages to apply.
const UNREAD_MAX: u8 = 16;

/// Number of counters; documents share one by a hash.
const HEATS: usize = 1 << 14;

/// The parameter `fastUpdates`, and what is known of the updates that it has made possible.
pub struct UnreadUpdates {
    enabled: AtomicBool,
    pub performed: ShardedCounter,
    /// Updates since one of the documents with this hash was read.
    heats: Box<[AtomicU8]>,
}

impl Default for UnreadUpdates {
    fn default() -> UnreadUpdates {
        let heats = (0..HEATS).map(|_| AtomicU8::new(0)).collect();
        UnreadUpdates { enabled: AtomicBool::new(false), performed: ShardedCounter::default(), heats }
    }
}

impl UnreadUpdates {
    pub fn enable(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Relaxed);
    }

    /// Returns true if the document is to be read by this update.
    fn is_due(&self, namespace: &str, filter: Doc<'_>) -> bool {
        let mut hasher = DefaultHasher::new();
        (namespace, filter.as_bytes()).hash(&mut hasher);
        let heat = self.heats.get(hasher.finish() as usize % HEATS).expect("the remainder is below the length");
        let due = heat.fetch_add(1, Ordering::Relaxed) >= UNREAD_MAX;
        if due {
            heat.store(0, Ordering::Relaxed);
        }
        due
    }
}

/// Returns false if the statement is to be run as usual.
pub(super) fn update(
    scope: &Scope<'_>,
    txn: &mut Transaction,
    collection: &Validated<'_>,
    statement: &UpdateStatement<'_>,
    update: &arbor_lang::update::Update,
) -> Result<bool> {
    let unread = &scope.unread_updates;
    if !unread.enabled.load(Ordering::Relaxed) || !scope.reads_now() || collection.is_checked() {
        return Ok(false);
    }
    let plain = !statement.upsert && statement.sort.is_none() && statement.hint.is_none();
    let (Some(id), ValueRef::Document(operators)) = (id_of(statement.q), statement.u) else { return Ok(false) };
    if !plain || unread.is_due(collection.namespace.as_str(), statement.q) {
        return Ok(false);
    }
    let done = update_unread(txn, collection, id, operators, update)?;
    if done {
        unread.performed.add(1);
    }
    Ok(done)
}

/// The value of a filter that is an equality on `_id` and nothing else.
fn id_of(filter: Doc<'_>) -> Option<ValueRef<'_>> {
    let mut fields = filter.iter();
    let ("_id", id) = fields.next()? else { return None };
    let is_scalar = matches!(
        id,
        ValueRef::Int32(_)
            | ValueRef::Int64(_)
            | ValueRef::Double(_)
            | ValueRef::Decimal128(_)
            | ValueRef::String(_)
            | ValueRef::ObjectId(_)
            | ValueRef::Binary { .. }
            | ValueRef::Bool(_)
            | ValueRef::DateTime(_)
            | ValueRef::Timestamp(_)
    );
    (is_scalar && fields.next().is_none()).then_some(id)
}
