//! One frame decoded into a request.

use arbor_bson::{Doc, DocBuf};

use crate::error::code;
use crate::{
    CompressedFault, Compressor, Error, Fault, Form, Header, MESSAGE_BYTES_MAX, Message, Opcode, Refusal, ReplyTo,
    Sequence, compress, legacy, message, must_not_be_compressed,
};

/// Buffer that one connection keeps between its frames, for unpacking compressed frames.
#[derive(Debug, Default)]
pub struct Scratch {
    plain: Vec<u8>,
}

/// A buffer larger than this is released after its frame.
const SCRATCH_KEPT_BYTES: usize = 64 * 1024;

impl Scratch {
    /// Releases a large buffer. To be called after each request.
    pub fn trim(&mut self) {
        if self.plain.capacity() > SCRATCH_KEPT_BYTES {
            self.plain = Vec::new();
        }
    }
}

/// Current limits of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Frames longer than this are refused; 16 KB before authentication.
    pub frame_bytes_max: usize,
    /// OP_COMPRESSED that unpacks to more is refused; 64 KB before authentication.
    pub uncompressed_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { frame_bytes_max: MESSAGE_BYTES_MAX, uncompressed_bytes_max: MESSAGE_BYTES_MAX }
    }
}

/// A request, borrowed from its frame (or from the scratch buffer, if it came compressed).
#[derive(Debug)]
pub struct Request<'a> {
    pub request_id: i32,
    pub compressor: Option<Compressor>,
    pub operation: Operation<'a>,
}

#[derive(Debug)]
pub enum Operation<'a> {
    Message(Message<'a>),
    Query(legacy::Query<'a>),
    GetMore(legacy::GetMore<'a>),
    Insert(legacy::Insert<'a>),
    Update(legacy::Update<'a>),
    Delete(legacy::Delete<'a>),
    KillCursors(legacy::KillCursors<'a>),
}

/// A request in the one shape that `command` knows.
#[derive(Debug)]
pub struct Command<'a> {
    pub db: &'a str,
    pub body: Body<'a>,
    pub sequences: Vec<Sequence<'a>>,
    /// The client takes further replies to this request (exhaustAllowed).
    pub exhaust_allowed: bool,
    pub reply_to: ReplyTo,
}

/// The command document: the client's own, or one made from a legacy opcode.
#[derive(Debug)]
pub enum Body<'a> {
    Borrowed(Doc<'a>),
    Owned(DocBuf),
}

impl Body<'_> {
    pub fn as_doc(&self) -> Doc<'_> {
        match self {
            Body::Borrowed(doc) => *doc,
            Body::Owned(doc) => doc.as_doc(),
        }
    }
}

impl Command<'_> {
    /// The first field's name; empty for an empty document.
    pub fn name(&self) -> &str {
        self.body.as_doc().first().map_or("", |(name, _)| name)
    }
}

/// Returns the uncompressed size that a compressed frame announces; 0 for any other frame.
pub fn unpacked_bytes(frame: &[u8]) -> usize {
    match Header::parse(frame) {
        Ok(header) if header.opcode == Opcode::Compressed as i32 => compress::announced_bytes(frame).unwrap_or(0),
        _ => 0,
    }
}

/// Decodes one whole frame. Every document in it is validated.
pub fn decode<'a>(frame: &'a [u8], scratch: &'a mut Scratch, limits: Limits) -> Result<Request<'a>, Error> {
    let header = Header::parse(frame)?;
    if header.length != frame.len() {
        return Err(Fault::Delivered { announced: header.length, delivered: frame.len() }.into());
    }
    if frame.len() > limits.frame_bytes_max {
        return Err(Fault::Length { announced: frame.len() as i32 }.into());
    }
    if header.opcode != Opcode::Compressed as i32 {
        return decode_plain(frame, header, None);
    }
    let compressor = compress::decompress(frame, limits.uncompressed_bytes_max, &mut scratch.plain)?;
    let request = decode_plain(&scratch.plain, Header::parse(&scratch.plain)?, Some(compressor))?;
    match request.command_name() {
        Some(name) if must_not_be_compressed(name) => {
            Err(Fault::from(CompressedFault::Command(name.to_owned())).into())
        }
        _ => Ok(request),
    }
}

fn decode_plain(frame: &[u8], header: Header, compressor: Option<Compressor>) -> Result<Request<'_>, Error> {
    let operation = match Opcode::parse(header.opcode) {
        Some(Opcode::Message) => Operation::Message(message::decode(frame, compressor)?),
        Some(Opcode::Reply | Opcode::Compressed) => return Err(Fault::NotARequest(header.opcode).into()),
        Some(opcode) => legacy::decode(opcode, frame, &header, compressor)?,
        None => return Err(Fault::Opcode(header.opcode).into()),
    };
    Ok(Request { request_id: header.request_id, compressor, operation })
}

impl<'a> Request<'a> {
    /// The command's name for OP_MSG and for OP_QUERY on `$cmd`.
    pub fn command_name(&self) -> Option<&'a str> {
        match &self.operation {
            Operation::Message(message) => message.body.first().map(|(name, _)| name),
            Operation::Query(query) => query.command().and_then(|command| command.first()).map(|(name, _)| name),
            _ => None,
        }
    }

    pub fn reply_to(&self) -> ReplyTo {
        let form = match &self.operation {
            Operation::Message(message) => {
                let header = Header { length: 0, request_id: self.request_id, response_to: 0, opcode: 0 };
                return message::reply_to(&header, message.flags, self.compressor);
            }
            Operation::Query(query) => Form::Reply(query.back()),
            Operation::GetMore(_) => Form::Reply(legacy::Back::GetMore),
            Operation::Insert(_) | Operation::Update(_) | Operation::Delete(_) | Operation::KillCursors(_) => {
                Form::Nothing
            }
        };
        ReplyTo { request_id: self.request_id, form, compressor: self.compressor }
    }

    /// Gives the request the shape of a command, whatever its opcode.
    pub fn into_command(self) -> Result<Command<'a>, Error> {
        let reply_to = self.reply_to();
        let refuse = |code, message| Error::Answer(Refusal { code, message, reply_to });
        match self.operation {
            Operation::Message(message) => {
                let missing = || refuse(code::NO_DATABASE, "OP_MSG requests require a $db argument".to_owned());
                let db = message.db().ok_or_else(missing)?;
                let exhaust_allowed = message.exhaust_allowed();
                let (body, sequences) = (Body::Borrowed(message.body), message.sequences);
                Ok(Command { db, body, sequences, exhaust_allowed, reply_to })
            }
            operation => {
                let legacy::Translated { db, body, sequences } =
                    legacy::to_command(&operation).map_err(|(code, message)| refuse(code, message))?;
                Ok(Command { db, body, sequences, exhaust_allowed: false, reply_to })
            }
        }
    }
}
