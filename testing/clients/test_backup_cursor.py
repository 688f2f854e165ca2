"""`$backupCursor`: the files that it lists are a data directory of one moment, while clients write; they are there as long as it is open."""

import os
import shutil

import pymongo
import pytest
from bson import Binary, Timestamp
from pymongo.errors import OperationFailure

import loop_disk
from arbor_process import Arbor, ReplicaSet
from test_backup import Writers, check_restored, fill, state
from test_members import until
from test_partitions import LIBRARIES, installed

SNAPSHOT_TOO_OLD = 239
OUT_OF_DISK_SPACE = 14031


def opened(client):
    """The cursor's metadata and files, and the cursor as its id."""
    reply = client.admin.command("aggregate", 1, pipeline=[{"$backupCursor": {}}], cursor={"batchSize": 2})["cursor"]
    documents = list(reply["firstBatch"])
    while True:
        batch = client.admin.command("getMore", reply["id"], collection="$cmd.aggregate", batchSize=7)["cursor"]
        assert batch["id"] == reply["id"], "it stays open behind the last file"
        if not batch["nextBatch"]:
            return documents[0]["metadata"], documents[1:], reply["id"]
        documents += batch["nextBatch"]


def close(client, cursor):
    assert client.admin.command("killCursors", "$cmd.aggregate", cursors=[cursor])["cursorsKilled"] == [cursor]


def copy(metadata, files, target):
    for file in files:
        name = target / os.path.relpath(file["filename"], metadata["dbpath"])
        name.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file["filename"], name)
        assert name.stat().st_size == file["fileSize"], "it does not change"


@pytest.fixture(params=list(LIBRARIES))
def engine(request):
    if not installed(LIBRARIES[request.param]):
        pytest.skip(f"no library of {request.param} here")
    return request.param


def test_the_files_are_the_state_of_one_moment_under_writes(tmp_path, engine):
    data = tmp_path / "data"
    with ReplicaSet(data, ["--storageEngine", engine]) as arbor, pymongo.MongoClient(arbor.direct_uri) as client:
        fill(client)
        client.db.create_collection("cut", partitioned=True)
        client.db.cut.insert_many([{"_id": n} for n in range(100)])
        client.db.command("addPartition", "cut")
        with Writers(arbor.uri):
            for attempt in range(10):
                until(lambda: client.db.tree.count_documents({}) > 2000, 30, "writes")
                metadata, files, cursor = opened(client)
                assert isinstance(metadata["backupId"], Binary)
                time = metadata["checkpointTimestamp"]
                assert isinstance(time, Timestamp) and metadata["oplogEnd"]["ts"] == time == metadata["oplogStart"]["ts"]
                try:
                    expected = state(client.db, time)
                except OperationFailure as error:
                    # a busy machine: the moment is too long ago by now
                    assert error.code == SNAPSHOT_TOO_OLD and attempt < 9, error
                    close(client, cursor)
                    continue
                break
            copy(metadata, files, tmp_path / "copy")
        close(client, cursor)
        until(lambda: not (data / "backup.cursor").exists(), 30, "the removal of the files")
    with ReplicaSet(tmp_path / "copy") as arbor, pymongo.MongoClient(arbor.direct_uri) as client:
        check_restored(client)
        assert state(client.db) == expected
        assert client.db.command("getPartitionInfo", "cut")["numPartitions"] == 2
        client.db.tree.insert_one({"_id": "new"})
        assert client.db.command("validate", "tree", full=True)["valid"]


def extended(client, metadata, time):
    stage = {"$backupCursorExtend": {"backupId": metadata["backupId"], "timestamp": time}}
    return client.admin.command("aggregate", 1, pipeline=[stage], cursor={"batchSize": 1000})["cursor"]["firstBatch"]


def test_the_log_up_to_a_time_extends_the_files(tmp_path, engine):
    with ReplicaSet(tmp_path / "data", ["--storageEngine", engine]) as arbor, pymongo.MongoClient(arbor.direct_uri) as client:
        db = client.db
        db.c.insert_many([{"_id": n} for n in range(100)])
        metadata, files, cursor = opened(client)
        copy(metadata, files, tmp_path / "copy")
        assert extended(client, metadata, metadata["checkpointTimestamp"]), "which it has already"
        db.c.delete_many({"_id": {"$lt": 50}})
        db.c.insert_one({"_id": "large", "text": "x" * 5_000_000})
        db.create_collection("cut", partitioned=True)
        time = db.command("insert", "c", documents=[{"_id": "in"}])["operationTime"]
        db.c.insert_one({"_id": "behind"})
        with pytest.raises(OperationFailure) as caught:
            client.admin.command("aggregate", 1, cursor={}, maxTimeMS=300, pipeline=[
                {"$backupCursorExtend": {"backupId": metadata["backupId"], "timestamp": Timestamp(time.time + 3600, 1)}}])
        assert caught.value.code == 50, "it waits for a time that is not yet there"
        close(client, cursor)
        # one that has not waited for more
        metadata, files, cursor = opened(client)
        shutil.rmtree(tmp_path / "copy")
        copy(metadata, files, tmp_path / "copy")
        first = db.command("insert", "c", documents=[{"_id": "first"}])["operationTime"]
        extended(client, metadata, first)
        last = db.command("insert", "c", documents=[{"_id": "last"}])["operationTime"]
        db.c.insert_one({"_id": "after"})
        listed = extended(client, metadata, last)
        assert all("/log/" in file["filename"] for file in listed)
        copy(metadata, listed, tmp_path / "copy")
        expected = [doc["_id"] for doc in db.c.find() if doc["_id"] != "after"]
        with pytest.raises(OperationFailure) as caught:
            extended(client, {"backupId": Binary(b"x" * 16, 4)}, last)
        assert caught.value.code == 51011
        close(client, cursor)
        with pytest.raises(OperationFailure) as caught:
            extended(client, metadata, last)
        assert caught.value.code == 51011
    with ReplicaSet(tmp_path / "copy") as arbor, pymongo.MongoClient(arbor.direct_uri) as client:
        for _ in range(2):
            assert [doc["_id"] for doc in client.db.c.find()] == expected
            assert client.db.command("validate", "c", full=True)["valid"]
            assert client.db.command("getPartitionInfo", "cut")["numPartitions"] == 1
            client.db.other.insert_one({})
            arbor.kill()
            arbor.start()


