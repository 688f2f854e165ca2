//! Aggregation pipelines over the model engine.

use arbor_bson::{ArrayBuf, DocBuf};
use arbor_query::{BatchLimit, Database, ExplainSpec, Interrupt, Verbosity};

use crate::support::{Rig, array, at, doc, rig};

fn filled() -> Rig {
    let rig = rig();
    let docs: Vec<DocBuf> = (0..100i32)
        .map(|n| DocBuf::new().with("_id", n).with("a", n % 10).with("tags", &array([n % 2, n % 3])))
        .collect();
    rig.fill(&docs);
    rig.index("a");
    rig
}

#[test]
fn match_sort_skip_limit() {
    let rig = filled();
    let stages = [
        doc("$match", &doc("a", &doc("$gte", 8i32))),
        doc("$sort", &DocBuf::new().with("a", 1i32).with("_id", -1i32)),
        doc("$skip", 2i32),
        doc("$limit", 2i32),
        doc("$project", &doc("a", 1i32)),
    ];
    assert_eq!(rig.aggregate(&stages), ["{ _id: 78, a: 8 }", "{ _id: 68, a: 8 }"]);
}

#[test]
fn group_unwind_count() {
    let rig = filled();
    let sum = DocBuf::new().with("_id", "$tags").with("n", &doc("$sum", 1i32));
    let stages = [doc("$unwind", "$tags"), doc("$group", &sum), doc("$sort", &doc("_id", 1i32))];
    assert_eq!(rig.aggregate(&stages), ["{ _id: 0, n: 84 }", "{ _id: 1, n: 83 }", "{ _id: 2, n: 33 }"]);
    assert_eq!(rig.aggregate(&[doc("$count", "all")]), ["{ all: 100 }"]);
    let by_index = [doc("$match", &doc("a", 3i32)), doc("$skip", 2i32), doc("$count", "n")];
    assert_eq!(rig.aggregate(&by_index), ["{ n: 8 }"]);
    let nothing = [doc("$match", &doc("a", 77i32)), doc("$count", "n")];
    assert!(rig.aggregate(&nothing).is_empty());
    assert_eq!(rig.aggregate(&[doc("$sample", &doc("size", 7i32)), doc("$count", "n")]), ["{ n: 7 }"]);
}

#[test]
fn a_missing_collection_gives_what_an_empty_one_would() {
    let rig = rig();
    assert!(rig.aggregate(&[doc("$match", &doc("a", 1i32))]).is_empty());
    assert!(rig.aggregate(&[doc("$count", "n")]).is_empty());
}

#[test]
fn unknown_stages_are_named() {
    let rig = filled();
    let error = rig.try_aggregate(&[doc("$nope", 1i32)]).unwrap_err();
    assert_eq!(error.to_string(), "Unrecognized pipeline stage name: '$nope'");
}

#[test]
fn a_group_that_grows_too_large_is_refused() {
    let mut rig = filled();
    rig.database.settings.group_bytes_max = 1000;
    rig.database.settings.scratch = None;
    let push = DocBuf::new().with("_id", 1i32).with("all", &doc("$push", "$$ROOT"));
    let error = rig.try_aggregate(&[doc("$group", &push)]).unwrap_err();
    assert!(error.to_string().contains("Exceeded memory limit for $group"), "{error}");
}

#[test]
fn explain_shows_what_a_query_does_of_a_pipeline() {
    let rig = filled();
    let explain = |stages: &[DocBuf]| {
        let pipeline: ArrayBuf = stages.iter().collect();
        let spec = ExplainSpec::Aggregate(rig.pipeline(&pipeline));
        arbor_query::explain(&rig.scope(), &spec, Verbosity::ExecutionStats, &Interrupt::never()).unwrap()
    };
    let only_query = explain(&[doc("$match", &doc("a", 3i32)), doc("$limit", 5i32)]);
    assert_eq!(at(&only_query, "queryPlanner.winningPlan.stage").to_string(), "\"LIMIT\"");
    let grouped = explain(&[doc("$match", &doc("a", 3i32)), doc("$group", &doc("_id", "$a"))]);
    assert_eq!(at(&grouped, "stages.0.$cursor.queryPlanner.winningPlan.inputStage.stage").to_string(), "\"IXSCAN\"");
    assert_eq!(at(&grouped, "stages.1.$group._id").to_string(), "\"$a\"");
}

