//! `writeConcern`: the guarantees that a client requires before it gets a reply.
//!
//! A write concern that a set cannot satisfy does not fail the command: the write is done, and the reply has a `writeConcernError`. A
//! standalone refuses it.

use std::time::Duration;

use arbor_base::Durability;
use arbor_bson::{Code, Doc, DocBuf, ValueRef};

use crate::arguments::{Field, present};
use crate::read_concern::PROVENANCES;
use crate::{Error, Result};

/// Resolved write concern of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteConcern {
    /// `w: 0`: the client does not expect a reply.
    pub unacknowledged: bool,
    pub journaled: bool,
    /// Part that the set cannot satisfy.
    pub refused: Option<Refused>,
    /// Longest wait for the write to be durable after it is visible. Set only if the write is not `journaled`.
    pub patience: Option<Duration>,
    /// More members than one that are to have the write on their disks.
    pub copies: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    TooFewMembers,
    UnknownMode,
    /// `wtimeout` is over.
    TimeOver,
}

impl WriteConcern {
    pub fn durability(self) -> Durability {
        if self.journaled { Durability::Journaled } else { Durability::Applied }
    }
}

/// A write concern as it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteConcernSpec<'a> {
    pub w: Option<W<'a>>,
    pub journaled: Option<bool>,
    pub timeout_ms: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum W<'a> {
    Number(i64),
    Majority,
    /// A write concern of the set's configuration, by its name.
    Mode(&'a str),
    /// One that is written out as those of the configuration are.
    Tags(Tags<'a>),
}

/// Tags of members, each with the number of its values that must have the write.
#[derive(Clone, Copy, Debug)]
pub struct Tags<'a>(Doc<'a>);

impl PartialEq for Tags<'_> {
    fn eq(&self, other: &Tags<'_>) -> bool {
        self.0.as_bytes() == other.0.as_bytes()
    }
}

impl Eq for Tags<'_> {}

impl<'a> Tags<'a> {
    fn read(field: Field<'_>, tags: Doc<'a>) -> Result<Tags<'a>> {
        if tags.is_empty() {
            return Err(Error::failed_to_parse("tagged write concern requires tags"));
        }
        for (_, value) in tags {
            field
                .integer(value)
                .map_err(|_| Error::failed_to_parse("tags must be a single level document with only number values"))?;
        }
        Ok(Tags(tags))
    }

    pub fn iter(self) -> impl Iterator<Item = (&'a str, i64)> {
        let number = |value| Field::new("writeConcern", "w").integer(value).unwrap_or(0);
        self.0.into_iter().map(move |(tag, value)| (tag, number(value)))
    }
}

const MEMBERS_MAX: i64 = 50;

