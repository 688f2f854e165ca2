"""Updates that give documents another shard key: they move to its shard, whole, or not at all."""

import contextlib
import random
import threading
import time

import bson
import pymongo
import pytest
from pymongo import ReturnDocument

from arbor_cluster import Cluster, Router
from sessions import Wire, new_lsid
from test_chunk_moves import directly, until
from test_router import code_of


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        yield Cluster(tmp_path_factory.mktemp("keys"), stack)


@pytest.fixture(scope="module")
def routed(cluster):
    with cluster.routers[0].client() as client:
        client.admin.command("enableSharding", "keys", primaryShard="s0")
        client.admin.command("shardCollection", "keys.c", key={"k": 1})
        client.admin.command("split", "keys.c", middle={"k": 50})
        client.admin.command("moveChunk", "keys.c", find={"k": 50}, to="s1")
        yield client


@pytest.fixture
def collection(routed):
    routed.keys.c.delete_many({})
    routed.keys.c.insert_many([{"_id": n, "k": n * 10, "list": [1, 2]} for n in range(10)])
    return routed.keys.c


def shard_of(cluster, id_):
    return [name for name in ("s0", "s1") if any(doc["_id"] == id_ for doc in directly(cluster, name, "keys", "c"))]


def test_a_document_moves_with_its_key(cluster, collection):
    assert shard_of(cluster, 1) == ["s0"]
    result = collection.update_one({"k": 10}, {"$set": {"k": 70, "x": 1}})
    assert (result.matched_count, result.modified_count) == (1, 1)
    assert collection.find_one({"_id": 1}) == {"_id": 1, "k": 70, "list": [1, 2], "x": 1} and shard_of(cluster, 1) == ["s1"]
    # on its shard, and where nothing changes
    assert collection.update_one({"_id": 1}, {"$inc": {"k": 5}}).modified_count == 1
    assert shard_of(cluster, 1) == ["s1"] and collection.count_documents({"k": 75}) == 1
    assert collection.update_one({"_id": 1}, {"$set": {"k": 75}}).modified_count == 0
    assert collection.update_one({"_id": 77}, {"$set": {"k": 75}}).matched_count == 0
    assert collection.replace_one({"_id": 1}, {"k": 3, "y": 2}).modified_count == 1
    assert collection.find_one({"k": 3}) == {"_id": 1, "k": 3, "y": 2} and shard_of(cluster, 1) == ["s0"]
    assert collection.update_one({"_id": 1}, [{"$set": {"k": {"$add": ["$k", 90]}}}]).modified_count == 1
    assert shard_of(cluster, 1) == ["s1"] and collection.count_documents({}) == 10
    assert collection.update_one({"k": 20, "list": 2}, {"$set": {"list.$": 9, "k": 99}}).modified_count == 1
    assert collection.find_one({"_id": 2})["list"] == [1, 9] and shard_of(cluster, 2) == ["s1"]
    assert collection.update_one({"k": 99}, {"$unset": {"k": 1}}).modified_count == 1
    assert shard_of(cluster, 2) == ["s0"], "a missing key is null"


def test_find_and_modify(cluster, collection):
    before = collection.find_one_and_update({"k": 10}, {"$set": {"k": 60}})
    assert before["k"] == 10 and shard_of(cluster, 1) == ["s1"]
    after = collection.find_one_and_replace({"k": 60}, {"k": 5}, return_document=ReturnDocument.AFTER)
    assert after == {"_id": 1, "k": 5} and shard_of(cluster, 1) == ["s0"]
    assert collection.find_one_and_update({"k": 1234}, {"$set": {"k": 1}}) is None


def test_in_a_transaction(cluster, routed, collection):
    with routed.start_session() as session:
        with pytest.raises(ZeroDivisionError), session.start_transaction():
            collection.update_one({"k": 10}, {"$set": {"k": 70}}, session=session)
            assert collection.find_one({"k": 70, "_id": 1}, session=session) and shard_of(cluster, 1) == ["s0"]
            1 / 0
        assert collection.find_one({"_id": 1})["k"] == 10
        with session.start_transaction():
            collection.update_one({"k": 10}, {"$set": {"k": 70}}, session=session)
            collection.update_one({"_id": 1}, {"$inc": {"k": 1}}, session=session)
            collection.update_one({"k": 90}, {"$set": {"k": 0}}, session=session)
    assert (collection.find_one({"_id": 1})["k"], shard_of(cluster, 1)) == (71, ["s1"])
    assert (collection.find_one({"_id": 9})["k"], shard_of(cluster, 9)) == (0, ["s0"])


