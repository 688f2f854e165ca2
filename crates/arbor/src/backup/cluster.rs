//! Backups of a sharded cluster: all its sets at one cluster time, while clients write and chunks move.
//!
//! ```text
//! TARGET/config, TARGET/shard-ID   a target each: full backups of the set, and the log behind them
//! TARGET/points/NAME.json          a time up to which all of them have the log; written last
//! ```
//!
//! Every message of a router carries the newest time that it has seen, and the time of every server follows those it is shown. So of two commits, if
//! one may have been caused by the other, that one has the later time, on whatever servers they are: the commits up to a time are a state in which all servers
//! may have stopped at once, and a cluster that is started in it completes transactions and moves as after that.
//!
//! - C1: the time of a point is not before that of any commit that was acknowledged before: it is the greatest of all primaries.
//! - C2: each set has logged a record behind that time, in the epoch of a primary that had seen it, before its log is archived: no commit of before
//!   is missing.
//! - C3: no tree came past the log of a set after its log up to the time was asked for ([`super::restore`] could not make the state then). If one did,
//!   there is another attempt with a later time.
//! - C4: the router shows the same shards before and after a time was chosen, so the point has all of then.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_client::{Client, Options, Uri};
use arbor_store::{Namespace, RecordCursor, UpdateKind};
use arbor_txn::Durability;
use serde::{Deserialize, Serialize};

use super::archive::Watch;
use super::log_files::LogFiles;
use super::manifest::{seal, unseal_of};
use super::point::{self, Asked};
use super::source::Source;
use super::target::{Condition, Target};
use super::{Error, Keep, Result, archive, create, damaged, io, remove_old, restore, shown_time, verify};
use crate::pace::Speed;

const POINTS: &str = "points";
const CONFIG: &str = "config";
const SHARD_PREFIX: &str = "shard-";
/// Raised when older releases cannot restore a point any more.
const FORMAT: u32 = 1;
/// Attempts to find a time at which no tree is on its way past a log.
const ATTEMPTS: u32 = 20;
/// Time in which a set has to have a primary.
const PRIMARY: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_millis(200);
const UNAUTHORIZED: i32 = 13;
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time until another attempt to make a point.
const AGAIN: Duration = Duration::from_secs(1);
/// Time between two points of an archive.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);

/// A cluster, as a router shows it.
pub(super) struct Cluster {
    options: Options,
    id: String,
    members: Vec<Place>,
}

/// A set of the cluster.
#[derive(Clone)]
struct Place {
    /// Its directory in the target.
    directory: String,
    addresses: Vec<String>,
}

/// A time at which the target has the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Point {
    format: u32,
    cluster: String,
    time: u64,
    /// RFC 3339.
    ended: String,
    /// Directories of the config servers and the shards.
    members: Vec<String>,
}

fn refused(error: &dyn std::fmt::Display) -> Error {
    Error::Refused(error.to_string())
}

/// The time that a reply shows.
fn time_in(reply: Doc<'_>) -> Option<u64> {
    let Some(ValueRef::Document(shown)) = reply.get("$clusterTime") else { return None };
    match shown.get("clusterTime") {
        Some(ValueRef::Timestamp(time)) => Some(u64::from(time.seconds) << 32 | u64::from(time.increment)),
        _ => None,
    }
}

fn hello() -> DocBuf {
    DocBuf::new().with("hello", 1)
}

impl Cluster {
    /// `None`: the URI is not that of a router. Errors: no host can be reached, or the user is not known.
    pub(super) fn of(uri: &str) -> Result<Option<Cluster>> {
        let uri = Uri::parse(uri).map_err(|error| Error::Refused(format!("--uri: {error}")))?;
        let mut options = uri.options();
        options.app_name = "arbor backup".to_owned();
        options.timeout = options.timeout.or(Some(TIMEOUT));
        let mut reason = String::new();
        for address in &uri.addresses {
            let mut client = match Client::connect_with(address, options.clone()) {
                Ok(client) => client,
                Err(error) => {
                    reason = format!("{address}: {error}");
                    continue;
                }
            };
            let reply = client.command("admin", &hello()).map_err(|error| refused(&error))?;
            if !matches!(reply.doc.get("msg"), Some(ValueRef::String("isdbgrid"))) {
                return Ok(None);
            }
            return Cluster::read(&mut client, options).map(Some);
        }
        Err(Error::Refused(reason))
    }

