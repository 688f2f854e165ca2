//! Initial sync in one process: the state of a peer takes the place of what a member has, whatever crashes on the way.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use arbor_base::invariants::assert_reached;
use arbor_base::{Position, TreeId};
use arbor_disk::{Disk, FaultyDisk};
use arbor_engine::model::ModelEngine;
use arbor_engine::{Engine, Op};
use arbor_txn::fetch::{Begun, LogBlock, LogReply, Peer, PeerError, SYNCING_FILE, Source, SyncMarker};
use arbor_txn::testing::InMemory;
use arbor_txn::{CounterId, Durability, Error, Opening, Options, TreeOptions, View, trees_of};

use crate::sets::{Member, quick};
use crate::support::rows;

const DIR: &str = "/data";

fn options(disk: &FaultyDisk) -> Options {
    Options { sync_marker: Some(SyncMarker::new(Arc::new(disk.clone()), Path::new(DIR))), ..quick() }
}

pub(crate) fn blank() -> Member {
    open(FaultyDisk::new(), ModelEngine::new()).unwrap()
}

fn open(disk: FaultyDisk, engine: ModelEngine) -> Result<Member, Error> {
    let options = options(&disk);
    Member::open(Opening::Follower, disk, engine, options)
}

/// Returns the member after a crash of the process and the machine.
pub(crate) fn crash(member: &Member, seed: u64) -> Member {
    open(member.disk.crash(seed), member.engine.crash()).unwrap()
}

/// A leader whose log does not begin at the first record any more.
fn leader(trees: u64) -> (Member, Vec<TreeId>) {
    let leader = Member::leader(Options { compress_records: false, ..quick() });
    let trees: Vec<TreeId> = (0..trees).map(|_| leader.tree()).collect();
    for (n, tree) in trees.iter().chain(&trees).enumerate() {
        let n = n % trees.len();
        let mut txn = leader.transactions.begin().unwrap();
        (0..20 + n).for_each(|key| txn.put(*tree, format!("{key:03}"), format!("{n} {key} {:0>200}", 0)));
        txn.add_counter(CounterId(tree.0), 10 + n as i64);
        txn.commit_begin().unwrap().position();
        leader.commit_all();
    }
    leader.transactions.checkpoint_now().unwrap();
    assert!(leader.log().first() > Position(1), "the log was trimmed");
    (leader, trees)
}

fn all(member: &Member) -> Vec<String> {
    let view = member.transactions.read().unwrap();
    let mut trees = trees_of(&*member.engine).unwrap();
    trees.sort_unstable();
    let of = |tree: TreeId| rows(&view, tree).into_iter().map(move |row| format!("{tree} {row}"));
    trees.into_iter().flat_map(of).collect()
}

fn follow(member: &Member, leader: &Member) {
    member.fetch(leader.log());
    member.sync();
    let last = leader.commit_all();
    assert_eq!(member.transactions.set_commit_point(last).unwrap(), last);
    assert_eq!(all(member), all(leader));
    assert_eq!(member.engine.trees().unwrap(), leader.engine.trees().unwrap());
}

fn marked(member: &Member) -> bool {
    member.disk.exists(&Path::new(DIR).join(SYNCING_FILE)).unwrap()
}

