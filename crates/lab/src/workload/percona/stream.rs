//! One event of a script: a transaction of statements that each choose their table (spec/workloads.md 3.1, 3.2).

use super::load::{RUN_INDENT, indent};
use super::{Percona, PerconaStatement, Script, Tool};
use crate::workload::{
    Client, Columns, Execute, Kind, Mode, Operation, Random, Range, Row, Statement, Unit, fill_groups,
};

pub(super) struct Stream {
    percona: Percona,
    /// Number from 0; ids of inserts differ by it.
    thread: u32,
    random: Random,
    text: String,
    /// The table of the group of statements, where groups share one.
    table: Option<u32>,
}

type Run<'a> = dyn FnMut(Operation<'_>) -> bool + 'a;

impl Stream {
    pub(super) fn new(percona: Percona, thread: u32, seed: u64) -> Stream {
        Stream { percona, thread, random: Random::new(seed), text: String::new(), table: None }
    }

    fn draw(&mut self, from: u32, to: u32) -> u32 {
        self.percona.distribution.draw(from.into(), to.into(), &mut self.random) as u32
    }

    fn id(&mut self) -> i32 {
        self.draw(1, self.percona.shape.rows) as i32
    }

    fn table(&mut self) -> u32 {
        match self.table {
            Some(table) => table,
            None => self.draw(1, self.percona.shape.tables),
        }
    }

    /// The rewrite chooses a table per group, evenly.
    fn begin_group(&mut self) {
        if self.percona.tool == Tool::Sbl {
            self.table = Some(self.random.up_to(self.percona.shape.tables));
        }
    }

    /// `size` ids; the original has one more, and one less where it leaves out the ends.
    fn range(&mut self) -> Range {
        let from = self.id();
        Range { from, to: from.saturating_add(self.percona.mix.range_size as i32 - 1) }
    }

    fn original_range(&mut self) -> Range {
        let range = self.range();
        Range { to: range.to.saturating_add(1), ..range }
    }

