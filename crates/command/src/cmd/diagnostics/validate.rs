//! `validate`: every index entry has its document and the reverse, keys in order, counts agree.

use arbor_bson::{ArrayBuf, Code, DocBuf};
use arbor_store::Namespace;

use crate::call::Call;
use crate::cmd::shared::numbers::fitting;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let namespace = call.namespace()?;
    let (mut full, mut background, mut metadata, mut conformance, mut repair) = (false, false, false, false, false);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "full" => full = field.bool(value)?,
            "repair" | "fixMultikey" => repair |= field.bool(value)?,
            "background" => background = field.bool(value)?,
            "metadata" => metadata = field.bool(value)?,
            // COMPAT: anything that is no number or bool means true
            "checkBSONConformance" => conformance = field.bool(value).unwrap_or(true),
            "enforceFastCount" | "warnOnSchemaValidation" | "scandata" => drop(field.bool(value)?),
            _ => call.unknown(field)?,
        }
    }
    if full && background {
        let text = "Running the validate command with both { background: true } and { full: true } is not supported.";
        return Err(Error::new(Code::INVALID_OPTIONS, text));
    }
    let together = |first: &str, second: &str| {
        let text =
            format!("Running the validate command with {{ {first}: true }} and {{ {second}: true }} is not supported.");
        Err(Error::new(Code::INVALID_OPTIONS, text))
    };
    if metadata {
        let others =
            [("full", full), ("repair", repair), ("checkBSONConformance", conformance), ("background", background)];
        if let Some((other, _)) = others.iter().find(|(_, given)| *given) {
            return together("metadata", other);
        }
    }
    if conformance && repair {
        return together("checkBSONConformance", "repair");
    }
    if repair {
        return Err(Error::not_supported("validate with repair"));
    }
    let views = if namespace.is_system_views() { call.database().store.list_views(call.db).len() } else { 0 };
    if views > 0 {
        return answer_views(call, &namespace, views);
    }
    let buckets = call.database().store.buckets_of(&namespace);
    let namespace = buckets.map_or(namespace, |buckets| buckets.namespace.clone());
    if call.database().store.collection(&namespace).is_none() {
        if call.database().store.view(&namespace).is_some() {
            return Err(Error::new(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Cannot validate a view"));
        }
        let text = format!("Collection '{namespace}' does not exist to validate.");
        return Err(Error::new(Code::NAMESPACE_NOT_FOUND, text));
    }
    let report = call.database().store.validate(&namespace, full)?;
    if call.database().transactions.is_leading() {
        call.database().store.correct_size(&namespace, &report)?;
    }
    let wrong = arbor_query::count_mismatches(call.database(), &namespace, &call.interrupt)?;
    let mut warnings = ArrayBuf::new();
    if wrong > 0 {
        warnings.push("Detected one or more documents not compliant with the collection's schema.");
    }
    let (mut keys, mut details) = (DocBuf::new(), DocBuf::new());
    for index in &report.indexes {
        keys.append(&index.name, fitting(index.keys));
        details.append(&index.name, &DocBuf::new().with("valid", index.is_valid));
    }
    let mut errors: ArrayBuf = report.problems.iter().map(String::as_str).collect();
    if report.further_problems > 0 {
        errors.push(&*format!("and {} more", report.further_problems));
    }
    let valid = report.is_valid();
    let reply = &mut call.reply;
    reply.append("ns", namespace.as_str()).append("nInvalidDocuments", fitting(report.corrupt_records));
    reply.append("nNonCompliantDocuments", fitting(wrong)).append("nrecords", fitting(report.records));
    reply.append("nIndexes", report.indexes.len() as i32);
    reply.append("keysPerIndex", &keys).append("indexDetails", &details).append("valid", valid);
    reply.append("repaired", false).append("readTimestamp", arbor_bson::ValueRef::Null);
    reply.append("warnings", &warnings).append("errors", &errors);
    reply.append("extraIndexEntries", &ArrayBuf::new()).append("missingIndexEntries", &ArrayBuf::new());
    reply.append("corruptRecords", &ArrayBuf::new());
    Ok(())
}

/// The views of a database are entries of the catalogue: nothing else exists that could disagree.
fn answer_views(call: &mut Call<'_>, namespace: &Namespace, views: usize) -> Result<()> {
    let (keys, none) = (DocBuf::new().with("_id_", fitting(views as u64)), ArrayBuf::new());
    let reply = &mut call.reply;
    reply.append("ns", namespace.as_str()).append("nInvalidDocuments", 0i32).append("nNonCompliantDocuments", 0i32);
    reply.append("nrecords", fitting(views as u64)).append("nIndexes", 1i32).append("keysPerIndex", &keys);
    reply.append("valid", true).append("repaired", false).append("warnings", &none).append("errors", &none);
    Ok(())
}
