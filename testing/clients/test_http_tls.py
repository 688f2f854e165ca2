"""The HTTP port under TLS: metrics, health and console over https, by the settings of the clients' port."""

import json
import shutil
import socket
import ssl
import subprocess
import urllib.error
import urllib.request

import pymongo
import pytest
from certificates import Authority, flags, openssl
from test_metrics import address_of, samples

from arbor_process import Arbor

OPTIONAL = "--tlsAllowConnectionsWithoutCertificates"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"), "authority")


@pytest.fixture(scope="module")
def own(authority):
    return authority.sign("server", "IP:127.0.0.1,DNS:localhost")


def context(authority, certificate=None):
    made = ssl.create_default_context(cafile=str(authority.ca))
    if certificate:
        made.load_cert_chain(str(certificate))
    return made


def get(server, path, secure=None, **headers):
    scheme = "https" if secure else "http"
    request = urllib.request.Request(f"{scheme}://{address_of(server)}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60, context=secure) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def presented(server):
    """The serial number of the certificate that the port shows."""
    host, port = address_of(server).rsplit(":", 1)
    return openssl("x509", "-noout", "-serial", "-in", str(write_certificate(server, host, int(port))))


def write_certificate(server, host, port):
    file = server.dbpath.parent / "presented.pem"
    file.write_text(ssl.get_server_certificate((host, port), timeout=60))
    return file


def test_https_of_a_server_that_requires_it(tmp_path, authority, own):
    token = tmp_path / "token"
    token.write_text("secret")
    more = [OPTIONAL, "--httpPort", "0", "--httpTokenFile", str(token)]
    with Arbor(tmp_path / "data", flags(authority, own, "requireTLS", *more)) as server:
        secure, bearer = context(authority), {"Authorization": "Bearer secret"}
        status, metrics = get(server, "/metrics", secure, **bearer)
        assert status == 200 and samples(metrics)["arbor_connections"] >= 0
        assert get(server, "/metrics", secure)[0] == 401, "the token is required as ever"
        assert get(server, "/healthz", secure) == (200, "ok\n")
        status, page = get(server, "/", secure)
        assert status == 200 and "<title>Arbor" in page
        status, data = get(server, "/console.json", secure, **bearer)
        assert status == 200 and "operations" in json.loads(data)
        # without TLS there is health alone
        for path in ("/metrics", "/", "/console.json", "/nothing"):
            assert get(server, path, **bearer) == (403, "this port requires https\n")
        assert get(server, "/healthz")[0] == get(server, "/readyz")[0] == 200
        # a client that trusts another authority ends with the handshake
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            get(server, "/metrics", ssl.create_default_context(), **bearer)
        if shutil.which("curl"):
            command = ["curl", "-sS", "--cacert", str(authority.ca), "-H", "Authorization: Bearer secret", f"https://{address_of(server)}/metrics"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0 and "arbor_connections" in done.stdout and not done.stderr, done.stderr
        # what is neither TLS nor HTTP, and a client that leaves during the handshake
        host, port = address_of(server).rsplit(":", 1)
        for text in (b"\x16garbage" * 100, b"\x16", b""):
            with socket.create_connection((host, int(port)), timeout=60) as connection:
                connection.sendall(text)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1000)
        assert get(server, "/healthz", secure)[0] == 200


def test_certificates_of_clients_are_required_as_by_the_server(tmp_path, authority, own):
    with Arbor(tmp_path / "data", flags(authority, own, "requireTLS", "--httpPort", "0")) as server:
        with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
            get(server, "/metrics", context(authority))
        assert get(server, "/metrics", context(authority, authority.sign("client")))[0] == 200
        foreign = Authority(tmp_path, "foreign").sign("stranger")
        with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
            get(server, "/metrics", context(authority, foreign))
        assert get(server, "/healthz")[0] == 200, "probes have no certificates"


def test_both_where_tls_is_allowed_and_certificates_are_replaced(tmp_path, authority, own):
    certificate = tmp_path / "server.pem"
    shutil.copy(own, certificate)
    with Arbor(tmp_path / "data", flags(authority, certificate, "preferTLS", OPTIONAL, "--httpPort", "0")) as server:
        secure = context(authority)
        assert get(server, "/metrics")[0] == get(server, "/metrics", secure)[0] == 200
        before = presented(server)
        shutil.copy(authority.sign("next", "IP:127.0.0.1"), certificate)
        with pymongo.MongoClient(server.uri) as client:
            client.admin.command("rotateCertificates")
        assert get(server, "/metrics", secure)[0] == 200 and presented(server) != before
