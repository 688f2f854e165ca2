"""A sharded cluster of real processes: config server, two shards, a router. It must answer as one server does."""

import contextlib
import os
import random
import threading

import bson
import pymongo
import pytest
from pymongo.errors import BulkWriteError, OperationFailure

from arbor_cluster import Cluster
from mongosh import run_mongosh


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        yield Cluster(tmp_path_factory.mktemp("cluster"), stack)


@pytest.fixture(scope="module")
def routed(cluster):
    with cluster.routers[0].client() as client:
        yield client


@pytest.fixture(scope="module")
def other(cluster):
    """A client of another router."""
    with cluster.routers[1].client() as client:
        yield client


def code_of(call):
    with pytest.raises(OperationFailure) as caught:
        call()
    return caught.value.details.get("code")


def test_the_router_shows_a_cluster(cluster, routed):
    hello = routed.admin.command("hello")
    assert hello["msg"] == "isdbgrid" and hello["isWritablePrimary"] and "setName" not in hello
    assert [shard["_id"] for shard in routed.admin.command("listShards")["shards"]] == ["s0", "s1"]
    assert routed.admin.command("addShard", cluster.shards[0].hosts)["shardAdded"] == "s0"
    assert routed.admin.command("getShardMap")["map"]["s1"] == cluster.shards[1].hosts
    assert routed.admin.command("balancerStatus")["mode"] == "full"
    assert routed.admin.command("serverStatus")["process"] == "mongos"
    assert isinstance(routed.config.version.find_one()["clusterId"], bson.ObjectId)
    assert code_of(lambda: routed.admin.command("addShard", "s9/127.0.0.1:1")) == 96
    assert code_of(lambda: routed.admin.command("addShard", "nowhere")) == 9
    assert code_of(lambda: routed.admin.command("addShard", cluster.config.hosts)) == 96
    assert code_of(lambda: routed.admin.command("removeShard", "s9")) == 70
    with cluster.shards[0].client() as direct:
        assert code_of(lambda: direct.admin.command("addShard", "x/y:1")) == 59


def pairs(db, server, key, hashed):
    """A collection through the router, sharded, and one of the same content on a single server."""
    routed_db, _ = db
    name = f"c{'h' if hashed else 'r'}"
    for one in (routed_db, server):
        one[name].drop()
    client = routed_db.client
    client.admin.command("shardCollection", f"{routed_db.name}.{name}", key={key: "hashed" if hashed else 1})
    if not hashed:
        for middle in (25, 50, 75):
            client.admin.command("split", f"{routed_db.name}.{name}", middle={key: middle})
    server[name].create_index([(key, "hashed" if hashed else 1)])
    return routed_db[name], server[name]


PIPELINES = [
    [{"$group": {"_id": "$a", "n": {"$sum": 1}, "low": {"$min": "$b"}, "high": {"$max": "$b"}}}, {"$sort": {"_id": 1}}],
    [{"$group": {"_id": "$a", "mean": {"$avg": "$b"}}}, {"$sort": {"_id": 1}}],
    [{"$match": {"b": {"$gt": 20}}}, {"$sort": {"b": -1, "_id": 1}}, {"$skip": 3}, {"$limit": 7}],
    [{"$match": {"k": {"$gte": 30, "$lt": 60}}}, {"$count": "n"}],
    [{"$match": {"a": 99}}, {"$count": "n"}],
    [{"$set": {"c": {"$add": ["$a", "$b"]}}}, {"$sortByCount": "$c"}, {"$sort": {"count": -1, "_id": 1}}],
    [{"$facet": {"x": [{"$count": "n"}], "y": [{"$sort": {"_id": 1}}, {"$limit": 2}]}}],
    [{"$sort": {"_id": 1}}, {"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"s": {"$sum": "$b", "window": {
        "documents": ["unbounded", "current"]}}}}}],
    [{"$bucket": {"groupBy": "$b", "boundaries": [0, 30, 60, 100], "default": "other"}}],
]


