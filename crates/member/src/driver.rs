//! The thread that owns the state machine.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::time::{Duration, Instant};

use arbor_base::Position;
use arbor_bson::Doc;
use arbor_repl::coordinator::LocalFile;
use arbor_repl::isr::{
    Action, Envelope, Epochs, Found, Input, Machine, Message, Reconfiguration, Refusal, Shipment, Timing,
};
use arbor_repl::{Agreement, Epoch, Identity, MemberId, SetConfig, Version, majority_of};
use arbor_txn::{Error, Pending, Transactions};
use parking_lot::Mutex;

use crate::event::{Changed, Event};
use crate::helpers::{Request, Role};
use crate::lanes::{Hosts, Lanes};
use crate::loads::Offer;
use crate::shown::{Server, Shared};

const TICK: Duration = Duration::from_millis(20);
/// Records of one reply, in bytes; one record may be more.
const SHIPMENT_BYTES: usize = 8 << 20;
/// The primary looks this often whether a member of higher priority, or one whose disk is not full, can take over.
const HAND_OVER_EVERY: Duration = Duration::from_secs(2);
/// The log is kept for a member that has not fetched for less than this.
const FOLLOWER_AWAY: Duration = Duration::from_secs(600);
/// A hand-over without a request waits this long: meanwhile clients cannot write.
const OWN_HAND_OVER: Duration = Duration::from_secs(1);

pub(crate) struct Driver {
    pub own: Identity,
    pub timing: Timing,
    pub transactions: Arc<Transactions>,
    pub member: Arc<arbor_log::Member>,
    pub kept: LocalFile,
    pub server: Arc<dyn Server>,
    pub shared: Arc<Shared>,
    pub hosts: Hosts,
    pub lanes: Lanes,
    pub looks: Arc<AtomicBool>,
    pub to_apply: Sender<Position>,
    pub to_coordinator: Sender<Request>,
    pub to_roles: Sender<Role>,
    pub to_loads: SyncSender<Offer>,
    /// Initial syncs; the member that is asked first.
    pub to_sync: Sender<Option<MemberId>>,
    pub state: State,
}

/// State that changes from event to event.
pub(crate) struct State {
    pub machine: Machine,
    /// The end of the log, as the machine knows it.
    pub end: Position,
    /// Fetches whose reply is awaited.
    pub waiting: HashMap<MemberId, SyncSender<Vec<u8>>>,
    /// The fetch that is being handled.
    pub answering: Option<MemberId>,
    /// The outcome of a request is reported here.
    pub changing: Option<Changed>,
    pub pending: Arc<Mutex<Option<Pending>>>,
    pub frozen_until: Option<Instant>,
    pub fits: bool,
    pub fit: bool,
    /// The disk is full.
    pub full: bool,
    pub handed_over_at: Instant,
    pub loads: LoadsGiven,
    pub sync: SyncState,
    /// The last record of each member that fetches from this primary, and when it asked.
    pub followers: HashMap<MemberId, (Position, Instant)>,
    /// The version of the agreement that is stored.
    pub stored: Option<Version>,
    /// The step-down that is under way happens without a successor, too.
    pub forced: bool,
    pub abdicates: bool,
    pub failed: bool,
}

/// The loads, as the machine knows them.
#[derive(Default)]
pub(crate) struct LoadsGiven {
    own: Vec<u64>,
    open: Vec<u64>,
    missing: Option<Position>,
}

/// The part of the driver in an initial sync (D4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SyncState {
    #[default]
    No,
    /// The log is that of no state: no message of a member is taken.
    Halted,
    /// The log continues behind the state that is being fetched.
    Streams,
}

/// With a load missing there, a member acknowledges nothing and applies nothing.
const NOTHING_HERE: Position = Position(1);

