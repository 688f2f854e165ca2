//! `replSetGetStatus`: the member's own status.

use std::time::Instant;

use arbor_base::Position;
use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
use arbor_member::{Heard, SyncStatus};
use arbor_protocol::cluster_time::timestamp;
use arbor_protocol::log::now_ms;
use arbor_repl::{
    Member, MemberId, MemberState, OpTime, Progress, Replication, Role, election_metrics, not_yet_initialized, optimes,
};
use arbor_txn::Transactions;

use crate::{Commands, Result};

fn read_time(transactions: &Transactions, position: Position) -> Option<OpTime> {
    let (stamp, last_time) = transactions.times_until(position).ok()??;
    Some(OpTime { time: last_time, wall: stamp.wall })
}

/// Returns the entry of another member, from its last heartbeat. `reached`, the time of the record that it has acknowledged to this one, with the term,
/// is newer than that.
fn other_status(member: &Member, heard: Option<&Heard>, reached: Option<(OpTime, i64)>) -> DocBuf {
    let doc = DocBuf::new().with("_id", member.id as i32).with("name", member.host.as_str());
    let Some(heard) = heard else {
        return doc.with("health", 0.0).with("state", UNKNOWN.0).with("stateStr", UNKNOWN.1);
    };
    let date = |at: Option<Instant>| ValueRef::DateTime(at.map_or(0, |at| now_ms() - at.elapsed().as_millis() as i64));
    let seen = doc.with("lastHeartbeat", date(heard.sent)).with("lastHeartbeatRecv", date(heard.at));
    if let Some(error) = &heard.error {
        let seen = seen.with("health", 0.0).with("state", DOWN.0).with("stateStr", DOWN.1).with("uptime", 0i32);
        return seen.with("lastHeartbeatMessage", error.as_str());
    }
    // it keeps no data for the set and says what it is without that
    let said = if member.arbiter { Some(ARBITER.0.into()) } else { heard.number("state") };
    let state = said.unwrap_or(UNKNOWN.0.into());
    let name = match state {
        0 => "STARTUP",
        1 => "PRIMARY",
        2 => "SECONDARY",
        5 => "STARTUP2",
        7 => ARBITER.1,
        10 => "REMOVED",
        _ => UNKNOWN.1,
    };
    let mut doc = seen.with("health", 1.0).with("state", state as i32).with("stateStr", name);
    doc.append("uptime", heard.number("uptime").unwrap_or(0));
    // One that applies later, or copies the data yet, has acknowledged what it does not show.
    let reached = reached.filter(|_| state == 2 && member.delay_seconds == 0);
    for (field, from, date, wall) in [
        ("optime", "opTime", "optimeDate", "wallTime"),
        ("optimeDurable", "durableOpTime", "optimeDurableDate", "durableWallTime"),
    ] {
        if let Some((time, term)) = reached {
            doc.append(field, &time.to_doc(term)).append(date, ValueRef::DateTime(time.wall));
        } else if let (Some(time), Some(wall)) = (heard.reply.get(from), heard.reply.get(wall)) {
            doc.append(field, time).append(date, wall);
        }
    }
    doc.append("pingMs", heard.round_trip.as_millis() as i64).append("lastHeartbeatMessage", "");
    doc.append("configVersion", heard.number("v").unwrap_or(0) as i32);
    doc.with("configTerm", heard.number("configTerm").unwrap_or(0) as i32)
}

/// Returns the member that a secondary gets its records from: `chosen`, or the primary.
pub(crate) fn sync_source(state: &MemberState, chosen: Option<MemberId>) -> Option<(&str, i64)> {
    if state.role != Role::Secondary {
        return None;
    }
    let members = &state.config.as_ref()?.members;
    let source = match chosen {
        Some(id) => members.iter().find(|member| member.id == i64::from(id.0)),
        None => members.get(state.primary?),
    };
    let source = source.filter(|source| state.own().is_none_or(|own| own.id != source.id))?;
    Some((&source.host, source.id))
}

fn put_source(doc: &mut DocBuf, source: Option<(&str, i64)>) {
    let (host, id) = source.unwrap_or(("", -1));
    doc.append("syncSourceHost", host).append("syncSourceId", id as i32);
}

fn sync_status(sync: &SyncStatus) -> DocBuf {
    let progress = &sync.progress;
    let doc = DocBuf::new()
        .with("failedInitialSyncAttempts", sync.failed_attempts as i32)
        .with("syncSource", sync.source.as_str())
        .with("totalInitialSyncElapsedMillis", progress.elapsed.as_millis() as i64)
        .with("position", progress.position.0 as i64)
        .with("trees", progress.trees as i32)
        .with("treesCopied", progress.trees_done as i32)
        .with("treesResumed", progress.resumed as i32)
        .with("rowsCopied", progress.rows as i64)
        .with("bytesCopied", progress.bytes as i64);
    match &sync.error {
        Some(error) => doc.with("lastError", error.as_str()),
        None => doc,
    }
}

