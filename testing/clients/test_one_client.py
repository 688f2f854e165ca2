"""What one client may take from all others: descriptors, names, the log; and how the server ends when a terminal does."""

import json
import os
import signal
import socket
import threading
import time

import pymongo
import pytest
from pymongo.errors import OperationFailure
from pymongo.write_concern import WriteConcern

from arbor_process import Arbor


def test_connections_leave_descriptors_for_writes(tmp_path):
    with Arbor(tmp_path / "data", prefix=["prlimit", "--nofile=400:400"]) as arbor:
        with pymongo.MongoClient(arbor.uri, serverSelectionTimeoutMS=10_000, maxPoolSize=2) as client:
            c = client.d.get_collection("c", write_concern=WriteConcern(w=1, j=True))
            c.insert_one({"_id": 0})
            sockets = [socket.create_connection(("127.0.0.1", arbor.port), timeout=5) for _ in range(450)]
            # a refused connection is closed by the server; one that is taken stays open
            refused = sum(1 for s in sockets[250:] if s.recv(1) == b"")
            assert refused == 200
            for _ in range(20):
                c.insert_many([{"p": os.urandom(50_000)} for _ in range(20)])
            client.admin.command("fsync")
            status = client.admin.command("serverStatus")["connections"]
            assert status["current"] + status["available"] == 200 and status["rejected"] >= 200
            for s in sockets:
                s.close()
        assert "too many open connections" in arbor.log_path.read_text()


def test_the_limit_of_descriptors_is_raised(tmp_path):
    with Arbor(tmp_path / "data", prefix=["prlimit", "--nofile=256:4096"]) as arbor:
        limits = open(f"/proc/{arbor.process.pid}/limits").read()
        (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
        assert line.split()[3:5] == ["4096", "4096"]


def test_a_hang_up_is_a_clean_end(tmp_path):
    # these tests may run below nohup themselves
    arbor = Arbor(tmp_path / "data", prefix=["env", "--default-signal=HUP"])
    arbor.start()
    with pymongo.MongoClient(arbor.uri, serverSelectionTimeoutMS=10_000) as client:
        client.d.c.insert_many([{"_id": i} for i in range(10)])
    arbor.process.send_signal(signal.SIGHUP)
    assert arbor.process.wait(60) == 0
    assert '"signal":"SIGHUP"' in arbor.log_path.read_text()
    arbor.start()
    with pymongo.MongoClient(arbor.uri, serverSelectionTimeoutMS=10_000) as client:
        assert client.d.c.count_documents({}) == 10
    assert '"recordsReplayed":0' in arbor.log_path.read_text().rsplit("Recovery done", 1)[1]
    arbor.stop()


def test_nohup_keeps_a_server_through_a_hang_up(tmp_path):
    with Arbor(tmp_path / "data", prefix=["nohup"]) as arbor:
        arbor.process.send_signal(signal.SIGHUP)
        with pymongo.MongoClient(arbor.uri, serverSelectionTimeoutMS=10_000) as client:
            assert client.admin.command("ping")["ok"] == 1


def test_sigusr2_logs_what_runs(tmp_path):
    with Arbor(tmp_path / "data") as arbor, pymongo.MongoClient(arbor.uri, serverSelectionTimeoutMS=10_000) as client:
        client.d.create_collection("tail", capped=True, size=4096)
        client.d.tail.insert_one({"secret": 1})
        tail = client.d.tail.find({"secret": 1}, cursor_type=pymongo.CursorType.TAILABLE_AWAIT).max_await_time_ms(20_000)
        next(tail)
        waiting = threading.Thread(target=lambda: next(tail, None))
        waiting.start()
        deadline = time.monotonic() + 10
        while '"msg":"Operation running"' not in arbor.log_path.read_text() and time.monotonic() < deadline:
            arbor.process.send_signal(signal.SIGUSR2)
            time.sleep(0.1)
        log = [json.loads(line) for line in arbor.log_path.read_text().splitlines() if "Operation running" in line]
        assert any(line["attr"]["ns"] == "d.tail" for line in log)
        assert "secret" not in str(log)
        client.d.tail.insert_one({"secret": 1})
        waiting.join(10)
        assert not waiting.is_alive()


def test_rotated_logs_are_all_kept(tmp_path):
    log = tmp_path / "server.log"
    with Arbor(tmp_path / "data", ["--logpath", str(log)]) as arbor:
        with pymongo.MongoClient(arbor.uri, serverSelectionTimeoutMS=10_000) as client:
            for _ in range(5):
                client.admin.command("logRotate")
    assert len(list(tmp_path.glob("server.log*"))) == 6


OF_SERVER = ["config.transactions", "config.image_collection", "local.system.replset", "admin.system.version"]


@pytest.mark.parametrize("name", OF_SERVER)
def test_clients_do_not_write_what_is_the_servers(set_client, name):
    db, _, coll = name.partition(".")
    ours = set_client.own.of_server
    ours.replace_one({"_id": 1}, {"_id": 1}, upsert=True)
    update = {"q": {}, "u": {"$set": {"a": 1}}, "upsert": True}
    merge = {"$merge": {"into": {"db": db, "coll": coll}}}
    admin = set_client.admin
    attempts = [
        lambda: set_client[db].command("insert", coll, documents=[{"_id": 1}]),
        lambda: set_client[db].command("update", coll, updates=[update]),
        lambda: set_client[db].command("delete", coll, deletes=[{"q": {}, "limit": 0}]),
        lambda: set_client[db].command("findAndModify", coll, query={}, remove=True),
        lambda: set_client[db].command("create", coll),
        lambda: set_client[db].command("drop", coll),
        lambda: set_client[db].command("createIndexes", coll, indexes=[{"key": {"a": 1}, "name": "a"}]),
        lambda: admin.command("renameCollection", name, to="own.elsewhere"),
        lambda: admin.command("renameCollection", "own.of_server", to=name, dropTarget=True),
        lambda: ours.aggregate([merge]),
    ]
    for attempt in attempts:
        with pytest.raises(OperationFailure) as refused:
            attempt()
        # $merge and a rename between databases have codes of their own for internal databases
        assert refused.value.code in (73, 31320, 20), refused.value
    bulk = {"bulkWrite": 1, "ops": [{"insert": 0, "document": {"_id": 1}}], "nsInfo": [{"ns": name}]}
    try:
        assert set_client.admin.command(bulk)["nErrors"] == 1
    except OperationFailure as refused:
        assert refused.code == 73


def test_a_closed_connection_is_not_waited_for(tmp_path):
    """Clients that connect and leave at once do not use up connections."""
    with Arbor(tmp_path / "data", ["--maxConns", "20"]) as arbor:
        def come_and_go():
            for _ in range(50):
                socket.create_connection(("127.0.0.1", arbor.port), timeout=5).close()

        threads = [threading.Thread(target=come_and_go) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        with pymongo.MongoClient(arbor.uri, serverSelectionTimeoutMS=10_000) as client:
            assert client.admin.command("ping")["ok"] == 1
