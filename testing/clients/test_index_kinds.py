"""Every kind of index is built over many documents, changed, and there after a crash, on each engine and after a move."""

import pymongo
import pytest

from arbor_process import Arbor

COUNT = 4000
BIG_FILTER = {"n": {"$gte": COUNT // 2}}
QUERIES = [
    {"k": 7},
    {"k": {"$gte": 90}},
    {"k": {"$in": [1, 2, 3]}, "n": {"$gte": 3000}},
    {"t": 5},
    {"h": "h3"},
    {"inner.deep": {"$lt": 3}},
    {"k": 5, "n": {"$lt": 100}},
]


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "data"


def documents():
    for i in range(COUNT):
        yield {"_id": i, "k": i % 97, "n": i, "t": [i % 7, i % 11], "h": f"h{i % 50}", "inner": {"deep": i % 13}, "pad": "x" * 500}


def make_indexes(c):
    c.create_indexes([
        pymongo.IndexModel([("k", 1)], name="clustering", clustering=True),
        pymongo.IndexModel([("t", 1), ("n", -1)], name="clustering arrays", clustering=True),
        pymongo.IndexModel([("k", 1), ("n", 1)], name="partial", partialFilterExpression=BIG_FILTER),
        pymongo.IndexModel([("n", -1)], name="partial unique", unique=True, partialFilterExpression=BIG_FILTER),
        pymongo.IndexModel([("h", "hashed"), ("n", 1)], name="hashed"),
        pymongo.IndexModel([("inner.$**", 1)], name="wildcard"),
        pymongo.IndexModel([("n", 1)], name="to be unique"),
    ])


def change(c):
    c.update_many({"k": 7}, {"$set": {"k": 700, "inner.deep": 2, "pad": "y" * 400}})
    c.update_many({"n": {"$lt": 20}}, {"$inc": {"n": 10 * COUNT}})
    c.update_many({"n": {"$gte": COUNT - 20, "$lt": COUNT}}, {"$mul": {"n": -1}})
    c.delete_many({"h": "h9"})


def answers(c):
    return [sorted(doc["_id"] for doc in c.find(query)) for query in QUERIES]


def check(c):
    report = c.database.validate_collection(c.name, full=True)
    assert report["valid"], report
    natural = [sorted(doc["_id"] for doc in c.find(query).hint({"$natural": 1})) for query in QUERIES]
    assert answers(c) == natural
    assert all(doc["pad"][0] in "xy" and len(doc["pad"]) >= 400 for doc in c.find({"k": {"$in": [700, 3]}}))
    for name, query in [("clustering", {"k": {"$gt": 50}}), ("clustering arrays", {"t": 3})]:
        found = {doc["_id"]: doc for doc in c.find(query).hint(name)}
        assert found == {doc["_id"]: doc for doc in c.find(query).hint({"$natural": 1})}


@pytest.mark.parametrize("engine", ["ftree", "lmdb"])
def test_built_changed_and_there_after_a_crash(directory, engine):
    with Arbor(directory) as arbor, pymongo.MongoClient(arbor.uri) as client:
        c = client.d.create_collection("c", storageEngine={engine: {}})
        c.insert_many(documents())
        make_indexes(c)
        check(c)
        client.d.command("collMod", "c", index={"name": "to be unique", "prepareUnique": True})
        client.d.command("collMod", "c", index={"name": "to be unique", "unique": True})
        change(c)
        check(c)
        before = answers(c)
        client.admin.command("fsync")
        client.close()
        arbor.kill()
    with Arbor(directory) as arbor, pymongo.MongoClient(arbor.uri) as client:
        c = client.d.c
        assert answers(c) == before
        shown = c.index_information()
        assert shown["to be unique"]["unique"] is True and shown["partial"]["partialFilterExpression"] == BIG_FILTER
        assert shown["clustering"]["clustering"] is True and shown["hashed"]["key"][0] == ("h", "hashed")
        c.update_many({"k": 11}, {"$inc": {"k": 5}})
        check(c)
        other = {"ftree": "lmdb", "lmdb": "ftree"}[engine]
        client.d.command("collMod", "c", storageEngine={other: {}})
        c.update_many({"k": 16}, {"$inc": {"k": 5}})
        check(c)
