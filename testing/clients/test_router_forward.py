"""Reads that a router sends to one shard from the thread of the client's connection, without a thread that waits for the reply."""

import contextlib
import random
import threading
import time

import pymongo
import pytest
from pymongo.errors import ExecutionTimeout, OperationFailure

from arbor_cluster import Cluster

DOCUMENTS = 2_000
MEGABYTE = 1 << 20
# many seconds for one document
LONG = {"_id": 1, "$expr": {"$gt": [{"$sum": {"$map": {"input": {"$range": [0, 300_000]}, "in": {"$size": {"$range": [0, {"$add": [20_000, "$_id"]}]}}}}}, -1]}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        yield Cluster(tmp_path_factory.mktemp("forward"), stack)


@pytest.fixture
def routed(cluster):
    with cluster.routers[0].client() as client:
        client.drop_database("fw")
        client.admin.command("enableSharding", "fw", primaryShard="s0")
        client.admin.command("shardCollection", "fw.c", key={"_id": 1})
        client.admin.command("split", "fw.c", middle={"_id": DOCUMENTS // 2})
        client.admin.command("moveChunk", "fw.c", find={"_id": DOCUMENTS // 2}, to="s1")
        client.fw.c.insert_many([{"_id": n, "square": n * n} for n in range(DOCUMENTS)])
        client.fw.plain.insert_many([{"_id": n, "square": n * n} for n in range(100)])
        yield client


def pooled(client):
    return client.admin.command("serverStatus")["network"]["numRequestsPooled"]


def test_targeted_reads_need_no_thread_that_waits(routed):
    read = lambda n: routed.fw.c.find_one({"_id": n})["square"]  # noqa: E731
    assert [read(n) for n in range(0, DOCUMENTS, 100)] == [n * n for n in range(0, DOCUMENTS, 100)]
    before = pooled(routed)
    for n in range(0, DOCUMENTS, 4):
        assert read(n) == n * n
    assert routed.fw.c.find_one({"_id": -1}) is None
    assert pooled(routed) - before < DOCUMENTS // 20


def test_replies_are_those_of_their_requests(routed):
    """Many connections at once, reads of one shard, of several, in batches, with errors, and writes between them."""
    failures = []

    def work(seed):
        chance = random.Random(seed)
        try:
            for _ in range(150):
                n = chance.randrange(DOCUMENTS)
                kind = chance.randrange(6)
                if kind == 0:
                    assert routed.fw.plain.find_one({"_id": n % 100})["square"] == (n % 100) ** 2
                elif kind == 1:
                    assert [d["_id"] for d in routed.fw.c.find({"_id": {"$gte": n, "$lt": n + 50}}, batch_size=7).sort("_id")] == [
                        m for m in range(n, n + 50) if m < DOCUMENTS]
                elif kind == 2:
                    with pytest.raises(OperationFailure, match="unknown operator"):
                        routed.fw.c.find_one({"_id": n, "square": {"$noSuch": 1}})
                elif kind == 3:
                    assert routed.fw.c.update_one({"_id": n}, {"$set": {"seen": seed}}).matched_count == 1
                else:
                    assert routed.fw.c.find_one({"_id": n}, {"square": 1}) == {"_id": n, "square": n * n}
        except BaseException as failure:  # noqa: BLE001
            failures.append((seed, failure))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(24)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures, failures[0]


def test_long_replies_arrive_in_parts(routed):
    text = "x" * (14 * MEGABYTE)
    routed.fw.c.insert_one({"_id": DOCUMENTS + 1, "text": text})
    for _ in range(5):
        assert routed.fw.c.find_one({"_id": DOCUMENTS + 1})["text"] == text
    # longer than what is sent without waiting
    assert routed.fw.c.find_one({"_id": DOCUMENTS + 1, "no": {"$ne": "y" * MEGABYTE}}, {"_id": 1}) == {"_id": DOCUMENTS + 1}


def test_reads_that_take_long_are_shown_ended_and_killed(routed):
    with pytest.raises(ExecutionTimeout) as expired:
        routed.fw.c.find_one(LONG, max_time_ms=300)
    assert expired.value.code == 50
    ended = []

    def read():
        with pytest.raises(OperationFailure) as killed:
            routed.fw.c.find_one(LONG)
        ended.append(killed.value.code)

    reader = threading.Thread(target=read)
    reader.start()

    def running():
        shown = routed.admin.aggregate([{"$currentOp": {"localOps": True}}, {"$match": {"command.find": "c"}}])
        return [op["opid"] for op in shown if "$expr" in op["command"].get("filter", {})]

    deadline = time.monotonic() + 30
    while not (found := running()) and time.monotonic() < deadline:
        time.sleep(0.02)
    routed.admin.command("killOp", op=found[0])
    reader.join(timeout=60)
    assert ended == [11601]


def test_another_router_has_moved_and_dropped_what_is_read(cluster, routed):
    with cluster.routers[1].client() as other:
        for n in (5, DOCUMENTS - 5):
            assert other.fw.c.find_one({"_id": n})["square"] == n * n
        routed.admin.command("moveChunk", "fw.c", find={"_id": 0}, to="s1")
        routed.admin.command("moveChunk", "fw.c", find={"_id": DOCUMENTS // 2}, to="s0")
        for n in (5, DOCUMENTS - 5):
            assert other.fw.c.find_one({"_id": n})["square"] == n * n
        routed.fw.drop_collection("c")
        assert other.fw.c.find_one({"_id": 5}) is None
        routed.fw.c.insert_one({"_id": 5, "again": True})
        assert other.fw.c.find_one({"_id": 5})["again"]


def test_a_shard_that_restarts_is_found_again(cluster, routed):
    assert routed.fw.c.find_one({"_id": 7})["square"] == 49
    for end in ("kill", "stop"):
        shard = cluster.shards[0]
        getattr(shard, end)()
        shard.start()
        assert routed.fw.c.find_one({"_id": 7})["square"] == 49, end


def test_a_client_that_leaves_ends_its_read(cluster, routed):
    with cluster.routers[0].client(socketTimeoutMS=300, retryReads=False) as leaving:
        with pytest.raises(pymongo.errors.NetworkTimeout):
            leaving.fw.c.find_one(LONG)
    with cluster.shards[0].client() as shard:
        def running():
            return [op for op in shard.admin.aggregate([{"$currentOp": {}}]) if "$expr" in op.get("command", {}).get("filter", {})]
        deadline = time.monotonic() + 30
        while running() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not running()


@pytest.mark.parametrize("read", ["filter", "projection"])
def test_an_expression_that_takes_long_holds_up_no_other_connection(cluster, routed, read):
    """Reads by `_id` run on the threads of connections; those that compute do not."""
    find = (LONG,) if read == "filter" else ({"_id": 1}, {"x": LONG["$expr"]})
    with cluster.shards[0].client() as shard:
        def compute():
            with contextlib.suppress(ExecutionTimeout):
                shard.fw.c.find_one(*find, max_time_ms=5_000)
        threads = [threading.Thread(target=compute) for _ in range(8)]
        [thread.start() for thread in threads]
        time.sleep(0.5)
        reads = 0
        while all(thread.is_alive() for thread in threads):
            with cluster.shards[0].client() as other:
                assert other.fw.c.find_one({"_id": 2})["square"] == 4
            reads += 1
        [thread.join() for thread in threads]
        assert reads >= 3
