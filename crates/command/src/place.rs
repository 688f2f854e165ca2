//! Chooses the thread of a request: requests served from memory run on the network worker that read them, all others on the
//! threads that may block.
//!
//! The frame is only peeked at here; none of it has been validated yet. A wrong guess costs time, not correctness.

use arbor_bson::{Doc, FieldRef, ValueRef};
use arbor_protocol::transport::Place;
use arbor_protocol::{Runs, read_concern};
use arbor_wire::peek_command_name;

use crate::registry;

/// Offset of the body in an OP_MSG whose first section is its body.
const BODY: usize = 16 + 4 + 1;

/// Returns where the request in a frame may run.
pub(crate) fn of_frame(frame: &[u8]) -> Place {
    let Some(name) = peek_command_name(frame) else { return Place::Blocking };
    match registry::runs(name) {
        Runs::Inline => Place::Inline,
        Runs::InlineById => of_find(frame),
        Runs::Blocking => Place::Blocking,
    }
}

/// Returns true if the frame is a `getMore` of this cursor.
pub(crate) fn is_get_more(frame: &[u8], cursor: i64) -> bool {
    let body = Doc::trusted(frame.get(BODY..).unwrap_or_default());
    peek_command_name(frame) == Some("getMore")
        && matches!(body.first(), Some((_, ValueRef::Int64(id))) if id == cursor)
}

/// Longer requests take their time before they are sent on.
const FORWARDED_BYTES_MAX: usize = 16 << 10;

/// Returns true if the frame is a short `find` outside of transactions.
pub(crate) fn is_single_find(frame: &[u8]) -> bool {
    if frame.len() > FORWARDED_BYTES_MAX {
        return false;
    }
    let body = Doc::trusted(frame.get(BODY..).unwrap_or_default());
    peek_command_name(frame) == Some("find") && !body.fields().take(FIELDS_MAX).any(|field| field.name == b"txnNumber")
}

/// So many fields of a command are looked at.
const FIELDS_MAX: usize = 16;

/// Returns where a `find` may run: inline if the filter is `_id: <plain value>` alone and the projection computes nothing, so that no document
/// takes long; on the pool of all requests if it is part of a transaction, which may block, or its read concern may let it wait.
// PERF: one pass, and only three fields are read; with three passes over read fields it took 4,300 of the 25,400 instructions of a find
// by `_id` (2026-11-26, callgrind).
fn of_find(frame: &[u8]) -> Place {
    let body = Doc::trusted(frame.get(BODY..).unwrap_or_default());
    let (mut filter, mut projection, mut concern) = (None, None, None);
    for field in body.fields().take(FIELDS_MAX) {
        match field.name {
            b"txnNumber" => return Place::Blocking,
            b"filter" if filter.is_none() => filter = Some(field),
            b"projection" if projection.is_none() => projection = Some(field),
            b"readConcern" if concern.is_none() => concern = Some(field),
            _ => {}
        }
    }
    if concern.and_then(FieldRef::value).is_some_and(may_wait) {
        return Place::Blocking;
    }
    let by_id = filter.and_then(FieldRef::value).is_some_and(is_by_id);
    let computes = projection.and_then(FieldRef::value).is_some_and(computes);
    if by_id && !computes { Place::Inline } else { Place::Reading }
}

/// Returns database, collection and `_id` of a `find` by a short `_id`.
pub(crate) fn find_by_id(frame: &[u8]) -> Option<(&str, &str, ValueRef<'_>)> {
    if peek_command_name(frame) != Some("find") {
        return None;
    }
    let body = Doc::trusted(frame.get(BODY..).unwrap_or_default());
    let (mut db, mut collection, mut id) = (None, None, None);
    for field in body.fields().take(FIELDS_MAX) {
        match (field.name, field.value()?) {
            (b"find", ValueRef::String(name)) if collection.is_none() => collection = Some(name),
            (b"$db", ValueRef::String(name)) if db.is_none() => db = Some(name),
            (b"filter", filter @ ValueRef::Document(fields)) if id.is_none() && is_by_id(filter) => {
                id = fields.first().map(|(_, id)| id).filter(|id| is_short(*id));
            }
            _ => {}
        }
    }
    Some((db?, collection?, id?))
}

/// Returns true if a value, of which nothing was checked, can be compared at once.
fn is_short(id: ValueRef<'_>) -> bool {
    const TEXT_BYTES_MAX: usize = 1024;
    match id {
        ValueRef::String(text) => text.len() <= TEXT_BYTES_MAX,
        ValueRef::Int32(_)
        | ValueRef::Int64(_)
        | ValueRef::Double(_)
        | ValueRef::ObjectId(_)
        | ValueRef::DateTime(_) => true,
        _ => false,
    }
}

/// Returns true if a filter is `_id: <plain value>` alone.
fn is_by_id(filter: ValueRef<'_>) -> bool {
    let ValueRef::Document(filter) = filter else { return false };
    if filter.fields().nth(1).is_some() {
        return false;
    }
    match filter.first() {
        Some(("_id", ValueRef::Document(operators))) => {
            operators.first().is_none_or(|(name, _)| !name.starts_with('$'))
        }
        Some(("_id", ValueRef::Regex { .. })) => false,
        Some((name, _)) => name == "_id",
        None => false,
    }
}

