"""Capped collections through PyMongo: order, bounds, deletes and updates, tailable cursors, options."""

import threading
import time

import pymongo
import pytest
from pymongo import CursorType
from pymongo.errors import OperationFailure


@pytest.fixture
def capped(db):
    return db.create_collection("capped", capped=True, size=1 << 20, max=5)


def refused(run, code, text=""):
    with pytest.raises(OperationFailure) as caught:
        run()
    assert caught.value.code == code, caught.value
    assert text in str(caught.value)


def ids(cursor):
    return [doc["_id"] for doc in cursor]


def test_natural_order_is_that_of_insertion(capped):
    capped.insert_many([{"_id": n} for n in [5, 1, 9]])
    capped.insert_one({"_id": 3, "a": 1})
    assert ids(capped.find()) == [5, 1, 9, 3]
    assert ids(capped.find().sort("$natural", -1)) == [3, 9, 1, 5]
    assert ids(capped.find(hint=[("$natural", -1)]).limit(2)) == [3, 9]
    assert ids(capped.find().sort("_id")) == [1, 3, 5, 9]
    assert ids(capped.find({"_id": {"$gt": 1}}).sort("_id", -1)) == [9, 5, 3]
    assert capped.find_one({"_id": 9}) == {"_id": 9}
    assert ids(capped.find({"a": None}, batch_size=1)) == [5, 1, 9]
    assert ids(capped.aggregate([{"$limit": 2}])) == [5, 1]
    capped.update_one({"_id": 1}, {"$set": {"text": "x" * 100}})
    assert ids(capped.find()) == [5, 1, 9, 3]


def test_the_oldest_make_room(db, capped):
    capped.create_index("n")
    for n in range(100, 0, -1):
        capped.insert_one({"_id": n, "n": n % 3})
    assert ids(capped.find()) == [5, 4, 3, 2, 1]
    assert ids(capped.find({"n": 1}).sort("_id")) == [1, 4]
    capped.insert_many([{"_id": n} for n in range(1000, 1012)])
    assert ids(capped.find()) == list(range(1007, 1012))
    assert capped.estimated_document_count() == 5 and db.command("validate", "capped")["valid"]
    # an _id that went may come again, at the end
    capped.insert_one({"_id": 1000})
    assert ids(capped.find())[-1] == 1000
    small = db.create_collection("small", capped=True, size=4096)
    for n in range(100):
        small.insert_one({"_id": n, "text": "x" * 400})
    left = ids(small.find())
    assert left == list(range(100 - len(left), 100)) and 8 <= len(left) <= 9
    assert db.command("collStats", "small")["size"] <= 4096
    refused(lambda: small.insert_one({"text": "x" * 5000}), 2, "exceeds cappedMaxSize")
    assert ids(small.find()) == left


def test_deletes_and_upserts(db, capped):
    capped.insert_many([{"_id": n} for n in range(5)])
    assert capped.delete_one({"_id": 2}).deleted_count == 1
    capped.insert_one({"_id": 2})
    assert ids(capped.find()) == [0, 1, 3, 4, 2]
    capped.update_one({"_id": 7}, {"$set": {"a": 1}}, upsert=True)
    assert ids(capped.find()) == [1, 3, 4, 2, 7]
    assert capped.find_one_and_delete({"_id": 4})["_id"] == 4
    assert capped.delete_many({}).deleted_count == 4
    capped.insert_one({"_id": 1})
    assert ids(capped.find()) == [1] and db.command("validate", "capped")["valid"]


def test_options(db, capped):
    listed = next(db.list_collections(filter={"name": "capped"}))
    assert listed["options"] == {"capped": True, "size": 1 << 20, "max": 5} and listed["type"] == "collection"
    stats = db.command("collStats", "capped")
    assert (stats["capped"], stats["max"], stats["maxSize"]) == (True, 5, 1 << 20)
    db.create_collection("c")
    assert db.command("collStats", "c")["capped"] is False
    assert db.create_collection("odd", capped=True, size=1000).options() == {"capped": True, "size": 1024}
    refused(lambda: db.command("create", "x", capped=True), 72, "'size' field is required")
    refused(lambda: db.command("create", "x", capped=True, size=0), 2)
    capped.insert_many([{"_id": n} for n in range(5)])
    db.command("collMod", "capped", cappedMax=2)
    capped.insert_one({"_id": 9})
    assert ids(capped.find()) == [4, 9]
    db.command("collMod", "capped", cappedMax=0, cappedSize=1 << 16)
    assert db.capped.options() == {"capped": True, "size": 1 << 16}
    refused(lambda: db.command("collMod", "c", cappedMax=2), 72, "must be capped")
    refused(lambda: db.c.aggregate([{"$out": "capped"}]), 17152)
    db.c.insert_one({"_id": 10})
    db.c.aggregate([{"$merge": "capped"}])
    assert ids(capped.find()) == [4, 9, 10]
    capped.rename("other")
    assert ids(db.other.find()) == [4, 9, 10]
    db.other.drop()
    assert "other" not in db.list_collection_names()


