"""Wildcard indexes answer conditions on any single path."""

import pytest
from pymongo.errors import OperationFailure

from test_partial_indexes import keys_in, scan_of


def documents():
    return [{"_id": i, "a": {"b": i % 10, "c": [i, {"d": "x" * (i % 3)}]}, "k": i % 7, "s": f"v{i % 5}"} for i in range(100)]


def check(db, query, path, count):
    scan = scan_of(db.c.find(query))
    assert scan["stage"] == ("IXSCAN" if path else "COLLSCAN"), query
    if path:
        assert list(scan["keyPattern"]) == ["$_path", path] and scan["indexName"].startswith(("$**", "a.$**", "w"))
    assert len(list(db.c.find(query))) == db.c.count_documents(query) == count, query


def test_every_path(db):
    db.c.insert_many(documents())
    db.c.create_index([("$**", 1)])
    assert db.c.index_information()["$**_1"]["key"] == [("$**", 1)]
    check(db, {"a.b": 3}, "a.b", 10)
    check(db, {"a.b": {"$gte": 8}}, "a.b", 20)
    check(db, {"a.c": 50}, "a.c", 1)
    check(db, {"a.c.d": "xx"}, "a.c.d", 33)
    check(db, {"a.c.d": {"$exists": True}}, "a.c.d", 100)
    check(db, {"k": {"$in": [1, 2]}, "s": {"$ne": "v1"}}, "k", 23)
    check(db, {"s": {"$regex": "^v4"}}, "s", 20)
    check(db, {"a": {"$exists": True}}, "a", 100)
    check(db, {"none": 5}, "none", 0)
    for query, count in [({"a.b": None}, 0), ({"none": {"$exists": False}}, 100), ({"a": {"b": 1}}, 0), ({"a.c.0": 4}, 1)]:
        check(db, query, None, count)
    db.c.update_many({"k": 3}, {"$set": {"a.b": "new", "more.deep": [1, 2]}, "$unset": {"s": 1}})
    check(db, {"a.b": "new"}, "a.b", 14)
    check(db, {"more.deep": 2}, "more.deep", 14)
    check(db, {"s": {"$exists": True}}, "s", 86)
    db.c.delete_many({"k": 4})
    assert keys_in(db, "$**_1") > 400


def test_below_one_path_and_with_a_projection(db):
    db.c.insert_many(documents())
    db.c.create_index([("a.$**", 1)])
    check(db, {"a.b": 3}, "a.b", 10)
    check(db, {"k": 3}, None, 14)
    db.c.drop_indexes()
    db.c.create_index([("$**", -1)], wildcardProjection={"k": 1, "a.b": 1}, name="w")
    assert db.c.index_information()["w"]["wildcardProjection"] == {"k": 1, "a.b": 1}
    check(db, {"k": 3}, "k", 14)
    check(db, {"a.b": {"$lt": 2}}, "a.b", 20)
    check(db, {"s": "v1"}, None, 20)
    assert keys_in(db, "w") == 200


def test_what_is_refused(db):
    def code(key, **options):
        with pytest.raises(OperationFailure) as caught:
            db.command("createIndexes", "c", indexes=[{"key": key, "name": "i", **options}])
        return caught.value.code

    assert code({"$**": 1}, unique=True) == 67
    assert code({"$**": 1}, expireAfterSeconds=5) == 67
    assert code({"$**": 1}, wildcardProjection={"a": 1, "b": 0}) == 31254
    assert code({"a.$**": 1}, wildcardProjection={"a": 1}) == 9
    assert code({"a": 1}, wildcardProjection={"a": 1}) == 2
    assert code({"a.$**.b": 1}) == 67
    db.c.create_index([("$**", 1)])
    with pytest.raises(OperationFailure) as caught:
        list(db.c.find({}).hint("$**_1"))
    assert caught.value.code == 291
    db.c.insert_one({"a": 5})
    assert len(list(db.c.find({"a": 5}).hint([("$**", 1)]))) == 1
    db.c.insert_many([{"b": n} for n in range(10)])
    either = {"$or": [{"a": 5}, {"b": {"$gt": 7}}]}
    assert len(list(db.c.find(either).hint("$**_1"))) == 3
    plan = db.c.find(either).hint([("$**", 1)]).explain()["queryPlanner"]["winningPlan"]
    assert plan["stage"] == "OR" and len(plan["inputStages"]) == 2


def test_a_hinted_index_serves_each_branch_of_an_or(db):
    db.c.insert_many([{"a": n, "b": n % 2} for n in range(100)])
    db.c.create_index("a")
    either = {"$or": [{"a": {"$lt": 3}, "b": 0}, {"a": 50}]}
    explained = db.command("explain", {"find": "c", "filter": either, "hint": "a_1"})
    assert explained["executionStats"]["nReturned"] == 3 and explained["executionStats"]["totalDocsExamined"] <= 4
