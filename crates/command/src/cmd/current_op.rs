//! `currentOp`: what runs. Its fields filter the answer as a query does.

use arbor_bson::{ArrayBuf, Doc, DocBuf};
use arbor_lang::{Context, Filter};

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

/// Reads the options of the `$currentOp` stage; answers whether idle connections are wanted.
pub fn idle_option(options: Doc<'_>) -> Result<bool> {
    let mut idle = false;
    for (name, value) in options {
        let field = crate::arguments::Field::new("$currentOp", name);
        match name {
            "idleConnections" => idle = field.bool(value)?,
            "allUsers" | "idleSessions" | "idleCursors" | "localOps" | "truncateOps" | "backtrace" => {
                field.bool(value)?;
            }
            _ => return Err(field.unknown()),
        }
    }
    Ok(idle)
}
