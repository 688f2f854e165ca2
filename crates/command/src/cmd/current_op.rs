//! `currentOp`: what runs. Its fields filter the answer as a query does.

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_lang::{Context, Filter};
use arbor_query::CursorInfo;

use crate::call::Call;
use crate::{Commands, Result, process};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    let mut idle = false;
    let mut query = DocBuf::new();
    for (name, value) in call.own_fields() {
        match name {
            "$all" => idle = call.field(name).bool(value)?,
            "$ownOps" => {}
            _ => drop(query.append(name, value)),
        }
    }
    for (name, value) in call.body.iter().skip(1).filter(|(name, _)| *name == "$all") {
        idle = call.field(name).bool(value)?;
    }
    let filter = Filter::parse(query.as_doc(), &Context::new(crate::log::now_ms()))?;
    let mut listed = ArrayBuf::new();
    for operation in operations(call.server, idle) {
        if filter.matches(operation.as_doc())? {
            listed.push(&operation);
        }
    }
    call.reply.append("inprog", &listed);
    Ok(())
}

/// One document per operation; `$currentOp` answers the same.
pub fn operations(server: &Commands, idle: bool) -> Vec<DocBuf> {
    server.operations.list(&host(server), idle)
}

fn host(server: &Commands) -> String {
    format!("{}:{}", process::host_name(), server.options.port)
}

/// What `$currentOp` shows beside what runs.
#[derive(Default)]
pub struct Idle {
    connections: bool,
    cursors: bool,
}

/// Reads the options of the `$currentOp` stage. Sessions that are idle hold nothing on a standalone, so none are shown.
pub fn idle_options(options: Doc<'_>) -> Result<Idle> {
    let mut idle = Idle::default();
    for (name, value) in options {
        let field = crate::arguments::Field::new("$currentOp", name);
        match name {
            "idleConnections" => idle.connections = field.strict_bool(value)?,
            "idleCursors" => idle.cursors = field.strict_bool(value)?,
            "allUsers" | "idleSessions" | "localOps" | "truncateOps" | "backtrace" | "targetAllNodes" => {
                field.strict_bool(value)?;
            }
            _ => return Err(field.unknown()),
        }
    }
    Ok(idle)
}

/// The documents of `$currentOp`.
pub fn shown(server: &Commands, idle: Idle) -> Vec<DocBuf> {
    let mut all = operations(server, idle.connections);
    if idle.cursors {
        let cursors = server.database.cursors.list().into_iter().filter(|cursor| !cursor.in_use);
        all.extend(cursors.map(|cursor| idle_cursor(server, &cursor)));
    }
    all
}

fn idle_cursor(server: &Commands, cursor: &CursorInfo) -> DocBuf {
    let last_use = crate::log::now_ms() - cursor.idle.as_millis() as i64;
    let about = DocBuf::new()
        .with("cursorId", cursor.id)
        .with("lastAccessDate", ValueRef::DateTime(last_use))
        .with("noCursorTimeout", cursor.no_timeout);
    let mut doc = DocBuf::new().with("type", "idleCursor").with("host", &host(server));
    doc.append("ns", cursor.namespace.as_str());
    if let Some(session) = &cursor.session {
        doc.append("lsid", &DocBuf::new().with("id", ValueRef::Binary { subtype: 4, bytes: session }));
    }
    doc.with("cursor", &about)
}
