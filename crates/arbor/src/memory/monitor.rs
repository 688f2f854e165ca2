//! Measures the resident memory, and shrinks the caches of the engines when other parts need memory.
//!
//! Accounting alone would not hold a limit: small allocations, threads, and the overhead of the allocator are in no account. So a
//! thread samples the resident memory, reports it to the budget, and gives each cache its share of what the budget leaves for
//! them. Near the limit it has the allocator return free memory before it trusts the measurement.

use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use arbor_base::memory::{Budget, Sample, machine};
use arbor_engine::Engine;
use arbor_server::Stop;

use crate::allocator;

/// Between two samples, near the limit and far from it.
const NEAR: Duration = Duration::from_millis(20);
const FAR: Duration = Duration::from_millis(200);

/// The allocator is not asked to return memory more often.
const PURGE_PAUSE: Duration = Duration::from_millis(50);

/// Engines that have a cache which can change its size.
const ENGINES: &[&str] = &["ftree", "rocksdb", "wiredTiger"];

/// Smallest change of a cache: one part in this many.
const CHANGE_PARTS: u64 = 32;

/// Unparked by reservations that need memory held by the caches.
static THREAD: OnceLock<Thread> = OnceLock::new();

struct Monitor {
    budget: &'static Budget,
    engine: Arc<dyn Engine>,
    caches: Vec<CacheSize>,
    purged: Option<Instant>,
}

/// The cache of one engine.
struct CacheSize {
    engine: &'static str,
    /// Bytes configured by the user.
    configured: u64,
    /// Bytes set here last.
    given: u64,
}

/// Keeps to the limit until the server stops.
pub(crate) fn start(budget: &'static Budget, engine: Arc<dyn Engine>, stop: Stop) -> std::io::Result<JoinHandle<()>> {
    let mut monitor = Monitor::new(budget, engine);
    let watch = move || {
        let _first = THREAD.set(std::thread::current());
        budget.set_reclaim(|| THREAD.get().into_iter().for_each(Thread::unpark));
        while !stop.is_stopping() {
            let pause = monitor.step();
            std::thread::park_timeout(pause);
        }
    };
    std::thread::Builder::new().name("arbor-memory".to_owned()).spawn(watch)
}

impl Monitor {
    fn new(budget: &'static Budget, engine: Arc<dyn Engine>) -> Monitor {
        Monitor { budget, engine, caches: Vec::new(), purged: None }
    }

    /// Takes one sample and does what follows from it. Returns when the next one is due.
    fn step(&mut self) -> Duration {
        let Some(limit) = self.budget.limit() else { return FAR };
        let (caches, beyond) = self.look_at_caches();
        let configured = self.caches.iter().map(|cache| cache.configured).sum();
        let mut resident = machine::resident_anonymous();
        if resident > limit / 16 * 15 && self.may_purge() {
            allocator::purge();
            resident = machine::resident_anonymous();
        }
        self.budget.observe(Sample { resident, caches, beyond, caches_configured: configured });
        self.share_out(configured);
        if resident > limit / 2 { NEAR } else { FAR }
    }

    /// Returns the bytes that the caches hold, up to their size and beyond it, like values that readers hold. Notes those that are new, and those that a user has given another size.
    fn look_at_caches(&mut self) -> (u64, u64) {
        let number = |name: String| self.engine.parameter(&name)?.parse::<u64>().ok();
        let (mut within, mut beyond) = (0, 0);
        for engine in ENGINES {
            let Some(size) = number(format!("{engine}.cacheBytes")) else { continue };
            let used = number(format!("{engine}.cacheUsedBytes")).unwrap_or(size);
            within += used.min(size);
            beyond += used.saturating_sub(size);
            match self.caches.iter_mut().find(|cache| cache.engine == *engine) {
                Some(cache) if cache.given == size => {}
                Some(cache) => (cache.configured, cache.given) = (size, size),
                None => self.caches.push(CacheSize { engine, configured: size, given: size }),
            }
        }
        (within, beyond)
    }

    /// Gives each cache its part of what there is for all of them.
    fn share_out(&mut self, configured: u64) {
        let all = self.budget.caches_max();
        let mut given = 0;
        for cache in &mut self.caches {
            let part = u128::from(all) * u128::from(cache.configured) / u128::from(configured.max(1));
            let part = (part as u64).min(cache.configured);
            let is_back = part == cache.configured && cache.given != part;
            if !is_back && part.abs_diff(cache.given) < cache.configured / CHANGE_PARTS {
                given += cache.given;
                continue;
            }
            given += part;
            let name = format!("{}.cacheBytes", cache.engine);
            // an engine that refuses the size keeps the one that it has
            if self.engine.set_parameter(&name, &part.to_string()).is_ok() {
                let now = self.engine.parameter(&name).and_then(|now| now.parse().ok());
                cache.given = now.unwrap_or(part);
            }
        }
        self.budget.set_caches_given(given);
    }

    fn may_purge(&mut self) -> bool {
        let now = Instant::now();
        let due = self.purged.is_none_or(|last| now.duration_since(last) >= PURGE_PAUSE);
        if due {
            self.purged = Some(now);
        }
        due
    }
}
