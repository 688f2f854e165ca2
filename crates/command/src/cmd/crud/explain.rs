//! `explain`: the plan of another command, which is not run beyond what `executionStats` needs.

use arbor_bson::{Code, DocBuf, ValueRef};
use arbor_protocol::process;
use arbor_query::{ExplainSpec, Verbosity};

use crate::call::{Call, Plan};
use crate::{Error, MONGODB_VERSION, Result, registry};

pub fn run(call: &mut Call<'_>) -> Result<()> {
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
    let inner = Call {
        server: call.server,
        connection: &mut *call.connection,
        info,
        db: call.db,
        body: explained,
        sequences: &[],
        generic: call.generic,
        session: None,
        statements: None,
        interrupt: call.interrupt.clone(),
        last_commit: call.last_commit,
        view: call.view,
        waited_until: None,
        wait_until: None,
        reply: DocBuf::new(),
        reply_memory: None,
        plan: Plan::default(),
    };
    let reply = explain_call(&inner, verbosity)?;
    call.reply = reply;
    append_surroundings(call, explained);
    Ok(())
}

/// Returns the explain output of a command; also used by `aggregate` with `explain: true`.
pub fn explain_call(call: &Call<'_>, verbosity: Verbosity) -> Result<DocBuf> {
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
            let text = format!("Explain failed due to unknown command: {name}");
            return Err(Error::new(Code::COMMAND_NOT_FOUND, text));
        }
    };
    Ok(arbor_query::explain(&call.scope(), &spec, verbosity, &call.interrupt)?)
}

/// `command`, `serverInfo` and `serverParameters`, where the plan has not brought them.
pub fn append_surroundings(call: &mut Call<'_>, explained: arbor_bson::Doc<'_>) {
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
            .with("gitVersion", "arbor");
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
