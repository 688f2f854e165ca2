//! A member that leads: shipping its log, the commit point, and changes of the in-sync set.

use std::collections::BTreeMap;

use arbor_base::Position;

use super::machine::{Request, Role};
use super::{Action, Fetch, Machine, Message, Millis, Mutant, Place, Reconfiguration, Records, Refusal, Shipment};
use crate::agreement::{Agreement, Epoch, Identity, MemberId};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Primary {
    pub epoch: Epoch,
    /// The epoch's empty record.
    first: Position,
    serving: bool,
    /// Nothing is committed before: this member's own promise to another primary may last.
    commit_from: Millis,
    peers: BTreeMap<Identity, Peer>,
    /// A change of the agreement whose outcome is not known.
    pub pending: Option<Request>,
    /// `pending` came from `Reconfigure` or `StepDown`.
    pub on_request: bool,
    retiring: Option<Retiring>,
    open_loads: Vec<u64>,
    /// Time at which it last repeated to silent voters that it leads.
    announced: Millis,
}

/// The primary hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Retiring {
    to: Option<MemberId>,
    until: Millis,
}

/// A member as the primary sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Peer {
    /// It holds this primary's log up to here, on its disk.
    acknowledged: Position,
    /// The end of this log when the peer last had all of it; it has caught up once it has that.
    goal: Position,
    goal_at: Millis,
    fetched: bool,
    /// Time of this member's clock after which it promised not to take over.
    promise: Millis,
    loads: Vec<u64>,
    waiting: Option<Waiting>,
    /// The commit point that was last sent.
    sent_commit: Position,
    /// It gets its records from another member.
    chained: bool,
    /// Its disk is full.
    full: bool,
}

/// A fetch without a reply yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    after: Place,
    serial: u64,
    since: Millis,
}

impl Primary {
    pub(super) fn new(epoch: Epoch, end: Position, commit_from: Millis) -> Primary {
        Primary {
            epoch,
            first: end.next(),
            serving: false,
            commit_from,
            peers: BTreeMap::new(),
            pending: None,
            on_request: false,
            retiring: None,
            open_loads: Vec::new(),
            announced: 0,
        }
    }

    /// The members that are waited for: the known set, and the requested one (R4).
    fn waited_for(&self, known: &Agreement) -> Vec<Identity> {
        let requested = self.pending.iter().flat_map(|request| &request.next.in_sync);
        let mut all: Vec<Identity> = known.in_sync.iter().chain(requested).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn acknowledged(&self, member: Identity) -> Position {
        self.peers.get(&member).map_or(Position::ZERO, |peer| peer.acknowledged)
    }

    fn is_full(&self, member: Identity) -> bool {
        self.peers.get(&member).is_some_and(|peer| peer.full)
    }
}

impl Peer {
    fn new(goal: Position, now: Millis) -> Peer {
        Peer {
            acknowledged: Position::ZERO,
            goal,
            goal_at: now,
            fetched: false,
            promise: 0,
            loads: Vec::new(),
            waiting: None,
            sent_commit: Position::ZERO,
            chained: false,
            full: false,
        }
    }
}

impl Machine {
    fn primary(&mut self) -> Option<&mut Primary> {
        match &mut self.role {
            Role::Primary(primary) => Some(primary),
            _ => None,
        }
    }

    /// The epoch in which clients may write here.
    pub fn serves(&self) -> Option<Epoch> {
        match &self.role {
            Role::Primary(primary) if primary.serving => Some(primary.epoch),
            _ => None,
        }
    }

    /// Returns true if no other member can have become primary: plain reads may show the applied state. Requires a check
    /// after the state was read.
    pub fn may_read(&self, now: Millis) -> bool {
        let Role::Primary(primary) = &self.role else { return false };
        let Some(agreement) = self.agreement().filter(|_| primary.serving) else { return false };
        let now = now.max(self.now);
        let others = primary.waited_for(agreement).into_iter().filter(|member| *member != self.own);
        let trusted = |member| primary.peers.get(&member).is_some_and(|peer| peer.promise + self.timing.trust_ms > now);
        others.into_iter().all(trusted)
    }

    /// Returns the time up to which [`Machine::may_read`] is true, if nothing else happens; `None`: it is not now.
    pub fn readable_until(&self) -> Option<Millis> {
        let Role::Primary(primary) = &self.role else { return None };
        let agreement = self.agreement().filter(|_| primary.serving)?;
        let others = primary.waited_for(agreement).into_iter().filter(|member| *member != self.own);
        let trusted = |member| primary.peers.get(&member).map_or(0, |peer| peer.promise + self.timing.trust_ms);
        Some(others.map(trusted).min().unwrap_or(Millis::MAX))
    }

