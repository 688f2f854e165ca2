//! Rates at which members get what they lack: one that was down gets records of the log, an empty one gets the data (initial sync), without and with
//! a load, and what that costs the load.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use arbor_bson::{DocBuf, ValueRef};
use arbor_client::{Client, ClientError};
use serde_json::json;

use super::events::CLIENTS;
use super::history::History;
use super::outcome::Outcome;
use super::service::{self, Running};
use super::work::{DATABASE, array, failure_of};
use crate::report::{Axis, Chart, ChartGroup, Mark, Series, Shape, Table};
use crate::run::Interrupt;
use crate::target::managed::Setup;
use crate::target::replica_set::{ReplicaSet, in_sync, member_of};
use crate::{Error, Result};

const FILLED: &str = "filled";
/// Bytes of a document that fills, its text and the rest of it, and documents of a message.
const TEXT: usize = 1000;
const DOCUMENT_BYTES: u64 = TEXT as u64 + 40;
const BATCH: i64 = 100;
const FILLERS: i64 = 4;
/// Megabytes that are added until the log is cut, and how often at most.
const MORE_MB: u64 = 32;
const MORE_MAX: i64 = 40;
const SLICE: f64 = 0.5;
const POLL: Duration = Duration::from_millis(10);
const MB: f64 = 1e6;
/// Keeps little of the log, so that an empty member cannot get all of it.
const SHORT_LOG: [&str; 2] = ["--oplogSize", "16"];

pub(super) struct Following<'a> {
    pub setup: &'a Setup,
    pub engine: &'a str,
    pub members: u16,
    /// Bytes that a member lacks.
    pub fill_mb: u64,
    /// Duration of the load before and after.
    pub time: Duration,
    pub interrupt: &'a Interrupt,
}

/// End of a log, and the bytes written to it since its server started.
#[derive(Clone, Copy)]
struct LogEnd {
    position: i64,
    bytes: f64,
}

/// One member that caught up.
struct CaughtUp {
    records: i64,
    bytes: f64,
    /// From the start of its process until it replied, from then until it had all records, and until it was in sync.
    start: f64,
    catch_up: f64,
    in_sync: f64,
}

