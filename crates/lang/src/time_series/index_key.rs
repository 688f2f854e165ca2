//! Key patterns of indexes on a time series, and what they are on its buckets.
//!
//! | measurements | buckets |
//! |---|---|
//! | `m.x: 1` | `meta.x: 1` |
//! | `t: 1`, as every other field | `control.min.t: 1, control.max.t: 1` |
//! | `t: -1` | `control.max.t: -1, control.min.t: -1` |

use arbor_bson::{Doc, DocBuf, ValueRef};

use super::{TimeSeriesOptions, Unpack};
use crate::number;

/// The pattern over buckets. None: a field may not be indexed like this.
pub fn of_buckets(key: Doc<'_>, options: &TimeSeriesOptions) -> Option<DocBuf> {
    Unpack::of(options).bucket_key(key)
}

impl Unpack {
    /// Returns the pattern over buckets for the pattern of a hint.
    pub fn bucket_key(&self, key: Doc<'_>) -> Option<DocBuf> {
        let mut pattern = DocBuf::new();
        for (path, value) in key {
            if let Some(path) = self.meta_path(path) {
                pattern.append(&path, value);
                continue;
            }
            let (first, second) = if is_descending(value)? { ("max", "min") } else { ("min", "max") };
            pattern
                .append(&format!("control.{first}.{path}"), value)
                .append(&format!("control.{second}.{path}"), value);
        }
        Some(pattern)
    }
}

fn is_descending(value: ValueRef<'_>) -> Option<bool> {
    match value {
        ValueRef::Double(value) => Some(value < 0.0),
        value => number::exact_i64(value).map(|value| value < 0),
    }
}

/// The pattern over measurements. None: it is an index on buckets only.
pub fn of_measurements(key: Doc<'_>, options: &TimeSeriesOptions) -> Option<DocBuf> {
    let mut pattern = DocBuf::new();
    let mut fields = key.iter().peekable();
    while let Some((path, value)) = fields.next() {
        if let Some(rest) = path.strip_prefix("meta").filter(|rest| rest.is_empty() || rest.starts_with('.')) {
            pattern.append(&format!("{}{rest}", options.meta_field.as_deref()?), value);
            continue;
        }
        let (field, other) = match (path.strip_prefix("control.min."), path.strip_prefix("control.max.")) {
            (Some(field), _) => (field, format!("control.max.{field}")),
            (_, Some(field)) => (field, format!("control.min.{field}")),
            _ => return None,
        };
        fields.next_if(|(next, _)| *next == other)?;
        pattern.append(field, value);
    }
    Some(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::display::shell_doc;

    #[test]
    fn patterns_go_both_ways() {
        let options = DocBuf::new().with("timeField", "t").with("metaField", "m");
        let options = TimeSeriesOptions::parse(options.as_doc()).unwrap();
        let check = |key: DocBuf, expected: &str| {
            let buckets = of_buckets(key.as_doc(), &options).unwrap();
            assert_eq!(shell_doc(buckets.as_doc()).to_string(), expected);
            let back = of_measurements(buckets.as_doc(), &options).unwrap();
            assert_eq!(back.as_bytes(), key.as_bytes());
        };
        check(DocBuf::new().with("m.x", 1i32), "{ meta.x: 1 }");
        check(DocBuf::new().with("m", -1i32).with("t", 1i32), "{ meta: -1, control.min.t: 1, control.max.t: 1 }");
        check(DocBuf::new().with("v.a", -1i32), "{ control.max.v.a: -1, control.min.v.a: -1 }");
        assert!(of_buckets(DocBuf::new().with("v", "hashed").as_doc(), &options).is_none());
        assert!(of_measurements(DocBuf::new().with("data.v", 1i32).as_doc(), &options).is_none());
    }
}
