//! A bucket: measurements of one owner (`meta`) in one window of time.
//!
//! ```text
//! { _id: ObjectId, control: { version: 1, min: {t, temp, ..}, max: {t, temp, ..}, count },
//!   meta: value, data: { t: {"0": .., "1": ..}, temp: {"0": .., "2": ..}, .. } }
//! ```
//!
//! | bytes of `_id` | what |
//! |---|---|
//! | 4 | begin of the window in seconds, big-endian; times outside of 0..2^32 are clamped |
//! | 5 | of the hash of `meta` |
//! | 3 | which of the buckets of this window and hash, big-endian |
//!
//! B1: all buckets of one owner and window are adjacent, so one seek in the records finds the open one.
//! B2: the time of each measurement is in `control.min.t ..= control.max.t`; `control.min.t` is the window's begin, and no
//! window is longer than the collection's span.
//! B3: a column holds a measurement's value under its number; a measurement without the field has none there.

use std::cmp::Ordering;

use arbor_bson::{Doc, DocBuf, ObjectId, Value, ValueRef, compare};

use super::TimeSeriesOptions;
use crate::hash_of;

/// Measurements of one bucket.
const COUNT_MAX: u32 = 1000;
/// Bytes of one bucket, unless its only measurement is larger.
const BYTES_MAX: usize = 125 * 1024;

pub struct Bucket {
    id: ObjectId,
    window: i64,
    meta: Option<Value>,
    count: u32,
    bytes: usize,
    min: Vec<(String, Value)>,
    max: Vec<(String, Value)>,
    columns: Vec<(String, DocBuf)>,
}

/// The lowest `_id` of buckets of a window.
pub fn first_id(window: i64) -> ObjectId {
    id_of(window, [0; 8])
}

/// The highest one.
pub fn last_id(window: i64) -> ObjectId {
    id_of(window, [0xff; 8])
}

/// The `_id` of one bucket. The number `0xff_ffff` is none of a bucket.
pub fn bucket_id(window: i64, meta: Option<ValueRef<'_>>, number: u32) -> ObjectId {
    let mut rest = [0; 8];
    if let Some(meta) = meta {
        rest[..5].copy_from_slice(&hash_of(meta).to_be_bytes()[..5]);
    }
    rest[5..].copy_from_slice(&number.to_be_bytes()[1..]);
    id_of(window, rest)
}

fn id_of(window: i64, rest: [u8; 8]) -> ObjectId {
    let mut id = [0; 12];
    id[..4].copy_from_slice(&(window.clamp(0, i64::from(u32::MAX)) as u32).to_be_bytes());
    id[4..].copy_from_slice(&rest);
    ObjectId(id)
}

impl Bucket {
    pub fn new(id: ObjectId, window: i64, meta: Option<ValueRef<'_>>) -> Bucket {
        let meta = meta.map(ValueRef::to_value);
        let (min, max, columns) = (Vec::new(), Vec::new(), Vec::new());
        Bucket { id, window, meta, count: 0, bytes: 0, min, max, columns }
    }

    /// None: it is no bucket.
    pub fn read(doc: Doc<'_>, options: &TimeSeriesOptions) -> Option<Bucket> {
        let (Some(ValueRef::ObjectId(id)), Some(ValueRef::Document(control)), Some(ValueRef::Document(data))) =
            (doc.get("_id"), doc.get("control"), doc.get("data"))
        else {
            return None;
        };
        let (Some(ValueRef::Document(min)), Some(ValueRef::Document(max)), Some(ValueRef::Int32(count))) =
            (control.get("min"), control.get("max"), control.get("count"))
        else {
            return None;
        };
        let Some(ValueRef::DateTime(window_ms)) = min.get(&options.time_field) else { return None };
        let owned = |fields: Doc<'_>| fields.iter().map(|(name, value)| (name.to_owned(), value.to_value())).collect();
        let column = |(name, column): (&str, ValueRef<'_>)| match column {
            ValueRef::Document(column) => Some((name.to_owned(), column.to_buf())),
            _ => None,
        };
        Some(Bucket {
            id,
            window: window_ms.div_euclid(1000),
            meta: doc.get("meta").map(ValueRef::to_value),
            count: u32::try_from(count).ok()?,
            bytes: data.as_bytes().len(),
            min: owned(min),
            max: owned(max),
            columns: data.iter().map(column).collect::<Option<_>>()?,
        })
    }

