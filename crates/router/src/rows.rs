//! Documents from several shards, as they come or merged by a sort.

use std::collections::VecDeque;
use std::sync::Arc;

use arbor_base::memory::{self, Class, Reservation};
use arbor_bson::keystring::KeyBuilder;
use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Error, Result};
use arbor_lang::Collation;
use arbor_query::{Interrupt, Rows};

use crate::fields;
use crate::shard::{Read, Shard, end_reads};

/// The field in which shards send the sort key of a document.
pub(crate) const SORT_KEY: &str = "__arborSortKey";

/// A cursor on one shard.
pub(crate) struct Stream {
    shard: Arc<Shard>,
    db: String,
    collection: String,
    id: i64,
    waiting: VecDeque<DocBuf>,
    /// Memory of `waiting`.
    memory: Reservation,
    /// Fields of the request that each getMore repeats.
    session: DocBuf,
    batch_size: Option<i64>,
    /// Sort key of the next document.
    key: Option<Vec<u8>>,
}

impl Stream {
    /// `reply` is that of the command which has opened the cursor.
    pub(crate) fn begin(
        shard: Arc<Shard>,
        reply: Doc<'_>,
        request: Doc<'_>,
        batch_size: Option<i64>,
    ) -> Result<Stream> {
        let cursor = fields::document(reply, "cursor").ok_or_else(|| no_cursor(&shard.name))?;
        let namespace = fields::string(cursor, "ns").unwrap_or_default();
        let (db, collection) = namespace.split_once('.').ok_or_else(|| no_cursor(&shard.name))?;
        let session = request
            .iter()
            .filter(|(name, _)| matches!(*name, "lsid" | "$audit" | "txnNumber" | "autocommit"))
            .collect();
        let mut stream = Stream {
            db: db.to_owned(),
            collection: collection.to_owned(),
            id: fields::int(cursor, "id"),
            waiting: VecDeque::new(),
            memory: memory::process().reservation(Class::Batch),
            session,
            batch_size,
            key: None,
            shard,
        };
        stream.take(cursor, "firstBatch")?;
        Ok(stream)
    }

    /// Takes a batch, all of whose predecessors have been read. Errors: there is no memory for it.
    fn take(&mut self, cursor: Doc<'_>, name: &str) -> Result<()> {
        assert!(self.waiting.is_empty(), "a batch is read before the next one");
        self.memory.shrink_to(0);
        let Some(batch) = fields::array(cursor, name) else { return Ok(()) };
        reserve(&mut self.memory, batch.as_bytes().len())?;
        self.waiting.extend(batch.iter().filter_map(|value| match value {
            ValueRef::Document(doc) => Some(doc.to_buf()),
            _ => None,
        }));
        Ok(())
    }

    /// Returns the next document.
    pub(crate) fn pull(&mut self, interrupt: &Interrupt) -> Result<Option<DocBuf>> {
        Ok(if self.fill(interrupt)? { self.waiting.pop_front() } else { None })
    }

    /// Reads the next batch if there is none. Returns false at the end.
    fn fill(&mut self, interrupt: &Interrupt) -> Result<bool> {
        while self.waiting.is_empty() {
            if self.id == 0 {
                return Ok(false);
            }
            interrupt.check()?;
            let mut more = DocBuf::new().with("getMore", self.id).with("collection", self.collection.as_str());
            self.session.as_doc().iter().for_each(|(name, value)| {
                more.append(name, value);
            });
            if let Some(size) = self.batch_size.filter(|size| *size > 0) {
                more.append("batchSize", size);
            }
            let reply = self.shard.call(&self.db, &more, interrupt).inspect_err(|_| self.id = 0)?;
            let cursor = fields::document(reply.as_doc(), "cursor").ok_or_else(|| no_cursor(&self.shard.name))?;
            self.id = fields::int(cursor, "id");
            self.take(cursor, "nextBatch")?;
        }
        Ok(true)
    }
}

/// The shard closes a cursor that is not read any more; where it cannot be reached, its timeout does.
impl Drop for Stream {
    fn drop(&mut self) {
        if self.id != 0 && self.shard.idle_connections() > 0 {
            let cursors: ArrayBuf = std::iter::once(self.id).collect();
            let kill = DocBuf::new().with("killCursors", self.collection.as_str()).with("cursors", &cursors);
            let interrupt = Interrupt::never().within(std::time::Duration::from_secs(1));
            let _ = self.shard.call(&self.db, &kill, &interrupt);
        }
    }
}

