//! Which pipelines may be the definition of a view.

use arbor_bson::{Array, Doc, ValueRef};
use arbor_lang::{Code, text};
use arbor_store::{Namespace, ViewDefinition};

use crate::aggregate::pipeline::Pipeline;
use crate::view::ResolvedView;
use crate::{Error, Result, Scope};

/// Refuses a definition whose pipeline does not parse, writes, or reads something else than a collection.
pub fn check_view(scope: &Scope<'_>, view: &ViewDefinition) -> Result<()> {
    check_stages(view.pipeline.as_array(), &view.namespace)?;
    if let Some(below) = scope.store.view(&view.view_on)
        && below.collation != view.collation
    {
        let message = format!("View {} has conflicting collation with view {}", view.namespace, below.namespace);
        return Err(Error::new(Code::OPTION_NOT_SUPPORTED_ON_VIEW, message));
    }
    let collation = view.collation.clone();
    let over = ResolvedView { collation, ..ResolvedView::plain(&view.view_on) };
    Pipeline::parse_to_keep(scope, &over.spec(&view.pipeline)).map(drop)
}

/// Stages that have no place at the top of a view, and why.
const REFUSED: &[(&str, &str)] = &[
    ("$out", "because it writes to disk"),
    ("$merge", "because it writes to disk"),
    ("$changeStream", "because it watches changes"),
    ("$documents", "because it does not read the collection"),
];

fn check_stages(pipeline: Array<'_>, namespace: &Namespace) -> Result<()> {
    for (at, stage) in pipeline.iter().enumerate() {
        let ValueRef::Document(stage) = stage else {
            let found = text::type_name(Some(stage));
            let message = format!("Each element of the 'pipeline' array must be an object, but found {found}");
            return Err(Error::new(Code::TYPE_MISMATCH, message));
        };
        let name = Doc::first(stage).map_or("", |(name, _)| name);
        if let Some((name, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            let message = format!(
                "The aggregation stage {name} in location {at} of the pipeline cannot be used in the view definition of \
                 {namespace} {why}"
            );
            return Err(Error::new(Code::OPTION_NOT_SUPPORTED_ON_VIEW, message));
        }
    }
    Ok(())
}
