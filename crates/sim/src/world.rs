//! The members, and the queue of events.
//!
//! | file | events of |
//! |---|---|
//! | `members` | their starts and crashes, the actions of their state machines |
//! | `network` | messages and loads between them |
//! | `coordinator` | requests to the coordinator |
//! | `clients` | reads and writes |

mod clients;
mod coordinator;
mod members;
mod network;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use arbor_base::{Position, Random};
use arbor_bson::DocBuf;
use arbor_repl::coordinator::{Faults, Simulated};
use arbor_repl::isr::{Envelope, Input, ReadOutcome};
use arbor_repl::{Agreement, Coordinator, Identity, MemberId, Replaced, StoreId, Version, Voter};

use crate::data::Data;
use crate::member::Member;
use crate::operation::Operation;
use crate::oracle::{Finding, Oracle};
use crate::plan::{Defect, Plan};

const TICK_US: u64 = 10_000;
const HEALING_US: u64 = 2_000_000;
const QUIET_US: u64 = 1_000_000;
const CATCHING_UP_MAX: u64 = 30;
/// Sessions of clients, of which each has one write at a time.
pub(crate) const SESSIONS: u64 = 8;

/// Makes the data of a new member.
pub(crate) type Make<D> = fn(StoreId) -> D;

pub struct World<D> {
    pub plan: Plan,
    pub now: u64,
    pub random: Random,
    pub members: Vec<Member<D>>,
    pub coordinator: Simulated,
    /// The coordinator's value, for the oracle.
    pub recorded: Agreement,
    pub oracle: Oracle,
    /// Messages from the first to the second are lost.
    pub cut_links: BTreeSet<(usize, usize)>,
    /// Members without the coordinator.
    pub without_coordinator: BTreeSet<usize>,
    pub coordinator_down: bool,
    pub phase: Phase,
    pub steps: u64,
    pub counts: Counts,
    pub make: Make<D>,
    queue: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    requests: BTreeMap<u64, Request>,
    values: u64,
    /// Writes whose outcome their clients do not know.
    unsettled: VecDeque<Operation>,
    /// Steps of the system's clocks.
    jumps: Random,
    pub sources: Random,
    pub stores: u64,
    /// The last events, for the report of a finding.
    trace: VecDeque<String>,
    traced: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Faults,
    Healing,
    Quiet,
}

/// Sums of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub faults: u64,
    pub crashes: u64,
    pub wipes: u64,
    pub epochs: u64,
    pub acknowledged: u64,
    pub reads: u64,
    /// Reads by a primary that the coordinator no longer names.
    pub late_reads: u64,
    pub unknown: u64,
    pub changes: u64,
    /// Writes that were requested again.
    pub retries: u64,
    /// Messages with records that came from a member that does not lead.
    pub relayed: u64,
    /// Changes of the catalogue that were acknowledged.
    pub catalogue: u64,
}

#[derive(Debug)]
pub enum Outcome {
    Clean,
    Found(Finding),
}

#[derive(Clone, Debug)]
pub enum Event {
    Tick {
        member: usize,
        incarnation: u64,
    },
    Deliver {
        to: usize,
        bytes: Vec<u8>,
    },
    Synced {
        member: usize,
        incarnation: u64,
        position: Position,
    },
    Execute {
        request: u64,
    },
    Reply {
        request: u64,
        outcome: Reply,
    },
    Client,
    Restart {
        member: usize,
    },
    LoadArrives {
        member: usize,
        store: StoreId,
        load: u64,
    },
    Hint {
        member: usize,
    },
    /// A member gets another source of records.
    Source,
    /// The connection to another member broke.
    Lost {
        member: usize,
        other: usize,
    },
    Fault,
    Heal(Healing),
}

#[derive(Clone, Debug)]
pub enum Healing {
    Links,
    Coordinator,
    Member(usize),
    Disk(usize),
}

#[derive(Clone, Debug)]
pub enum Reply {
    Read(ReadOutcome),
    Replaced(Replaced),
}

/// A request to the coordinator whose requester awaits the outcome.
struct Request {
    member: usize,
    incarnation: u64,
    ticket: u64,
    /// `None`: a read.
    replacement: Option<(Option<Version>, Agreement)>,
    replied: bool,
}

