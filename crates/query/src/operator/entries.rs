//! Index entries: of one scan, or of several that are merged.

use arbor_bson::DocBuf;

use super::{Detail, IndexScan, Run, SortMerge};
use crate::{Error, Result};

#[expect(clippy::large_enum_variant, reason = "each is made once per scan and never moved")]
pub(crate) enum Entries {
    Scan(IndexScan),
    Merged(Box<SortMerge>),
}

impl Entries {
    pub(crate) fn advance(&mut self, run: &mut Run<'_>) -> Result<bool> {
        match self {
            Entries::Scan(scan) => scan.advance(run),
            Entries::Merged(merge) => merge.advance(run),
        }
    }

    /// Returns the scan that is on the current entry.
    pub(crate) fn scan(&self) -> Result<&IndexScan> {
        let scan = match self {
            Entries::Scan(scan) => Some(scan),
            Entries::Merged(merge) => merge.scan(),
        };
        scan.ok_or_else(|| Error::internal("no index scan is on an entry"))
    }

    pub(crate) fn suspend(&mut self, run: &mut Run<'_>) {
        match self {
            Entries::Scan(scan) => scan.suspend(run),
            Entries::Merged(merge) => merge.suspend(run),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        match self {
            Entries::Scan(scan) => scan.is_done(),
            Entries::Merged(merge) => merge.is_done(),
        }
    }

    pub(crate) fn explain(&self, detail: Detail) -> DocBuf {
        match self {
            Entries::Scan(scan) => scan.explain("IXSCAN", detail),
            Entries::Merged(merge) => merge.explain(detail),
        }
    }
}
