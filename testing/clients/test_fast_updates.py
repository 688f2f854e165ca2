"""`fastUpdates`: updates by `_id` that do not read the document, in the manner of TokuMX."""

import random
import threading

import bson
import pymongo
import pytest
from pymongo.errors import WriteError

from arbor_process import Arbor, Members, ReplicaSet
from test_member_sync import LIMIT_S, add
from test_members import MAJORITY, direct, in_sync, until


def performed(client):
    return client.admin.command("serverStatus")["metrics"]["fastUpdates"]["performed"]


def switch(client, on):
    client.admin.command("setParameter", 1, fastUpdates=on)


@pytest.fixture
def server(tmp_path):
    server = Arbor(tmp_path / "db", ["--setParameter", "fastUpdates=true"])
    server.start()
    yield server
    server.stop()


@pytest.fixture
def client(server):
    with pymongo.MongoClient(server.uri) as client:
        yield client


def unread(client, work):
    """Returns how many updates of the work read nothing."""
    before = performed(client)
    work()
    return performed(client) - before


def random_update(rng):
    def value():
        return rng.choice([rng.randrange(-5, 5), bson.Int64(2**62), 1.5, "x" * rng.randrange(40), None, True, [1, {"b": 2}], {"b": {"c": 1}}])

    path = lambda: rng.choice(["a", "b", "n", "list", "a.b", "list.0", "list.1.b", "b.b.c"])
    operators = {
        "$set": value,
        "$unset": lambda: "",
        "$inc": lambda: rng.choice([1, -1, bson.Int64(2**62), 0.5]),
        "$mul": lambda: rng.choice([2, 0.5]),
        "$min": value,
        "$max": value,
        "$push": lambda: rng.choice([value(), {"$each": [3, 1, 2], "$sort": 1, "$slice": 4}]),
        "$addToSet": value,
        "$pop": lambda: rng.choice([1, -1]),
        "$pullAll": lambda: [[1, 2, None]][0],
        "$bit": lambda: {"xor": 5},
    }
    return {name: {path(): operators[name]()} for name in rng.sample(sorted(operators), rng.choice([1, 1, 2]))}


def test_documents_become_what_they_become_by_reading(server, client):
    rng = random.Random(11)
    fast, usual = client.db.fast, client.db.usual
    documents = [{"_id": number, "a": number, "n": 1, "list": [1, 2], "b": {"b": {"c": 1}}} for number in range(50)]
    for collection in (fast, usual):
        collection.create_index("indexed")
        collection.insert_many(documents)
    refused = 0
    for step in range(1_500):
        query, update = {"_id": rng.randrange(52)}, random_update(rng)
        switch(client, True)
        try:
            fast.update_one(query, update)
        except WriteError:
            refused += 1  # it was this document's turn to be read, or the update is wrong whatever there is
        switch(client, False)
        try:
            usual.update_one(query, update)
        except WriteError:
            pass
        if step % 100 == 0:
            assert list(fast.find()) == list(usual.find()), step
    assert performed(client) > 500
    expected = list(usual.find())
    assert list(fast.find()) == expected
    # The messages are in the log, and in the tree, as they were sent.
    server.kill()
    server.start()
    assert list(fast.find()) == expected
    assert list(fast.find({"_id": {"$gt": 10}}).sort("_id", -1)) == [each for each in reversed(expected) if each["_id"] > 10]


