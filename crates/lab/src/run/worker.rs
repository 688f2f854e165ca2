//! One client thread, with one connection or several.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::Timespec;
use rustix::io::Errno;

use super::{Interrupt, Recorder, Schedule};
use crate::target::{Failure, Session, Target};
use crate::workload::{Answer, Client, Kind, Operation, Unit};
use crate::{Error, Result};

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

    /// Runs units of several clients until stopped, whose units are one request each: the reply that comes first is read first.
    pub(super) fn run_many(&self, clients: Vec<(Box<dyn Client>, Box<dyn Session>)>) -> Result<()> {
        debug_assert!(self.schedule.is_none(), "requests are sent when the reply before has come");
        let ready = epoll::create(CreateFlags::CLOEXEC).map_err(std::io::Error::from)?;
        let lane = |(client, session)| Lane { client, session, sent: None };
        let mut lanes: Vec<Lane> = clients.into_iter().map(lane).collect();
        for (number, lane) in lanes.iter_mut().enumerate() {
            lane.watch(&ready, number)?;
            self.send(lane);
        }
        let mut events = Vec::with_capacity(lanes.len());
        let patience = Timespec { tv_sec: 0, tv_nsec: RECONNECT.as_nanos() as i64 };
        while !self.stopped() {
            events.clear();
            match epoll::wait(&ready, spare_capacity(&mut events), Some(&patience)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(std::io::Error::from(error).into()),
            }
            for event in events.drain(..) {
                let number = event.data.u64() as usize;
                let Some(lane) = lanes.get_mut(number) else { continue };
                let broken = self.receive(lane) || self.send(lane);
                if broken {
                    if !self.reconnect(&mut lane.session) {
                        return Ok(());
                    }
                    lane.watch(&ready, number)?;
                    self.send(lane);
                }
            }
        }
        Ok(())
    }

    /// Sends the next request. Returns true if the connection is broken.
    fn send(&self, lane: &mut Lane) -> bool {
        let Lane { client, session, sent } = lane;
        let begun = Instant::now();
        let mut failed = None;
        client.unit(&mut |operation| match session.send(operation) {
            Ok(is_sent) => {
                assert!(is_sent, "the unit of such a workload is one request");
                *sent = Some((operation.kind(), begun));
                Some(Answer::rows(1))
            }
            Err(failure) => {
                failed = Some(failure);
                None
            }
        });
        failed.is_some_and(|failure| self.failed(&failure))
    }

    /// Reads and records the reply that has come. Returns true if the connection is broken.
    fn receive(&self, lane: &mut Lane) -> bool {
        let Some((kind, begun)) = lane.sent.take() else { return true };
        match lane.session.receive() {
            Ok(answer) => {
                let mut recorder = self.recorder();
                recorder.record(kind, nanoseconds(begun, Instant::now()), None);
                if answer.rows == 0 {
                    recorder.miss();
                }
                false
            }
            Err(failure) => self.failed(&failure),
        }
    }

    /// Records a failure. Returns true if the connection is broken.
    fn failed(&self, failure: &Failure) -> bool {
        if !self.stopped() || !failure.broken {
            self.recorder().error(&failure.code, &failure.message);
        }
        failure.broken
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

/// A client of a thread that has several.
struct Lane {
    client: Box<dyn Client>,
    session: Box<dyn Session>,
    /// The request whose reply is awaited, and when it was sent.
    sent: Option<(Kind, Instant)>,
}

impl Lane {
    /// Has the thread hear of replies.
    fn watch(&self, ready: &OwnedFd, number: usize) -> Result<()> {
        let Some(socket) = self.session.socket() else {
            return Err(Error::Usage(
                "several connections per thread need a target without TLS that sends requests".to_owned(),
            ));
        };
        epoll::add(ready, socket, EventData::new_u64(number as u64), EventFlags::IN).map_err(std::io::Error::from)?;
        Ok(())
    }
}

fn nanoseconds(from: Instant, to: Instant) -> u64 {
    to.saturating_duration_since(from).as_nanos() as u64
}
