//! A result that is handed out batch by batch.
//!
//! C1: a cursor owns its view (see [`crate::running_plan`]) and its operators; engine cursors exist only while a batch is made (see
//! [`crate::operator`]), so that nothing borrows between batches and a cursor may move between threads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arbor_base::memory::{self, Class, Reservation, values};
use arbor_bson::{ArrayBuf, Doc, DocBuf, INTERNAL_SIZE_MAX, ValueRef};
use arbor_lang::{Code, stop};
use arbor_store::Namespace;

use crate::feed::Woken;
use crate::plan::summary::Summary;
use crate::{Error, Interrupt, Result};

/// Documents of the first batch when the client does not say.
pub const FIRST_BATCH_DOCS: usize = 101;

/// A batch holds at most this many bytes, unless its only document is larger.
pub const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Limits of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimit {
    pub docs: usize,
    pub bytes: usize,
}

impl BatchLimit {
    pub fn docs(docs: usize) -> BatchLimit {
        BatchLimit { docs, bytes: BATCH_BYTES_MAX }
    }

    /// The first batch without a `batchSize`.
    pub fn first() -> BatchLimit {
        BatchLimit::docs(FIRST_BATCH_DOCS)
    }

    /// A `getMore` without a `batchSize`.
    pub fn more() -> BatchLimit {
        BatchLimit::docs(usize::MAX)
    }
}

#[derive(Debug)]
pub struct Batch {
    pub docs: ArrayBuf,
    /// Nothing follows; the cursor is to be closed.
    pub exhausted: bool,
    /// Memory of the documents and of one copy of them: of the reply that they go into.
    pub reservation: Reservation,
}

pub struct Cursor {
    namespace: Namespace,
    source: Source,
    /// A document that did not fit into the last batch.
    waiting: Option<DocBuf>,
    /// Its memory.
    idle: Reservation,
    /// Bytes of the last document so far: the next one is likely to be as large.
    last_bytes: usize,
    /// Rest of `maxTimeMS` for later batches.
    time_left: Option<Duration>,
    /// Set when the cursor is killed while it makes a batch.
    killed: Option<Arc<AtomicBool>>,
    returned: u64,
    batches: u64,
    /// The plans, from the first batch on.
    summary: Option<Summary>,
}

enum Source {
    Documents(VecDeque<DocBuf>),
    /// Result of a query for one `_id`.
    Document(Option<DocBuf>),
    Rows(Box<dyn RowSource>),
}

/// The rows of a cursor: of a plan, of a tail of the log or of a collection, of another server.
pub trait RowSource: Send {
    /// Fills a batch. Returns true if nothing can follow.
    fn fill(&mut self, filler: &mut Filler, namespace: &Namespace, interrupt: &Interrupt) -> Result<bool>;

    /// Returns true if a batch may block its thread until there is memory for it.
    fn may_block(&self) -> bool {
        false
    }

    /// Returns true if the source ends by itself: `maxTimeMS` then is for all of its batches.
    fn has_end(&self) -> bool {
        false
    }

    /// Returns the event to wait for after a batch without documents. None: nothing, or the batch has waited itself.
    fn woken(&self) -> Option<Woken> {
        None
    }

    /// Returns the position from which a resumed change stream misses nothing after the last batch.
    fn resume_token(&self) -> Option<DocBuf> {
        None
    }

    /// Returns true if a batch waits when there is nothing new; `patience` sets its timeout from now on.
    fn await_for(&mut self, _patience: Option<Duration>) -> bool {
        false
    }

    /// Called when the cursor begins to wait for its client.
    fn rest(&mut self) {}
}

impl Cursor {
    pub fn over_rows(namespace: Namespace, rows: impl RowSource + 'static) -> Cursor {
        Cursor::new(namespace, Source::Rows(Box::new(rows)))
    }

    /// A cursor over documents that are already there (listCollections and the like).
    pub fn over_documents(namespace: Namespace, docs: impl IntoIterator<Item = DocBuf>) -> Cursor {
        Cursor::new(namespace, Source::Documents(docs.into_iter().collect()))
    }

    fn rows(&self) -> Option<&dyn RowSource> {
        match &self.source {
            Source::Rows(rows) => Some(&**rows),
            Source::Documents(_) | Source::Document(_) => None,
        }
    }

    /// Returns the event to wait for after a batch without documents. None: nothing, or the batch has waited itself.
    pub fn woken(&self) -> Option<Woken> {
        self.rows()?.woken()
    }

    /// Returns the position from which a resumed change stream misses nothing after the last batch.
    pub fn resume_token(&self) -> Option<DocBuf> {
        self.rows()?.resume_token()
    }

    /// Returns true if a batch waits when there is nothing new; `patience` sets its timeout from now on.
    pub fn await_for(&mut self, patience: Option<Duration>) -> bool {
        match &mut self.source {
            Source::Rows(rows) => rows.await_for(patience),
            Source::Documents(_) | Source::Document(_) => false,
        }
    }

