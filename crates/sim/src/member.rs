//! One member: its state machine, its data, and the writes that wait for their commit.

use arbor_base::{Position, Random};
use arbor_repl::isr::{Machine, Millis};
use arbor_repl::{Epoch, Identity, MemberId};

use crate::data::Data;
use crate::operation::Operation;
use crate::plan::Plan;

pub struct Member<D> {
    pub id: MemberId,
    /// The content of the disk stays while the member is down.
    pub data: D,
    /// `None`: down.
    pub machine: Option<Machine>,
    /// Counts starts: events of earlier ones are void.
    pub incarnation: u64,
    /// Time of the own clock at virtual time 0, and its speed per mille.
    offset_ms: u64,
    rate: u64,
    /// The process does nothing until then.
    pub paused_until: u64,
    pub slow_until: u64,
    pub writes: Vec<Write>,
    pub open_load: Option<u64>,
    /// Clients read here once this is applied (R8).
    pub reads_from: Position,
    /// A sync is under way up to here.
    pub syncing: Position,
    /// Error of the system's clock.
    pub wall_off_ms: i64,
}

/// A write that is in the primary's log.
pub struct Write {
    pub position: Position,
    pub operation: Operation,
    /// The newest position that had been shown when it began.
    pub floor: Position,
}

impl<D: Data> Member<D> {
    pub fn new(id: MemberId, data: D, rate: u64, random: &mut Random) -> Member<D> {
        Member {
            id,
            data,
            machine: None,
            incarnation: 0,
            offset_ms: 1_000_000 + random.below(1_000_000),
            rate,
            paused_until: 0,
            slow_until: 0,
            writes: Vec::new(),
            open_load: None,
            reads_from: Position::ZERO,
            syncing: Position::ZERO,
            wall_off_ms: 0,
        }
    }

    pub fn identity(&self) -> Identity {
        Identity { id: self.id, store: self.data.store() }
    }

    /// Returns the member's own time.
    pub fn clock(&self, now_us: u64) -> Millis {
        self.offset_ms + now_us * self.rate / 1_000_000
    }

    /// Returns milliseconds since 1970, by the system's clock.
    pub fn wall(&self, now_us: u64) -> i64 {
        1_700_000_000_000 + self.clock(now_us) as i64 + self.wall_off_ms
    }

    pub fn start(&mut self, now_us: u64, plan: &Plan) {
        self.data.set_wall(self.wall(now_us));
        let machine = Machine::open(self.identity(), plan.timing, self.data.found(), self.clock(now_us));
        let mutant = plan.defect.and_then(|defect| defect.mutant());
        self.machine = Some(machine.with_mutant(mutant));
        self.incarnation += 1;
        self.forget();
    }

    /// Drops what does not survive the end of a process or of a term.
    pub fn forget(&mut self) {
        self.writes.clear();
        self.open_load = None;
        self.syncing = Position::ZERO;
    }

    pub fn serves(&self) -> Option<Epoch> {
        self.machine.as_ref()?.serves()
    }
}
