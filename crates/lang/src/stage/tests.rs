//! Table-style checks: pipeline, documents, results.

use arbor_bson::{ArrayBuf, Doc, DocBuf, Value, ValueRef};

use super::*;
use crate::notation::{read, show, value};

/// Runs a stage over documents, as `query` does, without its care for memory.
fn run(stage: &Stage, input: Vec<DocBuf>) -> Result<Vec<DocBuf>> {
    Ok(match stage {
        Stage::Match(filter) => input.into_iter().filter(|doc| filter.matches(doc.as_doc()).unwrap()).collect(),
        Stage::Map(map) => input.iter().map(|doc| map.apply(doc.as_doc())).collect::<Result<_>>()?,
        Stage::Group(group) => {
            let mut state = GroupState::new(group);
            input.iter().try_for_each(|doc| state.add(doc.as_doc()))?;
            state.finish()?.collect()
        }
        Stage::Sort(pattern) => {
            let mut sorted = input;
            sorted.sort_by(|a, b| pattern.compare(a.as_doc(), b.as_doc()));
            sorted
        }
        Stage::Limit(n) | Stage::Sample(n) => input.into_iter().take(*n as usize).collect(),
        Stage::Skip(n) => input.into_iter().skip(*n as usize).collect(),
        Stage::Arrange(arrange) => {
            let mut keyed: Vec<(Vec<u8>, DocBuf)> =
                input.into_iter().map(|doc| Ok((arrange.key(doc.as_doc())?, doc))).collect::<Result<_>>()?;
            keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
            keyed.into_iter().map(|(_, doc)| doc).collect()
        }
        Stage::Flow(stage) => run_flow(&**stage, input)?,
        Stage::Unwind(unwind) => {
            let mut out = Vec::new();
            for doc in &input {
                match unwind.split(doc.as_doc()) {
                    Unwound::One(one) => out.extend(one),
                    Unwound::Each(elements) => {
                        let unwound = elements.iter().enumerate();
                        out.extend(unwound.map(|(at, element)| unwind.with_element(doc.as_doc(), at, element)));
                    }
                }
            }
            out
        }
    })
}

fn run_flow(stage: &dyn FlowStage, input: Vec<DocBuf>) -> Result<Vec<DocBuf>> {
    let (mut flow, mut out) = (stage.start(), Vec::new());
    flow.expect(input.len() as u64);
    for doc in input {
        flow.feed(doc)?;
        while let Some(doc) = flow.next()? {
            out.push(doc);
        }
    }
    flow.end()?;
    while let Some(doc) = flow.next()? {
        out.push(doc);
    }
    Ok(out)
}

