//! Documents in collections of `arbor-store`: the rows, index entries and counters that a server writes, and a catalogue that changes.
//!
//! A change of the catalogue waits for the set inside a call, so it runs in a thread of its own. Only one thread of a member runs at any
//! time: the simulation continues when the change has ended, or waits for its commit, for members that fetch a tree, or for writers.
//!
//! Builds of indexes and changes of engines fill trees past the log, if a collection has more than [`IN_TRANSACTION_BYTES`]. Writers go
//! on until the other members have the trees; then they are kept out, so that the end of the change depends on no time limit ([`Gate`]).
//!
//! Besides the checks of `txn_data`:
//! - S1: the catalogue in memory is that of the rows, on members that lead and that follow; readers expect the arrays that indexes have;
//! - S2: a document is what its last write made of it;
//! - S3: a collection has as many documents as it counts, and its indexes agree with them;
//! - S4: a change of the catalogue ends with its commit, or with the term.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arbor_base::{Position, TreeId};
use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_lang::update::Update;
use arbor_lang::{Collation, Context};
use arbor_store::{
    BuildSettings, CollectionGuard, EngineNames, Error, IndexSelection, Namespace, Phase, Store, StoreOptions,
    TreeDefaults, UpdateKind, ViewDefinition, Watch, count, insert, record, update, update_unread,
};
use arbor_txn::{Error as TxnError, ReadView, Transaction, Transactions, View};
use parking_lot::{Condvar, Mutex};

use crate::data::Written;
use crate::operation::{Documents, KEYS, Operation};
use crate::plan::Defect;
use crate::rows::{Begun, Rows};
use crate::txn_data::ENGINES;
use crate::world::SESSIONS;

/// The documents, by their key.
const OF_KEYS: [&str; 2] = ["c0", "c1"];
const CAPPED: &str = "log";
/// Is there, or has the second name, or is not there.
const OTHER: [&str; 2] = ["other", "renamed"];
const VIEW: &str = "view";

const CAPPED_MAX: i32 = 5;

/// Two or three small documents.
const IN_TRANSACTION_BYTES: u64 = 60;

/// A collection and its indexes are compared after this many changes of the shown state, and after a change of the catalogue.
const VALIDATED_EVERY: u64 = 32;

pub(crate) struct Collections {
    transactions: Arc<Transactions>,
    store: Arc<Store>,
    /// The store has taken over in this term.
    leads: bool,
    requested: Option<Change>,
    under_way: Option<UnderWay>,
    /// Builds that an earlier leader began were asked for in this term.
    built_again: bool,
    done: u64,
}

struct UnderWay {
    change: Change,
    gate: Arc<Gate>,
    thread: JoinHandle<Result<(), Error>>,
}

/// The place at which a long change waits until no write is in flight.
#[derive(Default)]
struct Gate {
    state: Mutex<Passing>,
    opened: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Passing {
    /// It has the latch of its collection, or is about to.
    #[default]
    Alone,
    AlongsideWriters,
    Waiting,
    Opened,
    /// The term or the process has ended.
    Ended,
}

impl Gate {
    fn is(&self, passing: Passing) -> bool {
        *self.state.lock() == passing
    }

    fn pass(&self, passing: Passing) {
        let mut state = self.state.lock();
        if *state != Passing::Ended {
            *state = passing;
        }
        self.opened.notify_all();
    }
}

impl Watch for Gate {
    fn is_stopped(&self) -> bool {
        self.is(Passing::Ended)
    }

