//! The set's own read and write concern, for commands that give none.

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_protocol::cluster_time::timestamp;
use arbor_protocol::read_concern::{Level, ReadConcern};
use arbor_protocol::write_concern::{W, WriteConcernSpec};
use arbor_protocol::{Error, Result};

/// `_id` of the document in `config.settings` that keeps them.
pub const SETTINGS_ID: &str = "ReadWriteConcernDefaults";

/// Defaults set by an administrator; otherwise MongoDB's implicit ones: `local`, and `majority`.
#[derive(Clone, Debug, Default)]
pub struct Defaults {
    pub read: Option<Level>,
    /// A checked write concern.
    pub write: Option<DocBuf>,
    /// Hybrid time and milliseconds since 1970 of the last change.
    pub updated: Option<(u64, i64)>,
}

/// The write concern of a set for which none was set.
const IMPLICIT: WriteConcernSpec<'static> = WriteConcernSpec { w: Some(W::Majority), journaled: None, timeout_ms: 0 };

impl Defaults {
    pub fn write(&self) -> WriteConcernSpec<'_> {
        let own = self.write.as_ref().and_then(|doc| WriteConcernSpec::read(doc.as_doc()).ok());
        own.unwrap_or(IMPLICIT)
    }

    /// Returns the defaults changed by `setDefaultRWConcern`. An empty read concern resets to the implicit one; a write concern
    /// cannot be unset.
    pub fn changed(&self, read: Option<Doc<'_>>, write: Option<Doc<'_>>) -> Result<Defaults> {
        if read.is_none() && write.is_none() {
            let text = "At least one of the \"defaultReadConcern\" or \"defaultWriteConcern\" fields must be present";
            return Err(Error::bad_value(text));
        }
        let mut next = self.clone();
        if let Some(read) = read {
            next.read = read_level(read)?;
        }
        if let Some(write) = write {
            next.write = match write.is_empty() {
                false => Some(checked_write(write)?),
                true if self.write.is_none() => None,
                true => {
                    let text = "The global default write concern cannot be unset once it is set.";
                    return Err(Error::new(arbor_bson::Code::ILLEGAL_OPERATION, text));
                }
            };
        }
        Ok(next)
    }

    /// Returns the reply of `getDefaultRWConcern`.
    pub fn to_reply(&self) -> DocBuf {
        let source = |is_set| if is_set { "global" } else { "implicit" };
        let level = self.read.map_or("local", Level::name);
        let mut doc = DocBuf::new()
            .with("defaultReadConcern", &DocBuf::new().with("level", level))
            .with("defaultWriteConcern", &self.write().to_doc());
        if let Some((time, wall)) = self.updated {
            doc.append("updateOpTime", timestamp(time)).append("updateWallClockTime", ValueRef::DateTime(wall));
        }
        doc.append("defaultWriteConcernSource", source(self.write.is_some()));
        doc.with("defaultReadConcernSource", source(self.read.is_some()))
    }

    /// Returns the document stored in `config.settings`.
    pub fn to_doc(&self) -> DocBuf {
        let mut doc = DocBuf::new().with("_id", SETTINGS_ID);
        if let Some(read) = self.read {
            doc.append("defaultReadConcern", &DocBuf::new().with("level", read.name()));
        }
        if let Some(write) = &self.write {
            doc.append("defaultWriteConcern", write);
        }
        if let Some((time, wall)) = self.updated {
            doc.append("updateOpTime", timestamp(time)).append("updateWallClockTime", ValueRef::DateTime(wall));
        }
        doc
    }

    /// Parses the stored document. Invalid fields are ignored: any client may have written it.
    pub fn from_doc(doc: Doc<'_>) -> Defaults {
        let document = |name| match doc.get(name) {
            Some(ValueRef::Document(doc)) => Some(doc),
            _ => None,
        };
        let updated = match (doc.get("updateOpTime"), doc.get("updateWallClockTime")) {
            (Some(ValueRef::Timestamp(at)), Some(ValueRef::DateTime(wall))) => {
                Some((u64::from(at.seconds) << 32 | u64::from(at.increment), wall))
            }
            _ => None,
        };
        Defaults {
            read: document("defaultReadConcern").and_then(|doc| read_level(doc).ok()?),
            write: document("defaultWriteConcern").and_then(|doc| checked_write(doc).ok()),
            updated,
        }
    }
}

fn read_level(concern: Doc<'_>) -> Result<Option<Level>> {
    let read = ReadConcern::read(concern)?;
    match read {
        ReadConcern {
            after: None,
            at: None,
            level: level @ (None | Some(Level::Local | Level::Available | Level::Majority)),
        } => Ok(level),
        _ => Err(Error::bad_value(
            "level: 'linearizable' or 'snapshot', and times, are not suitable for the default read concern",
        )),
    }
}

fn checked_write(concern: Doc<'_>) -> Result<DocBuf> {
    let given = WriteConcernSpec::read(concern)?;
    if matches!(given.w, None | Some(W::Number(0))) {
        return Err(Error::bad_value("the default write concern needs a 'w' other than 0"));
    }
    Ok(given.to_doc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_set_kept_and_read_again() {
        let none = Defaults::default();
        assert_eq!(none.write().w, Some(W::Majority));
        let read = DocBuf::new().with("level", "majority");
        let write = DocBuf::new().with("w", 1i32).with("j", true);
        let mut both = none.changed(Some(read.as_doc()), Some(write.as_doc())).unwrap();
        both.updated = Some((5 << 32, 5_000));
        assert_eq!(both.write(), WriteConcernSpec { w: Some(W::Number(1)), journaled: Some(true), timeout_ms: 0 });
        let again = Defaults::from_doc(both.to_doc().as_doc());
        assert_eq!(again.to_reply().as_bytes(), both.to_reply().as_bytes());
        let empty = DocBuf::new();
        assert_eq!(both.changed(Some(empty.as_doc()), None).unwrap().read, None);
        assert_eq!(both.changed(None, Some(empty.as_doc())).unwrap_err().code.0, 20);
    }

    #[test]
    fn what_makes_no_default_is_refused() {
        let none = Defaults::default();
        let code = |read: Option<&DocBuf>, write: Option<&DocBuf>| {
            none.changed(read.map(DocBuf::as_doc), write.map(DocBuf::as_doc)).unwrap_err().code.0
        };
        assert_eq!(code(None, None), 2);
        assert_eq!(code(Some(&DocBuf::new().with("level", "snapshot")), None), 2);
        assert_eq!(code(None, Some(&DocBuf::new().with("w", 0i32))), 2);
        assert_eq!(code(None, Some(&DocBuf::new().with("j", true))), 2);
    }
}
