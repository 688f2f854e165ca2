//! The configuration of a set: read from what a client sends, checked, and written with every field that MongoDB writes.

use std::collections::BTreeSet;

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ObjectId, ValueRef};
use arbor_protocol::arguments::Field;
use arbor_protocol::topology::new_object_id;
use arbor_protocol::{Error, Result};

use crate::agreement::{MemberId, Voter};

/// MongoDB's limits.
const MEMBERS_MAX: usize = 50;
const VOTERS_MAX: usize = 7;
const MEMBER_ID_MAX: i64 = 255;
/// Name of the horizon of clients whose name for the server is no horizon's.
const DEFAULT_HORIZON: &str = "__default";

#[derive(Clone, Debug, PartialEq)]
pub struct SetConfig {
    pub name: String,
    pub version: i64,
    pub members: Vec<Member>,
    pub settings: Settings,
    /// `writeConcernMajorityJournalDefault`.
    pub majority_is_journaled: bool,
    /// That of a config server's set.
    pub config_server: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    pub id: i64,
    pub host: String,
    pub arbiter: bool,
    pub build_indexes: bool,
    pub hidden: bool,
    pub priority: f64,
    pub tags: Vec<(String, String)>,
    /// Hosts and ports under which clients of other networks reach the member, by the name of the network; each network has a name for
    /// each member or for none.
    pub horizons: Vec<(String, String)>,
    pub delay_seconds: i64,
    pub votes: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub chaining_allowed: bool,
    pub heartbeat_interval_ms: i64,
    pub heartbeat_timeout_seconds: i64,
    pub election_timeout_ms: i64,
    pub catch_up_timeout_ms: i64,
    pub catch_up_takeover_delay_ms: i64,
    /// Write concerns by name: of each tag, how many different values.
    pub modes: Vec<Mode>,
    pub set_id: Option<ObjectId>,
}

/// A write concern's name, and of each tag how many different values it wants.
pub(crate) type Mode = (String, Vec<(String, i64)>);

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            chaining_allowed: true,
            heartbeat_interval_ms: 2_000,
            heartbeat_timeout_seconds: 10,
            election_timeout_ms: 10_000,
            catch_up_timeout_ms: -1,
            catch_up_takeover_delay_ms: 30_000,
            modes: Vec::new(),
            set_id: None,
        }
    }
}

impl Member {
    fn new(id: i64, host: String) -> Member {
        Member {
            id,
            host,
            arbiter: false,
            build_indexes: true,
            hidden: false,
            priority: 1.0,
            tags: Vec::new(),
            horizons: Vec::new(),
            delay_seconds: 0,
            votes: 1,
        }
    }

    pub fn is_electable(&self) -> bool {
        !self.arbiter && self.priority > 0.0
    }

    pub fn tags_doc(&self) -> DocBuf {
        strings(&self.tags)
    }

    /// Returns the horizon whose address of this member has this name (SNI); None: the client uses the addresses of the configuration.
    pub fn horizon(&self, server_name: Option<&str>) -> Option<&str> {
        let called = server_name?;
        let is_it = |(_, host): &&(String, String)| host_name(host).eq_ignore_ascii_case(called);
        self.horizons.iter().find(is_it).map(|(name, _)| name.as_str())
    }

    /// Returns host and port as clients of the horizon know them.
    pub fn host_in(&self, horizon: Option<&str>) -> &str {
        let own = self.horizons.iter().find(|(name, _)| Some(name.as_str()) == horizon);
        own.map_or(&self.host, |(_, host)| host)
    }
}

pub(crate) fn invalid(text: impl Into<String>) -> Error {
    Error::new(Code::INVALID_REPLICA_SET_CONFIG, text)
}

impl SetConfig {
    /// Returns the configuration that `replSetInitiate` without an argument creates.
    pub fn of_one(name: &str, host: String) -> SetConfig {
        SetConfig {
            name: name.to_owned(),
            version: 1,
            members: vec![Member::new(0, host)],
            settings: Settings::default(),
            majority_is_journaled: true,
            config_server: false,
        }
    }

