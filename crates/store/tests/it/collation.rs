//! Collections and indexes with a collation: what is one value, what is kept over a crash, what is copied.

use crate::support::{Rig, array, doc, rig, shown, spec};
use arbor_bson::{DocBuf, Value};
use arbor_lang::Collation;
use arbor_store::Error;

fn caseless() -> Collation {
    Collation::parse(DocBuf::new().with("locale", "en").with("strength", 2i32).as_doc()).unwrap()
}

fn text(text: &str) -> Value {
    Value::String(text.into())
}

fn row(id: &str, a: Value) -> DocBuf {
    doc(&[("_id", text(id)), ("a", a)])
}

fn with_default() -> Rig {
    let rig = rig();
    let options = DocBuf::new().with("collation", &caseless().to_doc());
    rig.store.create_collection(&rig.ns, &options).unwrap();
    rig
}

/// Name of the index, its collation and the value in it.
fn duplicate(result: arbor_store::Result<()>) -> (String, Collation, String) {
    match result {
        Err(Error::DuplicateKey { index_name, collation, key_value, .. }) => {
            (index_name, collation, shown(key_value.as_doc()))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn collation_keys_replace_strings() {
    let rig = rig();
    let collation = [("collation", Value::Document(caseless().to_doc()))];
    rig.create_index(spec(&[("a", 1)], &collation)).unwrap();
    rig.insert(&row("1", text("B"))).unwrap();
    rig.insert(&row("2", text("a"))).unwrap();
    rig.insert(&row("3", array(&[text("A"), text("a"), Value::Int32(7), Value::Document(doc(&[("k", text("b"))]))])))
        .unwrap();
    let entries = rig.entries("a_1");
    let ids: Vec<&str> = entries.iter().map(|entry| entry.rsplit(' ').next().unwrap()).collect();
    assert_eq!(ids, ["\"3\"", "\"2\"", "\"3\"", "\"1\"", "\"3\""], "{entries:?}");
    // another spelling is the same key
    rig.update(&row("1", text("B")), &row("1", text("b"))).unwrap();
    assert_eq!(rig.entries("a_1"), entries);
    rig.update(&row("1", text("b")), &row("1", text("c"))).unwrap();
    assert_ne!(rig.entries("a_1"), entries);
    rig.check_valid();
    rig.delete(&row("2", text("A"))).unwrap();
    assert_eq!(rig.entries("a_1").len(), 4);
    rig.check_valid();
}

#[test]
fn unique_by_the_collation() {
    let rig = rig();
    let options = [("unique", Value::Bool(true)), ("collation", Value::Document(caseless().to_doc()))];
    rig.create_index(spec(&[("a", -1)], &options)).unwrap();
    rig.insert(&row("x", text("Arbor"))).unwrap();
    let found = duplicate(rig.insert(&row("X", text("arbor"))));
    assert_eq!(found, ("a_-1".to_owned(), caseless(), "{ a: \"0x2b4d2d474d0109\" }".to_owned()));
    rig.insert(&row("X", text("tree"))).unwrap();
    assert_eq!(duplicate(rig.update(&row("X", text("tree")), &row("X", text("ARBOR")))).0, "a_-1");
    rig.check_valid();
}

#[test]
fn a_default_reaches_ids_and_indexes_and_outlives_a_crash() {
    let rig = with_default();
    rig.create_index(spec(&[("a", 1)], &[("unique", Value::Bool(true))])).unwrap();
    let simple = [("name", text("bytes")), ("collation", Value::Document(Collation::simple().to_doc()))];
    rig.create_index(spec(&[("a", 1)], &simple)).unwrap();
    rig.insert(&row("a", text("x"))).unwrap();
    for rig in [rig.crash(1), rig] {
        assert_eq!(
            duplicate(rig.insert(&row("A", text("y")))),
            ("_id_".to_owned(), caseless(), "{ _id: \"0x2b0105\" }".to_owned())
        );
        assert_eq!(duplicate(rig.insert(&row("b", text("X")))).0, "a_1");
        let collection = rig.collection();
        assert_eq!(collection.collation, caseless());
        assert_eq!(collection.index("a_1").unwrap().collation, caseless());
        assert!(collection.index("bytes").unwrap().collation.is_simple());
        let listed: Vec<bool> = collection.index_specs().iter().map(|spec| spec.get("collation").is_some()).collect();
        assert_eq!(listed, [true, true, false]);
        // in a copy each index is what it was
        rig.store.drop_indexes(&rig.ns, &arbor_store::IndexSelection::All).unwrap();
        rig.store.create_indexes(&rig.ns, &collection.index_specs_to_copy()).unwrap();
        assert!(rig.collection().index("bytes").unwrap().collation.is_simple());
        assert_eq!(rig.collection().index("a_1").unwrap().collation, caseless());
        rig.check_valid();
    }
}
