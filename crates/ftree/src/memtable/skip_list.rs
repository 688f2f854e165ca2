//! The ordered structure of a memtable part: a skip list whose nodes are leaves of up to 15 entries.
//!
//! A plain skip list costs a cache miss per hop and per entry of a scan. Here the towers lead from leaf to leaf (a
//! tenth of the entries, so they stay cached), and a leaf knows the addresses of the next records, so scans ask for
//! them ahead. Slots of a leaf are filled in the order of arrival; one word, its [`Order`], says how they are sorted and
//! publishes them (the permutation of Masstree's border nodes).
//!
//! - (L1) One writer, under `writer`'s lock; readers take no lock.
//! - (L2) A slot is written once, before the `Order` that names it is stored (Release); readers load the order first (Acquire).
//! - (L3) A leaf is initialised before the first pointer to it is stored (Release). It is never empty. Slot 0 holds its
//!   first entry, the fence, which never changes: nothing before it comes in. The first leaf has no fence, being before
//!   everything.
//! - (L4) A full leaf is replaced by two new ones (or, when keys ascend, followed by a new one) and from then on frozen:
//!   entries, links and towers stay as they were when the replacement was published. A cursor that is on it, or comes to
//!   it by a link that is not switched over yet, began before the entry that made it split was visible, and finds
//!   everything older; its links lead to leaves that were current then or later.
//! - (L5) Entries with `seq` up to what `visible` said before a seek are all found by that cursor until its next seek.
//!   For a later `visible`, seek again.
//! - (L6) `finger` holds, for each level, the last leaf before the entry inserted last. They are all current leaves.
#![allow(unsafe_code, reason = "readers follow links that a writer publishes without a lock (L1 to L6)")]
#![expect(
    clippy::indexing_slicing,
    reason = "slots are below CAPACITY and levels below LEVELS_MAX, as orders and towers are made; nothing comes from a file"
)]

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use arbor_base::sometimes;
use parking_lot::Mutex;

use super::arena::{Arena, Record, prefetch};
use super::order::Order;
use super::sync::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::{Entry, Seq};

/// Few in model tests, which visit every interleaving.
pub(super) const CAPACITY: usize = if cfg!(all(test, loom)) { 2 } else { 15 };
/// A scan prefetches the records this many entries ahead: the time of one memory access.
const AHEAD: usize = if cfg!(all(test, loom)) { 1 } else { 4 };
/// With a quarter of the leaves in the next level: enough for 4^9 leaves, more than a memtable's.
const LEVELS_MAX: usize = if cfg!(all(test, loom)) { 2 } else { 10 };

pub(super) struct SkipList {
    first: AtomicPtr<Leaf>,
    /// Levels in use besides the first leaf, at least 1.
    levels: AtomicUsize,
    writer: Mutex<Writer>,
}

struct Writer {
    arena: Arena,
    finger: [*mut Leaf; LEVELS_MAX],
    random: u64,
}

// SAFETY: the pointers lead into `arena`, which is `Send`, and are used under the list's lock or, by readers, as L2 and
// L3 say.
unsafe impl Send for Writer {}

/// Its towers' levels 1, 2, .. are stored before it, the highest first.
#[repr(C)]
struct Leaf {
    next: AtomicPtr<Leaf>,
    order: AtomicU64,
    /// Null: the first leaf.
    prev: AtomicPtr<Leaf>,
    levels: usize,
    /// The first 8 bytes of each slot's key, big-endian.
    heads: [AtomicU64; CAPACITY],
    records: [AtomicPtr<u8>; CAPACITY],
}

const _: () = assert!(align_of::<Leaf>() <= 8);
const _: () = assert!(CAPACITY <= 15, "an order names each slot with four bits and counts them with four");

/// Position of a cursor: on an entry of a leaf, as the leaf was when the cursor came to it.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Null: on no entry.
    leaf: *mut Leaf,
    order: Order,
    at: usize,
}

// SAFETY: a place is used with its list only, and every thread may read that.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

