//! Writing the legacy requests, as a client of their time would.

use arbor_bson::{Doc, DocBuf};

use super::{Delete, GetMore, Query, Update};
use crate::{Header, Opcode, message};

/// Appends one message: the header, what `fields` appends, the right length.
fn message(opcode: Opcode, request_id: i32, out: &mut Vec<u8>, fields: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    let header = Header { length: 0, request_id, response_to: 0, opcode: opcode as i32 };
    out.extend_from_slice(&header.to_bytes());
    fields(out);
    message::patch_length(start, out.len() - start, out);
}

fn int(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn bits(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Requires a namespace without NUL.
fn cstr(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

fn document(out: &mut Vec<u8>, document: Doc<'_>) {
    out.extend_from_slice(document.as_bytes());
}

impl Query<'_> {
    pub fn encode(&self, request_id: i32, out: &mut Vec<u8>) {
        message(Opcode::Query, request_id, out, |out| {
            bits(out, self.flags);
            cstr(out, self.namespace);
            int(out, self.skip);
            int(out, self.number_to_return);
            document(out, self.query);
            if let Some(projection) = self.projection {
                document(out, projection);
            }
        });
    }
}

impl GetMore<'_> {
    pub fn encode(&self, request_id: i32, out: &mut Vec<u8>) {
        message(Opcode::GetMore, request_id, out, |out| {
            int(out, 0);
            cstr(out, self.namespace);
            int(out, self.number_to_return);
            out.extend_from_slice(&self.cursor.to_le_bytes());
        });
    }
}

impl Update<'_> {
    pub fn encode(&self, request_id: i32, out: &mut Vec<u8>) {
        message(Opcode::Update, request_id, out, |out| {
            int(out, 0);
            cstr(out, self.namespace);
            bits(out, self.flags);
            document(out, self.selector);
            document(out, self.update);
        });
    }
}

impl Delete<'_> {
    pub fn encode(&self, request_id: i32, out: &mut Vec<u8>) {
        message(Opcode::Delete, request_id, out, |out| {
            int(out, 0);
            cstr(out, self.namespace);
            bits(out, self.flags);
            document(out, self.selector);
        });
    }
}

/// Appends an OP_INSERT.
pub fn insert(request_id: i32, flags: u32, namespace: &str, documents: &[DocBuf], out: &mut Vec<u8>) {
    message(Opcode::Insert, request_id, out, |out| {
        bits(out, flags);
        cstr(out, namespace);
        for each in documents {
            document(out, each.as_doc());
        }
    });
}

/// Appends an OP_KILL_CURSORS.
pub fn kill_cursors(request_id: i32, cursors: &[i64], out: &mut Vec<u8>) {
    message(Opcode::KillCursors, request_id, out, |out| {
        int(out, 0);
        int(out, cursors.len() as i32);
        for cursor in cursors {
            out.extend_from_slice(&cursor.to_le_bytes());
        }
    });
}
