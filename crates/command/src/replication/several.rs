//! A set of several members: beginning to be one of it, and what becomes of the server as its role changes.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use arbor_base::Position;
use arbor_bson::{Code, Doc, DocBuf, ValueRef};
use arbor_member::{Ask, Coordinators, Handle, Place, Server, Setup};
use arbor_protocol::log::{events, iso8601, now_ms};
use arbor_repl::coordinator::LocalFile;
use arbor_repl::isr::{Reconfiguration, Refusal, Status, Timing};
use arbor_repl::{
    Agreement, Election, Epoch, Identity, MemberId, Replaced, Replication, Role, SetConfig, StoreId, Version,
    majority_of, not_yet_initialized,
};
use arbor_txn::fetch::SyncProgress;
use arbor_txn::{CommitRule, Transactions};
use parking_lot::Mutex;

use crate::{Commands, Error, Result};

/// The server's part in a set of several members.
pub struct Membership {
    pub coordinators: Box<dyn Coordinators>,
    pub member: Arc<arbor_log::Member>,
    /// The file in which the agreement is kept for the next start.
    pub kept: PathBuf,
    /// For connections to other members.
    pub dialer: arbor_member::Dialer,
    /// For threads that outlive a request.
    pub commands: Arc<OnceLock<Arc<Commands>>>,
}

#[derive(Default)]
pub(crate) struct Several {
    membership: Option<Membership>,
    handle: OnceLock<Arc<Handle>>,
    /// The end of the log, and since when it is there.
    last_write: Mutex<Option<(Position, Instant)>>,
    /// Index builds of other members that this one continues.
    pub(crate) builds: Mutex<Vec<std::thread::JoinHandle<()>>>,
    /// One initiation at a time.
    beginning: Mutex<()>,
}

/// Operations that a change of role ends.
const KILLED_KINDS: &[&str] = &["insert", "update", "remove"];
/// Operations that an initial sync ends: the state that they read is replaced.
const READ_KINDS: &[&str] = &["query", "getmore", "command"];

impl Several {
    pub(crate) fn new(membership: Option<Membership>) -> Several {
        Several { membership, ..Several::default() }
    }

    /// The running member; `None`: the set has one member, or is not initiated.
    pub(crate) fn handle(&self) -> Option<&Arc<Handle>> {
        self.handle.get()
    }

    /// Returns true if nothing was written for that long; then the time begins again.
    pub(super) fn is_idle_for(&self, time: Duration, transactions: &Transactions, now: Instant) -> bool {
        let end = transactions.log().appended();
        let mut last = self.last_write.lock();
        let idle = last.is_some_and(|(position, since)| position == end && now.duration_since(since) >= time);
        if idle || last.is_none_or(|(position, _)| position != end) {
            *last = Some((end, now));
        }
        idle
    }

    pub(crate) fn describe_coordinator(&self) -> DocBuf {
        self.membership.as_ref().map(|own| own.coordinators.describe()).unwrap_or_default()
    }

    pub(crate) fn store(&self) -> Option<StoreId> {
        self.membership.as_ref().map(|own| StoreId(*own.member.store().as_bytes()))
    }
}

/// The server, as its member sees it.
struct Around(Weak<Commands>);

impl Server for Around {
    fn leads(&self, epoch: Epoch) {
        if let Some((commands, replication)) = self.commands().as_ref().and_then(with_replication) {
            commands.lead_several(replication, epoch);
        }
        if let Some(commands) = self.commands().filter(|commands| commands.is_primary()) {
            commands.continue_builds();
        }
    }

    fn retired(&self) {
        if let Some((commands, replication)) = self.commands().as_ref().and_then(with_replication) {
            commands.retire_several(replication);
        }
    }

    fn shown(&self, status: &Status) {
        if let Some((commands, replication)) = self.commands().as_ref().and_then(with_replication)
            && let Some(handle) = commands.several.handle()
        {
            replication.show(handle.own().id, status);
            commands.update_feed(replication);
            commands.role_changed();
        }
    }

    fn falls_behind(&self, from: MemberId) {
        let Some(commands) = self.commands() else { return };
        let attributes = DocBuf::new().with("syncSource", i64::from(from.0));
        commands.log.warn(events::MEMBER_TOO_STALE, "ReplCoord", attributes);
    }

    fn syncs(&self, syncing: bool) {
        let Some(commands) = self.commands() else { return };
        let Some(replication) = commands.replication.as_deref() else { return };
        replication.set_syncing(syncing);
        if syncing {
            commands.operations.kill_kinds(READ_KINDS);
        }
        commands.role_changed();
    }

