"""The coordinator of several members, and what is wrong with it: no etcd, one that is too old, one of another deployment or of a newer release."""

import base64
import http.server
import json
import os
import pathlib
import subprocess
import threading
import urllib.request

import pymongo
import pytest

from arbor_process import Arbor, Members, free_port
from test_member_changes import refusal
from test_members import direct, documents, hello, in_sync, primary_of, status, until

KEY = "/arbor/1/rs/rs0/state"


def binary():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    found = sorted((cache / "arbor").glob("etcd-*/etcd"))
    if not found:
        pytest.skip("NOTE: there is no etcd here (scripts/setup etcd)")
    return found[-1]


class Etcd:
    """An etcd that the tests run."""

    def __init__(self, directory):
        self.directory, self.ports, self.process = directory, (free_port(), free_port()), None

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.ports[0]}"

    def start(self):
        client, peer = (f"http://127.0.0.1:{port}" for port in self.ports)
        with open(f"{self.directory}.log", "ab") as log:
            self.process = subprocess.Popen(
                [binary(), f"--data-dir={self.directory}", f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
                 f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        until(self.answers, 30, "etcd")

    def answers(self):
        try:
            return self.post("/v3/kv/range", {"key": encoded(KEY)})
        except OSError:
            return None

    def post(self, path, body):
        request = urllib.request.Request(self.endpoint + path, json.dumps(body).encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=5) as reply:
            return json.load(reply)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()


class Sets(Members):
    """Members whose coordinator is an etcd."""

    def __init__(self, directory, flags, count=2):
        super().__init__(directory, count, flags)

    def add_process(self):
        self.members.append(Arbor(self.directory / f"member{len(self.members)}", ["--replSet", self.NAME, *self.flags]))
        return self.members[-1]

    def initiate(self):
        with direct(self.members[0]) as first:
            first.admin.command("replSetInitiate", self.config())
        with pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=20_000) as client:
            client.db.c.insert_one({"_id": 0})
            in_sync(client, len(self.members))


def encoded(text):
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


def refused(members):
    """Returns why the set cannot be initiated; it is not, and the members still reply."""
    with direct(members.members[0]) as client:
        code, text = refusal(client, "replSetInitiate", members.config())
        assert "setName" not in hello(members.members[0]), text
        return code, text


def test_without_etcd_nothing_is_initiated(tmp_path):
    with Sets(tmp_path / "none", ["--etcdBinary", str(tmp_path / "etcd")]) as members:
        code, text = refused(members)
        assert code == 96 and "etcd" in text and str(tmp_path) in text, text
    with Sets(tmp_path / "unreachable", ["--etcd", "http://127.0.0.1:1"]) as members:
        code, text = refused(members)
        assert code == 96 and "no etcd can be reached" in text and "127.0.0.1:1" in text, text
    with Sets(tmp_path / "one", ["--etcd", "http://127.0.0.1:1"], count=1) as alone:
        # one member needs none
        with direct(alone.members[0]) as client:
            client.admin.command("replSetInitiate", alone.config())
            until(lambda: hello(alone.members[0])["isWritablePrimary"])
            client.db.c.insert_one({"_id": 0})


def test_an_etcd_that_is_too_old(tmp_path):
    class Old(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps({"etcdserver": "3.4.23", "etcdcluster": "3.4.0"}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Old)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with Sets(tmp_path, ["--etcd", f"http://127.0.0.1:{server.server_port}"]) as members:
            code, text = refused(members)
            assert code == 96 and "is etcd 3.4.23, which is too old" in text, text
    finally:
        server.shutdown()


def test_an_etcd_of_another_deployment_or_of_a_newer_release(tmp_path):
    with Etcd(tmp_path / "etcd") as etcd:
        flags = ["--etcd", etcd.endpoint]
        with Sets(tmp_path / "first", flags) as first:
            first.initiate()
            with Sets(tmp_path / "second", flags) as second:
                code, text = refused(second)
                assert code == 23 and "has an agreement of a set rs0 already" in text, text
            # with a prefix of its own it is another deployment
            with Sets(tmp_path / "third", [*flags, "--etcdPrefix", "/other"]) as third:
                third.initiate()
            with pymongo.MongoClient(first.uri, serverSelectionTimeoutMS=20_000) as client:
                client.db.c.insert_one({"_id": 1})
                in_sync(client, 2)
        foreign = {"/a/rs/rs0/state": b"\x05\0\0\0\0", "/b/rs/rs0/state": b"text"}
        newer = b"\x16\0\0\0\x10format\0\x63\0\0\0\x08x\0\x01\0"
        for key, value in (*foreign.items(), ("/c/rs/rs0/state", newer)):
            etcd.post("/v3/kv/put", {"key": encoded(key), "value": encoded(value)})
            with Sets(tmp_path / key[1], [*flags, "--etcdPrefix", key[:2]]) as members:
                code, text = refused(members)
                assert code == 23 and "has an agreement of a set rs0 already" in text, text


def test_a_member_that_is_given_the_etcd_of_another_set(tmp_path):
    """Both sets have the same name. The member says what is wrong, and has all its data when it gets the right one."""
    with Etcd(tmp_path / "one") as one, Etcd(tmp_path / "two") as two:
        with Sets(tmp_path / "a", ["--etcd", one.endpoint]) as first, Sets(tmp_path / "b", ["--etcd", two.endpoint]) as second:
            first.initiate()
            second.initiate()
            with pymongo.MongoClient(first.uri, serverSelectionTimeoutMS=20_000) as client:
                client.db.c.insert_many([{"_id": number} for number in range(1, 100)])
                lost = next(member for member in first.members if member is not first.at(client.primary))
                until(lambda: documents(lost) == list(range(100)), what="the documents")
                lost.stop()
                right, lost.flags = lost.flags, ["--replSet", "rs0", "--etcd", two.endpoint]
                lost.start()
                with direct(lost) as there:
                    error = until(lambda: status(there)["arbor"]["coordinator"].get("error"), what="the reason")
                assert "another replica set of this name" in error, error
                assert error in lost.log_path.read_text()
                # it follows its own set, which waits for it as before
                in_sync(client, 2)
                client.db.c.insert_one({"_id": 100})
                until(lambda: documents(lost) == list(range(101)), what="all documents")
                lost.stop()
                lost.flags = right
                lost.start()
                in_sync(client, 2)
                client.db.c.insert_one({"_id": 101})
                until(lambda: documents(lost) == list(range(102)), what="all documents")
                with direct(lost) as there:
                    assert "error" not in status(there)["arbor"]["coordinator"]
            assert documents(second.members[0]) == [0]
            with pymongo.MongoClient(second.uri, serverSelectionTimeoutMS=20_000) as client:
                in_sync(client, 2)
                client.db.c.insert_one({"_id": 1})


def test_members_continue_while_etcd_is_stopped(tmp_path):
    with Etcd(tmp_path / "etcd") as etcd, Sets(tmp_path / "set", ["--etcd", etcd.endpoint], count=3) as members:
        members.initiate()
        with pymongo.MongoClient(members.uri, serverSelectionTimeoutMS=20_000) as client:
            etcd.stop()
            for number in range(1, 50):
                client.db.c.insert_one({"_id": number})
                assert client.db.c.find_one({"_id": number})
            # a member that starts without it follows, too
            follower = next(member for member in members.members if member is not members.at(client.primary))
            follower.stop()
            follower.start()
            with direct(follower) as there:
                error = until(lambda: status(there)["arbor"]["coordinator"].get("error"), what="the reason")
            assert "no etcd can be reached" in error, error
            client.db.c.insert_one({"_id": 50})
            until(lambda: documents(follower) == list(range(51)), what="all documents")
            etcd.start()
            with direct(follower) as there:
                until(lambda: "error" not in status(there)["arbor"]["coordinator"], what="etcd again")
            in_sync(client, 3)
            # and a failover is possible again
            client.admin.command("replSetStepDown", 20)
            until(lambda: primary_of(members), what="a successor")
            client.db.c.insert_one({"_id": 51})
