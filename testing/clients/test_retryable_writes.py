"""Retryable writes: what was done is done once, and a retry answers what the first request did."""

import time

import bson
import pymongo
import pytest
from bson.int64 import Int64

from arbor_process import ReplicaSet
from sessions import Session, ids, without_times


@pytest.fixture
def c(set_client, request):
    set_client.sessions.drop_collection(request.node.name[:50])
    yield set_client.sessions[request.node.name[:50]]


@pytest.fixture
def by_hand(set_client):
    return Session(set_client)


def commands(name):
    """Writes over documents 1 to 9 with n = their `_id`."""
    set_a = {"$inc": {"n": 100}}
    return [
        {"insert": name, "documents": [{"_id": 20}, {"_id": 21}]},
        {"insert": name, "documents": [{"_id": 22}, {"_id": 22}, {"_id": 23}], "ordered": False},
        {"update": name, "updates": [{"q": {"_id": 1}, "u": set_a}, {"q": {"_id": 1}, "u": set_a}]},
        {"update": name, "updates": [{"q": {"_id": 30}, "u": set_a, "upsert": True}, {"q": {"_id": 2}, "u": {"$set": {"n": 2}}}]},
        {"update": name, "updates": [{"q": {"k": 5}, "u": set_a, "upsert": True}]},
        {"delete": name, "deletes": [{"q": {"n": {"$gt": 5}}, "limit": 1}, {"q": {"_id": 3}, "limit": 1}]},
        {"findAndModify": name, "query": {"_id": 4}, "update": set_a},
        {"findAndModify": name, "query": {"_id": 4}, "update": set_a, "new": True, "fields": {"n": 1, "_id": 0}},
        {"findAndModify": name, "query": {"_id": 5}, "remove": True, "sort": {"_id": 1}},
        {"findAndModify": name, "query": {"_id": 31}, "update": set_a, "upsert": True, "new": True},
        {"findAndModify": name, "query": {"_id": 32}, "update": set_a, "upsert": True},
    ]


def fill(c):
    c.insert_many([{"_id": i, "n": i} for i in range(1, 10)])


def same(first, again):
    """Whether the second reply is that of a retry: the same, and says so."""
    again = without_times(again)
    retried = again.pop("retriedStmtIds", None) or [again.pop("retriedStmtId", None)]
    assert retried != [None], again
    assert again == without_times(first), (again, first)


def test_the_same_bytes_again(c, by_hand):
    fill(c)
    for command in commands(c.name):
        by_hand.number += 1
        request = by_hand.wire.request({**command, "lsid": by_hand.lsid, "txnNumber": Int64(by_hand.number), "$db": "sessions"})
        first = by_hand.wire.exchange(request)
        assert first["ok"] == 1, first
        before = list(c.find())
        for _ in range(2):
            again = by_hand.wire.exchange(request)
            if "writeErrors" in first:
                # what failed is tried again
                assert [e["index"] for e in again["writeErrors"]] == [1] and again["n"] == first["n"]
            else:
                same(first, again)
        assert list(c.find()) == before, command


