//! Errors of a frame, grouped by the server's reaction.

use crate::ReplyTo;

/// Reason why [`crate::decode`] returned no request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing after these bytes can be trusted, or no reply could be read: close the connection.
    #[error("{0}")]
    Close(#[from] Fault),
    /// The frame's length is valid and its sender can be answered: reply, keep the connection.
    #[error("{0}")]
    Answer(Refusal),
    /// Reply, then close: the sender uses an unknown protocol.
    #[error("{0}")]
    AnswerAndClose(Refusal),
}

/// An error reply: MongoDB's number and text, and how the reply has to look. When `reply_to` expects no answer
/// (moreToCome), none is sent.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub code: i32,
    pub message: String,
    pub reply_to: ReplyTo,
}

/// Errors after which the connection is closed without a word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("message length {announced} is outside 16..=48000000")]
    Length { announced: i32 },
    #[error("a frame of {announced} bytes was delivered with {delivered}")]
    Delivered { announced: usize, delivered: usize },
    #[error("the message ends within its fixed fields")]
    Incomplete,
    #[error("unknown opcode {0}")]
    Opcode(i32),
    #[error("opcode {0} is not a request")]
    NotARequest(i32),
    #[error("OP_MSG checksum {found:08x} does not match the contents, {computed:08x}")]
    Checksum { found: u32, computed: u32 },
    #[error("legacy message: {0}")]
    Legacy(String),
    #[error("OP_COMPRESSED: {0}")]
    Compressed(#[from] CompressedFault),
}

/// Errors in OP_COMPRESSED.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompressedFault {
    #[error("unknown compressor {0}")]
    Compressor(u8),
    #[error("original opcode {0} must not be compressed")]
    Opcode(i32),
    #[error("uncompressed size {announced} exceeds {max}")]
    Size { announced: i64, max: usize },
    #[error("{compressed} bytes announce {announced}, more than 1000 times as many")]
    Ratio { compressed: usize, announced: usize },
    #[error("{announced} bytes announced, {produced} produced")]
    Produced { announced: usize, produced: usize },
    #[error("{0} bytes after the end of the stream")]
    Trailing(usize),
    #[error("zstd window of {bytes} bytes exceeds 8 MiB")]
    Window { bytes: u64 },
    #[error("zstd dictionaries are not accepted")]
    Dictionary,
    #[error("the stream is damaged: {0}")]
    Stream(String),
    #[error("the command {0} must not be compressed")]
    Command(String),
}

/// Numbers of MongoDB's that frames bring about; their names are in [`arbor_bson::Code`].
pub(crate) mod code {
    pub(crate) const OVERFLOW: i32 = 15;
    pub(crate) const PROTOCOL_ERROR: i32 = 17;
    pub(crate) const INVALID_BSON: i32 = 22;
    pub(crate) const ILLEGAL_OP_MSG_FLAG: i32 = 223;
    pub(crate) const BSON_OBJECT_TOO_LARGE: i32 = 10334;
    pub(crate) const MULTIPLE_BODIES: i32 = 40430;
    pub(crate) const DUPLICATE_SEQUENCE: i32 = 40431;
    pub(crate) const UNKNOWN_SECTION: i32 = 40432;
    pub(crate) const SEQUENCE_IN_BODY: i32 = 40433;
    pub(crate) const NO_DATABASE: i32 = 40571;
    pub(crate) const NO_BODY: i32 = 40587;
    pub(crate) const FAILED_TO_PARSE: i32 = 9;
    pub(crate) const INVALID_NAMESPACE: i32 = 73;
    pub(crate) const BAD_VALUE: i32 = 2;
}
