//! Text indexes: an entry for every term of a document.
//!
//! A key holds the fields before the text (exactly one value each) and the term, and is followed by the record's key, so
//! that the entries of a term are in the order of the records. Where other indexes keep type bits, an entry has the
//! term's score in the document (f64, little-endian).
//!
//! The key pattern shows the text as `_fts: "text", _ftsx: 1`, whatever the fields are; those are in `weights`. Fields
//! after the text are checked and have no part in the keys.

use std::sync::Arc;

use arbor_bson::keystring::{Key, KeyBuilder};
use arbor_bson::{Doc, DocBuf, Value, ValueRef};
use arbor_lang::text_search::{Language, TextFields, Weight};

use crate::index::key_pattern::default_name;
use crate::index::keys::{KEYS_PER_DOCUMENT_MAX, Keys};
use crate::index::refusal::{cannot, number, problem, shown, type_name};
use crate::{Direction, Error, FieldKind, IndexProblem, KeyField, Result};

const TEXT: &str = "text";
/// The names of the text in a key pattern.
const TERM: &str = "_fts";
const EXTRA: &str = "_ftsx";
const WILDCARD: &str = "$**";
const VERSION: i32 = 3;
/// Options that describe the text.
const OPTIONS: &[&str] = &["weights", "default_language", "language_override", "textIndexVersion"];
/// Weights lie between 0 and this, neither included.
const WEIGHT_END: f64 = 1_000_000_000.0;

/// Makes the keys of a text index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextKeys {
    fields: Arc<TextFields>,
    /// Names of the top-level fields that the keys come from; none: all.
    sources: Option<Vec<String>>,
}

impl TextKeys {
    /// Requires a specification in the form that [`normalised`] gives it. None: it is no text index.
    pub(crate) fn of(pattern: &[KeyField], spec: Doc<'_>) -> Result<Option<TextKeys>> {
        if !pattern.iter().any(|field| field.kind == FieldKind::Text) {
            return Ok(None);
        }
        let weights: Vec<Weight> = match spec.get("weights") {
            Some(ValueRef::Document(weights)) => weights
                .iter()
                .map(|(path, weight)| Weight { path: path.to_owned(), weight: number(weight).unwrap_or(1.0) })
                .collect(),
            _ => Vec::new(),
        };
        let text = |name: &str| match spec.get(name) {
            Some(ValueRef::String(text)) => text.to_owned(),
            _ => String::new(),
        };
        let language = Language::of_name(&text("default_language")).map_or_else(bad_language, Ok)?;
        let language_field = text("language_override");
        let every = weights.iter().any(|own| own.path == WILDCARD);
        let top = |path: &str| path.split('.').next().unwrap_or_default().to_owned();
        let paths = weights.iter().map(|own| own.path.as_str()).chain(pattern.iter().map(|own| own.path.as_str()));
        let sources = (!every).then(|| paths.map(top).chain([language_field.clone()]).collect());
        let fields = Arc::new(TextFields::new(weights, language, &language_field));
        Ok(Some(TextKeys { fields, sources }))
    }

    pub fn fields(&self) -> &Arc<TextFields> {
        &self.fields
    }

    /// The top-level fields that keys come from. None: any field.
    pub(crate) fn sources(&self) -> Option<&[String]> {
        self.sources.as_deref()
    }

    /// The directions of a key's components: the fields before the text, and the term.
    pub(crate) fn descending(pattern: &[KeyField]) -> Vec<bool> {
        let before = prefix(pattern).iter().map(|field| field.direction == Direction::Descending);
        before.chain([false]).collect()
    }

