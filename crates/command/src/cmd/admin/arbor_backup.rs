//! `arborBackup`: the trees of this server at one moment, for `arbor backup`. Its fields are those of [`arbor_tree`]; the reply to
//! `begin` has more of them:
//!
//! | field | what |
//! |---|---|
//! | `deployment`, `set` | the set by its id and name; the directory's id of a server alone |
//! | `host`, `version` | this server |
//! | `home` | the engine of the trees that the server keeps for itself |
//! | `collections` | `{ns, uuid, engine, indexes}` of each collection, `{ns, view: true}` of each view |
//!
//! The reply to a request for rows may have `restMicros`: a backup that leaves the processors to clients asks for the next ones after that time.
//!
//! And the log, for an archive of it: `{arborBackup: 1, logAfter: POSITION, epoch: EPOCH, hold: N}`. `epoch` is that of the record at the position, `hold` comes from
//! the reply before; both may be missing. The reply has `deployment` and one of:
//!
//! | field | what |
//! |---|---|
//! | `hold`, `block` | records, see [`arbor_txn::fetch::LogBlock`]; without `block` there are none, now |
//! | `trimmed` | the position at which the log begins, which is later |
//! | `differs: true` | the log is not the one that was archived |

use arbor_base::{Position, TreeId};
use arbor_bson::{ArrayBuf, Code, DocBuf, ValueRef};
use arbor_protocol::log::events;
use arbor_protocol::process::host_name;
use arbor_txn::fetch::{Begun, LogReply, Peer, PeerError, Source};

use crate::call::Call;
use crate::cmd::repl::arbor_tree::{self, failed};
use crate::{Commands, Error, Result};

/// The first tree of all is in the home.
const FIRST_TREE: TreeId = TreeId(1);

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let server = call.server;
    if server.router.is_some() {
        return Err(Error::new(
            Code::COMMAND_NOT_SUPPORTED,
            "a router has no data: back up its shards and config server",
        ));
    }
    if call.own_fields().any(|(name, _)| name == "logAfter") {
        return log_behind(call);
    }
    let asked = arbor_tree::parse(call)?;
    arbor_tree::serve(call, &asked, |source| begin(server, source), Source::block_of_backup)
}

fn log_behind(call: &mut Call<'_>) -> Result<()> {
    let (mut after, mut epoch, mut hold) = (0, None, None);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "logAfter" => after = field.unsigned(value)?,
            "epoch" => epoch = Some(field.unsigned(value)?),
            "hold" => hold = Some(field.unsigned(value)?),
            _ => call.unknown(field)?,
        }
    }
    let server = call.server;
    server.trees.expire(arbor_tree::HELD_IDLE);
    // A position is a number of the log, which no client gives: one beyond all of them ends before the log.
    let after = Position(after.min(i64::MAX as u64));
    let replied = server.trees.log_behind(hold, after, epoch).map_err(failed)?;
    let reply = DocBuf::new().with("deployment", deployment(server).as_str());
    call.reply = match replied {
        LogReply::Block { hold, block } => {
            reply.with("hold", hold as i64).with("block", ValueRef::Binary { subtype: 0, bytes: &block })
        }
        LogReply::Nothing { hold } => reply.with("hold", hold as i64),
        LogReply::Trimmed { first } => reply.with("trimmed", first.0 as i64),
        LogReply::Differs => reply.with("differs", true),
    };
    Ok(())
}

fn begin(server: &Commands, source: &Source) -> Result<DocBuf> {
    let begun = source.begin_backup().map_err(failed)?;
    let described = described(server, source, &begun);
    if described.is_err() {
        source.end(begun.snapshot);
    }
    described
}

fn described(server: &Commands, source: &Source, begun: &Begun) -> Result<DocBuf> {
    let view = source.view(begun.snapshot).ok_or_else(|| failed(PeerError::Expired))?;
    let mut collections = ArrayBuf::new();
    for (namespace, collection) in server.database.store.listed_in(&*view)? {
        let listed = DocBuf::new().with("ns", namespace.as_str());
        collections.push(&match collection {
            None => listed.with("view", true),
            Some(own) => listed
                .with("uuid", own.uuid.to_string().as_str())
                .with("engine", &*own.engine)
                .with("indexes", own.indexes.len() as i32 + 1),
        });
    }
    let mut reply = arbor_tree::begun(begun)
        .with("deployment", deployment(server).as_str())
        .with("host", format!("{}:{}", host_name(), server.options.port).as_str())
        .with("version", env!("CARGO_PKG_VERSION"))
        .with("home", server.database.transactions.engine().engine_of(FIRST_TREE));
    if let Some(replication) = &server.replication {
        reply.append("set", replication.name());
    }
    reply.append("collections", &collections);
    let attributes = DocBuf::new()
        .with("snapshot", begun.snapshot as i64)
        .with("position", begun.position.0 as i64)
        .with("trees", begun.trees.len() as i64);
    server.last_backup_ms.store(arbor_protocol::log::now_ms(), std::sync::atomic::Ordering::Relaxed);
    server.log.info(events::BACKUP_BEGUN, "backup", attributes);
    Ok(reply)
}

/// Names the set, whichever member of it answers, or the server alone.
fn deployment(server: &Commands) -> String {
    let config = server.replication.as_ref().and_then(|replication| replication.state().config.clone());
    let set = config.and_then(|config| config.settings.set_id);
    set.map_or_else(|| server.options.directory_id.clone(), |id| id.to_string())
}
