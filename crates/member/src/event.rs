//! Events of a member.

use std::sync::mpsc::{Sender, SyncSender};
use std::time::{Duration, Instant};

use arbor_repl::MemberId;
use arbor_repl::isr::{Input, Message, Reconfiguration, Refusal};

/// Receives the outcome of a request.
pub(crate) type Changed = Sender<Result<(), Refusal>>;

pub(crate) enum Event {
    /// `reply`: the sender waits for the reply.
    Received {
        from: MemberId,
        message: Box<Message>,
        reply: Option<SyncSender<Vec<u8>>>,
    },
    /// A result or a hint of the coordinator.
    Coordinator(Box<Input>),
    Lost(MemberId),
    /// The log has grown, or more of it is durable.
    Look,
    /// False: there is no space to apply what is committed.
    Fit(bool),
    Reconfigure(Box<Reconfiguration>, Changed),
    StepDown {
        to: Option<MemberId>,
        wait: Duration,
        frozen_until: Option<Instant>,
        force: bool,
        outcome: Changed,
    },
    /// This member does not take over before.
    Freeze(Option<Instant>),
    /// Records come from this member from now on; `None`: from the primary.
    Source(Option<MemberId>),
    /// An attempt of an initial sync begins: the log is no longer this member's until `SyncStreams`. Confirmed by the sender.
    SyncHalts(Sender<()>),
    /// The log continues behind the state that is being fetched.
    SyncStreams,
    /// The data is a state of the set now.
    SyncEnded,
    Failed(String),
    Stop,
}
