//! Taking fields off the front of a byte slice, and the documents inside it.

use arbor_bson::{Doc, INTERNAL_SIZE_MAX, Limits};

/// Reason why a document could not be read; the caller chooses the reply.
#[derive(Debug)]
pub(crate) enum DocumentFault {
    /// Its length points outside its section.
    Length(i64),
    TooLarge(i64),
    Invalid(arbor_bson::Error),
}

#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_le_bytes)
    }

    pub fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    pub fn cstr(&mut self) -> Option<&'a str> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let text = self.take(end)?;
        self.take(1)?;
        std::str::from_utf8(text).ok()
    }

    /// The validated document at the front.
    pub fn document(&mut self) -> Result<Doc<'a>, DocumentFault> {
        let announced = self.0.first_chunk::<4>().map_or(-1, |length| i64::from(i32::from_le_bytes(*length)));
        let length = usize::try_from(announced).ok().filter(|length| *length >= 5);
        let bytes = match length {
            Some(length) if length > INTERNAL_SIZE_MAX => return Err(DocumentFault::TooLarge(announced)),
            Some(length) => self.take(length).ok_or(DocumentFault::Length(announced))?,
            None => return Err(DocumentFault::Length(announced)),
        };
        arbor_bson::validate(bytes, Limits::INPUT).map_err(DocumentFault::Invalid)
    }
}

impl DocumentFault {
    /// MongoDB's number and a text for the sender.
    pub fn describe(&self) -> (i32, String) {
        use crate::error::code;
        match self {
            DocumentFault::Length(length) => {
                (code::INVALID_BSON, format!("invalid document length {length} in the message"))
            }
            DocumentFault::TooLarge(length) => (
                code::BSON_OBJECT_TOO_LARGE,
                format!(
                    "BSONObj size: {length} (0x{length:X}) is invalid. Size must be between 0 and {INTERNAL_SIZE_MAX}(16MB)"
                ),
            ),
            DocumentFault::Invalid(error @ arbor_bson::Error::TooDeep { .. }) => (code::OVERFLOW, error.to_string()),
            DocumentFault::Invalid(error) => (code::INVALID_BSON, error.to_string()),
        }
    }
}
