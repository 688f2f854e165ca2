//! A search string over the fields of one index.

use std::sync::Arc;

use arbor_bson::Doc;

use super::fields::{Text, TextFields};
use super::predicate::TextPredicate;
use super::query::TextQuery;
use super::term::terms;
use crate::{Result, stop};

#[derive(Clone, Debug)]
pub struct TextMatcher {
    fields: Arc<TextFields>,
    query: TextQuery,
}

impl TextMatcher {
    pub fn new(fields: Arc<TextFields>, predicate: &TextPredicate) -> TextMatcher {
        let query = TextQuery::parse(predicate, fields.default_language());
        TextMatcher { fields, query }
    }

    pub fn query(&self) -> &TextQuery {
        &self.query
    }

    /// The score of a document, found without an index. None: it does not match.
    pub fn score(&self, doc: Doc<'_>) -> Result<Option<f64>> {
        let scores = self.fields.scores(doc)?;
        let found: Vec<f64> = self.query.terms.iter().filter_map(|term| scores.get(term).copied()).collect();
        let matches = !found.is_empty() && self.verify(doc)?;
        Ok(matches.then(|| found.iter().sum()))
    }

    /// Returns true if a document that has one of the terms matches.
    pub fn verify(&self, doc: Doc<'_>) -> Result<bool> {
        if !self.query.needs_documents() {
            return Ok(true);
        }
        let mut check = Check::of(&self.query);
        self.fields.visit(doc, &mut |text| check.add_text(&text))?;
        stop::ended()?;
        Ok(check.holds())
    }
}

/// Progress of the check over the texts of one document.
struct Check<'q> {
    query: &'q TextQuery,
    /// Phrases that were not found yet, folded.
    missing: Vec<String>,
    negated_phrases: Vec<String>,
    has_term: bool,
    refuted: bool,
}

impl<'q> Check<'q> {
    fn of(query: &'q TextQuery) -> Check<'q> {
        let folded = |phrases: &[String]| -> Vec<String> {
            let phrases = phrases.iter().take_while(|_| stop::tick().is_ok());
            phrases.map(|phrase| query.sensitivity.folded(phrase, query.language).into_owned()).collect()
        };
        Check {
            query,
            missing: folded(&query.phrases),
            negated_phrases: folded(&query.negated_phrases),
            has_term: query.exact_terms.is_empty(),
            refuted: false,
        }
    }

    fn add_text(&mut self, text: &Text<'_>) {
        if self.refuted {
            return;
        }
        let query = self.query;
        if !self.has_term || !query.negated_terms.is_empty() {
            for term in terms(text.text, text.language, query.sensitivity) {
                self.has_term |= query.exact_terms.binary_search(&term).is_ok();
                self.refuted |= query.negated_terms.binary_search(&term).is_ok();
            }
        }
        if !self.missing.is_empty() || !self.negated_phrases.is_empty() {
            let folded = query.sensitivity.folded(text.text, text.language);
            let has = |phrase: &String| stop::tick_for(folded.len()).is_ok() && folded.contains(phrase.as_str());
            self.missing.retain(|phrase| !has(phrase));
            self.refuted |= self.negated_phrases.iter().any(has);
        }
    }

    fn holds(&self) -> bool {
        self.has_term && !self.refuted && self.missing.is_empty()
    }
}
