//! The plans that `explain` shows.

use arbor_bson::{DocBuf, ValueRef};
use arbor_query::{CountSpec, DistinctSpec, ExplainSpec, FindSpec, Interrupt, UpdateStatement, Verbosity};

use crate::support::{Rig, array, at, doc, rig, statement};

fn filled() -> Rig {
    let rig = rig();
    let docs: Vec<DocBuf> = (0..200i32)
        .map(|n| DocBuf::new().with("_id", n).with("a", n % 10).with("b", n).with("c", n % 3).with("t", "x"))
        .collect();
    rig.fill(&docs);
    rig.index("a, b");
    rig.index("c");
    rig
}

/// `LIMIT/FETCH/IXSCAN`; inputs of an OR in brackets.
fn stages(stage: ValueRef<'_>) -> String {
    let ValueRef::Document(stage) = stage else { panic!("{stage} is no stage") };
    let Some(ValueRef::String(name)) = stage.get("stage") else { panic!("{stage} has no name") };
    if let Some(input) = stage.get("inputStage") {
        return format!("{name}/{}", stages(input));
    }
    match stage.get("inputStages") {
        Some(ValueRef::Array(inputs)) => format!("{name}[{}]", inputs.iter().map(stages).collect::<Vec<_>>().join(" ")),
        _ => name.to_owned(),
    }
}

#[track_caller]
fn check(rig: &Rig, spec: FindSpec<'_>, expected: &str, keys: i32, docs: i32) -> DocBuf {
    let explained = rig.explain(spec);
    assert_eq!(stages(at(&explained, "queryPlanner.winningPlan")), expected, "{}", explained.as_doc());
    assert_eq!(stages(at(&explained, "executionStats.executionStages")), expected);
    let counter = |name: &str| at(&explained, &format!("executionStats.{name}")).to_string();
    assert_eq!(counter("totalKeysExamined"), keys.to_string(), "{}", explained.as_doc());
    assert_eq!(counter("totalDocsExamined"), docs.to_string(), "{}", explained.as_doc());
    explained
}

#[test]
fn stages_of_finds() {
    let rig = filled();
    let all = DocBuf::new();
    check(&rig, rig.find_spec(&all), "COLLSCAN", 0, 200);
    check(&rig, rig.find_spec(&doc("_id", 3i32)), "IDHACK", 1, 1);
    check(&rig, rig.find_spec(&doc("a", 3i32)), "FETCH/IXSCAN", 20, 20);
    check(&rig, rig.find_spec(&doc("_id", &doc("$lt", 3i32))), "FETCH/IXSCAN", 3, 3);
    check(&rig, rig.find_spec(&doc("t", "y")), "COLLSCAN", 0, 200);
    check(&rig, rig.find_spec(&doc("c", &doc("$in", &array::<i32>([])))), "EOF", 0, 0);

    let (sort, shown) = (doc("b", 1i32), DocBuf::new().with("b", 1i32).with("_id", 0i32));
    let sorted = FindSpec { sort: Some(sort.as_doc()), ..rig.find_spec(&all) };
    check(&rig, FindSpec { limit: Some(2), ..sorted }, "LIMIT/SORT/COLLSCAN", 0, 200);
    let three = doc("a", 3i32);
    let by_index = FindSpec { sort: Some(sort.as_doc()), limit: Some(2), ..rig.find_spec(&three) };
    check(&rig, by_index, "LIMIT/FETCH/IXSCAN", 2, 2);
    let covered = FindSpec { projection: Some(shown.as_doc()), ..rig.find_spec(&three) };
    check(&rig, covered, "PROJECTION_COVERED/IXSCAN", 20, 0);
    let skipped = FindSpec { projection: Some(sort.as_doc()), skip: 1, ..rig.find_spec(&three) };
    check(&rig, skipped, "PROJECTION_SIMPLE/SKIP/FETCH/IXSCAN", 20, 20);

    let either = doc("$or", &array([&doc("a", 3i32), &DocBuf::new().with("c", 1i32).with("b", 4i32)]));
    check(&rig, rig.find_spec(&either), "OR[FETCH/IXSCAN FETCH/IXSCAN]", 20 + 67, 20 + 67);
}

