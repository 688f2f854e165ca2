//! `distinct`.

use std::collections::HashSet;

use arbor_bson::{ArrayBuf, ValueRef, keystring};
use arbor_lang::path::{Leaf, Path};

use crate::operator::{DistinctScan, Run};
use crate::plan::{self, Query, Slots};
use crate::{Database, DistinctSpec, Error, Interrupt, Result};

/// The values that the documents of a query have at one path, each once; elements of an array count one by one.
pub fn distinct(database: &Database, spec: &DistinctSpec<'_>, interrupt: &Interrupt) -> Result<ArrayBuf> {
    interrupt.check()?;
    let query = Query::parse(spec.query, spec.hint, &database.context(None)?)?;
    let mut values = Values::default();
    let Some((collection, view)) = database.snapshot(&spec.namespace)? else { return Ok(values.array) };
    if let Some(access) = plan::distinct_access(&collection, spec.key, &query) {
        let mut slots = Slots::default();
        let mut scan = DistinctScan::new(plan::index_scan(&access, &mut slots));
        let mut run = Run::new(&view, Some(&collection), interrupt, slots.count());
        while let Some(value) = scan.next(&mut run)? {
            values.add(value.as_ref());
            values.check_size()?;
        }
        return Ok(values.array);
    }
    let solution = plan::plan(&view, &collection, &query)?.winner;
    let mut slots = Slots::default();
    let mut root = plan::operator(&solution, &query, &database.settings, &mut slots);
    let mut run = Run::new(&view, Some(&collection), interrupt, slots.count());
    let path = Path::new(spec.key);
    while let Some(row) = root.next(&mut run)? {
        path.visit(row.document.as_doc(), Leaf::Whole, &mut |visit| {
            match visit.value {
                Some(ValueRef::Array(array)) => array.iter().for_each(|element| values.add(element)),
                Some(value) => values.add(value),
                None => {}
            }
            false
        });
        values.check_size()?;
    }
    Ok(values.array)
}

#[derive(Default)]
struct Values {
    seen: HashSet<Vec<u8>>,
    array: ArrayBuf,
}

/// The answer is one document.
const BYTES_MAX: usize = 16 * 1024 * 1024;

impl Values {
    fn add(&mut self, value: ValueRef<'_>) {
        if self.seen.insert(keystring::key_of(value).bytes) {
            self.array.push(value);
        }
    }

    fn check_size(&self) -> Result<()> {
        if self.array.as_array().as_bytes().len() > BYTES_MAX {
            return Err(Error::Lang(arbor_lang::Error::location(17217, "distinct too big, 16mb cap")));
        }
        Ok(())
    }
}
