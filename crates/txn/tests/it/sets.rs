//! Members of a set: commits that count when the set has them, followers, a change of the leader.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::support::rows;
use arbor_base::{Position, TreeId};
use arbor_disk::FaultyDisk;
use arbor_engine::model::ModelEngine;
use arbor_engine::{Engine, Op};
use arbor_log::{Log, LogOptions, Matching};
use arbor_txn::record::Record;
use arbor_txn::{
    Applied, CommitRule, CounterId, Durability, Error, Opening, Options, Patience, Pending, ReadView, Transactions,
    TreeOptions, View,
};

pub(crate) struct Member {
    pub disk: FaultyDisk,
    pub engine: Arc<ModelEngine>,
    pub transactions: Arc<Transactions>,
}

pub(crate) fn quick() -> Options {
    Options { checkpoint_thread: false, in_flight_wait: Duration::ZERO, ..Options::default() }
}

impl Member {
    pub(crate) fn open(
        opening: Opening,
        disk: FaultyDisk,
        engine: ModelEngine,
        options: Options,
    ) -> Result<Member, Error> {
        let log = LogOptions { background: false, segment_bytes: 2000, ..LogOptions::default() };
        let log = Log::open(Arc::new(disk.clone()), Path::new("log"), log).map_err(Error::Log)?;
        let engine = Arc::new(engine);
        let transactions = Transactions::open_as(opening, log, engine.clone(), options)?;
        Ok(Member { disk, engine, transactions })
    }

    pub(crate) fn follower(options: Options) -> Member {
        Member::open(Opening::Follower, FaultyDisk::new(), ModelEngine::new(), options).unwrap()
    }

    /// Leads a set whose commit point only the test moves.
    pub(crate) fn leader(options: Options) -> Member {
        let own = Member::follower(options);
        let lead = own.transactions.lead(1).unwrap();
        own.commit_all();
        assert_eq!(lead.outcome().unwrap().unwrap(), lead.position());
        // The ledger of a new store.
        own.commit_all();
        own
    }

    pub(crate) fn log(&self) -> &Log {
        self.transactions.log()
    }

    pub(crate) fn sync(&self) {
        self.log().wait_durable(self.log().appended()).unwrap();
    }

    /// The set has all that this member has logged.
    pub(crate) fn commit_all(&self) -> Position {
        self.sync();
        self.transactions.set_commit_point(self.log().appended()).unwrap()
    }

    pub(crate) fn begin_put(&self, tree: TreeId, key: &str, value: &str) -> Result<Pending, Error> {
        let mut txn = self.transactions.begin()?;
        txn.put(tree, key, value);
        txn.commit_begin()
    }

    pub(crate) fn tree(&self) -> TreeId {
        let mut txn = self.transactions.begin().unwrap();
        let tree = txn.create_tree(TreeOptions::default());
        let pending = txn.commit_begin().unwrap();
        self.commit_all();
        pending.wait(None).unwrap();
        tree
    }

    pub(crate) fn rows(&self, tree: TreeId) -> Vec<String> {
        rows(&self.transactions.read().unwrap(), tree)
    }

    /// Takes all that `leader` has logged, cutting off first what it does not have.
    pub(crate) fn fetch(&self, leader: &Log) {
        let own = self.log();
        loop {
            let end = own.appended();
            match leader.compare(end, own.epoch_at(end).expect("the end of the own log has an epoch")) {
                Matching::Same => break,
                Matching::Ends { epoch, last } => {
                    let common = own.epochs().common_end(epoch, last).expect("nothing was trimmed");
                    self.transactions.cut_behind(common).unwrap();
                }
                Matching::Trimmed => panic!("nothing was trimmed"),
            }
        }
        let mut reader = leader.read(own.appended().next());
        self.transactions.receive(0, own.appended(), &[]).unwrap();
        while let Some(read) = reader.next() {
            let (_, payload) = read.unwrap();
            self.transactions.receive(reader.epoch(), own.appended(), &[&payload]).unwrap();
        }
    }
}

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_millis(20))
}

#[test]
fn without_a_set_a_begun_commit_counts_at_once() {
    let own = Member::open(Opening::Own, FaultyDisk::new(), ModelEngine::new(), quick()).unwrap();
    assert_eq!(own.transactions.rule(), CommitRule::Own);
    let mut txn = own.transactions.begin().unwrap();
    let tree = txn.create_tree(TreeOptions::default());
    txn.put(tree, "a", "1");
    let pending = txn.commit_begin().unwrap();
    assert_eq!(pending.outcome().unwrap().unwrap(), pending.position());
    assert_eq!(own.rows(tree), ["a=1"]);
}

