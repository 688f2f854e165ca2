//! `explain`: the plan of another command, which is not run beyond what `executionStats` needs.

use arbor_bson::{Code, DocBuf, Value, ValueRef};
use arbor_protocol::process;
use arbor_query::{ExplainSpec, QueryShape, Setting, Verbosity};

use crate::call::Call;
use crate::{Error, MONGODB_VERSION, Result, registry};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["verbosity"])?;
    let ValueRef::Document(explained) = call.target() else {
        return Err(call.field("explain").wrong_type(call.target(), "object").into());
    };
    let verbosity = match call.body.get("verbosity") {
        Some(value) => verbosity(call.field("verbosity").string(value)?)?,
        None => Verbosity::AllPlansExecution,
    };
    let name = explained.first().map_or("", |(name, _)| name);
    let unknown = || Error::new(Code::COMMAND_NOT_FOUND, format!("Explain failed due to unknown command: {name}"));
    let info = registry::info(name).ok_or_else(unknown)?;
    let db = call.db;
    let inner = call.inside(info, db, explained);
    let reply = explain_call(&inner, verbosity)?;
    call.reply = reply;
    append_surroundings(call, explained);
    Ok(())
}

/// Returns the explain output of a command; also used by `aggregate` with `explain: true`.
pub(crate) fn explain_call(call: &Call<'_>, verbosity: Verbosity) -> Result<DocBuf> {
    let spec = match call.info.name {
        "find" => ExplainSpec::Find(crate::cmd::crud::find::parse(call)?.0),
        "count" => ExplainSpec::Count(crate::cmd::crud::count::parse(call)?),
        "distinct" => ExplainSpec::Distinct(crate::cmd::crud::distinct::parse(call)?),
        "aggregate" => ExplainSpec::Aggregate(crate::cmd::crud::aggregate::parse(call)?.spec),
        "update" => ExplainSpec::Update(crate::cmd::crud::update::parse(call)?),
        "delete" => ExplainSpec::Delete(crate::cmd::crud::delete::parse(call)?),
        "findAndModify" | "findandmodify" => {
            ExplainSpec::FindAndModify(crate::cmd::crud::find_and_modify::parse(call)?)
        }
        name => {
            let text = format!("Cannot explain cmd: {name}");
            return Err(Error::new(Code::ILLEGAL_OPERATION, text));
        }
    };
    let shape = match &spec {
        ExplainSpec::Find(spec) => Some(QueryShape::of_find(spec)?),
        ExplainSpec::Distinct(spec) => Some(QueryShape::of_distinct(spec)?),
        ExplainSpec::Aggregate(spec) => Some(QueryShape::of_aggregate(spec)?),
        _ => None,
    };
    let Some(shape) = shape else {
        return Ok(arbor_query::explain(&call.scope(), &spec, verbosity, &call.interrupt)?);
    };
    let settings = call.query_settings(|| Ok(shape))?;
    let scope = call.scope().with_hints(settings.as_ref().map(|settings| &settings.hints));
    let explained = arbor_query::explain(&scope, &spec, verbosity, &call.interrupt)?;
    let explained = explained.with("queryShapeHash", &shape.text());
    Ok(with_settings(explained, settings.as_deref()))
}

/// Shows query settings where the plan is.
fn with_settings(explained: DocBuf, settings: Option<&Setting>) -> DocBuf {
    let Some(settings) = settings else { return explained };
    let shown = explained.as_doc().iter().map(|(name, value)| match (name, value) {
        ("queryPlanner", ValueRef::Document(planner)) => {
            (name, Value::Document(planner.to_buf().with("querySettings", &settings.settings)))
        }
        (name, value) => (name, value.to_value()),
    });
    let shown: Vec<(&str, Value)> = shown.collect();
    shown.iter().map(|(name, value)| (*name, value)).collect()
}

/// `command`, `serverInfo` and `serverParameters`, where the plan has not brought them.
pub(crate) fn append_surroundings(call: &mut Call<'_>, explained: arbor_bson::Doc<'_>) {
    let mut command: DocBuf = explained.iter().filter(|(name, _)| !name.starts_with('$')).collect();
    command.append("$db", call.db);
    if call.reply.get("command").is_none() {
        call.reply.append("command", &command);
    }
    if call.reply.get("serverInfo").is_none() {
        let info = DocBuf::new()
            .with("host", &process::host_name())
            .with("port", i32::from(call.server.options.port))
            .with("version", MONGODB_VERSION)
            .with("gitVersion", call.server.options.commit);
        call.reply.append("serverInfo", &info);
    }
    if call.reply.get("serverParameters").is_none() {
        let settings = &call.database().settings;
        let limits = DocBuf::new()
            .with("internalDocumentSourceGroupMaxMemoryBytes", settings.group_bytes_max as i64)
            .with("internalQueryMaxBlockingSortMemoryUsageBytes", settings.sort_bytes_max as i64);
        call.reply.append("serverParameters", &limits);
    }
}

fn verbosity(text: &str) -> Result<Verbosity> {
    match text {
        "queryPlanner" => Ok(Verbosity::QueryPlanner),
        "executionStats" => Ok(Verbosity::ExecutionStats),
        "allPlansExecution" => Ok(Verbosity::AllPlansExecution),
        other => {
            let text = format!("Enumeration value '{other}' for field 'explain.verbosity' is not a valid value.");
            Err(Error::bad_value(text))
        }
    }
}
