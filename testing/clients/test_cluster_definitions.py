"""Definitions of sharded collections: names, indexes, shard keys, and whether all shards have the same."""

import contextlib
import datetime
import time

import pymongo
import pytest
from bson import Timestamp
from pymongo.errors import OperationFailure

from arbor_cluster import Cluster, Router
from test_router import code_of

DOCUMENTS = 300


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    directory = tmp_path_factory.mktemp("definitions")
    with contextlib.ExitStack() as stack:
        cluster = Cluster(directory, stack, shards=3)
        cluster.other = stack.enter_context(Router(directory, cluster.config))
        yield cluster


@pytest.fixture(scope="module")
def routed(cluster):
    with cluster.routers[0].client() as client:
        client.admin.command("balancerStop")
        client.admin.command("enableSharding", "de", primaryShard="s0")
        yield client


def sharded(routed, name, shards=("s0", "s1"), documents=DOCUMENTS):
    """A collection by `a`, with the ranges of its documents on some shards in turn."""
    namespace = f"de.{name}"
    routed.admin.command("shardCollection", namespace, key={"a": 1})
    width = DOCUMENTS // 3
    for at, shard in enumerate((shards * 3)[:3]):
        if at:
            routed.admin.command("split", namespace, middle={"a": at * width})
        routed.admin.command("moveChunk", namespace, find={"a": at * width}, to=shard)
    collection = routed.de[name]
    collection.insert_many([{"_id": n, "a": n, "b": n % 7, "c": str(n)} for n in range(documents)])
    return namespace, collection


def problems(routed, **options):
    return routed.admin.command("checkMetadataConsistency", 1, checkIndexes=True, **options)["cursor"]["firstBatch"]


def of_shards(cluster, name):
    counts = {}
    for shard in cluster.shards:
        with shard.client() as client:
            counts[shard.name] = client.de[name].count_documents({})
    return counts


def test_a_sharded_collection_gets_another_name(cluster, routed):
    namespace, collection = sharded(routed, "old")
    collection.create_index("c")
    routed.admin.command("addShardToZone", "s1", zone="z")
    routed.admin.command("updateZoneKeyRange", namespace, min={"a": 0}, max={"a": 10}, zone="z")
    before = routed.config.collections.find_one({"_id": namespace})
    collection.rename("new")
    assert code_of(lambda: collection.rename("other")) == 26
    assert routed.de.new.count_documents({}) == DOCUMENTS
    assert routed.de.old.count_documents({}) == 0
    assert routed.de.new.find_one({"a": 250})["c"] == "250"
    assert "c_1" in routed.de.new.index_information()
    after = routed.config.collections.find_one({"_id": "de.new"})
    assert after["uuid"] == before["uuid"] and after["key"] == before["key"] and "renaming" not in after
    assert routed.config.collections.find_one({"_id": namespace}) is None
    assert routed.config.tags.find_one({"ns": "de.new"})["_id"] == {"ns": "de.new", "min": {"a": 0}}
    assert routed.config.tags.find_one({"ns": namespace}) is None
    # the other router finds out
    with cluster.other.client() as other:
        assert other.de.new.count_documents({}) == DOCUMENTS
        other.de.new.insert_one({"_id": "x", "a": 251})
    # the name is free again, for a collection on one shard as for one on several
    routed.de.old.insert_one({"_id": 1})
    assert of_shards(cluster, "old") == {"s0": 1, "s1": 0, "s2": 0}
    assert problems(routed) == []
    routed.admin.command("moveChunk", "de.new", find={"a": 250}, to="s2")
    assert routed.de.new.count_documents({}) == DOCUMENTS + 1


def test_targets_of_a_new_name(cluster, routed):
    sharded(routed, "from")
    sharded(routed, "to", shards=("s1", "s2"), documents=200)
    routed.de.plain.insert_one({"_id": 1})
    routed.de.command("create", "seen", viewOn="plain", pipeline=[])
    for target in ("to", "plain", "seen"):
        assert code_of(lambda target=target: routed.de["from"].rename(target)) == 48, target
    assert code_of(lambda: routed.de["from"].rename("seen", dropTarget=True)) == 48
    assert code_of(lambda: routed.admin.command("renameCollection", "de.from", to="other.from")) == 125
    assert code_of(lambda: routed.de["from"].rename("from")) == 20
    assert code_of(lambda: routed.de["from"].rename("system.x")) == 73
    assert routed.de["from"].count_documents({}) == DOCUMENTS and routed.de.to.count_documents({}) == 200
    routed.de["from"].rename("to", dropTarget=True)
    assert routed.de.to.count_documents({}) == DOCUMENTS
    assert sum(of_shards(cluster, "to").values()) == DOCUMENTS
    routed.de.to.rename("plain", dropTarget=True)
    assert routed.de.plain.count_documents({}) == DOCUMENTS
    # one that is not sharded takes the place of one that is
    routed.de.single.insert_one({"_id": "single"})
    routed.de.single.rename("plain", dropTarget=True)
    assert list(routed.de.plain.find()) == [{"_id": "single"}]
    assert routed.config.collections.find_one({"_id": "de.plain"}) is None
    assert problems(routed) == []


