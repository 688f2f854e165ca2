//! The opcodes before OP_MSG, which the clients of the founding texts speak.
//!
//! `decode` reads them, `translate` gives them the shape of commands, `reply` turns a command's reply into OP_REPLY and
//! reads OP_REPLY for clients, `encode` writes the requests. OP_INSERT, OP_UPDATE, OP_DELETE and OP_KILL_CURSORS have no
//! reply. All integers are little-endian.
//!
//! | opcode | after the header |
//! |---|---|
//! | OP_QUERY | flags u32, namespace cstring, skip i32, number to return i32, query document, [projection document] |
//! | OP_GET_MORE | zero i32, namespace cstring, number to return i32, cursor i64 |
//! | OP_INSERT | flags u32, namespace cstring, documents |
//! | OP_UPDATE | zero i32, namespace cstring, flags u32, selector document, update document |
//! | OP_DELETE | zero i32, namespace cstring, flags u32, selector document |
//! | OP_KILL_CURSORS | zero i32, count i32, cursors i64 each |
//! | OP_REPLY | flags u32, cursor i64, starting from i32, count i32, documents |

mod decode;
mod encode;
mod reply;
mod translate;

use arbor_bson::Doc;

pub(crate) use decode::decode;
pub use encode::{insert as encode_insert, kill_cursors as encode_kill_cursors};
pub use reply::{Reply, encode_reply};
pub use translate::{Translated, to_command};

use crate::Sequence;

pub mod flag {
    pub const QUERY_TAILABLE: u32 = 1 << 1;
    pub const QUERY_SECONDARY_OK: u32 = 1 << 2;
    pub const QUERY_NO_CURSOR_TIMEOUT: u32 = 1 << 4;
    pub const QUERY_AWAIT_DATA: u32 = 1 << 5;
    pub const QUERY_EXHAUST: u32 = 1 << 6;
    pub const QUERY_PARTIAL: u32 = 1 << 7;
    pub const INSERT_CONTINUE_ON_ERROR: u32 = 1;
    pub const UPDATE_UPSERT: u32 = 1;
    pub const UPDATE_MULTI: u32 = 1 << 1;
    pub const DELETE_SINGLE: u32 = 1;
    pub const REPLY_CURSOR_NOT_FOUND: u32 = 1;
    pub const REPLY_QUERY_FAILURE: u32 = 1 << 1;
    pub const REPLY_AWAIT_CAPABLE: u32 = 1 << 3;
}

#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    pub flags: u32,
    pub namespace: &'a str,
    pub skip: i32,
    pub number_to_return: i32,
    pub query: Doc<'a>,
    pub projection: Option<Doc<'a>>,
}

#[derive(Clone, Copy, Debug)]
pub struct GetMore<'a> {
    pub namespace: &'a str,
    pub number_to_return: i32,
    pub cursor: i64,
}

#[derive(Clone, Copy, Debug)]
pub struct Insert<'a> {
    pub flags: u32,
    pub namespace: &'a str,
    /// Named "documents", as the insert command's field.
    pub documents: Sequence<'a>,
}

#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    pub namespace: &'a str,
    pub flags: u32,
    pub selector: Doc<'a>,
    pub update: Doc<'a>,
}

#[derive(Clone, Copy, Debug)]
pub struct Delete<'a> {
    pub namespace: &'a str,
    pub flags: u32,
    pub selector: Doc<'a>,
}

#[derive(Clone, Copy, Debug)]
pub struct KillCursors<'a> {
    cursors: &'a [[u8; 8]],
}

impl KillCursors<'_> {
    pub fn cursors(&self) -> impl Iterator<Item = i64> {
        self.cursors.iter().map(|bytes| i64::from_le_bytes(*bytes))
    }
}

/// Translation of a command's reply to an OP_REPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    /// The reply itself is the one document.
    Command,
    /// `cursor.firstBatch` are the documents.
    Cursor,
    /// `cursor.nextBatch` are the documents.
    GetMore,
}
