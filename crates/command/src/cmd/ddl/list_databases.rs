//! `listDatabases`. `admin`, `config` and `local` are always there, as on a MongoDB server.

use arbor_auth::{Action, Target};
use arbor_bson::{ArrayBuf, Doc, DocBuf};
use arbor_lang::{Context, Filter};

use crate::Result;
use crate::call::Call;

const ALWAYS: [&str; 3] = ["admin", "config", "local"];

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let (mut filter, mut name_only, mut authorized) = (Doc::empty(), false, None);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "filter" => filter = field.document(value)?,
            "nameOnly" => name_only = field.bool(value)?,
            "authorizedDatabases" => authorized = Some(field.bool(value)?),
            _ => return Err(field.unknown().into()),
        }
    }
    let all = call.server.permits(call.connection, Target::Cluster, Action::ListDatabases);
    if !all && authorized == Some(false) {
        call.server.need(call.connection, Target::Cluster, Action::ListDatabases)?;
    }
    let all = all && authorized != Some(true);
    let filter =
        Filter::parse(filter, &Context { without_times: true, ..Context::new(arbor_protocol::log::now_ms()) })?;
    let mut names = call.database().store.list_databases();
    names.extend(ALWAYS.map(str::to_owned));
    names.sort_unstable();
    names.dedup();
    names.retain(|name| all || call.server.reaches(call.connection, name, Action::Find));
    let (mut listed, mut total) = (ArrayBuf::new(), 0);
    for name in names {
        call.interrupt.check()?;
        let mut entry = DocBuf::new().with("name", &name);
        let bytes = if name_only { 0 } else { crate::cmd::diagnostics::db_stats::disk_bytes(call, &name)? };
        if !name_only {
            entry.append("sizeOnDisk", bytes as i64);
            let empty = !ALWAYS.contains(&&*name) && call.database().store.list_collections(&name).is_empty();
            entry.append("empty", empty);
        }
        if filter.matches(entry.as_doc())? {
            total += bytes;
            listed.push(&entry);
        }
    }
    call.reply.append("databases", &listed);
    if !name_only {
        call.reply.append("totalSize", total as i64).append("totalSizeMb", (total >> 20) as i64);
    }
    Ok(())
}
