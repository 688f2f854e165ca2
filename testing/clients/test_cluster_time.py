"""Cluster time, causal sessions, read and write concerns of a replica set of one member."""

import time

import bson
import pymongo
import pytest
from bson import Timestamp
from pymongo import ReadPreference, WriteConcern
from pymongo.errors import OperationFailure, WriteConcernError, WTimeoutError
from pymongo.read_concern import ReadConcern

NO_SIGNATURE = {"hash": bytes(20), "keyId": 0}


def code_of(call):
    with pytest.raises(OperationFailure) as caught:
        call()
    return caught.value.code


def behind(timestamp, seconds):
    return Timestamp(timestamp.time + seconds, 1)


@pytest.fixture
def db(set_client, request):
    name = request.node.name.replace("[", "_").replace("]", "").replace("-", "_")[:50]
    set_client.drop_database(name)
    yield set_client[name]
    set_client.drop_database(name)


def test_every_reply_says_the_time(set_client, db):
    before = set_client.admin.command("ping")
    assert before["$clusterTime"]["signature"] == NO_SIGNATURE
    assert isinstance(before["operationTime"], Timestamp)
    db.c.insert_one({"_id": 1})
    after = set_client.admin.command("ping")
    assert after["operationTime"] > before["operationTime"]
    assert after["$clusterTime"]["clusterTime"] >= after["operationTime"]
    with pytest.raises(OperationFailure) as failed:
        set_client.admin.command("noSuchCommand")
    assert failed.value.details["operationTime"] >= after["operationTime"]


def test_a_standalone_has_no_time(client):
    reply = client.admin.command("ping")
    assert "$clusterTime" not in reply and "operationTime" not in reply
    assert code_of(lambda: client.admin.command("getDefaultRWConcern")) == 20
    assert code_of(lambda: client.admin.command("setDefaultRWConcern", defaultReadConcern={"level": "local"})) == 20
    assert code_of(lambda: client.admin.command("appendOplogNote", data={})) == 76
    assert code_of(lambda: client.d.command("count", "c", readConcern={"level": "snapshot"})) == 123


def test_clients_pass_the_time_on(replica_set):
    """A raw connection: PyMongo would show the newest time itself."""
    with pymongo.MongoClient(replica_set.direct_uri) as client:
        now = client.admin.command("ping")["$clusterTime"]["clusterTime"]
        shown = behind(now, 100)
        with client.start_session() as session:
            session.advance_cluster_time({"clusterTime": shown, "signature": NO_SIGNATURE})
            reply = client.admin.command("ping", session=session)
            assert reply["$clusterTime"]["clusterTime"] >= shown
        client.d.c.insert_one({})
        assert client.admin.command("ping")["operationTime"] > shown
    # absurd times are refused, and so is what is no time
    with pymongo.MongoClient(replica_set.direct_uri) as client:
        for shown, code in [
            ({"clusterTime": behind(now, 2 * 365 * 86400), "signature": NO_SIGNATURE}, 205),
            ({"clusterTime": 5}, 14),
            ({"signature": NO_SIGNATURE}, 40414),
            (5, 14),
        ]:
            assert raw_code(replica_set, {"ping": 1, "$clusterTime": shown, "$db": "admin"}) == code, shown


def raw_code(member, command):
    """The code of an error of a command that is sent as it is."""
    import socket
    import struct

    body = b"\0\0\0\0\0" + bson.encode(command)
    with socket.create_connection(("127.0.0.1", member.port)) as connection:
        connection.sendall(struct.pack("<iiii", 16 + len(body), 1, 0, 2013) + body)
        head = connection.recv(16, socket.MSG_WAITALL)
        rest = connection.recv(struct.unpack("<i", head[:4])[0] - 16, socket.MSG_WAITALL)
    return bson.decode(rest[5:]).get("code")


