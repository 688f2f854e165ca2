//! Documents with one place changed, or with several.

use arbor_bson::{Doc, DocBuf, Value, ValueRef};

use crate::by_name::ByName;
use crate::path::Component;

/// `doc` with the value at a path set, or removed when it is `None`. Documents on the way are made where there is none;
/// arrays are not entered but replaced.
pub fn with_value(doc: Doc, path: &[Component], value: Option<ValueRef>) -> DocBuf {
    let Some((first, rest)) = path.split_first() else { return doc.to_buf() };
    let mut out = DocBuf::new();
    let mut found = false;
    for (name, old) in doc {
        if name == &*first.name && !found {
            found = true;
            append(&mut out, name, Some(old), rest, value);
        } else {
            out.append(name, old);
        }
    }
    if !found {
        append(&mut out, &first.name, None, rest, value);
    }
    out
}

fn append(out: &mut DocBuf, name: &str, old: Option<ValueRef>, rest: &[Component], value: Option<ValueRef>) {
    match (rest.is_empty(), old, value) {
        (true, _, Some(value)) => drop(out.append(name, value)),
        (true, _, None) => {}
        (false, Some(ValueRef::Document(inner)), value) => drop(out.append(name, &with_value(inner, rest, value))),
        (false, Some(old), None) => drop(out.append(name, old)),
        (false, None, None) => {}
        (false, _, value) => drop(out.append(name, &with_value(Doc::empty(), rest, value))),
    }
}

/// Places of a document that are set together: each has its number among the values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(ByName<Place>);

#[derive(Clone, Debug)]
enum Place {
    Value(usize),
    Inside(Places),
}

impl Places {
    /// Requires that no path of another place collides with it.
    pub(crate) fn add(&mut self, path: &[Component], number: usize) {
        let Some((last, parents)) = path.split_last() else { return };
        let mut places = self;
        for component in parents {
            match places.0.get_or_add(&component.name, || Place::Inside(Places::default())) {
                Place::Inside(inner) => places = inner,
                Place::Value(_) => unreachable!("paths that collide were refused"),
            }
        }
        places.0.add(&last.name, Place::Value(number));
    }

    /// `doc` with all of them set, as [`with_value`] sets one.
    pub(crate) fn set(&self, doc: Doc, values: &[Value]) -> DocBuf {
        let mut out = DocBuf::new();
        let mut done = vec![false; self.0.len()];
        for (name, old) in doc {
            match self.0.entry(name).filter(|(at, _)| done.get(*at) == Some(&false)) {
                None => drop(out.append(name, old)),
                Some((at, place)) => {
                    done.iter_mut().skip(at).take(1).for_each(|done| *done = true);
                    place.append(&mut out, name, Some(old), values);
                }
            }
        }
        for ((name, place), _) in self.0.iter().zip(&done).filter(|(_, done)| !**done) {
            place.append(&mut out, name, None, values);
        }
        out
    }
}

impl Place {
    fn append(&self, out: &mut DocBuf, name: &str, old: Option<ValueRef>, values: &[Value]) {
        match (self, old) {
            (Place::Value(number), _) => {
                if let Some(value) = values.get(*number) {
                    out.append(name, value);
                }
            }
            (Place::Inside(inner), Some(ValueRef::Document(doc))) => drop(out.append(name, &inner.set(doc, values))),
            (Place::Inside(inner), _) => drop(out.append(name, &inner.set(Doc::empty(), values))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Path;
    use crate::notation::{doc, show, value};

    #[test]
    fn several_places_as_one_after_the_other() {
        for (document, paths) in [
            ("{a: 1, b: 2}", &["b", "c", "a"] as &[&str]),
            ("{a: {b: 1, c: 2}, d: [1], e: 5}", &["a.c", "d.x", "a.q.r", "f.g", "f.h", "e"]),
            ("{}", &[]),
        ] {
            let (mut places, mut values) = (Places::default(), Vec::new());
            let mut expected = doc(document);
            for (number, path) in paths.iter().enumerate() {
                let path = Path::new(path);
                places.add(path.components(), number);
                values.push(Value::Int32(number as i32 + 100));
                expected = with_value(expected.as_doc(), path.components(), values.last().map(Value::as_ref));
            }
            let set = places.set(doc(document).as_doc(), &values);
            assert_eq!(show((&set).into()), show((&expected).into()), "{document}");
        }
    }

    #[test]
    fn sets_and_removes() {
        for (document, path, new, expect) in [
            ("{a: 1, b: 2}", "a", "9", "{a: 9, b: 2}"),
            ("{a: 1}", "b.c", "9", "{a: 1, b: {c: 9}}"),
            ("{a: {b: 1, c: 2}}", "a.b", "9", "{a: {b: 9, c: 2}}"),
            ("{a: 5}", "a.b", "9", "{a: {b: 9}}"),
            ("{a: {b: 1, c: 2}}", "a.b", "undefined", "{a: {c: 2}}"),
            ("{a: 1}", "x.y", "undefined", "{a: 1}"),
        ] {
            let new = value(new);
            let new = (!matches!(new, arbor_bson::Value::Undefined)).then_some(new.as_ref());
            let changed = with_value(doc(document).as_doc(), Path::new(path).components(), new);
            assert_eq!(show((&changed).into()), show(value(expect).as_ref()), "{document} {path}");
        }
    }
}
