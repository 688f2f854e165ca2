//! Threads for requests that may wait for a disk.
//!
//! I1: there are never more threads than there were concurrent requests. A thread counts as idle *before* its result wakes the
//! connection, so the next request finds it. tokio's pool counts it only later, and as the woken task runs first on a busy
//! machine, it started a thread for the next request: 64 clients had 202 threads (2 processors, 2026-11-22).
//! The thread that became idle last runs next; surplus threads are not woken and end.
//!
//! Lock order: one lock, held for a push or a pop.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use arbor_base::STATEMENT_STACK_BYTES;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A thread that is idle for this long ends.
const IDLE: Duration = Duration::from_secs(10);
/// One that is idle for this long calls the hook for that.
const RESTS_AFTER: Duration = Duration::from_millis(100);

/// Does the work and returns the notification of its end.
type Job = Box<dyn FnOnce() -> Notify + Send>;
type Notify = Box<dyn FnOnce() + Send>;

/// Its threads end when it is dropped.
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    threads_max: usize,
    hooks: Hooks,
}

/// Functions that each thread of the pool calls.
#[derive(Clone, Copy)]
pub struct Hooks {
    /// Called first of all.
    pub begin: fn(),
    /// Called after it has had nothing to do for a while.
    pub idle: fn(),
}

impl Default for Hooks {
    fn default() -> Hooks {
        Hooks { begin: || {}, idle: || {} }
    }
}

#[derive(Default)]
struct State {
    /// Idle threads, by number; the last one became idle last.
    idle: Vec<(u64, Sender<Option<Job>>)>,
    /// Jobs for which no thread was free.
    queue: VecDeque<Job>,
    threads: usize,
    /// Number of these threads that have not read the queue yet.
    starting: usize,
    begun: u64,
    is_closed: bool,
}

impl Pool {
    pub(crate) fn new(threads_max: usize, hooks: Hooks) -> Pool {
        let threads_max = threads_max.max(1);
        Pool { shared: Arc::new(Shared { state: Mutex::default(), threads_max, hooks }) }
    }

    /// Runs `work` on a thread of the pool; `None` when it panicked, or no thread can be had.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        self.hand(Box::new(move || {
            let done = work();
            Box::new(move || {
                let _ = sender.send(done);
            })
        }));
        receiver.await.ok()
    }

    fn hand(&self, job: Job) {
        let mut state = self.shared.state.lock();
        if let Some((_, idle)) = state.idle.pop() {
            // It waits until it is no longer among the idle.
            let _ = idle.send(Some(job));
            return;
        }
        state.queue.push_back(job);
        if state.starting < state.queue.len() && state.threads < self.shared.threads_max {
            state.threads += 1;
            state.starting += 1;
            state.begun += 1;
            let number = state.begun;
            drop(state);
            self.begin(number);
        }
    }

    /// Starts a thread. If that fails, the existing threads do the work; if there is none, the jobs are dropped, which notifies their
    /// waiters.
    fn begin(&self, number: u64) {
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name("arbor-request".to_owned()).stack_size(STATEMENT_STACK_BYTES);
        let begun = thread.spawn(move || shared.serve(number));
        if begun.is_err() {
            let mut state = self.shared.state.lock();
            state.threads -= 1;
            state.starting -= 1;
            let lost = if state.threads == 0 { std::mem::take(&mut state.queue) } else { VecDeque::new() };
            drop(state);
            drop(lost);
        }
    }

    #[cfg(test)]
    fn threads(&self) -> usize {
        self.shared.state.lock().threads
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.is_closed = true;
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        for (_, idle) in idle {
            let _ = idle.send(None);
        }
    }
}

impl Shared {
    fn serve(&self, number: u64) {
        (self.hooks.begin)();
        let (sender, receiver) = channel();
        let mut next = self.first_or_idle(number, &sender);
        loop {
            let job = match next {
                Next::Job(job) => Some(job),
                Next::Idle => self.wait(number, &receiver),
                Next::Closed => None,
            };
            let Some(job) = job else { return };
            // A panic ends only the job; its waiter sees the dropped channel.
            let notify = catch_unwind(AssertUnwindSafe(job));
            next = next_or_idle(&mut self.state.lock(), number, &sender);
            if let Ok(notify) = notify {
                notify();
            }
        }
    }

