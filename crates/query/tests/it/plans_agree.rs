//! Metamorphic: whatever index a query uses, its result is that of the filter applied to every document.
//!
//! Random documents (few values, all kinds of nesting) and random filters; each filter runs without a hint, with each
//! index hinted and with a collection scan, unsorted and sorted. A failure prints its seed, filter and plan;
//! `ARBOR_SEEDS=1000` runs more seeds.

use std::collections::BTreeSet;

use arbor_bson::{ArrayBuf, DocBuf, Value, ValueRef};
use arbor_lang::path::{Leaf, Path};
use arbor_lang::{Collation, Context, Filter, SortPattern};
use arbor_query::{FindSpec, Hint, Interrupt, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::{Rig, array, doc, ids, rig, statement};

const INDEXES: &[&str] = &["a", "-a", "b", "a,b", "b,-a", "x,a.b", "a.b", "a.b,a.c", "-a.c,x", "a.0", "x,b,a", "-b,x"];
const SPARSE: &[&str] = &["c", "a.c, b"];
/// Hashed fields have `#`.
const HASHED: &[&str] = &["#a", "#b", "x,#a.b", "#c,x", "#x,b", "-x,#b"];
const CLUSTERING: &[&str] = &["a", "b,-x", "a.b", "-a.c,x", "x,b,a"];
const PARTIAL: &[&str] = &["a", "-b", "x,a.b", "c,a", "x", "a.b,a.c"];

/// Documents and indexes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Documents without arrays, so that no index is multikey.
    Plain,
    Arrays,
    Hashed,
    Clustering,
    /// Each index holds the documents of a random filter.
    Partial,
    /// An index over documents with arrays or without.
    Wildcard,
    /// Like `Wildcard`, with other fields.
    CompoundWildcard,
    /// Indexes, statements and collections of several collations, with arrays or without.
    Collated,
}
const COLLATED: &[&str] = &["a", "-b", "x,a.b", "c,a", "b,x", "a.b,a.c", "#x", "$**"];
/// With the projection.
const COMPOUND_WILDCARDS: &[(&str, &[(&str, i32)])] = &[
    ("x,a.$**", &[]),
    ("-x,a.b.$**,b", &[]),
    ("a.$**,-x", &[]),
    ("x,$**", &[("x", 0)]),
    ("$**,-b,x", &[("a", 1)]),
    ("b,-$**", &[("b", 0), ("x", 0)]),
];
const SORTS: &[&[(&str, i32)]] = &[
    &[],
    &[("a", 1)],
    &[("a", -1)],
    &[("a", 1), ("b", 1)],
    &[("b", -1), ("a", 1)],
    &[("b", 1), ("a", -1)],
    &[("a.b", 1)],
    &[("_id", -1)],
    &[("x", 1), ("b", 1), ("a", 1)],
];