#[test]
fn a_blank_member_gets_the_state_and_then_the_log() {
    let (leader, trees) = leader(5);
    let member = blank();
    let peer = Source::new(leader.transactions.clone());
    let synced = member.transactions.sync_from(&peer, &()).unwrap();
    assert_eq!((synced.trees, synced.trees_done, synced.resumed), (6, 6, 0), "five trees and the ledger");
    assert!(synced.rows >= 110 && synced.bytes > 0);
    assert_eq!((member.engine.applied(), member.engine.durable()), (synced.position, synced.position));
    assert_eq!(all(&member), all(&leader));
    assert!(!marked(&member) && !member.transactions.is_syncing() && peer.held() == 0);
    leader.begin_put(trees[2], "new", "1").unwrap().position();
    follow(&member, &leader);
    let again = crash(&member, 3);
    follow(&again, &leader);
    // It can lead: counters and tree ids continue.
    let lead = again.transactions.lead(2).unwrap();
    again.commit_all();
    lead.wait(None).unwrap();
    let mut txn = again.transactions.begin().unwrap();
    assert!(txn.create_tree(TreeOptions::default()).0 > trees[4].0);
    txn.add_counter(CounterId(trees[1].0), 1);
    txn.commit_begin().unwrap().position();
    again.commit_all();
    assert_eq!(again.transactions.counter(CounterId(trees[1].0)).unwrap(), 2 * 11 + 1);
}

#[test]
fn an_archive_of_the_log_ends_at_the_last_acknowledged_commit() {
    let own = InMemory::new(Options::default()).unwrap().transactions;
    own.log().set_commit_interval(Duration::from_secs(3600));
    let mut txn = own.begin().unwrap();
    let tree = txn.create_tree(TreeOptions::default());
    let before = txn.commit(Durability::Journaled).unwrap();
    let source = Source::new(own.clone());
    for count in 1..20 {
        let mut txn = own.begin().unwrap();
        txn.put(tree, "late", format!("{count}"));
        let last = txn.commit(Durability::Applied).unwrap();
        let LogReply::Block { block, .. } = source.log_behind(None, before, None).unwrap() else { panic!("no block") };
        let head = LogBlock::decode(&block).unwrap().head;
        assert_eq!((head.last(), head.count), (last, count), "and it is on the disk");
        assert!(own.log().durable() >= last);
    }
}

/// Hands on to a peer, and calls `between` before each request.
struct Between<'m, F: Fn(u32) -> Result<(), PeerError> + Sync + Send> {
    inner: &'m Source,
    requests: AtomicU32,
    between: F,
}

impl<F: Fn(u32) -> Result<(), PeerError> + Sync + Send> Peer for Between<'_, F> {
    fn begin(&self) -> Result<Begun, PeerError> {
        self.inner.begin()
    }

    fn block(&self, snapshot: u64, tree: TreeId, after: Option<&[u8]>) -> Result<Vec<u8>, PeerError> {
        (self.between)(self.requests.fetch_add(1, SeqCst))?;
        self.inner.block(snapshot, tree, after)
    }

    fn end(&self, snapshot: u64) {
        self.inner.end(snapshot);
    }
}

#[test]
fn the_leader_goes_on_while_its_state_is_fetched() {
    let (leader, trees) = leader(4);
    let (member, source) = (blank(), Source::new(leader.transactions.clone()));
    let written = AtomicU64::new(0);
    let peer = Between {
        inner: &source,
        requests: AtomicU32::new(0),
        between: |n| {
            let pending = leader.begin_put(trees[n as usize % 4], &format!("w{n}"), "x").unwrap();
            written.store(pending.position().0, SeqCst);
            leader.commit_all();
            // The log is kept behind the snapshot, whatever checkpoints do.
            leader.transactions.checkpoint_now().unwrap();
            // The member takes the records meanwhile and applies none.
            member.fetch(leader.log());
            member.sync();
            member.transactions.set_commit_point(pending.position()).unwrap();
            assert!(member.engine.applied() < pending.position());
            Ok(())
        },
    };
    let synced = member.transactions.sync_from(&peer, &()).unwrap();
    let written = Position(written.load(SeqCst));
    assert!(synced.position < written);
    assert_eq!(member.engine.applied(), written, "what was received meanwhile is applied at the end");
    follow(&member, &leader);
}

