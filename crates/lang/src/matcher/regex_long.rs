//! Searches of regular expressions that may take long, which the end of a statement interrupts.
//!
//! The linear-time engine chooses by itself how to search, and nothing stops it: for some patterns it needs as many steps per
//! byte as the pattern has states, minutes for 16 MB. Here its lazy automaton is tried alone, which gives up soon when it has to be built
//! again all the time, and is then driven byte by byte. The backtracking engine reads its text through [`Watched`].

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::meta;
use regex_automata::nfa::thompson::{Config as NfaConfig, NFA, WhichCaptures};
use regex_automata::util::pool::Pool;
use regex_automata::util::prefilter::Prefilter;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};

use super::regex::Capture;
use crate::stop::{ended, tick, tick_for};
use crate::{Error, Result};

/// Steps that a search may need without a check: bytes of text times states of the pattern.
const UNCHECKED_STEPS_MAX: usize = 10_000_000;

/// Steps for the groups of one match, which cannot be interrupted. Only groups that span megabytes need more.
const GROUP_STEPS_MAX: usize = 1_000_000_000;

/// Bytes of a pattern's states, as the engine for short texts has it.
const NFA_BYTES_MAX: usize = 10 << 20;

/// Bytes of the states that an automaton keeps, as the engine for short texts has it.
const CACHE_BYTES: usize = 2 << 20;

/// Shorter texts are searched whatever the number of the pattern's states.
pub(super) const SHORT_BYTES: usize = 1 << 10;

/// An automaton that gives up when building its states costs more than they save, and one that does not.
#[derive(Clone, Debug)]
struct Automaton {
    quick: DFA,
    patient: DFA,
}

#[derive(Debug)]
struct Caches {
    forward: [Cache; 2],
    reverse: [Cache; 2],
}

type NewCaches = Box<dyn Fn() -> Caches + Send + Sync + UnwindSafe + RefUnwindSafe>;

/// A pattern for long texts.
#[derive(Debug)]
pub(super) struct LongSearch {
    /// Finds where a match ends.
    forward: Arc<Automaton>,
    /// Finds where the match with this end begins.
    reverse: Arc<Automaton>,
    groups: meta::Regex,
    states: usize,
    caches: Pool<Caches, NewCaches>,
}

impl LongSearch {
    /// Compiles a pattern that the linear-time engine takes.
    pub(super) fn new(pattern: &str) -> Option<LongSearch> {
        let hir = syntax::parse(pattern).ok()?;
        let nfa = |reverse| {
            let bytes_max = Some(4 * NFA_BYTES_MAX);
            let config =
                NfaConfig::new().reverse(reverse).which_captures(WhichCaptures::None).nfa_size_limit(bytes_max);
            NFA::compiler().configure(config).build_from_hir(&hir).ok()
        };
        let (ahead, back) = (nfa(false)?, nfa(true)?);
        let states = ahead.states().len();
        let prefilter = Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, &hir);
        let forward = Arc::new(Automaton::new(&ahead, MatchKind::LeftmostFirst, prefilter)?);
        let reverse = Arc::new(Automaton::new(&back, MatchKind::All, None)?);
        let config = meta::Config::new().nfa_size_limit(Some(NFA_BYTES_MAX));
        let groups = meta::Regex::builder().configure(config).build_from_hir(&hir).ok()?;
        let (ahead, back) = (forward.clone(), reverse.clone());
        let new_caches: NewCaches = Box::new(move || Caches { forward: ahead.caches(), reverse: back.caches() });
        Some(LongSearch { forward, reverse, groups, states, caches: Pool::new(new_caches) })
    }

    /// Returns true if a search of that many bytes needs no check.
    pub(super) fn is_short(&self, bytes: usize) -> bool {
        self.states.saturating_mul(bytes) <= UNCHECKED_STEPS_MAX
    }

    pub(super) fn is_match(&self, text: &str) -> Result<bool> {
        let input = Input::new(text).earliest(true);
        Ok(self.forward.end_of_match(&mut self.caches.get().forward, &input)?.is_some())
    }

    /// The first match at or after byte `from`.
    pub(super) fn captures_at(&self, text: &str, from: usize) -> Result<Option<Capture>> {
        let mut caches = self.caches.get();
        let Some(end) = self.forward.end_of_match(&mut caches.forward, &Input::new(text).span(from..text.len()))?
        else {
            return Ok(None);
        };
        let back = Input::new(text).span(from..end).anchored(Anchored::Yes);
        let start = self.reverse.start_of_match(&mut caches.reverse, &back)?;
        drop(caches);
        let mut groups = Vec::new();
        if self.groups.captures_len() > 1 {
            if self.states.saturating_mul(end - start) > GROUP_STEPS_MAX {
                return Err(limit_exceeded("match limit exceeded"));
            }
            let mut found = self.groups.create_captures();
            self.groups.search_captures(&Input::new(text).span(start..end).anchored(Anchored::Yes), &mut found);
            groups
                .extend((1..found.group_len()).map(|group| found.get_group(group).map(|span| (span.start, span.end))));
        }
        Ok(Some(Capture { start, end, groups }))
    }
}

