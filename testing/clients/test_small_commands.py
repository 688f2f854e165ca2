"""Commands that old drivers, shells and exporters send, and those that hold up writes."""

import socket
import struct
import threading

import bson
import pytest
from pymongo.errors import OperationFailure, WriteError


def query(server, db, command):
    """The first document of the reply to a command in a query of the old wire protocol."""
    body = struct.pack("<i", 0) + f"{db}.$cmd".encode() + b"\0" + struct.pack("<ii", 0, -1) + bson.encode(command)
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(struct.pack("<iiii", 16 + len(body), 1, 0, 2004) + body)
        received = b""
        while len(received) < 4 or len(received) < struct.unpack("<i", received[:4])[0]:
            received += connection.recv(65536)
    assert struct.unpack("<iiii", received[:16])[2:] == (1, 1)
    return bson.decode(received[36:])


def test_aggregate_of_drivers_before_cursors(server, db):
    db.c.insert_many([{"_id": n, "a": n} for n in range(300)])
    reply = query(server, db.name, {"aggregate": "c", "pipeline": [{"$match": {"a": {"$lt": 200}}}, {"$sort": {"a": -1}}]})
    assert reply["ok"] == 1 and [document["a"] for document in reply["result"]] == list(range(199, -1, -1))
    assert "cursor" not in reply
    reply = query(server, db.name, {"aggregate": "c", "pipeline": [], "cursor": {"batchSize": 2}})
    assert len(reply["cursor"]["firstBatch"]) == 2 and "result" not in reply
    db.large.insert_many([{"t": "x" * (1 << 20)} for _ in range(17)])
    assert query(server, db.name, {"aggregate": "large", "pipeline": []})["code"] == 16389
    with pytest.raises(OperationFailure) as caught:
        db.command({"aggregate": "c", "pipeline": []})
    assert caught.value.code == 9


def test_small_reports(server, client, db):
    nonces = {query(server, "admin", {"getnonce": 1})["nonce"] for _ in range(3)}
    assert len(nonces) == 3 and all(len(nonce) == 16 and int(nonce, 16) >= 0 for nonce in nonces)
    assert isinstance(db.command("features")["oidMachine"], int)
    pools = db.command("connPoolStats")
    assert pools["totalCreated"] == 0 and pools["hosts"] == {} and pools["pools"] == {}
    assert client.admin.command({"dropConnections": 1, "hostAndPort": ["a:1", None]})["ok"] == 1
    for wrong, code in (({}, 40414), ({"hostAndPort": 1}, 14), ({"hostAndPort": [1]}, 14), ({"hostAndPort": [], "x": 1}, 40415)):
        with pytest.raises(OperationFailure) as caught:
            client.admin.command({"dropConnections": 1, **wrong})
        assert caught.value.code == code


def test_diagnostic_data(client, set_client):
    data = client.admin.command("getDiagnosticData")["data"]
    status = data["serverStatus"]
    assert data["start"] <= status["start"] <= status["end"] <= data["end"]
    assert status["opcounters"]["command"] > 0 and status["ok"] == 1 and "replSetGetStatus" not in data
    assert data["systemMetrics"]["cpu"]["num_cpus"] >= 1 and data["systemMetrics"]["memory"]["MemTotal_kb"] > 0
    data = set_client.admin.command("getDiagnosticData")["data"]
    assert data["replSetGetStatus"]["members"][0]["stateStr"] == "PRIMARY"


def test_fsync_with_lock_makes_writes_wait(client, db):
    db.c.insert_one({"_id": 0})
    done = threading.Event()

    def write():
        db.c.insert_one({"_id": 1})
        done.set()

    first = client.admin.command({"fsync": 1, "lock": True})
    writer = threading.Thread(target=write)
    try:
        assert first["lockCount"] == 1 and "seeAlso" in first
        assert client.admin.command({"fsync": 1, "lock": True})["lockCount"] == 2
        assert client.admin.command("lockInfo")["lockInfo"][0]["granted"][0]["mode"] == "S"
        assert client.admin.command("currentOp")["fsyncLock"] is True
        writer.start()
        with pytest.raises(OperationFailure) as caught:
            db.command({"insert": "c", "documents": [{"_id": 2}], "maxTimeMS": 100})
        assert caught.value.code == 50
        assert db.c.count_documents({}) == 1 and not done.wait(0.2)
        assert client.admin.command("fsyncUnlock")["lockCount"] == 1
        assert not done.wait(0.2)
    finally:
        left = client.admin.command("fsyncUnlock")["lockCount"]
    assert left == 0 and done.wait(10)
    writer.join()
    assert [document["_id"] for document in db.c.find().sort("_id", 1)] == [0, 1]
    assert client.admin.command("lockInfo")["lockInfo"] == [] and "fsyncLock" not in client.admin.command("currentOp")
    with pytest.raises(OperationFailure) as caught:
        client.admin.command("fsyncUnlock")
    assert caught.value.code == 20
    assert client.admin.command({"fsync": 1})["numFiles"] == 1


def test_writes_of_users_are_blocked(client, db):
    db.c.insert_one({"_id": 0})
    client.admin.command({"setUserWriteBlockMode": 1, "global": True})
    try:
        for write in (lambda: db.c.insert_one({}), lambda: db.create_collection("d"), lambda: db.c.aggregate([{"$out": "e"}])):
            with pytest.raises((OperationFailure, WriteError)) as caught:
                write()
            assert caught.value.code == 371
        assert db.c.find_one() == {"_id": 0} and list(db.c.aggregate([])) == [{"_id": 0}]
        with pytest.raises(OperationFailure) as caught:
            client.admin.command({"setUserWriteBlockMode": 1, "global": False, "reason": "DiskUseThresholdExceeded"})
        assert caught.value.code == 20
    finally:
        client.admin.command({"setUserWriteBlockMode": 1, "global": False})
    db.c.insert_one({"_id": 1})