@pytest.mark.parametrize("hashed", [False, True])
def test_random_work_gives_the_same_answers(cluster, routed, server, hashed):
    seed = int(os.environ.get("ARBOR_SEED", "7"))
    rng = random.Random(seed)
    with pymongo.MongoClient(server.uri) as single:
        many, one = pairs((routed["rand"], None), single["router_rand"], "k", hashed)
        for step in range(300):
            k, a, b = rng.randrange(100), rng.randrange(8), rng.randrange(100)
            # the shard key may be left out: such statements go to all shards
            query = rng.choice([{"k": k}, {"_id": rng.randrange(step + 1)}, {"a": a, "k": k}, {"k": {"$in": [k, b]}}])
            kind = rng.randrange(7)
            if kind <= 2:
                docs = [{"_id": step * 10 + n, "k": rng.randrange(100), "a": a, "b": rng.randrange(100)} for n in range(3)]
                work = lambda c: c.insert_many([dict(doc) for doc in docs]).inserted_ids
            elif kind == 3:
                work = lambda c: c.update_many({"a": a}, {"$inc": {"b": 1}}).modified_count
            elif kind == 4:
                by_id = {"_id": query.get("_id", step)}
                work = lambda c: c.update_one(by_id, {"$set": {"b": b}}).matched_count
            elif kind == 5:
                work = lambda c: c.delete_many(query).deleted_count
            else:
                work = lambda c: c.find_one_and_update({"k": k, "_id": k * 10}, {"$set": {"x": step}})
            assert work(many) == work(one), (seed, step, kind)
            if step % 10 == 0:
                for find in ({}, query, {"b": {"$lt": 50}}):
                    assert many.count_documents(find) == one.count_documents(find), (seed, step, find)
                    expected = list(one.find(find, {"x": 0}).sort([("b", -1), ("_id", 1)]).skip(2).limit(20))
                    got = list(many.find(find, {"x": 0}).sort([("b", -1), ("_id", 1)]).skip(2).limit(20).batch_size(3))
                    assert got == expected, (seed, step, find)
                assert sorted(many.distinct("a")) == sorted(one.distinct("a"))
                for pipeline in PIPELINES:
                    assert list(many.aggregate(pipeline)) == list(one.aggregate(pipeline)), (seed, step, pipeline)
        everything = list(one.find().sort("_id", 1))
        assert everything and list(many.find().sort("_id", 1)) == everything
        assert sorted(many.find().batch_size(5), key=lambda doc: doc["_id"]) == everything


def test_writes_are_split_and_errors_keep_their_places(routed):
    collection = routed.split.c
    routed.admin.command("shardCollection", "split.c", key={"_id": "hashed"})
    collection.insert_many([{"_id": n} for n in range(200)])
    shards = {chunk["shard"] for chunk in routed.config.chunks.find()}
    assert shards == {"s0", "s1"}
    with pytest.raises(BulkWriteError) as caught:
        collection.insert_many([{"_id": n} for n in (500, 3, 501, 4, 502)], ordered=False)
    details = caught.value.details
    assert [(error["index"], error["code"]) for error in details["writeErrors"]] == [(1, 11000), (3, 11000)]
    assert details["nInserted"] == 3
    with pytest.raises(BulkWriteError) as caught:
        collection.insert_many([{"_id": n} for n in (600, 601, 5, 602)])
    assert caught.value.details["nInserted"] == 2 and caught.value.details["writeErrors"][0]["index"] == 2
    assert collection.find_one({"_id": 602}) is None
    assert collection.replace_one({"_id": 7}, {"_id": 7, "x": 1}).modified_count == 1
    upserted = collection.update_one({"_id": 900}, {"$set": {"x": 1}}, upsert=True)
    assert upserted.upserted_id == 900
    assert collection.delete_one({"x": 1, "_id": 900}).deleted_count == 1
    plan = collection.find({"_id": 5}).explain()["queryPlanner"]["winningPlan"]
    assert plan["stage"] == "SINGLE_SHARD" and len(plan["shards"]) == 1
    explained = collection.find({"x": 5}).explain()
    assert explained["explainVersion"] == "1" and len(explained["queryShapeHash"]) == 64 and "serverParameters" in explained
    plan = explained["queryPlanner"]["winningPlan"]
    assert plan["stage"] == "SHARD_MERGE" and {shard["shardName"] for shard in plan["shards"]} == {"s0", "s1"}


def test_bad_input(routed):
    collection = routed.bad.c
    admin = routed.admin
    for key in ({}, {"a": -1}, {"a": "text"}, {"a": "hashed", "b": "hashed"}):
        assert code_of(lambda: admin.command("shardCollection", "bad.c", key=key)) == 2
    assert code_of(lambda: admin.command("shardCollection", "bad.c", key={"a": "hashed"}, unique=True)) == 72
    collection.insert_one({"a": 1})
    assert code_of(lambda: admin.command("shardCollection", "bad.c", key={"a": 1})) == 72, "there is no index"
    collection.create_index("a")
    admin.command("shardCollection", "bad.c", key={"a": 1})
    admin.command("shardCollection", "bad.c", key={"a": 1})
    assert code_of(lambda: admin.command("shardCollection", "bad.c", key={"b": 1})) == 23
    assert code_of(lambda: collection.insert_one({"a": [1]})) == 61
    assert code_of(lambda: collection.update_many({"b": 1}, {"$set": {"c": 1}}, upsert=True)) == 61
    assert code_of(lambda: collection.update_many({"a": 1}, {"$set": {"a": 2}})) == 72
    assert collection.replace_one({"a": 1}, {"a": 2}, upsert=True).modified_count == 1
    assert code_of(lambda: collection.create_index("b", unique=True)) == 67
    collection.create_index([("a", 1), ("b", 1)], unique=True)
    assert code_of(lambda: admin.command("split", "bad.c", middle={"b": 1})) == 2
    assert code_of(lambda: admin.command("split", "bad.unsharded", middle={"a": 1})) == 118
    assert code_of(lambda: admin.command("split", "bad.c", middle={"a": bson.MinKey()})) == 2
    assert code_of(lambda: admin.command("movePrimary", "nowhere", to="s0")) == 26
    assert code_of(lambda: admin.command("noSuchCommand")) == 59
    routed.bad.command("create", "v", viewOn="c", pipeline=[])
    assert code_of(lambda: list(routed.bad.v.find({}, show_record_id=True))) == 168
    assert code_of(lambda: routed.bad.v.insert_one({"a": 1})) == 166


