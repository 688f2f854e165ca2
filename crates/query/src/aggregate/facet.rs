//! `$facet`: one document with the results of several pipelines over the same input, which is read once.

use arbor_base::memory::Class;
use arbor_bson::{Array, DocBuf, ValueRef};
use arbor_lang::{Code, field_path, text};

use super::pipeline::Pipeline;
use super::surroundings::Surroundings;
use crate::operator::{Run, Shared, SharedRows};
use crate::{Error, Result, Settings};

/// Bytes of the one document. It may exceed what a client is sent, since a later stage may take it apart.
const BYTES_MAX: usize = 100 * 1024 * 1024;

#[derive(Clone)]
pub(crate) struct Facet {
    outputs: Vec<(String, Pipeline)>,
}

impl Facet {
    pub(crate) fn parse(spec: ValueRef<'_>, around: &Surroundings<'_>) -> Result<Facet> {
        let fields = match spec {
            ValueRef::Document(fields) if !fields.is_empty() => fields,
            _ => {
                let found = text::field("$facet", spec);
                let message = format!("the $facet specification must be a non-empty object, but found: {found}");
                return Err(location(40169, message));
            }
        };
        let around = around.inside("$facet");
        let mut outputs = Vec::new();
        for (name, stages) in fields {
            field_path::check_name(name)?;
            if name.contains('.') {
                let message = "FieldPath field names may not contain '.'. Consider using $getField or $setField.";
                return Err(location(16412, message));
            }
            let ValueRef::Array(stages) = stages else {
                let found = text::type_name(Some(stages));
                return Err(location(40170, format!("arguments to $facet must be arrays, {name} is type {found}")));
            };
            check_elements(name, stages)?;
            outputs.push((name.to_owned(), Pipeline::parse_stages(stages, &around)?));
        }
        Ok(Facet { outputs })
    }

    /// The document, from the rows of the input.
    pub(crate) fn document(&self, input: &Shared, settings: &Settings, run: &mut Run<'_>) -> Result<DocBuf> {
        let mut document = DocBuf::new();
        let mut reservation = settings.budget.reservation(Class::Statement);
        for (name, pipeline) in &self.outputs {
            let mut found = arbor_bson::ArrayBuf::new();
            let mut root = pipeline.clone().above(Box::new(SharedRows::new(input.clone())), settings);
            while let Some(row) = root.next(run)? {
                found.push(&row.document);
                let bytes = document.as_bytes().len() + found.as_array().as_bytes().len();
                if bytes > BYTES_MAX {
                    let message = format!(
                        "document constructed by $facet is {bytes} bytes, which exceeds the limit of {BYTES_MAX} bytes"
                    );
                    return Err(location(4031700, message));
                }
                // the list is copied into the document
                if !reservation.try_cover(2 * bytes) {
                    let message = format!("$facet has no memory for a document of more than {bytes} bytes");
                    return Err(Error::new(Code::EXCEEDED_MEMORY_LIMIT, message));
                }
            }
            document.append(name, &found);
        }
        Ok(document)
    }
}

fn check_elements(name: &str, stages: Array<'_>) -> Result<()> {
    if stages.is_empty() {
        return Err(Error::new(Code::BAD_VALUE, "sub-pipeline in $facet stage cannot be empty"));
    }
    let bad = stages.iter().find(|stage| !matches!(stage, ValueRef::Document(stage) if !stage.is_empty()));
    match bad {
        None => Ok(()),
        Some(bad) => {
            let (found, shown) = (text::type_name(Some(bad)), text::shell(bad));
            let message = format!(
                "elements of arrays in $facet spec must be non-empty objects, {name} argument contained an element of \
                 type {found}: {shown}"
            );
            Err(location(40171, message))
        }
    }
}

fn location(code: i32, message: impl Into<String>) -> Error {
    Error::Lang(arbor_lang::Error::location(code, message))
}
