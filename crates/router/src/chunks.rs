//! Sharding a collection, and its chunks.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, Timestamp, ValueRef};
use arbor_command::analysis::{checked_key, is_hashed};
use arbor_command::{Error, Result};
use arbor_lang::time_series::TimeSeriesOptions;
use arbor_query::Interrupt;
use uuid::Uuid;

use crate::administration::Known;
use crate::balancer::{self, Selection, Situation};
use crate::catalog::{deletes, inserts, now, updates};
use crate::definitions::{copy_indexes, create_like, first_batch, index_name};
use crate::lock::Guard;
use crate::shard::Shard;
use crate::table::{Table, key_of_bound};
use crate::time_series::{BUCKETS, key_of_buckets};
use crate::{Request, fields};

const INITIAL_CHUNKS_MAX: i64 = 8192;

/// The lower bounds of chunks, and the shards that have them.
pub(crate) type Owners = Vec<(DocBuf, String)>;

impl Request<'_> {
    pub(crate) fn shard_collection(&self) -> Result<DocBuf> {
        let (namespace, interrupt) = (self.text("shardCollection")?, self.interrupt());
        let parsed = arbor_store::Namespace::parse(namespace)?;
        let (db, name) = (parsed.db(), parsed.collection());
        if matches!(db, "admin" | "local" | "config") || name.starts_with("system.") {
            return Err(Error::new(Code::ILLEGAL_OPERATION, format!("cannot shard the collection {namespace}")));
        }
        let key = checked_key("shardCollection", self.body())?;
        let unique = fields::is_true(self.body(), "unique");
        if unique && key.as_doc().iter().any(|(_, direction)| is_hashed(direction)) {
            return Err(Error::new(Code::INVALID_OPTIONS, "hashed shard keys cannot be declared unique."));
        }
        let done = DocBuf::new().with("collectionsharded", namespace);
        if self.tracked(namespace)?.is_some_and(|table| table.unsplittable) {
            self.shard_again(namespace, key)?;
            return Ok(done);
        }
        let database = self.database_or_new(db, None)?;
        let primary = self.catalog().shard(&database.primary, interrupt)?;
        let series = match (self.tracked(namespace)?, self.newest_buckets(db, name)?) {
            (Some(_), _) => None,
            (None, Some(table)) => {
                let options = table.time_series.clone();
                options.map(|own| key_of_buckets(&own, &key).map(|key| (own, key))).transpose()?
            }
            (None, None) => self.series_to_shard((db, name), &key, &primary)?,
        };
        let Some((series, of_buckets)) = series else {
            let guard = self.completed(self.lock_renewed(namespace)?)?;
            // the index of the key takes as long as it takes
            guard.held_while(|| self.shard_locked(&guard, &parsed, (&key, unique), None, &database.primary))?;
            return Ok(done);
        };
        let buckets = arbor_store::Namespace::new(db, &format!("{BUCKETS}{name}"))?;
        let guard = self.completed(self.lock_renewed(buckets.as_str())?)?;
        guard.held_while(|| {
            self.shard_locked(&guard, &buckets, (&of_buckets, unique), Some((&series, &key)), &database.primary)
        })?;
        Ok(done)
    }

    /// Shards a collection. Requires the lock of its name.
    fn shard_locked(
        &self,
        guard: &Guard<'_>,
        parsed: &arbor_store::Namespace,
        (key, unique): (&DocBuf, bool),
        series: Option<(&TimeSeriesOptions, &DocBuf)>,
        primary: &str,
    ) -> Result<()> {
        let (namespace, db, name, interrupt) = (parsed.as_str(), parsed.db(), parsed.collection(), self.interrupt());
        self.catalog().forget(db, namespace);
        if let Some(table) = self.catalog().table(namespace, interrupt)? {
            if table.key.as_bytes() == key.as_bytes() && table.unique == unique {
                return Ok(());
            }
            let text = format!("sharding already enabled for collection {namespace} with another key or options");
            return Err(Error::new(Code::ALREADY_INITIALIZED, text));
        }
        let primary = self.catalog().shard(primary, interrupt)?;
        let shards = self.catalog().refresh_shards(interrupt)?;
        let blocked = self.set_ownership(&shards, namespace, Known::Blocked, guard);
        let of_series = series.map(|(_, key)| key);
        let prepared =
            blocked.and_then(|()| self.prepare((db, name), (key, of_series), unique, (&primary, &shards), guard));
        let decided = prepared.and_then(|(owners, collation)| {
            let mut collection = new_collection(namespace, Uuid::new_v4(), key, unique, false);
            if let Some((series, _)) = series {
                collection.append("timeseriesFields", &series.to_doc());
            }
            collation.iter().for_each(|collation| {
                collection.append("defaultCollation", collation);
            });
            self.commit_sharding(guard, &collection, &owners)
        });
        self.end_placing(namespace, guard, decided).map(drop)
    }

    /// Ends the change that gives a collection its first chunks. `decided`: its error, if it failed.
    fn end_placing(&self, namespace: &str, guard: &Guard<'_>, decided: Result<()>) -> Result<Arc<Table>> {
        match (self.end_block(namespace, guard, &decided), decided) {
            (Ok(Some(table)), _) => {
                self.keep_samples_of_new(namespace, &table);
                Ok(table)
            }
            (_, Err(error)) | (Err(error), Ok(())) => Err(error),
            (Ok(None), Ok(())) => {
                Err(Error::new(Code::NAMESPACE_NOT_FOUND, format!("{namespace} was dropped meanwhile")))
            }
        }
    }

    /// Gives a collection that is not sharded, but on a chosen shard, one chunk there. Requires the lock of its name.
    pub(crate) fn track(&self, guard: &Guard<'_>, namespace: &arbor_store::Namespace) -> Result<Arc<Table>> {
        let (db, name, interrupt) = (namespace.db(), namespace.collection(), self.interrupt());
        let missing = || Error::new(Code::NAMESPACE_NOT_FOUND, format!("Namespace {namespace} does not exist"));
        let database = self.catalog().database(db, interrupt)?.ok_or_else(missing)?;
        let primary = self.catalog().shard(&database.primary, interrupt)?;
        let filter = DocBuf::new().with("name", name);
        let listed =
            primary.call(db, &DocBuf::new().with("listCollections", 1i32).with("filter", &filter), interrupt)?;
        let listed = first_batch(listed.as_doc())?;
        let existing = listed.first().ok_or_else(missing)?;
        if fields::string(*existing, "type") != Some("collection") {
            return Err(Error::new(
                Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                format!("Namespace {namespace} is a view or a time series"),
            ));
        }
        let options = fields::document(*existing, "options").unwrap_or(Doc::empty());
        let key = DocBuf::new().with("_id", 1i32);
        let owners = vec![(DocBuf::new().with("_id", ValueRef::MinKey), primary.name.clone())];
        let shards = self.catalog().refresh_shards(interrupt)?;
        let blocked = self.set_ownership(&shards, namespace.as_str(), Known::Blocked, guard);
        let mut collection = new_collection(namespace.as_str(), Uuid::new_v4(), &key, false, true);
        if let Some(collation) = options.get("collation") {
            collection.append("defaultCollation", collation);
        }
        let decided = blocked.and_then(|()| self.commit_sharding(guard, &collection, &owners));
        self.end_placing(namespace.as_str(), guard, decided)
    }

    /// Checks the collection, creates what is missing, and returns the lower bounds of the chunks with their shards, and the collection's
    /// collation.
    fn prepare(
        &self,
        (db, name): (&str, &str),
        (key, of_series): (&DocBuf, Option<&DocBuf>),
        unique: bool,
        (primary, shards): (&Arc<Shard>, &[Arc<Shard>]),
        guard: &Guard<'_>,
    ) -> Result<(Owners, Option<DocBuf>)> {
        let interrupt = self.interrupt();
        let mut collation = None;
        let only = DocBuf::new().with("name", name);
        let list = DocBuf::new().with("listCollections", 1i32).with("filter", &only);
        let listed = primary.call(db, &list, interrupt)?;
        let refused = |text: &str| Err(Error::new(Code::INVALID_OPTIONS, text));
        if let Some(existing) = first_batch(listed.as_doc())?.first() {
            let options = fields::document(*existing, "options").unwrap_or(Doc::empty());
            if fields::string(*existing, "type") != Some("collection") {
                return Err(Error::new(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Views cannot be sharded."));
            }
            if fields::is_true(options, "capped") {
                return refused("can't shard a capped collection");
            }
            let simple = fields::document(self.body(), "collation").and_then(|own| fields::string(own, "locale"));
            if options.get("collation").is_some() && simple != Some("simple") {
                let text = "Collection has default collation. Must specify collation {locale: 'simple'}";
                return Err(Error::bad_value(text));
            }
            collation = fields::document(options, "collation").map(Doc::to_buf);
        } else {
            primary.call(db, &guard.fenced(DocBuf::new().with("create", name)), interrupt)?;
        }
        let one = DocBuf::new().with("count", name).with("limit", 1i32);
        let is_empty = fields::int(primary.call(db, &one, interrupt)?.as_doc(), "n") == 0;
        let indexes = primary.call(db, &DocBuf::new().with("listIndexes", name), interrupt)?;
        let indexes = first_batch(indexes.as_doc())?;
        let fits = |index: &&Doc<'_>| {
            !unique || fields::is_true(**index, "unique") || fields::string(**index, "name") == Some("_id_")
        };
        let has_index = indexes.iter().filter(|index| serves(**index, key.as_doc())).any(|index| fits(&index));
        if !has_index && !is_empty {
            return refused(
                "Please create an index that starts with the proposed shard key before sharding the collection",
            );
        }
        check_unique_indexes(&indexes, key.as_doc())?;
        if !is_empty {
            self.check_documents(db, name, key, primary)?;
        }
        if !has_index {
            // that of a time series is made as one over its measurements
            let (key, name) = match (of_series, name.strip_prefix(BUCKETS)) {
                (Some(key), Some(series)) => (key, series),
                _ => (key, name),
            };
            let mut index = DocBuf::new().with("key", key).with("name", index_name(key.as_doc()).as_str());
            if unique {
                index.append("unique", true);
            }
            if collation.is_some() {
                // shards compare keys without it
                index.append("collation", &DocBuf::new().with("locale", "simple"));
            }
            let indexes: ArrayBuf = std::iter::once(&index).collect();
            let create = DocBuf::new().with("createIndexes", name).with("indexes", &indexes);
            primary.call(db, &guard.fenced(create), interrupt)?;
        }
        let owners = self.initial(key, is_empty, primary, shards)?;
        let listed = primary.call(db, &list, interrupt)?;
        for shard in shards.iter().filter(|shard| shard.name != primary.name) {
            if owners.iter().any(|(_, owner)| *owner == shard.name) {
                for collection in first_batch(listed.as_doc())? {
                    create_like(collection, db, shard, guard, interrupt)?;
                }
                copy_indexes(db, name, (primary, shard), guard, interrupt)?;
            }
        }
        Ok((owners, collation))
    }

    /// Refuses documents with an array at a field of the key, or on the way to it.
    fn check_documents(&self, db: &str, name: &str, key: &DocBuf, primary: &Shard) -> Result<()> {
        let mut any = ArrayBuf::new();
        for (path, _) in key.as_doc() {
            let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
            for prefix in ends.filter_map(|end| path.get(..end)) {
                any.push(&DocBuf::new().with(prefix, &DocBuf::new().with("$type", "array")));
            }
        }
        let query = DocBuf::new().with("$or", &any);
        let count = DocBuf::new().with("count", name).with("query", &query).with("limit", 1i32);
        let found = primary.call(db, &count, self.interrupt())?;
        if fields::int(found.as_doc(), "n") > 0 {
            let text = "couldn't find valid index for shard key: a document has an array at a field of the key";
            return Err(Error::new(Code::INVALID_OPTIONS, text));
        }
        Ok(())
    }

    fn initial(&self, key: &DocBuf, is_empty: bool, primary: &Shard, shards: &[Arc<Shard>]) -> Result<Owners> {
        let bound = |first: ValueRef<'_>| {
            let rest = std::iter::repeat(ValueRef::MinKey);
            let values = std::iter::once(first).chain(rest);
            key.as_doc().iter().zip(values).map(|((path, _), value)| (path, value)).collect::<DocBuf>()
        };
        let asked = match self.body().get("numInitialChunks") {
            Some(value) => fields::number_of(value).map_or(-1, |n| n as i64),
            None => 0,
        };
        if !(0..=INITIAL_CHUNKS_MAX).contains(&asked) {
            let text = format!("numInitialChunks must be between 0 and {INITIAL_CHUNKS_MAX}");
            return Err(Error::bad_value(text));
        }
        let leads = key.as_doc().first().is_some_and(|(_, direction)| is_hashed(direction));
        if asked > 0 && !(leads && is_empty) {
            let text = "numInitialChunks is only for empty collections whose shard key begins with a hashed field";
            return Err(Error::new(Code::INVALID_OPTIONS, text));
        }
        if !leads || !is_empty {
            return Ok(vec![(bound(ValueRef::MinKey), primary.name.clone())]);
        }
        let count = if asked > 0 { asked } else { shards.len() as i64 };
        let points = hash_points(count);
        let lows = std::iter::once(bound(ValueRef::MinKey)).chain(points.iter().map(|point| bound((*point).into())));
        Ok(lows.zip(shards.iter().cycle()).map(|(low, shard)| (low, shard.name.clone())).collect())
    }

    fn commit_sharding(&self, guard: &Guard<'_>, collection: &DocBuf, owners: &Owners) -> Result<()> {
        let chunks = new_chunks(collection, owners);
        let both = [inserts("chunks", &chunks), inserts("collections", std::slice::from_ref(collection))];
        self.catalog().transaction([guard], &both, self.interrupt())
    }

    pub(crate) fn split_chunk(&self) -> Result<DocBuf> {
        let namespace = self.text("split")?;
        let guard = self.lock_collection(namespace)?;
        let table = self.sharded(namespace)?;
        let given = |name: &str| match self.body().get(name) {
            Some(ValueRef::Document(value)) => Ok(Some(value)),
            None => Ok(None),
            Some(other) => {
                Err(Error::from(arbor_protocol::arguments::Field::new("split", name).wrong_type(other, "object")))
            }
        };
        let bounds = fields::array(self.body(), "bounds");
        let (chunk, middle) = match (given("middle")?, given("find")?, bounds) {
            (Some(middle), None, None) => {
                check_names(&table, middle)?;
                (self.chunk_with(&table, middle)?, middle.to_buf())
            }
            (None, Some(find), None) => {
                let chunk = self.chunk_with(&table, table.bound_of_filter(find)?.as_doc())?;
                let middle = self.median(&table, chunk.as_doc())?;
                (chunk, middle)
            }
            (None, None, Some(bounds)) => {
                let (Some(ValueRef::Document(low)), Some(ValueRef::Document(high))) = (bounds.get(0), bounds.get(1))
                else {
                    return Err(Error::bad_value("bounds must be an array of two documents"));
                };
                let chunk = self.chunk_with(&table, low)?;
                let ends = fields::document(chunk.as_doc(), "max").map(key_of_bound);
                if fields::document(chunk.as_doc(), "min").map(key_of_bound) != Some(key_of_bound(low))
                    || ends != Some(key_of_bound(high))
                {
                    return Err(Error::bad_value(format!("no chunk has the bounds {low} and {high}")));
                }
                let middle = self.median(&table, chunk.as_doc())?;
                (chunk, middle)
            }
            _ => return Err(Error::bad_value("need to specify find/bounds or middle")),
        };
        let own = chunk.as_doc();
        let (Some(min), Some(max)) = (fields::document(own, "min"), fields::document(own, "max")) else {
            return Err(Error::new(Code::INTERNAL_ERROR, "a chunk has no bounds"));
        };
        let at = key_of_bound(middle.as_doc());
        if at <= key_of_bound(min) || at >= key_of_bound(max) {
            let middle = middle.as_doc();
            let text = format!("new split key {middle} is a boundary key of existing chunk [{min}, {max})");
            return Err(Error::bad_value(text));
        }
        self.split_at(&guard, &table, &chunk, &middle)?;
        Ok(DocBuf::new())
    }

    /// Makes two chunks of one. Requires that the middle is inside.
    pub(crate) fn split_at(&self, guard: &Guard<'_>, table: &Table, chunk: &DocBuf, middle: &DocBuf) -> Result<()> {
        let own = chunk.as_doc();
        let max = fields::document(own, "max").unwrap_or(Doc::empty());
        let shard = fields::string(own, "shard").unwrap_or_default();
        let versions = self.next_versions(table, shard);
        let uuid = ValueRef::Binary { subtype: 4, bytes: &table.uuid };
        let since = match own.get("onCurrentShardSince") {
            Some(ValueRef::Timestamp(since)) => since,
            _ => table.timestamp,
        };
        let low = with_fields(own, Some(middle.as_doc()), versions.0);
        let high = self::chunk(uuid, middle.as_doc(), max, shard, versions.1, since);
        let halves = [updates("chunks", &[replacement(&low)]), inserts("chunks", &[high])];
        self.catalog().transaction([guard], &halves, self.interrupt())?;
        self.forget(&table.namespace);
        Ok(())
    }

    pub(crate) fn merge_chunks(&self) -> Result<DocBuf> {
        let namespace = self.text("mergeChunks")?;
        let bounds = fields::array(self.body(), "bounds");
        let ends = bounds.and_then(|bounds| Some((bounds.get(0)?, bounds.get(1)?)));
        let Some((ValueRef::Document(low), ValueRef::Document(high))) = ends else {
            return Err(Error::bad_value("bounds must be an array of two documents"));
        };
        self.merge(namespace, low, high)?;
        Ok(DocBuf::new())
    }

    /// Makes the chunks between two bounds one. Errors: they are not on one shard, or there is one only.
    pub(crate) fn merge(&self, namespace: &str, low: Doc<'_>, high: Doc<'_>) -> Result<()> {
        let guard = self.lock_collection(namespace)?;
        let table = self.sharded(namespace)?;
        check_names(&table, low)?;
        check_names(&table, high)?;
        let uuid = ValueRef::Binary { subtype: 4, bytes: &table.uuid };
        let within = DocBuf::new().with("$gte", low).with("$lt", high);
        let filter = DocBuf::new().with("uuid", uuid).with("min", &within);
        let all = self.catalog().read("chunks", &filter, "min", self.interrupt())?;
        let key = |chunk: &DocBuf, name| fields::document(chunk.as_doc(), name).map(key_of_bound).unwrap_or_default();
        let (first, last) = (key_of_bound(low), key_of_bound(high));
        let inside: Vec<&DocBuf> =
            all.iter().filter(|chunk| key(chunk, "min") >= first && key(chunk, "max") <= last).collect();
        let (Some(begin), Some(end)) = (inside.first(), inside.last()) else {
            return Err(Error::new(Code::ILLEGAL_OPERATION, "could not merge chunks: the range has none"));
        };
        if key(begin, "min") != first || key(end, "max") != last {
            return Err(Error::new(
                Code::ILLEGAL_OPERATION,
                "could not merge chunks: the bounds are not those of chunks",
            ));
        }
        if inside.len() < 2 {
            return Err(Error::new(Code::ILLEGAL_OPERATION, "could not merge chunks: the range has one already"));
        }
        let shard = fields::string(begin.as_doc(), "shard").unwrap_or_default();
        if inside.iter().any(|chunk| fields::string(chunk.as_doc(), "shard") != Some(shard)) {
            return Err(Error::new(Code::ILLEGAL_OPERATION, "could not merge chunks: they are on several shards"));
        }
        let whole =
            with_fields(begin.as_doc(), fields::document(end.as_doc(), "max"), self.next_versions(&table, shard).0);
        let others: ArrayBuf = inside.iter().skip(1).filter_map(|chunk| chunk.get("_id")).collect();
        let gone = DocBuf::new().with("_id", &DocBuf::new().with("$in", &others));
        let merged = [deletes("chunks", &gone), updates("chunks", &[replacement(&whole)])];
        self.catalog().transaction([&guard], &merged, self.interrupt())?;
        self.forget(namespace);
        Ok(())
    }

    /// `mergeAllChunksOnShard`: merges what the balancer would merge on one shard.
    pub(crate) fn merge_all_chunks(&self) -> Result<DocBuf> {
        let (namespace, shard) = (self.text("mergeAllChunksOnShard")?, self.text("shard")?);
        self.sharded(namespace)?;
        let shard = self.catalog().shard(shard, self.interrupt())?;
        let most = match self.body().get("maxNumberOfChunksToMerge").map(fields::number_of) {
            None => usize::MAX,
            Some(Some(most)) if most >= 2.0 => most as usize,
            Some(_) => return Err(Error::bad_value("maxNumberOfChunksToMerge must be a number of at least 2")),
        };
        let before = balancer::merged_before(self.server);
        let situation = Situation::read(self.catalog(), Selection::ChunksOf(namespace), self.interrupt())?;
        let mut merged = 0;
        for run in situation.known.iter().flat_map(|known| balancer::mergeable(known, before)) {
            if run.shard == shard.name && merged + run.count <= most {
                self.interrupt().check()?;
                self.merge(namespace, run.min.as_doc(), run.max.as_doc())?;
                merged += run.count;
            }
        }
        Ok(DocBuf::new())
    }

    /// `clearJumboFlag`: the balancer tries again to split or move a chunk.
    pub(crate) fn clear_jumbo(&self) -> Result<DocBuf> {
        let namespace = self.text("clearJumboFlag")?;
        let guard = self.lock_collection(namespace)?;
        let table = self.sharded(namespace)?;
        let chunk = match (fields::document(self.body(), "find"), fields::array(self.body(), "bounds")) {
            (Some(find), None) => self.chunk_with(&table, table.bound_of_filter(find)?.as_doc())?,
            (None, Some(bounds)) => {
                let (Some(ValueRef::Document(low)), Some(ValueRef::Document(high))) = (bounds.get(0), bounds.get(1))
                else {
                    return Err(Error::bad_value("bounds must be an array of two documents"));
                };
                check_names(&table, low)?;
                let chunk = self.chunk_with(&table, low)?;
                let is_end =
                    |name, bound| fields::document(chunk.as_doc(), name).map(key_of_bound) == Some(key_of_bound(bound));
                if !is_end("min", low) || !is_end("max", high) {
                    return Err(Error::bad_value(format!("no chunk has the bounds {low} and {high}")));
                }
                chunk
            }
            _ => return Err(Error::bad_value("need to specify either find or bounds")),
        };
        let id: DocBuf = chunk.get("_id").into_iter().map(|id| ("_id", id)).collect();
        let unset = DocBuf::new().with("$unset", &DocBuf::new().with("jumbo", ""));
        let statement = DocBuf::new().with("q", &id).with("u", &unset);
        self.catalog().transaction([&guard], &[updates("chunks", &[statement])], self.interrupt())?;
        Ok(DocBuf::new())
    }

    pub(crate) fn forget(&self, namespace: &str) {
        let db = namespace.split('.').next().unwrap_or_default();
        self.catalog().forget(db, namespace);
    }

    /// Returns two new versions that leave the ownership of the shard as it is.
    fn next_versions(&self, table: &Table, shard: &str) -> ((u32, u32), (u32, u32)) {
        let (_, minor) = table.last_version();
        let own = table.version_for(shard);
        let major = match own.get("v") {
            Some(ValueRef::Timestamp(Timestamp { seconds, .. })) => seconds,
            _ => 1,
        };
        let minor = minor.max(match own.get("v") {
            Some(ValueRef::Timestamp(Timestamp { increment, .. })) => increment,
            _ => 0,
        });
        ((major, minor.saturating_add(1)), (major, minor.saturating_add(2)))
    }

    /// Returns the chunk in which a bound, or a key in the form of one, is.
    pub(crate) fn chunk_with(&self, table: &Table, bound: Doc<'_>) -> Result<DocBuf> {
        let found = self.catalog().last_chunk(&table.uuid, "$lte", bound, self.interrupt())?;
        found.ok_or_else(|| Error::new(Code::INTERNAL_ERROR, "no chunk has the key"))
    }

    /// Returns the middle of a chunk: of its documents or, for hashes, of its range.
    fn median(&self, table: &Table, chunk: Doc<'_>) -> Result<DocBuf> {
        let cannot = || Error::new(Code::CANNOT_SPLIT, "chunk cannot be split: it has too few different keys");
        let end = |name| fields::document(chunk, name).unwrap_or(Doc::empty());
        let (min, max) = (end("min"), end("max"));
        if let Some((path, direction)) = table.key.as_doc().first()
            && is_hashed(direction)
        {
            let whole = |value: Option<(&str, ValueRef<'_>)>, open: i64| match value {
                Some((_, ValueRef::Int64(hash))) => hash,
                _ => open,
            };
            let middle = whole(min.first(), i64::MIN).midpoint(whole(max.first(), i64::MAX));
            let values = std::iter::once(ValueRef::Int64(middle)).chain(std::iter::repeat(ValueRef::MinKey));
            assert!(!path.is_empty(), "keys have names");
            return Ok(table.key.as_doc().iter().zip(values).map(|((path, _), value)| (path, value)).collect());
        }
        if table.key.as_doc().iter().any(|(_, direction)| is_hashed(direction)) {
            return Err(Error::new(Code::COMMAND_NOT_SUPPORTED, "name the middle to split a chunk of such a key"));
        }
        let (db, name) = table.namespace.split_once('.').unwrap_or_default();
        let shard = self.catalog().shard(fields::string(chunk, "shard").unwrap_or_default(), self.interrupt())?;
        let whole = min.iter().all(|(_, value)| matches!(value, ValueRef::MinKey))
            && max.iter().all(|(_, value)| matches!(value, ValueRef::MaxKey));
        let mut find = DocBuf::new().with("find", name).with("sort", &table.key).with("limit", 1i32);
        let hint = index_of(&shard, db, name, table.key.as_doc(), self.interrupt())?;
        find.append("hint", hint.as_str());
        let mut skip =
            fields::int(shard.call(db, &DocBuf::new().with("count", name), self.interrupt())?.as_doc(), "n") / 2;
        if !whole {
            find.append("min", min).append("max", max);
            let of_chunk =
                DocBuf::new().with("find", name).with("hint", hint.as_str()).with("min", min).with("max", max);
            let of_chunk = of_chunk.with("projection", &DocBuf::new().with("_id", 1i32));
            let mut count = 0;
            let reply = shard.call(db, &of_chunk, self.interrupt())?;
            let mut stream = crate::rows::Stream::begin(shard.clone(), reply.as_doc(), Doc::empty(), None)?;
            while stream.pull(self.interrupt())?.is_some() {
                count += 1;
            }
            skip = count / 2;
        }
        let found = shard.call(db, &find.with("skip", skip), self.interrupt())?;
        let document = first_batch_any(found.as_doc()).ok_or_else(cannot)?;
        let values = table.key.as_doc().iter().map(|(path, _)| {
            let value = fields::at_path(document, path).unwrap_or(None).unwrap_or(ValueRef::Null);
            (path, value)
        });
        let middle: DocBuf = values.collect();
        if key_of_bound(middle.as_doc()) <= key_of_bound(min) { Err(cannot()) } else { Ok(middle) }
    }
}

