"""Collections get another shard key, and move from shard to shard, while clients read and write them."""

import contextlib
import random
import threading
import time

import bson
import pymongo
import pytest
from pymongo.errors import OperationFailure

from arbor_cluster import Cluster
from test_fail_points import fail_point
from test_router import code_of

DOCUMENTS = 3000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        flags = ["--setParameter", "enableTestCommands=1"]
        yield Cluster(tmp_path_factory.mktemp("reshard"), stack, shards=3, config_flags=flags)


@pytest.fixture(scope="module")
def routed(cluster):
    with cluster.routers[0].client() as client:
        client.admin.command("balancerStop")
        yield client


def document(n):
    return {"_id": n, "a": n, "b": (n * 7919) % DOCUMENTS, "c": str(n)}


def sharded(routed, name, documents=DOCUMENTS):
    """A collection by `a` with a part on each shard."""
    namespace = f"re.{name}"
    routed.admin.command("enableSharding", "re", primaryShard="s0")
    routed.admin.command("shardCollection", namespace, key={"a": 1})
    width = (documents or DOCUMENTS) // 3
    for middle, shard in ((width, "s1"), (2 * width, "s2")):
        routed.admin.command("split", namespace, middle={"a": middle})
        routed.admin.command("moveChunk", namespace, find={"a": middle}, to=shard)
    collection = routed.re[name]
    collection.create_index("c")
    if documents:
        collection.insert_many([document(n) for n in range(documents)])
    return namespace, collection


def of_shards(cluster, name):
    """Documents of each shard, read directly."""
    found = {}
    for shard in cluster.shards:
        with shard.client() as client:
            found[shard.name] = {doc["_id"] for doc in client.re[name].find({}, {"_id": 1})}
    return found


def check_nothing_is_left(cluster, routed):
    assert list(routed.config.reshardingOperations.find()) == []
    uuids = [own["uuid"] for own in routed.config.collections.find()]
    assert routed.config.chunks.count_documents({"uuid": {"$nin": uuids}}) == 0
    for shard in cluster.shards:
        with shard.client() as client:
            names = client.re.list_collection_names()
            assert not [name for name in names if name.startswith("system.resharding")]
            assert client.config.rangeDeletions.count_documents({"nss": {"$regex": "resharding"}}) == 0


def shards_of_plan(collection, query):
    plan = collection.find(query).explain()["queryPlanner"]["winningPlan"]
    return sorted(shard["shardName"] for shard in plan["shards"])


def test_a_collection_gets_another_key(cluster, routed):
    namespace, collection = sharded(routed, "plain")
    for key in ({"b": 1}, {"b": "hashed"}, {"a": 1, "b": 1}, {"_id": 1}):
        routed.admin.command("reshardCollection", namespace, key=key)
        assert routed.config.collections.find_one({"_id": namespace})["key"] == key
        assert sorted(collection.find(), key=lambda doc: doc["_id"]) == [document(n) for n in range(DOCUMENTS)]
        parts = of_shards(cluster, "plain")
        assert sum(len(part) for part in parts.values()) == DOCUMENTS
        assert min(len(part) for part in parts.values()) > DOCUMENTS // 6, "each shard has a part"
        assert set(collection.index_information()) >= {"_id_", "c_1"}
        one = document(5)
        assert len(shards_of_plan(collection, {field: one[field] for field in key})) == 1
        assert collection.find_one({"c": "17"}) == document(17)
        with cluster.routers[1].client() as other:
            assert other.re.plain.count_documents({}) == DOCUMENTS
            assert other.re.plain.update_one({"b": 3, "_id": document(3)["_id"]}, {"$set": {"c": "3"}}).matched_count <= 1
        check_nothing_is_left(cluster, routed)


def test_the_number_of_chunks_and_the_same_key(routed):
    namespace, collection = sharded(routed, "chunks")
    routed.admin.command("reshardCollection", namespace, key={"b": 1}, numInitialChunks=9)
    uuid = routed.config.collections.find_one({"_id": namespace})["uuid"]
    assert routed.config.chunks.count_documents({"uuid": uuid}) == 9
    routed.admin.command("reshardCollection", namespace, key={"b": 1})
    assert routed.config.collections.find_one({"_id": namespace})["uuid"] == uuid, "nothing to do"
    routed.admin.command("reshardCollection", namespace, key={"b": 1}, forceRedistribution=True)
    assert routed.config.collections.find_one({"_id": namespace})["uuid"] != uuid
    assert collection.count_documents({}) == DOCUMENTS


