//! The fields that every command takes.

use std::time::Duration;

use arbor_bson::{Code, Doc, FieldRef, SessionId, ValueRef};
use uuid::Uuid;

use crate::arguments::{Field, is_present};
use crate::read_concern::ReadConcern;
use crate::request::{Fields, Numbered};
use crate::stable_api::{self, Declared};
use crate::write_concern::{WriteConcern, WriteConcernSpec};
use crate::{CommandInfo, Error, Result, cluster_time};

/// Generic fields of one command.
#[derive(Clone, Copy, Debug, Default)]
pub struct Generic<'a> {
    /// `lsid`.
    pub session: Option<SessionId>,
    /// The transaction or the retryable write that the command is part of.
    pub numbered: Option<Numbered>,
    pub max_time: Option<Duration>,
    pub write_concern: WriteConcern,
    /// As the client gave it.
    pub given_write: Option<WriteConcernSpec<'a>>,
    pub read_concern: ReadConcern,
    /// The time that the client has shown.
    pub cluster_time: Option<u64>,
    pub comment: Option<ValueRef<'a>>,
    /// The command is to be described instead of run.
    pub help: bool,
    pub api_strict: bool,
    /// `clientOperationKey`, by which another client may end the operation.
    pub operation_key: Option<Uuid>,
    /// `writeConcern` was given at all.
    pub has_write_concern: bool,
}

impl Generic<'_> {
    /// Returns true if the concerns are those of a transaction.
    pub fn is_in_transaction(&self) -> bool {
        self.numbered.is_some_and(Numbered::is_transaction)
    }
}

/// Returns true if a field is generic, not specific to the command.
pub fn is_generic(name: impl AsRef<[u8]>) -> bool {
    let name = name.as_ref();
    if name.starts_with(b"$") {
        return GENERIC_WITH_DOLLAR.contains(&name);
    }
    matches!(
        name,
        b"lsid"
            | b"readConcern"
            | b"writeConcern"
            | b"maxTimeMS"
            | b"comment"
            | b"help"
            | b"apiVersion"
            | b"apiStrict"
            | b"apiDeprecationErrors"
            | b"txnNumber"
            | b"autocommit"
            | b"startTransaction"
            | b"stmtId"
            | b"stmtIds"
            | b"databaseVersion"
            | b"shardVersions"
            | b"shardVersion"
            | b"fencingToken"
            | b"clientOperationKey"
            | b"maxTimeMSOpOnly"
            | b"allowImplicitCollectionCreation"
    )
}

/// Generic fields that drivers and members send with any command.
const GENERIC_WITH_DOLLAR: &[&[u8]] = &[
    b"$db",
    b"$readPreference",
    b"$clusterTime",
    b"$audit",
    b"$client",
    b"$configServerState",
    b"$configTime",
    b"$gleStats",
    b"$oplogQueryData",
    b"$queryOptions",
    b"$replData",
    b"$tenant",
    b"$topologyTime",
    b"$traceCtx",
];

/// Reads the generic fields of a command, and refuses what this server, a standalone or the member of a set, cannot promise.
pub fn read<'a>(info: &CommandInfo, body: Doc<'a>, is_member: bool) -> Result<Generic<'a>> {
    let mut generic = Generic::default();
    let mut fields = Fields::default();
    let mut api = Declared::default();
    let of_server = |field: &FieldRef<'_>| is_generic(field.name) && field.name != b"$db";
    let read = body.fields().skip(1).filter(of_server).map_while(FieldRef::read);
    for (name, value) in read.filter(|(_, value)| is_present(*value)) {
        let field = Field::new("", name);
        match name {
            "lsid" | "txnNumber" | "autocommit" | "startTransaction" => fields.take(name, value)?,
            "maxTimeMS" => generic.max_time = max_time(field, value)?,
            "writeConcern" => {
                generic.has_write_concern = true;
                generic.given_write = Some(WriteConcernSpec::read(field.document(value)?)?);
            }
            "readConcern" => generic.read_concern = ReadConcern::read(field.document(value)?)?,
            "$clusterTime" if is_member => generic.cluster_time = Some(cluster_time::read(field.document(value)?)?),
            "comment" => generic.comment = Some(value),
            "help" => generic.help = field.bool(value)?,
            "clientOperationKey" => {
                if let ValueRef::Binary { bytes, .. } = value {
                    generic.operation_key = Uuid::from_slice(bytes).ok();
                }
            }
            "apiVersion" => api.version = Some(field.string(value)?),
            "apiStrict" => {
                api.strict = field.strict_bool(value)?;
                api.flags = true;
            }
            "apiDeprecationErrors" => api.flags |= field.strict_bool(value).is_ok(),
            _ => {}
        }
    }
    generic.session = fields.session;
    generic.numbered = fields.numbered(info)?;
    if generic.numbered.is_some() && !is_member {
        return Err(no_transaction_numbers());
    }
    stable_api::check(info, api, body)?;
    generic.api_strict = api.strict;
    if generic.has_write_concern && !info.takes_write_concern() {
        return Err(Error::new(Code::INVALID_OPTIONS, "Command does not support writeConcern"));
    }
    Ok(generic)
}

fn no_transaction_numbers() -> Error {
    let text = "Transaction numbers are only allowed on a replica set member or mongos";
    Error::new(Code::ILLEGAL_OPERATION, text)
}

fn not_whole(field: Field<'_>) -> Error {
    Error::failed_to_parse(format!("{} has non-integral value", field.name))
}

fn max_time(field: Field<'_>, value: ValueRef<'_>) -> Result<Option<Duration>> {
    let whole = match value {
        ValueRef::Double(number) if number.fract() != 0.0 || !number.is_finite() => return Err(not_whole(field)),
        ValueRef::Decimal128(number) if number.to_i64_exact().is_none() => return Err(not_whole(field)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::DocBuf;

    fn read_with(name: &str, value: ValueRef<'_>) -> std::result::Result<WriteConcern, (i32, String)> {
        let body = DocBuf::new().with("insert", "c").with(name, value);
        read(&CommandInfo::write("insert", ""), body.as_doc(), false)
            .map(|generic| generic.write_concern)
            .map_err(|e| (e.code.0, e.message))
    }

    #[test]
    fn generic_fields_are_checked() {
        let level = |level: &'static str| DocBuf::new().with("level", level);
        for (name, value, code) in [
            ("txnNumber", 1i64.into(), 72),
            ("maxTimeMS", (-1i32).into(), 2),
            ("maxTimeMS", 1.5.into(), 9),
            ("maxTimeMS", f64::NAN.into(), 9),
            ("maxTimeMS", "x".into(), 14),
            ("lsid", "x".into(), 14),
            ("lsid", (&DocBuf::new()).into(), 40414),
            ("writeConcern", 1i32.into(), 14),
            ("writeConcern", (&DocBuf::new().with("w", 51i32)).into(), 9),
            ("readConcern", (&level("later")).into(), 2),
            ("apiVersion", "2".into(), 322),
            ("apiStrict", true.into(), 4886600),
        ] {
            assert_eq!(read_with(name, value).unwrap_err().0, code, "{name}");
        }
        assert!(read_with("readConcern", (&level("majority")).into()).is_ok());
        assert!(read_with("comment", 5i32.into()).is_ok());
        assert!(
            is_generic("$readPreference") && is_generic("lsid") && !is_generic("$unknown") && !is_generic("unknown")
        );
    }
}
