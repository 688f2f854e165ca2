//! `analyzeShardKey` of a collection that is on shards.

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::analysis::{ANALYZERS, Analysis, Analyzed, Configuration, SAMPLES, Totals, samples_of};
use arbor_command::{Answer, Error, Result, Routed, command_info};
use arbor_store::Namespace;

use crate::definitions::first_batch;
use crate::table::Table;
use crate::{Request, fields};

impl Request<'_> {
    pub(crate) fn analyze_shard_key(&self) -> Result<Answer> {
        Ok(Answer::Reply(Analysis::parse(self.body())?.run(self)?))
    }

    pub(crate) fn configure_query_analyzer(&self) -> Result<Answer> {
        let configuration = Configuration::parse(self.body())?;
        Ok(Answer::Reply(configuration.run(self.server, self, self.interrupt())?))
    }

    /// Lets the samples of a collection be those of the one that takes its place. What fails is only samples, as do those that other routers take until they
    /// know of it.
    pub(crate) fn keep_samples(&self, namespace: &str, before: &[u8], now: &[u8]) {
        let uuid = |bytes| ValueRef::Binary { subtype: 4, bytes };
        self.server.store_samples(self.interrupt());
        for (collection, name, field) in [(ANALYZERS, "_id", "collUuid"), (SAMPLES, "ns", "collectionUuid")] {
            let statement = DocBuf::new()
                .with("q", &DocBuf::new().with(name, namespace).with(field, uuid(before)))
                .with("u", &DocBuf::new().with("$set", &DocBuf::new().with(field, uuid(now))))
                .with("multi", true);
            let updates: ArrayBuf = std::iter::once(&statement).collect();
            let update = DocBuf::new().with("update", collection).with("updates", &updates);
            let _ = self.catalog().write(update, self.interrupt());
        }
        self.server.follow_analyzers();
    }

    /// Like [`Request::keep_samples`], for a collection that has got a table now.
    pub(crate) fn keep_samples_of_new(&self, namespace: &str, table: &Table) {
        let listed = Namespace::parse(namespace).ok().and_then(|name| self.listed(&name).ok());
        let info = listed.as_ref().and_then(|listed| fields::document(listed.as_doc(), "info"));
        if let Some(before) = info.and_then(|info| fields::binary(info, "uuid")) {
            self.keep_samples(namespace, before, &table.uuid);
        }
    }

    /// Returns what `listCollections` shows of a collection.
    fn listed(&self, namespace: &Namespace) -> Result<DocBuf> {
        let filter = DocBuf::new().with("name", namespace.collection());
        let list = DocBuf::new().with("listCollections", 1i32).with("filter", &filter);
        let listed = self.run_other(namespace.db(), list, |request| request.list_collections())?;
        let missing = || Error::new(Code::NAMESPACE_NOT_FOUND, format!("Namespace {namespace} does not exist"));
        self.all_of(listed)?.into_iter().next().ok_or_else(missing)
    }

    /// Runs another command of the user.
    fn run_other(&self, db: &str, command: DocBuf, run: impl FnOnce(&Request<'_>) -> Result<Answer>) -> Result<Answer> {
        let mut body = command;
        fields::copy(self.body(), &["lsid", "$audit"], &mut body);
        let name = body.as_doc().first().map_or("", |(name, _)| name).to_owned();
        let info = command_info(&name).ok_or_else(|| Error::new(Code::INTERNAL_ERROR, "the command exists"))?;
        let routed = Routed { info, db, body: body.as_doc(), ..*self.routed };
        run(&Request { routed: &routed, ..*self })
    }

    fn all_of(&self, answer: Answer) -> Result<Vec<DocBuf>> {
        match answer {
            Answer::Cursor(routed) => Ok(routed.cursor.all(self.interrupt())?),
            Answer::Reply(reply) => Ok(first_batch(reply.as_doc())?.into_iter().map(Doc::to_buf).collect()),
            Answer::Local => Ok(Vec::new()),
        }
    }
}

impl Analyzed for Request<'_> {
    fn totals(&self, namespace: &Namespace) -> Result<Totals> {
        let (db, name) = (namespace.db(), namespace.collection());
        match fields::string(self.listed(namespace)?.as_doc(), "type") {
            Some("view") => {
                let text = format!("Namespace {namespace} is a view, not a collection");
                return Err(Error::new(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, text));
            }
            Some("timeseries") => {
                let text = format!("{namespace} is a time series collection");
                return Err(Error::new(Code::ILLEGAL_OPERATION, text));
            }
            _ => {}
        }
        let statistics = DocBuf::new().with("collStats", name);
        let Answer::Reply(own) = self.run_other(db, statistics, |request| request.forward(false))? else {
            return Err(Error::new(Code::INTERNAL_ERROR, "a shard sent no statistics"));
        };
        let own = own.as_doc();
        let is_sharded =
            self.catalog().table(namespace.as_str(), self.interrupt())?.is_some_and(|table| !table.unsplittable);
        let of_shards = fields::document(own, "shards").unwrap_or(Doc::empty());
        let orphans = match of_shards.is_empty() {
            true => fields::int(own, "numOrphanDocs"),
            false => {
                let parts = of_shards.iter().filter_map(|(_, part)| match part {
                    ValueRef::Document(part) => Some(fields::int(part, "numOrphanDocs")),
                    _ => None,
                });
                parts.sum()
            }
        };
        Ok(Totals {
            documents: fields::int(own, "count") as u64,
            orphans: is_sharded.then_some(orphans as u64),
            bytes_of_document: fields::int(own, "avgObjSize") as u64,
        })
    }

    fn uuid(&self, namespace: &Namespace) -> Result<Vec<u8>> {
        if let Some(table) = self.catalog().table(namespace.as_str(), self.interrupt())? {
            return Ok(table.uuid.clone());
        }
        let listed = self.listed(namespace)?;
        let info = fields::document(listed.as_doc(), "info");
        Ok(info.and_then(|info| fields::binary(info, "uuid")).unwrap_or_default().to_vec())
    }

    fn samples(&self, namespace: &Namespace) -> Result<Vec<DocBuf>> {
        let filter = samples_of(namespace, &self.uuid(namespace)?);
        self.server.store_samples(self.interrupt());
        self.server.config_collections().read(SAMPLES, &filter, self.interrupt())
    }

    fn indexes(&self, namespace: &Namespace) -> Result<Vec<DocBuf>> {
        let list = DocBuf::new().with("listIndexes", namespace.collection());
        let list = list.with("cursor", &DocBuf::new().with("batchSize", i64::from(i32::MAX)));
        let listed = self.run_other(namespace.db(), list, |request| request.forward(false))?;
        self.all_of(listed)
    }

    fn aggregate(&self, namespace: &Namespace, pipeline: &ArrayBuf) -> Result<Vec<DocBuf>> {
        let command = DocBuf::new()
            .with("aggregate", namespace.collection())
            .with("pipeline", pipeline)
            .with("cursor", &DocBuf::new())
            .with("allowDiskUse", true)
            .with("collation", &DocBuf::new().with("locale", "simple"));
        let found = self.run_other(namespace.db(), command, |request| request.aggregate())?;
        self.all_of(found)
    }
}
