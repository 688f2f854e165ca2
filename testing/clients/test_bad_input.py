"""Hostile bytes: the sender gets an error or a closed connection, the others never notice, memory stays bounded."""

import os
import random
import socket
import struct

import bson
import pymongo
import pymongo.server_api
import pytest
from pymongo.errors import ExecutionTimeout, OperationFailure, ServerSelectionTimeoutError


def frame(payload, opcode=2013, length=None, request_id=1):
    return struct.pack("<iiii", 16 + len(payload) if length is None else length, request_id, 0, opcode) + payload


def message(document, flags=0):
    return frame(struct.pack("<I", flags) + b"\0" + document)


def send(server, data, close_write=True):
    """All bytes that come back until the server closes or a second of silence."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as sock:
        reply = b""
        try:
            sock.sendall(data)
            if close_write:
                sock.shutdown(socket.SHUT_WR)
            while chunk := sock.recv(65536):
                reply += chunk
        except (ConnectionError, socket.timeout):
            pass
        return reply


def resident_kib(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


PING = bson.encode({"ping": 1, "$db": "admin"})

HOSTILE = {
    "length below the header": frame(b"", length=4),
    "negative length": frame(b"", length=-1),
    "length over the limit": frame(b"", length=48_000_001),
    "101 MB announced": frame(b"", length=101 * 1024 * 1024),
    "truncated": message(PING)[:-3],
    "only a header": frame(b"", length=100),
    "unknown opcode": frame(PING, opcode=999),
    "no section": frame(struct.pack("<I", 0)),
    "two bodies": frame(struct.pack("<I", 0) + b"\0" + PING + b"\0" + PING),
    "unknown required flag": message(PING, flags=4),
    "wrong checksum": frame(struct.pack("<I", 1) + b"\0" + PING + b"abcd"),
    "section kind 9": frame(struct.pack("<I", 0) + b"\x09" + PING),
    "wrong sequence size": frame(struct.pack("<I", 0) + b"\0" + PING + b"\1" + struct.pack("<i", 9999) + b"x\0"),
    "wrong document length": message(struct.pack("<i", 1000) + PING[4:]),
    "document length negative": message(struct.pack("<i", -5) + PING[4:]),
    "no terminator": message(PING[:-1] + b"\1"),
    "wrong string length": message(b"\x14\0\0\0\x02ping\0\xff\xff\xff\x7fa\0\0\0"),
    "compressed bomb": frame(struct.pack("<iiB", 2013, 47_000_000, 2) + b"x\x9c\x03\0\0\0\0\1", opcode=2012),
    "wrong compressed size": frame(struct.pack("<iiB", 2013, 1000, 0) + message(PING)[16:], opcode=2012),
    "nested compression": frame(struct.pack("<iiB", 2012, 10, 0) + b"0123456789", opcode=2012),
    "unknown compressor": frame(struct.pack("<iiB", 2013, 10, 77) + b"0123456789", opcode=2012),
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "zeros": b"\0" * 1000,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_frame(server, client, data):
    reply = send(server, data)
    if reply:
        assert len(reply) >= 16 and b"ok\0" in reply
        start = reply.index(b"ok\0") + 3
        assert reply[start:start + 8] == struct.pack("<d", 0.0), "a hostile frame is not answered with ok: 1"
    assert client.admin.command("ping")["ok"] == 1


def test_random_bytes_and_mutations(server, client):
    rng = random.Random(7)
    valid = message(bson.encode({"find": "c", "filter": {"a": {"$in": [1, "x", {"b": [1, 2]}]}}, "$db": "bad"}))
    for _ in range(300):
        data = bytearray(valid)
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(16, len(data))] = rng.randrange(256)
        send(server, bytes(data))
    for _ in range(50):
        send(server, os.urandom(rng.randint(1, 300)))
    assert client.admin.command("ping")["ok"] == 1


def test_announced_lengths_cost_no_memory(server, client):
    before = resident_kib(server)
    sockets = []
    for _ in range(100):
        sock = socket.create_connection(("127.0.0.1", server.port))
        sock.sendall(frame(b"", length=48_000_000))
        sockets.append(sock)
    client.admin.command("ping")
    assert resident_kib(server) - before < 100 * 1024
    for sock in sockets:
        sock.close()


def test_deep_documents(server, client, db):
    def nested(depth):
        document = {"v": 1}
        for _ in range(depth - 1):
            document = {"d": document}
        return document

    db.c.insert_one({"_id": 1, "n": nested(100)})
    raw = b"\x05\0\0\0\0"
    for _ in range(5000):
        body = b"\x03d\0" + raw
        raw = struct.pack("<i", len(body) + 5) + body + b"\0"
    send(server, message(raw))
    assert client.admin.command("ping")["ok"] == 1


def test_wrong_types_in_every_field(db):
    commands = {
        "find": ["filter", "projection", "sort", "skip", "limit", "batchSize", "hint", "singleBatch", "let", "maxTimeMS"],
        "insert": ["documents", "ordered"],
        "update": ["updates", "ordered"],
        "delete": ["deletes", "ordered"],
        "aggregate": ["pipeline", "cursor", "hint", "let"],
        "count": ["query", "limit", "skip"],
        "distinct": ["key", "query"],
        "findAndModify": ["query", "update", "sort", "remove", "upsert"],
        "createIndexes": ["indexes"],
        "getMore": ["collection", "batchSize"],
        "killCursors": ["cursors"],
        "listIndexes": ["cursor"],
        "explain": ["verbosity"],
    }
    for command, fields in commands.items():
        for field in fields:
            for value in (bson.Regex("x"), bson.MinKey(), -17, "text", [1], {"a": 1}, None, float("nan")):
                base = {command: "c"} if command != "getMore" else {command: bson.Int64(1), "collection": "c"}
                if command == "explain":
                    base = {command: {"find": "c"}}
                try:
                    db.command({**base, field: value})
                except TypeError:
                    pass  # PyMongo itself refuses to send this one
                except OperationFailure as error:
                    assert error.code not in (None, 1, 8), f"{command}.{field}={value!r}: {error.details}"


@pytest.mark.parametrize("name, code", [("a$b", 73), (".a", 73), ("x" * 300, 73), ("", 73)])
def test_namespaces(db, name, code):
    with pytest.raises(OperationFailure) as caught:
        db.command("insert", name, documents=[{"a": 1}])
    assert caught.value.code == code


def test_documents_that_may_not_be_stored(db):
    for document, codes in [
        ({"_id": [1]}, (2, 53)),
        ({"_id": bson.Regex("x")}, (2, 53)),
        ({"_id": {"$a": 1}}, (2, 52)),
    ]:
        with pytest.raises(OperationFailure) as caught:
            db.c.insert_one(document)
        assert caught.value.code in codes
    raw = bson.encode({"insert": "c", "$db": db.name})
    with pytest.raises(OperationFailure) as caught:
        db.command("insert", "c", documents=[])
    assert caught.value.code in (2, 16, 72)
    with pytest.raises(OperationFailure) as caught:
        db.command("insert", "c", documents=[{}] * 100_001)
    assert caught.value.code in (2, 16, 72)
    assert raw and db.c.count_documents({}) == 0


def test_fail_command(client, db):
    client.admin.command(
        "configureFailPoint", "failCommand", mode={"times": 1}, data={"failCommands": ["ping"], "errorCode": 96}
    )
    with pytest.raises(OperationFailure) as caught:
        client.admin.command("ping")
    assert caught.value.code == 96
    assert client.admin.command("ping")["ok"] == 1
    client.admin.command("configureFailPoint", "failCommand", mode="off")


def test_max_time_fail_points(client, db):
    db.c.insert_many([{"_id": i} for i in range(300)])
    limited, unlimited = db.c.find().max_time_ms(60_000), db.c.find()
    next(limited), next(unlimited)
    client.admin.command("configureFailPoint", "maxTimeAlwaysTimeOut", mode="alwaysOn")
    try:
        for run in (
            lambda: db.c.find_one({}, max_time_ms=60_000),
            lambda: db.command("count", "c", maxTimeMS=60_000),
            limited.to_list,
        ):
            with pytest.raises(ExecutionTimeout) as caught:
                run()
            assert caught.value.code == 50
            assert caught.value.details["errmsg"] == "operation exceeded time limit"
        assert len(unlimited.to_list()) == 299
    finally:
        client.admin.command("configureFailPoint", "maxTimeAlwaysTimeOut", mode="off")
    assert db.c.find_one({}, max_time_ms=60_000) == {"_id": 0}


def test_there_are_no_users(db):
    assert db.command("usersInfo", "anyone")["users"] == []
    assert db.command("usersInfo", 1)["users"] == []


def test_fail_points_know_the_application_of_a_handshake(server, client):
    data = {"failCommands": ["isMaster", "hello"], "appName": "shy", "errorCode": 91}
    client.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data=data)
    try:
        for name, error in (("shy", ServerSelectionTimeoutError), ("bold", None)):
            with pymongo.MongoClient(server.uri, appname=name, serverSelectionTimeoutMS=200) as other:
                if error:
                    with pytest.raises(error):
                        other.admin.command("ping")
                else:
                    assert other.admin.command("ping")["ok"] == 1
    finally:
        client.admin.command("configureFailPoint", "failCommand", mode="off")


def test_an_unknown_stage_fails_the_whole_update(db):
    db.c.insert_one({"_id": 1})
    updates = [{"q": {}, "u": {"$set": {"a": 1}}}, {"q": {}, "u": [{"$nope": 1}]}]
    with pytest.raises(OperationFailure) as caught:
        db.command("update", "c", updates=updates)
    assert caught.value.code == 40324
    assert caught.value.details["errmsg"] == "Unrecognized pipeline stage name: '$nope'"
    assert db.c.find_one() == {"_id": 1}


def test_stages_outside_of_the_stable_api(server):
    api = pymongo.server_api.ServerApi("1", strict=True)
    with pymongo.MongoClient(server.uri, server_api=api) as client:
        for stage, text in (
            ({"$indexStats": {}}, "stage $indexStats is not allowed with 'apiStrict: true' in API Version 1"),
            (
                {"$collStats": {"storageStats": {}}},
                "only the 'count' parameter to $collStats is supported in API Version 1",
            ),
        ):
            with pytest.raises(OperationFailure) as caught:
                client.db.c.aggregate([stage])
            assert (caught.value.code, caught.value.details["errmsg"]) == (323, text)


def test_validate_is_not_full_in_the_background(db):
    db.c.insert_one({})
    assert db.command("validate", "c", background=True)["valid"]
    with pytest.raises(OperationFailure) as caught:
        db.command("validate", "c", background=True, full=True)
    assert caught.value.code == 72
    text = "Running the validate command with both { background: true } and { full: true } is not supported."
    assert caught.value.details["errmsg"] == text
