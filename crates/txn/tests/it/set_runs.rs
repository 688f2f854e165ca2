//! Random work of a set in one thread: commits, fetches, crashes, changes of the leader. The set has what all members that count have on
//! their disks; a member counts when its log is equal to the leader's up to the commit point.
//!
//! Checked after each step:
//! 1. a commit that was answered is on the disk of every member that counts;
//! 2. no member ever shows a position that differs from what another one showed there: nothing applied is taken back;
//! 3. members that show the same position have the same trees, rows and counters.

use std::collections::BTreeMap;

use crate::sets::{Member, forever, quick};
use arbor_base::{Position, Random, TreeId};
use arbor_engine::Engine;
use arbor_txn::{CounterId, Error, Opening, Options, Pending, TreeOptions, View, trees_of};

const MEMBERS: usize = 3;

/// Everything that a member shows, as text.
fn shown(member: &Member) -> (Position, String) {
    let view = member.transactions.read().unwrap();
    let mut out = String::new();
    let mut trees = trees_of(&*member.engine).unwrap();
    trees.sort_unstable();
    for tree in trees {
        let Ok(mut cursor) = view.cursor(tree) else { continue };
        out += &format!("{tree}:");
        let mut valid = cursor.first().unwrap();
        while valid {
            out += &format!("{:?}={:?} ", cursor.key(), cursor.value());
            valid = cursor.next().unwrap();
        }
    }
    (view.position(), out)
}

#[derive(Default, Debug)]
struct Coverage {
    answered: usize,
    unsettled: usize,
    conflicts: usize,
    crashes: usize,
    leaders: u64,
    positions: usize,
}

struct Run {
    seed: u64,
    random: Random,
    options: Options,
    members: Vec<Member>,
    leader: Option<usize>,
    epoch: u64,
    /// Members that count, in the coordinator's memory.
    in_sync: [bool; MEMBERS],
    pending: Vec<Pending>,
    /// The state that was shown at each position.
    history: BTreeMap<Position, String>,
    answered: Position,
    trees: Vec<TreeId>,
    coverage: Coverage,
}

fn run(seed: u64) -> Coverage {
    let mut random = Random::new(seed);
    let record_bytes_max = if random.chance(1, 2) { Options::default().record_bytes_max } else { 120 };
    let conflict_keys_max = if random.chance(1, 2) { 1 << 18 } else { 30 };
    // No log is trimmed: a member that needs more than there is would have to begin again.
    let options = Options { record_bytes_max, conflict_keys_max, history: Some(forever()), ..quick() };
    let members = (0..MEMBERS).map(|_| Member::follower(options.clone())).collect();
    let mut run = Run {
        seed,
        random,
        options,
        members,
        leader: None,
        epoch: 0,
        in_sync: [true; MEMBERS],
        pending: Vec::new(),
        history: BTreeMap::new(),
        answered: Position::ZERO,
        trees: Vec::new(),
        coverage: Coverage::default(),
    };
    for _ in 0..250 {
        run.step();
        run.check();
    }
    run.heal();
    run.coverage.positions = run.history.len();
    run.coverage
}

impl Run {
    fn step(&mut self) {
        let any = self.random.below(MEMBERS as u64) as usize;
        match self.random.below(20) {
            0..6 => self.commit(),
            6..10 => self.fetch(any),
            10..13 => self.members[any].sync(),
            13..17 => self.move_commit_point(any),
            17 => self.change_leader(any),
            18 if self.random.chance(1, 2) => self.crash(any),
            18 => drop(self.members[any].transactions.checkpoint_now().unwrap()),
            _ => self.leave_or_return(any),
        }
    }

    fn commit(&mut self) {
        let Some(leader) = self.leader.filter(|leader| self.members[*leader].transactions.is_leading()) else { return };
        let mut txn = self.members[leader].transactions.begin().unwrap();
        if self.trees.is_empty() || self.random.chance(1, 12) {
            self.trees.push(txn.create_tree(TreeOptions::default()));
        }
        for _ in 0..1 + self.random.below(4) {
            let tree = self.trees[self.random.below(self.trees.len() as u64) as usize];
            let key = format!("{}", self.random.below(12));
            if txn.cursor(tree).is_err() {
                continue;
            }
            match self.random.below(8) {
                0 => txn.delete(tree, key),
                1 => txn.delete_range(tree, key.clone(), Some((key + "5").into_bytes())),
                2 => txn.add_counter(CounterId(self.random.below(3)), 1),
                3 if self.random.chance(1, 6) => txn.drop_tree(tree),
                _ => txn.put(tree, key, self.random.bytes(30)),
            }
        }
        match txn.commit_begin() {
            Ok(pending) => self.pending.push(pending),
            Err(Error::Conflict) => self.coverage.conflicts += 1,
            Err(Error::Refused { .. } | Error::UnknownTree(_)) => {}
            Err(error) => panic!("seed {}: {error}", self.seed),
        }
    }

    fn fetch(&mut self, member: usize) {
        let Some(leader) = self.leader.filter(|leader| *leader != member) else { return };
        self.members[member].fetch(self.members[leader].log());
    }

