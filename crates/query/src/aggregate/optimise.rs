//! A pipeline as the server runs it: the stages of the client in an order that lets fewer documents, and more of the
//! query, come first. What comes out is the same.
//!
//! R1: a `$match` goes before a `$sort`, and before stages that make or take away other fields: `$addFields`, `$unset`,
//! `$project`, `$unwind`, `$lookup`. Of a `$match` on several fields each goes as far as it can. Fields are compared by
//! the first name of their paths only, since a stage that writes `a.b` may make a document of what `a` was.
//! R2: a `$limit` or `$skip` goes before stages that make one document of one, so that a sort in front of them keeps few.

use arbor_bson::{Array, ArrayBuf, Doc, DocBuf, ValueRef};

use crate::stage_spec::only_field;

/// Requires a pipeline that parses. None: it stays as it is.
pub(super) fn optimise(stages: Array<'_>) -> Option<ArrayBuf> {
    let mut all: Vec<DocBuf> = Vec::new();
    for stage in stages.iter() {
        let ValueRef::Document(stage) = stage else { return None };
        all.push(stage.to_buf());
    }
    let mut changed = false;
    // each stage moves as far forward as it may before the next one is processed
    let mut at = 1;
    while at < all.len() {
        let mut place = at;
        while place > 0
            && let Some(order) = exchanged(&all[place - 1], &all[place])
        {
            changed = true;
            let moved = order.len() == 2;
            all.splice(place - 1..=place, order);
            place -= 1;
            if !moved {
                // a part of the stage stayed behind
                at += 1;
            }
        }
        at += 1;
    }
    changed.then(|| all.iter().collect())
}

/// Returns the two stages with the second one, or a part of it, first. None: they may not be exchanged.
fn exchanged(first: &DocBuf, second: &DocBuf) -> Option<Vec<DocBuf>> {
    let (name, spec) = only_field(ValueRef::Document(first.as_doc()))?;
    match only_field(ValueRef::Document(second.as_doc()))? {
        ("$limit" | "$skip", _) if keeps_count(name) => Some(vec![second.clone(), first.clone()]),
        ("$match", ValueRef::Document(filter)) => {
            let (before, behind) = parted(filter, |head| passes(name, spec, head));
            if before.as_doc().is_empty() {
                return None;
            }
            let stage = |filter: &DocBuf| DocBuf::new().with("$match", filter);
            let mut order = vec![stage(&before), first.clone()];
            if !behind.as_doc().is_empty() {
                order.push(stage(&behind));
            }
            Some(order)
        }
        _ => None,
    }
}

/// One document comes out for each that goes in.
fn keeps_count(name: &str) -> bool {
    matches!(name, "$addFields" | "$set" | "$unset" | "$project" | "$lookup")
}

/// A stage leaves the field with this name, of the documents that it lets through, as it was.
fn passes(name: &str, spec: ValueRef<'_>, field: &str) -> bool {
    match (name, spec) {
        ("$sort", _) => true,
        ("$addFields" | "$set", ValueRef::Document(made)) => made.iter().all(|(path, _)| head(path) != field),
        ("$unset", ValueRef::String(path)) => head(path) != field,
        ("$unset", ValueRef::Array(paths)) => {
            paths.iter().all(|path| matches!(path, ValueRef::String(path) if head(path) != field))
        }
        ("$project", ValueRef::Document(shown)) => shows(shown, field),
        ("$unwind", ValueRef::String(path)) => unwound(path) != field,
        ("$unwind", ValueRef::Document(options)) => options.iter().all(|(_, value)| match value {
            ValueRef::String(path) => unwound(path) != field,
            _ => true,
        }),
        ("$lookup", ValueRef::Document(options)) => {
            matches!(options.get("as"), Some(ValueRef::String(path)) if head(path) != field)
        }
        _ => false,
    }
}

fn head(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

/// `$a.b` is about `a`; so is `a.b`, the name of the index field.
fn unwound(path: &str) -> &str {
    head(path.strip_prefix('$').unwrap_or(path))
}

/// A projection passes this field on whole.
fn shows(projection: Doc<'_>, field: &str) -> bool {
    let plain = |value: ValueRef<'_>| match value {
        ValueRef::Bool(flag) => Some(flag),
        ValueRef::Int32(number) => Some(number != 0),
        ValueRef::Int64(number) => Some(number != 0),
        ValueRef::Double(number) => Some(number != 0.0),
        _ => None,
    };
    let own = projection.iter().filter(|(path, _)| head(path) == field);
    let own: Vec<Option<bool>> = own.map(|(path, value)| plain(value).filter(|_| path == field)).collect();
    let excludes = projection.iter().any(|(path, value)| path != "_id" && plain(value) == Some(false));
    match own.as_slice() {
        [] => excludes || field == "_id",
        [Some(true)] => true,
        _ => false,
    }
}

