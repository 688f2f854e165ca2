"""Multi-document transactions: what they show, what they lose, and MongoDB's codes."""

import os
import threading
import time

import pymongo
import pytest
from bson.int64 import Int64
from pymongo.errors import BulkWriteError, ConnectionFailure, DuplicateKeyError, OperationFailure
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from arbor_process import Arbor, ReplicaSet
from sessions import Session, code_of, ids

TRANSIENT = "TransientTransactionError"


@pytest.fixture
def c(set_client, request):
    """An empty collection that exists."""
    name = request.node.name.replace("[", "_").replace("]", "")[:50]
    set_client.sessions.drop_collection(name)
    yield set_client.sessions.create_collection(name)


@pytest.fixture
def by_hand(set_client):
    return Session(set_client)


def insert(c, *ids):
    return {"insert": c.name, "documents": [{"_id": i} for i in ids]}


def find(c, query=None):
    return {"find": c.name, "filter": query or {}}


def found(reply):
    assert reply["ok"] == 1, reply
    return ids(reply["cursor"]["firstBatch"])


# ---- what a transaction shows


def test_all_or_nothing(set_client, c):
    with set_client.start_session() as session:
        with session.start_transaction():
            c.insert_one({"_id": 1}, session=session)
            c.insert_many([{"_id": 2}, {"_id": 3}], session=session)
            c.update_one({"_id": 2}, {"$set": {"a": 1}}, session=session)
            c.delete_one({"_id": 3}, session=session)
            assert ids(c.find({}, session=session)) == [1, 2]
            assert c.find_one({"a": 1}, session=session)["_id"] == 2
            assert ids(c.find()) == []
        assert ids(c.find()) == [1, 2]
        session.start_transaction()
        c.delete_many({}, session=session)
        assert c.distinct("_id", session=session) == []
        session.abort_transaction()
        assert ids(c.find()) == [1, 2]


def test_with_transaction(set_client, c):
    def work(session):
        c.insert_one({"_id": 1}, session=session)
        return "answer"

    with set_client.start_session() as session:
        options = dict(read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority"))
        assert session.with_transaction(work, **options) == "answer"
    assert ids(c.find()) == [1]


def test_with_transaction_under_16_writers(set_client, c):
    c.insert_one({"_id": 0, "n": 0})
    each, errors = 12, []

    def work(session):
        n = c.find_one({"_id": 0}, session=session)["n"]
        c.update_one({"_id": 0}, {"$set": {"n": n + 1}}, session=session)

    def writer():
        try:
            with set_client.start_session() as session:
                for _ in range(each):
                    session.with_transaction(work)
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=writer) for _ in range(16)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not errors and c.find_one()["n"] == 16 * each


def test_a_snapshot_stays(set_client, c):
    c.insert_many([{"_id": i, "a": 0} for i in range(300)])
    with set_client.start_session() as session, session.start_transaction(read_concern=ReadConcern("snapshot")):
        assert c.count_documents({"a": 0}, session=session) == 300
        c.update_many({}, {"$set": {"a": 1}})
        c.insert_one({"_id": 1000})
        assert c.count_documents({"a": 0}, session=session) == 300
        cursor = c.find({}, session=session, batch_size=100)
        next(cursor)
        c.delete_many({"_id": {"$gt": 200}})
        assert len(list(cursor)) == 299
        assert list(c.aggregate([{"$group": {"_id": "$a", "n": {"$sum": 1}}}], session=session)) == [{"_id": 0, "n": 300}]


def test_a_cursor_keeps_what_it_saw(set_client, c):
    c.insert_many([{"_id": i, "n": 0} for i in range(250)])
    with set_client.start_session() as session, session.start_transaction():
        seen = 0
        for doc in c.find({}, session=session, batch_size=50):
            c.update_one({"_id": doc["_id"]}, {"$inc": {"n": 1}}, session=session)
            c.insert_one({"_id": 1000 + doc["_id"], "n": 0}, session=session)
            seen += 1
        assert seen == 250
    assert c.count_documents({"n": 1}) == 250 and c.count_documents({}) == 500


