//! Durability that a statement waits for before it is acknowledged.

use std::sync::Arc;
use std::time::Instant;

use arbor_bson::DocBuf;
use arbor_query::{Database, InsertSpec, Interrupt, LastCommit, Scope};
use arbor_store::{Namespace, Store, StoreOptions};
use arbor_txn::testing::InMemory;
use arbor_txn::{Durability, Options};

struct Rig {
    own: InMemory,
    database: Database,
}

fn rig() -> Rig {
    let own = InMemory::new(Options::default()).unwrap();
    let store = Arc::new(Store::open(own.transactions.clone(), StoreOptions::default()).unwrap());
    let database = Database::new(store, own.transactions.clone());
    let rig = Rig { own, database };
    rig.insert(0, Durability::Journaled);
    rig
}

impl Rig {
    fn insert(&self, id: i32, durability: Durability) -> LastCommit {
        let doc = DocBuf::new().with("_id", id);
        let spec = InsertSpec {
            namespace: Namespace::parse("db.c").unwrap(),
            documents: vec![doc.as_doc()],
            ordered: true,
            durability,
            bypass_validation: false,
        };
        let commit = LastCommit::default();
        let scope = Scope::of(&self.database).noting(&commit);
        let outcome = arbor_query::insert(&scope, &spec, &Interrupt::never()).unwrap();
        assert_eq!(outcome.inserted, 1);
        commit
    }

    fn snapshots_of(&self, work: impl FnOnce()) -> u64 {
        let before = self.own.engine.snapshots_taken();
        work();
        self.own.engine.snapshots_taken() - before
    }
}

#[test]
fn a_journaled_statement_begins_no_transaction_of_its_own() {
    let rig = rig();
    let applied = rig.snapshots_of(|| assert!(rig.insert(1, Durability::Applied).position().is_some()));
    let journaled = rig.snapshots_of(|| {
        let position = rig.insert(2, Durability::Journaled).position().unwrap();
        assert!(rig.database.transactions.log().durable() >= position);
    });
    assert_eq!(journaled, applied);
    let alone = rig.snapshots_of(|| rig.database.make_durable(Durability::Journaled, None).unwrap());
    assert_eq!(alone, 0);
}

#[test]
fn a_commit_on_the_disk_waits_for_no_later_one() {
    let rig = rig();
    let transactions = &rig.database.transactions;
    // the log is synced now and then: one of the rounds is not
    let waits_for_more = (1..100).any(|round| {
        let mine = rig.insert(2 * round, Durability::Journaled).position();
        let later = rig.insert(2 * round + 1, Durability::Applied).position();
        assert!(later > mine);
        let now = Instant::now();
        assert!(transactions.is_durable_by(mine, now), "round {round}");
        !transactions.is_durable_by(None, now)
    });
    assert!(waits_for_more, "the later commit was on the disk each time");
}
