//! Writes of one document that is the first in an order, on several shards: the router finds it, and the shard that has it writes it if it
//! still fits.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Answer, Error, Result, Routed};

use crate::catalog::Routing;
use crate::read::{is_descending, is_natural};
use crate::rows::{Merge, Order, SORT_KEY};
use crate::shard::Shard;
use crate::table::Table;
use crate::{Request, fields};

/// Attempts to write a document that others change meanwhile.
pub(crate) const ATTEMPTS: u32 = 20;

/// Returns the sort of a statement, if it has one that orders documents.
pub(crate) fn sort_of(statement: Doc<'_>) -> Option<Doc<'_>> {
    fields::document(statement, "sort").filter(|sort| !sort.is_empty() && !is_natural(*sort))
}

/// Returns the statement for one document, without the order in which it was the first. `name`: its field with the filter.
pub(crate) fn of_document(statement: Doc<'_>, name: &str, filter: Doc<'_>, id: &DocBuf) -> DocBuf {
    let both: ArrayBuf = [filter, id.as_doc()].into_iter().collect();
    let query = DocBuf::new().with("$and", &both);
    let value = |(field, value)| (field, if field == name { ValueRef::Document(query.as_doc()) } else { value });
    statement.iter().filter(|(field, _)| *field != "sort").map(value).collect()
}

impl Request<'_> {
    /// Returns the shard of the first document in the order of a statement, and its `_id` as a filter.
    pub(crate) fn first_of_order(
        &self,
        (routing, table): (&Routing, &Table),
        shards: &[Arc<Shard>],
        (statement, filter): (Doc<'_>, Doc<'_>),
    ) -> Result<Option<(Arc<Shard>, DocBuf)>> {
        let sort = sort_of(statement).unwrap_or(Doc::empty());
        let (_, name) = table.namespace.split_once('.').unwrap_or_default();
        let mut shown = DocBuf::new().with("_id", 1i32);
        table.key.as_doc().iter().filter(|(path, _)| *path != "_id").for_each(|(path, _)| {
            shown.append(path, 1i32);
        });
        shown.append(SORT_KEY, &DocBuf::new().with("$meta", "sortKey"));
        let mut find = DocBuf::new().with("find", name).with("filter", filter).with("sort", sort);
        find.append("projection", &shown).append("limit", 1i32);
        fields::copy(statement, &["collation", "hint"], &mut find);
        let session: &[&str] = match self.routed.generic.is_in_transaction() {
            true => &["lsid", "$audit", "txnNumber", "autocommit", "maxTimeMS", "let"],
            false => &["lsid", "$audit", "maxTimeMS", "let"],
        };
        fields::copy(self.body(), session, &mut find);
        let order = Order {
            descending: sort.iter().map(|(_, direction)| is_descending(direction)).collect(),
            collation: self.context(routing.collation(fields::document(statement, "collation"))).collation,
        };
        let streams = self.open(routing, shards, &find, None)?;
        let Some(first) = Merge::new(streams, Some(order), 0, None).pull(self.interrupt())? else { return Ok(None) };
        let owner = table.shard_of(&table.key_of_document(first.as_doc())?);
        let shard = shards.iter().find(|shard| shard.name == owner).cloned();
        let missing = || Error::new(Code::INTERNAL_ERROR, format!("shard {owner} was not asked"));
        let id: DocBuf = first.get("_id").into_iter().map(|id| ("_id", id)).collect();
        Ok(Some((shard.ok_or_else(missing)?, id)))
    }

    /// Returns true if a shard may have run the request before: the first document in the order may be another one now.
    pub(crate) fn may_be_retried(&self) -> bool {
        self.routed.generic.numbered.is_some() && !self.routed.generic.is_in_transaction()
    }

    /// `findAndModify` of the first document in an order.
    pub(crate) fn find_first_and_modify(
        &self,
        (routing, table): (&Routing, &Table),
        shards: &[Arc<Shard>],
        filter: Doc<'_>,
    ) -> Result<Answer> {
        let body = self.body();
        let run = |shard: &Arc<Shard>, id: &DocBuf| -> Result<DocBuf> {
            let one = of_document(body, "query", filter, id);
            let routed = Routed { body: one.as_doc(), ..*self.routed };
            (Request { routed: &routed, ..*self }).forward_to(routing, shard)
        };
        if self.may_be_retried() {
            for shard in shards {
                let reply = run(shard, &no_document())?;
                if reply.get("retriedStmtId").is_some() {
                    return Ok(Answer::Reply(reply));
                }
            }
        }
        for _ in 0..ATTEMPTS {
            self.interrupt().check()?;
            let Some((shard, id)) = self.first_of_order((routing, table), shards, (body, filter))? else {
                // the reply of a shard that has none
                let any = shards.first().ok_or_else(|| Error::new(Code::INTERNAL_ERROR, "no shard has a chunk"))?;
                return Ok(Answer::Reply(self.forward_to(routing, any)?));
            };
            let reply = run(&shard, &id)?;
            let changed = fields::document(reply.as_doc(), "lastErrorObject").map_or(0, |own| fields::int(own, "n"));
            if changed > 0 {
                return Ok(Answer::Reply(reply));
            }
        }
        Err(changed_meanwhile())
    }
}

/// Returns a filter for the `_id` that nothing fits: a shard that has run the statement before returns what it did then.
pub(crate) fn no_document() -> DocBuf {
    DocBuf::new().with("_id", &DocBuf::new().with("$in", &ArrayBuf::new()))
}

pub(crate) fn changed_meanwhile() -> Error {
    Error::new(Code::WRITE_CONFLICT, "the first document in the order was changed by others again and again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_notation::doc;

    #[test]
    fn a_statement_becomes_one_of_a_document() {
        let statement = doc("{q: {a: 1}, u: {$inc: {n: 1}}, sort: {b: 1}, collation: {locale: 'en'}}");
        let one = of_document(statement.as_doc(), "q", doc("{a: 1}").as_doc(), &doc("{_id: 7}"));
        let expected = "{q: {$and: [{a: 1}, {_id: 7}]}, u: {$inc: {n: 1}}, collation: {locale: 'en'}}";
        assert_eq!(one.as_bytes(), doc(expected).as_bytes());
        assert!(
            sort_of(doc("{sort: {$natural: -1}}").as_doc()).is_none() && sort_of(doc("{sort: {}}").as_doc()).is_none()
        );
    }
}
