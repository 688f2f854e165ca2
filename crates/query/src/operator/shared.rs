//! Rows that several operators read one after the other: the input of `$facet`. The first ones are in memory; what does not
//! fit is on disk, if the statement allows it.

use std::sync::Arc;

use arbor_base::memory::Allowance;
use arbor_bson::DocBuf;
use arbor_lang::Code;
use arbor_store::{Spool, SpoolReader, SpoolWriter};

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::{Error, Memory, Result};

/// Rows being collected.
pub(crate) struct Sharing {
    memory: Memory,
    allowance: Allowance,
    rows: Vec<Row>,
    bytes: usize,
    rest: Option<SpoolWriter>,
}

/// Rows that were collected; copies share them.
#[derive(Clone)]
pub(crate) struct Shared {
    rows: Arc<MemoryRows>,
    rest: Option<Spool>,
}

/// The rows in memory.
struct MemoryRows {
    rows: Vec<Row>,
    _allowance: Allowance,
}

impl Sharing {
    pub(crate) fn new(memory: Memory) -> Sharing {
        let allowance = memory.allowance();
        Sharing { memory, allowance, rows: Vec::new(), bytes: 0, rest: None }
    }

    pub(crate) fn push(&mut self, row: Row) -> Result<()> {
        let row = Row { id_key: Vec::new(), ..row };
        if let Some(rest) = &mut self.rest {
            return Ok(rest.push(&row.encode())?);
        }
        self.bytes += row.bytes();
        if self.allowance.covers(self.bytes) {
            self.rows.push(row);
            return Ok(());
        }
        let Some(directory) = &self.memory.scratch else {
            let message = "Exceeded memory limit for $facet, but didn't allow external storage. Pass allowDiskUse:true \
                           to opt in.";
            return Err(Error::new(Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED, message));
        };
        let rest = self.rest.insert(SpoolWriter::new(directory)?);
        Ok(rest.push(&row.encode())?)
    }

    pub(crate) fn finish(self) -> Result<Shared> {
        let rest = self.rest.map(SpoolWriter::finish).transpose()?;
        Ok(Shared { rows: Arc::new(MemoryRows { rows: self.rows, _allowance: self.allowance }), rest })
    }
}

impl Shared {
    pub(crate) fn used_disk(&self) -> bool {
        self.rest.is_some()
    }
}

pub(crate) struct SharedRows {
    rows: Arc<MemoryRows>,
    at: usize,
    rest: Option<SpoolReader>,
    tally: Tally,
}

impl SharedRows {
    pub(crate) fn new(rows: Shared) -> SharedRows {
        let rest = rows.rest.as_ref().map(Spool::read);
        SharedRows { rows: rows.rows, at: 0, rest, tally: Tally::default() }
    }
}

impl Operator for SharedRows {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        run.tick()?;
        let row = match (self.rows.rows.get(self.at), &mut self.rest) {
            (Some(row), _) => Some(row.clone()),
            (None, Some(rest)) => rest.next()?.map(Row::decode).transpose()?,
            (None, None) => None,
        };
        self.at += 1;
        Ok(self.tally.answer(row))
    }

    fn suspend(&mut self, _run: &mut Run<'_>) {}

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("SHARED", detail).tally(&self.tally).finish()
    }
}
