//! Documents pass the validator of their collection, whatever statement writes them.

use crate::support::{Rig, at, doc, rig, statement};
use arbor_bson::{DocBuf, ValueRef};
use arbor_query::{Error, Interrupt, WriteError, check_validator, count_mismatches};
use arbor_store::Namespace;

/// A collection of numbers `n` from 5 on.
fn validated(level: &str, action: &str) -> Rig {
    let rig = rig();
    let options = DocBuf::new()
        .with("validator", &doc("n", &doc("$gte", 5i32)))
        .with("validationLevel", level)
        .with("validationAction", action);
    rig.database.store.create_collection(&rig.ns, &options).unwrap();
    rig
}

fn number(id: i32, n: i32) -> DocBuf {
    DocBuf::new().with("_id", id).with("n", n)
}

fn info(errors: &[WriteError]) -> DocBuf {
    match errors {
        [WriteError { error: Error::DocumentInvalid { info }, .. }] => (**info).clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_document_that_does_not_fit_is_refused_with_the_reason() {
    let rig = validated("strict", "error");
    let outcome = rig.insert_with(&[number(1, 4), number(2, 5)], false);
    assert_eq!(outcome.inserted, 1);
    let info = info(&outcome.errors);
    assert!(matches!(at(&info, "failingDocumentId"), ValueRef::Int32(1)));
    assert_eq!(at(&info, "details.reason").to_string(), "\"comparison failed\"");
    let (q, u) = (doc("_id", 2i32), doc("$set", &doc("n", 1i32)));
    assert_eq!(rig.update(statement(&q, &u)).errors.len(), 1);
    assert_eq!(rig.docs(), ["{ _id: 2, n: 5 }"]);
    rig.check_valid();
}

#[test]
fn moderate_lets_what_was_wrong_stay_wrong() {
    let rig = validated("moderate", "error");
    rig.database.store.set_options(&rig.ns, &DocBuf::new()).unwrap();
    rig.fill(&[number(1, 1), number(2, 9)]);
    let options = DocBuf::new().with("validator", &doc("n", &doc("$gte", 5i32))).with("validationLevel", "moderate");
    rig.database.store.set_options(&rig.ns, &options).unwrap();
    let u = doc("$set", &doc("n", 2i32));
    let (wrong, right) = (doc("_id", 1i32), doc("_id", 2i32));
    assert!(rig.update(statement(&wrong, &u)).errors.is_empty());
    info(&rig.update(statement(&right, &u)).errors);
    assert_eq!(count_mismatches(&rig.database, &rig.ns, &Interrupt::never()).unwrap(), 1);
}

#[test]
fn a_warning_is_given_once_for_each_document() {
    let mut rig = validated("strict", "warn");
    let (send, reported) = std::sync::mpsc::channel();
    let send = std::sync::Mutex::new(send);
    rig.database.on_mismatch = Some(Box::new(move |namespace, info| {
        send.lock().unwrap().send(format!("{namespace} {}", at(info, "failingDocumentId"))).unwrap();
    }));
    rig.fill(&[number(1, 1), number(2, 9), number(3, 2)]);
    assert_eq!(reported.try_iter().collect::<Vec<_>>(), ["db.c 1", "db.c 3"]);
    let off = validated("off", "error");
    off.fill(&[number(1, 1)]);
}

#[test]
fn what_may_not_be_a_validator() {
    let check = |namespace: &str, validator: &DocBuf| {
        check_validator(&Namespace::parse(namespace).unwrap(), validator.as_doc()).map_err(|error| error.to_string())
    };
    let fine = doc("a", 1i32);
    assert!(check("db.c", &fine).is_ok() && check("admin.c", &DocBuf::new()).is_ok());
    assert!(check("admin.c", &fine).unwrap_err().contains("internal database"));
    assert!(check("db.system.js", &fine).unwrap_err().contains("system collection"));
    assert!(check("db.c", &doc("a", &doc("$nope", 1i32))).unwrap_err().contains("unknown operator"));
}