def test_streams_show_a_new_name_once(routed):
    sharded(routed, "seen_old")
    with routed.de.watch(max_await_time_ms=100) as stream:
        routed.de.seen_old.rename("seen_new")
        routed.de.seen_new.insert_one({"_id": "last", "a": 1})
        events = []
        while not events or events[-1]["operationType"] != "insert":
            event = stream.try_next()
            if event:
                events.append(event)
    kinds = [(event["operationType"], event["ns"]["coll"]) for event in events]
    assert kinds == [("rename", "seen_old"), ("insert", "seen_new")]
    assert events[0]["to"] == {"db": "de", "coll": "seen_new"}


def of_database(cluster, db):
    """What each shard has of a database: its collections with their numbers of documents."""
    found = {}
    for shard in cluster.shards:
        with shard.client() as client:
            names = [name for name in client[db].list_collection_names() if not name.startswith("system.")]
            found[shard.name] = {name: client[db][name].count_documents({}) for name in names}
    return found


def filled(routed, db):
    """A database with collections that are on its primary shard, a view, a time series, and one that is sharded."""
    routed.admin.command("enableSharding", db, primaryShard="s0")
    expected = {}
    for n in range(6):
        routed[db][f"c{n}"].insert_many([{"_id": k, "a": k % 3} for k in range(200 * n + 1)])
        routed[db][f"c{n}"].create_index("a", name=f"by_a_{n}")
        expected[f"c{n}"] = 200 * n + 1
    routed[db].create_collection("v", viewOn="c1", pipeline=[{"$match": {"a": 1}}])
    routed[db].create_collection("t", timeseries={"timeField": "at", "metaField": "m"})
    begin = datetime.datetime(2026, 1, 1)
    routed[db].t.insert_many([{"at": begin + datetime.timedelta(minutes=n), "m": n % 4, "x": n} for n in range(300)])
    routed.admin.command("shardCollection", f"{db}.sharded", key={"k": "hashed"})
    routed[db].sharded.insert_many([{"k": n} for n in range(30)])
    return expected | {"v": 67, "t": 300}


def test_a_database_goes_to_another_shard(cluster, routed):
    expected = filled(routed, "went")
    with routed.went.watch(max_await_time_ms=100) as stream:
        assert routed.admin.command("movePrimary", "went", to="s1")["primary"] == "s1"
        routed.went.c0.insert_one({"_id": "last"})
        events = []
        deadline = time.monotonic() + 60
        while not events and time.monotonic() < deadline:
            events += [event for event in [stream.try_next()] if event]
        assert events[0]["documentKey"] == {"_id": "last"}, "a copy is not shown"
    expected["c0"] += 1
    there = of_database(cluster, "went")
    assert {name: there["s1"][name] for name in expected} == expected
    assert not set(expected) & set(there["s0"]) and not set(expected) & set(there["s2"])
    assert {name: routed.went[name].count_documents({}) for name in expected} == expected
    assert "by_a_3" in routed.went.c3.index_information()
    assert sorted(doc["x"] for doc in routed.went.t.find({"m": 1})) == list(range(1, 300, 4))
    assert routed.went.sharded.count_documents({}) == 30
    assert "moving" not in routed.config.databases.find_one({"_id": "went"})


def test_a_collection_of_the_same_name_is_left_alone(cluster, routed):
    routed.admin.command("enableSharding", "taken", primaryShard="s0")
    routed.taken.a.insert_one({"_id": 1})
    routed.taken.b.insert_one({"_id": 1})
    with cluster.shards[1].client() as direct:
        direct.taken.b.insert_one({"_id": "another"})
        assert code_of(lambda: routed.admin.command("movePrimary", "taken", to="s1")) == 48
        assert list(direct.taken.b.find()) == [{"_id": "another"}] and direct.taken.list_collection_names() == ["b"]
        assert routed.taken.b.find_one() == {"_id": 1}
        routed.taken.b.insert_one({"_id": 2})
        direct.drop_database("taken")


