"""Hashed indexes answer equality; clustering indexes hold the documents."""

import bson
import pytest
from pymongo import HASHED
from pymongo.errors import OperationFailure

from test_partial_indexes import scan_of


def code_of(run):
    with pytest.raises(OperationFailure) as caught:
        run()
    return caught.value.code


def check(db, *indexes):
    report = db.validate_collection("c", full=True)
    assert report["valid"], report
    return [report["keysPerIndex"][name] for name in indexes]


def test_hashed(db):
    db.c.insert_many([{"_id": i, "a": i % 10, "b": i} for i in range(100)])
    db.c.create_index([("a", HASHED)])
    db.c.create_index([("b", 1), ("s", HASHED)])
    db.c.insert_many([{"a": 3.7}, {"a": bson.Int64(3)}, {"a": "x"}, {}, {"a": None}, {"a": {"z": 1}}])
    assert db.c.index_information()["a_hashed"]["key"] == [("a", "hashed")]
    for query, count in [({"a": 3}, 11), ({"a": 3.7}, 1), ({"a": {"$in": ["x", 4]}}, 11), ({"a": None}, 2), ({"a": {"z": 1}}, 1)]:
        assert scan_of(db.c.find(query))["stage"] == "IXSCAN", query
        assert db.c.count_documents(query) == len(list(db.c.find(query))) == count
    scan = scan_of(db.c.find({"a": 3}))
    assert scan["keyPattern"] == {"a": "hashed"} and scan["indexName"] == "a_hashed"
    assert scan_of(db.c.find({"a": {"$gt": 3}}))["stage"] == "COLLSCAN"
    assert scan_of(db.c.find().sort("a", 1))["stage"] == "COLLSCAN"
    assert scan_of(db.c.find({"b": 5}))["indexName"] == "b_1_s_hashed"
    assert check(db, "a_hashed") == [106]


def test_hashed_by_id(db):
    db.c.create_index([("_id", HASHED)])
    db.c.insert_many([{"_id": i} for i in range(10)] + [{"_id": {"a": 1}}])
    assert check(db, "_id_hashed") == [11] and "_id_hashed" in db.c.index_information()
    assert db.c.find_one({"_id": {"a": 1}}) and len(list(db.c.find({"_id": {"$in": [1, 5, 77]}}).hint("_id_hashed"))) == 2
    db.c.drop_index([("_id", HASHED)])
    assert list(db.c.index_information()) == ["_id_"]


def test_what_hashed_indexes_refuse(db):
    db.c.create_index([("a", HASHED)])
    assert code_of(lambda: db.c.create_index([("b", HASHED)], unique=True)) == 16764
    assert code_of(lambda: db.c.create_index([("b", HASHED), ("c", HASHED)])) == 31303
    db.c.insert_one({"_id": 1, "a": 1})
    for change in [lambda: db.c.insert_one({"a": [1]}), lambda: db.c.update_one({"_id": 1}, {"$set": {"a": []}})]:
        assert code_of(change) == 16766
    db.d.insert_one({"a": [1]})
    assert code_of(lambda: db.d.create_index([("a", HASHED)])) == 16766
    assert check(db, "a_hashed") == [1]


def test_clustering(db):
    db.c.create_index("a", clustering=True)
    db.c.create_index([("b", 1), ("_id", 1)], unique=True, clustering=True)
    db.c.insert_many([{"_id": i, "a": i % 10, "b": i % 3, "t": "x" * 100} for i in range(200)])
    db.c.create_index([("c", -1)], clustering=True)
    db.c.create_index("a", name="plain", hidden=False, sparse=True)
    assert db.c.index_information()["a_1"]["clustering"] is True
    db.c.update_many({"a": 3}, {"$set": {"t": "changed", "c": [1, 2]}})
    db.c.update_one({"_id": 13}, {"$set": {"a": 4.0}})
    db.c.delete_one({"_id": 23})
    found = list(db.c.find({"a": 3}))
    assert len(found) == 18 and all(doc["t"] == "changed" and doc["c"] == [1, 2] for doc in found)
    assert db.c.find_one({"a": 4, "_id": {"$lt": 14}, "t": "changed"})["a"] == 4.0
    assert len(list(db.c.find({"c": {"$gte": 1}}))) == 19
    plan = db.c.find({"a": {"$gte": 8}, "t": {"$ne": "y"}}).explain()
    winner = plan["queryPlanner"]["winningPlan"]
    assert (winner["stage"], winner["indexName"], winner["isClustering"]) == ("IXSCAN", "a_1", True)
    assert plan["executionStats"]["totalDocsExamined"] == 0 and plan["executionStats"]["nReturned"] == 40
    assert check(db, "a_1", "b_1__id_1", "c_-1") == [199, 199, 218]
    assert db.command("collStats", "c")["indexSizes"]["a_1"] > 0
    assert code_of(lambda: db.c.create_index("a")) == 85


def test_clustering_by_aggregation_and_order(db):
    db.c.create_index([("k", 1), ("n", -1)], clustering=True)
    db.c.insert_many([{"k": i % 5, "n": i, "v": i} for i in range(100)])
    assert [doc["n"] for doc in db.c.find({"k": 2}).sort("n", -1).limit(3)] == [97, 92, 87]
    assert list(db.c.aggregate([{"$match": {"k": 2}}, {"$group": {"_id": None, "sum": {"$sum": "$v"}}}]))[0]["sum"] == sum(range(2, 100, 5))
