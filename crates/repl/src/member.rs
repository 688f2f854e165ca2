//! This server as a member of a replica set.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arbor_base::Position;
use arbor_bson::{Code, Doc};
use arbor_protocol::write_concern::{WriteConcern, WriteConcernSpec};
use arbor_protocol::{Error, Result};
use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;

use crate::agreement::{Agreement, Epoch, MemberId, Version};
use crate::config::{Member, SetConfig, invalid};
use crate::coordinator::{Coordinator, LocalFile, Replaced};
use crate::defaults::Defaults;
use crate::isr::Status;
use crate::last_write::{LastSeen, OpTime};
use crate::own_address::OwnAddress;
use crate::write_concern::on_member;

/// The member, shared by all connections.
pub struct Replication {
    /// From the command line.
    name: String,
    own: OwnAddress,
    coordinator: Box<dyn Coordinator>,
    state: Mutex<MemberState>,
    /// Copy of the role in `state`, read by every command.
    is_primary: AtomicBool,
    is_initiated: AtomicBool,
    /// Copy of the configuration in `state`, read by every write.
    config: ArcSwapOption<SetConfig>,
    defaults: ArcSwap<Defaults>,
    /// The set has, or had, several members: the agreement is at a coordinator that they share.
    is_of_several: AtomicBool,
    is_syncing: AtomicBool,
    /// The agreement of several, as it was known at the last end of the process.
    kept: Option<(Version, Agreement)>,
    last_seen: LastSeen,
}

/// MongoDB's states of a member, those that a member here can be in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The set is not initiated.
    #[default]
    Startup,
    Primary,
    /// Stepped down.
    Secondary,
    /// Copies the data of another member: nothing can be read here.
    Startup2,
    /// The configuration does not name this member.
    Removed,
}

/// State of the member at one moment.
#[derive(Clone, Debug, Default)]
pub struct MemberState {
    pub role: Role,
    pub revision: i64,
    pub term: i64,
    pub config: Option<Arc<SetConfig>>,
    /// Index of this member in the configuration.
    pub own_index: Option<usize>,
    /// Index of the primary, of several members.
    pub primary: Option<usize>,
    pub election: Option<Election>,
    pub stepped_down_until: Option<Instant>,
}

/// Time at which this member became primary.
#[derive(Clone, Copy, Debug)]
pub struct Election {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// The hybrid time.
    pub time: u64,
}

impl Role {
    /// MongoDB's number and name.
    pub fn code(self) -> (i32, &'static str) {
        match self {
            Role::Startup => (0, "STARTUP"),
            Role::Primary => (1, "PRIMARY"),
            Role::Secondary => (2, "SECONDARY"),
            Role::Startup2 => (5, "STARTUP2"),
            Role::Removed => (10, "REMOVED"),
        }
    }
}

impl MemberState {
    /// The configuration's entry for this member.
    pub fn own(&self) -> Option<&Member> {
        self.config.as_ref()?.members.get(self.own_index?)
    }
}

const EPOCH_OF_ONE: i64 = 1;

const FREEZE_MAX: Duration = Duration::from_secs(u32::MAX as u64);

impl Replication {
    /// Opens the member whose data is in `directory`. It becomes primary only by [`Replication::set_role`].
    pub fn open(name: &str, own: OwnAddress, directory: &Path) -> std::io::Result<Replication> {
        Replication::of(name, own, Box::new(LocalFile::new(directory.join(KEPT_FILE))))
    }

