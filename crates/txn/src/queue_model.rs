//! Loom's model of the queue: in every order, each committer gets its own outcome, and no request is left behind.
//! `RUSTFLAGS="--cfg loom" cargo test -p arbor-txn --release --lib loom_`

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};

use super::Queue;

/// `committers` submit one request each, `twice` says whether the first of them submits another one.
fn check(committers: usize, twice: bool, group_bytes_max: usize, further_groups: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let queue = Arc::new(Queue::with(group_bytes_max, further_groups));
        let (leading, processed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let submit = {
            let (queue, processed) = (queue.clone(), processed.clone());
            move |number: usize| {
                let outcome = queue.submit(number, 1, |group| {
                    assert_eq!(leading.fetch_add(1, Ordering::AcqRel), 0, "one leads at a time");
                    processed.fetch_add(group.len(), Ordering::Relaxed);
                    assert_eq!(leading.fetch_sub(1, Ordering::AcqRel), 1);
                    group.into_iter().map(|number| number * 2).collect()
                });
                assert_eq!(outcome, number * 2);
            }
        };
        let others: Vec<_> = (1..committers)
            .map(|number| {
                let submit = submit.clone();
                loom::thread::spawn(move || submit(number))
            })
            .collect();
        submit(100);
        if twice {
            submit(101);
        }
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(processed.load(Ordering::Relaxed), committers + usize::from(twice));
        let state = super::sync::lock(&queue.state);
        assert!(!state.led && state.waiting.is_empty(), "the queue is left as it was found");
    });
}

#[test]
fn loom_a_leader_processes_what_arrives_meanwhile() {
    check(2, true, 100, 2);
}

#[test]
fn loom_a_leader_hands_over_at_once() {
    check(2, true, 100, 0);
}

#[test]
fn loom_three_committers_in_groups_of_one() {
    check(3, false, 1, 1);
}
