//! Loads: trees that are filled past the log, which the other members of a set fetch before they acknowledge what refers to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use arbor_base::invariants::assert_reached;
use arbor_base::{Position, TreeId};
use arbor_disk::Fault;
use arbor_engine::Engine;
use arbor_txn::fetch::{Begun, Peer, PeerError, RowsChecksum, Source};
use arbor_txn::record::{Load, Record};
use arbor_txn::{Durability, Error, Opening, TreeOptions};

use crate::initial_sync::{blank, crash};
use crate::sets::{Member, quick};
use crate::support::rig;

fn numbered(count: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..count).map(|n| (n.to_be_bytes().to_vec(), format!("row {n}").into_bytes())).collect()
}

/// Fills the tree past the log, durably.
fn fill(member: &Member, tree: TreeId, count: u32) -> Load {
    let (rows, mut sum) = (numbered(count), RowsChecksum::default());
    rows.iter().for_each(|(key, value)| sum.add(key, value));
    member.transactions.bulk_load(tree, &mut rows.into_iter()).unwrap();
    member.transactions.checkpoint_now().unwrap();
    Load { tree, rows: sum.rows, checksum: sum.crc }
}

/// Publishes a load; `everywhere` is asked until it says that all members have it.
fn publish(member: &Member, load: Load, mut everywhere: impl FnMut() -> bool) -> Position {
    let (own, ends) = (&member.transactions, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let published = scope.spawn(|| {
            let published = own.publish_loads(&[load], &|| false);
            ends.store(true, SeqCst);
            published
        });
        // Not asked again: from then on the record may be in the log while the load is open still.
        let mut is_everywhere = false;
        while !ends.load(SeqCst) {
            if !is_everywhere && own.loads().open().contains(&load.tree.0) && everywhere() {
                is_everywhere = true;
                own.loads().set_everywhere(load.tree.0);
            }
            member.commit_all();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        published.join().unwrap().unwrap()
    })
}

fn source(member: &Member) -> Source {
    Source::new(member.transactions.clone())
}

fn never() -> bool {
    false
}

#[test]
fn a_standalone_logs_a_load_at_once() {
    let rig = rig();
    let tree = rig.tree();
    let before = rig.transactions.log().appended();
    let load = Load { tree, rows: 0, checksum: 0 };
    assert_eq!(rig.transactions.publish_loads(&[load], &never).unwrap(), before.next());
    let (_, payload) = rig.transactions.log().read(before.next()).next().unwrap().unwrap();
    assert_eq!(Record::decode(&payload).unwrap().loads, [load]);
    assert_eq!(rig.transactions.loads().open(), []);
    let gone = Load { tree: TreeId(900), ..load };
    assert!(matches!(rig.transactions.publish_loads(&[gone], &never), Err(Error::UnknownTree(TreeId(900)))));
    // The next start passes over it.
    let own = rig.own.transactions.close();
    own.unwrap();
}

#[test]
fn a_load_is_logged_when_the_others_have_it() {
    let (leader, follower) = (Member::leader(quick()), Member::follower(quick()));
    let tree = leader.tree();
    follower.fetch(leader.log());
    let load = fill(&leader, tree, 5000);
    let before = leader.log().appended();
    let mut asked = 0;
    let at = publish(&leader, load, || {
        asked += 1;
        assert_eq!(leader.log().appended(), before, "nothing refers to it before the others have it");
        if asked == 1 {
            // Its tree does not exist there yet.
            let open = leader.transactions.loads().open();
            assert_eq!(follower.transactions.fetch_offered(&open, &source(&leader), &never).unwrap(), 0);
            follower.sync();
            follower.transactions.set_commit_point(before).unwrap();
            assert_eq!(follower.transactions.fetch_offered(&open, &source(&leader), &never).unwrap(), 1);
            assert_eq!(follower.transactions.fetch_offered(&open, &source(&leader), &never).unwrap(), 0, "only once");
        }
        follower.transactions.loads().own().contains(&load.tree.0) && asked > 5
    });
    assert!(asked > 5, "it waited");
    leader.begin_put(tree, "z", "1").unwrap().position();
    leader.commit_all();
    follower.fetch(leader.log());
    assert_eq!(follower.transactions.loads().missing(), None);
    follower.sync();
    assert_eq!(follower.transactions.set_commit_point(at.next()).unwrap(), at.next());
    assert_eq!((follower.rows(tree), follower.rows(tree).len()), (leader.rows(tree), 5001));
    assert_eq!(follower.transactions.loads().unreadable_until(), None);
}

