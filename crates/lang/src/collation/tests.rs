use std::cmp::Ordering::{self, Equal, Greater, Less};

use proptest::prelude::*;

use super::Collation;
use crate::notation::{doc, show, value};
use crate::stage::GroupState;
use crate::{Context, Expression, Filter, SortPattern, Stage, Update};

fn collation(text: &str) -> Collation {
    Collation::parse(doc(text).as_doc()).unwrap()
}

fn check(collation_doc: &str, a: &str, b: &str, expect: Ordering) {
    let collation = collation(collation_doc);
    let (a, b) = (value(a), value(b));
    let (a, b) = (a.as_ref(), b.as_ref());
    assert_eq!(collation.compare(a, b), expect, "{collation_doc} {a:?} {b:?}");
    assert_eq!(collation.compare(b, a), expect.reverse(), "{collation_doc} {b:?} {a:?}");
    assert_eq!(collation.key_of(a).bytes.cmp(&collation.key_of(b).bytes), expect, "keys: {collation_doc} {a:?} {b:?}");
    let (inside_a, inside_b) = (collation.index_value(a), collation.index_value(b));
    assert_eq!(inside_a.compare(&inside_b), expect, "values: {collation_doc} {a:?} {b:?}");
    assert_eq!(arbor_bson::keystring::key_of(inside_a.as_ref()).bytes, collation.key_of(a).bytes);
}

/// Long strings are compared by their keys, in parts.
#[test]
fn long_strings_order_as_short_ones() {
    let long = "ab c ".repeat(40_000);
    let joined = |first: &str, last: &str| format!("{first}{long}{last}");
    for (options, a, b, expect) in [
        ("{locale: 'en'}", joined("", ""), joined("", ""), Equal),
        ("{locale: 'en'}", joined("a", ""), joined("B", ""), Less),
        ("{locale: 'en'}", joined("A", ""), joined("a", ""), Greater),
        ("{locale: 'en'}", joined("A", "a"), joined("a", "b"), Less),
        ("{locale: 'en'}", joined("", "z"), joined("", "y"), Greater),
        ("{locale: 'en', strength: 2}", joined("A", ""), joined("a", ""), Equal),
        ("{locale: 'en'}", joined("", "e\u{301}"), joined("", "\u{e9}"), Equal),
        ("{locale: 'en'}", joined("", ""), joined("", "x"), Less),
    ] {
        let collation = collation(options);
        assert_eq!(collation.compare_str(&a, &b), expect, "{options}");
        assert_eq!(collation.sort_key(&a).cmp(&collation.sort_key(&b)), expect, "keys: {options}");
    }
}

#[test]
fn a_long_key_stops_with_its_statement() {
    let collation = collation("{locale: 'en'}");
    let long = "ab c ".repeat(1_000_000);
    let stopped = || crate::stop::stoppable(|| Err(crate::Error::bad_value("enough")), || collation.sort_key(&long));
    assert!(stopped().len() < long.len() / 4);
}

