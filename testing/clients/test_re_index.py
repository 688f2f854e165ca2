"""reIndex, returnKey, $toHashedIndexKey."""

import pytest
from pymongo.errors import OperationFailure


def test_indexes_are_rebuilt(db):
    db.c.insert_many([{"_id": i, "a": i % 7, "b": [i, i + 1]} for i in range(500)])
    db.c.create_index("a")
    db.c.create_index([("b", -1)], name="down")
    reply = db.command("reIndex", "c")
    assert reply["nIndexesWas"] == reply["nIndexes"] == 3
    assert [index["name"] for index in reply["indexes"]] == ["_id_", "a_1", "down"]
    assert db.c.count_documents({"a": 3}, hint="a_1") == 71
    assert db.c.count_documents({"b": {"$gte": 499}}, hint="down") == 2
    report = db.validate_collection("c")
    assert report["valid"] and report["keysPerIndex"] == {"_id_": 500, "a_1": 500, "down": 1000}


def test_what_has_no_indexes_is_refused(db):
    db.create_collection("v", viewOn="c", pipeline=[])
    for name, code in [("none", 26), ("v", 166)]:
        with pytest.raises(OperationFailure) as caught:
            db.command("reIndex", name)
        assert caught.value.code == code


def test_keys_in_the_place_of_documents(db):
    db.c.insert_many([{"_id": i, "a": i, "b": {"c": -i}, "x": 1} for i in range(4)])
    db.c.create_index([("a", 1), ("b.c", -1)])

    def keys(filter, **more):
        return db.command("find", "c", filter=filter, returnKey=True, **more)["cursor"]["firstBatch"]

    assert keys({"a": {"$gte": 2}, "x": 1}) == [{"a": 2, "b.c": -2}, {"a": 3, "b.c": -3}]
    assert keys({"a": {"$gte": 2}}, projection={"x": 1}, sort={"a": -1}, limit=1) == [{"a": 3, "b.c": -3}]
    assert keys({"_id": 1}) == [{"_id": 1}] and keys({"_id": {"$gt": 2}}) == [{"_id": 3}]
    assert keys({"x": 1}) == [{}] * 4
    assert keys({"$or": [{"a": 1}, {"_id": 0}]}) == [{"a": 1, "b.c": -1}, {"_id": 0}]
    with_id = keys({"a": 1}, showRecordId=True)[0]
    assert set(with_id) == {"a", "b.c"}
    plan = db.command("explain", {"find": "c", "filter": {"a": 1}, "returnKey": True})
    assert plan["queryPlanner"]["winningPlan"]["stage"] == "RETURN_KEY"
    # a sort that no index gives has the documents, and their keys
    db.c.update_one({"_id": 1}, {"$set": {"x": 0}})
    assert keys({"a": {"$gt": 0}}, sort={"x": 1, "a": -1}) == [{"a": a, "b.c": -a} for a in (1, 3, 2)]
    assert keys({"x": 1}, sort={"a": 1, "x": 1}) == [{}] * 3
    shown = db.c.find({"a": {"$gte": 2}}, {"_id": 1, "k": {"$meta": "indexKey"}}).sort("x", 1)
    assert list(shown) == [{"_id": 2, "k": {"a": 2, "b.c": -2}}, {"_id": 3, "k": {"a": 3, "b.c": -3}}]
    assert db.c.find_one({"x": 0}, {"_id": 1, "k": {"$meta": "indexKey"}}) == {"_id": 1}


def test_hashes_are_those_of_hashed_indexes(db):
    db.c.insert_one({"_id": 1, "a": "text"})
    db.c.create_index([("a", "hashed")])
    hashed = db.c.aggregate([{"$project": {"h": {"$toHashedIndexKey": "$a"}}}]).next()["h"]
    assert db.command("find", "c", filter={"a": "text"}, returnKey=True)["cursor"]["firstBatch"] == [{"a": hashed}]
