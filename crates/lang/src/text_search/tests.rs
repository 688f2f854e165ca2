//! Tables of searches.

use std::sync::Arc;

use super::*;
use crate::notation::{doc, value};

fn fields(weights: &[(&str, f64)], language: &str) -> Arc<TextFields> {
    let weights = weights.iter().map(|(path, weight)| Weight { path: (*path).to_owned(), weight: *weight }).collect();
    Arc::new(TextFields::new(weights, Language::of_name(language).unwrap(), "language"))
}

fn score(fields: &Arc<TextFields>, operand: &str, document: &str) -> Option<f64> {
    let predicate = TextPredicate::parse(value(operand).as_ref()).unwrap();
    TextMatcher::new(fields.clone(), &predicate).score(doc(document).as_doc()).unwrap()
}

#[track_caller]
fn check(language: &str, operand: &str, text: &str, expect: bool) {
    let document = format!("{{a: '{text}'}}");
    assert_eq!(score(&fields(&[("a", 1.0)], language), operand, &document).is_some(), expect, "{operand} {text}");
}

#[test]
fn searches() {
    for (search, text, expect) in [
        ("coffee", "Coffee Shopping", true),
        ("shops", "Coffee shopping", true),
        ("the", "the coffee", false),
        ("tea", "coffee", false),
        ("tea coffee", "coffee", true),
        ("", "coffee", false),
        ("coffee -shop", "coffee shops", false),
        ("coffee -tea", "coffee shops", true),
        ("-coffee", "tea", false),
        ("pre-market", "the market", true),
        ("tea -pre-market", "market tea", true),
        ("tea -pre-market", "pre tea", false),
        ("\\\"coffee shop\\\"", "a Coffee Shop here", true),
        ("\\\"coffee shop\\\"", "shop for coffee", false),
        ("\\\"coffee shop\\\" cake", "cake", false),
        ("\\\"coffee shop\\\" \\\"ice cream\\\"", "coffee shop with ice cream", true),
        ("\\\"coffee shop\\\" \\\"ice cream\\\"", "coffee shop", false),
        ("coffee -\\\"coffee shop\\\"", "coffee and a shop", true),
        ("coffee -\\\"coffee shop\\\"", "the coffee shop", false),
        ("coffee \\\"", "coffee", true),
        ("\\\"the\\\"", "the", false),
        ("cafe", "Café", true),
        ("CAFÉ", "cafe", true),
    ] {
        check("english", &format!("{{$search: \"{search}\"}}"), text, expect);
    }
}

#[test]
fn case_and_accents_count_when_asked_for() {
    for (options, search, text, expect) in [
        ("$caseSensitive: true", "Coffee", "Coffee Shops", true),
        ("$caseSensitive: true", "Coffee", "coffee shops", false),
        ("$caseSensitive: true", "Shop", "Shopping", true),
        ("$caseSensitive: true", "cafe", "café", true),
        ("$diacriticSensitive: true", "cafe", "café", false),
        ("$diacriticSensitive: true", "CAFÉ", "café", true),
        ("$caseSensitive: true", "coffee -Shop", "coffee shop", true),
        ("$caseSensitive: true", "\\\"Coffee shop\\\"", "coffee shop", false),
        ("$diacriticSensitive: true", "\\\"cafe noir\\\"", "Café noir", false),
        ("$diacriticSensitive: false", "\\\"cafe noir\\\"", "Café noir", true),
    ] {
        check("english", &format!("{{$search: \"{search}\", {options}}}"), text, expect);
    }
}

#[test]
fn languages_of_search_and_document() {
    check("spanish", "{$search: 'corriendo'}", "correr", true);
    check("none", "{$search: 'shops'}", "shop", false);
    check("none", "{$search: 'the'}", "the", true);
    check("english", "{$search: 'the', $language: 'none'}", "the coffee", false);
    let every = fields(&[("$**", 1.0)], "english");
    let french = "{language: 'french', a: 'les chevaux continuellement', b: [{language: 'none', c: 'running'}]}";
    assert!(score(&every, "{$search: 'continuel', $language: 'fr'}", french).is_some());
    assert!(score(&every, "{$search: 'running', $language: 'none'}", french).is_some());
    assert!(score(&every, "{$search: 'french'}", french).is_none());
    for (document, code) in [("{language: 'klingon', a: 'x'}", 17262), ("{language: 1, a: 'x'}", 17261)] {
        assert_eq!(every.scores(doc(document).as_doc()).unwrap_err().code.0, code);
    }
}

#[test]
fn scores_follow_weight_share_and_repetition() {
    let own = fields(&[("a", 1.0), ("b.c", 10.0)], "english");
    for (search, document, expect) in [
        ("coffee", "{a: 'coffee'}", 1.1),
        ("coffee", "{a: 'coffee shop'}", 0.75),
        ("coffee", "{a: 'coffee coffee'}", 1.5),
        ("coffee shop", "{a: 'coffee shop'}", 1.5),
        ("coffee", "{b: {c: 'coffee shop'}}", 7.5),
        ("coffee", "{b: [{c: 'coffee shop'}, {c: ['coffee shop', 5]}]}", 15.0),
        ("coffee", "{a: ['coffee shop', 'the coffee shop'], b: 'coffee'}", 1.5),
    ] {
        let got = score(&own, &format!("{{$search: '{search}'}}"), document);
        assert!(got.is_some_and(|got| (got - expect).abs() < 1e-9), "{search} {document}: {got:?}");
    }
    let every = fields(&[("$**", 1.0), ("a", 3.0)], "english");
    let got = score(&every, "{$search: 'coffee'}", "{a: 'coffee shop', b: [['coffee shop']], c: {d: 'coffee shop'}}");
    assert_eq!(got, Some(0.75 * 5.0));
}

#[test]
fn bad_operands() {
    for (operand, code) in [
        ("1", 2),
        ("{}", 4),
        ("{$search: 1}", 14),
        ("{$search: 'x', $language: 'klingon'}", 2),
        ("{$search: 'x', $language: 1}", 14),
        ("{$search: 'x', $caseSensitive: 1}", 14),
        ("{$search: 'x', $what: 1}", 2),
    ] {
        assert_eq!(TextPredicate::parse(value(operand).as_ref()).unwrap_err().code.0, code, "{operand}");
    }
}

#[test]
fn long_words_and_long_searches_are_bounded() {
    let own = fields(&[("a", 1.0)], "english");
    let long = "x".repeat(1 << 20);
    let document = arbor_bson::DocBuf::new().with("a", long.as_str());
    let scores = own.scores(document.as_doc()).unwrap();
    assert!(scores.keys().all(|term| term.len() <= 256));
    let predicate = TextPredicate::parse(value(&format!("{{$search: '{long}'}}")).as_ref()).unwrap();
    assert!(TextMatcher::new(own, &predicate).score(document.as_doc()).unwrap().is_some());
}
