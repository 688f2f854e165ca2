//! The keys of one document in one index.
//!
//! Each field of the pattern walks its path until it finds an array. All fields that find one must find the same array
//! (no parallel arrays); for every element of it, the fields then continue from that element, which may lead to further
//! arrays. What MongoDB does, and so does this:
//!
//! | document | index | keys |
//! |---|---|---|
//! | `{}` | `a` | null |
//! | `{a: []}` | `a` | undefined |
//! | `{a: []}` | `a.b` | null |
//! | `{a: [1, 2, 1]}` | `a` | 1, 2 |
//! | `{a: [[1, 2], 3]}` | `a` | [1, 2], 3 |
//! | `{a: [{b: 1}, {b: [2, 3]}, 4]}` | `a.b` | 1, 2, 3, null |
//! | `{a: [5, 6]}` | `a.1` | 6 |
//! | `{a: [1, 2], b: 3}` | `a, b` | (1, 3), (2, 3) |
//!
//! The component of a hashed field is its hash, and no field of such an index may have an array on its path. A partial
//! index has no keys of documents that its filter does not match. A sparse index leaves out keys in which every field is missing.

use arbor_bson::keystring::{Key, KeyBuilder};
use arbor_bson::{Array, Doc, ValueRef};
use arbor_lang::{Collation, stop};

use crate::{Direction, Error, FieldKind, Index, KeyField, Result, hash_of};

/// Most keys that one document may have in one index.
pub const KEYS_PER_DOCUMENT_MAX: usize = 100_000;

/// The last bit covers all components from here on.
const LAST_COMPONENT_BIT: usize = 63;

/// The keys of `doc`, in order, each once.
pub fn index_keys(index: &Index, doc: Doc<'_>) -> Result<Vec<Key>> {
    index.keys_of(doc).map(|keys| keys.keys)
}

impl Index {
    pub(crate) fn keys_of(&self, doc: Doc<'_>) -> Result<Keys> {
        match &self.partial {
            Some(partial) if !partial.matches(doc)? => Ok(Keys::none(self.key_pattern.len())),
            _ => {
                let keys = self.generator.keys(&self.key_pattern, self.sparse, &self.collation, doc)?;
                // a key of a large value is cut short when the statement is to stop, and must not be written
                stop::ended()?;
                let ascend = |one: &Key, next: &Key| one.bytes < next.bytes;
                debug_assert!(keys.keys.is_sorted_by(ascend), "keys of {} are in order, each once", self.name);
                debug_assert!(keys.multikey.len() == self.key_pattern.len(), "flags of each field of {}", self.name);
                Ok(keys)
            }
        }
    }
}

pub(crate) struct Keys {
    /// In order of their bytes, each once.
    pub keys: Vec<Key>,
    /// Per field, the components at which there were arrays; see [`Index::multikey_components`].
    pub multikey: Vec<u64>,
}

impl Keys {
    /// Returns the keys of a document without entries.
    fn none(fields: usize) -> Keys {
        Keys { keys: Vec::new(), multikey: vec![0; fields] }
    }
}

/// The progress of one field of the pattern.
#[derive(Clone, Copy)]
enum Step<'d, 'p> {
    /// At its value; `None` is a missing one.
    Done(Option<ValueRef<'d>>),
    /// Before the first component of `rest` in a document.
    Walk { doc: Doc<'d>, rest: &'p str },
    /// At an array, with `rest` (maybe empty) to go.
    Array { array: Array<'d>, rest: &'p str },
}

impl<'d, 'p> Step<'d, 'p> {
    /// Walks to the value or to the next array.
    fn walk(self) -> Step<'d, 'p> {
        let Step::Walk { mut doc, mut rest } = self else { return self };
        loop {
            let (name, tail) = rest.split_once('.').unwrap_or((rest, ""));
            match doc.get(name) {
                Some(ValueRef::Array(array)) => return Step::Array { array, rest: tail },
                Some(value) if tail.is_empty() => return Step::Done(Some(value)),
                Some(ValueRef::Document(inner)) => (doc, rest) = (inner, tail),
                _ => return Step::Done(None),
            }
        }
    }

