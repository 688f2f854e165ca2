//! From a document to the rules of a schema.

use std::collections::HashSet;

use arbor_bson::{Doc, DocBuf, Type, ValueRef};

use super::keyword::Keyword;
use super::test::unordered_key;
use super::{Allowed, Dependency, Measure, Rule, Schema, Test};
use crate::matcher::{Regex, TypeSet};
use crate::stop::tick;
use crate::{Error, Result, number};

/// Keywords that make rules, in the order in which MongoDB describes what does not hold.
const RULES: &[&str] = &[
    "maximum",
    "minimum",
    "maxLength",
    "minLength",
    "pattern",
    "multipleOf",
    "maxItems",
    "minItems",
    "uniqueItems",
    "items",
    "additionalItems",
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "minProperties",
    "maxProperties",
    "dependencies",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "enum",
    "bsonType",
    "type",
];

/// Keywords that qualify another keyword, or describe the schema.
const QUALIFIERS: &[&str] = &["exclusiveMaximum", "exclusiveMinimum", "title", "description"];

/// Keywords of draft 4, or of encryption, that are not there.
const UNSUPPORTED: &[&str] =
    &["$ref", "$schema", "default", "definitions", "format", "id", "encrypt", "encryptMetadata", "keyId"];

pub(super) fn schema_operand(value: ValueRef<'_>) -> Result<Schema> {
    match value {
        ValueRef::Document(doc) => schema(doc),
        _ => Err(Error::type_mismatch("$jsonSchema must be an object")),
    }
}

fn schema(source: Doc<'_>) -> Result<Schema> {
    tick()?;
    for (name, _) in source {
        if UNSUPPORTED.contains(&name) {
            return Err(Error::failed_to_parse(format!("$jsonSchema keyword '{name}' is not currently supported")));
        }
        if !RULES.contains(&name) && !QUALIFIERS.contains(&name) {
            return Err(Error::failed_to_parse(format!("Unknown $jsonSchema keyword: {name}")));
        }
    }
    if source.get("type").is_some() && source.get("bsonType").is_some() {
        return Err(Error::failed_to_parse("Cannot specify both $jsonSchema keywords 'type' and 'bsonType'"));
    }
    let mut annotations = DocBuf::new();
    for name in ["title", "description"] {
        if let Some(value) = source.get(name) {
            annotations.append(name, Keyword { name, value }.string()?);
        }
    }
    for (name, with) in [("exclusiveMaximum", "maximum"), ("exclusiveMinimum", "minimum")] {
        if let Some(value) = source.get(name) {
            Keyword { name, value }.boolean()?;
            if source.get(with).is_none() {
                let message = format!("$jsonSchema keyword '{with}' must be a present if {name} is present");
                return Err(Error::failed_to_parse(message));
            }
        }
    }
    let mut rules = Vec::new();
    for name in RULES {
        if let Some(value) = source.get(name) {
            rules.extend(rule(Keyword { name, value }, source)?);
        }
    }
    Ok(Schema { source: source.to_buf(), annotations, rules })
}