/// States that members do not say of themselves.
const UNKNOWN: (i32, &str) = (6, "UNKNOWN");
const ARBITER: (i32, &str) = (7, "ARBITER");
const DOWN: (i32, &str) = (8, "(not reachable/healthy)");

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
        let source = self.several.handle().and_then(|handle| handle.status().source);
        put_source(reply, sync_source(&state, source));
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
        let own = self.member_status(&state, progress, source);
        let Some(handle) = self.several.handle() else {
            let members: ArrayBuf = [&own].into_iter().collect();
            reply.append("members", &members);
            let coordinator = DocBuf::new().with("kind", "file").with("revision", state.revision);
            let arbor = DocBuf::new()
                .with("inSync", &state.own().map(|own| own.host.as_str()).into_iter().collect::<ArrayBuf>())
                .with("commitIndex", self.database.transactions.shown().0 as i64)
                .with("coordinator", &coordinator);
            reply.append("arbor", &arbor);
            return Ok(());
        };
        let heard = handle.heard();
        let peers = handle.peers();
        let mut members: Vec<DocBuf> = Vec::new();
        for member in &config.members {
            let id = MemberId(member.id as u32);
            if id == handle.own().id {
                members.push(own.clone());
                continue;
            }
            let peer = peers.iter().find(|peer| peer.identity.id == id);
            let transactions = &self.database.transactions;
            let reached = peer.filter(|peer| peer.acknowledged.0 > 0).and_then(|peer| match peer.acknowledged {
                all if all >= transactions.shown() => Some(progress.durable),
                some => read_time(transactions, some),
            });
            let mut doc = other_status(member, heard.get(&id), reached.map(|time| (time, term)));
            let said = heard.get(&id).and_then(|heard| heard.text("syncingTo"));
            let from = said.and_then(|host| config.members.iter().find(|other| other.host == host));
            put_source(&mut doc, from.map(|from| (from.host.as_str(), from.id)));
            if let Some(peer) = peer {
                doc.append("lagMillis", peer.behind.as_millis() as i64);
                doc.append("position", peer.acknowledged.0 as i64);
            }
            members.push(doc);
        }
        reply.append("members", &members.iter().collect::<ArrayBuf>());
        let status = handle.status();
        let in_sync = status.known.iter().flat_map(|(_, agreement)| &agreement.in_sync);
        let host = |id: MemberId| config.members.iter().find(|member| member.id == i64::from(id.0));
        let in_sync: ArrayBuf =
            in_sync.filter_map(|member| host(member.id)).map(|member| member.host.as_str()).collect();
        let mut coordinator = self.several.describe_coordinator();
        coordinator.append("revision", status.known.as_ref().map_or(0, |(version, _)| version.0 as i64));
        if let Some(silent) = handle.coordinator_silent() {
            coordinator.append("lastAnswerMillis", silent.as_millis() as i64);
        }
        if let Some(error) = handle.coordinator_error() {
            coordinator.append("error", error.as_str());
        }
        let arbor = DocBuf::new()
            .with("inSync", &in_sync)
            .with("minInSync", status.known.as_ref().map_or(0, |(_, agreement)| agreement.min_in_sync as i32))
            .with("commitIndex", handle.commit_point().0 as i64)
            .with("heldStates", self.trees.held() as i32)
            .with("logFirst", self.database.transactions.log().first().0 as i64)
            .with("coordinator", &coordinator);
        let arbor = match self.database.transactions.log_held_from() {
            Some(held) => arbor.with("logHeldFrom", held.0 as i64),
            None => arbor,
        };
        reply.append("arbor", &arbor);
        if let Some(sync) = handle.sync_status().filter(|sync| !sync.has_ended) {
            reply.append("initialSyncStatus", &sync_status(&sync));
        }
        Ok(())
    }

    /// Returns the state of the last initial sync since the start, which may have ended.
    pub(crate) fn last_sync(&self) -> Option<DocBuf> {
        Some(sync_status(&self.several.handle()?.sync_status()?))
    }

    fn member_status(&self, state: &MemberState, progress: Progress, source: Option<MemberId>) -> DocBuf {
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
            .with("lastDurableWallTime", ValueRef::DateTime(progress.durable.wall));
        put_source(&mut doc, sync_source(state, source));
        doc.append("infoMessage", "");
        if let Some(election) = state.election {
            doc.append("electionTime", timestamp(election.time));
            doc.append("electionDate", ValueRef::DateTime(election.at_ms));
        }
        let version = state.config.as_ref().map_or(0, |config| config.version);
        doc.append("configVersion", version as i32).append("configTerm", state.term as i32);
        doc.with("self", true).with("lastHeartbeatMessage", "")
    }
}
