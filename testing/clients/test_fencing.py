"""Routers that are stopped for longer than their lock lives: what they send afterwards changes nothing over what another one has done."""

import contextlib
import datetime
import signal
import threading
import time

import bson
import pymongo
import pytest
from pymongo.errors import OperationFailure, PyMongoError

from arbor_cluster import Cluster, Member, Router, Several
from test_router import code_of

DOCUMENTS = 200
FLAGS = ["--setParameter", "enableTestCommands=1"]
LONG_AGO = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)


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
def late(cluster, command, shard=0, is_stopped=False, delay_ms=5000):
    """Yields a function that runs a statement by the first router, which has lost its lock once a shard has got `command` of it: that runs
    `delay_ms` later. The function returns a list that has the statement's error in the end. `is_stopped`: the router is, meanwhile, and its
    locks are old."""
    router, shard, threads = cluster.routers[0], cluster.shards[shard].client(), []
    data = {"failCommands": [command], "blockConnection": True, "blockTimeMS": delay_ms}
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
        with cluster.config.client() as config:
            if is_stopped:
                config.config.locks.update_many({}, {"$set": {"when": LONG_AGO}})
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
    # a read, which is sent again behind
    with late(cluster, "listIndexes", is_stopped=True, delay_ms=500) as run:
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


def test_shards_keep_nothing_of_a_database_that_was_dropped(cluster, other):
    """They refuse the version that routers of before have all the same."""
    for n in range(3):
        with cluster.routers[n % 2].client() as client:
            client.versions.c.insert_one({"_id": n})
            client.admin.command("shardCollection", "versions.sharded", key={"a": 1})
            assert other.versions.c.count_documents({}) == 1
            before = client.config.databases.find_one({"_id": "versions"})["version"]
            client.drop_database("versions")
    unsharded = {"e": bson.ObjectId("0" * 24), "t": bson.Timestamp(0, 0), "v": bson.Timestamp(0, 0)}
    insert = {"insert": "c", "documents": [{}], "shardVersion": unsharded, "databaseVersion": before}
    for shard in cluster.shards[:2]:
        for _ in range(2):
            with shard.client() as client:
                until(lambda client=client: client.admin.command("hello")["isWritablePrimary"])
                assert list(client.config["cache.ownership"].find({"_id": {"$regex": "^versions"}})) == []
                tokens = client.config["cache.fencingTokens"].find_one({"_id": "versions"})
                assert tokens["token"] > bson.Timestamp(1, 1)
                assert code_of(lambda client=client: client.versions.command(insert)) == 249
            shard.kill()
            shard.start()


@pytest.mark.parametrize("is_stage", [False, True])
def test_a_shard_that_does_not_know_its_database_learns_its_version(cluster, other, is_stage):
    """As where the router of the first statement ended before it sent the version."""
    name = f"unknown{is_stage}"
    db = filled(other, name)
    with cluster.shards[0].client() as client:
        assert client.config["cache.ownership"].delete_one({"_id": name}).deleted_count == 1
    cluster.shards[0].kill()
    cluster.shards[0].start()
    if is_stage:
        join = {"$lookup": {"from": "plain", "localField": "a", "foreignField": "_id", "as": "x"}}
        assert len(list(db.c.aggregate([join, {"$match": {"x._id": 5}}]))) == 1
    else:
        assert db.plain.count_documents({}) == DOCUMENTS
    version = other.config.databases.find_one({"_id": name})["version"]
    with cluster.shards[0].client() as client:
        assert client.config["cache.ownership"].find_one({"_id": name})["version"] == version


def direct(shard):
    return pymongo.MongoClient(shard.members.uri) if isinstance(shard, Several) else shard.client()


def blocked(cluster, name):
    """The shards that refuse requests on a database or its collections."""
    of_name, found = {"_id": {"$regex": rf"^{name}(\.|$)"}, "state": "blocked"}, []
    for shard in cluster.shards:
        with direct(shard) as client:
            found += [shard.name] * client.config["cache.ownership"].count_documents(of_name)
    return found


def is_running(shard, command):
    return any(command in one.get("command", {}) for one in shard.admin.aggregate([{"$currentOp": {}}]))


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# what blocks the shards, and what takes the same lock afterwards without asking any of them
BLOCKING = {
    "refineCollectionShardKey": lambda client, db: client.admin.command("refineCollectionShardKey", f"{db}.c", key={"a": 1, "b": 1}),
    "renameCollection": lambda client, db: client.admin.command("renameCollection", f"{db}.c", to=f"{db}.d"),
    "shardCollection": lambda client, db: client.admin.command("shardCollection", f"{db}.plain", key={"_id": 1}),
    "moveCollection": lambda client, db: client.admin.command("moveCollection", f"{db}.plain", toShard="s1"),
    "drop": lambda client, db: client[db].command("drop", "c"),
    "dropDatabase": lambda client, db: client[db].command("dropDatabase"),
}


