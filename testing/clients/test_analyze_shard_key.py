"""`analyzeShardKey` on a set and through a router, which give the same for the same documents."""

import contextlib
import time

import bson
import pymongo
import pytest

from arbor_cluster import Cluster
from arbor_process import Arbor
from test_router import code_of


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Clients of a set and of a router."""
    directory = tmp_path_factory.mktemp("analyze")
    with contextlib.ExitStack() as stack:
        cluster = Cluster(directory, stack)
        # a config server is a set as any other one
        alone = stack.enter_context(Arbor(directory / "set", ["--replSet", "set"]))
        on_set = stack.enter_context(pymongo.MongoClient(alone.uri, directConnection=True))
        member = {"_id": 0, "host": alone.uri.removeprefix("mongodb://").strip("/").split("/")[0]}
        on_set.admin.command("replSetInitiate", {"_id": "set", "members": [member]})
        routed = stack.enter_context(cluster.routers[0].client())
        routed.admin.command("balancerStop")
        yield {"set": on_set, "router": routed, "shard": stack.enter_context(cluster.shards[0].client())}


@pytest.fixture(params=["set", "router", "sharded"])
def d(request, servers):
    client = servers["set" if request.param == "set" else "router"]
    client.drop_database("an")
    if request.param == "sharded":
        client.admin.command("enableSharding", "an", primaryShard="s0")
        client.admin.command("shardCollection", "an.c", key={"_id": "hashed"})
    yield client.an


def analyze(d, key, name="c", **options):
    return d.client.admin.command("analyzeShardKey", f"{d.name}.{name}", key=key, **options)


def characteristics(d, key, **options):
    return analyze(d, key, **{"readWriteDistribution": False, **options})["keyCharacteristics"]


def fill(d, count=100):
    d.c.insert_many([{"_id": n, "n": n, "few": n % 3, "a": {"x": n // 10}} for n in range(count)])
    for index in ("n", "few", "a.x"):
        d.c.create_index(index)


def test_characteristics(d):
    fill(d)
    is_sharded = d.command("collStats", "c").get("sharded", False)
    size = len(bson.encode(d.c.find_one({"_id": 1})))
    found = characteristics(d, {"few": 1})
    assert found.pop("numOrphanDocs", None) == (0 if is_sharded else None)
    assert found == {
        "numDocsTotal": 100, "avgDocSizeBytes": size, "numDocsSampled": 100, "isUnique": False, "numDistinctValues": 3,
        "mostCommonValues": [
            {"value": {"few": 0}, "frequency": 34}, {"value": {"few": 1}, "frequency": 33}, {"value": {"few": 2}, "frequency": 33}],
        "monotonicity": {"type": "unknown"},
    }
    of_path = characteristics(d, {"a.x": 1})
    assert of_path["numDistinctValues"] == 10 and len(of_path["mostCommonValues"]) == 5
    assert of_path["mostCommonValues"][0] == {"value": {"a.x": 0}, "frequency": 10}
    of_id = characteristics(d, {"_id": 1})
    assert of_id["isUnique"] and of_id["numDistinctValues"] == 100
    hashed = characteristics(d, {"few": "hashed"})
    assert hashed["numDistinctValues"] == 3 and isinstance(hashed["mostCommonValues"][0]["value"]["few"], int)
    assert sorted(one["frequency"] for one in hashed["mostCommonValues"]) == [33, 33, 34]
    d.c.insert_one({"_id": 1000})
    assert {"value": {"few": None}, "frequency": 1} in characteristics(d, {"few": 1})["mostCommonValues"]


def test_samples(d):
    fill(d, 2000)
    assert characteristics(d, {"n": 1}, sampleSize=5000)["numDocsSampled"] == 2000
    for option in ({"sampleRate": 0.5}, {"sampleSize": 1000}):
        found = characteristics(d, {"n": 1}, **option)
        assert 700 < found["numDocsSampled"] < 1300, "1000, within 13 deviations"
        assert found["numDistinctValues"] == found["numDocsSampled"] and found["numDocsTotal"] == 2000
    assert characteristics(d, {"n": 1}, sampleRate=1)["numDocsSampled"] == 2000


def test_supporting_indexes(d):
    fill(d)
    d.c.create_index([("p", 1)], sparse=True)
    d.c.create_index([("n", 1), ("few", "hashed")])
    assert characteristics(d, {"n": "hashed", "few": 1})["numDistinctValues"] == 100
    for key in ({"p": 1}, {"few": 1, "n": 1}, {"q": 1}):
        assert code_of(lambda key=key: characteristics(d, key)) == 20, key
        both = analyze(d, key)
        assert "keyCharacteristics" not in both and both["readDistribution"]["sampleSize"]["total"] == 0
    d.c.drop_index("n_1_few_hashed")
    d.c.insert_one({"few": [1, 2]})
    assert code_of(lambda: characteristics(d, {"few": 1})) == 20, "an index with arrays"
    only = analyze(d, {"n": 1}, keyCharacteristics=False)
    assert "keyCharacteristics" not in only
    assert only["writeDistribution"]["sampleSize"] == {"total": 0, "update": 0, "delete": 0, "findAndModify": 0}


def test_refusals(d, servers):
    fill(d)
    d.create_collection("empty")
    d.create_collection("view", viewOn="c", pipeline=[])
    d.create_collection("series", timeseries={"timeField": "t"})
    for name, code in [("none", 26), ("view", 166), ("series", 20), ("empty", 20)]:
        assert code_of(lambda name=name: analyze(d, {"_id": 1}, name=name)) == code, name
    for options, code in [
        ({"sampleRate": 0.5, "sampleSize": 5}, 72), ({"sampleRate": 2}, 2), ({"sampleSize": 0}, 2),
        ({"keyCharacteristics": False, "readWriteDistribution": False}, 72), ({"other": 1}, 40415),
    ]:
        assert code_of(lambda options=options: analyze(d, {"n": 1}, **options)) == code, options
    for key in ({}, {"n": -1}, {"n": "hashed", "few": "hashed"}):
        assert code_of(lambda key=key: analyze(d, key)) == 2, key
    assert code_of(lambda: d.command("analyzeShardKey", "an.c", key={"n": 1})) == 13
    shard = servers["shard"].admin
    assert code_of(lambda: shard.command("analyzeShardKey", "an.c", key={"n": 1})) == 20


def test_what_has_left_a_shard(servers):
    routed = servers["router"]
    routed.drop_database("an")
    routed.admin.command("enableSharding", "an", primaryShard="s0")
    fill(routed.an)
    routed.admin.command("shardCollection", "an.c", key={"n": 1})
    routed.admin.command("split", "an.c", middle={"n": 50})
    routed.admin.command("moveChunk", "an.c", find={"n": 50}, to="s1")
    found = characteristics(routed.an, {"n": 1})
    assert found["numDistinctValues"] == found["numDocsSampled"] == 100
    assert found["numDocsTotal"] - found["numOrphanDocs"] == 100


def configure(d, mode, name="c", **options):
    return d.client.admin.command("configureQueryAnalyzer", f"{d.name}.{name}", mode=mode, **options)


def samples(d, **options):
    return list(d.client.admin.aggregate([{"$listSampledQueries": options}]))


def sampled_until(d, statements, is_enough):
    """Repeats statements until samples of them are stored."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        statements()
        found = samples(d, namespace=f"{d.name}.c")
        if is_enough(found):
            return found
    raise AssertionError(found)


