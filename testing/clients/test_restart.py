"""What a user does on the first day: kill -9, start again, find everything; and the clear messages of a wrong start."""

import os
import signal
import socket
import subprocess
import time

import pymongo
import pytest

from arbor_process import Arbor, free_port


@pytest.fixture
def arbor(tmp_path):
    """A server of the test's own, ended even when the test fails."""
    arbor = Arbor(tmp_path / "data")
    yield arbor
    arbor.stop()


def test_kill_and_restart_keeps_acknowledged_writes(arbor):
    arbor.start()
    with pymongo.MongoClient(arbor.uri, w=1, journal=True) as client:
        client.d.c.create_index("k", unique=True)
        client.d.c.insert_many([{"_id": i, "k": i} for i in range(1000)])
        client.d.c.update_many({"k": {"$lt": 10}}, {"$set": {"z": 1}})
        client.d.c.delete_one({"_id": 999})
    arbor.kill()
    arbor.start()
    with pymongo.MongoClient(arbor.uri) as client:
        assert client.d.c.estimated_document_count() == 999 == client.d.c.count_documents({})
        assert client.d.c.count_documents({"z": 1}) == 10
        assert client.d.validate_collection("c", full=True)["valid"]
        assert set(client.d.c.index_information()) == {"_id_", "k_1"}
    assert arbor.stop() == 0


def test_sigterm_is_a_clean_shutdown(arbor):
    arbor.start()
    with pymongo.MongoClient(arbor.uri) as client:
        client.d.c.insert_one({"_id": 1})
    assert arbor.stop() == 0
    arbor.start()
    with pymongo.MongoClient(arbor.uri) as client:
        assert client.d.c.find_one() == {"_id": 1}
    arbor.stop()


def run_until_end(*flags):
    done = subprocess.run(
        [os.environ["ARBOR"], "serve", *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30
    )
    return done.returncode, done.stdout + done.stderr


def test_clear_messages(tmp_path):
    missing = tmp_path / "missing"
    code, text = run_until_end("--dbpath", str(missing), "--port", str(free_port()))
    assert code != 0 and str(missing) in text

    with Arbor(tmp_path / "one") as running:
        code, text = run_until_end("--dbpath", str(running.dbpath), "--port", str(free_port()))
        assert code != 0 and "another process" in text and str(running.dbpath) in text
        (tmp_path / "two").mkdir()
        code, text = run_until_end("--dbpath", str(tmp_path / "two"), "--port", str(running.port))
        assert code != 0 and str(running.port) in text and "in use" in text.lower()

    code, text = run_until_end("--dbpath", str(tmp_path), "--noSuchFlag")
    assert code != 0 and "noSuchFlag" in text


@pytest.mark.parametrize("form", ["yaml", "dotted", "old"])
def test_configuration_files(tmp_path, form):
    port, data = free_port(), tmp_path / "data"
    data.mkdir()
    text = {
        "yaml": f"storage:\n  dbPath: {data}\n  journal:\n    commitIntervalMs: 50\nnet:\n  port: {port}\n"
                f"operationProfiling:\n  slowOpThresholdMs: 2000\n",
        "dotted": f"storage.dbPath: {data}\nnet:\n  port: {port}\noperationProfiling.slowOpThresholdMs: 2000\n"
                  f"storage.rocksdb.compression: snappy\n",
        "old": f"dbpath = {data}\nport={port}\nslowms = 2000\noplogSize = 2000\n",
    }[form]
    config = tmp_path / "arbor.conf"
    config.write_text(text)
    process = subprocess.Popen([os.environ["ARBOR"], "serve", "--config", str(config)],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, "the server refused its configuration"
            time.sleep(0.05)
        with pymongo.MongoClient(f"mongodb://127.0.0.1:{port}/") as client:
            options = client.admin.command("getCmdLineOpts")
            assert options["parsed"]["storage"]["dbPath"] == str(data)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def test_a_thousand_idle_connections(server, client):
    def rss():
        with open(f"/proc/{server.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    before = rss()
    sockets = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(1000)]
    deadline = time.monotonic() + 30
    while client.admin.command("serverStatus")["connections"]["current"] < 1000:
        assert time.monotonic() < deadline, "the server accepts a thousand connections"
        time.sleep(0.05)
    assert rss() - before < 64 * 1024, "an idle connection costs less than 64 KiB"
    for sock in sockets:
        sock.close()
