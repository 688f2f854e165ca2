//! State of a member that all threads may read without asking its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arbor_base::Position;
use arbor_bson::DocBuf;
use arbor_repl::isr::{Millis, Status};
use arbor_repl::{Coordinator, Epoch, Identity, MemberId, SetConfig};
use arbor_txn::fetch::SyncProgress;
use arc_swap::ArcSwap;
use parking_lot::{Condvar, Mutex};

use crate::sync::Syncing;

/// The server around a member.
pub trait Server: Send + Sync {
    /// Clients may write from now on. By a thread of its own, in turn with `retired`.
    fn leads(&self, epoch: Epoch);
    /// Clients no longer write here.
    fn retired(&self);
    /// The role, the epoch or the agreement changed. Must be short.
    fn shown(&self, status: &Status);
    /// The other members no longer have the records that this one needs: an initial sync follows.
    fn falls_behind(&self, from: MemberId);
    /// An initial sync begins or has ended: between them nothing here can be read.
    fn syncs(&self, syncing: bool);
    fn sync_continues(&self, source: &str, progress: &SyncProgress);
    fn sync_failed(&self, source: &str, error: &str);
    fn sync_ended(&self, source: &str, progress: &SyncProgress);
    /// A tree that came past the log could not be fetched, after one that could.
    fn fetch_failed(&self, source: &str, error: &str);
    /// The coordinator cannot be used, after it could, or at first.
    fn coordinator_fails(&self, error: &str);
    /// The member cannot continue: the process is to end.
    fn failed(&self, reason: &str);
}

/// A set, as far as its coordinator depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub set: &'a str,
    /// Address of this server in the configuration.
    pub own: &'a str,
    /// Addresses of the members with data and a vote.
    pub hosts: &'a [String],
    /// The set begins here: there is no coordinator of it yet.
    pub founds: bool,
}

/// Finds the coordinator of a set of several members.
pub trait Coordinators: Send + Sync {
    /// Errors: none was configured, or it cannot be used.
    fn open(&self, place: &Place<'_>) -> std::io::Result<Arc<dyn Coordinator>>;

    /// For `replSetGetStatus`: which one it is.
    fn describe(&self) -> DocBuf;
}

/// Another member, as this primary sees it.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    pub identity: Identity,
    /// It holds the log up to here on its disk.
    pub acknowledged: Position,
    /// Since it last had all of it.
    pub behind: Duration,
}

/// Times begin here, so that none is before the beginning.
const CLOCK_BEGINS: Millis = 1_000_000;

pub(crate) struct Shared {
    pub status: ArcSwap<Status>,
    peers: Mutex<Vec<(Identity, Position, Millis)>>,
    acknowledged: Condvar,
    readable_until: AtomicU64,
    pub commit: AtomicU64,
    /// Time of the coordinator's last reply.
    pub coordinator_at: AtomicU64,
    /// Reason why the coordinator cannot be used.
    pub coordinator_error: Mutex<Option<String>>,
    /// Seconds by which this member shows records later than they were written.
    pub delay: AtomicU64,
    pub sync: Syncing,
    begun: Instant,
}

impl Shared {
    pub(crate) fn new(status: Status) -> Shared {
        Shared {
            status: ArcSwap::from_pointee(status),
            peers: Mutex::default(),
            acknowledged: Condvar::new(),
            readable_until: AtomicU64::new(0),
            commit: AtomicU64::new(0),
            coordinator_at: AtomicU64::new(0),
            coordinator_error: Mutex::default(),
            delay: AtomicU64::new(0),
            sync: Syncing::default(),
            begun: Instant::now(),
        }
    }

    pub(crate) fn take_delay(&self, config: &SetConfig, own: MemberId) {
        let seconds =
            config.members.iter().find(|member| member.id as u32 == own.0).map_or(0, |member| member.delay_seconds);
        self.delay.store(seconds.unsigned_abs(), Ordering::Relaxed);
    }

    /// This member's own steady clock.
    pub(crate) fn now(&self) -> Millis {
        CLOCK_BEGINS + self.begun.elapsed().as_millis() as Millis
    }

    pub(crate) fn set_readable_until(&self, until: Option<Millis>) {
        self.readable_until.store(until.unwrap_or(0), Ordering::Release);
    }

    pub(crate) fn may_read(&self) -> bool {
        self.now() < self.readable_until.load(Ordering::Acquire)
    }

    pub(crate) fn set_peers(&self, peers: Vec<(Identity, Position, Millis)>) {
        *self.peers.lock() = peers;
        self.acknowledged.notify_all();
    }

    pub(crate) fn peers(&self) -> Vec<Peer> {
        let now = self.now();
        let peer = |(identity, acknowledged, at): &(Identity, Position, Millis)| Peer {
            identity: *identity,
            acknowledged: *acknowledged,
            behind: Duration::from_millis(now.saturating_sub(*at)),
        };
        self.peers.lock().iter().map(peer).collect()
    }

    /// Waits until `enough` holds for what the others acknowledged, or until the deadline; false: it does not.
    pub(crate) fn wait_acknowledged(
        &self,
        deadline: Option<Instant>,
        enough: impl Fn(&[(Identity, Position, Millis)]) -> Option<bool>,
    ) -> bool {
        let mut peers = self.peers.lock();
        loop {
            if let Some(outcome) = enough(&peers) {
                return outcome;
            }
            // Looks again after a while, for a change of role.
            let soon = Instant::now() + Duration::from_millis(500);
            match deadline {
                Some(deadline) if Instant::now() >= deadline => return false,
                deadline => {
                    let until = deadline.map_or(soon, |deadline| deadline.min(soon));
                    let _timed_out = self.acknowledged.wait_until(&mut peers, until);
                }
            }
        }
    }
}
