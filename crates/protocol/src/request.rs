//! The fields of a request about its session: `lsid`, `txnNumber`, `autocommit`, `startTransaction`.

use arbor_base::Intent;
use arbor_bson::{Code, Doc, SessionId, ValueRef};
use uuid::Uuid;

use crate::arguments::Field;
use crate::{CommandInfo, Error, Result};

/// User digest of a session without a user: SHA-256 of the empty string.
pub const NO_USER: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41,
    0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// Session fields of a request, unchecked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fields {
    pub session: Option<SessionId>,
    number: Option<i64>,
    autocommit: Option<bool>,
    start: Option<bool>,
}

/// Transaction or retryable write that a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    pub number: i64,
    pub intent: Intent,
}

impl Numbered {
    /// Part of a multi-document transaction.
    pub fn is_transaction(self) -> bool {
        self.intent != Intent::Write
    }
}

/// Commands whose statements are remembered.
const RETRYABLE: &[&str] = &["bulkWrite", "delete", "findAndModify", "findandmodify", "insert", "update"];

impl Fields {
    /// Takes a field if it is one of these.
    pub fn take(&mut self, name: &str, value: ValueRef<'_>) -> Result<()> {
        let field = Field::new("OperationSessionInfo", name);
        match name {
            "lsid" => self.session = Some(lsid(Field::new("", "lsid").document(value)?)?),
            "txnNumber" => match value {
                ValueRef::Int64(number) => self.number = Some(number),
                other => return Err(field.wrong_type(other, "long")),
            },
            "autocommit" => self.autocommit = Some(field.strict_bool(value)?),
            "startTransaction" => self.start = Some(field.strict_bool(value)?),
            _ => {}
        }
        Ok(())
    }

    /// Returns the transaction or retryable write that the request belongs to. Errors: an invalid combination of fields.
    pub fn numbered(&self, info: &CommandInfo) -> Result<Option<Numbered>> {
        let invalid = |text: &str| Err(Error::new(Code::INVALID_OPTIONS, text));
        if self.start.is_some() && self.autocommit.is_none() {
            return invalid("'startTransaction' field requires 'autocommit' field to also be specified");
        }
        let Some(number) = self.number else {
            return match self.autocommit {
                Some(_) => invalid("'autocommit' field requires a transaction number to also be specified"),
                None => Ok(None),
            };
        };
        if self.session.is_none() {
            return invalid("Transaction number requires a session ID to also be specified");
        }
        if number < 0 {
            return invalid("Transaction number cannot be negative");
        }
        if self.autocommit == Some(true) {
            return invalid("Specifying autocommit=true is not allowed.");
        }
        if self.start == Some(false) {
            return invalid("Specifying startTransaction=false is not allowed.");
        }
        Ok(Some(Numbered { number, intent: self.intent(info)? }))
    }

    fn intent(&self, info: &CommandInfo) -> Result<Intent> {
        if self.autocommit.is_none() {
            if RETRYABLE.contains(&info.name) {
                return Ok(Intent::Write);
            }
            let text = format!(
                "txnNumber may only be provided for multi-document transactions and retryable write commands. \
                 autocommit:false was not provided, and {} is not a retryable write command.",
                info.name
            );
            return Err(Error::new(Code(50768), text));
        }
        let intent = match info.name {
            "commitTransaction" => Intent::Commit,
            // who asks for the decision of a transaction that is in progress aborts it
            "abortTransaction" | "coordinateCommitTransaction" => Intent::Abort,
            _ if self.start == Some(true) => Intent::Begin,
            _ => Intent::Continue,
        };
        if self.start == Some(true) && intent != Intent::Begin {
            let text = format!("Cannot run {} as the first operation in a multi-document transaction.", info.name);
            return Err(Error::new(Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, text));
        }
        Ok(intent)
    }
}