#[test]
fn orders() {
    for (options, a, b, expect) in [
        ("{locale: 'simple'}", "'a'", "'B'", Greater),
        ("{locale: 'en'}", "'a'", "'B'", Less),
        ("{locale: 'en'}", "'a'", "'A'", Less),
        ("{locale: 'en', caseFirst: 'upper'}", "'a'", "'A'", Greater),
        ("{locale: 'en', strength: 1}", "'resume'", "'R\u{e9}sum\u{e9}'", Equal),
        ("{locale: 'en', strength: 2}", "'resume'", "'r\u{e9}sum\u{e9}'", Less),
        ("{locale: 'en', strength: 2}", "'resume'", "'RESUME'", Equal),
        ("{locale: 'en', strength: 1, caseLevel: true}", "'resume'", "'RESUME'", Less),
        ("{locale: 'en', strength: 1, caseLevel: true}", "'resume'", "'r\u{e9}sum\u{e9}'", Equal),
        ("{locale: 'en', strength: 3}", "'\u{2460}'", "'1'", Greater),
        ("{locale: 'en', strength: 2}", "'\u{2460}'", "'1'", Equal),
        ("{locale: 'en', numericOrdering: true}", "'file10'", "'file9'", Greater),
        ("{locale: 'en'}", "'file10'", "'file9'", Less),
        ("{locale: 'en'}", "'a b'", "'ab'", Less),
        ("{locale: 'en', alternate: 'shifted'}", "'a-b'", "'ab'", Equal),
        ("{locale: 'en', alternate: 'shifted', strength: 4}", "'a-b'", "'ab'", Less),
        ("{locale: 'en', alternate: 'shifted', maxVariable: 'space'}", "'a-b'", "'ab'", Less),
        ("{locale: 'en', alternate: 'shifted', maxVariable: 'space'}", "'a b'", "'ab'", Equal),
        ("{locale: 'en', strength: 4}", "'\u{e9}'", "'e\u{301}'", Equal),
        ("{locale: 'en', strength: 5}", "'\u{e9}'", "'e\u{301}'", Equal),
        ("{locale: 'en', strength: 3}", "'a\u{1}'", "'a'", Equal),
        ("{locale: 'en', strength: 5}", "'a\u{1}'", "'a'", Greater),
        // accents from the left, and from the right
        ("{locale: 'fr'}", "'cot\u{e9}'", "'c\u{f4}te'", Less),
        ("{locale: 'fr', backwards: true}", "'cot\u{e9}'", "'c\u{f4}te'", Greater),
        ("{locale: 'fr_CA'}", "'cot\u{e9}'", "'c\u{f4}te'", Greater),
        ("{locale: 'fr_CA', backwards: false}", "'cot\u{e9}'", "'c\u{f4}te'", Less),
        // languages
        ("{locale: 'sv'}", "'\u{e4}'", "'z'", Greater),
        ("{locale: 'de'}", "'\u{e4}'", "'z'", Less),
        ("{locale: 'de'}", "'\u{e4}'", "'af'", Less),
        ("{locale: 'de@collation=phonebook'}", "'\u{e4}'", "'ad'", Greater),
        ("{locale: 'de@collation=phonebook'}", "'\u{e4}'", "'af'", Less),
        ("{locale: 'es'}", "'\u{f1}'", "'nz'", Greater),
        ("{locale: 'da'}", "'A'", "'a'", Less),
        ("{locale: 'cs'}", "'ch'", "'h'", Greater),
        ("{locale: 'nb'}", "'\u{e5}'", "'z'", Greater),
        // inside documents and arrays, but no names of fields and no other types
        ("{locale: 'en', strength: 2}", "{a: 'X'}", "{a: 'x'}", Equal),
        ("{locale: 'en', strength: 2}", "{A: 'x'}", "{a: 'x'}", Less),
        ("{locale: 'en', strength: 2}", "['b', {a: ['X']}]", "['B', {a: ['x']}]", Equal),
        ("{locale: 'en', strength: 2}", "/A/", "/a/", Less),
        ("{locale: 'en', strength: 2}", "1", "1.0", Equal),
        ("{locale: 'en', strength: 2}", "9", "'1'", Less),
        ("{locale: 'en'}", "''", "'a'", Less),
    ] {
        check(options, a, b, expect);
    }
}

#[test]
fn shown_with_defaults() {
    for (options, expect) in [
        (
            "{locale: 'en', strength: 2}",
            "{ locale: \"en\", caseLevel: false, caseFirst: \"off\", strength: 2, numericOrdering: false, \
             alternate: \"non-ignorable\", maxVariable: \"punct\", normalization: false, backwards: false, \
             version: \"57.1\" }",
        ),
        (
            "{locale: 'fr_CA'}",
            "{ locale: \"fr_CA\", caseLevel: false, caseFirst: \"off\", strength: 3, numericOrdering: false, \
             alternate: \"non-ignorable\", maxVariable: \"punct\", normalization: false, backwards: true, \
             version: \"57.1\" }",
        ),
        ("{locale: 'simple'}", "{ locale: \"simple\" }"),
        ("{locale: 'simple', strength: 2, numericOrdering: null}", "{ locale: \"simple\" }"),
    ] {
        let collation = collation(options);
        let shown = collation.to_doc();
        assert_eq!(show((&shown).into()), expect);
        assert_eq!(Collation::parse(shown.as_doc()).unwrap(), collation);
    }
    let shown = |text: &str, field: &str| show(collation(text).to_doc().get(field).unwrap());
    assert_eq!(shown("{locale: 'da'}", "caseFirst"), "\"upper\"");
    assert_eq!(shown("{locale: 'th'}", "alternate"), "\"shifted\"");
    assert_eq!(shown("{locale: 'en', strength: 1.0}", "strength"), "1");
}

