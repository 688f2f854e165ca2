//! Statements that are sent again get their reply from the journal and are not run.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::support::{Rig, rig};
use arbor_bson::{DocBuf, ValueRef};
use arbor_notation::{doc, show};
use arbor_query::{
    Change, DeleteSpec, DeleteStatement, Error, Executed, FindAndModifySpec, InsertSpec, Interrupt, Result, Scope,
    StatementJournal, StatementNumbers, UpdateOutcome, UpdateSpec, UpdateStatement, WriteError,
};
use arbor_txn::{Durability, Transaction};

/// A journal in memory, which forgets nothing.
#[derive(Default)]
struct Journal(Mutex<BTreeMap<i32, Executed>>);

impl StatementJournal for Journal {
    fn executed(&self, statement: i32) -> Result<Option<Executed>> {
        Ok(self.0.lock().unwrap().get(&statement).cloned())
    }

    fn record(&self, _txn: &mut Transaction, executed: &[(i32, &Executed)]) -> Result<()> {
        self.0.lock().unwrap().extend(executed.iter().map(|(statement, executed)| (*statement, (*executed).clone())));
        Ok(())
    }
}

impl Journal {
    fn numbers(&self) -> Vec<i32> {
        self.0.lock().unwrap().keys().copied().collect()
    }
}

fn retryable<'s>(rig: &'s Rig, journal: &'s Journal) -> Scope<'s> {
    rig.scope().retryable(journal)
}

fn update(rig: &Rig, scope: Scope<'_>, statements: &[(&DocBuf, &DocBuf, bool)]) -> UpdateOutcome {
    let mut updates = Vec::new();
    for (q, u, upsert) in statements {
        let statement = UpdateStatement::new(q.as_doc(), ValueRef::Document(u.as_doc()));
        updates.push(UpdateStatement { upsert: *upsert, ..statement });
    }
    let spec = UpdateSpec { ordered: false, ..rig.update_spec(updates) };
    arbor_query::update(&scope, &spec, &Interrupt::never()).unwrap()
}

fn texts(docs: &[DocBuf]) -> Vec<String> {
    docs.iter().map(|doc| show(doc.into())).collect()
}

fn codes(errors: &[WriteError]) -> Vec<(usize, i32)> {
    let code = |error: &Error| match error {
        Error::Lang(error) => error.code.0,
        _ => 0,
    };
    errors.iter().map(|error| (error.index, code(&error.error))).collect()
}

#[test]
fn inserts_that_ran_are_counted_and_not_run() {
    let (rig, journal) = (rig(), Journal::default());
    let docs = [doc("{_id: 1}"), doc("{_id: 2}"), doc("{_id: 3}")];
    let spec = |count: usize| InsertSpec {
        namespace: rig.ns.clone(),
        documents: docs.iter().take(count).map(DocBuf::as_doc).collect(),
        ordered: true,
        durability: Durability::Applied,
        bypass_validation: false,
    };
    let scope = retryable(&rig, &journal);
    assert_eq!(arbor_query::insert(&scope, &spec(2), &Interrupt::never()).unwrap().inserted, 2);
    let again = arbor_query::insert(&scope, &spec(3), &Interrupt::never()).unwrap();
    assert_eq!((again.inserted, again.errors.len()), (3, 0));
    assert_eq!((rig.count(&DocBuf::new()), journal.numbers()), (3, vec![0, 1, 2]));
}

#[test]
fn updates_and_upserts_that_ran_are_answered() {
    let (rig, journal) = (rig(), Journal::default());
    rig.fill(&[doc("{_id: 1, n: 0 }")]);
    let (one, nine, none) = (doc("{_id: 1}"), doc("{_id: 9}"), doc("{_id: 7}"));
    let inc = doc("{$inc: {n: 1}}");
    let statements = [(&one, &inc, false), (&nine, &inc, true), (&none, &inc, false)];
    for _ in 0..2 {
        let scope = retryable(&rig, &journal).numbered(StatementNumbers::Listed(&[4, 6, 8]));
        let outcome = update(&rig, scope, &statements);
        assert_eq!((outcome.matched, outcome.modified, outcome.upserted.len()), (1, 1, 1));
        assert_eq!(outcome.upserted[0].index, 1);
        // what changed nothing is not remembered
        assert_eq!(journal.numbers(), [4, 6]);
    }
    assert_eq!(texts(&rig.find(&DocBuf::new())), ["{ _id: 1, n: 1 }", "{ _id: 9, n: 1 }"]);
    // other numbers are other statements, which see what those before them in the transaction did
    let twice = [(&one, &inc, false), (&one, &inc, false)];
    update(&rig, retryable(&rig, &journal).numbered(StatementNumbers::From(10)), &twice);
    update(&rig, retryable(&rig, &journal).numbered(StatementNumbers::From(9)).from_statement(1), &twice);
    assert_eq!(texts(&rig.find(&one)), ["{ _id: 1, n: 3 }"]);
}

