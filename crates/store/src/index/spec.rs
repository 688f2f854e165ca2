//! Specifications of indexes: checked with MongoDB's rules and brought into the form that `listIndexes` shows.

use std::sync::Arc;

use arbor_base::TreeId;
use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_lang::Collation;

use crate::catalogue::tree_options::TOKUMX_SETTINGS;
use crate::index::Multikey;
use crate::index::geo_keys::SPHERE_VERSION;
use crate::index::key_pattern::{default_name, parse_key_pattern};
use crate::index::refusal::{cannot, number, problem, shown, type_name};
use crate::index::text_keys;
use crate::{
    Direction, FieldKind, GeoKeys, Index, IndexProblem, KeyField, KeyGenerator, PartialFilter, Result, TextKeys,
    Wildcard,
};

/// Specification of an index on measurements as its client wrote it, kept with the index on buckets.
pub const ORIGINAL: &str = "originalSpec";

/// Options that are kept as they are and change nothing here.
const INERT_OPTIONS: &[&str] = &[
    ORIGINAL,
    "background",
    "storageEngine",
    "weights",
    "default_language",
    "language_override",
    "textIndexVersion",
    "2dsphereIndexVersion",
    "bits",
    "min",
    "max",
    "bucketSize",
    "coarsestIndexedLevel",
    "finestIndexedLevel",
    "dropDups",
];

/// A checked specification.
#[derive(Clone, Debug)]
pub struct IndexSpec {
    pub name: String,
    /// The key pattern as the user wrote it.
    pub key: DocBuf,
    pub key_pattern: Vec<KeyField>,
    pub unique: bool,
    /// Not unique yet, but refuses new duplicates.
    pub prepare_unique: bool,
    pub sparse: bool,
    pub hidden: bool,
    /// Its entries hold the whole documents.
    pub clustering: bool,
    /// Makes the keys of documents.
    pub generator: KeyGenerator,
    /// Collation of its strings: their sort keys are in its entries.
    pub collation: Collation,
    /// The filter of documents with entries; `None`: all have.
    pub partial: Option<Arc<PartialFilter>>,
    /// `expireAfterSeconds`, when it is given.
    pub expire_after_seconds: Option<i64>,
    /// As `listIndexes` shows it: `v`, `key`, `name`, then the options in the order in which they were given.
    pub doc: DocBuf,
}

fn flag(name: &str, value: ValueRef<'_>) -> Result<bool> {
    match value {
        ValueRef::Bool(flag) => Ok(flag),
        // COMPAT: MongoDB refuses null for `unique` and `sparse`, which TypeORM sends for what was not given
        ValueRef::Null | ValueRef::Undefined => Ok(false),
        other => match number(other) {
            Some(n) => Ok(n != 0.0),
            None => problem(
                IndexProblem::TypeMismatch,
                format!("The field '{name}' has value of type {}, which is not convertible to bool", type_name(other)),
            ),
        },
    }
}

fn expiry(value: ValueRef<'_>) -> Result<i64> {
    let Some(seconds) = number(value) else {
        return cannot(format!(
            "TTL index 'expireAfterSeconds' option must be numeric, but received a type of {}",
            type_name(value)
        ));
    };
    if !(0.0..=f64::from(i32::MAX)).contains(&seconds) {
        return cannot(format!(
            "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a different value than {seconds}"
        ));
    }
    Ok(seconds as i64)
}

impl IndexSpec {
    /// Errors: what indexes that are there already may have: a path with more names than any document has levels, `weights` without text.
    pub(crate) fn check_new(&self) -> Result<()> {
        if self.doc.get("weights").is_some() && !matches!(self.generator, KeyGenerator::Text(_)) {
            return cannot("The field 'weights' is only allowed in a text index");
        }
        self.key.as_doc().iter().try_for_each(|(path, _)| Ok(arbor_lang::path::check_length(path)?))
    }

