"""The rows of COMPAT.md under "Not there yet": each is refused with the reply that is given there, nothing is ignored silently."""

import os
import subprocess

import pymongo
import pytest
from pymongo.errors import OperationFailure

from arbor_process import Arbor

COMMANDS = [
    ({"replSetGetStatus": 1}, 76),
    ({"replSetGetConfig": 1}, 76),
    ({"replSetInitiate": {}}, 76),
    ({"replSetReconfig": {}}, 76),
    ({"enableSharding": "d"}, 59),
    ({"mapReduce": "c"}, 59),
    ({"find": "c", "filter": {"$where": "1"}}, 2),
    ({"create": "e", "encryptedFields": {"fields": []}}, 238),
    ({"compactStructuredEncryptionData": "c", "compactionTokens": {}}, 26),
    ({"aggregate": "c", "pipeline": [{"$search": {"text": {}}}], "cursor": {}}, 31082),
    ({"aggregate": "c", "pipeline": [{"$rankFusion": {}}], "cursor": {}}, 40324),
    ({"createSearchIndexes": "c", "indexes": [{"name": "a", "definition": {}}]}, 31082),
]

INDEXES = [
]


def code_of(run):
    with pytest.raises(OperationFailure) as caught:
        run()
    return caught.value.code


@pytest.mark.parametrize("command, code", COMMANDS, ids=str)
def test_command(client, db, command, code):
    database = client.admin if next(iter(command)).startswith(("replSet", "enable", "fsync")) else db
    assert code_of(lambda: database.command(command)) == code


@pytest.mark.parametrize("index, code", INDEXES, ids=str)
def test_index(db, index, code):
    assert code_of(lambda: db.command("createIndexes", "c", indexes=[{**index, "name": "i"}])) == code


def test_administration(client):
    for command, code in [
        ({"setFeatureCompatibilityVersion": "8.2", "confirm": True}, 4926900),
    ]:
        assert code_of(lambda command=command: client.admin.command(command)) == code, command


def test_change_streams_need_a_replica_set(db):
    assert code_of(lambda: db.c.watch()) == 40573


def test_transactions_need_a_replica_set(client, db):
    def transaction():
        with client.start_session() as session, session.start_transaction():
            db.c.insert_one({}, session=session)

    assert code_of(transaction) == 20


@pytest.mark.parametrize("flags", [["--shardsvr"], ["--configsvr"]])
def test_a_server_that_was_asked_for_is_not_replaced_by_a_lesser_one(tmp_path, flags):
    command = [os.environ["ARBOR"], "serve", "--dbpath", str(tmp_path), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
    assert done.returncode != 0 and flags[0].removeprefix("--") in done.stdout + done.stderr


def test_what_is_mapped_at_the_start_is_warned_about(tmp_path):
    with Arbor(tmp_path / "data", ["--directoryperdb"]) as arbor:
        with pymongo.MongoClient(arbor.uri, directConnection=True) as client:
            warnings = "\n".join(client.admin.command("getLog", "startupWarnings")["log"])
            assert "all databases share the files of their engine" in warnings
            assert client.admin.command("serverStatus")["storageEngine"]["name"] == "ftree"
