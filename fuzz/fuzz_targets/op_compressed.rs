//! Any bytes as the stream of an OP_COMPRESSED frame, for each compressor and several announced sizes. What is taken
//! must be a request that came from exactly the announced bytes; packing those bytes gives a frame that is taken too.
#![no_main]

use arbor_wire::{Header, Limits, Scratch, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[compressor, low, high], stream)) = bytes.split_first_chunk::<3>() else { return };
    let announced = u32::from(u16::from_le_bytes([low, high]));
    let mut scratch = Scratch::default();
    // Also the size the stream itself announces, for snappy and zstd, so that the fuzzer gets past the first check.
    let own = snap::raw::decompress_len(stream).ok().and_then(|size| u32::try_from(size).ok());
    let zstd = zstd::zstd_safe::get_frame_content_size(stream).ok().flatten().and_then(|size| u32::try_from(size).ok());
    for size in [Some(announced), own, zstd, Some(stream.len() as u32)].into_iter().flatten() {
        let length = 25 + stream.len();
        let mut frame = Header { length, request_id: 1, response_to: 0, opcode: 2012 }.to_bytes().to_vec();
        frame.extend_from_slice(&2013i32.to_le_bytes());
        frame.extend_from_slice(&size.to_le_bytes());
        frame.push(compressor % 5);
        frame.extend_from_slice(stream);
        let Ok(request) = decode(&frame, &mut scratch, Limits::default()) else { continue };
        let reply_to = request.reply_to();
        let Ok(command) = request.into_command() else { continue };
        let body = command.body.as_doc().to_buf();
        assert!(body.as_bytes().len() <= size as usize, "no more is read than was announced");
        let mut again = Vec::new();
        reply_to.encode(1, body.as_doc(), &mut again);
        if reply_to.wants_answer() {
            let mut scratch = Scratch::default();
            let request = decode(&again, &mut scratch, Limits::default()).expect("our own frames are taken");
            let command = request.into_command().expect("its body is the one that was taken before");
            assert_eq!(command.body.as_doc().as_bytes(), body.as_bytes());
        }
    }
});
