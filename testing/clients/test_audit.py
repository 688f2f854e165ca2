"""The audit: which events there are, of whom, and that requests do not wait for them."""

import json
import os
import subprocess
import time

import bson
import pymongo
import pytest
from pymongo.errors import OperationFailure

from arbor_process import Arbor, free_port

FIELDS = ["atype", "ts", "uuid", "local", "remote", "users", "roles", "param", "result"]


class Audited:
    def __init__(self, tmp_path, *more):
        self.file = tmp_path / "audit.json"
        self.server = Arbor(tmp_path / "data", ["--auth", "--auditDestination", "file", "--auditPath", str(self.file), *more])

    def __enter__(self):
        self.server.start()
        with pymongo.MongoClient(self.server.uri) as client:
            client.admin.command("createUser", "admin", pwd="hidden-password", roles=["root"])
        return self

    def __exit__(self, *_):
        self.server.stop()

    def connect(self, user="admin", password="hidden-password", **options):
        return pymongo.MongoClient(self.server.uri, username=user, password=password, **options)

    def events(self, kind, **param):
        """Waits until there is one of these."""
        end = time.monotonic() + 10
        while True:
            events = [json.loads(line) for line in self.file.read_text().splitlines()]
            found = [
                event for event in events
                if event["atype"] == kind and all(event["param"].get(name) == value for name, value in param.items())
            ]  # fmt: skip
            if found or time.monotonic() > end:
                return found
            time.sleep(0.05)


def test_events(tmp_path):
    with Audited(tmp_path) as audited:
        with audited.connect() as client:
            client.test.c.insert_one({"_id": 1})
            client.test.create_collection("d", capped=True, size=4096)
            client.test.c.create_index("x")
            client.test.c.drop_index("x_1")
            client.test.c.rename("e")
            client.test.e.drop()
            client.test.command("createRole", "r", privileges=[], roles=[])
            client.test.command("createUser", "u", pwd="hidden-too", roles=["r"])
            client.test.command("grantRolesToUser", "u", roles=["read"])
            client.test.command("revokeRolesFromUser", "u", roles=["r"])
            client.test.command("updateUser", "u", pwd="hidden-again")
            client.test.command("grantPrivilegesToRole", "r", privileges=[{"resource": {"db": "test", "collection": ""}, "actions": ["find"]}])
            with pymongo.MongoClient(audited.server.uri, username="u", password="hidden-again", authSource="test") as other:
                other.test.c.find_one()
                with pytest.raises(OperationFailure):
                    other.test.c.insert_one({"secret": 1})
            with pymongo.MongoClient(audited.server.uri, username="u", password="wrong", authSource="test") as other:
                with pytest.raises(OperationFailure):
                    other.admin.command("ping")
            client.test.command("dropUser", "u")
            client.test.command("dropRole", "r")
            client.drop_database("test")
            client.admin.command("setParameter", 1, logLevel=0)
            statistics = client.admin.command("serverStatus")["audit"]
            assert statistics["lost"] == 0 and statistics["events"] > 15
        for kind, param in [
            ("startup", {}),
            ("clientMetadata", {}),
            ("authenticate", {"user": "admin", "db": "admin", "mechanism": "SCRAM-SHA-256"}),
            ("createDatabase", {"ns": "test"}),
            ("createCollection", {"ns": "test.c"}),
            ("createCollection", {"ns": "test.d", "capped": True}),
            ("createIndex", {"ns": "test.c", "indexName": "x_1"}),
            ("dropIndex", {"ns": "test.c", "indexName": "x_1"}),
            ("renameCollection", {"old": "test.c", "new": "test.e"}),
            ("dropCollection", {"ns": "test.e"}),
            ("dropDatabase", {"ns": "test"}),
            ("createRole", {"role": "r", "db": "test"}),
            ("createUser", {"user": "u", "db": "test", "roles": ["r"]}),
            ("grantRolesToUser", {"user": "u", "roles": ["read"]}),
            ("revokeRolesFromUser", {"user": "u", "roles": ["r"]}),
            ("updateUser", {"user": "u", "passwordChanged": True}),
            ("grantPrivilegesToRole", {"role": "r"}),
            ("dropUser", {"user": "u"}),
            ("dropRole", {"role": "r"}),
            ("setParameter", {}),
        ]:
            found = audited.events(kind, **param)
            assert len(found) >= 1, (kind, param)
            assert list(found[0]) == FIELDS and found[0]["result"] == 0, found[0]
        (failed,) = audited.events("authenticate", user="u", db="test", mechanism="SCRAM-SHA-256")[1:]
        assert failed["result"] == 18 and failed["users"] == []
        (check,) = audited.events("authCheck", command="insert")
        assert check["result"] == 13 and check["param"]["ns"] == "test.c"
        assert check["users"] == [{"user": "u", "db": "test"}] and {"role": "read", "db": "test"} in check["roles"]
        assert check["remote"]["ip"] == "127.0.0.1" and check["local"]["port"] == audited.server.port
        assert audited.events("logout", reason="Client has disconnected")
        assert "hidden" not in audited.file.read_text()
        assert audited.file.stat().st_mode & 0o777 == 0o600
        # it says goodbye to a server that is no longer there
        with audited.connect(serverSelectionTimeoutMS=2_000) as client:
            client.admin.command("shutdown")
        audited.server.process.wait(timeout=60)
        assert audited.events("shutdown")