impl<D: Data> World<D> {
    pub fn new(seed: u64, defect: Option<Defect>, make: Make<D>) -> World<D> {
        let plan = Plan::new(seed, defect);
        let mut random = Random::new(seed);
        let count = plan.voters + plan.spares;
        let mut members: Vec<Member<D>> = Vec::new();
        for (id, rate) in (0..count).zip(&plan.clock_rates) {
            let mut data = make(store_of(u64::from(id)));
            data.set_defect(defect);
            members.push(Member::new(MemberId(id), data, *rate, &mut random));
        }
        let without_compare = defect == Some(Defect::WithoutCompare);
        let coordinator = Simulated::new(seed, Faults { without_compare, ..Faults::default() });
        let voters = (0..plan.voters).map(|id| Voter { id: MemberId(id), may_lead: true }).collect();
        let founder = Identity { id: MemberId(0), store: store_of(0) };
        let recorded = Agreement::founding(founder, voters, &DocBuf::new());
        assert!(coordinator.replace(None, &recorded).is_ok(), "it is empty");
        let mut world = World {
            plan,
            now: 0,
            random,
            members,
            coordinator,
            recorded,
            oracle: Oracle::default(),
            cut_links: BTreeSet::new(),
            without_coordinator: BTreeSet::new(),
            coordinator_down: false,
            phase: Phase::Faults,
            steps: 0,
            counts: Counts::default(),
            make,
            queue: BTreeMap::new(),
            sequence: 0,
            requests: BTreeMap::new(),
            values: 0,
            unsettled: VecDeque::new(),
            jumps: Random::new(seed ^ 0xC10C),
            sources: Random::new(seed ^ 0x50CE),
            stores: u64::from(count),
            trace: VecDeque::new(),
            traced: false,
        };
        (0..world.members.len()).for_each(|member| world.schedule(0, Event::Restart { member }));
        (0..world.plan.clients).for_each(|_| world.schedule(0, Event::Client));
        world.schedule(world.plan.fault_every_us, Event::Fault);
        world
    }

    /// Keeps the last events, to be shown with a finding.
    pub fn traced(mut self) -> World<D> {
        self.traced = true;
        self
    }

    pub fn trace(&self) -> impl Iterator<Item = &String> {
        self.trace.iter()
    }

    /// Runs both phases.
    pub fn run(&mut self) -> Outcome {
        match self.phases() {
            Ok(()) => Outcome::Clean,
            Err(finding) => {
                for at in 0..self.members.len() {
                    self.note(format!("{:?}", self.members.get(at).and_then(|member| member.machine.as_ref())));
                }
                Outcome::Found(finding)
            }
        }
    }

    fn phases(&mut self) -> Result<(), Finding> {
        if self.plan.chains {
            self.schedule(0, Event::Source);
        }
        while self.steps < self.plan.steps {
            self.step()?;
        }
        self.heal_everything();
        self.until(self.now + HEALING_US)?;
        let before = self.oracle.acknowledged;
        self.until(self.now + HEALING_US / 2)?;
        if self.oracle.acknowledged == before {
            return Err("O7: no write is acknowledged after all faults have ended".to_owned());
        }
        self.phase = Phase::Quiet;
        self.until(self.now + QUIET_US)?;
        // Members that were far behind need their time
        for _ in 0..CATCHING_UP_MAX {
            if self.is_whole().is_ok() {
                break;
            }
            self.until(self.now + QUIET_US)?;
        }
        self.counts.epochs = self.oracle.epoch().0;
        self.counts.acknowledged = self.oracle.acknowledged;
        self.counts.reads = self.oracle.reads;
        self.counts.catalogue += self.members.iter().map(|member| member.data.catalogue_changes()).sum::<u64>();
        self.is_whole()
    }

    fn until(&mut self, end: u64) -> Result<(), Finding> {
        while self.now < end {
            self.step()?;
        }
        Ok(())
    }

    /// O7: after the quiet phase all voters are in sync and equal.
    fn is_whole(&self) -> Result<(), Finding> {
        let voters = self.recorded.voters.iter().filter_map(|voter| self.members.get(voter.id.0 as usize));
        for member in voters {
            if !self.recorded.is_in_sync(member.identity()) {
                return Err(format!("O7: {:?} is not in sync: {:?}", member.id, self.recorded));
            }
            if member.data.applied() != self.oracle.end() {
                let (applied, end) = (member.data.applied(), self.oracle.end());
                return Err(format!("O7: {:?} has applied {applied:?} of {end:?}", member.id));
            }
        }
        match self.members.iter().filter(|member| member.serves().is_some()).count() {
            1 => Ok(()),
            count => Err(format!("O7: {count} members serve")),
        }
    }

