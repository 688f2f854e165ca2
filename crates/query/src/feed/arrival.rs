//! One record of the log, decoded.

use arbor_base::Position;
use arbor_engine::Op;
use arbor_oplog::{Event, Place, events};
use arbor_txn::History;
use arbor_txn::record::Record;

use crate::{Error, Result};

pub struct Arrival {
    pub position: Position,
    /// Position of the next record.
    pub next: Position,
    /// Epoch of the record: the term of its entries in the oplog.
    pub epoch: u64,
    record: Record,
    /// Databases and collections that it is about, each once.
    places: Vec<(String, String)>,
}

impl Arrival {
    /// `history` has just read the record.
    pub fn new(position: Position, history: &History, record: Record) -> Arrival {
        let mut places = Vec::new();
        let described = record.places.iter().filter(|(tree, _)| record.notes.iter().any(|note| note.tree == *tree));
        for (_, place) in described {
            // a damaged place fails where its events are read
            let Ok(place) = Place::decode(place) else { continue };
            let (db, collection) = place.namespace.split_once('.').unwrap_or((place.namespace, ""));
            places.push((db.to_owned(), collection.to_owned()));
        }
        Arrival { position, next: history.position(), epoch: history.epoch(), record, places }
    }

    /// Returns true if it contains events for subscribers.
    pub fn has_events(&self) -> bool {
        !self.record.notes.is_empty()
    }

    pub fn places(&self) -> impl Iterator<Item = (&str, &str)> {
        self.places.iter().map(|(db, collection)| (db.as_str(), collection.as_str()))
    }

    /// Returns true if it contains a command in `db.$cmd`.
    pub fn changes_catalogue(&self) -> bool {
        self.places.iter().any(|(_, collection)| collection == "$cmd")
    }

    pub fn last_time(&self) -> u64 {
        self.record.last_time()
    }

    pub fn record(&self) -> &Record {
        &self.record
    }

    pub fn events(&self) -> Result<Vec<Event<'_>>> {
        events(&self.record).map_err(damaged)
    }

    pub(super) fn size_bytes(&self) -> usize {
        let of_op = |op: &Op| match op {
            Op::Put { key, value, .. } => key.len() + value.len() + 64,
            Op::Update { key, update, .. } => key.len() + update.len() + 64,
            _ => 64,
        };
        let ops: usize = self.record.ops.iter().map(of_op).sum();
        let notes: usize = self.record.notes.iter().map(|note| note.about.len() + 64).sum();
        ops + notes + 256
    }
}

pub fn damaged(reason: arbor_oplog::Malformed) -> Error {
    Error::internal(reason.to_string())
}