impl Following<'_> {
    /// Measures a member that was down while the others wrote, first with a primary at rest, then under a load.
    pub(super) fn catch_up(&self, outcome: &mut Outcome) -> Result<()> {
        let mut set = ReplicaSet::start(self.engine, self.setup, self.members, self.members.into(), &[])?;
        outcome.heading("Catching up");
        let columns =
            ["records", "MB", "start s", "catch-up s", "records/s", "MB/s", "in sync after s"].map(str::to_owned);
        let title = format!("{}: a member that was down while {} MB were written", self.engine, self.fill_mb);
        let mut table = Table::new(&title, "the primary meanwhile", columns);
        let mut report = |name: &str, caught_up: &CaughtUp, outcome: &mut Outcome| {
            let CaughtUp { records, bytes, start, catch_up, in_sync } = *caught_up;
            let (per_second, mb) = (records as f64 / catch_up, bytes / MB / catch_up);
            let row = [
                records.to_string(),
                format!("{:.0}", bytes / MB),
                format!("{start:.2}"),
                format!("{catch_up:.2}"),
                format!("{per_second:.0}"),
                format!("{mb:.1}"),
                format!("{in_sync:.2}"),
            ];
            table.row(row, name);
            let numbers = json!({
                "meanwhile": name, "records": records, "bytes": bytes, "start_s": start, "catch_up_s": catch_up,
                "records_per_second": per_second, "mb_per_second": mb, "in_sync_s": in_sync,
            });
            outcome.measure("catch-up", self.engine, &numbers);
        };
        let at_rest = self.miss(&mut set, 0)?;
        let caught_up = self.catch(&mut set, at_rest)?;
        report("at rest", &caught_up, outcome);
        let under_load = self.miss(&mut set, FILLERS)?;
        let (history, (caught_up, from, to)) = service::during(&mut set, CLIENTS, 1, |set, running| {
            self.interrupt.sleep_until(Instant::now() + self.time);
            let from = running.seconds();
            let caught_up = self.catch(set, under_load)?;
            let to = running.seconds();
            self.interrupt.sleep_until(Instant::now() + self.time);
            Ok((caught_up, from, to))
        })?;
        let name = format!("{CLIENTS} clients insert");
        report(&name, &caught_up, outcome);
        outcome.table(table);
        self.report_cost("catch-up", "a member catches up", &history, [from, to], outcome);
        Ok(())
    }

    /// Kills a secondary and fills; returns it with the place where it has to begin.
    fn miss(&self, set: &mut ReplicaSet, first: i64) -> Result<(usize, LogEnd)> {
        set.settle(self.members.into())?;
        let absent = set.secondary(0)?;
        // what is written is on all members at once: it has all that there is
        let begin = log_end(set, set.primary()?)?;
        set.kill(absent)?;
        eprintln!("{}: {} MB are written without a member", self.engine, self.fill_mb);
        fill(set, self.fill_mb, first)?;
        Ok((absent, begin))
    }

    fn catch(&self, set: &mut ReplicaSet, (absent, begin): (usize, LogEnd)) -> Result<CaughtUp> {
        eprintln!("{}: the member starts", self.engine);
        let (begun, start) = (Instant::now(), set.start_member(absent)?);
        let (primary, end) = (set.primary()?, log_end(set, set.primary()?)?);
        let address = set.addresses().get(absent).cloned().unwrap_or_default();
        set.wait_every(POLL, "the member to catch up", || {
            let status = set.status(primary)?;
            let position = integer(member_of(&status, &address)?.get("position"))?;
            (position >= end.position).then_some(())
        })?;
        let catch_up = begun.elapsed() - start;
        set.wait_every(POLL, "the member to be in sync", || {
            in_sync(&set.status(primary)?).contains(&address).then_some(())
        })?;
        Ok(CaughtUp {
            records: end.position - begin.position,
            bytes: end.bytes - begin.bytes,
            start: start.as_secs_f64(),
            catch_up: catch_up.as_secs_f64(),
            in_sync: begun.elapsed().as_secs_f64(),
        })
    }

    /// Measures an empty member that is added to the others under a load, when the log does not reach back to its begin.
    pub(super) fn initial_sync(&self, outcome: &mut Outcome) -> Result<()> {
        let others = usize::from(self.members) - 1;
        let mut set = ReplicaSet::start(self.engine, self.setup, self.members, others, &SHORT_LOG)?;
        outcome.heading("Initial sync");
        eprintln!("{}: {} MB are written", self.engine, self.fill_mb);
        let (primary, mut next) = (set.primary()?, 0);
        let failed = |source| Error::Client { server: set.name().to_owned(), source };
        let mut client = set.client(primary)?;
        let mut megabytes = self.fill_mb;
        // The log is cut in segments, whose size follows the disk's.
        while next == 0 || !log_was_cut(&mut client).map_err(failed)? {
            if next > FILLERS * MORE_MAX {
                let reason = "the log is not cut: an empty member would get its records in place of the data";
                return Err(Error::Server { server: set.name().to_owned(), reason: reason.to_owned() });
            }
            fill(&set, megabytes, next)?;
            client.command("admin", &DocBuf::new().with("fsync", 1)).map_err(failed)?;
            (megabytes, next) = (MORE_MB, next + FILLERS);
        }
        let statistics = client.command(DATABASE, &DocBuf::new().with("dbStats", 1)).map_err(failed)?;
        let data = statistics.number("dataSize").unwrap_or_default();
        let (history, (from, copied, to, rows)) =
            service::during(&mut set, CLIENTS, 1, |set, running| self.sync(set, running, others))?;
        let columns = ["MB", "copy s", "MB/s", "GB/min", "rows/s", "in sync after s"].map(str::to_owned);
        let title = format!("{}: initial sync of an empty member while {CLIENTS} clients insert", self.engine);
        let mut table = Table::new(&title, "data of", columns);
        let mb = data / MB / (copied - from);
        let row = [
            format!("{:.0}", data / MB),
            format!("{:.2}", copied - from),
            format!("{mb:.1}"),
            format!("{:.2}", mb * 60.0 / 1e3),
            format!("{:.0}", rows / (copied - from)),
            format!("{:.2}", to - from),
        ];
        table.row(row, &format!("{TEXT}-byte documents"));
        outcome.table(table);
        let numbers = json!({
            "bytes": data, "copy_s": copied - from, "mb_per_second": mb, "gb_per_minute": mb * 60.0 / 1e3, "rows": rows, "in_sync_s": to - from,
        });
        outcome.measure("initial sync", self.engine, &numbers);
        self.report_cost("initial-sync", "an empty member is filled", &history, [from, to], outcome);
        Ok(())
    }

    /// Adds the last process to the set; returns when it was added, when it had copied all trees, when it was in sync, and the rows that it copied.
    fn sync(&self, set: &ReplicaSet, running: &Running, number: usize) -> Result<(f64, f64, f64, f64)> {
        self.interrupt.sleep_until(Instant::now() + self.time);
        eprintln!("{}: an empty member is added", self.engine);
        let from = running.seconds();
        set.add(number)?;
        let address = set.addresses().get(number).cloned().unwrap_or_default();
        let rows = set.wait_every(POLL, "the data to be copied", || {
            let status = set.status(number)?;
            let rows = match status.get("initialSyncStatus") {
                Some(ValueRef::Document(sync)) => integer(sync.get("rowsCopied")),
                _ => None,
            };
            // SECONDARY
            (integer(status.get("myState")) == Some(2)).then_some(rows)
        })?;
        let copied = running.seconds();
        let primary = set.primary()?;
        set.wait_every(POLL, "the member to be in sync", || {
            in_sync(&set.status(primary)?).contains(&address).then_some(())
        })?;
        let to = running.seconds();
        self.interrupt.sleep_until(Instant::now() + self.time);
        // A member that got records of the log instead was not what is measured.
        let rows = rows.ok_or_else(|| {
            let reason = "the empty member got the records of the log instead of the data";
            Error::Server { server: set.name().to_owned(), reason: reason.to_owned() }
        })?;
        Ok((from, copied, to, rows as f64))
    }

    /// Compares the load before, in the middle of, and after what happened in the given seconds.
    fn report_cost(&self, id: &str, what: &str, history: &History, [from, to]: [f64; 2], outcome: &mut Outcome) {
        let time = self.time.as_secs_f64();
        let rates = [history.rate(from - time, from), history.rate(from, to), history.rate(to, to + time)];
        let longest = [(from - time, from), (from, to), (to, to + time)];
        let longest = longest.map(|(from, to)| history.longest_operation(from, to).unwrap_or(f64::NAN));
        let [before, during, after] = rates;
        let title = format!("{}: inserts per second of {CLIENTS} clients while {what}", self.engine);
        let mut table = Table::new(&title, "", ["before", "meanwhile", "after", "meanwhile/before"].map(str::to_owned));
        let rate = |rate: f64| format!("{rate:.0}");
        table.row([rate(before), rate(during), rate(after), format!("{:.2}", during / before)], "inserts per second");
        let [before_ms, during_ms, after_ms] = longest.map(|ms| format!("{ms:.0}"));
        table.row([before_ms, during_ms, after_ms], "longest insert, ms");
        outcome.table(table);
        let numbers =
            json!({ "while": id, "before": before, "meanwhile": during, "after": after, "ratio": during / before });
        outcome.measure("cost to the load", self.engine, &numbers);
        let slices = history.slices(SLICE);
        outcome.slices(self.engine, id, &slices);
        let mut chart = Chart::new(Shape::Lines, "", Axis::of("seconds"), Axis::of("inserts per second"));
        let points = slices.iter().map(|(begin, count)| (begin + SLICE / 2.0, *count as f64 / SLICE));
        chart.series.push(Series::of(self.engine, points));
        let (system, text) = (self.engine.to_owned(), what.to_owned());
        chart.marks.push(Mark { begin: from, end: Some(to), kind: "event", system, text });
        let title = format!("{}: the load while {what}", self.engine);
        outcome.chart(ChartGroup::of(&format!("{}-{id}", self.engine), &title, "", "", vec![chart]));
    }
}

