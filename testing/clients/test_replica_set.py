"""A replica set of one member, as PyMongo and mongosh see it."""

import contextlib
import datetime
import os
import pathlib
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import bson
import pymongo
import pytest
from pymongo.errors import NotPrimaryError, OperationFailure

from arbor_process import Arbor, ReplicaSet
from mongosh import run_mongosh


def direct(arbor, **options):
    return pymongo.MongoClient("127.0.0.1", arbor.port, directConnection=True, serverSelectionTimeoutMS=10_000, **options)


def code_of(call):
    with pytest.raises((OperationFailure, NotPrimaryError)) as caught:
        call()
    return caught.value.details["code"]


@pytest.fixture
def fresh(tmp_path):
    """A member whose set is not initiated."""
    with Arbor(tmp_path / "data", ["--replSet", "rs0", "--setParameter", "enableTestCommands=1"]) as arbor:
        yield arbor


def test_before_the_set_is_initiated(fresh):
    with direct(fresh, retryWrites=False) as client:
        hello = client.admin.command("hello")
        assert hello["isWritablePrimary"] is False and hello["secondary"] is False and hello["isreplicaset"] is True
        assert "setName" not in hello and hello["info"] == "Does not have a valid replica set config"
        assert code_of(lambda: client.admin.command("replSetGetStatus")) == 94
        assert code_of(lambda: client.admin.command("replSetGetConfig")) == 94
        assert code_of(lambda: client.d.c.insert_one({})) == 10107
        assert code_of(lambda: client.d.c.find_one()) == 13436
        assert client.admin.command("ping")["ok"] == 1


def test_initiate(fresh):
    with direct(fresh) as client:
        reply = client.admin.command("replSetInitiate")
        own = f"127.0.0.1:{fresh.port}"
        assert reply["me"] == own and "default configuration" in reply["info2"]
        assert code_of(lambda: client.admin.command("replSetInitiate")) == 23
        config = client.admin.command("replSetGetConfig")["config"]
        assert config["_id"] == "rs0" and config["version"] == 1 and config["term"] == 1
        assert [(m["_id"], m["host"], m["priority"], m["votes"]) for m in config["members"]] == [(0, own, 1, 1)]
        assert isinstance(config["settings"]["replicaSetId"], bson.ObjectId)
        assert client.local["system.replset"].find_one() == config
        hello = client.admin.command("hello")
        assert hello["isWritablePrimary"] is True and hello["secondary"] is False
        assert hello["hosts"] == [own] and hello["primary"] == hello["me"] == own
        assert hello["setName"] == "rs0" and hello["setVersion"] == 1
        assert str(hello["electionId"]) == "7fffffff0000000000000001"
        last = hello["lastWrite"]
        assert last["opTime"]["t"] == 1 and last["opTime"]["ts"] >= last["majorityOpTime"]["ts"] > bson.Timestamp(0, 0)
        client.d.c.insert_one({"_id": 1})
        assert client.d.c.find_one() == {"_id": 1}


def test_a_client_finds_the_set_by_its_name(replica_set, set_client):
    set_client.admin.command("ping")
    assert set_client.primary == ("127.0.0.1", replica_set.port)
    set_client.by_name.c.insert_one({"_id": 1})
    assert set_client.by_name.c.find_one({"_id": 1}) == {"_id": 1}
    set_client.drop_database("by_name")
    other = pymongo.MongoClient(f"mongodb://127.0.0.1:{replica_set.port}/?replicaSet=other", serverSelectionTimeoutMS=300)
    with other, pytest.raises(pymongo.errors.ServerSelectionTimeoutError):
        other.admin.command("ping")


@pytest.mark.parametrize("config, code", [
    ({"_id": "other", "members": [{"_id": 0, "host": "127.0.0.1:{port}"}]}, 93),
    ({"_id": "rs0", "members": [{"_id": 0, "host": "127.0.0.1:1"}]}, 74),
    ({"_id": "rs0", "members": [{"_id": 0, "host": "127.0.0.1:{port}"}, {"_id": 1, "host": "127.0.0.1:1"}]}, 74),
    ({"_id": "rs0", "members": [{"_id": 0, "host": "127.0.0.1:{port}", "priority": 0}]}, 93),
    ({"_id": "rs0", "version": 2, "members": [{"_id": 0, "host": "127.0.0.1:{port}"}]}, 103),
    ({"_id": "rs0", "members": [{"host": "127.0.0.1:{port}"}]}, 40414),
    ({"_id": "rs0", "members": [], "colour": "red"}, 40415),
    ({"_id": "rs0", "members": []}, 93),
])
def test_bad_configurations(fresh, config, code):
    for member in config["members"]:
        member["host"] = member["host"].replace("{port}", str(fresh.port))
    with direct(fresh) as client:
        assert code_of(lambda: client.admin.command("replSetInitiate", config)) == code
        assert code_of(lambda: client.admin.command("replSetGetStatus")) == 94