def test_upserts_without_the_shard_key(cluster, routed, collection):
    result = collection.update_one({"name": "a"}, {"$set": {"k": 80}}, upsert=True)
    assert (result.matched_count, result.modified_count) == (0, 0) and shard_of(cluster, result.upserted_id) == ["s1"]
    assert collection.find_one({"name": "a"}) == {"_id": result.upserted_id, "name": "a", "k": 80}
    again = collection.update_one({"name": "a"}, {"$inc": {"n": 1}}, upsert=True)
    assert (again.matched_count, again.modified_count, again.upserted_id) == (1, 1, None)
    # a missing key is null
    missing = collection.replace_one({"name": "b"}, {"name": "b"}, upsert=True).upserted_id
    assert shard_of(cluster, missing) == ["s0"]
    made = collection.find_one_and_update({"_id": "c"}, {"$set": {"k": 60}}, upsert=True, return_document=ReturnDocument.AFTER)
    assert made == {"_id": "c", "k": 60} and shard_of(cluster, "c") == ["s1"]
    assert collection.find_one_and_update({"name": "d"}, {"$set": {"k": 61}}, upsert=True) is None
    assert collection.find_one({"name": "d"})["k"] == 61
    # the filter says the key, the update another one
    moved = collection.update_one({"k": 1}, {"$set": {"k": 90}}, upsert=True).upserted_id
    assert collection.find_one({"_id": moved}) == {"_id": moved, "k": 90} and shard_of(cluster, moved) == ["s1"]
    with routed.start_session() as session, session.start_transaction():
        inside = collection.update_one({"name": "e"}, {"$set": {"k": 70}}, upsert=True, session=session).upserted_id
        assert shard_of(cluster, inside) == []
    assert shard_of(cluster, inside) == ["s1"]
    writes = collection.bulk_write([pymongo.UpdateOne({"name": "f"}, {"$set": {"k": n}}, upsert=True) for n in (5, 95)])
    assert (writes.upserted_count, writes.matched_count) == (1, 1) and collection.find_one({"name": "f"})["k"] == 95


def test_refused(cluster, collection):
    with cluster.routers[0].client(retryWrites=False) as plain:
        assert code_of(lambda: plain.keys.c.update_one({"k": 10}, {"$set": {"k": 70}})) == 20
        assert plain.keys.c.update_one({"_id": 1}, {"$set": {"k": 10}}).matched_count == 1
    assert code_of(lambda: collection.update_many({"k": 10}, {"$set": {"k": 70}}, upsert=True)) == 66
    assert code_of(lambda: collection.update_one({"k": 10}, {"$set": {"_id": 70, "k": 70}})) == 66
    assert code_of(lambda: collection.update_one({"k": 10}, {"$set": {"k": [1]}})) in (61, 66)
    assert shard_of(cluster, 1) == ["s0"] and collection.find_one({"_id": 1})["k"] == 10


def test_updates_of_many_keep_the_key(collection):
    """Those that would change it are refused by the shards, as in MongoDB; others are not."""
    refused = lambda query, update: code_of(lambda: collection.update_many(query, update)) == 72
    assert refused({}, {"$inc": {"k": 1}}) and refused({"k": 10}, {"$set": {"k": 70}})
    assert refused({"k": {"$gt": 40}}, [{"$set": {"k": {"$add": ["$k", 1]}}}]) and refused({"_id": 3}, {"$unset": {"k": 1}})
    assert refused({"_id": 3}, {"$rename": {"k": "l"}})
    assert [doc["k"] for doc in collection.find().sort("_id", 1)] == [n * 10 for n in range(10)]
    # the values stay
    assert collection.update_many({"k": {"$in": [10, 80]}}, [{"$set": {"k": {"$add": ["$k", 0]}, "x": 1}}]).modified_count == 2
    assert collection.update_many({"_id": 3}, {"$set": {"k": 30, "x": 1}}).modified_count == 1
    assert collection.update_many({"_id": 3}, {"$max": {"k": 0}, "$inc": {"x": 1}}).modified_count == 1
    assert collection.update_many({"x": "none"}, {"$set": {"k": 1}}).matched_count == 0
    assert collection.find_one({"k": 30})["x"] == 2


