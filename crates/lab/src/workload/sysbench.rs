//! One transaction of sysbench-mongodb (spec/workloads.md 2.4): 18 statements with the default counts.
//!
//! The table is chosen once per transaction, every id independently. Ranges near the end are not clamped and return less.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Client, Collection, Columns, Execute, Kind, Mode, Operation, Place, Random, Range, Row, Statement, Tables, Unit,
    Workload, fill_groups,
};

/// Statements of each kind in one transaction.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
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

/// Kinds of a transaction's statements, in their order.
pub const KINDS: [Kind; 10] = [
    Kind::TRANSACTION,
    Kind::POINT_QUERY,
    Kind::RANGE_QUERY,
    Kind::SUM_QUERY,
    Kind::ORDER_QUERY,
    Kind::DISTINCT_QUERY,
    Kind::INDEX_UPDATE,
    Kind::NON_INDEX_UPDATE,
    Kind::DELETE,
    Kind::INSERT,
];

#[derive(Clone, Copy, Debug)]
pub struct Sysbench {
    pub tables: Tables,
    pub mix: Mix,
}

impl Workload for Sysbench {
    fn unit(&self) -> Kind {
        Kind::TRANSACTION
    }

    fn kinds(&self) -> &'static [Kind] {
        &KINDS
    }

    fn is_divisible(&self) -> bool {
        true
    }

    fn settings(&self) -> Value {
        let mut settings = self.tables.settings();
        if let (Value::Object(all), Value::Object(mix)) = (&mut settings, json!(self.mix)) {
            all.extend(mix);
        }
        settings
    }

    fn database(&self) -> &'static str {
        Tables::DATABASE
    }

    fn collections(&self) -> Vec<Collection> {
        self.tables.collections()
    }

    fn loaders(&self, threads: usize) -> Vec<Box<dyn Client>> {
        self.tables.loaders(threads)
    }

    fn client(&self, _place: Place, seed: u64) -> Box<dyn Client> {
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
        self.random.up_to(self.workload.tables.shape.rows) as i32
    }

    fn range(&mut self) -> Range {
        let from = self.id();
        Range { from, to: from.saturating_add(self.workload.mix.range_size as i32 - 1) }
    }

    fn reads(&mut self, table: u32, run: &mut dyn FnMut(Statement<'_>) -> bool) -> bool {
        let mix = self.workload.mix;
        // The original called its sum "average".
        let name = if self.workload.tables.mode == Mode::Compat { "average" } else { "sum" };
        (0..mix.points).all(|_| run(Statement::Point { table, id: self.id(), columns: Columns::C }))
            && (0..mix.ranges).all(|_| run(Statement::Range { table, ids: self.range() }))
            && (0..mix.sums).all(|_| run(Statement::Sum { table, ids: self.range(), name }))
            && (0..mix.orders).all(|_| run(Statement::Order { table, ids: self.range() }))
            && (0..mix.distincts).all(|_| run(Statement::Distinct { table, ids: self.range() }))
    }

    fn writes(&mut self, table: u32, run: &mut dyn FnMut(Statement<'_>) -> bool) -> bool {
        let mix = self.workload.mix;
        (0..mix.index_updates).all(|_| run(Statement::IndexUpdate { table, id: self.id() }))
            && (0..mix.non_index_updates).all(|_| {
                let id = self.id();
                fill_groups(10, &mut self.random, &mut self.text);
                run(Statement::NonIndexUpdate { table, id, c: &self.text })
            })
            && (0..mix.inserts).all(|_| {
                let id = self.id();
                let row = Row::random(id.into(), self.workload.tables.shape.rows, &mut self.random);
                run(Statement::Delete { table, id }) && run(Statement::Insert { table, row: &row })
            })
    }
}

impl Client for Stream {
    fn unit(&mut self, execute: &mut Execute<'_>) -> Unit {
        let table = self.random.up_to(self.workload.tables.shape.tables);
        let mut run = |statement: Statement<'_>| execute(&Operation::Sysbench(statement)).is_some();
        match self.reads(table, &mut run) && self.writes(table, &mut run) {
            true => Unit::Complete(&[Kind::TRANSACTION]),
            false => Unit::Abandoned,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Answer, Shape};

    fn client(mode: Mode, seed: u64) -> Box<dyn Client> {
        let tables = Tables { shape: Shape { tables: 4, rows: 1000 }, mode, batch: 10 };
        Sysbench { tables, mix: Mix::default() }.client(Place { number: 0, of: 1 }, seed)
    }

    fn transaction(mode: Mode, seed: u64, stop_at: usize) -> (Vec<String>, Vec<Kind>, Unit) {
        let (mut seen, mut kinds) = (Vec::new(), Vec::new());
        let unit = client(mode, seed).unit(&mut |operation| {
            seen.push(format!("{operation:?}"));
            kinds.push(operation.kind());
            (seen.len() < stop_at).then_some(Answer::rows(1))
        });
        (seen, kinds, unit)
    }

    #[test]
    fn eighteen_statements_in_order() {
        let (_, kinds, unit) = transaction(Mode::Compat, 1, usize::MAX);
        assert_eq!(unit, Unit::Complete(&[Kind::TRANSACTION]));
        assert_eq!(kinds, [&[Kind::POINT_QUERY; 10], &KINDS[2..]].concat());
    }

    #[test]
    fn an_error_abandons_the_rest() {
        let (seen, _, unit) = transaction(Mode::Compat, 1, 7);
        assert_eq!((seen.len(), unit), (7, Unit::Abandoned));
    }

    #[test]
    fn one_table_per_transaction_and_one_id_for_remove_and_insert() {
        for seed in 0..50 {
            let (mut tables, mut removed) = (Vec::new(), 0);
            client(Mode::Fixed, seed).unit(&mut |operation| {
                let Operation::Sysbench(statement) = operation else { panic!("{operation:?}") };
                tables.push(match *statement {
                    Statement::Point { table, columns, .. } => {
                        if columns == Columns::C {
                            table
                        } else {
                            0
                        }
                    }
                    Statement::Range { table, ids }
                    | Statement::Order { table, ids }
                    | Statement::Distinct { table, ids } => {
                        assert_eq!(ids.to - ids.from, 99);
                        table
                    }
                    Statement::Sum { table, name, .. } => {
                        if name == "sum" {
                            table
                        } else {
                            0
                        }
                    }
                    Statement::IndexUpdate { table, .. } => table,
                    Statement::NonIndexUpdate { table, c, .. } => {
                        if c.len() == 119 {
                            table
                        } else {
                            0
                        }
                    }
                    Statement::Delete { table, id } => {
                        removed = id;
                        table
                    }
                    Statement::Insert { table, row } => {
                        if row.id == i64::from(removed) {
                            table
                        } else {
                            0
                        }
                    }
                    Statement::InsertRows { .. } => 0,
                });
                Some(Answer::rows(1))
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