    /// Continues from one element of the array that this field has reached.
    fn enter(self, element: Element<'d>) -> Result<Step<'d, 'p>> {
        let Step::Array { array, rest } = self else { return Ok(self) };
        if rest.is_empty() {
            return Ok(Step::Done(Some(element.value())));
        }
        let name = rest.split_once('.').map_or(rest, |(name, _)| name);
        let by_position = is_position(name) && array.as_doc().get(name).is_some();
        match element {
            Element::Value(ValueRef::Document(doc)) if by_position && doc.get(name).is_some() => {
                Err(Error::AmbiguousArrayField { field: name.to_owned() })
            }
            _ if by_position => Ok(Step::Walk { doc: array.as_doc(), rest }),
            Element::Value(ValueRef::Document(doc)) => Ok(Step::Walk { doc, rest }),
            _ => Ok(Step::Done(None)),
        }
    }
}

#[derive(Clone, Copy)]
enum Element<'d> {
    Value(ValueRef<'d>),
    /// A substitute for the elements of an empty array.
    OfEmpty,
}

impl<'d> Element<'d> {
    fn value(self) -> ValueRef<'d> {
        match self {
            Element::Value(value) => value,
            Element::OfEmpty => ValueRef::Undefined,
        }
    }
}

fn is_position(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit()) && (name.len() == 1 || !name.starts_with('0'))
}

/// The keys that the fields of a pattern make.
pub(crate) fn keys(pattern: &[KeyField], sparse: bool, collation: &Collation, doc: Doc<'_>) -> Result<Keys> {
    let steps: Vec<Step> = pattern.iter().map(|field| Step::Walk { doc, rest: &field.path }.walk()).collect();
    let multikey = vec![0; pattern.len()];
    let mut generator =
        Generator { pattern, sparse, collation, builder: KeyBuilder::new(), keys: Vec::new(), multikey };
    generator.expand(&steps)?;
    let Generator { mut keys, multikey, .. } = generator;
    if keys.len() > 1 {
        keys.sort_by(|a, b| a.bytes.cmp(&b.bytes));
        keys.dedup_by(|a, b| a.bytes == b.bytes);
    }
    Ok(Keys { keys, multikey })
}

struct Generator<'p> {
    pattern: &'p [KeyField],
    sparse: bool,
    collation: &'p Collation,
    builder: KeyBuilder,
    keys: Vec<Key>,
    multikey: Vec<u64>,
}

impl<'p> Generator<'p> {
    /// Requires walked steps. Recursion is bounded by the depth of the document.
    fn expand(&mut self, steps: &[Step<'_, 'p>]) -> Result<()> {
        let Some(array) = self.the_array(steps)? else { return self.emit(steps) };
        if let Some(hashed) = self.pattern.iter().find(|field| field.kind == FieldKind::Hashed) {
            return Err(Error::HashedArray { path: hashed.path.clone() });
        }
        if array.is_empty() {
            return self.expand_element(steps, Element::OfEmpty);
        }
        array.iter().try_for_each(|value| self.expand_element(steps, Element::Value(value)))
    }

