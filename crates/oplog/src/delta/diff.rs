//! Making a delta.

use std::collections::HashSet;

use arbor_bson::{Array, DEPTH_MAX, Doc, DocBuf, ValueRef, identical};

/// Returns the delta that turns `before` into `after`; `None` if it is no shorter than `after` itself.
pub fn diff(before: Doc<'_>, after: Doc<'_>) -> Option<DocBuf> {
    let delta = of_documents(before, after, DEPTH_MAX);
    (delta.as_bytes().len() < after.as_bytes().len()).then_some(delta)
}

/// `levels`: how much deeper it looks. What nests deeper was stored by versions without a limit, and is written whole.
fn of_documents(before: Doc<'_>, after: Doc<'_>, levels: usize) -> DocBuf {
    let mut changes = Changes::default();
    let (mut old, mut new) = (before.iter().peekable(), after.iter().peekable());
    while let (Some((was, from)), Some((is, to))) = (old.peek().copied(), new.peek().copied()) {
        if was == is {
            changes.compare(is, from, to, levels);
            new.next();
        } else {
            // gone, or further behind: then it is appended again
            changes.removed.push(was);
        }
        old.next();
    }
    changes.removed.extend(old.map(|(name, _)| name));
    changes.inserted.extend(new);
    changes.into_doc()
}

/// Changes of the fields of one document.
#[derive(Default)]
struct Changes<'a> {
    removed: Vec<&'a str>,
    updated: DocBuf,
    inserted: Vec<(&'a str, ValueRef<'a>)>,
    inner: Vec<(&'a str, DocBuf)>,
}

impl<'a> Changes<'a> {
    fn compare(&mut self, name: &'a str, from: ValueRef<'a>, to: ValueRef<'a>, levels: usize) {
        match Difference::of(from, to, levels) {
            Difference::None => {}
            Difference::Value => {
                self.updated.append(name, to);
            }
            Difference::Inner(inner) => self.inner.push((name, inner)),
        }
    }

    fn into_doc(self) -> DocBuf {
        let inserted: HashSet<&str> = self.inserted.iter().map(|(name, _)| *name).collect();
        let removed: DocBuf =
            self.removed.into_iter().filter(|name| !inserted.contains(name)).map(|name| (name, false)).collect();
        let mut out = DocBuf::new();
        let sections = [("d", removed), ("u", self.updated), ("i", self.inserted.into_iter().collect())];
        for (name, section) in &sections {
            if !section.as_doc().is_empty() {
                out.append(name, section);
            }
        }
        for (name, inner) in &self.inner {
            out.append(&format!("s{name}"), inner);
        }
        out
    }
}

enum Difference {
    None,
    Value,
    Inner(DocBuf),
}

impl Difference {
    fn of(from: ValueRef<'_>, to: ValueRef<'_>, levels: usize) -> Difference {
        if identical(from, to) {
            return Difference::None;
        }
        let Some(levels) = levels.checked_sub(1) else { return Difference::Value };
        let (inner, whole) = match (from, to) {
            (ValueRef::Document(from), ValueRef::Document(to)) => (of_documents(from, to, levels), to.as_bytes()),
            (ValueRef::Array(from), ValueRef::Array(to)) => (of_arrays(from, to, levels), to.as_bytes()),
            _ => return Difference::Value,
        };
        if inner.as_bytes().len() < whole.len() { Difference::Inner(inner) } else { Difference::Value }
    }
}

fn of_arrays(before: Array<'_>, after: Array<'_>, levels: usize) -> DocBuf {
    let (before_len, after_len) = (before.len(), after.len());
    let mut out = DocBuf::new().with("a", true);
    if after_len < before_len {
        out.append("l", after_len as i32);
    }
    let mut old = before.iter();
    for (at, to) in after.iter().enumerate() {
        match old.next().map_or(Difference::Value, |from| Difference::of(from, to, levels)) {
            Difference::None => {}
            Difference::Value => {
                out.append(&format!("u{at}"), to);
            }
            Difference::Inner(inner) => {
                out.append(&format!("s{at}"), &inner);
            }
        }
    }
    out
}
