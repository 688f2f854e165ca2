"""Chunks move between shards while clients read and write through routers: nothing fails, nothing is lost, nothing is doubled."""

import contextlib
import os
import random
import threading
import time

import bson
import pymongo
import pytest
from pymongo.errors import OperationFailure, PyMongoError

from arbor_cluster import Cluster, Router
from test_router import code_of

WAIT = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        yield Cluster(tmp_path_factory.mktemp("moves"), stack, flags=("--setParameter", "enableTestCommands=1"))


@pytest.fixture(scope="module")
def routed(cluster):
    with cluster.routers[0].client() as client:
        yield client


def until(condition):
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


def chunks_of(routed, namespace):
    uuid = routed.config.collections.find_one({"_id": namespace})["uuid"]
    return list(routed.config.chunks.find({"uuid": uuid}).sort("min", 1))


def other_shard(shard):
    return "s1" if shard == "s0" else "s0"


def shard_called(cluster, name):
    return next(shard for shard in cluster.shards if shard.name == name)


def directly(cluster, name, db, collection):
    with shard_called(cluster, name).client() as client:
        return sorted(client[db][collection].find(), key=lambda doc: str(doc["_id"]))


@pytest.mark.parametrize("key", [{"k": 1}, {"k": "hashed"}, {"_id": 1}, {"k": 1, "_id": 1}])
def test_a_chunk_moves_and_comes_back(cluster, routed, key):
    name = "c" + "".join(key) + "".join(str(direction) for direction in key.values())
    namespace = f"there.{name}"
    collection = routed.there[name]
    if key == {"k": "hashed"}:
        routed.admin.command("shardCollection", namespace, key=key, numInitialChunks=4)
    else:
        routed.admin.command("shardCollection", namespace, key=key)
        for middle in (50, 100):
            bound = {field: middle if at == 0 else bson.MinKey() for at, field in enumerate(key)}
            routed.admin.command("split", namespace, middle=bound)
    documents = [{"_id": n, "k": n, "v": str(n)} for n in range(200)]
    collection.insert_many(documents)
    collection.create_index("v")
    chunk = chunks_of(routed, namespace)[1]
    source, target = chunk["shard"], other_shard(chunk["shard"])
    before = len(directly(cluster, target, "there", name))
    for to in (target, source, target):
        bounds = [chunk["min"], chunk["max"]]
        routed.admin.command("moveChunk", namespace, bounds=bounds, to=to)
        moved = [own for own in chunks_of(routed, namespace) if own["_id"] == chunk["_id"]]
        assert [own["shard"] for own in moved] == [to]
        # the range's documents may still be on the donor, hidden
        with cluster.routers[1].client() as other:
            for client in (routed, other):
                assert list(client.there[name].find().sort("_id", 1)) == documents
                assert client.there[name].count_documents({}) == 200
                assert client.there[name].count_documents({"v": {"$in": ["60", "61"]}}) == 2
                assert sorted(client.there[name].distinct("k")) == list(range(200))
                groups = client.there[name].aggregate([{"$group": {"_id": None, "n": {"$sum": 1}}}])
                assert [group["n"] for group in groups] == [200]
    until(lambda: len(directly(cluster, source, "there", name)) + len(directly(cluster, target, "there", name)) == 200)
    assert len(directly(cluster, target, "there", name)) > before
    for shard in cluster.shards:
        with shard.client() as client:
            until(lambda: client.config.rangeDeletions.count_documents({"nss": namespace}) == 0)
    log = list(routed.config.changelog.find({"ns": namespace, "what": "moveChunk.commit"}))
    assert len(log) == 3
    for details in (entry["details"] for entry in log):
        assert details["criticalSectionMicros"] > 0 and details["throttledMS"] >= 0


