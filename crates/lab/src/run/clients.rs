//! The clients of a step that run in this process.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};

use super::worker::Worker;
use super::{Interrupt, Recorder, Schedule};
use crate::target::{Session, Target};
use crate::workload::{Place, Workload};
use crate::{Error, Result};

/// A recorder's histograms take about half a megabyte, all of which is added up and emptied at every interval: with a
/// thousand that alone would be a tenth of a processor. Above this many clients some share one.
const SLOTS_MAX: usize = 64;

/// Files that the laboratory, or a server that inherits its limit, has open in addition to the clients' connections.
const OTHER_FILES: u64 = 64;

/// Clients that are connected.
pub(crate) struct Clients<'a> {
    target: &'a dyn Target,
    workload: &'a dyn Workload,
    /// Their numbers among all of the step.
    numbers: Range<usize>,
    of: usize,
    sessions: Mutex<Vec<Box<dyn Session>>>,
    slots: Vec<Mutex<Recorder>>,
    stop: AtomicBool,
}

impl<'a> Clients<'a> {
    pub(crate) fn connect(
        target: &'a dyn Target,
        workload: &'a dyn Workload,
        numbers: Range<usize>,
        of: usize,
    ) -> Result<Clients<'a>> {
        has_room_for(numbers.len())?;
        let sessions = numbers.clone().map(|_| target.connect()).collect::<Result<Vec<_>>>()?;
        let slots = (0..numbers.len().clamp(1, SLOTS_MAX)).map(|_| Mutex::default()).collect();
        let (sessions, stop) = (Mutex::new(sessions), AtomicBool::new(false));
        Ok(Clients { target, workload, numbers, of, sessions, slots, stop })
    }

    /// Starts the threads.
    pub(crate) fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        schedule: Option<&'scope Schedule>,
        seed: u64,
        connections_per_thread: usize,
        interrupt: &'scope Interrupt,
    ) -> Result<Running<'scope>> {
        let mut sessions = self.numbers.clone().zip(std::mem::take(&mut *self.sessions.lock())).peekable();
        let place = |number| Place { number, of: self.of };
        let client = |number| self.workload.client(place(number), seed.wrapping_add(1_000_003 * (number as u64 + 1)));
        let mut threads = Vec::new();
        while let Some((number, _)) = sessions.peek() {
            let (number, slot) = (*number, self.slots.get(*number % self.slots.len()).ok_or(Error::Panicked)?);
            let schedule = schedule.filter(|_| self.workload.is_scheduled(place(number)));
            let (target, unit, stop) = (self.target, self.workload.unit(), &self.stop);
            let worker = Worker { target, unit, schedule, stop, interrupt, slot };
            let own = sessions.by_ref().take(connections_per_thread.max(1));
            let mut own: Vec<_> = own.map(|(number, session)| (client(number), session)).collect();
            let thread = Builder::new().spawn_scoped(scope, move || match own.pop() {
                Some((client, session)) if own.is_empty() => worker.run(client, session),
                last => worker.run_many(own.into_iter().chain(last).collect()),
            });
            match thread {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    self.stop.store(true, Ordering::Relaxed);
                    let text = format!("only {} client threads could be started: {error}", threads.len());
                    return Err(Error::Usage(text));
                }
            }
        }
        Ok(Running { clients: self, threads })
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Clients whose threads run.
pub(crate) struct Running<'scope> {
    clients: &'scope Clients<'scope>,
    threads: Vec<ScopedJoinHandle<'scope, Result<()>>>,
}

impl Running<'_> {
    /// Returns what was recorded since the last call.
    pub(crate) fn drain(&self) -> Recorder {
        let mut sum = Recorder::default();
        for slot in &self.clients.slots {
            let mut recorder = slot.lock();
            sum.merge(&recorder);
            recorder.reset();
        }
        sum
    }

    /// Ends the threads. Errors: one could not continue.
    pub(crate) fn end(self) -> Result<()> {
        self.clients.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| Error::Panicked)?)
    }
}

/// Returns an error if the file limit is too low: a server out of sockets leaves the connecting client waiting.
fn has_room_for(connections: usize) -> Result<()> {
    let needed = connections as u64 + OTHER_FILES;
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < needed => Err(Error::Usage(format!(
            "{connections} clients need {needed} open files, and the limit is {limit} (ulimit -Hn {needed} raises it)"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_clients_than_files_are_refused_before_they_connect() {
        assert!(has_room_for(1).is_ok());
        let Some(limit) = getrlimit(Resource::Nofile).current else { return };
        let error = has_room_for(limit as usize).unwrap_err().to_string();
        assert!(error.contains(&format!("the limit is {limit}")), "{error}");
    }
}
