"""The first aggregation stages through PyMongo."""

import datetime

import pytest
from pymongo.errors import OperationFailure

DOCUMENTS = [
    {"_id": 1, "g": "a", "n": 1, "t": [1, 2], "d": {"x": 1}},
    {"_id": 2, "g": "b", "n": 2, "t": [], "d": {"x": 2}},
    {"_id": 3, "g": "a", "n": 3, "t": [3]},
    {"_id": 4, "g": None, "n": "x"},
    {"_id": 5, "n": 5.5, "t": 9},
]

CASES = [
    ([{"$match": {"n": {"$gt": 1}}}, {"$count": "c"}], [{"c": 3}]),
    (
        [{"$group": {"_id": "$g", "s": {"$sum": "$n"}, "c": {"$sum": 1}}}, {"$sort": {"_id": 1}}],
        [{"_id": None, "s": 5.5, "c": 2}, {"_id": "a", "s": 4, "c": 2}, {"_id": "b", "s": 2, "c": 1}],
    ),
    (
        [
            {"$match": {"g": "a"}},
            {"$group": {"_id": None, "avg": {"$avg": "$n"}, "min": {"$min": "$n"}, "max": {"$max": "$n"},
                        "first": {"$first": "$_id"}, "last": {"$last": "$_id"}, "push": {"$push": "$n"}}},
        ],
        [{"_id": None, "avg": 2.0, "min": 1, "max": 3, "first": 1, "last": 3, "push": [1, 3]}],
    ),
    (
        [{"$unwind": "$t"}, {"$project": {"t": 1}}],
        [{"_id": 1, "t": 1}, {"_id": 1, "t": 2}, {"_id": 3, "t": 3}, {"_id": 5, "t": 9}],
    ),
    (
        [{"$unwind": {"path": "$t", "preserveNullAndEmptyArrays": True, "includeArrayIndex": "i"}},
         {"$project": {"t": 1, "i": 1}}],
        [{"_id": 1, "t": 1, "i": 0}, {"_id": 1, "t": 2, "i": 1}, {"_id": 2, "i": None}, {"_id": 3, "t": 3, "i": 0},
         {"_id": 4, "i": None}, {"_id": 5, "t": 9, "i": None}],
    ),
    (
        [{"$match": {"_id": 1}}, {"$addFields": {"d.y": {"$multiply": ["$n", 10]}, "z": "$d.x"}}, {"$unset": ["t", "g"]}],
        [{"_id": 1, "n": 1, "d": {"x": 1, "y": 10}, "z": 1}],
    ),
    ([{"$sort": {"n": -1}}, {"$skip": 1}, {"$limit": 2}, {"$project": {"_id": 1}}], [{"_id": 5}, {"_id": 3}]),
    ([{"$match": {"_id": 2}}, {"$replaceRoot": {"newRoot": "$d"}}], [{"x": 2}]),
    ([{"$sortByCount": "$g"}, {"$limit": 1}, {"$project": {"count": 1, "_id": 0}}], [{"count": 2}]),
    (
        [{"$match": {"_id": {"$lte": 2}}}, {"$project": {"_id": 0, "big": {"$cond": [{"$gte": ["$n", 2]}, "yes", "no"]},
          "s": {"$concat": ["g=", "$g"]}, "k": {"$literal": "$n"}}}],
        [{"big": "no", "s": "g=a", "k": "$n"}, {"big": "yes", "s": "g=b", "k": "$n"}],
    ),
]


@pytest.fixture(scope="module")
def coll(client):
    client.drop_database("aggregate")
    client.aggregate.c.insert_many(DOCUMENTS)
    yield client.aggregate.c
    client.drop_database("aggregate")


@pytest.mark.parametrize("pipeline, expect", CASES, ids=lambda v: str(v)[:60])
def test_pipeline(coll, pipeline, expect):
    assert list(coll.aggregate(pipeline)) == expect


@pytest.mark.parametrize("pipeline, code", [
    ([{"$nope": 1}], 40324),
    ([{"$limit": 0}], 15958),
    ([{"$match": 1}], 15959),
    ([{"$group": {"s": {"$sum": 1}}}], 15955),
    ([{"$project": {"a": {"$nope": 1}}}], 31325),
    ([{"$unwind": "t"}], 28818),
    ([{"$skip": -1}], 5107200),
    ([{"$addFields": {"a": {"$divide": ["$n", 0]}}}], 2),
], ids=str)
def test_error(coll, pipeline, code):
    with pytest.raises(OperationFailure) as caught:
        list(coll.aggregate(pipeline))
    assert caught.value.code == code


def test_date_strings(db):
    db.c.insert_one({"_id": 1, "at": datetime.datetime(2024, 2, 29, 13, 5, 9, 120_000)})
    pipeline = [{"$project": {"_id": 0, "s": {"$dateToString": {"date": "$at", "format": "%Y-%m-%d %H:%M:%S.%L"}}}}]
    assert list(db.c.aggregate(pipeline)) == [{"s": "2024-02-29 13:05:09.120"}]


def test_large_group_and_sort(db):
    db.c.insert_many([{"_id": i, "k": i % 1000} for i in range(20_000)])
    top = list(db.c.aggregate([
        {"$group": {"_id": "$k", "c": {"$sum": 1}, "m": {"$max": "$_id"}}}, {"$sort": {"m": -1}}, {"$limit": 3},
    ]))
    assert top == [{"_id": 999 - i, "c": 20, "m": 19_999 - i} for i in range(3)]
