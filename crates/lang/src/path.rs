//! Dotted paths and how they reach into documents and arrays.
//!
//! A path `a.b.0` is compiled once into components. Reaching into an array is implicit: every element that is a document
//! is entered, and a numeric component selects an element as well.

use arbor_bson::{Array, DEPTH_MAX, Doc, ValueRef};

use crate::{Code, Error, Result};

/// A compiled dotted path.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Path {
    dotted: Box<str>,
    components: Box<[Component]>,
}

/// One name of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Component {
    pub name: Box<str>,
    /// The name as an array position: digits only and no leading zero.
    pub index: Option<usize>,
}

/// Treatment of an array that the last component leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaf {
    /// Its elements are visited in order, then the array itself.
    Expand,
    /// Only the array itself is visited.
    Whole,
}

/// One value a path leads to.
#[derive(Clone, Copy)]
pub struct Visit<'a> {
    /// `None`: the path ends in nothing here.
    pub value: Option<ValueRef<'a>>,
    /// Position in the outermost array that was passed on the way, if one was.
    pub index: Option<usize>,
}

impl Path {
    /// The path that a client names. Errors: it has more names than any document has levels.
    pub fn of_input(dotted: &str) -> Result<Path> {
        check_length(dotted)?;
        Ok(Path::new(dotted))
    }

    /// Every text is a path; an empty component is a field with the empty name. For what a client names use
    /// [`Path::of_input`]: walking a path is recursive.
    pub fn new(dotted: &str) -> Path {
        let components = dotted.split('.').map(Component::new).collect();
        Path { dotted: dotted.into(), components }
    }

    pub fn as_str(&self) -> &str {
        &self.dotted
    }

    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// The name before the first dot.
    pub fn head(&self) -> &str {
        self.components.first().map_or("", |component| &component.name)
    }

    /// Returns true if one of the two paths is the other or a field inside it.
    pub fn overlaps(&self, other: &Path) -> bool {
        self.components.iter().zip(&other.components).all(|(a, b)| a.name == b.name)
    }

    /// Visits what the path leads to in `doc` until `visit` returns true; returns whether it did.
    ///
    /// A document on the way that lacks the next field gives one visit with no value, as does a scalar in the place of
    /// a document; an element of an array that is no document gives none.
    pub fn visit<'a>(&self, doc: Doc<'a>, leaf: Leaf, visit: &mut impl FnMut(Visit<'a>) -> bool) -> bool {
        self.visit_from(doc.get(self.head()), leaf, visit)
    }

    /// As [`Path::visit`] of a document whose field of the first name is `head`.
    pub fn visit_from<'a>(
        &self,
        head: Option<ValueRef<'a>>,
        leaf: Leaf,
        visit: &mut impl FnMut(Visit<'a>) -> bool,
    ) -> bool {
        self.components.split_first().is_some_and(|(_, rest)| at_field(head, rest, leaf, None, visit))
    }

    /// The one value at the path without any implicit array traversal; numeric components are field names only.
    pub fn get_strict<'a>(&self, doc: Doc<'a>) -> Option<ValueRef<'a>> {
        let (last, parents) = self.components.split_last()?;
        let mut doc = doc;
        for component in parents {
            match doc.get(&component.name)? {
                ValueRef::Document(inner) => doc = inner,
                _ => return None,
            }
        }
        doc.get(&last.name)
    }
}

impl Component {
    pub fn new(name: &str) -> Component {
        Component { name: name.into(), index: array_index(name) }
    }
}

/// Refuses a path that cannot lead anywhere: every name but the last one is a level of nesting.
pub fn check_length(dotted: &str) -> Result<()> {
    match dotted.bytes().filter(|byte| *byte == b'.').count() < DEPTH_MAX {
        true => Ok(()),
        false => Err(Error::new(Code::OVERFLOW, "FieldPath is too long")),
    }
}

/// A name as an array position.
pub fn array_index(name: &str) -> Option<usize> {
    let plain = name == "0" || (!name.starts_with('0') && !name.is_empty());
    (plain && name.bytes().all(|b| b.is_ascii_digit())).then(|| name.parse().ok()).flatten()
}

fn in_document<'a, F: FnMut(Visit<'a>) -> bool>(
    doc: Doc<'a>,
    path: &[Component],
    leaf: Leaf,
    outer: Option<usize>,
    visit: &mut F,
) -> bool {
    let Some((first, rest)) = path.split_first() else { return false };
    at_field(doc.get(&first.name), rest, leaf, outer, visit)
}