def test_a_transaction_does_not_miss_what_has_arrived(routed):
    """Its snapshot on the recipient is from before the move."""
    routed.admin.command("enableSharding", "late", primaryShard="s0")
    routed.admin.command("shardCollection", "late.c", key={"k": 1})
    routed.admin.command("split", "late.c", middle={"k": 50})
    routed.admin.command("moveChunk", "late.c", find={"k": 50}, to="s1")
    routed.late.c.insert_many([{"k": n} for n in range(100)])
    with routed.start_session() as session:
        session.start_transaction()
        assert routed.late.c.count_documents({"k": 60}, session=session) == 1
        routed.admin.command("moveRange", "late.c", min={"k": 20}, max={"k": 50}, toShard="s1")
        with pytest.raises(OperationFailure) as caught:
            routed.late.c.count_documents({"k": 30}, session=session)
        assert caught.value.code == 272 and caught.value.has_error_label("TransientTransactionError")
        with contextlib.suppress(OperationFailure):
            session.abort_transaction()
        with session.start_transaction():
            assert routed.late.c.count_documents({"k": 30}, session=session) == 1
            routed.late.c.update_one({"k": 30}, {"$set": {"n": 1}}, session=session)
    assert routed.late.c.count_documents({"n": 1}) == 1


def test_hidden_documents_are_not_changed(cluster, routed):
    """On the donor, before they are deleted, and on the recipient, before they are its own."""
    routed.admin.command("shardCollection", "hidden.c", key={"k": 1})
    collection = routed.hidden.c
    collection.insert_many([{"_id": n, "k": n, "v": 0} for n in range(100)])
    source = chunks_of(routed, "hidden.c")[0]["shard"]
    routed.admin.command("split", "hidden.c", middle={"k": 50})
    cursor = collection.find().batch_size(2)
    seen = [next(cursor)["_id"]]
    routed.admin.command("moveRange", "hidden.c", min={"k": 50}, toShard=other_shard(source))
    assert collection.update_many({}, {"$inc": {"v": 1}}).modified_count == 100
    assert collection.delete_many({"v": 1, "_id": {"$gte": 90}}).deleted_count == 10
    seen += [doc["_id"] for doc in cursor]
    assert sorted(seen) == list(range(100)), "a cursor of before shows what was there"
    assert all(doc["v"] == 1 for doc in collection.find())


def test_a_snapshot_of_before_the_deletion_does_not_show_the_range(cluster, routed):
    """The donor had its documents then, but under the present version the recipient shows them."""
    # on a busy machine a deletion may be over before its range is seen
    assert any(a_snapshot_before_a_deletion(cluster, routed, f"c{attempt}") for attempt in range(5))


def a_snapshot_before_a_deletion(cluster, routed, name):
    namespace = f"cleared.{name}"
    routed.admin.command("shardCollection", namespace, key={"k": 1})
    routed.cleared[name].insert_many([{"_id": n, "k": n} for n in range(100)])
    source = chunks_of(routed, namespace)[0]["shard"]
    routed.admin.command("split", namespace, middle={"k": 50})
    routed.admin.command("moveRange", namespace, min={"k": 50}, toShard=other_shard(source))
    with shard_called(cluster, source).client() as client:
        time_ = client.admin.command("ping")["operationTime"]
        concern = {"level": "snapshot", "atClusterTime": time_}
        directly_ = client.cleared.command("find", name, batchSize=1000, readConcern=concern)
        if len(directly_["cursor"]["firstBatch"]) < 100:
            return False
        until(lambda: client.config.rangeDeletions.count_documents({"nss": namespace}) == 0)
        version = client.config["cache.ownership"].find_one({"_id": namespace})["version"]
        directly_ = client.cleared.command("find", name, batchSize=1000, readConcern=concern)
        assert len(directly_["cursor"]["firstBatch"]) == 100
        found = client.cleared.command("find", name, batchSize=1000, readConcern=concern, shardVersion=version)
        assert len(found["cursor"]["firstBatch"]) == 50
    return True


@contextlib.contextmanager
def ranges_kept(cluster):
    """Documents of ranges that have left stay where they were."""
    def set_mode(mode):
        for shard in cluster.shards:
            with shard.client() as client:
                client.admin.command("configureFailPoint", "suspendRangeDeletion", mode=mode)

    set_mode("alwaysOn")
    try:
        yield
    finally:
        set_mode("off")