/// A failure at each request, with and without a crash: the next attempt ends well, and continues where the state is the same.
#[test]
fn an_interrupted_sync_goes_on() {
    for (fail_at, crashes) in (0..5).flat_map(|at| [(at, false), (at, true)]) {
        let (leader, trees) = leader(4);
        let (mut member, source) = (blank(), Source::new(leader.transactions.clone()));
        let failing = |n| if n == fail_at { Err(PeerError::Failed("gone".into())) } else { Ok(()) };
        let peer = Between { inner: &source, requests: AtomicU32::new(0), between: failing };
        assert!(matches!(member.transactions.sync_from(&peer, &()), Err(Error::Peer { .. })));
        assert!(marked(&member) && member.transactions.is_syncing());
        if crashes {
            member.transactions.checkpoint_now().unwrap();
            member = crash(&member, u64::from(fail_at));
            assert!(member.transactions.is_syncing());
            let end = member.log().appended();
            assert!(matches!(member.transactions.receive(1, end, &[]), Err(Error::Refused { .. })));
            assert!(member.transactions.lead(2).is_err());
        }
        let synced = member.transactions.sync_from(&source, &()).unwrap();
        assert_eq!(synced.resumed, fail_at as usize, "the state is the same: the trees that are here count");
        follow(&member, &leader);
        // Another time the state is a later one.
        leader.begin_put(trees[0], "later", "1").unwrap().position();
        leader.commit_all();
        let other = blank();
        assert!(other.transactions.sync_from(&peer_that_fails(&source), &()).is_err());
        leader.begin_put(trees[0], "later", "2").unwrap().position();
        leader.commit_all();
        let synced = other.transactions.sync_from(&source, &()).unwrap();
        assert_eq!(synced.resumed, 0);
        follow(&other, &leader);
    }
    assert_reached(&["txn: an initial sync continues"]);
}

/// A tree of several blocks, and a failure between two of them: what came is no tree, and the next attempt fetches all of it.
#[test]
fn a_part_of_a_tree_does_not_count() {
    let (leader, trees) = leader(1);
    let mut txn = leader.transactions.begin().unwrap();
    let noise = |key: u64| arbor_base::Random::new(key).bytes(200_000);
    (0..60).for_each(|key| txn.put(trees[0], format!("large {key:03}"), noise(key)));
    txn.commit_begin().unwrap().position();
    leader.commit_all();
    let source = Source::new(leader.transactions.clone());
    let mut failed = 0;
    for fail_at in 0.. {
        let member = blank();
        let failing = |n| if n == fail_at { Err(PeerError::Failed("gone".into())) } else { Ok(()) };
        let peer = Between { inner: &source, requests: AtomicU32::new(0), between: failing };
        if member.transactions.sync_from(&peer, &()).is_ok() {
            break;
        }
        failed += 1;
        member.transactions.sync_from(&source, &()).unwrap();
        follow(&member, &leader);
    }
    assert!(failed > 3, "the tree has several blocks: {failed}");
}

fn peer_that_fails(source: &Source) -> impl Peer {
    let between = |n| if n == 2 { Err(PeerError::Failed("gone".into())) } else { Ok(()) };
    Between { inner: source, requests: AtomicU32::new(0), between }
}

/// Each write of the disk may be the last one before a power failure.
#[test]
fn a_crash_at_each_step_leaves_a_member_that_syncs_again() {
    let (leader, _) = leader(3);
    let source = Source::new(leader.transactions.clone());
    let mut completed = false;
    for call in 0..200 {
        let member = blank();
        member.disk.stop_after(call);
        let synced = member.transactions.sync_from(&source, &());
        completed = synced.is_ok();
        let again = crash(&member, call);
        if !again.transactions.is_syncing() && again.engine.applied() > Position::ZERO {
            assert_eq!(all(&again), all(&leader), "step {call}");
        }
        if again.transactions.is_syncing() || again.engine.applied() == Position::ZERO {
            again.transactions.sync_from(&source, &()).unwrap();
        }
        follow(&again, &leader);
        if completed {
            break;
        }
    }
    assert!(completed, "the loop ended before a sync without failures");
}

