//! OP_COMPRESSED: round trips, and every lie of distributed.md 4.2 item 2.

use arbor_bson::DocBuf;
use arbor_wire::message::Outgoing;
use arbor_wire::{CompressedFault, Compressor, Error, Fault, Header, Limits, ReplyTo, Scratch, decode};

/// A frame with these fields, whatever they say.
fn frame(opcode: i32, announced: i64, compressor: u8, stream: &[u8]) -> Vec<u8> {
    let length = 25 + stream.len();
    let mut bytes = Header { length, request_id: 7, response_to: 0, opcode: 2012 }.to_bytes().to_vec();
    bytes.extend_from_slice(&opcode.to_le_bytes());
    bytes.extend_from_slice(&(announced as i32).to_le_bytes());
    bytes.push(compressor);
    bytes.extend_from_slice(stream);
    bytes
}

/// An OP_MSG without its header.
fn plain(doc: &DocBuf) -> Vec<u8> {
    let mut bytes = Vec::new();
    Outgoing { request_id: 7, ..Outgoing::default() }.encode(doc.as_doc(), &mut bytes);
    bytes.split_off(16)
}

/// Streams made by the libraries, not by the code under test.
fn stream(compressor: Compressor, plain: &[u8]) -> Vec<u8> {
    use std::io::Write;
    match compressor {
        Compressor::Noop => plain.to_vec(),
        Compressor::Snappy => snap::raw::Encoder::new().compress_vec(plain).unwrap(),
        Compressor::Zlib => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        Compressor::Zstd => zstd::bulk::compress(plain, 3).unwrap(),
    }
}

fn ping(text: &str) -> DocBuf {
    DocBuf::new().with("ping", 1).with("comment", text).with("$db", "admin")
}

