//! The keys of a document in a `2dsphere` or `2d` index.
//!
//! | field of the pattern | component of the key |
//! |---|---|
//! | `2dsphere` | an S2 cell as int64; a value has one for each cell of its cover, a point the leaf cell alone |
//! | `2d` | the square of the grid that contains the point, 8 bytes |
//! | others | as in any index |
//!
//! A document has a key for every combination of what its fields have. One without a location in any of them is not
//! in the index; with a location in one of several, the others are null. A location with several cells makes its
//! component multikey, as an array would.

use arbor_bson::keystring::{self, Key, KeyBuilder};
use arbor_bson::{Doc, Value, ValueRef};
use arbor_lang::geo::{Grid, Stored, cells_of};
use arbor_lang::path::Leaf;
use arbor_lang::{Collation, Path, stop};

use crate::index::keys::{KEYS_PER_DOCUMENT_MAX, Keys, keys};
use crate::index::refusal::{cannot, number, problem, shown};
use crate::index::wildcard::WILDCARD;
use crate::{Direction, Error, FieldKind, IndexProblem, KeyField, Result};

/// Settings of a geo index beyond its pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeoKeys {
    /// The grid of a `2d` index.
    pub grid: Option<Grid>,
}

/// The contribution of one field: its components, and the multikey bits of its path.
struct Components {
    values: Vec<Value>,
    arrays: u64,
}

/// The option with the version of the keys.
pub(crate) const SPHERE_VERSION: &str = "2dsphereIndexVersion";

impl GeoKeys {
    /// `None`: the pattern has no geo fields.
    pub(crate) fn parse(pattern: &[KeyField], given: Doc<'_>) -> Result<Option<GeoKeys>> {
        let planes = pattern.iter().filter(|field| field.kind == FieldKind::Plane).count();
        let spheres = pattern.iter().any(|field| field.kind == FieldKind::Sphere);
        if planes == 0 && !spheres {
            return Ok(None);
        }
        if planes > 0 && spheres {
            return cannot("An index cannot have both a '2d' and a '2dsphere' field");
        }
        if pattern.iter().any(|field| field.kind == FieldKind::Hashed || field.path.contains(WILDCARD)) {
            return cannot("An index of places cannot have hashed or wildcard fields");
        }
        if planes > 1 {
            return problem(IndexProblem::Location(16_800), "can't have 2 geo fields");
        }
        if planes == 1 && pattern.first().is_some_and(|field| field.kind != FieldKind::Plane) {
            return problem(IndexProblem::Location(16_801), "2d has to be first in index");
        }
        match given.get(SPHERE_VERSION).filter(|_| spheres).map(number) {
            None => {}
            Some(Some(version)) if version == 3.0 || version == 2.0 => {}
            Some(version) => {
                let version = version.unwrap_or(f64::NAN);
                return cannot(format!(
                    "unsupported geo index version {{ {SPHERE_VERSION}: {version} }}, only support versions: [2,3]"
                ));
            }
        }
        Ok(Some(GeoKeys { grid: if planes == 1 { Some(grid(given)?) } else { None } }))
    }

    pub(crate) fn keys(&self, pattern: &[KeyField], collation: &Collation, doc: Doc<'_>) -> Result<Keys> {
        let components = |field| self.components(field, collation, doc);
        let all: Vec<Components> = pattern.iter().map(components).collect::<Result<_>>()?;
        let has_place = pattern.iter().zip(&all).any(|(field, own)| field.kind.is_geo() && !own.values.is_empty());
        let multikey = all.iter().map(|own| own.arrays).collect();
        if !has_place {
            return Ok(Keys { keys: Vec::new(), multikey: vec![0; pattern.len()] });
        }
        let count = all.iter().fold(1usize, |count, own| count.saturating_mul(own.values.len().max(1)));
        if count > KEYS_PER_DOCUMENT_MAX {
            return Err(Error::TooManyKeys { keys_max: KEYS_PER_DOCUMENT_MAX });
        }
        let mut keys: Vec<Key> = (0..count).map(|nth| combination(pattern, &all, nth)).collect();
        keys.sort_by(|a, b| a.bytes.cmp(&b.bytes));
        keys.dedup_by(|a, b| a.bytes == b.bytes);
        Ok(Keys { keys, multikey })
    }

