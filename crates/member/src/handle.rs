//! [`Handle`]: starting a member, and what the server asks of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arbor_base::Position;
use arbor_repl::coordinator::LocalFile;
use arbor_repl::isr::{Envelope, Machine, Reconfiguration, Refusal, Status, Timing};
use arbor_repl::{Agreement, Coordinator, Identity, MemberId, Version};
use arbor_txn::Transactions;
use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::dial::Dialer;
use crate::driver::{Driver, State, config_of, found, hosts_of};
use crate::event::Event;
use crate::heartbeat::{Heard, Heartbeats};
use crate::helpers;
use crate::lanes::{Lanes, Wiring, events};
use crate::loads;
use crate::shown::{Peer, Server, Shared};
use crate::sync::{Sync, SyncStatus};

/// Parts of a member.
pub struct Setup {
    /// Name of the set.
    pub set: String,
    pub own: Identity,
    /// As it was known last.
    pub agreement: (Version, Agreement),
    /// Opened as a follower.
    pub transactions: Arc<Transactions>,
    pub member: Arc<arbor_log::Member>,
    pub coordinator: Arc<dyn Coordinator>,
    /// The file in which the agreement is kept for the next start.
    pub kept: LocalFile,
    pub server: Arc<dyn Server>,
    pub timing: Timing,
    /// For connections to the other members.
    pub dialer: Dialer,
    /// This data was never that of a member of several.
    pub is_new: bool,
}

/// A running member.
pub struct Handle {
    own: Identity,
    events: Mutex<Sender<Event>>,
    shared: Arc<Shared>,
    heartbeats: Arc<Heartbeats>,
    transactions: Arc<Transactions>,
    stopped: Arc<AtomicBool>,
    beacon: Duration,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// A change of the set takes as long as its coordinator; then its outcome is not known.
const CHANGE_MAX: Duration = Duration::from_secs(30);

impl Handle {
    /// Begins to be a member. Errors: threads cannot be started.
    pub fn start(setup: Setup) -> std::io::Result<Arc<Handle>> {
        let Setup { set, own, agreement, transactions, member, coordinator, kept, server, timing, dialer, is_new } =
            setup;
        let config = config_of(&agreement.1);
        let hosts = config.as_ref().map(hosts_of).unwrap_or_default();
        let hosts = Arc::new(ArcSwap::from_pointee(hosts));
        let (sender, receiver) = events();
        let wiring = Wiring { set, hosts: hosts.clone(), dialer: dialer.clone(), events: sender.clone() };

        let found = found(&transactions, &member);
        let end = found.log.end();
        let machine = |now| {
            let machine = Machine::open(own, timing, found.clone(), now);
            if is_new { machine.without_promises() } else { machine }
        };
        let shared = Arc::new(Shared::new(machine(0).status()));
        config.iter().for_each(|config| shared.take_delay(config, own.id));
        let state = State::new(machine(shared.now()), end);

        let looks = Arc::new(AtomicBool::new(false));
        for listen in [Transactions::on_append, Transactions::on_durable] {
            let (looks, events) = (looks.clone(), Mutex::new(sender.clone()));
            listen(
                &transactions,
                Box::new(move |_| {
                    if !looks.swap(true, Ordering::AcqRel) {
                        let _stopped = events.lock().send(Event::Look);
                    }
                }),
            );
        }
        let (to_apply, apply) = channel();
        let (to_coordinator, requests) = channel();
        let (to_roles, roles) = channel();
        let (to_loads, offers) = sync_channel(1);
        let stopped = Arc::new(AtomicBool::new(false));
        let heartbeats = Arc::new(Heartbeats::new());
        let mut threads = Vec::new();
        let mut begin = |name: &str, work: Box<dyn FnOnce() + Send>| -> std::io::Result<()> {
            let thread = std::thread::Builder::new().name(name.to_owned());
            let (name, server) = (name.to_owned(), server.clone());
            let work = move || helpers::guard(&name, work, |reason| server.failed(reason));
            threads.push(thread.stack_size(arbor_base::STATEMENT_STACK_BYTES).spawn(work)?);
            Ok(())
        };
        let (own_transactions, own_events, own_shared) = (transactions.clone(), sender.clone(), shared.clone());
        begin("arbor-apply", Box::new(move || helpers::apply(&own_transactions, &apply, &own_events, &own_shared)))?;
        let (own_shared, own_events, own_server) = (shared.clone(), sender.clone(), server.clone());
        let set_id = config.as_ref().and_then(|config| config.settings.set_id);
        begin(
            "arbor-agree",
            Box::new(move || {
                let around: (&Shared, &dyn Server) = (&own_shared, &*own_server);
                helpers::coordinate((&*coordinator, set_id), &requests, &own_events, around);
            }),
        )?;
        let (own_server, own_transactions) = (server.clone(), transactions.clone());
        begin("arbor-role", Box::new(move || helpers::change_roles(&*own_server, &own_transactions, &roles)))?;
        let (own_transactions, own_stopped) = (transactions.clone(), stopped.clone());
        let (own_server, own_dialer) = (server.clone(), dialer.clone());
        begin(
            "arbor-loads",
            Box::new(move || loads::fetch(&own_transactions, &own_dialer, &offers, &own_stopped, &*own_server)),
        )?;
        let sync = Sync {
            own: own.id,
            transactions: transactions.clone(),
            dialer,
            hosts: hosts.clone(),
            shared: shared.clone(),
            server: server.clone(),
            events: sender.clone(),
            stopped: stopped.clone(),
        };
        let (to_sync, syncs) = channel();
        begin("arbor-sync", Box::new(move || sync.run(&syncs)))?;
        let (beats, own_wiring, own_shared) = (heartbeats.clone(), wiring.clone(), shared.clone());
        begin("arbor-beats", Box::new(move || beats.run(own.id, &own_wiring, &own_shared)))?;
        let driver = Driver {
            own,
            timing,
            transactions: transactions.clone(),
            member,
            kept,
            server: server.clone(),
            shared: shared.clone(),
            hosts,
            lanes: Lanes::new(wiring),
            looks,
            to_apply,
            to_coordinator,
            to_roles,
            to_loads,
            to_sync,
            state,
        };
        begin("arbor-member", Box::new(move || driver.run(&receiver)))?;
        let beacon = Duration::from_millis(timing.beacon_ms);
        let (events, threads) = (Mutex::new(sender), Mutex::new(threads));
        Ok(Arc::new(Handle { own, events, shared, heartbeats, transactions, stopped, beacon, threads }))
    }