impl Automaton {
    fn new(nfa: &NFA, kind: MatchKind, prefilter: Option<Prefilter>) -> Option<Automaton> {
        let patient = DFA::config().match_kind(kind).cache_capacity(CACHE_BYTES).skip_cache_capacity_check(true);
        let quick = patient.clone().minimum_cache_clear_count(Some(3)).minimum_bytes_per_state(Some(10));
        let quick = quick.specialize_start_states(prefilter.is_some()).prefilter(prefilter);
        let build = |config| DFA::builder().configure(config).build_from_nfa(nfa.clone()).ok();
        Some(Automaton { quick: build(quick)?, patient: build(patient)? })
    }

    fn caches(&self) -> [Cache; 2] {
        [self.quick.create_cache(), self.patient.create_cache()]
    }

    /// Returns the end of the leftmost match, of the shortest for an earliest search.
    fn end_of_match(&self, [quick, patient]: &mut [Cache; 2], input: &Input<'_>) -> Result<Option<usize>> {
        tick_for(input.end() - input.start())?;
        match self.quick.try_search_fwd(quick, input) {
            Ok(found) => Ok(found.map(|found| found.offset())),
            Err(_) => self.walk_forward(patient, input),
        }
    }

    fn walk_forward(&self, cache: &mut Cache, input: &Input<'_>) -> Result<Option<usize>> {
        let mut found = None;
        let mut state =
            self.patient.start_state_forward(cache, input).map_err(|error| limit_exceeded(&error.to_string()))?;
        for at in input.get_range() {
            tick()?;
            let byte = input.haystack().get(at).copied().unwrap_or_default();
            state = self.patient.next_state(cache, state, byte).map_err(|error| limit_exceeded(&error.to_string()))?;
            // matches are reported one byte late
            if state.is_match() {
                found = Some(at);
                if input.get_earliest() {
                    return Ok(found);
                }
            } else if state.is_dead() {
                return Ok(found);
            }
        }
        // searches end with their text
        debug_assert_eq!(input.end(), input.haystack().len());
        state = self.patient.next_eoi_state(cache, state).map_err(|error| limit_exceeded(&error.to_string()))?;
        Ok(if state.is_match() { Some(input.end()) } else { found })
    }

    /// Returns the start of the match that ends with the input. Requires that there is one.
    fn start_of_match(&self, [quick, patient]: &mut [Cache; 2], input: &Input<'_>) -> Result<usize> {
        let found = match self.quick.try_search_rev(quick, input) {
            Ok(found) => found.map(|found| found.offset()),
            Err(_) => self.walk_back(patient, input)?,
        };
        debug_assert!(found.is_some(), "a match has a start");
        Ok(found.unwrap_or(input.start()))
    }

