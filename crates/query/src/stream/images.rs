//! Documents as they were before a change, and as they are after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arbor_bson::{Doc, DocBuf};
use arbor_lang::Code;
use arbor_oplog::{Event, Kind};
use arbor_store::{Namespace, Store};

use super::options::Image;
use crate::database::now_ms;
use crate::{Error, Result};

/// Seconds after which images before and after changes are no longer shown; negative: as long as the log is there.
pub type ImagesExpiry = AtomicI64;

pub(super) struct Images {
    pub store: Arc<Store>,
    pub expiry: Arc<ImagesExpiry>,
}

impl Images {
    /// None: the field is not shown; Some(None): it is null.
    pub(super) fn after_update(&self, shown: Image, event: &Event<'_>) -> Result<Option<Option<DocBuf>>> {
        let kept = || event.after.filter(|_| self.is_kept(event)).map(Doc::to_buf);
        match shown {
            Image::Off | Image::LookupLater => Ok(None),
            Image::Lookup => self.look_up(event).map(Some),
            Image::WhenAvailable => Ok(Some(kept())),
            Image::Required => match kept() {
                Some(image) => Ok(Some(Some(image))),
                None => Err(missing("update events", "post-image", event)),
            },
        }
    }

    /// Like `after_update`, but for the document before an update, a replacement or a delete.
    pub(super) fn before<'e>(&self, shown: Image, event: &Event<'e>) -> Result<Option<Option<Doc<'e>>>> {
        let kept = event.change.before.filter(|_| self.is_kept(event));
        match shown {
            Image::Off | Image::Lookup | Image::LookupLater => Ok(None),
            Image::Required if kept.is_none() => Err(missing("update, delete and replace events", "pre-image", event)),
            _ => Ok(Some(kept)),
        }
    }

    /// COMPAT: the log always has the document after an update; it is shown where MongoDB could make it, that is, where
    /// the collection keeps pre-images.
    fn is_kept(&self, event: &Event<'_>) -> bool {
        let seconds = self.expiry.load(Ordering::Relaxed);
        let expired = seconds >= 0 && event.wall < now_ms().saturating_sub(seconds.saturating_mul(1000));
        event.change.before.is_some() && !expired
    }

    /// The document as it is now, unless its collection is another one by now.
    fn look_up(&self, event: &Event<'_>) -> Result<Option<DocBuf>> {
        let Some((collection, view)) = self.store.snapshot(&Namespace::parse(event.place.namespace)?)? else {
            return Ok(None);
        };
        let Some(id) = event.id().filter(|_| Some(collection.uuid) == event.place.uuid) else { return Ok(None) };
        let record = arbor_store::record(&view, &collection, &collection.id_key(id))?;
        Ok(record.map(|record| DocBuf::from_trusted(record.into_owned())))
    }

    /// Returns true if the collection of an event is still the one that has its name.
    pub(super) fn is_there(&self, event: &Event<'_>) -> Result<bool> {
        let namespace = Namespace::parse(event.place.namespace)?;
        Ok(self.store.collection(&namespace).is_some_and(|now| Some(now.uuid) == event.place.uuid))
    }
}

fn missing(events: &str, image: &str, event: &Event<'_>) -> Error {
    let kind = match event.change.kind {
        Kind::Delete(_) => "delete",
        Kind::Replace => "replace",
        _ => "update",
    };
    let message = format!(
        "Change stream was configured to require a {image} for all {events}, but the {image} was not found for event: \
         {{operationType: \"{kind}\", ns: \"{}\", documentKey: {:?}}}",
        event.place.namespace,
        event.document_key()
    );
    Error::new(Code::NO_MATCHING_DOCUMENT, message)
}
