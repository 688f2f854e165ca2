use super::*;

const MIB: usize = 1 << 20;

fn budget(limit_mib: u64, caches_mib: u64) -> &'static Budget {
    let budget = Box::leak(Box::new(Budget::unlimited()));
    budget.set_limit(limit_mib << 20);
    budget.set_caches(caches_mib << 20);
    budget
}

#[test]
fn without_a_limit_everything_is_granted() {
    let budget = Box::leak(Box::new(Budget::unlimited()));
    let mut reservation = budget.reservation(Class::Statement);
    assert!(reservation.try_cover(1 << 40) && reservation.try_cover_all(1 << 41));
    assert_eq!((budget.limit(), budget.is_exceeded(), budget.held(Class::Statement)), (None, false, 1 << 41));
    drop(reservation);
    assert_eq!((budget.reserved(), budget.held(Class::Statement)), (0, 0), "B1");
}

#[test]
fn small_work_is_not_accounted() {
    let budget = budget(1, 0);
    let mut reservation = budget.reservation(Class::Batch);
    assert!(reservation.try_cover(STEP_BYTES), "there is no room at all, but a step is free");
    assert!(!reservation.try_cover(STEP_BYTES + 1));
    assert_eq!((budget.reserved(), budget.refused()), (0, 1));
}

#[test]
fn those_that_can_do_with_less_leave_as_much_as_they_take() {
    // 24 MB are apart, half of the caches stays: 200 MB are for work
    let budget = budget(256, 64);
    assert_eq!(budget.room(), 200 << 20);
    let fill = |reservation: &mut Reservation| {
        while reservation.try_cover(reservation.bytes() + MIB) {}
        reservation.bytes() / MIB
    };
    let mut many: Vec<Reservation> = (0..3).map(|_| budget.reservation(Class::Statement)).collect();
    let got: Vec<usize> = many.iter_mut().map(fill).collect();
    assert_eq!(got, [100, 50, 25]);
    // one that needs all of it may have what is left
    let mut message = budget.reservation(Class::Message);
    assert!(message.try_cover_all(24 * MIB) && !message.try_cover_all(26 * MIB));
    message.cover(40 * MIB);
    assert!(budget.reserved() > budget.room(), "what is there already is counted in any case");
    assert_eq!(budget.free(), 0);
    drop(many.remove(0));
    assert!(budget.free() > 0);
    drop((many, message));
    assert_eq!(Class::ALL.map(|class| budget.held(class)), [0; 6], "B1");
}

#[test]
fn idle_work_keeps_a_part_of_what_is_left() {
    assert_eq!(Box::leak(Box::new(Budget::unlimited())).idle_bytes_max(), u64::MAX);
    let budget = budget(256, 64);
    assert_eq!(budget.idle_bytes_max(), (200 << 20) / 16);
    let mut sort = budget.reservation(Class::Statement);
    sort.cover(300 * MIB);
    assert_eq!(budget.idle_bytes_max(), 1 << 20);
}

#[test]
fn a_reservation_waits_for_the_caches_to_shrink() {
    static ASKED: AtomicBool = AtomicBool::new(false);
    let budget = budget(256, 128);
    budget.set_caches_given(128 << 20);
    budget.set_reclaim(|| ASKED.store(true, Ordering::Relaxed));
    let mut sort = budget.reservation(Class::Statement);
    assert!(sort.try_cover(80 * MIB) && ASKED.swap(false, Ordering::Relaxed), "a sample is due");
    assert!(sort.try_cover(83 * MIB) && !ASKED.load(Ordering::Relaxed), "there is room behind the caches");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ASKED.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            budget.set_caches_given(budget.caches_max());
        });
        assert!(sort.try_cover_all(160 * MIB));
    });
    assert_eq!(budget.caches_given.load(Ordering::Relaxed), (256 - 160 - 24) << 20);
    // caches that stay as they are hold it up for a short time
    budget.set_caches_given(128 << 20);
    let begun = Instant::now();
    assert!(sort.try_cover_all(164 * MIB));
    assert!(begun.elapsed() >= SHRINK_PATIENCE);
    // work that spills does so
    let mut other = budget.reservation(Class::Statement);
    assert!(!other.try_cover(MIB) && other.bytes() == 0);
    // nothing that a message waits for
    let mut message = budget.reservation(Class::Message);
    let begun = Instant::now();
    assert!(message.try_cover_all(MIB));
    assert!(begun.elapsed() < SHRINK_PATIENCE);
}

