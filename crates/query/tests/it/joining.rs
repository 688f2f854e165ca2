//! `$lookup` finds the same documents by a hash table, by an index and by a pipeline for each document.

use arbor_bson::{ArrayBuf, DocBuf, Value};
use arbor_query::{ExplainSpec, Interrupt, Verbosity};

use crate::support::{Rig, at, doc, rig};

/// One document per value at `a`, and some without.
fn documents(values: &[Value]) -> Vec<DocBuf> {
    let with = values.iter().enumerate().map(|(n, value)| DocBuf::new().with("_id", n as i32).with("a", value));
    with.chain([doc("_id", 100i32), DocBuf::new().with("_id", 101i32).with("b", 1i32)]).collect()
}

fn values() -> Vec<Value> {
    let inner = |value: &Value| Value::Document(doc("b", value));
    let list = |values: &[Value]| Value::Array(values.iter().collect::<ArrayBuf>());
    let scalars = [
        Value::Int32(1),
        Value::Int64(1),
        Value::Double(1.0),
        Value::Double(f64::NAN),
        Value::Double(-0.0),
        Value::Int32(0),
        Value::Null,
        Value::Undefined,
        Value::String("x".to_owned()),
        Value::Bool(true),
    ];
    let mut all = scalars.to_vec();
    all.extend(scalars.iter().map(inner));
    all.extend([list(&scalars[..3]), list(&[]), list(&[Value::Null]), list(&[list(&[Value::Int32(1)])])]);
    all.push(list(&[inner(&Value::Int32(1)), inner(&Value::Null)]));
    all.push(list(&[inner(&Value::Int32(1)), Value::Int32(7)]));
    all.push(list(&[Value::Int32(7)]));
    all.push(inner(&list(&[Value::Int32(1), Value::Int32(2)])));
    all
}

fn filled() -> Rig {
    let rig = rig();
    rig.fill(&documents(&values()));
    rig.fill_into("db.other", &documents(&values()));
    rig
}

fn lookup(local: &str, foreign: &str, by_pipeline: bool) -> Vec<DocBuf> {
    let mut spec = DocBuf::new().with("from", "other").with("localField", local).with("foreignField", foreign);
    if by_pipeline {
        spec.append("pipeline", &ArrayBuf::new());
    }
    vec![doc("$lookup", &spec.with("as", "found")), doc("$project", &doc("ids", "$found._id"))]
}

fn strategy(rig: &Rig, stages: &[DocBuf]) -> String {
    let stages: ArrayBuf = stages.iter().collect();
    let spec = ExplainSpec::Aggregate(rig.pipeline(&stages));
    let explained = arbor_query::explain(&rig.scope(), &spec, Verbosity::ExecutionStats, &Interrupt::never()).unwrap();
    at(&explained, "stages.1.strategy").to_string()
}

#[test]
fn a_hash_table_an_index_and_a_scan_find_the_same() {
    let rig = filled();
    let paths = ["a", "a.b", "a.0", "_id"];
    let mut hashed = Vec::new();
    for local in paths {
        for foreign in paths {
            let found = rig.aggregate(&lookup(local, foreign, false));
            assert_eq!(found, rig.aggregate(&lookup(local, foreign, true)), "{local} {foreign}");
            hashed.push(((local, foreign), found));
        }
    }
    assert_eq!(strategy(&rig, &lookup("a", "a", false)), "\"HashJoin\"");
    assert_eq!(strategy(&rig, &lookup("a", "_id", false)), "\"IndexedLoopJoin\"");
    let other = arbor_store::Namespace::parse("db.other").unwrap();
    for name in ["a", "a.b"] {
        let spec = DocBuf::new().with("key", &doc(name, 1i32)).with("name", name);
        rig.database.store.create_indexes(&other, &[spec]).unwrap();
    }
    assert_eq!(strategy(&rig, &lookup("a", "a", false)), "\"IndexedLoopJoin\"");
    for ((local, foreign), expected) in hashed {
        let mut found = rig.aggregate(&lookup(local, foreign, false));
        // an index may give another order
        let sorted = |all: &mut Vec<String>| {
            for one in all.iter_mut() {
                let mut words: Vec<&str> = one.split([' ', ',']).collect();
                words.sort_unstable();
                *one = words.join(" ");
            }
        };
        let mut expected = expected;
        sorted(&mut found);
        sorted(&mut expected);
        assert_eq!(found, expected, "{local} {foreign}");
    }
}

#[test]
fn what_does_not_fit_into_memory_is_not_hashed() {
    let mut rig = filled();
    let expected = rig.aggregate(&lookup("a", "a", false));
    rig.database.settings.group_bytes_max = 100;
    assert_eq!(rig.aggregate(&lookup("a", "a", false)), expected);
}

#[test]
fn an_unwind_behind_finds_the_same_and_more_than_a_document_holds() {
    let rig = filled();
    let lookup = |local: &str| {
        let spec = DocBuf::new().with("from", "other").with("localField", local).with("foreignField", "a");
        doc("$lookup", &spec.with("as", "found"))
    };
    let unwind = |preserve: bool| {
        let spec = DocBuf::new().with("path", "$found").with("includeArrayIndex", "at");
        doc("$unwind", &spec.with("preserveNullAndEmptyArrays", preserve))
    };
    // this one changes nothing, and keeps the two stages apart
    let between = doc("$addFields", &doc("found", "$found"));
    for local in ["a", "a.b", "_id", "missing"] {
        for preserve in [false, true] {
            let apart = rig.aggregate(&[lookup(local), between.clone(), unwind(preserve)]);
            assert_eq!(rig.aggregate(&[lookup(local), unwind(preserve)]), apart, "{local} {preserve}");
            assert!(local == "missing" || !apart.is_empty());
        }
    }
    let megabyte = "x".repeat(1 << 20);
    let large: Vec<DocBuf> =
        (0..20).map(|n| DocBuf::new().with("_id", n).with("a", "L").with("s", megabyte.as_str())).collect();
    rig.fill_into("db.large", &large);
    let spec = DocBuf::new().with("from", "large").with("pipeline", &ArrayBuf::new()).with("as", "found");
    let all = [
        doc("$limit", 1i32),
        doc("$lookup", &spec),
        doc("$unwind", "$found"),
        doc("$project", &doc("_id", "$found._id")),
    ];
    assert_eq!(rig.aggregate(&all).len(), 20, "20 MB of documents, none of them large");
}
