//! `$backupCursor`: the files of a data directory that shows the state of one moment, to be copied while the cursor is open.
//!
//! The files are made for it, in the directory `backup.cursor` of the server's own: engines write over their files at any time, and several
//! of them have no common moment. So a copy needs the space of the data once more until the cursor is closed, when it is removed.
//!
//! `$backupCursorExtend` appends to the log of that directory what the server has logged up to a time, and lists the files of the log.
//! A copy of the directory with these applies the log when it is opened.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arbor_base::{Position, ThreadThrottle, TreeId};
use arbor_bson::{Code, Doc, DocBuf, ValueRef};
use arbor_protocol::arguments::{Field, present};
use arbor_protocol::cluster_time::timestamp;
use arbor_protocol::log::{events, now_ms};
use arbor_query::cursor::{Filler, RowSource};
use arbor_query::{AggregateSpec, Cursor, Interrupt};
use arbor_store::Namespace;
use arbor_txn::chain::times_of;
use arbor_txn::fetch::{Begun, LogBlock, LogReply, Peer, PeerError, backup_throttle};
use arbor_txn::record::refers_to_loads;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::call::Call;
use crate::{Commands, Error, Result};

/// In the data directory; what a server leaves of it is removed at the next start.
pub const BACKUP_CURSOR_DIRECTORY: &str = "backup.cursor";

/// Time for which a batch waits when all files were listed.
const PATIENCE: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(50);

/// Space for the log and the checkpoints of the copy, and for what the server itself writes meanwhile.
const ROOM_BYTES: u64 = 32 << 20;

/// The first tree of all is in the home.
const FIRST_TREE: TreeId = TreeId(1);

/// Files of a data directory that say something about the server at work on it.
const NOT_DATA: &[&str] = &["arbor.lock", "reserve", "scratch"];

#[derive(Default)]
pub(crate) struct BackupState {
    /// A cursor is open, or its files are being made.
    is_open: AtomicBool,
    /// The files are there.
    made: Mutex<Option<Made>>,
}

pub(crate) type BackupOpen = Arc<BackupState>;

/// The directory and what its log has.
struct Made {
    id: Uuid,
    directory: PathBuf,
    reached: Position,
    /// The time of the last commit up to there.
    time: u64,
    epoch: u64,
    /// Names the part of the server's log that is held behind `reached`.
    hold: Option<u64>,
}

pub(crate) fn is_asked(name: &str) -> bool {
    matches!(name, "$backupCursor" | "$backupCursorExtend")
}

/// Refuses the places where there is nothing to copy.
pub(crate) fn check(call: &Call<'_>, spec: &AggregateSpec<'_>) -> Result<()> {
    let Some(ValueRef::Document(stage)) = spec.pipeline.get(0) else { return Ok(()) };
    let name = stage.first().map_or("", |(name, _)| name);
    if call.server.router.is_some() {
        let text = format!("a router has no data: run {name} on the members of its shards and config servers");
        return Err(Error::new(Code::COMMAND_NOT_SUPPORTED, text));
    }
    if call.db != "admin" || !spec.collectionless {
        let text = format!("{name} must be run against the 'admin' database with {{aggregate: 1}}");
        return Err(Error::new(Code::INVALID_NAMESPACE, text));
    }
    if spec.pipeline.iter().count() > 1 {
        return Err(Error::new(Code::INVALID_OPTIONS, format!("{name} can have no stages behind it")));
    }
    match name {
        "$backupCursor" => check_options(stage),
        _ => Ok(()),
    }
}

/// Opens or extends, as the stage says.
pub(crate) fn run(call: &Call<'_>, spec: &AggregateSpec<'_>) -> Result<Cursor> {
    check(call, spec)?;
    match spec.pipeline.get(0) {
        Some(ValueRef::Document(stage)) if stage.get("$backupCursorExtend").is_some() => {
            Ok(Cursor::over_documents(spec.namespace.clone(), extend(call, stage)?))
        }
        _ => open(call, &spec.namespace),
    }
}

