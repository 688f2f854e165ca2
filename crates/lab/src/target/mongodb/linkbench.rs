//! LinkBench's graph in MongoDB (spec/workloads.md 7.3, 7.7): LinkBenchX's store with its own sequence of commands, and
//! what the maintained fork does, which is also what `fixed` does on LinkBenchX's schema.

mod documents;
mod original;
mod transaction;

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_client::Client;
use documents::{Keys, count_document, link_document, link_fields, node_document};
use transaction::{Transaction, is_transient};

use super::object_ids::ObjectIds;
use super::{array, insert_many, integer, written};
use crate::target::Failure;
use crate::workload::Answer;
use crate::workload::linkbench::{HIDDEN, Link, LinkOperation, List, NODE_TYPE, Node, Schema, Store, VISIBLE};

type Result<T> = std::result::Result<T, Failure>;

/// Attempts of an operation that another one got in the way of; the wait grows by 20 ms with each.
const ATTEMPTS: u32 = 16;
const WAIT_MS: u64 = 20;

/// Connection state of LinkBench.
#[derive(Default)]
pub(super) struct LinkBench {
    ids: ObjectIds,
    documents: Vec<DocBuf>,
    transaction: Transaction,
}

impl LinkBench {
    pub(super) fn execute(
        &mut self,
        client: &mut Client,
        store: &Store,
        operation: &LinkOperation<'_>,
    ) -> Result<Answer> {
        let mut attempt = 1;
        loop {
            match self.attempt(client, store, operation) {
                Err(failure) if store.schema == Schema::Lbm && attempt < ATTEMPTS && is_transient(&failure) => {
                    std::thread::sleep(std::time::Duration::from_millis(WAIT_MS * u64::from(attempt)));
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    fn attempt(&mut self, client: &mut Client, store: &Store, operation: &LinkOperation<'_>) -> Result<Answer> {
        let several = !matches!(
            operation,
            LinkOperation::CountLink { .. }
                | LinkOperation::AddNode(_)
                | LinkOperation::UpdateNode(_)
                | LinkOperation::DeleteNode { .. }
                | LinkOperation::GetNode { .. }
        );
        let transaction = (store.transactions && several).then_some(&mut self.transaction);
        let mut graph = Graph { client, store: *store, names: store.names(), keys: Keys(store.schema), transaction };
        graph.begin();
        let outcome = graph.execute(operation, &mut self.ids, &mut self.documents);
        graph.end(outcome)
    }
}

/// The store during one operation.
struct Graph<'a> {
    client: &'a mut Client,
    store: Store,
    names: [&'static str; 3],
    keys: Keys,
    transaction: Option<&'a mut Transaction>,
}

impl Graph<'_> {
    fn execute(
        &mut self,
        operation: &LinkOperation<'_>,
        ids: &mut ObjectIds,
        documents: &mut Vec<DocBuf>,
    ) -> Result<Answer> {
        let original = self.store.is_original();
        let rows = match *operation {
            LinkOperation::AddLink(link) | LinkOperation::UpdateLink(link) if original => self.add_originally(&link)?,
            LinkOperation::AddLink(link) | LinkOperation::UpdateLink(link) => self.add(&link, ids)?,
            LinkOperation::DeleteLink { id1, link_type, id2, time } => {
                let link = Link { id1, link_type, id2, data: &[], time, version: 0 };
                if original { self.delete_originally(&link)? } else { self.delete(&link)? }
            }
            LinkOperation::CountLink { id1, link_type } => self.count(id1, link_type)?,
            LinkOperation::MultigetLink { id1, link_type, id2s } if original => {
                self.multiget_originally(id1, link_type, id2s)?
            }
            LinkOperation::MultigetLink { id1, link_type, id2s } => self.multiget(id1, link_type, id2s)?,
            LinkOperation::GetLinkList(list) => return self.list(&list),
            LinkOperation::AddNode(node) => self.insert(self.node(), true, &[node_document(&node)])?,
            LinkOperation::UpdateNode(node) => self.update_node(&node)?,
            LinkOperation::DeleteNode { id } => self.delete_node(id)?,
            LinkOperation::GetNode { id } => self.get_node(id)?,
            LinkOperation::LoadNodes(nodes) => {
                documents.clear();
                documents.extend(nodes.iter().map(node_document));
                self.insert(self.node(), false, documents)?
            }
            LinkOperation::LoadLinks(links) if original => self.load_links_originally(links, documents)?,
            LinkOperation::LoadLinks(links) => {
                documents.clear();
                documents.extend(links.iter().map(|link| link_document(self.keys.of_new_link(link, ids), link)));
                self.insert(self.link(), false, documents)?
            }
            LinkOperation::LoadCounts(counts) if original => self.load_counts_originally(counts, documents)?,
            LinkOperation::LoadCounts(counts) => {
                documents.clear();
                documents.extend(counts.iter().map(|count| count_document(self.keys.of_new_count(count, ids), count)));
                self.insert(self.counts(), false, documents)?
            }
        };
        Ok(Answer::rows(rows))
    }

    fn node(&self) -> &'static str {
        self.names[0]
    }

    fn link(&self) -> &'static str {
        self.names[1]
    }

    fn counts(&self) -> &'static str {
        self.names[2]
    }

