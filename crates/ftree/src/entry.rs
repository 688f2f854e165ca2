//! Entries of memtables and tables.
//!
//! Entries of one origin have the order *key ascending, then newest first* (E1). Of entries with the same key and
//! sequence number the one inserted last is the newest and comes first.

use crate::Seq;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    Put = 0,
    Delete = 1,
    /// Changes whatever older row there is. The value is a chain: see [`crate::update`].
    Update = 2,
    /// A put whose value is in an extent of its own; the value is an encoded [`crate::blob::BlobPointer`].
    PutBlob = 3,
}

impl Kind {
    pub fn from_byte(byte: u8) -> Option<Kind> {
        [Kind::Put, Kind::Delete, Kind::Update, Kind::PutBlob].get(usize::from(byte)).copied()
    }

    /// Returns true if older entries do not matter.
    pub fn is_final(self) -> bool {
        self != Kind::Update
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    pub key: &'a [u8],
    pub seq: Seq,
    pub kind: Kind,
    pub value: &'a [u8],
}

/// Deletes what is older than `seq` in `from <= key < to` (`to == None`: to the end of the tree).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RangeTombstone {
    pub from: Vec<u8>,
    pub to: Option<Vec<u8>>,
    pub seq: Seq,
}

impl RangeTombstone {
    pub fn covers(&self, key: &[u8]) -> bool {
        self.from.as_slice() <= key && self.to.as_deref().is_none_or(|to| key < to)
    }
}
