//! `index` of `collMod`: hides an index, changes its time to live, makes it unique.

use arbor_bson::{Code, Doc, ValueRef};
use arbor_protocol::arguments::{Field, present};
use arbor_store::{Conversion, IndexChange, IndexChanged, IndexChosen, Namespace};

use crate::call::Call;
use crate::watcher::Watcher;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>, namespace: &Namespace, spec: Doc<'_>, dry_run: bool) -> Result<()> {
    let (which, change) = parse(spec, dry_run)?;
    let watcher = Watcher::of(call);
    let settings = watcher.build_settings();
    let changed = watcher.explained(call.database().store.change_index(namespace, &which, &change, settings))?;
    append(call, &changed);
    Ok(())
}

pub(crate) fn only_with_unique() -> Error {
    invalid("dry run mode is only supported when converting an index to unique")
}

fn invalid(text: &str) -> Error {
    Error::new(Code::INVALID_OPTIONS, text)
}

fn parse(spec: Doc<'_>, dry_run: bool) -> Result<(IndexChosen, IndexChange)> {
    let (mut by_name, mut by_key, mut change) = (None, None, IndexChange::default());
    for (name, value) in present(spec) {
        let field = Field::new("collMod.index", name);
        match name {
            "name" => by_name = Some(IndexChosen::Name(field.string(value)?.to_owned())),
            "keyPattern" => by_key = Some(IndexChosen::Key(field.document(value)?.to_buf())),
            "expireAfterSeconds" => change.expire_after_seconds = Some(seconds(field, value)?),
            "hidden" => change.hidden = Some(field.bool(value)?),
            "prepareUnique" => change.prepare_unique = Some(field.bool(value)?),
            "unique" if field.bool(value)? => {
                change.unique = Some(if dry_run { Conversion::DryRun } else { Conversion::Convert });
            }
            "unique" => return Err(Error::bad_value("collMod does not support converting an index to non-unique")),
            _ => return Err(field.unknown().into()),
        }
    }
    let which = match (by_name, by_key) {
        (Some(_), Some(_)) => return Err(invalid("Cannot specify both key pattern and name.")),
        (None, None) => return Err(invalid("Must specify either index name or key pattern.")),
        (name, key) => name.or(key).ok_or_else(|| invalid("Must specify either index name or key pattern."))?,
    };
    let IndexChange { expire_after_seconds, hidden, prepare_unique, unique } = &change;
    if expire_after_seconds.is_none() && hidden.is_none() && prepare_unique.is_none() && unique.is_none() {
        return Err(invalid("no expireAfterSeconds, hidden, unique, or prepareUnique field"));
    }
    if dry_run && unique.is_none() {
        return Err(only_with_unique());
    }
    Ok((which, change))
}

/// The exact type is looked at as `createIndexes` does: any number, cut to a whole one.
fn seconds(field: Field<'_>, value: ValueRef<'_>) -> Result<i64> {
    match value {
        ValueRef::Double(value) if value.is_nan() => Err(invalid("expireAfterSeconds field must be a number")),
        value => Ok(field.integer(value)?),
    }
}

fn append(call: &mut Call<'_>, changed: &IndexChanged) {
    let reply = &mut call.reply;
    if let Some((old, new)) = changed.expire_after_seconds {
        if let Some(old) = old {
            reply.append("expireAfterSeconds_old", old);
        }
        reply.append("expireAfterSeconds_new", new);
    }
    if let Some((old, new)) = changed.hidden {
        reply.append("hidden_old", old).append("hidden_new", new);
    }
    if changed.made_unique {
        reply.append("unique_new", true);
    }
    if let Some((old, new)) = changed.prepare_unique {
        reply.append("prepareUnique_old", old).append("prepareUnique_new", new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::DocBuf;

    #[track_caller]
    fn refused(spec: DocBuf, dry_run: bool, code: i32) {
        let error = parse(spec.as_doc(), dry_run).unwrap_err();
        assert_eq!(error.code.0, code, "{spec:?}: {}", error.message);
    }

    #[test]
    fn what_is_asked_for_is_whole() {
        let named = || DocBuf::new().with("name", "a_1");
        refused(named(), false, 72);
        refused(DocBuf::new().with("hidden", true), false, 72);
        refused(named().with("keyPattern", &DocBuf::new()).with("hidden", true), false, 72);
        refused(named().with("hidden", "x"), false, 14);
        refused(named().with("hidden", true), true, 72);
        refused(named().with("unique", false), false, 2);
        refused(named().with("other", 1i32), false, 40415);
        let (_, change) = parse(named().with("unique", true).as_doc(), true).unwrap();
        assert_eq!(change.unique, Some(Conversion::DryRun));
    }
}