def test_an_id_that_has_left_is_free(cluster, routed):
    """The shard that a document has left still has it: its `_id` can be that of another document all the same."""
    routed.admin.command("enableSharding", "freed", primaryShard="s0")
    routed.admin.command("shardCollection", "freed.c", key={"k": 1})
    collection = routed.freed.c
    collection.insert_many([{"_id": n, "k": n, "v": "old"} for n in range(100)])
    routed.admin.command("split", "freed.c", middle={"k": 50})
    with ranges_kept(cluster):
        routed.admin.command("moveChunk", "freed.c", find={"k": 50}, to="s1")
        assert len(directly(cluster, "s0", "freed", "c")) == 100
        with collection.watch(max_await_time_ms=100) as stream:
            assert collection.delete_many({"k": {"$in": [60, 61, 62, 63, 64]}}).deleted_count == 5
            # not that of a document that is still there
            assert code_of(lambda: collection.insert_one({"_id": 10, "k": 20})) == 11000
            collection.insert_one({"_id": 60, "k": 20, "v": "new"})
            collection.update_one({"_id": 61, "k": 21.5}, {"$set": {"v": "new"}}, upsert=True)
            collection.find_one_and_update({"_id": 62, "k": 22.5}, {"$set": {"v": "new"}}, upsert=True)
            with routed.start_session() as session, session.start_transaction():
                collection.insert_one({"_id": 63, "k": 23.5, "v": "new"}, session=session)
            events = []
            until(lambda: events.append(stream.try_next()) or len([event for event in events if event]) == 9)
        assert sorted(event["operationType"] for event in events if event) == ["delete"] * 5 + ["insert"] * 4
        assert [doc["_id"] for doc in collection.find({"v": "new"}).sort("_id", 1)] == [60, 61, 62, 63]
        assert [collection.count_documents({"_id": n}) for n in range(60, 65)] == [1, 1, 1, 1, 0]
    for shard in cluster.shards:
        with shard.client() as client:
            until(lambda: client.config.rangeDeletions.count_documents({"nss": "freed.c"}) == 0)
    assert collection.count_documents({}) == 99
    assert len(directly(cluster, "s0", "freed", "c")) + len(directly(cluster, "s1", "freed", "c")) == 99


def test_a_range_arrives_over_what_has_left(cluster, routed):
    """A document that arrives has the `_id` of one that has left."""
    routed.admin.command("enableSharding", "freed", primaryShard="s0")
    routed.admin.command("shardCollection", "freed.d", key={"k": 1})
    collection = routed.freed.d
    for middle in (0, 50):
        routed.admin.command("split", "freed.d", middle={"k": middle})
    routed.admin.command("moveChunk", "freed.d", find={"k": -1}, to="s1", _waitForDelete=True)
    collection.insert_many([{"_id": n, "k": n} for n in range(100)])
    with ranges_kept(cluster):
        routed.admin.command("moveChunk", "freed.d", find={"k": 50}, to="s1")
        collection.delete_one({"k": 60})
        collection.insert_one({"_id": 60, "k": -1})
        routed.admin.command("moveRange", "freed.d", min={"k": -10}, max={"k": 0}, toShard="s0")
        assert list(collection.find({"_id": 60})) == [{"_id": 60, "k": -1}]


def test_only_what_is_hidden_is_deleted(cluster, routed):
    """A row of a range that requests still see, as of a move that ends at this moment."""
    routed.admin.command("shardCollection", "shown.c", key={"_id": 1})
    routed.shown.c.insert_many([{"_id": n} for n in range(100)])
    source = chunks_of(routed, "shown.c")[0]["shard"]
    shard = shard_called(cluster, source)
    with shard.client() as client:
        client.config.rangeDeletions.insert_one({
            "nss": "shown.c", "range": {"min": {"_id": 50}, "max": {"_id": bson.MaxKey()}}, "keyPattern": {"_id": 1},
            "whenToClean": "now", "side": "donor", "low": b"\x1e\x64", "high": b"\xf0"})
        time.sleep(3)
        assert client.shown.c.count_documents({}) == routed.shown.c.count_documents({}) == 100
    # from its start on the shard hides the range
    shard.stop()
    shard.start()
    with shard.client() as client:
        until(lambda: client.shown.c.count_documents({}) == 50)


