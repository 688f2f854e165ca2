//! A database in memory and short ways to say things.

use std::sync::Arc;
use std::time::Duration;

use arbor_bson::{ArrayBuf, Doc, DocBuf, Value, ValueRef};
use arbor_lang::Collation;
use arbor_query::{
    AggregateSpec, BatchLimit, CountSpec, Database, DeleteSpec, DeleteStatement, DistinctSpec, FindSpec, InsertOutcome,
    InsertSpec, Interrupt, Result, Scope, UpdateOutcome, UpdateSpec, UpdateStatement, Verbosity,
};
use arbor_store::{Namespace, Store, StoreOptions};
use arbor_txn::{Durability, Retention};

pub(crate) struct Rig {
    pub database: Database,
    pub ns: Namespace,
    /// Collation of the statements; `None`: they name none.
    pub collation: Option<Collation>,
}

pub(crate) fn rig() -> Rig {
    let store = arbor_store::testing::store().unwrap();
    let transactions = store.transactions().clone();
    Rig { database: Database::new(store, transactions), ns: Namespace::parse("db.c").unwrap(), collation: None }
}

/// One whose changes are noted, as on a replica set.
pub(crate) fn rig_with_history() -> Rig {
    let history = Retention { bytes: 1 << 30, time: Duration::from_secs(3600) };
    rig_with(arbor_txn::Options { history: Some(history), ..arbor_txn::Options::default() })
}

pub(crate) fn rig_with(options: arbor_txn::Options) -> Rig {
    let transactions = arbor_txn::testing::InMemory::new(options).unwrap().transactions;
    let store = Arc::new(Store::open(transactions.clone(), StoreOptions::default()).unwrap());
    Rig { database: Database::new(store, transactions), ns: Namespace::parse("db.c").unwrap(), collation: None }
}

