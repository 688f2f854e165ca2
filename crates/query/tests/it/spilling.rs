//! Sorts and groups that do not fit into memory give the same as those that do.

use arbor_base::memory::{Budget, Class};
use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
use arbor_query::{AggregateSpec, BatchLimit, Cursor, ExplainSpec, FindSpec, Interrupt, Verbosity};

use crate::support::{Rig, at, doc, rig};

/// 3000 documents; `k` has 500 values, in no order.
fn filled(sort_bytes_max: usize, group_bytes_max: usize) -> Rig {
    let mut rig = rig();
    let document = |n: i32| {
        let k = n.wrapping_mul(7919).rem_euclid(500);
        DocBuf::new().with("_id", n).with("k", k).with("v", n % 13).with("t", "x".repeat((n % 40) as usize).as_str())
    };
    rig.fill(&(0..3000i32).map(document).collect::<Vec<_>>());
    rig.database.settings.sort_bytes_max = sort_bytes_max;
    rig.database.settings.group_bytes_max = group_bytes_max;
    rig
}

const LARGE: usize = 100 << 20;
const SMALL: usize = 20_000;

fn sorted(pattern: &[(&str, i32)]) -> DocBuf {
    doc("$sort", &pattern.iter().copied().collect::<DocBuf>())
}

#[test]
fn sorts() {
    let (spilling, in_memory) = (filled(SMALL, LARGE), filled(LARGE, LARGE));
    for stages in [
        vec![sorted(&[("k", 1)])],
        vec![sorted(&[("v", -1), ("k", 1), ("_id", -1)])],
        vec![sorted(&[("k", 1)]), doc("$skip", 100i32), doc("$limit", 2000i32)],
        vec![sorted(&[("k", -1)]), doc("$limit", 5i32)],
        vec![doc("$unset", "t"), sorted(&[("v", 1), ("k", -1)]), doc("$limit", 900i32)],
        vec![doc("$bucketAuto", &DocBuf::new().with("groupBy", "$k").with("buckets", 7i32))],
        vec![doc("$sortByCount", "$v")],
    ] {
        assert_eq!(spilling.aggregate(&stages), in_memory.aggregate(&stages), "{stages:?}");
    }
    let order = doc("k", 1i32);
    let every = DocBuf::new();
    let find = |rig: &Rig| {
        let spec = FindSpec { sort: Some(order.as_doc()), ..rig.find_spec(&every) };
        rig.run_in_batches(&spec, 77).iter().map(|doc| doc.as_doc().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(find(&spilling), find(&in_memory));
}

#[test]
fn a_sort_gives_its_memory_back_between_batches() {
    let mut rig = rig();
    let long = "x".repeat(4000);
    rig.fill(
        &(0..3000i32)
            .map(|n| DocBuf::new().with("_id", n).with("k", n * 7919 % 500).with("t", &*long))
            .collect::<Vec<_>>(),
    );
    let (order, every) = (doc("k", 1i32), DocBuf::new());
    let spec = |rig: &Rig| {
        arbor_query::find(
            &rig.scope(),
            &FindSpec { sort: Some(order.as_doc()), ..rig.find_spec(&every) },
            &Interrupt::never(),
        )
        .unwrap()
    };
    let expected = ids_of(&mut spec(&rig), usize::MAX);

    let budget: &'static Budget = Box::leak(Box::new(Budget::unlimited()));
    budget.set_limit(64 << 20);
    rig.database.settings.budget = budget;
    let mut cursor = spec(&rig);
    let mut all = ids_of(&mut cursor, 10);
    assert_eq!(budget.held(Class::Statement), 0, "12 MB of 40 were held");
    all.extend(ids_of(&mut cursor, 10));
    all.extend(ids_of(&mut cursor, usize::MAX));
    assert_eq!(all, expected);
}

/// Returns the ids of one batch, or of all that follow.
fn ids_of(cursor: &mut Cursor, docs: usize) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let batch = cursor.next_batch(BatchLimit::docs(docs), &Interrupt::never()).unwrap();
        ids.extend(batch.docs.as_array().iter().map(|doc| match doc {
            ValueRef::Document(doc) => format!("{:?}", doc.get("_id")),
            _ => String::new(),
        }));
        if batch.exhausted || docs < usize::MAX {
            return ids;
        }
    }
}

#[test]
fn groups() {
    let fields = [
        ("sum", doc("$sum", "$v")),
        ("avg", doc("$avg", "$v")),
        ("min", doc("$min", "$_id")),
        ("max", doc("$max", "$t")),
        ("first", doc("$first", "$_id")),
        ("last", doc("$last", "$_id")),
        ("all", doc("$push", "$_id")),
        ("set", doc("$addToSet", "$v")),
        ("dev", doc("$stdDevPop", "$v")),
        ("top", doc("$top", &DocBuf::new().with("sortBy", &doc("v", -1i32)).with("output", "$_id"))),
        ("few", doc("$lastN", &DocBuf::new().with("input", "$_id").with("n", 2i32))),
        ("mid", doc("$median", &DocBuf::new().with("input", "$_id").with("method", "approximate"))),
    ];
    let mut group = DocBuf::new().with("_id", "$k");
    for (name, accumulator) in &fields {
        group.append(name, accumulator);
    }
    let round = doc("$set", &doc("dev", &doc("$round", &array_of(&["$dev"], 6))));
    let stages = [doc("$group", &group), round, sorted(&[("_id", 1)])];
    let (spilling, in_memory) = (filled(LARGE, SMALL), filled(LARGE, LARGE));
    assert_eq!(spilling.aggregate(&stages), in_memory.aggregate(&stages));
    assert_eq!(spilling.aggregate(&stages).len(), 500);
}

