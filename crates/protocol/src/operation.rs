//! Running operations. Each connection has one slot, written by that connection and read by `currentOp`; requests share no lock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arbor_base::work::{self, Shown, Work};
use arbor_bson::{ArrayBuf, Doc, DocBuf, SessionId, ValueRef};
use parking_lot::{Mutex, MutexGuard};
use uuid::Uuid;

use crate::log::{iso8601, now_ms};

/// A command document is kept for `currentOp` up to this size.
const SHOWN_BYTES_MAX: usize = 4096;

/// All connections by number. Locked when one opens or closes and by `currentOp`.
#[derive(Default)]
pub struct Operations {
    slots: Mutex<BTreeMap<u64, Arc<Slot>>>,
}

/// Operation of one connection. Its buffers are reused by the connection's next operation.
pub struct Slot {
    connection: u64,
    operation: Mutex<Operation>,
    /// The work of the operation so far.
    pub work: Arc<work::Running>,
    /// Connection facts for `currentOp`, set by the handshake.
    about: Mutex<About>,
}

/// Digest and name of a user.
pub type User = ([u8; 32], DocBuf);

#[derive(Clone, Default)]
pub struct About {
    /// Name of an internal thread, which has no client.
    pub name: Option<String>,
    pub remote: String,
    pub app_name: Option<String>,
    pub client: Option<DocBuf>,
    /// The user who is logged in.
    pub user: Option<User>,
}

struct Operation {
    running: bool,
    id: u64,
    begun: Instant,
    kind: &'static str,
    namespace: String,
    command: Vec<u8>,
    session: Option<SessionId>,
    on_behalf: Option<User>,
    key: Option<Uuid>,
    ends_with_client: bool,
    killed: Arc<AtomicBool>,
    progress: Option<Progress>,
}

/// Progress of an operation that counts its work.
#[derive(Clone, Copy)]
struct Progress {
    message: &'static str,
    done: u64,
    total: u64,
}

/// Number of running operations; commands are neither readers nor writers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Running {
    pub total: usize,
    pub readers: usize,
    pub writers: usize,
}

/// Description of an operation that begins.
pub struct Begin<'a> {
    pub kind: &'static str,
    pub db: &'a str,
    pub body: Doc<'a>,
    pub session: Option<SessionId>,
    pub limit: Option<Duration>,
    /// The user for whom a member of the cluster asks.
    pub on_behalf: Option<User>,
    /// A name by which its sender may end it.
    pub key: Option<Uuid>,
    /// It is of no use once its client has left.
    pub ends_with_client: bool,
    /// It is the one that the slot holds, which has waited.
    pub again: bool,
}

/// Conditions that end an operation early.
pub struct Begun {
    pub deadline: Option<Instant>,
    /// Raised when the operation is to stop.
    pub killed: Arc<AtomicBool>,
}

/// Operations of one connection have numbers from `connection * IDS_PER_CONNECTION` on, so that no counter is shared.
const IDS_PER_CONNECTION: u64 = 1_000_000;

impl Operations {
    pub fn open(&self, connection: u64, about: About) -> Arc<Slot> {
        let operation = Operation {
            running: false,
            id: connection * IDS_PER_CONNECTION,
            begun: Instant::now(),
            kind: "none",
            namespace: String::new(),
            command: Vec::new(),
            session: None,
            on_behalf: None,
            key: None,
            ends_with_client: false,
            killed: Arc::default(),
            progress: None,
        };
        let slot = Arc::new(Slot {
            connection,
            operation: Mutex::new(operation),
            work: Arc::default(),
            about: Mutex::new(about),
        });
        self.slots().insert(connection, slot.clone());
        slot
    }

    pub fn close(&self, connection: u64) {
        self.slots().remove(&connection);
    }

    /// Asks an operation to stop; false when it is not running (any more).
    pub fn kill(&self, id: u64) -> bool {
        self.kill_where(|running| running.id == id) > 0
    }

    /// Like [`Operations::kill`], if the operation is of this user.
    pub fn kill_of(&self, id: u64, user: [u8; 32]) -> bool {
        let slots = self.slots();
        let mut own = slots.values().filter(|slot| slot.is_of(user));
        own.any(|slot| slot.kill_if(|running| running.id == id))
    }

    pub fn kill_session(&self, session: SessionId) -> usize {
        self.kill_where(|running| running.session == Some(session))
    }

    /// Kills the operations of these keys.
    pub fn kill_keys(&self, keys: &[Uuid]) -> usize {
        self.kill_where(|running| running.key.is_some_and(|key| keys.contains(&key)))
    }

