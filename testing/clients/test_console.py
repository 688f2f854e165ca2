"""The console: a page without network resources, its data, its button, and who may use them."""

import json
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pymongo
import pytest

from arbor_process import Arbor, ReplicaSet
from test_metrics import address_of, get

CHROMIUM = shutil.which("chromium")


def post(server, path, **headers):
    request = urllib.request.Request(f"http://{address_of(server)}{path}", method="POST", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


def data(server, path="/console.json?collections=1", **headers):
    code, kind, text = get(server, path, **headers)
    assert (code, kind) == (200, "application/json"), text
    return json.loads(text)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ReplicaSet(tmp_path_factory.mktemp("data"), ["--httpPort", "0", "--slowms", "0"]) as server:
        with pymongo.MongoClient(server.uri) as client:
            client.t.c.insert_many([{"_id": n, "a": n, "text": "<b>x</b>" * 20} for n in range(2000)])
            client.t.c.create_index("a")
            list(client.t.c.find({"b": {"$gt": 7}}))
        yield server


def test_the_page_needs_nothing_else(server):
    code, kind, page = get(server, "/")
    assert code == 200 and kind == "text/html; charset=utf-8"
    assert "default-src 'none'" in page
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)""", page)
    assert set(re.findall(r"https?://[^'\"\s]+", page)) <= {"http://www.w3.org/2000/svg"}


def test_its_data_is_that_of_the_server(server):
    now = data(server)
    collections = {row["ns"]: row for row in now["collections"]}
    row = collections["t.c"]
    assert (row["engine"], row["documents"], row["indexes"]) == ("ftree", 2000, 1) and row["dataBytes"] > 2000 * 160
    assert now["statistics"]["opcounters"]["insert"] == 2000
    assert [member["stateStr"] for member in now["statistics"]["set"]["members"]] == ["PRIMARY"]
    shapes = {shape["shape"]: shape for shape in now["shapes"] if shape["ns"] == "t.c"}
    assert shapes["find filter {b: {$gt: ?}}"]["plan"] == "COLLSCAN"
    assert "collections" not in data(server, "/console.json")


def test_an_operation_is_ended(server):
    ended = []

    def aggregate():
        with pymongo.MongoClient(server.uri) as client:
            scan = {"$lookup": {"from": "c", "pipeline": [{"$match": {"$expr": {"$lt": ["$a", -1]}}}], "as": "x"}}
            pipeline = [{"$lookup": {"from": "c", "pipeline": [scan, {"$match": {"a": -1}}], "as": "y"}}]
            try:
                list(client.t.c.aggregate(pipeline, comment="to be ended"))
            except pymongo.errors.OperationFailure as error:
                ended.append(error)

    thread = threading.Thread(target=aggregate)
    thread.start()
    until = time.monotonic() + 60
    running = []
    while not running and time.monotonic() < until:
        operations = data(server)["operations"]
        running = [of["opid"] for of in operations if of.get("command", {}).get("comment") == "to be ended"]
    assert running, "the aggregation is among the operations"
    assert post(server, f"/kill?op={running[0]}") == 403, "a foreign page cannot send the header"
    assert post(server, f"/kill?op={running[0]}", **{"X-Arbor-Console": "1"}) == 200
    thread.join(60)
    assert [error.code for error in ended] == [11601]


def test_access_is_that_of_the_port(tmp_path, server):
    assert get(server, "/console.json", Host="evil.example")[0] == 403
    with Arbor(tmp_path / "open", ["--auth", "--httpPort", "0"]) as locked:
        assert "operations" not in data(locked), "who asks is not known"
        assert post(locked, "/kill?op=1", **{"X-Arbor-Console": "1"}) == 403
    token = tmp_path / "token"
    token.write_text("secret")
    with Arbor(tmp_path / "data", ["--auth", "--httpPort", "0", "--httpTokenFile", str(token)]) as locked:
        assert get(locked, "/")[0] == 200 and get(locked, "/console.json")[0] == 401
        assert post(locked, "/kill?op=1", **{"X-Arbor-Console": "1"}) == 401
        assert "operations" in data(locked, Authorization="Bearer secret")


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_the_page_shows_its_data(server, tmp_path):
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--dump-dom"]
    command += ["--virtual-time-budget=5000", "--window-size=390,900", f"http://{address_of(server)}/"]
    page = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    assert page.count("<dd>") >= 10 and "<svg" in page
    for text in ("PRIMARY", "find filter {b: {$gt: ?}}", "createIndex({b: 1})", "t.c", "pending in memory"):
        assert text.replace(">", "&gt;") in page, text
