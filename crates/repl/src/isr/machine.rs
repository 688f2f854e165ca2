//! [`Machine`]: one member's part in the protocol.
//!
//! The caller carries out the actions of a step in their order. It may crash between two of them; then nothing of the later
//! ones has happened. Each `Read` and `Replace` is followed by exactly one result with its ticket.

use std::collections::BTreeMap;

use arbor_base::Position;

use super::follower::{Candidate, Follower};
use super::primary::Primary;
use super::relay::Relay;
use super::{Epochs, Fetch, Message, Millis, Mutant, Place, Records, Timing};
use crate::agreement::{Agreement, Epoch, Identity, MemberId, StoreId, Version, Voter};
use crate::coordinator::Replaced;

/// The state on a member's disk when it starts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Found {
    /// The highest epoch that was saved.
    pub saved: Epoch,
    /// All of it is durable.
    pub log: Epochs,
    /// The first record that the log still has.
    pub first: Position,
    /// The position of the engines: a lower bound of the commit point (R7).
    pub applied: Position,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    Tick,
    Received {
        from: MemberId,
        message: Message,
    },
    Read {
        ticket: u64,
        outcome: ReadOutcome,
    },
    /// The result of a `Replace`. An error of the coordinator counts as `Unknown`.
    Replaced {
        ticket: u64,
        outcome: Replaced,
    },
    /// The agreement may have changed.
    Hint,
    /// The own log is durable up to here.
    Synced(Position),
    /// The primary's own records are in its log up to here.
    Appended(Position),
    /// An append of this follower failed; the log ends here.
    LogEnds(Position),
    /// The log's first record.
    Trimmed(Position),
    /// The first record that refers to a load which is not here.
    LoadMissing(Option<Position>),
    /// Loads that this member has.
    Loads(Vec<u64>),
    /// Loads of this primary that the others should get.
    OpenLoads(Vec<u64>),
    /// False while this member cannot apply what is committed: it does not take over.
    Fit(bool),
    /// True while the disk of this member is full: others lead rather than this one.
    Full(bool),
    /// Fetch records from this member instead of the primary; `None`: from the primary again.
    Source(Option<MemberId>),
    /// The connection to a member broke: the primary does not wait for its timeout, a follower takes over.
    Lost(MemberId),
    Reconfigure(Reconfiguration),
    /// The primary hands over to this member, or to the one that has most.
    StepDown(Option<MemberId>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReadOutcome {
    Found(Version, Agreement),
    /// The set was not initiated.
    Empty,
    Failed,
}

/// A change of the voters or of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reconfiguration {
    /// Ascending.
    pub voters: Vec<Voter>,
    pub min_in_sync: usize,
    pub config: Vec<u8>,
    /// Several voters may change at once. Safe, as the members in sync only become fewer; but a set that loses many voters by mistake stops.
    pub forced: bool,
}

/// Reason why a reconfiguration or a hand-over was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    NotPrimary,
    /// Another change of the agreement is not finished.
    Busy,
    /// More than one voter at a time.
    TooManyChanges,
    /// The primary cannot remove itself.
    RemovesPrimary,
    /// The set would have fewer members in sync than its minimum.
    TooFewInSync,
    /// No member in sync may lead, or none caught up in time.
    NoSuccessor,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Return when it is durable (R5).
    SaveEpoch(Epoch),
    /// Cut the log behind a position, durably (R6).
    Cut(Position),
    /// Append another member's records, and sync soon.
    Append {
        epoch: Epoch,
        after: Position,
        payloads: Vec<Vec<u8>>,
    },
    /// Begin an epoch in the log, append its empty record, and sync soon (R8).
    Lead(Epoch),
    /// Everything up to here may be applied (R7).
    Commit(Position),
    /// Clients may write, once everything committed is applied (R8).
    Serve(Epoch),
    /// Clients no longer write here.
    Retire,
    Send {
        to: MemberId,
        message: Message,
    },
    /// Send records of the log.
    Ship(Shipment),
    Read {
        ticket: u64,
    },
    Replace {
        ticket: u64,
        expected: Option<Version>,
        next: Agreement,
    },
    /// The primary no longer has the records that are needed: copy its data.
    Resync {
        from: MemberId,
    },
    /// The outcome of `Reconfigure` or `StepDown`.
    Changed(Result<(), Refusal>),
}

/// A reply to a fetch, without its records.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shipment {
    pub to: MemberId,
    /// The records after this position, up to `last`; fewer will do.
    pub after: Position,
    pub last: Position,
    /// The reply, with no records in it.
    pub reply: Records,
    /// It goes to a member that does not fetch from its primary.
    pub relayed: bool,
}