#[test]
fn a_commit_is_visible_once_the_commit_point_has_passed_it() {
    let leader = Member::leader(quick());
    let tree = leader.tree();
    let (first, second) = (leader.begin_put(tree, "a", "1").unwrap(), leader.begin_put(tree, "b", "2").unwrap());
    assert!(leader.rows(tree).is_empty() && first.outcome().is_none());
    assert!(matches!(first.wait(soon()), Err(Error::Unsettled { position }) if position == first.position()));
    leader.sync();
    assert!(leader.rows(tree).is_empty(), "durable here is not committed");
    leader.transactions.set_commit_point(first.position()).unwrap();
    assert_eq!(leader.rows(tree), ["a=1"]);
    assert_eq!(first.wait(soon()).unwrap(), first.position());
    assert!(second.outcome().is_none());
    leader.transactions.set_commit_point(second.position()).unwrap();
    assert_eq!(leader.rows(tree), ["a=1", "b=2"]);
    second.wait(None).unwrap();
}

#[test]
fn a_commit_returns_at_the_deadline_of_its_thread() {
    let leader = Member::leader(quick());
    let tree = leader.tree();
    let commit = |key: &str| {
        let mut txn = leader.transactions.begin().unwrap();
        txn.put(tree, key, "1");
        txn.commit(Durability::Applied)
    };
    let patience = Patience::until(soon());
    let position = commit("a").unwrap();
    leader.sync();
    assert!(leader.rows(tree).is_empty(), "it is in the log, not visible");
    assert!(!leader.transactions.is_durable_by(Some(position), soon().unwrap()), "durable here is not committed");
    leader.commit_all();
    assert_eq!(leader.rows(tree), ["a=1"]);
    assert!(leader.transactions.is_durable_by(Some(position), soon().unwrap()));
    drop(patience);

    let _patience = Patience::until(Some(Instant::now() + Duration::from_secs(60)));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while leader.log().appended() == position {
                std::thread::yield_now();
            }
            leader.transactions.stop_leading();
        });
        assert!(matches!(commit("b"), Err(Error::Unsettled { .. })), "its term ends before the deadline");
    });
}

#[test]
fn what_is_not_durable_here_is_not_applied() {
    let leader = Member::leader(quick());
    let tree = leader.tree();
    let pending = leader.begin_put(tree, "a", "1").unwrap();
    leader.transactions.set_commit_point(pending.position()).unwrap();
    assert!(pending.outcome().is_none() && leader.engine.applied() < pending.position());
    leader.sync();
    assert_eq!(leader.transactions.set_commit_point(Position(1)).unwrap(), pending.position());
    pending.wait(None).unwrap();
}

#[test]
fn a_commit_in_flight_conflicts_with_later_ones() {
    let leader = Member::leader(quick());
    let tree = leader.tree();
    let first = leader.begin_put(tree, "a", "1").unwrap();
    assert!(matches!(leader.begin_put(tree, "a", "2"), Err(Error::Conflict)));
    leader.begin_put(tree, "b", "1").unwrap().position();
    let mut ranged = leader.transactions.begin().unwrap();
    ranged.delete_range(tree, "a", None);
    assert!(matches!(ranged.commit_begin(), Err(Error::Conflict)));
    leader.commit_all();
    first.wait(None).unwrap();
    leader.begin_put(tree, "a", "2").unwrap().position();
    leader.commit_all();
    assert_eq!(leader.rows(tree), ["a=2", "b=1"]);
}

#[test]
fn counters_and_trees_of_commits_in_flight_count_for_later_ones() {
    let leader = Member::leader(quick());
    let id = CounterId(7);
    for _ in 0..3 {
        let mut txn = leader.transactions.begin().unwrap();
        txn.create_tree(TreeOptions::default());
        txn.add_counter(id, 5);
        txn.commit_begin().unwrap().position();
    }
    assert_eq!(leader.transactions.counter(id).unwrap(), 0);
    leader.commit_all();
    assert_eq!(leader.transactions.counter(id).unwrap(), 15);
}