    pub fn own(&self) -> Identity {
        self.own
    }

    pub fn status(&self) -> Arc<Status> {
        self.shared.status.load_full()
    }

    /// Everything up to here is committed.
    pub fn commit_point(&self) -> Position {
        Position(self.shared.commit.load(Ordering::Relaxed))
    }

    /// The other members, as far as this one is the primary.
    pub fn peers(&self) -> Vec<Peer> {
        if self.status().is_primary { self.shared.peers() } else { Vec::new() }
    }

    pub fn heard(&self) -> HashMap<MemberId, Heard> {
        self.heartbeats.heard.lock().clone()
    }

    /// Time since the coordinator last answered.
    pub fn coordinator_silent(&self) -> Option<Duration> {
        let at = self.shared.coordinator_at.load(Ordering::Relaxed);
        (at > 0).then(|| Duration::from_millis(self.shared.now().saturating_sub(at)))
    }

    /// Returns why the coordinator cannot be used.
    pub fn coordinator_error(&self) -> Option<String> {
        self.shared.coordinator_error.lock().clone()
    }

    /// Returns the state of the initial sync that is under way, or of the last one since the start.
    pub fn sync_status(&self) -> Option<SyncStatus> {
        self.shared.sync.status()
    }

    /// Returns true if no other member can be primary: what was read from this one before the call was the state of the set.
    pub fn may_read(&self) -> bool {
        self.shared.may_read()
    }

    /// Takes a message of another member; returns the reply if it waits for one. `None`: it is no message for this member.
    pub fn receive(&self, bytes: &[u8]) -> Option<(MemberId, Option<Vec<u8>>)> {
        let Envelope { from, to, message } = Envelope::decode(bytes)?;
        if to != self.own.id || from == self.own.id {
            return None;
        }
        let message = Box::new(message);
        if !message.is_request() {
            self.send(Event::Received { from, message, reply: None });
            return Some((from, None));
        }
        let (sender, receiver) = sync_channel(1);
        self.send(Event::Received { from, message, reply: Some(sender) });
        Some((from, receiver.recv_timeout(self.beacon * 4).ok()))
    }

    /// The connection of another member was closed.
    pub fn lost(&self, member: MemberId) {
        self.send(Event::Lost(member));
    }

    /// Replaces voters and configuration. `None`: the outcome is not known yet.
    pub fn reconfigure(&self, change: Reconfiguration) -> Option<Result<(), Refusal>> {
        let (sender, receiver) = channel();
        self.send(Event::Reconfigure(Box::new(change), sender));
        receiver.recv_timeout(CHANGE_MAX).ok()
    }

    /// Hands over to another member, which may take `wait` to catch up; then this one does not lead for `frozen`.
    pub fn step_down(
        &self,
        to: Option<MemberId>,
        wait: Duration,
        frozen: Duration,
        force: bool,
    ) -> Option<Result<(), Refusal>> {
        let (outcome, receiver) = channel();
        let frozen_until = Instant::now().checked_add(frozen);
        self.send(Event::StepDown { to, wait, frozen_until, force, outcome });
        receiver.recv_timeout(wait + CHANGE_MAX).ok()
    }

    /// This member does not take over for a time; zero ends that.
    pub fn freeze(&self, time: Duration) {
        self.send(Event::Freeze(Instant::now().checked_add(time).filter(|_| !time.is_zero())));
    }

    /// Has records fetched from another member than the primary, until that does not help or this process ends; `None`: from the primary.
    pub fn sync_from(&self, source: Option<MemberId>) {
        self.send(Event::Source(source));
    }

    /// Waits until `enough` says of the members that hold `position` that they are enough, or until the deadline.
    pub fn reached(&self, position: Position, deadline: Option<Instant>, enough: impl Fn(&[MemberId]) -> bool) -> bool {
        self.shared.wait_acknowledged(deadline, |peers| {
            let own = (self.transactions.log().durable() >= position).then_some(self.own.id);
            let others = peers.iter().filter(|(_, acknowledged, _)| *acknowledged >= position);
            let all: Vec<MemberId> = others.map(|(member, ..)| member.id).chain(own).collect();
            match enough(&all) {
                true => Some(true),
                false if !self.status().is_primary => Some(false),
                false => None,
            }
        })
    }

    pub fn stop(&self) {
        self.heartbeats.stopped.store(true, Ordering::Relaxed);
        self.stopped.store(true, Ordering::Relaxed);
        self.send(Event::Stop);
        let threads = std::mem::take(&mut *self.threads.lock());
        // They end with the thread that gives them work.
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }

    fn send(&self, event: Event) {
        let _stopped = self.events.lock().send(event);
    }
}
