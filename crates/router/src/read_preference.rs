//! Read preferences: which member of a shard's set a read goes to.
//!
//! P1: the members of a shard are known from their own replies to `hello`, which are asked again in the background while reads use them.
//! P2: a cursor stays on the member that opened it: to the rest of the router that member is a shard of its own.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arbor_bson::{Code, Doc, DocBuf, ValueRef};
use arbor_command::{Error, Result};
use arbor_protocol::metrics::Class;
use arbor_protocol::read_concern::Level;
use arbor_query::Interrupt;

use crate::catalog::Routing;
use crate::pipeline::stage_of;
use crate::shard::{HOSTS_MAX, Shard};
use crate::{Request, fields};

/// Interval at which members are asked that reads use.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(10);
/// A member that answers later than the fastest one by more is not used.
const LATENCY_WINDOW: Duration = Duration::from_millis(15);
const STALENESS_MIN_S: f64 = 90.0;
/// Longest wait for a member that fits.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(500);
/// Longest wait for a note in the log of a shard.
const NOTE_MAX: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    PrimaryPreferred,
    Secondary,
    SecondaryPreferred,
    Nearest,
}

/// A preference for other members than the primary.
#[derive(Debug)]
pub(crate) struct ReadPreference {
    mode: Mode,
    /// One after another, the first that any member fits.
    tag_sets: Vec<DocBuf>,
    staleness_max: Option<Duration>,
    shown: String,
}

/// A member of a shard's set, as it was when it was asked last.
pub(crate) struct Member {
    /// The shard, by way of this member.
    pub shard: Arc<Shard>,
    pub is_primary: bool,
    pub is_secondary: bool,
    pub tags: DocBuf,
    pub latency: Duration,
    /// Time of its last write, in milliseconds.
    pub last_write: i64,
}

/// Members of a set, as far as they are known.
#[derive(Default)]
pub(crate) struct Members {
    pub asked: Option<Instant>,
    pub used: Option<Instant>,
    pub all: Vec<Member>,
    turn: AtomicUsize,
}

impl ReadPreference {
    /// Parses `$readPreference`. None: reads go to the primary. Errors: FailedToParse, TypeMismatch, MaxStalenessOutOfRange.
    pub(crate) fn parse(value: Option<ValueRef<'_>>) -> Result<Option<ReadPreference>> {
        let given = match value {
            None => return Ok(None),
            Some(ValueRef::Document(given)) => given,
            Some(_) => {
                return Err(Error::new(Code::TYPE_MISMATCH, "$readPreference has incorrect type: expected object"));
            }
        };
        let name = fields::string(given, "mode").unwrap_or_default();
        let mode = match name {
            "primary" => None,
            "primaryPreferred" => Some(Mode::PrimaryPreferred),
            "secondary" => Some(Mode::Secondary),
            "secondaryPreferred" => Some(Mode::SecondaryPreferred),
            "nearest" => Some(Mode::Nearest),
            other => {
                let text = format!(
                    "Could not parse $readPreference mode '{other}'. Only the modes 'primary', 'primaryPreferred', 'secondary', \
                     'secondaryPreferred', and 'nearest' are supported."
                );
                return Err(Error::failed_to_parse(text));
            }
        };
        let tag_sets: Vec<DocBuf> = fields::array(given, "tags")
            .iter()
            .flat_map(|sets| sets.iter())
            .filter_map(|set| if let ValueRef::Document(set) = set { Some(set.to_buf()) } else { None })
            .collect();
        let staleness = fields::number(given, "maxStalenessSeconds").filter(|seconds| *seconds > 0.0);
        let Some(mode) = mode else {
            if tag_sets.iter().any(|set| !set.as_doc().is_empty()) {
                return Err(Error::failed_to_parse("Only empty tags are allowed with primary read preference"));
            }
            if staleness.is_some() {
                return Err(Error::failed_to_parse("$maxStalenessSeconds can not be set for the primary mode"));
            }
            return Ok(None);
        };
        if staleness.is_some_and(|seconds| seconds < STALENESS_MIN_S) {
            let text = format!("Expected $maxStalenessSeconds to be at least {STALENESS_MIN_S} seconds");
            return Err(Error::new(Code::MAX_STALENESS_OUT_OF_RANGE, text));
        }
        Ok(Some(ReadPreference {
            mode,
            tag_sets,
            staleness_max: staleness.map(Duration::from_secs_f64),
            shown: given.to_string(),
        }))
    }

