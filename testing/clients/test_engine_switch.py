"""Several engines in one server, and the live change of a collection's engine."""

import threading
import time

import pymongo
import pymongo.errors
import pytest
from pymongo.errors import OperationFailure

from arbor_process import Arbor

FAILED_TO_FIND, BAD_VALUE, TYPE_MISMATCH, INVALID_OPTIONS = 26, 2, 14, 72
CONFLICT, INTERRUPTED, TIME_EXPIRED = 117, 11601, 50


@pytest.fixture
def server(tmp_path):
    with Arbor(tmp_path / "data") as arbor, pymongo.MongoClient(arbor.uri) as client:
        yield arbor, client


def fill(collection, count, pad=300):
    for start in range(0, count, 1000):
        ids = range(start, min(start + 1000, count))
        collection.insert_many([{"_id": i, "k": i % 97, "t": [i % 7, i % 11], "n": 0, "pad": "x" * pad} for i in ids])


def engine_of(collection):
    return collection.database.command("collStats", collection.name)["storageEngine"]["name"]


def switch(collection, engine, **more):
    return collection.database.command("collMod", collection.name, storageEngine={engine: {}}, **more)


def check(collection, count):
    report = collection.database.validate_collection(collection.name, full=True)
    assert report["valid"] and report["nrecords"] == count, report
    assert collection.count_documents({}) == collection.estimated_document_count() == count


def code_of(run):
    with pytest.raises(OperationFailure) as caught:
        run()
    return caught.value.code, caught.value.details["errmsg"]


def test_collections_and_indexes_on_two_engines(server):
    arbor, client = server
    db = client.d
    db.create_collection("tree", storageEngine={"TokuFT": {"compression": "zstd:3"}})
    db.create_collection("map", storageEngine={"mmapv1": {}})
    db.tree.create_index("k", storageEngine={"lmdb": {}})
    for collection in [db.tree, db.map, db.plain]:
        collection.create_index("t")
        fill(collection, 2000)
        assert collection.count_documents({"k": 5}) == 21
        assert collection.update_many({"k": 5}, {"$set": {"k": 500}}).modified_count == 21
        assert len(list(collection.find({"t": 3}).hint("t_1"))) == len([i for i in range(2000) if i % 7 == 3 or i % 11 == 3])
        check(collection, 2000)
    joined = list(db.tree.aggregate([{"$match": {"_id": 7}}, {"$lookup": {"from": "map", "localField": "_id", "foreignField": "_id", "as": "m"}}]))
    assert joined[0]["m"][0]["_id"] == 7
    client.admin.command("fsync")
    listed = {c["name"]: c["options"] for c in db.list_collections()}
    assert listed["map"] == {"storageEngine": {"mmapv1": {}}} and listed["plain"] == {}
    assert db.tree.index_information()["k_1"]["storageEngine"] == {"lmdb": {}}
    stats = db.command("collStats", "tree")
    assert stats["storageEngine"]["name"] == "ftree" and stats["ftree"]["block-manager"]["file size in bytes"] > 0
    assert {name: index["storageEngine"] for name, index in stats["indexDetails"].items()} == {"_id_": "ftree", "k_1": "lmdb", "t_1": "ftree"}
    assert engine_of(db.map) == "lmdb" and engine_of(db.plain) == "ftree"
    whole = list(db.map.aggregate([{"$collStats": {"storageStats": {}}}]))[0]["storageStats"]
    assert whole["storageEngine"]["name"] == "lmdb" and "lmdb" in whole
    assert db.command("dbStats")["objects"] == 6000
    # one transaction over both engines
    client.admin.command("renameCollection", "d.plain", to="d.map", dropTarget=True)
    assert engine_of(db.map) == "ftree"
    db.create_collection("map2", storageEngine={"lmdb": {}})
    client.drop_database("d")
    assert db.list_collection_names() == []


def test_each_collection_is_where_it_was_after_a_restart(server):
    arbor, client = server
    client.d.create_collection("map", storageEngine={"lmdb": {}})
    fill(client.d.map, 500)
    fill(client.d.tree, 500)
    arbor.kill()
    arbor.start()
    with pymongo.MongoClient(arbor.uri) as client:
        for name, engine in [("map", "lmdb"), ("tree", "ftree")]:
            assert engine_of(client.d[name]) == engine
            check(client.d[name], 500)


