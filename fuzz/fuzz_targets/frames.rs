//! Any bytes as one frame: refused, or a request that becomes a command, whose reply is a frame again.
#![no_main]

use arbor_bson::DocBuf;
use arbor_wire::{Error, Limits, Scratch, decode, frame_length, legacy, peek_command_name};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The length is not what this target is about.
    let mut frame = bytes.to_vec();
    if let Some(length) = frame.first_chunk_mut::<4>() {
        *length = (bytes.len() as u32).to_le_bytes();
    }
    let _ = peek_command_name(&frame);
    let _ = legacy::Reply::decode(&frame);
    let mut scratch = Scratch::default();
    let reply_to = match decode(&frame, &mut scratch, Limits::default()) {
        Ok(request) => {
            let reply_to = request.reply_to();
            if let Ok(command) = request.into_command() {
                let _ = command.name();
                for sequence in &command.sequences {
                    assert_eq!(sequence.iter().count(), sequence.len());
                    sequence.iter().for_each(|doc| assert!(doc.iter().count() <= doc.as_bytes().len()));
                }
            }
            reply_to
        }
        Err(Error::Answer(refusal) | Error::AnswerAndClose(refusal)) => refusal.reply_to,
        Err(Error::Close(_)) => return,
    };
    let mut out = Vec::new();
    reply_to.encode(1, DocBuf::new().with("ok", 1.0).as_doc(), &mut out);
    if reply_to.wants_answer() {
        assert_eq!(frame_length(&out), Ok(Some(out.len())));
    } else {
        assert!(out.is_empty());
    }
});
