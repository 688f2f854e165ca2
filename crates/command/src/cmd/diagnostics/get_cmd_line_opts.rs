//! `getCmdLineOpts`.

use arbor_bson::ArrayBuf;

use crate::Result;
use crate::call::Call;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let argv: ArrayBuf = call.server.options.argv.iter().map(String::as_str).collect();
    call.reply.append("argv", &argv).append("parsed", &call.server.options.parsed);
    Ok(())
}
