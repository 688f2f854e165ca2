use std::sync::atomic::AtomicUsize;

use super::*;
use arbor_base::Random;

/// Cells with values of a fixed size, like a table with its blocks.
struct Owner {
    cells: Vec<Cell<u64>>,
    evictions: AtomicUsize,
}

impl Evictable for Owner {
    fn evict(&self, item: u32) -> Evicted {
        let evicted = self.cells[item as usize].evict();
        self.evictions.fetch_add(usize::from(evicted == Evicted::Freed), Ordering::Relaxed);
        evicted
    }
}

const ITEM: u64 = 100;

fn owner(cells: usize) -> Arc<Owner> {
    Arc::new(Owner { cells: (0..cells).map(|_| Cell::default()).collect(), evictions: AtomicUsize::new(0) })
}

fn weak(owner: &Arc<Owner>) -> Weak<dyn Evictable> {
    Arc::downgrade(&(owner.clone() as Arc<dyn Evictable>))
}

fn fill(cache: &Cache, owner: &Arc<Owner>, item: usize) {
    if owner.cells[item].put(item as u64, cache.charge(ITEM)) {
        cache.admit(weak(owner), item as u32);
    }
}

fn full(owner: &Owner) -> Vec<usize> {
    (0..owner.cells.len()).filter(|item| !owner.cells[*item].is_empty()).collect()
}

#[test]
fn the_unused_goes_first() {
    let (cache, owner) = (Cache::new(10 * ITEM), owner(20));
    (0..10).for_each(|item| fill(&cache, &owner, item));
    assert_eq!((cache.used(), cache.pinned(), full(&owner).len()), (10 * ITEM, 0, 10));
    for item in [0, 3, 5] {
        assert_eq!(*owner.cells[item].get().unwrap(), item as u64);
    }
    assert!(owner.cells[1].peek().is_some(), "looking is not using");
    (10..15).for_each(|item| fill(&cache, &owner, item));
    assert_eq!(cache.used(), 10 * ITEM);
    assert_eq!(full(&owner), [0, 3, 5, 8, 9, 10, 11, 12, 13, 14]);
}

/// Reads an item, which is put into its cell if it is not there. Returns true if it was there.
fn read(cache: &Cache, owner: &Arc<Owner>, item: usize) -> bool {
    let found = owner.cells[item].get().is_some();
    if !found {
        fill(cache, owner, item);
    }
    found
}

#[test]
fn what_is_read_once_does_not_push_out_what_is_used() {
    const ITEMS: usize = 1000;
    let (cache, owner) = (Cache::new(ITEMS as u64 * ITEM), owner(ITEMS / 2 + 100 * ITEMS));
    let hot = 0..ITEMS / 2;
    for _ in 0..4 {
        hot.clone().for_each(|item| _ = read(&cache, &owner, item));
    }
    let mut once = ITEMS / 2..;
    for _ in 0..50 {
        // twice as much as the cache holds
        once.by_ref().take(2 * ITEMS).for_each(|item| assert!(!read(&cache, &owner, item)));
        let lost = hot.clone().filter(|item| !read(&cache, &owner, *item)).count();
        assert_eq!(lost, 0, "of {}", hot.len());
    }
}

#[test]
fn what_replaces_something_is_not_on_probation() {
    const ITEMS: usize = 1000;
    let (cache, owner) = (Cache::new(ITEMS as u64 * ITEM), owner(3 * ITEMS));
    for item in 0..ITEMS / 2 {
        let (_guard, was_empty) = owner.cells[item].put_ahead(item as u64, cache.charge(ITEM));
        assert!(was_empty);
        cache.admit_replacement(weak(&owner), item as u32);
    }
    // as much as the cache holds passes the probation queue
    (ITEMS..2 * ITEMS).for_each(|item| assert!(!read(&cache, &owner, item)));
    let left = (0..ITEMS / 2).filter(|item| !owner.cells[*item].is_empty()).count();
    assert!(left > ITEMS * 4 / 10, "{left} of {}", ITEMS / 2);
}

#[test]
fn a_new_working_set_replaces_one_that_is_no_longer_used() {
    const ITEMS: usize = 1000;
    let (cache, owner) = (Cache::new(ITEMS as u64 * ITEM), owner(ITEMS * 2));
    for _ in 0..10 {
        (0..ITEMS * 9 / 10).for_each(|item| _ = read(&cache, &owner, item));
    }
    // in a loop that is longer than the probation queue
    let missing = || (ITEMS..ITEMS * 3 / 2).filter(|item| !read(&cache, &owner, *item)).count();
    let rounds = (0..1000).take_while(|_| missing() > 0).count();
    assert!(rounds > 1, "the test shows nothing");
    assert!(rounds < 100, "{rounds} rounds");
}

