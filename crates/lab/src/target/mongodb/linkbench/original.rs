//! LinkBenchX's own sequence of commands, its errors included (spec/workloads.md 7.7): a count is replaced by a document
//! without its count, and of two `$inc` clauses only the second reaches the server. It is kept for the load that it
//! makes; its counts say nothing.

use arbor_bson::DocBuf;

use super::documents::{binary, link_fields};
use super::{Graph, Result};
use crate::target::mongodb::{integer, update_many};
use crate::workload::Mode;
use crate::workload::linkbench::{Count, HIDDEN, Link, Schema, Store, VISIBLE};

impl Store {
    /// LinkBenchX as it was.
    pub(super) fn is_original(&self) -> bool {
        (self.schema, self.mode) == (Schema::Lbx, Mode::Compat)
    }

    /// The maintained fork as it is.
    pub(super) fn asks_one_by_one(&self) -> bool {
        (self.schema, self.mode) == (Schema::Lbm, Mode::Compat)
    }
}

/// Makes the link unless it is there, and shows it.
fn show(link: &Link<'_>) -> DocBuf {
    let rest = DocBuf::new().with("data", binary(link.data)).with("time", link.time).with("version", link.version);
    DocBuf::new().with("$set", &DocBuf::new().with("visibility", VISIBLE)).with("$setOnInsert", &rest)
}

impl Graph<'_> {
    pub(super) fn add_originally(&mut self, link: &Link<'_>) -> Result<u64> {
        let key = self.keys.link(link);
        let (_, inserted) = self.update(self.link(), &key, &show(link), true)?;
        self.replace_count(link)?;
        if !inserted {
            let all = DocBuf::new().with("$set", &link_fields(link, VISIBLE));
            self.update(self.link(), &key, &all, false)?;
        }
        Ok(1)
    }

    pub(super) fn delete_originally(&mut self, link: &Link<'_>) -> Result<u64> {
        let (key, mut visible) = (self.keys.link(link), None);
        self.find_one(self.link(), &key, |found| {
            if integer(found.get("visibility")) == Some(VISIBLE.into()) {
                visible = found.get("_id").map(|id| DocBuf::new().with("_id", id));
            }
        })?;
        let Some(by_id) = visible else { return Ok(0) };
        let hide = DocBuf::new().with("$set", &DocBuf::new().with("visibility", HIDDEN));
        self.update(self.link(), &by_id, &hide, false)?;
        self.replace_count(link)?;
        let count = self.keys.count(link.id1, link.link_type);
        let negative = self.keys.count(link.id1, link.link_type).with("count", &DocBuf::new().with("$lt", 0i64));
        let zero = DocBuf::new().with("$set", &DocBuf::new().with("count", 0i64));
        self.update(self.counts(), &negative, &zero, false)?;
        self.find_one(self.counts(), &count, |_| {})?;
        Ok(1)
    }

    /// Sends two commands: one replaces the count, the other applies the rest of its increments.
    fn replace_count(&mut self, link: &Link<'_>) -> Result<()> {
        let key = self.keys.count(link.id1, link.link_type);
        let bare = self.keys.count(link.id1, link.link_type).with("time", link.time);
        self.update(self.counts(), &key, &bare, true)?;
        let increment = DocBuf::new().with("$inc", &DocBuf::new().with("version", 1i64));
        self.update(self.counts(), &key, &increment, false)?;
        Ok(())
    }

    /// Counts what it then reads.
    pub(super) fn multiget_originally(&mut self, id1: i64, link_type: i64, id2s: &[i64]) -> Result<u64> {
        let filter = self.keys.links(id1, link_type, id2s);
        self.count_links(&filter, None)?;
        self.find(DocBuf::new().with("find", self.link()).with("filter", &filter), |_| {})
    }

    /// The command count, with the offset and limit of what is going to be read.
    pub(super) fn count_links(&mut self, filter: &DocBuf, window: Option<(i64, i64)>) -> Result<u64> {
        let mut command = DocBuf::new().with("count", self.link()).with("query", filter);
        if let Some((offset, limit)) = window {
            command.append("limit", limit).append("skip", offset);
        }
        Ok(self.send(command)?.number("n").unwrap_or(0.0) as u64)
    }

    /// Each link is an upsert, so the load probes two indexes per link.
    pub(super) fn load_links_originally(&mut self, links: &[Link<'_>], statements: &mut Vec<DocBuf>) -> Result<u64> {
        let statement = |link: &Link<'_>| {
            DocBuf::new().with("q", &self.keys.link(link)).with("u", &show(link)).with("upsert", true)
        };
        statements.clear();
        statements.extend(links.iter().map(statement));
        update_many(self.client, self.store.database(), self.names[1], statements)
    }

    pub(super) fn load_counts_originally(&mut self, counts: &[Count], statements: &mut Vec<DocBuf>) -> Result<u64> {
        let statement = |count: &Count| {
            let key = self.keys.count(count.id, count.link_type);
            let whole = self.keys.count(count.id, count.link_type);
            let whole = whole.with("count", count.count).with("time", count.time).with("version", count.version);
            DocBuf::new().with("q", &key).with("u", &whole).with("upsert", true)
        };
        statements.clear();
        statements.extend(counts.iter().map(statement));
        update_many(self.client, self.store.database(), self.names[2], statements)
    }
}
