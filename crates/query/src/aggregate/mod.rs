//! Aggregation pipelines.
//!
//! The first stages, as far as a query can do them, become a planned query (indexes, order); the others are operators
//! above it.
//!
//! | file | holds |
//! |---|---|
//! | `pipeline.rs`, `step.rs` | a parsed pipeline |
//! | `surroundings.rs` | which stages are allowed where |
//! | `optimise.rs` | the stages in the order in which they run |
//! | `pushdown.rs` | which stages become part of the query |
//! | `scores.rs` | where `$text` and its score are allowed |
//! | `inner.rs` | pipelines inside others: over another collection, or over documents of the command |
//! | `lookup.rs`, `union_with.rs`, `facet.rs` | the stages that have such |
//! | `hash_join.rs` | `$lookup` without an index |
//! | `graph_lookup.rs` | `$graphLookup`: queries step by step |
//! | `sink.rs`, `out.rs`, `merge.rs`, `next_documents.rs` | the stages that write |

pub(crate) mod facet;
pub(crate) mod graph_lookup;
pub(crate) mod hash_join;
pub(crate) mod inner;
pub(crate) mod lookup;
mod merge;
mod next_documents;
mod optimise;
pub(crate) mod out;
pub(crate) mod pipeline;
mod pushdown;
mod scores;
mod sink;
pub(crate) mod step;
pub(crate) mod surroundings;
mod union_with;

use std::sync::Arc;

use arbor_bson::{DocBuf, ValueRef};
use arbor_lang::Code;

use crate::elsewhere::Elsewhere;
use crate::operator::{Documents, Eof, Operator, Remote, Rows};
use crate::plan::{Decider, Slots};
use crate::running_plan::RunningPlan;
use crate::source::Source;
use crate::{AggregateSpec, Cursor, Error, Interrupt, Result, Scope, oplog, stream};

pub use out::clone_as_capped;
use pipeline::Pipeline;
use sink::Sink;

/// The documents that come out of a pipeline. Over a collection that does not exist, what an empty one would give.
pub fn aggregate(scope: &Scope<'_>, spec: &AggregateSpec<'_>, interrupt: &Interrupt) -> Result<Cursor> {
    interrupt.check()?;
    if stream::is_change_stream(spec) {
        return stream::open(scope, spec);
    }
    let source = scope.source(&spec.namespace);
    match source {
        Source::Oplog => return oplog::aggregate(scope, spec, interrupt),
        Source::SystemViews => {
            let views = scope.store.list_views(spec.namespace.db());
            return aggregate_documents(scope, spec, views.iter().map(|view| view.document()).collect(), interrupt);
        }
        Source::Server => {
            let documents = scope.documents_of_server(&spec.namespace)?;
            return aggregate_documents(scope, spec, documents, interrupt);
        }
        _ => {}
    }
    if let Some(view) = source.as_view(&scope.store, &spec.namespace)? {
        let collation = Some(view.collation_for(&spec.namespace, spec.collation.as_ref())?);
        let stages = view.followed_by(spec.pipeline.iter());
        let namespace = view.namespace;
        let behind = AggregateSpec { namespace, collation, pipeline: stages.as_array(), ..spec.clone() };
        return Ok(aggregate(scope, &behind, interrupt)?.named(spec.namespace.clone()));
    }
    let pipeline = Pipeline::parse(scope, spec)?;
    let sink = pipeline.sink.clone();
    let plan = start(scope, spec, pipeline, false, interrupt)?;
    written(scope, spec, sink, Cursor::over_rows(spec.namespace.clone(), plan), interrupt)
}

