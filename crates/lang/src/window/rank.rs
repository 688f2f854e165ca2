//! `$rank`, `$denseRank`, `$documentNumber`: `{}`; the place of a row in its partition. Rows that sort alike have the same
//! rank; after them `$rank` leaves a gap and `$denseRank` does not.

use std::sync::Arc;

use arbor_bson::{Value, ValueRef};

use super::{Call, Column, Rows, WindowFunction};
use crate::{Error, Result};

#[derive(Clone, Copy, Debug)]
enum Rank {
    WithGaps,
    Dense,
    Position,
}

pub(super) fn parse(call: &Call) -> Result<Arc<dyn WindowFunction>> {
    let name = call.name;
    if call.window.is_some() {
        return Err(Error::location(5371601, "Rank style window functions take no other arguments"));
    }
    if !matches!(call.argument, ValueRef::Document(doc) if doc.is_empty()) {
        return Err(Error::location(5371603, format!("{name} must be specified with '{{}}' as the value")));
    }
    if call.sort_by.parts().len() != 1 {
        let message = format!("{name} must be specified with a top level sortBy expression with exactly one element");
        return Err(Error::location(5371602, message));
    }
    Ok(Arc::new(match name {
        "$rank" => Rank::WithGaps,
        "$denseRank" => Rank::Dense,
        _ => Rank::Position,
    }))
}

impl WindowFunction for Rank {
    fn start(&self) -> Box<dyn Column> {
        Box::new(Ranks { rank: *self, key: None, current: 0 })
    }

    fn look_back(&self) -> Option<usize> {
        Some(0)
    }
}

struct Ranks {
    rank: Rank,
    /// Sort key of the last row.
    key: Option<Vec<u8>>,
    current: usize,
}

impl Column for Ranks {
    fn value(&mut self, at: usize, rows: &Rows) -> Result<Value> {
        let position = at + 1;
        if !matches!(self.rank, Rank::Position) {
            let key = rows.get(at).map(|doc| rows.sort_by.key(doc.as_doc())).transpose()?;
            if self.key != key {
                self.key = key;
                self.current = if matches!(self.rank, Rank::Dense) { self.current + 1 } else { position };
            }
        } else {
            self.current = position;
        }
        Ok(i32::try_from(self.current).map_or(Value::Int64(self.current as i64), Value::Int32))
    }
}
