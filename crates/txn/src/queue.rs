//! Committers queue up; one of them leads a group.
//!
//! A committer that finds no leader leads at once, with nothing but its own request: a single writer waits for no other thread.
//! Requests that arrive while a leader works wait, and form the next group. Who leads it depends on how many there are:
//!
//! - one: the same leader, up to [`FURTHER_GROUPS`] times. Waking another thread takes longer than a group does.
//! - more: the first of them. It begins while the leader wakes its own group.
//!
//! I1: `led == false` implies that no request waits.

#[cfg(all(test, loom))]
#[path = "queue_model.rs"]
mod model;

/// The primitives, which loom replaces where it tries all interleavings.
mod sync {
    #[cfg(loom)]
    pub(super) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
    #[cfg(not(loom))]
    pub(super) use parking_lot::{Condvar, Mutex, MutexGuard};
    #[cfg(not(loom))]
    pub(super) use std::sync::Arc;

    pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        #[cfg(loom)]
        return mutex.lock().expect("a panic ends the model");
        #[cfg(not(loom))]
        return mutex.lock();
    }

    pub(super) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        #[cfg(loom)]
        return condvar.wait(guard).expect("a panic ends the model");
        #[cfg(not(loom))]
        {
            let mut guard = guard;
            condvar.wait(&mut guard);
            guard
        }
    }
}

use std::collections::VecDeque;

use self::sync::{Arc, Condvar, Mutex};

/// Groups that a leader processes besides its own, so that its own committer returns.
const FURTHER_GROUPS: usize = 8;

pub(crate) struct Queue<R, O> {
    state: Mutex<State<R, O>>,
    group_bytes_max: usize,
    further_groups: usize,
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
    fn new() -> Slot<O> {
        Slot { turn: Mutex::new(Turn::Waits), changed: Condvar::new() }
    }

    fn set(&self, turn: Turn<O>) {
        let mut current = sync::lock(&self.turn);
        assert!(matches!(*current, Turn::Waits), "a committer gets one answer");
        *current = turn;
        drop(current);
        self.changed.notify_one();
    }

    /// Waits for the outcome, or for the lead (`None`).
    fn wait(&self) -> Option<O> {
        let mut turn = sync::lock(&self.turn);
        loop {
            match std::mem::replace(&mut *turn, Turn::Waits) {
                Turn::Waits => turn = sync::wait(&self.changed, turn),
                Turn::Leads => return None,
                Turn::Done(outcome) => return Some(outcome),
            }
        }
    }
}

/// Requests that are processed together, each with its place in `slots`.
struct Group<R, O> {
    requests: Vec<R>,
    slots: Vec<Arc<Slot<O>>>,
    bytes: usize,
}

impl<R, O> State<R, O> {
    /// Takes the front of the queue, which is not empty: the first request and what fits into its group.
    fn take_group(&mut self, bytes_max: usize) -> Group<R, O> {
        let (mut bytes, mut count) = (0usize, 0);
        for waiting in &self.waiting {
            let grown = waiting.bytes.saturating_add(bytes);
            if count > 0 && grown > bytes_max {
                break;
            }
            (bytes, count) = (grown, count + 1);
        }
        assert!(count > 0, "I1: the queue has the one that leads");
        let (requests, slots) = self.waiting.drain(..count).map(|waiting| (waiting.request, waiting.slot)).unzip();
        Group { requests, slots, bytes }
    }
}

impl<R, O> Queue<R, O> {
    pub(crate) fn new(group_bytes_max: usize) -> Queue<R, O> {
        Queue::with(group_bytes_max, FURTHER_GROUPS)
    }

    fn with(group_bytes_max: usize, further_groups: usize) -> Queue<R, O> {
        let state = Mutex::new(State { waiting: VecDeque::new(), led: false });
        Queue { state, group_bytes_max, further_groups }
    }

    /// Has the request processed, by this thread or by another leader. Requires: `process` returns one outcome per request, in
    /// order, and does not panic (a panic would break I1, and later committers would never return).
    pub(crate) fn submit(&self, request: R, bytes: usize, process: impl FnMut(Vec<R>) -> Vec<O>) -> O {
        let mut state = sync::lock(&self.state);
        if !state.led {
            assert!(state.waiting.is_empty(), "I1: no committer waits without a leader");
            state.led = true;
            drop(state);
            return self.lead(Group { requests: vec![request], slots: Vec::new(), bytes }, process);
        }
        let slot = Arc::new(Slot::new());
        state.waiting.push_back(Waiting { request, bytes, slot: slot.clone() });
        drop(state);
        if let Some(outcome) = slot.wait() {
            return outcome;
        }
        let mut group = sync::lock(&self.state).take_group(self.group_bytes_max);
        let first = group.slots.remove(0);
        assert!(Arc::ptr_eq(&first, &slot), "the first that waits leads");
        self.lead(group, process)
    }

