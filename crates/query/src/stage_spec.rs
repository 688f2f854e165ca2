//! A stage of a pipeline as it is written: `{ $name: specification }`.

use arbor_bson::ValueRef;

/// Name and specification of a stage.
pub(crate) fn only_field(stage: ValueRef<'_>) -> Option<(&str, ValueRef<'_>)> {
    let ValueRef::Document(stage) = stage else { return None };
    let mut fields = stage.iter();
    match (fields.next(), fields.next()) {
        (field, None) => field,
        _ => None,
    }
}