impl<'a> WriteConcernSpec<'a> {
    pub fn read(concern: Doc<'a>) -> Result<WriteConcernSpec<'a>> {
        let mut given = WriteConcernSpec::default();
        for (name, value) in present(concern) {
            let field = Field::new("writeConcern", name);
            match name {
                "w" => given.w = Some(W::read(field, value)?),
                "j" | "fsync" => given.journaled = Some(given.journaled == Some(true) || field.bool(value)?),
                "wtimeout" => {
                    given.timeout_ms = field.integer(value).unwrap_or(0);
                    if given.timeout_ms > i64::from(i32::MAX) {
                        return Err(Error::failed_to_parse("wtimeout must be a 32-bit integer"));
                    }
                }
                "provenance" => drop(field.one_of(value, PROVENANCES)?),
                "wElectionId" | "wOpTime" | "getLastError" => {}
                _ => return Err(field.unknown()),
            }
        }
        Ok(given)
    }

    /// Errors: what only members of a set promise.
    pub fn on_standalone(self) -> Result<WriteConcern> {
        match self.w {
            Some(W::Number(2..)) => Err(Error::bad_value("cannot use 'w' > 1 when a host is not replicated")),
            Some(W::Mode(mode)) => Err(Error::bad_value(format!(
                "cannot use non-majority 'w' mode \"{mode}\" when a host is not a member of a replica set"
            ))),
            _ => Ok(self.with(true, None)),
        }
    }

    /// Returns what the concern means, given what a majority is and what is refused. A majority of one member has a write when it is on that member's disk, unless the client says otherwise.
    pub fn with(self, majority_is_journaled: bool, refused: Option<Refused>) -> WriteConcern {
        let majority = matches!(self.w, Some(W::Majority | W::Mode(_) | W::Tags(_)));
        WriteConcern {
            unacknowledged: self.w == Some(W::Number(0)) && self.journaled != Some(true),
            journaled: self.journaled.unwrap_or(majority && majority_is_journaled),
            refused,
            patience: None,
            copies: match self.w {
                Some(W::Number(members @ 2..)) => Some(members),
                _ => None,
            },
        }
    }

    /// As `getDefaultRWConcern` and errors show it.
    pub fn to_doc(self) -> DocBuf {
        let mut doc = DocBuf::new();
        match self.w {
            None => doc.append("w", 1i32),
            Some(W::Number(members)) => doc.append("w", members as i32),
            Some(W::Majority) => doc.append("w", "majority"),
            Some(W::Mode(mode)) => doc.append("w", mode),
            Some(W::Tags(tags)) => doc.append("w", tags.0),
        };
        if let Some(journaled) = self.journaled {
            doc.append("j", journaled);
        }
        doc.with("wtimeout", self.timeout_ms as i32)
    }

    pub fn refusal(self, refused: Refused) -> (Code, String) {
        match refused {
            Refused::TooFewMembers => (Code::UNSATISFIABLE_WRITE_CONCERN, "Not enough data-bearing nodes".to_owned()),
            Refused::UnknownMode => {
                let mode = if let Some(W::Mode(mode)) = self.w { mode } else { "" };
                let text = format!("No write concern mode named '{mode}' found in replica set configuration");
                (Code::UNKNOWN_REPL_WRITE_CONCERN, text)
            }
            Refused::TimeOver => (Code::WRITE_CONCERN_FAILED, "waiting for replication timed out".to_owned()),
        }
    }

    /// `writeConcernError` of a write that is done.
    pub fn error(self, refused: Refused, provenance: &str) -> DocBuf {
        let (code, text) = self.refusal(refused);
        let concern = self.to_doc().with("provenance", provenance);
        let mut info = DocBuf::new();
        if refused == Refused::TimeOver {
            info.append("wtimeout", true);
        }
        info.append("writeConcern", &concern);
        DocBuf::new()
            .with("code", code.0)
            .with("codeName", &*code.name())
            .with("errmsg", text.as_str())
            .with("errInfo", &info)
    }
}

impl<'a> W<'a> {
    fn read(field: Field<'_>, value: ValueRef<'a>) -> Result<W<'a>> {
        match value {
            ValueRef::String("majority") => Ok(W::Majority),
            ValueRef::String(mode) => Ok(W::Mode(mode)),
            ValueRef::Double(number) if number.is_nan() => Err(Error::failed_to_parse("w has to be a number, not NaN")),
            ValueRef::Decimal128(number) if number.is_nan() => {
                Err(Error::failed_to_parse("w has to be a number, not NaN"))
            }
            ValueRef::Int32(_) | ValueRef::Int64(_) | ValueRef::Double(_) | ValueRef::Decimal128(_) => {
                match field.integer(value)? {
                    members @ 0..=MEMBERS_MAX => Ok(W::Number(members)),
                    members => Err(Error::failed_to_parse(format!(
                        "w has to be a non-negative number and not greater than {MEMBERS_MAX}; found: {members}"
                    ))),
                }
            }
            ValueRef::Document(tags) => Tags::read(field, tags).map(W::Tags),
            _ => Err(Error::failed_to_parse("w has to be a number, string, or object")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(doc: &DocBuf) -> std::result::Result<WriteConcernSpec<'_>, i32> {
        WriteConcernSpec::read(doc.as_doc()).map_err(|error| error.code.0)
    }

    fn w(value: impl Into<ValueRef<'static>>) -> DocBuf {
        DocBuf::new().with("w", value)
    }

    #[test]
    fn on_a_standalone() {
        let acknowledged = WriteConcern::default();
        let journaled = WriteConcern { journaled: true, ..acknowledged };
        let unacknowledged = WriteConcern { unacknowledged: true, ..acknowledged };
        for (doc, expect) in [
            (w(1i32), Ok(acknowledged)),
            (w(1i32).with("j", true), Ok(journaled)),
            (w("majority"), Ok(journaled)),
            (w("majority").with("j", false), Ok(acknowledged)),
            (w(0i32), Ok(unacknowledged)),
            (DocBuf::new(), Ok(acknowledged)),
            (w(2i32), Err(2)),
            (w("dc1"), Err(2)),
            (DocBuf::new().with("w", &w(2i32)), Ok(journaled)),
            (DocBuf::new().with("w", &w("x")), Err(9)),
            (DocBuf::new().with("w", &DocBuf::new()), Err(9)),
            (w(51i32), Err(9)),
            (w(-1i32), Err(9)),
            (w(true), Err(9)),
            (w(0i32).with("j", true), Ok(journaled)),
            (DocBuf::new().with("x", 1i32), Err(40415)),
        ] {
            let read = given(&doc).and_then(|given| given.on_standalone().map_err(|error| error.code.0));
            assert_eq!(read, expect, "{doc:?}");
        }
    }

    #[test]
    fn what_is_refused_is_explained() {
        let doc = w("far").with("wtimeout", 5i32);
        let error = given(&doc).unwrap().error(Refused::UnknownMode, "clientSupplied");
        let shown = arbor_bson::display::shell_doc(error.as_doc()).to_string();
        let expect = "{ code: 79, codeName: \"UnknownReplWriteConcern\", errmsg: \"No write concern mode named 'far' found in \
                      replica set configuration\", errInfo: { writeConcern: { w: \"far\", wtimeout: 5, provenance: \
                      \"clientSupplied\" } } }";
        assert_eq!(shown, expect);
    }
}