/// None: the keyword says nothing about any value.
fn rule(keyword: Keyword<'_>, source: Doc<'_>) -> Result<Option<Rule>> {
    let size = |of, least| Ok::<_, Error>(Test::Size { of, least, count: keyword.count()? });
    let test = match keyword.name {
        "maximum" | "minimum" => bound(keyword, source)?,
        "maxLength" => size(Measure::Characters, false)?,
        "minLength" => size(Measure::Characters, true)?,
        "maxItems" => size(Measure::Items, false)?,
        "minItems" => size(Measure::Items, true)?,
        "maxProperties" => size(Measure::Properties, false)?,
        "minProperties" => size(Measure::Properties, true)?,
        "pattern" => Test::Pattern(Regex::new(keyword.string()?, "")?),
        "multipleOf" => multiple_of(keyword)?,
        "uniqueItems" if keyword.boolean()? => Test::UniqueItems,
        "uniqueItems" => return Ok(None),
        "items" => items(keyword)?,
        "additionalItems" => match additional_items(keyword, source)? {
            Some(test) => test,
            None => return Ok(None),
        },
        "properties" => Test::Properties(properties(keyword)?),
        "patternProperties" => {
            let compiled = |(pattern, schema): (String, Schema)| {
                tick()?;
                Ok((Regex::new(&pattern, "")?, schema))
            };
            Test::PatternProperties(properties(keyword)?.into_iter().map(compiled).collect::<Result<_>>()?)
        }
        "additionalProperties" => match additional_properties(keyword, source)? {
            Some(test) => test,
            None => return Ok(None),
        },
        "required" => Test::Required(keyword.names()?),
        "dependencies" => dependencies(keyword)?,
        "allOf" => Test::AllOf(schemas(keyword)?),
        "anyOf" => Test::AnyOf(schemas(keyword)?),
        "oneOf" => Test::OneOf(schemas(keyword)?),
        "not" => Test::Not(Box::new(schema(keyword.object()?)?)),
        "enum" => enumeration(keyword)?,
        _ => Test::Types(types(keyword)?),
    };
    let mut specified_as = DocBuf::new().with(keyword.name, keyword.value);
    for (name, with) in [("exclusiveMaximum", "maximum"), ("exclusiveMinimum", "minimum")] {
        if let Some(value) = source.get(name).filter(|_| keyword.name == with) {
            specified_as.append(name, value);
        }
    }
    Ok(Some(Rule { keyword: keyword.name, specified_as, test }))
}

fn bound(keyword: Keyword<'_>, source: Doc<'_>) -> Result<Test> {
    let least = keyword.name == "minimum";
    let exclusive = source.get(if least { "exclusiveMinimum" } else { "exclusiveMaximum" });
    let exclusive = matches!(exclusive, Some(ValueRef::Bool(true)));
    Ok(Test::Bound { least, exclusive, bound: keyword.number()?.to_value() })
}

fn multiple_of(keyword: Keyword<'_>) -> Result<Test> {
    let divisor = keyword.number()?;
    match number::to_f64(divisor) {
        Some(number) if number > 0.0 => Ok(Test::MultipleOf(divisor.to_value())),
        _ => Err(keyword.wrong("must have a positive value")),
    }
}

fn items(keyword: Keyword<'_>) -> Result<Test> {
    match keyword.value {
        ValueRef::Document(doc) => Ok(Test::EachItem(schema(doc)?)),
        ValueRef::Array(list) => {
            let each = list.iter().map(|value| match value {
                ValueRef::Document(doc) => schema(doc),
                _ => Err(keyword.mistyped("requires that each element of the array is an object")),
            });
            Ok(Test::Items(each.collect::<Result<_>>()?))
        }
        _ => Err(keyword.mistyped("must be an array or an object")),
    }
}

fn additional_items(keyword: Keyword<'_>, source: Doc<'_>) -> Result<Option<Test>> {
    let allowed = allowed(keyword)?;
    // without a list of schemas there are no additional items
    let Some(ValueRef::Array(list)) = source.get("items") else { return Ok(None) };
    Ok(allowed.map(|allowed| Test::AdditionalItems { from: list.len(), allowed }))
}

/// None: everything.
fn allowed(keyword: Keyword<'_>) -> Result<Option<Allowed>> {
    match keyword.value {
        ValueRef::Bool(true) => Ok(None),
        ValueRef::Bool(false) => Ok(Some(Allowed::Nothing)),
        ValueRef::Document(doc) => Ok(Some(Allowed::Fitting(Box::new(schema(doc)?)))),
        _ => Err(keyword.mistyped("must be either an object or a boolean")),
    }
}

