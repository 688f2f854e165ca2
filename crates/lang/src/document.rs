//! Documents with one place changed.

use arbor_bson::{Doc, DocBuf, ValueRef};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Path;
    use crate::notation::{doc, show, value};

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