    pub(crate) fn parse(given: Doc<'_>) -> Result<IndexSpec> {
        check_types(given)?;
        let text = text_keys::normalised(given)?;
        let given = text.as_ref().map_or(given, DocBuf::as_doc);
        let key = match given.get("key") {
            Some(ValueRef::Document(key)) => key,
            Some(other) => {
                let reason = format!("The field 'key' must be an object, but got {}", type_name(other));
                return problem(IndexProblem::TypeMismatch, reason);
            }
            None => {
                return problem(
                    IndexProblem::FailedToParse,
                    "The 'key' field is a required property of an index specification",
                );
            }
        };
        let key_pattern = parse_key_pattern(key)?;
        let mut spec = IndexSpec {
            name: name(given, key)?,
            key: key.to_buf(),
            key_pattern,
            unique: false,
            prepare_unique: false,
            sparse: false,
            hidden: false,
            clustering: false,
            generator: KeyGenerator::Fields,
            collation: collation(given)?,
            partial: None,
            expire_after_seconds: None,
            doc: DocBuf::new(),
        };
        if let Some(wildcard) = Wildcard::of_pattern(&spec.key_pattern)? {
            spec.generator = KeyGenerator::Wildcard(Arc::new(wildcard));
        }
        if let Some(geo) = GeoKeys::parse(&spec.key_pattern, given)? {
            spec.generator = KeyGenerator::Geo(Arc::new(geo));
        }
        if let Some(text) = TextKeys::of(&spec.key_pattern, given)? {
            spec.generator = KeyGenerator::Text(Arc::new(text));
        }
        spec.doc.append("v", 2i32).append("key", key).append("name", &spec.name.clone());
        for (option, value) in given {
            spec.option(option, value, given)?;
        }
        let on_sphere = spec.key_pattern.iter().any(|field| field.kind == FieldKind::Sphere);
        if on_sphere && given.get(SPHERE_VERSION).is_none() {
            spec.doc.append(SPHERE_VERSION, 3i32);
        }
        assert_eq!(spec.hidden, spec.doc.get("hidden").is_some(), "only a hidden index says so");
        spec.check_together()?;
        spec.check_id(given)?;
        Ok(spec)
    }

    /// Options that do not go together.
    fn check_together(&self) -> Result<()> {
        self.check_collation()?;
        let hashed = self.key_pattern.iter().filter(|field| field.kind == FieldKind::Hashed).count();
        // of a time series the one field is two of its buckets
        if self.expire_after_seconds.is_some() && self.key_pattern.len() > 1 && self.doc.get(ORIGINAL).is_none() {
            return cannot("TTL indexes are single-field indexes, compound indexes do not support TTL");
        }
        if self.partial.is_some() && self.sparse {
            return cannot("cannot mix \"partialFilterExpression\" and \"sparse\" options");
        }
        if let Some(wildcard) = self.generator.wildcard() {
            wildcard.check_others()?;
            let set = [
                ("unique", self.unique),
                ("prepareUnique", self.prepare_unique),
                ("sparse", self.sparse),
                ("expireAfterSeconds", self.expire_after_seconds.is_some()),
            ];
            if let Some((option, _)) = set.iter().find(|(_, set)| *set) {
                return cannot(format!("Index type 'wildcard' does not support the {option} option"));
            }
        }
        if hashed > 1 {
            let text = "A maximum of one index field is allowed to be hashed but found";
            let reason = format!("{text} {hashed} for 'key' {}", shown(self.key.as_doc()));
            return problem(IndexProblem::Location(31_303), reason);
        }
        if hashed > 0 && (self.unique || self.prepare_unique) {
            let reason = "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.";
            return problem(IndexProblem::Location(16_764), reason);
        }
        Ok(())
    }

