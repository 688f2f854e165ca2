//! Default memory limit of the server, and the part of it that caches get.
//!
//! | size | sum |
//! |---|---|
//! | limit | `--memoryLimit`, else four fifths of the memory of the machine or of the control group, whichever is less, with 56 MB of that memory left at least, or half of it if that is less: resident memory stays within 1.15 times the limit, so below the group's; documents of 16 MB exceed limits below 160 MB for moments |
//! | cache of an engine that reads past the page cache | `--cacheSize` and its like; three quarters of the limit, which is also the most |
//! | caches of other engines | `--cacheSize` and its like, else half of what is left of the memory after 1 GB, at least 64 MB; at most five eighths of the limit |
//!
//! Caches have what the process needs for nothing else at the moment (`monitor`): these are their sizes at most.

use std::path::Path;

use arbor_base::memory::machine::memory_limit;

use crate::config::Settings;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Memory that the server, its connections and the operating system need in addition to the cache.
const APART: u64 = GIB;
/// Memory of a small control group that is left beyond the default limit: for kernel memory, and for what engines allocate at
/// once for the largest documents.
const SPARE_MIN: u64 = 56 * MIB;
const CACHE_MIN: u64 = 64 * MIB;
/// Limits from which on the fractal tree reads past the page cache: a control group of 192 MB has 136.
const DIRECT_MIN: u64 = 128 * MIB;
/// Below this, a cache of less than half of the limit that was asked for leaves the rest to the page cache.
const DIRECT_ALWAYS_MIN: u64 = 384 * MIB;
/// A smaller cache is of no use to any engine.
const CACHE_LEAST: u64 = 8 * MIB;

/// Sizes of one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// `None`: neither was a limit given nor is it known what memory there is.
    pub limit: Option<u64>,
    memory: u64,
}

impl Sizes {
    pub(crate) fn of(settings: &Settings) -> Sizes {
        Sizes::from(settings.memory_limit, memory_limit(Path::new("/")))
    }

    fn from(given: Option<u64>, memory: Option<u64>) -> Sizes {
        let limit =
            given.or(memory.map(|memory| (memory / 5 * 4).min(memory.saturating_sub(SPARE_MIN).max(memory / 2))));
        // a given limit implies the memory of which it would be the default limit
        Sizes { limit, memory: given.map(|limit| limit / 4 * 5).or(memory).unwrap_or(0) }
    }

    /// Returns the cache of the only engine of a server.
    pub(crate) fn cache(self) -> u64 {
        let usual = (self.memory.saturating_sub(APART) / 2).max(CACHE_MIN);
        self.bounded_cache(usual)
    }

    /// Returns true if an engine that can do without the page cache should. With less memory a large part is left unused for large documents,
    /// and only the page cache makes use of it meanwhile. `cache`: its size, if that is known.
    pub(crate) fn is_for_direct_io(self, cache: Option<u64>) -> bool {
        let is_large = |limit| limit >= DIRECT_ALWAYS_MIN || cache.is_none_or(|cache| cache >= limit / 2);
        self.limit.is_none_or(|limit| limit >= DIRECT_MIN && is_large(limit))
    }

    /// Returns the cache of the only engine of a server, if the page cache holds nothing of its data.
    pub(crate) fn direct_cache(self) -> u64 {
        self.limit.map_or(CACHE_MIN, |limit| (limit / 4 * 3).max(CACHE_LEAST))
    }

    /// A cache that was asked for, of an engine that reads past the page cache.
    pub(crate) fn bounded_direct_cache(self, asked: u64) -> u64 {
        self.limit.map_or(asked, |_| asked.min(self.direct_cache()))
    }

    /// Returns the cache of one of several engines.
    pub(crate) fn part_of_cache(self, parts: u64) -> u64 {
        (self.cache() / parts).max(CACHE_LEAST)
    }

    /// A cache that was asked for, as far as the limit has room for it.
    pub(crate) fn bounded_cache(self, asked: u64) -> u64 {
        self.limit.map_or(asked, |limit| asked.min((limit / 8 * 5).max(CACHE_LEAST)))
    }

    /// Returns true if engines should use less memory than their defaults.
    pub(crate) fn is_small(self) -> bool {
        self.limit.is_some_and(|limit| limit < 2 * GIB)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_sizes_leave_room() {
        let check = |given: Option<u64>, memory: Option<u64>, limit: Option<u64>, cache: u64| {
            let sizes = Sizes::from(given, memory);
            assert_eq!((sizes.limit, sizes.cache()), (limit, cache), "{given:?} {memory:?}");
        };
        check(None, None, None, 64 * MIB);
        check(None, Some(10 * GIB), Some(8 * GIB), 9 * GIB / 2);
        check(None, Some(GIB / 4 * 5), Some(GIB), GIB / 8);
        check(None, Some(240 * MIB), Some(184 * MIB), 64 * MIB);
        check(None, Some(100 * MIB), Some(50 * MIB), 50 * MIB / 8 * 5);
        check(Some(96 * MIB), Some(10 * GIB), Some(96 * MIB), 60 * MIB);
        check(Some(8 * GIB), Some(64 * GIB), Some(8 * GIB), 9 * GIB / 2);
        check(Some(1), None, Some(1), 8 * MIB);
    }

    #[test]
    fn a_cache_leaves_room_for_work() {
        let sizes = Sizes::from(Some(256 * MIB), None);
        assert_eq!((sizes.bounded_cache(128 * MIB), sizes.bounded_cache(GIB)), (128 * MIB, 160 * MIB));
        assert_eq!(Sizes::from(None, None).bounded_cache(GIB), GIB);
        let past_page_cache = [64 * MIB, GIB].map(|asked| sizes.bounded_direct_cache(asked));
        assert_eq!(past_page_cache, [64 * MIB, sizes.direct_cache()]);
        let is_direct = |memory, cache| Sizes::from(None, Some(memory)).is_for_direct_io(cache);
        assert!(is_direct(192 * MIB, None) && is_direct(64 * GIB, None) && !is_direct(180 * MIB, None));
        assert!(is_direct(192 * MIB, Some(68 * MIB)) && !is_direct(192 * MIB, Some(67 * MIB)));
        assert!(is_direct(512 * MIB, Some(MIB)) && Sizes::from(None, None).is_for_direct_io(Some(MIB)));
        assert_eq!((sizes.direct_cache() / MIB, Sizes::from(None, None).direct_cache()), (192, 64 * MIB));
        assert_eq!(sizes.part_of_cache(8), 8 * MIB);
        assert!(sizes.is_small() && !Sizes::from(None, None).is_small());
    }
}
