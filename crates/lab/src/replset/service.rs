//! Clients that insert without end and continue after a failover, as those of a driver with retryable writes do.
//!
//! A client whose write failed because of a change of primary asks all members, every few milliseconds, until one of them leads, and repeats the
//! write there under the same transaction number. Drivers do the same at their monitors' pace (half a second between two questions to a server); so
//! what is measured here is the set, and not the driver.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arbor_bson::{DocBuf, ValueRef};
use arbor_client::{Client, ClientError, Options};
use parking_lot::Mutex;

use super::history::{History, Operation};
use super::work::{DATABASE, array, failure_of, session};
use crate::target::replica_set::{ReplicaSet, leads};
use crate::{Error, Result};

pub(super) const COLLECTION: &str = "served";
const CODE_OF_NOT_PRIMARY: [i32; 8] = [91, 189, 10107, 11600, 11602, 13435, 13436, 10058];
/// Interval at which members are asked who leads.
const ASK_AGAIN: Duration = Duration::from_millis(5);
/// Without a primary for this long there is none to be waited for.
const OUTAGE_MAX: Duration = Duration::from_secs(120);
/// Bytes of a document's text.
const PAD: usize = 60;

/// The primary, as the clients of one load know it. One of them asks the members at a time; the others wait for what it finds.
struct Primary {
    addresses: Vec<String>,
    found: Mutex<(Instant, String)>,
}

impl Primary {
    /// Returns the primary as it was found after the moment at which a client lost it, if it did; `None`: there is none for too long.
    fn after(&self, lost: Option<Instant>) -> Option<String> {
        let mut found = self.found.lock();
        while let Some(lost) = lost.filter(|lost| found.0 < *lost) {
            let asked = Instant::now();
            if let Some(address) = self.addresses.iter().find(|address| leads(address)) {
                *found = (asked, address.clone());
                break;
            }
            if lost.elapsed() > OUTAGE_MAX {
                return None;
            }
            std::thread::sleep(ASK_AGAIN);
        }
        Some(found.1.clone())
    }
}

/// A load that is running.
pub(super) struct Running {
    begun: Instant,
    stop: AtomicBool,
    acknowledged: AtomicU64,
}

impl Running {
    /// Seconds since the load began.
    pub(super) fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Returns the number of operations that were acknowledged until now.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }
}

/// Inserts by `clients` while `meanwhile` runs; `first` numbers the clients, so that no two loads of a set write the same documents. Errors:
/// a write failed for another reason than a change of primary, there was no primary any more, or the set does not hold what was acknowledged.
pub(super) fn during<T>(
    set: &mut ReplicaSet,
    clients: u32,
    first: u32,
    meanwhile: impl FnOnce(&mut ReplicaSet, &Running) -> Result<T>,
) -> Result<(History, T)> {
    let name = set.name().to_owned();
    let failed = |source| Error::Client { server: name.clone(), source };
    let before = documents(set)?;
    let found = set.addresses().get(set.primary()?).cloned().unwrap_or_default();
    let primary = Primary { addresses: set.addresses(), found: Mutex::new((Instant::now(), found)) };
    let running = Running { begun: Instant::now(), stop: AtomicBool::new(false), acknowledged: AtomicU64::new(0) };
    let (each, outcome) = std::thread::scope(|scope| {
        let (primary, running) = (&primary, &running);
        let threads: Vec<_> =
            (first..first + clients).map(|number| scope.spawn(move || insert(primary, running, number))).collect();
        let outcome = meanwhile(set, running);
        running.stop.store(true, Ordering::Release);
        let each: Vec<_> = threads.into_iter().map(|thread| thread.join().map_err(|_| Error::Panicked)).collect();
        (each, outcome)
    });
    let outcome = outcome?;
    let history = History::of(
        each.into_iter()
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(failed)?,
    );
    let there = documents(set)?.saturating_sub(before);
    if there != history.count() as u64 {
        let reason = format!("{} inserts were acknowledged, the set holds {there} of them", history.count());
        return Err(Error::Server { server: name, reason });
    }
    Ok((history, outcome))
}

/// Returns how many documents of this load the set holds.
fn documents(set: &ReplicaSet) -> Result<u64> {
    let failed = |source| Error::Client { server: set.name().to_owned(), source };
    let mut client = set.client(set.primary()?)?;
    // a query, since a count without one is kept apart and not counted
    let count =
        DocBuf::new().with("count", COLLECTION).with("query", &DocBuf::new().with("n", &DocBuf::new().with("$gte", 0)));
    Ok(client.command(DATABASE, &count).map_err(failed)?.number("n").unwrap_or_default() as u64)
}

/// Inserts until the load is to stop. The last insert is completed.
fn insert(primary: &Primary, running: &Running, number: u32) -> std::result::Result<Vec<Operation>, ClientError> {
    let (lsid, pad, mut operations) = (session(number), "x".repeat(PAD), Vec::new());
    let mut client: Option<Client> = None;
    let mut lost = None;
    let nanos = |at: Instant| at.saturating_duration_since(running.begun).as_nanos() as u64;
    for n in 0i64.. {
        if running.stop.load(Ordering::Acquire) {
            break;
        }
        let document = DocBuf::new().with("_id", (i64::from(number) << 40) + n).with("n", n).with("pad", pad.as_str());
        let command = DocBuf::new()
            .with("insert", COLLECTION)
            .with("documents", &array([document]))
            .with("lsid", &lsid)
            .with("txnNumber", n + 1)
            .with("writeConcern", &DocBuf::new().with("w", "majority"));
        let begin = Instant::now();
        while let Err(error) = attempt(&mut client, &command, || primary.after(lost)) {
            if !is_change_of_primary(&error) {
                return Err(error);
            }
            lost = Some(Instant::now());
            client = None;
        }
        operations.push(Operation { begin: nanos(begin), end: nanos(Instant::now()) });
        running.acknowledged.fetch_add(1, Ordering::Release);
    }
    Ok(operations)
}

/// Sends the command once, over a new connection to the primary where there is none.
fn attempt(
    client: &mut Option<Client>,
    command: &DocBuf,
    primary: impl Fn() -> Option<String>,
) -> std::result::Result<(), ClientError> {
    if client.is_none() {
        let address = primary().ok_or_else(|| ClientError::Protocol("there is no primary".to_owned()))?;
        let options = Options { timeout: Some(OUTAGE_MAX), ..Options::default() };
        *client = Some(Client::connect_with(&address, options)?);
    }
    let Some(client) = client else { return Ok(()) };
    let reply = client.command(DATABASE, command)?;
    failure_of(&reply).map_or(Ok(()), Err)
}

/// Returns true if the write is to be repeated at the next primary.
fn is_change_of_primary(error: &ClientError) -> bool {
    match error {
        ClientError::Io(_) => true,
        ClientError::Command { code, reply, .. } => {
            let labels = match reply.get("errorLabels") {
                Some(ValueRef::Array(labels)) => Some(labels),
                _ => None,
            };
            let mut labels = labels.into_iter().flat_map(|labels| labels.iter());
            labels.any(|label| matches!(label, ValueRef::String("RetryableWriteError")))
                || CODE_OF_NOT_PRIMARY.contains(code)
        }
        _ => false,
    }
}
