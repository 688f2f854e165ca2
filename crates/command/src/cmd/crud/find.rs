//! `find`.

use arbor_bson::{Code, Doc};
use arbor_query::{FindSpec, QueryShape};

use crate::call::Call;
use crate::cmd::shared::cursor_reply::{First, answer_first, collation};
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let (spec, first) = parse(call)?;
    call.note_shape(|| QueryShape::doc_of_find(&spec));
    let settings = call.query_settings(|| QueryShape::of_find(&spec))?;
    let scope = call.scope().with_hints(settings.as_ref().map(|settings| &settings.hints));
    let cursor = arbor_query::find(&scope, &spec, &call.interrupt)?;
    answer_first(call, cursor, first)
}

/// Reads the command; `explain` uses it as well.
pub(crate) fn parse<'c>(call: &Call<'c>) -> Result<(FindSpec<'c>, First)> {
    let mut spec = FindSpec::new(call.namespace()?);
    spec.allow_disk_use = call.server.parameters.bool("allowDiskUseByDefault");
    let mut batch_size = None;
    let mut single_batch = false;
    let mut no_timeout = false;
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "filter" => spec.filter = field.document(value)?,
            "projection" => spec.projection = Some(field.document(value)?).filter(|doc| !doc.is_empty()),
            "sort" => spec.sort = Some(field.document(value)?).filter(|doc| !doc.is_empty()),
            "skip" => spec.skip = field.unsigned(value)?,
            "limit" => spec.limit = Some(field.unsigned(value)?).filter(|limit| *limit > 0),
            "batchSize" => batch_size = Some(field.unsigned(value)?),
            "singleBatch" => single_batch = field.bool(value)?,
            "noCursorTimeout" => no_timeout = field.bool(value)?,
            "hint" => spec.hint = crate::cmd::shared::hint::read(field, value)?,
            "min" => spec.min = Some(field.document(value)?).filter(|doc| !doc.is_empty()),
            "max" => spec.max = Some(field.document(value)?).filter(|doc| !doc.is_empty()),
            "let" => spec.let_variables = Some(field.document(value)?),
            "showRecordId" => spec.show_record_id = field.bool(value)?,
            "returnKey" => spec.return_key = field.bool(value)?,
            "collation" => spec.collation = collation(field, value)?,
            "tailable" => spec.tailable = field.bool(value)?,
            "awaitData" => spec.await_data = field.bool(value)?,
            "allowDiskUse" => spec.allow_disk_use = field.bool(value)?,
            "allowPartialResults" | "oplogReplay" => drop(field.bool(value)?),
            _ => return Err(field.unknown().into()),
        }
    }
    check_min_max(spec.min, spec.max)?;
    if spec.await_data && !spec.tailable {
        return Err(Error::failed_to_parse("Cannot set 'awaitData' without also setting 'tailable'"));
    }
    if spec.tailable && single_batch {
        return Err(Error::bad_value("Cannot use tailable option with the 'singleBatch' option"));
    }
    Ok((spec, First { single_batch, no_timeout, ..First::of(batch_size) }))
}

fn check_min_max(min: Option<Doc<'_>>, max: Option<Doc<'_>>) -> Result<()> {
    let (Some(min), Some(max)) = (min, max) else { return Ok(()) };
    let same = min.iter().map(|(name, _)| name).eq(max.iter().map(|(name, _)| name));
    if same { Ok(()) } else { Err(Error::new(Code(51176), "max and min must have the same field names")) }
}