/// Returns true if a projection has more than the names of fields: expressions take any time.
fn computes(projection: ValueRef<'_>) -> bool {
    let ValueRef::Document(projection) = projection else { return false };
    let names = |field: FieldRef<'_>| {
        matches!(field.value(), Some(ValueRef::Int32(_) | ValueRef::Bool(_) | ValueRef::Double(_) | ValueRef::Int64(_)))
    };
    !projection.fields().all(names)
}

/// Returns true if the read concern may make the request wait.
fn may_wait(concern: ValueRef<'_>) -> bool {
    let ValueRef::Document(concern) = concern else { return false };
    match concern.get("level") {
        Some(ValueRef::String(level)) => read_concern::may_wait(level),
        other => other.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::DocBuf;
    use arbor_wire::message::Outgoing;

    fn place(body: DocBuf) -> Place {
        let mut frame = Vec::new();
        Outgoing::default().encode(body.as_doc(), &mut frame);
        of_frame(&frame)
    }

    #[test]
    fn what_memory_serves_runs_inline_and_what_only_reads_with_few_others() {
        let find = |filter: DocBuf| DocBuf::new().with("find", "c").with("filter", &filter).with("$db", "d");
        let level = |name: &str| DocBuf::new().with("level", name);
        let in_many = DocBuf::new().with("$in", &arbor_bson::ArrayBuf::new());
        for (body, expect) in [
            (DocBuf::new().with("ping", 1i32), Place::Inline),
            (DocBuf::new().with("noSuchCommand", 1i32), Place::Inline),
            (DocBuf::new().with("insert", "c"), Place::Blocking),
            (DocBuf::new().with("_shardsvrJoin", 1i32), Place::Blocking),
            (DocBuf::new().with("shardCollection", "d.c"), Place::Blocking),
            (DocBuf::new().with("_configsvrBalancerStatus", 1i32), Place::Blocking),
            (find(DocBuf::new().with("_id", 5i32)), Place::Inline),
            (find(DocBuf::new().with("_id", &in_many)), Place::Reading),
            (find(DocBuf::new().with("_id", 5i32)).with("readConcern", &level("local")), Place::Inline),
            (find(DocBuf::new().with("_id", 5i32)).with("readConcern", &level("majority")), Place::Blocking),
            (find(DocBuf::new().with("_id", &DocBuf::new().with("a", 1i32))), Place::Inline),
            (find(DocBuf::new().with("a", 5i32)), Place::Reading),
            (find(DocBuf::new().with("_id", 5i32).with("$expr", true)), Place::Reading),
            (find(DocBuf::new().with("_id", 5i32)).with("projection", &DocBuf::new().with("a", 1i32)), Place::Inline),
            (find(DocBuf::new().with("_id", 5i32)).with("projection", &DocBuf::new().with("a", "$b")), Place::Reading),
            (find(DocBuf::new().with("_id", 5i32)).with("projection", &DocBuf::new()), Place::Inline),
            (find(DocBuf::new().with("_id", 5i32)).with("txnNumber", 1i64), Place::Blocking),
            (find(DocBuf::new()), Place::Reading),
            (DocBuf::new().with("find", "c"), Place::Reading),
        ] {
            assert_eq!(place(body.clone()), expect, "{body:?}");
        }
        assert_eq!(of_frame(b"short"), Place::Blocking);
    }

    #[test]
    fn only_a_find_by_a_short_id_has_blocks_that_are_known() {
        let found = |body: DocBuf| {
            let mut frame = Vec::new();
            Outgoing::default().encode(body.as_doc(), &mut frame);
            find_by_id(&frame).map(|(db, collection, id)| format!("{db}.{collection} {id:?}"))
        };
        let find = |filter: DocBuf| DocBuf::new().with("find", "c").with("filter", &filter).with("$db", "d");
        let by_id = |id: i64| DocBuf::new().with("_id", id);
        assert_eq!(found(find(by_id(5))), Some("d.c Int64(5)".to_owned()));
        assert!(found(find(DocBuf::new().with("_id", "text"))).is_some());
        for body in [
            find(DocBuf::new().with("a", 5i32)),
            find(by_id(5).with("a", 5i32)),
            find(DocBuf::new().with("_id", &DocBuf::new().with("$gt", 5i32))),
            find(DocBuf::new().with("_id", &DocBuf::new().with("a", 5i32))),
            find(DocBuf::new().with("_id", &"x".repeat(5000))),
            DocBuf::new().with("find", 5i32).with("filter", &by_id(5)).with("$db", "d"),
            DocBuf::new().with("find", "c").with("filter", &by_id(5)),
            DocBuf::new().with("count", "c").with("filter", &by_id(5)).with("$db", "d"),
        ] {
            assert_eq!(found(body.clone()), None, "{body:?}");
        }
        let mut frame = Vec::new();
        Outgoing::default().encode(find(by_id(5)).as_doc(), &mut frame);
        assert!(
            (0..frame.len()).all(|len| find_by_id(&frame[..len]).is_none_or(|(db, ..)| db == "d")),
            "of a frame that is cut"
        );
    }
}
