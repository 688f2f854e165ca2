//! Table-style checks: schema, value, result.

use super::*;
use crate::notation::{doc, read, show};

/// Lines of `<schema> on <document> => true|false`, `<schema> on <document> => <failures>` or `<schema> => error <code>:
/// <text>`.
fn check(table: &str) {
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (schema, rest) = read(line);
        let parsed = Schema::parse(schema.as_ref());
        if let Some(expect) = rest.strip_prefix("=> error ") {
            let error = parsed.expect_err(line);
            assert_eq!(format!("{}: {}", error.code.0, error.message), expect, "{line}");
            continue;
        }
        let parsed = parsed.unwrap_or_else(|error| panic!("{line}: {error}"));
        let (value, rest) = read(rest.strip_prefix("on ").unwrap_or_else(|| panic!("no document: {line}")));
        let matched = parsed.matches(value.as_ref()).unwrap();
        let failures = parsed.failures(value.as_ref()).unwrap();
        assert_eq!(matched, failures.is_empty(), "{line}: {failures:?}");
        match rest.strip_prefix("=> ").unwrap_or_else(|| panic!("no answer: {line}")) {
            "true" => assert!(matched, "{line}: {failures:?}"),
            "false" => assert!(!matched, "{line}"),
            expect => assert_eq!(show((&failures).into()), show(read(expect).0.as_ref()), "{line}"),
        }
    }
}

#[test]
fn numbers_and_strings() {
    check(
        r#"
        {} on {a: 1} => true
        {properties: {a: {minimum: 3}}} on {a: 3} => true
        {properties: {a: {minimum: 3}}} on {a: 2.5} => false
        {properties: {a: {minimum: 3}}} on {a: 'x'} => true
        {properties: {a: {minimum: 3}}} on {} => true
        {properties: {a: {minimum: 3, exclusiveMinimum: true}}} on {a: 3} => false
        {properties: {a: {maximum: 3, exclusiveMaximum: false}}} on {a: Long(3)} => true
        {properties: {a: {maximum: 3}}} on {a: Decimal("3.1")} => false
        {properties: {a: {multipleOf: 3}}} on {a: 9} => true
        {properties: {a: {multipleOf: 3}}} on {a: 10} => false
        {properties: {a: {multipleOf: 0.1}}} on {a: 0.3} => true
        {properties: {a: {minLength: 2, maxLength: 3}}} on {a: 'éé'} => true
        {properties: {a: {minLength: 2}}} on {a: 'é'} => false
        {properties: {a: {maxLength: 2}}} on {a: 'abc'} => false
        {properties: {a: {pattern: '^S'}}} on {a: 'So'} => true
        {properties: {a: {pattern: '^S'}}} on {a: 'xSo'} => false
        {properties: {a: {pattern: '^S'}}} on {a: 5} => true
        {properties: {a: {enum: [1, 'x', null, {a: 1, b: 2}]}}} on {a: {b: 2, a: 1.0}} => true
        {properties: {a: {enum: [1, 'x']}}} on {a: 2} => false
        "#,
    );
}

#[test]
fn types() {
    check(
        r#"
        {properties: {a: {bsonType: 'int'}}} on {a: 1} => true
        {properties: {a: {bsonType: 'int'}}} on {a: Long(1)} => false
        {properties: {a: {bsonType: ['int', 'null']}}} on {a: null} => true
        {properties: {a: {bsonType: 'number'}}} on {a: 1.5} => true
        {properties: {a: {type: 'number'}}} on {a: Decimal("1")} => true
        {properties: {a: {type: 'boolean'}}} on {a: true} => true
        {properties: {a: {type: ['string', 'null']}}} on {a: 1} => false
        {type: 'object'} on {a: 1} => true
        {bsonType: 'array'} on {a: 1} => false
        {properties: {a: {bsonType: 'string'}}} on {a: ['x']} => false
        "#,
    );
}

