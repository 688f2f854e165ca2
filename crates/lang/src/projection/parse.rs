//! From a projection document to a [`Projection`].
//!
//! The first field other than `_id` decides whether a projection includes or excludes; the others must agree.

use arbor_bson::{Doc, ValueRef};

use super::computed::Source;
use super::selection::{Rule, Selection};
use super::{Computed, Paths, Projection, ProjectionKind};
use crate::expression::{is_true, operator_names};
use crate::matcher::Filter as Query;
use crate::stop::{ended, tick};
use crate::{Context, Error, Expression, Path, Result, field_path, number, text};

/// One field of the specification, with its whole path.
struct Item<'v> {
    path: Path,
    kind: ItemKind<'v>,
}

enum ItemKind<'v> {
    Include,
    Exclude,
    Slice { first: i64, count: Option<usize> },
    ElemMatch(ValueRef<'v>),
    Positional,
    Meta(ValueRef<'v>),
    Expression(ValueRef<'v>),
}

pub(super) fn parse(spec: Doc, kind: ProjectionKind, filter: Option<&Query>, context: &Context) -> Result<Projection> {
    let mut items = Vec::new();
    collect(spec, "", kind, 0, context, &mut items)?;
    let mut paths = Paths::default();
    items.iter().try_for_each(|item| tick().and_then(|()| paths.add(&item.path)))?;
    if filter.is_none() && items.iter().any(|item| matches!(item.kind, ItemKind::Positional)) {
        return Err(Error::location(51050, "Projections with a positional operator require a matcher"));
    }
    let inclusive = is_inclusion(&items);
    check_agreement(&items, inclusive)?;
    let built = build(items, inclusive, context)?;
    ended()?;
    Ok(built)
}

fn collect<'v>(
    spec: Doc<'v>,
    prefix: &str,
    kind: ProjectionKind,
    depth: usize,
    context: &Context,
    items: &mut Vec<Item<'v>>,
) -> Result<()> {
    if depth > context.limits.depth_max {
        return Err(Error::bad_value("projection is nested too deeply"));
    }
    for (name, value) in spec {
        tick()?;
        let dotted = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        if let Some(path) = positional_path(&dotted, kind)? {
            check_positional(value)?;
            items.push(Item { path: field_path::parse(path)?, kind: ItemKind::Positional });
            continue;
        }
        let path = field_path::parse(&dotted)?;
        match value {
            ValueRef::Document(doc) if doc.is_empty() => {
                let message = "An empty sub-projection is not a valid value. Found empty object at path";
                return Err(Error::location(51270, message));
            }
            ValueRef::Document(doc) if !doc.first().is_some_and(|(name, _)| name.starts_with('$')) => {
                collect(doc, &dotted, kind, depth + 1, context, items)?;
            }
            _ => {
                let kind = classify(&path, value, kind)?;
                items.push(Item { path, kind });
            }
        }
    }
    Ok(())
}

/// The path before the positional `$`.
fn positional_path(dotted: &str, kind: ProjectionKind) -> Result<Option<&str>> {
    let is_positional = dotted == "$" || dotted.ends_with(".$") || dotted.contains(".$.");
    if !is_positional {
        return Ok(None);
    }
    if kind == ProjectionKind::Aggregate {
        return Err(Error::location(31324, "Cannot use positional projection in aggregation projection"));
    }
    match dotted.strip_suffix(".$") {
        Some(path) if !path.contains(".$.") && !path.ends_with(".$") => Ok(Some(path)),
        Some(_) => {
            let message = format!("Positional projection '{dotted}' contains the positional operator more than once.");
            Err(Error::location(31287, message))
        }
        None if dotted == "$" => Ok(None),
        None => {
            let message = "Positional projection may only be used at the end, for example: a.b.$. If the query \
                           previously used a form like a.b.$.d, remove the parts following the '$' and the results \
                           will be equivalent.";
            Err(Error::location(31394, message))
        }
    }
}

fn check_positional(value: ValueRef) -> Result<()> {
    match value {
        ValueRef::Bool(_) | ValueRef::Int32(_) | ValueRef::Int64(_) | ValueRef::Double(_) | ValueRef::Decimal128(_) => {
            if is_true(value) {
                Ok(())
            } else {
                Err(Error::location(31395, "positional projection cannot be used with exclusion"))
            }
        }
        _ => Err(Error::location(31271, "positional projection cannot be used with a literal")),
    }
}

fn classify<'v>(path: &Path, value: ValueRef<'v>, kind: ProjectionKind) -> Result<ItemKind<'v>> {
    match value {
        ValueRef::Bool(_) | ValueRef::Int32(_) | ValueRef::Int64(_) | ValueRef::Double(_) | ValueRef::Decimal128(_) => {
            Ok(if is_true(value) { ItemKind::Include } else { ItemKind::Exclude })
        }
        ValueRef::Document(doc) if kind == ProjectionKind::Find => match doc.first() {
            Some(("$elemMatch", operand)) if doc.iter().count() == 1 => elem_match(path, operand),
            Some(("$slice", operand)) if doc.iter().count() == 1 => slice(value, operand),
            Some(("$meta", _)) => Ok(ItemKind::Meta(value)),
            _ => Ok(ItemKind::Expression(value)),
        },
        _ => Ok(ItemKind::Expression(value)),
    }
}

fn elem_match<'v>(path: &Path, operand: ValueRef<'v>) -> Result<ItemKind<'v>> {
    if !matches!(operand, ValueRef::Document(_)) {
        let found = text::type_name(Some(operand));
        let message = format!("elemMatch: Invalid argument, object required, but got {found}");
        return Err(Error::location(31274, message));
    }
    if path.components().len() > 1 {
        return Err(Error::location(31275, "Cannot use $elemMatch projection on a nested field."));
    }
    Ok(ItemKind::ElemMatch(operand))
}