fn extend(call: &Call<'_>, stage: Doc<'_>) -> Result<VecDeque<DocBuf>> {
    let (id, time) = asked(stage)?;
    if call.server.replication.is_none() {
        let text = "Cannot extend backup cursor when replication is not enabled.";
        return Err(Error::new(Code(29_144), text));
    }
    // the lock is released between two steps, so that the cursor can be closed
    while !step(call.server, id, time)? {
        call.interrupt.check()?;
        std::thread::sleep(STEP);
    }
    let made = call.server.backup_open.made.lock();
    let directory = made.as_ref().filter(|made| made.id == id).ok_or_else(not_open)?.directory.join("log");
    let mut listed = VecDeque::new();
    files(&directory, &mut listed).map_err(|error| cannot("list the files of", &directory, &error))?;
    Ok(listed)
}

fn asked(stage: Doc<'_>) -> Result<(Uuid, u64)> {
    let name = "$backupCursorExtend";
    let Some((_, options)) = stage.first() else { return Err(not_open()) };
    let (mut id, mut time) = (None, None);
    for (option, value) in present(Field::new("aggregate", name).document(options)?) {
        let field = Field::new(name, option);
        match (option, value) {
            ("backupId", ValueRef::Binary { subtype: 4, bytes }) => id = Uuid::from_slice(bytes).ok(),
            ("backupId", other) => return Err(field.wrong_type(other, "UUID").into()),
            ("timestamp", ValueRef::Timestamp(at)) => {
                time = Some(u64::from(at.seconds) << 32 | u64::from(at.increment));
            }
            ("timestamp", other) => return Err(field.wrong_type(other, "timestamp").into()),
            _ => return Err(field.unknown().into()),
        }
    }
    match (id, time) {
        (Some(id), Some(time)) => Ok((id, time)),
        (None, _) => Err(Field::new(name, "backupId").missing().into()),
        (_, None) => Err(Field::new(name, "timestamp").missing().into()),
    }
}

fn not_open() -> Error {
    Error::new(Code(51_011), "Cannot extend backup cursor, backupId was not found.")
}

/// Appends a block of records. Returns true if the log of the directory has all up to the time.
fn step(server: &Commands, id: Uuid, time: u64) -> Result<bool> {
    let mut made = server.backup_open.made.lock();
    let made = made.as_mut().filter(|made| made.id == id).ok_or_else(not_open)?;
    if made.time >= time {
        return Ok(true);
    }
    let failed = crate::cmd::repl::arbor_tree::failed;
    let block = match server.trees.log_behind(made.hold, made.reached, Some(made.epoch)).map_err(failed)? {
        LogReply::Block { hold, block } => {
            made.hold = Some(hold);
            block
        }
        LogReply::Nothing { hold } => {
            made.hold = Some(hold);
            return Ok(false);
        }
        LogReply::Trimmed { .. } | LogReply::Differs => {
            let text = "cannot extend the backup: the log behind it is not there any more";
            return Err(Error::new(Code::OPERATION_FAILED, text));
        }
    };
    let block = LogBlock::decode(&block).map_err(|reason| Error::new(Code::OPERATION_FAILED, reason))?;
    let mut newest = made.time;
    let (mut payloads, mut is_reached) = (Vec::new(), block.head.count == 0 && block.head.time >= time);
    for (position, payload) in block.records() {
        let (_, last) = times_of(payload).map_err(|reason| Error::new(Code::OPERATION_FAILED, reason))?;
        is_reached = last > time;
        if is_reached {
            break;
        }
        if refers_to_loads(payload) {
            let text = format!(
                "cannot extend the backup: trees were filled past the log at position {position} (an index build, a change of the engine). \
                 Open another $backupCursor"
            );
            return Err(Error::new(Code::OPERATION_FAILED, text));
        }
        payloads.push(payload);
        newest = newest.max(last);
        is_reached = last == time;
        if is_reached {
            break;
        }
    }
    if let Some(count) = u64::try_from(payloads.len()).ok().filter(|count| *count > 0) {
        let appended = server.host.append_to_directory(&made.directory, block.head.epoch, &payloads);
        appended.map_err(|reason| {
            Error::new(Code::OPERATION_FAILED, format!("cannot extend the files of a backup: {reason}"))
        })?;
        made.reached = Position(made.reached.0 + count);
        made.epoch = block.head.epoch;
        made.time = newest;
    }
    Ok(is_reached)
}

