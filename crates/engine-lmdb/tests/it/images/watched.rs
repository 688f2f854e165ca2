//! An engine whose files are copied after every call, and which gets space, or is opened again, when a full disk stops it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arbor_base::{Position, Random, TreeId};
use arbor_engine::{
    Barrier, Batch, Capabilities, Engine, EngineStats, Error, Result, Snapshot, TreeOptions, TreeStats,
};
use arbor_engine_lmdb::{LmdbEngine, LmdbOptions};
use parking_lot::Mutex;

use super::{full_disk, mix};

type Row = (Vec<u8>, Vec<u8>);

/// Files as a power loss may leave them.
pub(super) struct Image {
    pub data: Vec<u8>,
    pub checkpoint: Vec<u8>,
}

pub(super) struct Watched {
    dir: PathBuf,
    /// `None` only while it is opened again.
    engine: Mutex<Option<LmdbEngine>>,
    files: Mutex<Files>,
    /// Changes after the last checkpoint, in their order: batches, as the log has them, and bulk loads, which their user begins again.
    since: Mutex<Vec<Change>>,
}

enum Change {
    Batches(Vec<Batch>),
    BulkLoad(TreeId, Vec<Row>),
}

struct Files {
    random: Random,
    checkpoint: Vec<u8>,
    /// The data file after each call since the last sync.
    copies: Vec<Vec<u8>>,
    on_full_disk: Vec<Image>,
}

pub(super) fn open(dir: &Path) -> Result<LmdbEngine> {
    let options = LmdbOptions { map_bytes: 1 << 30, readers_max: 64, background: false, ..LmdbOptions::default() };
    LmdbEngine::open(dir, options)
}

impl Watched {
    pub(super) fn new(dir: &Path, seed: u64) -> Watched {
        let engine = open(dir).expect("a new directory");
        let files =
            Files { random: Random::new(seed), checkpoint: Vec::new(), copies: Vec::new(), on_full_disk: Vec::new() };
        let watched = Watched {
            dir: dir.to_owned(),
            engine: Mutex::new(Some(engine)),
            files: Mutex::new(files),
            since: Mutex::default(),
        };
        watched.copy();
        watched
    }

    pub(super) fn image(&self) -> Image {
        let mut files = self.files.lock();
        let Files { random, checkpoint, copies, .. } = &mut *files;
        Image { data: mix(random, copies), checkpoint: checkpoint.clone() }
    }

    /// The newest checkpoint's file.
    pub(super) fn checkpoint_file(&self) -> Vec<u8> {
        self.files.lock().checkpoint.clone()
    }

    pub(super) fn take_images_on_full_disk(&self) -> Vec<Image> {
        std::mem::take(&mut self.files.lock().on_full_disk)
    }

    pub(super) fn sweep(&self) {
        self.with_room(LmdbEngine::sweep).expect("the sweep ends");
    }

    /// Opens the files as a crash leaves them; the log is gone up to the checkpoint.
    pub(super) fn crash(&self) {
        self.since.lock().clear();
        self.open_again();
    }

    /// The next state of the files. A checkpoint has synced them.
    fn copy(&self) {
        let mut files = self.files.lock();
        let checkpoint = fs::read(self.dir.join("checkpoint.meta")).expect("checkpoint.meta is there");
        if checkpoint != files.checkpoint {
            files.checkpoint = checkpoint;
            files.copies.clear();
        }
        files.copies.push(fs::read(self.dir.join("data.mdb")).expect("data.mdb is there"));
    }

    fn on<T>(&self, work: impl Fn(&LmdbEngine) -> T) -> T {
        work(self.engine.lock().as_ref().expect("an engine is open"))
    }

    /// Does the same once more with all the space there is when the disk is full.
    fn with_room<T>(&self, work: impl Fn(&LmdbEngine) -> Result<T>) -> Result<T> {
        let result = self.on(&work);
        self.copy();
        match result {
            Err(Error::OutOfSpace { .. }) => {
                self.end_full_disk();
                let again = self.on(work);
                self.copy();
                again
            }
            // LMDB takes a short write for an I/O error, and the file system of the test has space.
            Err(Error::Poisoned { .. } | Error::Io { .. }) if full_disk::is_limited() => {
                self.end_full_disk();
                self.open_again();
                let again = self.on(work);
                self.copy();
                again
            }
            result => result,
        }
    }

    fn end_full_disk(&self) {
        let image = self.image();
        self.files.lock().on_full_disk.push(image);
        full_disk::free_all();
    }

    fn open_again(&self) {
        let mut engine = self.engine.lock();
        drop(engine.take());
        let opened = open(&self.dir).or_else(|error| {
            assert!(full_disk::is_limited(), "{error}");
            full_disk::free_all();
            open(&self.dir)
        });
        let opened = opened.expect("what a crash leaves opens");
        for change in &*self.since.lock() {
            let made = match change {
                Change::Batches(batches) => opened.apply(batches),
                Change::BulkLoad(tree, rows) => opened.bulk_load(*tree, &mut rows.iter().cloned()),
            };
            made.expect("what was made once is made again");
        }
        *engine = Some(opened);
        drop(engine);
        self.copy();
    }
}

impl Engine for Watched {
    fn name(&self) -> &'static str {
        "lmdb"
    }

    fn applied(&self) -> Position {
        self.on(LmdbEngine::applied)
    }

    fn apply(&self, batches: &[Batch]) -> Result<()> {
        self.with_room(|engine| engine.apply(batches))?;
        self.since.lock().push(Change::Batches(batches.to_vec()));
        Ok(())
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        self.on(LmdbEngine::snapshot)
    }

    fn checkpoint(&self) -> Result<Position> {
        let durable = self.with_room(LmdbEngine::checkpoint)?;
        self.since.lock().clear();
        Ok(durable)
    }

    fn set_barrier(&self, barrier: Barrier) {
        self.on(|engine| engine.set_barrier(barrier.clone()));
    }

    fn durable(&self) -> Position {
        self.on(LmdbEngine::durable)
    }

    fn bulk_load(&self, tree: TreeId, rows: &mut dyn Iterator<Item = Row>) -> Result<()> {
        let rows: Vec<Row> = rows.collect();
        self.with_room(|engine| engine.bulk_load(tree, &mut rows.iter().cloned()))?;
        self.since.lock().push(Change::BulkLoad(tree, rows));
        Ok(())
    }

    fn check_options(&self, options: &TreeOptions) -> Result<()> {
        self.on(|engine| engine.check_options(options))
    }

    fn trees(&self) -> Result<Vec<TreeId>> {
        self.on(LmdbEngine::trees)
    }

    fn compact(&self, tree: TreeId, stop: &dyn Fn() -> bool) -> Result<u64> {
        self.on(|engine| engine.compact(tree, stop))
    }

    fn stats(&self) -> Result<EngineStats> {
        self.on(LmdbEngine::stats)
    }

    fn tree_stats(&self, tree: TreeId) -> Result<TreeStats> {
        self.on(|engine| engine.tree_stats(tree))
    }

    fn capabilities(&self) -> Capabilities {
        self.on(LmdbEngine::capabilities)
    }
}