    fn walk_back(&self, cache: &mut Cache, input: &Input<'_>) -> Result<Option<usize>> {
        let mut found = None;
        let mut state =
            self.patient.start_state_reverse(cache, input).map_err(|error| limit_exceeded(&error.to_string()))?;
        for at in input.get_range().rev() {
            tick()?;
            let byte = input.haystack().get(at).copied().unwrap_or_default();
            state = self.patient.next_state(cache, state, byte).map_err(|error| limit_exceeded(&error.to_string()))?;
            if state.is_match() {
                found = Some(at + 1);
            } else if state.is_dead() {
                return Ok(found);
            }
        }
        let before = input.start().checked_sub(1).and_then(|before| input.haystack().get(before));
        let last = match before {
            Some(byte) => self.patient.next_state(cache, state, *byte),
            None => self.patient.next_eoi_state(cache, state),
        };
        state = last.map_err(|error| limit_exceeded(&error.to_string()))?;
        Ok(if state.is_match() { Some(input.start()) } else { found })
    }
}

pub(super) fn limit_exceeded(what: &str) -> Error {
    Error::location(51156, format!("Error occurred while executing the regular expression: {what}"))
}

/// A text that the backtracking engine reads; at each access the statement may end, and after too many of them the search does.
pub(super) struct Watched<'t> {
    text: &'t str,
    accesses: Cell<usize>,
}

/// Accesses of one search, in addition to those that each character may have where no match begins.
const ACCESSES_MAX: usize = 1_000_000;
const ACCESSES_PER_BYTE_MAX: usize = 8;

/// The payload that unwinds out of the engine.
struct Stopped;

impl<'t> Watched<'t> {
    pub(super) fn new(text: &'t str) -> Watched<'t> {
        Watched { text, accesses: Cell::new(0) }
    }

    /// Runs a search, which ends with the error that ended the statement.
    pub(super) fn search<T>(&self, search: impl FnOnce(&Self) -> fancy_regex::Result<T>) -> Result<T> {
        match catch_unwind(AssertUnwindSafe(|| search(self))) {
            Ok(found) => found.map_err(|error| limit_exceeded(&error.to_string())),
            Err(payload) if payload.is::<Stopped>() => {
                ended()?;
                Err(limit_exceeded("match limit exceeded"))
            }
            Err(payload) => resume_unwind(payload),
        }
    }

    /// One step of the engine, which may read a part of the text.
    fn step(&self) {
        const PARTS: usize = 16;
        let accesses = self.accesses.get() + 1;
        self.accesses.set(accesses);
        let is_too_long = accesses > ACCESSES_MAX + ACCESSES_PER_BYTE_MAX * self.text.len();
        if is_too_long || tick_for(self.text.len() / PARTS).is_err() {
            resume_unwind(Box::new(Stopped));
        }
    }
}

impl fancy_regex::Input for Watched<'_> {
    type Match<'m>
        = (usize, usize)
    where
        Self: 'm;

    fn len(&self) -> usize {
        self.text.len()
    }

    fn as_bytes(&self) -> &[u8] {
        self.step();
        self.text.as_bytes()
    }

    fn is_char_boundary(&self, at: usize) -> bool {
        self.text.is_char_boundary(at)
    }

    fn is_ascii(&self) -> bool {
        self.text.is_ascii()
    }

    fn prev_codepoint_ix(&self, at: usize) -> usize {
        self.step();
        (0..at).rev().find(|before| self.text.is_char_boundary(*before)).unwrap_or_default()
    }

    fn make_match(&self, start: usize, end: usize) -> (usize, usize) {
        (start, end)
    }

    fn advance_position(&self, at: usize) -> usize {
        self.step();
        (at + 1..self.text.len()).find(|next| self.text.is_char_boundary(*next)).unwrap_or(at + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::regex::Regex;
    use crate::stop::stoppable;

    const PATTERNS: [&str; 16] = [
        "a",
        "ab|b",
        "(a|ab)(c|bcd)?",
        "b*",
        "(a*)(b+)?c",
        "^a",
        "c$",
        r"(?-u:\b)ab",
        "(?m)^b.",
        "é+",
        "[^a]é",
        "a.*?b",
        "a.*b",
        "(a[ab]{3}){2}",
        "x",
        "(é|b)(?:a|$)",
    ];

    fn texts() -> impl Iterator<Item = String> {
        let mut seed = 7u64;
        (0..400).map(move |n| {
            (0..n % 23)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    ['a', 'b', 'c', 'é', '\n'][(seed >> 33) as usize % 5]
                })
                .collect()
        })
    }

