//! Trials among plans, and what is remembered of them.

use arbor_bson::{DocBuf, ValueRef};
use arbor_query::FindSpec;

use crate::support::{Rig, at, doc, ids, rig};

/// `sorted` gives the order; `rare` finds the few documents. Only the last documents in the order have `rare: 7`, unless
/// `early`.
fn filled(early: bool) -> Rig {
    let rig = rig();
    let docs: Vec<DocBuf> = (0..6000i32)
        .map(|n| {
            let place = if early { n } else { 5999 - n };
            let rare = if place < 300 { 7 } else { n % 5 };
            DocBuf::new().with("_id", n).with("sorted", n).with("rare", rare).with("odd", n % 2)
        })
        .collect();
    for chunk in docs.chunks(1000) {
        rig.fill(chunk);
    }
    rig.index("sorted");
    rig.index("rare");
    rig
}

fn spec<'s>(rig: &Rig, filter: &'s DocBuf, sort: &'s DocBuf, limit: u64) -> FindSpec<'s> {
    FindSpec { sort: Some(sort.as_doc()), limit: Some(limit), ..rig.find_spec(filter) }
}

fn plan_name(explained: &DocBuf) -> String {
    let text = at(explained, "queryPlanner.winningPlan").to_string();
    let name = text.split("indexName: \"").nth(1).and_then(|rest| rest.split('"').next());
    name.unwrap_or("none").to_owned()
}

#[test]
fn a_trial_finds_out_whether_the_order_or_the_filter_pays() {
    let (filter, sort) = (DocBuf::new().with("rare", 7i32).with("odd", 1i32), doc("sorted", 1i32));
    for (early, expected) in [(true, "sorted"), (false, "rare")] {
        let rig = filled(early);
        let explained = rig.explain(spec(&rig, &filter, &sort, 20));
        assert_eq!(plan_name(&explained), expected, "{}", explained.as_doc());
        let ValueRef::Array(tried) = at(&explained, "executionStats.allPlansExecution") else { panic!("no trial") };
        assert_eq!(tried.iter().count(), 2);
        assert!(at(&explained, "executionStats.allPlansExecution.0.score").to_string().starts_with('2'));
    }
}

#[test]
fn rows_of_a_trial_come_once_and_in_order() {
    for early in [true, false] {
        let mut rig = filled(early);
        rig.database.settings.trial_cost_min = 0.0;
        for limit in [1, 20, 150, 1000] {
            let (filter, sort) = (DocBuf::new().with("rare", 7i32).with("odd", 1i32), doc("sorted", 1i32));
            let all: Vec<String> = (0..6000i32)
                .filter(|n| n % 2 == 1 && if early { *n < 300 } else { *n >= 5700 })
                .take(limit)
                .map(|n| n.to_string())
                .collect();
            // the second time from the plan cache
            for _ in 0..2 {
                assert_eq!(ids(&rig.run(&spec(&rig, &filter, &sort, limit as u64))), all);
                assert_eq!(ids(&rig.run_in_batches(&spec(&rig, &filter, &sort, limit as u64), 7)), all);
            }
        }
    }
}

#[test]
fn what_won_is_remembered_by_shape_until_the_collection_changes() {
    let rig = filled(false);
    let stats = |rig: &Rig| rig.database.plan_cache.stats(&rig.database.store.collection(&rig.ns).unwrap());
    let sort = doc("sorted", 1i32);
    let (seven, three) =
        (DocBuf::new().with("rare", 7i32).with("odd", 1i32), DocBuf::new().with("rare", 3i32).with("odd", 1i32));
    rig.run(&spec(&rig, &seven, &sort, 20));
    assert_eq!(stats(&rig).len(), 1);
    let entry = stats(&rig).remove(0);
    assert_eq!(at(&entry, "cachedPlan.inputStage.indexName").to_string(), "\"rare\"", "{}", entry.as_doc());
    assert_eq!(at(&entry, "createdFromQuery.sort").to_string(), "{ sorted: 1 }");
    // of the same shape: other constants use the entry as long as it does well
    rig.run(&spec(&rig, &three, &sort, 20));
    assert_eq!(stats(&rig).len(), 1);
    // of another shape
    rig.run(&spec(&rig, &seven, &doc("sorted", -1i32), 20));
    assert_eq!(stats(&rig).len(), 2);
    let explained = rig.explain(spec(&rig, &three, &sort, 20));
    assert_eq!(at(&explained, "queryPlanner.planCacheKey").to_string(), entry.get("planCacheKey").unwrap().to_string());
    // an index more is another choice, and what was chosen without it is not shown any more
    rig.index("odd");
    assert!(stats(&rig).is_empty());
    rig.run(&spec(&rig, &seven, &sort, 20));
    assert_eq!(stats(&rig).len(), 1);
    rig.database.plan_cache.clear(&rig.ns, None);
    assert!(stats(&rig).is_empty());
}

#[test]
fn a_remembered_plan_that_does_badly_is_tried_again() {
    let rig = filled(true);
    let sort = doc("sorted", 1i32);
    let seven = DocBuf::new().with("rare", 7i32).with("odd", 1i32);
    rig.run(&spec(&rig, &seven, &sort, 20));
    let plan = |rig: &Rig| {
        let entry = rig.database.plan_cache.stats(&rig.database.store.collection(&rig.ns).unwrap()).remove(0);
        at(&entry, "cachedPlan.inputStage.indexName").to_string()
    };
    assert_eq!(plan(&rig), "\"sorted\"");
    // nothing has odd: 9, so that the order alone reads everything
    let none = DocBuf::new().with("rare", 7i32).with("odd", 9i32);
    assert!(rig.run(&spec(&rig, &none, &sort, 20)).is_empty());
    assert_eq!(plan(&rig), "\"rare\"");
}

#[test]
fn a_value_for_each_field_of_a_unique_index_needs_no_trial() {
    let mut rig = filled(false);
    rig.index_with("odd,rare,sorted", DocBuf::new().with("unique", true));
    rig.database.settings.trial_cost_min = 0.0;
    // There is none: by its estimate the index of the order alone would be as good.
    let filter = DocBuf::new().with("sorted", 7000i32).with("rare", 7i32).with("odd", 1i32);
    let explained = rig.explain(rig.find_spec(&filter));
    assert_eq!(plan_name(&explained), "odd,rare,sorted", "{}", explained.as_doc());
    assert_eq!(rig.run(&rig.find_spec(&filter)).len(), 0);
    // there was no other plan to choose
    assert!(rig.database.plan_cache.stats(&rig.database.store.collection(&rig.ns).unwrap()).is_empty());
    rig.database.settings.trial_cost_min = f64::INFINITY;
    let both = DocBuf::new().with("rare", 7i32).with("sorted", 7i32);
    (0..2).for_each(|_| drop(rig.run(&rig.find_spec(&both))));
    let noted = rig.database.plan_cache.stats(&rig.database.store.collection(&rig.ns).unwrap());
    assert_eq!(noted.len(), 1);
    assert_eq!(at(&noted[0], "isActive").to_string(), "false");
}
