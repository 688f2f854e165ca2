"""Every T1 query operator through PyMongo, with MongoDB's array, null and type rules."""

import datetime
import re

import bson
import pytest
from pymongo.errors import OperationFailure

DOCUMENTS = [
    {"_id": 1, "n": 1, "s": "apple", "tags": ["red", "round"], "sub": {"x": 1, "y": 2}, "when": datetime.datetime(2020, 1, 1)},
    {"_id": 2, "n": 2.5, "s": "Banana", "tags": [], "sub": {"x": 2}, "items": [{"q": 5, "p": 1}, {"q": 9, "p": 3}]},
    {"_id": 3, "n": bson.Int64(3), "s": None, "tags": "red", "sub": [{"x": 3}, {"x": 4}]},
    {"_id": 4, "n": bson.Decimal128("4.5"), "tags": ["blue", ["red"]], "items": [{"q": 1, "p": 7}]},
    {"_id": 5, "n": [1, 20], "s": "cherry", "b": True, "id": bson.ObjectId("0123456789ab0123456789ab")},
    {"_id": 6, "n": float("nan"), "s": "apricot", "b": False, "bin": bson.Binary(b"xy")},
    {"_id": 7, "n": "7", "tags": ["red", "blue"], "sub": None},
]

CASES = [
    ({}, [1, 2, 3, 4, 5, 6, 7]),
    ({"n": 1}, [1, 5]),
    ({"$jsonSchema": {"required": ["s"], "properties": {"s": {"bsonType": "string", "maxLength": 5}}}}, [1]),
    ({"$jsonSchema": {"properties": {"tags": {"items": {"enum": ["red", "blue"]}}}}, "_id": {"$gt": 1}}, [2, 3, 5, 6, 7]),
    ({"$nor": [{"$jsonSchema": {"not": {"required": ["items"]}}}]}, [2, 4]),
    ({"n": {"$eq": 3.0}}, [3]),
    ({"n": {"$gt": 2}}, [2, 3, 4, 5]),
    ({"n": {"$gte": 2.5, "$lt": 4.5}}, [2, 3, 5]),
    ({"n": {"$lte": 1}}, [1, 5]),
    ({"n": float("nan")}, [6]),
    ({"n": {"$ne": 1}}, [2, 3, 4, 6, 7]),
    ({"n": {"$in": [1, "7", bson.Decimal128("2.50")]}}, [1, 2, 5, 7]),
    ({"n": {"$nin": [1, 3]}}, [2, 4, 6, 7]),
    ({"n": [1, 20]}, [5]),
    ({"n.1": 20}, [5]),
    ({"s": None}, [3, 4, 7]),
    ({"s": {"$exists": False}}, [4, 7]),
    ({"s": {"$exists": True}}, [1, 2, 3, 5, 6]),
    ({"s": {"$ne": None}}, [1, 2, 5, 6]),
    ({"s": {"$regex": "^a"}}, [1, 6]),
    ({"s": re.compile("^B", re.I)}, [2]),
    ({"s": {"$regex": "AP", "$options": "i"}}, [1, 6]),
    ({"s": {"$in": [re.compile("^ch"), "apple"]}}, [1, 5]),
    ({"s": {"$not": re.compile("^a")}}, [2, 3, 4, 5, 7]),
    ({"tags": "red"}, [1, 3, 7]),
    ({"tags": ["red"]}, [4]),
    ({"tags": []}, [2]),
    ({"tags": {"$all": ["red", "blue"]}}, [7]),
    ({"tags": {"$size": 2}}, [1, 4, 7]),
    ({"tags": {"$size": 0}}, [2]),
    ({"tags.0": "red"}, [1, 7]),
    ({"sub.x": 2}, [2]),
    ({"sub.x": {"$gt": 2}}, [3]),
    ({"sub.x": {"$exists": False}}, [4, 5, 6, 7]),
    ({"sub": {"x": 1, "y": 2}}, [1]),
    ({"sub": {"y": 2, "x": 1}}, []),
    ({"sub": None}, [4, 5, 6, 7]),
    ({"items": {"$elemMatch": {"q": {"$gt": 4}, "p": 3}}}, [2]),
    ({"items": {"$elemMatch": {"q": {"$gt": 4}, "p": {"$gt": 4}}}}, []),
    ({"items.q": {"$gt": 4}, "items.p": 1}, [2]),
    ({"n": {"$elemMatch": {"$gt": 10, "$lt": 30}}}, [5]),
    ({"n": {"$type": "string"}}, [7]),
    ({"n": {"$type": "number"}}, [1, 2, 3, 4, 5, 6]),
    ({"n": {"$type": ["long", 19]}}, [3, 4]),
    ({"tags": {"$type": "array"}}, [1, 2, 4, 7]),
    ({"b": True}, [5]),
    ({"b": {"$in": [True, False]}}, [5, 6]),
    ({"bin": b"xy"}, [6]),
    ({"id": bson.ObjectId("0123456789ab0123456789ab")}, [5]),
    ({"when": {"$lt": datetime.datetime(2021, 1, 1)}}, [1]),
    ({"$or": [{"n": 1}, {"s": "Banana"}]}, [1, 2, 5]),
    ({"$and": [{"tags": "red"}, {"tags": "blue"}]}, [7]),
    ({"$nor": [{"n": {"$type": "number"}}, {"b": True}]}, [7]),
    ({"n": {"$not": {"$gt": 1}}}, [1, 6, 7]),
    ({"n": {"$mod": [2, 1]}}, [1, 3, 5]),
    ({"$expr": {"$eq": ["$sub.x", 2]}}, [2]),
    ({"$expr": {"$gt": [{"$size": {"$cond": [{"$isArray": "$tags"}, "$tags", []]}}, 1]}}, [1, 4, 7]),
    ({"_id": {"$gt": 2, "$lte": 5}}, [3, 4, 5]),
    ({"_id": {"$in": [7, 1, 99]}}, [1, 7]),
    ({"n": {"$gt": bson.MinKey(), "$lt": bson.MaxKey()}}, [1, 2, 3, 4, 5, 6, 7]),
]


