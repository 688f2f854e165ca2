//! Tailable cursors: the documents of a capped collection in the order of insertion, and then those that come later.
//!
//! A tail keeps no snapshot between two batches, only the position of the last document that it read. One that awaits
//! data sleeps until a writer of the collection is done, or its time is up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_lang::{Code, Filter};
use arbor_store::{Collection, Namespace, OrderCursor, Store};
use uuid::Uuid;

use crate::cursor::{Filler, RowSource};
use crate::operator::project;
use crate::plan::Query;
use crate::{Cursor, Error, FindSpec, Interrupt, Result, Scope};

/// Default timeout of a `getMore`.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval at which a sleeping batch checks for a kill.
const NAP: Duration = Duration::from_millis(250);

pub(crate) struct Tail {
    store: Arc<Store>,
    namespace: Namespace,
    uuid: Uuid,
    query: Query,
    /// Documents still to be skipped.
    skip: u64,
    /// Documents still to be returned; None: any number.
    left: Option<u64>,
    /// Position of the last document. None: there was none.
    after: Option<Vec<u8>>,
    /// Timeout of a batch when there is nothing new. None: it does not wait.
    patience: Option<Duration>,
    started: bool,
}

/// The cursor of a `find` with `tailable`.
pub(crate) fn tail(scope: &Scope<'_>, spec: &FindSpec<'_>, query: Query) -> Result<Cursor> {
    let Some(collection) = scope.store.collection(&spec.namespace) else {
        return Ok(Cursor::over_documents(spec.namespace.clone(), []));
    };
    check(&collection, spec)?;
    let tail = Tail {
        store: scope.store.clone(),
        namespace: spec.namespace.clone(),
        uuid: collection.uuid,
        skip: spec.skip,
        left: spec.limit,
        query,
        after: None,
        patience: spec.await_data.then_some(PATIENCE),
        started: false,
    };
    Ok(Cursor::over_rows(spec.namespace.clone(), tail))
}

fn check(collection: &Collection, spec: &FindSpec<'_>) -> Result<()> {
    if collection.order.is_none() {
        let message = format!(
            "error processing query: ns={} tailable cursor requested on non capped collection",
            collection.namespace
        );
        return Err(Error::bad_value(message));
    }
    let natural = |sort: arbor_bson::Doc<'_>| {
        let forward = sort.get("$natural").and_then(arbor_lang::number::exact_i64) == Some(1);
        forward && sort.iter().count() == 1
    };
    if spec.sort.is_some_and(|sort| !natural(sort)) {
        return Err(Error::bad_value("cannot use tailable option with a sort other than {$natural: 1}"));
    }
    Ok(())
}

impl RowSource for Tail {
    /// Returns true if nothing can follow: a tail that began over an empty collection is dead. One that reached its limit
    /// stays open, as in MongoDB.
    fn fill(&mut self, filler: &mut Filler, _: &Namespace, interrupt: &Interrupt) -> Result<bool> {
        let interrupt = interrupt.without_deadline();
        let until = self.patience.filter(|_| self.started).map(|patience| Instant::now() + patience);
        self.started = true;
        loop {
            interrupt.check()?;
            let collection = self.collection()?;
            let seen = collection.arrivals().writes();
            let has_documents = self.fill_once(filler, &interrupt)?;
            if !filler.is_empty() || self.after.is_none() || self.left == Some(0) {
                return Ok(self.after.is_none() && !has_documents);
            }
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(left) if !left.is_zero() => collection.arrivals().wait_beyond(seen, left.min(NAP)),
                _ => return Ok(false),
            }
        }
    }

    fn await_for(&mut self, patience: Option<Duration>) -> bool {
        self.patience = self.patience.map(|own| patience.unwrap_or(own));
        self.patience.is_some()
    }
}

impl Tail {
    fn collection(&self) -> Result<Arc<Collection>> {
        let collection = self.store.collection(&self.namespace).filter(|own| own.uuid == self.uuid);
        collection.ok_or_else(|| Error::new(Code::QUERY_PLAN_KILLED, "collection dropped between getMore calls"))
    }

    /// Reads the documents that are now after the last position. Returns true if there were any.
    fn fill_once(&mut self, filler: &mut Filler, interrupt: &Interrupt) -> Result<bool> {
        let Some((collection, view)) = self.store.snapshot(&self.namespace)? else {
            return self.collection().map(|_| false);
        };
        let mut cursor = OrderCursor::new(&view, &collection)?;
        let mut found = match &self.after {
            None => cursor.seek(&[])?,
            Some(after) if cursor.seek(after)? && cursor.position() == after => cursor.next()?,
            Some(_) => return Err(position_lost()),
        };
        let has_documents = found;
        let (after, skip, left) = (&mut self.after, &mut self.skip, &mut self.left);
        let (filter, shown) = (&self.query.filter, &self.query.projection);
        let mut examined = 0u32;
        filler.fill(|| {
            while found && *left != Some(0) {
                examined += 1;
                if examined.is_multiple_of(128) {
                    interrupt.check()?;
                }
                *after = Some(cursor.position().to_vec());
                let doc = cursor.doc().to_buf();
                found = cursor.next()?;
                if !filter.matches(doc.as_doc())? {
                    continue;
                }
                if *skip > 0 {
                    *skip -= 1;
                    continue;
                }
                *left = left.map(|left| left - 1);
                return match shown {
                    Some(shown) => {
                        let filter: Option<&Filter> = shown.projection.needs_position().then_some(filter);
                        Ok(Some(project(&shown.projection, filter, doc.as_doc().into())?))
                    }
                    None => Ok(Some(doc)),
                };
            }
            Ok(None)
        })?;
        Ok(has_documents)
    }
}

fn position_lost() -> Error {
    let message = "CollectionScan died due to position in capped collection being deleted.";
    Error::new(Code::CAPPED_POSITION_LOST, message)
}
