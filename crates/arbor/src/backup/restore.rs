//! `arbor backup restore`: an initial sync whose peer is a backup, and the archived log behind it as a follower receives it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arbor_base::{Position, TreeId};
use arbor_engine::{Engine, Op};
use arbor_store::Store;
use arbor_txn::Transactions;
use arbor_txn::chain::{self, Assembler, times_of};
use arbor_txn::fetch::{Begun, LogBlock, Peer, PeerError};
use arbor_txn::record::refers_to_loads;
use parking_lot::Mutex;

use super::files::Files;
use super::log_files::{LogFiles, LogReader};
use super::manifest::{Manifest, TreeFile};
use super::point::{self, Asked, Point, Until};
use super::rows_file::RowsReader;
use super::target::Target;
use super::{Error, Result, damaged, io};
use crate::check;
use crate::config::Settings;
use crate::directory::Directory;
use crate::engines::{Engines, NAMES};
use crate::memory::Sizes;
use crate::storage::{Pace, Part, Storage};

/// `only`: databases and collections; none for all.
pub(super) fn run(from: &Target, asked: &Asked, only: &[String], dbpath: &Path) -> Result<()> {
    let point = point::find(from, asked)?;
    check_is_empty(dbpath)?;
    let reached = restore(from, &point, only, dbpath)?;
    println!("{} was restored into {}: {}", point.backup.name, dbpath.display(), point.manifest);
    if point.until != Until::Backup {
        println!("and the log behind it, up to position {reached}");
    }
    Ok(())
}

/// Restores into a directory that the caller removes, and validates everything in it.
pub(super) fn trial(from: &Target, point: &Point, directory: &Path) -> Result<()> {
    restore(from, point, &[], directory)?;
    check::verify(directory).map_err(|failure| Error::Refused(failure.to_string()))
}

pub(super) fn check_is_empty(dbpath: &Path) -> Result<()> {
    match std::fs::read_dir(dbpath) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io("read", dbpath)(error)),
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(Error::Refused(format!(
                "{} is not empty: a backup is restored into an empty directory only",
                dbpath.display()
            ))),
        },
    }
}

/// Returns the position of the state. Requires that the directory is empty or missing. Ensures on `Err`: it is so again.
pub(super) fn restore(from: &Target, point: &Point, only: &[String], dbpath: &Path) -> Result<Position> {
    let manifest = &point.manifest;
    let stored = Stored::of(&from.files, &point.backup.name, manifest.state(), manifest.files.clone());
    stored.check_files()?;
    let home = NAMES.iter().find(|name| **name == manifest.home);
    let home = home.ok_or_else(|| missing_engine(&manifest.home))?;
    let is_new = !dbpath.exists();
    if is_new {
        std::fs::create_dir(dbpath).map_err(io("create", dbpath))?;
    }
    let log = ArchivedLog { files: LogFiles::of(from), manifest, until: point.until };
    let filled = fill(&stored, &log, home, dbpath).and_then(|reached| {
        if !only.is_empty() {
            drop_others(only, home, dbpath)?;
        }
        Ok(reached)
    });
    if filled.is_err() {
        // What is there is no state that ever was.
        let _removed = empty(dbpath, is_new);
    }
    filled
}

fn missing_engine(name: &str) -> Error {
    Error::Refused(format!(
        "the backup needs the storage engine '{name}', which is not in this build ({})",
        NAMES.join(", ")
    ))
}

pub(super) fn empty(dbpath: &Path, is_new: bool) -> std::io::Result<()> {
    if is_new {
        return std::fs::remove_dir_all(dbpath);
    }
    for entry in std::fs::read_dir(dbpath)? {
        let path = entry?.path();
        if path.is_dir() { std::fs::remove_dir_all(path)? } else { std::fs::remove_file(path)? }
    }
    Ok(())
}

fn refused(error: &dyn std::fmt::Display) -> Error {
    Error::Refused(format!("cannot restore: {error}"))
}

/// Opens a directory that was restored, to change something in it.
pub(super) fn open_own(home: &str, dbpath: &Path) -> Result<Storage> {
    let home = NAMES.iter().find(|name| **name == home).ok_or_else(|| missing_engine(home))?;
    open(home, dbpath, Part::Own)
}

fn open(home: &str, dbpath: &Path, part: Part) -> Result<Storage> {
    let engines = Engines::of_directory(Some(home));
    let pace = Pace {
        commit_interval: Duration::from_millis(100),
        log_compression: true,
        checkpoint_interval: Duration::from_secs(60),
        cache_bytes: Sizes::of(&Settings::default()).cache(),
        history: None,
    };
    let directory = Directory::open(dbpath, home).map_err(|failure| refused(&failure))?;
    Storage::open(directory, &engines, &pace, part).map_err(|failure| refused(&failure))
}

