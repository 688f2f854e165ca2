//! The progress of a migration: the database `arbor_migrate` of the target.
//!
//! | collection | documents |
//! |---|---|
//! | `state` | one: `{_id: 1, source, phase, begin, token}`: the source, `copying`, `following` or `done`, the time at which the change stream begins, the token up to which it was applied |
//! | `collections` | one for each: `{_id: KEY, db, name, uuid, there, last, documents, copied, doubtful}`: database and name at the target, the UUIDs of the source's collection and of the target's, the last `_id` that was copied, how many were, whether all were, whether it is to be compared with the source at the end. KEY is the source's UUID, or the namespace of what has none |

use arbor_bson::{DocBuf, Timestamp, Value, ValueRef};

use super::Result;
use super::server::{Server, number, text, time_of};

pub(super) const DATABASE: &str = "arbor_migrate";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Copying,
    Following,
    Done,
}

const PHASES: [(Phase, &str); 3] =
    [(Phase::Copying, "copying"), (Phase::Following, "following"), (Phase::Done, "done")];

#[derive(Clone, Debug)]
pub(super) struct State {
    pub source: String,
    pub phase: Phase,
    /// The change stream begins here. `None`: there is none.
    pub begin: Option<Timestamp>,
    pub token: Option<DocBuf>,
}

/// A collection of the source, as far as it is at the target.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    pub key: String,
    /// Database and name at the target.
    pub place: (String, String),
    pub uuid: Option<Value>,
    /// UUID of the target's collection, once it was created.
    pub there: Option<Value>,
    pub last: Option<Value>,
    pub documents: u64,
    pub copied: bool,
    /// Its contents may be those of another collection which had the same name: it is compared with the source at the end.
    pub is_doubtful: bool,
}

impl State {
    pub(super) fn read(target: &mut Server) -> Result<Option<State>> {
        let found = target.all(DATABASE, &DocBuf::new().with("find", "state"))?;
        Ok(found.first().map(|doc| {
            let name = doc.get("phase").and_then(text).unwrap_or_default();
            let phase = PHASES.iter().find(|(_, own)| *own == name).map_or(Phase::Copying, |(phase, _)| *phase);
            let time = time_of(doc.as_doc(), "begin");
            let begin = (time > 0).then_some(Timestamp { seconds: (time >> 32) as u32, increment: time as u32 });
            let token = match doc.get("token") {
                Some(ValueRef::Document(token)) => Some(token.to_buf()),
                _ => None,
            };
            State { source: doc.get("source").and_then(text).unwrap_or_default(), phase, begin, token }
        }))
    }

    pub(super) fn write(&self, target: &mut Server) -> Result<()> {
        let phase = PHASES.iter().find(|(own, _)| *own == self.phase).map_or("", |(_, name)| name);
        let mut doc = DocBuf::new().with("_id", 1).with("source", self.source.as_str()).with("phase", phase);
        if let Some(begin) = self.begin {
            doc.append("begin", ValueRef::Timestamp(begin));
        }
        if let Some(token) = &self.token {
            doc.append("token", token);
        }
        replace(target, "state", &doc)
    }
}

impl Progress {
    pub(super) fn all(target: &mut Server) -> Result<Vec<Progress>> {
        let found = target.all(DATABASE, &DocBuf::new().with("find", "collections"))?;
        let is = |doc: &DocBuf, name: &str| matches!(doc.get(name), Some(ValueRef::Bool(true)));
        let read = |doc: &DocBuf| {
            let name = |field| doc.get(field).and_then(text).unwrap_or_default();
            Progress {
                key: name("_id"),
                place: (name("db"), name("name")),
                uuid: doc.get("uuid").map(ValueRef::to_value),
                there: doc.get("there").map(ValueRef::to_value),
                last: doc.get("last").map(ValueRef::to_value),
                documents: doc.get("documents").and_then(number).unwrap_or(0),
                copied: is(doc, "copied"),
                is_doubtful: is(doc, "doubtful"),
            }
        };
        Ok(found.iter().map(read).collect())
    }

    pub(super) fn write(&self, target: &mut Server) -> Result<()> {
        let mut doc = DocBuf::new().with("_id", self.key.as_str());
        doc.append("db", self.place.0.as_str()).append("name", self.place.1.as_str());
        for (name, value) in [("uuid", &self.uuid), ("there", &self.there), ("last", &self.last)] {
            if let Some(value) = value {
                doc.append(name, value);
            }
        }
        doc.append("documents", self.documents as i64);
        doc.append("copied", self.copied).append("doubtful", self.is_doubtful);
        replace(target, "collections", &doc)
    }

    pub(super) fn remove(target: &mut Server, key: &str) -> Result<()> {
        let statement = DocBuf::new().with("q", &DocBuf::new().with("_id", key)).with("limit", 1);
        let command = DocBuf::new().with("delete", "collections").with("writeConcern", &majority());
        target.write(DATABASE, &command, &[("deletes", &[statement])])
    }
}

pub(super) fn majority() -> DocBuf {
    DocBuf::new().with("w", "majority")
}

fn replace(target: &mut Server, collection: &str, doc: &DocBuf) -> Result<()> {
    let mut q = DocBuf::new();
    if let Some(id) = doc.get("_id") {
        q.append("_id", id);
    }
    let statement = DocBuf::new().with("q", &q).with("u", doc).with("upsert", true);
    let command = DocBuf::new().with("update", collection).with("writeConcern", &majority());
    target.write(DATABASE, &command, &[("updates", &[statement])])
}
