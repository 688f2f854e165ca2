//! Statements inside of a transaction: what they see of it, what others see, and statements over a view of the past.

use std::sync::Arc;

use crate::support::{Rig, rig, rig_with};
use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
use arbor_lang::Code;
use arbor_notation::{doc, show};
use arbor_query::{
    BatchLimit, Change, CountSpec, DeleteSpec, DeleteStatement, DistinctSpec, Error, FindAndModifySpec, FindSpec,
    InsertSpec, Interrupt, Result, Scope, UpdateOutcome, UpdateStatement,
};
use arbor_store::{Namespace, OpenTransaction};
use arbor_txn::{Durability, MaybeConflict};

const NEVER: fn() -> Interrupt = Interrupt::never;

fn begin(rig: &Rig) -> OpenTransaction {
    OpenTransaction::begin(&rig.database.store).unwrap()
}

fn within<'s>(rig: &'s Rig, open: &'s OpenTransaction) -> Scope<'s> {
    rig.scope().in_transaction(open)
}

fn insert(rig: &Rig, scope: &Scope<'_>, docs: &[DocBuf]) -> Result<Vec<usize>> {
    let spec = InsertSpec {
        namespace: rig.ns.clone(),
        documents: docs.iter().map(DocBuf::as_doc).collect(),
        ordered: false,
        durability: Durability::Journaled,
        bypass_validation: false,
    };
    let outcome = arbor_query::insert(scope, &spec, &NEVER())?;
    assert_eq!(outcome.inserted as usize + outcome.errors.len(), docs.len());
    Ok(outcome.errors.iter().map(|error| error.index).collect())
}

fn update(rig: &Rig, scope: &Scope<'_>, q: &str, u: &str, multi: bool, upsert: bool) -> Result<UpdateOutcome> {
    let (q, u) = (doc(q), doc(u));
    let statement =
        UpdateStatement { multi, upsert, ..UpdateStatement::new(q.as_doc(), ValueRef::Document(u.as_doc())) };
    arbor_query::update(scope, &rig.update_spec(vec![statement]), &NEVER())
}

fn delete(rig: &Rig, scope: &Scope<'_>, q: &str, multi: bool) -> Result<u64> {
    let q = doc(q);
    let spec = DeleteSpec {
        namespace: rig.ns.clone(),
        deletes: vec![DeleteStatement { q: q.as_doc(), multi, hint: None, collation: None }],
        ordered: true,
        let_variables: None,
        durability: Durability::Applied,
    };
    Ok(arbor_query::delete(scope, &spec, &NEVER())?.deleted)
}

fn texts(docs: &[DocBuf]) -> Vec<String> {
    docs.iter().map(|doc| show(doc.into())).collect()
}

fn find(rig: &Rig, scope: &Scope<'_>, filter: &str) -> Vec<String> {
    let filter = doc(filter);
    texts(&arbor_query::find(scope, &rig.find_spec(&filter), &NEVER()).unwrap().all(&NEVER()).unwrap())
}

fn aggregate(rig: &Rig, scope: &Scope<'_>, stages: &[&str]) -> Result<Vec<String>> {
    let stages: Vec<DocBuf> = stages.iter().map(|stage| doc(stage)).collect();
    let pipeline: ArrayBuf = stages.iter().collect();
    Ok(texts(&arbor_query::aggregate(scope, &rig.pipeline(&pipeline), &NEVER())?.all(&NEVER())?))
}

fn code<T>(result: Result<T>) -> i32 {
    match result {
        Err(Error::Lang(error)) => error.code.0,
        Err(Error::Store(arbor_store::Error::SnapshotUnavailable(_))) => 246,
        Err(Error::Store(arbor_store::Error::NotInTransaction(_))) => 263,
        Err(error) if error.is_conflict() => 112,
        Err(error) => panic!("{error}"),
        Ok(_) => 0,
    }
}

