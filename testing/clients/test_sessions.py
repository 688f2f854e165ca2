"""Logical sessions: their commands, what belongs to them, and many of them."""

import os
import pathlib
import uuid

import pymongo
import pytest
from bson.binary import Binary
from bson.int64 import Int64

from sessions import NOBODY, Session, code_of, ids, new_lsid


@pytest.fixture
def by_hand(set_client):
    return Session(set_client)


def listed(client):
    return {bytes(s["_id"]["id"]): s for s in client.admin.aggregate([{"$listLocalSessions": {"allUsers": True}}])}


def key(lsid):
    return bytes(lsid["id"])


def test_sessions_begin_and_end(set_client):
    reply = set_client.admin.command("startSession")
    assert reply["timeoutMinutes"] == 30 and reply["id"]["id"].subtype == 4
    assert key(reply["id"]) in listed(set_client)
    session = Session(set_client)
    assert key(session.lsid) not in listed(set_client)
    session.run({"ping": 1})
    shown = listed(set_client)[key(session.lsid)]
    assert shown["_id"]["uid"] == NOBODY and shown["lastUse"] is not None
    set_client.admin.command("endSessions", [session.lsid])
    assert key(session.lsid) not in listed(set_client)
    set_client.admin.command("refreshSessions", [session.lsid])
    assert key(session.lsid) in listed(set_client)
    config = set_client.config["system.sessions"]
    assert config.find_one({"_id.id": session.lsid["id"]})["_id"]["uid"] == NOBODY
    assert len(list(config.aggregate([{"$listSessions": {}}, {"$match": {"_id.id": session.lsid["id"]}}]))) == 1
    assert set_client.admin.command("serverStatus")["logicalSessionRecordCache"]["activeSessionsCount"] >= 2


def test_where_sessions_are_listed(set_client):
    assert code_of(lambda: list(set_client.d.c.aggregate([{"$listSessions": {}}]))) == 73
    assert code_of(lambda: list(set_client.d.c.aggregate([{"$listLocalSessions": {}}]))) == 73
    assert code_of(lambda: list(set_client.d.aggregate([{"$listLocalSessions": {"x": 1}}]))) == 40415


def test_bad_session_ids(by_hand):
    for lsid, code in [
        ({}, 40414),
        ({"id": 1}, 14),
        ({"id": Binary(b"x" * 16, 0)}, 14),
        ({"id": Binary(b"x" * 15, 4)}, 207),
        ({"id": Binary(b"x" * 16, 4), "uid": b"short"}, 12),
        ({"id": Binary(b"x" * 16, 4), "uid": 1}, 14),
        ({"id": Binary(b"x" * 16, 4), "more": 1}, 40415),
        ("x", 14),
    ]:
        assert by_hand.wire.send({"ping": 1, "lsid": lsid, "$db": "d"})["code"] == code, lsid
        if lsid != "x":
            assert by_hand.wire.send({"endSessions": [lsid], "$db": "d"})["code"] == code, lsid


def test_cursors_belong_to_sessions(set_client, by_hand):
    c = set_client.sessions.belong
    c.drop()
    c.insert_many([{"_id": i} for i in range(10)])
    find = {"find": "belong", "batchSize": 2}
    cursor = by_hand.run(find)["cursor"]["id"]
    more = {"getMore": cursor, "collection": "belong", "batchSize": 2}
    assert by_hand.wire.send({**more, "$db": "sessions"})["code"] == 50737
    assert Session(set_client).run(more)["code"] == 50738
    # the same id of another user is another session
    other = Session(set_client, {**by_hand.lsid, "uid": b"\x01" * 32})
    assert other.run(more)["code"] == 50738
    assert by_hand.run(more)["ok"] == 1
    by_hand.run({"endSessions": [other.lsid]})
    assert by_hand.run(more)["ok"] == 1
    by_hand.run({"killSessions": [by_hand.lsid]}, db="admin")
    assert by_hand.run(more)["code"] == 43


