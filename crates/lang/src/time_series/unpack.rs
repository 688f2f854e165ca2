//! `$_internalUnpackBucket: { timeField, metaField, bucketMaxSpanSeconds }`: a document per measurement of a bucket, its time
//! first, then `meta` under its own name, then the columns in their order.

use arbor_bson::{Doc, DocBuf, ValueRef};

use super::TimeSeriesOptions;
use crate::{Code, Error, Result, number};

#[derive(Clone, Debug)]
pub struct Unpack {
    pub time_field: String,
    pub meta_field: Option<String>,
    pub span_seconds: i64,
}

pub(super) const NAME: &str = "$_internalUnpackBucket";

/// Maximum size of a bucket. The writer puts a hundredth of it into one, see [`super::Bucket::has_room_for`].
const BYTES_MAX: usize = 64 << 20;

impl Unpack {
    pub const NAME: &'static str = NAME;

    pub fn of(options: &TimeSeriesOptions) -> Unpack {
        let (time_field, meta_field) = (options.time_field.clone(), options.meta_field.clone());
        Unpack { time_field, meta_field, span_seconds: options.span_seconds() }
    }

    pub fn parse(spec: ValueRef<'_>) -> Result<Unpack> {
        let wrong = || Error::location(5_346_500, format!("{NAME} specification must name its timeField"));
        let ValueRef::Document(spec) = spec else { return Err(wrong()) };
        let text = |name| match spec.get(name) {
            Some(ValueRef::String(text)) => Some(text.to_owned()),
            _ => None,
        };
        let span = spec.get("bucketMaxSpanSeconds").and_then(number::exact_i64);
        let time_field = text("timeField").ok_or_else(wrong)?;
        Ok(Unpack { time_field, meta_field: text("metaField"), span_seconds: span.unwrap_or(3600) })
    }

    /// The stage.
    pub fn to_doc(&self) -> DocBuf {
        let mut spec = DocBuf::new().with("timeField", &self.time_field);
        if let Some(meta_field) = &self.meta_field {
            spec.append("metaField", meta_field);
        }
        DocBuf::new().with(NAME, &spec.with("bucketMaxSpanSeconds", self.span_seconds as i32))
    }

    /// Pushes the measurements; what is no bucket has none.
    /// Errors: a foreign bucket whose measurements are far larger than the bucket itself.
    pub fn apply(&self, bucket: Doc<'_>, out: &mut Vec<DocBuf>) -> Result<()> {
        let Some(ValueRef::Document(data)) = bucket.get("data") else { return Ok(()) };
        let Some(ValueRef::Document(times)) = data.get(&self.time_field) else { return Ok(()) };
        let mut bytes = 0;
        let meta = self.meta_field.as_deref().zip(bucket.get("meta"));
        let columns = data.iter().filter(|(name, _)| *name != self.time_field);
        let mut columns: Vec<_> = columns
            .filter_map(|(name, column)| match column {
                ValueRef::Document(column) => Some((name, column.iter().peekable())),
                _ => None,
            })
            .collect();
        for (number, time) in times {
            let mut measurement = DocBuf::new().with(&self.time_field, time);
            if let Some((name, meta)) = meta {
                measurement.append(name, meta);
            }
            for (name, values) in &mut columns {
                if let Some((_, value)) = values.next_if(|(own, _)| *own == number) {
                    measurement.append(name, value);
                }
            }
            bytes += measurement.as_bytes().len();
            if bytes > BYTES_MAX {
                let message = format!("the measurements of one bucket are larger than {BYTES_MAX} bytes");
                return Err(Error::new(Code::BSON_OBJECT_TOO_LARGE, message));
            }
            out.push(measurement);
        }
        Ok(())
    }
}
