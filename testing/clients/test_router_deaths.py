"""Routers that end in the middle of a change of definitions: another one completes all of it, or nothing was changed."""

import contextlib
import random
import threading
import time

import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from arbor_cluster import Router
from test_cluster_definitions import DOCUMENTS, cluster, databases, filled, of_database, of_shards, on_shards, problems, routed, sharded  # noqa: F401


def wait_for_left_locks(routed):
    """Waits until what routers have left is completed."""
    deadline = time.monotonic() + 60
    while routed.config.locks.count_documents({"renewed": True}):
        assert time.monotonic() < deadline, list(routed.config.locks.find())
        time.sleep(0.5)


def count_when_whole(routed, name):
    """The documents of a collection, as soon as requests on it are not refused."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return routed.de[name].count_documents({})
        except OperationFailure as error:
            if error.code != 13388 or time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def test_a_router_that_dies_leaves_all_or_nothing(cluster, routed, tmp_path):
    rng = random.Random(7)
    changed = []
    for attempt in range(4):
        for change in ("rename", "drop"):
            name, new = f"{change}{attempt}", f"{change}{attempt}_new"
            sharded(routed, name, shards=("s0", "s1", "s2"))
            changed.append((change, name, new))
            with Router(tmp_path, cluster.config) as router, router.client(retryWrites=False) as client:
                collection = client.de[name]
                collection.find_one()

                def run(collection=collection, new=new, change=change):
                    with contextlib.suppress(PyMongoError):
                        collection.rename(new) if change == "rename" else collection.drop()

                thread = threading.Thread(target=run)
                thread.start()
                time.sleep(rng.uniform(0, 0.2))
                # half of them are decided, or over
                while attempt >= 2 and thread.is_alive() and not routed.config.definitionChanges.count_documents({"_id": f"de.{name}"}):
                    pass
                router.kill()
                thread.join()
    outcomes = {"rename": set(), "drop": set()}
    for change, name, new in changed:
        # another router completes it, if it was decided; its lock must grow old first
        old, there = (count_when_whole(routed, one) for one in (name, new))
        assert (old, there) in [(DOCUMENTS, 0), (0, DOCUMENTS if change == "rename" else 0)], (name, old, there)
        outcomes[change].add(old)
        assert sum(of_shards(cluster, name).values()) == old and sum(of_shards(cluster, new).values()) == there
    assert problems(routed) == []
    assert all(0 in of_change for of_change in outcomes.values()), "none was completed"


def test_a_router_that_dies_moves_all_of_a_database_or_nothing(cluster, routed, tmp_path):
    rng, names, left = random.Random(11), [], {"s0": 0, "s1": 0}
    while min(left.values()) < 3 and len(names) < 20:
        db = f"moved{len(names)}"
        names.append(db)
        expected = filled(routed, db)
        with Router(tmp_path, cluster.config) as router, router.client(retryWrites=False) as client:
            client[db].c1.find_one()

            def run(client=client, db=db):
                with contextlib.suppress(PyMongoError):
                    client.admin.command("movePrimary", db, to="s1")

            thread = threading.Thread(target=run)
            thread.start()
            # the copy begins, or is over
            deadline, state = time.monotonic() + 30, {}
            awaited = "moving" if left["s0"] < 3 else "primary"
            while time.monotonic() < deadline and thread.is_alive():
                state = routed.config.databases.find_one({"_id": db})
                if awaited == "moving" and "moving" in state or awaited == "primary" and state["primary"] == "s1":
                    break
            # on a busy machine a whole copy may pass unseen, so later attempts do not wait
            time.sleep(rng.uniform(0, 0.05 if len(names) <= 3 else 0))
            router.kill()
            thread.join()
        left[routed.config.databases.find_one({"_id": db})["primary"]] += 1
    wait_for_left_locks(routed)
    for db in names:
        state = routed.config.databases.find_one({"_id": db})
        assert "moving" not in state
        there = of_database(cluster, db)
        for shard, found in there.items():
            own = {name: n for name, n in found.items() if name != "sharded"}
            assert own == (expected if shard == state["primary"] else {}), (shard, state)
        routed[db].c1.insert_one({"_id": "later"})
        assert routed.admin.command("movePrimary", db, to="s2")["primary"] == "s2"
        assert routed[db].c1.count_documents({}) == expected["c1"] + 1
    assert all(left.values()), "both outcomes were seen"


def test_changes_of_routers_that_died_are_completed_without_a_statement(cluster, routed, tmp_path):
    rng = random.Random(11)
    work = {
        "createIndexes": lambda db: db.c.create_indexes([pymongo.IndexModel("b"), pymongo.IndexModel("c")]),
        "dropIndexes": lambda db: db.c.drop_indexes(),
        "collMod": lambda db: db.command("collMod", "c", changeStreamPreAndPostImages={"enabled": True}),
        "dropDatabase": lambda db: db.client.drop_database(db.name),
    }
    changed = []
    for change in (*work, *work):
        name = f"{change}{len(changed)}"
        routed.admin.command("enableSharding", name, primaryShard="s0")
        routed.admin.command("shardCollection", f"{name}.c", key={"a": 1})
        for at, shard in ((100, "s1"), (200, "s2")):
            routed.admin.command("split", f"{name}.c", middle={"a": at})
            routed.admin.command("moveChunk", f"{name}.c", find={"a": at}, to=shard)
        routed[name].c.insert_many([{"_id": n, "a": n, "b": n, "c": n} for n in range(DOCUMENTS)])
        routed[name].c.create_index("d")
        routed[name].plain.insert_one({"_id": 1})
        changed.append((change, name))
        with Router(tmp_path, cluster.config) as router, router.client(retryWrites=False) as client:
            client[name].c.find_one()

            def run(db=client[name], change=change):
                with contextlib.suppress(PyMongoError):
                    work[change](db)

            thread = threading.Thread(target=run)
            thread.start()
            # the second one of each is killed early, when it may not have decided yet
            time.sleep(rng.uniform(0.03, 0.12) if len(changed) <= 4 else rng.uniform(0.005, 0.04))
            router.kill()
            thread.join()
    wait_for_left_locks(routed)
    assert routed.config.definitionChanges.count_documents({}) == 0
    before, done = {"_id_", "a_1", "d_1"}, {
        "createIndexes": ({"_id_", "a_1", "d_1", "b_1", "c_1"}, False), "dropIndexes": ({"_id_", "a_1"}, False),
        "collMod": ({"_id_", "a_1", "d_1"}, True)}
    completed = 0
    for change, name in changed:
        found = on_shards(cluster, name, "c")
        if change == "dropDatabase":
            parts = [db for shard in cluster.shards for db in databases(shard) if db == name]
            listed = routed.config.databases.count_documents({"_id": name})
            assert (len(found), bool(parts), listed) in [(0, False, 0), (3, True, 1)], (name, found, parts, listed)
            completed += not found
            # it is there again, or still, for all routers
            routed[name].c.insert_one({"_id": "new", "a": 1})
            with cluster.other.client() as other:
                assert other[name].c.count_documents({"_id": "new"}) == 1
            continue
        assert len(found) == 3 and len(set(found)) == 1, (name, found)
        assert found[0] in [(frozenset(before), False), (frozenset(done[change][0]), done[change][1])], (name, found)
        completed += set(found[0][0]) != before or found[0][1]
    assert completed, "none was completed"
    assert problems(routed) == []


def test_a_router_that_dies_while_it_shards_a_collection_holds_nothing(cluster, routed, tmp_path):
    rng = random.Random(5)
    names = [f"begun{attempt}" for attempt in range(6)]
    for name in names:
        collection = routed.de[name]
        collection.insert_many([{"_id": n, "a": n} for n in range(3000)])
        collection.create_index("a")
        with Router(tmp_path, cluster.config) as router, router.client(retryWrites=False) as client:
            client.de[name].find_one()

            def run(client=client, name=name):
                with contextlib.suppress(PyMongoError):
                    client.admin.command("shardCollection", f"de.{name}", key={"a": 1})

            thread = threading.Thread(target=run)
            thread.start()
            time.sleep(rng.uniform(0.005, 0.06))
            router.kill()
            thread.join()
    wait_for_left_locks(routed)
    for shard in cluster.shards:
        with shard.client() as direct:
            assert direct.config.cache.ownership.count_documents({"_id": {"$regex": "^de.begun"}, "state": "blocked"}) == 0
    known = [own["uuid"] for own in routed.config.collections.find()]
    assert routed.config.chunks.count_documents({"uuid": {"$nin": known}}) == 0
    for name in names:
        with cluster.other.client() as other:
            assert other.de[name].count_documents({}) == 3000
        routed.admin.command("shardCollection", f"de.{name}", key={"a": 1})
        assert routed.de[name].count_documents({"a": {"$lt": 10}}) == 10
    assert problems(routed) == []
