//! `replSetGetStatus`: the member's own status.

use arbor_base::Position;
use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
use arbor_protocol::cluster_time::timestamp;
use arbor_protocol::log::now_ms;
use arbor_repl::{MemberState, OpTime, Progress, Replication, election_metrics, not_yet_initialized, optimes};
use arbor_txn::Transactions;

use crate::{Commands, Result};

/// Records without a time (of checkpoints) that are passed over in search of one with a time.
const EMPTY_RECORDS_MAX: u64 = 64;

fn read_time(transactions: &Transactions, position: Position) -> Option<OpTime> {
    (0..EMPTY_RECORDS_MAX).find_map(|back| {
        let at = Position(position.0.checked_sub(back)?);
        let (_, record) = transactions.history(at).read().ok()??;
        (record.stamp.time > 0).then(|| OpTime { time: record.last_time(), wall: record.stamp.wall })
    })
}

impl Commands {
    pub fn progress(&self, replication: &Replication) -> Progress {
        let transactions = &self.database.transactions;
        let shown = transactions.shown();
        let durable = replication.time_at(shown, |before| {
            let now = transactions.time();
            let about = OpTime { time: now, wall: ((now >> 32) * 1000) as i64 };
            read_time(transactions, shown).or(before).unwrap_or(about)
        });
        let is_behind = transactions.log().appended() > shown && transactions.time() > durable.time;
        // what is not on the disk yet was written just now
        let applied = if is_behind { OpTime { time: transactions.time(), wall: now_ms() } } else { durable };
        Progress { applied, durable }
    }

    /// The reply of `replSetGetStatus`.
    pub fn set_status(&self, replication: &Replication, reply: &mut DocBuf) -> Result<()> {
        let state = replication.state();
        let config = state.config.clone().ok_or_else(not_yet_initialized)?;
        let progress = self.progress(replication);
        let term = state.term;
        reply.append("set", config.name.as_str()).append("date", ValueRef::DateTime(now_ms()));
        reply.append("myState", state.role.code().0).append("term", term);
        reply.append("syncSourceHost", "").append("syncSourceId", -1i32);
        reply.append("heartbeatIntervalMillis", config.settings.heartbeat_interval_ms);
        reply.append("majorityVoteCount", config.majority() as i32);
        reply.append("writeMajorityCount", config.majority().min(config.writable_voters()) as i32);
        reply.append("votingMembersCount", config.members.iter().filter(|member| member.votes > 0).count() as i32);
        reply.append("writableVotingMembersCount", config.writable_voters() as i32);
        reply.append("optimes", &optimes(progress, term));
        reply.append("lastStableRecoveryTimestamp", timestamp(progress.durable.time));
        if let Some(metrics) = election_metrics(&state) {
            reply.append("electionCandidateMetrics", &metrics);
        }
        let members: ArrayBuf = [&self.member_status(&state, progress)].into_iter().collect();
        reply.append("members", &members);
        let coordinator = DocBuf::new().with("kind", "file").with("revision", state.revision);
        let arbor = DocBuf::new()
            .with("inSync", &state.own().map(|own| own.host.as_str()).into_iter().collect::<ArrayBuf>())
            .with("commitIndex", self.database.transactions.shown().0 as i64)
            .with("coordinator", &coordinator);
        reply.append("arbor", &arbor);
        Ok(())
    }

    fn member_status(&self, state: &MemberState, progress: Progress) -> DocBuf {
        let Some(own) = state.own() else { return DocBuf::new() };
        let (code, name) = state.role.code();
        let mut doc = DocBuf::new()
            .with("_id", own.id as i32)
            .with("name", own.host.as_str())
            .with("health", 1.0)
            .with("state", code)
            .with("stateStr", name)
            .with("uptime", self.started.elapsed().as_secs() as i32)
            .with("optime", &progress.applied.to_doc(state.term))
            .with("optimeDate", ValueRef::DateTime(((progress.applied.time >> 32) * 1000) as i64))
            .with("lastAppliedWallTime", ValueRef::DateTime(progress.applied.wall))
            .with("lastDurableWallTime", ValueRef::DateTime(progress.durable.wall))
            .with("syncSourceHost", "")
            .with("syncSourceId", -1i32)
            .with("infoMessage", "");
        if let Some(election) = state.election {
            doc.append("electionTime", timestamp(election.time));
            doc.append("electionDate", ValueRef::DateTime(election.at_ms));
        }
        let version = state.config.as_ref().map_or(0, |config| config.version);
        doc.append("configVersion", version as i32).append("configTerm", state.term as i32);
        doc.with("self", true).with("lastHeartbeatMessage", "")
    }
}
