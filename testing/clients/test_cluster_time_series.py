"""Time series over several shards. That they answer as on one server is proven by histories (test_same_answers)."""

import contextlib
import datetime
import threading

import pymongo
import pytest
from bson import MinKey
from pymongo.errors import OperationFailure

from arbor_cluster import Cluster

BEGIN = datetime.datetime(2026, 1, 1)
OPTIONS = {"timeField": "t", "metaField": "m"}


def at(seconds):
    return BEGIN + datetime.timedelta(seconds=seconds)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        cluster = Cluster(tmp_path_factory.mktemp("series"), stack, shards=3)
        with cluster.routers[0].client() as client:
            client.admin.command("balancerStop")
        yield cluster


@pytest.fixture
def client(cluster):
    with cluster.routers[0].client() as client:
        client.drop_database("de")
        client.admin.command("enableSharding", "de", primaryShard="s0")
        yield client
        client.drop_database("de")


@pytest.fixture
def series(client):
    """200 measurements of ten owners, those from 3 and from 6 on other shards."""
    admin = client.admin
    admin.command("shardCollection", "de.w", key={"m.s": 1, "t": 1}, timeseries=OPTIONS)
    for owner, shard in ((3, "s1"), (6, "s2")):
        admin.command("split", "de.w", middle={"m.s": owner, "t": MinKey()})
        admin.command("moveChunk", "de.w", find={"m.s": owner, "t": BEGIN}, to=shard)
    client.de.w.insert_many([{"t": at(60 * n), "m": {"s": n % 10, "x": 1}, "v": n} for n in range(200)])
    return client.de.w


def code_of(run):
    with pytest.raises(OperationFailure) as caught:
        run()
    return caught.value.code


def on_shards(cluster, run):
    for shard in cluster.shards:
        with shard.client() as direct:
            yield run(direct.de)


def test_how_it_is_sharded_and_listed(cluster, client, series):
    stored = client.config.collections.find_one({"_id": "de.system.buckets.w"})
    assert stored["key"] == {"meta.s": 1, "control.min.t": 1}
    assert {name: stored["timeseriesFields"][name] for name in OPTIONS} == OPTIONS
    assert list(on_shards(cluster, lambda db: db.w.count_documents({}))) == [60, 60, 80]
    listed = {e["name"]: e["type"] for e in client.de.list_collections()}
    assert (listed["w"], listed["system.buckets.w"]) == ("timeseries", "collection")
    assert {i["name"] for i in series.list_indexes()} == {"m_1_t_1", "m.s_1_t_1"}
    stats = client.de.command("collStats", "w")
    buckets = sum(on_shards(cluster, lambda db: db["system.buckets.w"].count_documents({})))
    assert (stats["ns"], stats["sharded"], stats["nchunks"], stats["timeseries"]["bucketCount"]) == ("de.w", True, 3, buckets)
    assert len(list(series.aggregate([{"$collStats": {"count": {}}}]))) == 3
    assert client.de.command("validate", "w")["valid"]
    # a read goes to the shards that its owner and its time are on
    shards = lambda filter: sorted(client.de.command("explain", {"find": "w", "filter": filter})["shards"])
    assert shards({"m.s": 4}) == shards({"m.s": 4, "t": {"$gt": at(100)}}) == ["s1"]
    assert shards({"m.s": {"$gt": 4}}) == ["s1", "s2"] and shards({"v": 1}) == ["s0", "s1", "s2"]


