//! The memory of the process: one limit that everything of size draws from.
//!
//! ```text
//! limit = caches + apart + reserved + free
//! ```
//!
//! - *reserved*: what statements, batches, messages, replies, transactions and index builds hold. They reserve it here
//!   before they allocate it, in steps of [`STEP_BYTES`]; what is smaller than one step is not accounted.
//! - *caches*: those of the storage engines. They have what is not reserved: [`Budget::caches_max`] falls when
//!   reservations grow, down to half of what the caches were configured to or five sixteenths of the limit, whichever is less (an eighth of the
//!   limit for reservations beyond all room, of large documents), and rises
//!   again behind them. A reservation of what caches were given waits until they are smaller, for a short time.
//! - *apart*: everything else in the process: code, stacks, small allocations, allocator overhead. It is measured:
//!   the sampler of resident memory passes it to [`Budget::observe`].
//!
//! A reservation is never granted beyond the limit. What its owner does then is the owner's choice: it spills, makes a smaller
//! batch, waits, or is refused. A reservation that can do with less (see [`Reservation::try_cover`]) gets at most as
//! much as is left free behind it, so that `n` of them have `1 / (n + 1)` each and the next one finds memory as well. That
//! rule is known from buffers of switches: Choudhury and Hahne, Dynamic Queue Length Thresholds (1998), with a factor of 1.
//!
//! **Invariants**
//! - B1: `reserved` is the sum of all living reservations, and `held` of a class the sum of its own.
//! - B2: a reservation that was granted (not forced) leaves `reserved <= room`, where room is `limit - apart - caches_min`, or is the only one.
//!
//! Threads: everything may be called from anywhere; there is no lock. Small work touches no shared counter.

pub mod machine;
mod reservation;
#[cfg(test)]
mod tests;
mod thread;
pub mod values;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

pub use reservation::{Allowance, Reservation};
pub use thread::{Allocated, set_thread_meter};

/// Reservations grow by multiples of this.
pub const STEP_BYTES: usize = 64 << 10;

/// Assumed size of `apart` before the first measurement: an idle server has 20 to 30 MB.
const APART_MIN: u64 = 24 << 20;

/// `apart` decreases by at most one part in this many with each sample: work that has just ended leaves memory that the
/// allocator has not returned yet, and work that follows soon needs as much again.
const APART_DECAY: u64 = 16;

/// Caches may always have as many sixteenths of the limit, whatever is reserved; those that were configured to more than twice that give way further.
const CACHES_MIN_16THS: u64 = 5;

/// Caches have at least one part in this many of the limit, more than a memtable, whatever is reserved beyond the room.
const CACHES_LEAST_PART: u64 = 8;

/// The purpose of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Sorts, groups and whatever else a statement collects.
    Statement,
    /// Documents of a reply that is being made.
    Batch,
    /// Messages that are being received, or that run.
    Message,
    /// Replies that the client has not read yet.
    Reply,
    /// Writes of open transactions.
    Transaction,
    /// Index builds.
    Build,
}

impl Class {
    pub const ALL: [Class; 6] =
        [Class::Statement, Class::Batch, Class::Message, Class::Reply, Class::Transaction, Class::Build];

    /// As `serverStatus` shows it.
    pub fn name(self) -> &'static str {
        match self {
            Class::Statement => "statements",
            Class::Batch => "batches",
            Class::Message => "messages",
            Class::Reply => "replies",
            Class::Transaction => "transactions",
            Class::Build => "indexBuilds",
        }
    }
}

/// A sample of the memory of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Anonymous memory that is resident.
    pub resident: u64,
    /// The part of it in caches, up to their size.
    pub caches: u64,
    /// Bytes that caches hold beyond their size, like memtables with large rows.
    pub beyond: u64,
    /// The configured size of the caches.
    pub caches_configured: u64,
}

/// A limit and what is reserved under it. `0` as the limit: there is none.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicU64,
    reserved: AtomicU64,
    /// `reserved` when the last sample was taken, or asked for.
    sampled: AtomicU64,
    held: [AtomicU64; Class::ALL.len()],
    /// Bytes of `reserved` that are held by threads that wait for more.
    waiting: AtomicU64,
    apart: AtomicU64,
    caches_min: AtomicU64,
    caches_configured: AtomicU64,
    /// Sizes that the caches have now. `0`: not known.
    caches_given: AtomicU64,
    /// Wakes reservations when the caches have another size.
    caches_resized: (Mutex<()>, Condvar),
    resident: AtomicU64,
    /// Bytes that caches held beyond their size at the last sample.
    beyond: AtomicU64,
    /// Number of samples.
    samples: AtomicU64,
    /// Reservations that were not granted.
    refused: AtomicU64,
    /// More memory is resident than allowed. Statements then report what they have allocated...
    exceeded: AtomicBool,
    /// ...of which this is the most since the last sample...
    largest: AtomicU64,
    /// ...and the next one that has allocated at least this much is stopped. `0`: none is.
    stop_from: AtomicU64,
    /// Called when a large reservation needs memory that caches have, or a sample is due.
    reclaim: OnceLock<fn()>,
}

