//! `getParameter`.

use arbor_bson::{Code, DocBuf, Value, ValueRef};

use arbor_protocol::arguments::is_present;

use crate::call::Call;
use crate::log_components;
use crate::parameters::detail;
use crate::storage_parameters::StorageParameters;
use crate::{Error, Result};

const FEATURE_VERSION: &str = "featureCompatibilityVersion";

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let parameters = &call.server.parameters;
    let storage = StorageParameters(&call.server.database.transactions);
    let Requested { all, detailed, set_at } = requested(call)?;
    if all {
        call.reply = match detailed {
            true => parameters.all_detailed(|runtime, startup| set_at.includes(runtime, startup)),
            false => parameters.all(|runtime, startup| set_at.includes(runtime, startup)),
        };
        for (name, value) in storage.all() {
            append(&mut call.reply, name, &value, detailed);
        }
        let components = Value::Document(components(call));
        append(&mut call.reply, log_components::NAME, &components, detailed);
        let version = feature_version(call);
        call.reply.append(FEATURE_VERSION, &version);
        return Ok(());
    }
    let mut found = DocBuf::new();
    for (name, _) in call.own_fields() {
        if name == FEATURE_VERSION {
            found.append(name, &feature_version(call));
        } else if name == log_components::NAME {
            append(&mut found, name, &Value::Document(components(call)), detailed);
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

/// The request in the target of the command.
#[derive(Default)]
struct Requested {
    all: bool,
    detailed: bool,
    set_at: SetAt,
}

/// Time at which a parameter may be set.
#[derive(Clone, Copy, Default)]
enum SetAt {
    #[default]
    Any,
    Runtime,
    Startup,
}

impl SetAt {
    fn includes(self, runtime: bool, startup: bool) -> bool {
        match self {
            SetAt::Any => true,
            SetAt::Runtime => runtime,
            SetAt::Startup => startup,
        }
    }
}

/// Reads `"*"` or `{ allParameters, showDetails, setAt }`.
fn requested(call: &Call<'_>) -> Result<Requested> {
    match call.target() {
        ValueRef::String("*") => Ok(Requested { all: true, ..Requested::default() }),
        ValueRef::Document(options) => {
            let flag = |name: &str| match options.get(name) {
                Some(value) => call.field(name).bool(value),
                None => Ok(false),
            };
            let set_at = match options.get("setAt").filter(|value| is_present(*value)) {
                None => SetAt::Any,
                Some(value) => match call.field("setAt").one_of(value, &["runtime", "startup"])? {
                    "runtime" => SetAt::Runtime,
                    _ => SetAt::Startup,
                },
            };
            Ok(Requested { all: flag("allParameters")?, detailed: flag("showDetails")?, set_at })
        }
        _ => Ok(Requested::default()),
    }
}

fn components(call: &Call<'_>) -> DocBuf {
    call.server.log_components.shown(call.server.parameters.int("logLevel").unwrap_or(0) as i32)
}

fn feature_version(call: &Call<'_>) -> DocBuf {
    DocBuf::new().with("version", call.server.feature_version.name())
}
