//! The change stream of the source, applied to the target.

use std::collections::HashMap;
use std::time::Duration;

use arbor_bson::{Doc, DocBuf, Timestamp, ValueRef};

use super::collections::{Collection, Kind, collection};
use super::places::key_of;
use super::server::{Cursor, Server, text, time_of};
use super::state::State;
use super::{Error, Migration, Result};

/// Time for which an empty stream is waited for.
const WAIT: Duration = Duration::from_millis(1000);
/// Replies without an event, begun after the writes have ended, after which none is expected to come.
const QUIET: u32 = 2;
/// `$changeStream` is only supported on replica sets; and what others say that do not know it.
const NO_STREAMS: [i32; 6] = [40573, 40324, 40415, 59, 115, 9];
const CURSOR_NOT_FOUND: i32 = 43;
const HISTORY_LOST: i32 = 286;

pub(super) struct Changes {
    cursor: Cursor,
    /// Time of the last event.
    time: u64,
    events: u64,
}

fn stage(state: &State, expanded: bool) -> DocBuf {
    let mut options = DocBuf::new().with("allChangesForCluster", true).with("fullDocument", "updateLookup");
    if expanded {
        options.append("showExpandedEvents", true);
    }
    match (&state.token, state.begin) {
        (Some(token), _) => {
            options.append("resumeAfter", token);
        }
        (None, Some(begin)) => {
            options.append("startAtOperationTime", ValueRef::Timestamp(begin));
        }
        (None, None) => {}
    }
    DocBuf::new().with("$changeStream", &options)
}

fn open(source: &mut Server, state: &State) -> Result<Cursor> {
    let mut opened = None;
    // Releases before 6.0 know no expanded events; what they lack is found at the end.
    for expanded in [true, false] {
        let pipeline: arbor_bson::ArrayBuf = [&stage(state, expanded)].into_iter().collect();
        let cursor = DocBuf::new().with("batchSize", 0);
        let command = DocBuf::new().with("aggregate", 1).with("pipeline", &pipeline).with("cursor", &cursor);
        let tried = source.open("admin", &command);
        let is_last = tried.as_ref().err().is_none_or(|error| error.code() != Some(40415));
        opened = Some(tried);
        if is_last {
            break;
        }
    }
    opened.unwrap_or_else(|| Err(Error::Refused("no attempt was made".to_owned())))
}

/// The present time of the source, at which a change stream may begin. `None`: it has none.
pub(super) fn begin_time(source: &mut Server) -> Result<Option<Timestamp>> {
    let state = State { source: String::new(), phase: super::Phase::Copying, begin: None, token: None };
    let opened = match open(source, &state) {
        Err(error) if error.code().is_some_and(|code| NO_STREAMS.contains(&code)) => return Ok(None),
        opened => opened?,
    };
    let kill: arbor_bson::ArrayBuf = [ValueRef::Int64(opened.id)].into_iter().collect();
    source.run("admin", &DocBuf::new().with("killCursors", "$cmd.aggregate").with("cursors", &kill))?;
    let (seconds, increment) = ((opened.time >> 32) as u32, opened.time as u32);
    Ok((opened.time > 0).then_some(Timestamp { seconds, increment }))
}

/// The last change of a document within a batch.
enum Change {
    Put(DocBuf),
    Delete,
}

/// Changes of one collection on their way; of each document the last one, in the order in which the documents came.
#[derive(Default)]
struct Group {
    /// Namespace and UUID in the events.
    source: ((String, String), Option<Vec<u8>>),
    /// Its namespace at the target; `None` for a collection that the target does not have.
    place: Option<(String, String)>,
    order: Vec<DocBuf>,
    changes: HashMap<Vec<u8>, Change>,
}

impl Changes {
    /// Continues the stream. `None`: the source has none.
    pub(super) fn open(migration: &mut Migration, state: &State) -> Result<Option<Changes>> {
        if state.begin.is_none() {
            return Ok(None);
        }
        let cursor = open(&mut migration.source, state).map_err(|error| match error.code() {
            Some(HISTORY_LOST) => Error::Refused(format!(
                "the source does not keep the changes since the migration was here last ({error}): drop what the target has of it, and begin again"
            )),
            _ => error,
        })?;
        Ok(Some(Changes { cursor, time: 0, events: 0 }))
    }

    pub(super) fn progress(&self) -> String {
        let (now, own) = (self.cursor.time >> 32, self.time >> 32);
        let lag = if self.cursor.batch.is_empty() { 0 } else { now.saturating_sub(own) };
        format!("{} events, {lag} s behind", self.events)
    }

