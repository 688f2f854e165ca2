//! Why a value does not fit a schema, in the layout of MongoDB's `errInfo.details`.

use std::collections::HashSet;

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};

use super::test::{is_additional, matching, missing, repeated_item};
use super::{Allowed, Dependency, Measure, Rule, Schema, Test};
use crate::fields::Fields;
use crate::matcher::Regex;
use crate::stop::tick;
use crate::{Result, text};

impl Schema {
    /// One description for each rule that does not hold.
    pub fn failures(&self, value: ValueRef<'_>) -> Result<ArrayBuf> {
        let mut failures = ArrayBuf::new();
        for rule in &self.rules {
            if !rule.holds(value)? {
                failures.push(&rule.failure(value)?);
            }
        }
        Ok(failures)
    }

    /// `start` with title and description of the schema, and its failures.
    fn described(&self, mut start: DocBuf, value: ValueRef<'_>) -> Result<DocBuf> {
        for (name, annotation) in self.annotations.as_doc() {
            start.append(name, annotation);
        }
        Ok(start.with("details", &self.failures(value)?))
    }
}

impl Rule {
    /// Requires that the rule does not hold.
    fn failure(&self, value: ValueRef<'_>) -> Result<DocBuf> {
        let named = DocBuf::new().with("operatorName", self.keyword);
        let specified = || DocBuf::new().with("operatorName", self.keyword).with("specifiedAs", &self.specified_as);
        let considered = |reason: &str| Ok(specified().with("reason", reason).with("consideredValue", value));
        match (&self.test, value) {
            (Test::Types(_), _) => {
                let ty = text::type_alias(value.ty());
                Ok(considered("type did not match")?.with("consideredType", ty))
            }
            (Test::Bound { .. }, _) => considered("comparison failed"),
            (Test::MultipleOf(_), _) => considered("considered value is not a multiple of the specified value"),
            (Test::Pattern(_), _) => considered("regular expression did not match"),
            (Test::Enum(_), _) => considered("value was not found in enum"),
            (Test::Size { of: Measure::Characters, .. }, _) => considered("specified string length was not satisfied"),
            (Test::Size { of: Measure::Items, .. }, _) => considered("array did not match specified length"),
            (Test::Size { of: Measure::Properties, .. }, value) => {
                let count = Measure::Properties.of(value).unwrap_or(0) as i64;
                let reason = "specified number of properties was not satisfied";
                Ok(specified().with("reason", reason).with("numProperties", count))
            }
            (Test::UniqueItems, _) => {
                let twice = repeated_item(value)?.unwrap_or(ValueRef::Null);
                Ok(considered("found a duplicate item")?.with("duplicatedValue", twice))
            }
            (Test::EachItem(schema), ValueRef::Array(items)) => {
                let reason = "At least one item did not match the sub-schema";
                first_item(named.with("reason", reason), items.iter().enumerate(), schema)
            }
            (Test::Items(schemas), ValueRef::Array(items)) => {
                let reason = "At least one item did not match the sub-schema for its position";
                let mut details = ArrayBuf::new();
                for (at, (item, schema)) in items.iter().zip(schemas).enumerate() {
                    if !schema.matches(item)? {
                        details.push(&schema.described(DocBuf::new().with("itemIndex", at as i32), item)?);
                    }
                }
                Ok(named.with("reason", reason).with("details", &details))
            }
            (Test::AdditionalItems { from, allowed }, ValueRef::Array(items)) => {
                let further = items.iter().enumerate().skip(*from);
                match allowed {
                    Allowed::Nothing => {
                        let further: ArrayBuf = further.map(|(_, item)| item).collect();
                        Ok(specified().with("reason", "found additional items").with("additionalItems", &further))
                    }
                    Allowed::Fitting(schema) => {
                        let reason = "At least one additional item did not match the sub-schema";
                        first_item(named.with("reason", reason), further, schema)
                    }
                }
            }
            (Test::AllOf(schemas), value) => Ok(named.with("schemasNotSatisfied", &not_satisfied(schemas, value)?)),
            (Test::AnyOf(schemas), value) => Ok(named.with("schemasNotSatisfied", &not_satisfied(schemas, value)?)),
            (Test::OneOf(schemas), value) => match matching(schemas, value)? {
                fitting if fitting.is_empty() => Ok(named.with("schemasNotSatisfied", &not_satisfied(schemas, value)?)),
                fitting => {
                    let fitting: ArrayBuf = fitting.into_iter().map(|at| at as i32).collect();
                    let reason = "more than one subschema matched";
                    Ok(named.with("reason", reason).with("matchingSchemaIndexes", &fitting))
                }
            },
            (Test::Not(_), _) => Ok(named.with("reason", "child expression matched")),
            (test, ValueRef::Document(doc)) => of_properties(test, named, specified, doc),
            _ => Ok(named),
        }
    }
}