fn first_batch_any(reply: Doc<'_>) -> Option<Doc<'_>> {
    let cursor = fields::document(reply, "cursor")?;
    match fields::array(cursor, "firstBatch")?.get(0) {
        Some(ValueRef::Document(first)) => Some(first),
        _ => None,
    }
}

/// Returns the name of an index that begins with the key.
fn index_of(shard: &Shard, db: &str, name: &str, key: Doc<'_>, interrupt: &Interrupt) -> Result<String> {
    let listed = shard.call(db, &DocBuf::new().with("listIndexes", name), interrupt)?;
    let indexes = first_batch(listed.as_doc())?;
    let same = |index: &&Doc<'_>| {
        fields::document(**index, "key").is_some_and(|own| own.iter().map(|(n, _)| n).eq(key.iter().map(|(n, _)| n)))
    };
    let found = indexes.iter().find(same).and_then(|index| fields::string(*index, "name"));
    let none = || Error::new(Code::INDEX_NOT_FOUND, "the shard has no index of the shard key alone; name the middle");
    found.map(str::to_owned).ok_or_else(none)
}

pub(crate) fn check_names(table: &Table, bound: Doc<'_>) -> Result<()> {
    if table.key.as_doc().iter().map(|(path, _)| path).eq(bound.iter().map(|(name, _)| name)) {
        return Ok(());
    }
    let text = format!("{bound} does not have the fields of the shard key {}", table.key.as_doc());
    Err(Error::bad_value(text))
}

