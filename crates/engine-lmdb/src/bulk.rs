//! Filling an empty tree from sorted rows.
//!
//! The rows go into a content of their own, which no tree names while it is filled, in transactions of bounded size between
//! which batches are applied. The last transaction gives it to the tree. So every state in between, and every checkpoint
//! of one, shows the tree empty; the record of the load has the content swept if the load does not end.

use arbor_base::TreeId;
use arbor_engine::{Result, limits};

use crate::core::Core;
use crate::keys::Content;
use crate::records::{self, TreeRecord};

/// Rows and bytes of one transaction: some 10 ms of the writer's time.
const PIECE_ROWS: usize = 8192;
const PIECE_BYTES: usize = 4 << 20;

type Row = (Vec<u8>, Vec<u8>);

pub(crate) fn load(core: &Core, tree: TreeId, rows: &mut dyn Iterator<Item = Row>) -> Result<()> {
    let content = core.edit(|edit| {
        limits::check_empty(tree, edit.tree(tree)?.keys)?;
        let content = edit.new_content()?;
        records::put_loading(&mut edit.txn, content)?;
        Ok(content)
    })?;
    let result = fill(core, content, rows).and_then(|record| {
        core.edit(|edit| {
            limits::check_empty(tree, edit.tree(tree)?.keys)?;
            edit.end_load(content)?;
            edit.replace_content(tree, record)
        })
    });
    if result.is_err() {
        // If this fails as well, the next open finds the record of the load.
        let _ = core.edit(|edit| {
            edit.end_load(content)?;
            edit.mark_dropped(content)
        });
    }
    result
}

fn fill(core: &Core, content: Content, rows: &mut dyn Iterator<Item = Row>) -> Result<TreeRecord> {
    let mut record = TreeRecord::empty(content);
    let mut last = None;
    loop {
        let piece = next_piece(rows, &mut last)?;
        if piece.is_empty() {
            return Ok(record);
        }
        core.edit(|edit| piece.iter().try_for_each(|(key, value)| edit.put_row(content, key, value).map(drop)))?;
        record.keys += piece.len() as u64;
        record.bytes += piece.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
    }
}

fn next_piece(rows: &mut dyn Iterator<Item = Row>, last: &mut Option<Vec<u8>>) -> Result<Vec<Row>> {
    let mut piece: Vec<Row> = Vec::new();
    let mut bytes = 0;
    while piece.len() < PIECE_ROWS && bytes < PIECE_BYTES {
        let Some((key, value)) = rows.next() else { break };
        limits::check_row(&key, &value)?;
        let before = piece.last().map(|(key, _)| key).or(last.as_ref());
        limits::check_ascending(before.map(Vec::as_slice), &key)?;
        bytes += key.len() + value.len();
        piece.push((key, value));
    }
    if let Some((key, _)) = piece.last() {
        *last = Some(key.clone());
    }
    Ok(piece)
}
