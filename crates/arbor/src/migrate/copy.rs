//! Documents on their way from the source to the target.

use std::time::Instant;

use arbor_bson::{DocBuf, Value, ValueRef, identical};

use super::collections::{Collection, Kind, collection};
use super::server::{Cursor, Server, id_of, number};
use super::state::Progress;
use super::{Error, Migration, Result};

/// Documents that are read and written together.
const BATCH: i32 = 2000;
/// The server's own limit of a message is three times that.
const BATCH_BYTES: usize = 15 << 20;
const CURSOR_NOT_FOUND: i32 = 43;
/// Attempts to read a collection to its end without losing the cursor.
const TRIES: u32 = 5;

/// The documents of a collection in the order of `_id`, behind one of them.
pub(super) struct Scan {
    db: String,
    name: String,
    pub last: Option<Value>,
}

impl Scan {
    pub(super) fn new(own: &Collection, last: Option<Value>) -> Scan {
        Scan { db: own.db.clone(), name: own.name.clone(), last }
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
        let batch = server.open(&self.db, &find)?.batch;
        self.last = batch.last().and_then(id_of).or(self.last.take());
        Ok(batch)
    }
}

impl Migration {
    /// Copies all collections, from where an earlier process ended.
    pub(super) fn copy_all(&mut self, state: &mut super::State) -> Result<()> {
        let asked = self.asked_collections()?;
        let mut counter = Counter::new(self, &asked)?;
        for own in &asked {
            let namespace = own.namespace();
            let progress = match Progress::read(&mut self.target, &namespace)? {
                Some(progress) => progress,
                None => {
                    self.check_is_free(own)?;
                    let progress = Progress { uuid: own.uuid.clone(), ..Progress::default() };
                    progress.write(&mut self.target, &namespace)?;
                    progress
                }
            };
            counter.add(progress.documents);
            if progress.copied {
                continue;
            }
            self.create(own)?;
            if own.kind != Kind::View {
                self.copy(own, progress, &mut counter)?;
                self.build_indexes(own, false)?;
            }
        }
        println!("{} collections, {} documents copied", asked.len(), counter.done);
        if asked.iter().any(|own| own.kind == Kind::TimeSeries) && state.begin.is_some() {
            eprintln!("time series are not in the change stream: they are copied again at the end");
        }
        Ok(())
    }

    /// Copies a collection of which nothing is noted.
    pub(super) fn copy_documents(&mut self, own: &Collection) -> Result<()> {
        let progress = Progress { uuid: own.uuid.clone(), ..Progress::default() };
        self.copy(own, progress, &mut Counter::silent())
    }

    fn copy(&mut self, own: &Collection, mut progress: Progress, counter: &mut Counter) -> Result<()> {
        match own.kind {
            Kind::Ordered => {
                let mut scan = Scan::new(own, progress.last.take());
                loop {
                    let batch = scan.next(&mut self.source)?;
                    if batch.is_empty() {
                        break;
                    }
                    self.insert(own, &batch)?;
                    counter.add(batch.len() as u64);
                    progress.documents += batch.len() as u64;
                    progress.last = scan.last.clone();
                    progress.write(&mut self.target, &own.namespace())?;
                    counter.report(self, own);
                }
            }
            Kind::Whole | Kind::TimeSeries => progress.documents = self.copy_whole(own, counter)?,
            Kind::View => {}
        }
        let present = collection(&mut self.source, &own.db, &own.name)?;
        let is_same = match (present.and_then(|present| present.uuid), &progress.uuid) {
            (Some(present), Some(uuid)) => identical(ValueRef::from(&present), ValueRef::from(uuid)),
            (present, uuid) => present.is_none() && uuid.is_none(),
        };
        if !is_same {
            return Err(Error::Refused(format!(
                "{} was dropped or renamed while it was copied: drop what the target has of the migration, and {}, and begin again",
                own.namespace(),
                super::state::DATABASE
            )));
        }
        progress.copied = true;
        progress.write(&mut self.target, &own.namespace())
    }

    /// Copies from the first document on, after what an earlier attempt has left is removed.
    fn copy_whole(&mut self, own: &Collection, counter: &mut Counter) -> Result<u64> {
        for attempt in 1.. {
            self.target.drop_collection(&own.db, &own.name)?;
            self.create(own)?;
            match self.try_copy_whole(own, counter) {
                Err(error) if error.code() == Some(CURSOR_NOT_FOUND) && attempt < TRIES => {}
                copied => return copied,
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
        let mut cursor: Cursor = self.source.open(&own.db, &find)?;
        let mut count = 0;
        loop {
            let batch = std::mem::take(&mut cursor.batch);
            count += batch.len() as u64;
            self.insert(own, &batch)?;
            counter.add(batch.len() as u64);
            counter.report(self, own);
            if cursor.id == 0 {
                return Ok(count);
            }
            self.source.more(&own.db, &mut cursor, None)?;
        }
    }

    /// Inserts documents; those that are there already stay (M1).
    fn insert(&mut self, own: &Collection, documents: &[DocBuf]) -> Result<()> {
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
                .with("insert", own.name.as_str())
                .with("ordered", own.kind == Kind::Whole)
                .with("bypassDocumentValidation", true);
            self.target.write(&own.db, &command, &[("documents", now)])?;
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
