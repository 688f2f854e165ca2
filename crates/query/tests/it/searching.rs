//! `$text`: the index finds what a scan of all documents finds, with the same scores. A failure prints its seed.

use crate::support;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::{Rig, array, doc, ids, rig};
use arbor_bson::{ArrayBuf, DocBuf, Value, ValueRef};
use arbor_lang::Code;
use arbor_lang::text_search::{Language, TextFields, TextMatcher, TextPredicate, Weight};
use arbor_query::{BatchLimit, FindSpec, Interrupt, UpdateStatement};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const WORDS: &[&str] =
    &["coffee", "Coffees", "shop", "shopping", "the", "café", "running", "runs", "tea", "Tea", "and", "cake-shop"];
const SEARCHES: &[&str] = &[
    "coffee",
    "coffee tea",
    "shop -tea",
    "\"coffee shop\"",
    "\"the tea\" cake",
    "run -\"tea and\"",
    "CAFE",
    "the",
    "-tea",
    "cake-shop",
    "tea -shop -coffee",
];

fn text_index(rig: &Rig, fields: &[(&str, Value)], options: DocBuf) {
    let key: DocBuf = fields.iter().map(|(name, value)| (*name, value)).collect();
    let mut spec = DocBuf::new().with("key", &key).with("name", "text");
    for (name, value) in options.as_doc() {
        spec.append(name, value);
    }
    rig.database.store.create_indexes(&rig.ns, &[spec]).unwrap();
}

fn text() -> Value {
    Value::String("text".into())
}

fn search(operand: &DocBuf) -> DocBuf {
    doc("$text", operand)
}

fn score() -> DocBuf {
    doc("score", &doc("$meta", "textScore"))
}

const SEEDS: u64 = 24;

struct Random(StdRng);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0.random_range(0..count)
    }

    fn sentence(&mut self) -> String {
        (0..self.below(7)).map(|_| WORDS[self.below(WORDS.len())]).collect::<Vec<_>>().join(" ")
    }

    fn document(&mut self, id: usize) -> DocBuf {
        let mut inner = doc("c", self.sentence().as_str());
        if let Some(language) = ["english", "none", "french"].get(self.below(6)) {
            inner.append("language", *language);
        }
        let list: Vec<String> = (0..self.below(3)).map(|_| self.sentence()).collect();
        DocBuf::new()
            .with("_id", id as i32)
            .with("a", self.sentence().as_str())
            .with("b", &inner)
            .with("list", &array(&list))
            .with("kind", self.below(3) as i32)
    }
}

/// Scores by `_id`, from a scan of all documents.
fn expected(
    docs: &[DocBuf],
    fields: &Arc<TextFields>,
    operand: &DocBuf,
    kind: Option<i32>,
) -> BTreeMap<String, String> {
    let matcher = TextMatcher::new(fields.clone(), &TextPredicate::parse(operand.into()).unwrap());
    let scored = docs.iter().filter_map(|doc| {
        let kind_matches = kind.is_none_or(|kind| matches!(doc.get("kind"), Some(ValueRef::Int32(own)) if own == kind));
        let score = matcher.score(doc.as_doc()).unwrap().filter(|_| kind_matches)?;
        Some((doc.get("_id").unwrap().to_string(), format!("{score:.9}")))
    });
    scored.collect()
}

fn found(rig: &Rig, filter: &DocBuf) -> BTreeMap<String, String> {
    let shown = score();
    let spec = FindSpec { projection: Some(shown.as_doc()), ..rig.find_spec(filter) };
    let docs = rig.run_in_batches(&spec, 2);
    let scored = docs.iter().map(|doc| match doc.get("score") {
        Some(ValueRef::Double(score)) => (doc.get("_id").unwrap().to_string(), format!("{score:.9}")),
        other => panic!("{other:?}"),
    });
    scored.collect()
}

#[test]
fn the_index_finds_what_every_document_says() {
    for seed in 0..SEEDS {
        println!("seed {seed}");
        agrees(&mut Random(StdRng::seed_from_u64(seed)));
    }
}

