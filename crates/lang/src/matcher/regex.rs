//! Regular expressions with PCRE's meaning.
//!
//! A pattern is rewritten (`regex_syntax.rs`) and compiled by the linear-time engine; what only a backtracking
//! engine can do (lookaround, backreferences, atomic groups) goes to that, with a limit on its steps.
//! COMPAT: as in MongoDB (UTF mode without Unicode properties) `\d \w \s` know ASCII only.

use std::sync::{Arc, OnceLock};

use arbor_bson::ValueRef;

use super::regex_long::{LongSearch, SHORT_BYTES, Watched};
use super::regex_syntax;
use crate::{Error, Result};

/// Steps of the backtracking engine for one value, one at least for each character where no match begins; what it reads is limited by
/// the length of the value. PCRE's own default limit is ten million for each character.
const BACKTRACK_STEPS_MAX: usize = 20_000_000;
/// As in MongoDB.
const PATTERN_BYTES_MAX: usize = 16 << 10;

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub struct Regex {
    pub pattern: String,
    pub options: String,
    engine: Engine,
}

#[derive(Clone, Debug)]
enum Engine {
    Linear(Arc<Linear>),
    Backtracking(Box<fancy_regex::Regex>),
}

#[derive(Debug)]
struct Linear {
    short: regex::Regex,
    /// Made for the first text that is not short; `None` if the pattern is too large for it.
    long: OnceLock<Option<LongSearch>>,
}

impl Linear {
    /// Returns the search for that many bytes of text, unless it is the one for short texts.
    fn long(&self, bytes: usize) -> Option<&LongSearch> {
        if bytes < SHORT_BYTES {
            return None;
        }
        let long = self.long.get_or_init(|| LongSearch::new(self.short.as_str()));
        long.as_ref().filter(|long| !long.is_short(bytes))
    }
}

/// Byte ranges of a match and of its groups.
#[derive(Clone, Debug, PartialEq)]
pub struct Capture {
    pub start: usize,
    pub end: usize,
    pub groups: Vec<Option<(usize, usize)>>,
}

impl Regex {
    pub fn new(pattern: &str, options: &str) -> Result<Regex> {
        if let Some(flag) = options.chars().find(|flag| !"imsxu".contains(*flag)) {
            return Err(Error::location(51108, format!("invalid flag in regex options: {flag}")));
        }
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(Error::location(51091, "Regular expression is invalid: regular expression is too large"));
        }
        let translated = regex_syntax::translate(pattern, options);
        let engine = match regex::RegexBuilder::new(&translated).build() {
            Ok(short) => Engine::Linear(Arc::new(Linear { short, long: OnceLock::new() })),
            Err(_) => Engine::Backtracking(Box::new(
                fancy_regex::RegexBuilder::new(&translated)
                    .backtrack_limit(BACKTRACK_STEPS_MAX)
                    .build()
                    .map_err(|error| Error::location(51091, format!("Regular expression is invalid: {error}")))?,
            )),
        };
        Ok(Regex { pattern: pattern.to_owned(), options: options.to_owned(), engine })
    }

    pub fn is_match(&self, text: &str) -> Result<bool> {
        match &self.engine {
            Engine::Linear(linear) => match linear.long(text.len()) {
                Some(long) => long.is_match(text),
                None => Ok(linear.short.is_match(text)),
            },
            Engine::Backtracking(engine) => Watched::new(text).search(|text| engine.is_match(text)),
        }
    }

    /// The first match at or after byte `from`.
    pub fn captures_at(&self, text: &str, from: usize) -> Result<Option<Capture>> {
        match &self.engine {
            Engine::Linear(linear) => match linear.long(text.len().saturating_sub(from)) {
                Some(long) => long.captures_at(text, from),
                None => Ok(linear.short.captures_at(text, from).map(|found| {
                    Capture::of((0..found.len()).map(|group| found.get(group).map(|part| (part.start(), part.end()))))
                })),
            },
            Engine::Backtracking(engine) => Watched::new(text).search(|text| {
                let found = engine.captures_from_pos(text, from)?;
                Ok(found.map(|found| Capture::of((0..found.len()).map(|group| found.get(group)))))
            }),
        }
    }

    /// Returns true if a stored value matches: a string (or symbol) it finds something in, or the same regular expression.
    pub fn matches(&self, value: ValueRef) -> Result<bool> {
        match value {
            ValueRef::String(text) | ValueRef::Symbol(text) => self.is_match(text),
            ValueRef::Regex { pattern, options } => Ok(pattern == self.pattern && options == self.options),
            _ => Ok(false),
        }
    }

    /// The literal text every match starts with, when the expression is `^text...` and case matters: an index range.
    pub fn literal_prefix(&self) -> Option<String> {
        regex_syntax::literal_prefix(&self.pattern, &self.options)
    }
}

