//! Checks where a pipeline searches and where it reads the score.

use arbor_bson::{Array, ValueRef};
use arbor_lang::metadata::mentions;
use arbor_lang::{MetaKind, Stage};

use super::step::Step;
use crate::plan::score_required;
use crate::stage_spec::only_field;
use crate::{Error, Result};

/// Stages whose output does not carry the metadata of their input.
const FORGETFUL: &[&str] = &["$bucket", "$bucketAuto", "$count", "$facet", "$group", "$sortByCount"];

/// Refuses `$text` in any stage, or in any but the first.
pub(super) fn check_place<'s>(steps: impl IntoIterator<Item = &'s Step>, first_too: bool) -> Result<()> {
    let is_search = |step: &&Step| matches!(step, Step::Pure(Stage::Match(filter)) if filter.text().is_some());
    match steps.into_iter().skip(usize::from(first_too)).find(is_search) {
        Some(_) => {
            let message = "$match with $text is only allowed as the first pipeline stage";
            Err(Error::Lang(arbor_lang::Error::location(17313, message)))
        }
        None => Ok(()),
    }
}

/// Returns true if a stage reads the score. Errors: there is none where it does.
pub(super) fn check_scores(stages: Array<'_>, mut searched: bool) -> Result<bool> {
    let mut asked = false;
    for (name, spec) in stages.iter().filter_map(only_field) {
        if asks(name, spec) {
            if !searched {
                return Err(score_required());
            }
            asked = true;
        }
        searched &= !FORGETFUL.contains(&name);
    }
    Ok(asked)
}

/// A pipeline inside of the stage that has a source of its own is checked when that is parsed.
fn asks(name: &str, spec: ValueRef<'_>) -> bool {
    match (name, spec) {
        ("$lookup" | "$unionWith", ValueRef::Document(fields)) => {
            fields.iter().any(|(field, value)| field != "pipeline" && mentions(value, MetaKind::TextScore))
        }
        _ => mentions(spec, MetaKind::TextScore),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::{ArrayBuf, DocBuf};

    #[test]
    fn scores_are_there_until_documents_are_forgotten() {
        let score = DocBuf::new().with("s", &DocBuf::new().with("$meta", "textScore"));
        let stage = |name: &str, spec: &DocBuf| DocBuf::new().with(name, spec);
        let group = stage("$group", &DocBuf::new().with("_id", 1i32));
        let check = |stages: &[DocBuf], searched| {
            check_scores(stages.iter().collect::<ArrayBuf>().as_array(), searched).map_err(|error| error.to_string())
        };
        assert_eq!(check(&[stage("$sort", &score)], true), Ok(true));
        assert!(check(&[stage("$sort", &score)], false).is_err());
        assert!(check(&[group.clone(), stage("$addFields", &score)], true).is_err());
        assert_eq!(check(&[stage("$addFields", &score), group], true), Ok(true));
        assert_eq!(check(&[], true), Ok(false));
    }
}