    /// In a collection with a collation such an index is created with `{locale: "simple"}`.
    fn check_collation(&self) -> Result<()> {
        let bytewise = self.key.as_doc().iter().find_map(|(_, kind)| match kind {
            ValueRef::String(kind @ ("text" | "2d")) => Some(kind),
            _ => None,
        });
        match bytewise {
            Some(kind) if !self.collation.is_simple() => {
                let collation = self.collation.to_doc();
                cannot(format!("Index type '{kind}' does not support collation: {}", shown(collation.as_doc())))
            }
            _ => Ok(()),
        }
    }

    fn option(&mut self, option: &str, value: ValueRef<'_>, given: Doc<'_>) -> Result<()> {
        match option {
            "key" | "name" | "ns" => {}
            "v" => match number(value) {
                Some(n) if n == 2.0 || n == 1.0 => {}
                Some(n) => {
                    return cannot(format!(
                        "Invalid index specification {}; cannot create an index with v={n}",
                        shown(given)
                    ));
                }
                None => {
                    let reason = format!("The field 'v' must be a number, but got {}", type_name(value));
                    return problem(IndexProblem::TypeMismatch, reason);
                }
            },
            "unique" => self.unique = self.keep_flag(option, value)?,
            "sparse" => self.sparse = self.keep_flag(option, value)?,
            // an index that is not hidden does not say so
            "hidden" if flag(option, value)? && !self.hidden => {
                self.hidden = true;
                self.doc.append(option, true);
            }
            "hidden" => {}
            "expireAfterSeconds" => {
                let seconds = expiry(value)?;
                self.expire_after_seconds = Some(seconds);
                self.doc.append(option, seconds as i32);
            }
            "clustering" => self.clustering = self.keep_flag(option, value)?,
            "partialFilterExpression" => {
                let ValueRef::Document(filter) = value else {
                    let reason = format!("The field '{option}' must be an object, but got {}", type_name(value));
                    return problem(IndexProblem::TypeMismatch, reason);
                };
                self.partial = Some(Arc::new(PartialFilter::parse(filter, &self.collation)?));
                self.doc.append(option, value);
            }
            "wildcardProjection" => {
                let ValueRef::Document(fields) = value else {
                    let reason =
                        format!("The field '{option}' must be a non-empty object, but got {}", type_name(value));
                    return problem(IndexProblem::TypeMismatch, reason);
                };
                let KeyGenerator::Wildcard(wildcard) = &mut self.generator else {
                    return problem(
                        IndexProblem::BadValue,
                        "The field 'wildcardProjection' is only allowed in an 'wildcard' index",
                    );
                };
                Arc::make_mut(wildcard).project(fields)?;
                self.doc.append(option, value);
            }
            "collation" if self.collation.is_simple() => {}
            "collation" => drop(self.doc.append(option, &self.collation.to_doc())),
            "storageEngine" if !matches!(value, ValueRef::Document(_)) => {
                let reason = format!("The field 'storageEngine' must be an object, but got {}", type_name(value));
                return problem(IndexProblem::TypeMismatch, reason);
            }
            "prepareUnique" => self.prepare_unique = self.keep_flag(option, value)?,
            "clustered" if flag(option, value)? => {
                let reason = "Cannot create an index with option 'clustered' on a collection that is not clustered";
                return problem(IndexProblem::Location(6_243_700), reason);
            }
            "clustered" => {}
            // the bounds of a grid are doubles, whatever was given
            "min" | "max" => drop(self.doc.append(option, number(value).unwrap_or_default())),
            _ if INERT_OPTIONS.contains(&option) || TOKUMX_SETTINGS.contains(&option) => {
                self.doc.append(option, value);
            }
            _ => {
                let reason = format!(
                    "The field '{option}' is not valid for an index specification. Specification: {}",
                    shown(given)
                );
                return problem(IndexProblem::InvalidOption, reason);
            }
        }
        Ok(())
    }

    fn keep_flag(&mut self, option: &str, value: ValueRef<'_>) -> Result<bool> {
        let flag = flag(option, value)?;
        self.doc.append(option, flag);
        Ok(flag)
    }

