"""Each helper of mongosh's `sh`, and those of a collection that are about shards, on real input through a router."""

import contextlib

import pytest
from bson import MaxKey, MinKey

from arbor_cluster import Cluster, Member
from mongosh import run_mongosh
from test_chunk_moves import ranges_kept

# A helper that fails adds its code and message; the parts of replies that every reply has are left out.
PRELUDE = """
const call = f => {
  let r;
  try { r = f(); if (r && r.toArray) r = r.toArray(); } catch (e) { out({code: e.code, error: e.message}); return; }
  if (r && r.ok !== undefined) { delete r.$clusterTime; delete r.operationTime; }
  out(r);
};
"""
OK = {"ok": 1}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        flags = ["--setParameter", "enableTestCommands=1"]
        yield Cluster(tmp_path_factory.mktemp("helpers"), stack, flags=flags)


@pytest.fixture
def shell(cluster):
    def run(*calls):
        return run_mongosh(cluster.routers[0].uri, PRELUDE + "".join(f"call(() => {one});\n" for one in calls))

    return run


@pytest.fixture
def d(cluster):
    """An empty database `d` on the shard s0."""
    with cluster.routers[0].client() as client:
        client.drop_database("d")
        client.admin.command("balancerStop")
        client.config.settings.delete_many({})
        for shard, zone in (("s0", "A"), ("s1", "B")):
            client.admin.command("removeShardFromZone", shard, zone=zone)
        client.admin.command("enableSharding", "d", primaryShard="s0")
        yield client.d


def chunks(d, name):
    collection = d.client.config.collections.find_one({"_id": f"d.{name}"})
    found = d.client.config.chunks.find({"uuid": collection["uuid"]}).sort("min")
    return [(chunk["min"]["k"], chunk["shard"]) for chunk in found][1:]


def test_shards(cluster, tmp_path, shell):
    with Member(tmp_path, "extra", "--shardsvr") as extra:
        extra.initiate()
        try:
            added, again, listed, draining, others, status = shell(
                f"sh.addShard('{extra.hosts}')", f"sh.addShard('{extra.hosts}')", "sh.listShards()",
                "sh.listShards({draining: true})", "sh.listShards({draining: false})", "sh.isConfigShardEnabled()")
            assert added == again == {"shardAdded": "extra", **OK}
            assert [(one["_id"], one["state"]) for one in listed] == [("extra", 1), ("s0", 1), ("s1", 1)]
            assert listed[0]["host"] == extra.hosts and draining == [] and others == listed
            assert status == {"enabled": False}
            shell("db.adminCommand({removeShard: 'extra'})")
            draining, others, wrong = shell(
                "sh.listShards({draining: true})", "sh.listShards({draining: false})", "sh.listShards({state: 1})")
            assert [one["_id"] for one in draining] in (["extra"], [])
            assert [one["_id"] for one in others] == ["s0", "s1"]
            assert wrong["code"] == 40415, wrong
        finally:
            with cluster.routers[0].client() as client:
                while client.config.shards.find_one({"_id": "extra"}):
                    client.admin.command("removeShard", "extra")
    # newer than 8.0, the version that the router shows
    assert [one["code"] for one in shell(
        "sh.shardDrainingStatus('s0')", "sh.getTransitionToDedicatedConfigServerStatus()")] == [59, 59]


def test_databases_and_collections(d, shell):
    same, elsewhere = shell("sh.enableSharding('d', 's0')", "sh.enableSharding('d', 's1')")
    assert same == OK and elsewhere["code"] == 48
    by_range, by_hash, divided, unique, collated, again, other = shell(
        "sh.shardCollection('d.r', {k: 1})", "sh.shardCollection('d.h', {k: 'hashed'})",
        "sh.shardCollection('d.hp', {k: 'hashed'}, false, {numInitialChunks: 6})",
        "sh.shardCollection('d.u', {k: 1}, true)",
        "sh.shardCollection('d.c', {k: 1}, {collation: {locale: 'simple'}})",
        "sh.shardCollection('d.r', {k: 1})", "sh.shardCollection('d.r', {j: 1})")
    for reply, name in [(by_range, "r"), (by_hash, "h"), (divided, "hp"), (unique, "u"), (collated, "c"), (again, "r")]:
        assert reply == {"collectionsharded": f"d.{name}", **OK}
    assert other["code"] == 23, other
    assert len(chunks(d, "r")) == 0 and len(chunks(d, "h")) == 1 and len(chunks(d, "hp")) == 5
    assert d.client.config.collections.find_one({"_id": "d.u"})["unique"]


