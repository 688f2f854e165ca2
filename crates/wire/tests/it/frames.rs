//! OP_MSG: what is taken, what is refused, and how.

use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
use arbor_wire::message::{Outgoing, encode_sequence, flag};
use arbor_wire::{Error, Fault, Form, Header, Limits, Operation, Scratch, decode, peek_command_name};

fn ping() -> DocBuf {
    DocBuf::new().with("ping", 1).with("$db", "admin")
}

/// An OP_MSG whose sections are given as bytes.
fn frame(flags: u32, sections: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Header { length: 0, request_id: 7, response_to: 0, opcode: 2013 }.to_bytes().to_vec();
    bytes.extend_from_slice(&flags.to_le_bytes());
    sections.iter().for_each(|section| bytes.extend_from_slice(section));
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

fn body(doc: &DocBuf) -> Vec<u8> {
    [&[0], doc.as_bytes()].concat()
}

fn sequence(name: &str, docs: &[DocBuf]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_sequence(name, docs, &mut out);
    out
}

/// Returns the server's reaction: "ok", "close", or "answer CODE".
fn verdict(frame: &[u8]) -> String {
    match decode(frame, &mut Scratch::default(), Limits::default()).and_then(|request| request.into_command().map(drop))
    {
        Ok(()) => "ok".to_owned(),
        Err(Error::Close(_)) => "close".to_owned(),
        Err(Error::Answer(refusal)) => {
            assert_eq!(refusal.reply_to.request_id, 7);
            format!("answer {}", refusal.code)
        }
        Err(Error::AnswerAndClose(refusal)) => format!("answer {} and close", refusal.code),
    }
}

fn nested(depth: usize) -> DocBuf {
    (1..depth).fold(DocBuf::new(), |inner, _| DocBuf::new().with("a", &inner))
}

#[test]
fn sections_and_flags() {
    let check = |flags: u32, sections: &[&[u8]], expect: &str| assert_eq!(verdict(&frame(flags, sections)), expect);
    let ping = body(&ping());
    let docs = sequence("documents", &[DocBuf::new()]);
    check(0, &[&ping], "ok");
    check(0, &[&ping, &docs], "ok");
    check(0, &[&docs, &ping], "ok");
    check(flag::MORE_TO_COME | flag::EXHAUST_ALLOWED, &[&ping], "ok");
    // Unknown bits from 16 upwards are hints, below they are demands.
    check(1 << 17 | 1 << 31, &[&ping], "ok");
    check(1 << 2, &[&ping], "answer 223 and close");
    check(1 << 15, &[&ping], "answer 223 and close");
    check(0, &[], "answer 40587");
    check(0, &[&docs], "answer 40587");
    check(0, &[&ping, &ping], "answer 40430");
    check(0, &[&ping, &docs, &docs], "answer 40431");
    check(0, &[&ping, &sequence("ping", &[])], "answer 40433");
    check(0, &[&ping, &[2]], "answer 40432");
    check(0, &[&ping, &[2, 0, 0, 0, 0]], "answer 40432");
    check(0, &[&body(&DocBuf::new().with("ping", 1))], "answer 40571");
    check(0, &[&body(&DocBuf::new().with("ping", 1).with("$db", 5))], "answer 40571");
    check(0, &[&body(&nested(200).with("$db", "a"))], "ok");
    check(0, &[&body(&nested(201).with("$db", "a"))], "answer 15");
}

#[test]
fn sequences_that_lie() {
    let ping = body(&ping());
    let check = |section: &[u8]| assert_eq!(verdict(&frame(0, &[&ping, section])), "answer 22", "{section:?}");
    let good = sequence("d", &[DocBuf::new().with("a", 1)]);
    for size in [-1i32, 0, 3, good.len() as i32 - 2, good.len() as i32, i32::MAX, i32::MIN] {
        let mut lie = good.clone();
        lie[1..5].copy_from_slice(&size.to_le_bytes());
        check(&lie);
    }
    check(&[1]);
    check(&[1, 6, 0, 0, 0, b'd', b'd']);
    check(&[1, 6, 0, 0, 0, 0xFF, 0]);
    check(&[1, 11, 0, 0, 0, b'd', 0, 4, 0, 0, 0, 0]);
}

#[test]
fn every_cut_and_every_wrong_length_is_refused() {
    let whole = frame(0, &[&body(&ping()), &sequence("d", &[DocBuf::new().with("a", 1)])]);
    for cut in 0..whole.len() {
        let mut short = whole[..cut].to_vec();
        assert!(decode(&short, &mut Scratch::default(), Limits::default()).is_err(), "cut at {cut}");
        if cut >= 20 {
            short[..4].copy_from_slice(&(cut as u32).to_le_bytes());
            // A cut right behind the body leaves a good message.
            assert_eq!(verdict(&short) == "ok", cut == 20 + body(&ping()).len(), "cut at {cut}, length right");
        }
    }
    let longer = [&whole[..], &[0]].concat();
    assert_eq!(verdict(&longer), "close");
    let limits = Limits { frame_bytes_max: whole.len() - 1, ..Limits::default() };
    assert!(matches!(decode(&whole, &mut Scratch::default(), limits), Err(Error::Close(Fault::Length { .. }))));
}

#[test]
fn a_document_past_16_mb_is_answered() {
    let large = "x".repeat(16 * 1024 * 1024 + 16 * 1024);
    let doc = DocBuf::new().with("insert", large.as_str()).with("$db", "a");
    assert_eq!(verdict(&frame(0, &[&body(&doc)])), "answer 10334");
}

#[test]
fn documents_of_a_sequence_are_read_in_order() {
    let documents: Vec<DocBuf> = (0..100_001).map(|n| DocBuf::new().with("_id", n)).collect();
    let insert = DocBuf::new().with("insert", "c").with("$db", "d");
    let mut bytes = Vec::new();
    Outgoing { request_id: 7, sequences: &[("documents", &documents)], ..Outgoing::default() }
        .encode(insert.as_doc(), &mut bytes);
    let mut scratch = Scratch::default();
    let command = decode(&bytes, &mut scratch, Limits::default()).unwrap().into_command().unwrap();
    assert_eq!((command.db, command.name(), command.sequences.len()), ("d", "insert", 1));
    assert_eq!((command.sequences[0].name, command.sequences[0].len()), ("documents", 100_001));
    for (n, doc) in command.sequences[0].iter().enumerate() {
        assert!(matches!(doc.get("_id"), Some(ValueRef::Int32(id)) if id as usize == n));
    }
}

#[test]
fn checksums_are_verified_and_returned() {
    let mut bytes = Vec::new();
    Outgoing { request_id: 7, checksum: true, ..Outgoing::default() }.encode(ping().as_doc(), &mut bytes);
    let reply_to = decode(&bytes, &mut Scratch::default(), Limits::default()).unwrap().reply_to();
    assert_eq!(reply_to.form, Form::Message { checksum: true });
    for at in 16..bytes.len() {
        let mut wrong = bytes.clone();
        wrong[at] ^= 0x40;
        assert_ne!(verdict(&wrong), "ok", "byte {at}");
    }
    let mut reply = Vec::new();
    reply_to.encode(9, DocBuf::new().with("ok", 1.0).as_doc(), &mut reply);
    assert_eq!(crc32c_of(&reply[..reply.len() - 4]), reply[reply.len() - 4..]);
    assert_eq!(
        Header::parse(&reply).unwrap(),
        Header { length: reply.len(), request_id: 9, response_to: 7, opcode: 2013 }
    );
    // No room for a checksum at all.
    assert_eq!(verdict(&frame(flag::CHECKSUM_PRESENT, &[&[1, 2, 3]])), "close");
}

/// Bit by bit, so that the table in the library is not checked against itself.
fn crc32c_of(bytes: &[u8]) -> [u8; 4] {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
    let crc = bytes.iter().fold(!0u32, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)));
    (!crc).to_le_bytes()
}