/// Runs `work` while a thread commits whatever is logged, every millisecond.
fn with_a_set<T>(leader: &Member, work: impl FnOnce() -> T) -> T {
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(SeqCst) {
                leader.commit_all();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        ends.store(true, SeqCst);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn patient() -> Options {
    Options { in_flight_wait: Duration::from_secs(60), ..quick() }
}

/// Adds one to a row that all threads read and write.
fn count_up(leader: &Member, tree: TreeId, tries: &AtomicU64) {
    let added = leader.transactions.retry(Durability::Applied, |txn| -> Result<(), Error> {
        tries.fetch_add(1, SeqCst);
        let before = txn.get(tree, b"n")?.map_or(0, |value| String::from_utf8_lossy(&value).parse::<u64>().unwrap());
        txn.put(tree, "n", (before + 1).to_string());
        Ok(())
    });
    added.unwrap();
}

#[test]
fn a_lost_race_waits_until_the_winner_is_visible() {
    let leader = Member::leader(patient());
    let (tree, tries) = (leader.tree(), AtomicU64::new(0));
    with_a_set(&leader, || {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..25).for_each(|_| count_up(&leader, tree, &tries)));
            }
        });
    });
    assert_eq!(leader.rows(tree), ["n=100"]);
    // Each of the four loses to at most three others before it is its turn, if it waits for them.
    assert!(tries.load(SeqCst) <= 100 * 5, "{tries:?} tries: a race is lost again and again without waiting");
}

#[test]
fn an_exclusive_attempt_waits_for_what_is_in_flight() {
    let leader = Member::leader(Options { retries_before_exclusive: 0, ..patient() });
    let (tree, tries) = (leader.tree(), AtomicU64::new(0));
    with_a_set(&leader, || {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10).for_each(|_| count_up(&leader, tree, &tries)));
            }
        });
    });
    assert_eq!(leader.rows(tree), ["n=40"]);
    assert_eq!(tries.load(SeqCst), 40, "no exclusive attempt conflicts");
}

#[test]
fn what_is_in_flight_is_bounded() {
    let leader = Member::leader(Options { conflict_keys_max: 20, ..quick() });
    let tree = leader.tree();
    let key = |n: usize| format!("{n:03}");
    let logged = (0..100).take_while(|n| leader.begin_put(tree, &key(*n), "x").is_ok()).count();
    assert!((5..20).contains(&logged), "{logged} commits of one key were let through");
    assert!(matches!(leader.begin_put(tree, "z", "x"), Err(Error::Refused { .. })));
    leader.commit_all();
    leader.begin_put(tree, "z", "x").unwrap().position();
    leader.commit_all();
    assert_eq!(leader.rows(tree).len(), logged + 1);
}

#[test]
fn a_committer_that_waits_for_room_goes_through_when_there_is_some() {
    let leader = Member::leader(Options { conflict_keys_max: 20, ..patient() });
    let tree = leader.tree();
    with_a_set(&leader, || (0..100).for_each(|n| drop(leader.begin_put(tree, &format!("{n:03}"), "x").unwrap())));
    leader.commit_all();
    assert_eq!(leader.rows(tree).len(), 100);
}

#[test]
fn giving_up_the_lead_leaves_the_outcome_open() {
    let leader = Member::leader(quick());
    let tree = leader.tree();
    let (first, second) = (leader.begin_put(tree, "a", "1").unwrap(), leader.begin_put(tree, "b", "2").unwrap());
    leader.sync();
    leader.transactions.set_commit_point(first.position()).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| second.wait(None));
        leader.transactions.stop_leading();
        assert!(matches!(waits.join().unwrap(), Err(Error::Unsettled { .. })));
    });
    assert_eq!(first.wait(None).unwrap(), first.position());
    assert!(matches!(leader.begin_put(tree, "c", "3"), Err(Error::NotLeading)));
    assert_eq!(leader.rows(tree), ["a=1"]);

    // It leads again: what was in flight is in its log, and is committed with the no-op of the new epoch.
    let lead = leader.transactions.lead(2).unwrap();
    assert!(matches!(leader.begin_put(tree, "c", "3"), Err(Error::NotLeading)), "the no-op is not committed");
    leader.commit_all();
    lead.wait(None).unwrap();
    assert_eq!(leader.rows(tree), ["a=1", "b=2"]);
    assert!(matches!(second.outcome(), Some(Err(Error::Unsettled { .. }))), "the answer does not change");
    leader.begin_put(tree, "c", "3").unwrap().position();
    leader.commit_all();
    assert_eq!(leader.log().epoch_at(leader.log().appended()), Some(2));
    assert_eq!(leader.rows(tree), ["a=1", "b=2", "c=3"]);
}

