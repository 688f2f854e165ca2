//! What the member says of itself and its set: `replSetGetStatus`, `hello`.

use std::sync::{Mutex, PoisonError};

use arbor_base::Position;
use arbor_bson::{ArrayBuf, DocBuf, ObjectId, Timestamp, ValueRef};
use arbor_txn::Transactions;

use super::{Replication, Role, Standing, not_yet_initialized};
use crate::log::now_ms;
use crate::{Commands, Result};

/// What was written last, and what of it is on the disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub applied: OpTime,
    pub durable: OpTime,
}

/// The time of a write and what the system's clock showed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpTime {
    pub time: u64,
    pub wall: i64,
}

pub(crate) fn timestamp(time: u64) -> ValueRef<'static> {
    ValueRef::Timestamp(Timestamp { seconds: (time >> 32) as u32, increment: time as u32 })
}

impl OpTime {
    fn to_doc(self, term: i64) -> DocBuf {
        DocBuf::new().with("ts", timestamp(self.time)).with("t", term)
    }
}

/// `electionId` of a term: later ones are greater.
pub(crate) fn election_id(term: i64) -> ObjectId {
    let mut id = [0; 12];
    let bytes = [0x7f, 0xff, 0xff, 0xff].into_iter().chain(term.to_be_bytes());
    id.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    ObjectId(id)
}

impl Replication {
    /// The fields of `hello` about role and set. `primary`: the name of the first field.
    pub(crate) fn append_hello(&self, primary: &str, progress: Progress, reply: &mut DocBuf) {
        let standing = self.standing();
        let (Some(config), Some(own)) = (&standing.config, standing.own()) else {
            reply.append(primary, false).append("secondary", false);
            reply.append("info", "Does not have a valid replica set config").append("isreplicaset", true);
            return;
        };
        let hosts = |passive: bool| -> ArrayBuf {
            let shown = config.members.iter().filter(|member| !member.hidden && !member.arbiter);
            shown.filter(|member| (member.priority == 0.0) == passive).map(|member| member.host.as_str()).collect()
        };
        reply.append("hosts", &hosts(false));
        let passives = hosts(true);
        if !passives.is_empty() {
            reply.append("passives", &passives);
        }
        let is_primary = standing.role == Role::Primary;
        reply.append("setName", config.name.as_str()).append("setVersion", config.version as i32);
        reply.append(primary, is_primary).append("secondary", standing.role == Role::Secondary);
        if is_primary {
            reply.append("primary", own.host.as_str());
        }
        if !own.tags.is_empty() {
            reply.append("tags", &own.tags_doc());
        }
        reply.append("me", own.host.as_str());
        if is_primary {
            reply.append("electionId", ValueRef::ObjectId(election_id(standing.term)));
        }
        let last = DocBuf::new()
            .with("opTime", &progress.applied.to_doc(standing.term))
            .with("lastWriteDate", ValueRef::DateTime(progress.applied.wall))
            .with("majorityOpTime", &progress.durable.to_doc(standing.term))
            .with("majorityWriteDate", ValueRef::DateTime(progress.durable.wall));
        reply.append("lastWrite", &last);
    }
}

/// Records without a time (of checkpoints) that are passed over in search of one with a time.
const EMPTY_RECORDS_MAX: u64 = 64;

/// The last position that was looked at, and what was there: monitors ask again and again.
#[derive(Default)]
pub(super) struct LastSeen(Mutex<Option<(Position, OpTime)>>);

impl LastSeen {
    /// The time of the record at a position that is on the disk, or of the last one with a time before it.
    fn at(&self, transactions: &Transactions, position: Position) -> OpTime {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *seen {
            Some((at, time)) if at >= position => time,
            before => {
                let now = transactions.time();
                let about = OpTime { time: now, wall: ((now >> 32) * 1000) as i64 };
                let time = read_time(transactions, position).or(before.map(|(_, time)| time)).unwrap_or(about);
                *seen = Some((position, time));
                time
            }
        }
    }
}

fn read_time(transactions: &Transactions, position: Position) -> Option<OpTime> {
    (0..EMPTY_RECORDS_MAX).find_map(|back| {
        let at = Position(position.0.checked_sub(back)?);
        let (_, record) = transactions.history(at).read().ok()??;
        (record.stamp.time > 0).then(|| OpTime { time: record.last_time(), wall: record.stamp.wall })
    })
}

impl Commands {
    pub(crate) fn progress(&self, replication: &Replication) -> Progress {
        let transactions = &self.database.transactions;
        let shown = transactions.shown();
        let durable = replication.last_seen.at(transactions, shown);
        let is_behind = transactions.log().appended() > shown && transactions.time() > durable.time;
        // what is not on the disk yet was written just now
        let applied = if is_behind { OpTime { time: transactions.time(), wall: now_ms() } } else { durable };
        Progress { applied, durable }
    }