def test_conversion(db):
    db.c.insert_many([{"_id": n, "t": "x" * 200} for n in range(50)])
    db.c.create_index("t")
    db.command("convertToCapped", "c", size=2048)
    left = ids(db.c.find())
    assert left == list(range(50 - len(left), 50)) and 7 <= len(left) <= 9
    assert db.c.options() == {"capped": True, "size": 2048} and list(db.c.index_information()) == ["_id_"]
    assert db.command("validate", "c", full=True)["valid"]
    db.c.insert_one({"_id": -1, "t": "x" * 200})
    assert ids(db.c.find())[-1] == -1 and ids(db.c.find())[0] == left[1]
    db.command("convertToCapped", "c", size=1024)
    assert ids(db.c.find())[-2:] == [49, -1] and db.c.count_documents({}) < 5
    assert db.command("validate", "c", full=True)["valid"]
    db.c.insert_one({"_id": 0})
    assert ids(db.c.find())[-1] == 0
    refused(lambda: db.command("convertToCapped", "nope", size=1024), 26)
    refused(lambda: db.command("convertToCapped", "c"), 40414)


def test_a_tail_goes_on(capped):
    capped.insert_many([{"_id": n, "a": n % 2} for n in [3, 1, 2]])
    tail = capped.find({}, {"_id": 1}, cursor_type=CursorType.TAILABLE)
    assert ids([tail.next(), tail.next(), tail.next()]) == [3, 1, 2]
    with pytest.raises(StopIteration):
        tail.next()
    assert tail.alive
    capped.insert_one({"_id": 0, "a": 5})
    assert tail.next() == {"_id": 0}
    odd = capped.find({"a": 1}, cursor_type=CursorType.TAILABLE, batch_size=1).skip(1)
    assert odd.next()["_id"] == 1
    # the document at the cursor goes
    db = capped.database
    raw = db.command("find", "capped", tailable=True)["cursor"]["id"]
    for n in range(10, 20):
        capped.insert_one({"_id": n})
    refused(lambda: db.command("getMore", raw, collection="capped"), 136)
    with pytest.raises(StopIteration):
        tail.next()
    assert not tail.alive
    # no position to continue from
    empty = capped.database.create_collection("empty", capped=True, size=4096)
    assert list(empty.find(cursor_type=CursorType.TAILABLE)) == []
    capped.database.plain.insert_one({})
    refused(lambda: capped.database.plain.find(cursor_type=CursorType.TAILABLE).next(), 2, "non capped")
    refused(lambda: capped.find(cursor_type=CursorType.TAILABLE).sort("_id").next(), 2)
    refused(lambda: capped.database.command("find", "capped", awaitData=True), 9)


def test_a_tail_awaits(capped):
    capped.insert_one({"_id": 0})
    tail = capped.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(20_000)
    assert tail.next() == {"_id": 0}

    def later():
        time.sleep(0.3)
        capped.insert_one({"_id": 1})

    writer = threading.Thread(target=later)
    began = time.monotonic()
    writer.start()
    assert tail.next() == {"_id": 1}
    assert 0.2 < time.monotonic() - began < 15
    writer.join()
    short = capped.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(100)
    assert ids([short.next(), short.next()]) == [0, 1]
    with pytest.raises(StopIteration):
        short.next()
    assert short.alive
    with capped.database.client.start_session() as session:
        def command(*arguments, **more):
            return capped.database.command(*arguments, session=session, **more)

        raw = command("find", "capped", tailable=True, awaitData=True)["cursor"]["id"]
        began = time.monotonic()
        answer = command("getMore", raw, collection="capped", maxTimeMS=200)["cursor"]
        assert answer["nextBatch"] == [] and answer["id"] == raw and 0.15 < time.monotonic() - began < 10
        plain = command("find", "capped", tailable=True)["cursor"]["id"]
        refused(lambda: command("getMore", plain, collection="capped", maxTimeMS=200), 2, "non-awaitData")
        assert command("getMore", plain, collection="capped")["cursor"]["id"] == plain
        capped.drop()
        refused(lambda: command("getMore", raw, collection="capped"), 175)


def test_the_order_moves_to_another_engine(db, capped):
    capped.insert_many([{"_id": n} for n in [5, 1, 9]])
    db.command("collMod", "capped", storageEngine={"lmdb": {}})
    assert ids(capped.find()) == [5, 1, 9]
    capped.insert_many([{"_id": n} for n in [2, 8, 7]])
    assert ids(capped.find()) == [1, 9, 2, 8, 7]
    assert db.command("validate", "capped", full=True)["valid"]


def test_many_writers_keep_one_order(client, capped):
    capped.database.command("collMod", "capped", cappedMax=0)
    capped.insert_one({"_id": "first"})
    seen = []

    def follow():
        with pymongo.MongoClient(*client.address) as own:
            tail = own[capped.database.name].capped.find(cursor_type=CursorType.TAILABLE_AWAIT)
            while len(seen) < 401 and tail.alive:
                seen.extend(doc["_id"] for doc in tail)

    def write(writer):
        for n in range(100):
            capped.insert_one({"_id": f"{writer}-{n}"})

    threads = [threading.Thread(target=follow)] + [threading.Thread(target=write, args=(n,)) for n in range(4)]
    [thread.start() for thread in threads]
    [thread.join(60) for thread in threads]
    assert seen == ids(capped.find()) and len(seen) == 401