#[test]
fn a_member_without_the_load_waits_and_fetches_the_present_tree() {
    let (leader, follower) = (Member::leader(quick()), Member::follower(quick()));
    let tree = leader.tree();
    let load = fill(&leader, tree, 300);
    let at = publish(&leader, load, || true);
    // Changes of the tree since then; the follower gets them by the fetch, and passes over them in the log.
    for (key, value) in [("a", "1"), ("b", "2"), ("a", "3")] {
        leader.begin_put(tree, key, value).unwrap().position();
        leader.commit_all();
    }
    let until = leader.log().appended();
    follower.fetch(leader.log());
    follower.sync();
    assert_eq!(follower.transactions.loads().missing(), Some(at));
    assert_eq!(follower.transactions.set_commit_point(until).unwrap().next(), at, "nothing behind it is applied");
    assert!(follower.transactions.lead(2).is_err(), "who does not have all data does not lead");
    let peer = source(&leader);
    leader.begin_put(tree, "c", "4").unwrap().position();
    let last = leader.commit_all();
    assert_eq!(follower.transactions.fetch_missing(&peer, &never).unwrap(), 1);
    assert_eq!((peer.held(), follower.transactions.loads().missing()), (0, None));
    assert_eq!(follower.engine.applied(), until, "it went on by itself");
    assert_eq!(follower.transactions.loads().unreadable_until(), Some(last), "the tree is ahead of the others");
    follower.fetch(leader.log());
    follower.sync();
    follower.transactions.set_commit_point(last).unwrap();
    assert_eq!(follower.transactions.loads().unreadable_until(), None);
    assert_eq!(follower.rows(tree), leader.rows(tree));
}

/// A member that ended while a tree was ahead showed rows of a later state next to those of its own.
#[test]
fn a_tree_that_is_ahead_is_known_after_a_crash() {
    let (leader, follower) = (Member::leader(quick()), blank());
    let tree = leader.tree();
    let at = publish(&leader, fill(&leader, tree, 300), || true);
    follower.fetch(leader.log());
    follower.sync();
    follower.transactions.set_commit_point(at).unwrap();
    leader.begin_put(tree, "a", "1").unwrap().position();
    leader.begin_put(tree, "b", "2").unwrap().position();
    let last = leader.commit_all();
    assert_eq!(follower.transactions.fetch_missing(&source(&leader), &never).unwrap(), 1);
    follower.transactions.checkpoint_now().unwrap();

    let again = crash(&follower, 1);
    assert_eq!(again.engine.applied(), at);
    assert_reached(&["txn: a tree is ahead after a restart"]);
    assert_eq!(again.transactions.loads().unreadable_until(), Some(last));
    again.fetch(leader.log());
    again.sync();
    again.transactions.set_commit_point(Position(last.0 - 1)).unwrap();
    assert_eq!(again.transactions.loads().unreadable_until(), Some(last));
    assert_eq!(again.rows(tree), leader.rows(tree), "operations up to there are passed over");
    again.transactions.set_commit_point(last).unwrap();
    assert_eq!(again.transactions.loads().unreadable_until(), None);

    again.transactions.checkpoint_now().unwrap();
    let third = crash(&again, 1);
    assert_eq!(third.transactions.loads().unreadable_until(), None);
    assert_eq!(third.rows(tree), leader.rows(tree));
}

/// A tree that has no rows in the later state, or is dropped there, does not say by rows that it is ahead.
#[test]
fn a_tree_that_is_empty_ahead_is_known_after_a_crash() {
    for dropped in [false, true] {
        let (leader, follower) = (Member::leader(quick()), blank());
        let tree = leader.tree();
        let at = publish(&leader, fill(&leader, tree, 30), || true);
        follower.fetch(leader.log());
        follower.sync();
        follower.transactions.set_commit_point(at).unwrap();
        let mut txn = leader.transactions.begin().unwrap();
        match dropped {
            true => txn.drop_tree(tree),
            false => txn.delete_range(tree, "", None),
        }
        txn.commit_begin().unwrap().position();
        let last = leader.commit_all();
        assert_eq!(follower.transactions.fetch_missing(&source(&leader), &never).unwrap(), 1);
        assert_eq!(follower.transactions.loads().unreadable_until(), Some(last));
        follower.transactions.checkpoint_now().unwrap();

        let again = crash(&follower, 1);
        assert_eq!((again.engine.applied(), again.rows(tree).len()), (at, 0));
        assert_eq!(again.transactions.loads().unreadable_until(), Some(last), "30 rows belong to this state");
        again.fetch(leader.log());
        again.sync();
        again.transactions.set_commit_point(last).unwrap();
        assert_eq!(again.transactions.loads().unreadable_until(), None);
        assert_eq!(again.engine.trees().unwrap(), leader.engine.trees().unwrap());
    }
}