    /// Sends a command as part of the transaction, if there is one.
    fn send(&mut self, command: DocBuf) -> Result<arbor_client::Reply<'_>> {
        let command = match &mut self.transaction {
            Some(transaction) => transaction.part(command),
            None => command,
        };
        Ok(self.client.command(self.store.database(), &command)?)
    }

    fn insert(&mut self, collection: &str, ordered: bool, documents: &[DocBuf]) -> Result<u64> {
        match &mut self.transaction {
            None => insert_many(self.client, self.store.database(), collection, ordered, documents),
            Some(transaction) => {
                let command = transaction.part(DocBuf::new().with("insert", collection).with("ordered", ordered));
                written(self.client.command_with(self.store.database(), &command, &[("documents", documents)])?)
            }
        }
    }

    /// Runs one update statement; returns how many documents it matched or inserted, and whether it inserted.
    fn update(&mut self, collection: &str, query: &DocBuf, change: &DocBuf, upsert: bool) -> Result<(u64, bool)> {
        let mut statement = DocBuf::new().with("q", query).with("u", change);
        if upsert {
            statement.append("upsert", true);
        }
        let command = DocBuf::new().with("update", collection).with("updates", &array(&[statement]));
        let reply = self.send(command.with("ordered", true))?;
        let inserted = reply.doc.get("upserted").is_some();
        Ok((written(reply)?, inserted))
    }

    /// Runs a query to its end.
    fn find(&mut self, command: DocBuf, mut each: impl FnMut(Doc<'_>)) -> Result<u64> {
        let command = match &mut self.transaction {
            Some(transaction) => transaction.part(command),
            None => command,
        };
        Ok(self.client.find(self.store.database(), &command, &mut each)? as u64)
    }

    fn find_one(&mut self, collection: &str, query: &DocBuf, each: impl FnMut(Doc<'_>)) -> Result<u64> {
        let command = DocBuf::new().with("find", collection).with("filter", query);
        self.find(command.with("limit", 1).with("singleBatch", true), each)
    }

    /// Makes or overwrites a link; when it was not visible before, it is counted.
    fn add(&mut self, link: &Link<'_>, ids: &mut ObjectIds) -> Result<u64> {
        let key = self.keys.link(link);
        let mut create = DocBuf::new();
        match self.keys.0 {
            Schema::Lbx => drop(create.append("_id", ids.next())),
            Schema::Lbm => {
                create.append("id1", link.id1).append("link_type", link.link_type).append("id2", link.id2);
            }
        }
        let change = DocBuf::new().with("$set", &link_fields(link, VISIBLE)).with("$setOnInsert", &create);
        let before = self.find_and_modify(self.link(), &key, &change, true)?;
        if before != Some(VISIBLE) {
            self.change_count(link, 1)?;
        }
        Ok(1)
    }

    fn delete(&mut self, link: &Link<'_>) -> Result<u64> {
        let key = self.keys.link(link).with("visibility", VISIBLE);
        let change = DocBuf::new().with("$set", &DocBuf::new().with("visibility", HIDDEN));
        if self.find_and_modify(self.link(), &key, &change, false)?.is_none() {
            return Ok(0);
        }
        self.change_count(link, -1)?;
        Ok(1)
    }

    /// The visibility before the change; `None` when there was no such link.
    fn find_and_modify(
        &mut self,
        collection: &str,
        query: &DocBuf,
        change: &DocBuf,
        upsert: bool,
    ) -> Result<Option<i32>> {
        let fields = DocBuf::new().with("visibility", 1).with("_id", 0);
        let mut command = DocBuf::new().with("findAndModify", collection).with("query", query).with("update", change);
        command.append("fields", &fields);
        if upsert {
            command.append("upsert", true);
        }
        let reply = self.send(command)?;
        Ok(match reply.doc.get("value") {
            Some(ValueRef::Document(before)) => integer(before.get("visibility")).map(|visible| visible as i32),
            _ => None,
        })
    }

    fn change_count(&mut self, link: &Link<'_>, by: i64) -> Result<()> {
        let key = self.keys.count(link.id1, link.link_type);
        let mut change = DocBuf::new()
            .with("$inc", &DocBuf::new().with("count", by).with("version", 1i64))
            .with("$set", &DocBuf::new().with("time", link.time));
        if self.keys.0 == Schema::Lbm {
            let identity = DocBuf::new().with("id", link.id1).with("link_type", link.link_type);
            change.append("$setOnInsert", &identity);
        }
        if by > 0 {
            self.update(self.counts(), &key, &change, true)?;
        } else {
            let command = DocBuf::new().with("findAndModify", self.counts()).with("query", &key);
            self.send(command.with("update", &change))?;
        }
        Ok(())
    }

    fn count(&mut self, id1: i64, link_type: i64) -> Result<u64> {
        let key = self.keys.count(id1, link_type);
        self.find_one(self.counts(), &key, |_| {})
    }

    /// The links with these second ids, hidden ones too. The maintained fork asks for each by itself.
    fn multiget(&mut self, id1: i64, link_type: i64, id2s: &[i64]) -> Result<u64> {
        let link = |id2: i64| Link { id1, link_type, id2, data: &[], time: 0, version: 0 };
        if self.store.asks_one_by_one() {
            return id2s.iter().map(|id2| self.find_one(self.link(), &self.keys.link(&link(*id2)), |_| {})).sum();
        }
        let filter = self.keys.links(id1, link_type, id2s);
        self.find(DocBuf::new().with("find", self.link()).with("filter", &filter), |_| {})
    }

    fn list(&mut self, list: &List) -> Result<Answer> {
        let times = DocBuf::new().with("$gte", list.time_min).with("$lte", list.time_max);
        let filter = DocBuf::new().with("id1", list.id1).with("link_type", list.link_type);
        let filter = filter.with("visibility", VISIBLE).with("time", &times);
        let mut command = DocBuf::new().with("find", self.link()).with("filter", &filter);
        if self.store.is_original() {
            if self.count_links(&filter, Some((list.offset, list.limit)))? == 0 {
                return Ok(Answer::default());
            }
        } else {
            command.append("projection", &documents::covered());
        }
        command.append("sort", &DocBuf::new().with("time", -1));
        if list.offset > 0 {
            command.append("skip", list.offset);
        }
        let mut answer = Answer::default();
        answer.rows = self.find(command.with("limit", list.limit), |link| {
            answer.last_time = integer(link.get("time")).unwrap_or(0);
        })?;
        Ok(answer)
    }

    fn update_node(&mut self, node: &Node<'_>) -> Result<u64> {
        let query = DocBuf::new().with("_id", node.id).with("type", NODE_TYPE);
        let fields = DocBuf::new().with("version", node.version).with("time", node.time);
        let fields = fields.with("data", documents::binary(node.data));
        Ok(self.update(self.node(), &query, &DocBuf::new().with("$set", &fields), false)?.0)
    }

    fn delete_node(&mut self, id: i64) -> Result<u64> {
        let query = DocBuf::new().with("_id", id).with("type", NODE_TYPE);
        let statement = DocBuf::new().with("q", &query).with("limit", 1);
        let command = DocBuf::new().with("delete", self.node()).with("deletes", &array(&[statement]));
        written(self.send(command.with("ordered", true))?)
    }

    fn get_node(&mut self, id: i64) -> Result<u64> {
        let mut right = 0;
        self.find_one(self.node(), &DocBuf::new().with("_id", id), |node| {
            right += u64::from(integer(node.get("type")) == Some(NODE_TYPE.into()));
        })?;
        Ok(right)
    }
}