def test_several_collections_and_databases(set_client, c):
    other = set_client.sessions_other[c.name]
    other.drop()
    other.insert_one({"_id": 0})
    with set_client.start_session() as session, session.start_transaction():
        c.insert_one({"_id": 1}, session=session)
        other.insert_one({"_id": 1}, session=session)
        joined = c.aggregate([{"$lookup": {"from": c.name, "localField": "_id", "foreignField": "_id", "as": "own"}}], session=session)
        assert list(joined) == [{"_id": 1, "own": [{"_id": 1}]}]
    assert ids(other.find()) == [0, 1]
    other.database.client.drop_database("sessions_other")


def test_collections_and_indexes_inside(set_client, c):
    c.drop()
    with set_client.start_session() as session:
        session.start_transaction()
        c.database.create_collection(c.name, session=session)
        c.create_index("a", unique=True, session=session)
        c.insert_one({"_id": 1, "a": 1}, session=session)
        with pytest.raises(DuplicateKeyError):
            c.insert_one({"_id": 2, "a": 1}, session=session)
        session.abort_transaction()
        assert c.name not in c.database.list_collection_names()
        with session.start_transaction():
            c.create_index("a", unique=True, session=session)
            c.insert_one({"_id": 1, "a": 1}, session=session)
            assert c.name not in c.database.list_collection_names()
        assert sorted(c.index_information()) == ["_id_", "a_1"] and ids(c.find()) == [1]


def test_bulk_writes_inside(set_client, c):
    with set_client.start_session() as session, session.start_transaction():
        result = c.bulk_write([pymongo.InsertOne({"_id": i}) for i in range(5)] + [pymongo.DeleteOne({"_id": 0})], session=session)
        assert (result.inserted_count, result.deleted_count) == (5, 1)
        several = [pymongo.InsertOne({"_id": 10}, namespace=c.full_name), pymongo.UpdateOne({"_id": 1}, {"$set": {"a": 1}}, namespace=c.full_name)]
        assert set_client.bulk_write(several, session=session).modified_count == 1
        assert c.find_one_and_delete({"_id": 2}, session=session) == {"_id": 2}
    assert ids(c.find()) == [1, 3, 4, 10]


def test_large_transactions(set_client, c):
    text = "x" * 100_000
    with set_client.start_session() as session, session.start_transaction():
        for at in range(25):
            c.insert_many([{"_id": at * 10 + i, "text": text} for i in range(10)], session=session)
        assert c.count_documents({}, session=session) == 250
    assert c.count_documents({}) == 250


# ---- conflicts


def test_write_conflicts(set_client, c):
    c.insert_one({"_id": 1, "n": 0})
    with set_client.start_session() as first, set_client.start_session() as second:
        first.start_transaction()
        second.start_transaction()
        c.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=first)
        with pytest.raises(OperationFailure) as conflict:
            c.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=second)
        assert conflict.value.code == 112 and conflict.value.has_error_label(TRANSIENT)
        with pytest.raises(OperationFailure) as gone:
            c.find_one({}, session=second)
        assert gone.value.code == 251 and gone.value.has_error_label(TRANSIENT)
        second.abort_transaction()
        first.commit_transaction()
    assert c.find_one()["n"] == 1