def test_bad_input(routed):
    admin = routed.admin
    admin.command("shardCollection", "wrong.c", key={"k": 1})
    admin.command("split", "wrong.c", middle={"k": 0})
    routed.wrong.c.insert_one({"k": 5})
    own = chunks_of(routed, "wrong.c")[1]
    target = other_shard(own["shard"])
    admin.command("moveChunk", "wrong.c", find={"k": 5}, to=own["shard"])
    assert code_of(lambda: admin.command("moveChunk", "wrong.c", find={"k": 5}, to="s9")) == 70
    assert code_of(lambda: admin.command("moveChunk", "wrong.c", to=target)) == 2
    assert code_of(lambda: admin.command("moveChunk", "wrong.c", find={"k": 5}, bounds=[{"k": 0}, {"k": 1}], to=target)) == 2
    bounds = [{"k": 0}, {"k": 7}]
    assert code_of(lambda: admin.command("moveChunk", "wrong.c", bounds=bounds, to=target)) == 2
    assert code_of(lambda: admin.command("moveRange", "wrong.c", min={"k": -1}, max={"k": 1}, toShard=target)) == 2
    assert code_of(lambda: admin.command("moveRange", "wrong.c", toShard=target)) == 2
    assert code_of(lambda: admin.command("moveChunk", "wrong.unsharded", find={"k": 5}, to=target)) == 118
    routed.config.chunks.update_one({"_id": own["_id"]}, {"$set": {"jumbo": True}})
    assert code_of(lambda: admin.command("moveChunk", "wrong.c", find={"k": 5}, to=target)) == 153
    held = {"_id": "wrong.c", "state": 2, "ts": bson.ObjectId(), "who": "test", "when": bson.datetime.datetime.now(bson.datetime.timezone.utc)}
    routed.config.locks.insert_one(held)
    assert code_of(lambda: admin.command("moveChunk", "wrong.c", find={"k": 5}, to=target)) == 117
    routed.config.locks.delete_one({"_id": "wrong.c"})
    admin.command("moveChunk", "wrong.c", find={"k": 5}, to=target, forceJumbo=True)
    assert "jumbo" not in chunks_of(routed, "wrong.c")[1]


def test_streams_do_not_show_moves(cluster, routed):
    routed.admin.command("shardCollection", "quiet.c", key={"k": 1})
    collection = routed.quiet.c
    collection.insert_many([{"_id": n, "k": n} for n in range(50)])
    source = chunks_of(routed, "quiet.c")[0]["shard"]
    target = other_shard(source)
    routed.admin.command("moveChunk", "quiet.c", find={"k": 1}, to=target, _waitForDelete=True)
    with shard_called(cluster, target).client() as new, new.quiet.c.watch(max_await_time_ms=200) as stream:
        routed.admin.command("moveChunk", "quiet.c", find={"k": 1}, to=source, _waitForDelete=True)
        routed.admin.command("moveChunk", "quiet.c", find={"k": 1}, to=target)
        collection.insert_one({"_id": 100, "k": 100})
        events = []
        until(lambda: events.append(stream.try_next()) or any(event for event in events))
        assert [event["documentKey"]["_id"] for event in events if event] == [100]


def test_a_retried_write_is_recognized_after_a_move(cluster, routed):
    routed.twice.c.drop()
    routed.admin.command("shardCollection", "twice.c", key={"k": 1})
    collection = routed.twice.c
    collection.insert_one({"_id": 1, "k": 1, "n": 0})
    source = chunks_of(routed, "twice.c")[0]["shard"]
    command = {
        "update": "c",
        "updates": [{"q": {"k": 1}, "u": {"$inc": {"n": 1}}}],
        "txnNumber": bson.Int64(1),
    }
    # a client of its own, whose session has not been used with other numbers
    with cluster.routers[0].client(retryWrites=False) as client, client.start_session() as session:
        raw = lambda: client.twice.command(bson.SON(command), session=session)
        assert raw()["nModified"] == 1
        routed.admin.command("moveChunk", "twice.c", find={"k": 1}, to=other_shard(source))
        again = raw()
    assert again["nModified"] == 1 and again.get("retriedStmtIds", [0]) == [0]
    assert collection.find_one()["n"] == 1