    fn sync_continues(&self, source: &str, progress: &SyncProgress) {
        let Some(commands) = self.commands() else { return };
        let event = if progress.trees_done == 0 && progress.bytes == 0 {
            events::INITIAL_SYNC_BEGINS
        } else {
            events::INITIAL_SYNC_PROGRESS
        };
        commands.log.info(event, "ReplCoord", described(source, progress));
    }

    fn sync_failed(&self, source: &str, error: &str) {
        let Some(commands) = self.commands() else { return };
        let attributes = DocBuf::new().with("syncSource", source).with("error", error);
        commands.log.warn(events::INITIAL_SYNC_FAILED, "ReplCoord", attributes);
    }

    fn sync_ended(&self, source: &str, progress: &SyncProgress) {
        let Some(commands) = self.commands() else { return };
        commands.log.info(events::INITIAL_SYNC_ENDED, "ReplCoord", described(source, progress));
    }

    fn fetch_failed(&self, source: &str, error: &str) {
        let Some(commands) = self.commands() else { return };
        let attributes = DocBuf::new().with("syncSource", source).with("error", error);
        commands.log.warn(events::TREE_FETCH_FAILED, "ReplCoord", attributes);
    }

    fn coordinator_fails(&self, error: &str) {
        let Some(commands) = self.commands() else { return };
        commands.log.warn(events::COORDINATOR_FAILS, "ReplCoord", DocBuf::new().with("error", error));
    }

    fn failed(&self, reason: &str) {
        let Some(commands) = self.commands() else { return };
        commands.log.error(events::MEMBER_FAILED, "ReplCoord", DocBuf::new().with("error", reason));
        commands.host.shut_down();
    }
}

fn described(source: &str, progress: &SyncProgress) -> DocBuf {
    DocBuf::new()
        .with("syncSource", source)
        .with("position", progress.position.0 as i64)
        .with("trees", progress.trees as i64)
        .with("treesDone", progress.trees_done as i64)
        .with("treesResumed", progress.resumed as i64)
        .with("rows", progress.rows as i64)
        .with("bytes", progress.bytes as i64)
        .with("durationMillis", progress.elapsed.as_millis() as i64)
}

impl Around {
    fn commands(&self) -> Option<Arc<Commands>> {
        self.0.upgrade()
    }
}

fn with_replication(commands: &Arc<Commands>) -> Option<(&Commands, &Replication)> {
    Some((commands, commands.replication.as_deref()?))
}

fn incompatible(text: impl Into<String>) -> Error {
    Error::new(Code::NEW_REPLICA_SET_CONFIGURATION_INCOMPATIBLE, text.into())
}

/// Says why a member that is not the primary cannot replace the configuration by force: what was acknowledged would be lost, or another member needs none.
fn cannot_force(own: Identity, agreement: &Agreement, config: &SetConfig) -> Error {
    let host = |member: &Identity| config.members.iter().find(|other| other.id == i64::from(member.id.0));
    let hosts: Vec<&str> = agreement.in_sync.iter().filter_map(host).map(|member| member.host.as_str()).collect();
    let text = match agreement.is_in_sync(own) {
        true => {
            "this member is in sync: it takes over by itself once the primary is silent; try again when a member leads"
                .to_owned()
        }
        false => format!(
            "this member is not in sync and may miss acknowledged writes: start one of {} again, or the set again from this member's data",
            hosts.join(", ")
        ),
    };
    incompatible(format!("force accepts no loss of acknowledged writes: {text}"))
}

fn failed(reason: &dyn std::fmt::Display) -> Error {
    Error::new(Code::OPERATION_FAILED, format!("cannot reach the coordinator of the set: {reason}"))
}

fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::NotPrimary => arbor_repl::not_primary().into(),
        Refusal::Busy => {
            Error::new(Code::CONFIGURATION_IN_PROGRESS, "another change of the replica set is not finished")
        }
        Refusal::TooManyChanges => {
            incompatible("Non force replica set reconfig can only add or remove at most 1 voting member.")
        }
        Refusal::RemovesPrimary => Error::new(
            Code::NODE_NOT_ELECTABLE,
            "the primary cannot remove itself, or its vote: have it step down first",
        ),
        Refusal::TooFewInSync => incompatible("the set would have fewer members in sync than a majority of its voters"),
        Refusal::NoSuccessor => Error::new(Code::EXCEEDED_TIME_LIMIT, "no electable secondary caught up"),
    }
}

