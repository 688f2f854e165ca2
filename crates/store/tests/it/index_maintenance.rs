//! Whatever is inserted, updated and deleted, every index holds exactly the keys of the documents.

use crate::support;
use std::collections::BTreeMap;

use crate::support::{Rig, array, doc, rig, spec, texts};
use arbor_bson::{ArrayBuf, Doc, DocBuf, Value, ValueRef, keystring};
use arbor_store::{Direction, Error, Index};
use proptest::prelude::*;

fn b(flag: bool) -> Value {
    Value::Bool(flag)
}

/// A filter for values above `low`.
fn over(path: &str, low: i32) -> DocBuf {
    doc(&[(path, Value::Document(doc(&[("$gt", Value::Int32(low))])))])
}

/// The indexes of the random runs; the last is added while there are documents.
fn specs() -> Vec<DocBuf> {
    vec![
        spec(&[("a", 1)], &[]),
        spec(&[("a", -1), ("b", 1)], &[]),
        spec(&[("a.x", 1)], &[("sparse", b(true))]),
        spec(&[("a.x", 1), ("a.y", -1), ("b", 1)], &[]),
        spec(&[("a.0", 1)], &[]),
        spec(&[("b", 1)], &[("unique", b(true)), ("sparse", b(true))]),
        spec(&[("a", 1), ("_id", 1)], &[("clustering", b(true))]),
        spec(&[("b", -1), ("_id", 1)], &[("clustering", b(true)), ("unique", b(true))]),
        spec(&[("b", 1), ("a", 1)], &[("partialFilterExpression", Value::Document(over("b", 1)))]),
        spec(&[("a.x", -1)], &[("partialFilterExpression", Value::Document(over("a.y", 0))), ("unique", b(true))]),
        spec(&[("_id", -1), ("b", 1)], &[("unique", b(true))]),
    ]
}

/// The plain meaning of an index key, written without looking at the generator: all ways to choose elements.
fn brute_force(doc: Doc<'_>, index: &Index) -> Result<Vec<Vec<Value>>, ()> {
    if index.partial.as_ref().is_some_and(|partial| !partial.filter().matches(doc).unwrap()) {
        return Ok(Vec::new());
    }
    let paths: Vec<&str> = index.key_pattern.iter().map(|field| field.path.as_str()).collect();
    let mut keys = expand(ValueRef::Document(doc), &paths)?;
    if index.sparse {
        keys.retain(|key| key.iter().any(Option::is_some));
    }
    let mut keys: Vec<Vec<Value>> =
        keys.into_iter().map(|key| key.into_iter().map(|value| value.unwrap_or(Value::Null)).collect()).collect();
    keys.sort_by(|a, b| compare_keys(a, b, index));
    keys.dedup_by(|a, b| compare_keys(a, b, index).is_eq());
    Ok(keys)
}

fn compare_keys(a: &[Value], b: &[Value], index: &Index) -> std::cmp::Ordering {
    let fields = a.iter().zip(b).zip(&index.key_pattern);
    let orders = fields.map(|((a, b), field)| match field.direction {
        Direction::Ascending => a.compare(b),
        Direction::Descending => b.compare(a),
    });
    orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
}

/// Tuples of the values that `paths` reach from one value. Fields of a common first component go through it together.
fn expand(value: ValueRef<'_>, paths: &[&str]) -> Result<Parts, ()> {
    let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
    for (i, path) in paths.iter().enumerate() {
        let head = path.split('.').next().unwrap();
        match groups.iter_mut().find(|(name, _)| *name == head) {
            Some((_, members)) => members.push(i),
            None => groups.push((head, vec![i])),
        }
    }
    let mut tuples: Vec<Vec<Option<Value>>> = vec![vec![None; paths.len()]];
    let mut arrays = 0;
    for (head, members) in groups {
        let inner = match value {
            ValueRef::Document(doc) => doc.get(head),
            _ => None,
        };
        let rests: Vec<&str> = members.iter().map(|i| paths[*i].split_once('.').map_or("", |(_, rest)| rest)).collect();
        let (found, is_array) = reach(inner, &rests)?;
        arrays += usize::from(is_array);
        if arrays > 1 {
            return Err(());
        }
        let mut combined = Vec::new();
        for tuple in &tuples {
            for part in &found {
                let mut tuple = tuple.clone();
                members.iter().zip(part).for_each(|(i, value)| tuple[*i] = value.clone());
                combined.push(tuple);
            }
        }
        tuples = combined;
    }
    Ok(tuples)
}

type Parts = Vec<Vec<Option<Value>>>;

