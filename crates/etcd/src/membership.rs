//! The members of the etcd cluster, changed one at a time. A new member is a learner until it has caught up: a voter that was not
//! started yet would count for the majority, and stop a cluster of one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::coordinator::{Etcd, number};
use crate::gateway::{Error, Kind};

/// A member of the etcd cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdMember {
    pub id: u64,
    /// Empty until the member has been started.
    pub name: String,
    pub peer_urls: Vec<String>,
    pub client_urls: Vec<String>,
    pub is_learner: bool,
}

impl EtcdMember {
    /// Returns its name, or where it is to be started.
    pub fn shown(&self) -> &str {
        match &*self.name {
            "" => self.peer_urls.first().map_or("", String::as_str),
            name => name,
        }
    }

    fn of(value: &Value) -> Option<EtcdMember> {
        let texts = |name| {
            let texts = value.get(name).and_then(Value::as_array);
            texts.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Some(EtcdMember {
            id: number(value.get("ID"))?,
            name: value.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
            peer_urls: texts("peerURLs"),
            client_urls: texts("clientURLs"),
            is_learner: value.get("isLearner").and_then(Value::as_bool).unwrap_or(false),
        })
    }
}

/// Time for a change of etcd's members, which ends when the server does.
pub struct Patience<'a> {
    pub time: Duration,
    pub stopped: Option<&'a AtomicBool>,
}

impl Patience<'_> {
    fn ended(&self) -> bool {
        self.stopped.is_some_and(|stopped| stopped.load(Ordering::Acquire))
    }
}

impl Etcd {
    pub fn members(&self) -> Result<Vec<EtcdMember>, Error> {
        let reply = self.gateway.post(Kind::Read, "/v3/cluster/member/list", &json!({ "linearizable": true }))?;
        Ok(members_of(&reply))
    }

    /// Adds a member, which does not vote yet; nothing happens if it is there. Returns all members.
    pub fn add_member(&self, peer_url: &str, patience: &Patience) -> Result<Vec<EtcdMember>, Error> {
        let request = json!({ "peerURLs": [peer_url], "isLearner": true });
        self.change_members("add", &request, patience, |members| {
            members.iter().any(|member| member.peer_urls.iter().any(|url| url == peer_url))
        })
    }

    /// Gives a member its vote, once it has caught up.
    pub fn promote_member(&self, id: u64, patience: &Patience) -> Result<(), Error> {
        let request = json!({ "ID": id.to_string() });
        let is_voter = |member: &EtcdMember| member.id == id && !member.is_learner;
        self.change_members("promote", &request, patience, |members| members.iter().any(is_voter)).map(drop)
    }

    /// Removes a member; nothing happens if it is not there.
    pub fn remove_member(&self, id: u64, patience: &Patience) -> Result<(), Error> {
        let request = json!({ "ID": id.to_string() });
        self.change_members("remove", &request, patience, |members| !members.iter().any(|m| m.id == id)).map(drop)
    }

    /// Makes a member the leader of the others, if it is not. Returns true if it was.
    pub fn lead_by(&self, own: &EtcdMember, members: &[EtcdMember]) -> Result<bool, Error> {
        let Some(url) = own.client_urls.first() else { return Ok(true) };
        let status = self.gateway.post_to(url, "/v3/maintenance/status", &json!({}))?;
        let leader = number(status.get("leader")).filter(|leader| *leader != own.id);
        let leader = leader.and_then(|leader| members.iter().find(|member| member.id == leader));
        let Some(url) = leader.and_then(|leader| leader.client_urls.first()) else { return Ok(true) };
        let request = json!({ "targetID": own.id.to_string() });
        self.gateway.post_to(url, "/v3/maintenance/transfer-leadership", &request).map(|_| false)
    }

    /// Repeats a request until the list of members shows what it does: etcd refuses changes while it is not healthy, as for a
    /// moment after each change, and the outcome of a request may be unknown.
    fn change_members(
        &self,
        what: &str,
        request: &Value,
        patience: &Patience,
        is_done: impl Fn(&[EtcdMember]) -> bool,
    ) -> Result<Vec<EtcdMember>, Error> {
        let until = Instant::now() + patience.time;
        loop {
            let outcome = match self.members() {
                Ok(members) if is_done(&members) => return Ok(members),
                Ok(_) => self.gateway.post(Kind::Change, &format!("/v3/cluster/member/{what}"), request).map(drop),
                Err(error) => Err(error),
            };
            match outcome {
                Ok(()) => {}
                Err(error) if Instant::now() >= until || patience.ended() => return Err(error),
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }
}

const PAUSE: Duration = Duration::from_millis(100);

fn members_of(reply: &Value) -> Vec<EtcdMember> {
    let members = reply.get("members").and_then(Value::as_array);
    members.into_iter().flatten().filter_map(EtcdMember::of).collect()
}