fn fill(stored: &Stored, log: &ArchivedLog<'_>, home: &str, dbpath: &Path) -> Result<Position> {
    let storage = open(home, dbpath, Part::OfSeveral)?;
    let filled = sync(stored, &storage).and_then(|()| log.replay(&storage.transactions));
    let closed = storage.close().map_err(|failure| refused(&failure));
    filled.and_then(|reached| closed.map(|()| reached))
}

/// Drops all but these databases and collections.
fn drop_others(only: &[String], home: &str, dbpath: &Path) -> Result<()> {
    let storage = open(home, dbpath, Part::Own)?;
    let dropped = drop_others_in(&storage.store, only);
    let closed = storage.close().map_err(|failure| refused(&failure));
    dropped.and(closed)
}

fn drop_others_in(store: &Store, only: &[String]) -> Result<()> {
    let mut found = false;
    for db in store.list_databases() {
        if only.contains(&db) {
            found = true;
            continue;
        }
        // Those of a time series go with it.
        let views = store.list_views(&db);
        for view in &views {
            match is_asked(only, view.namespace.as_str()) {
                true => found = true,
                false if store.drop_time_series(&view.namespace).map_err(|error| refused(&error))? => {}
                false => drop(store.drop_view(&view.namespace).map_err(|error| refused(&error))?),
            }
        }
        for collection in store.list_collections(&db) {
            let name = collection.namespace.as_str();
            match is_asked(only, &name.replacen(".system.buckets.", ".", 1)) {
                true => found = true,
                false => drop(store.drop_collection(&collection.namespace).map_err(|error| refused(&error))?),
            }
        }
    }
    match found {
        true => Ok(()),
        false => Err(Error::Refused(format!("the state has none of {}", only.join(", ")))),
    }
}

fn is_asked(only: &[String], namespace: &str) -> bool {
    only.iter().any(|own| own == namespace)
}

fn sync(stored: &Stored, storage: &Storage) -> Result<()> {
    let engine = storage.transactions.engine();
    for facts in &stored.state.trees {
        // Engines join before they are to have trees; one that is not in this build is named.
        engine.check_options(&facts.options).map_err(|error| refused(&error))?;
    }
    storage.transactions.sync_from(stored, &()).map(drop).map_err(|error| refused(&error))
}

/// The log behind a backup.
struct ArchivedLog<'m> {
    files: LogFiles,
    manifest: &'m Manifest,
    until: Until,
}

/// Records on their way into the log of the directory.
#[derive(Default)]
struct Received {
    epoch: u64,
    payloads: Vec<Vec<u8>>,
    assembler: Assembler,
}

impl Received {
    /// Adds a record. Engines join before they are to have trees.
    fn push(&mut self, engine: &dyn Engine, position: Position, payload: &[u8]) -> Result<()> {
        let part = self.assembler.take(payload);
        let part = part.map_err(|reason| Error::Refused(format!("the archived record at {position}: {reason}")))?;
        if let chain::Part::Record(record) = part {
            for op in &record.ops {
                if let Op::CreateTree { options, .. } = op {
                    engine.check_options(options).map_err(|error| refused(&error))?;
                }
            }
        }
        self.payloads.push(payload.to_vec());
        Ok(())
    }
}