    fn progress(&self, phase: Phase, _: u64, _: u64) {
        let mut state = self.state.lock();
        match (phase, *state) {
            (Phase::AwaitingMembers, Passing::Alone) => *state = Passing::AlongsideWriters,
            (Phase::CatchingUp, Passing::AlongsideWriters) => {
                *state = Passing::Waiting;
                self.opened.wait_while(&mut state, |state| *state == Passing::Waiting);
            }
            _ => {}
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The first steps of a new leader.
    Lead,
    /// Creates collections that are missing.
    Create,
    CreateIndex {
        of: &'static str,
        unique: bool,
    },
    DropIndex {
        of: &'static str,
        unique: bool,
    },
    CreateOrDrop,
    Rename,
    View,
    Options,
    /// Moves a collection to the engine that it is not on.
    Engine {
        of: &'static str,
    },
    /// Builds that an earlier leader began.
    BuildAgain,
}

impl Change {
    fn chosen(choice: u64) -> Change {
        let of = if choice & 1 == 0 { "c0" } else { "c1" };
        let unique = choice & 2 == 0;
        match choice / 4 % 10 {
            0..=2 => Change::CreateIndex { of, unique },
            3 => Change::DropIndex { of, unique },
            4 => Change::CreateOrDrop,
            5 => Change::Rename,
            6 => Change::View,
            7 => Change::Options,
            8 => Change::Engine { of },
            _ => Change::Engine { of: if unique { OTHER[0] } else { CAPPED } },
        }
    }

    /// Returns true if it waits for the writers of a collection, and keeps new ones out.
    fn excludes(self, name: &str) -> bool {
        match self {
            Change::CreateIndex { of, .. } | Change::DropIndex { of, .. } | Change::Engine { of } => of == name,
            Change::BuildAgain => OF_KEYS.contains(&name),
            Change::CreateOrDrop | Change::Rename | Change::Options => OTHER.contains(&name),
            Change::Lead | Change::Create => true,
            Change::View => false,
        }
    }

    fn run(self, store: &Store, gate: &Gate) -> Result<(), Error> {
        let settings = BuildSettings { memory_bytes: 1 << 20, watch: gate };
        let there = OTHER.into_iter().find(|name| store.collection(&named(name)).is_some());
        match self {
            Change::Lead => store.lead(),
            Change::Create => {
                let capped =
                    DocBuf::new().with("capped", true).with("size", 100_000i64).with("max", i64::from(CAPPED_MAX));
                // An earlier term may have made some of them.
                let all = OF_KEYS.iter().map(|name| (*name, DocBuf::new())).chain([(CAPPED, capped)]);
                all.filter(|(name, _)| store.collection(&named(name)).is_none())
                    .try_for_each(|(name, options)| store.create_collection(&named(name), &options).map(drop))
            }
            Change::CreateIndex { of, unique } => store.build_indexes(&named(of), &[index(unique)], settings).map(drop),
            Change::DropIndex { of, unique } => {
                let name = index_name(unique).to_owned();
                match store.collection(&named(of)).is_some_and(|own| own.index(&name).is_some()) {
                    true => store.drop_indexes(&named(of), &IndexSelection::Names(vec![name])).map(drop),
                    false => Ok(()),
                }
            }
            Change::CreateOrDrop => match there {
                Some(name) => store.drop_collection(&named(name)).map(drop),
                None => store.create_collection(&named(OTHER[0]), &DocBuf::new()).map(drop),
            },
            Change::Rename => {
                let to = if there == Some(OTHER[0]) { OTHER[1] } else { OTHER[0] };
                there.map_or(Ok(()), |from| store.rename(&named(from), &named(to), false))
            }
            Change::View => match store.drop_view(&named(VIEW))? {
                true => Ok(()),
                false => store.create_view(view()).map(drop),
            },
            Change::Options => there.map_or(Ok(()), |name| {
                let own = store.collection(&named(name)).map(|own| own.options.get("validationLevel").is_some());
                let options = match own {
                    Some(true) => DocBuf::new(),
                    _ => DocBuf::new().with("validationLevel", "off"),
                };
                store.set_options(&named(name), &options)
            }),
            Change::Engine { of } => store.collection(&named(of)).map_or(Ok(()), |own| {
                let other = ENGINES.into_iter().find(|name| **name != *own.engine).expect("there are two");
                store.change_engine(&named(of), &DocBuf::new().with(other, &DocBuf::new()), gate).map(drop)
            }),
            Change::BuildAgain => {
                let builds = store.unfinished_builds();
                builds.iter().try_for_each(|build| store.build_again(build, settings).map(drop))
            }
        }
    }
}

fn named(collection: &str) -> Namespace {
    Namespace::new("d", collection).expect("names are valid")
}

fn index_name(unique: bool) -> &'static str {
    if unique { "v_1" } else { "a_1" }
}

fn index(unique: bool) -> DocBuf {
    let field = if unique { "v" } else { "a" };
    let spec = DocBuf::new().with("key", &DocBuf::new().with(field, 1i32)).with("name", index_name(unique));
    if unique { spec.with("unique", true) } else { spec }
}

fn view() -> ViewDefinition {
    let (namespace, view_on) = (named(VIEW), named(OF_KEYS[0]));
    ViewDefinition { namespace, view_on, pipeline: ArrayBuf::new(), collation: Collation::simple() }
}

/// The document of a key, which follows from the value alone.
fn document(key: u64, value: u64) -> DocBuf {
    let choice = value / SESSIONS;
    let doc = DocBuf::new().with("_id", key as i64).with("v", value as i64);
    let doc = match choice % 5 {
        0 => {
            let array: ArrayBuf = (0..3).map(|n| ValueRef::Int64((choice % 7 + n) as i64)).collect();
            doc.with("a", &array)
        }
        _ => doc.with("a", (choice % 7) as i64),
    };
    match choice % 16 {
        // A chain of several records
        0 | 7 => doc.with("filler", "x".repeat(3 * Collections::RECORD_BYTES).as_str()),
        _ => doc,
    }
}

fn value_of(doc: Doc<'_>) -> u64 {
    match doc.get("v") {
        Some(ValueRef::Int64(value)) => value as u64,
        other => panic!("S2: a document with {other:?}"),
    }
}

fn of_key(key: u64) -> &'static str {
    OF_KEYS[(key % 2) as usize]
}

impl Collections {
    fn start(&mut self, change: Change) {
        assert!(self.under_way.is_none(), "one change at a time");
        let (store, gate) = (self.store.clone(), Arc::<Gate>::default());
        let watch = gate.clone();
        let thread = std::thread::spawn(move || change.run(&store, &watch));
        self.under_way = Some(UnderWay { change, gate, thread });
        self.wait(false);
    }