    /// Kills the operations whose replies no client awaits: those that have run for a time, end with their clients, and whose clients
    /// `has_left` says yes to.
    pub fn kill_abandoned(&self, age: Duration, has_left: impl Fn(u64) -> bool) -> usize {
        let is_candidate = |running: &Operation| running.ends_with_client && running.begun.elapsed() >= age;
        let slots: Vec<Arc<Slot>> = self.slots().values().cloned().collect();
        let left = slots.iter().filter(|slot| slot.runs(is_candidate) && has_left(slot.connection));
        left.filter(|slot| slot.kill_if(is_candidate)).count()
    }

    /// Stops all that runs, for the shutdown.
    pub fn kill_all(&self) -> usize {
        self.kill_where(|_| true)
    }

    /// Kills the operations of these kinds.
    pub fn kill_kinds(&self, kinds: &[&str]) -> usize {
        self.kill_where(|operation| kinds.contains(&operation.kind))
    }

    fn kill_where(&self, chosen: impl Fn(&Operation) -> bool) -> usize {
        let mut count = 0;
        for slot in self.slots().values() {
            count += usize::from(slot.kill_if(&chosen));
        }
        count
    }

    /// Running operations as `currentOp` shows them; with `idle` also connections that do nothing.
    pub fn list(&self, host: &str, idle: bool) -> Vec<DocBuf> {
        self.list_of(host, idle, None)
    }

    /// Like [`Operations::list`], of one user's connections.
    pub fn list_of(&self, host: &str, idle: bool, user: Option<[u8; 32]>) -> Vec<DocBuf> {
        let slots: Vec<Arc<Slot>> = self.slots().values().cloned().collect();
        let own = slots.iter().filter(|slot| user.is_none_or(|user| slot.is_of(user)));
        own.filter_map(|slot| slot.describe(host, idle)).collect()
    }

    pub fn running(&self) -> Running {
        let mut running = Running::default();
        for slot in self.slots().values() {
            let operation = slot.operation.lock();
            if operation.running {
                running.total += 1;
                running.readers += usize::from(matches!(operation.kind, "query" | "getmore"));
                running.writers += usize::from(matches!(operation.kind, "insert" | "update" | "remove"));
            }
        }
        running
    }

    fn slots(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Slot>>> {
        self.slots.lock()
    }
}

impl Slot {
    /// Begins an operation, which ends when [`Slot::end`] is called.
    pub fn begin(&self, begin: Begin<'_>) -> Begun {
        let now = Instant::now();
        let mut operation = self.operation.lock();
        if begin.again && operation.running {
            return Begun {
                deadline: begin.limit.map(|limit| operation.begun + limit),
                killed: operation.killed.clone(),
            };
        }
        operation.running = true;
        operation.id = self.connection * IDS_PER_CONNECTION + (operation.id + 1) % IDS_PER_CONNECTION;
        operation.begun = now;
        operation.kind = begin.kind;
        operation.session = begin.session;
        operation.on_behalf = begin.on_behalf;
        operation.key = begin.key;
        operation.ends_with_client = begin.ends_with_client;
        operation.progress = None;
        operation.keep(begin.db, begin.body);
        if operation.killed.load(Ordering::Relaxed) {
            operation.killed = Arc::default();
        }
        Begun { deadline: begin.limit.map(|limit| now + limit), killed: operation.killed.clone() }
    }

    fn kill_if(&self, chosen: impl Fn(&Operation) -> bool) -> bool {
        let operation = self.operation.lock();
        let killed = operation.running && chosen(&operation);
        if killed {
            operation.killed.store(true, Ordering::Relaxed);
        }
        killed
    }

    fn runs(&self, chosen: impl Fn(&Operation) -> bool) -> bool {
        let operation = self.operation.lock();
        operation.running && chosen(&operation)
    }

    fn is_of(&self, user: [u8; 32]) -> bool {
        let on_behalf = self.operation.lock().on_behalf.as_ref().map(|(digest, _)| *digest);
        if let Some(digest) = on_behalf {
            return digest == user;
        }
        self.about.lock().user.as_ref().is_some_and(|(digest, _)| *digest == user)
    }

    /// Notes who is logged in on the connection.
    pub fn set_user(&self, user: Option<([u8; 32], DocBuf)>) {
        self.about.lock().user = user;
    }

    pub fn end(&self) {
        self.operation.lock().running = false;
    }

