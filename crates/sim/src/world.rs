//! The members, and the queue of events.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use arbor_base::{Position, Random};
use arbor_bson::DocBuf;
use arbor_repl::coordinator::{Faults, Simulated};
use arbor_repl::isr::{Action, Envelope, Input, Machine, Message, ReadOutcome};
use arbor_repl::{Agreement, Coordinator, Identity, MemberId, Replaced, StoreId, Version, Voter};

use crate::data::{Data, Written};
use crate::member::{Member, Write};
use crate::operation::{KEYS, Operation};
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

    // ---- members ----

    fn restart(&mut self, member: usize) -> Result<(), Finding> {
        let (now, plan) = (self.now, self.plan.clone());
        let one = self.member(member);
        if one.machine.is_some() {
            return Ok(());
        }
        one.start(now, &plan);
        let incarnation = one.incarnation;
        let (loads, missing) = (one.data.loads(), one.data.load_missing(one.data.applied()));
        self.schedule(1, Event::Tick { member, incarnation });
        self.input(member, Input::Loads(loads))?;
        self.input(member, Input::LoadMissing(missing))
    }

    /// Ends a member's process, by a power failure.
    pub fn crash(&mut self, member: usize) {
        let mut random = Random::new(self.random.next_u64());
        self.forget(member);
        let one = self.member(member);
        one.machine = None;
        one.data.crash(&mut random);
        self.counts.crashes += 1;
    }

    /// Drops a member's writes; their clients do not know the outcome.
    fn forget(&mut self, member: usize) {
        let one = self.member(member);
        let writes: Vec<Operation> = one.writes.iter().map(|write| write.operation).collect();
        one.forget();
        if D::RETRIES {
            self.unsettled.extend(writes.into_iter().filter(|operation| operation.value().is_some()));
        }
    }

    /// Gives an input to a member that is up, and carries out what it does.
    pub fn input(&mut self, member: usize, input: Input) -> Result<(), Finding> {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let now = self.now;
            let one = self.member(member);
            let clock = one.clock(now);
            let Some(machine) = &mut one.machine else { return Ok(()) };
            let mut actions = Vec::new();
            machine.step(clock, input, &mut actions);
            for action in actions {
                if self.traced {
                    self.note(format!("    {member} {action:?}"));
                }
                self.act(member, action, &mut inputs)?;
                if self.member(member).machine.is_none() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn act(&mut self, member: usize, action: Action, inputs: &mut VecDeque<Input>) -> Result<(), Finding> {
        let one = self.member(member);
        match action {
            Action::SaveEpoch(epoch) => one.data.save_epoch(epoch),
            Action::Cut(behind) => one.data.cut_behind(behind),
            Action::Append { epoch, after, payloads } => {
                assert_eq!(one.data.end(), after, "the log is where the machine thinks");
                match one.data.append(epoch, &payloads) {
                    true => self.appended(member, inputs),
                    false => inputs.push_back(Input::LogEnds(one.data.end())),
                }
            }
            Action::Lead(epoch) => match one.data.lead(epoch) {
                true => self.appended(member, inputs),
                false => {
                    // No space for the empty record: the process ends
                    one.machine = None;
                    self.forget(member);
                    self.member(member).data.end_process();
                    self.schedule(200_000, Event::Restart { member });
                }
            },
            Action::Commit(commit) => {
                self.commit(member, commit)?;
                self.appended_itself(member, inputs);
            }
            Action::Serve(_) => {
                one.data.set_paused(false);
                one.reads_from = one.machine.as_ref().map_or(Position::ZERO, Machine::commit);
            }
            Action::Resync { .. } => {}
            Action::Changed(outcome) => self.counts.changes += u64::from(outcome.is_ok()),
            Action::Retire => {
                // One that hands over leads until its successor does
                if let Some(machine) = one.machine.as_ref().filter(|machine| !machine.is_primary()) {
                    let end = machine.log_end();
                    one.data.stop_leading();
                    // What a change of the catalogue has logged since
                    if one.data.end() > end {
                        one.data.cut_behind(end);
                    }
                }
                self.forget(member);
            }
            Action::Send { to, message } => self.send(member, to, message),
            Action::Ship(shipment) => {
                let payloads = one.data.read(shipment.after, shipment.last);
                let to = shipment.to;
                let message = shipment.with(payloads);
                self.send(member, to, message);
            }
            Action::Read { ticket } => self.ask(member, ticket, None),
            Action::Replace { ticket, expected, next } => self.ask(member, ticket, Some((expected, next))),
        }
        Ok(())
    }

    /// Has new records synced, and gets the loads to which they refer.
    fn appended(&mut self, member: usize, inputs: &mut VecDeque<Input>) {
        let one = self.member(member);
        let missing = one.data.load_missing(one.data.applied());
        let store = one.data.store();
        if missing.is_some() {
            inputs.push_back(Input::LoadMissing(missing));
            let operation = missing.and_then(|at| one.data.operation_at(at));
            if let Some(Operation::Loaded { load }) = operation {
                let delay = 1_000 + self.random.below(60_000);
                self.schedule(delay, Event::LoadArrives { member, store, load });
            }
        }
        self.sync(member);
    }

    /// Reports records that the data have appended by themselves, at the beginning of a term.
    fn appended_itself(&mut self, member: usize, inputs: &mut VecDeque<Input>) {
        let one = self.member(member);
        let end = one.data.end();
        let is_behind = |machine: &Machine| machine.serves().is_some() && machine.log_end() < end;
        if one.machine.as_ref().is_some_and(is_behind) {
            inputs.push_back(Input::Appended(end));
            self.sync(member);
        }
    }

    /// Applies what had no space when it was committed.
    fn apply_rest(&mut self, member: usize) -> Result<(), Finding> {
        let one = self.member(member);
        let Some(commit) = one.machine.as_ref().map(Machine::commit) else { return Ok(()) };
        if !D::RETRIES || one.data.applied() >= commit {
            return Ok(());
        }
        self.commit(member, commit)?;
        let mut inputs = VecDeque::new();
        self.appended_itself(member, &mut inputs);
        inputs.into_iter().try_for_each(|input| self.input(member, input))
    }

    /// Begins a sync of all that is in the log, unless one is under way: that one is followed by another.
    fn sync(&mut self, member: usize) {
        let (now, normal) = (self.now, self.plan.sync_us);
        let delay = 10 + self.random.below(normal);
        let slow = self.random.below(300_000);
        let one = self.member(member);
        if one.syncing > Position::ZERO {
            return;
        }
        let (position, incarnation) = (one.data.end(), one.incarnation);
        one.syncing = position;
        let delay = if one.slow_until > now { delay + slow } else { delay };
        self.schedule(delay, Event::Synced { member, incarnation, position });
    }

    fn synced(&mut self, member: usize, position: Position) -> Result<(), Finding> {
        let one = self.member(member);
        one.data.sync(position);
        one.syncing = Position::ZERO;
        let durable = one.data.durable();
        if one.data.end() > durable {
            self.sync(member);
        }
        self.input(member, Input::Synced(durable))
    }

    fn commit(&mut self, member: usize, commit: Position) -> Result<(), Finding> {
        let wiped = self.counts.wipes > 0;
        let Some(one) = self.members.get_mut(member) else { return Ok(()) };
        let Some(status) = one.machine.as_ref().map(|machine| machine.status()) else { return Ok(()) };
        if status.is_primary {
            self.oracle.commits(one.id, status.epoch, &one.data, commit)?;
        }
        let done = one.data.apply_until(commit);
        for (position, _) in &done {
            if let Some(Operation::Loaded { load }) = one.data.operation_at(*position)
                && !one.data.has_load(load)
            {
                return Err(format!(
                    "R10: {:?} applies a record that refers to load {load}, which it does not have",
                    one.id
                ));
            }
        }
        let applied = one.data.applied();
        let (finished, open): (Vec<Write>, Vec<Write>) =
            std::mem::take(&mut one.writes).into_iter().partition(|write| write.position <= applied);
        one.writes = open;
        for write in finished {
            let result = done.iter().find(|(position, _)| *position == write.position);
            let (_, took_effect) = result.ok_or("O5: a write waits for a position that was applied before")?;
            self.oracle.wrote(write.floor, write.position, write.operation, *took_effect)?;
        }
        let minimum = status.known.map_or(0, |(_, agreement)| agreement.min_in_sync);
        let held = |member: &&Member<D>| self.oracle.is_held_by(&member.data, commit);
        let copies = self.members.iter().filter(held).count();
        if status.is_primary && !wiped && copies < minimum {
            return Err(format!("O6: {commit:?} is committed with {copies} copies, {minimum} are the minimum"));
        }
        Ok(())
    }

    // ---- the network ----

    fn send(&mut self, from: usize, to: MemberId, message: Message) {
        let envelope = Envelope { from: MemberId(from as u32), to, message };
        let bytes = envelope.encode();
        let copies = if self.happens(self.plan.duplicated) { 2 } else { 1 };
        for _ in 0..copies {
            if self.happens(self.plan.lost) {
                continue;
            }
            let mut delay = 20 + self.random.below(self.plan.delay_us);
            if self.happens(self.plan.late) {
                delay += self.random.below(400_000);
            }
            self.schedule(delay, Event::Deliver { to: to.0 as usize, bytes: bytes.clone() });
        }
    }

    /// Returns true for an injected failure, which the later phases do not have.
    fn happens(&mut self, per_mille: u64) -> bool {
        self.phase == Phase::Faults && per_mille > 0 && self.random.chance(per_mille, 1_000)
    }

    fn deliver(&mut self, to: usize, bytes: &[u8]) -> Result<(), Finding> {
        let envelope = Envelope::decode(bytes).ok_or("a message is not read as it was written")?;
        if to >= self.members.len() || self.cut_links.contains(&(envelope.from.0 as usize, to)) {
            return Ok(());
        }
        self.counts.relayed +=
            u64::from(matches!(&envelope.message, Message::Relayed(records) if !records.payloads.is_empty()));
        let loads = match &envelope.message {
            Message::Records(records) => records.loads.clone(),
            _ => Vec::new(),
        };
        for load in loads {
            let store = self.member(to).data.store();
            let has_it = !D::HAVE_TREES && self.member(to).data.has_load(load);
            if !has_it && self.random.one_in(3) {
                let delay = 500 + self.random.below(30_000);
                self.schedule(delay, Event::LoadArrives { member: to, store, load });
            }
        }
        self.input(to, Input::Received { from: envelope.from, message: envelope.message })
    }

    fn load_arrives(&mut self, member: usize, store: StoreId, load: u64) -> Result<(), Finding> {
        let one = self.member(member);
        if one.machine.is_none() || one.data.store() != store {
            return Ok(());
        }
        match D::HAVE_TREES {
            true => self.fetch(member, load)?,
            false => one.data.add_load(load),
        }
        let one = self.member(member);
        let (loads, missing) = (one.data.loads(), one.data.load_missing(one.data.applied()));
        self.input(member, Input::Loads(loads))?;
        self.input(member, Input::LoadMissing(missing))?;
        self.appended(member, &mut VecDeque::new());
        Ok(())
    }

    /// Fetches an offered load, and those that are missing, from the primary that the member knows.
    fn fetch(&mut self, member: usize, load: u64) -> Result<(), Finding> {
        let primary = self.member(member).machine.as_ref().and_then(|machine| machine.status().primary);
        let Some(from) = primary.map(|id| id.0 as usize).filter(|from| *from != member) else { return Ok(()) };
        let is_cut = [(from, member), (member, from)].iter().any(|link| self.cut_links.contains(link));
        let is_up = |one: &Member<D>| one.machine.is_some() && one.paused_until <= self.now;
        if is_cut || !self.members.get(from).is_some_and(is_up) {
            return Ok(());
        }
        let Some(peer) = self.member(from).data.peer() else { return Ok(()) };
        self.member(member).data.fetch(&[load], &*peer);
        self.apply_rest(member)
    }

    /// Reports loads, as a member does again and again: those that are here and those that the others should get.
    fn give_loads(&mut self, member: usize) -> Result<(), Finding> {
        if !D::HAVE_TREES {
            return Ok(());
        }
        let one = self.member(member);
        let (own, open, store) = (one.data.loads(), one.data.open_loads(), one.data.store());
        let missing = one.data.load_missing(one.data.applied());
        self.input(member, Input::Loads(own))?;
        self.input(member, Input::LoadMissing(missing))?;
        self.input(member, Input::OpenLoads(open.clone()))?;
        if missing.is_some() && self.random.one_in(3) {
            self.schedule(1_000, Event::LoadArrives { member, store, load: 0 });
        }
        let one = self.member(member);
        let is_everywhere = |load: &u64| {
            one.machine.as_ref().is_some_and(|machine| machine.serves().is_some() && machine.is_load_everywhere(*load))
        };
        let everywhere: Vec<u64> = open.into_iter().filter(is_everywhere).collect();
        everywhere.into_iter().for_each(|load| one.data.set_everywhere(load));
        let mut inputs = VecDeque::new();
        self.appended_itself(member, &mut inputs);
        inputs.into_iter().try_for_each(|input| self.input(member, input))
    }

    // ---- the coordinator ----

    fn ask(&mut self, member: usize, ticket: u64, replacement: Option<(Option<Version>, Agreement)>) {
        let incarnation = self.member(member).incarnation;
        self.sequence += 1;
        let id = self.sequence;
        self.requests.insert(id, Request { member, incarnation, ticket, replacement, replied: false });
        let mut delay = 50 + self.random.below(self.plan.delay_us);
        if self.happens(self.plan.late_requests) {
            delay += self.random.below(500_000);
        }
        self.schedule(delay, Event::Execute { request: id });
        let patience = 60_000 + self.random.below(60_000);
        let timeout = match self.requests.get(&id).is_some_and(|request| request.replacement.is_some()) {
            true => Reply::Replaced(Replaced::Unknown),
            false => Reply::Read(ReadOutcome::Failed),
        };
        self.schedule(patience, Event::Reply { request: id, outcome: timeout });
    }

    fn execute(&mut self, id: u64) -> Result<(), Finding> {
        let Some(request) = self.requests.get(&id) else { return Ok(()) };
        let (member, expired) = (request.member, request.replied);
        if self.coordinator_down || self.without_coordinator.contains(&member) {
            self.forget_request(id, expired);
            return Ok(());
        }
        let failed = |error: std::io::Error| format!("the simulated coordinator failed: {error}");
        let outcome = match &request.replacement {
            None => match self.coordinator.read().map_err(failed)? {
                Some((version, agreement)) => Reply::Read(ReadOutcome::Found(version, agreement)),
                None => Reply::Read(ReadOutcome::Empty),
            },
            Some((expected, next)) => {
                let outcome = self.coordinator.replace(*expected, next).map_err(failed)?;
                if let Replaced::Done(_) = outcome {
                    self.recorded = next.clone();
                    self.note(format!("    agreed: {:?}", self.recorded));
                    for member in 0..self.members.len() {
                        let delay = self.random.below(200_000);
                        if self.random.one_in(2) {
                            self.schedule(delay, Event::Hint { member });
                        }
                    }
                }
                Reply::Replaced(outcome)
            }
        };
        let delay = 50 + self.random.below(self.plan.delay_us);
        if !expired && !self.happens(self.plan.lost_replies) {
            self.schedule(delay, Event::Reply { request: id, outcome });
        }
        self.forget_request(id, expired);
        Ok(())
    }

    /// Drops a request that was executed, or never will be, once its requester has its reply.
    fn forget_request(&mut self, id: u64, replied: bool) {
        match self.requests.get_mut(&id) {
            Some(request) if !replied => request.replacement = None,
            _ => drop(self.requests.remove(&id)),
        }
    }

    fn reply(&mut self, id: u64, outcome: Reply) -> Result<(), Finding> {
        let Some(request) = self.requests.get_mut(&id).filter(|request| !request.replied) else { return Ok(()) };
        request.replied = true;
        let (member, incarnation, ticket) = (request.member, request.incarnation, request.ticket);
        let open = request.replacement.is_some() && matches!(outcome, Reply::Replaced(Replaced::Unknown));
        if !open {
            self.requests.remove(&id);
        }
        if !self.is_up(member, incarnation) {
            return Ok(());
        }
        self.counts.unknown += u64::from(matches!(outcome, Reply::Replaced(Replaced::Unknown)));
        match outcome {
            Reply::Read(outcome) => self.input(member, Input::Read { ticket, outcome }),
            Reply::Replaced(outcome) => self.input(member, Input::Replaced { ticket, outcome }),
        }
    }

    // ---- clients ----

    fn client(&mut self) -> Result<(), Finding> {
        if self.phase == Phase::Quiet {
            return Ok(());
        }
        let pause = 100 + self.random.below(self.plan.pause_of_clients_us);
        self.schedule(pause, Event::Client);
        let serving: Vec<usize> = (0..self.members.len()).filter(|at| self.may_write(*at)).collect();
        if serving.is_empty() {
            return Ok(());
        }
        let member = *self.random.pick(&serving);
        if D::RETRIES && !self.unsettled.is_empty() && self.random.one_in(3) {
            return self.retry(member);
        }
        if D::HAVE_CATALOGUE && self.random.one_in(20) {
            return self.change(member);
        }
        match self.random.below(100) {
            0..40 => self.read(member),
            40..45 if D::HAVE_TREES => self.change(member),
            40..45 => self.load(member),
            45..80 => {
                let value = self.new_value();
                let operation = Operation::Put { key: self.random.below(KEYS), value };
                self.write_new(member, operation)
            }
            _ => {
                let value = self.new_value();
                let key = self.random.below(KEYS);
                let expected = self.member(member).data.documents().get(key);
                self.write_new(member, Operation::CompareAndSet { key, expected, value })
            }
        }
    }

    /// Changes the catalogue, or begins to.
    fn change(&mut self, member: usize) -> Result<(), Finding> {
        let choice = self.random.next_u64();
        self.member(member).data.change(choice);
        let mut inputs = VecDeque::new();
        self.appended_itself(member, &mut inputs);
        inputs.into_iter().try_for_each(|input| self.input(member, input))
    }

    /// Returns a value that no write had. Its lowest bits are its session, where sessions matter.
    fn new_value(&mut self) -> u64 {
        self.values += 1;
        match D::RETRIES {
            true => self.values * SESSIONS + self.random.below(SESSIONS),
            false => self.values,
        }
    }

    /// A session has one write at a time.
    fn write_new(&mut self, member: usize, operation: Operation) -> Result<(), Finding> {
        let session = |operation: &Operation| operation.value().map(|value| value % SESSIONS);
        let in_flight = self.members.iter().flat_map(|member| &member.writes).map(|write| &write.operation);
        if D::RETRIES && in_flight.chain(&self.unsettled).any(|other| session(other) == session(&operation)) {
            return Ok(());
        }
        self.write(member, operation)
    }

    /// Requests a write again whose outcome is not known.
    fn retry(&mut self, member: usize) -> Result<(), Finding> {
        let Some(operation) = self.unsettled.pop_front() else { return Ok(()) };
        self.counts.retries += 1;
        self.write(member, operation)?;
        if self.member(member).writes.iter().all(|write| write.operation != operation) {
            // Refused, or done: the client that is not sure asks once more
            if self.random.one_in(2) {
                self.unsettled.push_back(operation);
            }
        }
        Ok(())
    }

    fn may_write(&self, member: usize) -> bool {
        let up = |member: &&Member<D>| member.paused_until <= self.now;
        self.members.get(member).filter(up).is_some_and(|member| member.serves().is_some())
    }

    fn write(&mut self, member: usize, operation: Operation) -> Result<(), Finding> {
        let floor = self.oracle.floor();
        let now = self.now;
        let jump = self.jumps.one_in(300).then(|| self.jumps.below(20_000_000) as i64 - 10_000_000);
        let one = self.member(member);
        one.wall_off_ms = jump.unwrap_or(one.wall_off_ms);
        one.data.set_wall(one.wall(now));
        let Some(epoch) = one.serves() else { return Ok(()) };
        if one.writes.len() > 40 {
            return Ok(());
        }
        match one.data.write(epoch, operation) {
            Written::Logged(position) => {
                one.writes.push(Write { position, operation, floor });
                self.sync(member);
                self.input(member, Input::Appended(position))
            }
            Written::Before => self.oracle.was_done(operation),
            Written::Refused | Written::Never => {
                // A large write may have left a part of itself, which is void
                let mut inputs = VecDeque::new();
                self.appended_itself(member, &mut inputs);
                inputs.into_iter().try_for_each(|input| self.input(member, input))
            }
        }
    }

    fn read(&mut self, member: usize) -> Result<(), Finding> {
        let floor = self.oracle.floor();
        let now = self.now;
        let key = self.random.below(KEYS);
        let one = self.member(member);
        let clock = one.clock(now);
        let (applied, value) = (one.data.applied(), one.data.documents().get(key));
        // As the server: a member whose engine has no space may lead, and shows nothing until it has applied all of it
        if !one.data.is_readable()
            || applied < one.reads_from
            || !one.machine.as_ref().is_some_and(|machine| machine.may_read(clock))
        {
            return Ok(());
        }
        let late = one.serves() < Some(self.recorded.epoch);
        self.counts.late_reads += u64::from(late);
        self.oracle.read(floor, applied, key, value)
    }

    /// Opens a load, or logs the open one once every member has it.
    fn load(&mut self, member: usize) -> Result<(), Finding> {
        self.values += 1;
        let load = self.values;
        let one = self.member(member);
        match one.open_load {
            None => {
                one.open_load = Some(load);
                one.data.add_load(load);
                let loads = one.data.loads();
                self.input(member, Input::Loads(loads))?;
                self.input(member, Input::OpenLoads(vec![load]))
            }
            Some(open) if one.machine.as_ref().is_some_and(|machine| machine.is_load_everywhere(open)) => {
                one.open_load = None;
                self.write(member, Operation::Loaded { load: open })
            }
            Some(_) => Ok(()),
        }
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