    /// Applies the next batch. Returns the number of its events.
    pub(super) fn step(&mut self, migration: &mut Migration, state: &mut State) -> Result<usize> {
        match migration.source.more("admin", &mut self.cursor, Some(WAIT)) {
            Err(error) if error.code() == Some(CURSOR_NOT_FOUND) => {
                // The source was restarted.
                self.cursor = open(&mut migration.source, state)?;
                return Ok(0);
            }
            read => read?,
        }
        let batch = std::mem::take(&mut self.cursor.batch);
        let mut group = Group::default();
        for event in &batch {
            migration.apply(event.as_doc(), &mut group)?;
            self.time = time_of(event.as_doc(), "clusterTime");
        }
        migration.apply_group(&mut group)?;
        self.events += batch.len() as u64;
        let token = self.cursor.token.take().or_else(|| match batch.last()?.get("_id") {
            Some(ValueRef::Document(token)) => Some(token.to_buf()),
            _ => None,
        });
        let is_new = |token: &DocBuf| state.token.as_ref().is_none_or(|own| own.as_bytes() != token.as_bytes());
        if let Some(token) = token.filter(is_new) {
            state.token = Some(token);
            state.write(&mut migration.target)?;
        }
        Ok(batch.len())
    }

    /// Applies all events up to now. Requires that nothing writes to the source any more, else it takes until then.
    pub(super) fn drain(&mut self, migration: &mut Migration, state: &mut State) -> Result<()> {
        let mut quiet = 0;
        while quiet < QUIET {
            quiet = if self.step(migration, state)? == 0 { quiet + 1 } else { 0 };
            if migration.is_time_to_report() {
                eprintln!("cutting over: {}", self.progress());
            }
        }
        Ok(())
    }
}

impl Group {
    fn add(&mut self, kind: &str, event: Doc<'_>) {
        let Some(ValueRef::Document(key)) = event.get("documentKey") else { return };
        let Some(id) = key.get("_id").filter(|_| self.place.is_some()) else { return };
        let change = match (kind, event.get("fullDocument")) {
            ("delete", _) => Change::Delete,
            (_, Some(ValueRef::Document(document))) => Change::Put(document.to_buf()),
            // It was deleted since, or its collection renamed or dropped; that event follows.
            _ => return,
        };
        let key = DocBuf::new().with("_id", id);
        if self.changes.insert(key.as_bytes().to_vec(), change).is_none() {
            self.order.push(key);
        }
    }
}

/// Selects the document with the `_id` of this one.
fn selection(document: &DocBuf) -> Option<DocBuf> {
    Some(DocBuf::new().with("_id", &DocBuf::new().with("$eq", document.get("_id")?)))
}

/// A statement that replaces a document, or inserts it.
pub(super) fn put(document: &DocBuf) -> Option<DocBuf> {
    Some(DocBuf::new().with("q", &selection(document)?).with("u", document).with("upsert", true))
}

/// A statement that deletes a document.
pub(super) fn delete(document: &DocBuf) -> Option<DocBuf> {
    Some(DocBuf::new().with("q", &selection(document)?).with("limit", 1))
}

fn bytes_of(value: ValueRef<'_>) -> Option<&[u8]> {
    match value {
        ValueRef::Binary { bytes, .. } => Some(bytes),
        _ => None,
    }
}

fn namespace(event: Doc<'_>, field: &str) -> Option<(String, String)> {
    match event.get(field)? {
        ValueRef::Document(ns) => {
            Some((ns.get("db").and_then(text)?, ns.get("coll").and_then(text).unwrap_or_default()))
        }
        _ => None,
    }
}

impl Migration {
    fn apply(&mut self, event: Doc<'_>, group: &mut Group) -> Result<()> {
        let Some(kind) = event.get("operationType").and_then(text) else { return Ok(()) };
        let Some(ns) = namespace(event, "ns").filter(|ns| ns.0 != super::state::DATABASE) else { return Ok(()) };
        let uuid = event.get("collectionUUID").and_then(bytes_of);
        match kind.as_str() {
            "insert" | "update" | "replace" | "delete" => {
                if group.source.0 != ns || group.source.1.as_deref() != uuid || group.order.len() >= 1000 {
                    self.apply_group(group)?;
                    group.place = self.place_of_changes(&ns, uuid)?;
                    group.source = (ns, uuid.map(<[u8]>::to_vec));
                }
                group.add(&kind, event);
                Ok(())
            }
            other => {
                self.apply_group(group)?;
                self.apply_to_catalogue(other, event, &ns, uuid)
            }
        }
    }

    /// Returns where changes of a collection go. `None`: the target does not have it: it went away before it was copied, or is none of those
    /// that are migrated.
    fn place_of_changes(&mut self, ns: &(String, String), uuid: Option<&[u8]>) -> Result<Option<(String, String)>> {
        if let Some(uuid) = uuid {
            let found = self.places.get(&key_of(uuid)).map(|progress| progress.place.clone());
            if found.is_none() {
                self.doubt(ns)?;
            }
            return Ok(found);
        }
        // Releases before 6.0 say neither which collection it was nor that one was created.
        if self.occupant(ns).is_none()
            && self.is_asked(&ns.0, &ns.1)
            && let Some(own) = collection(&mut self.source, &ns.0, &ns.1)?
        {
            self.begin_created(&own)?;
            self.doubt(ns)?;
        }
        let key = self.occupant(ns);
        Ok(key.and_then(|key| self.places.get(&key)).map(|progress| progress.place.clone()))
    }