/// `$slice` of `find` takes a number or `[skip, limit]`; with an array to slice it is the expression.
fn slice<'v>(whole: ValueRef<'v>, operand: ValueRef<'v>) -> Result<ItemKind<'v>> {
    match operand {
        ValueRef::Array(list) => {
            let (first, second) = (list.get(0), list.get(1));
            if !first.is_some_and(number::is_number) {
                return Ok(ItemKind::Expression(whole));
            }
            if matches!(second, Some(ValueRef::Null)) {
                return Ok(ItemKind::Expression(ValueRef::Null));
            }
            let count = second.and_then(number::saturate_to_i64);
            match (first.and_then(number::saturate_to_i64), count) {
                (Some(first), Some(count)) if count > 0 && list.len() == 2 => {
                    Ok(ItemKind::Slice { first, count: Some(count as usize) })
                }
                (_, Some(_)) if list.len() == 2 => {
                    Err(Error::location(28724, "First argument to $slice must be an array, but is of type: int"))
                }
                _ => Err(Error::location(31272, "$slice takes an array of two numbers: [skip, limit]")),
            }
        }
        other if number::is_number(other) => {
            Ok(ItemKind::Slice { first: number::saturate_to_i64(other).unwrap_or(i64::MAX), count: None })
        }
        _ => Err(Error::location(31273, "$slice only supports numbers and [x, y] arrays")),
    }
}

fn is_inclusion(items: &[Item]) -> bool {
    let decides = |item: &&Item| {
        item.path.as_str() != "_id" || matches!(item.kind, ItemKind::Expression(_) | ItemKind::ElemMatch(_))
    };
    let decision = items.iter().filter(decides).find_map(|item| match item.kind {
        ItemKind::Include | ItemKind::Expression(_) | ItemKind::Positional => Some(true),
        ItemKind::Exclude => Some(false),
        ItemKind::Slice { .. } | ItemKind::Meta(_) | ItemKind::ElemMatch(_) => None,
    });
    decision.unwrap_or_else(|| items.iter().any(|item| matches!(item.kind, ItemKind::Include | ItemKind::ElemMatch(_))))
}

fn check_agreement(items: &[Item], inclusive: bool) -> Result<()> {
    let mut positionals = 0;
    for item in items {
        let path = &item.path;
        match item.kind {
            _ if path.as_str() == "_id" && matches!(item.kind, ItemKind::Include | ItemKind::Exclude) => {}
            ItemKind::Exclude if inclusive => {
                let message = format!("Cannot do exclusion on field {path} in inclusion projection");
                return Err(Error::location(31254, message));
            }
            ItemKind::Include if !inclusive => {
                let message = format!("Cannot do inclusion on field {path} in exclusion projection");
                return Err(Error::location(31253, message));
            }
            ItemKind::Expression(_) if !inclusive => {
                let message = format!("Cannot use an expression {path} in an exclusion projection");
                return Err(Error::location(31252, message));
            }
            ItemKind::Positional if !inclusive => {
                return Err(Error::location(31395, "positional projection cannot be used with exclusion"));
            }
            ItemKind::Positional => positionals += 1,
            _ => {}
        }
    }
    let elem_match = items.iter().any(|item| matches!(item.kind, ItemKind::ElemMatch(_)));
    match positionals {
        2.. => Err(Error::location(31276, "Cannot specify more than one positional projection per query.")),
        1 if elem_match => Err(Error::location(31255, "Cannot specify positional operator and $elemMatch.")),
        _ => Ok(()),
    }
}

fn build(items: Vec<Item>, inclusive: bool, context: &Context) -> Result<Projection> {
    let mut selection = Selection { inclusive, ..Selection::default() };
    let mut computed = Computed::default();
    let mut positional = None;
    if inclusive && !items.iter().any(|item| item.path.head() == "_id") {
        selection.fields.set(field_path::parse("_id")?.components(), Rule::Keep);
    }
    for item in items {
        tick()?;
        let path = item.path.components();
        match item.kind {
            ItemKind::Include if inclusive => selection.fields.set(path, Rule::Keep),
            ItemKind::Include => {}
            ItemKind::Exclude if inclusive => {}
            ItemKind::Exclude => selection.fields.set(path, Rule::Drop),
            ItemKind::Slice { first, count } => selection.fields.set(path, Rule::Slice { first, count }),
            ItemKind::Positional => {
                selection.fields.set(path, Rule::Keep);
                positional = Some(item.path.clone());
            }
            ItemKind::ElemMatch(operand) => computed.set(path, Source::ElemMatch(Query::elem_match(operand, context)?)),
            ItemKind::Meta(value) | ItemKind::Expression(value) => {
                if let (true, Some((_, parents))) = (inclusive, path.split_last()) {
                    selection.fields.open(parents);
                }
                computed.set(path, Source::Expression(expression(value, context)?));
            }
        }
    }
    Ok(Projection { selection, computed, positional })
}

/// COMPAT: an unknown operator that is the whole value of a field has another error here than inside an expression.
fn expression(value: ValueRef, context: &Context) -> Result<Expression> {
    if let ValueRef::Document(doc) = value
        && let Some((name, _)) = doc.first()
        && name.starts_with('$')
        && !operator_names().any(|known| known == name)
    {
        return Err(Error::location(31325, format!("Unknown expression {name}")));
    }
    Expression::parse(value, context)
}
