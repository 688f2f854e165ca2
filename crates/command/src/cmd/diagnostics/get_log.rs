//! `getLog`: the last lines of the log, or the warnings of the start.

use arbor_bson::ArrayBuf;

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let log = &call.server.log;
    let lines = match call.field("getLog").string(call.target())? {
        "*" => {
            call.reply.append("names", &["global", "startupWarnings"].into_iter().collect::<ArrayBuf>());
            return Ok(());
        }
        "global" => log.recent(),
        "startupWarnings" => log.startup_warnings(),
        other => return Err(Error::new(arbor_bson::Code::OPERATION_FAILED, format!("No log named '{other}'"))),
    };
    let lines: ArrayBuf = lines.iter().map(String::as_str).collect();
    call.reply.append("totalLinesWritten", lines.len() as i32).append("log", &lines);
    Ok(())
}
