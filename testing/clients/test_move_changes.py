"""The donor of a chunk says what has changed once that is certain: what a client may have been shown is never missing in the recipient."""

import contextlib
import pathlib
import signal
import time

import bson
import pymongo
import pytest
from pymongo.errors import ExecutionTimeout

from arbor_cluster import Member, Router, Several

ALL_KEYS = {"low": b"", "high": b"\xff"}


def has_stopped(pid):
    states = (status.read_text().rsplit(")", 1)[1].split()[0] for status in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"))
    return all(state == "T" for state in states)


@contextlib.contextmanager
def stopped(processes):
    try:
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        # a thread that runs until the signal reaches it could still acknowledge a write
        while not all(has_stopped(process.pid) for process in processes):
            time.sleep(0.01)
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def donor(directory):
    """A shard of three members, with the collection `db.c` of it, and a client of its primary."""
    with contextlib.ExitStack() as stack:
        config = stack.enter_context(Member(directory, "cfg", "--configsvr"))
        config.initiate()
        shard = stack.enter_context(Several(directory, "s0", "--shardsvr", 3))
        first = shard.members.members[0]
        primary = stack.enter_context(pymongo.MongoClient("127.0.0.1", first.port, directConnection=True, retryWrites=False))
        primary.admin.command("replSetInitiate", shard.members.config())
        router = stack.enter_context(Router(directory, config))
        with router.client() as client:
            client.admin.command("addShard", shard.hosts)
            client.admin.command("shardCollection", "db.c", key={"_id": 1})
            client.db.get_collection("c", write_concern=pymongo.WriteConcern(3)).insert_one({"_id": "before"})
        yield shard.members.members[1:], primary


def test_changes_wait_for_writes_that_the_set_does_not_have_yet(tmp_path):
    with donor(tmp_path) as (followers, primary):
        moved = {"id": bson.ObjectId(), "fencingToken": {"lock": "db.c", "token": bson.Timestamp(2**32 - 1, 1)}}
        begins = {"key": {"_id": 1}, "range": {"min": {"_id": bson.MinKey()}, "max": {"_id": bson.MaxKey()}}, **ALL_KEYS}
        primary.admin.command("_shardsvrMoveOut", "db.c", **moved, **begins)
        with stopped([member.process for member in followers]):
            concern = {"w": "majority", "wtimeout": 200}
            reply = primary.db.command("insert", "c", documents=[{"_id": "written"}], writeConcern=concern)
            assert reply["n"] == 1 and reply["writeConcernError"]["code"] == 64, reply
            with pytest.raises(ExecutionTimeout):
                primary.admin.command("_shardsvrMoveChanges", "db.c", **moved, maxTimeMS=200)
        reply = primary.admin.command("_shardsvrMoveChanges", "db.c", **moved)
        assert [doc["_id"] for doc in reply["documents"]] == ["written"] and reply["deletes"] == [], reply