    /// Returns the members that fit, of which any will do.
    fn eligible<'m>(&self, members: &'m [Member]) -> Vec<&'m Member> {
        let primary = || members.iter().filter(|member| member.is_primary).collect::<Vec<_>>();
        let fitting = |with_primary: bool| {
            let written = members.iter().filter(|own| own.is_primary || own.is_secondary);
            let newest = written.map(|own| own.last_write).max().unwrap_or(0);
            let is_fresh = |own: &Member| {
                let behind = Duration::from_millis(u64::try_from(newest - own.last_write).unwrap_or(0));
                own.is_primary || self.staleness_max.is_none_or(|max| behind + HEARTBEAT <= max)
            };
            let known: Vec<&Member> = members
                .iter()
                .filter(|own| own.is_secondary || with_primary && own.is_primary)
                .filter(|own| is_fresh(own))
                .collect();
            let tagged = |set: &DocBuf| -> Vec<&'m Member> {
                let has = |own: &Member, (name, value): (&str, ValueRef<'_>)| {
                    own.tags.get(name).is_some_and(|tag| arbor_bson::compare(tag, value).is_eq())
                };
                known.iter().filter(|own| set.as_doc().iter().all(|tag| has(own, tag))).copied().collect()
            };
            let chosen = match self.tag_sets.is_empty() {
                true => known.clone(),
                false => self.tag_sets.iter().map(tagged).find(|found| !found.is_empty()).unwrap_or_default(),
            };
            let fastest = chosen.iter().map(|own| own.latency).min().unwrap_or_default();
            chosen.into_iter().filter(|own| own.latency <= fastest + LATENCY_WINDOW).collect::<Vec<_>>()
        };
        let or = |first: Vec<&'m Member>, second: &dyn Fn() -> Vec<&'m Member>| {
            if first.is_empty() { second() } else { first }
        };
        match self.mode {
            Mode::PrimaryPreferred => or(primary(), &|| fitting(false)),
            Mode::Secondary => fitting(false),
            Mode::SecondaryPreferred => or(fitting(false), &primary),
            Mode::Nearest => fitting(true),
        }
    }
}

impl Members {
    /// Returns the next of the members that fit, in turn.
    fn choose(&self, preference: &ReadPreference) -> Option<Arc<Shard>> {
        let eligible = preference.eligible(&self.all);
        let at = self.turn.fetch_add(1, Ordering::Relaxed).checked_rem(eligible.len())?;
        eligible.get(at).map(|member| member.shard.clone())
    }
}

impl Shard {
    /// Returns this shard by way of a member that fits. Errors: FailedToSatisfyReadPreference.
    fn preferred(&self, preference: &ReadPreference, interrupt: &Interrupt) -> Result<Arc<Shard>> {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut members = self.members.lock();
            let now = Instant::now();
            members.used = Some(now);
            let is_known = members.asked.is_some();
            if let Some(found) = members.choose(preference) {
                return Ok(found);
            }
            drop(members);
            if is_known && Instant::now() > until {
                let text =
                    format!("Could not find host matching read preference {} for set {}", preference.shown, self.set);
                return Err(Error::new(Code::FAILED_TO_SATISFY_READ_PREFERENCE, text));
            }
            interrupt.check()?;
            if is_known {
                std::thread::sleep(PAUSE);
            }
            self.ask_members();
        }
    }

    /// Asks the members again that reads have used lately. To be called about every second.
    pub(crate) fn follow_members(&self) {
        let members = self.members.lock();
        let is_used = members.used.is_some_and(|used| used.elapsed() < 10 * HEARTBEAT);
        let is_old = members.asked.is_some_and(|asked| asked.elapsed() >= HEARTBEAT);
        drop(members);
        if is_used && is_old {
            self.ask_members();
        }
    }

    /// Asks the members before the next read that may go to any of them: one could not be reached.
    pub(crate) fn forget_members(&self) {
        let mut members = self.members.lock();
        members.asked = None;
        members.all.clear();
    }

    /// Asks all members what they are, each in turn.
    fn ask_members(&self) {
        let mut waiting = self.known_hosts();
        let (mut asked, mut found) = (HashSet::new(), Vec::new());
        while let Some(host) = waiting.pop() {
            if asked.len() >= HOSTS_MAX || !asked.insert(host.clone()) {
                continue;
            }
            // one that does not reply is not used
            let Some((reply, latency)) = self.hello(&host) else { continue };
            let reply = reply.as_doc();
            for names in ["hosts", "passives"] {
                let hosts = fields::array(reply, names);
                waiting.extend(hosts.iter().flat_map(|hosts| hosts.iter()).filter_map(fields::text).map(str::to_owned));
            }
            if fields::string(reply, "setName") != Some(&self.set) || fields::is_true(reply, "hidden") {
                continue;
            }
            let last_write = fields::document(reply, "lastWrite").and_then(|last| last.get("lastWriteDate"));
            let known =
                self.members.lock().all.iter().map(|own| &own.shard).find(|own| own.is_by_way_of(&host)).cloned();
            found.push(Member {
                shard: known.unwrap_or_else(|| Arc::new(self.by_way_of(&host))),
                is_primary: fields::is_true(reply, "isWritablePrimary"),
                is_secondary: fields::is_true(reply, "secondary"),
                tags: fields::document(reply, "tags").map(Doc::to_buf).unwrap_or_default(),
                latency,
                last_write: if let Some(ValueRef::DateTime(time)) = last_write { time } else { 0 },
            });
        }
        let mut members = self.members.lock();
        members.asked = Some(Instant::now());
        members.all = found;
    }
}