    /// Runs `count` statements of one sort.
    fn group(&mut self, count: u32, run: &mut Run<'_>, statement: fn(&mut Stream, &mut Run<'_>) -> bool) -> bool {
        self.begin_group();
        (0..count).all(|_| statement(self, run))
    }

    fn ranges(&mut self, run: &mut Run<'_>) -> bool {
        let mix = self.percona.mix;
        self.group(mix.ranges, run, Stream::simple_range)
            && self.group(mix.sums, run, Stream::sum)
            && self.group(mix.orders, run, Stream::order)
            && self.group(mix.distincts, run, Stream::distinct)
    }

    fn writes(&mut self, run: &mut Run<'_>) -> bool {
        let mix = self.percona.mix;
        self.group(mix.index_updates, run, Stream::index_update)
            && self.group(mix.non_index_updates, run, Stream::non_index_update)
            && self.group(mix.inserts, run, Stream::insert)
    }

    fn is_original(&self) -> bool {
        (self.percona.tool, self.percona.mode) == (Tool::Sbp, Mode::Compat)
    }

    fn point(&mut self, run: &mut Run<'_>) -> bool {
        let (table, id) = (self.table(), self.id());
        run(Operation::Sysbench(Statement::Point { table, id, columns: Columns::C }))
    }

    fn simple_range(&mut self, run: &mut Run<'_>) -> bool {
        let table = self.table();
        run(match self.is_original() {
            true => Operation::Percona(PerconaStatement::FirstOf { table, ids: self.original_range(), by_k: false }),
            false => Operation::Sysbench(Statement::Range { table, ids: self.range() }),
        })
    }

    fn sum(&mut self, run: &mut Run<'_>) -> bool {
        let table = self.table();
        run(match self.percona.tool {
            Tool::Sbl => Operation::Percona(PerconaStatement::Sum { table, ids: self.range() }),
            Tool::Sbp if self.is_original() => {
                Operation::Percona(PerconaStatement::SumOfText { table, ids: self.original_range() })
            }
            Tool::Sbp => Operation::Sysbench(Statement::Sum { table, ids: self.range(), name: "sum" }),
        })
    }

    fn order(&mut self, run: &mut Run<'_>) -> bool {
        let table = self.table();
        run(match self.percona.tool {
            Tool::Sbl => Operation::Percona(PerconaStatement::Order { table, ids: self.range() }),
            Tool::Sbp if self.is_original() => {
                Operation::Percona(PerconaStatement::FirstOf { table, ids: self.original_range(), by_k: true })
            }
            Tool::Sbp => Operation::Sysbench(Statement::Order { table, ids: self.range() }),
        })
    }

    fn distinct(&mut self, run: &mut Run<'_>) -> bool {
        let table = self.table();
        run(match self.percona.tool {
            Tool::Sbl => Operation::Percona(PerconaStatement::Distinct { table, ids: self.range() }),
            Tool::Sbp if self.is_original() => {
                Operation::Percona(PerconaStatement::DistinctK { table, ids: self.original_range() })
            }
            Tool::Sbp => Operation::Sysbench(Statement::Distinct { table, ids: self.range() }),
        })
    }

    fn index_update(&mut self, run: &mut Run<'_>) -> bool {
        let (table, id) = (self.table(), self.id());
        run(Operation::Sysbench(Statement::IndexUpdate { table, id }))
    }

    fn non_index_update(&mut self, run: &mut Run<'_>) -> bool {
        let (table, id) = (self.table(), self.id());
        if self.is_original() {
            return run(Operation::Percona(PerconaStatement::SetConstant { table, id }));
        }
        fill_groups(10, &mut self.random, &mut self.text);
        run(Operation::Sysbench(Statement::NonIndexUpdate { table, id, c: &self.text }))
    }

    fn row(&mut self, id: i32) -> Row {
        let k = self.id();
        let row = Row::random(id.into(), self.percona.shape.rows, &mut self.random);
        indent(&self.percona, RUN_INDENT, Row { k, ..row })
    }

    fn insert(&mut self, run: &mut Run<'_>) -> bool {
        let table = self.table();
        if self.is_original() {
            let rows = self.percona.shape.rows;
            let id = self.draw(2 * rows, 3 * rows) + self.thread;
            let row = self.row(id as i32);
            return run(Operation::Percona(PerconaStatement::Replace { table, row: &row }));
        }
        let id = self.id();
        let row = self.row(id);
        run(Operation::Sysbench(Statement::Delete { table, id }))
            && run(match self.percona.tool {
                Tool::Sbl => Operation::Percona(PerconaStatement::Upsert { table, row: &row }),
                Tool::Sbp => Operation::Sysbench(Statement::Insert { table, row: &row }),
            })
    }

    /// The script `insert`: two or more upserts of loaded ids.
    fn replace_loaded(&mut self, run: &mut Run<'_>) -> bool {
        let most = self.percona.mix.inserts.max(3);
        let count = 2 + self.random.below(u64::from(most) - 1);
        (0..count).all(|_| {
            let (table, id) = (self.table(), self.id());
            let row = self.row(id);
            run(Operation::Percona(PerconaStatement::Replace { table, row: &row }))
        })
    }
}