    /// Gives up at once, so that each search goes byte by byte.
    fn giving_up(mut long: LongSearch) -> LongSearch {
        for automaton in [&mut long.forward, &mut long.reverse] {
            let nfa = automaton.quick.get_nfa().clone();
            let gives_up = automaton.quick.get_config().clone().cache_capacity(0).minimum_cache_clear_count(Some(0));
            let gives_up = gives_up.prefilter(None).skip_cache_capacity_check(true);
            let quick = DFA::builder().configure(gives_up.minimum_bytes_per_state(None)).build_from_nfa(nfa).unwrap();
            *automaton = Arc::new(Automaton { quick, patient: automaton.patient.clone() });
        }
        let (ahead, back) = (long.forward.clone(), long.reverse.clone());
        long.caches = Pool::new(Box::new(move || Caches { forward: ahead.caches(), reverse: back.caches() }));
        long
    }

    #[test]
    fn long_and_short_searches_find_the_same() {
        for pattern in PATTERNS {
            let short = regex::Regex::new(pattern).unwrap();
            let searches = [LongSearch::new(pattern).unwrap(), giving_up(LongSearch::new(pattern).unwrap())];
            for text in texts() {
                for from in (0..=text.len()).filter(|from| text.is_char_boundary(*from)) {
                    let expected = short.captures_at(&text, from).map(|found| {
                        Capture::of(
                            (0..found.len()).map(|group| found.get(group).map(|part| (part.start(), part.end()))),
                        )
                    });
                    for long in &searches {
                        assert_eq!(
                            long.captures_at(&text, from).unwrap(),
                            expected,
                            "/{pattern}/ in {text:?} from {from}"
                        );
                    }
                }
                for long in &searches {
                    assert_eq!(long.is_match(&text).unwrap(), short.is_match(&text), "/{pattern}/ in {text:?}");
                }
            }
        }
    }

    #[test]
    fn automata_that_give_up_are_walked() {
        let long = giving_up(LongSearch::new("a[ab]{3}").unwrap());
        let mut caches = long.caches.get();
        let input = Input::new("ababab");
        assert!(long.forward.quick.try_search_fwd(&mut caches.forward[0], &input).is_err());
    }

    #[test]
    fn a_search_ends_with_its_statement() {
        let ab: String = (0..4_000_000u64)
            .map(|n| if n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63 == 0 { 'a' } else { 'b' })
            .collect();
        let same = "x".repeat(4_000_000);
        for (pattern, text) in [
            ("a[ab]{400}c", &ab),
            ("(a[ab]{30}|b[ab]{200}){2}c", &ab),
            ("(?=x)x*y", &same),
            (r"(\w)\1+q", &same),
            ("(?<=x)Y", &same),
        ] {
            let regex = Regex::new(pattern, "").unwrap();
            for groups in [false, true] {
                let check = || Err(Error::bad_value("enough"));
                let started = std::time::Instant::now();
                let search =
                    || if groups { regex.captures_at(text, 0).map(drop) } else { regex.is_match(text).map(drop) };
                assert_eq!(stoppable(check, search).unwrap_err().message, "enough", "/{pattern}/");
                assert!(started.elapsed().as_secs() < 20, "/{pattern}/");
                assert!(regex.is_match("ax").is_ok(), "it serves other searches");
            }
        }
    }

    #[test]
    fn lookarounds_search_long_texts() {
        let text = "é".repeat(1_500_000) + "xY";
        let found = Regex::new("(?<=x)Y", "").unwrap().captures_at(&text, 0).unwrap().unwrap();
        assert_eq!((found.start, found.end), (text.len() - 1, text.len()));
    }
}
