//! The documents of changes, as they are now, on all shards.
//!
//! A document is first asked for by its whole key, of the shard that has it. One that has got another value of the shard key since is found by
//! its `_id` alone, on all shards at one time. If several shards have documents with this `_id`, none is taken: it may be another one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arbor_bson::keystring::KeyBuilder;
use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_command::Result;
use arbor_protocol::cluster_time::timestamp;
use arbor_query::{Elsewhere, Interrupt};
use arbor_store::Namespace;

use crate::catalog::Catalog;
use crate::elsewhere::Foreign;
use crate::fields::{at_path, without};
use crate::snapshot::is_too_old;

/// Documents that are looked up by one request.
pub(crate) const MANY_MAX: usize = 200;
/// Attempts of a read of all shards at one time.
const ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(10);

/// Returns the document with a `documentKey`. `session`: the fields of a request that name its session and its user.
pub(crate) fn look_up(
    catalog: &Arc<Catalog>,
    session: &DocBuf,
    namespace: &Namespace,
    key: Doc<'_>,
    interrupt: &Interrupt,
) -> Result<Option<DocBuf>> {
    let equal = |name: &str| key.get(name).map(|value| DocBuf::new().with(name, &DocBuf::new().with("$eq", value)));
    let whole: Vec<DocBuf> = key.iter().filter_map(|(name, _)| equal(name)).collect();
    let by_key = DocBuf::new().with("$and", &whole.iter().collect::<ArrayBuf>());
    let own = Foreign { catalog: catalog.clone(), collation: None, session: session.clone(), transaction: None };
    let found = own.first(namespace, &by_key, 2, interrupt)?;
    if let [only] = found.as_slice() {
        return Ok(Some(only.clone()));
    }
    let Some(by_id) = equal("_id").filter(|_| found.is_empty()) else { return Ok(None) };
    let mut attempts = 0;
    loop {
        let concern = DocBuf::new().with("level", "snapshot").with("atClusterTime", timestamp(catalog.clock.now(0)));
        let at_one_time = without(session.as_doc(), &["readConcern"]).with("readConcern", &concern);
        let all = Foreign { session: at_one_time, ..own.clone() };
        match all.first(namespace, &by_id, 2, interrupt) {
            // a range has moved since then
            Err(error) if is_too_old(&error) && attempts < ATTEMPTS => {
                interrupt.check()?;
                std::thread::sleep(PAUSE * 2u32.pow(attempts));
                attempts += 1;
            }
            Err(error) => return Err(error),
            Ok(mut found) => return Ok(found.pop().filter(|_| found.is_empty())),
        }
    }
}

/// Returns the documents with these keys that are found at once. None: there is none, or [`look_up`] finds it.
pub(crate) fn look_up_many(
    catalog: &Arc<Catalog>,
    session: &DocBuf,
    namespace: &Namespace,
    keys: &[DocBuf],
    interrupt: &Interrupt,
) -> Result<Vec<Option<DocBuf>>> {
    let own = Foreign { catalog: catalog.clone(), collation: None, session: session.clone(), transaction: None };
    let ids: ArrayBuf = keys.iter().filter_map(|key| key.get("_id")).collect();
    let by_ids = DocBuf::new().with("_id", &DocBuf::new().with("$in", &ids));
    let mut found: HashMap<Vec<u8>, Vec<DocBuf>> = HashMap::new();
    for document in own.first(namespace, &by_ids, MANY_MAX * 2, interrupt)? {
        found.entry(key_of(document.get("_id"))).or_default().push(document);
    }
    let of_key = |key: &DocBuf| {
        let has = |document: &&DocBuf| {
            key.as_doc().iter().all(|(path, value)| {
                let own = at_path(document.as_doc(), path).ok().flatten();
                own.is_some_and(|own| arbor_bson::compare(own, value).is_eq())
            })
        };
        let mut same = found.get(&key_of(key.get("_id")))?.iter().filter(has);
        same.next().filter(|_| same.next().is_none()).cloned()
    };
    Ok(keys.iter().map(of_key).collect())
}

fn key_of(id: Option<ValueRef<'_>>) -> Vec<u8> {
    let mut builder = KeyBuilder::new();
    builder.push(id.unwrap_or(ValueRef::Null), false);
    builder.bytes().to_vec()
}

impl Foreign {
    /// Returns up to `limit` documents that match.
    fn first(
        &self,
        namespace: &Namespace,
        filter: &DocBuf,
        limit: usize,
        interrupt: &Interrupt,
    ) -> Result<Vec<DocBuf>> {
        let mut stages = ArrayBuf::new();
        stages.push(&DocBuf::new().with("$match", filter));
        let mut rows = self.open(namespace, stages, DocBuf::new());
        let mut found = Vec::new();
        while found.len() < limit
            && let Some(document) = rows.next(interrupt)?
        {
            found.push(document);
        }
        Ok(found)
    }
}