#[test]
fn only_the_transaction_sees_its_writes() {
    let rig = rig();
    rig.fill(&[doc("{_id: 1, n: 1}"), doc("{_id: 2, n: 2}")]);
    rig.index("n");
    let open = begin(&rig);
    let own = &within(&rig, &open);
    insert(&rig, own, &[doc("{_id: 3, n: 3}")]).unwrap();
    let updated = update(&rig, own, "{_id: 1}", "{$set: {n: 5}}", false, false).unwrap();
    assert_eq!((updated.matched, updated.modified), (1, 1));
    assert_eq!(delete(&rig, own, "{_id: 2}", false).unwrap(), 1);
    let mine = ["{ _id: 1, n: 5 }", "{ _id: 3, n: 3 }"];
    assert_eq!(find(&rig, own, "{}"), mine);
    assert_eq!(find(&rig, own, "{_id: 1}"), &mine[..1]);
    assert_eq!(find(&rig, own, "{n: {$gt: 4}}"), &mine[..1]);
    assert!(find(&rig, own, "{_id: 2}").is_empty());
    assert_eq!(aggregate(&rig, own, &["{$group: {_id: null, s: {$sum: '$n'}}}"]).unwrap(), ["{ _id: null, s: 8 }"]);
    let every = DocBuf::new();
    let count = CountSpec {
        namespace: rig.ns.clone(),
        query: every.as_doc(),
        skip: 0,
        limit: None,
        hint: None,
        collation: None,
    };
    assert_eq!(arbor_query::count(own, &count, &NEVER()).unwrap(), 2);
    let distinct =
        DistinctSpec { namespace: rig.ns.clone(), key: "n", query: every.as_doc(), hint: None, collation: None };
    assert_eq!(arbor_query::distinct(own, &distinct, &NEVER()).unwrap().len(), 2);
    // no other reader sees any of it, before the commit or with a snapshot from before
    let before = begin(&rig);
    let theirs = ["{ _id: 1, n: 1 }", "{ _id: 2, n: 2 }"];
    assert_eq!(find(&rig, &within(&rig, &before), "{}"), theirs);
    assert_eq!(find(&rig, &rig.scope(), "{}"), theirs);
    open.commit(Durability::Applied).unwrap();
    assert_eq!(find(&rig, &within(&rig, &before), "{}"), theirs);
    assert_eq!(find(&rig, &within(&rig, &before), "{n: {$gt: 1}}"), &theirs[1..]);
    assert_eq!(find(&rig, &rig.scope(), "{}"), mine);
}

#[test]
fn a_cursor_keeps_what_it_began_with() {
    let rig = rig();
    rig.fill(&(0..10).map(|id| DocBuf::new().with("_id", id).with("n", id)).collect::<Vec<_>>());
    let open = begin(&rig);
    let own = &within(&rig, &open);
    insert(&rig, own, &[doc("{_id: 10, n: 10}")]).unwrap();
    let every = DocBuf::new();
    let mut cursor = arbor_query::find(own, &rig.find_spec(&every), &NEVER()).unwrap();
    let first = cursor.next_batch(BatchLimit::docs(3), &NEVER()).unwrap();
    assert_eq!(first.docs.len(), 3);
    delete(&rig, own, "{_id: {$gte: 5}}", true).unwrap();
    insert(&rig, own, &[doc("{_id: 20}")]).unwrap();
    let rest = cursor.next_batch(BatchLimit::more(), &NEVER()).unwrap();
    assert_eq!((rest.docs.len(), rest.exhausted), (8, true));
    assert_eq!(find(&rig, own, "{}").len(), 6);
}