def take_locks(other, name):
    other.admin.command("movePrimary", name, to="s0")
    for collection in ("c", "d", "plain"):
        # not all of them are sharded
        with contextlib.suppress(OperationFailure):
            other.admin.command("setAllowMigrations", f"{name}.{collection}", allowMigrations=True)


# The router has to be stopped within the first of these, which takes more than a second on a busy machine, and its locks taken within the second.
STOPPED_MS, TAKEN_MS = 2500, 4000


@pytest.mark.parametrize("delay_ms", [STOPPED_MS, TAKEN_MS])
@pytest.mark.parametrize("change", BLOCKING)
def test_who_takes_a_lock_over_releases_the_shards(cluster, other, change, delay_ms):
    """Those that the earlier holder has blocked, and those that get its command later."""
    name = f"{change}_{delay_ms}"
    db = filled(other, name)
    db.c.create_index([("a", 1), ("b", 1)])
    with late(cluster, "_shardsvrSetOwnership", shard=1, is_stopped=True, delay_ms=delay_ms) as run, cluster.shards[1].client() as s1:
        outcome = run(lambda client: BLOCKING[change](client, name))
        if delay_ms == STOPPED_MS:
            until(lambda: not is_running(s1, "_shardsvrSetOwnership"))
            assert blocked(cluster, name)
        take_locks(other, name)
        until(lambda: not is_running(s1, "_shardsvrSetOwnership"))
        assert blocked(cluster, name) == []
    assert outcome == [REFUSED] and blocked(cluster, name) == []
    assert db.c.count_documents({}) == db.plain.count_documents({}) == DOCUMENTS
    assert other.config.locks.count_documents({"_id": {"$regex": f"^{name}"}}) == 0


@pytest.mark.parametrize("change", BLOCKING)
def test_shards_that_could_not_be_released_are_so_later(cluster, other, change):
    name = f"{change}_failed"
    db = filled(other, name)
    db.c.create_index([("a", 1), ("b", 1)])
    of_set = {"failCommands": ["_shardsvrSetOwnership"], "errorCode": 96}
    with cluster.shards[0].client() as s0, cluster.shards[1].client() as s1:
        refused = {"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": {**of_set, "blockConnection": True, "blockTimeMS": 1000}}
        s1.admin.command(refused)
        errors = []

        def run():
            try:
                BLOCKING[change](other, name)
            except OperationFailure as error:
                errors.append(error.code)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            until(lambda: s1.admin.command(refused)["count"])
            # s0 is blocked, and cannot be released
            s0.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data=of_set)
            thread.join()
            assert errors == [96] and blocked(cluster, name) == ["s0"] * len(blocked(cluster, name)) != []
        finally:
            s0.admin.command("configureFailPoint", "failCommand", mode="off")
            s1.admin.command("configureFailPoint", "failCommand", mode="off")
    with cluster.config.client() as config:
        config.config.locks.update_many({"_id": {"$regex": f"^{name}"}}, {"$set": {"when": LONG_AGO}})
    until(lambda: blocked(cluster, name) == [])
    until(lambda: other.config.locks.count_documents({"_id": {"$regex": f"^{name}"}}) == 0)
    assert db.c.count_documents({}) == db.plain.count_documents({}) == DOCUMENTS
    BLOCKING[change](other, name)


# statements on one of the names, and how many documents the new name has then, None: it is gone
ON_A_NAME = {
    "shardCollection, old": (lambda client, db: client.admin.command("shardCollection", f"{db}.c", key={"b": 1}), DOCUMENTS),
    "shardCollection, new": (lambda client, db: client.admin.command("shardCollection", f"{db}.d", key={"a": 1}), DOCUMENTS),
    "moveChunk": (lambda client, db: client.admin.command("moveChunk", f"{db}.d", find={"a": 150}, to="s1"), DOCUMENTS),
    "split": (lambda client, db: client.admin.command("split", f"{db}.d", middle={"a": 50}), DOCUMENTS),
    "setAllowMigrations": (lambda client, db: client.admin.command("setAllowMigrations", f"{db}.d", allowMigrations=False), DOCUMENTS),
    "insert, old": (lambda client, db: client[db].c.insert_one({}), DOCUMENTS),
    "drop, old": (lambda client, db: client[db].command("drop", "c"), DOCUMENTS),
    "drop, new": (lambda client, db: client[db].command("drop", "d"), None),
    "a new name that is the old one": (lambda client, db: client.admin.command("renameCollection", f"{db}.plain", to=f"{db}.c", dropTarget=True), DOCUMENTS),
    "a new name that is the new one": (lambda client, db: client.admin.command("renameCollection", f"{db}.plain", to=f"{db}.d", dropTarget=True), None),
    "$out": (lambda client, db: client[db].plain.aggregate([{"$sort": {"_id": -1}}, {"$out": "c"}]), DOCUMENTS),
}