fn integer(value: Option<ValueRef<'_>>) -> Option<i64> {
    match value? {
        ValueRef::Int32(value) => Some(value.into()),
        ValueRef::Int64(value) => Some(value),
        _ => None,
    }
}

/// Returns true if the first records of the log are gone.
fn log_was_cut(client: &mut Client) -> std::result::Result<bool, ClientError> {
    let status = client.command("admin", &DocBuf::new().with("replSetGetStatus", 1))?;
    let Some(ValueRef::Document(arbor)) = status.doc.get("arbor") else { return Ok(false) };
    Ok(integer(arbor.get("logFirst")).is_some_and(|first| first > 1))
}

fn log_end(set: &ReplicaSet, primary: usize) -> Result<LogEnd> {
    let failed = |source| Error::Client { server: set.name().to_owned(), source };
    let mut client = set.client(primary)?;
    let status = client.command("admin", &DocBuf::new().with("serverStatus", 1)).map_err(failed)?;
    let bytes = match status.doc.get("arborLog") {
        Some(ValueRef::Document(log)) => integer(log.get("bytes")).unwrap_or_default() as f64,
        _ => 0.0,
    };
    let status = client.command("admin", &DocBuf::new().with("replSetGetStatus", 1)).map_err(failed)?;
    let position = match status.doc.get("arbor") {
        Some(ValueRef::Document(arbor)) => integer(arbor.get("commitIndex")).unwrap_or_default(),
        _ => 0,
    };
    Ok(LogEnd { position, bytes })
}

