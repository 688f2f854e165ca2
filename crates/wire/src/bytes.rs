//! Texts and documents at the front of what is left of a message.

use arbor_base::Fields;
use arbor_bson::{Doc, INTERNAL_SIZE_MAX, Limits};

/// Reason why a document could not be read; the caller chooses the reply.
#[derive(Debug)]
pub(crate) enum DocumentFault {
    /// Its length points outside its section.
    Length(i64),
    TooLarge(i64),
    Invalid(arbor_bson::Error),
}

/// Takes the text before a zero byte off the front.
pub(crate) fn take_text<'a>(fields: &mut Fields<'a>) -> Option<&'a str> {
    std::str::from_utf8(fields.c_text()?).ok()
}

/// Takes the validated document at the front.
pub(crate) fn take_document<'a>(fields: &mut Fields<'a>) -> Result<Doc<'a>, DocumentFault> {
    let announced = fields.rest().first_chunk::<4>().map_or(-1, |length| i64::from(i32::from_le_bytes(*length)));
    let length = usize::try_from(announced).ok().filter(|length| *length >= 5);
    let bytes = match length {
        Some(length) if length > INTERNAL_SIZE_MAX => return Err(DocumentFault::TooLarge(announced)),
        Some(length) => fields.bytes(length).ok_or(DocumentFault::Length(announced))?,
        None => return Err(DocumentFault::Length(announced)),
    };
    arbor_bson::validate(bytes, Limits::INPUT).map_err(DocumentFault::Invalid)
}

impl DocumentFault {
    /// MongoDB's number and a text for the sender.
    pub(crate) fn describe(&self) -> (i32, String) {
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
