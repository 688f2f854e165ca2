//! Partitions of collections: those of the source are made at the target, and what the source drops is dropped there.

use arbor_bson::{Doc, DocBuf, Value, ValueRef, identical};

use super::changes::delete;
use super::collections::{Collection, Kind, collection};
use super::copy::Scan;
use super::places::key_of;
use super::server::Server;
use super::{Migration, Result};

const ILLEGAL_OPERATION: i32 = 20;

/// A partition by its number and `{_id: max}`.
type Partition = (i64, DocBuf);

fn is_partitioned(own: &Collection) -> bool {
    matches!(own.options.get("partitioned"), Some(ValueRef::Bool(true)))
}

fn is_id(one: &DocBuf, id: Option<ValueRef<'_>>) -> bool {
    matches!((one.get("_id"), id), (Some(one), Some(id)) if identical(one, id))
}

/// `_id` in a field of a range.
fn end<'r>(range: Doc<'r>, field: &str) -> Option<ValueRef<'r>> {
    match range.get(field)? {
        ValueRef::Document(end) => end.get("_id"),
        _ => None,
    }
}

/// The rows of `getPartitionInfo`; none for a collection without partitions, or a server that does not know them.
fn info(server: &mut Server, own: &Collection) -> Result<Vec<DocBuf>> {
    let reply = match server.run(&own.db, &DocBuf::new().with("getPartitionInfo", own.name.as_str())) {
        Err(error) if error.code().is_some() => return Ok(Vec::new()),
        reply => reply?,
    };
    let Some(ValueRef::Array(listed)) = reply.get("partitions") else { return Ok(Vec::new()) };
    let row = |value| match value {
        ValueRef::Document(row) => Some(Doc::to_buf(row)),
        _ => None,
    };
    Ok(listed.iter().filter_map(row).collect())
}

fn partitions(server: &mut Server, own: &Collection) -> Result<Vec<Partition>> {
    let read = |row: &DocBuf| match (row.get("_id"), row.get("max")) {
        (Some(ValueRef::Int64(id)), Some(ValueRef::Document(max))) => Some((id, max.to_buf())),
        _ => None,
    };
    Ok(info(server, own)?.iter().filter_map(read).collect())
}

/// The `dropPartition` that drops exactly a range, if there is one.
fn drop_of(range: Doc<'_>, there: &Collection, partitions: &[Partition]) -> Option<DocBuf> {
    let drop = DocBuf::new().with("dropPartition", there.name.as_str());
    // the last partition has no end, which its row calls MaxKey
    let max = end(range, "max").unwrap_or(ValueRef::MaxKey);
    let at = partitions.iter().position(|(_, own)| is_id(own, Some(max)))?;
    let before = at.checked_sub(1).and_then(|before| partitions.get(before));
    match (end(range, "min"), before) {
        (None, _) if end(range, "max").is_some() => Some(drop.with("max", &DocBuf::new().with("_id", max))),
        (Some(min), Some((_, before))) if is_id(before, Some(min)) => Some(drop.with("id", partitions.get(at)?.0)),
        _ => None,
    }
}

impl Migration {
    /// Gives a collection of the target, which is empty, the partitions of the source.
    pub(super) fn copy_partitions(&mut self, own: &Collection, there: &Collection) -> Result<()> {
        if !is_partitioned(own) {
            return Ok(());
        }
        let rows = info(&mut self.source, own)?;
        if let Some(Value::Document(first)) = rows.first().and_then(|row| row.get("info")).map(ValueRef::to_value) {
            self.give_info(there, &first)?;
        }
        for (ends, begins) in rows.iter().zip(rows.iter().skip(1)) {
            let Some(max) = ends.get("max") else { continue };
            let mut add = DocBuf::new().with("addPartition", there.name.as_str()).with("newMax", max);
            if let Some(info) = begins.get("info") {
                add.append("info", info);
            }
            match self.target.run(&there.db, &add) {
                // an earlier process has added it
                Err(error) if error.code() == Some(ILLEGAL_OPERATION) => {}
                added => drop(added?),
            }
        }
        Ok(())
    }

    /// Gives the first partition of an empty collection its `info`, which only `addPartition` takes: the first one is replaced.
    fn give_info(&mut self, there: &Collection, requested: &DocBuf) -> Result<()> {
        let before = DocBuf::new().with("_id", ValueRef::MinKey);
        let mut listed = info(&mut self.target, there)?;
        let has_info = |row: &DocBuf| matches!(row.get("info"), Some(own) if identical(own, ValueRef::Document(requested.as_doc())));
        let is_added = |row: &DocBuf| end(row.as_doc(), "max").is_some_and(|max| identical(max, ValueRef::MinKey));
        // an earlier process may have ended between any two of these steps
        if listed.first().is_some_and(has_info) {
            return Ok(());
        }
        if !listed.first().is_some_and(is_added) {
            let add =
                DocBuf::new().with("addPartition", there.name.as_str()).with("newMax", &before).with("info", requested);
            self.target.run(&there.db, &add)?;
            listed = info(&mut self.target, there)?;
        }
        let Some(id) = listed.first().and_then(|row| row.get("_id")) else { return Ok(()) };
        self.target.run(&there.db, &DocBuf::new().with("dropPartition", there.name.as_str()).with("id", id)).map(drop)
    }