def test_causal_sessions_read_their_own_writes(set_client, db):
    with set_client.start_session(causal_consistency=True) as session:
        for i in range(50):
            db.c.insert_one({"_id": i}, session=session)
            assert db.c.find_one({"_id": i}, session=session) is not None
        assert session.operation_time is not None
        times = (session.cluster_time, session.operation_time)
    with set_client.start_session(causal_consistency=True) as other:
        other.advance_cluster_time(times[0])
        other.advance_operation_time(times[1])
        majority = db.c.with_options(read_concern=ReadConcern("majority"))
        assert majority.count_documents({}, session=other) == 50


@pytest.mark.parametrize("level", ["local", "available", "majority", "linearizable"])
def test_read_concerns(db, level):
    db.c.insert_one({"_id": 1}, )
    c = db.c.with_options(read_concern=ReadConcern(level))
    assert c.find_one({"_id": 1}) == {"_id": 1} and c.count_documents({}) == 1 and c.distinct("_id") == [1]


def test_read_concerns_that_do_not_apply(db):
    now = db.client.admin.command("ping")["$clusterTime"]["clusterTime"]
    for command, concern, code in [
        ({"count": "c"}, {"level": "snapshot"}, 72),
        ({"find": "c"}, {"level": "later"}, 2),
        ({"find": "c"}, {"level": "majority", "x": 1}, 40415),
        ({"find": "c"}, {"level": "linearizable", "afterClusterTime": now}, 72),
        ({"find": "c"}, {"afterClusterTime": behind(now, 10_000)}, 72),
        ({"find": "c"}, {"afterClusterTime": Timestamp(0, 0)}, 72),
        ({"find": "c"}, {"afterClusterTime": 5}, 14),
        ({"find": "c"}, {"level": "majority", "atClusterTime": now}, 72),
        ({"find": "c"}, {"level": "snapshot", "atClusterTime": behind(now, 10_000)}, 72),
        ({"find": "c"}, {"level": "snapshot", "atClusterTime": Timestamp(1, 1)}, 239),
        ({"insert": "c", "documents": [{}]}, {"level": "majority"}, 72),
    ]:
        assert code_of(lambda: db.command({**command, "readConcern": concern})) == code, (command, concern)


def test_snapshot_sessions_see_one_moment(set_client, db):
    db.c.insert_many([{"_id": i, "n": 0} for i in range(300)])
    with set_client.start_session(snapshot=True) as session:
        cursor = db.c.find({}, batch_size=10, session=session)
        assert next(cursor)["n"] == 0
        db.c.update_many({}, {"$set": {"n": 1}})
        db.c.delete_one({"_id": 299})
        assert all(doc["n"] == 0 for doc in cursor)
        assert db.c.distinct("n", session=session) == [0]
        counted = list(db.c.aggregate([{"$group": {"_id": "$n", "count": {"$sum": 1}}}], session=session))
        assert counted == [{"_id": 0, "count": 300}]
    reply = db.command({"find": "c", "filter": {"n": 1}, "readConcern": {"level": "snapshot"}})
    assert isinstance(reply["cursor"]["atClusterTime"], Timestamp)


def test_the_past_is_kept_for_a_window(set_client, db):
    db.c.insert_one({"_id": 1, "n": 0})
    before = db.client.admin.command("ping")["operationTime"]
    db.c.update_one({"_id": 1}, {"$set": {"n": 1}})
    past = {"find": "c", "readConcern": {"level": "snapshot", "atClusterTime": before}}
    assert db.command(past)["cursor"]["firstBatch"] == [{"_id": 1, "n": 0}]
    assert db.command(past)["cursor"]["atClusterTime"] == before
    parameter = "minSnapshotHistoryWindowInSeconds"
    assert set_client.admin.command("getParameter", 1, **{parameter: 1})[parameter] == 300
    assert set_client.admin.command("setParameter", 1, **{parameter: 60})["was"] == 300
    assert set_client.admin.command("setParameter", 1, **{parameter: 300})["was"] == 60
    assert code_of(lambda: set_client.admin.command("setParameter", 1, **{parameter: -1})) == 2