class Writers:
    """Threads that change documents, and what they have been acknowledged."""

    def __init__(self, cluster, name, threads=4):
        self.ended = threading.Event()
        self.errors, self.states = [], [{} for _ in range(threads)]
        self.threads = [
            threading.Thread(target=self.write, args=(cluster.routers[n % 2], name, n)) for n in range(threads)]
        for thread in self.threads:
            thread.start()

    def write(self, router, name, own):
        """Each thread has its documents, so it knows what they are."""
        chance, state, number = random.Random(own), self.states[own], 0
        with router.client() as client:
            collection = client.re[name]
            while not self.ended.is_set():
                number += 1
                try:
                    choice = chance.random()
                    if choice < 0.4 or not state:
                        new = {"_id": f"{own}-{number}", "a": chance.randrange(DOCUMENTS), "b": number, "n": 0}
                        collection.insert_one(new)
                        state[new["_id"]] = new
                        continue
                    id = chance.choice(list(state))
                    if choice < 0.8:
                        assert collection.update_one({"_id": id, "a": state[id]["a"], "b": state[id]["b"]}, {"$inc": {"n": 1}}).modified_count == 1
                        state[id]["n"] += 1
                    else:
                        assert collection.delete_many({"_id": id}).deleted_count == 1
                        del state[id]
                except Exception as error:
                    self.errors.append(error)
                    return

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        assert self.errors == []
        return {id: doc for state in self.states for id, doc in state.items()}


def test_writes_go_on(cluster, routed):
    namespace, collection = sharded(routed, "busy")
    with collection.watch([{"$match": {"operationType": {"$in": ["insert", "invalidate", "drop", "rename"]}}}]) as stream:
        writers = Writers(cluster, "busy")
        try:
            for key in ({"b": 1}, {"a": "hashed"}):
                time.sleep(0.5)
                routed.admin.command("reshardCollection", namespace, key=key)
            time.sleep(0.5)
        finally:
            written = writers.end()
        found = {doc["_id"]: doc for doc in collection.find({"n": {"$exists": True}})}
        assert found == written
        assert collection.count_documents({}) == DOCUMENTS + len(written)
        collection.insert_one({"_id": "last", "a": 1, "b": 1})
        seen = []
        for event in stream:
            assert event["operationType"] == "insert"
            seen.append(event["documentKey"]["_id"])
            if seen[-1] == "last":
                break
        assert len(seen) == len(set(seen)), "each insert once"
        assert set(written) <= set(seen)
    check_nothing_is_left(cluster, routed)


def test_a_collection_is_unsharded_moved_and_sharded(cluster, routed):
    namespace, collection = sharded(routed, "one")
    writers = Writers(cluster, "one")
    try:
        routed.admin.command("unshardCollection", namespace, toShard="s2")
        assert routed.config.collections.find_one({"_id": namespace})["unsplittable"] is True
        for to in ("s1", "s1", "s2"):
            routed.admin.command("moveCollection", namespace, toShard=to)
        assert shards_of_plan(collection, {"c": "1"}) == ["s2"]
        # nothing is asked of the shard key any more
        collection.create_index("c", unique=True, partialFilterExpression={"c": {"$exists": True}}, name="unique")
        collection.drop_index("unique")
        assert collection.update_one({"c": "new"}, {"$set": {"q": 1}}, upsert=True).upserted_id is not None
        assert collection.find_one_and_update({"q": 1}, {"$set": {"q": 2}}, sort=[("c", 1)])["q"] == 1
        assert collection.delete_one({"q": 2}).deleted_count == 1
        assert code_of(lambda: routed.admin.command("split", namespace, middle={"_id": 5})) == 118
        routed.admin.command("shardCollection", namespace, key={"b": "hashed"})
    finally:
        written = writers.end()
    assert "unsplittable" not in routed.config.collections.find_one({"_id": namespace})
    assert {doc["_id"]: doc for doc in collection.find({"n": {"$exists": True}})} == written
    assert collection.count_documents({}) == DOCUMENTS + len(written)
    assert min(len(part) for part in of_shards(cluster, "one").values()) > DOCUMENTS // 6
    check_nothing_is_left(cluster, routed)