struct Random(StdRng);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0.random_range(0..count)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn scalar(&mut self) -> Value {
        match self.below(14) {
            0..=4 => Value::Int32(self.below(5) as i32),
            5 => Value::Double(self.below(10) as f64 / 2.0),
            6 => Value::Int64(self.below(3) as i64),
            7 => Value::Null,
            8 => Value::String(self.pick(&["", "a", "ab", "b", "A", "\u{e1}", "AB", "B"]).to_owned()),
            9 => Value::Bool(self.below(2) == 0),
            10 => Value::Double(self.pick(&[f64::NAN, f64::INFINITY, -0.0])),
            11 => Value::DateTime(self.below(3) as i64),
            12 => Value::String("abc".to_owned()),
            _ => self.pick(&[&Value::MinKey, &Value::MaxKey]).clone(),
        }
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 6 } else { 10 }) {
            0..=5 => self.scalar(),
            6 | 7 => self.inner(depth - 1),
            _ => {
                let count = self.below(4);
                let mut array = ArrayBuf::new();
                for _ in 0..count {
                    array.push(&self.value(depth - 1));
                }
                Value::Array(array)
            }
        }
    }

    fn inner(&mut self, depth: usize) -> Value {
        let mut inner = DocBuf::new();
        for name in ["b", "c"] {
            if self.below(3) > 0 {
                inner.append(name, &self.value(depth));
            }
        }
        Value::Document(inner)
    }

    /// `plain`: without arrays, so that no index is multikey.
    fn document(&mut self, id: i32, plain: bool) -> DocBuf {
        let mut doc = doc("_id", id);
        for name in ["a", "b", "c", "x"] {
            if self.below(5) == 0 {
                continue;
            }
            let value = match name {
                "a" if plain && self.below(3) == 0 => {
                    let mut inner = DocBuf::new();
                    for name in ["b", "c"] {
                        if self.below(3) > 0 {
                            inner.append(name, &self.scalar());
                        }
                    }
                    Value::Document(inner)
                }
                "a" if !plain => self.value(2),
                "b" | "c" if !plain && self.below(4) == 0 => self.value(1),
                _ => self.scalar(),
            };
            doc.append(name, &value);
        }
        doc
    }

    fn collation(&mut self) -> Collation {
        let locale = |name: &str| doc("locale", name);
        let chosen = match self.below(7) {
            0 | 1 => locale("simple"),
            2..=4 => locale("en").with("strength", 2i32),
            5 => locale("en").with("strength", 1i32),
            _ => locale("da").with("numericOrdering", true),
        };
        Collation::parse(chosen.as_doc()).unwrap()
    }

    fn path(&mut self) -> &'static str {
        self.pick(&["a", "a", "b", "b", "c", "x", "a.b", "a.c", "a.b", "a.0", "_id"])
    }

    fn operators(&mut self) -> DocBuf {
        let mut operators = DocBuf::new();
        for _ in 0..1 + self.below(2) {
            match self.below(12) {
                0 => operators.append("$gt", &self.scalar()),
                1 => operators.append("$gte", &self.scalar()),
                2 => operators.append("$lt", &self.scalar()),
                3 => operators.append("$lte", &self.scalar()),
                4 => operators.append("$ne", &self.scalar()),
                5 => operators.append("$exists", self.below(2) == 0),
                6 => operators.append("$in", &self.list()),
                7 => operators.append("$nin", &self.list()),
                8 => operators.append("$regex", self.pick(&["^a", "b$", "^ab", ""])),
                9 => operators.append("$eq", &self.value(1)),
                10 => operators.append("$not", &doc("$gt", &self.scalar())),
                _ => operators.append("$type", self.pick(&["number", "string", "null", "array", "object"])),
            };
        }
        operators
    }

    fn list(&mut self) -> Value {
        let count = self.below(4);
        let mut array = ArrayBuf::new();
        for _ in 0..count {
            array.push(&self.scalar());
        }
        Value::Array(array)
    }

    fn condition(&mut self, depth: usize) -> DocBuf {
        match self.below(if depth == 0 { 6 } else { 10 }) {
            0 | 1 => doc(self.path(), &self.value(1)),
            2..=4 => doc(self.path(), &self.operators()),
            5 => {
                let inner = match self.below(2) {
                    0 => self.operators(),
                    _ => {
                        let mut fields = DocBuf::new();
                        fields.append("b", &self.operators());
                        if self.below(2) == 0 {
                            fields.append("c", &self.operators());
                        }
                        fields
                    }
                };
                doc(self.pick(&["a", "b"]), &doc("$elemMatch", &inner))
            }
            kind => {
                let mut list = ArrayBuf::new();
                for _ in 0..1 + self.below(3) {
                    list.push(&self.filter(depth - 1));
                }
                doc(["$or", "$or", "$and", "$nor"][kind - 6], &list)
            }
        }
    }

    fn filter(&mut self, depth: usize) -> DocBuf {
        let mut filter = DocBuf::new();
        for _ in 0..1 + self.below(3) {
            for (name, value) in self.condition(depth).as_doc() {
                if filter.get(name).is_none() {
                    filter.append(name, value);
                }
            }
        }
        filter
    }
}

/// A filter that a partial index may have.
fn partial_filter(random: &mut Random) -> DocBuf {
    let path = random.path();
    match random.below(8) {
        0 => doc(path, &random.scalar()),
        1 => doc(path, &doc("$exists", true)),
        2 => doc(path, &doc("$in", &random.list())),
        3 => doc(path, &doc("$type", "number")),
        4 => {
            let list: ArrayBuf = [partial_filter(random), partial_filter(random)].iter().collect();
            doc(random.pick(&["$and", "$or"]), &list)
        }
        _ => doc(path, &doc(random.pick(&["$gt", "$gte", "$lt", "$lte"]), &random.scalar())),
    }
}