    /// Applies a change of the partitions of a collection.
    pub(super) fn apply_partitions(&mut self, uuid: &[u8], description: Doc<'_>) -> Result<()> {
        let key = key_of(uuid);
        let Some(place) = self.places.get(&key).map(|progress| progress.place.clone()) else { return Ok(()) };
        let Some(there) = collection(&mut self.target, &place.0, &place.1)? else { return Ok(()) };
        match description.first() {
            Some(("dropPartition", ValueRef::Document(range))) if there.kind == Kind::Ordered => {
                self.drop_range(&there, range)
            }
            // its documents have no order here by which the range could be found
            Some(("dropPartition", _)) => self.note(&key, |progress| progress.is_doubtful = true),
            Some(("addPartition", ValueRef::Document(says))) => {
                let add =
                    says.iter().fold(DocBuf::new().with("addPartition", there.name.as_str()), |add, (name, value)| {
                        add.with(name, value)
                    });
                let is_there = |(_, max): &Partition| is_id(max, end(says, "newMax"));
                if !partitions(&mut self.target, &there)?.iter().any(is_there) {
                    self.change_partitions(&there, &add)?;
                }
                Ok(())
            }
            Some(("convertToPartitioned", _)) if !is_partitioned(&there) => {
                self.change_partitions(&there, &DocBuf::new().with("convertToPartitioned", there.name.as_str()))
            }
            _ => Ok(()),
        }
    }

    /// Changes the partitions of the target. It may refuse that: its documents are later ones than those of the change.
    fn change_partitions(&mut self, there: &Collection, command: &DocBuf) -> Result<()> {
        match self.target.run(&there.db, command) {
            Err(error) if error.code() == Some(ILLEGAL_OPERATION) => {
                eprintln!("{}: its partitions are not those of the source any more: {error}", there.namespace());
                Ok(())
            }
            changed => changed.map(drop),
        }
    }

    /// Drops the partitions of a range; its documents, where the partitions of the target are others.
    fn drop_range(&mut self, there: &Collection, range: Doc<'_>) -> Result<()> {
        let own = partitions(&mut self.target, there)?;
        if let Some(command) = drop_of(range, there, &own) {
            match self.target.run(&there.db, &command) {
                // the only one
                Err(error) if error.code() == Some(ILLEGAL_OPERATION) => {}
                dropped => return dropped.map(drop),
            }
        }
        let place = (there.db.clone(), there.name.clone());
        let (min, max) = (end(range, "min").map(ValueRef::to_value), end(range, "max").map(ValueRef::to_value));
        // the end of a scan is not in it, that of a range is
        let last = max.as_ref().and_then(|max| delete(&DocBuf::new().with("_id", max)));
        let mut scan = Scan::until(there, min, max);
        loop {
            let documents = scan.next(&mut self.target)?;
            if documents.is_empty() {
                return self.change(&place, &[], last.as_slice());
            }
            let deletes: Vec<DocBuf> = documents.iter().filter_map(delete).collect();
            self.change(&place, &[], &deletes)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(value: i32) -> DocBuf {
        DocBuf::new().with("_id", value)
    }

    #[test]
    fn a_range_is_dropped_as_partitions_only_if_it_is_theirs() {
        let there =
            Collection { db: "db".into(), name: "log".into(), kind: Kind::Ordered, options: DocBuf::new(), uuid: None };
        let open = DocBuf::new().with("_id", ValueRef::MaxKey);
        let partitions = [(3, id(10)), (4, id(20)), (7, open)];
        let check = |range: DocBuf, expected: Option<(&str, DocBuf)>| {
            let found = drop_of(range.as_doc(), &there, &partitions);
            let expected = expected.map(|(name, value)| match name {
                "id" => DocBuf::new().with("dropPartition", "log").with("id", value.get("_id").unwrap()),
                name => DocBuf::new().with("dropPartition", "log").with(name, &value),
            });
            let bytes = |doc: Option<DocBuf>| doc.map(DocBuf::into_bytes);
            assert_eq!(bytes(found), bytes(expected), "{range:?}");
        };
        let range = |min: Option<i32>, max: Option<i32>| {
            let mut range = DocBuf::new();
            for (name, value) in [("min", min), ("max", max)] {
                if let Some(value) = value {
                    range.append(name, &id(value));
                }
            }
            range
        };
        check(range(None, Some(10)), Some(("max", id(10))));
        check(range(None, Some(20)), Some(("max", id(20))));
        check(range(Some(10), Some(20)), Some(("id", DocBuf::new().with("_id", 4i64))));
        check(range(Some(20), None), Some(("id", DocBuf::new().with("_id", 7i64))));
        check(range(None, Some(15)), None);
        check(range(Some(5), Some(10)), None);
        check(range(Some(15), Some(20)), None);
        check(range(None, None), None);
    }
}