def test_a_collection_that_was_never_sharded_moves(cluster, routed):
    routed.admin.command("enableSharding", "re", primaryShard="s0")
    collection = routed.re.single
    collection.insert_many([document(n) for n in range(100)])
    collection.create_index("b")
    routed.admin.command("moveCollection", "re.single", toShard="s1")
    assert shards_of_plan(collection, {}) == ["s1"]
    with cluster.routers[1].client() as other:
        assert other.re.single.count_documents({}) == 100
        assert "b_1" in other.re.single.index_information()
    assert routed.re.plain2.aggregate([{"$lookup": {"from": "single", "pipeline": [], "as": "x"}}]).to_list() == []
    routed.re.plain2.insert_one({"_id": 1, "single": 5})
    joined = routed.re.plain2.aggregate(
        [{"$lookup": {"from": "single", "localField": "single", "foreignField": "_id", "as": "x"}}]).to_list()
    assert joined[0]["x"] == [document(5)]
    collection.drop()
    assert "single" not in routed.re.list_collection_names()
    assert routed.config.collections.find_one({"_id": "re.single"}) is None


def test_a_capped_collection_moves_in_its_order(cluster, routed):
    routed.admin.command("enableSharding", "re", primaryShard="s0")
    capped = routed.re.create_collection("capped", capped=True, size=1 << 20, max=400)
    order = random.Random(5)
    ids = [f"{order.random()}-{n}" for n in range(1000)]
    capped.insert_many([{"_id": id, "n": n} for n, id in enumerate(ids)])
    ended = threading.Event()

    def write():
        with cluster.routers[1].client() as other:
            while not ended.is_set():
                ids.append(f"{order.random()}-{len(ids)}")
                other.re.capped.insert_one({"_id": ids[-1], "n": len(ids) - 1})

    for to in ("s1", "s2", "s0"):
        ended.clear()
        writer = threading.Thread(target=write)
        writer.start()
        try:
            routed.admin.command("moveCollection", "re.capped", toShard=to)
            time.sleep(0.2)
        finally:
            ended.set()
            writer.join()
        assert shards_of_plan(capped, {}) == [to]
        assert [doc["_id"] for doc in capped.find().sort("$natural", 1)] == ids[-400:], to
        assert [doc["n"] for doc in capped.find(sort=[("$natural", -1)], limit=2)] == [len(ids) - 1, len(ids) - 2]
        assert capped.options()["capped"] is True
    assert code_of(lambda: routed.admin.command("shardCollection", "re.capped", key={"n": 1})) == 72
    assert capped.delete_one({"_id": ids[-1]}).deleted_count == 1
    capped.drop()
    check_nothing_is_left(cluster, routed)


def test_a_collection_with_a_collation_moves(cluster, routed):
    routed.admin.command("enableSharding", "re", primaryShard="s0")
    spoken = routed.re.create_collection("spoken", collation={"locale": "en", "strength": 2})
    spoken.create_index("w", unique=True)
    spoken.insert_many([{"_id": f"Name{n}", "w": f"Word{n}"} for n in range(500)])
    with cluster.routers[1].client() as other:
        for at, to in enumerate(("s1", "s2", "s0")):
            stop = threading.Event()

            def write(at=at, stop=stop):
                n = 0
                while not stop.is_set():
                    assert other.re.spoken.update_one({"_id": f"name{n % 500}"}, {"$inc": {f"seen{at}": 1}}).matched_count == 1
                    n += 1
                counts.append(n)

            counts = []
            writer = threading.Thread(target=write)
            writer.start()
            routed.admin.command("moveCollection", "re.spoken", toShard=to)
            stop.set()
            writer.join()
            assert sum(doc.get(f"seen{at}", 0) for doc in spoken.find()) == counts[0]
            assert shards_of_plan(spoken, {}) == [to] and spoken.count_documents({}) == 500
            for client in (routed, other):
                assert client.re.spoken.find_one({"_id": "NAME7"})["w"] == "Word7"
                assert client.re.spoken.count_documents({"w": "wORD9"}) == 1
                assert code_of(lambda client=client: client.re.spoken.insert_one({"_id": "nAME3"})) == 11000
                assert code_of(lambda client=client: client.re.spoken.insert_one({"_id": "x", "w": "word4"})) == 11000
    assert [doc["_id"] for doc in spoken.find(sort=[("_id", 1)], limit=2)] == ["Name0", "Name1"]
    spoken.drop_index("w_1")
    routed.admin.command("shardCollection", "re.spoken", key={"w": 1}, collation={"locale": "simple"})
    assert spoken.count_documents({"w": "word11"}) == 1 and spoken.count_documents({}) == 500
    check_nothing_is_left(cluster, routed)


