//! Collections of other servers, which stages of a pipeline read by name.
//!
//! E1: what is sent along (the first `$match`es) may let more documents pass than the stages do, never fewer; the stages run here, on all
//! documents that come.

use std::sync::Arc;

use arbor_bson::{Array, ArrayBuf, DocBuf, Value, ValueRef};
use arbor_lang::{Code, Context, MetaKind, Metadata};
use arbor_store::Namespace;

use crate::operator::Rows;
use crate::stage_spec::only_field;
use crate::{Error, Result};

/// The field in which other servers send the metadata of a document.
const METADATA: &str = "__arborMetadata";

/// Kinds of metadata that rows of other servers may have.
const KINDS: [MetaKind; 3] = [MetaKind::TextScore, MetaKind::GeoNearDistance, MetaKind::GeoNearPoint];

/// Returns the stage after which documents are sent with the metadata that `rest` reads, the last stages of a pipeline that begins
/// with `first`. None: it reads none, or there is none.
pub fn metadata_stage(first: Option<ValueRef<'_>>, rest: Array<'_>) -> Option<DocBuf> {
    let is_there = |kind: &MetaKind| match first.and_then(only_field) {
        Some(("$match", ValueRef::Document(filter))) => {
            *kind == MetaKind::TextScore && mentions(filter.as_bytes(), b"$text")
        }
        Some(("$geoNear", _)) => *kind != MetaKind::TextScore,
        _ => false,
    };
    let read = |kind: &MetaKind| is_there(kind) && arbor_lang::metadata::mentions(ValueRef::Array(rest), *kind);
    let mut metadata = DocBuf::new();
    for kind in KINDS.into_iter().filter(read) {
        metadata.append(kind.name(), &DocBuf::new().with("$meta", kind.name()));
    }
    let sent = DocBuf::new().with(METADATA, &metadata);
    (!metadata.as_doc().is_empty()).then(|| DocBuf::new().with("$addFields", &sent))
}

/// Splits a document that other servers have sent from its metadata.
pub(crate) fn with_metadata(sent: DocBuf) -> (DocBuf, Option<Metadata>) {
    match sent.get(METADATA) {
        Some(ValueRef::Document(values)) => {
            let metadata = Metadata::from_bytes(values.as_bytes().to_vec());
            (sent.as_doc().iter().filter(|(name, _)| *name != METADATA).collect(), Some(metadata))
        }
        _ => (sent, None),
    }
}

/// The other servers.
pub trait Elsewhere: Send + Sync {
    /// Returns the collection behind a name and, of a view that only this server can read, the stages over that collection.
    fn resolve(&self, namespace: &Namespace) -> Result<(Namespace, ArrayBuf)>;

    /// Returns the documents of a collection that pass these stages, with these variables. The other servers are asked when the first one
    /// is read.
    fn open(&self, namespace: &Namespace, stages: ArrayBuf, variables: DocBuf) -> Box<dyn Rows>;
}

/// One collection of other servers.
#[derive(Clone)]
pub(crate) struct ElsewhereCollection {
    servers: Arc<dyn Elsewhere>,
    pub namespace: Namespace,
}

impl ElsewhereCollection {
    /// Returns the collection with the stages of the view that it is read through.
    pub(crate) fn resolve(
        servers: &Arc<dyn Elsewhere>,
        namespace: &Namespace,
    ) -> Result<(ElsewhereCollection, ArrayBuf)> {
        let (namespace, stages) = servers.resolve(namespace)?;
        Ok((ElsewhereCollection { servers: servers.clone(), namespace }, stages))
    }

    /// Returns a source of what a search finds, which only the other servers can do: `first` is its stage. With scores, its rows have them.
    pub(crate) fn search(
        &self,
        first: ValueRef<'_>,
        joined: Option<DocBuf>,
        has_scores: bool,
        context: &Context,
    ) -> Result<ElsewhereSource> {
        let mut stages = ArrayBuf::new();
        stages.push(first);
        if let Some(joined) = joined {
            stages.push(&DocBuf::new().with("$match", &joined));
        }
        if has_scores {
            let score = DocBuf::new().with("$meta", MetaKind::TextScore.name());
            let metadata = DocBuf::new().with(MetaKind::TextScore.name(), &score);
            stages.push(&DocBuf::new().with("$addFields", &DocBuf::new().with(METADATA, &metadata)));
        }
        let mut variables = DocBuf::new();
        for (name, value) in context.variables.iter() {
            let used = matches!(first, ValueRef::Document(first) if mentions(first.as_bytes(), format!("$${name}").as_bytes()));
            match value {
                Some(value) => drop(variables.append(name, &DocBuf::new().with("$literal", value.as_ref()))),
                None if used => {
                    let text = format!("a search on other servers uses the variable {name}, which is missing");
                    return Err(Error::new(Code::NOT_IMPLEMENTED, text));
                }
                None => {}
            }
        }
        Ok(ElsewhereSource { collection: self.clone(), stages, variables, has_scores })
    }

    /// Returns a source of the documents that may pass `joined`, a filter, and the first of `stages`.
    pub(crate) fn source(&self, joined: Option<DocBuf>, stages: Array<'_>, context: &Context) -> ElsewhereSource {
        let mut sent = ArrayBuf::new();
        if let Some(joined) = joined {
            sent.push(&DocBuf::new().with("$match", &joined));
        }
        let mut variables = Some(DocBuf::new());
        for (name, value) in context.variables.iter() {
            match (value, &mut variables) {
                (Some(value), Some(all)) => {
                    all.append(name, &DocBuf::new().with("$literal", value.as_ref()));
                }
                // "missing" cannot be sent
                _ => variables = None,
            }
        }
        for stage in stages.iter() {
            let Some(("$match", ValueRef::Document(filter))) = only_field(stage) else { break };
            if !mentions(filter.as_bytes(), b"$$") || variables.is_some() && !mentions(filter.as_bytes(), b"$$NOW") {
                sent.push(stage);
            }
        }
        ElsewhereSource {
            collection: self.clone(),
            stages: sent,
            variables: variables.unwrap_or_default(),
            has_scores: false,
        }
    }
}

/// Returns the filter of documents with one of these values in a field.
pub(crate) fn one_of(path: &str, values: &[Value]) -> DocBuf {
    let values: ArrayBuf = values.iter().map(Value::as_ref).collect();
    DocBuf::new().with(path, &DocBuf::new().with("$in", &values))
}

fn mentions(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|some| some == text)
}

/// Documents of such a collection that are read.
#[derive(Clone)]
pub(crate) struct ElsewhereSource {
    collection: ElsewhereCollection,
    stages: ArrayBuf,
    variables: DocBuf,
    /// The documents come with metadata.
    pub has_scores: bool,
}

impl ElsewhereSource {
    pub(crate) fn rows(&self) -> Box<dyn Rows> {
        self.collection.servers.open(&self.collection.namespace, self.stages.clone(), self.variables.clone())
    }
}
