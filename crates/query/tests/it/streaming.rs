//! Change streams over a store in memory.

use crate::support;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{Rig, at, rig_with_history, statement};
use arbor_base::TreeId;
use arbor_bson::{ArrayBuf, Doc, DocBuf, Timestamp, ValueRef};
use arbor_notation::{doc, show};
use arbor_oplog::{Change, Kind, Place, Retry, SessionId, Statement};
use arbor_query::feed::Feed;
use arbor_query::{AggregateSpec, BatchLimit, Cursor, Error, Interrupt, Result};
use arbor_store::Namespace;
use arbor_txn::Durability;
use uuid::Uuid;

/// A rig whose feed runs.
struct Watched {
    rig: Rig,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.rig.database.feed.stop();
        self.thread.take().map(|thread| thread.join());
    }
}

fn watched() -> Watched {
    let rig = rig_with_history();
    let feed: Arc<Feed> = rig.database.feed.clone();
    feed.set_deployment([7; 12]);
    Watched { rig, thread: Some(std::thread::spawn(move || feed.run())) }
}

impl Watched {
    fn open(&self, namespace: &str, options: &DocBuf, stages: &[DocBuf]) -> Result<Cursor> {
        let first = DocBuf::new().with("$changeStream", options);
        let pipeline: ArrayBuf = std::iter::once(&first).chain(stages).collect();
        let namespace = Namespace::parse(namespace).unwrap();
        let collectionless = namespace.collection() == "$cmd.aggregate";
        let spec = AggregateSpec { namespace, collectionless, ..self.rig.pipeline(&pipeline) };
        arbor_query::aggregate(&self.rig.scope(), &spec, &Interrupt::never())
    }

    fn watch(&self, options: &str) -> Cursor {
        self.open("db.c", &doc(options), &[]).unwrap()
    }

    fn insert(&self, id: i32) {
        self.rig.fill(&[DocBuf::new().with("_id", id)]);
    }

    /// Notes a change of the catalogue as the store does.
    fn note(&self, command: &str, before: Option<&str>) {
        let (command, before) = (doc(command), before.map(doc));
        let change =
            Change { before: before.as_ref().map(DocBuf::as_doc), ..Change::of(Kind::Command(command.as_doc())) };
        let mut txn = self.rig.database.transactions.begin().unwrap();
        let uuid = Some(Uuid::from_u128(5));
        txn.describe(TreeId(0), || Place { namespace: "db.$cmd", uuid, shard_key: None }.encode());
        txn.note(TreeId(0), change.encode());
        txn.commit(Durability::Journaled).unwrap();
    }
}

/// Returns the events until no more come for a while; the first event has time on a busy machine.
fn events(cursor: &mut Cursor) -> Vec<DocBuf> {
    try_events(cursor, Duration::from_secs(5)).unwrap()
}

fn failed(cursor: &mut Cursor) -> i32 {
    code(try_events(cursor, Duration::from_secs(5)).unwrap_err())
}

fn nothing(cursor: &mut Cursor) -> bool {
    try_events(cursor, QUIET).unwrap().is_empty()
}

const QUIET: Duration = Duration::from_millis(200);

fn try_events(cursor: &mut Cursor, patience: Duration) -> Result<Vec<DocBuf>> {
    let mut all = Vec::new();
    loop {
        let batch = cursor.next_batch(BatchLimit::more(), &Interrupt::never())?;
        all.extend(batch.docs.as_array().iter().map(|event| match event {
            ValueRef::Document(event) => event.to_buf(),
            other => panic!("{other}"),
        }));
        let patience = if all.is_empty() { patience } else { QUIET };
        let more = cursor.woken().is_some_and(|woken| woken.wait(Instant::now() + patience));
        if batch.exhausted || !more {
            return Ok(all);
        }
    }
}

/// Waits until there are `count` events.
fn awaited(cursor: &mut Cursor, count: usize) -> Vec<DocBuf> {
    let until = Instant::now() + Duration::from_secs(20);
    let mut all = try_events(cursor, QUIET).unwrap();
    while all.len() < count && Instant::now() < until {
        all.extend(try_events(cursor, QUIET).unwrap());
    }
    all
}

fn kinds(events: &[DocBuf]) -> Vec<String> {
    events.iter().map(|event| show(at(event, "operationType")).trim_matches('"').to_owned()).collect()
}

fn same(found: &[DocBuf], expected: &[DocBuf]) -> bool {
    found.iter().map(DocBuf::as_bytes).eq(expected.iter().map(DocBuf::as_bytes))
}

