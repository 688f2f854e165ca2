"""A router whose config servers have all been killed: reads, writes and lists of what it knows continue, by its routing tables."""

import contextlib
import time

import pymongo
import pytest
from pymongo.errors import PyMongoError

from arbor_cluster import Cluster


@pytest.fixture
def cluster(tmp_path):
    with contextlib.ExitStack() as stack:
        cluster = Cluster(tmp_path, stack)
        with cluster.routers[0].client() as client:
            client.admin.command("enableSharding", "de", primaryShard="s0")
            client.admin.command("shardCollection", "de.c", key={"a": 1})
            client.admin.command("split", "de.c", middle={"a": 5})
            client.admin.command("moveChunk", "de.c", find={"a": 5}, to="s1")
            client.de.c.insert_many([{"_id": n, "a": n} for n in range(10)])
            client.de.plain.insert_many([{"_id": n, "a": n} for n in range(10)])
            client.admin.command("shardCollection", "de.left", key={"a": 1})
            client.admin.command("unshardCollection", "de.left", toShard="s1")
            client.de.left.insert_one({"a": 1})
            client.de.create_collection("view", viewOn="c", pipeline=[{"$match": {"a": {"$gte": 3, "$lt": 9}}}])
            client.other.plain.insert_one({})
            yield cluster, client


def statements(client):
    """Statements on what a router has used before, with what they return; `shift` is the key of a document that gets another shard."""
    de = client.de
    join = [{"$lookup": {"from": "plain", "localField": "a", "foreignField": "a", "as": "joined"}}, {"$match": {"joined.a": 4}}]

    def transaction():
        with client.start_session() as session, session.start_transaction():
            de.c.update_one({"a": 2}, {"$inc": {"n": 1}}, session=session)
            de.c.update_one({"a": 7}, {"$inc": {"n": 1}}, session=session)
        return de.c.count_documents({"n": {"$exists": True}})

    def moved():
        found = de.c.find_one({"_id": 9})["a"]
        return de.c.update_one({"_id": 9, "a": found}, {"$set": {"a": -found}}).modified_count

    def written():
        de.c.insert_one({"_id": "new", "a": 100})
        de.plain.insert_one({"_id": "new"})
        de.c.update_many({}, {"$set": {"b": 1}})
        return de.c.delete_one({"_id": "new"}).deleted_count + de.plain.delete_one({"_id": "new"}).deleted_count

    return {
        "find": (lambda: sum(1 for _ in de.c.find()), 10),
        "targeted": (lambda: sum(1 for _ in de.c.find({"a": 4})), 1),
        "unsharded": (lambda: sum(1 for _ in de.plain.find()), 10),
        "another database": (lambda: sum(1 for _ in client.other.plain.find()), 1),
        "view": (lambda: sum(1 for _ in de.view.find()), 6),
        "writes": (written, 2),
        "an update of the shard key": (moved, 1),
        "transaction": (transaction, 2),
        "bulkWrite": (lambda: client.bulk_write([pymongo.UpdateOne({"a": n}, {"$set": {"d": 1}}, namespace="de.c") for n in range(8)]).matched_count, 8),
        "findAndModify": (lambda: de.c.find_one_and_update({"a": 3}, {"$set": {"e": 1}})["_id"], 3),
        "count": (lambda: de.c.count_documents({"a": {"$gte": 3, "$lt": 8}}), 5),
        "estimate": (lambda: de.c.estimated_document_count(), 10),
        "distinct": (lambda: sorted(de.c.distinct("_id")), list(range(10))),
        "join": (lambda: [found["_id"] for found in de.c.aggregate(join)], [4]),
        "join of unsharded": (lambda: [found["_id"] for found in de.plain.aggregate(join)], [4]),
        "union with a view": (lambda: sum(1 for _ in de.plain.aggregate([{"$unionWith": "view"}])), 16),
        "$out": (lambda: list(de.c.aggregate([{"$out": "result"}])), []),
        "statistics": (lambda: (de.command("collStats", "c")["count"], de.command("dbStats")["views"]), (10, 1)),
        "collections": (lambda: sorted(de.list_collection_names()), ["c", "left", "plain", "result", "system.views", "view"]),
        "indexes": (lambda: [index["name"] for index in de.c.list_indexes()], ["_id_", "a_1"]),
        "databases": (lambda: [name for name in client.list_database_names() if name not in ("admin", "config")], ["de", "other"]),
        "catalogue": (lambda: sum(1 for _ in de.aggregate([{"$listClusterCatalog": {}}])), 6),
        "shards": (lambda: sorted(client.admin.command("getShardMap")["map"]), ["config", "s0", "s1"]),
    }


def check(client, when):
    for name, (run, expected) in statements(client).items():
        begun = time.monotonic()
        assert run() == expected, f"{name} {when}"
        # without the known table it is 15 s, twice for what drivers send again
        assert time.monotonic() - begun < 14, f"{name} {when}"


def test_reads_writes_and_lists_continue_without_config_servers(cluster):
    cluster, client = cluster
    check(client, "before")
    stream = client.de.c.watch(max_await_time_ms=100)
    cluster.config.kill()
    check(client, "without config servers")
    # changes of the cluster need them; one that was refused takes nothing away from the router
    with pytest.raises(PyMongoError), pymongo.timeout(4):
        client.admin.command("getShardVersion", "de.c")
    check(client, "after a refused command")
    client.de.c.insert_one({"_id": "seen", "a": 50})
    deadline, seen = time.monotonic() + 60, []
    while "seen" not in seen:
        assert time.monotonic() < deadline, seen
        event = stream.try_next()
        seen += [event["documentKey"]["_id"]] if event else []
    client.de.c.delete_one({"_id": "seen"})
    cluster.config.start()
    # another router shards a collection of a database that had none; this one finds out
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(PyMongoError), cluster.routers[1].client() as other:
            other.admin.command("shardCollection", "other.c", key={"a": 1})
            other.admin.command("unshardCollection", "other.c", toShard="s1")
            break
        assert time.monotonic() < deadline
    while "c" not in client.other.list_collection_names():
        assert time.monotonic() < deadline, client.other.list_collection_names()
        time.sleep(0.2)
    check(client, "afterwards")
