//! `config.system.sessions`, `config.transactions` and `config.image_collection`: what the registry and the session journal
//! hold, as documents. They are read like collections and cannot be written.

use arbor_bson::{ArrayBuf, DocBuf, Timestamp, ValueRef};
use arbor_protocol::log::now_ms;
use arbor_query::{AggregateSpec, FindSpec};
use arbor_session::{Ended, Listed, ReadRow};
use arbor_store::Namespace;

use super::{CONNECTION, statements};
use crate::call::Call;
use crate::{Commands, Result};

/// Rows of the journal that one statement reads.
const ROWS_MAX: usize = 1_000_000;

/// The documents of a collection that is a view of the sessions; None: it is not one.
pub fn documents(server: &Commands, namespace: &Namespace) -> Result<Option<Vec<DocBuf>>> {
    if namespace.db() != "config" {
        return Ok(None);
    }
    let is_member = server.database.transactions.retention().is_some();
    let rows = || server.sessions.rows(ROWS_MAX);
    Ok(Some(match namespace.as_str() {
        "config.system.sessions" => sessions(server),
        "config.transactions" if is_member => rows()?.iter().map(transaction).collect(),
        "config.image_collection" if is_member => rows()?.iter().filter_map(image).collect(),
        _ => return Ok(None),
    }))
}

/// The sessions in use, as `$listSessions` has them.
pub fn sessions(server: &Commands) -> Vec<DocBuf> {
    let now = now_ms();
    let shown = server.sessions.all().into_iter().filter(|listed| listed.id.user != CONNECTION);
    let describe = |Listed { id, idle }: Listed| {
        DocBuf::new().with("_id", &id.to_doc()).with("lastUse", ValueRef::DateTime(now - idle.as_millis() as i64))
    };
    shown.map(describe).collect()
}

fn transaction(read: &ReadRow) -> DocBuf {
    let ReadRow { session, row } = read;
    let time = DocBuf::new().with("ts", time_of(row.wall)).with("t", 1i64);
    let doc = DocBuf::new()
        .with("_id", &session.to_doc())
        .with("txnNum", row.number)
        .with("lastWriteOpTime", &time)
        .with("lastWriteDate", ValueRef::DateTime(row.wall));
    match row.ended {
        Ended::Statements => doc,
        Ended::Committed => doc.with("state", "committed"),
    }
}

/// The document of the last findAndModify.
fn image(read: &ReadRow) -> Option<DocBuf> {
    let ReadRow { session, row } = read;
    let (image, after) = statements::image(row.last_answer()?)?;
    let doc = DocBuf::new()
        .with("_id", &session.to_doc())
        .with("txnNum", row.number)
        .with("ts", time_of(row.wall))
        .with("imageKind", if after { "postImage" } else { "preImage" })
        .with("image", &image)
        .with("invalidated", false);
    Some(doc)
}

/// The journal keeps when a row was written, not its place in the history.
fn time_of(wall: i64) -> ValueRef<'static> {
    ValueRef::Timestamp(Timestamp { seconds: (wall / 1000) as u32, increment: 1 })
}

/// A find over such documents, as a pipeline.
pub fn pipeline_of_find(spec: &FindSpec<'_>) -> ArrayBuf {
    let mut pipeline = ArrayBuf::new();
    let mut stage = |name: &str, value: ValueRef<'_>| {
        pipeline.push(&DocBuf::new().with(name, value));
    };
    stage("$match", spec.filter.into());
    if let Some(sort) = spec.sort {
        stage("$sort", sort.into());
    }
    if spec.skip > 0 {
        stage("$skip", (spec.skip as i64).into());
    }
    if let Some(limit) = spec.limit {
        stage("$limit", (limit as i64).into());
    }
    if let Some(projection) = spec.projection {
        stage("$project", projection.into());
    }
    pipeline
}

/// Returns the specification of a pipeline over such documents.
pub fn aggregate_spec<'a>(call: &Call<'_>, namespace: Namespace, pipeline: &'a ArrayBuf) -> AggregateSpec<'a> {
    AggregateSpec {
        namespace,
        collectionless: false,
        pipeline: pipeline.as_array(),
        hint: None,
        collation: None,
        let_variables: None,
        durability: call.generic.write_concern.durability(),
        allow_disk_use: true,
        bypass_validation: false,
    }
}