fn code(error: Error) -> i32 {
    match error {
        Error::Lang(error) => error.code.0,
        other => panic!("{other}"),
    }
}

fn resume(name: &str, token: &DocBuf) -> DocBuf {
    DocBuf::new().with(name, token)
}

fn id_of(event: &DocBuf) -> DocBuf {
    match event.get("_id") {
        Some(ValueRef::Document(id)) => id.to_buf(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_change_of_the_collection_is_emitted_once_and_in_order() {
    let own = watched();
    own.insert(0);
    let mut stream = own.watch("{}");
    own.insert(1);
    own.rig.fill_into("db.other", &[doc("{_id: 1}")]);
    let (one, long) = (doc("{_id: 1}"), "x".repeat(100));
    own.rig.update(statement(&one, &doc("{$set: {a: 1}}").with("$unset", &doc("{b: 1}"))));
    own.rig.update(statement(&one, &DocBuf::new().with("_id", 1i32).with("long", long.as_str())));
    own.rig.update(statement(&one, &doc("{$set: {a: [1, 2]}}")));
    own.rig.delete(&one, false);
    let found = events(&mut stream);
    assert_eq!(kinds(&found), ["insert", "update", "replace", "update", "delete"]);
    assert!(found.iter().all(|event| show(at(event, "ns")) == r#"{ db: "db", coll: "c" }"#));
    assert!(found.iter().all(|event| show(at(event, "documentKey")) == "{ _id: 1 }"));
    assert_eq!(show(at(&found[0], "fullDocument")), "{ _id: 1 }");
    assert_eq!(show(at(&found[2], "fullDocument._id")), "1");
    assert_eq!(
        show(at(&found[3], "updateDescription")),
        "{ updatedFields: { a: [1, 2] }, removedFields: [], truncatedArrays: [] }"
    );
    assert!(found[3].get("fullDocument").is_none() && found[4].get("fullDocument").is_none());
    let times: Vec<Timestamp> = found
        .iter()
        .map(|event| match event.get("clusterTime") {
            Some(ValueRef::Timestamp(time)) => time,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(times.is_sorted());
    assert!(nothing(&mut stream));
}

#[test]
fn a_stream_resumes_behind_any_of_its_tokens() {
    let own = watched();
    let mut stream = own.watch("{}");
    let begin = stream.resume_token().unwrap();
    (0..6).for_each(|id| own.insert(id));
    let all = events(&mut stream);
    assert_eq!(all.len(), 6);
    for (at, event) in all.iter().enumerate() {
        for name in ["resumeAfter", "startAfter"] {
            let mut resumed = own.open("db.c", &resume(name, &id_of(event)), &[]).unwrap();
            assert!(same(&awaited(&mut resumed, all[at + 1..].len()), &all[at + 1..]), "{name} {at}");
        }
        let time = DocBuf::new().with("startAtOperationTime", event.get("clusterTime").unwrap());
        assert!(same(&awaited(&mut own.open("db.c", &time, &[]).unwrap(), all[at..].len()), &all[at..]));
    }
    assert!(same(&awaited(&mut own.open("db.c", &resume("resumeAfter", &begin), &[]).unwrap(), all.len()), &all));
    let mut at_end = own.open("db.c", &resume("resumeAfter", &stream.resume_token().unwrap()), &[]).unwrap();
    assert!(nothing(&mut at_end));
    own.insert(6);
    assert_eq!(events(&mut at_end).len(), 1);
}

#[test]
fn small_batches_return_resume_tokens() {
    let own = watched();
    let mut stream = own.watch("{}");
    (0..5).for_each(|id| own.insert(id));
    own.rig.fill_into("db.other", &[doc("{_id: 1}")]);
    let mut seen = Vec::new();
    while seen.len() < 5 {
        let batch = stream.next_batch(BatchLimit::docs(2), &Interrupt::never()).unwrap();
        seen.extend(batch.docs.as_array().iter().map(|event| show(event)));
        let mut rest = own.open("db.c", &resume("resumeAfter", &stream.resume_token().unwrap()), &[]).unwrap();
        assert_eq!(awaited(&mut rest, 5 - seen.len()).len(), 5 - seen.len());
    }
}

#[test]
fn tokens_of_others_are_refused() {
    let own = watched();
    let mut stream = own.watch("{}");
    own.insert(1);
    own.rig.fill_into("db.other", &[doc("{_id: 1}")]);
    let token = id_of(&events(&mut stream)[0]);
    let foreign = watched();
    foreign.rig.database.feed.set_deployment([8; 12]);
    let refused = foreign.open("db.c", &resume("resumeAfter", &token), &[]).err().unwrap();
    assert_eq!(code(refused), 260);
    // a stream of another collection never had this event
    let mut other = own.open("db.other", &resume("resumeAfter", &token), &[]).unwrap();
    assert_eq!(failed(&mut other), 280);
}

#[test]
fn databases_and_everything_can_be_watched() {
    let own = watched();
    let mut database = own.open("db.$cmd.aggregate", &doc("{}"), &[]).unwrap();
    let mut everything = own.open("admin.$cmd.aggregate", &doc("{allChangesForCluster: true}"), &[]).unwrap();
    own.insert(1);
    for namespace in ["db.other", "second.c", "config.c", "local.c", "db.system.js"] {
        own.rig.fill_into(namespace, &[doc("{_id: 1}")]);
    }
    let places = |events: &[DocBuf]| -> Vec<String> {
        let inserts = events.iter().filter(|event| show(at(event, "operationType")) == "\"insert\"");
        inserts.map(|event| format!("{}.{}", at(event, "ns.db"), at(event, "ns.coll")).replace('"', "")).collect()
    };
    assert_eq!(places(&events(&mut database)), ["db.c", "db.other"]);
    assert_eq!(places(&events(&mut everything)), ["db.c", "db.other", "second.c"]);
    for (namespace, options, expected) in [
        ("admin.$cmd.aggregate", "{}", 73),
        ("local.c", "{}", 73),
        ("db.system.js", "{}", 73),
        ("db.$cmd.aggregate", "{allChangesForCluster: true}", 72),
        ("admin.c", "{allChangesForCluster: true}", 72),
    ] {
        assert_eq!(code(own.open(namespace, &doc(options), &[]).err().unwrap()), expected, "{namespace} {options}");
    }
}

#[test]
fn documents_after_updates_are_looked_up() {
    let own = watched();
    own.insert(1);
    own.rig.fill(&[DocBuf::new().with("_id", 2i32).with("long", "x".repeat(200).as_str())]);
    let mut stream = own.watch("{fullDocument: 'updateLookup'}");
    let mut available = own.watch("{fullDocument: 'whenAvailable', fullDocumentBeforeChange: 'whenAvailable'}");
    let mut required = own.watch("{fullDocument: 'required'}");
    let mut before = own.watch("{fullDocumentBeforeChange: 'required'}");
    let two = doc("{_id: 2}");
    own.rig.update(statement(&two, &doc("{$set: {a: 1}}")));
    own.rig.update(statement(&two, &doc("{$set: {a: 2}}")));
    let found = events(&mut stream);
    // as it is now
    assert_eq!(found.iter().map(|event| show(at(event, "fullDocument.a"))).collect::<Vec<_>>(), ["2", "2"]);
    let found = events(&mut available);
    assert_eq!(show(at(&found[0], "fullDocument")), "null");
    assert_eq!(show(at(&found[0], "fullDocumentBeforeChange")), "null");
    assert_eq!(failed(&mut required), 47);
    assert_eq!(failed(&mut before), 47);
    own.rig.update(statement(&two, &doc("{$set: {a: 3}}")));
    own.rig.delete(&two, false);
    assert_eq!(show(at(&events(&mut stream)[0], "fullDocument")), "null");
}

#[test]
fn a_transaction_is_one_time_and_several_events() {
    let own = watched();
    let mut stream = own.watch("{}");
    let collection = own.rig.database.store.hold_or_create(&own.rig.ns).unwrap();
    let session = SessionId { id: Uuid::from_u128(9), user: [1; 32] };
    let statement = Statement { session, number: 4, retry: Retry::Transaction };
    let mut txn = own.rig.database.transactions.begin().unwrap();
    txn.set_logical(statement.encode());
    for id in 0..4i32 {
        arbor_store::insert(&mut txn, &collection, DocBuf::new().with("_id", id).as_doc()).unwrap();
    }
    txn.commit(Durability::Journaled).unwrap();
    let found = events(&mut stream);
    assert_eq!(found.len(), 4);
    assert!(found.iter().all(|event| show(at(event, "clusterTime")) == show(at(&found[0], "clusterTime"))));
    assert!(found.iter().all(|event| show(at(event, "txnNumber")) == "Long(4)" && event.get("lsid").is_some()));
    for (at, event) in found.iter().enumerate() {
        let mut resumed = own.open("db.c", &resume("resumeAfter", &id_of(event)), &[]).unwrap();
        assert!(same(&awaited(&mut resumed, found[at + 1..].len()), &found[at + 1..]));
    }
}

#[test]
fn changes_of_the_catalogue_are_shown_to_those_who_ask() {
    let own = watched();
    let commands = [
        ("{create: 'd', capped: true, size: 5}", None),
        ("{create: 'c', idIndex: {v: 2, key: {_id: 1}, name: '_id_'}}", None),
        ("{createIndexes: 'c', v: 2, key: {a: 1}, name: 'a_1'}", None),
        ("{commitIndexBuild: 'c', indexes: [{v: 2, key: {b: 1}, name: 'b_1'}]}", None),
        ("{dropIndexes: 'c', index: 'a_1'}", Some("{v: 2, key: {a: 1}, name: 'a_1'}")),
        ("{collMod: 'c', validator: {}}", Some("{collectionOptions_old: {x: 1}}")),
    ];
    let (mut plain, mut expanded) = (own.watch("{}"), own.watch("{showExpandedEvents: true}"));
    commands.iter().for_each(|(command, before)| own.note(command, *before));
    own.insert(1);
    assert_eq!(kinds(&events(&mut plain)), ["insert"]);
    let found = events(&mut expanded);
    let expected = ["create", "createIndexes", "createIndexes", "dropIndexes", "modify", "create", "insert"];
    // the insert made its collection
    assert!(kinds(&found) == expected || kinds(&found) == [&expected[..5], &expected[6..]].concat(), "{found:?}");
    let description = |at_: usize| show(at(&found[at_], "operationDescription"));
    assert_eq!(description(0), r#"{ idIndex: { v: 2, key: { _id: 1 }, name: "_id_" } }"#);
    assert_eq!(description(1), r#"{ indexes: [{ v: 2, key: { a: 1 }, name: "a_1" }] }"#);
    assert_eq!(description(2), r#"{ indexes: [{ v: 2, key: { b: 1 }, name: "b_1" }] }"#);
    assert_eq!(description(3), r#"{ indexes: [{ v: 2, key: { a: 1 }, name: "a_1" }] }"#);
    assert_eq!(show(at(&found[4], "stateBeforeChange")), "{ collectionOptions: { x: 1 } }");
    assert!(found[0].get("collectionUUID").is_some());
}

#[test]
fn what_ends_the_collection_ends_its_stream() {
    let own = watched();
    for (command, kind) in [
        ("{drop: 'c'}", "drop"),
        ("{renameCollection: 'db.c', to: 'db.d'}", "rename"),
        ("{renameCollection: 'db.d', to: 'db.c'}", "rename"),
    ] {
        let mut stream = own.watch("{}");
        own.note(command, None);
        own.insert(1);
        let batch = events(&mut stream);
        assert_eq!(kinds(&batch), [kind, "invalidate"]);
        assert!(stream.next_batch(BatchLimit::more(), &Interrupt::never()).unwrap().exhausted);
        let refused = own.open("db.c", &resume("resumeAfter", &id_of(&batch[1])), &[]).err().unwrap();
        assert_eq!(code(refused), 260);
        let mut behind = own.open("db.c", &resume("startAfter", &id_of(&batch[1])), &[]).unwrap();
        assert_eq!(kinds(&events(&mut behind)), ["insert"]);
        let mut again = own.open("db.c", &resume("resumeAfter", &id_of(&batch[0])), &[]).unwrap();
        assert_eq!(kinds(&events(&mut again)), ["invalidate"]);
        own.rig.delete(&doc("{_id: 1}"), false);
    }
    let mut database = own.open("db.$cmd.aggregate", &doc("{}"), &[]).unwrap();
    own.note("{drop: 'c'}", None);
    own.note("{dropDatabase: 1}", None);
    assert_eq!(kinds(&events(&mut database)), ["drop", "dropDatabase", "invalidate"]);
}

#[test]
fn stages_behind_see_events() {
    let own = watched();
    let open =
        |stages: &[&str]| own.open("db.c", &doc("{}"), &stages.iter().map(|stage| doc(stage)).collect::<Vec<_>>());
    let mut stream = open(&[
        "{$match: {'fullDocument._id': {$gt: 2}}}",
        "{$project: {id: '$fullDocument._id'}}",
        "{$addFields: {twice: {$multiply: ['$id', 2]}}}",
        "{$redact: {$cond: [{$eq: ['$id', 4]}, '$$PRUNE', '$$KEEP']}}",
    ])
    .unwrap();
    (0..6).for_each(|id| own.insert(id));
    let found = events(&mut stream);
    assert_eq!(found.iter().map(|event| show(at(event, "twice"))).collect::<Vec<_>>(), ["6", "10"]);
    let mut without_id = open(&["{$project: {_id: 0}}"]).unwrap();
    own.insert(7);
    assert_eq!(failed(&mut without_id), 280);
    for (stage, expected) in [
        ("{$group: {_id: 1}}", 20),
        ("{$lookup: {from: 'd', localField: 'a', foreignField: 'a', as: 'a'}}", 20),
        ("{$changeStream: {}}", 40602),
        ("{$changeStreamSplitLargeEvent: {a: 1}}", 7182800),
        ("{$nope: {}}", 40324),
    ] {
        assert_eq!(code(open(&[stage]).err().unwrap()), expected, "{stage}");
    }
    assert_eq!(code(open(&["{$changeStreamSplitLargeEvent: {}}", "{$match: {}}"]).err().unwrap()), 7182802);
}

#[test]
fn events_that_are_too_large_are_split_on_request() {
    let own = watched();
    let large = DocBuf::new().with("_id", 1i32).with("a", "x".repeat(16_700_000).as_str());
    let mut plain = own.watch("{}");
    let mut split = own
        .open(
            "db.c",
            &doc("{}"),
            &[doc("{$addFields: {copy: '$fullDocument'}}"), doc("{$changeStreamSplitLargeEvent: {}}")],
        )
        .unwrap();
    own.rig.fill(&[large]);
    assert_eq!(awaited(&mut plain, 1).len(), 1);
    let found = awaited(&mut split, 2);
    assert_eq!(
        found.iter().map(|event| show(at(event, "splitEvent"))).collect::<Vec<_>>(),
        ["{ fragment: 1, of: 2 }", "{ fragment: 2, of: 2 }"]
    );
    let options = resume("resumeAfter", &id_of(&found[0]));
    let stages = [doc("{$addFields: {copy: '$fullDocument'}}"), doc("{$changeStreamSplitLargeEvent: {}}")];
    assert!(same(&awaited(&mut own.open("db.c", &options, &stages).unwrap(), 1), &found[1..]));
    let mut unsplit = own.open("db.c", &resume("resumeAfter", &id_of(&found[1])), &[]).unwrap();
    assert_eq!(failed(&mut unsplit), 280);
}

#[test]
fn streams_that_sleep_are_woken_by_their_own_changes_only() {
    let own = watched();
    own.rig.fill_into("db.other", &[doc("{_id: -1}")]);
    let mut stream = own.watch("{}");
    assert!(nothing(&mut stream));
    let before = stream.resume_token().unwrap();
    (0..100).for_each(|id| own.rig.fill_into("db.other", &[DocBuf::new().with("_id", id)]));
    assert!(!stream.woken().unwrap().wait(Instant::now() + Duration::from_millis(200)));
    assert!(nothing(&mut stream));
    // and they have moved on nevertheless
    assert!(!same(&[stream.resume_token().unwrap()], &[before]));
    let woken = stream.woken().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| own.insert(1));
        assert!(woken.wait(Instant::now() + Duration::from_secs(10)));
    });
    assert_eq!(events(&mut stream).len(), 1);
}

#[test]
fn a_stream_that_is_far_behind_reads_the_log() {
    let own = watched();
    let mut stream = own.watch("{}");
    let documents: Vec<DocBuf> =
        (0..3000i32).map(|id| DocBuf::new().with("_id", id).with("t", "x".repeat(9000).as_str())).collect();
    documents.chunks(100).for_each(|chunk| own.rig.fill(chunk));
    let ids: Vec<DocBuf> =
        awaited(&mut stream, 3000).iter().map(|event| doc(&show(at(event, "documentKey")))).collect();
    let expected: Vec<DocBuf> = (0..3000i32).map(|id| DocBuf::new().with("_id", id)).collect();
    assert!(same(&ids, &expected), "{} of {}", ids.len(), expected.len());
}

#[test]
fn without_history_there_are_no_streams() {
    let rig = support::rig();
    let pipeline: ArrayBuf = [&DocBuf::new().with("$changeStream", Doc::empty())].into_iter().collect();
    let refused = arbor_query::aggregate(&rig.scope(), &rig.pipeline(&pipeline), &Interrupt::never());
    assert_eq!(code(refused.err().unwrap()), 40573);
}