    /// Errors: a field that is unknown, missing, of a wrong type or out of bounds.
    pub fn parse(doc: Doc<'_>) -> Result<SetConfig> {
        let mut config = SetConfig { members: Vec::new(), ..SetConfig::of_one("", String::new()) };
        for (name, value) in doc {
            let field = Field::new("ReplSetConfig", name);
            match name {
                "_id" => config.name = field.string(value)?.to_owned(),
                "version" => config.version = field.integer(value)?,
                "term" | "force" => drop(field.integer(value)?),
                "protocolVersion" if field.integer(value)? == 1 => {}
                "protocolVersion" => return Err(Error::bad_value("protocolVersion field value must be 1")),
                "configsvr" => config.config_server = field.bool(value)?,
                "writeConcernMajorityJournalDefault" => config.majority_is_journaled = field.bool(value)?,
                "members" => {
                    config.members = field.documents(value)?.into_iter().map(member).collect::<Result<_>>()?;
                }
                "settings" => config.settings = settings(field.document(value)?)?,
                _ => return Err(field.unknown()),
            }
        }
        for required in ["_id", "members"] {
            if doc.get(required).is_none() {
                return Err(Field::new("ReplSetConfig", required).missing());
            }
        }
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<()> {
        let (name, count) = (&self.name, self.members.len());
        if name.is_empty() {
            return Err(invalid("Replica set configuration must have a non-empty _id"));
        }
        if !(1..=i64::from(i32::MAX)).contains(&self.version) {
            return Err(invalid(format!(
                "version field value of {} is out of range: it must be between 1 and {}",
                self.version,
                i32::MAX
            )));
        }
        if !(1..=MEMBERS_MAX).contains(&count) {
            return Err(invalid(format!(
                "Replica set configuration contains {count} members, but must have at least 1 and no more than {MEMBERS_MAX}"
            )));
        }
        for (at, member) in self.members.iter().enumerate() {
            member.check()?;
            let others = self.members.iter().take(at);
            if let Some(twin) = others.clone().find(|other| other.id == member.id) {
                return Err(invalid(format!("Found two member configurations with same _id field, {}", twin.id)));
            }
            if let Some(twin) = others.clone().find(|other| other.host == member.host) {
                return Err(invalid(format!("Found two member configurations with same host field, {}", twin.host)));
            }
        }
        self.check_horizons()?;
        let voters = self.members.iter().filter(|member| member.votes > 0).count();
        if !(1..=VOTERS_MAX).contains(&voters) {
            return Err(invalid(format!(
                "Replica set configuration contains {voters} voting members, but must be at least 1 and no more than {VOTERS_MAX}"
            )));
        }
        if !self.members.iter().any(Member::is_electable) {
            return Err(invalid(
                "Replica set configuration must contain at least one non-arbiter member with priority > 0",
            ));
        }
        self.check_modes()
    }

    /// Members have the same horizons, and no two members one address.
    fn check_horizons(&self) -> Result<()> {
        let names = |member: &Member| member.horizons.iter().map(|(name, _)| name.clone()).collect::<BTreeSet<_>>();
        for pair in self.members.windows(2) {
            if let [one, other] = pair
                && names(one) != names(other)
            {
                return Err(Error::bad_value(format!(
                    "Members must have the same horizons, and those of {} and {} differ",
                    one.host, other.host
                )));
            }
        }
        let mut seen = BTreeSet::new();
        for (_, host) in self.members.iter().flat_map(|member| &member.horizons) {
            if !seen.insert(host) {
                return Err(Error::bad_value(format!("Duplicate horizon member found \"{host}\".")));
            }
        }
        Ok(())
    }

    fn check_modes(&self) -> Result<()> {
        for (mode, tags) in &self.settings.modes {
            for (tag, count) in tags {
                let has = |member: &&Member| member.tags.iter().any(|(name, _)| name == tag);
                if !self.members.iter().any(|member| has(&member)) {
                    return Err(Error::new(
                        Code::NO_SUCH_KEY,
                        format!(
                            "No replica set tag key {tag} exists, which is needed by the write concern mode {mode}"
                        ),
                    ));
                }
                if *count < 1 {
                    return Err(Error::bad_value(format!("Value for {tag} must be positive, but found {count}")));
                }
            }
        }
        Ok(())
    }

    /// With the term of the moment, as `replSetGetConfig` answers it.
    pub fn to_doc(&self, term: i64) -> DocBuf {
        let mut doc = DocBuf::new().with("_id", self.name.as_str()).with("version", self.version as i32);
        doc.append("term", term as i32);
        if self.config_server {
            doc.append("configsvr", true);
        }
        let members: Vec<DocBuf> = self.members.iter().map(Member::to_doc).collect();
        doc.append("members", &members.iter().collect::<ArrayBuf>());
        doc.append("protocolVersion", 1i64);
        doc.append("writeConcernMajorityJournalDefault", self.majority_is_journaled);
        doc.with("settings", &self.settings.to_doc())
    }

    /// Returns true if the members can satisfy a write concern of the configuration; `None`: it has none of this name.
    pub fn can_satisfy(&self, mode: &str) -> Option<bool> {
        let (_, tags) = self.settings.modes.iter().find(|(name, _)| name == mode)?;
        Some(self.can_reach(tags.iter().map(|(tag, count)| (tag.as_str(), *count))))
    }

    /// Returns true if the members have as many values of each tag.
    pub fn can_reach<'t>(&self, tags: impl Iterator<Item = (&'t str, i64)>) -> bool {
        self.have_values(tags, |member| !member.arbiter)
    }

    /// Returns true if these members have as many values of each tag.
    pub fn is_reached_by<'t>(&self, tags: impl Iterator<Item = (&'t str, i64)>, holders: &[MemberId]) -> bool {
        self.have_values(tags, |member| holders.iter().any(|holder| i64::from(holder.0) == member.id))
    }

    fn have_values<'t>(
        &self,
        mut tags: impl Iterator<Item = (&'t str, i64)>,
        is_counted: impl Fn(&Member) -> bool,
    ) -> bool {
        let values = |tag: &str| {
            let own = self.members.iter().filter(|member| is_counted(member)).flat_map(|member| &member.tags);
            own.filter(|(name, _)| name == tag).map(|(_, value)| value).collect::<BTreeSet<_>>().len() as i64
        };
        tags.all(|(tag, count)| values(tag) >= count)
    }

    /// Returns true if these members satisfy a write concern of the configuration.
    pub fn is_satisfied_by(&self, mode: &str, holders: &[MemberId]) -> bool {
        let Some((_, tags)) = self.settings.modes.iter().find(|(name, _)| name == mode) else { return false };
        self.is_reached_by(tags.iter().map(|(tag, count)| (tag.as_str(), *count)), holders)
    }

    /// Returns the number of data-bearing voting members.
    pub fn writable_voters(&self) -> usize {
        self.members.iter().filter(|member| member.votes > 0 && !member.arbiter).count()
    }

    /// The members that may be in sync, by id: with data and a vote, and neither hidden nor delayed.
    pub fn in_sync_voters(&self) -> Vec<Voter> {
        let fits =
            |member: &&Member| member.votes > 0 && !member.arbiter && !member.hidden && member.delay_seconds == 0;
        let voter = |member: &Member| Voter { id: MemberId(member.id as u32), may_lead: member.priority > 0.0 };
        let mut voters: Vec<Voter> = self.members.iter().filter(fits).map(voter).collect();
        voters.sort_unstable();
        voters
    }

    /// More than half of the voters.
    pub fn majority(&self) -> usize {
        self.members.iter().filter(|member| member.votes > 0).count() / 2 + 1
    }
}

