//! Stages that turn each document into one document.

use arbor_bson::DocBuf;

use super::geo_near::NearFields;
use super::replace_root::Replace;
use crate::projection::{Computed, Projection};
use crate::{Error, Input, Result};

/// A stage that turns each document into one document. Pipelines of updates consist of these.
#[derive(Clone, Debug)]
pub struct Map {
    name: &'static str,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Projection(Projection),
    AddFields(Computed),
    Replace(Replace),
    NearFields(NearFields),
}

impl Map {
    pub fn projection(name: &'static str, projection: Projection) -> Map {
        Map { name, kind: Kind::Projection(projection) }
    }

    pub fn add_fields(name: &'static str, fields: Computed) -> Map {
        Map { name, kind: Kind::AddFields(fields) }
    }

    pub fn replace(name: &'static str, replace: Replace) -> Map {
        Map { name, kind: Kind::Replace(replace) }
    }

    pub fn near_fields(fields: NearFields) -> Map {
        Map { name: "$geoNear", kind: Kind::NearFields(fields) }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn apply<'d>(&self, input: impl Into<Input<'d>>) -> Result<DocBuf> {
        let input = input.into();
        match &self.kind {
            Kind::Projection(projection) => projection.apply(input, None),
            Kind::AddFields(fields) => fields.apply(input.doc, input),
            Kind::Replace(replace) => replace.apply(input),
            Kind::NearFields(fields) => fields.apply(input),
        }
    }
}

/// An error inside a stage, as MongoDB words it.
pub(super) fn invalid(stage: &str, error: Error) -> Error {
    Error::new(error.code, format!("Invalid {stage} :: caused by :: {}", error.message))
}
