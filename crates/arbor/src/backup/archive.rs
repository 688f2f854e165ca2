//! `arbor backup archive`: the log of a running server, behind the newest backup, as it grows. `create --incremental` does the same up to the present.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arbor_base::{Position, TreeId};
use arbor_txn::fetch::{Begun, LogBlock, LogBlockHead, TreeFacts};
use arbor_txn::record::{Record, refers_to_loads};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::cluster::{self, Cluster};
use super::create::{Progress, write_tree};
use super::log_files::{ArchiveEnd, LoadFiles, LogFiles, LogWriter};
use super::manifest::Manifest;
use super::source::{LogAnswer, Source};
use super::target::{Condition, Target};
use super::{Error, Result, shown_time};
use crate::pace::Speed;

/// Time between two requests to a server that has nothing.
const POLL: Duration = Duration::from_millis(200);
/// Time between two blocks of less than [`OBJECT_BYTES_MIN`], where each block is an object of its own.
const OBJECT: Duration = Duration::from_secs(2);
const OBJECT_BYTES_MIN: u64 = 1 << 20;
/// Time after which the archive of an idle server says that there was nothing.
const QUIET: Duration = Duration::from_secs(10);
/// Time between two attempts to reach a server.
const RETRY: Duration = Duration::from_secs(1);
/// Time in which a secondary has to have what its primary had.
pub(super) const BEHIND: Duration = Duration::from_secs(120);
const REPORT: Duration = Duration::from_secs(60);
/// Time in which a request that is on its way may end after a signal. What comes of it later is asked for again by the next process.
const GRACE: Duration = Duration::from_secs(5);

/// The reason why an archive ends.
enum Stopped {
    /// The server cannot be reached, or says no: another one may not.
    Unreachable(Error),
    Final(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped::Final(error)
    }
}

/// A part of the log that was added to an archive.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Added {
    pub first: u64,
    pub last: u64,
    pub time: u64,
    pub bytes: u64,
    /// Records whose trees came past the log.
    pub loads: u64,
}

/// Progress of the archive of a set, with what ends it.
#[derive(Debug, Default)]
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    has_begun: AtomicBool,
    /// Time of the last record that is archived, with the trees that it and those before it refer to.
    time: AtomicU64,
    loads: AtomicU64,
}

impl Watch {
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(super) fn end(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Returns true if the server was reached: from there on the archive continues.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Sleeps, unless the archive has to end.
    pub(super) fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        while !self.is_stopped() && Instant::now() < end {
            std::thread::sleep(POLL.min(time));
        }
    }

    pub(super) fn time(&self) -> u64 {
        self.time.load(Ordering::Acquire)
    }

    /// Number of records whose trees this process has copied.
    pub(super) fn loads(&self) -> u64 {
        self.loads.load(Ordering::Acquire)
    }
}

/// Archives until a signal ends it. `interval`: the time between two points of a cluster.
pub(super) fn run(uri: &str, target: &Target, speed: Speed, interval: Option<Duration>) -> Result<()> {
    let watch = Watch { stop: until_signal()?, ..Watch::default() };
    match (Cluster::of(uri)?, interval) {
        (Some(cluster), interval) => {
            cluster::archive(uri, cluster, target, speed, interval.unwrap_or(cluster::INTERVAL), &watch)
        }
        (None, Some(_)) => Err(Error::Refused("--interval is for sharded clusters".to_owned())),
        (None, None) => {
            cluster::refuse(target)?;
            keep_on("", || Source::choose(uri), target, speed, &watch)
        }
    }
}

/// Returns what is set by the first SIGTERM or SIGINT.
fn until_signal() -> Result<Arc<AtomicBool>> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| Error::Refused(error.to_string()))?;
    let stop = Arc::new(AtomicBool::new(false));
    let own = stop.clone();
    std::thread::spawn(move || {
        let _signal = signals.forever().next();
        own.store(true, Ordering::Release);
        std::thread::sleep(GRACE);
        // Every block that was archived is on its disk.
        std::process::exit(0);
    });
    Ok(stop)
}

/// Archives the log of a set until the watch stops it. `name`: what messages begin with.
pub(super) fn keep_on(
    name: &str,
    choose: impl Fn() -> Result<Source>,
    target: &Target,
    speed: Speed,
    watch: &Watch,
) -> Result<()> {
    while !watch.is_stopped() {
        let stopped = choose().map_err(Stopped::Unreachable).and_then(|source| {
            let mut archive = Archive::open(&source, target, speed)?;
            watch.loads.fetch_add(archive.added.loads, Ordering::AcqRel);
            watch.has_begun.store(true, Ordering::Release);
            eprintln!("{name}archiving the log of {} from position {} on", source.address, archive.end.position.next());
            archive.follow(name, watch)
        });
        match stopped {
            Ok(()) => {}
            Err(Stopped::Unreachable(error)) => eprintln!("{name}{error}; trying again"),
            Err(Stopped::Final(error)) => return Err(error),
        }
        watch.pause(RETRY);
    }
    Ok(())
}

