"""Storage engines as users choose and see them: options, sections of serverStatus, sizes, the directory's own engine."""

import pymongo
import pymongo.errors
import pytest

from arbor_process import Arbor


@pytest.fixture(params=["ftree", "lmdb"])
def engine(request, tmp_path):
    """A client of a server with each engine, its data directory, and the server."""
    with Arbor(tmp_path / "data", ["--storageEngine", request.param]) as arbor:
        with pymongo.MongoClient(arbor.uri) as client:
            yield request.param, client, arbor


def fill(collection, count=3000):
    collection.create_index("k")
    collection.insert_many([{"_id": i, "k": i % 100, "text": "x" * 200} for i in range(count)])


def test_a_session_on_each_engine(engine):
    name, client, _ = engine
    db = client.d
    fill(db.c)
    assert db.c.count_documents({"k": 7}) == 30
    assert db.c.update_many({"k": 7}, {"$inc": {"n": 1}}).modified_count == 30
    assert db.c.find_one_and_update({"_id": 7}, {"$set": {"k": 200}}, return_document=True)["k"] == 200
    assert db.c.delete_many({"k": {"$lt": 50}}).deleted_count == 1499
    assert [d["_id"] for d in db.c.find({"k": 200})] == [7]
    assert list(db.c.aggregate([{"$group": {"_id": None, "n": {"$sum": 1}}}])) == [{"_id": None, "n": 1501}]
    assert [d["_id"] for d in db.c.find().sort("_id", -1).limit(3)] == [2999, 2998, 2997]
    report = db.validate_collection("c", full=True)
    assert report["valid"] and report["nrecords"] == 1501
    db.c.drop()
    assert db.list_collection_names() == []


def test_statistics_of_each_engine(engine):
    name, client, _ = engine
    fill(client.d.c)
    status = client.admin.command("serverStatus")
    assert status["storageEngine"]["name"] == name == status["engine"]["name"]
    assert status[name], "the engine's own counters"
    assert name not in client.admin.command("serverStatus", **{name: 0})
    client.admin.command("fsync")
    stats = client.d.command("collStats", "c")
    assert stats["count"] == 3000 and stats["size"] > 600_000
    assert stats["storageSize"] > 0 and stats["indexSizes"]["k_1"] > 0
    assert stats["storageEngine"] == {"name": name}


def test_sizes_have_large_values(engine):
    import os

    _, client, _ = engine
    db = client.d
    for name in ("c", "parts"):
        db.create_collection(name, partitioned=name == "parts")
        db[name].insert_many([{"_id": n, "blob": os.urandom(100_000)} for n in range(100)])
    client.admin.command("fsync")
    for name in ("c", "parts"):
        stats = db.command("collStats", name)
        [stage] = db[name].aggregate([{"$collStats": {"storageStats": {}}}])
        for sizes in (stats, stage["storageStats"]):
            assert 10_000_000 <= sizes["storageSize"] < 16_000_000 and sizes["totalSize"] >= sizes["storageSize"], sizes
    sums = db.command("dbStats")
    assert 20_000_000 <= sums["storageSize"] < 32_000_000 and sums["totalSize"] >= sums["storageSize"], sums
    [listed] = [own for own in client.list_databases() if own["name"] == "d"]
    assert listed["sizeOnDisk"] >= 20_000_000, listed


def test_a_checkpoint_is_counted_once(engine):
    name, client, _ = engine
    counted = lambda: client.admin.command("serverStatus")[name].get("checkpoints")
    if counted() is None:
        pytest.skip(f"{name} does not count checkpoints")
    client.d.c.insert_one({})
    before = counted()
    client.admin.command("fsync")
    assert counted() == before + 1


def test_options_of_collections_and_indexes(tmp_path):
    flags = ["--ftreeCompression", "zstd:3", "--tokuftCollectionCompression", "quicklz", "--setParameter", "defaultFanout=32"]
    with Arbor(tmp_path / "data", flags) as arbor, pymongo.MongoClient(arbor.uri) as client:
        warnings = "\n".join(client.admin.command("getLog", "startupWarnings")["log"])
        assert "ftree" not in warnings and "defaultFanout" not in warnings, warnings
        db = client.d
        options = {"ftree": {"compression": "none", "readPageSize": 65536}}
        db.create_collection("plain", storageEngine=options)
        assert db.plain.options()["storageEngine"] == options
        db.plain.create_index("k", storageEngine={"tokuft": {"compression": "lzma"}})
        fill(db.plain)
        fill(db.packed)
        for wrong in [{"ftree": {"compression": "best"}}, {"ftree": {"colour": 1}}, {"paper": {}}]:
            with pytest.raises(pymongo.errors.OperationFailure) as refused:
                db.create_collection("wrong", storageEngine=wrong)
            assert refused.value.code == 72, refused.value
        client.admin.command("fsync")
        plain, packed = (db.command("collStats", name)["storageSize"] for name in ["plain", "packed"])
        assert plain > packed * 1.5
        assert sorted(db.list_collection_names()) == ["packed", "plain"], "nothing was poisoned"
        db.packed.insert_one({})


def test_options_without_meaning_are_warned_about(tmp_path):
    flags = ["--cleanerPeriod", "2", "--rocksdbCompression", "snappy", "--fsRedzone", "5"]
    with Arbor(tmp_path / "data", flags) as arbor, pymongo.MongoClient(arbor.uri) as client:
        warnings = "\n".join(client.admin.command("getLog", "startupWarnings")["log"])
        for text in ["there is no cleaner", "reserve of free space"]:
            assert text in warnings, warnings


def test_a_directory_opens_with_the_engine_that_made_it(tmp_path):
    with Arbor(tmp_path / "data", ["--storageEngine", "mmapv1"]) as arbor, pymongo.MongoClient(arbor.uri) as client:
        client.d.c.insert_one({"_id": 1})
    with Arbor(tmp_path / "data") as arbor, pymongo.MongoClient(arbor.uri) as client:
        assert client.d.c.find_one() == {"_id": 1}
        assert client.admin.command("serverStatus")["storageEngine"]["name"] == "lmdb"