/// Parses `{ id: UUID, uid: digest }`; without a digest the session belongs to the sender.
pub fn lsid(lsid: Doc<'_>) -> Result<SessionId> {
    let (mut id, mut user) = (None, NO_USER);
    for (name, value) in lsid {
        let field = Field::new("lsid", name);
        match (name, value) {
            ("id", ValueRef::Binary { subtype: 4, bytes }) => {
                let wrong = || Error::new(Code(207), "uuid must be a 16-byte binary field with UUID (4) subtype");
                id = Some(Uuid::from_slice(bytes).map_err(|_| wrong())?);
            }
            ("uid", ValueRef::Binary { bytes, .. }) => {
                let wrong = || Error::new(Code::UNSUPPORTED_FORMAT, "Unsupported SHA256Hash length");
                user = bytes.try_into().map_err(|_| wrong())?;
            }
            ("id" | "uid", other) => return Err(field.wrong_type(other, "binData")),
            ("txnNumber" | "txnUUID", _) => {
                let text = "Internal transactions are not supported by this server";
                return Err(Error::new(Code::INVALID_OPTIONS, text));
            }
            _ => return Err(field.unknown()),
        }
    }
    match id {
        Some(id) => Ok(SessionId { id, user }),
        None => Err(Field::new("lsid", "id").missing()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_notation::doc;

    fn info(name: &str) -> CommandInfo {
        match name {
            "find" => CommandInfo::read("find", ""),
            "insert" => CommandInfo::write("insert", ""),
            "commitTransaction" => CommandInfo::slow("commitTransaction", ""),
            "abortTransaction" => CommandInfo::slow("abortTransaction", ""),
            _ => CommandInfo::quick("ping", ""),
        }
    }

    fn read(command: &str, fields: &str) -> std::result::Result<Option<Numbered>, i32> {
        let body = doc(fields);
        let mut read = Fields::default();
        let taken = body.as_doc().iter().try_for_each(|(name, value)| read.take(name, value));
        taken.and_then(|()| read.numbered(&info(command))).map_err(|error| error.code.0)
    }

    const LSID: &str = "lsid: { id: Binary(4, '00112233445566778899aabbccddeeff') }";

    #[test]
    fn fields_make_sense_together_or_are_refused() {
        let numbered = |number, intent| Ok(Some(Numbered { number, intent }));
        for (command, fields, expect) in [
            ("ping", "", Ok(None)),
            ("insert", "txnNumber: Long(1)", numbered(1, Intent::Write)),
            ("find", "txnNumber: Long(1)", Err(50768)),
            ("commitTransaction", "txnNumber: Long(1)", Err(50768)),
            ("find", "txnNumber: Long(0), autocommit: false, startTransaction: true", numbered(0, Intent::Begin)),
            ("find", "txnNumber: Long(1), autocommit: false", numbered(1, Intent::Continue)),
            ("commitTransaction", "txnNumber: Long(1), autocommit: false", numbered(1, Intent::Commit)),
            ("abortTransaction", "txnNumber: Long(1), autocommit: false", numbered(1, Intent::Abort)),
            ("abortTransaction", "txnNumber: Long(1), autocommit: false, startTransaction: true", Err(263)),
            ("insert", "txnNumber: Long(-1)", Err(72)),
            ("insert", "txnNumber: 1", Err(14)),
            ("insert", "autocommit: false", Err(72)),
            ("insert", "startTransaction: true", Err(72)),
            ("insert", "txnNumber: Long(1), startTransaction: true", Err(72)),
            ("insert", "txnNumber: Long(1), autocommit: true", Err(72)),
            ("insert", "txnNumber: Long(1), autocommit: false, startTransaction: false", Err(72)),
            ("insert", "txnNumber: Long(1), autocommit: 0", Err(14)),
        ] {
            let separator = if fields.is_empty() { "" } else { ", " };
            assert_eq!(read(command, &format!("{{ {LSID}{separator}{fields} }}")), expect, "{command} {fields}");
        }
        assert_eq!(read("insert", "{ txnNumber: Long(1) }"), Err(72));
    }

    #[test]
    fn sessions_are_read_or_refused() {
        let code = |text: &str| lsid(doc(text).as_doc()).map_err(|error| error.code.0);
        let id = Uuid::from_u128(0x00112233_4455_6677_8899_aabbccddeeff);
        assert_eq!(code("{ id: Binary(4, '00112233445566778899aabbccddeeff') }"), Ok(SessionId { id, user: NO_USER }));
        let digest = "07".repeat(32);
        let own = format!("{{ id: Binary(4, '00112233445566778899aabbccddeeff'), uid: Binary(0, '{digest}') }}");
        assert_eq!(code(&own), Ok(SessionId { id, user: [7; 32] }));
        for (text, expect) in [
            ("{}", 40414),
            ("{ id: 1 }", 14),
            ("{ id: Binary(4, '00') }", 207),
            ("{ id: Binary(4, '00112233445566778899aabbccddeeff'), uid: Binary(0, '00') }", 12),
            ("{ id: Binary(4, '00112233445566778899aabbccddeeff'), x: 1 }", 40415),
            ("{ id: Binary(4, '00112233445566778899aabbccddeeff'), txnNumber: Long(1) }", 72),
        ] {
            assert_eq!(code(text), Err(expect), "{text}");
        }
    }
}
