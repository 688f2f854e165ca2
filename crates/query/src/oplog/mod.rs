//! `local.oplog.rs`: the log as MongoDB's oplog, a read-only capped collection.
//!
//! Entries are made from the records when they are read; times find their place in the log by bisection, so a query that
//! bounds `ts` reads no more than it returns.
//!
//! | file | holds |
//! |---|---|
//! | `bounds.rs` | [`Bounds`]: what a filter says about `ts` |
//! | `scan.rs` | [`OplogScan`]: the entries within bounds, in either direction |
//! | `tail.rs` | [`OplogTail`]: the entries from a time on, and those that come later |

mod bounds;
mod scan;
mod tail;

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_lang::number;
use bounds::Bounds;
use scan::OplogScan;

pub use tail::OplogTail;

pub use crate::source::is_oplog;

use crate::aggregate::pipeline::Pipeline;
use crate::aggregate::written;
use crate::plan::Query;
use crate::running_plan::RunningPlan;
use crate::stage_spec::only_field;
use crate::view::ResolvedView;
use crate::{AggregateSpec, Cursor, Error, FindSpec, Interrupt, Result, Scope};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

/// Requires a namespace that [`is_oplog`].
pub fn find(scope: &Scope<'_>, spec: &FindSpec<'_>, query: Query, interrupt: &Interrupt) -> Result<Cursor> {
    let direction = direction(spec.sort)?;
    if spec.tailable {
        if direction == Some(Direction::Backward) || (direction.is_none() && spec.sort.is_some()) {
            return Err(Error::bad_value("cannot use tailable option with a sort other than {$natural: 1}"));
        }
        let bounds = Bounds::of(spec.filter);
        let tail = OplogTail::new(&scope.feed, bounds, query, spec.await_data)?;
        return Ok(Cursor::over_rows(spec.namespace.clone(), tail));
    }
    let hinted = match spec.hint {
        Some(crate::Hint::Pattern(pattern)) => self::direction(Some(pattern))?,
        _ => None,
    };
    let sort = spec.sort.filter(|_| direction.is_none());
    let inner = FindSpec { sort, show_record_id: false, return_key: false, ..spec.clone() };
    let stages = ResolvedView::plain(&spec.namespace).find_stages(&inner)?;
    let view = ResolvedView::plain(&spec.namespace);
    let behind = AggregateSpec {
        let_variables: spec.let_variables,
        collation: spec.collation.clone(),
        allow_disk_use: spec.allow_disk_use,
        ..view.spec(&stages)
    };
    let direction = direction.or(hinted).unwrap_or(Direction::Forward);
    directed(scope, &behind, direction, interrupt)
}

/// Requires a namespace that [`is_oplog`].
pub fn aggregate(scope: &Scope<'_>, spec: &AggregateSpec<'_>, interrupt: &Interrupt) -> Result<Cursor> {
    directed(scope, spec, Direction::Forward, interrupt)
}

fn directed(
    scope: &Scope<'_>,
    spec: &AggregateSpec<'_>,
    direction: Direction,
    interrupt: &Interrupt,
) -> Result<Cursor> {
    let pipeline = Pipeline::parse_whole(scope, spec)?;
    let sink = pipeline.sink.clone();
    let settings = scope.settings.with_disk_use(spec.allow_disk_use);
    let bounds = match spec.pipeline.get(0).and_then(only_field) {
        Some(("$match", ValueRef::Document(filter))) => Bounds::of(filter),
        _ => Bounds::default(),
    };
    let scan = OplogScan::new(&scope.feed, bounds, direction)?;
    let root = pipeline.above(Box::new(scan), &settings);
    let plan = RunningPlan::new(scope.transactions.read()?, None, root, 0).releasable(scope);
    written(scope, spec, sink, Cursor::over_rows(spec.namespace.clone(), plan), interrupt)
}

/// `{$natural: 1 | -1}`, alone.
fn direction(sort: Option<Doc<'_>>) -> Result<Option<Direction>> {
    let Some(("$natural", value)) = sort.and_then(|sort| sort.first()) else { return Ok(None) };
    match number::exact_i64(value) {
        Some(1) => Ok(Some(Direction::Forward)),
        Some(-1) => Ok(Some(Direction::Backward)),
        _ => Err(Error::bad_value("$natural sort must be 1 or -1")),
    }
}

/// The entries of a record; their term is its epoch.
fn entries(record: &arbor_txn::record::Record, epoch: u64) -> Result<Vec<DocBuf>> {
    arbor_oplog::entries(record, epoch as i64).map_err(crate::feed::damaged)
}