fn agrees(random: &mut Random) {
    let rig = rig();
    let (wildcard, prefixed) = (random.below(2) == 0, random.below(2) == 0);
    let paths: &[(&str, f64)] = if wildcard { &[("$**", 1.0)] } else { &[("a", 3.0), ("b.c", 1.0), ("list", 1.0)] };
    let mut key: Vec<(&str, Value)> = paths.iter().map(|(path, _)| (*path, text())).collect();
    if prefixed {
        key.insert(0, ("kind", Value::Int32(-1)));
    }
    let options = if wildcard { DocBuf::new() } else { doc("weights", &doc("a", 3i32)) };
    let mut docs: Vec<DocBuf> = (0..2 + random.below(28)).map(|id| random.document(id)).collect();
    let half = docs.len() / 2;
    rig.fill(&docs[..half]);
    text_index(&rig, &key, options);
    rig.fill(&docs[half..]);
    for _ in 0..4 {
        let at = random.below(docs.len());
        let (query, new) = (doc("_id", at as i32), random.document(at));
        rig.update(UpdateStatement::new(query.as_doc(), ValueRef::from(&new)));
        docs[at] = new;
    }
    docs.pop();
    rig.delete(&doc("_id", docs.len() as i32), false);
    rig.check_valid();
    let weights = paths.iter().map(|(path, weight)| Weight { path: (*path).to_owned(), weight: *weight }).collect();
    let fields = Arc::new(TextFields::new(weights, Language::of_name("english").unwrap(), "language"));
    let (case, accents) = (random.below(2) == 0, random.below(2) == 0);
    for text in SEARCHES {
        let operand =
            DocBuf::new().with("$search", *text).with("$caseSensitive", case).with("$diacriticSensitive", accents);
        let mut filter = search(&operand);
        if prefixed {
            filter.append("kind", 1i32);
        }
        let expected = expected(&docs, &fields, &operand, prefixed.then_some(1));
        assert_eq!(found(&rig, &filter), expected, "{text} {case} {accents}");
        assert_eq!(rig.count(&filter), expected.len() as u64);
    }
}

fn blog() -> Rig {
    let rig = rig();
    let posts = [
        ("Coffee at home", "how to brew coffee and drink coffee", "food"),
        ("Tea", "green tea", "food"),
        ("A shop", "coffee shop next to the tea house", "places"),
        ("Cycling", "on the road", "sport"),
    ];
    let posts: Vec<DocBuf> = posts
        .iter()
        .enumerate()
        .map(|(id, (title, body, tag))| {
            DocBuf::new().with("_id", id as i32).with("title", *title).with("body", *body).with("tag", *tag)
        })
        .collect();
    rig.fill(&posts);
    text_index(&rig, &[("title", text()), ("body", text())], doc("weights", &doc("title", 10i32)));
    rig
}

fn sorted_ids(rig: &Rig, text: &str, limit: Option<u64>) -> Vec<String> {
    let (filter, sort) = (search(&doc("$search", text)), score());
    let spec = FindSpec { sort: Some(sort.as_doc()), limit, ..rig.find_spec(&filter) };
    ids(&rig.run(&spec))
}

#[test]
fn the_best_come_first() {
    let rig = blog();
    assert_eq!(sorted_ids(&rig, "coffee tea", None), ["1", "0", "2"]);
    assert_eq!(sorted_ids(&rig, "coffee tea", Some(2)), ["1", "0"]);
    assert_eq!(sorted_ids(&rig, "coffee -shop", None), ["0"]);
    let filter = search(&doc("$search", "coffee tea")).with("tag", "food");
    assert_eq!(rig.count(&filter), 2);
}

#[test]
fn a_sort_by_score_goes_to_disk() {
    let mut rig = blog();
    rig.database.settings.sort_bytes_max = 100;
    assert_eq!(sorted_ids(&rig, "coffee tea", None), ["1", "0", "2"]);
    let stages =
        [doc("$match", &search(&doc("$search", "coffee tea"))), doc("$sort", &score()), doc("$project", &score())];
    assert!(rig.aggregate(&stages)[0].starts_with("{ _id: 1, score: 11.75"), "{:?}", rig.aggregate(&stages));
}