    fn components(&self, field: &KeyField, collation: &Collation, doc: Doc<'_>) -> Result<Components> {
        match field.kind {
            FieldKind::Plain | FieldKind::Hashed | FieldKind::Text => plain(field, collation, doc),
            FieldKind::Sphere => places(field, doc, |value| cells(value, doc)),
            FieldKind::Plane => places(field, doc, |value| Ok(vec![self.square(value, doc)?])),
        }
    }

    fn square(&self, value: ValueRef<'_>, doc: Doc<'_>) -> Result<Value> {
        let place = Stored::read(value).ok().and_then(|stored| stored.flat());
        stop::ended()?;
        let (Some(place), Some(grid)) = (place, &self.grid) else {
            let reason = format!("geo values must be 'legacy coordinate pairs' for 2d indexes, got {}", shown(doc));
            return Err(Error::Geo { code: 13_026, reason });
        };
        if !grid.contains(place) {
            let Grid { min, max, .. } = grid;
            let reason = format!("point not in interval of [ {min}, {max} ] :: caused by :: {}", shown(doc));
            return Err(Error::Geo { code: 13_027, reason });
        }
        Ok(grid.key(place))
    }
}

/// Bounds and steps of a `2d` index; without the options those of longitudes and latitudes.
fn grid(given: Doc<'_>) -> Result<Grid> {
    let option = |name: &str, usual: f64| match given.get(name) {
        None => Ok(usual),
        Some(value) => match number(value) {
            Some(number) => Ok(number),
            None => {
                problem(IndexProblem::InvalidOptions, format!("The option '{name}' of a 2d index must be a number"))
            }
        },
    };
    let (bits, min, max) = (option("bits", 26.0)?, option("min", -180.0)?, option("max", 180.0)?);
    if !(1.0..=32.0).contains(&bits) {
        let reason = format!("bits for hash must be > 0 and <= 32, but {bits} bits were specified");
        return problem(IndexProblem::InvalidOptions, reason);
    }
    let is_area = min.is_finite() && max.is_finite() && min < max && (max - min).is_finite();
    if !is_area {
        let reason = format!("region for hash must be valid and have positive area, but [{min}, {max}] was specified");
        return problem(IndexProblem::InvalidOptions, reason);
    }
    Ok(Grid { bits: bits as u32, min, max })
}

fn combination(pattern: &[KeyField], all: &[Components], mut nth: usize) -> Key {
    let mut builder = KeyBuilder::new();
    for (field, own) in pattern.iter().zip(all) {
        let value = own.values.get(nth % own.values.len().max(1)).map_or(ValueRef::Null, Value::as_ref);
        nth /= own.values.len().max(1);
        builder.push(value, field.direction == Direction::Descending);
    }
    debug_assert!(nth == 0, "a number below the count names one value of each field");
    builder.finish()
}

fn cells(value: ValueRef<'_>, doc: Doc<'_>) -> Result<Vec<Value>> {
    let geometry = Stored::read(value).and_then(Stored::on_sphere);
    stop::ended()?;
    let geometry = geometry.map_err(|error| Error::Geo {
        code: 16_755,
        reason: format!("Can't extract geo keys: {} {}", shown(doc), error.message),
    })?;
    let cells = cells_of(&geometry);
    stop::ended()?;
    Ok(cells.into_iter().map(Value::Int64).collect())
}