fn check_options(stage: Doc<'_>) -> Result<()> {
    let Some((name, options)) = stage.first() else { return Ok(()) };
    for (option, value) in present(Field::new("aggregate", name).document(options)?) {
        let field = Field::new(name, option);
        match option {
            "incrementalBackup" if field.bool(value)? => {
                let text = "$backupCursor makes whole backups only: `arbor backup create --incremental` continues one";
                return Err(Error::new(Code::COMMAND_NOT_SUPPORTED, text));
            }
            "incrementalBackup" | "disableIncrementalBackup" => drop(field.bool(value)?),
            _ => return Err(field.unknown().into()),
        }
    }
    Ok(())
}

/// Makes the files. It takes as long as writing the data does.
fn open(call: &Call<'_>, namespace: &Namespace) -> Result<Cursor> {
    let server = call.server;
    if server.backup_open.is_open.swap(true, Ordering::AcqRel) {
        let text = "The existing backup cursor must be closed before $backupCursor can succeed.";
        return Err(Error::new(Code(50_886), text));
    }
    let id = Uuid::new_v4();
    let above = server.options.dbpath.join(BACKUP_CURSOR_DIRECTORY);
    // from here on its end removes what was made so far
    let held = OpenBackup { open: server.backup_open.clone(), directory: above.clone() };
    let directory = above.join(id.simple().to_string());
    let state = make(server, &directory, &call.interrupt)?;
    let mut documents = VecDeque::from([DocBuf::new().with("metadata", &metadata(server, id, &directory, &state))]);
    files(&directory, &mut documents).map_err(|error| cannot("list the files of", &directory, &error))?;
    let (reached, epoch) = (state.position, state.epoch);
    // the log behind the state is held while the cursor is used
    let hold = match server.trees.log_behind(None, reached, Some(epoch)) {
        Ok(LogReply::Block { hold, .. } | LogReply::Nothing { hold }) => Some(hold),
        _ => None,
    };
    *server.backup_open.made.lock() = Some(Made { id, directory, reached, time: state.time, epoch, hold });
    let attributes = DocBuf::new().with("position", state.position.0 as i64).with("files", documents.len() as i64 - 1);
    server.log.info(events::BACKUP_BEGUN, "backup", attributes);
    server.last_backup_ms.store(now_ms(), Ordering::Relaxed);
    Ok(Cursor::over_rows(namespace.clone(), BackupFiles { documents, _held: held }))
}

fn make(server: &Commands, directory: &Path, interrupt: &Interrupt) -> Result<Begun> {
    let home = server.database.transactions.engine().engine_of(FIRST_TREE);
    fs::create_dir_all(directory).map_err(|error| cannot("create", directory, &error))?;
    check_room(server, directory)?;
    let state = server.trees.begin_backup().map_err(crate::cmd::repl::arbor_tree::failed)?;
    let frozen = Frozen { server, state: &state, interrupt, throttle: Mutex::new(backup_throttle()) };
    let made = server.host.make_directory(&frozen, &state, home, directory);
    server.trees.end(state.snapshot);
    interrupt.check()?;
    made.map_err(|reason| Error::new(Code::OPERATION_FAILED, format!("cannot make the files of a backup: {reason}")))?;
    Ok(state)
}

