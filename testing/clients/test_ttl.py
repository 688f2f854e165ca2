"""Expired documents are deleted, and only they."""

import datetime
import time

import pymongo
import pytest

from arbor_process import Arbor

FLAGS = ["--setParameter", "ttlMonitorSleepSecs=1"]
NOW = datetime.datetime.now(datetime.timezone.utc)
OLD, NEW = NOW - datetime.timedelta(hours=1), NOW + datetime.timedelta(hours=1)


@pytest.fixture
def server(tmp_path):
    with Arbor(tmp_path / "data", FLAGS) as arbor, pymongo.MongoClient(arbor.uri) as client:
        yield arbor, client


def ttl(client):
    return client.admin.command("serverStatus")["metrics"]["ttl"]


def wait_for_pass(client, wait_s=60):
    """A pass that began after this call has ended."""
    awaited, begin = ttl(client)["passes"] + 2, time.monotonic()
    while ttl(client)["passes"] < awaited:
        assert time.monotonic() - begin < wait_s, "the monitor makes no passes"
        time.sleep(0.1)


def ids(collection):
    return sorted(doc["_id"] for doc in collection.find({}, {"_id": 1}))


def test_dates_expire_and_nothing_else(server):
    _, client = server
    c = client.d.c
    c.create_index("at", expireAfterSeconds=600)
    c.create_index([("other", -1)], expireAfterSeconds=600, hidden=True)
    c.insert_many([
        {"_id": "old", "at": OLD}, {"_id": "new", "at": NEW}, {"_id": "now", "at": datetime.datetime.now(datetime.timezone.utc)},
        {"_id": "number", "at": 1}, {"_id": "text", "at": "1970-01-01"}, {"_id": "null", "at": None}, {"_id": "none"},
        {"_id": "both", "at": [NEW, OLD]}, {"_id": "array", "at": [NEW, 5, "x"]}, {"_id": "empty", "at": []},
        {"_id": "hidden index", "other": OLD}, {"_id": "inside", "at": {"at": OLD}},
    ])
    wait_for_pass(client)
    assert ids(c) == sorted(["new", "now", "number", "text", "null", "none", "array", "empty", "inside"])
    assert ttl(client)["deletedDocuments"] == 3
    assert client.d.validate_collection("c", full=True)["valid"]


def test_a_backlog_goes_in_many_batches_and_every_index_has_its_turn(server):
    _, client = server
    for name in ["a", "b"]:
        client.d[name].create_index("x.at", expireAfterSeconds=0)
        client.d[name].create_index("k")
        client.d[name].insert_many([{"_id": i, "k": i % 7, "x": {"at": NEW if i % 10 == 0 else OLD}} for i in range(5000)])
    wait_for_pass(client)
    for name in ["a", "b"]:
        assert ids(client.d[name]) == list(range(0, 5000, 10))
        report = client.d.validate_collection(name, full=True)
        assert report["valid"] and report["keysPerIndex"]["k_1"] == 500
    assert ttl(client)["deletedDocuments"] == 9000


def test_coll_mod_and_the_parameters_change_what_expires(server):
    _, client = server
    db = client.d
    db.c.create_index("at", expireAfterSeconds=86_400)
    db.c.insert_one({"_id": 1, "at": OLD})
    wait_for_pass(client)
    assert ids(db.c) == [1]
    assert client.admin.command("setParameter", 1, ttlMonitorEnabled=False)["was"] is True
    reply = db.command("collMod", "c", index={"keyPattern": {"at": 1}, "expireAfterSeconds": 60})
    assert (reply["expireAfterSeconds_old"], reply["expireAfterSeconds_new"]) == (86_400, 60)
    assert db.c.index_information()["at_1"]["expireAfterSeconds"] == 60
    time.sleep(3)
    assert ids(db.c) == [1]
    client.admin.command("setParameter", 1, ttlMonitorEnabled=True)
    wait_for_pass(client)
    assert ids(db.c) == []


def test_an_index_that_becomes_a_ttl_index(server):
    _, client = server
    client.d.c.create_index("at")
    client.d.c.insert_many([{"_id": 1, "at": OLD}, {"_id": 2, "at": NEW}])
    reply = client.d.command("collMod", "c", index={"name": "at_1", "expireAfterSeconds": 60})
    assert "expireAfterSeconds_old" not in reply and reply["expireAfterSeconds_new"] == 60
    wait_for_pass(client)
    assert ids(client.d.c) == [2]


def test_a_partial_ttl_index(server):
    _, client = server
    client.d.c.create_index("at", expireAfterSeconds=60, partialFilterExpression={"done": True})
    client.d.c.insert_many([{"_id": 1, "at": OLD, "done": True}, {"_id": 2, "at": OLD}, {"_id": 3, "at": NEW, "done": True}])
    wait_for_pass(client)
    assert ids(client.d.c) == [2, 3]


def test_it_goes_on_after_a_restart(tmp_path):
    quiet = ["--setParameter", "ttlMonitorEnabled=false"]
    with Arbor(tmp_path / "data", quiet) as arbor, pymongo.MongoClient(arbor.uri) as client:
        client.d.c.create_index("at", expireAfterSeconds=60)
        client.d.c.insert_many([{"_id": 1, "at": OLD}, {"_id": 2, "at": NEW}])
    with Arbor(tmp_path / "data", FLAGS) as arbor, pymongo.MongoClient(arbor.uri) as client:
        wait_for_pass(client)
        assert ids(client.d.c) == [2]