/// Creates the indexes of a run; returns the names of those that hold all documents.
fn make_indexes(rig: &Rig, random: &mut Random, kind: Kind) -> Vec<&'static str> {
    let (fields, options): (&[&str], &[(&str, bool)]) = match kind {
        Kind::Plain | Kind::Arrays => (INDEXES, &[]),
        Kind::Hashed => (HASHED, &[]),
        Kind::Clustering => (CLUSTERING, &[("clustering", true)]),
        Kind::Partial => {
            for index in PARTIAL {
                rig.index_with(index, doc("partialFilterExpression", &partial_filter(random)));
            }
            return Vec::new();
        }
        Kind::Wildcard => {
            let scope = random.pick(&["$**", "-$**", "a.$**", "a.b.$**"]);
            let projections: &[&[(&str, i32)]] =
                &[&[("a", 1), ("_id", 1)], &[("a.b", 0)], &[("_id", 0)], &[("b", 1), ("a.c", 1)]];
            let projects = random.below(2) == 0 && !scope.starts_with('a');
            let fields: DocBuf = random.pick(projections).iter().copied().collect();
            let options = if projects { doc("wildcardProjection", &fields) } else { DocBuf::new() };
            rig.index_with(scope, options);
            return Vec::new();
        }
        Kind::CompoundWildcard => {
            let (index, fields): (&str, &[(&str, i32)]) = random.pick(COMPOUND_WILDCARDS);
            let fields: DocBuf = fields.iter().copied().collect();
            let options = if fields.as_doc().is_empty() { DocBuf::new() } else { doc("wildcardProjection", &fields) };
            rig.index_with(index, options);
            return Vec::new();
        }
        Kind::Collated => {
            for index in COLLATED {
                let mut options = doc("collation", &random.collation().to_doc());
                if random.below(4) == 0 && !index.contains(['#', '$']) {
                    options.append("partialFilterExpression", &partial_filter(random));
                }
                rig.index_with(index, options);
            }
            return Vec::new();
        }
    };
    fields.iter().for_each(|index| rig.index_with(index, options.iter().copied().collect()));
    let mut names = fields.to_vec();
    if matches!(kind, Kind::Plain | Kind::Arrays) {
        rig.index_with("a,_id", doc("unique", true));
        names.push("a,_id");
        SPARSE.iter().for_each(|index| rig.index_with(index, doc("sparse", true)));
    }
    if kind == Kind::Clustering {
        rig.index_with("b,_id", [("unique", true), ("clustering", true)].into_iter().collect());
        rig.index_with("c", [("sparse", true), ("clustering", true)].into_iter().collect());
        names.push("b,_id");
    }
    names
}

fn filled(random: &mut Random, kind: Kind) -> (Rig, Vec<DocBuf>, Vec<&'static str>) {
    let mut rig = rig();
    if kind == Kind::Collated {
        let default = random.collation();
        let options = if default.is_simple() { DocBuf::new() } else { doc("collation", &default.to_doc()) };
        rig.database.store.create_collection(&rig.ns, &options).unwrap();
    }
    let plain = matches!(kind, Kind::Plain | Kind::Hashed)
        || (matches!(kind, Kind::Partial | Kind::Wildcard | Kind::CompoundWildcard | Kind::Collated)
            && random.below(2) == 0);
    let count = 60;
    let indexes = make_indexes(&rig, random, kind);
    // parallel arrays and the like cannot be indexed
    (0..count).for_each(|id| drop(rig.insert(&[random.document(id, plain)])));
    for _ in 0..30 {
        let id = random.below(count as usize) as i32;
        let new = random.document(id, plain);
        rig.update(statement(&doc("_id", id), &new));
    }
    for _ in 0..10 {
        rig.delete(&doc("_id", random.below(count as usize) as i32), false);
    }
    let docs = rig.find(&DocBuf::new());
    if kind == Kind::Collated && random.below(3) > 0 {
        rig.collation = Some(random.collation());
    }
    assert!(docs.len() > 20, "{} documents", docs.len());
    (rig, docs, indexes)
}

