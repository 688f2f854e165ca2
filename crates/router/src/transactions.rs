//! Transactions, each of which one shard runs, and cursors that one shard keeps.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_bson::{Code, Doc, DocBuf, ValueRef};
use arbor_command::{Error, Result, Routed};
use parking_lot::Mutex;

use crate::shard::Shard;
use crate::{fields, on_behalf};

/// A transaction or cursor that was unused for this time has ended on the shard as well.
const FORGOTTEN: Duration = Duration::from_secs(3600);

#[derive(Default)]
pub(crate) struct Transactions {
    /// By the session's id.
    open: Mutex<HashMap<u128, Open>>,
    cursors: Mutex<HashMap<i64, (Pinned, Instant)>>,
}

/// The place of a cursor that one shard keeps.
#[derive(Clone)]
pub(crate) struct Pinned {
    pub shard: Arc<Shard>,
    /// Digest of the user who has opened it.
    pub owner: Option<[u8; 32]>,
}

struct Open {
    number: i64,
    /// The shard that runs it, once one does.
    shard: Option<Arc<Shard>>,
    read_concern: Option<DocBuf>,
    used: Instant,
}

impl Transactions {
    /// Makes a command of a transaction part of it on this shard. Errors: another shard runs the transaction.
    pub(crate) fn enter(&self, routed: &Routed<'_>, shard: &Arc<Shard>, command: DocBuf) -> Result<DocBuf> {
        let (Some(session), Some(numbered)) = (routed.generic.session, routed.generic.numbered) else {
            return Ok(command);
        };
        if !numbered.is_transaction() {
            return Ok(command);
        }
        let mut all = self.open.lock();
        let open = match all.get_mut(&session.id.as_u128()).filter(|open| open.number == numbered.number) {
            Some(open) => open,
            None if fields::is_true(routed.body, "startTransaction") => {
                let read_concern = fields::document(routed.body, "readConcern").map(Doc::to_buf);
                let open = Open { number: numbered.number, shard: None, read_concern, used: Instant::now() };
                all.insert(session.id.as_u128(), open);
                let opened = all.get_mut(&session.id.as_u128());
                opened.ok_or_else(|| no_transaction(numbered.number))?
            }
            None => return Err(no_transaction(numbered.number)),
        };
        open.used = Instant::now();
        match &open.shard {
            Some(own) if own.name == shard.name => Ok(command),
            Some(own) => {
                let text = format!(
                    "a transaction that has begun on the shard {} cannot continue on the shard {}: transactions over several shards \
                     are not supported yet",
                    own.name, shard.name
                );
                Err(Error::new(Code::ILLEGAL_OPERATION, text))
            }
            None => {
                open.shard = Some(shard.clone());
                let mut command = fields::without(command.as_doc(), &["readConcern", "startTransaction"]);
                if let Some(concern) = &open.read_concern {
                    command.append("readConcern", concern);
                }
                Ok(command.with("startTransaction", true))
            }
        }
    }

    /// The first statement of a transaction was refused before the shard began it.
    pub(crate) fn not_begun(&self, routed: &Routed<'_>) {
        if !fields::is_true(routed.body, "startTransaction") {
            return;
        }
        if let Some(session) = routed.generic.session
            && let Some(open) = self.open.lock().get_mut(&session.id.as_u128())
        {
            open.shard = None;
        }
    }

    /// Returns the shard that is to end the transaction. None: no shard has begun it.
    pub(crate) fn ending(&self, routed: &Routed<'_>) -> Result<Option<Arc<Shard>>> {
        let (Some(session), Some(numbered)) = (routed.generic.session, routed.generic.numbered) else {
            return Err(Error::new(Code::INVALID_OPTIONS, "no transaction is named"));
        };
        let all = self.open.lock();
        let open = all.get(&session.id.as_u128()).filter(|open| open.number == numbered.number);
        Ok(open.ok_or_else(|| no_transaction(numbered.number))?.shard.clone())
    }

    /// Notes that a shard keeps the cursor of a reply.
    pub(crate) fn keep_cursor(&self, routed: &Routed<'_>, shard: &Arc<Shard>, reply: Doc<'_>) {
        let id = fields::document(reply, "cursor").map_or(0, |cursor| fields::int(cursor, "id"));
        if id != 0 {
            let pinned = Pinned { shard: shard.clone(), owner: on_behalf::digest(routed) };
            self.cursors.lock().insert(id, (pinned, Instant::now()));
        }
    }

    pub(crate) fn cursor(&self, id: i64) -> Option<Pinned> {
        let mut cursors = self.cursors.lock();
        let (pinned, used) = cursors.get_mut(&id)?;
        *used = Instant::now();
        Some(pinned.clone())
    }

    pub(crate) fn forget_cursor(&self, id: i64) {
        self.cursors.lock().remove(&id);
    }

    pub(crate) fn forget_old(&self) {
        self.open.lock().retain(|_, open| open.used.elapsed() < FORGOTTEN);
        self.cursors.lock().retain(|_, (_, used)| used.elapsed() < FORGOTTEN);
    }
}

fn no_transaction(number: i64) -> Error {
    Error::new(
        Code::NO_SUCH_TRANSACTION,
        format!("Given transaction number {number} does not match any in-progress transactions."),
    )
}

/// Returns the id that a getMore names.
pub(crate) fn cursor_of_get_more(body: Doc<'_>) -> Option<i64> {
    match body.first() {
        Some((_, ValueRef::Int64(id))) => Some(id),
        _ => None,
    }
}