def test_a_commit_after_the_snapshot_is_a_conflict(set_client, c, by_hand):
    c.insert_one({"_id": 1, "n": 0})
    assert found(by_hand.begin(find(c))) == [1]
    c.update_one({"_id": 1}, {"$set": {"n": 7}})
    for command in [
        {"update": c.name, "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]},
    ]:
        reply = by_hand.go_on(command)
        assert (reply["code"], reply["errorLabels"]) == (112, [TRANSIENT]) and reply["codeName"] == "WriteConflict", reply
    assert c.find_one()["n"] == 7


def test_every_way_to_write_finds_the_conflict(set_client, c):
    c.insert_one({"_id": 1, "n": 0})
    commands = [
        {"update": c.name, "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]},
        {"update": c.name, "updates": [{"q": {}, "u": {"$inc": {"n": 1}}, "multi": True}]},
        {"delete": c.name, "deletes": [{"q": {"_id": 1}, "limit": 1}]},
        {"findAndModify": c.name, "query": {"_id": 1}, "update": {"$inc": {"n": 1}}},
    ]
    for command in commands:
        session = Session(set_client)
        session.begin(find(c))
        c.update_one({"_id": 1}, {"$inc": {"n": 1}})
        reply = session.go_on(command)
        assert (reply["ok"], reply.get("code"), reply.get("errorLabels")) == (0, 112, [TRANSIENT]), reply
    session = Session(set_client)
    session.begin(find(c))
    c.update_one({"_id": 1}, {"$inc": {"n": 1}})
    ops = [{"update": 0, "filter": {"_id": 1}, "updateMods": {"$inc": {"n": 1}}}]
    reply = session.go_on({"bulkWrite": 1, "ops": ops, "nsInfo": [{"ns": c.full_name}]}, db="admin")
    assert (reply["ok"], reply.get("code"), reply.get("errorLabels")) == (0, 112, [TRANSIENT]), reply


def test_a_dropped_collection(set_client, c, by_hand):
    c.insert_one({"_id": 1})
    by_hand.begin(find(c))
    c.drop()
    assert by_hand.go_on(insert(c, 2))["ok"] == 1
    reply = by_hand.commit()
    assert (reply["code"], reply["errorLabels"]) == (112, [TRANSIENT]), reply
    late = Session(set_client)
    late.begin({"find": "nothing"})
    c.insert_one({"_id": 5})
    reply = late.go_on(find(c))
    assert (reply["code"], reply["errorLabels"]) == (246, [TRANSIENT]), reply


# ---- errors end a transaction


def test_an_error_ends_the_transaction(set_client, c):
    c.insert_one({"_id": 1})
    with set_client.start_session() as session:
        session.start_transaction()
        c.insert_one({"_id": 2}, session=session)
        with pytest.raises(DuplicateKeyError) as duplicate:
            c.insert_one({"_id": 1}, session=session)
        assert not duplicate.value.has_error_label(TRANSIENT)
        with pytest.raises(OperationFailure) as aborted:
            session.commit_transaction()
        assert aborted.value.code == 251 and "has been aborted" in str(aborted.value)
        with pytest.raises(BulkWriteError):
            with session.start_transaction():
                c.insert_many([{"_id": 3}, {"_id": 1}], session=session)
        with pytest.raises(OperationFailure):
            with session.start_transaction():
                c.insert_one({"_id": 4}, session=session)
                list(c.find({"$bad": 1}, session=session))
    assert ids(c.find()) == [1]


def test_the_first_operation_fails(by_hand, c):
    assert by_hand.begin({"find": c.name, "filter": {"$bad": 1}})["code"] == 2
    reply = by_hand.go_on(find(c))
    assert (reply["code"], reply["codeName"], reply["errorLabels"]) == (251, "NoSuchTransaction", [TRANSIENT])
    assert by_hand.begin(find(c))["ok"] == 1


# ---- commit and abort


def test_commit_again(by_hand, c):
    by_hand.begin(insert(c, 1))
    assert by_hand.commit()["ok"] == 1
    assert by_hand.commit()["ok"] == 1
    assert by_hand.commit(writeConcern={"w": "majority"})["ok"] == 1
    for reply in [by_hand.abort(), by_hand.go_on(find(c))]:
        assert (reply["code"], reply["codeName"]) == (256, "TransactionCommitted"), reply
        assert reply["errmsg"] == f"Transaction with {{ txnNumber: {by_hand.number} }} has been committed."
        assert "errorLabels" not in reply
    assert ids(c.find()) == [1]


def test_commit_of_nothing(by_hand, c):
    by_hand.begin(find(c))
    assert by_hand.commit()["ok"] == 1 and by_hand.commit()["ok"] == 1


def test_abort(by_hand, c):
    by_hand.begin(insert(c, 1))
    assert by_hand.abort()["ok"] == 1
    for reply in [by_hand.abort(), by_hand.commit(), by_hand.go_on(find(c))]:
        assert (reply["code"], reply["errmsg"]) == (251, "Transaction with { txnNumber: 1 } has been aborted."), reply
    assert ids(c.find()) == []


def test_unknown_transactions(by_hand, c):
    reply = by_hand.commit(4)
    text = "Given transaction number 4 does not match any in-progress transactions. The active transaction number is "
    assert (reply["code"], reply["errmsg"], reply["errorLabels"]) == (251, text + "-1", [TRANSIENT])
    by_hand.begin(insert(c, 1), 3)
    assert by_hand.commit(4)["errmsg"] == text + "3"
    assert by_hand.go_on(find(c), 2)["code"] == 251
    assert by_hand.commit(3)["ok"] == 1


def test_numbers_never_fall(by_hand, c):
    by_hand.begin(insert(c, 1), 5)
    assert by_hand.begin(find(c), 5)["code"] == 50911
    reply = by_hand.begin(find(c), 4)
    assert (reply["code"], reply["codeName"]) == (225, "TransactionTooOld") and "has already started on this session" in reply["errmsg"]
    assert by_hand.write(insert(c, 2), 4)["code"] == 225
    assert by_hand.write(insert(c, 2), 5)["code"] == 72
    # a newer one ends it
    assert by_hand.begin(find(c), 6)["ok"] == 1
    assert by_hand.commit(5)["code"] == 251
    assert by_hand.write(insert(c, 7), 7)["ok"] == 1
    assert by_hand.commit(6)["code"] == 251
    assert by_hand.go_on(find(c), 7)["code"] == 251
    assert ids(c.find()) == [7]


def test_fields_that_make_no_sense(by_hand, c):
    n = Int64(1)
    for command, fields, code in [
        (find(c), dict(txnNumber=n), 50768),
        (find(c), dict(autocommit=False), 72),
        (find(c), dict(startTransaction=True), 72),
        (find(c), dict(txnNumber=n, autocommit=True), 72),
        (find(c), dict(txnNumber=n, autocommit=False, startTransaction=False), 72),
        (find(c), dict(txnNumber=n, startTransaction=True), 72),
        (find(c), dict(txnNumber=Int64(-1), autocommit=False, startTransaction=True), 72),
        (find(c), dict(txnNumber=1, autocommit=False, startTransaction=True), 14),
        (find(c), dict(txnNumber="1", autocommit=False, startTransaction=True), 14),
        (find(c), dict(txnNumber=n, autocommit=0, startTransaction=True), 14),
    ]:
        assert by_hand.run(command, **fields)["code"] == code, fields
    assert by_hand.run({"commitTransaction": 1}, db="admin")["code"] == 125
    assert by_hand.run({"commitTransaction": 1}, db="admin", txnNumber=n)["code"] == 50768
    assert by_hand.wire.send({"abortTransaction": 1, "$db": "admin"})["code"] == 125
    assert by_hand.wire.send({**find(c), "txnNumber": n, "autocommit": False, "startTransaction": True, "$db": "sessions"})["code"] == 72
    by_hand.begin(insert(c, 1), 9)
    assert by_hand.go_on({"commitTransaction": 1}, 9)["code"] == 13
    assert by_hand.commit(9)["ok"] == 1


def test_what_does_not_run_inside(by_hand, c, set_client):
    c.insert_one({"_id": 1})
    by_hand.begin(find(c))
    for command, code in [
        ({"count": c.name}, 263),
        ({"listCollections": 1}, 263),
        ({"listIndexes": c.name}, 263),
        ({"drop": c.name}, 263),
        ({"collMod": c.name}, 263),
        ({"aggregate": c.name, "pipeline": [{"$out": "x"}], "cursor": {}}, 263),
        ({"aggregate": c.name, "pipeline": [{"$merge": "x"}], "cursor": {}}, 263),
        ({"aggregate": c.name, "pipeline": [{"$collStats": {"count": {}}}], "cursor": {}}, 263),
        ({"insert": "system.js", "documents": [{}]}, 50791),
        ({**find(c), "readConcern": {"level": "snapshot"}}, 72),
        ({**insert(c, 5), "writeConcern": {"w": 1}}, 72),
        ({"startSession": 1}, 263),
    ]:
        reply = by_hand.go_on(command)
        assert reply.get("code") == code, (command, reply)
    assert "count" in by_hand.go_on({"count": c.name})["errmsg"]
    for db in ("admin", "config", "local"):
        assert by_hand.go_on({"find": "c"}, db=db)["code"] == 263
    # none of these ended it
    assert by_hand.go_on(insert(c, 2))["ok"] == 1
    assert by_hand.go_on({"ping": 1})["ok"] == 1 and by_hand.go_on({"hello": 1})["ok"] == 1
    assert by_hand.commit()["ok"] == 1 and ids(c.find()) == [1, 2]
    assert by_hand.begin({"killCursors": c.name, "cursors": [Int64(1)]}, 50)["code"] == 263
    assert by_hand.begin(find(c), 51, readConcern={"level": "linearizable"})["code"] == 72
    now = by_hand.run({"ping": 1})["operationTime"]
    c.insert_one({"_id": 3})
    past = by_hand.begin(find(c), 51, readConcern={"level": "snapshot", "atClusterTime": now})
    assert [doc["_id"] for doc in past["cursor"]["firstBatch"]] == [1, 2], past
    assert by_hand.begin(find(c), 52, readConcern={"level": "snapshot", "afterClusterTime": now})["ok"] == 1
    for kind, options in (("capped", dict(capped=True, size=4096)), ("series", dict(timeseries={"timeField": "t"}))):
        set_client.sessions.drop_collection(kind)
        set_client.sessions.create_collection(kind, **options)
        reply = Session(set_client).begin({"insert": kind, "documents": [{"_id": 1}]})
        assert reply["code"] == 263, reply


def test_a_transaction_of_another_user_is_another_one(set_client, c):
    own = Session(set_client)
    own.begin(insert(c, 1))
    other = Session(set_client, {**own.lsid, "uid": b"\x07" * 32})
    assert other.go_on(find(c), own.number)["code"] == 251
    assert other.commit(own.number)["code"] == 251
    assert ids(c.find()) == []
    assert own.commit()["ok"] == 1 and ids(c.find()) == [1]


def test_cursors_belong_to_their_transaction(by_hand, c, set_client):
    c.insert_many([{"_id": i} for i in range(10)])
    cursor = by_hand.begin({**find(c), "batchSize": 2})["cursor"]["id"]
    more = {"getMore": cursor, "collection": c.name}
    assert by_hand.run(more)["code"] == 50740
    assert len(by_hand.go_on({**more, "batchSize": 3})["cursor"]["nextBatch"]) == 3
    plain = by_hand.run({**find(c), "batchSize": 2})["cursor"]["id"]
    other = Session(set_client)
    assert other.run({"getMore": plain, "collection": c.name})["code"] == 50738
    assert by_hand.commit()["ok"] == 1
    assert by_hand.run(more)["code"] == 43
    by_hand.begin(find(c))
    assert by_hand.go_on({"getMore": plain, "collection": c.name})["code"] == 50739


def test_one_operation_at_a_time(by_hand, c):
    by_hand.begin(insert(c, 1))
    replies = []

    def run(i):
        replies.append(by_hand.go_on(insert(c, 10 + i)))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert [reply["ok"] for reply in replies] == [1] * 8
    assert by_hand.commit()["ok"] == 1 and c.count_documents({}) == 9


# ---- the oplog and change streams


def test_the_history_has_one_entry(set_client, c, by_hand):
    oplog = set_client.local["oplog.rs"]
    with c.watch() as stream:
        by_hand.begin(insert(c, 1, 2))
        by_hand.go_on({"update": c.name, "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]})
        assert oplog.find_one({"lsid.id": by_hand.lsid["id"]}) is None and stream.try_next() is None
        by_hand.commit(writeConcern={"w": "majority"})
        entry = oplog.find_one({"lsid.id": by_hand.lsid["id"]})
        assert (entry["op"], entry["ns"], entry["txnNumber"]) == ("c", "admin.$cmd", by_hand.number)
        assert [o["op"] for o in entry["o"]["applyOps"]] == ["i", "i", "u"]
        events = [next(stream) for _ in range(3)]
        assert [e["operationType"] for e in events] == ["insert", "insert", "update"]
        assert {e["txnNumber"] for e in events} == {by_hand.number} and {bytes(e["lsid"]["id"]) for e in events} == {bytes(by_hand.lsid["id"])}
        assert len({e["clusterTime"] for e in events}) == 1
        by_hand.write({**insert(c, 7, 8), "writeConcern": {"w": "majority"}})
        entries = list(oplog.find({"lsid.id": by_hand.lsid["id"], "txnNumber": by_hand.number}))
        assert [(e["op"], e["o"]["_id"], e["stmtId"]) for e in entries] == [("i", 7, 0), ("i", 8, 1)]
        by_hand.begin(insert(c, 9))
        by_hand.abort()
        assert oplog.count_documents({"lsid.id": by_hand.lsid["id"]}) == 3


# ---- lifetime, restarts, statistics


def test_a_clean_shutdown_ends_what_is_open(tmp_path):
    arbor = ReplicaSet(tmp_path / "data")
    arbor.start()
    with pymongo.MongoClient(arbor.uri, serverSelectionTimeoutMS=20_000) as client:
        client.sessions.c.insert_one({"_id": 0})
        Session(client).begin({"insert": "c", "documents": [{"_id": 1}]})
        assert arbor.stop() == 0
        arbor.start()
        assert ids(client.sessions.c.find()) == [0]
    arbor.stop()


def test_lifetime(set_client, c, by_hand):
    set_client.admin.command("setParameter", 1, transactionLifetimeLimitSeconds=1)
    try:
        by_hand.begin(insert(c, 1))
        time.sleep(2.5)
        reply = by_hand.commit()
        assert (reply["code"], reply["errorLabels"]) == (251, [TRANSIENT])
        # while an operation runs
        c.insert_many([{"_id": 100 + i} for i in range(8000)])
        slow = {"aggregate": c.name, "cursor": {}, "pipeline": [{"$lookup": {"from": c.name, "pipeline": [{"$match": {"$expr": {"$gt": [{"$mod": ["$_id", 7]}, 99]}}}], "as": "x"}}, {"$sort": {"x": 1}}]}
        reply = by_hand.begin(slow)
        assert (reply.get("code"), reply.get("codeName")) == (290, "TransactionExceededLifetimeLimitSeconds"), reply
        assert by_hand.go_on(find(c))["code"] == 251
    finally:
        set_client.admin.command("setParameter", 1, transactionLifetimeLimitSeconds=60)
    assert c.count_documents({"_id": 1}) == 0


def test_commit_is_known_after_a_kill(tmp_path):
    arbor = ReplicaSet(tmp_path / "data")
    arbor.start()
    client = pymongo.MongoClient(arbor.uri, serverSelectionTimeoutMS=20_000)
    c = client.sessions.c
    c.insert_one({"_id": 0})
    done, open_ = Session(client), Session(client)
    done.begin(insert(c, 1))
    assert done.commit(writeConcern={"w": "majority"})["ok"] == 1
    open_.begin(insert(c, 2))
    arbor.kill()
    arbor.start()
    try:
        client.close()
        client = pymongo.MongoClient(arbor.uri, serverSelectionTimeoutMS=20_000)
        c = client.sessions.c
        done.reach(client)
        open_.reach(client)
        assert done.commit()["ok"] == 1
        assert done.abort()["code"] == 256
        reply = open_.commit()
        assert (reply["code"], reply["errorLabels"]) == (251, [TRANSIENT])
        assert ids(c.find()) == [0, 1]
        row = client.config.transactions.find_one({"_id.id": done.lsid["id"]})
        assert row["txnNum"] == done.number and row["state"] == "committed" and row["lastWriteOpTime"]["t"] == 1
    finally:
        client.close()
        arbor.stop()


def test_standalone_refuses(client, db):
    session = Session(client)
    for reply in [
        session.begin({"find": "c"}),
        session.write({"insert": "c", "documents": [{}]}),
        session.commit(1),
    ]:
        assert (reply["code"], reply["errmsg"]) == (20, "Transaction numbers are only allowed on a replica set member or mongos")
        assert "errorLabels" not in reply


def test_statistics(set_client, c, by_hand):
    statistics = lambda: set_client.admin.command("serverStatus")["transactions"]  # noqa: E731
    before = statistics()
    by_hand.begin(insert(c, 1))
    during = statistics()
    assert during["currentInactive"] == before["currentInactive"] + 1 and during["currentActive"] == 0
    assert during["currentOpen"] == before["currentOpen"] + 1
    operations = list(set_client.admin.aggregate([{"$currentOp": {"idleSessions": True}}, {"$match": {"lsid.id": by_hand.lsid["id"]}}]))
    assert len(operations) == 1 and operations[0]["type"] == "idleSession" and operations[0]["active"] is False
    shown = operations[0]["transaction"]
    assert shown["parameters"] == {"txnNumber": 1, "autocommit": False} and shown["timeOpenMicros"] >= shown["timeActiveMicros"] > 0
    assert not list(set_client.admin.aggregate([{"$currentOp": {"idleSessions": False}}, {"$match": {"type": "idleSession"}}]))
    by_hand.commit()
    by_hand.begin(insert(c, 2))
    by_hand.abort()
    after = statistics()
    grown = {name: after[name] - before[name] for name in ("totalStarted", "totalCommitted", "totalAborted", "currentOpen")}
    assert grown == {"totalStarted": 2, "totalCommitted": 1, "totalAborted": 1, "currentOpen": 0}


def test_killed_sessions_lose_their_transactions(set_client, c):
    for kill in ("killSessions", "endSessions"):
        session = Session(set_client)
        session.begin(insert(c, 1))
        assert set_client.admin.command({kill: [session.lsid]})["ok"] == 1
        assert session.commit()["code"] == 251
    assert ids(c.find()) == []


def test_failpoints_get_labels(set_client, c):
    def fail(**data):
        set_client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data={"failCommands": ["insert", "commitTransaction"], **data})

    session = Session(set_client)
    fail(errorCode=11600)
    assert session.begin(insert(c, 1))["errorLabels"] == [TRANSIENT]
    fail(errorCode=11600)
    assert session.write(insert(c, 1))["errorLabels"] == ["RetryableWriteError"]
    fail(errorCode=11000)
    assert "errorLabels" not in session.write(insert(c, 1))
    session.begin(find(c))
    fail(errorCode=91)
    assert session.commit()["errorLabels"] == ["RetryableWriteError"]
    assert session.commit()["ok"] == 1
    fail(writeConcernError={"code": 91, "errmsg": "x"})
    assert session.write(insert(c, 3))["errorLabels"] == ["RetryableWriteError"]


# ---- TokuMX


def test_transactions_of_a_connection(server):
    """The clients of the founding texts: everything on the connection is one transaction."""
    one = pymongo.MongoClient(server.uri, maxPoolSize=1)
    two = pymongo.MongoClient(server.uri, maxPoolSize=1)
    try:
        a, b = one.toku.c, two.toku.c
        a.drop()
        a.insert_one({"_id": 0})
        assert one.toku.command("beginTransaction", isolation="serializable")["status"] == "transaction began"
        assert code_of(lambda: one.toku.command("beginTransaction")) == 20
        a.insert_one({"_id": 1})
        assert ids(a.find()) == [0, 1] and ids(b.find()) == [0]
        assert a.count_documents({}) == 2 and a.estimated_document_count() == 2
        live = two.toku.command("showLiveTransactions")["transactions"]
        assert len(live) == 1 and live[0]["connectionId"] > 0
        assert one.toku.command("commitTransaction")["status"] == "transaction committed"
        assert ids(b.find()) == [0, 1] and two.toku.command("showLiveTransactions")["transactions"] == []
        one.toku.command("beginTransaction")
        a.delete_many({})
        assert one.toku.command("rollbackTransaction")["status"] == "transaction rolled back"
        assert ids(a.find()) == [0, 1]
        # a conflict ends it, and nothing runs outside of it by accident
        one.toku.command("beginTransaction")
        a.update_one({"_id": 0}, {"$set": {"a": 1}})
        two.toku.command("beginTransaction")
        with pytest.raises(OperationFailure) as conflict:
            b.update_one({"_id": 0}, {"$set": {"a": 2}})
        assert conflict.value.code == 112
        assert code_of(lambda: b.insert_one({"_id": 9})) == 251
        two.toku.command("rollbackTransaction")
        one.toku.command("commitTransaction")
        assert a.find_one({"_id": 0})["a"] == 1 and b.find_one({"_id": 9}) is None
        assert code_of(lambda: one.toku.command("rollbackTransaction")) == 125
        # the end of the connection is the end of the transaction
        one.toku.command("beginTransaction")
        a.insert_one({"_id": 5})
        one.close()
        deadline = time.monotonic() + 10
        while two.toku.command("showLiveTransactions")["transactions"] and time.monotonic() < deadline:
            time.sleep(0.05)
        assert two.toku.command("showLiveTransactions")["transactions"] == [] and ids(b.find()) == [0, 1]
    finally:
        one.close()
        two.close()


def test_a_load_makes_a_collection_inside_of_a_transaction(server):
    one = pymongo.MongoClient(server.uri, maxPoolSize=1)
    two = pymongo.MongoClient(server.uri, maxPoolSize=1)
    db, other = one.toku_load, two.toku_load
    indexes = [{"key": {"_id": 1}, "name": "_id_", "ns": "toku_load.c"}, {"key": {"x": 1}, "name": "x_1", "ns": "toku_load.c", "unique": True}]
    try:
        one.drop_database("toku_load")
        assert code_of(lambda: db.command("beginLoad", 1, ns="c")) == 125
        db.command("beginTransaction")
        db.plain.insert_one({"_id": 1})
        db.command("beginLoad", 1, ns="c", indexes=indexes, options={"primaryKey": {"_id": 1}, "compression": "zlib"})
        db.c.insert_many([{"_id": i, "x": i} for i in range(2000)])
        assert db.command("commitLoad")["status"] == "load committed"
        assert code_of(lambda: other.command("listIndexes", "c")) == 26, "others do not see it before the commit"
        db.command("commitTransaction")
        assert other.c.count_documents({}) == 2000 and other.plain.count_documents({}) == 1
        assert set(other.c.index_information()) == {"_id_", "x_1"} and other.c.find_one({"x": 7}, hint="x_1")["_id"] == 7
        assert other.command("validate", "c")["valid"]
        # what an aborted load has written goes, and what was written before it stays
        db.command("beginTransaction")
        db.plain.insert_one({"_id": 2})
        db.command("beginLoad", 1, ns="d", indexes=[], options={})
        db.d.insert_one({"_id": 1})
        assert db.command("abortLoad")["status"] == "load aborted"
        db.command("beginLoad", 1, ns="d", indexes=[], options={})
        db.d.insert_one({"_id": 9})
        db.command("commitLoad")
        db.command("commitTransaction")
        assert ids(other.plain.find()) == [1, 2] and ids(other.d.find()) == [9]
        for wrong, code in [
            (lambda: db.command("beginLoad", 1, ns="c"), 48),
            (lambda: db.command("beginLoad", 1, ns="e", options={"capped": True, "size": 4096}), 72),
            (lambda: db.command("beginLoad", 1, ns="e", options={"primaryKey": {"a": 1, "_id": 1}}), 72),
            (lambda: db.command("commitLoad"), 20),
            (lambda: db.command("abortLoad"), 20),
        ]:
            db.command("beginTransaction")
            assert code_of(wrong) == code
            db.command("rollbackTransaction")
        assert set(other.list_collection_names()) == {"c", "d", "plain"}
    finally:
        one.close()
        two.close()


def test_engine_status_and_pending_lock_requests(client):
    status = client.admin.command("engineStatus")
    assert status["storageEngine: name"] in ("ftree", "lmdb", "rocksdb", "wiredtiger") and status["engine: diskBytes"] > 0
    assert "transactions: totalStarted" in status and "arborLog: appended" in status
    engine = status["storageEngine: name"]
    assert any(name.startswith(f"{engine}: ") for name in status), "the engine's own counters"
    assert all(not isinstance(value, dict) for value in status.values())
    assert client.admin.command("showPendingLockRequests")["requests"] == []


# ---- commands around transactions


def test_create_in_a_transaction_refuses_what_exists(set_client, c):
    with set_client.start_session() as session:
        session.start_transaction()
        with pytest.raises(OperationFailure) as caught:
            c.database.command("create", c.name, session=session)
        assert caught.value.code == 48
        session.abort_transaction()
    assert c.database.command("create", c.name)["ok"] == 1


def test_more_results_of_a_bulk_write_in_a_transaction(set_client, c):
    operations = [{"insert": 0, "document": {"_id": n}} for n in range(5)]
    with set_client.start_session() as session, session.start_transaction():
        command = {"bulkWrite": 1, "ops": operations, "nsInfo": [{"ns": c.full_name}], "cursor": {"batchSize": 2}}
        cursor = set_client.admin.command(command, session=session)["cursor"]
        assert len(cursor["firstBatch"]) == 2
        more = set_client.admin.command({"getMore": cursor["id"], "collection": "$cmd.bulkWrite"}, session=session)["cursor"]
        assert [one["idx"] for one in more["nextBatch"]] == [2, 3, 4] and more["id"] == 0
    assert c.count_documents({}) == 5


def test_a_write_concern_error_in_a_transaction_has_no_label(set_client, c):
    data = {"failCommands": ["insert"], "writeConcernError": {"code": 91, "errmsg": "made up"}}
    set_client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=data)
    with set_client.start_session() as session:
        session.start_transaction()
        reply = c.database.command(insert(c, 1), session=session)
        assert reply["writeConcernError"]["code"] == 91 and "errorLabels" not in reply
        session.abort_transaction()


def test_a_command_that_fails_says_what_its_write_concern_lacks_as_well(set_client, c):
    other = set_client.sessions.create_collection(f"{c.name}_other")
    command = {"renameCollection": c.full_name, "to": other.full_name, "writeConcern": {"w": 2, "wtimeout": 1}}
    with pytest.raises(OperationFailure) as caught:
        set_client.admin.command(command)
    assert caught.value.code == 48 and caught.value.details["writeConcernError"]["code"] == 100
    other.drop()
