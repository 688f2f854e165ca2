"""`analyzeShardKey` on a set and through a router, which give the same for the same documents."""

import contextlib

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
