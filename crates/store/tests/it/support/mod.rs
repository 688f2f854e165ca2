//! A store over a commit path that can be crashed, and short ways to say things.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, Doc, DocBuf, Value, ValueRef, keystring};
use arbor_store::{
    Collection, Direction, IndexCursor, Namespace, RecordCursor, Result, Store, StoreOptions, UpdateKind,
};
use arbor_txn::testing::InMemory;
use arbor_txn::{Durability, Options, Transaction};

pub(crate) struct Rig {
    pub own: InMemory,
    pub store: Arc<Store>,
    pub ns: Namespace,
}

pub(crate) fn rig() -> Rig {
    Rig::over(InMemory::new(Options::default()).unwrap(), StoreOptions::default())
}

impl Rig {
    pub(crate) fn over(own: InMemory, options: StoreOptions) -> Rig {
        let store = Arc::new(Store::open(own.transactions.clone(), options).unwrap());
        Rig { own, store, ns: Namespace::new("test", "c").unwrap() }
    }

    /// The store after power was lost.
    pub(crate) fn crash(&self, seed: u64) -> Rig {
        let (disk, engine) = (self.own.disk.crash(seed), self.own.engine.crash());
        Rig::over(InMemory::open(disk, engine, Options::default()).unwrap(), StoreOptions::default())
    }

    pub(crate) fn collection(&self) -> Arc<Collection> {
        self.store.collection(&self.ns).unwrap()
    }

    pub(crate) fn write(&self, work: impl FnMut(&mut Transaction, &Collection) -> Result<()>) -> Result<()> {
        self.write_to(&self.ns, work)
    }

    pub(crate) fn write_to(
        &self,
        ns: &Namespace,
        mut work: impl FnMut(&mut Transaction, &Collection) -> Result<()>,
    ) -> Result<()> {
        let held = self.store.hold_or_create(ns)?;
        let work = |txn: &mut Transaction| work(txn, &held);
        self.store.transactions().retry(Durability::Journaled, work).map(drop)
    }

    pub(crate) fn insert(&self, doc: &DocBuf) -> Result<()> {
        self.write(|txn, collection| arbor_store::insert(txn, collection, doc.as_doc()))
    }

    pub(crate) fn update(&self, old: &DocBuf, new: &DocBuf) -> Result<()> {
        self.write(|txn, collection| {
            arbor_store::update(txn, collection, old.as_doc(), new.as_doc(), UpdateKind::Update)
        })
    }

    pub(crate) fn delete(&self, old: &DocBuf) -> Result<()> {
        self.write(|txn, collection| arbor_store::delete(txn, collection, old.as_doc()))
    }

    pub(crate) fn create_index(&self, spec: DocBuf) -> Result<()> {
        self.store.create_indexes(&self.ns, &[spec]).map(drop)
    }

    pub(crate) fn check_valid(&self) {
        let report = self.store.validate(&self.ns, true).unwrap();
        assert!(report.is_valid(), "{:#?}", report.problems);
    }

    /// All documents as text, in order.
    pub(crate) fn docs(&self) -> Vec<String> {
        let collection = self.collection();
        let view = self.store.transactions().read().unwrap();
        let mut cursor = RecordCursor::new(&view, &collection).unwrap();
        let mut docs = Vec::new();
        let mut valid = cursor.first().unwrap();
        while valid {
            docs.push(shown(cursor.doc()));
            valid = cursor.next().unwrap();
        }
        docs
    }

    /// `values => id` of all entries, forwards; checked against the backward scan.
    pub(crate) fn entries(&self, name: &str) -> Vec<String> {
        let collection = self.collection();
        let index = collection.index(name).unwrap();
        let view = self.store.transactions().read().unwrap();
        let descending: Vec<bool> =
            index.key_pattern.iter().map(|field| field.direction == Direction::Descending).collect();
        let mut cursor = IndexCursor::new(&view, index).unwrap();
        let entry = |cursor: &IndexCursor| {
            let values = keystring::decode(cursor.key(), cursor.type_bits(), &descending).unwrap();
            let id = keystring::decode(cursor.id_key(), &[], &[false]).unwrap();
            format!("{} => {}", texts(&values), texts(&id))
        };
        let mut forward = Vec::new();
        let mut valid = cursor.first().unwrap();
        while valid {
            forward.push(entry(&cursor));
            valid = cursor.next().unwrap();
        }
        let mut backward = Vec::new();
        let mut valid = cursor.last().unwrap();
        while valid {
            backward.push(entry(&cursor));
            valid = cursor.prev().unwrap();
        }
        backward.reverse();
        assert_eq!(forward, backward);
        forward
    }
}

pub(crate) fn shown(doc: Doc<'_>) -> String {
    arbor_bson::display::shell_doc(doc).to_string()
}

pub(crate) fn texts(values: &[Value]) -> String {
    values.iter().map(|value| arbor_bson::display::shell(value.as_ref()).to_string()).collect::<Vec<_>>().join(", ")
}

pub(crate) fn array(values: &[Value]) -> Value {
    Value::Array(values.iter().collect::<ArrayBuf>())
}

pub(crate) fn doc(fields: &[(&str, Value)]) -> DocBuf {
    fields.iter().map(|(name, value)| (*name, value)).collect()
}

pub(crate) fn key(fields: &[(&str, i32)]) -> DocBuf {
    fields.iter().map(|(name, value)| (*name, *value)).collect()
}

/// `{key: ..., name: the default}` with options.
pub(crate) fn spec(fields: &[(&str, i32)], options: &[(&str, Value)]) -> DocBuf {
    let mut spec = DocBuf::new().with("key", &key(fields));
    for (name, value) in options {
        spec.append(name, value);
    }
    spec
}

/// The sum of the field `n`, an int32 in every document.
pub(crate) fn sum_of_n(store: &Store, ns: &Namespace) -> i32 {
    let (collection, view) = store.snapshot(ns).unwrap().unwrap();
    let mut cursor = RecordCursor::new(&view, &collection).unwrap();
    let (mut sum, mut valid) = (0, cursor.first().unwrap());
    while valid {
        match cursor.doc().get("n") {
            Some(ValueRef::Int32(n)) => sum += n,
            other => panic!("{other:?}"),
        }
        valid = cursor.next().unwrap();
    }
    sum
}
