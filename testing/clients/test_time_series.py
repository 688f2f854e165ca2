"""Time series: buckets behind a view that takes measurements."""

import datetime
import random
import time

import pymongo
import pytest
from bson import ObjectId
from pymongo.errors import BulkWriteError, OperationFailure

from arbor_process import Arbor

BEGIN = datetime.datetime(2026, 1, 1)


def at(seconds):
    return BEGIN + datetime.timedelta(seconds=seconds)


@pytest.fixture
def series(db):
    return db.create_collection("s", timeseries={"timeField": "t", "metaField": "m"})


def code_of(run):
    with pytest.raises(OperationFailure) as caught:
        run()
    return caught.value.code


def buckets(db):
    return list(db["system.buckets.s"].find().sort("_id"))


def test_how_it_is_listed(db, series):
    listed = {e["name"]: e for e in db.command("listCollections")["cursor"]["firstBatch"]}
    assert listed["s"]["type"] == "timeseries"
    options = {"timeField": "t", "metaField": "m", "granularity": "seconds", "bucketMaxSpanSeconds": 3600}
    assert listed["s"]["options"] == {"timeseries": options}
    assert listed["system.buckets.s"]["type"] == "collection"
    assert [(i["name"], i["key"]) for i in series.list_indexes()] == [("m_1_t_1", {"m": 1, "t": 1})]
    stats = db.command("collStats", "s")
    assert stats["timeseries"]["bucketsNs"] == f"{db.name}.system.buckets.s" and stats["timeseries"]["bucketCount"] == 0
    db.command("create", "s", timeseries={"timeField": "t", "metaField": "m"})
    assert code_of(lambda: db.command("create", "s", timeseries={"timeField": "t"})) == 48
    series.drop()
    assert db.list_collection_names() == []


def test_buckets_hold_columns(db, series):
    ids = [ObjectId() for _ in range(3)]
    series.insert_many([{"_id": ids[i], "t": at(i), "m": {"x": 1}, "v": i} for i in range(2)])
    series.insert_one({"_id": ids[2], "t": at(10), "m": {"x": 1}, "w": "s"})
    series.insert_one({"t": at(4000), "m": {"x": 1}, "v": 7})
    series.insert_one({"t": at(1), "m": {"x": 2}, "v": 8})
    series.insert_one({"t": at(1), "v": 9})
    first, *_ = [b for b in buckets(db) if b.get("meta") == {"x": 1}]
    assert first["control"]["min"] == {"_id": ids[0], "t": BEGIN, "v": 0, "w": "s"}
    assert first["control"]["max"] == {"_id": ids[2], "t": at(10), "v": 1, "w": "s"}
    assert first["control"]["version"] == 1 and first["control"]["count"] == 3
    assert first["data"]["v"] == {"0": 0, "1": 1} and first["data"]["w"] == {"2": "s"}
    assert first["_id"].generation_time.replace(tzinfo=None) == BEGIN
    assert len(buckets(db)) == 4
    found = list(series.find({"m.x": 1, "t": {"$lt": at(100)}}))
    assert found[0] == {"t": at(0), "m": {"x": 1}, "_id": ids[0], "v": 0} and list(found[0]) == ["t", "m", "_id", "v"]
    assert found[2] == {"t": at(10), "m": {"x": 1}, "_id": ids[2], "w": "s"}
    assert [d["v"] for d in series.find({"m": {"$exists": False}})] == [9]


def test_buckets_close(db, series):
    series.insert_many([{"t": at(i % 60), "m": 1, "v": i} for i in range(2500)])
    assert [b["control"]["count"] for b in buckets(db)] == [1000, 1000, 500]
    series.insert_many([{"t": at(i), "m": 2, "text": "x" * 20_000} for i in range(10)])
    assert max(len(b["data"]["text"]) for b in buckets(db) if b["meta"] == 2) == 6
    assert series.count_documents({"m": 1}) == 2500 and len(series.distinct("v")) == 2500
    assert db.validate_collection("s")["valid"]


QUERIES = [
    {},
    {"t": {"$gte": at(5000), "$lt": at(9000)}},
    {"t": {"$gt": at(86_000)}},
    {"t": at(300)},
    {"t": {"$in": [at(300), at(7200)]}},
    {"m.id": 3},
    {"m.id": {"$in": [1, 2]}, "t": {"$lt": at(4000)}},
    {"$or": [{"m.id": 1}, {"v": {"$gt": 95}}]},
    {"m.id": {"$not": {"$gt": 2}}, "v": {"$mod": [2, 0]}},
    {"m": {"id": 2, "place": "p0"}},
    {"v": {"$exists": False}},
    {"t": {"$type": "date"}, "m.place": {"$regex": "^p1"}},
    {"t": {"$gt": 5}},
]