fn fault(frame: &[u8], limits: Limits) -> CompressedFault {
    match decode(frame, &mut Scratch::default(), limits) {
        Err(Error::Close(Fault::Compressed(fault))) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_compressor_there_and_back() {
    let text = "all work and no play ".repeat(5000);
    let mut scratch = Scratch::default();
    for compressor in Compressor::ALL {
        for text in ["", "a", &text] {
            let plain = plain(&ping(text));
            let bytes = frame(2013, plain.len() as i64, compressor as u8, &stream(compressor, &plain));
            let command = decode(&bytes, &mut scratch, Limits::default()).unwrap().into_command().unwrap();
            assert_eq!(command.body.as_doc().as_bytes(), ping(text).as_bytes());
            assert_eq!(command.reply_to.compressor, Some(compressor));
            // The reply comes compressed as the request did, and is a frame that decodes again.
            let mut reply = Vec::new();
            command.reply_to.encode(8, ping(text).as_doc(), &mut reply);
            assert_eq!(Header::parse(&reply).unwrap().opcode, 2012);
            let again = decode(&reply, &mut scratch, Limits::default()).unwrap().into_command().unwrap();
            assert_eq!(again.body.as_doc().as_bytes(), ping(text).as_bytes());
        }
    }
}

#[test]
fn the_announced_size_is_exact_or_the_frame_is_refused() {
    let plain = plain(&ping(&"x".repeat(300)));
    for compressor in Compressor::ALL {
        let stream = stream(compressor, &plain);
        for lie in [-300i64, -1, 1, 2, 1000, 100_000] {
            let announced = plain.len() as i64 + lie;
            let fault = fault(&frame(2013, announced, compressor as u8, &stream), Limits::default());
            let expected = matches!(
                fault,
                CompressedFault::Produced { .. } | CompressedFault::Stream(_) | CompressedFault::Size { .. }
            );
            assert!(expected, "{compressor:?} {lie}: {fault:?}");
        }
    }
}

#[test]
fn limits_hold_before_anything_is_unpacked() {
    let tiny = [0u8; 40];
    let preauth = Limits { uncompressed_bytes_max: 64 * 1024, ..Limits::default() };
    for compressor in Compressor::ALL {
        let check = |announced: i64, limits: Limits| fault(&frame(2013, announced, compressor as u8, &tiny), limits);
        assert!(matches!(check(-1, Limits::default()), CompressedFault::Size { .. }));
        assert!(matches!(check(i64::from(i32::MIN), Limits::default()), CompressedFault::Size { .. }));
        assert!(matches!(check(48_000_000, Limits::default()), CompressedFault::Size { .. }));
        assert!(matches!(check(64 * 1024 + 1, preauth), CompressedFault::Size { .. }));
        assert!(matches!(check(40_000_000, Limits::default()), CompressedFault::Ratio { .. }));
    }
    // The ratio is about what is announced: a real bomb of 2 MB of equal bytes is refused as well.
    let bomb = plain(&ping(&"\0".repeat(2 << 20)));
    let packed = stream(Compressor::Zstd, &bomb);
    assert!(packed.len() * 1000 < bomb.len());
    let bomb = frame(2013, bomb.len() as i64, 3, &packed);
    assert!(matches!(fault(&bomb, Limits::default()), CompressedFault::Ratio { .. }));
}

#[test]
fn opcodes_and_compressors_that_are_not_taken() {
    let plain = plain(&ping(""));
    for opcode in [2012, 0, -1, 1000, 2003, 2010, 2014] {
        let bytes = frame(opcode, plain.len() as i64, 0, &plain);
        assert_eq!(fault(&bytes, Limits::default()), CompressedFault::Opcode(opcode));
    }
    for compressor in [4, 5, 255] {
        let bytes = frame(2013, plain.len() as i64, compressor, &plain);
        assert_eq!(fault(&bytes, Limits::default()), CompressedFault::Compressor(compressor));
    }
    // A reply is no request, compressed or not.
    let reply = frame(1, 20, 0, &[0; 20]);
    assert!(matches!(
        decode(&reply, &mut Scratch::default(), Limits::default()),
        Err(Error::Close(Fault::NotARequest(1)))
    ));
}

#[test]
fn nothing_may_follow_the_stream() {
    let plain = plain(&ping("text"));
    for compressor in Compressor::ALL {
        let mut longer = stream(compressor, &plain);
        longer.push(0);
        let bytes = frame(2013, plain.len() as i64, compressor as u8, &longer);
        let fault = fault(&bytes, Limits::default());
        match compressor {
            Compressor::Zlib | Compressor::Zstd => assert_eq!(fault, CompressedFault::Trailing(1)),
            Compressor::Noop => assert!(matches!(fault, CompressedFault::Produced { .. })),
            Compressor::Snappy => assert!(matches!(fault, CompressedFault::Stream(_)), "{fault:?}"),
        }
    }
    // A second zstd frame would add nothing to the size when it is empty.
    let twice = [stream(Compressor::Zstd, &plain), stream(Compressor::Zstd, &[])].concat();
    assert!(matches!(
        fault(&frame(2013, plain.len() as i64, 3, &twice), Limits::default()),
        CompressedFault::Trailing(_)
    ));
}

#[test]
fn every_cut_stream_is_refused() {
    let plain = plain(&ping("some text that is long enough to be packed, packed, packed, packed"));
    for compressor in Compressor::ALL {
        let stream = stream(compressor, &plain);
        for cut in 0..stream.len() {
            let bytes = frame(2013, plain.len() as i64, compressor as u8, &stream[..cut]);
            assert!(decode(&bytes, &mut Scratch::default(), Limits::default()).is_err(), "{compressor:?} {cut}");
        }
    }
    for cut in 16..25 {
        let mut bytes = frame(2013, 1, 0, &[])[..cut].to_vec();
        bytes[0] = cut as u8;
        assert!(matches!(
            decode(&bytes, &mut Scratch::default(), Limits::default()),
            Err(Error::Close(Fault::Incomplete))
        ));
    }
}

#[test]
fn zstd_windows_dictionaries_and_skippable_frames() {
    let magic = 0xFD2F_B528u32.to_le_bytes();
    let check = |rest: &[u8]| fault(&frame(2013, 100, 3, &[&magic, rest].concat()), Limits::default());
    // Window descriptor: exponent 3 bits up, mantissa below. 13 << 3 is 8 MiB, one step more is too much.
    assert!(matches!(check(&[0, 13 << 3, 1, 0, 0]), CompressedFault::Produced { .. } | CompressedFault::Stream(_)));
    assert_eq!(check(&[0, 13 << 3 | 1, 1, 0, 0]), CompressedFault::Window { bytes: 9 << 20 });
    assert!(matches!(check(&[0, 31 << 3 | 7, 1, 0, 0]), CompressedFault::Window { .. }));
    for flag in 1..=3 {
        assert_eq!(check(&[flag, 0, 1, 0, 0, 0, 0, 0]), CompressedFault::Dictionary);
    }
    let skippable = [0x184D_2A50u32.to_le_bytes(), 4u32.to_le_bytes(), [0; 4]].concat();
    assert!(matches!(fault(&frame(2013, 0, 3, &skippable), Limits::default()), CompressedFault::Stream(_)));

    // A real stream with a window of 16 MiB.
    let plain = plain(&ping(&"0123456789".repeat(2_000)));
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(24).unwrap();
    std::io::Write::write_all(&mut encoder, &plain).unwrap();
    let stream = encoder.finish().unwrap();
    assert_eq!(
        fault(&frame(2013, plain.len() as i64, 3, &stream), Limits::default()),
        CompressedFault::Window { bytes: 16 << 20 }
    );
}

#[test]
fn commands_with_secrets_must_not_come_compressed() {
    for name in ["hello", "isMaster", "ismaster", "saslStart", "saslContinue", "authenticate", "createUser"] {
        let doc = DocBuf::new().with(name, 1).with("$db", "admin");
        let plain = plain(&doc);
        let bytes = frame(2013, plain.len() as i64, 0, &plain);
        assert_eq!(fault(&bytes, Limits::default()), CompressedFault::Command(name.to_owned()));
    }
}

#[test]
fn a_reply_to_nothing_stays_nothing() {
    let reply_to = ReplyTo { request_id: 1, form: arbor_wire::Form::Nothing, compressor: Some(Compressor::Zstd) };
    let mut out = vec![1, 2, 3];
    reply_to.encode(1, DocBuf::new().as_doc(), &mut out);
    assert_eq!(out, [1, 2, 3]);
}
