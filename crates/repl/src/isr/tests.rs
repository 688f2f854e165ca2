//! Members that pass each other messages without faults, one rule at a time. Faults are the business of `crates/sim` and of
//! the model (tests/model.rs).

use std::collections::VecDeque;

use arbor_base::Position;
use arbor_bson::DocBuf;

use super::*;
use crate::agreement::{Agreement, Epoch, Identity, MemberId, StoreId, Version, Voter};
use crate::coordinator::Replaced;

const TIMING: Timing = Timing {
    election_ms: 200,
    stagger_ms: 10,
    in_sync_ms: 100,
    beacon_ms: 20,
    retry_ms: 50,
    promise_ms: 200,
    trust_ms: 150,
    hand_over_ms: 300,
    records_max: 10,
};

fn identity(id: u32) -> Identity {
    Identity { id: MemberId(id), store: StoreId([id as u8 + 1; 16]) }
}

/// Members whose messages arrive at once, in order, unless a member is silenced.
struct Set {
    now: Millis,
    members: Vec<Machine>,
    logs: Vec<Vec<Vec<u8>>>,
    queue: VecDeque<(MemberId, MemberId, Message)>,
    agreement: (Version, Agreement),
    silent: Vec<MemberId>,
    /// Outcomes that the coordinator returns instead of its own, the next times.
    outcomes: VecDeque<Option<Replaced>>,
    changed: Vec<Result<(), Refusal>>,
    requests: usize,
    /// Messages with records: sender and receiver.
    shipped: Vec<(MemberId, MemberId)>,
}

impl Set {
    fn of(count: u32) -> Set {
        let voters = (0..count).map(|id| Voter { id: MemberId(id), may_lead: true }).collect();
        let agreement = (Version(1), Agreement::founding(identity(0), voters, &DocBuf::new()));
        let found = Found { saved: Epoch(0), log: Epochs::default(), first: Position(1), applied: Position::ZERO };
        let member = |id| Machine::open(identity(id), TIMING, found.clone(), 1_000);
        let mut set = Set {
            now: 1_000,
            members: (0..count).map(member).collect(),
            logs: vec![Vec::new(); count as usize],
            queue: VecDeque::new(),
            agreement,
            silent: Vec::new(),
            outcomes: VecDeque::new(),
            changed: Vec::new(),
            requests: 0,
            shipped: Vec::new(),
        };
        set.run(600);
        set
    }

    fn input(&mut self, member: usize, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let mut out = Vec::new();
            self.members[member].step(self.now, input, &mut out);
            for action in out {
                self.act(member, action, &mut inputs);
            }
        }
    }

    fn act(&mut self, member: usize, action: Action, inputs: &mut VecDeque<Input>) {
        let from = MemberId(member as u32);
        let log = &mut self.logs[member];
        match action {
            Action::Append { payloads, .. } => log.extend(payloads),
            Action::Lead(_) => log.push(Vec::new()),
            Action::Cut(behind) => log.truncate(behind.0 as usize),
            Action::Send { to, message } => self.queue.push_back((from, to, message)),
            Action::Ship(shipment) => {
                let payloads = log[shipment.after.0 as usize..shipment.last.0 as usize].to_vec();
                if !payloads.is_empty() {
                    self.shipped.push((from, shipment.to));
                }
                self.queue.push_back((from, shipment.to, shipment.with(payloads)));
            }
            Action::Read { ticket } => {
                let (version, agreement) = self.agreement.clone();
                inputs.push_back(Input::Read { ticket, outcome: ReadOutcome::Found(version, agreement) });
            }
            Action::Replace { ticket, expected, next } => {
                self.requests += 1;
                let outcome = self.outcomes.pop_front().flatten().unwrap_or_else(|| {
                    if expected != Some(self.agreement.0) {
                        return Replaced::Stale;
                    }
                    self.agreement = (Version(self.agreement.0.0 + 1), next);
                    Replaced::Done(self.agreement.0)
                });
                inputs.push_back(Input::Replaced { ticket, outcome });
            }
            Action::Changed(outcome) => self.changed.push(outcome),
            _ => {}
        }
        let end = Position(self.logs[member].len() as u64);
        if end > self.members[member].status().durable {
            inputs.push_back(Input::Synced(end));
        }
    }

    fn run(&mut self, ms: Millis) {
        for _ in 0..ms / 5 {
            self.now += 5;
            for member in 0..self.members.len() {
                if !self.silent.contains(&MemberId(member as u32)) {
                    self.input(member, Input::Tick);
                }
            }
            for _ in 0..self.queue.len().min(100) {
                let Some((from, to, message)) = self.queue.pop_front() else { break };
                if !self.silent.contains(&from) && !self.silent.contains(&to) {
                    self.input(to.0 as usize, Input::Received { from, message });
                }
            }
        }
    }

    fn write(&mut self, member: usize) {
        self.logs[member].push(vec![7]);
        let end = Position(self.logs[member].len() as u64);
        self.input(member, Input::Appended(end));
        if !self.silent.contains(&MemberId(member as u32)) {
            self.input(member, Input::Synced(end));
        }
    }

    fn in_sync(&self) -> Vec<u32> {
        self.agreement.1.in_sync.iter().map(|member| member.id.0).collect()
    }

    fn commit(&self, member: usize) -> u64 {
        self.members[member].status().commit.0
    }

    fn serving(&self) -> Vec<usize> {
        (0..self.members.len()).filter(|at| self.members[*at].serves().is_some()).collect()
    }
}

