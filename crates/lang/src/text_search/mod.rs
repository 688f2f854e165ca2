//! Text search: from strings to terms, and what a search string says about a document. Version 3 of MongoDB's text indexes.
//!
//! | file | holds |
//! |---|---|
//! | `language.rs` | the languages, their stemmers and stop words |
//! | `delimiter.rs`, `fold.rs`, `term.rs` | from a string to words; letters without case and accents; from words to terms |
//! | `fields.rs` | which strings of a document are searched, with their weights and languages |
//! | `score.rs` | how much a document says about each of its terms |
//! | `predicate.rs` | the operand of `$text` |
//! | `query.rs` | a search string: terms, "phrases", -negations |
//! | `matcher.rs` | a search string over the fields of one index |
//!
//! A term is a word in lower case, stemmed, without accents, unless it is a stop word of its language. An index holds the
//! terms of each document with their scores; a document matches when it has one of the terms that are searched and every
//! phrase, and nothing that is negated.

mod delimiter;
mod fields;
mod fold;
mod language;
mod matcher;
mod predicate;
mod query;
mod score;
mod term;
#[cfg(test)]
mod tests;

pub use fields::{TextFields, Weight};
pub use language::Language;
pub use matcher::TextMatcher;
pub use predicate::TextPredicate;
pub use query::TextQuery;
pub use score::TermScores;
