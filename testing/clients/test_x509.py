"""Logins by certificate, certificates of members, and certificates that are refused."""

import json
import os
import socket
import ssl
import subprocess
import time

import pymongo
import pytest
from certificates import Authority, flags, subject_of
from mongosh import run_mongosh
from pymongo.errors import AutoReconnect, OperationFailure, ServerSelectionTimeoutError

from arbor_process import Arbor, free_port

OPTIONAL = "--tlsAllowConnectionsWithoutCertificates"
FAILED = 18


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"), "authority")


@pytest.fixture(scope="module")
def server_certificate(authority):
    return authority.sign("server", "IP:127.0.0.1,DNS:localhost", "/O=Test/OU=members/CN=server")


def connect(server, authority, certificate=None, **more):
    if certificate:
        more["tlsCertificateKeyFile"] = str(certificate)
    return pymongo.MongoClient(server.uri, tls=True, tlsCAFile=str(authority.ca), serverSelectionTimeoutMS=5000, **more)


def by_certificate(server, authority, certificate, **more):
    return connect(server, authority, certificate, authMechanism="MONGODB-X509", **more)


def users_of(client):
    return client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]


def create(server, authority, name, roles):
    with connect(server, authority, username="admin", password="secret") as admin:
        admin["$external"].command("createUser", name, roles=roles)


@pytest.fixture(scope="module")
def server(tmp_path_factory, authority, server_certificate):
    """Access control, TLS, and a user admin with a password."""
    directory = tmp_path_factory.mktemp("x509") / "data"
    with Arbor(directory, flags(authority, server_certificate, "requireTLS", OPTIONAL, "--auth")) as arbor:
        with connect(arbor, authority) as client:
            client.admin.command("createUser", "admin", pwd="secret", roles=["root"])
        yield arbor


def logged(server, number):
    lines = [json.loads(line) for line in server.log_path.read_text().splitlines() if line.startswith("{")]
    return [line["attr"] for line in lines if line["id"] == number]


def test_the_subject_is_the_user(server, authority):
    certificate = authority.sign("client", subject="/C=DE/O=Clients/OU=one/CN=Müller, Ann")
    name = subject_of(certificate)
    assert "\\," in name and "\\C3\\BC" in name
    with by_certificate(server, authority, certificate) as client:
        with pytest.raises(OperationFailure) as caught:
            client.admin.command("ping")
        assert (caught.value.code, caught.value.details["errmsg"]) == (FAILED, "Authentication failed.")
    create(server, authority, name, [{"role": "readWrite", "db": "test"}])
    for more in ({}, {"username": name}):
        with by_certificate(server, authority, certificate, **more) as client:
            assert users_of(client) == [{"user": name, "db": "$external"}]
            client.test.c.insert_one({})
            with pytest.raises(OperationFailure) as caught:
                client.other.c.insert_one({})
            assert caught.value.code == 13
    with by_certificate(server, authority, certificate, username="CN=other") as client:
        with pytest.raises(OperationFailure) as caught:
            client.admin.command("ping")
        assert caught.value.code == FAILED
    with connect(server, authority, username="admin", password="secret") as admin:
        (found,) = admin["$external"].command("usersInfo", name, showCredentials=True)["users"]
        assert found["mechanisms"] == ["external"] and found["credentials"] == {"external": True}
        # the change has effect on the next connection, and on the open one
        with by_certificate(server, authority, certificate) as client:
            client.test.c.find_one()
            admin["$external"].command("dropUser", name)
            with pytest.raises(OperationFailure):
                client.test.c.find_one()


def test_a_name_as_people_write_it(server, authority):
    certificate = authority.sign("umlaut", subject="/O=Clients/CN=Jörg")
    create(server, authority, "CN=Jörg,O=Clients", [{"role": "read", "db": "test"}])
    with by_certificate(server, authority, certificate) as client:
        assert users_of(client) == [{"user": "CN=Jörg,O=Clients", "db": "$external"}]


