//! `$changeStream: { ... }`.

use arbor_bson::{Timestamp, ValueRef};
use arbor_lang::{Code, text};

use super::location;
use super::token::Token;
use crate::{Error, Result};

/// Sent by routers.
pub const DOCUMENTS_ONLY: &str = "$_arborDocumentsOnly";
/// Sent by routers, which look documents up on all shards: an update has `fullDocument: true`, or null where its collection is gone.
pub const LOOKED_UP_LATER: &str = "$_arborLookedUpLater";

/// Which document after, or before, an update is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Image {
    #[default]
    Off,
    /// The document as it is when the event is returned.
    Lookup,
    /// Like `Lookup`, by a router.
    LookupLater,
    WhenAvailable,
    Required,
}

#[derive(Debug, Default)]
pub struct Options {
    pub after_update: Image,
    pub before_change: Image,
    pub all_changes_for_cluster: bool,
    pub expanded: bool,
    pub system_events: bool,
    /// A router reads the changes of the catalogue from the primary shard of a database alone.
    pub documents_only: bool,
    pub start: Option<StartAt>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartAt {
    /// `resumeAfter`
    Resume(Token),
    /// `startAfter`
    After(Token),
    /// `startAtOperationTime`
    Time(u64),
}

impl Options {
    pub fn parse(given: ValueRef<'_>) -> Result<Options> {
        let ValueRef::Document(given) = given else {
            let found = text::type_name(Some(given));
            let message = format!("$changeStream stage expects a document as argument, but found {found}");
            return Err(location(6_188_500, message));
        };
        let mut options = Options::default();
        let mut starts = Vec::new();
        for (name, value) in given {
            match name {
                "fullDocument" => options.after_update = full_document(value)?,
                "fullDocumentBeforeChange" => options.before_change = before_change(value)?,
                "allChangesForCluster" => options.all_changes_for_cluster = flag(name, value)?,
                "showExpandedEvents" => options.expanded = flag(name, value)?,
                "showSystemEvents" => options.system_events = flag(name, value)?,
                LOOKED_UP_LATER if flag(name, value)? => options.after_update = Image::LookupLater,
                LOOKED_UP_LATER => {}
                DOCUMENTS_ONLY => options.documents_only = flag(name, value)?,
                // changes of migrations are in no log
                "showMigrationEvents" => drop(flag(name, value)?),
                "resumeAfter" => starts.push(StartAt::Resume(Token::parse(name, value)?)),
                "startAfter" => starts.push(StartAt::After(Token::parse(name, value)?)),
                "startAtOperationTime" => starts.push(StartAt::Time(time(name, value)?)),
                _ => {
                    return Err(location(40415, format!("BSON field '$changeStream.{name}' is an unknown field.")));
                }
            }
        }
        let tokens = starts.iter().filter(|start| !matches!(start, StartAt::Time(_))).count();
        if tokens > 1 {
            return Err(location(50865, "Do not specify both 'resumeAfter' and 'startAfter' in a $changeStream stage"));
        }
        if starts.len() > 1 {
            return Err(location(40674, "Only one type of resume option is allowed, but multiple were found."));
        }
        options.start = starts.pop();
        if let Some(StartAt::Resume(token)) = &options.start
            && token.of_invalidate
        {
            let message = "Attempting to resume a change stream using 'resumeAfter' is not allowed from an invalidate \
                           notification.";
            return Err(Error::new(Code::INVALID_RESUME_TOKEN, message));
        }
        Ok(options)
    }
}

fn full_document(value: ValueRef<'_>) -> Result<Image> {
    match enumeration("fullDocument", value)? {
        "default" => Ok(Image::Off),
        "updateLookup" => Ok(Image::Lookup),
        "whenAvailable" => Ok(Image::WhenAvailable),
        "required" => Ok(Image::Required),
        other => Err(no_such("fullDocument", other)),
    }
}

fn before_change(value: ValueRef<'_>) -> Result<Image> {
    match enumeration("fullDocumentBeforeChange", value)? {
        "off" => Ok(Image::Off),
        "whenAvailable" => Ok(Image::WhenAvailable),
        "required" => Ok(Image::Required),
        other => Err(no_such("fullDocumentBeforeChange", other)),
    }
}

fn enumeration<'v>(name: &str, value: ValueRef<'v>) -> Result<&'v str> {
    match value {
        ValueRef::String(value) => Ok(value),
        other => Err(wrong_type(name, other, "string")),
    }
}

fn no_such(name: &str, value: &str) -> Error {
    Error::bad_value(format!("Enumeration value '{value}' for field '$changeStream.{name}' is not a valid value."))
}

fn flag(name: &str, value: ValueRef<'_>) -> Result<bool> {
    match value {
        ValueRef::Bool(value) => Ok(value),
        other => Err(wrong_type(name, other, "bool")),
    }
}

fn time(name: &str, value: ValueRef<'_>) -> Result<u64> {
    match value {
        ValueRef::Timestamp(Timestamp { seconds, increment }) => Ok(u64::from(seconds) << 32 | u64::from(increment)),
        other => Err(wrong_type(name, other, "timestamp")),
    }
}

pub(super) fn wrong_type(name: &str, value: ValueRef<'_>, expected: &str) -> Error {
    let found = text::type_name(Some(value));
    let message = format!("BSON field '$changeStream.{name}' is the wrong type '{found}', expected type '{expected}'");
    Error::new(Code::TYPE_MISMATCH, message)
}

#[cfg(test)]
mod tests {
    use arbor_notation::value;

    use super::*;

    #[test]
    fn bad_options_get_their_codes() {
        for (given, code) in [
            ("5", 6_188_500),
            ("{nope: 1}", 40415),
            ("{fullDocument: 5}", 14),
            ("{fullDocument: 'sometimes'}", 2),
            ("{fullDocumentBeforeChange: 'updateLookup'}", 2),
            ("{showExpandedEvents: 1}", 14),
            ("{startAtOperationTime: 5}", 14),
            ("{resumeAfter: 5}", 14),
            ("{resumeAfter: {}}", 40647),
            ("{resumeAfter: {_data: 5}}", 40647),
            ("{resumeAfter: {_data: ''}}", 40649),
            ("{resumeAfter: {_data: 'xyz'}}", 9),
            ("{resumeAfter: {_data: 'abc'}}", 9),
            ("{resumeAfter: {_data: '00'}}", 50811),
            ("{resumeAfter: {_data: '00', _typeBits: 'x'}}", 40648),
            ("{resumeAfter: {_data: '8200'}}", 15),
        ] {
            match Options::parse(value(given).as_ref()) {
                Err(Error::Lang(error)) => assert_eq!(error.code.0, code, "{given}: {error}"),
                other => panic!("{given}: {other:?}"),
            }
        }
    }
}
