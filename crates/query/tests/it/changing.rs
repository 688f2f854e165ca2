//! Reads concurrent with changes of the catalogue.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Rig, rig};
use arbor_bson::DocBuf;
use arbor_query::{CountSpec, Interrupt};
use arbor_store::{IndexSelection, Namespace};

/// Runs `change` again and again while `read` does the same.
fn during(rounds: usize, mut change: impl FnMut(), read: impl Fn() + Sync) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    read();
                }
            });
        }
        (0..rounds).for_each(|_| change());
        stop.store(true, Ordering::Relaxed);
    });
}

fn one() -> DocBuf {
    DocBuf::new().with("_id", 1i32).with("a", 1i32)
}

/// A collection that is replaced by another with the same document is never seen without it.
fn replaced_under(read: impl Fn(&Rig) -> usize + Sync) {
    let rig = rig();
    rig.fill(&[one()]);
    let other = Namespace::parse("db.other").unwrap();
    let replace = || {
        rig.fill_into(other.as_str(), &[one()]);
        rig.database.store.rename(&other, &rig.ns, true).unwrap();
    };
    during(300, replace, || assert_eq!(read(&rig), 1));
}

#[test]
fn a_scan_finds_the_old_or_the_new_collection() {
    replaced_under(|rig| rig.run(&rig.find_spec(&DocBuf::new().with("a", 1i32))).len());
}

#[test]
fn a_find_by_id_finds_the_old_or_the_new_collection() {
    replaced_under(|rig| rig.run(&rig.find_spec(&DocBuf::new().with("_id", 1i32))).len());
}

#[test]
fn a_count_finds_the_old_or_the_new_collection() {
    replaced_under(|rig| {
        let filter = DocBuf::new();
        let spec = CountSpec {
            namespace: rig.ns.clone(),
            query: filter.as_doc(),
            hint: None,
            skip: 0,
            limit: None,
            collation: None,
        };
        arbor_query::count(&rig.scope(), &spec, &Interrupt::never()).unwrap() as usize
    });
}

#[test]
fn an_index_may_be_dropped_under_its_readers() {
    let rig = rig();
    rig.fill(&[one()]);
    let change = || {
        rig.index("a");
        rig.database.store.drop_indexes(&rig.ns, &IndexSelection::All).unwrap();
    };
    during(300, change, || {
        assert_eq!(rig.run(&rig.find_spec(&DocBuf::new().with("a", 1i32))).len(), 1);
    });
}
