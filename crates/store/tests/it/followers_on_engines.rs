//! A member on the fractal tree leads; others, on the engines of this build, follow its log through a random workload of documents,
//! indexes, builds past the log, engine switches and drops, and end with equal trees, catalogues and counters.

use std::sync::Arc;

use arbor_base::Random;
use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_disk::RealDisk;
use arbor_engine_lmdb::{LmdbEngine, LmdbOptions};
use arbor_engine_set::{EngineSet, Kind, SetOptions};
use arbor_ftree::{Forest, Options as ForestOptions};
use arbor_log::{Log, LogOptions};
use arbor_store::{
    BuildSettings, EngineNames, IndexSelection, Namespace, Store, StoreOptions, TreeDefaults, Unwatched,
};
use arbor_txn::fetch::{Source, SyncMarker};
use arbor_txn::{Durability, Opening, Options, Transaction, Transactions, TreeOptions, View, trees_of};

const ROWS: i32 = 120;

fn kind_of(name: &'static str) -> Kind {
    Kind::new(name, move |directory| {
        std::fs::create_dir_all(directory).unwrap();
        Ok(match name {
            "ftree" => {
                let mut options = ForestOptions::new(Arc::new(RealDisk), 32 << 20);
                options.threads = 1;
                Arc::new(Forest::open(directory, options)?)
            }
            "rocksdb" => Arc::new(arbor_engine_rocksdb::RocksEngine::open(directory, Default::default())?),
            "wiredTiger" => Arc::new(arbor_engine_wiredtiger::WiredTigerEngine::open(directory, Default::default())?),
            _ => {
                let options = LmdbOptions { map_bytes: 1 << 30, ..LmdbOptions::default() };
                Arc::new(LmdbEngine::open(directory, options)?)
            }
        })
    })
}

struct Member {
    store: Arc<Store>,
    transactions: Arc<Transactions>,
    _dir: tempfile::TempDir,
}

impl Member {
    /// The first kind is the home.
    fn open(opening: Opening, kinds: &[&'static str], overriding: Option<&'static str>) -> Member {
        let dir = tempfile::tempdir().unwrap();
        let home = kinds[0];
        let set = EngineSet::open(dir.path(), kinds.iter().map(|name| kind_of(name)).collect(), home, home).unwrap();
        let options = SetOptions { adapts: true, storage_engine_override: overriding, ..SetOptions::default() };
        let set = set.with_options(options).unwrap();
        let log = Log::open(Arc::new(RealDisk), &dir.path().join("log"), LogOptions::default()).unwrap();
        let marker = SyncMarker::new(Arc::new(RealDisk), dir.path());
        let options = Options { checkpoint_thread: false, sync_marker: Some(marker), ..Options::default() };
        let transactions = Transactions::open_as(opening, log, Arc::new(set), options).unwrap();
        let names = |name: &&'static str| {
            let tree = |value: &str| TreeOptions { settings: vec![("compression".into(), value.into())] };
            let compresses = *name == "ftree";
            let collections = if compresses { tree("zstd") } else { TreeOptions::default() };
            EngineNames { name, collections, ..EngineNames::default() }
        };
        let trees = TreeDefaults { engines: kinds.iter().map(names).collect(), default: home, home };
        let options = StoreOptions {
            scratch: dir.path().join("scratch"),
            build_memory_bytes: 10_000,
            build_in_transaction_bytes: 2000,
            trees,
        };
        let store = Arc::new(Store::open(transactions.clone(), options).unwrap());
        if opening == Opening::Follower {
            store.keep_in_step();
        }
        Member { store, transactions, _dir: dir }
    }

    fn follow(&self, leader: &Member, source: &Source) {
        let mut after = self.transactions.log().appended();
        let mut reader = leader.transactions.log().read(after.next());
        self.transactions.receive(1, after, &[]).unwrap();
        while let Some(read) = reader.next() {
            after = self.transactions.receive(reader.epoch(), after, &[&read.unwrap().1]).unwrap();
        }
        self.transactions.make_durable(None).unwrap();
        while self.transactions.set_commit_point(after).unwrap() < after {
            assert!(
                self.transactions.fetch_missing(source, &|| false).unwrap() > 0,
                "only a load keeps it from applying"
            );
        }
    }
}

/// All rows of all trees but the ledger's rows of trees, whose options name engines.
fn rows(transactions: &Transactions) -> Vec<(u64, Vec<u8>, Vec<u8>)> {
    let view = transactions.read().unwrap();
    let mut trees = trees_of(&**transactions.engine()).unwrap();
    trees.sort_unstable();
    let mut all = Vec::new();
    for tree in trees {
        let mut cursor = view.cursor(tree).unwrap();
        let mut valid = cursor.first().unwrap();
        while valid {
            all.push((tree.0, cursor.key().to_vec(), cursor.value().to_vec()));
            valid = cursor.next().unwrap();
        }
    }
    all
}

fn catalogue(store: &Store) -> Vec<String> {
    let all = store.list_databases().into_iter().flat_map(|db| store.list_collections(&db));
    let described = |own: Arc<arbor_store::Collection>| {
        let index = |index: &Arc<arbor_store::Index>| {
            let flags: Vec<u64> = (0..index.key_pattern.len()).map(|field| index.multikey_components(field)).collect();
            format!("{} {:?} {flags:?}", index.tree, index.spec.doc)
        };
        let indexes: Vec<String> = own.indexes.iter().map(index).collect();
        format!("{} {} {} {:?} {indexes:?}", own.namespace.as_str(), own.uuid, own.tree, own.options)
    };
    all.map(described).collect()
}