def test_kill_by_pattern(set_client):
    c = set_client.sessions.kill
    c.drop()
    c.insert_one({"_id": 0})
    user = b"\x05" * 32
    sessions = [Session(set_client), Session(set_client), Session(set_client, {**new_lsid(), "uid": user})]

    def alive():
        out = []
        for session in sessions:
            reply = session.go_on({"find": "kill"})
            out.append(reply["ok"] == 1)
            assert reply["ok"] == 1 or reply["code"] == 251
            if not out[-1]:
                assert session.begin({"find": "kill"})["ok"] == 1
        return out

    assert [session.begin({"find": "kill"})["ok"] for session in sessions] == [1, 1, 1]
    kill = lambda patterns: set_client.admin.command("killAllSessionsByPattern", patterns)  # noqa: E731
    assert alive() == [True] * 3
    kill([{"lsid": {**sessions[0].lsid, "uid": NOBODY}}])
    assert alive() == [False, True, True]
    kill([{"uid": user}])
    assert alive() == [True, True, False]
    kill([{"users": [{"user": "guest", "db": "admin"}]}])
    assert alive() == [True] * 3
    kill([])
    assert alive() == [False] * 3
    set_client.admin.command("killAllSessions", [{"user": "guest", "db": "admin"}])
    assert alive() == [True] * 3
    set_client.admin.command("killAllSessions", [])
    assert alive() == [False] * 3
    assert code_of(lambda: kill([{"x": 1}])) == 40415
    assert code_of(lambda: kill([{"uid": b"1"}])) == 12
    set_client.admin.command("killSessions", [])


def test_a_hundred_thousand_sessions(replica_set, set_client):
    """Half of them as drivers do, half with a transaction number, of which each leaves a row."""

    def resident_mb():
        status = pathlib.Path(f"/proc/{replica_set.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024

    c = set_client.sessions.many
    c.drop()
    c.insert_one({"_id": 0})
    wire = Session(set_client).wire
    before = resident_mb()
    plain = [{"id": Binary(uuid.uuid4().bytes, 4)} for _ in range(90_000)]
    for at in range(0, len(plain), 10_000):
        assert wire.send({"refreshSessions": plain[at : at + 10_000], "$db": "admin"})["ok"] == 1
    numbered = [{"id": Binary(uuid.uuid4().bytes, 4)} for _ in range(10_000)]
    insert = {"insert": "many", "documents": [{}], "writeConcern": {"w": 1}, "txnNumber": Int64(1), "$db": "sessions"}
    for lsid in numbered:
        assert wire.send({**insert, "lsid": lsid})["n"] == 1
    count = set_client.admin.command("serverStatus")["logicalSessionRecordCache"]["activeSessionsCount"]
    grown = resident_mb() - before
    assert count >= 100_000 and grown < 150, (count, grown)
    for lsid in numbered[::1000]:
        assert wire.send({**insert, "lsid": lsid})["n"] == 1
    assert c.count_documents({}) == 10_001
    for at in range(0, len(plain), 10_000):
        wire.send({"endSessions": plain[at : at + 10_000], "$db": "admin"})
    wire.send({"endSessions": numbered, "$db": "admin"})
    assert set_client.admin.command("serverStatus")["logicalSessionRecordCache"]["activeSessionsCount"] < 5000
    # an ended session keeps its row for a client that returns
    assert wire.send({**insert, "lsid": numbered[1]})["n"] == 1 and c.count_documents({}) == 10_001


def test_too_many_sessions(tmp_path):
    from arbor_process import ReplicaSet

    with ReplicaSet(tmp_path / "data", ["--setParameter", "maxSessions=10"]) as arbor:
        with pymongo.MongoClient(arbor.uri, serverSelectionTimeoutMS=10_000) as client:
            client.admin.command("ping")
            session = Session(client)
            # those that were used longest ago make room
            replies = [session.wire.send({"ping": 1, "lsid": new_lsid(), "$db": "d"}) for _ in range(50)]
            assert all(reply["ok"] == 1 for reply in replies)
            status = client.admin.command("serverStatus")["logicalSessionRecordCache"]
            assert status["activeSessionsCount"] <= 10
            # a session with an open transaction is not forgotten
            start = {"find": "c", "$db": "d", "txnNumber": Int64(1), "autocommit": False, "startTransaction": True}
            replies = [session.wire.send({**start, "lsid": new_lsid()}) for _ in range(12)]
            assert replies[0]["ok"] == 1 and replies[-1]["code"] == 261 and replies[-1]["codeName"] == "TooManyLogicalSessions"
            assert session.wire.send({"ping": 1, "$db": "d"})["ok"] == 1