    /// For operations that take long: `currentOp` shows it.
    pub fn set_progress(&self, message: &'static str, done: u64, total: u64) {
        self.operation.lock().progress = Some(Progress { message, done, total });
    }

    pub fn set_client(&self, app_name: Option<String>, client: DocBuf) {
        let mut about = self.about.lock();
        about.app_name = app_name;
        about.client = Some(client);
    }

    pub fn app_name(&self) -> Option<String> {
        self.about.lock().app_name.clone()
    }

    /// Returns what the client said about itself.
    pub fn client(&self) -> Option<DocBuf> {
        self.about.lock().client.clone()
    }

    /// Whose connection it is.
    pub fn describe_client(&self) -> DocBuf {
        let mut doc = DocBuf::new();
        self.append_client(&mut doc, Some("inactive transaction"), None);
        doc
    }

    fn append_client(&self, doc: &mut DocBuf, does: Option<&str>, on_behalf: Option<&User>) {
        let about = self.about.lock();
        match &about.name {
            Some(name) => drop(doc.append("desc", name)),
            None => {
                let name = format!("conn{}", self.connection);
                doc.append("desc", does.unwrap_or(&name)).append("connectionId", self.connection as i64);
                doc.append("client", &about.remote);
            }
        }
        if let Some(name) = &about.app_name {
            doc.append("appName", name);
        }
        let of_one = |(_, user): &User| [user].into_iter().collect::<ArrayBuf>();
        if let Some(user) = on_behalf.or(about.user.as_ref()) {
            doc.append("effectiveUsers", &of_one(user));
        }
        if let Some(user) = about.user.as_ref().filter(|_| on_behalf.is_some()) {
            doc.append("runBy", &of_one(user));
        }
        if let Some(client) = &about.client {
            doc.append("clientMetadata", client);
        }
    }

    fn describe(&self, host: &str, idle: bool) -> Option<DocBuf> {
        let operation = self.operation.lock();
        if !operation.running && !idle {
            return None;
        }
        let mut doc = DocBuf::new().with("type", "op").with("host", host);
        self.append_client(&mut doc, None, operation.on_behalf.as_ref());
        doc.append("active", operation.running);
        doc.append("currentOpTime", &*iso8601(now_ms()));
        if operation.running {
            operation.describe(&mut doc);
            if let Some(shown) = self.work.shown() {
                append_shown(&mut doc, &shown);
            }
            doc.append("locks", &DocBuf::new()).append("waitingForLock", false).append("lockStats", &DocBuf::new());
        }
        Some(doc)
    }
}

/// Appends what a running statement has done so far, under the names of the slow query log.
fn append_shown(doc: &mut DocBuf, shown: &Shown) {
    if let Some(plan) = &shown.plan {
        doc.append("planSummary", plan);
    }
    append_work(doc, &shown.work);
    if let Some(nanos) = shown.cpu_nanos() {
        doc.append("cpuNanos", nanos as i64);
    }
    doc.append("storage", &storage(&shown.work));
}

/// Appends what a statement has examined and whether it has sorted and written temporary files.
pub fn append_work(doc: &mut DocBuf, work: &Work) {
    doc.append("keysExamined", work.keys_examined as i64).append("docsExamined", work.documents_examined as i64);
    if work.sorted {
        doc.append("hasSortStage", true);
    }
    if work.spills > 0 {
        doc.append("usedDisk", true);
    }
}

/// Returns what a statement has read from the disk.
pub fn storage(work: &Work) -> DocBuf {
    if work.reads == 0 {
        return DocBuf::new();
    }
    let data = DocBuf::new().with("bytesRead", work.read_bytes as i64);
    DocBuf::new().with("data", &data.with("timeReadingMicros", work.read_micros as i64))
}

impl Operation {
    /// Keeps the command for `currentOp`, of a large one its first field.
    fn keep(&mut self, db: &str, body: Doc<'_>) {
        self.namespace.clear();
        self.namespace.push_str(db);
        self.namespace.push('.');
        let target = match body.first() {
            Some(("getMore", _)) => body.get("collection"),
            first => first.map(|(_, value)| value),
        };
        self.namespace.push_str(match target {
            Some(ValueRef::String(collection)) => collection,
            _ => "$cmd",
        });
        self.command.clear();
        if body.as_bytes().len() <= SHOWN_BYTES_MAX {
            self.command.extend_from_slice(body.as_bytes());
        } else if let Some((name, value)) = body.first() {
            let shown = DocBuf::new().with(name, value).with("$truncated", true);
            self.command.extend_from_slice(shown.as_bytes());
        }
    }