def test_zones_of_the_new_key(cluster, routed):
    namespace, collection = sharded(routed, "zoned")
    for shard, zone in (("s0", "low"), ("s1", "high"), ("s2", "high")):
        routed.admin.command("addShardToZone", shard, zone=zone)
    routed.admin.command("updateZoneKeyRange", namespace, min={"a": 0}, max={"a": 10}, zone="low")
    zones = [{"min": {"b": bson.MinKey()}, "max": {"b": 1000}, "zone": "low"},
             {"min": {"b": 2000}, "max": {"b": bson.MaxKey()}, "zone": "high"}]
    reshard = lambda zones, **key: routed.admin.command("reshardCollection", namespace, key=key, zones=zones)
    assert code_of(lambda: reshard([{**zones[0], "zone": "none"}], b=1)) == 177
    assert code_of(lambda: reshard([{**zones[0], "min": {"b": 1000}}], b=1)) == 2
    assert code_of(lambda: reshard([{**zones[0], "max": {"c": 1000}}], b=1)) == 2
    assert code_of(lambda: reshard([zones[0], {**zones[1], "min": {"b": 999}}], b=1)) == 178
    assert routed.config.tags.count_documents({"ns": namespace, "min": {"a": 0}}) == 1
    reshard(zones, b=1)
    ranges = [(tag["min"], tag["max"], tag["tag"]) for tag in routed.config.tags.find({"ns": namespace}).sort("min", 1)]
    assert ranges == [(zone["min"], zone["max"], zone["zone"]) for zone in zones]
    parts = of_shards(cluster, "zoned")
    by_id = {document(n)["_id"]: document(n)["b"] for n in range(DOCUMENTS)}
    assert {id for id, b in by_id.items() if b < 1000} <= parts["s0"]
    assert {id for id, b in by_id.items() if b >= 2000} <= parts["s1"] | parts["s2"]
    assert collection.count_documents({}) == DOCUMENTS
    # the same key keeps them, another one does not
    routed.admin.command("reshardCollection", namespace, key={"b": 1}, forceRedistribution=True)
    assert routed.config.tags.count_documents({"ns": namespace}) == 2
    routed.admin.command("reshardCollection", namespace, key={"c": 1})
    assert routed.config.tags.count_documents({"ns": namespace}) == 0
    check_nothing_is_left(cluster, routed)


@pytest.mark.parametrize("delay", [0, 0.2, 0.6, 1.2])
def test_a_shard_that_is_killed_meanwhile_ends_nothing(cluster, routed, delay):
    """The operation begins again, as often as that is needed."""
    name = f"donor{int(delay * 10)}"
    namespace, collection = sharded(routed, name, documents=0)
    collection.insert_many([document(n) for n in range(15_000)], ordered=False)
    thread, failed = running(routed, cluster, namespace, {"b": 1})
    time.sleep(delay)
    donor = cluster.shards[int(delay * 10) % 3]
    donor.kill()
    time.sleep(0.3)
    donor.start()
    thread.join(150)
    assert not thread.is_alive()
    assert not failed and routed.config.collections.find_one({"_id": namespace})["key"] == {"b": 1}
    assert collection.count_documents({}) == 15_000
    collection.insert_one({"_id": "after", "a": 1, "b": 1})
    assert collection.update_one({"a": 7, "b": document(7)["b"]}, {"$set": {"x": 1}}).modified_count == 1
    check_nothing_is_left(cluster, routed)
    routed.admin.command("reshardCollection", namespace, key={"b": "hashed"})
    assert sum(len(part) for part in of_shards(cluster, name).values()) == 15_001
    check_nothing_is_left(cluster, routed)


def test_no_step_after_the_decision_is_left_out(cluster, routed):
    namespace, _ = sharded(routed, "steps", documents=300)
    # after the deletes of the zones and of the old chunks
    data = {"failCommands": ["delete"], "errorCode": 8}
    with cluster.config.client() as config, fail_point(config, "failCommand", {"skip": 2}, data):
        thread, failed = running(routed, cluster, namespace, {"b": 1})
        # its steps are repeated meanwhile
        thread.join(2)
    thread.join(60)
    assert not thread.is_alive() and not failed
    assert "resharding" not in routed.config.collections.find_one({"_id": namespace})
    check_nothing_is_left(cluster, routed)


