//! Reads that find the cache full.
//!
//! WiredTiger ends a call that has waited long for room in the cache (`cache_max_wait_ms`), because what fills the cache may be pages
//! of calls that wait themselves. The call that has ended holds no page, so that the others get on; it is made again.

use std::time::{Duration, Instant};

use arbor_base::{aside, memory::values};
use arbor_engine::{Error, Result};

/// Maximum of all waits of a read for room.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pause before a call is made again, in which others use the room that it gave up.
const PAUSE: Duration = Duration::from_millis(20);

/// Makes a call again while the cache is full and the statement of this thread may wait.
/// Errors: `CacheFull`, after which the call holds no page.
#[inline]
pub(crate) fn patiently<T>(mut read: impl FnMut() -> Result<T>) -> Result<T> {
    match read() {
        Err(full @ Error::CacheFull { .. }) => aside::wait(|| again(full, &mut read)),
        outcome => outcome,
    }
}

#[cold]
fn again<T>(mut full: Error, read: &mut impl FnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    while values::may_wait() && Instant::now() < deadline {
        std::thread::sleep(PAUSE);
        match read() {
            Err(error @ Error::CacheFull { .. }) => full = error,
            outcome => return outcome,
        }
    }
    Err(full)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use arbor_base::{Random, TreeId, memory};
    use arbor_engine::{Batch, Op, Snapshot, TreeOptions};

    use super::*;
    use crate::core::Core;
    use crate::options::{CACHE_BYTES_MIN, WiredTigerOptions};
    use crate::raw::Connection;
    use crate::snapshot::WiredTigerSnapshot;

    const TREE: TreeId = TreeId(1);

    fn open(dir: &Path) -> Core {
        let config_string = "cache_max_wait_ms=50,checkpoint_sync=false".to_owned();
        let options = WiredTigerOptions { cache_bytes: CACHE_BYTES_MIN, config_string, ..WiredTigerOptions::default() };
        Core::new(&Connection::open(dir, &options.open_config()).unwrap(), options).unwrap()
    }

    fn apply(core: &Core, ops: Vec<Op>) {
        let position = core.published.committed().applied.next();
        core.apply(&[Batch { position, ops }]).unwrap();
    }

    fn put(n: u8, bytes: usize) -> Op {
        Op::Put { tree: TREE, key: vec![n], value: Random::new(n.into()).bytes(bytes) }
    }

    #[test]
    fn calls_end_and_commits_get_through_when_the_cache_stays_full() {
        let scratch = tempfile::tempdir().unwrap();
        let core = open(scratch.path());
        apply(&core, vec![Op::CreateTree { tree: TREE, options: TreeOptions::default() }]);
        (1..=4).for_each(|n| apply(&core, vec![put(n, 14_000_000)]));
        core.checkpoint().unwrap();
        drop(core);

        let core = open(scratch.path());
        let snapshot = Arc::new(WiredTigerSnapshot::new(&core.reading).unwrap());
        let mut reader = core.connection.session().unwrap();
        reader.begin().unwrap();
        let mut pages = Vec::new();
        for n in 1..=3 {
            let mut page = reader.rows(core.table_of(TREE).unwrap()).unwrap();
            assert!(page.seek(&mut reader, &[n]).unwrap());
            pages.push(page);
        }
        assert!(core.cache_used_bytes().unwrap() > core.cache_bytes());

        let read = || snapshot.get(TREE, &[4]).map(|row| row.map(|row| row.len()));
        let ended = values::for_statement(memory::process(), values::READ_COPIES, || false, read);
        assert!(matches!(ended, Err(Error::CacheFull { .. })), "{ended:?}");
        let mut cursor = snapshot.cursor(TREE).unwrap();
        let ended = values::for_statement(memory::process(), values::READ_COPIES, || false, || cursor.last());
        assert!(matches!(ended, Err(Error::CacheFull { .. })), "{ended:?}");
        core.checkpoint().unwrap();

        apply(&core, vec![put(4, 100), Op::CreateTree { tree: TreeId(2), options: TreeOptions::default() }]);
        assert_eq!(WiredTigerSnapshot::new(&core.reading).unwrap().get(TREE, &[4]).unwrap().unwrap().len(), 100);
        drop(pages);
        drop(reader);
        assert_eq!(read().unwrap(), Some(14_000_000), "a snapshot stays as it is");
        assert!(cursor.last().unwrap() && cursor.key() == [4] && cursor.value().len() == 14_000_000);
    }
}
