//! The choices of a seed.

use arbor_base::Random;
use arbor_repl::isr::{Mutant, Timing};

use crate::nemesis::{FAULTS, Fault};

/// A defect that is built in on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    Member(Mutant),
    /// The coordinator does not compare versions.
    WithoutCompare,
    /// A member loses its data and keeps its identity.
    SameStore,
    /// A member that leads again trusts what it knew of sessions when it led before. Only the data with sessions show it.
    SessionsKept,
    /// A follower's catalogue in memory stays as it was at the start. Only collections show it.
    CatalogueStale,
    /// A member that starts again does not know which of its trees are ahead of it. Only collections show it.
    AheadForgotten,
}

impl Defect {
    /// The defects that the model of data shows.
    pub fn of_model() -> Vec<Defect> {
        let members = Mutant::ALL.into_iter().map(Defect::Member);
        members.chain([Defect::WithoutCompare, Defect::SameStore]).collect()
    }

    /// The defects that the real commit path shows.
    pub fn of_txn() -> Vec<Defect> {
        Defect::of_model().into_iter().chain([Defect::SessionsKept]).collect()
    }

    /// The defects that collections show.
    pub fn of_store() -> Vec<Defect> {
        Defect::of_txn().into_iter().chain([Defect::CatalogueStale, Defect::AheadForgotten]).collect()
    }

    pub fn mutant(self) -> Option<Mutant> {
        match self {
            Defect::Member(mutant) => Some(mutant),
            _ => None,
        }
    }
}

/// Parameters of one run. Frequencies are per mille, of messages or of requests; times are microseconds.
#[derive(Clone, Debug)]
pub struct Plan {
    pub voters: u32,
    /// Members that may be added.
    pub spares: u32,
    pub timing: Timing,
    /// Speed of each member's clock, per mille.
    pub clock_rates: Vec<u64>,
    pub steps: u64,
    pub clients: u64,
    pub pause_of_clients_us: u64,
    pub delay_us: u64,
    pub sync_us: u64,
    pub lost: u64,
    pub duplicated: u64,
    pub late: u64,
    pub lost_replies: u64,
    pub late_requests: u64,
    /// Mean time between two faults.
    pub fault_every_us: u64,
    /// Weights of the faults, in the order of `nemesis::FAULTS`.
    pub weights: [u64; 15],
    /// Members get their records from each other, by a member that changes, and not only from the primary.
    pub chains: bool,
    pub defect: Option<Defect>,
}

impl Plan {
    pub fn new(seed: u64, defect: Option<Defect>) -> Plan {
        let mut random = Random::new(seed ^ 0x5EED);
        let random = &mut random;
        let voters = *random.pick(&[2, 3, 3, 3, 3, 4, 5, 5]);
        let spares = random.below(2) as u32;
        let promise_ms = 100 + random.below(200);
        let (election_ms, stagger_ms, in_sync_ms) = (60 + random.below(200), random.below(30), 50 + random.below(100));
        let beacon_ms = 10 + random.below(25);
        let timing = Timing {
            election_ms,
            stagger_ms,
            in_sync_ms,
            beacon_ms,
            // Longer on every clock
            retry_ms: beacon_ms * 5 / 4 + 5 + random.below(40),
            promise_ms,
            // Clocks differ by up to a tenth
            trust_ms: promise_ms * 3 / 4,
            hand_over_ms: 200 + random.below(400),
            records_max: 1 + random.below(20),
        };
        // Each kind of fault is off in some seeds, and frequent in others
        let mut often = |most: u64| if random.one_in(3) { 0 } else { random.below(most) + 1 };
        let (lost, duplicated, late) = (often(120), often(200), often(150));
        let (lost_replies, late_requests) = (often(300), often(300));
        let weights = std::array::from_fn(|_| often(10));
        Plan {
            voters,
            spares,
            timing,
            clock_rates: (0..voters + spares).map(|_| 900 + random.below(201)).collect(),
            steps: 20_000,
            clients: 1 + random.below(4),
            pause_of_clients_us: 500 + random.below(10_000),
            delay_us: 100 + random.below(3_000),
            sync_us: 50 + random.below(6_000),
            lost,
            duplicated,
            late,
            lost_replies,
            late_requests,
            fault_every_us: 10_000 + random.below(150_000),
            weights,
            // Of its own, so that the other seeds stay the runs that they were
            chains: Random::new(seed ^ 0xC4A1).one_in(4),
            defect,
        }
    }

    /// Makes the faults frequent that a defect needs, where a search by chance takes too long.
    pub fn favour(&mut self, defect: Option<Defect>) {
        match defect {
            // A newcomer goes silent while the request to add it is under way, and the request is executed late.
            Some(Defect::Member(Mutant::UnchangedIsStale)) => {
                self.late_requests = 500;
                self.fault_every_us = 30_000;
                self.weights = FAULTS.map(|fault| match fault {
                    Fault::Lost => 10,
                    Fault::Isolate | Fault::OneWay => 5,
                    Fault::Crash => 2,
                    _ => 0,
                });
            }
            // A member gets records from one that led and has not cut off yet what the next primary does not have. The next
            // primary waits long before it sends them itself.
            Some(Defect::Member(Mutant::RelayedCounts)) => {
                self.chains = true;
                self.timing.in_sync_ms = 500;
                self.fault_every_us = 30_000;
                self.weights = FAULTS.map(|fault| match fault {
                    Fault::Usurp => 10,
                    Fault::Isolate | Fault::OneWay | Fault::Lost => 5,
                    Fault::SlowDisk | Fault::Pause => 3,
                    _ => 0,
                });
            }
            _ => {}
        }
    }
}