#[test]
fn an_update_of_many_changes_no_document_twice() {
    let rig = rig();
    let docs: Vec<DocBuf> = (0..2500).map(|id| DocBuf::new().with("_id", id).with("n", id)).collect();
    rig.fill(&docs[..1500]);
    rig.index("n");
    let open = begin(&rig);
    let own = &within(&rig, &open);
    insert(&rig, own, &docs[1500..]).unwrap();
    // every document moves ahead in the index that is scanned, twice
    for _ in 0..2 {
        let updated = update(&rig, own, "{n: {$gte: 0}}", "{$inc: {n: 1000}}", true, false).unwrap();
        assert_eq!((updated.matched, updated.modified), (2500, 2500));
    }
    let sum = ["{$group: {_id: null, s: {$sum: '$n'}}}"];
    let expected = (0..2500i32).sum::<i32>() + 2500 * 2000;
    assert_eq!(aggregate(&rig, own, &sum).unwrap(), [format!("{{ _id: null, s: {expected} }}")]);
    assert_eq!(delete(&rig, own, "{n: {$gte: 4000}}", true).unwrap(), 500);
    open.commit(Durability::Applied).unwrap();
    assert_eq!(rig.count(&DocBuf::new()), 2000);
    assert!(rig.database.store.validate(&rig.ns, true).unwrap().is_valid());
}

#[test]
fn upserts_and_find_and_modify_work_on_what_the_transaction_has() {
    let rig = rig();
    let open = begin(&rig);
    let own = &within(&rig, &open);
    // the collection comes with the first upsert
    for expected in [1, 0] {
        let updated = update(&rig, own, "{_id: 7}", "{$inc: {n: 1}}", false, true).unwrap();
        assert_eq!(updated.upserted.len(), expected);
    }
    let many = update(&rig, own, "{k: 1}", "{$inc: {n: 1}}", true, true).unwrap();
    assert_eq!(many.upserted.len(), 1);
    let again = update(&rig, own, "{k: 1}", "{$inc: {n: 1}}", true, true).unwrap();
    assert_eq!((again.upserted.len(), again.modified), (0, 1));
    let (query, inc) = (doc("{_id: 7}"), doc("{$inc: {n: 1}}"));
    let find_and_modify = |change: Change<'_>| {
        let spec = FindAndModifySpec {
            namespace: rig.ns.clone(),
            query: query.as_doc(),
            sort: None,
            fields: None,
            change,
            hint: None,
            collation: None,
            let_variables: None,
            durability: Durability::Applied,
            bypass_validation: false,
            tentative: false,
        };
        arbor_query::find_and_modify(own, &spec, &NEVER()).unwrap().value.map(|doc| show((&doc).into()))
    };
    let change = Change::Update {
        update: ValueRef::Document(inc.as_doc()),
        upsert: true,
        return_new: true,
        array_filters: vec![],
    };
    assert_eq!(find_and_modify(change).unwrap(), "{ _id: 7, n: 3 }");
    assert_eq!(find_and_modify(Change::Remove).unwrap(), "{ _id: 7, n: 3 }");
    assert!(find_and_modify(Change::Remove).is_none());
    assert!(rig.database.store.collection(&rig.ns).is_none());
    open.commit(Durability::Journaled).unwrap();
    assert_eq!(rig.count(&DocBuf::new()), 1);
}