    pub(crate) fn keys(&self, pattern: &[KeyField], doc: Doc<'_>) -> Result<Keys> {
        for field in pattern.iter().filter(|field| field.kind != FieldKind::Text) {
            single(doc, &field.path)?;
        }
        let scores = self.fields.scores(doc)?;
        if scores.len() > KEYS_PER_DOCUMENT_MAX {
            return Err(Error::TooManyKeys { keys_max: KEYS_PER_DOCUMENT_MAX });
        }
        let mut before = KeyBuilder::new();
        for field in prefix(pattern) {
            let value = single(doc, &field.path)?;
            before.push(value.unwrap_or(ValueRef::Null), field.direction == Direction::Descending);
        }
        let mut builder = KeyBuilder::new();
        let key = |(term, score): (&String, &f64)| {
            let term = builder.clear().push(ValueRef::String(term), false).finish();
            Key { bytes: [before.bytes(), &term.bytes].concat(), type_bits: score.to_le_bytes().to_vec() }
        };
        let mut keys: Vec<Key> = scores.iter().map(key).collect();
        keys.sort_unstable_by(|a, b| a.bytes.cmp(&b.bytes));
        Ok(Keys { keys, multikey: vec![0; pattern.len()] })
    }
}

/// The score in an entry of a text index.
pub fn text_score(type_bits: &[u8]) -> f64 {
    type_bits.first_chunk::<8>().map_or(0.0, |bytes| f64::from_le_bytes(*bytes))
}

/// Returns the prefix of the entries of a term. Requires as many values as there are fields before the text.
pub fn text_key<'v>(pattern: &[KeyField], before: impl IntoIterator<Item = ValueRef<'v>>, term: &str) -> Vec<u8> {
    let (mut builder, mut pushed) = (KeyBuilder::new(), 0);
    for (field, value) in prefix(pattern).iter().zip(before) {
        builder.push(value, field.direction == Direction::Descending);
        pushed += 1;
    }
    assert!(pushed == prefix(pattern).len(), "{pushed} values of {} fields before the text", prefix(pattern).len());
    builder.push(ValueRef::String(term), false).finish().bytes
}

/// The fields before the text.
pub fn prefix(pattern: &[KeyField]) -> &[KeyField] {
    let end = pattern.iter().position(|field| field.kind == FieldKind::Text).unwrap_or(pattern.len());
    pattern.get(..end).unwrap_or_default()
}

/// Returns the value at a path. Errors: there is an array on the way.
fn single<'d>(doc: Doc<'d>, path: &str) -> Result<Option<ValueRef<'d>>> {
    let mut doc = doc;
    let mut rest = path;
    loop {
        let (name, tail) = rest.split_once('.').unwrap_or((rest, ""));
        match doc.get(name) {
            Some(ValueRef::Array(_)) => {
                let message = "cannot have a multi-key as a prefix to a text index";
                return Err(Error::Filter(arbor_lang::Error::location(16675, message)));
            }
            Some(value) if tail.is_empty() => return Ok(Some(value)),
            Some(ValueRef::Document(inner)) => (doc, rest) = (inner, tail),
            _ => return Ok(None),
        }
    }
}

/// The specification of a text index in the form in which it is kept; none if it is of another kind, or in it already.
pub(crate) fn normalised(given: Doc<'_>) -> Result<Option<DocBuf>> {
    let Some(ValueRef::Document(key)) = given.get("key") else { return Ok(None) };
    let is_text = |value: ValueRef<'_>| matches!(value, ValueRef::String(TEXT));
    if !key.iter().any(|(_, value)| is_text(value)) {
        return Ok(None);
    }
    let (pattern, paths) = parts(key)?;
    let mut spec = DocBuf::new().with("key", &pattern);
    if given.get("name").is_none() {
        spec.append("name", default_name(key).as_str());
    }
    for (name, value) in given.iter().filter(|(name, _)| *name != "key" && !OPTIONS.contains(name)) {
        if name == "unique" && matches!(value, ValueRef::Bool(true)) {
            return cannot("Index type 'text' does not support the unique option");
        }
        spec.append(name, value);
    }
    spec.append("weights", &weights(given.get("weights"), &paths)?);
    let language = string(given, "default_language", "english").map_or_else(bad_language, Ok)?;
    if Language::of_name(language).is_none() {
        return bad_language();
    }
    let field = string(given, "language_override", "language");
    let Some(field) = field.filter(|field| !field.is_empty() && !field.starts_with('$')) else {
        return cannot("language_override is not valid");
    };
    spec.append("default_language", language).append("language_override", field);
    spec.append("textIndexVersion", version(given)?);
    Ok(Some(spec))
}