    /// Returns true if it is the index on `_id` that every collection has.
    pub(crate) fn is_id_index(&self) -> bool {
        matches!(self.key_pattern.as_slice(), [field] if field.path == "_id" && field.kind == FieldKind::Plain)
    }

    fn check_id(&self, given: Doc<'_>) -> Result<()> {
        if !self.is_id_index() {
            return match self.name.as_str() {
                "_id_" => problem(
                    IndexProblem::BadValue,
                    format!(
                        "The index name '_id_' is reserved for the _id index, which must have key pattern {{_id: 1}}, found key: {}",
                        shown(self.key.as_doc())
                    ),
                ),
                _ => Ok(()),
            };
        }
        if self.key_pattern.iter().any(|field| field.direction == Direction::Descending) {
            return problem(
                IndexProblem::BadValue,
                format!("The field 'key' for an _id index must be {{_id: 1}}, but got {}", shown(self.key.as_doc())),
            );
        }
        let other = given
            .iter()
            .map(|(option, _)| option)
            .find(|option| !matches!(*option, "key" | "name" | "ns" | "v" | "collation"));
        match other {
            Some(option) => problem(
                IndexProblem::InvalidOption,
                format!(
                    "The field '{option}' is not valid for an _id index specification. Specification: {}",
                    shown(given)
                ),
            ),
            None => Ok(()),
        }
    }

    /// Requires the engine of the tree.
    pub(crate) fn into_index(self, tree: TreeId, engine: Arc<str>, multikey: Multikey) -> Index {
        Index { spec: self, engine, tree, parts: Arc::default(), usage: Arc::default(), multikey }
    }
}

/// Refuses values of the wrong type in options of text and geo indexes, whatever the index is.
fn check_types(given: Doc<'_>) -> Result<()> {
    for (option, value) in given {
        let expected = match (option, value) {
            ("default_language" | "language_override", ValueRef::String(_)) => continue,
            ("default_language" | "language_override", _) => "a string",
            ("weights", ValueRef::Document(_)) => continue,
            ("weights", ValueRef::String(_) | ValueRef::Array(_)) => {
                return cannot(format!("text index option 'weights' must be an object, found: {}", type_name(value)));
            }
            ("weights", _) => "an object",
            ("textIndexVersion", ValueRef::Decimal128(_)) => {
                return cannot(format!("unsupported text index version of type {}", type_name(value)));
            }
            (
                "textIndexVersion"
                | "2dsphereIndexVersion"
                | "bits"
                | "min"
                | "max"
                | "coarsestIndexedLevel"
                | "finestIndexedLevel",
                value,
            ) if number(value).is_none() => "a number",
            _ => continue,
        };
        let reason = format!("The field '{option}' must be {expected}, but got {}", type_name(value));
        return problem(IndexProblem::TypeMismatch, reason);
    }
    Ok(())
}

fn collation(given: Doc<'_>) -> Result<Collation> {
    match given.get("collation") {
        None => Ok(Collation::simple()),
        Some(ValueRef::Document(collation)) if collation.is_empty() => {
            problem(IndexProblem::BadValue, "The field 'collation' cannot be an empty object.")
        }
        Some(ValueRef::Document(collation)) => Ok(Collation::parse(collation)?),
        Some(other) => {
            let reason = format!("The field 'collation' must be an object, but got {}", type_name(other));
            problem(IndexProblem::TypeMismatch, reason)
        }
    }
}

