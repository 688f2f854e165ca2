//! Filling a tree.
//!
//! 1. A new table is made, which no record names; batches and checkpoints continue meanwhile.
//! 2. A bulk cursor fills it: pages are written once, in order, packed, outside of transactions.
//! 3. One transaction gives the tree the new table.
//!
//! A checkpoint that holds step 3 holds the table. After a crash before one, the table is an orphan and the tree is empty.

use arbor_base::TreeId;
use arbor_engine::{Result, limits};

use crate::core::Core;
use crate::raw::{RowCursor, Session, Table};
use crate::records::{self, Tree};
use crate::writer::WriterState;

type RowSource<'r> = &'r mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>;

pub(crate) fn load(core: &Core, tree: TreeId, rows: RowSource<'_>) -> Result<()> {
    let mut session = core.connection.service_session()?;
    let (table, cursor) = begin(core, &mut session, tree)?;
    let filled = fill(&mut session, cursor, table, rows, core);
    let loaded = filled.and_then(|loaded| {
        let mut writer = core.usable_writer()?;
        check_empty(&mut writer, tree)?;
        core.edit(&mut writer, |edit| {
            edit.tree(tree)?;
            edit.set_tree(tree, loaded);
            Ok(())
        })
    });
    if loaded.is_err() {
        core.lock_writer().mark_dropped(&[table], 0, 0);
    }
    loaded
}

/// Makes the table, and opens the cursor while no checkpoint reads it.
fn begin(core: &Core, session: &mut Session, tree: TreeId) -> Result<(Table, RowCursor)> {
    let _no_checkpoint = core.flushing.lock();
    let mut writer = core.usable_writer()?;
    check_empty(&mut writer, tree)?;
    let options = records::options(&mut writer.session, tree)?;
    let table = writer.new_table();
    let config = core.options.create_config(&options)?;
    writer.tables_session.create(table, &config)?;
    match session.bulk(table) {
        Ok(cursor) => Ok((table, cursor)),
        Err(fault) => {
            writer.mark_dropped(&[table], 0, 0);
            Err(fault.into())
        }
    }
}

/// Errors: the tree holds rows, or is not there.
fn check_empty(writer: &mut WriterState, tree: TreeId) -> Result<()> {
    let record = *writer.trees.get(&tree).ok_or(arbor_engine::Error::UnknownTree(tree))?;
    let mut rows = writer.session.rows(record.table)?;
    let found = rows.first(&mut writer.session);
    rows.close(&mut writer.session)?;
    limits::check_empty(tree, u64::from(found?))
}

fn fill(session: &mut Session, mut cursor: RowCursor, table: Table, rows: RowSource<'_>, core: &Core) -> Result<Tree> {
    let appended = append_all(session, &mut cursor, table, rows);
    // Closing writes the rest; a checkpoint must not run during that.
    let _no_checkpoint = core.flushing.lock();
    let closed = cursor.close(session);
    let tree = appended?;
    closed?;
    Ok(tree)
}

fn append_all(session: &mut Session, cursor: &mut RowCursor, table: Table, rows: RowSource<'_>) -> Result<Tree> {
    let mut tree = Tree::empty(table);
    let mut last = None::<Vec<u8>>;
    for (key, value) in rows {
        limits::check_row(&key, &value)?;
        limits::check_ascending(last.as_deref(), &key)?;
        cursor.append(session, &key, &value)?;
        tree.add(1, (key.len() + value.len()) as u64);
        last = Some(key);
    }
    Ok(tree)
}
