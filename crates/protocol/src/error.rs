//! Error sent to the client when a request is refused.

use arbor_base::TreeId;
use arbor_bson::{ArrayBuf, Code, DocBuf};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub code: Code,
    pub message: String,
    /// Further fields of the error document (`keyPattern`, `keyValue`).
    pub details: Option<DocBuf>,
    pub labels: Vec<String>,
    /// Tree that the text refers to; the name of its collection is to be prefixed to the text.
    pub tree: Option<TreeId>,
}

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), details: None, labels: Vec::new(), tree: None }
    }

    pub fn bad_value(message: impl Into<String>) -> Error {
        Error::new(Code::BAD_VALUE, message)
    }

    pub fn failed_to_parse(message: impl Into<String>) -> Error {
        Error::new(Code::FAILED_TO_PARSE, message)
    }

    pub fn type_mismatch(message: impl Into<String>) -> Error {
        Error::new(Code::TYPE_MISMATCH, message)
    }

    pub fn not_supported(what: &str) -> Error {
        Error::new(Code::NOT_IMPLEMENTED, format!("{what} is not supported by this server yet"))
    }

    /// Returns the error with further fields of its document.
    pub fn with_details(self, details: DocBuf) -> Error {
        Error { details: Some(details), ..self }
    }

    /// `{ ok: 0, errmsg, code, codeName }` with the details.
    pub fn to_reply(&self) -> DocBuf {
        let mut reply = DocBuf::new().with("ok", 0.0).with("errmsg", self.message.as_str()).with("code", self.code.0);
        reply.append("codeName", &*self.code.name());
        self.append_details(&mut reply);
        if !self.labels.is_empty() {
            reply.append("errorLabels", &self.labels.iter().map(String::as_str).collect::<ArrayBuf>());
        }
        reply
    }

    /// An entry of `writeErrors`.
    pub fn to_write_error(&self, index: usize) -> DocBuf {
        let mut entry = DocBuf::new().with("index", index as i32).with("code", self.code.0);
        self.append_details(&mut entry);
        entry.with("errmsg", self.message.as_str())
    }

    /// Returns the entry of `bulkWrite`'s reply for one failed operation.
    pub fn to_bulk_error(&self, index: usize) -> DocBuf {
        let mut entry = DocBuf::new().with("ok", 0.0).with("idx", index as i32).with("code", self.code.0);
        entry.append("errmsg", self.message.as_str());
        self.append_details(&mut entry);
        entry
    }

    fn append_details(&self, document: &mut DocBuf) {
        for (name, value) in self.details.as_ref().map(DocBuf::as_doc).into_iter().flatten() {
            document.append(name, value);
        }
    }
}