/// Archives up to the present.
pub(super) fn once(source: &Source, target: &Target, speed: Speed) -> Result<Added> {
    while_open(source, target, speed, |archive| {
        while archive.step(true)? {}
        Ok(())
    })
}

/// Archives up to a time behind which the set has logged a record already.
pub(super) fn up_to(source: &Source, target: &Target, speed: Speed, time: u64) -> Result<Added> {
    let end = Instant::now() + BEHIND;
    while_open(source, target, speed, |archive| {
        while archive.added.time <= time {
            if !archive.step(false)? {
                if Instant::now() >= end {
                    let text = format!("{} is too far behind its primary", archive.source.address);
                    return Err(Stopped::Final(Error::Refused(text)));
                }
                std::thread::sleep(POLL);
            }
        }
        Ok(())
    })
}

fn while_open(
    source: &Source,
    target: &Target,
    speed: Speed,
    work: impl FnOnce(&mut Archive<'_>) -> std::result::Result<(), Stopped>,
) -> Result<Added> {
    let done = Archive::open(source, target, speed).and_then(|mut archive| {
        work(&mut archive)?;
        Ok(archive.added)
    });
    done.map_err(|stopped| match stopped {
        Stopped::Unreachable(error) | Stopped::Final(error) => error,
    })
}

struct Archive<'s> {
    source: &'s Source,
    files: LogFiles,
    writer: LogWriter,
    end: ArchiveEnd,
    hold: Option<u64>,
    progress: Progress,
    /// The last time that a block without records was written.
    quiet: Instant,
    added: Added,
}