/// Returns what the disk of a member holds.
pub(crate) fn found(transactions: &Transactions, member: &arbor_log::Member) -> Found {
    let (log, engine) = (transactions.log(), transactions.engine());
    let (epochs, end, first) = (log.epochs(), log.appended(), log.first());
    let has_record = |(_, begin): &&(u64, Position)| *begin <= end;
    let mut begins: Vec<(Epoch, Position)> =
        epochs.begins().iter().filter(has_record).map(|(epoch, begin)| (Epoch(*epoch), *begin)).collect();
    // The record before the first one is known by its epoch: a follower may name it.
    let before = Position(first.0.saturating_sub(1));
    if before > Position::ZERO
        && let Some(epoch) = epochs.at(before).map(Epoch)
    {
        match begins.first_mut() {
            Some((oldest, begin)) if *oldest == epoch => *begin = before,
            _ => begins.insert(0, (epoch, before)),
        }
    }
    // While an initial sync is under way, the engine and the log may be of two states.
    let applied = engine.applied_in_part();
    let applied = if transactions.is_syncing() { applied.min(end) } else { applied };
    Found { saved: Epoch(member.epoch()), log: Epochs::new(begins, end), first, applied }
}

impl State {
    pub(crate) fn new(machine: Machine, end: Position) -> State {
        State {
            machine,
            end,
            waiting: HashMap::new(),
            answering: None,
            changing: None,
            pending: Arc::default(),
            frozen_until: None,
            fits: true,
            fit: true,
            full: false,
            handed_over_at: Instant::now(),
            loads: LoadsGiven::default(),
            sync: SyncState::No,
            followers: HashMap::new(),
            stored: None,
            forced: false,
            abdicates: false,
            failed: false,
        }
    }
}