impl Shipment {
    pub fn with(self, payloads: Vec<Vec<u8>>) -> Message {
        assert!(payloads.len() as u64 <= self.last.0 - self.after.0, "R6: no more records than of one epoch");
        let records = Records { payloads, ..self.reply };
        if self.relayed { Message::Relayed(records) } else { Message::Records(records) }
    }
}

/// A member's state, as `replSetGetStatus` and tests show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub is_primary: bool,
    /// The epoch in which clients may write here.
    pub serves: Option<Epoch>,
    pub epoch: Epoch,
    pub primary: Option<MemberId>,
    /// The member from which a follower gets its records, where that is not the primary.
    pub source: Option<MemberId>,
    pub last: Place,
    pub durable: Position,
    pub commit: Position,
    pub known: Option<(Version, Agreement)>,
}

impl Status {
    /// Returns true if the log has no record: what can be read here is no state of the set.
    pub fn has_nothing(&self) -> bool {
        self.last.position == Position::ZERO
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    pub(super) own: Identity,
    pub(super) timing: Timing,
    mutant: Option<Mutant>,
    pub(super) now: Millis,
    /// The highest epoch seen, as it is on the disk.
    pub(super) saved: Epoch,
    pub(super) log: Epochs,
    pub(super) first: Position,
    pub(super) durable: Position,
    pub(super) commit: Position,
    pub(super) load_missing: Option<Position>,
    pub(super) loads: Vec<u64>,
    pub(super) fit: bool,
    pub(super) full: bool,
    /// The newest agreement that was read or written here.
    pub(super) known: Option<(Version, Agreement)>,
    pub(super) role: Role,
    /// A read of the agreement whose result is awaited.
    reading: Option<u64>,
    /// The agreement should be read, not before this time.
    pub(super) read_from: Option<Millis>,
    tickets: u64,
    pub(super) serials: u64,
    pub(super) promised: Promise,
    /// Records come from there, while this member follows another one.
    pub(super) source: Option<MemberId>,
    /// Requests of members whose source this one is.
    pub(super) relays: BTreeMap<MemberId, Relay>,
}

/// This member does not take over before a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Promise {
    pub until: Millis,
    /// `None`: to several, or unknown, from before a restart.
    pub to: Option<MemberId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    Follower(Follower),
    /// Requested the agreement that makes it primary.
    Candidate(Candidate),
    Primary(Box<Primary>),
}

impl Machine {
    pub fn open(own: Identity, timing: Timing, found: Found, now: Millis) -> Machine {
        assert!(found.applied <= found.log.end(), "R7: engines are not ahead of the log");
        Machine {
            own,
            timing,
            mutant: None,
            now,
            saved: found.saved,
            durable: found.log.end(),
            log: found.log,
            first: found.first,
            commit: found.applied,
            load_missing: None,
            loads: Vec::new(),
            fit: true,
            full: false,
            known: None,
            role: Role::Follower(Follower::new(now)),
            reading: None,
            read_from: Some(now),
            tickets: 0,
            serials: 0,
            promised: Promise { until: now + timing.promise_ms, to: None },
            source: None,
            relays: BTreeMap::new(),
        }
    }

    /// Drops the promise that every start makes, in case that one before it made one: this member was in no set before.
    pub fn without_promises(mut self) -> Machine {
        self.promised.until = self.now;
        self
    }

    /// Builds a defect in, which needs a build with debug assertions.
    pub fn with_mutant(mut self, mutant: Option<Mutant>) -> Machine {
        assert!(cfg!(debug_assertions) || mutant.is_none(), "{mutant:?} has no effect in this build");
        self.mutant = mutant;
        if mutant == Some(Mutant::PromiseForgotten) {
            self.promised.until = self.now;
        }
        self
    }

    pub(super) fn is(&self, mutant: Mutant) -> bool {
        cfg!(debug_assertions) && self.mutant == Some(mutant)
    }

    /// Asserts a rule. A machine with a defect does not check itself, so that the tests show what they find alone.
    #[track_caller]
    pub(super) fn rule(&self, holds: bool, text: &str) {
        assert!(holds || self.mutant.is_some(), "{text}: {self:?}");
    }

    pub fn is_primary(&self) -> bool {
        matches!(self.role, Role::Primary(_))
    }

    /// The last record of the own log.
    pub fn log_end(&self) -> Position {
        self.log.end()
    }

    /// Up to here records may be applied.
    pub fn commit(&self) -> Position {
        self.commit
    }