/// A place in the order E1.
struct Target<'k> {
    head: u64,
    key: &'k [u8],
    seq: Seq,
}

#[derive(Clone, Copy)]
struct Slot {
    head: u64,
    record: Record,
}

/// A leaf of a list that lives for `'a`. Only made of pointers that came from the list (L3).
#[derive(Clone, Copy)]
struct LeafRef<'a>(NonNull<Leaf>, PhantomData<&'a SkipList>);

impl SkipList {
    pub(super) fn new() -> SkipList {
        SkipList {
            first: AtomicPtr::new(ptr::null_mut()),
            levels: AtomicUsize::new(1),
            writer: Mutex::new(Writer {
                arena: Arena::new(),
                finger: [ptr::null_mut(); LEVELS_MAX],
                random: 0x2545_F491_4F6C_DD1D,
            }),
        }
    }

    /// Returns by how many bytes the list's memory grew.
    pub(super) fn insert(&self, entry: &Entry<'_>) -> usize {
        let mut guard = self.writer.lock();
        let writer = &mut *guard;
        let held_bytes = writer.arena.held_bytes();
        let slot = Slot { head: head_of(entry.key), record: Record::store(&mut writer.arena, entry) };
        match self.first() {
            None => self.begin(writer, slot),
            Some(first) => self.insert_behind(writer, first, slot, &Target::new(entry.key, entry.seq)),
        }
        writer.arena.held_bytes() - held_bytes
    }

    pub(super) fn seek_first(&self) -> Place {
        self.first().map_or(Place::NONE, |leaf| leaf.place(0))
    }

    pub(super) fn seek_last(&self) -> Place {
        let Some(mut leaf) = self.first() else { return Place::NONE };
        for level in (0..self.levels.load(Ordering::Relaxed)).rev() {
            while let Some(next) = leaf.next(level) {
                leaf = next;
            }
        }
        leaf.last_place()
    }

    /// The first entry at or after (`key`, `seq`) in the order E1.
    pub(super) fn seek(&self, key: &[u8], seq: Seq) -> Place {
        let (Some(first), target) = (self.first(), Target::new(key, seq)) else { return Place::NONE };
        let leaf = self.descend(first, &target, |_, _| ());
        let order = leaf.order();
        let at = leaf.position(order, &target);
        if at < order.len() {
            return leaf.place_in(order, at);
        }
        leaf.next(0).map_or(Place::NONE, |next| next.place(0))
    }

    /// The last entry before (`key`, `seq`).
    pub(super) fn seek_before(&self, key: &[u8], seq: Seq) -> Place {
        let (Some(first), target) = (self.first(), Target::new(key, seq)) else { return Place::NONE };
        let leaf = self.descend(first, &target, |_, _| ());
        let order = leaf.order();
        // A leaf whose fence is before the target holds an entry before it; only the first leaf may not.
        leaf.position(order, &target).checked_sub(1).map_or(Place::NONE, |at| leaf.place_in(order, at))
    }

    /// The following entry. Requires: `place` came from this list.
    pub(super) fn next(&self, place: Place) -> Place {
        let Some(mut leaf) = self.leaf(place.leaf) else { return Place::NONE };
        let (mut order, mut at) = (place.order, place.at + 1);
        if at == order.len() {
            let Some(next) = leaf.next(0) else { return Place::NONE };
            (leaf, order, at) = (next, next.order(), 0);
        }
        leaf.ask_ahead(order, at);
        leaf.place_in(order, at)
    }

    /// The entry before. Requires: `place` came from this list.
    pub(super) fn prev(&self, place: Place) -> Place {
        let Some(mut leaf) = self.leaf(place.leaf) else { return Place::NONE };
        let (mut order, mut at) = (place.order, place.at);
        if at == 0 {
            let Some(prev) = leaf.prev() else { return Place::NONE };
            (leaf, order) = (prev, prev.order());
            at = order.len();
        }
        leaf.ask_behind(order, at - 1);
        leaf.place_in(order, at - 1)
    }