def test_a_filter_and_successes(tmp_path):
    more = ["--auditFilter", '{ atype: "authCheck", "param.command": { $in: [ "find", "insert" ] } }']
    with Audited(tmp_path, *more, "--setParameter", "auditAuthorizationSuccess=true") as audited:
        with audited.connect() as client:
            client.test.c.find_one({"a": 1})
            client.admin.command("setParameter", 1, auditAuthorizationSuccess=False)
            client.test.c.insert_one({})
        (found,) = audited.events("authCheck")
        assert found["param"]["args"]["filter"] == {"a": 1} and found["result"] == 0
    assert {json.loads(line)["atype"] for line in audited.file.read_text().splitlines()} == {"authCheck"}


def test_rotation(tmp_path):
    with Audited(tmp_path) as audited:
        with audited.connect() as client:
            client.test.create_collection("before")
            client.admin.command({"logRotate": "audit"})
            client.test.create_collection("after")
            with pytest.raises(OperationFailure):
                client.admin.command({"logRotate": "nosuch"})
        assert audited.events("createCollection", ns="test.after")
        (old,) = [file for file in tmp_path.iterdir() if file.name.startswith("audit.json.")]
        assert "test.before" in old.read_text() and "test.before" not in audited.file.read_text()


def test_bson(tmp_path):
    with Audited(tmp_path, "--auditFormat", "BSON") as audited:
        audited.connect().admin.command("ping")
    events = bson.decode_all(audited.file.read_bytes())
    assert {"startup", "createUser", "authenticate"} <= {event["atype"] for event in events}


def test_a_full_disk_loses_events_and_counts_them(tmp_path):
    with Arbor(tmp_path / "data", ["--auditDestination", "file", "--auditPath", "/dev/full"]) as server:
        with pymongo.MongoClient(server.uri) as client:
            for number in range(50):
                client.test[f"c{number}"].insert_one({})
            end = time.monotonic() + 10
            while client.admin.command("serverStatus")["audit"]["lost"] < 50 and time.monotonic() < end:
                time.sleep(0.05)
            assert client.admin.command("serverStatus")["audit"]["lost"] >= 50


def test_refused_starts(tmp_path):
    for more, expect in [
        (["--auditPath", "/tmp/x"], "auditLog.destination is missing"),
        (["--auditDestination", "file"], "auditLog.path is missing"),
        (["--auditDestination", "file", "--auditPath", "/nowhere/x"], "auditLog.path /nowhere/x"),
        (["--auditDestination", "console", "--auditFilter", "{a: "], "auditLog.filter"),
        (["--auditDestination", "console", "--auditFilter", "{$nosuch: 1}"], "auditLog.filter"),
        (["--auditDestination", "console", "--auditFormat", "BSON"], "needs the destination file"),
    ]:
        (tmp_path / "data").mkdir(exist_ok=True)
        command = [os.environ["ARBOR"], "serve", "--dbpath", str(tmp_path / "data"), "--port", str(free_port()), *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and expect in done.stdout + done.stderr, more


def test_no_audit(client):
    assert "audit" not in client.admin.command("serverStatus")
    with pytest.raises(OperationFailure) as caught:
        client.admin.command({"logRotate": "audit"})
    assert caught.value.code == 2
