//! One engine with its rows, which runs one phase after another.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_base::{Position, TreeId};
use arbor_engine::{Batch, Engine, Op, TreeOptions};
use rustix::fs::{Advice, fadvise};

use super::journal::Journal;
use super::measure::{Clock, Tally, engine as engine_error};
use super::phase::Scan;
use super::rows::{key, missing_key};
use super::{Increment, KvEngine, KvOptions, KvSettings, Phase, PhaseStatistics, reading};
use crate::observe::disk_use;
use crate::{Error, Result};

pub(super) const TREE: TreeId = TreeId(12);
pub(super) const SCAN_ROWS: u64 = 100;
/// Timeout of the wait for freed space.
const SPACE_BACK_MAX: Duration = Duration::from_secs(60);

pub(super) struct Session<'o> {
    pub options: &'o KvOptions,
    engine: KvEngine,
    directory: PathBuf,
    /// `None` before the load.
    pub open: Option<Open>,
    /// Rows in the tree.
    pub rows: u64,
    /// Disk space in use before the range delete.
    before_delete_bytes: u64,
}

/// An engine that is open, with its log if there is one.
pub(super) struct Open {
    pub engine: Arc<dyn Engine>,
    pub journal: Option<Journal>,
}

impl Open {
    pub(super) fn new(kind: KvEngine, options: &KvOptions, directory: &Path, logged: bool) -> Result<Open> {
        let settings =
            KvSettings { cache_bytes: options.cache_bytes, direct_io: options.direct_io, updates: Arc::new(Increment) };
        let path = directory.join("engine");
        std::fs::create_dir_all(&path).map_err(Error::file(&path))?;
        let engine = (kind.open)(&path, &settings).map_err(Error::Engine)?;
        let journal = logged.then(|| Journal::open(&directory.join("log"), &*engine)).transpose()?;
        Ok(Open { engine, journal })
    }

    pub(super) fn apply(&self, ops: Vec<Op>) -> Result<Position> {
        self.engine.wait_for_room();
        let position = match &self.journal {
            Some(journal) => journal.append(&ops)?,
            None => self.engine.applied().next(),
        };
        self.engine.apply(&[Batch { position, ops }]).map_err(engine_error)?;
        Ok(position)
    }

    pub(super) fn create(&self) -> Result<()> {
        self.apply(vec![Op::CreateTree { tree: TREE, options: TreeOptions::default() }]).map(drop)
    }

    pub(super) fn checkpoint(&self) -> Result<()> {
        self.engine.checkpoint().map_err(engine_error)?;
        self.trim()
    }

    pub(super) fn trim(&self) -> Result<()> {
        self.journal.as_ref().map_or(Ok(()), |journal| journal.trim(&*self.engine))
    }
}

