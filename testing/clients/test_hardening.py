"""Published vulnerabilities of MongoDB servers and drivers, one test for each: other clients do not notice an attack, and no memory comes back.

Those of certificates are in test_x509.py (CVE-2025-3085, CVE-2026-9742) and in test_tls.py (CVE-2024-1351: no TLS without an authority)."""

import os
import struct
import subprocess
import zlib

import bson
import pymongo
import pytest
from bson.binary import Binary
from certificates import Authority, flags
from pymongo.errors import AutoReconnect, OperationFailure, ServerSelectionTimeoutError
from sessions import Wire

from arbor_process import Arbor, free_port


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    with Arbor(tmp_path_factory.mktemp("hardening") / "data", ["--auth"]) as server:
        with pymongo.MongoClient(server.uri) as client:
            client.admin.command("createUser", "admin", pwd="pw", roles=["root"])
        yield server


@pytest.fixture
def wire(guarded):
    """A connection without a login; another client is served after the attack."""
    yield Wire(("127.0.0.1", guarded.port))
    with pymongo.MongoClient(guarded.uri, username="admin", password="pw") as client:
        client.admin.command("ping")
        log = guarded.log_path.read_text()
        assert "Request failed by a panic" not in log


def compressed(request, announced):
    packed = zlib.compress(request[16:])
    body = struct.pack("<iiB", 2013, announced, 2) + packed
    return struct.pack("<iiii", 16 + len(body), 7, 0, 2012) + body


@pytest.mark.parametrize("more", [1, 100, 4000, 16_000, 2**20, -1])
def test_cve_2025_14847_sizes_that_lie(wire, more):
    """A compressed message that announces more than it yields must not be read with what was in memory behind it."""
    request = Wire.request({"ping": 1, "$db": "admin"})
    try:
        reply = wire.exchange(compressed(request, len(request) - 16 + more))
    except ConnectionError:
        return
    assert reply["ok"] == 0 and "field name" not in str(reply)


def test_a_compressed_message_of_the_right_size(wire):
    request = Wire.request({"ping": 1, "$db": "admin"})
    wire.socket.sendall(compressed(request, len(request) - 16))
    header = wire.read(16)
    assert struct.unpack("<i", header[12:])[0] == 2012, "the reply is compressed as well"
    packed = wire.read(struct.unpack("<i", header[:4])[0] - 16)
    assert bson.decode(zlib.decompress(packed[9:])[5:])["ok"] == 1


def nested_columns(depth):
    inner = b"\x00"
    for _ in range(depth):
        doc = b"\x05a\x00" + struct.pack("<i", len(inner)) + b"\x07" + inner + b"\x00"
        inner = b"\xf0" + struct.pack("<i", len(doc) + 4) + doc + b"\x00"
    return inner


@pytest.mark.parametrize("depth", [1, 50, 300])
def test_cve_2026_9740_columns_within_columns(wire, depth):
    """Binary data of subtype 7 is a compressed column, which a validator that recurses into it may be lost in."""
    reply = wire.send({"ping": 1, "comment": Binary(nested_columns(depth), 7), "$db": "admin"})
    assert reply["ok"] == 1


def with_checksum(body):
    encoded = struct.pack("<I", 1) + b"\0" + body
    frame = struct.pack("<iiii", 16 + len(encoded) + 4, 7, 0, 2013) + encoded
    return frame + b"\0\0\0\0"


@pytest.mark.parametrize("length", [0, 1, 4, 5, 2**31 - 1, -1, -(2**31)])
def test_cve_2026_6914_checksums_of_broken_documents(wire, length):
    """The length of the document is taken from it before the checksum behind it is looked at."""
    body = bytearray(bson.encode({"ping": 1, "$db": "admin"}))
    body[:4] = struct.pack("<i", length)
    for frame in (with_checksum(bytes(body)), with_checksum(bytes(body[:4])), with_checksum(b"")):
        try:
            assert wire.exchange(frame)["ok"] == 0
        except ConnectionError:
            wire.socket.close()
            return