    /// Requires: `place` came from this list.
    pub(super) fn entry(&self, place: Place) -> Option<Entry<'_>> {
        let record = self.leaf(place.leaf)?.slot(place.order.slot(place.at)).record;
        // SAFETY: the arena lives as long as the list.
        Some(unsafe { record.entry() })
    }

    fn begin(&self, writer: &mut Writer, slot: Slot) {
        let leaf = self.new_leaf(&mut writer.arena, LEVELS_MAX, &[slot]);
        writer.finger = [leaf.pointer(); LEVELS_MAX];
        self.first.store(leaf.pointer(), Ordering::Release);
    }

    fn insert_behind<'a>(&'a self, writer: &mut Writer, first: LeafRef<'a>, slot: Slot, target: &Target<'_>) {
        let leaf = self.find_for_insert(writer, first, target);
        debug_assert!(leaf.is_first() || leaf.fence().precedes(target), "L3: nothing comes in before the fence");
        let order = leaf.order();
        let at = leaf.position(order, target);
        if order.len() < CAPACITY {
            leaf.set_slot(order.len(), slot);
            leaf.order_cell().store(order.with_next_at(at).0, Ordering::Release);
        } else if at == CAPACITY && order.slot(CAPACITY - 1) == CAPACITY - 1 {
            // The leaf's last arrival was its greatest as well: keys ascend. Leave it full.
            self.append_leaf(writer, leaf, slot);
        } else {
            self.split(writer, leaf, order, at, slot);
        }
    }

    /// The last leaf with a fence before the target; `finger` is its path.
    fn find_for_insert<'a>(&'a self, writer: &mut Writer, first: LeafRef<'a>, target: &Target<'_>) -> LeafRef<'a> {
        let last = self.leaf(writer.finger[0]).unwrap_or(first);
        let begins_before = last.is_first() || last.fence().precedes(target);
        if begins_before && !last.next(0).is_some_and(|next| next.fence().precedes(target)) {
            return last;
        }
        self.descend(first, target, |level, leaf| writer.finger[level] = leaf.pointer())
    }

    /// The last leaf with a fence before the target. `visit` gets the last such leaf of each level, from above.
    fn descend<'a>(
        &'a self,
        first: LeafRef<'a>,
        target: &Target<'_>,
        mut visit: impl FnMut(usize, LeafRef<'a>),
    ) -> LeafRef<'a> {
        let mut leaf = first;
        let mut bound = ptr::null_mut();
        for level in (0..self.levels.load(Ordering::Relaxed)).rev() {
            while let Some(next) = leaf.next(level) {
                // The leaf that ended the walk one level above does it here too.
                if next.pointer() == bound || !next.fence().precedes(target) {
                    bound = next.pointer();
                    break;
                }
                leaf = next;
            }
            visit(level, leaf);
        }
        leaf
    }

    fn append_leaf<'a>(&'a self, writer: &mut Writer, leaf: LeafRef<'a>, slot: Slot) {
        let levels = self.random_levels(writer);
        let right = self.new_leaf(&mut writer.arena, levels, &[slot]);
        right.prev_cell().store(leaf.pointer(), Ordering::Relaxed);
        self.link_behind(writer, leaf, right, 0);
        if let Some(after) = right.next(0) {
            after.prev_cell().store(right.pointer(), Ordering::Release);
        }
        self.publish_from(writer, leaf, right, 0);
        writer.finger[..levels].fill(right.pointer());
    }

    fn split<'a>(&'a self, writer: &mut Writer, leaf: LeafRef<'a>, order: Order, at: usize, slot: Slot) {
        debug_assert!(order.len() == CAPACITY, "L4: only full leaves are replaced");
        sometimes!("ftree: a leaf of a memtable splits");
        let mut slots = [slot; CAPACITY + 1];
        for (i, place) in slots.iter_mut().enumerate().filter(|(i, _)| *i != at) {
            *place = leaf.slot(order.slot(if i < at { i } else { i - 1 }));
        }
        let (low_slots, high_slots) = slots.split_at(slots.len() / 2);
        let levels = self.random_levels(writer);
        let low = self.new_leaf(&mut writer.arena, leaf.levels(), low_slots);
        let high = self.new_leaf(&mut writer.arena, levels, high_slots);
        self.link_halves(writer, leaf, low, high);
        self.publish_halves(writer, leaf, low, high);
        writer.finger[..low.levels()].fill(low.pointer());
        if at >= low_slots.len() {
            writer.finger[..high.levels()].fill(high.pointer());
        }
    }

    /// Gives the two the links of the leaf they replace.
    fn link_halves<'a>(&'a self, writer: &Writer, leaf: LeafRef<'a>, low: LeafRef<'a>, high: LeafRef<'a>) {
        self.link_behind(writer, leaf, high, 0);
        for level in 0..low.levels() {
            let next = if level < high.levels() { high.pointer() } else { leaf.tower(level).load(Ordering::Relaxed) };
            low.tower(level).store(next, Ordering::Relaxed);
        }
        low.prev_cell().store(leaf.prev_cell().load(Ordering::Relaxed), Ordering::Relaxed);
        high.prev_cell().store(low.pointer(), Ordering::Relaxed);
    }

    fn publish_halves<'a>(&'a self, writer: &Writer, leaf: LeafRef<'a>, low: LeafRef<'a>, high: LeafRef<'a>) {
        let before = self.leaves_before(leaf);
        if let Some(after) = high.next(0) {
            after.prev_cell().store(high.pointer(), Ordering::Release);
        }
        for (level, before) in before.iter().enumerate().take(leaf.levels()) {
            match before {
                Some(before) => before.tower(level).store(low.pointer(), Ordering::Release),
                // No leaf is before the first one, on any level.
                None => self.first.store(low.pointer(), Ordering::Release),
            }
        }
        self.publish_from(writer, leaf, high, leaf.levels());
    }

    /// On each level of `leaf`, the leaf that leads to it. All are `None` for the first leaf.
    fn leaves_before<'a>(&'a self, leaf: LeafRef<'a>) -> [Option<LeafRef<'a>>; LEVELS_MAX] {
        let mut before = [None; LEVELS_MAX];
        if leaf.is_first() {
            return before;
        }
        before[0] = self.leaf(leaf.prev_cell().load(Ordering::Relaxed));
        if leaf.levels() == 1 {
            return before;
        }
        // SAFETY: the arena lives as long as the list.
        let fence = unsafe { leaf.fence().record.entry() };
        let target = Target::new(fence.key, fence.seq);
        let mut place = self.first();
        for level in (1..self.levels.load(Ordering::Relaxed)).rev() {
            // Several leaves may have equal fences, so on its own levels the leaf itself is the end of the walk.
            while let Some(next) = place.and_then(|place| place.next(level)) {
                let further = if level < leaf.levels() { next.0 != leaf.0 } else { next.fence().precedes(&target) };
                if !further {
                    break;
                }
                place = Some(next);
            }
            before[level] = place;
        }
        before
    }

    /// Points the unpublished `right` at what follows `leaf` on its levels from `from` on.
    fn link_behind<'a>(&'a self, writer: &Writer, leaf: LeafRef<'a>, right: LeafRef<'a>, from: usize) {
        for level in from..right.levels() {
            let next = self.on_level(writer, leaf, level).tower(level).load(Ordering::Relaxed);
            right.tower(level).store(next, Ordering::Relaxed);
        }
    }

    /// Publishes `right` after `leaf` on its levels from `from` on, the lowest first.
    fn publish_from<'a>(&'a self, writer: &Writer, leaf: LeafRef<'a>, right: LeafRef<'a>, from: usize) {
        for level in from..right.levels() {
            self.on_level(writer, leaf, level).tower(level).store(right.pointer(), Ordering::Release);
        }
    }

    /// The leaf found for the entry or, on levels it does not reach, the one before it.
    fn on_level<'a>(&'a self, writer: &Writer, leaf: LeafRef<'a>, level: usize) -> LeafRef<'a> {
        if level < leaf.levels() { leaf } else { self.leaf(writer.finger[level]).expect("L6: the finger is set") }
    }

    fn new_leaf(&self, arena: &mut Arena, levels: usize, slots: &[Slot]) -> LeafRef<'_> {
        let tower_bytes = (levels - 1) * size_of::<AtomicPtr<Leaf>>();
        let memory = arena.allocate(tower_bytes + size_of::<Leaf>());
        let slot = |i: usize| slots.get(i);
        let leaf = Leaf {
            next: AtomicPtr::new(ptr::null_mut()),
            order: AtomicU64::new(Order::sorted(slots.len()).0),
            prev: AtomicPtr::new(ptr::null_mut()),
            levels,
            heads: std::array::from_fn(|i| AtomicU64::new(slot(i).map_or(0, |slot| slot.head))),
            records: std::array::from_fn(|i| {
                AtomicPtr::new(slot(i).map_or(ptr::null_mut(), |slot| slot.record.address()))
            }),
        };
        // SAFETY: `memory` is aligned to 8 and has room for the towers and after them the leaf.
        unsafe {
            for level in 1..levels {
                memory.cast::<AtomicPtr<Leaf>>().add(level - 1).write(AtomicPtr::new(ptr::null_mut()));
            }
            let place = memory.add(tower_bytes).cast::<Leaf>();
            place.write(leaf);
            LeafRef(NonNull::new_unchecked(place), PhantomData)
        }
    }

    fn random_levels(&self, writer: &mut Writer) -> usize {
        writer.random ^= writer.random << 13;
        writer.random ^= writer.random >> 7;
        writer.random ^= writer.random << 17;
        let levels = (1 + writer.random.trailing_zeros() as usize / 2).min(LEVELS_MAX);
        let used = self.levels.load(Ordering::Relaxed);
        if levels > used {
            // Levels not descended on yet: only the first leaf is there.
            let first = self.first.load(Ordering::Relaxed);
            writer.finger[used..levels].fill(first);
            self.levels.store(levels, Ordering::Relaxed);
        }
        levels
    }

    fn first(&self) -> Option<LeafRef<'_>> {
        self.leaf(self.first.load(Ordering::Acquire))
    }

    /// Requires: null, or loaded from this list.
    fn leaf(&self, pointer: *mut Leaf) -> Option<LeafRef<'_>> {
        NonNull::new(pointer).map(|pointer| LeafRef(pointer, PhantomData))
    }
}

