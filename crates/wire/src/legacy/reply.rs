//! OP_REPLY: written from a command's reply, read by clients.

use arbor_base::Fields as ByteFields;
use arbor_bson::{Array, Doc, DocBuf, ValueRef};

use super::{Back, flag};
use crate::bytes::take_document;
use crate::{Fault, Header, Opcode, Sequence, message};

const CURSOR_NOT_FOUND: i32 = 43;

/// Appends an OP_REPLY that says what `reply`, a command's reply, says.
pub fn encode_reply(back: Back, reply_id: i32, response_to: i32, reply: Doc<'_>, out: &mut Vec<u8>) {
    let batch = match back {
        Back::Command => return encode_documents(Fields::default(), reply_id, response_to, [reply], out),
        Back::Cursor => "firstBatch",
        Back::GetMore => "nextBatch",
    };
    if let Some((cursor, documents)) = batch_of(reply, batch) {
        return encode_documents(Fields { cursor, ..Fields::default() }, reply_id, response_to, documents, out);
    }
    let code = match reply.get("code") {
        Some(ValueRef::Int32(code)) => code,
        _ => 0,
    };
    if back == Back::GetMore && code == CURSOR_NOT_FOUND {
        let fields = Fields { flags: flag::REPLY_CURSOR_NOT_FOUND, ..Fields::default() };
        return encode_documents(fields, reply_id, response_to, [], out);
    }
    let failure = failure(reply, code);
    let fields = Fields { flags: flag::REPLY_QUERY_FAILURE, ..Fields::default() };
    encode_documents(fields, reply_id, response_to, [failure.as_doc()], out);
}

fn batch_of<'a>(reply: Doc<'a>, batch: &str) -> Option<(i64, impl Iterator<Item = Doc<'a>>)> {
    let Some(ValueRef::Document(cursor)) = reply.get("cursor") else { return None };
    let id = match cursor.get("id") {
        Some(ValueRef::Int64(id)) => id,
        _ => 0,
    };
    let documents = match cursor.get(batch) {
        Some(ValueRef::Array(documents)) => documents,
        _ => Array::empty(),
    };
    let documents = documents.iter().filter_map(|document| match document {
        ValueRef::Document(document) => Some(document),
        _ => None,
    });
    Some((id, documents))
}

/// Errors of queries had the field `$err` before there was a find command.
fn failure(reply: Doc<'_>, code: i32) -> DocBuf {
    let message = match reply.get("errmsg") {
        Some(ValueRef::String(message)) => message,
        _ => "",
    };
    DocBuf::new().with("$err", message).with("code", code).with("ok", 0.0)
}

struct Fields {
    flags: u32,
    cursor: i64,
}

impl Default for Fields {
    fn default() -> Fields {
        Fields { flags: flag::REPLY_AWAIT_CAPABLE, cursor: 0 }
    }
}

fn encode_documents<'a>(
    fields: Fields,
    reply_id: i32,
    response_to: i32,
    documents: impl IntoIterator<Item = Doc<'a>>,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let header = Header { length: 0, request_id: reply_id, response_to, opcode: Opcode::Reply as i32 };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(&fields.flags.to_le_bytes());
    out.extend_from_slice(&fields.cursor.to_le_bytes());
    // Starting from: clients of cursors do not read it, and a getMore's reply does not say it.
    out.extend_from_slice(&0i32.to_le_bytes());
    let count_at = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut count = 0;
    for document in documents {
        out.extend_from_slice(document.as_bytes());
        count += 1;
    }
    message::patch_length(count_at, count, out);
    message::patch_length(start, out.len() - start, out);
}

/// An OP_REPLY as a client reads it.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    pub response_to: i32,
    pub flags: u32,
    pub cursor: i64,
    pub starting_from: i32,
    pub documents: Sequence<'a>,
}

impl<'a> Reply<'a> {
    /// Reads a whole, plain frame.
    pub fn decode(frame: &'a [u8]) -> Result<Reply<'a>, Fault> {
        let header = Header::parse(frame)?;
        if header.opcode != Opcode::Reply as i32 {
            return Err(Fault::Opcode(header.opcode));
        }
        if header.length != frame.len() {
            return Err(Fault::Delivered { announced: header.length, delivered: frame.len() });
        }
        let mut rest = ByteFields::new(frame.get(Header::LEN..).unwrap_or_default());
        let flags = rest.u32().ok_or(Fault::Incomplete)?;
        let cursor = rest.i64().ok_or(Fault::Incomplete)?;
        let starting_from = rest.i32().ok_or(Fault::Incomplete)?;
        let announced = rest.i32().ok_or(Fault::Incomplete)?;
        let (bytes, mut count) = (rest.rest(), 0);
        while !rest.is_at_end() {
            take_document(&mut rest).map_err(|fault| Fault::Legacy(fault.describe().1))?;
            count += 1;
        }
        if usize::try_from(announced) != Ok(count) {
            return Err(Fault::Legacy(format!("{announced} documents announced, {count} delivered")));
        }
        let documents = Sequence::trusted("documents", bytes, count);
        Ok(Reply { response_to: header.response_to, flags, cursor, starting_from, documents })
    }
}