def test_same_answers_as_a_plain_collection(db, series):
    chosen = random.Random(3)
    docs = []
    for i in range(2000):
        place = chosen.randrange(3)
        doc = {"_id": i, "t": at(chosen.randrange(0, 86_400, 300)), "m": {"id": chosen.randrange(6), "place": f"p{place}"}}
        if chosen.random() < 0.9:
            doc["v"] = chosen.randrange(100)
        docs.append(doc)
    db.plain.insert_many(docs)
    for begin in range(0, 2000, 170):
        series.insert_many(docs[begin : begin + 170])

    def same():
        for query in QUERIES:
            for options in ({}, {"projection": {"v": 1, "m.id": 1}}, {"sort": [("t", -1), ("_id", 1)], "limit": 17}):
                find = lambda c: [sorted(d.items(), key=str) for d in c.find(query, **options)]
                order = (lambda rows: rows) if "sort" in options else (lambda rows: sorted(rows, key=str))
                assert order(find(series)) == order(find(db.plain)), (query, options)
            assert series.count_documents(query) == db.plain.count_documents(query), query
            assert sorted(series.distinct("v", query)) == sorted(db.plain.distinct("v", query))
            group = [{"$match": query}, {"$group": {"_id": "$m.id", "n": {"$sum": 1}, "v": {"$max": "$v"}}}, {"$sort": {"_id": 1}}]
            assert list(series.aggregate(group)) == list(db.plain.aggregate(group)), query

    same()
    for query in [{"m.id": 5}, {"v": {"$lt": 10}}, {"t": {"$lt": at(3000)}, "m.place": "p2"}]:
        deleted = db.plain.delete_many(query).deleted_count
        assert deleted > 0 and series.delete_many(query).deleted_count == deleted
        same()
    updated = db.plain.update_many({"m.id": 1}, {"$set": {"m.id": 9}}).modified_count
    assert series.update_many({"m.id": 1}, {"$set": {"m.id": 9}}).modified_count == updated
    same()
    late = [{"_id": 5000 + i, "t": at(i), "m": {"id": 9, "place": "p0"}, "v": 1} for i in range(5)]
    db.plain.insert_many(late)
    series.insert_many(late)
    same()
    db.other.insert_many([{"_id": i} for i in range(6)])
    join = [{"$lookup": {"from": "s", "localField": "_id", "foreignField": "m.id", "as": "all"}},
            {"$project": {"n": {"$size": "$all"}}}, {"$sort": {"_id": 1}}]
    counted = [db.plain.count_documents({"m.id": i}) for i in range(6)]
    assert [d["n"] for d in db.other.aggregate(join)] == counted
    assert series.delete_one({"m.id": 2}).deleted_count == 1
    assert db.validate_collection("s")["valid"]


def stages_of(plan):
    cursor = plan["stages"][0]["$cursor"]
    return cursor["queryPlanner"]["winningPlan"], cursor.get("executionStats")


def test_predicates_narrow_the_buckets(db, series):
    series.insert_many([{"t": at(hour * 3600 + i), "m": m, "v": i} for hour in range(24) for m in range(10) for i in range(3)])
    assert len(buckets(db)) == 240

    def examined(query):
        plan, stats = stages_of(db.command("explain", {"find": "s", "filter": query}, verbosity="executionStats"))
        return plan, stats["totalDocsExamined"]

    plan, docs = examined({"m": 4})
    assert plan["inputStage"]["indexName"] == "m_1_t_1" and docs == 24
    plan, docs = examined({"m": 4, "t": {"$gte": at(7200), "$lt": at(7205)}})
    assert docs <= 2
    plan, docs = examined({"t": {"$gte": at(7200), "$lt": at(7205)}})
    assert plan["stage"] == "CLUSTERED_IXSCAN" and docs <= 30
    assert db.command("explain", {"find": "s"})["stages"][1]["$_internalUnpackBucket"]["timeField"] == "t"