def test_wrong_engines_and_options_are_named(server):
    _, client = server
    db = client.d
    db.c.insert_one({"_id": 1})
    for given, code, *parts in [
        ({"paper": {}}, INVALID_OPTIONS, "paper is not a registered storage engine for this server", "ftree, lmdb"),
        ({"ftree": {}, "lmdb": {}}, BAD_VALUE, "names 'ftree' and 'lmdb'"),
        ({}, BAD_VALUE, "Empty 'storageEngine'"),
        ({"ftree": 1}, BAD_VALUE, "'storageEngine.ftree' has to be an embedded document"),
        ({"lmdb": {"fanout": 8}}, INVALID_OPTIONS, "fanout", "lmdb"),
        ({"ftree": {"configString": "block_compressor=zlib"}}, INVALID_OPTIONS, "configString", "ftree"),
        ({"ftree": {"compression": "best"}}, INVALID_OPTIONS, "compression"),
        (5, TYPE_MISMATCH, "storageEngine"),
    ]:
        # as in MongoDB, a collection may be created with no options of an engine
        creates = [lambda: db.command("create", "wrong", storageEngine=given)] if given != {} else []
        for run in [
            *creates,
            lambda: db.command("collMod", "c", storageEngine=given),
            lambda: db.command("createIndexes", "new", indexes=[{"key": {"a": 1}, "name": "a_1", "storageEngine": given}]),
        ]:
            got, text = code_of(run)
            assert got == code, (given, got, text)
            assert all(part in text for part in parts), text
    assert db.list_collection_names() == ["c"], "nothing is created on the way"
    assert code_of(lambda: switch(db.missing, "lmdb"))[0] == FAILED_TO_FIND
    assert code_of(lambda: db.command("collMod", "c", colour=1))[0] == 40415
    db.command("collMod", "c")
    db.c.insert_one({"_id": 2})


def test_other_options_of_the_same_engine_move_nothing(server):
    _, client = server
    fill(client.d.c, 500)
    answer = client.d.command("collMod", "c", storageEngine={"ftree": {"compression": "none"}})
    assert "engineSwitch" not in answer
    assert client.d.c.options() == {"storageEngine": {"ftree": {"compression": "none"}}}
    check(client.d.c, 500)


def test_tokumx_options_are_kept_with_the_others(server):
    _, client = server
    client.d.command("create", "c", compression="none", readPageSize=65536)
    client.d.c.create_index("k", compression="zlib", pageSize=1 << 20)
    fill(client.d.c, 300)
    assert client.d.c.options() == {"compression": "none", "readPageSize": 65536}
    assert client.d.c.index_information()["k_1"]["compression"] == "zlib"
    assert code_of(lambda: client.d.command("create", "x", compression="best"))[0] == INVALID_OPTIONS