impl Member {
    fn check(&self) -> Result<()> {
        if !(0..=MEMBER_ID_MAX).contains(&self.id) {
            return Err(Error::bad_value(format!(
                "_id field value of {} is out of range: it must be between 0 and {MEMBER_ID_MAX}",
                self.id
            )));
        }
        if !(0.0..=1000.0).contains(&self.priority) {
            return Err(Error::bad_value(format!(
                "priority field value of {} is out of range: it must be between 0 and 1000",
                self.priority
            )));
        }
        if !matches!(self.votes, 0 | 1) {
            return Err(Error::bad_value(format!("votes field value is {} but must be 0 or 1", self.votes)));
        }
        let refused = match self {
            _ if self.votes == 0 && self.priority > 0.0 => "priority must be 0 when non-voting (votes:0)",
            _ if self.hidden && self.priority > 0.0 => "priority must be 0 when hidden=true",
            _ if self.delay_seconds > 0 && self.priority > 0.0 => "priority must be 0 when secondaryDelaySecs is used",
            _ if !self.build_indexes && self.priority > 0.0 => "priority must be 0 when buildIndexes=false",
            _ if self.arbiter && !self.tags.is_empty() => "Cannot set tags on arbiters.",
            _ => return Ok(()),
        };
        Err(Error::bad_value(refused))
    }