def test_bad_measurements(db, series):
    assert code_of(lambda: series.insert_one({"m": 1})) == 2
    assert code_of(lambda: series.insert_one({"t": 5})) == 2
    docs = [{"t": at(0)}, {"t": "x"}, {"t": at(1)}]
    with pytest.raises(BulkWriteError) as caught:
        series.insert_many(docs)
    assert caught.value.details["nInserted"] == 1 and caught.value.details["writeErrors"][0]["index"] == 1
    with pytest.raises(BulkWriteError) as caught:
        series.insert_many([{"t": d["t"]} for d in docs], ordered=False)
    assert caught.value.details["nInserted"] == 2
    assert series.count_documents({}) == 3


@pytest.mark.parametrize(
    "run",
    [
        lambda c: c.update_one({"m": 1}, {"$set": {"m": 2}}),
        lambda c: c.update_many({"v": 1}, {"$set": {"m": 2}}),
        lambda c: c.update_many({"m": 1}, {"$set": {"v": 2}}),
        lambda c: c.update_many({"m": 1}, [{"$set": {"m": 2}}]),
        lambda c: c.update_many({"m": 1}, {"$set": {"m": 2}}, upsert=True),
        lambda c: c.replace_one({"m": 1}, {"m": 2}),
        lambda c: c.find_one_and_update({"m": 1}, {"$set": {"m": 2}}),
        lambda c: c.create_index("v", unique=True),
        lambda c: c.create_index("v", sparse=True),
    ],
)
def test_what_a_time_series_does_not_do(series, run):
    series.insert_one({"t": at(0), "m": 1, "v": 1})
    assert code_of(lambda: run(series)) == 72


@pytest.mark.parametrize(
    "options, code",
    [
        ({"timeseries": {}}, 40414),
        ({"timeseries": {"timeField": "a.b"}}, 72),
        ({"timeseries": {"timeField": "t", "metaField": "t"}}, 72),
        ({"timeseries": {"timeField": "t", "granularity": "days"}}, 2),
        ({"timeseries": {"timeField": "t", "bucketMaxSpanSeconds": 60}}, 72),
        ({"timeseries": {"timeField": "t"}, "capped": True, "size": 5000}, 72),
        ({"timeseries": {"timeField": "t"}, "validator": {}}, 72),
    ],
    ids=str,
)
def test_bad_options(db, options, code):
    assert code_of(lambda: db.command("create", "bad", **options)) == code


def test_indexes_on_measurements(db, series):
    series.insert_many([{"t": at(i), "m": {"a": i % 5, "b": i}, "v": i} for i in range(50)])
    series.create_index([("m.a", 1), ("t", -1)], name="both")
    series.create_index("v")
    keys = {i["name"]: i["key"] for i in series.list_indexes()}
    assert keys == {"m_1_t_1": {"m": 1, "t": 1}, "both": {"m.a": 1, "t": -1}, "v_1": {"v": 1}}
    inner = {i["name"]: i["key"] for i in db["system.buckets.s"].list_indexes()}
    assert inner["both"] == {"meta.a": 1, "control.max.t": -1, "control.min.t": -1}
    assert series.count_documents({"m.a": 3}) == 10
    series.drop_index("both")
    db.command("dropIndexes", "s", index={"v": 1})
    assert [i["name"] for i in series.list_indexes()] == ["m_1_t_1"]


def test_coll_mod(db, series):
    db.command("collMod", "s", timeseries={"granularity": "minutes"})
    options = db.command("listCollections", filter={"name": "s"})["cursor"]["firstBatch"][0]["options"]["timeseries"]
    assert options["granularity"] == "minutes" and options["bucketMaxSpanSeconds"] == 86400
    assert code_of(lambda: db.command("collMod", "s", timeseries={"granularity": "seconds"})) == 72
    series.insert_many([{"t": at(i * 3600), "m": 1} for i in range(24)])
    assert len(buckets(db)) == 1 and series.count_documents({"t": {"$gte": at(3600 * 20)}}) == 4
    assert code_of(lambda: series.rename("other")) == 20
    assert code_of(lambda: db.command("collMod", "s", validator={})) == 72


def test_old_buckets_expire(client, db):
    client.admin.command("setParameter", 1, ttlMonitorSleepSecs=1)
    db.create_collection("x", timeseries={"timeField": "t"}, expireAfterSeconds=3600)
    now = datetime.datetime.now(datetime.timezone.utc)
    db.x.insert_many([{"t": now - datetime.timedelta(days=1, seconds=i)} for i in range(5)] + [{"t": now}])
    deadline = time.monotonic() + 30
    while db.x.count_documents({}) > 1 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert db.x.count_documents({}) == 1
    listed = db.command("listCollections", filter={"name": "x"})["cursor"]["firstBatch"][0]["options"]
    assert listed["expireAfterSeconds"] == 3600
    db.command("collMod", "x", expireAfterSeconds="off")
    listed = db.command("listCollections", filter={"name": "x"})["cursor"]["firstBatch"][0]["options"]
    assert "expireAfterSeconds" not in listed


