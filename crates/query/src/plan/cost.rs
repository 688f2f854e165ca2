//! Cost of a candidate plan, in index keys read.
//!
//! The engine estimates how many entries are inside the bounds. How many of the documents they lead to match is unknown
//! until some were read: without a trial it is guessed, with one it is measured.

/// Fetching a document.
const FETCH_COST: f64 = 4.0;
/// An entry that holds the document. A little more than a record, so that the collection's own order is preferred where
/// both would do.
const CLUSTERING_COST: f64 = 1.1;
/// Keeping a row in a sort.
const SORT_COST: f64 = 4.0;
/// Assumed number of rows read for one that is kept, with a limit and a filter above the scan.
const ROWS_PER_HIT: f64 = 10.0;
/// Assumed share of the keys that one component after the first range leaves; at least this.
const NARROWED: f64 = 0.7;
const NARROWED_LEAST: f64 = 0.1;

/// Source that one entry is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// The key is enough.
    Key,
    /// The record itself, or an entry that holds the document.
    Record,
    Clustering,
    /// The key, then the document.
    KeyAndDocument,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Estimated entries inside the bounds.
    pub keys: f64,
    /// Components after the first range that are bounded.
    pub narrowing: usize,
    pub reads: Reads,
    /// The bounds settle the whole filter: every entry is a row.
    pub settled: bool,
    /// All rows are read before the first is returned.
    pub sorts: bool,
    /// Rows that are requested; None: all.
    pub rows: Option<u64>,
    /// Scans that are merged, each of which reads one key ahead.
    pub scans: usize,
}

/// Measurements of a trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub works: u64,
    pub advanced: u64,
    pub ended: bool,
}

impl Cost {
    pub(crate) fn guessed(&self) -> f64 {
        let keys = self.keys * NARROWED.powi(self.narrowing as i32);
        self.of(keys, if self.settled { 1.0 } else { ROWS_PER_HIT })
    }

    /// If every document that is read matches.
    pub(crate) fn least(&self) -> f64 {
        self.of(self.keys * NARROWED_LEAST.powi(self.narrowing as i32), 1.0)
    }

    /// If nothing matches until the end.
    pub(crate) fn most(&self) -> f64 {
        self.of(self.keys, if self.settled { 1.0 } else { f64::MAX })
    }

    /// With what a trial found in place of guesses.
    pub(crate) fn measured(&self, seen: &Measured) -> f64 {
        let works = seen.works.max(1) as f64;
        let hits = (seen.advanced as f64).max(0.5) / works;
        let keys = match seen.ended {
            true => works,
            false => (self.keys * NARROWED.powi(self.narrowing as i32)).max(works),
        };
        let read = match self.rows {
            Some(rows) if !self.sorts => keys.min(rows as f64 / hits),
            _ => keys,
        };
        read * self.row() + if self.sorts { read * hits * SORT_COST } else { 0.0 }
    }

    fn of(&self, keys: f64, rows_per_hit: f64) -> f64 {
        let read = match self.rows {
            Some(rows) if !self.sorts => keys.min(rows as f64 * rows_per_hit),
            _ => keys,
        };
        read * (self.row() + if self.sorts { SORT_COST } else { 0.0 }) + self.scans as f64
    }

    fn row(&self) -> f64 {
        match self.reads {
            Reads::Key | Reads::Record => 1.0,
            Reads::Clustering => CLUSTERING_COST,
            Reads::KeyAndDocument => 1.0 + FETCH_COST,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCAN: Cost = Cost {
        keys: 100_000.0,
        narrowing: 0,
        reads: Reads::KeyAndDocument,
        settled: false,
        sorts: false,
        rows: Some(10),
        scans: 0,
    };

    #[test]
    fn a_limit_helps_as_far_as_documents_match() {
        assert_eq!((SCAN.least(), SCAN.guessed(), SCAN.most()), (50.0, 500.0, 500_000.0));
        let all = Cost { rows: None, ..SCAN };
        assert_eq!((all.least(), all.guessed(), all.most()), (500_000.0, 500_000.0, 500_000.0));
        let settled = Cost { settled: true, ..SCAN };
        assert_eq!((settled.least(), settled.most()), (50.0, 50.0));
        let sorted = Cost { sorts: true, keys: 100.0, ..SCAN };
        assert_eq!((sorted.least(), sorted.most()), (900.0, 900.0));
    }

    #[test]
    fn a_trial_measures_how_many_match() {
        let none = Measured { works: 1000, advanced: 0, ended: false };
        assert_eq!(SCAN.measured(&none), 100_000.0);
        let half = Measured { advanced: 500, ..none };
        assert_eq!(SCAN.measured(&half), 100.0);
        let ended = Measured { ended: true, ..none };
        assert_eq!(SCAN.measured(&ended), 5000.0);
    }
}
