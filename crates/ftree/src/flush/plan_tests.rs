//! Plans of random nodes, against what `plan.rs` says of them. Its limits are computed once more here, from its words.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arbor_base::TreeId;
use proptest::prelude::*;

use super::plan::{Due, due, large_runs};
use crate::io::Io;
use crate::table::{Table, TableWriter};
use crate::tree::{Bounds, Child, Inner, Place, Placed, Run, Slot};
use crate::{Entry, Kind, RangeTombstone, Seq, TreeSettings};

/// Size of a run.
#[derive(Clone, Copy, Debug)]
enum Size {
    Bytes(u64),
    /// In parts of 1/1024 of what makes a slot due.
    Parts(u64),
}

#[derive(Clone, Debug)]
struct RandomSlot {
    runs: Vec<Size>,
    read_work: Size,
    has_tombstones: bool,
    is_busy: bool,
}

fn random_slot() -> impl Strategy<Value = RandomSlot> {
    let tiny = || (0..50u64).prop_map(Size::Bytes);
    let small = || (0..40u64).prop_map(Size::Parts);
    // at and beyond a quarter of what is combined
    let large = || (100..300u64).prop_map(Size::Parts);
    let runs = prop_oneof![
        4 => prop::collection::vec(prop_oneof![4 => tiny(), 4 => small(), 1 => large()], 0..20),
        2 => prop::collection::vec(small(), 0..20),
        1 => prop::collection::vec(large(), 0..5),
    ];
    let read_work = prop_oneof![3 => Just(Size::Bytes(0)), 1 => small(), 1 => large()];
    (runs, read_work, prop::bool::weighted(0.1), prop::bool::weighted(0.1))
        .prop_map(|(runs, read_work, has_tombstones, is_busy)| RandomSlot { runs, read_work, has_tombstones, is_busy })
}

fn settings() -> impl Strategy<Value = TreeSettings> {
    let sizes = prop_oneof![Just((1u32 << 10, 256)), Just((64 << 10, 8 << 10)), Just((1 << 20, 48 << 10))];
    (sizes, prop_oneof![Just(4u32), Just(16), Just(64)], prop_oneof![Just(5u32), Just(12), Just(20)]).prop_map(
        |((leaf_bytes, run_bytes), fanout, buffer_percent)| TreeSettings {
            leaf_bytes,
            run_bytes,
            fanout,
            buffer_percent,
            ..TreeSettings::default()
        },
    )
}

/// Limits of a node.
struct Limits {
    node: u64,
    slot: u64,
    node_runs: usize,
    runs: usize,
    /// Runs of fewer bytes are combined, if they are too many: less than half of what makes the slot due, and than what would leave half of the
    /// runs.
    combined: u64,
    /// Bytes of a run at which what is combined is cut.
    cut: u64,
}

impl Limits {
    fn of(level: u8, slots: usize, settings: &TreeSettings) -> Limits {
        let (leaf, cut) = (u64::from(settings.leaf_bytes), 8 * u64::from(settings.run_bytes));
        let for_child = u64::from(settings.run_bytes) * u64::from(settings.fanout);
        let (node, slot, node_runs, runs) = match level {
            1 => (slots as u64 * leaf * u64::from(settings.buffer_percent) / 128, leaf / 4, usize::MAX, 8),
            _ => (slots as u64 * for_child * 2 / 3, for_child, slots * 12 / 2, 12),
        };
        Limits { node, slot, node_runs, runs, combined: (slot / 2).min(cut * (runs as u64 / 2 - 1)), cut }
    }

    fn bytes(&self, size: Size) -> u64 {
        match size {
            Size::Bytes(bytes) => bytes,
            Size::Parts(parts) => self.slot * parts / 1024,
        }
    }
}

/// A node with a plan for it.
struct Planned {
    settings: TreeSettings,
    limits: Limits,
    node: Arc<Inner>,
    busy: Vec<Place>,
    chosen: Vec<Due>,
}

impl Planned {
    fn of(io: &Io, settings: &TreeSettings, level: u8, given: &[RandomSlot]) -> Planned {
        let limits = Limits::of(level, given.len(), settings);
        let tables = [false, true].map(|has_tombstones| table(io, has_tombstones));
        let slot = |own: &RandomSlot| {
            let table = &tables[usize::from(own.has_tombstones)];
            let runs = own.runs.iter().map(|size| Run { table: table.clone(), bytes: limits.bytes(*size) });
            let slot = Slot::new(runs.collect(), Child::Empty);
            slot.read_work.store(limits.bytes(own.read_work), Ordering::Relaxed);
            Arc::new(slot)
        };
        let node = node(level, given.iter().map(slot).collect());
        let is_busy = |at: &usize| given[*at].is_busy;
        let busy = (0..given.len()).filter(is_busy).map(|at| place(&node, at)).collect();
        Planned::again(settings, node, busy)
    }