fn check(rig: &Rig, docs: &[DocBuf], indexes: &[&str], filter: &DocBuf, sort: &[(&str, i32)], seed: u64) {
    let context = Context { collation: rig.effective_collation(), ..Context::new(0) };
    let Ok(parsed) = Filter::parse(filter.as_doc(), &context) else { return };
    let expected: BTreeSet<String> = docs
        .iter()
        .filter(|doc| parsed.matches(doc.as_doc()).unwrap())
        .map(|doc| doc.get("_id").unwrap().to_string())
        .collect();
    let sort_doc: DocBuf = sort.iter().copied().collect();
    let natural = doc("$natural", 1i32);
    let mut hints: Vec<Option<Hint<'_>>> = vec![None, Some(Hint::Pattern(natural.as_doc())), Some(Hint::Name("_id_"))];
    hints.extend(indexes.iter().map(|name| Some(Hint::Name(name))));
    for hint in hints {
        let mut spec = FindSpec { hint, ..rig.find_spec(filter) };
        spec.sort = (!sort.is_empty()).then(|| sort_doc.as_doc());
        let found = rig.run(&spec);
        assert_eq!(ids(&rig.run_in_batches(&spec, 7)), ids(&found), "batches: seed {seed}, filter {}", filter.as_doc());
        check_shown(rig, &spec, &found, seed);
        let explained = || {
            let plan = rig.explain(spec.clone());
            format!(
                "seed {seed}, filter {}, sort {}, hint {hint:?}\n{}",
                filter.as_doc(),
                sort_doc.as_doc(),
                plan.as_doc()
            )
        };
        let found_ids = ids(&found);
        let distinct: BTreeSet<String> = found_ids.iter().cloned().collect();
        assert_eq!(distinct.len(), found_ids.len(), "a document twice: {}", explained());
        let missing: Vec<_> = expected.difference(&distinct).collect();
        let extra: Vec<_> = distinct.difference(&expected).collect();
        let culprit = missing
            .first()
            .or(extra.first())
            .and_then(|id| docs.iter().find(|doc| doc.get("_id").unwrap().to_string() == **id));
        assert!(
            missing.is_empty() && extra.is_empty(),
            "missing {missing:?}, extra {extra:?}, {culprit:?}: {}",
            explained()
        );
        if !sort.is_empty() {
            let pattern = SortPattern::parse(sort_doc.as_doc(), &context).unwrap();
            let keys: Vec<Vec<u8>> = found.iter().map(|doc| pattern.key(doc.as_doc()).unwrap()).collect();
            assert!(keys.is_sorted(), "out of order {found:?}: {}", explained());
        }
    }
    assert_eq!(rig.count(filter), expected.len() as u64, "count: seed {seed}, filter {}", filter.as_doc());
}

/// Runs a filter and a sort that suit merged scans; returns true if the planner chose them.
fn check_merge(rig: &Rig, docs: &[DocBuf], indexes: &[&str], random: &mut Random, seed: u64) -> bool {
    let (before, after) = random.pick(&[("a", "b"), ("b", "a"), ("x", "a.b"), ("x", "b"), ("b", "x"), ("a.b", "a.c")]);
    let among = doc(before, &doc("$in", &random.list()));
    let filter = match random.below(4) {
        0 => doc("$or", &array([&among, &doc(before, &random.scalar())])),
        1 => doc("$or", &array([&among, &doc(before, &random.scalar()).with(after, &random.operators())])),
        2 => among.clone().with(random.pick(&["c", "_id", "a.0"]), &random.operators()),
        _ => among,
    };
    let direction = random.pick(&[1, -1]);
    check(rig, docs, indexes, &filter, &[(after, direction)], seed);
    let sort = doc(after, direction);
    let spec = FindSpec { sort: Some(sort.as_doc()), ..rig.find_spec(&filter) };
    Filter::parse(filter.as_doc(), &Context::new(0)).is_ok()
        && rig.explain(spec).as_doc().to_string().contains("SORT_MERGE")
}