#[test]
fn joins_read_the_other_collection_in_the_transaction() {
    let rig = rig();
    rig.fill(&[doc("{_id: 1, k: 1}")]);
    rig.fill_into("db.old", &[doc("{_id: 5, k: 1}")]);
    let open = begin(&rig);
    let own = &within(&rig, &open);
    let others = |scope: &Scope<'_>, from: &str| {
        let plain = format!("{{$lookup: {{from: '{from}', localField: 'k', foreignField: 'k', as: 'found'}}}}");
        let inner = format!(
            "{{$lookup: {{from: '{from}', let: {{k: '$k'}}, as: 'found', \
             pipeline: [{{$match: {{$expr: {{$eq: ['$k', '$$k']}}}}}}]}}}}"
        );
        let graph = format!(
            "{{$graphLookup: {{from: '{from}', startWith: '$k', connectFromField: 'x', connectToField: 'k', as: 'found'}}}}"
        );
        let project = "{$project: {_id: 0, ids: '$found._id'}}";
        let found: Vec<_> =
            [plain, inner, graph].iter().map(|stage| aggregate(&rig, scope, &[stage, project]).unwrap()).collect();
        assert!(found.iter().all(|one| *one == found[0]), "{found:?}");
        found[0].clone()
    };
    let into = |namespace: &str, docs: &[DocBuf]| {
        let spec = InsertSpec {
            namespace: Namespace::parse(namespace).unwrap(),
            documents: docs.iter().map(DocBuf::as_doc).collect(),
            ordered: true,
            durability: Durability::Applied,
            bypass_validation: false,
        };
        assert!(arbor_query::insert(own, &spec, &NEVER()).unwrap().errors.is_empty());
    };
    into("db.old", &[doc("{_id: 6, k: 1}")]);
    into("db.fresh", &[doc("{_id: 9, k: 1}")]);
    assert_eq!(others(own, "old"), ["{ ids: [5, 6] }"]);
    assert_eq!(others(own, "fresh"), ["{ ids: [9] }"]);
    assert_eq!(others(&rig.scope(), "old"), ["{ ids: [5] }"]);
    assert_eq!(others(&rig.scope(), "fresh"), ["{ ids: [] }"]);
    // what was dropped meanwhile is still there in the snapshot
    rig.database.store.drop_collection(&Namespace::parse("db.old").unwrap()).unwrap();
    assert_eq!(others(own, "old"), ["{ ids: [5, 6] }"]);
    let union = aggregate(&rig, own, &["{$unionWith: 'fresh'}", "{$project: {_id: 1}}"]).unwrap();
    assert_eq!(union, ["{ _id: 1 }", "{ _id: 9 }"]);
}

#[test]
fn conflicts_and_what_has_no_place_in_a_transaction_are_errors_of_the_statement() {
    let rig = rig();
    rig.fill(&[doc("{_id: 1, n: 1}")]);
    let (open, rival) = (begin(&rig), begin(&rig));
    let (own, other) = (&within(&rig, &open), &within(&rig, &rival));
    update(&rig, own, "{_id: 1}", "{$inc: {n: 1}}", false, false).unwrap();
    assert_eq!(code(update(&rig, other, "{_id: 1}", "{$inc: {n: 1}}", false, false)), 112);
    assert_eq!(code(update(&rig, other, "{}", "{$inc: {n: 1}}", true, false)), 112);
    assert_eq!(code(delete(&rig, other, "{}", true)), 112);
    insert(&rig, own, &[doc("{_id: 2}")]).unwrap();
    assert_eq!(code(insert(&rig, other, &[doc("{_id: 2}")])), 112);
    // a duplicate is one of the document
    assert_eq!(insert(&rig, own, &[doc("{_id: 2}"), doc("{_id: 3}")]).unwrap(), [0]);
    for stage in ["{$out: 'x'}", "{$merge: 'x'}"] {
        assert_eq!(code(aggregate(&rig, own, &[stage])), Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION.0);
    }
    let open = begin(&rig);
    rig.index("n");
    let late = &within(&rig, &open);
    assert_eq!(code(arbor_query::find(late, &FindSpec::new(rig.ns.clone()), &NEVER())), 246);
    assert_eq!(code(insert(&rig, late, &[doc("{_id: 5}")])), 246);
    let capped = Namespace::parse("db.capped").unwrap();
    rig.database.store.create_collection(&capped, &doc("{capped: true, size: 4096}")).unwrap();
    let into_capped = Rig {
        ns: capped,
        database: arbor_query::Database::new(rig.database.store.clone(), rig.database.transactions.clone()),
        collation: None,
    };
    let open = begin(&rig);
    assert_eq!(code(insert(&into_capped, &within(&rig, &open), &[doc("{_id: 1}")])), 263);
}