#[test]
fn arrays() {
    check(
        r#"
        {properties: {a: {minItems: 1, maxItems: 2}}} on {a: [1, 2]} => true
        {properties: {a: {minItems: 1}}} on {a: []} => false
        {properties: {a: {maxItems: 2}}} on {a: [1, 2, 3]} => false
        {properties: {a: {uniqueItems: true}}} on {a: [1, 2, 1.0]} => false
        {properties: {a: {uniqueItems: true}}} on {a: [{a: 1, b: 1}, {b: 1, a: 1}]} => false
        {properties: {a: {uniqueItems: true}}} on {a: [[1, 2], [2, 1]]} => true
        {properties: {a: {uniqueItems: false}}} on {a: [1, 1]} => true
        {properties: {a: {items: {bsonType: 'int'}}}} on {a: [1, 2]} => true
        {properties: {a: {items: {bsonType: 'int'}}}} on {a: [1, 'x']} => false
        {properties: {a: {items: {bsonType: 'int'}}}} on {a: 'x'} => true
        {properties: {a: {items: [{bsonType: 'int'}, {bsonType: 'string'}]}}} on {a: [1, 'x', null]} => true
        {properties: {a: {items: [{bsonType: 'int'}, {bsonType: 'string'}]}}} on {a: [1, 2]} => false
        {properties: {a: {items: [{}], additionalItems: false}}} on {a: [1]} => true
        {properties: {a: {items: [{}], additionalItems: false}}} on {a: [1, 2]} => false
        {properties: {a: {items: [{}], additionalItems: {minimum: 5}}}} on {a: [1, 6]} => true
        {properties: {a: {items: [{}], additionalItems: {minimum: 5}}}} on {a: [1, 4]} => false
        {properties: {a: {items: {}, additionalItems: false}}} on {a: [1, 4]} => true
        "#,
    );
}

#[test]
fn objects() {
    check(
        r#"
        {required: ['a', 'b']} on {a: 1, b: null} => true
        {required: ['a', 'b']} on {a: 1} => false
        {properties: {a: {required: ['b']}}} on {a: {b: 1}} => true
        {properties: {a: {required: ['b']}}} on {a: 5} => true
        {properties: {a: {properties: {b: {minimum: 1}}}}} on {a: {b: 0}} => false
        {properties: {a: {}}, additionalProperties: false} on {a: 1} => true
        {properties: {a: {}}, additionalProperties: false} on {a: 1, b: 2} => false
        {properties: {a: {}}, patternProperties: {'^x': {}}, additionalProperties: false} on {a: 1, xy: 1} => true
        {additionalProperties: {bsonType: 'int'}, properties: {a: {}}} on {a: 'x', b: 'y'} => false
        {patternProperties: {'^x': {bsonType: 'int'}}} on {x1: 1, y: 'x'} => true
        {patternProperties: {'^x': {bsonType: 'int'}}} on {x1: 1, x2: 'x'} => false
        {minProperties: 2} on {a: 1} => false
        {maxProperties: 1} on {a: 1, b: 1} => false
        {dependencies: {a: ['b']}} on {a: 1} => false
        {dependencies: {a: ['b']}} on {c: 1} => true
        {dependencies: {a: {required: ['c']}}} on {a: 1, c: 1} => true
        {dependencies: {a: {required: ['c']}}} on {a: 1} => false
        "#,
    );
}

#[test]
fn logic() {
    check(
        r#"
        {allOf: [{required: ['a']}, {required: ['b']}]} on {a: 1} => false
        {anyOf: [{required: ['a']}, {required: ['b']}]} on {a: 1} => true
        {anyOf: [{required: ['a']}, {required: ['b']}]} on {} => false
        {oneOf: [{required: ['a']}, {required: ['b']}]} on {b: 1} => true
        {oneOf: [{required: ['a']}, {required: ['b']}]} on {a: 1, b: 1} => false
        {not: {required: ['a']}} on {a: 1} => false
        {not: {required: ['a']}} on {} => true
        "#,
    );
}