    pub fn of(name: &str, own: OwnAddress, coordinator: Box<dyn Coordinator>) -> std::io::Result<Replication> {
        let mut replication = Replication {
            name: name.to_owned(),
            own,
            state: Mutex::default(),
            is_primary: AtomicBool::new(false),
            is_initiated: AtomicBool::new(false),
            config: ArcSwapOption::default(),
            defaults: ArcSwap::default(),
            is_of_several: AtomicBool::new(false),
            is_syncing: AtomicBool::new(false),
            kept: None,
            last_seen: LastSeen::default(),
            coordinator,
        };
        if let Some((version, agreement)) = replication.coordinator.read()? {
            let config = SetConfig::parse(Doc::trusted(&agreement.config))
                .map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error.message))?;
            replication.adopt(version, agreement.epoch, config);
            if !agreement.voters.is_empty() {
                replication.is_of_several.store(true, Ordering::Release);
                replication.kept = Some((version, agreement));
            }
        }
        Ok(replication)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn is_primary(&self) -> bool {
        self.is_primary.load(Ordering::Acquire)
    }

    /// Returns true if the set has several members, or had.
    pub fn is_of_several(&self) -> bool {
        self.is_of_several.load(Ordering::Acquire)
    }

    pub fn kept(&self) -> Option<&(Version, Agreement)> {
        self.kept.as_ref()
    }

    /// This member's id in a configuration.
    pub fn own_id(&self, config: &SetConfig) -> Option<MemberId> {
        let own = config.members.get(self.own_index(config)?)?;
        u32::try_from(own.id).ok().map(MemberId)
    }

    /// Shows what became of a member of several. It becomes primary by [`Replication::set_role`] only; returns true if it was until now.
    pub fn show(&self, own: MemberId, status: &Status) -> bool {
        let grows = !self.is_of_several.swap(true, Ordering::AcqRel);
        let known = status.known.as_ref();
        let config = known.and_then(|(_, agreement)| SetConfig::parse(Doc::trusted(&agreement.config)).ok());
        let mut state = self.state.lock();
        state.term = status.epoch.0 as i64;
        if grows {
            // The coordinator is another one: its versions begin again, and nothing of it is known yet.
            state.revision = 0;
        }
        if let (Some((version, _)), Some(config)) = (known, config)
            && state.revision != version.0 as i64
        {
            state.revision = version.0 as i64;
            state.own_index = config.members.iter().position(|member| member.id == i64::from(own.0));
            let config = Arc::new(config);
            self.config.store(Some(config.clone()));
            state.config = Some(config);
            self.is_initiated.store(true, Ordering::Release);
        }
        let index =
            |id: MemberId| state.config.as_ref()?.members.iter().position(|member| member.id == i64::from(id.0));
        state.primary = status.primary.and_then(index);
        let was_primary = state.role == Role::Primary;
        state.role = match state.own_index {
            None => Role::Removed,
            Some(_) if was_primary && status.serves.is_some() => Role::Primary,
            Some(_) if self.is_syncing() || status.has_nothing() => Role::Startup2,
            Some(_) => Role::Secondary,
        };
        self.is_primary.store(state.role == Role::Primary, Ordering::Release);
        was_primary && state.role != Role::Primary
    }

    /// An initial sync begins or ends: meanwhile the member has no state that can be read.
    pub fn set_syncing(&self, syncing: bool) {
        let mut state = self.state.lock();
        self.is_syncing.store(syncing, Ordering::Release);
        state.role = match state.role {
            Role::Secondary if syncing => Role::Startup2,
            Role::Startup2 if !syncing => Role::Secondary,
            role => role,
        };
    }

    pub fn is_syncing(&self) -> bool {
        self.is_syncing.load(Ordering::Acquire)
    }

    pub fn is_initiated(&self) -> bool {
        self.is_initiated.load(Ordering::Acquire)
    }

    pub fn defaults(&self) -> arc_swap::Guard<Arc<Defaults>> {
        self.defaults.load()
    }

    pub fn put_defaults(&self, defaults: Defaults) {
        self.defaults.store(Arc::new(defaults));
    }

    /// Returns the meaning of a write concern in this set.
    pub fn resolve(&self, given: WriteConcernSpec<'_>) -> WriteConcern {
        on_member(given, self.config.load().as_deref())
    }

    /// Returns true if the stepdown period has expired.
    pub fn may_resume_primary(&self, now: Instant) -> bool {
        self.state.lock().stepped_down_until.is_some_and(|until| now >= until)
    }

    /// Extends the stepdown period.
    pub fn freeze(&self, time: Duration) {
        let mut state = self.state.lock();
        let until = Instant::now() + time.min(FREEZE_MAX);
        state.stepped_down_until = state.stepped_down_until.max(Some(until));
    }

    /// 1 as long as the set has one member.
    pub fn term(&self) -> i64 {
        self.state.lock().term.max(EPOCH_OF_ONE)
    }

    pub fn state(&self) -> MemberState {
        self.state.lock().clone()
    }

    /// Makes the first configuration of a set of one, as [`Replication::first_config`] returned it.
    pub fn initiate(&self, config: SetConfig) -> Result<()> {
        assert_eq!(config.members.len(), 1, "the members of several share a coordinator");
        self.agree(config, 0, EPOCH_OF_ONE)
    }

    /// Returns the first configuration, of what a client sent or, without it, of this member alone.
    pub fn first_config(&self, given: Option<Doc<'_>>) -> Result<SetConfig> {
        if self.state.lock().config.is_some() {
            return Err(Error::new(Code::ALREADY_INITIALIZED, "already initialized"));
        }
        let config = match given {
            Some(doc) => SetConfig::parse(doc)?,
            None => SetConfig::of_one(&self.name, self.own.default_host()),
        };
        if config.name != self.name {
            return Err(invalid(format!(
                "Attempting to initiate a replica set with name {}, but command line reports {}; rejecting",
                config.name, self.name
            )));
        }
        if config.version != 1 {
            return Err(Error::new(
                Code::NEW_REPLICA_SET_CONFIGURATION_INCOMPATIBLE,
                format!(
                    "Configuration used to initiate a replica set must have version 1, but the supplied version is {}",
                    config.version
                ),
            ));
        }
        self.check_members(&config)?;
        Ok(SetConfig { settings: config.settings.clone().identified(), ..config })
    }

    /// Replaces the configuration of a set of one by another of one, as [`Replication::next_config`] returned it.
    pub fn reconfigure(&self, config: SetConfig) -> Result<()> {
        assert_eq!(config.members.len(), 1, "the members of several share a coordinator");
        let (revision, term) = {
            let state = self.state.lock();
            (state.revision, state.term)
        };
        self.agree(config, revision, term)
    }

    /// Returns the configuration that follows the present one.
    pub fn next_config(&self, doc: Doc<'_>, force: bool) -> Result<SetConfig> {
        let before = self.state.lock().config.clone().ok_or_else(not_yet_initialized)?;
        let mut config = SetConfig::parse(doc)?;
        let incompatible = |text: String| Error::new(Code::NEW_REPLICA_SET_CONFIGURATION_INCOMPATIBLE, text);
        if config.name != before.name {
            return Err(incompatible(format!(
                "New and old configurations differ in replica set name; old was {}, and new is {}",
                before.name, config.name
            )));
        }
        if force {
            let jump = 10_000 + i64::from(rand::random::<u16>());
            config.version = (before.version.max(config.version) + jump).min(i64::from(i32::MAX));
        }
        if config.version <= before.version {
            return Err(incompatible(format!(
                "version field value of {} is not greater than that of the current configuration, {}",
                config.version, before.version
            )));
        }
        if config.settings.set_id.is_some() && config.settings.set_id != before.settings.set_id {
            return Err(incompatible("New and old configurations differ in replica set ID".to_owned()));
        }
        self.check_members(&config)?;
        config.settings.set_id = before.settings.set_id;
        Ok(config)
    }

    /// Checks that this member is one of the configuration, and may lead.
    fn check_members(&self, config: &SetConfig) -> Result<()> {
        let own = self.own_index(config).ok_or_else(|| {
            Error::new(
                Code::NODE_NOT_FOUND,
                format!(
                    "No host described in new configuration with {{version: {}}} for replica set {} maps to this node",
                    config.version, config.name
                ),
            )
        })?;
        match config.members.get(own) {
            Some(member) if member.is_electable() => Ok(()),
            _ => Err(Error::new(Code::NODE_NOT_ELECTABLE, "This node is not electable under the new configuration")),
        }
    }

    fn own_index(&self, config: &SetConfig) -> Option<usize> {
        config.members.iter().position(|member| self.own.is_at(&member.host))
    }

    fn agree(&self, config: SetConfig, revision: i64, epoch: i64) -> Result<()> {
        let expected = u64::try_from(revision).ok().filter(|revision| *revision > 0).map(Version);
        let epoch = Epoch(epoch as u64);
        let next = Agreement::of_one(epoch, config.to_doc(epoch.0 as i64).as_doc());
        let failed = |reason: String| {
            Error::new(Code::OPERATION_FAILED, format!("cannot persist the new configuration: {reason}"))
        };
        match self.coordinator.replace(expected, &next).map_err(|error| failed(error.to_string()))? {
            Replaced::Done(version) => {
                self.adopt(version, epoch, config);
                Ok(())
            }
            Replaced::Stale => {
                let text = "concurrent reconfiguration of the replica set";
                Err(Error::new(Code::CONFIGURATION_IN_PROGRESS, text))
            }
            Replaced::Unknown => Err(failed("it is not known to be durable".to_owned())),
        }
    }

    fn adopt(&self, version: Version, epoch: Epoch, config: SetConfig) {
        let own_index = if config.name == self.name { self.own_index(&config) } else { None };
        let mut state = self.state.lock();
        state.revision = version.0 as i64;
        state.term = epoch.0 as i64;
        let config = Arc::new(config);
        self.config.store(Some(config.clone()));
        state.config = Some(config);
        state.own_index = own_index;
        state.role = match (own_index, state.role) {
            (None, _) => Role::Removed,
            (Some(_), Role::Primary) => Role::Primary,
            (Some(_), Role::Startup2) => Role::Startup2,
            (Some(_), _) => Role::Secondary,
        };
        self.is_primary.store(state.role == Role::Primary, Ordering::Release);
        self.is_initiated.store(true, Ordering::Release);
    }

    /// Returns the time of the last write at or before a position; `read` finds it.
    pub fn time_at(&self, position: Position, read: impl FnOnce(Option<OpTime>) -> OpTime) -> OpTime {
        self.last_seen.at(position, read)
    }

    /// Puts the member into a role; returns the one before.
    pub fn set_role(&self, role: Role, election: Option<Election>, until: Option<Instant>) -> Role {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.role, role);
        state.election = election;
        state.stepped_down_until = until;
        self.is_primary.store(role == Role::Primary, Ordering::Release);
        before
    }
}

