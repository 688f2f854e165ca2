//! The suite that every coordinator passes. Everything panics on a finding, as tests do.
//!
//! - C1: a replacement is `Done` only if the version was the expected one, and `Stale` changes nothing.
//! - C2: what was `Done` is read by every later read, until it is replaced; versions ascend.
//! - C3: of concurrent replacements of one version at most one is done.
//! - C4: `Unknown` and errors are the only outcomes that do not say what happened; an error says that nothing did.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arbor_bson::DocBuf;

use super::{Coordinator, Replaced};
use crate::agreement::{Agreement, Epoch, Identity, MemberId, StoreId, Version, Voter};

type Make<'a> = &'a (dyn Fn() -> Box<dyn Coordinator> + Sync);

/// Runs all cases on coordinators without faults.
pub fn run(make: Make<'_>) {
    one_after_the_other(&*make());
    histories(make);
    concurrent(&*make());
}

/// Returns an agreement that differs for each number.
pub fn agreement(number: u64) -> Agreement {
    let member = Identity { id: MemberId(0), store: StoreId([7; 16]) };
    let config = DocBuf::new().with("_id", "rs").with("version", number as i64);
    let voters = vec![Voter { id: MemberId(0), may_lead: true }];
    Agreement { epoch: Epoch(number), ..Agreement::founding(member, voters, &config) }
}

fn one_after_the_other(coordinator: &dyn Coordinator) {
    assert!(coordinator.read().expect("readable").is_none(), "a new coordinator has no agreement");
    let replace = |expected, number| coordinator.replace(expected, &agreement(number)).expect("reachable");
    assert_eq!(replace(Some(Version(1)), 1), Replaced::Stale, "C1: there is no version yet");
    let Replaced::Done(first) = replace(None, 1) else { panic!("C1: nothing was in the way") };
    assert_eq!(coordinator.read().expect("readable"), Some((first, agreement(1))), "C2");
    assert_eq!(replace(None, 2), Replaced::Stale, "C1: there is a version");
    assert_eq!(replace(Some(Version(first.0 + 1)), 2), Replaced::Stale, "C1: a version that was never given");
    assert_eq!(coordinator.read().expect("readable"), Some((first, agreement(1))), "C1: stale changes nothing");
    let Replaced::Done(second) = replace(Some(first), 2) else { panic!("C1: the version was the expected one") };
    assert!(second > first, "C2: versions ascend");
    assert_eq!(replace(Some(first), 3), Replaced::Stale, "C1: an old version");
    assert_eq!(coordinator.read().expect("readable"), Some((second, agreement(2))), "C2");
    assert!(coordinator.changed(Some(first)), "a local hint is right at last");
}

/// One client among replacements whose outcome it may not learn: what it reads is always something that may be.
pub fn histories(make: Make<'_>) {
    let coordinator = make();
    let mut newest: Option<(Version, Agreement)> = None;
    // Replacements of the newest version that may still happen
    let mut open: Vec<Agreement> = Vec::new();
    for number in 1..=300 {
        let expected = newest.as_ref().map(|(version, _)| *version);
        let next = agreement(number);
        match coordinator.replace(expected, &next) {
            Ok(Replaced::Done(version)) => {
                assert!(Some(version) > expected, "C2: versions ascend");
                newest = Some((version, next));
                open.clear();
            }
            Ok(Replaced::Stale) => assert!(!open.is_empty(), "C1: stale, and only this client writes"),
            Ok(Replaced::Unknown) => open.push(next),
            Err(_) => {}
        }
        let Ok(read) = coordinator.read() else { continue };
        if read != newest {
            let (version, agreement) = read.expect("C2: an agreement never vanishes");
            assert!(Some(version) > newest.as_ref().map(|(version, _)| *version), "C2: versions ascend");
            assert!(open.contains(&agreement), "C4: read what no replacement wrote");
            newest = Some((version, agreement));
            open.clear();
        }
    }
}

fn concurrent(coordinator: &dyn Coordinator) {
    const THREADS: u64 = 4;
    const EACH: u64 = 25;
    let tries = AtomicU64::new(0);
    let add_one = || {
        for _ in 0..EACH {
            loop {
                let read = coordinator.read().expect("readable");
                let (version, count) =
                    read.map_or((None, 0), |(version, agreement)| (Some(version), agreement.epoch.0));
                tries.fetch_add(1, Relaxed);
                match coordinator.replace(version, &agreement(count + 1)).expect("reachable") {
                    Replaced::Done(_) => break,
                    Replaced::Stale => {}
                    Replaced::Unknown => panic!("C4: no faults were requested"),
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(add_one);
        }
    });
    let (_, last) = coordinator.read().expect("readable").expect("C2: it was written");
    assert_eq!(last.epoch.0, THREADS * EACH, "C3: additions were lost in {} tries", tries.into_inner());
}
