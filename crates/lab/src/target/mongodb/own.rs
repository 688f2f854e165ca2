//! A user's own statements: commands as they are.

use arbor_client::Client;

use super::{insert_many, written};
use crate::target::Failure;
use crate::workload::own::OwnOperation;

/// Returns the documents that were read or changed; of a command that does neither, 1.
pub(super) fn execute(client: &mut Client, operation: &OwnOperation<'_>) -> Result<u64, Failure> {
    match operation {
        OwnOperation::Load { database, collection, documents } => {
            insert_many(client, database, collection, true, documents)
        }
        OwnOperation::Statement { database, command, .. } => {
            match command.as_doc().first().map_or("", |(name, _)| name) {
                "find" | "aggregate" => Ok(client.find(database, command, |_| {})? as u64),
                "insert" | "update" | "delete" | "count" => written(client.command(database, command)?),
                _ => {
                    client.command(database, command)?;
                    Ok(1)
                }
            }
        }
    }
}
