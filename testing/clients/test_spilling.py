"""$sort and $group above the memory limit: on disk if allowed, an error if not. The limits are small ones here."""

import os

import pymongo
import pytest
from pymongo.errors import OperationFailure

from arbor_process import Arbor

LIMITS = ["--setParameter", "internalQueryMaxBlockingSortMemoryUsageBytes=100000",
          "--setParameter", "internalDocumentSourceGroupMaxMemoryBytes=100000"]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    with Arbor(tmp_path_factory.mktemp("small"), LIMITS) as arbor:
        with pymongo.MongoClient(arbor.uri) as client:
            client.d.c.insert_many([{"_id": n, "k": n * 7919 % 4001, "t": "x" * 50} for n in range(10_000)])
            yield client


def refused(run):
    with pytest.raises(OperationFailure) as caught:
        list(run())
    assert caught.value.code == 292, caught.value


SORT = [{"$sort": {"k": 1}}]
GROUP = [{"$group": {"_id": "$k", "ids": {"$push": "$_id"}, "n": {"$sum": 1}}}]


def test_sorts(small):
    expect = sorted(range(10_000), key=lambda n: n * 7919 % 4001)
    assert [doc["_id"] for doc in small.d.c.aggregate(SORT)] == expect
    assert [doc["_id"] for doc in small.d.c.find().sort("k").batch_size(99)] == expect
    assert [doc["_id"] for doc in small.d.c.find().sort("k").skip(10).limit(3000)] == expect[10:3010]
    refused(lambda: small.d.c.aggregate(SORT, allowDiskUse=False))
    refused(lambda: small.d.c.find().sort("k").allow_disk_use(False))


def test_groups(small):
    found = {doc["_id"]: doc for doc in small.d.c.aggregate(GROUP)}
    assert len(found) == 4001
    assert all(doc["ids"] == sorted(doc["ids"]) and len(doc["ids"]) == doc["n"] for doc in found.values())
    assert sum(doc["n"] for doc in found.values()) == 10_000
    refused(lambda: small.d.c.aggregate(GROUP, allowDiskUse=False))


def test_the_default_is_a_parameter(small):
    assert small.admin.command("getParameter", allowDiskUseByDefault=1)["allowDiskUseByDefault"] is True
    small.admin.command("setParameter", 1, allowDiskUseByDefault=False)
    try:
        refused(lambda: small.d.c.aggregate(SORT))
        assert len(list(small.d.c.aggregate(SORT, allowDiskUse=True))) == 10_000
    finally:
        small.admin.command("setParameter", 1, allowDiskUseByDefault=True)


def test_explain_reports(small):
    command = {"aggregate": "c", "pipeline": [{"$unset": "x"}] + GROUP + [{"$sort": {"n": 1}}], "cursor": {}}
    shown = small.d.command("explain", command, verbosity="executionStats")
    cursor, unset, group, sort = shown["stages"]
    assert "$cursor" in cursor and unset["nReturned"] == 10_000
    assert group["usedDisk"] is True and group["spills"] > 1 and group["nReturned"] == 4001
    assert sort["usedDisk"] is True and sort["spills"] >= 1
    plain = small.d.command("explain", {"find": "c", "sort": {"k": 1}}, verbosity="executionStats")
    assert plain["executionStats"]["executionStages"]["usedDisk"] is True


def test_nothing_stays_in_the_directory(small, tmp_path):
    with Arbor(tmp_path / "data", LIMITS) as arbor:
        with pymongo.MongoClient(arbor.uri) as client:
            client.d.c.insert_many([{"_id": n, "t": "x" * 100} for n in range(3000)])
            assert len(list(client.d.c.find().sort("t").batch_size(10).limit(20))) == 20
        left = [name for _, _, names in os.walk(tmp_path / "data") for name in names if name.startswith("sorted-run")]
        assert left == []