def test_what_does_not_qualify_is_read(client):
    plain = client.db.plain
    plain.create_index("k")
    plain.create_index([("deep.x", 1)])
    plain.insert_one({"_id": 1, "k": 1, "n": 1, "s": "x"})
    assert unread(client, lambda: plain.update_one({"_id": 1}, {"$inc": {"n": 1}})) == 1
    assert unread(client, lambda: plain.update_one({"_id": 1}, {"$set": {"s": "y"}, "$unset": {"t": 1}})) == 1
    read = [
        lambda: plain.update_one({"_id": 1}, {"$inc": {"k": 1}}),
        lambda: plain.update_one({"_id": 1}, {"$set": {"deep": {"x": 1}}}),
        lambda: plain.update_one({"_id": 1, "n": 2}, {"$set": {"s": "z"}}),
        lambda: plain.update_one({"n": 2}, {"$set": {"s": "z"}}),
        lambda: plain.update_one({"_id": {"$in": [1]}}, {"$set": {"s": "z"}}),
        lambda: plain.update_many({"_id": 1}, {"$set": {"s": "z"}}),
        lambda: plain.update_one({"_id": 2}, {"$set": {"s": "z"}}, upsert=True),
        lambda: plain.update_one({"_id": 1}, {"$currentDate": {"at": True}}),
        lambda: plain.update_one({"_id": 1}, {"$rename": {"s": "r"}}),
        lambda: plain.update_one({"_id": 1}, [{"$set": {"s": "z"}}]),
        lambda: plain.replace_one({"_id": 1}, {"k": 1, "n": 1}),
        lambda: plain.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}),
        lambda: plain.update_one({"_id": 1}, {"$set": {"list.$[one]": 2}}, array_filters=[{"one": 1}]) if plain.update_one({"_id": 1, "n": 2}, {"$set": {"list": [1]}}) else None,
    ]
    assert [unread(client, work) for work in read] == [0] * len(read)
    with pytest.raises(WriteError) as error:
        plain.update_one({"_id": 1}, {"$set": {"_id": 5}})
    assert error.value.code == 66
    with pytest.raises(WriteError) as error:
        plain.update_one({"_id": 1}, {"$inc": {"n": "text"}})
    assert error.value.code == 14
    for options in ({"validator": {"n": {"$gt": 0}}}, {"collation": {"locale": "en"}}, {"capped": True, "size": 65536}, {"storageEngine": {"lmdb": {}}}):
        client.db.drop_collection("other")
        other = client.db.create_collection("other", **options)
        other.insert_one({"_id": 1, "n": 1})
        assert unread(client, lambda: other.update_one({"_id": 1}, {"$inc": {"n": 1}})) == 0, options
    for index, options in (("$**", {}), ([("n", 1)], {"partialFilterExpression": {"n": {"$gt": 5}}}), ([("other", 1)], {"clustering": True})):
        client.db.drop_collection("indexed")
        client.db.indexed.create_index(index, **options)
        client.db.indexed.insert_one({"_id": 1, "n": 1})
        assert unread(client, lambda: client.db.indexed.update_one({"_id": 1}, {"$inc": {"n": 9}})) == 0, index


def test_a_missing_document_counts_and_a_wrong_one_stays(client):
    c = client.db.c
    c.insert_one({"_id": 1, "text": "x"})
    result = c.update_one({"_id": 5}, {"$set": {"a": 1}})
    assert (result.matched_count, result.modified_count) == (1, 1)
    result = c.update_one({"_id": 1}, {"$inc": {"text": 1}})
    assert (result.matched_count, result.modified_count) == (1, 1)
    assert list(c.find()) == [{"_id": 1, "text": "x"}]
    assert client.admin.command("serverStatus")["metrics"]["fastUpdates"]["errors"] > 0
    # One after another in one command, where the second reads what the first has left.
    c.bulk_write([pymongo.UpdateOne({"_id": 1}, {"$set": {"n": 1}}), pymongo.UpdateOne({"_id": 1}, {"$inc": {"n": 1}}), pymongo.UpdateOne({"_id": 1, "n": 2}, {"$set": {"seen": True}})])
    assert c.find_one() == {"_id": 1, "text": "x", "n": 2, "seen": True}


def test_the_size_is_right_after_validate(client):
    c = client.db.c
    c.insert_many([{"_id": number, "s": "x"} for number in range(100)])
    for number in range(100):
        c.update_one({"_id": number}, {"$set": {"s": "y" * number}})
    exact = sum(len(bson.encode(document)) for document in c.find())
    assert client.db.command("collStats", "c")["size"] != exact
    for _ in range(2):
        reply = client.db.command("validate", "c", full=True)
        assert reply["valid"] and not reply["errors"], reply
        assert client.db.command("collStats", "c")["size"] == exact
    # From now on it is counted again, so that a difference would be an error.
    switch(client, False)
    c.update_one({"_id": 1}, {"$set": {"s": "z" * 500}})
    assert client.db.command("collStats", "c")["size"] == exact + 499
    assert client.db.command("validate", "c")["valid"]


def test_one_document_has_few_messages(client):
    c = client.db.c
    c.insert_one({"_id": 1, "n": 0})
    for _ in range(170):
        c.update_one({"_id": 1}, {"$inc": {"n": 1}})
    assert c.find_one() == {"_id": 1, "n": 170}
    # every seventeenth read it
    assert performed(client) == 160