    /// The last position that all members that count have on their disks, as far as their logs are the leader's.
    fn commit_point(&self) -> Option<Position> {
        let leader = self.members[self.leader?].log();
        let durable = |member: &Member| {
            let (own, end) = (member.log(), member.log().durable());
            let equal = leader.epoch_at(end).is_some() && leader.epoch_at(end) == own.epoch_at(end);
            if equal { end } else { Position::ZERO }
        };
        let counting = self.members.iter().zip(self.in_sync).filter(|(_, counts)| *counts);
        counting.map(|(member, _)| durable(member)).min()
    }

    fn move_commit_point(&mut self, member: usize) {
        let Some(leader) = self.leader else { return };
        if let Some(position) = self.commit_point() {
            self.members[leader].transactions.set_commit_point(position).unwrap();
        }
        // Others learn it with a fetch.
        let known = self.members[leader].transactions.read().unwrap().position();
        if member != leader {
            self.fetch(member);
            self.members[member].transactions.set_commit_point(known).unwrap();
        }
    }

    /// Any member that counts may lead: it has all that was answered.
    fn change_leader(&mut self, next: usize) {
        if !self.in_sync[next] {
            return;
        }
        if let Some(before) = self.leader {
            self.members[before].transactions.stop_leading();
        }
        self.leader = Some(next);
        self.epoch += 1 + self.random.below(2);
        self.coverage.leaders += 1;
        self.members[next].transactions.lead(self.epoch).unwrap().position();
    }

    fn crash(&mut self, member: usize) {
        let before = &self.members[member];
        let killed = self.random.chance(1, 4);
        let seed = self.random.next_u64();
        let (disk, engine) = match killed {
            true => (before.disk.kill_process(), before.engine.kill_process()),
            false => (before.disk.crash(seed), before.engine.crash()),
        };
        if self.leader == Some(member) {
            before.transactions.stop_leading();
            self.leader = None;
        }
        let opened = Member::open(Opening::Follower, disk, engine, self.options.clone());
        self.members[member] = opened.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        self.coverage.crashes += 1;
    }

    /// A member leaves those that count, or returns to them with all that is committed.
    fn leave_or_return(&mut self, member: usize) {
        let Some(leader) = self.leader.filter(|leader| *leader != member) else { return };
        if self.in_sync[member] {
            self.in_sync[member] = self.in_sync.iter().filter(|counts| **counts).count() < MEMBERS;
        } else {
            self.fetch(member);
            self.members[member].sync();
            assert!(
                self.members[member].log().durable() >= self.members[leader].transactions.read().unwrap().position()
            );
            self.in_sync[member] = true;
        }
    }

    fn check(&mut self) {
        let seed = self.seed;
        for (number, member) in self.members.iter().enumerate() {
            member.transactions.validate();
            let (position, text) = shown(member);
            let before = self.history.entry(position).or_insert_with(|| text.clone());
            assert_eq!(*before, text, "seed {seed}: member {number} shows another state at {position}");
            assert!(member.engine.applied() <= member.log().durable(), "seed {seed}: member {number} applied too much");
        }
        let (answered, mut unsettled) = (&mut self.answered, 0);
        let mut count = 0;
        self.pending.retain(|pending| match pending.outcome() {
            None => true,
            Some(Ok(position)) => {
                *answered = position.max(*answered);
                count += 1;
                false
            }
            Some(Err(Error::Unsettled { .. })) => {
                unsettled += 1;
                false
            }
            Some(Err(error)) => panic!("seed {seed}: {error}"),
        });
        self.coverage.answered += count;
        self.coverage.unsettled += unsettled;
        for (number, (member, counts)) in self.members.iter().zip(self.in_sync).enumerate() {
            let durable = member.log().durable();
            assert!(!counts || durable >= self.answered, "seed {seed}: member {number} lacks what was answered");
        }
    }

    /// With all members there, all of them end with the same trees.
    fn heal(&mut self) {
        let next = self.in_sync.iter().position(|counts| *counts).unwrap();
        self.change_leader(next);
        self.in_sync = [true; MEMBERS];
        for _ in 0..2 {
            for member in 0..MEMBERS {
                self.fetch(member);
                self.members[member].sync();
            }
            self.members[next].sync();
            (0..MEMBERS).for_each(|member| self.move_commit_point(member));
            (0..MEMBERS).for_each(|member| self.move_commit_point(member));
        }
        self.check();
        let states: Vec<_> = self.members.iter().map(shown).collect();
        assert!(states.iter().all(|state| *state == states[0]), "seed {}: the members differ at the end", self.seed);
        assert!(self.members[next].transactions.is_leading(), "seed {}: the leader is not admitted", self.seed);
    }
}

#[test]
fn members_of_a_set_show_one_history() {
    let mut sum = Coverage::default();
    for seed in 70_000..70_150 {
        let one = run(seed);
        sum.answered += one.answered;
        sum.unsettled += one.unsettled;
        sum.conflicts += one.conflicts;
        sum.crashes += one.crashes;
        sum.leaders += one.leaders;
        sum.positions += one.positions;
    }
    println!("{sum:?}");
    assert!(sum.answered > 500 && sum.unsettled > 200 && sum.conflicts > 200, "{sum:?}");
    assert!(sum.crashes > 300 && sum.leaders > 300 && sum.positions > 1000, "{sum:?}");
}
