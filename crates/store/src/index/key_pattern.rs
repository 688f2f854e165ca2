//! Key patterns of indexes: paths and directions, with MongoDB's rules.

use arbor_bson::{Doc, ValueRef};

use crate::index::refusal::{cannot, number, problem, refused, shown, type_name};
use crate::index::wildcard::WILDCARD;
use crate::{Direction, FieldKind, IndexProblem, KeyField, Result};

/// Most fields of a compound index.
pub const INDEX_FIELDS_MAX: usize = 32;

/// Index types by the word in the key pattern that this release refuses.
const REFUSED_TYPES: &[&str] = &["2dsphere_bucket", "geoHaystack", "columnstore"];

/// Plain: it is no word for another kind.
fn kind_of(word: &str) -> FieldKind {
    let others = [FieldKind::Hashed, FieldKind::Text, FieldKind::Sphere, FieldKind::Plane];
    others.into_iter().find(|kind| kind.word() == Some(word)).unwrap_or(FieldKind::Plain)
}

fn direction(value: ValueRef<'_>) -> Result<Direction> {
    if let ValueRef::String(kind) = value {
        if kind_of(kind) != FieldKind::Plain {
            return Ok(Direction::Ascending);
        }
        if kind == "wildcard" {
            let reason =
                "The type 'wildcard' cannot be given: a wildcard index has a field '$**' or a path that ends with it";
            return problem(IndexProblem::Location(7_246_202), reason);
        }
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
        Some(n) if n < 0.0 => Ok(Direction::Descending),
        Some(_) => Ok(Direction::Ascending),
    }
}

fn check_path(path: &str) -> Result<()> {
    if path.is_empty() {
        return cannot("Index keys cannot be an empty field.");
    }
    let fixed = path.strip_suffix(WILDCARD).unwrap_or(path);
    for component in fixed.strip_suffix('.').unwrap_or(fixed).split('.').filter(|_| !fixed.is_empty()) {
        if component.is_empty() {
            return cannot("Index keys cannot contain an empty field.");
        }
        let is_reference = matches!(component, "$id" | "$ref" | "$db") && path.contains('.');
        if component.starts_with('$') && !is_reference {
            return cannot("Index key contains an illegal field name: field name starts with '$'.");
        }
    }
    Ok(())
}

pub(crate) fn parse_key_pattern(key: Doc<'_>) -> Result<Vec<KeyField>> {
    if key.is_empty() {
        return cannot("Index keys cannot be an empty object.");
    }
    let mut fields: Vec<KeyField> = Vec::new();
    for (path, value) in key {
        let direction = direction(value)?;
        check_path(path)?;
        if fields.iter().any(|field| field.path == path) {
            return problem(
                IndexProblem::BadValue,
                format!("The field '{path}' appears twice in the index key pattern {}", shown(key)),
            );
        }
        let kind = if let ValueRef::String(word) = value { kind_of(word) } else { FieldKind::Plain };
        fields.push(KeyField { path: path.to_owned(), kind, direction });
        if fields.len() > INDEX_FIELDS_MAX {
            let reason = format!("Index key pattern {} has more than {INDEX_FIELDS_MAX} fields", shown(key));
            return problem(IndexProblem::Location(13_103), reason);
        }
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
