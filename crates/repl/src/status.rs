//! Status of the member and its set: `replSetGetStatus`, `hello`.

use arbor_bson::{ArrayBuf, DocBuf, ObjectId, ValueRef};

use crate::{MemberState, OpTime, Replication, Role};

/// Times of the last applied and the last durable write.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub applied: OpTime,
    pub durable: OpTime,
}

/// `electionId` of a term: later ones are greater.
pub fn election_id(term: i64) -> ObjectId {
    let mut id = [0; 12];
    let bytes = [0x7f, 0xff, 0xff, 0xff].into_iter().chain(term.to_be_bytes());
    id.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    ObjectId(id)
}

impl Replication {
    /// Appends the fields of `hello` about role and set. `primary`: the name of the first field. `server_name`: the name by which the
    /// client addressed the server (SNI), which decides under which addresses it sees the members.
    pub fn append_hello(&self, primary: &str, progress: Progress, server_name: Option<&str>, reply: &mut DocBuf) {
        let state = self.state();
        let (Some(config), Some(own)) = (&state.config, state.own()) else {
            reply.append(primary, false).append("secondary", false);
            reply.append("info", "Does not have a valid replica set config").append("isreplicaset", true);
            return;
        };
        let horizon = own.horizon(server_name);
        let hosts = |passive: bool| -> ArrayBuf {
            let shown = config.members.iter().filter(|member| !member.hidden && !member.arbiter);
            shown.filter(|member| (member.priority == 0.0) == passive).map(|member| member.host_in(horizon)).collect()
        };
        reply.append("hosts", &hosts(false));
        let arbiters: ArrayBuf =
            config.members.iter().filter(|member| member.arbiter).map(|member| member.host_in(horizon)).collect();
        if !arbiters.is_empty() {
            reply.append("arbiters", &arbiters);
        }
        let passives = hosts(true);
        if !passives.is_empty() {
            reply.append("passives", &passives);
        }
        let is_primary = state.role == Role::Primary;
        reply.append("setName", config.name.as_str()).append("setVersion", config.version as i32);
        reply.append(primary, is_primary).append("secondary", state.role == Role::Secondary);
        let other = state.primary.filter(|index| Some(*index) != state.own_index);
        let other = other.and_then(|index| config.members.get(index));
        if let Some(primary) = other.filter(|_| !is_primary).or(is_primary.then_some(own)) {
            reply.append("primary", primary.host_in(horizon));
        }
        if own.arbiter {
            reply.append("arbiterOnly", true);
        }
        if own.priority == 0.0 {
            reply.append("passive", true);
        }
        if own.hidden {
            reply.append("hidden", true);
        }
        if own.delay_seconds > 0 {
            reply.append("secondaryDelaySecs", own.delay_seconds);
        }
        if !own.tags.is_empty() {
            reply.append("tags", &own.tags_doc());
        }
        reply.append("me", own.host_in(horizon));
        if is_primary {
            reply.append("electionId", ValueRef::ObjectId(election_id(state.term)));
        }
        let last = DocBuf::new()
            .with("opTime", &progress.applied.to_doc(state.term))
            .with("lastWriteDate", ValueRef::DateTime(progress.applied.wall))
            .with("majorityOpTime", &progress.durable.to_doc(state.term))
            .with("majorityWriteDate", ValueRef::DateTime(progress.durable.wall));
        reply.append("lastWrite", &last);
    }
}

/// `optimes`.
pub fn optimes(progress: Progress, term: i64) -> DocBuf {
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

/// `electionCandidateMetrics`; None on a member that was not elected.
pub fn election_metrics(state: &MemberState) -> Option<DocBuf> {
    let election = state.election?;
    let config = state.config.as_ref()?;
    let at = OpTime { time: election.time, wall: election.at_ms };
    let priority = state.own().map_or(1.0, |own| own.priority);
    Some(
        DocBuf::new()
            .with("lastElectionReason", "electionTimeout")
            .with("lastElectionDate", ValueRef::DateTime(election.at_ms))
            .with("electionTerm", state.term)
            .with("lastCommittedOpTimeAtElection", &at.to_doc(state.term))
            .with("lastSeenOpTimeAtElection", &at.to_doc(state.term))
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
