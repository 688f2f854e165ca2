//! Frames with bytes changed at random: never a panic, and what is taken is taken again after a round trip.

use arbor_bson::DocBuf;
use arbor_wire::legacy::{Query, encode_insert};
use arbor_wire::message::Outgoing;
use arbor_wire::{Compressor, Form, Limits, ReplyTo, Scratch, decode};
use proptest::prelude::*;

fn seeds() -> Vec<Vec<u8>> {
    let docs = [DocBuf::new().with("_id", 1).with("s", "text"), DocBuf::new().with("_id", 2i64)];
    let body = DocBuf::new().with("insert", "c").with("$db", "d");
    let mut seeds = vec![Vec::new(); 3];
    let outgoing = Outgoing { request_id: 1, sequences: &[("documents", &docs)], ..Outgoing::default() };
    outgoing.encode(body.as_doc(), &mut seeds[0]);
    let query = docs[0].clone();
    Query { flags: 0, namespace: "d.c", skip: 0, number_to_return: 0, query: query.as_doc(), projection: None }
        .encode(1, &mut seeds[1]);
    encode_insert(1, 0, "d.c", &docs, &mut seeds[2]);
    for compressor in Compressor::ALL {
        let mut frame = Vec::new();
        ReplyTo { request_id: 1, form: Form::Message { checksum: false }, compressor: Some(compressor) }.encode(
            1,
            body.as_doc(),
            &mut frame,
        );
        seeds.push(frame);
    }
    seeds
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn no_change_panics(which in 0usize..7, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut frame = seeds().swap_remove(which);
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        let mut scratch = Scratch::default();
        if let Ok(request) = decode(&frame, &mut scratch, Limits::default()) {
            let reply_to = request.reply_to();
            if let Ok(command) = request.into_command() {
                let _ = command.name().len();
                let documents: usize = command.sequences.iter().map(|sequence| sequence.iter().count()).sum();
                prop_assert_eq!(documents, command.sequences.iter().map(|sequence| sequence.len()).sum::<usize>());
                let mut out = Vec::new();
                reply_to.encode(1, command.body.as_doc(), &mut out);
                prop_assert_eq!(out.is_empty(), !reply_to.wants_answer());
            }
        }
    }
}
