//! Queue of background tasks, most urgent first: absorbing a frozen memtable, then flushing, by weight.

use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::claims::Claims;
use crate::flush::Job;
use crate::tree::{Place, Tree};

pub enum Task {
    Absorb,
    Flush(Job),
}

#[derive(Default)]
pub struct Scheduler {
    queue: Mutex<Queue>,
    wake: Condvar,
    stopped: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: BinaryHeap<Waiting>,
    /// Slots that wait in `jobs` or are worked on.
    claims: Claims,
    added: u64,
    /// Bytes of the jobs that wait.
    waiting_bytes: u64,
    absorb: bool,
    absorbing: bool,
    running: usize,
    stop: bool,
}

/// Ordered by weight; of equal ones the first that came is the greater.
struct Waiting {
    job: Job,
    number: u64,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> std::cmp::Ordering {
        self.job.weight.cmp(&other.job.weight).then_with(|| other.number.cmp(&self.number))
    }
}

impl Scheduler {
    /// There is something to absorb.
    pub fn absorb(&self) {
        self.queue.lock().absorb = true;
        self.wake.notify_one();
    }

    /// Queues a job unless one of its slots waits or is worked on already.
    pub fn add(&self, job: Job) {
        let mut queue = self.queue.lock();
        if queue.claims.claim(job.tree.serial, &job.place) {
            queue.waiting_bytes += job.bytes;
            queue.added += 1;
            let number = queue.added;
            queue.jobs.push(Waiting { job, number });
            drop(queue);
            self.wake.notify_one();
        }
    }

    /// Marks slots as worked on by a thread that takes no tasks. False: one of them waits for a job or is worked on. Ends with
    /// [`Scheduler::release`].
    pub fn claim(&self, tree: &Tree, place: &Place) -> bool {
        let mut queue = self.queue.lock();
        let is_free = queue.claims.claim(tree.serial, place);
        queue.running += usize::from(is_free);
        is_free
    }

    /// Panics where the queue breaks its own rules.
    pub fn validate(&self) {
        let queue = self.queue.lock();
        let waiting: Vec<&Job> = queue.jobs.iter().map(|waiting| &waiting.job).collect();
        let bytes: u64 = waiting.iter().map(|job| job.bytes).sum();
        assert!(bytes == queue.waiting_bytes, "jobs of {bytes} bytes wait, and {} are counted", queue.waiting_bytes);
        queue.claims.validate();
        let has_slots = |job: &&Job| queue.claims.overlaps(job.tree.serial, &job.place);
        assert!(waiting.iter().all(has_slots), "jobs have their slots");
        let (claims, jobs) = (queue.claims.len(), waiting.len() + queue.running);
        assert!(claims == jobs, "{claims} claims of {jobs} jobs");
    }

    /// Returns true if a slot of the place waits for a job or is worked on.
    pub fn is_busy(&self, tree: &Tree, place: &Place) -> bool {
        self.queue.lock().claims.overlaps(tree.serial, place)
    }

    /// Bytes of the jobs that wait.
    pub fn waiting_bytes(&self) -> u64 {
        self.queue.lock().waiting_bytes
    }

    /// Returns true if nothing waits and no worker is busy.
    pub fn is_idle(&self) -> bool {
        let queue = self.queue.lock();
        queue.jobs.is_empty() && !queue.absorb && !queue.absorbing && queue.running == 0
    }

    /// The next task; `None` when none waits.
    pub fn try_next(&self) -> Option<Task> {
        self.queue.lock().next()
    }

    /// The next task, waited for; only an absorb ends the rest before it is over. `None`: it is time to stop.
    pub fn next(&self, rest: Duration) -> Option<Task> {
        let until = Instant::now() + rest;
        let mut queue = self.queue.lock();
        loop {
            if queue.stop {
                return None;
            }
            let rests = Instant::now() < until;
            let task = if rests { queue.next_absorb() } else { queue.next() };
            if task.is_some() {
                return task;
            }
            // A worker that rests may take a job's wake-up from one that does not: the job waits for the end of the rest then.
            match rests {
                true => drop(self.wake.wait_until(&mut queue, until)),
                false => self.wake.wait(&mut queue),
            }
        }
    }

    pub fn absorbed(&self, more: bool) {
        let mut queue = self.queue.lock();
        assert!(queue.absorbing, "B1: one worker absorbs at a time");
        queue.absorbing = false;
        queue.absorb |= more;
        drop(queue);
        if more {
            self.wake.notify_one();
        }
    }

    /// The slots of a job, or those that were claimed, are worked on no longer.
    pub fn release(&self, tree: &Tree, place: &Place) {
        let mut queue = self.queue.lock();
        queue.claims.release(tree.serial, place);
        assert!(queue.running > 0, "the job was taken by a worker");
        queue.running -= 1;
    }

    pub fn stop(&self) {
        self.queue.lock().stop = true;
        self.wake.notify_all();
        self.stopped.notify_all();
    }

    /// Waits for `stop` at most this long. Returns true if it came.
    pub fn wait_for_stop(&self, at_most: Duration) -> bool {
        let mut queue = self.queue.lock();
        if queue.stop {
            return true;
        }
        self.stopped.wait_for(&mut queue, at_most);
        queue.stop
    }
}

impl Queue {
    fn next_absorb(&mut self) -> Option<Task> {
        if !self.absorb || self.absorbing {
            return None;
        }
        (self.absorb, self.absorbing) = (false, true);
        Some(Task::Absorb)
    }

    fn next(&mut self) -> Option<Task> {
        if let Some(absorb) = self.next_absorb() {
            return Some(absorb);
        }
        let Waiting { job, .. } = self.jobs.pop()?;
        debug_assert!(self.claims.overlaps(job.tree.serial, &job.place), "a job that waits has its slots");
        debug_assert!(
            self.waiting_bytes >= job.bytes,
            "{} wait, {} of them for this job",
            self.waiting_bytes,
            job.bytes
        );
        self.waiting_bytes -= job.bytes;
        self.running += 1;
        Some(Task::Flush(job))
    }
}
