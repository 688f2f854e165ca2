//! Cached point queries (founding text 001, spec/workloads.md section 4): a random table, one row by `_id`, all columns.

use serde_json::Value;

use super::{
    Client, Collection, Columns, Execute, Kind, Operation, Place, Random, Shape, Statement, Tables, Unit, Workload,
};

#[derive(Clone, Copy, Debug)]
pub struct PointQuery {
    pub tables: Tables,
    /// Rows of each table that are queried, from the first.
    pub queried: u32,
}

impl Workload for PointQuery {
    fn unit(&self) -> Kind {
        Kind::POINT_QUERY
    }

    fn kinds(&self) -> &'static [Kind] {
        &[Kind::POINT_QUERY]
    }

    fn is_divisible(&self) -> bool {
        true
    }

    fn is_of_requests(&self) -> bool {
        true
    }

    fn settings(&self) -> Value {
        let mut settings = self.tables.settings();
        settings["queried"] = self.queried.into();
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
        Box::new(Stream { shape: Shape { rows: self.queried, ..self.tables.shape }, random: Random::new(seed) })
    }
}

struct Stream {
    shape: Shape,
    random: Random,
}

impl Client for Stream {
    fn unit(&mut self, execute: &mut Execute<'_>) -> Unit {
        let table = self.random.up_to(self.shape.tables);
        let id = self.random.up_to(self.shape.rows) as i32;
        let point = Operation::Sysbench(Statement::Point { table, id, columns: Columns::All });
        execute(&point).map_or(Unit::Abandoned, |_| Unit::Complete(&[]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Answer, Mode};

    #[test]
    fn tables_and_ids_are_uniform() {
        let tables = Tables { shape: Shape { tables: 8, rows: 100 }, mode: Mode::Compat, batch: 10 };
        let mut client = PointQuery { tables, queried: 100 }.client(Place { number: 0, of: 1 }, 5);
        let (mut tables, mut ids) = ([0u32; 9], [0u32; 101]);
        for _ in 0..80_000 {
            client.unit(&mut |operation| {
                let Operation::Sysbench(Statement::Point { table, id, columns: Columns::All }) = operation else {
                    panic!("{operation:?}")
                };
                tables[*table as usize] += 1;
                ids[*id as usize] += 1;
                Some(Answer::rows(1))
            });
        }
        assert!(tables[0] == 0 && tables[1..].iter().all(|count| (9_500..10_500).contains(count)), "{tables:?}");
        assert!(ids[0] == 0 && ids[1..].iter().all(|count| (650..950).contains(count)), "{ids:?}");
    }

    #[test]
    fn rows_beyond_those_that_are_queried_are_left_alone() {
        let tables = Tables { shape: Shape { tables: 1, rows: 100 }, mode: Mode::Compat, batch: 10 };
        let mut client = PointQuery { tables, queried: 10 }.client(Place { number: 0, of: 1 }, 5);
        let mut most = 0;
        for _ in 0..500 {
            client.unit(&mut |operation| {
                if let Operation::Sysbench(Statement::Point { id, .. }) = operation {
                    most = most.max(*id);
                }
                Some(Answer::rows(1))
            });
        }
        assert_eq!(most, 10);
    }
}