#[test]
fn shown_as_hex() {
    let collation = collation("{locale: 'en', strength: 2}");
    let shown = |text: &str| show(collation.shown(&collation.index_value(value(text).as_ref())).as_ref());
    assert_eq!(shown("'Arbor'"), format!("\"0x{KEY_EN}\""));
    assert_eq!(shown("[1, {a: 'arbor'}]"), format!("[1, {{ a: \"0x{KEY_EN}\" }}]"));
}

#[test]
fn equal_collations() {
    let en = collation("{locale: 'en'}");
    assert_eq!(en, collation("{locale: 'en', strength: 3, backwards: false}"));
    assert_ne!(en, collation("{locale: 'en', strength: 2}"));
    assert_ne!(en, collation("{locale: 'en_US'}"));
    assert_ne!(en, Collation::simple());
}

#[test]
fn errors() {
    for (options, code, message) in [
        ("{}", 40414, "BSON field 'collation.locale' is missing but a required field"),
        ("{locale: 'en', x: 1}", 40415, "BSON field 'collation.x' is an unknown field."),
        ("{locale: 7}", 14, "BSON field 'collation.locale' is the wrong type 'int', expected type 'string'"),
        ("{locale: 'xx'}", 2, "Field 'locale' is invalid in: { locale: \"xx\" }"),
        ("{locale: ''}", 2, "Field 'locale' is invalid in: { locale: \"\" }"),
        ("{locale: 'en-US'}", 2, "Field 'locale' is invalid in: { locale: \"en-US\" }. Did you mean 'en_US'?"),
        ("{locale: 'en@collation=x'}", 2, "Field 'locale' is invalid in: { locale: \"en@collation=x\" }"),
        (
            "{locale: 'en', strength: 6}",
            2,
            "Enumeration value '6' for field 'collation.strength' is not a valid value.",
        ),
        (
            "{locale: 'en', caseFirst: 'x'}",
            2,
            "Enumeration value 'x' for field 'collation.caseFirst' is not a valid value.",
        ),
        (
            "{locale: 'en', alternate: 'x'}",
            2,
            "Enumeration value 'x' for field 'collation.alternate' is not a valid value.",
        ),
        ("{locale: 'en', backwards: true, strength: 1}", 2, "'backwards' is invalid with 'strength' of 1"),
        (
            "{locale: 'en', caseFirst: 'upper', strength: 2}",
            2,
            "'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2",
        ),
        (
            "{locale: 'en', version: '1'}",
            161,
            "Requested collation version 1 but the only available collator version was 57.1",
        ),
    ] {
        let error = Collation::parse(doc(options).as_doc()).unwrap_err();
        assert_eq!((error.code.0, error.message.as_str()), (code, message), "{options}");
    }
}

