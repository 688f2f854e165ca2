//! `$jsonSchema`: draft 4 of JSON Schema as far as MongoDB has it, with `bsonType` in addition to `type`.
//!
//! A keyword says something about values of its own types only: `minimum` holds for every string. So a schema is a list of
//! rules that must all hold, and a value that does not fit has a description of those that do not ([`Schema::failures`]),
//! which is the `errInfo` of document validation.
//!
//! | file | holds |
//! |---|---|
//! | `parse.rs`, `keyword.rs` | from a document to rules, with MongoDB's errors |
//! | `test.rs` | whether a rule holds |
//! | `failure.rs` | why it does not |

mod failure;
mod keyword;
mod parse;
mod test;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use arbor_bson::{Doc, DocBuf, Value, ValueRef};

use crate::Result;
use crate::matcher::{Regex, TypeSet};
use crate::stop::tick;

/// A parsed schema. Shared freely between threads.
#[derive(Clone, Debug)]
pub struct Schema {
    source: DocBuf,
    /// `title` and `description`.
    annotations: DocBuf,
    rules: Vec<Rule>,
}

/// One keyword, or two that belong together (`minimum` and `exclusiveMinimum`).
#[derive(Clone, Debug)]
struct Rule {
    keyword: &'static str,
    /// As the client wrote it.
    specified_as: DocBuf,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    Types(TypeSet),
    Bound {
        least: bool,
        exclusive: bool,
        bound: Value,
    },
    MultipleOf(Value),
    Size {
        of: Measure,
        least: bool,
        count: u64,
    },
    Pattern(Regex),
    /// Keys of the values, see `test::unordered_key`.
    Enum(HashSet<Vec<u8>>),
    UniqueItems,
    EachItem(Schema),
    /// A schema for each position.
    Items(Vec<Schema>),
    /// For items from a position on.
    AdditionalItems {
        from: usize,
        allowed: Allowed,
    },
    Required(Vec<String>),
    Properties(Vec<(String, Schema)>),
    PatternProperties(Vec<(Regex, Schema)>),
    /// For properties that no name and no pattern is about.
    AdditionalProperties {
        names: HashSet<String>,
        patterns: Vec<Regex>,
        allowed: Allowed,
    },
    Dependencies(Vec<(String, Dependency)>),
    AllOf(Vec<Schema>),
    AnyOf(Vec<Schema>),
    OneOf(Vec<Schema>),
    Not(Box<Schema>),
}

/// Parts that are counted, by the type of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    Characters,
    Items,
    Properties,
}

/// Values that `additionalItems` and `additionalProperties` allow.
#[derive(Clone, Debug)]
enum Allowed {
    Nothing,
    Fitting(Box<Schema>),
}

/// Requirement that a property makes of the document that has it.
#[derive(Clone, Debug)]
enum Dependency {
    Properties(Vec<String>),
    Schema(Schema),
}

impl Schema {
    /// The operand of `$jsonSchema`.
    pub fn parse(value: ValueRef<'_>) -> Result<Schema> {
        parse::schema_operand(value)
    }

    /// As the client wrote it.
    pub fn source(&self) -> Doc<'_> {
        self.source.as_doc()
    }

    pub fn matches(&self, value: ValueRef<'_>) -> Result<bool> {
        for rule in &self.rules {
            tick()?;
            if !rule.holds(value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Why a document does not fit: `{ operatorName: "$jsonSchema", schemaRulesNotSatisfied: [..] }`.
    pub fn explain(&self, doc: Doc<'_>) -> Result<DocBuf> {
        let mut out = DocBuf::new().with("operatorName", "$jsonSchema");
        for (name, value) in self.annotations.as_doc() {
            out.append(name, value);
        }
        Ok(out.with("schemaRulesNotSatisfied", &self.failures(ValueRef::Document(doc))?))
    }
}
