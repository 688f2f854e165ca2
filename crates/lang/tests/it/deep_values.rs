//! Values and paths as deep as any may be, and deeper, through everything that is registered: every expression, stage,
//! accumulator, window function, update operator and filter is parsed and run on the small stack of a thread. What comes
//! out is no deeper than any document may be.

#[allow(dead_code, reason = "the other test uses the rest")]
use arbor_bson::{ArrayBuf, DEPTH_MAX, DocBuf, STORED_DEPTH_MAX, Value, ValueRef};
use arbor_lang::accumulator;
use arbor_lang::expression::operator_names;
use arbor_lang::projection::ProjectionKind;
use arbor_lang::stage::{self, GroupState, Unwound};
use arbor_lang::{Code, Context, Expression, Filter, Projection, Result, SortPattern, Stage, Update, hash_of, update};

use crate::random::{FILTER_OPERATORS, NAMES, Random, SEED, scalar};

/// A part of what the server gives a thread; a debug build needs between a sixteenth and an eighth.
const STACK_BYTES: usize = arbor_base::STATEMENT_STACK_BYTES / 8;

fn on_a_small_stack(test: fn()) {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(test).unwrap();
    thread.join().unwrap();
}

/// Documents in documents, or arrays in arrays.
fn nested(levels: usize, in_arrays: bool) -> Value {
    let (head, level_bytes) = if in_arrays { (&[0x04, b'0', 0][..], 8) } else { (&[0x03, b'a', 0][..], 8) };
    // written from the outside: wrapping would copy the value once for each level
    let mut bytes = Vec::new();
    for level in (0..levels).rev() {
        bytes.extend_from_slice(&((5 + level_bytes * level) as u32).to_le_bytes());
        if level > 0 {
            bytes.extend_from_slice(head);
        }
    }
    bytes.resize(bytes.len() + levels, 0);
    let doc = DocBuf::from_trusted(bytes);
    match in_arrays {
        true => ValueRef::Array(arbor_bson::Array::trusted(doc.as_bytes())).to_value(),
        false => Value::Document(doc),
    }
}

fn path(names: usize) -> String {
    vec!["a"; names].join(".")
}

/// Documents as deep as they may be, and some that only versions without a limit stored.
fn documents() -> Vec<DocBuf> {
    let mut documents = vec![DocBuf::new().with("_id", 1i32)];
    for levels in [STORED_DEPTH_MAX - 1, DEPTH_MAX - 1, 4000] {
        for in_arrays in [false, true] {
            let deep = nested(levels, in_arrays);
            documents.push(DocBuf::new().with("_id", 1i32).with("a", &deep).with("b", &deep));
        }
    }
    documents
}

fn is_legal(doc: &DocBuf) -> bool {
    !doc.as_doc().is_deeper_than(DEPTH_MAX)
}

/// Returns a `{$reduce: ..}` that builds this many levels.
fn building(levels: i32) -> DocBuf {
    let range = DocBuf::new().with("$range", &[0, levels].into_iter().collect::<ArrayBuf>());
    let wrapped = DocBuf::new().with("a", "$$value");
    let reduce = DocBuf::new().with("input", &range).with("initialValue", 1i32).with("in", &wrapped);
    DocBuf::new().with("$reduce", &reduce)
}

/// Generates operands: deep values from the document and computed ones, long paths, and random ones.
fn operand(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 12 } else { 16 }) {
        0 | 1 => Value::String("$a".to_owned()),
        2 => Value::String("$b".to_owned()),
        3 => Value::String("$$ROOT".to_owned()),
        4 => Value::Document(building(*random.pick(&[170, 198, 199, 200]))),
        5 => Value::String(format!("${}", path(*random.pick(&[150, 200, 201])))),
        6 => Value::String(path(*random.pick(&[150, 200, 201, 3000]))),
        7 => Value::Document(DocBuf::new().with("$literal", &nested(150, random.below(2) == 0))),
        8 => Value::String("a".to_owned()),
        9 => Value::Int32(1),
        10 => scalar(random),
        11 => nested(*random.pick(&[150, 185]), random.below(2) == 0),
        12 | 13 => {
            let fields = (0..1 + random.below(4)).map(|_| (*random.pick(&NAMES), operand(random, depth - 1)));
            let fields: Vec<_> = fields.collect();
            Value::Document(fields.iter().map(|(name, value)| (name, value)).collect())
        }
        _ => {
            let items: Vec<Value> = (0..1 + random.below(3)).map(|_| operand(random, depth - 1)).collect();
            Value::Array(items.iter().collect())
        }
    }
}