/// Keys are stored in indexes on disk. If this fails after an update of `icu_collator`, indexes built before are wrong: such an
/// update needs a version of the keys and a rebuild.
#[test]
fn keys_stay_what_they_are() {
    let key = |options: &str, text: &str| -> String {
        collation(options).sort_key(text).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    assert_eq!(key("{locale: 'en', strength: 2}", "Arbor"), KEY_EN);
}

const KEY_EN: &str = "2b4d2d474d0109";

/// A statement with a case-insensitive collation.
fn caseless() -> Context {
    Context { collation: collation("{locale: 'en', strength: 2}"), ..Context::new(0) }
}

#[test]
fn filters() {
    for (filter, document, expect) in [
        ("{a: 'X'}", "{a: 'x'}", true),
        ("{a: {$ne: 'X'}}", "{a: 'x'}", false),
        ("{a: {$in: ['Y', 'X']}}", "{a: 'x'}", true),
        ("{a: {$nin: ['X', 1]}}", "{a: 'x'}", false),
        ("{a: {$gt: 'B'}}", "{a: 'b'}", false),
        ("{a: {$gte: 'B'}}", "{a: 'b'}", true),
        ("{a: {$lt: 'C'}}", "{a: 'b'}", true),
        ("{a: {$all: ['X', 'Y']}}", "{a: ['y', 'x']}", true),
        ("{a: {$elemMatch: {$eq: 'X'}}}", "{a: ['x']}", true),
        ("{a: {$elemMatch: {b: 'X'}}}", "{a: [{b: 'x'}]}", true),
        ("{'a.b': 'X'}", "{a: [{b: 'x'}]}", true),
        ("{a: {b: 'X'}}", "{a: {b: 'x'}}", true),
        ("{a: {B: 'x'}}", "{a: {b: 'x'}}", false),
        ("{$or: [{a: 'X'}, {a: 'Y'}]}", "{a: 'y'}", true),
        ("{$expr: {$eq: ['$a', 'X']}}", "{a: 'x'}", true),
        ("{a: /X/}", "{a: 'x'}", false),
        ("{a: {$in: [/X/]}}", "{a: 'x'}", false),
        ("{$jsonSchema: {properties: {a: {enum: ['X']}}}}", "{a: 'x'}", false),
    ] {
        let filter_doc = doc(filter);
        let parsed = Filter::parse(filter_doc.as_doc(), &caseless()).unwrap();
        assert_eq!(parsed.matches(doc(document).as_doc()).unwrap(), expect, "{filter} {document}");
    }
}

#[test]
fn expressions() {
    for (expression, expect) in [
        ("{$eq: ['x', 'X']}", "true"),
        ("{$ne: [{a: 'x'}, {a: 'X'}]}", "false"),
        ("{$cmp: ['a', 'B']}", "-1"),
        ("{$lt: ['a', 'B']}", "true"),
        ("{$gte: ['a', 'A']}", "true"),
        ("{$in: ['X', ['x']]}", "true"),
        ("{$indexOfArray: [['y', 'x'], 'X']}", "1"),
        ("{$setEquals: [['x', 'Y'], ['y', 'X']]}", "true"),
        ("{$setUnion: [['x'], ['X']]}", "[\"x\"]"),
        ("{$setIntersection: [['x', 'y'], ['X']]}", "[\"x\"]"),
        ("{$setDifference: [['x', 'y'], ['X']]}", "[\"y\"]"),
        ("{$setIsSubset: [['x'], ['X', 'y']]}", "true"),
        ("{$max: ['a', 'B']}", "\"B\""),
        ("{$min: ['a', 'B']}", "\"a\""),
        ("{$maxN: {n: 1, input: ['a', 'B']}}", "[\"B\"]"),
        ("{$minN: {n: 1, input: ['b', 'A']}}", "[\"A\"]"),
        ("{$sortArray: {input: ['b', 'A', 'a'], sortBy: 1}}", "[\"A\", \"a\", \"b\"]"),
        ("{$sortArray: {input: [{k: 'b'}, {k: 'A'}], sortBy: {k: 1}}}", "[{ k: \"A\" }, { k: \"b\" }]"),
        ("{$switch: {branches: [{case: {$eq: ['x', 'X']}, then: 1}], default: 2}}", "1"),
        // these compare characters
        ("{$indexOfCP: ['ax', 'X']}", "-1"),
        ("{$regexMatch: {input: 'x', regex: 'X'}}", "false"),
    ] {
        let parsed = Expression::parse(value(expression).as_ref(), &caseless()).unwrap();
        let result = parsed.eval(arbor_bson::Doc::empty()).unwrap().unwrap();
        assert_eq!(show(result.as_ref()), expect, "{expression}");
    }
}

#[test]
fn updates() {
    for (old, update, filters, expect) in [
        ("{a: ['x', 'Y']}", "{$pull: {a: 'X'}}", "", "{ a: [\"Y\"] }"),
        ("{a: ['x', 'Y']}", "{$pull: {a: {$in: ['X', 'y']}}}", "", "{ a: [] }"),
        ("{a: [{b: 'x'}]}", "{$pull: {a: {b: 'X'}}}", "", "{ a: [] }"),
        ("{a: ['x', 'Y']}", "{$pullAll: {a: ['X']}}", "", "{ a: [\"Y\"] }"),
        ("{a: ['x']}", "{$addToSet: {a: 'X'}}", "", "unchanged"),
        ("{a: []}", "{$addToSet: {a: {$each: ['x', 'X', 'y']}}}", "", "{ a: [\"x\", \"y\"] }"),
        ("{a: ['b', 'A']}", "{$push: {a: {$each: ['C'], $sort: 1}}}", "", "{ a: [\"A\", \"b\", \"C\"] }"),
        (
            "{a: [{k: 'B'}]}",
            "{$push: {a: {$each: [{k: 'a'}], $sort: {k: 1}}}}",
            "",
            "{ a: [{ k: \"a\" }, { k: \"B\" }] }",
        ),
        ("{a: 'a'}", "{$max: {a: 'B'}}", "", "{ a: \"B\" }"),
        ("{a: 'a'}", "{$max: {a: 'A'}}", "", "unchanged"),
        ("{a: 'B'}", "{$min: {a: 'a'}}", "", "{ a: \"a\" }"),
        ("{a: ['x', 'y']}", "{$set: {'a.$[e]': 'z'}}", "{e: 'X'}", "{ a: [\"z\", \"y\"] }"),
        ("{a: 'x'}", "{$set: {a: 'X'}}", "", "{ a: \"X\" }"),
    ] {
        let filters: Vec<_> = [filters].into_iter().filter(|text| !text.is_empty()).map(doc).collect();
        let filters: Vec<_> = filters.iter().map(|filter| filter.as_doc()).collect();
        let parsed = Update::parse(value(update).as_ref(), &filters, &caseless()).unwrap();
        let new = parsed.apply(doc(old).as_doc(), None).unwrap();
        let shown = new.map_or("unchanged".to_owned(), |new| show((&new).into()));
        assert_eq!(shown, expect, "{old} {update}");
    }
}

#[test]
fn groups_and_sorts() {
    let context = caseless();
    let documents = ["{k: 'x', v: 'a'}", "{k: 'Y', v: 'a'}", "{k: 'X', v: 'B'}", "{k: 'X', v: 'b'}"].map(doc);
    let spec = doc("{_id: '$k', set: {$addToSet: '$v'}, max: {$max: '$v'}, top: {$maxN: {n: 1, input: '$v'}}}");
    let stages = [&arbor_bson::DocBuf::new().with("$group", &spec)].into_iter().collect::<arbor_bson::ArrayBuf>();
    let parsed = Stage::parse_pipeline(stages.as_array(), &context).unwrap();
    let Some(Stage::Group(group)) = parsed.first() else { panic!("no $group") };
    let mut state = GroupState::new(group);
    documents.iter().for_each(|document| state.add(document.as_doc()).unwrap());
    let groups: Vec<String> = state.finish().unwrap().map(|found| show((&found).into())).collect();
    assert_eq!(
        groups,
        [
            "{ _id: \"x\", set: [\"a\", \"B\"], max: \"B\", top: [\"B\"] }",
            "{ _id: \"Y\", set: [\"a\"], max: \"a\", top: [\"a\"] }"
        ]
    );
    let pattern = SortPattern::parse(doc("{k: 1}").as_doc(), &context).unwrap();
    let (a, b, same) = (doc("{k: 'a'}"), doc("{k: ['C', 'B']}"), doc("{k: 'A'}"));
    let key = |doc: &arbor_bson::DocBuf| pattern.key(doc.as_doc()).unwrap();
    assert!(key(&a) < key(&b) && pattern.compare(a.as_doc(), b.as_doc()).is_lt());
    assert_eq!(key(&a), key(&same));
}

proptest! {
    /// L1, over letters, accents, digits, punctuation and whatever else there is.
    #[test]
    fn keys_order_as_comparisons_do(
        a in "[aAbB\u{e9}e\u{301}\u{e4}0-2 ._\u{0}\u{1}\u{4e2d}]{0,6}|\\PC{0,4}",
        b in "[aAbB\u{e9}e\u{301}\u{e4}0-2 ._\u{0}\u{1}\u{4e2d}]{0,6}|\\PC{0,4}",
        which in 0..10usize,
    ) {
        let options = [
            "{locale: 'en'}", "{locale: 'en', strength: 1}", "{locale: 'en', strength: 2}",
            "{locale: 'en', strength: 4, alternate: 'shifted'}", "{locale: 'en', strength: 5}",
            "{locale: 'fr_CA'}", "{locale: 'da'}", "{locale: 'en', strength: 1, caseLevel: true}",
            "{locale: 'en', numericOrdering: true}", "{locale: 'zh'}",
        ][which];
        let collation = collation(options);
        prop_assert_eq!(collation.compare_str(&a, &b), collation.sort_key(&a).cmp(&collation.sort_key(&b)));
    }
}
