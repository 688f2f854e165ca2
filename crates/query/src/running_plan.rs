//! A tree of operators with its snapshot, which may be released while the cursor waits for its client.
//!
//! A view that is held may take memory that a writer needs. Then it is put aside while a client thinks, and the writer lets go of it once
//! much was written after it ([`Aside`]). R1: a statement with a promised state never continues with another one: a snapshot read ends
//! with SnapshotTooOld, a part of a transaction keeps its view. R2: every other read continues with the newest state, as MongoDB's reads
//! do after each batch, if its operators support that ([`Operator::can_change_snapshot`]), its collection and indexes still exist, and no
//! index has become multikey.

use std::sync::Arc;

use arbor_lang::Code;
use arbor_store::{Collection, Namespace, Store};
use arbor_txn::{Aside, ReadView, Transactions};

use crate::cursor::{Filler, RowSource};
use crate::operator::{Detail, Operator, Run};
use crate::plan::summary;
use crate::{Error, Interrupt, Result, Scope};

pub(crate) struct RunningPlan {
    pub view: ReadView,
    /// None: it does not exist.
    pub collection: Option<Arc<Collection>>,
    pub root: Box<dyn Operator>,
    /// Number of leaves.
    pub slots: usize,
    waiting: Waiting,
}

/// The handling of the view between two batches.
enum Waiting {
    /// The view is kept.
    Kept,
    /// The writer may release it.
    Releasable { transactions: Arc<Transactions>, aside: Option<Aside>, refresh: Option<Refresh> },
}

/// The parts needed to continue with another snapshot.
struct Refresh {
    store: Arc<Store>,
    /// Multikey components of the indexes when the plan was made.
    multikey: Vec<u64>,
}

impl RunningPlan {
    /// A plan that keeps its view for as long as it lives.
    pub(crate) fn new(
        view: ReadView,
        collection: Option<Arc<Collection>>,
        root: Box<dyn Operator>,
        slots: usize,
    ) -> RunningPlan {
        RunningPlan { view, collection, root, slots, waiting: Waiting::Kept }
    }

    /// Lets the writer release the view while the cursor is idle, if the scope of the statement allows that.
    pub(crate) fn releasable(mut self, scope: &Scope<'_>) -> RunningPlan {
        let refresh = scope
            .reads_now()
            .then(|| Refresh { store: scope.store.clone(), multikey: multikey_of(self.collection.as_deref()) });
        let keeps = scope.is_in_transaction() || refresh.is_some() && !self.root.can_change_snapshot();
        if !keeps {
            self.waiting = Waiting::Releasable { transactions: scope.transactions.clone(), aside: None, refresh };
        }
        self
    }

    pub(crate) fn run<'p>(&'p mut self, interrupt: &'p Interrupt) -> (Run<'p>, &'p mut dyn Operator) {
        let run = Run::new(&self.view, self.collection.as_deref(), interrupt, self.slots);
        (run, &mut *self.root)
    }

    /// Releases the view once the rest is in memory or in files of its own.
    fn release_if_read(&mut self) {
        if self.root.has_read_all() {
            self.view = self.view.released();
            self.waiting = Waiting::Kept;
        }
    }

    /// Called before each batch. Errors: the view was released, and the plan cannot use another one.
    fn resume(&mut self, namespace: &Namespace) -> Result<()> {
        let Waiting::Releasable { transactions, aside: at @ Some(_), refresh } = &mut self.waiting else {
            return Ok(());
        };
        if let Some(view) = at.as_ref().and_then(Aside::take) {
            self.view = view;
            return Ok(());
        }
        let Some(refresh) = refresh else { return Err(too_old(namespace)) };
        let view = transactions.read()?;
        if !refresh.fits(self.collection.as_deref(), &view) {
            let message =
                format!("collection or index of {namespace} dropped or changed, and the snapshot was released");
            return Err(Error::new(Code::QUERY_PLAN_KILLED, message));
        }
        // the next place starts with the age of this view
        (self.view, *at) = (view, None);
        Ok(())
    }
}

impl RowSource for RunningPlan {
    fn fill(&mut self, filler: &mut Filler, namespace: &Namespace, interrupt: &Interrupt) -> Result<bool> {
        self.resume(namespace)?;
        let (mut run, root) = self.run(interrupt);
        let ended = filler.fill(|| Ok(root.next(&mut run)?.map(|row| row.document)))?;
        let exhausted = ended || root.is_done();
        if !exhausted {
            root.suspend(&mut run);
        }
        summary::note_execution(|| root.explain(Detail::Execution));
        drop(run);
        self.release_if_read();
        Ok(exhausted)
    }

    fn may_block(&self) -> bool {
        true
    }

    fn has_end(&self) -> bool {
        true
    }

    fn rest(&mut self) {
        if let Waiting::Releasable { transactions, aside, .. } = &mut self.waiting {
            if aside.is_none() {
                *aside = transactions.aside();
            }
            aside.iter().for_each(|aside| aside.put(&mut self.view));
        }
    }
}

impl Refresh {
    fn fits(&self, collection: Option<&Collection>, view: &ReadView) -> bool {
        let Some(collection) = collection else { return true };
        let same = |now: Arc<Collection>| now.uuid == collection.uuid;
        self.store.collection(&collection.namespace).is_some_and(same)
            && collection.is_whole_in(view)
            && multikey_of(Some(collection)) == self.multikey
    }
}

fn multikey_of(collection: Option<&Collection>) -> Vec<u64> {
    let indexes = collection.iter().flat_map(|own| &own.indexes);
    indexes.flat_map(|index| (0..index.key_pattern.len()).map(|field| index.multikey_components(field))).collect()
}

fn too_old(namespace: &Namespace) -> Error {
    let message = format!("the state of {namespace} that the cursor reads was released: too much was written after it");
    Error::new(Code::SNAPSHOT_TOO_OLD, message)
}
