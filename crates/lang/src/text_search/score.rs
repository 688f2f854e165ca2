//! Relevance scores of the terms of a document.
//!
//! In one text with `n` terms, of which `c` are the term: its weight, times `1 + 1/2 + 1/4 + ..` over its occurrences, times
//! `1/2 + c / 2n`; a text that is one word alone counts 1.1 times as much. The scores of the texts of a document add up.

use arbor_bson::Doc;
use hashbrown::HashMap;

use super::delimiter::words;
use super::fields::{Text, TextFields};
use super::term::{Sensitivity, terms};
use crate::{Result, stop};

/// A text that is one word.
const WHOLE_TEXT: f64 = 1.1;

/// The terms of a document with their scores.
pub type TermScores = HashMap<String, f64>;

#[derive(Default)]
struct Occurrences {
    count: f64,
    /// Each one counts half of the one before.
    dampened: f64,
}

pub(super) fn of_document(fields: &TextFields, doc: Doc<'_>) -> Result<TermScores> {
    let mut scores = TermScores::new();
    fields.visit(doc, &mut |text| add(&text, &mut scores))?;
    stop::ended()?;
    Ok(scores)
}

fn add(text: &Text<'_>, scores: &mut TermScores) {
    let mut found: HashMap<String, Occurrences> = HashMap::new();
    let alone = words(text.text, text.language.apostrophe_ends_words()).eq([text.text]);
    let mut all = 0.0;
    for term in terms(text.text, text.language, Sensitivity::default()) {
        all += 1.0;
        let occurrences = found.entry(term).or_default();
        occurrences.dampened += 0.5f64.powf(occurrences.count);
        occurrences.count += 1.0;
    }
    for (term, Occurrences { count, dampened }) in found {
        let whole = if alone { WHOLE_TEXT } else { 1.0 };
        let share = 0.5 + 0.5 * count / all;
        *scores.entry(term).or_default() += text.weight * dampened * share * whole;
    }
}