fn array_of(paths: &[&str], place: i32) -> ArrayBuf {
    let mut array: ArrayBuf = paths.iter().copied().collect();
    array.push(place);
    array
}

#[test]
fn without_the_disk_they_are_refused() {
    let rig = filled(SMALL, SMALL);
    for stages in [
        vec![sorted(&[("k", 1)])],
        vec![doc("$group", &DocBuf::new().with("_id", "$k").with("all", &doc("$push", "$t")))],
    ] {
        let pipeline: ArrayBuf = stages.iter().collect();
        let spec = AggregateSpec { allow_disk_use: false, ..rig.pipeline(&pipeline) };
        let cursor = arbor_query::aggregate(&rig.scope(), &spec, &Interrupt::never());
        let error = cursor.and_then(|cursor| cursor.all(&Interrupt::never())).unwrap_err();
        assert!(error.to_string().contains("memory limit"), "{error}");
    }
    // top-k needs no more than its rows
    let few = [sorted(&[("k", 1)]), doc("$limit", 5i32)];
    let pipeline: ArrayBuf = few.iter().collect();
    let spec = AggregateSpec { allow_disk_use: false, ..rig.pipeline(&pipeline) };
    let mut cursor = arbor_query::aggregate(&rig.scope(), &spec, &Interrupt::never()).unwrap();
    assert_eq!(cursor.next_batch(BatchLimit::more(), &Interrupt::never()).unwrap().docs.len(), 5);
}

#[test]
fn one_group_that_does_not_fit_is_refused() {
    let rig = filled(LARGE, SMALL);
    let stages = [doc("$group", &DocBuf::new().with("_id", 1i32).with("all", &doc("$push", "$$ROOT")))];
    let error = rig.try_aggregate(&stages).unwrap_err();
    assert!(error.to_string().contains("cannot spill to disk"), "{error}");
}

#[test]
fn a_partition_that_does_not_fit_is_refused() {
    let rig = filled(LARGE, SMALL);
    let output = doc("n", &doc("$sum", 1i32));
    let whole = doc("$setWindowFields", &doc("output", &output));
    let error = rig.try_aggregate(&[whole]).unwrap_err();
    assert!(error.to_string().contains("Exceeded memory limit in DocumentSourceSetWindowFields"), "{error}");
    let bounds: ArrayBuf = ["unbounded", "current"].into_iter().collect();
    let running = DocBuf::new().with("$sum", 1i32).with("window", &doc("documents", &bounds));
    let running = DocBuf::new().with("sortBy", &doc("_id", 1i32)).with("output", &doc("n", &running));
    let last = [doc("$setWindowFields", &running), doc("$skip", 2999i32), doc("$project", &doc("n", 1i32))];
    assert_eq!(
        rig.aggregate(&last),
        ["{ _id: 2999, n: 3000 }"],
        "no function reads ahead, so rows are passed on at once"
    );
    let parted = doc("$setWindowFields", &DocBuf::new().with("partitionBy", "$k").with("output", &output));
    assert_eq!(rig.aggregate(&[parted, doc("$match", &doc("n", 6i32)), doc("$count", "c")]), ["{ c: 3000 }"]);
}

#[test]
fn explain_reports_disk_use() {
    let rig = filled(SMALL, SMALL);
    let explain = |stages: &[DocBuf]| {
        let pipeline: ArrayBuf = stages.iter().collect();
        let spec = ExplainSpec::Aggregate(rig.pipeline(&pipeline));
        arbor_query::explain(&rig.scope(), &spec, Verbosity::ExecutionStats, &Interrupt::never()).unwrap()
    };
    let stages = [
        doc("$unset", "t"),
        doc("$group", &DocBuf::new().with("_id", "$_id").with("k", &doc("$first", "$k"))),
        sorted(&[("k", 1)]),
        doc("$limit", 3i32),
        doc("$bucketAuto", &DocBuf::new().with("groupBy", "$k").with("buckets", 1i32)),
    ];
    let shown = explain(&stages);
    for (at_stage, returned, used_disk) in [(1, 3000, None), (2, 3000, Some(true)), (4, 3, None), (5, 1, Some(false))] {
        let path = |name: &str| format!("stages.{at_stage}.{name}");
        assert_eq!(at(&shown, &path("nReturned")).to_string(), returned.to_string(), "{shown:?}");
        if let Some(used_disk) = used_disk {
            assert_eq!(at(&shown, &path("usedDisk")).to_string(), used_disk.to_string(), "{shown:?}");
        }
    }
    assert_ne!(at(&shown, "stages.3.totalDataSizeSortedBytesEstimate").to_string(), "0");
    let pushed = explain(&[sorted(&[("k", 1)])]);
    assert_eq!(at(&pushed, "executionStats.executionStages.usedDisk").to_string(), "true");
    assert_ne!(at(&pushed, "executionStats.executionStages.spills").to_string(), "0");
}