def on_shards(cluster, db, name):
    """The indexes and the pre-image switch of a collection, on each shard that has it."""
    found = []
    for shard in cluster.shards:
        with shard.client() as client:
            for listed in client[db].list_collections(filter={"name": name}):
                images = listed["options"].get("changeStreamPreAndPostImages", {}).get("enabled", False)
                found.append((frozenset(client[db][name].index_information()), images))
    return found


def test_an_index_that_one_shard_refuses_is_on_none(cluster, routed):
    _, collection = sharded(routed, "refused")
    collection.insert_one({"_id": "twice", "a": 150, "b": 0})
    with pytest.raises(OperationFailure) as caught:
        collection.create_indexes([pymongo.IndexModel("c"), pymongo.IndexModel("a", unique=True, name="unique")])
    assert caught.value.code == 11000
    assert len(set(on_shards(cluster, "de", "refused"))) == 1 and "c_1" not in collection.index_information()
    # converting one as well: first the documents of all shards are looked through
    collection.create_index([("a", 1), ("b", 1)], name="two")
    collection.insert_one({"_id": "again", "a": 250, "b": 5})
    collection.insert_one({"_id": "again2", "a": 250, "b": 5})
    routed.de.command("collMod", "refused", index={"name": "two", "prepareUnique": True})
    assert code_of(lambda: routed.de.command("collMod", "refused", index={"name": "two", "unique": True})) == 359
    assert not any(index.get("unique") for index in collection.index_information().values())
    # a shard without chunks has an empty part, which follows
    routed.admin.command("moveChunk", "de.refused", find={"a": 150}, to="s2")
    routed.admin.command("moveChunk", "de.refused", find={"a": 150}, to="s1")
    collection.create_index("c")
    assert len(on_shards(cluster, "de", "refused")) == 3 and len(set(on_shards(cluster, "de", "refused"))) == 1
    assert routed.config.definitionChanges.count_documents({}) == 0
    assert problems(routed) == []


def databases(shard):
    with shard.client() as client:
        return client.list_database_names()


def test_a_router_that_knows_a_dropped_database_finds_the_new_one(cluster, routed):
    with cluster.other.client() as other:
        for round in range(3):
            other.gone.c.insert_one({"_id": round})
            assert routed.gone.c.find_one() == {"_id": round}
            routed.drop_database("gone")
            # more databases elsewhere: the next one of the name gets another shard
            routed.admin.command("enableSharding", f"more{round}", primaryShard=f"s{round}")
            assert other.gone.c.find_one() is None
        other.gone.c.insert_one({"_id": "last"})
        routed.drop_database("gone")
        routed.gone.c.insert_one({"_id": "new"})
        other.gone.c.insert_one({"_id": "other"})
        assert routed.gone.c.count_documents({}) == other.gone.c.count_documents({}) == 2
        assert sum("gone" in databases(shard) for shard in cluster.shards) == 1


def test_all_indexes_but_that_of_the_shard_key_are_dropped(cluster, routed):
    _, collection = sharded(routed, "indexed")
    collection.create_indexes([pymongo.IndexModel("b"), pymongo.IndexModel("c"), pymongo.IndexModel([("a", 1), ("b", 1)])])
    assert code_of(lambda: collection.drop_index("none")) == 27
    collection.drop_index("a_1")  # the compound one serves the key
    assert code_of(lambda: collection.drop_index("a_1_b_1")) == 373
    assert code_of(lambda: collection.drop_index([("a", 1), ("b", 1)])) == 373
    collection.drop_indexes()
    assert sorted(collection.index_information()) == ["_id_", "a_1_b_1"]
    for shard in cluster.shards[:2]:
        with shard.client() as client:
            assert sorted(client.de.indexed.index_information()) == ["_id_", "a_1_b_1"]


