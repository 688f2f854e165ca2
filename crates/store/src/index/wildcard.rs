//! Wildcard indexes: an entry for every path of a document that is in scope.
//!
//! A key has two components: the path, as a string without positions in arrays, and the value. In a compound one they are
//! among the components of the other fields, at the place of the wildcard in the pattern; a document without a path in scope
//! then has one key for each key of the other fields, with MinKey for path and value, so that no document is missing.
//!
//! | document | keys of `$**` |
//! |---|---|
//! | `{a: 1, b: {c: 2}}` | (a, 1), (b.c, 2) |
//! | `{a: {}}`, `{a: []}` | (a, {}), (a, undefined) |
//! | `{a: [1, {b: 2}, [3]]}` | (a, 1), (a.b, 2), (a, [3]) |
//!
//! | document | keys of `x: 1, a.$**: 1` |
//! |---|---|
//! | `{x: 5, a: {b: 1, c: 2}}` | (5, a.b, 1), (5, a.c, 2) |
//! | `{x: 5}` | (5, MinKey, MinKey) |
//!
//! Documents that are not empty have no key of their own, so equality with one cannot be looked up here. `_id` is left
//! out unless the projection asks for it. The index counts as multikey once a document has an array on the way to a path in scope, or two keys for
//! one path.

use arbor_bson::keystring::{self, Key, KeyBuilder};
use arbor_bson::{Doc, Elements, Value, ValueRef};
use arbor_lang::{Collation, stop};

use crate::index::keys::{self, KEYS_PER_DOCUMENT_MAX, Keys};
use crate::index::refusal::{cannot, number, problem};
use crate::{Direction, Error, FieldKind, IndexProblem, KeyField, Result};

/// The component of a key pattern that matches all paths.
pub(crate) const WILDCARD: &str = "$**";

/// The paths that have entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wildcard {
    /// `a` of `a.$**`.
    root: Option<String>,
    projection: Projection,
    with_id: bool,
    descending: bool,
    /// The other fields of the pattern: those before the wildcard, then those after it.
    others: Vec<KeyField>,
    /// Number of those before it.
    before: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Projection {
    All,
    /// These and what is below them.
    Only(Vec<String>),
    AllBut(Vec<String>),
}

impl Wildcard {
    /// None: the path of the key pattern is no wildcard.
    pub(crate) fn of(path: &str, descending: bool) -> Option<Wildcard> {
        let root = match path.strip_suffix(WILDCARD)? {
            "" => None,
            root => Some(root.strip_suffix('.')?.to_owned()),
        };
        let (projection, others) = (Projection::All, Vec::new());
        Some(Wildcard { root, projection, with_id: false, descending, others, before: 0 })
    }

    /// `None`: no field of the pattern is a wildcard. Errors: several are, or the pattern has fields that are not plain.
    pub(crate) fn of_pattern(pattern: &[KeyField]) -> Result<Option<Wildcard>> {
        let is_wildcard = |field: &KeyField| field.path == WILDCARD || field.path.ends_with(".$**");
        let Some(before) = pattern.iter().position(is_wildcard) else { return Ok(None) };
        let mut others = pattern.to_vec();
        let field = others.remove(before);
        if others.iter().any(is_wildcard) {
            return cannot("wildcard indexes do not allow more than one wildcard field");
        }
        if pattern.iter().any(|field| field.kind != FieldKind::Plain) {
            return cannot("wildcard indexes do not allow compounding with an index plugin");
        }
        let own = Wildcard::of(&field.path, field.direction == Direction::Descending);
        Ok(own.map(|own| Wildcard { others, before, ..own }))
    }