#[test]
fn more_to_come_wants_no_answer() {
    let frame = frame(flag::MORE_TO_COME, &[&body(&ping())]);
    let reply_to = decode(&frame, &mut Scratch::default(), Limits::default()).unwrap().reply_to();
    let mut out = Vec::new();
    reply_to.encode(1, DocBuf::new().as_doc(), &mut out);
    assert!(!reply_to.wants_answer() && out.is_empty());
}

#[test]
fn replies_are_built_in_place_behind_other_bytes() {
    let frame = frame(0, &[&body(&ping())]);
    let reply_to = decode(&frame, &mut Scratch::default(), Limits::default()).unwrap().reply_to();
    let mut out = b"before".to_vec();
    let reply = DocBuf::new().with("ok", 1.0);
    let start = reply_to.begin(3, true, &mut out);
    out.extend_from_slice(reply.as_bytes());
    reply_to.finish(start, &mut out);
    let mut scratch = Scratch::default();
    match decode(&out[6..], &mut scratch, Limits::default()).unwrap().operation {
        Operation::Message(message) => {
            assert!(message.more_to_come());
            assert_eq!(message.body.as_bytes(), reply.as_bytes());
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn unknown_opcodes_close() {
    for opcode in [-1, 0, 1, 3, 1000, 2003, 2008, 2010, 2011, 2014] {
        let mut bytes = frame(0, &[&body(&ping())]);
        bytes[12..16].copy_from_slice(&i32::to_le_bytes(opcode));
        assert_eq!(verdict(&bytes), "close", "{opcode}");
    }
}

#[test]
fn the_name_is_peeked_at_without_decoding() {
    assert_eq!(peek_command_name(&frame(0, &[&body(&ping())])), Some("ping"));
    assert_eq!(peek_command_name(&frame(0, &[&sequence("d", &[]), &body(&ping())])), None);
    assert_eq!(peek_command_name(&frame(0, &[])), None);
    let array: ArrayBuf = (0..200).collect();
    let doc: DocBuf = [("x".repeat(200), &array)].into_iter().collect();
    assert_eq!(peek_command_name(&frame(0, &[&body(&doc)])), None);
}