impl Commands {
    fn membership(&self) -> Result<&Membership> {
        self.several.membership.as_ref().ok_or_else(|| incompatible("this server cannot be a member of several"))
    }

    /// Begins to be a member of several, as the agreement says.
    pub(super) fn begin_several(&self, replication: &Replication, known: (Version, Agreement)) -> Result<()> {
        let _one_at_a_time = self.several.beginning.lock();
        if self.several.handle().is_some() {
            return Ok(());
        }
        let membership = self.membership()?;
        let config = SetConfig::parse(Doc::trusted(&known.1.config))?;
        let id = replication.own_id(&config).ok_or_else(|| {
            let text =
                format!("No host described in the configuration of replica set {} maps to this node", config.name);
            Error::new(Code::NODE_NOT_FOUND, text)
        })?;
        let own = Identity { id, store: StoreId(*membership.member.store().as_bytes()) };
        let coordinator = coordinator_of(membership, &config, id, false)?;
        let commands = membership.commands.get().ok_or_else(|| incompatible("the server is starting"))?;
        LocalFile::new(membership.kept.clone()).keep(known.0, &known.1).map_err(|error| failed(&error))?;
        let setup = Setup {
            set: replication.name().to_owned(),
            own,
            agreement: known,
            transactions: self.database.transactions.clone(),
            member: membership.member.clone(),
            coordinator,
            kept: LocalFile::new(membership.kept.clone()),
            server: Arc::new(Around(Arc::downgrade(commands))),
            timing: Timing::default(),
            dialer: membership.dialer.clone(),
            is_new: replication.kept().is_none(),
        };
        if self.database.transactions.is_syncing() {
            replication.set_syncing(true);
        }
        let handle = Handle::start(setup).map_err(|error| failed(&error))?;
        replication.show(id, &handle.status());
        let _first = self.several.handle.set(handle);
        self.role_changed();
        Ok(())
    }

    /// Initiates a set of several members: this one has the data, the others are empty.
    pub(crate) fn initiate_several(&self, replication: &Replication, config: &SetConfig) -> Result<()> {
        let membership = self.membership()?;
        let id = replication.own_id(config).ok_or_else(not_yet_initialized)?;
        self.check_others(config, id)?;
        let coordinator = coordinator_of(membership, config, id, true)?;
        let transactions = &self.database.transactions;
        let log = transactions.log();
        let last = if log.appended() < log.first() { 0 } else { log.epoch_at(log.appended()).unwrap_or(1) };
        let epoch = Epoch(membership.member.epoch().max(last)).next();
        let store = StoreId(*membership.member.store().as_bytes());
        let agreement = founding(Identity { id, store }, epoch, config);
        let version = match coordinator.replace(None, &agreement).map_err(|error| failed(&error))? {
            Replaced::Done(version) => version,
            Replaced::Stale => {
                let text = format!("the coordinator has an agreement of a set {} already", config.name);
                return Err(Error::new(Code::ALREADY_INITIALIZED, text));
            }
            Replaced::Unknown => return Err(failed(&"it did not answer; try again")),
        };
        self.follow_from_now()?;
        self.begin_several(replication, (version, agreement))
    }

    /// At the end of the process.
    pub fn end_membership(&self) {
        self.several.handle().iter().for_each(|handle| handle.stop());
    }

    /// Makes the data of a set of one that of several, from now on.
    pub(crate) fn follow_from_now(&self) -> Result<()> {
        let transactions = &self.database.transactions;
        if transactions.is_leading() {
            transactions.set_rule(CommitRule::Set)?;
            transactions.stop_leading();
        }
        Ok(())
    }