    fn to_doc(&self) -> DocBuf {
        let mut doc = DocBuf::new()
            .with("_id", self.id as i32)
            .with("host", self.host.as_str())
            .with("arbiterOnly", self.arbiter)
            .with("buildIndexes", self.build_indexes)
            .with("hidden", self.hidden)
            .with("priority", self.priority)
            .with("tags", &self.tags_doc());
        if !self.horizons.is_empty() {
            doc.append("horizons", &strings(&self.horizons));
        }
        doc.with("secondaryDelaySecs", self.delay_seconds).with("votes", self.votes as i32)
    }
}

fn member(doc: Doc<'_>) -> Result<Member> {
    let mut member = Member::new(-1, String::new());
    for (name, value) in doc {
        let field = Field::new("MemberConfig", name);
        match name {
            "_id" => member.id = field.integer(value)?,
            "host" => member.host = host(field.string(value)?)?,
            "arbiterOnly" => member.arbiter = field.bool(value)?,
            "buildIndexes" => member.build_indexes = field.bool(value)?,
            "hidden" => member.hidden = field.bool(value)?,
            "priority" => member.priority = real(field, value)?,
            "tags" => member.tags = tags(field.document(value)?)?,
            "secondaryDelaySecs" | "slaveDelay" => member.delay_seconds = field.integer(value)?,
            "votes" => member.votes = field.integer(value)?,
            "horizons" => member.horizons = horizons(field.document(value)?)?,
            "newlyAdded" => {}
            _ => return Err(field.unknown()),
        }
    }
    for required in ["_id", "host"] {
        if doc.get(required).is_none() {
            return Err(Field::new("MemberConfig", required).missing());
        }
    }
    if member.arbiter && doc.get("priority").is_none() {
        member.priority = 0.0;
    }
    Ok(member)
}

/// `name:port`, with MongoDB's port if it names none.
fn host(text: &str) -> Result<String> {
    let wrong = || Error::failed_to_parse(format!("'{text}' is not a host and port"));
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.starts_with('[') => (name, port),
        _ => (text, "27017"),
    };
    let port: u16 = port.parse().map_err(|_| wrong())?;
    if name.is_empty() || port == 0 || name.contains(char::is_whitespace) {
        return Err(wrong());
    }
    Ok(format!("{name}:{port}"))
}

fn real(field: Field<'_>, value: ValueRef<'_>) -> Result<f64> {
    match value {
        ValueRef::Double(value) => Ok(value),
        value => Ok(field.integer(value)? as f64),
    }
}

fn tags(doc: Doc<'_>) -> Result<Vec<(String, String)>> {
    let tag = |(name, value): (&str, ValueRef<'_>)| match value {
        ValueRef::String(value) => Ok((name.to_owned(), value.to_owned())),
        other => Err(Field::new("tags", name).wrong_type(other, "string")),
    };
    doc.iter().map(tag).collect()
}

/// Reads `{name: "host:port", ...}`.
fn horizons(doc: Doc<'_>) -> Result<Vec<(String, String)>> {
    let mut horizons: Vec<(String, String)> = Vec::new();
    for (name, value) in doc {
        let ValueRef::String(address) = value else {
            return Err(Field::new("horizons", name).wrong_type(value, "string"));
        };
        let refused = match name {
            "" => "Horizons cannot have empty names".to_owned(),
            DEFAULT_HORIZON => {
                format!("Horizon name \"{DEFAULT_HORIZON}\" is reserved for internal mongodb usage")
            }
            _ if horizons.iter().any(|(other, _)| other == name) => {
                format!("Duplicate horizon name found \"{name}\".")
            }
            _ => {
                let address = host(address)?;
                let called = host_name(&address);
                if let Some((_, other)) =
                    horizons.iter().find(|(_, other)| host_name(other).eq_ignore_ascii_case(called))
                {
                    format!("Duplicate horizon member found \"{}\".", host_name(other))
                } else {
                    horizons.push((name.to_owned(), address));
                    continue;
                }
            }
        };
        return Err(Error::bad_value(refused));
    }
    if horizons.is_empty() {
        return Err(Error::bad_value("horizons field cannot be empty, if present"));
    }
    Ok(horizons)
}

/// Returns the host of `host:port`, an IPv6 address without its brackets.
fn host_name(address: &str) -> &str {
    let name = address.rsplit_once(':').map_or(address, |(name, _)| name);
    name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name)
}

fn strings(pairs: &[(String, String)]) -> DocBuf {
    pairs.iter().map(|(name, value)| (name.as_str(), ValueRef::String(value))).collect()
}

