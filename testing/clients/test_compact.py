"""`compact`: space of a collection goes back to the file system, and nothing else changes."""

import os
import threading

import pymongo
import pytest
from pymongo.errors import OperationFailure

from arbor_process import Arbor

ROWS = 12_000


def fill(collection, rows=ROWS):
    for first in range(0, rows, 2000):
        collection.insert_many({"_id": n, "a": n * 7919 % rows, "b": os.urandom(400)} for n in range(first, first + 2000))


def code(db, command):
    with pytest.raises(OperationFailure) as failure:
        db.command(command)
    return failure.value.code


def test_space_goes_back(server, db):
    c = db.c
    fill(c)
    c.create_index("a")

    def held():
        """Bytes that the file system holds for the data file: gaps in it are holes."""
        return sum(file.stat().st_blocks * 512 for file in server.dbpath.rglob("ftree.data"))

    db.command("compact", "c")
    before = held()
    c.delete_many({"a": {"$mod": [2, 0]}})
    reply = db.command("compact", "c", force=True, comment="after the deletes")
    print(f"the file had {before} bytes, has {held()}; {reply['bytesFreed']} were freed")
    assert reply["ok"] == 1 and reply["bytesFreed"] > 0
    assert held() < before * 3 / 4
    assert c.count_documents({}) == ROWS / 2 and c.count_documents({"a": {"$lt": 1001}}) == 500
    assert db.command("validate", "c")["valid"]
    assert db.command("compact", "c")["bytesFreed"] < 1 << 20


def test_arguments(db):
    assert code(db, {"compact": "missing"}) == 26
    db.c.insert_one({})
    assert code(db, {"compact": 1}) == 73
    assert code(db, {"compact": "c", "freeSpaceTargetMB": 0}) == 2
    assert code(db, {"compact": "c", "paddingFactor": 1}) == 40415
    dry = db.command("compact", "c", dryRun=True)
    assert dry["estimatedBytesFreed"] >= 0 and "bytesFreed" not in dry
    assert db.command("compact", "c", dryRun=True, freeSpaceTargetMB=1 << 30)["estimatedBytesFreed"] == 0
    assert db.command("compact", "c", freeSpaceTargetMB=1 << 30)["bytesFreed"] == 0


def test_time_limit(db):
    fill(db.c)
    assert code(db, {"compact": "c", "maxTimeMS": 1}) == 50
    assert db.c.count_documents({}) == ROWS


def test_it_is_shown_and_can_be_killed(client, db):
    fill(db.c)
    for _ in range(20):
        db.c.update_many({}, {"$inc": {"a": 1}})
        outcome = []

        def compact():
            try:
                outcome.append(db.command("compact", "c"))
            except OperationFailure as failure:
                outcome.append(failure.code)

        thread = threading.Thread(target=compact)
        thread.start()
        while thread.is_alive():
            for operation in client.admin.command("currentOp")["inprog"]:
                if operation.get("command", {}).get("compact") == "c":
                    assert operation["ns"] == f"{db.name}.c"
                    client.admin.command("killOp", op=operation["opid"])
        thread.join()
        if outcome == [11601]:
            break
    assert outcome == [11601]
    assert db.c.count_documents({}) == ROWS


def test_new_settings_reach_what_is_there(db):
    db.create_collection("c", storageEngine={"ftree": {"compression": "none", "fanout": 16}})
    db.c.insert_many({"_id": n, "text": "much of this can be compressed " * 10} for n in range(8000))
    db.command("compact", "c")
    before = db.command("collStats", "c")["storageSize"]
    reply = db.command("collMod", "c", storageEngine={"ftree": {"compression": "zstd"}})
    assert "engineSwitch" not in reply, "nothing is copied"
    options = db.command("listCollections", filter={"name": "c"})["cursor"]["firstBatch"][0]["options"]
    assert options["storageEngine"] == {"ftree": {"compression": "zstd"}}
    assert db.command("compact", "c")["bytesFreed"] > before / 2
    after = db.command("collStats", "c")["storageSize"]
    print(f"{before} bytes uncompressed, {after} compressed")
    assert after < before / 4 and db.c.count_documents({}) == 8000
    assert code(db, {"collMod": "c", "storageEngine": {"ftree": {"compression": "best"}}}) == 72
    assert code(db, {"collMod": "c", "storageEngine": {"tokuft": {"colour": "red"}}}) == 72
    assert code(db, {"collMod": "missing", "storageEngine": {"ftree": {}}}) == 26


def test_an_engine_without_it(tmp_path):
    with Arbor(tmp_path / "data", ["--storageEngine", "lmdb"]) as arbor, pymongo.MongoClient(arbor.uri) as client:
        client.d.c.insert_one({})
        with pytest.raises(OperationFailure, match="the engine lmdb has no compact") as failure:
            client.d.command("compact", "c")
        assert failure.value.code == 115