/// Inserts documents of about this many megabytes by several clients; `first` numbers them.
fn fill(set: &ReplicaSet, megabytes: u64, first: i64) -> Result<()> {
    let failed = |source| Error::Client { server: set.name().to_owned(), source };
    let primary = set.primary()?;
    let batches = (megabytes * 1_000_000 / DOCUMENT_BYTES) as i64 / BATCH / FILLERS;
    let clients = (0..FILLERS).map(|_| set.client(primary)).collect::<Result<Vec<_>>>()?;
    let begin = Barrier::new(clients.len());
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads = clients.into_iter().zip(first..).map(|(mut client, number)| {
            let begin = &begin;
            scope.spawn(move || {
                begin.wait();
                (0..batches.max(1)).try_for_each(|batch| insert(&mut client, (number << 40) + batch * BATCH))
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| Error::Panicked)).collect()
    });
    outcomes.into_iter().try_for_each(|outcome| outcome?.map_err(failed))
}

fn insert(client: &mut Client, first: i64) -> std::result::Result<(), ClientError> {
    let document = |id: i64| DocBuf::new().with("_id", id).with("text", &*text(id));
    let documents = array((first..first + BATCH).map(document));
    let command = DocBuf::new().with("insert", FILLED).with("documents", &documents);
    let reply = client.command(DATABASE, &command)?;
    failure_of(&reply).map_or(Ok(()), Err)
}

/// A text that compresses to about half, as documents do.
fn text(seed: i64) -> String {
    let mut state = seed as u64;
    let mut text = String::with_capacity(TEXT);
    while text.len() < TEXT {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{:016x}", state ^ (state >> 29)));
    }
    text.truncate(TEXT);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_the_size_that_is_counted() {
        let document = DocBuf::new().with("_id", 5i64 << 40).with("text", &*text(5 << 40));
        let bytes = document.as_bytes().len() as u64;
        assert!(bytes.abs_diff(DOCUMENT_BYTES) < 16, "{bytes}");
        assert!(text(1) != text(2));
    }
}