#[test]
fn the_founder_leads_and_the_others_join() {
    let mut set = Set::of(3);
    assert_eq!((set.serving(), set.in_sync()), (vec![0], vec![0, 1, 2]));
    set.write(0);
    set.run(50);
    assert_eq!([0, 1, 2].map(|member| set.commit(member)), [2, 2, 2]);
    assert_eq!(set.logs[1], set.logs[0]);
    assert!(set.members[0].may_read(set.now) && !set.members[1].may_read(set.now));
}

#[test]
fn a_set_of_one_serves_at_once_and_again_after_a_restart() {
    let mut set = Set::of(1);
    assert_eq!((set.serving(), set.commit(0), set.agreement.1.epoch), (vec![0], 1, Epoch(1)));
    let log = Epochs::new(vec![(Epoch(1), Position(1))], Position(1));
    let found = Found { saved: Epoch(1), log, first: Position(1), applied: Position::ZERO };
    set.members[0] = Machine::open(identity(0), TIMING, found, set.now);
    set.input(0, Input::Tick);
    assert_eq!((set.serving(), set.commit(0), set.agreement.1.epoch), (vec![0], 2, Epoch(2)));
}

#[test]
fn a_silent_member_is_waited_for_until_it_has_left() {
    let mut set = Set::of(3);
    set.silent = vec![MemberId(2)];
    set.write(0);
    set.run(20);
    assert_eq!(set.commit(0), 1, "R3");
    set.run(150);
    assert_eq!((set.in_sync(), set.commit(0)), (vec![0, 1], 2));
    set.silent = vec![MemberId(1), MemberId(2)];
    set.write(0);
    set.run(500);
    assert_eq!((set.in_sync(), set.commit(0)), (vec![0, 1], 2), "R3: not with a single copy");
    assert!(!set.members[0].may_read(set.now), "the others' promises are old");
    set.silent.clear();
    set.run(500);
    assert_eq!((set.in_sync(), set.commit(0) >= 3), (vec![0, 1, 2], true));
}

#[test]
fn records_come_by_another_member() {
    let mut set = Set::of(3);
    set.input(2, Input::Source(Some(MemberId(1))));
    assert_eq!(set.members[2].source(), Some(MemberId(1)));
    // The fetch that waits at the primary was made before
    set.write(0);
    set.run(50);
    set.shipped.clear();
    for _ in 0..5 {
        set.write(0);
        set.run(30);
    }
    set.run(300);
    assert_eq!([0, 1, 2].map(|member| set.commit(member)), [7, 7, 7]);
    assert_eq!(set.logs[2], set.logs[0]);
    assert_eq!(set.members[2].source(), Some(MemberId(1)), "it helps");
    assert!(set.members[0].may_read(set.now), "promises are made as before");
    let to_last: Vec<MemberId> = set.shipped.iter().filter(|(_, to)| to.0 == 2).map(|(from, _)| *from).collect();
    assert_eq!(to_last, [MemberId(1); 5], "the primary sent it none");
}

