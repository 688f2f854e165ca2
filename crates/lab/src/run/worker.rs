//! One client thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use super::{Interrupt, Recorder, Schedule};
use crate::Result;
use crate::target::{Failure, Session, Target};
use crate::workload::{Answer, Client, Kind, Operation, Unit};

/// Delay between attempts to connect again after a broken connection.
const RECONNECT: Duration = Duration::from_millis(100);

/// Inputs of a client thread. All of it is shared between threads.
pub(super) struct Worker<'a> {
    pub target: &'a dyn Target,
    pub unit: Kind,
    pub schedule: Option<&'a Schedule>,
    pub stop: &'a AtomicBool,
    pub interrupt: &'a Interrupt,
    /// Locked by this thread, at times by one that shares it, and once per interval by the collecting thread.
    pub slot: &'a Mutex<Recorder>,
}

impl Worker<'_> {
    /// Runs units until stopped.
    pub(super) fn run(&self, mut client: Box<dyn Client>, mut session: Box<dyn Session>) -> Result<()> {
        while !self.stopped() {
            let due = self.schedule.map(Schedule::take);
            if due.is_some_and(|due| !self.wait_for(due)) {
                break;
            }
            let begun = Instant::now();
            let (mut broken, mut first, mut ended) = (false, true, begun);
            let unit = client.unit(&mut |operation| {
                let due = due.filter(|_| std::mem::take(&mut first) && self.unit != Kind::TRANSACTION);
                let (outcome, answered) = self.execute(operation, &mut *session, due);
                ended = answered;
                outcome.map_err(|failure| broken = failure.broken).ok()
            });
            match unit {
                Unit::Complete(kinds) => self.unit_done(kinds, begun, ended, due),
                Unit::Abandoned => {}
                Unit::Finished => break,
            }
            if broken && !self.reconnect(&mut session) {
                break;
            }
        }
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.interrupt.is_set()
    }

    fn wait_for(&self, due: Instant) -> bool {
        loop {
            let now = Instant::now();
            if now >= due {
                return true;
            }
            if self.stopped() {
                return false;
            }
            std::thread::sleep((due - now).min(RECONNECT));
        }
    }

    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.slot.lock()
    }

    /// Returns the outcome and the time of the reply. `due` for the operation that a unit begins with: its response time counts
    /// from then.
    fn execute(
        &self,
        operation: &Operation<'_>,
        session: &mut dyn Session,
        due: Option<Instant>,
    ) -> (std::result::Result<Answer, Failure>, Instant) {
        let begun = Instant::now();
        let outcome = session.execute(operation);
        let ended = Instant::now();
        let service = nanoseconds(begun, ended);
        let mut recorder = self.recorder();
        match &outcome {
            Ok(answer) => {
                recorder.record(operation.kind(), service, due.map(|due| nanoseconds(due, begun) + service));
                if answer.rows == 0 {
                    recorder.miss();
                }
            }
            Err(failure) if !self.stopped() || !failure.broken => recorder.error(&failure.code, &failure.message),
            Err(_) => {}
        }
        (outcome, ended)
    }

    /// Records a unit, which ends with the reply to its last operation.
    fn unit_done(&self, kinds: &[Kind], begun: Instant, ended: Instant, due: Option<Instant>) {
        if kinds.is_empty() {
            return;
        }
        let mut recorder = self.recorder();
        for kind in kinds {
            recorder.record(*kind, nanoseconds(begun, ended), due.map(|due| nanoseconds(due, ended)));
        }
    }

    /// Connects again; returns false if stopped before that worked.
    fn reconnect(&self, session: &mut Box<dyn Session>) -> bool {
        while !self.stopped() {
            if let Ok(fresh) = self.target.connect() {
                *session = fresh;
                return true;
            }
            std::thread::sleep(RECONNECT);
        }
        false
    }
}

fn nanoseconds(from: Instant, to: Instant) -> u64 {
    to.saturating_duration_since(from).as_nanos() as u64
}
