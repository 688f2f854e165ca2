//! Each value once, in the order in which the rows of the window first have them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use arbor_bson::{ArrayBuf, Doc, Value};
use hashbrown::HashMap;

use super::Moving;
use crate::accumulator::value_bytes;
use crate::expression::Evaluated;
use crate::{Collation, Result};

#[derive(Debug)]
pub(crate) struct Distinct {
    collation: Collation,
    /// Key that identifies the value, and the value; `None` if it is missing.
    rows: VecDeque<Option<(Arc<[u8]>, Value)>>,
    /// Rows that have left: the number of the first one that is there.
    gone: u64,
    /// The numbers of the rows that have a value, in order.
    places: HashMap<Arc<[u8]>, VecDeque<u64>>,
    /// The first row of each value.
    firsts: BTreeSet<u64>,
    bytes: usize,
}

impl Distinct {
    pub(crate) fn new(collation: &Collation) -> Distinct {
        let (rows, places, firsts) = (VecDeque::new(), HashMap::new(), BTreeSet::new());
        Distinct { collation: collation.clone(), rows, gone: 0, places, firsts, bytes: 0 }
    }
}

/// Row, place and key.
fn bytes(key: &[u8], value: &Value) -> usize {
    2 * size_of::<u64>() + 2 * size_of::<Arc<[u8]>>() + key.len() + value_bytes(value)
}

impl Moving for Distinct {
    fn enter(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        let number = self.gone + self.rows.len() as u64;
        let row = value.into_value().map(|value| {
            let key = self.collation.key_of(value.as_ref()).bytes;
            let key = self.places.get_key_value(key.as_slice()).map_or_else(|| key.into(), |(known, _)| known.clone());
            (key, value)
        });
        if let Some((key, value)) = &row {
            self.bytes += bytes(key, value);
            let places = self.places.entry(key.clone()).or_default();
            if places.is_empty() {
                self.firsts.insert(number);
            }
            places.push_back(number);
        }
        self.rows.push_back(row);
        Ok(())
    }

    fn leave(&mut self) {
        let Some(row) = self.rows.pop_front() else { return };
        let number = self.gone;
        self.gone += 1;
        let Some((key, value)) = row else { return };
        self.bytes -= bytes(&key, &value);
        self.firsts.remove(&number);
        let Some(places) = self.places.get_mut(&key) else { return };
        places.pop_front();
        match places.front() {
            Some(next) => drop(self.firsts.insert(*next)),
            None => drop(self.places.remove(&key)),
        }
    }

    fn value(&self) -> Value {
        let value = |number: &u64| self.rows.get((number - self.gone) as usize)?.as_ref().map(|(_, value)| value);
        Value::Array(self.firsts.iter().filter_map(value).collect::<ArrayBuf>())
    }

    fn size_bytes(&self) -> usize {
        self.bytes
    }
}