#[test]
fn pipelines_read_the_score() {
    let rig = blog();
    let first = doc("$match", &search(&doc("$search", "coffee")));
    let by_tag = doc("$group", &doc("_id", "$tag").with("best", &doc("$max", &doc("$meta", "textScore"))));
    assert_eq!(rig.aggregate(&[first.clone(), by_tag, doc("$sort", &doc("_id", 1i32))]).len(), 2);
    let compared = array([&Value::Document(doc("$meta", "textScore")), &Value::Int32(3)]);
    let above = doc("$match", &doc("$expr", &doc("$gt", &compared)));
    assert_eq!(rig.aggregate(&[first.clone(), above]).len(), 1);
    let code = |stages: &[DocBuf]| match rig.try_aggregate(stages) {
        Err(error) => error.to_string(),
        Ok(docs) => format!("{docs:?}"),
    };
    let late = code(&[doc("$limit", 1i32), first.clone()]);
    assert!(late.contains("only allowed as the first pipeline stage"), "{late}");
    let unknown = code(&[doc("$addFields", &score())]);
    assert!(unknown.contains("textscore metadata") || unknown.contains("text score metadata"), "{unknown}");
    let forgotten = code(&[first, doc("$group", &doc("_id", "$tag")), doc("$addFields", &score())]);
    assert!(forgotten.contains("text score metadata"), "{forgotten}");
}

#[test]
fn what_cannot_be_searched_is_an_error() {
    let rig = blog();
    let code = |filter: &DocBuf| match arbor_query::find(&rig.scope(), &rig.find_spec(filter), &Interrupt::never()) {
        Ok(mut cursor) => cursor.next_batch(BatchLimit::more(), &Interrupt::never()).map(drop),
        Err(error) => Err(error),
    };
    let own = search(&doc("$search", "coffee"));
    let or = |other: DocBuf| doc("$or", &[own.clone(), other].iter().collect::<ArrayBuf>());
    let error = code(&or(doc("tag", "sport"))).unwrap_err().to_string();
    assert!(error.contains("TEXT under OR"), "{error}");
    assert_eq!(ids(&rig.find(&or(doc("_id", 3i32)))), ["0", "2", "3"]);
    rig.index("tag");
    assert_eq!(ids(&rig.find(&or(doc("tag", "sport")))), ["0", "2", "3"]);
    let plain = support::rig();
    plain.fill(&[doc("_id", 1i32)]);
    let error = arbor_query::find(&plain.scope(), &plain.find_spec(&own), &Interrupt::never()).err().unwrap();
    assert!(matches!(&error, arbor_query::Error::Lang(error) if error.code == Code::INDEX_NOT_FOUND), "{error}");
    text_index(&plain, &[("p", Value::Int32(1)), ("a", text())], DocBuf::new());
    let error = arbor_query::find(&plain.scope(), &plain.find_spec(&own), &Interrupt::never()).err().unwrap();
    assert!(error.to_string().contains("equality predicates given for all prefix fields"), "{error}");
}

#[test]
fn a_search_of_very_many_words() {
    let rig = blog();
    let words: String = (0..4_000).map(|n| format!("w{n} ")).collect();
    assert_eq!(sorted_ids(&rig, &format!("{words} coffee tea"), None), ["1", "0", "2"]);
    let many: String = (0..2_000).map(|n| format!("w{n} ")).collect();
    rig.fill(&[DocBuf::new().with("_id", 9i32).with("body", many.as_str())]);
    assert_eq!(sorted_ids(&rig, "w1999", None), ["9"]);
    rig.check_valid();
}

#[test]
fn the_plan_is_shown() {
    let rig = blog();
    let filter = search(&doc("$search", "coffee -shop \"brew coffee\"")).with("tag", "food");
    let plan = rig.explain(rig.find_spec(&filter)).as_doc().to_string();
    for part in [
        "stage: \"TEXT_MATCH\"",
        "indexName: \"text\"",
        "terms: [ \"brew\", \"coffe\" ]",
        "negatedTerms: [ \"shop\" ]",
        "phrases: [ \"brew coffee\" ]",
        "stage: \"FETCH\"",
        "stage: \"IXSCAN\"",
        "keyPattern: { _fts: \"text\", _ftsx: 1 }",
    ] {
        assert!(plan.contains(part), "{part} in {plan}");
    }
    let sort = score();
    let scored = rig.explain(FindSpec { sort: Some(sort.as_doc()), ..rig.find_spec(&filter) }).as_doc().to_string();
    assert!(
        scored.contains("TEXT_OR") && scored.contains("sortPattern: { score: { $meta: \"textScore\" } }"),
        "{scored}"
    );
}