impl Capture {
    pub(super) fn of(mut groups: impl Iterator<Item = Option<(usize, usize)>>) -> Capture {
        let (start, end) = groups.next().flatten().unwrap_or_default();
        Capture { start, end, groups: groups.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_as_pcre() {
        for (pattern, options, text, expect) in [
            ("b+", "", "abbc", true),
            ("^B", "i", "bc", true),
            ("^c", "", "a\nc", false),
            ("^c", "m", "a\nc", true),
            ("a.c", "", "a\nc", false),
            ("a.c", "s", "a\nc", true),
            ("a b # note", "x", "ab", true),
            (r"\w", "", "é", false),
            (r"^\d+$", "", "123", true),
            (r"[\w-]+x", "", "a-x", true),
            ("end$", "", "the end\n", true),
            (r"end\z", "", "the end\n", false),
            (r"(a)\1", "", "aa", true),
            (r"foo(?=bar)", "", "foobar", true),
            (r"foo(?!bar)", "", "foobar", false),
            (r"a{,3}", "", "a{,3}", true),
            ("[[]", "", "[", true),
            ("[a&&b]", "", "&", true),
            (r"\/x\<", "", "/x<", true),
            (r"\Qa.b\E", "", "a.b", true),
            (r"É", "i", "é", true),
            ("[[:alpha:]]", "", "q", true),
            ("[[:]", "", ":", true),
            ("[[:x", "", "", false),
            ("a{2}b", "", "aab", true),
            ("a{2,}$", "", "aaa", true),
            ("a{x}", "", "a{x}", true),
            (r"\p{L}{2}", "", "éé", true),
            (r"\x{e9}", "", "é", true),
            ("}{", "", "}{", true),
        ] {
            let found = Regex::new(pattern, options).is_ok_and(|regex| regex.is_match(text).unwrap());
            assert_eq!(found, expect, "/{pattern}/{options}");
        }
    }

    #[test]
    fn bad_patterns() {
        for (pattern, options, code) in [("a(", "", 51091), ("a", "q", 51108), ("*", "", 51091)] {
            assert_eq!(Regex::new(pattern, options).unwrap_err().code.0, code, "/{pattern}/");
        }
    }

    #[test]
    fn catastrophic_patterns_stop() {
        let regex = Regex::new(r"^(a|aa)+\1x$", "").unwrap();
        let started = std::time::Instant::now();
        let _ = regex.is_match(&("a".repeat(60) + "!"));
        assert!(started.elapsed().as_secs() < 10);
    }

    #[test]
    fn prefixes() {
        for (pattern, options, expect) in [
            ("^abc", "", Some("abc")),
            ("^abc.*", "", Some("abc")),
            ("^abc*", "", Some("ab")),
            (r"^a\.b", "", Some("a.b")),
            (r"\Aab", "", Some("ab")),
            ("^abc", "i", None),
            ("^abc", "m", None),
            ("abc", "", None),
            ("^a|b", "", None),
            ("^a?", "", None),
            ("^", "", None),
        ] {
            let regex = Regex::new(pattern, options).unwrap();
            assert_eq!(regex.literal_prefix().as_deref(), expect, "/{pattern}/{options}");
        }
    }
}