def test_find_and_modify_shows_what_is_projected(cluster, collection):
    change = lambda query, update, shown, **options: collection.find_one_and_update(query, update, shown, **options)
    after = {"return_document": ReturnDocument.AFTER}
    assert change({"k": 10}, {"$set": {"k": 70}}, {"_id": 0, "k": 1}) == {"k": 10} and shard_of(cluster, 1) == ["s1"]
    assert change({"_id": 1}, {"$inc": {"k": 1}}, {"list": 0}, **after) == {"_id": 1, "k": 71}
    assert change({"_id": 1}, {"$set": {"k": 1}}, {"list": {"$slice": 1}}, **after) == {"_id": 1, "k": 1, "list": [1]}
    assert change({"list": 2, "_id": 2}, {"$set": {"k": 99, "x": 1}}, {"list.$": 1}) == {"_id": 2, "list": [2]}
    assert change({"_id": 2}, {"$set": {"k": 98}}, {"sum": {"$add": ["$k", 2]}}, **after) == {"_id": 2, "sum": 100}
    assert change({"_id": "new"}, {"$set": {"k": 97, "y": 2}}, {"y": 1, "_id": 0}, upsert=True, **after) == {"y": 2}
    assert change({"_id": "newer"}, {"$set": {"k": 97}}, {"k": 1}, upsert=True) is None
    assert change({"_id": "none"}, {"$set": {"k": 97}}, {"k": 1}) is None
    assert collection.find_one({"_id": "new"}) == {"_id": "new", "k": 97, "y": 2}


def test_an_error_is_one_of_the_statement(cluster, collection):
    """The other shard has a document of the same `_id`: nothing is changed, and the statements behind it run."""
    collection.insert_one({"_id": 1, "k": 80})
    with pytest.raises(pymongo.errors.DuplicateKeyError) as caught:
        collection.update_one({"k": 10}, {"$set": {"k": 70}})
    assert caught.value.details["index"] == 0
    assert sorted(doc["k"] for doc in collection.find({"_id": 1})) == [10, 80]
    with pytest.raises(pymongo.errors.BulkWriteError) as caught:
        collection.bulk_write([pymongo.UpdateOne({"k": 10}, {"$set": {"k": 70}}), pymongo.UpdateOne({"k": 20}, {"$set": {"k": 90}})], ordered=False)
    assert [error["index"] for error in caught.value.details["writeErrors"]] == [0] and caught.value.details["nModified"] == 1