def test_mongosh_logs_in(server, authority):
    certificate = authority.sign("shell", subject="/O=Clients/CN=shell")
    create(server, authority, "CN=shell,O=Clients", [{"role": "read", "db": "test"}])
    uri = (
        f"mongodb://127.0.0.1:{server.port}/test?tls=true&tlsCAFile={authority.ca}&tlsCertificateKeyFile={certificate}"
        "&authMechanism=MONGODB-X509&authSource=%24external"
    )
    (found,) = run_mongosh(uri, "out(db.runCommand({connectionStatus: 1}).authInfo.authenticatedUsers)")
    assert found == [{"user": "CN=shell,O=Clients", "db": "$external"}]


def test_no_login_without_a_certificate(server, authority):
    with connect(server, authority) as client:
        for db in ("$external", "admin"):
            with pytest.raises(OperationFailure) as caught:
                client[db].command("authenticate", 1, mechanism="MONGODB-X509")
            assert caught.value.code == FAILED
        # CVE-2026-9742: odd mechanisms
        for mechanism in ("", "PLAIN", "SCRAM-SHA-256", "x" * 5000, "MONGODB-X509\0", 5, None, {"a": 1}):
            with pytest.raises(OperationFailure):
                client["$external"].command("authenticate", 1, mechanism=mechanism)
        assert client.admin.command("ping")["ok"] == 1


def test_members_are_no_users(server, authority):
    """A certificate of the server's organization would be that of a member."""
    member = authority.sign("member", subject="/O=Test/OU=members/CN=member")
    with connect(server, authority, username="admin", password="secret") as admin:
        with pytest.raises(OperationFailure) as caught:
            admin["$external"].command("createUser", subject_of(member), roles=[])
        assert caught.value.code == 2 and "internal cluster member" in caught.value.details["errmsg"]
    with by_certificate(server, authority, member) as client:
        with pytest.raises(OperationFailure) as caught:
            client.admin.command("ping")
        assert caught.value.code == FAILED
    assert any("only be used for cluster authentication" in attributes["error"] for attributes in logged(server, 5286307))


@pytest.mark.parametrize("mode, expect", [("sendKeyFile", True), ("sendX509", True), ("x509", True), ("keyFile", False)])
def test_members_log_in_by_certificate(tmp_path, authority, server_certificate, mode, expect):
    member = authority.sign("member", subject="/OU=members/O=Test/CN=other")
    stranger = authority.sign("stranger", subject="/OU=strangers/O=Test/CN=other")
    key = tmp_path / "key"
    key.write_text("abcdefgh")
    key.chmod(0o600)
    more = flags(authority, server_certificate, "requireTLS", "--clusterAuthMode", mode, "--keyFile", str(key))
    with Arbor(tmp_path / "data", more) as server:
        with by_certificate(server, authority, member) as client:
            if expect:
                assert users_of(client) == [{"user": "__system", "db": "local"}]
                client.local.c.insert_one({})
            else:
                with pytest.raises(OperationFailure):
                    client.admin.command("ping")
        with by_certificate(server, authority, stranger) as client:
            with pytest.raises(OperationFailure):
                client.admin.command("ping")
        with connect(server, authority, member, username="__system", password="abcdefgh", authSource="local") as client:
            if mode == "x509":
                with pytest.raises(OperationFailure):
                    client.admin.command("ping")
            else:
                assert users_of(client) == [{"user": "__system", "db": "local"}]


def refused(server, authority, certificate):
    """The certificate does not even pass the handshake."""
    with connect(server, authority, certificate) as client:
        with pytest.raises((AutoReconnect, ServerSelectionTimeoutError)):
            client.admin.command("ping")


def test_bad_certificates_are_refused_and_logged(server, authority, tmp_path):
    foreign = Authority(tmp_path, "foreign").sign("stranger", subject="/O=Clients/CN=foreign")
    expired = authority.sign("expired", subject="/O=Clients/CN=expired", days=-1)
    for certificate, reason in [(foreign, "UnknownIssuer"), (expired, "xpired")]:
        refused(server, authority, certificate)
        errors = [attributes["error"] for attributes in logged(server, 22988)]
        assert any(reason in error["errmsg"] and error["code"] == 141 for error in errors), (reason, errors)
    with pymongo.MongoClient(server.uri, serverSelectionTimeoutMS=1000) as plain:
        with pytest.raises((AutoReconnect, ServerSelectionTimeoutError)):
            plain.admin.command("ping")
    assert any("only allow TLS" in attributes["error"]["errmsg"] for attributes in logged(server, 22988))