    pub(crate) fn over_document(namespace: Namespace, doc: Option<DocBuf>) -> Cursor {
        Cursor::new(namespace, Source::Document(doc))
    }

    fn new(namespace: Namespace, source: Source) -> Cursor {
        let (waiting, time_left, killed) = (None, None, None);
        let idle = memory::process().reservation(Class::Batch);
        Cursor {
            namespace,
            source,
            waiting,
            idle,
            last_bytes: 0,
            time_left,
            killed,
            returned: 0,
            batches: 0,
            summary: None,
        }
    }

    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Renames the cursor to the namespace that the client knows: that of a view.
    pub(crate) fn named(self, namespace: Namespace) -> Cursor {
        Cursor { namespace, ..self }
    }

    pub(crate) fn kill_flag(&mut self) -> Arc<AtomicBool> {
        self.killed.get_or_insert_default().clone()
    }

    /// Documents handed out so far.
    pub fn returned(&self) -> u64 {
        self.returned
    }

    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// Returns what the batches so far left of `maxTimeMS`.
    pub fn time_left(&self) -> Option<Duration> {
        self.time_left
    }

    /// An interrupt without a deadline gets what the earlier batches left of theirs.
    pub fn next_batch(&mut self, limit: BatchLimit, interrupt: &Interrupt) -> Result<Batch> {
        match self.own_interrupt(interrupt) {
            Some(own) => own.guard(|| self.fill_batch(limit, &own)),
            None => self.fill_batch(limit, interrupt),
        }
    }

    fn fill_batch(&mut self, limit: BatchLimit, interrupt: &Interrupt) -> Result<Batch> {
        match &self.summary {
            Some(summary) => summary.note_again(),
            None => self.summary = Some(Summary::noted()),
        }
        let may_wait = self.rows().is_some_and(RowSource::may_block);
        let mut filler = Filler::new(limit, self.waiting.take(), may_wait);
        filler.wait_for_first(self.last_bytes)?;
        let exhausted = match &mut self.source {
            Source::Documents(docs) => {
                filler.fill(|| Ok(docs.pop_front()))?;
                docs.is_empty()
            }
            Source::Document(doc) => {
                filler.fill(|| Ok(doc.take()))?;
                doc.is_none()
            }
            Source::Rows(rows) => rows.fill(&mut filler, &self.namespace, interrupt)?,
        };
        let has_end = self.rows().is_none_or(RowSource::has_end);
        self.time_left = interrupt.remaining().filter(|_| has_end);
        self.waiting = filler.waiting;
        self.idle.set(self.waiting.as_ref().map_or(0, |doc| doc.as_bytes().len()));
        self.returned += filler.docs.len() as u64;
        self.batches += 1;
        self.last_bytes = filler.last_bytes;
        let Filler { docs, mut reservation, .. } = filler;
        reservation.shrink_to(REPLY_COPIES * docs.as_array().as_bytes().len());
        Ok(Batch { docs, exhausted: exhausted && self.waiting.is_none(), reservation })
    }

    /// Called when the cursor begins to wait for its client.
    pub(crate) fn rest(&mut self) {
        if let Source::Rows(rows) = &mut self.source {
            rows.rest();
        }
    }

    /// With this cursor's kill flag and what is left of its time.
    fn own_interrupt(&self, interrupt: &Interrupt) -> Option<Interrupt> {
        let left = self.time_left.filter(|_| interrupt.remaining().is_none());
        let own = self.killed.as_ref().map(|killed| interrupt.with_cursor(killed.clone()));
        match left {
            Some(left) => Some(own.as_ref().unwrap_or(interrupt).within(left)),
            None => own,
        }
    }

    /// Every document at once, for tests and inner uses.
    pub fn all(mut self, interrupt: &Interrupt) -> Result<Vec<DocBuf>> {
        let mut all = Vec::new();
        loop {
            let batch = self.next_batch(BatchLimit::more(), interrupt)?;
            all.extend(batch.docs.as_array().iter().filter_map(|value| match value {
                arbor_bson::ValueRef::Document(doc) => Some(doc.to_buf()),
                _ => None,
            }));
            if batch.exhausted {
                return Ok(all);
            }
        }
    }
}

/// A stage may build a document that no client could be sent.
fn check_size(doc: &DocBuf) -> Result<()> {
    let bytes = doc.as_bytes().len();
    if bytes <= INTERNAL_SIZE_MAX {
        return Ok(());
    }
    let message =
        format!("BSONObj size: {bytes} (0x{bytes:X}) is invalid. Size must be between 0 and {INTERNAL_SIZE_MAX}(16MB)");
    Err(Error::new(Code::BSON_OBJECT_TOO_LARGE, message))
}

/// A batch being made. It ends before its limit where the budget has no more memory for it; it has one document at
/// least, so that cursors get on.
pub struct Filler {
    docs: ArrayBuf,
    limit: BatchLimit,
    waiting: Option<DocBuf>,
    reservation: Reservation,
    /// The batch is made on a thread that may block.
    may_wait: bool,
    /// Bytes of the last document.
    last_bytes: usize,
}

