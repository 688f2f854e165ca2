//! The values that come first in an order, or last.

use std::collections::{BTreeMap, VecDeque};

use arbor_bson::keystring::KeyBuilder;
use arbor_bson::{ArrayBuf, Doc, Value};

use super::Moving;
use crate::accumulator::value_bytes;
use crate::expression::Evaluated;
use crate::{Collation, Result, SortPattern};

/// Sort criterion of the rows. Equal rows keep their order of arrival.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// The values, of which null and missing ones do not count.
    Values { descending: bool, collation: Collation },
    /// The documents.
    Documents(SortPattern),
}

/// Which values of the order are the result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// The last ones, not the first ones.
    pub bottom: bool,
    /// None: one, without an array around it.
    pub n: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct Ordered {
    order: Order,
    end: End,
    /// The places of the rows in the order; none for one that does not count.
    rows: VecDeque<Option<Place>>,
    entered: u64,
    values: BTreeMap<Place, Value>,
    bytes: usize,
}

/// Key and number of a row.
type Place = (Vec<u8>, u64);

impl Ordered {
    pub(crate) fn new(order: Order, end: End) -> Ordered {
        Ordered { order, end, rows: VecDeque::new(), entered: 0, values: BTreeMap::new(), bytes: 0 }
    }

    fn key(&self, value: &Evaluated, root: Doc) -> Result<Option<Vec<u8>>> {
        Ok(match &self.order {
            Order::Values { .. } if value.is_nullish() => None,
            Order::Values { descending, collation } => {
                let mut key = KeyBuilder::new();
                collation.push_key(&mut key, value.or_null(), *descending);
                Some(key.finish().bytes)
            }
            Order::Documents(pattern) => Some(pattern.key(root)?),
        })
    }
}

fn bytes(place: &Place, value: &Value) -> usize {
    2 * (size_of::<Place>() + place.0.len()) + value_bytes(value)
}

impl Moving for Ordered {
    fn enter(&mut self, value: Evaluated, root: Doc) -> Result<()> {
        let place = self.key(&value, root)?.map(|key| (key, self.entered));
        self.entered += 1;
        if let Some(place) = &place {
            let value = value.into_value().unwrap_or(Value::Null);
            self.bytes += bytes(place, &value);
            self.values.insert(place.clone(), value);
        }
        self.rows.push_back(place);
        Ok(())
    }

    fn leave(&mut self) {
        let Some(Some(place)) = self.rows.pop_front() else { return };
        if let Some(value) = self.values.remove(&place) {
            self.bytes -= bytes(&place, &value);
        }
    }

    fn value(&self) -> Value {
        let Some(n) = self.end.n else {
            let one = if self.end.bottom { self.values.last_key_value() } else { self.values.first_key_value() };
            return one.map_or(Value::Null, |(_, value)| value.clone());
        };
        let left_out = if self.end.bottom { self.values.len().saturating_sub(n) } else { 0 };
        match left_out {
            0 => Value::Array(self.values.values().take(n).collect::<ArrayBuf>()),
            // from the end, so that those left out are not visited
            _ => {
                let last: Vec<&Value> = self.values.values().rev().take(n).collect();
                Value::Array(last.into_iter().rev().collect::<ArrayBuf>())
            }
        }
    }

    fn size_bytes(&self) -> usize {
        self.bytes
    }
}