    /// Checks that all other members are there, empty, and of this set.
    fn check_others(&self, config: &SetConfig, own: MemberId) -> Result<()> {
        let others = config.members.iter().filter(|member| member.id != i64::from(own.0) && !member.arbiter);
        let hosts: Vec<&str> = others.map(|member| member.host.as_str()).collect();
        let ask = |host: &&str| self.probe(&config.name, host).map_err(|reason| format!("{host} failed with {reason}"));
        let answers: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = hosts.iter().map(|host| scope.spawn(move || ask(host))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a panic".to_owned()))).collect()
        });
        let missing: Vec<&String> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
        if !missing.is_empty() {
            let list = missing.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let text = format!(
                "replSetInitiate quorum check failed because not all proposed set members responded affirmatively: {list}"
            );
            return Err(Error::new(Code::NODE_NOT_FOUND, text));
        }
        let mut stores: Vec<StoreId> = answers.into_iter().flatten().chain(self.several.store()).collect();
        stores.sort_unstable();
        match stores.is_sorted_by(|one, next| one != next) {
            true => Ok(()),
            false => Err(incompatible(
                "two members have the data of one: the directory of one was copied, or one is named twice",
            )),
        }
    }

    /// Asks a server whether it can become a member; returns the identity of its data.
    pub(crate) fn probe(&self, set: &str, host: &str) -> std::result::Result<StoreId, String> {
        let dialer = &self.membership().map_err(|error| error.to_string())?.dialer;
        let reply = arbor_member::ask(host, set, &Ask::Probe, dialer).map_err(|error| error.to_string())?;
        self.judge(&reply)
    }

    /// Reads the answer to a probe.
    fn judge(&self, reply: &DocBuf) -> std::result::Result<StoreId, String> {
        let said = |name| matches!(reply.get(name), Some(ValueRef::Bool(true)));
        if said("initiated") {
            return Err("it is a member of a set already".to_owned());
        }
        if !said("empty") {
            return Err("it has data: only the server that initiates the set may have some".to_owned());
        }
        match reply.get("store") {
            Some(ValueRef::Binary { bytes, .. }) => {
                bytes.try_into().map(StoreId).map_err(|_| "its data has no identity".to_owned())
            }
            _ => Err("its data has no identity".to_owned()),
        }
    }

    /// Changes the configuration of several members, or of one that gets others.
    pub(crate) fn reconfigure_several(
        &self,
        replication: &Replication,
        config: &SetConfig,
        forced: bool,
    ) -> Result<()> {
        let before = replication.state().config.ok_or_else(not_yet_initialized)?;
        let known = |host: &str| before.members.iter().any(|member| member.host == host);
        for member in config.members.iter().filter(|member| !member.arbiter && !known(&member.host)) {
            self.check_newcomer(config, &member.host)?;
        }
        let Some(handle) = self.several.handle() else { return self.grow(replication, config) };
        let status = handle.status();
        let (_, agreement) = status.known.as_ref().ok_or_else(not_yet_initialized)?;
        if forced && !status.is_primary {
            return Err(cannot_force(handle.own(), agreement, &before));
        }
        let voters = config.in_sync_voters();
        let stays = |member: &&Identity| voters.iter().any(|voter| voter.id == member.id);
        let in_sync = agreement.in_sync.iter().filter(stays).count();
        // Newcomers count when they are in sync: the member's thread raises it then.
        let min_in_sync = majority_of(voters.len()).min(in_sync.max(1));
        let config = config.to_doc(status.epoch.0 as i64).as_bytes().to_vec();
        match handle.reconfigure(Reconfiguration { voters, min_in_sync, config, forced }) {
            Some(Ok(())) => Ok(()),
            Some(Err(refusal)) => Err(refused(refusal)),
            None => Err(failed(&"it is not known yet whether the configuration was changed")),
        }
    }

    fn check_newcomer(&self, config: &SetConfig, host: &str) -> Result<()> {
        let dialer = &self.membership()?.dialer;
        // A member that cannot be reached yet joins later.
        let Ok(reply) = arbor_member::ask(host, &config.name, &Ask::Probe, dialer) else { return Ok(()) };
        let same = matches!((reply.get("setId"), config.settings.set_id), (Some(ValueRef::ObjectId(id)), Some(own)) if id == own);
        match self.judge(&reply) {
            Err(_) if same => Ok(()),
            Err(reason) => Err(incompatible(format!("{host} cannot be added: {reason}"))),
            Ok(_) => Ok(()),
        }
    }

    /// A set of one gets other members.
    fn grow(&self, replication: &Replication, config: &SetConfig) -> Result<()> {
        let membership = self.membership()?;
        let id = replication.own_id(config).ok_or_else(not_yet_initialized)?;
        let coordinator = coordinator_of(membership, config, id, true)?;
        let log = self.database.transactions.log();
        let last = log.epoch_at(log.appended()).unwrap_or(1);
        let epoch = Epoch(membership.member.epoch().max(last)).next();
        let store = StoreId(*membership.member.store().as_bytes());
        let agreement = Agreement { min_in_sync: 1, ..founding(Identity { id, store }, epoch, config) };
        let version = match coordinator.replace(None, &agreement).map_err(|error| failed(&error))? {
            Replaced::Done(version) => version,
            Replaced::Stale => {
                return Err(incompatible(format!("the coordinator has an agreement of a set {} already", config.name)));
            }
            Replaced::Unknown => return Err(failed(&"it did not answer; try again")),
        };
        self.change_role(replication, Role::Secondary, None, None);
        self.follow_from_now()?;
        self.begin_several(replication, (version, agreement))
    }

    /// Another member says that this one belongs to its set.
    pub(crate) fn join(&self, replication: &Replication, known: (Version, Agreement)) -> Result<()> {
        if self.several.handle().is_some() {
            return Ok(());
        }
        if replication.is_initiated() || !self.is_empty_member() {
            return Err(Error::new(Code::ALREADY_INITIALIZED, "this server has data of its own"));
        }
        self.begin_several(replication, known)
    }

    /// Returns true if nothing was ever written here.
    pub(crate) fn is_empty_member(&self) -> bool {
        let log = self.database.transactions.log();
        log.appended() < log.first() && !self.database.transactions.is_leading()
    }

    /// The epoch has begun here: everything before it is applied.
    fn lead_several(&self, replication: &Replication, epoch: Epoch) {
        // They end soon: another member may have continued them.
        self.end_earlier_builds();
        if let Err(error) = self.database.store.lead() {
            self.log.warn(events::ROLE_NOT_WRITTEN, "ReplCoord", DocBuf::new().with("error", &error.to_string()));
            return;
        }
        self.sessions.forget_terms();
        self.attempt(self.load_defaults(replication));
        self.attempt(self.read_cluster_parameters());
        self.attempt(self.read_feature_version());
        // What the primary before knew is in rows. Without it every request of a router would be refused as stale.
        if let Err(error) = self.begin_sharding() {
            self.log.warn(events::ROLE_NOT_WRITTEN, "ReplCoord", DocBuf::new().with("error", &error.to_string()));
            return;
        }
        let serves = || self.several.handle().is_some_and(|handle| handle.status().serves == Some(epoch));
        // Published by the member's thread a moment later.
        for _ in 0..100 {
            if serves() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if !serves() {
            return;
        }
        let election = Election { at_ms: now_ms(), time: self.database.transactions.time() };
        self.change_role(replication, Role::Primary, Some(election), None);
        self.note(&DocBuf::new().with("msg", "new primary"));
    }

    /// Clients no longer write here: what writes is interrupted, open transactions end.
    fn retire_several(&self, replication: &Replication) {
        // First: errors of what is interrupted have the topology version of the new role.
        self.change_role(replication, Role::Secondary, None, None);
        self.operations.kill_kinds(KILLED_KINDS);
        self.database.store.break_off_builds();
        // Another member changes the rows of sessions from now on.
        self.sessions.forget_terms();
        self.database.store.forget_prepared();
    }
}

