//! A search string: words, "phrases" that must occur in the text verbatim, and what a `-` before it negates.

use super::language::Language;
use super::predicate::TextPredicate;
use super::term::{Sensitivity, terms};
use crate::stop;

/// A parsed search string. All lists are in order and without repetitions.
#[derive(Clone, Debug)]
pub struct TextQuery {
    /// As the index has them: one of them must be there.
    pub terms: Vec<String>,
    /// Like `terms`, but with case and accents where they count; empty when neither does.
    pub(super) exact_terms: Vec<String>,
    pub negated_terms: Vec<String>,
    pub phrases: Vec<String>,
    pub negated_phrases: Vec<String>,
    pub(super) sensitivity: Sensitivity,
    pub(super) language: Language,
}

/// A stretch of a search string.
enum Piece<'s> {
    Words(&'s str),
    Negated(&'s str),
    Phrase(&'s str),
    NegatedPhrase(&'s str),
}

impl TextQuery {
    /// Cut short when the statement is to stop.
    pub fn parse(predicate: &TextPredicate, default_language: Language) -> TextQuery {
        let language = predicate.language.unwrap_or(default_language);
        let sensitivity = predicate.sensitivity;
        let mut query = TextQuery {
            terms: Vec::new(),
            exact_terms: Vec::new(),
            negated_terms: Vec::new(),
            phrases: Vec::new(),
            negated_phrases: Vec::new(),
            sensitivity,
            language,
        };
        for piece in pieces(&predicate.search) {
            if stop::tick().is_err() {
                break;
            }
            match piece {
                Piece::Words(text) => query.add_terms(text),
                Piece::Negated(text) => query.negated_terms.extend(terms(text, language, sensitivity)),
                Piece::Phrase(text) => {
                    query.add_terms(text);
                    query.phrases.push(text.to_owned());
                }
                Piece::NegatedPhrase(text) => query.negated_phrases.push(text.to_owned()),
            }
        }
        for list in [
            &mut query.terms,
            &mut query.exact_terms,
            &mut query.negated_terms,
            &mut query.phrases,
            &mut query.negated_phrases,
        ] {
            let _sorted = stop::sort_by(list, |a, b| a.cmp(b));
            list.dedup_by(|a, b| stop::tick().is_ok() && a == b);
        }
        query
    }

    fn add_terms(&mut self, text: &str) {
        self.terms.extend(terms(text, self.language, Sensitivity::default()));
        if self.sensitivity.is_any() {
            self.exact_terms.extend(terms(text, self.language, self.sensitivity));
        }
    }

    /// Returns true if documents must be checked: one that has a term may still not match.
    pub fn needs_documents(&self) -> bool {
        let lists = [&self.exact_terms, &self.negated_terms, &self.phrases, &self.negated_phrases];
        lists.iter().any(|list| !list.is_empty())
    }
}

fn pieces(search: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut rest = search;
    while let Some((before, behind)) = rest.split_once('"').filter(|_| stop::tick().is_ok()) {
        let Some((phrase, next)) = behind.split_once('"') else { break };
        let negated =
            before.strip_suffix('-').filter(|before| before.is_empty() || before.ends_with(char::is_whitespace));
        plain(negated.unwrap_or(before), &mut found);
        match negated {
            _ if phrase.trim().is_empty() => {}
            Some(_) => found.push(Piece::NegatedPhrase(phrase)),
            None => found.push(Piece::Phrase(phrase)),
        }
        rest = next;
    }
    plain(rest, &mut found);
    found
}

/// Words without phrases. A hyphen inside of a word parts it and negates nothing.
fn plain<'s>(text: &'s str, found: &mut Vec<Piece<'s>>) {
    for chunk in text.split_whitespace().take_while(|_| stop::tick().is_ok()) {
        match chunk.strip_prefix('-') {
            Some(negated) => {
                // only the first word after the hyphen
                let negated = negated.trim_start_matches('-');
                let end = negated.find('-').unwrap_or(negated.len());
                let (first, others) = negated.split_at(end);
                found.push(Piece::Negated(first));
                found.push(Piece::Words(others));
            }
            None => found.push(Piece::Words(chunk)),
        }
    }
}