/// Refuses a copy that the file system has no room for. It takes what the engines take without the free space in their files. What else is
/// written meanwhile has a tenth of it, and some more.
fn check_room(server: &Commands, directory: &Path) -> Result<()> {
    let stats = server.database.transactions.engine().stats().map_err(arbor_txn::Error::from)?;
    let bytes = stats.disk_bytes.saturating_sub(stats.free_bytes);
    let needed = bytes + bytes / 10 + ROOM_BYTES;
    let free =
        rustix::fs::statvfs(directory).map_err(|error| cannot("read the free space of", directory, &error.into()))?;
    let free = free.f_bavail.saturating_mul(free.f_frsize);
    if free >= needed {
        return Ok(());
    }
    let text = format!(
        "$backupCursor copies the data first, and its file system has no room for that: about {} MB are needed in {}, {} MB are free. \
         `arbor backup create` needs none here",
        needed.div_ceil(1 << 20),
        directory.display(),
        free >> 20
    );
    Err(Error::new(Code::OUT_OF_DISK_SPACE, text))
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::new(Code::OPERATION_FAILED, format!("cannot {what} {}: {error}", path.display()))
}

fn metadata(server: &Commands, id: Uuid, directory: &Path, state: &Begun) -> DocBuf {
    let mut doc = DocBuf::new().with("backupId", ValueRef::Binary { subtype: 4, bytes: id.as_bytes() });
    doc.append("dbpath", directory.to_string_lossy().as_ref());
    if let Some(replication) = &server.replication {
        let entry = DocBuf::new().with("ts", timestamp(state.time)).with("t", replication.term());
        doc.append("oplogStart", &entry).append("oplogEnd", &entry);
        doc.append("checkpointTimestamp", timestamp(state.time));
    }
    doc.append("incrementalBackup", false);
    doc
}

fn files(directory: &Path, listed: &mut VecDeque<DocBuf>) -> std::io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(directory)?.collect::<std::io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let about = entry.metadata()?;
        if NOT_DATA.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if about.is_dir() {
            files(&path, listed)?;
        } else {
            let name = path.to_string_lossy();
            listed.push_back(DocBuf::new().with("filename", name.as_ref()).with("fileSize", about.len() as i64));
        }
    }
    Ok(())
}

/// The trees of this server at one moment, until the statement is to end. The thread that copies them uses the processors that clients leave.
struct Frozen<'s> {
    server: &'s Commands,
    state: &'s Begun,
    interrupt: &'s Interrupt,
    throttle: Mutex<ThreadThrottle>,
}

impl Frozen<'_> {
    /// Sleeps until the thread has used no more than its share, of the blocks before and of their way into the files.
    fn pause(&self) -> std::result::Result<(), PeerError> {
        let until = Instant::now() + self.throttle.lock().rest();
        loop {
            self.interrupt.check().map_err(|error| PeerError::Failed(error.to_string()))?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(STEP));
        }
    }
}

impl Peer for Frozen<'_> {
    fn begin(&self) -> std::result::Result<Begun, PeerError> {
        Ok(self.state.clone())
    }

    fn block(&self, snapshot: u64, tree: TreeId, after: Option<&[u8]>) -> std::result::Result<Vec<u8>, PeerError> {
        self.pause()?;
        self.server.trees.block(snapshot, tree, after)
    }

    /// The one who began it ends it.
    fn end(&self, _snapshot: u64) {}
}

/// Removes the files.
struct OpenBackup {
    open: BackupOpen,
    directory: PathBuf,
}

impl Drop for OpenBackup {
    fn drop(&mut self) {
        *self.open.made.lock() = None;
        // what cannot be removed now is removed by the next one, or at the next start
        let _later = fs::remove_dir_all(&self.directory);
        self.open.is_open.store(false, Ordering::Release);
    }
}

/// Lists the files once, and stays open behind them.
struct BackupFiles {
    documents: VecDeque<DocBuf>,
    _held: OpenBackup,
}

impl RowSource for BackupFiles {
    fn fill(&mut self, filler: &mut Filler, _: &Namespace, interrupt: &Interrupt) -> arbor_query::Result<bool> {
        let had_all = self.documents.is_empty();
        filler.fill(|| Ok(self.documents.pop_front()))?;
        let begun = Instant::now();
        while had_all && filler.is_empty() && begun.elapsed() < PATIENCE {
            interrupt.check()?;
            std::thread::sleep(STEP);
        }
        Ok(false)
    }

    fn may_block(&self) -> bool {
        true
    }
}