@pytest.mark.parametrize("is_stopped", [True, False])
@pytest.mark.parametrize("statement", ON_A_NAME)
def test_a_rename_that_was_decided_is_completed_before_anything_else(cluster, other, statement, is_stopped):
    name = "rename_" + "".join(filter(str.isalpha, statement)) + str(is_stopped)
    db = filled(other, name)
    uuid = other.config.collections.find_one({"_id": f"{name}.c"})["uuid"]
    with late(cluster, "_shardsvrReplaceCollection", is_stopped=is_stopped, delay_ms=1000 if is_stopped else 4000) as run:
        outcome = run(lambda client: client.admin.command("renameCollection", f"{name}.c", to=f"{name}.d"))
        run_statement, documents = ON_A_NAME[statement]
        # it does not know the collection under its old name
        other.admin.command("flushRouterConfig")
        try:
            run_statement(other, name)
        except OperationFailure as error:
            # there is nothing of the old name any more
            assert error.code in (26, 48), error
        if documents:
            assert other.config.collections.find_one({"_id": f"{name}.d"}).get("renaming") is None, "it was completed"
    for router in cluster.routers:
        with router.client() as client:
            if documents:
                assert client[name].d.count_documents({}) == documents
                assert sorted(one["a"] for one in client[name].d.find()) == list(range(DOCUMENTS))
            else:
                assert client.config.collections.count_documents({"uuid": uuid}) == 0
            # nothing of the rename is under the old name
            assert client[name].c.count_documents({"b": {"$exists": True}}) == 0
            if statement.startswith("shard") and "old" in statement:
                assert client[name].c.count_documents({}) == 0 and client.config.collections.find_one({"_id": f"{name}.c"})["key"] == {"b": 1}
    assert outcome == [REFUSED] and blocked(cluster, name) == []


def test_a_join_has_a_collection_repaired_that_a_shard_refuses(cluster, other):
    """As one whose change was given up. No other request is about it."""
    db = filled(other, "joined")
    with cluster.shards[0].client() as s0:
        token = s0.config["cache.fencingTokens"].find_one({"_id": "joined.c"})["token"]
        s0.admin.command("_shardsvrSetOwnership", "joined.c", state="blocked", fencingToken={"lock": "joined.c", "token": token})
    assert blocked(cluster, "joined") == ["s0"]
    join = {"$lookup": {"from": "c", "localField": "_id", "foreignField": "a", "as": "x"}}
    assert [one["_id"] for one in db.plain.aggregate([join, {"$match": {"x.b": 5}}])] == [5]
    assert blocked(cluster, "joined") == []


@pytest.mark.parametrize("outcome", ["done", "failed", "done, and made again"])
def test_the_ranges_of_a_collection_go_with_it_if_the_router_ends_behind_its_drop(cluster, other, tmp_path, outcome):
    name = "ranges_" + "".join(filter(str.isalpha, outcome))
    db = filled(other, name)
    other.admin.command("addShardToZone", "s0", zone=name)
    other.admin.command("updateZoneKeyRange", f"{name}.plain", min={"_id": 0}, max={"_id": 9}, zone=name)
    data = {"failCommands": ["drop"], "blockConnection": True, "blockTimeMS": 500}
    point = {"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": {**data, **({"errorCode": 96} if outcome == "failed" else {})}}

    def run(router):
        with router.client(retryWrites=False) as client, contextlib.suppress(PyMongoError):
            client[name].command("drop", "plain")

    with Router(tmp_path, cluster.config) as router, cluster.shards[0].client() as s0:
        s0.admin.command(point)
        thread = threading.Thread(target=run, args=[router])
        thread.start()
        until(lambda: s0.admin.command(point)["count"])
        router.process.send_signal(signal.SIGSTOP)
        s0.admin.command("configureFailPoint", "failCommand", mode="off")
        if outcome != "failed":
            until(lambda: "plain" not in s0[name].list_collection_names())
        router.kill()
        thread.join()
    assert ("plain" in db.list_collection_names()) == (outcome == "failed")
    if "again" in outcome:
        db.plain.insert_one({})
    with cluster.config.client() as config:
        config.config.locks.update_many({"_id": {"$regex": f"^{name}"}}, {"$set": {"when": LONG_AGO}})
    until(lambda: other.config.locks.count_documents({"_id": {"$regex": f"^{name}"}}) == 0)
    left = list(other.config.tags.find({"ns": f"{name}.plain"}))
    assert [(set(tag), tag["tag"]) for tag in left] == ([({"_id", "ns", "min", "max", "tag"}, name)] if outcome == "failed" else [])
    assert db.plain.count_documents({}) == {"done": 0, "failed": DOCUMENTS}.get(outcome, 1)