def test_cve_2026_1849_expressions_that_build_deep_documents(client, db):
    db.c.insert_one({"_id": 1})
    expression = "$_id"
    for _ in range(150):
        expression = {"a": expression}
    deep = {"$reduce": {"input": {"$range": [0, 10_000]}, "initialValue": {}, "in": {"a": "$$value"}}}
    for stage in ({"$project": {"x": deep}}, {"$set": {"x": {"$mergeObjects": [deep, {"b": expression}]}}}):
        with pytest.raises(OperationFailure) as caught:
            list(db.c.aggregate([stage]))
        assert caught.value.code in (15, 10334, 146, 17419), caught.value
    assert client.admin.command("ping")["ok"] == 1


def test_cve_2026_8199_bits_of_many_positions(db):
    db.c.insert_many([{"_id": n, "x": Binary(b"\xff" * 1000)} for n in range(10)])
    positions = list(range(0, 7000, 7))
    for operator, expect in [("$bitsAllSet", 10), ("$bitsAnySet", 10), ("$bitsAllClear", 0), ("$bitsAnyClear", 0)]:
        assert db.c.count_documents({"$and": [{"x": {operator: positions}}] * 200}) == expect
        # a huge position is one bit, not a mask of that length
        with_huge = {"x": {operator: [*positions, 2**31 - 1]}}
        assert db.c.count_documents(with_huge) == {"$bitsAllSet": 0, "$bitsAnySet": 10, "$bitsAllClear": 0, "$bitsAnyClear": 10}[operator]


@pytest.mark.parametrize(
    "metadata",
    [
        {"application": {"name": "x" * 400}},
        {"application": 5},
        {"application": {"name": {"$a": [1]}}},
        {"driver": {"name": "d", "version": "\x00\x01\ud7ff"}},
        {"os": {"type": "\u202e" * 50}},
        {"mongos": {"host": 1, "client": [], "version": None}},
    ],
)
def test_cve_2024_3372_metadata_of_clients(guarded, wire, metadata):
    """Whatever a client says of itself, `serverStatus` and `currentOp` continue to work."""
    full = {"driver": {"name": "d", "version": "1"}, "os": {"type": "Linux"}, **metadata}
    wire.send({"hello": 1, "client": full, "$db": "admin"})
    with pymongo.MongoClient(guarded.uri, username="admin", password="pw") as client:
        assert client.admin.command("serverStatus")["ok"] == 1
        assert client.admin.command("currentOp", True)["ok"] == 1
        assert client.admin.command("aggregate", 1, pipeline=[{"$currentOp": {"allUsers": True, "idleConnections": True}}], cursor={})["ok"] == 1