#[test]
fn a_transaction_of_an_earlier_reign_is_not_committed() {
    let leader = Member::leader(quick());
    let tree = leader.tree();
    let (mut open, mut plain) = (leader.transactions.begin_open().unwrap(), leader.transactions.begin().unwrap());
    open.put(tree, "a", "open");
    plain.put(tree, "b", "plain");
    leader.transactions.stop_leading();
    leader.transactions.lead(2).unwrap().position();
    leader.commit_all();
    assert!(matches!(open.claim(tree, b"c"), Err(Error::Conflict)));
    assert!(matches!(open.commit_begin(), Err(Error::Conflict)));
    assert!(matches!(plain.commit_begin(), Err(Error::Conflict)));
}

#[test]
fn waits_end_before_the_lead_does() {
    let leader = Member::leader(quick());
    let tree = leader.tree();
    let first = leader.begin_put(tree, "a", "1").unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| first.wait(None));
        leader.transactions.end_waits();
        assert!(matches!(waits.join().unwrap(), Err(Error::Unsettled { .. })));
    });
    let second = leader.begin_put(tree, "b", "2").unwrap();
    assert!(matches!(second.wait(None), Err(Error::Unsettled { .. })), "later ones as well");
    leader.commit_all();
    assert_eq!(leader.rows(tree), ["a=1", "b=2"], "they are committed nevertheless");
}

#[test]
fn closing_ends_all_waiting() {
    let leader = Member::leader(quick());
    let tree = leader.tree();
    let pending = leader.begin_put(tree, "a", "1").unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| pending.wait(None));
        leader.transactions.close().unwrap();
        assert!(matches!(waits.join().unwrap(), Err(Error::Unsettled { .. })));
    });
}

#[test]
fn the_rule_changes_while_a_member_leads() {
    let own = Member::open(Opening::Own, FaultyDisk::new(), ModelEngine::new(), quick()).unwrap();
    own.transactions.set_rule(CommitRule::Set).unwrap();
    let mut txn = own.transactions.begin().unwrap();
    let tree = txn.create_tree(TreeOptions::default());
    txn.put(tree, "a", "1");
    let pending = txn.commit_begin().unwrap();
    assert!(pending.outcome().is_none());
    own.transactions.set_rule(CommitRule::Own).unwrap();
    pending.wait(None).unwrap();
    assert_eq!(own.rows(tree), ["a=1"]);
    own.begin_put(tree, "b", "2").unwrap().wait(None).unwrap();
    assert_eq!(own.rows(tree), ["a=1", "b=2"]);
}

#[test]
fn a_new_member_shows_the_times_behind_its_first_record() {
    let leader = Member::leader(Options { history: Some(forever()), ..quick() });
    let tree = leader.tree();
    let put = |value: &str| {
        let pending = leader.begin_put(tree, "key", value).unwrap();
        leader.sync();
        leader.transactions.set_commit_point(pending.position()).unwrap();
        leader.transactions.time()
    };
    let times = ["1", "2", "3"].map(put);
    for (time, expected) in times.into_iter().zip(["key=1", "key=2", "key=3"]) {
        assert_eq!(rows(&leader.transactions.view_at(time).unwrap(), tree), [expected]);
    }
}

#[test]
fn a_state_at_a_time_in_flight_is_waited_for() {
    let leader = Member::leader(Options { history: Some(forever()), apply_wait: Duration::from_secs(60), ..quick() });
    let tree = leader.tree();
    let (view, before) = leader.transactions.read_timed().unwrap();
    let pending = leader.begin_put(tree, "a", "1").unwrap();
    let now = leader.transactions.time();
    assert!(now > before && rows(&view, tree).is_empty());
    assert!(rows(&leader.transactions.view_at(before).unwrap(), tree).is_empty(), "a past state needs no waiting");
    assert_eq!(leader.transactions.read_timed().unwrap().1, before, "the present one is without what is in flight");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| rows(&leader.transactions.view_at(now).unwrap(), tree));
        leader.commit_all();
        assert_eq!(waits.join().unwrap(), ["a=1"]);
    });
    pending.wait(None).unwrap();
}