OF_LOCK_HOLDERS = [
    "Join", "Leave", "MoveChanges", "MoveClose", "MoveIn", "MoveOpen", "MoveOut", "MoveRead", "MoveWrite", "ReplaceCollection", "SetOwnership", "TakeDocuments"]


def test_commands_of_lock_holders_need_a_token(cluster):
    with cluster.shards[0].client() as client:
        # a shard takes none of before it became one
        begin = int(time.time())
        at = lambda seconds: bson.Timestamp(begin + seconds, 1)
        token = lambda seconds: {"lock": "tokens.c", "token": at(seconds)}
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
        assert client.config["cache.fencingTokens"].find_one({"_id": "tokens.c"})["token"] == at(7)


def test_old_rows_of_tokens_become_a_bound(tmp_path):
    with Member(tmp_path, "alone", "--shardsvr") as shard:
        shard.initiate()

        def enter(client, lock, seconds):
            token = {"lock": lock, "token": bson.Timestamp(seconds, 1)}
            return client.admin.command("ping", check=False, fencingToken=token).get("code", 0)

        with shard.client() as client:
            until(lambda: client.admin.command("hello")["isWritablePrimary"])
            rows = client.config["cache.fencingTokens"]
            for n in range(999):
                assert enter(client, f"db.c{n}", 7) == 0
            assert rows.count_documents({}) == 999
            assert enter(client, "db.new", 3 * 3600) == 0
            assert sorted(rows.find({}, {"_id": 1, "token": 1}), key=lambda row: row["_id"]) == [
                {"_id": "", "token": bson.Timestamp(2 * 3600, 0)}, {"_id": "db.new", "token": bson.Timestamp(3 * 3600, 1)}]
        for _ in range(2):
            with shard.client() as client:
                until(lambda: client.admin.command("hello")["isWritablePrimary"])
                # earlier holders are refused all the same
                assert [enter(client, lock, seconds) for lock in ("db.c0", "db.c998", "db.other") for seconds in (5, 8, 2 * 3600 - 1)] == [46] * 9
                assert enter(client, "db.new", 3 * 3600 - 1) == 46 and enter(client, "db.c1", 3 * 3600 - 1) == 0
                assert enter(client, "", 4 * 3600) == 2, "the name of the bound is that of no lock"
            shard.kill()
            shard.start()


def test_a_shard_that_is_added_takes_no_token_of_before(cluster, other, tmp_path):
    filled(other, "added")
    block = {"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": {
        "failCommands": ["_shardsvrSetOwnership"], "blockConnection": True, "blockTimeMS": 3000}}
    with Member(tmp_path, "s3", "--shardsvr", FLAGS) as s3, cluster.shards[1].client() as s1, cluster.routers[0].client() as client:
        s3.initiate()
        before = other.admin.command("ping")["$clusterTime"]["clusterTime"]
        s1.admin.command(block)
        outcome = []
        thread = threading.Thread(target=lambda: outcome.append(client.added.command("dropDatabase")["dropped"]))
        thread.start()
        until(lambda: s1.admin.command(block)["count"])
        s1.admin.command("configureFailPoint", "failCommand", mode="off")
        with s3.client() as direct:
            until(lambda: direct.admin.command("hello")["isWritablePrimary"])
            other.admin.command("addShard", s3.hosts)
            thread.join()
            # who has held a lock since before then has read its token again
            assert outcome == ["added"]
            tokens = {row["_id"]: row["token"] for row in direct.config["cache.fencingTokens"].find()}
            assert tokens["added"] >= tokens[""] > before
        for _ in range(2):
            with s3.client() as direct:
                until(lambda direct=direct: direct.admin.command("hello")["isWritablePrimary"])
                for lock in ("added", "never.c", "config.shards"):
                    token = {"lock": lock, "token": before}
                    set_ownership = lambda: direct.admin.command("_shardsvrSetOwnership", "never.c", state="blocked", fencingToken=token)
                    assert code_of(set_ownership) == 46, lock
            s3.kill()
            s3.start()
        for state in ("started", "completed"):
            assert other.admin.command("removeShard", "s3")["state"] == state
