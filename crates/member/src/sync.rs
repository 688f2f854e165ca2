//! Initial sync: the data of another member takes the place of what is here, for a member that has no data, or needs records that the
//! primary no longer has.
//!
//! ```text
//! driver   Resync ── halted: no messages, nothing is appended ── begun: streams the log behind the state ── ended: acknowledges, applies
//! here                asks a source for its state ── log and trees begin again ── fetches tree after tree
//! ```
//!
//! D4: until the end this member acknowledges nothing and does not take over: it has records, and not the state before them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use arbor_repl::MemberId;
use arbor_txn::Transactions;
use arbor_txn::fetch::{SyncProgress, SyncWatch};
use parking_lot::Mutex;

use crate::dial::Dialer;
use crate::event::Event;
use crate::lanes::Hosts;
use crate::loads::RemotePeer;
use crate::shown::{Server, Shared};

/// Time after a failed attempt.
const RETRY: Duration = Duration::from_secs(1);
/// Time between two lines of the log.
const REPORT: Duration = Duration::from_secs(5);

/// Progress of an initial sync, for `replSetGetStatus`.
#[derive(Clone, Debug, Default)]
pub struct SyncStatus {
    /// Address of the member whose data is fetched.
    pub source: String,
    pub progress: SyncProgress,
    pub failed_attempts: u32,
    /// The reason why the last attempt failed.
    pub error: Option<String>,
    /// The data is copied.
    pub has_ended: bool,
}

/// The state of an initial sync that all threads may read.
#[derive(Default)]
pub(crate) struct Syncing {
    status: Mutex<Option<SyncStatus>>,
    /// The attempt under way is useless.
    pub again: AtomicBool,
}

impl Syncing {
    pub(crate) fn status(&self) -> Option<SyncStatus> {
        self.status.lock().clone()
    }

    fn change(&self, change: impl FnOnce(&mut SyncStatus)) {
        change(self.status.lock().get_or_insert_default());
    }
}

pub(crate) struct Sync {
    pub own: MemberId,
    pub transactions: Arc<Transactions>,
    pub dialer: Dialer,
    pub hosts: Hosts,
    pub shared: Arc<Shared>,
    pub server: Arc<dyn Server>,
    pub events: Sender<Event>,
    pub stopped: Arc<AtomicBool>,
}

impl Sync {
    /// Carries out one initial sync after the other; `work` names the member that is asked first.
    pub(crate) fn run(&self, work: &Receiver<Option<MemberId>>) {
        while let Ok(from) = work.recv() {
            self.shared.sync.change(|status| *status = SyncStatus::default());
            self.server.syncs(true);
            let mut asked = from;
            let done = loop {
                if self.stopped.load(Ordering::Relaxed) {
                    break false;
                }
                match self.attempt(asked) {
                    Some(true) => break true,
                    Some(false) => std::thread::sleep(RETRY),
                    None => break false,
                }
                asked = self.next_source(asked);
            };
            if !done {
                return;
            }
            self.shared.sync.change(|status| status.has_ended = true);
            self.server.syncs(false);
            if self.events.send(Event::SyncEnded).is_err() {
                return;
            }
        }
    }

    /// The primary that is known, else another member than the one that failed.
    fn next_source(&self, failed: Option<MemberId>) -> Option<MemberId> {
        let primary = self.shared.status.load().primary.filter(|primary| *primary != self.own);
        if primary.is_some() && primary != failed {
            return primary;
        }
        let mut others: Vec<MemberId> = self.hosts.load().keys().copied().filter(|id| *id != self.own).collect();
        others.sort_unstable();
        let later = others.iter().find(|id| Some(**id) > failed);
        later.or_else(|| others.first()).copied()
    }

    /// `None`: the member stops.
    fn attempt(&self, from: Option<MemberId>) -> Option<bool> {
        let (halted, has_halted) = channel();
        self.events.send(Event::SyncHalts(halted)).ok()?;
        has_halted.recv().ok()?;
        let from = from.or_else(|| self.next_source(None));
        let host = from.and_then(|from| self.hosts.load().get(&from).cloned());
        let Some(host) = host else {
            self.shared.sync.change(|status| status.error = Some("no other member is known".to_owned()));
            return Some(false);
        };
        self.shared.sync.again.store(false, Ordering::Release);
        self.shared.sync.change(|status| status.source.clone_from(&host));
        let peer = RemotePeer::new(&host, &self.dialer);
        let reported = Mutex::new(Instant::now());
        match self.transactions.sync_from(&peer, &Attempt { sync: self, source: &host, reported }) {
            Ok(progress) => {
                self.server.sync_ended(&host, &progress);
                Some(true)
            }
            Err(_) if self.stopped.load(Ordering::Relaxed) => None,
            Err(error) => {
                let error = error.to_string();
                self.server.sync_failed(&host, &error);
                self.shared.sync.change(|status| {
                    status.failed_attempts += 1;
                    status.error = Some(error);
                });
                Some(false)
            }
        }
    }
}

struct Attempt<'s> {
    sync: &'s Sync,
    source: &'s str,
    reported: Mutex<Instant>,
}

impl SyncWatch for Attempt<'_> {
    fn is_stopped(&self) -> bool {
        self.sync.stopped.load(Ordering::Relaxed) || self.sync.shared.sync.again.load(Ordering::Acquire)
    }

    fn begun(&self, progress: &SyncProgress) {
        self.sync.server.sync_continues(self.source, progress);
        self.sync.shared.sync.change(|status| status.progress = *progress);
        let _stopped = self.sync.events.send(Event::SyncStreams);
    }

    fn progress(&self, progress: &SyncProgress) {
        self.sync.shared.sync.change(|status| status.progress = *progress);
        let mut reported = self.reported.lock();
        if reported.elapsed() >= REPORT {
            *reported = Instant::now();
            self.sync.server.sync_continues(self.source, progress);
        }
    }
}
