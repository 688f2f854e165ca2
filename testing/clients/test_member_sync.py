"""Members that need the data and not the log: an empty one that is added late, one that was away for too long, and what ends on the way."""

import contextlib
import os
import threading
import time

import pymongo
import pytest
from pymongo.errors import AutoReconnect, NotPrimaryError, OperationFailure, PyMongoError

from arbor_process import Members
from test_members import digest, direct, hello, in_sync, initiated, primary_of, status, until

LIMIT_S = 90
SMALL_LOG = ["--oplogSize", "1", "--syncdelay", "1", "--setParameter", "logHeldForMembersMB=0"]
MEGABYTE = 1 << 20
SECONDARY = pymongo.ReadPreference.SECONDARY_PREFERRED


def log_begins_at(member):
    """The number of the oldest segment of the log."""
    return min(path.name for path in (member.dbpath / "log").iterdir())


def fill_log(client, primary):
    """Writes until the primary has removed the log of before."""
    before = log_begins_at(primary)
    client.db.filler.drop()
    for number in range(400):
        client.db.filler.replace_one({"_id": number % 8}, {"bytes": os.urandom(MEGABYTE)}, upsert=True)
        if number % 8 == 7 and log_begins_at(primary) > before:
            return
    until(lambda: log_begins_at(primary) > before, LIMIT_S, "the log's first segment to be removed")


def fill_collections(client):
    client.db.c.insert_many([{"_id": number, "n": number % 7, "tags": ["a", number]} for number in range(2_000)])
    client.db.c.create_index([("n", 1), ("_id", -1)])
    client.db.c.create_index("tags")
    client.other.text.insert_many([{"words": f"word{number} and"} for number in range(500)])
    client.other.text.create_index([("words", "text")])
    client.db.create_collection("capped", capped=True, size=100_000)
    client.db.capped.insert_many([{"n": number} for number in range(100)])
    client.db.create_collection("seen", viewOn="c", pipeline=[{"$match": {"n": 1}}])
    client.db.empty.create_index("x", unique=True)


def state(member):
    """All that a member shows of its collections."""
    shown = {}
    with direct(member) as client:
        for name in ("db", "other"):
            database = client.get_database(name, read_preference=SECONDARY)
            shown[name] = database.command("dbHash")["collections"]
            for collection in database.list_collection_names():
                info = database[collection]
                indexes = [] if collection == "seen" else sorted(info.index_information())
                shown[name, collection] = info.count_documents({}), info.estimated_document_count(), indexes
        assert client.db.get_collection("c", read_preference=SECONDARY).count_documents({"n": 3}, hint="n_1__id_-1") > 0
    return shown


def equal(*members):
    until(lambda: len({str(state(member)) for member in members}) == 1, LIMIT_S, "equal data on all members")
    for member in members:
        with direct(member) as client:
            for name in ("c", "capped"):
                assert client.db.get_collection(name, read_preference=SECONDARY).database.command("validate", name)["valid"]


def add(client, members, number, **fields):
    config = client.admin.command("replSetGetConfig")["config"]
    config["version"] += 1
    config["members"].append({"_id": number, "host": members.hosts[number], **fields})
    with contextlib.suppress(AutoReconnect):
        client.admin.command("replSetReconfig", config)


@contextlib.contextmanager
def writing(client):
    """Writes continue meanwhile; yields the number of those that were acknowledged."""
    done, stop = [0], threading.Event()

    def write():
        while not stop.is_set():
            # A set of one that grows is without a primary for a moment, longer than the driver's one retry.
            with contextlib.suppress(AutoReconnect):
                client.db.busy.replace_one({"_id": done[0]}, {"n": done[0]}, upsert=True)
                client.db.c.update_one({"_id": done[0] % 2_000}, {"$inc": {"changed": 1}})
                done[0] += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield done
    finally:
        stop.set()
        writer.join()


