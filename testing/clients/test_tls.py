"""TLS of the server: modes, clients' certificates, and certificates that are replaced while it runs."""

import os
import socket
import ssl
import subprocess
import threading

import pymongo
import pytest
from certificates import Authority, flags
from mongosh import run_mongosh
from pymongo.errors import AutoReconnect, OperationFailure, ServerSelectionTimeoutError

from arbor_process import Arbor, free_port


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"), "authority")


@pytest.fixture(scope="module")
def server_certificate(authority):
    return authority.sign("server", "IP:127.0.0.1,DNS:localhost")


OPTIONAL = "--tlsAllowConnectionsWithoutCertificates"


@pytest.fixture(scope="module")
def required(tmp_path_factory, authority, server_certificate):
    """Requires TLS, but no certificate of a client."""
    with Arbor(tmp_path_factory.mktemp("required"), flags(authority, server_certificate, "requireTLS", OPTIONAL)) as server:
        yield server


def connect(server, authority, **more):
    return pymongo.MongoClient(server.uri, tls=True, tlsCAFile=str(authority.ca), serverSelectionTimeoutMS=3000, **more)


def test_documents_pass_through_tls(required, authority):
    with connect(required, authority) as client:
        large = "x" * 5_000_000
        client.test.c.insert_many([{"_id": n, "large": large} for n in range(3)])
        assert [len(doc["large"]) for doc in client.test.c.find()] == [5_000_000] * 3
        assert client.test.c.count_documents({"large": large}) == 3


def test_many_clients_at_once(required, authority):
    failed = []

    def work(number):
        with connect(required, authority) as client:
            for n in range(20):
                client.test.many.insert_one({"_id": number * 100 + n})
            if client.test.many.count_documents({"_id": {"$gte": number * 100, "$lt": number * 100 + 20}}) != 20:
                failed.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_plain_text_is_refused_where_tls_is_required(required, authority):
    with pymongo.MongoClient(required.uri, serverSelectionTimeoutMS=1000) as client:
        with pytest.raises((AutoReconnect, ServerSelectionTimeoutError)):
            client.admin.command("ping")
    with connect(required, authority) as client:
        assert client.admin.command("ping")["ok"] == 1


def test_old_versions_and_noise_are_refused(required, authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", required.port)) as plain:
        with pytest.raises((ssl.SSLError, OSError)):
            context.wrap_socket(plain)
    for noise in (b"\x16\x03\x01\x00\x05hello", b"\x16\x03\x03\xff\xff" + b"x" * 100, b"\x16"):
        with socket.create_connection(("127.0.0.1", required.port), timeout=30) as plain:
            plain.sendall(noise)
            try:
                plain.shutdown(socket.SHUT_WR)
                while plain.recv(1024):
                    pass
            except (ConnectionResetError, BrokenPipeError):
                pass  # closed with bytes that were not read
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.create_default_context(cafile=str(authority.ca))
        context.minimum_version = context.maximum_version = version
        with socket.create_connection(("127.0.0.1", required.port)) as plain:
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
                assert secure.version() == version.name.replace("_", ".")


def test_clients_verify_the_server(required, tmp_path):
    foreign = Authority(tmp_path, "foreign")
    with connect(required, foreign) as client:
        with pytest.raises(ServerSelectionTimeoutError):
            client.admin.command("ping")


def test_certificates_of_clients(tmp_path, authority, server_certificate):
    own = authority.sign("client")
    (tmp_path / "foreign").mkdir()
    foreign = Authority(tmp_path / "foreign", "foreign").sign("stranger")
    with Arbor(tmp_path / "data", flags(authority, server_certificate, "requireTLS")) as server:
        with connect(server, authority, tlsCertificateKeyFile=str(own)) as client:
            assert client.admin.command("ping")["ok"] == 1
        for more in ({}, {"tlsCertificateKeyFile": str(foreign)}):
            with connect(server, authority, **more) as client:
                with pytest.raises((AutoReconnect, ServerSelectionTimeoutError)):
                    client.admin.command("ping")


@pytest.mark.parametrize("mode", ["allowTLS", "preferTLS"])
def test_both_where_tls_is_allowed(tmp_path, authority, server_certificate, mode):
    with Arbor(tmp_path / "data", flags(authority, server_certificate, mode, OPTIONAL, "--auth")) as server:
        with pymongo.MongoClient(server.uri) as plain:
            plain.admin.command("createUser", "u", pwd="pw", roles=["root"])
        for mechanism in ("SCRAM-SHA-1", "SCRAM-SHA-256"):
            with connect(server, authority, username="u", password="pw", authMechanism=mechanism) as client:
                client.test.c.insert_one({})
        uri = f"mongodb://u:pw@127.0.0.1:{server.port}/test?authSource=admin&tls=true&tlsCAFile={authority.ca}"
        assert run_mongosh(uri, "out(db.c.countDocuments({}))") == [2]


def test_certificates_are_replaced_while_the_server_runs(tmp_path, authority):
    certificate = authority.sign("rotating", "IP:127.0.0.1")
    before = certificate.read_bytes()
    with Arbor(tmp_path / "data", flags(authority, certificate, "requireTLS", OPTIONAL)) as server:

        def serial():
            context = ssl.create_default_context(cafile=str(authority.ca))
            with socket.create_connection(("127.0.0.1", server.port)) as plain:
                with context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
                    return secure.getpeercert()["serialNumber"]

        with connect(server, authority) as client:
            first = serial()
            certificate.write_text("no certificate")
            with pytest.raises(OperationFailure) as caught:
                client.admin.command("rotateCertificates")
            assert caught.value.code == 140 and serial() == first
            authority.sign("rotating", "IP:127.0.0.1")
            assert certificate.read_bytes() != before and serial() == first
            client.admin.command("rotateCertificates")
            assert serial() != first
            assert client.admin.command("ping")["ok"] == 1


def test_without_tls_there_is_nothing_to_rotate(client):
    assert client.admin.command("rotateCertificates")["ok"] == 1


def test_refused_starts(tmp_path, authority, server_certificate):
    def start(*more):
        (tmp_path / "data").mkdir(exist_ok=True)
        command = [os.environ["ARBOR"], "serve", "--dbpath", str(tmp_path / "data"), "--port", str(free_port()), *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    open_to_all = tmp_path / "open"
    open_to_all.write_bytes(server_certificate.read_bytes())
    open_to_all.chmod(0o644)
    broken = tmp_path / "broken"
    broken.write_text("nothing")
    broken.chmod(0o600)
    for more, expect in [
        (["--tlsMode", "requireTLS"], "tlsCertificateKeyFile is missing"),
        (["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", str(server_certificate)], "tlsCAFile is missing"),
        (["--tlsMode", "perhaps"], "unknown mode"),
        (flags(authority, open_to_all, "requireTLS"), "permissions are too open"),
        (flags(authority, broken, "requireTLS"), "no certificate"),
        (flags(authority, tmp_path / "none", "requireTLS"), "No such file"),
    ]:
        code, text = start(*more)
        assert code == 2 and expect in text, (more, text)