    /// Errors: a path in scope is another field of the pattern, below one, or above one.
    pub(crate) fn check_others(&self) -> Result<()> {
        let overlaps = |field: &str| {
            let within = |paths: &[String]| paths.iter().any(|path| is_within(path, field));
            self.covers(field)
                || self.root.as_deref().is_some_and(|root| is_within(root, field))
                || matches!(&self.projection, Projection::Only(paths) if within(paths))
        };
        match self.others.iter().find(|field| overlaps(&field.path)) {
            Some(_) if self.root.is_none() && self.projection == Projection::All => cannot(
                "The 'wildcardProjection' field must leave out the other fields of a compound wildcard index on '$**'",
            ),
            Some(field) => cannot(format!(
                "compound wildcard index: the field '{}' overlaps with what the wildcard holds",
                field.path
            )),
            None => Ok(()),
        }
    }

    /// The other fields of the pattern, in its order: before the wildcard, and after it.
    pub fn others(&self) -> (&[KeyField], &[KeyField]) {
        self.others.split_at(self.before)
    }

    /// `wildcardProjection`: fields to be taken or fields to be left out, and `_id` either way.
    pub(crate) fn project(&mut self, given: Doc<'_>) -> Result<()> {
        if self.root.is_some() {
            let reason = "The field 'wildcardProjection' is only allowed when 'key' is {\"$**\": ±1}";
            return problem(IndexProblem::FailedToParse, reason);
        }
        if given.is_empty() {
            return cannot("The 'wildcardProjection' field can't be an empty object");
        }
        let (mut only, mut all_but) = (Vec::new(), Vec::new());
        flatten("", given, &mut |path, taken| match (path, taken) {
            ("_id", taken) => self.with_id = taken,
            (path, true) => only.push(path.to_owned()),
            (path, false) => all_but.push(path.to_owned()),
        })?;
        self.projection = match (only.is_empty(), all_but.is_empty()) {
            (false, false) => {
                let reason = "wildcardProjection: fields cannot be both taken and left out";
                return problem(IndexProblem::Location(31_254), reason);
            }
            (false, true) => Projection::Only(only),
            (true, false) => Projection::AllBut(all_but),
            // `{_id: 1}` takes that alone, `{_id: 0}` says what is usual
            (true, true) if self.with_id => Projection::Only(Vec::new()),
            (true, true) => Projection::All,
        };
        Ok(())
    }

    /// Returns true if values at this path have entries.
    pub fn covers(&self, path: &str) -> bool {
        if is_within(path, "_id") {
            return self.with_id || self.root.as_deref().is_some_and(|root| is_within(path, root));
        }
        self.root.as_deref().is_none_or(|root| is_within(path, root))
            && match &self.projection {
                Projection::All => true,
                Projection::Only(paths) => paths.iter().any(|own| is_within(path, own)),
                Projection::AllBut(paths) => !paths.iter().any(|own| is_within(path, own)),
            }
    }

    /// Returns true if everything below this path has entries as well.
    pub fn covers_all_below(&self, path: &str) -> bool {
        let left_out = match &self.projection {
            Projection::AllBut(paths) => paths.iter().any(|own| is_within(own, path)),
            _ => false,
        };
        self.covers(path) && !left_out
    }

    /// The directions of all components.
    pub fn descending(&self) -> Vec<bool> {
        let (before, after) = self.others();
        let descending = |field: &KeyField| field.direction == Direction::Descending;
        let own = [false, self.descending];
        before.iter().map(descending).chain(own).chain(after.iter().map(descending)).collect()
    }

    /// The direction of the value.
    pub fn is_descending(&self) -> bool {
        self.descending
    }