fn properties(keyword: Keyword<'_>) -> Result<Vec<(String, Schema)>> {
    let property = |(name, value): (&str, ValueRef<'_>)| match value {
        ValueRef::Document(doc) => Ok((name.to_owned(), schema(doc)?)),
        _ => {
            let message = match keyword.name {
                "properties" => format!("Nested schema for $jsonSchema property '{name}' must be an object"),
                other => format!("$jsonSchema keyword '{other}' has property '{name}' which is not an object"),
            };
            Err(Error::type_mismatch(message))
        }
    };
    keyword.object()?.iter().map(property).collect()
}

fn additional_properties(keyword: Keyword<'_>, source: Doc<'_>) -> Result<Option<Test>> {
    let Some(allowed) = allowed(keyword)? else { return Ok(None) };
    let sibling = |keyword: &str| match source.get(keyword) {
        Some(ValueRef::Document(doc)) => doc,
        _ => Doc::empty(),
    };
    let names = sibling("properties").iter().map(|(name, _)| name.to_owned()).collect();
    let patterns =
        sibling("patternProperties").iter().map(|(pattern, _)| Regex::new(pattern, "")).collect::<Result<_>>()?;
    Ok(Some(Test::AdditionalProperties { names, patterns, allowed }))
}

fn dependencies(keyword: Keyword<'_>) -> Result<Test> {
    let dependency = |(name, value): (&str, ValueRef<'_>)| {
        let dependency = match value {
            ValueRef::Document(doc) => Dependency::Schema(schema(doc)?),
            ValueRef::Array(_) => Dependency::Properties(Keyword { name: "dependencies", value }.names()?),
            _ => {
                let message = format!(
                    "$jsonSchema keyword 'dependencies' must contain an object or an array for the property '{name}'"
                );
                return Err(Error::type_mismatch(message));
            }
        };
        Ok((name.to_owned(), dependency))
    };
    Ok(Test::Dependencies(keyword.object()?.iter().map(dependency).collect::<Result<_>>()?))
}

fn schemas(keyword: Keyword<'_>) -> Result<Vec<Schema>> {
    let list = keyword.array()?;
    if list.is_empty() {
        return Err(Error::bad_value(format!("$jsonSchema keyword '{}' must be a non-empty array", keyword.name)));
    }
    let each = |value| match value {
        ValueRef::Document(doc) => schema(doc),
        _ => Err(keyword.mistyped("must be an array of objects")),
    };
    list.iter().map(each).collect()
}

fn enumeration(keyword: Keyword<'_>) -> Result<Test> {
    let mut keys = HashSet::new();
    for value in keyword.filled_array()?.iter() {
        tick()?;
        if !keys.insert(unordered_key(value)?) {
            return Err(keyword.wrong("array cannot contain duplicate values"));
        }
    }
    Ok(Test::Enum(keys))
}

/// `type` and `bsonType`: a name, or several.
fn types(keyword: Keyword<'_>) -> Result<TypeSet> {
    let names = match keyword.value {
        ValueRef::String(name) => vec![name.to_owned()],
        ValueRef::Array(list) if list.is_empty() => return Err(keyword.wrong("must name at least one type")),
        ValueRef::Array(_) => keyword.names()?,
        _ => return Err(keyword.mistyped("must be either a string or an array of strings")),
    };
    let mut types = Vec::new();
    for name in &names {
        let set = match keyword.name {
            "type" => json_type(name)?,
            _ => TypeSet::parse(ValueRef::String(name))?,
        };
        types.extend(set.iter());
    }
    Ok(TypeSet::of(&types))
}

fn json_type(name: &str) -> Result<TypeSet> {
    Ok(match name {
        "object" => TypeSet::of(&[Type::Document]),
        "array" => TypeSet::of(&[Type::Array]),
        "string" => TypeSet::of(&[Type::String]),
        "boolean" => TypeSet::of(&[Type::Bool]),
        "null" => TypeSet::of(&[Type::Null]),
        "number" => TypeSet::numbers(),
        "integer" => return Err(Error::failed_to_parse("$jsonSchema type 'integer' is not currently supported.")),
        _ => return Err(Error::bad_value(format!("Unknown type name alias: {name}"))),
    })
}