/// Lines of `<pipeline> on <documents> => <documents>` or `... => error <code>: <text>`.
fn check(table: &str) {
    let lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
    let failures: Vec<String> = lines.filter_map(|line| try_line(line).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// `$documents`, which `query` reads, gives the input of a pipeline that begins with it.
fn documents_of(pipeline: &ArrayBuf, context: &Context) -> Option<Result<(Vec<DocBuf>, ArrayBuf)>> {
    let Some(ValueRef::Document(first)) = pipeline.as_array().get(0) else { return None };
    let spec = first.get("$documents")?;
    let rest: ArrayBuf = pipeline.as_array().iter().skip(1).collect();
    Some(documents::parse(spec, context).map(|documents| (documents, rest)))
}

/// Returns what failed.
pub(super) fn try_line(line: &str) -> std::result::Result<(), String> {
    let (pipeline, rest) = read(line);
    let Value::Array(pipeline) = pipeline else { panic!("{line}") };
    let (documents, expect) = match rest.strip_prefix("on ") {
        Some(rest) => read(rest),
        None => (ArrayBuf::new().into(), rest),
    };
    let Value::Array(documents) = documents else { panic!("{line}") };
    let as_doc = |value: ValueRef| match value {
        ValueRef::Document(doc) => doc.to_buf(),
        _ => Doc::empty().to_buf(),
    };
    let context = Context::default();
    let input: Vec<DocBuf> = documents.as_array().iter().map(as_doc).collect();
    let begun = documents_of(&pipeline, &context).unwrap_or(Ok((input, pipeline)));
    let result = begun.and_then(|(input, pipeline)| {
        let stages = Stage::parse_pipeline(pipeline.as_array(), &context)?;
        stages.iter().try_fold(input, |input, stage| run(stage, input))
    });
    let shown = match result {
        Ok(documents) => show((&documents.iter().collect::<ArrayBuf>()).into()),
        Err(error) => format!("error {}: {}", error.code.0, error.message),
    };
    let expect = expect.strip_prefix("=> ").unwrap_or_else(|| panic!("no => in {line}"));
    let expect = if expect.starts_with("error") { expect.to_owned() } else { show(value(expect).as_ref()) };
    if shown == expect { Ok(()) } else { Err(format!("{line}\n    gives {shown}")) }
}

#[test]
fn maps() {
    check(
        r#"
        [{$match: {a: 1}}] on [{a: 1}, {a: 2}] => [{a: 1}]
        [{$project: {a: 1, _id: 0}}] on [{_id: 1, a: 1, b: 1}] => [{a: 1}]
        [{$addFields: {b: {$add: ['$a', 1]}, 'c.d': 5}}] on [{a: 1, c: {e: 1}}] => [{a: 1, c: {e: 1, d: 5}, b: 2}]
        [{$set: {a: '$b'}}] on [{a: 1, b: 2}] => [{a: 2, b: 2}]
        [{$set: {a: '$$REMOVE'}}] on [{a: 1, b: 2}] => [{b: 2}]
        [{$set: {'a.x': 1}}] on [{a: [{y: 1}, 5, [{}]]}] => [{a: [{y: 1, x: 1}, {x: 1}, [{x: 1}]]}]
        [{$set: {a: {b: 1}}}] on [{a: {c: 2}}] => [{a: {c: 2, b: 1}}]
        [{$set: {a: {}}}] on [{a: 1}] => [{a: {}}]
        [{$unset: ['a', 'b.c']}] on [{a: 1, b: {c: 1, d: 2}}] => [{b: {d: 2}}]
        [{$unset: 'a'}] on [{a: 1}] => [{}]
        [{$replaceRoot: {newRoot: '$a'}}] on [{a: {b: 1}}] => [{b: 1}]
        [{$replaceWith: {$mergeObjects: ['$a', {c: 1}]}}] on [{a: {b: 1}}] => [{b: 1, c: 1}]
        [{$replaceWith: '$a'}] on [{a: 1}] => error 40228: 'replacement document' must evaluate to an object, but resulting value was: 1. Type of resulting value: 'int'. Input document: { a: 1 }
        [{$match: 1}] => error 15959: the match filter must be an expression in an object
        [{$project: 1}] => error 15969: $project specification must be an object
        [{$project: {}}] => error 51272: Invalid $project :: caused by :: projection specification must have at least one field
        [{$project: {a: 1, b: 0}}] => error 31254: Invalid $project :: caused by :: Cannot do exclusion on field b in inclusion projection
        [{$set: {a: 1, 'a.b': 1}}] => error 40176: Invalid $set :: caused by :: Path collision at a.b remaining portion b
        [{$addFields: 1}] => error 40272: $addFields specification stage must be an object, got int
        [{$unset: []}] => error 31119: $unset specification must be a string or an array with at least one field
        [{$unset: [1]}] => error 31120: $unset specification must be a string or an array containing only string values
        [{$replaceRoot: 1}] => error 40229: expected an object as specification for $replaceRoot stage, got int
        "#,
    );
}

#[test]
fn groups() {
    check(
        r#"
        [{$group: {_id: '$a', n: {$sum: 1}, v: {$push: '$b'}}}] on [{a: 1, b: 1}, {a: 'x', b: 2}, {a: 1.0, b: 3}] => [{_id: 1, n: 2, v: [1, 3]}, {_id: 'x', n: 1, v: [2]}]
        [{$group: {_id: null, s: {$sum: '$a'}}}] on [{a: 1}, {a: 2}] => [{_id: null, s: 3}]
        [{$group: {_id: null, s: {$sum: '$a'}}}] on [] => []
        [{$group: {_id: '$a'}}] on [{}, {a: null}] => [{_id: null}]
        [{$group: {_id: {x: '$a', y: '$b'}}}] on [{a: 1, b: 2}, {a: 1}] => [{_id: {x: 1, y: 2}}, {_id: {x: 1}}]
        [{$count: 'n'}] on [{}, {}] => [{n: 2}]
        [{$count: 'n'}] on [] => []
        [{$sortByCount: '$a'}] on [{a: 1}, {a: 2}, {a: 2}] => [{_id: 2, count: 2}, {_id: 1, count: 1}]
        [{$group: 1}] => error 15947: a group's fields must be specified in an object
        [{$group: {a: {$sum: 1}}}] => error 15955: a group specification must include an _id
        [{$group: {_id: 1, 'a.b': {$sum: 1}}}] => error 40235: The field name 'a.b' cannot contain '.'
        [{$group: {_id: 1, a: 1}}] => error 40234: The field 'a' must be an accumulator object
        [{$count: 'a.b'}] => error 40160: the count field cannot contain '.'
        [{$count: 1}] => error 40156: the count field must be a non-empty string
        [{$sortByCount: 'a'}] => error 40148: the sortByCount field must be defined as a $-prefixed path
        "#,
    );
}

#[test]
fn order_and_amount() {
    check(
        r#"
        [{$sort: {a: -1}}, {$skip: 1}, {$limit: 1}] on [{a: 1}, {a: 3}, {a: 2}] => [{a: 2}]
        [{$limit: 0}] => error 15958: the limit must be positive
        [{$limit: 'x'}] => error 5107201: invalid argument to $limit stage: Expected a number in: $limit: "x"
        [{$skip: -1}] => error 5107200: invalid argument to $skip stage: Expected a non-negative number in: $skip: -1
        [{$skip: 1.5}] => error 5107200: invalid argument to $skip stage: Expected an integer: $skip: 1.5
        [{$sort: {}}] => error 15976: $sort stage must have at least one sort key
        [{$sort: 1}] => error 15973: the $sort key specification must be an object
        [{$sample: {size: 'x'}}] => error 28746: size argument to $sample must be a number
        [{$sample: {}}] => error 28749: $sample stage must specify a size
        [1] => error 14: Each element of the 'pipeline' array must be an object
        [{}] => error 40323: A pipeline stage specification object must contain exactly one field.
        [{$foo: 1}] => error 40324: Unrecognized pipeline stage name: '$foo'
        [{$lookup: {}}] => error 238: $lookup is not supported by this server yet
        "#,
    );
}

#[test]
fn unwinds() {
    check(
        r#"
        [{$unwind: '$a'}] on [{x: 1, a: [1, 2], y: 2}] => [{x: 1, a: 1, y: 2}, {x: 1, a: 2, y: 2}]
        [{$unwind: '$a'}] on [{a: []}, {a: null}, {}, {a: 5}] => [{a: 5}]
        [{$unwind: {path: '$a', preserveNullAndEmptyArrays: true}}] on [{b: 1, a: []}, {a: null}, {c: 1}] => [{b: 1}, {a: null}, {c: 1}]
        [{$unwind: {path: '$a.b', includeArrayIndex: 'i'}}] on [{a: {b: ['x', 'y']}}] => [{a: {b: 'x'}, i: Long(0)}, {a: {b: 'y'}, i: Long(1)}]
        [{$unwind: {path: '$a', includeArrayIndex: 'i'}}] on [{a: 5}] => [{a: 5, i: null}]
        [{$unwind: '$a.b'}] on [{a: [{b: [1]}]}] => []
        [{$unwind: 1}] => error 15981: expected either a string or an object as specification for $unwind stage, got int
        [{$unwind: 'a'}] => error 28818: path option to $unwind stage should be prefixed with a '$': a
        [{$unwind: {}}] => error 28812: no path specified to $unwind stage
        [{$unwind: {path: '$a', x: 1}}] => error 28811: unrecognized option to $unwind stage: x
        [{$unwind: {path: 1}}] => error 28808: expected a string as the path for $unwind stage, got int
        [{$unwind: {path: '$a', includeArrayIndex: '$i'}}] => error 28822: includeArrayIndex option to $unwind stage should not be prefixed with a '$': $i
        "#,
    );
}

#[test]
fn names_that_are_known_are_those_that_parse() {
    let context = Context::new(0);
    for name in super::NAMES.iter().chain(super::ELSEWHERE).chain(super::LATER) {
        let pipeline: ArrayBuf = [&DocBuf::new().with(name, ValueRef::Undefined)].into_iter().collect();
        Stage::check_names(pipeline.as_array()).unwrap();
        let parsed = Stage::parse_pipeline(pipeline.as_array(), &context);
        assert!(!matches!(parsed, Err(error) if error.code == crate::Code(40324)), "{name}");
    }
    let pipeline: ArrayBuf = [&DocBuf::new().with("$nope", 1i32)].into_iter().collect();
    let error = Stage::check_names(pipeline.as_array()).unwrap_err();
    assert_eq!(error.message, "Unrecognized pipeline stage name: '$nope'");
}
