//! Documents on their way from the source to the target.

use std::collections::HashSet;
use std::time::Instant;

use arbor_bson::{DocBuf, Value, ValueRef};

use super::collections::{Collection, Kind, collection};
use super::server::{Cursor, Server, id_of, number};
use super::{Error, Migration, Result};

/// Documents that are read and written together.
const BATCH: i32 = 2000;
/// The server's own limit of a message is three times that.
const BATCH_BYTES: usize = 15 << 20;
const CURSOR_NOT_FOUND: i32 = 43;
/// Attempts to read a collection to its end without losing the cursor.
const TRIES: u32 = 5;

/// The documents of a collection in the order of `_id`, behind one of them and before another one.
pub(super) struct Scan {
    db: String,
    name: String,
    pub last: Option<Value>,
    end: Option<Value>,
}

impl Scan {
    pub(super) fn new(own: &Collection, last: Option<Value>) -> Scan {
        Scan::until(own, last, None)
    }

    pub(super) fn until(own: &Collection, last: Option<Value>, end: Option<Value>) -> Scan {
        Scan { db: own.db.clone(), name: own.name.clone(), last, end }
    }

    /// The next documents; none at the end.
    pub(super) fn next(&mut self, server: &mut Server) -> Result<Vec<DocBuf>> {
        let by_id = DocBuf::new().with("_id", 1);
        let mut find = DocBuf::new()
            .with("find", self.name.as_str())
            .with("sort", &by_id)
            .with("hint", &by_id)
            .with("limit", BATCH)
            .with("singleBatch", true);
        if let Some(last) = &self.last {
            // A comparison of a filter is one of values of the same type; the bound of the index is not.
            find.append("min", &DocBuf::new().with("_id", last));
            let literal = DocBuf::new().with("$literal", last);
            let operands: arbor_bson::ArrayBuf =
                [ValueRef::String("$_id"), ValueRef::from(&literal)].into_iter().collect();
            let behind = DocBuf::new().with("$expr", &DocBuf::new().with("$gt", &operands));
            find.append("filter", &behind);
        }
        if let Some(end) = &self.end {
            find.append("max", &DocBuf::new().with("_id", end));
        }
        let batch = server.open(&self.db, &find)?.batch;
        self.last = batch.last().and_then(id_of).or(self.last.take());
        Ok(batch)
    }
}

impl Migration {
    /// Copies all collections, from where an earlier process ended. Ensures: what was there at the begin, and still is, was copied.
    pub(super) fn copy_all(&mut self, state: &mut super::State) -> Result<()> {
        let mut asked = self.asked_collections()?;
        // Views are made at the end, when that which they read has its name.
        asked.retain(|own| own.kind != Kind::View);
        let asked_for: HashSet<String> = asked.iter().map(Collection::key).collect();
        let mut counter = Counter::new(self, &asked)?;
        counter.add(self.places.values().map(|progress| progress.documents).sum());
        loop {
            let is_copied = |own: &Collection| self.places.get(&own.key()).is_some_and(|progress| progress.copied);
            asked.retain(|own| asked_for.contains(&own.key()) && !is_copied(own));
            if asked.is_empty() {
                break;
            }
            for own in &asked {
                self.begin_copy(own)?;
                if self.copy(own, &mut counter)? {
                    self.build_indexes(own, false)?;
                } else {
                    self.forget(&own.key())?;
                }
            }
            // Again those that got another name before they were copied.
            asked = self.asked_collections()?;
        }
        println!("{} collections, {} documents copied", asked_for.len(), counter.done);
        let mut asked = self.asked_collections()?.into_iter();
        if asked.any(|own| own.kind == Kind::TimeSeries) && state.begin.is_some() {
            eprintln!("time series are not in the change stream: they are copied again at the end");
        }
        Ok(())
    }

    /// Removes what the target has of a collection, and copies all of it.
    pub(super) fn copy_again(&mut self, own: &Collection) -> Result<()> {
        self.forget(&own.key())?;
        self.begin_copy(own)?;
        if self.copy(own, &mut Counter::silent())? {
            return Ok(());
        }
        let text = "was dropped or renamed while it was copied: is something still writing to the source?";
        Err(Error::Refused(format!("{} {text}", own.namespace())))
    }

    /// Copies the documents of a collection that was begun. False: the name is no longer that of this collection.
    fn copy(&mut self, own: &Collection, counter: &mut Counter) -> Result<bool> {
        let tried = match own.kind {
            Kind::Ordered => self.copy_ordered(own, counter),
            Kind::Whole | Kind::TimeSeries => self.copy_whole(own, counter),
            Kind::View => Ok(()),
        };
        let present = collection(&mut self.source, &own.db, &own.name)?;
        let is_same = present.is_some_and(|present| present.key() == own.key());
        match tried {
            Ok(()) if is_same => {
                self.note(&own.key(), |progress| progress.copied = true)?;
                Ok(true)
            }
            // The server has a reason: that the collection went away.
            Err(error) if is_same || error.code().is_none() => Err(error),
            _ => Ok(false),
        }
    }

