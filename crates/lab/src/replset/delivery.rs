//! From a write to its event: one client inserts by a schedule, another one follows the collection's change stream.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arbor_bson::{DocBuf, ValueRef};
use arbor_client::{Client, ClientError};
use hdrhistogram::Histogram;

use super::load::histogram;
use super::work::{DATABASE, array};
use crate::run::{Arrival, Ramp, Schedule};
use crate::target::Target;
use crate::target::mongodb::MongoDb;
use crate::{Error, Result};

const COLLECTION: &str = "delivered";
/// Writing clients: one alone does not reach the rate if a reply takes longer than a gap.
const WRITERS: usize = 4;

pub(super) struct Delivery {
    pub seconds: f64,
    pub events: u64,
    /// Nanoseconds from the moment a write was due, and from the moment it was sent, to the moment its event was there.
    pub from_due: Histogram<u64>,
    pub from_sent: Histogram<u64>,
}

/// Measures delivery; every event carries when its write was due and sent, in nanoseconds since `start`.
pub(super) fn run(target: &MongoDb, per_second: f64, time: Duration) -> Result<Delivery> {
    let failed = |source| Error::Client { server: target.name().to_owned(), source };
    let mut watcher = Watcher::open(target.client()?).map_err(failed)?;
    let mut clients = (0..WRITERS).map(|_| target.client()).collect::<Result<Vec<_>>>()?;
    let start = Instant::now();
    let schedule = Schedule::new(Ramp::level(per_second), Arrival::Poisson, 1, start);
    let ended = AtomicBool::new(false);
    let (written, seen) = std::thread::scope(|scope| {
        let write = |client: &mut Client| write(client, &schedule, start, time);
        let writers: Vec<_> = clients.iter_mut().map(|client| scope.spawn(move || write(client))).collect();
        let follow = scope.spawn(|| watcher.follow(start, &ended));
        let written: Vec<_> = writers.into_iter().map(|thread| thread.join()).collect();
        ended.store(true, Ordering::Release);
        (written, follow.join())
    });
    let mut count = 0;
    for written in written {
        count += written.map_err(|_| Error::Panicked)?.map_err(failed)?;
    }
    let (from_due, from_sent) = seen.map_err(|_| Error::Panicked)?.map_err(failed)?;
    if from_sent.len() != count {
        return Err(Error::Usage(format!("{count} writes, {} events", from_sent.len())));
    }
    Ok(Delivery { seconds: time.as_secs_f64(), events: count, from_due, from_sent })
}

fn write(
    client: &mut Client,
    schedule: &Schedule,
    start: Instant,
    time: Duration,
) -> std::result::Result<u64, ClientError> {
    let mut count = 0;
    loop {
        let due = schedule.take();
        if due >= start + time {
            return Ok(count);
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let nanos = |at: Instant| at.saturating_duration_since(start).as_nanos() as i64;
        let document = DocBuf::new().with("due", nanos(due)).with("sent", nanos(Instant::now()));
        let insert = DocBuf::new().with("insert", COLLECTION).with("documents", &array([document]));
        client.command(DATABASE, &insert)?;
        count += 1;
    }
}

struct Watcher {
    client: Client,
    cursor: i64,
}

impl Watcher {
    fn open(mut client: Client) -> std::result::Result<Watcher, ClientError> {
        let pipeline = array([DocBuf::new().with("$changeStream", &DocBuf::new())]);
        let aggregate =
            DocBuf::new().with("aggregate", COLLECTION).with("pipeline", &pipeline).with("cursor", &DocBuf::new());
        let reply = client.command(DATABASE, &aggregate)?;
        let cursor = match reply.doc.get("cursor") {
            Some(ValueRef::Document(cursor)) => cursor.get("id"),
            _ => None,
        };
        let Some(ValueRef::Int64(cursor)) = cursor else {
            return Err(ClientError::Protocol("no cursor for a change stream".to_owned()));
        };
        Ok(Watcher { client, cursor })
    }

    /// Reads events until the writers have ended and no more events arrive.
    fn follow(
        &mut self,
        start: Instant,
        ended: &AtomicBool,
    ) -> std::result::Result<(Histogram<u64>, Histogram<u64>), ClientError> {
        let (mut from_due, mut from_sent) = (histogram(), histogram());
        let more = DocBuf::new().with("getMore", self.cursor).with("collection", COLLECTION).with("maxTimeMS", 500);
        loop {
            let last = ended.load(Ordering::Acquire);
            let reply = self.client.command(DATABASE, &more)?;
            let now = start.elapsed().as_nanos() as i64;
            let batch = match reply.doc.get("cursor") {
                Some(ValueRef::Document(cursor)) => cursor.get("nextBatch"),
                _ => None,
            };
            let Some(ValueRef::Array(batch)) = batch else {
                return Err(ClientError::Protocol("no batch of a change stream".to_owned()));
            };
            let mut any = false;
            for event in batch.iter() {
                any = true;
                let (due, sent) = times(event).unwrap_or((now, now));
                from_due.saturating_record((now - due).max(1) as u64);
                from_sent.saturating_record((now - sent).max(1) as u64);
            }
            if last && !any {
                return Ok((from_due, from_sent));
            }
        }
    }
}

fn times(event: ValueRef<'_>) -> Option<(i64, i64)> {
    let ValueRef::Document(event) = event else { return None };
    let Some(ValueRef::Document(document)) = event.get("fullDocument") else { return None };
    match (document.get("due"), document.get("sent")) {
        (Some(ValueRef::Int64(due)), Some(ValueRef::Int64(sent))) => Some((due, sent)),
        _ => None,
    }
}