/// Wherever a late fetch fails: the rows of the later state are not there, or known to be of it.
#[test]
fn a_fetch_that_fails_at_any_call_of_the_disk_shows_no_later_state() {
    let mut failed = 0;
    for call in 0..40 {
        let (leader, follower) = (Member::leader(quick()), blank());
        let tree = leader.tree();
        follower.fetch(leader.log());
        follower.sync();
        follower.transactions.set_commit_point(leader.log().appended()).unwrap();
        let at = publish(&leader, fill(&leader, tree, 30), || true);
        leader.begin_put(tree, "a", "1").unwrap().position();
        let last = leader.commit_all();

        follower.disk.fail_nth(call, Fault::OutOfSpace);
        let peer = source(&leader);
        failed += u32::from(follower.transactions.fetch_offered(&[tree.0], &peer, &never).is_err());
        follower.disk.fail_nth(u64::from(u32::MAX), Fault::OutOfSpace);
        let shows_later =
            || follower.rows(tree).len() > 30 && follower.transactions.loads().unreadable_until().is_none();
        follower.fetch(leader.log());
        follower.sync();
        follower.transactions.set_commit_point(at).unwrap();
        assert!(!shows_later(), "call {call}");
        while follower.engine.applied() < at {
            follower.transactions.fetch_missing(&peer, &never).unwrap();
            assert!(!shows_later(), "call {call}");
        }
        follower.transactions.set_commit_point(last).unwrap();
        assert_eq!(follower.rows(tree), leader.rows(tree), "call {call}");
        assert_eq!(follower.transactions.loads().unreadable_until(), None);
    }
    assert!((3..40).contains(&failed), "{failed}");
}

#[test]
fn a_missing_load_is_found_again_after_a_crash() {
    let (leader, follower) = (Member::leader(quick()), Member::follower(quick()));
    let tree = leader.tree();
    let load = fill(&leader, tree, 10);
    let at = publish(&leader, load, || true);
    follower.fetch(leader.log());
    follower.sync();
    follower.transactions.set_commit_point(at).unwrap();
    follower.transactions.checkpoint_now().unwrap();
    let (disk, engine) = (follower.disk.crash(1), follower.engine.crash());
    let again = Member::open(Opening::Follower, disk, engine, quick()).unwrap();
    assert_eq!(again.transactions.loads().missing(), Some(at));
    again.fetch(leader.log());
    again.transactions.set_commit_point(at).unwrap();
    assert_eq!(again.transactions.fetch_missing(&source(&leader), &never).unwrap(), 1);
    assert_eq!(again.engine.applied(), at);
    // With the load it is not missing at the next start.
    again.transactions.checkpoint_now().unwrap();
    let (disk, engine) = (again.disk.crash(1), again.engine.crash());
    let third = Member::open(Opening::Follower, disk, engine, quick()).unwrap();
    assert_eq!(third.transactions.loads().missing(), None);
    assert_eq!(third.rows(tree), leader.rows(tree));
}

#[test]
fn a_load_whose_tree_is_gone_is_passed_over_until_its_drop() {
    let (leader, follower) = (Member::leader(quick()), Member::follower(quick()));
    let tree = leader.tree();
    let load = fill(&leader, tree, 10);
    publish(&leader, load, || true);
    leader.begin_put(tree, "a", "1").unwrap().position();
    leader.commit_all();
    let mut drop = leader.transactions.begin().unwrap();
    drop.drop_tree(tree);
    drop.commit_begin().unwrap().position();
    let last = leader.commit_all();
    follower.fetch(leader.log());
    follower.sync();
    follower.transactions.set_commit_point(last).unwrap();
    assert_eq!(follower.transactions.fetch_missing(&source(&leader), &never).unwrap(), 1);
    assert_eq!(follower.engine.applied(), last);
    assert_eq!(follower.engine.trees().unwrap(), leader.engine.trees().unwrap());
}