    fn describe(&self, doc: &mut DocBuf) {
        let elapsed = self.begun.elapsed();
        doc.append("opid", self.id as i64);
        if let Some(session) = &self.session {
            doc.append("lsid", &session.to_doc());
        }
        doc.append("secs_running", elapsed.as_secs() as i64);
        doc.append("microsecs_running", elapsed.as_micros() as i64);
        doc.append("op", self.kind).append("ns", &self.namespace).append("command", Doc::trusted(&self.command));
        if let Some(progress) = &self.progress {
            progress.describe(doc);
        }
        doc.append("killPending", self.killed.load(Ordering::Relaxed));
        doc.append("numYields", 0i32);
    }
}

impl Progress {
    fn describe(&self, doc: &mut DocBuf) {
        let Progress { message, done, total } = *self;
        let percent = (done * 100).checked_div(total).unwrap_or(100);
        doc.append("msg", &*format!("{message}: {done}/{total} {percent}%"));
        doc.append("progress", &DocBuf::new().with("done", done as i64).with("total", total as i64));
    }
}

/// A panic while one of these is held leaves it usable: every change is one assignment, insert or remove.
#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Uuid = Uuid::from_u128(9);
    const SESSION: SessionId = SessionId { id: uuid::Uuid::from_u128(7), user: [7; 32] };

    fn begin(slot: &Slot, body: &DocBuf) -> Arc<AtomicBool> {
        slot.begin(Begin {
            kind: "command",
            db: "test",
            body: body.as_doc(),
            session: Some(SESSION),
            limit: None,
            on_behalf: None,
            key: Some(KEY),
            ends_with_client: true,
            again: false,
        })
        .killed
    }

    #[test]
    fn what_runs_is_listed_and_can_be_killed() {
        let operations = Operations::default();
        let slot = operations.open(3, About { remote: "127.0.0.1:5".to_owned(), ..About::default() });
        assert_eq!(operations.list("h", false).len(), 0);
        assert_eq!(operations.list("h", true).len(), 1);
        let killed = begin(&slot, &DocBuf::new().with("find", "c"));
        let listed = operations.list("h", false);
        assert!(matches!(listed[0].get("ns"), Some(ValueRef::String("test.c"))));
        assert_eq!(operations.running(), Running { total: 1, readers: 0, writers: 0 });
        let Some(ValueRef::Int64(id)) = listed[0].get("opid") else { panic!("{listed:?}") };
        assert!(listed[0].get("progress").is_none());
        slot.set_progress("Copying", 1, 3);
        let listed = operations.list("h", false);
        assert!(matches!(listed[0].get("msg"), Some(ValueRef::String("Copying: 1/3 33%"))));
        assert!(matches!(listed[0].get("progress"), Some(ValueRef::Document(_))));
        assert!(!operations.kill(id as u64 + 1) && !killed.load(Ordering::Relaxed));
        assert!(operations.kill(id as u64) && killed.load(Ordering::Relaxed));
        slot.end();
        assert!(!operations.kill(id as u64));
        assert_eq!(operations.running(), Running::default());
        let next = begin(&slot, &DocBuf::new().with("find", "c"));
        assert!(!next.load(Ordering::Relaxed), "the next operation is another one");
        assert_eq!(operations.kill_session(SESSION), 1);
        let keyed = begin(&slot, &DocBuf::new().with("find", "c"));
        assert_eq!((operations.kill_keys(&[Uuid::nil()]), operations.kill_keys(&[KEY])), (0, 1));
        assert!(keyed.load(Ordering::Relaxed));
        let left = begin(&slot, &DocBuf::new().with("find", "c"));
        assert_eq!(operations.kill_abandoned(Duration::from_secs(3600), |_| true), 0);
        assert_eq!(operations.kill_abandoned(Duration::ZERO, |connection| connection != 3), 0);
        assert_eq!(operations.kill_abandoned(Duration::ZERO, |connection| connection == 3), 1);
        assert!(left.load(Ordering::Relaxed));
        operations.close(3);
        assert_eq!(operations.list("h", true).len(), 0);
    }

    #[test]
    fn large_commands_are_cut() {
        let operations = Operations::default();
        let slot = operations.open(1, About::default());
        let large = DocBuf::new().with("insert", "c").with("x", &"y".repeat(SHOWN_BYTES_MAX));
        begin(&slot, &large);
        let listed = operations.list("h", false);
        assert!(matches!(listed[0].get("command"), Some(ValueRef::Document(doc)) if doc.get("$truncated").is_some()));
    }
}
