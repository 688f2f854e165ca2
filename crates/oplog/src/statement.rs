//! The common part of all changes of a record: their session, and their retryable write or transaction.
//!
//! Empty for a record without a session; else `[1 retryable write, 2 transaction] [session, 48 bytes] [transaction number,
//! 8 bytes, little-endian]`.

use arbor_base::Fields;
use arbor_bson::SessionId;
use uuid::Uuid;

use crate::bytes::{Decoded, Malformed, end};

const RETRYABLE: u8 = 1;
const TRANSACTION: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Each change is a statement that may be sent again.
    Statements,
    /// All changes are one transaction.
    Transaction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    pub session: SessionId,
    pub number: i64,
    pub retry: Retry,
}

impl Statement {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(57);
        out.push(match self.retry {
            Retry::Statements => RETRYABLE,
            Retry::Transaction => TRANSACTION,
        });
        out.extend(self.session.id.as_bytes());
        out.extend(self.session.user);
        out.extend(self.number.to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8]) -> Decoded<Option<Statement>> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut rest = Fields::new(bytes);
        let retry = match rest.u8().ok_or(Malformed::SHORT)? {
            RETRYABLE => Retry::Statements,
            TRANSACTION => Retry::Transaction,
            _ => return Err(Malformed("unknown kind of statement")),
        };
        let session = SessionId {
            id: Uuid::from_bytes(rest.array().ok_or(Malformed::SHORT)?),
            user: rest.array().ok_or(Malformed::SHORT)?,
        };
        let number = rest.i64().ok_or(Malformed::SHORT)?;
        end(rest)?;
        Ok(Some(Statement { session, number, retry }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let session = SessionId { id: Uuid::from_u128(9), user: [3; 32] };
        for retry in [Retry::Statements, Retry::Transaction] {
            let statement = Statement { session, number: -7, retry };
            assert_eq!(Statement::decode(&statement.encode()), Ok(Some(statement)));
            assert!((1..57).all(|end| Statement::decode(&statement.encode()[..end]).is_err()));
        }
        assert_eq!(Statement::decode(&[]), Ok(None));
    }
}
