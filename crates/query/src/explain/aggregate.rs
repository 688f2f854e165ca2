//! Explaining a pipeline.

use arbor_bson::DocBuf;

use super::Explainer;
use crate::{AggregateSpec, Result};

pub fn explain(_explainer: &Explainer<'_>, _spec: &AggregateSpec<'_>) -> Result<DocBuf> {
    Err(arbor_lang::Error::not_implemented("explain of a pipeline").into())
}