fn check(leader: &Member, follower: &Member, source: &Source) {
    follower.follow(leader, source);
    assert_eq!(catalogue(&follower.store), catalogue(&leader.store));
    let (own, all) = (rows(&follower.transactions), rows(&leader.transactions));
    assert_eq!(own.len(), all.len());
    assert!(own == all, "the trees differ");
    for name in leader.store.list_databases().iter().flat_map(|db| leader.store.list_collections(db)) {
        let report = follower.store.validate(&name.namespace, true).unwrap();
        assert!(report.is_valid(), "{:#?}", report.problems);
        let (own, all) = (follower.transactions.read().unwrap(), leader.transactions.read().unwrap());
        let counted = arbor_store::count(&own, &follower.store.collection(&name.namespace).unwrap()).unwrap();
        assert_eq!(counted, arbor_store::count(&all, &name).unwrap());
    }
}

fn name(random: &mut Random) -> Namespace {
    Namespace::new("test", format!("c{}", random.below(4)).as_str()).unwrap()
}

fn row(random: &mut Random, id: i32) -> DocBuf {
    let list: ArrayBuf = (0..random.below(3) as i32).collect();
    let pad = "x".repeat(random.below(200) as usize);
    DocBuf::new().with("_id", id).with("n", random.below(50) as i32).with("list", &list).with("pad", pad.as_str())
}

fn write(leader: &Member, ns: &Namespace, random: &mut Random) {
    let held = leader.store.hold_or_create(ns).unwrap();
    let id = random.below(ROWS as u64) as i32;
    let (new, removes) = (row(random, id), random.below(4) == 0);
    let work = |txn: &mut Transaction| -> Result<(), arbor_store::Error> {
        let id_key = arbor_store::id_key(ValueRef::Int32(id));
        let old = arbor_store::record(txn, &held, &id_key)?.map(|old| old.into_owned());
        match old {
            None => arbor_store::insert(txn, &held, new.as_doc()),
            Some(old) if removes => arbor_store::delete(txn, &held, Doc::trusted(&old)),
            Some(old) => {
                arbor_store::update(txn, &held, Doc::trusted(&old), new.as_doc(), arbor_store::UpdateKind::Update)
            }
        }
    };
    leader.transactions.retry(Durability::Applied, work).unwrap();
}

fn change(leader: &Member, random: &mut Random, engines: &[&str]) {
    let ns = name(random);
    let on = |engine: &str| DocBuf::new().with(engine, &DocBuf::new());
    let engine = engines[random.below(engines.len() as u64) as usize];
    let exists = leader.store.collection(&ns).is_some();
    match random.below(12) {
        0 if exists => leader.store.drop_collection(&ns).map(drop).unwrap(),
        1 if !exists => {
            leader.store.create_collection(&ns, &DocBuf::new().with("storageEngine", &on(engine))).unwrap();
        }
        2 if exists => {
            let to = name(random);
            if leader.store.collection(&to).is_none() {
                leader.store.rename(&ns, &to, false).unwrap();
            }
        }
        3 | 4 if exists => {
            let field = ["n", "list", "pad"][random.below(3) as usize];
            let key = DocBuf::new().with("key", &DocBuf::new().with(field, 1i32)).with("name", field);
            let settings = BuildSettings { memory_bytes: 20_000, watch: &Unwatched };
            leader.store.build_indexes(&ns, &[key], settings).unwrap();
        }
        5 if exists => {
            let named = IndexSelection::Names(vec!["n".into()]);
            let _none_of_that_name = leader.store.drop_indexes(&ns, &named);
        }
        6 | 7 if exists => {
            leader.store.change_engine(&ns, &on(engine), &Unwatched).map(drop).unwrap();
        }
        _ => (0..60).for_each(|_| write(leader, &ns, random)),
    }
}

fn run(leader_kinds: &[&'static str], follower_kinds: &[&'static str], overriding: Option<&'static str>, seed: u64) {
    let leader = Member::open(Opening::Own, leader_kinds, None);
    let follower = Member::open(Opening::Follower, follower_kinds, overriding);
    let source = Source::new(leader.transactions.clone());
    let mut random = Random::new(seed);
    for round in 0..12 {
        (0..6).for_each(|_| change(&leader, &mut random, leader_kinds));
        if round == 6 {
            follower.transactions.checkpoint_now().unwrap();
        }
        check(&leader, &follower, &source);
    }
    assert!(leader.transactions.log().appended().0 > 100);
    // A member that comes later gets the same by trees.
    let blank = Member::open(Opening::Follower, follower_kinds, overriding);
    blank.transactions.sync_from(&source, &()).unwrap();
    (0..6).for_each(|_| change(&leader, &mut random, leader_kinds));
    check(&leader, &blank, &source);
}

#[test]
fn lmdb_alone_follows_the_fractal_tree() {
    run(&["ftree"], &["lmdb"], None, 1);
}

#[test]
fn lmdb_alone_follows_a_member_with_several_engines() {
    run(&["ftree", "lmdb"], &["lmdb"], None, 2);
}

#[test]
fn a_member_with_another_home_takes_in_the_engines_that_are_named() {
    run(&["ftree", "lmdb"], &["lmdb", "ftree"], None, 3);
}

#[test]
fn an_override_stores_everything_in_one_engine() {
    run(&["ftree", "lmdb"], &["ftree", "lmdb"], Some("lmdb"), 4);
}

#[test]
fn rocksdb_follows_the_fractal_tree() {
    run(&["ftree", "lmdb"], &["rocksdb"], None, 5);
}

#[test]
fn wiredtiger_follows_the_fractal_tree() {
    run(&["ftree", "lmdb"], &["wiredTiger"], None, 6);
}
