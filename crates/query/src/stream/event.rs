//! Building change events.

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_oplog::{Event, Kind, Retry, delta};

use super::command;
use super::images::Images;
use super::options::{Image, Options};
use super::target::Target;
use super::token::Token;
use crate::Result;

/// Its documents are the views of a database.
const SYSTEM_VIEWS: &str = "system.views";

/// Builder of the events of changes.
pub(super) struct EventBuilder {
    pub target: Target,
    pub options: Options,
    pub images: Images,
}

/// An event as the client gets it, unless the stages after it drop it.
pub(super) struct StreamEvent {
    pub token: Token,
    pub doc: DocBuf,
    /// Nothing follows it.
    pub is_last: bool,
}

/// The parts that all events have.
pub(super) struct Head<'e> {
    pub token: Token,
    pub kind: &'e str,
    pub event: &'e Event<'e>,
}

impl EventBuilder {
    /// The events of one change, in order; mostly one or none.
    pub(super) fn build(&self, token: Token, event: &Event<'_>) -> Result<Vec<StreamEvent>> {
        match event.change.kind {
            Kind::Noop(_) => Ok(Vec::new()),
            Kind::Command(_) if self.options.documents_only => Ok(Vec::new()),
            Kind::Command(command) => Ok(command::build(self, token, event, command)),
            _ => {
                let (db, collection) = split(event.place.namespace);
                if collection == SYSTEM_VIEWS && self.options.expanded && !self.options.system_events {
                    return Ok(self.change_of_view(token, event).into_iter().collect());
                }
                if !self.target.covers(db, collection, &self.options) {
                    return Ok(Vec::new());
                }
                let doc = self.change_of_document(token, event)?;
                Ok(vec![StreamEvent { token, doc, is_last: false }])
            }
        }
    }

    /// A change of a document of `system.views`, as the change of the view that it is: streams of a database and of all show it.
    fn change_of_view(&self, token: Token, event: &Event<'_>) -> Option<StreamEvent> {
        let Some(ValueRef::String(view)) = event.id() else { return None };
        let (db, name) = split(view);
        if matches!(self.target, Target::Collection(_)) || !self.target.covers(db, name, &self.options) {
            return None;
        }
        let kind = match event.change.kind {
            Kind::Insert => "create",
            Kind::Delete(_) => "drop",
            _ => "modify",
        };
        let mut doc = self.head(&Head { token, kind, event }).with("ns", &namespace((db, name)));
        if let Some(definition) = event.after {
            let description: DocBuf = definition.iter().filter(|(name, _)| *name != "_id").collect();
            doc.append("operationDescription", &description);
        }
        Some(StreamEvent { token, doc, is_last: false })
    }

    fn change_of_document(&self, token: Token, event: &Event<'_>) -> Result<DocBuf> {
        let kind = match event.change.kind {
            Kind::Insert => "insert",
            Kind::Replace => "replace",
            Kind::Delete(_) => "delete",
            _ => "update",
        };
        let mut doc = self.head(&Head { token, kind, event });
        let after = event.after.map_or(ValueRef::Null, ValueRef::Document);
        match event.change.kind {
            Kind::Insert | Kind::Replace => drop(doc.append("fullDocument", after)),
            Kind::Update(_) | Kind::UnreadUpdate { .. } if self.options.after_update == Image::LookupLater => {
                let is_there = self.images.is_there(event)?;
                doc.append("fullDocument", if is_there { ValueRef::Bool(true) } else { ValueRef::Null });
            }
            Kind::Update(_) | Kind::UnreadUpdate { .. } => {
                let looked_up = self.images.after_update(self.options.after_update, event)?;
                looked_up.iter().for_each(|found| append_image(&mut doc, "fullDocument", found.as_ref()));
            }
            _ => {}
        }
        doc.append("ns", &namespace(split(event.place.namespace)));
        doc.append("documentKey", &event.document_key());
        if let Some(difference) = event.change.kind.delta() {
            doc.append("updateDescription", &self.description(difference));
        }
        if !matches!(event.change.kind, Kind::Insert)
            && let Some(before) = self.images.before(self.options.before_change, event)?
        {
            append_image(&mut doc, "fullDocumentBeforeChange", before.map(Doc::to_buf).as_ref());
        }
        Ok(doc)
    }

    fn description(&self, difference: Doc<'_>) -> DocBuf {
        let described = delta::describe(difference);
        let mut doc = DocBuf::new().with("updatedFields", &described.updated);
        doc.append("removedFields", &described.removed).append("truncatedArrays", &described.truncated);
        if self.options.expanded {
            doc.append("disambiguatedPaths", &described.disambiguated);
        }
        doc
    }

    /// `_id` up to the fields that only some events have.
    pub(super) fn head(&self, head: &Head<'_>) -> DocBuf {
        let event = head.event;
        let mut doc = DocBuf::new().with("_id", &head.token.to_doc()).with("operationType", head.kind);
        doc.append("clusterTime", ValueRef::Timestamp(Token::timestamp(head.token.time)));
        if let Some(uuid) = event.place.uuid.filter(|_| self.options.expanded && head.kind != "invalidate") {
            doc.append("collectionUUID", ValueRef::Binary { subtype: 4, bytes: uuid.as_bytes() });
        }
        doc.append("wallTime", ValueRef::DateTime(event.wall));
        if let Some(statement) = event.statement.filter(|statement| statement.retry == Retry::Transaction) {
            doc.append("lsid", &statement.session.to_doc()).append("txnNumber", statement.number);
        }
        doc
    }
}

/// `{db, coll}`, or `{db}` of a whole database.
pub(super) fn namespace((db, collection): (&str, &str)) -> DocBuf {
    let doc = DocBuf::new().with("db", db);
    if collection.is_empty() { doc } else { doc.with("coll", collection) }
}

pub(super) fn split(namespace: &str) -> (&str, &str) {
    namespace.split_once('.').unwrap_or((namespace, ""))
}

/// Null where there is none.
fn append_image(doc: &mut DocBuf, name: &str, image: Option<&DocBuf>) {
    match image {
        Some(image) => doc.append(name, image),
        None => doc.append(name, ValueRef::Null),
    };
}