def test_configuration(d):
    fill(d)
    d.client.config.queryAnalyzers.delete_many({})
    first = configure(d, "full", samplesPerSecond=5)
    assert first["newConfiguration"] == {"mode": "full", "samplesPerSecond": 5.0} and "oldConfiguration" not in first
    (stored,) = d.client.config.queryAnalyzers.find()
    assert stored["_id"] == "an.c" and stored["mode"] == "full" and "startTime" in stored and "stopTime" not in stored
    second = configure(d, "full", samplesPerSecond=0.5)
    assert second["oldConfiguration"] == first["newConfiguration"]
    assert d.client.config.queryAnalyzers.find_one()["startTime"] == stored["startTime"]
    off = configure(d, "off")
    assert off["oldConfiguration"] == second["newConfiguration"] and off["newConfiguration"] == {"mode": "off"}
    assert "stopTime" in d.client.config.queryAnalyzers.find_one()
    for options, code in [
        ({"mode": "full"}, 72), ({"mode": "full", "samplesPerSecond": 51}, 2), ({"mode": "full", "samplesPerSecond": 0}, 2),
        ({"mode": "some"}, 2), ({"mode": "full", "samplesPerSecond": "x"}, 14), ({"mode": "off", "other": 1}, 40415),
        ({"mode": "off", "name": "none"}, 26),
    ]:
        assert code_of(lambda options=options: configure(d, **options)) == code, options
    assert code_of(lambda: d.client.admin.command("configureQueryAnalyzer", "an.c")) == 40414


