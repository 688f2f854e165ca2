//! The change stream of the source, applied to the target.

use std::collections::HashMap;
use std::time::Duration;

use arbor_bson::{Doc, DocBuf, Timestamp, ValueRef};

use super::collections::{Kind, collection};
use super::server::{Cursor, NAMESPACE_NOT_FOUND, Server, text, time_of};
use super::state::{Progress, State};
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
    namespace: (String, String),
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
        let Some(ns) = namespace(event, "ns") else { return Ok(()) };
        let to = namespace(event, "to");
        let is_asked = self.is_asked(&ns.0, &ns.1) || to.as_ref().is_some_and(|to| self.is_asked(&to.0, &to.1));
        if !is_asked || ns.0 == super::state::DATABASE {
            return Ok(());
        }
        match kind.as_str() {
            "insert" | "update" | "replace" | "delete" => {
                if group.namespace != ns || group.order.len() >= 1000 {
                    self.apply_group(group)?;
                    group.namespace = ns;
                }
                let Some(ValueRef::Document(key)) = event.get("documentKey") else { return Ok(()) };
                let Some(id) = key.get("_id") else { return Ok(()) };
                let change = match (kind.as_str(), event.get("fullDocument")) {
                    ("delete", _) => Change::Delete,
                    (_, Some(ValueRef::Document(document))) => Change::Put(document.to_buf()),
                    // It was deleted since; that event follows.
                    _ => return Ok(()),
                };
                let key = DocBuf::new().with("_id", id);
                if group.changes.insert(key.as_bytes().to_vec(), change).is_none() {
                    group.order.push(key);
                }
                Ok(())
            }
            other => {
                self.apply_group(group)?;
                self.apply_to_catalogue(other, &ns, to)
            }
        }
    }

    fn apply_to_catalogue(
        &mut self,
        kind: &str,
        (db, name): &(String, String),
        to: Option<(String, String)>,
    ) -> Result<()> {
        let own = format!("{db}.{name}");
        match (kind, to) {
            ("create", _) => {
                let is_new = Progress::read(&mut self.target, &own)?.is_none();
                if let (true, Some(created)) = (is_new, collection(&mut self.source, db, name)?) {
                    self.create(&created)?;
                    let copied = created.kind != Kind::TimeSeries;
                    let progress = Progress { uuid: created.uuid, copied, ..Progress::default() };
                    progress.write(&mut self.target, &own)?;
                }
                Ok(())
            }
            ("drop", _) => {
                self.target.drop_collection(db, name)?;
                Progress::remove(&mut self.target, &own)
            }
            ("rename", Some(to)) => self.apply_rename(&own, (db, name), to),
            // Indexes and options are compared at the end; each collection of a database has an event of its own.
            _ => Ok(()),
        }
    }

    fn apply_rename(&mut self, own: &str, (db, name): (&str, &str), to: (String, String)) -> Result<()> {
        let target = format!("{}.{}", to.0, to.1);
        if !self.is_asked(&to.0, &to.1) || Progress::read(&mut self.target, own)?.is_none() {
            // It was renamed before it was copied: what is here of the old name are its events.
            self.target.drop_collection(db, name)?;
            return Progress::remove(&mut self.target, own);
        }
        let command = DocBuf::new().with("renameCollection", own).with("to", target.as_str()).with("dropTarget", true);
        match self.target.run("admin", &command) {
            // The step is repeated.
            Err(error) if error.code() == Some(NAMESPACE_NOT_FOUND) => {}
            renamed => drop(renamed?),
        }
        if let Some(progress) = Progress::read(&mut self.target, own)? {
            progress.write(&mut self.target, &target)?;
            Progress::remove(&mut self.target, own)?;
        }
        Ok(())
    }

    fn apply_group(&mut self, group: &mut Group) -> Result<()> {
        let Group { namespace: (db, name), order, mut changes } = std::mem::take(group);
        let (mut updates, mut deletes) = (Vec::new(), Vec::new());
        for key in order {
            let Some(id) = key.get("_id") else { continue };
            let q = DocBuf::new().with("_id", &DocBuf::new().with("$eq", id));
            match changes.remove(key.as_bytes()) {
                Some(Change::Put(document)) => {
                    updates.push(DocBuf::new().with("q", &q).with("u", &document).with("upsert", true));
                }
                Some(Change::Delete) => deletes.push(DocBuf::new().with("q", &q).with("limit", 1)),
                None => {}
            }
        }
        for (command, field, statements) in [("update", "updates", updates), ("delete", "deletes", deletes)] {
            // A message of several large documents is cut where it would be too long.
            let mut rest = statements.as_slice();
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
                self.target.write(&db, &own, &[(field, now)])?;
                self.pace.add(bytes as u64);
                rest = later;
            }
        }
        Ok(())
    }
}
