//! Cached point queries (founding text 001, spec/workloads.md section 4): a random table, one row by `_id`, all columns.

use super::{Client, Columns, Kind, Operation, Random, Shape, Workload};

#[derive(Clone, Copy, Debug)]
pub struct PointQuery {
    pub shape: Shape,
}

impl Workload for PointQuery {
    fn unit(&self) -> Kind {
        Kind::PointQuery
    }

    fn kinds(&self) -> &[Kind] {
        &[Kind::PointQuery]
    }

    fn client(&self, seed: u64) -> Box<dyn Client> {
        Box::new(Stream { shape: self.shape, random: Random::new(seed) })
    }
}

struct Stream {
    shape: Shape,
    random: Random,
}

impl Client for Stream {
    fn unit(&mut self, execute: &mut dyn FnMut(&Operation<'_>) -> bool) -> bool {
        let table = self.random.up_to(self.shape.tables);
        let id = self.random.up_to(self.shape.rows) as i32;
        execute(&Operation::Point { table, id, columns: Columns::All })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_ids_are_uniform() {
        let mut client = PointQuery { shape: Shape { tables: 8, rows: 100 } }.client(5);
        let (mut tables, mut ids) = ([0u32; 9], [0u32; 101]);
        for _ in 0..80_000 {
            client.unit(&mut |operation| {
                let Operation::Point { table, id, columns: Columns::All } = operation else { panic!("{operation:?}") };
                tables[*table as usize] += 1;
                ids[*id as usize] += 1;
                true
            });
        }
        assert!(tables[0] == 0 && tables[1..].iter().all(|count| (9_500..10_500).contains(count)), "{tables:?}");
        assert!(ids[0] == 0 && ids[1..].iter().all(|count| (650..950).contains(count)), "{ids:?}");
    }
}