def test_samples_of_statements(d):
    fill(d)
    d.client.config.sampledQueries.delete_many({})
    configure(d, "full", samplesPerSecond=50)
    kinds = ["find", "aggregate", "count", "distinct", "update", "delete", "findAndModify"]
    try:
        def statements():
            list(d.c.find({"n": 5}))
            list(d.c.aggregate([{"$match": {"n": {"$gte": 10, "$lt": 20}}}]))
            d.command("count", "c", query={"few": 1})
            d.c.distinct("few", {"n": 7})
            d.c.update_one({"n": 6}, {"$set": {"n": 6}})
            d.c.delete_many({"few": 17})
            d.c.find_one_and_update({"_id": 3}, {"$set": {"other": 1}})
            list(d.none.find({"n": 5}))

        found = sampled_until(d, statements, lambda found: {one["cmdName"] for one in found} == set(kinds))
    finally:
        configure(d, "off")
    by_kind = {one["cmdName"]: one for one in found}
    assert by_kind["find"]["cmd"]["filter"] == {"n": 5}
    assert by_kind["aggregate"]["cmd"]["filter"] == {"n": {"$gte": 10, "$lt": 20}}
    assert by_kind["update"]["cmd"]["updates"][0]["q"] == {"n": 6}
    assert all(one["ns"] == "an.c" and "expireAt" in one and "collectionUuid" in one for one in found)
    assert len(samples(d)) >= len(found) and samples(d, namespace="an.none") == []
    assert code_of(lambda: samples(d, other=1)) == 40415
    assert code_of(lambda: list(d.aggregate([{"$listSampledQueries": {}}]))) == 73
    expiring = d.client.config.sampledQueries.index_information()["expireAt_1"]
    assert expiring["expireAfterSeconds"] == 0

    # also those that waited to be stored
    analyzed = analyze(d, {"n": 1}, keyCharacteristics=False)
    names = [one["cmdName"] for one in samples(d)]
    counts = {kind: names.count(kind) for kind in kinds}
    status = d.client.admin.command("serverStatus")["queryAnalyzers"]
    assert status["activeCollections"] == status["waitingSamples"] == status["droppedSamples"] == 0
    assert status["totalSampledReadsCount"] >= sum(counts[kind] for kind in kinds[:4]) and status["totalSampledReadsBytes"] > 0
    assert status["totalSampledWritesCount"] >= sum(counts[kind] for kind in kinds[4:]) and status["totalSampledWritesBytes"] > 0
    reads, writes = analyzed["readDistribution"], analyzed["writeDistribution"]
    assert reads["sampleSize"] == {"total": sum(counts[kind] for kind in kinds[:4]), **{kind: counts[kind] for kind in kinds[:4]}}
    assert writes["sampleSize"] == {"total": sum(counts[kind] for kind in kinds[4:]), **{kind: counts[kind] for kind in kinds[4:]}}
    total = reads["sampleSize"]["total"]
    assert reads["percentageOfSingleShardReads"] == pytest.approx(100 * (counts["find"] + counts["distinct"]) / total)
    assert reads["percentageOfMultiShardReads"] == pytest.approx(100 * counts["aggregate"] / total)
    assert reads["percentageOfScatterGatherReads"] == pytest.approx(100 * counts["count"] / total)
    assert len(reads["numReadsByRange"]) > 50 and min(reads["numReadsByRange"]) >= counts["count"]
    total = writes["sampleSize"]["total"]
    assert writes["percentageOfShardKeyUpdates"] == pytest.approx(100 * counts["update"] / total)
    assert writes["percentageOfSingleWritesWithoutShardKey"] == pytest.approx(100 * counts["findAndModify"] / total)
    assert writes["percentageOfMultiWritesWithoutShardKey"] == pytest.approx(100 * counts["delete"] / total)

    # the same collection keeps them with another key
    if d.client.config.shards.count_documents({}):
        total = reads["sampleSize"]["total"]
        command, key = ("reshardCollection", {"n": 1}) if d.command("collStats", "c").get("sharded") else ("shardCollection", {"n": 1})
        d.client.admin.command(command, "an.c", key=key)
        assert analyze(d, {"few": 1}, keyCharacteristics=False)["readDistribution"]["sampleSize"]["total"] == total
    # another collection of the name has no samples, and is not sampled
    d.drop_collection("c")
    fill(d)
    assert analyze(d, {"n": 1}, keyCharacteristics=False)["readDistribution"]["sampleSize"]["total"] == 0
