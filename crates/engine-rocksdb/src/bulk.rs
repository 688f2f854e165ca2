//! Filling a tree from sorted files.
//!
//! 1. A new content is noted as loading; batches and checkpoints continue meanwhile.
//! 2. The rows go into table files next to the database, and RocksDB takes these over. That is durable at once, while the
//!    note of step 1 may be in memory only.
//! 3. One write gives the tree the new content and removes the note.
//!
//! A crash before step 3 is durable leaves the tree empty. What was taken over is found at open: by its note, or as a
//! content that no state knows (from `next_content` on), and is dropped.

use std::path::PathBuf;

use arbor_base::TreeId;
use arbor_engine::{Result, limits};

use crate::core::Core;
use crate::directory::load_file;
use crate::raw::SortedFile;
use crate::records::{self, Content};

type RowSource<'r> = &'r mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>;

pub(crate) fn load(core: &Core, tree: TreeId, rows: RowSource<'_>) -> Result<()> {
    let content = core.edit(|edit| {
        edit.check_empty(tree)?;
        // A number stays free before it: RocksDB counts the end of a range tombstone, which is the next content's
        // first key, as covered, and would want a flush before it takes the file over.
        edit.new_content();
        let content = edit.new_content();
        records::put_loading(&mut edit.batch, content);
        Ok(content)
    })?;
    let mut files = Files { core, content, paths: Vec::new() };
    let loaded = files.fill(rows).and_then(|()| {
        core.edit(|edit| {
            edit.check_empty(tree)?;
            let old = edit.tree(tree)?.content;
            edit.mark_dropped(old);
            edit.set_content(tree, content);
            records::delete_loading(&mut edit.batch, content);
            Ok(())
        })
    });
    if loaded.is_err() {
        // If this fails as well, the next open finds the note.
        let _ = core.edit(|edit| {
            records::delete_loading(&mut edit.batch, content);
            edit.mark_dropped(content);
            Ok(())
        });
    }
    loaded
}

/// The files of one load; those that RocksDB did not take over go with it.
struct Files<'c> {
    core: &'c Core,
    content: Content,
    paths: Vec<PathBuf>,
}

impl<'c> Files<'c> {
    fn fill(&mut self, rows: RowSource<'_>) -> Result<()> {
        let (mut last, mut file, mut file_bytes) = (None::<Vec<u8>>, None::<SortedFile<'c>>, 0);
        for (key, value) in rows {
            limits::check_row(&key, &value)?;
            limits::check_ascending(last.as_deref(), &key)?;
            if file_bytes >= self.core.options.load_file_bytes {
                file.take().map_or(Ok(()), SortedFile::finish)?;
                file_bytes = 0;
            }
            let open = match &mut file {
                Some(open) => open,
                None => file.insert(self.next_file()?),
            };
            open.put(self.content, &key, &value)?;
            file_bytes += (key.len() + value.len()) as u64;
            last = Some(key);
        }
        file.take().map_or(Ok(()), SortedFile::finish)?;
        if !self.paths.is_empty() {
            self.core.db.ingest(&self.paths)?;
            self.core.expansion.refresh(&self.core.db);
        }
        Ok(())
    }

    fn next_file(&mut self) -> Result<SortedFile<'c>> {
        let path = load_file(self.core.db.dir(), self.content.0, self.paths.len());
        self.paths.push(path.clone());
        self.core.db.sorted_file(&path)
    }
}

impl Drop for Files<'_> {
    fn drop(&mut self) {
        for path in &self.paths {
            // Taken over: moved away. Else what stays is removed at the next open.
            let _ = std::fs::remove_file(path);
        }
    }
}