/// Returns the points that divide all hashes into `count` equal ranges.
pub(crate) fn hash_points(count: i64) -> Vec<i64> {
    assert!(count > 0, "there is a first chunk");
    let width = (1i128 << 64) / i128::from(count);
    let point = |at: i64| i128::from(i64::MIN) + i128::from(at) * width;
    (1..count).filter_map(|at| i64::try_from(point(at)).ok()).collect()
}

/// Returns true if an index finds the documents of a range of a shard key.
pub(crate) fn serves(index: Doc<'_>, key: Doc<'_>) -> bool {
    let own = fields::document(index, "key").unwrap_or(Doc::empty());
    let mut pairs = key.iter().zip(own.iter());
    let same = own.iter().count() >= key.iter().count()
        && pairs.all(|((path, own), (name, given))| path == name && arbor_bson::compare(own, given).is_eq());
    same && ["sparse", "partialFilterExpression", "collation"].iter().all(|option| index.get(option).is_none())
}

/// Refuses unique indexes that do not begin with a shard key: no shard could check them.
pub(crate) fn check_unique_indexes(indexes: &[Doc<'_>], key: Doc<'_>) -> Result<()> {
    for index in indexes.iter().filter(|index| fields::is_true(**index, "unique")) {
        let own = fields::document(*index, "key").unwrap_or(Doc::empty());
        if own.iter().map(|(name, _)| name).eq(["_id"]) {
            // of a clustered collection: each shard checks its own documents, as without clustering
            continue;
        }
        let mut names = own.iter().map(|(name, _)| name);
        if !key.iter().all(|(path, direction)| names.next() == Some(path) && !is_hashed(direction)) {
            let text = format!("can't shard collection with unique index on: {own}");
            return Err(Error::new(Code::INVALID_OPTIONS, text));
        }
    }
    Ok(())
}

/// Returns the document of `config.collections` of a collection that is sharded, or gets another key.
pub(crate) fn new_collection(namespace: &str, uuid: Uuid, key: &DocBuf, unique: bool, unsplittable: bool) -> DocBuf {
    let collection = DocBuf::new()
        .with("_id", namespace)
        .with("lastmodEpoch", ValueRef::ObjectId(arbor_protocol::topology::new_object_id()))
        .with("lastMod", ValueRef::DateTime(arbor_protocol::log::now_ms()))
        .with("timestamp", ValueRef::Timestamp(now()))
        .with("uuid", ValueRef::Binary { subtype: 4, bytes: uuid.as_bytes() })
        .with("key", key)
        .with("unique", unique)
        .with("noBalance", false);
    if unsplittable { collection.with("unsplittable", true) } else { collection }
}

/// Returns the first chunks of a collection.
pub(crate) fn new_chunks(collection: &DocBuf, owners: &Owners) -> Vec<DocBuf> {
    let key = fields::document(collection.as_doc(), "key").unwrap_or(Doc::empty());
    let uuid = collection.get("uuid").unwrap_or(ValueRef::Null);
    let stamp = match collection.get("timestamp") {
        Some(ValueRef::Timestamp(stamp)) => stamp,
        _ => now(),
    };
    let highest: DocBuf = key.iter().map(|(path, _)| (path, ValueRef::MaxKey)).collect();
    let highs = owners.iter().skip(1).map(|(low, _)| low).chain([&highest]);
    let chunks: Vec<DocBuf> = owners
        .iter()
        .zip(highs)
        .enumerate()
        .map(|(at, ((low, shard), high))| chunk(uuid, low.as_doc(), high.as_doc(), shard, (1, at as u32), stamp))
        .collect();
    assert_eq!(chunks.len(), owners.len(), "one chunk for each lower bound");
    chunks
}

fn chunk(uuid: ValueRef<'_>, min: Doc<'_>, max: Doc<'_>, shard: &str, version: (u32, u32), since: Timestamp) -> DocBuf {
    let history = DocBuf::new().with("validAfter", ValueRef::Timestamp(since)).with("shard", shard);
    DocBuf::new()
        .with("_id", ValueRef::ObjectId(arbor_protocol::topology::new_object_id()))
        .with("uuid", uuid)
        .with("min", min)
        .with("max", max)
        .with("shard", shard)
        .with("lastmod", fields::timestamp(version.0, version.1))
        .with("onCurrentShardSince", ValueRef::Timestamp(since))
        .with("history", &std::iter::once(&history).collect::<ArrayBuf>())
}

/// Returns a chunk with another end and version.
fn with_fields(chunk: Doc<'_>, max: Option<Doc<'_>>, version: (u32, u32)) -> DocBuf {
    let value = |(name, value)| match (name, max) {
        ("max", Some(max)) => (name, ValueRef::Document(max)),
        ("lastmod", _) => (name, fields::timestamp(version.0, version.1)),
        _ => (name, value),
    };
    chunk.iter().map(value).collect()
}

pub(crate) fn replacement(document: &DocBuf) -> DocBuf {
    let id: DocBuf = document.get("_id").into_iter().map(|id| ("_id", id)).collect();
    DocBuf::new().with("q", &id).with("u", document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_divided_evenly() {
        assert_eq!(hash_points(1), Vec::<i64>::new());
        assert_eq!(hash_points(2), [0]);
        assert_eq!(hash_points(4), [-4611686018427387904, 0, 4611686018427387904]);
        assert_eq!(hash_points(3).len(), 2);
    }
}