def test_shard_keys(client):
    shard = lambda name, key, **more: client.admin.command("shardCollection", f"de.{name}", key=key, **more)
    for key in ({"v": 1}, {"t": 1, "m": 1}, {"t": "hashed"}):
        assert code_of(lambda key=key: shard("refused", key, timeseries=OPTIONS)) == 72, key
    assert code_of(lambda: shard("refused", {"m": 1}, timeseries=OPTIONS, unique=True)) == 72
    assert client.de.list_collection_names() == []
    client.de.plain.insert_one({})
    assert code_of(lambda: shard("plain", {"m": 1}, timeseries=OPTIONS)) == 72
    shard("h", {"m": "hashed"}, timeseries=OPTIONS)
    shard("h", {"m": "hashed"})
    assert code_of(lambda: shard("h", {"m": 1})) == 23
    client.de.h.insert_many([{"t": at(n), "m": n} for n in range(100)])
    assert client.de.h.count_documents({"m": {"$gte": 50}}) == 50
    assert code_of(lambda: shard("h2", {"m": 1}, timeseries={"metaField": "m"})) in (2, 40414)
    client.de.create_collection("other", timeseries=OPTIONS)
    assert code_of(lambda: shard("other", {"m": 1}, timeseries={**OPTIONS, "granularity": "hours"})) == 72


def test_a_series_with_measurements_that_another_router_has_used(cluster, client):
    with cluster.routers[1].client() as other:
        for name in ("read", "insert", "delete", "bulk"):
            client.de.create_collection(name, timeseries=OPTIONS)
            other.de[name].insert_many([{"t": at(n), "m": n % 4, "v": n} for n in range(40)])
            assert other.de[name].count_documents({}) == 40
            client.admin.command("shardCollection", f"de.{name}", key={"m": 1})
            client.admin.command("split", f"de.{name}", middle={"m": 2})
            client.admin.command("moveChunk", f"de.{name}", find={"m": 0}, to="s1")
        assert other.de.read.count_documents({}) == 40
        other.de.insert.insert_one({"t": at(1), "m": 0, "v": -1})
        assert other.de.delete.delete_many({"m": 1}).deleted_count == 10
        other.bulk_write([pymongo.InsertOne({"t": at(1), "m": n, "v": -1}, namespace="de.bulk") for n in range(4)])
        for name, expected in (("insert", 41), ("delete", 30), ("bulk", 44)):
            assert client.de[name].count_documents({}) == expected, name
            on_s1 = list(on_shards(cluster, lambda db, name=name: db[name].count_documents({"m": 0})))[1]
            assert on_s1 == client.de[name].count_documents({"m": 0}), name
        client.de.insert.drop()
        other.de.insert.insert_one({"plain": True})
        assert client.de.insert.count_documents({"plain": True}) == 1


def test_definitions(cluster, client, series):
    names = lambda: {tuple(sorted(i["name"] for i in db.w.list_indexes())) for db in [client.de]} | set(
        on_shards(cluster, lambda db: tuple(sorted(i["name"] for i in db.w.list_indexes()))))
    series.create_index("v")
    assert names() == {("m.s_1_t_1", "m_1_t_1", "v_1")}
    assert code_of(lambda: series.drop_index([("m.s", 1), ("t", 1)])) == 373
    series.drop_index([("v", 1)])
    series.drop_indexes()
    assert names() == {("m.s_1_t_1",)}
    client.de.command("collMod", "w", expireAfterSeconds=10**9)
    assert set(on_shards(cluster, lambda db: db.command("listCollections", filter={"name": "w"})["cursor"]["firstBatch"][0]["options"]["expireAfterSeconds"])) == {10**9}
    # measurements are found by the windows that buckets have
    assert code_of(lambda: client.de.command("collMod", "w", timeseries={"granularity": "hours"})) == 72
    assert code_of(lambda: client.de.command("create", "w")) == 48
    assert code_of(lambda: series.rename("w2")) == 20
    assert code_of(lambda: client.admin.command("reshardCollection", "de.w", key={"m": 1})) == 238
    client.de.c.insert_one({"a": 1})
    assert code_of(lambda: list(client.de.c.aggregate([{"$out": "w"}]))) == 28769
    assert code_of(lambda: list(client.de.c.aggregate([{"$merge": "w"}]))) == 166
    assert code_of(lambda: series.update_many({"m.s": 4}, {"$set": {"m.s": 5}})) == 72
    assert code_of(lambda: series.find_one_and_delete({"m.s": 4})) == 72
    client.admin.command("movePrimary", "de", to="s1")
    assert series.count_documents({}) == 200 and "w" in client.de.list_collection_names()
    assert client.de.command("checkMetadataConsistency", 1)["cursor"]["firstBatch"] == []
    client.admin.command("shardCollection", "de.m", key={"m": 1}, timeseries=OPTIONS)
    client.de.command("collMod", "m", timeseries={"granularity": "minutes"})
    assert client.config.collections.find_one({"_id": "de.system.buckets.m"})["timeseriesFields"]["granularity"] == "minutes"
    client.de.m.insert_many([{"t": at(3600 * n), "m": 1} for n in range(30)])
    assert client.de.m.count_documents({"t": {"$gt": at(3600 * 10)}}) == 19
    series.drop()
    assert all("w" not in names and "system.buckets.w" not in names for names in on_shards(cluster, lambda db: db.list_collection_names()))
    assert client.config.collections.count_documents({"_id": "de.system.buckets.w"}) == 0


