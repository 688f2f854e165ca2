//! The examples in the doc blocks of the operators are tests.
//!
//! A block ```` ```text ```` holds lines `<expression> => <value>`, `<expression> on <document> => <value>` (`missing` is
//! no value), or `... => error <code>: <text>`.

use std::path::PathBuf;

use super::Expression;
use crate::Context;
use crate::notation::{read, show};
use arbor_bson::{Doc, Value, ValueRef};

/// Runs the example lines of a text; returns how many there were and what failed.
pub(super) fn run(text: &str) -> (usize, Vec<String>) {
    let lines = text.lines().map(str::trim).filter(|line| line.contains(" => "));
    let results: Vec<_> = lines.map(check).collect();
    (results.len(), results.into_iter().filter_map(Result::err).collect())
}

fn check(line: &str) -> Result<(), String> {
    let (expression, rest) = read(line);
    let (document, expect) = match rest.strip_prefix("on ") {
        Some(rest) => {
            let (document, rest) = read(rest);
            (Some(document), rest)
        }
        None => (None, rest),
    };
    let expect = expect.strip_prefix("=> ").unwrap_or_else(|| panic!("no => in {line}"));
    let root = match &document {
        Some(Value::Document(doc)) => doc.as_doc(),
        _ => Doc::empty(),
    };
    let context = Context::new(1_600_000_000_000);
    let result = Expression::parse(expression.as_ref(), &context).and_then(|expression| expression.eval(root));
    let shown = match result {
        Ok(None) => "missing".to_owned(),
        Ok(Some(value)) => show(value.as_ref()),
        Err(error) => format!("error {}: {}", error.code.0, error.message),
    };
    let verbatim = expect == "missing" || expect.starts_with("error ");
    let expect = if verbatim { expect.to_owned() } else { show(read(expect).0.as_ref()) };
    if shown == expect { Ok(()) } else { Err(format!("{line}\n    gives {shown}")) }
}

#[test]
fn every_operator_has_examples_that_hold() {
    let directory = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("src/expression/op");
    let mut failures = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if name == "mod" {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let docs: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("//! ")).collect();
        let (count, failed) = run(&docs.join("\n"));
        if count == 0 {
            failures.push(format!("{name} has no example"));
        }
        failures.extend(failed);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn deep_expressions_stay_on_the_stack() {
    let mut nested = crate::notation::doc("{$not: ['$a']}");
    for _ in 0..150 {
        nested = arbor_bson::DocBuf::new().with(
            "$cond",
            &[ValueRef::from(&nested), 1.into(), 2.into()].into_iter().collect::<arbor_bson::ArrayBuf>(),
        );
    }
    let parsed = Expression::parse((&nested).into(), &Context::default()).unwrap();
    assert!(matches!(parsed.eval(Doc::empty()), Ok(Some(Value::Int32(1)))));
    for _ in 0..40 {
        nested = arbor_bson::DocBuf::new()
            .with("$not", &[ValueRef::from(&nested)].into_iter().collect::<arbor_bson::ArrayBuf>());
    }
    assert_eq!(Expression::parse((&nested).into(), &Context::default()).unwrap_err().code.0, 15);
}

#[test]
fn variables_of_the_command() {
    let context = Context::new(5).with_let(crate::notation::doc("{x: {$add: [1, 2]}, y: '$$x'}").as_doc()).unwrap();
    let value = crate::notation::value("['$$x', '$$y', '$$NOW', {$let: {vars: {x: 9}, in: '$$x'}}]");
    let result = Expression::parse(value.as_ref(), &context).unwrap().eval(Doc::empty()).unwrap().unwrap();
    assert_eq!(show(result.as_ref()), "[3, 3, Date(5), 9]");
    for (variables, code) in [
        ("{x: '$a'}", 4890500),
        ("{X: 1}", 9),
        ("{NOW: 1}", 4738901),
        ("{x: '$$NOW'}", 51144),
        ("{x: '$$nope'}", 17276),
    ] {
        assert_eq!(Context::new(0).with_let(crate::notation::doc(variables).as_doc()).unwrap_err().code.0, code);
    }
}

#[test]
fn the_language() {
    let (_, failures) = run(r#"
        1 => 1
        "x" => "x"
        "$a" on {a: 5} => 5
        "$a" on {} => missing
        "$a.b" on {a: {b: 5}} => 5
        "$a.b" on {a: [{b: 1}, {c: 2}, 3, {b: 4}]} => [1, 4]
        "$a.b" on {a: [[{b: 1}], {b: 2}]} => [2]
        "$a.b" on {a: 5} => missing
        "$a.0" on {a: [7]} => []
        "$$ROOT" on {a: 5} => {a: 5}
        "$$ROOT.a" on {a: 5} => 5
        "$$CURRENT.a" on {a: 5} => 5
        "$$REMOVE" => missing
        "$$NOW" => Date(1600000000000)
        {} => {}
        {x: "$a", y: {z: "$b"}} on {a: 1} => {x: 1, y: {}}
        ["$a", "$b"] on {a: 1} => [1, null]
        "$" => error 16872: '$' by itself is not a valid FieldPath
        "$a." => error 40353: FieldPath must not end with a '.'.
        "$a..b" => error 15998: FieldPath field names may not be empty strings.
        "$$nope" => error 17276: Use of undefined variable: nope
        "$$" => error 9: empty variable names are not allowed
        {$foo: 1} => error 168: Unrecognized expression '$foo'
        {$add: 1, $abs: 2} => error 15983: an expression specification must contain exactly one field, the name of the expression. Found 2 fields in { $add: 1, $abs: 2 }
        {'a.b': 1} => error 16412: FieldPath field names may not contain '.'. Consider using $getField or $setField.
        {$abs: [1, 2]} => error 16020: Expression $abs takes exactly 1 arguments. 2 were passed in.
        {$eq: [1]} => error 16020: Expression $eq takes exactly 2 arguments. 1 were passed in.
        "#);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