class Writer(threading.Thread):
    """Changes documents of its own, and remembers what they are to be."""

    def __init__(self, uri, number, count):
        super().__init__(daemon=True)
        self.client = pymongo.MongoClient(uri)
        self.number, self.count = number, count
        self.expect, self.failed, self.stopping = {}, None, False

    def run(self):
        try:
            coll, step = self.client.d.c, 0
            while not self.stopping:
                step += 1
                mine = self.number + 4 * (step * 31 % (self.count // 4))
                new = f"{self.number}-{step}"
                if step % 5 == 0:
                    coll.insert_one({"_id": new, "k": step, "t": [step], "n": step})
                    self.expect[new] = step
                elif step % 11 == 0 and f"{self.number}-{step - 6}" in self.expect:
                    coll.delete_one({"_id": f"{self.number}-{step - 6}"})
                    del self.expect[f"{self.number}-{step - 6}"]
                else:
                    coll.update_one({"_id": mine}, {"$inc": {"n": 1}, "$set": {"k": step % 50}})
                    self.expect[mine] = self.expect.get(mine, 0) + 1
        except Exception as error:
            self.failed = error
        finally:
            self.client.close()


def verify(collection, writers, count):
    expect = {i: 0 for i in range(count)}
    for writer in writers:
        expect.update(writer.expect)
    found = {d["_id"]: d["n"] for d in collection.find({}, {"n": 1})}
    assert found == expect
    check(collection, len(expect))


def test_a_collection_changes_its_engine_under_writers(server):
    arbor, client = server
    coll, count = client.d.c, 4000
    coll.create_index("k")
    coll.create_index("t")
    coll.create_index("n", storageEngine={"ftree": {}})
    fill(coll, count)
    writers = [Writer(arbor.uri, n, count) for n in range(4)]
    for writer in writers:
        writer.start()
    cursor = coll.find({}, batch_size=100)
    next(cursor)
    for engine in ["lmdb", "ftree", "mmapv1"]:
        answer = switch(coll, engine)
        assert answer["engineSwitch"]["rows"] >= 3 * count, answer
        assert engine_of(coll) == engine.replace("mmapv1", "lmdb")
        assert coll.options() == {"storageEngine": {engine: {}}}
    assert sum(1 for _ in cursor) >= count - 1, "a cursor reads on in the trees of its snapshot"
    for writer in writers:
        writer.stopping = True
        writer.join(30)
        assert writer.failed is None, writer.failed
    verify(coll, writers, count)
    details = client.d.command("collStats", "c")["indexDetails"]
    assert [index["storageEngine"] for index in details.values()] == ["lmdb", "lmdb", "lmdb", "ftree"]
    arbor.kill()
    arbor.start()
    with pymongo.MongoClient(arbor.uri) as client:
        assert engine_of(client.d.c) == "lmdb"
        verify(client.d.c, writers, count)


class Switching:
    """A switch in a thread of its own, held by a full machine or a large collection long enough to be observed."""

    def __init__(self, uri, engine, **more):
        self.outcome = None
        self.thread = threading.Thread(target=self.run, args=(uri, engine, more), daemon=True)
        self.thread.start()

    def run(self, uri, engine, more):
        with pymongo.MongoClient(uri) as client:
            try:
                self.outcome = switch(client.d.c, engine, **more)
            except OperationFailure as error:
                self.outcome = error.code

    def progress(self, client):
        """What currentOp shows of it; None when it has ended."""
        while self.thread.is_alive():
            shown = client.admin.command("currentOp", **{"command.collMod": "c", "progress": {"$exists": True}})["inprog"]
            if shown:
                return shown[0]
        return None

    def end(self):
        self.thread.join(60)
        return self.outcome


def test_a_switch_shows_itself_and_can_be_ended(server):
    arbor, client = server
    coll, count = client.d.c, 30_000
    coll.create_index("k")
    fill(coll, count, pad=50)
    assert code_of(lambda: switch(coll, "lmdb", maxTimeMS=20))[0] == TIME_EXPIRED
    killed = Switching(arbor.uri, "lmdb")
    shown = killed.progress(client)
    assert shown["msg"].startswith("Storage engine: ") and shown["progress"]["total"] > 0, shown
    client.admin.command("killOp", op=shown["opid"])
    assert killed.end() == INTERRUPTED
    assert engine_of(coll) == "ftree"
    check(coll, count)
    running = Switching(arbor.uri, "lmdb")
    assert running.progress(client)
    assert code_of(lambda: switch(coll, "lmdb"))[0] == CONFLICT
    assert code_of(lambda: coll.create_index("m"))[0] == CONFLICT
    assert code_of(lambda: coll.drop_index("k_1"))[0] == CONFLICT
    assert code_of(lambda: coll.rename("d"))[0] == CONFLICT
    assert "engineSwitch" in running.end()
    check(coll, count)
    dropped = Switching(arbor.uri, "ftree")
    assert dropped.progress(client)
    coll.drop()
    assert dropped.end() == FAILED_TO_FIND
    coll.insert_one({"_id": 1})
    check(coll, 1)


def test_what_a_damaged_engine_held_is_named_and_can_be_dropped(server):
    arbor, client = server
    client.d.create_collection("map", storageEngine={"lmdb": {}})
    for name in ["map", "tree"]:
        fill(client.d[name], 300)
    arbor.stop()
    for path in (arbor.dbpath / "lmdb").iterdir():
        path.write_bytes(b"not what it was")
    arbor.start()
    with pymongo.MongoClient(arbor.uri) as client:
        db = client.d
        assert sorted(db.list_collection_names()) == ["map", "tree"]
        for run in [lambda: db.map.find_one(), lambda: db.map.insert_one({}), lambda: db.map.count_documents({"k": 1}),
                    lambda: db.command("collStats", "map"), lambda: switch(db.map, "ftree")]:
            assert "the storage engine lmdb is not available" in code_of(run)[1]
        check(db.tree, 300)
        db.tree.insert_one({"_id": "new"})
        assert "d" in client.list_database_names() and db.command("dbStats")["collections"] == 2
        db.map.drop()
        assert db.list_collection_names() == ["tree"]