    /// Returns what this primary knows of the others: a member, up to where it holds this log on its disk, and when it last had all of it.
    pub fn peers(&self) -> Vec<(Identity, Position, Millis)> {
        let Role::Primary(primary) = &self.role else { return Vec::new() };
        primary.peers.iter().map(|(member, peer)| (*member, peer.acknowledged, peer.goal_at)).collect()
    }

    /// Sets how long a hand-over waits for the successor, from the next one on.
    pub fn set_hand_over(&mut self, time: Millis) {
        self.timing.hand_over_ms = time;
    }

    /// Returns true if every member that is waited for has a load (R10).
    pub fn is_load_everywhere(&self, load: u64) -> bool {
        let Role::Primary(primary) = &self.role else { return false };
        let Some(agreement) = self.agreement() else { return false };
        let others = primary.waited_for(agreement).into_iter().filter(|member| *member != self.own);
        let has = |member| primary.peers.get(&member).is_some_and(|peer| peer.loads.contains(&load));
        others.into_iter().all(has)
    }

    /// Sets up what the primary knows of the others, when it begins.
    pub(super) fn began(&mut self, agreement: &Agreement) {
        let (now, own, end) = (self.now, self.own, self.log.end());
        let others = agreement.in_sync.iter().filter(|member| **member != own);
        let others: Vec<Identity> = others.map(|member| self.peer_of(*member)).collect();
        if let Some(primary) = self.primary() {
            primary.peers.extend(others.into_iter().map(|member| (member, Peer::new(end, now))));
        }
    }

    /// A defect, see [`Mutant::NoEmptyRecord`].
    pub(super) fn begin_without_record(&mut self, epoch: Epoch, out: &mut Vec<Action>) {
        let Some(primary) = self.primary() else { return };
        primary.first = Position::ZERO;
        primary.serving = true;
        out.push(Action::Serve(epoch));
    }

    pub(super) fn has_appended(&mut self, position: Position) {
        let Some(epoch) = self.serves() else { panic!("R8: only a primary that serves appends: {self:?}") };
        self.rule(position > self.log.end(), "R6: the log grows");
        self.log.append(epoch, position.0 - self.log.end().0);
    }

    pub(super) fn open_loads(&mut self, loads: Vec<u64>) {
        if let Some(primary) = self.primary() {
            primary.open_loads = loads;
        }
    }

    // ---- shipping ----

    pub(super) fn serve_fetch(&mut self, from: MemberId, fetch: Fetch, out: &mut Vec<Action>) {
        let (now, end, first) = (self.now, self.log.end(), self.first);
        let store = self.store_of(fetch.store);
        let has = self.log.has(fetch.after);
        let keep = self.log.last_up_to(fetch.after.epoch);
        let unmatched = self.is(Mutant::UnmatchedCounts);
        let Some(primary) = self.primary() else { return };
        let (epoch, serial, after) = (primary.epoch, fetch.serial, fetch.after);
        let mut reply = |message| out.push(Action::Send { to: from, message });
        if fetch.epoch < epoch {
            return reply(Message::Lead { epoch });
        }
        let peer = primary.peers.entry(Identity { id: from, store }).or_insert_with(|| Peer::new(end, now));
        if unmatched {
            peer.acknowledged = peer.acknowledged.max(fetch.durable.min(end));
        }
        if after.position.next() < first {
            return reply(Message::TooOld { epoch, serial });
        }
        if !has {
            return reply(Message::Diverged { epoch, serial, after, keep });
        }
        peer.fetched = true;
        (peer.chained, peer.full) = (fetch.chained, fetch.full);
        peer.acknowledged = peer.acknowledged.max(fetch.durable.min(after.position));
        peer.promise = peer.promise.max(fetch.promise);
        peer.loads = fetch.loads;
        peer.waiting = Some(Waiting { after, serial, since: now });
        if peer.acknowledged >= peer.goal {
            (peer.goal, peer.goal_at) = (end, now);
        }
    }