/// The key pattern as it is kept, and the paths of the text in the one that was given.
fn parts(key: Doc<'_>) -> Result<(DocBuf, Vec<&str>)> {
    let mut pattern = DocBuf::new();
    let mut paths = Vec::new();
    let mut ended = false;
    for (path, value) in key {
        let is_text = matches!(value, ValueRef::String(TEXT));
        if is_text || path == EXTRA {
            if ended {
                return cannot(format!("bad index key pattern {}: text fields must be adjacent", shown(key)));
            }
            if paths.is_empty() && is_text {
                pattern.append(TERM, TEXT).append(EXTRA, 1i32);
            }
            if is_text {
                paths.push(path);
            }
            continue;
        }
        ended |= !paths.is_empty();
        if let ValueRef::String(_) = value {
            let reason = "Can't use more than one index plugin for a single index.";
            return cannot(format!("bad index key pattern {}: {reason}", shown(key)));
        }
        pattern.append(path, value);
    }
    paths.retain(|path| *path != TERM);
    Ok((pattern, paths))
}

/// One weight per path, in order of the paths.
fn weights(given: Option<ValueRef<'_>>, paths: &[&str]) -> Result<DocBuf> {
    let mut all: Vec<(String, Value)> = paths.iter().map(|path| ((*path).to_owned(), Value::Int32(1))).collect();
    let mut set = |path: &str, weight: Value| match all.iter_mut().find(|(own, _)| own == path) {
        Some((_, own)) => *own = weight,
        None => all.push((path.to_owned(), weight)),
    };
    match given {
        None => {}
        Some(ValueRef::String(path)) => set(path, Value::Int32(1)),
        Some(ValueRef::Document(given)) => {
            for (path, weight) in given {
                check_weight(path, weight)?;
                set(path, weight.to_value());
            }
        }
        Some(_) => return problem(IndexProblem::Location(17_284), "text index option 'weights' must be an object"),
    }
    if all.is_empty() {
        return cannot("a text index needs at least one field");
    }
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(all.iter().map(|(path, weight)| (path.as_str(), weight)).collect())
}

fn check_weight(path: &str, weight: ValueRef<'_>) -> Result<()> {
    let illegal = path.split('.').any(|name| name.is_empty() || (name.starts_with('$') && name != WILDCARD));
    if illegal {
        return cannot(format!("weight of an illegal field name: '{path}'"));
    }
    let Some(number) = number(weight) else {
        let reason = format!("weight for text index needs numeric type, but {path} is of type {}", type_name(weight));
        return problem(IndexProblem::Location(17_283), reason);
    };
    if number > 0.0 && number < WEIGHT_END {
        return Ok(());
    }
    cannot(format!("text index weight must be in the exclusive interval (0,1000000000) but found: {number}"))
}

fn string<'d>(given: Doc<'d>, name: &str, default: &'d str) -> Option<&'d str> {
    match given.get(name) {
        None => Some(default),
        Some(ValueRef::String(text)) => Some(text),
        Some(_) => None,
    }
}

fn bad_language<T>() -> Result<T> {
    cannot("default_language is not valid")
}

