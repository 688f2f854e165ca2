//! The fields that every command takes, and what they mean on a standalone server.

use std::time::Duration;

use arbor_bson::{Doc, ValueRef};
use arbor_lang::Code;
use arbor_txn::Durability;

use crate::arguments::Field;
use crate::registry::Row;
use crate::stable_api::{self, Declared};
use crate::{Error, Result};

/// What the generic fields of one command said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Generic<'a> {
    /// `lsid.id`, sixteen bytes.
    pub session: Option<[u8; 16]>,
    pub max_time: Option<Duration>,
    pub write_concern: WriteConcern,
    pub comment: Option<ValueRef<'a>>,
    pub api_strict: bool,
    /// `writeConcern` was given at all.
    pub has_write_concern: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteConcern {
    /// `w: 0`: the client does not want to know.
    pub unacknowledged: bool,
    pub journaled: bool,
}

impl WriteConcern {
    pub fn durability(self) -> Durability {
        if self.journaled { Durability::Journaled } else { Durability::Applied }
    }
}

/// Whether a field is none of the command's own business.
pub fn is_generic(name: &str) -> bool {
    name.starts_with('$')
        || matches!(
            name,
            "lsid"
                | "readConcern"
                | "writeConcern"
                | "maxTimeMS"
                | "comment"
                | "apiVersion"
                | "apiStrict"
                | "apiDeprecationErrors"
                | "txnNumber"
                | "autocommit"
                | "startTransaction"
                | "stmtId"
                | "databaseVersion"
                | "shardVersion"
                | "clientOperationKey"
                | "maxTimeMSOpOnly"
                | "allowImplicitCollectionCreation"
        )
}

/// Reads the generic fields of a command, and refuses what this server, a standalone or the member of a set, cannot promise.
pub fn read<'a>(row: &Row, body: Doc<'a>, is_member: bool) -> Result<Generic<'a>> {
    let mut generic = Generic::default();
    let mut api = Declared::default();
    for (name, value) in body.iter().skip(1) {
        let field = Field::new("", name);
        match name {
            "lsid" => generic.session = Some(session(field.document(value)?)?),
            "maxTimeMS" => generic.max_time = max_time(field, value)?,
            "writeConcern" => {
                generic.has_write_concern = true;
                generic.write_concern = write_concern(field.document(value)?)?;
            }
            "readConcern" => read_concern(field.document(value)?)?,
            "comment" => generic.comment = Some(value),
            "apiVersion" => api.version = Some(field.string(value)?),
            "apiStrict" => {
                api.strict = field.strict_bool(value)?;
                api.flags = true;
            }
            "apiDeprecationErrors" => api.flags |= field.strict_bool(value).is_ok(),
            "txnNumber" if !is_member => return Err(no_transaction_numbers()),
            _ => {}
        }
    }
    stable_api::check(row, api, body)?;
    generic.api_strict = api.strict;
    if generic.has_write_concern && !row.takes_write_concern() {
        return Err(Error::new(Code::INVALID_OPTIONS, "Command does not support writeConcern"));
    }
    Ok(generic)
}

fn no_transaction_numbers() -> Error {
    let text = "Transaction numbers are only allowed on a replica set member or mongos";
    Error::new(Code::ILLEGAL_OPERATION, text)
}

fn session(lsid: Doc<'_>) -> Result<[u8; 16]> {
    match lsid.get("id") {
        Some(ValueRef::Binary { subtype: 4, bytes }) => {
            let wrong = || Error::new(Code(207), "uuid must be a 16-byte binary field with UUID (4) subtype");
            bytes.try_into().map_err(|_| wrong())
        }
        Some(other) => Err(Field::new("lsid", "id").wrong_type(other, "binData")),
        None => Err(Field::new("lsid", "id").missing()),
    }
}

fn max_time(field: Field<'_>, value: ValueRef<'_>) -> Result<Option<Duration>> {
    let whole = match value {
        ValueRef::Double(number) if number.fract() != 0.0 => {
            return Err(Error::bad_value(format!("{} has non-integral value", field.name)));
        }
        value => field.integer(value)?,
    };
    match whole {
        0 => Ok(None),
        whole if whole < 0 || whole > i64::from(i32::MAX) => {
            Err(Error::bad_value(format!("{whole} value for {} is out of range [0, {}]", field.name, i32::MAX)))
        }
        whole => Ok(Some(Duration::from_millis(whole as u64))),
    }
}

fn read_concern(concern: Doc<'_>) -> Result<()> {
    for (name, value) in concern {
        let field = Field::new("readConcern", name);
        match name {
            "level" => match field.string(value)? {
                "local" | "available" | "majority" => {}
                "linearizable" | "snapshot" => {
                    let text = "node needs to be a replica set member to use read concern";
                    return Err(Error::new(Code::NOT_A_REPLICA_SET, text));
                }
                other => {
                    let text =
                        format!("Enumeration value '{other}' for field 'readConcern.level' is not a valid value.");
                    return Err(Error::bad_value(text));
                }
            },
            "afterClusterTime" | "atClusterTime" | "afterOpTime" | "provenance" | "allowTransactionTableSnapshot" => {}
            _ => return Err(field.unknown()),
        }
    }
    Ok(())
}