@pytest.fixture(scope="module")
def coll(client):
    client.drop_database("query_operators")
    coll = client.query_operators.c
    coll.insert_many(DOCUMENTS)
    yield coll
    client.drop_database("query_operators")


@pytest.mark.parametrize("filter, expect", CASES, ids=lambda v: str(v)[:60])
@pytest.mark.parametrize("index", [None, "n", "s", "tags", "sub.x"])
def test_filter(coll, filter, expect, index):
    """The answer does not depend on the indexes that exist."""
    coll.drop_indexes()
    if index:
        coll.create_index(index)
    assert sorted(d["_id"] for d in coll.find(filter)) == expect
    assert coll.count_documents(filter) == len(expect)


ERRORS = [
    ({"$foo": 1}, 2, "unknown top level operator: $foo"),
    ({"a": {"$foo": 1}}, 2, "unknown operator: $foo"),
    ({"a": {"$in": 1}}, 2, "$in needs an array"),
    ({"$or": {}}, 2, "$or must be an array"),
    ({"$and": []}, 2, "$and/$or/$nor must be a nonempty array"),
    ({"a": {"$size": -1}}, 2, "non-negative"),
    ({"a": {"$regex": "("}}, 51091, "Regular expression is invalid"),
    ({"a": {"$not": 1}}, 2, "$not needs a regex or a document"),
    ({"a": {"$type": "nope"}}, 2, "Unknown type name alias: nope"),
    ({"a": {"$elemMatch": 1}}, 2, "$elemMatch needs an Object"),
]


@pytest.mark.parametrize("filter, code, text", ERRORS, ids=str)
def test_error(coll, filter, code, text):
    with pytest.raises(OperationFailure) as caught:
        list(coll.find(filter))
    assert caught.value.code == code
    assert text in caught.value.details["errmsg"]
