//! Collections of other servers, which stages of a pipeline read by name.
//!
//! E1: what is sent along (the first `$match`es) may let more documents pass than the stages do, never fewer; the stages run here, on all
//! documents that come.

use std::sync::Arc;

use arbor_bson::{Array, ArrayBuf, DocBuf, Value, ValueRef};
use arbor_lang::Context;
use arbor_store::Namespace;

use crate::Result;
use crate::operator::Rows;
use crate::stage_spec::only_field;

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
        ElsewhereSource { collection: self.clone(), stages: sent, variables: variables.unwrap_or_default() }
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
}

impl ElsewhereSource {
    pub(crate) fn rows(&self) -> Box<dyn Rows> {
        self.collection.servers.open(&self.collection.namespace, self.stages.clone(), self.variables.clone())
    }
}
