//! Views are kept in addition to collections: created, changed, dropped, found again after a crash.

use crate::support::rig;
use arbor_bson::{ArrayBuf, DocBuf};
use arbor_store::{Created, Error, Namespace, VIEW_DEPTH_MAX, ViewDefinition};

fn ns(name: &str) -> Namespace {
    Namespace::new("test", name).unwrap()
}

fn view(name: &str, on: &str, stages: &[DocBuf]) -> ViewDefinition {
    let (namespace, view_on, collation) = (ns(name), ns(on), arbor_lang::Collation::simple());
    ViewDefinition { namespace, view_on, pipeline: stages.iter().collect(), collation }
}

fn stage(name: &str, spec: &DocBuf) -> DocBuf {
    DocBuf::new().with(name, spec)
}

#[test]
fn a_crash_keeps_what_was_created() {
    let rig = rig();
    let lookup = stage("$lookup", &DocBuf::new().with("from", "x"));
    assert_eq!(rig.store.create_view(view("v", "c", std::slice::from_ref(&lookup))).unwrap(), Created::Now);
    assert_eq!(rig.store.create_view(view("v", "c", std::slice::from_ref(&lookup))).unwrap(), Created::Before);
    assert!(matches!(rig.store.create_view(view("v", "d", &[])), Err(Error::NamespaceExists(_))));
    rig.store.create_view(view("w", "v", &[])).unwrap();
    rig.store.create_view(view("gone", "v", &[])).unwrap();
    rig.store.change_view(view("w", "c", &[])).unwrap();
    assert!(rig.store.drop_view(&ns("gone")).unwrap() && !rig.store.drop_view(&ns("gone")).unwrap());
    let log = rig.own.transactions.log();
    log.wait_durable(log.appended()).unwrap();
    for store in [&rig.store, &rig.crash(3).store] {
        let found: Vec<String> =
            store.list_views("test").iter().map(|view| view.options().as_doc().to_string()).collect();
        let first = r#"{ viewOn: "c", pipeline: [ { $lookup: { from: "x" } } ] }"#;
        assert_eq!(found, [first, r#"{ viewOn: "c", pipeline: [] }"#]);
        assert_eq!(store.list_databases(), ["test"]);
    }
    assert!(rig.store.drop_database("test").unwrap());
    assert!(rig.store.list_databases().is_empty());
}

#[test]
fn a_name_is_a_view_or_a_collection() {
    let rig = rig();
    rig.store.create_view(view("v", "c", &[])).unwrap();
    let refused = |error: Error| assert!(matches!(error, Error::NamespaceIsView(_)), "{error}");
    refused(rig.store.create_collection(&ns("v"), &DocBuf::new()).unwrap_err());
    refused(rig.store.hold_or_create(&ns("v")).unwrap_err());
    refused(rig.store.rename(&ns("v"), &ns("w"), false).unwrap_err());
    refused(rig.store.refuse_view(&ns("v")).unwrap_err());
    rig.store.create_collection(&ns("c"), &DocBuf::new()).unwrap();
    assert!(matches!(rig.store.rename(&ns("c"), &ns("v"), true), Err(Error::NamespaceExists(_))));
    assert!(matches!(rig.store.create_view(view("c", "x", &[])), Err(Error::NamespaceExists(_))));
    assert!(rig.store.collection(&ns("v")).is_none() && rig.store.view(&ns("c")).is_none());
}

#[test]
fn views_do_not_read_themselves() {
    let rig = rig();
    rig.store.create_view(view("a", "b", &[])).unwrap();
    let union = stage("$unionWith", &DocBuf::new().with("coll", "a"));
    let inner: ArrayBuf = [DocBuf::new().with("$unionWith", "a")].iter().collect();
    let nested = stage("$lookup", &DocBuf::new().with("from", "x").with("pipeline", &inner));
    let facet = stage("$facet", &DocBuf::new().with("f", &inner));
    for stages in [vec![union], vec![nested], vec![facet]] {
        assert!(matches!(rig.store.create_view(view("b", "x", &stages)), Err(Error::ViewCycle(_))));
    }
    assert!(matches!(rig.store.create_view(view("b", "a", &[])), Err(Error::ViewCycle(_))));
    assert!(matches!(rig.store.change_view(view("a", "a", &[])), Err(Error::ViewCycle(_))));
    for n in 1..VIEW_DEPTH_MAX {
        rig.store.create_view(view(&format!("v{n}"), &format!("v{}", n - 1), &[])).unwrap();
    }
    rig.store.create_view(view("v0", "x", &[])).unwrap();
    let too_deep = rig.store.create_view(view("deep", &format!("v{}", VIEW_DEPTH_MAX - 1), &[]));
    assert!(matches!(too_deep, Err(Error::ViewTooDeep)));
}
