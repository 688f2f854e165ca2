//! Reading records, index entries and the catalogue as a snapshot has it; the layout of records and entries.

pub(crate) mod cursor;
pub(crate) mod entry;
pub(crate) mod in_order;
pub(crate) mod past;
pub(crate) mod record;
