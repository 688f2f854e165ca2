//! OP_MSG.
//!
//! | offset | size | what |
//! |---|---|---|
//! | 0 | 16 | header |
//! | 16 | 4 | flag bits, u32; unknown bits 0..16 are an error, unknown bits 16..32 are ignored |
//! | 20 | ... | sections |
//! | end - 4 | 4 | CRC-32C of everything before it, when bit 0 is set |
//!
//! Section kind 0 is one document, the body; a message has exactly one. Kind 1 is a document sequence: i32 size (counts
//! itself), the field's name as C string, documents up to the size. All documents are validated here, once.

use arbor_base::Fields;
use arbor_bson::{Doc, DocBuf, ValueRef};

use crate::bytes::{take_document, take_text};
use crate::error::code;
use crate::{Compressor, Error, Fault, Form, Header, Opcode, Refusal, ReplyTo};

/// The bits of OP_MSG that mean something.
pub mod flag {
    pub const CHECKSUM_PRESENT: u32 = 1;
    pub const MORE_TO_COME: u32 = 1 << 1;
    pub const EXHAUST_ALLOWED: u32 = 1 << 16;
    pub(super) const REQUIRED: u32 = 0xFFFF;
}

const KIND_BODY: u8 = 0;
const KIND_SEQUENCE: u8 = 1;

/// One OP_MSG, borrowed from its frame.
#[derive(Debug)]
pub struct Message<'a> {
    pub flags: u32,
    pub body: Doc<'a>,
    pub sequences: Vec<Sequence<'a>>,
}

/// The documents of one kind 1 section, which replace an array field `name` of the body.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a> {
    pub name: &'a str,
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Message<'a> {
    /// The sender wants no answer.
    pub fn more_to_come(&self) -> bool {
        self.flags & flag::MORE_TO_COME != 0
    }

    /// The sender takes several answers to this one request.
    pub fn exhaust_allowed(&self) -> bool {
        self.flags & flag::EXHAUST_ALLOWED != 0
    }

    /// `$db`, when it is there and a string.
    pub fn db(&self) -> Option<&'a str> {
        match self.body.get("$db") {
            Some(ValueRef::String(db)) => Some(db),
            _ => None,
        }
    }

    pub fn sequence(&self, name: &str) -> Option<Sequence<'a>> {
        self.sequences.iter().find(|sequence| sequence.name == name).copied()
    }
}

impl<'a> Sequence<'a> {
    /// Requires `count` validated documents, one behind the other.
    pub(crate) fn trusted(name: &'a str, bytes: &'a [u8], count: usize) -> Sequence<'a> {
        Sequence { name, bytes, count }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The documents, which were validated when the frame was decoded.
    pub fn iter(&self) -> impl Iterator<Item = Doc<'a>> + Clone + use<'a> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || {
            let length = u32::from_le_bytes(*rest.first_chunk()?) as usize;
            let (document, tail) = rest.split_at_checked(length).filter(|(document, _)| !document.is_empty())?;
            rest = tail;
            Some(Doc::trusted(document))
        })
    }
}

/// Reads an OP_MSG from a whole, plain frame.
pub(crate) fn decode(frame: &[u8], compressor: Option<Compressor>) -> Result<Message<'_>, Error> {
    let header = Header::parse(frame)?;
    let mut rest = Fields::new(frame.get(Header::LEN..).unwrap_or_default());
    let flags = rest.u32().ok_or(Fault::Incomplete)?;
    let sender = Sender { header, flags, compressor };
    let unknown = flags & flag::REQUIRED & !(flag::CHECKSUM_PRESENT | flag::MORE_TO_COME);
    if unknown != 0 {
        let message = format!("Message contains illegal flags value: {unknown:#b}");
        return Err(Error::AnswerAndClose(sender.refusal(code::ILLEGAL_OP_MSG_FLAG, message)));
    }
    if flags & flag::CHECKSUM_PRESENT != 0 {
        rest = Fields::new(verified(frame, rest.rest())?);
    }
    sections(rest, &sender)
}

/// The command's name in an OP_MSG frame, without checking more than it takes to find it: for deciding where a request
/// runs. `None` when the frame is no OP_MSG that begins with its body (then look closer, or assume the worst).
pub fn peek_command_name(frame: &[u8]) -> Option<&str> {
    const NAME: usize = Header::LEN + 4 + 1 + 4 + 1;
    let header = Header::parse(frame).ok()?;
    if header.opcode != Opcode::Message as i32 || *frame.get(Header::LEN + 4)? != KIND_BODY {
        return None;
    }
    let name = frame.get(NAME..)?;
    let end = name.iter().take(128).position(|byte| *byte == 0)?;
    std::str::from_utf8(name.get(..end)?).ok()
}

/// Returns the flags of a plain OP_MSG and the bytes of its sections, without the checksum, which is checked.
pub fn sections_of(frame: &[u8]) -> Result<(u32, &[u8]), Fault> {
    let mut rest = Fields::new(frame.get(Header::LEN..).unwrap_or_default());
    let flags = rest.u32().ok_or(Fault::Incomplete)?;
    let sections = if flags & flag::CHECKSUM_PRESENT != 0 { verified(frame, rest.rest())? } else { rest.rest() };
    Ok((flags, sections))
}

/// Checks the CRC-32C at the end of `frame` and gives `sections` without it.
fn verified<'a>(frame: &'a [u8], sections: &'a [u8]) -> Result<&'a [u8], Fault> {
    let (sections, _) = sections.split_last_chunk::<4>().ok_or(Fault::Incomplete)?;
    let (summed, found) = frame.split_last_chunk::<4>().ok_or(Fault::Incomplete)?;
    let (found, computed) = (u32::from_le_bytes(*found), crc32c::crc32c(summed));
    if found == computed { Ok(sections) } else { Err(Fault::Checksum { found, computed }) }
}

