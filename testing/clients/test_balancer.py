"""The balancer on the config servers: what is uneven evens out while clients write, shards drain, zones take effect, kills do no harm."""

import contextlib
import os
import time

import bson
import pytest

from mongosh import run_mongosh
from test_chunk_moves import Load, chunks_of, until
from arbor_cluster import Cluster
from test_router import code_of

MEGABYTE = 1 << 20
# The balancer looks four times a second.
CONFIG_FLAGS = [
    "--setParameter", "balancerRoundIntervalMs=250",
    "--setParameter", "balancerMigrationsThrottlingMs=50",
    "--setParameter", "minSnapshotHistoryWindowInSeconds=0",
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three shards and two routers; chunks of 1 MB."""
    with contextlib.ExitStack() as stack:
        cluster = Cluster(tmp_path_factory.mktemp("balancer"), stack, shards=3, config_flags=CONFIG_FLAGS)
        with cluster.routers[0].client() as client:
            client.config.settings.insert_one({"_id": "chunksize", "value": 1})
        yield cluster


@pytest.fixture(scope="module")
def routed(cluster):
    with cluster.routers[0].client() as client:
        yield client


def fill(routed, namespace, count=600, size=10_000, first=0, key=None):
    db, name = namespace.split(".")
    routed.admin.command("enableSharding", db, primaryShard="s0")
    routed.admin.command("shardCollection", namespace, key=key or {"k": 1})
    documents = ({"_id": first + n, "k": first + n, "v": os.urandom(size // 2).hex()} for n in range(count))
    routed[db][name].insert_many(documents)
    return routed[db][name]


def bytes_by_shard(routed, namespace):
    """Data that each shard owns, by the documents that the router sees in its chunks."""
    db, name = namespace.split(".")
    sizes = {shard["_id"]: 0 for shard in routed.config.shards.find()}
    for chunk in chunks_of(routed, namespace):
        key = next(iter(chunk["min"]))
        count = routed[db][name].count_documents({key: {"$gte": chunk["min"][key], "$lt": chunk["max"][key]}})
        sizes[chunk["shard"]] += count * 10_000
    return sizes


def is_compliant(routed, namespace):
    return routed.admin.command("balancerCollectionStatus", namespace)["balancerCompliant"]


def is_even(routed, namespace):
    sizes = bytes_by_shard(routed, namespace).values()
    return max(sizes) - min(sizes) < 3.5 * MEGABYTE


def moves(routed, namespace):
    return routed.config.changelog.count_documents({"ns": namespace, "what": "moveChunk.commit"})


def test_an_uneven_collection_evens_out_under_writes(cluster, routed):
    routed.admin.command("balancerStop")
    assert routed.admin.command("balancerStatus")["mode"] == "off"
    collection = fill(routed, "even.c", count=900, first=10_000)
    status = routed.admin.command("balancerCollectionStatus", "even.c")
    assert status["chunkSize"] == 1 and not status["balancerCompliant"]
    assert status["firstComplianceViolation"] == "chunksImbalance"
    rounds = routed.admin.command("balancerStatus")["numBalancerRounds"]
    assert len(chunks_of(routed, "even.c")) == 1
    with Load(cluster, "even.c", threads=2) as load:
        routed.admin.command("balancerStart")
        until(lambda: is_compliant(routed, "even.c"))
    assert load.failures == [] and load.operations > 0
    assert is_even(routed, "even.c")
    status = routed.admin.command("balancerStatus")
    assert status["mode"] == "full" and status["numBalancerRounds"] >= min(rounds, 1)
    assert collection.count_documents({"_id": {"$gte": 10_000}}) == 900
    # 9 MB on three shards: six of them have to move, in parts of 1 MB
    made = moves(routed, "even.c")
    assert 3 <= made <= 8
    time.sleep(1)
    assert moves(routed, "even.c") == made, "nothing moves when nothing has to"
    assert routed.config.changelog.count_documents({"what": "moveChunk.from", "details.note": "success"}) >= made
    assert routed.config.actionlog.count_documents({"what": "balancer.round", "details.chunksMoved": {"$gt": 0}}) > 0
    collection.delete_many({"_id": {"$lt": 10_000}})


def test_a_statement_over_several_shards_runs_once(cluster, routed):
    """A router that does not know of a move is refused by one shard after another one has run the statement."""
    routed.admin.command("balancerStop")
    fill(routed, "once.c", count=300, size=10)
    for middle, to in ((100, "s1"), (200, "s2")):
        routed.admin.command("split", "once.c", middle={"k": middle})
        routed.admin.command("moveChunk", "once.c", find={"k": middle}, to=to)
    with cluster.routers[1].client() as other:
        assert other.once.c.count_documents({}) == 300
        routed.admin.command("moveRange", "once.c", min={"k": 150}, max={"k": 200}, toShard="s2")
        changed = other.once.c.update_many({"k": {"$gte": 10}}, {"$inc": {"n": 1}})
        assert changed.matched_count == changed.modified_count == 290
        assert routed.once.c.count_documents({"n": 1}) == 290
        routed.admin.command("moveRange", "once.c", min={"k": 150}, max={"k": 160}, toShard="s1")
        assert other.once.c.delete_many({}).deleted_count == 300
    routed.admin.command("balancerStart")


def test_status_shows_it(cluster, routed):
    fill(routed, "status.c")
    until(lambda: moves(routed, "status.c") > 0)
    assert {"uuid_1_min_1", "uuid_1_shard_1_min_1"} <= set(routed.config.chunks.index_information())
    status = str(run_mongosh(cluster.routers[0].uri, "out(EJSON.stringify(sh.status().value))"))
    assert "Currently enabled" in status and "Success" in status


def test_switches_and_window(routed):
    admin = routed.admin
    settings = routed.config.settings
    admin.command("balancerStop")
    fill(routed, "switch.c", count=500)
    admin.command("configureCollectionBalancing", "switch.c", enableBalancing=False)
    admin.command("balancerStart")
    assert not is_compliant(routed, "switch.c")
    now = int(time.strftime("%H"))
    closed = {"start": f"{(now + 3) % 24:02}:00", "stop": f"{(now + 5) % 24:02}:00"}
    settings.update_one({"_id": "balancer"}, {"$set": {"activeWindow": closed}})
    admin.command("configureCollectionBalancing", "switch.c", enableBalancing=True)
    time.sleep(1)
    assert moves(routed, "switch.c") == 0
    admin.command("balancerStop")
    assert settings.find_one({"_id": "balancer"})["activeWindow"] == closed
    settings.update_one({"_id": "balancer"}, {"$unset": {"activeWindow": 1}})
    # the switch that mongosh's sh.disableBalancing sets
    routed.config.collections.update_one({"_id": "switch.c"}, {"$set": {"noBalance": True}})
    admin.command("balancerStart")
    time.sleep(1)
    assert moves(routed, "switch.c") == 0
    routed.config.collections.update_one({"_id": "switch.c"}, {"$set": {"noBalance": False}})
    until(lambda: is_compliant(routed, "switch.c"))
    assert moves(routed, "switch.c") > 0
    admin.command("configureCollectionBalancing", "switch.c", chunkSize=128)
    assert admin.command("balancerCollectionStatus", "switch.c")["chunkSize"] == 128
    admin.command("configureCollectionBalancing", "switch.c", chunkSize=0)
    assert admin.command("balancerCollectionStatus", "switch.c")["chunkSize"] == 1
    assert code_of(lambda: admin.command("configureCollectionBalancing", "switch.c", chunkSize=5000)) == 72
    assert code_of(lambda: admin.command("balancerCollectionStatus", "switch.none")) == 118


def test_a_key_with_too_many_documents_is_jumbo(routed):
    routed.admin.command("balancerStop")
    fill(routed, "jumbo.c", count=1)
    routed.jumbo.c.insert_many([{"k": 5, "v": os.urandom(5000).hex()} for _ in range(400)])
    routed.admin.command("balancerStart")
    until(lambda: any(chunk.get("jumbo") for chunk in chunks_of(routed, "jumbo.c")))
    jumbo = next(chunk for chunk in chunks_of(routed, "jumbo.c") if chunk.get("jumbo"))
    assert routed.jumbo.c.count_documents({"k": {"$gte": jumbo["min"]["k"], "$lt": jumbo["max"]["k"]}}) >= 400


@pytest.mark.parametrize("key", [{"k": 1}, {"k": 1, "_id": 1}])
def test_zones_take_effect(routed, key):
    name = f"c{len(key)}"
    namespace = f"zone.{name}"
    fill(routed, namespace, count=100, size=1000, key=key)
    routed.admin.command("addShardToZone", "s1", zone="low")
    routed.admin.command("addShardToZone", "s2", zone="high")
    routed.admin.command("updateZoneKeyRange", namespace, min={"k": bson.MinKey()}, max={"k": 40}, zone="low")
    routed.admin.command("updateZoneKeyRange", namespace, min={"k": 60}, max={"k": bson.MaxKey()}, zone="high")
    until(lambda: is_compliant(routed, namespace))
    owners = [(chunk["min"]["k"], chunk["shard"]) for chunk in chunks_of(routed, namespace)]
    assert owners == [(bson.MinKey(), "s1"), (40, "s0"), (60, "s2")]
    assert routed.zone[name].count_documents({}) == 100


def test_neighbours_are_merged(cluster, routed):
    fill(routed, "merge.c", count=50, size=1000)
    for middle in range(10, 50, 10):
        routed.admin.command("split", "merge.c", middle={"k": middle})
    assert len(chunks_of(routed, "merge.c")) == 5
    time.sleep(1)
    routed.admin.command("configureCollectionBalancing", "merge.c", enableAutoMerger=False)
    with cluster.config.client() as client:
        client.admin.command("setParameter", 1, autoMergerIntervalSecs=1)
        time.sleep(2.5)
        assert len(chunks_of(routed, "merge.c")) == 5
        routed.admin.command("configureCollectionBalancing", "merge.c", enableAutoMerger=True)
        until(lambda: len(chunks_of(routed, "merge.c")) == 1)
        client.admin.command("setParameter", 1, autoMergerIntervalSecs=3600)
    assert routed.merge.c.count_documents({}) == 50
    # borders of zones stay
    assert len(chunks_of(routed, "zone.c1")) == 3


def test_the_config_server_is_killed_in_a_round(cluster, routed):
    routed.admin.command("balancerStop")
    fill(routed, "killed.c", count=1200, first=10_000)
    with Load(cluster, "killed.c", threads=2) as load:
        routed.admin.command("balancerStart")
        for _ in range(2):
            seen = moves(routed, "killed.c")
            until(lambda: moves(routed, "killed.c") > seen)
            cluster.config.kill()
            cluster.config.start()
        until(lambda: is_compliant(routed, "killed.c"))
    # the application's writes only need the shards
    assert load.failures == []
    assert routed.killed.c.count_documents({"_id": {"$gte": 10_000}}) == 1200
    expected = sorted((k, n) for own in load.expected for k, n in own.items())
    assert [(doc["_id"], doc["n"]) for doc in routed.killed.c.find({"_id": {"$lt": 10_000}}).sort("_id", 1)] == expected
    assert is_even(routed, "killed.c")
    until(lambda: routed.config.locks.count_documents({}) == 0)


def test_a_shard_drains(cluster, routed):
    names = ("even.c", "killed.c", "switch.c")
    routed.admin.command("enableSharding", "own", primaryShard="s2")
    routed.own.plain.insert_one({"_id": 1})
    with cluster.routers[1].client() as other:
        before = {name: count(other, name) for name in names}
        assert other.own.plain.find_one() == {"_id": 1}
        drain(routed)
        # the other router has noticed nothing of it
        for client in (routed, other):
            assert {name: count(client, name) for name in names} == before
            client.own.plain.update_one({"_id": 1}, {"$inc": {"n": 1}})
        assert routed.own.plain.find_one() == {"_id": 1, "n": 2}


def count(client, namespace):
    db, name = namespace.split(".")
    return client[db][name].count_documents({})


def drain(routed):
    admin = routed.admin
    # the last shard of a zone could not get rid of the zone's chunks
    assert code_of(lambda: admin.command("removeShard", "s2")) == 163
    for name in ("zone.c1", "zone.c2"):
        admin.command("updateZoneKeyRange", name, min={"k": 60}, max={"k": bson.MaxKey()}, zone=None)
    started = admin.command("removeShard", "s2")
    assert started["state"] == "started" and started["dbsToMove"] == ["own"]
    assert code_of(lambda: admin.command("moveChunk", "merge.c", find={"k": 1}, to="s2")) == 70
    until(lambda: routed.config.chunks.count_documents({"shard": "s2"}) == 0)
    ongoing = admin.command("removeShard", "s2")
    assert ongoing["state"] == "ongoing" and ongoing["remaining"]["dbs"] == 1 and ongoing["dbsToMove"] == ["own"]
    admin.command("movePrimary", "own", to="s0")
    assert admin.command("removeShard", "s2")["state"] == "completed"
    assert [shard["_id"] for shard in admin.command("listShards")["shards"]] == ["s0", "s1"]