@contextlib.contextmanager
def alone_with_short_log(directory):
    """A set of one whose log does not begin at its first record, and a process that can be added."""
    with Members(directory, count=1, flags=SMALL_LOG) as members:
        alone = members.members[0]
        with direct(alone) as client:
            client.admin.command("replSetInitiate", members.config())
            until(lambda: hello(alone)["isWritablePrimary"])
            fill_collections(client)
            fill_log(client, alone)
        joined = members.add_process()
        joined.start()
        uri = f"mongodb://127.0.0.1:{alone.port}/?replicaSet=rs0"
        with pymongo.MongoClient(uri, serverSelectionTimeoutMS=20_000) as client:
            yield members, alone, joined, client


@contextlib.contextmanager
def watched_as_secondary(member):
    """Reads of the member meanwhile, whenever it says that it is a secondary: yields what they found of a collection that is never empty."""
    found, stop = [], threading.Event()

    def watch():
        with direct(member) as client:
            while not stop.is_set():
                with contextlib.suppress(PyMongoError):
                    if client.admin.command("hello")["secondary"]:
                        found.append(client.db.get_collection("c", read_preference=SECONDARY).find_one({}, {"_id": 1}))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        stop.set()
        watcher.join()


def joined_log(member):
    return member.log_path.read_text(errors="replace")


def test_an_empty_member_is_added_after_the_log_was_cut(tmp_path):
    with alone_with_short_log(tmp_path) as (members, alone, joined, client):
        with writing(client) as done, watched_as_secondary(joined) as found:
            add(client, members, 1)
            until(lambda: len(status(client)["arbor"]["inSync"]) == 2, LIMIT_S, "two members in sync")
            seen = done[0]
            until(lambda: done[0] > seen + 20, LIMIT_S, "writes after the sync")
        assert found and None not in found, "a member that has no data yet is no secondary"
        equal(alone, joined)
        assert "Initial sync is done" in joined_log(joined)
        with direct(joined) as other:
            said = status(other)
            assert "initialSyncStatus" not in said and said["myState"] == 2
            last = other.admin.command("replSetGetStatus", initialSync=1)["initialSyncStatus"]
            assert last["rowsCopied"] > 0 and last["treesCopied"] == last["trees"]
            assert other.db.get_collection("busy", read_preference=SECONDARY).count_documents({}) == done[0]
        # it opens again as it was left, and can lead
        joined.kill()
        joined.start()
        until(lambda: len(status(client)["arbor"]["inSync"]) == 2, LIMIT_S, "two members in sync")
        equal(alone, joined)
        client.admin.command("replSetStepDown", 30, secondaryCatchUpPeriodSecs=20)
        until(lambda: hello(joined)["isWritablePrimary"], LIMIT_S, "the lead of the new member")
        client.db.c.insert_one({"_id": "from the other"})
        equal(alone, joined)


def test_a_member_that_was_away_too_long_copies_the_data(tmp_path):
    with Members(tmp_path, flags=SMALL_LOG) as members:
        with direct(members.members[0]) as first:
            first.admin.command("replSetInitiate", members.config())
        with pymongo.MongoClient(members.uri, serverSelectionTimeoutMS=20_000) as client:
            fill_collections(client)
            in_sync(client, 3)
            primary = members.at(client.primary)
            away = next(member for member in members.members if member is not primary)
            away.stop()
            client.db.c.delete_many({"n": 2})
            client.db.capped.drop()
            client.db.create_collection("capped", capped=True, size=50_000)
            client.db.capped.insert_one({"n": 1})
            fill_log(client, primary)
            with writing(client):
                away.start()
                in_sync_again = lambda: len(status(client)["arbor"]["inSync"]) == 3  # noqa: E731
                until(in_sync_again, LIMIT_S, "three members in sync")
            assert "Initial sync is done" in joined_log(away)
            equal(*members.members)