#[test]
fn scans_are_merged_in_the_order_that_is_asked_for() {
    let rig = filled();
    let sort = doc("b", -1i32);
    let among = doc("a", &doc("$in", &array([1i32, 4, 7])));
    let spec = FindSpec { sort: Some(sort.as_doc()), limit: Some(4), ..rig.find_spec(&among) };
    check(&rig, spec, "LIMIT/FETCH/SORT_MERGE[IXSCAN IXSCAN IXSCAN]", 6, 4);
    rig.index("c, b");
    let either = doc("$or", &array([&doc("a", 3i32), &doc("c", 1i32)]));
    let spec = FindSpec { sort: Some(sort.as_doc()), limit: Some(4), ..rig.find_spec(&either) };
    check(&rig, spec, "LIMIT/FETCH/SORT_MERGE[IXSCAN IXSCAN]", 6, 4);
}

#[test]
fn bounds_are_shown_as_mongodb_does() {
    let rig = filled();
    let filter = DocBuf::new().with("a", &doc("$in", &array([1i32, 4]))).with("b", &doc("$gt", 190i32));
    let explained = check(&rig, rig.find_spec(&filter), "FETCH/IXSCAN", 4, 2);
    let scan = at(&explained, "queryPlanner.winningPlan.inputStage");
    let ValueRef::Document(scan) = scan else { panic!("{scan}") };
    assert_eq!(scan.get("indexBounds").unwrap().to_string(), r#"{ a: [ "[1, 1]", "[4, 4]" ], b: [ "(190, inf.0]" ] }"#);
    assert_eq!(scan.get("direction").unwrap().to_string(), "\"forward\"");
    assert_eq!(scan.get("keyPattern").unwrap().to_string(), "{ a: 1, b: 1 }");
    assert_eq!(
        at(&explained, "queryPlanner.parsedQuery").to_string(),
        "{ $and: [ { a: { $in: [ 1, 4 ] } }, { b: { $gt: 190 } } ] }"
    );
}

#[test]
fn counts_and_writes() {
    let rig = filled();
    let explain = |spec: ExplainSpec<'_>| {
        arbor_query::explain(&rig.scope(), &spec, Verbosity::ExecutionStats, &Interrupt::never()).unwrap()
    };
    let count = |filter: &DocBuf| {
        let (namespace, query) = (rig.ns.clone(), filter.as_doc());
        let doc = explain(ExplainSpec::Count(CountSpec {
            namespace,
            query,
            skip: 0,
            limit: None,
            hint: None,
            collation: None,
        }));
        let counter = at(&doc, "executionStats.totalDocsExamined").to_string();
        (stages(at(&doc, "queryPlanner.winningPlan")), counter)
    };
    assert_eq!(count(&doc("a", 3i32)), ("COUNT/COUNT_SCAN".to_owned(), "0".to_owned()));
    assert_eq!(count(&DocBuf::new()), ("COUNT/RECORD_STORE_COUNT".to_owned(), "0".to_owned()));
    assert_eq!(count(&doc("t", "x")), ("COUNT/COLLSCAN".to_owned(), "200".to_owned()));

    let (q, u) = (doc("a", 3i32), doc("$inc", &doc("c", 1i32)));
    let update = rig.update_spec(vec![UpdateStatement { multi: true, ..statement(&q, &u) }]);
    let explained = explain(ExplainSpec::Update(update));
    assert_eq!(stages(at(&explained, "queryPlanner.winningPlan")), "UPDATE/FETCH/IXSCAN");
    assert_eq!(at(&explained, "executionStats.executionStages.nWouldModify").to_string(), "20");
    assert_eq!(rig.count(&doc("c", 3i32)), 0);
}

#[test]
fn distinct_skips_through_an_index() {
    let rig = filled();
    let all = DocBuf::new();
    let spec = DistinctSpec { namespace: rig.ns.clone(), key: "a", query: all.as_doc(), hint: None, collation: None };
    let spec = ExplainSpec::Distinct(spec);
    let explained = arbor_query::explain(&rig.scope(), &spec, Verbosity::ExecutionStats, &Interrupt::never()).unwrap();
    assert_eq!(stages(at(&explained, "queryPlanner.winningPlan")), "DISTINCT_SCAN");
    assert_eq!(at(&explained, "executionStats.totalKeysExamined").to_string(), "10");
}

#[test]
fn a_missing_collection_is_eof() {
    let rig = rig();
    let explained = rig.explain(rig.find_spec(&doc("a", 1i32)));
    assert_eq!(stages(at(&explained, "queryPlanner.winningPlan")), "EOF");
}