def test_many_at_once(cluster, routed, collection):
    """Each change once: the sum of the counters is the number of acknowledged updates."""
    done = [0] * 4

    def run(at):
        with cluster.routers[at % 2].client() as client:
            for n in range(40):
                with contextlib.suppress(pymongo.errors.OperationFailure):
                    result = client.keys.c.update_one(
                        {"_id": n % 5}, [{"$set": {"k": {"$mod": [{"$add": ["$k", 37]}, 100]}, "n": {"$add": [{"$ifNull": ["$n", 0]}, 1]}}}])
                    done[at] += result.modified_count

    threads = [threading.Thread(target=run, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    documents = list(collection.find())
    assert len(documents) == 10 and sum(done) > 80
    assert sum(doc.get("n", 0) for doc in documents) == sum(done)
    for doc in documents:
        assert shard_of(cluster, doc["_id"]) == ["s0" if doc["k"] < 50 else "s1"]


def sent(client, command, number, lsid, db="keys"):
    """The reply to a statement that a test numbers itself."""
    client.admin.command("ping")
    wire = Wire(client.address)
    try:
        return wire.send({**command, "lsid": lsid, "txnNumber": bson.Int64(number), "$db": db})
    finally:
        wire.socket.close()


def parts(reply):
    """The reply without times, and whether it is of an earlier request."""
    retried = "retriedStmtIds" in reply or "retriedStmtId" in reply
    return {name: reply[name] for name in ("n", "nModified", "upserted", "lastErrorObject", "value", "writeErrors") if name in reply}, retried


def test_a_statement_that_is_sent_again_gets_its_first_answer(cluster, routed, collection):
    lsid, number = new_lsid(), 0
    update = {"q": {"_id": 1}, "u": {"$inc": {"k": 60, "n": 1}}}
    upsert = {"q": {"name": "new"}, "u": {"$set": {"k": 77}, "$inc": {"n": 1}}, "upsert": True}
    found = {"findAndModify": "c", "query": {"_id": 2}, "update": {"$inc": {"k": 60, "n": 1}}}
    with cluster.routers[1].client() as other:
        for command in (
                {"update": "c", "updates": [update]}, {"update": "c", "updates": [upsert]}, found,
                {**found, "query": {"_id": 3}, "new": True},
                {"findAndModify": "c", "query": {"name": "more"}, "update": {"$set": {"k": 5}}, "upsert": True, "new": True},
                {"update": "c", "updates": [{**update, "q": {"_id": 4}}, {**update, "q": {"_id": 4}, "u": {"$inc": {"k": -60}}}]},
                {"bulkWrite": 1, "ops": [{"update": 0, "filter": {"_id": 0}, "updateMods": {"$inc": {"k": 60, "n": 1}}}],
                 "nsInfo": [{"ns": "keys.c"}]}):
            number += 1
            at = "admin" if "bulkWrite" in command else "keys"
            first, is_retried = parts(sent(routed, command, number, lsid, at))
            assert not is_retried, first
            content = list(collection.find().sort("_id", 1))
            for client in (routed, other):
                again, is_retried = parts(sent(client, command, number, lsid, at))
                assert again == first and (is_retried or at == "admin"), (command, again)
                assert list(collection.find().sort("_id", 1)) == content, command
        assert collection.find_one({"_id": 0}) == {"_id": 0, "k": 60, "n": 1, "list": [1, 2]}
        # also when the document and its new range have gone elsewhere since
        number += 1
        command = {"update": "c", "updates": [{**update, "q": {"_id": 5}, "u": {"$inc": {"k": -20, "n": 1}}}]}
        assert sent(routed, command, number, lsid)["nModified"] == 1
        routed.admin.command("moveChunk", "keys.c", find={"k": 0}, to="s1")
        assert parts(sent(other, command, number, lsid)) == ({"n": 1, "nModified": 1}, True)
        assert collection.find_one({"_id": 5})["n"] == 1
        routed.admin.command("moveChunk", "keys.c", find={"k": 0}, to="s0")
        # its documents are not in the way of later ones any more
        with cluster.shards[1].client() as direct:
            until(lambda: direct.config.rangeDeletions.count_documents({}) == 0)
        assert sent(other, command, number - 1, lsid)["writeErrors"][0]["code"] == 225
        assert sent(other, found, number, lsid)["code"] == 40606


def test_of_two_equal_statements_at_once_one_counts(cluster, routed, collection):
    lsid = new_lsid()
    with cluster.routers[1].client() as other:
        for number in range(1, 16):
            command = {"update": "c", "updates": [{"q": {"_id": 1}, "u": [{"$set": {"k": {"$subtract": [100, "$k"]}, "n": number}}]}]}
            before = collection.find_one({"_id": 1})["k"]
            answers = []
            threads = [threading.Thread(target=lambda client=client: answers.append(sent(client, command, number, lsid)))
                       for client in (routed, other)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert [answer.get("nModified") for answer in answers] == [1, 1], answers
            assert [(doc["k"], doc["n"]) for doc in collection.find({"_id": 1})] == [(100 - before, number)]


def test_a_statement_of_a_router_that_died_is_done_once(cluster, routed, collection, tmp_path):
    rng, lsid, counts = random.Random(3), new_lsid(), [0, 0]
    for number in range(1, 17):
        change = {"q": {"_id": 1}, "u": [{"$set": {"k": {"$subtract": [100, "$k"]}, "n": {"$add": [{"$ifNull": ["$n", 0]}, 1]}}}]}
        if number % 2:
            change = {"q": {"name": f"n{number}"}, "u": {"$set": {"k": number * 6}}, "upsert": True}
        command = {"update": "c", "updates": [change]}
        with Router(tmp_path, cluster.config) as router:
            address = ("127.0.0.1", router.port)
            assert Wire(address).send({"find": "c", "filter": {"k": 0}, "$db": "keys"})["ok"] == 1

            def run(address=address, command=command, number=number):
                with contextlib.suppress(OSError):
                    Wire(address).send({**command, "lsid": lsid, "txnNumber": bson.Int64(number), "$db": "keys"})

            thread = threading.Thread(target=run)
            thread.start()
            time.sleep(10 ** rng.uniform(-4, -1.5))
            router.kill()
            thread.join()
        reply = sent(routed, command, number, lsid)
        assert reply["n"] == 1, reply
        counts["retriedStmtIds" in reply] += 1
        if number % 2:
            assert collection.count_documents({"name": f"n{number}"}) == 1
        else:
            assert [doc["n"] for doc in collection.find({"_id": 1})] == [number // 2]
    assert min(counts) > 0, counts
