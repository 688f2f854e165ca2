//! The load: `prepare` with batches of one thread, or `parallel_prepare` with single inserts of many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Percona, PerconaStatement, Tool};
use crate::workload::{Client, Execute, Mode, Operation, Row, Rows, Unit};

pub(super) fn streams(percona: &Percona, threads: usize) -> Vec<Box<dyn Client>> {
    let parallel = percona.parallel_prepare || percona.mode == Mode::Fixed;
    let threads = if parallel { threads.clamp(1, percona.shape.tables as usize) } else { 1 };
    let next = Arc::new(AtomicU32::new(1));
    let loader = || Loader { percona: *percona, next: next.clone(), table: 0, rows: None, batch: Vec::new() };
    (0..threads).map(|_| Box::new(loader()) as Box<dyn Client>).collect()
}

/// Indentation of the templates in the original's script: texts of loaded rows and of those of the run.
pub(super) const LOAD_INDENT: usize = 1;
pub(super) const RUN_INDENT: usize = 5;

/// Texts as the original made them.
pub(super) fn indent(percona: &Percona, by: usize, row: Row) -> Row {
    if (percona.tool, percona.mode) != (Tool::Sbp, Mode::Compat) {
        return row;
    }
    let blanks = " ".repeat(by);
    Row { c: format!("{blanks}{}", row.c), pad: format!("{blanks}{}", row.pad), ..row }
}

struct Loader {
    percona: Percona,
    next: Arc<AtomicU32>,
    table: u32,
    rows: Option<Rows>,
    batch: Vec<Row>,
}

impl Client for Loader {
    fn unit(&mut self, execute: &mut Execute<'_>) -> Unit {
        let (percona, one_by_one) = (self.percona, self.percona.parallel_prepare && self.percona.mode == Mode::Compat);
        loop {
            self.batch.clear();
            if let Some(rows) = &mut self.rows {
                let batch = rows.take(percona.batch as usize);
                self.batch.extend(batch.map(|row| indent(&percona, LOAD_INDENT, row)));
            }
            if !self.batch.is_empty() {
                let load = PerconaStatement::Load { table: self.table, rows: &self.batch, one_by_one };
                return execute(&Operation::Percona(load)).map_or(Unit::Abandoned, |_| Unit::Complete(&[]));
            }
            self.table = self.next.fetch_add(1, Ordering::Relaxed);
            if self.table > percona.shape.tables {
                return Unit::Finished;
            }
            self.rows = Some(Rows::of_table(self.table, percona.shape));
        }
    }
}
