//! Tables of documents, updates and results; errors by code and text.

mod documents;
mod operators;

use arbor_bson::DocBuf;

use super::Update;
use crate::{
    Context, Result,
    notation::{doc, show, value},
};

const NOW: i64 = 1_700_000_000_123;

fn parse(update: &str) -> Result<Update> {
    parse_with(update, &[])
}

fn parse_with(update: &str, filters: &[&str]) -> Result<Update> {
    let filters: Vec<DocBuf> = filters.iter().map(|filter| doc(filter)).collect();
    let filters: Vec<_> = filters.iter().map(|filter| filter.as_doc()).collect();
    Update::parse(value(update).as_ref(), &filters, &Context::new(NOW))
}

/// "same" when the update changes nothing.
fn outcome(result: Result<Option<DocBuf>>) -> String {
    match result {
        Ok(Some(new)) => show((&new).into()),
        Ok(None) => "same".to_owned(),
        Err(error) => format!("{}: {}", error.code.0, error.message),
    }
}

fn canonical(text: &str) -> String {
    match text.starts_with('{') {
        true => show(value(text).as_ref()),
        false => text.to_owned(),
    }
}

fn check(old: &str, update: &str, expect: &str) {
    let result = parse(update).and_then(|update| update.apply(doc(old).as_doc(), None));
    assert_eq!(outcome(result), canonical(expect), "{old} {update}");
}

fn check_all(rows: &[(&str, &str, &str)]) {
    rows.iter().for_each(|(old, update, expect)| check(old, update, expect));
}

/// The error of parsing or applying begins with this.
fn check_error(old: &str, update: &str, expect: &str) {
    let result = parse(update).and_then(|update| update.apply(doc(old).as_doc(), None));
    let outcome = outcome(result);
    assert!(outcome.starts_with(expect), "{old} {update}\n got {outcome}\nwant {expect}");
}