    fn read(router: &mut Client, options: Options) -> Result<Cluster> {
        let mut id = String::new();
        let find = DocBuf::new().with("find", "version");
        let read = router.find(CONFIG, &find, |doc| {
            if let Some(ValueRef::ObjectId(own)) = doc.get("clusterId") {
                id = own.to_string();
            }
        });
        read.map_err(|error| refused(&error))?;
        let reply = router.command("admin", &DocBuf::new().with("getShardMap", 1)).map_err(|error| refused(&error))?;
        let Some(ValueRef::Document(map)) = reply.doc.get("map") else {
            return Err(Error::Refused("the router does not say where its shards are".to_owned()));
        };
        let mut members = Vec::new();
        for (name, hosts) in map.iter() {
            let ValueRef::String(hosts) = hosts else { continue };
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_plain) {
                return Err(Error::Refused(format!("the shard '{name}' has a name that no file can have everywhere")));
            }
            let hosts = hosts.split_once('/').map_or(hosts, |(_, hosts)| hosts);
            let directory = if name == CONFIG { CONFIG.to_owned() } else { format!("{SHARD_PREFIX}{name}") };
            members.push(Place { directory, addresses: hosts.split(',').map(str::to_owned).collect() });
        }
        members.sort_by(|one, other| one.directory.cmp(&other.directory));
        Ok(Cluster { options, id, members })
    }

    /// Does the same for all sets at once. Returns the first error.
    fn each<T: Send>(&self, work: impl Fn(&Place) -> Result<T> + Sync) -> Result<Vec<T>> {
        let named = |place: &Place| {
            work(place).map_err(|error| match error {
                Error::Refused(text) => Error::Refused(format!("{}: {text}", place.directory)),
                error => error,
            })
        };
        std::thread::scope(|scope| {
            let running: Vec<_> = self.members.iter().map(|place| scope.spawn(|| named(place))).collect();
            running.into_iter().map(|own| own.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        })
    }

    fn source(&self, place: &Place) -> Result<Source> {
        Source::among(&place.addresses, &self.options)
    }

    /// Connects to the primary of a set.
    fn primary(&self, place: &Place) -> Result<Client> {
        let end = Instant::now() + PRIMARY;
        loop {
            let mut reason = "it has no primary".to_owned();
            for address in &place.addresses {
                let connected = Client::connect_with(address, self.options.clone());
                let asked = connected.and_then(|mut client| {
                    let is_primary = client.command("admin", &hello())?.doc.get("isWritablePrimary");
                    let is_primary = matches!(is_primary, Some(ValueRef::Bool(true)));
                    Ok(is_primary.then_some(client))
                });
                match asked {
                    Ok(Some(client)) => return Ok(client),
                    Ok(None) => {}
                    Err(error) => reason = format!("{address}: {error}"),
                }
            }
            if Instant::now() >= end {
                return Err(Error::Refused(reason));
            }
            std::thread::sleep(RETRY);
        }
    }

    /// The greatest time of all primaries (C1).
    fn time(&self) -> Result<u64> {
        let times = self.each(|place| {
            let mut client = self.primary(place)?;
            let reply = client.command("admin", &DocBuf::new().with("ping", 1)).map_err(|error| refused(&error))?;
            time_in(reply.doc).ok_or_else(|| Error::Refused("the primary shows no cluster time".to_owned()))
        })?;
        Ok(times.into_iter().max().unwrap_or(0))
    }

    fn directories(&self) -> Vec<String> {
        self.members.iter().map(|place| place.directory.clone()).collect()
    }

    fn point(&self, time: u64) -> Point {
        Point { format: FORMAT, cluster: self.id.clone(), time, ended: create::now(), members: self.directories() }
    }

    /// Has a set log a record behind the time, which its members in sync have (C2).
    fn pass(&self, place: &Place, time: u64) -> Result<()> {
        let stamp = ValueRef::Timestamp(arbor_bson::Timestamp { seconds: (time >> 32) as u32, increment: time as u32 });
        let signature =
            DocBuf::new().with("hash", ValueRef::Binary { subtype: 0, bytes: &[0; 20] }).with("keyId", 0i64);
        let shown = DocBuf::new().with("clusterTime", stamp).with("signature", &signature);
        let note = DocBuf::new()
            .with("appendOplogNote", 1)
            .with("data", &DocBuf::new().with("msg", "a backup of the cluster"))
            .with("writeConcern", &DocBuf::new().with("w", "majority"))
            .with("$clusterTime", &shown);
        let end = Instant::now() + PRIMARY;
        loop {
            // A primary that was deposed meanwhile is no reason to give up.
            let noted = self.primary(place)?.command("admin", &note).map(drop);
            match noted {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() >= end || error.code() == Some(UNAUTHORIZED) => {
                    return Err(refused(&error));
                }
                Err(_) => std::thread::sleep(RETRY),
            }
        }
    }
}

