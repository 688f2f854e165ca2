//! A member that follows: fetching, matching, cutting, and taking over.

use arbor_base::Position;

use super::machine::{Promise, Request, Role};
use super::primary::Primary;
use super::{Action, Fetch, Machine, Message, Millis, Mutant, Place, Records};
use crate::agreement::{Agreement, Epoch, MemberId};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Follower {
    pub primary: Option<MemberId>,
    /// The primary's.
    pub epoch: Epoch,
    /// The last message of the primary; the beginning, before there was one.
    pub contact: Millis,
    /// Up to here the log was found to be the primary's.
    pub matched: Position,
    /// The primary's commit point.
    pub committed: Position,
    /// The newest time of the primary's clock, and when it came.
    pub beacon: (Millis, Millis),
    /// A fetch whose reply is awaited: its serial, and when it was sent.
    pub fetching: Option<(u64, Millis)>,
    /// A request to the source whose reply is awaited: its serial, and when it was sent.
    pub asked: Option<(u64, Millis)>,
    /// The acknowledgement that was last sent to the primary, and when.
    pub reported: (Position, Millis),
    /// Time at which the source last had what was needed.
    pub helped: Millis,
    /// Fetches up to this serial asked for records, since there was no source yet.
    pub asked_until: u64,
    /// The source has other records than the primary: it is not asked before the logs match again.
    pub misled: bool,
    /// Time at which the agreement was last read for want of a primary.
    pub watched: Millis,
    /// The primary cannot help: its log begins after the end of this one.
    pub too_old: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Candidate {
    pub request: Request,
    pub next: Agreement,
}

impl Follower {
    pub(super) fn new(now: Millis) -> Follower {
        Follower {
            primary: None,
            epoch: Epoch(0),
            contact: now,
            matched: Position::ZERO,
            committed: Position::ZERO,
            beacon: (0, 0),
            fetching: None,
            asked: None,
            reported: (Position::ZERO, 0),
            helped: now,
            asked_until: 0,
            misled: false,
            watched: 0,
            too_old: false,
        }
    }
}

impl Machine {
    pub(super) fn follower(&mut self) -> Option<&mut Follower> {
        match &mut self.role {
            Role::Follower(follower) => Some(follower),
            _ => None,
        }
    }

    // ---- fetching ----

    /// Requests more, unless a reply is awaited, or records wait for the disk: the next fetch acknowledges them.
    pub(super) fn fetch(&mut self, out: &mut Vec<Action>) {
        let Role::Follower(follower) = &self.role else { return };
        let Some(to) = follower.primary.filter(|_| !follower.too_old && follower.epoch == self.saved) else { return };
        let retry = self.timing.retry_ms;
        let due = match follower.fetching {
            Some((_, sent)) => self.now >= sent + retry,
            None => {
                let early = self.load_missing.is_some() || self.is(Mutant::AckBeforeSync);
                self.durable >= self.log.end() || early
            }
        };
        let chained = self.source().is_some();
        let (reported, at) = follower.reported;
        let has_news = self.acknowledged() > reported || self.now >= at + self.timing.beacon_ms;
        if !due || chained && !has_news && follower.fetching.is_none() {
            return;
        }
        let (promise, received) = follower.beacon;
        self.serials += 1;
        let serial = self.serials;
        let now = self.now;
        let acknowledged = self.acknowledged();
        if let Some(follower) = self.follower() {
            follower.fetching = Some((serial, now));
            follower.reported = (acknowledged, now);
        }
        if promise > 0 {
            // From then on: the primary relies on it from the time that its message shows, which is before.
            self.promise(received + self.timing.promise_ms, to);
        }
        let fetch = Fetch {
            epoch: self.saved,
            store: self.own.store,
            serial,
            after: self.log.last(),
            durable: acknowledged,
            promise,
            loads: self.loads.clone(),
            chained,
            full: self.full,
        };
        out.push(Action::Send { to, message: Message::Fetch(fetch) });
    }

    /// Returns up to where this member holds everything on its disk, loads included (R3, R10).
    pub(super) fn acknowledged(&self) -> Position {
        let durable = if self.is(Mutant::AckBeforeSync) { self.log.end() } else { self.durable };
        match self.load_missing {
            Some(missing) if !self.is(Mutant::LoadMissing) => durable.min(Position(missing.0 - 1)),
            _ => durable,
        }
    }

    fn promise(&mut self, until: Millis, to: MemberId) {
        let other = self.promised.to != Some(to) && self.promised.until > until;
        let to = if other { None } else { Some(to) };
        self.promised = Promise { until: until.max(self.promised.until), to };
    }

    pub(super) fn receive_records(&mut self, records: Records, out: &mut Vec<Action>) {
        let now = self.now;
        let Some(follower) = self.follower() else { return };
        let asked_until = follower.asked_until;
        if follower.fetching.is_some_and(|(serial, _)| serial == records.serial) {
            follower.fetching = None;
        }
        if records.sent > follower.beacon.0 {
            follower.beacon = (records.sent, now);
        }
        // After a crash, or before a cut: a later fetch names the real end.
        if !self.log.has(records.after) {
            return;
        }
        let (of, count) = (records.of, records.payloads.len() as u64);
        let end = Position(records.after.position.0 + count);
        let mut position = records.after.position;
        let mut payloads = records.payloads;
        while position < end && self.log.has(Place { epoch: of, position: position.next() }) {
            position = position.next();
        }
        payloads.drain(..(position.0 - records.after.position.0) as usize);
        if !payloads.is_empty() {
            // The primary does so for one that stays behind, where it was not asked for them.
            self.source = self.source.filter(|_| records.serial <= asked_until);
            if position < self.log.end() {
                self.cut(position, out);
            }
            self.rule(self.log.end() == position, "R6: records follow the ones before");
            self.rule(of <= self.saved, "R5: records of no epoch that was not saved");
            self.log.append(of, payloads.len() as u64);
            out.push(Action::Append { epoch: of, after: position, payloads });
        }
        let last = self.log.end();
        if let Some(follower) = self.follower() {
            follower.matched = follower.matched.max(end);
            follower.committed = follower.committed.max(records.commit);
            follower.misled &= follower.matched < last;
        }
    }

    pub(super) fn receive_diverged(&mut self, serial: u64, after: Place, keep: Place, out: &mut Vec<Action>) {
        let Some(follower) = self.follower() else { return };
        if follower.fetching.is_some_and(|(other, _)| other == serial) {
            follower.fetching = None;
        }
        (follower.asked, follower.misled) = (None, true);
        // Late: since then the log was cut, and what follows there now is the primary's.
        if after != self.log.last() && !self.is(Mutant::LateCut) {
            return;
        }
        let end = self.log.last_up_to(keep.epoch).position.min(keep.position);
        if end < self.log.end() {
            self.cut(end, out);
        }
    }

    fn cut(&mut self, behind: Position, out: &mut Vec<Action>) {
        let behind = if self.is(Mutant::CutTooFar) { Position(behind.0.saturating_sub(2)) } else { behind };
        let matched = self.follower().map_or(Position::ZERO, |follower| follower.matched);
        self.rule(behind >= self.commit, "R7: what is committed is never cut");
        self.rule(behind >= matched, "R6: what matched is never cut in its epoch");
        self.log.cut_behind(behind);
        self.durable = self.durable.min(behind);
        self.load_missing = self.load_missing.filter(|missing| *missing <= behind);
        out.push(Action::Cut(behind));
    }

    pub(super) fn receive_too_old(&mut self, from: MemberId, serial: u64, out: &mut Vec<Action>) {
        if let Some(follower) = self.follower()
            && follower.fetching.is_some_and(|(other, _)| other == serial)
        {
            follower.too_old = true;
            out.push(Action::Resync { from });
        }
    }

    pub(super) fn receive_not_primary(&mut self, from: MemberId, epoch: Epoch) {
        let saved = self.saved;
        if let Some(follower) = self.follower()
            && follower.primary == Some(from)
            && epoch >= saved
        {
            follower.primary = None;
            self.want_read();
        }
    }

    /// An append failed: the log ends earlier than this state.
    pub(super) fn log_ends(&mut self, end: Position) {
        self.rule(end >= self.durable, "R6: what is durable stays in the log");
        self.log.cut_behind(end);
        self.load_missing = self.load_missing.filter(|missing| *missing <= end);
        if let Some(follower) = self.follower() {
            follower.matched = follower.matched.min(end);
            // The next fetch is for the same records: not before the usual time.
            let now = follower.contact;
            follower.fetching = Some((0, now));
        }
    }

    /// Lets the engine apply what the primary committed, of what matched and is on the disk (R7).
    pub(super) fn apply_committed(&mut self, out: &mut Vec<Action>) {
        let Role::Follower(follower) = &self.role else { return };
        let mut commit = follower.committed.min(follower.matched).min(self.durable);
        if self.is(Mutant::AppliedEarly) {
            commit = follower.matched.max(self.commit);
        }
        if let Some(missing) = self.load_missing {
            commit = commit.min(Position(missing.0 - 1));
        }
        if commit > self.commit {
            self.commit = commit;
            out.push(Action::Commit(commit));
        }
    }

    // ---- taking over ----

    /// Reads the agreement when the primary is silent.
    pub(super) fn watch_primary(&mut self) {
        let (now, retry) = (self.now, self.timing.retry_ms);
        let overdue = self.is_overdue();
        if let Some(follower) = self.follower().filter(|follower| overdue && now >= follower.watched + retry) {
            follower.watched = now;
            self.want_read();
        }
    }

    fn is_overdue(&self) -> bool {
        let Role::Follower(follower) = &self.role else { return false };
        self.now >= follower.contact + self.timing.election_ms + self.stagger()
    }

    fn stagger(&self) -> Millis {
        let before = |agreement: &Agreement| agreement.in_sync.iter().filter(|member| member.id < self.own.id).count();
        self.timing.stagger_ms * self.agreement().map_or(0, before) as u64
    }

    /// Requests the next epoch for itself, if its primary is silent and it may.
    pub(super) fn campaign(&mut self, out: &mut Vec<Action>) {
        let alone = self.agreement().is_some_and(|agreement| {
            let own_epoch = agreement.primary == Some(self.own.id) && agreement.epoch == self.saved;
            own_epoch && agreement.voters.len() == 1
        });
        let promised = self.now < self.promised.until && !alone && !self.is(Mutant::PromiseBroken);
        if (self.is_overdue() || alone) && !promised {
            self.take_over(out);
        }
    }

    fn take_over(&mut self, out: &mut Vec<Action>) {
        let Some(agreement) = self.agreement().filter(|_| self.fit) else { return };
        let may_lead = agreement.voter(self.own.id).is_some_and(|voter| voter.may_lead);
        let recorded = self.is_recorded(agreement);
        if !may_lead || !(recorded || self.is(Mutant::Outsider)) {
            return;
        }
        let mut in_sync = agreement.in_sync.clone();
        if self.is(Mutant::Outsider) {
            in_sync = agreement.in_sync_with(self.own);
        }
        let left = |member: MemberId| in_sync.iter().filter(|other| other.id != member).count();
        if let Some(old) = agreement.primary.filter(|old| *old != self.own.id && left(*old) >= agreement.min_in_sync) {
            in_sync.retain(|member| member.id != old);
        }
        let epoch = agreement.epoch.max(self.saved).next();
        let (primary, by) = (Some(self.own.id), Some(self.own.id));
        let next = Agreement { epoch, primary, by, in_sync, ..agreement.clone() };
        self.rule(next.is_in_sync(self.own), "R2: only a member of the recorded set takes over");
        let request = self.request(next.clone(), out);
        self.role = Role::Candidate(Candidate { request, next });
    }

    /// Becomes the primary of an epoch that the agreement gives to this member.
    pub(super) fn lead(&mut self, epoch: Epoch, out: &mut Vec<Action>) {
        let agreement = self.agreement().cloned().expect("the agreement was read or written");
        self.rule(agreement.primary == Some(self.own.id) && agreement.epoch == epoch, "R1: the agreement names it");
        self.rule(epoch > self.saved, "R1: an epoch is led once");
        self.rule(agreement.is_in_sync(self.own), "R2: only a member of the recorded set leads");
        if epoch > self.saved {
            self.saved = epoch;
            out.push(Action::SaveEpoch(epoch));
        }
        // R10: what refers to a missing load was not acknowledged here, so it is not committed.
        if let Some(missing) = self.load_missing {
            self.cut(Position(missing.0 - 1), out);
            self.load_missing = None;
        }
        let handed_over = agreement.by == self.promised.to && self.promised.to.is_some();
        let commit_from = if handed_over { self.now } else { self.promised.until };
        let alone = agreement.voters.len() == 1 || self.is(Mutant::PromiseBroken);
        if matches!(self.role, Role::Primary(_)) {
            out.push(Action::Retire);
        }
        let primary = Primary::new(epoch, self.log.end(), if alone { self.now } else { commit_from });
        self.role = Role::Primary(Box::new(primary));
        self.source = None;
        if self.is(Mutant::NoEmptyRecord) {
            self.begin_without_record(epoch, out);
        } else {
            self.log.append(epoch, 1);
            out.push(Action::Lead(epoch));
        }
        self.began(&agreement);
        for voter in agreement.voters.iter().filter(|voter| voter.id != self.own.id) {
            out.push(Action::Send { to: voter.id, message: Message::Lead { epoch } });
        }
    }
}