    /// Processes the leader's own group, whose first request has no slot, and possibly further ones. Returns the first outcome.
    fn lead(&self, group: Group<R, O>, mut process: impl FnMut(Vec<R>) -> Vec<O>) -> O {
        let Group { requests, mut slots, mut bytes } = group;
        let mut outcomes = process(requests).into_iter();
        let own = outcomes.next().expect("one outcome per request");
        for further in 0.. {
            let next = self.next_group(further == self.further_groups || bytes > self.group_bytes_max);
            assert_eq!(outcomes.len(), slots.len(), "a committer without an outcome would never return");
            slots.iter().zip(outcomes).for_each(|(slot, outcome)| slot.set(Turn::Done(outcome)));
            let Some(group) = next else { break };
            bytes = bytes.saturating_add(group.bytes);
            slots = group.slots;
            outcomes = process(group.requests).into_iter();
        }
        own
    }

    /// Returns the group that the leader is to process next. `None`: it does not lead any more.
    fn next_group(&self, has_done_enough: bool) -> Option<Group<R, O>> {
        let mut state = sync::lock(&self.state);
        assert!(state.led, "I1: the one that leads keeps the others waiting");
        let Some(first) = state.waiting.front() else {
            state.led = false;
            return None;
        };
        if has_done_enough || state.waiting.len() > 1 {
            let slot = first.slot.clone();
            drop(state);
            slot.set(Turn::Leads);
            return None;
        }
        Some(state.take_group(self.group_bytes_max))
    }
}

#[cfg(all(test, not(loom)))]
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

    /// While the first leader is held up, five more arrive. They are processed in groups of at most two; the first of a group leads it, but
    /// the last one waits alone.
    #[test]
    fn those_who_wait_form_bounded_groups_in_order() {
        let queue = Queue::new(20);
        let (groups, seen) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let (queue, record) = (&queue, &groups);
            let process = move |leader: u32, group: Vec<u32>| {
                record.send((leader, group.clone())).unwrap();
                group.into_iter().map(|n| n * 2).collect::<Vec<_>>()
            };
            scope.spawn(move || {
                let hold = |group: Vec<u32>| {
                    let _released = held.recv();
                    process(0, group)
                };
                assert_eq!(queue.submit(0, 10, hold), 0);
            });
            while !queue.state.lock().led {
                std::thread::yield_now();
            }
            for n in 1..6 {
                scope.spawn(move || assert_eq!(queue.submit(n, 10, |group| process(n, group)), n * 2));
                while queue.state.lock().waiting.len() < n as usize {
                    std::thread::yield_now();
                }
            }
            drop(release);
        });
        drop(groups);
        let expected = [(0, vec![0]), (1, vec![1, 2]), (3, vec![3, 4]), (3, vec![5])];
        assert_eq!(seen.iter().collect::<Vec<_>>(), expected);
        assert!(!queue.state.lock().led);
    }

    /// Submits `n`; while it is processed, another thread submits the next one, up to 7.
    fn submit_in_turn<'scope>(
        scope: &'scope std::thread::Scope<'scope, '_>,
        queue: &'scope Queue<u32, u32>,
        leaders: &'scope Mutex<Vec<(u32, u32)>>,
        n: u32,
    ) {
        let process = |group: Vec<u32>| {
            let [first, ..] = group.as_slice() else { panic!("an empty group") };
            leaders.lock().push((n, *first));
            let next = first + 1;
            if next < 8 {
                scope.spawn(move || submit_in_turn(scope, queue, leaders, next));
                while queue.state.lock().waiting.is_empty() {
                    std::thread::yield_now();
                }
            }
            group
        };
        assert_eq!(queue.submit(n, 10, process), n);
    }

    #[test]
    fn a_leader_returns_although_others_arrive() {
        let (queue, leaders) = (Queue::with(1000, 3), Mutex::default());
        std::thread::scope(|scope| submit_in_turn(scope, &queue, &leaders, 0));
        assert_eq!(*leaders.lock(), [(0, 0), (0, 1), (0, 2), (0, 3), (4, 4), (4, 5), (4, 6), (4, 7)]);
    }
}
