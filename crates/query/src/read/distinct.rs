//! `distinct`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use arbor_bson::{ArrayBuf, Doc, ValueRef};
use arbor_lang::path::{Leaf, Path};
use arbor_lang::{Collation, Context, stop};

use crate::operator::{DistinctScan, Run};
use crate::plan::{self, Query, Slots};
use crate::{AggregateSpec, BatchLimit, DistinctSpec, Error, Interrupt, Result, Scope, aggregate};

/// The values that the documents of a query have at one path, each once; elements of an array count one by one.
pub fn distinct(scope: &Scope<'_>, spec: &DistinctSpec<'_>, interrupt: &Interrupt) -> Result<ArrayBuf> {
    interrupt.check()?;
    let context = scope.context(&spec.namespace, spec.collation.as_ref(), None)?;
    let context = Context { without_times: true, ..context };
    let query = Query::parse(spec.query, spec.hint, &context)?;
    let mut values = Values { collation: context.collation, ..Values::default() };
    let Some((collection, view)) = scope.snapshot(&spec.namespace)? else {
        return distinct_of_view(scope, spec, interrupt);
    };
    let query = scope.constrained(&collection, &query);
    if let Some(access) = plan::distinct_access(&collection, spec.key, &query) {
        plan::note_distinct(&collection, &access);
        let mut slots = Slots::default();
        let mut scan = DistinctScan::new(plan::index_scan(&access, &mut slots));
        let mut run = Run::new(&view, Some(&collection), interrupt, slots.count());
        while let Some(value) = scan.next(&mut run)? {
            values.add(value.as_ref())?;
        }
        return values.sorted();
    }
    let solution = plan::plan(&view, &collection, &query)?.winner;
    plan::note_use(&collection, &solution);
    let mut slots = Slots::default();
    let mut root = plan::operator(&solution, &query, &scope.settings, &mut slots);
    let mut run = Run::new(&view, Some(&collection), interrupt, slots.count());
    let path = Path::of_input(spec.key)?;
    while let Some(row) = root.next(&mut run)? {
        values.add_all(&path, row.document.as_doc())?;
    }
    values.sorted()
}

/// Nothing is in what does not exist.
fn distinct_of_view(scope: &Scope<'_>, spec: &DistinctSpec<'_>, interrupt: &Interrupt) -> Result<ArrayBuf> {
    let Some(view) = scope.resolved_view(&spec.namespace)? else { return Ok(ArrayBuf::new()) };
    let collation = view.collation_for(&spec.namespace, spec.collation.as_ref())?;
    let mut values = Values { collation: collation.clone(), ..Values::default() };
    let stages = view.distinct_stages(spec);
    let behind = AggregateSpec { hint: spec.hint, collation: Some(collation), ..view.spec(&stages) };
    let mut cursor = aggregate(scope, &behind, interrupt)?;
    let path = Path::of_input(spec.key)?;
    loop {
        let batch = cursor.next_batch(BatchLimit::more(), interrupt)?;
        for document in batch.docs.as_array().iter() {
            if let ValueRef::Document(document) = document {
                values.add_all(&path, document)?;
            }
        }
        if batch.exhausted {
            return values.sorted();
        }
    }
}

#[derive(Default)]
struct Values {
    /// Keys of the values, each with the value's index in `array`.
    seen: BTreeMap<Vec<u8>, usize>,
    array: ArrayBuf,
    /// Equal values by it are one.
    collation: Collation,
}

/// The result is one document.
const BYTES_MAX: usize = 16 * 1024 * 1024;

impl Values {
    fn add(&mut self, value: ValueRef<'_>) -> Result<()> {
        stop::tick_for(value.content_bytes())?;
        let next = self.seen.len();
        if let Entry::Vacant(vacant) = self.seen.entry(self.collation.key_of(value).bytes) {
            vacant.insert(next);
            self.array.push(value);
            if self.array.as_array().as_bytes().len() > BYTES_MAX {
                return Err(Error::Lang(arbor_lang::Error::location(17217, "distinct too big, 16mb cap")));
            }
        }
        Ok(())
    }

    /// Returns the values in their order.
    fn sorted(self) -> Result<ArrayBuf> {
        let values: Vec<ValueRef<'_>> = self.array.as_array().iter().collect();
        assert_eq!(values.len(), self.seen.len(), "each key has one value");
        let mut sorted = ArrayBuf::new();
        for value in self.seen.into_values().filter_map(|index| values.get(index)) {
            stop::tick_for(value.content_bytes())?;
            sorted.push(*value);
        }
        Ok(sorted)
    }

    fn add_all(&mut self, path: &Path, document: Doc<'_>) -> Result<()> {
        let mut outcome = Ok(());
        path.visit(document, Leaf::Whole, &mut |visit| {
            outcome = match visit.value {
                Some(ValueRef::Array(array)) => array.iter().try_for_each(|element| self.add(element)),
                Some(value) => self.add(value),
                None => Ok(()),
            };
            outcome.is_err()
        });
        outcome
    }
}