def test_writers_side_by_side(client, db, series):
    import threading

    def write(n):
        for i in range(20):
            series.insert_many([{"t": at(i), "m": i % 2, "n": n, "i": i, "k": k} for k in range(5)])

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert series.count_documents({}) == 400 and len(buckets(db)) == 2
    assert len(set((d["n"], d["i"], d["k"]) for d in series.find())) == 400


def test_owners_of_different_types(db, series):
    for owner in (1, 1.0, "1", {"a": 1}, {"a": 1.0}, None):
        series.insert_many([{"t": at(0), "m": owner}, {"t": at(1), "m": owner}])
    series.insert_one({"t": at(2)})
    assert [b["control"]["count"] for b in sorted(buckets(db), key=lambda b: -b["control"]["count"])] == [2] * 6 + [1]
    assert sorted(type(d["m"]).__name__ for d in series.find({"m": 1})) == ["float", "float", "int", "int"]


def test_times_outside_of_object_ids(db, series):
    odd = [datetime.datetime(1950, 5, 1), datetime.datetime(1969, 12, 31, 23), datetime.datetime(2200, 1, 1), BEGIN]
    series.insert_many([{"t": t, "m": 1} for t in odd])
    assert [d["t"] for d in series.find().sort("t", 1)] == sorted(odd)
    assert series.count_documents({"t": {"$lt": datetime.datetime(1960, 1, 1)}}) == 1
    assert series.count_documents({"t": {"$gt": datetime.datetime(2150, 1, 1)}}) == 1
    assert series.count_documents({"t": {"$gte": datetime.datetime(1969, 1, 1), "$lte": BEGIN}}) == 2


def test_out_writes_a_time_series(db, series):
    series.insert_many([{"_id": n, "t": at(n), "m": n % 2, "v": n} for n in range(5)])

    def out(match, into="made", **options):
        series.aggregate([{"$match": match}, {"$out": {"db": db.name, "coll": into, **options}}])

    fields = {"timeField": "t", "metaField": "m"}
    out({}, timeseries=fields)
    listed = {e["name"]: e["type"] for e in db.command("listCollections")["cursor"]["firstBatch"]}
    assert listed["made"] == "timeseries" and not [name for name in listed if "tmp.agg_out" in name]
    assert [d["v"] for d in db.made.find().sort("_id")] == [0, 1, 2, 3, 4]
    assert [i["name"] for i in db.made.list_indexes()] == ["m_1_t_1"]

    # a time series stays one, with equal options or without any
    out({"v": {"$lt": 2}})
    assert [d["v"] for d in db.made.find().sort("_id")] == [0, 1]
    assert code_of(lambda: out({}, timeseries={"timeField": "t"})) == 7406103
    # an error leaves the old measurements
    assert code_of(lambda: series.aggregate([{"$unset": "t"}, {"$out": {"db": db.name, "coll": "made"}}])) == 2
    assert db.made.count_documents({}) == 2

    db.plain.insert_one({})
    assert code_of(lambda: out({}, into="plain", timeseries=fields)) == 7268700
    listed = db.list_collection_names()
    assert not [name for name in listed if "tmp.agg_out" in name], listed