/// Operands that an operator takes: what its examples show cannot be known, so its named arguments are tried out.
fn operands(random: &mut Random) -> Vec<Value> {
    (0..24).map(|_| operand(random, 2)).collect()
}

#[test]
fn expressions() {
    on_a_small_stack(|| {
        let (mut random, documents) = (Random::new(SEED), documents());
        let context = Context::new(1_600_000_000_000);
        for name in operator_names() {
            for operand in operands(&mut random) {
                let spec = DocBuf::new().with(name, &operand);
                let Ok(expression) = Expression::parse((&spec).into(), &context) else { continue };
                for doc in &documents {
                    let result = expression.eval(doc.as_doc());
                    let deep = matches!(&result, Ok(Some(value)) if value.as_ref().is_deeper_than(DEPTH_MAX));
                    assert!(!deep || !is_legal(doc), "{name}: {operand:?}");
                }
            }
        }
    });
}

#[test]
fn an_expression_builds_no_deeper_value() {
    on_a_small_stack(|| {
        let eval =
            |levels| Expression::parse((&building(levels)).into(), &Context::new(0))?.eval(DocBuf::new().as_doc());
        assert!(eval(DEPTH_MAX as i32).is_ok());
        for levels in [DEPTH_MAX as i32 + 1, 100_000] {
            assert_eq!(eval(levels).unwrap_err().code, Code::OVERFLOW);
        }
    });
}

#[test]
fn nested_operators() {
    on_a_small_stack(|| {
        let context = Context::new(0);
        for name in operator_names().chain(["a"]) {
            // an array around each one
            for levels in [80, 175, 400] {
                let mut spec = DocBuf::new().with(name, "$a");
                for _ in 0..levels {
                    spec = DocBuf::new().with(name, &spec);
                }
                if let Ok(expression) = Expression::parse((&spec).into(), &context) {
                    let _ = expression.eval(DocBuf::new().with("a", 1i32).as_doc());
                }
            }
        }
        for name in ["$and", "$or", "$nor"] {
            let mut filter = DocBuf::new().with("a", 1i32);
            for _ in 0..85 {
                filter = DocBuf::new().with(name, &[filter.as_doc()].into_iter().collect::<ArrayBuf>());
            }
            let filter = Filter::parse(filter.as_doc(), &context).unwrap();
            let _ = filter.matches(DocBuf::new().as_doc());
        }
    });
}

fn run(stage: &Stage, doc: &DocBuf) -> Result<Vec<DocBuf>> {
    Ok(match stage {
        Stage::Map(map) => vec![map.apply(doc.as_doc())?],
        Stage::Match(filter) => filter.matches(doc.as_doc()).map(|_| Vec::new())?,
        Stage::Group(group) => {
            let mut groups = GroupState::new(group);
            groups.add(doc.as_doc())?;
            groups.finish()?.collect()
        }
        Stage::Unwind(unwind) => match unwind.split(doc.as_doc()) {
            Unwound::One(one) => one.into_iter().collect(),
            Unwound::Each(elements) => elements
                .iter()
                .take(3)
                .enumerate()
                .map(|(at, one)| unwind.with_element(doc.as_doc(), at, one))
                .collect(),
        },
        Stage::Sort(pattern) => {
            let _key = pattern.key(doc.as_doc());
            pattern.compare(doc.as_doc(), doc.as_doc());
            Vec::new()
        }
        Stage::Flow(stage) => {
            let mut flow = stage.start();
            flow.feed(doc.clone())?;
            let mut given: Vec<DocBuf> = flow.next()?.into_iter().collect();
            flow.end()?;
            given.extend((0..10).map_while(|_| flow.next().ok().flatten()));
            given
        }
        Stage::Limit(_) | Stage::Skip(_) | Stage::Sample(_) | Stage::Arrange(_) => Vec::new(),
    })
}

