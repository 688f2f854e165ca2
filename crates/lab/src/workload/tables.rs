//! sysbench's tables and their load: each table by exactly one thread, batches in `_id` order (spec/workloads.md 2.3).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use super::{Client, Collection, Execute, Index, Mode, Operation, Row, Rows, Statement, Unit};

/// `sbtest1` .. `sbtestN`, ids `1..=rows` in each.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub tables: u32,
    pub rows: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct Tables {
    pub shape: Shape,
    pub mode: Mode,
    /// Rows per insert.
    pub batch: u32,
}

/// A table within this many rows of the number counts as loaded: runs remove and insert.
const SLACK: u64 = 1000;

impl Tables {
    pub const DATABASE: &'static str = "sbtest";

    pub fn settings(&self) -> Value {
        json!({ "tables": self.shape.tables, "docs": self.shape.rows, "batch": self.batch })
    }

    pub fn collections(&self) -> Vec<Collection> {
        let rows = u64::from(self.shape.rows);
        (1..=self.shape.tables)
            .map(|table| Collection {
                database: Tables::DATABASE,
                name: format!("sbtest{table}"),
                indexes: vec![Index::on(&["k"])],
                documents: rows.saturating_sub(SLACK).max(1)..=rows + SLACK,
                sequence: false,
                sharding: None,
            })
            .collect()
    }

    /// A thread that has loaded a table takes the next one.
    pub fn loaders(&self, threads: usize) -> Vec<Box<dyn Client>> {
        let next = Arc::new(AtomicU32::new(1));
        let loader = || Loader { tables: *self, next: next.clone(), table: 0, rows: None, batch: Vec::new() };
        (0..threads.clamp(1, self.shape.tables.max(1) as usize))
            .map(|_| Box::new(loader()) as Box<dyn Client>)
            .collect()
    }

    /// The original rounds down to whole batches.
    fn rows_loaded(&self) -> u32 {
        match self.mode {
            Mode::Compat => self.shape.rows / self.batch.max(1) * self.batch,
            Mode::Fixed => self.shape.rows,
        }
    }
}

struct Loader {
    tables: Tables,
    next: Arc<AtomicU32>,
    table: u32,
    /// Rows of `table` that are not inserted yet.
    rows: Option<std::iter::Take<Rows>>,
    batch: Vec<Row>,
}

impl Client for Loader {
    fn unit(&mut self, execute: &mut Execute<'_>) -> Unit {
        loop {
            self.batch.clear();
            if let Some(rows) = &mut self.rows {
                self.batch.extend(rows.take(self.tables.batch as usize));
            }
            if !self.batch.is_empty() {
                let insert = Operation::Sysbench(Statement::InsertRows { table: self.table, rows: &self.batch });
                return execute(&insert).map_or(Unit::Abandoned, |_| Unit::Complete(&[]));
            }
            self.table = self.next.fetch_add(1, Ordering::Relaxed);
            if self.table > self.tables.shape.tables {
                return Unit::Finished;
            }
            self.rows = Some(Rows::of_table(self.table, self.tables.shape).take(self.tables.rows_loaded() as usize));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Answer;

    fn loaded(mode: Mode, threads: usize) -> Vec<(u32, usize)> {
        let tables = Tables { shape: Shape { tables: 3, rows: 25 }, mode, batch: 10 };
        let mut seen = Vec::new();
        for mut loader in tables.loaders(threads) {
            while loader.unit(&mut |operation| {
                let Operation::Sysbench(Statement::InsertRows { table, rows }) = operation else {
                    panic!("{operation:?}")
                };
                seen.push((*table, rows.len()));
                Some(Answer::rows(rows.len() as u64))
            }) != Unit::Finished
            {}
        }
        seen
    }

    #[test]
    fn every_table_is_loaded_in_batches() {
        let whole = [(1, 10), (1, 10), (1, 5), (2, 10), (2, 10), (2, 5), (3, 10), (3, 10), (3, 5)];
        assert_eq!(loaded(Mode::Fixed, 8), whole);
        // The original drops the remainder.
        assert_eq!(loaded(Mode::Compat, 1), [(1, 10), (1, 10), (2, 10), (2, 10), (3, 10), (3, 10)]);
    }
}
