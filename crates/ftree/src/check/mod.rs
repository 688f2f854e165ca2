//! Looking at a data file: is it right ([`verify()`]), what shape do the trees have ([`inspect()`]), and what can be read of a
//! damaged one ([`salvage()`]).
//!
//! All three take the directory's lock, read only, and change nothing.

pub mod inspect;
mod rows;
pub mod salvage;
mod scan;
mod table;
pub mod verify;

pub use inspect::inspect;
use rows::Rows;
pub use salvage::{Salvaged, salvage};
pub use verify::verify;

/// Totals of what was checked, and the defects that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub trees: u64,
    pub nodes: u64,
    pub tables: u64,
    pub blocks: u64,
    pub entries: u64,
    pub blobs: u64,
    /// Bytes of all extents in use.
    pub bytes: u64,
    pub findings: Vec<Finding>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// File and offset, or tree and keys.
    pub place: String,
    pub context: String,
}

impl Report {
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    fn find(&mut self, place: impl Into<String>, context: impl Into<String>) {
        self.findings.push(Finding { place: place.into(), context: context.into() });
    }

    /// An error of reading as a finding.
    fn find_error(&mut self, place: impl Into<String>, error: &crate::Error) {
        match error {
            crate::Error::Corrupt { place, context } => self.find(place, context),
            other => self.find(place, other.to_string()),
        }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.context)
    }
}