    fn apply_to_catalogue(
        &mut self,
        kind: &str,
        event: Doc<'_>,
        ns: &(String, String),
        uuid: Option<&[u8]>,
    ) -> Result<()> {
        match (kind, uuid, namespace(event, "to")) {
            ("create", Some(uuid), _) => self.apply_create(ns, uuid),
            ("drop", Some(uuid), _) => self.forget(&key_of(uuid)),
            ("modify", Some(uuid), _) => match event.get("operationDescription") {
                Some(ValueRef::Document(description)) => self.apply_partitions(uuid, description),
                _ => Ok(()),
            },
            ("rename", Some(uuid), Some(to)) => {
                let victim = match event.get("operationDescription") {
                    Some(ValueRef::Document(description)) => description.get("dropTarget").and_then(bytes_of),
                    _ => None,
                };
                if let Some(victim) = victim {
                    self.forget(&key_of(victim))?;
                }
                self.apply_rename(&key_of(uuid), &to)
            }
            // Whatever it was is found at the end.
            ("drop" | "rename", None, to) => {
                self.doubt(ns)?;
                to.map_or(Ok(()), |to| self.doubt(&to))
            }
            // Indexes and options are compared at the end; each collection of a database has an event of its own.
            _ => Ok(()),
        }
    }

    fn apply_create(&mut self, ns: &(String, String), uuid: &[u8]) -> Result<()> {
        let key = key_of(uuid);
        let is_begun = self.places.get(&key).is_some_and(|progress| progress.there.is_some());
        if is_begun || !(self.only.is_empty() || self.only.iter().any(|only| only.split('.').next() == Some(&ns.0))) {
            return Ok(());
        }
        let is_own = |own: &Collection| own.key() == key;
        let created = match collection(&mut self.source, &ns.0, &ns.1)?.filter(is_own) {
            Some(created) => Some(created),
            // It has another name by now.
            None => self.asked_collections()?.into_iter().find(is_own),
        };
        match created {
            Some(own) if self.is_asked(&own.db, &own.name) => self.begin_created(&own),
            // It was dropped since.
            _ => Ok(()),
        }
    }

    /// Makes a collection all of whose documents are in the stream.
    fn begin_created(&mut self, own: &Collection) -> Result<()> {
        if own.kind == Kind::View {
            return Ok(());
        }
        self.begin_copy(own)?;
        self.note(&own.key(), |progress| progress.copied = own.kind != Kind::TimeSeries)
    }

    fn apply_rename(&mut self, key: &str, to: &(String, String)) -> Result<()> {
        let Some(progress) = self.places.get(key) else { return self.doubt(to) };
        let is_near = progress.place.0 == to.0;
        if !self.is_asked(&to.0, &to.1) {
            return self.forget(key);
        }
        self.note(key, |progress| progress.is_doubtful = true)?;
        if is_near && self.occupant(to).is_none() {
            self.move_to(key, &to.1)?;
        }
        Ok(())
    }

    fn apply_group(&mut self, group: &mut Group) -> Result<()> {
        let Group { place, order, mut changes, .. } = std::mem::take(group);
        let Some((db, name)) = place else { return Ok(()) };
        let (mut updates, mut deletes) = (Vec::new(), Vec::new());
        for key in order {
            match changes.remove(key.as_bytes()) {
                Some(Change::Put(document)) => updates.extend(put(&document)),
                Some(Change::Delete) => deletes.extend(delete(&key)),
                None => {}
            }
        }
        self.change(&(db, name), &updates, &deletes)
    }

    /// Carries out replacements and deletes in a collection of the target.
    pub(super) fn change(
        &mut self,
        (db, name): &(String, String),
        updates: &[DocBuf],
        deletes: &[DocBuf],
    ) -> Result<()> {
        for (command, field, statements) in [("update", "updates", updates), ("delete", "deletes", deletes)] {
            // A message of several large documents is cut where it would be too long.
            let mut rest = statements;
            while !rest.is_empty() {
                let mut bytes = 0;
                let fits = |statement: &&DocBuf| {
                    bytes += statement.as_bytes().len();
                    bytes <= 15 << 20
                };
                let (now, later) = rest.split_at(rest.iter().take_while(fits).count().max(1));
                let mut own = DocBuf::new().with(command, name.as_str()).with("ordered", false);
                if command == "update" {
                    own.append("bypassDocumentValidation", true);
                }
                self.target.write(db, &own, &[(field, now)])?;
                self.pace.add(bytes as u64);
                rest = later;
            }
        }
        Ok(())
    }
}