def test_chunks_and_zones(routed):
    admin = routed.admin
    admin.command("shardCollection", "zone.c", key={"a": 1})
    routed.zone.c.insert_many([{"a": n} for n in range(100)])
    admin.command("split", "zone.c", find={"a": 3})
    uuid = routed.config.collections.find_one({"_id": "zone.c"})["uuid"]
    bounds = [chunk["min"]["a"] for chunk in routed.config.chunks.find({"uuid": uuid}).sort("min", 1)]
    assert len(bounds) == 2 and bounds[1] == 50
    admin.command("split", "zone.c", middle={"a": 10})
    low, high = {"a": bson.MinKey()}, {"a": 50}
    admin.command("mergeChunks", "zone.c", bounds=[low, high])
    assert routed.config.chunks.count_documents({"uuid": uuid}) == 2
    assert routed.zone.c.count_documents({}) == 100
    admin.command("addShardToZone", "s0", zone="EU")
    admin.command("updateZoneKeyRange", "zone.c", min={"a": 0}, max={"a": 10}, zone="EU")
    overlapping = lambda: admin.command("updateZoneKeyRange", "zone.c", min={"a": 5}, max={"a": 20}, zone="EU")
    assert code_of(overlapping) == 178
    assert code_of(lambda: admin.command("removeShardFromZone", "s0", zone="EU")) == 163
    admin.command("updateZoneKeyRange", "zone.c", min={"a": 0}, max={"a": 10}, zone=None)
    admin.command("removeShardFromZone", "s0", zone="EU")


def test_another_router_with_an_old_table_is_never_wrong(cluster, routed, other):
    """Its requests are refused by the shards, and it reads the table again; its client sees nothing of it."""
    db = routed.stale
    other.stale.c.insert_one({"_id": 0})
    assert other.stale.c.count_documents({}) == 1
    primary = routed.config.databases.find_one({"_id": "stale"})["primary"]
    routed.admin.command("shardCollection", "stale.d", key={"_id": "hashed"})
    assert other.stale.d.count_documents({}) == 0
    other.stale.d.insert_many([{"_id": n} for n in range(100)])
    db.d.drop()
    other.stale.d.insert_one({"_id": 1})
    assert db.d.count_documents({}) == 1 and routed.config.collections.find_one({"_id": "stale.d"}) is None
    target = "s1" if primary == "s0" else "s0"
    db.c.create_index("x")
    routed.admin.command("movePrimary", "stale", to=target)
    assert other.stale.c.find_one() == {"_id": 0} and "x_1" in other.stale.c.index_information()
    other.stale.c.insert_one({"_id": 2})
    by_name = {shard.name: shard for shard in cluster.shards}
    with by_name[target].client() as new, by_name[primary].client() as old:
        assert new.stale.c.count_documents({}) == 2 and "c" not in old.stale.list_collection_names()


def test_transactions(routed):
    routed.admin.command("shardCollection", "txn.c", key={"_id": "hashed"})
    collection = routed.txn.c
    collection.insert_many([{"_id": n, "v": 0} for n in range(50)])
    with routed.start_session() as session:
        with session.start_transaction():
            collection.update_one({"_id": 1}, {"$set": {"v": 1}}, session=session)
            assert collection.find_one({"_id": 1}, session=session)["v"] == 1
            assert collection.find_one({"_id": 1})["v"] == 0
        assert collection.find_one({"_id": 1})["v"] == 1
        session.start_transaction()
        collection.update_one({"_id": 1}, {"$set": {"v": 2}}, session=session)
        session.abort_transaction()
        assert collection.find_one({"_id": 1})["v"] == 1
        with session.start_transaction():
            assert len(list(collection.find({"v": 0}, session=session))) == 49


