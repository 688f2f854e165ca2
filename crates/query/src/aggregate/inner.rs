//! A pipeline inside another one: over a collection of its own, or over documents that the command brings along.

use std::collections::VecDeque;
use std::sync::Arc;

use arbor_bson::{Array, ArrayBuf, ValueRef};
use arbor_lang::{Code, Filter};
use arbor_store::{Collection, Namespace};
use arbor_txn::View;

use super::pipeline::Pipeline;
use super::surroundings::Surroundings;
use crate::foreign::Foreign;
use crate::operator::{Documents, Eof, Operator, Remote, Row, Run};
use crate::plan::{self, Decision, Slots};
use crate::{Error, Result, Settings};

/// Pipelines inside pipelines.
const DEPTH_MAX: usize = 20;
/// Rows and bytes that are read ahead, so that the cursors of the inner pipeline are not opened for each row.
const AHEAD_ROWS: usize = 128;
const AHEAD_BYTES: usize = 1 << 20;

#[derive(Clone)]
pub(crate) struct Inner {
    /// None: it does not exist, or the pipeline makes its own documents.
    pub collection: Option<Arc<Collection>>,
    pub pipeline: Pipeline,
}

impl Inner {
    /// Over a collection of the same database; without one the pipeline must begin with `$documents`.
    pub(crate) fn parse(
        stage: &'static str,
        from: Option<&str>,
        stages: Array<'_>,
        around: &Surroundings<'_>,
    ) -> Result<Inner> {
        check_depth(around)?;
        let Foreign { collection, elsewhere, stages: view } = match from {
            Some(from) => Foreign::of(around.names, &Namespace::new(around.db, from)?, &around.context.collation)?,
            None => Foreign::none(),
        };
        let every = Filter::everything(&around.context.collation);
        let around = &around.inside(stage);
        let pipeline = match elsewhere {
            Some(elsewhere) => {
                let filter = (every, None);
                Pipeline::parse_elsewhere(&elsewhere, view.as_array(), filter, stages, around)?
            }
            None => Pipeline::parse_inner(view.as_array(), every, stages, around)?,
        };
        if from.is_none() && pipeline.documents.is_none() {
            let message = format!(
                "{stage} stage without explicit collection must have a pipeline with $documents as first stage"
            );
            return Err(Error::new(Code::FAILED_TO_PARSE, message));
        }
        Ok(Inner { collection, pipeline })
    }

    pub(crate) fn open(&self, view: &dyn View, settings: &Settings) -> Result<InnerRows> {
        InnerRows::open(self.pipeline.clone(), self.collection.clone(), view, settings)
    }
}

pub(super) fn check_depth(around: &Surroundings<'_>) -> Result<()> {
    if around.depth < DEPTH_MAX {
        return Ok(());
    }
    let message = format!("Maximum number of nested sub-pipelines exceeded. Limit is {DEPTH_MAX}");
    Err(Error::new(Code::MAX_SUB_PIPELINE_DEPTH_EXCEEDED, message))
}

/// Returns true if a pipeline brings its own documents.
pub(super) fn documents_first(stages: Array<'_>) -> bool {
    matches!(stages.get(0), Some(ValueRef::Document(stage)) if stage.first().is_some_and(|(name, _)| name == "$documents"))
}

/// The rows of an inner pipeline. Between two calls it borrows nothing from the run around it (see O1 of the operators).
pub(crate) struct InnerRows {
    root: Box<dyn Operator>,
    collection: Option<Arc<Collection>>,
    slots: usize,
    ready: VecDeque<Row>,
    ended: bool,
}

impl InnerRows {
    pub(crate) fn open(
        pipeline: Pipeline,
        collection: Option<Arc<Collection>>,
        view: &dyn View,
        settings: &Settings,
    ) -> Result<InnerRows> {
        let mut slots = Slots::default();
        let source: Box<dyn Operator> = match (&pipeline.documents, &pipeline.elsewhere, &collection) {
            (Some(documents), ..) => Box::new(Documents::new(documents.clone())),
            (None, Some(elsewhere), _) => Box::new(Remote::of_elsewhere(elsewhere)),
            (None, None, None) => Box::new(Eof::default()),
            (None, None, Some(collection)) => {
                let decision = Decision::untried(plan::plan(view, collection, &pipeline.query)?);
                pipeline.note_use(collection, &decision.winner);
                pipeline.source(settings, decision, &mut slots)
            }
        };
        let root = pipeline.above(source, settings);
        Ok(InnerRows { root, collection, slots: slots.count(), ready: VecDeque::new(), ended: false })
    }

    /// Returns the rows of an operator with `slots` leaves.
    pub(crate) fn over(root: Box<dyn Operator>, collection: Arc<Collection>, slots: usize) -> InnerRows {
        InnerRows { root, collection: Some(collection), slots, ready: VecDeque::new(), ended: false }
    }

    pub(crate) fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        if self.ready.is_empty() && !self.ended {
            self.read_ahead(run)?;
        }
        Ok(self.ready.pop_front())
    }

    fn read_ahead(&mut self, run: &mut Run<'_>) -> Result<()> {
        let mut inner = Run::new(run.view, self.collection.as_deref(), run.interrupt, self.slots);
        let mut bytes = 0;
        while self.ready.len() < AHEAD_ROWS && bytes < AHEAD_BYTES {
            let Some(row) = self.root.next(&mut inner)? else {
                self.ended = true;
                break;
            };
            bytes += row.document.as_bytes().len();
            self.ready.push_back(row);
        }
        if !self.ended {
            self.root.suspend(&mut inner);
        }
        run.take_examined(&mut inner);
        Ok(())
    }

    /// All rows at once, up to `bytes_max`. None: there are more.
    pub(crate) fn all(mut self, run: &mut Run<'_>, bytes_max: usize) -> Result<Option<ArrayBuf>> {
        let mut found = ArrayBuf::new();
        let mut inner = Run::new(run.view, self.collection.as_deref(), run.interrupt, self.slots);
        while let Some(row) = self.root.next(&mut inner)? {
            found.push(&row.document);
            if found.as_array().as_bytes().len() > bytes_max {
                return Ok(None);
            }
        }
        run.take_examined(&mut inner);
        Ok(Some(found))
    }
}