    /// Returns this bucket without measurements.
    pub fn emptied(&self) -> Bucket {
        Bucket::new(self.id, self.window, self.meta.as_ref().map(Value::as_ref))
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn has_room_for(&self, measurement: Doc<'_>) -> bool {
        self.count == 0 || (self.count < COUNT_MAX && self.bytes + measurement.as_bytes().len() <= BYTES_MAX)
    }

    pub fn push(&mut self, measurement: Doc<'_>, options: &TimeSeriesOptions) {
        let number = self.count.to_string();
        let meta_field = options.meta_field.as_deref();
        for (name, value) in measurement.iter().filter(|(name, _)| Some(*name) != meta_field) {
            match self.columns.iter_mut().find(|(own, _)| own == name) {
                Some((_, column)) => drop(column.append(&number, value)),
                None => self.columns.push((name.to_owned(), DocBuf::new().with(&number, value))),
            }
            keep(&mut self.min, name, value, Ordering::Less);
            keep(&mut self.max, name, value, Ordering::Greater);
        }
        self.bytes += measurement.as_bytes().len();
        self.count += 1;
    }

    pub fn to_doc(&self, options: &TimeSeriesOptions) -> DocBuf {
        let time = options.time_field.as_str();
        let begin = ValueRef::DateTime(self.window.saturating_mul(1000));
        let mut min = DocBuf::new();
        for (name, value) in &self.min {
            min.append(name, if name == time { begin } else { value.as_ref() });
        }
        let max: DocBuf = self.max.iter().map(|(name, value)| (name.as_str(), value)).collect();
        let control = DocBuf::new().with("version", 1i32).with("min", &min).with("max", &max);
        let mut doc = DocBuf::new().with("_id", self.id).with("control", &control.with("count", self.count as i32));
        if let Some(meta) = &self.meta {
            doc.append("meta", meta);
        }
        let data: DocBuf = self.columns.iter().map(|(name, column)| (name.as_str(), column)).collect();
        doc.with("data", &data)
    }
}

/// Keeps `value` if it is on that side of what was there.
fn keep(known: &mut Vec<(String, Value)>, name: &str, value: ValueRef<'_>, side: Ordering) {
    match known.iter_mut().find(|(own, _)| own == name) {
        Some((_, own)) if compare(value, own.as_ref()) == side => *own = value.to_value(),
        Some(_) => {}
        None => known.push((name.to_owned(), value.to_value())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_series::Unpack;
    use arbor_bson::display::shell_doc;

    fn options() -> TimeSeriesOptions {
        let doc = DocBuf::new().with("timeField", "t").with("metaField", "m");
        TimeSeriesOptions::parse(doc.as_doc()).unwrap()
    }

    fn measurement(n: i32) -> DocBuf {
        let doc =
            DocBuf::new().with("_id", n).with("t", ValueRef::DateTime(7_200_000 + i64::from(n) * 1000)).with("m", "a");
        if n % 2 == 0 { doc.with("v", n * 10) } else { doc }
    }

    #[test]
    fn measurements_come_back() {
        let options = options();
        let meta = Some(ValueRef::String("a"));
        let mut bucket = Bucket::new(bucket_id(7200, meta, 3), 7200, meta);
        (0..4).for_each(|n| bucket.push(measurement(n).as_doc(), &options));
        let doc = bucket.to_doc(&options);
        let mut again = Bucket::read(doc.as_doc(), &options).unwrap();
        assert_eq!(again.to_doc(&options).as_bytes(), doc.as_bytes());
        again.push(measurement(4).as_doc(), &options);
        let mut out = Vec::new();
        let unpack = Unpack::of(&options);
        unpack.apply(again.to_doc(&options).as_doc(), &mut out).unwrap();
        assert_eq!(out.len(), 5);
        for (n, got) in out.iter().enumerate() {
            let expected = measurement(n as i32);
            let sorted = |doc: &DocBuf| {
                let mut fields: Vec<String> =
                    doc.as_doc().iter().map(|(name, value)| format!("{name}={value}")).collect();
                fields.sort();
                fields
            };
            assert_eq!(sorted(got), sorted(&expected));
            assert_eq!(got.as_doc().first().unwrap().0, "t");
        }
        let control = again.to_doc(&options);
        let Some(ValueRef::Document(control)) = control.get("control") else { panic!() };
        let shown = shell_doc(control).to_string();
        assert!(shown.contains("v: 0") && shown.contains("v: 40") && shown.contains("count: 5"), "{shown}");
    }

    #[test]
    fn buckets_get_full() {
        let options = options();
        let mut bucket = Bucket::new(first_id(0), 0, None);
        let large = measurement(0).with("text", &"x".repeat(200_000));
        assert!(bucket.has_room_for(large.as_doc()));
        bucket.push(large.as_doc(), &options);
        assert!(!bucket.has_room_for(measurement(0).as_doc()));
        let mut small = bucket.emptied();
        (0..COUNT_MAX).for_each(|_| {
            assert!(small.has_room_for(DocBuf::new().as_doc()));
            small.push(measurement(1).as_doc(), &options);
        });
        assert!(!small.has_room_for(DocBuf::new().as_doc()));
    }

    #[test]
    fn ids_are_in_the_order_of_time() {
        let meta = Some(ValueRef::Int32(5));
        let id = |window| bucket_id(window, meta, 0).0;
        assert!(id(-5) == id(0) && id(0) < id(1) && id(1) < id(1 << 32) && id(1 << 32) == id(1 << 33));
        assert!(first_id(7).0 <= id(7) && id(7) <= last_id(7).0);
        assert!(bucket_id(7, meta, 1).0 > id(7) && bucket_id(7, meta, 1).0[..9] == id(7)[..9]);
    }
}
