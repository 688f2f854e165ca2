//! `getParameter`.

use arbor_bson::{Code, DocBuf, Value, ValueRef};

use crate::call::Call;
use crate::parameters::detail;
use crate::storage_parameters::StorageParameters;
use crate::{Error, Result};

const FEATURE_VERSION: &str = "featureCompatibilityVersion";

pub fn run(call: &mut Call<'_>) -> Result<()> {
    let parameters = &call.server.parameters;
    let storage = StorageParameters(&call.server.database.transactions);
    let (all, detailed) = requested(call)?;
    if all {
        call.reply = if detailed { parameters.all_detailed() } else { parameters.all() };
        for (name, value) in storage.all() {
            append(&mut call.reply, name, &value, detailed);
        }
        call.reply.append(FEATURE_VERSION, &feature_version());
        return Ok(());
    }
    let mut found = DocBuf::new();
    for (name, _) in call.own_fields() {
        if name == FEATURE_VERSION {
            found.append(name, &feature_version());
        } else if let (Some(value), true) = (parameters.detailed(name), detailed) {
            found.append(name, &value);
        } else if let Some(value) = parameters.get(name) {
            found.append(name, &value);
        } else if let Some(value) = storage.get(name) {
            append(&mut found, name, &value, detailed);
        }
    }
    if found.as_doc().is_empty() {
        return Err(Error::new(Code::INVALID_OPTIONS, "no option found to get"));
    }
    call.reply = found;
    Ok(())
}

/// One of log, checkpoints and engines; all of them may be set at any time.
fn append(reply: &mut DocBuf, name: &str, value: &Value, detailed: bool) {
    match detailed {
        true => reply.append(name, &detail(value, true, true)),
        false => reply.append(name, value),
    };
}

/// Returns whether all parameters are requested, and whether with their details: `"*"` or `{ allParameters, showDetails }`.
fn requested(call: &Call<'_>) -> Result<(bool, bool)> {
    match call.target() {
        ValueRef::String("*") => Ok((true, false)),
        ValueRef::Document(options) => {
            let flag = |name: &str| match options.get(name) {
                Some(value) => call.field(name).bool(value),
                None => Ok(false),
            };
            Ok((flag("allParameters")?, flag("showDetails")?))
        }
        _ => Ok((false, false)),
    }
}

fn feature_version() -> DocBuf {
    DocBuf::new().with("version", "7.0")
}
