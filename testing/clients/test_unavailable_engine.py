"""An engine whose files are damaged, or whose library is not installed, takes its own collections with it, by name, and nothing else."""

import pathlib

import pymongo
import pymongo.errors
import pytest

from arbor_process import Arbor

FAILED = 96


@pytest.fixture
def db(tmp_path):
    data = tmp_path / "data"
    with Arbor(data) as arbor, pymongo.MongoClient(arbor.uri) as client:
        client.d.create_collection("lost", storageEngine={"lmdb": {}})
        for name in ["lost", "kept", "half"]:
            client.d[name].insert_many([{"_id": i, "k": i} for i in range(100)])
        client.d.half.create_index("k", storageEngine={"lmdb": {}})
    for file in (data / "lmdb").iterdir():
        file.write_bytes(b"not what it was")
    with Arbor(data) as arbor, pymongo.MongoClient(arbor.uri) as client:
        yield client.d


def refused(work, namespace):
    with pytest.raises(pymongo.errors.PyMongoError) as error:
        work()
    details = error.value.details
    details = details.get("writeErrors", [details])[0]
    assert details["code"] == FAILED, details
    assert details["errmsg"].startswith(f"{namespace}: the storage engine lmdb is not available: "), details


def test_the_error_names_collection_and_engine(db):
    refused(lambda: list(db.lost.find()), "d.lost")
    refused(lambda: db.lost.find_one({"_id": 1}), "d.lost")
    refused(lambda: list(db.lost.aggregate([{"$group": {"_id": "$k"}}])), "d.lost")
    refused(lambda: db.lost.insert_one({"_id": 1000}), "d.lost")
    refused(lambda: db.lost.update_one({"_id": 1}, {"$set": {"k": 2}}), "d.lost")
    refused(lambda: db.lost.delete_many({}), "d.lost")
    refused(lambda: db.lost.create_index("x"), "d.lost")
    lookup = {"$lookup": {"from": "lost", "localField": "k", "foreignField": "k", "as": "o"}}
    refused(lambda: list(db.kept.aggregate([lookup])), "d.lost")


def test_other_collections_stay_usable(db):
    assert db.kept.count_documents({"k": {"$gte": 50}}) == 50
    db.kept.insert_one({"_id": 1000})
    db.kept.create_index("k")
    assert db.kept.find_one({"k": 7})["_id"] == 7
    db.create_collection("another")
    db.another.insert_one({})
    assert sorted(db.list_collection_names()) == ["another", "half", "kept", "lost"]
    status = db.client.admin.command("serverStatus")["storageEngines"]
    assert status["lmdb"]["state"] == "unavailable" and status["ftree"]["state"] == "open"


def test_a_lost_index_alone(db):
    """The records are there; what goes through the index, and every write, names the collection."""
    assert db.half.find_one({"_id": 3})["k"] == 3
    assert db.half.find({"k": 3}).hint("_id_").to_list()[0]["_id"] == 3
    refused(lambda: list(db.half.find({"k": 3}).hint("k_1")), "d.half")
    refused(lambda: db.half.insert_one({"_id": 1000, "k": 1}), "d.half")


def test_what_is_lost_can_be_dropped(db):
    db.lost.drop()
    db.half.drop_index("k_1")
    db.half.insert_one({"_id": 1000, "k": 1})
    assert sorted(db.list_collection_names()) == ["half", "kept"]


ENGINES = ["ftree", "lmdb", "rocksdb", "wiredTiger"]
MISSING = {"ARBOR_ROCKSDB_LIBRARY": "/nonexistent/librocksdb.so", "ARBOR_WIREDTIGER_LIBRARY": "/nonexistent/libwiredtiger.so"}


def libraries():
    return all(list(pathlib.Path("/usr").glob(f"lib/**/lib{name}.so*")) for name in ["rocksdb", "wiredtiger"])


def test_an_engine_without_its_library_is_refused_before_a_directory_is_made(tmp_path):
    data = tmp_path / "data"
    for engine, file in zip(ENGINES[2:], MISSING.values(), strict=True):
        with pytest.raises(RuntimeError, match=f"(?s)ended with 2.*engine {engine} is not available: {file}"):
            Arbor(data, ["--storageEngine", engine], env=MISSING).start()
    with Arbor(data, env=MISSING) as arbor, pymongo.MongoClient(arbor.uri) as client:
        for engine in ENGINES[2:]:
            with pytest.raises(pymongo.errors.OperationFailure, match=f"engine {engine} is not available"):
                client.d.create_collection("c", storageEngine={engine: {}})
        assert client.d.list_collection_names() == []
        client.d.c.insert_one({})


@pytest.mark.skipif(not libraries(), reason="the libraries of RocksDB and WiredTiger are not installed")
def test_one_server_has_all_engines_and_loses_those_whose_library_vanished(tmp_path):
    data = tmp_path / "data"
    with Arbor(data) as arbor:
        with pymongo.MongoClient(arbor.uri) as client:
            for engine in ENGINES:
                client.d.create_collection(engine, storageEngine={engine: {}})
                client.d[engine].insert_many([{"_id": i} for i in range(100)])
        arbor.kill()
    with Arbor(data, env=MISSING) as arbor:
        with pymongo.MongoClient(arbor.uri) as client:
            for engine in ENGINES[:2]:
                assert client.d[engine].count_documents({}) == 100
            for engine in ENGINES[2:]:
                with pytest.raises(pymongo.errors.OperationFailure, match=f"engine {engine} is not available"):
                    client.d[engine].find_one()
        arbor.kill()
    with Arbor(data) as arbor, pymongo.MongoClient(arbor.uri) as client:
        for engine in ENGINES:
            assert client.d[engine].count_documents({}) == 100 and client.d.validate_collection(engine)["valid"]