/// Specifications of a stage that parse more often than random ones.
fn stage_spec(name: &str, random: &mut Random) -> Value {
    let operand = |random: &mut Random| operand(random, 1);
    let long = path(*random.pick(&[1, 150, 200, 201]));
    let accumulated = |random: &mut Random| {
        let name = *random.pick(accumulator::NAMES);
        DocBuf::new().with(name, &operand(random))
    };
    Value::Document(match name {
        "$group" => DocBuf::new().with("_id", &operand(random)).with("f", &accumulated(random)),
        "$bucket" => {
            let ends: ArrayBuf = [ValueRef::MinKey, ValueRef::MaxKey].into_iter().collect();
            let output = DocBuf::new().with("f", &accumulated(random));
            DocBuf::new().with("groupBy", &operand(random)).with("boundaries", &ends).with("output", &output)
        }
        "$bucketAuto" => DocBuf::new().with("groupBy", &operand(random)).with("buckets", 2i32),
        "$setWindowFields" => {
            let function = match random.below(2) {
                0 => accumulated(random),
                _ => {
                    let name = *random.pick(stage::WINDOW_FUNCTION_NAMES);
                    DocBuf::new().with(name, &operand(random))
                }
            };
            let output = DocBuf::new().with(&long, &function);
            let by = operand(random);
            DocBuf::new()
                .with("partitionBy", &by)
                .with("sortBy", &DocBuf::new().with("_id", 1i32))
                .with("output", &output)
        }
        "$fill" => {
            let output = DocBuf::new().with(&long, &DocBuf::new().with("value", &operand(random)));
            DocBuf::new().with("output", &output)
        }
        "$densify" => {
            let range = DocBuf::new().with("step", 1i32).with("bounds", "full");
            DocBuf::new().with("field", long.as_str()).with("range", &range)
        }
        "$unwind" => DocBuf::new().with("path", format!("${long}").as_str()).with("includeArrayIndex", long.as_str()),
        "$unset" => return Value::Array([long.as_str()].into_iter().collect()),
        "$sort" => DocBuf::new().with(&long, 1i32),
        "$count" | "$sortByCount" | "$replaceWith" => return operand(random),
        "$replaceRoot" => DocBuf::new().with("newRoot", &operand(random)),
        "$redact" => return Value::String("$$DESCEND".to_owned()),
        _ => match random.below(3) {
            0 => DocBuf::new().with(&long, *random.pick(&[0i32, 1])),
            _ => DocBuf::new().with(&long, &operand(random)),
        },
    })
}

