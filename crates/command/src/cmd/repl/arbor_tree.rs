//! `_arborTree`: the trees of this member, for another one that fetches them.
//!
//! | fields | what |
//! |---|---|
//! | `begin: true` | holds the present state and the log behind it; the reply has `snapshot`, `position`, `epoch`, `time` and `trees` |
//! | `snapshot`, `tree`, `after` | the rows behind a key (or from the first one on) in one `block`; `noTree` or `expired` if there are none |
//! | `snapshot`, `end: true` | the state need not be held any more |
//!
//! A state without requests is released after ten minutes.

use std::time::Duration;

use arbor_base::TreeId;
use arbor_bson::{ArrayBuf, Code, DocBuf, ValueRef};
use arbor_txn::fetch::{Begun, Peer, PeerError, Source, TreeFacts};

use crate::call::Call;
use crate::{Error, Result};

/// Time for which a state without requests is held.
pub(crate) const HELD_IDLE: Duration = Duration::from_secs(600);

#[derive(Default)]
pub(crate) struct Asked<'d> {
    begins: bool,
    ends: bool,
    snapshot: Option<u64>,
    tree: Option<u64>,
    after: Option<&'d [u8]>,
}

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let asked = parse(call)?;
    call.replication()?;
    let block = |source: &Source, snapshot, tree, after: Option<&[u8]>| {
        source.block(snapshot, tree, after).map(|block| (block, Duration::ZERO))
    };
    serve(call, &asked, |source| Ok(begun(&source.begin().map_err(failed)?)), block)
}

/// Replies to a request; `begin` has a state held and describes it, `block` also returns the time for which the requests should rest.
pub(crate) fn serve(
    call: &mut Call<'_>,
    asked: &Asked<'_>,
    begin: impl FnOnce(&Source) -> Result<DocBuf>,
    block: impl FnOnce(&Source, u64, TreeId, Option<&[u8]>) -> std::result::Result<(Vec<u8>, Duration), PeerError>,
) -> Result<()> {
    let source = &call.server.trees;
    source.expire(HELD_IDLE);
    call.reply = match *asked {
        Asked { begins: true, .. } => begin(source)?,
        Asked { ends: true, snapshot: Some(snapshot), .. } => {
            source.end(snapshot);
            DocBuf::new()
        }
        Asked { snapshot: Some(snapshot), tree: Some(tree), after, .. } => {
            match block(source, snapshot, TreeId(tree), after) {
                Ok((block, rest)) => {
                    let reply = DocBuf::new().with("block", ValueRef::Binary { subtype: 0, bytes: &block });
                    if rest.is_zero() { reply } else { reply.with("restMicros", rest.as_micros() as i64) }
                }
                Err(PeerError::NoTree(_)) => DocBuf::new().with("noTree", true),
                Err(PeerError::Expired) => DocBuf::new().with("expired", true),
                Err(error) => return Err(failed(error)),
            }
        }
        _ => {
            let text = format!("{} begins, asks for a tree of a snapshot, or ends one", call.info.name);
            return Err(Error::bad_value(text));
        }
    };
    Ok(())
}

pub(crate) fn parse<'d>(call: &Call<'d>) -> Result<Asked<'d>> {
    let mut asked = Asked::default();
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match (name, value) {
            ("begin", value) => asked.begins = field.bool(value)?,
            ("end", value) => asked.ends = field.bool(value)?,
            ("snapshot", value) => asked.snapshot = Some(field.unsigned(value)?),
            ("tree", value) => asked.tree = Some(field.unsigned(value)?),
            ("after", ValueRef::Binary { bytes, .. }) => asked.after = Some(bytes),
            ("after", value) => return Err(field.wrong_type(value, "binData").into()),
            _ => call.unknown(field)?,
        }
    }
    Ok(asked)
}

pub(crate) fn failed(error: PeerError) -> Error {
    Error::new(Code::OPERATION_FAILED, error.to_string())
}

pub(crate) fn begun(begun: &Begun) -> DocBuf {
    let tree = |facts: &TreeFacts| {
        let settings: ArrayBuf =
            facts.options.settings.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]).collect();
        DocBuf::new().with("tree", facts.tree.0 as i64).with("rows", facts.rows as i64).with("settings", &settings)
    };
    let mut trees = ArrayBuf::new();
    for facts in &begun.trees {
        trees.push(&tree(facts));
    }
    DocBuf::new()
        .with("snapshot", begun.snapshot as i64)
        .with("position", begun.position.0 as i64)
        .with("epoch", begun.epoch as i64)
        .with("time", begun.time as i64)
        .with("trees", &trees)
}