    /// The reply of `replSetGetStatus`.
    pub(crate) fn set_status(&self, replication: &Replication, reply: &mut DocBuf) -> Result<()> {
        let standing = replication.standing();
        let config = standing.config.clone().ok_or_else(not_yet_initialized)?;
        let progress = self.progress(replication);
        let term = standing.term;
        reply.append("set", config.name.as_str()).append("date", ValueRef::DateTime(now_ms()));
        reply.append("myState", standing.role.code().0).append("term", term);
        reply.append("syncSourceHost", "").append("syncSourceId", -1i32);
        reply.append("heartbeatIntervalMillis", config.settings.heartbeat_interval_ms);
        reply.append("majorityVoteCount", config.majority() as i32);
        reply.append("writeMajorityCount", config.majority().min(config.writable_voters()) as i32);
        reply.append("votingMembersCount", config.members.iter().filter(|member| member.votes > 0).count() as i32);
        reply.append("writableVotingMembersCount", config.writable_voters() as i32);
        reply.append("optimes", &optimes(progress, term));
        reply.append("lastStableRecoveryTimestamp", timestamp(progress.durable.time));
        if let Some(metrics) = election_metrics(&standing) {
            reply.append("electionCandidateMetrics", &metrics);
        }
        let members: ArrayBuf = [&self.member_status(&standing, progress)].into_iter().collect();
        reply.append("members", &members);
        let coordinator = DocBuf::new().with("kind", "file").with("revision", standing.revision);
        let arbor = DocBuf::new()
            .with("inSync", &standing.own().map(|own| own.host.as_str()).into_iter().collect::<ArrayBuf>())
            .with("commitIndex", self.database.transactions.shown().0 as i64)
            .with("coordinator", &coordinator);
        reply.append("arbor", &arbor);
        Ok(())
    }

    fn member_status(&self, standing: &Standing, progress: Progress) -> DocBuf {
        let Some(own) = standing.own() else { return DocBuf::new() };
        let (state, name) = standing.role.code();
        let mut doc = DocBuf::new()
            .with("_id", own.id as i32)
            .with("name", own.host.as_str())
            .with("health", 1.0)
            .with("state", state)
            .with("stateStr", name)
            .with("uptime", self.started.elapsed().as_secs() as i32)
            .with("optime", &progress.applied.to_doc(standing.term))
            .with("optimeDate", ValueRef::DateTime(((progress.applied.time >> 32) * 1000) as i64))
            .with("lastAppliedWallTime", ValueRef::DateTime(progress.applied.wall))
            .with("lastDurableWallTime", ValueRef::DateTime(progress.durable.wall))
            .with("syncSourceHost", "")
            .with("syncSourceId", -1i32)
            .with("infoMessage", "");
        if let Some(election) = standing.election {
            doc.append("electionTime", timestamp(election.time));
            doc.append("electionDate", ValueRef::DateTime(election.at_ms));
        }
        let version = standing.config.as_ref().map_or(0, |config| config.version);
        doc.append("configVersion", version as i32).append("configTerm", standing.term as i32);
        doc.with("self", true).with("lastHeartbeatMessage", "")
    }
}

fn optimes(progress: Progress, term: i64) -> DocBuf {
    let (applied, durable) = (progress.applied, progress.durable);
    DocBuf::new()
        .with("lastCommittedOpTime", &durable.to_doc(term))
        .with("lastCommittedWallTime", ValueRef::DateTime(durable.wall))
        .with("readConcernMajorityOpTime", &durable.to_doc(term))
        .with("appliedOpTime", &applied.to_doc(term))
        .with("durableOpTime", &durable.to_doc(term))
        .with("lastAppliedWallTime", ValueRef::DateTime(applied.wall))
        .with("lastDurableWallTime", ValueRef::DateTime(durable.wall))
}

fn election_metrics(standing: &Standing) -> Option<DocBuf> {
    let election = standing.election?;
    let config = standing.config.as_ref()?;
    let at = OpTime { time: election.time, wall: election.at_ms };
    let priority = standing.own().map_or(1.0, |own| own.priority);
    Some(
        DocBuf::new()
            .with("lastElectionReason", "electionTimeout")
            .with("lastElectionDate", ValueRef::DateTime(election.at_ms))
            .with("electionTerm", standing.term)
            .with("lastCommittedOpTimeAtElection", &at.to_doc(standing.term))
            .with("lastSeenOpTimeAtElection", &at.to_doc(standing.term))
            .with("numVotesNeeded", config.majority() as i32)
            .with("priorityAtElection", priority)
            .with("electionTimeoutMillis", config.settings.election_timeout_ms)
            .with("newTermStartDate", ValueRef::DateTime(election.at_ms))
            .with("wMajorityWriteAvailabilityDate", ValueRef::DateTime(election.at_ms)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn election_ids_ascend_with_the_term() {
        assert_eq!(election_id(1).to_string(), "7fffffff0000000000000001");
        assert!(election_id(2) > election_id(1));
    }
}