impl Place {
    pub(super) const NONE: Place = Place { leaf: ptr::null_mut(), order: Order(0), at: 0 };
}

impl<'a> LeafRef<'a> {
    fn pointer(self) -> *mut Leaf {
        self.0.as_ptr()
    }

    fn get(self) -> &'a Leaf {
        // SAFETY: the leaf is initialised (L3), stays as long as the list (A1), and changes only in its atomics.
        unsafe { self.0.as_ref() }
    }

    /// Requires: `level` is below the leaf's levels, which is so where a pointer of that level led to it.
    fn tower(self, level: usize) -> &'a AtomicPtr<Leaf> {
        debug_assert!(level < self.levels());
        // SAFETY: level 0 is the leaf's first field, the others are right before it (`new_leaf`).
        unsafe { &*self.pointer().cast::<AtomicPtr<Leaf>>().sub(level) }
    }

    fn next(self, level: usize) -> Option<LeafRef<'a>> {
        NonNull::new(self.tower(level).load(Ordering::Acquire)).map(|next| LeafRef(next, PhantomData))
    }

    fn prev(self) -> Option<LeafRef<'a>> {
        NonNull::new(self.prev_cell().load(Ordering::Acquire)).map(|prev| LeafRef(prev, PhantomData))
    }

    fn prev_cell(self) -> &'a AtomicPtr<Leaf> {
        &self.get().prev
    }

    fn order_cell(self) -> &'a AtomicU64 {
        &self.get().order
    }

    fn order(self) -> Order {
        Order(self.order_cell().load(Ordering::Acquire))
    }

    fn levels(self) -> usize {
        self.get().levels
    }

    fn is_first(self) -> bool {
        self.prev_cell().load(Ordering::Relaxed).is_null()
    }

    /// Requires: not the first leaf.
    fn fence(self) -> Slot {
        self.slot(0)
    }

    /// Requires: `slot` is named by an `Order` loaded from this leaf (L2), or is 0 (L3).
    fn slot(self, slot: usize) -> Slot {
        let leaf = self.get();
        let address = leaf.records[slot].load(Ordering::Relaxed);
        // SAFETY: the record was stored before the order that names the slot, or before the leaf was published.
        Slot { head: leaf.heads[slot].load(Ordering::Relaxed), record: unsafe { Record::from_address(address) } }
    }

    fn set_slot(self, slot: usize, content: Slot) {
        let leaf = self.get();
        leaf.heads[slot].store(content.head, Ordering::Relaxed);
        leaf.records[slot].store(content.record.address(), Ordering::Relaxed);
    }

    fn place(self, at: usize) -> Place {
        self.place_in(self.order(), at)
    }

    fn last_place(self) -> Place {
        let order = self.order();
        self.place_in(order, order.len() - 1)
    }

    fn place_in(self, order: Order, at: usize) -> Place {
        Place { leaf: self.pointer(), order, at }
    }

    /// Asks for what a scan forward from `at` needs next.
    fn ask_ahead(self, order: Order, at: usize) {
        if at == 0
            && let Some(next) = self.next(0)
        {
            prefetch(next.pointer());
        }
        match (at + AHEAD).checked_sub(order.len()) {
            None => self.slot(order.slot(at + AHEAD)).record.prefetch(),
            Some(beyond) => {
                let Some(next) = self.next(0) else { return };
                let order = next.order();
                next.slot(order.slot(beyond.min(order.len() - 1))).record.prefetch();
            }
        }
    }

    /// Asks for what a scan backward from `at` needs next.
    fn ask_behind(self, order: Order, at: usize) {
        if at + 1 == order.len()
            && let Some(prev) = self.prev()
        {
            prefetch(prev.pointer());
        }
        match at.checked_sub(AHEAD) {
            Some(at) => self.slot(order.slot(at)).record.prefetch(),
            None => {
                let Some(prev) = self.prev() else { return };
                let order = prev.order();
                prev.slot(order.slot(order.len().saturating_sub(AHEAD - at))).record.prefetch();
            }
        }
    }

    /// Returns the number of the leaf's entries before the target. Heads are counted slot by slot, whatever their order:
    /// no branch depends on a key, and only for equal heads are the records read.
    fn position(self, order: Order, target: &Target<'_>) -> usize {
        let (mut less, mut equal) = (0, 0);
        for head in &self.get().heads[..order.len()] {
            let head = head.load(Ordering::Relaxed);
            less += usize::from(head < target.head);
            equal += usize::from(head == target.head);
        }
        let (mut from, mut to) = (less, less + equal);
        while from < to {
            let middle = (from + to) / 2;
            if self.slot(order.slot(middle)).precedes(target) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }
}

impl Slot {
    fn precedes(&self, target: &Target<'_>) -> bool {
        if self.head != target.head {
            return self.head < target.head;
        }
        // SAFETY: slots come from leaves of a living list, whose arena is alive.
        unsafe { self.record.precedes(target.key, target.seq) }
    }
}

impl<'k> Target<'k> {
    fn new(key: &'k [u8], seq: Seq) -> Target<'k> {
        Target { head: head_of(key), key, seq }
    }
}

fn head_of(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(head) => u64::from_be_bytes(*head),
        None => key.iter().fold(0, |head, byte| head << 8 | u64::from(*byte)) << (8 * (8 - key.len()).min(7)),
    }
}
