//! `timeseries: { timeField, metaField, granularity | bucketMaxSpanSeconds with bucketRoundingSeconds }`.

use arbor_bson::{Doc, DocBuf, ValueRef};

use crate::{Code, Error, Result, number, text};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeSeriesOptions {
    /// The field with the date of a measurement.
    pub time_field: String,
    /// The field that says whose measurement it is.
    pub meta_field: Option<String>,
    pub span: Span,
}

/// Maximum time span of one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    Granularity(Granularity),
    Seconds(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Granularity {
    Seconds,
    Minutes,
    Hours,
}

const SPAN_SECONDS_MAX: i64 = 365 * 24 * 3600;

impl Granularity {
    fn parse(name: &str) -> Result<Granularity> {
        match name {
            "seconds" => Ok(Granularity::Seconds),
            "minutes" => Ok(Granularity::Minutes),
            "hours" => Ok(Granularity::Hours),
            other => Err(Error::bad_value(format!(
                "Enumeration value '{other}' for field 'create.timeseries.granularity' is not a valid value."
            ))),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Granularity::Seconds => "seconds",
            Granularity::Minutes => "minutes",
            Granularity::Hours => "hours",
        }
    }

    fn span_seconds(self) -> i64 {
        match self {
            Granularity::Seconds => 3600,
            Granularity::Minutes => 24 * 3600,
            Granularity::Hours => 30 * 24 * 3600,
        }
    }
}

fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::new(Code::INVALID_OPTIONS, message))
}

fn string(name: &str, value: ValueRef<'_>) -> Result<String> {
    match value {
        ValueRef::String(value) => Ok(value.to_owned()),
        other => Err(wrong_type(name, other, "string")),
    }
}

fn wrong_type(name: &str, found: ValueRef<'_>, expected: &str) -> Error {
    let found = text::type_name(Some(found));
    let field = format!("BSON field 'create.timeseries.{name}'");
    Error::new(Code::TYPE_MISMATCH, format!("{field} is the wrong type '{found}', expected type '{expected}'"))
}

/// Fractions are cut off, decimals rounded half to even, and what is no number is 0.
fn seconds(name: &str, value: ValueRef<'_>) -> Result<i64> {
    let whole = match value {
        ValueRef::Double(value) => Some(value as i64),
        ValueRef::Decimal128(value) => Some(match value.to_i64_rounded() {
            Some(whole) => whole,
            None if value.is_nan() => 0,
            None if value.is_negative() => i64::MIN,
            None => i64::MAX,
        }),
        value => number::exact_i64(value),
    };
    match whole {
        Some(seconds) if (1..=SPAN_SECONDS_MAX).contains(&seconds) => Ok(seconds),
        Some(seconds) => Err(Error::bad_value(format!(
            "BSON field '{name}' value must be >= 1 and <= {SPAN_SECONDS_MAX}, actual value '{seconds}'"
        ))),
        None => Err(wrong_type(name, value, "int")),
    }
}

/// Options as read, before they are checked against each other.
#[derive(Default)]
struct RawOptions {
    time_field: Option<String>,
    meta_field: Option<String>,
    granularity: Option<Granularity>,
    span: Option<i64>,
    rounding: Option<i64>,
}

impl RawOptions {
    fn read(doc: Doc<'_>) -> Result<RawOptions> {
        let mut raw = RawOptions::default();
        let given = doc.iter().filter(|(_, value)| !matches!(value, ValueRef::Null | ValueRef::Undefined));
        for (name, value) in given {
            match name {
                "timeField" => raw.time_field = Some(string(name, value)?),
                "metaField" => raw.meta_field = Some(string(name, value)?),
                "granularity" => raw.granularity = Some(Granularity::parse(&string(name, value)?)?),
                "bucketMaxSpanSeconds" => raw.span = Some(seconds(name, value)?),
                "bucketRoundingSeconds" => raw.rounding = Some(seconds(name, value)?),
                _ => {
                    let message = format!("BSON field 'create.timeseries.{name}' is an unknown field.");
                    return Err(Error::location(40415, message));
                }
            }
        }
        Ok(raw)
    }

    fn span(&self) -> Result<Option<Span>> {
        match (self.granularity, self.span, self.rounding) {
            (None, None, None) => Ok(None),
            (Some(granularity), None, None) => Ok(Some(Span::Granularity(granularity))),
            (Some(granularity), Some(span), None) if span == granularity.span_seconds() => {
                Ok(Some(Span::Granularity(granularity)))
            }
            (Some(granularity), Some(_), None) => invalid(format!(
                "Timeseries 'bucketMaxSpanSeconds' is not configurable to a value other than the default of {} for the \
                 provided granularity",
                granularity.span_seconds()
            )),
            (None, Some(span), Some(rounding)) if span == rounding => Ok(Some(Span::Seconds(span))),
            (None, _, _) => invalid(
                "Timeseries 'bucketMaxSpanSeconds' and 'bucketRoundingSeconds' need to be set to the same value",
            ),
            (Some(_), _, Some(_)) => invalid(
                "Timeseries 'granularity' cannot be set with 'bucketRoundingSeconds' and 'bucketMaxSpanSeconds'",
            ),
        }
    }
}