/// The conditions on fields that `passes` says go first, and the others. Conditions that are not on fields stay.
fn parted(filter: Doc<'_>, passes: impl Fn(&str) -> bool) -> (DocBuf, DocBuf) {
    let (mut before, mut behind) = (DocBuf::new(), DocBuf::new());
    for (name, condition) in filter {
        let goes = about(name, condition, &passes);
        let side = if goes { &mut before } else { &mut behind };
        side.append(name, condition);
    }
    (before, behind)
}

/// All fields that a condition is about may pass.
fn about(name: &str, condition: ValueRef<'_>, passes: &impl Fn(&str) -> bool) -> bool {
    match (name, condition) {
        ("$and" | "$or" | "$nor", ValueRef::Array(parts)) => parts.iter().all(|part| match part {
            ValueRef::Document(part) => part.iter().all(|(name, condition)| about(name, condition, passes)),
            _ => false,
        }),
        (name, _) => !name.starts_with('$') && passes(head(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(name: &str, spec: DocBuf) -> DocBuf {
        DocBuf::new().with(name, &spec)
    }

    fn on(fields: &[&str]) -> DocBuf {
        stage("$match", fields.iter().map(|field| (*field, 1i32)).collect())
    }

    /// Stages by name, with the fields of a `$match`.
    #[track_caller]
    fn check(stages: &[DocBuf], expected: &str) {
        let before: ArrayBuf = stages.iter().collect();
        let after = optimise(before.as_array()).unwrap_or_else(|| before.clone());
        let shown = |value: ValueRef<'_>| match only_field(value) {
            Some(("$match", ValueRef::Document(filter))) => {
                format!("match({})", filter.iter().map(|(name, _)| name).collect::<Vec<_>>().join(" "))
            }
            Some((name, _)) => name.trim_start_matches('$').to_owned(),
            None => String::new(),
        };
        assert_eq!(after.as_array().iter().map(shown).collect::<Vec<_>>().join(", "), expected);
    }

    #[test]
    fn matches_go_before_what_does_not_touch_their_fields() {
        let sort = stage("$sort", DocBuf::new().with("a", 1i32));
        let add = stage("$addFields", DocBuf::new().with("x.y", 1i32));
        let unwind = DocBuf::new().with("$unwind", "$tags");
        let lookup = stage("$lookup", DocBuf::new().with("from", "o").with("as", "found"));
        check(&[sort.clone(), on(&["a"])], "match(a), sort");
        check(&[add.clone(), on(&["a", "x.z"])], "match(a), addFields, match(x.z)");
        check(&[unwind.clone(), on(&["tags"])], "unwind, match(tags)");
        check(&[unwind.clone(), on(&["a"]), on(&["b"])], "match(a), match(b), unwind");
        check(&[lookup.clone(), unwind.clone(), on(&["a", "found.b"])], "match(a), lookup, match(found.b), unwind");
        check(&[sort, lookup, on(&["found"])], "sort, lookup, match(found)");
        let group = stage("$group", DocBuf::new().with("_id", "$a"));
        check(&[group, on(&["_id"])], "group, match(_id)");
    }

    #[test]
    fn projections_let_pass_what_they_show_whole() {
        let project = |fields: &[(&str, i32)]| stage("$project", fields.iter().copied().collect());
        check(&[project(&[("a", 1)]), on(&["a.b", "_id"])], "match(a.b _id), project");
        check(&[project(&[("a", 1)]), on(&["c"])], "project, match(c)");
        check(&[project(&[("a.b", 1)]), on(&["a.b"])], "project, match(a.b)");
        check(&[project(&[("a", 0)]), on(&["a", "c"])], "match(c), project, match(a)");
        check(&[project(&[("_id", 0), ("a", 1)]), on(&["_id", "c"])], "project, match(_id c)");
        let made = stage("$project", DocBuf::new().with("a", "$b").with("c", 1i32));
        check(&[made, on(&["a", "c"])], "match(c), project, match(a)");
    }

    #[test]
    fn limits_go_before_what_keeps_the_number() {
        let sort = stage("$sort", DocBuf::new().with("a", 1i32));
        let project = stage("$project", DocBuf::new().with("a", 1i32));
        let limit = DocBuf::new().with("$limit", 5i32);
        let unwind = DocBuf::new().with("$unwind", "$tags");
        check(&[sort.clone(), project, limit.clone()], "sort, limit, project");
        check(&[sort, unwind, limit], "sort, unwind, limit");
    }
}