    pub(crate) fn keys(&self, collation: &Collation, doc: Doc<'_>) -> Result<Keys> {
        let Around { values, multikey } = self.around(collation, doc)?;
        let (builder, around) = (KeyBuilder::new(), values.as_slice());
        let mut walk = Walk { scope: self, collation, around, builder, found: Vec::new(), arrays: false };
        walk.document(doc)?;
        if walk.found.is_empty() && !self.others.is_empty() {
            walk.push("", ValueRef::MinKey, ValueRef::MinKey)?;
        }
        let Walk { mut found, mut arrays, .. } = walk;
        found.sort_by(|a, b| a.key.bytes.cmp(&b.key.bytes));
        found.dedup_by(|a, b| a.key.bytes == b.key.bytes);
        // also what no array made: names with dots, and duplicate names
        let mut places: Vec<(usize, &str)> = found.iter().map(|found| (found.around, found.path.as_str())).collect();
        places.sort_unstable();
        arrays |= places.windows(2).any(|pair| matches!(pair, [a, b] if a == b));
        let keys = found.into_iter().map(|found| found.key).collect();
        let mut masks = multikey;
        debug_assert!(masks.len() == self.others.len(), "{} flags of {} fields", masks.len(), self.others.len());
        masks.insert(self.before, u64::from(arrays));
        Ok(Keys { keys, multikey: masks })
    }

    /// The values of the other fields, once for each of their keys.
    /// Values are as in the index.
    fn around(&self, collation: &Collation, doc: Doc<'_>) -> Result<Around> {
        if self.others.is_empty() {
            return Ok(Around { values: vec![Vec::new()], multikey: Vec::new() });
        }
        let Keys { keys, multikey } = keys::keys(&self.others, false, collation, doc)?;
        let descending: Vec<bool> = self.others.iter().map(|field| field.direction == Direction::Descending).collect();
        let values = keys.iter().map(|key| keystring::decode(&key.bytes, &key.type_bits, &descending));
        let values = values.collect::<std::result::Result<_, _>>().map_err(|error| Error::Corrupt {
            place: "a key that was just made".to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Around { values, multikey })
    }
}

struct Found {
    path: String,
    /// Index of the values around it.
    around: usize,
    key: Key,
}

/// The values before and after path and value in the keys of a document.
struct Around {
    values: Vec<Vec<Value>>,
    multikey: Vec<u64>,
}

/// `path` is `root` or below it.
fn is_within(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn join(prefix: &str, name: &str) -> String {
    let mut path = prefix.to_owned();
    extend(&mut path, name);
    path
}

fn extend(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

fn flatten(prefix: &str, given: Doc<'_>, take: &mut impl FnMut(&str, bool)) -> Result<()> {
    for (name, value) in given {
        let path = join(prefix, name);
        match (value, number(value)) {
            (ValueRef::Document(inner), _) => flatten(&path, inner, take)?,
            (ValueRef::Bool(taken), _) => take(&path, taken),
            (_, Some(n)) => take(&path, n != 0.0),
            _ => return cannot("wildcardProjection: only fields to be taken or left out are allowed"),
        }
    }
    Ok(())
}

struct Walk<'s> {
    scope: &'s Wildcard,
    around: &'s [Vec<Value>],
    collation: &'s Collation,
    builder: KeyBuilder,
    found: Vec<Found>,
    arrays: bool,
}

/// A document or an array whose elements are walked.
struct Open<'d> {
    elements: Elements<'d>,
    /// Bytes of the path that leads to it.
    path_len: usize,
    is_array: bool,
}

impl Walk<'_> {
    /// Walks with a stack on the heap: an index build finds documents of versions that did not limit their depth.
    fn document(&mut self, doc: Doc<'_>) -> Result<()> {
        let mut path = String::new();
        let mut open = vec![Open { elements: doc.iter(), path_len: 0, is_array: false }];
        while let Some(innermost) = open.last_mut() {
            path.truncate(innermost.path_len);
            let Some((name, value)) = innermost.elements.next() else {
                open.pop();
                continue;
            };
            let inner = if innermost.is_array {
                self.value(&path, value)?
            } else {
                extend(&mut path, name);
                self.field(&path, value)?
            };
            let path_len = path.len();
            open.extend(inner.map(|(elements, is_array)| Open { elements, path_len, is_array }));
        }
        Ok(())
    }

