//! `getFreeMonitoringStatus`, which old shells ask for.

use crate::Result;
use crate::call::Call;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.reply.append("state", "disabled").append("message", "Free monitoring is disabled.");
    Ok(())
}