fn name(given: Doc<'_>, key: Doc<'_>) -> Result<String> {
    let name = match given.get("name") {
        None => default_name(key),
        Some(ValueRef::String(name)) => name.to_owned(),
        Some(other) => {
            let reason = format!("The field 'name' must be a string, but got {}", type_name(other));
            return problem(IndexProblem::TypeMismatch, reason);
        }
    };
    match name.as_str() {
        "" => cannot("The index name cannot be empty"),
        "*" => problem(IndexProblem::BadValue, "The index name '*' is not valid."),
        _ if name.contains('\0') => cannot("The index name cannot contain NUL bytes"),
        _ => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use arbor_bson::{ArrayBuf, Value};

    fn spec(key: &[(&str, Value)], options: &[(&str, Value)]) -> DocBuf {
        let key: DocBuf = key.iter().map(|(name, value)| (*name, value)).collect();
        let mut spec = DocBuf::new().with("key", &key);
        for (name, value) in options {
            spec.append(name, value);
        }
        spec
    }

    fn refused(doc: &DocBuf) -> (IndexProblem, String) {
        match IndexSpec::parse(doc.as_doc()) {
            Err(Error::Index { kind, reason }) => (kind, reason),
            other => panic!("{doc:?}: {other:?}"),
        }
    }

    const ONE: Value = Value::Int32(1);

    fn text(text: &str) -> Value {
        Value::String(text.into())
    }

    #[test]
    fn the_listed_form_has_version_key_and_name_first() {
        let check = |spec: DocBuf, expected: &str| {
            let parsed = IndexSpec::parse(spec.as_doc()).unwrap();
            assert_eq!(shown(parsed.doc.as_doc()), expected);
            let again = IndexSpec::parse(parsed.doc.as_doc()).unwrap();
            assert_eq!(shown(again.doc.as_doc()), expected);
        };
        check(
            spec(&[("a", ONE), ("b.c", Value::Double(-1.0))], &[]),
            r#"{ v: 2, key: { a: 1, b.c: -1.0 }, name: "a_1_b.c_-1" }"#,
        );
        let options = [
            ("unique", Value::Double(1.0)),
            ("name", text("n")),
            ("ns", text("a.b")),
            ("v", ONE),
            ("sparse", Value::Bool(false)),
        ];
        check(spec(&[("a", ONE)], &options), r#"{ v: 2, key: { a: 1 }, name: "n", unique: true, sparse: false }"#);
        check(
            spec(&[("a", text("2dsphere")), ("b", ONE)], &[]),
            r#"{ v: 2, key: { a: "2dsphere", b: 1 }, name: "a_2dsphere_b_1", 2dsphereIndexVersion: 3 }"#,
        );
        check(
            spec(&[("a", text("2d"))], &[("bits", Value::Int32(20))]),
            r#"{ v: 2, key: { a: "2d" }, name: "a_2d", bits: 20 }"#,
        );
        let ttl = [("expireAfterSeconds", Value::Int64(60)), ("background", Value::Bool(true))];
        check(
            spec(&[("a", ONE)], &ttl),
            r#"{ v: 2, key: { a: 1 }, name: "a_1", expireAfterSeconds: 60, background: true }"#,
        );
    }

    #[test]
    fn bad_specifications_are_refused() {
        use IndexProblem::*;
        let check = |doc: DocBuf, kind: IndexProblem, part: &str| {
            let (got, reason) = refused(&doc);
            assert_eq!(got, kind, "{doc:?}: {reason}");
            assert!(reason.contains(part), "{reason}");
        };
        check(DocBuf::new(), FailedToParse, "required property");
        check(DocBuf::new().with("key", 1i32), TypeMismatch, "must be an object, but got int");
        check(spec(&[], &[]), CannotCreate, "cannot be an empty object");
        check(spec(&[("a", Value::Bool(true))], &[]), CannotCreate, "cannot be of type bool");
        check(spec(&[("a", Value::Int32(0))], &[]), CannotCreate, "cannot be 0");
        check(spec(&[("a", Value::Double(f64::NAN))], &[]), CannotCreate, "NaN");
        check(spec(&[("", ONE)], &[]), CannotCreate, "empty field");
        check(spec(&[("a..b", ONE)], &[]), CannotCreate, "empty field");
        check(spec(&[("$a", ONE)], &[]), CannotCreate, "starts with '$'");
        check(spec(&[("a", ONE), ("a", ONE)], &[]), BadValue, "twice");
        check(spec(&[("a", text("2d")), ("b", text("2d"))], &[]), Location(16_800), "2 geo fields");
        check(spec(&[("a", ONE), ("b", text("2d"))], &[]), Location(16_801), "has to be first");
        check(spec(&[("a", text("2d"))], &[("bits", Value::Int32(33))]), InvalidOptions, "<= 32");
        check(spec(&[("a", text("2d"))], &[("min", Value::Int32(500))]), InvalidOptions, "positive area");
        check(spec(&[("a", text("2d")), ("b", text("2dsphere"))], &[]), CannotCreate, "2dsphere");
        check(spec(&[("a", text("2dsphere"))], &[("2dsphereIndexVersion", ONE)]), CannotCreate, "unsupported");
        check(spec(&[("a", text("hashed"))], &[("unique", Value::Bool(true))]), Location(16_764), "uniqueness");
        check(spec(&[("a", text("hashed")), ("b", text("hashed"))], &[]), Location(31_303), "found 2");
        check(spec(&[("$**", ONE), ("a", ONE)], &[]), CannotCreate, "must leave out the other fields");
        check(spec(&[("$**", ONE), ("a.$**", ONE)], &[]), CannotCreate, "more than one wildcard");
        check(spec(&[("a.$**", ONE), ("b", text("hashed"))], &[]), CannotCreate, "compounding with an index plugin");
        check(spec(&[("$**", ONE)], &[("unique", Value::Bool(true))]), CannotCreate, "'wildcard' does not support");
        check(spec(&[("$**.a", ONE)], &[]), CannotCreate, "illegal field name");
        check(spec(&[("a", ONE)], &[("wildcardProjection", Value::Document(DocBuf::new()))]), BadValue, "only allowed");
        check(spec(&[("a", text("x"))], &[]), CannotCreate, "Unknown index plugin 'x'");
        let many: Vec<(String, Value)> = (0..33).map(|i| (format!("f{i}"), ONE)).collect();
        let many: Vec<(&str, Value)> = many.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        check(spec(&many, &[]), Location(13_103), "more than 32");
        assert!(IndexSpec::parse(spec(&many[..32], &[]).as_doc()).is_ok());

        let one = |name: &str, value: Value| spec(&[("a", ONE)], &[(name, value)]);
        check(one("name", text("")), CannotCreate, "cannot be empty");
        check(one("name", text("*")), BadValue, "'*' is not valid");
        check(one("name", ONE), TypeMismatch, "must be a string");
        check(one("name", text("_id_")), BadValue, "reserved");
        check(one("nmae", ONE), InvalidOption, "'nmae' is not valid");
        check(one("unique", text("yes")), TypeMismatch, "not convertible to bool");
        check(one("v", Value::Int32(3)), CannotCreate, "v=3");
        check(one("expireAfterSeconds", text("x")), CannotCreate, "must be numeric");
        check(one("expireAfterSeconds", Value::Int32(-1)), CannotCreate, "acceptable range");
        check(one("partialFilterExpression", ONE), TypeMismatch, "must be an object");
        let partial = ("partialFilterExpression", Value::Document(DocBuf::new().with("a", 1i32)));
        check(spec(&[("a", ONE)], &[partial, ("sparse", Value::Bool(true))]), CannotCreate, "cannot mix");
        check(one("clustering", text("yes")), TypeMismatch, "not convertible to bool");
        check(one("clustered", Value::Bool(true)), Location(6_243_700), "clustered");
        check(spec(&[("a", ONE), ("b", ONE)], &[("expireAfterSeconds", ONE)]), CannotCreate, "single-field");
        check(spec(&[("_id", Value::Int32(-1))], &[]), BadValue, "must be {_id: 1}");
        check(spec(&[("_id", ONE)], &[("unique", Value::Bool(true))]), InvalidOption, "_id index");
        check(one("collation", Value::Array(ArrayBuf::new())), TypeMismatch, "collation");
        assert!(
            IndexSpec::parse(one("collation", Value::Document(DocBuf::new().with("locale", "simple"))).as_doc())
                .is_ok()
        );
    }
}