impl Rig {
    pub(crate) fn scope(&self) -> Scope<'_> {
        Scope::of(&self.database)
    }

    pub(crate) fn insert(&self, docs: &[DocBuf]) -> InsertOutcome {
        self.insert_with(docs, true)
    }

    pub(crate) fn insert_with(&self, docs: &[DocBuf], ordered: bool) -> InsertOutcome {
        let documents = docs.iter().map(DocBuf::as_doc).collect();
        let spec = InsertSpec {
            namespace: self.ns.clone(),
            documents,
            ordered,
            durability: Durability::Journaled,
            bypass_validation: false,
        };
        arbor_query::insert(&self.scope(), &spec, &Interrupt::never()).unwrap()
    }

    /// Requires documents that can be inserted.
    pub(crate) fn fill(&self, docs: &[DocBuf]) {
        let outcome = self.insert(docs);
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    }

    pub(crate) fn fill_into(&self, namespace: &str, docs: &[DocBuf]) {
        let spec = InsertSpec {
            namespace: Namespace::parse(namespace).unwrap(),
            documents: docs.iter().map(DocBuf::as_doc).collect(),
            ordered: true,
            durability: Durability::Applied,
            bypass_validation: false,
        };
        let outcome = arbor_query::insert(&self.scope(), &spec, &Interrupt::never()).unwrap();
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    }

    /// `"a, -b"`; the name is the text itself.
    pub(crate) fn index(&self, fields: &str) {
        self.index_with(fields, DocBuf::new());
    }

    /// `-` is descending, `#` hashed. The index is named by the text.
    pub(crate) fn index_with(&self, fields: &str, options: DocBuf) {
        let kind = |field: &str| match field.chars().next() {
            Some('#') => Value::String("hashed".to_owned()),
            Some('-') => Value::Int32(-1),
            _ => Value::Int32(1),
        };
        let mut key = DocBuf::new();
        for field in fields.split(',').map(str::trim) {
            key.append(field.trim_start_matches(['-', '#']), &kind(field));
        }
        let mut spec = DocBuf::new().with("key", &key).with("name", fields);
        for (name, value) in options.as_doc() {
            spec.append(name, value);
        }
        self.database.store.create_indexes(&self.ns, &[spec]).unwrap();
    }

    pub(crate) fn find_spec<'s>(&self, filter: &'s DocBuf) -> FindSpec<'s> {
        FindSpec { filter: filter.as_doc(), collation: self.collation.clone(), ..FindSpec::new(self.ns.clone()) }
    }

    pub(crate) fn run(&self, spec: &FindSpec<'_>) -> Vec<DocBuf> {
        arbor_query::find(&self.scope(), spec, &Interrupt::never()).unwrap().all(&Interrupt::never()).unwrap()
    }

    pub(crate) fn run_in_batches(&self, spec: &FindSpec<'_>, docs: usize) -> Vec<DocBuf> {
        let mut cursor = arbor_query::find(&self.scope(), spec, &Interrupt::never()).unwrap();
        let mut all = Vec::new();
        loop {
            let batch = cursor.next_batch(BatchLimit::docs(docs), &Interrupt::never()).unwrap();
            all.extend(batch.docs.as_array().iter().filter_map(|value| match value {
                ValueRef::Document(doc) => Some(doc.to_buf()),
                _ => None,
            }));
            if batch.exhausted {
                return all;
            }
        }
    }

    pub(crate) fn find(&self, filter: &DocBuf) -> Vec<DocBuf> {
        self.run(&self.find_spec(filter))
    }

    pub(crate) fn ids(&self, filter: &DocBuf) -> Vec<String> {
        ids(&self.find(filter))
    }

    pub(crate) fn count(&self, filter: &DocBuf) -> u64 {
        let (namespace, collation) = (self.ns.clone(), self.collation.clone());
        let spec = CountSpec { namespace, query: filter.as_doc(), skip: 0, limit: None, hint: None, collation };
        arbor_query::count(&self.scope(), &spec, &Interrupt::never()).unwrap()
    }

    pub(crate) fn distinct(&self, key: &str, filter: &DocBuf) -> Vec<Value> {
        let (namespace, collation) = (self.ns.clone(), self.collation.clone());
        let spec = DistinctSpec { namespace, key, query: filter.as_doc(), hint: None, collation };
        let values = arbor_query::distinct(&self.scope(), &spec, &Interrupt::never()).unwrap();
        values.as_array().iter().map(ValueRef::to_value).collect()
    }

    pub(crate) fn delete(&self, filter: &DocBuf, multi: bool) -> u64 {
        let spec = DeleteSpec {
            namespace: self.ns.clone(),
            deletes: vec![DeleteStatement { q: filter.as_doc(), multi, hint: None, collation: self.collation.clone() }],
            ordered: true,
            let_variables: None,
            durability: Durability::Applied,
        };
        let outcome = arbor_query::delete(&self.scope(), &spec, &Interrupt::never()).unwrap();
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
        outcome.deleted
    }

    pub(crate) fn update_spec<'s>(&self, updates: Vec<UpdateStatement<'s>>) -> UpdateSpec<'s> {
        UpdateSpec {
            namespace: self.ns.clone(),
            updates,
            ordered: true,
            let_variables: None,
            durability: Durability::Applied,
            bypass_validation: false,
        }
    }

    pub(crate) fn update(&self, statement: UpdateStatement<'_>) -> UpdateOutcome {
        arbor_query::update(&self.scope(), &self.update_spec(vec![statement]), &Interrupt::never()).unwrap()
    }

    pub(crate) fn try_aggregate(&self, stages: &[DocBuf]) -> Result<Vec<DocBuf>> {
        let pipeline: ArrayBuf = stages.iter().collect();
        let cursor = arbor_query::aggregate(&self.scope(), &self.pipeline(&pipeline), &Interrupt::never())?;
        cursor.all(&Interrupt::never())
    }

    pub(crate) fn aggregate(&self, stages: &[DocBuf]) -> Vec<String> {
        self.try_aggregate(stages).unwrap().iter().map(|doc| doc.as_doc().to_string()).collect()
    }

    pub(crate) fn pipeline<'s>(&self, pipeline: &'s ArrayBuf) -> AggregateSpec<'s> {
        AggregateSpec {
            namespace: self.ns.clone(),
            collectionless: false,
            pipeline: pipeline.as_array(),
            hint: None,
            collation: self.collation.clone(),
            let_variables: None,
            durability: Durability::Applied,
            allow_disk_use: true,
            bypass_validation: false,
        }
    }

    /// Returns the collation of its statements.
    pub(crate) fn effective_collation(&self) -> Collation {
        let own = || self.database.store.collection(&self.ns).map(|own| own.collation.clone()).unwrap_or_default();
        self.collation.clone().unwrap_or_else(own)
    }

    pub(crate) fn docs(&self) -> Vec<String> {
        self.find(&DocBuf::new()).iter().map(|doc| doc.as_doc().to_string()).collect()
    }

    pub(crate) fn explain(&self, spec: FindSpec<'_>) -> DocBuf {
        let spec = arbor_query::ExplainSpec::Find(spec);
        arbor_query::explain(&self.scope(), &spec, Verbosity::AllPlansExecution, &Interrupt::never()).unwrap()
    }

    pub(crate) fn check_valid(&self) {
        let report = self.database.store.validate(&self.ns, true).unwrap();
        assert!(report.is_valid(), "{:#?}", report.problems);
    }
}

pub(crate) fn ids(docs: &[DocBuf]) -> Vec<String> {
    docs.iter().map(|doc| doc.get("_id").map(|id| id.to_string()).unwrap_or_default()).collect()
}

pub(crate) fn doc<'v, V: Into<ValueRef<'v>>>(name: &str, value: V) -> DocBuf {
    DocBuf::new().with(name, value)
}

pub(crate) fn array<'v, V: Into<ValueRef<'v>>>(values: impl IntoIterator<Item = V>) -> Value {
    Value::Array(values.into_iter().collect::<ArrayBuf>())
}

/// The value at a path through documents and, by position, arrays.
pub(crate) fn at<'d>(doc: &'d DocBuf, path: &str) -> ValueRef<'d> {
    let mut value = ValueRef::Document(doc.as_doc());
    for name in path.split('.') {
        let inner: Doc<'d> = match value {
            ValueRef::Document(doc) => doc,
            ValueRef::Array(array) => array.as_doc(),
            _ => panic!("{path}: {value} has no {name}"),
        };
        value = inner.get(name).unwrap_or_else(|| panic!("{path}: no {name} in {inner}"));
    }
    value
}

/// One document, not an upsert.
pub(crate) fn statement<'s>(q: &'s DocBuf, u: &'s DocBuf) -> UpdateStatement<'s> {
    UpdateStatement::new(q.as_doc(), u.into())
}
