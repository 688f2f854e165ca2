//! Multi-document transactions of one connection: the fields that commands carry, the end, what may be tried again.

use arbor_bson::{DocBuf, ValueRef};
use arbor_client::Client;

use super::{Graph, Result};
use crate::target::Failure;

/// Codes after which the maintained fork tries again (spec/workloads.md 7.7).
const TRANSIENT: [&str; 10] = ["24", "46", "112", "117", "208", "225", "226", "239", "246", "251"];

pub(super) fn is_transient(failure: &Failure) -> bool {
    TRANSIENT.contains(&failure.code.as_str())
}

#[derive(Debug)]
pub(super) struct Transaction {
    session: [u8; 16],
    number: i64,
    /// A command of the present transaction was sent.
    begun: bool,
}

impl Default for Transaction {
    fn default() -> Transaction {
        let mut session: [u8; 16] = rand::random();
        // A random UUID says so in its version and variant.
        session[6] = session[6] & 0x0F | 0x40;
        session[8] = session[8] & 0x3F | 0x80;
        Transaction { session, number: 0, begun: false }
    }
}

impl Transaction {
    /// The command as part of the present transaction.
    pub(super) fn part(&mut self, command: DocBuf) -> DocBuf {
        let first = !std::mem::replace(&mut self.begun, true);
        let command = self.marked(command);
        if first { command.with("startTransaction", true) } else { command }
    }

    fn marked(&self, command: DocBuf) -> DocBuf {
        let id = DocBuf::new().with("id", ValueRef::Binary { subtype: 4, bytes: &self.session });
        command.with("lsid", &id).with("txnNumber", self.number).with("autocommit", false)
    }

    fn finish(&mut self, name: &str, client: &mut Client) -> Result<()> {
        if std::mem::take(&mut self.begun) {
            client.command("admin", &self.marked(DocBuf::new().with(name, 1)))?;
        }
        Ok(())
    }
}

impl Graph<'_> {
    pub(super) fn begin(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.number += 1;
            transaction.begun = false;
        }
    }

    /// Commits, or aborts after a failure.
    pub(super) fn end<T>(&mut self, outcome: Result<T>) -> Result<T> {
        let Some(transaction) = &mut self.transaction else { return outcome };
        match &outcome {
            Ok(_) => transaction.finish("commitTransaction", self.client)?,
            // The server has aborted it already in most cases; its reply does not matter.
            Err(failure) if !failure.broken => drop(transaction.finish("abortTransaction", self.client)),
            Err(_) => {}
        }
        outcome
    }
}