def test_what_is_refused_leaves_nothing(cluster, routed):
    namespace, collection = sharded(routed, "refused", documents=300)
    reshard = lambda **fields: routed.admin.command("reshardCollection", namespace, **fields)
    assert code_of(lambda: routed.admin.command("reshardCollection", "re.none", key={"b": 1})) == 118
    assert code_of(lambda: routed.admin.command("unshardCollection", "re.none")) == 118
    assert code_of(lambda: routed.admin.command("moveCollection", "re.none", toShard="s1")) == 26
    assert code_of(lambda: routed.admin.command("moveCollection", namespace, toShard="s1")) == 20
    assert code_of(lambda: routed.admin.command("abortReshardCollection", namespace)) == 339
    assert code_of(lambda: routed.admin.command("commitReshardCollection", namespace)) == 339
    assert code_of(lambda: reshard(key={"b": -1})) == 2
    assert code_of(lambda: reshard(key={"b": 1}, unique=True)) == 2
    assert code_of(lambda: reshard(key={"b": 1}, numInitialChunks=0)) == 2
    assert code_of(lambda: routed.admin.command("unshardCollection", namespace, toShard="s9")) == 70
    # an array at a field of the new key
    collection.insert_one({"_id": "array", "a": 0, "b": [1, 2]})
    assert code_of(lambda: reshard(key={"b": 1})) == 61
    collection.delete_one({"_id": "array", "a": 0})
    # the same _id on two shards
    collection.insert_many([{"_id": "twice", "a": 0}, {"_id": "twice", "a": 299}])
    assert code_of(lambda: reshard(key={"b": 1})) == 11000
    collection.delete_one({"_id": "twice", "a": 0})
    # a unique index that the new key does not begin
    collection.create_index([("a", 1), ("b", 1)], unique=True)
    assert code_of(lambda: reshard(key={"b": 1})) == 72
    check_nothing_is_left(cluster, routed)
    assert routed.config.collections.find_one({"_id": namespace})["key"] == {"a": 1}
    assert collection.count_documents({}) == 301
    collection.insert_one({"_id": "after", "a": 200})


def running(routed, cluster, namespace, key):
    """A reshardCollection of the second router, once it has begun."""
    failed = []

    def run():
        with cluster.routers[1].client() as other:
            try:
                other.admin.command("reshardCollection", namespace, key=key)
            except pymongo.errors.PyMongoError as error:
                failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 30
    while routed.config.reshardingOperations.find_one({"ns": namespace}) is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return thread, failed


def test_it_can_be_aborted(cluster, routed):
    namespace, collection = sharded(routed, "aborted", documents=0)
    collection.insert_many([{**document(n), "p": "x" * 500} for n in range(30_000)], ordered=False)
    thread, failed = running(routed, cluster, namespace, {"b": 1})
    routed.admin.command("abortReshardCollection", namespace)
    thread.join(60)
    assert [error.code for error in failed] == [341]
    check_nothing_is_left(cluster, routed)
    assert collection.count_documents({}) == 30_000
    collection.update_many({}, {"$unset": {"p": 1}})


@pytest.mark.parametrize("delay", [0, 0.3, 1, 2])
def test_a_router_that_ends_meanwhile_loses_nothing(cluster, routed, delay):
    name = f"killed{int(delay * 10)}"
    namespace, collection = sharded(routed, name, documents=0)
    collection.insert_many([document(n) for n in range(20_000)], ordered=False)
    thread, _ = running(routed, cluster, namespace, {"b": 1})
    time.sleep(delay)
    cluster.routers[1].kill()
    thread.join(60)
    cluster.routers[1].start()
    # whatever it has left, the collection can be read and written
    assert collection.count_documents({}) == 20_000
    collection.insert_one({"_id": "after", "a": 1, "b": 1})
    deadline = time.monotonic() + 60
    while True:
        try:
            routed.admin.command("reshardCollection", namespace, key={"b": "hashed"})
            break
        except OperationFailure as error:
            assert error.code == 117 and time.monotonic() < deadline, error
            time.sleep(0.5)
    assert collection.count_documents({}) == 20_001
    assert sum(len(part) for part in of_shards(cluster, name).values()) == 20_001
    check_nothing_is_left(cluster, routed)