/// Prepares the target, which may have backups of this cluster only.
fn begin(cluster: &Cluster, target: &Target) -> Result<()> {
    target.files.make()?;
    if !target.backups()?.is_empty() {
        return Err(Error::Refused(format!("{target} has backups of one set: take another directory for a cluster")));
    }
    target.files.create_directory(POINTS)?;
    if let Some((name, other)) = points(target)?.into_iter().find(|(_, point)| point.cluster != cluster.id) {
        let text = format!("{target} has a backup ({name}) of another cluster, with the id {}", other.cluster);
        return Err(Error::Refused(format!("{text}; this one has the id {}. Take another directory", cluster.id)));
    }
    Ok(())
}

/// `incremental`: the sets that have a full backup get none.
pub(super) fn create(uri: &str, cluster: &Cluster, target: &Target, speed: Speed, incremental: bool) -> Result<()> {
    begin(cluster, target)?;
    cluster.each(|place| {
        let (source, own) = (cluster.source(place)?, target.child(&place.directory));
        match incremental && create::has_backup(&own)? {
            true => Ok(()),
            false => create::full(&source, &own, speed),
        }
    })?;
    if is_archived(cluster, target) {
        return await_point(cluster, target);
    }
    for _ in 0..ATTEMPTS {
        cluster.each(|place| archive::once(&cluster.source(place)?, &target.child(&place.directory), speed))?;
        let time = cluster.time()?;
        cluster.each(|place| cluster.pass(place, time))?;
        let added = cluster
            .each(|place| archive::up_to(&cluster.source(place)?, &target.child(&place.directory), speed, time))?;
        if added.iter().any(|added| added.loads > 0) {
            continue;
        }
        if Cluster::of(uri)?.is_none_or(|now| now.directories() != cluster.directories()) {
            return Err(Error::Refused("shards were added or removed meanwhile: try again".to_owned()));
        }
        let point = cluster.point(time);
        let name = write_point(target, &point)?;
        println!("{name} {point}");
        return Ok(());
    }
    Err(Error::Refused("indexes are built or engines changed all the time: try again when fewer are".to_owned()))
}

/// Returns true if another process archives a log of the cluster.
fn is_archived(cluster: &Cluster, target: &Target) -> bool {
    cluster.members.iter().any(|place| LogFiles::of(&target.child(&place.directory)).lock().is_err())
}

/// Waits for the next point of the process that archives.
fn await_point(cluster: &Cluster, target: &Target) -> Result<()> {
    let (time, end) = (cluster.time()?, Instant::now() + archive::BEHIND);
    loop {
        if let Some((name, point)) = points(target)?.into_iter().find(|(_, point)| point.time >= time) {
            println!("{name} {point}");
            return Ok(());
        }
        if Instant::now() >= end {
            let text = "another process archives the logs, and makes no point: its messages say why";
            return Err(Error::Refused(text.to_owned()));
        }
        std::thread::sleep(RETRY);
    }
}

/// An archive of all sets, with points at an interval.
struct Archives<'a> {
    uri: &'a str,
    target: &'a Target,
    speed: Speed,
    /// The cluster as the router showed it last.
    cluster: Mutex<Arc<Cluster>>,
    /// The first error that another attempt does not mend.
    failed: Mutex<Option<Error>>,
    ended: &'a Watch,
}

type Running = BTreeMap<String, Arc<Watch>>;