    pub fn own(&self) -> Identity {
        self.own
    }

    pub fn status(&self) -> Status {
        let primary = match &self.role {
            Role::Follower(follower) => follower.primary,
            Role::Candidate(_) => None,
            Role::Primary(_) => Some(self.own.id),
        };
        Status {
            is_primary: matches!(self.role, Role::Primary(_)),
            serves: self.serves(),
            epoch: self.saved,
            primary,
            source: self.source(),
            last: self.log.last(),
            durable: self.durable,
            commit: self.commit,
            known: self.known.clone(),
        }
    }

    /// Up to here the own log is known to be durable.
    pub fn durable(&self) -> Position {
        self.durable
    }

    /// Returns true if role, epoch or agreement are not those of an earlier status; positions do not count.
    pub fn differs(&self, earlier: &Status) -> bool {
        let primary = match &self.role {
            Role::Follower(follower) => follower.primary,
            Role::Candidate(_) => None,
            Role::Primary(_) => Some(self.own.id),
        };
        let is_empty = self.log.last().position == Position::ZERO;
        let now = (self.is_primary(), self.serves(), self.saved, primary, self.version(), self.source(), is_empty);
        let known = earlier.known.as_ref().map(|(version, _)| *version);
        let Status { is_primary, serves, epoch, primary, source, .. } = *earlier;
        now != (is_primary, serves, epoch, primary, known, source, earlier.has_nothing())
    }

    /// Carries out one input. `now` never goes back.
    pub fn step(&mut self, now: Millis, input: Input, out: &mut Vec<Action>) {
        self.now = self.now.max(now);
        match input {
            Input::Tick => self.tick(out),
            Input::Received { from, message } => self.receive(from, message, out),
            Input::Read { ticket, outcome } => self.has_read(ticket, outcome, out),
            Input::Replaced { ticket, outcome } => self.has_replaced(ticket, outcome, out),
            Input::Hint => self.want_read(),
            Input::Synced(position) => {
                self.rule(position <= self.log.end(), "what is durable is in the log");
                self.durable = self.durable.max(position);
            }
            Input::Appended(position) => self.has_appended(position),
            Input::LogEnds(position) => self.log_ends(position),
            Input::Trimmed(first) => self.first = first,
            Input::LoadMissing(position) => self.load_missing = position,
            Input::Loads(loads) => self.loads = loads,
            Input::OpenLoads(loads) => self.open_loads(loads),
            Input::Fit(fit) => self.fit = fit,
            Input::Full(full) => self.full = full,
            Input::Lost(member) => self.lost(member, out),
            Input::Source(source) => self.set_source(source),
            Input::Reconfigure(change) => self.reconfigure(change, out),
            Input::StepDown(to) => self.step_down(to, out),
        }
        self.settle(out);
    }

    fn tick(&mut self, out: &mut Vec<Action>) {
        match &self.role {
            Role::Follower(_) => self.watch_primary(),
            Role::Candidate(_) => {}
            Role::Primary(_) => self.change_set(out),
        }
    }

    /// Does what may have become possible.
    fn settle(&mut self, out: &mut Vec<Action>) {
        match &self.role {
            Role::Follower(_) => {
                self.apply_committed(out);
                self.fetch(out);
                self.ask_source(out);
            }
            Role::Candidate(_) => {}
            Role::Primary(_) => {
                self.advance(out);
                self.ship(out);
            }
        }
        self.relay(out);
        if self.reading.is_none() && self.read_from.is_some_and(|from| from <= self.now) {
            let ticket = self.ticket();
            self.read_from = None;
            self.reading = Some(ticket);
            out.push(Action::Read { ticket });
        }
    }

    pub(super) fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    pub(super) fn want_read(&mut self) {
        self.read_from = Some(self.read_from.map_or(self.now, |from| from.min(self.now)));
    }

    pub(super) fn version(&self) -> Option<Version> {
        self.known.as_ref().map(|(version, _)| *version)
    }

    pub(super) fn agreement(&self) -> Option<&Agreement> {
        self.known.as_ref().map(|(_, agreement)| agreement)
    }

    /// Returns true if the recorded in-sync set has this member with its data (R2, R9).
    pub(super) fn is_recorded(&self, agreement: &Agreement) -> bool {
        match self.is(Mutant::StoreIgnored) {
            true => agreement.in_sync.iter().any(|member| member.id == self.own.id),
            false => agreement.is_in_sync(self.own),
        }
    }

    // ---- messages ----