def test_cve_2025_11695_switches_mean_what_they_say(tmp_path):
    """A switch that was read the other way round would turn a check off. Both values of each are tried."""
    authority = Authority(tmp_path, "authority")
    certificate = authority.sign("server", "IP:127.0.0.1")
    own = authority.sign("own", subject="/O=Clients/CN=own")
    for number, (value, expect) in enumerate([("true", True), ("false", False)]):
        configuration = tmp_path / "conf"
        configuration.write_text(f"net:\n  tls:\n    allowConnectionsWithoutCertificates: {value}\n")
        more = flags(authority, certificate, "requireTLS", "--config", str(configuration))
        with Arbor(tmp_path / f"data{number}", more) as server:
            common = {"tls": True, "tlsCAFile": str(authority.ca), "serverSelectionTimeoutMS": 2000}
            with pymongo.MongoClient(server.uri, tlsCertificateKeyFile=str(own), **common) as client:
                assert client.admin.command("ping")["ok"] == 1
            with pymongo.MongoClient(server.uri, **common) as client:
                if expect:
                    assert client.admin.command("ping")["ok"] == 1
                else:
                    with pytest.raises((AutoReconnect, ServerSelectionTimeoutError)):
                        client.admin.command("ping")
    (tmp_path / "data").mkdir()
    for value, expect in [("true", 2), ("false", None)]:
        configuration.write_text(f"net:\n  tls:\n    allowInvalidCertificates: {value}\n")
        command = [os.environ["ARBOR"], "serve", "--dbpath", str(tmp_path / "data"), "--port", str(free_port())]
        command += flags(authority, certificate, "requireTLS", "--config", str(configuration))
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert server.wait(timeout=5) == expect
        except subprocess.TimeoutExpired:
            assert expect is None, "it runs"
        finally:
            server.terminate()
            server.wait(timeout=60)
    for name, on in [("authorization: enabled", True), ("authorization: disabled", False)]:
        configuration.write_text(f"security:\n  {name}\n")
        with Arbor(tmp_path / f"data{on}", ["--config", str(configuration)]) as server:
            with pymongo.MongoClient(server.uri) as client:
                if on:
                    with pytest.raises(OperationFailure):
                        client.test.c.find_one()
                else:
                    assert client.test.c.find_one() is None


# ---- users


def test_no_user_raises_his_own_rights(guarded):
    """A user who may manage one database gets no further by roles, by himself, or by the rows of users."""
    with pymongo.MongoClient(guarded.uri, username="admin", password="pw") as admin:
        admin.test.command("createUser", "manager", pwd="pw", roles=["userAdmin", "readWrite"])
        with pymongo.MongoClient(guarded.uri, username="manager", password="pw", authSource="test") as manager:
            root = {"role": "root", "db": "admin"}
            everything = {"resource": {"anyResource": True}, "actions": ["anyAction"]}
            attempts = [
                ("test", {"grantRolesToUser": "manager", "roles": [root]}),
                ("test", {"updateUser": "manager", "roles": [root]}),
                ("test", {"createUser": "other", "pwd": "x", "roles": [root]}),
                ("test", {"createRole": "r", "privileges": [everything], "roles": []}),
                ("test", {"createRole": "r", "privileges": [], "roles": [root]}),
                ("admin", {"createRole": "r", "privileges": [everything], "roles": []}),
                ("admin", {"insert": "system.users", "documents": [{"_id": "test.x"}]}),
                ("admin", {"update": "system.users", "updates": [{"q": {}, "u": {"$set": {"roles": [root]}}}]}),
                ("test", {"aggregate": "c", "pipeline": [{"$out": {"db": "admin", "coll": "system.users"}}], "cursor": {}}),
                ("test", {"aggregate": "c", "pipeline": [{"$merge": {"into": {"db": "admin", "coll": "system.users"}}}], "cursor": {}}),
                ("admin", {"renameCollection": "test.c", "to": "admin.system.users", "dropTarget": True}),
                ("admin", {"applyOps": [{"op": "i", "ns": "admin.system.users", "o": {"_id": "x"}}]}),
                ("admin", {"_mergeAuthzCollections": 1, "tempUsersCollection": "test.c", "db": "", "drop": True}),
            ]
            for db, command in attempts:
                with pytest.raises(OperationFailure) as caught:
                    manager[db].command(command)
                assert caught.value.code == 13, (command, caught.value)
            # what the role is for works
            manager.test.command("createRole", "own", privileges=[], roles=["read"])
            manager.test.command("createRole", "above", privileges=[], roles=["own"])
            with pytest.raises(OperationFailure) as caught:
                manager.test.command("grantRolesToRole", "own", roles=["above"])
            assert caught.value.code == 49 and "cycle" in caught.value.details["errmsg"]
            # a user who goes is gone at once
            manager.test.command("dropUser", "manager")
            with pytest.raises(OperationFailure) as caught:
                manager.test.command("find", "c")
            assert caught.value.code == 13