#[test]
fn a_source_that_does_not_help_is_used_no_longer() {
    for (what, ends) in [("lost", true), ("silent", false)] {
        let mut set = Set::of(3);
        set.input(2, Input::Source(Some(MemberId(1))));
        set.run(50);
        set.silent = vec![MemberId(1)];
        if ends {
            set.input(2, Input::Lost(MemberId(1)));
            assert_eq!(set.members[2].source(), None, "{what}");
        }
        set.write(0);
        set.run(300);
        assert_eq!((set.members[2].source(), set.commit(0), set.commit(2)), (None, 2, 2), "{what}");
        assert_eq!(set.in_sync(), [0, 2], "{what}: only the silent one has left");
    }
}

#[test]
fn another_takes_over_when_the_primary_is_silent() {
    let mut set = Set::of(3);
    set.silent = vec![MemberId(0)];
    set.write(0);
    set.run(1_000);
    assert_eq!((set.serving(), set.in_sync()), (vec![0, 1], vec![1, 2]));
    assert!(!set.members[0].may_read(set.now), "the old one's promises have run out");
    assert_eq!(set.commit(0), 1, "R5: it commits no more");
    set.silent.clear();
    set.run(500);
    assert_eq!((set.serving(), set.in_sync()), (vec![1], vec![0, 1, 2]));
    assert_eq!(set.logs[0], set.logs[1], "R6: its tail was cut");
}

#[test]
fn no_member_takes_over_before_its_promise_has_run_out() {
    let mut set = Set::of(3);
    set.silent = vec![MemberId(0)];
    let since = set.now;
    set.input(1, Input::Lost(MemberId(0)));
    while set.agreement.1.epoch == Epoch(1) {
        set.run(5);
    }
    assert!(set.now > since + TIMING.promise_ms - TIMING.beacon_ms - 10, "{} {since}", set.now);
}

#[test]
fn an_unknown_outcome_is_repeated_until_the_version_is_another() {
    let mut set = Set::of(3);
    let before = set.requests;
    set.outcomes = VecDeque::from([Some(Replaced::Unknown), Some(Replaced::Unknown), None]);
    set.silent = vec![MemberId(2)];
    set.write(0);
    set.run(300);
    assert_eq!((set.requests - before, set.in_sync(), set.commit(0)), (3, vec![0, 1], 2));
}

#[test]
fn a_member_is_fenced_by_its_saved_epoch() {
    let mut set = Set::of(3);
    let records = Records {
        epoch: Epoch(0),
        serial: 0,
        after: Place::default(),
        of: Epoch(0),
        payloads: vec![vec![1]],
        commit: Position(1),
        sent: 1,
        loads: vec![],
    };
    let before = set.logs[1].clone();
    set.input(1, Input::Received { from: MemberId(2), message: Message::Records(records) });
    assert_eq!(set.logs[1], before, "R5");
}

#[test]
fn the_primary_hands_over() {
    let mut set = Set::of(3);
    set.write(0);
    set.input(0, Input::StepDown(Some(MemberId(2))));
    assert_eq!(set.serving(), Vec::<usize>::new());
    // sooner than a fetch is repeated: the one that the old primary sent before its successor led is not waited for
    set.run(TIMING.retry_ms - 10);
    assert_eq!((set.serving(), set.changed.clone(), set.in_sync()), (vec![2], vec![Ok(())], vec![0, 1, 2]));
    set.silent = vec![MemberId(0), MemberId(1)];
    set.write(2);
    set.input(2, Input::StepDown(None));
    set.run(400);
    assert_eq!((set.changed.last(), set.serving()), (Some(&Err(Refusal::NoSuccessor)), vec![2]));
}

#[test]
fn a_member_with_a_full_disk_leads_only_if_all_are_full() {
    let mut set = Set::of(3);
    set.input(1, Input::Full(true));
    set.write(0);
    set.run(100);
    let roomy = |set: &Set, other: u32| set.members[0].has_roomy_successor(|member| member == MemberId(other));
    assert!(!roomy(&set, 1) && roomy(&set, 2));
    set.input(0, Input::StepDown(None));
    set.run(100);
    assert_eq!((set.serving(), set.changed.clone()), (vec![2], vec![Ok(())]), "not the first in the order");
    // Both others are full
    (0..2).for_each(|member| set.input(member, Input::Full(true)));
    set.write(2);
    set.run(100);
    assert!(!set.members[2].has_roomy_successor(|_| true));
    set.input(2, Input::StepDown(None));
    set.run(100);
    assert_eq!((set.serving(), set.changed.last()), (vec![0], Some(&Ok(()))));
    set.input(1, Input::Full(false));
    set.run(100);
    assert!(roomy(&set, 1) && roomy(&set, 2));
}