static PROCESS: Budget = Budget::unlimited();

/// The budget of this process. It has no limit until one is set.
pub fn process() -> &'static Budget {
    &PROCESS
}

/// Reservations from this size on make the caches shrink at once instead of at the next sample.
const RECLAIM_BYTES_MIN: u64 = 2 << 20;

/// A sample is due when one part in this many of the limit was reserved since the last one.
const SAMPLES_PER_LIMIT: u64 = 32;

/// Timeout of a reservation that waits for caches to shrink, which takes a few milliseconds.
const SHRINK_PATIENCE: Duration = Duration::from_millis(50);

/// Timeout of a reservation that waits for rows that caches hold beyond their size to be written.
const WRITE_PATIENCE: Duration = Duration::from_secs(2);

/// Caches may hold this much beyond their size: their sizes are rounded.
const BEYOND_MAX: u64 = 2 << 20;

/// Interval at which a waiting reservation has a sample taken.
const SAMPLE_PAUSE: Duration = Duration::from_millis(2);

/// Idle work may always keep this many bytes: on disk it would need buffers that are hardly smaller.
const IDLE_BYTES_MIN: u64 = 1 << 20;

/// Memory of a snapshot that waits for its client, which no account has. A session of WiredTiger, which takes most, has 28 KB of
/// tables and never returns them: a later session uses them again.
const SNAPSHOT_BYTES: u64 = 32 << 10;

/// As many snapshots may wait under any limit.
const SNAPSHOTS_MIN: u64 = 256;

impl Budget {
    pub const fn unlimited() -> Budget {
        Budget {
            limit: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            sampled: AtomicU64::new(0),
            held: [const { AtomicU64::new(0) }; Class::ALL.len()],
            waiting: AtomicU64::new(0),
            apart: AtomicU64::new(APART_MIN),
            caches_min: AtomicU64::new(0),
            caches_configured: AtomicU64::new(0),
            caches_given: AtomicU64::new(0),
            caches_resized: (Mutex::new(()), Condvar::new()),
            resident: AtomicU64::new(0),
            beyond: AtomicU64::new(0),
            samples: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            exceeded: AtomicBool::new(false),
            largest: AtomicU64::new(0),
            stop_from: AtomicU64::new(0),
            reclaim: OnceLock::new(),
        }
    }