    fn expand_element<'d>(&mut self, steps: &[Step<'d, 'p>], element: Element<'d>) -> Result<()> {
        stop::tick()?;
        let inner: Result<Vec<Step>> = steps.iter().map(|step| Ok(step.enter(element)?.walk())).collect();
        self.expand(&inner?)
    }

    /// Returns the one array that fields have reached, if any. Notes the multikey components.
    fn the_array<'d>(&mut self, steps: &[Step<'d, 'p>]) -> Result<Option<Array<'d>>> {
        let mut found: Option<(Array<'d>, usize)> = None;
        for (field, step) in steps.iter().enumerate() {
            let Step::Array { array, rest } = step else { continue };
            if let Some((first, at)) = found
                && first.as_bytes().as_ptr() != array.as_bytes().as_ptr()
            {
                return Err(self.parallel(steps, field, at));
            }
            found.get_or_insert((*array, field));
            let component = self.component(field, rest);
            if let Some(mask) = self.multikey.get_mut(field) {
                *mask |= 1 << component.min(LAST_COMPONENT_BIT);
            }
        }
        Ok(found.map(|(array, _)| array))
    }

    /// Index of the component whose value is the array, when `rest` is still to go.
    fn component(&self, field: usize, rest: &str) -> usize {
        let dots = |path: &str| path.bytes().filter(|byte| *byte == b'.').count();
        let path = self.pattern.get(field).map_or("", |field| &field.path);
        let to_go = if rest.is_empty() { 0 } else { 1 + dots(rest) };
        debug_assert!(to_go <= dots(path), "{rest} is the end of {path}");
        dots(path) - to_go
    }

    fn parallel(&self, steps: &[Step<'_, 'p>], field: usize, other: usize) -> Error {
        let name = |field: usize| {
            let rest = match steps.get(field) {
                Some(Step::Array { rest, .. }) => rest,
                _ => "",
            };
            let path = self.pattern.get(field).map_or("", |field| &field.path);
            path.split('.').nth(self.component(field, rest)).unwrap_or_default().to_owned()
        };
        Error::CannotIndexParallelArrays { first: name(field), second: name(other) }
    }

    fn emit(&mut self, steps: &[Step<'_, 'p>]) -> Result<()> {
        debug_assert!(steps.len() == self.pattern.len(), "a key has a component of each field");
        debug_assert!(steps.iter().all(|step| matches!(step, Step::Done(_))), "each field is at its value");
        if self.sparse && steps.iter().all(|step| matches!(step, Step::Done(None))) {
            return Ok(());
        }
        for (step, field) in steps.iter().zip(self.pattern) {
            let value = match step {
                Step::Done(Some(value)) => *value,
                _ => ValueRef::Null,
            };
            match field.kind {
                FieldKind::Plain | FieldKind::Text => {
                    self.collation.push_key(&mut self.builder, value, field.direction == Direction::Descending);
                }
                FieldKind::Hashed => {
                    let hash = hash_of(self.collation.index_value(value).as_ref());
                    self.builder.push(ValueRef::Int64(hash), false);
                }
                // places are not made here, see `geo_keys.rs`
                FieldKind::Sphere | FieldKind::Plane => {
                    self.builder.push(ValueRef::Null, false);
                }
            }
        }
        stop::tick_for(self.builder.len())?;
        self.keys.push(self.builder.finish());
        if self.keys.len() > KEYS_PER_DOCUMENT_MAX {
            return Err(Error::TooManyKeys { keys_max: KEYS_PER_DOCUMENT_MAX });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::{ArrayBuf, DocBuf, Value, keystring};

    fn pattern(text: &str) -> Vec<KeyField> {
        let field = |path: &str| match path.strip_prefix('-') {
            Some(path) => KeyField { path: path.into(), kind: FieldKind::Plain, direction: Direction::Descending },
            None => KeyField { path: path.into(), kind: FieldKind::Plain, direction: Direction::Ascending },
        };
        text.split(' ').map(field).collect()
    }

    fn array(values: &[Value]) -> Value {
        Value::Array(values.iter().collect::<ArrayBuf>())
    }

    fn doc(fields: &[(&str, Value)]) -> DocBuf {
        fields.iter().map(|(name, value)| (*name, value)).collect()
    }

    fn obj(fields: &[(&str, Value)]) -> Value {
        Value::Document(doc(fields))
    }

    fn i(n: i32) -> Value {
        Value::Int32(n)
    }

    fn shown(pattern: &[KeyField], keys: &Keys) -> String {
        let descending: Vec<bool> = pattern.iter().map(|f| f.direction == Direction::Descending).collect();
        let decode = |key: &Key| format!("{:?}", keystring::decode(&key.bytes, &key.type_bits, &descending).unwrap());
        keys.keys.iter().map(decode).collect::<Vec<_>>().join(" ").replace("Int32", "")
    }

    fn check(fields: &[(&str, Value)], of: &str, expected: &str, multikey: &[u64]) {
        let pattern = pattern(of);
        let got = keys(&pattern, false, &Collation::simple(), doc(fields).as_doc()).unwrap();
        assert_eq!(shown(&pattern, &got), expected, "{of} of {fields:?}");
        assert_eq!(got.multikey, multikey, "{of} of {fields:?}");
    }

    #[test]
    fn keys_are_mongodbs() {
        let a = |value: Value| [("a", value)];
        check(&[], "a", "[Null]", &[0]);
        check(&a(i(1)), "a", "[(1)]", &[0]);
        check(&a(i(1)), "a.b", "[Null]", &[0]);
        check(&a(obj(&[("b", i(1))])), "a.b", "[(1)]", &[0]);
        check(&a(array(&[])), "a", "[Undefined]", &[1]);
        check(&a(array(&[])), "a.b", "[Null]", &[1]);
        check(&a(array(&[i(2), i(1), i(2)])), "a", "[(1)] [(2)]", &[1]);
        check(&a(array(&[i(2), i(1)])), "-a", "[(2)] [(1)]", &[1]);
        check(&a(array(&[array(&[i(1), i(2)]), i(3)])), "a", "[(3)] [Array([(1), (2)])]", &[1]);
        check(&a(array(&[array(&[obj(&[("b", i(1))])])])), "a.b", "[Null]", &[1]);
        let mixed = array(&[obj(&[("b", i(1))]), obj(&[("b", array(&[i(2), i(3)]))]), i(4)]);
        check(&a(mixed), "a.b", "[Null] [(1)] [(2)] [(3)]", &[3]);
        check(&a(array(&[i(5), i(6)])), "a.1", "[(6)]", &[1]);
        check(&a(array(&[i(5), i(6)])), "a.2", "[Null]", &[1]);
        check(&a(array(&[obj(&[("b", i(7))])])), "a.0.b", "[(7)]", &[1]);
        check(&a(obj(&[("0", i(7))])), "a.0", "[(7)]", &[0]);
    }

    #[test]
    fn compound_keys_pair_each_element_with_the_other_fields() {
        check(&[("a", array(&[i(1), i(2)])), ("b", i(3))], "a b", "[(1), (3)] [(2), (3)]", &[1, 0]);
        let elements = array(&[obj(&[("x", i(1)), ("y", i(2))]), obj(&[("x", i(3))])]);
        check(&[("a", elements)], "a.x a.y", "[(1), (2)] [(3), Null]", &[1, 1]);
        let fields = [("a", array(&[obj(&[("x", i(1))])])), ("b", i(9))];
        check(&fields, "b a.x -c", "[(9), (1), Null]", &[0, 1, 0]);
    }

    #[test]
    fn parallel_arrays_and_ambiguous_names_are_refused() {
        let refuse = |fields: &[(&str, Value)], of: &str| {
            keys(&pattern(of), false, &Collation::simple(), doc(fields).as_doc()).err().unwrap()
        };
        let parallel = refuse(&[("a", array(&[i(1)])), ("b", array(&[]))], "a b");
        assert_eq!(parallel.to_string(), "cannot index parallel arrays [b] [a]");
        let inner = array(&[obj(&[("x", array(&[i(1)])), ("y", array(&[i(1)]))])]);
        assert_eq!(refuse(&[("a", inner)], "a.x a.y").to_string(), "cannot index parallel arrays [y] [x]");
        let ambiguous = array(&[obj(&[("0", i(1))])]);
        assert!(matches!(refuse(&[("a", ambiguous)], "a.0"), Error::AmbiguousArrayField { .. }));
    }

    #[test]
    fn sparse_leaves_out_what_has_none_of_the_fields() {
        let count = |fields: &[(&str, Value)]| {
            keys(&pattern("a b"), true, &Collation::simple(), doc(fields).as_doc()).unwrap().keys.len()
        };
        assert_eq!(count(&[("c", i(1))]), 0);
        assert_eq!(count(&[("b", i(1))]), 1);
        assert_eq!(count(&[("a", Value::Null)]), 1);
        assert_eq!(count(&[("a", array(&[]))]), 1);
    }

    #[test]
    fn a_document_with_too_many_keys_is_refused() {
        let many: ArrayBuf = (0..=KEYS_PER_DOCUMENT_MAX as i32).collect();
        let doc = DocBuf::new().with("a", &many);
        assert!(matches!(
            keys(&pattern("a"), false, &Collation::simple(), doc.as_doc()),
            Err(Error::TooManyKeys { .. })
        ));
    }
}