    /// Replies to the fetches for which there is news, and to those that have waited long enough.
    pub(super) fn ship(&mut self, out: &mut Vec<Action>) {
        let in_sync = self.agreement().map(|agreement| agreement.in_sync.clone()).unwrap_or_default();
        let Role::Primary(primary) = &mut self.role else { return };
        for (member, peer) in &mut primary.peers {
            let Some(Waiting { after, serial, since }) = peer.waiting else { continue };
            let news = after.position < self.log.end() || peer.sent_commit < self.commit || peer.chained;
            if !news && self.now < since + self.timing.beacon_ms {
                continue;
            }
            peer.waiting = None;
            peer.sent_commit = self.commit;
            let first = after.position.next().min(self.log.end());
            // Writes wait for a member in sync: it gets its records here before they have waited long.
            let waits = in_sync.contains(member) && self.now >= peer.goal_at + self.timing.in_sync_ms / 2;
            let records_max = if peer.chained && !waits { 0 } else { self.timing.records_max };
            let last = self.log.last_of_run(first).0.min(after.position.0 + records_max);
            let reply = Records {
                epoch: primary.epoch,
                serial,
                after,
                of: self.log.at(first),
                payloads: Vec::new(),
                commit: self.commit,
                sent: self.now.max(1),
                loads: primary.open_loads.clone(),
            };
            let last = Position(last.max(after.position.0));
            out.push(Action::Ship(Shipment { to: member.id, after: after.position, last, reply, relayed: false }));
        }
    }

    // ---- the commit point ----

    pub(super) fn advance(&mut self, out: &mut Vec<Action>) {
        let Role::Primary(primary) = &self.role else { return };
        let Some(agreement) = self.agreement() else { return };
        if self.now < primary.commit_from {
            return;
        }
        if agreement.in_sync.len() < agreement.min_in_sync && !self.is(Mutant::BelowMinimum) {
            return;
        }
        let own = if self.is(Mutant::OwnBeforeSync) { self.log.end() } else { self.durable };
        let held = |member: Identity| if member == self.own { own } else { primary.acknowledged(self.peer_of(member)) };
        let mut held: Vec<Position> = self.counted(primary, agreement).into_iter().map(held).collect();
        held.sort_unstable();
        let counted = if self.is(Mutant::Majority) { held.len() / 2 } else { 0 };
        let Some(mut commit) = held.get(counted).copied() else { return };
        if self.is(Mutant::AppliedEarly) {
            commit = self.log.end();
        }
        if commit < primary.first || commit <= self.commit {
            return;
        }
        self.rule(commit <= self.durable, "R3: the primary holds it on its disk");
        self.rule(self.log.at(commit) == primary.epoch, "R8: a record of the own epoch is committed first");
        let all = agreement.in_sync.iter().all(|member| *member == self.own || primary.acknowledged(*member) >= commit);
        self.rule(all, "R3: every member of the recorded set holds it");
        let epoch = primary.epoch;
        let serves = !primary.serving && primary.retiring.is_none();
        self.commit = commit;
        out.push(Action::Commit(commit));
        if serves {
            self.serve(epoch, out);
        }
    }

    fn peer_of(&self, member: Identity) -> Identity {
        Identity { store: self.store_of(member.store), ..member }
    }

    fn serve(&mut self, epoch: Epoch, out: &mut Vec<Action>) {
        let commit = self.commit;
        let Some(primary) = self.primary() else { return };
        let ready = commit >= primary.first;
        primary.serving = true;
        self.rule(ready, "R8: a primary serves once its empty record is committed");
        out.push(Action::Serve(epoch));
    }

    fn counted(&self, primary: &Primary, agreement: &Agreement) -> Vec<Identity> {
        let requested = primary.pending.as_ref().map(|request| &request.next.in_sync);
        match requested {
            Some(requested) if self.is(Mutant::ShrunkEarly) => {
                let both = agreement.in_sync.iter().copied().filter(|member| requested.contains(member));
                both.collect()
            }
            _ if self.is(Mutant::NewcomerIgnored) => agreement.in_sync.clone(),
            _ => primary.waited_for(agreement),
        }
    }

    // ---- changes of the agreement ----

    /// Removes members that have not caught up for too long, or adds one that has; at most one change at a time.
    pub(super) fn change_set(&mut self, out: &mut Vec<Action>) {
        self.announce(out);
        self.hand_over(out);
        let Role::Primary(primary) = &self.role else { return };
        let Some(agreement) = self.agreement().filter(|_| primary.pending.is_none()) else { return };
        if let Some(in_sync) =
            self.without_laggards(primary, agreement).or_else(|| self.with_newcomer(primary, agreement))
        {
            let next = Agreement { in_sync, by: Some(self.own.id), ..agreement.clone() };
            self.request_change(next, false, out);
        }
    }

