"""Routers that are stopped for longer than their lock lives: what they send afterwards changes nothing over what another one has done."""

import contextlib
import datetime
import signal
import threading
import time

import bson
import pymongo
import pytest
from pymongo.errors import OperationFailure

from arbor_cluster import Cluster, Several
from test_router import code_of

DOCUMENTS = 200
FLAGS = ["--setParameter", "enableTestCommands=1"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        cluster = Cluster(tmp_path_factory.mktemp("fencing"), stack, flags=FLAGS)
        several = stack.enter_context(Several(cluster.directory, "s2", "--shardsvr", 3, FLAGS))
        with pymongo.MongoClient("127.0.0.1", several.members.members[0].port, directConnection=True) as client:
            client.admin.command("replSetInitiate", several.members.config())
        cluster.shards.append(several)
        with cluster.routers[1].client() as client:
            client.admin.command("balancerStop")
            client.admin.command("addShard", several.hosts)
        yield cluster


@pytest.fixture(scope="module")
def other(cluster):
    with cluster.routers[1].client() as client:
        yield client


@contextlib.contextmanager
def late(cluster, command, shard=0, is_stopped=False):
    """Yields a function that runs a statement by the first router, which has lost its lock once a shard has got `command` of it: that runs a
    few seconds later. The function returns a list that has the statement's error in the end. `is_stopped`: the router is, meanwhile, and
    the command, which is a read, is sent again behind."""
    router, shard, threads = cluster.routers[0], cluster.shards[shard].client(), []
    data = {"failCommands": [command], "blockConnection": True, "blockTimeMS": 500 if is_stopped else 5000}
    point = {"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": data}

    def run(statement):
        outcome = []

        def work():
            with router.client(retryWrites=False) as client:
                try:
                    statement(client)
                    outcome.append(None)
                except OperationFailure as error:
                    outcome.append((error.code, error.details["errmsg"]))

        shard.admin.command(point)
        threads.append(threading.Thread(target=work))
        threads[0].start()
        deadline = time.monotonic() + 60
        while shard.admin.command(point)["count"] == 0:
            assert time.monotonic() < deadline and not outcome, outcome
        if is_stopped:
            router.process.send_signal(signal.SIGSTOP)
        shard.admin.command("configureFailPoint", "failCommand", mode="off")
        long_ago = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
        with cluster.config.client() as config:
            if is_stopped:
                config.config.locks.update_many({}, {"$set": {"when": long_ago}})
            else:
                # it would make it young again
                config.config.locks.delete_many({})
        return outcome

    try:
        with shard:
            yield run
    finally:
        if is_stopped:
            router.process.send_signal(signal.SIGCONT)
        [thread.join() for thread in threads]


def filled(other, name):
    """A sharded collection on s0, a database's worth of others."""
    db = other[name]
    other.admin.command("enableSharding", name, primaryShard="s0")
    other.admin.command("shardCollection", f"{name}.c", key={"a": 1})
    other.admin.command("split", f"{name}.c", middle={"a": 100})
    db.c.create_index("b")
    db.c.insert_many([{"_id": n, "a": n, "b": n} for n in range(DOCUMENTS)])
    db.plain.insert_many([{"_id": n} for n in range(DOCUMENTS)])
    return db


REFUSED = (46, "another router has taken the lock of this operation away")


def restart(cluster):
    cluster.shards[1].kill()
    cluster.shards[1].start()


def another_primary(cluster):
    members = cluster.shards[2].members
    with pymongo.MongoClient(members.uri) as client:
        client.admin.command("ping")
        leader = members.at(client.primary)
        leader.kill()
        deadline = time.monotonic() + 60
        while client.primary is None or members.at(client.primary) is leader:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    leader.start()


@pytest.mark.parametrize("to, meanwhile", [("s1", None), ("s1", restart), ("s2", another_primary)])
def test_a_move_does_not_begin_again_on_the_shard_that_has_the_range(cluster, other, to, meanwhile):
    """It would hide the range there, and delete its documents."""
    name = f"move_{to}_{getattr(meanwhile, '__name__', '')}"
    db = filled(other, name)
    move = lambda client: client.admin.command("moveChunk", f"{name}.c", find={"a": 150}, to=to)
    with late(cluster, "listIndexes", is_stopped=True) as run:
        outcome = run(move)
        move(other)
        db.c.insert_one({"_id": "new", "a": 150})
        if meanwhile:
            meanwhile(cluster)
    for router in cluster.routers:
        with router.client() as client:
            assert client[name].c.count_documents({}) == DOCUMENTS + 1
            assert client[name].c.count_documents({"a": {"$gte": 100}}) == DOCUMENTS - 100 + 1
    assert outcome == [REFUSED]
    assert other.config.chunks.count_documents({"shard": to, "uuid": other.config.collections.find_one({"_id": f"{name}.c"})["uuid"]}) == 1
    assert other.config.locks.count_documents({"_id": {"$regex": name}}) == 0
    # the next router is not in its way
    other.admin.command("moveChunk", f"{name}.c", find={"a": 150}, to="s0", _waitForDelete=True)
    assert db.c.count_documents({}) == DOCUMENTS + 1


def test_a_move_of_a_database_copies_nothing_over_newer_documents(cluster, other):
    db = filled(other, "primary")
    move = lambda client: client.admin.command("movePrimary", "primary", to="s1")
    with late(cluster, "_shardsvrTakeDocuments", shard=1) as run:
        outcome = run(move)
        move(other)
        assert db.plain.delete_many({"_id": {"$lt": 50}}).deleted_count == 50
        db.plain.update_many({}, {"$set": {"new": True}})
    assert db.plain.count_documents({"new": True}) == db.plain.count_documents({}) == DOCUMENTS - 50
    assert outcome == [REFUSED]
    db.plain.insert_one({"_id": "later"})
    assert move(other)["primary"] == "s1"


def test_the_end_of_a_resharding_drops_no_part_that_came_later(cluster, other):
    db = filled(other, "reshard")
    reshard = lambda client: client.admin.command("reshardCollection", "reshard.c", key={"b": 1}, numInitialChunks=1)
    with late(cluster, "_shardsvrReplaceCollection") as run:
        outcome = run(reshard)
        # completes it
        other.admin.command("refineCollectionShardKey", "reshard.c", key={"b": 1})
        other.admin.command("split", "reshard.c", middle={"b": 100})
        for shard in ("s0", "s1", "s2"):
            owners = {chunk["shard"] for chunk in other.config.chunks.find({"uuid": other.config.collections.find_one({"_id": "reshard.c"})["uuid"]})}
            if shard not in owners:
                other.admin.command("moveChunk", "reshard.c", find={"b": 150}, to=shard)
        db.c.insert_one({"_id": "new", "b": 150})
    assert db.c.count_documents({}) == DOCUMENTS + 1
    assert outcome == [REFUSED]


def test_a_new_database_is_not_given_the_version_of_one_that_was_dropped(cluster, other):
    """Shards keep the version of a database that was dropped."""
    for n in range(3):
        with cluster.routers[n % 2].client() as client:
            client.versions.c.insert_one({"_id": n})
            assert other.versions.c.count_documents({}) == 1
            client.drop_database("versions")
    versions = []
    for shard in cluster.shards[:2]:
        with shard.client() as client:
            versions += client.config["cache.ownership"].distinct("version.lastMod", {"_id": "versions"})
            tokens = client.config["cache.fencingTokens"].find_one({"_id": "versions"})
            assert tokens["token"] > bson.Timestamp(1, 1)
    assert versions == [0, 0]


OF_LOCK_HOLDERS = [
    "Join", "Leave", "MoveChanges", "MoveClose", "MoveIn", "MoveOpen", "MoveOut", "MoveRead", "MoveWrite", "ReplaceCollection", "SetOwnership", "TakeDocuments"]


def test_commands_of_lock_holders_need_a_token(cluster):
    with cluster.shards[0].client() as client:
        token = lambda seconds: {"lock": "tokens.c", "token": bson.Timestamp(seconds, 1)}
        drop = lambda given: client.tokens.command("drop", "c", fencingToken=given)
        client.tokens.c.insert_one({})
        # any command may have one
        assert code_of(lambda: drop({"lock": "tokens.c"})) == 2
        assert code_of(lambda: drop(1)) == 14
        drop(token(5))
        client.tokens.command("create", "c", fencingToken=token(7))
        assert code_of(lambda: drop(token(6))) == 46
        for command in OF_LOCK_HOLDERS:
            assert code_of(lambda: client.admin.command(f"_shardsvr{command}", "tokens.c")) == 40414, command
            assert code_of(lambda: client.admin.command(f"_shardsvr{command}", "tokens.c", fencingToken=token(6))) == 46, command
        assert client.config["cache.fencingTokens"].find_one({"_id": "tokens.c"})["token"] == bson.Timestamp(7, 1)