def test_chunks_move_while_clients_write(cluster, client, series):
    stop, counts, failed = threading.Event(), [0, 0], []

    def write(place):
        with cluster.routers[place].client() as own:
            while not stop.is_set():
                n = counts[place]
                try:
                    own.de.w.insert_many([{"t": at(n), "m": {"s": s, "x": place}, "v": -1 - n} for s in range(10)], ordered=bool(n % 2))
                    if n % 10 == 9:
                        deleted = own.de.w.delete_many({"m.x": place, "v": {"$gte": -1 - n, "$lte": -1}}).deleted_count
                        assert deleted == 100, deleted
                        deleted = own.de.w.count_documents({"m.x": place, "v": {"$lte": -1}})
                        assert deleted == 0, deleted
                        counts[place] = 0
                        continue
                except Exception as error:
                    failed.append(error)
                    return
                counts[place] = n + 1

    client.de.w.delete_many({})
    threads = [threading.Thread(target=write, args=(place,)) for place in range(2)]
    [thread.start() for thread in threads]
    try:
        for n in range(18):
            low = (0, 3, 6)[n % 3]
            with contextlib.suppress(OperationFailure):
                client.admin.command("moveChunk", "de.w", find={"m.s": low, "t": BEGIN}, to=f"s{(n + n // 3) % 3}")
    finally:
        stop.set()
        [thread.join() for thread in threads]
    assert not failed, failed
    for place in range(2):
        assert client.de.w.count_documents({"m.x": place}) == 10 * counts[place]


def test_zones_and_the_balancer(cluster, client):
    admin = client.admin
    admin.command("shardCollection", "de.z", key={"m": 1}, timeseries=OPTIONS)
    admin.command("addShardToZone", "s2", zone="far")
    admin.command("updateZoneKeyRange", "de.z", min={"m": 50}, max={"m": 100}, zone="far")
    client.de.z.insert_many([{"t": at(n), "m": n, "v": n} for n in range(100)])
    admin.command("balancerStart")
    try:
        deadline = datetime.datetime.now() + datetime.timedelta(seconds=120)
        while list(on_shards(cluster, lambda db: db.z.count_documents({"m": {"$gte": 50}})))[2] != 50:
            assert datetime.datetime.now() < deadline
    finally:
        admin.command("balancerStop")
    assert client.de.z.count_documents({"m": {"$gte": 25, "$lt": 75}}) == 50
    admin.command("updateZoneKeyRange", "de.z", min={"m": 50}, max={"m": 100}, zone=None)
    admin.command("removeShardFromZone", "s2", zone="far")


def test_a_clustered_collection_by_another_key(client):
    client.de.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True})
    client.de.clustered.insert_many([{"_id": n, "a": n % 7} for n in range(50)])
    client.de.clustered.create_index("a")
    client.admin.command("shardCollection", "de.clustered", key={"a": 1})
    client.admin.command("split", "de.clustered", middle={"a": 3})
    client.admin.command("moveChunk", "de.clustered", find={"a": 3}, to="s1")
    assert client.de.clustered.count_documents({}) == 50 and client.de.clustered.count_documents({"a": 4}) == 7