@pytest.mark.parametrize("w, code", [(1, None), ("majority", None), (2, 100), (50, 100), ("nowhere", 79)])
def test_write_concerns(db, w, code):
    concern = WriteConcern(w=w, wtimeout=500)
    c = db.c.with_options(write_concern=concern)

    def outcome(call):
        try:
            call()
        except (WriteConcernError, WTimeoutError, pymongo.errors.BulkWriteError) as error:
            details = error.details
            if "writeConcernErrors" in details:
                return details["writeConcernErrors"][0]["code"]
            return error.code
        return None

    assert outcome(lambda: c.insert_one({"_id": 1})) == code
    assert outcome(lambda: c.update_one({"_id": 1}, {"$set": {"a": 1}})) == code
    assert outcome(lambda: c.insert_many([{"_id": 2}, {"_id": 3}])) == code
    assert outcome(lambda: c.find_one_and_update({"_id": 1}, {"$set": {"a": 2}})) == code
    assert outcome(lambda: c.create_index("a")) == code
    assert outcome(lambda: c.delete_one({"_id": 3})) == code
    # what was not promised is done nevertheless
    assert list(db.c.find()) == [{"_id": 1, "a": 2}, {"_id": 2}]
    reply = db.command({"insert": "c", "documents": [{"_id": 4}], "writeConcern": {"w": w}}, check=False)
    if code:
        error = reply["writeConcernError"]
        assert error["code"] == code and error["errInfo"]["writeConcern"]["provenance"] == "clientSupplied"
    else:
        assert "writeConcernError" not in reply


def test_a_write_concern_may_lose_its_patience(db):
    """A disk may or may not be done within a millisecond; the write is done anyhow."""
    for i in range(20):
        command = {"insert": "c", "documents": [{"_id": i}], "writeConcern": {"w": "majority", "wtimeout": 1}}
        error = db.command(command, check=False).get("writeConcernError")
        assert error is None or (error["code"] == 64 and error["errInfo"]["wtimeout"] is True)
    assert db.c.count_documents({}) == 20


def test_write_concerns_by_tag(set_client, db):
    config = set_client.admin.command("replSetGetConfig")["config"]
    config["version"] += 1
    config["members"][0]["tags"] = {"dc": "east"}
    config["settings"]["getLastErrorModes"] = {"one": {"dc": 1}, "two": {"dc": 2}}
    set_client.admin.command("replSetReconfig", config)
    errors = {}
    for mode in ("one", "two"):
        reply = db.command({"insert": "c", "documents": [{}], "writeConcern": {"w": mode}}, check=False)
        errors[mode] = reply.get("writeConcernError", {}).get("code")
    assert errors == {"one": None, "two": 100}


def test_default_concerns(set_client, db):
    admin = set_client.admin
    implicit = admin.command("getDefaultRWConcern")
    assert implicit["defaultWriteConcern"] == {"w": "majority", "wtimeout": 0}
    assert implicit["defaultReadConcern"] == {"level": "local"}
    assert implicit["defaultWriteConcernSource"] == implicit["defaultReadConcernSource"] == "implicit"
    assert code_of(lambda: admin.command("setDefaultRWConcern")) == 2
    assert code_of(lambda: admin.command("setDefaultRWConcern", defaultReadConcern={"level": "snapshot"})) == 2
    assert code_of(lambda: admin.command("setDefaultRWConcern", defaultWriteConcern={"w": 0})) == 2
    assert code_of(lambda: admin.command("setDefaultRWConcern", defaultWriteConcern={"w": 3})) == 100
    set_ = admin.command("setDefaultRWConcern", defaultWriteConcern={"w": 1}, defaultReadConcern={"level": "majority"})
    assert set_["defaultWriteConcern"] == {"w": 1, "wtimeout": 0} and set_["defaultWriteConcernSource"] == "global"
    assert admin.command("getDefaultRWConcern")["defaultReadConcern"] == {"level": "majority"}
    assert set_client.config.settings.find_one({"_id": "ReadWriteConcernDefaults"})["defaultWriteConcern"]["w"] == 1
    assert code_of(lambda: admin.command("setDefaultRWConcern", defaultWriteConcern={})) == 20
    admin.command("setDefaultRWConcern", defaultReadConcern={})
    assert admin.command("getDefaultRWConcern")["defaultReadConcernSource"] == "implicit"