def test_revoked_certificates(tmp_path, authority):
    """CVE-2025-3085: certificates between the root and the client's own one count as well."""
    root = Authority(tmp_path, "root")
    good_authority, bad_authority = (Authority(tmp_path, name, signed_by=root) for name in ("good", "bad"))
    server_certificate = root.sign("server", "IP:127.0.0.1")
    own = root.sign("own", subject="/O=Clients/CN=own")
    stolen = root.sign("stolen", subject="/O=Clients/CN=stolen")
    below = {}
    for intermediate in (good_authority, bad_authority):
        file = intermediate.sign(f"below-{intermediate.name}", subject="/O=Clients/CN=below")
        file.write_bytes(file.read_bytes() + intermediate.ca.read_bytes())
        below[intermediate.name] = file
    lists = tmp_path / "lists.pem"

    def write_lists(*revoked):
        parts = [root.revoke(*revoked), good_authority.revoke(), bad_authority.revoke()]
        lists.write_text("".join(part.read_text() for part in parts))

    write_lists()
    with Arbor(tmp_path / "data", flags(root, server_certificate, "requireTLS", "--tlsCRLFile", str(lists))) as server:
        for certificate in (own, stolen, *below.values()):
            with connect(server, root, certificate) as client:
                assert client.admin.command("ping")["ok"] == 1
        write_lists(stolen, bad_authority.ca)
        with connect(server, root, own) as client:
            client.admin.command("rotateCertificates")
            refused(server, root, stolen)
            refused(server, root, below["bad"])
            assert client.admin.command("ping")["ok"] == 1
        for certificate in (own, below["good"]):
            with connect(server, root, certificate) as client:
                assert client.admin.command("ping")["ok"] == 1
        assert any("Revoked" in attributes["error"]["errmsg"] for attributes in logged(server, 22988))


def test_a_file_without_lists_is_refused(tmp_path, authority, server_certificate):
    code, text = start(tmp_path, *flags(authority, server_certificate, "requireTLS", "--tlsCRLFile", str(authority.ca)))
    assert code == 2 and "no list of revoked certificates" in text