def test_a_standalones_data_stays_and_a_restart_keeps_the_office(tmp_path):
    with Arbor(tmp_path / "data") as alone, direct(alone) as client:
        client.d.c.insert_many([{"_id": i} for i in range(100)])
        port = alone.port
        assert code_of(lambda: client.admin.command("replSetGetStatus")) == 76
        assert code_of(lambda: client.admin.command("replSetInitiate")) == 76
    member = ReplicaSet(tmp_path / "data", port=port)
    with member, pymongo.MongoClient(member.uri) as client:
        assert client.d.c.count_documents({}) == 100
        client.d.c.insert_one({"_id": 100})
    member.start()
    with direct(member) as client:
        assert client.admin.command("hello")["isWritablePrimary"] is True
    member.kill()
    with member, direct(member) as client:
        assert client.admin.command("hello")["isWritablePrimary"] is True
        assert client.d.c.count_documents({}) == 101
    # another port is another member
    moved = Arbor(tmp_path / "data", ["--replSet", "rs0"])
    with moved, direct(moved, retryWrites=False) as client:
        assert client.admin.command("hello")["isWritablePrimary"] is False
        assert code_of(lambda: client.d.c.insert_one({})) == 10107
        config = client.local["system.replset"].find_one()
        config["members"][0]["host"] = f"127.0.0.1:{moved.port}"
        config["version"] += 1
        assert code_of(lambda: client.admin.command("replSetReconfig", config)) == 10107
        client.admin.command("replSetReconfig", config, force=True)
        client.d.c.insert_one({"_id": 101})


def test_status(set_client):
    status = set_client.admin.command("replSetGetStatus")
    assert status["set"] == "rs0" and status["myState"] == 1 and status["term"] == 1
    (member,) = status["members"]
    assert member["stateStr"] == "PRIMARY" and member["self"] is True and member["health"] == 1
    assert member["optime"]["t"] == 1 and isinstance(member["electionDate"], datetime.datetime)
    assert status["optimes"]["appliedOpTime"]["ts"] >= status["optimes"]["durableOpTime"]["ts"]


def test_reconfig(fresh):
    with direct(fresh) as client:
        client.admin.command("replSetInitiate")
        config = client.admin.command("replSetGetConfig")["config"]
        assert code_of(lambda: client.admin.command("replSetReconfig", config)) == 103
        config["version"] += 1
        config["members"][0]["tags"] = {"dc": "east"}
        client.admin.command("replSetReconfig", config)
        hello = client.admin.command("hello")
        assert hello["setVersion"] == 2 and hello["tags"] == {"dc": "east"}
        forced = {**config, "version": 1}
        client.admin.command("replSetReconfig", forced, force=True)
        assert client.admin.command("hello")["setVersion"] > 10_000


