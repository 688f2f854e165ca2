"""`arbor cluster`: a set, or shards behind a router, on one machine by one command."""

import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import threading
import time

import pymongo
import pytest

from arbor_process import WITH_ETCD, free_ports
from mongosh import run_mongosh


def children(pid):
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout
    return [int(one) for one in found.split()]


def wait_for(what, condition, seconds=60):
    until = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < until, f"waited {seconds} s in vain for {what}"
        time.sleep(0.05)


def begin(directory, members, port, *options):
    output = open(directory / "output", "w+")
    command = [os.environ["ARBOR"], "cluster", "--members", str(members), "--dbpath", str(directory / "data"), "--port", str(port)]
    return subprocess.Popen([*command, *options], stdout=output, stderr=output, stdin=subprocess.DEVNULL)


def uri_of(directory, process):
    def line():
        text = (directory / "output").read_text()
        assert process.poll() is None, text
        return re.search(r"^mongodb://\S+$", text, re.MULTILINE)

    return wait_for("the connection string", line, 120).group()


@pytest.fixture
def cluster(tmp_path):
    begun, port = [], free_ports(10, WITH_ETCD)

    def start(members, *options):
        begun.append(begin(tmp_path, members, port, *options))
        return begun[-1], uri_of(tmp_path, begun[-1])

    yield start
    for process in begun:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=90)


def test_one_member_begins_again_and_ends_with_its_parent(cluster):
    process, uri = cluster(1)
    with pymongo.MongoClient(uri, serverSelectionTimeoutMS=20000) as client:
        client.test.trees.insert_one({"_id": 1})
        (member,) = children(process.pid)
        os.kill(member, signal.SIGKILL)
        wait_for("another process", lambda: [pid for pid in children(process.pid) if pid != member])
        assert client.test.trees.count_documents({}) == 1
    (member,) = children(process.pid)
    # Nothing survives its parent, not even when that is killed.
    process.kill()
    process.wait()
    wait_for("the end of the member", lambda: not pathlib.Path(f"/proc/{member}/cmdline").exists() or pathlib.Path(f"/proc/{member}/cmdline").read_bytes() == b"")


def test_ctrl_c_stops_all_and_the_data_stays(cluster, tmp_path):
    process, uri = cluster(1, "--", "--setParameter", "ttlMonitorSleepSecs=7")
    with pymongo.MongoClient(uri, serverSelectionTimeoutMS=20000) as client:
        client.test.trees.insert_one({"_id": 1})
        assert client.admin.command("getParameter", ttlMonitorSleepSecs=1)["ttlMonitorSleepSecs"] == 7
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 0
    assert '"exitCode":0' in (tmp_path / "data/member0/arbor.log").read_text().replace(" ", "")
    process, uri = cluster(1)
    with pymongo.MongoClient(uri, serverSelectionTimeoutMS=20000) as client:
        assert client.test.trees.find_one() == {"_id": 1}
    process.send_signal(signal.SIGINT)
    process.wait(timeout=60)
    other = begin(tmp_path, 1, free_ports(1, WITH_ETCD))
    assert other.wait(timeout=60) == 100
    assert "was initiated with other addresses" in (tmp_path / "output").read_text()


def test_what_cannot_begin_says_why(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = subprocess.run([os.environ["ARBOR"], "cluster", "--dbpath", str(tmp_path), "--port", port], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 48 and f"port {port} of 127.0.0.1: Address already in use" in ended.stderr
    for options in (["--members", "0"], ["--members", "8"], ["--port", "65535"], ["--port", "x"], ["--shards", "0"], ["--shards", "2", "--replSet", "x"]):
        ended = subprocess.run([os.environ["ARBOR"], "cluster", "--dbpath", str(tmp_path), *options], capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 2, (options, ended.stderr)
    assert list(tmp_path.iterdir()) == []


def test_shards_behind_a_router(cluster, tmp_path):
    process, uri = cluster(1, "--shards", "2")
    assert len(children(process.pid)) == 4
    with pymongo.MongoClient(uri, serverSelectionTimeoutMS=20000) as client:
        assert client.admin.command("hello")["msg"] == "isdbgrid"
        assert [shard["_id"] for shard in client.admin.command("listShards")["shards"]] == ["s0", "s1"]
        client.admin.command("shardCollection", "test.trees", key={"_id": "hashed"})
        client.test.trees.insert_many([{"_id": n} for n in range(100)])
        # the router comes again as the members do
        router = next(pid for pid in children(process.pid) if b"route" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"))
        os.kill(router, signal.SIGKILL)
        wait_for("another router", lambda: len(children(process.pid)) == 4 and router not in children(process.pid))

        def count():
            try:
                return client.test.trees.count_documents({})
            except pymongo.errors.ConnectionFailure:
                return None

        assert wait_for("an answer of the router", count) == 100
    status = str(run_mongosh(uri, "out(EJSON.stringify(sh.status().value))"))
    for expected in ("shardingVersion", "test.trees", "s0/127.0.0.1", "s1/127.0.0.1"):
        assert expected in status
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=90) == 0
    # the second start finds the cluster as it was
    process, uri = cluster(1, "--shards", "2")
    with pymongo.MongoClient(uri, serverSelectionTimeoutMS=20000) as client:
        assert client.test.trees.count_documents({}) == 100


def votes(member):
    """The voters of a member's etcd, and those that do not vote yet."""
    coordinator = member.admin.command("replSetGetStatus")["arbor"]["coordinator"]
    return set(coordinator["voters"]), set(coordinator["learners"])


def test_shards_of_three_members(cluster, tmp_path):
    """Writes of the shards wait for messages of their members: no command may hold the threads that read those."""
    process, uri = cluster(3, "--shards", "2")
    assert len(children(process.pid)) == 10
    with pymongo.MongoClient(uri, serverSelectionTimeoutMS=20000) as client:
        client.admin.command("shardCollection", "test.trees", key={"_id": "hashed"})
        client.test.trees.insert_many([{"_id": n} for n in range(100)])
        # reads by `_id` continue while the version of the collection changes
        chunk = client.config.chunks.find_one({"shard": "s0"})
        moved = threading.Thread(target=lambda: client.admin.command("moveRange", "test.trees", min=chunk["min"], toShard="s1"))
        moved.start()
        while moved.is_alive():
            assert client.test.trees.find_one({"_id": random.randrange(100)}) is not None
        moved.join()
        assert client.test.trees.count_documents({}) == 100
        client.test.trees.drop()
        assert client.test.trees.count_documents({}) == 0
        hosts = client.config.shards.find_one({"_id": "s0"})["host"].split("/")[1].split(",")
        with pymongo.MongoClient(f"mongodb://{hosts[1]}/?directConnection=true") as member:
            wait_for("three voters of etcd", lambda: votes(member) == (set(hosts), set()))
