//! The journal's tree: reading, listing and deleting rows.
//!
//! A tree that is not there holds nothing: it is made by the first write with a transaction number.

use std::ops::ControlFlow;

use arbor_base::TreeId;
use arbor_oplog::SessionId;
use arbor_txn::{Error as TxnError, Transaction, View};

use crate::row::{self, Row};
use crate::runs::{ByNumber, Runs};
use crate::{Error, Result};

/// One of `txn`'s fixed trees.
pub(crate) const TREE: TreeId = TreeId(5);

/// The row of a session.
pub(crate) fn read(view: &impl View, session: SessionId) -> Result<Option<Row>> {
    match view.get(TREE, &row::key(session)) {
        Ok(None) | Err(TxnError::UnknownTree(_)) => Ok(None),
        Ok(Some(bytes)) => Row::decode(&bytes).map(Some).map_err(Error::Damaged),
        Err(error) => Err(error.into()),
    }
}

/// All statements of a row and its further rows.
pub(crate) fn statements(view: &impl View, session: SessionId, row: Row) -> Result<ByNumber> {
    let mut all = ByNumber::default();
    for number in 0..row.further {
        let bytes = view.get(TREE, &row::further_key(session, number))?;
        let bytes = bytes.ok_or(Error::Damaged("a further row is missing"))?;
        all.add(Runs::decode(&bytes).map_err(Error::Damaged)?);
    }
    all.add(row.runs);
    Ok(all)
}

/// Calls `visit` with every session's row after `after`, until it breaks.
pub(crate) fn each(
    view: &impl View,
    after: Option<SessionId>,
    mut visit: impl FnMut(SessionId, Row) -> ControlFlow<()>,
) -> Result<()> {
    let mut cursor = match view.cursor(TREE) {
        Err(TxnError::UnknownTree(_)) => return Ok(()),
        cursor => cursor?,
    };
    let from = after.map(|session| row::further_key(session, u32::MAX)).unwrap_or_default();
    let mut found = cursor.seek(&from).map_err(TxnError::from)?;
    while found {
        if let Some(session) = row::session_of(cursor.key()) {
            let row = Row::decode(cursor.value()).map_err(Error::Damaged)?;
            if visit(session, row).is_break() {
                break;
            }
        }
        found = cursor.next().map_err(TxnError::from)?;
    }
    Ok(())
}

pub(crate) fn delete_further(txn: &mut Transaction, session: SessionId) {
    let to = row::further_key(session, u32::MAX);
    txn.delete_range(TREE, row::further_key(session, 0), Some(to));
}

pub(crate) fn delete(txn: &mut Transaction, session: SessionId, row: &Row) {
    txn.delete(TREE, row::key(session));
    if row.further > 0 {
        delete_further(txn, session);
    }
}
