//! Replies, in the form that their request asks for.

use arbor_bson::{Doc, DocBuf};

use crate::message::{self, Outgoing, flag};
use crate::{Compressor, Header, Opcode, Refusal, compress, legacy};

/// Properties of a request that its reply depends on. It outlives the request's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTo {
    pub request_id: i32,
    pub form: Form,
    /// The answer is compressed as the request was.
    pub compressor: Option<Compressor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// OP_MSG; with a checksum when the request had one.
    Message { checksum: bool },
    /// OP_REPLY; the document is a command's reply and is translated.
    Reply(legacy::Back),
    /// The request takes no answer: OP_MSG with moreToCome, OP_INSERT, OP_UPDATE, OP_DELETE, OP_KILL_CURSORS.
    Nothing,
}

/// Offsets of a reply under construction in its buffer.
#[derive(Debug)]
#[must_use]
pub struct Start {
    frame: usize,
    document: usize,
    more_to_come: bool,
    reply_id: i32,
}

impl ReplyTo {
    /// Reads the form of the reply from the beginning of a message, which is there up to its flags at least. None: not an OP_MSG.
    pub fn of_beginning(head: &[u8]) -> Option<ReplyTo> {
        let header = Header::parse(head).ok().filter(|header| header.opcode == Opcode::Message as i32)?;
        let flags = head.get(Header::LEN..)?.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes))?;
        Some(message::reply_to(&header, flags, None))
    }

    /// False when nothing may be sent.
    pub fn wants_answer(&self) -> bool {
        self.form != Form::Nothing
    }

    /// Appends the whole reply to `out`; nothing if none is requested.
    pub fn encode(&self, reply_id: i32, reply: Doc<'_>, out: &mut Vec<u8>) {
        self.encode_with(reply_id, false, reply, out);
    }

    /// `encode`; `more_to_come` announces that another answer to the same request follows (exhaust).
    pub fn encode_with(&self, reply_id: i32, more_to_come: bool, reply: Doc<'_>, out: &mut Vec<u8>) {
        if !self.wants_answer() {
            return;
        }
        let start = self.begin(reply_id, more_to_come, out);
        out.extend_from_slice(reply.as_bytes());
        self.finish(start, out);
    }

    /// Starts an answer whose document the caller writes itself: append the document's bytes to `out`, then `finish`.
    /// Requires `wants_answer`.
    pub fn begin(&self, reply_id: i32, more_to_come: bool, out: &mut Vec<u8>) -> Start {
        let frame = out.len();
        match self.form {
            Form::Message { .. } => self.outgoing(reply_id, more_to_come).begin(out),
            Form::Reply(_) | Form::Nothing => {}
        }
        Start { frame, document: out.len(), more_to_come, reply_id }
    }

    /// Completes the answer: lengths, checksum, translation to OP_REPLY, compression.
    pub fn finish(&self, start: Start, out: &mut Vec<u8>) {
        match self.form {
            Form::Message { .. } => self.outgoing(start.reply_id, start.more_to_come).finish(start.frame, out),
            Form::Reply(back) => {
                let document = DocBuf::from_trusted(out.split_off(start.document));
                legacy::encode_reply(back, start.reply_id, self.request_id, document.as_doc(), out);
            }
            Form::Nothing => return out.truncate(start.frame),
        }
        if let Some(compressor) = self.compressor {
            // A stream that cannot be packed leaves the plain frame, which every client takes as well.
            let _ = compress::compress(compressor, start.frame, out);
        }
    }

    fn outgoing(&self, reply_id: i32, more_to_come: bool) -> Outgoing<'static> {
        let checksum = matches!(self.form, Form::Message { checksum: true });
        let flags = if more_to_come { flag::MORE_TO_COME } else { 0 };
        Outgoing { request_id: reply_id, response_to: self.request_id, flags, checksum, sequences: &[] }
    }
}

impl Refusal {
    /// The error document of this refusal; `code_name` is looked up by the caller, who knows the table.
    pub fn to_document(&self, code_name: &str) -> DocBuf {
        DocBuf::new()
            .with("ok", 0.0)
            .with("errmsg", self.message.as_str())
            .with("code", self.code)
            .with("codeName", code_name)
    }
}
