"""The HTTP port: metrics are the numbers of serverStatus, access to them is controlled, and ops/ uses names that exist."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

import pymongo
import pytest

from arbor_process import Arbor, ReplicaSet

OPS = pathlib.Path(__file__).resolve().parents[2] / "ops"
PROMTOOL = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


def address_of(server):
    """Where the HTTP port is: it was asked for as 0."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for line in server.log_path.read_text().splitlines():
            line = json.loads(line) if line.startswith("{") else {}
            if line.get("ctx") == "http" and "address" in line.get("attr", {}):
                return line["attr"]["address"]
        time.sleep(0.1)
    raise AssertionError("the log does not name the HTTP port")


def get(server, path, **headers):
    request = urllib.request.Request(f"http://{address_of(server)}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.headers["Content-Type"], reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def samples(text):
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line[:1] != "#"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Arbor(tmp_path_factory.mktemp("data"), ["--httpPort", "0", "--httpCollectionsMax", "1"]) as server:
        with pymongo.MongoClient(server.uri) as client:
            client.t.much.insert_many([{"_id": n} for n in range(30)])
            for n in range(20):
                client.t.much.find_one({"_id": n})
            client.t.little.insert_one({"_id": 1})
        yield server


def test_metrics_are_the_numbers_of_server_status(server):
    with pymongo.MongoClient(server.uri) as client:
        status = client.admin.command("serverStatus", opLatencies={"histograms": True})
        with pytest.raises(pymongo.errors.OperationFailure):
            client.admin.command("killOp")
    code, kind, text = get(server, "/metrics")
    metrics = samples(text)
    assert code == 200 and kind.startswith("text/plain; version=0.0.4")
    assert metrics['arbor_operations_total{kind="insert"}'] == status["opcounters"]["insert"] == 31
    assert metrics["arbor_documents_total{outcome=\"inserted\"}"] == 31
    assert metrics["arbor_failed_commands_total"] >= 1
    assert metrics["arbor_poisoned"] == 0 and metrics["arbor_statistics_missing"] == 0
    assert metrics['arbor_engine_available{engine="ftree"}'] == 1
    reads = status["opLatencies"]["reads"]
    assert sum(row["count"] for row in reads["histogram"]) == reads["ops"] == 20
    assert metrics['arbor_operation_latency_seconds_count{class="reads"}'] == 20
    assert metrics['arbor_operation_latency_seconds_bucket{class="reads",le="+Inf"}'] == 20
    assert metrics['arbor_collection_operations_total{collection="t.much",kind="queries"}'] == 20
    assert metrics["arbor_collections_hidden"] >= 1 and "t.little" not in text


def test_open_metrics_is_there_for_those_who_ask(server):
    code, kind, text = get(server, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert code == 200 and kind.startswith("application/openmetrics-text; version=1.0.0")
    assert text.endswith("\n# EOF\n") and "# TYPE arbor_operations counter\n" in text


def test_health_and_other_paths(server):
    assert get(server, "/healthz")[0] == 200 and get(server, "/readyz")[0] == 200
    assert get(server, "/nothing")[0] == 404


def test_the_token_protects_the_metrics(tmp_path):
    token = tmp_path / "token"
    token.write_text("secret\n")
    with Arbor(tmp_path / "data", ["--auth", "--httpPort", "0", "--httpTokenFile", str(token)]) as server:
        assert get(server, "/metrics")[0] == 401
        assert get(server, "/metrics", Authorization="Bearer wrong")[0] == 401
        assert get(server, "/metrics", Authorization="Bearer secret")[0] == 200
        assert get(server, "/healthz")[0] == 200
        token.write_text("another")
        assert get(server, "/metrics", Authorization="Bearer secret")[0] == 401
        assert get(server, "/metrics", Authorization="Bearer another")[0] == 200


@pytest.mark.parametrize(
    "flags, sentence",
    [
        (["--auth", "--httpPort", "0", "--httpBindIp", "0.0.0.0"], "need --httpTokenFile"),
        (["--httpPort", "0", "--httpBindIp", "nowhere"], "this is no IP address"),
        (["--httpPort", "0", "--httpTokenFile", "/no/such/file"], "--httpTokenFile /no/such/file"),
    ],
)
def test_options_that_are_refused(tmp_path, flags, sentence):
    command = [os.environ["ARBOR"], "serve", "--dbpath", str(tmp_path), "--port", "0", "--nounixsocket", *flags]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0 and sentence in ended.stderr


def test_ops_uses_metrics_that_exist(tmp_path):
    with ReplicaSet(tmp_path / "data", ["--httpPort", "0"]) as member:
        with pymongo.MongoClient(member.uri) as client:
            client.t.c.insert_one({})
        assert get(member, "/readyz")[0] == 200
        text = get(member, "/metrics")[2]
        metrics = samples(text)
        assert metrics["arbor_set_state"] == 1
        assert [value for name, value in metrics.items() if name.startswith("arbor_set_member_in_sync{")] == [1]
    known = {name.split("{")[0] for name in metrics}
    for file in (OPS / "prometheus" / "alerts.yml", OPS / "grafana" / "arbor.json"):
        used = set(re.findall(r"\barbor_[a-z_]+", file.read_text()))
        assert used and used <= known, f"{file.name}: {sorted(used - known)}"


@PROMTOOL
def test_promtool_accepts_metrics_and_rules(server):
    text = get(server, "/metrics")[2]
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    rules = OPS / "prometheus" / "alerts_test.yml"
    tested = subprocess.run(["promtool", "test", "rules", str(rules)], capture_output=True, text=True, timeout=120)
    assert tested.returncode == 0, tested.stdout + tested.stderr