impl Client for Stream {
    fn unit(&mut self, execute: &mut Execute<'_>) -> Unit {
        let mut run = |operation: Operation<'_>| execute(&operation).is_some();
        let points = self.percona.mix.points;
        let complete = match self.percona.script {
            Script::Oltp => {
                self.group(points, &mut run, Stream::point) && self.ranges(&mut run) && self.writes(&mut run)
            }
            Script::OltpRo => self.group(points, &mut run, Stream::point) && self.ranges(&mut run),
            Script::RangesRo => self.ranges(&mut run),
            Script::WriteOnly => self.writes(&mut run),
            Script::Insert => self.replace_loaded(&mut run),
        };
        if complete { Unit::Complete(&[Kind::TRANSACTION]) } else { Unit::Abandoned }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::super::Settings;
    use super::*;
    use crate::workload::{Answer, Place, Workload};

    fn transactions(settings: serde_json::Value, mode: Mode, mut each: impl FnMut(&Operation<'_>)) {
        let settings: Settings = serde_json::from_value(settings).unwrap();
        let mut client = Percona::new(mode, &settings).unwrap().client(Place { number: 3, of: 4 }, 1);
        for _ in 0..500 {
            let unit = client.unit(&mut |operation| {
                each(operation);
                Some(Answer::rows(1))
            });
            assert_eq!(unit, Unit::Complete(&[Kind::TRANSACTION]));
        }
    }

    #[test]
    fn statements_of_a_transaction() {
        for (settings, mode, per_transaction) in [
            (json!({"rand_type": "uniform"}), Mode::Compat, 17),
            (json!({}), Mode::Fixed, 18),
            (json!({"tool": "sbl"}), Mode::Compat, 18),
            (json!({"script": "oltp_ro"}), Mode::Compat, 14),
            (json!({"script": "ranges_ro"}), Mode::Fixed, 4),
            (json!({"script": "write_only"}), Mode::Compat, 3),
        ] {
            let mut counts = BTreeMap::new();
            transactions(settings, mode, |operation| *counts.entry(operation.kind().name()).or_insert(0) += 1);
            assert_eq!(counts.values().sum::<i32>(), 500 * per_transaction, "{counts:?}");
        }
    }

    #[test]
    fn the_original_is_as_specified() {
        let (mut collections, mut inserted) = (BTreeMap::new(), 0);
        transactions(json!({"docs": 1000}), Mode::Compat, |operation| match operation {
            Operation::Sysbench(Statement::Point { table, .. }) => *collections.entry(*table).or_insert(0u32) += 1,
            Operation::Percona(PerconaStatement::FirstOf { ids, .. })
            | Operation::Percona(PerconaStatement::SumOfText { ids, .. })
            | Operation::Percona(PerconaStatement::DistinctK { ids, .. }) => assert_eq!(ids.to - ids.from, 100),
            Operation::Percona(PerconaStatement::Replace { row, .. }) => {
                assert!((2003..=3003).contains(&row.id) && row.c.len() == 124 && row.pad.len() == 64, "{row:?}");
                inserted += 1;
            }
            _ => {}
        });
        let share = f64::from(collections[&5]) / 5000.0;
        assert!((0.79..0.825).contains(&share) && inserted == 500, "{collections:?}");
        // One table: all go to one that does not exist.
        transactions(json!({"tables": 1}), Mode::Compat, |operation| {
            if let Operation::Sysbench(statement) = operation {
                assert_eq!(statement.table(), 0);
            }
        });
    }

    #[test]
    fn the_load_has_the_original_texts() {
        let settings: Settings = serde_json::from_value(json!({"tables": 2, "docs": 25, "batch": 10})).unwrap();
        let percona = Percona::new(Mode::Compat, &settings).unwrap();
        let (mut sizes, mut loaders) = (Vec::new(), percona.loaders(8));
        assert_eq!(loaders.len(), 1);
        while loaders[0].unit(&mut |operation| {
            let Operation::Percona(PerconaStatement::Load { table, rows, one_by_one: false }) = operation else {
                panic!("{operation:?}")
            };
            assert!(rows.iter().all(|row| row.c.len() == 120 && row.pad.len() == 60 && row.c.starts_with(' ')));
            sizes.push((*table, rows.len()));
            Some(Answer::rows(1))
        }) != Unit::Finished
        {}
        assert_eq!(sizes, [(1, 10), (1, 10), (1, 5), (2, 10), (2, 10), (2, 5)]);
    }
}