/// A peer that has restarted may be before the record that refers to the tree: it does not have the tree yet.
#[test]
fn a_peer_that_is_behind_says_nothing_of_the_tree() {
    let (leader, follower) = (Member::leader(quick()), Member::follower(quick()));
    let behind = Member::follower(quick());
    behind.fetch(leader.log());
    behind.sync();
    behind.transactions.set_commit_point(leader.log().appended()).unwrap();
    let tree = leader.tree();
    let load = fill(&leader, tree, 10);
    let at = publish(&leader, load, || true);
    follower.fetch(leader.log());
    follower.sync();
    follower.transactions.set_commit_point(at).unwrap();
    let peer = source(&behind);
    let refused = follower.transactions.fetch_missing(&peer, &never);
    assert!(matches!(&refused, Err(Error::Peer { reason }) if reason.contains("before the record")), "{refused:?}");
    assert_eq!((peer.held(), follower.transactions.loads().missing()), (0, Some(at)));
    assert_eq!(follower.transactions.fetch_missing(&source(&leader), &never).unwrap(), 1);
    assert_eq!(follower.rows(tree).len(), 10);
}

#[test]
fn a_cut_forgets_the_loads_of_records_that_go() {
    let (leader, follower) = (Member::leader(quick()), Member::follower(quick()));
    let tree = leader.tree();
    follower.fetch(leader.log());
    follower.sync();
    let before = leader.log().appended();
    follower.transactions.set_commit_point(before).unwrap();
    publish(&leader, fill(&leader, tree, 10), || true);
    follower.fetch(leader.log());
    assert_eq!(follower.transactions.loads().missing(), Some(before.next()));
    follower.transactions.cut_behind(before).unwrap();
    assert_eq!(follower.transactions.loads().missing(), None);
}

#[test]
fn a_primary_that_stops_leading_opens_nothing() {
    let leader = Member::leader(quick());
    let tree = leader.tree();
    let load = fill(&leader, tree, 10);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| leader.transactions.publish_loads(&[load], &never));
        while leader.transactions.loads().open().is_empty() {
            std::thread::yield_now();
        }
        leader.transactions.stop_leading();
        assert!(matches!(waits.join().unwrap(), Err(Error::NotLeading)));
    });
    assert_eq!(leader.transactions.loads().open(), []);
}

/// A peer with which something happens before a state is held, and while its rows are on the way.
struct Meanwhile<'m> {
    inner: Source,
    before: &'m (dyn Fn() -> Result<(), PeerError> + Sync),
    during: &'m (dyn Fn() + Sync),
}

impl Peer for Meanwhile<'_> {
    fn begin(&self) -> Result<Begun, PeerError> {
        (self.before)()?;
        self.inner.begin()
    }

    fn block(&self, snapshot: u64, tree: TreeId, after: Option<&[u8]>) -> Result<Vec<u8>, PeerError> {
        (self.during)();
        self.inner.block(snapshot, tree, after)
    }

    fn end(&self, snapshot: u64) {
        self.inner.end(snapshot);
    }
}

/// A follower that no commit waits for, and a load of which it knows by an offer alone.
fn offered() -> (Member, Member, Load) {
    let (leader, follower) = (Member::leader(quick()), Member::follower(quick()));
    let tree = leader.tree();
    let load = fill(&leader, tree, 300);
    follower.fetch(leader.log());
    follower.sync();
    follower.transactions.set_commit_point(leader.log().appended()).unwrap();
    (leader, follower, load)
}

/// Takes all records, acknowledges none before its loads are here, and compares.
fn catches_up(leader: &Member, follower: &Member, load: Load) {
    let last = leader.commit_all();
    follower.fetch(leader.log());
    follower.sync();
    follower.transactions.fetch_missing(&source(leader), &never).unwrap();
    assert_eq!(follower.transactions.loads().missing(), None);
    assert_eq!(follower.transactions.set_commit_point(last).unwrap(), last);
    assert_eq!(follower.rows(load.tree), leader.rows(load.tree));
    assert_eq!(follower.transactions.loads().unreadable_until(), None);
}