#[test]
fn a_group_of_indexed_fields_reads_no_document() {
    let rig = filled();
    let explained = |group: DocBuf| {
        let stages: ArrayBuf = [doc("$match", &doc("a", &doc("$gte", 8i32))), doc("$group", &group)].iter().collect();
        let spec = ExplainSpec::Aggregate(rig.pipeline(&stages));
        arbor_query::explain(&rig.scope(), &spec, Verbosity::ExecutionStats, &Interrupt::never()).unwrap()
    };
    let sum = |field: &str| DocBuf::new().with("_id", "$a").with("n", &doc("$sum", field));
    let covered = explained(sum("$a"));
    let stats = "stages.0.$cursor.executionStats";
    assert_eq!(at(&covered, &format!("{stats}.totalDocsExamined")).to_string(), "0");
    assert_eq!(at(&covered, &format!("{stats}.executionStages.stage")).to_string(), "\"PROJECTION_COVERED\"");
    let fetched = explained(sum("$tags"));
    assert_eq!(at(&fetched, &format!("{stats}.executionStages.stage")).to_string(), "\"FETCH\"");
    let stages =
        [doc("$match", &doc("a", &doc("$gte", 8i32))), doc("$group", &sum("$a")), doc("$sort", &doc("_id", 1i32))];
    assert_eq!(rig.aggregate(&stages), ["{ _id: 8, n: 80 }", "{ _id: 9, n: 90 }"]);
}

#[test]
fn explain_shows_the_stages_in_the_order_in_which_they_run() {
    let rig = filled();
    let stages: ArrayBuf = [
        doc("$addFields", &doc("x", 1i32)),
        doc("$unwind", "$tags"),
        doc("$match", &DocBuf::new().with("a", 3i32).with("tags", 1i32)),
    ]
    .iter()
    .collect();
    let spec = ExplainSpec::Aggregate(rig.pipeline(&stages));
    let explained = arbor_query::explain(&rig.scope(), &spec, Verbosity::ExecutionStats, &Interrupt::never()).unwrap();
    let plan = at(&explained, "stages.0.$cursor.queryPlanner.winningPlan.inputStage.indexName");
    assert_eq!(plan.to_string(), "\"a\"", "{}", explained.as_doc());
    assert_eq!(at(&explained, "stages.3.$match").to_string(), "{ tags: 1 }");
    assert_eq!(at(&explained, "stages.3.nReturned").to_string(), "13");
}

#[test]
fn lookup_finds_what_belongs_to_a_document() {
    let rig = rig();
    let docs = [
        DocBuf::new().with("_id", 1i32).with("k", 1i32),
        DocBuf::new().with("_id", 2i32).with("k", &array([1i32, 2])),
        DocBuf::new().with("_id", 3i32),
    ];
    rig.fill(&docs);
    let others = [
        DocBuf::new().with("_id", "x").with("f", 1.0),
        DocBuf::new().with("_id", "y").with("f", 2i32),
        DocBuf::new().with("_id", "z"),
    ];
    rig.fill_into("db.other", &others);
    let lookup = DocBuf::new().with("from", "other").with("localField", "k").with("foreignField", "f").with("as", "o");
    let ids = doc("$project", &doc("ids", "$o._id"));
    let expected = ["{ _id: 1, ids: [ \"x\" ] }", "{ _id: 2, ids: [ \"x\", \"y\" ] }", "{ _id: 3, ids: [ \"z\" ] }"];
    assert_eq!(rig.aggregate(&[doc("$lookup", &lookup), ids.clone()]), expected);

    let same = doc("$match", &doc("$expr", &doc("$eq", &array(["$f", "$$k"]))));
    let stages: ArrayBuf = [&same, &doc("$project", &doc("f", 0i32))].into_iter().collect();
    let correlated =
        DocBuf::new().with("from", "other").with("let", &doc("k", "$k")).with("pipeline", &stages).with("as", "o");
    let found = rig.aggregate(&[doc("$match", &doc("_id", 1i32)), doc("$lookup", &correlated)]);
    assert_eq!(found, ["{ _id: 1, k: 1, o: [ { _id: \"x\" } ] }"]);

    let missing =
        DocBuf::new().with("from", "none").with("localField", "k").with("foreignField", "f").with("as", "a.b");
    let found = rig.aggregate(&[doc("$match", &doc("_id", 3i32)), doc("$lookup", &missing)]);
    assert_eq!(found, ["{ _id: 3, a: { b: [] } }"]);
}

