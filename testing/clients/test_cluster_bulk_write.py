"""`bulkWrite` on sharded collections and on databases of several shards, as one server does it."""

import contextlib

import pymongo
import pytest
from pymongo import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne

from arbor_cluster import Cluster
from arbor_process import Arbor
from test_cluster_streams import sharded
from test_router import code_of


@pytest.fixture(scope="module")
def routed(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        cluster = Cluster(tmp_path_factory.mktemp("bulk"), stack, shards=3)
        client = stack.enter_context(cluster.routers[0].client())
        sharded(client, "bulk.c")
        client.admin.command("enableSharding", "away", primaryShard="s1")
        yield client


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    with Arbor(tmp_path_factory.mktemp("alone") / "data") as server:
        with pymongo.MongoClient("127.0.0.1", server.port) as client:
            yield client


def reset(client):
    for collection in (client.bulk.c, client.away.d):
        collection.delete_many({})
    client.bulk.c.insert_many([{"_id": n, "v": 0} for n in range(0, 30, 3)])


def run(client, ops, **options):
    reset(client)
    command = {"bulkWrite": 1, "ops": ops, "nsInfo": [{"ns": "bulk.c"}, {"ns": "away.d"}], **options}
    reply = client.admin.command(command)
    batch = reply["cursor"]["firstBatch"]
    counts = {name: value for name, value in reply.items() if name.startswith("n")}
    state = [sorted(map(str, collection.find())) for collection in (client.bulk.c, client.away.d)]
    for entry in batch:
        entry.pop("errmsg", None)
    return batch, counts, state


CASES = {
    "all kinds": ([
        {"insert": 0, "document": {"_id": 1}}, {"insert": 0, "document": {"_id": 11}}, {"insert": 0, "document": {"_id": 22}},
        {"update": 0, "filter": {"_id": 3}, "updateMods": {"$inc": {"v": 1}}},
        {"update": 0, "filter": {}, "updateMods": {"$inc": {"v": 1}}, "multi": True},
        {"update": 0, "filter": {"_id": 14}, "updateMods": {"$set": {"v": 9}}, "upsert": True},
        {"update": 0, "filter": {"_id": 9}, "updateMods": {"_id": 9, "r": 1}},
        {"update": 0, "filter": {"_id": 28}, "updateMods": {"$set": {"v": 1}}},
        {"insert": 1, "document": {"_id": "x"}},
        {"delete": 0, "filter": {"_id": 27}}, {"delete": 0, "filter": {"v": 1}, "multi": True},
        {"update": 1, "filter": {"_id": "x"}, "updateMods": [{"$set": {"p": 1}}]},
        {"delete": 1, "filter": {"_id": "none"}}], {}),
    "an error ends an ordered one": ([
        {"insert": 0, "document": {"_id": 1}}, {"insert": 0, "document": {"_id": 3}}, {"insert": 0, "document": {"_id": 4}}], {}),
    "an error of the last": ([
        {"insert": 0, "document": {"_id": 1}}, {"insert": 1, "document": {"_id": 1}}, {"insert": 1, "document": {"_id": 1}}], {}),
    "an unordered one continues": ([
        {"insert": 0, "document": {"_id": 1}}, {"insert": 0, "document": {"_id": 3}}, {"insert": 0, "document": {"_id": 24}},
        {"insert": 0, "document": {"_id": 25}}, {"update": 0, "filter": {"_id": 1}, "updateMods": {"$bad": 1}},
        {"delete": 0, "filter": {"_id": 25}}], {"ordered": False}),
    "only errors": ([
        {"insert": 0, "document": {"_id": 1}}, {"insert": 0, "document": {"_id": 3}}], {"ordered": False, "errorsOnly": True}),
    "variables": ([
        {"update": 0, "filter": {"$expr": {"$eq": ["$_id", "$$own"]}}, "updateMods": {"$set": {"v": 5}}, "multi": True},
        {"delete": 0, "filter": {"$expr": {"$eq": ["$_id", "$$own"]}}, "multi": True}], {"let": {"own": 9}}),
}


@pytest.mark.parametrize("case", CASES)
def test_as_one_server(routed, alone, case):
    ops, options = CASES[case]
    assert run(routed, ops, **options) == run(alone, ops, **options)


@pytest.mark.parametrize("command", [
    {"ops": [], "nsInfo": [{"ns": "bulk.c"}]},
    {"ops": [{"insert": 0, "document": {}}], "nsInfo": []},
    {"ops": [{"insert": 1, "document": {}}], "nsInfo": [{"ns": "bulk.c"}]},
    {"ops": [{"replace": 0}], "nsInfo": [{"ns": "bulk.c"}]},
    {"ops": [{"delete": 0}], "nsInfo": [{"ns": "bulk.c"}]},
    {"ops": [{"insert": 0, "document": {}, "x": 1}], "nsInfo": [{"ns": "bulk.c"}]},
    {"ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": "nothing"}]},
    {"ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": "bulk.c"}], "nope": 1}])
def test_bad_input(routed, alone, command):
    codes = [code_of(lambda client=client: client.admin.command({"bulkWrite": 1, **command})) for client in (routed, alone)]
    assert codes[0] == codes[1]


def test_the_drivers_own(routed):
    reset(routed)
    models = [InsertOne({"_id": 1}, namespace="bulk.c"), UpdateOne({"_id": 12}, {"$set": {"a": 1}}, namespace="bulk.c"),
              ReplaceOne({"_id": 15}, {"b": 1}, namespace="bulk.c"), InsertOne({"_id": 7}, namespace="away.d"),
              DeleteOne({"_id": 0}, namespace="bulk.c")]
    result = routed.bulk_write(models, verbose_results=True)
    assert (result.inserted_count, result.modified_count, result.deleted_count) == (2, 2, 1)
    many = [UpdateMany({}, {"$set": {"m": 1}}, namespace="bulk.c"), DeleteMany({"_id": {"$lt": 15}}, namespace="bulk.c")]
    result = routed.bulk_write(many)
    assert result.modified_count == 10 and result.deleted_count == 5
    with routed.start_session() as session:
        with session.start_transaction():
            routed.bulk_write([InsertOne({"_id": n}, namespace="bulk.c") for n in (2, 13, 28)], session=session)
            session.abort_transaction()
        assert routed.bulk.c.count_documents({"_id": {"$in": [2, 13, 28]}}) == 0
        with session.start_transaction():
            routed.bulk_write([InsertOne({"_id": n}, namespace="bulk.c") for n in (2, 13, 28)], session=session)
        assert routed.bulk.c.count_documents({"_id": {"$in": [2, 13, 28]}}) == 3


def test_results_in_several_batches(routed):
    reset(routed)
    ops = [{"insert": 0, "document": {"_id": n + 100}} for n in range(10)]
    reply = routed.admin.command({"bulkWrite": 1, "ops": ops, "nsInfo": [{"ns": "bulk.c"}], "cursor": {"batchSize": 4}})
    assert len(reply["cursor"]["firstBatch"]) == 4 and reply["nInserted"] == 10
    more = routed.admin.command("getMore", reply["cursor"]["id"], collection="$cmd.bulkWrite")
    assert [entry["idx"] for entry in more["cursor"]["nextBatch"]] == list(range(4, 10))
