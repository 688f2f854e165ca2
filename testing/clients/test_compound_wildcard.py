"""Compound wildcard indexes give the same answers as a scan, and are used."""

import itertools
import random

import pytest
from pymongo.errors import OperationFailure

PATTERNS = [
    ([("x", 1), ("a.$**", 1)], {}),
    ([("a.$**", -1), ("x", 1)], {}),
    ([("x", -1), ("$**", 1), ("y", 1)], {"wildcardProjection": {"x": 0, "y": 0}}),
    ([("$**", 1), ("x", 1)], {"wildcardProjection": {"a": 1}}),
]


def documents(seed):
    chosen = random.Random(seed)
    value = lambda: chosen.choice([1, 2, 2.5, "s", None, True, [1, 2], [], {"c": 1}, {"c": [2, {"d": 3}]}])
    for i in range(300):
        doc = {"_id": i}
        for name in ("x", "y"):
            if chosen.random() < 0.8:
                # two parallel arrays cannot be indexed
                doc[name] = chosen.choice([1, 2, 3, None, [1, 3] if name == "x" else 4])
        if chosen.random() < 0.8:
            doc["a"] = {name: value() for name in ("b", "c", "d") if chosen.random() < 0.6}
        yield doc


FILTERS = [
    {"x": 1, "a.b": 2},
    {"x": {"$gt": 1}, "a.b": {"$gte": 1, "$lt": 3}},
    {"x": 2},
    {"x": None, "a.c": 1},
    {"x": {"$in": [1, 3]}, "a.d": {"$exists": True}},
    {"a.b": "s"},
    {"a.b": "s", "y": 1},
    {"a.c.c": 2, "x": {"$ne": 1}},
    {"x": 1, "a.b": None},
    {"x": 1, "a.b": {"$in": [1, "s"]}, "y": {"$lte": 2}},
    {"$or": [{"x": 1, "a.b": 1}, {"x": 3, "a.d": 2}]},
]


@pytest.mark.parametrize("key, options", PATTERNS, ids=str)
def test_same_answers(db, key, options):
    docs = list(documents(7))
    db.plain.insert_many(docs)
    db.wild.insert_many(docs)
    db.wild.create_index(key, **options)
    for query, order in itertools.product(FILTERS, [None, [("x", 1)], [("_id", -1)]]):
        ids = lambda c: sorted(d["_id"] for d in (c.find(query) if order is None else c.find(query).sort(order)))
        assert ids(db.wild) == ids(db.plain), query
    for i in range(0, 300, 3):
        db.wild.update_one({"_id": i}, {"$set": {"a.b": i % 5}, "$unset": {"x": 1}})
        db.plain.update_one({"_id": i}, {"$set": {"a.b": i % 5}, "$unset": {"x": 1}})
    for query in FILTERS:
        assert sorted(d["_id"] for d in db.wild.find(query)) == sorted(d["_id"] for d in db.plain.find(query)), query
    assert db.validate_collection("wild")["valid"]


def winner(db, query):
    plan = db.command("explain", {"find": "c", "filter": query})["queryPlanner"]["winningPlan"]
    return plan.get("inputStage", plan)


def test_plans(db):
    db.c.insert_many([{"_id": i, "x": i % 10, "a": {"b": i, "c": -i}} for i in range(100)])
    db.c.create_index([("x", 1), ("a.$**", 1)], name="w")
    both = winner(db, {"x": 3, "a.b": {"$gt": 50}})
    assert both["indexName"] == "w" and both["keyPattern"] == {"x": 1, "$_path": 1, "a.b": 1}
    assert both["indexBounds"]["x"] == ["[3, 3]"] and both["indexBounds"]["$_path"] == ['["a.b", "a.b"]']
    assert winner(db, {"x": 3})["indexName"] == "w"
    assert winner(db, {"a.b": 3})["stage"] == "COLLSCAN"
    assert db.c.count_documents({"x": 3}) == 10 and db.c.count_documents({"x": 3, "a.b": {"$gt": 50}}) == 5
    with pytest.raises(OperationFailure) as caught:
        db.c.count_documents({}, hint="w")
    assert caught.value.code == 291


@pytest.mark.parametrize(
    "key, options",
    [
        ({"x": 1, "$**": 1}, {}),
        ({"a": 1, "a.$**": 1}, {}),
        ({"$**": 1, "a.$**": 1}, {}),
        ({"x": "hashed", "a.$**": 1}, {}),
        ({"x": 1, "a.$**": 1}, {"unique": True}),
        ({"x": 1, "$**": 1}, {"wildcardProjection": {"x": 1}}),
    ],
    ids=str,
)
def test_bad_specifications(db, key, options):
    with pytest.raises(OperationFailure) as caught:
        db.command("createIndexes", "c", indexes=[{"key": key, "name": "w", **options}])
    assert caught.value.code == 67
