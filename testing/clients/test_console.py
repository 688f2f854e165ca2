"""The console: a page without network resources, its data, its button, and who may use them."""

import contextlib
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

from arbor_cluster import Cluster, Router
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


@pytest.fixture(scope="module")
def router(tmp_path_factory):
    """A router of two shards, with a collection of which chunks have moved."""
    directory = tmp_path_factory.mktemp("cluster")
    with contextlib.ExitStack() as stack:
        cluster = Cluster(directory, stack)
        shown = stack.enter_context(Router(directory, cluster.config, ["--httpPort", "0"]))
        with shown.client() as client:
            client.admin.command("shardCollection", "t.sharded", key={"k": 1})
            for at in range(0, 80, 10):
                client.admin.command("split", "t.sharded", middle={"k": at})
            client.t.sharded.insert_many([{"k": n} for n in range(100)])
            home = client.config.databases.find_one({"_id": "t"})["primary"]
            other = next(shard["_id"] for shard in client.admin.command("listShards")["shards"] if shard["_id"] != home)
            for at in (20, 30, 60):
                client.admin.command("moveChunk", "t.sharded", find={"k": at}, to=other)
            yield shown, home, other


def test_a_router_shows_where_chunks_are(router):
    process, home, other = router
    (collection,) = data(process)["chunks"]["collections"]
    assert (collection["ns"], collection["key"], collection["chunks"]) == ("t.sharded", {"k": 1}, 9)
    assert collection["byShard"] == {home: 6, other: 3}
    assert collection["runs"] == [{"shard": shard, "chunks": count} for shard, count in ((home, 3), (other, 2), (home, 2), (other, 1), (home, 1))]
    moves = [move for move in data(process)["chunks"]["moves"] if move["what"] == "moveChunk.commit"]
    assert [(move["from"], move["to"], move["min"]["k"]) for move in moves] == [(home, other, at) for at in (60, 30, 20)]
    assert all(move["criticalSectionMicros"] > 0 for move in moves)


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_the_page_of_a_router_draws_them(router, tmp_path):
    process, home, other = router
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--dump-dom"]
    command += ["--virtual-time-budget=5000", "--window-size=390,900", f"http://{address_of(process)}/"]
    page = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    assert page.count("<rect") == 5 and f"t.sharded: {home} 6, {other} 3" in page
    assert page.count(f"{home} to {other}") == 3 and "moved" in page