def start(tmp_path, *more):
    (tmp_path / "data").mkdir(exist_ok=True)
    command = [os.environ["ARBOR"], "serve", "--dbpath", str(tmp_path / "data"), "--port", str(free_port()), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_encrypted_keys(tmp_path, authority):
    certificate = authority.sign("encrypted", "IP:127.0.0.1", password="secret")
    more = flags(authority, certificate, "requireTLS", OPTIONAL)
    for password, expect in [([], "there is no password"), (["--tlsCertificateKeyFilePassword", "wrong"], "does not decrypt")]:
        code, text = start(tmp_path, *more, *password)
        assert code == 2 and expect in text
    with Arbor(tmp_path / "data", [*more, "--tlsCertificateKeyFilePassword", "secret"]) as server:
        with connect(server, authority) as client:
            shown = client.admin.command("getCmdLineOpts")
            assert "secret" not in str(shown) and "<password>" in str(shown)
        assert "secret" not in server.log_path.read_text()


@pytest.mark.parametrize("disabled, spoken", [("TLS1_2", "TLSv1.3"), ("TLS1_3", "TLSv1.2"), ("TLS1_0,TLS1_1", "TLSv1.3")])
def test_versions(tmp_path, authority, server_certificate, disabled, spoken):
    more = flags(authority, server_certificate, "requireTLS", OPTIONAL, "--tlsDisabledProtocols", disabled)
    with Arbor(tmp_path / "data", more) as server:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = ssl.create_default_context(cafile=str(authority.ca))
            context.minimum_version = context.maximum_version = version
            with socket.create_connection(("127.0.0.1", server.port)) as plain:
                if version.name.replace("_", ".") not in disabled.replace("TLS1_", "TLSv1."):
                    with context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
                        assert secure.version() == version.name.replace("_", ".")
                else:
                    with pytest.raises((ssl.SSLError, OSError)):
                        context.wrap_socket(plain, server_hostname="127.0.0.1")
        context = ssl.create_default_context(cafile=str(authority.ca))
        with socket.create_connection(("127.0.0.1", server.port)) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as secure:
                assert secure.version() == spoken


def test_keys_are_replaced_while_the_server_runs(tmp_path):
    key = tmp_path / "key"

    def write(text):
        key.unlink(missing_ok=True)
        key.write_text(text)
        key.chmod(0o600)

    def logs_in(server, password):
        with pymongo.MongoClient(server.uri, username="__system", password=password, authSource="local") as client:
            try:
                return users_of(client) == [{"user": "__system", "db": "local"}]
            except OperationFailure as error:
                assert error.code == FAILED
                return False

    write("firstkey")
    with Arbor(tmp_path / "data", ["--keyFile", str(key)]) as server:
        with pymongo.MongoClient(server.uri, username="__system", password="firstkey", authSource="local") as member:
            assert logs_in(server, "firstkey") and not logs_in(server, "secondkey")
            write("- firstkey\n- secondkey\n")
            member.admin.command("rotateCertificates")
            assert logs_in(server, "firstkey") and logs_in(server, "secondkey")
            write("no key!")
            with pytest.raises(OperationFailure) as caught:
                member.admin.command("rotateCertificates")
            assert caught.value.code == 140 and logs_in(server, "secondkey")
            write("secondkey")
            member.admin.command("rotateCertificates")
            assert not logs_in(server, "firstkey") and logs_in(server, "secondkey")
            assert member.admin.command("ping")["ok"] == 1, "open connections stay open"


def test_transition_to_auth(tmp_path):
    key = tmp_path / "key"
    key.write_text("abcdefgh")
    key.chmod(0o600)
    code, text = start(tmp_path, "--transitionToAuth")
    assert code == 2 and "transitionToAuth" in text
    with Arbor(tmp_path / "data", ["--keyFile", str(key), "--transitionToAuth"]) as server:
        with pymongo.MongoClient(server.uri) as client:
            client.admin.command("createUser", "u", pwd="pw", roles=[])
            client.test.c.insert_one({})
        # a login works already, and gives no fewer rights than none
        with pymongo.MongoClient(server.uri, username="u", password="pw") as client:
            assert users_of(client) == [{"user": "u", "db": "admin"}]
            client.test.c.insert_one({})
        with pymongo.MongoClient(server.uri, username="u", password="wrong") as client:
            with pytest.raises(OperationFailure):
                client.test.c.insert_one({})
    with Arbor(tmp_path / "data", ["--keyFile", str(key)], port=server.port) as server:
        for more in ({}, {"username": "u", "password": "pw"}):
            with pymongo.MongoClient(server.uri, **more) as client:
                with pytest.raises(OperationFailure) as caught:
                    client.test.c.insert_one({})
                assert caught.value.code == 13


def test_modes_that_need_tls(tmp_path):
    for mode in ("sendKeyFile", "sendX509", "x509"):
        code, text = start(tmp_path, "--clusterAuthMode", mode)
        assert code == 2 and "need TLS" in text


def test_locked_out_after_wrong_passwords(tmp_path):
    parameters = ["--setParameter", "authFailedLockoutThreshold=3", "--setParameter", "authFailedLockoutSecs=2"]
    with Arbor(tmp_path / "data", ["--auth", *parameters]) as server:
        with pymongo.MongoClient(server.uri) as client:
            client.admin.command("createUser", "u", pwd="pw", roles=[])

        def works(password):
            with pymongo.MongoClient(server.uri, username="u", password=password) as client:
                try:
                    return client.admin.command("ping")["ok"] == 1
                except OperationFailure as error:
                    assert (error.code, error.details["errmsg"]) == (FAILED, "Authentication failed.")
                    return False

        assert works("pw") and not works("wrong") and works("pw")
        assert not any(works("wrong") for _ in range(3))
        assert not works("pw"), "the right password is refused as well, with the same words"
        time.sleep(2.2)
        assert works("pw")