    /// Adds the keys of a field; returns what is to be walked of it, and whether that is an array.
    fn field<'d>(&mut self, path: &str, value: ValueRef<'d>) -> Result<Option<(Elements<'d>, bool)>> {
        let ValueRef::Array(array) = value else { return self.value(path, value) };
        self.arrays |= self.scope.root.as_deref().is_none_or(|root| is_within(path, root) || is_within(root, path));
        match array.is_empty() {
            true => self.value(path, ValueRef::Undefined),
            false => Ok(Some((array.as_doc().iter(), true))),
        }
    }

    fn value<'d>(&mut self, path: &str, value: ValueRef<'d>) -> Result<Option<(Elements<'d>, bool)>> {
        match value {
            ValueRef::Document(inner) if !inner.is_empty() => return Ok(Some((inner.iter(), false))),
            value if self.scope.covers(path) => self.push(path, ValueRef::String(path), value)?,
            _ => {}
        }
        Ok(None)
    }

    fn push(&mut self, path: &str, shown: ValueRef<'_>, value: ValueRef<'_>) -> Result<()> {
        let (before, behind) = self.scope.others();
        for (around, values) in self.around.iter().enumerate() {
            let (first, last) = values.split_at_checked(before.len()).unwrap_or_default();
            push_all(&mut self.builder, before, first);
            self.builder.push(shown, false);
            self.collation.push_key(&mut self.builder, value, self.scope.descending);
            push_all(&mut self.builder, behind, last);
            stop::tick_for(self.builder.len())?;
            self.found.push(Found { path: path.to_owned(), around, key: self.builder.finish() });
        }
        if self.found.len() > KEYS_PER_DOCUMENT_MAX {
            return Err(Error::TooManyKeys { keys_max: KEYS_PER_DOCUMENT_MAX });
        }
        Ok(())
    }
}