def test_a_shard_key_gets_more_fields(cluster, routed):
    namespace, collection = sharded(routed, "refined")
    routed.admin.command("addShardToZone", "s0", zone="low")
    routed.admin.command("updateZoneKeyRange", namespace, min={"a": 0}, max={"a": 5}, zone="low")

    def refine(**key):
        return routed.admin.command("refineCollectionShardKey", namespace, key=key)

    assert code_of(lambda: refine(a=1, b=1)) == 72  # without an index
    assert code_of(lambda: refine(b=1, a=1)) == 72
    assert code_of(lambda: refine(a="hashed", b=1)) == 72
    assert code_of(lambda: routed.admin.command("refineCollectionShardKey", "de.none", key={"a": 1})) == 118
    collection.create_index([("a", 1), ("b", 1)])
    refine(a=1, b=1)
    refine(a=1, b=1)
    assert routed.config.collections.find_one({"_id": namespace})["key"] == {"a": 1, "b": 1}
    uuid = routed.config.collections.find_one({"_id": namespace})["uuid"]
    chunks = list(routed.config.chunks.find({"uuid": uuid}).sort("min"))
    assert [list(chunk["min"]) for chunk in chunks] == [["a", "b"]] * 3
    assert repr(chunks[-1]["max"]["b"]) == "MaxKey()" and repr(chunks[0]["max"]["b"]) == "MinKey()"
    assert list(routed.config.tags.find_one({"ns": namespace})["min"]) == ["a", "b"]
    assert collection.count_documents({}) == DOCUMENTS
    assert collection.find_one({"a": 150, "b": 150 % 7})["_id"] == 150
    routed.admin.command("split", namespace, middle={"a": 150, "b": 3})
    routed.admin.command("moveChunk", namespace, find={"a": 150, "b": 3}, to="s2")
    assert collection.count_documents({}) == DOCUMENTS
    with cluster.other.client() as other:
        assert other.de.refined.count_documents({"a": {"$gte": 100}}) == DOCUMENTS - 100
    assert problems(routed) == []


def test_chunks_are_merged_and_marks_removed(routed):
    namespace, _ = sharded(routed, "merged", shards=("s0",))
    uuid = routed.config.collections.find_one({"_id": namespace})["uuid"]
    old = {"$set": {"onCurrentShardSince": Timestamp(1, 1)}}
    routed.config.chunks.update_many({"uuid": uuid}, old)
    routed.config.chunks.update_one({"uuid": uuid, "min.a": 100}, {"$set": {"jumbo": True}})
    routed.admin.command("mergeAllChunksOnShard", namespace, shard="s0")
    assert routed.config.chunks.count_documents({"uuid": uuid}) == 3
    assert code_of(lambda: routed.admin.command("clearJumboFlag", namespace, bounds=[{"a": 1}, {"a": 2}])) == 2
    routed.admin.command("clearJumboFlag", namespace, find={"a": 150})
    assert routed.config.chunks.count_documents({"uuid": uuid, "jumbo": True}) == 0
    routed.admin.command("mergeAllChunksOnShard", namespace, shard="s0")
    assert routed.config.chunks.count_documents({"uuid": uuid}) == 1
    assert code_of(lambda: routed.admin.command("mergeAllChunksOnShard", namespace, shard="none")) == 70


def test_moves_are_allowed_again(routed):
    namespace, _ = sharded(routed, "still")
    routed.admin.command("setAllowMigrations", namespace, allowMigrations=False)
    assert code_of(lambda: routed.admin.command("moveChunk", namespace, find={"a": 1}, to="s2")) == 117
    routed.admin.command("setAllowMigrations", namespace, allowMigrations=True)
    routed.admin.command("moveChunk", namespace, find={"a": 1}, to="s2")
    assert code_of(lambda: routed.admin.command("setAllowMigrations", namespace)) == 40414


def test_differences_between_shards_are_found(cluster, routed):
    namespace, _ = sharded(routed, "differs")
    assert problems(routed) == []
    with cluster.shards[1].client() as direct:
        direct.de.differs.create_index("b")
        direct.de.differs.drop_index("a_1")
        direct.de.misplaced.insert_one({})
    kinds = sorted(problem["type"] for problem in problems(routed))
    assert kinds == ["InconsistentIndex", "InconsistentIndex", "MisplacedCollection", "MissingShardKeyIndex"]
    of_collection = routed.de.command("checkMetadataConsistency", "differs")["cursor"]["firstBatch"]
    assert [problem["type"] for problem in of_collection] == ["MissingShardKeyIndex"]
    assert of_collection[0]["details"]["namespace"] == namespace and of_collection[0]["details"]["shard"] == "s1"
    uuid = routed.config.collections.find_one({"_id": namespace})["uuid"]
    routed.config.chunks.delete_one({"uuid": uuid, "min.a": 100})
    found = routed.de.command("checkMetadataConsistency", 1)["cursor"]["firstBatch"]
    assert "RoutingTableRangeGap" in [problem["type"] for problem in found]


def test_statistics_name_their_shard(routed):
    _, collection = sharded(routed, "shown")
    shown = list(collection.aggregate([{"$collStats": {"storageStats": {}}}]))
    assert sorted(stats["shard"] for stats in shown) == ["s0", "s1"]
    shown = list(collection.aggregate([{"$indexStats": {}}]))
    assert sorted({stats["shard"] for stats in shown}) == ["s0", "s1"]
    for part in routed.de.command("dbStats")["raw"].values():
        assert "$clusterTime" not in part and part["ok"] == 1
    assert routed.admin.command("getClusterParameter", "*")["clusterParameters"]
