"""Limits of connections before a login, of one address and of all, and the Unix socket."""

import socket
import struct
import time
import urllib.parse

import bson
import pymongo
import pytest
from certificates import Authority, flags
from mongosh import run_mongosh

from arbor_process import Arbor


def connection(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def is_closed(plain, within):
    plain.settimeout(within)
    try:
        return plain.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


def message(command):
    encoded = bson.encode({**command, "$db": "admin"})
    return struct.pack("<iiiiIB", 21 + len(encoded), 7, 0, 2013, 0, 0) + encoded


def test_silent_connections_are_closed_before_a_login(tmp_path):
    parameters = ["--setParameter", "firstMessageTimeoutSecs=1", "--setParameter", "idleBeforeLoginTimeoutSecs=3"]
    with Arbor(tmp_path / "data", ["--auth", *parameters]) as server:
        with pymongo.MongoClient(server.uri) as client:
            client.admin.command("createUser", "u", pwd="pw", roles=["root"])
        silent, slow, monitor = connection(server), connection(server), connection(server)
        slow.sendall(message({"hello": 1})[:20])
        monitor.sendall(message({"hello": 1}))
        assert monitor.recv(4096)
        assert is_closed(silent, 2.5) and is_closed(slow, 2.5)
        assert not is_closed(monitor, 0.2), "it has said something"
        assert is_closed(monitor, 5)
        with pymongo.MongoClient(server.uri, username="u", password="pw", maxPoolSize=1) as client:
            number = client.admin.command("hello")["connectionId"]
            time.sleep(4)
            assert client.admin.command("hello")["connectionId"] == number, "a user may be idle"
            assert client.admin.command("serverStatus")["connections"]["closedForSilence"] >= 3


def test_silence_is_no_fault_without_access_control(tmp_path):
    with Arbor(tmp_path / "data", ["--setParameter", "firstMessageTimeoutSecs=1"]) as server:
        assert not is_closed(connection(server), 2)


@pytest.mark.parametrize("mode", ["requireTLS", "allowTLS"])
def test_silence_before_the_handshake(tmp_path, mode):
    authority = Authority(tmp_path, "authority")
    certificate = authority.sign("server", "IP:127.0.0.1")
    more = flags(authority, certificate, mode, "--auth", "--setParameter", "firstMessageTimeoutSecs=1")
    with Arbor(tmp_path / "data", more) as server:
        assert is_closed(connection(server), 12 if mode == "requireTLS" else 3)


def test_connections_of_one_address(tmp_path):
    with Arbor(tmp_path / "data", ["--maxConnsPerAddress", "3"]) as server:
        # the check whether the server listens was a connection too
        time.sleep(0.3)
        open_ones = [connection(server) for _ in range(3)]
        for plain in open_ones:
            plain.sendall(message({"hello": 1}))
            assert plain.recv(4096)
        assert is_closed(connection(server), 5)
        assert "its address has too many" in server.log_path.read_text()
        open_ones.pop().close()
        time.sleep(0.3)
        again = connection(server)
        again.sendall(message({"hello": 1}))
        assert again.recv(4096)


def test_new_connections_wait_beyond_the_rate(tmp_path):
    with Arbor(tmp_path / "data", ["--maxNewConnsPerSecond", "10"]) as server:
        begin = time.monotonic()
        opened = [connection(server) for _ in range(30)]
        for plain in opened:
            plain.sendall(message({"hello": 1}))
        assert all(plain.recv(4096) for plain in opened)
        assert time.monotonic() - begin > 1.5


# ---- the Unix socket


def uri_of(path):
    return f"mongodb://{urllib.parse.quote(str(path), safe='')}/test"


def test_the_unix_socket(tmp_path):
    with Arbor(tmp_path / "data", ["--unixSocketPrefix", str(tmp_path)]) as server:
        path = tmp_path / f"mongodb-{server.port}.sock"
        assert path.is_socket() and path.stat().st_mode & 0o777 == 0o700
        with pymongo.MongoClient(uri_of(path)) as client:
            client.test.c.insert_one({"_id": 1, "large": "x" * 5_000_000})
            assert len(client.test.c.find_one()["large"]) == 5_000_000
            assert client.admin.command("whatsmyuri")["you"] == "anonymous unix socket"
        assert run_mongosh(uri_of(path), "out(db.c.countDocuments({}))") == [1]
        server.stop()
        assert not path.exists()
    # a server that was killed leaves its file, which the next one takes over
    with Arbor(tmp_path / "data", ["--unixSocketPrefix", str(tmp_path)], port=server.port) as server:
        server.kill()
        assert path.exists()
        server.start()
        with pymongo.MongoClient(uri_of(path)) as client:
            assert client.test.c.count_documents({}) == 1


def test_where_there_is_no_unix_socket(tmp_path):
    with Arbor(tmp_path / "data", ["--unixSocketPrefix", str(tmp_path), "--nounixsocket"]) as server:
        assert not (tmp_path / f"mongodb-{server.port}.sock").exists()


def test_logins_through_the_unix_socket(tmp_path):
    prefix = ["--unixSocketPrefix", str(tmp_path), "--filePermissions", "0770"]
    with Arbor(tmp_path / "data", ["--auth", *prefix]) as server:
        path = tmp_path / f"mongodb-{server.port}.sock"
        assert path.stat().st_mode & 0o777 == 0o770
        with pymongo.MongoClient(uri_of(path)) as client:
            client.admin.command("createUser", "admin", pwd="pw", roles=["root"])
        with pymongo.MongoClient(uri_of(path), username="admin", password="pw", authSource="admin") as client:
            client.test.c.insert_one({})
            client.admin.command("createUser", "far", pwd="pw", roles=[], authenticationRestrictions=[{"clientSource": ["10.0.0.0/8"]}])
            client.admin.command("createUser", "near", pwd="pw", roles=[], authenticationRestrictions=[{"clientSource": ["127.0.0.1"]}])
        for user in ("far", "near"):
            with pymongo.MongoClient(uri_of(path), username=user, password="pw", authSource="admin") as client:
                with pytest.raises(pymongo.errors.OperationFailure) as caught:
                    client.admin.command("ping")
                assert caught.value.code == 18, "a Unix socket has no address"


def test_a_foreign_file_is_not_replaced(tmp_path):
    with Arbor(tmp_path / "first", ["--unixSocketPrefix", str(tmp_path)]) as server:
        path = tmp_path / f"mongodb-{server.port}.sock"
    path.write_text("no socket")
    with pytest.raises(RuntimeError, match="cannot listen on the Unix socket"):
        Arbor(tmp_path / "first", ["--unixSocketPrefix", str(tmp_path)], port=server.port).start()
    assert path.read_text() == "no socket"