def test_chunks(d, shell):
    d.r.insert_many([{"k": k, "v": "x" * 100} for k in range(40)])
    d.r.create_index("k")
    assert shell("sh.shardCollection('d.r', {k: 1})", "sh.splitAt('d.r', {k: 10})", "sh.splitFind('d.r', {k: 20})")[1:] == [OK, OK]
    assert chunks(d, "r") == [(10, "s0"), (25, "s0")]
    (again,) = shell("sh.splitAt('d.r', {k: 10})")
    assert again["code"] == 2 and "{ k: 10 } is a boundary key" in again["error"], again
    moved, nowhere, part, rest = shell(
        "sh.moveChunk('d.r', {k: 30}, 's1')", "sh.moveChunk('d.r', {k: 30}, 's9')",
        "sh.moveRange('d.r', 's1', {k: 0}, {k: 10})", "sh.moveRange('d.r', 's1', {k: 10})")
    assert moved.pop("millis") >= 0 and part.pop("millis") >= 0 and rest.pop("millis") >= 0
    assert moved == part == rest == OK and nowhere["code"] == 70
    assert chunks(d, "r") == [(0, "s1"), (10, "s1"), (25, "s1")]
    assert d.r.count_documents({}) == 40


def test_what_has_left_is_no_owned_document(cluster, d, shell):
    with ranges_kept(cluster):
        check_what_has_left(d, shell)


def check_what_has_left(d, shell):
    d.r.insert_many([{"k": k, "v": "x" * 100} for k in range(40)])
    d.r.create_index("k")
    d.plain.insert_one({})
    bytes_of_one = len(d.r.find_raw_batches({}, limit=1).next())
    shell("sh.shardCollection('d.r', {k: 1})", "sh.splitAt('d.r', {k: 10})", "sh.moveChunk('d.r', {k: 10}, 's1')")
    assert shell("sh.moveCollection('d.plain', 's1')") == [OK]
    ((distribution,), shards) = shell("sh.getShardedDataDistribution()", "db.getSiblingDB('d').r.stats().shards")
    assert distribution["ns"] == "d.r", "a collection that was moved is not sharded"
    assert distribution["shards"] == [
        {"shardName": "s0", "numOrphanedDocs": 30, "numOwnedDocuments": 10,
         "orphanedSizeBytes": 30 * bytes_of_one, "ownedSizeBytes": 10 * bytes_of_one},
        {"shardName": "s1", "numOrphanedDocs": 0, "numOwnedDocuments": 30,
         "orphanedSizeBytes": 0, "ownedSizeBytes": 30 * bytes_of_one},
    ]
    assert (shards["s0"]["numOrphanDocs"], shards["s1"]["numOrphanDocs"]) == (30, 0)
    (printed,) = shell("db.getSiblingDB('d').r.getShardDistribution().value")
    (name,) = [name for name in printed if name.startswith("Shard s1 at s1/")]
    assert printed[name]["docs"] == 30 and printed[name]["chunks"] == 1
    assert printed["Totals"]["chunks"] == 2 and printed["Totals"]["docs"] == 70


def test_zones(d, shell):
    shell("sh.shardCollection('d.u', {k: 1})")
    assert shell(
        "sh.addShardToZone('s0', 'A')", "sh.addShardTag('s1', 'B')",
        "sh.updateZoneKeyRange('d.u', {k: 0}, {k: 10}, 'A')", "sh.addTagRange('d.u', {k: 10}, {k: 20}, 'B')",
    ) == [OK] * 4
    tags = list(d.client.config.tags.find({"ns": "d.u"}, {"_id": 0, "ns": 0}).sort("min"))
    assert tags == [{"min": {"k": 0}, "max": {"k": 10}, "tag": "A"}, {"min": {"k": 10}, "max": {"k": 20}, "tag": "B"}]
    unknown, overlapping, used = shell(
        "sh.addShardTag('s9', 'B')", "sh.addTagRange('d.u', {k: 15}, {k: 25}, 'A')", "sh.removeShardFromZone('s0', 'A')")
    assert (unknown["code"], overlapping["code"], used["code"]) == (70, 178, 163)
    (status,) = shell("sh.status().value")
    assert [one["tags"] for one in status["shards"]] == [["A"], ["B"]]
    assert [one["tag"] for one in of_database(status, "d")["collections"]["d.u"]["tags"]] == ["A", "B"]
    assert shell(
        "sh.removeRangeFromZone('d.u', {k: 0}, {k: 10})", "sh.removeTagRange('d.u', {k: 10}, {k: 20})",
        "sh.removeShardFromZone('s0', 'A')", "sh.removeShardTag('s1', 'B')",
    ) == [OK] * 4
    assert d.client.config.tags.count_documents({}) == 0
    assert not any(one.get("tags") for one in d.client.config.shards.find())


def of_database(status, name):
    return next(one for one in status["databases"] if one["database"]["_id"] == name)


