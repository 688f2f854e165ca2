//! YCSB's operations on a key-value store of records (spec/workloads.md 8.5).

use crate::workload::Kind;

pub type Field<'a> = (&'a str, &'a [u8]);

#[derive(Clone, Copy, Debug)]
pub enum YcsbOperation<'a> {
    /// One record; all fields, or the one named.
    Read {
        key: &'a str,
        field: Option<&'a str>,
    },
    /// Sets fields.
    Update {
        key: &'a str,
        fields: &'a [Field<'a>],
    },
    Insert(Record<'a>),
    /// As many records from `key` on, in the order of keys.
    Scan {
        key: &'a str,
        limit: u32,
    },
    /// A batch of the load, unordered.
    Load(&'a [Record<'a>]),
    /// One record of the load as YCSB of 2015 sent it: a replacement that inserts.
    LoadByReplacing(Record<'a>),
}

#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub key: &'a str,
    pub fields: &'a [Field<'a>],
}

impl YcsbOperation<'_> {
    pub const READ: Kind = Kind::new("read");
    pub const UPDATE: Kind = Kind::new("update");
    pub const SCAN: Kind = Kind::new("scan");
    pub const READ_MODIFY_WRITE: Kind = Kind::new("read_modify_write");

    pub fn kind(&self) -> Kind {
        match self {
            YcsbOperation::Read { .. } => YcsbOperation::READ,
            YcsbOperation::Update { .. } => YcsbOperation::UPDATE,
            YcsbOperation::Insert(_) => Kind::INSERT,
            YcsbOperation::Scan { .. } => YcsbOperation::SCAN,
            YcsbOperation::Load(_) | YcsbOperation::LoadByReplacing(_) => Kind::INSERT_BATCH,
        }
    }
}