/// From the value of a component on; `rests` are what is left of each path. Returns true if an array was passed.
fn reach(value: Option<ValueRef<'_>>, rests: &[&str]) -> Result<(Parts, bool), ()> {
    let Some(value) = value else { return Ok((vec![vec![None; rests.len()]], false)) };
    if let ValueRef::Array(array) = value {
        let mut parts = Vec::new();
        let elements: Vec<Option<ValueRef<'_>>> =
            if array.is_empty() { vec![None] } else { array.iter().map(Some).collect() };
        for element in elements {
            let from_element = |rest: &str| -> Result<Parts, ()> {
                if rest.is_empty() {
                    let value = element.map_or(Value::Undefined, |element| element.to_value());
                    return Ok(vec![vec![Some(value)]]);
                }
                let head = rest.split('.').next().unwrap();
                if let Some(at) = head.parse::<usize>().ok().and_then(|at| array.get(at)) {
                    let tail = rest.split_once('.').map_or("", |(_, tail)| tail);
                    return Ok(reach(Some(at), &[tail])?.0);
                }
                Ok(vec![vec![None]])
            };
            let named: Vec<usize> = (0..rests.len())
                .filter(|i| !rests[*i].is_empty() && rests[*i].split('.').next().unwrap().parse::<usize>().is_err())
                .collect();
            let others: Vec<usize> = (0..rests.len()).filter(|i| !named.contains(i)).collect();
            let mut tuples: Parts = vec![vec![None; rests.len()]];
            let paths: Vec<&str> = named.iter().map(|i| rests[*i]).collect();
            let through = match element {
                Some(ValueRef::Document(doc)) if !paths.is_empty() => expand(ValueRef::Document(doc), &paths)?,
                _ => vec![vec![None; paths.len()]],
            };
            tuples = tuples
                .iter()
                .flat_map(|tuple| {
                    through.iter().map(|part| {
                        let mut tuple = tuple.clone();
                        named.iter().zip(part).for_each(|(i, value)| tuple[*i] = value.clone());
                        tuple
                    })
                })
                .collect();
            for i in others {
                let own = from_element(rests[i])?;
                tuples = tuples
                    .iter()
                    .flat_map(|tuple| {
                        own.iter().map(|part| {
                            let mut tuple = tuple.clone();
                            tuple[i] = part[0].clone();
                            tuple
                        })
                    })
                    .collect();
            }
            parts.extend(tuples);
        }
        return Ok((parts, true));
    }
    if rests == [""] {
        return Ok((vec![vec![Some(value.to_value())]], false));
    }
    match value {
        ValueRef::Document(_) if rests.iter().all(|rest| !rest.is_empty()) => {
            let tuples = expand(value, rests)?;
            // An array further down counts as passed here, too.
            let passed = has_array(value, rests);
            Ok((tuples, passed))
        }
        _ => Ok((vec![rests.iter().map(|rest| rest.is_empty().then(|| value.to_value())).collect()], false)),
    }
}

fn has_array(value: ValueRef<'_>, paths: &[&str]) -> bool {
    let ValueRef::Document(doc) = value else { return false };
    paths.iter().any(|path| {
        let (head, rest) = path.split_once('.').unwrap_or((path, ""));
        match doc.get(head) {
            Some(ValueRef::Array(_)) => true,
            Some(inner) if !rest.is_empty() => has_array(inner, &[rest]),
            _ => false,
        }
    })
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (-3..4i32).prop_map(Value::Int32),
        1 => (-3..4i32).prop_map(|n| Value::Double(f64::from(n))),
        1 => (-3..4i64).prop_map(Value::Int64),
        1 => "[a-c\0]{0,3}".prop_map(Value::String),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => Just(Value::Null),
    ]
}

fn object(value: impl Strategy<Value = Value> + Clone) -> impl Strategy<Value = Value> {
    (proptest::option::of(value.clone()), proptest::option::of(value)).prop_map(|(x, y)| {
        let mut doc = DocBuf::new();
        if let Some(x) = &x {
            doc.append("x", x);
        }
        if let Some(y) = &y {
            doc.append("y", y);
        }
        Value::Document(doc)
    })
}

fn list(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    proptest::collection::vec(value, 0..4).prop_map(|values| Value::Array(values.iter().collect::<ArrayBuf>()))
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![3 => scalar(), 1 => list(scalar())].boxed();
    let element = prop_oneof![2 => scalar(), 3 => object(leaf.clone()), 1 => list(scalar())].boxed();
    prop_oneof![2 => scalar(), 2 => object(leaf), 2 => list(element)]
}

#[derive(Clone, Debug)]
enum Step {
    /// Inserts when there is no such `_id`, updates otherwise.
    Put(i32, Option<Value>, Option<Value>),
    Delete(i32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..12i32, proptest::option::of(value()), proptest::option::of(scalar())).prop_map(|(id, a, b)| Step::Put(id, a, b)),
        1 => (0..12i32).prop_map(Step::Delete),
    ];
    proptest::collection::vec(step, 1..40)
}