fn settings(doc: Doc<'_>) -> Result<Settings> {
    let mut settings = Settings::default();
    for (name, value) in doc {
        let field = Field::new("ReplSetConfigSettings", name);
        let positive = |value| match field.integer(value)? {
            number @ 1.. => Ok(number),
            number => Err(Error::bad_value(format!("BSON field '{name}' value must be > 0, actual value '{number}'"))),
        };
        match name {
            "chainingAllowed" => settings.chaining_allowed = field.bool(value)?,
            "heartbeatIntervalMillis" => settings.heartbeat_interval_ms = positive(value)?,
            "heartbeatTimeoutSecs" => settings.heartbeat_timeout_seconds = positive(value)?,
            "electionTimeoutMillis" => settings.election_timeout_ms = positive(value)?,
            "catchUpTimeoutMillis" => settings.catch_up_timeout_ms = field.integer(value)?,
            "catchUpTakeoverDelayMillis" => settings.catch_up_takeover_delay_ms = field.integer(value)?,
            "getLastErrorModes" => settings.modes = modes(field.document(value)?)?,
            "getLastErrorDefaults" => check_defaults(field.document(value)?)?,
            "replicaSetId" => match value {
                ValueRef::ObjectId(id) => settings.set_id = Some(id),
                other => return Err(field.wrong_type(other, "objectId")),
            },
            _ => return Err(field.unknown()),
        }
    }
    Ok(settings)
}

fn modes(doc: Doc<'_>) -> Result<Vec<Mode>> {
    let mut modes = Vec::new();
    for (mode, value) in doc {
        let tags = Field::new("getLastErrorModes", mode).document(value)?;
        let count = |(tag, value): (&str, _)| Ok((tag.to_owned(), Field::new(mode, tag).integer(value)?));
        modes.push((mode.to_owned(), tags.iter().map(count).collect::<Result<_>>()?));
    }
    Ok(modes)
}

/// MongoDB takes only `{w: 1, wtimeout: 0}` since it has `setDefaultRWConcern`.
fn check_defaults(doc: Doc<'_>) -> Result<()> {
    for (name, value) in doc {
        let field = Field::new("getLastErrorDefaults", name);
        let same = match name {
            "w" => matches!(value, ValueRef::String(_)) || field.integer(value)? == 1,
            "wtimeout" => field.integer(value)? == 0,
            _ => true,
        };
        if !same || matches!(value, ValueRef::String(_)) {
            return Err(Error::new(
                Code(5_624_102),
                "Default write concern can only be set using setDefaultRWConcern since getLastErrorDefaults is gone",
            ));
        }
    }
    Ok(())
}

impl Settings {
    /// Returns the settings with a new id for the set, if they have none.
    pub fn identified(self) -> Settings {
        Settings { set_id: Some(self.set_id.unwrap_or_else(new_object_id)), ..self }
    }