impl<'o> Session<'o> {
    pub(super) fn new(options: &'o KvOptions, engine: KvEngine, directory: &Path) -> Session<'o> {
        Session { options, engine, directory: directory.to_owned(), open: None, rows: 0, before_delete_bytes: 0 }
    }

    /// `None`: the engine cannot do this.
    pub(super) fn run(&mut self, phase: Phase) -> Result<Option<PhaseStatistics>> {
        let statistics = match phase {
            Phase::LoadSeq => self.load_sequential()?,
            Phase::LoadRand => {
                self.open = Some(self.open_in("rows", self.options.log)?);
                self.open()?.create()?;
                self.load_random(self.options.rows, self.options.load_seconds)?
            }
            Phase::Scan(at) => {
                self.prepare_scan(at)?;
                self.read(1, reading::scan_some)?
            }
            Phase::ScanFull => self.once(|open| reading::scan(&*open.engine, &[], u64::MAX))?,
            Phase::Get(threads) => self.read(threads, |engine, row| reading::get(engine, &key(row)))?,
            Phase::GetMissing => self.read(1, |engine, row| reading::get(engine, &missing_key(row)))?,
            Phase::Overwrite => self.overwrite()?,
            Phase::ReadModifyWrite => self.read_modify_write()?,
            Phase::Increment if !self.open()?.engine.capabilities().update_messages => return Ok(None),
            Phase::Increment => self.increment()?,
            Phase::Mixed(threads) => self.mixed(threads)?,
            Phase::GetCold(threads) => {
                self.drop_caches()?;
                self.warm(threads)?;
                self.read(threads, |engine, row| reading::get(engine, &key(row)))?
            }
            Phase::DeleteRange => self.delete_range()?,
            Phase::SpaceBack => self.space_back()?,
            Phase::Checkpoint => self.once(|open| open.checkpoint().map(|()| 1))?,
            Phase::Reopen => self.reopen()?,
            Phase::KillLoad => self.kill_load()?,
            Phase::KillReopen => self.kill_reopen()?,
        };
        Ok(Some(statistics))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(super) fn open_in(&self, name: &str, logged: bool) -> Result<Open> {
        Open::new(self.engine, self.options, &self.path(name), logged)
    }

    pub(super) fn open(&self) -> Result<&Open> {
        self.open.as_ref().ok_or_else(|| Error::Usage("no rows were loaded".to_owned()))
    }

    /// Ends a phase that worked in a directory.
    pub(super) fn finish(&self, clock: Clock, tally: Tally, name: &str, rows: u64) -> Result<PhaseStatistics> {
        clock.stop(tally, disk_use(&self.path(name).join("engine")).actual_bytes, rows)
    }

    /// Measures one call, which returns its number of operations.
    fn once(&self, call: impl FnOnce(&Open) -> Result<u64>) -> Result<PhaseStatistics> {
        let open = self.open()?;
        let clock = Clock::start()?;
        let mut tally = Tally::new(clock.begun);
        tally.call(|| call(open))?;
        self.finish(clock, tally, "rows", self.rows)
    }

    fn prepare_scan(&mut self, at: Scan) -> Result<()> {
        match at {
            Scan::Loaded => {}
            Scan::Idle => std::thread::sleep(Duration::from_secs(self.options.idle_seconds)),
            Scan::Cold => self.drop_caches()?,
        }
        Ok(())
    }

    /// Closes durably, forgets the files' pages and opens again.
    fn drop_caches(&mut self) -> Result<()> {
        self.open()?.checkpoint()?;
        self.open = None;
        forget_pages(&self.path("rows").join("engine"))?;
        self.open = Some(self.open_in("rows", self.options.log)?);
        Ok(())
    }

    fn delete_range(&mut self) -> Result<PhaseStatistics> {
        self.before_delete_bytes = self.used_bytes()?;
        let tenth = self.options.rows / 10;
        let (from, to) = (key(tenth * 4).to_vec(), Some(key(tenth * 5).to_vec()));
        self.rows -= tenth;
        self.once(|open| {
            open.apply(vec![Op::DeleteRange { tree: TREE, from, to }])?;
            Ok(tenth)
        })
    }

    /// Bytes on disk that hold something.
    fn used_bytes(&self) -> Result<u64> {
        let free = self.open()?.engine.stats().map_err(engine_error)?.free_bytes;
        Ok(disk_use(&self.path("rows").join("engine")).actual_bytes.saturating_sub(free))
    }

    fn space_back(&self) -> Result<PhaseStatistics> {
        let aim = self.before_delete_bytes - self.before_delete_bytes / 10 * 4 / 5;
        let mut back = false;
        let mut statistics = self.once(|open| {
            let begun = Instant::now();
            open.checkpoint()?;
            while !back && begun.elapsed() < SPACE_BACK_MAX {
                back = self.used_bytes()? <= aim;
                if !back {
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
            Ok(1)
        })?;
        if !back {
            statistics.note = format!("space not back within {} s", SPACE_BACK_MAX.as_secs());
        }
        Ok(statistics)
    }

    fn reopen(&mut self) -> Result<PhaseStatistics> {
        self.open()?.checkpoint()?;
        self.open = None;
        let clock = Clock::start()?;
        let mut tally = Tally::new(clock.begun);
        let mut opened = None;
        tally.call(|| {
            opened = Some(self.open_in("rows", self.options.log)?);
            Ok(1)
        })?;
        self.open = opened;
        self.finish(clock, tally, "rows", self.rows)
    }
}

/// Clean pages of the files below leave the page cache; they are durable already.
fn forget_pages(directory: &Path) -> Result<()> {
    for entry in std::fs::read_dir(directory).map_err(Error::file(directory))? {
        let path = entry.map_err(Error::file(directory))?.path();
        let file = std::fs::File::open(&path).map_err(Error::file(&path))?;
        let meta = file.metadata().map_err(Error::file(&path))?;
        if meta.is_dir() {
            forget_pages(&path)?;
        } else if meta.size() > 0 {
            file.sync_data().map_err(Error::file(&path))?;
            fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| Error::file(&path)(error.into()))?;
        }
    }
    Ok(())
}