#[test]
fn one_voter_at_a_time() {
    let mut set = Set::of(3);
    let forced = |ids: &[u32], forced: bool| {
        let voters: Vec<Voter> = ids.iter().map(|id| Voter { id: MemberId(*id), may_lead: true }).collect();
        let min_in_sync = crate::agreement::majority_of(voters.len());
        Input::Reconfigure(Reconfiguration { voters, min_in_sync, config: vec![5, 0, 0, 0, 0], forced })
    };
    let change = |ids: &[u32]| forced(ids, false);
    for (member, ids, expect) in [
        (1, &[0u32, 1][..], Err(Refusal::NotPrimary)),
        (0, &[0], Err(Refusal::TooManyChanges)),
        (0, &[1, 2], Err(Refusal::RemovesPrimary)),
        (0, &[0, 1], Ok(())),
        (0, &[0, 1, 2], Ok(())),
        (0, &[0, 1], Ok(())),
        (0, &[0], Ok(())),
    ] {
        set.input(member, change(ids));
        assert_eq!(set.changed.pop(), Some(expect), "{ids:?}");
    }
    assert_eq!(set.in_sync(), [0]);
    set.write(0);
    assert_eq!(set.commit(0), 2, "alone");

    let mut set = Set::of(3);
    set.input(1, forced(&[1], true));
    assert_eq!(set.changed.pop(), Some(Err(Refusal::NotPrimary)));
    set.silent = vec![MemberId(1), MemberId(2)];
    set.write(0);
    set.run(400);
    assert_eq!(set.commit(0), 1, "too few are in sync");
    set.input(0, forced(&[0], true));
    assert_eq!(set.changed.pop(), Some(Ok(())));
    assert_eq!((set.in_sync(), set.commit(0)), (vec![0], 2));
}

#[test]
fn a_record_that_refers_to_a_missing_load_is_not_acknowledged() {
    let mut set = Set::of(3);
    set.input(0, Input::OpenLoads(vec![5]));
    assert!(!set.members[0].is_load_everywhere(5));
    set.input(1, Input::Loads(vec![5]));
    set.input(2, Input::LoadMissing(Some(Position(2))));
    set.write(0);
    set.run(60);
    assert_eq!(set.commit(0), 1, "R10");
    set.input(2, Input::Loads(vec![5]));
    set.input(2, Input::LoadMissing(None));
    set.run(60);
    assert_eq!((set.commit(0), set.members[0].is_load_everywhere(5)), (2, true));
}

#[test]
fn other_data_is_another_member() {
    let mut set = Set::of(3);
    let found = Found { saved: Epoch(0), log: Epochs::default(), first: Position(1), applied: Position::ZERO };
    let other = Identity { store: StoreId([99; 16]), ..identity(2) };
    set.logs[2].clear();
    set.members[2] = Machine::open(other, TIMING, found, set.now);
    set.write(0);
    set.run(10);
    assert_eq!(set.commit(0), 1, "R9: the one that is recorded is gone");
    set.run(400);
    assert_eq!((set.agreement.1.is_in_sync(other), set.commit(0)), (true, 2));
}

/// A simulation found two members that waited for each other: the new primary's only notice was lost, and the old one could not
/// remove a member, so it never read the agreement.
#[test]
fn an_old_primary_that_heard_nothing_learns_of_the_new_one() {
    let mut set = Set::of(2);
    set.silent = vec![MemberId(0)];
    set.run(1_000);
    assert_eq!((set.agreement.1.primary, set.in_sync()), (Some(MemberId(1)), vec![0, 1]));
    set.silent.clear();
    set.run(500);
    assert_eq!(set.serving(), [1]);
}

/// A simulation found a follower that renewed its promise with each fetch to a primary that had lost its data.
#[test]
fn a_primary_that_lost_its_data_is_replaced() {
    let mut set = Set::of(3);
    let found = Found { saved: Epoch(0), log: Epochs::default(), first: Position(1), applied: Position::ZERO };
    let other = Identity { store: StoreId([99; 16]), ..identity(0) };
    set.logs[0].clear();
    set.members[0] = Machine::open(other, TIMING, found, set.now);
    set.run(1_500);
    assert_eq!((set.serving(), set.agreement.1.is_in_sync(other)), (vec![1], true));
}
