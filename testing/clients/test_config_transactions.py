"""Writes of routers on the config servers that are aborted, lost or left open: no client notices, and no other router waits."""

import contextlib
import re
import subprocess
import sys
import threading
import time

import pymongo
import pytest
from bson import MaxKey, MinKey, ObjectId, json_util
from pymongo.errors import OperationFailure, PyMongoError

from arbor_cluster import Cluster, Several
from test_fail_points import fail_point
from test_router import code_of

DOCUMENTS = 60
FLAGS = ["--setParameter", "enableTestCommands=1"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        yield Cluster(tmp_path_factory.mktemp("transactions"), stack, flags=FLAGS, config_flags=FLAGS)


@pytest.fixture(scope="module")
def config(cluster):
    with cluster.config.client() as client:
        yield client


@pytest.fixture(scope="module")
def routed(cluster):
    with cluster.routers[0].client(retryWrites=False) as client:
        client.admin.command("balancerStop")
        yield client


def filled(routed, name):
    """A database with a collection of two chunks on s0, and one that is not sharded."""
    db = routed[name]
    routed.admin.command("enableSharding", name, primaryShard="s0")
    db.plain.insert_many([{"_id": n} for n in range(DOCUMENTS)])
    routed.admin.command("shardCollection", f"{name}.c", key={"a": 1})
    db.c.create_index([("a", 1), ("b", 1)])
    db.c.create_index("b")
    db.c.insert_many([{"_id": n, "a": n, "b": -n} for n in range(DOCUMENTS)])
    routed.admin.command("split", f"{name}.c", middle={"a": 30})
    return db


CHANGES = {
    "split": lambda admin, db: admin.command("split", f"{db}.c", middle={"a": 10}),
    "mergeChunks": lambda admin, db: admin.command(
        "mergeChunks", f"{db}.c", bounds=[{"a": MinKey()}, {"a": MaxKey()}]),
    "moveChunk": lambda admin, db: admin.command("moveChunk", f"{db}.c", find={"a": 5}, to="s1"),
    "moveRange": lambda admin, db: admin.command("moveRange", f"{db}.c", min={"a": 30}, max={"a": 40}, toShard="s1"),
    "shardCollection": lambda admin, db: admin.command("shardCollection", f"{db}.plain", key={"_id": 1}),
    "refineCollectionShardKey": lambda admin, db: admin.command("refineCollectionShardKey", f"{db}.c", key={"a": 1, "b": 1}),
    "reshardCollection": lambda admin, db: admin.command("reshardCollection", f"{db}.c", key={"b": 1}),
    "unshardCollection": lambda admin, db: admin.command("unshardCollection", f"{db}.c", toShard="s1"),
    "moveCollection": lambda admin, db: admin.command("moveCollection", f"{db}.plain", toShard="s1"),
    "renameCollection": lambda admin, db: admin.command("renameCollection", f"{db}.c", to=f"{db}.d"),
    "movePrimary": lambda admin, db: admin.command("movePrimary", db, to="s1"),
}


# only a lock shows that these are the change of the router that decides now
OTHERS = {
    "drop": lambda admin, db: admin.client[db].c.drop(),
    "dropDatabase": lambda admin, db: admin.client.drop_database(db),
    "clearJumboFlag": lambda admin, db: admin.command("clearJumboFlag", f"{db}.c", find={"a": 5}),
    "setAllowMigrations": lambda admin, db: admin.command("setAllowMigrations", f"{db}.c", allowMigrations=False),
    "configureCollectionBalancing": lambda admin, db: admin.command("configureCollectionBalancing", f"{db}.c", chunkSize=8),
    "addShardToZone": lambda admin, db: admin.command("addShardToZone", "s0", zone=db),
    "updateZoneKeyRange": lambda admin, db: admin.command("updateZoneKeyRange", f"{db}.c", min={"a": 0}, max={"a": 9}, zone="there"),
    "removeShard": lambda admin, db: admin.command("removeShard", "s1"),
}


# fail points of the config servers: each leaves a transaction open, as a router does that ends
FAILURES = {
    "a statement without a reply": ("onPrimaryTransactionalWrite", {"closeConnection": True}),
    "a commit that conflicts": ("failCommand", {"failCommands": ["commitTransaction"], "errorCode": 112}),
    "a commit without a connection": ("failCommand", {"failCommands": ["commitTransaction"], "closeConnection": True}),
}


@contextlib.contextmanager
def failing(config, name, mode, data):
    """Yields a function that returns how often the fail point was entered."""
    with fail_point(config, name, mode, data):
        yield lambda: config.admin.command({"configureFailPoint": name, "mode": "off"})["count"]


def count_of(client, point, mode, data):
    return client.admin.command({"configureFailPoint": point, "mode": mode, "data": data})["count"]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_repeats_a_transaction_that_was_not_done(config, routed, change):
    for at, (point, data) in enumerate(FAILURES.values()):
        name = f"{change}{at}"
        filled(routed, name)
        with failing(config, point, {"times": 2}, data) as entered:
            CHANGES[change](routed.admin, name)
            assert entered() == 2
        assert sum(1 for _ in routed[name].c.find()) + sum(1 for _ in routed[name].d.find()) == DOCUMENTS
        assert routed[name].plain.count_documents({}) == DOCUMENTS
    assert routed.config.locks.count_documents({"_id": {"$regex": f"^{change}"}}) == 0


def test_a_change_does_not_wait_for_a_transaction_that_another_router_left(cluster, config, routed):
    filled(routed, "left")
    with config.start_session() as session:
        session.start_transaction()
        for collection in ("locks", "databases"):
            config.config[collection].update_one({"_id": "left"}, {"$set": {"left": True}}, upsert=True, session=session)
        assert routed.admin.command("movePrimary", "left", to="s1")["primary"] == "s1"
        # the first commit wins
        assert code_of(session.commit_transaction) == 112
    assert routed.config.databases.find_one({"_id": "left"})["primary"] == "s1"


def test_a_change_that_is_repeated_in_vain_ends(config, routed):
    filled(routed, "vain")
    point, data = FAILURES["a commit that conflicts"]
    with failing(config, point, "alwaysOn", data):
        # by its time limit, and by itself, with an error that no transaction of the client has led to
        assert code_of(lambda: routed.admin.command("split", "vain.c", middle={"a": 10}, maxTimeMS=500)) == 50
        with pytest.raises(OperationFailure) as caught:
            routed.admin.command("split", "vain.c", middle={"a": 10})
        assert caught.value.code == 117 and not caught.value.has_error_label("TransientTransactionError")
    routed.admin.command("split", "vain.c", middle={"a": 10})


def described(routed, name):
    """All that the config servers say of a database, and of the shards."""
    config = routed.config
    of_name = {"_id": {"$regex": rf"^{name}(\.|$)"}}
    collections = list(config.collections.find(of_name, sort=[("_id", 1)]))
    chunks = config.chunks.find({"uuid": {"$in": [one["uuid"] for one in collections]}}, sort=[("uuid", 1), ("min", 1)])
    zones = config.tags.find({"ns": {"$regex": rf"^{name}\."}}, sort=[("_id", 1)])
    return collections, list(chunks), list(zones), list(config.databases.find(of_name)), list(config.shards.find(sort=[("_id", 1)]))


@pytest.mark.parametrize("change", CHANGES | OTHERS)
def test_a_router_that_has_lost_its_lock_changes_nothing(config, routed, change):
    name, codes = f"{change}_lost", []
    filled(routed, name)
    routed.admin.command("addShardToZone", "s0", zone="there")
    before = described(routed, name)
    locks = config.config.get_collection("locks", write_concern=pymongo.WriteConcern("majority"))
    of_change = {"_id": re.compile(rf"^({name}(\.|$)|config\.(shards|tags))")}
    point, data = FAILURES["a commit that conflicts"]

    def run():
        try:
            (CHANGES | OTHERS)[change](routed.admin, name)
        except OperationFailure as error:
            codes.append(error.code)

    # until another router has the lock, no commit succeeds
    with fail_point(config, point, "alwaysOn", data):
        thread = threading.Thread(target=run)
        thread.start()
        deadline = time.monotonic() + 30
        # it has all its locks
        while count_of(config, point, "alwaysOn", data) == 0:
            assert time.monotonic() < deadline and not codes
        held = locks.find_one(of_change)
        taken = {"_id": held["_id"], "ts": ObjectId()}
        assert locks.update_one({"_id": held["_id"]}, {"$set": {"ts": taken["ts"], "who": "another router"}}).matched_count
    thread.join()
    assert codes == [46] and described(routed, name) == before
    assert locks.delete_one(taken).deleted_count == 1, "it belongs to the other router"
    assert routed[name].c.count_documents({}) == routed[name].plain.count_documents({}) == DOCUMENTS
    if change != "removeShard":
        (CHANGES | OTHERS)[change](routed.admin, name)
        assert described(routed, name) != before or change == "clearJumboFlag"


# plain writes of the config servers: locks, databases, zones, settings, definitions
WRITES = ["insert", "update", "delete"]
LOST_WRITES = {
    "before it has run": ("failCommand", {"failCommands": WRITES, "closeConnection": True}),
    "after it has run": ("onPrimaryTransactionalWrite", {"closeConnection": True}),
    "before it was replicated": ("failCommand", {"failCommands": WRITES, "writeConcernError": {"code": 189, "errmsg": "a new primary"}}),
}


@pytest.mark.parametrize("lost", LOST_WRITES)
def test_a_write_whose_reply_is_lost_is_repeated(config, routed, lost):
    name = f"lost{list(LOST_WRITES).index(lost)}"
    filled(routed, name)
    zone = {"min": {"a": MinKey()}, "max": {"a": 0}, "zone": name}
    routed.admin.command("addShardToZone", "s0", zone=name)
    statements = {
        "enableSharding": lambda: routed.admin.command("enableSharding", f"{name}_new", primaryShard="s1"),
        "updateZoneKeyRange": lambda: routed.admin.command("updateZoneKeyRange", f"{name}.c", **zone),
        "balancerStop": lambda: routed.admin.command("balancerStop"),
        "createIndexes": lambda: routed[name].c.create_index("other"),
        "split": lambda: CHANGES["split"](routed.admin, name),
        "drop": lambda: routed[name].c.drop(),
    }
    point, data = LOST_WRITES[lost]
    for statement, run in statements.items():
        with failing(config, point, {"times": 2}, data) as entered:
            run()
            assert entered() > 0, statement
    assert routed.config.databases.find_one({"_id": f"{name}_new"})["primary"] == "s1"
    assert routed.config.locks.count_documents({"_id": {"$regex": name}}) == 0, "none was taken by a write of before"


def test_no_statement_fails_while_primaries_of_the_config_servers_are_killed(tmp_path):
    with contextlib.ExitStack() as stack:
        servers = stack.enter_context(Several(tmp_path, "cfg", "--configsvr", 3))
        members = servers.members
        with pymongo.MongoClient("127.0.0.1", members.members[0].port, directConnection=True) as client:
            client.admin.command("replSetInitiate", members.config())
        cluster = Cluster(tmp_path, stack, shards=1, config=servers)
        client = stack.enter_context(cluster.routers[0].client(retryWrites=False))
        errors, over = [], threading.Event()

        def run(worker):
            n = 0
            while not over.is_set():
                db = f"db{worker}_{n}"
                try:
                    client.admin.command("enableSharding", db)
                    client.admin.command("shardCollection", f"{db}.c", key={"a": 1})
                    client.admin.command("split", f"{db}.c", middle={"a": 0})
                    client.drop_database(db)
                except PyMongoError as error:
                    errors.append(error)
                n += 1

        threads = [threading.Thread(target=run, args=(worker,)) for worker in range(4)]
        [thread.start() for thread in threads]
        try:
            with pymongo.MongoClient(members.uri) as config:
                for _ in range(5):
                    config.config.databases.find_one()
                    leader = members.at(config.primary)
                    leader.kill()
                    deadline = time.monotonic() + 60
                    while config.primary is None or members.at(config.primary) is leader:
                        assert time.monotonic() < deadline
                        time.sleep(0.1)
                    leader.start()
        finally:
            over.set()
            [thread.join() for thread in threads]
        assert errors == []
        assert client.config.locks.count_documents({}) == client.config.chunks.count_documents({}) == 0


def operations(routed, comment):
    return [one["opid"] for one in routed.admin.aggregate([{"$currentOp": {"localOps": True}}, {"$match": {"command.comment": comment}}])]


STATEMENT = """
import pymongo, sys
from bson import json_util
with pymongo.MongoClient(sys.argv[1], retryWrites=False) as client:
    try:
        client.admin.command(json_util.loads(sys.argv[2]))
    except pymongo.errors.OperationFailure as error:
        print(error.code, end="")
"""


@pytest.mark.parametrize("change", ["split", "shardCollection", "mergeChunks", "setAllowMigrations"])
@pytest.mark.parametrize("end", ["killOp", "its client leaves"])
def test_a_statement_is_killed_while_its_transaction_is_repeated_and_outlives_its_client(cluster, config, routed, change, end):
    name = f"{change}_{end.split()[-1]}"
    filled(routed, name)
    before = described(routed, name)
    statements = {
        "split": {"split": f"{name}.c", "middle": {"a": 10}},
        "shardCollection": {"shardCollection": f"{name}.plain", "key": {"_id": 1}},
        "mergeChunks": {"mergeChunks": f"{name}.c", "bounds": [{"a": MinKey()}, {"a": MaxKey()}]},
        "setAllowMigrations": {"setAllowMigrations": f"{name}.c", "allowMigrations": False},
    }
    command = json_util.dumps({**statements[change], "comment": name})
    point, data = FAILURES["a commit that conflicts"]
    with fail_point(config, point, "alwaysOn", data):
        process = subprocess.Popen([sys.executable, "-c", STATEMENT, cluster.routers[0].uri, command], stdout=subprocess.PIPE, text=True)
        while config.admin.command({"configureFailPoint": point, "mode": "alwaysOn", "data": data})["count"] == 0:
            assert process.poll() is None
        [operation] = operations(routed, name)
        if end == "killOp":
            # otherwise it fails by itself after 15 seconds
            routed.admin.command("killOp", op=operation)
            assert process.communicate()[0] == "11601"
        else:
            process.kill()
            process.wait()
    deadline = time.monotonic() + 60
    while operations(routed, name):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert (described(routed, name) == before) == (end == "killOp")
    assert routed.config.locks.count_documents({"_id": {"$regex": f"^{name}"}}) == 0
    assert routed[name].plain.count_documents({}) == DOCUMENTS
    if end == "killOp":
        routed.admin.command(statements[change])
        assert described(routed, name) != before


# what runs until writers are held, and commits then
COMMITS = {
    "moveChunk": {"moveChunk": "{}.c", "find": {"a": 5}, "to": "s1"},
    "reshardCollection": {"reshardCollection": "{}.c", "key": {"b": 1}},
    "refineCollectionShardKey": {"refineCollectionShardKey": "{}.c", "key": {"a": 1, "b": 1}},
    "renameCollection": {"renameCollection": "{}.c", "to": "{}.d"},
    "drop": {"drop": "c"},
    "dropDatabase": {"dropDatabase": 1},
}


def of_name(command, name):
    return {field: value.format(name) if isinstance(value, str) else value for field, value in command.items()}


def in_thread(routed, name, command, **options):
    """Runs a command on its database, and returns the thread and a list that gets its code."""
    codes, db = [], name if "drop" in next(iter(command)) else "admin"

    def run():
        try:
            routed[db].command({**of_name(command, name), "comment": name, **options})
            codes.append(0)
        except OperationFailure as error:
            codes.append(error.code)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, codes


@pytest.mark.parametrize("change", COMMITS)
@pytest.mark.parametrize("end", ["killOp", "maxTimeMS"])
def test_a_commit_that_is_repeated_ends_with_its_statement(config, routed, change, end):
    name = f"{change}_{end}"
    db = filled(routed, name)
    before = described(routed, name)
    point, data = FAILURES["a commit that conflicts"]
    options = {"maxTimeMS": 3000} if end == "maxTimeMS" else {}
    with contextlib.ExitStack() as stack:
        if change == "reshardCollection":
            # it waits for a transaction until its commit is to fail
            session = stack.enter_context(routed.start_session())
            session.start_transaction()
            db.c.update_one({"_id": 1, "a": 1}, {"$set": {"x": 1}}, session=session)
        thread, codes = in_thread(routed, name, COMMITS[change], **options)
        if change == "reshardCollection":
            while routed.config.reshardingOperations.count_documents({"ns": f"{name}.c"}) == 0:
                assert not codes
        stack.enter_context(fail_point(config, point, "alwaysOn", data))
        if change == "reshardCollection":
            session.abort_transaction()
        while count_of(config, point, "alwaysOn", data) == 0:
            assert not codes, codes
        if end == "killOp":
            [operation] = operations(routed, name)
            routed.admin.command("killOp", op=operation)
            count_of(config, point, "alwaysOn", data)
        # otherwise it fails by itself after 15 seconds, with 117
        thread.join()
        if end == "killOp":
            assert count_of(config, point, "alwaysOn", data) <= 5, "its commit was tried again and again"
        assert codes == [11601 if end == "killOp" else 50]
        # writers are not held any more
        db.c.update_one({"_id": 5, "a": 5}, {"$set": {"x": 5}})
    assert described(routed, name) == before
    assert routed.config.locks.count_documents({"_id": {"$regex": f"^{name}"}}) == 0
    assert db.c.count_documents({}) == db.plain.count_documents({}) == DOCUMENTS
    routed[name if "drop" in change else "admin"].command(of_name(COMMITS[change], name))
    assert described(routed, name) != before


@pytest.mark.parametrize("change, step", [
    ("moveChunk", "_shardsvrSetOwnership"), ("reshardCollection", "_shardsvrReplaceCollection"),
    ("refineCollectionShardKey", "_shardsvrSetOwnership"), ("renameCollection", "_shardsvrReplaceCollection"), ("drop", "drop"),
    ("dropDatabase", "dropDatabase")])
def test_a_statement_that_is_killed_behind_its_commit_ends_as_it_would_have(cluster, config, routed, change, step):
    name = f"{change}_behind"
    db = filled(routed, name)
    before = described(routed, name)
    data = {"failCommands": [step], "blockConnection": True, "blockTimeMS": 2000}
    decided = {
        "moveChunk": lambda: any(chunk["shard"] == "s1" for chunk in described(routed, name)[1]),
        "refineCollectionShardKey": lambda: "b" in routed.config.collections.find_one({"_id": f"{name}.c"})["key"],
    }
    with cluster.shards[0].client() as s0:
        if change not in decided:
            s0.admin.command({"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": data})
        with fail_point(config, "failCommand", "alwaysOn", {"failCommands": ["commitTransaction"], "blockConnection": True, "blockTimeMS": 300}):
            thread, codes = in_thread(routed, name, COMMITS[change])
            while not decided[change]() if change in decided else count_of(s0, "failCommand", {"times": 1}, data) == 0:
                assert not codes, codes
            for operation in operations(routed, name):
                routed.admin.command("killOp", op=operation)
            s0.admin.command("configureFailPoint", "failCommand", mode="off")
        thread.join()
    assert codes == [0]
    assert described(routed, name) != before
    assert routed.config.locks.count_documents({"_id": {"$regex": f"^{name}"}}) == 0
    left = sum(routed[name][collection].count_documents({}) for collection in ("c", "d"))
    assert left == (0 if "drop" in change else DOCUMENTS)
