"""Partial indexes hold the documents of their filter, and are used when a query asks for no others."""

import pytest
from pymongo.errors import DuplicateKeyError, OperationFailure

OPEN = {"status": "open", "n": {"$gt": 5}}


def scan_of(cursor):
    plan = cursor.explain()["queryPlanner"]["winningPlan"]
    while "inputStage" in plan:
        plan = plan["inputStage"]
    return plan


def keys_in(db, name):
    report = db.validate_collection("c", full=True)
    assert report["valid"], report
    return report["keysPerIndex"][name]


def test_used_only_when_the_query_implies_the_filter(db):
    db.c.insert_many([{"a": i, "n": i % 10, "status": ["open", "done"][i % 2]} for i in range(100)])
    db.c.create_index("a", partialFilterExpression=OPEN, name="p")
    assert keys_in(db, "p") == 20
    for query, used in [
        ({"a": 6, **OPEN}, True),
        ({"a": 6, "status": "open", "n": 8}, True),
        ({"a": 6, "status": "open", "n": {"$in": [6, 8]}}, True),
        ({"a": 6, "$and": [{"status": "open"}, {"n": {"$gte": 6}}]}, True),
        ({"a": 6, "status": "open"}, False),
        ({"a": 6, "status": "open", "n": {"$gt": 4}}, False),
        ({"a": 6, "status": {"$in": ["open", "done"]}, "n": 6}, False),
        ({"a": 6}, False),
    ]:
        scan = scan_of(db.c.find(query))
        assert (scan["stage"] == "IXSCAN") == used, query
        if used:
            assert scan["isPartial"] is True
        expected = db.c.count_documents({"$and": [query, {"$expr": True}]}, hint={"$natural": 1})
        assert db.c.count_documents(query) == len(list(db.c.find(query))) == expected
    assert scan_of(db.c.find(OPEN).sort("a", 1))["stage"] == "IXSCAN"
    assert scan_of(db.c.find({}).sort("a", 1))["stage"] == "COLLSCAN"


def test_updates_move_documents_in_and_out(db):
    db.c.create_index("a", partialFilterExpression=OPEN, name="p")
    db.c.insert_many([{"_id": i, "a": i, "n": 9, "status": "done"} for i in range(10)])
    assert keys_in(db, "p") == 0
    db.c.update_many({"_id": {"$lt": 4}}, {"$set": {"status": "open"}})
    assert keys_in(db, "p") == 4
    db.c.update_one({"_id": 0}, {"$inc": {"n": -9}})
    db.c.find_one_and_replace({"_id": 1}, {"a": 1})
    db.c.delete_one({"_id": 2})
    assert keys_in(db, "p") == 1
    assert [doc["_id"] for doc in db.c.find({"a": {"$gte": 0}, **OPEN})] == [3]


def test_unique_among_the_documents_of_the_filter(db):
    db.c.create_index("email", unique=True, partialFilterExpression={"email": {"$exists": True}})
    db.c.insert_many([{"_id": 1}, {"_id": 2}, {"_id": 3, "email": "x"}])
    with pytest.raises(DuplicateKeyError):
        db.c.insert_one({"email": "x"})
    with pytest.raises(DuplicateKeyError):
        db.c.update_one({"_id": 1}, {"$set": {"email": "x"}})
    db.c.update_one({"_id": 3}, {"$unset": {"email": 1}})
    db.c.update_one({"_id": 1}, {"$set": {"email": "x"}})
    assert keys_in(db, "email_1") == 1


def test_what_is_listed_and_refused(db):
    db.c.create_index("a", partialFilterExpression=OPEN)
    assert db.c.index_information()["a_1"]["partialFilterExpression"] == OPEN
    db.c.create_index("a", partialFilterExpression={"b": 1}, name="other")
    create = lambda **spec: db.command("createIndexes", "c", indexes=[{"key": {"x": 1}, "name": "i", **spec}])  # noqa: E731
    for code, spec in [
        (67, {"partialFilterExpression": {"x": {"$exists": False}}}),
        (67, {"partialFilterExpression": {"x": {"$regex": "a"}}}),
        (67, {"partialFilterExpression": {"$nor": [{"x": 1}]}}),
        (67, {"partialFilterExpression": {"x": 1}, "sparse": True}),
        (14, {"partialFilterExpression": 1}),
        (2, {"partialFilterExpression": {"x": {"$what": 1}}}),
        (197, {"key": {"_id": 1}, "partialFilterExpression": {"x": 1}}),
    ]:
        with pytest.raises(OperationFailure) as caught:
            create(**spec)
        assert caught.value.code == code, spec