#[test]
fn a_member_that_fell_behind_replaces_its_state() {
    let (leader, trees) = leader(2);
    let member = blank();
    let source = Source::new(leader.transactions.clone());
    member.transactions.sync_from(&source, &()).unwrap();
    let mut drop = leader.transactions.begin().unwrap();
    drop.drop_tree(trees[0]);
    drop.commit_begin().unwrap().position();
    let new = leader.tree();
    leader.begin_put(new, "k", "v").unwrap().position();
    leader.commit_all();
    let held = member.transactions.read().unwrap();
    let synced = member.transactions.sync_from(&source, &()).unwrap();
    assert_eq!(synced.resumed, 0);
    assert!(held.get(trees[0], b"000").unwrap().is_some(), "older snapshots show what they showed");
    follow(&member, &leader);
}

#[test]
fn data_of_another_origin_is_not_thrown_away() {
    let (leader, _) = leader(1);
    let source = Source::new(leader.transactions.clone());
    let foreign = blank();
    let beyond = Position(leader.log().appended().0 + 100);
    foreign.engine.apply(&[arbor_engine::Batch { position: beyond, ops: vec![create(50)] }]).unwrap();
    let refused = foreign.transactions.sync_from(&source, &());
    let Err(Error::NotSynced { reason }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("empty directory"), "{reason}");
    assert!(!marked(&foreign) && foreign.engine.trees().unwrap() == [TreeId(50)]);
}

fn create(tree: u64) -> Op {
    Op::CreateTree { tree: TreeId(tree), options: TreeOptions::default() }
}

#[test]
fn a_directory_of_an_interrupted_sync_does_not_open_alone() {
    let (leader, _) = leader(1);
    let source = Source::new(leader.transactions.clone());
    let member = blank();
    assert!(member.transactions.sync_from(&peer_that_fails_at_once(&source), &()).is_err());
    let (disk, engine) = (member.disk.crash(1), member.engine.crash());
    let options = options(&disk);
    let Err(Error::NotSynced { reason }) = Member::open(Opening::Own, disk, engine, options) else {
        panic!("it opened")
    };
    assert!(reason.contains("arbor.syncing"), "{reason}");
}

fn peer_that_fails_at_once(source: &Source) -> impl Peer {
    let between = |_| Err(PeerError::Failed("gone".into()));
    Between { inner: source, requests: AtomicU32::new(0), between }
}

#[test]
fn only_a_follower_with_a_place_for_the_marker_syncs() {
    let (leader, _) = leader(1);
    let source = Source::new(leader.transactions.clone());
    assert!(matches!(leader.transactions.sync_from(&source, &()), Err(Error::NotSynced { .. })));
    let member = Member::follower(quick());
    assert!(matches!(member.transactions.sync_from(&source, &()), Err(Error::NotSynced { .. })));
}

/// The log is kept for members that fetch it, up to the limit.
#[test]
fn the_log_is_held_for_members() {
    let (leader, trees) = leader(1);
    let first = leader.log().first();
    let write = |count: u64| {
        for n in 0..count {
            leader.begin_put(trees[0], &format!("{n:05}"), &"x".repeat(500)).unwrap().position();
            leader.commit_all();
        }
        leader.transactions.checkpoint_now().unwrap();
    };
    let needed = leader.log().appended().next();
    leader.transactions.hold_log_for_members(Some(needed));
    leader.transactions.set_log_held_max(1 << 30);
    write(200);
    assert!(leader.log().first() <= needed && leader.transactions.log_held_from() == Some(needed));
    let mut reader = leader.log().read(needed);
    assert_eq!(reader.next_borrowed().unwrap().unwrap().0, needed, "what a member needs next is there");
    leader.transactions.set_log_held_max(8 << 10);
    write(200);
    assert!(leader.log().first() > needed, "more than the limit is not kept");
    leader.transactions.hold_log_for_members(None);
    let before = leader.log().first();
    write(200);
    assert!(leader.log().first() > before && before > first);
}