#[test]
fn a_pipeline_over_given_documents() {
    let rig = rig();
    let stages: ArrayBuf =
        [&doc("$match", &doc("n", &doc("$gt", 1i32))), &doc("$sort", &doc("n", -1i32))].into_iter().collect();
    let documents: Vec<DocBuf> = (0..4i32).map(|n| doc("n", n)).collect();
    let spec = rig.pipeline(&stages);
    let cursor = arbor_query::aggregate_documents(&rig.scope(), &spec, documents, &Interrupt::never()).unwrap();
    let found: Vec<_> = cursor.all(&Interrupt::never()).unwrap().iter().map(|doc| doc.as_doc().to_string()).collect();
    assert_eq!(found, ["{ n: 3 }", "{ n: 2 }"]);
}

#[test]
fn what_a_broken_off_out_left_is_dropped_at_the_start() {
    let rig = rig();
    rig.fill_into("db.tmp.agg_out.1", &[doc("_id", 1i32)]);
    rig.fill_into("db.kept", &[doc("_id", 1i32)]);
    let store = rig.database.store.clone();
    let again = Database::new(store.clone(), store.transactions().clone());
    let names: Vec<String> =
        again.store.list_collections("db").iter().map(|own| own.namespace.collection().to_owned()).collect();
    assert_eq!(names, ["kept"]);
}

#[test]
fn a_union_reads_both_in_batches() {
    let rig = filled();
    let others: Vec<DocBuf> = (0..300i32).map(|n| DocBuf::new().with("_id", n).with("b", n)).collect();
    rig.fill_into("db.other", &others);
    let inner: ArrayBuf = [&doc("$match", &doc("b", &doc("$gte", 100i32)))].into_iter().collect();
    let union = doc("$unionWith", &DocBuf::new().with("coll", "other").with("pipeline", &inner));
    assert_eq!(rig.aggregate(&[union.clone(), doc("$count", "n")]), ["{ n: 300 }"]);
    let stages: ArrayBuf = [&union].into_iter().collect();
    let mut cursor = arbor_query::aggregate(&rig.scope(), &rig.pipeline(&stages), &Interrupt::never()).unwrap();
    let mut read = 0;
    loop {
        let batch = cursor.next_batch(BatchLimit::docs(7), &Interrupt::never()).unwrap();
        read += batch.docs.len();
        if batch.exhausted {
            break;
        }
    }
    assert_eq!(read, 300);
}

#[test]
fn a_facet_whose_input_does_not_fit_is_refused() {
    let mut rig = filled();
    rig.database.settings.group_bytes_max = 1000;
    let stages: ArrayBuf = [&doc("$count", "n")].into_iter().collect();
    let last: ArrayBuf = [&doc("$skip", 98i32), &doc("$project", &doc("a", 1i32))].into_iter().collect();
    let both = doc("$facet", &DocBuf::new().with("n", &stages).with("last", &last));
    let on_disk = ["{ n: [ { n: 100 } ], last: [ { _id: 98, a: 8 }, { _id: 99, a: 9 } ] }"];
    assert_eq!(rig.aggregate(&[both]), on_disk);
    rig.database.settings.scratch = None;
    let error = rig.try_aggregate(&[doc("$facet", &doc("a", &stages))]).unwrap_err();
    assert!(error.to_string().contains("memory limit for $facet"), "{error}");
}
