//! Explaining a pipeline: as a query when one does all of it, else as a list of stages.

use arbor_bson::{ArrayBuf, DocBuf};

use super::{Explainer, Shape};
use crate::aggregate::Pipeline;
use crate::{AggregateSpec, Result};

pub fn explain(explainer: &Explainer<'_>, spec: &AggregateSpec<'_>) -> Result<DocBuf> {
    let pipeline = Pipeline::parse(explainer.database, spec)?;
    if pipeline.is_query() {
        return explainer.whole(&spec.namespace, &pipeline.query, &Shape::Rows);
    }
    if pipeline.documents.is_some() {
        let stages: ArrayBuf = spec.pipeline.iter().collect();
        return Ok(DocBuf::new().with("explainVersion", "1").with("stages", &stages));
    }
    let cursor = explainer.sections(&spec.namespace, &pipeline.query, &Shape::Rows)?;
    let mut stages = ArrayBuf::new();
    stages.push(&DocBuf::new().with("$cursor", &cursor));
    for stage in spec.pipeline.iter().skip(pipeline.pushed) {
        stages.push(stage);
    }
    Ok(DocBuf::new().with("explainVersion", "1").with("stages", &stages))
}