impl TimeSeriesOptions {
    /// Parses the options of a client, or a result of [`TimeSeriesOptions::to_doc`].
    pub fn parse(doc: Doc<'_>) -> Result<TimeSeriesOptions> {
        let raw = RawOptions::read(doc)?;
        let span = raw.span()?.unwrap_or(Span::Granularity(Granularity::Seconds));
        let Some(time_field) = raw.time_field else {
            let message = "BSON field 'create.timeseries.timeField' is missing but a required field";
            return Err(Error::location(40414, message));
        };
        let meta_field = raw.meta_field;
        for (name, field) in [("timeField", Some(&time_field)), ("metaField", meta_field.as_ref())] {
            match field.map(String::as_str) {
                Some("_id") => return invalid(format!("'{name}' cannot be \"_id\"")),
                Some(field) if field.contains('\0') => {
                    return Err(Error::bad_value(format!("'{name}' cannot contain null bytes")));
                }
                Some("") => return invalid(format!("'{name}' cannot be empty")),
                Some(field) if field.contains('.') || field.starts_with('$') => {
                    return invalid(format!("'{name}' must be a top-level field"));
                }
                _ => {}
            }
        }
        if meta_field.as_ref() == Some(&time_field) {
            return invalid("'metaField' cannot be the same as 'timeField'");
        }
        Ok(TimeSeriesOptions { time_field, meta_field, span })
    }

    /// As `listCollections` shows them.
    pub fn to_doc(&self) -> DocBuf {
        let mut doc = DocBuf::new().with("timeField", &self.time_field);
        if let Some(meta_field) = &self.meta_field {
            doc.append("metaField", meta_field);
        }
        match self.span {
            Span::Granularity(granularity) => doc.append("granularity", granularity.name()),
            Span::Seconds(seconds) => doc.append("bucketRoundingSeconds", seconds as i32),
        };
        doc.with("bucketMaxSpanSeconds", self.span_seconds() as i32)
    }

    /// `timeseries` of `collMod`: buckets may become larger.
    pub fn changed(&self, change: Doc<'_>) -> Result<TimeSeriesOptions> {
        let raw = RawOptions::read(change)?;
        let fixed = [("timeField", raw.time_field.is_some()), ("metaField", raw.meta_field.is_some())];
        if let Some((name, _)) = fixed.iter().find(|(_, given)| *given) {
            let message = format!("BSON field 'collMod.timeseries.{name}' is an unknown field.");
            return Err(Error::location(40415, message));
        }
        let Some(span) = raw.span()? else { return Ok(self.clone()) };
        let changed = TimeSeriesOptions { span, ..self.clone() };
        match (self.span, span) {
            (Span::Granularity(old), Span::Granularity(new)) if new < old => invalid(
                "Invalid transition for timeseries.granularity. Can only transition from 'seconds' to 'minutes' or \
                 'minutes' to 'hours'.",
            ),
            _ if changed.span_seconds() < self.span_seconds() => {
                invalid("Timeseries 'bucketMaxSpanSeconds' and 'bucketRoundingSeconds' can only be increased")
            }
            _ => Ok(changed),
        }
    }

    pub fn span_seconds(&self) -> i64 {
        match self.span {
            Span::Granularity(granularity) => granularity.span_seconds(),
            Span::Seconds(seconds) => seconds,
        }
    }

    /// Begin of the window that a time falls into, in seconds. A bucket holds measurements of one window.
    pub fn window_of(&self, time_ms: i64) -> i64 {
        let span = self.span_seconds();
        time_ms.div_euclid(1000).div_euclid(span) * span
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::display::shell_doc;

    fn parse(doc: &DocBuf) -> std::result::Result<String, i32> {
        let parsed = TimeSeriesOptions::parse(doc.as_doc()).map_err(|error| error.code.0)?;
        assert_eq!(TimeSeriesOptions::parse(parsed.to_doc().as_doc()).unwrap(), parsed);
        Ok(shell_doc(parsed.to_doc().as_doc()).to_string())
    }

    #[test]
    fn options_are_read() {
        let t = || DocBuf::new().with("timeField", "t");
        let shown = r#"{ timeField: "t", granularity: "seconds", bucketMaxSpanSeconds: 3600 }"#;
        assert_eq!(parse(&t()), Ok(shown.to_owned()));
        let custom = t().with("bucketMaxSpanSeconds", 300i32).with("bucketRoundingSeconds", 300.0);
        let shown = r#"{ timeField: "t", bucketRoundingSeconds: 300, bucketMaxSpanSeconds: 300 }"#;
        assert_eq!(parse(&custom), Ok(shown.to_owned()));
        for (doc, code) in [
            (DocBuf::new(), 40414),
            (DocBuf::new().with("timeField", 1i32), 14),
            (t().with("metaField", "t"), 72),
            (t().with("metaField", "_id"), 72),
            (DocBuf::new().with("timeField", "a.b"), 72),
            (t().with("granularity", "days"), 2),
            (t().with("granularity", "hours").with("bucketMaxSpanSeconds", 3600i32), 72),
            (t().with("bucketMaxSpanSeconds", 300i32), 72),
            (t().with("bucketMaxSpanSeconds", 300i32).with("bucketRoundingSeconds", 60i32), 72),
            (t().with("bucketMaxSpanSeconds", 0i32).with("bucketRoundingSeconds", 0i32), 2),
            (t().with("other", 1i32), 40415),
        ] {
            assert_eq!(parse(&doc), Err(code), "{doc:?}");
        }
    }

    #[test]
    fn buckets_only_grow() {
        let of = |name: &str| DocBuf::new().with("granularity", name);
        let minutes = TimeSeriesOptions::parse(of("minutes").with("timeField", "t").as_doc()).unwrap();
        assert_eq!(minutes.changed(of("hours").as_doc()).unwrap().span_seconds(), 30 * 86_400);
        assert_eq!(minutes.changed(of("seconds").as_doc()).unwrap_err().code, Code::INVALID_OPTIONS);
        // the fields cannot change: collMod does not know them
        let unknown = minutes.changed(DocBuf::new().with("timeField", "x").as_doc()).unwrap_err();
        assert_eq!(unknown.code.0, 40415);
        assert_eq!(minutes.window_of(-1), -86_400);
    }
}
