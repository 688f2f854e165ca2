//! Reading records, index entries and the catalogue as a snapshot has it; the layout of records and entries.

pub mod cursor;
pub mod entry;
pub mod past;
pub mod record;
