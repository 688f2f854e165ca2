"""killOp from end to end: a statement that would run for hours is found through $currentOp by another client, killed, and ends with
Interrupted (11601); what it would have written is not there, and its connection remains usable."""

import threading
import time

import pymongo
import pytest
from pymongo.errors import OperationFailure

INTERRUPTED = 11601
# A debug build on a busy machine; by itself each of the statements takes hours.
SECONDS_MAX = 5

NUMBERS = {"$range": [0, 100_000]}
# 10^10 steps for one document
ENDLESS = {"$size": {"$map": {"input": NUMBERS, "as": "i", "in": {"$sum": {"$map": {"input": NUMBERS, "as": "j", "in": {"$add": ["$$i", "$$j", "$_id"]}}}}}}}

STATEMENTS = {
    "find": lambda db: db.command("find", "c", filter={"$expr": {"$eq": [ENDLESS, -1]}}, comment="kill me"),
    "aggregate": lambda db: db.command("aggregate", "c", pipeline=[{"$project": {"x": ENDLESS}}], cursor={}, comment="kill me"),
    "count": lambda db: db.command("count", "c", query={"$expr": {"$eq": [ENDLESS, -1]}}, comment="kill me"),
    "update": lambda db: db.command("update", "c", updates=[{"q": {}, "u": [{"$set": {"x": ENDLESS}}], "multi": True}], comment="kill me"),
    "findAndModify": lambda db: db.command("findAndModify", "c", query={"_id": 1}, update=[{"$set": {"x": ENDLESS}}], comment="kill me"),
    "delete": lambda db: db.command("delete", "c", deletes=[{"q": {"$expr": {"$ne": [ENDLESS, -1]}}, "limit": 0}], comment="kill me"),
    "$out": lambda db: db.command(
        "aggregate", "c", pipeline=[{"$project": {"x": ENDLESS}}, {"$out": "out"}], cursor={}, comment="kill me"
    ),
}


def shown(client):
    """The operation as another client sees it."""
    pipeline = [{"$currentOp": {}}, {"$match": {"command.comment": "kill me", "op": {"$ne": "getmore"}}}]
    return [op for op in client.admin.aggregate(pipeline) if "$currentOp" not in str(op["command"])]


def wait_until_shown(client, thread):
    while thread.is_alive():
        found = shown(client)
        if found:
            return found[0]
    pytest.fail("the statement ended by itself")


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_killed_statement_ends_soon_and_changes_nothing(server, client, db, name):
    db.c.insert_many([{"_id": n} for n in range(3)])
    outcome = []

    with pymongo.MongoClient(server.uri, maxPoolSize=1) as other:

        def run():
            try:
                reply = STATEMENTS[name](other[db.name])
                outcome.append((reply.get("writeErrors", [{}])[0].get("code"), time.monotonic()))
            except OperationFailure as error:
                outcome.append((error.code, time.monotonic()))

        thread = threading.Thread(target=run)
        thread.start()
        op = wait_until_shown(client, thread)
        time.sleep(0.3)
        assert thread.is_alive()
        killed = time.monotonic()
        assert client.admin.command("killOp", op=op["opid"])["ok"] == 1
        thread.join(60)
        assert not thread.is_alive()
        code, ended = outcome[0]
        print(f"\n  {name}: ended {(ended - killed) * 1000:.0f} ms after killOp", end="")
        assert code == INTERRUPTED and ended - killed < SECONDS_MAX
        assert shown(client) == []
        assert list(other[db.name].c.find().sort("_id", 1)) == [{"_id": n} for n in range(3)]
    assert "out" not in db.list_collection_names()
