//! Values near and beyond the limits of depth, built by every operator and stage from what the bytes choose: each is
//! refused, or no deeper than a document may be, on the stack of a statement.
#![no_main]

#[path = "../../crates/lang/tests/it/random/mod.rs"]
#[allow(dead_code, reason = "this target needs a part of it")]
mod random;

use arbor_bson::{ArrayBuf, DEPTH_MAX, DocBuf, Value};
use arbor_lang::expression::operator_names;
use arbor_lang::{Context, Expression, Stage, Update, accumulator, hash_of, stage, update};
use libfuzzer_sys::fuzz_target;
use random::{NAMES, Random, scalar};

fuzz_target!(|bytes: &[u8]| {
    let seed = bytes.first_chunk().map_or(0, |seed| u64::from_le_bytes(*seed));
    let mut random = Random::new(seed);
    let deep = nested(&mut random);
    let doc = DocBuf::new().with("_id", 1i32).with("a", &deep).with("b", &[&deep].into_iter().collect::<ArrayBuf>());
    for _ in 0..1 + bytes.len().saturating_sub(8) % 16 {
        expression(&mut random, &doc);
        pipeline(&mut random, &doc);
        operator(&mut random, &doc);
    }
});

fn nested(random: &mut Random) -> Value {
    let mut value = scalar(random);
    for _ in 0..*random.pick(&[0, 5, 100, 150, 176, 177, 178, 196, 197]) {
        value = match random.below(2) {
            0 => Value::Document(DocBuf::new().with("a", &value)),
            _ => Value::Array([&value].into_iter().collect()),
        };
    }
    value
}

fn operand(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 5 } else { 8 }) {
        0 => Value::String("$a".to_owned()),
        1 => Value::String("$b".to_owned()),
        2 => Value::String(format!("${}", vec!["a"; *random.pick(&[1, 199, 200, 201])].join("."))),
        3 => Value::Document(DocBuf::new().with("$literal", &nested(random))),
        4 => scalar(random),
        5 => {
            let names: Vec<&str> = operator_names().collect();
            Value::Document(DocBuf::new().with(*random.pick(&names), &operand(random, depth - 1)))
        }
        6 => {
            let fields: Vec<_> =
                (0..random.below(4)).map(|_| (*random.pick(&NAMES), operand(random, depth - 1))).collect();
            Value::Document(fields.iter().map(|(name, value)| (name, value)).collect())
        }
        _ => {
            let items: Vec<Value> = (0..random.below(4)).map(|_| operand(random, depth - 1)).collect();
            Value::Array(items.iter().collect())
        }
    }
}

/// Returns true if a client can send it: messages that nest deeper are refused before they are parsed.
fn is_message(doc: &DocBuf) -> bool {
    !doc.as_doc().is_deeper_than(DEPTH_MAX)
}

fn check(what: &str, doc: &DocBuf) {
    assert!(!doc.as_doc().is_deeper_than(DEPTH_MAX), "{what}");
}

fn expression(random: &mut Random, doc: &DocBuf) {
    let names: Vec<&str> = operator_names().collect();
    let name = *random.pick(&names);
    let spec = DocBuf::new().with(name, &operand(random, 3));
    if !is_message(&spec) {
        return;
    }
    let Ok(expression) = Expression::parse((&spec).into(), &Context::new(0)) else { return };
    if let Ok(Some(value)) = expression.eval(doc.as_doc()) {
        assert!(!value.as_ref().is_deeper_than(DEPTH_MAX), "{name}");
        hash_of(value.as_ref());
    }
}

fn pipeline(random: &mut Random, doc: &DocBuf) {
    let name = *random.pick(stage::NAMES);
    let accumulated = DocBuf::new().with(*random.pick(accumulator::NAMES), &operand(random, 2));
    let spec = match name {
        "$group" => Value::Document(DocBuf::new().with("_id", &operand(random, 2)).with("f", &accumulated)),
        "$setWindowFields" => Value::Document(DocBuf::new().with("output", &DocBuf::new().with("a.b.c", &accumulated))),
        _ => operand(random, 3),
    };
    let stage = DocBuf::new().with(name, &spec);
    if !is_message(&stage) {
        return;
    }
    let stages: ArrayBuf = [&stage].into_iter().collect();
    for stage in Stage::parse_pipeline(stages.as_array(), &Context::new(0)).unwrap_or_default() {
        match &stage {
            Stage::Map(map) => map.apply(doc.as_doc()).into_iter().for_each(|made| check(name, &made)),
            Stage::Flow(flow) => {
                let mut flow = flow.start();
                let _ = flow.feed(doc.clone()).and_then(|()| flow.end());
                for _ in 0..10 {
                    let _ = flow.next();
                }
            }
            _ => {}
        }
    }
}

fn operator(random: &mut Random, doc: &DocBuf) {
    let name = *random.pick(update::OPERATOR_NAMES);
    let path = vec!["a"; *random.pick(&[1, 2, 178, 179, 180, 181, 200, 201])].join(".");
    let change = DocBuf::new().with(name, &DocBuf::new().with(&path, &operand(random, 2)));
    if !is_message(&change) {
        return;
    }
    let Ok(update) = Update::parse((&change).into(), &[], &Context::new(0)) else { return };
    if let Ok(Some(new)) = update.apply(doc.as_doc(), Some(0)) {
        check(name, &new);
    }
}
