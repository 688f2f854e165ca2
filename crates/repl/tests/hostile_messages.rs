//! Messages that no correct member sends: a machine refuses them, and replies with a bounded number of messages that can be
//! written. A message that contradicts what is committed, or that claims this member's own epoch, ends at the assertion of a
//! rule, before anything is lost.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arbor_base::{Position, Random};
use arbor_bson::DocBuf;
use arbor_repl::isr::{
    Action, Envelope, Epochs, Fetch, Found, Input, Machine, Message, Place, ReadOutcome, Records, Timing,
};
use arbor_repl::{Agreement, Epoch, Identity, MemberId, Replaced, StoreId, Version, Voter};

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
const OWN: Identity = Identity { id: MemberId(0), store: StoreId([1; 16]) };

/// The rules at which a lie about history may end.
const RULES: [&str; 3] =
    ["R1: one primary per epoch", "R6: what matched is never cut", "R7: what is committed is never cut"];

fn machine() -> Machine {
    let log = Epochs::new(vec![(Epoch(1), Position(1)), (Epoch(3), Position(5))], Position(9));
    Machine::open(OWN, TIMING, Found { saved: Epoch(3), log, first: Position(2), applied: Position(4) }, 1_000)
}

/// Leads epoch 4, with two other members.
fn primary() -> Machine {
    let voters = (0..3).map(|id| Voter { id: MemberId(id), may_lead: true }).collect();
    let mut agreement = Agreement::founding(OWN, voters, &DocBuf::new());
    (agreement.epoch, agreement.primary) = (Epoch(3), None);
    let mut agreed = (Version(1), agreement);
    let mut machine = machine();
    for now in (1_000..3_000).step_by(10) {
        let mut out = Vec::new();
        machine.step(now, Input::Tick, &mut out);
        while let Some(action) = out.pop() {
            let input = match action {
                Action::Read { ticket } => {
                    let (version, agreement) = agreed.clone();
                    Input::Read { ticket, outcome: ReadOutcome::Found(version, agreement) }
                }
                Action::Replace { ticket, next, .. } => {
                    agreed = (Version(agreed.0.0 + 1), next);
                    Input::Replaced { ticket, outcome: Replaced::Done(agreed.0) }
                }
                _ => continue,
            };
            machine.step(now, input, &mut out);
        }
    }
    assert!(machine.is_primary());
    machine
}

fn number(random: &mut Random) -> u64 {
    *random.pick(&[0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 1 << 40, i64::MAX as u64 / 2])
}

fn place(random: &mut Random) -> Place {
    Place { epoch: Epoch(number(random)), position: Position(number(random)) }
}

fn message(random: &mut Random) -> Message {
    let (epoch, serial) = (Epoch(number(random)), number(random));
    let loads = (0..random.below(4)).map(|_| number(random)).collect();
    match random.below(8) {
        0 => Message::Fetch(Fetch {
            chained: random.one_in(2),
            full: random.one_in(2),
            epoch,
            store: StoreId([random.below(4) as u8; 16]),
            serial,
            after: place(random),
            durable: Position(number(random)),
            promise: number(random),
            loads,
        }),
        kind @ 1..4 => {
            let records = Records {
                epoch,
                serial,
                after: place(random),
                of: Epoch(number(random)),
                payloads: (0..random.below(5)).map(|_| vec![7; random.below(9) as usize]).collect(),
                commit: Position(number(random)),
                sent: number(random),
                loads,
            };
            if kind < 3 { Message::Records(records) } else { Message::Relayed(records) }
        }
        4 => Message::Relay { epoch, serial, after: place(random) },
        5 => Message::Diverged { epoch, serial, after: place(random), keep: place(random) },
        6 => Message::TooOld { epoch, serial },
        _ if random.one_in(2) => Message::Lead { epoch },
        _ => Message::NotPrimary { epoch },
    }
}

/// Sends a machine messages until it refuses one; returns the number that it took.
fn attack(mut machine: Machine, random: &mut Random) -> u64 {
    let mut now = 4_000;
    for taken in 0..40 {
        let (from, to) = (MemberId(random.below(5) as u32), MemberId(0));
        let bytes = Envelope { from, to, message: message(random) }.encode();
        let Some(envelope) = Envelope::decode(&bytes) else { continue };
        now += random.below(30);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut out = Vec::new();
            let durable = machine.log_end();
            machine.step(now, Input::Received { from, message: envelope.message.clone() }, &mut out);
            machine.step(now, Input::Synced(durable.min(machine.log_end())), &mut out);
            machine.step(now, Input::Tick, &mut out);
            out
        }));
        let out = match outcome {
            Ok(out) => out,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map_or("", String::as_str);
                assert!(RULES.iter().any(|rule| text.starts_with(rule)), "{envelope:?}: {text}");
                return taken;
            }
        };
        assert!(out.len() < 60, "{envelope:?}: {} actions", out.len());
        for action in out {
            let message = match action {
                Action::Send { message, .. } => message,
                Action::Ship(shipment) => shipment.with(Vec::new()),
                _ => continue,
            };
            let bytes = Envelope { from: to, to: from, message }.encode();
            assert!(Envelope::decode(&bytes).is_some(), "{envelope:?}");
        }
    }
    40
}

#[test]
fn messages_that_no_member_sends_end_at_no_other_place_than_a_rule() {
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = catch_unwind(|| {
        let mut random = Random::new(1);
        let primary = primary();
        let mut taken = [0, 0];
        for _ in 0..3_000 {
            taken[0] += attack(machine(), &mut random);
            taken[1] += attack(primary.clone(), &mut random);
        }
        taken
    });
    let _ = std::panic::take_hook();
    let taken = outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    assert!(taken.iter().all(|taken| *taken > 3_000), "most messages are taken: {taken:?}");
}