#[test]
fn a_record_that_comes_while_its_load_is_being_fetched_waits_no_longer_than_that() {
    let (leader, follower, load) = offered();
    let sent = AtomicBool::new(false);
    let during = || {
        if sent.swap(true, SeqCst) {
            return;
        }
        publish(&leader, load, || true);
        follower.fetch(leader.log());
        assert!(follower.transactions.loads().missing().is_some());
    };
    let peer = Meanwhile { inner: source(&leader), before: &|| Ok(()), during: &during };
    assert_eq!(follower.transactions.fetch_offered(&[load.tree.0], &peer, &never).unwrap(), 1);
    leader.begin_put(load.tree, "a", "1").unwrap().position();
    catches_up(&leader, &follower, load);
    assert_reached(&["txn: a record refers to a load that is not here"]);
}

#[test]
fn an_offer_that_is_carried_out_late_brings_a_later_state() {
    for row_after in [false, true] {
        let (leader, follower, load) = offered();
        let before = || {
            publish(&leader, load, || true);
            leader.begin_put(load.tree, "a", "1").unwrap().position();
            leader.commit_all();
            Ok(())
        };
        let peer = Meanwhile { inner: source(&leader), before: &before, during: &|| {} };
        assert_eq!(follower.transactions.fetch_offered(&[load.tree.0], &peer, &never).unwrap(), 1);
        if row_after {
            leader.begin_put(load.tree, "b", "2").unwrap().position();
        }
        catches_up(&leader, &follower, load);
    }
    assert_reached(&["txn: a load was fetched after the record that refers to it"]);
}

/// An empty tree needs no fetch. One that came after its record would show rows before their time.
#[test]
fn a_late_offer_of_an_empty_load_is_passed_over() {
    let (leader, follower) = (Member::leader(quick()), Member::follower(quick()));
    let tree = leader.tree();
    let load = fill(&leader, tree, 0);
    let at = publish(&leader, load, || true);
    follower.fetch(leader.log());
    follower.sync();
    follower.transactions.set_commit_point(at).unwrap();
    leader.begin_put(tree, "a", "1").unwrap().position();
    leader.commit_all();
    assert_eq!(follower.transactions.fetch_offered(&[tree.0], &source(&leader), &never).unwrap(), 0);
    assert_eq!((follower.rows(tree).len(), follower.transactions.loads().unreadable_until()), (0, None));
    follower.fetch(leader.log());
    follower.sync();
    follower.transactions.set_commit_point(leader.log().appended()).unwrap();
    assert_eq!(follower.rows(tree), leader.rows(tree));
}

#[test]
fn a_load_that_was_fetched_before_a_restart_is_reported_again() {
    let (leader, follower, load) = offered();
    let fetch = |own: &Member| own.transactions.fetch_offered(&[load.tree.0], &source(&leader), &never).unwrap();
    assert_eq!(fetch(&follower), 1);
    let (disk, engine) = (follower.disk.crash(1), follower.engine.crash());
    let again = Member::open(Opening::Follower, disk, engine, quick()).unwrap();
    assert_eq!((again.transactions.loads().own(), fetch(&again)), (vec![], 1));
    assert_eq!(again.transactions.loads().own(), [load.tree.0]);
    publish(&leader, load, || true);
    catches_up(&leader, &again, load);
}

#[test]
fn a_fetch_that_fails_keeps_what_came_before() {
    let (leader, follower) = (Member::leader(quick()), Member::follower(quick()));
    let trees = [leader.tree(), leader.tree()];
    let loads = trees.map(|tree| fill(&leader, tree, 10));
    follower.fetch(leader.log());
    follower.sync();
    follower.transactions.set_commit_point(leader.log().appended()).unwrap();
    for load in loads {
        publish(&leader, load, || true);
    }
    follower.fetch(leader.log());
    let begun = AtomicBool::new(false);
    let before = || if begun.swap(true, SeqCst) { Err(PeerError::Expired) } else { Ok(()) };
    let peer = Meanwhile { inner: source(&leader), before: &before, during: &|| {} };
    assert!(follower.transactions.fetch_missing(&peer, &never).is_err());
    catches_up(&leader, &follower, loads[0]);
}

/// A peer that damages blocks, and loses the snapshot.
struct Bad {
    inner: Source,
    damaged: std::sync::atomic::AtomicU32,
    expires: AtomicBool,
}