    fn again(settings: &TreeSettings, node: Arc<Inner>, busy: Vec<Place>) -> Planned {
        let limits = Limits::of(node.level, node.slots.len(), settings);
        let chosen = due(&node, &Bounds::all(), settings, &|place| busy.contains(place));
        Planned { settings: settings.clone(), limits, node, busy, chosen }
    }

    fn choice(&self, at: usize) -> Option<&Due> {
        let place = place(&self.node, at);
        self.chosen.iter().find(|due| due.place == place)
    }

    /// The slots that may be chosen, with their numbers.
    fn waiting(&self) -> impl Iterator<Item = (usize, &Arc<Slot>)> {
        let slots = self.node.slots.iter().enumerate();
        slots.filter(|(at, slot)| !slot.runs.is_empty() && !self.busy.contains(&place(&self.node, *at)))
    }

    /// The slots that may be chosen, and are not.
    fn left(&self) -> impl Iterator<Item = &Arc<Slot>> {
        self.waiting().filter(|(at, _)| self.choice(*at).is_none()).map(|(_, slot)| slot)
    }

    fn is_due_by_bytes(&self, slot: &Slot) -> bool {
        let no_heavier = self.waiting().filter(|(_, other)| other.weight() <= slot.weight());
        let bytes: u64 = no_heavier.map(|(_, other)| other.buffered_bytes()).sum();
        slot.buffered_bytes() >= self.limits.slot || bytes > self.limits.node
    }

    fn is_due_by_runs(&self, slot: &Slot) -> bool {
        let limits = &self.limits;
        let small = self.waiting().filter(|(_, other)| other.buffered_bytes() < limits.slot);
        // those with more runs are chosen first
        let runs: usize = small.map(|(at, other)| self.runs_when(at, other.runs.len() > slot.runs.len())).sum();
        slot.runs.len() > limits.runs || slot.runs.len() > limits.runs / 2 && runs > limits.node_runs
    }

    /// Returns how many runs a slot has, after its job if it has one.
    fn runs_when(&self, at: usize, after_job: bool) -> usize {
        let slot = &self.node.slots[at];
        match self.choice(at).filter(|_| after_job) {
            None => slot.runs.len(),
            Some(due) if due.combines => self.combined(slot).len(),
            Some(_) => 0,
        }
    }

    fn check(&self) {
        let places: Vec<&Place> = self.chosen.iter().map(|due| &due.place).collect();
        assert!(places.iter().enumerate().all(|(at, place)| !places[..at].contains(place)), "no slot is chosen twice");
        let waiting: Vec<Place> = self.waiting().map(|(at, _)| place(&self.node, at)).collect();
        assert!(places.iter().all(|place| waiting.contains(place)), "nothing is chosen that is busy, or holds nothing");
        self.check_reasons();
        self.check_order();
        self.check_what_is_left();
    }

    fn check_reasons(&self) {
        for (at, slot) in self.waiting() {
            let Some(choice) = self.choice(at) else { continue };
            let bytes = slot.buffered_bytes();
            assert_eq!(choice.bytes, bytes);
            let (by_bytes, by_runs) = (self.is_due_by_bytes(slot), self.is_due_by_runs(slot));
            assert!(by_bytes || by_runs, "slot {at} is chosen, and not due");
            let may_combine = by_runs && bytes < self.limits.combined && !slot.has_tombstones();
            assert!(!choice.combines || may_combine, "slot {at} is combined");
            assert!(choice.combines || !may_combine || by_bytes, "slot {at} is flushed");
            assert_eq!(choice.weight, if choice.combines { u64::MAX } else { slot.weight() });
            let is_left = |longer: &dyn Fn(&Slot) -> bool| self.left().any(|other| longer(other));
            if !by_runs && bytes < self.limits.slot {
                assert!(!is_left(&|other| other.weight() > slot.weight()), "one heavier than slot {at} is left");
            }
            if !by_bytes && slot.runs.len() <= self.limits.runs {
                assert!(!is_left(&|other| other.runs.len() > slot.runs.len()), "one of more runs than {at} is left");
            }
        }
    }