def test_the_history_of_a_set_shows_fields_that_were_set(tmp_path):
    own = ReplicaSet(tmp_path / "set", ["--setParameter", "fastUpdates=true"])
    own.start()
    try:
        with pymongo.MongoClient(own.uri) as client:
            c = client.db.c
            c.insert_one({"_id": 1, "a": 1, "gone": 1, "n": 1})
            with c.watch(full_document="updateLookup") as stream:
                assert unread(client, lambda: c.update_one({"_id": 1}, {"$set": {"new": 2, "a": 3}, "$unset": {"gone": ""}})) == 1
                event = stream.next()
                assert event["operationType"] == "update" and event["documentKey"] == {"_id": 1}
                assert event["updateDescription"] == {"updatedFields": {"a": 3, "new": 2}, "removedFields": ["gone"], "truncatedArrays": []}
                assert event["fullDocument"] == {"_id": 1, "a": 3, "n": 1, "new": 2}
                # Where only the document has the value, it is read for the event.
                assert unread(client, lambda: c.update_one({"_id": 1}, {"$inc": {"n": 1}})) == 0
                assert stream.next()["updateDescription"]["updatedFields"] == {"n": 2}
                assert unread(client, lambda: c.update_one({"_id": 1}, {"$set": {"d.x": 1}})) == 0
            entry = client.local["oplog.rs"].find_one({"ns": "db.c", "op": "u"})
            assert entry["o"] == {"$v": 2, "diff": {"d": {"gone": False}, "i": {"a": 3, "new": 2}}} and entry["o2"] == {"_id": 1}
            # A repeated statement is found by its number.
            command = {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"again": 1}}}], "txnNumber": bson.Int64(7)}
            with pymongo.MongoClient(own.uri) as other, other.start_session() as session:
                for _ in range(2):
                    reply = other.db.command(command, session=session)
                    assert (reply["n"], reply["nModified"]) == (1, 1)
            assert len(list(client.local["oplog.rs"].find({"ns": "db.c", "op": "u", "o.diff.i.again": 1}))) == 1
            # A state of the past has what it had then.
            with client.start_session(snapshot=True) as session:
                before = c.find_one({"_id": 1}, session=session)
                c.update_one({"_id": 1}, {"$set": {"a": 4}})
                client.db.other.insert_one({})
                assert c.find_one({"_id": 1}, session=session) == before and c.find_one({"_id": 1})["a"] == 4
            # Inside a transaction documents are read.
            with client.start_session() as session, session.start_transaction():
                assert unread(client, lambda: c.update_one({"_id": 1}, {"$set": {"a": 5}}, session=session)) == 0
            client.db.command("collMod", "c", changeStreamPreAndPostImages={"enabled": True})
            assert unread(client, lambda: c.update_one({"_id": 1}, {"$set": {"a": 6}})) == 0
    finally:
        own.stop()


def test_members_on_other_engines_make_the_same_of_it(tmp_path):
    with Members(tmp_path, count=2, flags=["--setParameter", "fastUpdates=true"]) as members:
        with direct(members.members[0]) as first:
            first.admin.command("replSetInitiate", members.config())
        hidden = members.add_process()
        hidden.flags += ["--storageEngine", "lmdb"]
        hidden.start()
        with pymongo.MongoClient(members.uri, serverSelectionTimeoutMS=20_000) as client:
            in_sync(client, 2)
            c = client.db.get_collection("c", write_concern=MAJORITY)
            c.insert_many([{"_id": number, "n": number} for number in range(200)])
            add(client, members, 2, hidden=True, priority=0)

            def change():
                for number in range(0, 240):
                    c.update_one({"_id": number}, {"$set": {"s": "x" * number, "n": str(number)}, "$unset": {"t": ""}})

            def hashes():
                found = set()
                for member in members.members:
                    with direct(member) as own:
                        found.add(own.db.command("dbHash")["md5"])
                return found

            assert unread(client, change) > 200
            until(lambda: len(hashes()) == 1, LIMIT_S, "equal data")
            hidden.stop()
            change()
            hidden.start()
            until(lambda: len(hashes()) == 1, LIMIT_S, "equal data")


def test_indexes_and_engines_change_meanwhile(client):
    c = client.db.c
    c.insert_many([{"_id": number, "x": number, "text": "x" * 200} for number in range(3_000)])
    stop, expected = threading.Event(), {}

    def update():
        rng = random.Random(3)
        while not stop.is_set():
            number, x = rng.randrange(3_000), rng.randrange(100)
            c.update_one({"_id": number}, {"$set": {"x": x}})
            expected[number] = x

    thread = threading.Thread(target=update)
    thread.start()
    try:
        for _ in range(3):
            c.create_index("x")
            assert unread(client, lambda: c.update_one({"_id": 5_000}, {"$set": {"x": 1}})) == 0
            c.drop_index("x_1")
            client.db.command("collMod", "c", storageEngine={"lmdb": {}})
            client.db.command("collMod", "c", storageEngine={"ftree": {}})
            client.db.command("compact", "c")
    finally:
        stop.set()
        thread.join()
    c.create_index("x")
    reply = client.db.command("validate", "c", full=True)
    assert reply["valid"], reply
    found = {document["_id"]: document["x"] for document in c.find(hint="x_1")}
    assert len(found) == 3_000 and expected.items() <= found.items() and len(expected) > 50