    /// Returns once the change under way has ended, or waits for what the simulation has to do, which it no longer may if its term
    /// `has_ended`.
    fn wait(&mut self, has_ended: bool) {
        let Some(UnderWay { change, gate, thread }) = &self.under_way else { return };
        if has_ended {
            gate.pass(Passing::Ended);
        }
        let begun = Instant::now();
        while !thread.is_finished() {
            let loads = self.transactions.loads();
            if !has_ended && (self.transactions.waiting() > 0 || loads.are_awaited() || gate.is(Passing::Waiting)) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "S4: {change:?} does not end, nor wait for the set");
            std::thread::yield_now();
        }
        let Some(UnderWay { change, thread, .. }) = self.under_way.take() else { return };
        match thread.join().unwrap_or_else(|panic| resume_unwind(panic)) {
            Ok(()) => {
                self.done += 1;
                self.leads |= change == Change::Lead;
            }
            Err(Error::Txn(error)) if is_refusal(&error) => {}
            Err(Error::Interrupted) if has_ended => {}
            // A build that began too often
            Err(Error::IndexBuildAborted { .. }) if change == Change::BuildAgain => {}
            Err(error) => panic!("S4: {change:?}: {error}"),
        }
    }

    fn is_kept_out(&self, name: &str) -> bool {
        let at_work = |own: &UnderWay| (!own.gate.is(Passing::AlongsideWriters)).then_some(own.change);
        if self.under_way.as_ref().is_some_and(|own| own.gate.is(Passing::Waiting)) {
            return true;
        }
        let under_way = self.under_way.as_ref().and_then(at_work);
        under_way.into_iter().chain(self.requested).any(|change| change.excludes(name))
    }

    /// Holds a collection for a write, as a statement does. `Err`: a change keeps writers out.
    fn hold(&self, name: &str) -> Result<Option<CollectionGuard>, Written> {
        if self.is_kept_out(name) {
            return Err(Written::Refused);
        }
        Ok(self.store.hold(&named(name)))
    }

    fn write(
        &self,
        txn: &mut Transaction,
        own: &CollectionGuard,
        (key, value): (u64, u64),
        held: &mut Vec<CollectionGuard>,
    ) -> Result<(), Written> {
        let id_key = own.id_key(ValueRef::Int64(key as i64));
        let new = document(key, value);
        // The last step of a change may be a chain too, and one keeps out the other.
        if self.under_way.is_some() && new.as_bytes().len() > Self::RECORD_BYTES {
            return Err(Written::Refused);
        }
        put(txn, own, &id_key, &new)?;
        let choice = value / SESSIONS;
        if choice % 4 == 1
            && let Some(capped) = self.hold(CAPPED)?
        {
            let entry = DocBuf::new().with("_id", value as i64);
            insert(txn, &capped, entry.as_doc()).map_err(refused)?;
            held.push(capped);
        }
        for name in OTHER.into_iter().filter(|_| choice % 8 == 2) {
            if let Some(other) = self.hold(name)? {
                let id = (value % 5) as i64;
                let doc = DocBuf::new().with("_id", id).with("v", value as i64);
                put(txn, &other, &other.id_key(ValueRef::Int64(id)), &doc)?;
                held.push(other);
            }
        }
        for name in OTHER.into_iter().filter(|_| choice % 8 > 4) {
            if let Some(other) = self.hold(name)? {
                let id = (value % 7) as i64;
                set_unread(txn, &other, id, value as i64)?;
                held.push(other);
            }
        }
        Ok(())
    }