#[test]
fn failures_are_described() {
    check(
        r#"
        {properties: {a: {bsonType: 'string', description: 'why'}}} on {a: 1} => [{operatorName: 'properties', propertiesNotSatisfied: [{propertyName: 'a', description: 'why', details: [{operatorName: 'bsonType', specifiedAs: {bsonType: 'string'}, reason: 'type did not match', consideredValue: 1, consideredType: 'int'}]}]}]
        {required: ['a', 'b'], properties: {c: {minimum: 2}}} on {a: 1, c: 1} => [{operatorName: 'properties', propertiesNotSatisfied: [{propertyName: 'c', details: [{operatorName: 'minimum', specifiedAs: {minimum: 2}, reason: 'comparison failed', consideredValue: 1}]}]}, {operatorName: 'required', specifiedAs: {required: ['a', 'b']}, missingProperties: ['b']}]
        {additionalProperties: false} on {a: 1, b: 1} => [{operatorName: 'additionalProperties', specifiedAs: {additionalProperties: false}, additionalProperties: ['a', 'b']}]
        {oneOf: [{required: ['a']}, {required: ['b']}]} on {a: 1, b: 1} => [{operatorName: 'oneOf', reason: 'more than one subschema matched', matchingSchemaIndexes: [0, 1]}]
        {anyOf: [{required: ['a']}]} on {} => [{operatorName: 'anyOf', schemasNotSatisfied: [{index: 0, details: [{operatorName: 'required', specifiedAs: {required: ['a']}, missingProperties: ['a']}]}]}]
        {not: {}} on {} => [{operatorName: 'not', reason: 'child expression matched'}]
        {dependencies: {a: ['b', 'c']}} on {a: 1} => [{operatorName: 'dependencies', failingDependencies: [{conditionalProperty: 'a', missingProperties: ['b', 'c']}]}]
        {minProperties: 2} on {a: 1} => [{operatorName: 'minProperties', specifiedAs: {minProperties: 2}, reason: 'specified number of properties was not satisfied', numProperties: Long(1)}]
        "#,
    );
    let schema = Schema::parse((&doc("{title: 'T', required: ['a']}")).into()).unwrap();
    let explained = schema.explain(doc("{}").as_doc()).unwrap();
    let expect = doc(
        "{operatorName: '$jsonSchema', title: 'T', schemaRulesNotSatisfied: [{operatorName: 'required', specifiedAs: \
         {required: ['a']}, missingProperties: ['a']}]}",
    );
    assert_eq!(show((&explained).into()), show((&expect).into()));
}

#[test]
fn what_is_no_schema() {
    check(
        r#"
        1 => error 14: $jsonSchema must be an object
        {nope: 1} => error 9: Unknown $jsonSchema keyword: nope
        {format: 'date'} => error 9: $jsonSchema keyword 'format' is not currently supported
        {type: 'int', bsonType: 'int'} => error 9: Cannot specify both $jsonSchema keywords 'type' and 'bsonType'
        {type: 'integer'} => error 9: $jsonSchema type 'integer' is not currently supported.
        {type: 'nope'} => error 2: Unknown type name alias: nope
        {bsonType: 'nope'} => error 2: Unknown type name alias: nope
        {bsonType: 1} => error 14: $jsonSchema keyword 'bsonType' must be either a string or an array of strings
        {bsonType: []} => error 9: $jsonSchema keyword 'bsonType' must name at least one type
        {required: 1} => error 14: $jsonSchema keyword 'required' must be an array, but found an element of type int
        {required: []} => error 9: $jsonSchema keyword 'required' cannot be an empty array
        {required: [1]} => error 14: $jsonSchema keyword 'required' must be an array of strings, but found an element of type: int
        {required: ['a', 'a']} => error 9: $jsonSchema keyword 'required' array cannot contain duplicate values
        {properties: 1} => error 14: $jsonSchema keyword 'properties' must be an object
        {properties: {a: 1}} => error 14: Nested schema for $jsonSchema property 'a' must be an object
        {minimum: 'x'} => error 14: $jsonSchema keyword 'minimum' must be a number
        {exclusiveMinimum: true} => error 9: $jsonSchema keyword 'minimum' must be a present if exclusiveMinimum is present
        {minimum: 1, exclusiveMinimum: 1} => error 14: $jsonSchema keyword 'exclusiveMinimum' must be a boolean
        {maxLength: 'x'} => error 9: $jsonSchema keyword 'maxLength' must be a number
        {maxLength: -1} => error 9: $jsonSchema keyword 'maxLength' must be a non-negative integer
        {multipleOf: 0} => error 9: $jsonSchema keyword 'multipleOf' must have a positive value
        {enum: []} => error 9: $jsonSchema keyword 'enum' cannot be an empty array
        {allOf: []} => error 2: $jsonSchema keyword 'allOf' must be a non-empty array
        {allOf: [1]} => error 14: $jsonSchema keyword 'allOf' must be an array of objects
        {not: 1} => error 14: $jsonSchema keyword 'not' must be an object
        {additionalProperties: 1} => error 14: $jsonSchema keyword 'additionalProperties' must be either an object or a boolean
        {dependencies: {a: 1}} => error 14: $jsonSchema keyword 'dependencies' must contain an object or an array for the property 'a'
        {title: 1} => error 14: $jsonSchema keyword 'title' must be a string
        "#,
    );
}
