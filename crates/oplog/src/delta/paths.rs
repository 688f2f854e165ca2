//! Making a delta of the paths that an update wrote.

use std::collections::HashMap;

use arbor_bson::{Array, Doc, DocBuf, ValueRef};

/// Returns the delta that turns `before` into `after`, which differ at these dotted paths only. The paths are in the order of
/// a walk through the documents. Each of them is in the delta, whatever its size, as in MongoDB.
pub fn of_paths(before: Doc<'_>, after: Doc<'_>, paths: &[String]) -> DocBuf {
    let mut root = Node::default();
    paths.iter().for_each(|path| root.add(path));
    of_documents(before, after, &root)
}

/// Names with a written path below them; none below a name that was written itself.
#[derive(Default)]
struct Node<'p> {
    children: Vec<(&'p str, Node<'p>)>,
}

impl<'p> Node<'p> {
    fn add(&mut self, path: &'p str) {
        let mut at = self;
        for name in path.split('.') {
            let known = at.children.last().is_some_and(|(last, _)| *last == name);
            if known && at.children.last().is_some_and(|(_, node)| node.children.is_empty()) {
                return;
            }
            if !known {
                at.children.push((name, Node::default()));
            }
            let Some((_, next)) = at.children.last_mut() else { return };
            at = next;
        }
        at.children.clear();
    }
}

/// Fields looked up one by one; more of them are hashed first.
const LOOKUPS_MAX: usize = 16;

/// The fields of a document by their names.
enum Fields<'a> {
    Few(Doc<'a>),
    Many(HashMap<&'a str, ValueRef<'a>>),
}

impl<'a> Fields<'a> {
    fn of(doc: Doc<'a>, lookups: usize) -> Fields<'a> {
        if lookups <= LOOKUPS_MAX {
            return Fields::Few(doc);
        }
        let mut fields = HashMap::new();
        doc.iter().for_each(|(name, value)| _ = fields.entry(name).or_insert(value));
        Fields::Many(fields)
    }

    fn get(&self, name: &str) -> Option<ValueRef<'a>> {
        match self {
            Fields::Few(doc) => doc.get(name),
            Fields::Many(fields) => fields.get(name).copied(),
        }
    }
}

fn of_documents(before: Doc<'_>, after: Doc<'_>, written: &Node<'_>) -> DocBuf {
    let (old, new) = (Fields::of(before, written.children.len()), Fields::of(after, written.children.len()));
    let (mut removed, mut updated, mut inserted) = (DocBuf::new(), DocBuf::new(), DocBuf::new());
    let mut inner = Vec::new();
    for (name, below) in &written.children {
        match (old.get(name), new.get(name)) {
            (None, None) => {}
            (Some(_), None) => _ = removed.append(name, false),
            (None, Some(to)) => _ = inserted.append(name, to),
            (Some(from), Some(to)) => match inside(from, to, below) {
                Some(delta) => inner.push((format!("s{name}"), delta)),
                None => _ = updated.append(name, to),
            },
        }
    }
    let mut out = DocBuf::new();
    for (name, section) in [("d", &removed), ("u", &updated), ("i", &inserted)] {
        if !section.as_doc().is_empty() {
            out.append(name, section);
        }
    }
    for (name, delta) in &inner {
        out.append(name, delta);
    }
    out
}

fn of_arrays(before: Array<'_>, after: Array<'_>, written: &Node<'_>) -> DocBuf {
    let (old, new): (Vec<_>, Vec<_>) = (before.iter().collect(), after.iter().collect());
    let mut out = DocBuf::new().with("a", true);
    for (name, below) in &written.children {
        let Ok(at) = name.parse::<usize>() else { continue };
        let Some(to) = new.get(at).copied() else { continue };
        match old.get(at).and_then(|from| inside(*from, to, below)) {
            Some(delta) => out.append(&format!("s{at}"), &delta),
            None => out.append(&format!("u{at}"), to),
        };
    }
    out
}

/// Returns the delta inside a value. None: the value as a whole was written.
fn inside(from: ValueRef<'_>, to: ValueRef<'_>, below: &Node<'_>) -> Option<DocBuf> {
    match (from, to) {
        _ if below.children.is_empty() => None,
        (ValueRef::Document(from), ValueRef::Document(to)) => Some(of_documents(from, to, below)),
        (ValueRef::Array(from), ValueRef::Array(to)) => Some(of_arrays(from, to, below)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arbor_notation::doc;

    use super::super::apply;
    use super::*;

    #[test]
    fn written_paths_are_in_the_delta() {
        let check = |before: &str, after: &str, paths: &[&str], expected: &str| {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
            let (before, after) = (doc(before), doc(after));
            let delta = of_paths(before.as_doc(), after.as_doc(), &paths);
            assert_eq!(format!("{delta:?}"), format!("{:?}", doc(expected)), "{before:?} {paths:?}");
            assert_eq!(apply(before.as_doc(), delta.as_doc()).unwrap().as_bytes(), after.as_bytes(), "{delta:?}");
        };
        check("{a: 1}", "{a: 2}", &["a"], "{u: {a: 2}}");
        check("{a: 1, b: 1}", "{b: 1}", &["a"], "{d: {a: false}}");
        check("{a: 1}", "{b: 1}", &["a", "b"], "{d: {a: false}, i: {b: 1}}");
        check("{a: {b: 1, c: 1}}", "{a: {b: 2, c: 3}}", &["a.b", "a.c"], "{sa: {u: {b: 2, c: 3}}}");
        check(
            "{a: {b: 1}}",
            "{a: {b: 2, c: {d: 1, e: 2}}}",
            &["a.b", "a.c"],
            "{sa: {u: {b: 2}, i: {c: {d: 1, e: 2}}}}",
        );
        check("{}", "{a: {b: 1, c: 2}}", &["a", "a.c"], "{i: {a: {b: 1, c: 2}}}");
        check("{a: [1, 2]}", "{a: [1, 2, 3, 4]}", &["a.2", "a.3"], "{sa: {a: true, u2: 3, u3: 4}}");
        check("{a: [1]}", "{a: [1, null, null, 4]}", &["a.3"], "{sa: {a: true, u3: 4}}");
        check("{a: [1, 2]}", "{a: [2]}", &["a"], "{u: {a: [2]}}");
        check("{a: [{b: 1}]}", "{a: [{b: 2}]}", &["a.0.b"], "{sa: {a: true, s0: {u: {b: 2}}}}");
        check("{a: {'0': 1}}", "{a: {'0': 2}}", &["a.0"], "{sa: {u: {'0': 2}}}");
        check("{a: {b: 1}}", "{a: {b: 1}}", &["a.b.c"], "{sa: {u: {b: 1}}}");
    }

    #[test]
    fn many_paths_take_linear_time() {
        let fields = |value: i32| -> DocBuf { (0..200_000).map(|at| (format!("f{at}"), value)).collect() };
        let paths: Vec<String> = (0..200_000).map(|at| format!("f{at}")).collect();
        let (before, after) = (fields(1), fields(2));
        let delta = of_paths(before.as_doc(), after.as_doc(), &paths);
        assert_eq!(
            delta.get("u").map(|updated| matches!(updated, ValueRef::Document(doc) if doc.iter().count() == 200_000)),
            Some(true)
        );
    }
}
