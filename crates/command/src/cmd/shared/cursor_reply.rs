//! The cursor part of a reply, and the registration of what is not exhausted.

use arbor_bson::{DocBuf, ValueRef, Writer};
use arbor_lang::Collation;
use arbor_protocol::arguments::{Field, present};
use arbor_protocol::cluster_time::timestamp;
use arbor_query::{Batch, BatchLimit, Cursor, CursorOptions};

use crate::call::Call;
use crate::{Error, Result};

/// Options of a command's first batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct First {
    pub limit: BatchLimit,
    /// Nothing follows, whatever is left.
    pub single_batch: bool,
    pub no_timeout: bool,
}

impl First {
    pub(crate) fn of(batch_size: Option<u64>) -> First {
        let limit = batch_size.map_or_else(BatchLimit::first, |docs| BatchLimit::docs(docs as usize));
        First { limit, single_batch: false, no_timeout: false }
    }

    /// For commands that return everything at once unless `batchSize` is given.
    pub(crate) fn of_all(batch_size: Option<u64>) -> First {
        First::of(Some(batch_size.unwrap_or(u64::MAX)))
    }
}

/// Reads `cursor: { batchSize }` of a command.
pub(crate) fn cursor_option(field: Field<'_>, value: ValueRef<'_>) -> Result<Option<u64>> {
    let mut batch_size = None;
    for (name, value) in present(field.document(value)?) {
        match name {
            "batchSize" => batch_size = Some(Field::new("cursor", name).unsigned(value)?),
            _ => return Err(Field::new("cursor", name).unknown().into()),
        }
    }
    Ok(batch_size)
}

/// Begin of the text of an error at the execution of a pipeline.
pub(crate) const DURING_AGGREGATION: &str = "PlanExecutor error during aggregation";

/// Makes the first batch of a cursor and keeps the cursor when more follows.
pub(crate) fn answer_first(call: &mut Call<'_>, mut cursor: Cursor, first: First) -> Result<()> {
    let namespace = cursor.namespace().as_str().to_owned();
    let batch = cursor.next_batch(first.limit, &call.interrupt);
    let batch = batch.map_err(|error| match call.info.name {
        "aggregate" => Error::from(error).during(DURING_AGGREGATION),
        "find" => Error::from(error).during(&format!("Executor error during find command: {namespace}")),
        _ => error.into(),
    })?;
    let resume = cursor.resume_token();
    let id = if batch.exhausted || first.single_batch {
        0
    } else {
        let options = CursorOptions { no_timeout: first.no_timeout, ..call.cursor_owner() };
        call.database().cursors.insert(cursor, options)
    };
    answer_batch(call, "firstBatch", batch, id, &namespace, resume);
    Ok(())
}

/// Bytes of a reply outside its cursor: the outcome and the cluster times. Without this reserve a large reply would be copied
/// into a buffer of twice its size.
pub(crate) const REPLY_OVERHEAD: usize = 1024;

/// `cursor: { firstBatch | nextBatch, id, ns }`, of a change stream with its `postBatchResumeToken`.
pub(crate) fn answer_batch(
    call: &mut Call<'_>,
    name: &str,
    batch: Batch,
    id: i64,
    namespace: &str,
    resume: Option<DocBuf>,
) {
    call.plan.returned = Some(batch.docs.len() as u64);
    call.plan.cursor_id = id;
    call.server.metrics.documents.returned.add(batch.docs.len() as u64);
    let documents = batch.docs.as_array();
    let mut writer = Writer::with_capacity(documents.as_bytes().len() + namespace.len() + REPLY_OVERHEAD);
    writer.open_document("cursor");
    writer.append(name, documents.into());
    writer.append("id", id.into());
    writer.append("ns", namespace.into());
    if let Some(resume) = &resume {
        writer.append("postBatchResumeToken", resume.into());
    }
    if let Some(time) = call.view.map(|(_, time)| *time).or(call.routed_time) {
        writer.append("atClusterTime", timestamp(time));
    }
    writer.close();
    call.reply = writer.finish();
    call.reply_memory = Some(batch.reservation);
}

/// Replies with documents that are all there (`listCollections` and the like).
pub(crate) fn answer_documents(
    call: &mut Call<'_>,
    namespace: arbor_store::Namespace,
    documents: Vec<DocBuf>,
    batch_size: Option<u64>,
) -> Result<()> {
    answer_first(call, Cursor::over_documents(namespace, documents), First::of_all(batch_size))
}

/// For fields that would promise what is not there yet; "no" and nothing promise nothing.
pub(crate) fn refuse_if_given(field: Field<'_>, value: ValueRef<'_>, what: &str) -> Result<()> {
    match value {
        ValueRef::Null | ValueRef::Undefined | ValueRef::Bool(false) => Ok(()),
        ValueRef::Document(doc) if doc.is_empty() => Ok(()),
        _ => Err(Error::not_supported(&format!("{what} ({field})"))),
    }
}

/// `collation`. An empty document names none.
pub(crate) fn collation(field: Field<'_>, value: ValueRef<'_>) -> Result<Option<Collation>> {
    let collation = field.document(value)?;
    if collation.is_empty() { Ok(None) } else { Ok(Some(Collation::parse(collation)?)) }
}