    /// Repeats that it leads to voters that are silent, and reads the agreement: another one may lead, of which it has not
    /// heard. Without that two members wait for each other where neither can leave the set.
    fn announce(&mut self, out: &mut Vec<Action>) {
        let (now, own, timing) = (self.now, self.own.id, self.timing);
        let Some(voters) = self.agreement().map(|agreement| agreement.voters.clone()) else { return };
        let Some(primary) = self.primary().filter(|primary| now >= primary.announced + timing.retry_ms) else { return };
        let heard = |id: MemberId| {
            let recent = |peer: &Peer| peer.fetched && now < peer.goal_at + timing.in_sync_ms;
            primary.peers.iter().any(|(identity, peer)| identity.id == id && recent(peer))
        };
        let silent: Vec<MemberId> =
            voters.iter().map(|voter| voter.id).filter(|id| *id != own && !heard(*id)).collect();
        if silent.is_empty() {
            return;
        }
        primary.announced = now;
        let epoch = primary.epoch;
        out.extend(silent.into_iter().map(|to| Action::Send { to, message: Message::Lead { epoch } }));
        self.want_read();
    }

    fn without_laggards(&self, primary: &Primary, agreement: &Agreement) -> Option<Vec<Identity>> {
        let since = |member: &Identity| primary.peers.get(&self.peer_of(*member)).map_or(0, |peer| peer.goal_at);
        let lags = |member: &&Identity| **member != self.own && self.now >= since(member) + self.timing.in_sync_ms;
        let mut laggards: Vec<Identity> = agreement.in_sync.iter().filter(lags).copied().collect();
        laggards.sort_by_key(since);
        laggards.truncate(agreement.in_sync.len().saturating_sub(agreement.min_in_sync));
        let stays = |member: &&Identity| !laggards.contains(member);
        (!laggards.is_empty()).then(|| agreement.in_sync.iter().filter(stays).copied().collect())
    }

    fn with_newcomer(&self, primary: &Primary, agreement: &Agreement) -> Option<Vec<Identity>> {
        let fits = |member: &Identity, peer: &Peer| {
            let caught_up = peer.acknowledged >= self.commit.max(primary.first);
            let fresh = peer.fetched && self.now < peer.goal_at + self.timing.in_sync_ms;
            let may = agreement.voter(member.id).is_some() && !agreement.is_in_sync(*member) && *member != self.own;
            let known = self.is(Mutant::StoreIgnored) && agreement.in_sync.iter().any(|other| other.id == member.id);
            may && !known && fresh && (caught_up || self.is(Mutant::GrownEarly))
        };
        let (newcomer, peer) = primary.peers.iter().find(|(member, peer)| fits(member, peer))?;
        self.rule(peer.acknowledged >= self.commit, "R4: a newcomer holds everything committed");
        self.rule(peer.acknowledged >= primary.first, "R4: a newcomer holds a record of the present epoch");
        Some(agreement.in_sync_with(*newcomer))
    }

    fn request_change(&mut self, next: Agreement, on_request: bool, out: &mut Vec<Action>) {
        let request = self.request(next, out);
        let Some(primary) = self.primary() else { return };
        (primary.pending, primary.on_request) = (Some(request), on_request);
    }

    /// The agreement has another version and still names this primary: its request was executed, or never will be.
    pub(super) fn set_changed(&mut self, out: &mut Vec<Action>) {
        let (version, agreement) = self.known.clone().expect("the agreement was read or written");
        let Some(primary) = self.primary() else { return };
        let Some(request) = primary.pending.take() else { return };
        let on_request = std::mem::take(&mut primary.on_request);
        let done = request.next == agreement;
        self.rule(Some(version) > request.expected, "R4: only a later version ends a request");
        self.rule(done, "R1: only this primary changes the agreement in its epoch");
        if on_request {
            out.push(Action::Changed(if done { Ok(()) } else { Err(Refusal::Busy) }));
        }
    }

    pub(super) fn lost(&mut self, member: MemberId, out: &mut Vec<Action>) {
        let in_sync_ms = self.timing.in_sync_ms;
        self.source = self.source.filter(|source| *source != member);
        match &mut self.role {
            Role::Primary(primary) => {
                for (_, peer) in primary.peers.iter_mut().filter(|(identity, _)| identity.id == member) {
                    peer.goal_at = self.now.saturating_sub(in_sync_ms);
                    peer.waiting = None;
                }
                self.change_set(out);
            }
            Role::Follower(follower) if follower.primary == Some(member) => {
                follower.contact = 0;
                follower.watched = 0;
                self.watch_primary();
            }
            _ => {}
        }
    }