    fn check_order(&self) {
        assert!(self.chosen.is_sorted_by(|one, next| one.weight >= next.weight), "the heaviest comes first");
        assert!(self.chosen.is_sorted_by_key(|due| !due.combines), "those to combine come before all others");
    }

    fn check_what_is_left(&self) {
        let Limits { node, slot, node_runs, runs, .. } = self.limits;
        assert!(self.left().map(|left| left.buffered_bytes()).sum::<u64>() <= node);
        assert!(self.left().all(|left| left.buffered_bytes() < slot && left.runs.len() <= runs));
        let runs: usize = self.waiting().map(|(at, _)| self.runs_when(at, true)).sum();
        assert!(runs <= node_runs, "half of the runs that may be at most: {runs}");
    }

    /// The node after the jobs of the plan.
    fn after(&self) -> Arc<Inner> {
        let slots = self.node.slots.iter().enumerate();
        let slots = slots.map(|(at, slot)| match self.choice(at) {
            None => slot.clone(),
            Some(due) if due.combines => Arc::new(Slot::new(self.combined(slot), Child::Empty)),
            Some(_) => Arc::new(Slot::void()),
        });
        node(self.node.level, slots.collect())
    }

    /// The runs of a slot after they were combined.
    fn combined(&self, slot: &Slot) -> Vec<Run> {
        let (limits, before) = (&self.limits, large_runs(&self.node, slot, &self.settings));
        let (kept, small) = slot.runs.split_at(before);
        assert!(small.len() >= 2, "a job that has nothing to combine would be chosen again and again");
        let bytes = |runs: &[Run]| runs.iter().map(|run| run.bytes).sum::<u64>();
        let is_large = |run: &Run| run.bytes >= limits.combined / 4;
        let large = slot.runs.iter().rposition(is_large).map_or(0, |last| last + 1);
        let behind = &slot.runs[large..];
        let are_few = behind.len() <= limits.runs / 2;
        let are_too_many = large as u64 + bytes(behind) / limits.cut + 1 > limits.runs as u64 / 2;
        match before {
            0 => assert!(large == 0 || are_few || are_too_many, "a large run is combined again"),
            _ => assert!(before == large && !are_few && !are_too_many, "another part than behind the last large run"),
        }
        let mut runs = kept.to_vec();
        let (table, bytes) = (&slot.runs[0].table, bytes(small));
        let whole = std::iter::repeat_n(limits.cut, (bytes / limits.cut) as usize);
        let made = whole.chain([bytes % limits.cut]);
        runs.extend(made.map(|bytes| Run { table: table.clone(), bytes }));
        assert!(runs.len() <= limits.runs / 2, "half of the runs that may be are left at most: {}", runs.len());
        runs
    }
}

fn table(io: &Io, has_tombstones: bool) -> Arc<Table> {
    let mut writer = TableWriter::new(io, TreeId(4), 1, &TreeSettings::default(), false);
    writer.push(Entry { key: b"a", seq: Seq(9), kind: Kind::Put, value: b"value" }, None);
    if has_tombstones {
        writer.tombstone(RangeTombstone { from: b"a".to_vec(), to: None, seq: Seq(9) });
    }
    writer.finish(Seq(9)).unwrap().unwrap()
}

fn node(level: u8, slots: Vec<Arc<Slot>>) -> Arc<Inner> {
    let from = |at: usize| if at == 0 { Vec::new() } else { format!("{at:03}").into_bytes() };
    let placed = slots.into_iter().enumerate().map(|(at, slot)| Placed { from: from(at), slot });
    Inner::new(level, placed.collect())
}

fn place(node: &Inner, at: usize) -> Place {
    Place { level: node.level, bounds: node.bounds_of(at, &Bounds::all()) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 1000 }))]
    #[test]
    fn a_plan_chooses_what_is_due(settings in settings(), level in 1u8..4, given in prop::collection::vec(random_slot(), 1..20)) {
        let io = Io::scratch(1 << 20);
        let planned = Planned::of(&io, &settings, level, &given);
        planned.check();
        // what is being flushed counts as flushed
        let idle: Vec<RandomSlot> =
            given.iter().map(|own| if own.is_busy { RandomSlot { runs: Vec::new(), ..own.clone() } } else { own.clone() }).collect();
        prop_assert_eq!(&planned.chosen, &Planned::of(&io, &settings, level, &idle).chosen);
        // after its jobs no slot is due: none is chosen again and again
        let after = Planned::again(&settings, planned.after(), planned.busy.clone());
        prop_assert_eq!(&after.chosen, &Vec::new());
        after.check();
    }
}
