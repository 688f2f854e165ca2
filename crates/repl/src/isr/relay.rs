//! Chaining: a follower gets its records from another follower, its *source*, and only reports to the primary.
//!
//! - The source sends what its own log has, which need not be the primary's. So what came from it counts for nothing before the
//!   primary has found the record in its log, as with what is found in the own log after a restart (R3, R6).
//! - Reports to the primary do not wait for news, and their replies have no records. A member in sync that stays behind gets
//!   records with them, and then uses its source no longer: no write waits long for a source that does not help.
//! - The source passes on which records it may apply. That they are committed is true, also at second hand.

use arbor_base::Position;

use super::machine::Role;
use super::{Action, Machine, Message, Millis, Mutant, Place, Records, Shipment};
use crate::agreement::{Epoch, MemberId};

/// The request of a member whose source this one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Relay {
    after: Place,
    serial: u64,
    since: Millis,
    /// The commit point at that time.
    commit: Position,
}

impl Machine {
    /// Returns the member that this follower gets its records from; `None`: from the primary.
    pub fn source(&self) -> Option<MemberId> {
        let Role::Follower(follower) = &self.role else { return None };
        self.source.filter(|source| follower.primary.is_some() && follower.primary != Some(*source))
    }

    pub(super) fn set_source(&mut self, source: Option<MemberId>) {
        let (now, serials) = (self.now, self.serials);
        self.source = source.filter(|source| *source != self.own.id);
        assert!(self.source() != Some(self.own.id), "records come from another member");
        if let Some(follower) = self.follower() {
            (follower.asked, follower.helped, follower.asked_until) = (None, now, serials);
        }
    }

    /// Requests more from the source, under the same conditions as from a primary.
    pub(super) fn ask_source(&mut self, out: &mut Vec<Action>) {
        let Some(to) = self.source() else { return };
        let (now, end, timing) = (self.now, self.log.end(), self.timing);
        let on_disk = self.durable >= end || self.load_missing.is_some();
        let (epoch, after, serial) = (self.saved, self.log.last(), self.serials + 1);
        let Some(follower) = self.follower() else { return };
        if follower.committed <= end {
            follower.helped = now;
        } else if now >= follower.helped + timing.election_ms {
            return self.source = None;
        }
        let due = match follower.asked {
            Some((_, sent)) => now >= sent + timing.retry_ms,
            None => on_disk,
        };
        if !due || follower.misled || follower.too_old || follower.epoch != epoch {
            return;
        }
        follower.asked = Some((serial, now));
        self.serials = serial;
        out.push(Action::Send { to, message: Message::Relay { epoch, serial, after } });
    }

    pub(super) fn receive_relay(&mut self, from: MemberId, epoch: Epoch, serial: u64, after: Place) {
        if epoch > self.saved {
            self.want_read();
        }
        self.relays.insert(from, Relay { after, serial, since: self.now, commit: self.commit });
    }

    /// Replies to the members whose source this one is, if there is news or they have waited long enough.
    pub(super) fn relay(&mut self, out: &mut Vec<Action>) {
        let (now, end, beacon) = (self.now, self.log.end(), self.timing.beacon_ms);
        let (epoch, records_max) = (self.saved, self.timing.records_max);
        for (to, Relay { after, serial, since, commit }) in std::mem::take(&mut self.relays) {
            let has = self.log.has(after) && after.position.next() >= self.first;
            let has_more = has && after.position < end;
            if !has_more && self.commit <= commit && now < since + beacon {
                self.relays.insert(to, Relay { after, serial, since, commit });
                continue;
            }
            let first = after.position.next().min(end);
            let run = self.log.last_of_run(first).0.min(after.position.0 + records_max);
            let last = if has_more { Position(run) } else { after.position };
            assert!(last >= after.position, "R6: records follow the ones that the receiver has");
            let (of, commit, payloads, loads) = (self.log.at(first), self.commit, Vec::new(), Vec::new());
            let reply = Records { epoch, serial, after, of, payloads, commit, sent: 0, loads };
            out.push(Action::Ship(Shipment { to, after: after.position, last, reply, relayed: true }));
        }
    }

    pub(super) fn receive_relayed(&mut self, from: MemberId, records: Records, out: &mut Vec<Action>) {
        let (saved, last, source, now) = (self.saved, self.log.last(), self.source(), self.now);
        let counts = self.is(Mutant::RelayedCounts);
        let Some(follower) = self.follower().filter(|_| source == Some(from)) else { return };
        if follower.asked.is_none_or(|(serial, _)| serial != records.serial) {
            return;
        }
        follower.asked = None;
        // R5: of another epoch, or after the log was cut.
        if records.epoch != saved || follower.epoch != saved {
            return;
        }
        follower.committed = follower.committed.max(records.commit);
        if records.payloads.is_empty() || records.after != last {
            return;
        }
        follower.helped = now;
        let (of, after, count) = (records.of, last.position, records.payloads.len() as u64);
        if counts {
            follower.matched = Position(after.0 + count);
        }
        self.rule(of <= saved, "R5: records of no epoch that was not saved");
        assert!(after >= self.commit, "R7: what is committed is never replaced");
        self.log.append(of, count);
        assert_eq!(self.log.last(), Place { epoch: of, position: Position(after.0 + count) }, "R6: the log continues");
        out.push(Action::Append { epoch: of, after, payloads: records.payloads });
    }
}