#[test]
fn the_use_that_something_was_put_for_does_not_count() {
    let (cache, owner) = (Cache::new(10 * ITEM), owner(20));
    for item in 0..10 {
        let (_guard, was_empty) = owner.cells[item].put_ahead(item as u64, cache.charge(ITEM));
        assert!(was_empty);
        cache.admit(weak(&owner), item as u32);
    }
    [2, 4, 4, 6].into_iter().for_each(|item| assert!(owner.cells[item].get().is_some()));
    (10..15).for_each(|item| fill(&cache, &owner, item));
    assert_eq!(full(&owner), [4, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
}

#[test]
fn what_is_pinned_pushes_out_the_rest_and_stays() {
    let (cache, owner) = (Cache::new(10 * ITEM), owner(10));
    (0..10).for_each(|item| fill(&cache, &owner, item));
    let mut buffer = cache.charge(4 * ITEM);
    assert_eq!((cache.used(), cache.pinned(), full(&owner).len()), (10 * ITEM, 4 * ITEM, 6));
    assert_eq!(cache.pressure(), 0.4);
    buffer.resize(12 * ITEM);
    assert_eq!((cache.used(), full(&owner).len(), cache.over()), (12 * ITEM, 0, true));
    assert!(cache.pressure() > 1.0);
    buffer.resize(ITEM);
    assert_eq!((cache.used(), cache.pinned(), buffer.bytes()), (ITEM, ITEM, ITEM));
    drop(buffer);
    assert_eq!((cache.used(), cache.pinned()), (0, 0));
}

#[test]
fn a_value_outlives_its_eviction_while_it_is_read() {
    let (cache, owner) = (Cache::new(2 * ITEM), owner(3));
    (0..2).for_each(|item| fill(&cache, &owner, item));
    let guard = owner.cells[0].peek().unwrap();
    fill(&cache, &owner, 2);
    assert_eq!((*guard, cache.used(), full(&owner)), (0, 2 * ITEM, vec![2]), "it is charged until the reader is gone");
    drop(guard);
    assert_eq!(cache.used(), ITEM);
}

#[test]
fn a_replaced_value_keeps_its_one_place_in_the_queue() {
    let (cache, owner) = (Cache::new(100 * ITEM), owner(3));
    for _ in 0..5 {
        (0..3).for_each(|item| fill(&cache, &owner, item));
    }
    assert_eq!((cache.used(), cache.shared.queue.len()), (3 * ITEM, 3));
    let (guard, was_empty) = owner.cells[0].put_and_get(7, cache.charge(1));
    assert_eq!((*guard, was_empty), (7, false));
    drop(guard);
    cache.set_limit(0);
    assert_eq!((cache.used(), cache.shared.queue.len()), (0, 0));
}

#[test]
fn entries_of_owners_that_are_gone_do_not_pile_up() {
    let cache = Cache::new(1 << 40);
    let kept = owner(10);
    (0..10).for_each(|item| fill(&cache, &kept, item));
    for _ in 0..100_000 {
        let short_lived = owner(1);
        fill(&cache, &short_lived, 0);
    }
    assert!(cache.shared.queue.len() < 40_000, "{}", cache.shared.queue.len());
    assert_eq!((cache.used(), full(&kept).len()), (10 * ITEM, 10));
}

#[test]
fn the_last_owner_may_go_while_it_is_asked() {
    /// Drops another owner when it is evicted, as a table body drops its blocks.
    struct Outer(Cell<Arc<Owner>>);
    impl Evictable for Outer {
        fn evict(&self, _item: u32) -> Evicted {
            self.0.evict()
        }
    }
    let (cache, inner) = (Cache::new(10 * ITEM), owner(4));
    (0..4).for_each(|item| fill(&cache, &inner, item));
    let outer = Arc::new(Outer(Cell::default()));
    assert!(outer.0.put(inner, cache.charge(ITEM)));
    let outer: Arc<dyn Evictable> = outer;
    cache.admit(Arc::downgrade(&outer), 0);
    cache.set_limit(0);
    assert_eq!(cache.used(), 0);
}

#[test]
fn the_limit_holds_for_many_threads() {
    const THREADS: u64 = 4;
    let (cache, owner) = (Cache::new(50 * ITEM), owner(400));
    let most = AtomicU64::new(0);
    let worker = |seed: u64| {
        let mut random = Random::new(seed);
        for step in 0..8_000 {
            // A few are hot.
            let item = if random.chance(1, 2) { random.below(20) } else { random.below(400) } as usize;
            match owner.cells[item].get() {
                Some(guard) => assert_eq!(*guard, item as u64),
                None => fill(&cache, &owner, item),
            }
            if step % 500 == 0 {
                fill(&cache, &owner, item);
                drop(cache.charge(5 * ITEM));
            }
            most.fetch_max(cache.used(), Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|seed| scope.spawn(move || worker(seed))).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    // Each thread may hold one item above the limit and one that it reads; the charges of five are pinned.
    let bound = (50 + THREADS * 7) * ITEM;
    assert!(most.load(Ordering::Relaxed) <= bound, "{} of {bound}", most.load(Ordering::Relaxed));
    cache.set_limit(50 * ITEM);
    assert!(cache.used() <= 50 * ITEM);
    let held = full(&owner).len();
    assert_eq!(cache.used(), held as u64 * ITEM);
    assert_eq!(cache.shared.queue.len(), held, "M3");
    cache.set_limit(0);
    assert_eq!((cache.used(), full(&owner).len(), cache.shared.queue.len()), (0, 0, 0));
    assert!(owner.evictions.load(Ordering::Relaxed) > 0);
}