#[test]
fn a_reservation_alone_waits_until_rows_beyond_the_caches_are_written() {
    static BUDGET: OnceLock<&'static Budget> = OnceLock::new();
    static BEYOND_MIB: AtomicU64 = AtomicU64::new(40);
    let budget = BUDGET.get_or_init(|| budget(256, 128));
    budget.set_reclaim(|| {
        let beyond = BEYOND_MIB.fetch_sub(10, Ordering::Relaxed) - 10;
        BUDGET.get().unwrap().observe(Sample { beyond: beyond << 20, ..Sample::default() });
    });
    let mut write = budget.reservation(Class::Batch);
    assert!(write.wait_for_all(300 * MIB, Duration::from_secs(60)));
    assert_eq!(BEYOND_MIB.load(Ordering::Relaxed), 0);
    // one that is to end does not wait
    BEYOND_MIB.store(u64::MAX >> 20, Ordering::Relaxed);
    write.shrink_to(0);
    assert!(write.wait_for_all_while(300 * MIB, 0, Duration::from_secs(60), || false));
}

#[test]
fn caches_give_way_to_half_of_their_size() {
    let budget = budget(256, 128);
    assert_eq!(budget.caches_max(), 128 << 20);
    let mut sort = budget.reservation(Class::Statement);
    assert!(sort.try_cover(80 * MIB));
    assert_eq!(budget.caches_max(), 128 << 20, "there is still room");
    sort.cover(150 * MIB);
    assert_eq!(budget.caches_max(), (256 - 150 - 24) << 20);
    sort.cover(168 * MIB);
    assert_eq!(budget.caches_max(), 64 << 20);
    sort.cover(200 * MIB);
    assert_eq!(budget.caches_max(), 32 << 20, "no room, and more is reserved all the same");
    sort.shrink_to(0);
    assert_eq!(budget.caches_max(), 128 << 20);
}

#[test]
fn caches_of_most_of_the_limit_leave_as_much_room_as_smaller_ones() {
    let (small, large) = (budget(256, 160), budget(256, 232));
    assert_eq!((large.room(), large.caches_max()), (small.room(), 232 << 20));
    let mut sort = large.reservation(Class::Statement);
    sort.cover(152 * MIB);
    assert_eq!(large.caches_max(), 80 << 20);
}

#[test]
fn what_was_measured_apart_is_not_given_out_again() {
    let budget = budget(256, 100);
    let sample =
        |resident: u64| Sample { resident: resident << 20, caches: 100 << 20, beyond: 0, caches_configured: 100 << 20 };
    budget.observe(sample(180));
    assert_eq!((budget.apart(), budget.room()), (80 << 20, (256 - 80 - 50) << 20));
    assert!(!budget.is_exceeded());
    budget.observe(sample(280));
    assert!(budget.is_exceeded());
    // it goes back slowly
    budget.observe(sample(130));
    assert!(budget.apart() > 150 << 20 && !budget.is_exceeded());
    (0..200).for_each(|_| budget.observe(sample(130)));
    assert!((30..=31).contains(&(budget.apart() >> 20)), "{}", budget.apart());
}

#[test]
fn an_allowance_has_a_bound_of_its_own() {
    let budget = budget(256, 64);
    let mut allowance = budget.allowance(Class::Statement, 10 * MIB);
    assert!(allowance.covers(10 * MIB) && !allowance.covers(10 * MIB + 1));
    assert_eq!(allowance.bytes_max(11 * MIB), 10 << 20);
    allowance.release();
    assert_eq!(budget.reserved(), 0);
    let mut wide = budget.allowance(Class::Statement, usize::MAX);
    assert!(wide.covers(90 * MIB) && !wide.covers(120 * MIB));
    assert_eq!((wide.bytes_max(120 * MIB), wide.granted()), (256 << 20, 90 * MIB));
}

#[test]
fn the_statement_that_has_allocated_most_is_stopped() {
    let budget = budget(256, 0);
    let resident = |mib: u64| budget.observe(Sample { resident: mib << 20, ..Sample::default() });
    let must_stop = |mib: u64| budget.must_stop(|| mib << 20);
    resident(256);
    assert!(!must_stop(200), "the limit holds");
    resident(300);
    assert!(!must_stop(20) && !must_stop(100), "who is the largest is not known yet");
    resident(301);
    assert!(!must_stop(20) && must_stop(100) && !must_stop(100), "one at a time");
    resident(302);
    resident(100);
    assert!(!must_stop(100));
    // small ones are not to blame
    resident(300);
    assert!(!must_stop(10));
    resident(300);
    assert!(!must_stop(10));
}

#[test]
fn fewer_snapshots_wait_in_a_small_memory() {
    assert_eq!(Budget::unlimited().snapshots_max(4096), 4096);
    assert_eq!((budget(4096, 64).snapshots_max(4096), budget(160, 64).snapshots_max(4096)), (4096, 320));
    assert_eq!((budget(64, 16).snapshots_max(4096), budget(64, 16).snapshots_max(100)), (256, 100));
}
