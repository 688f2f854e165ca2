//! Outcomes of write statements.

use arbor_bson::{DocBuf, Value};

use crate::Error;

/// One statement of a batch that failed; `index` is its place in the request.
#[derive(Debug)]
pub struct WriteError {
    pub index: usize,
    pub error: Error,
}

#[derive(Debug, Default)]
pub struct InsertOutcome {
    pub inserted: u64,
    pub errors: Vec<WriteError>,
}

#[derive(Debug, Default)]
pub struct UpdateOutcome {
    /// Documents that the statements selected. Upserted documents are not among them.
    pub matched: u64,
    pub modified: u64,
    pub upserted: Vec<Upserted>,
    /// The statements that succeeded, in order.
    pub each: Vec<UpdateDone>,
    pub errors: Vec<WriteError>,
}

/// Outcome of statement `index`.
#[derive(Debug)]
pub struct UpdateDone {
    pub index: usize,
    pub matched: u64,
    pub modified: u64,
}

#[derive(Debug)]
pub struct Upserted {
    pub index: usize,
    pub id: Value,
}

#[derive(Debug, Default)]
pub struct DeleteOutcome {
    pub deleted: u64,
    /// The statements that succeeded, in order, with what each deleted.
    pub each: Vec<(usize, u64)>,
    pub errors: Vec<WriteError>,
}

#[derive(Clone, Debug, Default)]
pub struct FindAndModifyOutcome {
    /// The document before or after the change, projected; None: nothing to return (`value: null`).
    pub value: Option<DocBuf>,
    /// Documents found or upserted (0 or 1).
    pub n: u64,
    pub updated_existing: bool,
    pub upserted: Option<Value>,
}