/// In the data directory.
pub const KEPT_FILE: &str = "arbor.replset";

/// Returns true if the data in `directory` is that of a member.
pub fn was_initiated(directory: &Path) -> bool {
    directory.join(KEPT_FILE).exists()
}

/// Returns true if the data in `directory` is that of a member of several. A file that cannot be read counts: what the log has beyond the
/// engine is then not taken for committed.
pub fn is_of_several(directory: &Path) -> bool {
    match LocalFile::new(directory.join(KEPT_FILE)).read() {
        Ok(None) => false,
        Ok(Some((_, agreement))) => !agreement.voters.is_empty(),
        Err(_) => true,
    }
}

pub fn not_yet_initialized() -> Error {
    Error::new(Code::NOT_YET_INITIALIZED, "no replset config has been received")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(directory: &Path) -> Replication {
        let own = OwnAddress { names: vec!["127.0.0.1".to_owned()], port: 4711 };
        Replication::open("rs", own, directory).unwrap()
    }

    fn code(outcome: Result<()>) -> i32 {
        outcome.unwrap_err().code.0
    }

    #[test]
    fn a_set_is_initiated_once_and_for_all() {
        let dir = tempfile::tempdir().unwrap();
        let one = member(dir.path());
        assert_eq!((one.state().role, one.is_primary(), was_initiated(dir.path())), (Role::Startup, false, false));
        one.initiate(one.first_config(None).unwrap()).unwrap();
        assert_eq!(one.state().own().unwrap().host, "127.0.0.1:4711");
        assert_eq!((one.state().role, one.term(), was_initiated(dir.path())), (Role::Secondary, 1, true));
        assert_eq!(code(one.first_config(None).map(drop)), 23);
        let again = member(dir.path());
        assert_eq!(again.state().config, one.state().config);
        assert_eq!(code(again.first_config(None).map(drop)), 23);
    }

    #[test]
    fn what_does_not_fit_is_not_initiated() {
        let dir = tempfile::tempdir().unwrap();
        let one = member(dir.path());
        let with = |name: &str, hosts: &[&str]| {
            let mut config = SetConfig::of_one(name, hosts[0].to_owned());
            let more = hosts.iter().enumerate().skip(1);
            let member = |(id, host): (usize, &&str)| Member {
                id: id as i64,
                host: (*host).to_owned(),
                ..config.members[0].clone()
            };
            let more: Vec<Member> = more.map(member).collect();
            config.members.extend(more);
            code(one.first_config(Some(config.to_doc(0).as_doc())).map(drop))
        };
        assert_eq!(with("other", &["127.0.0.1:4711"]), 93);
        assert_eq!(with("rs", &["127.0.0.1:4712"]), 74);
        assert_eq!(one.state().role, Role::Startup);
    }

    #[test]
    fn a_set_of_one_that_grows_shows_its_members() {
        let dir = tempfile::tempdir().unwrap();
        let one = member(dir.path());
        one.initiate(one.first_config(None).unwrap()).unwrap();
        let mut config = SetConfig::of_one("rs", "127.0.0.1:4711".to_owned());
        config.version = 2;
        let first = config.members[0].clone();
        config.members.push(Member { id: 1, host: "127.0.0.1:4712".to_owned(), votes: 0, priority: 0.0, ..first });
        let founder = crate::Identity { id: MemberId(0), store: crate::StoreId(1u128.to_be_bytes()) };
        let agreement = Agreement::founding(founder, config.in_sync_voters(), &config.to_doc(2));
        // The new coordinator's first version is that of the file of one.
        let version = Version(one.state().revision as u64);
        let status = Status {
            is_primary: true,
            serves: None,
            epoch: agreement.epoch,
            primary: Some(MemberId(0)),
            source: None,
            last: crate::isr::Place { position: Position(0), epoch: agreement.epoch },
            durable: Position(0),
            commit: Position(0),
            known: Some((version, agreement)),
        };
        one.show(MemberId(0), &Status { known: None, ..status.clone() });
        assert_eq!(one.state().config.unwrap().members.len(), 1);
        one.show(MemberId(0), &status);
        assert_eq!(one.state().config.unwrap().members.len(), 2);
    }

    #[test]
    fn a_member_without_any_record_is_no_secondary() {
        let dir = tempfile::tempdir().unwrap();
        let one = member(dir.path());
        let config = SetConfig::of_one("rs", "localhost:4711".to_owned());
        let founder = crate::Identity { id: MemberId(0), store: crate::StoreId(1u128.to_be_bytes()) };
        let agreement = Agreement::founding(founder, config.in_sync_voters(), &config.to_doc(2));
        let at = |position| Status {
            is_primary: false,
            serves: None,
            epoch: agreement.epoch,
            primary: None,
            source: None,
            last: crate::isr::Place { position: Position(position), epoch: agreement.epoch },
            durable: Position(position),
            commit: Position(position),
            known: Some((Version(1), agreement.clone())),
        };
        for (position, expect) in [(0, Role::Startup2), (1, Role::Secondary)] {
            one.show(MemberId(0), &at(position));
            assert_eq!(one.state().role, expect, "{position}");
        }
    }

    #[test]
    fn configurations_follow_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let one = member(dir.path());
        let doc = |version: i64| {
            let mut config = SetConfig::of_one("rs", "localhost:4711".to_owned());
            config.version = version;
            config.to_doc(1)
        };
        assert_eq!(code(one.next_config(doc(2).as_doc(), false).map(drop)), 94);
        one.initiate(one.first_config(None).unwrap()).unwrap();
        assert_eq!(code(one.next_config(doc(1).as_doc(), false).map(drop)), 103);
        one.reconfigure(one.next_config(doc(2).as_doc(), false).unwrap()).unwrap();
        let state = one.state();
        assert_eq!((state.own().unwrap().host.as_str(), state.revision), ("localhost:4711", 2));
        one.reconfigure(one.next_config(doc(1).as_doc(), true).unwrap()).unwrap();
        assert!(one.state().config.unwrap().version > 10_000);
    }
}