impl Driver {
    pub(crate) fn run(mut self, events: &Receiver<Event>) {
        let mut tick_at = Instant::now();
        if self.transactions.is_syncing() {
            self.begin_sync(None);
        }
        self.give_loads();
        loop {
            let wait = tick_at.saturating_duration_since(Instant::now());
            match events.recv_timeout(wait) {
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(event) => self.handle(event),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if Instant::now() >= tick_at {
                tick_at = Instant::now() + TICK;
                self.tick();
            }
            self.show();
            if self.state.failed {
                return;
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Received { .. } | Event::Lost(_) if self.state.sync == SyncState::Halted => {}
            Event::SyncHalts(halted) => {
                self.state.sync = SyncState::Halted;
                self.not_here();
                let _stopped = halted.send(());
            }
            Event::SyncStreams => self.stream(),
            Event::SyncEnded => {
                self.state.sync = SyncState::No;
                // R10: in one step, before anything is acknowledged.
                let missing = self.transactions.loads().missing();
                self.state.loads = LoadsGiven { missing, ..LoadsGiven::default() };
                self.step(Input::LoadMissing(missing));
                self.give_loads();
                self.step(Input::Fit(self.state.fit));
            }
            Event::Received { from, message, reply } => {
                let is_fetch = matches!(*message, Message::Fetch(_));
                if let Message::Records(records) = &*message
                    && !records.loads.is_empty()
                    && self.state.sync == SyncState::No
                {
                    self.offer(from, records.loads.clone());
                }
                if let Message::Fetch(fetch) = &*message {
                    self.state.followers.insert(from, (fetch.after.position, Instant::now()));
                }
                if let Some(reply) = reply {
                    self.state.waiting.insert(from, reply);
                    self.state.answering = Some(from).filter(|_| is_fetch);
                }
                self.look();
                self.step(Input::Received { from, message: *message });
                self.state.answering = None;
            }
            Event::Coordinator(input) => {
                self.look();
                self.step(*input);
            }
            Event::Lost(member) => self.step(Input::Lost(member)),
            Event::Look => {
                self.looks.store(false, Ordering::Release);
                self.look();
            }
            Event::Fit(fits) => self.state.fits = fits,
            Event::Reconfigure(change, outcome) => {
                if self.begin_change(outcome) {
                    self.look();
                    self.step(Input::Reconfigure(*change));
                }
            }
            Event::StepDown { to, wait, frozen_until, force, outcome } => {
                if self.begin_change(outcome) {
                    (self.state.frozen_until, self.state.forced) = (frozen_until, force);
                    self.step_down(to, wait);
                }
            }
            Event::Freeze(until) => self.state.frozen_until = until,
            Event::Source(source) => self.step(Input::Source(source)),
            Event::Failed(reason) => self.fail(&reason),
            Event::Stop => {}
        }
    }

    /// Has the data of another member fetched.
    fn begin_sync(&mut self, from: Option<MemberId>) {
        match self.state.sync {
            SyncState::No => {
                self.state.sync = SyncState::Halted;
                self.not_here();
                let _stopped = self.to_sync.send(from);
            }
            SyncState::Halted => {}
            // The state that is being fetched is too old as well.
            SyncState::Streams => self.shared.sync.again.store(true, Ordering::Release),
        }
    }

    /// D4
    fn not_here(&mut self) {
        self.step(Input::Fit(false));
        self.step(Input::LoadMissing(Some(NOTHING_HERE)));
    }

    /// Begins again, as after a restart, with the log behind the state that is being fetched.
    fn stream(&mut self) {
        let found = found(&self.transactions, &self.member);
        self.state.end = found.log.end();
        self.state.machine = Machine::open(self.own, self.timing, found, self.shared.now());
        self.state.loads = LoadsGiven::default();
        self.state.sync = SyncState::Streams;
        self.not_here();
    }

    /// One request at a time. Returns true if it is this one's turn.
    fn begin_change(&mut self, outcome: Changed) -> bool {
        if self.state.changing.is_some() {
            let _gone = outcome.send(Err(Refusal::Busy));
            return false;
        }
        self.state.changing = Some(outcome);
        true
    }

    fn step_down(&mut self, to: Option<MemberId>, wait: Duration) {
        if self.state.machine.serves().is_some() {
            // D2
            self.transactions.pause_commits();
        }
        self.look();
        self.state.machine.set_hand_over(wait.as_millis() as u64);
        self.step(Input::StepDown(to));
        self.resume();
    }

    /// Commits are admitted as long as clients may write here.
    fn resume(&self) {
        if self.state.machine.serves().is_some() {
            self.transactions.resume_commits();
        }
    }

    fn tick(&mut self) {
        let frozen = self.state.frozen_until.is_some_and(|until| Instant::now() < until);
        let fit = self.state.fits && !frozen;
        if fit != self.state.fit {
            self.state.fit = fit;
            self.step(Input::Fit(fit && self.state.sync == SyncState::No));
        }
        let full = !self.state.fits || self.transactions.is_low_on_space();
        if full != self.state.full {
            self.state.full = full;
            self.step(Input::Full(full));
        }
        let first = self.transactions.log().first();
        self.step(Input::Trimmed(first));
        self.look();
        self.give_loads();
        self.hold_log(first);
        self.step(Input::Tick);
        self.hand_over();
        self.raise_minimum();
    }

    /// Has the log kept for members that fetch it. One that needs what is gone already copies the data.
    fn hold_log(&mut self, first: Position) {
        let state = &mut self.state;
        if !state.machine.is_primary() {
            state.followers.clear();
        }
        state.followers.retain(|_, (_, asked)| asked.elapsed() < FOLLOWER_AWAY);
        let needed = state.followers.values().map(|(last, _)| last.next());
        self.transactions.hold_log_for_members(needed.filter(|needed| *needed >= first).min());
    }

    /// Reports which loads are here, which are missing and which the others should get (R10), and continues with those that they have.
    fn give_loads(&mut self) {
        if self.state.sync != SyncState::No {
            return self.not_here();
        }
        let transactions = self.transactions.clone();
        let loads = transactions.loads();
        let (own, open, missing) = (loads.own(), loads.open(), loads.missing());
        if own != self.state.loads.own {
            self.state.loads.own.clone_from(&own);
            self.step(Input::Loads(own));
        }
        self.give_missing();
        if open != self.state.loads.open {
            self.state.loads.open.clone_from(&open);
            self.step(Input::OpenLoads(open.clone()));
        }
        if self.state.machine.serves().is_some() {
            let everywhere = open.into_iter().filter(|load| self.state.machine.is_load_everywhere(*load));
            everywhere.for_each(|load| loads.set_everywhere(load));
        } else if missing.is_some()
            && let Some(primary) = self.state.machine.status().primary
        {
            self.offer(primary, Vec::new());
        }
    }

    /// Reports the first record that refers to a load which is not here.
    fn give_missing(&mut self) {
        let missing = self.transactions.loads().missing();
        if self.state.sync == SyncState::No && missing != self.state.loads.missing {
            self.state.loads.missing = missing;
            self.step(Input::LoadMissing(missing));
        }
    }

    /// Has trees fetched from a primary. One offer waits at most: the next one comes soon.
    fn offer(&self, from: MemberId, loads: Vec<u64>) {
        if let Some(host) = self.hosts.load().get(&from) {
            let _busy = self.to_loads.try_send(Offer { host: host.clone(), loads });
        }
    }

    /// Hands over to a member in sync of a higher priority, or with a disk that is not full if this one's is. Where all disks are full the
    /// primary stays: what makes space works.
    fn hand_over(&mut self) {
        let state = &mut self.state;
        let late = state.handed_over_at.elapsed() >= HAND_OVER_EVERY;
        if !late || state.machine.serves().is_none() || state.changing.is_some() {
            return;
        }
        state.handed_over_at = Instant::now();
        if state.full {
            if state.machine.has_roomy_successor(|_| true) {
                self.step_down(None, OWN_HAND_OVER);
            }
            return;
        }
        let Some((_, agreement)) = self.state.machine.status().known else { return };
        let Some(config) = config_of(&agreement) else { return };
        let priority = |id: MemberId| {
            config.members.iter().find(|member| member.id as u32 == id.0).map_or(0.0, |member| member.priority)
        };
        let own = priority(self.own.id);
        let others = agreement.in_sync.iter().filter(|member| member.id != self.own.id);
        let best = others.max_by(|one, other| priority(one.id).total_cmp(&priority(other.id)));
        let Some(best) = best.filter(|best| priority(best.id) > own) else { return };
        if self.state.machine.has_roomy_successor(|member| member == best.id) {
            self.step_down(Some(best.id), OWN_HAND_OVER);
        }
    }

    /// A member that was added counts for the minimum once it is in sync.
    fn raise_minimum(&mut self) {
        let machine = &self.state.machine;
        if machine.serves().is_none() || self.state.changing.is_some() {
            return;
        }
        let Some((_, agreement)) = self.shared.status.load().known.clone() else { return };
        let min_in_sync = majority_of(agreement.voters.len()).min(agreement.in_sync.len());
        if min_in_sync > agreement.min_in_sync {
            let Agreement { voters, config, .. } = agreement;
            self.step(Input::Reconfigure(Reconfiguration { voters, min_in_sync, config, forced: false }));
        }
    }

    /// Steps down without a successor: begins again as a follower, as after a restart.
    fn abdicate(&mut self) {
        let abdicated = self.stop_leading().and_then(|()| {
            self.transactions.make_durable(None).map_err(|error| format!("cannot sync the log: {error}"))
        });
        if let Err(reason) = abdicated {
            return self.fail(&reason);
        }
        let found = found(&self.transactions, &self.member);
        self.state.end = found.log.end();
        self.state.machine = Machine::open(self.own, self.timing, found, self.shared.now());
        (self.state.fit, self.state.full) = (true, false);
        self.state.loads = LoadsGiven::default();
        self.give_loads();
        let _stopped = self.to_roles.send(Role::Retire);
    }

    /// Reports what became of the log.
    fn look(&mut self) {
        let log = self.transactions.log().clone();
        let appended = log.appended();
        if self.state.machine.serves().is_some() && appended > self.state.end {
            self.state.end = appended;
            self.step(Input::Appended(appended));
        }
        let durable = log.durable().min(self.state.end);
        if durable > self.state.machine.durable() {
            self.step(Input::Synced(durable));
        }
    }

    /// Gives the machine an input, and carries out what it asks for.
    fn step(&mut self, input: Input) {
        if self.state.failed {
            return;
        }
        let mut actions = Vec::new();
        self.state.machine.step(self.shared.now(), input, &mut actions);
        for action in actions {
            if let Err(reason) = self.act(action) {
                return self.fail(&reason);
            }
        }
        if std::mem::take(&mut self.state.abdicates) {
            self.abdicate();
        }
        let machine = &self.state.machine;
        self.shared.set_readable_until(machine.readable_until());
    }

    /// D3
    fn fail(&mut self, reason: &str) {
        self.state.failed = true;
        self.shared.set_readable_until(None);
        self.transactions.stop_leading();
        self.server.failed(reason);
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::SaveEpoch(epoch) => self.member.enter(epoch.0).map_err(|error| error.to_string())?,
            Action::Cut(behind) => {
                self.transactions.cut_behind(behind).map_err(|error| format!("cannot cut the log: {error}"))?;
                self.state.end = behind;
                // The machine has forgotten those behind the cut.
                self.state.loads.missing = self.transactions.loads().missing();
            }
            Action::Append { epoch, after, payloads } => self.append(epoch, after, &payloads)?,
            Action::Lead(epoch) => self.lead(epoch)?,
            Action::Commit(commit) => {
                self.shared.commit.store(commit.0, Ordering::Relaxed);
                let _stopped = self.to_apply.send(commit);
            }
            Action::Serve(epoch) => {
                self.transactions.resume_commits();
                let _stopped = self.to_roles.send(Role::Serve(epoch, self.state.pending.clone()));
            }
            Action::Retire => self.retire()?,
            Action::Send { to, message } => self.send(to, message),
            Action::Ship(shipment) => self.ship(shipment)?,
            Action::Read { ticket } => drop(self.to_coordinator.send(Request::Read(ticket))),
            Action::Replace { ticket, expected, next } => {
                let request = Request::Replace { ticket, expected, next: Box::new(next) };
                let _stopped = self.to_coordinator.send(request);
            }
            Action::Resync { from } => {
                self.server.falls_behind(from);
                self.begin_sync(Some(from));
            }
            Action::Changed(mut outcome) => {
                let forced = std::mem::take(&mut self.state.forced);
                if forced && outcome == Err(Refusal::NoSuccessor) {
                    (self.state.abdicates, outcome) = (true, Ok(()));
                }
                if outcome.is_err() {
                    self.state.frozen_until = None;
                    self.resume();
                }
                if let Some(changing) = self.state.changing.take() {
                    let _gone = changing.send(outcome);
                }
            }
        }
        Ok(())
    }

    fn append(&mut self, epoch: Epoch, after: Position, payloads: &[Vec<u8>]) -> Result<(), String> {
        assert_eq!(after, self.state.end, "D1: the log is where the machine thinks");
        let parts: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        match self.transactions.receive(epoch.0, after, &parts) {
            Ok(end) => {
                self.state.end = end;
                // R10: before the records are acknowledged.
                self.give_missing();
            }
            Err(Error::OutOfSpace { .. }) => {
                let end = self.transactions.log().appended();
                self.state.end = end;
                self.step(Input::LogEnds(end));
            }
            Err(error) => return Err(format!("cannot append to the log: {error}")),
        }
        Ok(())
    }

    fn lead(&mut self, epoch: Epoch) -> Result<(), String> {
        self.stop_leading()?;
        let pending =
            self.transactions.lead(epoch.0).map_err(|error| format!("cannot begin epoch {epoch:?}: {error}"))?;
        self.state.end = self.state.end.next();
        assert_eq!(pending.position(), self.state.end, "D1: the epoch begins with one record");
        *self.state.pending.lock() = Some(pending);
        Ok(())
    }

    fn retire(&mut self) -> Result<(), String> {
        // In a hand-over it still leads: what is in flight may succeed.
        if !self.state.machine.is_primary() {
            self.stop_leading()?;
        }
        let _stopped = self.to_roles.send(Role::Retire);
        Ok(())
    }

    /// D1: cuts off what the machine has not heard of.
    fn stop_leading(&mut self) -> Result<(), String> {
        // Before those that wait for a commit continue: what they say next is not to be taken for a primary's.
        self.shared.set_readable_until(None);
        self.transactions.stop_leading();
        if self.transactions.log().appended() > self.state.end {
            self.transactions.cut_behind(self.state.end).map_err(|error| format!("cannot cut the log: {error}"))?;
        }
        Ok(())
    }

    fn ship(&mut self, shipment: Shipment) -> Result<(), String> {
        let to = shipment.to;
        if !self.state.waiting.contains_key(&to) {
            return Ok(());
        }
        let mut reader = self.transactions.log().read(shipment.after.next());
        let (mut payloads, mut bytes) = (Vec::new(), 0);
        while shipment.after.0 + (payloads.len() as u64) < shipment.last.0 && bytes < SHIPMENT_BYTES {
            let Some(read) = reader.next_borrowed() else { break };
            let (_, payload) = read.map_err(|error| format!("cannot read the log: {error}"))?;
            bytes += payload.len();
            payloads.push(payload.to_vec());
        }
        self.reply(to, shipment.with(payloads));
        Ok(())
    }

    fn send(&mut self, to: MemberId, message: Message) {
        let is_request = message.is_request();
        let is_reply = match &message {
            Message::Lead { .. } => self.state.answering == Some(to),
            _ => !is_request,
        };
        if is_reply {
            return self.reply(to, message);
        }
        self.lanes.send(&Envelope { from: self.own.id, to, message }, is_request);
    }

    fn reply(&mut self, to: MemberId, message: Message) {
        let Some(reply) = self.state.waiting.remove(&to) else { return };
        let _gone = reply.try_send(Envelope { from: self.own.id, to, message }.encode());
    }

    /// Publishes what changed.
    fn show(&mut self) {
        let machine = &self.state.machine;
        if machine.is_primary() {
            self.shared.set_peers(machine.peers());
        }
        let shown = self.shared.status.load();
        if !machine.differs(&shown) {
            return;
        }
        let status = machine.status();
        if let Some((version, agreement)) = &status.known
            && self.state.stored != Some(*version)
        {
            self.take_over_agreement(*version, agreement);
        }
        self.shared.status.store(Arc::new(status));
        self.server.shown(&self.shared.status.load());
    }

    fn take_over_agreement(&mut self, version: Version, agreement: &Agreement) {
        if let Some(config) = config_of(agreement) {
            self.hosts.store(Arc::new(hosts_of(&config)));
            self.shared.take_delay(&config, self.own.id);
        }
        // Only for the next start: the coordinator has it.
        if self.kept.keep(version, agreement).is_ok() {
            self.state.stored = Some(version);
        }
    }
}

pub(crate) fn config_of(agreement: &Agreement) -> Option<SetConfig> {
    SetConfig::parse(Doc::trusted(&agreement.config)).ok()
}

pub(crate) fn hosts_of(config: &SetConfig) -> HashMap<MemberId, String> {
    config.members.iter().map(|member| (MemberId(member.id as u32), member.host.clone())).collect()
}
