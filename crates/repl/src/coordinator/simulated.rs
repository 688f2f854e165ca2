//! A coordinator in memory that fails as one behind a network does.

use std::io;

use arbor_base::Random;
use parking_lot::Mutex;

use super::{Coordinator, Replaced};
use crate::agreement::{Agreement, Version};

/// Per cent of the calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Reads that fail.
    pub unreadable: u64,
    /// Replacements that are never executed and return `Unknown`.
    pub lost_request: u64,
    /// Replacements that are executed and return `Unknown`.
    pub lost_reply: u64,
    /// Replacements that return `Unknown` and are executed at a later call.
    pub delayed: u64,
    /// Hints that are wrong.
    pub wrong_hint: u64,
    /// A defect for the tests of tests: the expected version is not compared.
    pub without_compare: bool,
}

#[derive(Debug)]
pub struct Simulated(Mutex<State>);

#[derive(Debug)]
struct State {
    current: Option<(Version, Agreement)>,
    delayed: Vec<(Option<Version>, Agreement)>,
    faults: Faults,
    random: Random,
}

impl Simulated {
    pub fn new(seed: u64, faults: Faults) -> Simulated {
        let random = Random::new(seed);
        Simulated(Mutex::new(State { current: None, delayed: Vec::new(), faults, random }))
    }

    /// Returns the newest agreement, past all faults.
    pub fn current(&self) -> Option<(Version, Agreement)> {
        self.0.lock().current.clone()
    }
}

impl State {
    fn fails(&mut self, per_cent: u64) -> bool {
        per_cent > 0 && self.random.chance(per_cent, 100)
    }

    fn compare_and_set(&mut self, expected: Option<Version>, next: Agreement) -> Replaced {
        let version = self.current.as_ref().map(|(version, _)| *version);
        if version != expected && !self.faults.without_compare {
            return Replaced::Stale;
        }
        let version = Version(version.map_or(1, |version| version.0 + 1));
        self.current = Some((version, next));
        Replaced::Done(version)
    }

    fn execute_delayed(&mut self) {
        if !self.delayed.is_empty() && self.random.one_in(2) {
            let at = self.random.below(self.delayed.len() as u64) as usize;
            let (expected, next) = self.delayed.swap_remove(at);
            self.compare_and_set(expected, next);
        }
    }
}

impl Coordinator for Simulated {
    fn read(&self) -> io::Result<Option<(Version, Agreement)>> {
        let mut state = self.0.lock();
        state.execute_delayed();
        let unreadable = state.faults.unreadable;
        match state.fails(unreadable) {
            true => Err(io::Error::other("the simulated coordinator does not reply")),
            false => Ok(state.current.clone()),
        }
    }

    fn replace(&self, expected: Option<Version>, next: &Agreement) -> io::Result<Replaced> {
        let mut state = self.0.lock();
        state.execute_delayed();
        let faults = state.faults;
        if state.fails(faults.lost_request) {
            return Ok(Replaced::Unknown);
        }
        if state.fails(faults.delayed) {
            state.delayed.push((expected, next.clone()));
            return Ok(Replaced::Unknown);
        }
        let outcome = state.compare_and_set(expected, next.clone());
        Ok(if state.fails(faults.lost_reply) { Replaced::Unknown } else { outcome })
    }

    fn changed(&self, seen: Option<Version>) -> bool {
        let mut state = self.0.lock();
        let wrong_hint = state.faults.wrong_hint;
        let wrong = state.fails(wrong_hint);
        (state.current.as_ref().map(|(version, _)| *version) > seen) != wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::contract;

    #[test]
    fn passes_the_contract() {
        contract::run(&|| Box::new(Simulated::new(1, Faults::default())));
    }

    #[test]
    fn passes_the_contract_with_faults() {
        let faults = Faults {
            unreadable: 10,
            lost_request: 10,
            lost_reply: 10,
            delayed: 10,
            wrong_hint: 20,
            ..Faults::default()
        };
        for seed in 0..20 {
            contract::histories(&|| Box::new(Simulated::new(seed, faults)));
        }
    }

    #[test]
    #[should_panic = "C1"]
    fn the_contract_finds_a_replacement_without_comparison() {
        let faults = Faults { without_compare: true, ..Faults::default() };
        contract::run(&|| Box::new(Simulated::new(1, faults)));
    }

    #[test]
    fn a_delayed_replacement_happens_after_a_read_of_the_expected_version() {
        let agreement = contract::agreement(1);
        let seen = (0..100).any(|seed| {
            let coordinator = Simulated::new(seed, Faults { delayed: 100, ..Faults::default() });
            assert_eq!(coordinator.replace(None, &agreement).unwrap(), Replaced::Unknown);
            let first = coordinator.read().unwrap();
            first.is_none() && (0..20).any(|_| coordinator.read().unwrap().is_some())
        });
        assert!(seen, "no seed executed the replacement after a read without it");
    }
}