/// Reads the replies that open a cursor on each shard. Errors: the first one of any; the cursors of the others are closed.
pub(crate) fn open_streams(
    mut reads: Vec<Read>,
    db: &str,
    batch_size: Option<i64>,
    interrupt: &Interrupt,
) -> Result<Vec<Stream>> {
    let ended = end_reads(&mut reads, db, interrupt);
    let opened = reads.into_iter().filter_map(|Read { shard, command, reply, .. }| Some((shard, command, reply?)));
    let streams: Vec<Result<Stream>> = opened
        .map(|(shard, command, reply)| Stream::begin(shard, reply.as_doc(), command.as_doc(), batch_size))
        .collect();
    ended.and_then(|()| streams.into_iter().collect())
}

/// Reserves memory for what shards have sent. Errors: there is no more.
pub(crate) fn reserve(memory: &mut Reservation, bytes: usize) -> Result<()> {
    match memory.try_cover_all(bytes) {
        true => Ok(()),
        false => {
            let text = "the router has no memory for the documents of the shards within the limit of the process";
            Err(Error::new(Code::EXCEEDED_MEMORY_LIMIT, text))
        }
    }
}

fn no_cursor(shard: &str) -> Error {
    Error::new(Code::INTERNAL_ERROR, format!("shard {shard} sent a reply without a cursor"))
}

/// The order of a merge: the directions of a sort, and its collation.
pub(crate) struct Order {
    pub descending: Vec<bool>,
    pub collation: Collation,
}

impl Order {
    pub(crate) fn key(&self, document: Doc<'_>) -> Vec<u8> {
        let mut builder = KeyBuilder::new();
        let all = fields::array(document, SORT_KEY);
        // a distance is a value by itself
        let one = document.get(SORT_KEY).filter(|_| all.is_none());
        let values = all.iter().flat_map(|values| values.iter());
        for (value, descending) in values.chain(one).zip(&self.descending) {
            self.collation.push_key(&mut builder, value, *descending);
        }
        builder.bytes().to_vec()
    }
}

pub(crate) struct Merge {
    streams: Vec<Stream>,
    order: Option<Order>,
    skip: u64,
    limit: Option<u64>,
}

impl Merge {
    pub(crate) fn new(streams: Vec<Stream>, order: Option<Order>, skip: u64, limit: Option<u64>) -> Merge {
        Merge { streams, order, skip, limit }
    }

    pub(crate) fn pull(&mut self, interrupt: &Interrupt) -> Result<Option<DocBuf>> {
        let Some(order) = &self.order else {
            while let Some(stream) = self.streams.last_mut() {
                if stream.fill(interrupt)? {
                    return Ok(stream.waiting.pop_front());
                }
                self.streams.pop();
            }
            return Ok(None);
        };
        for stream in &mut self.streams {
            if stream.key.is_none() && stream.fill(interrupt)? {
                stream.key = stream.waiting.front().map(|document| order.key(document.as_doc()));
            }
        }
        let ready = self.streams.iter_mut().filter(|stream| stream.key.is_some());
        let Some(first) = ready.min_by(|a, b| a.key.cmp(&b.key)) else { return Ok(None) };
        first.key = None;
        Ok(first.waiting.pop_front().map(|document| fields::without(document.as_doc(), &[SORT_KEY])))
    }
}

impl Rows for Merge {
    fn next(&mut self, interrupt: &Interrupt) -> arbor_query::Result<Option<DocBuf>> {
        while self.skip > 0 {
            if self.pull(interrupt).map_err(as_query)?.is_none() {
                self.skip = 0;
                return Ok(None);
            }
            self.skip -= 1;
        }
        match &mut self.limit {
            Some(0) => {
                self.streams.clear();
                return Ok(None);
            }
            Some(left) => *left -= 1,
            None => {}
        }
        self.pull(interrupt).map_err(as_query)
    }
}

pub(crate) fn as_query(error: Error) -> arbor_query::Error {
    arbor_query::Error::new(error.code, error.message.clone())
}
