"""Partitioned collections, as TokuMX had them: cut by ranges of _id, a dropped range is a dropped tree. On each engine."""

import datetime
import pathlib

import bson
import pymongo
import pytest
from bson import MaxKey
from pymongo.errors import OperationFailure, PyMongoError

from arbor_process import Arbor, Members, ReplicaSet
from test_backup import succeeds
from test_members import MAJORITY, direct, in_sync, until

ILLEGAL = 20
PART = 500


def installed(library):
    return library is None or list(pathlib.Path("/usr").glob(f"lib/**/lib{library}.so*"))


LIBRARIES = {"ftree": None, "lmdb": None, "rocksdb": "rocksdb", "wiredTiger": "wiredtiger"}


@pytest.fixture(params=list(LIBRARIES))
def arbor(request, tmp_path):
    if not installed(LIBRARIES[request.param]):
        pytest.skip(f"no library of {request.param} here")
    with ReplicaSet(tmp_path / "data", ["--storageEngine", request.param]) as arbor:
        yield arbor


def refused(code, run, text=""):
    with pytest.raises(OperationFailure) as caught:
        run()
    assert caught.value.code == code, caught.value
    assert text in str(caught.value)


def fill(db, parts=4, begin=0):
    """Partitions 0 .. parts of PART documents each; the last one is empty."""
    if begin == 0:
        db.create_collection("log", partitioned=True)
    for part in range(begin, begin + parts):
        first = part * PART
        db.log.insert_many([{"_id": n, "n": n % 7, "text": "x" * 200} for n in range(first, first + PART)])
        db.command("addPartition", "log", info={"month": part})


def ids(cursor):
    return [doc["_id"] for doc in cursor]


def partitions(db):
    reply = db.command("getPartitionInfo", "log")
    assert reply["numPartitions"] == len(reply["partitions"])
    return [(own["_id"], own["max"]["_id"]) for own in reply["partitions"]]


def check(db, expected):
    """The documents are these, by every way of reading them."""
    assert ids(db.log.find()) == expected
    assert ids(db.log.find().sort("_id", -1)) == expected[::-1]
    assert ids(db.log.find(batch_size=13).sort("n", 1).sort("_id", 1)) == expected
    assert db.log.estimated_document_count() == db.log.count_documents({}) == len(expected)
    report = db.validate_collection("log", full=True)
    assert report["valid"] and report["nrecords"] == len(expected), report
    stats = db.command("collStats", "log")
    assert stats["count"] == len(expected) and stats["partitioned"]
    assert sum(own["count"] for own in stats["partitions"]) == len(expected)
    assert sum(own["size"] for own in stats["partitions"]) == stats["size"]
    assert [own["_id"] for own in stats["partitions"]] == [id for id, _ in partitions(db)]


