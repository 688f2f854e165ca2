//! Threads for requests that may wait for a disk.
//!
//! I1: there are never more threads than there were concurrent requests. A thread counts as idle *before* its result wakes the
//! connection, so the next request finds it. tokio's pool counts it only later, and as the woken task runs first on a busy
//! machine, it started a thread for the next request: 64 clients had 202 threads (2 processors, 2026-11-22).
//! The thread that became idle last runs next; surplus threads are not woken and end.
//!
//! I2: where a pool has a bound on *fresh* requests, those that began less than [`FRESH`] ago, no request begins while that many
//! run. The others queue and take the thread of one that is done, which wakes no thread, and few at once share the processors'
//! caches. A request that takes longer, or waits, is not fresh, so it delays others no longer than that.
//!
//! Lock order: one lock, held for a push or a pop.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arbor_base::STATEMENT_STACK_BYTES;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A thread that is idle for this long ends.
const IDLE: Duration = Duration::from_secs(10);
/// One that is idle for this long calls the pool's hook.
const RESTS_AFTER: Duration = Duration::from_millis(100);

/// A request that has run for this long does not count among those that run.
// PERF: YCSB E larger than memory, 64 clients, LMDB, whose scans wait for some fifteen page faults: 5 ms 3,377 operations/s, 2 ms 4,631, no
// bound 4,135 and 4,738 (2026-11-28).
const FRESH: Duration = Duration::from_millis(2);

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
    /// I2. None: no bound.
    fresh_max: Option<usize>,
    /// Called by a thread after it has had nothing to do for a while.
    idle_hook: fn(),
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
    /// Begin of each job that runs, with the number of its thread; kept where there is a bound (I2).
    running: Vec<(u64, Instant)>,
    /// A task begins queued jobs when those that run are no longer fresh.
    has_ticker: bool,
    is_closed: bool,
}

impl Pool {
    pub(crate) fn new(threads_max: usize, idle_hook: fn()) -> Pool {
        Pool::bounded(threads_max, None, idle_hook)
    }

    /// `fresh_max`: requests that run at once unless they take long (I2).
    pub(crate) fn bounded(threads_max: usize, fresh_max: Option<usize>, idle_hook: fn()) -> Pool {
        let (threads_max, fresh_max) = (threads_max.max(1), fresh_max.map(|fresh_max| fresh_max.max(1)));
        Pool { shared: Arc::new(Shared { state: Mutex::default(), threads_max, fresh_max, idle_hook }) }
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
        state.queue.push_back(job);
        Shared::begin_queued(&self.shared, &mut state);
        if self.shared.fresh_max.is_some() && !state.queue.is_empty() && !state.has_ticker {
            state.has_ticker = true;
            tokio::spawn(tick(Arc::downgrade(&self.shared)));
        }
        let is_seen_to = state.queue.is_empty() || state.has_ticker || self.shared.fresh_max.is_none();
        debug_assert!(is_seen_to, "I2: what is queued begins when those that run are no longer fresh");
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

/// Begins queued jobs as long as there are some.
async fn tick(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(FRESH).await;
        let Some(shared) = shared.upgrade() else { return };
        let mut state = shared.state.lock();
        Shared::begin_queued(&shared, &mut state);
        if state.queue.is_empty() {
            state.has_ticker = false;
            return;
        }
    }
}

impl Shared {
    /// Hands queued jobs to idle threads, or to new ones, as many as may run.
    fn begin_queued(shared: &Arc<Shared>, state: &mut State) {
        while state.starting < state.queue.len() && shared.may_begin(state) {
            if let Some((number, idle)) = state.idle.pop() {
                // It waits until it is no longer among the idle.
                let _ = idle.send(shared.take(state, number));
            } else if state.threads >= shared.threads_max || !shared.begin_thread(state) {
                return;
            }
        }
    }

    /// Returns true if one more job may run (I2).
    fn may_begin(&self, state: &State) -> bool {
        let Some(fresh_max) = self.fresh_max else { return true };
        let now = Instant::now();
        let fresh = state.running.iter().filter(|(_, begun)| now.saturating_duration_since(*begun) < FRESH).count();
        fresh + state.starting < fresh_max
    }

    /// Takes the next job for a thread.
    fn take(&self, state: &mut State, number: u64) -> Option<Job> {
        debug_assert!(self.may_begin(state), "I2: as many fresh requests run as may");
        let job = state.queue.pop_front()?;
        if self.fresh_max.is_some() {
            state.running.push((number, Instant::now()));
        }
        Some(job)
    }

    /// Starts a thread. Returns false if that fails: the existing threads do the work; if there is none, the jobs are dropped, which
    /// notifies their waiters.
    fn begin_thread(self: &Arc<Shared>, state: &mut State) -> bool {
        let number = state.begun + 1;
        let shared = self.clone();
        let thread = std::thread::Builder::new().name("arbor-request".to_owned()).stack_size(STATEMENT_STACK_BYTES);
        let has_begun = thread.spawn(move || shared.serve(number)).is_ok();
        if has_begun {
            (state.begun, state.threads, state.starting) = (number, state.threads + 1, state.starting + 1);
        } else if state.threads == 0 {
            state.queue.clear();
        }
        has_begun
    }

