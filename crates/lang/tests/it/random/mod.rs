//! Random values of every type, with the names and texts that operators ask for.

pub(crate) use arbor_base::Random;
use arbor_bson::{ArrayBuf, Decimal128, DocBuf, ObjectId, Timestamp, Value};

pub(crate) const SEED: u64 = 0x5EED_0000_0000_0001;

pub(crate) const NAMES: [&str; 24] = [
    "a",
    "b",
    "a.b",
    "a.0",
    "_id",
    "input",
    "in",
    "cond",
    "as",
    "vars",
    "date",
    "timezone",
    "format",
    "unit",
    "startDate",
    "endDate",
    "amount",
    "regex",
    "options",
    "n",
    "sortBy",
    "field",
    "value",
    "year",
];
pub(crate) const TEXTS: [&str; 30] = [
    "",
    "$a",
    "$a.b",
    "$$ROOT",
    "$$this",
    "$$REMOVE",
    "$",
    "$$",
    "x",
    "é",
    "abc",
    "day",
    "month",
    "week",
    "UTC",
    "+1é1",
    "-03:30",
    "Europe/Berlin",
    "%Y-%m-%d",
    "%",
    "2020-01-31",
    "0102030405060708090a0b0c",
    "12",
    "-1e400",
    "[[:",
    "(a)\\1",
    "^a|b$",
    "i",
    "int",
    "1",
];
pub(crate) const FILTER_OPERATORS: [&str; 30] = [
    "$eq",
    "$ne",
    "$gt",
    "$gte",
    "$lt",
    "$lte",
    "$in",
    "$nin",
    "$not",
    "$exists",
    "$type",
    "$mod",
    "$size",
    "$all",
    "$elemMatch",
    "$regex",
    "$options",
    "$bitsAllSet",
    "$bitsAnyClear",
    "$and",
    "$or",
    "$nor",
    "$expr",
    "$comment",
    "$where",
    "$text",
    "$near",
    "$foo",
    "$sampleRate",
    "$alwaysFalse",
];
pub(crate) fn scalar(random: &mut Random) -> Value {
    match random.below(26) {
        0 => Value::Null,
        1 => Value::Bool(random.below(2) == 0),
        2 => Value::Int32(*random.pick(&[0, 1, -1, 2, 5, i32::MAX, i32::MIN])),
        3 => Value::Int64(*random.pick(&[0, 1, -1, i64::MAX, i64::MIN, 1 << 53])),
        4 => Value::Double(*random.pick(&[0.0, -0.0, 1.5, -2.5, f64::NAN, f64::INFINITY, 1e300, 5e-324, 1e18])),
        5 => Value::Decimal128(
            random.pick(&["0", "-1.5", "9E6111", "1E-6176", "NaN", "Infinity"]).parse::<Decimal128>().unwrap(),
        ),
        6 => Value::DateTime(*random.pick(&[0, -1, 1_600_000_000_000, i64::MAX, i64::MIN])),
        7 => Value::ObjectId(ObjectId([0xFF; 12])),
        8 => Value::Timestamp(Timestamp { seconds: u32::MAX, increment: 1 }),
        9 => Value::Regex {
            pattern: random.pick(&TEXTS).to_string(),
            options: random.pick(&["", "i", "z", "msx"]).to_string(),
        },
        10 => Value::Binary { subtype: 0, bytes: vec![0xFF; random.below(9) as usize] },
        11 => Value::Undefined,
        12 => Value::MinKey,
        13 => Value::MaxKey,
        _ => Value::String(random.pick(&TEXTS).to_string()),
    }
}

pub(crate) fn document(random: &mut Random, depth: usize, operators: &[&str]) -> DocBuf {
    let mut doc = DocBuf::new();
    if !operators.is_empty() && random.below(2) == 0 {
        let name = *random.pick(operators);
        doc.append(name, &value(random, depth, operators));
        return doc;
    }
    for _ in 0..random.below(4) {
        let name = *random.pick(&NAMES);
        doc.append(name, &value(random, depth, operators));
    }
    doc
}

pub(crate) fn value(random: &mut Random, depth: usize, operators: &[&str]) -> Value {
    match random.below(if depth == 0 { 2 } else { 6 }) {
        0 | 1 => scalar(random),
        2 | 3 => Value::Document(document(random, depth - 1, operators)),
        _ => {
            let items: Vec<Value> = (0..random.below(4)).map(|_| value(random, depth - 1, operators)).collect();
            Value::Array(items.iter().collect::<ArrayBuf>())
        }
    }
}