/// Archives the logs of all sets until the watch stops it. Sets without a full backup get one.
pub(super) fn archive(
    uri: &str,
    cluster: Cluster,
    target: &Target,
    speed: Speed,
    interval: Duration,
    ended: &Watch,
) -> Result<()> {
    begin(&cluster, target)?;
    let cluster = Mutex::new(Arc::new(cluster));
    let archives = Archives { uri, target, speed, cluster, failed: Mutex::new(None), ended };
    std::thread::scope(|scope| {
        let (mut running, mut is_first, mut written) = (Running::new(), true, Written::default());
        while !archives.is_ended() {
            archives.drop_removed(&mut running);
            for directory in archives.cluster().directories() {
                if running.contains_key(&directory) {
                    continue;
                }
                if !is_first {
                    eprintln!(
                        "{directory} was added to the cluster: a full backup of it begins. Times between the points before and behind that are not restored"
                    );
                }
                let watch = Arc::new(Watch::default());
                running.insert(directory.clone(), watch.clone());
                let (archives, is_new) = (&archives, !is_first);
                scope.spawn(move || archives.keep(&directory, is_new, &watch));
            }
            is_first = false;
            let made = archives.point(&running).and_then(|point| match point {
                Some(point) => written.add(target, point).map(|()| interval),
                None => Ok(AGAIN),
            });
            ended.pause(made.unwrap_or_else(|error| {
                match (&error, &written.last) {
                    (Error::Refused(_), Some(_)) => eprintln!("{error}; trying again"),
                    // The options are wrong, or the rights of the user; or the target cannot be written.
                    _ => archives.fail(error),
                }
                AGAIN
            }));
            archives.look_again();
        }
        running.values().for_each(|watch| watch.end());
    });
    archives.failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

impl Archives<'_> {
    fn cluster(&self) -> Arc<Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fail(&self, error: Error) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn is_ended(&self) -> bool {
        self.ended.is_stopped() || self.failed.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Asks a router for the sets of the cluster. While none replies they are the last ones.
    fn look_again(&self) {
        match Cluster::of(self.uri) {
            Ok(Some(now)) => *self.cluster.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(now),
            Ok(None) => eprintln!("--uri is not that of a router any more; trying again"),
            Err(error) => eprintln!("{error}; trying again"),
        }
    }

    fn drop_removed(&self, running: &mut Running) {
        let members = self.cluster().directories();
        running.retain(|directory, watch| {
            let stays = members.contains(directory);
            if !stays {
                eprintln!("{directory} was removed from the cluster: its archive ends. Times between the points before and behind that are not restored");
                watch.end();
            }
            stays
        });
    }

    fn source(&self, directory: &str) -> Result<Source> {
        let cluster = self.cluster();
        let place = cluster.members.iter().find(|place| place.directory == directory);
        cluster.source(place.ok_or_else(|| Error::Refused("it is no part of the cluster any more".to_owned()))?)
    }

    /// Archives the log of a set behind a full backup. `is_new`: it came to the cluster since.
    fn keep(&self, directory: &str, is_new: bool, watch: &Watch) {
        let (name, own) = (format!("{directory}: "), self.target.child(directory));
        let archived = || -> Result<()> {
            while (is_new || !create::has_backup(&own)?) && !watch.is_stopped() {
                match self.source(directory).and_then(|source| create::full(&source, &own, self.speed)) {
                    Ok(()) => break,
                    // The logs of the others are archived meanwhile.
                    Err(error) if is_new => eprintln!("{name}{error}; trying again"),
                    Err(error) => return Err(error),
                }
                watch.pause(INTERVAL);
            }
            archive::keep_on(&name, || self.source(directory), &own, self.speed, watch)
        };
        if let Err(error) = archived() {
            self.fail(Error::Refused(format!("{name}{error}")));
        }
    }

    /// Chooses a time up to which all sets are archived. `None`: there is none yet.
    fn point(&self, running: &Running) -> Result<Option<Point>> {
        let cluster = self.cluster();
        let loads = || running.values().map(|watch| watch.loads()).collect::<Vec<u64>>();
        let before = loads();
        if !running.values().all(|watch| watch.has_begun()) {
            return Ok(None);
        }
        let time = cluster.time()?;
        cluster.each(|place| cluster.pass(place, time))?;
        let end = Instant::now() + archive::BEHIND;
        while let Some((directory, _)) = running.iter().find(|(_, watch)| watch.time() <= time) {
            if self.is_ended() {
                return Ok(None);
            }
            if Instant::now() >= end {
                eprintln!("{directory} is not archived up to {} yet", shown_time(time));
                return Ok(None);
            }
            std::thread::sleep(RETRY);
        }
        self.look_again();
        let is_same = self.cluster().directories() == cluster.directories();
        Ok((is_same && loads() == before).then(|| cluster.point(time)))
    }
}

/// The points that this process has written. Within an hour and the same sets the first one and the newest stay: all times between them
/// can be restored.
#[derive(Default)]
struct Written {
    last: Option<(String, Point)>,
    is_first: bool,
}

impl Written {
    fn add(&mut self, target: &Target, point: Point) -> Result<()> {
        let hour = |point: &Point| (point.time >> 32) / 3600;
        let name = write_point(target, &point)?;
        let continues =
            self.last.as_ref().is_some_and(|(_, last)| last.members == point.members && hour(last) == hour(&point));
        match self.last.take() {
            Some((old, _)) if continues && !self.is_first => target.files.remove(&format!("{POINTS}/{old}.json"))?,
            _ => {}
        }
        if !continues {
            println!("{name} {point}");
        }
        (self.last, self.is_first) = (Some((name, point)), !continues);
        Ok(())
    }
}

fn write_point(target: &Target, point: &Point) -> Result<String> {
    let taken: Vec<String> = points(target)?.into_iter().map(|(name, _)| name).collect();
    let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let numbered = (1..1000).map(|number| format!("{time}-{number:03}"));
    let name = std::iter::once(time.clone()).chain(numbered).find(|name| !taken.contains(name));
    let name = name.ok_or_else(|| Error::Refused(format!("{target} has a thousand points of this second")))?;
    target.files.write(&format!("{POINTS}/{name}.json"), seal(point).as_bytes())?;
    Ok(name)
}

/// Returns true if the target is one of a cluster.
pub(super) fn is_of_one(target: &Target) -> Result<bool> {
    Ok(target.files.list(POINTS)?.is_some())
}

/// All points, the oldest first.
fn points(target: &Target) -> Result<Vec<(String, Point)>> {
    let mut found = Vec::new();
    for entry in target.files.list(POINTS)?.unwrap_or_default() {
        let Some(name) = entry.name.strip_suffix(".json") else { continue };
        let file = format!("{POINTS}/{}", entry.name);
        let Some(bytes) = target.files.read(&file)? else { continue };
        let path = target.files.path(&file);
        if super::cipher::is_encrypted(&bytes) {
            return Err(super::cipher::no_key(&path));
        }
        let text = String::from_utf8(bytes).map_err(|_| damaged(&path, "it is damaged: it is no text"))?;
        let point: Point = unseal_of(&text, FORMAT).map_err(|reason| damaged(&path, reason))?;
        found.push((name.to_owned(), point));
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shards = self.members.iter().filter(|name| *name != CONFIG).count();
        write!(f, "cluster {}: {shards} shards, time {}", self.cluster, shown_time(self.time))
    }
}

pub(super) fn list(from: &Target) -> Result<()> {
    let points = points(from)?;
    points.iter().for_each(|(name, point)| println!("{name} {point}"));
    let mut members: Vec<&String> = points.iter().flat_map(|(_, point)| &point.members).collect();
    members.sort();
    members.dedup();
    for member in members {
        println!("{member}:");
        super::list(&from.child(member))?;
    }
    Ok(())
}

/// Finds the time that is asked for, and the sets that the cluster had then.
fn asked_point(from: &Target, asked: &Asked) -> Result<(u64, Vec<String>)> {
    let points = points(from)?;
    let newest = || Error::Refused(format!("{from} has no backup of the whole cluster"));
    match asked {
        Asked::Newest => points.last().map(|(_, own)| (own.time, own.members.clone())).ok_or_else(newest),
        Asked::Backup(asked) => {
            let own = points.into_iter().find(|(name, _)| name == asked);
            let own =
                own.ok_or_else(|| Error::Refused(format!("{from} has no backup {asked} of the whole cluster")))?;
            Ok((own.1.time, own.1.members))
        }
        Asked::Position(_) => {
            Err(Error::Refused("a position is of one set: --time restores a cluster to a time".to_owned()))
        }
        Asked::Time(time) => {
            let (last, _) = points.last().map(|(_, own)| (own.time, ())).ok_or_else(newest)?;
            let Some(at) = points.iter().position(|(_, own)| own.time >= *time) else {
                let text = format!(
                    "{from} cannot restore {}: it has the whole cluster up to {}",
                    shown_time(*time),
                    shown_time(last)
                );
                return Err(Error::Refused(text));
            };
            let (after, before) = (points.get(at), at.checked_sub(1).and_then(|before| points.get(before)));
            let members = after.map_or_else(Vec::new, |(_, own)| own.members.clone());
            if before.is_some_and(|(_, before)| before.members != members) {
                let text = "shards were added or removed between the backups before and after that time: restore one of the two";
                return Err(Error::Refused(text.to_owned()));
            }
            Ok((*time, members))
        }
    }
}

/// `hosts`: new addresses of shards, by their names.
pub(super) fn restore(from: &Target, asked: &Asked, hosts: &[(String, String)], dbpath: &Path) -> Result<()> {
    let (time, members) = asked_point(from, asked)?;
    for (name, _) in hosts {
        if !members.contains(&format!("{SHARD_PREFIX}{name}")) {
            return Err(Error::Refused(format!("the cluster had no shard {name} then")));
        }
    }
    let mut found = Vec::new();
    for member in &members {
        let own = from.child(member);
        found.push((member, point::find(&own, &Asked::Time(time))?, own));
    }
    restore::check_is_empty(dbpath)?;
    let is_new = !dbpath.exists();
    if is_new {
        std::fs::create_dir(dbpath).map_err(io("create", dbpath))?;
    }
    let made = found.iter().try_for_each(|(member, point, own)| {
        let directory = dbpath.join(member);
        restore::restore(own, point, &[], &directory)?;
        if *member == CONFIG && !hosts.is_empty() {
            place_shards(&point.manifest.home, hosts, &directory)?;
        }
        println!("{member}: {} was restored into {}", point.backup.name, directory.display());
        Ok(())
    });
    if let Err(error) = made {
        // Some sets without the others are no cluster.
        let _removed = restore::empty(dbpath, is_new);
        return Err(error);
    }
    println!("the cluster is that of {}", shown_time(time));
    Ok(())
}

/// Writes where the shards are going to be.
fn place_shards(home: &str, hosts: &[(String, String)], directory: &Path) -> Result<()> {
    let storage = restore::open_own(home, directory)?;
    let placed = || -> arbor_store::Result<usize> {
        let name = Namespace::new(CONFIG, "shards")?;
        let Some(shards) = storage.store.collection(&name) else { return Ok(0) };
        let (view, mut txn, mut placed) = (storage.transactions.read()?, storage.transactions.begin()?, 0);
        let mut cursor = RecordCursor::new(&view, &shards)?;
        let mut valid = cursor.first()?;
        while valid {
            let old = cursor.doc();
            let is_of = |name: &str| matches!(old.get("_id"), Some(ValueRef::String(own)) if own == name);
            if let Some((_, own)) = hosts.iter().find(|(name, _)| is_of(name)) {
                let mut new = DocBuf::new();
                for (field, value) in old.iter() {
                    new.append(field, if field == "host" { ValueRef::String(own) } else { value });
                }
                arbor_store::update(&mut txn, &shards, old, new.as_doc(), UpdateKind::Replacement)?;
                placed += 1;
            }
            valid = cursor.next()?;
        }
        txn.commit(Durability::Journaled)?;
        Ok(placed)
    };
    let placed = placed().map_err(|error| refused(&error));
    storage.close().map_err(|failure| refused(&failure))?;
    match placed? {
        placed if placed == hosts.len() => Ok(()),
        _ => Err(Error::Refused("config.shards has not all of the shards that are to be placed".to_owned())),
    }
}

pub(super) fn verify(from: &Target, scratch: Option<&Path>) -> Result<()> {
    let points = points(from)?;
    let Some((_, newest)) = points.last() else {
        return Err(Error::Refused(format!("{from} has no backup of the whole cluster")));
    };
    let mut bad = 0;
    for member in &newest.members {
        println!("{member}:");
        if let Err(error) = verify::run(&from.child(member), None, scratch) {
            println!("{member} PROBLEM {error}");
            bad += 1;
        }
    }
    for (name, point) in &points {
        let mut problems = Vec::new();
        for member in &point.members {
            let own = from.child(member);
            let problem = match (point::find(&own, &Asked::Time(point.time)), scratch) {
                (Err(error), _) => Some(error.to_string()),
                (Ok(_), None) => None,
                (Ok(_), Some(scratch)) => verify::trial(&own, &Asked::Time(point.time), scratch)?,
            };
            problems.extend(problem.map(|problem| format!("{member}: {problem}")));
        }
        problems.iter().for_each(|problem| println!("{name} PROBLEM {problem}"));
        if problems.is_empty() {
            println!("{name} ok");
        }
        bad += problems.len();
    }
    match bad {
        0 => Ok(()),
        bad => Err(Error::Refused(format!("{bad} problems"))),
    }
}

pub(super) fn prune(from: &Target, keep: Keep, now: jiff::Timestamp) -> Result<()> {
    let mut points = points(from)?;
    let old = keep.too_old(points.iter().map(|(_, point)| point.ended.as_str()), now);
    let members: std::collections::BTreeSet<String> =
        points.iter().flat_map(|(_, point)| point.members.iter().cloned()).collect();
    for (name, _) in points.drain(..old) {
        from.files.remove(&format!("{POINTS}/{name}.json"))?;
        println!("{name} removed");
    }
    let Some((_, oldest)) = points.first() else { return Ok(()) };
    for member in members {
        let own = from.child(&member);
        let is_needed = |point: &Point| point.members.contains(&member);
        if !points.iter().any(|(_, point)| is_needed(point)) {
            // It was a shard that the cluster has no more.
            from.files.remove_directory(&member)?;
            println!("{member} removed");
            continue;
        }
        let mut whole = Vec::new();
        for backup in own.backups()? {
            match backup.read()? {
                Condition::Whole(manifest) => whole.push((backup, manifest)),
                Condition::Unfinished => backup.remove()?,
                Condition::Damaged(error) => println!("{} is damaged, and stays: {error}", backup.path().display()),
            }
        }
        let behind = whole.iter().take_while(|(_, own)| own.time <= oldest.time).count();
        remove_old(&own, &whole, behind.saturating_sub(1))?;
    }
    Ok(())
}

/// Refuses a target of a cluster for one set.
pub(super) fn refuse(target: &Target) -> Result<()> {
    match target.is_there()? && is_of_one(target)? {
        true => {
            Err(Error::Refused(format!("{target} has backups of a sharded cluster: take another directory for a set")))
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(time: u64, members: &[&str]) -> Point {
        let members = members.iter().map(|name| (*name).to_owned()).collect();
        Point { format: FORMAT, cluster: "c".to_owned(), time, ended: "2026-11-24T00:00:00Z".to_owned(), members }
    }

    #[test]
    fn a_time_is_restored_with_the_shards_of_then() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::directory(dir.path());
        assert!(!is_of_one(&target).unwrap());
        target.files.create_directory(POINTS).unwrap();
        assert!(asked_point(&target, &Asked::Newest).is_err());
        for point in [
            point(10, &["config", "shard-a"]),
            point(20, &["config", "shard-a"]),
            point(30, &["config", "shard-a", "shard-b"]),
        ] {
            write_point(&target, &point).unwrap();
        }
        let names: Vec<String> = points(&target).unwrap().into_iter().map(|(name, _)| name).collect();
        assert!(names.is_sorted() && names.len() == 3 && refuse(&target).is_err());
        let two = vec!["config".to_owned(), "shard-a".to_owned()];
        let found = |asked: &Asked| asked_point(&target, asked).map_err(|error| error.to_string());
        assert_eq!(found(&Asked::Time(15)), Ok((15, two.clone())));
        assert_eq!(found(&Asked::Time(20)), Ok((20, two.clone())));
        assert_eq!(found(&Asked::Backup(names[0].clone())), Ok((10, two)));
        assert_eq!(found(&Asked::Newest).unwrap().1.len(), 3);
        assert!(found(&Asked::Time(25)).unwrap_err().contains("added or removed"));
        assert!(found(&Asked::Time(31)).unwrap_err().contains("whole cluster up to"));
        assert!(found(&Asked::Position(1)).unwrap_err().contains("--time"));
        let file = dir.path().join(POINTS).join(format!("{}.json", names[1]));
        let text = std::fs::read_to_string(&file).unwrap().replace("20,", "21,");
        std::fs::write(&file, text).unwrap();
        assert!(found(&Asked::Newest).unwrap_err().contains("damaged"));
    }
}
