//! The cuts that a log has seen since it was opened, so that readers and waiters notice the ones that concern them.
//!
//! A cut changes what is in memory, then notes itself here, then changes the files. A reader compares the generation before and
//! after it has read: what it read in the same generation is a record of the log as it was then.

use std::sync::atomic::{AtomicU64, Ordering::*};

use parking_lot::Mutex;

#[derive(Debug, Default)]
pub(crate) struct Cuts {
    generation: AtomicU64,
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    /// Last position that the cut left, by cut, without the oldest ones.
    kept: Vec<u64>,
    forgotten: u64,
}

const CUTS_MAX: usize = 1024;

impl Cuts {
    /// Number of cuts so far.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }

    pub(crate) fn note(&self, kept: u64) {
        let mut noted = self.noted.lock();
        if noted.kept.len() >= CUTS_MAX {
            noted.kept.drain(..CUTS_MAX / 2);
            noted.forgotten += (CUTS_MAX / 2) as u64;
        }
        noted.kept.push(kept);
        self.generation.fetch_add(1, AcqRel);
    }

    /// The last position that all cuts since `generation` have left; 0 if some of them are forgotten.
    pub(crate) fn kept_since(&self, generation: u64) -> u64 {
        let noted = self.noted.lock();
        let Some(from) = generation.checked_sub(noted.forgotten) else { return 0 };
        let since = noted.kept.iter().skip(usize::try_from(from).unwrap_or(usize::MAX));
        since.min().copied().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_cut_since_a_generation_counts() {
        let cuts = Cuts::default();
        assert_eq!((cuts.generation(), cuts.kept_since(0)), (0, u64::MAX));
        [50, 20, 30].into_iter().for_each(|kept| cuts.note(kept));
        assert_eq!([0, 1, 2, 3].map(|generation| cuts.kept_since(generation)), [20, 20, 30, u64::MAX]);
        (0..2000).for_each(|_| cuts.note(40));
        assert_eq!(cuts.kept_since(3), 0, "forgotten cuts count as the deepest");
        assert_eq!(cuts.kept_since(cuts.generation() - 1), 40);
    }
}