#[test]
fn statements_about_many_documents_cannot_be_sent_again() {
    let (rig, journal) = (rig(), Journal::default());
    rig.fill(&[doc("{_id: 1, n: 0 }")]);
    let (all, inc) = (DocBuf::new(), doc("{$inc: {n: 1}}"));
    let one = UpdateStatement::new(all.as_doc(), ValueRef::Document(inc.as_doc()));
    let many = UpdateStatement { multi: true, ..one.clone() };
    let spec = UpdateSpec { ordered: false, ..rig.update_spec(vec![many, one]) };
    let outcome = arbor_query::update(&retryable(&rig, &journal), &spec, &Interrupt::never()).unwrap();
    assert_eq!((outcome.modified, codes(&outcome.errors)), (1, vec![(0, 72)]));
    let deletes = vec![DeleteStatement { q: all.as_doc(), multi: true, hint: None, collation: None }];
    let spec = DeleteSpec {
        namespace: rig.ns.clone(),
        deletes,
        ordered: true,
        let_variables: None,
        durability: Durability::Applied,
    };
    let outcome = arbor_query::delete(&retryable(&rig, &journal), &spec, &Interrupt::never()).unwrap();
    assert_eq!((outcome.deleted, codes(&outcome.errors)), (0, vec![(0, 72)]));
}

#[test]
fn a_delete_that_ran_is_answered() {
    let (rig, journal) = (rig(), Journal::default());
    rig.fill(&[doc("{_id: 1}"), doc("{_id: 2}")]);
    let all = DocBuf::new();
    let run = |first: i32| {
        let spec = DeleteSpec {
            namespace: rig.ns.clone(),
            deletes: vec![DeleteStatement { q: all.as_doc(), multi: false, hint: None, collation: None }],
            ordered: true,
            let_variables: None,
            durability: Durability::Applied,
        };
        let scope = retryable(&rig, &journal).numbered(StatementNumbers::From(first));
        arbor_query::delete(&scope, &spec, &Interrupt::never()).unwrap()
    };
    assert_eq!((run(0).deleted, run(0).deleted, rig.count(&all)), (1, 1, 1));
    assert_eq!((run(1).deleted, rig.count(&all)), (1, 0));
    // it was an insert, says the journal
    journal.0.lock().unwrap().insert(2, Executed::Inserted);
    assert_eq!(codes(&run(2).errors), [(0, 40606)]);
}

#[test]
fn find_and_modify_answers_its_image_again() {
    let (rig, journal) = (rig(), Journal::default());
    rig.fill(&[doc("{_id: 1, n: 0, big: 'x'}")]);
    let (query, inc, fields) = (doc("{_id: 1}"), doc("{$inc: {n: 1}}"), doc("{n: 1}"));
    for return_new in [false, true] {
        for _ in 0..2 {
            let spec = FindAndModifySpec {
                namespace: rig.ns.clone(),
                query: query.as_doc(),
                sort: None,
                fields: Some(fields.as_doc()),
                change: Change::Update {
                    update: ValueRef::Document(inc.as_doc()),
                    upsert: false,
                    return_new,
                    array_filters: Vec::new(),
                },
                hint: None,
                collation: None,
                let_variables: None,
                durability: Durability::Applied,
                bypass_validation: false,
                tentative: false,
            };
            let scope = retryable(&rig, &journal).numbered(StatementNumbers::From(i32::from(return_new)));
            let outcome = arbor_query::find_and_modify(&scope, &spec, &Interrupt::never()).unwrap();
            let shown = if return_new { "{ _id: 1, n: 2 }" } else { "{ _id: 1, n: 0 }" };
            assert_eq!((outcome.n, outcome.updated_existing), (1, true));
            assert_eq!(texts(outcome.value.as_slice()), [shown]);
        }
    }
    assert_eq!(texts(&rig.find(&query)), [r#"{ _id: 1, n: 2, big: "x" }"#]);
}
