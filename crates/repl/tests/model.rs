//! Every state of two or three members within small bounds, by the model checker `stateright`: the state machine with the
//! coordinator, lost, duplicated and reordered messages, crashes, lost replies. Time does not pass; what timeouts would do
//! (take over, remove a silent member) may happen at any moment.
//!
//! Without defects no state breaks a rule. Each defect that these bounds can show is found; the simulator finds all.

use std::collections::BTreeSet;

use arbor_base::Position;
use arbor_bson::DocBuf;
use arbor_repl::isr::{Action, Epochs, Found, Input, Machine, Message, Mutant, ReadOutcome, Timing};
use arbor_repl::{Agreement, Epoch, Identity, MemberId, Replaced, StoreId, Version, Voter};
use stateright::{Checker, HasDiscoveries, Model, Property};

/// Nothing happens by time.
const TIMING: Timing = Timing {
    election_ms: 1,
    stagger_ms: 0,
    in_sync_ms: 1,
    beacon_ms: 1_000,
    retry_ms: 1_000,
    promise_ms: 0,
    trust_ms: 0,
    hand_over_ms: 1,
    records_max: 4,
};
const NOW: u64 = 10;

#[derive(Clone)]
struct Set {
    mutant: Option<Mutant>,
    members: u32,
    min_in_sync: usize,
    epochs_max: u64,
    writes_max: u64,
    crashes_max: u8,
    messages_max: usize,
}