    fn to_doc(&self) -> DocBuf {
        let mut modes = DocBuf::new();
        for (mode, tags) in &self.modes {
            let counts: DocBuf = tags.iter().map(|(tag, n)| (tag.as_str(), ValueRef::Int32(*n as i32))).collect();
            modes.append(mode, &counts);
        }
        let mut doc = DocBuf::new()
            .with("chainingAllowed", self.chaining_allowed)
            .with("heartbeatIntervalMillis", self.heartbeat_interval_ms as i32)
            .with("heartbeatTimeoutSecs", self.heartbeat_timeout_seconds as i32)
            .with("electionTimeoutMillis", self.election_timeout_ms as i32)
            .with("catchUpTimeoutMillis", self.catch_up_timeout_ms as i32)
            .with("catchUpTakeoverDelayMillis", self.catch_up_takeover_delay_ms as i32)
            .with("getLastErrorModes", &modes)
            .with("getLastErrorDefaults", &DocBuf::new().with("w", 1i32).with("wtimeout", 0i32));
        if let Some(id) = self.set_id {
            doc.append("replicaSetId", ValueRef::ObjectId(id));
        }
        doc
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(member: DocBuf) -> DocBuf {
        let members: ArrayBuf = [&member].into_iter().collect();
        DocBuf::new().with("_id", "rs").with("members", &members)
    }

    fn one() -> DocBuf {
        DocBuf::new().with("_id", 0i32).with("host", "127.0.0.1:5")
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut set = SetConfig::of_one("rs", "127.0.0.1:27017".to_owned());
        set.settings = set.settings.identified();
        set.members[0].tags = vec![("dc".to_owned(), "a".to_owned())];
        set.settings.modes = vec![("far".to_owned(), vec![("dc".to_owned(), 2)])];
        assert_eq!(SetConfig::parse(set.to_doc(1).as_doc()).unwrap(), set);
        assert_eq!((set.writable_voters(), set.majority()), (1, 1));
    }

    #[test]
    fn a_name_of_the_server_decides_the_addresses() {
        let horizons = DocBuf::new().with("outside", "db.example.net:4000").with("vpn", "10.0.0.1");
        let set = SetConfig::parse(config(one().with("horizons", &horizons)).as_doc()).unwrap();
        assert_eq!(SetConfig::parse(set.to_doc(1).as_doc()).unwrap(), set);
        let own = &set.members[0];
        let seen = |called| own.host_in(own.horizon(called));
        assert_eq!(seen(Some("DB.example.net")), "db.example.net:4000");
        assert_eq!(seen(Some("10.0.0.1")), "10.0.0.1:27017");
        assert_eq!((seen(Some("db")), seen(None)), ("127.0.0.1:5", "127.0.0.1:5"));
    }

    #[test]
    fn bad_horizons_are_refused() {
        let refused = |horizons: DocBuf| {
            SetConfig::parse(config(one().with("horizons", &horizons)).as_doc()).map_err(|error| error.code.0).err()
        };
        for horizons in [
            DocBuf::new(),
            DocBuf::new().with("", "h:1"),
            DocBuf::new().with(DEFAULT_HORIZON, "h:1"),
            DocBuf::new().with("a", "h:1").with("b", "H:2"),
            DocBuf::new().with("a", "h:1").with("a", "i:2"),
        ] {
            assert_eq!(refused(horizons.clone()), Some(2), "{horizons:?}");
        }
        assert_eq!(refused(DocBuf::new().with("a", 5i32)), Some(14));
        let second = |horizons: DocBuf| {
            let other = DocBuf::new().with("_id", 1i32).with("host", "127.0.0.1:6").with("horizons", &horizons);
            let members: ArrayBuf = [one().with("horizons", &DocBuf::new().with("a", "h:1")), other].iter().collect();
            SetConfig::parse(DocBuf::new().with("_id", "rs").with("members", &members).as_doc()).is_ok()
        };
        assert!(second(DocBuf::new().with("a", "h:2")));
        assert!(!second(DocBuf::new().with("a", "h:1")), "two members with one address");
        assert!(!second(DocBuf::new().with("b", "h:2")), "a horizon of one member alone");
    }

    #[test]
    fn hosts_have_a_port() {
        for (text, expect) in [
            ("h", Some("h:27017")),
            ("h:5", Some("h:5")),
            ("[::1]:5", Some("[::1]:5")),
            ("", None),
            (":5", None),
            ("h:x", None),
            ("h:0", None),
            ("a b:5", None),
        ] {
            assert_eq!(host(text).ok().as_deref(), expect, "{text}");
        }
    }

    #[test]
    fn bad_ones_are_refused() {
        assert!(SetConfig::parse(config(one()).as_doc()).is_ok());
        let no_members = DocBuf::new().with("_id", "rs").with("members", &ArrayBuf::new());
        for (doc, code) in [
            (DocBuf::new(), 40414),
            (DocBuf::new().with("_id", "rs"), 40414),
            (no_members, 93),
            (config(DocBuf::new().with("_id", 0i32)), 40414),
            (config(one().with("priority", -1i32)), 2),
            (config(one().with("priority", 0i32)), 93),
            (config(one().with("votes", 2i32)), 2),
            (config(one().with("votes", 0i32)), 2),
            (config(one().with("hidden", true)), 2),
            (config(one().with("colour", "red")), 40415),
            (config(one().with("tags", &DocBuf::new().with("dc", 1i32))), 14),
            (config(one()).with("protocolVersion", 0i32), 2),
            (config(one()).with("version", 0i32), 93),
            (config(one()).with("colour", "red"), 40415),
            (config(one()).with("settings", &DocBuf::new().with("electionTimeoutMillis", 0i32)), 2),
        ] {
            assert_eq!(SetConfig::parse(doc.as_doc()).unwrap_err().code.0, code, "{doc:?}");
        }
        let twice: ArrayBuf = [&one(), &one()].into_iter().collect();
        let twice = DocBuf::new().with("_id", "rs").with("members", &twice);
        assert_eq!(SetConfig::parse(twice.as_doc()).unwrap_err().code.0, 93);
    }
}