def test_hello_waits_for_news(fresh):
    with direct(fresh) as waiting, direct(fresh) as client:
        hello = client.admin.command("hello")
        version = hello["topologyVersion"]
        begin = time.monotonic()
        again = waiting.admin.command({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 300})
        assert again["topologyVersion"] == version and time.monotonic() - begin >= 0.29
        with ThreadPoolExecutor() as pool:
            asked = {"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 30_000}
            pending = pool.submit(waiting.admin.command, asked)
            time.sleep(0.2)
            assert not pending.done()
            begin = time.monotonic()
            client.admin.command("replSetInitiate")
            news = pending.result(timeout=10)
        assert news["isWritablePrimary"] is True and time.monotonic() - begin < 5
        assert news["topologyVersion"]["counter"] > version["counter"]
        begin = time.monotonic()
        assert waiting.admin.command(asked)["setName"] == "rs0" and time.monotonic() - begin < 5
        ahead = {**news["topologyVersion"], "counter": bson.Int64(1_000_000)}
        for fields, code in [
            ({"topologyVersion": version}, 31368),
            ({"maxAwaitTimeMS": 100}, 31372),
            ({"topologyVersion": version, "maxAwaitTimeMS": -1}, 31373),
            ({"topologyVersion": ahead, "maxAwaitTimeMS": 100}, 31382),
            ({"topologyVersion": {"counter": bson.Int64(0)}, "maxAwaitTimeMS": 100}, 40414),
        ]:
            assert code_of(lambda: client.admin.command({"hello": 1, **fields})) == code


class Heartbeats(pymongo.monitoring.ServerHeartbeatListener):
    def __init__(self):
        self.ended = []

    def started(self, event):
        pass

    def failed(self, event):
        pass

    def succeeded(self, event):
        self.ended.append((event.awaited, event.duration))


def test_drivers_stream_the_heartbeats(replica_set):
    beats = Heartbeats()
    options = {"heartbeatFrequencyMS": 500, "event_listeners": [beats]}
    with pymongo.MongoClient(replica_set.uri, **options) as client:
        client.admin.command("ping")
        time.sleep(2.2)
    awaited = [took for was_awaited, took in beats.ended if was_awaited]
    assert 2 <= len(awaited) <= 6 and all(took > 0.4 for took in awaited[1:]), beats.ended


def test_stepping_down(fresh):
    with direct(fresh, retryWrites=False) as client:
        admin = client.admin
        assert code_of(lambda: admin.command("replSetStepDown", 60)) == 10107
        admin.command("replSetInitiate")
        client.d.c.insert_one({"_id": 1})
        assert code_of(lambda: admin.command("replSetStepDown", 60)) == 262
        assert code_of(lambda: admin.command("replSetStepDown", -1)) == 2
        assert code_of(lambda: admin.command("replSetStepDown", 5)) == 2
        assert code_of(lambda: admin.command("replSetFreeze", 10)) == 95
        assert code_of(lambda: admin.command("replSetMaintenance", True)) == 95
        assert code_of(lambda: admin.command("replSetSyncFrom", "127.0.0.1:1")) == 95
        assert code_of(lambda: admin.command("replSetAbortPrimaryCatchUp", 1)) == 20
        assert admin.command("replSetGetRBID")["rbid"] == 1
        own = admin.command("hello")["me"]
        assert admin.command("replSetTestEgress", 1, target=own)["ok"] == 1
        assert code_of(lambda: admin.command("replSetTestEgress", 1, target="127.0.0.1:1")) == 74

        before = admin.command("hello")["topologyVersion"]["counter"]
        admin.command("replSetStepDown", 60, force=True)
        hello = admin.command("hello")
        assert hello["isWritablePrimary"] is False and hello["secondary"] is True and "primary" not in hello
        assert hello["topologyVersion"]["counter"] == before + 1
        refused = raised(lambda: client.d.c.insert_one({}))
        assert refused["code"] == 10107 and refused["topologyVersion"] == hello["topologyVersion"]
        assert client.d.c.find_one() == {"_id": 1}, "a secondary is read by who asks for it"
        assert admin.command("replSetGetStatus")["members"][0]["stateStr"] == "SECONDARY"
        admin.command("replSetFreeze", 0)
        assert admin.command("hello")["isWritablePrimary"] is True

        admin.command("replSetStepDown", 1, force=True)
        begin = time.monotonic()
        while not admin.command("hello")["isWritablePrimary"]:
            assert time.monotonic() - begin < 15
            time.sleep(0.05)
        client.d.c.insert_one({"_id": 2})


def raised(call):
    with pytest.raises((OperationFailure, NotPrimaryError)) as caught:
        call()
    return caught.value.details


def test_a_client_rides_out_a_step_down(fresh):
    with direct(fresh) as client:
        client.admin.command("replSetInitiate")
    uri = f"mongodb://127.0.0.1:{fresh.port}/?replicaSet=rs0"
    with pymongo.MongoClient(uri) as client:
        client.d.c.insert_one({"_id": 0})
        client.admin.command("replSetStepDown", 1, force=True)
        client.d.c.insert_one({"_id": 1})
        assert client.d.c.count_documents({}) == 2


def test_the_oplogs_size_is_kept(tmp_path):
    with ReplicaSet(tmp_path / "data", ["--oplogSize", "64"]) as member, direct(member) as client:
        admin = client.admin
        assert code_of(lambda: admin.command("replSetResizeOplog", 1)) == 72
        assert code_of(lambda: admin.command("replSetResizeOplog", 1, size=10.0)) == 2
        assert code_of(lambda: admin.command("replSetResizeOplog", 1, minRetentionHours=-1.0)) == 2
        admin.command("replSetResizeOplog", 1, size=2000.0, minRetentionHours=1.5)
        admin.command("appendOplogNote", data={"from": "a test"})
    with member, direct(member) as client:
        kept = client.local["replset.oplogSettings"].find_one()
        assert (kept["size"], kept["minRetentionHours"]) == (2000.0, 1.5)
        starts = list(client.local.startup_log.find())
        assert len(starts) == 2 and starts[0]["pid"] != starts[1]["pid"] and "replication" in starts[0]["cmdLine"]


OWN_FACTS = ["replset.oplogSettings", "startup_log", "system.replset"]


def listed(client, database):
    return sorted(entry["name"] for entry in client[database].list_collections() if entry["name"] != "oplog.rs")


def test_what_a_member_keeps_about_itself_is_not_in_the_log(tmp_path):
    with ReplicaSet(tmp_path / "data") as member, direct(member) as client:
        client.admin.command("replSetResizeOplog", 1, size=2000.0)
        assert listed(client, "local") == OWN_FACTS
        # the store has none of them
        stats = client.local.command("dbStats")
        assert (stats["collections"], stats["objects"]) == (0, 0), stats
        for name in OWN_FACTS:
            assert len(list(client.local[name].find())) == client.local[name].count_documents({}) == 1
            assert code_of(lambda name=name: client.local[name].insert_one({"_id": 7})) == 73
        client.local.own.insert_one({"_id": 1})
        assert listed(client, "local") == ["own", *OWN_FACTS]
    (member.dbpath / "arbor.local").write_bytes(b"damaged")
    with member, direct(member) as client:
        assert "arbor.local is damaged" in member.log_path.read_text()
        assert client.local["replset.oplogSettings"].find_one() is None and client.local.startup_log.count_documents({}) == 1
        client.admin.command("replSetResizeOplog", 1, size=3000.0)
    with member, direct(member) as client:
        assert client.local["replset.oplogSettings"].find_one()["size"] == 3000.0 and client.local.startup_log.count_documents({}) == 2


def test_a_directory_that_has_the_members_own_facts_as_rows(tmp_path):
    """As releases up to 2026-11-27 left it."""
    with Arbor(tmp_path / "data") as arbor, direct(arbor) as client:
        client.local.create_collection("startup_log", capped=True, size=10 << 20)
        client.local.startup_log.insert_many([{"_id": f"host-{number:03}", "pid": number} for number in range(120)])
        client.local["replset.oplogSettings"].insert_one({"_id": "oplog", "size": 2000.0, "minRetentionHours": 1.5})
    member = ReplicaSet(tmp_path / "data")
    with member, direct(member) as client:
        assert client.local["replset.oplogSettings"].find_one() == {"_id": "oplog", "size": 2000.0, "minRetentionHours": 1.5}
        assert client.local.command("collStats", "oplog.rs")["maxSize"] == 2000 << 20
        starts = list(client.local.startup_log.find())
        assert len(starts) == 100 and [start["pid"] for start in starts[:-1]] == list(range(21, 120)), starts[0]
        assert listed(client, "local") == OWN_FACTS and client.local.command("dbStats")["collections"] == 0
    with member, direct(member) as client:
        assert client.local.startup_log.count_documents({}) == 100 and client.local.command("dbStats")["collections"] == 0
        assert client.local["replset.oplogSettings"].find_one()["size"] == 2000.0


def test_the_oplog_expires_by_time_alone(tmp_path):
    def expiry(client):
        found = client.admin.command("replGetExpireOplog")
        return found["expireOplogDays"], found["expireOplogHours"]

    with ReplicaSet(tmp_path / "data", ["--oplogSize", "64"]) as member, direct(member) as client:
        assert expiry(client) == (0, 0), "it is kept by its size"
        assert code_of(lambda: client.admin.command("replSetExpireOplog", 1, expireOplogDays=0, expireOplogHours=0)) == 2
        assert code_of(lambda: client.admin.command("replSetExpireOplog", 1, expireOplogHours=-1)) == 2
        client.admin.command("replSetExpireOplog", 1, expireOplogDays=2, expireOplogHours=1.5)
        assert expiry(client) == (2, 1.5)
    with member, direct(member) as client:
        assert expiry(client) == (2, 1.5), "also after a restart"
        client.admin.command("replSetResizeOplog", 1, size=2000.0)
        assert expiry(client) == (0, 0)


def test_get_last_error(replica_set):
    with pymongo.MongoClient(replica_set.direct_uri, maxPoolSize=1) as client:
        client.d.with_options(write_concern=pymongo.WriteConcern(w=0)).last.insert_one({})
        last = client.d.command("getLastError", w="majority", j=True)
        assert last["err"] is None and isinstance(last["lastOp"], bson.Timestamp)
        assert str(last["electionId"]) == "7fffffff0000000000000001"
        refused = client.d.command("getLastError", w=3, check=False)
        assert refused["code"] == 100 and refused["err"] == "Not enough data-bearing nodes"


def test_server_status_reports_the_set(set_client, client):
    status = set_client.admin.command("serverStatus")
    assert status["repl"]["setName"] == "rs0" and status["repl"]["rbid"] == 1 and status["opcountersRepl"]["insert"] == 0
    assert "repl" not in client.admin.command("serverStatus")


@pytest.fixture
def set_shell(replica_set):
    return lambda script: run_mongosh(replica_set.uri, script)


def test_mongosh_knows_the_set(set_shell):
    results = set_shell("""
        out(rs.status().members.map(m => m.stateStr));
        out(rs.conf().members.length);
        out(rs.isMaster ? db.isMaster().setName : db.hello().setName);
        const config = rs.conf(); config.settings.heartbeatIntervalMillis = 3000;
        out(rs.reconfig(config).ok);
        out(rs.conf().settings.heartbeatIntervalMillis);
        try { rs.stepDown() } catch (error) { out(error.code) }
        try { rs.initiate() } catch (error) { out(error.code) }
        out(rs.printSecondaryReplicationInfo().type);
        const session = db.getMongo().startSession({causalConsistency: true});
        const c = session.getDatabase('shell').causal;
        c.insertOne({_id: 1}); out(c.findOne()._id); c.drop(); session.endSession();
    """)
    assert results == [["PRIMARY"], 1, "rs0", 1, 3000, 262, 23, "StatsResult", 1]


def test_mongosh_initiates(fresh):
    uri = f"mongodb://127.0.0.1:{fresh.port}/?directConnection=true"
    results = run_mongosh(uri, """
        try { rs.status() } catch (error) { out(error.code) }
        out(rs.initiate().ok); out(rs.status().myState);
    """)
    assert results == [94, 1, 1]


def send(connection, command):
    body = b"\0\0\0\0\0" + bson.encode({**command, "$db": "admin"})
    connection.sendall(struct.pack("<iiii", 16 + len(body), 1, 0, 2013) + body)


def receive(connection):
    head = connection.recv(16, socket.MSG_WAITALL)
    return bson.decode(connection.recv(struct.unpack("<i", head[:4])[0] - 16, socket.MSG_WAITALL)[5:])


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_thousand_clients_wait_for_nothing(fresh):
    """Heartbeats that wait cost nothing while there is no news, and all hear of it when there is."""
    with direct(fresh) as client, contextlib.ExitStack() as opened:
        version = client.admin.command("hello")["topologyVersion"]
        waiting = [opened.enter_context(socket.create_connection(("127.0.0.1", fresh.port))) for _ in range(1000)]
        for connection in waiting:
            send(connection, {"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 60_000})
        time.sleep(1)
        before, begin = cpu_seconds(fresh.process.pid), time.monotonic()
        time.sleep(3)
        share = (cpu_seconds(fresh.process.pid) - before) / (time.monotonic() - begin)
        assert share < 0.05, f"{share:.1%} of a core"
        client.admin.command("replSetInitiate")
        begin = time.monotonic()
        assert all(receive(connection)["isWritablePrimary"] for connection in waiting)
        assert time.monotonic() - begin < 10