impl Peer for Bad {
    fn begin(&self) -> Result<Begun, PeerError> {
        self.inner.begin()
    }

    fn block(&self, snapshot: u64, tree: TreeId, after: Option<&[u8]>) -> Result<Vec<u8>, PeerError> {
        if self.expires.load(SeqCst) {
            return Err(PeerError::Expired);
        }
        let mut block = self.inner.block(snapshot, tree, after)?;
        let left = self.damaged.load(SeqCst);
        if left > 0 {
            self.damaged.store(left - 1, SeqCst);
            let middle = block.len() / 2;
            block[middle] ^= 1;
        }
        Ok(block)
    }

    fn end(&self, snapshot: u64) {
        self.inner.end(snapshot);
    }
}

#[test]
fn damage_on_the_way_is_asked_for_again_and_a_failed_fetch_leaves_nothing() {
    let (leader, follower) = (Member::leader(quick()), Member::follower(quick()));
    let tree = leader.tree();
    let load = fill(&leader, tree, 10);
    follower.fetch(leader.log());
    follower.sync();
    follower.transactions.set_commit_point(leader.log().appended()).unwrap();
    let bad = Bad { inner: source(&leader), damaged: 9.into(), expires: AtomicBool::new(false) };
    let fetch = || follower.transactions.fetch_offered(&[load.tree.0], &bad, &never);
    assert!(matches!(fetch(), Err(Error::Peer { reason }) if reason.contains("checksum")));
    bad.expires.store(true, SeqCst);
    assert!(matches!(fetch(), Err(Error::Peer { reason }) if reason.contains("snapshot")));
    assert!(follower.rows(tree).is_empty() && follower.transactions.loads().own().is_empty());
    bad.expires.store(false, SeqCst);
    bad.damaged.store(2, SeqCst);
    assert_eq!(fetch().unwrap(), 1);
    assert_eq!(follower.rows(tree), leader.rows(tree));
}

#[test]
fn a_record_that_refers_to_other_rows_is_refused() {
    let (leader, follower) = (Member::leader(quick()), Member::follower(quick()));
    let tree = leader.tree();
    let load = fill(&leader, tree, 10);
    follower.fetch(leader.log());
    follower.sync();
    follower.transactions.set_commit_point(leader.log().appended()).unwrap();
    follower.transactions.fetch_offered(&[load.tree.0], &source(&leader), &never).unwrap();
    let at = publish(&leader, Load { checksum: load.checksum ^ 1, ..load }, || true);
    follower.fetch(leader.log());
    follower.sync();
    let refused = follower.transactions.set_commit_point(at);
    assert!(matches!(refused, Err(Error::CorruptRecord { position, .. }) if position == at), "{refused:?}");
}

/// Blocks of a tree that is larger than one.
#[test]
fn a_large_tree_comes_in_several_blocks() {
    let rig = rig();
    let tree = rig.tree();
    let rows: Vec<(Vec<u8>, Vec<u8>)> =
        (0..90u32).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; 100 << 10])).collect();
    rig.transactions.bulk_load(tree, &mut rows.clone().into_iter()).unwrap();
    let mut empty = rig.begin();
    let other = empty.create_tree(TreeOptions::default());
    empty.commit(Durability::Applied).unwrap();
    let source = Arc::new(Source::new(rig.transactions.clone()));
    let begun = source.begin().unwrap();
    assert!(begun.trees.iter().any(|facts| facts.tree == tree));
    let mut after: Option<Vec<u8>> = None;
    let mut blocks = 0;
    loop {
        let block = source.block(begun.snapshot, tree, after.as_deref()).unwrap();
        assert!(block.len() < 1 << 20, "they compress well");
        blocks += 1;
        after = Some(rows[(blocks * 41 - 1).min(89)].0.clone());
        if block[4] == 1 {
            break;
        }
    }
    assert_eq!(blocks, 3);
    assert_eq!(source.block(begun.snapshot, other, None).unwrap()[4], 1);
    assert!(matches!(source.block(begun.snapshot, TreeId(999), None), Err(PeerError::NoTree(_))));
    source.expire(std::time::Duration::ZERO);
    assert!(matches!(source.block(begun.snapshot, tree, None), Err(PeerError::Expired)));
}