def test_partial_indexes_over_measurements(db, series):
    series.insert_many([{"t": at(i * 3600), "m": {"on": i % 2 == 0, "id": i % 5}, "v": i} for i in range(200)])
    made = db.command("createIndexes", "s", indexes=[
        {"key": {"m.id": 1}, "name": "of_meta", "partialFilterExpression": {"m.on": True}},
        {"key": {"v": 1}, "name": "of_value", "partialFilterExpression": {"v": {"$gt": 100}}},
        {"key": {"t": 1}, "name": "of_time", "partialFilterExpression": {"t": {"$gt": at(100 * 3600)}, "m.on": True}},
    ])
    assert (made["numIndexesBefore"], made["numIndexesAfter"]) == (1, 4)
    listed = {index["name"]: index for index in series.list_indexes()}
    assert listed["of_meta"]["partialFilterExpression"] == {"m.on": True} and listed["of_meta"]["key"] == {"m.id": 1}
    assert listed["of_value"]["partialFilterExpression"] == {"v": {"$gt": 100}}
    assert "originalSpec" not in listed["of_value"]
    of_buckets = {index["name"]: index for index in db["system.buckets.s"].list_indexes()}
    assert of_buckets["of_meta"]["partialFilterExpression"] == {"$and": [{"meta.on": {"$eq": True}}]}
    for query in ({"m.id": 2, "m.on": True}, {"m.id": 2}, {"m.id": 2, "m.on": False}, {"t": {"$gt": at(150 * 3600)}, "m.on": True},
                  {"t": {"$gt": at(50 * 3600)}, "m.on": True}, {"v": {"$gt": 150}}):
        expected = sorted(d["v"] for d in series.find(query).hint([("$natural", 1)]))
        assert sorted(d["v"] for d in series.find(query)) == expected, query
    plan, _ = stages_of(db.command("explain", {"find": "s", "filter": {"m.id": 2, "m.on": True}}, verbosity="queryPlanner"))
    assert "of_meta" in str(plan)
    series.insert_one({"t": at(0), "m": {"on": True, "id": 99}, "v": 1})
    assert series.count_documents({"m.id": 99, "m.on": True}) == 1 and series.delete_many({"m.id": 99}).deleted_count == 1
    assert db.validate_collection("s", full=True)["valid"]
    assert code_of(lambda: series.create_index("v", name="x", partialFilterExpression={"v": {"$ne": 1}})) == 67
    series.drop_index("of_value")


def test_measurements_of_some_owners_expire(tmp_path):
    flags = ["--setParameter", "ttlMonitorSleepSecs=1"]
    with Arbor(tmp_path / "data", flags) as arbor, pymongo.MongoClient(arbor.uri) as client:
        db = client.ttl
        series = db.create_collection("s", timeseries={"timeField": "t", "metaField": "m"})
        now = datetime.datetime.now(datetime.timezone.utc)
        old = now - datetime.timedelta(days=2)
        series.insert_many([{"t": t, "m": m} for t in (old, now) for m in ("short", "long")])
        keep_long = {"expireAfterSeconds": 3600, "partialFilterExpression": {"m": "short"}}
        for key, options in (("t", {"expireAfterSeconds": 1}), ("m", keep_long), ("v", keep_long),
                             ("t", {**keep_long, "partialFilterExpression": {"m": "short", "v": 1}})):
            assert code_of(lambda: series.create_index(key, name="bad", **options)) == 72
        series.create_index("t", name="expiring", **keep_long)
        begin = time.monotonic()
        while series.count_documents({"m": "short"}) > 1:
            assert time.monotonic() - begin < 60
            time.sleep(0.1)
        assert series.count_documents({"m": "long"}) == 2 and series.count_documents({}) == 3
        db.command("collMod", "s", index={"name": "expiring", "expireAfterSeconds": 7200})
        assert [index.get("expireAfterSeconds") for index in series.list_indexes()] == [None, 7200]


def test_a_collation_of_a_time_series(db, series):
    own = {"locale": "en", "strength": 2}
    folded = db.create_collection("folded", timeseries={"timeField": "t", "metaField": "m"}, collation=own)
    docs = [{"t": at(i), "m": m, "v": m} for i, m in enumerate(["a", "A", "b"])]
    folded.insert_many(docs)
    series.insert_many(docs)
    for collection in (folded, series):
        for collation, n in ((own, 2), ({"locale": "simple"}, 1)):
            for query in ({"m": "a"}, {"v": "a"}):
                assert len(list(collection.find(query).collation(collation))) == n
                assert collection.count_documents(query, collation=collation) == n
                assert len(list(collection.aggregate([{"$match": query}], collation=collation))) == n
            assert len(collection.distinct("m", collation=collation)) == 4 - n
    assert folded.count_documents({"m": "a"}) == 2 and folded.distinct("m") == ["a", "b"] and series.count_documents({"m": "a"}) == 1
    listed = db.command("listCollections", filter={"name": "folded"})["cursor"]["firstBatch"][0]
    assert listed["options"]["collation"]["strength"] == 2
    assert next(iter(folded.list_indexes()))["collation"]["strength"] == 2
    db.command("collMod", "folded", timeseries={"granularity": "minutes"})
    assert folded.count_documents({"m": "A"}) == 2
    assert folded.delete_many({"m": "a"}).deleted_count == 2 and [d["m"] for d in folded.find()] == ["b"]
    db.create_collection("view", viewOn="folded", pipeline=[], collation=own)
    assert len(list(db["view"].find({"m": "B"}))) == 1
    assert code_of(lambda: list(db["view"].find().collation({"locale": "simple"}))) == 167