JOINS = [
    [{"$lookup": {"from": "other", "localField": "a", "foreignField": "k", "as": "found"}}, {"$sort": {"_id": 1}}],
    [{"$lookup": {"from": "plain", "localField": "a", "foreignField": "k", "as": "found"}}, {"$unwind": "$found"}, {"$sort": {"_id": 1, "found._id": 1}}],
    [{"$lookup": {"from": "other", "let": {"a": "$a", "gone": "$gone"}, "as": "found", "pipeline": [
        {"$match": {"$expr": {"$and": [{"$eq": ["$k", "$$a"]}, {"$ne": ["$k", "$$gone"]}]}}}, {"$sort": {"_id": 1}},
        {"$lookup": {"from": "plain", "localField": "k", "foreignField": "k", "as": "inner"}},
        {"$set": {"inner": {"$size": "$inner"}}}]}}, {"$sort": {"_id": 1}}],
    [{"$match": {"k": 3}}, {"$lookup": {"from": "seen", "localField": "a", "foreignField": "k", "as": "found"}}],
    [{"$graphLookup": {"from": "other", "startWith": "$a", "connectFromField": "next", "connectToField": "k", "as": "reached",
                       "depthField": "d", "restrictSearchWithMatch": {"k": {"$gt": 1}}}},
     {"$set": {"reached": {"$sortArray": {"input": "$reached", "sortBy": {"_id": 1}}}}}, {"$sort": {"_id": 1}}],
    [{"$project": {"a": 1}}, {"$unionWith": {"coll": "other", "pipeline": [{"$match": {"k": {"$lt": 4}}}]}}, {"$unionWith": "plain"},
     {"$group": {"_id": "$_id", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}],
    [{"$facet": {"x": [{"$lookup": {"from": "other", "localField": "a", "foreignField": "k", "as": "f"}}, {"$unwind": "$f"},
                       {"$count": "n"}], "y": [{"$count": "n"}]}}],
]


def test_stages_over_other_collections(routed, server):
    with pymongo.MongoClient(server.uri) as single:
        one, many = single.router_joins, routed.joins
        routed.admin.command("shardCollection", "joins.c", key={"k": "hashed"})
        routed.admin.command("shardCollection", "joins.other", key={"k": "hashed"})
        for db in (one, many):
            db.c.insert_many([{"_id": n, "k": n, "a": n % 7 if n % 9 else [1, n % 7]} for n in range(40)])
            db.other.insert_many([{"_id": f"o{n}", "k": n % 11 if n % 10 else None, "next": n % 5 + 3} for n in range(30)])
            db.plain.insert_many([{"_id": f"p{n}", "k": n % 5} for n in range(15)])
            db.command("create", "seen", viewOn="other", pipeline=[{"$match": {"k": {"$gte": 0}}}, {"$sort": {"_id": 1}}])
            db.command("create", "joined", viewOn="plain", pipeline=[
                {"$lookup": {"from": "other", "localField": "k", "foreignField": "k", "as": "found"}}])

        def unordered(documents):
            def plain(value):
                if isinstance(value, dict):
                    return {name: plain(inner) for name, inner in value.items()}
                # what a $lookup finds has no order
                return sorted((plain(inner) for inner in value), key=repr) if isinstance(value, list) else value

            return [plain(document) for document in documents]

        for pipeline in JOINS:
            for name in ("c", "other", "plain"):
                expected = unordered(one[name].aggregate(pipeline))
                assert unordered(many[name].aggregate(pipeline)) == expected, (name, pipeline)
                assert unordered(many[name].aggregate(pipeline, batchSize=2)) == expected, (name, pipeline)
        for view in ("seen", "joined"):
            by_id = lambda db: unordered(db[view].find({"k": {"$lt": 4}}, {"next": 0}).sort("_id", -1).skip(2).limit(5))
            assert by_id(many) == by_id(one)
            assert many[view].count_documents({"k": 2}) == one[view].count_documents({"k": 2}) > 0
            assert many.command("count", view, query={"k": 2})["n"] == one.command("count", view, query={"k": 2})["n"]
            assert many[view].distinct("k", {"k": {"$gt": 1}}) == one[view].distinct("k", {"k": {"$gt": 1}})
        assert sorted(many.joined.distinct("found.next")) == sorted(one.joined.distinct("found.next"))


def test_out_and_merge(routed, server):
    with pymongo.MongoClient(server.uri) as single:
        one, many = single.router_sinks, routed.sinks
        for name, key in (("c", {"_id": "hashed"}), ("sharded", {"_id": "hashed"}), ("ranged", {"_id": 1})):
            routed.admin.command("shardCollection", f"sinks.{name}", key=key)
        many.command("create", "plain")
        for db in (one, many):
            db.c.insert_many([{"_id": n, "a": n % 7} for n in range(2500)])
            db.out.insert_one({"_id": "old"})
            db.out.create_index("a")
            for target in ("sharded", "plain"):
                db[target].insert_many([{"_id": n, "b": n} for n in range(0, 3000, 2)])
        sinks = [{"$out": "out"}, {"$out": {"db": many.name, "coll": "new"}}]
        for stage in [*sinks, *({"$merge": into} for into in ("sharded", "plain", "ranged", {"into": "created"}))]:
            shown = {"$out": {"db": one.name, "coll": "new"}} if stage == sinks[1] else stage
            assert list(many.c.aggregate([{"$set": {"x": 1}}, stage])) == []
            one.c.aggregate([{"$set": {"x": 1}}, shown])
        matched = {"whenMatched": [{"$set": {"y": {"$add": ["$a", "$$new.a", "$$v"]}}}], "let": {"v": 5, "new": "$$ROOT"}}
        for target in ("sharded", "plain"):
            for options in (matched, {"whenMatched": "replace", "whenNotMatched": "discard"}, {"whenMatched": "keepExisting"}):
                for db in (one, many):
                    db.c.aggregate([{"$match": {"_id": {"$lt": 100}}}, {"$merge": {"into": target, **options}}])
            for db in (one, many):
                assert code_of(lambda: db.c.aggregate([{"$merge": {"into": target, "whenMatched": "fail"}}])) == 11000
                missing = [{"$set": {"_id": {"$concat": ["x", {"$toString": "$_id"}]}}}]
                stage = {"$merge": {"into": target, "whenNotMatched": "fail"}}
                assert code_of(lambda: db.c.aggregate([*missing, stage])) == 13113
        for target in ("out", "new", "sharded", "plain", "ranged", "created"):
            expected = list(one[target].find().sort("_id", 1))
            assert expected and list(many[target].find().sort("_id", 1)) == expected, target
        assert "a_1" in many.out.index_information()
        assert code_of(lambda: many.c.aggregate([{"$out": "sharded"}])) == 28769
        # nothing is left behind, and nothing is where it does not belong
        assert not [name for name in many.list_collection_names() if name.startswith("tmp.")]
        assert many.sharded.count_documents({"_id": 7}) == 1


def test_users_are_on_the_config_servers(cluster, routed, other):
    routed.users.command("createUser", "ann", pwd="secret", roles=["read"])
    (user,) = other.users.command("usersInfo", "ann")["users"]
    assert user["roles"] == [{"role": "read", "db": "users"}]
    with cluster.config.client() as direct:
        assert direct.admin["system.users"].count_documents({"user": "ann"}) == 1
    for shard in cluster.shards:
        with shard.client() as direct:
            assert direct.admin["system.users"].count_documents({}) == 0
    assert code_of(lambda: other.users.command("createUser", "ann", pwd="secret", roles=[])) == 51003
    other.users.command("dropUser", "ann")
    assert routed.users.command("usersInfo", "ann")["users"] == []


def test_commands_for_the_whole_cluster(cluster, routed):
    admin = routed.admin
    admin.command("setFeatureCompatibilityVersion", "7.0", confirm=True)
    try:
        for member in [cluster.config, *cluster.shards]:
            with member.client() as direct:
                shown = direct.admin.command("getParameter", featureCompatibilityVersion=1)["featureCompatibilityVersion"]
                assert shown["version"] == "7.0"
    finally:
        admin.command("setFeatureCompatibilityVersion", "8.0", confirm=True)
    assert code_of(lambda: admin.command("setFeatureCompatibilityVersion", "8", confirm=True)) == 4926900
    assert admin.command("fsync")["ok"] == 1
    checked = admin.command("validateDBMetadata", apiParameters={"version": "1"}, db="nowhere")
    assert checked["apiVersionErrors"] == []
    assert admin.command("getDefaultRWConcern")["ok"] == 1
    assert code_of(lambda: admin.command("commitTransaction")) == 125
    for name in ("top", "lockInfo", "replSetGetConfig", "autoCompact"):
        assert code_of(lambda: admin.command(name)) == 59, name


def test_options_are_read_as_one_server_reads_them(routed):
    db = routed["options"]
    routed.admin.command("shardCollection", "options.c", key={"_id": "hashed"})
    db.c.insert_many([{"_id": n, "text": "x" * 1000} for n in range(50)])
    for yes in (bson.Decimal128("NaN"), bson.Decimal128("0.1"), 1.5, True):
        listed = routed.admin.command("listDatabases", nameOnly=yes)
        assert "totalSize" not in listed and all(list(one) == ["name"] for one in listed["databases"])
    assert code_of(lambda: routed.admin.command("listDatabases", nameOnly="x")) == 14
    assert routed.admin.command("listDatabases", nameOnly=True, filter={"sizeOnDisk": {"$gte": 0}})["databases"] == []
    assert code_of(lambda: db.command("killCursors", "c", cursors=[bson.Int64(5)], readConcern={"level": "majority"})) == 72
    assert db.command("find", "c", readConcern={"level": "majority"})["ok"] == 1
    plain, scaled = db.command("dbStats"), db.command("dbStats", scale=1024)
    assert 1000 < plain["avgObjSize"] == scaled["avgObjSize"] and scaled["dataSize"] < plain["dataSize"]
    db.source.insert_one({"_id": 1})
    db.source.aggregate([{"$merge": {"into": {"db": "", "coll": "merged"}}}])
    db.source.aggregate([{"$merge": {"into": {"db": "", "coll": "c"}}}])
    assert db.merged.count_documents({}) == 1 and db.c.count_documents({}) == 50
    assert routed.nowhere.command("dropDatabase").get("dropped") is None
    assert db.command("dropDatabase")["dropped"] == "options"


def test_the_plans_of_each_shard_are_shown(routed):
    db = routed.plans
    routed.admin.command("shardCollection", "plans.c", key={"_id": "hashed"})
    db.c.insert_many([{"_id": n, "a": n, "b": n} for n in range(100)])
    db.c.create_indexes([pymongo.IndexModel("a"), pymongo.IndexModel("b")])
    list(db.c.find({"a": 5, "b": 5}))
    entries = list(db.c.aggregate([{"$planCacheStats": {}}]))
    assert {entry["shard"] for entry in entries} == {"s0", "s1"} and len({entry["host"] for entry in entries}) == 2
    db.command("planCacheClear", "c")
    assert list(db.c.aggregate([{"$planCacheStats": {}}])) == []


def test_a_shard_restarts(cluster, routed):
    routed.admin.command("shardCollection", "again.c", key={"_id": "hashed"})
    routed.again.c.insert_many([{"_id": n} for n in range(100)])
    for shard in cluster.shards:
        shard.kill()
        shard.start()
    assert routed.again.c.count_documents({}) == 100
    routed.again.c.insert_many([{"_id": n} for n in range(100, 200)])
    assert len(list(routed.again.c.find())) == 200


def test_drop(routed):
    routed.admin.command("shardCollection", "gone.c", key={"_id": "hashed"})
    routed.gone.c.insert_many([{"_id": n} for n in range(10)])
    routed.drop_database("gone")
    assert "gone" not in routed.list_database_names()
    assert routed.config.collections.count_documents({"_id": "gone.c"}) == 0
    assert routed.gone.c.count_documents({}) == 0


def test_mongosh_prints_the_status(cluster, routed):
    routed.admin.command("shardCollection", "shown.c", key={"k": 1})
    printed = str(run_mongosh(cluster.routers[0].uri, "out(EJSON.stringify(sh.status().value))"))
    for expected in ("shardingVersion", "s0/127.0.0.1", "shown.c", "clusterId"):
        assert expected in printed, printed


def two_halves(routed, name):
    """A collection of jobs by `k` on both shards."""
    namespace = f"jobs.{name}"
    routed.admin.command("enableSharding", "jobs", primaryShard="s0")
    routed.admin.command("shardCollection", namespace, key={"k": 1})
    routed.admin.command("split", namespace, middle={"k": 50})
    routed.admin.command("moveChunk", namespace, find={"k": 50}, to="s1")
    jobs = routed.jobs[name]
    jobs.insert_many([{"_id": n, "k": n, "priority": (n * 37) % 100, "state": "new"} for n in range(100)])
    return jobs


def test_the_first_in_an_order_is_changed(cluster, routed):
    jobs = two_halves(routed, "ordered")
    taken = [jobs.find_one_and_update({"state": "new"}, {"$set": {"state": "taken"}}, sort=[("priority", -1)])["priority"] for _ in range(10)]
    assert taken == list(range(99, 89, -1))
    assert jobs.find_one_and_delete({}, sort=[("priority", 1)])["priority"] == 0
    assert jobs.find_one_and_update({"state": "none"}, {"$set": {"n": 1}}, sort=[("priority", 1)]) is None
    assert jobs.update_one({"state": "new"}, {"$set": {"state": "updated"}}, sort={"priority": -1}).modified_count == 1
    assert jobs.find_one({"state": "updated"})["priority"] == 89
    assert jobs.update_one({"state": "none"}, {"$set": {"n": 1}}, sort={"priority": -1}).matched_count == 0
    # one that is sent again is not done again, although another document is the first now
    for command, field in (
            ({"findAndModify": "ordered", "query": {"state": "new"}, "sort": {"priority": -1}, "update": {"$set": {"state": "again"}}}, "lastErrorObject"),
            ({"update": "ordered", "updates": [{"q": {"state": "new"}, "u": {"$set": {"state": "again"}}, "sort": {"priority": -1}}]}, "n")):
        # a client of its own has a session that nothing else uses
        with cluster.routers[0].client() as client, client.start_session() as session:
            first, second = (client.jobs.command({**command, "txnNumber": bson.Int64(1)}, session=session) for _ in range(2))
        assert first[field] == second[field]
        assert jobs.count_documents({"state": "again"}) == 1
        jobs.update_one({"state": "again"}, {"$set": {"state": "done"}})


def test_a_view_is_as_it_was_defined_last(routed, other):
    """Whatever router has defined it: one that has read the name before as well."""
    routed.admin.command("shardCollection", "viewed.c", key={"_id": "hashed"})
    routed.viewed.c.insert_many([{"_id": n, "s": "aA"[n % 2]} for n in range(40)])
    count = lambda client: (client.viewed.v.count_documents({}), len(list(client.viewed.v.find())), len(client.viewed.v.distinct("_id")))
    for low in (30, 20, None, 10):
        assert count(other) == count(routed)
        routed.viewed.v.drop()
        assert count(other) == (0, 0, 0)
        if low is None:
            routed.viewed.v.insert_one({"_id": 1})
            assert count(other) == (1, 1, 1)
        else:
            routed.viewed.create_collection("v", viewOn="c", pipeline=[{"$match": {"_id": {"$gte": low}}}])
            assert count(other) == (40 - low,) * 3
            routed.viewed.command("collMod", "v", viewOn="c", pipeline=[{"$match": {"_id": {"$gte": low + 1}}}])
            assert count(other) == (39 - low,) * 3
    # a view has one collation
    routed.viewed.create_collection("w", viewOn="c", pipeline=[], collation={"locale": "en", "strength": 2})
    assert other.viewed.w.count_documents({"s": "A"}) == 40
    assert code_of(lambda: list(other.viewed.w.find({}, collation={"locale": "en"}))) == 167
    assert code_of(lambda: list(other.viewed.v.aggregate([], collation={"locale": "en"}))) == 167


def test_what_several_shards_refuse_is_one_error(routed):
    routed.admin.command("shardCollection", "refused.c", key={"_id": "hashed"})
    routed.refused.c.insert_many([{"_id": n, "s": "x"} for n in range(40)])
    with pytest.raises(BulkWriteError) as caught:
        routed.refused.c.bulk_write([pymongo.UpdateMany({}, {"$inc": {"s": 1}}), pymongo.InsertOne({"_id": 50})], ordered=False)
    details = caught.value.details
    assert [(error["index"], error["code"]) for error in details["writeErrors"]] == [(0, 14)] and details["nInserted"] == 1
    # without any document that it could fail for
    assert code_of(lambda: routed.refused.command("findAndModify", "c", query={"_id": "none"}, update={"$bad": {"_id": 1}})) == 9
    shown = routed.refused.command("aggregate", "c", pipeline=[{"$sort": {"s": 1}}], explain=True)
    assert shown["mergeType"] == "router" and set(shown["shards"]) == {"s0", "s1"}


def test_jobs_are_taken_once(cluster, routed):
    two_halves(routed, "queue")
    taken = []

    def work(router):
        with router.client() as client:
            while job := client.jobs.queue.find_one_and_update({"state": "new"}, {"$set": {"state": "taken"}}, sort=[("priority", 1)]):
                taken.append(job["_id"])

    threads = [threading.Thread(target=work, args=(cluster.routers[n % 2],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(100))


def test_the_collation_of_a_collection(cluster, routed):
    """Strings of either case are the same on all shards, on the router, and where the shard of a filter is chosen."""
    collation = {"locale": "en", "strength": 2}
    words = ["ant", "Ant", "bee", "BEE", "cat", "Cat", "dog"]
    found = []
    for name in ("one", "many"):
        db = routed.spoken
        db.create_collection(name, collation=collation)
        if name == "many":
            assert code_of(lambda: routed.admin.command("shardCollection", "spoken.many", key={"k": 1})) == 2
            routed.admin.command("shardCollection", "spoken.many", key={"k": 1}, collation={"locale": "simple"})
            routed.admin.command("split", "spoken.many", middle={"k": "a"})
            home = routed.config.databases.find_one({"_id": "spoken"})["primary"]
            routed.admin.command("moveChunk", "spoken.many", find={"k": "a"}, to={"s0": "s1", "s1": "s0"}[home])
        db[name].insert_many([{"_id": n, "k": word, "w": word} for n, word in enumerate(words)])
        simple = {"locale": "simple"}
        found.append([
            sorted(doc["_id"] for doc in db[name].find({"w": "ANT"})),
            sorted(doc["_id"] for doc in db[name].find({"k": "bee"})),
            [doc["_id"] for doc in db[name].find({"k": "bee"}, collation=simple)],
            db[name].count_documents({"k": {"$lt": "CAT"}}),
            [doc["w"].lower() for doc in db[name].find(sort=[("w", 1)])],
            [doc["w"] for doc in db[name].find(sort=[("w", 1)], collation=simple)],
            sorted(word.lower() for word in db[name].distinct("w")),
            sorted((doc["_id"].lower(), doc["n"]) for doc in db[name].aggregate([{"$group": {"_id": "$w", "n": {"$sum": 1}}}])),
            sorted(len(doc["all"]) for doc in db[name].aggregate([{"$group": {"_id": "$w", "all": {"$push": "$_id"}}}])),
            db[name].update_many({"k": "DOG"}, {"$set": {"x": 1}}).modified_count,
            db[name].update_one({"k": "DOG"}, {"$set": {"x": 2}}).modified_count,
            db[name].find_one_and_update({"k": "dOg"}, {"$set": {"x": 3}})["_id"],
            db[name].delete_many({"k": "aNT"}).deleted_count,
        ])
    assert found[0] == found[1]
    assert routed.config.collections.find_one({"_id": "spoken.many"})["defaultCollation"]["strength"] == 2


def test_searches_in_joins(cluster, routed, server):
    """`$text` and `$geoNear` inside of `$lookup` and `$unionWith`, whose shards have the indexes."""
    with pymongo.MongoClient(server.uri) as single:
        for client in (routed, single):
            client.drop_database("searched")
        routed.admin.command("enableSharding", "searched", primaryShard="s0")
        routed.admin.command("shardCollection", "searched.places", key={"_id": "hashed"})
        for client in (routed, single):
            db = client.searched
            db.places.create_index([("text", "text")])
            db.places.create_index([("at", "2dsphere")])
            words = ["oak", "elm oak", "oak oak fir", "fir", "elm", "oak elm fir fir", "ash"]
            db.places.insert_many([
                {"_id": n, "text": words[n % 7] + f" number{n}", "kind": n % 3, "at": [n * 0.37 % 5, n * 0.73 % 5]} for n in range(60)])
            db.own.insert_many([{"_id": n, "kind": n, "word": ["oak", "fir", "ash"][n]} for n in range(3)])
        near = {"$geoNear": {"near": {"type": "Point", "coordinates": [2, 2]}, "distanceField": "d.m", "maxDistance": 200_000,
                             "query": {"kind": {"$lt": 2}}, "spherical": True}}
        search = {"$match": {"$text": {"$search": "oak"}}}
        score = {"$meta": "textScore"}
        for pipeline in (
            [{"$lookup": {"from": "places", "pipeline": [near, {"$limit": 4}], "as": "x"}}],
            [{"$lookup": {"from": "places", "localField": "kind", "foreignField": "kind", "pipeline": [near, {"$project": {"d": 1}}], "as": "x"}}],
            [{"$lookup": {"from": "places", "pipeline": [search, {"$sort": {"s": score, "_id": 1}}, {"$limit": 5},
                                                         {"$project": {"text": 1, "s": score}}], "as": "x"}}],
            [{"$lookup": {"from": "places", "localField": "kind", "foreignField": "kind",
                          "pipeline": [search, {"$sort": {"_id": 1}}], "as": "x"}}],
            [{"$lookup": {"from": "places", "let": {"k": "$kind"}, "pipeline": [
                {"$match": {"$text": {"$search": "elm"}, "$expr": {"$eq": ["$kind", "$$k"]}}}, {"$sort": {"_id": -1}}], "as": "x"}}],
            [{"$unionWith": {"coll": "places", "pipeline": [search, {"$group": {"_id": "$kind", "best": {"$max": score}}},
                                                            {"$sort": {"_id": 1}}]}}],
            [{"$match": {"_id": 1}}, {"$unionWith": {"coll": "places", "pipeline": [near, {"$skip": 2}, {"$limit": 3}]}}],
        ):
            expected, found = (list(client.searched.own.aggregate([{"$sort": {"_id": 1}}, *pipeline])) for client in (single, routed))
            assert found == expected and any(doc.get("x") or doc.get("best") or doc.get("d") for doc in expected), pipeline
        for stages, code in (([{"$set": {"a": 1}}, search], 17313), ([{"$set": {"a": 1}}, near], 40602), ([{"$match": {}}, {"$sort": {"s": score}}], 40218)):
            for client in (single, routed):
                assert code_of(lambda client=client, stages=stages: list(client.searched.own.aggregate(
                    [{"$lookup": {"from": "places", "pipeline": stages, "as": "x"}}]))) == code, (client, stages)