    pub fn schedule(&mut self, after_us: u64, event: Event) {
        self.sequence += 1;
        self.queue.insert((self.now + after_us, self.sequence), event);
    }

    pub fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    fn step(&mut self) -> Result<(), Finding> {
        let ((time, _), event) = self.queue.pop_first().ok_or("the queue is empty")?;
        self.now = time;
        self.steps += 1;
        if self.traced {
            self.note(format!("{time}: {}", brief(&event)));
        }
        self.handle(event)?;
        self.check()
    }

    pub fn note(&mut self, line: String) {
        if self.traced {
            if self.trace.len() == 400 {
                self.trace.pop_front();
            }
            self.trace.push_back(line);
        }
    }

    /// The checks after each step: O2, O3, O4, R10.
    fn check(&mut self) -> Result<(), Finding> {
        for identity in &self.recorded.in_sync {
            let Some(member) = self.members.get(identity.id.0 as usize) else { continue };
            if member.data.store() == identity.store {
                self.oracle.holds(member.id, &member.data)?;
                self.oracle.has_loads(member.id, &member.data)?;
            }
        }
        for member in &self.members {
            self.oracle.applied(member.id, &member.data)?;
            self.oracle.equal(member.id, &member.data)?;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), Finding> {
        if let Some(delay) = self.paused(&event) {
            self.schedule(delay, event);
            return Ok(());
        }
        match event {
            Event::Tick { member, incarnation } => {
                if self.is_up(member, incarnation) {
                    self.schedule(TICK_US, Event::Tick { member, incarnation });
                    self.input(member, Input::Tick)?;
                    if self.random.one_in(20) {
                        self.member(member).data.checkpoint();
                    }
                    self.apply_rest(member)?;
                    self.give_loads(member)?;
                }
                Ok(())
            }
            Event::Deliver { to, bytes } => self.deliver(to, &bytes),
            Event::Synced { member, incarnation, position } => match self.is_up(member, incarnation) {
                true => self.synced(member, position),
                false => Ok(()),
            },
            Event::Execute { request } => self.execute(request),
            Event::Reply { request, outcome } => self.reply(request, outcome),
            Event::Client => self.client(),
            Event::Restart { member } => self.restart(member),
            Event::LoadArrives { member, store, load } => self.load_arrives(member, store, load),
            Event::Hint { member } => self.input(member, Input::Hint),
            Event::Lost { member, other } => self.input(member, Input::Lost(MemberId(other as u32))),
            Event::Source => self.change_source(),
            Event::Fault => self.fault_now(),
            Event::Heal(healing) => {
                self.heal_now(healing);
                Ok(())
            }
        }
    }

    /// Returns how long an event waits, since its process is stopped.
    fn paused(&self, event: &Event) -> Option<u64> {
        let member = match event {
            Event::Tick { member, .. } | Event::Synced { member, .. } | Event::Hint { member } => *member,
            Event::Deliver { to, .. } => *to,
            Event::Reply { request, .. } => self.requests.get(request)?.member,
            _ => return None,
        };
        let until = self.members.get(member)?.paused_until;
        (until > self.now).then(|| until - self.now)
    }

    pub fn member(&mut self, member: usize) -> &mut Member<D> {
        self.members.get_mut(member).expect("events name members")
    }

    fn is_up(&self, member: usize, incarnation: u64) -> bool {
        let up = |member: &Member<D>| member.machine.is_some() && member.incarnation == incarnation;
        self.members.get(member).is_some_and(up)
    }
}

/// Returns the identity of the n-th data directory.
pub(crate) fn store_of(number: u64) -> StoreId {
    StoreId(u128::from(number + 1).to_be_bytes())
}

fn brief(event: &Event) -> String {
    match event {
        Event::Deliver { to, bytes } => format!("Deliver to {to} {:?}", Envelope::decode(bytes)),
        other => format!("{other:?}"),
    }
}