fn sections<'a>(mut rest: Fields<'a>, sender: &Sender) -> Result<Message<'a>, Error> {
    let mut body: Option<Doc<'a>> = None;
    let mut sequences: Vec<Sequence<'a>> = Vec::new();
    while let Some(kind) = rest.u8() {
        match kind {
            KIND_BODY if body.is_some() => {
                return Err(sender.answer(code::MULTIPLE_BODIES, "Multiple body sections in message".to_owned()));
            }
            KIND_BODY => body = Some(take_document(&mut rest).map_err(|fault| sender.document(&fault))?),
            KIND_SEQUENCE => {
                let sequence = sequence(&mut rest, sender)?;
                if sequences.iter().any(|earlier| earlier.name == sequence.name) {
                    let message = format!("Duplicate document sequence: {}", sequence.name);
                    return Err(sender.answer(code::DUPLICATE_SEQUENCE, message));
                }
                sequences.push(sequence);
            }
            kind => return Err(sender.answer(code::UNKNOWN_SECTION, format!("Unknown section kind {kind}"))),
        }
    }
    let body = body
        .ok_or_else(|| sender.answer(code::NO_BODY, "OP_MSG messages must have exactly one body section".to_owned()))?;
    if let Some(twice) = sequences.iter().find(|sequence| body.get(sequence.name).is_some()) {
        let message = format!("Duplicate field between body and document sequence {}", twice.name);
        return Err(sender.answer(code::SEQUENCE_IN_BODY, message));
    }
    Ok(Message { flags: sender.flags, body, sequences })
}

fn sequence<'a>(rest: &mut Fields<'a>, sender: &Sender) -> Result<Sequence<'a>, Error> {
    let wrong = |what: &str| sender.answer(code::INVALID_BSON, format!("document sequence: {what}"));
    let size = rest.i32().ok_or_else(|| wrong("no size"))?;
    let length =
        usize::try_from(size).ok().and_then(|size| size.checked_sub(4)).ok_or_else(|| wrong("negative size"))?;
    let mut section = Fields::new(rest.bytes(length).ok_or_else(|| wrong("size exceeds the message"))?);
    let name = take_text(&mut section).ok_or_else(|| wrong("its name does not end or is not UTF-8"))?;
    let (bytes, mut count) = (section.rest(), 0);
    while !section.is_at_end() {
        take_document(&mut section).map_err(|fault| sender.document(&fault))?;
        count += 1;
    }
    Ok(Sequence { name, bytes, count })
}

/// Sender of a frame, for error replies.
struct Sender {
    header: Header,
    flags: u32,
    compressor: Option<Compressor>,
}

impl Sender {
    fn refusal(&self, code: i32, message: String) -> Refusal {
        Refusal { code, message, reply_to: reply_to(&self.header, self.flags, self.compressor) }
    }

    fn answer(&self, code: i32, message: String) -> Error {
        Error::Answer(self.refusal(code, message))
    }

    fn document(&self, fault: &crate::bytes::DocumentFault) -> Error {
        let (code, message) = fault.describe();
        self.answer(code, message)
    }
}

pub(crate) fn reply_to(header: &Header, flags: u32, compressor: Option<Compressor>) -> ReplyTo {
    let checksum = flags & flag::CHECKSUM_PRESENT != 0 && compressor.is_none();
    let form = if flags & flag::MORE_TO_COME != 0 { Form::Nothing } else { Form::Message { checksum } };
    ReplyTo { request_id: header.request_id, form, compressor }
}

/// An OP_MSG to be written: what a client sends, and what tests build.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outgoing<'a> {
    pub request_id: i32,
    pub response_to: i32,
    /// The checksum's bit is set by `checksum`.
    pub flags: u32,
    pub checksum: bool,
    pub sequences: &'a [(&'a str, &'a [DocBuf])],
}

impl Outgoing<'_> {
    /// Appends the message to `out`.
    pub fn encode(&self, body: Doc<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        self.begin(out);
        out.extend_from_slice(body.as_bytes());
        for (name, documents) in self.sequences {
            encode_sequence(name, documents, out);
        }
        self.finish(start, out);
    }

    /// Appends everything before the body's bytes.
    pub fn begin(&self, out: &mut Vec<u8>) {
        let header = Header {
            length: 0,
            request_id: self.request_id,
            response_to: self.response_to,
            opcode: Opcode::Message as i32,
        };
        out.extend_from_slice(&header.to_bytes());
        let flags = if self.checksum { self.flags | flag::CHECKSUM_PRESENT } else { self.flags };
        out.extend_from_slice(&flags.to_le_bytes());
        out.push(KIND_BODY);
    }

    /// Completes the message that `begin` started at `start`: its length, and the checksum behind it.
    pub fn finish(&self, start: usize, out: &mut Vec<u8>) {
        let length = out.len() - start + if self.checksum { 4 } else { 0 };
        patch_length(start, length, out);
        if self.checksum {
            let sum = crc32c::crc32c(out.get(start..).unwrap_or_default());
            out.extend_from_slice(&sum.to_le_bytes());
        }
    }
}

/// Appends a kind 1 section.
pub fn encode_sequence(name: &str, documents: &[DocBuf], out: &mut Vec<u8>) {
    out.push(KIND_SEQUENCE);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    for document in documents {
        out.extend_from_slice(document.as_bytes());
    }
    patch_length(start, out.len() - start, out);
}

/// Writes `length` over the four bytes at `start`.
pub fn patch_length(start: usize, length: usize, out: &mut [u8]) {
    if let Some(place) = out.get_mut(start..).and_then(|tail| tail.first_chunk_mut::<4>()) {
        *place = (length as u32).to_le_bytes();
    }
}