def test_ranges_are_read_as_one_collection_and_dropped_as_trees(arbor):
    with pymongo.MongoClient(arbor.uri) as client:
        db = client.db
        fill(db)
        info = db.command("getPartitionInfo", "log")["partitions"]
        assert partitions(db) == [(n, (n + 1) * PART - 1) for n in range(4)] + [(4, MaxKey())]
        assert isinstance(info[1]["createTime"], datetime.datetime) and info[1]["info"] == {"month": 0} and "info" not in info[0]
        assert db.log.options() == {"partitioned": True}
        everything = list(range(4 * PART))
        check(db, everything)
        across = {"_id": {"$gte": PART - 3, "$lt": PART + 3}}
        assert ids(db.log.find(across)) == list(range(PART - 3, PART + 3))
        assert ids(db.log.find(across).sort("_id", -1)) == list(range(PART + 2, PART - 4, -1))
        assert db.log.find_one({"_id": 3 * PART}) and db.log.find_one({"_id": -1}) is None
        # writes everywhere
        assert db.log.update_many({"n": 3}, {"$set": {"text": "y" * 300}}).modified_count == sum(n % 7 == 3 for n in everything)
        assert db.log.delete_many({"_id": {"$in": [0, PART, 2 * PART]}}).deleted_count == 3
        refused(11000, lambda: db.log.insert_one({"_id": 1}))
        db.log.insert_many([{"_id": 0}, {"_id": PART}, {"_id": 2 * PART}])
        check(db, everything)
        # a cursor that began before the drop shows its state or ends with an error, and never a part of it as the whole
        cursor = db.log.find(batch_size=10)
        first = [next(cursor)["_id"] for _ in range(5)]
        db.command("dropPartition", "log", id=1)
        left = [n for n in everything if n // PART != 1]
        check(db, left)
        try:
            assert first + ids(cursor) == everything
        except PyMongoError as error:
            assert error.code in (43, 175, 239, 246, 286), error
        db.command("dropPartition", "log", max={"_id": 3 * PART - 1})
        assert partitions(db) == [(3, 4 * PART - 1), (4, MaxKey())]
        check(db, list(range(3 * PART, 4 * PART)))
        # the range of what was dropped is that of the next partition
        db.log.insert_one({"_id": 5})
        db.command("dropPartition", "log", id=4)
        db.log.insert_one({"_id": 10 * PART})
        assert partitions(db) == [(3, MaxKey())]
        check(db, [5, *range(3 * PART, 4 * PART), 10 * PART])


def by_index(db, hint, filter, sort, **options):
    """The _ids by an index, which has to be what is read."""
    plan = db.command("explain", {"find": "log", "filter": filter, "sort": dict(sort), "hint": hint, **options}, verbosity="queryPlanner")
    assert hint in str(plan["queryPlanner"]["winningPlan"]), plan
    return [doc["_id"] for doc in db.log.find(filter, sort=sort, hint=hint, batch_size=17)]


def test_indexes_made_before_and_after_partitions_lose_what_is_dropped(arbor):
    with pymongo.MongoClient(arbor.uri) as client:
        db = client.db
        db.create_collection("log", partitioned=True)
        # before the first document, among partitions, and one built while the collection is large
        db.log.create_index([("n", 1), ("_id", -1)], name="early")
        fill_more = lambda part: db.log.insert_many(
            [{"_id": n, "n": n % 7, "tags": [n % 3, n % 5], "text": f"word{n % 11} " * 60, "at": [n % 90, n % 45]} for n in range(part * PART, (part + 1) * PART)])
        for part in range(6):
            fill_more(part)
            db.command("addPartition", "log")
            if part == 2:
                db.log.create_index("tags")
        db.log.create_index([("text", "text")], name="words")
        db.log.create_index([("at", "2dsphere")])
        db.log.create_index([("n", "hashed")])
        db.log.create_index("$**", name="wild", wildcardProjection={"n": 1})
        everything = list(range(6 * PART))

        def check_indexes(expected):
            check_log(expected)
            for n in (0, 6):
                own = [id for id in expected if id % 7 == n]
                assert by_index(db, "early", {"n": n}, [("n", 1), ("_id", -1)]) == own[::-1]
                assert by_index(db, "early", {"n": n}, [("n", -1), ("_id", 1)]) == own
                assert sorted(by_index(db, "n_hashed", {"n": n}, [("_id", 1)])) == own
                assert by_index(db, "wild", {"n": n}, [("_id", 1)]) == own
            assert by_index(db, "tags_1", {"tags": 4}, [("_id", 1)]) == [id for id in expected if id % 5 == 4]
            assert sorted(db.log.distinct("tags")) == [0, 1, 2, 3, 4]
            found = db.log.find({"$text": {"$search": "word7"}}, projection=["_id"])
            assert sorted(ids(found)) == [id for id in expected if id % 11 == 7]
            near = db.log.find({"at": {"$nearSphere": {"$geometry": {"type": "Point", "coordinates": [3, 3]}, "$maxDistance": 10}}})
            assert sorted(ids(near)) == [id for id in expected if id % 90 == 3 and id % 45 == 3]

        def check_log(expected):
            report = db.validate_collection("log", full=True)
            assert report["valid"] and report["nrecords"] == len(expected), report
            assert report["keysPerIndex"]["early"] == len(expected)

        check_indexes(everything)
        before = db.command("collStats", "log")["indexSizes"]
        cursor = db.log.find({"n": 3}, hint="early", batch_size=10)
        first = [next(cursor)["_id"] for _ in range(5)]
        db.command("dropPartition", "log", id=1)
        db.command("dropPartition", "log", max={"_id": PART - 1})
        left = everything[2 * PART:]
        check_indexes(left)
        try:
            assert first + ids(cursor) == [id for id in reversed(everything) if id % 7 == 3]
        except PyMongoError as error:
            assert error.code in (43, 175, 239, 246, 286), error
        # writes find their entries in each partition
        assert db.log.update_many({"n": 6}, {"$set": {"n": 0}}).modified_count == sum(id % 7 == 6 for id in left)
        assert db.log.update_many({"_id": {"$in": [id for id in left if id % 7 == 6]}}, {"$set": {"n": 6}}).modified_count > 0
        assert db.log.delete_many({"tags": 4, "_id": {"$lt": 3 * PART}}).deleted_count == PART // 5
        left = [id for id in left if id >= 3 * PART or id % 5 != 4]
        check_indexes(left)
        assert set(before) == set(db.command("collStats", "log")["indexSizes"])
        digest = db.command("dbHash")["md5"]
    arbor.kill()
    arbor.start()
    with pymongo.MongoClient(arbor.uri) as client:
        db = client.db
        check_indexes(left)
        assert db.command("dbHash")["md5"] == digest
        db.log.drop_indexes()
        assert set(db.log.index_information()) == {"_id_"}
        check(db, left)
        # a collection that has indexes gets partitions
        db.plain.insert_many([{"_id": n, "n": n % 7} for n in range(PART)])
        db.plain.create_index("n")
        unique = db.plain.create_index([("_id", -1), ("n", 1)], unique=True)
        refused(ILLEGAL, lambda: db.command("convertToPartitioned", "plain"), "unique index")
        db.plain.drop_index(unique)
        db.command("convertToPartitioned", "plain")
        db.command("addPartition", "plain", newMax={"_id": 2 * PART})
        db.plain.insert_one({"_id": 3 * PART, "n": 3})
        assert len(ids(db.plain.find({"n": 3}, hint="n_1"))) == sum(n % 7 == 3 for n in range(PART)) + 1
        db.command("dropPartition", "plain", id=0)
        assert ids(db.plain.find({"n": {"$gte": 0}}, hint="n_1")) == [3 * PART]
        assert db.validate_collection("plain", full=True)["valid"]


def test_space_comes_back_and_a_kill_changes_nothing(arbor):
    with pymongo.MongoClient(arbor.uri) as client:
        db = client.db
        fill(db)
        client.admin.command("fsync")
        full = db.command("collStats", "log")["storageSize"]
        db.command("dropPartition", "log", max={"_id": 3 * PART - 1})
        client.admin.command("fsync")
        assert db.command("collStats", "log")["storageSize"] < full
        fill(db, parts=1, begin=10)
        expected = [*range(3 * PART, 4 * PART), *range(10 * PART, 11 * PART)]
        before = db.command("getPartitionInfo", "log")["partitions"]
        digest = db.command("dbHash")["md5"]
    arbor.kill()
    arbor.start()
    with pymongo.MongoClient(arbor.uri) as client:
        check(client.db, expected)
        assert client.db.command("getPartitionInfo", "log")["partitions"] == before
        assert client.db.command("dbHash")["md5"] == digest
        client.db.log.drop()
        assert client.db.list_collection_names() == []


def test_transactions_streams_and_past_states(arbor):
    with pymongo.MongoClient(arbor.uri) as client:
        db = client.db
        fill(db, parts=2)
        begin = db.command("insert", "mark", documents=[{}])["operationTime"]
        with client.start_session() as session:
            session.start_transaction()
            db.log.insert_many([{"_id": -1}, {"_id": 100 * PART}], session=session)
            assert db.log.count_documents({}, session=session) == 2 * PART + 2
            session.abort_transaction()
            session.start_transaction()
            db.log.update_one({"_id": 3}, {"$set": {"n": 100}}, session=session)
            db.command("dropPartition", "log", id=0)
            with pytest.raises(PyMongoError) as caught:
                session.commit_transaction()
            assert caught.value.has_error_label("TransientTransactionError"), caught.value
        check(db, list(range(PART, 2 * PART)))
        with db.log.watch() as stream:
            db.log.insert_one({"_id": 50 * PART})
            db.command("addPartition", "log")
            db.command("dropPartition", "log", id=1)
            db.log.insert_one({"_id": 60 * PART})
            seen = [(event["operationType"], event["documentKey"]["_id"]) for event in (next(stream), next(stream))]
        assert seen == [("insert", 50 * PART), ("insert", 60 * PART)], "dropped documents are no events"
        with db.watch(show_expanded_events=True, start_at_operation_time=begin) as stream:
            seen = []
            while len(seen) < 3:
                event = next(stream)
                if event["operationType"] == "modify":
                    seen.append(event["operationDescription"])
        assert seen == [{"dropPartition": {"max": {"_id": PART - 1}}}, {"addPartition": {"newMax": {"_id": 50 * PART}}},
                        {"dropPartition": {"max": {"_id": 2 * PART - 1}}}]
        commands = [entry["o"] for entry in client.local["oplog.rs"].find({"op": "c", "o.dropPartition": {"$exists": True}})]
        assert commands == [{"dropPartition": "log", "id": 0}, {"dropPartition": "log", "id": 1}]


def test_what_a_partitioned_collection_cannot_have(client, db):
    fill(db, parts=1)
    db.create_collection("plain")
    db.create_collection("capped", capped=True, size=4096)
    db.create_collection("view", viewOn="plain", pipeline=[])
    refused(ILLEGAL, lambda: db.log.create_index("n", unique=True), "unique indexes")
    db.log.create_index("n")
    refused(ILLEGAL, lambda: db.command("collMod", "log", index={"name": "n_1", "prepareUnique": True}), "unique indexes")
    db.log.drop_index("n_1")
    db.log.create_index("_id")
    refused(ILLEGAL, lambda: db.command("convertToCapped", "log", size=4096), "capped")
    refused(ILLEGAL, lambda: db.command("collMod", "log", storageEngine={"lmdb": {}}), "another engine")
    refused(ILLEGAL, lambda: db.command("convertToPartitioned", "log"), "already")
    refused(ILLEGAL, lambda: db.command("convertToPartitioned", "capped"), "capped")
    refused(166, lambda: db.command("convertToPartitioned", "view"))
    refused(26, lambda: db.command("addPartition", "nothing"))
    for run in (lambda: db.command("addPartition", "plain"), lambda: db.command("dropPartition", "plain", id=0),
                lambda: db.command("getPartitionInfo", "plain")):
        refused(ILLEGAL, run, "not partitioned")
    refused(72, lambda: db.command("create", "other", partitioned=True, capped=True, size=4096))
    refused(72, lambda: db.command("create", "other", partitioned=True, clusteredIndex={"key": {"_id": 1}, "unique": True}))
    refused(ILLEGAL, lambda: db.command("addPartition", "log"), "empty")
    refused(ILLEGAL, lambda: db.command("addPartition", "log", newMax={"_id": 7}), "partition before")
    refused(2, lambda: db.command("addPartition", "log", newMax={"a": 7}))
    refused(2, lambda: db.command("addPartition", "log", newMax={"_id": [7]}))
    refused(72, lambda: db.command("dropPartition", "log"))
    refused(72, lambda: db.command("dropPartition", "log", id=0, max={"_id": 1}))
    refused(ILLEGAL, lambda: db.command("dropPartition", "log", id=77), "no partition 77")
    refused(ILLEGAL, lambda: db.command("dropPartition", "log", max={"_id": MaxKey()}) and db.command("dropPartition", "log", id=1), "only one")
    check(db, [])
    db.plain.insert_many([{"_id": n} for n in range(10)])
    db.command("convertToPartitioned", "plain")
    db.command("addPartition", "plain", newMax={"_id": 20})
    assert ids(db.plain.find()) == list(range(10))
    # a copy, and a rename, keep what they can
    db.plain.aggregate([{"$out": "copy"}])
    assert ids(db.copy.find()) == list(range(10)) and db.copy.options() == {}
    db.plain.rename("renamed")
    assert db.command("getPartitionInfo", "renamed")["numPartitions"] == 2


def test_members_have_the_same_partitions(tmp_path):
    members = Members(tmp_path, count=3)
    members.members[1].flags += ["--storageEngine", "lmdb"]
    with members:
        with direct(members.members[0]) as first:
            first.admin.command("replSetInitiate", members.config())
        with pymongo.MongoClient(members.uri, serverSelectionTimeoutMS=20_000) as client:
            in_sync(client, 3)
            db = client.db
            fill(db)
            db.log.create_index("n")
            db.command("dropPartition", "log", id=1)
            db.command("dropPartition", "log", id=2, writeConcern={"w": "majority"})
            expected = [n for n in range(4 * PART) if n // PART not in (1, 2)]
            check(db, expected)
            infos = []
            for member in members.members:
                with direct(member) as own:
                    shown = own.get_database("db", read_preference=pymongo.ReadPreference.SECONDARY_PREFERRED)
                    infos.append((shown.command("getPartitionInfo", "log")["partitions"], shown.command("dbHash")["md5"]))
                    assert shown.command("collStats", "log")["count"] == len(expected)
                    assert ids(shown.log.find()) == expected
                    assert sorted(ids(shown.log.find({"n": 3}, hint="n_1"))) == [n for n in expected if n % 7 == 3]
            assert infos[0] == infos[1] == infos[2]
            # the next primary continues
            members.at(client.primary).kill()
            until(lambda: client.db.get_collection("log", write_concern=MAJORITY).insert_one({"_id": 100 * PART}), 60, "a write")
            client.db.command("dropPartition", "log", id=0)
            check(client.db, [*range(3 * PART, 4 * PART), 100 * PART])


def test_backups_have_partitions_and_what_was_dropped_up_to_a_point(tmp_path):
    with ReplicaSet(tmp_path / "data") as arbor, pymongo.MongoClient(arbor.uri) as client:
        fill(client.db)
        client.db.log.create_index("n")
        succeeds("create", "--uri", arbor.uri, "--to", tmp_path / "target")
        client.db.command("dropPartition", "log", id=0)
        fill(client.db, parts=1, begin=4)
        succeeds("create", "--incremental", "--uri", arbor.uri, "--to", tmp_path / "target")
        expected, infos = ids(client.db.log.find()), partitions(client.db)
    succeeds("verify", "--from", tmp_path / "target")
    succeeds("restore", "--from", tmp_path / "target", "--dbpath", tmp_path / "restored")
    with ReplicaSet(tmp_path / "restored") as arbor, pymongo.MongoClient(arbor.direct_uri) as client:
        check(client.db, expected)
        assert partitions(client.db) == infos
        assert sorted(ids(client.db.log.find({"n": 3}, hint="n_1"))) == [n for n in expected if n % 7 == 3]


def test_a_shard_and_a_router_refuse_them(tmp_path):
    with Arbor(tmp_path / "shard", ["--shardsvr", "--replSet", "rs0"]) as shard:
        with pymongo.MongoClient("127.0.0.1", shard.port, directConnection=True) as client:
            client.admin.command("replSetInitiate", {"_id": "rs0", "members": [{"_id": 0, "host": f"127.0.0.1:{shard.port}"}]})
            until(lambda: client.admin.command("hello").get("isWritablePrimary"), 60, "a primary")
            refused(ILLEGAL, lambda: client.db.create_collection("log", partitioned=True), "shard")


def test_updates_that_read_nothing_reach_their_partition(tmp_path):
    with Arbor(tmp_path / "data", ["--setParameter", "fastUpdates=true"]) as arbor, pymongo.MongoClient(arbor.uri) as client:
        db = client.db
        fill(db, parts=3)
        performed = lambda: client.admin.command("serverStatus")["metrics"]["fastUpdates"]["performed"]
        before = performed()
        for n in range(0, 3 * PART, 10):
            assert db.log.update_one({"_id": n}, {"$set": {"text": "y" * 300}}).acknowledged
        assert performed() == before + 3 * PART // 10
        assert db.log.count_documents({"text": "y" * 300}) == 3 * PART // 10
        db.command("dropPartition", "log", id=1)
        assert db.validate_collection("log", full=True)["valid"], "and it corrects the counted size of each partition"
        check(db, [n for n in range(3 * PART) if n // PART != 1])
        documents = list(db.log.find())
        assert db.command("collStats", "log")["size"] == sum(len(bson.encode(doc)) for doc in documents)
