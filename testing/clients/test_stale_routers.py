"""Statements on several collections through a router that does not know where they are now."""

import contextlib

import pytest
from pymongo import DeleteOne, InsertOne, UpdateMany

from arbor_cluster import Cluster
from test_router import code_of


@pytest.fixture
def routers(tmp_path):
    with contextlib.ExitStack() as stack:
        cluster = Cluster(tmp_path, stack)
        client, other = (stack.enter_context(router.client()) for router in cluster.routers)
        client.admin.command("enableSharding", "de", primaryShard="s0")
        yield client, other


def test_a_bulk_write_on_what_was_sharded_or_moved_by_another_router(routers):
    client, other = routers
    for name in ("c", "plain"):
        client.de[name].insert_many([{"_id": n, "a": n} for n in range(10)])
        # the other router learns that one shard has all of it
        other.bulk_write([UpdateMany({}, {"$set": {"z": 0}}, namespace=f"de.{name}")])
    client.de.c.create_index("a")
    client.admin.command("shardCollection", "de.c", key={"a": 1})
    client.admin.command("split", "de.c", middle={"a": 5})
    client.admin.command("moveChunk", "de.c", find={"a": 5}, to="s1")
    done = other.bulk_write([
        InsertOne({"_id": "new", "a": 7}, namespace="de.c"), UpdateMany({"a": {"$gte": 0}}, {"$set": {"z": 1}}, namespace="de.c"),
        DeleteOne({"a": 9}, namespace="de.c")])
    assert (done.inserted_count, done.matched_count, done.deleted_count) == (1, 11, 1)
    assert client.de.c.count_documents({"z": 1}) == client.de.c.count_documents({}) == 10
    assert client.de.c.find_one({"_id": "new"})["z"] == 1
    client.admin.command("movePrimary", "de", to="s1")
    other.bulk_write([InsertOne({"_id": "new"}, namespace="de.plain"), UpdateMany({}, {"$set": {"z": 2}}, namespace="de.plain")])
    assert client.de.plain.count_documents({"z": 2}) == 11


def test_reads_of_collections_that_another_router_has_sharded(routers):
    client, other = routers
    for name in ("c", "own"):
        client.de[name].insert_many([{"_id": n, "a": n} for n in range(10)])
    client.de.c.create_index("a")
    join = {"$lookup": {"from": "c", "localField": "a", "foreignField": "a", "as": "x"}}
    found = {"$match": {"x.a": {"$gte": 0}}}
    client.de.create_collection("joined", viewOn="own", pipeline=[join, found])
    client.de.create_collection("above", viewOn="c", pipeline=[])
    client.de.create_collection("facets", viewOn="joined", pipeline=[{"$facet": {"a": [{"$unionWith": {"coll": "c"}}, {"$count": "n"}]}}])

    def counts():
        read = other.de.own.aggregate
        return [
            len(list(read([join, found]))), len(list(read([{"$unionWith": "above"}]))), other.de.joined.count_documents({}), other.de.above.count_documents({}),
            len(list(other.de.above.find())), other.de.facets.find_one()["a"][0]["n"], len(other.de.joined.distinct("x.a")),
        ]

    expected = [10, 20, 10, 10, 10, 20, 10]
    assert counts() == expected
    client.admin.command("shardCollection", "de.c", key={"a": 1})
    client.admin.command("split", "de.c", middle={"a": 5})
    client.admin.command("moveChunk", "de.c", find={"a": 5}, to="s1")
    assert counts() == expected


def test_a_clone_does_not_take_the_name_of_a_collection_that_another_router_has_moved(routers):
    client, other = routers
    for name in ("c", "to"):
        client.de[name].insert_many([{"_id": n} for n in range(10)])
    clone = {"cloneCollectionAsCapped": "c", "toCollection": "to", "size": 4096}
    # the other router learns that the primary shard has it
    assert other.de.to.count_documents({}) == 10 and code_of(lambda: other.de.command(clone)) == 48
    client.admin.command("moveCollection", "de.to", toShard="s1")
    assert code_of(lambda: other.de.command(clone)) == 48
    assert client.admin.command("checkMetadataConsistency", 1)["cursor"]["firstBatch"] == []
    assert other.de.to.count_documents({}) == 10 and "capped" not in other.de.to.options()
    # its own place is that of the database
    client.admin.command("moveCollection", "de.c", toShard="s1")
    assert code_of(lambda: other.de.command({**clone, "toCollection": "new"})) == 20
    client.admin.command("moveCollection", "de.c", toShard="s0")
    other.de.command({**clone, "toCollection": "new"})
    assert client.de.new.count_documents({}) == 10 and client.de.new.options()["capped"]