    fn receive(&mut self, from: MemberId, message: Message, out: &mut Vec<Action>) {
        if from == self.own.id {
            return;
        }
        match message {
            Message::Fetch(fetch) => self.receive_fetch(from, fetch, out),
            Message::Relay { epoch, serial, after } => self.receive_relay(from, epoch, serial, after),
            Message::Relayed(records) => self.receive_relayed(from, records, out),
            Message::NotPrimary { epoch } => self.receive_not_primary(from, epoch),
            Message::Lead { epoch } => {
                if self.accepts(from, epoch, out)
                    && let Some(follower) = self.follower()
                {
                    // A fetch that came before it led had no reply with records: it is not waited for.
                    follower.fetching = None;
                }
            }
            Message::Records(records) => {
                if self.accepts(from, records.epoch, out) {
                    self.receive_records(records, out);
                }
            }
            Message::Diverged { epoch, serial, after, keep } => {
                if self.accepts(from, epoch, out) {
                    self.receive_diverged(serial, after, keep, out);
                }
            }
            Message::TooOld { epoch, serial } => {
                if self.accepts(from, epoch, out) {
                    self.receive_too_old(from, serial, out);
                }
            }
        }
    }

    fn receive_fetch(&mut self, from: MemberId, fetch: Fetch, out: &mut Vec<Action>) {
        match &self.role {
            Role::Primary(primary) if fetch.epoch > primary.epoch => self.follow_unknown(out),
            Role::Primary(_) => return self.serve_fetch(from, fetch, out),
            _ => {}
        }
        if fetch.epoch > self.saved {
            self.want_read();
        }
        out.push(Action::Send { to: from, message: Message::NotPrimary { epoch: self.saved } });
    }

    /// Returns true if a message of the primary of an epoch is to be obeyed: fences lower epochs, joins higher ones (R5).
    fn accepts(&mut self, from: MemberId, epoch: Epoch, out: &mut Vec<Action>) -> bool {
        if epoch < self.saved && !self.is(Mutant::NoFence) {
            return false;
        }
        if let Role::Candidate(candidate) = &self.role
            && epoch < candidate.next.epoch
        {
            return false;
        }
        if let Role::Primary(primary) = &self.role
            && epoch <= primary.epoch
        {
            self.rule(epoch < primary.epoch, "R1: one primary per epoch");
            return false;
        }
        if epoch > self.saved {
            self.save(epoch, out);
            self.want_read();
        }
        match &mut self.role {
            Role::Follower(follower) if follower.primary == Some(from) && follower.epoch == epoch => {}
            _ => self.follow(Some(from), epoch, out),
        }
        let now = self.now;
        if let Role::Follower(follower) = &mut self.role {
            follower.contact = now;
        }
        true
    }

    fn save(&mut self, epoch: Epoch, out: &mut Vec<Action>) {
        self.rule(epoch > self.saved, "R5: saved epochs ascend");
        self.saved = epoch;
        out.push(Action::SaveEpoch(epoch));
    }

    /// Becomes a follower of the primary of an epoch.
    pub(super) fn follow(&mut self, primary: Option<MemberId>, epoch: Epoch, out: &mut Vec<Action>) {
        if let Role::Primary(old) = &self.role {
            out.push(Action::Retire);
            if old.on_request {
                let requested = old.pending.as_ref().map(|request| &request.next);
                let done = requested.is_some() && requested == self.agreement();
                out.push(Action::Changed(if done { Ok(()) } else { Err(Refusal::NotPrimary) }));
            }
        }
        self.role = Role::Follower(Follower { primary, epoch, ..Follower::new(self.now) });
    }

    /// Stops leading, since there is a higher epoch; the agreement names its primary.
    pub(super) fn follow_unknown(&mut self, out: &mut Vec<Action>) {
        self.follow(None, self.saved, out);
        self.want_read();
    }

    // ---- the agreement ----

    fn has_read(&mut self, ticket: u64, outcome: ReadOutcome, out: &mut Vec<Action>) {
        if self.reading != Some(ticket) {
            return;
        }
        self.reading = None;
        match outcome {
            ReadOutcome::Failed => self.read_from = Some(self.now + self.timing.retry_ms),
            ReadOutcome::Empty => {}
            ReadOutcome::Found(version, agreement) => {
                if Some(version) > self.version() {
                    self.adopt(version, agreement, out);
                }
                self.resolve(version, out);
                if matches!(self.role, Role::Follower(_)) {
                    self.campaign(out);
                }
            }
        }
    }