impl Commands {
    /// Hands over to another member.
    pub(crate) fn step_down_several(
        &self,
        handle: &Handle,
        frozen: Duration,
        wait: Duration,
        force: bool,
    ) -> Result<()> {
        match handle.step_down(None, wait, frozen, force) {
            Some(Ok(())) => Ok(()),
            Some(Err(Refusal::NoSuccessor)) => Err(no_successor()),
            Some(Err(refusal)) => Err(refused(refusal)),
            None => Err(failed(&"it is not known yet who leads")),
        }
    }
}

/// MongoDB's error for a step-down without a successor.
pub(crate) fn no_successor() -> Error {
    let text = format!(
        "No electable secondaries caught up as of {}. Please use the replSetStepDown command with the argument \
         {{force: true}} to force node to step down.",
        iso8601(now_ms())
    );
    Error::new(Code::EXCEEDED_TIME_LIMIT, text)
}

/// Returns the coordinator of the set of a configuration; `founds`: the set of several members begins here.
fn coordinator_of(
    membership: &Membership,
    config: &SetConfig,
    own: MemberId,
    founds: bool,
) -> Result<Arc<dyn arbor_repl::Coordinator>> {
    let voters = config.members.iter().filter(|member| member.votes > 0 && !member.arbiter);
    let hosts: Vec<String> = voters.map(|member| member.host.clone()).collect();
    let own = config.members.iter().find(|member| member.id == i64::from(own.0)).map_or("", |member| &member.host);
    let place = Place { set: &config.name, own, hosts: &hosts, founds };
    membership.coordinators.open(&place).map_err(|error| failed(&error))
}

/// Returns the first agreement of several members.
pub(crate) fn founding(founder: Identity, epoch: Epoch, config: &SetConfig) -> Agreement {
    let voters = config.in_sync_voters();
    let min_in_sync = majority_of(voters.len());
    let config = config.to_doc(epoch.0 as i64);
    Agreement { epoch, min_in_sync, ..Agreement::founding(founder, voters, &config) }
}