fn apply(rig: &Rig, docs: &mut BTreeMap<i32, DocBuf>, step: &Step) {
    match step {
        Step::Put(id, a, b) => {
            let mut new = DocBuf::new().with("_id", *id);
            if let Some(a) = a {
                new.append("a", a);
            }
            if let Some(b) = b {
                new.append("b", b);
            }
            let result = match docs.get(id) {
                Some(old) => rig.update(old, &new),
                None => rig.insert(&new),
            };
            match result {
                Ok(()) => drop(docs.insert(*id, new)),
                Err(Error::DuplicateKey { .. } | Error::CannotIndexParallelArrays { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        Step::Delete(id) => {
            if let Some(old) = docs.remove(id) {
                rig.delete(&old).unwrap();
            }
        }
    }
    let report = rig.store.validate(&rig.ns, false).unwrap();
    assert!(report.is_valid(), "{step:?}: {:?}", report.problems);
    rig.store.validate_catalogue();
}

fn check_entries(rig: &Rig, docs: &BTreeMap<i32, DocBuf>) {
    for index in &rig.collection().indexes {
        let mut expected: Vec<(Vec<Value>, i32)> = Vec::new();
        for (id, doc) in docs {
            let keys = brute_force(doc.as_doc(), index).expect("a stored document has keys");
            expected.extend(keys.into_iter().map(|key| (key, *id)));
        }
        expected.sort_by(|a, b| compare_keys(&a.0, &b.0, index).then(a.1.cmp(&b.1)));
        // Values of one key that differ in type only are interchangeable: shown by value.
        let plain = |values: &[Value]| {
            let descending = vec![false; values.len()];
            let mut builder = keystring::KeyBuilder::new();
            for value in values {
                builder.push(value.as_ref(), false);
            }
            texts(&keystring::decode(&builder.finish().bytes, &[], &descending).unwrap())
        };
        let expected: Vec<String> = expected.iter().map(|(key, id)| format!("{} => {id}", plain(key))).collect();
        let got: Vec<String> = rig.plain_entries(&index.name);
        assert_eq!(got, expected, "{}", index.name);
    }
}

impl Rig {
    /// As `entries`, without the types of the values.
    fn plain_entries(&self, name: &str) -> Vec<String> {
        let collection = self.collection();
        let index = collection.index(name).unwrap();
        let view = self.store.transactions().read().unwrap();
        let mut cursor = arbor_store::IndexCursor::new(&view, index).unwrap();
        let descending: Vec<bool> =
            index.key_pattern.iter().map(|field| field.direction == Direction::Descending).collect();
        let mut entries = Vec::new();
        let mut valid = cursor.first().unwrap();
        while valid {
            let values = keystring::decode(cursor.key(), &[], &descending).unwrap();
            let id = keystring::decode(cursor.id_key(), &[], &[false]).unwrap();
            entries.push(format!("{} => {}", texts(&values), texts(&id)));
            valid = cursor.next().unwrap();
        }
        entries
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn indexes_hold_exactly_the_keys_of_the_documents(before in steps(), after in steps(), seed in 0..1000u64) {
        let rig = rig();
        let mut specs = specs();
        let late = specs.remove(0);
        let outcome = rig.store.create_indexes(&rig.ns, &specs).unwrap();
        prop_assert_eq!((outcome.before, outcome.after, outcome.created_collection), (1, 11, true));
        let mut docs = BTreeMap::new();
        before.iter().for_each(|step| apply(&rig, &mut docs, step));
        rig.create_index(late).unwrap();
        after.iter().for_each(|step| apply(&rig, &mut docs, step));
        rig.check_valid();
        check_entries(&rig, &docs);
        let expected: Vec<String> = docs.values().map(|doc| support::shown(doc.as_doc())).collect();
        prop_assert_eq!(rig.docs(), expected);

        let after_crash = rig.crash(seed);
        after_crash.check_valid();
        check_entries(&after_crash, &docs);
        for (now, then) in rig.collection().indexes.iter().zip(&after_crash.collection().indexes) {
            for field in 0..now.key_pattern.len() {
                let (now, then) = (now.multikey_components(field), then.multikey_components(field));
                prop_assert_eq!(now & then, then);
            }
            let passed_array = docs.values().any(|doc| brute_force(doc.as_doc(), then).unwrap().len() > 1);
            prop_assert!(!passed_array || then.is_multikey());
        }
    }
}

#[test]
fn an_index_keeps_the_type_of_each_value() {
    let rig = rig();
    rig.create_index(spec(&[("a", 1)], &[])).unwrap();
    let one = |value: Value| doc(&[("_id", Value::Int32(1)), ("a", value)]);
    rig.insert(&one(Value::Double(1.0))).unwrap();
    let collection = rig.collection();
    let bits = || {
        let view = rig.store.transactions().read().unwrap();
        let mut cursor = arbor_store::IndexCursor::new(&view, &collection.indexes[0]).unwrap();
        assert!(cursor.first().unwrap());
        keystring::decode(cursor.key(), cursor.type_bits(), &[false]).unwrap().remove(0)
    };
    assert!(matches!(bits(), Value::Double(_)));
    rig.update(&one(Value::Double(1.0)), &one(Value::Int64(1))).unwrap();
    assert!(matches!(bits(), Value::Int64(1)));
    rig.check_valid();
}

#[test]
fn a_duplicate_names_index_pattern_and_value() {
    let rig = rig();
    rig.create_index(spec(&[("a", 1), ("b", -1)], &[("unique", b(true))])).unwrap();
    let row = |id: i32, a: Value| doc(&[("_id", Value::Int32(id)), ("a", a), ("b", Value::Double(2.5))]);
    rig.insert(&row(1, array(&[Value::Int32(7), Value::String("x".into())]))).unwrap();
    let check = |result: arbor_store::Result<()>, name: &str, pattern: &str, value: &str| match result {
        Err(Error::DuplicateKey { namespace, index_name, key_pattern, key_value, .. }) => {
            assert_eq!(namespace.as_str(), "test.c");
            assert_eq!(index_name, name);
            assert_eq!(support::shown(key_pattern.as_doc()), pattern);
            assert_eq!(support::shown(key_value.as_doc()), value);
        }
        other => panic!("{other:?}"),
    };
    let pattern = "{ a: 1, b: -1 }";
    check(rig.insert(&row(2, Value::String("x".into()))), "a_1_b_-1", pattern, "{ a: \"x\", b: 2.5 }");
    check(rig.insert(&row(1, Value::Null)), "_id_", "{ _id: 1 }", "{ _id: 1 }");
    rig.insert(&row(2, Value::Int32(8))).unwrap();
    check(rig.update(&row(2, Value::Int32(8)), &row(2, Value::Int64(7))), "a_1_b_-1", pattern, "{ a: 7, b: 2.5 }");
    rig.check_valid();
    assert_eq!(rig.docs().len(), 2);
}

#[test]
fn a_failed_change_writes_nothing_into_its_transaction() {
    let rig = rig();
    rig.create_index(spec(&[("a", 1), ("b", 1)], &[])).unwrap();
    rig.create_index(spec(&[("u", 1)], &[("unique", b(true))])).unwrap();
    let good = doc(&[("_id", Value::Int32(1)), ("u", Value::Int32(1))]);
    rig.insert(&good).unwrap();
    let lists = array(&[Value::Int32(1)]);
    let parallel = doc(&[("_id", Value::Int32(2)), ("u", Value::Int32(2)), ("a", lists.clone()), ("b", lists)]);
    let held = rig.store.hold(&rig.ns).unwrap();
    let mut txn = rig.store.transactions().begin().unwrap();
    assert!(arbor_store::insert(&mut txn, &held, parallel.as_doc()).is_err());
    assert!(arbor_store::insert(&mut txn, &held, good.as_doc()).is_err());
    assert!(txn.is_empty());
    for id in [Value::Null, Value::Undefined, array(&[])] {
        let valid = matches!(id, Value::Null);
        let with_id = doc(&[("_id", id), ("u", Value::Int32(9))]);
        assert_eq!(arbor_store::insert(&mut txn, &held, with_id.as_doc()).is_ok(), valid);
    }
    assert!(matches!(arbor_store::insert(&mut txn, &held, Doc::empty()), Err(Error::InvalidId(_))));
}

#[test]
fn counts_and_sizes_are_exact_at_every_snapshot() {
    let rig = rig();
    let row = |id: i32, text: &str| doc(&[("_id", Value::Int32(id)), ("t", Value::String(text.into()))]);
    rig.insert(&row(1, "a")).unwrap();
    let before = rig.store.transactions().read().unwrap();
    rig.insert(&row(2, "bb")).unwrap();
    rig.update(&row(1, "a"), &row(1, "long text")).unwrap();
    let collection = rig.collection();
    let now = rig.store.transactions().read().unwrap();
    assert_eq!(arbor_store::count(&before, &collection).unwrap(), 1);
    assert_eq!(arbor_store::count(&now, &collection).unwrap(), 2);
    let size = row(1, "long text").as_bytes().len() + row(2, "bb").as_bytes().len();
    assert_eq!(arbor_store::data_size(&now, &collection).unwrap(), size as u64);
    let id = arbor_store::id_key(ValueRef::Double(2.0));
    assert_eq!(arbor_store::record(&now, &collection, &id).unwrap().unwrap(), row(2, "bb").as_bytes());
    assert_eq!(arbor_store::record(&before, &collection, &id).unwrap(), None);
}
