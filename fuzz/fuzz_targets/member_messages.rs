//! Any bytes, as a message of another member: refused, or written the same again. What passes is given to a follower as if
//! it had come from its primary.
#![no_main]

use arbor_base::Position;
use arbor_repl::isr::{Action, Envelope, Epochs, Found, Input, Machine, Timing};
use arbor_repl::{Epoch, Identity, MemberId, StoreId};
use libfuzzer_sys::fuzz_target;

const TIMING: Timing = Timing {
    election_ms: 200,
    stagger_ms: 10,
    in_sync_ms: 100,
    beacon_ms: 20,
    retry_ms: 50,
    promise_ms: 200,
    trust_ms: 150,
    hand_over_ms: 300,
    records_max: 10,
};

fuzz_target!(|bytes: &[u8]| {
    let Some(envelope) = Envelope::decode(bytes) else { return };
    assert_eq!(Envelope::decode(&envelope.encode()).as_ref(), Some(&envelope));
    let log = Epochs::new(vec![(Epoch(1), Position(1)), (Epoch(3), Position(5))], Position(9));
    // Nothing is committed yet, so nothing that a primary says contradicts it
    let found = Found { saved: Epoch(3), log, first: Position(1), applied: Position::ZERO };
    let own = Identity { id: MemberId(0), store: StoreId([1; 16]) };
    let mut machine = Machine::open(own, TIMING, found, 1_000);
    let mut out = Vec::new();
    machine.step(1_000, Input::Received { from: envelope.from, message: envelope.message }, &mut out);
    machine.step(2_000, Input::Tick, &mut out);
    assert!(out.len() < 20, "{out:?}");
    for action in out {
        if let Action::Send { to, message } = action {
            let sent = Envelope { from: own.id, to, message };
            assert_eq!(Envelope::decode(&sent.encode()), Some(sent));
        }
    }
});
