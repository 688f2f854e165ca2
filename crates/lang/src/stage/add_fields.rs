//! `{ $addFields: { a: <expression>, "b.c": <expression>, d: { e: <expression> } } }`, also called `$set`.

use arbor_bson::{Doc, ValueRef};

use super::map::{Map, invalid};
use crate::projection::{Computed, Paths, Source};
use crate::stop::tick;
use crate::{Context, Error, Expression, Result, field_path, text};

pub(super) fn parse(name: &'static str, spec: ValueRef, context: &Context) -> Result<Map> {
    let ValueRef::Document(spec) = spec else {
        let found = text::type_name(Some(spec));
        let message = format!("{name} specification stage must be an object, got {found}");
        return Err(Error::location(40272, message));
    };
    let mut fields = Computed::default();
    let mut paths = Paths::default();
    collect(spec, "", 0, context, &mut paths, &mut fields).map_err(|error| invalid(name, error))?;
    Ok(Map::add_fields(name, fields))
}

fn collect(
    spec: Doc,
    prefix: &str,
    depth: usize,
    context: &Context,
    paths: &mut Paths,
    fields: &mut Computed,
) -> Result<()> {
    if depth > context.limits.depth_max {
        return Err(Error::bad_value("specification is nested too deeply"));
    }
    for (name, value) in spec {
        tick()?;
        if !prefix.is_empty() && name.contains('.') {
            let message = format!("cannot use dotted field name '{name}' in a sub object");
            return Err(Error::location(40183, message));
        }
        let dotted = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        let path = field_path::parse(&dotted)?;
        match value {
            ValueRef::Document(inner) if inner.first().is_some_and(|(name, _)| !name.starts_with('$')) => {
                collect(inner, &dotted, depth + 1, context, paths, fields)?;
            }
            ValueRef::Document(several) if several.iter().nth(1).is_some() => {
                let shown = text::shell(value);
                let message = format!("an empty object or several expressions are no value: '{name}: {shown}'");
                return Err(Error::location(40181, message));
            }
            _ => {
                let collision = |error: Error| Error::location(40176, error.message);
                paths.add(&path).map_err(collision)?;
                fields.set(path.components(), Source::Expression(Expression::parse(value, context)?));
            }
        }
    }
    Ok(())
}
