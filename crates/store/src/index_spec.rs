//! Specifications of indexes: checked with MongoDB's rules and brought into the form that `listIndexes` shows.

use arbor_base::TreeId;
use arbor_bson::{Doc, DocBuf, ValueRef, compare_docs};

use crate::index::Multikey;
use crate::{Direction, Error, Index, IndexProblem, KeyField, Result};

/// Most fields of a compound index.
pub const INDEX_FIELDS_MAX: usize = 32;

/// Index types by the word in the key pattern that this release refuses.
const REFUSED_TYPES: &[&str] =
    &["text", "2d", "2dsphere", "2dsphere_bucket", "geoHaystack", "hashed", "wildcard", "columnstore"];

/// Options that are kept as they are and change nothing here.
const INERT_OPTIONS: &[&str] = &[
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
pub(crate) struct IndexSpec {
    pub name: String,
    pub key: DocBuf,
    pub key_pattern: Vec<KeyField>,
    pub unique: bool,
    pub sparse: bool,
    pub hidden: bool,
    pub expire_after_seconds: Option<i64>,
    /// `v`, `key`, `name`, then the options in the order in which they were given.
    pub doc: DocBuf,
}

/// How a wanted index stands to an existing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Likeness {
    /// Another key pattern, or other options that make it another index.
    Different,
    /// The same index with other settings.
    Equivalent,
    Identical,
}

fn problem<T>(kind: IndexProblem, reason: impl Into<String>) -> Result<T> {
    Err(Error::Index { kind, reason: reason.into() })
}

fn cannot<T>(reason: impl Into<String>) -> Result<T> {
    problem(IndexProblem::CannotCreate, reason)
}

fn refused<T>(what: &str) -> Result<T> {
    problem(IndexProblem::NotImplemented, format!("{what} is not supported by this release"))
}

/// As MongoDB's error texts show documents.
fn shown(doc: Doc<'_>) -> String {
    arbor_bson::display::shell(ValueRef::Document(doc)).to_string()
}

fn number(value: ValueRef<'_>) -> Option<f64> {
    match value {
        ValueRef::Int32(n) => Some(f64::from(n)),
        ValueRef::Int64(n) => Some(n as f64),
        ValueRef::Double(n) => Some(n),
        ValueRef::Decimal128(n) => n.to_string().parse().ok(),
        _ => None,
    }
}

