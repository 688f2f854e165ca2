"""The memory limit of the process: what does not fit spills, gets smaller, waits or is refused."""

import os
import pathlib
import sys
import threading

import pymongo
import pytest
from pymongo.errors import OperationFailure

from arbor_process import Arbor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "attack"))
from memory import Sampler  # noqa: E402

LIMIT_MIB = 160
ROWS = 30_000
EXCEEDED_MEMORY_LIMIT = 146
NO_DISK_USE_ALLOWED = 292
CURSOR_NOT_FOUND = 43


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    with Arbor(tmp_path_factory.mktemp("small"), ["--memoryLimit", f"{LIMIT_MIB}M", "--cacheSize", "64M"]) as server:
        with pymongo.MongoClient(server.uri) as client:
            for first in range(0, ROWS, 1000):
                rows = [{"_id": n, "g": n % 5000, "p": os.urandom(700).hex()} for n in range(first, first + 1000)]
                client.db.rows.insert_many(rows)
        yield server


@pytest.fixture
def rows(small):
    with pymongo.MongoClient(small.uri) as client:
        yield client.db.rows


@pytest.fixture
def held(small):
    """Ends with the check that the limit held."""
    sampler = Sampler(small.process.pid)
    sampler.start()
    yield
    sampler.ended.set()
    sampler.join()
    assert sampler.peak <= 1.15 * LIMIT_MIB


def at_once(server, count, work):
    outcomes = []

    def one():
        with pymongo.MongoClient(server.uri) as client:
            outcomes.append(work(client.db.rows))

    threads = [threading.Thread(target=one) for _ in range(count)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return outcomes


def test_scans_take_smaller_batches(small, held):
    assert at_once(small, 4, lambda rows: sum(1 for _ in rows.find())) == [ROWS] * 4


def test_sorts_and_groups_spill(small, held):
    sort = lambda rows: sum(1 for _ in rows.find().sort("p", 1))  # noqa: E731
    assert at_once(small, 2, sort) == [ROWS] * 2
    group = [{"$group": {"_id": "$g", "p": {"$max": "$p"}}}]
    assert at_once(small, 2, lambda rows: sum(1 for _ in rows.aggregate(group))) == [5000] * 2


def test_a_sort_that_may_not_spill_is_refused(rows, held):
    with pytest.raises(OperationFailure) as refused:
        list(rows.find().sort("p", 1).allow_disk_use(False))
    assert refused.value.code == NO_DISK_USE_ALLOWED
    assert f"Sort exceeded memory limit of {LIMIT_MIB << 20} bytes" in refused.value.details["errmsg"]


@pytest.mark.parametrize(
    "pipeline",
    [
        # four times the 42 MB of all rows: once they may fit, and are too large for a document then (10334)
        [{"$group": {"_id": None, "all": {"$push": {"a": "$p", "b": "$p", "c": "$p", "d": "$p"}}}}],
        [{"$limit": 1}, {"$project": {"n": {"$size": {"$setUnion": [{"$range": [0, 3_000_000]}, []]}}}}],
        [{"$match": {"g": {"$in": list(range(400_000))}}}],
    ],
    ids=["push", "union", "in"],
)
def test_what_cannot_spill_is_refused(rows, held, pipeline):
    with pytest.raises(OperationFailure) as refused:
        list(rows.aggregate(pipeline))
    assert refused.value.code == EXCEEDED_MEMORY_LIMIT


def test_large_inserts_wait_for_each_other(small, held):
    documents = [b"x" * 9_000_000] * 3
    insert = lambda rows: len(rows.database.large.insert_many([{"p": p} for p in documents]).inserted_ids)  # noqa: E731
    assert at_once(small, 4, insert) == [3] * 4


def test_an_index_build(rows, held):
    assert rows.create_index("p") == "p_1"


def test_the_limit_is_shown_and_changed(rows):
    admin = rows.database.client.admin
    assert admin.command("getParameter", 1, memoryLimit=1)["memoryLimit"] == LIMIT_MIB << 20
    budget = admin.command("serverStatus")["memoryBudget"]
    assert budget["limitBytes"] == LIMIT_MIB << 20
    assert 0 < budget["residentBytes"] < 1.15 * (LIMIT_MIB << 20)
    assert set(budget["reservedBytes"]) == {"statements", "batches", "messages", "replies", "transactions", "indexBuilds"}
    assert admin.command("setParameter", 1, memoryLimit="200M")["was"] == LIMIT_MIB << 20
    assert admin.command("serverStatus")["memoryBudget"]["limitBytes"] == 200 << 20
    admin.command("setParameter", 1, memoryLimit=LIMIT_MIB << 20)
    with pytest.raises(OperationFailure) as refused:
        admin.command("setParameter", 1, memoryLimit=1)
    assert refused.value.code == 2


def test_a_message_beyond_the_whole_budget(tmp_path):
    """It is refused with a reply, and its connection stays."""
    with Arbor(tmp_path / "data", ["--memoryLimit", "64M", "--cacheSize", "32M"]) as server:
        with pymongo.MongoClient(server.uri, maxPoolSize=1) as client:
            insert = lambda size: client.db.large.insert_many([{"p": b"x" * 12_000_000}] * (size // 12_000_000))  # noqa: E731
            connection = client.admin.command("hello")["connectionId"]
            with pytest.raises(OperationFailure, match="larger than the memory for messages") as refused:
                insert(36_000_000)
            assert refused.value.code == EXCEEDED_MEMORY_LIMIT
            assert client.db.large.count_documents({}) == 0
            assert len(insert(12_000_000).inserted_ids) == 1
            assert client.admin.command("hello")["connectionId"] == connection


@pytest.mark.usefixtures("held")
def test_fewer_cursors_are_open_in_a_small_memory(small):
    most = (LIMIT_MIB << 20) // 16 // (32 << 10)
    with pymongo.MongoClient(small.uri, maxPoolSize=1) as client:
        cursors = [client.db.rows.find().batch_size(2) for _ in range(most + 20)]
        [next(cursor) for cursor in cursors]
        assert client.admin.command("serverStatus")["metrics"]["cursor"]["open"]["total"] <= most
        with pytest.raises(OperationFailure) as failure:
            list(cursors[0])
        assert failure.value.code == CURSOR_NOT_FOUND
        assert len([next(cursors[-1]) for _ in range(5)]) == 5
        [cursor.close() for cursor in cursors]