fn places(field: &KeyField, doc: Doc<'_>, of: impl Fn(ValueRef<'_>) -> Result<Vec<Value>>) -> Result<Components> {
    let path = Path::new(&field.path);
    let (mut values, mut count, mut failed) = (Vec::new(), 0, None);
    path.visit(doc, Leaf::Whole, &mut |visit| {
        for value in visit.value.map(Stored::values).unwrap_or_default() {
            match stop::tick().map_err(Error::Filter).and_then(|()| of(value)) {
                Ok(own) => values.extend(own),
                // the text of each error would take as long as the document is large
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
            count += 1;
        }
        failed.is_some()
    });
    match failed {
        Some(error) => Err(error),
        None => {
            // which array it was does not matter: each component may have several values
            let arrays = if values.len() > 1 || count > 1 { (1 << path.components().len().min(63)) - 1 } else { 0 };
            Ok(Components { values, arrays })
        }
    }
}

fn plain(field: &KeyField, collation: &Collation, doc: Doc<'_>) -> Result<Components> {
    let alone = [KeyField { direction: Direction::Ascending, ..field.clone() }];
    let own = keys(&alone, false, collation, doc)?;
    let value = |key: &Key| {
        let values = keystring::decode(&key.bytes, &key.type_bits, &[false]).unwrap_or_default();
        values.into_iter().next().unwrap_or(Value::Null)
    };
    Ok(Components { values: own.keys.iter().map(value).collect(), arrays: own.multikey.first().copied().unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::{ArrayBuf, DocBuf};

    fn pattern(fields: &[(&str, FieldKind)]) -> Vec<KeyField> {
        let field = |(path, kind): &(&str, FieldKind)| KeyField {
            path: (*path).to_owned(),
            kind: *kind,
            direction: Direction::Ascending,
        };
        fields.iter().map(field).collect()
    }

    fn pair(x: f64, y: f64) -> ArrayBuf {
        [x, y].into_iter().collect()
    }

    fn count(fields: &[(&str, FieldKind)], doc: &DocBuf) -> std::result::Result<usize, i32> {
        let grid = Grid { bits: 26, min: -180.0, max: 180.0 };
        match (GeoKeys { grid: Some(grid) }).keys(&pattern(fields), &Collation::simple(), doc.as_doc()) {
            Ok(keys) => Ok(keys.keys.len()),
            Err(Error::Geo { code, .. }) => Err(code),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn documents_have_a_key_for_each_cell_and_combination() {
        use FieldKind::{Plain, Plane, Sphere};
        let empty = DocBuf::new();
        let nothing = DocBuf::new().with("l", ValueRef::Null).with("a", 1i32);
        let point = DocBuf::new().with("l", &pair(1.0, 2.0));
        let several: ArrayBuf = [&pair(1.0, 2.0), &pair(3.0, 4.0)].into_iter().collect();
        let points = DocBuf::new().with("l", &several);
        let tags = DocBuf::new().with("l", &pair(1.0, 2.0)).with("a", &[1i32, 2, 3].into_iter().collect::<ArrayBuf>());
        let square: ArrayBuf =
            [&pair(0.0, 0.0), &pair(9.0, 0.0), &pair(9.0, 9.0), &pair(0.0, 0.0)].into_iter().collect();
        let shape =
            DocBuf::new().with("type", "Polygon").with("coordinates", &[&square].into_iter().collect::<ArrayBuf>());
        let shape = DocBuf::new().with("l", &shape);
        assert_eq!(count(&[("l", Sphere)], &empty), Ok(0));
        assert_eq!(count(&[("l", Sphere), ("a", Plain)], &nothing), Ok(0));
        assert_eq!(count(&[("l", Sphere), ("m", Sphere)], &point), Ok(1));
        assert_eq!(count(&[("l", Sphere)], &points), Ok(2));
        assert_eq!(count(&[("l", Plane)], &points), Ok(2));
        assert_eq!(count(&[("a", Plain), ("l", Sphere)], &tags), Ok(3));
        assert!((2..=20).contains(&count(&[("l", Sphere)], &shape).unwrap()));
        assert_eq!(count(&[("l", Plane)], &shape), Err(13_026));
        assert_eq!(count(&[("l", Sphere)], &DocBuf::new().with("l", "here")), Err(16_755));
        assert_eq!(count(&[("l", Sphere)], &DocBuf::new().with("l", &pair(200.0, 0.0))), Err(16_755));
        assert_eq!(count(&[("l", Plane)], &DocBuf::new().with("l", &pair(200.0, 0.0))), Err(13_027));
        // The text of the error was made for each of them, and holds the document: this took hours.
        let texts = DocBuf::new().with("l", &vec!["here"; 500_000].into_iter().collect::<ArrayBuf>());
        assert_eq!(count(&[("l", Plane)], &texts), Err(13_026));
        assert_eq!(count(&[("l", Sphere)], &texts), Err(16_755));
    }
}