fn flag(name: &str, value: ValueRef<'_>) -> Result<bool> {
    match value {
        ValueRef::Bool(flag) => Ok(flag),
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

fn type_name(value: ValueRef<'_>) -> &'static str {
    use arbor_bson::Type::*;
    match value.ty() {
        Double => "double",
        String => "string",
        Document => "object",
        Array => "array",
        Binary => "binData",
        Undefined => "undefined",
        ObjectId => "objectId",
        Bool => "bool",
        DateTime => "date",
        Null => "null",
        Regex => "regex",
        DbPointer => "dbPointer",
        JavaScript => "javascript",
        Symbol => "symbol",
        JavaScriptWithScope => "javascriptWithScope",
        Int32 => "int",
        Timestamp => "timestamp",
        Int64 => "long",
        Decimal128 => "decimal",
        MinKey => "minKey",
        MaxKey => "maxKey",
    }
}

fn direction(path: &str, value: ValueRef<'_>) -> Result<Direction> {
    if let ValueRef::String(kind) = value {
        if REFUSED_TYPES.contains(&kind) {
            return refused(&format!("an index of type '{kind}'"));
        }
        return cannot(format!("Unknown index plugin '{kind}'"));
    }
    match number(value) {
        None => cannot(format!(
            "Values in v:2 index key pattern cannot be of type {}. Only numbers > 0, numbers < 0, and strings are allowed.",
            type_name(value)
        )),
        Some(n) if n.is_nan() => cannot("Values in the index key pattern cannot be NaN."),
        Some(0.0) => cannot("Values in the index key pattern cannot be 0."),
        Some(_) if path.contains("$**") => refused("a wildcard index"),
        Some(n) if n < 0.0 => Ok(Direction::Descending),
        Some(_) => Ok(Direction::Ascending),
    }
}

fn check_path(path: &str) -> Result<()> {
    if path.is_empty() {
        return cannot("Index keys cannot be an empty field.");
    }
    for component in path.split('.') {
        if component.is_empty() {
            return cannot("Index keys cannot contain an empty field.");
        }
        let is_reference = matches!(component, "$id" | "$ref" | "$db") && path.contains('.');
        if component.starts_with('$') && !is_reference && component != "$**" {
            return cannot("Index key contains an illegal field name: field name starts with '$'.");
        }
    }
    Ok(())
}

fn key_pattern(key: Doc<'_>) -> Result<Vec<KeyField>> {
    if key.is_empty() {
        return cannot("Index keys cannot be an empty object.");
    }
    let mut fields: Vec<KeyField> = Vec::new();
    for (path, value) in key {
        let direction = direction(path, value)?;
        check_path(path)?;
        if fields.iter().any(|field| field.path == path) {
            return problem(
                IndexProblem::BadValue,
                format!("The field '{path}' appears twice in the index key pattern {}", shown(key)),
            );
        }
        fields.push(KeyField { path: path.to_owned(), direction });
    }
    if fields.len() > INDEX_FIELDS_MAX {
        return cannot(format!("Index key pattern {} has more than {INDEX_FIELDS_MAX} fields", shown(key)));
    }
    Ok(fields)
}

/// `a_1_b_-1`.
pub(crate) fn default_name(key: Doc<'_>) -> String {
    let part = |(path, value): (&str, ValueRef<'_>)| match (value, number(value)) {
        (ValueRef::String(kind), _) => format!("{path}_{kind}"),
        (_, Some(n)) => format!("{path}_{n}"),
        _ => format!("{path}_"),
    };
    key.iter().map(part).collect::<Vec<_>>().join("_")
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
    pub fn parse(given: Doc<'_>) -> Result<IndexSpec> {
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
        let key_pattern = key_pattern(key)?;
        let mut spec = IndexSpec {
            name: name(given, key)?,
            key: key.to_buf(),
            key_pattern,
            unique: false,
            sparse: false,
            hidden: false,
            expire_after_seconds: None,
            doc: DocBuf::new(),
        };
        spec.doc.append("v", 2i32).append("key", key).append("name", &spec.name.clone());
        for (option, value) in given {
            spec.option(option, value, given)?;
        }
        if spec.expire_after_seconds.is_some() && spec.key_pattern.len() > 1 {
            return cannot("TTL indexes are single-field indexes, compound indexes do not support TTL");
        }
        spec.check_id(given)?;
        Ok(spec)
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
            "hidden" => self.hidden = self.keep_flag(option, value)?,
            "expireAfterSeconds" => {
                self.expire_after_seconds = Some(expiry(value)?);
                self.doc.append(option, value);
            }
            "partialFilterExpression" => return refused("a partial index (partialFilterExpression)"),
            "wildcardProjection" => return refused("a wildcard index"),
            "collation" => match value {
                ValueRef::Document(collation)
                    if matches!(collation.get("locale"), Some(ValueRef::String("simple"))) => {}
                ValueRef::Document(_) => return refused("an index with a collation"),
                other => {
                    let reason = format!("The field 'collation' must be an object, but got {}", type_name(other));
                    return problem(IndexProblem::TypeMismatch, reason);
                }
            },
            "clustered" | "prepareUnique" if flag(option, value)? => {
                return refused(&format!("the index option '{option}'"));
            }
            "clustered" | "prepareUnique" => {}
            _ if INERT_OPTIONS.contains(&option) => {
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

    /// Whether it is the index on `_id` that every collection has.
    pub fn is_id_index(&self) -> bool {
        matches!(self.key_pattern.as_slice(), [field] if field.path == "_id")
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

    pub fn into_index(self, tree: TreeId, multikey: Multikey) -> Index {
        Index {
            name: self.name,
            key_pattern: self.key_pattern,
            unique: self.unique,
            sparse: self.sparse,
            hidden: self.hidden,
            expire_after_seconds: self.expire_after_seconds,
            tree,
            spec: self.doc,
            multikey,
        }
    }

    fn likeness(&self, existing: &Index) -> Likeness {
        let same_key = compare_docs(self.key.as_doc(), existing.key_document().as_doc()).is_eq();
        if !same_key || self.unique != existing.unique || self.sparse != existing.sparse {
            return Likeness::Different;
        }
        let same_settings =
            self.hidden == existing.hidden && self.expire_after_seconds == existing.expire_after_seconds;
        if same_settings { Likeness::Identical } else { Likeness::Equivalent }
    }

    /// Whether it is the same index with the same name, settings aside.
    pub fn only_settings_differ(&self, existing: &Index) -> bool {
        self.name == existing.name && self.likeness(existing) != Likeness::Different
    }

    /// Whether it has to be built beside `existing`; an identical one need not.
    pub fn is_new(&self, existing: &[impl AsRef<Index>]) -> Result<bool> {
        let both = |index: &Index| {
            format!("Requested index: {}, existing index: {}", shown(self.doc.as_doc()), shown(index.spec.as_doc()))
        };
        if let Some(index) = existing.iter().map(AsRef::as_ref).find(|index| index.name == self.name) {
            return match self.likeness(index) {
                Likeness::Identical => Ok(false),
                Likeness::Equivalent => problem(
                    IndexProblem::OptionsConflict,
                    format!(
                        "An equivalent index already exists with the same name but different options. {}",
                        both(index)
                    ),
                ),
                Likeness::Different => problem(
                    IndexProblem::KeySpecsConflict,
                    format!(
                        "An existing index has the same name as the requested index. When index names are not specified, \
                         they are auto generated and can cause conflicts. Please refer to our documentation. {}",
                        both(index)
                    ),
                ),
            };
        }
        for index in existing.iter().map(AsRef::as_ref) {
            match self.likeness(index) {
                Likeness::Different => {}
                Likeness::Identical => {
                    let reason = format!("Index already exists with a different name: {}", index.name);
                    return problem(IndexProblem::OptionsConflict, reason);
                }
                Likeness::Equivalent => {
                    let reason = format!(
                        "An equivalent index already exists with a different name and options. {}",
                        both(index)
                    );
                    return problem(IndexProblem::OptionsConflict, reason);
                }
            }
        }
        Ok(true)
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
        let check = |spec: DocBuf, wanted: &str| {
            let parsed = IndexSpec::parse(spec.as_doc()).unwrap();
            assert_eq!(shown(parsed.doc.as_doc()), wanted);
            let again = IndexSpec::parse(parsed.doc.as_doc()).unwrap();
            assert_eq!(shown(again.doc.as_doc()), wanted);
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
        check(spec(&[("a", text("text"))], &[]), NotImplemented, "'text'");
        check(spec(&[("a", text("2dsphere"))], &[]), NotImplemented, "'2dsphere'");
        check(spec(&[("a", text("hashed"))], &[]), NotImplemented, "'hashed'");
        check(spec(&[("$**", ONE)], &[]), NotImplemented, "wildcard");
        check(spec(&[("a", text("x"))], &[]), CannotCreate, "Unknown index plugin 'x'");
        let many: Vec<(String, Value)> = (0..33).map(|i| (format!("f{i}"), ONE)).collect();
        let many: Vec<(&str, Value)> = many.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        check(spec(&many, &[]), CannotCreate, "more than 32");
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
        check(one("partialFilterExpression", Value::Document(DocBuf::new())), NotImplemented, "partial");
        check(one("collation", Value::Document(DocBuf::new().with("locale", "de"))), NotImplemented, "collation");
        check(one("clustered", Value::Bool(true)), NotImplemented, "clustered");
        check(spec(&[("a", ONE), ("b", ONE)], &[("expireAfterSeconds", ONE)]), CannotCreate, "single-field");
        check(spec(&[("_id", Value::Int32(-1))], &[]), BadValue, "must be {_id: 1}");
        check(spec(&[("_id", ONE)], &[("unique", Value::Bool(true))]), InvalidOption, "_id index");
        check(one("collation", Value::Array(ArrayBuf::new())), TypeMismatch, "collation");
        assert!(
            IndexSpec::parse(one("collation", Value::Document(DocBuf::new().with("locale", "simple"))).as_doc())
                .is_ok()
        );
    }

    #[test]
    fn existing_indexes_make_conflicts() {
        let parse = |doc: &DocBuf| IndexSpec::parse(doc.as_doc()).unwrap();
        let existing = |doc: &DocBuf| vec![std::sync::Arc::new(parse(doc).into_index(TreeId(99), Multikey::default()))];
        let plain = spec(&[("a", ONE)], &[]);
        let check = |existing: &[std::sync::Arc<Index>], wanted: DocBuf, outcome: Result<bool, IndexProblem>| {
            let got = parse(&wanted).is_new(existing).map_err(|error| match error {
                Error::Index { kind, .. } => kind,
                other => panic!("{other}"),
            });
            assert_eq!(got, outcome, "{wanted:?}");
        };
        let own = existing(&plain);
        let with = |options: &[(&str, Value)]| spec(&[("a", ONE)], options);
        check(&own, plain.clone(), Ok(false));
        check(&own, spec(&[("a", Value::Double(1.0))], &[]), Ok(false));
        check(&own, spec(&[("b", ONE)], &[]), Ok(true));
        check(&own, spec(&[("a", Value::Int32(-1))], &[]), Ok(true));
        check(&own, spec(&[("b", ONE)], &[("name", text("a_1"))]), Err(IndexProblem::KeySpecsConflict));
        check(&own, with(&[("unique", Value::Bool(true))]), Err(IndexProblem::KeySpecsConflict));
        check(&own, with(&[("unique", Value::Bool(true)), ("name", text("u"))]), Ok(true));
        check(&own, with(&[("expireAfterSeconds", ONE)]), Err(IndexProblem::OptionsConflict));
        check(&own, with(&[("name", text("other"))]), Err(IndexProblem::OptionsConflict));
        check(
            &own,
            with(&[("hidden", Value::Bool(true)), ("name", text("other"))]),
            Err(IndexProblem::OptionsConflict),
        );
    }
}