    pub(super) fn reconfigure(&mut self, change: Reconfiguration, out: &mut Vec<Action>) {
        let refusal = match self.check(&change) {
            Ok(next) => return self.request_change(next, true, out),
            Err(refusal) => refusal,
        };
        out.push(Action::Changed(Err(refusal)));
    }

    /// Returns the agreement after a change. Members that leave the voters leave the in-sync set in the same step; they are
    /// waited for until it is done.
    fn check(&self, change: &Reconfiguration) -> Result<Agreement, Refusal> {
        let (Role::Primary(primary), Some(agreement)) = (&self.role, self.agreement()) else {
            return Err(Refusal::NotPrimary);
        };
        if primary.pending.is_some() || primary.retiring.is_some() {
            return Err(Refusal::Busy);
        }
        let in_new = |id: MemberId| change.voters.iter().any(|voter| voter.id == id);
        let left = agreement.voters.iter().filter(|voter| !in_new(voter.id)).count();
        let joined = change.voters.iter().filter(|voter| agreement.voter(voter.id).is_none()).count();
        if left + joined > 1 && !change.forced {
            return Err(Refusal::TooManyChanges);
        }
        if !in_new(self.own.id) {
            return Err(Refusal::RemovesPrimary);
        }
        let in_sync: Vec<Identity> = agreement.in_sync.iter().copied().filter(|member| in_new(member.id)).collect();
        if in_sync.len() < change.min_in_sync {
            return Err(Refusal::TooFewInSync);
        }
        let Reconfiguration { voters, min_in_sync, config, .. } = change.clone();
        Ok(Agreement { voters, min_in_sync, config, in_sync, by: Some(self.own.id), ..agreement.clone() })
    }

    pub(super) fn step_down(&mut self, to: Option<MemberId>, out: &mut Vec<Action>) {
        let until = self.now + self.timing.hand_over_ms;
        let refusal = match self.primary() {
            None => Refusal::NotPrimary,
            Some(primary) if !primary.serving || primary.retiring.is_some() => Refusal::Busy,
            Some(primary) => {
                primary.retiring = Some(Retiring { to, until });
                primary.serving = false;
                out.push(Action::Retire);
                return self.hand_over(out);
            }
        };
        out.push(Action::Changed(Err(refusal)));
    }

    /// Members that may lead next, those with a full disk only if all have one.
    fn successors(&self) -> Vec<Identity> {
        let (Role::Primary(primary), Some(agreement)) = (&self.role, self.agreement()) else { return Vec::new() };
        let may_lead = |member: &&Identity| agreement.voter(member.id).is_some_and(|voter| voter.may_lead);
        let others = agreement.in_sync.iter().filter(|member| **member != self.own).filter(may_lead).copied();
        let (full, roomy): (Vec<_>, Vec<_>) = others.partition(|member| primary.is_full(*member));
        if roomy.is_empty() { full } else { roomy }
    }

    /// Returns true if this member leads, and one whose disk is not full could lead instead.
    pub fn has_roomy_successor(&self, is_good: impl Fn(MemberId) -> bool) -> bool {
        let Role::Primary(primary) = &self.role else { return false };
        self.successors().iter().any(|member| !primary.is_full(*member) && is_good(member.id))
    }

    /// Names the successor once it has everything; serves again if none does in time.
    fn hand_over(&mut self, out: &mut Vec<Action>) {
        let Role::Primary(primary) = &self.role else { return };
        let Some(agreement) = self.agreement().filter(|_| primary.pending.is_none()) else { return };
        let Some(Retiring { to, until }) = primary.retiring else { return };
        let has_all = |member: &Identity| primary.acknowledged(*member) >= self.log.end();
        let named = |member: &Identity| to.is_none_or(|to| to == member.id);
        let successor = self.successors().into_iter().filter(named).find(has_all);
        let epoch = primary.epoch;
        if let Some(successor) = successor {
            let (primary, by) = (Some(successor.id), Some(self.own.id));
            let next = Agreement { epoch: epoch.next(), primary, by, ..agreement.clone() };
            self.request_change(next, true, out);
        } else if self.now >= until {
            if let Some(primary) = self.primary() {
                primary.retiring = None;
            }
            out.push(Action::Changed(Err(Refusal::NoSuccessor)));
            self.serve(epoch, out);
        }
    }
}