    /// S3
    fn validate(&self, name: &str) {
        let report = match self.store.validate(&named(name), true) {
            Err(Error::NamespaceNotFound(_)) => return,
            report => report.expect("the engine reads"),
        };
        assert!(report.is_valid(), "S3: {name}: {:?}", report.problems);
        let (own, view) = self.store.snapshot(&named(name)).expect("the engine reads").expect("it is there");
        let counted = count(&view, &own).expect("the engine reads");
        assert_eq!(counted, report.records, "S3: {name} counts its documents");
        assert!(name != CAPPED || counted <= CAPPED_MAX as u64, "S3: {counted} documents in the capped collection");
    }
}

fn put(txn: &mut Transaction, own: &CollectionGuard, id_key: &[u8], new: &DocBuf) -> Result<(), Written> {
    let old = record(txn, own, id_key).expect("the engine reads").map(|old| old.into_owned());
    let done = match &old {
        Some(old) => update(txn, own, Doc::trusted(old), new.as_doc(), UpdateKind::Update),
        None => insert(txn, own, new.as_doc()),
    };
    done.map_err(refused)
}

/// Sets a field of a document that may be there, without reading it where the leader's engine stores messages.
fn set_unread(txn: &mut Transaction, own: &CollectionGuard, id: i64, value: i64) -> Result<(), Written> {
    let (field, unset) = (DocBuf::new().with("unread", value), DocBuf::new().with("v", ""));
    let operators = DocBuf::new().with("$set", &field).with("$unset", &unset);
    let parsed = Update::parse((&operators).into(), &[], &Context::new(0)).expect("the operators are right");
    let id = ValueRef::Int64(id);
    if update_unread(txn, own, id, operators.as_doc(), &parsed).map_err(refused)? {
        arbor_base::sometimes!("sim: an update reads nothing");
        let shown = record(txn, own, &own.id_key(id)).expect("the engine reads");
        let is_set = |row: &[u8]| Doc::trusted(row).get("unread").is_some() && Doc::trusted(row).get("v").is_none();
        assert!(shown.is_none_or(|row| is_set(&row)), "a transaction sees its own message");
        return Ok(());
    }
    let id_key = own.id_key(id);
    let old = record(txn, own, &id_key).expect("the engine reads").map(|old| Doc::trusted(&old).to_buf());
    let Some(old) = old else { return Ok(()) };
    match parsed.apply(old.as_doc(), None).expect("the operators fit every document") {
        Some(new) => update(txn, own, old.as_doc(), new.as_doc(), UpdateKind::Update).map_err(refused),
        None => Ok(()),
    }
}

fn refused(error: Error) -> Written {
    match error {
        Error::Txn(error) if is_refusal(&error) => Written::Refused,
        error => panic!("a write failed: {error}"),
    }
}

/// Returns true if an error says nothing of the data.
fn is_refusal(error: &TxnError) -> bool {
    matches!(
        error,
        TxnError::Conflict
            | TxnError::OutOfSpace { .. }
            | TxnError::NotLeading
            | TxnError::Refused { .. }
            | TxnError::Unsettled { .. }
            | TxnError::CommittedNotApplied { .. }
    )
}

impl Rows for Collections {
    type Guards = Vec<CollectionGuard>;

    const HAVE_CATALOGUE: bool = true;

    const HAVE_TREES: bool = true;

    /// More than a change of the catalogue takes: a chain keeps other chains out until it is committed, and that wait would be the simulation's.
    const RECORD_BYTES: usize = 2_000;

    const NOTES: TreeId = TreeId(7);

    const TREES: &[TreeId] = &[];

    fn open(transactions: Arc<Transactions>, defect: Option<Defect>) -> Collections {
        let engines = ENGINES.map(|name| EngineNames { name, ..EngineNames::default() });
        let options = StoreOptions {
            build_in_transaction_bytes: IN_TRANSACTION_BYTES,
            trees: TreeDefaults { engines: engines.into(), default: ENGINES[0], home: ENGINES[0] },
            ..StoreOptions::default()
        };
        let store = Store::open(transactions.clone(), options).expect("the catalogue opens");
        let store = Arc::new(store);
        if defect != Some(Defect::CatalogueStale) {
            store.keep_in_step();
        }
        Collections { transactions, store, leads: false, requested: None, under_way: None, built_again: false, done: 0 }
    }

    fn is_ready(&mut self) -> bool {
        if self.under_way.is_some() {
            return self.leads;
        }
        if !self.leads {
            if self.transactions.is_leading() {
                self.start(Change::Lead);
            }
            return false;
        }
        let missing = OF_KEYS.iter().chain([&CAPPED]).any(|name| self.store.collection(&named(name)).is_none());
        if missing {
            self.start(Change::Create);
        }
        !missing
    }