def test_one_at_a_time_and_gone_with_its_cursor_or_its_server(tmp_path):
    data = tmp_path / "data"
    with Arbor(data) as arbor, pymongo.MongoClient(arbor.uri) as client:
        client.db.c.insert_many([{"_id": n} for n in range(100)])
        metadata, files, cursor = opened(client)
        assert "oplogEnd" not in metadata, "a server alone has no oplog"
        with pytest.raises(OperationFailure) as caught:
            extended(client, metadata, Timestamp(1, 1))
        assert caught.value.code == 29144
        with pytest.raises(OperationFailure) as caught:
            opened(client)
        assert caught.value.code == 50886
        close(client, cursor)
        metadata, files, cursor = opened(client)
        assert os.path.exists(metadata["dbpath"]) and len(os.listdir(data / "backup.cursor")) == 1
        arbor.kill()
        assert os.path.exists(metadata["dbpath"])
        arbor.start()
        assert not (data / "backup.cursor").exists()
        copied = tmp_path / "copy"
        metadata, files, cursor = opened(client)
        copy(metadata, files, copied)
        # the copy is what it was, whatever happens to the server
        client.db.c.drop()
        arbor.kill()
        arbor.start()
    with Arbor(copied) as arbor, pymongo.MongoClient(arbor.uri) as client:
        assert [doc["_id"] for doc in client.db.c.find()] == list(range(100))


def test_drivers_read_it_and_its_making_is_interrupted(tmp_path):
    with Arbor(tmp_path / "data") as arbor, pymongo.MongoClient(arbor.uri) as client:
        client.db.c.insert_many([{"_id": n, "text": "x" * 1000} for n in range(40_000)])
        with client.admin.aggregate([{"$backupCursor": {}}]) as cursor:
            assert set(cursor.next()["metadata"]) >= {"backupId", "dbpath"}
            assert cursor.next()["filename"].startswith(str(tmp_path))
        with pytest.raises(OperationFailure) as caught:
            client.admin.command("aggregate", 1, pipeline=[{"$backupCursor": {}}], cursor={}, maxTimeMS=1)
        assert caught.value.code == 50
        # the one that was interrupted is not open; one ends with the session of its client, too
        with pymongo.MongoClient(arbor.uri) as other:
            opened(other)
        until(lambda: not (tmp_path / "data" / "backup.cursor").exists(), 30, "the removal of the files")


def test_what_is_refused(client, db):
    def refused(code, run):
        with pytest.raises(OperationFailure) as caught:
            run()
        assert caught.value.code == code, caught.value

    admin = client.admin
    refused(73, lambda: db.command("aggregate", 1, pipeline=[{"$backupCursor": {}}], cursor={}))
    refused(73, lambda: admin.command("aggregate", "c", pipeline=[{"$backupCursor": {}}], cursor={}))
    refused(40415, lambda: admin.command("aggregate", 1, pipeline=[{"$backupCursor": {"x": 1}}], cursor={}))
    refused(14, lambda: admin.command("aggregate", 1, pipeline=[{"$backupCursor": 1}], cursor={}))
    refused(115, lambda: admin.command("aggregate", 1, pipeline=[{"$backupCursor": {"incrementalBackup": True}}], cursor={}))
    for options, code in (({}, 40414), ({"backupId": 1, "timestamp": Timestamp(1, 1)}, 14), ({"x": 1}, 40415)):
        refused(code, lambda: admin.command("aggregate", 1, pipeline=[{"$backupCursorExtend": options}], cursor={}))  # noqa: B023
    refused(72, lambda: admin.command("aggregate", 1, pipeline=[{"$backupCursor": {}}, {"$limit": 1}], cursor={}))
    refused(40324, lambda: admin.command("aggregate", 1, pipeline=[{"$limit": 1}, {"$backupCursor": {}}], cursor={}))


def test_a_copy_that_has_no_room_is_refused_before_it_begins():
    if not loop_disk.is_allowed():
        pytest.skip("no loop devices here")
    disk = loop_disk.LoopDisk(512)
    try:
        with Arbor(disk.path / "data") as arbor, pymongo.MongoClient(arbor.uri) as client:
            for _ in range(60):
                client.db.c.insert_many([{"text": os.urandom(100_000)} for _ in range(10)])
            client.admin.command("fsync")
            # more than the data, and less than it and what else is written
            ballast = shutil.disk_usage(disk.path).free - 70_000_000
            with open(disk.path / "ballast", "wb") as file:
                os.posix_fallocate(file.fileno(), 0, ballast)
            for _ in range(2):
                with pytest.raises(OperationFailure) as caught:
                    opened(client)
                assert caught.value.code == OUT_OF_DISK_SPACE, caught.value
                assert "MB are needed in" in str(caught.value) and "arbor backup create" in str(caught.value)
                assert not (disk.path / "data" / "backup.cursor").exists(), "nothing is left of it"
            client.db.c.insert_one({"_id": "after"})
            (disk.path / "ballast").unlink()
            _, files, cursor = opened(client)
            assert sum(file["fileSize"] for file in files) > 60_000_000
            close(client, cursor)
    finally:
        disk.remove()