class Load:
    """Threads that change documents of their own, and know what each must be."""

    def __init__(self, cluster, namespace, threads=4, per_thread=100):
        self.cluster, self.threads, self.per_thread = cluster, threads, per_thread
        self.db, self.name = namespace.split(".")
        self.stop = threading.Event()
        self.failures = []
        self.operations = 0
        self.slowest = 0.0
        self.expected = [dict() for _ in range(threads)]

    def run(self, thread):
        rng = random.Random(int(os.environ.get("ARBOR_SEED", "7")) * 100 + thread)
        expected = self.expected[thread]
        router = self.cluster.routers[thread % len(self.cluster.routers)]
        with router.client() as client:
            collection = client[self.db][self.name]
            while not self.stop.is_set():
                k = rng.randrange(self.per_thread) * self.threads + thread
                begun = time.monotonic()
                try:
                    self.step(collection, rng, k, expected)
                except PyMongoError as error:
                    self.failures.append((k, repr(error)))
                self.slowest = max(self.slowest, time.monotonic() - begun)
                self.operations += 1

    @staticmethod
    def step(collection, rng, k, expected):
        kind = rng.randrange(6)
        if k not in expected:
            collection.insert_one({"_id": k, "k": k, "n": 0})
            expected[k] = 0
        elif kind == 0:
            assert collection.delete_one({"k": k}).deleted_count == 1, k
            del expected[k]
        elif kind <= 3:
            assert collection.update_one({"k": k}, {"$inc": {"n": 1}}).modified_count == 1, k
            expected[k] += 1
        elif kind == 4:
            found = collection.find_one_and_update({"k": k}, {"$inc": {"n": 1}})
            assert found is not None and found["n"] == expected[k], (k, found, expected[k])
            expected[k] += 1
        else:
            found = list(collection.find({"k": k}))
            assert [doc["n"] for doc in found] == [expected[k]], (k, found, expected[k])

    def guarded(self, thread):
        try:
            self.run(thread)
        except BaseException as error:
            self.failures.append((thread, repr(error)))

    def __enter__(self):
        self.workers = [threading.Thread(target=self.guarded, args=(thread,)) for thread in range(self.threads)]
        for worker in self.workers:
            worker.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for worker in self.workers:
            worker.join(timeout=120)
        assert not any(worker.is_alive() for worker in self.workers)

    def check(self, collection):
        everything = {}
        for own in self.expected:
            everything.update(own)
        found = [(doc["_id"], doc["n"]) for doc in collection.find().sort("_id", 1)]
        assert found == sorted(everything.items())


@pytest.mark.parametrize("hashed", [False, True])
def test_moves_under_load(cluster, routed, hashed):
    name = "hashed" if hashed else "ranged"
    namespace = f"load.{name}"
    if hashed:
        routed.admin.command("shardCollection", namespace, key={"k": "hashed"}, numInitialChunks=4)
    else:
        routed.admin.command("shardCollection", namespace, key={"k": 1})
        for middle in (100, 200, 300):
            routed.admin.command("split", namespace, middle={"k": middle})
    rng = random.Random(7)
    moves = int(os.environ.get("ARBOR_MOVES", "12"))
    with Load(cluster, namespace) as load:
        for _ in range(moves):
            chunk = rng.choice(chunks_of(routed, namespace))
            to = other_shard(chunk["shard"])
            routed.admin.command("moveChunk", namespace, bounds=[chunk["min"], chunk["max"]], to=to)
            seen = load.operations
            until(lambda: load.operations > seen + 20 or load.failures)
    assert load.failures == []
    load.check(routed.load[name])
    log = list(routed.config.changelog.find({"ns": namespace, "what": "moveChunk.commit"}))
    sections = sorted(entry["details"]["criticalSectionMicros"] / 1000 for entry in log)
    assert len(sections) == moves
    print(f"{load.operations} operations, slowest {load.slowest:.3f} s; critical sections {sections} ms")
    total = sum(len(directly(cluster, shard.name, "load", name)) for shard in cluster.shards)
    assert total >= routed.load[name].count_documents({})
    count = routed.load[name].count_documents({})
    until(lambda: sum(len(directly(cluster, shard.name, "load", name)) for shard in cluster.shards) == count)