def test_balancer(d, shell):
    shell("sh.shardCollection('d.r', {k: 1})")
    started, state, running, stopped, state_then, running_then = shell(
        "sh.startBalancer()", "sh.getBalancerState()", "sh.isBalancerRunning()",
        "sh.stopBalancer()", "sh.getBalancerState()", "sh.isBalancerRunning()")
    assert started == stopped == OK and state is True and state_then is False
    assert running["mode"] == "full" and running_then["mode"] == "off" and running_then["inBalancerRound"] is False
    on, state, off, state_then = shell(
        "sh.setBalancerState(true)", "sh.getBalancerState()", "sh.setBalancerState(false)", "sh.getBalancerState()")
    assert on == off == OK and state is True and state_then is False
    disabled, status, enabled, compliant, unknown = shell(
        "sh.disableBalancing('d.r')", "sh.status().value", "sh.enableBalancing('d.r')",
        "sh.balancerCollectionStatus('d.r')", "sh.balancerCollectionStatus('d.none')")
    assert disabled["modifiedCount"] == enabled["modifiedCount"] == 1
    assert of_database(status, "d")["collections"]["d.r"]["balancing"] is False
    assert status["balancer"]["Currently enabled"] == "no"
    assert compliant == {"chunkSize": 128, "balancerCompliant": True, **OK} and unknown["code"] == 118
    off, refused, status, on, moved = shell(
        "sh.disableMigrations('d.r')", "sh.moveChunk('d.r', {k: 0}, 's1')", "sh.status().value",
        "sh.enableMigrations('d.r')", "sh.moveChunk('d.r', {k: 0}, 's1')")
    assert off == on == OK and refused["code"] == 117 and moved["ok"] == 1
    assert of_database(status, "d")["collections"]["d.r"]["allowMigrations"] is False


def test_settings(d, shell):
    shell("sh.shardCollection('d.r', {k: 1})")
    split, no_split, before, stopped, then, started, after = shell(
        "sh.enableAutoSplit()", "sh.disableAutoSplit()", "sh.isAutoMergerEnabled()", "sh.stopAutoMerger()",
        "sh.isAutoMergerEnabled()", "sh.startAutoMerger()", "sh.isAutoMergerEnabled()")
    assert all(reply["acknowledged"] for reply in (split, no_split, stopped, started))
    assert (before, then, after) == (True, False, True)
    disabled, enabled = shell("sh.disableAutoMerger('d.r')", "sh.enableAutoMerger('d.r')")
    assert disabled["modifiedCount"] == enabled["modifiedCount"] == 1
    (status,) = shell("sh.status().value")
    assert status["autosplit"] == {"Currently enabled": "no"} and status["automerge"] == {"Currently enabled": "yes"}


def test_operations(d, shell):
    d.plain.insert_many([{"k": k} for k in range(10)])
    assert shell("sh.shardAndDistributeCollection('d.r', {k: 1})",
                 "sh.shardAndDistributeCollection('d.h', {k: 'hashed'}, false, {numInitialChunks: 3})") == [OK, OK]
    assert len(chunks(d, "h")) == 2
    d.r.insert_many([{"k": k, "j": k % 10} for k in range(40)])
    assert shell("sh.reshardCollection('d.r', {j: 1, k: 1})") == [OK]
    assert d.client.config.collections.find_one({"_id": "d.r"})["key"] == {"j": 1, "k": 1}
    nothing = shell("sh.abortReshardCollection('d.r')", "sh.commitReshardCollection('d.r')",
                    "sh.abortUnshardCollection('d.r')", "sh.abortMoveCollection('d.plain')")
    assert [one["code"] for one in nothing] == [339] * 4
    assert shell("sh.unshardCollection('d.r', 's1')", "sh.moveCollection('d.plain', 's1')") == [OK, OK]
    places = shell(*(f"db.getSiblingDB('d').{name}.getShardLocation()" for name in ("r", "plain", "h")))
    assert places[:2] == [{"shards": ["s1"], "sharded": False}] * 2
    assert places[2] == {"shards": ["s0", "s1"], "sharded": True}
    assert shell("db.getSiblingDB('d').getCollectionNames().sort()") == [["h", "plain", "r"]]
    version, none = shell("db.getSiblingDB('d').h.getShardVersion()", "db.getSiblingDB('d').none.getShardVersion()")
    assert version["ok"] == 1 and "version" in version and "versionEpoch" in version and none["code"] == 118
    assert d.r.count_documents({}) == 40 and d.plain.count_documents({}) == 10
    assert shell("sh.checkMetadataConsistency()", "db.getSiblingDB('d').checkMetadataConsistency()",
                 "db.getSiblingDB('d').h.checkMetadataConsistency()") == [[], [], []]


