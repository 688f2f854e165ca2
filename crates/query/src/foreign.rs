//! A collection that a stage of a pipeline reads by name.

use std::sync::Arc;

use arbor_bson::ArrayBuf;
use arbor_lang::Collation;
use arbor_store::{Collection, Namespace};

use crate::Result;
use crate::elsewhere::ElsewhereCollection;
use crate::names::Names;
use crate::source::Source;
use crate::view::other_collation;

/// Collection that a stage reads under another name.
pub(crate) struct Foreign {
    /// None: it does not exist.
    pub collection: Option<Arc<Collection>>,
    /// It is on other servers.
    pub elsewhere: Option<ElsewhereCollection>,
    /// The stages of the views on the way to it.
    pub stages: ArrayBuf,
}

impl Foreign {
    /// Returns none, for a pipeline that makes its own documents.
    pub(crate) fn none() -> Foreign {
        Foreign { collection: None, elsewhere: None, stages: ArrayBuf::new() }
    }

    /// Errors: `OptionNotSupportedOnView` for a view with another collation than the statement's.
    pub(crate) fn of(names: &Names, namespace: &Namespace, collation: &Collation) -> Result<Foreign> {
        if let Some(servers) = names.elsewhere() {
            let (found, stages) = ElsewhereCollection::resolve(servers, namespace)?;
            return Ok(Foreign { elsewhere: Some(found), stages, ..Foreign::none() });
        }
        let store = names.store();
        match Source::of(store, namespace).as_view(store, namespace)? {
            Some(view) if view.collation != *collation && !view.takes_collation => Err(other_collation(namespace)),
            Some(view) => {
                let collection = names.collection(&view.namespace)?;
                Ok(Foreign { collection, stages: view.stages, ..Foreign::none() })
            }
            None => Ok(Foreign { collection: names.collection(namespace)?, ..Foreign::none() }),
        }
    }
}