/// The operators of a whole pipeline, without what writes its documents. `explained`: the plan cache stays as it is.
pub(crate) fn start(
    scope: &Scope<'_>,
    spec: &AggregateSpec<'_>,
    mut pipeline: Pipeline,
    explained: bool,
    interrupt: &Interrupt,
) -> Result<RunningPlan> {
    let settings = scope.settings.with_disk_use(spec.allow_disk_use);
    if let Some(documents) = &pipeline.documents {
        if !spec.collectionless {
            let message = "'$documents' can only be run with {aggregate: 1}";
            return Err(Error::new(Code::INVALID_NAMESPACE, message));
        }
        let source = Box::new(Documents::new(documents.clone()));
        let root = pipeline.above(source, &settings);
        return Ok(RunningPlan::new(scope.view()?, None, root, 0).releasable(scope));
    }
    if spec.collectionless {
        return Err(needs_collection(spec));
    }
    let mut slots = Slots::default();
    let (collection, view, source): (_, _, Box<dyn Operator>) = match scope.snapshot(&spec.namespace)? {
        None => {
            pipeline.query.needs_no_index(&spec.namespace)?;
            if pipeline.query.filter.near().is_some() {
                let message = format!("$geoNear requires a geo index to run, but {} does not exist", spec.namespace);
                return Err(Error::new(Code::NAMESPACE_NOT_FOUND, message));
            }
            (None, scope.view()?, Box::new(Eof::default()))
        }
        Some((collection, view)) => {
            pipeline.query = scope.constrained(&collection, &pipeline.query).into_owned();
            let decider = Decider::new(scope, &view, &collection, interrupt);
            let decision = pipeline.decide(&if explained { decider.without_cache() } else { decider }, &mut slots)?;
            if !explained {
                pipeline.note_use(&collection, &decision.winner);
            }
            let source = pipeline.source(&settings, decision, &mut slots);
            (Some(collection), view, source)
        }
    };
    let root = pipeline.above(source, &settings);
    Ok(RunningPlan::new(view, collection, root, slots.count()).releasable(scope))
}

/// A pipeline over documents of the caller: the output of a stage about the server (`$currentOp`, `$collStats`).
/// `spec.pipeline` holds the stages after that one.
pub fn aggregate_documents(
    scope: &Scope<'_>,
    spec: &AggregateSpec<'_>,
    documents: Vec<DocBuf>,
    interrupt: &Interrupt,
) -> Result<Cursor> {
    interrupt.check()?;
    let pipeline = Pipeline::parse_whole(scope, spec)?;
    let sink = pipeline.sink.clone();
    let settings = scope.settings.with_disk_use(spec.allow_disk_use);
    let root = pipeline.above(Box::new(Documents::new(documents)), &settings);
    let plan = RunningPlan::new(scope.view()?, None, root, 0).releasable(scope);
    written(scope, spec, sink, Cursor::over_rows(spec.namespace.clone(), plan), interrupt)
}

/// A pipeline over rows of other servers. `spec.pipeline` holds the stages that they have not gone through; it must not write. The collections
/// that stages name are on other servers too: `elsewhere`.
pub fn aggregate_rows(
    scope: &Scope<'_>,
    spec: &AggregateSpec<'_>,
    rows: Box<dyn Rows>,
    elsewhere: Option<Arc<dyn Elsewhere>>,
    interrupt: &Interrupt,
) -> Result<Cursor> {
    interrupt.check()?;
    let pipeline = Pipeline::parse_named(scope, spec, scope.names().reading(elsewhere))?;
    if pipeline.sink.is_some() {
        return Err(Error::internal("rows of other servers are not written here"));
    }
    let settings = scope.settings.with_disk_use(spec.allow_disk_use);
    let root = pipeline.above(Box::new(Remote::new(rows).scored()), &settings);
    let plan = RunningPlan::new(scope.view()?, None, root, 0).releasable(scope);
    Ok(Cursor::over_rows(spec.namespace.clone(), plan))
}

/// Refuses a pipeline that could not run over its collection as a whole, before other servers get parts of it.
pub fn check_pipeline(
    scope: &Scope<'_>,
    spec: &AggregateSpec<'_>,
    elsewhere: Option<Arc<dyn Elsewhere>>,
) -> Result<()> {
    Pipeline::check(scope, spec, &scope.names().reading(elsewhere))
}

/// Writes the documents where the pipeline says so; then there are none to return.
pub(crate) fn written(
    scope: &Scope<'_>,
    spec: &AggregateSpec<'_>,
    sink: Option<Sink>,
    cursor: Cursor,
    interrupt: &Interrupt,
) -> Result<Cursor> {
    let Some(sink) = sink else { return Ok(cursor) };
    let scope = scope.to_write();
    sink.write(&scope, cursor, spec.bypass_validation, interrupt)?;
    scope.make_durable(spec.durability)?;
    Ok(Cursor::over_documents(spec.namespace.clone(), []))
}

fn needs_collection(spec: &AggregateSpec<'_>) -> Error {
    let first = match spec.pipeline.get(0) {
        Some(ValueRef::Document(stage)) => stage.first().map(|(name, _)| name),
        _ => None,
    };
    let message = match first {
        Some(name) => format!("{{aggregate: 1}} is not valid for '{name}'; a collection is required."),
        None => "{aggregate: 1} is not valid for an empty pipeline.".to_owned(),
    };
    Error::new(Code::INVALID_NAMESPACE, message)
}
