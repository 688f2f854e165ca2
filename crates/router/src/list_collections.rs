//! `listCollections`. The primary shard of a database lists its collections. It may have no part of one: `unshardCollection`,
//! `reshardCollection` and `movePrimary` leave it so, and chunks that move away leave one that later changes do not reach. Another shard
//! lists those.

use std::collections::BTreeMap;

use arbor_bson::{ArrayBuf, Doc, DocBuf};
use arbor_command::{Answer, Result, Routed, RoutedCursor};

use crate::catalog::{Routing, versioned};
use crate::definitions::first_batch;
use crate::rows::Merge;
use crate::{Request, fields};

/// Names of collections by the shard that lists them.
pub(crate) type ByShard = BTreeMap<String, Vec<String>>;

impl Request<'_> {
    /// `listCollections`. With `authorizedCollections` it shows those with which the user may do anything, which the shard does not know.
    pub(crate) fn list_collections(&self) -> Result<Answer> {
        let elsewhere = self.collections_elsewhere(self.routed.db)?;
        if self.routed.user.is_none() || !fields::is_true(self.body(), "authorizedCollections") {
            return self.list_on_shards(&elsewhere);
        }
        let mut names = self.collection_names()?;
        names.extend(elsewhere.values().flatten().cloned());
        let reached: ArrayBuf = names.iter().filter(|name| self.reaches_collection(name)).collect();
        let body = only_names(self.body(), "$in", &reached);
        let routed = Routed { body: body.as_doc(), ..*self.routed };
        Request { routed: &routed, ..*self }.list_on_shards(&elsewhere)
    }

    /// Lists on the primary shard, and what that has no part of on another one.
    fn list_on_shards(&self, elsewhere: &ByShard) -> Result<Answer> {
        if elsewhere.is_empty() {
            return self.forward(false);
        }
        let db = self.routed.db;
        let plain = self.plain();
        let body = fields::without(plain.as_doc(), &["cursor"]);
        let batch_size = fields::document(self.body(), "cursor")
            .and_then(|cursor| cursor.get("batchSize").map(|_| fields::int(cursor, "batchSize")));
        self.with_routing(db, &self.namespace()?, false, |routing| {
            let Routing::Unsharded(primary, _) = routing else { return self.forward(false) };
            let names: ArrayBuf = elsewhere.values().flatten().collect();
            let own = versioned(only_names(body.as_doc(), "$nin", &names), routing, &primary.name);
            let mut commands = vec![(primary.clone(), own)];
            for (shard, names) in elsewhere {
                let shard = self.catalog().shard(shard, self.interrupt())?;
                commands.push((shard, only_names(body.as_doc(), "$in", &names.iter().collect())));
            }
            let merge = Merge::new(self.open_each(commands, batch_size)?, None, 0, None);
            let cursor = self.merged(&format!("{db}.$cmd.listCollections"), merge, &ArrayBuf::new(), None)?;
            Ok(Answer::Cursor(RoutedCursor {
                cursor: Box::new(cursor),
                batch_size: batch_size.and_then(|size| u64::try_from(size).ok()),
                single_batch: false,
                no_timeout: false,
                time: None,
                extra: None,
            }))
        })
    }

    /// Returns the collections of which the primary shard has no part, or one that is not kept up, each with a shard that has one.
    pub(crate) fn collections_elsewhere(&self, db: &str) -> Result<ByShard> {
        let (catalog, interrupt) = (self.catalog(), self.interrupt());
        let mut elsewhere = ByShard::new();
        if matches!(db, "admin" | "config" | "local") {
            return Ok(elsewhere);
        }
        let Some(database) = catalog.database(db, interrupt)? else { return Ok(elsewhere) };
        for namespace in catalog.sharded_of(db, interrupt)? {
            let Some(table) = catalog.table(&namespace, interrupt)? else { continue };
            let is_here = table.shards().any(|shard| shard == database.primary);
            let name = namespace.split_once('.').map(|(_, name)| name);
            if let (false, Some(shard), Some(name)) = (is_here, table.shards().next(), name) {
                let names = elsewhere.entry(shard.to_owned()).or_default();
                names.push(name.to_owned());
                names.extend(table.time_series.as_ref().map(|_| table.series().to_owned()));
            }
        }
        Ok(elsewhere)
    }

    fn collection_names(&self) -> Result<Vec<String>> {
        let mut body = DocBuf::new().with("listCollections", 1i32).with("nameOnly", true);
        fields::copy(self.body(), &["lsid", "$audit", "$db"], &mut body);
        let routed = Routed { body: body.as_doc(), ..*self.routed };
        let Answer::Reply(listed) = (Request { routed: &routed, ..*self }).forward(false)? else {
            return Ok(Vec::new());
        };
        let names = first_batch(listed.as_doc())?.into_iter().filter_map(|entry| fields::string(entry, "name"));
        Ok(names.map(str::to_owned).collect())
    }
}

/// Returns `listCollections` for some names (`$in`), or for all but those (`$nin`).
fn only_names(body: Doc<'_>, operator: &str, names: &ArrayBuf) -> DocBuf {
    let filter = fields::document(body, "filter").unwrap_or(Doc::empty());
    let by_name = DocBuf::new().with("name", &DocBuf::new().with(operator, names));
    let both: ArrayBuf = [filter, by_name.as_doc()].into_iter().collect();
    fields::without(body, &["filter"]).with("filter", &DocBuf::new().with("$and", &both))
}
