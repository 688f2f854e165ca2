"""$unionWith, $documents, $facet, $bucket, $bucketAuto and $redact through PyMongo."""

import datetime

import pytest
from pymongo.errors import OperationFailure

PAINTERS = [
    {"_id": 1, "name": "Ada", "born": 1861, "died": 1927, "nation": "NO", "works": 11},
    {"_id": 2, "name": "Bo", "born": 1853, "died": 1890, "nation": "NL", "works": 7},
    {"_id": 3, "name": "Cy", "born": 1840, "died": 1926, "nation": "FR", "works": 20},
    {"_id": 4, "name": "Di", "born": 1841, "died": 1919, "nation": "FR", "works": 2},
    {"_id": 5, "name": "Ed", "born": 1907, "died": 1954, "nation": "MX", "works": 5},
]


@pytest.fixture
def coll(db):
    db.painters.insert_many(PAINTERS)
    return db.painters


def refused(run, code, text=""):
    with pytest.raises(OperationFailure) as caught:
        list(run())
    assert caught.value.code == code, caught.value
    assert text in str(caught.value)


def test_union_with(db, coll):
    db.sculptors.insert_many([{"_id": n, "nation": "IT", "works": n} for n in range(1, 301)])
    both = list(coll.aggregate([{"$unionWith": "sculptors"}]))
    assert len(both) == 305 and both[0]["name"] == "Ada" and both[-1] == {"_id": 300, "nation": "IT", "works": 300}
    few = [{"$match": {"nation": "FR"}},
           {"$unionWith": {"coll": "sculptors", "pipeline": [{"$match": {"works": {"$gt": 299}}}]}},
           {"$project": {"works": 1, "_id": 0}}]
    assert list(coll.aggregate(few)) == [{"works": 20}, {"works": 2}, {"works": 300}]
    nested = [{"$limit": 1}, {"$unionWith": {"coll": "sculptors", "pipeline": [
        {"$limit": 1}, {"$unionWith": {"coll": "painters", "pipeline": [{"$skip": 4}]}}]}}, {"$project": {"_id": 1}}]
    assert [doc["_id"] for doc in coll.aggregate(nested)] == [1, 1, 5]
    sums = [{"$unionWith": "sculptors"}, {"$group": {"_id": "$nation", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]
    assert list(coll.aggregate(sums))[1] == {"_id": "IT", "n": 300}
    assert len(list(coll.aggregate([{"$unionWith": "nothing_there"}]))) == 5
    # in small batches
    assert len(list(coll.aggregate([{"$unionWith": "sculptors"}], batchSize=7))) == 305
    own = [{"$unionWith": {"pipeline": [{"$documents": [{"a": 1}, {"a": 2}]}, {"$match": {"a": 2}}]}}, {"$skip": 5}]
    assert list(coll.aggregate(own)) == [{"a": 2}]
    deep = [{"$match": {}}]
    for _ in range(25):
        deep = [{"$unionWith": {"coll": "painters", "pipeline": deep}}]
    refused(lambda: coll.aggregate(deep), 232)
    refused(lambda: coll.aggregate([{"$unionWith": 1}]), 9)
    refused(lambda: coll.aggregate([{"$unionWith": {"coll": "x", "y": 1}}]), 40415)
    refused(lambda: coll.aggregate([{"$unionWith": {"pipeline": []}}]), 9, "$documents as first stage")
    refused(lambda: coll.aggregate([{"$unionWith": {"coll": "x", "pipeline": [{"$out": "y"}]}}]), 31441)


def test_documents(db, coll):
    assert list(db.aggregate([{"$documents": [{"x": 10}, {"x": 2}, {"x": 5}]}, {"$sort": {"x": 1}}, {"$limit": 2}])) == [
        {"x": 2}, {"x": 5}]
    assert list(db.aggregate([{"$documents": {"$map": {"input": [1, 2], "in": {"n": "$$this"}}}}])) == [{"n": 1}, {"n": 2}]
    names = [{"code": "FR", "full": "France"}, {"code": "NO", "full": "Norway"}]
    joined = [{"$match": {"_id": {"$in": [1, 2]}}},
              {"$lookup": {"localField": "nation", "foreignField": "code", "as": "where",
                           "pipeline": [{"$documents": names}, {"$project": {"full": 1}}]}},
              {"$project": {"where": 1}}]
    assert list(coll.aggregate(joined)) == [{"_id": 1, "where": [{"full": "Norway"}]}, {"_id": 2, "where": []}]
    refused(lambda: db.aggregate([{"$documents": 1}]), 5858203)
    refused(lambda: coll.aggregate([{"$documents": []}]), 73)
    refused(lambda: coll.aggregate([{"$match": {}}, {"$documents": []}]), 40602)
    refused(lambda: db.aggregate([{"$match": {}}]), 73)


def test_facet(db, coll):
    pipeline = [
        {"$match": {"_id": {"$gt": 1}}},
        {"$facet": {
            "byNation": [{"$sortByCount": "$nation"}, {"$limit": 1}],
            "amount": [{"$count": "n"}],
            "none": [{"$match": {"_id": 77}}],
            "joined": [{"$limit": 1}, {"$lookup": {"from": "painters", "localField": "_id", "foreignField": "_id", "as": "o"}},
                       {"$project": {"o.name": 1}}],
        }},
        {"$addFields": {"n": {"$first": "$amount.n"}}},
    ]
    assert list(coll.aggregate(pipeline)) == [
        {"byNation": [{"_id": "FR", "count": 2}], "amount": [{"n": 4}], "none": [],
         "joined": [{"_id": 2, "o": [{"name": "Bo"}]}], "n": 4}]
    assert list(db.nothing.aggregate([{"$facet": {"a": [{"$count": "n"}]}}])) == [{"a": []}]
    refused(lambda: coll.aggregate([{"$facet": {}}]), 40169)
    refused(lambda: coll.aggregate([{"$facet": {"a": 1}}]), 40170)
    refused(lambda: coll.aggregate([{"$facet": {"a": [1]}}]), 40171)
    refused(lambda: coll.aggregate([{"$facet": {"a.b": [{"$limit": 1}]}}]), 16412)
    for stage in [{"$facet": {"b": [{"$limit": 1}]}}, {"$out": "x"}, {"$documents": []}, {"$indexStats": {}}]:
        refused(lambda: coll.aggregate([{"$facet": {"a": [stage]}}]), 40600, "is not allowed to be used within a $facet stage")


def test_a_document_too_large_for_a_client_is_refused(db):
    db.big.insert_many([{"_id": n, "x": "x" * 1_000_000} for n in range(18)])
    refused(lambda: db.big.aggregate([{"$facet": {"all": [{"$match": {}}]}}]), 10334)
    taken_apart = [{"$facet": {"all": [{"$match": {}}]}}, {"$unwind": "$all"}, {"$count": "n"}]
    assert list(db.big.aggregate(taken_apart)) == [{"n": 18}]


def test_bucket(coll):
    pipeline = [{"$bucket": {"groupBy": "$born", "boundaries": [1840, 1850, 1860, 1870], "default": "Other",
                             "output": {"count": {"$sum": 1}, "names": {"$push": "$name"}}}}]
    assert list(coll.aggregate(pipeline)) == [
        {"_id": 1840, "count": 2, "names": ["Cy", "Di"]},
        {"_id": 1850, "count": 1, "names": ["Bo"]},
        {"_id": 1860, "count": 1, "names": ["Ada"]},
        {"_id": "Other", "count": 1, "names": ["Ed"]},
    ]
    refused(lambda: coll.aggregate([{"$bucket": {"groupBy": "$born", "boundaries": [0, 10]}}]), 40066)
    refused(lambda: coll.aggregate([{"$bucket": {"groupBy": "$born", "boundaries": [10, 0]}}]), 40194)


BUCKETS = [
    (None, [(0, 20, 20), (20, 40, 20), (40, 60, 20), (60, 80, 20), (80, 99, 20)]),
    ("R5", [(0, 25, 25), (25, 63, 38), (63, 100, 37)]),
    ("R20", [(0, 20, 20), (20, 40, 20), (40, 63, 23), (63, 90, 27), (90, 100, 10)]),
    ("1-2-5", [(0, 20, 20), (20, 50, 30), (50, 100, 50)]),
    ("E24", [(0, 20, 20), (20, 43, 23), (43, 68, 25), (68, 91, 23), (91, 100, 9)]),
    ("POWERSOF2", [(0, 32, 32), (32, 64, 32), (64, 128, 36)]),
]


@pytest.mark.parametrize("granularity, expect", BUCKETS, ids=lambda value: str(value)[:10])
def test_bucket_auto(db, granularity, expect):
    db.things.insert_many([{"_id": n, "v": n} for n in range(99, -1, -1)])
    spec = {"groupBy": "$v", "buckets": 5} | ({"granularity": granularity} if granularity else {})
    found = [(doc["_id"]["min"], doc["_id"]["max"], doc["count"]) for doc in db.things.aggregate([{"$bucketAuto": spec}])]
    assert found == expect


def test_redact(db):
    db.forecasts.insert_one({
        "_id": 1, "title": "one", "tags": ["G", "STLW"], "year": 2014,
        "subsections": [
            {"subtitle": "a", "tags": ["SI", "G"], "content": "x"},
            {"subtitle": "b", "tags": ["STLW"], "content": "y"},
            {"subtitle": "c", "tags": ["TK"], "content": {"text": "z", "tags": ["HCS"]}},
        ],
    })
    access = ["STLW", "G"]
    shown = {"$redact": {"$cond": {"if": {"$gt": [{"$size": {"$setIntersection": ["$tags", access]}}, 0]},
                                   "then": "$$DESCEND", "else": "$$PRUNE"}}}
    found = list(db.forecasts.aggregate([{"$match": {"year": 2014}}, shown]))
    assert [part["subtitle"] for part in found[0]["subsections"]] == ["a", "b"]
    refused(lambda: db.forecasts.aggregate([{"$redact": "$title"}]), 17053)


def test_time_limits_interrupt(db):
    db.c.insert_many([{"_id": n} for n in range(2000)])
    cross = {"$lookup": {"from": "c", "as": "o", "pipeline": [{"$match": {"x": 1}}]}}
    refused(lambda: db.c.aggregate([{"$facet": {"a": [cross]}}], maxTimeMS=30), 50)
    refused(lambda: db.c.aggregate([{"$unionWith": {"coll": "c", "pipeline": [cross]}}], maxTimeMS=30), 50)


def test_explain_names_the_stages(db, coll):
    stages = [{"$unionWith": "x"}, {"$facet": {"a": [{"$limit": 1}]}}]
    explained = db.command("explain", {"aggregate": "painters", "pipeline": stages, "cursor": {}})
    assert [next(iter(stage)) for stage in explained["stages"]] == ["$cursor", "$unionWith", "$facet"]