/// A stage that a pipeline may have in any place.
fn random_stage(random: &mut Random) -> DocBuf {
    let path = random.pick(&["a", "b", "c", "x", "a.b", "a.c", "_id"]);
    match random.below(11) {
        0..=2 => doc("$match", &random.filter(1)),
        3 => doc("$addFields", &doc(path, random.pick(&["$b", "$x", "$a.c"]))),
        4 => doc("$project", &[(path, 1i32), ("x", 1)].into_iter().take(1 + random.below(2)).collect::<DocBuf>()),
        5 => doc("$project", &doc(random.pick(&["a.b", "c", "x"]), 0i32)),
        6 => doc("$unset", random.pick(&["a.b", "b", "x"])),
        7 => doc("$unwind", &doc("path", random.pick(&["$a", "$b", "$a.b"])).with("preserveNullAndEmptyArrays", true)),
        8 => {
            let fields = DocBuf::new().with("from", "c").with("localField", path).with("foreignField", "b");
            doc("$lookup", &fields.with("as", random.pick(&["found", "a", "x"])))
        }
        9 => doc("$sort", &doc(path, random.pick(&[1, -1]))),
        // fields that an index may cover
        _ => {
            let sum = doc("$sum", random.pick(&["$x", "$b", "$a"]));
            doc("$group", &DocBuf::new().with("_id", random.pick(&["$a", "$b"])).with("n", &sum))
        }
    }
}

/// A pipeline, by whatever plan, gives what its stages give one after the other to all documents.
fn check_pipeline(rig: &Rig, docs: &[DocBuf], random: &mut Random, seed: u64) {
    // documents that are given have no collection whose collation they follow
    if !rig.effective_collation().is_simple() {
        return;
    }
    let mut stages: Vec<DocBuf> = (0..1 + random.below(4)).map(|_| random_stage(random)).collect();
    if random.below(2) == 0 {
        // an order that leaves nothing open, then a limit
        stages.retain(|stage| stage.get("$sort").is_none());
        let sort = doc(random.pick(&["a", "b", "x"]), random.pick(&[1, -1])).with("_id", 1i32);
        stages.insert(0, doc("$sort", &sort));
        stages.push(doc("$limit", 1 + random.below(20) as i32));
    }
    let pipeline: ArrayBuf = stages.iter().collect();
    let shown = |found: Result<Vec<DocBuf>>| -> Option<Vec<String>> {
        // a group shows the _id of its first document, of which equal ones may be 1 or 1.0
        let grouped = stages.iter().any(|stage| stage.get("$group").is_some());
        let text = |doc: &DocBuf| match grouped {
            true => format!("{:?}", Collation::simple().key_of(ValueRef::Document(doc.as_doc())).bytes),
            false => doc.as_doc().to_string(),
        };
        let mut all: Vec<String> = found.ok()?.iter().map(text).collect();
        all.sort();
        Some(all)
    };
    let never = Interrupt::never();
    let plain = arbor_query::aggregate_documents(&rig.scope(), &rig.pipeline(&pipeline), docs.to_vec(), &never);
    let expected = shown(plain.and_then(|cursor| cursor.all(&never)));
    // a stage that fails for one document may not come to it in another order
    let Some(expected) = expected else { return };
    let found = shown(rig.try_aggregate(&stages));
    assert_eq!(found, Some(expected), "seed {seed}, pipeline {stages:?}");
}

/// The values that `distinct` finds, through indexes or not, are those of the documents.
fn check_distinct(rig: &Rig, docs: &[DocBuf], filter: &DocBuf, key: &str, seed: u64) {
    let collation = rig.effective_collation();
    let key_of = |value: ValueRef<'_>| collation.key_of(value);
    let context = Context { collation: collation.clone(), ..Context::new(0) };
    let Ok(parsed) = Filter::parse(filter.as_doc(), &context) else { return };
    let mut expected = BTreeSet::new();
    for doc in docs.iter().filter(|doc| parsed.matches(doc.as_doc()).unwrap()) {
        Path::new(key).visit(doc.as_doc(), Leaf::Whole, &mut |visit| {
            match visit.value {
                Some(ValueRef::Array(array)) => expected.extend(array.iter().map(|value| key_of(value).bytes)),
                value => expected.extend(value.map(|value| key_of(value).bytes)),
            }
            false
        });
    }
    let found = rig.distinct(key, filter);
    let keys: BTreeSet<Vec<u8>> = found.iter().map(|value| key_of(value.as_ref()).bytes).collect();
    assert_eq!(found.len(), keys.len(), "a value twice: seed {seed}, {key} of {}", filter.as_doc());
    assert_eq!(keys, expected, "distinct {key}: seed {seed}, filter {}, found {found:?}", filter.as_doc());
}

