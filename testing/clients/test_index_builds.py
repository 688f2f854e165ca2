"""Index builds while others read and write: what they show, who may end them, what they refuse."""

import threading
import time

import pymongo
import pytest
from pymongo.errors import OperationFailure

DOCUMENTS = 20_000


@pytest.fixture
def filled(db):
    for start in range(0, DOCUMENTS, 5000):
        db.c.insert_many([{"_id": i, "a": i, "b": [i % 10, i], "pad": "x" * 200} for i in range(start, start + 5000)])
    return db


class Build:
    """A createIndexes on a connection of its own."""

    def __init__(self, server, db, keys, **options):
        self.server, self.db, self.error = server, db.name, None
        self.command = {"createIndexes": "c", **options}
        self.command["indexes"] = [{"key": key, "name": name, **more} for name, (key, more) in keys.items()]

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def run(self):
        with pymongo.MongoClient(self.server.uri) as client:
            try:
                client[self.db].command(self.command)
            except OperationFailure as error:
                self.error = error

    def __exit__(self, *_):
        self.thread.join(60)
        assert not self.thread.is_alive()


def running(client, db):
    """The operation once it shows progress; None when it ended before that."""
    for _ in range(2000):
        shown = client.admin.command("currentOp", **{"command.createIndexes": "c", "ns": f"{db.name}.c"})["inprog"]
        if shown and "msg" in shown[0]:
            return shown[0]
        time.sleep(0.001)
    return None


def busy(client, db):
    """Makes builds slow: they take little while others want the processors."""
    stop = threading.Event()

    def work():
        at = 0
        while not stop.is_set():
            at += 1
            db.c.update_one({"_id": at % DOCUMENTS}, {"$set": {"a": DOCUMENTS + at}})

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()

    def end():
        stop.set()
        for thread in threads:
            thread.join()

    return end


def test_several_indexes_in_one_build_are_shown_and_whole(server, client, filled):
    keys = {"a": ({"a": 1}, {}), "b": ({"b": 1, "a": -1}, {}), "w": ({"$**": 1}, {"wildcardProjection": {"pad": 0}})}
    before = client.admin.command("serverStatus")["indexBuilds"]["total"]
    end = busy(client, filled)
    with Build(server, filled, keys, commitQuorum="votingMembers") as build:
        shown = running(client, filled)
        listed = filled.command("listIndexes", "c", includeIndexBuildInfo=True)["cursor"]["firstBatch"]
        stats = filled.command("collStats", "c")
        filled.c.insert_one({"_id": -1, "a": "meanwhile", "b": [1, 2]})
        filled.c.delete_one({"_id": 7})
        end()
    assert build.error is None
    assert shown is not None and shown["msg"].startswith("Index Build: ")
    assert set(shown["progress"]) == {"done", "total"}
    unfinished = [index for index in listed if "indexBuildInfo" in index]
    if unfinished:  # it may be done by then
        assert {index["spec"]["name"] for index in unfinished} == set(keys)
        assert unfinished[0]["indexBuildInfo"]["buildUUID"].subtype == 4
    assert set(stats["indexBuilds"]) in (set(keys), set())
    assert client.admin.command("serverStatus")["indexBuilds"]["total"] == before + 1
    assert set(filled.c.index_information()) == {"_id_", *keys}
    assert filled.c.count_documents({"a": "meanwhile"}, hint="a") == 1
    assert filled.command("validate", "c", full=True)["valid"]


def test_duplicates_name_the_key(filled):
    filled.c.insert_one({"_id": "twin", "a": 5})
    with pytest.raises(OperationFailure) as caught:
        filled.c.create_index("a", unique=True)
    details = caught.value.details
    assert (details["code"], details["keyPattern"], details["keyValue"]) == (11000, {"a": 1}, {"a": 5})
    assert details["errmsg"].startswith("Index build failed: ") and f": Collection {filled.name}.c ( " in details["errmsg"]
    assert details["errmsg"].endswith(f"E11000 duplicate key error collection: {filled.name}.c index: a_1 dup key: {{ a: 5 }}")
    assert set(filled.c.index_information()) == {"_id_"}
    filled.c.delete_one({"_id": "twin"})
    filled.c.create_index("a", unique=True)
    with pytest.raises(OperationFailure):
        filled.c.insert_one({"a": 5})


@pytest.mark.parametrize("how", ["dropIndexes", "drop", "dropDatabase", "killOp"])
def test_who_ends_a_build(server, client, filled, how):
    end = busy(client, filled)
    with Build(server, filled, {"a": ({"a": 1}, {})}) as build:
        shown = running(client, filled)
        end()
        assert shown is not None
        match how:
            case "dropIndexes":
                filled.command("dropIndexes", "c", index="a")
            case "killOp":
                client.admin.command("killOp", op=shown["opid"])
            case _:
                filled.command(how, "c") if how == "drop" else client.drop_database(filled.name)
    if build.error is not None:  # it may be done before it hears of it
        assert build.error.code == (11601 if how == "killOp" else 276), build.error.details
    if how in ("dropIndexes", "killOp"):
        assert build.error is None or set(filled.c.index_information()) == {"_id_"}
        assert filled.command("validate", "c", full=True)["valid"]


def test_the_time_of_a_build_is_limited(client, filled):
    end = busy(client, filled)
    try:
        with pytest.raises(OperationFailure) as caught:
            filled.command("createIndexes", "c", indexes=[{"key": {"a": 1}, "name": "a"}], maxTimeMS=20)
        assert caught.value.code == 50
    finally:
        end()
    assert set(filled.c.index_information()) == {"_id_"}


def test_what_is_refused_meanwhile(server, client, filled):
    end = busy(client, filled)
    with Build(server, filled, {"a": ({"a": 1}, {}), "b": ({"b": 1}, {})}) as build:
        assert running(client, filled) is not None
        refused = []
        for command in (
            {"renameCollection": f"{filled.name}.c", "to": f"{filled.name}.d"},
            {"dropIndexes": "c", "index": "a"},
            {"convertToCapped": "c", "size": 1 << 24},
        ):
            database = client.admin if "renameCollection" in command else filled
            still = filled.command("collStats", "c")["indexBuilds"]
            try:
                database.command(command)
                refused.append(None if still else "late")
            except OperationFailure as error:
                refused.append(error.code)
            if refused[-1] != 12587:
                break
        end()
    assert build.error is None
    assert refused[0] == 12587, refused


def test_the_same_index_is_waited_for(server, client, filled):
    end = busy(client, filled)
    with Build(server, filled, {"a": ({"a": 1}, {})}) as one:
        assert running(client, filled) is not None
        with Build(server, filled, {"a": ({"a": 1}, {})}) as other:
            end()
    assert one.error is None and other.error is None
    assert set(filled.c.index_information()) == {"_id_", "a"}


def test_the_memory_of_builds_is_a_parameter(client, filled):
    assert client.admin.command("getParameter", maxIndexBuildMemoryUsageMegabytes=1)["maxIndexBuildMemoryUsageMegabytes"] == 200
    client.admin.command("setParameter", maxIndexBuildMemoryUsageMegabytes=1)
    try:
        filled.c.create_index([("b", 1), ("a", 1)])
        assert filled.command("validate", "c", full=True)["valid"]
    finally:
        client.admin.command("setParameter", maxIndexBuildMemoryUsageMegabytes=200)
