//! The numbers of a sample, in the order of its fields.

use arbor_bson::{Doc, ValueRef};

/// Calls `each` with every number of a document: its place and the number.
pub(super) fn walk(doc: Doc<'_>, each: &mut impl FnMut(Place<'_, '_>, u64)) {
    fields(doc, None, each);
}

/// The names from the root to a number.
#[derive(Clone, Copy)]
pub(super) struct Place<'p, 'd> {
    parent: Option<&'p Place<'p, 'd>>,
    name: &'d str,
    /// The second number of a timestamp.
    is_increment: bool,
}

impl Place<'_, '_> {
    /// Returns the names with points between them.
    pub(super) fn path(&self) -> String {
        let mut path = self.parent.map(|parent| parent.path() + ".").unwrap_or_default();
        path.push_str(self.name);
        if self.is_increment {
            path.push_str(".i");
        }
        path
    }
}

fn fields<'d>(doc: Doc<'d>, parent: Option<&Place<'_, 'd>>, each: &mut impl FnMut(Place<'_, '_>, u64)) {
    for (name, value) in doc.iter() {
        let place = Place { parent, name, is_increment: false };
        match value {
            ValueRef::Document(inner) => fields(inner, Some(&place), each),
            ValueRef::Array(inner) => fields(inner.as_doc(), Some(&place), each),
            // as the format has them: without the fraction
            ValueRef::Double(number) => each(place, number as i64 as u64),
            ValueRef::Int32(number) => each(place, i64::from(number) as u64),
            ValueRef::Int64(number) => each(place, number as u64),
            ValueRef::DateTime(millis) => each(place, millis as u64),
            ValueRef::Bool(is) => each(place, u64::from(is)),
            ValueRef::Timestamp(time) => {
                each(place, u64::from(time.seconds));
                each(Place { is_increment: true, ..place }, u64::from(time.increment));
            }
            _ => {}
        }
    }
}

/// Returns true if two samples fit into one chunk: the same names with values of the same types. Texts may differ.
pub(super) fn same_structure(a: Doc<'_>, b: Doc<'_>) -> bool {
    let (mut a, mut b) = (a.iter(), b.iter());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some((name, value)), Some((other_name, other))) if name == other_name => match (value, other) {
                (ValueRef::Document(value), ValueRef::Document(other)) if same_structure(value, other) => {}
                (ValueRef::Array(value), ValueRef::Array(other)) if same_structure(value.as_doc(), other.as_doc()) => {}
                (ValueRef::Document(_) | ValueRef::Array(_), _) => return false,
                (value, other) if value.ty() == other.ty() => {}
                _ => return false,
            },
            _ => return false,
        }
    }
}