/// Projections that an index may cover show the same fields with the same types.
fn check_shown(rig: &Rig, spec: &FindSpec<'_>, found: &[DocBuf], seed: u64) {
    for shown in ["a b", "a _id"] {
        let mut projection: DocBuf = shown.split(' ').map(|name| (name, 1i32)).collect();
        if !shown.contains("_id") {
            projection.append("_id", 0i32);
        }
        let spec = FindSpec { projection: Some(projection.as_doc()), ..spec.clone() };
        let fields = |doc: &DocBuf| -> Vec<(String, String)> {
            let mut fields: Vec<(String, String)> = doc
                .as_doc()
                .iter()
                .filter(|(name, _)| shown.split(' ').any(|shown| shown == *name))
                .map(|(name, value)| (name.to_owned(), format!("{value:?}")))
                .collect();
            fields.sort();
            fields
        };
        // another plan may be the best one now, and give another order
        let sorted = |docs: &[DocBuf]| {
            let mut all: Vec<_> = docs.iter().map(fields).collect();
            all.sort();
            all
        };
        let (expected, shown_docs) = (sorted(found), sorted(&rig.run(&spec)));
        assert_eq!(shown_docs, expected, "shown {shown}: seed {seed}, {spec:?}");
    }
}

/// `count` seeds, or as many as `ARBOR_SEEDS` says.
fn run(first: u64, count: u64, kind: Kind) {
    let count = std::env::var("ARBOR_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(count);
    let mark = match kind {
        Kind::Partial => "isPartial: true",
        Kind::Wildcard | Kind::CompoundWildcard => "$_path",
        Kind::Collated => "CollationKey",
        _ => "IXSCAN",
    };
    let (mut used, mut merged) = (0, 0);
    for seed in first..first + count {
        let mut random = Random(StdRng::seed_from_u64(seed));
        let (mut rig, docs, indexes) = filled(&mut random, kind);
        // every second run tries whatever there is a choice of
        if seed % 2 == 1 {
            rig.database.settings.trial_cost_min = 0.0;
        }
        for _ in 0..40 {
            let filter = random.filter(1);
            let sort = random.pick(SORTS);
            check(&rig, &docs, &indexes, &filter, sort, seed);
            if merged < 10 * (count + 1) {
                merged += u64::from(check_merge(&rig, &docs, &indexes, &mut random, seed));
            }
            if Filter::parse(filter.as_doc(), &Context::new(0)).is_ok() {
                used += u64::from(rig.explain(rig.find_spec(&filter)).as_doc().to_string().contains(mark));
            }
        }
        for _ in 0..20 {
            check_pipeline(&rig, &docs, &mut random, seed);
        }
        for key in ["a", "b", "c", "x", "a.b"] {
            check_distinct(&rig, &docs, &DocBuf::new(), key, seed);
            check_distinct(&rig, &docs, &doc(key, &doc("$gte", &random.scalar())), key, seed);
            check_distinct(&rig, &docs, &random.filter(0), key, seed);
        }
        rig.check_valid();
    }
    assert!(used > count, "{used} queries used such an index");
    assert!(merged > count || !matches!(kind, Kind::Plain | Kind::Arrays), "{merged} queries merged scans");
}

#[test]
fn every_plan_gives_the_same_answer_without_arrays() {
    run(0, 3, Kind::Plain);
}

#[test]
fn every_plan_gives_the_same_answer_with_arrays() {
    run(100_000, 3, Kind::Arrays);
}

#[test]
fn every_plan_gives_the_same_answer_with_hashed_indexes() {
    run(200_000, 1, Kind::Hashed);
}

#[test]
fn every_plan_gives_the_same_answer_with_clustering_indexes() {
    run(300_000, 1, Kind::Clustering);
}

#[test]
fn every_plan_gives_the_same_answer_with_partial_indexes() {
    run(400_000, 5, Kind::Partial);
}

#[test]
fn every_plan_gives_the_same_answer_with_wildcard_indexes() {
    run(500_010, 5, Kind::Wildcard);
}

#[test]
fn every_plan_gives_the_same_answer_with_compound_wildcard_indexes() {
    run(700_000, 5, Kind::CompoundWildcard);
}

#[test]
fn every_plan_gives_the_same_answer_with_collations() {
    run(600_000, 5, Kind::Collated);
}