def test_what_a_retry_finds(c, by_hand):
    fill(c)
    n = {"update": c.name, "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]}
    assert by_hand.write(n)["nModified"] == 1
    c.update_one({"_id": 1}, {"$set": {"n": 50}})
    assert by_hand.write(n, by_hand.number)["nModified"] == 1
    assert c.find_one({"_id": 1})["n"] == 50
    image = {"findAndModify": c.name, "query": {"_id": 2}, "update": {"$inc": {"n": 1}}}
    assert by_hand.write(image)["value"] == {"_id": 2, "n": 2}
    c.delete_one({"_id": 2})
    assert by_hand.write(image, by_hand.number)["value"] == {"_id": 2, "n": 2}
    # what matched nothing was not done
    none = {"update": c.name, "updates": [{"q": {"_id": 60}, "u": {"$inc": {"n": 1}}}]}
    assert by_hand.write(none)["n"] == 0
    c.insert_one({"_id": 60, "n": 0})
    assert by_hand.write(none, by_hand.number)["n"] == 1


def test_statement_numbers(c, by_hand):
    docs = lambda *ids: {"insert": c.name, "documents": [{"_id": i} for i in ids]}  # noqa: E731
    assert by_hand.write(docs(1, 2))["n"] == 2
    number = by_hand.number
    # later statements of the same number, in any order
    assert by_hand.write({**docs(3), "stmtId": 2}, number)["n"] == 1
    reply = by_hand.write({**docs(4, 1, 5), "stmtIds": [9, 0, 7]}, number)
    assert (reply["n"], reply["retriedStmtIds"]) == (3, [0])
    assert ids(c.find()) == [1, 2, 3, 4, 5]
    assert by_hand.write({**docs(6), "stmtIds": [1, 2]}, number)["code"] == 16
    assert by_hand.write({**docs(6), "stmtIds": [1], "stmtId": 1}, number)["code"] == 72
    assert by_hand.write({**docs(6), "stmtId": "x"}, number)["code"] == 14
    # another kind of statement under a number that was used
    reply = by_hand.write({"delete": c.name, "deletes": [{"q": {"_id": 1}, "limit": 1}]}, number)
    assert reply.get("code", reply.get("writeErrors", [{}])[0].get("code")) == 40606, reply
    assert ids(c.find()) == [1, 2, 3, 4, 5]


def test_what_cannot_be_retried(c, by_hand):
    fill(c)
    for command in [
        {"update": c.name, "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "multi": True}]},
        {"delete": c.name, "deletes": [{"q": {}, "limit": 0}]},
    ]:
        reply = by_hand.write(command)
        assert reply.get("code", reply.get("writeErrors", [{}])[0].get("code")) == 72, reply
    for command in [{"find": c.name}, {"aggregate": c.name, "pipeline": [], "cursor": {}}, {"create": "x"}, {"ping": 1}]:
        assert by_hand.write(command)["code"] == 50768
    assert c.count_documents({"a": 1}) == 0 and c.count_documents({}) == 9


def test_bulk_write(c, by_hand, set_client):
    fill(c)
    set_client.sessions_other[c.name].drop()
    bulk = {
        "bulkWrite": 1,
        "nsInfo": [{"ns": c.full_name}, {"ns": f"sessions_other.{c.name}"}],
        "ops": [
            {"insert": 0, "document": {"_id": 40}},
            {"insert": 1, "document": {"_id": 41}},
            {"update": 0, "filter": {"_id": 1}, "updateMods": {"$inc": {"n": 1}}},
            {"update": 0, "filter": {"_id": 42}, "updateMods": {"$inc": {"n": 1}}, "upsert": True},
            {"delete": 0, "filter": {"_id": 2}},
        ],
    }
    first = by_hand.write(bulk, db="admin")
    assert (first["ok"], first["nErrors"], first["nInserted"], first["nModified"], first["nUpserted"], first["nDeleted"]) == (1, 0, 2, 1, 1, 1), first
    same(first, by_hand.write(bulk, by_hand.number, db="admin"))
    assert c.find_one({"_id": 1})["n"] == 2
    set_client.drop_database("sessions_other")


def test_thousands_of_statements(c, by_hand):
    documents = [{"_id": i} for i in range(5000)]
    insert = {"insert": c.name, "documents": documents}
    first = by_hand.write(insert)
    assert first["n"] == 5000
    again = by_hand.write(insert, by_hand.number)
    assert again["n"] == 5000 and again["retriedStmtIds"] == list(range(5000)) and "writeErrors" not in again
    updates = [{"q": {"_id": i}, "u": {"$set": {"v": i}} if i % 3 else {"$unset": {"x": 1}}} for i in range(3000)]
    update = {"update": c.name, "updates": updates}
    first = by_hand.write(update)
    assert (first["n"], first["nModified"]) == (3000, 2000)
    again = by_hand.write(update, by_hand.number)
    assert (again["n"], again["nModified"]) == (3000, 2000)
    assert by_hand.write({"insert": c.name, "documents": [{"_id": -1}]})["n"] == 1


def test_config_transactions(c, by_hand, set_client):
    fill(c)
    key = {"_id.id": by_hand.lsid["id"]}
    table = set_client.config.transactions
    assert table.find_one(key) is None
    by_hand.write({"insert": c.name, "documents": [{"_id": 50}]}, 7)
    row = table.find_one(key)
    assert row["txnNum"] == 7 and isinstance(row["lastWriteOpTime"]["ts"], bson.Timestamp) and "state" not in row
    assert len(row["_id"]["uid"]) == 32 and abs(time.time() - row["lastWriteDate"].timestamp()) < 3600 * 15
    assert table.count_documents(key) == 1 and [r["txnNum"] for r in table.aggregate([{"$match": key}])] == [7]
    assert table.distinct("txnNum", key) == [7]
    assert list(table.find(key, {"_id": 0, "txnNum": 1}).sort("txnNum", -1).skip(0).limit(1)) == [{"txnNum": 7}]
    assert list(table.find(key).skip(1)) == [] and table.count_documents(key, skip=1) == 0
    images = set_client.config.image_collection
    assert images.find_one(key) is None
    by_hand.write({"findAndModify": c.name, "query": {"_id": 1}, "update": {"$inc": {"n": 1}}}, 8)
    image = images.find_one(key)
    assert (image["txnNum"], image["imageKind"], image["image"]) == (8, "preImage", {"_id": 1, "n": 1})
    by_hand.write({"findAndModify": c.name, "query": {"_id": 1}, "update": {"$inc": {"n": 1}}, "new": True}, 9)
    image = images.find_one(key)
    assert (image["imageKind"], image["image"]) == ("postImage", {"_id": 1, "n": 3})


@pytest.fixture
def watchful(replica_set):
    """A client that soon hears that the member is primary again: errors of fail points do not say which change they are about."""
    with pymongo.MongoClient(replica_set.uri, heartbeatFrequencyMS=500, serverSelectionTimeoutMS=20_000) as client:
        yield client


def test_the_drivers_own_retries(c, set_client, watchful):
    """PyMongo sends again what a fail point answered with a retryable error after nothing was done, or cut off."""
    fill(c)
    c = watchful[c.database.name][c.name]
    for data in (dict(errorCode=11600), dict(closeConnection=True), dict(errorCode=10107)):
        fail = dict(mode={"times": 1}, data={"failCommands": ["update", "insert", "delete", "findAndModify"], **data})
        for write in [
            lambda: c.update_one({"_id": 1}, {"$inc": {"n": 1}}),
            lambda: c.insert_one({"a": 1}),
            lambda: c.delete_one({"a": 1}),
            lambda: c.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}),
        ]:
            set_client.admin.command("configureFailPoint", "failCommand", **fail)
            write()
    assert c.find_one({"_id": 1})["n"] == 7


def test_exactly_once_across_a_kill(tmp_path):
    arbor = ReplicaSet(tmp_path / "data")
    arbor.start()
    client = pymongo.MongoClient(arbor.uri, serverSelectionTimeoutMS=20_000)
    try:
        c = client.sessions.c
        fill(c)
        sent = []
        for command in commands("c"):
            if command.get("ordered") is False:
                continue
            session = Session(client)
            first = session.write({**command, "writeConcern": {"w": "majority"}})
            assert first["ok"] == 1 and "writeErrors" not in first
            sent.append((session, command, first))
        before = list(c.find())
        for _ in range(2):
            arbor.kill()
            arbor.start()
            client.close()
            client = pymongo.MongoClient(arbor.uri, serverSelectionTimeoutMS=20_000)
            for session, command, first in sent:
                session.reach(client)
                same(first, session.write({**command, "writeConcern": {"w": "majority"}}, session.number))
            assert list(client.sessions.c.find()) == before
    finally:
        client.close()
        arbor.stop()