#[test]
fn statements_over_a_view_read_the_past() {
    let rig = rig();
    rig.fill(&[doc("{_id: 1, n: 1}")]);
    rig.index("n");
    let view = rig.database.transactions.read().unwrap();
    rig.fill(&[doc("{_id: 2, n: 2}")]);
    rig.index("m");
    let then = || rig.scope().at(&view);
    let shown = ["{ _id: 1, n: 1 }"];
    let check = || {
        for filter in ["{}", "{_id: 1}", "{n: {$gte: 0}}", "{m: null}"] {
            assert_eq!(find(&rig, &then(), filter), shown, "{filter}");
        }
        assert!(find(&rig, &then(), "{_id: 2}").is_empty());
        let join = [
            "{$lookup: {from: 'c', localField: 'x', foreignField: 'm', as: 'all'}}",
            "{$project: {c: {$size: '$all'}}}",
        ];
        assert_eq!(aggregate(&rig, &then(), &join).unwrap(), ["{ _id: 1, c: 1 }"]);
    };
    check();
    rig.database.store.drop_collection(&rig.ns).unwrap();
    check();
    rig.fill(&[doc("{_id: 1, n: 7}")]);
    check();
    let every = DocBuf::new();
    let count = CountSpec {
        namespace: rig.ns.clone(),
        query: every.as_doc(),
        skip: 0,
        limit: None,
        hint: None,
        collation: None,
    };
    assert_eq!(arbor_query::count(&then(), &count, &NEVER()).unwrap(), 1);
}

#[test]
fn a_pipeline_over_a_view_writes_to_the_present() {
    let rig = rig();
    rig.fill(&[doc("{_id: 1, n: 1}")]);
    let view = rig.database.transactions.read().unwrap();
    rig.fill(&[doc("{_id: 2, n: 2}")]);
    for stage in ["{$merge: {into: 'merged'}}", "{$out: 'replaced'}"] {
        aggregate(&rig, &rig.scope().at(&view), &[stage]).unwrap();
    }
    for written in ["db.merged", "db.replaced"] {
        let database = arbor_query::Database::new(rig.database.store.clone(), rig.database.transactions.clone());
        let rig = Rig { ns: Namespace::parse(written).unwrap(), database, collation: None };
        assert_eq!(find(&rig, &rig.scope(), "{}"), ["{ _id: 1, n: 1 }"], "{written}");
    }
}

#[test]
#[should_panic(expected = "R: writes at a past view are refused")]
fn a_view_of_the_past_takes_no_writes() {
    let rig = rig();
    let view = rig.database.transactions.read().unwrap();
    let _ = insert(&rig, &rig.scope().at(&view), &[doc("{_id: 1}")]);
}