/// Failures of the rules about the properties of a document.
fn of_properties(test: &Test, named: DocBuf, specified: impl Fn() -> DocBuf, doc: Doc<'_>) -> Result<DocBuf> {
    match test {
        Test::Required(names) => Ok(specified().with("missingProperties", &missing(names, doc)?)),
        Test::Properties(properties) => {
            let mut failed = ArrayBuf::new();
            let fields = Fields::of(doc, properties.len())?;
            for (name, schema) in properties {
                tick()?;
                if let Some(value) = fields.get(name)
                    && !schema.matches(value)?
                {
                    failed.push(&schema.described(DocBuf::new().with("propertyName", name.as_str()), value)?);
                }
            }
            Ok(named.with("propertiesNotSatisfied", &failed))
        }
        Test::PatternProperties(patterns) => Ok(named.with("details", &by_pattern(patterns, doc)?)),
        Test::AdditionalProperties { names, patterns, allowed } => {
            additional(named, specified, (names, patterns, allowed), doc)
        }
        Test::Dependencies(dependencies) => {
            let mut failed = ArrayBuf::new();
            let fields = Fields::of(doc, dependencies.len())?;
            for (name, dependency) in dependencies {
                tick()?;
                if fields.get(name).is_none() || dependency.holds(doc)? {
                    continue;
                }
                let entry = DocBuf::new().with("conditionalProperty", name.as_str());
                failed.push(&match dependency {
                    Dependency::Properties(names) => entry.with("missingProperties", &missing(names, doc)?),
                    Dependency::Schema(schema) => entry.with("details", &schema.failures(ValueRef::Document(doc))?),
                });
            }
            Ok(named.with("failingDependencies", &failed))
        }
        _ => Ok(named),
    }
}

fn by_pattern(patterns: &[(Regex, Schema)], doc: Doc<'_>) -> Result<ArrayBuf> {
    let mut failed = ArrayBuf::new();
    for (name, value) in doc {
        for (regex, schema) in patterns {
            tick()?;
            if regex.is_match(name)? && !schema.matches(value)? {
                let start = DocBuf::new().with("propertyName", name).with("regexMatched", regex.pattern.as_str());
                failed.push(&schema.described(start, value)?);
            }
        }
    }
    Ok(failed)
}

fn additional(
    named: DocBuf,
    specified: impl Fn() -> DocBuf,
    (names, patterns, allowed): (&HashSet<String>, &[Regex], &Allowed),
    doc: Doc<'_>,
) -> Result<DocBuf> {
    let mut further = Vec::new();
    for (name, value) in doc {
        tick()?;
        if is_additional(name, names, patterns)? {
            further.push((name, value));
        }
    }
    let Allowed::Fitting(schema) = allowed else {
        let names: ArrayBuf = further.into_iter().map(|(name, _)| name).collect();
        return Ok(specified().with("additionalProperties", &names));
    };
    for (name, value) in further {
        if !schema.matches(value)? {
            let reason = "at least one additional property did not match the subschema";
            return schema.described(named.with("reason", reason).with("failingProperty", name), value);
        }
    }
    Ok(named)
}

/// The first item that does not fit.
fn first_item<'i>(
    start: DocBuf,
    items: impl Iterator<Item = (usize, ValueRef<'i>)>,
    schema: &Schema,
) -> Result<DocBuf> {
    for (at, item) in items {
        if !schema.matches(item)? {
            return schema.described(start.with("itemIndex", at as i32), item);
        }
    }
    Ok(start)
}

fn not_satisfied(schemas: &[Schema], value: ValueRef<'_>) -> Result<ArrayBuf> {
    let mut failed = ArrayBuf::new();
    for (at, schema) in schemas.iter().enumerate() {
        if !schema.matches(value)? {
            failed.push(&schema.described(DocBuf::new().with("index", at as i32), value)?);
        }
    }
    Ok(failed)
}