def test_analysis(d, shell):
    d.r.insert_many([{"k": k % 3} for k in range(30)])
    d.r.create_index("k")
    shell("sh.shardCollection('d.r', {k: 1})")
    of_d = "db.getSiblingDB('d').r"
    on, analyzed, off = shell(
        f"{of_d}.configureQueryAnalyzer({{mode: 'full', samplesPerSecond: 1}})",
        f"{of_d}.analyzeShardKey({{k: 1}}, {{readWriteDistribution: false}})", f"{of_d}.configureQueryAnalyzer({{mode: 'off'}})")
    assert on == {"newConfiguration": {"mode": "full", "samplesPerSecond": 1}, **OK}
    assert off["oldConfiguration"] == on["newConfiguration"] and off["newConfiguration"] == {"mode": "off"}
    assert analyzed["keyCharacteristics"]["numDistinctValues"] == 3


def test_status(d, shell):
    d.r.insert_many([{"k": k} for k in range(60)])
    d.r.create_index("k")
    shell("sh.shardCollection('d.r', {k: 1})", *(f"sh.splitAt('d.r', {{k: {k}}})" for k in range(1, 30)))
    shell("sh.moveChunk('d.r', {k: 0}, 's1')")
    short, long, printed = shell("sh.status().value", "sh.status(true).value", "db.printShardingStatus().value")
    assert printed == short
    of_short, of_long = (of_database(one, "d")["collections"]["d.r"] for one in (short, long))
    assert len(of_short["chunks"]) == 21 and of_short["chunks"][20].startswith("too many chunks")
    assert len(of_long["chunks"]) == 30
    assert of_long["chunks"][0]["min"] == {"k": {"$minKey": 1}} and of_long["chunks"][-1]["max"] == {"k": {"$maxKey": 1}}
    assert of_short["shardKey"] == {"k": 1} and of_short["unique"] is False
    assert {one["shard"]: one["nChunks"] for one in of_short["chunkMetadata"]} == {"s0": 29, "s1": 1}
    assert of_database(short, "d")["database"]["primary"] == "s0"
    assert of_database(short, "config")["collections"] == {} or "config.system.sessions" in str(of_database(short, "config"))
    assert "clusterId" in short["shardingVersion"] and len(long["active mongoses"]) == 2
    assert short["active mongoses"] == [{"8.0.0": 2}]
    assert short["balancer"]["Currently running"] == "no"
    assert "Success" in short["balancer"]["Migration Results for the last 24 hours"].values()
    assert [one["ns"] for one in short["shardedDataDistribution"] if one["ns"].startswith("d.")] == ["d.r"]


def test_collections_that_are_not_on_the_primary_shard_are_listed(d, shell):
    names = ["moved", "plain", "reshaped", "single", "whole"]
    d.plain.insert_one({"k": 1})
    for name in ("reshaped", "single", "whole"):
        shell(f"sh.shardCollection('d.{name}', {{k: 1}})")
        d[name].insert_one({"k": 1})
    d.moved.insert_one({"k": 1})
    assert shell("sh.unshardCollection('d.single', 's1')", "sh.moveCollection('d.moved', 's1')") == [OK, OK]
    shell("sh.addShardToZone('s1', 'B')")
    d.client.admin.command(
        "reshardCollection", "d.reshaped", key={"j": 1},
        zones=[{"zone": "B", "min": {"j": MinKey()}, "max": {"j": MaxKey()}}])
    d.command("collMod", "moved", validator={"k": {"$gt": 0}})
    for batch_size in (None, 1, 2):
        cursor = {} if batch_size is None else {"batchSize": batch_size}
        reply = d.command("listCollections", cursor=cursor)
        found, cursor_id = reply["cursor"]["firstBatch"], reply["cursor"]["id"]
        assert reply["cursor"]["ns"] == "d.$cmd.listCollections"
        while cursor_id:
            reply = d.command("getMore", cursor_id, collection="$cmd.listCollections", **({"batchSize": batch_size} if batch_size else {}))
            found += reply["cursor"]["nextBatch"]
            cursor_id = reply["cursor"]["id"]
        assert sorted(one["name"] for one in found) == names
        (moved,) = [one for one in found if one["name"] == "moved"]
        assert moved["options"]["validator"] == {"k": {"$gt": 0}}, "of a part that is kept up"
    assert d.list_collection_names(filter={"name": {"$in": ["single", "plain", "x"]}}) in (["plain", "single"], ["single", "plain"])
    # the new primary shard has no part of what stays
    shell("sh.shardCollection('d.stays', {k: 1})")
    d.client.admin.command("movePrimary", "d", to="s1")
    assert sorted(d.list_collection_names()) == sorted([*names, "stays"])
    (places,) = shell("db.getSiblingDB('d').aggregate([{$listClusterCatalog: {shards: true}}])")
    assert {one["ns"]: one["shards"] for one in places} == {
        "d.moved": ["s1"], "d.plain": ["s1"], "d.reshaped": ["s1"], "d.single": ["s1"], "d.stays": ["s0"], "d.whole": ["s0"]}