#[test]
fn a_transaction_moves_between_threads_with_its_cursors() {
    let rig = rig();
    rig.fill(&(0..200).map(|id| DocBuf::new().with("_id", id)).collect::<Vec<_>>());
    let open = Arc::new(begin(&rig));
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let (rig, open) = (&rig, open.clone());
            threads.spawn(move || {
                let own = within(rig, &open);
                let docs: Vec<DocBuf> = (0..50).map(|n| DocBuf::new().with("_id", 1000 + thread * 100 + n)).collect();
                docs.chunks(10).for_each(|docs| assert!(insert(rig, &own, docs).unwrap().is_empty()));
                assert!(find(rig, &own, "{}").len() >= 250);
            });
        }
    });
    assert_eq!(find(&rig, &within(&rig, &open), "{}").len(), 400);
    Arc::into_inner(open).unwrap().commit(Durability::Applied).unwrap();
    assert_eq!(rig.count(&DocBuf::new()), 400);
}

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Runs one random statement; returns the result as text.
fn any_statement(rig: &Rig, scope: &Scope<'_>, dice: &mut Dice) -> String {
    let (id, n) = (dice.below(30), dice.below(20));
    let filter = match dice.below(4) {
        0 => format!("{{_id: {id}}}"),
        1 => format!("{{n: {{$gte: {n}}}}}"),
        2 => format!("{{u: {n}}}"),
        _ => format!("{{n: {{$lt: {n}}}, _id: {{$gt: {id}}}}}"),
    };
    let updated = |outcome: UpdateOutcome| {
        let UpdateOutcome { matched, modified, upserted, errors, .. } = outcome;
        format!("{matched} {modified} {} {}", upserted.len(), errors.len())
    };
    match dice.below(8) {
        0 | 1 => {
            let docs = [0, 1, 2].map(|more| doc(&format!("{{_id: {}, n: {n}, u: {}}}", id + more, id + 100 * more)));
            format!("{:?}", insert(rig, scope, &docs).unwrap())
        }
        2 => updated(
            update(rig, scope, &filter, &format!("{{$inc: {{n: 7}}, $set: {{u: {id}}}}}"), false, false).unwrap(),
        ),
        3 => updated(update(rig, scope, &filter, "{$inc: {n: 5}}", true, false).unwrap()),
        4 => updated(update(rig, scope, &format!("{{_id: {id}}}"), "{$inc: {n: 1}}", false, true).unwrap()),
        5 => delete(rig, scope, &filter, dice.below(3) == 0).unwrap().to_string(),
        6 => {
            let group = "{$group: {_id: {$mod: ['$n', 3]}, c: {$sum: 1}, s: {$sum: '$n'}}}";
            let join = "{$lookup: {from: 'c', localField: 'n', foreignField: 'n', as: 'same'}}";
            let size = "{$project: {n: 1, same: {$size: '$same'}}}";
            let grouped =
                aggregate(rig, scope, &[&format!("{{$match: {filter}}}"), group, "{$sort: {_id: 1}}"]).unwrap();
            let joined =
                aggregate(rig, scope, &[&format!("{{$match: {filter}}}"), "{$sort: {_id: 1}}", join, size]).unwrap();
            format!("{grouped:?} {joined:?}")
        }
        _ => {
            let mut found = find(rig, scope, &filter);
            found.sort();
            format!("{found:?}")
        }
    }
}

/// Runs equal statements in one transaction and one by one.
#[test]
fn statements_answer_the_same_in_a_transaction_and_by_themselves() {
    for seed in 0..6 {
        let (alone, together) = (rig(), rig());
        for rig in [&alone, &together] {
            rig.fill(
                &(0..10).map(|id| DocBuf::new().with("_id", id).with("n", id * 2).with("u", id)).collect::<Vec<_>>(),
            );
            rig.index("n");
            rig.index_with("u", doc("{unique: true, sparse: true}"));
        }
        let untouched = find(&together, &together.scope(), "{}");
        let (mut first, mut second) = (Dice(seed), Dice(seed));
        let open = begin(&together);
        for step in 0..150 {
            let expected = any_statement(&alone, &alone.scope(), &mut first);
            let answer = any_statement(&together, &within(&together, &open), &mut second);
            assert_eq!(answer, expected, "seed {seed}, step {step}");
        }
        assert_eq!(find(&together, &together.scope(), "{}"), untouched);
        open.commit(Durability::Applied).unwrap();
        assert_eq!(find(&together, &together.scope(), "{}"), find(&alone, &alone.scope(), "{}"), "seed {seed}");
        assert!(together.database.store.validate(&together.ns, true).unwrap().is_valid());
    }
}

#[test]
fn the_statement_that_makes_a_transaction_too_large_fails() {
    let rig = rig_with(arbor_txn::Options { transaction_bytes_max: 100_000, ..arbor_txn::Options::default() });
    rig.insert(&[doc("{_id: 0}")]);
    let open = begin(&rig);
    let large = |id: i32| DocBuf::new().with("_id", id).with("pad", "x".repeat(30_000).as_str());
    for id in 1..=3 {
        assert_eq!(insert(&rig, &within(&rig, &open), &[large(id)]).unwrap(), [0usize; 0]);
    }
    let error = insert(&rig, &within(&rig, &open), &[large(4)]).unwrap_err();
    assert!(matches!(error, Error::Txn(arbor_txn::Error::TooLarge { bytes_max: 100_000, .. })), "{error}");
    open.abort();
    assert_eq!(find(&rig, &rig.scope(), "{}").len(), 1);
}
