//! From words to terms.

use std::borrow::Cow;

use super::delimiter::words;
use super::fold::{lower, without_accents};
use super::language::Language;

/// Properties of a word that distinguish it from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sensitivity {
    pub case: bool,
    pub accents: bool,
}

impl Sensitivity {
    pub(super) fn is_any(self) -> bool {
        self.case || self.accents
    }

    /// A text in which phrases are looked for.
    pub(super) fn folded(self, text: &str, language: Language) -> Cow<'_, str> {
        let cased = if self.case { Cow::Borrowed(text) } else { lower(text, language.is_turkish()) };
        match cased {
            _ if self.accents => cased,
            Cow::Borrowed(text) => without_accents(text),
            Cow::Owned(text) => Cow::Owned(without_accents(&text).into_owned()),
        }
    }
}

/// Longer terms are cut, and end in a hash of the whole.
const BYTES_MAX: usize = 256;
const BYTES_KEPT: usize = 224;

/// The terms of a text, in its order. Stop words are none. Fewer when the statement is to stop.
pub(super) fn terms(text: &str, language: Language, sensitivity: Sensitivity) -> impl Iterator<Item = String> {
    let words = words(text, language.apostrophe_ends_words());
    words.filter_map(move |word| term(word, language, sensitivity))
}

fn term(word: &str, language: Language, sensitivity: Sensitivity) -> Option<String> {
    let lowered = lower(word, language.is_turkish());
    if language.is_stop_word(&lowered) {
        return None;
    }
    let stem = language.stem(&lowered);
    let cased = if sensitivity.case { with_case_of(word, stem) } else { stem };
    let folded = match without_accents(&cased) {
        Cow::Owned(folded) if !sensitivity.accents => folded,
        _ => cased,
    };
    Some(bounded(folded))
}

/// The stem with the capitals that the word has where both agree.
fn with_case_of(word: &str, stem: String) -> String {
    let mut own = word.chars();
    let cased = |c: char| match own.next() {
        Some(upper) if upper.to_lowercase().eq([c]) => upper,
        _ => c,
    };
    stem.chars().map(cased).collect()
}

fn bounded(term: String) -> String {
    if term.len() <= BYTES_MAX {
        return term;
    }
    let end = (0..=BYTES_KEPT).rev().find(|end| term.is_char_boundary(*end)).unwrap_or(0);
    // FNV-1a
    let hash = term
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{}{hash:016x}", term.get(..end).unwrap_or_default())
}
