//! File descriptors: how many the process may have, and how many of them connections may take.
//!
//! A connection takes one. The rest is for the log (a segment, the next one, readers), the engines' files, temporary files of
//! statements, and the process itself: a server that cannot open its next log segment can write nothing.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are kept back from connections: a fifth, as mongod keeps, but not fewer than this. One statement has at
/// most a temporary file for each of its sorts and groups; LMDB has 6 files, the log 3 and one for each of its readers, the
/// fractal tree 2, RocksDB and WiredTiger one for each of their files.
const KEPT_MIN: u64 = 256;
/// mongod warns below this.
pub(crate) const RECOMMENDED: u64 = 64_000;

/// Raises the limit of the process as far as it may. Returns what it is then.
pub(crate) fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // Where it cannot be raised it stays, and connections are limited by what it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Connections that may be open at a time, of those that were asked for.
pub(crate) fn connections_max(asked: usize, limit: u64) -> usize {
    let kept = (limit / 5).max(KEPT_MIN).min(limit / 2);
    let possible = usize::try_from(limit - kept).unwrap_or(usize::MAX);
    asked.min(possible)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_rest() {
        for (limit, expect) in [(1_048_576, 65_536), (64_000, 51_200), (1024, 768), (300, 150), (u64::MAX, 65_536)] {
            assert_eq!(connections_max(65_536, limit), expect, "{limit}");
        }
        assert_eq!(connections_max(100, 64_000), 100);
    }
}
