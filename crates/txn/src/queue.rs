//! Committers queue up; one of them leads a group.
//!
//! A committer that finds no leader leads at once, with nothing but its own request: a single writer waits for no other thread.
//! Requests that arrive while a leader works wait, and form the next group; the leader hands the lead to the first of
//! them before it wakes its own group.
//!
//! I1: `led == false` implies that no request waits.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

pub(crate) struct Queue<R, O> {
    state: Mutex<State<R, O>>,
    group_bytes_max: usize,
}

struct State<R, O> {
    waiting: VecDeque<Waiting<R, O>>,
    led: bool,
}

struct Waiting<R, O> {
    request: R,
    bytes: usize,
    slot: Arc<Slot<O>>,
}

struct Slot<O> {
    turn: Mutex<Turn<O>>,
    changed: Condvar,
}

enum Turn<O> {
    Waits,
    Leads,
    Done(O),
}

impl<O> Slot<O> {
    fn set(&self, turn: Turn<O>) {
        let mut current = self.turn.lock();
        debug_assert!(matches!(*current, Turn::Waits), "a committer gets one answer at a time");
        *current = turn;
        drop(current);
        self.changed.notify_one();
    }

    /// Waits for the outcome, or for the lead (`None`).
    fn wait(&self) -> Option<O> {
        let mut turn = self.turn.lock();
        loop {
            match std::mem::replace(&mut *turn, Turn::Waits) {
                Turn::Waits => self.changed.wait(&mut turn),
                Turn::Leads => return None,
                Turn::Done(outcome) => return Some(outcome),
            }
        }
    }
}

impl<R, O> Queue<R, O> {
    pub(crate) fn new(group_bytes_max: usize) -> Queue<R, O> {
        Queue { state: Mutex::new(State { waiting: VecDeque::new(), led: false }), group_bytes_max }
    }

    /// Has the request processed, by this thread or by another leader. Requires: `process` returns one outcome per request, in
    /// order, and does not panic (a panic would break I1, and later committers would never return).
    pub(crate) fn submit(&self, request: R, bytes: usize, process: impl FnOnce(Vec<R>) -> Vec<O>) -> O {
        let mut state = self.state.lock();
        if !state.led {
            debug_assert!(state.waiting.is_empty(), "I1: no committer waits without a leader");
            state.led = true;
            drop(state);
            return self.lead(vec![request], Vec::new(), process);
        }
        let slot = Arc::new(Slot { turn: Mutex::new(Turn::Waits), changed: Condvar::new() });
        state.waiting.push_back(Waiting { request, bytes, slot: slot.clone() });
        drop(state);
        match slot.wait() {
            Some(outcome) => outcome,
            None => {
                let (requests, followers) = self.take_group();
                self.lead(requests, followers, process)
            }
        }
    }

    /// Takes the front of the queue: the new leader itself and what fits into its group.
    fn take_group(&self) -> (Vec<R>, Vec<Arc<Slot<O>>>) {
        let mut state = self.state.lock();
        let mut bytes = 0usize;
        let mut count = 0;
        for waiting in &state.waiting {
            bytes = waiting.bytes.saturating_add(bytes);
            if count > 0 && bytes > self.group_bytes_max {
                break;
            }
            count += 1;
        }
        assert!(count > 0, "I1: the one that leads is in the queue");
        let group: Vec<_> = state.waiting.drain(..count).collect();
        drop(state);
        let mut slots = Vec::with_capacity(group.len());
        let mut requests = Vec::with_capacity(group.len());
        for waiting in group {
            requests.push(waiting.request);
            slots.push(waiting.slot);
        }
        (requests, slots.split_off(1))
    }

    fn lead(&self, requests: Vec<R>, followers: Vec<Arc<Slot<O>>>, process: impl FnOnce(Vec<R>) -> Vec<O>) -> O {
        let outcomes = process(requests);
        assert_eq!(outcomes.len(), followers.len() + 1, "a committer without an outcome would never return");
        let mut outcomes = outcomes.into_iter();
        let own = outcomes.next().expect("one outcome per request");
        let mut state = self.state.lock();
        assert!(state.led, "I1: who leads keeps the others waiting");
        match state.waiting.front() {
            Some(next) => next.slot.set(Turn::Leads),
            None => state.led = false,
        }
        drop(state);
        for (slot, outcome) in followers.iter().zip(outcomes) {
            slot.set(Turn::Done(outcome));
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_lone_request_leads_at_once() {
        let queue = Queue::new(100);
        let own = std::thread::current().id();
        let outcome = queue.submit(1, 10, |group| {
            assert_eq!(std::thread::current().id(), own);
            group.into_iter().map(|n| n * 2).collect()
        });
        assert_eq!(outcome, 2);
    }

    /// While the first leader is held up, five more arrive; they are processed in groups of at most two.
    #[test]
    fn those_who_wait_form_bounded_groups_in_order() {
        let queue = Queue::new(20);
        let (groups, seen) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let (queue, record) = (&queue, &groups);
            let process = move |group: Vec<u32>| {
                record.send(group.clone()).unwrap();
                group.into_iter().map(|n| n * 2).collect::<Vec<_>>()
            };
            scope.spawn(move || {
                let hold = |group: Vec<u32>| {
                    held.recv().unwrap();
                    process(group)
                };
                assert_eq!(queue.submit(0, 10, hold), 0);
            });
            while !queue.state.lock().led {
                std::thread::yield_now();
            }
            for n in 1..6 {
                scope.spawn(move || assert_eq!(queue.submit(n, 10, process), n * 2));
                while queue.state.lock().waiting.len() < n as usize {
                    std::thread::yield_now();
                }
            }
            release.send(()).unwrap();
        });
        drop(groups);
        assert_eq!(seen.iter().collect::<Vec<_>>(), [vec![0], vec![1, 2], vec![3, 4], vec![5]]);
        assert!(!queue.state.lock().led);
    }
}