fn version(given: Doc<'_>) -> Result<i32> {
    let Some(value) = given.get("textIndexVersion") else { return Ok(VERSION) };
    match number(value) {
        Some(version) if version == 1.0 || version == 2.0 || version == 3.0 => Ok(version as i32),
        Some(version) => problem(IndexProblem::Location(16_730), format!("bad textIndexVersion: {version}")),
        None => problem(IndexProblem::Location(17_365), "text index option 'textIndexVersion' must be a number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::spec::IndexSpec;
    use arbor_bson::ArrayBuf;

    fn key(fields: &[(&str, Value)]) -> DocBuf {
        DocBuf::new().with("key", &fields.iter().map(|(name, value)| (*name, value)).collect::<DocBuf>())
    }

    fn text() -> Value {
        Value::String(TEXT.into())
    }

    #[test]
    fn the_kept_form() {
        let check = |spec: DocBuf, expected: &str| {
            let parsed = IndexSpec::parse(spec.as_doc()).unwrap();
            assert_eq!(shown(parsed.doc.as_doc()), expected);
            let again = IndexSpec::parse(parsed.doc.as_doc()).unwrap();
            assert_eq!(shown(again.doc.as_doc()), expected);
            assert_eq!(again.generator, parsed.generator);
        };
        let end = r#"default_language: "english", language_override: "language", textIndexVersion: 3 }"#;
        check(
            key(&[("b", text()), ("a.c", text())]),
            &format!(
                r#"{{ v: 2, key: {{ _fts: "text", _ftsx: 1 }}, name: "b_text_a.c_text", weights: {{ a.c: 1, b: 1 }}, {end}"#
            ),
        );
        check(
            key(&[("p", Value::Int32(1)), ("$**", text()), ("s", Value::Int32(-1))]),
            &format!(
                r#"{{ v: 2, key: {{ p: 1, _fts: "text", _ftsx: 1, s: -1 }}, name: "p_1_$**_text_s_-1", weights: {{ $**: 1 }}, {end}"#
            ),
        );
        let options = key(&[("a", text())])
            .with("weights", &DocBuf::new().with("z", 5i32).with("a", 2i32))
            .with("default_language", "es")
            .with("name", "n")
            .with("hidden", true);
        check(
            options,
            r#"{ v: 2, key: { _fts: "text", _ftsx: 1 }, name: "n", hidden: true, weights: { a: 2, z: 5 }, default_language: "es", language_override: "language", textIndexVersion: 3 }"#,
        );
    }

    #[test]
    fn bad_specifications() {
        let own = || key(&[("a", text())]);
        let one = Value::Int32(1);
        for (spec, kind) in [
            (own().with("weights", &DocBuf::new().with("a", 0i32)), IndexProblem::CannotCreate),
            (own().with("weights", &DocBuf::new().with("a", 1e9)), IndexProblem::CannotCreate),
            (own().with("weights", &DocBuf::new().with("a", "x")), IndexProblem::Location(17_283)),
            (own().with("weights", 1i32), IndexProblem::TypeMismatch),
            (own().with("default_language", "klingon"), IndexProblem::CannotCreate),
            (own().with("language_override", 1i32), IndexProblem::TypeMismatch),
            (own().with("textIndexVersion", 9i32), IndexProblem::Location(16_730)),
            (own().with("unique", true), IndexProblem::CannotCreate),
            (own().with("expireAfterSeconds", 5i32), IndexProblem::CannotCreate),
            (key(&[("a", text()), ("b", one.clone()), ("c", text())]), IndexProblem::CannotCreate),
            (key(&[("a", text()), ("b", Value::String("hashed".into()))]), IndexProblem::CannotCreate),
        ] {
            match IndexSpec::parse(spec.as_doc()) {
                Err(Error::Index { kind: got, .. }) => assert_eq!(got, kind, "{spec:?}"),
                other => panic!("{spec:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn keys_of_documents() {
        let parsed = IndexSpec::parse(key(&[("p", Value::Int32(1)), ("a", text())]).as_doc()).unwrap();
        let keys = |doc: DocBuf| parsed.generator.keys(&parsed.key_pattern, false, &parsed.collation, doc.as_doc());
        let got = keys(DocBuf::new().with("p", 7i32).with("a", "the coffee shops")).unwrap();
        let term = |term: &str| text_key(&parsed.key_pattern, [ValueRef::Int32(7)], term);
        let found: Vec<_> = got.keys.iter().map(|key| (key.bytes.clone(), text_score(&key.type_bits))).collect();
        assert_eq!(found, [(term("coffe"), 0.75), (term("shop"), 0.75)]);
        assert!(keys(DocBuf::new().with("a", 5i32)).unwrap().keys.is_empty());
        let array = DocBuf::new().with("p", &ArrayBuf::new()).with("a", "x");
        assert!(matches!(keys(array), Err(Error::Filter(error)) if error.code.0 == 16675));
        let klingon = DocBuf::new().with("language", "klingon").with("a", "x");
        assert!(matches!(keys(klingon), Err(Error::Filter(error)) if error.code.0 == 17262));
    }
}