    /// `None`: without a limit.
    pub fn limit(&self) -> Option<u64> {
        Some(self.limit.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Sets the configured size of the caches before the first sample.
    pub fn set_caches(&self, configured: u64) {
        self.caches_configured.store(configured, Ordering::Relaxed);
        let most = self.limit().map_or(u64::MAX, |limit| limit / 16 * CACHES_MIN_16THS);
        self.caches_min.store((configured / 2).min(most), Ordering::Relaxed);
    }

    /// Sets the size that the caches have now, or that they were asked to have.
    pub fn set_caches_given(&self, bytes: u64) {
        self.caches_given.store(bytes, Ordering::Relaxed);
        let _guard = self.caches_resized.0.lock();
        self.caches_resized.1.notify_all();
    }

    /// Sets the function that has a sample taken and the caches shrink to [`Budget::caches_max`]. The first call counts.
    pub fn set_reclaim(&self, reclaim: fn()) {
        let _first_counts = self.reclaim.set(reclaim);
    }

    /// Takes a measurement into account.
    pub fn observe(&self, sample: Sample) {
        self.set_caches(sample.caches_configured);
        self.resident.store(sample.resident, Ordering::Relaxed);
        self.beyond.store(sample.beyond, Ordering::Relaxed);
        self.samples.fetch_add(1, Ordering::Release);
        let reserved = self.reserved.load(Ordering::Relaxed);
        self.sampled.store(reserved, Ordering::Relaxed);
        let accounted = sample.caches + reserved;
        let apart = sample.resident.saturating_sub(accounted).max(APART_MIN);
        let before = self.apart.load(Ordering::Relaxed);
        let decayed = before - (before.saturating_sub(apart)) / APART_DECAY;
        self.apart.store(apart.max(decayed), Ordering::Relaxed);
        self.choose_statement();
    }

    /// More is resident than may be although caches and reservations have given way: some statement has allocated what it
    /// did not reserve. The one that has allocated most is to stop; which one that is, is known one sample later.
    fn choose_statement(&self) {
        let exceeded = self.is_exceeded();
        let largest = self.largest.swap(0, Ordering::Relaxed);
        let enough = self.limit().unwrap_or(u64::MAX) / 16;
        let from = if exceeded && largest >= enough { largest / 8 * 7 } else { 0 };
        self.stop_from.store(from, Ordering::Relaxed);
        self.exceeded.store(exceeded, Ordering::Relaxed);
    }

    /// Returns true if the statement of this thread has to stop; `allocated`: its allocations less what it has freed. Checked by
    /// everything that may run long.
    #[inline]
    pub fn must_stop(&self, allocated: impl FnOnce() -> u64) -> bool {
        self.exceeded.load(Ordering::Relaxed) && self.is_chosen(allocated())
    }

    #[cold]
    fn is_chosen(&self, allocated: u64) -> bool {
        self.largest.fetch_max(allocated, Ordering::Relaxed);
        let from = self.stop_from.load(Ordering::Relaxed);
        let is_largest = from > 0 && allocated >= from;
        is_largest && self.stop_from.compare_exchange(from, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Returns what all caches together may hold now: the rest of the limit, at most their configured size. At least they have half of that,
    /// or five sixteenths of the limit, and an eighth while more is reserved than there is room for.
    pub fn caches_max(&self) -> u64 {
        let configured = self.caches_configured.load(Ordering::Relaxed);
        let Some(limit) = self.limit() else { return configured };
        let reserved = self.reserved.load(Ordering::Relaxed);
        let usual = self.caches_min.load(Ordering::Relaxed);
        let least = if reserved > self.room_max() { usual.min(limit / CACHES_LEAST_PART) } else { usual };
        limit.saturating_sub(self.apart.load(Ordering::Relaxed) + reserved).clamp(least, configured)
    }

    /// Resident memory at the last sample.
    pub fn resident(&self) -> u64 {
        self.resident.load(Ordering::Relaxed)
    }

    /// Returns the memory of the process outside caches and reservations.
    pub fn apart(&self) -> u64 {
        self.apart.load(Ordering::Relaxed)
    }

    pub fn held(&self, class: Class) -> u64 {
        self.held[class as usize].load(Ordering::Relaxed)
    }

    pub fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Reservations that were not granted so far.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns the maximum for all reservations together.
    pub fn room(&self) -> u64 {
        let Some(limit) = self.limit() else { return u64::MAX };
        limit.saturating_sub(self.apart() + self.caches_min.load(Ordering::Relaxed))
    }

    /// Returns what [`Budget::room`] is at most. A reservation beyond it is granted only to an owner that waits until nothing else is reserved.
    pub fn room_max(&self) -> u64 {
        let Some(limit) = self.limit() else { return u64::MAX };
        limit.saturating_sub(APART_MIN + self.caches_min.load(Ordering::Relaxed))
    }

    /// Returns the unreserved part of [`Budget::room`].
    pub fn free(&self) -> u64 {
        self.room().saturating_sub(self.reserved())
    }

    /// Returns the maximum size of one value that is being built: a part of the room, since other values exist at the same time.
    pub fn value_bytes_max(&self) -> u64 {
        self.room() / 4
    }

    /// Returns the memory that work may keep while it waits for its client, like a cursor between two batches, and could spill
    /// instead: a part of what is left, so that many of them leave some.
    pub fn idle_bytes_max(&self) -> u64 {
        if self.limit().is_some() { (self.free() / 16).max(IDLE_BYTES_MIN) } else { u64::MAX }
    }

    /// Returns how many snapshots may wait for their clients, of cursors or of transactions, where `usual` may without a limit.
    pub fn snapshots_max(&self, usual: usize) -> usize {
        let part = self.limit().map_or(u64::MAX, |limit| (limit / 16 / SNAPSHOT_BYTES).max(SNAPSHOTS_MIN));
        usual.min(usize::try_from(part).unwrap_or(usize::MAX))
    }

    /// Returns true if little memory is left: an owner that holds memory on behalf of others, like a slow client, has to finish soon.
    pub fn is_scarce(&self) -> bool {
        self.limit().is_some() && self.free() <= self.room() / 16
    }

    /// Returns true if more memory is resident than allowed, although reservations and caches have shrunk.
    pub fn is_exceeded(&self) -> bool {
        self.limit().is_some_and(|limit| self.resident() > limit + limit / 16)
    }

    /// An empty reservation.
    pub fn reservation(&'static self, class: Class) -> Reservation {
        Reservation::new(self, class)
    }

    /// Returns an allowance for work that can do with less than `bytes_max`.
    pub fn allowance(&'static self, class: Class, bytes_max: usize) -> Allowance {
        Allowance::new(self.reservation(class), bytes_max)
    }

    /// Takes `bytes` if as much is left and `share` says yes to what is left behind them.
    fn take(&self, class: Class, bytes: u64, share: impl Fn(u64) -> bool) -> bool {
        let room = self.room();
        let before = self.reserved.fetch_add(bytes, Ordering::Relaxed);
        let left = room.checked_sub(before.saturating_add(bytes));
        if !left.is_some_and(share) {
            self.reserved.fetch_sub(bytes, Ordering::Relaxed);
            self.refused.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.held[class as usize].fetch_add(bytes, Ordering::Relaxed);
        self.reclaim_for(bytes);
        true
    }

    /// Waits until the caches have shrunk to what reservations leave, for [`SHRINK_PATIENCE`] at most. Without it a statement that grows
    /// fast would use memory that caches still hold. Returns false if they have not shrunk.
    fn wait_for_caches(&self) -> bool {
        if !self.caches_are_in_the_way() {
            return true;
        }
        let Some(reclaim) = self.reclaim.get() else { return true };
        let deadline = Instant::now() + SHRINK_PATIENCE;
        let mut guard = self.caches_resized.0.lock();
        reclaim();
        while self.caches_are_in_the_way() && !self.caches_resized.1.wait_until(&mut guard, deadline).timed_out() {}
        !self.caches_are_in_the_way()
    }

    /// Returns true if the caches are larger than they may be, by more than their sizes are rounded.
    fn caches_are_in_the_way(&self) -> bool {
        let rounding = self.caches_configured.load(Ordering::Relaxed) / 16;
        self.caches_given.load(Ordering::Relaxed) > self.caches_max() + rounding
    }

    /// Waits until the caches are within their size, while `may_wait` and for [`WRITE_PATIENCE`] at most: an engine first writes what it holds
    /// beyond that. Without it, large writes one after the other would use memory that the rows of those before still have.
    fn wait_for_rows_beyond(&self, may_wait: impl Fn() -> bool) {
        let Some(reclaim) = self.reclaim.get() else { return };
        let (begun, before) = (Instant::now(), self.samples.load(Ordering::Acquire));
        loop {
            // the first of two may have begun earlier
            let is_known = self.samples.load(Ordering::Acquire).wrapping_sub(before) >= 2;
            let is_within = is_known && self.beyond.load(Ordering::Relaxed) <= BEYOND_MAX;
            if is_within || begun.elapsed() >= WRITE_PATIENCE || !may_wait() {
                return;
            }
            reclaim();
            std::thread::sleep(SAMPLE_PAUSE);
        }
    }

    /// Takes `bytes` if nothing is reserved but the caller's own bytes and what others hold that wait themselves.
    fn take_alone(&self, class: Class, own: u64, bytes: u64) -> bool {
        let own = own + self.waiting.load(Ordering::Relaxed);
        let is_alone = self.reserved.compare_exchange(own, own + bytes, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_alone {
            self.held[class as usize].fetch_add(bytes, Ordering::Relaxed);
            self.reclaim_for(bytes);
        }
        is_alone
    }

    /// Takes `bytes` whatever is left.
    fn force(&self, class: Class, bytes: u64) {
        self.reserved.fetch_add(bytes, Ordering::Relaxed);
        self.held[class as usize].fetch_add(bytes, Ordering::Relaxed);
        self.reclaim_for(bytes);
    }

    fn release(&self, class: Class, bytes: u64) {
        let before = self.reserved.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "B1: {before} reserved, {bytes} released");
        self.held[class as usize].fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Has a sample taken when much was reserved since the last one: what is allocated for it may be more, which is known only by then.
    /// Shrinks the caches when they are in the way of a reservation of this size.
    fn reclaim_for(&self, bytes: u64) {
        let is_in_the_way = || self.caches_max() < self.caches_configured.load(Ordering::Relaxed);
        let reserved = self.reserved.load(Ordering::Relaxed);
        let much = self.limit().map_or(u64::MAX, |limit| limit / SAMPLES_PER_LIMIT);
        let is_much_more = reserved.saturating_sub(self.sampled.load(Ordering::Relaxed)) > much;
        if (is_much_more || bytes >= RECLAIM_BYTES_MIN && is_in_the_way())
            && let Some(reclaim) = self.reclaim.get()
        {
            self.sampled.store(reserved, Ordering::Relaxed);
            reclaim();
        }
    }
}