pub(crate) fn forever() -> arbor_txn::Retention {
    arbor_txn::Retention { bytes: u64::MAX, time: Duration::MAX }
}

#[test]
fn opening_as_a_follower_writes_nothing() {
    let own = Member::open(Opening::Own, FaultyDisk::new(), ModelEngine::new(), quick()).unwrap();
    let mut txn = own.transactions.begin().unwrap();
    let tree = txn.create_tree(TreeOptions::default());
    txn.put(tree, "a", "1");
    txn.commit(Durability::Journaled).unwrap();
    own.transactions.checkpoint_now().unwrap();
    own.begin_put(tree, "a", "2").unwrap().wait(None).unwrap();
    own.sync();
    let (disk, engine) = (own.disk.crash(1), own.engine.crash());
    let (end, applied) = (own.log().appended(), engine.applied());
    assert!(applied < end);
    let follower = Member::open(Opening::Follower, disk, engine, quick()).unwrap();
    assert_eq!((follower.log().appended(), follower.engine.applied()), (end, applied));
    assert_eq!(follower.rows(tree), ["a=1"], "the tail of its log is not known to be committed");
    assert!(matches!(follower.begin_put(tree, "b", "1"), Err(Error::NotLeading)));
    follower.transactions.set_commit_point(end).unwrap();
    assert_eq!(follower.rows(tree), ["a=1"], "not before the leader's log is known to be equal");
    let blank = Member::follower(quick());
    assert_eq!((blank.log().appended(), blank.engine.applied()), (Position::ZERO, Position::ZERO));
    let (empty, engine) = (FaultyDisk::new(), own.engine.reopen());
    let wiped = Member::open(Opening::Follower, empty, engine, quick()).map(drop);
    assert!(matches!(wiped, Err(Error::LogGap { .. })), "{wiped:?}");
}

/// Notes what it was called with.
#[derive(Default)]
struct Observer(std::sync::Mutex<Vec<String>>);

impl Applied for Observer {
    fn before(&self, ops: &[Op]) {
        self.0.lock().unwrap().push(format!("before {}", ops.len()));
    }

    fn after(&self, records: &[(Position, Record)], view: &ReadView) {
        let last = records.last().map(|(position, _)| *position);
        assert_eq!(last, Some(view.position()));
        let ops: Vec<usize> = records.iter().map(|(_, record)| record.ops.len()).collect();
        self.0.lock().unwrap().push(format!("after {ops:?}"));
    }
}

#[test]
fn a_follower_shows_what_is_committed_and_says_so() {
    let (leader, follower) = (Member::leader(quick()), Member::follower(quick()));
    let observer = Arc::new(Observer::default());
    let tree = leader.tree();
    follower.fetch(leader.log());
    follower.commit_all();
    assert_eq!(follower.rows(tree), Vec::<String>::new());
    follower.transactions.observe(observer.clone());
    leader.begin_put(tree, "a", "1").unwrap().position();
    leader.begin_put(tree, "b", "2").unwrap().position();
    follower.fetch(leader.log());
    follower.sync();
    assert_eq!(follower.rows(tree), Vec::<String>::new(), "fetched is not committed");
    follower.commit_all();
    assert_eq!(follower.rows(tree), ["a=1", "b=2"]);
    assert_eq!(*observer.0.lock().unwrap(), ["before 1", "before 1", "after [1, 1]"]);
    assert_eq!(follower.transactions.time(), leader.transactions.time());
    let outcome = follower.transactions.receive(1, Position(1), &[]);
    assert!(matches!(outcome, Err(Error::Log(arbor_log::Error::NotAppended { .. }))));
}

/// A follower that starts with all records gets none from which it could learn that they match.
#[test]
fn a_follower_that_has_everything_applies_what_was_compared() {
    let (leader, follower) = (Member::leader(quick()), Member::follower(quick()));
    leader.tree();
    follower.fetch(leader.log());
    follower.sync();
    let engine = follower.engine.kill_process();
    let follower = Member::open(Opening::Follower, follower.disk.kill_process(), engine, quick()).unwrap();
    let end = follower.log().appended();
    assert_eq!(follower.transactions.set_commit_point(end).unwrap(), Position::ZERO, "it may be another leader's log");
    let beyond = follower.transactions.set_matched_commit_point(end.next());
    assert!(matches!(beyond, Err(Error::Log(arbor_log::Error::NotAppended { .. }))));
    assert_eq!(follower.transactions.set_matched_commit_point(end).unwrap(), end);
    assert_eq!(follower.transactions.read().unwrap().position(), leader.transactions.read().unwrap().position());
}