@pytest.mark.parametrize("ended", ["member", "source"])
def test_a_process_is_killed_in_the_middle(tmp_path, ended):
    with Members(tmp_path, flags=SMALL_LOG) as members:
        with direct(members.members[0]) as first:
            first.admin.command("replSetInitiate", members.config())
        with pymongo.MongoClient(members.uri, serverSelectionTimeoutMS=30_000) as client:
            fill_collections(client)
            in_sync(client, 3)
            primary = members.at(client.primary)
            for number in range(96):
                client.db.large.insert_one({"_id": number, "bytes": os.urandom(MEGABYTE)})
            fill_log(client, primary)
            joined = members.add_process()
            joined.start()
            add(client, members, 3)
            with direct(joined) as other:

                def copies():
                    said = status(other)
                    return said["myState"] == 5 and said.get("initialSyncStatus", {}).get("bytesCopied", 0) > MEGABYTE

                until(copies, LIMIT_S, "the initial sync to begin")
                # nothing is shown of data that is half here
                collection = other.db.get_collection("c", read_preference=SECONDARY)
                with contextlib.suppress(NotPrimaryError, OperationFailure, AutoReconnect):
                    assert collection.count_documents({}) == client.db.c.count_documents({})
            victim = joined if ended == "member" else primary
            victim.kill()
            marked = (joined.dbpath / "arbor.syncing").exists()
            client.db.c.insert_one({"_id": "meanwhile"})
            time.sleep(0.5)
            victim.start()
            until(lambda: primary_of(members), LIMIT_S, "a primary")
            until(lambda: len(status(client)["arbor"]["inSync"]) == 4, LIMIT_S, "four members in sync")
            assert marked, "the process was killed in the middle"
            assert not (joined.dbpath / "arbor.syncing").exists()
            equal(*members.members)


def test_the_log_is_kept_for_a_member_that_comes_back(tmp_path):
    flags = ["--oplogSize", "1", "--syncdelay", "1", "--setParameter", "logHeldForMembersMB=1024"]
    with Members(tmp_path, flags=flags) as members:
        with direct(members.members[0]) as first:
            first.admin.command("replSetInitiate", members.config())
        with pymongo.MongoClient(members.uri, serverSelectionTimeoutMS=20_000) as client:
            fill_collections(client)
            in_sync(client, 3)
            primary = members.at(client.primary)
            away = next(member for member in members.members if member is not primary)
            away.stop()
            before = log_begins_at(primary)
            for number in range(160):
                client.db.filler.replace_one({"_id": number % 8}, {"bytes": os.urandom(MEGABYTE)}, upsert=True)
            client.admin.command("fsync")
            assert log_begins_at(primary) == before
            held = status(client)["arbor"]
            assert held["logFirst"] <= held["logHeldFrom"] < held["commitIndex"]
            away.start()
            until(lambda: len(status(client)["arbor"]["inSync"]) == 3, LIMIT_S, "three members in sync")
            assert "Initial sync" not in joined_log(away)
            equal(*members.members)
            # A limit that is smaller lets it go.
            client.admin.command("setParameter", 1, logHeldForMembersMB=0)
            fill_log(client, primary)


def test_times_advance_on_an_idle_set(tmp_path):
    with Members(tmp_path, flags=["--setParameter", "periodicNoopIntervalSecs=1"]) as members:
        with direct(members.members[0]) as first:
            first.admin.command("replSetInitiate", members.config())
        with pymongo.MongoClient(members.uri, serverSelectionTimeoutMS=20_000) as client:
            client.db.c.insert_one({"_id": 1})
            in_sync(client, 3)
            other = next(member for member in members.members if member is not members.at(client.primary))
            with direct(other) as follower:
                until(lambda: follower.db.get_collection("c", read_preference=SECONDARY).find_one(), LIMIT_S, "the insert on a secondary")
                times = {follower.admin.command("ping")["operationTime"]}

                def advances():
                    times.add(follower.admin.command("ping")["operationTime"])
                    return len(times) >= 3

                until(advances, LIMIT_S, "later times on a secondary of an idle set")
            noops = client.local.get_collection("oplog.rs").count_documents({"op": "n", "o.msg": "periodic noop"})
            assert noops >= 2