fn write_concern(concern: Doc<'_>) -> Result<WriteConcern> {
    let (mut read, mut majority, mut asked) = (WriteConcern::default(), false, None);
    for (name, value) in concern {
        let field = Field::new("writeConcern", name);
        match name {
            "w" => {
                read.unacknowledged = acknowledgement(field, value)?;
                majority = matches!(value, ValueRef::String(_));
            }
            "j" | "fsync" => asked = Some(asked == Some(true) || field.bool(value)?),
            "wtimeout" | "wElectionId" | "wOpTime" | "getLastError" | "provenance" => {}
            _ => return Err(field.unknown()),
        }
    }
    // a majority of one member has a write when it is on that member's disk, unless the client says otherwise
    read.journaled = asked.unwrap_or(majority);
    if read.unacknowledged && read.journaled {
        return Err(Error::failed_to_parse("cannot use 'j' option when 'w' is 0"));
    }
    Ok(read)
}

/// Reads `w`; answers whether it is 0.
fn acknowledgement(field: Field<'_>, value: ValueRef<'_>) -> Result<bool> {
    match value {
        ValueRef::String("majority") => Ok(false),
        ValueRef::String(mode) => Err(Error::bad_value(format!(
            "cannot use non-majority 'w' mode \"{mode}\" when a host is not a member of a replica set"
        ))),
        ValueRef::Int32(_) | ValueRef::Int64(_) | ValueRef::Double(_) => match field.integer(value)? {
            number @ 0..=1 => Ok(number == 0),
            2..=50 => Err(Error::bad_value("cannot use 'w' > 1 when a host is not replicated")),
            number => Err(Error::failed_to_parse(format!(
                "w has to be a non-negative number and not greater than 50; found: {number}"
            ))),
        },
        _ => Err(Error::failed_to_parse("w has to be a number or string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::DocBuf;

    fn read_with(name: &str, value: ValueRef<'_>) -> std::result::Result<WriteConcern, (i32, String)> {
        let body = DocBuf::new().with("insert", "c").with(name, value);
        let row = crate::registry::find("insert").unwrap();
        read(row, body.as_doc(), false).map(|generic| generic.write_concern).map_err(|e| (e.code.0, e.message))
    }

    fn write_concern_of(w: impl Into<ValueRef<'static>>, j: bool) -> std::result::Result<WriteConcern, (i32, String)> {
        read_with("writeConcern", (&DocBuf::new().with("w", w).with("j", j)).into())
    }

    #[test]
    fn write_concerns_of_a_standalone() {
        let acknowledged = WriteConcern::default();
        assert_eq!(write_concern_of(1i32, false), Ok(acknowledged));
        let journaled = WriteConcern { journaled: true, ..acknowledged };
        assert_eq!(write_concern_of("majority", true), Ok(journaled));
        assert_eq!(write_concern_of("majority", false), Ok(acknowledged));
        let majority = DocBuf::new().with("w", "majority");
        assert_eq!(read_with("writeConcern", (&majority).into()), Ok(journaled));
        assert_eq!(write_concern_of(0i32, false), Ok(WriteConcern { unacknowledged: true, ..acknowledged }));
        for (outcome, code) in [
            (write_concern_of(2i32, false), 2),
            (write_concern_of("dc1", false), 2),
            (write_concern_of(51i32, false), 9),
            (write_concern_of(-1i32, false), 9),
            (write_concern_of(0i32, true), 9),
            (read_with("writeConcern", (&DocBuf::new().with("x", 1i32)).into()), 40415),
            (read_with("writeConcern", 1i32.into()), 14),
        ] {
            assert_eq!(outcome.unwrap_err().0, code);
        }
    }

    #[test]
    fn generic_fields_are_checked() {
        let level = |level: &'static str| DocBuf::new().with("level", level);
        for (name, value, code) in [
            ("txnNumber", 1i64.into(), 20),
            ("maxTimeMS", (-1i32).into(), 2),
            ("maxTimeMS", 1.5.into(), 2),
            ("maxTimeMS", "x".into(), 14),
            ("lsid", "x".into(), 14),
            ("lsid", (&DocBuf::new()).into(), 40414),
            ("readConcern", (&level("linearizable")).into(), 123),
            ("readConcern", (&level("later")).into(), 2),
            ("apiVersion", "2".into(), 322),
            ("apiStrict", true.into(), 4886600),
        ] {
            assert_eq!(read_with(name, value).unwrap_err().0, code, "{name}");
        }
        assert!(read_with("readConcern", (&level("majority")).into()).is_ok());
        assert!(read_with("comment", 5i32.into()).is_ok());
    }
}
