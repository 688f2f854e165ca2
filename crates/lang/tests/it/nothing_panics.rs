//! Whatever a client sends is answered with a value or an error: random filters, expressions, projections and stages,
//! built from all operators and edge values, are parsed and run over random documents.

use arbor_bson::{ArrayBuf, Doc, DocBuf, Value, ValueRef};
use arbor_lang::accumulator::Accumulator;
use arbor_lang::expression::operator_names;
use arbor_lang::projection::ProjectionKind;
use arbor_lang::stage::{FlowStage, GroupState, Unwound};
use arbor_lang::{Context, Expression, Filter, Projection, SortPattern, Stage};

use crate::random::{FILTER_OPERATORS, Random, SEED, document, scalar, value};

const STAGES: [&str; 22] = [
    "$bucket",
    "$bucketAuto",
    "$densify",
    "$fill",
    "$redact",
    "$setWindowFields",
    "$match",
    "$project",
    "$addFields",
    "$set",
    "$unset",
    "$group",
    "$sort",
    "$limit",
    "$skip",
    "$unwind",
    "$count",
    "$replaceRoot",
    "$replaceWith",
    "$sortByCount",
    "$sample",
    "$lookup",
];
const ACCUMULATORS: [&str; 19] = [
    "$median",
    "$percentile",
    "$sum",
    "$avg",
    "$min",
    "$max",
    "$first",
    "$last",
    "$push",
    "$addToSet",
    "$count",
    "$mergeObjects",
    "$stdDevPop",
    "$stdDevSamp",
    "$firstN",
    "$maxN",
    "$top",
    "$bottomN",
    "$foo",
];

#[test]
fn expressions() {
    let operators: Vec<&str> = operator_names().collect();
    let mut random = Random::new(SEED);
    let context = Context::new(1_600_000_000_000);
    let mut answered = 0;
    for _ in 0..60_000 {
        let name = *random.pick(&operators);
        let spec = DocBuf::new().with(name, &value(&mut random, 3, &operators));
        let Ok(expression) = Expression::parse((&spec).into(), &context) else { continue };
        for _ in 0..2 {
            let doc = document(&mut random, 3, &[]);
            answered += usize::from(expression.eval(doc.as_doc()).is_ok());
        }
        expression.dependencies();
    }
    assert!(answered > 1000, "only {answered} evaluations gave a value: the generator no longer reaches the operators");
}

#[test]
fn filters() {
    let mut random = Random::new(SEED);
    let mut matched = 0;
    for _ in 0..40_000 {
        let mut spec = document(&mut random, 4, &FILTER_OPERATORS);
        if random.below(2) == 0 {
            spec = DocBuf::new().with("a", &document(&mut random, 3, &FILTER_OPERATORS));
        }
        let Ok(filter) = Filter::parse(spec.as_doc(), &Context::default()) else { continue };
        for _ in 0..3 {
            let doc = document(&mut random, 3, &[]);
            matched += usize::from(filter.matches(doc.as_doc()).unwrap_or(false));
        }
    }
    assert!(matched > 1000, "only {matched} matches");
}

#[test]
fn projections_and_sorts() {
    let mut random = Random::new(SEED);
    let everything = Filter::parse(Doc::empty(), &Context::default()).unwrap();
    for _ in 0..20_000 {
        let spec = document(&mut random, 3, &["$slice", "$elemMatch", "$add", "$meta", "a.$"]);
        let kind = *random.pick(&[ProjectionKind::Find, ProjectionKind::Aggregate]);
        let doc = document(&mut random, 3, &[]);
        if let Ok(projection) = Projection::parse(spec.as_doc(), kind, Some(&everything), &Context::default()) {
            let position = *random.pick(&[None, Some(0), Some(9)]);
            if let Ok(shown) = projection.apply(doc.as_doc(), position) {
                Doc::parse(shown.as_bytes()).unwrap();
            }
        }
        if let Ok(pattern) = SortPattern::parse(spec.as_doc(), &Context::new(0)) {
            let _key = pattern.key(doc.as_doc());
        }
    }
}

#[test]
fn pipelines() {
    let mut random = Random::new(SEED);
    for _ in 0..20_000 {
        let name = *random.pick(&STAGES);
        let stage = DocBuf::new().with(name, &value(&mut random, 3, &["$add", "$sum", "$first", "$eq", "$gt"]));
        let pipeline: ArrayBuf = [&stage].into_iter().collect();
        let Ok(stages) = Stage::parse_pipeline(pipeline.as_array(), &Context::default()) else { continue };
        let doc = document(&mut random, 3, &[]);
        for stage in &stages {
            match stage {
                Stage::Map(map) => drop(map.apply(doc.as_doc())),
                Stage::Unwind(unwind) => {
                    if let Unwound::Each(elements) = unwind.split(doc.as_doc()) {
                        let made = elements
                            .iter()
                            .enumerate()
                            .map(|(at, element)| unwind.with_element(doc.as_doc(), at, element));
                        drop(made.collect::<Vec<_>>());
                    }
                }
                Stage::Group(group) => drop(GroupState::new(group).add(doc.as_doc())),
                _ => {}
            }
        }
    }
}

