//! `configureFailPoint`, for the tests of drivers. Not there without `--setParameter enableTestCommands=1`.

use arbor_bson::Code;

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    if !call.server.parameters.test_commands() {
        return Err(Error::new(Code::COMMAND_NOT_FOUND, format!("no such command: '{}'", call.info.name)));
    }
    call.only(&["mode", "data"])?;
    let name = call.field("configureFailPoint").string(call.target())?;
    let count = call.server.fail_points.configure(name, call.body)?;
    call.reply.append("count", count as i64);
    Ok(())
}