    fn first_or_idle(&self, number: u64, sender: &Sender<Option<Job>>) -> Next {
        let mut state = self.state.lock();
        state.starting -= 1;
        next_or_idle(&mut state, number, sender)
    }

    /// `None`: nothing came, and the thread is no longer among the idle.
    fn wait(&self, number: u64, receiver: &Receiver<Option<Job>>) -> Option<Job> {
        match receiver.recv_timeout(RESTS_AFTER) {
            Ok(job) => return job,
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => (self.hooks.idle)(),
        }
        loop {
            match receiver.recv_timeout(IDLE) {
                Ok(job) => return job,
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let mut state = self.state.lock();
            let before = state.idle.len();
            state.idle.retain(|(idle, _)| *idle != number);
            if state.idle.len() < before || state.is_closed {
                state.threads -= 1;
                return None;
            }
            // Somebody took it off the list a moment ago: a job is there.
        }
    }
}

enum Next {
    Job(Job),
    Idle,
    Closed,
}

fn next_or_idle(state: &mut State, number: u64, sender: &Sender<Option<Job>>) -> Next {
    match state.queue.pop_front() {
        Some(job) => Next::Job(job),
        None if state.is_closed => Next::Closed,
        None => {
            state.idle.push((number, sender.clone()));
            Next::Idle
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    static BEGUN: AtomicUsize = AtomicUsize::new(0);

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap()
    }

    #[test]
    fn as_many_threads_as_requests_at_once_however_fast_they_follow() {
        const CLIENTS: usize = 8;
        let begin = || {
            BEGUN.fetch_add(1, Ordering::SeqCst);
        };
        let pool = Arc::new(Pool::new(100, Hooks { begin, ..Hooks::default() }));
        runtime().block_on(async {
            let clients = (0..CLIENTS).map(|client| {
                let pool = pool.clone();
                tokio::spawn(async move {
                    for round in 0..500 {
                        assert_eq!(pool.run(move || client * round).await, Some(client * round));
                    }
                })
            });
            for client in clients.collect::<Vec<_>>() {
                client.await.unwrap();
            }
        });
        assert!(pool.threads() <= CLIENTS, "{} threads", pool.threads());
        assert!(BEGUN.load(Ordering::SeqCst) <= CLIENTS);
    }

    #[test]
    fn beyond_the_most_requests_queue_and_all_are_done() {
        let pool = Arc::new(Pool::new(2, Hooks::default()));
        let done = runtime().block_on(async {
            let slow = |_| {
                let pool = pool.clone();
                tokio::spawn(async move { pool.run(|| std::thread::sleep(Duration::from_millis(5))).await })
            };
            let mut done = 0;
            for task in (0..20).map(slow).collect::<Vec<_>>() {
                done += usize::from(task.await.unwrap().is_some());
            }
            done
        });
        assert_eq!((done, pool.threads()), (20, 2));
    }

    #[test]
    fn a_panic_ends_its_request_alone_and_the_end_of_the_pool_its_threads() {
        let pool = Pool::new(1, Hooks::default());
        let shared = Arc::downgrade(&pool.shared);
        runtime().block_on(async {
            assert_eq!(
                pool.run(|| if true {
                    panic!("I fail")
                })
                .await,
                None
            );
            assert_eq!(pool.run(|| 7).await, Some(7));
        });
        assert_eq!(pool.threads(), 1);
        drop(pool);
        for _ in 0..1000 {
            if shared.strong_count() == 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the thread did not end");
    }

    static RESTS: AtomicUsize = AtomicUsize::new(0);

    #[test]
    fn an_idle_thread_says_so_once_and_works_again() {
        let idle = || {
            RESTS.fetch_add(1, Ordering::SeqCst);
        };
        let pool = Pool::new(1, Hooks { idle, ..Hooks::default() });
        runtime().block_on(async {
            for round in 1..=2 {
                assert_eq!(pool.run(move || round).await, Some(round));
                let begun = std::time::Instant::now();
                while RESTS.load(Ordering::SeqCst) < round {
                    assert!(begun.elapsed() < Duration::from_secs(30), "round {round}");
                    std::thread::sleep(Duration::from_millis(5));
                }
                std::thread::sleep(3 * RESTS_AFTER);
                assert_eq!(RESTS.load(Ordering::SeqCst), round, "once for each rest");
            }
        });
    }
}