/// A pipeline that parses more often than a random one: the shapes are right, the values are not.
fn shaped(random: &mut Random) -> DocBuf {
    let field = |random: &mut Random| *random.pick(&["$a", "$b", "$a.b", "$_id"]);
    let doc = |pairs: &[(&str, &Value)]| pairs.iter().map(|(name, value)| (*name, value.as_ref())).collect::<DocBuf>();
    let edge = |random: &mut Random| match random.below(4) {
        0 => Value::String("unbounded".to_owned()),
        1 => Value::String("current".to_owned()),
        _ => scalar(random),
    };
    let path: Value = Value::String(field(random).to_owned());
    let (one, other, third) = (scalar(random), scalar(random), scalar(random));
    let edges: ArrayBuf = [edge(random), edge(random)].iter().collect();
    let (kind, unit) = (*random.pick(&["documents", "range"]), *random.pick(&["day", "month", "millisecond", "year"]));
    let mut bounds = DocBuf::new().with(kind, &edges);
    if kind == "range" && random.below(2) == 0 {
        bounds.append("unit", unit);
    }
    match random.below(4) {
        0 => {
            let granularity = Value::String(random.pick(&["R5", "E192", "1-2-5", "POWERSOF2"]).to_string());
            let spec = doc(&[("groupBy", &path), ("buckets", &Value::Int32(1 + random.below(4) as i32))]);
            let spec = if random.below(2) == 0 { spec.with("granularity", &granularity) } else { spec };
            DocBuf::new().with("$bucketAuto", &spec)
        }
        1 => {
            let ends: ArrayBuf = [&one, &other].into_iter().collect();
            let mut range = doc(&[("step", &third)]).with("bounds", &ends);
            if random.below(2) == 0 {
                range = DocBuf::new().with("step", *random.pick(&[1.0, 7.0, 0.25])).with("bounds", "full");
            }
            if random.below(2) == 0 {
                range.append("unit", unit);
            }
            DocBuf::new().with("$densify", &DocBuf::new().with("field", "a").with("range", &range))
        }
        2 => {
            let method = DocBuf::new().with("method", *random.pick(&["linear", "locf"]));
            let output = DocBuf::new().with("b", &method).with("c", &DocBuf::new().with("value", &one));
            let spec = DocBuf::new().with("sortBy", &DocBuf::new().with("a", 1)).with("output", &output);
            DocBuf::new().with("$fill", &spec)
        }
        _ => {
            let input = DocBuf::new().with("input", path.as_ref());
            let pair: ArrayBuf = [field(random), field(random)].into_iter().collect();
            let shift = input.clone();
            let (name, argument): (&str, Value) = match random.below(9) {
                0 => ("$sum", path.clone()),
                1 => ("$push", path.clone()),
                2 => ("$derivative", Value::Document(input)),
                3 => ("$integral", Value::Document(input.with("unit", unit))),
                4 => ("$expMovingAvg", Value::Document(shift.with("N", &one))),
                5 => ("$covarianceSamp", Value::Array(pair)),
                6 => ("$shift", Value::Document(DocBuf::new().with("output", path.as_ref()).with("by", &one))),
                7 => ("$linearFill", path.clone()),
                _ => ("$stdDevPop", path.clone()),
            };
            let mut function = DocBuf::new().with(name, &argument);
            if matches!(name, "$sum" | "$push" | "$derivative" | "$integral" | "$covarianceSamp" | "$stdDevPop") {
                function.append("window", &bounds);
            }
            let order = DocBuf::new().with("a", 1);
            let spec = DocBuf::new().with("sortBy", &order).with("output", &DocBuf::new().with("f", &function));
            DocBuf::new().with("$setWindowFields", &spec)
        }
    }
}

/// Returns how many documents came out.
fn run_flow(stage: &dyn FlowStage, input: &[DocBuf]) -> Result<usize, arbor_lang::Error> {
    let (mut flow, mut count) = (stage.start(), 0);
    flow.expect(input.len() as u64);
    for doc in input {
        flow.feed(doc.clone())?;
        while count < 5000 && flow.next()?.is_some() {
            count += 1;
        }
        flow.size_bytes();
    }
    flow.end()?;
    while count < 5000 && flow.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}

#[test]
fn flows() {
    let mut random = Random::new(SEED);
    let (mut parsed, mut given) = (0, 0);
    for _ in 0..20_000 {
        let stage = shaped(&mut random);
        let pipeline: ArrayBuf = [&stage].into_iter().collect();
        let Ok(stages) = Stage::parse_pipeline(pipeline.as_array(), &Context::default()) else { continue };
        parsed += 1;
        let plain = random.below(3) > 0;
        let number = |random: &mut Random, n: usize| {
            let date = random.below(2) == 0;
            let a = if date { Value::DateTime(n as i64 * 3_600_000) } else { Value::Int32(n as i32) };
            DocBuf::new().with("a", &a).with("b", &scalar(random)).with("_id", n as i32)
        };
        let docs: Vec<DocBuf> =
            (0..5).map(|n| if plain { number(&mut random, n) } else { document(&mut random, 2, &[]) }).collect();
        for stage in &stages {
            if let Stage::Flow(flow) = stage {
                given += run_flow(&**flow, &docs).unwrap_or(0);
            }
        }
    }
    assert!(parsed > 5000 && given > 5000, "{parsed} parsed, {given} documents: the shapes are no longer right");
}

#[test]
fn accumulators() {
    let mut random = Random::new(SEED);
    for _ in 0..20_000 {
        let name = *random.pick(&ACCUMULATORS);
        let spec = DocBuf::new().with(name, &value(&mut random, 2, &[]));
        let Ok(accumulator) = Accumulator::parse("f", ValueRef::from(&spec), &Context::default()) else { continue };
        let mut state = accumulator.start();
        for _ in 0..4 {
            let doc = document(&mut random, 2, &[]);
            let _ = accumulator.add(&mut *state, doc.as_doc());
        }
        state.size_bytes();
        state.finish();
    }
}