    fn serve(self: &Arc<Shared>, number: u64) {
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
            next = self.next_or_idle(&mut self.state.lock(), number, &sender);
            if let Ok(notify) = notify {
                notify();
            }
        }
    }

    fn first_or_idle(self: &Arc<Shared>, number: u64, sender: &Sender<Option<Job>>) -> Next {
        let mut state = self.state.lock();
        state.starting -= 1;
        self.next_or_idle(&mut state, number, sender)
    }

    /// Takes the next job, if one may run, or makes the thread idle. Others begin what may run besides.
    fn next_or_idle(self: &Arc<Shared>, state: &mut State, number: u64, sender: &Sender<Option<Job>>) -> Next {
        state.running.retain(|(running, _)| *running != number);
        if state.is_closed && state.queue.is_empty() {
            return Next::Closed;
        }
        let next = if self.may_begin(state) { self.take(state, number) } else { None };
        match next {
            Some(job) => {
                Shared::begin_queued(self, state);
                Next::Job(job)
            }
            None => {
                state.idle.push((number, sender.clone()));
                Next::Idle
            }
        }
    }

    /// `None`: nothing came, and the thread is no longer among the idle.
    fn wait(&self, number: u64, receiver: &Receiver<Option<Job>>) -> Option<Job> {
        match receiver.recv_timeout(RESTS_AFTER) {
            Ok(job) => return job,
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => (self.idle_hook)(),
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
    }

    #[test]
    fn as_many_threads_as_requests_at_once_however_fast_they_follow() {
        const CLIENTS: usize = 8;
        let pool = Arc::new(Pool::new(100, || {}));
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
        let begun = pool.shared.state.lock().begun;
        assert!(begun <= CLIENTS as u64, "{begun} threads were started");
    }

    #[test]
    fn beyond_the_most_requests_queue_and_all_are_done() {
        let pool = Arc::new(Pool::new(2, || {}));
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
    fn as_many_fresh_requests_run_as_the_bound_says() {
        let pool = Arc::new(Pool::bounded(100, Some(2), || {}));
        let (running, most, slow) =
            (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        runtime().block_on(async {
            let client = |_| {
                let (pool, running, most, slow) = (pool.clone(), running.clone(), most.clone(), slow.clone());
                tokio::spawn(async move {
                    for _ in 0..200 {
                        let (running, most, slow) = (running.clone(), most.clone(), slow.clone());
                        let queued = Instant::now();
                        let work = move || {
                            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            std::thread::sleep(Duration::from_micros(50));
                            running.fetch_sub(1, Ordering::SeqCst);
                            slow.fetch_add(usize::from(queued.elapsed() >= FRESH), Ordering::SeqCst);
                        };
                        assert_eq!(pool.run(work).await, Some(()));
                    }
                })
            };
            for client in (0..8).map(client).collect::<Vec<_>>() {
                client.await.unwrap();
            }
        });
        // A busy machine makes requests take long, and then more begin.
        let (most, slow) = (most.load(Ordering::SeqCst), slow.load(Ordering::SeqCst));
        assert!(most <= 2 + slow, "{most} at once, {slow} took long");
        assert!(pool.threads() <= 2 + slow, "{} threads", pool.threads());
        assert!(pool.shared.state.lock().running.is_empty(), "what is done does not run");
    }

    #[test]
    fn requests_that_take_long_hold_up_no_other() {
        let pool = Arc::new(Pool::bounded(100, Some(2), || {}));
        let gate = Arc::new((Mutex::new(false), parking_lot::Condvar::new()));
        runtime().block_on(async {
            let wait = |_| {
                let (pool, gate) = (pool.clone(), gate.clone());
                tokio::spawn(async move {
                    let work = move || {
                        let mut open = gate.0.lock();
                        while !*open {
                            gate.1.wait(&mut open);
                        }
                    };
                    pool.run(work).await
                })
            };
            // All of them wait for the last one, which begins behind them.
            let waiting = (0..10).map(wait).collect::<Vec<_>>();
            while pool.threads() < 10 {
                tokio::time::sleep(FRESH).await;
            }
            let opened = gate.clone();
            let open = move || {
                *opened.0.lock() = true;
                opened.1.notify_all();
            };
            assert_eq!(pool.run(open).await, Some(()));
            for waits in waiting {
                assert_eq!(waits.await.unwrap(), Some(()));
            }
            // Nothing is queued.
            while pool.shared.state.lock().has_ticker {
                tokio::time::sleep(FRESH).await;
            }
        });
    }

    #[test]
    fn a_panic_ends_its_request_alone_and_the_end_of_the_pool_its_threads() {
        let pool = Pool::new(1, || {});
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
        let pool = Pool::new(1, idle);
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