/// A batch or a document, and the reply that it goes into.
pub const REPLY_COPIES: usize = 2;

impl Filler {
    fn new(limit: BatchLimit, waiting: Option<DocBuf>, may_wait: bool) -> Filler {
        let reservation = memory::process().reservation(Class::Batch);
        Filler { docs: ArrayBuf::new(), limit, waiting, reservation, may_wait, last_bytes: 0 }
    }

    /// Waits until there is memory for a document of this many bytes, before it is read. Errors: the statement ended meanwhile.
    fn wait_for_first(&mut self, bytes: usize) -> Result<()> {
        if bytes < values::LARGE_BYTES_MIN || !self.may_wait || self.limit.docs == 0 {
            return Ok(());
        }
        values::before_value(bytes);
        Ok(stop::check()?)
    }

    pub fn is_empty(&self) -> bool {
        self.docs.is_empty() && self.waiting.is_none()
    }

    /// A document did not fit any more.
    pub fn has_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// The last document of the batch.
    pub fn last(&self) -> Option<Doc<'_>> {
        match self.docs.as_array().get(self.docs.len().checked_sub(1)?) {
            Some(ValueRef::Document(doc)) => Some(doc),
            _ => None,
        }
    }

    /// For the one document that a batch has at least: a large one waits a while until others have sent theirs.
    fn wait_for_memory(&mut self, bytes: usize) -> Result<()> {
        self.wait_for_first(bytes)?;
        self.take_reserved();
        self.reservation.cover(REPLY_COPIES * bytes);
        Ok(())
    }

    /// Takes over what was reserved before a large document was read.
    fn take_reserved(&mut self) {
        if let Some(reserved) = values::take() {
            self.reservation.absorb(reserved);
        }
    }

    /// Returns true if a next document as large as the last one, which is large, would not fit: it is not even read then, since it would be
    /// held until the next batch.
    fn is_full_for_large(&mut self) -> bool {
        if self.docs.is_empty() || self.last_bytes < values::LARGE_BYTES_MIN {
            return false;
        }
        let bytes = self.docs.as_array().as_bytes().len() + self.last_bytes;
        bytes > self.limit.bytes || !self.reservation.try_cover(REPLY_COPIES * bytes)
    }

    /// Returns true if the source ended.
    pub fn fill(&mut self, mut next: impl FnMut() -> Result<Option<DocBuf>>) -> Result<bool> {
        while self.docs.len() < self.limit.docs {
            let doc = match self.waiting.take() {
                Some(doc) => doc,
                None if self.is_full_for_large() => return Ok(false),
                None => match next()? {
                    Some(doc) => doc,
                    None => return Ok(true),
                },
            };
            check_size(&doc)?;
            if doc.as_bytes().len() >= values::LARGE_BYTES_MIN {
                self.take_reserved();
            }
            let bytes = self.docs.as_array().as_bytes().len() + doc.as_bytes().len();
            let is_covered = bytes <= self.limit.bytes && self.reservation.try_cover(REPLY_COPIES * bytes);
            if !is_covered && !self.docs.is_empty() {
                self.waiting = Some(doc);
                return Ok(false);
            }
            if !is_covered {
                self.wait_for_memory(bytes)?;
            }
            self.last_bytes = doc.as_bytes().len();
            self.docs.push(&doc);
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(count: usize, size: usize) -> Cursor {
        let text = "x".repeat(size);
        let docs = (0..count as i32).map(|n| DocBuf::new().with("n", n).with("t", &text));
        Cursor::over_documents(Namespace::parse("db.c").unwrap(), docs.collect::<Vec<_>>())
    }

    #[test]
    fn batches_end_by_documents_and_by_bytes() {
        let never = Interrupt::never();
        let mut few = cursor(5, 1);
        let batch = few.next_batch(BatchLimit::docs(2), &never).unwrap();
        assert_eq!((batch.docs.len(), batch.exhausted), (2, false));
        let batch = few.next_batch(BatchLimit::docs(0), &never).unwrap();
        assert_eq!((batch.docs.len(), batch.exhausted), (0, false));
        let batch = few.next_batch(BatchLimit::more(), &never).unwrap();
        assert_eq!((batch.docs.len(), batch.exhausted, few.returned()), (3, true, 5));

        let mut large = cursor(3, 1000);
        let limit = BatchLimit { docs: 10, bytes: 1500 };
        let sizes: Vec<_> = (0..3).map(|_| large.next_batch(limit, &never).unwrap()).collect();
        assert!(sizes.iter().all(|batch| batch.docs.len() == 1));
        assert!(sizes[2].exhausted && !sizes[1].exhausted);

        // one as large as the last is not read
        let mut huge = cursor(3, 10 << 20);
        let sizes: Vec<_> = (0..3).map(|_| huge.next_batch(BatchLimit::more(), &never).unwrap()).collect();
        assert!(sizes.iter().all(|batch| batch.docs.len() == 1) && huge.waiting.is_none());
        assert!(sizes[2].exhausted && !sizes[1].exhausted);
    }
}