    fn has_replaced(&mut self, ticket: u64, outcome: Replaced, out: &mut Vec<Action>) {
        let asked = match &mut self.role {
            Role::Candidate(candidate) => &mut candidate.request,
            Role::Primary(primary) => match &mut primary.pending {
                Some(request) => request,
                None => return,
            },
            Role::Follower(_) => return,
        };
        if asked.ticket != Some(ticket) {
            return;
        }
        asked.ticket = None;
        let (expected, next) = (asked.expected, asked.next.clone());
        match outcome {
            Replaced::Done(version) => {
                self.rule(Some(version) > expected, "R1: versions ascend");
                self.adopt(version, next, out);
            }
            Replaced::Stale if self.is(Mutant::StaleIsDone) => {
                let version = Version(expected.map_or(1, |version| version.0 + 1));
                self.adopt(version, next, out);
            }
            Replaced::Unknown if self.is(Mutant::UnknownIsStale) => self.give_up(out),
            // R4: an earlier try of the same request may be what made it stale
            Replaced::Stale | Replaced::Unknown => self.want_read(),
        }
    }

    /// Decides on a request with an unknown outcome, after the agreement was read at a version (R4).
    fn resolve(&mut self, version: Version, out: &mut Vec<Action>) {
        let ticket = self.tickets + 1;
        let unchanged_is_stale = self.is(Mutant::UnchangedIsStale);
        let request = match &mut self.role {
            Role::Candidate(candidate) => &mut candidate.request,
            Role::Primary(primary) => match &mut primary.pending {
                Some(request) => request,
                None => return,
            },
            Role::Follower(_) => return,
        };
        if request.ticket.is_some() {
            return;
        }
        if Some(version) < request.expected {
            // Read before the request was made
            return self.want_read();
        }
        assert_eq!(request.expected, Some(version), "R4: a later version has ended the request");
        if unchanged_is_stale {
            return self.give_up(out);
        }
        request.ticket = Some(ticket);
        let (expected, next) = (request.expected, request.next.clone());
        self.tickets = ticket;
        out.push(Action::Replace { ticket, expected, next });
    }

    /// A defect: a request is forgotten whose outcome is not known.
    fn give_up(&mut self, out: &mut Vec<Action>) {
        match &mut self.role {
            Role::Primary(primary) => primary.pending = None,
            _ => self.follow_unknown(out),
        }
    }

    /// Acts on an agreement that is newer than the known one. A request of this member's own, which expected an older
    /// version, has been executed or never will be.
    fn adopt(&mut self, version: Version, agreement: Agreement, out: &mut Vec<Action>) {
        self.rule(Some(version) > self.version(), "R1: versions ascend");
        let before = self.known.replace((version, agreement));
        let (_, agreement) = self.known.as_ref().expect("it was just stored");
        let (epoch, named) = (agreement.epoch, agreement.primary);
        self.rule(before.is_none_or(|(_, before)| before.epoch <= epoch), "R1: epochs ascend");
        if let Role::Primary(primary) = &self.role
            && (primary.epoch, Some(self.own.id)) == (epoch, named)
        {
            return self.set_changed(out);
        }
        let leads = epoch > self.saved || (self.is(Mutant::LeadsTwice) && epoch == self.saved);
        if named == Some(self.own.id) && leads && (self.is_recorded(agreement) || self.is(Mutant::Outsider)) {
            return self.lead(epoch, out);
        }
        if epoch < self.saved {
            // Read before the epoch began whose primary was heard of
            if !matches!(self.role, Role::Follower(_)) {
                self.follow_unknown(out);
            }
            return;
        }
        let primary = named.filter(|primary| *primary != self.own.id);
        if epoch > self.saved && primary.is_some() {
            self.save(epoch, out);
        }
        match &self.role {
            Role::Follower(follower) if follower.epoch == epoch && follower.primary == primary => {}
            _ => self.follow(primary, self.saved, out),
        }
    }
}

/// A compare-and-set whose outcome is not known yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    pub expected: Option<Version>,
    pub next: Agreement,
    /// `None`: its outcome is unknown, and it is repeated if the agreement still has the expected version.
    pub ticket: Option<u64>,
}

impl Machine {
    /// Requests the replacement of the known agreement.
    pub(super) fn request(&mut self, next: Agreement, out: &mut Vec<Action>) -> Request {
        let (ticket, expected) = (self.ticket(), self.version());
        out.push(Action::Replace { ticket, expected, next: next.clone() });
        Request { expected, next, ticket: Some(ticket) }
    }

    pub(super) fn store_of(&self, store: StoreId) -> StoreId {
        if self.is(Mutant::StoreIgnored) { StoreId([0; 16]) } else { store }
    }
}
