//! Accumulators as expressions: over their arguments, or over the only one when it is an array.

use arbor_bson::ValueRef;

use super::Evaluated;

pub(super) fn for_each(arguments: &[Evaluated], mut visit: impl FnMut(ValueRef)) {
    match arguments {
        [only] => match only.get() {
            Some(ValueRef::Array(elements)) => elements.iter().for_each(visit),
            Some(value) => visit(value),
            None => {}
        },
        several => several.iter().filter_map(Evaluated::get).for_each(visit),
    }
}