#[test]
fn stages() {
    on_a_small_stack(|| {
        let (mut random, documents) = (Random::new(SEED), documents());
        for name in stage::NAMES {
            for _ in 0..24 {
                let stage = DocBuf::new().with(name, &stage_spec(name, &mut random));
                let pipeline: ArrayBuf = [&stage].into_iter().collect();
                let Ok(stages) = Stage::parse_pipeline(pipeline.as_array(), &Context::new(0)) else { continue };
                for doc in &documents {
                    for stage in &stages {
                        for given in run(stage, doc).unwrap_or_default() {
                            // groups, windows and the like are checked by what runs them
                            let mapped = matches!(stage, Stage::Map(_));
                            assert!(!mapped || is_legal(&given) || !is_legal(doc), "{stage:?}");
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn update_operators() {
    on_a_small_stack(|| {
        let (mut random, documents) = (Random::new(SEED), documents());
        let (each, everything) = (
            DocBuf::new().with("$each", &ArrayBuf::new()),
            Filter::parse(DocBuf::new().as_doc(), &Context::new(0)).unwrap(),
        );
        for name in update::OPERATOR_NAMES {
            for names in [1, 150, STORED_DEPTH_MAX, DEPTH_MAX, DEPTH_MAX + 1, 20_000] {
                for form in 0..8 {
                    let operand = match form {
                        0 => Value::Int32(1),
                        1 => Value::Document(each.clone()),
                        2 => Value::String(path(names + 1).replace('a', "b")),
                        3 => Value::Document(DocBuf::new().with("xor", 1i32)),
                        _ => operand(&mut random, 1),
                    };
                    let prefix = *random.pick(&["", "", "a.$[].", "a.$."]);
                    let operator = DocBuf::new().with(&format!("{prefix}{}", path(names)), &operand);
                    let parsed = Update::parse((&DocBuf::new().with(name, &operator)).into(), &[], &Context::new(0));
                    assert!(names <= DEPTH_MAX || parsed.is_err(), "{name}: {names} names");
                    let Ok(update) = parsed else { continue };
                    for doc in &documents {
                        let deep_before = doc.as_doc().is_deeper_than(STORED_DEPTH_MAX);
                        if let Ok(Some(new)) = update.apply(doc.as_doc(), Some(0)) {
                            let deep = new.as_doc().is_deeper_than(STORED_DEPTH_MAX);
                            assert!(!deep || deep_before, "{name}: {names} names, {operand:?}");
                        }
                    }
                    let upserted = update.new_document(&everything, || arbor_bson::ObjectId([1; 12]));
                    assert!(upserted.is_err() || !upserted.unwrap().as_doc().is_deeper_than(STORED_DEPTH_MAX));
                }
            }
        }
    });
}

#[test]
fn an_upsert_takes_its_paths_from_the_filter() {
    on_a_small_stack(|| {
        let set = DocBuf::new().with("$set", &DocBuf::new().with("z", 1i32));
        let update = Update::parse((&set).into(), &[], &Context::new(0)).unwrap();
        let upsert = |names| {
            let filter = Filter::parse(DocBuf::new().with(&path(names), 1i32).as_doc(), &Context::new(0))?;
            update.new_document(&filter, || arbor_bson::ObjectId([1; 12]))
        };
        assert!(upsert(STORED_DEPTH_MAX).is_ok());
        for names in [STORED_DEPTH_MAX + 1, DEPTH_MAX, DEPTH_MAX + 1, 2000, 100_000] {
            assert_eq!(upsert(names).unwrap_err().code, Code::OVERFLOW);
        }
    });
}

#[test]
fn filters_projections_and_sorts() {
    on_a_small_stack(|| {
        let (mut random, documents) = (Random::new(SEED), documents());
        let everything = Filter::parse(DocBuf::new().as_doc(), &Context::new(0)).unwrap();
        for name in FILTER_OPERATORS {
            for names in [1, 150, DEPTH_MAX, DEPTH_MAX + 1, 100_000] {
                for form in 0..5 {
                    let operand = if form == 0 { Value::Int32(1) } else { operand(&mut random, 2) };
                    let field = DocBuf::new().with(&path(names), &DocBuf::new().with(name, &operand));
                    let filter = Filter::parse(field.as_doc(), &Context::new(0));
                    assert!(names <= DEPTH_MAX || filter.is_err(), "{name}: {names} names");
                    let whole = Filter::parse(DocBuf::new().with(name, &operand).as_doc(), &Context::new(0));
                    for filter in filter.into_iter().chain(whole) {
                        documents.iter().for_each(|doc| drop(filter.matches(doc.as_doc())));
                    }
                }
            }
        }
        for names in [1, 150, DEPTH_MAX, DEPTH_MAX + 1, 100_000] {
            let (slice, computed) = (DocBuf::new().with("$slice", 1i32), building(150));
            for shown in [ValueRef::Int32(1), ValueRef::Int32(0), "$a".into(), (&slice).into(), (&computed).into()] {
                for kind in [ProjectionKind::Find, ProjectionKind::Aggregate] {
                    let spec = DocBuf::new().with(&path(names), shown);
                    let projection = Projection::parse(spec.as_doc(), kind, Some(&everything), &Context::new(0));
                    assert!(names <= DEPTH_MAX || projection.is_err(), "{names} names");
                    let Ok(projection) = projection else { continue };
                    for doc in &documents {
                        if let Ok(shown) = projection.apply(doc.as_doc(), Some(0)) {
                            assert!(is_legal(&shown) || !is_legal(doc));
                        }
                    }
                }
            }
            let order = SortPattern::parse(DocBuf::new().with(&path(names), 1i32).as_doc(), &Context::new(0));
            assert_eq!(order.is_ok(), names <= DEPTH_MAX);
            if let Ok(order) = order {
                documents.iter().for_each(|doc| drop(order.key(doc.as_doc())));
            }
        }
    });
}

#[test]
fn hashes() {
    on_a_small_stack(|| {
        let deep = |levels, in_arrays| hash_of(nested(levels, in_arrays).as_ref());
        assert_ne!(deep(20_000, false), deep(20_001, false));
        assert_ne!(deep(20_000, true), deep(20_000, false));
    });
}