    fn copy_ordered(&mut self, own: &Collection, counter: &mut Counter) -> Result<()> {
        let (key, there) = (own.key(), self.at_target(own));
        let last = self.places.get(&key).and_then(|progress| progress.last.clone());
        let mut scan = Scan::new(own, last);
        loop {
            let batch = scan.next(&mut self.source)?;
            if batch.is_empty() {
                return Ok(());
            }
            self.insert(&there, &batch)?;
            counter.add(batch.len() as u64);
            let last = scan.last.clone();
            self.note(&key, |progress| {
                progress.documents += batch.len() as u64;
                progress.last = last;
            })?;
            counter.report(self, own);
        }
    }

    /// Copies from the first document on, after what an earlier attempt has left is removed.
    fn copy_whole(&mut self, own: &Collection, counter: &mut Counter) -> Result<()> {
        for attempt in 1.. {
            self.empty(own)?;
            match self.try_copy_whole(own, counter) {
                Err(error) if error.code() == Some(CURSOR_NOT_FOUND) && attempt < TRIES => {}
                copied => {
                    let copied = copied?;
                    return self.note(&own.key(), |progress| progress.documents = copied);
                }
            }
        }
        unreachable!("the last attempt returns")
    }

    fn try_copy_whole(&mut self, own: &Collection, counter: &mut Counter) -> Result<u64> {
        let natural = DocBuf::new().with("$natural", 1);
        let mut find = DocBuf::new().with("find", own.name.as_str()).with("batchSize", BATCH);
        if own.kind == Kind::Whole {
            find.append("hint", &natural);
        }
        let there = self.at_target(own);
        let mut cursor: Cursor = self.source.open(&own.db, &find)?;
        let mut count = 0;
        loop {
            let batch = std::mem::take(&mut cursor.batch);
            count += batch.len() as u64;
            self.insert(&there, &batch)?;
            counter.add(batch.len() as u64);
            counter.report(self, own);
            if cursor.id == 0 {
                return Ok(count);
            }
            self.source.more(&own.db, &mut cursor, None)?;
        }
    }

    /// Inserts documents; those that are there already stay (M1).
    fn insert(&mut self, there: &Collection, documents: &[DocBuf]) -> Result<()> {
        let mut rest = documents;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |document: &&DocBuf| {
                bytes += document.as_bytes().len();
                bytes <= BATCH_BYTES
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let (now, later) = rest.split_at(count);
            let command = DocBuf::new()
                .with("insert", there.name.as_str())
                .with("ordered", there.kind == Kind::Whole)
                .with("bypassDocumentValidation", true);
            self.target.write(&there.db, &command, &[("documents", now)])?;
            self.pace.add(now.iter().map(|document| document.as_bytes().len() as u64).sum());
            rest = later;
        }
        Ok(())
    }
}

/// Documents that are copied, of those that there were at the begin.
pub(super) struct Counter {
    all: u64,
    pub done: u64,
    before: u64,
    begun: Instant,
    is_silent: bool,
}

impl Counter {
    fn new(migration: &mut Migration, asked: &[Collection]) -> Result<Counter> {
        let mut all = 0;
        for own in asked.iter().filter(|own| !matches!(own.kind, Kind::View | Kind::TimeSeries)) {
            let counted = migration.source.run(&own.db, &DocBuf::new().with("count", own.name.as_str()))?;
            all += counted.get("n").and_then(number).unwrap_or(0);
        }
        Ok(Counter { all, done: 0, before: 0, begun: Instant::now(), is_silent: false })
    }

    fn silent() -> Counter {
        Counter { all: 0, done: 0, before: 0, begun: Instant::now(), is_silent: true }
    }

    fn add(&mut self, documents: u64) {
        self.done += documents;
    }

    fn report(&mut self, migration: &mut Migration, own: &Collection) {
        if self.is_silent || !migration.is_time_to_report() {
            return;
        }
        let rate = (self.done - self.before) as f64 / self.begun.elapsed().as_secs_f64().max(0.001);
        let left = self.all.saturating_sub(self.done) as f64 / rate.max(0.001);
        eprintln!(
            "copying {}: {} of about {} documents ({} %), {:.1} MB/s, about {left:.0} s left",
            own.namespace(),
            self.done,
            self.all,
            self.done * 100 / self.all.max(1),
            migration.pace.speed() / f64::from(1 << 20)
        );
    }
}