/// At the field that a path leads to, with `rest` of the path to go.
fn at_field<'a, F: FnMut(Visit<'a>) -> bool>(
    value: Option<ValueRef<'a>>,
    rest: &[Component],
    leaf: Leaf,
    outer: Option<usize>,
    visit: &mut F,
) -> bool {
    match value {
        Some(ValueRef::Array(array)) if rest.is_empty() => match leaf {
            Leaf::Whole => visit(Visit { value, index: outer }),
            Leaf::Expand => at_leaf_array(array, outer, visit) || visit(Visit { value, index: outer }),
        },
        _ if rest.is_empty() => visit(Visit { value, index: outer }),
        Some(ValueRef::Document(inner)) => in_document(inner, rest, leaf, outer, visit),
        Some(ValueRef::Array(array)) => in_array(array, rest, leaf, outer, visit),
        _ => visit(Visit { value: None, index: outer }),
    }
}

fn at_leaf_array<'a, F: FnMut(Visit<'a>) -> bool>(array: Array<'a>, outer: Option<usize>, visit: &mut F) -> bool {
    array.iter().enumerate().any(|(at, value)| visit(Visit { value: Some(value), index: outer.or(Some(at)) }))
}

/// Visits the rest of a path inside an array in the middle of it.
fn in_array<'a, F: FnMut(Visit<'a>) -> bool>(
    array: Array<'a>,
    path: &[Component],
    leaf: Leaf,
    outer: Option<usize>,
    visit: &mut F,
) -> bool {
    let Some((first, rest)) = path.split_first() else { return false };
    for (at, value) in array.iter().enumerate() {
        let index = outer.or(Some(at));
        if let ValueRef::Document(inner) = value
            && in_document(inner, path, leaf, index, visit)
        {
            return true;
        }
        if first.index != Some(at) {
            continue;
        }
        let found = match value {
            _ if rest.is_empty() => visit(Visit { value: Some(value), index }),
            ValueRef::Document(inner) => in_document(inner, rest, leaf, index, visit),
            ValueRef::Array(inner) => in_array(inner, rest, leaf, index, visit),
            _ => false,
        };
        if found {
            return true;
        }
    }
    false
}

impl std::fmt::Debug for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.dotted)
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.dotted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::{ArrayBuf, DocBuf};

    fn numbers(doc: &DocBuf, path: &str, leaf: Leaf) -> Vec<String> {
        let mut seen = Vec::new();
        Path::new(path).visit(doc.as_doc(), leaf, &mut |visit| {
            let text = match visit.value {
                None => "missing".to_owned(),
                Some(ValueRef::Int32(n)) => n.to_string(),
                Some(other) => format!("{:?}", other.ty()),
            };
            seen.push(match visit.index {
                Some(index) => format!("{text}@{index}"),
                None => text,
            });
            false
        });
        seen
    }

    #[test]
    fn visits() {
        let pair: ArrayBuf = [1i32, 2].into_iter().collect();
        let inner = DocBuf::new().with("c", 7i32);
        let empty = DocBuf::new();
        let mut mixed = ArrayBuf::new();
        mixed.push(&inner).push(5i32).push(&empty).push(&pair);
        let doc = DocBuf::new().with("n", 3i32).with("p", &pair).with("m", &mixed).with("d", &inner);
        let none: &[&str] = &[];
        for (path, leaf, expect) in [
            ("n", Leaf::Expand, &["3"] as &[&str]),
            ("x", Leaf::Expand, &["missing"]),
            ("n.x", Leaf::Expand, &["missing"]),
            ("d.c", Leaf::Expand, &["7"]),
            ("d.x.y", Leaf::Expand, &["missing"]),
            ("p", Leaf::Expand, &["1@0", "2@1", "Array"]),
            ("p", Leaf::Whole, &["Array"]),
            ("p.1", Leaf::Expand, &["2@1"]),
            ("p.7", Leaf::Expand, none),
            ("p.x", Leaf::Expand, none),
            ("m.c", Leaf::Expand, &["7@0", "missing@2"]),
            ("m.3", Leaf::Expand, &["missing@0", "missing@2", "Array@3"]),
            ("m.3.1", Leaf::Expand, &["missing@0", "missing@2", "2@3"]),
            ("m.0.c", Leaf::Expand, &["missing@0", "7@0", "missing@2"]),
        ] {
            assert_eq!(numbers(&doc, path, leaf), expect, "{path}");
        }
    }

    #[test]
    fn as_many_names_as_levels() {
        let path = |names: usize| vec!["a"; names].join(".");
        assert_eq!(Path::of_input(&path(DEPTH_MAX)).unwrap().components().len(), DEPTH_MAX);
        assert_eq!(Path::of_input(&path(DEPTH_MAX + 1)).unwrap_err().code, Code::OVERFLOW);
    }

    #[test]
    fn positions() {
        for (name, expect) in [("0", Some(0)), ("12", Some(12)), ("01", None), ("", None), ("-1", None), ("a", None)] {
            assert_eq!(array_index(name), expect, "{name}");
        }
    }

    #[test]
    fn overlaps() {
        for (a, b, expect) in [("a", "a", true), ("a", "a.b", true), ("a.b", "a.c", false), ("a", "ab", false)] {
            assert_eq!(Path::new(a).overlaps(&Path::new(b)), expect);
        }
    }
}
