//! `appendOplogNote`: a document into `local.oplog.rs` that changes nothing.

use arbor_bson::Code;
use arbor_repl::not_primary;
use arbor_txn::Durability;

use crate::call::Call;
use crate::replication::note_noop;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["data"])?;
    let Some(replication) = &call.server.replication else {
        let text = "Must have replication set up to run \"appendOplogNote\"";
        return Err(Error::new(Code::NO_REPLICATION_ENABLED, text));
    };
    if !replication.is_primary() {
        return Err(not_primary().into());
    }
    let data = call.body.get("data").ok_or_else(|| call.field("data").missing())?;
    let data = call.field("data").document(data)?;
    note_noop(&call.database().transactions, data, Durability::Applied)
}
