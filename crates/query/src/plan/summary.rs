//! The plans of the statement that this thread runs, in a line as the slow query log and the profiler show them: `planSummary`.
//!
//! A plan is noted as it begins, which costs little; the line is made only for a statement that is shown.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use arbor_base::work;
use arbor_bson::DocBuf;
use arbor_lang::{Code, text};
use arbor_store::{Collection, Index};

use crate::operator::Timed;

use super::access::{Access, IndexAccess, Solution};
use super::index_shape::IndexSource;
use super::query::Query;
use super::shape::ShapeHash;
use crate::{Error, Result};

/// Plans noted of one statement; `$lookup` may run more.
const NOTED_MAX: usize = 16;

#[derive(Clone)]
enum Noted {
    Stage(&'static str),
    Index(&'static str, Arc<Index>),
}

thread_local! {
    /// The last batch is to be described, see [`describe_execution`].
    static DESCRIBES: Cell<bool> = const { Cell::new(false) };
    static SCANS_FORBIDDEN: Cell<bool> = const { Cell::new(false) };
    static TIMED: RefCell<Option<Timed>> = const { RefCell::new(None) };
    static EXECUTION: RefCell<Option<DocBuf>> = const { RefCell::new(None) };
}

thread_local! {
    static NOTED: RefCell<Vec<Noted>> = const { RefCell::new(Vec::new()) };
    /// The query of a pipeline, for its shape.
    static QUERY: Cell<Option<Box<Query>>> = const { Cell::new(None) };
}

/// The plans of a cursor, for its later batches.
#[derive(Clone, Default)]
pub struct Summary(Vec<Noted>);

/// Begins a statement.
pub fn begin() {
    NOTED.with_borrow_mut(Vec::clear);
    DESCRIBES.set(false);
    EXECUTION.set(None);
    TIMED.set(None);
    QUERY.set(None);
}

/// Ends a statement: a long filter is not kept until the thread's next one.
pub fn end() {
    QUERY.set(None);
}

/// Keeps the query below a pipeline's stages.
pub fn note_query(query: Query) {
    QUERY.set(Some(Box::new(query)));
}

/// Returns the hash of the query that was kept.
pub fn shape() -> Option<ShapeHash> {
    let query = QUERY.take()?;
    let shape = ShapeHash::of(&query);
    QUERY.set(Some(query));
    Some(shape)
}

/// Refuses scans of whole collections by this statement (`notablescan`).
pub fn forbid_scans(forbid: bool) {
    SCANS_FORBIDDEN.set(forbid);
}

/// Errors: the statement may scan no collection. COMPAT: as in MongoDB, a query without conditions may, and one of the server's own
/// collections.
pub fn check_scan(collection: &Collection, query: &Query) -> Result<()> {
    let namespace = &collection.namespace;
    let may = query.filter.matches_everything() || namespace.is_system() || namespace.db() == "local";
    if may || query.hint.is_some() || !SCANS_FORBIDDEN.get() {
        return Ok(());
    }
    let message = format!(
        "error processing query: ns={namespace}: planner returned error :: caused by :: No indexed plans available, and running \
         with 'notablescan'"
    );
    Err(Error::new(Code::NO_QUERY_EXECUTION_PLANS, message))
}

/// Asks for the stages of the statement's batch with what they did.
pub fn describe_execution() {
    DESCRIBES.set(true);
    TIMED.set(Some(Timed::begin()));
}

/// Keeps the stages of a batch if they are asked for.
pub fn note_execution(stages: impl FnOnce() -> DocBuf) {
    if DESCRIBES.get() {
        EXECUTION.set(Some(stages()));
    }
}

/// Returns the stages that were kept.
pub fn take_execution() -> Option<DocBuf> {
    EXECUTION.take()
}

pub fn note_stage(stage: &'static str) {
    note(Noted::Stage(stage));
}

pub fn note_plan(collection: &Collection, solution: &Solution) {
    if solution.sorts {
        work::note(|work| work.sorted = true);
    }
    match &solution.access {
        Access::Nothing => note_stage("EOF"),
        Access::Record { .. } => note_stage("IDHACK"),
        Access::Collection(_) => {
            work::note(|work| work.collection_scans += 1);
            note_stage("COLLSCAN");
        }
        Access::Index(access) => note_index("IXSCAN", collection, access),
        Access::Or(branches) => {
            branches.iter().for_each(|branch| note_index("IXSCAN", collection, &branch.access));
        }
        Access::Merge(merge) => merge.scans.iter().for_each(|access| note_index("IXSCAN", collection, access)),
        Access::Near(_) => note_stage("GEO_NEAR"),
        Access::Text(_) | Access::TextOr(..) => note_stage("TEXT_MATCH"),
    }
}

pub fn note_index(stage: &'static str, collection: &Collection, access: &IndexAccess) {
    match access.shape.source {
        IndexSource::Records => note_stage("CLUSTERED_IXSCAN"),
        IndexSource::Natural => note_stage("COLLSCAN"),
        IndexSource::Secondary(at) => {
            collection.indexes.get(at).into_iter().for_each(|index| note(Noted::Index(stage, index.clone())));
        }
    }
}

fn note(plan: Noted) {
    NOTED.with_borrow_mut(|noted| {
        if noted.len() < NOTED_MAX {
            noted.push(plan);
        }
    });
}

impl Summary {
    /// Returns the plans that were noted since the statement began.
    pub fn noted() -> Summary {
        Summary(NOTED.with_borrow(Vec::clone))
    }

    /// Notes the plans again, for a statement that continues with them.
    pub fn note_again(&self) {
        self.0.iter().cloned().for_each(note);
    }
}

/// Returns the line for the statement. None: it had no plan.
pub fn line() -> Option<String> {
    NOTED.with_borrow(|noted| {
        let mut parts: Vec<String> = Vec::new();
        for plan in noted {
            let part = match plan {
                Noted::Stage(stage) => (*stage).to_owned(),
                Noted::Index(stage, index) => format!("{stage} {}", text::shell((&index.key).into())),
            };
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    })
}
