//! One transaction of sysbench-mongodb (spec/workloads.md 2.4): 18 statements with the default counts.
//!
//! The table is chosen once per transaction, every id independently. Ranges near the end are not clamped and return less.

use super::{Client, Columns, Kind, Mode, Operation, Random, Range, Row, Shape, Workload, fill_groups};

/// How many statements of each sort one transaction has.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    pub points: u32,
    pub ranges: u32,
    pub sums: u32,
    pub orders: u32,
    pub distincts: u32,
    pub index_updates: u32,
    pub non_index_updates: u32,
    /// Pairs of remove and insert.
    pub inserts: u32,
    pub range_size: u32,
}

impl Default for Mix {
    fn default() -> Mix {
        Mix {
            points: 10,
            ranges: 1,
            sums: 1,
            orders: 1,
            distincts: 1,
            index_updates: 1,
            non_index_updates: 1,
            inserts: 1,
            range_size: 100,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Sysbench {
    pub shape: Shape,
    pub mix: Mix,
    pub mode: Mode,
}

impl Workload for Sysbench {
    fn unit(&self) -> Kind {
        Kind::Transaction
    }

    fn kinds(&self) -> &[Kind] {
        &[
            Kind::Transaction,
            Kind::PointQuery,
            Kind::RangeQuery,
            Kind::SumQuery,
            Kind::OrderQuery,
            Kind::DistinctQuery,
            Kind::IndexUpdate,
            Kind::NonIndexUpdate,
            Kind::Delete,
            Kind::Insert,
        ]
    }

    fn client(&self, seed: u64) -> Box<dyn Client> {
        Box::new(Stream { workload: *self, random: Random::new(seed), text: String::new() })
    }
}

struct Stream {
    workload: Sysbench,
    random: Random,
    text: String,
}

impl Stream {
    fn id(&mut self) -> i32 {
        self.random.up_to(self.workload.shape.rows) as i32
    }

    fn range(&mut self) -> Range {
        let from = self.id();
        Range { from, to: from.saturating_add(self.workload.mix.range_size as i32 - 1) }
    }

    fn reads(&mut self, table: u32, execute: &mut dyn FnMut(&Operation<'_>) -> bool) -> bool {
        let mix = self.workload.mix;
        // The original called its sum "average".
        let name = if self.workload.mode == Mode::Compat { "average" } else { "sum" };
        (0..mix.points).all(|_| execute(&Operation::Point { table, id: self.id(), columns: Columns::C }))
            && (0..mix.ranges).all(|_| execute(&Operation::Range { table, ids: self.range() }))
            && (0..mix.sums).all(|_| execute(&Operation::Sum { table, ids: self.range(), name }))
            && (0..mix.orders).all(|_| execute(&Operation::Order { table, ids: self.range() }))
            && (0..mix.distincts).all(|_| execute(&Operation::Distinct { table, ids: self.range() }))
    }

    fn writes(&mut self, table: u32, execute: &mut dyn FnMut(&Operation<'_>) -> bool) -> bool {
        let mix = self.workload.mix;
        (0..mix.index_updates).all(|_| execute(&Operation::IndexUpdate { table, id: self.id() }))
            && (0..mix.non_index_updates).all(|_| {
                let id = self.id();
                fill_groups(10, &mut self.random, &mut self.text);
                execute(&Operation::NonIndexUpdate { table, id, c: &self.text })
            })
            && (0..mix.inserts).all(|_| {
                let id = self.id();
                let row = Row::random(id.into(), self.workload.shape.rows, &mut self.random);
                execute(&Operation::Delete { table, id }) && execute(&Operation::Insert { table, row: &row })
            })
    }
}

impl Client for Stream {
    fn unit(&mut self, execute: &mut dyn FnMut(&Operation<'_>) -> bool) -> bool {
        let table = self.random.up_to(self.workload.shape.tables);
        self.reads(table, execute) && self.writes(table, execute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transaction(mode: Mode, seed: u64, stop_at: usize) -> (Vec<String>, Vec<Kind>, bool) {
        let shape = Shape { tables: 4, rows: 1000 };
        let (mut seen, mut kinds) = (Vec::new(), Vec::new());
        let complete = Sysbench { shape, mix: Mix::default(), mode }.client(seed).unit(&mut |operation| {
            seen.push(format!("{operation:?}"));
            kinds.push(operation.kind());
            seen.len() < stop_at
        });
        (seen, kinds, complete)
    }

    #[test]
    fn eighteen_statements_in_order() {
        let (_, kinds, complete) = transaction(Mode::Compat, 1, usize::MAX);
        use Kind::*;
        let tail = [RangeQuery, SumQuery, OrderQuery, DistinctQuery, IndexUpdate, NonIndexUpdate, Delete, Insert];
        assert!(complete);
        assert_eq!(kinds, [&[PointQuery; 10][..], &tail].concat());
    }

    #[test]
    fn an_error_abandons_the_rest() {
        let (seen, _, complete) = transaction(Mode::Compat, 1, 7);
        assert_eq!((seen.len(), complete), (7, false));
    }

    #[test]
    fn one_table_per_transaction_and_one_id_for_remove_and_insert() {
        for seed in 0..50 {
            let shape = Shape { tables: 4, rows: 1000 };
            let (mut tables, mut removed) = (Vec::new(), 0);
            Sysbench { shape, mix: Mix::default(), mode: Mode::Fixed }.client(seed).unit(&mut |operation| {
                tables.push(match *operation {
                    Operation::Point { table, columns, .. } => {
                        if columns == Columns::C {
                            table
                        } else {
                            0
                        }
                    }
                    Operation::Range { table, ids }
                    | Operation::Order { table, ids }
                    | Operation::Distinct { table, ids } => {
                        assert_eq!(ids.to - ids.from, 99);
                        table
                    }
                    Operation::Sum { table, name, .. } => {
                        if name == "sum" {
                            table
                        } else {
                            0
                        }
                    }
                    Operation::IndexUpdate { table, .. } => table,
                    Operation::NonIndexUpdate { table, c, .. } => {
                        if c.len() == 119 {
                            table
                        } else {
                            0
                        }
                    }
                    Operation::Delete { table, id } => {
                        removed = id;
                        table
                    }
                    Operation::Insert { table, row } => {
                        if row.id == i64::from(removed) {
                            table
                        } else {
                            0
                        }
                    }
                });
                true
            });
            assert!((1..=4).contains(&tables[0]) && tables.iter().all(|table| *table == tables[0]), "{tables:?}");
        }
    }

    #[test]
    fn seeds_decide_everything() {
        assert_eq!(transaction(Mode::Compat, 9, 99).0, transaction(Mode::Compat, 9, 99).0);
        assert_ne!(transaction(Mode::Compat, 9, 99).0, transaction(Mode::Compat, 10, 99).0);
    }
}
