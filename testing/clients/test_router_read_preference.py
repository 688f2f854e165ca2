"""Reads through a router that go to secondaries of the shards, also while chunks move and members end."""

import os
import pathlib
import re
import signal
import subprocess
import threading
import time

import pymongo
import pytest
from pymongo.errors import OperationFailure
from pymongo.read_preferences import Nearest, Primary, Secondary, SecondaryPreferred

from test_cluster import children, free_ports, wait_for

DOCUMENTS = 600


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    directory = tmp_path_factory.mktemp("preferences")
    with open(directory / "output", "w") as output:
        command = [os.environ["ARBOR"], "cluster", "--shards", "2", "--members", "3", "--dbpath", str(directory / "data"), "--port", str(free_ports(12))]
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
    try:
        def line():
            text = (directory / "output").read_text()
            assert process.poll() is None, text
            return re.search(r"^mongodb://\S+$", text, re.MULTILINE)

        found = wait_for("the connection string", line, 180).group()
        with pymongo.MongoClient(found, serverSelectionTimeoutMS=20000) as client:
            client.admin.command("balancerStop")
            client.admin.command("enableSharding", "pref", primaryShard="s0")
            client.admin.command("shardCollection", "pref.parts", key={"a": 1})
            client.admin.command("split", "pref.parts", middle={"a": DOCUMENTS // 2})
            client.admin.command("moveChunk", "pref.parts", find={"a": DOCUMENTS}, to="s1")
            client.pref.parts.insert_many([{"_id": n, "a": n} for n in range(DOCUMENTS)])
            client.pref.whole.insert_many([{"_id": n} for n in range(50)])
        yield found, process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=90)


def queries(client):
    """The queries that each member has run, by its role."""
    counted = {"primary": 0, "secondary": 0}
    for shard in client.admin.command("listShards")["shards"]:
        for host in shard["host"].split("/")[1].split(","):
            with pymongo.MongoClient(host, directConnection=True, serverSelectionTimeoutMS=20000) as member:
                role = "primary" if member.admin.command("hello")["isWritablePrimary"] else "secondary"
                counted[role] += member.admin.command("serverStatus")["opcounters"]["query"]
    return counted


@pytest.mark.parametrize(("preference", "expected"), [
    (Primary(), {"primary"}), (Secondary(), {"secondary"}), (SecondaryPreferred(), {"secondary"}), (Nearest(), {"primary", "secondary"})])
def test_reads_go_where_they_are_to(uri, preference, expected):
    with pymongo.MongoClient(uri[0]) as client:
        before = queries(client)
        pref = client.get_database("pref", read_preference=preference)
        for at in range(0, DOCUMENTS, 20):
            assert pref.parts.find_one({"a": at})["_id"] == at
        assert pref.parts.count_documents({}) == DOCUMENTS and pref.parts.distinct("a", {"a": {"$lt": 3}}) == [0, 1, 2]
        assert [doc["_id"] for doc in pref.parts.find(sort=[("a", -1)], batch_size=50)] == list(reversed(range(DOCUMENTS)))
        assert pref.whole.count_documents({}) == 50
        # what writes goes to the primaries
        pref.parts.aggregate([{"$match": {"a": {"$lt": 10}}}, {"$out": "written"}])
        assert client.pref.written.count_documents({}) == 10
        after = queries(client)
    # the members' own reads are few; those of the first use of a preference may be the router's
    more = {role for role in after if after[role] - before[role] >= 10}
    assert more == expected, (before, after)


def test_preferences_without_a_member(uri):
    with pymongo.MongoClient(uri[0]) as client:
        database = client.get_database("pref", read_preference=Secondary(tag_sets=[{"dc": "none"}]))
        with pytest.raises(OperationFailure) as failed:
            database.parts.find_one({"a": 1}, max_time_ms=2000)
        assert failed.value.code in (133, 50)
        both = client.get_database("pref", read_preference=SecondaryPreferred(tag_sets=[{"dc": "none"}, {}]))
        assert both.parts.find_one({"a": 1})["_id"] == 1


def test_a_session_reads_its_own_writes_on_secondaries(uri):
    with pymongo.MongoClient(uri[0]) as client, client.start_session(causal_consistency=True) as session:
        parts = client.get_database("pref", read_preference=Secondary()).parts
        for turn in range(100):
            client.pref.parts.update_one({"a": 5}, {"$set": {"turn": turn}}, session=session)
            assert parts.find_one({"a": 5}, session=session)["turn"] == turn
            assert parts.find_one({"_id": 5}, session=session)["turn"] == turn


def test_a_tailing_cursor_on_a_secondary_follows(uri):
    with pymongo.MongoClient(uri[0]) as client, client.start_session(causal_consistency=True) as session:
        client.pref.drop_collection("tail")
        client.pref.create_collection("tail", capped=True, size=100_000)
        # a secondary that has not applied the insertion yet would show an empty collection, whose cursor is dead
        client.pref.tail.insert_one({"_id": 0}, session=session)
        tail = client.get_database("pref", read_preference=Secondary()).tail
        cursor = tail.find(cursor_type=pymongo.CursorType.TAILABLE_AWAIT, session=session)
        assert cursor.next()["_id"] == 0
        client.pref.tail.insert_one({"_id": 1})
        assert wait_for("the next document", lambda: next(cursor, None), 20)["_id"] == 1


def test_chunks_move_unnoticed_by_readers_of_secondaries(uri):
    wrong, reads, over = [], [], threading.Event()

    def read():
        with pymongo.MongoClient(uri[0]) as client:
            parts = client.get_database("pref", read_preference=Secondary()).parts
            while not over.is_set():
                found = sorted(doc["_id"] for doc in parts.find({}, batch_size=100))
                if found != list(range(DOCUMENTS)):
                    wrong.append(found)
                reads.append(1)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    with pymongo.MongoClient(uri[0]) as client:
        for turn in range(8):
            client.admin.command("moveChunk", "pref.parts", find={"a": DOCUMENTS}, to=["s0", "s1"][turn % 2])
    over.set()
    for thread in threads:
        thread.join()
    assert len(reads) > 20 and wrong == []


def test_reads_continue_without_a_secondary(uri):
    with pymongo.MongoClient(uri[0]) as client:
        host = client.admin.command("listShards")["shards"][0]["host"].split("/")[1].split(",")[-1]
        parts = client.get_database("pref", read_preference=SecondaryPreferred()).parts
        assert parts.count_documents({}) == DOCUMENTS
        port = host.split(":")[1].encode()
        victim = next(pid for pid in children(uri[1].pid) if port in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"))
        os.kill(victim, signal.SIGKILL)
        until = time.monotonic() + 3
        while time.monotonic() < until:
            assert parts.count_documents({}) == DOCUMENTS


def test_a_new_primary_of_a_shard_knows_what_the_shard_owns(uri):
    """It refused every request of routers as stale: only a start read what the shard owns."""
    def leader(hosts):
        for host in hosts:
            with pymongo.MongoClient(host, directConnection=True, serverSelectionTimeoutMS=20000) as member:
                if member.admin.command("hello")["isWritablePrimary"]:
                    return host
        return None

    with pymongo.MongoClient(uri[0], serverSelectionTimeoutMS=20000) as client:
        hosts = next(shard["host"] for shard in client.admin.command("listShards")["shards"] if shard["_id"] == "s1").split("/")[1].split(",")
        before = wait_for("a primary", lambda: leader(hosts), 60)
        with pymongo.MongoClient(before, directConnection=True, serverSelectionTimeoutMS=20000) as member:
            member.admin.command("replSetStepDown", 60)
        wait_for("another primary", lambda: leader(set(hosts) - {before}), 60)
        client.pref.parts.insert_one({"_id": -1, "a": DOCUMENTS + 1})
        assert client.pref.parts.find_one({"a": DOCUMENTS + 1})["_id"] == -1
        client.pref.parts.delete_one({"a": DOCUMENTS + 1})