impl<'s> Archive<'s> {
    /// Continues the archive, or begins one behind the newest backup.
    fn open(source: &'s Source, target: &Target, speed: Speed) -> std::result::Result<Archive<'s>, Stopped> {
        let newest = newest(target)?;
        let deployment = newest.deployment.clone();
        let files = LogFiles::of(target);
        let lock = files.lock().map_err(Stopped::Unreachable)?;
        let (writer, end) = LogWriter::open(&files, lock, &deployment)?;
        let begin = ArchiveEnd { position: Position(newest.position), epoch: 0, pending: None };
        // An archive that ends before the newest backup continues all the same: that backup may be damaged.
        let end = end.unwrap_or(begin);
        let progress = Progress::new(speed.of_log(), 0);
        let now = Instant::now();
        let mut archive =
            Archive { source, files, writer, end, hold: None, progress, quiet: now, added: Added::default() };
        archive.skip_gap(begin)?;
        if let Some(head) = archive.end.pending {
            archive.fetch_loads_of(&head)?;
        }
        Ok(archive)
    }

    /// Goes to the newest backup when the log behind the archive is gone: that is a gap.
    fn skip_gap(&mut self, newest: ArchiveEnd) -> std::result::Result<(), Stopped> {
        let LogAnswer::Trimmed { first } = self.ask()? else { return Ok(()) };
        let missing = self.end.position.next();
        if newest.position.next().0 < first {
            return Err(Stopped::Final(Error::Refused(format!(
                "the log of {} begins at position {first}: positions {missing} to {} are in no backup. Make a full backup first",
                self.source.address,
                first - 1
            ))));
        }
        if newest.position > self.end.position {
            eprintln!(
                "the log of {} begins at position {first}: the archive has a gap, {missing} to {}",
                self.source.address, newest.position
            );
            self.end = newest;
        }
        Ok(())
    }

    fn ask(&mut self) -> std::result::Result<LogAnswer, Stopped> {
        let epoch = (self.end.epoch > 0).then_some(self.end.epoch);
        let answer = self.source.log_behind(self.hold, self.end.position.0, epoch, self.writer.deployment());
        let (hold, answer) = answer.map_err(Stopped::Unreachable)?;
        self.hold = hold.or(self.hold);
        Ok(answer)
    }

    fn follow(&mut self, name: &str, watch: &Watch) -> std::result::Result<(), Stopped> {
        let mut reported = Instant::now();
        while !watch.is_stopped() {
            let (loads, bytes) = (self.added.loads, self.added.bytes);
            let stepped = self.step(self.quiet.elapsed() >= QUIET);
            // Before the time: who sees that sees these.
            watch.loads.fetch_add(self.added.loads - loads, Ordering::AcqRel);
            if stepped? {
                watch.time.fetch_max(self.added.time, Ordering::AcqRel);
                if !self.writer.grows() && self.added.bytes - bytes < OBJECT_BYTES_MIN {
                    watch.pause(OBJECT);
                }
            } else {
                std::thread::sleep(POLL);
            }
            if reported.elapsed() >= REPORT {
                reported = Instant::now();
                eprintln!("{name}archived up to position {}, {} MB", self.end.position, self.added.bytes >> 20);
            }
        }
        eprintln!("{name}the archive ends at position {}", self.end.position);
        Ok(())
    }

    /// Writes the next block. `quiet`: also one without records. Returns false if there were no records.
    fn step(&mut self, quiet: bool) -> std::result::Result<bool, Stopped> {
        let bytes = match self.ask()? {
            LogAnswer::Block(bytes) => bytes,
            LogAnswer::Nothing => return Ok(false),
            LogAnswer::Trimmed { first } => {
                let text = format!("the log of {} begins at position {first} by now", self.source.address);
                return Err(Stopped::Unreachable(Error::Refused(text)));
            }
            LogAnswer::Differs => {
                return Err(Stopped::Final(Error::Refused(format!(
                    "the log of {} is not the one that was archived up to position {}: take another directory",
                    self.source.address, self.end.position
                ))));
            }
        };
        let block = LogBlock::decode(&bytes);
        let block = block
            .map_err(|reason| Stopped::Unreachable(Error::Refused(format!("{}: {reason}", self.source.address))))?;
        let head = block.head;
        if head.first != self.end.position.next() {
            let text =
                format!("{}: records from {} on are not behind {}", self.source.address, head.first, self.end.position);
            return Err(Stopped::Final(Error::Refused(text)));
        }
        if head.count > 0 || quiet {
            self.writer.append(&head, &bytes)?;
            self.quiet = Instant::now();
            self.count(&head, bytes.len() as u64);
        }
        if head.count > 0 {
            self.end = ArchiveEnd { position: head.last(), epoch: head.epoch, pending: None };
        }
        self.progress.add(bytes.len() as u64);
        if head.has_loads {
            self.fetch_loads(&block)?;
        }
        Ok(head.count > 0)
    }

    fn count(&mut self, head: &LogBlockHead, bytes: u64) {
        if self.added.first == 0 {
            self.added.first = head.first.0;
        }
        (self.added.last, self.added.time) = (head.last().0, head.time);
        self.added.bytes += bytes;
    }

    /// Fetches what the last block refers to, if it is not here.
    fn fetch_loads_of(&mut self, head: &LogBlockHead) -> std::result::Result<(), Stopped> {
        let Some(file) = self.files.files()?.into_iter().rfind(|file| file.first <= head.first.0) else {
            return Ok(());
        };
        let mut reader = super::log_files::LogReader::open(&self.files, &file)?;
        while let Some(block) = reader.next_block()? {
            if block.head.first == head.first && block.head.has_loads {
                self.fetch_loads(&block)?;
            }
        }
        Ok(())
    }

    fn fetch_loads(&mut self, block: &LogBlock) -> std::result::Result<(), Stopped> {
        for (position, payload) in block.records().filter(|(_, payload)| refers_to_loads(payload)) {
            let record = Record::decode(payload);
            let record = record.map_err(|reason| Error::Refused(format!("the record at {position}: {reason}")))?;
            let trees: Vec<TreeId> = record.loads.iter().filter(|load| load.rows > 0).map(|load| load.tree).collect();
            if !trees.is_empty() && self.files.load(position.0)?.is_none() {
                self.fetch_load(position, &trees)?;
            }
        }
        Ok(())
    }

    fn fetch_load(&mut self, record: Position, trees: &[TreeId]) -> std::result::Result<(), Stopped> {
        let directory = LogFiles::load_directory(record.0);
        self.files.files.remove_directory(&directory)?;
        self.files.files.create_directory(&directory)?;
        let state = self.source.begin().map_err(Stopped::Unreachable)?;
        assert!(state.begun.position >= record, "a server shows what it has sent of its log");
        let fetched = self.write_load(record, &state.begun, trees);
        self.source.end(state.begun.snapshot);
        let files = fetched?;
        self.added.loads += 1;
        self.added.bytes += files.iter().map(|file| file.bytes).sum::<u64>();
        Ok(self.files.write_load(&LoadFiles { record: record.0, position: state.begun.position.0, files })?)
    }

    fn write_load(
        &mut self,
        record: Position,
        begun: &Begun,
        trees: &[TreeId],
    ) -> Result<Vec<super::manifest::TreeFile>> {
        let directory = LogFiles::load_directory(record.0);
        let is_asked = |facts: &&TreeFacts| trees.contains(&facts.tree);
        // One that was dropped since is not there: nothing refers to it from then on.
        let found = begun.trees.iter().filter(is_asked);
        let place = (&*self.files.files, directory.as_str());
        found.map(|facts| write_tree(self.source, begun.snapshot, facts, place, &mut self.progress)).collect()
    }
}

fn newest(target: &Target) -> Result<Box<Manifest>> {
    for backup in target.backups()?.iter().rev() {
        if let Condition::Whole(manifest) = backup.read()? {
            return Ok(manifest);
        }
    }
    Err(Error::Refused(format!("{target} has no backup: the log is archived behind a full one")))
}

impl std::fmt::Display for Added {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.last >= self.first && self.first > 0 {
            true => write!(
                f,
                "log: positions {} to {}, until {}, {} bytes",
                self.first,
                self.last,
                shown_time(self.time),
                self.bytes
            ),
            false => write!(f, "log: nothing was written since"),
        }
    }
}
