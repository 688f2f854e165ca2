//! Durability levels of acknowledged writes.

/// The level that an acknowledged commit has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// In the log's buffers and visible; it survives the process, and a power failure after the next commit interval.
    Applied,
    /// On the disk.
    Journaled,
}
