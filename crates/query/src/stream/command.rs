//! Changes of the catalogue as events.
//!
//! | `o` of the entry | event | without `showExpandedEvents` |
//! |---|---|---|
//! | `create` | create | - |
//! | `createIndexes`, `commitIndexBuild` | createIndexes | - |
//! | `dropIndexes` | dropIndexes | - |
//! | `collMod` | modify | - |
//! | `addPartition`, `dropPartition`, `convertToPartitioned` | modify, see [`partitions_changed`] | - |
//! | `drop` | drop | drop |
//! | `renameCollection` | rename | rename |
//! | `dropDatabase` | dropDatabase | dropDatabase |
//! | - (a document of `system.views`) | create, modify, drop | - |
//!
//! An event that ends the watched object is followed by `invalidate`, and then nothing.

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_oplog::Event;

use super::event::{EventBuilder, Head, StreamEvent, namespace, split};
use super::target::Target;
use super::token::Token;

pub(super) fn build(builder: &EventBuilder, token: Token, event: &Event<'_>, command: Doc<'_>) -> Vec<StreamEvent> {
    let (db, _) = split(event.place.namespace);
    let Some((name, target)) = command.first() else { return Vec::new() };
    let outcome = match (name, target) {
        ("dropDatabase", _) => database_dropped(builder, token, event, db),
        ("renameCollection", ValueRef::String(from)) => renamed(builder, token, event, from, command),
        (_, ValueRef::String(collection)) if builder.target.covers(db, collection, &builder.options) => {
            of_collection(builder, token, event, command, (db, collection))
        }
        _ => None,
    };
    let Some((doc, is_last)) = outcome else { return Vec::new() };
    let mut all = vec![StreamEvent { token, doc, is_last: false }];
    if is_last {
        let token = Token { of_invalidate: true, ..token };
        let doc = builder.head(&Head { token, kind: "invalidate", event });
        all.push(StreamEvent { token, doc, is_last: true });
    }
    all
}

/// The event, and whether it ends the stream.
type Outcome = Option<(DocBuf, bool)>;

fn database_dropped(builder: &EventBuilder, token: Token, event: &Event<'_>, db: &str) -> Outcome {
    // a stream of a collection has ended with that
    if !builder.target.covers_database(db) || matches!(builder.target, Target::Collection(_)) {
        return None;
    }
    let doc = builder.head(&Head { token, kind: "dropDatabase", event }).with("ns", &namespace((db, "")));
    Some((doc, matches!(builder.target, Target::Database(_))))
}

fn renamed(builder: &EventBuilder, token: Token, event: &Event<'_>, from: &str, command: Doc<'_>) -> Outcome {
    let Some(ValueRef::String(to)) = command.get("to") else { return None };
    let covers = |full: &str| {
        let (db, collection) = split(full);
        builder.target.covers(db, collection, &builder.options)
    };
    if !covers(from) && !covers(to) {
        return None;
    }
    let target = namespace(split(to));
    let mut doc = builder.head(&Head { token, kind: "rename", event }).with("ns", &namespace(split(from)));
    doc.append("to", &target);
    if builder.options.expanded {
        let mut description = DocBuf::new().with("to", &target);
        if let Some(dropped) = command.get("dropTarget").filter(|dropped| !matches!(dropped, ValueRef::Bool(false))) {
            description.append("dropTarget", dropped);
        }
        doc.append("operationDescription", &description);
    }
    Some((doc, matches!(builder.target, Target::Collection(_))))
}

fn of_collection(
    builder: &EventBuilder,
    token: Token,
    event: &Event<'_>,
    command: Doc<'_>,
    place: (&str, &str),
) -> Outcome {
    let head = |kind| builder.head(&Head { token, kind, event }).with("ns", &namespace(place));
    let rest = || command.iter().skip(1).filter(|(name, _)| *name != "o2").collect::<DocBuf>();
    let name = command.first().map_or("", |(name, _)| name);
    if name == "drop" {
        return Some((head("drop"), matches!(builder.target, Target::Collection(_))));
    }
    if !builder.options.expanded {
        return None;
    }
    let doc = match name {
        "create" => head("create").with("operationDescription", &rest()),
        "createIndexes" => {
            let index = rest();
            head("createIndexes").with("operationDescription", &indexes([ValueRef::from(&index)]))
        }
        "commitIndexBuild" => {
            let built = match command.get("indexes") {
                Some(ValueRef::Array(built)) => built.iter().collect(),
                _ => Vec::new(),
            };
            head("createIndexes").with("operationDescription", &indexes(built))
        }
        "dropIndexes" => {
            let index = dropped_index(event, command);
            head("dropIndexes").with("operationDescription", &indexes([ValueRef::from(&index)]))
        }
        "collMod" => modified(head("modify").with("operationDescription", &rest()), event),
        "addPartition" | "dropPartition" | "convertToPartitioned" => {
            head("modify").with("operationDescription", &partitions_changed(event, name, rest()))
        }
        _ => return None,
    };
    Some((doc, false))
}

fn indexes<'i>(indexes: impl IntoIterator<Item = ValueRef<'i>>) -> DocBuf {
    let indexes: ArrayBuf = indexes.into_iter().collect();
    DocBuf::new().with("indexes", &indexes)
}

/// `{v, key, name}`: the name is in `o`, the rest in `o2`.
fn dropped_index(event: &Event<'_>, command: Doc<'_>) -> DocBuf {
    let spec = event.object2().unwrap_or(Doc::empty());
    let named = spec.get("name").is_some();
    let mut index: DocBuf = spec.iter().collect();
    if let Some(name) = command.get("index").filter(|_| !named) {
        index.append("name", name);
    }
    index
}

/// `{addPartition: {newMax, info}}`, `{dropPartition: {min, max}}` (the range that is gone: `min < _id <= max`) or `{convertToPartitioned: {}}`.
fn partitions_changed(event: &Event<'_>, name: &str, says: DocBuf) -> DocBuf {
    let range = match event.object2().and_then(|before| before.get("range")) {
        Some(ValueRef::Document(range)) => Some(range.to_buf()),
        _ => None,
    };
    DocBuf::new().with(name, &range.unwrap_or(says))
}

fn modified(mut doc: DocBuf, event: &Event<'_>) -> DocBuf {
    let old = event.object2().unwrap_or(Doc::empty());
    let mut before = DocBuf::new();
    for (own, shown) in [("collectionOptions_old", "collectionOptions"), ("indexOptions_old", "indexOptions")] {
        if let Some(options) = old.get(own) {
            before.append(shown, options);
        }
    }
    if !before.as_doc().is_empty() {
        doc.append("stateBeforeChange", &before);
    }
    doc
}
