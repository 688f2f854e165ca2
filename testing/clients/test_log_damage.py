"""A log that lost records which the engine's state is built on: refused with what is missing, and salvaged."""

import os
import re
import subprocess

import pymongo
import pytest

from arbor_process import Arbor

DOCUMENTS = 300


@pytest.fixture(params=["ftree", "lmdb"])
def killed(request, tmp_path):
    """A killed server whose engine has a durable state near the end of the log."""
    arbor = Arbor(tmp_path / "data", ["--storageEngine", request.param])
    arbor.start()
    with pymongo.MongoClient(arbor.uri, w=1, journal=True) as client:
        client.d.c.create_index("v")
        client.d.c.insert_many([{"_id": i, "v": 0} for i in range(DOCUMENTS)])
        for i in range(DOCUMENTS):
            client.d.c.update_one({"_id": i}, {"$set": {"v": 1}})
        client.admin.command("fsync")
        client.d.c.insert_many([{"_id": i, "v": 2} for i in range(1000, 1010)])
    arbor.kill()
    yield arbor
    arbor.stop()


def segments(arbor):
    return sorted((arbor.dbpath / "log").glob("*.log"))


def cut(arbor):
    """The newest updates are in the engine's state alone."""
    last = segments(arbor)[-1]
    # behind the records is space that is reserved for more
    records = last.read_bytes().rstrip(b"\0")
    os.truncate(last, len(records) // 2)


def remove(arbor):
    for segment in segments(arbor):
        segment.unlink()


def refusal(arbor):
    with pytest.raises(RuntimeError) as refused:
        arbor.start()
    return str(refused.value)


@pytest.mark.parametrize("damage", [cut, remove])
def test_a_log_without_its_end_is_refused_and_salvaged(killed, damage, tmp_path):
    damage(killed)
    for _ in range(2):
        missing = re.search(r"records (\d+) to (\d+) are missing", refusal(killed))
        assert int(missing[1]) < int(missing[2])
    into = tmp_path / "salvaged"
    into.mkdir()
    command = [os.environ["ARBOR"], "salvage", "--dbpath", str(killed.dbpath), "--into", str(into)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    with Arbor(into) as salvaged, pymongo.MongoClient(salvaged.uri) as client:
        # no row went back to what an older record of the log says
        assert client.d.c.count_documents({"v": 1}) == DOCUMENTS
        assert client.d.c.count_documents({"v": 0}) == 0
        assert client.d.validate_collection("c", full=True)["valid"]