impl Request<'_> {
    /// Returns the read preference of the request, if other members than primaries may do it.
    pub(crate) fn read_preference(&self) -> Result<Option<ReadPreference>> {
        let (body, generic) = (self.body(), &self.routed.generic);
        let given = ReadPreference::parse(body.get("$readPreference"))?;
        let is_one_time = matches!(generic.read_concern.level, Some(Level::Snapshot | Level::Linearizable));
        let writes = || {
            let last = fields::array(body, "pipeline").and_then(|stages| stages.iter().last());
            matches!(stage_of(last), Some(("$out" | "$merge", _)))
        };
        let is_read = self.routed.info.class == Class::Read && !generic.is_in_transaction() && !is_one_time;
        Ok(given.filter(|_| is_read && !writes()))
    }

    /// Returns a shard by way of the member that the request prefers.
    pub(crate) fn by_preference(&self, shard: Arc<Shard>) -> Result<Arc<Shard>> {
        match self.read_preference()? {
            Some(preference) => {
                if let Some(after) = self.routed.generic.read_concern.after {
                    // without its primary a shard shows the time as soon as it can
                    let _ = shard.log_past(after, &self.interrupt().clone().within(NOTE_MAX));
                }
                shard.preferred(&preference, self.interrupt())
            }
            None => Ok(shard),
        }
    }

    pub(crate) fn routing_by_preference(&self, routing: Routing) -> Result<Routing> {
        Ok(match routing {
            Routing::Unsharded(shard, database) => Routing::Unsharded(self.by_preference(shard)?, database),
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_notation::doc;

    fn parse(text: &str) -> Result<Option<ReadPreference>> {
        ReadPreference::parse(doc(text).get("p"))
    }

    fn member(name: &str, role: &str, tags: &str, millis: u64, last_write: i64) -> Member {
        let connect: crate::Connect = Arc::new(|_, _| unreachable!("nothing connects here"));
        let shard = Shard::new(name, &format!("{name}/h:1"), connect, Arc::default()).unwrap();
        Member {
            shard: Arc::new(shard),
            is_primary: role == "primary",
            is_secondary: role == "secondary",
            tags: doc(tags),
            latency: Duration::from_millis(millis),
            last_write,
        }
    }

    fn chosen(preference: &str, members: &[Member]) -> String {
        let preference = parse(preference).unwrap().unwrap();
        preference.eligible(members).iter().map(|own| own.shard.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn preferences_choose_members() {
        let all = [
            member("p", "primary", "{dc: 'a'}", 1, 500_000),
            member("near", "secondary", "{dc: 'a'}", 2, 499_000),
            member("far", "secondary", "{dc: 'b'}", 40, 499_000),
            member("late", "secondary", "{dc: 'b'}", 3, 100_000),
            member("away", "recovering", "{dc: 'a'}", 1, 0),
        ];
        for (preference, expected) in [
            ("{p: {mode: 'primaryPreferred'}}", "p"),
            ("{p: {mode: 'secondary'}}", "near late"),
            ("{p: {mode: 'secondaryPreferred'}}", "near late"),
            ("{p: {mode: 'nearest'}}", "p near late"),
            ("{p: {mode: 'secondary', tags: [{dc: 'b'}]}}", "late"),
            ("{p: {mode: 'secondary', tags: [{dc: 'b'}], maxStalenessSeconds: 120}}", "far"),
            ("{p: {mode: 'secondary', tags: [{dc: 'c'}, {}]}}", "near late"),
            ("{p: {mode: 'secondary', tags: [{dc: 'c'}]}}", ""),
            ("{p: {mode: 'secondaryPreferred', tags: [{dc: 'c'}]}}", "p"),
        ] {
            assert_eq!(chosen(preference, &all), expected, "{preference}");
        }
        assert_eq!(chosen("{p: {mode: 'secondaryPreferred'}}", &all[..1]), "p");
        assert_eq!(chosen("{p: {mode: 'primaryPreferred'}}", &all[1..]), "near late");
    }

    #[test]
    fn wrong_preferences_are_refused() {
        let code = |text: &str| parse(text).err().map(|error| error.code);
        for (text, expected) in [
            ("{}", None),
            ("{p: {mode: 'primary'}}", None),
            ("{p: 'secondary'}", Some(Code::TYPE_MISMATCH)),
            ("{p: {mode: 'none'}}", Some(Code::FAILED_TO_PARSE)),
            ("{p: {mode: 'primary', tags: [{a: 'b'}]}}", Some(Code::FAILED_TO_PARSE)),
            ("{p: {mode: 'secondary', maxStalenessSeconds: 5}}", Some(Code::MAX_STALENESS_OUT_OF_RANGE)),
        ] {
            assert_eq!(code(text), expected, "{text}");
        }
        assert!(parse("{p: {mode: 'primary'}}").unwrap().is_none());
    }
}
