//! `engineStatus` of TokuMX: all statistics of the engines, the log, transactions and locks, in one flat document of `section: name`.

use arbor_bson::{Doc, DocBuf, ValueRef};

use super::server_status;
use crate::Result;
use crate::call::Call;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    for (section, values) in server_status::of_engines(call.server)? {
        flatten(&section, values.as_doc(), &mut call.reply);
    }
    Ok(())
}

fn flatten(section: &str, values: Doc<'_>, into: &mut DocBuf) {
    for (name, value) in values.iter() {
        match value {
            ValueRef::Document(values) => flatten(&format!("{section}: {name}"), values, into),
            value => drop(into.append(&format!("{section}: {name}"), value)),
        }
    }
}