impl ArchivedLog<'_> {
    /// Has the directory receive and apply the log. Returns the last position. Requires the state of the backup.
    fn replay(&self, transactions: &Transactions) -> Result<Position> {
        let mut next = self.manifest.position + 1;
        let mut received = Received::default();
        let files = self.files.files()?;
        for (at, file) in files.iter().enumerate() {
            let is_before = files.get(at + 1).is_some_and(|following| following.first <= next);
            if self.until == Until::Backup || is_before {
                continue;
            }
            let mut reader = LogReader::open(&self.files, file)?;
            if reader.deployment != self.manifest.deployment {
                return Err(damaged(&file.path, format!("it is of another deployment (id {})", reader.deployment)));
            }
            while let Some(block) = reader.next_block()? {
                let ended = self.replay_block(transactions, &block, &mut received, &mut next)?;
                if ended {
                    return self.settle(transactions, next - 1);
                }
            }
        }
        self.settle(transactions, next - 1)
    }

    /// Returns true if the point is reached. `next`: the position that comes next.
    fn replay_block(
        &self,
        transactions: &Transactions,
        block: &LogBlock,
        received: &mut Received,
        next: &mut u64,
    ) -> Result<bool> {
        received.epoch = block.head.epoch;
        for (position, payload) in block.records().filter(|(position, _)| position.0 > self.manifest.position) {
            if position.0 < *next {
                continue;
            }
            let corrupt = |reason: &str| Error::Refused(format!("the archived record at {position}: {reason}"));
            let (_, time) = times_of(payload).map_err(corrupt)?;
            if position.0 != *next || self.until.is_before(position.0, time) {
                self.flush(transactions, received, *next - 1)?;
                return Ok(true);
            }
            *next += 1;
            received.push(&**transactions.engine(), position, payload)?;
            if refers_to_loads(payload) {
                // It waits for its trees; what comes after it waits for it.
                self.flush(transactions, received, position.0)?;
                self.fetch_loads(transactions)?;
            }
        }
        self.flush(transactions, received, *next - 1)?;
        Ok(false)
    }

    fn flush(&self, transactions: &Transactions, received: &mut Received, last: u64) -> Result<()> {
        if received.payloads.is_empty() {
            return Ok(());
        }
        let payloads: Vec<&[u8]> = received.payloads.iter().map(Vec::as_slice).collect();
        let after = Position(last - payloads.len() as u64);
        let apply = || -> arbor_txn::Result<()> {
            let last = transactions.receive(received.epoch, after, &payloads)?;
            transactions.make_durable(Some(last))?;
            transactions.engine().wait_for_room();
            transactions.set_matched_commit_point(last).map(drop)
        };
        apply().map_err(|error| refused(&error))?;
        received.payloads.clear();
        Ok(())
    }

    fn fetch_loads(&self, transactions: &Transactions) -> Result<()> {
        while let Some(record) = transactions.loads().missing() {
            let load = self.files.load(record.0)?.ok_or_else(|| {
                Error::Refused(format!(
                    "the archive has no trees of the record at {record}: it was ended before it had them"
                ))
            })?;
            let directory = LogFiles::load_directory(record.0);
            let stored = Stored::of(&self.files.files, &directory, load.state(self.manifest.epoch), load.files);
            stored.check_files()?;
            transactions.fetch_missing(&stored, &|| false).map_err(|error| refused(&error))?;
            if transactions.loads().missing() == Some(record) {
                return Err(Error::Refused(format!("the trees of the record at {record} do not fit it")));
            }
        }
        Ok(())
    }

    fn settle(&self, transactions: &Transactions, reached: u64) -> Result<Position> {
        if let Some(until) = transactions.loads().unreadable_until() {
            return Err(Error::Refused(format!(
                "positions up to {} cannot be restored: trees that were filled past the log (an index build, a change of the engine) \
                 were read at {until}. Restore that position, or an earlier one",
                until.0 - 1
            )));
        }
        match self.until {
            Until::Position(last) if last != reached => {
                Err(Error::Refused(format!("the archive ends at position {reached}")))
            }
            _ => Ok(Position(reached)),
        }
    }
}

/// A backup as the peer of an initial sync: each tree is read once, from its first block on.
struct Stored {
    place: Arc<dyn Files>,
    directory: String,
    state: Begun,
    files: Vec<TreeFile>,
    open: Mutex<Option<Open>>,
}

/// The tree that is being read.
struct Open {
    tree: TreeId,
    reader: RowsReader,
    /// The key behind which the last block was asked for.
    after: Option<Vec<u8>>,
}

impl Stored {
    fn of(place: &Arc<dyn Files>, directory: &str, state: Begun, files: Vec<TreeFile>) -> Stored {
        Stored { place: Arc::clone(place), directory: directory.to_owned(), state, files, open: Mutex::default() }
    }

    /// Errors: a file is missing, or has another size than the manifest says.
    fn check_files(&self) -> Result<()> {
        self.files.iter().try_for_each(|file| RowsReader::open(&*self.place, &self.directory, file).map(drop))
    }

    fn open(&self, tree: TreeId) -> std::result::Result<RowsReader, PeerError> {
        let file = self.files.iter().find(|file| file.tree == tree.0).ok_or(PeerError::NoTree(tree))?;
        RowsReader::open(&*self.place, &self.directory, file).map_err(failed)
    }
}

fn failed(error: Error) -> PeerError {
    PeerError::Failed(error.to_string())
}

impl Peer for Stored {
    fn begin(&self) -> std::result::Result<Begun, PeerError> {
        Ok(self.state.clone())
    }

    fn block(&self, _: u64, tree: TreeId, after: Option<&[u8]>) -> std::result::Result<Vec<u8>, PeerError> {
        let mut open = self.open.lock();
        let mut own = match (after, open.take()) {
            (None, _) => Open { tree, reader: self.open(tree)?, after: None },
            // The same block again would be the next one.
            (Some(after), Some(own)) if own.tree == tree && own.after.as_deref() != Some(after) => own,
            (Some(_), _) => {
                return Err(PeerError::Failed(format!("the blocks of tree {tree} are read in order, once")));
            }
        };
        let block = own.reader.next_block().map_err(failed)?;
        own.after = after.map(<[u8]>::to_vec);
        *open = Some(own);
        Ok(block)
    }

    fn end(&self, _: u64) {}
}
