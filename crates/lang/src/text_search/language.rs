//! The languages of text search: stemmers and stop words.

use std::sync::OnceLock;

use hashbrown::HashSet;
use rust_stemmers::{Algorithm, Stemmer};

/// A language with its rules; `none` has neither stemmer nor stop words.
#[derive(Clone, Copy, Debug)]
pub struct Language(&'static Entry);

#[derive(Debug)]
struct Entry {
    name: &'static str,
    /// The two letters of ISO 639-1 that MongoDB takes.
    code: &'static str,
    /// Those that the lists of stop words go by.
    stop_code: &'static str,
    algorithm: Option<Algorithm>,
}

const fn entry(name: &'static str, code: &'static str, algorithm: Algorithm) -> Entry {
    Entry { name, code, stop_code: code, algorithm: Some(algorithm) }
}

/// The stemmers copy a word for each letter that they mark: a word of 15 MB of the letter y took hours, and heard no interrupt.
const STEMMED_BYTES_MAX: usize = 2 << 10;

static LANGUAGES: [Entry; 16] = [
    Entry { name: "none", code: "none", stop_code: "", algorithm: None },
    entry("danish", "da", Algorithm::Danish),
    entry("dutch", "nl", Algorithm::Dutch),
    entry("english", "en", Algorithm::English),
    entry("finnish", "fi", Algorithm::Finnish),
    entry("french", "fr", Algorithm::French),
    entry("german", "de", Algorithm::German),
    entry("hungarian", "hu", Algorithm::Hungarian),
    entry("italian", "it", Algorithm::Italian),
    Entry { name: "norwegian", code: "nb", stop_code: "no", algorithm: Some(Algorithm::Norwegian) },
    entry("portuguese", "pt", Algorithm::Portuguese),
    entry("romanian", "ro", Algorithm::Romanian),
    entry("russian", "ru", Algorithm::Russian),
    entry("spanish", "es", Algorithm::Spanish),
    entry("swedish", "sv", Algorithm::Swedish),
    entry("turkish", "tr", Algorithm::Turkish),
];

static STOP_WORDS: [OnceLock<HashSet<&'static str>>; 16] = [const { OnceLock::new() }; 16];

impl PartialEq for Language {
    fn eq(&self, other: &Language) -> bool {
        self.0.name == other.0.name
    }
}
impl Eq for Language {}

impl Language {
    /// By name or code, in any case.
    pub fn of_name(name: &str) -> Option<Language> {
        let is_named = |entry: &&Entry| entry.name.eq_ignore_ascii_case(name) || entry.code.eq_ignore_ascii_case(name);
        LANGUAGES.iter().find(is_named).map(Language)
    }

    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Longer words are of no language and stay as they are.
    pub(super) fn stem(self, word: &str) -> String {
        match self.0.algorithm.filter(|_| word.len() <= STEMMED_BYTES_MAX) {
            Some(algorithm) => Stemmer::create(algorithm).stem(word).into_owned(),
            None => word.to_owned(),
        }
    }

    /// Requires a word in lower case.
    pub(super) fn is_stop_word(self, word: &str) -> bool {
        let place = LANGUAGES.iter().position(|entry| entry.name == self.0.name);
        let Some(words) = place.and_then(|place| STOP_WORDS.get(place)) else { return false };
        let load = || stop_words::lookup(self.0.stop_code).unwrap_or_default().iter().copied().collect();
        words.get_or_init(load).contains(word)
    }

    /// Returns true if an apostrophe is a delimiter. In English it may occur inside of a word.
    pub(super) fn apostrophe_ends_words(self) -> bool {
        self.0.name != "english"
    }

    pub(super) fn is_turkish(self) -> bool {
        self.0.name == "turkish"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_its_rules() {
        let mut wrong = Vec::new();
        for (name, word, other, stop) in [
            ("danish", "hestene", "heste", "og"),
            ("nl", "katten", "kat", "het"),
            ("English", "running", "runs", "the"),
            ("finnish", "talossa", "talon", "ja"),
            ("fr", "continuellement", "continuelles", "est"),
            ("german", "hauses", "haus", "und"),
            ("hu", "házak", "ház", "és"),
            ("italian", "gatti", "gatto", "della"),
            ("nb", "hestene", "hest", "og"),
            ("portuguese", "gatos", "gato", "não"),
            ("ro", "pisicilor", "pisicile", "este"),
            ("ru", "книгами", "книга", "что"),
            ("spanish", "corriendo", "correr", "está"),
            ("sv", "hundarna", "hundar", "och"),
            ("turkish", "kitaplar", "kitap", "çok"),
        ] {
            let language = Language::of_name(name).unwrap();
            let (own, same) = (language.stem(word), language.stem(other));
            if own != same || !language.is_stop_word(stop) || language.is_stop_word(word) {
                wrong.push(format!("{name}: {word} {own}, {other} {same}, {stop}"));
            }
        }
        assert_eq!(wrong, Vec::<String>::new());
        let none = Language::of_name("none").unwrap();
        assert_eq!((none.stem("running").as_str(), none.is_stop_word("the")), ("running", false));
        assert!(Language::of_name("klingon").is_none() && Language::of_name("").is_none());
    }

    /// The stemmer took hours for it.
    #[test]
    fn a_long_word_is_not_stemmed() {
        let english = Language::of_name("english").unwrap();
        let long = "y".repeat(16 << 20);
        assert_eq!(english.stem(&long), long);
        assert_eq!(english.stem(&"running".repeat(STEMMED_BYTES_MAX / 7)).len(), 7 * (STEMMED_BYTES_MAX / 7) - 4);
    }
}