@pytest.mark.parametrize("victim", ["donor", "recipient"])
def test_a_shard_is_killed_during_a_move(cluster, routed, victim):
    namespace = f"killed.{victim}"
    routed.admin.command("shardCollection", namespace, key={"k": 1})
    documents = [{"_id": n, "k": n, "v": "x" * 200} for n in range(5000)]
    routed.killed[victim].insert_many(documents)
    rng = random.Random(7)
    for _ in range(int(os.environ.get("ARBOR_KILLS", "4"))):
        [chunk] = chunks_of(routed, namespace)
        donor, recipient = chunk["shard"], other_shard(chunk["shard"])
        outcome = []

        def move():
            try:
                routed.admin.command("moveChunk", namespace, find={"k": 1}, to=recipient)
                outcome.append("moved")
            except PyMongoError as error:
                outcome.append(error)

        mover = threading.Thread(target=move)
        mover.start()
        time.sleep(rng.random())
        shard = shard_called(cluster, donor if victim == "donor" else recipient)
        shard.kill()
        shard.start()
        mover.join(timeout=180)
        assert not mover.is_alive()
        [after] = chunks_of(routed, namespace)
        assert after["shard"] == recipient or outcome != ["moved"]
        assert list(routed.killed[victim].find().sort("_id", 1)) == documents
        assert routed.killed[victim].update_many({}, {"$set": {"w": 1}}).matched_count == 5000
        assert routed.killed[victim].update_many({}, {"$unset": {"w": 1}}).modified_count == 5000
    until(lambda: sum(len(directly(cluster, shard.name, "killed", victim)) for shard in cluster.shards) == 5000)


def test_a_router_is_killed_as_soon_as_a_move_begins(cluster, routed, tmp_path):
    """The lock that it leaves is old after 15 seconds, although it was never renewed."""
    routed.admin.command("shardCollection", "left.c", key={"k": 1})
    routed.left.c.insert_many([{"_id": n, "k": n, "v": "x" * 500} for n in range(20_000)])
    [chunk] = chunks_of(routed, "left.c")
    to = other_shard(chunk["shard"])
    with Router(tmp_path, cluster.config) as victim:

        def move():
            with contextlib.suppress(PyMongoError), victim.client(serverSelectionTimeoutMS=100) as client:
                client.admin.command("moveChunk", "left.c", find={"k": 1}, to=to)

        mover = threading.Thread(target=move)
        mover.start()
        until(lambda: routed.config.locks.find_one({"_id": "left.c"}))
        victim.kill()
        mover.join(timeout=WAIT)
    assert routed.config.locks.find_one({"_id": "left.c"}), "the move has ended before the router"

    def moves():
        with contextlib.suppress(OperationFailure):
            return routed.admin.command("moveChunk", "left.c", find={"k": 1}, to=to)["ok"]

    until(moves)
    assert [chunk["shard"] for chunk in chunks_of(routed, "left.c")] == [to]
    assert routed.left.c.count_documents({}) == 20_000


def test_a_conflict_on_the_config_servers_is_not_shown(cluster, routed):
    routed.admin.command("shardCollection", "conflict.c", key={"k": 1})
    [chunk] = chunks_of(routed, "conflict.c")
    with cluster.config.client() as direct, direct.start_session() as session:
        session.start_transaction()
        assert direct.config.chunks.update_one({"_id": chunk["_id"]}, {"$set": {"note": 1}}, session=session).matched_count == 1
        timer = threading.Timer(0.5, session.abort_transaction)
        timer.start()
        routed.admin.command("split", "conflict.c", middle={"k": 5})
        timer.join()
    assert len(chunks_of(routed, "conflict.c")) == 2