#[test]
#[should_panic(expected = "R7")]
fn what_was_applied_is_never_cut_off() {
    let (leader, follower) = (Member::leader(quick()), Member::follower(quick()));
    leader.tree();
    follower.fetch(leader.log());
    let applied = follower.commit_all();
    let _unreachable = follower.transactions.cut_behind(Position(applied.0 - 1));
}

#[test]
fn a_chain_that_is_cut_in_the_middle_is_void() {
    let options = || Options { record_bytes_max: 100, ..quick() };
    let (one, other) = (Member::leader(options()), Member::follower(options()));
    let tree = one.tree();
    other.fetch(one.log());
    other.commit_all();
    let before = one.log().appended();
    let mut large = one.transactions.begin().unwrap();
    (0..50).for_each(|n| large.put(tree, format!("{n:03}"), "x".repeat(20)));
    let large = large.commit_begin().unwrap();
    assert!(large.position().0 > before.0 + 5, "it is a chain");
    // The other member has the first links only, and takes over.
    for read in one.log().read(before.next()).take(3) {
        let (position, payload) = read.unwrap();
        other.transactions.receive(1, Position(position.0 - 1), &[&payload]).unwrap();
    }
    one.transactions.stop_leading();
    other.transactions.lead(2).unwrap().position();
    other.commit_all();
    other.begin_put(tree, "a", "1").unwrap().position();
    other.commit_all();
    one.fetch(other.log());
    one.commit_all();
    assert!(matches!(large.outcome(), Some(Err(Error::Unsettled { .. }))));
    assert_eq!((one.rows(tree), other.rows(tree)), (vec!["a=1".into()], vec!["a=1".into()]));
    let again = Member::open(Opening::Follower, one.disk.crash(1), one.engine.crash(), options()).unwrap();
    again.fetch(other.log());
    again.commit_all();
    assert_eq!(again.rows(tree), ["a=1"]);
}

#[test]
fn a_follower_applies_a_chain_as_one() {
    let options = || Options { record_bytes_max: 100, ..quick() };
    let (leader, follower) = (Member::leader(options()), Member::follower(options()));
    let tree = leader.tree();
    let mut large = leader.transactions.begin().unwrap();
    (0..50).for_each(|n| large.put(tree, format!("{n:03}"), "x".repeat(20)));
    let last = large.commit_begin().unwrap().position();
    follower.fetch(leader.log());
    follower.sync();
    for position in 1..=last.0 {
        follower.transactions.set_commit_point(Position(position)).unwrap();
        let shown = follower.transactions.read().unwrap();
        let count = shown.cursor(tree).map_or(0, |_| rows(&shown, tree).len());
        assert!(count == 0 || (count == 50 && position == last.0), "{count} rows at {position}");
    }
    assert_eq!(follower.rows(tree).len(), 50);
}

/// Found by seed 19 of the simulation: the leader of a new store took commits without the tree that their counters are in.
#[test]
fn a_leader_without_space_for_its_ledger_takes_no_commits() {
    let own = Member::follower(quick());
    let lead = own.transactions.lead(1).unwrap();
    own.sync();
    own.disk.leave_free(20);
    let applied = own.transactions.set_commit_point(lead.position());
    assert!(matches!(applied, Err(Error::OutOfSpace { .. })), "{applied:?}");
    assert!(!own.transactions.is_leading());
    let commit = || {
        let mut txn = own.transactions.begin().unwrap();
        let tree = txn.create_tree(TreeOptions::default());
        txn.add_counter(CounterId(1), 1);
        txn.commit_begin().map(|pending| (tree, pending))
    };
    assert!(matches!(commit(), Err(Error::OutOfSpace { .. })));
    own.disk.set_capacity(None);
    let (tree, pending) = commit().unwrap();
    own.commit_all();
    pending.wait(None).unwrap();
    assert!(own.rows(tree).is_empty());
    assert_eq!(own.transactions.counter(CounterId(1)).unwrap(), 1);
}