fn push_all(builder: &mut KeyBuilder, fields: &[KeyField], values: &[Value]) {
    debug_assert!(fields.len() == values.len(), "{} values of {} fields", values.len(), fields.len());
    for (field, value) in fields.iter().zip(values) {
        builder.push(value.as_ref(), field.direction == Direction::Descending);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::{ArrayBuf, DocBuf, Value, display, keystring};

    fn inner(name: &str, value: impl Into<Value>) -> Value {
        Value::Document(DocBuf::new().with(name, &value.into()))
    }

    fn array(values: &[Value]) -> Value {
        Value::Array(values.iter().collect::<ArrayBuf>())
    }

    #[track_caller]
    fn check(scope: &Wildcard, fields: &[(&str, Value)], expected: &str, multikey: bool) {
        let doc: DocBuf = fields.iter().map(|(name, value)| (*name, value)).collect();
        let keys = scope.keys(&Collation::simple(), doc.as_doc()).unwrap();
        let shown = |key: &Key| {
            let values = keystring::decode(&key.bytes, &key.type_bits, &scope.descending()).unwrap();
            values.iter().map(|value| display::shell(value.as_ref()).to_string()).collect::<Vec<_>>().join("=")
        };
        let shown: Vec<String> = keys.keys.iter().map(shown).collect();
        assert_eq!(shown.join(" ").replace('"', ""), expected);
        assert_eq!(keys.multikey, [u64::from(multikey)], "{expected}");
    }

    #[test]
    fn every_path_has_its_keys() {
        let all = Wildcard::of("$**", false).unwrap();
        let one = || Value::Int32(1);
        check(&all, &[("_id", one()), ("a", one()), ("b", inner("c", 2))], "a=1 b.c=2", false);
        check(&all, &[("a", Value::Document(DocBuf::new())), ("b", Value::Null)], "a={} b=null", false);
        check(&all, &[("a", array(&[]))], "a=undefined", true);
        check(&all, &[("a", array(&[one(), inner("b", 2), array(&[one()])]))], "a=1 a=[ 1 ] a.b=2", true);
        check(&all, &[("a.b", one()), ("a", inner("b", 2))], "a.b=1 a.b=2", true);
        let down = Wildcard::of("$**", true).unwrap();
        check(&down, &[("a", array(&[one(), Value::Int32(2)]))], "a=2 a=1", true);
    }

    fn field(path: &str, direction: Direction) -> KeyField {
        KeyField { path: path.to_owned(), kind: FieldKind::Plain, direction }
    }

    #[test]
    fn other_fields_surround_the_path() {
        use Direction::{Ascending, Descending};
        let pattern = [field("x", Ascending), field("a.$**", Ascending), field("y", Descending)];
        let scope = Wildcard::of_pattern(&pattern).unwrap().unwrap();
        let keys = |fields: &[(&str, Value)]| {
            let doc: DocBuf = fields.iter().map(|(name, value)| (*name, value)).collect();
            let Keys { keys, multikey } = scope.keys(&Collation::simple(), doc.as_doc()).unwrap();
            let shown = |key: &Key| {
                let values = keystring::decode(&key.bytes, &key.type_bits, &scope.descending()).unwrap();
                values.iter().map(|value| display::shell(value.as_ref()).to_string()).collect::<Vec<_>>().join(",")
            };
            (keys.iter().map(shown).collect::<Vec<_>>().join(" ").replace('"', ""), multikey)
        };
        let int = Value::Int32;
        let two = Value::Document(DocBuf::new().with("b", 1i32).with("c", 2i32));
        assert_eq!(keys(&[("x", int(5)), ("a", two)]), ("5,a.b,1,null 5,a.c,2,null".to_owned(), vec![0, 0, 0]));
        assert_eq!(keys(&[("y", int(7))]), ("null,MinKey,MinKey,7".to_owned(), vec![0, 0, 0]));
        let fields = [("x", array(&[int(1), int(2)])), ("a", inner("b", 3))];
        assert_eq!(keys(&fields), ("1,a.b,3,null 2,a.b,3,null".to_owned(), vec![1, 0, 0]));
    }

    #[test]
    fn other_fields_do_not_overlap() {
        let of = |paths: &[&str]| {
            let pattern: Vec<KeyField> = paths.iter().map(|path| field(path, Direction::Ascending)).collect();
            Wildcard::of_pattern(&pattern)
        };
        let check = |paths: &[&str]| of(paths).and_then(|scope| scope.unwrap().check_others()).is_ok();
        assert!(check(&["x", "a.$**"]) && check(&["a.$**"]) && check(&["$**"]));
        assert!(!check(&["a", "a.$**"]) && !check(&["a.b", "a.$**"]) && !check(&["a", "a.b.$**"]));
        assert!(!check(&["x", "$**"]) && of(&["$**", "a.$**"]).is_err() && of(&["x"]).unwrap().is_none());
        let mut left_out = of(&["x", "$**"]).unwrap().unwrap();
        left_out.project(DocBuf::new().with("x", 0i32).as_doc()).unwrap();
        assert!(left_out.check_others().is_ok());
    }

    #[test]
    fn what_is_in_scope() {
        let below = Wildcard::of("a.$**", false).unwrap();
        check(&below, &[("a", inner("b", 1)), ("ab", Value::Int32(2))], "a.b=1", false);
        assert!(Wildcard::of("a", false).is_none() && below.covers("a") && !below.covers("b"));
        let projected = |fields: &[(&str, i32)]| {
            let mut scope = Wildcard::of("$**", false).unwrap();
            let fields: DocBuf = fields.iter().copied().collect();
            scope.project(fields.as_doc()).map(|()| scope)
        };
        let only = projected(&[("a.b", 1), ("_id", 1)]).unwrap();
        assert!(only.covers("a.b.c") && only.covers("_id") && !only.covers("a") && !only.covers("c"));
        let all_but = projected(&[("a.b", 0)]).unwrap();
        assert!(all_but.covers("a") && !all_but.covers("a.b.c") && !all_but.covers("_id"));
        assert!(!all_but.covers_all_below("a") && all_but.covers_all_below("c"));
        assert!(projected(&[("a", 1), ("b", 0)]).is_err() && projected(&[]).is_err());
        assert!(below.clone().project(DocBuf::new().with("a", 1i32).as_doc()).is_err());
    }
}