/// A record is its epoch and a number.
type Record = (u64, u64);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Member {
    machine: Machine,
    log: Vec<Record>,
    durable: usize,
    saved: u64,
    applied: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Asked {
    Read(u64),
    Replace(u64, Option<Version>, Agreement),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    members: Vec<Member>,
    /// A set: duplicates are the same message, which stays after it was delivered or is lost.
    messages: BTreeSet<Vec<u8>>,
    agreement: (Version, Agreement),
    requests: Vec<(usize, Asked)>,
    committed: Vec<Record>,
    writes: u64,
    crashes: u8,
    broken: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    Deliver(Vec<u8>),
    Lose(Vec<u8>),
    Execute(usize),
    /// The reply is lost; the request was executed or not.
    Unknown(usize, bool),
    Tick(usize),
    Sync(usize),
    Write(usize),
    Lost(usize, u32),
    Crash(usize, bool),
}

fn store(id: u32) -> StoreId {
    StoreId([id as u8; 16])
}

impl Set {
    fn machine(&self, id: u32, member: &Member) -> Machine {
        let mut begins: Vec<(Epoch, Position)> = Vec::new();
        for (at, (epoch, _)) in member.log.iter().enumerate() {
            if begins.last().is_none_or(|(last, _)| last.0 < *epoch) {
                begins.push((Epoch(*epoch), Position(at as u64 + 1)));
            }
        }
        let log = Epochs::new(begins, Position(member.log.len() as u64));
        let found = Found { saved: Epoch(member.saved), log, first: Position(1), applied: Position::ZERO };
        let own = Identity { id: MemberId(id), store: store(id) };
        Machine::open(own, TIMING, found, NOW).with_mutant(self.mutant)
    }

    fn input(&self, state: &mut State, at: usize, input: Input) {
        let mut out = Vec::new();
        state.members[at].machine.step(NOW, input, &mut out);
        for action in out {
            self.act(state, at, action);
        }
    }

    fn act(&self, state: &mut State, at: usize, action: Action) {
        let member = &mut state.members[at];
        let message = match action {
            Action::SaveEpoch(epoch) => return member.saved = epoch.0,
            Action::Cut(behind) => {
                member.log.truncate(behind.0 as usize);
                member.durable = member.durable.min(member.log.len());
                return;
            }
            Action::Append { epoch, payloads, .. } => {
                let number = |payload: Vec<u8>| (epoch.0, u64::from(payload[0]));
                return member.log.extend(payloads.into_iter().map(number));
            }
            Action::Lead(epoch) => return member.log.push((epoch.0, 0)),
            Action::Commit(commit) => return self.commit(state, at, commit.0 as usize),
            Action::Read { ticket } => return state.requests.push((at, Asked::Read(ticket))),
            Action::Replace { ticket, expected, next } => {
                return state.requests.push((at, Asked::Replace(ticket, expected, next)));
            }
            Action::Send { to, message } => (to, message),
            Action::Ship(shipment) => {
                let records = &member.log[shipment.after.0 as usize..shipment.last.0 as usize];
                let payloads = records.iter().map(|(_, number)| vec![*number as u8]).collect();
                (shipment.to, shipment.with(payloads))
            }
            _ => return,
        };
        let (to, message) = message;
        if state.messages.len() < self.messages_max {
            let from = MemberId(at as u32);
            state.messages.insert(arbor_repl::isr::Envelope { from, to, message }.encode());
        }
    }

    fn commit(&self, state: &mut State, at: usize, commit: usize) {
        let member = &mut state.members[at];
        let status = member.machine.status();
        let known = commit.min(state.committed.len());
        if member.log.get(..known) != state.committed.get(..known) || member.log.len() < commit {
            state.broken = Some("another record is committed there");
        } else if commit > known && status.is_primary {
            state.committed = member.log[..commit].to_vec();
        } else if commit > known {
            state.broken = Some("a follower applies what is not committed");
        }
        member.applied = member.applied.max(commit);
    }

    /// Executes and delivers everything until nothing is left: the first primary serves, and all have its empty record.
    fn run_in_order(&self, state: &mut State) {
        loop {
            let unsynced = state.members.iter().position(|member| member.durable < member.log.len());
            let next = match (state.requests.is_empty(), unsynced, state.messages.first().cloned()) {
                (false, ..) => Step::Execute(0),
                (_, Some(at), _) => Step::Sync(at),
                (_, _, Some(message)) => Step::Deliver(message),
                _ => break,
            };
            if let Step::Deliver(message) = &next {
                state.messages.remove(message);
            }
            match self.next_state(state, next) {
                Some(next) => *state = next,
                None => continue,
            }
        }
        state.messages.clear();
        assert!(state.members[0].machine.serves().is_some(), "the founder serves: {state:?}");
    }

    fn holds(&self, state: &State) -> bool {
        let end = state.committed.len();
        let durable = |member: &Member| member.log.get(..end) == state.committed.get(..end) && member.durable >= end;
        state.agreement.1.in_sync.iter().all(|identity| durable(&state.members[identity.id.0 as usize]))
    }

    fn keeps_applied(&self, state: &State) -> bool {
        let same = |member: &Member| member.log.get(..member.applied) == state.committed.get(..member.applied);
        state.members.iter().all(same)
    }
}

impl Model for Set {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let voters = (0..self.members).map(|id| Voter { id: MemberId(id), may_lead: true }).collect();
        let founder = Identity { id: MemberId(0), store: store(0) };
        let mut agreement = Agreement::founding(founder, voters, &DocBuf::new());
        agreement.min_in_sync = self.min_in_sync;
        // All are in sync, with nothing in their logs
        agreement.in_sync = (0..self.members).map(|id| Identity { id: MemberId(id), store: store(id) }).collect();
        let found = Found { saved: Epoch(0), log: Epochs::default(), first: Position(1), applied: Position::ZERO };
        let member = |id| {
            let own = Identity { id: MemberId(id), store: store(id) };
            let machine = Machine::open(own, TIMING, found.clone(), NOW).with_mutant(self.mutant);
            Member { machine, log: Vec::new(), durable: 0, saved: 0, applied: 0 }
        };
        let mut state = State {
            members: (0..self.members).map(member).collect(),
            messages: BTreeSet::new(),
            agreement: (Version(1), agreement),
            requests: Vec::new(),
            committed: Vec::new(),
            writes: 0,
            crashes: 0,
            broken: None,
        };
        let unbounded = Set { messages_max: 100, ..self.clone() };
        (0..self.members as usize).for_each(|at| unbounded.input(&mut state, at, Input::Tick));
        unbounded.run_in_order(&mut state);
        vec![state]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.broken.is_some() {
            return;
        }
        // A message that stays is as good as a lost one, but that it takes the place of another
        let full = state.messages.len() >= self.messages_max;
        for message in &state.messages {
            steps.push(Step::Deliver(message.clone()));
            if full {
                steps.push(Step::Lose(message.clone()));
            }
        }
        for (at, (_, asked)) in state.requests.iter().enumerate() {
            steps.push(Step::Execute(at));
            if let Asked::Replace(..) = asked {
                steps.extend([Step::Unknown(at, true), Step::Unknown(at, false)]);
            }
        }
        for (at, member) in state.members.iter().enumerate() {
            steps.push(Step::Tick(at));
            if member.durable < member.log.len() {
                steps.push(Step::Sync(at));
            }
            if member.machine.serves().is_some() && state.writes < self.writes_max {
                steps.push(Step::Write(at));
            }
            if state.agreement.1.epoch.0 < self.epochs_max || member.machine.status().is_primary {
                steps
                    .extend((0..self.members).filter(|other| *other as usize != at).map(|other| Step::Lost(at, other)));
            }
            if state.crashes < self.crashes_max {
                steps.extend([Step::Crash(at, true), Step::Crash(at, false)]);
            }
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Deliver(bytes) => {
                let envelope = arbor_repl::isr::Envelope::decode(&bytes)?;
                let (from, message) = (envelope.from, envelope.message);
                // Fetches and their replies are repeated by themselves; what may come late is what changes a log
                if !matches!(message, Message::Records(_) | Message::Diverged { .. }) {
                    state.messages.remove(&bytes);
                }
                self.input(&mut state, envelope.to.0 as usize, Input::Received { from, message });
            }
            Step::Lose(bytes) => drop(state.messages.remove(&bytes)),
            Step::Execute(at) => {
                let (member, asked) = state.requests.remove(at);
                let input = match asked {
                    Asked::Read(ticket) => {
                        let (version, agreement) = state.agreement.clone();
                        Input::Read { ticket, outcome: ReadOutcome::Found(version, agreement) }
                    }
                    Asked::Replace(ticket, expected, next) => {
                        Input::Replaced { ticket, outcome: replace(&mut state, expected, next) }
                    }
                };
                self.input(&mut state, member, input);
            }
            Step::Unknown(at, executed) => {
                let (member, asked) = state.requests.remove(at);
                let Asked::Replace(ticket, expected, next) = asked else { return None };
                if executed {
                    replace(&mut state, expected, next);
                }
                self.input(&mut state, member, Input::Replaced { ticket, outcome: Replaced::Unknown });
            }
            Step::Tick(at) => self.input(&mut state, at, Input::Tick),
            Step::Sync(at) => {
                let member = &mut state.members[at];
                member.durable = member.log.len();
                let durable = Position(member.durable as u64);
                self.input(&mut state, at, Input::Synced(durable));
            }
            Step::Write(at) => {
                state.writes += 1;
                let number = state.writes;
                let member = &mut state.members[at];
                let epoch = member.machine.serves()?;
                member.log.push((epoch.0, number));
                let end = Position(member.log.len() as u64);
                self.input(&mut state, at, Input::Appended(end));
            }
            Step::Lost(at, other) => self.input(&mut state, at, Input::Lost(MemberId(other))),
            Step::Crash(at, keeps_all) => {
                state.crashes += 1;
                state.requests.retain(|(member, asked)| *member != at || matches!(asked, Asked::Replace(..)));
                let member = &mut state.members[at];
                let left = if keeps_all { member.log.len() } else { member.durable };
                member.log.truncate(left);
                (member.durable, member.applied) = (left, 0);
                let machine = self.machine(at as u32, &state.members[at]);
                state.members[at].machine = machine;
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("in sync means: holds everything committed", |set, state: &State| set.holds(state)),
            Property::always("what is applied is never taken back", |set, state: &State| set.keeps_applied(state)),
            Property::always("one history", |_, state: &State| state.broken.is_none()),
            Property::sometimes("a write is committed", |_, state: &State| {
                state.committed.iter().any(|(_, number)| *number > 0)
            }),
            Property::sometimes("another primary commits", |_, state: &State| {
                state.committed.last().is_some_and(|(epoch, _)| *epoch > 1)
            }),
        ]
    }
}

fn replace(state: &mut State, expected: Option<Version>, next: Agreement) -> Replaced {
    if expected != Some(state.agreement.0) {
        return Replaced::Stale;
    }
    state.agreement = (Version(state.agreement.0.0 + 1), next);
    Replaced::Done(state.agreement.0)
}

fn small() -> Set {
    Set { mutant: None, members: 2, min_in_sync: 1, epochs_max: 2, writes_max: 1, crashes_max: 1, messages_max: 3 }
}

const STATES_MAX: usize = 60_000;

/// Environment variable with another number of states.
const STATES_VARIABLE: &str = "ARBOR_MODEL_STATES";

fn states_max() -> usize {
    std::env::var(STATES_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(STATES_MAX)
}

fn check(set: Set) -> impl Checker<Set> {
    set.checker().finish_when(HasDiscoveries::AnyFailures).target_state_count(states_max()).spawn_bfs().join()
}

const SAFE: [&str; 3] =
    ["in sync means: holds everything committed", "what is applied is never taken back", "one history"];

#[test]
fn no_state_breaks_a_rule() {
    for set in [small(), Set { members: 3, min_in_sync: 2, ..small() }] {
        let checker = check(set.clone());
        for name in SAFE {
            assert!(checker.discovery(name).is_none(), "{name}: {:?}", checker.discovery(name).unwrap().into_actions());
        }
        assert!(checker.discovery("a write is committed").is_some(), "{} states", checker.unique_state_count());
        let (states, unique) = (checker.state_count(), checker.unique_state_count());
        let extent = if states < states_max() { "all" } else { "the first" };
        println!("{} members: {extent} {states} states, {unique} unique, depth {}", set.members, checker.max_depth());
    }
}

#[test]
fn defects_are_found() {
    for mutant in [
        Mutant::Majority,
        Mutant::ShrunkEarly,
        Mutant::UnknownIsStale,
        Mutant::AppliedEarly,
        Mutant::AckBeforeSync,
        Mutant::OwnBeforeSync,
        Mutant::LeadsTwice,
        Mutant::StaleIsDone,
    ] {
        let checker = check(Set { mutant: Some(mutant), ..small() });
        let found = SAFE.into_iter().find(|name| checker.discovery(name).is_some());
        println!("{mutant:?}: {found:?} in {} states", checker.unique_state_count());
        assert!(found.is_some(), "{mutant:?} is not found in {} states", checker.unique_state_count());
    }
}