    fn begin(&self, operation: Operation) -> Begun<Vec<CollectionGuard>> {
        let mut txn = self.transactions.begin().expect("the engine reads");
        txn.note(Self::NOTES, operation.encode());
        let (key, value) = match operation {
            Operation::Nothing | Operation::Loaded { .. } => return Ok((txn, Vec::new())),
            Operation::Put { key, value } | Operation::CompareAndSet { key, value, .. } => (key, value),
        };
        let own = self.hold(of_key(key))?.ok_or(Written::Refused)?;
        // As a statement does: the collection is held before the transaction begins.
        let mut txn = self.transactions.begin().expect("the engine reads");
        txn.note(Self::NOTES, operation.encode());
        if let Operation::CompareAndSet { expected, .. } = operation {
            let old = record(&txn, &own, &own.id_key(ValueRef::Int64(key as i64))).expect("the engine reads");
            if old.map_or(0, |old| value_of(Doc::trusted(&old))) != expected {
                return Err(Written::Never);
            }
        }
        let mut held = Vec::new();
        self.write(&mut txn, &own, (key, value), &mut held)?;
        held.push(own);
        Ok((txn, held))
    }

    fn documents(&self, view: &ReadView) -> Documents {
        let mut documents = Documents::default();
        for key in 0..KEYS {
            let found = self.store.snapshot(&named(of_key(key))).expect("the engine reads");
            let Some((own, seen)) = found else { continue };
            assert_eq!(seen.position(), view.position(), "readers see what is applied");
            let old = record(&seen, &own, &own.id_key(ValueRef::Int64(key as i64))).expect("the engine reads");
            let value = old.map_or(0, |old| {
                let value = value_of(Doc::trusted(&old));
                assert_eq!(old.as_ref(), document(key, value).as_bytes(), "S2: the document of {key}");
                value
            });
            documents.apply(Operation::Put { key, value });
        }
        documents
    }

    fn unfinished_trees(&self, view: &ReadView) -> Vec<TreeId> {
        self.store.unfinished_trees(view).expect("the catalogue reads")
    }

    fn check(&self, (position, shown): (Position, &Documents), _writes: &[i64; KEYS as usize]) {
        let view = self.transactions.read().expect("the engine reads");
        self.store.validate_in_step(&view);
        if position.0 % VALIDATED_EVERY == 0 {
            OF_KEYS.iter().chain([&CAPPED]).chain(&OTHER).for_each(|name| self.validate(name));
        }
        for name in OF_KEYS {
            let Some(own) = self.store.collection(&named(name)) else { continue };
            let written = (0..KEYS).filter(|key| of_key(*key) == name && shown.get(*key) != 0).count();
            let counted = count(&view, &own).expect("the engine reads");
            assert_eq!(counted, written as u64, "T3: the count of {name} at {position:?}");
        }
    }

    fn change(&mut self, choice: u64) {
        if self.leads && self.requested.is_none() {
            let begins_again = !self.built_again && !self.store.unfinished_builds().is_empty();
            self.built_again |= begins_again;
            self.requested = Some(if begins_again { Change::BuildAgain } else { Change::chosen(choice) });
        }
    }

    fn proceed<'h>(&mut self, held: impl Iterator<Item = &'h Vec<CollectionGuard>>) {
        self.wait(false);
        let mut names = held.flatten().map(|held| held.namespace.collection()).peekable();
        if let Some(under_way) = self.under_way.as_ref().filter(|own| own.gate.is(Passing::Waiting))
            && names.peek().is_none()
        {
            under_way.gate.pass(Passing::Opened);
            return self.wait(false);
        }
        let Some(change) = self.requested.filter(|_| self.under_way.is_none()) else { return };
        if !names.any(|name| change.excludes(name)) {
            self.requested = None;
            self.start(change);
        }
    }

    fn stop_leading(&mut self) {
        (self.requested, self.leads, self.built_again) = (None, false, false);
        self.wait(true);
        self.leads = false;
    }

    fn take_done(&mut self) -> u64 {
        std::mem::take(&mut self.done)
    }
}

/// The thread of a process that has ended.
impl Drop for Collections {
    fn drop(&mut self) {
        self.transactions.end_waits();
        if let Some(UnderWay { gate, thread, .. }) = self.under_way.take() {
            gate.pass(Passing::Ended);
            let _it_ends_with_an_error = thread.join();
        }
    }
}
